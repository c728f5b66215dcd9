"""A sweep in a TOML file: which trace, what varies, what stays (docs/guides/sweep.md)."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, ValidationError, convert

from gfs.assembly import aliases
from gfs.assembly.aliases import present_name
from gfs.assembly.parameters import present_settings
from gfs.assembly.schedulers import find_scheduler, warn_of_idle_settings
from gfs.batch.job import JobResult
from gfs.batch.simulation import GeneratedTrace, SimulationJob, Trace, TraceFiles, Value
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.files import read_toml
from gfs.workloads import PRESETS

OWN = ("scheduler", "seed", "spot_scale")
"""What varies besides parameters."""
MOST_RUNS = 100_000
"""Of one sweep: weeks of computing, and a table that still fits in memory."""
ANY_NODE = (NodeSpec(0, "node", "GPU", 8),)

WHOLE = "a whole number, 0 or more"
SeedNumber = Annotated[int, Meta(ge=0)]
PositiveNumber = Annotated[float, Meta(gt=0)]
MUST_BE = {
    "sample": f"a number of runs, 1 to {MOST_RUNS:,}",
    "sample_seed": WHOLE,
    "trace": "a table: [trace] and then key = value lines",
    "vary": "a table: [vary] and then key = value lines",
    "set": "a table: [set] and then key = value lines",
    "trace.preset": f"one of {', '.join(PRESETS)}",
    "trace.jobs": "the name of a file",
    "trace.nodes": "the name of a file; with a preset, a whole number of nodes",
    "trace.days": "a number above 0",
}


class TraceTable(Struct, frozen=True, forbid_unknown_fields=True):
    """[trace]: a preset, or files."""

    preset: str | None = None
    jobs: str | None = None
    nodes: str | Annotated[int, Meta(ge=1)] | None = None
    days: PositiveNumber | None = None


class SweepFile(Struct, frozen=True, forbid_unknown_fields=True, rename={"fixed": "set"}):
    """The whole file."""

    trace: TraceTable = TraceTable()
    vary: dict[str, Any] = {}
    fixed: dict[str, Any] = {}
    sample: Annotated[int, Meta(ge=1, le=MOST_RUNS)] | None = None
    sample_seed: SeedNumber = 0


class Range(Struct, frozen=True, forbid_unknown_fields=True):
    """Any number between two."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SweepRun(SimulationJob):
    """A point of the grid or of the sample."""

    weight: ClassVar[float] = 1.0
    """All alike: what a run takes is not known before."""
    varied: tuple[tuple[str, Value], ...] = ()
    """What makes this run differ from others of its sweep: columns of the table."""

    @property
    def label(self) -> str:
        """What differs: 'scheduler=gfs, p=0.9'."""
        return ", ".join(f"{name}={value}" for name, value in self.varied) or self.scheduler

    def run(self) -> JobResult:
        """Simulate it."""
        return self.simulate(self.workload()).metrics.figures()


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a file asks for."""

    trace: TraceTable
    vary: Mapping[str, Sequence[Value] | Range]
    fixed: Mapping[str, Value]
    sample: int | None
    sample_seed: int
    files: TraceFiles | None
    """The trace, if it is in files: read once, not once a run."""

    def runs(self) -> list[SweepRun]:
        """All runs, each checked; raises InputError for one that could not be made."""
        points = self._sampled() if self.sample is not None else self._grid()
        runs = list(dict.fromkeys(self._run(point) for point in points))
        kinds: dict[tuple[str, str], SweepRun] = {}
        for run in runs:
            find_scheduler(run.scheduler)
            kinds.setdefault((run.scheduler, run.parameters().quota), run)
        for run in kinds.values():  # every scheduler with every quota: that decides what is read
            warn_of_idle_settings([run.scheduler], ANY_NODE, run.parameters(), dict(run.settings))
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

    def _sampled(self) -> list[dict[str, Value]]:
        generator = random.Random(self.sample_seed)
        return [
            {
                name: round(generator.uniform(values.low, values.high), 6)
                if isinstance(values, Range)
                else generator.choice(list(values))
                for name, values in self.vary.items()
            }
            for _ in range(self.sample or 0)
        ]

    def _run(self, point: Mapping[str, Value]) -> SweepRun:
        every = {**self.fixed, **point}
        seed: int = _value("seed", every.get("seed", 0), SeedNumber, WHOLE)
        scale: float = _value("spot_scale", every.get("spot_scale", 1.0), PositiveNumber, "a number above 0")
        # under their present names: an old one is warned of here, once, and not by every worker
        settings = present_settings({name: value for name, value in every.items() if name not in OWN})
        return SweepRun(
            self._trace(seed, scale),
            str(every.get("scheduler", "gfs")),
            seed,
            tuple(sorted(settings.items())),
            tuple(point.items()),
        )

    def _trace(self, seed: int, spot_scale: float) -> Trace:
        if self.files is not None:
            return self.files
        assert self.trace.preset is not None
        assert not isinstance(self.trace.nodes, str)
        return GeneratedTrace(self.trace.preset, spot_scale, seed, self.trace.nodes, self.trace.days)


def read_sweep(path: Path) -> Sweep:
    """Read a file; raises InputError that names the key, its value and what it must be."""
    document = read_toml(path)
    try:
        return sweep_of(document, path.parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def sweep_of(document: dict[str, Any], folder: Path) -> Sweep:
    """What a document asks for; its files are in this folder."""
    file = _converted(document)
    if not file.vary:
        raise InputError("[vary] is empty: name at least one thing to vary, such as p = [0.8, 0.9]")
    return Sweep(
        file.trace,
        {
            present_name("parameter", name, aliases.PARAMETERS): _values(name, values)
            for name, values in file.vary.items()
        },
        {name: _value(f"set.{name}", value, Value, "one value") for name, value in file.fixed.items()},
        file.sample,
        file.sample_seed,
        _trace_files(file.trace, folder, {**file.fixed, **file.vary}),
    )


def _converted(document: dict[str, Any]) -> SweepFile:
    try:
        return convert(document, SweepFile)
    except ValidationError as error:
        words, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        unknown = re.search(r"unknown field `(.*)`", words)
        if unknown is not None:
            known = TraceTable.__struct_fields__ if key else SweepFile.__struct_encode_fields__
            where = f"[{key}]" if key else "the file"
            raise InputError(f"{where} has the unknown key {unknown[1]!r}; it may have {', '.join(known)}") from error
        value = reduce(lambda table, name: table[name], key.split("."), document)
        raise InputError(f"{key} = {value!r}: must be {MUST_BE[key]}") from error


def _trace_files(trace: TraceTable, folder: Path, every: Mapping[str, Any]) -> TraceFiles | None:
    """The user's own trace, if the file names one."""
    if trace.preset is not None:
        if trace.preset not in PRESETS:
            raise InputError(f"trace.preset = {trace.preset!r}: must be {MUST_BE['trace.preset']}")
        if trace.jobs is not None or isinstance(trace.nodes, str):
            raise InputError("[trace] has both a preset and files: leave out preset, or jobs and nodes")
        return None
    if trace.jobs is None and trace.nodes is None:
        raise InputError("[trace] names no trace: give preset, or jobs and nodes")
    files = []
    for name, value in (("jobs", trace.jobs), ("nodes", trace.nodes)):
        if value is None:
            raise InputError(f"trace.{name} is missing: a trace of your own takes both jobs and nodes")
        if not isinstance(value, str):
            raise InputError(f"trace.{name} = {value!r}: must be the name of a file")
        files.append(folder / value)
        if not files[-1].is_file():
            raise InputError(f"trace.{name} = {value!r}: there is no file {files[-1]}")
    if "spot_scale" in every or trace.days is not None:
        name = "spot_scale" if "spot_scale" in every else "trace.days"
        raise InputError(f"{name}: only a synthetic trace (preset) can be changed so")
    return TraceFiles.of(*files)


def _values(name: str, values: Any) -> Sequence[Value] | Range:
    if isinstance(values, dict):
        found: Range = _value(f"vary.{name}", values, Range, "{ low = ..., high = ... }, two numbers")
        if found.low > found.high:
            raise InputError(f"vary.{name}: low = {found.low:g} is above high = {found.high:g}")
        return found
    listed: list[Value] = _value(f"vary.{name}", values, Annotated[list[Value], Meta(min_length=1)], "a list of values")
    return listed


def _value(key: str, value: Any, kind: Any, must_be: str) -> Any:
    try:
        return convert(value, kind)
    except ValidationError as error:
        raise InputError(f"{key} = {value!r}: must be {must_be}") from error
