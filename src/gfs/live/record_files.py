"""The files of a record: `events.csv`, `jobs.csv`, `quota.csv` and `decisions.jsonl` grow by whole lines.

`nodes.csv` is replaced when a node changes. A log of months needs no memory.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeAlias

import msgspec

from gfs.core.actions import Record
from gfs.core.node import Node, Place
from gfs.core.run import Run
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.files import write_text
from gfs.telemetry import event_log
from gfs.telemetry.event_log import QUOTA_SCHEMA, SCHEMA, entry_rows
from gfs.telemetry.tables import csv_lines
from gfs.workloads.readers.alibaba import CANCEL_COLUMN, JOB_COLUMNS, NODE_COLUMNS, OPTIONAL_JOB_COLUMNS

NODES, EVENTS, JOBS, QUOTA, NOTES = "nodes.csv", "events.csv", "jobs.csv", "quota.csv", "decisions.jsonl"
FILES = (NODES, EVENTS, JOBS, QUOTA, NOTES)
"""In the order of writing: the log names no node that is not listed."""
HEADERS = {
    EVENTS: csv_lines([(*SCHEMA.names, "timestamp")]),
    JOBS: csv_lines([(*JOB_COLUMNS, *OPTIONAL_JOB_COLUMNS, CANCEL_COLUMN)]),
    QUOTA: csv_lines([QUOTA_SCHEMA.names]),
    NOTES: "",
}
FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)
"""The day on which second 0 of a live record begins."""
TAIL = 1 << 16
"""More bytes than any line has."""
Row: TypeAlias = dict[str, str]
_node_cells = attrgetter("name", "gpu_model", "gpus", "cpus")


def event_lines(entry: Record) -> str:
    """Returns the lines of an entry of the event log."""
    moment = (FIRST_DAY + timedelta(milliseconds=round(1000 * entry[0]))).strftime("%Y-%m-%dT%H:%M:%S")
    return csv_lines((*row, moment) for row in entry_rows(entry))


def job_line(task: Task, submitted: float, duration: float, cancelled: float | None) -> str:
    """Returns the line of a task that has ended."""
    about = (task.name, task.organization, task.gpu_model, task.cpus_per_pod, task.gpus_per_pod, task.pods)
    times = (submitted, duration, task.priority.label, task.guarantee_hours, task.checkpoint_interval, cancelled)
    return csv_lines([about + times])


def node_lines(nodes: Iterable[NodeSpec]) -> str:
    """Returns the whole file of nodes."""
    return csv_lines([NODE_COLUMNS, *map(_node_cells, nodes)])


def write_lines(path: Path, lines: str, still: Callable[[], bool]) -> None:
    """Add whole lines to a file, or nothing; the file of nodes is replaced. `still`: whether it is ours."""
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
