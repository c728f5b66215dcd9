"""Chronus in GFS: HP and spot tasks hold leases; who holds the next ones is decided in rounds (SPEC 6).

Cards are given out only where a round begins, which is when spot leases end. If all that wait fits on idle
cards, it gets them and every lease is renewed. Otherwise two programs (`selection`) say who holds the next
leases, HP first, and `placing` finds the cards. Nobody is stopped inside a lease; a task whose lease is not
renewed is suspended with its progress kept and pays `resume_overhead` when it runs again.

A lease's worth, per GPU: 1 for the work of the next lease; for a running task the cost of resuming it
later, as a share of a lease, on top; for a waiting one how long it has waited, up to 1 more after `patience`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import heappop, heappush
from itertools import groupby, islice
from math import ceil, floor, inf

from gfs.core.actions import NOTHING, Eviction, Plan
from gfs.core.lease_reasons import BetweenLeases, LeaseEnd, NoLease
from gfs.core.ledger import GuaranteeLedger
from gfs.core.node import Place
from gfs.core.pool import Pool
from gfs.core.ports import Placer, Quota, QuotaRow, SolverFigures
from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.domain.task import Kind, Task
from gfs.domain.units import MICRO
from gfs.policies.chronus.books import LeaseBooks, Queue, Waiting
from gfs.policies.chronus.placing import Placing, Spare
from gfs.policies.chronus.selection import Effort, Group, Like, Room, Selection, like, select


class ChronusPolicy:
    """The leases of one pool."""

    leases = True

    def __init__(
        self,
        pool: Pool,
        *,
        placer: Placer,
        quota: Quota,
        ledger: GuaranteeLedger,
        lease: tuple[float, float],
        resume_overhead: float,
        patience: float,
        solver_seconds: float,
    ) -> None:
        """`lease`: seconds of an HP and of a spot lease, the first a whole multiple of the second."""
        self.pool = pool
        self.quota = quota
        self.ledger = ledger
        self._placer = placer
        self._lease = lease
        self._round = lease[Kind.SPOT]
        self._books = LeaseBooks(pool, (round(lease[Kind.HP] / self._round), 1))
        self._resume_overhead = resume_overhead
        self._patience = patience
        self._solver_seconds = solver_seconds
        self._reasons: dict[int, Reason] = {}
        self._asked = -inf
        """The round that a wake-up was asked for."""
        self._solves = self._stopped = 0
        self._worst_gap = 0.0

    # -- what happened -----------------------------------------------------------------------------

    def finish(self, run: Run, now: float) -> None:
        """A run is done; its cards stay idle until the next round."""
        if run.task.kind:
            self.ledger.finished(run, now)
        self._books.close(run)
        run.alive = False
        self.pool.release(run.places, run.task)

    def tick(self, now: float) -> None:
        """The regular moment: the quota is reconsidered."""
        self.quota.tick(now)

    # -- rounds ------------------------------------------------------------------------------------

    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """Newcomers wait for the next round; where one begins, leases are given out."""
        books = self._books
        for task in arrived:
            books.queue(Waiting(task, 1, now))
        if not books.anybody_waits:
            return NOTHING
        number, begins = self._round_at(now)
        plan = Plan()
        if begins:
            self._give_out(plan, number, now)
            self._explain(arrived, plan)
        else:
            wait = (number + 1) * self._round - now
            for task in arrived:
                self._reasons[task.index] = BetweenLeases(wait)
        if books.anybody_waits and self._asked <= number:
            self._asked = number + 1
            plan.wake = (number + 1) * self._round
        return plan

    def _round_at(self, now: float) -> tuple[int, bool]:
        """The round that `now` falls into, and whether it begins just then."""
        nearest = round(now / self._round)
        if nearest * self._round == now:  # the very product that a wake-up was asked for by
            return nearest, True
        return floor(now / self._round), False

    def _give_out(self, plan: Plan, number: int, now: float) -> None:
        """Lease out what there is."""
        hp, spot = self._hopeful(Kind.HP, number), self._hopeful(Kind.SPOT, number)
        if not hp and not spot:
            return
        if self._fits_as_it_is([*hp, *spot]):
            everybody = self._placing((), {})
            for waiting in (*_largest_first(_all_in(hp)), *_largest_first(_all_in(spot))):
                self._try(plan, everybody, waiting, number, now)
            return
        chosen_hp, hp_stops = self._choose_hp(hp, number, now)
        chosen_spot, spot_stops = self._choose_spot(spot, chosen_hp, hp_stops, number, now)
        self._serve_hp(plan, chosen_hp, {**hp_stops, **spot_stops}, number, now)
        self._serve_spot(plan, chosen_spot, spot_stops, number, now)
        self._backfill(plan, number, now)

    def _placing(self, ending: Iterable[Run], stops: Mapping[Like, int]) -> Placing:
        return Placing(self.pool, self._books, self._placer.choose, Spare(ending, stops))

    def _serve_hp(
        self, plan: Plan, chosen: list[Waiting], stops: dict[Like, int], number: int, now: float
    ) -> None:
        """Cards for the chosen HP tasks. Where the leases meant to end do not do, any spot lease may."""
        books = self._books
        placing = self._placing([*books.ending(Kind.SPOT, number), *books.ending(Kind.HP, number)], stops)
        for waiting in _largest_first(chosen):
            self._try(plan, placing, waiting, number, now)
        if left := self._hopeful(Kind.HP, number, beside_hp=True):
            spot = [run for run in books.ending(Kind.SPOT, number) if run.start < now]
            placing = self._placing(spot, Counter(like(run.task) for run in spot))
            for waiting in _largest_first(_all_in(left)):
                self._try(plan, placing, waiting, number, now)

    def _serve_spot(
        self, plan: Plan, chosen: list[Waiting], stops: dict[Like, int], number: int, now: float
    ) -> None:
        """Cards for the chosen spot tasks."""
        ending = self._books.ending(Kind.SPOT, number)
        kept = [run for run in ending if run.start < now]  # not those that were moved for HP
        stopped = Counter(like(eviction.run.task) for eviction in plan.evictions)
        left = {alike: count - stopped[alike] for alike, count in stops.items() if count > stopped[alike]}
        placing = self._placing(kept, left)
        for waiting in _largest_first(chosen):
            self._try(plan, placing, waiting, number, now)

    def _backfill(self, plan: Plan, number: int, now: float) -> None:
        """What is idle all the same goes to whoever fits, HP first, longest wait first."""
        stopped = {eviction.run.task.index for eviction in plan.evictions}
        placing = self._placing((), {})
        for kind in Kind:
            heads = [(*_next(queue, stopped), queue) for queue in self._books.queues(kind)]
            heads = sorted((since, index, queue) for since, index, queue in heads if index >= 0)
            failed: list[Task] = []
            while heads:
                _, index, queue = heappop(heads)
                if any(_as_large(queue.task, other) for other in failed):
                    continue
                if not self._try(plan, placing, queue.waiting[index], number, now):
                    failed.append(queue.task)
                    continue
                since, index = _next(queue, stopped)
                if index >= 0:
                    heappush(heads, (since, index, queue))

    def _try(self, plan: Plan, placing: Placing, waiting: Waiting, number: int, now: float) -> bool:
        """Start a task if it finds its cards within the quota."""
        task = waiting.task
        places = placing.place(task, self._within_quota)
        if places is None:
            return False
        self._carry_out(plan, placing, number, now)
        self._books.unqueue(waiting)
        self._start(plan, waiting, places, number, now)
        return True

    def _within_quota(self, task: Task) -> bool:
        hours = task.guarantee_hours
        return not task.kind or self.pool.spot_held(hours) + task.micro <= self.quota.limit(hours) * MICRO

    # -- acting on a decision ----------------------------------------------------------------------

    def _start(self, plan: Plan, waiting: Waiting, places: list[Place], number: int, now: float) -> None:
        task = waiting.task
        overhead = self._resume_overhead if waiting.number > 1 else 0.0
        run = Run(task, waiting.number, places, now, overhead, self._reasons.pop(task.index, None))
        self._books.open(run, number)
        if task.kind:
            self.ledger.started(run, now)
        plan.starts.append(run)

    def _carry_out(self, plan: Plan, placing: Placing, number: int, now: float) -> None:
        """Suspend what had to make room; what was moved begins anew in its other place."""
        for run in placing.stopped:
            self._books.queue(self._suspend(plan, run, now))
        for run, places in placing.moved.items():
            self._start(plan, self._suspend(plan, run, now), places, number, now)
        placing.stopped.clear()
        placing.moved.clear()

    def _suspend(self, plan: Plan, run: Run, now: float) -> Waiting:
        if run.task.kind:
            self.ledger.broken(run, now)
        run.alive = False
        self._books.expire(run)
        plan.evictions.append(Eviction(run, LeaseEnd(), keeps_progress=True))
        return Waiting(run.task, run.number + 1, now)

    # -- who gets the next leases ------------------------------------------------------------------

    def _hopeful(self, kind: Kind, number: int, *, beside_hp: bool = False) -> list[Queue]:
        """Queues of a class whose tasks fit if all leases that could make way for them did, or all of spot."""
        slots = self._slots_for(Kind.SPOT if beside_hp else kind, number)
        found = []
        for queue in self._books.queues(kind):
            task = queue.task
            if kind and task.gpus > self.quota.limit(task.guarantee_hours):
                continue
            if not task.cards or slots(task.cards) >= task.pods:
                found.append(queue)
        return found

    def _slots_for(self, kind: Kind, number: int) -> Callable[[int], int]:
        """Cards per pod -> pods that fit beside the leases that a class cannot end."""
        pool, books = self.pool, self._books
        ending = books.ending(Kind.HP, number) if kind is Kind.HP else {}
        if not ending:
            return cache(pool.hp_slots)
        free = [node.hp_free for node in pool.nodes]
        for run in ending:
            for node, _, cards in run.places:
                free[node.index] += cards
        levels = Counter(free)
        return cache(lambda size: sum(count * (level // size) for level, count in levels.items()))

    def _fits_as_it_is(self, queues: list[Queue]) -> bool:
        """Whether there is room on idle cards and in the quota for all of them."""
        if not _fit(queues, self.pool.idle_slots):
            return False
        if sum(queue.gpus for queue in queues) > self.pool.idle + self._parts():
            return False
        spot = [queue for queue in queues if queue.task.kind]
        return all(
            self.pool.spot_held(hours) / MICRO + sum(q.gpus for q in spot if q.task.guarantee_hours >= hours)
            <= self.quota.limit(hours)
            for hours in {queue.task.guarantee_hours for queue in spot}
        )

    def _choose_hp(self, queues: list[Queue], number: int, now: float) -> tuple[list[Waiting], dict[Like, int]]:
        """HP tasks that get a lease, and how many running ones of each likeness lose theirs."""
        room = Room(self._slots_for(Kind.SPOT, number), self._parts(), {})
        if _fit(queues, room.slots):
            return _all_in(queues), {}
        room = room._replace(slots=self._slots_for(Kind.HP, number))
        return self._choose(Kind.HP, queues, self._books.ending(Kind.HP, number), room, now)

    def _choose_spot(
        self,
        queues: list[Queue],
        hp: list[Waiting],
        hp_stops: dict[Like, int],
        number: int,
        now: float,
    ) -> tuple[list[Waiting], dict[Like, int]]:
        """Spot tasks that get a lease in what HP leaves, and how many running ones lose theirs."""
        slots = self._slots_for(Kind.SPOT, number)

        def left(size: int) -> int:
            used = sum(w.task.pods * (w.task.cards // size) for w in hp)
            back = sum(count * key.pods * int(key.gpus_per_pod // size) for key, count in hp_stops.items())
            return max(0, slots(size) + back - used)

        running = self._books.ending(Kind.SPOT, number)
        quota = {}
        for hours in {*(queue.task.guarantee_hours for queue in queues), *self.pool.spot_in_use}:
            quota[hours] = max(self.quota.limit(hours), self.pool.spot_held(hours) / MICRO)
        return self._choose(Kind.SPOT, queues, running, Room(left, self._parts(), quota), now)

    def _choose(
        self, kind: Kind, queues: list[Queue], running: Iterable[Run], room: Room, now: float
    ) -> tuple[list[Waiting], dict[Like, int]]:
        resume = self._resume_overhead / self._lease[kind]
        holders: dict[Like, list[Run]] = {}
        for run in running:
            holders.setdefault(like(run.task), []).append(run)
        groups = [Group(runs[0].task, len(runs), runs[0].task.gpus * (1 + resume)) for runs in holders.values()]
        waiting: list[list[Waiting]] = []
        gpus = room.slots(1) + room.parts
        for queue in queues:
            # Longest wait first and worth most, so no more than fit can be chosen.
            some = islice(queue.waiting.values(), floor(gpus / queue.task.gpus))
            for rounds, alike in groupby(some, key=lambda w: self._rounds_waited(w, now)):
                waiting.append(tasks := list(alike))
                worth = 1 - resume * (tasks[0].number > 1) + min(rounds * self._round / self._patience, 1.0)
                groups.append(Group(queue.task, len(tasks), queue.task.gpus * worth))
        if not groups:
            return [], {}
        selection = select(groups, room, self._solver_seconds)
        self._note(selection)
        counts = iter(selection.counts)
        stops = {key: len(runs) - next(counts) for key, runs in holders.items()}
        return [w for tasks in waiting for w in tasks[: next(counts)]], stops

    def _rounds_waited(self, waiting: Waiting, now: float) -> int:
        return min(floor((now - waiting.since) / self._round), ceil(self._patience / self._round))

    def _parts(self) -> float:
        """GPUs in the free parts of divided cards."""
        shares = (used for node in self.pool.divided for used in node.shares.values())
        return sum(MICRO - hp - spot for hp, spot in shares) / MICRO

    def _note(self, selection: Selection) -> None:
        if selection.effort is not Effort.NONE:
            self._solves += 1
            self._stopped += selection.effort is Effort.OUT_OF_TIME
            self._worst_gap = max(self._worst_gap, selection.gap)

    @property
    def solver(self) -> SolverFigures:
        """How the programs went so far."""
        return SolverFigures(self._solves, self._stopped, self._worst_gap)

    # -- why tasks wait ----------------------------------------------------------------------------

    def _explain(self, arrived: Sequence[Task], plan: Plan) -> None:
        """Note a reason for everything that this round has left without a lease."""
        left = [*arrived, *(eviction.run.task for eviction in plan.evictions)]
        started = {run.task.index for run in plan.starts}
        for task in left:
            if task.index not in started:
                self._reasons[task.index] = self._no_lease(task)

    def _no_lease(self, task: Task) -> NoLease:
        asked = sum(queue.gpus for queue in self._books.queues(task.kind))
        return NoLease(task, self.pool.idle + self._parts(), asked)

    def waiting(self) -> Iterator[tuple[Task, Reason]]:
        """Everything that waits and why, HP first."""
        for kind in Kind:
            for waiting in _all_in(self._books.queues(kind)):
                yield waiting.task, self._no_lease(waiting.task)

    def quota_rows(self) -> Sequence[QuotaRow]:
        """The spot quota as it stands."""
        return self.quota.rows()


def _largest_first(waiting: Iterable[Waiting]) -> list[Waiting]:
    return sorted(waiting, key=lambda w: (-w.task.gpus_per_pod, -w.task.pods, w.since, w.task.index))


def _fit(queues: list[Queue], slots: Callable[[int], int]) -> bool:
    """Whether all pods of whole cards fit, as far as sizes that divide each other can tell."""
    whole = [(queue.task.cards, queue.task.pods * len(queue.waiting)) for queue in queues if queue.task.cards]
    return all(
        sum(pods * (cards // size) for cards, pods in whole) <= slots(size)
        for size in {cards for cards, _ in whole}
    )


def _all_in(queues: Iterable[Queue]) -> list[Waiting]:
    return [waiting for queue in queues for waiting in queue.waiting.values()]


def _next(queue: Queue, stopped: set[int]) -> tuple[float, int]:
    """Since when the first task of a queue waits that was not stopped just now, and its index; (0, -1): none."""
    return next(((w.since, index) for index, w in queue.waiting.items() if index not in stopped), (0.0, -1))


def _as_large(task: Task, other: Task) -> bool:
    """Whether a task wants at least as much as another one that found no room or quota."""
    return (
        task.kind == other.kind
        and task.gpus_per_pod >= other.gpus_per_pod
        and task.pods >= other.pods
        and task.guarantee_hours == other.guarantee_hours
    )
