"""GFS from Python: everything the command line does, as a few typed functions (docs/reference/python-api.md)."""

from gfs.api.forecasting import DemandPrediction, forecast
from gfs.api.inputs import RunInput, config_scheduler, find_schedulers, parse_window, read_input
from gfs.api.planning import PlanOutcome, plan
from gfs.api.simulation import Comparison, SimulationResult, compare, compare_fronts, read_trace, simulate
from gfs.api.sweeping import SweepOutcome, sweep
from gfs.assembly.result import RunResult
from gfs.batch.front import FrontComparison
from gfs.workloads import generate

__all__ = [
    "Comparison", "DemandPrediction", "FrontComparison", "PlanOutcome", "RunInput", "RunResult", "SimulationResult",
    "SweepOutcome", "compare", "compare_fronts", "config_scheduler", "find_schedulers", "forecast", "generate",
    "parse_window", "plan", "read_input", "read_trace", "simulate", "sweep",
]  # fmt: skip
