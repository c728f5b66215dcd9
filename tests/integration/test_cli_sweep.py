"""`gfs sweep` from the command line: run, go on, failures, the front."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from gfs.assembly import aliases
from gfs.cli.main import app
from gfs.sweeps.spec import read_sweep

TEXT = """
[trace]
preset = "demo"
nodes = 4
days = 1

[vary]
scheduler = ["gfs", "yarn-cs"]
seed = [0, 1]
"""


def gfs(*words: str) -> Result:
    return CliRunner().invoke(app, ["sweep", *words])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_run_and_show(file: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    result = gfs(str(file), "--out", out, "--workers", "1")
    assert result.exit_code == 0, result.output
    assert "4 runs done, 0 failed" in result.output
    assert pq.read_table(tmp_path / "out/results.parquet").num_rows == 4
    shown = gfs("show", out, "--all", "--html", str(tmp_path / "front.html"), "--json", str(tmp_path / "front.json"))
    assert shown.exit_code == 0, shown.output
    assert "of 2 settings are on the front" in shown.output
    front = json.loads((tmp_path / "front.json").read_text(encoding="utf-8"))
    assert [group["settings"] for group in front["groups"]] == [{"scheduler": "gfs"}, {"scheduler": "yarn-cs"}]
    assert front["groups"][0]["seeds"] == 2
    assert "settings are on the front" in (tmp_path / "front.html").read_text(encoding="utf-8")


def test_several_at_once_give_the_same_bytes_and_a_stopped_one_goes_on(file: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    gfs(str(file), "--out", str(one), "--workers", "1")
    gfs(str(file), "--out", str(two), "--workers", "2")
    assert (one / "results.parquet").read_bytes() == (two / "results.parquet").read_bytes()
    whole = (one / "results.parquet").read_bytes()
    next((one / "cache").glob("*.json")).unlink()
    again = gfs(str(file), "--out", str(one), "--workers", "1")
    assert "1 of 1:" in again.output
    assert (one / "results.parquet").read_bytes() == whole


def test_old_names_are_warned_of_once_and_settings_without_effect_too(file: Path, tmp_path: Path) -> None:
    aliases.warn_once.cache_clear()
    file.write_text(TEXT.replace("seed = [0, 1]", "patience = [600, 1200]") + "[set]\nquota_share = 0.4\n")
    result = gfs(str(file), "--out", str(tmp_path / "out"), "--workers", "1")
    assert "patience" not in {name for run in read_sweep(file).runs() for name, _ in run.settings}  # nor warns a worker
    assert result.output.count("parameter patience is now called starvation_timeout") == 1
    idle = "quota_share, starvation_timeout: no effect under"
    assert f"{idle} gfs (quota: forecast)" in result.output
    assert f"{idle} yarn-cs (quota: none)" in result.output
    assert "starvation_timeout" in gfs("show", str(tmp_path / "out"), "--all").output


def test_a_run_that_fails_is_told_and_the_rest_goes_on(file: Path, tmp_path: Path) -> None:
    # No spot task fits into two percent of the pool.
    file.write_text(TEXT.replace('"yarn-cs"', '"static"') + "[set]\nquota_share = 0.02\n", encoding="utf-8")
    result = gfs(str(file), "--out", str(tmp_path / "out"), "--workers", "1")
    assert result.exit_code == 1
    assert "2 runs done, 2 failed" in result.output
    assert "failed: scheduler=static, seed=0: InputError:" in result.output
    errors = pq.read_table(tmp_path / "out/results.parquet")["error"].to_pylist()
    assert [error is None for error in errors] == [True, True, False, False]
    assert "failed: scheduler=static, seed=0" in gfs("show", str(tmp_path / "out")).output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no.toml", "--out", "out"), "no.toml: cannot be read"),
        (("bad.toml", "--out", "out"), "bad.toml: sample = 1000000000: must be a number of runs, 1 to 100,000"),
        (("show", "nowhere"), "no results of a sweep can be read there"),
    ],
)
def test_errors_name_what_is_wrong(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("sample = 1000000000\n" + TEXT, encoding="utf-8")
    result = gfs(*words)
    assert result.exit_code == 2
    assert said in result.output
    assert not (tmp_path / "out").exists(), "a bad option leaves no empty folder"
