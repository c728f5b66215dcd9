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

from gfs import SCHEDULERS, NodeRule, NodeSpec, Parameters, Priority, Task
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
from promises import CARD, SLACK, admits, asked, limits, pods_inside

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
    run: Run
    twin: Run
    number: int
    start: float
    places: dict[str, list[tuple[int, int]]]
    """Node -> (pods, slot of the divided GPU; below 0: whole ones), place by place."""
    victims: set[Hold] = field(default_factory=set)
    """Evicted for it and still there: it has not begun."""
    leaving: bool = False
    """Evicted, and not gone yet."""
    over: bool = False

    def whole(self, node: str) -> int:
        """Its whole GPUs on a node."""
        return self.pods(node) * self.job.task.cards

    def divided(self, node: str) -> list[int]:
        """The divided GPUs that it has a part of on a node, one for each pod."""
        return [slot for _, slot in self.places.get(node, ()) if slot >= 0]

    def pods(self, node: str) -> int:
        """Its pods on a node."""
        return sum(pods for pods, _ in self.places.get(node, ()))


@dataclass(eq=False)
class Machine:
    """A node as the world sees it."""

    spec: NodeSpec
    cordoned: bool = False
    failed: bool = False


def where(places: Iterable[Place]) -> dict[str, list[tuple[int, int]]]:
    """Places by the names of their nodes."""
    found: dict[str, list[tuple[int, int]]] = {}
    for node, _, pods, slot in places:
        found.setdefault(node.name, []).append((pods, slot))
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
                [(node.name, pods, slot) for node, _, pods, slot in run.places],
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
        seed: int = 0,
    ) -> None:
        self.name, self.parameters, self._file = scheduler, parameters, file
        self._leases = has_leases(SCHEDULERS[scheduler])
        self._resources = parameters.resources == "on"
        self._filters = filters
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
        names = list(hold.places)
        pods = [PodsOn(names[more % len(names)], 1 + more // 8 % 3)]
        if more % 5 == 0:
            pods.append(PodsOn(names[more // 3 % len(names)], 1))
        return [*pods, PodsOn("nowhere", 1)] if more % 7 == 0 else pods

    def _task(self, wish: Wish) -> Task:
        index = len(self.jobs)
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
            rules=(NodeRule(frozenset(wish.only), "zone"),) if self._filters and wish.only else (),
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
        cpus, memory, pods = self._taken(name)
        less = 1.0 + more % 4
        if self._resources and more % 3 == 0 and cpus > 1:  # 0 would be no limit
            return [NodeChange(NodeChangeKind.RESIZED, replace(spec, cpus=max(cpus - less, 0.5)))]
        if self._resources and more % 3 == 0 and memory > 1:
            return [NodeChange(NodeChangeKind.RESIZED, replace(spec, memory=max(memory - less, 0.5)))]
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
        if job.task.is_spot:
            length, seconds = self.now - hold.start, job.task.guarantee_seconds
            periods = max(ceil((length - 1e-6) / seconds), 1) if status == FINISHED else floor(length / seconds)
            self.kept[job.task.guarantee_hours] += periods
        job.status, job.hold = status, None
        hold.over = True
        self.past.append(hold)
        if not hold.victims:
            self.holds.remove(hold)

    def _shrink(self, hold: Hold, pods: Sequence[PodsOn]) -> None:
        """Pods have left: on each node those that were placed last."""
        job = hold.job
        left = {node: hold.pods(node) for node in hold.places}
        for node, count, _ in pods:
            if node in left:
                left[node] = max(left[node] - count, 0)
        if hold.over or not 0 < sum(left.values()) < job.task.pods:
            return
        self.counts["shrunk"] += 1
        for node, stay in left.items():
            places = []
            for many, slot in hold.places[node]:
                here = min(stay, many)
                stay -= here
                if here:
                    places.append((here, slot))
            hold.places[node] = places
        hold.places = {node: places for node, places in hold.places.items() if places}
        job.task = replace(job.task, pods=sum(left.values()))

    def _requeue(self, hold: Hold, counts: bool) -> None:
        """A run was lost (`counts`) or did not come about."""
        self._end(hold, WAITING)
        self.counts["lost" if counts else "failed"] += 1
        if counts:
            hold.job.number += 1
            hold.job.since = self.now

    def _leave(self, victim: Hold) -> None:
        """A victim has gone; whoever takes its place begins when it was the last one."""
        victim.leaving = False
        self.holds.remove(victim)
        for taker in [hold for hold in self.holds if victim in hold.victims]:
            taker.victims.remove(victim)
            if not taker.victims:
                taker.start = self.now
                if taker.over:
                    self.holds.remove(taker)
                else:
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
        lost = []
        for hold in list(self.holds):
            if hold.places.keys() & doomed and not hold.over:
                lost.append((hold, not hold.victims))
                self._requeue(hold, counts=not hold.victims)
        for hold in self.holds:
            if hold.over:
                hold.places = {node: places for node, places in hold.places.items() if node not in doomed}
        return lost

    def _note_plan(self, plan: Plan, other: Plan, doomed: Sequence[tuple[Hold, bool]]) -> None:
        """What was decided goes into the books, if it may be."""
        assert {id(lost.run): lost.began for lost in plan.lost} == {id(hold.run): began for hold, began in doomed}
        assert len(plan.lost) == len(doomed)
        by: dict[str, set[Hold]] = defaultdict(set)
        for eviction in plan.evictions:
            job = self.jobs[eviction.run.task.index]
            hold = job.hold
            assert hold is not None, f"{eviction.run} does not run and is evicted"
            assert hold.run is eviction.run
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
        waits = bool(victims) and self.parameters.grace_period > 0
        assert run.start == self.now + (self.parameters.grace_period if waits else 0)
        hold = Hold(job, run, twin, run.number, run.start, where(run.places), victims if waits else set())
        job.status, job.hold = RUNNING, hold
        self.holds.append(hold)
        self.counts["planned" if waits else "started"] += 1
        assert sum(hold.pods(node) for node in hold.places) == task.pods, f"{task.name}: a gang starts in part"
        for node in hold.places:
            machine = self.machines.get(node)
            assert machine is not None, f"{task.name} starts on {node}, which is gone"
            assert not machine.cordoned, f"{task.name} starts on {node}, which is cordoned"
            assert not machine.failed, f"{task.name} starts on {node}, which has failed"
            assert admits(machine.spec, task), f"{task.name} starts on {node}, which it may not use"
            assert not self._closed(machine), f"{task.name} starts on {node}, which is overfull"
            for pods, slot in hold.places[node]:
                assert (slot >= 0) == bool(task.share), task.name
                assert pods == 1 or not task.share, f"{task.name}: {pods} pods on one part of a GPU"

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
        """GPUs in use by runs that go on, or that others have not made room for yet, and what of divided ones is."""
        used, load = 0, Counter[int]()
        for hold in self.holds:
            if not hold.leaving and (by_spot or not hold.job.task.is_spot):
                used += hold.whole(node)
                for slot in hold.divided(node):
                    load[slot] += hold.job.task.share
        return used + len(load), load

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

    def _taken(self, node: str, *, by_spot: bool = True) -> tuple[float, float, float]:
        """CPUs, GiB of memory and pods that are held on a node."""
        held = [0.0, 0.0, 0.0]
        for hold in self.holds:
            if not hold.leaving and node in hold.places and (by_spot or not hold.job.task.is_spot):
                each = asked(hold.job.task)
                held = [before + hold.pods(node) * more for before, more in zip(held, each, strict=True)]
        return held[0], held[1], held[2]

    def _closed(self, machine: Machine) -> bool:
        """Whether the node takes no pods: it is down, cordoned, or holds more than it has since it got smaller."""
        spec = machine.spec
        if machine.cordoned or machine.failed or self._used(spec.name) > spec.gpus:
            return True
        return any(left < -SLACK for left in self._free(spec))

    def _free(self, spec: NodeSpec, *, without_spot: bool = False) -> tuple[float, float, float]:
        """CPUs, GiB of memory and pods that are free on a node (if every spot run went)."""
        cpus, memory, pods = self._taken(spec.name, by_spot=not without_spot)
        most = limits(spec)
        return most[0] - cpus, most[1] - memory, most[2] - pods

    def _guarantees_are_counted(self) -> None:
        """What was lost, cancelled or never began is no eviction and no kept guarantee."""
        for hours in (0.125, 1.0, 2.0):
            evicted = sum(count for each, count in self.evicted.items() if each >= hours)
            kept = sum(count for each, count in self.kept.items() if each >= hours)
            for hold in self._going():
                task = hold.job.task
                if task.is_spot and task.guarantee_hours >= hours:
                    kept += floor((self.now - hold.start) / task.guarantee_seconds)
            counts = [pool.state.ledger.counts(hours * 3600, self.now) for pool in self.scheduler.pools.values()]
            assert (sum(c.evicted for c in counts), sum(c.periods for c in counts)) == (evicted, kept), f"{hours} h"

    def _no_hp_waits_in_vain(self) -> None:
        """No waiting HP task fits on idle cards and cards of spot tasks; where order is strict, no first one."""
        waiting = [job.task for job in self.jobs.values() if job.status == WAITING and not job.task.is_spot]
        if self.name == "yarn-cs":
            waiting = list({task.gpu_model: task for task in reversed(waiting)}.values())
        for task in waiting:
            slots = 0.0
            for name, machine in self.machines.items():
                spec = machine.spec
                if machine.cordoned or machine.failed or not admits(spec, task):
                    continue
                used, load = self._load(name, by_spot=False)
                left, here = spec.gpus - used, 0.0
                if left >= 0 and task.cards:
                    here = left // task.cards
                elif left >= 0:
                    rooms = [CARD] * left + [CARD - share for share in load.values()]
                    here = sum(room // task.share for room in rooms)
                free = self._free(spec, without_spot=True)
                slots += 0 if min(free) < -SLACK else min(here, pods_inside(task, free))
            assert slots < task.pods, f"{task.name} waits in vain at {self.now}"

    # -- restarts, and the end ---------------------------------------------------------------------

    def restart(self) -> None:
        """Save, load into a fresh scheduler, and go on with that one; as `Engine.swap` does."""
        save_state(self.scheduler, self._file, now=self.now, name=self.name)
        fresh = self.build()
        assert load_state(fresh, self._file, name=self.name).time == self.now
        runs, leaving = {}, {}
        vacating: dict[tuple[int, int], list[Run]] = {}
        for pool in fresh.pools.values():
            runs.update(pool.state.runs)
            leaving.update({(run.task.index, run.number): run for run in pool.state.leaving})
            for run in pool.state.vacating:
                vacating.setdefault((run.task.index, run.number), []).append(run)
        for hold in self.holds:
            if hold.leaving:
                hold.run = leaving[hold.job.task.index, hold.number]
            elif not hold.over:
                hold.run = runs[hold.job.task.index]
            else:
                # In order of time, both.
                hold.run = vacating[hold.job.task.index, hold.number].pop(0)
        assert not any(vacating.values())
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
            FoundRun(hold.job.task, [PodsOn(node, hold.pods(node)) for node in hold.places], hold.start, hold.number)
            for hold in self._going()
        ]
        waiting = [Submitted(job.task) for job in self.jobs.values() if job.status == WAITING]
        plan = fresh.handle(self.now, [*waiting, Adopted(found), NodesChanged(changes)])
        assert not plan.lost
        runs = {index: run for pool in fresh.pools.values() for index, run in pool.state.runs.items()}
        evicted = {eviction.run.task.index for eviction in plan.evictions}
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
        slots = 0.0
        for machine in self.machines.values():
            spec = machine.spec
            if admits(spec, task):
                here = spec.gpus // task.cards if task.cards else spec.gpus * (CARD // task.share)
                slots += min(here, pods_inside(task, limits(spec)))
        return slots >= task.pods


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
            found += [entry[0] for entry in queue._heap]
        else:
            lanes: list[Any] = []
            for lane in queue._lanes.values():
                lanes += lane.values() if isinstance(lane, dict) else [lane]
            found += [entry[-1].index for lane in lanes for entry in lane]
    return found
