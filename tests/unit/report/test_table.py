"""The one table model and its terminal: 80 columns hold every figure, hostile names stay names, units are the same."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs
from rich.console import Console

import gfs
from gfs.assembly.result import RunResult
from gfs.domain.errors import BadRow, InputError
from gfs.domain.workload import Workload
from gfs.report import columns as run_columns
from gfs.report.columns import (
    COMPARED,
    EVICTED,
    GOODPUT,
    PLAN_OTHERS,
    PLAN_SOLD,
    SPOT_WAIT,
    SWEPT,
    WASTED,
    P,
    comparison_table,
    pools_table,
    result_table,
)
from gfs.report.comparison import comparison_page
from gfs.report.inspection_page import inspection_page
from gfs.report.page import PageSection, build_page
from gfs.report.score_columns import BOUNDS, ERRORS
from gfs.report.table import COUNT, PERCENT, SECONDS, Column, DataTable
from gfs.report.terminal import TerminalTable
from gfs.report.trace_tables import bad_rows_table, inspection_tables
from gfs.sweeps.table import SCENARIO, SettingMeans, sweep_table
from gfs.telemetry.prices import monthly_benefit, read_prices
from gfs.workloads.inspection import inspect

ROOT = Path(__file__).resolve().parents[3]
EVIL = "\x1b[2J\x1b]0;owned\x07<img src=x onerror=alert(1)>[red]"
"""A name that clears a terminal, sets its title, and is HTML and Rich's markup as well."""


def printed(*tables: DataTable, width: int = 80) -> str:
    console = Console(width=width, no_color=True, highlight=False)
    with console.capture() as capture:
        for table in tables:
            console.print(TerminalTable(table))
    return capture.get()


def whole(table: DataTable, width: int = 80) -> bool:
    """Every figure is printed whole, and no line is too long."""
    text = printed(table, width=width)
    words = text.replace("*", " ").replace("!", " ").split()
    wrapped = {i for i, c in enumerate(table.every_column) if c.wrap or i < table.names}
    cells = [cell for row in table.texts() for i, cell in enumerate(row) if i not in wrapped]
    shown = all(piece in words for cell in cells for piece in cell.split())
    return shown and "…" not in text and all(len(line) <= width for line in text.splitlines())


@pytest.fixture(scope="module")
def workload() -> Workload:
    return gfs.generate("demo", nodes=6, days=2, spot_scale=2, seed=1)


@pytest.fixture(scope="module")
def results(workload: Workload) -> list[RunResult]:
    return list(gfs.compare(workload, schedulers=["gfs", "static"]))


def group(settings: dict[str, object], **means: float) -> SettingMeans:
    scenario = {name: settings[name] for name in SCENARIO if name in settings}
    return SettingMeans(settings, scenario, 3, means, front=True)


class TestTerminal:
    def test_a_table_that_fits_is_printed_as_one(self) -> None:
        table = DataTable(["name", Column("spot wait", unit=SECONDS)], [["a", 1.0], ["b", 2000.0]])
        heading, unit, rule, *rows = printed(table).splitlines()
        assert [heading.split(), unit.split()] == [["spot", "wait"], ["name", "[s]"]]
        assert set(rule.strip()) == {"─"}
        assert [row.split() for row in rows] == [["a", "1.00"], ["b", "2,000"]]
        assert len({len(row.rstrip()) for row in (heading, unit, *rows)}) == 1  # figures end below their heading

    @pytest.mark.parametrize("count", [1, 8, 15, 40])
    def test_a_wide_table_is_printed_in_parts_that_repeat_the_names(self, count: int) -> None:
        columns = [Column(f"figure {i}", unit=SECONDS) for i in range(count)]
        table = DataTable(["name", *columns], [["a", *[123_456.0 + i for i in range(count)]]])
        assert whole(table)
        parts = len(re.findall(r"^name ", printed(table), re.MULTILINE))
        assert (parts > 1) == (count > 8)

    def test_many_settings_of_a_sweep_are_told_once_beside_numbers(self) -> None:
        """`sweep show` cut figures when much varied."""
        names = ["scheduler", "guarantee_hours", "checkpoint_interval", "restart_overhead", "spot_scale", "p", "beta"]
        figures = {column.key: 98_765.4 for column in SWEPT}
        table = sweep_table(
            names, [group(dict.fromkeys(names, "0.123456"), spot_runs=1, spot_tasks=1, hp_tasks=1, **figures)] * 3
        )
        text = printed(table)
        assert "no." in text
        assert "all on the front" in text
        assert "98,765" in text
        assert all(len(line) <= 80 for line in text.splitlines())
        assert text.count("98,765") == 3 * 3  # wasted and both waits have this many digits

    def test_every_table_of_a_run_fits(self, workload: Workload, results: list[RunResult]) -> None:
        rows = [(f"{r.scheduler}-with-a-long-name", r.metrics) for r in results]
        tables = [comparison_table(rows, "title"), result_table(results[0])]
        tables += [pools_table(results[0].metrics, workload.capacity()), *inspection_tables(inspect(workload))]
        tables.append(bad_rows_table([BadRow("jobs.csv", 3, "gpu_request", "1.5", "a long reason " * 9)]))
        for table in tables:
            assert whole(table), printed(table)

    def test_what_needs_an_explanation_has_one_below(self, results: list[RunResult]) -> None:
        text = printed(comparison_table([(r.scheduler, r.metrics) for r in results]))
        assert "spot JCT mean: job completion time" in text
        assert "goodput: share of the pool's GPU time" in text
        table = DataTable([P, EVICTED], [["0.9", 0.1]], names=1)
        assert printed(table).splitlines()[-1].startswith("p: probability")

    def test_a_row_can_be_recommended_or_missed(self) -> None:
        table = DataTable(["a", Column("b", unit=COUNT)], [["x", 1], ["y", 2]], marks={0: "recommended", 1: "missed"})
        assert [line.split() for line in printed(table).splitlines()[2:]] == [["x*", "1"], ["y!", "2"]]


class TestHostileNames:
    def test_terminal(self, results: list[RunResult]) -> None:
        text = printed(
            comparison_table([(EVIL, results[0].metrics)], title=EVIL),
            result_table(replace(results[0], scheduler=EVIL)),
            pools_table(results[0].metrics, results[0].workload.capacity()),
            bad_rows_table([BadRow("a", 1, EVIL, EVIL, EVIL)]),
            DataTable(["x", EVIL], [[EVIL, EVIL]], note=EVIL),
            width=200,
        )
        assert "\x1b" not in text
        assert "\x07" not in text
        assert r"\x1b[2J" in text
        assert "[red]" in text

    def test_pages(self, tmp_path: Path, workload: Workload, results: list[RunResult]) -> None:
        tasks = [replace(task, name=f"{EVIL}{task.index}", organization=EVIL) for task in workload.tasks]
        evil = replace(workload, tasks=tuple(tasks), name=EVIL)
        page = tmp_path / "page.html"
        inspection_page(inspect(evil), page)
        comparison = tmp_path / "comparison.html"
        comparison_page([replace(results[0], scheduler=EVIL)], replace(workload, name=EVIL), comparison)
        table = build_page(EVIL, EVIL, [PageSection(EVIL, [DataTable([EVIL], [[EVIL]], note=EVIL, title=EVIL)])])
        for text in (page.read_text("utf-8"), comparison.read_text("utf-8"), table):
            text = text.replace(get_plotlyjs(), "")  # some versions of the library have escape codes of their own
            assert "<img src=x" not in text
            assert "\x1b" not in text

    def test_notebooks(self, results: list[RunResult]) -> None:
        shown = replace(results[0], scheduler=EVIL)
        assert "<img" not in shown._repr_html_()
        assert "&lt;img" in shown._repr_html_()
        assert "\x1b" not in shown._repr_html_() + repr(shown)


class TestGoodput:
    def test_avoided_waste_is_no_loss(self, tmp_path: Path, workload: Workload, results: list[RunResult]) -> None:
        """gfs wastes less for the same work, so it allocates less: that is neither red nor costs money."""
        ours, other = results
        less = replace(
            ours.metrics,
            goodput_rate=other.metrics.goodput_rate,
            goodput_rate_total=other.metrics.goodput_rate_total,
            allocation_rate_total=other.metrics.allocation_rate_total - 0.01,
            allocation_rate={m: rate - 0.01 for m, rate in other.metrics.allocation_rate.items()},
        )
        assert monthly_benefit(other.metrics, less, workload.capacity()) == 0
        out = tmp_path / "page.html"
        comparison_page([other, replace(ours, metrics=less)], workload, out)
        page = out.read_text("utf-8")
        tiles = dict(re.findall(r'class="tile (\w+)"><span class="label">([^<]*)<', page))
        assert "costs about" not in page
        assert {name: tone for tone, name in re.findall(r'class="tile (\w+)"><span class="label">([^<]*)<', page)}[
            "GPU allocation"
        ] == "even", tiles
        table = comparison_table([("static", other.metrics), ("gfs", less)])
        allocation = table.header.index("GPU allocation [%]")
        assert not [cell for cell in table.marked() if cell[1] == allocation]

    def test_allocation_is_useful_and_wasted(self, results: list[RunResult]) -> None:
        for result in results:
            m = result.metrics
            assert m.goodput_rate_total + m.wasted_rate_total == pytest.approx(m.allocation_rate_total)
            hours = sum(result.workload.capacity().values()) * (m.span[1] - m.span[0]) / 3600
            assert m.goodput_rate_total * hours == pytest.approx(m.useful_gpu_hours)


class TestQuotaAndDates:
    def test_page_and_summary_say_which_quota_was_in_force(self, tmp_path: Path, results: list[RunResult]) -> None:
        assert [r.summary()["quota_in_force"] for r in results] == ["forecast", "fixed 35%"]
        comparison_page(results, results[0].workload, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text("utf-8")
        assert "Spot quota in force: gfs forecast, static fixed 35%." in page
        assert "static (spot quota in force: fixed 35%)" in page
        assert "Time 0 is" not in page

    def test_times_are_dates_where_the_first_day_is_known(self, tmp_path: Path, workload: Workload) -> None:
        dated = gfs.compare(workload, schedulers=["static"], first_day="2024-09-30")
        comparison_page(list(dated), workload, tmp_path / "page.html")
        assert "Time 0 is 2024-09-30 00:00; measured from 2024-09-30" in (tmp_path / "page.html").read_text("utf-8")


class TestUnits:
    def test_the_same_figure_has_the_same_column_everywhere(self) -> None:
        for shared in (GOODPUT, WASTED, EVICTED, SPOT_WAIT):
            assert {shared in group for group in (COMPARED, SWEPT, PLAN_OTHERS)} == {True}
        by_key: dict[str, set[str]] = {}
        for column in (*COMPARED, *SWEPT, *PLAN_OTHERS, *PLAN_SOLD):
            by_key.setdefault(column.key, set()).add(column.heading)
        assert all(len(headings) == 1 for headings in by_key.values())

    def test_the_best_may_be_the_nearest_to_a_number(self) -> None:
        assert Column("covered", unit=PERCENT, best=0.95).best_rows([0.9, 0.96, 0.99]) == {1}

    def test_the_glossary_has_every_figure_that_is_printed(self) -> None:
        page = (ROOT / "docs/concepts/glossary.md").read_text(encoding="utf-8").lower()
        every = [value for value in vars(run_columns).values() if isinstance(value, Column)]
        missing = [c.header for c in (*every, *ERRORS, *BOUNDS) if f"**{c.header.lower()}**" not in page]
        assert not missing


class TestPrices:
    def write(self, folder: Path, name: str, text: str) -> Path:
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    def test_toml_and_json(self, tmp_path: Path) -> None:
        expected = {"A100": 2.0, "default": 1.0}
        assert read_prices(self.write(tmp_path, "p.toml", "A100 = 2\ndefault = 1.0\n")) == expected
        assert read_prices(self.write(tmp_path, "p.json", '{"prices": {"A100": 2}, "default": 1}')) == expected

    @pytest.mark.parametrize(
        ("name", "text", "says"),
        [
            ("p.toml", "A100 = -1", "A100 = -1: must be dollars per GPU-hour"),
            ("p.toml", "A100 = 'two'", "A100 = 'two': must be dollars"),
            ("p.toml", "A100 = nan", "must be dollars"),
            ("p.toml", "A100 = true", "must be dollars"),
            ("p.toml", "A100 =", "not a TOML file"),
            ("p.json", "[1]", "must be an object of prices"),
            ("p.json", "{", "not a JSON file"),
            ("p.json", "{}", "names no price"),
            ("p.csv", "A100,2", "unknown kind of file"),
        ],
    )
    def test_bad_files(self, tmp_path: Path, name: str, text: str, says: str) -> None:
        with pytest.raises(InputError, match=says):
            read_prices(self.write(tmp_path, name, text))
        with pytest.raises(InputError, match="cannot be read"):
            read_prices(tmp_path / "missing.json")
