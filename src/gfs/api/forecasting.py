"""Forecast demand from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gfs.api.frames import Frames
from gfs.api.inputs import Source
from gfs.assembly.result import RunResult
from gfs.domain.errors import InputError
from gfs.domain.text import suggestion
from gfs.domain.workload import Workload
from gfs.forecasting.forecast import Estimator
from gfs.forecasting.history import DemandHistory
from gfs.forecasting.registry import as_estimator, find_model
from gfs.forecasting.sources import history_of_events, history_of_workload
from gfs.workloads import read_trace
from gfs.workloads.readers.demand import read_demand
from gfs.workloads.readers.tables import TableSource

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from gfs.report.prediction import Prediction


@dataclass(frozen=True, slots=True, eq=False)
class DemandPrediction(Frames):
    """The demand of the coming hours of every organization and GPU model."""

    prediction: Prediction

    def to_arrow(self, table: str = "") -> pa.Table:
        """A row per series and hour: what is expected, and the bounds."""
        if table not in ("", "hours"):
            raise InputError(f"unknown table {table!r}: there is hours")
        return self.prediction.table()

    def summary(self) -> dict[str, Any]:
        """The numbers of `gfs forecast predict --json`."""
        return self.prediction.to_dict()

    def plot(self, series: str = "") -> Figure:
        """Recent demand and the coming hours of one series ('org-57 A100'), or of the largest: a figure of Plotly."""
        from gfs.report.plots import figure_of
        from gfs.report.prediction_page import prediction_chart

        rows = {str(key): row for row, key in enumerate(self.prediction.history.keys)}
        if series and series not in rows:
            raise InputError(f"there is no series {series!r}: {suggestion(series, rows)}")
        row = rows[series] if series else self.prediction.largest_first()[0]
        figure = figure_of(prediction_chart(self.prediction, [row]))
        return figure.update_layout(title_text=f"Demand: {self.prediction.history.keys[row]}")

    def __repr__(self) -> str:
        said = self.prediction
        return f"<DemandPrediction: {len(said.history.keys):,} series, {said.hours} hours ahead, by {said.model}>"

    def _repr_html_(self) -> str:
        """The largest series as a table."""
        from gfs.report.page import table_html
        from gfs.report.prediction_table import prediction_table

        return table_html(prediction_table(self.prediction, 8))


def forecast(
    demand: Source | RunResult,
    nodes: TableSource | None = None,
    *,
    model: str | Estimator = "orgquantile",
    hours: int = 4,
    bounds: Sequence[float] = (0.9, 0.95),
    window: int | None = None,
    country: str = "",
    first_day: date | str | None = None,
    skip_bad_rows: bool = False,
) -> DemandPrediction:
    """Forecast the HP demand of the next hours, per organization and GPU model.

    `demand` is a table of hourly demand (docs/reference/files.md#demand: a path, an Arrow table, a frame); or a
    workload, or a table of jobs together with `nodes`; or a result, of which the event log counts. `model` is the name
    of a forecaster, or an estimator of your own. Demand should stay at or below each of `bounds` with this probability.
    """
    from gfs.report.prediction import Prediction

    if hours < 1:
        raise InputError(f"hours = {hours}: must be 1 or more")
    if not bounds or not all(0 < p < 1 for p in bounds):
        raise InputError(f"bounds = {tuple(bounds)}: give probabilities between 0 and 1, such as (0.9, 0.95)")
    estimator = find_model(model).load(window, country) if isinstance(model, str) else as_estimator(model)
    history = _history(demand, nodes, skip_bad_rows)
    if first_day is not None:
        day = date.fromisoformat(first_day) if isinstance(first_day, str) else first_day
        if history.first_day not in (None, day):
            raise InputError(
                f"first_day = {day}: the demand has dates already, from {history.first_day} on; leave it out"
            )
        history = replace(history, first_day=day)
    said = estimator.fit(history).predict(history, hours)
    return DemandPrediction(Prediction.of(estimator.name, history, said, bounds))


def _history(demand: Source | RunResult, nodes: TableSource | None, skip_bad_rows: bool) -> DemandHistory:
    if isinstance(demand, Workload | RunResult):
        if nodes is not None:
            raise InputError("a workload or a result brings its own nodes: leave them out")
        return history_of_workload(demand) if isinstance(demand, Workload) else history_of_events(demand.events)
    if nodes is None:
        return read_demand(demand, skip_bad_rows=skip_bad_rows).history
    read = read_trace(demand, nodes, skip_bad_rows=skip_bad_rows)
    return replace(history_of_workload(read.workload), first_day=read.first_day)
