"""What `gfs forecast predict` says of the coming hours: numbers, table, small plots and page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gfs.forecasting.forecast import NormalForecast
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.report.prediction import Prediction
from gfs.report.prediction_page import MOST_SERIES, prediction_page
from gfs.report.prediction_table import plot_key, prediction_table, shown_hours, text_plot
from gfs.report.table import DataTable
from gfs.report.terminal import TerminalTable

KEYS = (SeriesKey("ads", "A100"), SeriesKey("search", "A100"), SeriesKey("ads", "A10"))
MU = np.array([[10.0, 12.0], [200.0, 210.0], [30.0, 20.0]])


class Joint(NormalForecast):
    """Also says that the sum of series stays at or below 1000 p."""

    def total_peak_quantile(self, p: float, hours: int, rows: Sequence[int]) -> float:
        assert (hours, list(rows)) == (2, [0, 1])
        return 1000 * p


def history(first_day: date | None = None, keys: tuple[SeriesKey, ...] = KEYS) -> DemandHistory:
    """48 hours of 8, 180 and 25 GPUs."""
    rows = [[level] * 48 for level in (8.0, 180.0, 25.0)]
    gpus = np.array([rows[i % 3] for i in range(len(keys))])
    return DemandHistory(keys, gpus, np.zeros(len(keys), np.int64), 0, first_day)


def prediction(kind: type[NormalForecast] = Joint, first_day: date | None = None) -> Prediction:
    """Expected MU; with a deviation of 10 GPUs the 0.9 bound is 12.8 above it, the 0.95 bound 16.4."""
    return Prediction.of("ours", history(first_day), kind(KEYS, MU, np.full(MU.shape, 10.0)), (0.95, 0.9))


def printed(*things: Any) -> str:
    console = Console(width=80, no_color=True, highlight=False)
    with console.capture() as capture:
        for thing in things:
            console.print(TerminalTable(thing) if isinstance(thing, DataTable) else thing)
    return capture.get()


class TestNumbers:
    def test_bounds_rise_and_peaks_are_of_the_whole_horizon(self) -> None:
        said = prediction()
        assert list(said.bounds) == [0.9, 0.95]
        assert said.bounds[0.9][0] == pytest.approx([22.816, 24.816], abs=0.001)
        assert said.peaks[0.95] == pytest.approx([28.449, 226.449, 46.449], abs=0.001)

    def test_the_largest_come_first_and_equals_by_name(self) -> None:
        assert prediction().largest_first() == [1, 2, 0]
        flat = NormalForecast(KEYS, np.ones((3, 2)), np.ones((3, 2)))
        assert Prediction.of("x", history(), flat, (0.9,)).largest_first() == [2, 0, 1]  # ads on A10 before A100

    def test_a_total_of_every_model_that_several_want(self) -> None:
        (total,) = prediction().totals
        assert (total.gpu_model, total.rows) == ("A100", (0, 1))
        assert total.expected.tolist() == [210.0, 222.0]
        assert total.peaks == {0.9: 900.0, 0.95: 950.0}
        assert prediction(NormalForecast).totals[0].peaks == {}

    def test_json(self) -> None:
        said = prediction(first_day=date(2024, 4, 1)).to_dict()
        assert (said["first_hour"], said["first_time"], said["horizon"]) == (48, "2024-04-03T00:00", 2)
        first = said["series"][0]
        assert (first["organization"], first["gpu_model"], first["last"]) == ("ads", "A100", 8.0)
        assert set(first["bounds"]) == set(first["peak"]) == {"0.9", "0.95"}
        assert said["totals"][0]["peak"] == {"0.9": 900.0, "0.95": 950.0}
        assert prediction(NormalForecast).to_dict()["totals"][0]["peak"] is None
        assert prediction().to_dict()["first_time"] is None

    def test_a_row_for_every_series_and_hour(self) -> None:
        table = prediction().table()
        assert table.column_names == [
            *("organization", "gpu_model", "hour", "hours_ahead", "expected", "bound_0.9", "bound_0.95")
        ]
        assert table["hour"].to_pylist() == [48, 49] * 3
        assert table["hours_ahead"].to_pylist() == [1, 2] * 3
        assert table["gpu_model"].to_pylist() == ["A100"] * 4 + ["A10"] * 2
        assert table["expected"].to_pylist() == [10, 12, 200, 210, 30, 20]
        dated = prediction(first_day=date(2024, 4, 1)).table()
        assert dated["time"].to_pylist()[:2] == ["2024-04-03T00:00", "2024-04-03T01:00"]


class TestTable:
    def test_it_reads_like_this(self) -> None:
        lines = [line.split() for line in printed(prediction_table(prediction(), top=2)).splitlines()]
        assert ["+1", "h", "+2", "h"] in lines
        assert ["series", "[GPUs]", "[GPUs]", "[GPUs]", "[GPUs]"] in lines
        at = lines.index(["search", "on", "A100", "expected", "180", "200", "210"])
        assert lines[at + 1] == ["0.9", "bound", "213", "223", "223"]
        assert lines[at + 2] == ["0.95", "bound", "216", "226", "226"]
        assert ["ads", "on", "A10", "expected", "25.0", "30.0", "20.0"] in lines
        assert not [line for line in lines if line[:3] == ["ads", "on", "A100"]]
        assert ["all", "2", "on", "A100", "expected", "188", "210", "222"] in lines
        assert ["0.95", "bound", "–", "–", "950"] in lines

    def test_it_says_what_is_left_out(self) -> None:
        text = printed(prediction_table(prediction(), top=2))
        assert "... and 1 smaller series; --top N shows more" in text
        assert "smaller series" not in printed(prediction_table(prediction(), top=3))
        assert "ours knows no bound of a sum" in printed(prediction_table(prediction(NormalForecast), top=3))

    def test_hours_of_the_clock_where_dates_are_known(self) -> None:
        text = printed(prediction_table(prediction(first_day=date(2024, 4, 1)), top=3))
        assert "04-03 00:00" in text
        assert "04-03 01:00" in text

    @pytest.mark.parametrize(
        ("hours", "shown"), [(1, [1]), (4, [1, 2, 3, 4]), (6, [1, 2, 3, 4, 5, 6]), (24, [1, 6, 10, 15, 19, 24])]
    )
    def test_a_long_horizon_is_thinned_out(self, hours: int, shown: list[int]) -> None:
        assert shown_hours(hours) == shown

    def test_a_long_name_keeps_to_80_columns(self) -> None:
        keys = (SeriesKey("a-very-long-name-of-an-organization-in-[brackets]", "A100-SXM4-80GB"),)
        long = NormalForecast(keys, np.full((1, 6), 12_345.0), np.full((1, 6), 100.0))
        said = Prediction.of("x", history(keys=keys), long, (0.9, 0.95))
        text = printed(prediction_table(said, 1))
        assert all(len(line) <= 80 for line in text.splitlines())
        assert "12,345" in text
        assert "…" not in text


class TestPlot:
    def test_bars_of_what_came_and_shades_of_what_comes(self) -> None:
        """From 0 to 40, the highest bound, in 4 lines: 10 GPUs a line.

        A day rises by 5 every 6 hours: half a line, one, one and a half, two. Then 20 are expected, 30 and 40
        are the bounds: two lines of bar, one of each shade.
        """
        rising = np.repeat([5.0, 10.0, 15.0, 20.0], 6)[None, :]
        key = (SeriesKey("", "A10"),)
        past = DemandHistory(key, rising, np.zeros(1, np.int64))
        said = Prediction(
            "x",
            past,
            np.array([[20.0]]),
            {0.9: np.array([[30.0]]), 0.95: np.array([[40.0]])},
            {0.9: np.array([30.0]), 0.95: np.array([40.0])},
            (),
        )
        assert text_plot(said, 0).plain.splitlines() == [
            "A10",
            "40                         │░",
            "                           │▒",
            "               ▄▄▄▄▄▄██████│█",
            " 0 ▄▄▄▄▄▄██████████████████│█",
        ]
        assert plot_key(said).endswith("▒ to the 0.9 bound  ░ to the 0.95 bound")

    def test_what_changes_little_is_drawn_from_below_its_lowest(self) -> None:
        """From 1000 - 30/3 to 1030: the steps between can be seen."""
        steps = np.array([[1000.0, 1010.0, 1020.0]])
        past = DemandHistory((SeriesKey("", "x"),), steps, np.zeros(1, np.int64))
        same = np.array([[1030.0]])
        said = Prediction("x", past, same, {0.9: same}, {0.9: same[0]}, ())
        assert text_plot(said, 0).plain.splitlines()[1:] == [
            "1,030" + " " * 25 + "│█",
            " " * 29 + "█│█",
            " " * 28 + "██│█",
            "  990" + " " * 22 + "███│█",
        ]
        assert "░" not in plot_key(said)

    def test_a_long_horizon_has_several_hours_in_a_column(self) -> None:
        long = NormalForecast(KEYS, np.full((3, 49), 5.0), np.ones((3, 49)))
        said = Prediction.of("x", history(), long, (0.9,))
        assert all(len(line.rpartition("│")[2]) == 17 for line in text_plot(said, 0).plain.splitlines()[1:])
        assert "a column: the highest of 3 h" in plot_key(said)

    def test_no_demand_at_all(self) -> None:
        key = (SeriesKey("", "idle"),)
        past = DemandHistory(key, np.zeros((1, 2)), np.zeros(1, np.int64))
        nothing = np.zeros((1, 2))
        said = Prediction("x", past, nothing, {0.9: nothing}, {0.9: nothing[0]}, ())
        assert not re.search("[▁-█▒░]", text_plot(said, 0).plain)


class TestPage:
    def test_charts_follow_the_choice_of_a_series(self, tmp_path: Path) -> None:
        prediction_page(prediction(), "demand.csv", tmp_path / "next.html")
        page = (tmp_path / "next.html").read_text(encoding="utf-8")
        assert page.count("<select") == 2
        assert page.index("search on A100</option>") < page.index("ads on A10</option>")
        (figure,) = json.loads(re.findall(r"const figures=(\[.*?\]);\n", page)[0])
        names = [trace["name"] for trace in figure["data"]]
        assert names == ["actual", "expected", "0.9 bound", "0.95 bound"]
        came, expected, *bounds = ({**trace, **trace.get("meta", {})} for trace in figure["data"])
        assert came["y"]["of"][0] == [180] * 48
        assert (came["x0"], expected["x0"], expected["dx"]) == (0, 48, 1)
        assert expected["y"] == {"pick": ["series"], "of": [[200, 210], [30, 20], [10, 12]]}
        assert all(bound["fill"] == "tonexty" for bound in bounds)
        assert "<td>950</td>" in page  # of the sum, 0.95
        assert "left out" not in page

    def test_dates(self, tmp_path: Path) -> None:
        prediction_page(prediction(first_day=date(2024, 4, 1)), "demand.csv", tmp_path / "next.html")
        page = (tmp_path / "next.html").read_text(encoding="utf-8")
        assert "2024-04-03 00:00 to 2024-04-03 01:00" in page
        (figure,) = json.loads(re.findall(r"const figures=(\[.*?\]);\n", page)[0])
        assert (figure["data"][1]["x0"], figure["data"][1]["dx"]) == ("2024-04-03T00:00", 3_600_000)

    def test_only_the_largest_of_very_many(self, tmp_path: Path) -> None:
        keys = tuple(SeriesKey(f"org-{i:03d}", "A100") for i in range(MOST_SERIES + 3))
        many = NormalForecast(keys, np.ones((len(keys), 2)), np.ones((len(keys), 2)))
        prediction_page(Prediction.of("x", history(keys=keys), many, (0.9,)), "</script><b>", tmp_path / "next.html")
        page = (tmp_path / "next.html").read_text(encoding="utf-8")
        assert "3 smaller ones are left out" in page
        assert "</script><b>" not in page
