"""A sweep in a TOML file: which trace, what varies, what stays.

sample = 30                        # so many at random; without it, every combination
sample_seed = 0

[trace]
preset = "paper"                   # or: jobs = "jobs.csv", nodes = "nodes.csv"
nodes = 24
days = 10

[vary]
scheduler = ["gfs", "gfs-plus"]
seed = [0, 1, 2]                   # of the made-up trace, and of the run
spot_scale = [1, 2, 4]
p = [0.8, 0.9, 0.95]               # any parameter; in a sample also { low = 0.8, high = 0.99 }

[set]
guarantee_hours = 2                # for all runs
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from gfs.assembly.schedulers import find_scheduler
from gfs.batch.traces import GeneratedTrace, Trace, TraceFiles
from gfs.domain.errors import InputError
from gfs.files import read_toml
from gfs.sweeps.runs import SweepRun, Value
from gfs.workloads import PRESETS

OWN = ("scheduler", "seed", "spot_scale")
"""What varies besides parameters."""
MOST_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class Range:
    """Any number between two."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a file asks for."""

    trace: Mapping[str, Any]
    vary: Mapping[str, Sequence[Value] | Range]
    fixed: Mapping[str, Value]
    sample: int | None
    sample_seed: int
    given: TraceFiles | None
    """The trace, if it is in files: read once, not once a run."""

    def runs(self) -> list[SweepRun]:
        """All runs, each checked; raises InputError for one that could not be made."""
        points = self._drawn() if self.sample is not None else self._grid()
        runs = list(dict.fromkeys(self._run(point) for point in points))
        for run in runs:
            find_scheduler(run.scheduler)
            run.parameters()
        return runs

    def _grid(self) -> list[dict[str, Value]]:
        lists: list[Sequence[Value]] = []
        for name, values in self.vary.items():
            if isinstance(values, Range):
                raise InputError(f"vary.{name}: a range can only be sampled; give a list, or set sample = N")
            lists.append(values)
        count = 1
        for each in lists:
            count *= len(each)
        if count > MOST_RUNS:
            raise InputError(f"{count:,} combinations are too many; set sample = N to try some of them")
        return [dict(zip(self.vary, values, strict=True)) for values in product(*lists)]

    def _drawn(self) -> list[dict[str, Value]]:
        lot = random.Random(self.sample_seed)
        return [
            {
                name: round(lot.uniform(values.low, values.high), 6)
                if isinstance(values, Range)
                else lot.choice(list(values))
                for name, values in self.vary.items()
            }
            for _ in range(self.sample or 0)
        ]

    def _run(self, point: Mapping[str, Value]) -> SweepRun:
        every = {**self.fixed, **point}
        seed = _whole("seed", every.get("seed", 0))
        settings = tuple(sorted((name, value) for name, value in every.items() if name not in OWN))
        scale = every.get("spot_scale", 1.0)
        if isinstance(scale, str | bool):
            raise InputError(f"spot_scale = {scale!r}: must be a number")
        trace = self._trace(seed, float(scale))
        return SweepRun(trace, str(every.get("scheduler", "gfs")), seed, settings, tuple(point.items()))

    def _trace(self, seed: int, spot_scale: float) -> Trace:
        if self.given is not None:
            return self.given
        made = GeneratedTrace(self.trace["preset"], spot_scale, seed)
        return made._replace(nodes=self.trace.get("nodes"), days=self.trace.get("days"))


def read_sweep(path: Path) -> Sweep:
    """Read a file; raises InputError that names what is wrong in it."""
    document = read_toml(path)
    try:
        return _sweep(document, path.parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _sweep(document: dict[str, Any], folder: Path) -> Sweep:
    _known("the file", document, ("trace", "vary", "set", "sample", "sample_seed"))
    trace, vary, fixed = (_table(document, name) for name in ("trace", "vary", "set"))
    if not vary:
        raise InputError("[vary] says nothing: name at least one thing to vary, such as p = [0.8, 0.9]")
    _check_trace(trace, folder, {**fixed, **vary})
    sample = document.get("sample")
    if sample is not None and (not isinstance(sample, int) or isinstance(sample, bool) or sample < 1):
        raise InputError(f"sample = {sample!r}: must be a number of runs, 1 or more")
    for name, value in fixed.items():
        if not isinstance(value, Value):
            raise InputError(f"set.{name} = {value!r}: must be one value")
    return Sweep(
        trace,
        {name: _values(name, values) for name, values in vary.items()},
        fixed,
        sample,
        _whole("sample_seed", document.get("sample_seed", 0)),
        TraceFiles.of(folder / trace["jobs"], folder / trace["nodes"]) if "jobs" in trace else None,
    )


def _check_trace(trace: dict[str, Any], folder: Path, every: Mapping[str, Any]) -> None:
    if "jobs" in trace or ("nodes" in trace and "preset" not in trace):
        _known("[trace]", trace, ("jobs", "nodes"))
        for name in ("jobs", "nodes"):
            if name not in trace:
                raise InputError(f"trace.{name} is missing: a trace of your own takes both jobs and nodes")
            if not (folder / str(trace[name])).is_file():
                raise InputError(f"trace.{name}: there is no file {folder / str(trace[name])}")
        if "spot_scale" in every:
            raise InputError("spot_scale: only a made-up trace (preset) can be scaled")
        return
    _known("[trace]", trace, ("preset", "nodes", "days"))
    if trace.get("preset") not in PRESETS:
        raise InputError(f"trace.preset = {trace.get('preset')!r}: choose one of {', '.join(PRESETS)}")


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} = {value!r}: must be a whole number")
    return value


def _known(where: str, table: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in table:
        if name not in names:
            raise InputError(f"{where} has {name!r}, which nobody knows; there are {', '.join(names)}")


def _table(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise InputError(f"{name} must be a table: [{name}] and then key = value lines")
    return table


def _values(name: str, values: Any) -> Sequence[Value] | Range:
    if isinstance(values, dict):
        low, high = values.get("low"), values.get("high")
        if set(values) != {"low", "high"} or not all(isinstance(x, int | float) for x in (low, high)):
            raise InputError(f"vary.{name}: a range is {{ low = ..., high = ... }}, two numbers")
        assert low is not None
        assert high is not None
        if low > high:
            raise InputError(f"vary.{name}: low = {low:g} is above high = {high:g}")
        return Range(float(low), float(high))
    if not isinstance(values, list) or not values:
        raise InputError(f"vary.{name} = {values!r}: must be a list of values")
    return values
