"""The tables of forecasters' scores: one row a forecaster, the best value of every column marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from gfs.forecasting.evaluation import Scores
from gfs.report.score_columns import BOUNDS, ERRORS, ScoreColumn, best_scores
from gfs.report.tables import STAR, marked, narrow_table


def score_tables(rows: Mapping[str, Scores]) -> tuple[Table, Table]:
    """How far forecasts are off, and whether their bounds hold. Each fits a terminal of 80 columns."""
    return _table("Errors and time", ERRORS, rows), _table("Upper bounds", BOUNDS, rows)


def _table(title: str, figures: Sequence[ScoreColumn], rows: Mapping[str, Scores]) -> Table:
    table = narrow_table(title)
    table.caption = f"{STAR} best of its column" if len(rows) > 1 else None
    table.add_column("forecaster", style="bold", no_wrap=True, vertical="bottom")
    every = list(rows.values())
    columns = []
    for figure in figures:
        lines = [*figure.title.split("\n"), *([f"\\[{figure.unit}]"] if figure.unit else [])]
        header = "\n".join(f" {line} " for line in lines)
        table.add_column(header, justify="right", no_wrap=True, vertical="bottom")
        best = best_scores(figure, every)
        columns.append([marked(figure.text(scores), i in best) for i, scores in enumerate(every)])
    for i, name in enumerate(rows):
        table.add_row(Text(name), *(column[i] for column in columns))
    return table
