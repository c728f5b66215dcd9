"""Which pods are which task: a gang, one of a controller's pods, or a pod of its own; and its runs.

A pod that its controller creates again after an eviction belongs to the task that lost one: the same task, next run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gfs.core.run import Run
from gfs.domain.task import NodeFilter, Priority, Task
from gfs.live.cluster import Cluster, members_of
from gfs.live.translate.asks import Asks
from gfs.live.translate.gangs import GroupView
from gfs.live.translate.pods import PodView, class_of
from gfs.live.translate.pools import Refusal, pool_of

Key = tuple[str, ...]
LEFT = "left"
"""Begins the key of a task that a saved state knows and that has no pod yet."""


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run of the core and its pods."""

    run: Run
    of: LiveTask
    open: list[str]
    """Nodes whose pod is not known yet."""
    since: float
    """Since when it waits to begin, by the monotonic clock."""
    pods: dict[str, str] = field(default_factory=dict)
    """Pod uid -> its node, given or to be given."""
    bound: set[str] = field(default_factory=set)
    binding: set[str] = field(default_factory=set)
    """Pods whose binding is under way."""
    over: dict[str, bool] = field(default_factory=dict)
    """Pods that are over -> whether they succeeded."""
    began: bool = False
    leaving: bool = False
    """Evicted: its pods are on their way out."""
    reported: bool = False
    """Whether it was told that it hangs."""
    failed: bool = False
    """Its start failed: it is given back after a while."""


@dataclass(slots=True, eq=False)
class LiveTask:
    """A task and its pods."""

    key: Key
    name: str
    needs: int
    submitted: float
    gang: tuple[str, str] | None = None
    extra: bool = False
    """A pod of a gang beyond its minimum."""
    task: Task | None = None
    told: bool = False
    """Whether the core knows it."""
    free: dict[str, PodView] = field(default_factory=dict)
    """Pods that wait to be placed."""
    run: LiveRun | None = None
    minimum: int = 1
    """Pods of its gang that must run together."""
    members: str = ""
    """Whose pods the pods of its gang are."""
    succeeded: frozenset[str] = frozenset()
    """Pods of its gang that have succeeded, also those that are gone since: nobody creates them again."""
    done_before: float = 0
    """How many of them there are at least, as its Job says."""
    held: dict[str, PodView] = field(default_factory=dict)
    """Bare pods of a gang that were bound without the rest, which is to join them."""
    returns: bool = False
    """Whether a controller creates its pods again."""
    offset: int = 0
    """Runs before the core came to know it."""
    failures: int = 0
    """Starts that failed in a row."""
    logged: bool = False
    """Whether its submission stands in the event log."""

    @property
    def pod_count(self) -> int:
        """Pods that belong to it and have not gone."""
        return len(self.free) + (len(self.run.pods) if self.run else 0)


class TaskBook:
    """All tasks there are, by key, name and pod."""

    def __init__(self, cluster: Cluster, guarantee_hours: float, checkpoint_interval: float) -> None:
        self._cluster = cluster
        self._guarantee, self._interval = guarantee_hours, checkpoint_interval
        self.by_key: dict[Key, LiveTask] = {}
        self.by_name: dict[str, LiveTask] = {}
        self.by_pod: dict[str, LiveTask] = {}
        """Pod uid -> the task that it waits or runs for."""
        self.run_of_pod: dict[str, LiveRun] = {}
        self.of_run: dict[Run, LiveRun] = {}
        """Runs whose pods we count as theirs, evicted ones until they have left."""
        self.refused: dict[str, str] = {}
        """Pod uid -> why it is not taken."""
        self.refilled: dict[LiveRun, None] = {}
        """Runs that had begun and got a pod in place of one that went: it is to be bound."""
        self.taken_back: set[str] = set()
        """Uids of pods that are being deleted to be created again: they are nobody's until they are gone."""
        self.unsaid: dict[str, None] = {}
        """Uids of pods that are new here and have not been told why they wait."""
        self.extras: dict[tuple[str, str], dict[LiveTask, None]] = {}
        """Gang -> the tasks that are its pods beyond the minimum."""
        self.next_index = 0
        self.known: dict[str, Task] = {}
        """Tasks of a saved state by name, until a pod of theirs is found."""
        self._vacant_from: dict[Key, int] = {}
        """Controller -> none of its tasks below this number is without a pod: they are not looked through again."""
        self._copies: dict[str, int] = {}
        """Name -> the last number that was given to another task of that name."""

    # -- which task a pod belongs to ---------------------------------------------------------------

    def find(self, pod: PodView, submitted: float) -> LiveTask | Refusal:
        """The task of a pod, made if need be; or why it is none."""
        if pod.refusal:
            return Refusal(pod.refusal)
        group = self._cluster.groups.get((pod.namespace, pod.gang)) if pod.gang else None
        if pod.gang and group is None:
            return Refusal(f"its PodGroup {pod.gang} is not there")
        if self.priority(pod) is None:
            return Refusal(self._unknown_class(pod))
        model = pool_of(pod.rule, self._cluster.settings.model_label, self._cluster.models())
        if isinstance(model, Refusal):
            return model
        if not self._cluster.knows_model(model):
            return Refusal(f"no node has GPU model {model}")
        if group is not None and group.minimum > 1:
            return self._of_gang(pod, group, submitted)
        if pod.owner is not None:
            return self._of_owner(pod, submitted)
        key: Key = ("pod", pod.uid)
        return self.by_key.get(key) or self._add(
            key, pod.bound_as.task if pod.bound_as else pod.path, 1, submitted, pod
        )

    def priority(self, pod: PodView) -> Priority | None:
        """HP or spot, by the class of its group or its own; None: neither."""
        group = self._cluster.groups.get((pod.namespace, pod.gang)) if pod.gang else None
        return class_of(pod, group.priority_class if group else "", self._cluster.settings)

    def _unknown_class(self, pod: PodView) -> str:
        settings = self._cluster.settings
        known = ", ".join((*settings.hp_classes, *settings.spot_classes))
        named = f"priority class {pod.priority_class!r}" if pod.priority_class else "no priority class"
        return f"it has {named}: name one of {known}"

    def _of_gang(self, pod: PodView, group: GroupView, submitted: float) -> LiveTask | Refusal:
        key: Key = ("gang", group.namespace, group.name)
        gang = self.by_key.get(key)
        if gang is None:
            gang = self._add(key, f"{group.namespace}/{group.name}", group.minimum, submitted, pod)
            gang.gang, gang.minimum = (group.namespace, group.name), group.minimum
        if gang.members != members_of(pod) and not gang.pod_count:  # new, or the Job of that name is another one now
            gang.members, gang.succeeded, gang.done_before = members_of(pod), frozenset(), 0
        first = gang.task or next(iter(gang.free.values()), None)
        if first is not None and not self._alike(pod, first):
            return Refusal(f"it asks for something else than the other pods of its gang {group.name}")
        whole = gang.run is not None and not gang.run.open and gang.pod_count >= gang.needs
        if not whole and (pod.bound_as is None or pod.bound_as.task == gang.name):
            return gang
        key = ("extra", pod.uid)
        extra = self.by_key.get(key) or self._add(key, f"{gang.name}/{pod.name}", 1, submitted, pod)
        extra.gang, extra.extra = gang.gang, True
        self.extras.setdefault((group.namespace, group.name), {})[extra] = None
        return extra

    def _of_owner(self, pod: PodView, submitted: float) -> LiveTask:
        assert pod.owner is not None
        prefix: Key = ("owned", pod.namespace, pod.owner.uid)  # anybody can name any uid as that of an owner
        name = f"{pod.namespace}/{pod.owner.name}"
        if pod.slot:
            return self._of_slot(pod, (*prefix, pod.slot), f"{name}/{pod.slot}", submitted)
        number, vacant = self._vacant_from.get(prefix, 0), None
        while (task := self.by_key.get((*prefix, str(number)))) is not None:
            if not task.pod_count:
                if self._continues(pod, task):
                    return task
                vacant = number if vacant is None else vacant
            number += 1
        self._vacant_from[prefix] = number if vacant is None else vacant
        full = f"{name}/{number}" if number else name
        if pod.bound_as is not None:
            full = pod.bound_as.task
        return self._add((*prefix, str(number)), full, 1, submitted, pod)

    def _of_slot(self, pod: PodView, key: Key, name: str, submitted: float) -> LiveTask:
        """One of an indexed Job or a StatefulSet. It may ask for something else than the one before: another task."""
        found = self.by_key.get(key)
        if found is None:
            return self._add(key, name, 1, submitted, pod)
        first = found.task or next(iter(found.free.values()), None)
        if pod.node or first is None or self._alike(pod, first):
            return found
        key = (*key, str(hash((pod.asks, pod.rule, self.priority(pod)))))
        return self.by_key.get(key) or self._add(key, name, 1, submitted, pod)

    def _continues(self, pod: PodView, task: LiveTask) -> bool:
        """Whether a pod is the next of a task that has none."""
        if pod.bound_as is not None:
            return pod.bound_as.task == task.name
        return task.task is None or self._alike(pod, task.task)

    def vacated(self, task: LiveTask) -> None:
        """A pod of a task has gone."""
        if task.key[0] == "owned" and task.key[-1].isdigit():
            prefix, number = task.key[:-1], int(task.key[-1])
            if number < self._vacant_from.get(prefix, 0):
                self._vacant_from[prefix] = number

    def look_through(self) -> None:
        """Forget which tasks have pods: runs may have ended since the last instant."""
        self._vacant_from.clear()

    def _add(self, key: Key, name: str, needs: int, submitted: float, pod: PodView) -> LiveTask:
        left = self.by_name.get(name)
        if left is not None and left.key[0] == LEFT and left.task is not None and self._alike(pod, left.task):
            self.by_key[key] = self.by_key.pop(left.key)  # its pods are coming back
            left.key = key
            return left
        unique = name
        while unique in self.by_name:
            number = self._copies[name] = self._copies.get(name, 1) + 1
            unique = f"{name}~{number}"
        if pod.bound_as is not None and pod.bound_as.submitted:
            submitted = min(submitted, pod.bound_as.submitted)
        task = self.by_key[key] = self.by_name[unique] = LiveTask(key, unique, needs, submitted)
        task.returns = pod.owner is not None
        known = self.known.pop(unique, None)
        if known is not None and self._alike(pod, known):
            task.task, task.submitted = known, known.submit_time
        return task

    def _alike(self, pod: PodView, other: PodView | Task) -> bool:
        """Whether a pod asks for the same as another one, or as a task. One that is bound has what it has."""
        same_class = self.priority(pod) == (other.priority if isinstance(other, Task) else self.priority(other))
        if isinstance(other, PodView):
            return same_class and pod.asks == other.asks and pod.rule == other.rule
        if not same_class or pod.asks.gpus != other.gpus_per_pod:
            return False
        rule = other.node_filter.groups if other.node_filter is not None else None
        rest = (other.cpus_per_pod, other.memory_per_pod, rule)
        return bool(pod.node) or (pod.asks.cpus, pod.asks.memory, pod.rule) == rest

    def keep(self, core: Task) -> LiveTask:
        """A task of a saved state, whether or not it has a pod."""
        if core.name not in self.by_name:
            self.known.pop(core.name, None)
            task = LiveTask((LEFT, core.name), core.name, core.pods, core.submit_time, task=core)
            task.told = task.logged = task.returns = True
            self.by_key[task.key] = self.by_name[core.name] = task
        return self.by_name[core.name]

    def drop(self, task: LiveTask) -> None:
        """A task is over: nothing is known of it any more."""
        self.vacated(task)
        if task.gang is not None and task.extra:
            self.extras.get(task.gang, {}).pop(task, None)
            if not self.extras.get(task.gang):
                self.extras.pop(task.gang, None)
        self.by_key.pop(task.key, None)
        self.by_name.pop(task.name, None)
        for uid in task.free:
            self.by_pod.pop(uid, None)

    def release(self, live: LiveRun, *, keep_waiting: bool) -> None:
        """A run is over for the core. Pods that were not bound wait again, if so wished; others are on their own."""
        self.vacated(live.of)
        self.of_run.pop(live.run, None)
        if live.of.run is live:
            live.of.run = None
        for uid in live.pods:
            self.run_of_pod.pop(uid, None)
            pod = self._cluster.pods.get(uid)
            if keep_waiting and pod is not None and pod.waits and uid not in live.bound:
                live.of.free[uid] = pod
            else:
                self.by_pod.pop(uid, None)
            if pod is not None and pod.node:
                self._cluster.changed_nodes.add(pod.node)
        live.pods.clear()

    # -- the core's words --------------------------------------------------------------------------

    def is_urgent(self, task: LiveTask) -> bool:
        """Whether a task that waits is HP."""
        if task.task is not None:
            return not task.task.is_spot
        return self.priority(next(iter(task.free.values()))) is Priority.HP

    def core_task(self, task: LiveTask, pods: Iterable[PodView] = ()) -> Task:
        """The task as the core knows it, made from its first pod."""
        if task.task is not None:
            return task.task
        pod = min(pods or task.free.values(), key=lambda each: (each.created, each.path))
        priority = self.priority(pod)
        model = pool_of(pod.rule, self._cluster.settings.model_label, self._cluster.models())
        task.task = Task(
            index=self.next_index,
            name=task.name,
            organization=self._cluster.organization(pod.namespace, pod.organization),
            gpu_model=model if isinstance(model, str) else "",
            priority=priority if priority is not None else Priority.SPOT,
            pods=task.needs,
            gpus_per_pod=float(pod.asks.gpus),
            submit_time=task.submitted,
            cpus_per_pod=pod.asks.cpus,
            guarantee_hours=pod.guarantee or self._guarantee,
            checkpoint_interval=pod.interval or self._interval,
            memory_per_pod=pod.asks.memory,
            node_filter=NodeFilter(pod.rule, pod.rule.text()),
        )
        self.next_index += 1
        return task.task

    def begin(self, run: Run, since: float) -> LiveRun:
        """The core has planned a run: its task's first pods get their nodes, in order."""
        task = self.by_name[run.task.name]
        nodes = [node.name for node, _, held in run.places for _ in range(held // run.task.cards)]
        live = task.run = self.of_run[run] = LiveRun(run, task, nodes, since)
        self.fill(live)
        return live

    def attach(self, run: Run, pods: Iterable[PodView], *, leaving: bool = False) -> LiveRun:
        """A run that is there already, with its pods."""
        task = self.by_name[run.task.name]
        live = self.of_run[run] = LiveRun(run, task, [], 0.0, began=True, leaving=leaving)
        for pod in pods:
            live.pods[pod.uid] = pod.node
            live.bound.add(pod.uid)
            self.by_pod[pod.uid], self.run_of_pod[pod.uid] = task, live
            self._cluster.changed_nodes.add(pod.node)
        if not leaving:
            task.run, task.told = live, True
        return live

    def hold(self, task: LiveTask, pods: Iterable[PodView]) -> None:
        """Bound pods of a gang that nobody would create again: only the rest of it is to be started."""
        for pod in pods:
            task.held[pod.uid] = pod
            self.by_pod[pod.uid] = task
            task.needs -= 1
        self._resize(task)

    def join(self, live: LiveRun) -> None:
        """The rest of a gang is bound: it can be adopted whole."""
        task = live.of
        together = [*task.held, *live.bound]
        task.needs += len(task.held)
        task.held = {}
        self._resize(task)
        self.release(live, keep_waiting=False)
        for uid in together:
            self.by_pod.pop(uid, None)
            if (pod := self._cluster.pods.get(uid)) is not None:
                self._cluster.pod_changes.append((pod, pod))

    def needs_fewer(self, task: LiveTask) -> Task | None:
        """Pods of a gang that have succeeded do not come back: only the others are to be started again.

        Gives the task as the core was told it, if that is no longer true.
        """
        done = max(task.done_before, len(task.succeeded.union(self._cluster.succeeded.get(task.members, ()))))
        needs = max(1, task.minimum - int(done) - len(task.held)) if task.gang and not task.extra else task.needs
        if needs == task.needs or task.run is not None:
            return None
        told = task.task if task.told else None
        task.needs = needs
        self._resize(task)
        return told

    @staticmethod
    def _resize(task: LiveTask) -> None:
        """The core is to know it with as many pods as it needs now; it is told anew."""
        if task.task is not None:
            task.task = replace(task.task, pods=task.needs)
        task.told = False

    def fill(self, live: LiveRun) -> None:
        """Give pods that wait to places of a run that have none."""
        task = live.of
        for pod in sorted(task.free.values(), key=lambda each: (each.created, each.path)):
            if not live.open:
                return
            live.pods[pod.uid] = live.open.pop(0)
            self.run_of_pod[pod.uid] = live
            del task.free[pod.uid]
            if live.began:
                self.refilled[live] = None
            failed = next((uid for uid, succeeded in live.over.items() if not succeeded), None)
            if failed is not None:
                del live.over[failed]  # this one takes its place

    def asked(self, live: LiveRun) -> dict[str, tuple[Asks, int]]:
        """Node -> what the pods of a run that are not bound yet will take there."""
        total: dict[str, tuple[Asks, int]] = {}
        for uid, node in live.pods.items():
            pod = self._cluster.pods.get(uid)
            if pod is not None and not pod.node:
                asks, count = total.get(node, (Asks(0.0, 0.0, 0.0), 0))
                total[node] = asks + pod.asks, count + 1
        return total
