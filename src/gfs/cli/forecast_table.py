"""The tables of `gfs forecast evaluate`: one row a forecaster, the best value of every column marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from gfs.forecasting.evaluation import Scores
from gfs.report.tables import STAR, marked, narrow_table


@dataclass(frozen=True, slots=True)
class Figure:
    """One column: a score, how it is written, and what it should be."""

    title: str
    score: str
    digits: int
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


ERRORS = (
    Figure("nMAE", "nmae", 2, "%"),
    Figure("MAE", "mae", 2, "GPUs"),
    Figure("RMSE", "rmse", 2, "GPUs"),
    Figure("MAPE", "mape", 1, "%"),
    Figure("pinball\n0.9", "pinball_90", 2, "%"),
    Figure("pinball\n0.95", "pinball_95", 2, "%"),
    Figure("train", "train_seconds", 2, "s"),
    Figure("forecast", "predict_ms", 2, "ms"),
)
BOUNDS = (
    Figure("covered\n0.9", "coverage_90", 1, "%", 100, 0.9),
    Figure("covered\n0.95", "coverage_95", 1, "%", 100, 0.95),
    Figure("lowest\n0.95", "lowest_coverage_95", 1, "%", 100, 0.95),
    Figure("MAQE\n0.9", "maqe_90", 3),
    Figure("MAQE\n0.95", "maqe_95", 3),
    Figure("peak\ncovered", "peak_coverage_95", 1, "%", 100, 0.95),
    Figure("peak\nover", "over_reserved_95", 1, "%"),
)


def score_tables(rows: Mapping[str, Scores]) -> tuple[Table, Table]:
    """How far forecasts are off, and whether their bounds hold. Each fits a terminal of 80 columns."""
    return _table("Errors and time", ERRORS, rows), _table("Upper bounds", BOUNDS, rows)


def _table(title: str, figures: Sequence[Figure], rows: Mapping[str, Scores]) -> Table:
    table = narrow_table(title)
    table.caption = f"{STAR} best of its column" if len(rows) > 1 else None
    table.add_column("forecaster", style="bold", no_wrap=True, vertical="bottom")
    every = list(rows.values())
    columns = []
    for figure in figures:
        lines = [*figure.title.split("\n"), *([f"\\[{figure.unit}]"] if figure.unit else [])]
        header = "\n".join(f" {line} " for line in lines)
        table.add_column(header, justify="right", no_wrap=True, vertical="bottom")
        best = _best(figure, every)
        columns.append([marked(figure.text(scores), i in best) for i, scores in enumerate(every)])
    for i, name in enumerate(rows):
        table.add_row(Text(name), *(column[i] for column in columns))
    return table


def _best(figure: Figure, rows: list[Scores]) -> set[int]:
    """Rows that read like the best one; none when all read the same."""
    texts = [figure.text(scores) for scores in rows]
    if len(set(texts)) < 2:
        return set()
    best = min(range(len(rows)), key=lambda i: figure.distance(rows[i]))
    return {i for i, text in enumerate(texts) if text == texts[best]}
