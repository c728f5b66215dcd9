"""A forecaster on demand that has come already, as a job."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gfs.batch.job import JobResult
from gfs.batch.simulation import Trace, load
from gfs.domain.errors import InputError
from gfs.forecasting.evaluation import SPLIT, Rolled, origins_of_test, roll
from gfs.forecasting.history import WEEK_HOURS, DemandHistory
from gfs.forecasting.registry import find_model
from gfs.forecasting.sources import history_of_workload
from gfs.workloads.readers.demand import read_demand

PAPERS = "orglinear"
NETWORKS = ("transformer", "informer", "autoformer", "fedformer", "dlinear", "deepar")
BANDS = (PAPERS, "orgquantile")
"""Those whose forecasts are drawn."""

MOST_SERIES, WINDOW, HORIZON = 6, 672, 4
EXTRA = "baselines"
PACKAGES = ("torch", "neuralforecast")
"""Of the extra."""
SECONDS = {**dict.fromkeys(NETWORKS, 100.0), "dlinear": 30.0, "deepar": 260.0, "transformer": 255.0}
"""Of a core, about, where it is not a few."""


class DemandFile(NamedTuple):
    """Demand in a file of the user's."""

    path: str
    digest: str
    """Of what is in the file."""

    @classmethod
    def of(cls, path: str) -> DemandFile:
        """Demand in this file; raises InputError if it cannot be read."""
        try:
            return cls(path, hashlib.sha256(Path(path).read_bytes()).hexdigest())
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error

    def identity(self) -> dict[str, Any]:
        """What the demand depends on."""
        return {"digest": self.digest}

    @property
    def label(self) -> str:
        """The name of the file."""
        return Path(self.path).name


Source = Trace | DemandFile


@lru_cache(maxsize=2)
def demand_of(source: Source) -> DemandHistory:
    """All demand of a source, kept for the next forecaster."""
    if isinstance(source, DemandFile):
        return read_demand(source.path).history
    return history_of_workload(load(source))


def largest(history: DemandHistory) -> DemandHistory:
    """The series with the most GPU-hours, the largest first."""
    total = history.gpus.sum(axis=1)
    rows = sorted(range(len(total)), key=lambda row: (-total[row], history.keys[row]))
    return history.only(rows[:MOST_SERIES])


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A forecaster on demand that has come already."""

    demand: Source
    model: str

    @property
    def label(self) -> str:
        """Such as 'forecaster dlinear on paper x2, seed 0'."""
        return f"forecaster {self.model} on {self.demand.label}"

    @property
    def weight(self) -> float:
        """Next to the networks all are quick."""
        return SECONDS.get(self.model, 4.0) if all(installed().values()) else 4.0

    def identity(self) -> dict[str, Any]:
        """Whether the extra is installed belongs to it: installed later, it gives another result."""
        packages = installed() if self.model in NETWORKS else {}
        return {"job": "forecaster", "demand": self.demand.identity(), "model": self.model, "packages": packages}

    def run(self) -> JobResult:
        """Its scores and some of its forecasts, or why there are none."""
        try:
            estimator = find_model(self.model).load(WINDOW)
        except InputError as error:
            return {"unavailable": str(error)}
        try:
            whole = demand_of(self.demand)
            history = largest(whole)
            origins = origins_of_test(history, HORIZON, SPLIT)
            rolled = roll(estimator, history, horizon=HORIZON, split=SPLIT)
            scores = rolled.scores()
        except InputError as error:
            return {"too_short": str(error)}
        return {
            "scores": asdict(scores),
            "series": [str(key) for key in history.keys],
            "of": len(whole.keys),
            "hours": history.hours,
            "test_hours": history.end - origins.start,
            "first_day": history.first_day.isoformat() if history.first_day else None,
            "band": _band(rolled) if self.model in BANDS else None,
        }


def installed() -> dict[str, str]:
    """Versions of the packages of the extra, empty for one that is not there; none of them is imported."""
    found = dict.fromkeys(PACKAGES, "")
    for name in PACKAGES:
        try:
            found[name] = version(name) if find_spec(name) else ""
        except PackageNotFoundError:
            continue
    return found


def _band(rolled: Rolled) -> dict[str, Any]:
    """The largest series in the last week: predicted so many hours before, and actual."""
    known = rolled.counted[0, -WEEK_HOURS:]

    def last(values: Any) -> list[float | None]:
        """A gap where nothing was known of the series yet."""
        week = np.round(values[0, -WEEK_HOURS:, -1], 2).tolist()
        return [value if seen else None for value, seen in zip(week, known, strict=True)]

    return {
        "hour": rolled.start + rolled.actual.shape[1] - len(known) + HORIZON - 1,
        "actual": last(rolled.actual),
        "expected": last(rolled.mean),
        "bounds": {f"{p:g}": last(values) for p, values in rolled.quantiles.items()},
    }
