"""Who hears what happens in a pool: one list of listeners.

A part that keeps an index, learns from what happens or counts it is a `Listener` and joins by
`state.listen(part)`. It overrides what it wants to hear; what it does not override costs nothing. Listeners are
dropped when nodes change: then everything derived is rebuilt, and joins again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gfs.core.run import End, Run
from gfs.domain.task import Task

if TYPE_CHECKING:
    from gfs.core.node import Node


class Listener:
    """Base of all parts that hear what happens. The first three are told on a trial too, and told back."""

    __slots__ = ()

    def node_changed(self, node: Node) -> None:
        """What is held on a node has changed."""

    def spot_held(self, run: Run) -> None:
        """A spot run now holds its cards."""

    def spot_released(self, run: Run) -> None:
        """A spot run no longer holds its cards."""

    def submitted(self, task: Task, now: float) -> None:
        """A task has come; the pass that serves it comes next."""

    def started(self, run: Run, now: float) -> None:
        """A run has its cards."""

    def finished(self, run: Run, now: float) -> None:
        """A run is done; its cards are given back next."""

    def ended(self, run: Run, end: End, now: float) -> None:
        """A run is over without being done: evicted, lost, cancelled, or its start failed."""

    def shrunk(self, run: Run, before: Task, now: float) -> None:
        """Some pods of a run have ended: it goes on with a smaller task, and has given back their cards."""

    def withdrawn(self, task: Task, now: float) -> None:
        """A task that waited has been cancelled."""

    def evictions_changed(self, node: Node) -> None:
        """The number of recent evictions on a node has changed."""

    def passed(self, now: float) -> None:
        """A scheduling pass is over."""

    def dropped(self) -> None:
        """Nodes have changed and everything derived is rebuilt: what this part keeps is out of date."""


NOTIFICATIONS = tuple(name for name in vars(Listener) if not name.startswith("_"))


class Listeners:
    """For each notification, whom to call. The lists stay the same objects, so that callers may keep them."""

    __slots__ = (*NOTIFICATIONS, "_feeds", "_members", "changed")

    node_changed: list[Callable[[Node], None]]
    spot_held: list[Callable[[Run], None]]
    spot_released: list[Callable[[Run], None]]
    submitted: list[Callable[[Task, float], None]]
    started: list[Callable[[Run, float], None]]
    finished: list[Callable[[Run, float], None]]
    ended: list[Callable[[Run, End, float], None]]
    shrunk: list[Callable[[Run, Task, float], None]]
    withdrawn: list[Callable[[Task, float], None]]
    evictions_changed: list[Callable[[Node], None]]
    passed: list[Callable[[float], None]]
    dropped: list[Callable[[], None]]

    def __init__(self) -> None:
        for name in NOTIFICATIONS:
            setattr(self, name, [])
        self.changed: set[Node] = set()
        """Nodes that have changed and that no feed has taken yet."""
        self._feeds: list[set[Node]] = []
        self._members: set[Listener] = set()

    def add(self, listener: Listener) -> None:
        """From now on it hears what it has a method of its own for, once however often it joins."""
        if listener in self._members:
            return
        self._members.add(listener)
        for name in NOTIFICATIONS:
            heard = getattr(listener, name)
            if getattr(heard, "__func__", None) is getattr(Listener, name):
                continue
            getattr(self, name).append(heard)

    def feed(self) -> Callable[[], set[Node]]:
        """For a part that looks at changed nodes only now and then: gives those since it last asked."""
        mine: set[Node] = set()
        self._feeds.append(mine)

        def take() -> set[Node]:
            if self.changed:
                for each in self._feeds:
                    each |= self.changed
                self.changed.clear()
            taken = mine.copy()
            mine.clear()
            return taken

        return take

    def clear(self) -> None:
        """Nobody listens any more; who wants to know is told."""
        for tell in self.dropped:
            tell()
        for name in NOTIFICATIONS:
            getattr(self, name).clear()
        self._feeds.clear()
        self._members.clear()
        self.changed.clear()
