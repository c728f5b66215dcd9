"""The files of a record: `events.csv`, `jobs.csv`, `quota.csv` and `decisions.jsonl` grow by whole lines.

`nodes.csv` is replaced when a node changes. A log of months needs no memory.
"""

from __future__ import annotations

import csv
import io
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.csv

from gfs.core.actions import Record
from gfs.core.node import Node, Place
from gfs.core.run import Run
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.files import write_text
from gfs.telemetry import event_log
from gfs.telemetry.decisions import AnyNote, lines_of
from gfs.telemetry.event_log import QUOTA_SCHEMA, SCHEMA, EventLog, QuotaLog
from gfs.telemetry.tables import csv_table, with_timestamps
from gfs.workloads.readers.alibaba import CANCEL_COLUMN, JOB_COLUMNS, NODE_COLUMNS, OPTIONAL_JOB_COLUMNS

EVENTS, JOBS, QUOTA, NOTES, NODES = "events.csv", "jobs.csv", "quota.csv", "decisions.jsonl", "nodes.csv"
JOB_ROW = (*JOB_COLUMNS, *OPTIONAL_JOB_COLUMNS, CANCEL_COLUMN)
HEADERS = {
    EVENTS: ",".join((*SCHEMA.names, "timestamp")) + "\n",
    JOBS: ",".join(JOB_ROW) + "\n",
    QUOTA: ",".join(QUOTA_SCHEMA.names) + "\n",
    NOTES: "",
}
FIRST_DAY = "1970-01-01"
"""The day on which second 0 of a live record begins."""
TAIL = 1 << 16
"""More bytes than any line has."""
Row: TypeAlias = dict[str, str]
log = logging.getLogger("gfs.live")
T = TypeVar("T")


@dataclass(slots=True)
class Batch:
    """What to write together. The thread that writes it also formats it, beside the decisions."""

    entries: list[Record] = field(default_factory=list)
    jobs: list[tuple[Any, ...]] = field(default_factory=list)
    quota: QuotaLog = field(default_factory=QuotaLog)
    notes: list[AnyNote] = field(default_factory=list)
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    """All nodes of the record; none: the file stays as it is."""
    _texts: dict[str, str] | None = None
    """File -> what it lacks; None: not formatted yet."""

    def __bool__(self) -> bool:
        return bool(self.entries or self.jobs or self.quota or self.notes or self.nodes)

    def write(self, folder: Path, still: Callable[[], bool]) -> bool:
        """Write the rows that the files lack; False: another replica writes them. Raises OSError, InputError."""
        if self._texts is None:
            self._texts = self._formatted()
        for name, text in list(self._texts.items()):
            if not still():
                return False
            if name == NODES:
                write_text(folder / name, text, still=still)
            else:
                _append(folder / name, text)
            del self._texts[name]
        return True

    def _formatted(self) -> dict[str, str]:
        """Nodes come first: the log names no node that is not listed."""
        texts = {
            NODES: _node_lines([*self.nodes.values()]) if self.nodes else "",
            EVENTS: _lines(self.entries, _event_lines),
            JOBS: _lines(self.jobs, _job_lines),
            QUOTA: _lines([self.quota] if self.quota else [], lambda quotas: _csv(quotas[0].table())),
            NOTES: _lines(self.notes, lambda notes: lines_of(notes).decode()),
        }
        return {name: text for name, text in texts.items() if text}


def _lines(items: list[T], as_text: Callable[[list[T]], str]) -> str:
    """Format all items at once, or one by one without those that cannot be formatted."""
    if not items:
        return ""
    try:
        return as_text(items)
    except Exception:
        log.exception("the record goes on without an entry that cannot be written; please report this")
    texts = []
    for item in items:
        with suppress(Exception):
            texts.append(as_text([item]))
    return "".join(texts)


def _event_lines(entries: list[Record]) -> str:
    tasks = [replace(entry[2], index=i) for i, entry in enumerate(entries)]
    told = EventLog(Workload(tuple(tasks), (), durations=(0.0,) * len(tasks)))
    for task, (time, what, _, run, reason) in zip(tasks, entries, strict=True):
        told.record((time, what, task, run, reason))
    return _csv(with_timestamps(told.table(), FIRST_DAY))


def _job_lines(rows: list[tuple[Any, ...]]) -> str:
    return _csv(pa.table([*map(pa.array, zip(*rows, strict=True))], JOB_ROW))


def _node_lines(nodes: list[NodeSpec]) -> str:
    columns = [pa.array([getattr(node, name) for node in nodes]) for name in ("name", "gpu_model", "gpus", "cpus")]
    return ",".join(NODE_COLUMNS) + "\n" + _csv(pa.table(columns, NODE_COLUMNS))


def _csv(table: pa.Table) -> str:
    """The rows of a table as lines, without its header."""
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(csv_table(table), out, options)
    return out.getvalue().decode()


def job_row(task: Task, submitted: float, duration: float, cancelled: float | None) -> tuple[Any, ...]:
    """Returns the row of a task that has ended, in the order of `JOB_ROW`."""
    about = (task.name, task.organization, task.gpu_model, task.cpus_per_pod, task.gpus_per_pod, task.pods)
    return *about, submitted, duration, task.priority.label, task.guarantee_hours, task.checkpoint_interval, cancelled


def _append(path: Path, text: str) -> None:
    """Add whole lines to a file, or nothing."""
    size = path.stat().st_size
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        os.truncate(path, size)
        raise


def open_files(folder: Path) -> float:
    """Begin the files that are missing and cut half lines off the others; returns the latest time of notes."""
    times = [0.0]
    for name, header in HEADERS.items():
        path = folder / name
        if not path.exists() or not path.stat().st_size:
            write_text(path, header)
        with path.open("rb") as file:
            if file.read(len(header)) != header.encode():
                raise InputError(f"{path}: begins with other columns")
        last = cut_end(path)
        if name == NOTES and last:
            times.append(float(msgspec.json.decode(last)["time"]))
        elif name == QUOTA and f"{last}\n" != header:
            times.append(float(last.partition(",")[0]))
    return max(times)


def cut_end(path: Path, lines: int = 0) -> str:
    """Cut a half line, and so many whole ones before it, off a file; returns the line that is then the last."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - (lines + 2) * TAIL))
        end = file.read().split(b"\n")
        kept = len(end) - 1 - lines
        file.truncate(size - len(b"\n".join(end[kept:])))
    return end[kept - 1].decode() if kept else ""


def read_nodes(folder: Path) -> dict[str, NodeSpec]:
    """Returns the nodes of the record by name."""
    cells = map(itemgetter(*NODE_COLUMNS), _rows(folder / NODES))
    return {name: NodeSpec(0, name, model, int(gpus), float(cpus)) for name, model, gpus, cpus in cells}


def read_jobs(folder: Path) -> set[str]:
    """Returns the names of the tasks that have a row in the trace."""
    return {row["job_name"] for row in _rows(folder / JOBS)}


def read_entries(folder: Path) -> Iterator[tuple[Record, int]]:
    """Yields the entries of the event log, each with the number of its rows.

    A task has neither CPUs nor guarantee nor checkpoints there, and one that waits has as many pods as GPUs.
    """
    for _, group in groupby(_rows(folder / EVENTS), itemgetter("time", "event", "task", "run")):
        rows = list(group)
        row, time, gpus, number = rows[0], float(rows[0]["time"]), float(rows[0]["gpus"]), int(rows[0]["run"])
        priority = Priority.HP if row["kind"] == Priority.HP.label else Priority.SPOT
        shape = (len(rows), gpus) if number else (int(gpus), 1.0)
        task = Task(0, row["task"], row["organization"], row["gpu_model"], priority, *shape, time)
        run = Run(task, number, [_place(each) for each in rows], time, time) if number else None
        yield (time, event_log.EVENTS.index(row["event"]), task, run, None), len(rows)


def _place(row: Row) -> Place:
    """Returns where a pod runs: a node of this name, and GPUs."""
    mask = sum(1 << int(gpu) for gpu in row["cards"].split("+"))
    return Node(NodeSpec(0, row["node"], row["gpu_model"], 1)), mask, mask.bit_count()


def _rows(path: Path) -> Iterator[Row]:
    """Yields the rows of a table; none if there is no such file."""
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)
