"""Who holds the next leases: HP first, then spot in what HP leaves (Chronus, docs/schedulers/chronus.md).

A lease's worth, per GPU: 1 for the work of the next lease; for a running task the cost of resuming it later, as a
share of a lease, on top; for a suspended one that cost less; for a waiting one how long it has waited, up to 1
more after `lease_aging`. Waiting counts from when the task was last queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import groupby, islice
from math import floor

from gfs.core.admission import SpotAdmission
from gfs.core.pool import Pool
from gfs.core.ports import Quota, SolverFigures
from gfs.core.run import Run, Waiting
from gfs.domain.task import Priority
from gfs.domain.units import MICRO
from gfs.policies.chronus.leases import LeaseMemory, LeaseQueue, LeaseTable
from gfs.policies.chronus.program import Capacity, Effort, Selection, TaskGroup, TaskShape, select

LEAST_WORTH = 0.01
"""Of a GPU in use, even where resuming takes longer than a lease."""


class LeaseSelector:
    """The programs of one pool, and how they went."""

    def __init__(
        self,
        pool: Pool,
        leases: LeaseTable,
        memory: LeaseMemory,
        quota: Quota,
        *,
        resume: tuple[float, ...],
        aging: int,
        round_length: float,
        seconds: float,
    ) -> None:
        """`resume`: what resuming costs, as a share of a lease of each class; `aging` in rounds."""
        self._pool = pool
        self._leases = leases
        self._memory = memory
        self._quota = quota
        self._admission = SpotAdmission(pool, quota)
        self._resume = resume
        self._aging = aging
        self._round = round_length
        self._seconds = seconds

    def candidate_queues(
        self, priority: Priority, number: int, now: float, *, beside_hp: bool = False
    ) -> list[LeaseQueue]:
        """Queues of a class whose tasks fit if all leases that could make way for them did, or all of spot."""
        queues = self._leases.queues(priority)
        if not queues:
            return []
        slots = self._slots_for(Priority.SPOT if beside_hp else priority, number, now)
        found = []
        for queue in queues:
            task = queue.task
            if priority and any(
                task.gpus > self._quota.limit(h) for h in self._admission.counted(task.guarantee_hours)
            ):
                continue
            if not task.cards or slots(task.cards) >= task.pods:
                found.append(queue)
        return found

    def _slots_for(self, priority: Priority, number: int, now: float) -> Callable[[int], int]:
        """Cards per pod -> pods that fit beside the leases that a class cannot end."""
        pool, leases = self._pool, self._leases
        ending = leases.ending(Priority.HP, number, now) if priority is Priority.HP else {}
        if not ending:
            return cache(pool.hp_slots)
        free = [node.hp_free - node.hp_surplus for node in pool.nodes]
        for run in ending:
            for node, _, cards in run.places:
                if not node.closed:
                    free[node.index] += cards
        levels = Counter(free)
        return cache(lambda size: sum(count * (level // size) for level, count in levels.items() if level > 0))

    def fit_on_idle_cards(self, queues: list[LeaseQueue]) -> bool:
        """Whether there is room on idle cards and in the quota for all of them."""
        if not _fit(queues, self._pool.idle_slots):
            return False
        if sum(queue.gpus for queue in queues) > self._pool.idle + self.parts():
            return False
        spot = [queue for queue in queues if queue.task.priority]
        return all(
            self._pool.spot_held(hours) / MICRO + sum(q.gpus for q in spot if q.task.guarantee_hours >= hours)
            <= self._quota.limit(hours)
            for hours in {hours for queue in spot for hours in self._admission.counted(queue.task.guarantee_hours)}
        )

    def choose_hp(
        self, queues: list[LeaseQueue], number: int, now: float
    ) -> tuple[list[Waiting], dict[TaskShape, int]]:
        """HP tasks that get a lease, and how many running ones of each shape lose theirs."""
        room = Capacity(self._slots_for(Priority.SPOT, number, now), self._parts_beside_hp(), {})
        if _fit(queues, room.slots) and sum(queue.gpus for queue in queues) <= room.slots(1) + room.parts:
            return tasks_of(queues), {}
        ending = self._leases.ending(Priority.HP, number, now)
        shares = sum(run.task.gpus for run in ending if not run.task.cards)
        room = Capacity(self._slots_for(Priority.HP, number, now), room.parts + shares, {})
        return self._choose(Priority.HP, queues, ending, room, now)

    def choose_spot(
        self, queues: list[LeaseQueue], hp: list[Waiting], hp_stops: dict[TaskShape, int], number: int, now: float
    ) -> tuple[list[Waiting], dict[TaskShape, int]]:
        """Spot tasks that get a lease in what HP leaves, and how many running ones lose theirs."""
        slots = self._slots_for(Priority.SPOT, number, now)

        def left(size: int) -> int:
            used = sum(w.task.pods * (w.task.cards // size) for w in hp)
            back = sum(count * key.pods * int(key.gpus_per_pod // size) for key, count in hp_stops.items())
            return max(0, slots(size) + back - used)

        running = self._leases.ending(Priority.SPOT, number, now)
        quota = {}
        for hours in {
            *(queue.task.guarantee_hours for queue in queues),
            *self._pool.spot_in_use,
            *self._quota.horizons,
        }:
            quota[hours] = max(self._quota.limit(hours), self._pool.spot_held(hours) / MICRO)
        back = sum(count * key.pods * key.gpus_per_pod for key, count in hp_stops.items() if key.gpus_per_pod < 1)
        parts = self._parts_beside_hp() + back - sum(w.task.gpus for w in hp if not w.task.cards)
        return self._choose(Priority.SPOT, queues, running, Capacity(left, parts, quota), now)

    def _choose(
        self,
        priority: Priority,
        queues: list[LeaseQueue],
        running: Mapping[Run, TaskShape],
        room: Capacity,
        now: float,
    ) -> tuple[list[Waiting], dict[TaskShape, int]]:
        resume = self._resume[priority]
        holders = Counter(running.values())
        one_of = {shape: run.task for run, shape in running.items()}
        groups = [TaskGroup(one_of[shape], runs, one_of[shape].gpus * (1 + resume)) for shape, runs in holders.items()]
        waiting: list[list[Waiting]] = []
        gpus = max(0.0, room.slots(1) + room.parts)
        for queue in queues:
            # Longest wait first and worth most, so no more than fit can be chosen.
            some = islice(queue.waiting.values(), floor(gpus / queue.task.gpus))
            for rounds, alike in groupby(some, key=lambda w: self._rounds_waited(w, now)):
                waiting.append(tasks := list(alike))
                worth = max(1 - resume * (tasks[0].number > 1), LEAST_WORTH) + rounds / self._aging
                groups.append(TaskGroup(queue.task, len(tasks), queue.task.gpus * worth))
        if not groups:
            return [], {}
        selection = select(groups, room, self._seconds)
        self._note(selection)
        counts = iter(selection.counts)
        stops = {shape: runs - next(counts) for shape, runs in holders.items()}
        return [w for tasks in waiting for w in tasks[: next(counts)]], stops

    def _rounds_waited(self, waiting: Waiting, now: float) -> int:
        return min(floor((now - waiting.since) / self._round), self._aging)

    def parts(self) -> float:
        """GPUs in the free parts of divided cards."""
        shares = (used for node in self._pool.divided for used in node.parts())
        return sum(MICRO - hp - spot for hp, spot in shares) / MICRO

    def _parts_beside_hp(self) -> float:
        """GPUs in the parts of divided cards that HP leaves: every spot lease ends now."""
        shares = (used for node in self._pool.divided for used in node.parts())
        return sum(MICRO - hp for hp, _ in shares if hp) / MICRO

    def _note(self, selection: Selection) -> None:
        if selection.effort is not Effort.NONE:
            memory = self._memory
            memory.solves += 1
            memory.stopped += selection.effort is Effort.OUT_OF_TIME
            memory.worst_gap = max(memory.worst_gap, selection.gap)

    @property
    def solver(self) -> SolverFigures:
        """How the programs went so far."""
        return SolverFigures(self._memory.solves, self._memory.stopped, self._memory.worst_gap)


def _fit(queues: list[LeaseQueue], slots: Callable[[int], int]) -> bool:
    """Whether all pods of whole cards fit, as far as sizes that divide each other can tell."""
    whole = [(queue.task.cards, queue.task.pods * len(queue.waiting)) for queue in queues if queue.task.cards]
    return all(
        sum(pods * (cards // size) for cards, pods in whole) <= slots(size) for size in {cards for cards, _ in whole}
    )


def tasks_of(queues: Iterable[LeaseQueue]) -> list[Waiting]:
    """The tasks of some queues."""
    return [waiting for queue in queues for waiting in queue.waiting.values()]
