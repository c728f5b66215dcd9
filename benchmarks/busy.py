"""A cluster that is nearly full, to decide in: HP and spot tasks with the paper's requests, nodes of eight GPUs.

CPUs, memory and pods count, and there is enough of them: what decides is GPUs.

It is filled through the scheduler itself, over hours of simulated time, so that checkpoints and guarantees of the
spot tasks are spread as in a real cluster. Nothing here is timed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from gfs import NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import Plan
from gfs.core.events import EvictionDone, Finished, Submitted
from gfs.core.run import Run
from gfs.domain.units import DAY, HOUR, MICRO
from gfs.workloads.presets import preset_named
from gfs.workloads.requests import draw_requests

MODEL, CARDS = "A100", 8
FULL = 0.95
"""Share of the cards that is held when a decision begins."""
SPOT = 0.25
"""Share of the cards that spot tasks hold."""
FILLING = 4 * HOUR
PERIOD = 30 * DAY
"""T of the preemption cost."""


class BusyCluster:
    """A scheduler and its cluster, driven from outside event by event."""

    def __init__(self, nodes: int, scheduler: str, seed: int) -> None:
        specs = tuple(NodeSpec(i, f"n{i}", MODEL, CARDS, cpus=96.0, memory=1024.0, pods=110) for i in range(nodes))
        self.scheduler = build_scheduler(scheduler, specs, Parameters(quota="none"), period=PERIOD)
        self.state = self.scheduler.pools[MODEL].state
        self.pool = self.state.pool
        self.now = 0.0
        self.evictions: list[tuple[float, int]] = []
        """(time, node) of every eviction."""
        self.waiting: set[Task] = set()
        self._stopgaps: list[Run] = []
        """HP tasks on nodes that no spot task takes, until the next decision."""
        self.running: list[Run] = []
        self._position: dict[Run, int] = {}
        self._random = random.Random(seed)
        self._drawn = 0
        pool, rng = preset_named("paper").pools[0], np.random.default_rng(seed)
        self._requests = {
            Priority.HP: self._draws(pool.hp.mix, rng),
            Priority.SPOT: self._draws(pool.spot.mix, rng),
        }

    # -- tasks -------------------------------------------------------------------------------------

    def _draws(self, mix: object, rng: np.random.Generator) -> Iterator[tuple[int, float]]:
        while True:
            drawn = draw_requests(mix, 4096, self.pool.capacity, rng)  # type: ignore[arg-type]
            yield from zip(drawn.pods.tolist(), drawn.gpus_per_pod.tolist(), strict=True)

    def draw(self, priority: Priority) -> Task:
        """A task with a request of the paper's mix."""
        return self._task(priority, *next(self._requests[priority]))

    def _task(self, priority: Priority, pods: int, gpus: float) -> Task:
        self._drawn += 1
        return Task(
            self._drawn, f"t{self._drawn}", "lab", MODEL, priority, pods, gpus, self.now,
            cpus_per_pod=8.0 * gpus, memory_per_pod=96.0 * gpus,
        )  # fmt: skip

    def has_room(self, task: Task) -> bool:
        """Whether all pods fit on idle cards."""
        return self.pool.slots(task) >= task.pods

    def could_have_room(self, task: Task) -> bool:
        """Whether all pods of an HP task would fit if every spot task went."""
        return self.pool.slots(task, without_spot=True) >= task.pods

    # -- events ------------------------------------------------------------------------------------

    def submit(self, task: Task) -> Plan:
        """One arrival."""
        self.waiting.add(task)
        return self.note(self.scheduler.handle(self.now, [Submitted(task)]))

    def pass_time(self) -> None:
        """To the next decision: a minute in the paper's cluster, the less the larger a cluster is."""
        self.now += 60.0 * 287 / len(self.pool.nodes)

    def finish(self, run: Run) -> None:
        """One finish; those that wait may start on its cards."""
        self._drop(run)
        self.note(self.scheduler.handle(self.now, [Finished(run)]))

    def note(self, plan: Plan) -> Plan:
        """Remember who runs after a plan."""
        for eviction in plan.evictions:
            self._drop(eviction.run)
            self.waiting.add(eviction.run.task)
            self.evictions += [(self.now, node.index) for node in eviction.run.nodes]
        if plan.evictions:  # nobody takes his time to leave here
            self.scheduler.handle(self.now, [EvictionDone(eviction.run) for eviction in plan.evictions])
        for run in plan.starts:
            self.waiting.discard(run.task)
            self._position[run] = len(self.running)
            self.running.append(run)
        return plan

    def _drop(self, run: Run) -> None:
        position, last = self._position.pop(run), self.running.pop()
        if last is not run:
            self.running[position] = last
            self._position[last] = position

    # -- states ------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Fill nearly all cards, then let tasks finish as chance has it until `FULL` of them are held."""
        pool, step = self.pool, FILLING * CARDS / self.pool.capacity
        while pool.idle > 0.01 * pool.capacity:
            self._starts(self.draw(self._lacking()))
            self.now += step
        while pool.idle < (1 - FULL) * pool.capacity:
            self.finish(self._random.choice(self.running))

    def make_gaps(self) -> None:
        """The same share is idle, but no node as a whole: gaps that small tasks left and large ones cannot use."""
        pool, wanted = self.pool, (1 - FULL) * self.pool.capacity
        while self._stopgaps:
            self.finish(self._stopgaps.pop())
        self._close_whole_nodes()
        for _ in range(100 * len(self.running)):
            if pool.idle >= wanted:
                break
            run = self._random.choice(self.running)
            if run.task.cards < CARDS:
                self.finish(run)
                self._close_whole_nodes()
        while pool.idle > wanted + CARDS:
            if not self._starts(self._task(self._lacking(), 1, 1.0)):
                self._starts(self._task(Priority.HP, 1, 1.0))

    def _close_whole_nodes(self) -> None:
        while self.pool.idle_levels[CARDS]:
            self.now += FILLING * CARDS / self.pool.capacity
            if self.waiting or not self._starts(self._task(Priority.SPOT, 1, float(CARDS))):
                # Those who wait do not fit, or the node is closed to spot tasks after evictions.
                plan = self.submit(self._task(Priority.HP, 1, float(CARDS)))
                self._stopgaps += [run for run in plan.starts if not run.task.is_spot]

    def _lacking(self) -> Priority:
        held = self.pool.capacity - self.pool.idle
        return Priority.SPOT if self.pool.spot_held(0.0) < SPOT / FULL * held * MICRO else Priority.HP

    def _starts(self, task: Task) -> bool:
        """Submit it if there is room; whether it starts."""
        return self.has_room(task) and any(run.task is task for run in self.submit(task).starts)
