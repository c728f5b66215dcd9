"""`gfs quota export` from the command line: numbers, files, errors, and keeping it current."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from gfs.cli.main import app
from waiting import LONGEST, wait_until

NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num\n" + "".join(f"n{i},A100,8,64\n" for i in range(8))


def export(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["quota", "export", *map(str, words)])


def rows(hours: range, **demand: int) -> str:
    """Lines of a file of demand, from 2026-05-04 on."""
    return "".join(
        f"2026-05-{4 + hour // 24:02}T{hour % 24:02}:00,{name},A100,{gpus}\n"
        for hour in hours
        for name, gpus in demand.items()
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[str | Path, ...]:
    """Eight days in which vision wants 30 and language 20 of 64 GPUs."""
    (tmp_path / "nodes.csv").write_text(NODES)
    header = "time,organization,gpu_model,gpus\n"
    (tmp_path / "demand.csv").write_text(header + rows(range(192), vision=30, language=20))
    return ("--series", tmp_path / "demand.csv", "--nodes", tmp_path / "nodes.csv", "--model", "weekly-peak")


def test_a_cluster_queue_is_printed_and_the_sentence_stands_beside_it(files: tuple[str | Path, ...]) -> None:
    told = export("--as", "kueue", *files)
    assert told.exit_code == 0, told.output
    sentence = "A100: forecast peak 50 of 64 GPUs at 00:00 UTC, p 0.9: 14 GPUs for spot for 1 h"
    assert told.stderr.startswith(f"{sentence}\ndemand ends 2026-05-12 00:00 UTC, ")
    assert told.stdout.startswith(f"# {sentence}\n")
    flavors = yaml.safe_load(told.stdout)["spec"]["resourceGroups"][0]["flavors"]
    assert flavors == [{"name": "a100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 14}]}]


def test_files_and_numbers(files: tuple[str | Path, ...], tmp_path: Path) -> None:
    words = ("--as", "slurm", "--name", "scavenger", "--guarantee", "4", "--p", "0.95", "--aggregate", "independent")
    told = export(*words, *files, "--out", tmp_path / "limit.sh", "--json", tmp_path / "quota.json")
    assert told.exit_code == 0, told.output
    line = (tmp_path / "limit.sh").read_text().splitlines()[-1]
    assert line == "sacctmgr -i modify qos where name=scavenger set GrpTRES=gres/gpu=14"
    (quota,) = json.loads((tmp_path / "quota.json").read_text())["quotas"]
    assert (quota["gpus"], quota["capacity"], quota["demand_bound"], quota["p"]) == (14, 64, 50, 0.95)
    assert quota["forecaster"] == "weekly-peak"


def test_the_demand_of_a_trace(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    columns = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
    jobs = "".join(f"j{i},vision,A100,8,8,3,{3600 * i},3599,HP\n" for i in range(200))
    (tmp_path / "jobs.csv").write_text(columns + jobs)
    words = ("--jobs", tmp_path / "jobs.csv", "--nodes", tmp_path / "nodes.csv", "--model", "weekly-peak")
    told = export("--as", "slurm", *words, "--first-day", "2026-05-04")
    assert told.stdout.splitlines()[-1].endswith("GrpTRES=gres/gpu=40"), told.output


def test_columns_of_a_wide_file_are_organizations_on_the_one_model_there_is(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "wide.csv").write_text("hour,vision,language\n" + "".join(f"{hour},30,20\n" for hour in range(192)))
    words = ("--series", tmp_path / "wide.csv", "--nodes", tmp_path / "nodes.csv", "--model", "weekly-peak")
    told = export("--as", "slurm", *words)
    assert "columns of wide.csv are taken for organizations that want A100" in told.stderr
    assert told.stdout.splitlines()[-1].endswith("GrpTRES=gres/gpu=14"), told.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--as", "pbs"), "--as pbs: there are kueue, resourcequota, slurm"),
        (("--as", "slurm", "--template", "x.yaml"), "sacctmgr takes lines"),
        (("--as", "kueue", "--aggregate", "max"), "aggregate = 'max': must be one of sum-of-peaks"),
        (("--as", "kueue", "--model", "oracle"), "unknown forecaster 'oracle'"),
        (("--as", "kueue", "--flavor", "A100"), "--flavor A100: write MODEL=NAME"),
        (("--as", "kueue", "--gpu-model", "H800"), "--gpu-model H800: there are A100"),
        (("--as", "kueue", "--days", "3"), "--days: only with --prometheus"),
        (("--as", "kueue", "--apply", "exit 3"), "--apply: 'exit 3' ended with exit code 3"),
        (("--as", "kueue", "--country", "XX"), "country 'XX': no calendar"),
        (("--as", "kueue", "--name", "A b"), "--name 'A b': kueue has no such names"),
    ],
)
def test_what_is_wrong_is_told(words: tuple[str, ...], told: str, files: tuple[str | Path, ...]) -> None:
    result = export(*files, *words)
    assert result.exit_code == 2
    assert told in result.output


def test_where_demand_comes_from_must_be_said(files: tuple[str | Path, ...]) -> None:
    assert "in one of three ways" in export("--as", "kueue").output
    assert "in one of three ways" in export("--as", "kueue", *files[:2]).output
    nothing = export("--as", "kueue", "--prometheus", "http://127.0.0.1:9")
    assert (nothing.exit_code, "http://127.0.0.1:9: no answer" in nothing.output) == (2, True)


def test_without_the_packages_of_live_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    for words in (
        ("quota", "export", "--as", "kueue", "--prometheus", "http://127.0.0.1:9"),
        ("trace", "convert", "--from", "prometheus", "http://127.0.0.1:9", "--out", "never"),
    ):
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 2
        assert "pip install 'gfs-scheduler[live]'" in told.output


def test_it_is_kept_current_while_the_file_grows(files: tuple[str | Path, ...], tmp_path: Path) -> None:
    """A new hour of higher demand, then rows that cannot be read: the last quota stands; then lower demand again."""
    demand, out, applied = tmp_path / "demand.csv", tmp_path / "queue.yaml", tmp_path / "applied"
    command = f"test -f {tmp_path}/open && grep -h nominalQuota $GFS_QUOTA_FILE >> {applied}"
    words = ["--as", "kueue", *map(str, files), "--out", str(out), "--watch", "--interval", "1", "--apply", command]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command_line = [sys.executable, "-m", "gfs.cli.main", "quota", "export", *words]
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(command_line, stdout=subprocess.DEVNULL, stderr=errors, env=environment) as watcher,
    ):
        try:
            wait_until(lambda: out.exists() and "nominalQuota: 14" in out.read_text())
            wait_until(lambda: "no new quota: --apply: " in (tmp_path / "errors").read_text())
            (tmp_path / "open").touch()  # what could not be applied is tried again
            wait_until(lambda: applied.exists() and "14" in applied.read_text())
            with demand.open("a") as file:
                file.write(rows(range(192, 193), vision=40))
            wait_until(lambda: "nominalQuota: 4" in out.read_text())
            whole = demand.read_text()
            replace(demand, whole + "tomorrow,vision,A100,many\n")
            wait_until(lambda: "time = 'tomorrow': not a timestamp" in (tmp_path / "errors").read_text())
            assert "nominalQuota: 4" in out.read_text()
            replace(demand, whole + rows(range(193, 193 + 169), vision=10, language=0))
            wait_until(lambda: "nominalQuota: 54" in out.read_text())
            wait_until(lambda: len(applied.read_text().split()) == 6)
        finally:
            watcher.send_signal(signal.SIGINT)
            watcher.wait(LONGEST)
    assert watcher.returncode == 130
    assert applied.read_text().split()[1::2] == ["14", "4", "54"]
    assert (tmp_path / "errors").read_text().endswith("stopped; the last quota stands\n")
    assert not list(tmp_path.glob(".queue*")), "nothing half-written is left"


def replace(file: Path, text: str) -> None:
    """Give a file another content at once: nobody reads half of it."""
    file.with_suffix(".new").write_text(text)
    file.with_suffix(".new").replace(file)
