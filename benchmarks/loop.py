"""What the closed loop costs: 91 days of `paper` with a forecast, in multiples of the same run without a quota.

At spot x1 as well as x2: the less there is to schedule, the more the loop weighs.
"""

from __future__ import annotations

from typing import Any

import gfs
from machine import against, console, figures_table
from simulation import least, simulate

LIMIT = 4.0
SCALES = (1, 2)
LOOPS = (
    ("gfs", "forecast", "orglinear"),
    ("gfs", "forecast", "orgquantile"),
    ("gfs-plus", "forecast", "orglinear"),
    ("gfs-plus", "forecast", "orgquantile"),
    ("gfs-plus", "adaptive", ""),
)


def loop(repeat: int, days: float | None = None) -> list[dict[str, Any]]:
    """Each loop beside the run of its scheduler without a quota, by turns."""
    out: list[dict[str, Any]] = []
    for scale in SCALES:
        workload = gfs.generate("paper", seed=0, spot_scale=scale, days=days)
        for scheduler, quota, forecaster in LOOPS:
            names = {"spot": scale, "scheduler": scheduler, "quota": quota, "forecaster": forecaster}
            turns = [
                least(1, lambda s=scheduler, q=q, f=f, w=workload: simulate(w, s, days or 91, q, f).seconds)
                for _ in range(repeat)
                for q, f in (("none", ""), (quota, forecaster))
            ]
            without, closed = min(turns[::2]), min(turns[1::2])
            out.append({**names, "without": without, "seconds": closed, "ratio": closed / without})
    return out


def show_loop(figures: list[dict[str, Any]]) -> None:
    columns = "spot", "scheduler", "quota", "forecaster", "no quota CPU-s", "loop CPU-s", "ratio"
    table = figures_table("paper", *columns)
    for row in figures:
        names = f"x{row['spot']}", row["scheduler"], row["quota"], row["forecaster"]
        table.add_row(*names, f"{row['without']:.2f}", f"{row['seconds']:.2f}", against(row["ratio"], LIMIT))
    console.print(table)
