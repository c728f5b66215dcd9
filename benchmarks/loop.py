"""What the closed loop costs: `paper` at spot x2 with a forecast, in multiples of the same run without a quota."""

from __future__ import annotations

from typing import Any

import gfs
from machine import against, console, figures_table
from simulation import least, simulate

LIMIT = 4.0
LOOPS = (
    ("gfs", "forecast", "orglinear"),
    ("gfs", "forecast", "orgquantile"),
    ("gfs-plus", "forecast", "orglinear"),
    ("gfs-plus", "forecast", "orgquantile"),
    ("gfs-plus", "adaptive", ""),
)


def loop(repeat: int, days: float | None = None) -> list[dict[str, Any]]:
    """Each loop beside the run of its scheduler without a quota, by turns."""
    workload = gfs.generate("paper", seed=0, spot_scale=2, days=days)
    out: list[dict[str, Any]] = []
    for scheduler, quota, forecaster in LOOPS:
        without = least(repeat, lambda s=scheduler: simulate(workload, s, days or 91, "none").seconds)
        closed = least(
            repeat, lambda s=scheduler, q=quota, f=forecaster: simulate(workload, s, days or 91, q, f).seconds
        )
        row = {"scheduler": scheduler, "quota": quota, "forecaster": forecaster, "without": without, "seconds": closed}
        out.append({**row, "ratio": closed / without})
    return out


def show_loop(figures: list[dict[str, Any]]) -> None:
    table = figures_table("paper, spot x2", "scheduler", "quota", "forecaster", "no quota CPU-s", "loop CPU-s", "ratio")
    for row in figures:
        names = row["scheduler"], row["quota"], row["forecaster"]
        table.add_row(*names, f"{row['without']:.2f}", f"{row['seconds']:.2f}", against(row["ratio"], LIMIT))
    console.print(table)
