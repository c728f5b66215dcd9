"""`gfs forecast backtest` from the command line: the page it writes, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import gfs
import needs
from gfs.cli.main import app
from gfs.workloads import write_trace

REAL = needs.SHARED / "data" / "alibaba_v2026_spot_gpu" / "aggregates_sultanul_ovi"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with demand of ten weeks: two series that repeat themselves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rows = [f"{h},{20 + h % 24},{5 + h % 7}" for h in range(1680)]
    Path("demand.csv").write_text("hour,A100,A10\n" + "\n".join(rows) + "\n")
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["forecast", "backtest", *words])


def page_of(*words: str) -> str:
    result = run(*words, "--html", "page.html")
    assert result.exit_code == 0, result.output
    return Path("page.html").read_text(encoding="utf-8")


def figures_of(page: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(re.findall(r"const figures=(\[.*?\]);\n", page)[0])
    return found


class TestPage:
    def test_scores_on_the_screen_and_on_the_page(self) -> None:
        result = run("--series", "demand.csv", "--models", "persistence,seasonal-24", "--html", "page.html")
        assert result.exit_code == 0, result.output
        assert "demand.csv: 2 series, 1,680 hours (0 to 1680)" in result.stdout
        assert "333 forecasts of 4 h, from hour 1344 on" in result.stdout
        assert "Upper bounds" in result.stdout
        assert "wrote page.html" in result.stderr
        assert all(len(line.rstrip()) <= 80 for line in result.stdout.splitlines())
        page = Path("page.html").read_text(encoding="utf-8")
        row = next(line for line in result.stdout.splitlines() if line.startswith("persistence"))
        assert f">{row.split()[1].rstrip('*')}" in page

    def test_what_is_drawn(self) -> None:
        """seasonal-24 knows the first series by heart: actual demand is what was expected."""
        page = page_of("--series", "demand.csv", "--models", "persistence,seasonal-24")
        expected, _, _, actual, above = (trace["meta"] for trace in figures_of(page)[0]["data"])
        assert expected["y"]["of"][1][0] == actual["y"]["of"][0]
        assert actual["y"]["of"][0][0][:2] == [20, 21]  # hour 1344 is midnight
        assert [len(ahead) for ahead in above["x"]["of"][1][0]] == [0, 0, 0, 0]
        assert len(page) < 6_000_000

    def test_only_the_largest(self) -> None:
        page = page_of("--series", "demand.csv", "--models", "persistence", "--top", "1")
        assert "The 1 largest of 2 series are drawn" in page
        assert ">A100</option>" in page
        assert ">A10</option>" not in page
        result = run("--series", "demand.csv", "--models", "persistence", "--top", "1", "--html", "page.html")
        assert "drawn: the 1 largest of 2 series; --top N draws more" in result.stdout

    def test_a_series_that_begins_too_late(self) -> None:
        """Nothing was known of it at any hour that was forecast from: it is drawn, but has no score."""
        lines = Path("demand.csv").read_text().splitlines()
        Path("late.csv").write_text(
            "\n".join([f"{lines[0]},new", *(f"{line}," for line in lines[1:-1]), "1679,1,1,99"])
        )
        page = page_of("--series", "late.csv", "--models", "persistence,orgquantile")
        assert '<th scope="row" class="text">new</th><td>–</td><td>–</td>' in page

    @pytest.mark.parametrize(("hours", "horizon"), [(":30", "1"), (":60", "6"), (":300", "4")])
    def test_short_histories(self, hours: str, horizon: str) -> None:
        words = ("--models", "persistence,orgquantile", "--hours", hours, "--horizon", horizon)
        page = page_of("--series", "demand.csv", *words)
        assert "<h2>Bands</h2>" in page

    def test_a_trace_and_an_event_log(self) -> None:
        write_trace(gfs.generate("demo", nodes=8, days=6), ".")
        trace = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")
        assert CliRunner().invoke(app, ["simulate", *trace, "--events", "events.parquet"]).exit_code == 0
        for words in (trace, ("--events", "events.parquet")):
            page = page_of(*words, "--models", "persistence", "--first-day", "2024-04-01")
            assert f"Forecasts of GPU demand: {words[1]}" in page
            assert "Fitted once on what came before 2024-04-0" in page

    @needs.shared(REAL)
    def test_the_trace_of_the_paper(self) -> None:
        """6 series, 876 hours, 4 hours ahead: at most half a MiB a forecaster beyond Plotly's own code."""
        file = REAL / "outputs_extra__hourly_concurrency_top_models.csv"
        page = page_of("--series", str(file), "--hours", "24:4416", "--models", "persistence,seasonal-24")
        (own,) = re.findall(r"const figures=.*", page)
        assert 200_000 < len(own) < 2 * 600_000
        assert "9.79" in page


class TestRefused:
    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (("--series", "demand.csv"), "Missing option '--html'"),
            (("--html", "page.html"), "give demand in one of three ways"),
            (("--series", "demand.csv", "--html", "page.txt"), "use a name that ends in .html"),
            (("--series", "demand.csv", "--html", "-"), "use a name that ends in .html"),
            (("--series", "demand.csv", "--html", "no/page.html"), "the folder no does not exist"),
            (("--series", "demand.csv", "--html", "page.html", "--models", "xyz"), "there are persistence"),
            (("--series", "demand.csv", "--html", "page.html", "--split", "1"), "three shares"),
            (("--series", "demand.csv", "--html", "page.html", "--hours", ":8"), "8 hours of demand are too few"),
            (("--series", "demand.csv", "--html", "page.html", "--country", "XX"), "country 'XX'"),
        ],
    )
    def test_in_a_sentence_and_nothing_is_written(self, words: tuple[str, ...], why: str) -> None:
        result = run(*words)
        assert result.exit_code == 2, result.output
        assert "Traceback" not in result.output
        assert why in " ".join(result.stderr.replace("│", " ").split())
        assert [path.name for path in Path().iterdir()] == ["demand.csv"]
