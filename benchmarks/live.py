"""GFS against kube-scheduler, live: on the bench (a real control plane, KWOK's nodes), one after the other.

    make bench-live                                         # everything, about 16 minutes
    python benchmarks/live.py --only burst --only steady    # some races
    python benchmarks/live.py --small                       # a tenth of the size, to try it
    python benchmarks/live.py --out FILE.json --records DIR # the figures, and the recorded watches

What is measured is judged from recorded watches by `live_judge.py`, which knows no scheduler.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import live_races as races
from bench import source
from live_day import STATIC, day, workload
from live_report import show
from live_track import CONTENDERS, Contender, Track, track
from machine import console, machine

RACES = ("burst", "drain", "steady", "full", "gangs", "limit", "scale", "day")


NOT_IN = {
    "burst": ("kube-gang",),
    "full": ("kube-default",),
    "gangs": ("kube-default",),
    "steady": ("kube-default", "kube-gang"),
    "drain": ("kube-default", "kube-gang"),
}


class Sizes:
    """How large the races are."""

    def __init__(self, small: bool) -> None:
        self.nodes, self.pods, self.throttled = (100, 500, 200) if small else (1000, 5000, 750)
        self.steady_seconds = 10.0 if small else 20.0
        self.full_seconds = 5.0 if small else 20.0
        self.full_nodes = self.gang_nodes = 20 if small else 100
        self.day_nodes, self.day_hours, self.day_seconds = (8, 6.0, 25.0) if small else (24, 24.0, 100.0)
        self.scale: Sequence[int] = (20, 100) if small else (100, 1000)


def run_race(name: str, on: Track, who: Contender, sizes: Sizes) -> list[dict[str, Any]]:
    """One race of one scheduler."""
    match name:
        case "burst":
            races.set_nodes(on, sizes.nodes)
            pods = sizes.throttled if who.name == "kube-default" else sizes.pods  # it would take minutes
            return [races.burst(on, who, pods)]
        case "drain":
            races.set_nodes(on, sizes.nodes)
            return [races.drain(on, who, sizes.pods)]
        case "steady":
            races.set_nodes(on, sizes.nodes)
            return [races.steady(on, who, 50.0, sizes.steady_seconds)]
        case "full":
            races.set_nodes(on, sizes.full_nodes)
            return [races.full(on, who, sizes.full_nodes, sizes.full_seconds)]
        case "gangs":
            races.set_nodes(on, sizes.gang_nodes)
            return [races.gangs(on, who, sizes.gang_nodes)]
    raise AssertionError(name)


def takes_part(name: str, who: Contender) -> bool:
    """Limits change nothing where few requests are sent, gates nothing for single pods."""
    return who.name not in NOT_IN.get(name, ())


def measure(chosen: argparse.Namespace, folder: Path, keep: Callable[[dict[str, Any]], None]) -> None:
    """All races, each on a bench that is new for each scheduler."""
    sizes = Sizes(chosen.small)
    wanted = chosen.only or list(RACES)
    settings = [each.replace("=", " = ", 1) for each in chosen.set]
    for who in [CONTENDERS[name] for name in chosen.scheduler or CONTENDERS]:
        names = [name for name in wanted if name in RACES[:5] and takes_part(name, who)]
        if not names:
            continue
        with track(folder, say, settings) as on:
            for name in names:
                for figures in run_race(name, on, who, sizes):
                    keep(figures)
    if "limit" in wanted or "scale" in wanted:
        with track(folder, say, settings) as on:
            if "limit" in wanted:
                races.set_nodes(on, sizes.nodes)
                keep(races.limit(on, sizes.pods, sizes.nodes))
        if "scale" in wanted:
            for count in chosen.nodes or sizes.scale:
                for name in chosen.scheduler or ("gfs",):
                    with track(folder, say, settings) as on:
                        races.set_nodes(on, count, gpus=16)
                        keep(races.scale(on, CONTENDERS[name], count))
    if "day" in wanted:
        trace = workload(sizes.day_nodes, sizes.day_hours)
        for name in chosen.scheduler or ("kube-gang", "gfs"):
            with track(folder, say, settings) as on:
                keep(day(on, CONTENDERS[name], trace, sizes.day_hours, sizes.day_seconds, chosen.share))


def say(line: str) -> None:
    console.print(f"[dim]{time.strftime('%H:%M:%S')} {line}[/]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=RACES, action="append", help="run only this race")
    parser.add_argument("--scheduler", choices=list(CONTENDERS), action="append", help="only this one")
    parser.add_argument("--nodes", type=int, action="append", help="sizes of the scale race")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="a parameter of GFS, as in TOML"
    )
    parser.add_argument("--share", type=float, default=STATIC, help="static quota of the day (default %(default)s)")
    parser.add_argument("--small", action="store_true", help="a tenth of the size")
    parser.add_argument("--repeat", type=int, default=1, help="how often everything is run (default 1)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--records", type=Path, help="keep the recorded watches and the audit log in this folder")
    chosen = parser.parse_args()
    results: dict[str, Any] = {**machine(), "kubernetes": source.KUBERNETES, "kwok": source.KWOK, "races": []}
    folder = chosen.records or Path(tempfile.mkdtemp(prefix="gfs-race-"))

    def keep(figures: dict[str, Any]) -> None:
        figures["load_average"] = round(os.getloadavg()[0], 1)
        if chosen.set:
            figures["settings"] = chosen.set
        results["races"].append(figures)
        console.print(json.dumps(figures))
        if chosen.out:
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    try:
        for _ in range(chosen.repeat):
            measure(chosen, folder, keep)
    finally:
        if chosen.records is None:
            shutil.rmtree(folder, ignore_errors=True)
    show(results["races"])


if __name__ == "__main__":
    main()
