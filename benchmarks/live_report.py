"""The figures of the races as tables, goals beside them; what misses its goal is marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from machine import console, figures_table

Figures = dict[str, Any]
COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    "burst": (("bound_per_second", "pods/s"), ("bound", "bound"), ("wait_p99", "p99 wait s")),
    "drain": (("drained_per_second", "pods/s"), ("bound", "bound")),
    "steady": (("wait_p50", "p50 s"), ("wait_p99", "p99 s"), ("bound", "bound")),
    "full": (
        ("evicted", "evicted"), ("tasks_evicted", "tasks"), ("lost_their_work", "lost work"),
        ("lost_gpu_hours", "lost GPU-h"),
        ("hp_wait_mean", "HP wait s"), ("hp_wait_p99", "p99"), ("hp_never_bound", "never"),
    ),
    "gangs": (
        ("gangs_whole", "whole"), ("bound_gpus", "GPUs"), ("gangs_half_placed", "half"),
        ("half_placed_gpu_seconds", "GPU-s held"),
    ),
    "scale": (("bound_per_second", "pods/s"), ("probe_wait_p50", "lag s"), ("probe_wait_max", "max")),
    "day": (
        ("eviction_rate", "evicted %"), ("allocation", "allocated %"), ("useful_gpu_hours", "useful GPU-h"),
        ("lost_gpu_hours", "lost GPU-h"), ("hp_wait_mean", "HP wait s"), ("tasks_finished", "finished"),
    ),
    "limit": (("created_per_second", "created/s"), ("bound_per_second", "bound/s")),
}  # fmt: skip
COST = (("requests_per_pod", "requests/pod"), ("cpu_ms_per_pod", "CPU ms/pod"), ("peak_mib", "MiB"))


def show(races: Sequence[Figures]) -> None:
    """One table a race, and the goals."""
    for kind, columns in COLUMNS.items():
        rows = [row for row in races if row["race"].partition("-")[0] == kind]
        if not rows:
            continue
        columns = columns if kind == "limit" else (*columns, *COST)
        table = figures_table(kind, "scheduler", *(title for _, title in columns))
        for row in rows:
            name = row["scheduler"] + (f", {row['nodes']} nodes" if "nodes" in row else "")
            table.add_row(name, *(f"{row[key]:,g}" for key, _ in columns))
        console.print(table, "")
    for line in goals(races):
        console.print(line)


def _slowness(row: Figures) -> float:
    """Of several runs the quickest counts, of any scheduler: noise only ever adds time."""
    if row["race"] in ("burst", "drain"):
        return -float(row["drained_per_second"])
    return float(row["wait_p99"]) if row["race"] == "steady" else 0.0


def goals(races: Sequence[Figures]) -> list[str]:
    """What was to be reached, and whether it was."""
    by: dict[tuple[str, str], Figures] = {}
    for row in races:
        known = by.get((row["race"], row["scheduler"]))
        if known is None or _slowness(row) <= _slowness(known):
            by[row["race"], row["scheduler"]] = row
    told: list[str] = []

    def tell(what: str, ours: float, bound: float, *, at_least: bool = False) -> None:
        met = ours >= bound if at_least else ours <= bound
        word = "[green]met[/]" if met else "[bold red]MISSED[/]"
        told.append(f"{word}: {what}: {ours:,g} ({'at least' if at_least else 'at most'} {bound:,g})")

    ours = by.get(("burst", "gfs"))
    if ours and (other := by.get(("burst", "kube-unthrottled"))):
        tell("pods bound per second", ours["bound_per_second"], other["bound_per_second"], at_least=True)
    ours = by.get(("drain", "gfs"))
    if ours and (other := by.get(("drain", "kube-unthrottled"))):
        what = "pods bound per second, all there before"
        tell(what, ours["drained_per_second"], other["drained_per_second"], at_least=True)
    if ours := by.get(("steady", "gfs")):
        tell("seconds from creation to binding, p99 at 50 pods/s", ours["wait_p99"], 0.1)
    ours = by.get(("full", "gfs"))
    for name in ("kube-unthrottled", "kube-gang"):
        if ours and (other := by.get(("full", name))):
            tell(f"spot tasks evicted, against {name}", ours["tasks_evicted"], 0.6 * other["tasks_evicted"])
            tell(f"spot pods evicted, against {name}", ours["evicted"], 0.6 * other["evicted"])
            tell(f"lost GPU-hours, against {name}", ours["lost_gpu_hours"], 0.4 * other["lost_gpu_hours"])
            tell(f"mean HP wait, against {name}", ours["hp_wait_mean"], other["hp_wait_mean"])
    if ours := by.get(("gangs", "gfs")):
        tell("gangs half placed", ours["gangs_half_placed"], 0)
    return told
