"""`gfs compare --front` from the command line, on a trace of a few hours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import gfs
from gfs.cli.main import app
from gfs.workloads import write_trace

TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")
FRONTS = ("spot wait and evictions", "spot completion time and waste")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    write_trace(gfs.generate("demo", nodes=8, days=0.5, spot_scale=3, seed=1), ".")
    return tmp_path


def front(*words: str) -> Result:
    return CliRunner().invoke(app, ["compare", *TRACE, "--front", *words])


def refused(*words: str) -> str:
    result = CliRunner().invoke(app, ["compare", *TRACE, *words])
    assert result.exit_code == 2, result.output
    assert sorted(path.name for path in Path().iterdir()) == ["jobs.csv", "nodes.csv"]
    return result.stderr.partition("error: ")[2]


def test_words_tables_page_and_numbers() -> None:
    result = front("--schedulers", "yarn-cs,chronus", "--html", "f.html", "--json", "f.json")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    for heading in ("Spot wait and evictions", "Spot completion time and waste", "Left out: fixed 5%"):
        assert f"\n{heading}" in result.stdout
    assert "points are on the common front: yarn-cs" in result.stdout
    assert "chronus: no part in this front" in result.stdout
    assert "yarn-cs, none" in result.stderr  # progress

    found: dict[str, Any] = json.loads(Path("f.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in found["fronts"]] == list(FRONTS)
    assert [one["scheduler"] for one in found["fronts"][0]["standings"]] == ["yarn-cs"]
    own = {(one["scheduler"], one["quota"]) for one in found["points"] if one["own"]}
    assert own == {("yarn-cs", "none"), ("chronus", "none")}
    assert {"forecast p=0.8", "forecast p=0.99", "fixed 35%"} <= {one["quota"] for one in found["points"]}
    for axes in found["fronts"]:
        marked = sum(axes["name"] in one["on_front_of"] for one in found["points"])
        assert marked == sum(standing["front"] for standing in axes["standings"]) > 0

    page = Path("f.html").read_text(encoding="utf-8")
    assert page.count('<div class="chart"') == 2
    assert '"text":["yarn-cs, none (own)","yarn-cs, fixed' in page  # on pointing at it


def test_goes_on_from_the_cache_with_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--schedulers", "lyra", "--cache", "kept", "--json", "-")
    first = front(*words)
    assert first.exit_code == 0, first.output
    monkeypatch.setattr("gfs.batch.front.run_simulation", lambda *_, **__: pytest.fail("computed again"))
    assert front(*words).stdout == first.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--front", "--set", "quota=none"), "quota: a comparison of fronts goes over all quotas itself; leave it out"),
        (("--front", "--set", "p=0.95"), "p: a comparison of fronts"),
        (("--front", "--set", "quota_share=0.2", "--html", "f.html"), "quota_share: a comparison of fronts"),
        (("--front", "--noise", "1"), "noise = 1: must be at least 0 and below 1"),
        (("--front", "--prices", "p.toml"), "--prices: with --front no money is counted; leave it out"),
        (("--front", "--cache", "jobs.csv"), "jobs.csv: is a file; name a folder"),
        (("--front", "--html", "f.pdf"), "f.pdf"),
        (("--noise", "0.1"), "--noise is for --front: add it, or leave --noise out"),
        (("--cache", "kept"), "--cache is for --front"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_go_together_is_an_error(words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


def test_a_config_file_must_leave_the_quota_free() -> None:
    file = Path("../p.toml")
    file.write_text('quota = "fixed"\n', encoding="utf-8")
    assert "quota: a comparison of fronts" in refused("--front", "--config", str(file))


def test_options_are_checked_before_the_trace_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gfs.workloads.read_trace", lambda *_, **__: pytest.fail("read"))
    refused("--front", "--set", "quota=none")
    refused("--front", "--noise", "2")


def test_a_parameter_of_forecast_quotas_has_an_effect_here(caplog: pytest.LogCaptureFixture) -> None:
    """Under lyra's own quota, none, it would have none; here lyra also runs with forecasts."""
    assert front("--schedulers", "lyra", "--set", "theta=1234", "--json", "-").exit_code == 0
    assert "theta" not in caplog.text


def test_help() -> None:
    result = CliRunner().invoke(app, ["compare", "--help"])
    for words in ("--front", "--noise", "--cache", "Fronts", "many quotas"):
        assert words in result.output
