"""What was decided, for tomorrow: the event log, and the trace (jobs and nodes) that it came from.

Both grow by whole lines, so that months of them need no memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path

import pyarrow.csv

from gfs.core.actions import CANCEL, FINISH, START, SUBMIT, Record
from gfs.core.run import Run
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
    "guarantee_hours,checkpoint_interval,cancel_time"
)
NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num"


class Recorder:
    """Appends to `events.csv` and `jobs.csv` in a folder, and keeps `nodes.csv` beside them."""

    def __init__(self, folder: Path | None, rules: ExecutionRules, first_day: str = "1970-01-01") -> None:
        self._folder, self._rules, self._first_day = folder, rules, first_day
        self.count = 0
        self.heard: Callable[[Record], None] | None = None
        """Who else is told what is recorded, by the names and numbers of the record."""
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: cannot be made ({error.strerror or error})") from error
        self._begin()

    def _begin(self) -> None:
        self._entries: list[Record] = []
        self._jobs: list[str] = []
        self._work: dict[int, float] = {}
        """Task index -> seconds of useful work in runs that are over."""
        self._at: dict[tuple[int, int], float] = {}
        """Task index and SUBMIT or START -> when it was submitted, when its run began: as the event log says."""
        self._open: dict[int, tuple[Task, Run | None]] = {}
        """Task index -> a task that has not ended, by the name it is recorded by, and its run if it has one."""
        self._used: set[int] = set()
        """Hashes of the names of all tasks recorded: a Job that was deleted may be created again by the same name."""
        self._runs: dict[int, int] = {}
        """Task index -> runs that have begun. The core also counts those that were given up before."""
        self._left: dict[str, tuple[float, int]] = {}
        """Tasks that had not ended when an earlier process stopped -> when they were submitted, their runs."""

    def open(self) -> None:
        """Go on where the files end, or begin them. Only who decides may: replicas may share a folder."""
        self._begin()
        if self._folder is None:
            return
        header = ",".join(SCHEMA.names) + (",timestamp" if self._first_day else "")
        for name, first in (("events.csv", header), ("jobs.csv", JOBS)):
            _open(self._folder / name, first)
        self._read_names(self._folder / "events.csv")

    def _read_names(self, path: Path) -> None:
        """Which tasks an earlier process has recorded, and which of them had not ended."""
        options = pyarrow.csv.ConvertOptions(include_columns=["time", "event", "task", "run"])
        for batch in pyarrow.csv.open_csv(path, convert_options=options):
            for time, event, name, run in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if event == "submit":
                    self._used.add(hash(name))
                    self._left[name] = time, 0
                elif event == "start" and name in self._left:
                    self._left[name] = self._left[name][0], int(run)
                elif event in ("finish", "cancel"):
                    self._left.pop(name, None)

    def record(self, entry: Record) -> None:
        """Note what happened to a task."""
        self.count += 1
        if self._folder is None and self.heard is None:
            return
        time, what, task, run, reason = entry
        if what == SUBMIT and task.name in self._left:
            return  # it was submitted before a restart
        task = self._named(task, new=what == SUBMIT)
        run = self._numbered(task, run, new=what == START) if run is not None else None
        if self._folder is not None:
            self._entries.append((time, what, task, run, reason))
        if self.heard is not None:
            self.heard((time, what, task, run, reason))
        self._open[task.index] = task, run if what == START else None
        if what == SUBMIT:
            self._runs[task.index] = 0
        if what in (SUBMIT, START):
            self._at[task.index, what] = time
        elif run is not None:
            began = self._at.pop((task.index, START), run.start)
            ran = max(0.0, time - began - self._rules.overhead(task, run.number))
            done = self._work.get(task.index, 0.0)
            if what == FINISH:
                self._end(task, done + ran)
            else:
                self._work[task.index] = done + self._rules.saved_at_loss(task, ran)
        if what == CANCEL:
            self._end(task, cancelled=time)

    def _named(self, task: Task, *, new: bool) -> Task:
        """The task by a name that no other task of the record has."""
        if task.index in self._open:
            return self._open[task.index][0]
        name, number = task.name, 1
        while new and hash(name) in self._used:
            number += 1
            name = f"{task.name}~{number}"
        self._used.add(hash(name))
        return task if name == task.name else replace(task, name=name)

    def _numbered(self, task: Task, run: Run, *, new: bool) -> Run:
        """The run with its number in the record."""
        _, before = self._left.get(task.name, (0.0, run.number - 1 if new else run.number))
        number = self._runs[task.index] = self._runs.get(task.index, before) + new
        if number != run.number:
            run = copy(run)
            run.number = number
        return run

    def name_of(self, task: Task) -> str:
        """The name that a task which has not ended is recorded by."""
        return self._open[task.index][0].name if task.index in self._open else task.name

    def _end(self, task: Task, duration: float = 0.0, cancelled: float | None = None) -> None:
        """Nothing more will come of a task: it gets its row. One that was withdrawn would have run on."""
        index = task.index
        for what in (self._open, self._work, self._runs):
            what.pop(index, None)
        self._at.pop((index, START), None)
        submitted, _ = self._left.pop(task.name, (task.submit_time, 0))
        submitted = self._at.pop((index, SUBMIT), submitted)
        duration = duration if cancelled is None else max(cancelled - submitted, 0.0)
        numbers = (task.cpus_per_pod, task.gpus_per_pod, task.pods, submitted, duration)
        row = (task.name, task.organization, task.gpu_model, *(_exact(number) for number in numbers))
        hours = f"{task.guarantee_hours:g}", f"{task.checkpoint_interval:g}"
        at = "" if cancelled is None else _exact(cancelled)
        if self._folder is not None:
            self._jobs.append(_line((*row, task.priority.label, *hours, at)))

    def close(self, now: float) -> int:
        """The cluster is taken down: what has not ended is withdrawn. How many tasks that are."""
        left = list(self._open.values())
        for task, run in left:
            self.record((now, CANCEL, task, run, None))
        return len(left)

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


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
