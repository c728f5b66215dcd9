"""Records every decision: the event log, and the trace (jobs and nodes) that it came from.

Recording never stops or slows a decision. `record` and the like only note what happened and never raise; `take` moves
the notes out, and `write` formats and appends them in any thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from gfs.core.actions import CANCEL, FINISH, LOST, START, SUBMIT, Record
from gfs.core.node import Node, Place
from gfs.core.ports import Policy
from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.files import always
from gfs.live.record_files import EVENTS, Batch, cut_lines, job_line, open_files, read_job_names, read_nodes
from gfs.live.recorded import FROM_LOG, RecordedGpus, RecordedTask, pods_by_node, read_log
from gfs.telemetry.decisions import AnyNote
from gfs.telemetry.event_log import QuotaLog, pods_of

BEHIND: Final = 60.0
"""Seconds by which the clock may be behind the log without a warning."""
log = logging.getLogger("gfs.live")


class Split(NamedTuple):
    """Other tasks hold the GPUs of the pods that have finished; the others go on as a task of its own."""

    finished: int
    pods: int

    def text(self) -> str:
        """Such as '1 of 3 pods finished, the others go on as a task of their own'."""
        return f"{self.finished} of {self.pods} pods finished, the others go on as a task of their own"


class Recorder:
    """Appends to the files of a folder. Tasks are known by their names: an index lasts as long as a process."""

    def __init__(self, folder: Path | None, rules: ExecutionRules) -> None:
        self._folder, self._rules = folder, rules
        self.count = 0
        """Entries so far."""
        self.heard: Callable[[Record | None], None] | None = None
        """Called with each entry by the names and numbers of the record; None: everything begins anew."""
        self._writing = Lock()
        self._opening = 0
        self._is_failing = False
        """Whether the last batch was not written: that is logged once."""
        self._failed: set[tuple[str, type[Exception]]] = set()
        """What went wrong already, and was logged."""
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: cannot be made ({error.strerror or error})") from error
        self._begin()

    def _begin(self) -> None:
        self._opening += 1
        self._writes = self._folder is not None
        self._entries: list[Record] = []
        self._jobs: list[str] = []
        self._quota = QuotaLog()
        self._notes: list[AnyNote] = []
        self._unwritten: deque[Batch] = deque()
        self._tasks: dict[str, RecordedTask] = {}
        """Name in the cluster -> the task of that name that has not ended."""
        self._numbers: dict[int, int] = {}
        """Hash of a name in the cluster -> how many tasks of that name are in the log."""
        self._gpus = RecordedGpus()
        self._nodes: dict[str, NodeSpec] = {}
        """Every node there was, as large as it ever was."""
        self._nodes_changed = True
        self._last = 0.0
        """The time of the last row."""
        self._is_behind = self._is_settled = False

    def open(self) -> None:
        """Go on where the files end, or begin them. Only the replica that decides calls it: they may share a folder.

        Files that cannot be read or written are no reason to stop: then nothing is written until the next opening.
        """
        with self._writing:
            self._begin()
            if self._folder is not None:
                try:
                    self._go_on(self._folder)
                except Exception as error:
                    log.error(f"{error}: nothing is recorded; free or move away {self._folder}, then restart")
                    self._begin()
                    self._writes = False
        with self._guarded("the page"):
            if self.heard is not None:
                self.heard(None)

    def _go_on(self, folder: Path) -> None:
        last = open_files(folder)
        self._nodes = read_nodes(folder)
        listed = read_job_names(folder)
        so_far = read_log(folder / EVENTS, self._nodes, listed, self._rules)
        if so_far.half:  # a process was killed while it wrote: as if it had been killed before
            cut_lines(folder / EVENTS, so_far.half)
            so_far = read_log(folder / EVENTS, self._nodes, listed, self._rules)
        self._numbers, self._last = so_far.numbers, so_far.last
        for known, what, time in so_far.unlisted:
            self._list(known, what, time)
        for name, known in reversed(so_far.tasks.items()):
            if known.key in self._tasks:  # two of one name: the later one may go on
                known.key = name
            self._tasks[known.key] = known
            self._gpus.hold(known.places)
        self._last = max(last, self._last)

    # -- what happens ------------------------------------------------------------------------------

    def record(self, entry: Record) -> None:
        """Note what happened to a task.

        START of a run that has begun: only the pods at `run.places` still run. The log keeps the others until their
        GPUs are reused.
        """
        self.count += 1
        if self._writes or self.heard is not None:
            with self._guarded("an entry"):
                self._record(*entry)

    def cancelled(self, now: float, name: str) -> None:
        """Note that a task, by its name in the cluster, gets no pods any more."""
        if (known := self._tasks.get(name)) is not None:
            with self._guarded("the end of a task"):
                self._stop(known, None, self._at(now), CANCEL, None)

    def settle(self, now: float, runs: Iterable[Run], waiting: Collection[str], done: Collection[str]) -> None:
        """Reconcile the log with the cluster: what runs, waits, and was done. Tasks of other names are cancelled.

        Call it after `open`, before the first `record`. What has ended comes first: it frees the GPUs of what runs.
        """
        if not self._writes and self.heard is None:
            return
        now, running = self._at(now), {run.task.name: run for run in runs}
        for key, known in list(self._tasks.items()):
            with self._guarded("the end of a run"):
                run = running.get(key)
                if run is not None and known.goes_on_at(self._placed(run)):
                    known.learn(run.task)
                elif run is not None or key in waiting:
                    self._stop(known, None, now, LOST, None)
                else:
                    self._stop(known, None, now, FINISH if key in done else CANCEL, None)
        for run in running.values():
            with self._guarded("a run"):
                self._record(now, START, run.task, run, None)
        self._is_settled = True

    def close(self, now: float) -> int:
        """Cancel all tasks that have not ended: the cluster is taken down. Returns how many."""
        left = list(self._tasks.values())
        for known in left:
            with self._guarded("the end of a run"):
                self._stop(known, None, self._at(now), CANCEL, None)
        return len(left)

    def name_of(self, task: Task) -> str:
        """Returns the name that a task which has not ended has in the log."""
        known = self._tasks.get(task.name)
        return known.task.name if known is not None else task.name

    def note(self, note: AnyNote) -> None:
        """Note what decisions go by (docs/reference/files.md#decision-log)."""
        if self._writes:
            with self._guarded("a note"):
                self._notes.append(msgspec.structs.replace(note, time=self._at(note.time)))

    def note_quota(self, now: float, state: PoolState, policy: Policy) -> None:
        """Note the quota of a pool (docs/reference/files.md#quota-log)."""
        if self._writes:
            with self._guarded("a quota"):
                self._quota.note(self._at(now), state, policy)

    def note_nodes(self, nodes: Iterable[NodeSpec]) -> None:
        """Note nodes. One that is gone or has shrunk stays in the record as it was."""
        with self._guarded("a node"):
            for node in nodes:
                self._note_node(node)

    def _note_node(self, node: NodeSpec) -> str:
        """Returns its name in the log: a node that got another GPU model is another node there."""
        name, known = node.name, self._nodes.get(node.name)
        if known is not None and known.gpu_model != node.gpu_model:
            name = f"{node.name}~{node.gpu_model}"
            known = self._nodes.get(name)
        if known is None or known.gpus < node.gpus or known.cpus < node.cpus:
            gpus, cpus = (max(node.gpus, known.gpus), max(node.cpus, known.cpus)) if known else (node.gpus, node.cpus)
            self._nodes[name] = replace(node, name=name, gpus=gpus, cpus=cpus)
            self._nodes_changed = True
        return name

    # -- the log as it grows -----------------------------------------------------------------------

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Whatever goes wrong here, decisions go on."""
        try:
            yield
        except Exception as error:
            kind = what, type(error)
            if kind not in self._failed:
                self._failed.add(kind)
                log.exception(f"{what} is not in the record, decisions and the record go on; please report this")

    def _at(self, time: float) -> float:
        """The time of the next row: a log that is ahead of the clock stands still until the clock is there."""
        if time < self._last - BEHIND and not self._is_behind and self._writes:
            self._is_behind = True
            log.warning(
                f"the event log is {self._last - time:.0f} s ahead of the clock: rows get its last time until the clock"
                " is there; compare the clocks of all replicas"
            )
        if time > self._last:
            self._last = time
        return self._last

    def _emit(self, entry: Record) -> None:
        if self._writes:
            self._entries.append(entry)
        if self.heard is not None:
            with self._guarded("what the page shows"):
                self.heard(entry)

    def _record(self, time: float, what: int, task: Task, run: Run | None, reason: Reason | None) -> None:
        time, known = self._at(time), self._tasks.get(task.name)
        if known is None:
            known = self._submit(task, time)
        known.learn(task)
        if what == START and run is not None:
            self._start(known, run, time, reason)
        elif what != SUBMIT:
            self._stop(known, run, time, what, reason)

    def _submit(self, task: Task, time: float) -> RecordedTask:
        """A task that is new in the log gets a name that no other task there has."""
        number = self._numbers[hash(task.name)] = self._numbers.get(hash(task.name), 0) + 1
        named = task if number == 1 else replace(task, name=f"{task.name}~{number}")
        known = self._tasks[task.name] = RecordedTask(task.name, named, time)
        self._emit((time, SUBMIT, named, None, None))
        return known

    def _placed(self, run: Run) -> list[Place]:
        """One place for each pod, on the nodes of the log."""
        nodes = {}
        for node in run.nodes:
            name = self._note_node(node.spec)
            nodes[node.name] = node if name == node.name else Node(self._nodes[name])
        return [(nodes[name], mask, run.task.cards) for name, mask in pods_of(run)]

    def _start(self, known: RecordedTask, run: Run, time: float, reason: Reason | None) -> RecordedTask:
        """A run begins, unless the log has it. A task whose shape has changed is a task of its own."""
        places = self._placed(run)
        if not places or known.goes_on_at(places):
            return known
        self._stop(known, None, time, LOST, None)  # if its end was not recorded
        task = replace(run.task, pods=len(places))
        if not known.has_shape_of(task):
            self._stop(known, None, time, CANCEL, None)
            known = self._submit(task, time)
        self._make_room(places, time)
        self._begin_run(known, task, places, time, reason)
        return known

    def _begin_run(
        self, known: RecordedTask, task: Task, places: list[Place], time: float, reason: Reason | None
    ) -> None:
        known.begin(task, self._gpus.take(places, self._nodes), time)
        self._emit((time, START, known.task, known.run(), reason))

    def _make_room(self, places: list[Place], time: float) -> None:
        """Where the log has too few free GPUs, split gangs of which pods have finished; then end what is unheard of."""
        for name, pods in pods_by_node(places).items():
            most = self._nodes[name].gpus - pods * max(places[0][2], 1)
            if self._gpus.held(name) <= most:
                continue
            here = [known for known in self._tasks.values() if any(node.name == name for node, _, _ in known.places)]
            for known in here:
                if self._gpus.held(name) > most and known.alive[name] < pods_by_node(known.places)[name]:
                    self._split(known, time)
            for known in here:
                if self._gpus.held(name) > most and known.task.index == FROM_LOG:
                    self._stop(known, None, time, LOST, None)
            excess = self._gpus.held(name) - most
            if excess > 0 and not self._is_settled:  # it had these GPUs when no process recorded
                self._note_node(replace(self._nodes[name], gpus=self._nodes[name].gpus + excess))
            elif excess > 0:
                log.warning(f"node {name} holds {excess} GPUs more than it ever had, so does the event log")

    def _split(self, known: RecordedTask, time: float) -> None:
        """End the run of a gang in the log; its pods that have not ended go on as a task of their own."""
        left, places = known.alive.copy(), list[Place]()
        for place in known.places:
            if left[place[0].name] > 0:
                left[place[0].name] -= 1
                places.append(place)
        task, reason = known.task, Split(len(known.places) - len(places), len(known.places))
        self._stop(known, None, time, CANCEL, reason)
        if places:
            rest = replace(task, name=known.key, pods=len(places))
            self._begin_run(self._submit(rest, time), rest, places, time, reason)

    def _stop(self, known: RecordedTask, run: Run | None, time: float, what: int, reason: Reason | None) -> None:
        """A run is over, or a task that waits is cancelled."""
        if known.began is None and run is not None:  # its beginning was not recorded
            known = self._start(known, run, time, None)
        if known.began is None:
            if what not in (FINISH, CANCEL):
                return
            what = CANCEL
        self._emit((time, what, known.task, known.run(), reason))
        self._gpus.give_back(known.places)
        known.stop(time, self._rules)
        if what in (FINISH, CANCEL):
            self._tasks.pop(known.key, None)
            self._list(known, what, time)

    def _list(self, known: RecordedTask, what: int, time: float) -> None:
        """Add the row of a task that has ended to the trace."""
        if self._writes:
            duration = known.duration(what, time, self._rules)
            self._jobs.append(job_line(known.task, known.submitted, duration, time if what == CANCEL else None))

    # -- files -------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether there is something to write."""
        return bool(self._entries or self._jobs or self._quota or self._notes or self._unwritten)

    def drop(self) -> None:
        """Forget everything: another replica may write to the same files by now."""
        self._begin()

    def take(self) -> Batch | None:
        """Returns what is to be written, None if nothing. Call it in the thread that records."""
        if not self._writes or not (self.pending or self._nodes_changed):
            return None
        nodes = tuple(self._nodes.values()) if self._nodes_changed else None
        batch = Batch(self._opening, self._entries, self._jobs, self._quota, self._notes, nodes)
        self._entries, self._jobs, self._quota, self._notes, self._nodes_changed = [], [], QuotaLog(), [], False
        return batch

    def write(self, batch: Batch, still: Callable[[], bool] = always) -> None:
        """Write a batch, in any thread, after those that could not be written before. Never raises.

        `still` says whether the files are still ours. It is asked when all is ready: a process may be stopped for
        longer than its lease while it formats. What is not written is kept for the next call.
        """
        with self._writing:
            if self._folder is None or batch.opening != self._opening:
                return
            unwritten = self._unwritten
            unwritten.append(batch)
            try:
                while unwritten and unwritten[0].write(self._folder, still):
                    unwritten.popleft()
            except Exception as error:
                if not self._is_failing:
                    log.warning(f"the record was not written, which is tried again: {error}; is {self._folder} full?")
                self._is_failing = True
            else:
                self._is_failing = False

    def flush(self, nodes: Iterable[NodeSpec] = (), still: Callable[[], bool] = always) -> None:
        """Take and write at once: at the end of a process, and in tests."""
        self.note_nodes(nodes)
        batch = self.take()
        if batch is not None:
            self.write(batch, still)
