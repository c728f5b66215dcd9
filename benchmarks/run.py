"""Speed of GFS, as ratios against something measured in the same run.

    make bench                                  # all but the heavy points: some ten minutes
    make bench FULL=1                           # the whole curve and every scheduler as well
    python benchmarks/run.py --only latency     # one of: replay, before, rebuild, year, ...
    python benchmarks/run.py --repeat 5 --out benchmarks/latest.json

Simulations are the least of `--repeat` runs: noise only ever adds time. What is above its limit is marked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import curve
import latency
from before import before, show_before
from live_page import live_page, show_live_page
from loop import loop, show_loop
from machine import console, machine
from page import page, show_page
from picture import draw_curve
from rebuild import rebuild, show_rebuild
from replay import replay, show_replay
from scale import scale, show_scale
from schedulers import schedulers, show_schedulers
from year import show_year, year

Step = Callable[[], None]
SHOW: dict[str, Callable[[Any], None]] = {
    "replay": show_replay,
    "loop": show_loop,
    "before": show_before,
    "rebuild": show_rebuild,
    "year": show_year,
    "scale": show_scale,
    "latency": latency.show_latency,
    "curve": curve.show_curve,
    "page": show_page,
    "live-page": show_live_page,
    "schedulers": show_schedulers,
}
QUICK = ("replay", "loop", "before", "rebuild", "year", "scale", "latency", "curve", "page", "live-page")


def measure(name: str, repeat: int, full: bool, step: Step) -> Any:
    """One suite."""
    match name:
        case "replay":
            return replay(repeat)
        case "loop":
            return loop(repeat)
        case "before":
            return before(repeat)
        case "rebuild":
            return rebuild(repeat)
        case "year":
            return year()
        case "scale":
            return scale(repeat)
        case "latency":
            return latency.latency(step)
        case "page":
            return page(repeat)
        case "live-page":
            return live_page(repeat)
        case "curve":
            return curve.curve(step, curve.FULL if full else curve.QUICK)
        case _:
            return schedulers(repeat)


def steps(name: str, full: bool) -> int | None:
    """How many steps a suite has; None if it does not say."""
    if name == "latency":
        return latency.steps()
    return len(curve.FULL if full else curve.QUICK) if name == "curve" else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(SHOW), action="append", help="run only this suite")
    parser.add_argument("--full", action="store_true", help="the heavy points too: x10 with forecasts, fleet")
    parser.add_argument("--repeat", type=int, default=3, help="times each simulation is measured (default 3)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--picture", type=Path, help="write the curve as SVG")
    chosen = parser.parse_args()
    results: dict[str, Any] = machine()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[at]}"), TimeElapsedColumn())
    for name in chosen.only or (SHOW if chosen.full else QUICK):
        total = steps(name, chosen.full)
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task(name, total=total, at=f"0/{total}" if total else "")

            def step(progress: Progress = progress, bar: Any = bar, total: int | None = total) -> None:
                done = int(progress.tasks[0].completed) + 1
                progress.update(bar, advance=1, at=f"{done}/{total}")

            results[name] = measure(name, chosen.repeat, chosen.full, step)
        SHOW[name](results[name])
        if chosen.out:
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if chosen.picture and "curve" in results:
        draw_curve(results["curve"], chosen.picture)


if __name__ == "__main__":
    main()
