"""What experiments measure: means of metrics over seeds, and tables of them beside the paper's values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t

from gfs.batch.job import JobResult
from gfs.report.columns import NOTHING, amount
from gfs.report.table import DataTable


class Mean(NamedTuple):
    """A mean over seeds."""

    value: float
    half: float
    """Half the width of its 95% interval (Student's t); 0 with one seed."""

    def text(self, digits: Callable[[float], str]) -> str:
        """Such as '12.3 ± 1.2'."""
        return digits(self.value) + (f" ± {digits(self.half)}" if self.half else "")

    def apart(self, other: Mean) -> bool:
        """Whether the intervals leave no doubt which is larger."""
        return abs(self.value - other.value) > self.half + other.half


def mean_of(values: Iterable[float]) -> Mean:
    """The mean of a value that differs by seed."""
    numbers = np.asarray(list(values), np.float64)
    if len(numbers) < 2:
        return Mean(float(numbers.mean()), 0.0)
    spread = float(numbers.std(ddof=1)) / np.sqrt(len(numbers))
    return Mean(float(numbers.mean()), float(t.ppf(0.975, len(numbers) - 1) * spread))


def seconds(value: float) -> str:
    """Seconds as the paper prints them, small ones with another digit."""
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def points(share: float) -> str:
    """A share in percent, without the sign."""
    return f"{100 * share:.2f}"


class Quantity(NamedTuple):
    """A metric of runs, as a column of a table."""

    title: str
    path: tuple[str, str]
    """Where it is among the metrics."""
    text: Callable[[float], str]
    key: str = ""
    """Its name among the paper's values; empty: the paper has none."""
    scale: float = 1.0
    """Paper's unit / ours."""

    def of(self, runs: Iterable[JobResult]) -> Mean | None:
        """Its mean over runs; None where a run has none."""
        values = [run["metrics"][self.path[0]][self.path[1]] for run in runs]
        return None if None in values else mean_of(map(float, values))

    def known(self, runs: Iterable[JobResult]) -> Mean:
        """The same where every run has one."""
        mean = self.of(runs)
        assert mean is not None
        return mean


HP_JCT = Quantity("HP JCT [s]", ("hp", "jct_mean"), seconds, "hp_jct")
HP_JQT = Quantity("HP JQT [s]", ("hp", "jqt_mean"), seconds, "hp_jqt")
SPOT_JCT = Quantity("spot JCT [s]", ("spot", "jct_mean"), seconds, "spot_jct")
SPOT_JQT = Quantity("spot JQT [s]", ("spot", "jqt_mean"), seconds, "spot_jqt")
EVICTED = Quantity("evicted [%]", ("spot", "eviction_rate"), points, "evicted", 0.01)
WASTED = Quantity("wasted [GPU-h]", ("spot", "wasted_gpu_hours"), amount)
HIT_RATE = Quantity("guarantee hit rate [%]", ("spot", "guarantee_hit_rate"), points)
BROKEN = Quantity("periods broken [%]", ("spot", "evictions_per_guarantee_period"), points)

COMPARED = (HP_JCT, HP_JQT, SPOT_JCT, SPOT_JQT, EVICTED)
"""Those of the paper's main table."""
OF_SPOT = (SPOT_JQT, EVICTED, WASTED, HIT_RATE, BROKEN)

PaperValues = Mapping[str, Mapping[str, float]]
"""Name of a row -> key of a quantity -> what the paper has there."""


def metric_table(
    first: str,
    found: Mapping[str, Sequence[JobResult]],
    quantities: Sequence[Quantity],
    theirs: PaperValues | None = None,
    **more: Any,
) -> DataTable:
    """Means over the runs of each row, by name; with `theirs` the paper's values beside those that it has."""
    header, rows = [first], [[name] for name in found]
    for q in quantities:
        beside = theirs is not None and q.key != ""
        header += [q.title, *["paper"] * beside]
        for row, runs in zip(rows, found.values(), strict=True):
            mean, value = q.of(runs), (theirs or {}).get(row[0], {}).get(q.key)
            row.append(NOTHING if mean is None else mean.text(q.text))
            row += [NOTHING if value is None else q.text(value * q.scale)] * beside
    return DataTable(header, rows, **more)
