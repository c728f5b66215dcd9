"""Speed of GFS, as ratios against something measured in the same run.

    make bench                                  # everything below, about two minutes
    python benchmarks/run.py --only replay      # one of: replay, scale, schedulers
    python benchmarks/run.py --repeat 5 --out benchmarks/latest.json

Every figure is the least of `--repeat` runs: noise only ever adds time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import gfs
from anchor import bare_replay
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import EVICT, START, Record
from gfs.domain.units import DAY
from gfs.simulator.engine import Engine

REPLAY_LIMIT = 10.0
"""GFS with a fixed quota on the `paper` preset may take at most this many bare replays."""
SCALE_LIMIT = 1.5
"""A pod at 28,700 nodes may cost at most this many times a pod at 287."""
MEMORY_LIMIT = 1024
"""MiB for the whole benchmark process on the `paper` preset."""


class Measured(NamedTuple):
    """One simulation."""

    seconds: float
    """CPU seconds."""
    events: int
    pods: int
    """Pods that were started."""
    evictions: int


def simulate(workload: gfs.Workload, scheduler: str, days: float) -> Measured:
    """Run one simulation; its event entries are counted and dropped, so that the next finds memory."""
    parameters = gfs.Parameters(quota="fixed")
    built = build_scheduler(scheduler, workload, parameters, period=days * DAY)
    entries: list[Record] = []
    engine = Engine(workload, built, entries.append, rules=parameters.rules)
    before = time.process_time()
    engine.run()
    seconds = time.process_time() - before
    pods = sum(task.pods for _, event, task, _, _ in entries if event == START)
    evictions = sum(event == EVICT for _, event, _, _, _ in entries)
    return Measured(seconds, len(entries), pods, evictions)


def least(repeat: int, measure: Callable[[], Any]) -> Any:
    """The quickest of several measurements."""
    results = []
    for _ in range(repeat):
        gc.collect()
        results.append(measure())
    return min(results)


def replay(repeat: int) -> dict[str, Any]:
    """The `paper` preset, GFS with a fixed quota, in multiples of a bare replay."""
    workload = gfs.generate("paper", seed=0)
    bare = least(repeat, lambda: bare_replay(workload))
    run = least(repeat, lambda: simulate(workload, "gfs", 91))
    bare = min(bare, least(repeat, lambda: bare_replay(workload)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "tasks": len(workload.tasks),
        "events": run.events,
        "seconds": run.seconds,
        "bare_replay_seconds": bare,
        "ratio": run.seconds / bare,
        "ratio_limit": REPLAY_LIMIT,
        "peak_memory_mib": memory,
        "peak_memory_limit_mib": MEMORY_LIMIT,
    }


def scale(repeat: int) -> dict[str, Any]:
    """Time per placed pod in small and large clusters: same load, about the same number of tasks."""
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


def schedulers(repeat: int) -> dict[str, Any]:
    """Every scheduler on the `paper` preset at spot x1, x2 and x4, in multiples of a bare replay."""
    out: dict[str, Any] = {}
    for spot_scale in (1, 2, 4):
        workload = gfs.generate("paper", seed=0, spot_scale=spot_scale)
        bare = least(repeat, lambda w=workload: bare_replay(w))
        for name in gfs.SCHEDULERS:
            if name == "chronus" and spot_scale == 4:
                continue  # thousands of programs: minutes
            run = simulate(workload, name, 91)
            out[f"{name} x{spot_scale}"] = {
                "seconds": run.seconds,
                "ratio": run.seconds / bare,
                "evictions": run.evictions,
            }
    return out


SUITES: dict[str, Callable[[int], dict[str, Any]]] = {
    "replay": replay,
    "scale": scale,
    "schedulers": schedulers,
}


def show(results: dict[str, Any]) -> None:
    """Print what was measured."""
    console = Console()
    if "replay" in results:
        r = results["replay"]
        console.print(
            f"paper preset, gfs, fixed quota: {r['seconds']:.2f} CPU-s = [bold]{r['ratio']:.1f}[/] bare replays"
            f" (limit {r['ratio_limit']:g}), {r['peak_memory_mib']:.0f} MiB (limit {r['peak_memory_limit_mib']})"
        )
    if "scale" in results:
        table = Table("nodes", "tasks", "pods", "CPU-s", "µs per pod", title="cost of a placed pod")
        for nodes, r in results["scale"]["sizes"].items():
            row = (r["tasks"], r["pods"], f"{r['seconds']:.2f}", f"{r['microseconds_per_pod']:.1f}")
            table.add_row(nodes, *map(str, row))
        console.print(table)
        ratio, limit = results["scale"]["ratio"], results["scale"]["ratio_limit"]
        console.print(f"28,700 against 287 nodes: [bold]{ratio:.2f}[/] (limit {limit:g})")
    if "schedulers" in results:
        table = Table("scheduler, spot load", "CPU-s", "bare replays", "evictions", title="paper preset")
        for name, r in results["schedulers"].items():
            table.add_row(name, f"{r['seconds']:.2f}", f"{r['ratio']:.1f}", str(r["evictions"]))
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(SUITES), action="append", help="run only this part")
    parser.add_argument("--repeat", type=int, default=3, help="times each figure is measured (default 3)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    chosen = parser.parse_args()
    results: dict[str, Any] = {
        "version": gfs.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    for name in chosen.only or SUITES:
        results[name] = SUITES[name](chosen.repeat)
    show(results)
    if chosen.out:
        chosen.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
