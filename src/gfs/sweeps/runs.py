"""One run of a sweep: a scheduler with its parameters on a trace, and its figures."""

from __future__ import annotations

from dataclasses import dataclass

from gfs.batch.job import JobResult
from gfs.batch.simulation import SimulationJob, Value


@dataclass(frozen=True, slots=True)
class SweepRun(SimulationJob):
    """A point of the grid or of the sample."""

    varied: tuple[tuple[str, Value], ...] = ()
    """What makes this run differ from others of its sweep: columns of the table."""

    @property
    def label(self) -> str:
        """What differs: 'scheduler=gfs, p=0.9'."""
        return ", ".join(f"{name}={value}" for name, value in self.varied) or self.scheduler

    @property
    def weight(self) -> float:
        """All alike: what a run takes is not known before."""
        return 1.0

    def run(self) -> JobResult:
        """Simulate it."""
        return self.simulate(self.workload()).metrics.figures()
