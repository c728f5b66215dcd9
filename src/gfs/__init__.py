"""GFS: guaranteed and preemptible GPU work on the same cards.

import gfs

result = gfs.simulate("jobs.csv", "nodes.csv", scheduler="gfs")
result.metrics.spot.eviction_rate
result.events.slice(0, 5).to_pylist()

Names are loaded when they are first used, so that `gfs --help` need not wait for NumPy and Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gfs.version import __version__

if TYPE_CHECKING:
    from gfs.api import (
        Comparison,
        DemandPrediction,
        FrontComparison,
        PlanOutcome,
        RunResult,
        SimulationResult,
        SweepOutcome,
        compare,
        compare_fronts,
        forecast,
        generate,
        plan,
        read_trace,
        simulate,
        sweep,
    )
    from gfs.assembly.context import Context, QuotaDefinition
    from gfs.assembly.definitions import Composition, SchedulerDefinition
    from gfs.assembly.parameters import Parameters
    from gfs.assembly.schedulers import SCHEDULERS, schedulers
    from gfs.core.filters.nodes import NodeRule
    from gfs.domain.errors import BadRow, BadRows, GfsError, InputError, InvariantError, StuckError
    from gfs.domain.node import NodeEvent, NodeSpec
    from gfs.domain.task import Priority, Role, Task
    from gfs.domain.workload import Workload

__all__ = [
    "SCHEDULERS", "BadRow", "BadRows", "Comparison", "Composition", "Context", "DemandPrediction", "FrontComparison",
    "GfsError", "InputError", "InvariantError", "NodeEvent", "NodeRule", "NodeSpec", "Parameters", "PlanOutcome",
    "Priority", "QuotaDefinition", "Role", "RunResult", "SchedulerDefinition", "SimulationResult", "StuckError",
    "SweepOutcome", "Task", "Workload", "__version__", "compare", "compare_fronts", "forecast", "generate", "plan",
    "read_trace", "schedulers", "simulate", "sweep",
]  # fmt: skip

if not TYPE_CHECKING:  # a type checker should complain about unknown names, so it must not see this
    _HOMES = {
        "gfs.api": (
            *("Comparison", "DemandPrediction", "FrontComparison", "PlanOutcome"),
            *("RunResult", "SimulationResult", "SweepOutcome"),
            *("compare", "compare_fronts", "forecast", "generate", "plan", "read_trace", "simulate", "sweep"),
        ),
        "gfs.assembly.context": ("Context", "QuotaDefinition"),
        "gfs.assembly.parameters": ("Parameters",),
        "gfs.assembly.definitions": ("Composition", "Recipe", "SchedulerDefinition"),
        "gfs.assembly.schedulers": ("SCHEDULERS", "schedulers"),
        "gfs.domain.errors": ("BadRow", "BadRows", "GfsError", "InputError", "InvariantError", "StuckError"),
        "gfs.domain.node": ("NodeEvent", "NodeSpec"),
        "gfs.core.filters.nodes": ("NodeRule",),
        "gfs.domain.task": ("Priority", "Role", "Task"),
        "gfs.domain.workload": ("Workload",),
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
