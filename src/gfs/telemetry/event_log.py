"""The event log (docs/reference/files.md#event-log): entries while it grows, a table when it is read.

An outside program must be able to recompute every metric from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gfs.core.actions import START, Record
from gfs.core.node import WHOLE, Place
from gfs.core.ports import Policy
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Role
from gfs.domain.units import MICRO
from gfs.domain.workload import Workload
from gfs.telemetry.tables import write_table

EVENTS = ("submit", "start", "finish", "evict", "lost", "cancel")
"""The words for SUBMIT, START, FINISH, EVICT, LOST, CANCEL."""

_NUMBER, _WORD = pa.float64(), pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        *[("time", _NUMBER), ("event", _WORD), ("task", _WORD), ("kind", _WORD), ("organization", _WORD)],
        *[("gpu_model", _WORD), ("run", pa.int64()), ("node", _WORD), ("cards", _WORD), ("gpus", _NUMBER)],
        ("reason", _WORD),
    ]
)


class EventLog:
    """One entry per task event; `table` spreads it to one row per pod, or one in all where nothing runs."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._entries: list[Record] = []

    def record(self, entry: Record) -> None:
        """Add an entry. Entries must come in time order."""
        self._entries.append(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def table(self) -> pa.Table:
        """The log as an Arrow table with the columns of `SCHEMA`, one row per pod, in time order."""
        tasks, entries = self._workload.tasks, self._entries
        rows = np.array([task.pods if run else 1 for _, _, task, run, _ in entries], dtype=np.int64)
        node_words, gpu_words, reason_words = _Words(), _Words(), _Words()
        nodes, gpus_of_pods, numbers, reasons, gpus = [], [], _GpuNumbers(), [], []
        for _, what, _, run, reason in entries:
            reasons.append(reason_words[reason.text() if reason is not None else ""])
            if run is None:
                nodes.append(node_words[""])
                gpus_of_pods.append(gpu_words[""])
                gpus.append(nan)
                continue
            for name, role, text in numbers.of(run, begins=what == START):
                nodes.append(node_words[name])
                gpus_of_pods.append(gpu_words[text])
                gpus.append(role.gpus_per_pod)

        def spread(values: list[int] | list[float], kind: type) -> np.ndarray:
            return np.repeat(np.array(values, dtype=kind), rows)

        event = spread([entry[1] for entry in entries], np.int32)
        task = spread([entry[2].index for entry in entries], np.int32)
        number = spread([run.number if run else 0 for _, _, _, run, _ in entries], np.int64)
        whole = np.array([t.gpus for t in tasks], dtype=np.float64)[task]
        columns = [
            pa.array(spread([entry[0] for entry in entries], np.float64)),
            _encoded(event, EVENTS),
            _encoded(task, [t.name for t in tasks]),
            _by_task([t.priority.label for t in tasks], task),
            _by_task([t.organization for t in tasks], task),
            _by_task([t.gpu_model for t in tasks], task),
            pa.array(number),
            _encoded(np.array(nodes, dtype=np.int32), node_words),
            _encoded(np.array(gpus_of_pods, dtype=np.int32), gpu_words),
            pa.array(np.where(number == 0, whole, np.array(gpus))),
            _encoded(spread(reasons, np.int32), reason_words),
        ]
        return pa.Table.from_arrays(columns, schema=SCHEMA)


def entry_rows(entry: Record) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of one entry as `EventLog` has them, with the columns of `SCHEMA`."""
    time, what, task, run, reason = entry
    about = (time, EVENTS[what], task.name, task.priority.label, task.organization, task.gpu_model)
    words = reason.text() if reason is not None else ""
    if run is None:
        yield *about, 0, "", "", task.gpus, words
        return
    for node, role, pods, _ in run.places:
        for _ in range(pods):
            yield *about, run.number, node.name, "", role.gpus_per_pod, words


def write_events(events: pa.Table, path: Path | str) -> None:
    """Write an event table as .csv, .csv.gz or .parquet; nothing half-written is ever left."""
    write_table(events, Path(path))


class _GpuNumbers:
    """Numbers for GPUs, which the core only counts: a run gets the lowest free ones when it starts."""

    def __init__(self) -> None:
        self._free: dict[str, list[int]] = {}
        """Node -> its GPUs that nothing holds, as a heap."""
        self._divided: dict[tuple[str, int], list[int]] = {}
        """Node and slot of a divided GPU -> its number, and how many pods are on it."""
        self._held: dict[tuple[int, int], list[tuple[str, Role, tuple[int, ...], int]]] = {}
        """Index of the task and number of the run -> the node, role, GPUs and slot of each of its pods."""

    def of(self, run: Run, *, begins: bool) -> Iterator[tuple[str, Role, str]]:
        """Yields the node, the role and the GPUs ('3+4', '3:0.5') of each pod; what ends gives its GPUs back."""
        key = (run.task.index, run.number)  # after a restart the run is another object
        if begins:
            self._held[key] = [self._take(place) for place in run.places for _ in range(place[2])]
        pods = self._held[key] if begins else self._held.pop(key)
        for name, role, gpus, slot in pods:
            yield name, role, _gpus_text(gpus, role.share)
            if not begins:
                self._give_back(name, gpus, slot)

    def _take(self, place: Place) -> tuple[str, Role, tuple[int, ...], int]:
        node, role, _, slot = place
        free = self._free.get(node.name)
        if free is None:
            free = self._free[node.name] = list(range(node.spec.gpus))
        if slot == WHOLE:
            return node.name, role, tuple([heappop(free) for _ in range(role.cards)]), slot
        shared = self._divided.get((node.name, slot))
        if shared is None:
            shared = self._divided[node.name, slot] = [heappop(free), 0]
        shared[1] += 1
        return node.name, role, (shared[0],), slot

    def _give_back(self, name: str, gpus: tuple[int, ...], slot: int) -> None:
        if slot != WHOLE:
            shared = self._divided[name, slot]
            shared[1] -= 1
            if shared[1]:
                return
            del self._divided[name, slot]
        for gpu in gpus:
            heappush(self._free[name], gpu)


class _Words(dict[Any, int]):
    """Values and their numbers, in order of first appearance. A new one is numbered when it is asked for."""

    def __missing__(self, value: Any) -> int:
        self[value] = number = len(self)
        return number


def _gpus_text(gpus: tuple[int, ...], share: int) -> str:
    """Returns '3+4' for whole GPUs, '3:0.5' for half of GPU 3, nothing for none."""
    if share:
        return f"{gpus[0]}:{share / MICRO:.6f}".rstrip("0").rstrip(".")
    return "+".join(map(str, gpus))


def _encoded(codes: np.ndarray, words: Iterable[Any]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(words), pa.string()))


def _by_task(values: list[str], task: np.ndarray) -> pa.Array:
    words = _Words()
    codes = np.array([words[value] for value in values], dtype=np.int32)
    return _encoded(codes[task], words)


_TEXT = pa.string()
QUOTA_SCHEMA = pa.schema(
    [
        *[("time", _NUMBER), ("gpu_model", _TEXT), ("guarantee_hours", _NUMBER), ("inventory", _NUMBER)],
        *[("eta", _NUMBER), ("quota", _NUMBER), ("spot_in_use", _NUMBER), ("idle", pa.int64()), ("demand", _NUMBER)],
        *[("eviction_rate", _NUMBER), ("longest_wait", _NUMBER), ("forecaster", _TEXT), ("organization", _TEXT)],
        *[("organization_demand", _NUMBER), ("peak_hour", pa.int64()), ("expected_demand", _NUMBER)],
    ]
)


class QuotaLog:
    """Notes the quota of every pool at every tick; one that moves between ticks also where spot tasks start by it."""

    def __init__(self) -> None:
        self._rows: list[tuple[float | str | None, ...]] = []
        self._quotas: dict[str, list[float]] = {}
        """GPU model -> the quotas of its last rows."""

    def note(self, now: float, state: PoolState, policy: Policy) -> None:
        """One row per guarantee length of the pool's quota."""
        pool, rows = state.pool, policy.quota.rows()
        self._quotas[pool.gpu_model] = [row.quota for row in rows]
        for row in rows:
            in_use = pool.spot_held(row.guarantee_hours) / MICRO
            *quota, demand, rate, wait, forecaster, organization, peak, hour, expected = row
            happened = (None,) * 3 if isnan(rate) else (demand, rate, wait)
            ahead = (forecaster, organization, peak, hour, expected) if forecaster else (None,) * 5
            self._rows.append((now, pool.gpu_model, *quota, in_use, pool.idle, *happened, *ahead))

    def __len__(self) -> int:
        return len(self._rows)

    def follow(self, now: float, state: PoolState, policy: Policy) -> None:
        """A spot task has started: more rows if it did so by a higher quota than that of the last ones."""
        last = self._quotas.get(state.pool.gpu_model, ())
        if any(row.quota > quota for row, quota in zip(policy.quota.rows(), last, strict=False)):
            self.note(now, state, policy)

    def table(self) -> pa.Table:
        """The log as a table."""
        columns = list(zip(*self._rows, strict=True)) or [()] * len(QUOTA_SCHEMA)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, QUOTA_SCHEMA, strict=True)], schema=QUOTA_SCHEMA)
