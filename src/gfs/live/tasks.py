"""The tasks of a cluster: for each key, the task book compares what the API objects show with what the core knows, and
the table (`gfs.live.table`) gives the events. After a restart the core knows nothing, and the same pass fills it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from gfs.core.actions import EVICT, FINISH, LOST, START, SUBMIT, LostRun, Record
from gfs.core.events import (
    Adopted,
    Cancelled,
    Event,
    EvictionDone,
    Finished,
    FoundRun,
    Lost,
    PodsOn,
    Shrunk,
    StartFailed,
    Submitted,
)
from gfs.core.filters.nodes import NodeRule
from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.domain.task import Priority, Task
from gfs.live.clock import Clock
from gfs.live.identity import Identities, place_of
from gfs.live.mirror import Key, Mirror
from gfs.live.observe import CORE, FAILED, NO_PODS, Observation, TaskPods, Waits, model_of, observe, priority_of
from gfs.live.overlay import Overlay
from gfs.live.table import TABLE, Observed, Phase, Step
from gfs.live.translate.asks import Asks
from gfs.live.translate.gangs import GroupName
from gfs.live.translate.pods import PodView

GONE = "its pods are gone"
WHOLE_SECOND = 1.0
"""The API server cuts times to whole seconds. So an adopted run begins a second after its last pod, and no checkpoint
counts as taken before it can be."""
MOST_RUNS = 11
"""Runs that notes on pods are believed: each raises the price of an eviction, and users can write notes."""


@dataclass(slots=True, eq=False)
class LiveTask:
    """A task: its pods, and what the core knows of it."""

    key: Key
    name: str
    phase: Phase = Phase.UNKNOWN
    task: Task | None = None
    """As the core has it."""
    run: Run | None = None
    pods: dict[str, str] = field(default_factory=dict)
    """Pods that the core counts, by uid -> the node that it is to have or has; empty: none yet."""
    members: dict[str, bool | None] = field(default_factory=dict)
    """All pods of a run that has begun, also on nodes that the core does not have, by uid -> whether the pod has
    succeeded; None: it is not over."""
    since: float = 0.0
    """Since when it is planned, by the monotonic clock."""
    is_blocked: bool = False
    """Whether its plan has no room yet."""
    failures: int = 0
    """Starts that failed in a row."""
    not_before: float = 0.0
    """When it may be submitted again after a failed start, by the monotonic clock."""
    why_failed: str = ""
    is_hp: bool = False
    """Whether its pods that wait are HP."""

    @property
    def nodes(self) -> set[str]:
        """The nodes that its pods have, or are to have."""
        return {node for node in self.pods.values() if node}


class Sink(Protocol):
    """Records what happens to tasks."""

    def record(self, entry: Record) -> None:
        """Note what happened to a task; START of a run that has begun: it holds less than before."""

    def cancelled(self, now: float, name: str) -> None:
        """Note that a task gets no more pods."""

    def reconcile(self, now: float, runs: Sequence[Run], waiting: Collection[str], done: Collection[str]) -> None:
        """After a start: note the tasks that run, wait, or finished meanwhile."""


_asks_of = attrgetter(
    "pods", "gpus_per_pod", "cpus_per_pod", "memory_per_pod", "rules", "priority", "gpu_model", "organization",
    "guarantee_hours", "checkpoint_interval", "preempts",
)  # fmt: skip
"""What the core knows of a waiting task. If one of these changes, the task is submitted again."""


class TaskBook:
    """All tasks, by key."""

    def __init__(
        self,
        mirror: Mirror,
        overlay: Overlay,
        identities: Identities,
        sink: Sink,
        clock: Clock,
        monotonic: Callable[[], float],
        *,
        guarantee_hours: float,
        checkpoint_interval: float,
    ) -> None:
        self.mirror, self.overlay, self.identities = mirror, overlay, identities
        self._sink, self._clock, self._monotonic = sink, clock, monotonic
        self._guarantee, self._interval = guarantee_hours, checkpoint_interval
        self.events: list[Event] = []
        """The next events for the core."""
        self.found: list[FoundRun] = []
        """The next runs for the core to take over."""
        self.by_key: dict[Key, dict[str, LiveTask]] = {}
        self.by_name: dict[str, LiveTask] = {}
        self.by_index: dict[int, LiveTask] = {}
        """Tasks that the core knows."""
        self.by_pod: dict[str, LiveTask] = {}
        """Pods that the core counts."""
        self.waits: dict[str, Waits] = {}
        """Pods, by uid, that the core does not know: why they wait."""
        self.unexplained: dict[str, None] = {}
        """Uids of pods that do not say yet why they wait."""
        self.ready: dict[LiveTask, TaskPods] = {}
        """Tasks to submit."""
        self.adopted: list[LiveTask] = []
        """Tasks whose runs the core takes over or shrinks in this instant."""
        self.planned: dict[LiveTask, None] = {}
        """Tasks with a plan: their pods are to be bound."""
        self.is_reconciled = False
        """Whether the record knows what ran when this process began."""
        self._attempts = 0

    def take_events(self) -> list[Event]:
        """Returns and clears the events for the core. All found runs are one event: each one rebuilds pools."""
        events, self.events = self.events, []
        if self.found:
            events.append(Adopted(self.found))
            self.found = []
        return events

    # -- looking at a key --------------------------------------------------------------------------

    def reconcile(self, key: Key, now: float) -> None:
        """Compare what is seen under a key with what the core knows, and add events for the difference."""
        live = self.by_key.get(key, {})
        sent: list[LiveTask] = []
        for task in [task for task in live.values() if task.phase is Phase.PLANNED]:
            if self._all_bound(task):
                self._apply(task, Observed.RUNS, NO_PODS, now)
            elif self._awaits_answer(task) or (self._is_sent(task) and self._plan_stands(task)):
                sent.append(task)
        planned, together = {uid for task in sent for uid in task.pods}, any(len(task.pods) > 1 for task in sent)
        found = observe(self.mirror, self.overlay, key, planned, together=together)
        seen = self._named(key, found, now, {task.name for task in sent})
        for name in sorted({*live, *seen}):
            task, each = live.get(name) or LiveTask(key, name), seen.get(name, NO_PODS)
            if task not in sent:
                self._apply(task, self._compare(task, each), each, now)
        for task in self.by_key.get(key, {}).values():
            if task in self.ready and task.not_before > self._monotonic():
                why = Waits(FAILED, f"it is tried again soon, for its last start failed: {task.why_failed}")
                found.waits |= {pod.uid: why for pod in self.ready[task].pods}
        self._note_waits(key, found)

    def _named(self, key: Key, found: Observation, now: float, taken: Collection[str]) -> dict[str, TaskPods]:
        """Returns the observed tasks by name. `taken`: names of plans that are being carried out."""
        group = self.mirror.groups.get(key) if isinstance(key, GroupName) else None
        gang = key if isinstance(key, GroupName) and group is not None and group.minimum > 1 else None
        seen: dict[str, TaskPods] = {}

        def is_named(bound_for: str) -> bool:
            """Whether this is the name of a task, which pods of no other key have."""
            other = self.by_name.get(bound_for)
            is_name = bound_for not in (CORE, *taken) and bound_for not in self.mirror.pods
            return is_name and (other is None or other.key == key)

        for bound_for, each in sorted(found.bound.items(), key=lambda item: not is_named(item[0])):
            first, slot = each.pods[0], CORE if gang else each.pods[0].uid
            name = bound_for if is_named(bound_for) else self._name(gang, slot, first, each, {*seen, *taken})
            noted = [pod.bound_as for pod in each.pods if pod.bound_as is not None]
            submitted = min((note.submitted for note in noted if note.submitted), default=self._created(each))
            runs = min(max((note.run for note in noted), default=1), MOST_RUNS)
            slot = CORE if gang is not None and name.count("/") == 1 else first.uid
            self.identities.adopt(
                name, place_of(gang, slot, first), min(submitted, now), runs, owned=first.owner is not None
            )
            seen[name] = each
        for slot, each in found.waiting.items():
            seen[self._name(gang, slot, each.pods[0], each, {*seen, *taken})] = each
        return seen

    def _name(self, gang: GroupName | None, slot: str, pod: PodView, seen: TaskPods, others: Iterable[str] = ()) -> str:
        def is_taken(name: str) -> bool:
            """Whether pods that are bound, or of another key, have the name."""
            task = self.by_name.get(name)
            return name in others or (task is not None and task.key != (pod.gang or pod.uid))

        return self.identities.name_of(gang, slot, pod, self._created(seen), is_taken)

    def _created(self, seen: TaskPods) -> float:
        return self._clock.of_wall(min(pod.created for pod in seen.pods))

    def _note_waits(self, key: Key, found: Observation) -> None:
        """Keep the reasons of pods that wait and that the core does not know."""
        for uid in self.mirror.members.get(key, ()):
            self.waits.pop(uid, None)
        self.waits.update(found.waits)
        self.unexplained.update(dict.fromkeys(found.waits))

    # -- what is seen of a task --------------------------------------------------------------------

    def _all_bound(self, task: LiveTask) -> bool:
        """Whether all pods of a plan are, or were, bound to their nodes."""
        for uid, node in task.pods.items():
            pod, assumed = self.mirror.pods.get(uid), self.overlay.bindings.get(uid)
            answered = assumed is not None and assumed.answered and assumed.node == node
            if not answered and (pod is None or pod.node != node):
                return False
        return True

    def _awaits_answer(self, task: LiveTask) -> bool:
        """Whether a binding of a plan has no answer yet. Until then it is not known which pods are to be taken back."""
        sent = (self.overlay.bindings.get(uid) for uid in task.pods)
        return any(assumed is not None and not assumed.answered for assumed in sent)

    def _is_sent(self, task: LiveTask) -> bool:
        """Whether bindings of a plan were sent. Such a plan goes on, even if another would be made now."""
        pods = self.mirror.pods
        return any(uid in self.overlay.bindings or (uid in pods and pods[uid].node) for uid in task.pods)

    def _plan_stands(self, task: LiveTask) -> bool:
        """Whether the pods of a plan can still be bound as planned."""
        assert task.task is not None
        for uid, node in task.pods.items():
            pod = self.mirror.pods.get(uid)
            if uid in self.overlay.bindings:
                continue  # its answer comes first
            if pod is None or pod.over:
                return False
            if pod.node and (pod.node != node or pod.bound_as is None):
                return False  # another scheduler was first
            if not pod.node and not (pod.waits and self.mirror.admits(node, pod, task.task.gpu_model)):
                return False
        return True

    def _will_fit(self, task: LiveTask) -> bool:
        """Whether a plan can be carried out as soon as the pods have left that are leaving."""
        pods = [pod for uid in task.pods if (pod := self.mirror.pods.get(uid)) is not None and not pod.node]
        return self._plan_stands(task) and self.overlay.fits_soon(pods, task.pods)

    def broken_plans(self, nodes: Iterable[str]) -> set[Key]:
        """Returns the keys of plans that changed nodes do not admit or have no room for."""
        tasks = {task for uid in self.overlay.planned_on(nodes) if (task := self.by_pod.get(uid)) is not None}
        return {task.key for task in tasks if not self._will_fit(task)}

    def _compare(self, task: LiveTask, seen: TaskPods) -> Observed:
        if not seen.pods:
            return Observed.NONE
        if not seen.bound:
            return Observed.WAITS if self._is_unchanged(task, seen) else Observed.CHANGED
        model, placed = self._placed(seen)
        core = task.task
        if task.phase is not Phase.RUNNING or core is None:
            return Observed.ELSEWHERE
        first, most = seen.pods[0], _most([pod for pod in seen.pods if pod.uid in placed] or seen.pods)
        described = (priority_of(self.mirror, first), model, self._organization(first), most.cpus, most.memory)
        if described != (core.priority, core.gpu_model, core.organization, core.cpus_per_pod, core.memory_per_pod):
            return Observed.ELSEWHERE
        if placed == task.pods:
            return Observed.RUNS
        return Observed.FEWER if placed and placed.items() <= task.pods.items() else Observed.ELSEWHERE

    def _placed(self, seen: TaskPods) -> tuple[str, dict[str, str]]:
        """Returns the GPU model that a run counts for, and its pods on nodes of it, by uid -> node."""
        stay = [pod for pod in seen.pods if not self.overlay.is_leaving(pod)]
        nodes = [(pod, node) for pod in stay if (node := self.overlay.node_of(pod)) in self.mirror.nodes]
        if not nodes:
            return "", {}
        models = Counter(self.mirror.nodes[node].model for _, node in nodes)
        model, gpus = models.most_common(1)[0][0], nodes[0][0].asks.gpus
        return model, {
            pod.uid: node for pod, node in nodes if self.mirror.nodes[node].model == model and pod.asks.gpus == gpus
        }

    def _organization(self, pod: PodView) -> str:
        return self.mirror.organization(pod.namespace, pod.organization)

    def _is_unchanged(self, task: LiveTask, seen: TaskPods) -> bool:
        """Whether waiting pods are those that the core knows, and ask for the same."""
        if task.task is None or task.pods.keys() != {pod.uid for pod in seen.pods}:
            return False
        if task.phase is Phase.PLANNED and not self._will_fit(task):
            return False
        return bool(_asks_of(self._core_task(task, seen.pods)) == _asks_of(task.task))

    def _preempts(self, pod: PodView) -> bool:
        group = self.mirror.groups.get(pod.gang) if pod.gang else None
        return not (pod.never_preempts or (group is not None and group.never_preempts))

    # -- events for the core ---------------------------------------------------------------------

    def _apply(self, task: LiveTask, observed: Observed, seen: TaskPods, now: float) -> None:
        """Take the steps that the table has for a task."""
        if seen.pods:
            self.by_key.setdefault(task.key, {})[task.name] = self.by_name[task.name] = task
        self._note_members(task, seen)
        self.ready.pop(task, None)
        if task.phase is Phase.UNKNOWN and task.members and not seen.bound:
            self._end(task, seen, now)  # it ran on nodes that the core does not have
        for step in TABLE[task.phase, observed]:
            match step:
                case Step.SUBMIT:
                    self.ready[task] = seen
                    task.is_hp = priority_of(self.mirror, seen.pods[0]) is Priority.HP
                case Step.ADOPT:
                    self._adopt(task, seen, now)
                case Step.CANCEL:
                    self._cancel(task)
                case Step.FAIL:
                    assert task.run is not None
                    self.events.append(StartFailed(task.run))
                case Step.BEGIN:
                    self._begin(task, now)
                case Step.SHRINK:
                    self._shrink(task, seen)
                case Step.END:
                    self._end(task, seen, now)
        if not seen.pods and task.phase is Phase.UNKNOWN:
            self._forget(task, now)

    def _forget(self, task: LiveTask, now: float) -> None:
        """A task has no pods."""
        tasks = self.by_key.get(task.key, {})
        if tasks.get(task.name) is task:
            del tasks[task.name]
            if not tasks:
                del self.by_key[task.key]
        if self.by_name.get(task.name) is task:
            del self.by_name[task.name]
            self.identities.vacate(task.name, now)

    def _set_phase(
        self, task: LiveTask, phase: Phase, pods: dict[str, str] | None = None, run: Run | None = None
    ) -> None:
        """Note what the core knows of a task from now on, here and in all indexes."""
        assert task.task is not None
        pods = pods or {}
        self.mirror.dirty_nodes |= {node for _, node in task.pods.items() ^ pods.items() if node}
        if task.phase is Phase.PLANNED:
            del self.planned[task]
            self.overlay.release(task.pods)
        for uid in task.pods:
            if self.by_pod.get(uid) is task:
                del self.by_pod[uid]
        task.phase, task.pods, task.run = phase, pods, run
        self.by_pod.update(dict.fromkeys(task.pods, task))
        if phase is Phase.UNKNOWN:
            self.by_index.pop(task.task.index, None)
        else:
            self.by_index[task.task.index] = task
        if phase is Phase.PLANNED:
            task.since, task.is_blocked = self._monotonic(), False
            self.planned[task] = None
            self.overlay.claim(task.pods)

    def _cancel(self, task: LiveTask) -> None:
        assert task.task is not None
        self.events.append(Cancelled(task.task))
        self._set_phase(task, Phase.UNKNOWN)

    def _look_again(self, task: LiveTask) -> None:
        """Forget what the core knows of a task, and look at its key again."""
        self._set_phase(task, Phase.UNKNOWN)
        self.mirror.dirty[task.key] = None

    def _note_members(self, task: LiveTask, seen: TaskPods) -> None:
        """Note which pods of a run that has begun are over, and how they ended."""
        if not task.members:
            return
        bound = {pod.uid: None for pod in seen.pods if seen.bound}
        for uid in [uid for uid, succeeded in task.members.items() if succeeded is None and uid not in bound]:
            pod = self.mirror.pods.get(uid)
            if pod is None:
                task.members[uid] = self.mirror.ended.get(uid, False)
            elif pod.over or self.overlay.is_evicted(pod):
                task.members[uid] = pod.phase == "Succeeded"
            else:
                del task.members[uid]  # it belongs to another task now
        task.members.update(bound)

    def _adopt(self, task: LiveTask, seen: TaskPods, now: float) -> None:
        """Let the core take over a run. Pods on nodes that it does not have count for nothing."""
        model, placed = self._placed(seen)
        if not placed:
            return
        pods = [pod for pod in seen.pods if pod.uid in placed]
        number = self.identities.past[task.name].runs
        task.task = self._core_task(task, pods, number - 1, model)
        start = self._clock.of_wall(max(pod.started or pod.created for pod in pods) + WHOLE_SECOND)
        self._take_over(task, Phase.RUNNING, placed, min(start, now), number)
        task.members.update((pod.uid, None) for pod in seen.pods)

    def _take_over(self, task: LiveTask, phase: Phase, places: dict[str, str], start: float, number: int) -> None:
        """Let the core take over the run of a task. `places`: pod uid -> node; `number`: of the run."""
        assert task.task is not None
        self._set_phase(task, phase, places)
        self.found.append(FoundRun(task.task, _by_node(places.values()), start, number))
        self.adopted.append(task)

    def attach_adopted(self, find: Callable[[Task], Run | None], now: float) -> None:
        """Note the runs that the core has taken over or shrunk."""
        adopted, self.adopted = self.adopted, []
        for task in adopted:
            if task.task is None or task.phase is Phase.UNKNOWN:
                continue
            task.run = task.run or find(task.task)
            if task.run is None:  # a node of it went in the same instant
                self._look_again(task)
                continue
            task.task = task.run.task
            if task.phase is Phase.RUNNING:
                self.identities.began(task.name, task.run.number)
                if self.is_reconciled:
                    self._sink.record((now, START, task.task, task.run, None))

    def _begin(self, task: LiveTask, now: float) -> None:
        """Begin the run of a plan: all its pods are bound."""
        assert task.run is not None
        assert task.task is not None
        self._set_phase(task, Phase.RUNNING, task.pods, task.run)
        task.failures, task.members = 0, dict.fromkeys(task.pods)
        self.identities.began(task.name, task.run.number)
        waited = task.run.waited
        self._sink.record((now, START, task.task, task.run, waited.reason if waited else None))
        if isinstance(task.key, GroupName):  # pods beyond the minimum of its gang may start now
            self.mirror.dirty[task.key] = None

    def _shrink(self, task: LiveTask, seen: TaskPods) -> None:
        """Shrink a run: some of its pods are over, the others run on."""
        assert task.run is not None
        _, placed = self._placed(seen)
        gone = [node for uid, node in task.pods.items() if uid not in placed]
        self.events.append(Shrunk(task.run, _by_node(gone)))
        self._set_phase(task, Phase.RUNNING, placed, task.run)
        self.adopted.append(task)

    def _end(self, task: LiveTask, seen: TaskPods, now: float) -> None:
        """End a run: its last pod is over or gone. `seen`: pods that wait under its name."""
        finished = bool(task.members) and all(task.members.values())
        core, run = task.task, task.run
        assert core is not None
        if run is not None:
            self.events += [Finished(run)] if finished else [Lost(run, GONE), Cancelled(run.task)]
        if task.members:  # otherwise its pods belong to another task
            placed = run or Run(core, self.identities.past[task.name].runs, [], now, now)
            reason = None if finished else LostRun(placed, GONE)
            self._sink.record((now, FINISH if finished else LOST, core, placed, reason))
        self._set_phase(task, Phase.UNKNOWN)
        task.members = {}
        if finished and seen.pods:
            self.identities.renew(task.name, self._created(seen))
        elif finished and self.by_name.get(task.name) is task:
            self.identities.drop(task.name)

    # -- submitting --------------------------------------------------------------------------------

    def submit(self, tasks: Iterable[LiveTask], now: float) -> None:
        """Submit tasks. A task whose places were promised before a restart gets them."""
        for task in tasks:
            seen = self.ready.pop(task)
            past = self.identities.past[task.name]
            task.task = core = self._core_task(task, seen.pods, past.runs)
            self._sink.record((now, SUBMIT, core, None, None))
            promised = self._promised(seen, core.gpu_model)
            if promised is None:
                self.events.append(Submitted(core))
                self._set_phase(task, Phase.WAITING, dict.fromkeys((pod.uid for pod in seen.pods), ""))
                self.unexplained.update(dict.fromkeys(task.pods))
                for uid in task.pods:
                    self.waits.pop(uid, None)
            else:
                self._take_over(task, Phase.PLANNED, promised, now, past.runs + 1)

    def _promised(self, seen: TaskPods, model: str) -> dict[str, str] | None:
        """Returns the nodes that pods were promised, if there is room for them once evicted pods have left."""
        places = {pod.uid: pod.nominated for pod in seen.pods}
        admitted = all(self.mirror.admits(pod.nominated, pod, model) for pod in seen.pods)
        return places if admitted and self.overlay.fits_soon(seen.pods, places) else None

    def _core_task(self, task: LiveTask, pods: Sequence[PodView], earlier_runs: int = 0, model: str = "") -> Task:
        """Returns the task as the core is to know it. `model`: the GPU model of its nodes, if its pods are bound."""
        first, past, most = pods[0], self.identities.past[task.name], _most(pods)
        priority, pool = priority_of(self.mirror, first), model or model_of(self.mirror, first)
        assert isinstance(pool, str)
        self._attempts += 1
        return Task(
            index=_index(past.submitted, task.name, self._attempts),
            name=task.name,
            organization=self._organization(first),
            gpu_model=pool,
            priority=priority if priority is not None else Priority.SPOT,
            pods=len(pods),
            gpus_per_pod=float(first.asks.gpus),
            submit_time=past.submitted,
            cpus_per_pod=most.cpus,
            guarantee_hours=first.guarantee or self._guarantee,
            checkpoint_interval=first.interval or self._interval,
            memory_per_pod=most.memory,
            rules=(NodeRule(first.rule, first.rule.text()),),
            earlier_runs=earlier_runs,
            preempts=self._preempts(first),
        )

    # -- plans of the core -------------------------------------------------------------------------

    def plan(self, run: Run) -> LiveTask | None:
        """Assign the places of a planned run to the pods of its task. None: the task has no pods."""
        task = self.by_index.get(run.task.index)
        if task is None or task.phase is not Phase.WAITING:
            self.events += [StartFailed(run), Cancelled(run.task)]
            return None
        nodes = [node.name for node, _, pods, _ in run.places for _ in range(pods)]
        self._set_phase(task, Phase.PLANNED, dict(zip(task.pods, nodes, strict=True)), run)
        return task

    def evict(self, run: Run, taker: Run, now: float, reason: Reason) -> list[PodView]:
        """Give the places of a run to another one; returns the pods that must leave."""
        self.events += [EvictionDone(run), Cancelled(run.task)]
        task = self.by_index.get(run.task.index)
        if task is None or task.run is not run:
            return []
        uids = [uid for uid, succeeded in task.members.items() if succeeded is None] or task.pods
        pods = [pod for uid in uids if (pod := self.mirror.pods.get(uid)) is not None and not pod.over]
        leaving = [pod for pod in pods if pod.node or pod.uid in self.overlay.bindings]
        if task.phase is Phase.RUNNING:
            self._sink.record((now, EVICT, run.task, run, reason))
        self.overlay.evictions.update(dict.fromkeys((pod.uid for pod in leaving), taker))
        self._look_again(task)
        task.members = {}
        self._forget(task, now)
        return leaving

    def fail(self, task: LiveTask, why: str, pause: float) -> None:
        """Give up a plan. The task is submitted again after a pause."""
        assert task.run is not None
        self.events += [StartFailed(task.run), Cancelled(task.run.task)]
        task.failures += 1
        task.not_before, task.why_failed = self._monotonic() + pause, why
        self._look_again(task)

    def forget_run(self, run: Run) -> None:
        """Look again at the pods of a run that the core has lost."""
        self.events.append(Cancelled(run.task))
        task = self.by_index.get(run.task.index)
        if task is not None and task.run is run:
            self._look_again(task)

    def abandon(self, key: Key) -> None:
        """Forget all tasks of a key after an error. Its bound pods count as those of other schedulers."""
        why = Waits(FAILED, "an error in the scheduler; it is tried again in some minutes, or when the pod changes")
        members = self.mirror.members.get(key, {})
        self._note_waits(key, Observation(waits={uid: why for uid, pod in members.items() if pod.waits}))
        for task in self.by_key.pop(key, {}).values():
            self.ready.pop(task, None)
            self.by_name.pop(task.name, None)
            if task.phase is not Phase.UNKNOWN:
                self._cancel(task)

    def is_planned(self, run: Run | None) -> bool:
        """Whether a run is still to be started, and has a pod that waits for it."""
        task = self.by_index.get(run.task.index) if run is not None else None
        if task is None or task.run is not run or task.phase is not Phase.PLANNED:
            return False
        return any((pod := self.mirror.pods.get(uid)) is not None and pod.waits for uid in task.pods)

    def reconcile_record(self, now: float) -> None:
        """Reconcile the record after the first look at the cluster, once."""
        if self.is_reconciled:
            return
        self.is_reconciled = True
        for name in [name for name, past in self.identities.past.items() if past.left is None]:
            if name not in self.by_name:
                self.identities.vacate(name, now)  # its pods went while no controller ran
        done: dict[str, bool] = {}
        for pod in self.mirror.pods.values():
            if pod.bound_as is not None:
                done[pod.bound_as.task] = done.get(pod.bound_as.task, True) and pod.phase == "Succeeded"
        runs = [task.run for task in self.by_index.values() if task.run is not None and task.phase is Phase.RUNNING]
        self._sink.reconcile(
            now, runs, self.identities.past.keys(), {name for name, all_of_it in done.items() if all_of_it}
        )

    # -- queries -------------------------------------------------------------------------

    def counts(self, pod: PodView) -> bool:
        """Whether the core counts what a bound pod holds as held by one of its runs, or as free."""
        task = self.by_pod.get(pod.uid)
        if task is not None and task.phase in (Phase.PLANNED, Phase.RUNNING):
            return task.pods.get(pod.uid) == (pod.node or self.overlay.node_of(pod))
        return not self.overlay.holds(pod)

    def record_over(self, now: float) -> None:
        """Record the tasks that are over without having done their work."""
        over, self.identities.over = self.identities.over, []
        for name in over:
            self._sink.cancelled(now, name)


def _most(pods: Sequence[PodView]) -> Asks:
    """Returns what each of these pods asks for at most: pods of a run may have been resized in place."""
    return Asks(*(max(asks) for asks in zip(*(pod.asks for pod in pods), strict=True)))


def _by_node(nodes: Iterable[str]) -> list[PodsOn]:
    """Returns the number of pods on each node, given the node of each pod."""
    return [PodsOn(node, pods) for node, pods in sorted(Counter(nodes).items())]


def _index(submitted: float, name: str, attempt: int) -> int:
    """Returns a unique number that rises with submission, then with the name, however often a task is submitted.

    So two controllers that see the same pods put them in the same order.
    """
    text = name.encode()
    rank = int.from_bytes(text[:128].ljust(128, b"\0"), "big")
    digest = int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")
    return (((max(0, round(submitted * 1000)) << 1024 | rank) << 48 | digest) << 32) | (attempt & 0xFFFFFFFF)
