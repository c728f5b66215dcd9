"""What a trace asks for, as a job: distributions and a week of demand, small enough to be kept in a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import msgspec
import numpy as np

from gfs.batch.job import JobResult
from gfs.batch.simulation import Trace, load
from gfs.domain.units import DAY, HOUR
from gfs.experiments.views import WEEK
from gfs.telemetry.runs import TaskColumns
from gfs.workloads.inspection import Cdf, ClassSummary, Inspection, OrganizationDemand, inspect

ORGANIZATIONS = 4
POINTS = 200
"""Of a distribution, at most."""


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """What a trace asks for, before anything is scheduled."""

    trace: Trace
    weight: ClassVar[float] = 3.0
    """Little more than reading the trace."""

    @property
    def label(self) -> str:
        """Such as 'statistics of production x1, seed 0'."""
        return f"statistics of {self.trace.label}"

    def identity(self) -> dict[str, Any]:
        """The trace is all."""
        return {"job": "trace statistics", "trace": self.trace.identity()}

    def run(self) -> JobResult:
        """Look at it: distributions thinned, demand of a week and of the largest organizations."""
        workload = load(self.trace)
        seen = inspect(workload, ORGANIZATIONS)
        tasks = TaskColumns.of(workload)
        submitted = seen.last_submission - seen.first_submission
        begin = seen.first_submission + (WEEK if submitted > 2 * WEEK - DAY else 0.0)
        week = (seen.bin_start + seen.bin_seconds > begin) & (seen.bin_start < begin + WEEK)
        came = [t.submit_time for t in workload.tasks if not t.is_spot and t.submit_time > seen.first_submission]
        hours = (np.asarray(came) // HOUR).astype(np.int64) % 24  # those of the first instant ran before
        return {
            "submissions": [seen.first_submission, seen.last_submission],
            "pools": [asdict(pool) for pool in seen.pools],
            "classes": [_thin_class(c) for c in seen.classes],
            "hp_arrivals_by_hour": np.bincount(hours, minlength=24).tolist(),
            "organizations": seen.organizations,
            "bin_seconds": seen.bin_seconds,
            "bin_start": seen.bin_start[week].tolist(),
            "demand": [
                {"organization": d.organization, "gpus": np.round(d.gpus[week], 3).tolist()}
                for d in seen.demand[:ORGANIZATIONS]
            ],
            "running_percentiles": np.percentile(tasks.wanted, (90, 99)).tolist(),
            "whole_card_pods": _pod_share(seen, 1.0),
            "eight_card_pods": _pod_share(seen, 8.0),
        }


def _pod_share(seen: Inspection, gpus: float) -> float:
    """Share of all pods that ask for at least so many GPUs."""
    pods = sum(c.pods for c in seen.classes)
    return sum(c.pods * (1 - c.pod_requests.at(gpus - 1e-6)) for c in seen.classes) / pods


def _thin_class(c: ClassSummary) -> dict[str, Any]:
    pods, tasks, running = (thinned(cdf) for cdf in (c.pod_requests, c.task_requests, c.running_cdf))
    return asdict(replace(c, pod_requests=pods, task_requests=tasks, running_cdf=running))


def thinned(cdf: Cdf) -> Cdf:
    """A distribution with few enough points."""
    last = len(cdf.values) - 1
    kept = sorted({round(last * i / (POINTS - 1)) for i in range(POINTS)}) if last >= POINTS else range(last + 1)
    return Cdf(tuple(cdf.values[i] for i in kept), tuple(cdf.shares[i] for i in kept))


def restored(trace: JobResult) -> Inspection:
    """What the charts of a trace look at."""
    return Inspection(
        name="",
        first_submission=trace["submissions"][0],
        last_submission=trace["submissions"][1],
        pools=(),
        classes=msgspec.convert(trace["classes"], tuple[ClassSummary, ...]),
        organizations=trace["organizations"],
        bin_start=np.asarray(trace["bin_start"]),
        bin_seconds=trace["bin_seconds"],
        demand=tuple(OrganizationDemand(d["organization"], np.asarray(d["gpus"]), 0.0) for d in trace["demand"]),
        load=(),
    )
