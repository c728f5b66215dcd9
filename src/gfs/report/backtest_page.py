"""The page of `gfs forecast backtest`: forecast bands against actual demand, and how good the forecasters were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gfs.forecasting.evaluation import Scores
from gfs.report.backtest_charts import BacktestView, ahead_charts, band_chart, coverage_charts, peak_chart, selectors
from gfs.report.page import Block, PageSection, Paragraph, Tile, build_page, write_page
from gfs.report.score_columns import BOUNDS, ERRORS, score_tables
from gfs.report.table import Cell, Column, DataTable, Unit


def backtest_page(of: BacktestView, source: str, out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    scores = {name: result.scores for name, result in of.results.items()}
    best = min(scores, key=lambda name: scores[name].pinball_95)
    sections = [
        PageSection("In short", _headline(scores, best, of.horizon)),
        PageSection(
            "Bands", [*_remarks(of), selectors(of, best), band_chart(of), peak_chart(of), *coverage_charts(of)]
        ),
        PageSection("Scores", score_tables(scores)),
    ]
    if of.horizon > 1:
        sections.append(PageSection("Hours ahead", ahead_charts(of)))
    sections.append(PageSection("Series by series", _by_series(of)))
    write_page(build_page(f"Forecasts of GPU demand: {source}", _subtitle(of), sections), out)


def _subtitle(of: BacktestView) -> str:
    clock, origins = of.clock, of.part.origins
    count = len(of.history.keys)
    return (
        f"{count:,} series. Fitted once on what came before {clock.words(of.start)}, then asked at every hour"
        f" until {clock.words(origins.stop - 1)} for the next {of.horizon} h. Forecasters: {', '.join(of.results)}."
    )


def _headline(scores: Mapping[str, Scores], best: str, horizon: int) -> list[Block]:
    figures = scores[best]
    who = best
    if len(scores) > 1:
        who = f"Of {len(scores)} forecasters {best} has the lowest loss at the 0.95 bound. It"
    held = abs(figures.coverage_95 - 0.95) <= 0.015
    kept = abs(figures.peak_coverage_95 - 0.95) <= 0.015
    return [
        Paragraph(
            f"{who} was off by {figures.nmae:.2f}% of mean demand. Its 0.95 bound held in"
            f" {figures.coverage_95:.1%} of the hours, and its bound of the highest demand of {horizon} h in"
            f" {figures.peak_coverage_95:.1%} of the cases; both should be 95%.",
            lead=True,
        ),
        (
            Tile("Error (nMAE)", f"{figures.nmae:.2f}%", "of mean demand"),
            Tile("Covered by the 0.95 bound", f"{figures.coverage_95:.1%}", "should be 95%", held),
            Tile("Peaks covered", f"{figures.peak_coverage_95:.1%}", "should be 95%", kept),
            Tile("Kept free in vain", f"{figures.over_reserved_95:.1f}%", "of mean demand, above the peak"),
        ),
    ]


def _remarks(of: BacktestView) -> list[Paragraph]:
    """What is not drawn."""
    remarks = []
    left_out = len(of.history.keys) - len(of.part.rows)
    if left_out:
        remarks.append(
            f"The {len(of.part.rows)} largest of {len(of.history.keys):,} series are drawn (--top N draws more);"
            " the scores are of all."
        )
    if of.part.origins.start > of.start:
        remarks.append(
            f"Drawn are the last {len(of.part.origins):,} of {of.part.origins.stop - of.start:,} hours, to keep"
            " this page small; the scores are of all."
        )
    if len(of.part.ahead) < of.horizon:
        remarks.append(f"{len(of.part.ahead)} of {of.horizon} hours ahead can be chosen.")
    return [Paragraph(remark) for remark in remarks]


def _by_series(of: BacktestView) -> list[Block]:
    """Error and coverage of every series that is drawn."""
    error, covered = ERRORS[0], BOUNDS[1]
    return [
        Paragraph(
            "The same figures for each series: the error in % of its mean demand, then the share of its hours at"
            " or below the 0.95 bound."
        ),
        _series_table(of, error),
        _series_table(of, covered),
    ]


def _series_table(of: BacktestView, column: Column) -> DataTable:
    """One figure: series below each other, forecasters side by side."""
    rows: list[list[Cell]] = []
    best: set[tuple[int, int]] = set()
    for i, row in enumerate(of.part.rows):
        each = [result.by_series[i] for result in of.results.values()]
        values = [None if scores is None else column.value(scores) for scores in each]
        if None not in values:  # what is known of a series is known to all forecasters
            best |= {(i, j + 1) for j in column.best_rows(values)}
        rows.append([str(of.history.keys[row]), *values])
    names = [Column(name, unit=Unit(scale=column.unit.scale, digits=column.unit.digits)) for name in of.results]
    header = Column(column.heading, help=column.help, left=True)
    return DataTable([header, *names], rows, best=frozenset(best), note=f"{column.header}: {column.help}.")
