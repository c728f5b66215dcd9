"""One run of a plan: a scheduler with its parameters on a trace, perhaps with other nodes or other spot work."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gfs.batch.job import JobResult
from gfs.batch.simulation import SimulationJob, Value
from gfs.domain.errors import InputError
from gfs.domain.workload import Workload
from gfs.plans.variants import tasks_span, with_nodes, with_spot, without_misfits
from gfs.sweeps.runs import figures_of
from gfs.telemetry.delivered import delivered
from gfs.telemetry.metrics import compute_metrics

SHARED_LOAD = 0.8
"""About the share of a run's time that does not depend on the spot work."""


@dataclass(frozen=True, slots=True)
class PlanRun(SimulationJob):
    """Something to simulate."""

    node_share: float = 1.0
    """Of each pool."""
    spot_scale: float = 1.0
    """Spot work as a multiple of the trace's."""
    prices: tuple[tuple[str, float], ...] = ()
    """Dollars per GPU-hour by GPU model; empty: the assumed ones."""

    @property
    def label(self) -> str:
        """What it is: 'gfs, p=0.9, nodes x0.9'."""
        words = [
            self.scheduler,
            *(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in self.settings),
        ]
        words += [f"nodes x{self.node_share:g}"] if self.node_share != 1 else []
        words += [f"spot x{self.spot_scale:g}"] if self.spot_scale != 1 else []
        return ", ".join(words)

    @property
    def varied(self) -> tuple[tuple[str, Value], ...]:
        """Columns of the table of all runs."""
        return (*self.settings, ("node_share", self.node_share), ("spot_scale", self.spot_scale))

    @property
    def weight(self) -> float:
        """More spot work takes longer; the rest is not known before."""
        return SHARED_LOAD + (1 - SHARED_LOAD) * self.spot_scale

    def identity(self) -> dict[str, Any]:
        """All that the run depends on."""
        priced = {"prices": dict(self.prices)} if self.prices else {}
        return SimulationJob.identity(self) | {"node_share": self.node_share, "spot_scale": self.spot_scale} | priced

    def workload_and_misfits(self) -> tuple[Workload, int]:
        """What is simulated, and how many tasks had to be left out because they fit on no such cluster."""
        changed = with_spot(with_nodes(self.workload(), self.node_share), self.spot_scale)
        workload, misfits = without_misfits(changed)
        if not workload.tasks:
            raise InputError(f"no task of the trace fits on {len(workload.nodes):,} nodes")
        return workload, len(misfits)

    def run(self) -> JobResult:
        """Simulate it."""
        workload, left_out = self.workload_and_misfits()
        result, rules = self.simulate(workload), self.parameters().rules
        first, span = tasks_span(workload)
        halves = [
            compute_metrics(result.events, workload, window=window, rules=rules).spot.eviction_rate
            for window in ((None, first + span / 2), (first + span / 2, None))
        ]
        return {
            **figures_of(result),
            **asdict(delivered(result.events, workload, rules, dict(self.prices) or None)),
            "first_half_eviction_rate": halves[0],
            "second_half_eviction_rate": halves[1],
            "nodes": len(workload.nodes),
            "cards": sum(workload.capacity().values()),
            "left_out": left_out,
        }
