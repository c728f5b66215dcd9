"""Spot runs by how much an eviction would waste, cheapest first, without sorting them (SPEC 3).

waste = GPUs of the task x time since its last checkpoint grows with time and falls to 0 at each checkpoint,
so no static order holds. But runs with one checkpoint interval keep their *phase*: where in the interval
their checkpoints fall. Runs are kept in slots by phase and by power of two of their GPUs; walking the slots
backwards from 'now' meets them by rising time since the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from gfs.core.run import Run

SLOTS = 64
"""Slots per checkpoint interval: 56 s of phase each at the default of an hour."""


class _Wheel:
    """Runs with the same checkpoint interval and GPUs in [least, below): between two powers of two."""

    def __init__(self, interval: float, scale: int, longest_overhead: float) -> None:
        self.least = float(1 << (scale - 1)) if scale else 0.0
        self.below = 1 << scale
        self.width = interval / SLOTS
        self.slots: list[dict[Run, None]] = [{} for _ in range(SLOTS)]
        self.size = 0
        # A run in restart overhead has its phase ahead of now, though it has nothing to lose yet.
        self.ahead = min(SLOTS - 1, int(longest_overhead / self.width) + 1)

    def slot(self, run: Run) -> dict[Run, None]:
        return self.slots[int(run.progress_from / self.width) % SLOTS]

    def walk(self, now: float) -> Iterator[tuple[float, dict[Run, None]]]:
        """(least possible waste, runs) slot by slot, rising."""
        here = int(now / self.width)
        for step in range(SLOTS):
            runs = self.slots[(here + self.ahead - step) % SLOTS]
            if runs:
                behind = step - self.ahead - 1  # whole slots certainly between the phase and now
                yield (self.least * self.width * behind if behind > 0 else 0.0), runs


class WasteOrder:
    """All spot runs of a pool, to be met in rising order of a lower bound of their waste."""

    def __init__(self, longest_overhead: float) -> None:
        self._overhead = longest_overhead
        self._wheels: dict[tuple[float, int], _Wheel] = {}

    def add(self, run: Run) -> None:
        """A spot run now holds its cards."""
        wheel = self._wheel(run)
        wheel.slot(run)[run] = None
        wheel.size += 1

    def remove(self, run: Run) -> None:
        """A spot run no longer holds its cards."""
        wheel = self._wheel(run)
        del wheel.slot(run)[run]
        wheel.size -= 1

    def rising(self, now: float, least_gpus: int = 0) -> Iterator[tuple[float, dict[Run, None]]]:
        """Groups of runs with a bound: every run of this or a later group would waste at least that.

        Groups without a task of at least `least_gpus` GPUs are left out.
        """
        heap: list[tuple[float, int, dict[Run, None], Iterator[tuple[float, dict[Run, None]]]]] = []
        for number, wheel in enumerate(self._wheels.values()):
            if wheel.size and wheel.below > least_gpus:
                walk = wheel.walk(now)
                bound, runs = next(walk)
                heappush(heap, (bound, number, runs, walk))
        while heap:
            bound, number, runs, walk = heappop(heap)
            yield bound, runs
            following = next(walk, None)
            if following is not None:
                heappush(heap, (following[0], number, following[1], walk))

    def _wheel(self, run: Run) -> _Wheel:
        task = run.task
        scale = int(task.gpus).bit_length()
        key = (task.checkpoint_interval, scale)
        wheel = self._wheels.get(key)
        if wheel is None:
            wheel = self._wheels[key] = _Wheel(task.checkpoint_interval, scale, self._overhead)
        return wheel
