"""The spot runs of a pool as NumPy arrays: one row a node, one cell for each spot run there.

A search for victims looks at all nodes at once. Rows are brought up to date when a search begins, those of nodes that
have changed since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from gfs.core.listeners import Listener
from gfs.core.node import GPUS, Node
from gfs.core.pool import Pool
from gfs.core.run import Run, held_on
from gfs.domain.execution import PROGRESS_EPS

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

NOBODY = 0
"""The number that stands in cells without a run."""


class SpotTable(Listener):
    """What each spot run holds on each node, and what an eviction would waste."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._changed = pool.listeners.feed()
        self._numbers: dict[Run, int] = {}
        self._unused: list[int] = []
        self.runs: list[Run | None] = [None]
        """Number -> run."""
        self._facts = np.zeros((1, 5))
        """Number -> GPUs and checkpoint interval of the task, when progress begins, number of the run, priority."""
        self.names = [GPUS, *sorted({name for node in pool.nodes for name in node.free})]
        """What is counted: whole GPUs, and what some node limits."""
        size = len(pool.nodes)
        self.cells: Counts = np.zeros((size, 1), dtype=np.int64)
        """Node, cell -> number of the run there, or `NOBODY`."""
        self.held: dict[str, Floats] = {name: np.zeros((size, 1)) for name in self.names}
        """Node, cell -> what the run holds there."""
        self.most_held: dict[str, Floats] = {name: np.zeros((size, 1)) for name in self.names}
        """Node, k -> what the k + 1 runs that hold most of it hold together."""
        self._look_at(node for node in pool.nodes if node.spot)
        pool.listeners.add(self)

    def spot_released(self, run: Run) -> None:
        """Its number is free for another run once no cell has it any more."""
        number = self._numbers.pop(run, None)
        if number is not None:
            self._unused.append(number)

    def refresh(self) -> None:
        """Looks again at the nodes that have changed since the last time."""
        self._look_at(self._changed())

    def waste(self, now: float) -> Floats:
        """Returns, by number, the GPU-seconds that an eviction at `now` would throw away; infinity for `NOBODY`."""
        gpus, interval, begun, *_ = self._facts.T
        wasted = gpus * all_since_checkpoint(begun, interval, now)
        wasted[NOBODY] = np.inf
        return wasted

    @property
    def gpus(self) -> Floats:
        """By number, the GPUs of its task."""
        return self._facts[:, 0]

    @property
    def run_number(self) -> Floats:
        """By number, which run of its task it is."""
        return self._facts[:, 3]

    @property
    def urgency(self) -> Floats:
        """By number, the priority of its task within the class; infinity for `NOBODY`."""
        urgency = self._facts[:, 4].copy()
        urgency[NOBODY] = np.inf
        return urgency

    def index(self, number: int) -> int:
        """Returns the index of a run's task. A live driver's have a thousand bits, so they are in no array."""
        run = self.runs[number]
        assert run is not None
        return run.task.index

    def number(self, run: Run) -> int:
        """Returns the number of a run that is in the table."""
        return self._numbers[run]

    def _look_at(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            row, width = node.index, self.cells.shape[1]
            if len(node.spot) > width:
                self._widen(2 * len(node.spot))
            self.cells[row] = NOBODY
            for column in (*self.held.values(), *self.most_held.values()):
                column[row] = 0.0
            if not node.spot:
                continue
            numbers = [self._enter(run) for run in node.spot]
            self.cells[row, : len(numbers)] = numbers
            held = [held_on(run, node) for run in node.spot] if node.free or node.shares else []
            for name in self.names:
                amounts = [each.get(name, 0.0) for each in held] or list(node.spot.values())
                if name != GPUS and not held:
                    continue
                self.held[name][row, : len(amounts)] = amounts
                amounts.sort(reverse=True)
                most = self.most_held[name][row]
                most[: len(amounts)] = list(accumulate(amounts))
                most[len(amounts) :] = most[len(amounts) - 1]

    def _enter(self, run: Run) -> int:
        number = self._numbers.get(run)
        task = run.task
        if number is None:
            if self._unused:
                number = self._unused.pop()
            else:
                number = len(self.runs)
                self.runs.append(None)
                if number >= len(self._facts):
                    self._facts = np.vstack([self._facts, np.zeros_like(self._facts)])
            self._numbers[run] = number
            self.runs[number] = run
        self._facts[number] = task.gpus, task.checkpoint_interval, run.progress_from, run.number, task.urgency
        return number

    def _widen(self, width: int) -> None:
        more = ((0, 0), (0, width - self.cells.shape[1]))
        self.cells = np.pad(self.cells, more)
        self.held = {name: np.pad(column, more) for name, column in self.held.items()}
        self.most_held = {name: np.pad(column, more, mode="edge") for name, column in self.most_held.items()}


def all_since_checkpoint(progress_from: Floats, interval: Floats, now: float) -> Floats:
    """`since_checkpoint` of many runs at once, to the last digit."""
    age = now - progress_from
    lost = np.maximum(age - np.floor((age + PROGRESS_EPS) / np.where(interval > 0, interval, 1.0)) * interval, 0.0)
    return np.where(age > 0.0, lost, 0.0)
