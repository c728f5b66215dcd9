"""The decision log (docs/reference/files.md#decision-log): what was expected, kept from spot tasks and weighed.

The event log says what happened; this one says by what. One JSON object a line, in time order; `what` names its kind.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from gfs.core.actions import EVICT, Record
from gfs.core.admission import SpotAdmission
from gfs.core.ports import OrganizationDemand, Policy, Quota
from gfs.core.reasons import EvictReason
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.task import Task
from gfs.files import write_bytes

MOST_EXPECTED: Final = 200
"""Of so many waiting tasks, those that have waited longest, it is noted when room is expected."""
AT_LEAST: Final = 1800.0
"""Seconds between two forecasts of the same organizations that are noted, and by which an expected start must move."""
DIGITS: Final = 3
"""Of GPUs and seconds: enough for people, and the log stays small."""


class Note(msgspec.Struct, frozen=True, tag_field="what"):
    """Something that was decided by; `time` in seconds like that of the event log."""

    time: float


class ForecastNote(Note, frozen=True, tag="forecast"):
    """The forecast of each organization's HP demand over the shortest guarantee, when it changes; twice an hour."""

    gpu_model: str
    organizations: list[str]
    expected: list[float]
    bound: list[float]


class NodeNote(Note, frozen=True, tag="node"):
    """From now on a node is closed to spot tasks, reserved for one of them, or neither."""

    node: str
    closed: bool
    """By the circuit breaker, after recent evictions."""
    reserved_for: str = ""
    """The task that it is reserved for."""


class ExpectedNote(Note, frozen=True, tag="expected"):
    """When the forecast expects room for a task that waits for quota, when that moves by half an hour."""

    task: str
    start: float | None
    """None: it waits for quota no longer."""
    known: bool = True
    """False: no room is expected before `start`, and no more is known."""


class Option(msgspec.Struct, frozen=True):
    """One way to make room."""

    node: str
    victims: list[str]
    cost: float
    """By the rule of the scheduler."""
    waste: float
    """GPU-seconds of work thrown away."""
    chosen: bool = False


class EvictionNote(Note, frozen=True, tag="eviction"):
    """What was weighed before tasks were evicted, cheapest first."""

    task: str
    """In whose favour."""
    options: list[Option]


AnyNote: TypeAlias = ForecastNote | NodeNote | ExpectedNote | EvictionNote
Sink = Callable[[AnyNote], None]


class DecisionLog:
    """Follows the pools of a scheduler and notes what changes."""

    def __init__(self, sink: Sink, name_of: Callable[[Task], str] = lambda task: task.name) -> None:
        self._sink, self._name_of = sink, name_of
        self._forecasts: dict[str, tuple[float, list[OrganizationDemand]]] = {}
        """GPU model -> the forecast that was noted last, and when."""
        self._kept: dict[str, dict[str, str]] = {}
        """GPU model -> node that is kept from spot tasks -> the task it is reserved for, '' for none."""
        self._expected: dict[str, dict[int, tuple[str, float, bool]]] = {}
        self._evicted: tuple[float, EvictReason | None] = (0.0, None)

    def tick(self, now: float, state: PoolState, policy: Policy) -> None:
        """The quota was computed: note what it was computed from, and what may be expected of it."""
        self._note_forecast(now, state, list(policy.quota.organization_demand()))
        self._note_expected(now, state, policy.quota)
        self.look(now, state, policy)

    def record(self, entry: Record, state: PoolState, policy: Policy) -> None:
        """Something happened to a task of this pool."""
        now, what, _, _, reason = entry
        if what == EVICT and isinstance(reason, EvictReason) and reason.alternatives:
            self._note_eviction(now, reason)
        self.look(now, state, policy)

    def look(self, now: float, state: PoolState, policy: Policy) -> None:
        """Note which nodes are kept from spot tasks, where that has changed."""
        model = state.pool.gpu_model
        before, kept = self._kept.get(model, {}), dict[str, str]()
        for node, task in policy.kept_from_spot().items():
            kept[node.name] = self._name_of(task) if task is not None else ""
        if kept == before:
            return
        self._kept[model] = kept
        for name in {**before, **kept}:
            if kept.get(name) != before.get(name):
                self._sink(NodeNote(now, name, kept.get(name) == "", kept.get(name, "")))

    def _note_forecast(self, now: float, state: PoolState, rows: list[OrganizationDemand]) -> None:
        model = state.pool.gpu_model
        noted, before = self._forecasts.get(model, (0.0, []))
        same = [row.organization for row in rows] == [row.organization for row in before]
        if rows == before or (same and now < noted + AT_LEAST):
            return
        self._forecasts[model] = now, rows
        names, expected, bound = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
        self._sink(ForecastNote(now, model, names, _short(expected), _short(bound)))

    def _note_expected(self, now: float, state: PoolState, quota: Quota) -> None:
        admission = SpotAdmission(state.pool, quota)
        spot = [each for each in state.waiting.values() if each.task.is_spot]
        spot.sort(key=lambda each: (each.since, each.task.index))
        before, after = self._expected.get(state.pool.gpu_model, {}), dict[int, tuple[str, float, bool]]()
        for each in spot[:MOST_EXPECTED]:
            task = each.task
            room = quota.expected_room(task) if admission.exceeded(task) is not None else None
            if room is not None:
                last = before.get(task.index)
                if last is None or last[2] != room.known or abs(last[1] - room.time) >= AT_LEAST:
                    last = self._name_of(task), room.time, room.known
                    self._sink(ExpectedNote(now, *last))
                after[task.index] = last
        for index, (name, _, _) in before.items():
            if index not in after:
                self._sink(ExpectedNote(now, name, None))
        self._expected[state.pool.gpu_model] = after

    def _note_eviction(self, now: float, reason: EvictReason) -> None:
        """Once for all victims of one choice."""
        last, known = self._evicted
        if now == last and known is not None and known.alternatives is reason.alternatives:
            return
        self._evicted = now, reason
        options = [
            Option(each.node, [self._name_of(task) for task in each.victims], each.cost, each.waste, each.chosen)
            for each in reason.alternatives
        ]
        self._sink(EvictionNote(now, self._name_of(reason.by), options))


def _short(values: Iterable[float]) -> list[float]:
    return [round(value, DIGITS) for value in values]


ENCODER: Final = msgspec.json.Encoder()


def lines_of(notes: Iterable[AnyNote]) -> bytes:
    """Notes as lines of the log."""
    return b"".join(ENCODER.encode(note) + b"\n" for note in notes)


def write_decisions(notes: Iterable[AnyNote], path: Path) -> None:
    """Write a decision log as .jsonl or .jsonl.gz; nothing half-written is ever left."""
    content = lines_of(notes)
    write_bytes(path, gzip.compress(content, 6, mtime=0) if path.suffix == ".gz" else content)


def read_decisions(path: Path) -> list[AnyNote]:
    """The notes of a decision log; raises InputError at the first line that is none."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    decoder, notes, last = msgspec.json.Decoder(AnyNote), list[AnyNote](), float("-inf")
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            note = decoder.decode(line)
            if note.time < last:
                raise ValueError(f"time = {note.time:g} is before the line above it")
        except (msgspec.DecodeError, ValueError) as error:
            shown = line[:60].decode(errors="replace")
            raise InputError(
                f"{path}: line {number}, {shown!r}: {error}; was this file written by `gfs simulate --decisions`?"
            ) from error
        last = note.time
        notes.append(note)
    return notes
