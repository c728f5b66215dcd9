"""What a change of nodes costs: everything derived is built anew from the facts of the pool."""

from __future__ import annotations

import gc
import random
import time
from typing import Any

from gfs import NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import NodeChange, NodeChangeKind, NodesChanged, Submitted
from gfs.domain.units import DAY
from machine import against, console, figures_table

NODES, RUNS = 30_000, 90_000
LIMIT = 0.5
"""CPU seconds for one change."""
SCHEDULERS = ("gfs", "gfs-plus", "lyra", "fgd", "static")


def rebuild(repeat: int) -> dict[str, Any]:
    """The least of several changes, for each scheduler."""
    return {"nodes": NODES, "runs": RUNS, "limit": LIMIT, "seconds": {n: _rebuild(n, repeat) for n in SCHEDULERS}}


def _rebuild(name: str, repeat: int) -> float:
    specs = [NodeSpec(i, f"n{i}", "A100", 8, 96.0) for i in range(NODES)]
    scheduler = build_scheduler(name, specs, Parameters(quota="none"), period=30 * DAY)
    chance = random.Random(0)
    arrivals = []
    for index in range(RUNS):
        kind = Priority.SPOT if chance.random() < 0.3 else Priority.HP
        arrivals.append(
            Submitted(Task(index, f"t{index}", "lab", "A100", kind, 1, chance.choice([1.0, 2.0, 4.0]), 0.0))
        )
    scheduler.handle(0.0, arrivals)
    least = float("inf")
    for turn in range(2 * repeat):
        kind = NodeChangeKind.UNCORDONED if turn % 2 else NodeChangeKind.CORDONED
        event = NodesChanged([NodeChange(kind, specs[7])])
        gc.collect()
        before = time.process_time()
        scheduler.handle(60.0 * (turn + 1), [event])
        least = min(least, time.process_time() - before)
    return least


def show_rebuild(figures: dict[str, Any]) -> None:
    title = f"a node is cordoned: {figures['nodes']:,} nodes, {figures['runs']:,} runs"
    table = figures_table(title, "scheduler", "CPU-s")
    for name, seconds in figures["seconds"].items():
        table.add_row(name, f"{seconds:.2f}")
    console.print(table)
    console.print(f"the slowest: {against(max(figures['seconds'].values()), figures['limit'], ' CPU-s', 2)}")
