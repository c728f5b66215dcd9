"""From a set of tasks to cards: local search with few suspended and few moved tasks (Chronus).

A task goes where it fits best on idle cards. Where it does not fit, leases that end now and need not be
renewed make room, on the node where the fewest GPUs stop. If that does not do either, tasks that were renewed
are moved to other nodes, as few as possible: their leases end now as well, but moving costs what resuming
costs. All of it is undone if a gang cannot be placed whole, and a lease that is in nobody's way goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import nsmallest
from math import inf
from operator import itemgetter
from typing import Generic, TypeVar

from gfs.core.node import Node, Place
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.core.trial import Trial
from gfs.domain.task import Task
from gfs.policies.chronus.leases import LeaseTable
from gfs.policies.chronus.program import TaskShape

MOST_TRIES = 8
"""Nodes that are tried for moving tasks away before a task has to wait."""

StopOption = tuple[float, int, list[Run]]
"""GPUs that would stop for one more pod on a node, the node's position, and the runs."""
MoveOption = tuple[int, float, int, list[Run]]
"""Runs that would move, their GPUs, the node's position, and the runs."""
Option = TypeVar("Option")


class EndingLeases:
    """Runs whose leases end now: how many of each shape may stop; the others may be moved."""

    def __init__(self, ending: Mapping[Run, TaskShape], stops: Mapping[TaskShape, int]) -> None:
        self._shape = ending
        self._stops = {shape: count for shape, count in stops.items() if count}
        self._spreads: dict[TaskShape, tuple[int, set[Node]]] = {}
        self._scarce: set[Node] = set()
        self.hp = any(not shape.priority for shape in set(ending.values()))
        """Whether HP leases are among them."""

    def __contains__(self, run: Run) -> bool:
        return run in self._shape

    def __bool__(self) -> bool:
        return bool(self._shape)

    def stoppable(self, runs: Iterable[Run]) -> list[Run]:
        """Of these runs, in order, those that may all stop now."""
        taken: dict[TaskShape, int] = {}
        found = []
        for run in runs:
            shape = self._shape.get(run)
            if shape is None:
                continue
            most = self._stops.get(shape, 0)
            if most and (used := taken.get(shape, 0)) < most:
                taken[shape] = used + 1
                found.append(run)
        return found

    def counted_for(self, hours: float) -> list[Run]:
        """Runs that may stop and count against the spot quota of this guarantee, fewest GPUs first."""
        found = (
            run
            for run, shape in self._shape.items()
            if run.alive and shape.priority and shape.guarantee_hours >= hours and self._stops.get(shape, 0)
        )
        return sorted(found, key=lambda run: (run.task.gpus, run.task.index))

    @property
    def any_stop(self) -> bool:
        """Whether a run may stop."""
        return bool(self._stops)

    def change(self, run: Run, by: int) -> None:
        """A run was stopped (-1) or brought back (+1)."""
        shape = self._shape[run]
        self._stops[shape] = left = self._stops.get(shape, 0) + by
        most, nodes = self._spread(shape)
        if min(left, left - by) < most:
            self._scarce |= nodes
        if not left:
            del self._stops[shape]

    def _spread(self, shape: TaskShape) -> tuple[int, set[Node]]:
        """The most runs of a shape on one node, and the nodes that have any."""
        known = self._spreads.get(shape)
        if known is None:
            counts = Counter(node for run, other in self._shape.items() if other == shape for node in run.nodes)
            known = self._spreads[shape] = max(counts.values()), set(counts)
        return known

    def scarce(self) -> set[Node]:
        """Nodes on which other runs may stop than when this was last asked, because the number of stops is limited."""
        scarce, self._scarce = self._scarce, set()
        return scarce


class RoomOptions(Generic[Option]):
    """What it would take to make room for one more pod, node by node; looked at again only where something changed."""

    def __init__(
        self, pool: Pool, changed: Callable[[], set[Node]], look: Callable[[Node, Task], Option | None]
    ) -> None:
        """`changed` gives the nodes that have changed since it was last asked."""
        self._pool = pool
        self._changed = changed
        self._look = look
        self._size: tuple[int, int] | None = None
        """The cards, or micro-cards of one, of the pods that the options are for."""
        self._options: dict[int, Option] = {}

    def find(self, task: Task, also: Iterable[Node] = ()) -> Collection[Option]:
        """The options for a pod of this task; `also` are nodes to look at again besides those that changed."""
        stale: Iterable[Node] = {*self._changed(), *also}
        size = (task.cards, task.share) if self._pool.plain(task) else None
        if size is None or size != self._size:
            self._size, self._options, stale = size, {}, self._pool.nodes
        for node in stale:
            option = self._look(node, task)
            if option is not None:
                self._options[node.index] = option
            else:
                self._options.pop(node.index, None)
        return self._options.values()


class RoundPlacement:
    """One round's placements. What it has stopped is off its cards, what it has placed is on them."""

    def __init__(
        self,
        trial: Trial,
        leases: LeaseTable,
        choose: Callable[[Task], Node | None],
        ending: EndingLeases,
        changed: tuple[Callable[[], set[Node]], Callable[[], set[Node]]],
    ) -> None:
        """`changed`: two that give the nodes that have changed since they were last asked."""
        self.stopped: dict[Run, None] = {}
        """Runs suspended to make room."""
        self.moved: dict[Run, list[Place]] = {}
        """Runs that go on elsewhere, and where."""
        self._trial = trial
        self._pool = trial.pool
        self._leases = leases
        self._choose = choose
        self._ending = ending
        self._stops: RoomOptions[StopOption] = RoomOptions(trial.pool, changed[0], self._look_for_stops)
        self._moves: RoomOptions[MoveOption] = RoomOptions(trial.pool, changed[1], self._look_for_moves)

    def place(self, task: Task, over_quota: Callable[[Task], float | None]) -> list[Place] | None:
        """Cards for all pods of the task within the quota, or None with everything as it was."""
        if task.cards and self._most_pods(task.cards) < task.pods:
            return None
        while (hours := over_quota(task)) is not None:
            run = next((run for run in self._ending.counted_for(hours) if run not in self.stopped), None)
            if run is None:
                self._trial.rollback()
                return None
            self._stop(run)
        places = self._fill(
            task, lambda task: self._choose(task) or self._make_room(task) or self._move_away(task, over_quota)
        )
        if places is None:
            self._trial.rollback()
        else:
            self._trial.commit()
        return places

    def _most_pods(self, cards: int) -> float:
        """No more pods of so many cards find room than this, whatever stops or moves."""
        if not self._ending:
            return self._pool.idle_slots(cards)
        return inf if self._ending.hp else self._pool.hp_slots(cards)

    def _fill(self, task: Task, find: Callable[[Task], Node | None]) -> list[Place] | None:
        """Cards for all pods where `find` says; None, with some perhaps placed, where it finds no node."""
        places: list[Place] = []
        while (left := task.pods - _pods(places, task)) > 0:
            node = find(task)
            if node is None:
                return None
            places.append(self._occupy(node, task, left))
        return places

    # -- making room -------------------------------------------------------------------------------

    def _make_room(self, task: Task) -> Node | None:
        """Stop leases that may stop, on the node where that costs the fewest GPUs."""
        if not self._ending.any_stop:
            return None
        options = self._stops.find(task, self._ending.scarce())
        if not options:
            return None
        _, index, runs = min(options, key=itemgetter(0, 1))
        for run in runs:
            self._stop(run)
        return self._pool.nodes[index]

    def _look_for_stops(self, node: Node, task: Task) -> StopOption | None:
        """What would stop on a node for one more pod of the task."""
        if self._never_enough(node, task):
            return None
        runs = self._leaving(node, task, self._ending.stoppable(self._leases.most_cards_first(node)))
        return (sum(run.task.gpus for run in runs), node.index, runs) if runs else None

    def _look_for_moves(self, node: Node, task: Task) -> MoveOption | None:
        """What would move away from a node for one more pod of the task."""
        if self._never_enough(node, task):
            return None
        ending = self._ending
        runs = self._leaving(node, task, [run for run in self._leases.most_cards_first(node) if run in ending])
        return (len(runs), sum(run.task.gpus for run in runs), node.index, runs) if runs else None

    def _never_enough(self, node: Node, task: Task) -> bool:
        """Whether a pod would not fit even if all spot runs left the node, and they alone can: a quick look."""
        if node.shares or self._ending.hp:
            return False
        return node.idle + node.spot_cards < (task.cards or 1)

    def _move_away(self, task: Task, over_quota: Callable[[Task], float | None]) -> Node | None:
        """Move runs whose leases end now to other nodes, as few as possible."""
        if not self._ending:
            return None
        options = self._moves.find(task)
        for _, _, index, runs in nsmallest(MOST_TRIES, options, key=itemgetter(0, 1, 2)):
            node, mark = self._pool.nodes[index], self._trial.mark()
            for run in runs:
                self._take_off(run)
            # One pod takes its cards meanwhile, so that nobody moves back into its way.
            held = self._pool.occupy(node, task)
            settled = all(self._settle(run, over_quota) for run in runs)
            self._pool.release([held], task)
            if settled:
                return node
            self._trial.rollback(mark)
        return None

    def _settle(self, run: Run, over_quota: Callable[[Task], float | None]) -> bool:
        """Find another place for a run that has to move. It starts again there, so the quota must allow it."""
        places = self._fill(run.task, self._choose) if over_quota(run.task) is None else None
        if places is None:
            return False
        self.moved[run] = places
        self._trial.note(lambda: self._forget_move(run))
        return True

    def _leaving(self, node: Node, task: Task, runs: list[Run]) -> list[Run]:
        """Of the given runs those that have to leave the node for one pod; none if that is not enough."""
        if node.shares or not self._pool.plain(task):
            return self._leaving_divided(node, task, runs)
        here = self._leases.here(node)
        missing = (task.cards or 1) - node.idle + node.surplus
        if sum(here[run] for run in runs) < missing:
            return []
        gone: list[Run] = []
        for run in runs:
            if missing <= 0:
                break
            gone.append(run)
            missing -= here[run]
        for run in reversed(gone):
            if here[run] <= -missing:
                gone.remove(run)
                missing += here[run]
        return gone

    def _leaving_divided(self, node: Node, task: Task, runs: list[Run]) -> list[Run]:
        """The same by trying: a divided card is free only when its last holder goes, and more may be short."""
        mark, gone = self._trial.mark(), list[Run]()
        for run in runs:
            if self._fits(node, task):
                break
            self._take_off(run)
            gone.append(run)
        enough = self._fits(node, task)
        self._trial.rollback(mark)
        if not enough:
            return []
        for run in list(gone):  # those with the most cards went first: perhaps the later ones suffice
            rest = [other for other in gone if other is not run]
            if self._would_do(node, task, rest):
                gone = rest
        return gone

    def _would_do(self, node: Node, task: Task, runs: list[Run]) -> bool:
        """Whether a pod fits on the node without these runs."""
        mark = self._trial.mark()
        for run in runs:
            self._take_off(run)
        enough = self._fits(node, task)
        self._trial.rollback(mark)
        return enough

    def _fits(self, node: Node, task: Task) -> bool:
        if not (node.idle >= task.cards if task.cards else node.card_for_share(task.share) is not None):
            return False
        return self._pool.plain(task) or self._pool.fits(node, task)

    # -- changes that can be undone ----------------------------------------------------------------

    def _occupy(self, node: Node, task: Task, left: int) -> Place:
        """Put as many pods on the node as fit and are left."""
        pods = min(left, node.idle // task.cards) if task.cards else 1
        if not self._pool.plain(task):
            pods = self._pool.most_pods(node, task, pods)
        return self._trial.place(node, task, pods)

    def _take_off(self, run: Run) -> None:
        self._trial.evict(run)
        self._leases.leave(run)
        self._trial.note(lambda: self._leases.enter(run))

    def _stop(self, run: Run) -> None:
        self._take_off(run)
        self._ending.change(run, -1)
        self.stopped[run] = None
        self._trial.note(lambda: self._unstop(run))

    def _forget_move(self, run: Run) -> None:
        del self.moved[run]

    def _unstop(self, run: Run) -> None:
        self._ending.change(run, +1)
        del self.stopped[run]


def _pods(places: list[Place], task: Task) -> int:
    return sum(cards for _, _, cards in places) // task.cards if task.cards else len(places)
