"""How time and memory grow with the cluster: nodes and tasks of the `paper` preset x1, x3, x10, and `fleet`.

Each point is a process of its own, so that its peak memory is its own, and goes from nothing to a result: generate
the workload, simulate, make the table of events, compute the metrics. CPU seconds of all threads.

    python benchmarks/curve.py paper 2870 fixed      # one point, as JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gfs
from anchor import bare_replay
from machine import against, console, figures_table, in_own_process, peak_memory

TENFOLD_LIMIT = 11.0
"""Ten times the nodes and tasks may cost at most this many times the time."""
FLEET_SECONDS, FLEET_MEMORY = 300.0, 8192.0
"""Limits for `fleet`, end to end, with the default quota: CPU seconds and MiB."""


class Point(NamedTuple):
    """A workload and a quota."""

    preset: str
    nodes: int
    quota: str


QUICK = (
    Point("paper", 287, "fixed"),
    Point("paper", 861, "fixed"),
    Point("paper", 2_870, "fixed"),
    Point("paper", 287, "forecast"),
)
FULL = (
    *QUICK,
    Point("paper", 861, "forecast"),
    Point("paper", 2_870, "forecast"),
    Point("fleet", 12_500, "forecast"),
)


def curve(step: Callable[[], None], points: Sequence[Point]) -> list[dict[str, Any]]:
    """All points, one after the other."""
    measured = []
    for point in points:
        measured.append(in_own_process("curve.py", point.preset, str(point.nodes), point.quota))
        step()
    return measured


def measure(point: Point, seed: int = 0) -> dict[str, Any]:
    """One point, in this process."""
    before = time.process_time()
    workload = gfs.generate(point.preset, nodes=point.nodes, seed=seed)
    generated = time.process_time() - before
    before = time.process_time()
    result = gfs.simulate(workload, scheduler="gfs", seed=seed, quota=point.quota)
    ran = time.process_time() - before
    memory = peak_memory()
    return {
        **point._asdict(),
        "seed": seed,
        "tasks": len(workload.tasks),
        "generate_seconds": generated,
        "run_seconds": ran,
        "simulation_seconds": result.seconds,
        "end_to_end_seconds": generated + ran,
        "peak_memory_mib": memory,
        "bare_replay_seconds": bare_replay(workload),
    }


def show_curve(points: list[dict[str, Any]]) -> None:
    columns = ("nodes", "tasks", "quota", "generate", "run", "simulate", "end to end", "bare replays", "MiB")
    table = figures_table("gfs from a preset to its metrics, CPU seconds (simulate: a part of run)", *columns)
    for each in points:
        table.add_row(
            f"{each['nodes']:,}",
            f"{each['tasks']:,}",
            each["quota"],
            *(f"{each[f'{part}_seconds']:.1f}" for part in ("generate", "run", "simulation", "end_to_end")),
            f"{each['end_to_end_seconds'] / each['bare_replay_seconds']:.0f}",
            f"{each['peak_memory_mib']:,.0f}",
        )
    console.print(table)
    by_point = {Point(each["preset"], each["nodes"], each["quota"]): each for each in points}
    for quota in ("fixed", "forecast"):
        one, ten = (by_point.get(Point("paper", nodes, quota)) for nodes in (287, 2_870))
        if one and ten:
            for part in ("simulation", "end_to_end"):
                ratio = ten[f"{part}_seconds"] / one[f"{part}_seconds"]
                said = against(ratio, TENFOLD_LIMIT)
                console.print(f"10 x the nodes and tasks, {quota} quota, {part.replace('_', ' ')}: {said} x the time")
    if fleet := by_point.get(Point("fleet", 12_500, "forecast")):
        seconds = against(fleet["end_to_end_seconds"], FLEET_SECONDS, " CPU-s", 0)
        memory = against(fleet["peak_memory_mib"], FLEET_MEMORY, " MiB", 0)
        console.print(f"fleet, end to end: {seconds}, {memory}")


if __name__ == "__main__":
    preset, nodes, quota = sys.argv[1:]
    print(json.dumps(measure(Point(preset, int(nodes), quota))))
