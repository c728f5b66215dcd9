"""The figures by which forecasters are judged: how they are written, and which value is best.

Shared by the terminal table and the HTML table, so that both always say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gfs.forecasting.evaluation import Scores


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One column: a score, how it is written, and what it should be."""

    title: str
    score: str
    digits: int
    help: str
    unit: str = ""
    scale: float = 1.0
    target: float = 0.0
    """The best value is the one nearest to this."""

    def text(self, scores: Scores) -> str:
        """The score as it is shown."""
        value = self.scale * getattr(scores, self.score)
        after = self.digits if abs(value) < 100 else max(self.digits - 1, 0) if abs(value) < 1000 else 0
        return f"{value:,.{after}f}"

    def distance(self, scores: Scores) -> float:
        """How far the score is from where it should be."""
        return float(abs(getattr(scores, self.score) - self.target))


ERRORS: Final = (
    ScoreColumn("nMAE", "nmae", 2, "Mean absolute error, % of a series' mean demand, mean over the series", "%"),
    ScoreColumn("MAE", "mae", 2, "Mean absolute error over all series and hours", "GPUs"),
    ScoreColumn("RMSE", "rmse", 2, "Root of the mean squared error", "GPUs"),
    ScoreColumn("MAPE", "mape", 1, "Mean absolute error in % of what came; hours of no demand left out", "%"),
    ScoreColumn("pinball\n0.9", "pinball_90", 2, "Loss of the 0.9 bound, % of mean demand", "%"),
    ScoreColumn("pinball\n0.95", "pinball_95", 2, "Loss of the 0.95 bound, % of mean demand", "%"),
    ScoreColumn("train", "train_seconds", 2, "CPU seconds of fitting", "s"),
    ScoreColumn("forecast", "predict_ms", 2, "Time of one forecast of all series, median", "ms"),
)
BOUNDS: Final = (
    ScoreColumn("covered\n0.9", "coverage_90", 1, "Hours at or below the 0.9 bound", "%", 100, 0.9),
    ScoreColumn("covered\n0.95", "coverage_95", 1, "Hours at or below the 0.95 bound", "%", 100, 0.95),
    ScoreColumn("lowest\n0.95", "lowest_coverage_95", 1, "The same for the series where it is lowest", "%", 100, 0.95),
    ScoreColumn("MAQE\n0.9", "maqe_90", 3, "Mean over the series of |covered share - 0.9|"),
    ScoreColumn("MAQE\n0.95", "maqe_95", 3, "Mean over the series of |covered share - 0.95|"),
    ScoreColumn(
        "peak\ncovered",
        "peak_coverage_95",
        1,
        "How often the highest demand of the horizon was at or below its 0.95 bound",
        "%",
        100,
        0.95,
    ),
    ScoreColumn(
        "peak\nover",
        "over_reserved_95",
        1,
        "How far that bound lay above the highest demand, % of mean demand: cards kept free in vain",
        "%",
    ),
)


def best_scores(column: ScoreColumn, rows: Sequence[Scores]) -> frozenset[int]:
    """Rows that read like the best one; none when all read the same."""
    texts = [column.text(scores) for scores in rows]
    if len(set(texts)) < 2:
        return frozenset()
    best = min(range(len(rows)), key=lambda i: column.distance(rows[i]))
    return frozenset(i for i, text in enumerate(texts) if text == texts[best])
