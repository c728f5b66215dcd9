"""How long one decision takes: an HP task arrives in a cluster of which 95% is held.

Timed is the very call that the simulator makes, `Scheduler.handle` with one arrival: choosing, taking the cards,
evicting, and the pass over the spot tasks that wait afterwards. There are two kinds: the task finds room on idle
cards, or it needs victims. As in a scheduler that runs for weeks, what there is was frozen (`gc.freeze`) and the
collector of cyclic garbage is off. Between decisions, untimed, the task finishes and the cluster is brought back
to 95%. For `gfs`, some decisions are made by the naive scheduler too; both must say the same.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from busy import PERIOD, BusyCluster
from gfs import Priority, Task
from gfs.core.events import Submitted
from gfs.core.node import WHOLE
from gfs.core.run import Run
from machine import against, console, figures_table
from naive import Decision, Holder, NaiveCluster

SIZES = {287: 25, 2_870: 12, 28_700: 4}
"""Nodes -> decisions of each kind that the naive scheduler makes too."""
SCHEDULERS = ("gfs", "gfs-plus")
DECISIONS = 2_000
WARM_UP = 50
"""Decisions before the timed ones: what is built once is built."""
LIMITS = {"room": 1.0, "victims": 10.0}
"""Milliseconds for the 99th percentile at 28,700 nodes."""
NAIVE_PODS = 16
"""The naive scheduler is not asked for larger gangs: seconds a pod."""

Step = Callable[[], None]


def latency(step: Step, decisions: int = DECISIONS, seed: int = 0) -> dict[str, Any]:
    """Every size, scheduler and kind of decision."""
    out: dict[str, Any] = {"limits_ms": LIMITS, "seed": seed, "cells": []}
    for nodes, compared in SIZES.items():
        for scheduler in SCHEDULERS:
            cluster = BusyCluster(nodes, scheduler, seed)
            cluster.fill()
            for kind in ("room", "victims"):
                if kind == "victims":
                    cluster.make_gaps()
                naive = compared if scheduler == "gfs" else 0
                out["cells"].append(_cell(cluster, scheduler, kind, decisions, naive))
                step()
    return out


def steps() -> int:
    """How often `latency` says that it is a step further."""
    return 2 * len(SIZES) * len(SCHEDULERS)


def _cell(cluster: BusyCluster, scheduler: str, kind: str, decisions: int, compared: int) -> dict[str, Any]:
    wall, cpu, naive_cpu, evicted, equal = [], [], [], 0, 0
    with _as_in_a_long_life():
        tasks = arriving(cluster, kind)
        for number in range(WARM_UP + decisions):
            task = next(tasks)
            naive = None
            if len(naive_cpu) < compared and number >= WARM_UP and task.pods <= NAIVE_PODS:
                copy = copy_of(cluster)
                before_cpu = time.thread_time_ns()
                naive = copy.decide(task, cluster.now)
                naive_cpu.append(time.thread_time_ns() - before_cpu)
            arrived = [Submitted(task)]
            before, before_cpu = time.perf_counter_ns(), time.thread_time_ns()
            plan = cluster.scheduler.handle(cluster.now, arrived)
            after_cpu, after = time.thread_time_ns(), time.perf_counter_ns()
            cluster.note(plan)
            run = next(run for run in plan.starts if run.task is task)
            if naive is not None:
                said = Decision(pods_of(run), frozenset(each.run.task.index for each in plan.evictions))
                equal += naive == said
            if number >= WARM_UP:
                wall.append(after - before)
                cpu.append(after_cpu - before_cpu)
                evicted += len(plan.evictions)
            cluster.finish(run)
    return {
        "nodes": len(cluster.pool.nodes),
        "scheduler": scheduler,
        "kind": kind,
        "decisions": decisions,
        "victims_per_decision": evicted / decisions,
        "wall_us": _percentiles(wall),
        "cpu_us": _percentiles(cpu),
        "naive": _compared(naive_cpu, cpu, equal) if naive_cpu else None,
    }


def arriving(cluster: BusyCluster, kind: str) -> Iterator[Task]:
    """HP tasks of the paper's mix that find room, or that need victims, each when the cluster is at 95%."""
    while True:
        if kind == "victims":
            cluster.make_gaps()
        task = cluster.draw(Priority.HP)
        if cluster.has_room(task) == (kind == "room") and cluster.could_have_room(task):
            cluster.pass_time()
            yield task


@contextmanager
def _as_in_a_long_life() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def copy_of(cluster: BusyCluster) -> NaiveCluster:
    """The cluster as it stands, for the naive scheduler."""
    evicted, kept = cluster.state.ledger.totals(cluster.now)
    sizes = [node.total for node in cluster.pool.nodes]
    copy = NaiveCluster(sizes, evicted=evicted, kept=kept, period=PERIOD)
    copy.evictions = list(cluster.evictions)
    divided: dict[tuple[int, int], int] = {}
    for run in cluster.running:
        holder = Holder(run.task, run.progress_from)
        for node, role, pods, slot in run.places:
            idle = copy.idle(node.index)
            if slot == WHOLE:
                copy.hold(holder, node.index, idle[: pods * role.cards])
            else:
                copy.hold(holder, node.index, [divided.setdefault((node.index, slot), idle[0] if idle else -1)])
    return copy


def pods_of(run: Run) -> tuple[tuple[int, float], ...]:
    """Node and GPUs of each pod."""
    return tuple((node.index, role.gpus_per_pod) for node, role, pods, _ in run.places for _ in range(pods))


def _percentiles(nanoseconds: list[int]) -> dict[str, float]:
    ordered = sorted(nanoseconds)
    at = {"p50": len(ordered) // 2, "p99": len(ordered) * 99 // 100, "max": len(ordered) - 1}
    return {name: ordered[position] / 1e3 for name, position in at.items()}


def _compared(naive: list[int], ours: list[int], equal: int) -> dict[str, float]:
    """The naive scheduler beside ours: CPU time of the median decision of each."""
    median, our_median = (sorted(each)[len(each) // 2] for each in (naive, ours))
    return {"decisions": len(naive), "equal": equal, "cpu_us_p50": median / 1e3, "ratio": median / our_median}


def show_latency(figures: dict[str, Any]) -> None:
    columns = ("nodes", "scheduler", "HP task", "p50", "p99", "max", "p99 CPU", "naive / gfs", "same")
    table = figures_table("One decision in µs, 95% of the cards held", *columns)
    for cell in figures["cells"]:
        naive, wall = cell["naive"], cell["wall_us"]
        table.add_row(
            f"{cell['nodes']:,}",
            cell["scheduler"],
            cell["kind"],
            *(f"{wall[name]:,.0f}" for name in ("p50", "p99", "max")),
            f"{cell['cpu_us']['p99']:,.0f}",
            f"{naive['ratio']:,.0f}" if naive else "",
            f"{naive['equal']}/{naive['decisions']}" if naive else "",
        )
    console.print(table)
    for cell in figures["cells"]:
        if cell["nodes"] == max(SIZES):
            limit = figures["limits_ms"][cell["kind"]]
            said = against(cell["wall_us"]["p99"] / 1e3, limit, " ms", 2)
            console.print(f"  {cell['scheduler']}, {cell['kind']}, {cell['nodes']:,} nodes: p99 {said}")
        if cell["naive"] and cell["naive"]["equal"] < cell["naive"]["decisions"]:
            console.print(f"  [bold red]the naive scheduler decided otherwise at {cell['nodes']:,} nodes[/]")
