"""Time per placed pod in small and large clusters: same load, about the same number of tasks."""

from __future__ import annotations

from typing import Any

import gfs
from machine import against, console, figures_table
from simulation import least, simulate

SCALE_LIMIT = 1.5
"""A pod at 28,700 nodes may cost at most this many times a pod at 287."""


def scale(repeat: int) -> dict[str, Any]:
    """A pod at each size."""
    out: dict[str, Any] = {"sizes": {}, "ratio_limit": SCALE_LIMIT}
    for nodes, days in ((287, 91.0), (2_870, 9.1), (28_700, 0.91)):
        workload = gfs.generate("paper", nodes=nodes, days=days, seed=0)
        run = least(repeat, lambda w=workload, d=days: simulate(w, "gfs", d))
        out["sizes"][str(nodes)] = {
            "tasks": len(workload.tasks),
            "pods": run.pods,
            "seconds": run.seconds,
            "microseconds_per_pod": 1e6 * run.seconds / run.pods,
            "evictions": run.evictions,
        }
    sizes = out["sizes"]
    out["ratio"] = sizes["28700"]["microseconds_per_pod"] / sizes["287"]["microseconds_per_pod"]
    return out


def show_scale(figures: dict[str, Any]) -> None:
    table = figures_table("cost of a placed pod", "nodes", "tasks", "pods", "CPU-s", "µs per pod")
    for nodes, size in figures["sizes"].items():
        counts = (f"{int(nodes):,}", f"{size['tasks']:,}", f"{size['pods']:,}")
        table.add_row(*counts, f"{size['seconds']:.2f}", f"{size['microseconds_per_pod']:.1f}")
    console.print(table)
    console.print(f"28,700 against 287 nodes: {against(figures['ratio'], figures['ratio_limit'], digits=2)}")
