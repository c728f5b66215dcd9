"""What a simulation gives back: numbers, the event table, and how it was made."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from gfs.assembly.parameters import Parameters
from gfs.core.ports import SolverFigures
from gfs.domain.text import printable
from gfs.domain.workload import Workload
from gfs.telemetry.breakdown import KINDS, Breakdown, Kind, break_down
from gfs.telemetry.decisions import AnyNote
from gfs.telemetry.metrics import Metrics
from gfs.telemetry.metrics_life import TaskStep, task_life
from gfs.telemetry.organization import OrganizationStory, organization_story
from gfs.version import __version__

Window = tuple[float | None, float | None]
"""Start and end of the evaluation window in seconds; None leaves a side open."""


class ForecastFigures(NamedTuple):
    """What the forecasts of a run took."""

    fits: int
    training_seconds: float
    """CPU seconds, like those of the forecasts."""
    forecasts: int
    forecast_seconds: float
    failures: int = 0
    """Fits and forecasts that failed: the quota went by the earlier model meanwhile, or was cautious."""


class ReservationFigures(NamedTuple):
    """What it took that no spot task starves."""

    tasks: int
    """Spot tasks that nodes were reserved for."""
    gpu_hours: float
    """GPU-hours that stood idle on these nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """One scheduler on one workload."""

    scheduler: str
    metrics: Metrics
    events: pa.Table
    """The event log, one row a pod."""
    quota: pa.Table | None
    """The spot quota at every tick, if it was recorded."""
    quota_in_force: str
    """What limited spot tasks, in words: 'none' or 'fixed 35%'."""
    parameters: Parameters
    window: Window
    seed: int
    seconds: float
    """CPU seconds of the simulation itself, without reading and writing files."""
    workload: Workload
    solver: SolverFigures | None = None
    """Where the scheduler solves programs: how that went."""
    forecasting: ForecastFigures | None = None
    """Where demand was forecast: what it took, as a part of `seconds`."""
    reservations: ReservationFigures | None = None
    """Where nodes were reserved for spot tasks that had waited too long: for how many, and what it cost."""
    decisions: Sequence[AnyNote] | None = None
    """What was expected, kept from spot tasks and weighed, if that was recorded."""
    _breakdowns: list[Breakdown] = field(init=False, default_factory=list, repr=False)
    """The breakdown, once somebody has asked for it."""

    def breakdown(self) -> Breakdown:
        """The figures by organization, GPU model and size of the task, and who evicts whom."""
        if not self._breakdowns:
            options: dict[str, Any] = {"rules": self.parameters.rules, "leases": self.metrics.leases}
            self._breakdowns.append(break_down(self.events, self.workload, window=self.window, **options))
        return self._breakdowns[0]

    def summary(self, by: Sequence[Kind] = KINDS) -> dict[str, Any]:
        """One entry of the summary file (docs/reference/files.md#summary), with the figures by these groups."""
        return {
            "scheduler": self.scheduler,
            "seed": self.seed,
            "window": list(self.window),
            "quota_in_force": self.quota_in_force,
            "parameters": self.parameters.to_dict(),
            "seconds": self.seconds,
            "version": __version__,
            "trace": self.workload.name,
            "metrics": self.metrics.to_dict(),
            **({"by": self.breakdown().to_dict(by)} if by else {}),
            **({"solver": self.solver._asdict()} if self.solver else {}),
            **({"forecasting": self.forecasting._asdict()} if self.forecasting else {}),
            **({"reservations": self.reservations._asdict()} if self.reservations else {}),
        }

    def explain(self, task: str) -> list[TaskStep]:
        """The life of one task: waits, runs, evictions, and why."""
        return task_life(self.events, task)

    def explain_organization(self, name: str) -> OrganizationStory:
        """What happened to one organization: what it asked for and got, whom it evicted, who evicted it."""
        return organization_story(self.events, self.workload, self.breakdown(), name)

    def __repr__(self) -> str:
        spot, hp = self.metrics.spot, self.metrics.hp
        what, _, share = self._stopped_row()
        return (
            f"<{type(self).__name__} {printable(self.scheduler)}:"
            f" {hp.tasks} HP tasks waited {hp.jqt_mean:.1f} s on average,"
            f" {spot.tasks} spot tasks {spot.jqt_mean:.1f} s, {share} of spot {what},"
            f" goodput {self.metrics.goodput_rate_total:.1%}>"
        )

    def _stopped_row(self) -> tuple[str, str, str]:
        """What was stopped: evicted, or suspended where tasks hold leases; of HP, and of spot."""
        spot, hp = self.metrics.spot, self.metrics.hp
        if self.metrics.leases:
            return "leases not renewed", f"{hp.suspensions:,}", f"{spot.suspensions:,}"
        return "runs evicted", "never", f"{spot.eviction_rate:.2%}"

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        spot, hp, metrics = self.metrics.spot, self.metrics.hp, self.metrics
        rows = [
            ("", "HP", "spot"),
            ("tasks", f"{hp.tasks:,}", f"{spot.tasks:,}"),
            ("completion (JCT), mean [s]", f"{hp.jct_mean:,.1f}", f"{spot.jct_mean:,.1f}"),
            ("wait (JQT), mean [s]", f"{hp.jqt_mean:,.1f}", f"{spot.jqt_mean:,.1f}"),
            self._stopped_row(),
            ("wasted [GPU-h]", "" if hp.lost else "0", f"{spot.wasted_gpu_hours:,.1f}"),
            ("goodput, both [%]", f"{100 * metrics.goodput_rate_total:.1f}", ""),
            ("GPU allocation, both [%]", f"{100 * metrics.allocation_rate_total:.1f}", ""),
        ]
        if hp.lost or spot.lost:
            rows.insert(-3, ("lost runs", f"{hp.lost:,}", f"{spot.lost:,}"))
        if hp.cancelled or spot.cancelled:
            rows.insert(2, ("cancelled tasks", f"{hp.cancelled:,}", f"{spot.cancelled:,}"))
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        name = f"{self.scheduler} (spot quota: {self.quota_in_force})"
        return f"<table><caption>{html.escape(printable(name))}</caption>{body}</table>"
