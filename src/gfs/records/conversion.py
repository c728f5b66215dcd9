"""From records of another system to a trace: common to all formats.

Records say when a job was submitted and how long it ran; a trace counts seconds from a midnight, names every job once
and holds nothing that could never start. What has to be guessed or left out on the way is counted and told, so that
nobody plans with a trace that is not theirs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from fnmatch import fnmatchcase
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gfs.domain.errors import InputError
from gfs.domain.limits import MOST_SECONDS
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload, never_fitting

SPOT_WORDS: Final = re.compile(
    "spot|preempt|scaveng|best-?effort|opportun|backfill|(?<![a-z])(low|free|idle)(?![a-z])", re.I
)
"""What names of classes that may be evicted are made of, where nobody says which they are."""


class JobRecord(NamedTuple):
    """One job, as another system remembers it."""

    name: str
    organization: str
    gpu_model: str
    is_spot: bool
    pods: int
    gpus_per_pod: float
    submitted: float
    """Seconds since 1970, or of any other clock: the trace counts from the midnight before the first."""
    duration: float
    cpus_per_pod: float = 0.0
    guarantee_hours: float = 1.0
    checkpoint_interval: float = HOUR


@dataclass(frozen=True, slots=True)
class Conversion:
    """A trace, and how it came about."""

    workload: Workload
    first_day: date | None
    """The day that second 0 begins, in UTC; None where the records had no dates."""
    guesses: tuple[str, ...] = ()
    """What the records do not say and was decided for them, a sentence each."""
    left_out: tuple[tuple[str, int], ...] = ()
    """Why records are not in the trace, and how many."""

    def __repr__(self) -> str:
        gone = sum(count for _, count in self.left_out)
        return f"<Conversion: {self.workload!r}, {len(self.guesses)} guesses, {gone:,} left out>"


@dataclass(slots=True)
class Notes:
    """What a reader guesses and leaves out while it reads."""

    guesses: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def guess(self, sentence: str) -> None:
        """Told once, however often it was guessed."""
        if sentence not in self.guesses:
            self.guesses.append(sentence)


class SpotRule:
    """Which jobs are spot: by patterns of the names of their classes, or by what such names are made of."""

    def __init__(self, patterns: Sequence[str], what: str, how: str = "with --spot") -> None:
        """`patterns` such as 'preempt*', none to guess; `what`: whose names they are; `how` one says it oneself."""
        self._patterns, self._what, self._how = tuple(patterns), what, how
        self.seen: Counter[tuple[str, bool]] = Counter()

    def __call__(self, *names: str) -> bool:
        """Whether a job with these names (QOS and partition, say) is spot."""
        spot = any(self._matches(name) for name in names if name)
        self.seen[(" / ".join(name for name in names if name) or "(none)", spot)] += 1
        return spot

    def _matches(self, name: str) -> bool:
        if not self._patterns:
            return SPOT_WORDS.search(name) is not None
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def note(self, notes: Notes) -> None:
        """Say what it decided, if it was a guess."""
        if self._patterns:
            return
        spot = sorted(name for name, is_spot in self.seen if is_spot)
        hp = sorted(name for name, is_spot in self.seen if not is_spot)
        told = f"spot: {shown(spot)}" if spot else "no job is spot"
        notes.guess(f"class by {self._what}: {told}; HP: {shown(hp) or 'none'}. Say it yourself {self._how}")


def shown(names: Iterable[str], most: int = 6) -> str:
    """The first few of some names."""
    listed = list(names)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def time_zone(name: str, where: str) -> tzinfo:
    """The time zone of this name; `where` it stands, for the error."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"{where} {name}: no such time zone; write one such as Europe/Berlin") from None


def assemble(
    records: Iterable[JobRecord], nodes: Sequence[NodeSpec], name: str, notes: Notes, dated: bool = True
) -> Conversion:
    """The trace of these records on these nodes; what could never start there is left out, and said."""
    kept = sorted(records, key=lambda record: (record.submitted, record.name))
    if not kept:
        raise InputError(f"{name}: there is no job with GPUs in it.{_why_none(notes)}")
    if not nodes:
        raise InputError(f"{name}: there is no node with GPUs. Give the nodes with --nodes.")
    start = kept[0].submitted // DAY * DAY if dated else min(kept[0].submitted, 0.0)
    tasks: list[Task] = []
    durations: list[float] = []
    times: Counter[str] = Counter()
    for record in kept:
        times[record.name] += 1
        submitted = record.submitted - start
        if not (submitted <= MOST_SECONDS and 0 <= record.duration <= MOST_SECONDS):
            raise InputError(
                f"{name}: job {record.name} is submitted {submitted:g} s after the first day began and lasts"
                f" {record.duration:g} s; the most is {MOST_SECONDS:,.0f} s. Are the times in another unit?"
            )
        count = times[record.name]
        tasks.append(
            Task(
                len(tasks),
                record.name if count == 1 else f"{record.name}#{count}",
                record.organization,
                record.gpu_model,
                Priority.SPOT if record.is_spot else Priority.HP,
                record.pods,
                record.gpus_per_pod,
                submitted,
                record.cpus_per_pod,
                record.guarantee_hours,
                record.checkpoint_interval,
            )
        )
        durations.append(record.duration)
    workload = Workload(tuple(tasks), tuple(nodes), name, tuple(durations))
    return _without_what_never_fits(workload, start if dated else None, notes)


def _without_what_never_fits(workload: Workload, start: float | None, notes: Notes) -> Conversion:
    models = {node.gpu_model for node in workload.nodes}
    never = never_fitting(workload)
    for task in never:
        if task.gpu_model in models:
            notes.left_out["asks for more GPUs than its nodes could ever give"] += 1
        else:
            notes.left_out[f"asks for GPU model {task.gpu_model}, of which there is no node"] += 1
    if never:
        gone = {task.index for task in never}
        workload = workload.with_tasks(task for task in workload.tasks if task.index not in gone)
    if not workload.tasks:
        raise InputError(f"{workload.name}: no job is left.{_why_none(notes)}")
    day = None if start is None else datetime.fromtimestamp(start, UTC).date()
    return Conversion(workload, day, tuple(notes.guesses), tuple(notes.left_out.most_common()))


def _why_none(notes: Notes) -> str:
    return "".join(f" Left out: {count:,} ({reason})." for reason, count in notes.left_out.most_common(3))
