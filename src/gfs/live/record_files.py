"""The files of a record: `events.csv`, `jobs.csv`, `quota.csv` and `decisions.jsonl` grow by whole lines.

`nodes.csv` is replaced when a node changes. Months of all that need no memory.
"""

from __future__ import annotations

import csv
import io
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.csv

from gfs.core.actions import Record
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.domain.workload import Workload
from gfs.files import write_text
from gfs.telemetry.decisions import AnyNote, lines_of
from gfs.telemetry.event_log import QUOTA_SCHEMA, SCHEMA, EventLog, QuotaLog
from gfs.telemetry.tables import csv_table, with_timestamps

EVENTS, JOBS, QUOTA, NOTES, NODES = "events.csv", "jobs.csv", "quota.csv", "decisions.jsonl", "nodes.csv"
HEADERS = {
    EVENTS: ",".join((*SCHEMA.names, "timestamp")),
    JOBS: "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type,"
    "guarantee_hours,checkpoint_interval,cancel_time",
    QUOTA: ",".join(QUOTA_SCHEMA.names),
    NOTES: "",
}
NODE_COLUMNS = "node_name,gpu_model,gpu_capacity_num,cpu_num"
FIRST_DAY = "1970-01-01"
"""The day on which second 0 of a live record begins."""
TAIL = 1 << 16
"""More bytes than any line has."""
log = logging.getLogger("gfs.live")
T = TypeVar("T")


@dataclass(slots=True)
class Batch:
    """What is to be written together. Formatted where it is written, beside the decisions."""

    opening: int
    """Which opening of the files it is from."""
    entries: list[Record]
    jobs: list[str]
    quota: QuotaLog
    notes: list[AnyNote]
    nodes: tuple[NodeSpec, ...] | None
    """All nodes of the record; None: as they were."""
    texts: dict[str, str] | None = field(default=None)
    """File -> what it does not have yet; None: not formatted yet."""

    def write(self, folder: Path, still: Callable[[], bool]) -> bool:
        """Write what is not written yet; False: the files are another replica's by now. Raises OSError, InputError."""
        if self.texts is None:
            self.texts = self._formatted()
            self.entries, self.jobs, self.notes, self.quota = [], [], [], QuotaLog()
        for name, text in list(self.texts.items()):
            if not still():
                return False
            if name == NODES:
                write_text(folder / name, text, still=still)
            else:
                _append(folder / name, text)
            del self.texts[name]
        return True

    def _formatted(self) -> dict[str, str]:
        """Nodes first: the log names no node that is not listed."""
        texts = {} if self.nodes is None else {NODES: _node_lines(self.nodes)}
        texts[EVENTS] = _lines(self.entries, _event_lines)
        texts[JOBS] = "".join(self.jobs)
        texts[QUOTA] = _lines([self.quota] if self.quota else [], lambda quotas: _csv(quotas[0].table()))
        texts[NOTES] = _lines(self.notes, lambda notes: lines_of(notes).decode())
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
    """As many rows as the run has places, whatever its task says."""
    tasks = [
        replace(task, index=i, pods=len(run.places) if run is not None else task.pods)
        for i, (_, _, task, run, _) in enumerate(entries)
    ]
    told = EventLog(Workload(tuple(tasks), (), durations=(0.0,) * len(tasks)))
    for task, (time, what, _, run, reason) in zip(tasks, entries, strict=True):
        told.record((time, what, task, run, reason))
    return _csv(with_timestamps(told.table(), FIRST_DAY))


def _csv(table: pa.Table) -> str:
    """The rows of a table as lines, without its header."""
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(csv_table(table), out, options)
    return out.getvalue().decode()


def job_line(task: Task, submitted: float, duration: float, cancelled: float | None) -> str:
    """The row of a task that has ended."""
    numbers = (task.cpus_per_pod, task.gpus_per_pod, task.pods, submitted, duration)
    row = (task.name, task.organization, task.gpu_model, *(_exact(number) for number in numbers), task.priority.label)
    hours = _exact(task.guarantee_hours), _exact(task.checkpoint_interval)
    return _line((*row, *hours, "" if cancelled is None else _exact(cancelled)))


def _node_lines(nodes: Sequence[NodeSpec]) -> str:
    rows = (_line((node.name, node.gpu_model, str(node.gpus), f"{node.cpus:g}")) for node in nodes)
    return f"{NODE_COLUMNS}\n{''.join(rows)}"


def _exact(number: float) -> str:
    """The number as the event log has it: the fewest digits that give it back."""
    return f"{number:.0f}" if number == int(number) else repr(float(number))


def _line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def open_files(folder: Path) -> float:
    """Begin the files that are missing and cut half lines off the others; returns the latest time that they have."""
    last = {name: _open(folder / name, header) for name, header in HEADERS.items()}
    quota = last[QUOTA].partition(",")[0]
    times = [float(quota)] if quota not in ("", "time") else []
    if last[NOTES]:
        times.append(float(msgspec.json.decode(last[NOTES])["time"]))
    return max(times, default=0.0)


def _open(path: Path, header: str) -> str:
    """Returns the last whole line of a file, '' if it is new."""
    if not path.exists() or not path.stat().st_size:
        write_text(path, f"{header}\n" if header else "")
        return ""
    with path.open("r+b") as file:
        if header and file.readline() != f"{header}\n".encode():
            raise InputError(f"{path}: begins with other columns")
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        whole, _, half = file.read().rpartition(b"\n")
        file.truncate(size - len(half))
        return whole.rpartition(b"\n")[2].decode()


def cut_lines(path: Path, count: int) -> None:
    """Cut the last lines off a file."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - count * TAIL))
        lines = file.read().splitlines(keepends=True)
        file.truncate(size - sum(map(len, lines[-count:])))


def read_nodes(folder: Path) -> dict[str, NodeSpec]:
    """The nodes that an earlier process has recorded, by name."""
    specs = (
        NodeSpec(0, row["node_name"], row["gpu_model"], int(row["gpu_capacity_num"]), float(row["cpu_num"]))
        for row in _table(folder / NODES)
    )
    return {spec.name: spec for spec in specs}


def read_job_names(folder: Path) -> set[str]:
    """The names of the tasks that have a row."""
    return {row["job_name"] for row in _table(folder / JOBS)}


def _table(path: Path) -> Iterable[dict[str, str]]:
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def _append(path: Path, text: str) -> None:
    """Add whole lines to a file, or nothing."""
    size = path.stat().st_size
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        os.truncate(path, size)
        raise
