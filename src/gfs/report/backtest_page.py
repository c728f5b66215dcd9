"""The page of `gfs forecast backtest`: forecast bands against what came, and how good the forecasters were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gfs.forecasting.evaluation import Scores
from gfs.report.backtest_charts import Drawing, ahead_charts, band_chart, chooser, coverage_charts, peak_chart
from gfs.report.columns import NOTHING
from gfs.report.page import Block, DataTable, Figure, Section, Words, build_page, write_page
from gfs.report.score_columns import BOUNDS, ERRORS, ScoreColumn, best_scores


def backtest_page(of: Drawing, source: str, out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    scores = {name: tried.scores for name, tried in of.tried.items()}
    best = min(scores, key=lambda name: scores[name].pinball_95)
    sections = [
        Section("In short", _headline(scores, best, of.horizon)),
        Section("Bands", [*_remarks(of), chooser(of, best), band_chart(of), peak_chart(of), *coverage_charts(of)]),
        Section("Scores", [_table(ERRORS, scores), _table(BOUNDS, scores)]),
    ]
    if of.horizon > 1:
        sections.append(Section("Hours ahead", ahead_charts(of)))
    sections.append(Section("Series by series", _by_series(of)))
    write_page(build_page(f"Forecasts of GPU demand: {source}", _subtitle(of), sections), out)


def _subtitle(of: Drawing) -> str:
    clock, origins = of.clock, of.shown.origins
    count = len(of.history.keys)
    return (
        f"{count:,} series. Fitted once on what came before {clock.words(of.start)}, then asked at every hour"
        f" until {clock.words(origins.stop - 1)} for the next {of.horizon} h. Forecasters: {', '.join(of.tried)}."
    )


def _headline(scores: Mapping[str, Scores], best: str, horizon: int) -> list[Block]:
    figures = scores[best]
    who = best
    if len(scores) > 1:
        who = f"Of {len(scores)} forecasters {best} has the lowest loss at the 0.95 bound. It"
    held = abs(figures.coverage_95 - 0.95) <= 0.015
    kept = abs(figures.peak_coverage_95 - 0.95) <= 0.015
    return [
        Words(
            f"{who} was off by {figures.nmae:.2f}% of mean demand. Its 0.95 bound held in"
            f" {figures.coverage_95:.1%} of the hours, and its bound of the highest demand of {horizon} h in"
            f" {figures.peak_coverage_95:.1%} of the cases; both should be 95%.",
            lead=True,
        ),
        (
            Figure("Error (nMAE)", f"{figures.nmae:.2f}%", "of mean demand"),
            Figure("Covered by the 0.95 bound", f"{figures.coverage_95:.1%}", "should be 95%", held),
            Figure("Peaks covered", f"{figures.peak_coverage_95:.1%}", "should be 95%", kept),
            Figure("Kept free in vain", f"{figures.over_reserved_95:.1f}%", "of mean demand, above the peak"),
        ),
    ]


def _remarks(of: Drawing) -> list[Words]:
    """What is not drawn."""
    remarks = []
    left_out = len(of.history.keys) - len(of.shown.rows)
    if left_out:
        remarks.append(
            f"The {len(of.shown.rows)} largest of {len(of.history.keys):,} series are drawn (--top N draws more);"
            " the scores are of all."
        )
    if of.shown.origins.start > of.start:
        remarks.append(
            f"Drawn are the last {len(of.shown.origins):,} of {of.shown.origins.stop - of.start:,} hours, to keep"
            " this page small; the scores are of all."
        )
    if len(of.shown.ahead) < of.horizon:
        remarks.append(f"{len(of.shown.ahead)} of {of.horizon} hours ahead can be chosen.")
    return [Words(remark) for remark in remarks]


def _table(columns: Sequence[ScoreColumn], scores: Mapping[str, Scores]) -> DataTable:
    every = list(scores.values())
    titles = [column.title.replace("\n", " ") for column in columns]
    return DataTable(
        header=["forecaster", *(f"{t} [{c.unit}]" if c.unit else t for t, c in zip(titles, columns, strict=True))],
        rows=[[name, *(column.text(figures) for column in columns)] for name, figures in scores.items()],
        best=frozenset((i, j) for j, column in enumerate(columns, 1) for i in best_scores(column, every)),
        hints=["", *(column.help for column in columns)],
        note=" ".join(f"{title}: {column.help}." for title, column in zip(titles, columns, strict=True)),
    )


def _by_series(of: Drawing) -> list[Block]:
    """Error and coverage of every series that is drawn."""
    error, covered = ERRORS[0], BOUNDS[1]
    return [
        Words(
            "The same figures for each series: the error in % of its mean demand, then the share of its hours at"
            " or below the 0.95 bound."
        ),
        _series_table(of, error),
        _series_table(of, covered),
    ]


def _series_table(of: Drawing, column: ScoreColumn) -> DataTable:
    rows, best = [], set()
    for i, row in enumerate(of.shown.rows):
        each = [tried.by_series[i] for tried in of.tried.values()]
        known = [figures for figures in each if figures is not None]
        if len(known) == len(each):  # what is known of a series is known to all forecasters
            best |= {(i, j + 1) for j in best_scores(column, known)}
        texts = [NOTHING if figures is None else column.text(figures) for figures in each]
        rows.append([str(of.history.keys[row]), *texts])
    title = column.title.replace("\n", " ")
    return DataTable(
        header=[f"{title} [{column.unit}]", *of.tried], rows=rows, best=frozenset(best), note=f"{column.help}."
    )
