"""`gfs forecast predict` from the command line: what it prints, writes and refuses."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

import gfs
from gfs.cli.main import app
from gfs.forecasting.registry import MODELS
from gfs.workloads import write_trace

INSTALLED = [name for name, model in MODELS.items() if not model.extra]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with demand of four weeks: of two organizations on A100, of one on A10."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    rows = ["time,organization,gpu_model,gpus"]
    for h in range(672):
        swing = math.sin(h / 24 * 6.283185)
        rows += [f"{h},ads,A100,{50 + 30 * swing:.2f}", f"{h},search,A100,{200 + 20 * swing:.2f}"]
        rows.append(f"{h},ads,A10,{20 + h % 7}")
    Path("demand.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["forecast", "predict", *words])


def said(*words: str) -> Any:
    result = run("--series", "demand.csv", *words, "--json", "-")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.replace("│", " ").split())


class TestPredict:
    def test_table_and_plots_fit_80_columns(self) -> None:
        result = run("--series", "demand.csv")
        assert result.exit_code == 0, result.output
        assert all(len(line.rstrip()) <= 80 for line in result.stdout.splitlines())
        assert "…" not in result.stdout
        assert "demand.csv: 3 series, 672 hours (0 to 672); orgquantile, from hour 672 on" in result.stdout
        assert "Demand of the next 4 h" in result.stdout
        names = [line.partition(" expected ")[0].strip() for line in result.stdout.splitlines() if " expected " in line]
        assert names[:4] == ["search on A100", "ads on A100", "ads on A10", "all 2 on A100"]
        assert "a column: an hour" in result.stdout
        assert result.stdout.count("│") == 3 * 4 + 1

    def test_json_has_every_series_and_hour(self) -> None:
        found = said("--top", "1")
        assert [(s["organization"], s["gpu_model"]) for s in found["series"]] == [
            ("ads", "A10"),
            ("ads", "A100"),
            ("search", "A100"),
        ]
        for series in found["series"]:
            assert len(series["expected"]) == len(series["bounds"]["0.9"]) == len(series["bounds"]["0.95"]) == 4
            assert set(series["peak"]) == {"0.9", "0.95"}
        assert (found["model"], found["source"], found["hours"]) == ("orgquantile", "demand.csv", [0, 672])
        assert (found["first_hour"], found["first_time"], found["horizon"]) == (672, None, 4)
        (total,) = found["totals"]
        assert (total["gpu_model"], total["series"]) == ("A100", 2)
        wanted = [found["series"][row]["expected"] for row in (1, 2)]
        assert total["expected"] == pytest.approx([sum(pair) for pair in zip(*wanted, strict=True)])

    def test_what_repeats_itself_every_day(self) -> None:
        """Hour 672 is midnight again, where the swing is 0: 200 GPUs, as in hour 0."""
        search = said("--model", "seasonal-24", "--horizon", "2")["series"][2]
        assert search["expected"] == pytest.approx([200.0, 200 + 20 * math.sin(6.283185 / 24)], abs=0.01)
        assert search["last"] == pytest.approx(200 + 20 * math.sin(23 / 24 * 6.283185), abs=0.01)

    def test_it_is_known_only_until_the_hours_asked_for(self) -> None:
        found = said("--hours", "100:400", "--model", "persistence")
        assert (found["hours"], found["first_hour"]) == ([100, 400], 400)
        assert found["series"][0]["expected"] == [20 + 399 % 7] * 4

    @pytest.mark.parametrize("model", INSTALLED)
    @pytest.mark.parametrize("hours", ["0:1", "0:30", "0:672"])
    def test_every_forecaster_on_much_and_on_little(self, model: str, hours: str) -> None:
        found = said("--hours", hours, "--model", model, "--horizon", "7")
        for series in found["series"]:
            for lower, upper in zip(series["bounds"]["0.9"], series["bounds"]["0.95"], strict=True):
                assert 0 <= lower <= upper
        assert run("--series", "demand.csv", "--hours", hours, "--model", model).exit_code == 0

    def test_little_is_remarked_on(self) -> None:
        assert "only 30 hours of demand are known" in run("--series", "demand.csv", "--hours", "0:30").stderr
        assert "are known" not in run("--series", "demand.csv").stderr

    def test_other_bounds(self) -> None:
        found = said("--bounds", "0.99,0.5")
        assert list(found["series"][0]["bounds"]) == ["0.5", "0.99"]
        table = run("--series", "demand.csv", "--bounds", "0.99,0.5").stdout
        assert "0.5 bound" in table
        assert "0.99 bound" in table

    def test_only_the_largest(self) -> None:
        result = run("--series", "demand.csv", "--top", "1")
        assert "... and 2 smaller series; --top N shows more" in result.stdout
        assert "ads on A10" not in result.stdout

    def test_a_forecaster_that_knows_no_sums(self) -> None:
        assert "persistence knows no bound of a sum" in run("--series", "demand.csv", "--model", "persistence").stdout
        assert said("--model", "persistence")["totals"][0]["peak"] is None

    def test_dates(self) -> None:
        result = run("--series", "demand.csv", "--first-day", "2024-04-01")
        assert "from 2024-04-29 00:00 on" in result.stdout
        assert "00:00" in result.stdout
        assert said("--first-day", "2024-04-01")["first_time"] == "2024-04-29T00:00"

    def test_a_trace_and_the_event_log_of_its_run(self) -> None:
        write_trace(gfs.generate("demo", nodes=8, days=8), ".")
        trace = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")
        assert CliRunner().invoke(app, ["simulate", *trace, "--events", "events.csv"]).exit_code == 0
        for words in (trace, ("--events", "events.csv")):
            result = run(*words, "--json", "next.json")
            assert result.exit_code == 0, result.output
            found = json.loads(Path("next.json").read_text())
            assert found["source"] == words[1]
            assert len(found["series"]) > 1


class TestFiles:
    def test_a_table_as_csv_and_parquet(self) -> None:
        for name in ("next.csv", "next.parquet"):
            assert run("--series", "demand.csv", "--table", name).exit_code == 0
        written = pyarrow.csv.read_csv("next.csv")
        assert written.num_rows == 3 * 4
        assert written["bound_0.95"].to_pylist() == pytest.approx(
            pyarrow.parquet.read_table("next.parquet")["bound_0.95"].to_pylist()
        )
        first = said()["series"][0]
        assert written["expected"].to_pylist()[:4] == pytest.approx(first["expected"])

    def test_a_page(self) -> None:
        Path("next.html").write_text("old")
        result = run("--series", "demand.csv", "--html", "next.html", "--json", "next.json")
        assert result.exit_code == 0, result.output
        page = Path("next.html").read_text(encoding="utf-8")
        assert "GPU demand of the next 4 h" in page
        assert len(page) < 6_000_000
        assert "wrote next.html" in result.stderr
        assert sorted(path.name for path in Path().iterdir()) == ["demand.csv", "next.html", "next.json"]


class TestRefused:
    @pytest.mark.parametrize(
        ("words", "why"),
        [
            ((), "give demand in one of three ways"),
            (("--series", "none.csv"), "no such file"),
            (("--series", "demand.csv", "--model", "orgquantil"), "did you mean orgquantile"),
            (("--series", "demand.csv", "--bounds", "0.9,1"), "write probabilities between 0 and 1"),
            (("--series", "demand.csv", "--bounds", "0.9;0.95"), "write probabilities between 0 and 1"),
            (("--series", "demand.csv", "--bounds", "nan"), "write probabilities between 0 and 1"),
            (("--series", "demand.csv", "--bounds", "0.9,0.90"), "name each once"),
            (("--series", "demand.csv", "--horizon", "0"), "--horizon"),
            (("--series", "demand.csv", "--horizon", "10000"), "--horizon"),
            (("--series", "demand.csv", "--top", "0"), "--top"),
            (("--series", "demand.csv", "--country", "XX"), "country 'XX'"),
            (("--series", "demand.csv", "--html", "next.pdf"), "use a name that ends in .html"),
            (("--series", "demand.csv", "--html", "-"), "use a name that ends in .html"),
            (("--series", "demand.csv", "--table", "next.xls"), "use a name that ends in .csv"),
            (("--series", "demand.csv", "--table", "demand.csv"), "is one of the inputs"),
            (("--series", "demand.csv", "--html", "no/next.html"), "the folder no does not exist"),
        ],
    )
    def test_in_a_sentence_and_nothing_is_written(self, words: tuple[str, ...], why: str) -> None:
        assert why in refused(*words)
        assert [path.name for path in Path().iterdir()] == ["demand.csv"]

    def test_a_bad_row_is_listed_or_left_out(self) -> None:
        Path("bad.csv").write_text(Path("demand.csv").read_text() + "672,ads,A10,-4\n")
        assert "bad.csv: row 2018, gpus = '-4': must not be negative" in refused("--series", "bad.csv")
        result = run("--series", "bad.csv", "--skip-bad-rows", "--model", "persistence")
        assert "left out 1 row that" in result.stderr


class TestPages:
    def test_the_guide_shows_what_is_printed(self) -> None:
        """The table: its words exactly, its figures to a tenth."""
        guide = (Path(__file__).resolve().parents[2] / "docs/guides/forecast-demand.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```console\n(.*?)```", guide, re.DOTALL)
        shown = next(block for block in blocks if "Demand of the next" in block)
        for line in shown.splitlines():
            if line.startswith("$ gfs "):
                result = CliRunner().invoke(app, line.removeprefix("$ gfs ").split())
                assert result.exit_code == 0, result.output
        printed = [figures(line) for line in result.stdout.splitlines()]
        rows = [figures(line) for line in shown.splitlines() if " expected " in line or " bound " in line]
        assert len(rows) == 3 * 3 + 3  # and three lines of words
        for words, numbers in rows:
            assert any(words == w and numbers == pytest.approx(n, rel=0.1) for w, n in printed), words

    def test_the_files_page_names_every_column_and_key(self) -> None:
        files = (Path(__file__).resolve().parents[2] / "docs/reference/files.md").read_text(encoding="utf-8")
        section = files.partition("\n## Prediction\n")[2]
        assert run("--series", "demand.csv", "--first-day", "2024-04-01", "--table", "next.csv").exit_code == 0
        found = said()
        columns = pyarrow.csv.read_csv("next.csv").column_names
        keys = {*found, *found["series"][0], *found["totals"][0]}
        assert not [name for name in columns if f"`{name}`" not in section]
        assert not [key for key in keys if f'"{key}"' not in section]


def figures(line: str) -> tuple[list[str], list[float]]:
    """The words of a row without its numbers, and its numbers."""
    number = r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?= |$)"
    return re.sub(number, "#", line).split(), [float(n.replace(",", "")) for n in re.findall(number, line)]
