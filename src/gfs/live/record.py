"""What was decided, for tomorrow: the event log, and the trace (jobs and nodes) that it came from.

Both grow by whole lines, so that months of them need no memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow.csv

from gfs.core.actions import CANCEL, FINISH, START, SUBMIT, Record
from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.domain.workload import Workload
from gfs.files import write_text
from gfs.telemetry.event_log import SCHEMA, EventLog
from gfs.telemetry.tables import csv_table, with_timestamps

JOBS = (
    "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type,"
    "guarantee_hours,checkpoint_interval"
)
NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num"


class Recorder:
    """Appends to `events.csv` and `jobs.csv` in a folder, and keeps `nodes.csv` beside them."""

    def __init__(self, folder: Path | None, rules: ExecutionRules, first_day: str = "1970-01-01") -> None:
        self._folder, self._rules, self._first_day = folder, rules, first_day
        self._entries: list[Record] = []
        self._work: dict[int, float] = {}
        """Task index -> seconds of useful work in runs that are over."""
        self._at: dict[tuple[int, int], float] = {}
        """Task index and SUBMIT or START -> when it was submitted, when its run began: as the event log says."""
        self._jobs: list[str] = []
        self._submitted: dict[str, float] = {}
        """Tasks of the file as it was found that are not over -> when they were submitted: not to be told again."""
        self.count = 0
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: cannot be made ({error.strerror or error})") from error
            header = ",".join(SCHEMA.names) + (",timestamp" if first_day else "")
            for name, first in (("events.csv", header), ("jobs.csv", JOBS)):
                _open(folder / name, first)
            self._submitted = _submitted(folder / "events.csv")

    def record(self, entry: Record) -> None:
        """Note what happened to a task."""
        self.count += 1
        if self._folder is None:
            return
        time, what, task, run, _ = entry
        if what == SUBMIT and (before := self._submitted.pop(task.name, None)) is not None:
            self._at[task.index, SUBMIT] = before
            return
        self._entries.append(entry)
        if what in (SUBMIT, START):
            self._at[task.index, what] = time
        elif what == CANCEL:
            self._forget(task)
        elif run is not None:
            began = self._at.pop((task.index, START), run.start)
            ran = max(0.0, time - began - self._rules.overhead(task, run.number))
            done = self._work.get(task.index, 0.0)
            if what == FINISH:
                self._finish(task, done + ran)
            else:
                self._work[task.index] = done + self._rules.saved_at_loss(task, ran)

    def _forget(self, task: Task) -> float:
        """Nothing more will come of a task; when it was submitted."""
        self._work.pop(task.index, None)
        self._at.pop((task.index, START), None)
        return self._at.pop((task.index, SUBMIT), task.submit_time)

    def _finish(self, task: Task, duration: float) -> None:
        numbers = (task.cpus_per_pod, task.gpus_per_pod, task.pods, self._forget(task), duration)
        row = (task.name, task.organization, task.gpu_model, *(_exact(number) for number in numbers))
        hours = f"{task.guarantee_hours:g}", f"{task.checkpoint_interval:g}"
        self._jobs.append(_line((*row, task.priority.label, *hours)))

    def flush(self, nodes: Iterable[NodeSpec] | None = None) -> None:
        """Write what is not written yet."""
        if self._folder is None:
            return
        if self._entries:
            entries, self._entries = self._entries, []
            _append(self._folder / "events.csv", _rows(entries, self._first_day))
        if self._jobs:
            rows, self._jobs = self._jobs, []
            _append(self._folder / "jobs.csv", "".join(rows))
        if nodes is not None:
            lines = [_line((node.name, node.gpu_model, str(node.gpus), f"{node.cpus:g}")) for node in nodes]
            write_text(self._folder / "nodes.csv", f"{NODES}\n{''.join(lines)}")


def _rows(entries: list[Record], first_day: str) -> str:
    """Entries as lines of the event log."""
    tasks = {entry[2].index: entry[2] for entry in entries}
    place = {index: position for position, index in enumerate(sorted(tasks))}
    numbered = {index: replace(task, index=place[index]) for index, task in tasks.items()}
    ordered = tuple(numbered[index] for index in sorted(tasks))
    log = EventLog(Workload(ordered, (), durations=(0.0,) * len(ordered)))
    for time, what, task, run, reason in entries:
        log.record((time, what, numbered[task.index], run, reason))
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(csv_table(with_timestamps(log.table(), first_day)), out, options)
    return out.getvalue().decode()


def _exact(number: float) -> str:
    """The number as the event log has it: the fewest digits that give it back."""
    return f"{number:.0f}" if number == int(number) else repr(float(number))


def _line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _open(path: Path, header: str) -> None:
    """A file that is there goes on after its last whole line; one that is not begins with its header."""
    try:
        if not path.exists() or not path.stat().st_size:
            write_text(path, f"{header}\n")
            return
        with path.open("r+b") as file:
            content = file.read()
            if not content.startswith(header.encode() + b"\n"):
                raise InputError(f"{path}: is there and begins with other columns; name another folder")
            file.truncate(content.rfind(b"\n") + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _submitted(events: Path) -> dict[str, float]:
    """Task -> when it was submitted, of those in the log that are not over."""
    found: dict[str, float] = {}
    with events.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["event"] == "submit":
                found[row["task"]] = float(row["time"])
            elif row["event"] in ("finish", "cancel"):
                found.pop(row["task"], None)
    return found


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
