"""The recommended parameters as a file that `--config` takes."""

from __future__ import annotations

import json
import textwrap

from gfs.plans.plan import Plan
from gfs.plans.words import answer
from gfs.version import __version__


def config_text(plan: Plan) -> str:
    """TOML: why, how to use it, and the parameters that differ from the usual ones or were chosen."""
    run = plan.chosen.run
    seed = f" --seed {run.seed}" if run.seed else ""
    use = f"gfs simulate --scheduler {run.scheduler}{seed} --config gfs.toml --jobs JOBS --nodes NODES"
    lines = [
        f"Made by gfs plan {__version__} for {run.trace.label}.",
        *textwrap.wrap(answer(plan), 100),
        f"Use it: {use}",
    ]
    values = [f"{name} = {json.dumps(value)}" for name, value in run.settings]
    return "\n".join([*(f"# {line}" for line in lines), "", *values]) + "\n"
