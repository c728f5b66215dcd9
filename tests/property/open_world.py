"""A cluster that does as it likes, for tests: it drives a scheduler by events and keeps books of its own.

The world decides what happens: tasks come and go, runs finish, shrink and are lost, starts fail, evictions take as long
as they take, nodes come, go, fail, close and change their size, things are told twice or late, and the scheduler
is saved and loaded. Of every plan the world notes who holds what since when, in dictionaries and by
counting, and holds the scheduler to that. A twin hears the same events in another order, is never restarted and
checks itself: it must plan the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from builders import rules_of
from gfs import SCHEDULERS, NodeSpec, Parameters, Priority, Role, Task
from gfs.assembly.schedulers import build_scheduler, has_leases
from gfs.assembly.snapshot import load_state, save_state
from gfs.core.actions import Plan
from gfs.core.events import (
    Adopted,
    Cancelled,
    Event,
    EvictionDone,
    Finished,
    FoundRun,
    Lost,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    PodsOn,
    Shrunk,
    StartFailed,
    Submitted,
    Tick,
    Wake,
)
from gfs.core.invariants import check_state
from gfs.core.node import Place
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from promises import CARD, SLACK, Room, admits, less, limits, ports, surely_fits

ORDER = (EvictionDone, Finished, Lost, StartFailed, Shrunk, Cancelled, NodesChanged, Tick, Submitted, Wake)
"""What comes first within an instant (docs/concepts/time-model.md)."""
WAITING, RUNNING, FINISHED, CANCELLED = "waiting", "running", "finished", "cancelled"


class Wish(NamedTuple):
    """A task as a test draws it."""

    priority: Priority
    gpus: float
    pods: int
    model: str
    hours: float = 1.0
    checkpoint: float = 3600.0
    org: str = "lab"
    cpus: float = 0.0
    memory: float = 0.0
    only: tuple[str, ...] = ()
    """Groups of nodes that will do; none: all."""
    roles: tuple[tuple[int, float, float], ...] = ()
    """Pods, GPUs and CPUs of further roles; like what follows it counts where tasks are mixed."""
    ports: tuple[str, ...] = ()
    resources: tuple[tuple[str, float], ...] = ()
    topology: str = ""
    urgency: int = 0
    preempts: bool = True


class Move(NamedTuple):
    """Something that the world does; `pick` and `more` choose among what there is."""

    what: str
    pick: int = 0
    more: int = 0
    wish: Wish | None = None

    def __repr__(self) -> str:
        return f"{self.what}({self.pick}, {self.more})" if self.wish is None else f"submit{tuple(self.wish)}"


class Instant(NamedTuple):
    """What happens at one moment, so long after the one before."""

    after: float
    moves: Sequence[Move]
    restart: bool = False
    """Whether the scheduler is saved and loaded when it is over."""


@dataclass(eq=False)
class Job:
    """A task as the world sees it."""

    task: Task
    status: str
    number: int
    """Of its run, or of the next one."""
    since: float
    hold: Hold | None = None


@dataclass(eq=False)
class Hold:
    """Places that a run has, or will have once its victims have left."""

    job: Job
    task: Task
    """As it was when it started, or has shrunk since."""
    run: Run
    twin: Run
    number: int
    start: float
    places: dict[str, list[tuple[int, int, int]]]
    """Node -> (number of the role, pods, slot of the divided GPU; below 0: whole ones), place by place."""
    victims: set[Hold] = field(default_factory=set)
    """Evicted and still there, and it waits for them: it has not begun."""
    leaving: bool = False
    """Evicted, and not gone yet."""
    over: bool = False

    def pods_of_roles(self, node: str) -> Iterable[tuple[Role, int, int]]:
        """Its places on a node: role, pods and slot."""
        return [(self.task.roles[number], pods, slot) for number, pods, slot in self.places.get(node, ())]

    def whole(self, node: str) -> int:
        """Its whole GPUs on a node."""
        return sum(pods * role.cards for role, pods, _ in self.pods_of_roles(node))

    def pods(self, node: str, number: int | None = None) -> int:
        """Its pods on a node, of one role or of all."""
        return sum(pods for role, pods, _ in self.places.get(node, ()) if number in (None, role))


@dataclass(eq=False)
class Machine:
    """A node as the world sees it."""

    spec: NodeSpec
    cordoned: bool = False
    failed: bool = False


def where(places: Iterable[Place]) -> dict[str, list[tuple[int, int, int]]]:
    """Places by the names of their nodes."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for node, role, pods, slot in places:
        found.setdefault(node.name, []).append((role.number, pods, slot))
    return found


def telling(plan: Plan) -> dict[str, Any]:
    """All that a plan says but its wake-up, in values that can be compared."""
    return {
        "lost": [(lost.run.task.name, lost.run.number, lost.why, lost.began) for lost in plan.lost],
        "evictions": [(e.run.task.name, e.run.number, e.reason.text(), e.keeps_progress) for e in plan.evictions],
        "starts": [
            (
                run.task.name,
                run.number,
                [(node.name, role.number, pods, slot) for node, role, pods, slot in run.places],
                run.start,
                run.progress_from,
                run.since,
            )
            for run in plan.starts
        ],
    }


class World:
    """Drives a scheduler and its twin, and keeps its own books."""

    def __init__(
        self,
        scheduler: str,
        nodes: Sequence[NodeSpec],
        parameters: Parameters,
        file: Path,
        *,
        filters: bool = False,
        mixes: bool = False,
        seed: int = 0,
    ) -> None:
        self.name, self.parameters, self._file = scheduler, parameters, file
        self._leases = has_leases(SCHEDULERS[scheduler])
        self._resources = parameters.resources == "on"
        self._filters, self._mixes = filters, mixes
        self._nodes = nodes = [node if self._resources else node.gpus_only() for node in nodes]
        self._random = Random(seed)
        self.scheduler = self.build()
        self.twin = self.build(check=True)
        self.now = 0.0
        self.machines = {node.name: Machine(node) for node in nodes}
        self.jobs: dict[int, Job] = {}
        self.holds: list[Hold] = []
        """Of runs that go on or have not begun, of those that ended before their victims left, and of victims."""
        self.past: list[Hold] = []
        self._resized: set[str] = set()
        """Nodes that may hold more than they have because they got smaller."""
        self.wakes: list[float] = []
        self.evicted: Counter[float] = Counter()
        self.kept: Counter[float] = Counter()
        """Guarantee hours -> runs evicted, and periods that runs which are over have completed."""
        self.counts: Counter[str] = Counter()
        """What has come to pass, so that a test can see that it tests something."""

    def build(self, check: bool = False) -> Scheduler:
        """A fresh scheduler."""
        return build_scheduler(
            self.name, self._nodes, self.parameters, period=7200.0, guarantees=(0.125, 1.0, 2.0), check=check
        )

    # -- what happens ------------------------------------------------------------------------------

    def play(self, instants: Iterable[Instant]) -> None:
        """Let it all happen."""
        for instant in instants:
            then = self.now + instant.after
            if instant.after < 0:  # on the grid of ticks and rounds
                then = (floor(self.now / 300) + 1) * 300.0
            self._sleep_until(then)
            self.happen([*self._events(instant.moves), *self._due()])
            if instant.restart:
                self.restart()

    def _sleep_until(self, then: float) -> None:
        """Wake-ups that were asked for come in between."""
        while self.wakes and min(self.wakes) < then:
            self.now = min(self.wakes)
            self.wakes = [time for time in self.wakes if time > self.now]
            self.happen([Wake()])
        self.now = then

    def _due(self) -> list[Any]:
        """A wake-up that was asked for just now."""
        due = self.now in self.wakes
        self.wakes = [time for time in self.wakes if time > self.now]
        return [(Wake, None)] if due else []

    def _events(self, moves: Sequence[Move]) -> list[Any]:
        """What the moves come to. A run is named by its hold, for the twin has another one."""
        events: list[Any] = []
        changes: list[NodeChange] = []
        ending: set[Hold] = set()
        shrinking: set[Hold] = set()
        for what, pick, more, wish in moves:
            match what:
                case "submit":
                    assert wish is not None
                    task = self._task(wish)
                    events += [(Submitted, task)] * (1 + (task.index % 5 == 0))  # some are told twice
                case "node":
                    changes += self._node_change(pick, more)
                case "smaller":
                    changes += self._smaller(pick, more)
                case "tick":
                    events.append((Tick, None))
                case "finish" | "lose" | "fail":
                    begun = [hold for hold in self._going() if not hold.victims]
                    fresh = [hold for hold in self._going() if hold.start >= self.now - 60 or hold.victims]
                    finish = self._going() if more % 8 == 0 else begun  # one that has not begun cannot be done
                    some = {"finish": finish, "lose": self._going(), "fail": fresh}[what]
                    if some:
                        hold = some[pick % len(some)]
                        kind = {"finish": Finished, "lose": Lost, "fail": StartFailed}[what]
                        # Two stories about one run: whichever comes first in the order of events is believed.
                        events.append((kind, hold))
                        ending.add(hold)
                case "shrink":
                    some = [hold for hold in self._going() if hold.job.task.pods > 1 and hold not in shrinking]
                    if some:
                        hold = some[pick % len(some)]
                        shrinking.add(hold)
                        events.append((Shrunk, (hold, self._leaving_pods(hold, more))))
                case "left":
                    gone = [hold for hold in self.holds if hold.leaving]
                    events += [(EvictionDone, hold) for hold in gone[pick % 3 :: 1 + more % 3]]
                case "cancel":
                    if self.jobs:
                        events.append((Cancelled, self._one(list(self.jobs.values()), pick).task))
                case "echo":
                    events += self._echo(pick, more)
        if changes:
            events.append((NodesChanged, changes))
        return events

    def _leaving_pods(self, hold: Hold, more: int) -> list[PodsOn]:
        """Some pods of a run that have ended, now and then more than it has."""
        names, roles = list(hold.places), len(hold.job.task.roles)
        pods = [PodsOn(names[more % len(names)], 1 + more // 8 % 3, more % roles)]
        if more % 5 == 0:
            pods.append(PodsOn(names[more // 3 % len(names)], 1, more // 2 % (roles + 1)))
        return [*pods, PodsOn("nowhere", 1)] if more % 7 == 0 else pods

    def _task(self, wish: Wish) -> Task:
        index = len(self.jobs)
        rules = rules_of(wish.only if self._filters else (), wish.ports if self._mixes else ())
        first = Role(wish.pods, float(wish.gpus), cpus_per_pod=wish.cpus, memory_per_pod=wish.memory, rules=rules)
        others = [
            Role(pods, gpus, cpus_per_pod=cpus, resources=wish.resources, rules=rules[: self._filters and 1])
            for pods, gpus, cpus in wish.roles
            if self._mixes and gpus < wish.gpus
        ]
        task = Task(
            index,
            f"t{index:02}",
            wish.org,
            wish.model,
            wish.priority,
            wish.pods,
            float(wish.gpus),
            self.now,
            cpus_per_pod=wish.cpus,
            memory_per_pod=wish.memory,
            rules=rules,
            mixed=(first, *others) if others else (),
            resources=wish.resources if self._mixes else (),
            topology_key=wish.topology if self._mixes else "",
            urgency=wish.urgency if self._mixes else 0,
            preempts=wish.preempts or not self._mixes,
            guarantee_hours=wish.hours,
            checkpoint_interval=wish.checkpoint,
        )
        self.jobs[index] = Job(task, "announced", 1, self.now)
        return task

    def _one(self, some: Sequence[Any], pick: int) -> Any:
        """Rather one of the last."""
        return some[-1 - pick % min(len(some), 8)]

    def _going(self) -> list[Hold]:
        return [hold for hold in self.holds if not hold.over]

    def _node_change(self, pick: int, more: int) -> list[NodeChange]:
        kinds = list(NodeChangeKind)
        kind = kinds[pick % len(kinds)]
        names = list(self.machines)
        if kind is NodeChangeKind.ADDED or not names:
            model = ("A100", "A100", "T4", "H20")[more % 4]
            number = max((machine.spec.index for machine in self.machines.values()), default=-1) + 1
            name, gpus, cpus = (
                f"x{number}-{len(self.counts)}-{more}",
                (1, 2, 4, 8)[more // 4 % 4],
                16.0 * (more // 16 % 2),
            )
            spec = NodeSpec(number, name, model, gpus, cpus * self._resources, group="ab"[more // 32 % 2])
            return [NodeChange(NodeChangeKind.ADDED, spec)]
        spec = self.machines[names[more % len(names)]].spec
        if kind is NodeChangeKind.RESIZED:
            cpus = (spec.cpus, 8.0)[pick // 7 % 2] if self._resources else spec.cpus
            spec = replace(spec, gpus=(1, 2, 3, 4, 8)[more // 8 % 5], cpus=cpus)
        return [NodeChange(kind, spec)]

    def _smaller(self, pick: int, more: int) -> list[NodeChange]:
        """A node gets smaller than what it holds, mostly in cards, else in CPUs or memory, or pods."""
        busy = [name for name in self.machines if self._used(name) > 1]
        if not busy:
            return []
        name = busy[pick % len(busy)]
        spec = self.machines[name].spec
        taken = less(dict.fromkeys(limits(spec), 0.0), *self._held_on(name), sign=-1)
        cpus, memory, pods = taken["cpus"], taken["memory"], taken["pods"]
        fewer = 1.0 + more % 4
        if self._resources and more % 3 == 0 and cpus > 1:  # 0 would be no limit
            return [NodeChange(NodeChangeKind.RESIZED, replace(spec, cpus=max(cpus - fewer, 0.5)))]
        if self._resources and more % 3 == 0 and memory > 1:
            return [NodeChange(NodeChangeKind.RESIZED, replace(spec, memory=max(memory - fewer, 0.5)))]
        if self._resources and more % 3 == 1 and pods > 1:
            return [NodeChange(NodeChangeKind.RESIZED, replace(spec, pods=int(pods) - 1))]
        return [NodeChange(NodeChangeKind.RESIZED, replace(spec, gpus=max(self._used(name) - 1 - more % 4, 1)))]

    def _echo(self, pick: int, more: int) -> list[Any]:
        """Something that was said before, or that is no longer so."""
        events: list[Any] = []
        if self.past:
            kind = (Finished, Lost, StartFailed, EvictionDone)[more % 4]
            hold = self._one(self.past, pick)
            if kind is not EvictionDone or not hold.leaving:
                events.append((kind, hold))
        here = [job for job in self.jobs.values() if job.status in (WAITING, RUNNING)]
        if here:
            events.append((Submitted, self._one(here, pick).task))
        return events

    # -- one instant -------------------------------------------------------------------------------

    def happen(self, told: Sequence[Any]) -> None:
        """Tell the scheduler and its twin, and see what they make of it."""
        told = [each if isinstance(each, tuple) else (type(each), None) for each in told]
        if not told:
            return
        events = [_event(kind, who, twin=False) for kind, who in told]
        others = [_event(kind, who, twin=True) for kind, who in told]
        self._random.shuffle(others)
        plan = self.scheduler.handle(self.now, events)
        other = self.twin.handle(self.now, others)
        assert telling(plan) == telling(other), f"at {self.now} after {[kind.__name__ for kind, _ in told]}"
        again = plan.wake in self.wakes and other.wake == inf  # after a restart what was asked for is asked for again
        assert plan.wake == other.wake or again, f"at {self.now}: wake at {plan.wake}, the twin at {other.wake}"
        doomed = self._take_in(told)
        self._places_are_as_they_were()
        self._note_plan(plan, other, doomed)
        self._nodes_hold_what_has_not_left()
        self.look()

    def _take_in(self, told: Sequence[Any]) -> list[tuple[Hold, bool]]:
        """Note what happened, in the order of the time model; runs lost with nodes, and if they had begun."""
        doomed: list[tuple[Hold, bool]] = []
        for kind, who in sorted(told, key=lambda each: ORDER.index(each[0])):
            if kind is EvictionDone and who.leaving:
                self._leave(who)
            elif kind is Finished and not who.over and not who.victims:
                self._end(who, FINISHED)
            elif kind is Lost and not who.over:
                self._requeue(who, counts=not who.victims)
            elif kind is StartFailed and not who.over:
                self._requeue(who, counts=False)
            elif kind is Shrunk:
                self._shrink(*who)
            elif kind is Cancelled:
                job = self.jobs[who.index]
                if job.status == RUNNING:
                    assert job.hold is not None
                    self._end(job.hold, CANCELLED)
                elif job.status in (WAITING, "announced"):
                    job.status = CANCELLED
                    self.counts["cancelled early"] += 1
            elif kind is NodesChanged:
                doomed += self._change(who)
            elif kind is Submitted and self.jobs[who.index].status == "announced":
                self.jobs[who.index].status = WAITING
        return doomed

    def _end(self, hold: Hold, status: str) -> None:
        """A run is over."""
        job = hold.job
        self.counts[status] += 1
        if job.task.is_spot and not hold.victims:
            length, seconds = self.now - hold.start, job.task.guarantee_seconds
            periods = max(ceil((length - 1e-6) / seconds), 1) if status == FINISHED else floor(length / seconds)
            self.kept[job.task.guarantee_hours] += periods
        job.status, job.hold = status, None
        hold.over = True
        self.past.append(hold)
        hold.victims = set()
        self.holds.remove(hold)

    def _shrink(self, hold: Hold, pods: Sequence[PodsOn]) -> None:
        """Pods of some roles have left: on each node those that were placed last. A role without pods is no more."""
        job, roles = hold.job, hold.job.task.roles
        left = {(node, role.number): hold.pods(node, role.number) for node in hold.places for role in roles}
        for node, count, number in pods:
            if (node, number) in left:
                left[node, number] = max(left[node, number] - count, 0)
        if hold.over or not 0 < sum(left.values()) < job.task.pods:
            return
        self.counts["shrunk"] += 1
        stays = [sum(stay for (_, number), stay in left.items() if number == role.number) for role in roles]
        numbers = [number for number, stay in enumerate(stays) if stay]
        for node, before in hold.places.items():
            places = []
            for number, many, slot in before:
                here = min(left[node, number], many)
                left[node, number] -= here
                if here:
                    places.append((numbers.index(number), here, slot))
            hold.places[node] = places
        hold.places = {node: places for node, places in hold.places.items() if places}
        if job.task.mixed:
            self.counts["shrunk by a role"] += 1
            job.task = replace(job.task, mixed=tuple(_smaller(roles[number], stays[number]) for number in numbers))
        else:
            job.task = replace(job.task, pods=stays[0])
        hold.task = job.task

    def _requeue(self, hold: Hold, counts: bool) -> None:
        """A run was lost (`counts`) or did not come about."""
        self._end(hold, WAITING)
        self.counts["lost" if counts else "failed"] += 1
        if counts:
            hold.job.number += 1
            hold.job.since = self.now

    def _leave(self, victim: Hold) -> None:
        """A victim has gone; those that wait for it begin when it was the last one."""
        victim.leaving = False
        self.holds.remove(victim)
        for taker in [hold for hold in self.holds if victim in hold.victims]:
            taker.victims.remove(victim)
            if not taker.victims:
                taker.start = self.now
                self.counts["began late"] += 1

    def _change(self, changes: Sequence[NodeChange]) -> list[tuple[Hold, bool]]:
        doomed: set[str] = set()
        for kind, spec in changes:
            self.counts[kind.value] += 1
            machine = self.machines.get(spec.name)
            if machine is None:
                if kind in (NodeChangeKind.ADDED, NodeChangeKind.RESIZED):
                    self.machines[spec.name] = Machine(spec)
            elif kind is NodeChangeKind.REMOVED:
                doomed.add(spec.name)
                del self.machines[spec.name]
            elif kind in (NodeChangeKind.FAILED, NodeChangeKind.REPAIRED):
                machine.failed = kind is NodeChangeKind.FAILED
                if machine.failed:
                    doomed.add(spec.name)
            elif kind in (NodeChangeKind.CORDONED, NodeChangeKind.UNCORDONED):
                machine.cordoned = kind is NodeChangeKind.CORDONED
            else:
                machine.spec = spec
                self._resized.add(spec.name)
        lost = []
        for hold in list(self.holds):
            if hold.places.keys() & doomed and not hold.over:
                began = not hold.victims
                lost.append((hold, began))
                self._requeue(hold, counts=began)
        for hold in self.holds:
            if hold.leaving:
                hold.places = {node: places for node, places in hold.places.items() if node not in doomed}
        return lost

    def _note_plan(self, plan: Plan, other: Plan, doomed: Sequence[tuple[Hold, bool]]) -> None:
        """What was decided goes into the books, if it may be."""
        assert {id(lost.run): lost.began for lost in plan.lost} == {id(hold.run): began for hold, began in doomed}
        assert len(plan.lost) == len(doomed)
        by: dict[str, set[Hold]] = defaultdict(set)
        for hold in [hold for hold in self._going() if not hold.run.alive and hold.victims]:
            assert hold.job.task.is_spot, f"{hold.run} has not begun and is given back"
            self._requeue(hold, counts=False)
            self.counts["given back"] += 1
        for eviction in plan.evictions:
            job = self.jobs[eviction.run.task.index]
            hold = job.hold
            assert hold is not None, f"{eviction.run} does not run and is evicted"
            assert hold.run is eviction.run
            assert not hold.victims, f"{eviction.run} has not begun and is evicted"
            assert eviction.keeps_progress == self._leases, "only leases end, and only they end softly"
            assert self._leases or job.task.is_spot, f"HP task {job.task.name} is evicted"
            self._requeue(hold, counts=True)
            self.counts["evicted"] += 1
            if job.task.is_spot:
                self.evicted[job.task.guarantee_hours] += 1
            if not eviction.keeps_progress:
                by[eviction.reason.by.name].add(hold)  # type: ignore[attr-defined]
            if not eviction.keeps_progress and self.parameters.grace_period:
                hold.leaving = True
                self.holds.append(hold)
        for run, twin in zip(plan.starts, other.starts, strict=True):
            self._note_start(run, twin, by.pop(run.task.name, set()))
        assert not by, f"evicted for {by}, and in vain"
        if plan.wake != inf:
            assert plan.wake > self.now
            self.wakes.append(plan.wake)

    def _note_start(self, run: Run, twin: Run, victims: set[Hold]) -> None:
        task, job = run.task, self.jobs[run.task.index]
        assert job.status == WAITING, f"{task.name} is {job.status} and starts"
        assert run.number == job.number, f"{task.name}: run {run.number} instead of {job.number}"
        assert run.since == job.since, f"{task.name} waits since {job.since}, not {run.since}"
        grace = self.parameters.grace_period
        hold = Hold(job, job.task, run, twin, run.number, run.start, where(run.places))
        if grace and not self._leases:
            hold.victims = victims | self._waits_for(run)
        if victims:
            assert task.preempts, f"{task.name} never preempts"
            assert run.start == self.now + grace
        assert run.start == self.now or hold.victims, f"{task.name} waits for nobody"
        assert all(hold.places.keys() & where(each.run.places).keys() or each in victims for each in hold.victims)
        job.status, job.hold = RUNNING, hold
        self.holds.append(hold)
        self.counts["planned" if hold.victims else "started"] += 1
        self.counts["mixed"] += bool(task.mixed)
        pods = Counter[int]()
        for places in hold.places.values():
            for number, count, _ in places:
                pods[number] += count
        assert pods == {role.number: role.pods for role in task.roles}, f"{task.name}: a gang starts in part"
        domains = {self.machines[node].spec.label(task.topology_key) for node in hold.places if node in self.machines}
        assert not task.topology_key or (len(domains) == 1 and domains != {""}), f"{task.name} starts in {domains}"
        for node in hold.places:
            machine = self.machines.get(node)
            assert machine is not None, f"{task.name} starts on {node}, which is gone"
            assert not machine.cordoned, f"{task.name} starts on {node}, which is cordoned"
            assert not machine.failed, f"{task.name} starts on {node}, which has failed"
            assert not self._closed(machine), f"{task.name} starts on {node}, which is overfull"
            for role, count, slot in hold.pods_of_roles(node):
                assert admits(machine.spec, role), f"{task.name} starts on {node}, which it may not use"
                assert (slot >= 0) == bool(role.share), task.name
                assert count == 1 or not role.share, f"{task.name}: {count} pods on one part of a GPU"

    def _waits_for(self, run: Run) -> set[Hold]:
        """The leaving runs that a start waits for, as the scheduler has it: `_nodes_hold_what_...` checks them."""
        leaving = self.scheduler.pools[run.task.gpu_model].state.leaving
        those = {(other.task.index, other.number) for other, left in leaving.items() if run in left.takers}
        return {hold for hold in self.holds if hold.leaving and (hold.job.task.index, hold.number) in those}

    # -- what must be so after every instant -------------------------------------------------------

    def look(self) -> None:
        """Hold the scheduler to the books."""
        for pool in self.scheduler.pools.values():
            check_state(pool.state)
        self._tasks_are_where_they_should_be()
        self._places_are_as_they_were()
        self._no_card_is_given_twice()
        self._guarantees_are_counted()
        if not self._leases:
            self._no_hp_waits_in_vain()

    def _tasks_are_where_they_should_be(self) -> None:
        waiting = {index: job for index, job in self.jobs.items() if job.status == WAITING}
        running = {index: job for index, job in self.jobs.items() if job.status == RUNNING}
        pools = self.scheduler.pools
        entries = {index: entry for pool in pools.values() for index, entry in pool.state.waiting.items()}
        runs = {index: run for pool in pools.values() for index, run in pool.state.runs.items()}
        assert entries.keys() == waiting.keys()
        assert runs.keys() == running.keys()
        for index, job in waiting.items():
            assert entries[index].task is job.task or entries[index].task.name == job.task.name
            assert (entries[index].number, entries[index].since) == (job.number, job.since), job.task.name
            assert entries[index].task.pods == job.task.pods
        for index, job in running.items():
            hold = job.hold
            assert hold is not None
            assert runs[index] is hold.run
            assert runs[index].task.pods == job.task.pods
            assert (runs[index].number, runs[index].start) == (job.number, hold.start), job.task.name
        for model, pool in pools.items():
            here = [index for index, job in waiting.items() if job.task.gpu_model == model]
            assert sorted(queued(pool.policy)) == sorted(here), "the queues do not hold those that wait"
            assert {run.task.name for run in pool.state.leaving} == {
                hold.job.task.name for hold in self.holds if hold.leaving and hold.job.task.gpu_model == model
            }

    def _places_are_as_they_were(self) -> None:
        """Nobody is moved."""
        for hold in self.holds:
            if not hold.leaving:
                assert where(hold.run.places) == hold.places, f"{hold.run} was moved"

    def _load(self, node: str, *, by_spot: bool = True) -> tuple[int, Counter[int]]:
        """GPUs in use by runs that go on or have not begun, and what of divided ones is."""
        used, load = 0, Counter[int]()
        for hold in self.holds:
            if not hold.leaving and (by_spot or not hold.job.task.is_spot):
                used += hold.whole(node)
                for role, _, slot in hold.pods_of_roles(node):
                    if slot >= 0:
                        load[slot] += role.share
        return used + len(load), load

    def _nodes_hold_what_has_not_left(self) -> None:
        """What has begun on a node and what is leaving it do not hold more than it has, nor a port twice."""
        for name, machine in self.machines.items():
            if name in self._resized:
                continue
            there = [hold for hold in self.holds if name in hold.places and (hold.leaving or not hold.victims)]
            whole = sum(hold.whole(name) for hold in there)
            assert whole <= machine.spec.gpus, f"{name} holds {whole} GPUs: {[hold.run for hold in there]}"
            pods = [(role, count) for hold in there for role, count, _ in hold.pods_of_roles(name)]
            free = less(limits(machine.spec), *pods)
            assert all(left >= -SLACK for left in free.values()), f"{name}: {free}"
            taken = Counter(port for role, count in pods for port in ports(role) for _ in range(count))
            assert max(taken.values(), default=0) <= 1, f"{name}: {taken}"
            self.counts["ports"] += bool(taken)

    def _used(self, node: str) -> int:
        return self._load(node)[0]

    def _no_card_is_given_twice(self) -> None:
        for node, machine in self.machines.items():
            used, load = self._load(node)
            over = {slot: share for slot, share in load.items() if share > CARD}
            assert not over, f"{node}: divided GPUs {over}"
            if not machine.cordoned and not machine.failed:
                here = next(n for n in self.scheduler.pools[machine.spec.gpu_model].state.nodes if n.name == node)
                left = machine.spec.gpus - used
                assert here.idle - here.surplus == left, f"{node}: {here.idle} idle, {left} are left"
                self.counts["overfull"] += here.overfull

    def _held_on(self, node: str, *, by_spot: bool = True) -> list[tuple[Role, int]]:
        """Roles and pods of what is held on a node."""
        return [
            (role, pods)
            for hold in self.holds
            if not hold.leaving and (by_spot or not hold.job.task.is_spot)
            for role, pods, _ in hold.pods_of_roles(node)
        ]

    def _closed(self, machine: Machine) -> bool:
        """Whether the node takes no pods: it is down, cordoned, or holds more than it has since it got smaller."""
        spec = machine.spec
        if machine.cordoned or machine.failed or self._used(spec.name) > spec.gpus:
            return True
        return any(left < -SLACK for left in less(limits(spec), *self._held_on(spec.name)).values())

    def _guarantees_are_counted(self) -> None:
        """What was lost, cancelled or never began is no eviction and no kept guarantee."""
        for hours in (0.125, 1.0, 2.0):
            evicted = sum(count for each, count in self.evicted.items() if each >= hours)
            kept = sum(count for each, count in self.kept.items() if each >= hours)
            for hold in self._going():
                task = hold.task
                if task.is_spot and not hold.victims and task.guarantee_hours >= hours:
                    kept += floor((self.now - hold.start) / task.guarantee_seconds)
            counts = [pool.state.ledger.counts(hours * 3600, self.now) for pool in self.scheduler.pools.values()]
            assert (sum(c.evicted for c in counts), sum(c.periods for c in counts)) == (evicted, kept), f"{hours} h"

    def _no_hp_waits_in_vain(self) -> None:
        """No waiting HP task fits on idle cards and cards of spot tasks; where order is strict, no first one."""
        waiting = [job.task for job in self.jobs.values() if job.status == WAITING and not job.task.is_spot]
        if self.name == "yarn-cs":
            waiting.sort(key=lambda task: (task.urgency, -task.index))
            waiting = list({task.gpu_model: task for task in waiting}.values())
        if not waiting:
            return
        rooms = []
        for name, machine in self.machines.items():
            spec, (used, load) = machine.spec, self._load(name, by_spot=False)
            if not machine.cordoned and not machine.failed and used <= spec.gpus:
                pods = self._held_on(name, by_spot=False)
                gpus = [CARD] * (spec.gpus - used) + [CARD - share for share in load.values()]
                taken = {port for role, _ in pods for port in ports(role)}
                rooms.append(Room(spec, gpus, less(limits(spec), *pods), taken))
        for task in waiting:
            assert not task.preempts or not surely_fits(task, rooms), f"{task.name} waits in vain at {self.now}"

    # -- restarts, and the end ---------------------------------------------------------------------

    def restart(self) -> None:
        """Save, load into a fresh scheduler, and go on with that one; as `Engine.swap` does."""
        save_state(self.scheduler, self._file, now=self.now, name=self.name)
        fresh = self.build()
        assert load_state(fresh, self._file, name=self.name).time == self.now
        runs, leaving = {}, {}
        for pool in fresh.pools.values():
            runs.update(pool.state.runs)
            leaving.update({(run.task.index, run.number): run for run in pool.state.leaving})
        for hold in self.holds:
            number = hold.job.task.index
            hold.run = leaving[number, hold.number] if hold.leaving else runs[number]
        self.scheduler = fresh
        self.counts["restarted"] += 1
        self.look()

    def begin_again(self) -> None:
        """A fresh scheduler that remembers nothing is told what there is: it must know who holds what."""
        self._sleep_until(self.now + 1)
        self.happen([(EvictionDone, hold) for hold in self.holds if hold.leaving])
        fresh = build_scheduler(self.name, (), self.parameters, period=7200.0, guarantees=(0.125, 1.0, 2.0))
        changes = [NodeChange(NodeChangeKind.ADDED, machine.spec) for machine in self.machines.values()]
        for machine in self.machines.values():
            changes += [NodeChange(NodeChangeKind.CORDONED, machine.spec)] * machine.cordoned
            changes += [NodeChange(NodeChangeKind.FAILED, machine.spec)] * machine.failed
        found = [
            FoundRun(
                hold.job.task,
                [PodsOn(node, pods, number) for node, places in hold.places.items() for number, pods, _ in places],
                hold.start,
                hold.number,
            )
            for hold in self._going()
        ]
        waiting = [Submitted(job.task) for job in self.jobs.values() if job.status == WAITING]
        plan = fresh.handle(self.now, [*waiting, Adopted(found), NodesChanged(changes)])
        assert not plan.lost
        runs = {index: run for pool in fresh.pools.values() for index, run in pool.state.runs.items()}
        evicted = {eviction.run.task.index for eviction in plan.evictions}
        evicted |= {hold.job.task.index for hold in self._going() if hold.start > self.now}
        for hold in self._going():
            index = hold.job.task.index
            if index not in evicted:
                pods = {node.name: runs[index].pods_on(node) for node in runs[index].nodes}
                assert pods == {node: hold.pods(node) for node in hold.places}
                assert (runs[index].number, runs[index].start) == (hold.number, hold.start)
        for pool in fresh.pools.values():
            check_state(pool.state)
        done = [Finished(run) for run in runs.values() if run.start <= self.now]
        fresh.handle(self.now + 600, [*done, Tick()])
        for pool in fresh.pools.values():
            check_state(pool.state)

    def settle(self) -> None:
        """All nodes open, all that was evicted leaves, all that runs finishes: who fits must have had its turn."""
        self._sleep_until(self.now + 1)
        opened = [
            NodeChange(kind, machine.spec)
            for machine in self.machines.values()
            for kind in (NodeChangeKind.UNCORDONED, NodeChangeKind.REPAIRED)
        ]
        self.happen([(NodesChanged, opened)] if opened else [])
        self.serve_all()
        for job in self.jobs.values():
            if job.status == WAITING:
                fits = self.fits_when_empty(job.task)
                assert not fits or self.name == "yarn-cs", f"{job.task.name} fits and never started"
        hopeless = [job.task for job in self.jobs.values() if job.status == WAITING]
        if hopeless and self.name == "yarn-cs":
            self.happen([(Cancelled, task) for task in hopeless if not self.fits_when_empty(task)])
            self.serve_all()
            assert not any(job.status == WAITING for job in self.jobs.values())
        assert not any(not hold.over for hold in self.holds)

    def serve_all(self) -> None:
        """Let everybody run and finish until nothing moves any more, a day longer than a node stays closed."""
        quiet = 0
        while quiet < 3:
            before = self.counts["started"] + self.counts["planned"]
            self._sleep_until((floor(self.now / 300) + 1) * 300.0 + (86400.0 if quiet == 1 else 0.0))
            gone = [(EvictionDone, hold) for hold in self.holds if hold.leaving]
            done = [(Finished, hold) for hold in self._going() if not hold.victims]
            self.happen([(Tick, None), *gone, *done, *self._due()])
            moved = self.counts["started"] + self.counts["planned"] > before or gone or done
            quiet = 0 if moved else quiet + 1

    def fits_when_empty(self, task: Task) -> bool:
        """Whether all its pods fit on the empty nodes of its model."""
        return surely_fits(task, [Room.empty(machine.spec) for machine in self.machines.values()])


def _smaller(role: Role, pods: int) -> Role:
    """The role with another number of pods."""
    return Role(
        pods,
        role.gpus_per_pod,
        cpus_per_pod=role.cpus_per_pod,
        memory_per_pod=role.memory_per_pod,
        resources=role.resources,
        rules=role.rules,
    )


def _event(kind: type, who: Any, *, twin: bool) -> Event:
    if kind in (Tick, Wake):
        return kind()  # type: ignore[no-any-return]
    if kind is Shrunk:
        hold, pods = who
        return Shrunk(hold.twin if twin else hold.run, pods)
    if isinstance(who, Hold):
        return kind(who.twin if twin else who.run)  # type: ignore[no-any-return]
    return kind(who)  # type: ignore[no-any-return]


def queued(policy: Any) -> list[int]:
    """Indexes of all tasks in the queues of a policy, each as often as it stands there."""
    if not hasattr(policy, "_queues"):
        return list(policy.state.waiting)  # it keeps no queues of its own
    found: list[int] = []
    for queue in policy._queues:
        if hasattr(queue, "_heap"):
            found += [task.index for _, task in queue._heap]
        else:
            lanes: list[Any] = []
            for lane in queue._lanes.values():
                lanes += lane.values() if isinstance(lane, dict) else [lane]
            found += [entry[-1].index for lane in lanes for entry in lane]
    return found
