"""From a set of tasks to cards: local search with few suspended and few moved tasks (Chronus).

A task goes where it fits best on idle cards. Where it does not fit, leases that end now and need not be
renewed make room, on the node where the fewest GPUs stop. If that does not do either, tasks that were renewed
are moved to other nodes, as few as possible: their leases end now as well, but moving costs what resuming
costs. All of it is undone if a gang cannot be placed whole, and a lease that is in nobody's way goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from operator import itemgetter

from gfs.core.node import Node, Place
from gfs.core.run import Run
from gfs.core.trial import Trial
from gfs.domain.task import Task
from gfs.policies.chronus.leases import LeaseTable
from gfs.policies.chronus.program import TaskShape

MOST_TRIES = 8
"""Nodes that are tried for moving tasks away before a task has to wait."""


class EndingLeases:
    """Runs whose leases end now: how many of each shape may stop; the others may be moved."""

    def __init__(
        self, ending: Iterable[Run], stops: Mapping[TaskShape, int], shape_of: Callable[[Task], TaskShape]
    ) -> None:
        self._shape = {run: shape_of(run.task) for run in ending}
        self._stops = {shape: count for shape, count in stops.items() if count}
        self.nodes: dict[Node, list[Run]] = {}
        """Nodes with such runs; those that hold the most cards there first."""
        for run in self._shape:
            for node in run.nodes:
                if not node.closed:
                    self.nodes.setdefault(node, []).append(run)
        for node, runs in self.nodes.items():
            held = {run: _cards_on(run, node) for run in runs}
            runs.sort(key=lambda run: (-held[run], run.task.gpus, run.task.index))
        self._scarce: set[Node] = set()

    def stoppable(self, runs: Iterable[Run]) -> list[Run]:
        """Of these runs, in order, those that may all stop now."""
        taken: dict[TaskShape, int] = {}
        found = []
        for run in runs:
            shape = self._shape[run]
            used = taken.get(shape, 0)
            if used < self._stops.get(shape, 0):
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
    def any(self) -> bool:
        """Whether a run may stop."""
        return bool(self._stops)

    def change(self, run: Run, by: int) -> None:
        """A run was stopped (-1) or brought back (+1)."""
        shape = self._shape[run]
        self._stops[shape] = left = self._stops.get(shape, 0) + by
        most, nodes = self._spread[shape]
        if min(left, left - by) < most:
            self._scarce |= nodes
        if not left:
            del self._stops[shape]

    @cached_property
    def _spread(self) -> dict[TaskShape, tuple[int, set[Node]]]:
        """Shape -> the most runs of it on one node, and the nodes that have any."""
        most: Counter[TaskShape] = Counter()
        nodes: dict[TaskShape, set[Node]] = {shape: set() for shape in self._shape.values()}
        for node, runs in self.nodes.items():
            counts = Counter(self._shape[run] for run in runs)
            most |= counts
            for shape in counts:
                nodes[shape].add(node)
        return {shape: (most[shape], where) for shape, where in nodes.items()}

    def scarce(self) -> set[Node]:
        """Nodes on which other runs may stop than when this was last asked, because the number of stops is limited."""
        scarce, self._scarce = self._scarce, set()
        return scarce


class RoundPlacement:
    """One round's placements. What it has stopped is off its cards, what it has placed is on them."""

    def __init__(
        self,
        trial: Trial,
        leases: LeaseTable,
        choose: Callable[[Task], Node | None],
        ending: EndingLeases,
        changed: Callable[[], set[Node]],
    ) -> None:
        """`changed` gives the nodes that have changed since it was last asked."""
        self.stopped: dict[Run, None] = {}
        """Runs suspended to make room."""
        self.moved: dict[Run, list[Place]] = {}
        """Runs that go on elsewhere, and where."""
        self._trial = trial
        self._pool = trial.pool
        self._leases = leases
        self._choose = choose
        self._ending = ending
        self._changed = changed
        self._size: tuple[int, int] | None = None
        """The cards, or micro-cards of one, of the pods that the options are for."""
        self._options: dict[Node, tuple[float, int, list[Run]]] = {}
        """Node -> GPUs that would stop for one more pod, its position, and the runs."""

    def place(self, task: Task, over_quota: Callable[[Task], float | None]) -> list[Place] | None:
        """Cards for all pods of the task within the quota, or None with everything as it was."""
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
        if not self._ending.any:
            return None
        nodes, stale = self._ending.nodes, self._changed() | self._ending.scarce()
        size = (task.cards, task.share) if self._pool.plain(task) else None
        if size is None or size != self._size:
            self._size, self._options, stale = size, {}, set(nodes)
        for node in stale:
            if node in nodes:
                self._look_at(node, task)
        if not self._options:
            return None
        _, index, runs = min(self._options.values(), key=itemgetter(0, 1))
        for run in runs:
            self._stop(run)
        return self._pool.nodes[index]

    def _look_at(self, node: Node, task: Task) -> None:
        """What would stop on a node for one more pod of the task."""
        here = self._leases.here(node)
        runs = self._leaving(node, task, self._ending.stoppable(run for run in self._ending.nodes[node] if run in here))
        if runs:
            self._options[node] = sum(run.task.gpus for run in runs), node.index, runs
        else:
            self._options.pop(node, None)

    def _move_away(self, task: Task, over_quota: Callable[[Task], float | None]) -> Node | None:
        """Move runs whose leases end now to other nodes, as few as possible."""
        options: list[tuple[int, float, int, list[Run]]] = []
        for node, ending in self._ending.nodes.items():
            here = self._leases.here(node)
            if runs := self._leaving(node, task, [run for run in ending if run in here]):
                options.append((len(runs), sum(run.task.gpus for run in runs), node.index, runs))
        for _, _, index, runs in sorted(options, key=lambda option: option[:3])[:MOST_TRIES]:
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
        missing = (task.cards or 1) - node.idle
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


def _cards_on(run: Run, node: Node) -> int:
    return sum(cards for where, _, cards in run.places if where is node)
