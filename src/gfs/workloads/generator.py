"""Synthetic workloads with the statistics of published ones: seeded, and the same bytes for the same seed.

`spot_scale` and `hp_scale` multiply the number of tasks of a class and leave the other class as it is. `largest_gang`
cuts the tail of gang sizes or lengthens it; tasks ask for as many GPUs on average as before. `nodes` and `days` scale
the numbers of tasks so that the offered load stays. Offered load is what is asked for inside the window:
GPU-seconds beyond its end do not count (they are few: long tasks end with the window at the latest).
A window shorter than that of the preset shows what a window of that length would show of the same cluster:
tasks that run for weeks are there from the first second to the last.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gfs.domain.errors import InputError
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.gc_paused import gc_paused
from gfs.workloads.calibration import figures
from gfs.workloads.durations import cut, long_durations, pair_durations, pick_long_tasks, starts
from gfs.workloads.owners import owners
from gfs.workloads.presets import ClassPlan, PoolPlan, preset_named
from gfs.workloads.requests import Requests, apportion, draw_requests
from gfs.workloads.rhythms import Floats, arrivals, until_closing_time, window_seconds

_LARGEST_LONG_SHARE = 1 / 128
"""Share of its pool that a task that runs for weeks may hold: the weeks-long tasks are mostly small."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Tasks of one class in one pool, as columns."""

    submit: Floats
    duration: Floats
    requests: Requests
    organizations: list[str]
    cpus_per_pod: Floats


@dataclass(frozen=True, slots=True)
class _Window:
    """The length of the workload and of its preset, in seconds, and the share of the pool's cards."""

    length: float
    reference: float
    cards: int
    size: float

    @property
    def tasks(self) -> float:
        """Factor on the number of tasks."""
        return self.size * self.length / self.reference

    @property
    def horizon(self) -> float:
        """The life of the cluster that long tasks are drawn for: at least the window of the preset."""
        return max(self.length, self.reference)

    @property
    def shown(self) -> float:
        """How much longer that life is than what is shown of it."""
        return self.horizon / self.length

    @property
    def shown_from(self) -> float:
        """When in that life the window opens: its middle is shown."""
        return math.floor((self.horizon - self.length) / 2)


def generate(
    preset: str = "demo",
    *,
    nodes: int | None = None,
    days: float | None = None,
    spot_scale: float = 1.0,
    hp_scale: float = 1.0,
    largest_gang: float | None = None,
    seed: int = 0,
    mtbf_days: float | None = None,
    mttr_hours: float = 4.0,
) -> Workload:
    """A workload after one of the `PRESETS`, at its own size or scaled to `nodes` nodes and `days` days.

    `largest_gang`: the largest HP gang as a share of its pool; of spot gangs too, where theirs may be larger.
    With `mtbf_days` nodes fail: each after so many days of service on average, for `mttr_hours` on average. The
    tasks are the same with failures and without.
    """
    _check(preset, nodes, days, {"spot": spot_scale, "HP": hp_scale}, largest_gang, seed)
    if mtbf_days is not None and not (math.isfinite(mtbf_days) and mtbf_days * 24 >= 1):
        raise InputError(f"The mean time between failures must be at least 1/24 days (one hour), not {mtbf_days:g}.")
    if mtbf_days is not None and not (math.isfinite(mttr_hours) and mttr_hours > 0):
        raise InputError(f"The mean time to repair must be above 0 hours, not {mttr_hours:g}.")
    plan = preset_named(preset)
    groups = _scaled_groups(plan.pools, nodes)
    length = window_seconds(plan.days if days is None else days)
    drawn: list[tuple[str, Priority, _Drawn]] = []
    for pool, sizes in zip(plan.pools, groups, strict=True):
        cards = sum(count * gpus for count, gpus in sizes)
        if not cards:
            continue
        window = _Window(length, window_seconds(plan.days), cards, cards / pool.cards)
        hp, spot = _with_gangs(pool.hp, pool.spot, largest_gang)
        for priority, of_class, scale in ((Priority.HP, hp, hp_scale), (Priority.SPOT, spot, spot_scale)):
            stream = _stream(seed, preset, pool.gpu_model, priority.label)
            drawn.append((pool.gpu_model, priority, _draw_class(pool, of_class, priority, scale, window, stream)))
    with gc_paused():  # to collect takes half of the time
        tasks, durations = _tasks(drawn)
    machines = _nodes(plan.pools, groups)
    events: tuple[NodeEvent, ...] = ()
    if mtbf_days is not None:
        events = _node_failures(
            machines, length, mtbf_days * DAY, mttr_hours * HOUR, _stream(seed, preset, "node events")
        )
    return Workload(tasks, machines, preset, durations, node_events=events)


def _with_gangs(hp: ClassPlan, spot: ClassPlan, largest: float | None) -> tuple[ClassPlan, ClassPlan]:
    """Both classes with gangs up to this share of the pool."""
    if largest is None:
        return hp, spot
    limits = largest, min(largest, spot.mix.gang_limit)
    one, other = (
        replace(plan, mix=replace(plan.mix, gang_limit=limit)) for plan, limit in zip((hp, spot), limits, strict=True)
    )
    return one, other


def _check(
    name: str, nodes: int | None, days: float | None, scales: Mapping[str, float], largest_gang: float | None, seed: int
) -> None:
    """Say what is wrong with the wishes, if anything."""
    least = sum(len(pool.groups) for pool in preset_named(name).pools)
    if nodes is not None and nodes < least:
        raise InputError(f"Preset {name} needs at least {least} nodes, not {nodes}.")
    if days is not None and not (math.isfinite(days) and days * 24 >= 1):
        raise InputError(f"The number of days must be at least 1/24 (one hour), not {days:g}.")
    for whose, scale in scales.items():
        if not (math.isfinite(scale) and scale >= 0):
            raise InputError(f"The {whose} scale must be 0 or more, not {scale:g}.")
    if largest_gang is not None and not 0 < largest_gang <= 1:
        raise InputError(f"The largest gang must be above 0 and at most 1, a share of the pool, not {largest_gang:g}.")
    if seed < 0:
        raise InputError(f"The seed must be 0 or more, not {seed}.")


def _stream(seed: int, *purpose: str) -> np.random.Generator:
    """A stream of random numbers of its own for each purpose."""
    words = [zlib.crc32(word.encode()) for word in purpose]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))


def _draw_class(
    pool: PoolPlan, plan: ClassPlan, priority: Priority, scale: float, window: _Window, rng: np.random.Generator
) -> _Drawn:
    """All tasks of one class in one pool."""
    total = round(plan.count * scale * window.tasks)
    target = None if plan.load is None else plan.load * scale * window.cards * window.length
    for_size, for_time, for_pairing, for_owner = rng.spawn(4)
    ordinary = total - round(total * plan.long.share_of_tasks) if plan.long else total
    long_target = None
    if target is not None and plan.long:
        long_target = target * plan.long.share_of_gpu_time * window.shown
    lasting = _long_durations(plan, scale, window, long_target, for_time)
    requests = draw_requests(plan.mix, ordinary + len(lasting), window.cards, for_size)
    gpus = requests.gpus
    largest = max(2 * plan.mix.mean_gpus, window.cards * _LARGEST_LONG_SHARE)
    chosen = pick_long_tasks(gpus, lasting, largest, long_target, for_pairing)
    lasting = lasting[: len(chosen)]
    long_work = float(gpus[chosen] @ lasting)  # rises and falls for all work, since the others do not
    swing = target * window.shown / long_work if target and long_work else 1.0
    level = 1.0 + (np.asarray(pool.weeks) - 1.0) * swing
    begun = starts(gpus[chosen], lasting, np.maximum(level, 0.0).tolist(), window.horizon, for_time)
    rest = np.setdiff1d(np.arange(len(gpus)), chosen)
    submit, duration = np.empty(len(gpus)), np.empty(len(gpus))
    submit[chosen], duration[chosen] = cut(begun, lasting, window.shown_from, window.length)
    submit[rest] = arrivals(len(rest), window.length, priority, for_time)
    left = None if target is None else target - float(gpus[chosen] @ duration[chosen])
    ascending = plan.durations.sample(len(rest), for_time)
    duration[rest] = pair_durations(gpus[rest], submit[rest], ascending, window.length, left, for_pairing)
    submit[rest] = until_closing_time(submit[rest], duration[rest], plan.closing_share, window.length, for_time)
    seen = duration > 0
    submit, duration, gpus = submit[seen], duration[seen], gpus[seen]
    requests = Requests(requests.gpus_per_pod[seen], requests.pods[seen])
    came = np.where(submit > 0, submit, arrivals(len(submit), window.length, priority, for_owner))
    whose = owners(gpus, submit, came, duration, pool.organizations, for_owner)
    per_gpu = for_owner.choice(np.asarray(figures()["cpus_per_gpu"]["common"], np.float64), len(gpus))
    return _Drawn(submit, duration, requests, whose, requests.gpus_per_pod * per_gpu)


def _long_durations(
    plan: ClassPlan, scale: float, window: _Window, target: float | None, rng: np.random.Generator
) -> Floats:
    """How long the long tasks of the preset's own window run."""
    if plan.long is None:
        return np.empty(0)
    tasks = plan.count * scale * window.size * window.horizon / window.reference
    count = round(tasks * plan.long.share_of_tasks)
    mean = plan.long.mean
    if mean is None:
        single = sum(size * share for size, share in plan.mix.sizes.items()) / sum(plan.mix.sizes.values())
        mean = min((target or 0.0) / max(count, 1) / single, 0.9 * window.reference)
    return long_durations(count, plan.long.shortest, mean, window.horizon, rng)


def _scaled_groups(pools: tuple[PoolPlan, ...], nodes: int | None) -> list[list[tuple[int, int]]]:
    """(nodes, cards a node) of each pool, in the proportions of the preset, at least one node each."""
    counts = [count for pool in pools for count, _ in pool.groups]
    if nodes is not None:
        counts = [1 + int(extra) for extra in apportion([c - 1 for c in counts], nodes - len(counts))]
        if len(counts) == 1:
            counts = [nodes]
    left = iter(counts)
    return [[(next(left), gpus) for _, gpus in pool.groups] for pool in pools]


def _nodes(pools: tuple[PoolPlan, ...], groups: list[list[tuple[int, int]]]) -> tuple[NodeSpec, ...]:
    """The nodes of all pools, numbered throughout."""
    nodes: list[NodeSpec] = []
    for pool, sizes in zip(pools, groups, strict=True):
        for count, gpus in sizes:
            for _ in range(count):
                index = len(nodes)
                nodes.append(NodeSpec(index, f"n{index}", pool.gpu_model, gpus, float(pool.cpus)))
    return tuple(nodes)


def _tasks(drawn: list[tuple[str, Priority, _Drawn]]) -> tuple[tuple[Task, ...], tuple[float, ...]]:
    """Tasks and their durations in the order of submission. Names count the tasks of a class: h1, s1."""
    rows: list[tuple[float, str, str, str, Priority, int, float, float, float]] = []
    for priority, letter in ((Priority.HP, "h"), (Priority.SPOT, "s")):
        of_kind = [
            row
            for model, its_priority, columns in drawn
            if its_priority is priority
            for row in zip(
                columns.submit.tolist(),
                columns.organizations,
                [model] * len(columns.submit),
                columns.requests.pods.tolist(),
                columns.requests.gpus_per_pod.tolist(),
                columns.duration.tolist(),
                columns.cpus_per_pod.tolist(),
                strict=True,
            )
        ]
        of_kind.sort(key=lambda row: row[0])
        width = len(str(len(of_kind)))
        rows += [
            (row[0], f"{letter}{number:0{width}d}", row[1], row[2], priority, *row[3:])
            for number, row in enumerate(of_kind, 1)
        ]
    rows.sort(key=lambda row: (row[0], row[1]))
    tasks = tuple(
        Task(i, name, owner, model, priority, pods, gpus, submit, cpus)
        for i, (submit, name, owner, model, priority, pods, gpus, _, cpus) in enumerate(rows)
    )
    return tasks, tuple(row[7] for row in rows)


def _node_failures(
    nodes: Sequence[NodeSpec], length: float, time_between: float, time_to_repair: float, rng: np.random.Generator
) -> tuple[NodeEvent, ...]:
    """Failures before second `length`, and the repair of each, be it after it: exponential, in whole seconds.

    A node fails again only after its repair. What happens to it depends on its own place among the nodes alone, so
    that more nodes leave it as it is.
    """
    drawn: list[tuple[float, int, NodeEvent]] = []
    for node, chance in zip(nodes, rng.spawn(len(nodes)), strict=True):
        time = _seconds(chance, time_between)
        while time < length:
            repaired = time + _seconds(chance, time_to_repair)
            drawn.append((time, node.index, NodeEvent(time, node.name, "fail")))
            drawn.append((repaired, node.index, NodeEvent(repaired, node.name, "repair")))
            time = repaired + _seconds(chance, time_between)
    drawn.sort(key=lambda each: each[:2])
    return tuple(event for _, _, event in drawn)


def _seconds(chance: np.random.Generator, mean: float) -> float:
    return max(1.0, float(round(chance.exponential(mean))))
