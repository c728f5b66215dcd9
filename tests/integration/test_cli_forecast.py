"""`gfs forecast` from the command line: what it prints, writes and refuses."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import gfs
import needs
from gfs.cli.main import app
from gfs.forecasting.registry import MODELS
from gfs.workloads import write_trace

KEYS = {
    "nmae",
    "mae",
    "mse",
    "rmse",
    "mape",
    "pinball_90",
    "pinball_95",
    "coverage_90",
    "coverage_95",
    "maqe_90",
    "maqe_95",
    "lowest_coverage_95",
    "peak_coverage_95",
    "over_reserved_95",
    "train_seconds",
    "predict_ms",
}
NAIVE = "persistence,seasonal-24,seasonal-168,weekly-peak"
REAL = needs.SHARED / "data" / "alibaba_v2026_spot_gpu" / "aggregates_sultanul_ovi"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of demand: two series that swing with the day, for four weeks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    rows = [f"{h},{50 + 30 * math.sin(h / 24 * 6.283185):.2f},{20 + h % 7}" for h in range(672)]
    Path("demand.csv").write_text("hour,A100,A10\n" + "\n".join(rows) + "\n")
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["forecast", "evaluate", *words])


def refused(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


def scores(*words: str) -> Any:
    result = run(*words, "--json", "scores.json")
    assert result.exit_code == 0, result.output
    return json.loads(Path("scores.json").read_text())


class TestEvaluate:
    def test_the_tables_fit_80_columns_and_mark_the_best(self) -> None:
        result = run("--series", "demand.csv", "--models", NAIVE)
        assert result.exit_code == 0, result.output
        assert "…" not in result.stdout
        assert all(len(line.rstrip()) <= 80 for line in result.stdout.splitlines())
        assert "demand.csv: 2 series, 672 hours (0 to 672)" in result.stdout
        assert "132 forecasts of 4 h, from hour 537 on" in result.stdout
        rows = {line.split()[0]: line for line in result.stdout.splitlines() if line.startswith(tuple(MODELS))}
        assert rows.keys() == set(NAIVE.split(","))
        assert re.search(r"\d\*", rows["seasonal-168"])

    def test_json_has_every_figure_of_every_model(self) -> None:
        said = scores("--series", "demand.csv", "--models", NAIVE)
        assert set(said["models"]) == set(NAIVE.split(","))
        assert all(set(figures) == KEYS for figures in said["models"].values())
        assert (said["series"], said["hours"], said["test_hours"]) == (2, [0, 672], [537, 672])
        assert (said["window"], said["horizon"], said["split"]) == (672, 4, [0.7, 0.1, 0.2])

    def test_what_repeats_itself_every_week_is_known_to_seasonal_168(self) -> None:
        figures = scores("--series", "demand.csv", "--models", NAIVE)["models"]
        assert figures["seasonal-168"]["nmae"] < 0.01
        assert figures["persistence"]["nmae"] > 5

    def test_json_instead_of_tables(self) -> None:
        result = run("--series", "demand.csv", "--models", "persistence", "--json", "-")
        assert set(json.loads(result.stdout)["models"]) == {"persistence"}

    def test_all_that_are_installed_unless_named(self) -> None:
        assert set(scores("--series", "demand.csv")["models"]) == {n for n, m in MODELS.items() if not m.extra}

    def test_options_reach_the_evaluation(self) -> None:
        words = ("--horizon", "2", "--look-back", "48", "--split", "0.5,0,0.5", "--hours", "24:224")
        said = scores("--series", "demand.csv", "--models", "persistence", *words)
        assert (said["hours"], said["test_hours"], said["horizon"], said["window"]) == (
            [24, 224],
            [124, 224],
            2,
            48,
        )

    def test_a_window_that_nobody_has_is_remarked_on(self) -> None:
        result = run("--series", "demand.csv", "--models", "persistence", "--look-back", "48")
        assert result.exit_code == 0
        assert "--look-back changes nothing" in result.stderr

    def test_a_trace(self) -> None:
        write_trace(gfs.generate("demo", nodes=8, days=4), ".")
        said = scores("--jobs", "jobs.csv", "--nodes", "nodes.csv", "--models", "persistence,weekly-peak")
        assert said["source"] == "jobs.csv"
        assert said["series"] > 1
        assert said["models"]["persistence"]["nmae"] < said["models"]["weekly-peak"]["nmae"]

    def test_an_event_log(self) -> None:
        write_trace(gfs.generate("demo", nodes=8, days=4), ".")
        words = ("simulate", "--jobs", "jobs.csv", "--nodes", "nodes.csv", "--events")
        said = []
        for file in ("events.csv", "events.csv.gz", "events.parquet"):
            assert CliRunner().invoke(app, [*words, file]).exit_code == 0
            said.append(scores("--events", file, "--models", "persistence"))
        assert said[0]["source"] == "events.csv"
        assert said[0]["series"] > 1
        assert len({one["models"]["persistence"]["nmae"] for one in said}) == 1

    def test_holidays_count_where_the_day_is_known(self) -> None:
        """Only orglinear knows them, and only with dates."""
        words = ("--series", "demand.csv", "--models", "orglinear", "--look-back", "48")
        dated = (*words, "--first-day", "2023-12-11")  # the test part has the turn of the year
        plain, german = (scores(*dated, *more) for more in ((), ("--country", "DE")))
        assert plain["models"]["orglinear"]["nmae"] != german["models"]["orglinear"]["nmae"]
        assert (plain["country"], german["country"]) == (None, "DE")
        result = run(*words, "--country", "DE")
        assert "--country changes nothing: this demand has no dates" in result.stderr
        result = run(*words[:2], "--models", "persistence", "--country", "DE")
        assert "--country changes nothing: none of these forecasters knows holidays" in result.stderr

    def test_the_same_figures_again(self) -> None:
        first, second = (scores("--series", "demand.csv", "--models", NAIVE)["models"] for _ in range(2))
        for figures in (*first.values(), *second.values()):
            del figures["train_seconds"], figures["predict_ms"]
        assert first == second

    @needs.shared(REAL)
    def test_persistence_on_the_trace_of_the_paper(self) -> None:
        """Known from trials: nMAE 9.8%."""
        file = REAL / "outputs_extra__hourly_concurrency_top_models.csv"
        said = scores("--series", str(file), "--hours", "24:4416", "--models", "persistence")
        assert said["series"] == 6
        assert said["models"]["persistence"]["nmae"] == pytest.approx(9.79, abs=0.01)


class TestRefused:
    def test_a_bad_row_is_listed_or_left_out(self) -> None:
        Path("bad.csv").write_text(Path("demand.csv").read_text() + "672,-4,nan\n")
        said = refused("--series", "bad.csv", "--json", "scores.json")
        assert "bad.csv: row 674, A100 = '-4': must not be negative" in said
        assert "bad.csv: row 674, A10 = 'nan': not a finite number" in said
        assert not Path("scores.json").exists()
        result = run("--series", "bad.csv", "--skip-bad-rows", "--models", "persistence")
        assert result.exit_code == 0
        assert "left out 1 row that" in result.stderr

    def test_dates_twice(self) -> None:
        Path("dated.csv").write_text("time,A100\n2024-04-01T00,1\n2024-04-01T01,2\n")
        said = refused("--series", "dated.csv", "--first-day", "2024-04-01")
        assert "dated.csv has dates already, from 2024-04-01 on; leave --first-day out" in said

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ('5,"finish","a","HP","o","A100"', "row 4: 6 values where the header names 7 columns"),
            ('soon,"finish","a","HP","o","A100",1', "row 4, time = 'soon': not a number"),
            ('nan,"finish","a","HP","o","A100",1', "row 4, time = 'nan': not a finite number"),
            ('5,"finish","a","HP","o","A100",-1', "row 4, gpus = '-1': must not be negative"),
        ],
    )
    def test_a_broken_event_log(self, line: str, said: str) -> None:
        rows = ['0,"submit","a","HP","o","A100",1', '0,"start","a","HP","o","A100",1', line]
        Path("events.csv").write_text("time,event,task,kind,organization,gpu_model,gpus\n" + "\n".join(rows))
        assert f"events.csv: {said}" in refused("--events", "events.csv")

    def test_no_event_log_and_an_empty_one(self) -> None:
        assert "column event, task, kind" in refused("--events", "demand.csv").replace("time, ", "")
        Path("events.csv").write_text("time,event,task,kind,organization,gpu_model,gpus\n")
        assert "no HP task is submitted" in refused("--events", "events.csv")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "give demand in one of three ways"),
            (("--jobs", "jobs.csv"), "give demand in one of three ways"),
            (("--series", "demand.csv", "--nodes", "nodes.csv"), "give demand in one of three ways"),
            (("--series", "demand.csv", "--jobs", "j", "--nodes", "n"), "give demand in one of three ways"),
            (("--series", "none.csv"), "no such file"),
            (("--series", "demand.csv", "--models", "persistance"), "did you mean persistence?"),
            (("--series", "demand.csv", "--models", "xyz"), "there are persistence"),
            (("--series", "demand.csv", "--models", ","), "name at least one"),
            (("--series", "demand.csv", "--models", "persistence,persistence"), "named twice"),
            (("--series", "demand.csv", "--split", "0.7,0.3"), "three shares"),
            (("--series", "demand.csv", "--split", "0.7,0.3,nan"), "add up to 1"),
            (("--series", "demand.csv", "--split", "0.7,0.3,0.2"), "add up to 1"),
            (("--series", "demand.csv", "--hours", "24"), "START:END"),
            (("--series", "demand.csv", "--hours", "30:20"), "START:END"),
            (("--series", "demand.csv", "--hours", "a:b"), "START:END"),
            (("--series", "demand.csv", "--hours", "900:"), "it is from 0 to 672"),
            (("--series", "demand.csv", "--hours", "0:8"), "8 hours of demand are too few"),
            (("--series", "demand.csv", "--events", "e"), "give demand in one of three ways"),
            (("--series", "demand.csv", "--country", "XX"), "country 'XX'"),
            (("--series", "demand.csv", "--first-day", "yesterday"), "write a date as YYYY-MM-DD"),
            (("--series", "demand.csv", "--first-day", "9999-12-31"), "only years from 1900 to 2200"),
            (("--series", "demand.csv", "--json", "demand.csv"), "is one of the inputs"),
        ],
    )
    def test_in_a_sentence(self, words: tuple[str, ...], said: str) -> None:
        assert said in " ".join(refused(*words).split())

    @pytest.mark.parametrize("option", ["--look-back", "--horizon"])
    def test_hours_of_nothing(self, option: str) -> None:
        assert option in refused("--series", "demand.csv", option, "0")


class TestPages:
    ROOT = Path(__file__).resolve().parents[2]

    def page(self, name: str) -> str:
        return (self.ROOT / "docs" / name).read_text(encoding="utf-8")

    def test_the_guide_and_the_files_page_name_every_figure(self) -> None:
        guide, files = self.page("guides/forecast-demand.md"), self.page("reference/files.md")
        assert not [key for key in KEYS if f"`{key}`" not in guide]
        assert not [key for key in KEYS if f'"{key}"' not in files]

    def test_the_guide_shows_what_is_printed(self) -> None:
        """The figures, to a tenth; times are those of the machine."""
        blocks = re.findall(r"```console\n(.*?)```", self.page("guides/forecast-demand.md"), re.DOTALL)
        shown = next(block for block in blocks if "Upper bounds" in block)
        for line in shown.splitlines():
            if line.startswith("$ gfs "):
                result = CliRunner().invoke(app, line.removeprefix("$ gfs ").split())
                assert result.exit_code == 0, result.output
        printed = [self.figures(line) for line in result.stdout.splitlines()]
        rows = [self.figures(line) for line in shown.splitlines() if line.startswith(tuple(MODELS))]
        assert len(rows) == 8
        for name, figures in rows:
            assert any(name == n and figures == pytest.approx(f, rel=0.1) for n, f in printed), name

    def figures(self, line: str) -> tuple[str, list[float]]:
        """The first word of a row and its numbers, without the two times at the end of the first table."""
        name, _, rest = line.partition(" ")
        numbers = [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?:\.\d+)?", rest)]
        return name, numbers[:6] if len(numbers) == 8 else numbers
