"""The job that sweeps, plans and experiments share: a scheduler with parameters on a trace, synthetic or in files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult
from gfs.assembly.run import run_simulation, with_task_defaults
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.workloads import generate, read_trace


class GeneratedTrace(NamedTuple):
    """A synthetic trace: a preset, a seed, and what differs from the preset."""

    preset: str
    spot_scale: float = 1.0
    seed: int = 0
    nodes: int | None = None
    days: float | None = None
    hp_scale: float = 1.0
    largest_gang: float | None = None

    def identity(self) -> dict[str, Any]:
        """What the trace depends on."""
        return self._asdict()

    def read(self) -> Workload:
        """Generate it."""
        return generate(**self._asdict())

    @property
    def label(self) -> str:
        """Such as 'paper x2, seed 1' or 'paper x2, HP x0.8, seed 0'."""
        words = [f"{self.preset} x{self.spot_scale:g}"]
        words += [f"HP x{self.hp_scale:g}"] if self.hp_scale != 1 else []
        words += [f"gangs up to {self.largest_gang:.0%}"] if self.largest_gang is not None else []
        return ", ".join([*words, f"seed {self.seed}"])


class TraceFiles(NamedTuple):
    """The user's own trace."""

    jobs: str
    nodes: str
    digest: str
    """Of what is in the files: a file of another name with the same rows is the same trace."""

    @classmethod
    def of(cls, jobs: Path, nodes: Path) -> TraceFiles:
        """A trace in these files."""
        digest = hashlib.sha256(jobs.read_bytes() + nodes.read_bytes())
        return cls(str(jobs), str(nodes), digest.hexdigest())

    def identity(self) -> dict[str, Any]:
        """What the trace depends on."""
        return {"digest": self.digest}

    def read(self) -> Workload:
        """Read it."""
        return read_trace(self.jobs, self.nodes).workload

    @property
    def label(self) -> str:
        """The name of the file."""
        return Path(self.jobs).name


Trace = GeneratedTrace | TraceFiles


@lru_cache(maxsize=2)
def load(trace: Trace) -> Workload:
    """The workload of a trace, kept for the next run of the same process."""
    return trace.read()


@lru_cache(maxsize=4)
def workload_of(trace: Trace, guarantee_hours: float, checkpoint_interval: float = HOUR) -> Workload:
    """The workload of a trace as `gfs simulate` reads it with these parameters: what a task says itself holds."""
    if isinstance(trace, TraceFiles):
        return read_trace(
            trace.jobs, trace.nodes, guarantee_hours=guarantee_hours, checkpoint_interval=checkpoint_interval
        ).workload
    parameters = Parameters(guarantee_hours=guarantee_hours, checkpoint_interval=checkpoint_interval)
    return with_task_defaults(load(trace), parameters)


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
