"""Every scheduler on the `paper` preset at spot x1, x2 and x4, in multiples of a bare replay."""

from __future__ import annotations

from typing import Any

import gfs
from anchor import bare_replay
from machine import console, figures_table
from simulation import least, simulate


def schedulers(repeat: int) -> dict[str, Any]:
    """Each scheduler at each load."""
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


def show_schedulers(figures: dict[str, Any]) -> None:
    table = figures_table("paper preset", "scheduler, spot load", "CPU-s", "bare replays", "evictions")
    for name, run in figures.items():
        table.add_row(name, f"{run['seconds']:.2f}", f"{run['ratio']:.1f}", f"{run['evictions']:,}")
    console.print(table)
