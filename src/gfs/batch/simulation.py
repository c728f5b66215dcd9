"""The job that sweeps, plans and experiments share: a scheduler with its parameters on a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult
from gfs.assembly.run import run_simulation
from gfs.batch.traces import Trace, workload_of
from gfs.domain.workload import Workload

Value = str | float | int | bool
"""What a parameter can be in a file."""


@dataclass(frozen=True, slots=True)
class SimulationJob:
    """A simulation; its subclasses say what is kept of it."""

    trace: Trace
    scheduler: str
    seed: int = 0
    settings: tuple[tuple[str, Value], ...] = ()
    """Parameters that are not as usual, by name."""

    def identity(self) -> dict[str, Any]:
        """All that the simulation depends on, and whose it is."""
        return {
            "job": type(self).__name__,
            "trace": self.trace.identity(),
            "scheduler": self.scheduler,
            "seed": self.seed,
            "parameters": self.parameters().to_dict(),
        }

    def parameters(self) -> Parameters:
        """The parameters; raises InputError for one that does not exist or is out of range."""
        return Parameters().changed(dict(self.settings))

    def workload(self) -> Workload:
        """The trace as `gfs simulate` reads it with these parameters."""
        parameters = self.parameters()
        return workload_of(self.trace, parameters.guarantee_hours, parameters.checkpoint_interval)

    def simulate(self, workload: Workload, **options: Any) -> RunResult:
        """Simulate this workload, the job's own or one made from it."""
        return run_simulation(workload, self.scheduler, self.parameters(), seed=self.seed, **options)
