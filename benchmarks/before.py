"""The `paper` preset under `gfs` with a fixed quota, against an earlier commit measured in the same run.

Both run the same trace by turns in fresh processes; the least CPU time of each counts. The earlier code is taken from
the repository's history, so this needs a git checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gfs.workloads import generate, write_trace
from machine import HERE, against, console

BEFORE = "ae0612e"
"""The last commit before the core was redesigned for an open world."""
TIME_LIMIT, MEMORY_LIMIT = 1.03, 1.10

SCRIPT = """
import gc, resource, sys, time
import gfs
from gfs.assembly.schedulers import build_scheduler
from gfs.simulator.engine import Engine
from gfs.workloads import read_trace
workload, parameters = read_trace(sys.argv[2], sys.argv[3]).workload, gfs.Parameters(quota="fixed")
nodes = workload.nodes if sys.argv[1] == "now" else workload  # the earlier one was built from a whole workload
least = float("inf")
for _ in range(2):
    scheduler = build_scheduler("gfs", nodes, parameters, period=91 * 86400.0)
    entries = []
    engine = Engine(workload, scheduler, entries.append, rules=parameters.rules)
    gc.collect()
    before = time.process_time()
    engine.run()
    least = min(least, time.process_time() - before)
    del engine, scheduler, entries
print(least, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def before(repeat: int) -> dict[str, Any] | None:
    """CPU seconds and peak memory of both; None where there is no history to take the earlier code from."""
    with tempfile.TemporaryDirectory() as folder:
        root, archive = HERE.parent, Path(folder) / "before.tar"
        packed = subprocess.run(
            ["git", "-C", str(root), "archive", "-o", str(archive), BEFORE, "src"],
            capture_output=True,
            check=False,
        )
        if packed.returncode:
            return None
        subprocess.run(["tar", "-xf", str(archive), "-C", folder], check=True)
        trace = write_trace(generate("paper"), Path(folder))
        sources = {"before": Path(folder) / "src", "now": root / "src"}
        seconds = dict.fromkeys(sources, float("inf"))
        memory = dict.fromkeys(sources, float("inf"))
        for _ in range(repeat):
            for name, source in sources.items():
                took, held = _measure(name, source, trace)
                seconds[name], memory[name] = min(seconds[name], took), min(memory[name], held)
    return {
        "commit": BEFORE,
        "seconds": seconds,
        "memory_mib": memory,
        "time_ratio": seconds["now"] / seconds["before"],
        "memory_ratio": memory["now"] / memory["before"],
        "time_limit": TIME_LIMIT,
        "memory_limit": MEMORY_LIMIT,
    }


def _measure(name: str, source: Path, trace: tuple[Path, Path]) -> tuple[float, float]:
    environment = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, name, *map(str, trace)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    took, held = map(float, done.stdout.split())
    return took, held


def show_before(figures: dict[str, Any] | None) -> None:
    if figures is None:
        console.print("against an earlier commit: not measured, this is no git checkout with its history")
        return
    console.print(
        f"paper preset, gfs, fixed quota, against {figures['commit']}: time"
        f" {against(figures['time_ratio'], figures['time_limit'], digits=3)}, memory"
        f" {against(figures['memory_ratio'], figures['memory_limit'], digits=3)}"
    )
