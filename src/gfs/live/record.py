"""Records every decision: the event log, and the trace (jobs and nodes) that belongs to it.

Recording never stops or slows a decision. `record`, `cancelled` and `reconcile` only note what happened and never
raise; `write` appends the notes to the files in any thread.

The log stays consistent by itself, although a process that was killed may not have written its last decisions: in the
log, the runs on a node never hold more GPUs than it had at most.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from gfs.core.actions import CANCEL, FINISH, LOST, START, SUBMIT, LostRun, Record
from gfs.core.node import WHOLE, Node, Place
from gfs.core.ports import Policy
from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.files import always
from gfs.live.record_files import EVENTS, RecordFiles, cut_end, open_files, read_entries, read_jobs, read_nodes
from gfs.live.recorded import LogState, RecordedTask, pods_by_node
from gfs.telemetry.decisions import AnyNote
from gfs.telemetry.event_log import QuotaLog

BEHIND: Final = 60.0
"""Seconds by which the clock may be behind the log without a warning."""
log = logging.getLogger("gfs.live")


class Recorder:
    """Appends to the files of a folder. Tasks are known by their names: an index lasts as long as a process."""

    def __init__(self, folder: Path | None, rules: ExecutionRules) -> None:
        self._folder, self._rules = folder, rules
        self._files = RecordFiles()
        self.listener: Callable[[Record | None], None] | None = None
        """Called with each entry, by the names and numbers of the record; with None when the record is opened."""
        self._failed: set[tuple[str, type[Exception]]] = set()
        """Errors that were logged."""
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: cannot be made ({error.strerror or error})") from error
        self.drop()

    def drop(self) -> None:
        """Forget everything, because another replica may write the files. Nothing is written until the next opening."""
        self._files.drop()
        self._state = LogState()
        self._nodes_changed = False

    def open(self) -> None:
        """Continue the files, or begin them. Only the replica that decides calls it: replicas may share a folder.

        Files that cannot be read or written stop nothing: the record is off until the next opening.
        """
        self.drop()
        try:
            if self._folder is not None:
                self._files.open(self._folder, self._go_on)
        except Exception as error:
            log.error(f"{error}: nothing is recorded; free or move away {self._folder}, then restart")
            self.drop()
        self._tell(None)

    def _go_on(self, folder: Path) -> None:
        state, last, torn = self._state, open_files(folder), 0
        state.nodes, listed = read_nodes(folder), read_jobs(folder)
        for entry, rows in read_entries(folder):
            torn = rows if state.is_torn(entry) else 0
            if not torn:
                self._apply(entry, listed)
        if torn:  # a process was killed while it wrote: as if it had been killed before
            cut_end(folder / EVENTS, torn)
        state.last = max(last, state.last)

    # -- what happens ------------------------------------------------------------------------------

    def reconcile(self, now: float, runs: Iterable[Run], waiting: Collection[str], done: Collection[str]) -> None:
        """Reconcile the log with the cluster: `runs`, and names of tasks that wait or are done. Cancel all others.

        Call it after `open`, before anything is recorded. Ends come first: they free the GPUs of what runs.
        """
        if now < self._state.last - BEHIND:
            log.warning(
                f"the event log is {self._state.last - now:.0f} s ahead of the clock: rows get its last time until the"
                " clock is there; compare the clocks of all replicas"
            )
        now, running = self._at(now), {run.task.name: run for run in runs}
        self._note_shrunk(running.values())
        for name, known in list(self._state.tasks.items()):
            with self._guarded("the end of a run"):
                run, over = running.get(name), FINISH if name in done else CANCEL
                if run is None or not known.goes_on_with(run.task, self._pods(run)):
                    self._stop(known, now, LOST if run is not None or name in waiting else over, None)
        for run in running.values():
            self.record((now, START, run.task, run, None))

    def record(self, entry: Record) -> None:
        """Note what happened to a task.

        START of a run that has begun: only the pods at `run.places` still run. The log keeps the others until their
        GPUs are reused.
        """
        if self._folder is None and self.listener is None:
            return
        with self._guarded("an entry"):
            time, what, task, run, reason = entry
            time = self._at(time)
            known = self._state.tasks.get(task.name) or self._submit(task, time)
            known.learn(task)
            if run is not None and (what == START or known.run is None):  # or its beginning was not recorded
                self._start(known, run, time, reason if what == START else None)
            if what not in (SUBMIT, START):
                self._stop(self._state.tasks[task.name], time, what, reason)

    def cancelled(self, now: float, name: str) -> None:
        """Note that a task, by its name in the cluster, gets no more pods."""
        if (known := self._state.tasks.get(name)) is not None:
            with self._guarded("the end of a task"):
                self._stop(known, self._at(now), CANCEL, None)

    def close(self, now: float) -> None:
        """Cancel all tasks that have not ended, because the cluster is taken down."""
        self.reconcile(now, (), (), ())

    def name_of(self, task: Task) -> str:
        """Returns the name that a task which has not ended has in the log."""
        known = self._state.tasks.get(task.name)
        return known.task.name if known is not None else task.name

    def note(self, note: AnyNote) -> None:
        """Note what decisions go by (docs/reference/files.md#decision-log)."""
        self._files.note_decision(msgspec.structs.replace(note, time=self._at(note.time)))

    def note_quota(self, now: float, state: PoolState, policy: Policy) -> None:
        """Note the quota of a pool (docs/reference/files.md#quota-log)."""
        quota = QuotaLog()
        quota.note(self._at(now), state, policy)
        self._files.note_quota(quota)

    def note_nodes(self, nodes: Iterable[NodeSpec]) -> None:
        """Note nodes. A node that is gone or has shrunk stays in the record as it was."""
        for node in nodes:
            self._note_node(node)

    def _note_node(self, node: NodeSpec) -> str:
        """Returns the name of the node in the log. A node that gets another GPU model is another node there."""
        nodes = self._state.nodes
        name, known = node.name, nodes.get(node.name)
        if known is not None and known.gpu_model != node.gpu_model:
            name = f"{node.name}~{node.gpu_model}"
            known = nodes.get(name)
        if known is None or known.gpus < node.gpus or known.cpus < node.cpus:
            gpus, cpus = (max(node.gpus, known.gpus), max(node.cpus, known.cpus)) if known else (node.gpus, node.cpus)
            nodes[name] = replace(node, name=name, gpus=gpus, cpus=cpus)
            self._nodes_changed = True
        return name

    def _note_shrunk(self, runs: Iterable[Run]) -> None:
        """Note nodes as large as what runs there: they may have shrunk when nothing was recorded."""
        with self._guarded("a node"):
            held = Counter[str]()
            for run in runs:
                for node, count in self._pods(run).items():
                    held[node] += count * run.task.cards
                    self._note_node(replace(self._state.nodes[node], gpus=held[node]))

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
        self._state.last = max(time, self._state.last)
        return self._state.last

    def _emit(self, entry: Record) -> None:
        """Add an entry to the log."""
        self._files.note_entry(entry)  # one that cannot be written changes nothing
        self._apply(entry)
        self._tell(entry)

    def _apply(self, entry: Record, listed: Collection[str] = ()) -> None:
        """Take in an entry; a task that ends by it gets its row in the trace, unless it is `listed` there."""
        time, what, task, _, _ = entry
        ended = self._state.apply(entry)
        if ended is not None and task.name not in listed:
            duration, cancelled = ended.duration(what, time, self._rules), time if what == CANCEL else None
            self._files.note_job(ended.task, ended.submitted, duration, cancelled)

    def _tell(self, entry: Record | None) -> None:
        if self.listener is not None:
            with self._guarded("what the page shows"):
                self.listener(entry)

    def _submit(self, task: Task, time: float) -> RecordedTask:
        """Add a task to the log."""
        named = replace(task, name=self._state.new_name(task.name))
        self._emit((time, SUBMIT, named, None, None))
        return self._state.tasks[task.name]

    def _pods(self, run: Run) -> Counter[str]:
        """Returns the number of pods of a run on each node of the log."""
        names = {node.name: self._note_node(node.spec) for node in run.nodes}
        return Counter({names[node]: here for node, here in pods_by_node(run).items()})

    def _start(self, known: RecordedTask, run: Run, time: float, reason: Reason | None) -> None:
        """Begin a run, unless the log has it. A task with other pods than before is another task in the log."""
        pods = self._pods(run)
        if not pods or known.goes_on_with(run.task, pods):
            return
        self._stop(known, time, LOST, None)  # if its end was not recorded
        task = replace(run.task, pods=pods.total())
        if not known.can_start(task):
            self._stop(known, time, CANCEL, None)
            known = self._submit(task, time)
        for node, count in pods.items():
            if self._state.free(node) < count * task.cards:
                self._make_room(node, count * task.cards, time)
        self._begin(known, task, pods, time, reason)

    def _begin(self, known: RecordedTask, task: Task, pods: Counter[str], time: float, reason: Reason | None) -> None:
        """Begin a run with these pods."""
        named = replace(task, name=known.task.name)
        places: list[Place] = [(Node(self._state.nodes[node]), named, here, WHOLE) for node, here in pods.items()]
        self._emit((time, START, named, Run(named, len(known.lengths) + 1, places, time, time), reason))

    def _make_room(self, node: str, gpus: int, time: float) -> None:
        """Free GPUs in the log: split gangs with pods that have ended there."""
        for name, known in list(self._state.tasks.items()):
            if self._state.free(node) >= gpus:
                return
            if known.ended[node]:
                self._split(name, known, time)
        if (excess := gpus - self._state.free(node)) > 0:
            log.warning(f"node {node} holds {excess} GPUs more than it ever had, so does the event log")

    def _split(self, name: str, known: RecordedTask, time: float) -> None:
        """End the run of a gang. Its pods that have not ended become a task of their own."""
        pods, ended, run = known.pods, known.ended.total(), known.run
        assert run is not None
        reason = LostRun(run, f"{ended} of {pods.total()} pods finished, the others go on as a task of their own")
        self._stop(known, time, CANCEL, reason)
        rest = replace(known.task, name=name, pods=pods.total() - ended)
        self._begin(self._submit(rest, time), rest, pods - known.ended, time, reason)

    def _stop(self, known: RecordedTask, time: float, what: int, reason: Reason | None) -> None:
        """End a run, or cancel a task that waits."""
        if known.run is None and what == FINISH:
            what = CANCEL
        if known.run is not None or what == CANCEL:
            self._emit((time, what, known.task, known.run, reason))

    # -- files -------------------------------------------------------------------------------------

    def take(self) -> bool:
        """Hand the notes over to `write`; returns whether it has work. Call it in the thread that records."""
        if self._nodes_changed:
            self._files.note_nodes(self._state.nodes.values())
            self._nodes_changed = False
        return self._files.take()

    def write(self, still: Callable[[], bool] = always) -> None:
        """Write what `take` handed over, in any thread. Never raises. `still`: whether the files are still ours."""
        self._files.write(still)

    def flush(self, nodes: Iterable[NodeSpec] = (), still: Callable[[], bool] = always) -> None:
        """Note nodes, take and write."""
        self.note_nodes(nodes)
        if self.take():
            self.write(still)
