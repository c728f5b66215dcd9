"""How far each forecaster is from one that knows the future: the limit of what forecasting better can bring."""

from __future__ import annotations

from gfs.batch.job import Job, JobResults
from gfs.experiments.comparison import SAME_QUOTA
from gfs.experiments.experiment import NO_SPOT, Experiment, Section, Setup, without_spot
from gfs.experiments.jobs import Simulation, month
from gfs.experiments.quantities import points, seconds
from gfs.forecasting.perfect import PERFECT
from gfs.report.columns import NOTHING, amount
from gfs.report.page import Block
from gfs.report.table import DataTable

FORECASTERS = ("weekly-peak", "persistence", "orglinear", "orgquantile", PERFECT)
SCHEDULERS = ("gfs", "gfs-plus")
SHOWS = (
    "Two task schedulers with a quota that is the forecast and nothing else (p = 0.9, organizations independent, no"
    " feedback), by who forecasts. perfect sees the true HP demand of the coming hours, which only a simulation can. A"
    " bound that is too wide evicts less and waits longer, so both distances count together. 28 days, one seed."
)


def _loads(setup: Setup) -> tuple[str, ...]:
    return (setup.medium,) if setup.quick else setup.loads[1:] or setup.loads


def _run(setup: Setup, scheduler: str, load: str, forecaster: str) -> Simulation:
    settings = (*SAME_QUOTA, ("forecaster", forecaster))
    return Simulation(month(setup.trace(load, setup.seeds[0])), scheduler, setup.seeds[0], settings)


def jobs(setup: Setup) -> list[Job]:
    """Every forecaster under both schedulers at the loads where something is contended."""
    return [
        _run(setup, scheduler, load, forecaster)
        for load in _loads(setup)
        for scheduler in SCHEDULERS
        for forecaster in FORECASTERS
    ]


def section(setup: Setup, results: JobResults) -> Section:
    """A table per load."""
    if without_spot(results[_run(setup, "gfs", _loads(setup)[0], PERFECT)]):
        return Section(SHOWS, missing=[NO_SPOT])
    blocks: list[Block] = [_table(setup, results, load) for load in _loads(setup)]
    return Section(SHOWS, blocks)


def _table(setup: Setup, results: JobResults, load: str) -> DataTable:
    rows = []
    for scheduler in SCHEDULERS:
        limit = results[_run(setup, scheduler, load, PERFECT)]["metrics"]["spot"]
        for forecaster in FORECASTERS:
            mine = results[_run(setup, scheduler, load, forecaster)]["metrics"]["spot"]
            row = [scheduler, forecaster, seconds(mine["jqt_mean"])]
            row += [points(mine["eviction_rate"]), amount(mine["wasted_gpu_hours"])]
            if forecaster == PERFECT:
                row += [NOTHING, NOTHING]
            else:
                row.append(f"{mine['jqt_mean'] - limit['jqt_mean']:+,.0f}")
                row.append(f"{100 * (mine['eviction_rate'] - limit['eviction_rate']):+.2f}")
            rows.append(row)
    header = ["scheduler", "forecaster", "spot JQT [s]", "evicted [%]", "wasted [GPU-h]"]
    header += ["JQT beyond perfect [s]", "evicted beyond perfect [points]"]
    return DataTable(header, rows, names=2, note=f"Spot load {load}." if setup.given is None else "")


FORECAST_LIMIT = Experiment("forecast-limit", "Distance from a perfect forecast", jobs, section)
