"""The figures by which forecasters are judged, and the tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gfs.forecasting.evaluation import Scores
from gfs.report.table import MILLISECONDS, Column, DataTable, Unit, table_of

_OF_DEMAND: Final = Unit("%", digits=2)
_GPUS: Final = Unit("GPUs", digits=2)
_SHARE: Final = Unit("%", 100, 1)
_BARE: Final = Unit(digits=3)
LOWEST: Final = "lowest"

ERRORS: Final = (
    Column("nMAE", "nmae", _OF_DEMAND, LOWEST, "mean absolute error, % of a series' mean demand, mean over the series"),
    Column("MAE", "mae", _GPUS, LOWEST, "mean absolute error over all series and hours"),
    Column("RMSE", "rmse", _GPUS, LOWEST, "root of the mean squared error"),
    Column("MAPE", "mape", Unit("%", digits=1), LOWEST, "mean absolute error, % of actual demand, where there is any"),
    Column("pinball 0.9", "pinball_90", _OF_DEMAND, LOWEST, "loss of the 0.9 bound, % of mean demand"),
    Column("pinball 0.95", "pinball_95", _OF_DEMAND, LOWEST, "loss of the 0.95 bound, % of mean demand"),
    Column("train", "train_seconds", Unit("s", digits=2), LOWEST, "CPU seconds of fitting"),
    Column("forecast", "predict_ms", MILLISECONDS, LOWEST, "time of one forecast of all series, median"),
)
BOUNDS: Final = (
    Column("covered 0.9", "coverage_90", _SHARE, 0.9, "hours at or below the 0.9 bound"),
    Column("covered 0.95", "coverage_95", _SHARE, 0.95, "hours at or below the 0.95 bound"),
    Column("lowest 0.95", "lowest_coverage_95", _SHARE, 0.95, "the same for the series where it is lowest"),
    Column("MAQE 0.9", "maqe_90", _BARE, LOWEST, "mean over the series of |covered share - 0.9|"),
    Column("MAQE 0.95", "maqe_95", _BARE, LOWEST, "mean over the series of |covered share - 0.95|"),
    Column("peak covered", "peak_coverage_95", _SHARE, 0.95, "how often the highest demand was within its 0.95 bound"),
    Column(
        "peak over",
        "over_reserved_95",
        Unit("%", digits=1),
        LOWEST,
        "how far that bound lay above it, % of mean demand: GPUs kept free that nobody asked for",
    ),
)
LEGENDS: Final = {
    ERRORS: "nMAE: mean absolute error in % of mean demand; MAE, RMSE: in GPUs; MAPE: in % of\n"
    "actual demand; pinball: loss of the bound, lower is better",
    BOUNDS: "covered: hours at or below the bound, which should be its probability; lowest:\n"
    "of the worst series; MAQE: mean |covered - probability|; peak: highest demand of\n"
    "the horizon; over: how far its bound lay above it, % of mean demand",
}


def score_tables(scores: Mapping[str, Scores]) -> tuple[DataTable, DataTable]:
    """How far forecasts are off, and whether their bounds hold."""
    return _table("Errors and time", ERRORS, scores), _table("Upper bounds", BOUNDS, scores)


def _table(title: str, columns: Sequence[Column], scores: Mapping[str, Scores]) -> DataTable:
    labels, note = ([name] for name in scores), LEGENDS[tuple(columns)]
    return table_of(["forecaster"], labels, columns, scores.values(), title=title, note=note)
