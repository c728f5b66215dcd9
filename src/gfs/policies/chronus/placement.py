"""From a set of tasks to GPUs: best fit, and leases that may end make room where the fewest GPUs stop (Chronus).

A task goes where it fits best on idle GPUs. Where a pod fits nowhere, leases that end now and need not be renewed stop,
on the node where that costs the fewest GPUs, those of HP tasks first. All of it is undone if a gang cannot be placed
whole, and a lease that is in nobody's way goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from operator import itemgetter

from gfs.core.node import Node
from gfs.core.run import Run
from gfs.core.trial import Trial
from gfs.domain.task import Priority, Role, Task
from gfs.policies.chronus.program import LeaseShape
from gfs.policies.domains import options_of, tightest_first


class RoundPlacement:
    """Finds room for one task after the other in a round."""

    def __init__(
        self,
        trial: Trial,
        choose: Callable[[Role], Node | None],
        over_quota: Callable[[Task], float | None],
        ending: Mapping[Run, LeaseShape],
    ) -> None:
        """`choose` gives the node where a pod fits best on idle GPUs; `ending`: runs whose leases end now."""
        self.stops: Counter[LeaseShape] = Counter()
        """How many runs of each shape may stop."""
        self._trial = trial
        self._pool = trial.pool
        self._choose = choose
        self._over_quota = over_quota
        self._ending = ending
        self._here: dict[Node, list[Run]] = {}
        """Node -> runs there whose leases end."""
        for run in ending:
            for node in run.nodes:
                if not node.closed:
                    self._here.setdefault(node, []).append(run)

    def place(self, task: Task) -> bool:
        """Places all pods of the task on the trial, within the quota; if that fails, everything is as it was.

        Domains with idle room come first: there no lease stops.
        """
        options = list(options_of(self._pool, task).values())
        if len(options) > 1:
            options = [*tightest_first(self._pool, options), *options]
        return any(self._place(task, roles) for roles in options)

    def _place(self, task: Task, roles: Sequence[Role]) -> bool:
        may_stop = [shape for shape, count in self.stops.items() if count]
        only_spot = all(shape.priority is Priority.SPOT for shape in may_stop)
        slots = self._pool.slots
        if only_spot and any(slots(role, without_spot=bool(may_stop)) < role.pods for role in roles):
            return False
        placed = self._meet_quota(task) and all(
            self._trial.fill(role, lambda each: self._choose(each) or self._make_room(each), up=True) for role in roles
        )
        if not placed:
            self._trial.rollback()
        return placed

    def _meet_quota(self, task: Task) -> bool:
        """Stop leases, smallest tasks first, until the quota allows the task."""
        while (hours := self._over_quota(task)) is not None:
            spot = [run for run in self._stoppable(self._ending) if run.task.is_spot]
            counted = [run for run in spot if run.task.guarantee_hours >= hours]
            if not counted:
                return False
            self._stop(min(counted, key=lambda run: (run.task.gpus, run.task.index)))
        return True

    def _make_room(self, role: Role) -> Node | None:
        """Stop leases on the node where that costs the fewest GPUs, ties by most idle GPUs, then node id."""
        best: tuple[tuple[float, float], Node | None, list[Run]] = (inf, inf), None, []
        for node in sorted(self._here, key=lambda node: (-node.idle, node.index)):
            if best[0] <= (0, role.cards - node.idle):
                break  # at least so many GPUs stop here and on all further nodes
            if runs := self._leaving(node, role):
                hp = sum(run.task.gpus for run in runs if not run.task.is_spot)
                best = min(best, ((hp, sum(run.task.gpus for run in runs)), node, runs), key=itemgetter(0))
        for run in best[2]:
            self._stop(run)
        return best[1]

    def _stoppable(self, runs: Iterable[Run]) -> list[Run]:
        """Of these runs, in order, those that may all stop now."""
        found, taken = list[Run](), dict[LeaseShape, int]()
        for run in runs:
            shape = self._ending[run]
            used = taken.get(shape, 0)
            if used < self.stops[shape] and run.alive and run not in self._trial.evicted:
                taken[shape] = used + 1
                found.append(run)
        return found

    def _stop(self, run: Run) -> None:
        self._trial.evict(run)
        self.stops[self._ending[run]] -= 1
        self._trial.note(lambda: self.stops.update((self._ending[run],)))

    def _leaving(self, node: Node, role: Role) -> list[Run]:
        """The runs that have to leave the node for one more pod; none if it does not fit without them either."""
        runs, trial = self._stoppable(self._here[node]), self._trial
        if node.idle + len(node.shares) + sum(_held(run, node) for run in runs) < role.cards:
            return []
        mark, gone = trial.mark(), list[Run]()
        for run in sorted(runs, key=lambda run: (-_held(run, node), run.task.gpus, run.task.index)):
            if self._pool.fits(node, role):
                break
            trial.evict(run)
            gone.append(run)
        if not self._pool.fits(node, role):
            gone.clear()
        for run in gone[:-1]:  # those with the most GPUs went first: perhaps the later ones suffice
            trial.spare(run)
            if self._pool.fits(node, role):
                gone.remove(run)
            else:
                trial.evict(run)
        trial.rollback(mark)
        return gone


def _held(run: Run, node: Node) -> int:
    """Whole GPUs that a run holds on a node."""
    return sum(pods * role.cards for where, role, pods, _ in run.places if where is node)
