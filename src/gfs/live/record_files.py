"""The files of a record: `events.csv`, `jobs.csv`, `quota.csv` and `decisions.jsonl` grow by whole lines.

`nodes.csv` is replaced when a node changes. A log of months needs no memory.
"""

from __future__ import annotations

import csv
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import msgspec

from gfs.core.actions import Record
from gfs.core.node import WHOLE, Node, Place
from gfs.core.run import Run
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.files import write_text
from gfs.telemetry import event_log
from gfs.telemetry.decisions import AnyNote, lines_of
from gfs.telemetry.event_log import QUOTA_SCHEMA, SCHEMA, QuotaLog, entry_rows
from gfs.telemetry.tables import csv_lines
from gfs.workloads.readers.alibaba import CANCEL_COLUMN, JOB_COLUMNS, NODE_COLUMNS, OPTIONAL_JOB_COLUMNS

NODES, EVENTS, JOBS, QUOTA, NOTES = "nodes.csv", "events.csv", "jobs.csv", "quota.csv", "decisions.jsonl"
HEADERS = {
    NODES: ",".join(NODE_COLUMNS) + "\n",
    EVENTS: ",".join((*SCHEMA.names, "timestamp")) + "\n",
    JOBS: ",".join((*JOB_COLUMNS, *OPTIONAL_JOB_COLUMNS, CANCEL_COLUMN)) + "\n",
    QUOTA: ",".join(QUOTA_SCHEMA.names) + "\n",
    NOTES: "",
}
"""File -> its first line, in the order of writing: the log names no node that is not listed."""
FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)
"""The day on which second 0 of a live record begins."""
TAIL = 1 << 16
"""More bytes than any line has."""
Row: TypeAlias = dict[str, str]
log = logging.getLogger("gfs.live")
_node_cells = attrgetter("name", "gpu_model", "gpus", "cpus")


class RecordFiles:
    """The files of a folder. Lines are noted in the thread that records, and written in any."""

    def __init__(self) -> None:
        self._writing = Lock()
        self._is_failing = False
        """Whether the last write failed. Only the first failure is logged."""
        self.drop()

    def drop(self) -> None:
        """Forget what is not written. Nothing more is until the next opening."""
        self._folder: Path | None = None
        self._noted: dict[str, list[str]] = {name: [] for name in HEADERS}
        """File -> lines."""
        self._unwritten: deque[tuple[str, str]] = deque()
        """Files, and the lines that they are to get next."""

    def open(self, folder: Path, take_over: Callable[[Path], None]) -> None:
        """Go on with the files of a folder. `take_over`: reads them, and puts them in order."""
        with self._writing:
            take_over(folder)
            self._folder = folder

    def note_entry(self, entry: Record) -> None:
        """Note an entry of the event log."""
        moment = (FIRST_DAY + timedelta(milliseconds=round(1000 * entry[0]))).strftime("%Y-%m-%dT%H:%M:%S")
        self._noted[EVENTS].append(csv_lines((*row, moment) for row in entry_rows(entry)))

    def note_job(self, task: Task, submitted: float, duration: float, cancelled: float | None) -> None:
        """Note a task that has ended."""
        about = (task.name, task.organization, task.gpu_model, task.cpus_per_pod, task.gpus_per_pod, task.pods)
        times = (submitted, duration, task.priority.label, task.guarantee_hours, task.checkpoint_interval, cancelled)
        self._noted[JOBS].append(csv_lines([about + times]))

    def note_quota(self, quota: QuotaLog) -> None:
        """Note rows of the quota log."""
        self._noted[QUOTA].append(csv_lines(row.values() for row in quota.table().to_pylist()))

    def note_decision(self, note: AnyNote) -> None:
        """Note a line of the decision log."""
        self._noted[NOTES].append(lines_of([note]).decode())

    def note_nodes(self, nodes: Iterable[NodeSpec]) -> None:
        """Note all nodes."""
        self._noted[NODES] = [HEADERS[NODES], csv_lines(map(_node_cells, nodes))]

    def take(self) -> bool:
        """Hand what was noted over to `write`; returns whether it has work. Call it in the thread that records."""
        if self._folder is not None:
            self._unwritten += [(name, "".join(lines)) for name, lines in self._noted.items() if lines]
        self._noted = {name: [] for name in HEADERS}
        return bool(self._unwritten)

    def write(self, still: Callable[[], bool]) -> None:
        """Write what `take` handed over; keep what cannot be written for the next call. Never raises.

        `still` returns whether the files are still ours: a process may be paused for longer than its lease.
        """
        with self._writing:
            folder, unwritten = self._folder, self._unwritten  # of this opening
            try:
                while folder is not None and unwritten and still():
                    name, lines = unwritten[0]
                    _write(folder / name, lines, still)
                    unwritten.popleft()
            except Exception as error:
                if not self._is_failing:
                    log.warning(f"the record was not written, which is tried again: {error}; is {folder} full?")
                self._is_failing = True
            else:
                self._is_failing = False


def _write(path: Path, lines: str, still: Callable[[], bool]) -> None:
    """Add whole lines to a file, or nothing; the file of nodes is replaced."""
    if path.name == NODES:
        write_text(path, lines, still=still)
        return
    size = path.stat().st_size
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(lines)
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
        places: list[Place] = [(Node(NodeSpec(0, each["node"], task.gpu_model, 1)), task, 1, WHOLE) for each in rows]
        run = Run(task, number, places, time, time) if number else None
        yield (time, event_log.EVENTS.index(row["event"]), task, run, None), len(rows)


def _rows(path: Path) -> Iterator[Row]:
    """Yields the rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
