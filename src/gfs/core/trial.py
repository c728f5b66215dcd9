"""A trial: place and evict as if, see everything that follows from it, then commit or roll back.

A gang never half-starts and nothing is evicted in vain: all of it happens on a trial first. Listeners that
follow the cards are told on the trial, and told back when it is rolled back. A mark allows to undo only what
came after it.
"""

from __future__ import annotations

from collections.abc import Callable

from gfs.core.node import Node, Place
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.task import Role

Undo = Callable[[], None]


class Trial:
    """Changes to a pool that can be undone."""

    __slots__ = ("_log", "evicted", "places", "pods", "pool")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.places: list[Place] = []
        """What has been placed so far."""
        self.pods = 0
        """Pods placed so far."""
        self.evicted: list[Run] = []
        """Runs taken off their cards so far."""
        self._log: list[Place | Run | Undo] = []
        """What was done, in order: pods placed, a run evicted, or how to undo something else."""

    def place(self, node: Node, role: Role, pods: int = 1) -> Place:
        """Puts pods of a role on `node`."""
        place = self.pool.occupy(node, role, pods)
        self.places.append(place)
        self.pods += pods
        self._log.append(place)
        return place

    def placed(self, role: Role) -> int:
        """Returns how many pods of the role have been placed so far."""
        return sum(pods for _, whose, pods, _ in self.places if whose is role)

    def fill(self, role: Role, choose: Callable[[Role], Node | None], *, up: bool = False) -> bool:
        """Places the pods of a role still missing, each where `choose` says, until it finds no node for one.

        `up`: a node once chosen is filled up with the role's pods before `choose` is asked again.
        """
        pool, cards = self.pool, role.cards if up else 0
        plain, occupy, places, log = not role.rules, pool.occupy, self.places, self._log
        missing = left = role.pods - (self.placed(role) if places else 0)
        while left:
            node = choose(role)
            if node is None:
                break
            pods = 1
            if cards:
                pods = node.idle // cards
                if pods > left:
                    pods = left
                if pods > 1 and (node.free or not plain):
                    pods = max(pool.most_pods(node, role, pods), 1)  # `choose` has found room for one
            place = occupy(node, role, pods)
            places.append(place)
            log.append(place)
            left -= pods
        self.pods += missing - left
        return not left

    def evict(self, run: Run) -> None:
        """Take a run off all its nodes: a victim is a whole task."""
        self.pool.lift(run)
        self.evicted.append(run)
        self._log.append(run)

    def spare(self, run: Run) -> None:
        """Let an evicted run stay after all. Its cards must be free still."""
        self.evicted.remove(run)
        self._log.remove(run)
        self.pool.put_back(run)

    def note(self, undo: Undo) -> None:
        """Something else has changed that belongs to the trial; this undoes it."""
        self._log.append(undo)

    def mark(self) -> int:
        """A point that `rollback` can return to."""
        return len(self._log)

    def commit(self) -> list[Place]:
        """Keep everything; hand over what has been placed."""
        places = self.places
        self._clear()
        return places

    def rollback(self, mark: int = 0) -> None:
        """Undo what came after the mark, last things first: every card is where it was."""
        log, pool = self._log, self.pool
        while len(log) > mark:
            done = log.pop()
            if isinstance(done, Run):
                self.evicted.pop()
                pool.put_back(done)
            elif isinstance(done, tuple):
                self.pods -= done[2]
                pool.release((self.places.pop(),))
            else:
                done()

    def _clear(self) -> None:
        self.places = []
        self.pods = 0
        self.evicted = []
        self._log = []
