"""Chronus in GFS: HP and spot tasks hold leases; who holds the next ones is decided in rounds.

Cards are given out only where a round begins, which is when spot leases end. If all that wait fits on idle
cards, it gets them and every lease is renewed. Otherwise two programs (`selection`) say who holds the next
leases, HP first, and `placement` finds the cards. Nobody is stopped inside a lease; a task whose lease is not
renewed is suspended with its progress kept and pays `resume_overhead` when it runs again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from heapq import heappop, heappush
from math import inf

from gfs.core.actions import NOTHING, Eviction, Plan
from gfs.core.admission import SpotAdmission
from gfs.core.listeners import Listener
from gfs.core.node import Place
from gfs.core.ports import Placer, Quota, SolverFigures
from gfs.core.reasons import NoNode, OverQuota, Reason
from gfs.core.run import End, Run, Waiting
from gfs.core.state import PoolState
from gfs.core.trial import Trial
from gfs.domain.errors import StalePolicyError
from gfs.domain.task import Priority, Task
from gfs.domain.units import MICRO
from gfs.policies.chronus.leases import LeaseMemory, LeaseQueue, LeaseTable, round_at
from gfs.policies.chronus.placement import EndingLeases, RoundPlacement
from gfs.policies.chronus.program import TaskShape
from gfs.policies.chronus.reasons import BetweenLeases, LeaseEnd, NoLease
from gfs.policies.chronus.selection import LeaseSelector, tasks_of
from gfs.policies.placement import Chooser


class ChronusPolicy(Listener):
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
        self._admission = SpotAdmission(state.pool, quota)
        self._pool = state.pool
        self._trial = Trial(state.pool)
        self._chooser = Chooser(state.pool, placer)
        self._round = lease[Priority.SPOT]
        self._memory = state.remember(LeaseMemory)
        self._leases = LeaseTable(state, self._memory, self._round, round(lease[Priority.HP] / self._round))
        self._selector = LeaseSelector(
            state.pool,
            self._leases,
            self._memory,
            quota,
            resume=tuple(resume_overhead / length for length in lease),
            aging=max(1, round(aging / self._round)),
            round_length=self._round,
            seconds=solver_seconds,
        )
        self._changed = state.pool.listeners.feed(), state.pool.listeners.feed()
        self._resume_overhead = resume_overhead
        self._asked_here = -inf
        """The round that this object asked a wake-up for. Rebuilt it asks again: the asking may be forgotten."""
        self._stale = False
        state.listen(self)

    # -- what happened -----------------------------------------------------------------------------

    def finished(self, run: Run, now: float) -> None:
        """A run is done; its cards stay idle until the next round."""
        self._leases.close(run)

    def ended(self, run: Run, end: End, now: float) -> None:
        """A run is over before it was done."""
        if end is End.EVICTED:
            return  # by a decision of ours, which sees to the rest
        self._leases.close(run)
        if end.waits_again:
            self._leases.queue(self.state.waiting[run.task.index])
            self._memory.newcomers.append(run.task)

    def shrunk(self, run: Run, before: Task, now: float) -> None:
        """A run holds less; its lease goes on."""
        self._leases.shrink(run)

    def dropped(self) -> None:
        """Nodes have changed: another policy takes over."""
        self._stale = True

    def withdrawn(self, task: Task, now: float) -> None:
        """A task waits no longer."""
        self._leases.unqueue(self._leases.find(task))
        memory = self._memory
        memory.newcomers = [other for other in memory.newcomers if other.index != task.index]
        self._forget_round_if_nobody_waits()

    # -- rounds ------------------------------------------------------------------------------------

    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """Newcomers wait for the next round; where one begins, leases are given out."""
        if self._stale:
            raise StalePolicyError("nodes have changed since this policy was built: build it again from the state")
        leases, memory, waiting = self._leases, self._memory, self.state.waiting
        for task in arrived:
            self.state.queue(task, now)
            leases.queue(waiting[task.index])
        if not leases.anybody_waits:
            memory.newcomers.clear()
            return NOTHING
        number, begins = self._round_at(now)
        plan = Plan()
        if begins:
            self.state.age(now)
            self._give_out(plan, number, now)
            self._explain([*memory.newcomers, *arrived], plan)
            memory.newcomers.clear()
        else:
            memory.newcomers += arrived
            wait = (number + 1) * self._round - now
            for task in arrived:
                waiting[task.index].reason = BetweenLeases(wait)
        self._forget_round_if_nobody_waits()
        if leases.anybody_waits:
            memory.asked = number + 1
            if self._asked_here <= number:
                self._asked_here = number + 1
                plan.wake = (number + 1) * self._round
        return plan

    def _round_at(self, now: float) -> tuple[int, bool]:
        """The round that `now` falls into, and whether leases are given out now.

        They are where a round begins, and late where someone waits for a round that has begun meanwhile: a wake-up
        on a real clock is never on the dot.
        """
        number, begins = round_at(now, self._round)
        return number, begins or -inf < self._memory.asked <= number

    def _forget_round_if_nobody_waits(self) -> None:
        """Who comes next waits for the round after it has come."""
        if not self._leases.anybody_waits:
            self._memory.asked = -inf

    def _give_out(self, plan: Plan, number: int, now: float) -> None:
        """Lease out what there is."""
        hp, spot = (
            self._selector.candidate_queues(Priority.HP, number, now),
            self._selector.candidate_queues(Priority.SPOT, number, now),
        )
        if not hp and not spot:
            return
        if self._selector.fit_on_idle_cards([*hp, *spot]):
            everybody = self._placement({}, {})
            queued = (*_largest_first(tasks_of(hp)), *_largest_first(tasks_of(spot)))
            if all(self._try(plan, everybody, waiting, now) for waiting in queued):
                return
            # Fractions, or sizes that do not divide each other: the room lay apart.
            hp, spot = (
                self._selector.candidate_queues(Priority.HP, number, now),
                self._selector.candidate_queues(Priority.SPOT, number, now),
            )
        chosen_hp, hp_stops = self._selector.choose_hp(hp, number, now)
        chosen_spot, spot_stops = self._selector.choose_spot(spot, chosen_hp, hp_stops, number, now)
        self._serve_hp(plan, chosen_hp, {**hp_stops, **spot_stops}, number, now)
        self._serve_spot(plan, chosen_spot, spot_stops, number, now)
        self._backfill(plan, now)

    def _placement(self, ending: Mapping[Run, TaskShape], stops: Mapping[TaskShape, int]) -> RoundPlacement:
        leases = EndingLeases(ending, stops)
        return RoundPlacement(self._trial, self._leases, self._chooser.choose, leases, self._changed)

    def _serve_hp(
        self, plan: Plan, chosen: list[Waiting], stops: dict[TaskShape, int], number: int, now: float
    ) -> None:
        """Cards for the chosen HP tasks. Where the leases meant to end do not do, any spot lease may."""
        leases = self._leases
        if not leases.queues(Priority.HP):
            return
        ending = {**leases.ending(Priority.SPOT, number, now), **leases.ending(Priority.HP, number, now)}
        self._try_all(plan, self._placement(ending, stops), chosen, now)
        if left := self._selector.candidate_queues(Priority.HP, number, now, beside_hp=True):
            spot = leases.ending(Priority.SPOT, number, now)
            placement = self._placement(spot, Counter(spot.values()))
            self._try_all(plan, placement, tasks_of(left), now)

    def _serve_spot(
        self, plan: Plan, chosen: list[Waiting], stops: dict[TaskShape, int], number: int, now: float
    ) -> None:
        """Cards for the chosen spot tasks."""
        moved = {run.task.index for run in plan.starts}
        gone = [eviction.run.task for eviction in plan.evictions if eviction.run.task.index not in moved]
        stopped = Counter(map(self._leases.shape_of, gone))
        left = {shape: count - stopped[shape] for shape, count in stops.items() if count > stopped[shape]}
        placement = self._placement(self._leases.ending(Priority.SPOT, number, now), left)
        self._try_all(plan, placement, chosen, now)

    def _backfill(self, plan: Plan, now: float) -> None:
        """What is idle all the same goes to whoever fits, HP first, longest wait first."""
        stopped = {eviction.run.task.index for eviction in plan.evictions}
        placement = self._placement({}, {})
        for priority in Priority:
            heads = [(*_next(queue, stopped), queue) for queue in self._leases.queues(priority)]
            heads = sorted((since, index, queue) for since, index, queue in heads if index >= 0)
            failed: list[Task] = []
            while heads:
                _, index, queue = heappop(heads)
                if any(_as_large(queue.task, other) for other in failed):
                    continue
                if not self._try(plan, placement, queue.waiting[index], now):
                    failed.append(queue.task)
                    continue
                since, index = _next(queue, stopped)
                if index >= 0:
                    heappush(heads, (since, index, queue))

    def _try_all(self, plan: Plan, placement: RoundPlacement, waiting: Iterable[Waiting], now: float) -> None:
        """Start those that find their cards, largest first; where one fails, so do those like it."""
        failed: set[TaskShape] = set()
        for each in _largest_first(waiting):
            shape = self._leases.shape_of(each.task)
            if shape not in failed and not self._try(plan, placement, each, now):
                failed.add(shape)

    def _try(self, plan: Plan, placement: RoundPlacement, waiting: Waiting, now: float) -> bool:
        """Start a task if it finds its cards within the quota."""
        task = waiting.task
        places = placement.place(task, self._over_quota)
        if places is None:
            return False
        self._carry_out(plan, placement, now)
        self._leases.unqueue(waiting)
        self._start(plan, waiting, places, now)
        return True

    def _over_quota(self, task: Task) -> float | None:
        """The guarantee whose quota a task would exceed, if any."""
        return self._admission.exceeded(task) if task.is_spot else None

    # -- acting on a decision ----------------------------------------------------------------------

    def _start(self, plan: Plan, waiting: Waiting, places: list[Place], now: float) -> None:
        task = waiting.task
        run = self.state.start(task, places, now)
        self._leases.open(run)
        plan.starts.append(run)

    def _carry_out(self, plan: Plan, placement: RoundPlacement, now: float) -> None:
        """Suspend what had to make room; what was moved begins again in its other place."""
        for run in placement.stopped:
            self._leases.queue(self._suspend(plan, run, now))
        for run, places in placement.moved.items():
            self._start(plan, self._suspend(plan, run, now), places, now)
        placement.stopped.clear()
        placement.moved.clear()

    def _suspend(self, plan: Plan, run: Run, now: float) -> Waiting:
        self._leases.expire(run)
        self.state.evict(run, now)
        plan.evictions.append(Eviction(run, LeaseEnd(), keeps_progress=True))
        waiting = self.state.waiting[run.task.index]
        waiting.overhead = self._resume_overhead
        return waiting

    @property
    def solver(self) -> SolverFigures:
        """How the programs went so far."""
        return self._selector.solver

    # -- why tasks wait ----------------------------------------------------------------------------

    def _explain(self, arrived: Sequence[Task], plan: Plan) -> None:
        """Note a reason for everything that this round has left without a lease."""
        reason = cache(self._lost_out)  # nothing changes meanwhile
        for task in (*arrived, *(eviction.run.task for eviction in plan.evictions)):
            waiting = self.state.waiting.get(task.index)
            if waiting is not None:
                waiting.reason = self._reason(task, reason)

    def explain(self, task: Task) -> Reason:
        """Why a task that waits does so now."""
        return self._reason(task, self._lost_out)

    def _reason(self, task: Task, lost_out: Callable[[Priority], tuple[float, float]]) -> Reason:
        if not self._pool.capacity:
            return NoNode(self._pool.gpu_model, len(self._pool.nodes))
        if (hours := self._over_quota(task)) is not None:
            held, limit = self._pool.spot_held(hours) / MICRO, self.quota.limit(hours)
            return OverQuota(self._pool.gpu_model, limit, held, task.gpus, hours, self.quota.why(hours))
        short = self._chooser.short(task) if self._pool.slots(task) < task.pods else ""
        return NoLease(task, *lost_out(task.priority), short)

    def _lost_out(self, priority: Priority) -> tuple[float, float]:
        """GPUs that are idle after the round, and those that waiting tasks of a class ask for."""
        return self._pool.idle + self._selector.parts(), sum(queue.gpus for queue in self._leases.queues(priority))


def _largest_first(waiting: Iterable[Waiting]) -> list[Waiting]:
    return sorted(waiting, key=lambda w: (-w.task.gpus_per_pod, -w.task.pods, w.since, w.task.index))


def _next(queue: LeaseQueue, stopped: set[int]) -> tuple[float, int]:
    """Since when the first task of a queue waits that was not stopped just now, and its index; (0, -1): none."""
    return next(((w.since, index) for index, w in queue.waiting.items() if index not in stopped), (0.0, -1))


def _as_large(task: Task, other: Task) -> bool:
    """Whether a task wants at least as much as another one that found no room or quota."""
    return (
        task.priority == other.priority
        and task.gpus_per_pod >= other.gpus_per_pod
        and task.pods >= other.pods
        and task.guarantee_hours == other.guarantee_hours
        and task.node_filter == other.node_filter
        and task.cpus_per_pod >= other.cpus_per_pod
        and task.memory_per_pod >= other.memory_per_pod
    )
