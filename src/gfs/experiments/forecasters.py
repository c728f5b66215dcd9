"""The forecasters compared (the paper's tables of accuracy and of quantiles): OrgLinear, networks, plain rules.

The largest series of the demand in a trace or a file are forecast from every hour of the last fifth of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from gfs.batch.job import Job, JobResult, JobResults
from gfs.experiments.evaluations import BANDS, EXTRA, NETWORKS, PAPERS, DemandFile, Evaluation, Source, demand_of
from gfs.experiments.experiment import Experiment, Finding, Section, Setup, paper
from gfs.forecasting.evaluation import Scores
from gfs.forecasting.history import WEEK_HOURS
from gfs.report.figures import HP, band_lines, colours_of, line, missed
from gfs.report.hours import Clock
from gfs.report.page import Block, Chart, Paragraph
from gfs.report.score_columns import BOUNDS, ERRORS
from gfs.report.table import Column, DataTable, Unit, table_of

PLAIN = ("weekly-peak", "persistence", "orgquantile")
"""What the paper's seven are shown with."""
BUDGET = (
    " The networks are trained for half a minute (dlinear) to four minutes (transformer, deepar) of a core;"
    " the four with attention would gain from more."
)
QUICK = "The paper's six networks are left out of a quick reproduction: they take 13 minutes of a core."
BARE = f"The paper's six networks cannot be compared without an extra: pip install 'gfs-scheduler[{EXTRA}]'."


def _source(setup: Setup) -> Source:
    return DemandFile.of(setup.series) if setup.series else setup.trace(setup.medium, setup.seeds[0])


def _evaluations(setup: Setup) -> dict[str, Evaluation]:
    names = (PAPERS, *(() if setup.quick else NETWORKS), *PLAIN)
    source = _source(setup)
    return {name: Evaluation(source, name) for name in names}


def jobs(setup: Setup) -> list[Job]:
    """One per forecaster; a file of demand that cannot be used is refused here, before anything is computed."""
    if setup.series:
        demand_of(DemandFile.of(setup.series))
    return list(_evaluations(setup).values())


def section(setup: Setup, results: JobResults) -> Section:
    """Scores, how OrgLinear stands against the networks here and in the paper, and forecasts beside actual demand."""
    found = {name: results[job] for name, job in _evaluations(setup).items()}
    scores = {name: Scores(**result["scores"]) for name, result in found.items() if "scores" in result}
    shows = (
        "How well HP demand is known four hours before: forecasters are fitted on the first 80% of the hours and"
        " asked at every hour of the rest."
    )
    if PAPERS not in scores:
        return Section(shows, missing=[_sentence(found[PAPERS]["too_short"])])
    beside = setup.given is None
    blocks: list[Block] = [Paragraph(_demand_words(_source(setup), found[PAPERS])), _table(scores)]
    without = "" if set(NETWORKS) <= set(scores) else QUICK if setup.quick else BARE
    if not without:
        blocks.append(_against(scores, beside))
    blocks += [*_bars(scores), *_band_charts(found)]
    return Section(shows, blocks, _findings(scores, without) if beside else (), [without] if without else ())


def _demand_words(source: Source, result: JobResult) -> str:
    """What is forecast."""
    used, every = len(result["series"]), result["of"]
    which = f"the {used} largest of {every} series by GPU-hours" if used < every else f"{used} series"
    kind = "demand in" if isinstance(source, DemandFile) else "HP demand of the trace"
    hours, test = result["hours"], result["test_hours"]
    text = _sentence(f"{kind} {source.label}: {which}, {hours:,} hours, the last {test:,} for the test")
    return text + (" That is less than a week: differences may be chance." if test < WEEK_HOURS else "")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


_BY_SCORE = {column.key: column for column in (*ERRORS, *BOUNDS)}
MSE = Column("MSE", "mse", Unit("GPUs²", digits=1), "lowest", "mean squared error over all series and hours")
SHORTEST = 0.01
"""Seconds: what takes less is drawn like this."""
ACCURACY = (_BY_SCORE["mae"], MSE, _BY_SCORE["rmse"], _BY_SCORE["mape"])
QUANTILES = (replace(_BY_SCORE["maqe_95"], header="0.95-MAQE"), replace(_BY_SCORE["maqe_90"], header="0.9-MAQE"))
"""As the paper calls them."""
TIMES = tuple(replace(_BY_SCORE[score], best=None) for score in ("train_seconds", "predict_ms"))
"""Not marked: what learns nothing is always the fastest."""
BESIDES = tuple(_BY_SCORE[score] for score in ("pinball_95", "coverage_95", "nmae"))
COLUMNS = (*ACCURACY, *QUANTILES, *BESIDES, *TIMES)


def _table(scores: Mapping[str, Scores]) -> DataTable:
    meanings = " ".join(f"{column.header}: {column.help}." for column in COLUMNS)
    budget = BUDGET if set(NETWORKS) & set(scores) else ""
    note = (
        "weekly-peak says the highest demand of the last week, persistence the last"
        f" one; orgquantile is ours.{budget} {meanings}"
    )
    return table_of(["forecaster"], ([name] for name in scores), COLUMNS, scores.values(), note=note)


def _number(column: Column, scores: Scores) -> float:
    return float(getattr(scores, column.key))


class Match(NamedTuple):
    """OrgLinear beside a network in one score."""

    column: Column
    rival: str
    ours: Scores
    """Of OrgLinear."""
    theirs: Scores

    @classmethod
    def of(cls, scores: Mapping[str, Scores], column: Column, rivals: Sequence[str]) -> Match:
        """Against the best of them."""
        rival = min(rivals, key=lambda name: column.distance(_number(column, scores[name])))
        return cls(column, rival, scores[PAPERS], scores[rival])

    @property
    def texts(self) -> tuple[str, str]:
        """Both values."""
        return self.column.text(_number(self.column, self.ours)), self.column.text(_number(self.column, self.theirs))

    @property
    def change(self) -> float:
        """OrgLinear's against the other's: -0.2 is a fifth less."""
        ours, theirs = (self.column.distance(_number(self.column, s)) for s in (self.ours, self.theirs))
        return ours / theirs - 1 if theirs else 0.0


def _matches(scores: Mapping[str, Scores]) -> list[Match]:
    """In accuracy against the best of the six; in quantiles and training, as the paper does, against DeepAR."""
    accuracy = [Match.of(scores, column, NETWORKS) for column in ACCURACY]
    return [*accuracy, *(Match.of(scores, column, ["deepar"]) for column in (*QUANTILES, TIMES[0]))]


def _of_paper(column: Column) -> float:
    """OrgLinear's change against the other in the paper."""
    value = paper()["forecasters"][column.key]
    return float(value["orglinear"] / value["deepar"] - 1 if isinstance(value, dict) else value / 100)


def _change(share: float) -> str:
    return f"{100 * share:+.1f}%"


def _against(scores: Mapping[str, Scores], beside: bool) -> DataTable:
    rows = []
    for match in _matches(scores):
        ours, theirs = match.texts
        row = [match.column.heading, ours, f"{match.rival} {theirs}", _change(match.change)]
        rows.append([*row, *[_change(_of_paper(match.column))] * beside])
    return DataTable(
        ["", PAPERS, "best of the six", "change", *["in the paper"] * beside],
        rows,
        note="OrgLinear against the best of the six networks; in quantiles and training against DeepAR, as in"
        " the paper, which does not say how it computes MAQE. Below 0: OrgLinear is better.",
    )


CLAIMS = {
    "mae": "orglinear has the lowest MAE of the seven",
    "mse": "orglinear has the lowest MSE of the seven",
    "mape": "orglinear has the lowest MAPE of the seven",
    "maqe_95": "0.95-MAQE of orglinear is below deepar's",
    "maqe_90": "0.9-MAQE of orglinear is below deepar's",
    "train_seconds": "orglinear trains faster than deepar",
}
"""What the paper found, by score."""


def _findings(scores: Mapping[str, Scores], without: str) -> list[Finding]:
    if without:
        return [Finding("orglinear beats the paper's six networks", None, without)]
    findings = []
    for match in _matches(scores):
        if match.column.key in CLAIMS:
            ours, theirs = match.texts
            beside = f"here {ours} against {theirs} of {match.rival}, {_change(match.change)}"
            found = f"{beside}; in the paper {_change(_of_paper(match.column))}."
            findings.append(Finding(CLAIMS[match.column.key], match.change < 0, found))
    return findings


def _bars(scores: Mapping[str, Scores]) -> list[Chart]:
    """Error and training time, side by side."""
    names = [name for name in scores if name != "weekly-peak"]  # a bound, far above what is expected
    colours = colours_of(list(scores))

    def chart(title: str, caption: str, column: Column, axis: dict[str, Any], least: float = 0.0) -> Chart:
        values = [max(_number(column, scores[name]), least) for name in names]
        drawn = go.Bar(
            orientation="h",
            y=names,
            x=values,
            text=[column.text(_number(column, scores[name])) for name in names],
            textposition="auto",
            marker_color=[colours[name] for name in names],
            hoverinfo="skip",
        )
        figures = {"title_text": column.heading, **axis}
        layout = go.Layout(xaxis=figures, yaxis_autorange="reversed", showlegend=False)
        return Chart(title, caption, [drawn], layout, height=120 + 28 * len(names), wide=False)

    error, train = _BY_SCORE["nmae"], TIMES[0]
    longest = max(SHORTEST, *(scores[name].train_seconds for name in names))
    times = {"type": "log", "dtick": 1, "range": [np.log10(SHORTEST) - 0.2, np.log10(longest) + 0.2]}
    left_out = f"weekly-peak, a bound rather than an expectation, is off by {error.text(scores['weekly-peak'].nmae)}%"
    return [
        chart("Error", f"The {error.help}. Lower is better; {left_out}.", error, {"rangemode": "tozero"}),
        chart("Training", f"{train.help}, each line ten times the one before.", train, times, SHORTEST),
    ]


def _band_charts(found: Mapping[str, JobResult]) -> list[Chart]:
    """The two that gfs can use on the largest series, to the same scale."""
    bands = [found[name]["band"] for name in BANDS]
    actual = _highest(value for band in bands for value in band["actual"])
    bound = _highest(value for band in bands for value in band["bounds"]["0.95"])
    # with little history a bound may lie so high that nothing else would be seen
    return [_band_chart(name, found[name], 1.05 * max(actual, min(bound, 3 * actual)) or 1.0) for name in BANDS]


def _highest(values: Iterable[float | None]) -> float:
    return max((value for value in values if value is not None), default=0.0)


def _band_chart(name: str, result: JobResult, top: float) -> Chart:
    band, day = result["band"], result["first_day"]
    clock = Clock(date.fromisoformat(day) if day else None)
    x0, actual = clock.at(band["hour"]), band["actual"]
    bounds = {float(p): values for p, values in band["bounds"].items()}
    high = ""
    if _highest(bounds[0.95]) > top:
        high = " Where a band leaves the picture, its bound is far too high, for want of weeks to learn from."
    known = [i for i, value in enumerate(actual) if value is not None]
    above = [i for i in known if actual[i] > bounds[0.95][i]]
    places = [clock.at(band["hour"] + i) for i in above]
    misses = missed(f"above: {len(above)} of {len(known)} h", places, [actual[i] for i in above])
    lines = band_lines(band["expected"], bounds, x0, clock.step, colours_of([name])[name])
    return Chart(
        f"{name}: {result['series'][0]}",
        f"The largest series in the last {len(actual)} hours: what was expected four hours ahead, the"
        " bands up to its 0.9 and 0.95 bounds, and the actual demand. Red: above the 0.95 bound, where 5 of 100 hours"
        f" should be.{high}",
        [*lines, line("actual", actual, x0, clock.step, HP), misses],
        go.Layout(
            hovermode="x unified",
            legend_traceorder="normal",
            xaxis=clock.axis,
            yaxis={"title_text": "GPUs", "range": [0, top]},
        ),
        height=380,
        wide=False,
    )


FORECASTERS = Experiment("forecasters", "Forecasters", jobs, section)
