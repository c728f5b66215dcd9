"""The page of `gfs forecast backtest`: forecast bands against actual demand, and how good the forecasters were.

Series, forecaster and hours ahead are for the reader to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from gfs.forecasting.evaluation import Scores
from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, DemandHistory, Floats
from gfs.report.backtest import BOUND, SAMPLED, BacktestResult, DrawnPart, held_up, share_over_time, span_of
from gfs.report.figures import HP, band_lines, colours_of, dashed, line, missed, selectable, zero_based
from gfs.report.hours import Clock
from gfs.report.page import Block, Chart, PageSection, Paragraph, Selected, Selector, SelectorBar, Tile, write_page
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
    write_page(out, f"Forecasts of GPU demand: {source}", _subtitle(of), sections)


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
            Tile("Kept free for nothing", f"{figures.over_reserved_95:.1f}%", "of mean demand, above the peak"),
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


SERIES, MODEL, AHEAD, STRETCH = "series", "model", "ahead", "stretch"
STRETCHES: Final = (("last three days", 3 * DAY_HOURS), ("last two weeks", 2 * WEEK_HOURS), ("everything", 0))


@dataclass(frozen=True, slots=True, eq=False)
class BacktestView:
    """All that the charts are drawn from."""

    results: Mapping[str, BacktestResult]
    history: DemandHistory
    part: DrawnPart
    horizon: int
    start: int
    """Number of the first hour of the test part."""

    @property
    def clock(self) -> Clock:
        """What the hours are called."""
        return Clock(self.history.first_day)

    @property
    def colours(self) -> dict[str, str]:
        """A colour per forecaster."""
        return colours_of(list(self.results))


def selectors(of: BacktestView, best: str) -> SelectorBar:
    """Series, forecaster, hours ahead, and how much of the time is drawn; at first the best on the largest."""
    hours = len(of.part.origins)
    stretches = [name for name, length in STRETCHES if length < hours]
    names = list(of.results)
    return SelectorBar(
        [
            Selector(SERIES, "series, largest first", [str(of.history.keys[row]) for row in of.part.rows]),
            Selector(MODEL, "forecaster", names, names.index(best)),
            Selector(AHEAD, "hours ahead", [f"{h} h" for h in of.part.ahead], len(of.part.ahead) - 1),
            Selector(STRETCH, "shown", stretches, min(1, len(stretches) - 1)),
        ]
    )


def band_chart(of: BacktestView) -> Chart:
    """Actual demand against the bands, as they were known so many hours before."""
    ahead, clock = of.part.ahead, of.clock
    starts = [clock.at(of.part.origins.start + h - 1) for h in ahead]

    def forecasts(values: Callable[[BacktestResult], Floats]) -> Selected:
        """One array for every forecaster, series and hours ahead; a gap where the series was not known yet."""
        each = [(np.where(t.drawn.counted[:, :, None], values(t), np.nan)) for t in of.results.values()]
        return Selected((MODEL, SERIES, AHEAD), [[[row[:, h - 1] for h in ahead] for row in rows] for rows in each])

    def bound(p: float) -> Selected:
        return forecasts(lambda t: t.drawn.quantiles[p])

    bounds = {p: bound(p) for p in (0.9, BOUND)}
    x0 = Selected((AHEAD,), starts)
    bands = band_lines(forecasts(lambda t: t.drawn.mean), bounds, x0, clock.step, _colour(of))
    every = _first(of).drawn.actual
    actual = Selected((SERIES, AHEAD), [[row[:, h - 1] for h in ahead] for row in every])
    misses = [
        [[_misses(of, row[:, h - 1], known, top[:, h - 1], h - 1) for h in ahead] for row, known, top in each]
        for each in (zip(every, t.drawn.counted, t.drawn.quantiles[BOUND], strict=True) for t in of.results.values())
    ]
    return Chart(
        "Forecast bands against actual demand",
        "For every hour what was expected of it so many hours before, the bands up to its 0.9 and 0.95 bounds, and"
        " actual demand. Red: demand was above the 0.95 bound, which should happen in 5 of 100 hours."
        " Drag to zoom, double-click to go back.",
        [*bands, line("actual", actual, x0, clock.step, HP), _marks(misses, MODEL, SERIES, AHEAD)],
        _layout(of, lambda t: np.maximum(t.drawn.actual, t.drawn.quantiles[BOUND]).max(axis=2)),
        height=440,
    )


def peak_chart(of: BacktestView) -> Chart:
    """The highest demand of the horizon against its bound, at every hour as it was known then."""
    clock = of.clock
    start = clock.at(of.part.origins.start)
    tops = _first(of).drawn.actual.max(axis=2)
    bounds = [np.where(t.drawn.counted, t.drawn.peak, np.nan) for t in of.results.values()]
    misses = [
        [
            _misses(of, top, known, bound, 0)
            for top, known, bound in zip(tops, t.drawn.counted, t.drawn.peak, strict=True)
        ]
        for t in of.results.values()
    ]
    name = f"{BOUND:g} bound of the peak"
    bound = line(name, Selected((MODEL, SERIES), bounds), start, clock.step, _colour(of), 1.6)
    actual = line("highest demand", Selected((SERIES,), list(tops)), start, clock.step, HP)
    return Chart(
        f"The highest demand of the next {of.horizon} h",
        f"At every hour: the bound that was given for the highest demand of the {of.horizon} h that follow, and"
        " what it was. Between the two lie GPUs kept free that nobody asked for; red: the bound was too low for a"
        " promise.",
        [actual, bound, _marks(misses, MODEL, SERIES)],
        _layout(of, lambda t: np.maximum(tops, t.drawn.peak)),
        height=340,
    )


def coverage_charts(of: BacktestView) -> list[Chart]:
    """How the share of hours below the bound goes on over time; nothing if the test part is too short."""
    hours = span_of(len(of.part.origins))
    if not hours:
        return []
    span = {WEEK_HOURS: "week", DAY_HOURS: "day"}[hours]
    clock, ahead, colours = of.clock, of.part.ahead, of.colours
    whole = span_of(of.part.origins.stop - of.start)

    def chart(title: str, first: int, values: Callable[[BacktestResult], Selected], words: str) -> Chart:
        x0 = Selected((AHEAD,), [clock.at(first + h - 1) for h in ahead])
        lines = [
            line(name, values(t), x0, SAMPLED * clock.step, colours[name], hovertemplate="%{y:.1f}%")
            for name, t in of.results.items()
        ]
        layout = go.Layout(
            hovermode="x unified",
            xaxis=clock.axis,
            yaxis={"title_text": "covered [%]", "range": [_lowest(lines), 101]},
            shapes=[dashed(y=100 * BOUND)],
        )
        return Chart(title, words, lines, layout, wide=False)

    def of_series(t: BacktestResult) -> Selected:
        held = held_up(t.drawn)
        rows = range(len(of.part.rows))
        shares = [[100 * share_over_time(held[r, :, h - 1], t.drawn.counted[r]) for h in ahead] for r in rows]
        return Selected((SERIES, AHEAD), shares)

    words = f"Share of hours at or below the {BOUND:g} bound in the {span} up to then. Dashed: where it should be."
    return [
        chart("Covered over time: this series", of.part.origins.start + hours - 1, of_series, words),
        chart(
            "Covered over time: all series",
            of.start + whole - 1,
            lambda t: Selected((AHEAD,), [100 * share for share in t.weekly]),
            "The same over all series together. A line that stays below the dashed one: the bound is too low.",
        ),
    ]


def ahead_charts(of: BacktestView) -> list[Chart]:
    """Error and coverage by hours ahead."""

    def chart(
        title: str, words: str, axis: dict[str, Any], value: Callable[[Scores], float], goals: Sequence[float]
    ) -> Chart:
        style = {"mode": "lines+markers", "hovertemplate": "%{y:.1f}%"}
        lines = [
            line(name, [value(s) for s in t.by_ahead], 1, 1, of.colours[name], 2, **style)
            for name, t in of.results.items()
        ]
        ticks = {"dtick": 1} if of.horizon <= 12 else {}
        shapes = [dashed(y=level) for level in goals]
        hours = {"title_text": "hours ahead", **ticks}
        layout = go.Layout(hovermode="x unified", xaxis=hours, yaxis=axis, shapes=shapes)
        return Chart(title, words, lines, layout, wide=False)

    return [
        chart(
            "Error by hours ahead",
            "Mean absolute error in % of the mean demand of a series, averaged over all series. Lower is better.",
            zero_based("nMAE [%]"),
            lambda s: s.nmae,
            (),
        ),
        chart(
            "Covered by hours ahead",
            f"Share of hours at or below the {BOUND:g} bound, mean over all series. Dashed: where it should be.",
            {"title_text": "covered [%]"},
            lambda s: 100 * s.coverage_95,
            (100 * BOUND,),
        ),
    ]


def _first(of: BacktestView) -> BacktestResult:
    return next(iter(of.results.values()))


def _colour(of: BacktestView) -> Selected:
    return Selected((MODEL,), list(of.colours.values()))


def _misses(of: BacktestView, actual: Floats, known: Any, bound: Floats, shift: int) -> tuple[Any, ...]:
    """Where demand was above a bound: how often in words, the hours, the demand."""
    at = np.flatnonzero(known & (actual > bound))
    clock = of.clock
    places = [clock.at(of.part.origins.start + shift + int(i)) for i in at]
    return f"above: {len(at):,} of {int(known.sum()):,} h", places, actual[at]


def _marks(misses: Sequence[Any], *by: str) -> Any:
    """Red points; their number is told in the legend."""

    def each(part: int, inside: Any = misses) -> Any:
        return inside[part] if isinstance(inside, tuple) else [each(part, inner) for inner in inside]

    return missed(*(Selected(by, each(part)) for part in range(3)))


def _layout(of: BacktestView, top: Callable[[BacktestResult], Floats]) -> Any:
    """Axes that follow what is chosen, and keep what was zoomed to when something else changes.

    `top` gives the highest value drawn for a forecaster: series x origins.
    """
    clock, origins = of.clock, of.part.origins
    end = origins.stop - 1 + of.horizon
    lengths = [length or len(origins) for _, length in STRETCHES if length < len(origins)]
    ranges = [[clock.at(end - length - of.horizon), clock.at(end)] for length in lengths]
    tops = [
        [[1.05 * float(row[-length:].max()) or 1.0 for length in lengths] for row in top(result)]
        for result in of.results.values()
    ]
    chosen = (MODEL, SERIES, STRETCH)
    return selectable(
        go.Layout,
        hovermode="x unified",
        legend_traceorder="normal",
        xaxis=clock.axis,
        xaxis_range=Selected((STRETCH,), ranges),
        xaxis_uirevision=Selected((STRETCH,), list(range(len(ranges)))),
        yaxis_title_text="GPUs",
        yaxis_range=Selected(chosen, [[[[0, high] for high in row] for row in rows] for rows in tops]),
        yaxis_uirevision=Selected(chosen, [[[f"{high:g}" for high in row] for row in rows] for rows in tops]),
    )


def _lowest(lines: Sequence[Any]) -> float:
    """Where an axis of shares begins: below the lowest of all lines."""
    values: list[Floats] = []
    for trace in lines:
        inner = trace.meta["y"].of
        values += [array for item in inner for array in (item if isinstance(item, list) else [item])]
    every = np.concatenate(values)
    lowest = float(np.nanmin(every)) if np.isfinite(every).any() else 0.0
    return max(0.0, 5.0 * (lowest // 5) - 2)
