"""Records every decision: the event log, and the trace (jobs and nodes) that belongs to it.

Recording never stops or slows a decision. `record` and the methods like it only note what happened and never raise;
`write` formats and appends the notes in any thread.

The log stays consistent by itself. A process that was killed may not have written its last decisions, and the core may
number the GPUs of a node in another order after a restart: a run gets the lowest GPUs that are free in the log.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from gfs.core.actions import CANCEL, FINISH, LOST, START, SUBMIT, LostRun, Record
from gfs.core.node import Node, Place, lowest
from gfs.core.ports import Policy
from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.files import always
from gfs.live.record_files import EVENTS, JOBS, NODES, Batch, Row, cut_end, job_row, open_files, read_rows
from gfs.live.recorded import FROM_LOG, RecordedTask, read_node, read_place, read_task, renamed, split_name
from gfs.telemetry import event_log
from gfs.telemetry.decisions import AnyNote
from gfs.telemetry.event_log import pods_of

BEHIND: Final = 60.0
"""Seconds by which the clock may be behind the log without a warning."""
log = logging.getLogger("gfs.live")


class Recorder:
    """Appends to the files of a folder. Tasks are known by their names: an index lasts as long as a process."""

    def __init__(self, folder: Path | None, rules: ExecutionRules) -> None:
        self._folder, self._rules = folder, rules
        self.heard: Callable[[Record | None], None] | None = None
        """Called with each entry, by the names and numbers of the record; with None when the record is opened."""
        self._writing = Lock()
        self._is_failing = False
        """Whether the last write failed. Only the first failure is logged."""
        self._failed: set[tuple[str, type[Exception]]] = set()
        """Errors that were logged."""
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: cannot be made ({error.strerror or error})") from error
        self.drop()

    def drop(self) -> None:
        """Forget everything, because another replica may write the files."""
        self._writes = self._folder is not None
        self._batch = Batch()
        self._unwritten: deque[Batch] = deque()
        self._tasks: dict[str, RecordedTask] = {}
        """Name in the cluster -> the task of that name that has not ended."""
        self._numbers: Counter[int] = Counter()
        """Hash of a name in the cluster -> how many tasks of that name are in the log."""
        self._held: Counter[str] = Counter()
        """Node -> the set of its GPUs that runs hold in the log: bit i stands for GPU i."""
        self._nodes: dict[str, NodeSpec] = {}
        """Every node there was, as large as it ever was."""
        self._last = 0.0
        """The time of the last row."""
        self._is_behind = self._is_settled = False

    def open(self) -> None:
        """Continue the files, or begin them. Only the replica that decides calls it: replicas may share a folder.

        Files that cannot be read or written stop nothing: the record is off until the next opening.
        """
        with self._writing:
            self.drop()
            if self._folder is not None:
                try:
                    self._go_on(self._folder)
                except Exception as error:
                    log.error(f"{error}: nothing is recorded; free or move away {self._folder}, then restart")
                    self.drop()
                    self._writes = False
        self._tell(None)

    def _go_on(self, folder: Path) -> None:
        last, torn = open_files(folder), 0
        self._nodes = {node.name: node for node in map(read_node, read_rows(folder / NODES))}
        listed = {row["job_name"] for row in read_rows(folder / JOBS)}
        for _, entry in groupby(read_rows(folder / EVENTS), itemgetter("time", "event", "task", "run")):
            rows = list(entry)
            torn = 0 if self._read(rows, listed) else len(rows)
        if torn:  # a process was killed while it wrote: as if it had been killed before
            cut_end(folder / EVENTS, torn)
        self._last = max(last, self._last)
        for known in self._tasks.values():
            if known.run is not None:
                self._hold(known.run.places)

    def _read(self, rows: list[Row], listed: Collection[str]) -> bool:
        """Read an entry of the log; False: it lacks rows. `listed`: names that have a row in `jobs.csv`."""
        row = rows[0]
        what, time, gpus = event_log.EVENTS.index(row["event"]), float(row["time"]), float(row["gpus"])
        key, number = split_name(row["task"])
        known = self._tasks.get(key)
        self._last = max(time, self._last)
        if what == SUBMIT:  # the log has the GPUs of all pods, and not how many pods they are
            self._numbers[hash(key)] = number
            self._tasks[key] = RecordedTask(key, read_task(row, int(gpus), 1.0), time)
        elif known is not None and what == START:
            task = read_task(row, len(rows), gpus)
            if not known.has_shape_of(task):
                return False
            known.begin(task, [read_place(each) for each in rows], time)
        elif known is not None:
            if known.run is not None and len(rows) < known.task.pods:
                return False
            known.stop(time)
            if what in (FINISH, CANCEL):
                self._end(known, what, time)
                if known.task.name in listed:
                    self._batch.jobs.pop()
        return True

    # -- what happens ------------------------------------------------------------------------------

    def record(self, entry: Record) -> None:
        """Note what happened to a task.

        START of a run that has begun: only the pods at `run.places` still run. The log keeps the others until their
        GPUs are reused.
        """
        if not self._writes and self.heard is None:
            return
        with self._guarded("an entry"):
            time, what, task, run, reason = entry
            time = self._at(time)
            known = self._tasks.get(task.name) or self._submit(task, time)
            known.learn(task)
            if run is not None and (what == START or known.run is None):  # or its beginning was not recorded
                known = self._start(known, run, time, reason if what == START else None)
            if what not in (SUBMIT, START):
                self._stop(known, time, what, reason)

    def cancelled(self, now: float, name: str) -> None:
        """Note that a task, by its name in the cluster, gets no more pods."""
        if (known := self._tasks.get(name)) is not None:
            with self._guarded("the end of a task"):
                self._stop(known, self._at(now), CANCEL, None)

    def settle(self, now: float, runs: Iterable[Run], waiting: Collection[str], done: Collection[str]) -> None:
        """Reconcile the log with the cluster: `runs`, and names of tasks that wait or are done. Cancel all others.

        Call it after `open`. Ends come first: they free the GPUs of what runs.
        """
        now, running = self._at(now), {run.task.name: run for run in runs}
        for key, known in list(self._tasks.items()):
            with self._guarded("the end of a run"):
                run = running.get(key)
                if run is not None and known.goes_on_with(self._pods(run)):
                    known.learn(run.task)
                elif run is not None or key in waiting:
                    self._stop(known, now, LOST, None)
                else:
                    self._stop(known, now, FINISH if key in done else CANCEL, None)
        for run in running.values():
            self.record((now, START, run.task, run, None))
        self._is_settled = True

    def close(self, now: float) -> int:
        """Cancel all tasks that have not ended, because the cluster is taken down; returns their number."""
        left = list(self._tasks.values())
        for known in left:
            with self._guarded("the end of a run"):
                self._stop(known, self._at(now), CANCEL, None)
        return len(left)

    def name_of(self, task: Task) -> str:
        """Returns the name that a task which has not ended has in the log."""
        known = self._tasks.get(task.name)
        return known.task.name if known is not None else task.name

    def note(self, note: AnyNote) -> None:
        """Note what decisions go by (docs/reference/files.md#decision-log)."""
        with self._guarded("a note"):
            self._batch.notes.append(msgspec.structs.replace(note, time=self._at(note.time)))

    def note_quota(self, now: float, state: PoolState, policy: Policy) -> None:
        """Note the quota of a pool (docs/reference/files.md#quota-log)."""
        with self._guarded("a quota"):
            self._batch.quota.note(self._at(now), state, policy)

    def note_nodes(self, nodes: Iterable[NodeSpec]) -> None:
        """Note nodes. A node that is gone or has shrunk stays in the record as it was."""
        with self._guarded("a node"):
            for node in nodes:
                self._note_node(node)

    def _note_node(self, node: NodeSpec) -> str:
        """Returns the name of the node in the log. A node that gets another GPU model is another node there."""
        name, known = node.name, self._nodes.get(node.name)
        if known is not None and known.gpu_model != node.gpu_model:
            name = f"{node.name}~{node.gpu_model}"
            known = self._nodes.get(name)
        if known is None or known.gpus < node.gpus or known.cpus < node.cpus:
            gpus, cpus = (max(node.gpus, known.gpus), max(node.cpus, known.cpus)) if known else (node.gpus, node.cpus)
            self._nodes[name] = replace(node, name=name, gpus=gpus, cpus=cpus)
            self._batch.nodes = self._nodes
        return name

    # -- the log as it grows -----------------------------------------------------------------------

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Log any error, so that decisions go on."""
        try:
            yield
        except Exception as error:
            kind = what, type(error)
            if kind not in self._failed:
                self._failed.add(kind)
                log.exception(f"{what} is not in the record, decisions and the record go on; please report this")

    def _at(self, time: float) -> float:
        """Returns the time of the next row. A log that is ahead of the clock keeps its last time until then."""
        if time < self._last - BEHIND and not self._is_behind and self._writes:
            self._is_behind = True
            log.warning(
                f"the event log is {self._last - time:.0f} s ahead of the clock: rows get its last time until the clock"
                " is there; compare the clocks of all replicas"
            )
        self._last = max(time, self._last)
        return self._last

    def _emit(self, entry: Record) -> None:
        self._batch.entries.append(entry)
        self._tell(entry)

    def _tell(self, entry: Record | None) -> None:
        if self.heard is not None:
            with self._guarded("what the page shows"):
                self.heard(entry)

    def _submit(self, task: Task, time: float) -> RecordedTask:
        """Add a task to the log, by a name that no other task there has (`split_name` reads it)."""
        self._numbers[hash(task.name)] += 1
        number = self._numbers[hash(task.name)]
        named = renamed(task, task.name if number == 1 else f"{task.name}~{number}")
        known = self._tasks[task.name] = RecordedTask(task.name, named, time)
        self._emit((time, SUBMIT, named, None, None))
        return known

    def _pods(self, run: Run) -> Counter[str]:
        """Returns the number of pods of a run on each node of the log."""
        names = {node.name: self._note_node(node.spec) for node in run.nodes}
        return Counter(names[node] for node, _ in pods_of(run))

    def _start(self, known: RecordedTask, run: Run, time: float, reason: Reason | None) -> RecordedTask:
        """Begin a run, unless the log has it. A task with another shape than before is another task in the log."""
        pods = self._pods(run)
        if not pods or known.goes_on_with(pods):
            return known
        self._stop(known, time, LOST, None)  # if its end was not recorded
        task = replace(run.task, pods=pods.total())
        if not known.has_shape_of(task):
            self._stop(known, time, CANCEL, None)
            known = self._submit(task, time)
        for node, count in pods.items():
            if self._free(node) < count * task.cards:
                self._make_room(node, count * task.cards, time)
        self._begin(known, task, pods, time, reason)
        return known

    def _begin(self, known: RecordedTask, task: Task, pods: Counter[str], time: float, reason: Reason | None) -> None:
        """Begin a run on the lowest free GPUs."""
        places = []
        for node, count in pods.items():
            gpus = count * task.cards
            places.append((Node(self._nodes[node]), lowest(~self._held[node], gpus), gpus))
        known.begin(task, places, time)
        self._hold(places)
        self._emit((time, START, known.task, known.run, reason))

    def _hold(self, places: list[Place]) -> None:
        for node, mask, _ in places:
            self._held[node.name] |= mask

    def _free(self, node: str) -> int:
        return self._nodes[node].gpus - self._held[node].bit_count()

    def _make_room(self, node: str, gpus: int, time: float) -> None:
        """Free GPUs in the log: split gangs with finished pods, end runs that the cluster has not confirmed yet."""
        for known in [each for each in self._tasks.values() if each.pods[node]]:
            if self._free(node) >= gpus:
                return
            if known.alive[node] < known.pods[node]:
                self._split(known, time)
            elif known.task.index == FROM_LOG:
                self._stop(known, time, LOST, None)
        excess = gpus - self._free(node)
        if excess > 0 and not self._is_settled:  # it had these GPUs when no process recorded
            self._note_node(replace(self._nodes[node], gpus=self._nodes[node].gpus + excess))
        elif excess > 0:
            log.warning(f"node {node} holds {excess} GPUs more than it ever had, so does the event log")

    def _split(self, known: RecordedTask, time: float) -> None:
        """End the run of a gang. Its pods that have not ended become a task of their own."""
        pods, alive, task = known.pods.total(), known.alive, known.task
        words = f"{pods - alive.total()} of {pods} pods finished, the others go on as a task of their own"
        assert known.run is not None
        reason = LostRun(known.run, words)
        self._stop(known, time, CANCEL, reason)
        rest = replace(task, name=known.key, pods=alive.total())
        self._begin(self._submit(rest, time), rest, alive, time, reason)

    def _stop(self, known: RecordedTask, time: float, what: int, reason: Reason | None) -> None:
        """End a run, or cancel a task that waits."""
        run = known.run
        if run is not None:
            for node, mask, _ in run.places:
                self._held[node.name] &= ~mask
        elif what == FINISH:
            what = CANCEL
        elif what != CANCEL:
            return
        self._emit((time, what, known.task, run, reason))
        known.stop(time)
        if what in (FINISH, CANCEL):
            self._end(known, what, time)

    def _end(self, known: RecordedTask, what: int, time: float) -> None:
        """Forget a task that has ended, and add its row to the trace."""
        del self._tasks[known.key]
        duration = known.duration(what, time, self._rules)
        self._batch.jobs.append(job_row(known.task, known.submitted, duration, time if what == CANCEL else None))

    # -- files -------------------------------------------------------------------------------------

    def take(self) -> bool:
        """Hand the notes over to `write`; returns whether it has work. Call it in the thread that records."""
        batch, self._batch = self._batch, Batch()
        if batch and self._writes:
            batch.nodes = batch.nodes.copy()  # these are still noted while another thread writes
            self._unwritten.append(batch)
        return bool(self._unwritten)

    def write(self, still: Callable[[], bool] = always) -> None:
        """Write what `take` handed over, in any thread; keep what cannot be written for the next call. Never raises.

        `still` returns whether the files are still ours. It is called after formatting, because a process may be
        paused for longer than its lease meanwhile.
        """
        with self._writing:
            unwritten = self._unwritten
            try:
                while self._folder is not None and unwritten and unwritten[0].write(self._folder, still):
                    unwritten.popleft()
            except Exception as error:
                if not self._is_failing:
                    log.warning(f"the record was not written, which is tried again: {error}; is {self._folder} full?")
                self._is_failing = True
            else:
                self._is_failing = False

    def flush(self, nodes: Iterable[NodeSpec] = (), still: Callable[[], bool] = always) -> None:
        """Note nodes, take and write."""
        self.note_nodes(nodes)
        if self.take():
            self.write(still)
