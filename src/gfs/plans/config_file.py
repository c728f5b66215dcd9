"""The recommendation as a file that `gfs simulate --config` and `gfs live run --config` take as it is."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable

from gfs.assembly.parameters import Value
from gfs.plans.plan import CapacityPlan
from gfs.plans.summary_text import answer_text
from gfs.version import __version__

BARE = re.compile(r"[A-Za-z0-9_-]+")


def config_text(plan: CapacityPlan) -> str:
    """TOML: why, how to use it, the scheduler and parameters of the cluster, then what single pools have of their own.

    What follows from the trace itself (the day that it begins) is left out: a live cluster has another.
    """
    run, derived = plan.chosen.run, {name for name, _ in plan.request.derived}
    seed = f" --seed {run.seed}" if run.seed else ""
    lines = [
        f"Made by gfs plan {__version__} for {run.trace.label}.",
        *textwrap.wrap(answer_text(plan), 100, break_on_hyphens=False),
        f"Try it: gfs simulate --config gfs.toml --jobs JOBS --nodes NODES{seed}",
        "Run it: gfs live run --config gfs.toml",
    ]
    text = [*(f"# {line}" for line in lines), "", f"scheduler = {json.dumps(run.scheduler)}"]
    text += _lines((name, value) for name, value in run.settings if name not in derived)
    for pool in run.pools:
        key = pool.gpu_model if BARE.fullmatch(pool.gpu_model) else json.dumps(pool.gpu_model)
        text += ["", f"[pools.{key}]"]
        text += [f"scheduler = {json.dumps(pool.scheduler)}"] if pool.scheduler else []
        text += _lines(pool.values)
    return "\n".join(text) + "\n"


def _lines(values: Iterable[tuple[str, Value]]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in values]
