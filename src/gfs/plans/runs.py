"""One run of a plan: a scheduler with its parameters on a trace, perhaps with other nodes or other spot work."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gfs.assembly.parameters import Parameters
from gfs.assembly.run import run_simulation
from gfs.batch.job import JobResult
from gfs.batch.traces import Trace, workload_of
from gfs.domain.errors import InputError
from gfs.domain.workload import Workload
from gfs.plans.variants import tasks_span, with_nodes, with_spot, without_misfits
from gfs.sweeps.runs import Value, figures_of
from gfs.telemetry.delivered import delivered
from gfs.telemetry.metrics import compute_metrics

SHARED_LOAD = 0.8
"""About the share of a run's time that does not depend on the spot work."""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """Something to simulate."""

    trace: Trace
    scheduler: str
    seed: int
    settings: tuple[tuple[str, Value], ...]
    """Parameters that are not as usual, by name."""
    node_share: float = 1.0
    """Of each pool."""
    spot_scale: float = 1.0
    """Spot work as a multiple of the trace's."""

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
        return {
            "job": "plan",
            "trace": self.trace.identity(),
            "scheduler": self.scheduler,
            "seed": self.seed,
            "parameters": self.parameters().to_dict(),
            "node_share": self.node_share,
            "spot_scale": self.spot_scale,
        }

    def parameters(self) -> Parameters:
        """The parameters; raises InputError for one that does not exist or is out of range."""
        return Parameters().changed(dict(self.settings))

    def workload(self) -> tuple[Workload, int]:
        """What is simulated, and how many tasks had to be left out because they fit on no such cluster."""
        parameters = self.parameters()
        whole = workload_of(self.trace, parameters.guarantee_hours, parameters.checkpoint_interval)
        workload, misfits = without_misfits(with_spot(with_nodes(whole, self.node_share), self.spot_scale))
        if not workload.tasks:
            raise InputError(f"no task of the trace fits on {len(workload.nodes):,} nodes")
        return workload, len(misfits)

    def run(self) -> JobResult:
        """Simulate it."""
        parameters = self.parameters()
        workload, left_out = self.workload()
        result = run_simulation(workload, self.scheduler, parameters, seed=self.seed)
        first, span = tasks_span(workload)
        halves = [
            compute_metrics(result.events, workload, window=window, rules=parameters.rules).spot.eviction_rate
            for window in ((None, first + span / 2), (first + span / 2, None))
        ]
        return {
            **figures_of(result),
            **asdict(delivered(result.events, workload, parameters.rules)),
            "first_half_eviction_rate": halves[0],
            "second_half_eviction_rate": halves[1],
            "nodes": len(workload.nodes),
            "cards": sum(workload.capacity().values()),
            "left_out": left_out,
        }
