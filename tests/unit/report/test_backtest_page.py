"""The page of a backtest: what is drawn, what is counted, and how much of it."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfs.forecasting.evaluation import Rolled
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.report.backtest import MOST_VALUES, BacktestResult, DrawnPart, share_over_time
from gfs.report.backtest_page import BacktestView, backtest_page

START, ORIGINS, HORIZON = 1000, 400, 2
KEYS = (SeriesKey("", "small"), SeriesKey("", "large"), SeriesKey("", "late"))


def history(first_day: date | None = None) -> DemandHistory:
    """Demand of 10, 100 and 1 GPUs; in hour 1100 all want ten times as much. The last begins in hour 1200."""
    gpus = np.repeat([[10.0], [100.0], [1.0]], START + ORIGINS + HORIZON - 1, axis=1)
    gpus[:, 1100] *= 10
    return DemandHistory(KEYS, gpus, np.array([0, 0, 1200]), 0, first_day)


def rolled(past: DemandHistory, factor: float) -> Rolled:
    """Expected: what is usual; bounds that many times as high."""
    level = past.gpus[:, :1]
    actual = np.stack([past.gpus[:, START + h : START + h + ORIGINS] for h in range(HORIZON)], axis=2)
    mean = np.broadcast_to(level[:, :, None], actual.shape)
    counted = past.first[:, None] < np.arange(START, START + ORIGINS)[None, :]
    bounds = {0.9: factor * mean, 0.95: factor * mean}
    return Rolled(START, actual, mean, bounds, bounds[0.95].max(axis=2), counted, 0.1, 0.2)


def view(top: int = 12, models: tuple[float, ...] = (2.0, 20.0), first_day: date | None = None) -> BacktestView:
    past = history(first_day)
    origins = range(START, START + ORIGINS)
    part = DrawnPart.of(past, origins, HORIZON, top=top, models=len(models))
    results = {f"times-{factor:g}": BacktestResult.of(rolled(past, factor), part) for factor in models}
    return BacktestView(results, past, part, HORIZON, START)


def page_of(of: BacktestView, folder: Path, source: str = "demand.csv") -> str:
    backtest_page(of, source, folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


def figures_of(page: str) -> list[dict[str, Any]]:
    """The figures; what the reader chooses stands in the `meta` of a trace, here among its other properties."""
    found: list[dict[str, Any]] = json.loads(re.findall(r"const figures=(\[.*?\]);\n", page)[0])
    for figure in found:
        figure["data"] = [{**trace, **trace.get("meta", {})} for trace in figure["data"]]
    return found


class TestShown:
    def test_the_largest_first_and_no_more_than_asked_for(self) -> None:
        assert view().part.rows == (1, 0, 2)
        assert view(top=2).part.rows == (1, 0)

    def test_four_of_many_hours_ahead(self) -> None:
        part = DrawnPart.of(history(), range(START, START + 10), 24, top=1, models=1)
        assert part.ahead == (1, 9, 16, 24)

    def test_of_a_long_test_part_the_last_hours(self) -> None:
        """3 values for each of 6 models, 3 series and 4 hours ahead: 216 an hour."""
        many = range(START, START + 40_000)
        part = DrawnPart.of(history(), many, 4, top=12, models=6)
        assert len(part.origins) == MOST_VALUES // 216
        assert part.origins[-1] == many[-1]


class TestCounts:
    def test_share_over_time(self) -> None:
        """336 hours, a miss at 100: the first stretch of a week has it, one from hour 101 on has not."""
        held = np.ones(336, bool)
        held[100] = False
        share = share_over_time(held, np.ones(336, bool))
        assert len(share) == (336 - 168) // 6 + 1
        assert share[0] == pytest.approx(167 / 168)
        assert share[17] == 1.0  # from hour 102
        assert share[16] < 1.0  # from hour 96

    def test_a_day_where_there_are_no_two_weeks_and_nothing_where_there_are_no_two_days(self) -> None:
        assert len(share_over_time(np.ones(60, bool), np.ones(60, bool))) == (60 - 24) // 6 + 1
        assert len(share_over_time(np.ones(47, bool), np.ones(47, bool))) == 0

    def test_what_counts_for_no_one_is_a_gap(self) -> None:
        counted = np.arange(400) >= 200
        share = share_over_time(np.zeros(400, bool), counted)
        assert np.isnan(share[0])
        assert share[-1] == 0.0

    def test_scores_are_of_all_series_and_of_each(self) -> None:
        result = view(top=1).results["times-2"]
        # 2 of 800 cases of each of the first two series; of the third hour 1100 comes before it is known
        assert result.scores.coverage_95 == pytest.approx((2 * (1 - 2 / 800) + 1) / 3)
        assert len(result.by_series) == 1
        assert result.by_series[0] is not None
        assert result.by_series[0].coverage_95 == pytest.approx(1 - 2 / 800)
        assert [s.coverage_95 for s in result.by_ahead] == pytest.approx([(2 * (1 - 1 / 400) + 1) / 3] * 2)
        assert result.drawn.actual.shape == (1, ORIGINS, HORIZON)


class TestPage:
    def test_sections_choices_and_tables(self, tmp_path: Path) -> None:
        page = page_of(view(), tmp_path)
        titles = re.findall(r"<h2>(.*?)</h2>", page)
        assert titles == ["In short", "Bands", "Scores", "Hours ahead", "Series by series"]
        chosen = re.findall(r'data-selector="(\w+)".*?selected>(.*?)<', page)
        assert chosen == [
            ("series", "large"),
            ("model", "times-2"),
            ("ahead", "2 h"),
            ("stretch", "last two weeks"),
        ]
        assert "Of 2 forecasters times-2 has the lowest loss at the 0.95 bound." in page
        assert page.count('class="chart"') == len(figures_of(page)) == 6
        assert len(page) < 6_000_000
        own = re.sub(r"<script>/\*.*?</script>", "", page, count=1, flags=re.S)
        assert "http" not in own

    def test_bands_and_what_was_above_them(self, tmp_path: Path) -> None:
        bands, peaks, *_ = figures_of(page_of(view(), tmp_path))
        names = [trace["name"] for trace in bands["data"][:4]]
        assert names == ["expected", "0.9 bound", "0.95 bound", "actual"]
        bound, came, above = bands["data"][2:]
        assert bound["y"]["pick"] == ["model", "series", "ahead"]
        assert bound["y"]["of"][0][0][1] == [200] * ORIGINS
        assert bound["x0"] == {"pick": ["ahead"], "of": [START, START + 1]}
        assert came["y"]["of"][0][0][100] == 1000
        assert came["y"]["of"][0][1][99] == 1000  # an hour earlier it was two hours ahead
        # Twice the usual is not enough for hour 1100, twenty times is.
        assert above["x"]["of"][0][0] == [[1100], [1100]]
        assert above["name"]["of"][0][0] == ["above: 1 of 400 h", "above: 1 of 400 h"]
        assert above["x"]["of"][1][0] == [[], []]
        # Two origins have hour 1100 among their two hours.
        assert peaks["data"][2]["x"]["of"][0][0] == [1099, 1100]
        assert peaks["data"][2]["name"]["of"][0][0] == "above: 2 of 400 h"

    def test_a_series_that_was_not_known_yet_has_a_gap(self, tmp_path: Path) -> None:
        bands = figures_of(page_of(view(), tmp_path))[0]
        late = bands["data"][2]["y"]["of"][0][2][0]
        assert late[: 1201 - START] == [None] * 201
        assert late[201] == 2
        assert bands["data"][4]["name"]["of"][0][2][0] == "above: 0 of 199 h"

    def test_axes_follow_the_stretch(self, tmp_path: Path) -> None:
        """1050 is a twentieth above 1000; in the last two weeks (336 h) nothing is above 200."""
        bands = figures_of(page_of(view(), tmp_path))[0]
        end = START + ORIGINS + HORIZON - 1
        assert bands["layout"]["meta"]["xaxis.range"]["of"][1] == [end - 336 - 2, end]
        assert bands["layout"]["meta"]["yaxis.range"]["of"][0][0] == [[0, 210], [0, 1050], [0, 1050]]

    def test_what_is_left_out_is_said(self, tmp_path: Path) -> None:
        assert "are drawn (--top N" not in page_of(view(), tmp_path)
        assert "The 1 largest of 3 series are drawn (--top N draws more)" in page_of(view(top=1), tmp_path)

    def test_dates_where_they_are_known(self, tmp_path: Path) -> None:
        page = page_of(view(first_day=date(2024, 1, 1)), tmp_path)
        assert "Fitted once on what came before 2024-02-11 16:00" in page  # hour 1000 = 41 days and 16 hours
        bands = figures_of(page)[0]
        assert bands["data"][0]["x0"]["of"] == ["2024-02-11T16:00", "2024-02-11T17:00"]
        assert bands["data"][0]["dx"] == 3_600_000

    def test_one_forecaster(self, tmp_path: Path) -> None:
        page = page_of(view(models=(2.0,)), tmp_path)
        assert '<p class="lead">times-2 was off by' in page
        assert "★" not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)

    def test_names_cannot_break_the_page(self, tmp_path: Path) -> None:
        evil = "</script><b>x"
        past = history()
        named = DemandHistory((SeriesKey(evil, evil), *KEYS[1:]), past.gpus, past.first)
        of = view()
        page = page_of(BacktestView({evil: of.results["times-2"]}, named, of.part, HORIZON, START), tmp_path, evil)
        assert evil not in page
