"""The races: the same work for every scheduler, on the same nodes; each gives the judge's figures and what was used."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

from bench import manifests
from bench.client import Manifest, path
from live_judge import Judge
from live_track import SPACE, Contender, Follower, Track

MIB = 2**20
SPEED = 60.0
"""In races with checkpoints a second is a minute of the workload's time."""


@dataclass
class Result:
    """What came of one race."""

    figures: dict[str, Any] = field(default_factory=dict)


@contextmanager
def raced(
    track: Track,
    contender: Contender,
    name: str,
    *,
    pods: str,
    speed: float = 1.0,
    quota: str = "",
    before: Callable[[], object] = lambda: None,
) -> Iterator[tuple[Follower, Result]]:
    """Record, let somebody race, and gather what it cost; `pods`: how the names begin that count."""
    result = Result()
    with track.recorded(f"{name}-{contender.name}", speed) as follower:
        before()
        track.settle()
        _, place = track.requests(0)
        with track.racing(contender, speed, quota):
            began, since = track.usage(contender), time.time()
            yield follower, result
            track.settle()  # what is written about pods after their binding counts too
            ended = track.usage(contender)
            asked, _ = track.requests(place)
    judge = follower.look()
    bound = sum(pod.bound < inf for pod in judge.named(pods))
    cpu = {program: round(ended.cpu[program] - began.cpu[program], 2) for program in ended.cpu}
    counts = {word: number for word, number in asked.most_common() if number > max(1, bound // 100)}
    own = {key: ended.own[key] - began.own.get(key, 0.0) for key in ended.own}
    result.figures = {
        "race": name,
        "scheduler": contender.name,
        **judge.figures(pods, since),
        "requests_per_pod": round(asked.total() / max(bound, 1), 2),
        "requests": counts,
        "cpu_seconds": cpu,
        "cpu_ms_per_pod": round(1000 * cpu["scheduler"] / max(bound, 1), 2),
        "peak_mib": round(ended.peak / MIB),
        **({"gfs_itself": _own(own, bound)} if own else {}),
    }


def _own(own: dict[str, float], bound: int) -> dict[str, float]:
    """What GFS tells of itself: the core's share."""
    decided, spent = own["gfs_decisions_total"], own["gfs_decision_seconds_total"]
    return {
        "instants": decided,
        "core_ms_per_instant": round(1000 * spent / max(decided, 1), 3),
        "core_ms_per_pod": round(1000 * spent / max(bound, 1), 3),
        "longest_step_seconds": round(own["gfs_longest_step_seconds"], 3),
    }


def nodes(count: int, gpus: int = 8) -> list[Manifest]:
    return [manifests.node(f"n{i:05}", gpus=gpus, pods=110) for i in range(count)]


def pod(name: str, contender: Contender, hp: bool = False, **more: Any) -> Manifest:
    return manifests.pod(
        name, SPACE, scheduler=contender.scheduler, priority_class="gfs-hp" if hp else "gfs-spot", grace=1, **more
    )


def all_bound(begins: str, count: int) -> Callable[[Judge], bool]:
    return lambda judge: sum(pod.bound < inf for pod in judge.named(begins)) >= count


# -- with room for all -----------------------------------------------------------------------------------


def burst(track: Track, contender: Contender, pods: int, patience: float = 120.0) -> dict[str, Any]:
    """So many pods of one GPU at once, every second one HP."""
    work = [pod(f"burst-{i}", contender, hp=bool(i % 2)) for i in range(pods)]
    with raced(track, contender, "burst", pods="burst-") as (follower, result):
        created = track.create(work)
        follower.until(all_bound("burst-", pods), patience)
    track.clear()
    return {**result.figures, "created_per_second": round(pods / created)}


def drain(track: Track, contender: Contender, pods: int, patience: float = 120.0) -> dict[str, Any]:
    """The same pods are all there when the scheduler starts: nobody else asks much of the API server meanwhile."""
    work = [pod(f"drain-{i}", contender, hp=bool(i % 2)) for i in range(pods)]
    with raced(track, contender, "drain", pods="drain-", before=lambda: track.create(work)) as (follower, result):
        follower.until(all_bound("drain-", pods), patience)
    track.clear()
    return result.figures


def steady(track: Track, contender: Contender, rate: float, seconds: float) -> dict[str, Any]:
    """So many pods a second for a while."""
    count = round(rate * seconds)
    work = [pod(f"steady-{i}", contender, hp=bool(i % 2)) for i in range(count)]
    with raced(track, contender, "steady", pods="steady-") as (follower, result):
        track.create(work, rate)
        follower.until(all_bound("steady-", count), seconds)
    track.clear()
    return {**result.figures, "rate": rate}


def limit(track: Track, pods: int, nodes: int) -> dict[str, Any]:
    """What the API server itself takes: bindings without anybody who decides, 32 requests in flight."""
    nobody = Contender("nobody")
    work = [manifests.pod(f"limit-{i}", SPACE, scheduler="nobody", grace=1) for i in range(pods)]
    created = track.create(work)
    took = track.bind([(f"limit-{i}", f"n{i % nodes:05}") for i in range(pods)])
    track.clear()
    return {
        "race": "limit", "scheduler": nobody.name, "pods": pods,
        "created_per_second": round(pods / created), "bound_per_second": round(pods / took),
    }  # fmt: skip


# -- a cluster that is full of spot pods ---------------------------------------------------------------------

INTERVALS = ("10m", "30m", "60m")
LAYOUTS = ((1,) * 8, (2,) * 4, (4, 4), (8,), (4, 2, 1, 1), (2, 2, 2, 1, 1))
"""GPUs of the spot pods of a node."""


def spot_work(contender: Contender, nodes: int, seed: int) -> tuple[list[Manifest], list[Manifest]]:
    """Spot pods that fill every node, in an order that is not that of the nodes, and the groups of some of them.

    Every fifth node has two pods of four GPUs that are parts of gangs of four pods on four such nodes, and are to be
    stopped together or not at all.
    """
    rng = random.Random(seed)
    work: list[Manifest] = []
    ganged: list[int] = []
    for i in range(nodes):
        if i % 5 == 4:
            ganged.append(i)
            continue
        for j, gpus in enumerate(rng.choice(LAYOUTS)):
            notes = {"gfs.dev/checkpoint-interval": rng.choice(INTERVALS)}
            work.append(pod(f"spot-{i}-{j}", contender, gpus=gpus, node=f"n{i:05}", annotations=notes))
    groups = []
    slots = [(i, j) for j in range(2) for i in ganged]
    for number in range(len(slots) // 4):
        name, notes = f"spotgang-{number}", {"gfs.dev/checkpoint-interval": rng.choice(INTERVALS)}
        groups.append(manifests.pod_group(name, SPACE, 4, disruption="PodGroup"))
        for i, j in slots[4 * number : 4 * number + 4]:
            work.append(pod(f"{name}-{i}-{j}", contender, gpus=4, node=f"n{i:05}", annotations=notes, group=name))
    rng.shuffle(work)
    return groups, work


def full(
    track: Track, contender: Contender, nodes: int, seconds: float = 20.0, share: float = 0.25, seed: int = 0
) -> dict[str, Any]:
    """Every GPU has a spot pod; HP pods then ask for a part of them. Who goes, and how long do they wait?

    The spot pods are bound by their creator, one after the other in so many seconds, each a minute of their time, so
    that all schedulers find the same cluster; none comes back after an eviction. The HP pods come in as long again.
    """
    groups, spots = spot_work(contender, nodes, seed)
    rng = random.Random(seed + 1)
    wanted, hp = round(share * 8 * nodes), []
    while wanted > 0:
        gpus = min(rng.choice((1, 1, 2, 4, 8)), wanted)
        hp.append(pod(f"hp-{len(hp)}", contender, hp=True, gpus=gpus))
        wanted -= gpus

    def fill() -> None:
        track.create(groups)
        track.create(spots, rate=len(spots) / seconds)
        time.sleep(1.0)

    with raced(track, contender, "full", pods="hp-", speed=SPEED, quota="none", before=fill) as (follower, result):
        track.create(hp, rate=len(hp) / seconds)
        follower.until(all_bound("hp-", len(hp)), 60.0)
    track.clear()
    return {**result.figures, "spot_pods": len(spots)}


# -- gangs that do not all fit ---------------------------------------------------------------------------------


def gangs(track: Track, contender: Contender, nodes: int, seconds: float = 12.0, seed: int = 0) -> dict[str, Any]:
    """Gangs that together want one and a half times the cluster; their pods come in any order and stay."""
    rng = random.Random(seed)
    groups, work, wanted = [], [], round(1.5 * 8 * nodes)
    while wanted > 0:
        name, members, gpus = f"gang-{len(groups)}", rng.choice((2, 4, 8)), rng.choice((2, 4, 8))
        groups.append(manifests.pod_group(name, SPACE, members))
        work += [pod(f"{name}-{i}", contender, gpus=gpus, group=name) for i in range(members)]
        wanted -= members * gpus
    rng.shuffle(work)
    with raced(track, contender, "gangs", pods="gang-", quota="none") as (follower, result):
        track.create(groups)
        track.create(work)
        time.sleep(seconds)
        judge = follower.look()
        whole = sum(
            sum(member.bound < inf for member in members) >= judge.minimum[key]
            for key, members in judge.gangs().items()
        )
    track.clear()
    return {**result.figures, "gangs_whole": whole}


# -- scale -------------------------------------------------------------------------------------------------------


def scale(track: Track, contender: Contender, nodes: int, patience: float = 300.0) -> dict[str, Any]:
    """Ten pods a node, all at once, and meanwhile one HP pod a second: how long it takes is how far one lags behind."""
    count = 10 * nodes
    probes = max(5, count // 500)
    every = count // probes
    work: list[Manifest] = []
    for i in range(count):
        work.append(pod(f"scale-{i}", contender))
        if i % every == every - 1:
            work.append(pod(f"probe-{i}", contender, hp=True))
    with raced(track, contender, f"scale-{nodes}", pods="scale-", quota="none") as (follower, result):
        created = track.create(work)
        follower.until(all_bound("scale-", count), patience, every=1.0)
        judge = follower.look()
        waits = sorted(pod.wait for pod in judge.named("probe-"))
    track.clear()
    return {
        **result.figures, "nodes": nodes, "created_per_second": round(len(work) / created),
        "probe_wait_p50": round(waits[len(waits) // 2], 3), "probe_wait_max": round(waits[-1], 3),
    }  # fmt: skip


def set_nodes(track: Track, count: int, gpus: int = 8) -> None:
    """Have so many nodes."""
    there = len(track.bench.client.items("nodes"))
    if there > count:
        for i in range(count, there):
            track.bench.client.delete(path("nodes", name=f"n{i:05}"))
    track.create(nodes(count, gpus)[there:])
    time.sleep(1.0)
