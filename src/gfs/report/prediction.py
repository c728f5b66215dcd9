"""What `gfs forecast predict` says: the coming hours of every series, and of all series of a GPU model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gfs.forecasting.forecast import Forecast, TotalForecast
from gfs.forecasting.history import DemandHistory, Floats
from gfs.report.hours import Clock


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """All series of one GPU model together."""

    gpu_model: str
    rows: tuple[int, ...]
    expected: Floats
    """Per hour. Expectations add up; bounds do not."""
    peaks: Mapping[float, float]
    """The bounds of the highest sum; empty if the forecaster knows nothing of sums."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The hours after a history, as a forecaster sees them."""

    model: str
    history: DemandHistory
    expected: Floats
    """Series x hours."""
    bounds: Mapping[float, Floats]
    """Probability -> series x hours, lowest first."""
    peaks: Mapping[float, Floats]
    """Probability -> the bound of the highest demand of all these hours, per series."""
    totals: tuple[Total, ...]
    """Of every GPU model that several series want."""

    @classmethod
    def of(cls, model: str, history: DemandHistory, forecast: Forecast, bounds: Sequence[float]) -> Prediction:
        """Ask a forecast for everything."""
        rising, hours = sorted(bounds), forecast.hours
        expected = forecast.mean()
        pools: dict[str, list[int]] = {}
        for row, key in enumerate(history.keys):
            pools.setdefault(key.gpu_model, []).append(row)
        totals = []
        for gpu_model, rows in sorted(pools.items()):
            if len(rows) < 2:
                continue
            peaks = {}
            if isinstance(forecast, TotalForecast):
                peaks = {p: float(forecast.total_peak_quantile(p, hours, rows)) for p in rising}
            totals.append(Total(gpu_model, tuple(rows), expected[rows].sum(axis=0), peaks))
        return cls(
            model,
            history,
            expected,
            {p: forecast.quantile(p) for p in rising},
            {p: forecast.peak_quantile(p, hours) for p in rising},
            tuple(totals),
        )

    @property
    def hours(self) -> int:
        """How many hours ahead."""
        return int(self.expected.shape[1])

    @property
    def clock(self) -> Clock:
        """What the hours are called."""
        return Clock(self.history.first_day)

    def largest_first(self) -> list[int]:
        """The series by what is expected of them; of equal ones the first by name."""
        means = self.expected.mean(axis=1)
        return sorted(range(len(means)), key=lambda row: (-means[row], self.history.keys[row]))

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for JSON. Series in the order of the history."""
        begin = self.clock.moment(self.history.end)
        series = []
        for row, key in enumerate(self.history.keys):
            series.append(
                {
                    **key._asdict(),
                    "last": self.history.gpus[row, -1],
                    "expected": self.expected[row],
                    "bounds": {f"{p:g}": values[row] for p, values in self.bounds.items()},
                    "peak": {f"{p:g}": values[row] for p, values in self.peaks.items()},
                }
            )
        totals = [
            {
                "gpu_model": total.gpu_model,
                "series": len(total.rows),
                "expected": total.expected,
                "peak": {f"{p:g}": value for p, value in total.peaks.items()} or None,
            }
            for total in self.totals
        ]
        return {
            "model": self.model,
            "first_hour": self.history.end,
            "first_time": begin.isoformat(timespec="minutes") if begin else None,
            "horizon": self.hours,
            "series": series,
            "totals": totals,
        }

    def table(self) -> pa.Table:
        """One row per series and hour: for a file that other programs read."""
        count, hours = self.expected.shape
        numbers = self.history.end + np.arange(hours)
        keys = self.history.keys
        columns: dict[str, Any] = {
            "organization": np.repeat([key.organization for key in keys], hours),
            "gpu_model": np.repeat([key.gpu_model for key in keys], hours),
            "hour": np.tile(numbers, count),
        }
        if any(key.cluster for key in keys):
            columns["cluster"] = np.repeat([key.cluster for key in keys], hours)
        moments = [self.clock.moment(int(hour)) for hour in numbers]
        if all(moments):
            columns["time"] = [moment.isoformat(timespec="minutes") for moment in moments if moment] * count
        columns["hours_ahead"] = np.tile(np.arange(1, hours + 1), count)
        columns["expected"] = self.expected.ravel()
        columns |= {f"bound_{p:g}": values.ravel() for p, values in self.bounds.items()}
        return pa.table({name: pa.array(values) for name, values in columns.items()})
