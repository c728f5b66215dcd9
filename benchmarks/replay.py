"""The `paper` preset under `gfs` with a fixed quota, in multiples of a bare replay."""

from __future__ import annotations

from typing import Any

import gfs
from anchor import bare_replay
from machine import against, console, peak_memory
from simulation import least, simulate

REPLAY_LIMIT = 5.0
"""GFS with a fixed quota on the `paper` preset is meant to take at most this many bare replays."""
MEMORY_LIMIT = 1024
"""MiB for the whole process that simulates the `paper` preset."""


def replay(repeat: int) -> dict[str, Any]:
    """The ratio, and what it is made of."""
    workload = gfs.generate("paper", seed=0)
    bare = least(repeat, lambda: bare_replay(workload))
    run = least(repeat, lambda: simulate(workload, "gfs", 91))
    memory = peak_memory()
    bare = min(bare, least(repeat, lambda: bare_replay(workload)))
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


def show_replay(figures: dict[str, Any]) -> None:
    console.print(
        f"paper preset, gfs, fixed quota: {figures['seconds']:.2f} CPU-s ="
        f" {against(figures['ratio'], figures['ratio_limit'])} bare replays,"
        f" {against(figures['peak_memory_mib'], figures['peak_memory_limit_mib'], ' MiB', 0)}"
    )
