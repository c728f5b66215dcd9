"""What was decided, for tomorrow: the event log, and the trace (jobs and nodes) that it came from.

Both grow by whole lines, so that months of them need no memory.
"""

from __future__ import annotations

import csv
import io
import logging
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from gfs.core.actions import CANCEL, FINISH, LOST, START, SUBMIT, Record
from gfs.core.ports import Policy
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.domain.workload import Workload
from gfs.files import always, write_text
from gfs.live.recorded import RecordedCards, RecordedTask, read_log
from gfs.telemetry.decisions import AnyNote, lines_of
from gfs.telemetry.event_log import QUOTA_SCHEMA, SCHEMA, EventLog, QuotaLog
from gfs.telemetry.tables import csv_table, with_timestamps

JOBS = (
    "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type,"
    "guarantee_hours,checkpoint_interval,cancel_time"
)
NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num"
log = logging.getLogger("gfs.live")


class Recorder:
    """Appends to `events.csv`, `jobs.csv`, `quota.csv` and `decisions.jsonl` in a folder, and keeps `nodes.csv`."""

    def __init__(self, folder: Path | None, rules: ExecutionRules, first_day: str = "1970-01-01") -> None:
        self._folder, self._rules, self._first_day = folder, rules, first_day
        self.count = 0
        self.heard: Callable[[Record | None], None] | None = None
        """Who else is told what is recorded, by the names and numbers of the record; None: all begins anew."""
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: cannot be made ({error.strerror or error})") from error
        self._begin()

    def _begin(self) -> None:
        self._entries: list[Record] = []
        self._jobs: list[str] = []
        self._quota = QuotaLog()
        self._notes: list[AnyNote] = []
        self._open: dict[int, RecordedTask] = {}
        """Task index -> a task that has not ended."""
        self._left: dict[str, RecordedTask] = {}
        """Name -> a task that had not ended when an earlier process stopped, until it is heard of again."""
        self._used: set[int] = set()
        """Hashes of the names of all tasks recorded: a Job that was deleted may be created again by the same name."""
        self._cards = RecordedCards()
        self._nodes: dict[str, NodeSpec] = {}
        """Every node there was, as large as it ever was."""
        self._nodes_changed = True
        """Whether they are not all written."""
        self._last = 0.0
        """The time of the last row: no other is before it, whatever the clock says."""
        self._full = False
        """Whether the disk did not take what was to be written last."""

    def open(self) -> None:
        """Go on where the files end, or begin them. Only who decides may: replicas may share a folder."""
        self._begin()
        if self.heard is not None:
            self.heard(None)
        if self._folder is None:
            return
        header = ",".join(SCHEMA.names) + (",timestamp" if self._first_day else "")
        quota = ",".join(QUOTA_SCHEMA.names)
        for name, first in (("events.csv", header), ("jobs.csv", JOBS), ("quota.csv", quota), ("decisions.jsonl", "")):
            _open(self._folder / name, first)
        self._left, names, self._last = read_log(self._folder / "events.csv", self._rules)
        self._used = {hash(name) for name in names}
        for left in self._left.values():
            self._cards.take(left.places)
        self._nodes = _read_nodes(self._folder / "nodes.csv")

    # -- what happens ------------------------------------------------------------------------------

    def record(self, entry: Record) -> None:
        """Note what happened to a task."""
        self.count += 1
        if self._folder is None and self.heard is None:
            return
        time, what, task, run, reason = entry
        time = self._last = max(time, self._last)
        known = self._known(task)
        if known is None:
            known = self._submitted(task, time)
        if what == START and run is not None:
            self._start(known, run, time, reason)
        elif what != SUBMIT:
            self._stop(known, run, time, what, reason)

    def _note(self, entry: Record) -> None:
        if self._folder is not None:
            self._entries.append(entry)
        if self.heard is not None:
            self.heard(entry)

    def _known(self, task: Task) -> RecordedTask | None:
        """A task that was recorded before, maybe by an earlier process."""
        known = self._open.get(task.index)
        if known is None and (name := self._left_name(task.name)):
            known = self._open[task.index] = self._left.pop(name)
            known.task = replace(task, name=name)
        return known

    def _left_name(self, name: str) -> str:
        """The name by which an earlier process recorded a task of this name that has not ended; '': none."""
        if name in self._left:
            return name
        return max((each for each in self._left if _base(each) == name), key=len, default="")

    def _submitted(self, task: Task, time: float) -> RecordedTask:
        """A task that is new here, by a name that no other task of the record has."""
        name, number = task.name, 1
        while hash(name) in self._used:
            number += 1
            name = f"{task.name}~{number}"
        self._used.add(hash(name))
        named = task if name == task.name else replace(task, name=name)
        known = self._open[task.index] = RecordedTask(named, time)
        self._note((time, SUBMIT, named, None, None))
        return known

    def _start(self, known: RecordedTask, run: Run, time: float, reason: Any) -> RecordedTask:
        """A run has begun, unless it is the one that an earlier process recorded; the task as it is recorded.

        What is left of a gang of which some pods are done is a task of its own: all runs of a task are of one size.
        """
        if known.is_on(run):
            return known
        if known.began is not None:  # its end was not written
            self._stop(known, run, time, LOST, None)
        if known.pods not in (0, run.task.pods):
            self._stop(known, None, time, CANCEL, None)
            known = self._submitted(run.task, time)
        known.runs += 1
        known.pods = run.task.pods
        known.task = replace(run.task, name=known.task.name)
        known.began, known.places = time, self._cards.take(run.places)
        self._note((time, START, known.task, known.run(time), reason))
        return known

    def _stop(self, known: RecordedTask, run: Run | None, time: float, what: int, reason: Any) -> None:
        """A run is over, or a task that waits is withdrawn."""
        if known.began is None and run is not None:  # its beginning was not written
            known = self._start(known, run, time, None)
        ran, placed = known.ran(time, self._rules), known.run(time) if known.began is not None else None
        self._note((time, what, known.task, placed, reason))
        self._cards.give_back(known.places)
        known.began, known.places = None, []
        if what == FINISH:
            self._end(known, known.work + ran)
        elif what == CANCEL:
            self._end(known, max(time - known.submitted, 0.0), cancelled=time)
        else:
            known.work += self._rules.saved_at_loss(known.task, ran)

    def _end(self, known: RecordedTask, duration: float, cancelled: float | None = None) -> None:
        """Nothing more will come of a task: it gets its row. One that was withdrawn would have run on."""
        task = known.task
        self._open.pop(task.index, None)
        numbers = (task.cpus_per_pod, task.gpus_per_pod, known.pods or task.pods, known.submitted, duration)
        row = (task.name, task.organization, task.gpu_model, *(_exact(number) for number in numbers))
        hours = f"{task.guarantee_hours:g}", f"{task.checkpoint_interval:g}"
        at = "" if cancelled is None else _exact(cancelled)
        if self._folder is not None:
            self._jobs.append(_line((*row, task.priority.label, *hours, at)))

    def settle(self, now: float, runs: Iterable[Run], waiting: Collection[str], done: Collection[str]) -> None:
        """After a restart: these run, these wait, these were done meanwhile; of others nobody knows what became."""
        if self._folder is None and self.heard is None:
            return
        now = self._last = max(now, self._last)
        running = set()
        for run in runs:
            self.record((now, START, run.task, run, None))
            running.add(run.task.index)
        for name, known in list(self._left.items()):
            if _base(name) not in waiting and name not in waiting:
                del self._left[name]
                what = FINISH if (name in done or _base(name) in done) and known.began is not None else CANCEL
                self._stop(known, None, now, what, None)
        still = [known for index, known in self._open.items() if index not in running]
        for known in (*still, *self._left.values()):
            if known.began is not None:
                self._stop(known, None, now, LOST, None)

    def name_of(self, task: Task) -> str:
        """The name that a task which has not ended is recorded by."""
        return self._open[task.index].task.name if task.index in self._open else task.name

    def close(self, now: float) -> int:
        """The cluster is taken down: what has not ended is withdrawn. How many tasks that are."""
        left = [*self._open.values(), *self._left.values()]
        for known in left:
            self._last = max(now, self._last)
            self._stop(known, None, self._last, CANCEL, None)
        self._left.clear()
        return len(left)

    @property
    def pending(self) -> bool:
        """Whether there is something to write."""
        return bool(self._entries or self._jobs or self._quota or self._notes)

    def drop(self) -> None:
        """Forget everything: another replica may write to the same files by now."""
        self._begin()

    def note(self, note: AnyNote) -> None:
        """Note what decisions go by (docs/reference/files.md#decision-log)."""
        if self._folder is not None:
            self._notes.append(note)

    def note_quota(self, now: float, state: PoolState, policy: Policy) -> None:
        """Note the quota of a pool (docs/reference/files.md#quota-log)."""
        if self._folder is not None:
            self._quota.note(now, state, policy)

    # -- files -------------------------------------------------------------------------------------

    def flush(self, nodes: Iterable[NodeSpec] = (), still: Callable[[], bool] = always) -> None:
        """Write what is not written yet; what the disk does not take is kept for the next time.

        `still`: whether the files are still ours, asked when all is ready to be written. A process may be stopped for
        longer than its lease while it gets it ready.
        """
        if self._folder is None:
            return
        self._note_nodes(nodes)
        events = _rows(self._entries, self._first_day) if self._entries else ""
        quota = _csv(self._quota.table()) if self._quota else ""
        notes = lines_of(self._notes).decode() if self._notes else ""
        if not still():
            return
        try:
            if events:
                _append(self._folder / "events.csv", events)
                self._entries = []
            if self._jobs:
                _append(self._folder / "jobs.csv", "".join(self._jobs))
                self._jobs = []
            if quota:
                _append(self._folder / "quota.csv", quota)
                self._quota = QuotaLog()
            if notes:
                _append(self._folder / "decisions.jsonl", notes)
                self._notes = []
            if self._nodes_changed:
                self._write_nodes(still)
        except (OSError, InputError) as error:
            if not self._full:
                log.warning(f"the event log was not written, it is tried again: {error}")
            self._full = True
            return
        self._full = False

    def _note_nodes(self, nodes: Iterable[NodeSpec]) -> None:
        """A node that is gone, or has shrunk, is in the log as it was."""
        for node in nodes:
            known = self._nodes.get(node.name)
            if known is None or known.gpus < node.gpus or known.cpus < node.cpus:
                self._nodes[node.name] = node
                self._nodes_changed = True

    def _write_nodes(self, still: Callable[[], bool]) -> None:
        assert self._folder is not None
        specs = self._nodes.values()
        lines = [_line((node.name, node.gpu_model, str(node.gpus), f"{node.cpus:g}")) for node in specs]
        write_text(self._folder / "nodes.csv", f"{NODES}\n{''.join(lines)}", still=still)
        self._nodes_changed = False


def _read_nodes(path: Path) -> dict[str, NodeSpec]:
    """The nodes that an earlier process has recorded."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["node_name"]: NodeSpec(
            0, row["node_name"], row["gpu_model"], int(row["gpu_capacity_num"]), float(row["cpu_num"])
        )
        for row in rows
    }


def _base(name: str) -> str:
    """The name of a task without the number that the record gave it."""
    base, _, number = name.rpartition("~")
    return base if number.isdigit() else name


def _rows(entries: list[Record], first_day: str) -> str:
    """Entries as lines of the event log."""
    tasks = {entry[2].name: entry[2] for entry in entries}
    numbered = {name: replace(task, index=place) for place, (name, task) in enumerate(tasks.items())}
    told = EventLog(Workload(tuple(numbered.values()), (), durations=(0.0,) * len(numbered)))
    for time, what, task, run, reason in entries:
        told.record((time, what, numbered[task.name], run, reason))
    return _csv(with_timestamps(told.table(), first_day))


def _csv(table: pa.Table) -> str:
    """The rows of a table as lines, without its header."""
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(csv_table(table), out, options)
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
            write_text(path, f"{header}\n" if header else "")
            return
        with path.open("r+b") as file:
            content = file.read()
            if header and not content.startswith(header.encode() + b"\n"):
                raise InputError(f"{path}: is there and begins with other columns; name another folder")
            file.truncate(content.rfind(b"\n") + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


def _append(path: Path, text: str) -> None:
    """Add whole lines to a file, or nothing."""
    size = path.stat().st_size
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        os.truncate(path, size)
        raise
