"""Chronus in GFS: HP and spot tasks hold leases; who holds the next ones is decided in rounds.

GPUs are given out only where a round begins, which is when spot leases end; an HP lease lasts some whole number of
rounds. Two programs (`program`) say who holds the next leases, HP first, and `placement` finds the GPUs. Nobody is
stopped inside a lease; a task whose lease is not renewed is suspended with its progress kept and pays
`resume_overhead` when it runs again.

A lease's worth, per GPU: 1 for the work of the next lease; for a running task the cost of resuming it later, as a
share of a lease, on top; for a suspended one that cost less; for a waiting one how long it has waited, up to 1
more after `lease_aging`. Waiting counts from when the task was last queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil, floor

from gfs.core.actions import NOTHING, Eviction, Plan
from gfs.core.admission import SpotAdmission
from gfs.core.listeners import Listener
from gfs.core.ports import Placer, Policy, Quota, SolverFigures
from gfs.core.reasons import NoNode, OverQuota, Reason
from gfs.core.run import Run, Waiting
from gfs.core.state import PoolState
from gfs.core.trial import Trial
from gfs.domain.errors import StalePolicyError
from gfs.domain.task import Priority, Task
from gfs.domain.units import MICRO
from gfs.policies.chronus.placement import RoundPlacement
from gfs.policies.chronus.program import SLACK, Capacity, LeaseShape, TaskGroup, select
from gfs.policies.chronus.reasons import BetweenLeases, LeaseEnd, NoLease
from gfs.policies.domains import places_of
from gfs.policies.placement import Chooser

LEAST_WORTH = 0.01
"""Of a GPU in use, even where resuming takes longer than a lease."""


@dataclass(slots=True)
class LeaseMemory:
    """What is remembered besides runs and waiting tasks."""

    served: int = -1
    """The last round in which leases were given out."""
    solver: SolverFigures = field(default_factory=lambda: SolverFigures(0, 0, 0.0))


def round_at(time: float, length: float) -> tuple[int, bool]:
    """The round that a time falls into, and whether it begins just then."""
    nearest = round(time / length)
    if nearest * length == time:  # the very product that a wake-up was asked for by
        return nearest, True
    return floor(time / length), False


class ChronusPolicy(Listener, Policy):
    """The leases of one pool."""

    def __init__(
        self,
        state: PoolState,
        *,
        placer: Placer,
        quota: Quota,
        lease: tuple[float, float],
        resume_overhead: float,
        aging: float,
        solver_seconds: float,
    ) -> None:
        """`lease`: seconds of an HP and of a spot lease, the first a whole multiple of the second."""
        self.state = state
        self.quota = quota
        self._pool = state.pool
        self._waiting = state.waiting
        self._admission = SpotAdmission(state.pool, quota)
        self._trial = Trial(state.pool)
        self._chooser = Chooser(state.pool, placer)
        self._round = lease[Priority.SPOT]
        self._lease_rounds = tuple(round(length / self._round) for length in lease)
        self._resume_overhead = resume_overhead
        self._resume = tuple(resume_overhead / length for length in lease)
        """What resuming costs, as a share of a lease of each class."""
        self._aging_rounds = max(1, round(aging / self._round))
        self._solver_seconds = solver_seconds
        self._memory = state.remember(LeaseMemory)
        self._wakes = 0
        """The round that this object asked a wake-up for. Rebuilt it asks again: the asking may be forgotten."""
        self._stale = False
        state.listen(self)

    def dropped(self) -> None:
        """Nodes have changed: another policy takes over."""
        self._stale = True

    # -- rounds ------------------------------------------------------------------------------------

    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """Newcomers wait for the next round; where one begins, leases are given out."""
        if self._stale:
            raise StalePolicyError("nodes have changed since this policy was built: build it again from the state")
        for task in arrived:
            self.state.queue(task, now)
        if not self._waiting:
            return NOTHING
        plan = Plan()
        number, begins = round_at(now, self._round)
        longest = next(iter(self._waiting.values()))
        late = self._memory.served < number and longest.since < number * self._round  # a wake-up is never on the dot
        if begins or late:
            self._memory.served = number
            self.state.age(now)
            self._give_out(plan, number, now)
            for waiting in self._waiting.values():
                if waiting.reason is None or isinstance(waiting.reason, BetweenLeases):
                    waiting.reason = self.explain(waiting.task)
        else:
            for task in arrived:
                self._waiting[task.index].reason = BetweenLeases((number + 1) * self._round - now)
        if self._waiting and self._wakes <= number:
            self._wakes = number + 1
            plan.wake = self._wakes * self._round
        return plan

    def _give_out(self, plan: Plan, number: int, now: float) -> None:
        """Lease out what there is: to the chosen HP tasks, to others for whom any spot lease may stop, then to spot."""
        ending = {run: self._shape_of(run.task) for run in self.state.runs.values() if self._ends(run, number, now)}
        hp, hp_stops = self._choose(Priority.HP, ending, self._room_for_hp(ending), now)
        taken = Counter(self._shape_of(waiting.task) for waiting in hp)
        taken.subtract(hp_stops)
        spot, spot_stops = self._choose(Priority.SPOT, ending, self._room_for_spot(taken), now)
        placement = RoundPlacement(self._trial, self._chooser.choose, self._over_quota, ending)
        placement.stops = hp_stops + spot_stops
        self._serve(plan, placement, hp, now)
        left = placement.stops
        placement.stops = Counter(shape for run, shape in ending.items() if run.alive and run.task.is_spot)
        self._serve(plan, placement, self._class(Priority.HP), now)
        placement.stops = Counter({shape: count for shape, count in left.items() if shape.priority is Priority.SPOT})
        self._serve(plan, placement, spot, now)
        placement.stops = Counter()
        self._serve(plan, placement, self._class(Priority.SPOT), now)

    def _ends(self, run: Run, number: int, now: float) -> bool:
        """Whether a lease of the run ends in this round, which has begun: none of those that began with it."""
        rounds = self._lease_rounds[run.task.priority]
        return run.start < now and (rounds == 1 or (number - round_at(run.start, self._round)[0]) % rounds == 0)

    def _serve(self, plan: Plan, placement: RoundPlacement, tasks: Iterable[Waiting], now: float) -> None:
        """Start those that find their GPUs, by priority, then largest first; where one fails, so do those like it."""

        def order(waiting: Waiting) -> tuple[float, ...]:
            task = waiting.task
            return -task.urgency, -task.gpus_per_pod, -task.pods, waiting.since, task.index

        failed: set[LeaseShape] = set()
        for waiting in sorted(tasks, key=order):
            task, shape = waiting.task, self._shape_of(waiting.task)
            if shape in failed or not placement.place(task):
                failed.add(shape)
                continue
            stopped, places = self._trial.evicted, places_of(task, self._trial.commit())
            for run in stopped:
                self.state.evict(run, now)
                self._waiting[run.task.index].overhead = self._resume_overhead
                plan.evictions.append(Eviction(run, LeaseEnd(), keeps_progress=True))
            plan.starts.append(self.state.start(task, places, now))

    def _over_quota(self, task: Task) -> float | None:
        """The guarantee whose quota a task would exceed, if any."""
        return self._admission.exceeded(task) if task.is_spot else None

    # -- who gets the next leases ------------------------------------------------------------------

    def _choose(
        self, priority: Priority, ending: Mapping[Run, LeaseShape], room: Capacity, now: float
    ) -> tuple[list[Waiting], Counter[LeaseShape]]:
        """Waiting tasks of a class that get a lease, and how many runs of each shape lose theirs."""
        waiting: dict[tuple[float, LeaseShape], list[Waiting]] = {}
        for each in self._class(priority):
            waiting.setdefault((self._worth(each, now), self._shape_of(each.task)), []).append(each)
        if not waiting:
            return [], Counter()
        running = Counter(shape for shape in ending.values() if shape.priority is priority)
        renewed = 1 + self._resume[priority]
        groups = [TaskGroup(shape, count, shape.gpus * renewed) for shape, count in running.items()]
        left = {shape: floor((room.gpus + SLACK) / shape.gpus) for _, shape in waiting}
        by_shape: dict[LeaseShape, list[Waiting]] = {}
        for (worth, shape), alike in sorted(waiting.items(), key=lambda item: -item[0][0]):
            by_shape.setdefault(shape, []).extend(alike)
            if some := min(len(alike), left[shape]):  # no more than fit can be chosen
                left[shape] -= some
                groups.append(TaskGroup(shape, some, shape.gpus * worth))
        selection = select(groups, room, self._solver_seconds)
        self._memory.solver = self._memory.solver.plus(selection.solver)
        counts = iter(selection.counts)
        stops = Counter({shape: count - next(counts) for shape, count in running.items()})
        granted = Counter[LeaseShape]()
        for group, count in zip(groups[len(running) :], counts, strict=True):
            granted[group.shape] += count
        for alike in by_shape.values():
            alike.sort(key=lambda each: -each.task.urgency)  # of equals, those of most worth
        return [each for shape, count in granted.items() for each in by_shape[shape][:count]], stops

    def _room_for_hp(self, ending: Iterable[Run] = ()) -> Capacity:
        """What HP can have if all spot tasks went, and the HP runs whose leases end."""
        free = [node.hp_free for node in self._pool.nodes]
        parts = sum(MICRO - hp for node in self._pool.nodes for hp, _ in node.shares.values() if hp) / MICRO
        for run in ending:
            if not run.task.is_spot:
                parts += 0.0 if run.task.cards else run.task.gpus
                for node in run.nodes:
                    free[node.index] += 0 if node.closed else run.pods_on(node) * run.task.cards
        levels = Counter(free)
        return Capacity(cache(lambda size: sum(count * (level // size) for level, count in levels.items())), parts, {})

    def _room_for_spot(self, taken: Counter[LeaseShape]) -> Capacity:
        """What spot can have once HP has taken room for so many tasks, or given it back (below 0)."""
        room = self._room_for_hp()
        parts = room.parts - sum(count * shape.gpus for shape, count in taken.items() if shape.gpus_per_pod < 1)
        hours = {each.task.guarantee_hours for each in self._class(Priority.SPOT)}
        hours |= {*self.quota.horizons, *self._pool.spot_in_use}
        quota = {h: max(self.quota.limit(h), self._pool.spot_held(h) / MICRO) for h in hours}

        def slots(size: int) -> int:
            return max(0, room.slots(size) - sum(count * shape.slots(size) for shape, count in taken.items()))

        return Capacity(slots, parts, quota)

    def _worth(self, waiting: Waiting, now: float) -> float:
        """What a lease is worth to a waiting task, per GPU."""
        rounds = min(floor((now - waiting.since) / self._round), self._aging_rounds)
        resume = self._resume[waiting.task.priority] if waiting.number > 1 else 0.0
        return max(1 - resume, LEAST_WORTH) + rounds / self._aging_rounds

    def _class(self, priority: Priority) -> list[Waiting]:
        """Waiting tasks of a class, longest wait first."""
        return [waiting for waiting in self._waiting.values() if waiting.task.priority is priority]

    def _shape_of(self, task: Task) -> LeaseShape:
        size = task.gpus_per_pod or 1 / MICRO  # where only pods without GPUs are left
        pods = task.pods if not task.mixed else max(ceil(task.gpus / size), 1)
        return LeaseShape(task.priority, size, pods, task.guarantee_hours, self._pool.demand(task))

    @property
    def solver(self) -> SolverFigures:
        """How the programs went so far."""
        return self._memory.solver

    # -- why tasks wait ----------------------------------------------------------------------------

    def explain(self, task: Task) -> Reason:
        """Why a task that waits does so now."""
        pool = self._pool
        if not pool.capacity:
            return NoNode(pool.gpu_model, len(pool.nodes))
        if (hours := self._over_quota(task)) is not None:
            held, limit = pool.spot_held(hours) / MICRO, self.quota.limit(hours)
            return OverQuota(pool.gpu_model, limit, held, task.gpus, hours, self.quota.why(hours))
        parts = sum(MICRO - hp - spot for node in pool.nodes for hp, spot in node.shares.values()) / MICRO
        lacking = (role for role in task.roles if pool.slots(role) < role.pods)
        short = next((words for role in lacking if (words := self._chooser.short(role))), "")
        return NoLease(pool.idle + parts, task.gpus, short)
