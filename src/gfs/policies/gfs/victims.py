"""Spot runs by how much an eviction would waste, cheapest first, without sorting them.

waste = GPUs of the task x time since its last checkpoint grows with time and falls to 0 at each checkpoint,
so no static order of wastes holds. But runs with one checkpoint interval keep their *phase*: where in the interval
their checkpoints fall. Runs stand in lanes, by checkpoint interval and by power of two of their GPUs, each sorted
by phase; walking a lane backwards from 'now' meets them by rising time since the last checkpoint. So the first
ones are at hand however many there are.
"""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from math import inf

from gfs.core.node import Node
from gfs.core.run import Run
from gfs.domain.execution import PROGRESS_EPS

SLACK = 2 * PROGRESS_EPS
"""Seconds: a checkpoint that is due in so little time may count as taken."""

Entry = tuple[float, int, int, Node]
"""Phase of the run, index of its task, index of the node, the node."""


class _Lane:
    """Runs with the same checkpoint interval and GPUs between two powers of two."""

    __slots__ = ("entries", "interval", "least")

    def __init__(self, interval: float, scale: int) -> None:
        self.interval = interval
        self.least = float(1 << (scale - 1)) if scale else 0.0
        self.entries: list[Entry] = []
        """Sorted."""

    def entry(self, run: Run, node: Node) -> Entry:
        return (run.progress_from % self.interval, run.task.index, node.index, node)

    def walk(self, now: float) -> Iterator[tuple[float, Node]]:
        """(least possible waste, node) from run to run, rising."""
        entries, least = self.entries, self.least
        here = (now + SLACK) % self.interval
        position = bisect(entries, (here, inf))
        latest = here - 2 * SLACK
        for i in range(position - 1, -1, -1):
            phase, _, _, node = entries[i]
            yield (least * (latest - phase) if phase < latest else 0.0), node
        latest += self.interval
        for i in range(len(entries) - 1, position - 1, -1):
            phase, _, _, node = entries[i]
            yield (least * (latest - phase) if phase < latest else 0.0), node


class WasteOrder:
    """Spot runs on nodes, to be met in rising order of a lower bound of their waste."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[float, int], _Lane] = {}
        self._runs: dict[Node, tuple[Run, ...]] = {}
        """The runs of each node that are in the order."""
        self._early: dict[tuple[Run, Node], None] = {}
        """Those of them that may still be in restart overhead, and have no place in a lane yet."""
        self._lane_of: dict[tuple[Run, Node], _Lane] = {}
        """The lanes of the others."""

    def put(self, node: Node, runs: tuple[Run, ...]) -> None:
        """From now on these runs of the node are in the order, and no others of it."""
        before = self._runs.get(node, ())
        if runs == before:
            return
        for run in before:
            if run not in runs:
                self._remove(run, node)
        for run in runs:
            if run not in before:
                if run.progress_from > run.start:
                    self._early[run, node] = None
                else:
                    self._enter(run, node)
        if runs:
            self._runs[node] = runs
        else:
            del self._runs[node]

    def reweigh(self, run: Run) -> None:
        """A run that may be in the order has fewer GPUs than before. Nodes that it has left are put by themselves."""
        for node in run.nodes:
            if (run, node) in self._lane_of:
                self._remove(run, node)
                self._enter(run, node)

    def rising(self, now: float) -> Iterator[tuple[float, Node]]:
        """The node of each run, with a bound: this and every later run would waste at least that."""
        for run, node in [pair for pair in self._early if pair[0].progress_from <= now]:
            del self._early[run, node]
            self._enter(run, node)
        for _, node in self._early:
            yield 0.0, node  # in restart overhead there is nothing to lose yet
        heap = []
        for number, lane in enumerate(self._lanes.values()):
            if lane.entries:
                walk = lane.walk(now)
                bound, node = next(walk)
                heap.append((bound, number, node, walk))
        heapify(heap)
        while heap:
            bound, number, node, walk = heap[0]
            yield bound, node
            following = next(walk, None)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (following[0], number, following[1], walk))

    def _enter(self, run: Run, node: Node) -> None:
        lane = self._lane_of[run, node] = self._lane(run)
        insort(lane.entries, lane.entry(run, node))

    def _remove(self, run: Run, node: Node) -> None:
        lane = self._lane_of.pop((run, node), None)
        if lane is None:
            del self._early[run, node]
        else:
            del lane.entries[bisect_left(lane.entries, lane.entry(run, node))]

    def _lane(self, run: Run) -> _Lane:
        task = run.task
        scale = int(task.gpus).bit_length()
        key = (task.checkpoint_interval, scale)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(task.checkpoint_interval, scale)
        return lane
