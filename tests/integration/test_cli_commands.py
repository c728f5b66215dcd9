"""Every command of the command line does what its help says, from a folder of its own."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import gfs
from gfs.assembly.aliases import OPTIONS, warn_once
from gfs.cli.main import app
from gfs.workloads import write_trace

EVENT_COLUMNS = [
    "time",
    "event",
    "task",
    "kind",
    "organization",
    "gpu_model",
    "run",
    "node",
    "cards",
    "gpus",
    "reason",
]
QUOTA_COLUMNS = [
    *("time", "gpu_model", "guarantee_hours", "inventory", "eta", "quota", "spot_in_use", "idle"),
    *("demand", "eviction_rate", "longest_wait", "forecaster"),
    *("organization", "organization_demand", "peak_hour", "expected_demand"),
]
CLASS_KEYS = {"tasks", "jct_mean", "jct_p99", "jqt_mean", "jqt_p99"}
TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trace of a few hundred tasks, some of which are evicted, and nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    write_trace(gfs.generate("paper", nodes=8, days=3, spot_scale=4), ".")
    return tmp_path


def run(*words: str) -> Result:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def loaded(path: str) -> Any:
    return json.loads(Path(path).read_text())


def files() -> set[str]:
    return {path.name for path in Path().iterdir()}


def widest(text: str) -> int:
    return max(len(line) for line in text.splitlines())


class TestSimulate:
    def test_prints_a_table_that_fits_80_columns(self) -> None:
        result = run("simulate", *TRACE, "--scheduler", "yarn-cs")
        assert "yarn-cs on jobs.csv" in result.stdout
        assert "evicted of runs [%]" in result.stdout
        assert "A100" in result.stdout
        assert widest(result.stdout) <= 80
        assert files() == {"jobs.csv", "nodes.csv"}

    def test_json_has_the_agreed_keys(self) -> None:
        run("simulate", *TRACE, "--json", "s.json", "--window", "0:172800", "--seed", "7")
        document = loaded("s.json")
        assert set(document) == {"runs"}
        (entry,) = document["runs"]
        assert {"scheduler", "seed", "window", "parameters", "seconds", "version", "metrics"} <= set(entry)
        assert (entry["scheduler"], entry["seed"], entry["window"]) == ("gfs", 7, [0, 172800])
        assert entry["version"] == gfs.__version__
        assert entry["parameters"] == gfs.Parameters().to_dict()
        assert entry["seconds"] > 0
        metrics = entry["metrics"]
        assert set(metrics["hp"]) >= CLASS_KEYS
        assert set(metrics["spot"]) >= CLASS_KEYS | {"runs", "evictions", "eviction_rate", "wasted_gpu_hours"}
        assert set(metrics["allocation_rate"]) == {"A100"}

    def test_says_the_same_as_the_python_api(self) -> None:
        run("simulate", *TRACE, "--set", "quota=fixed", "--set", "quota_share=0.5", "--json", "s.json")
        result = gfs.simulate("jobs.csv", "nodes.csv", quota="fixed", quota_share=0.5)
        said = loaded("s.json")["runs"][0]["metrics"]
        assert said["spot"] == result.summary()["metrics"]["spot"]
        assert said["hp"] == result.summary()["metrics"]["hp"]

    def test_json_to_the_screen_is_nothing_but_json(self) -> None:
        result = run("simulate", *TRACE, "--json", "-")
        assert json.loads(result.stdout)["runs"][0]["scheduler"] == "gfs"

    def test_events_and_quota(self) -> None:
        run(
            "simulate",
            *TRACE,
            "--scheduler",
            "static",
            "--set",
            "quota_share=0.5",
            "--events",
            "e.csv",
            "--quota-log",
            "q.csv",
        )
        events, quota = rows("e.csv"), rows("q.csv")
        assert list(events[0]) == EVENT_COLUMNS
        assert {row["event"] for row in events} == {"submit", "start", "finish", "evict"}
        assert list(quota[0]) == QUOTA_COLUMNS
        assert {float(row["quota"]) for row in quota} == {32.0}  # half of 8 nodes x 8 cards

    def test_quota_of_a_scheduler_without_one_is_just_the_header(self) -> None:
        result = run("simulate", *TRACE, "--scheduler", "yarn-cs", "--quota-log", "q.csv")
        assert rows("q.csv") == []
        assert Path("q.csv").read_text().replace('"', "").strip().split(",") == QUOTA_COLUMNS
        assert "--set quota=fixed" in result.stderr

    def test_same_seed_same_bytes(self) -> None:
        for name in ("a.csv", "b.csv"):
            run("simulate", *TRACE, "--seed", "3", "--events", name)
        assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()

    def test_all_kinds_of_event_files_hold_the_same(self) -> None:
        run("simulate", *TRACE, "--events", "e.parquet")
        run("simulate", *TRACE, "--events", "e.csv.gz")
        table = pq.read_table("e.parquet")
        assert table.column_names == EVENT_COLUMNS
        assert Path("e.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
        assert files() == {"jobs.csv", "nodes.csv", "e.parquet", "e.csv.gz"}

    def test_settings_win_over_the_config_file(self) -> None:
        Path("c.toml").write_text('quota = "fixed"\nquota_share = 0.9\nbeta = 2\n')
        run("simulate", *TRACE, "--config", "c.toml", "--set", "quota_share=0.6", "--json", "s.json")
        parameters = loaded("s.json")["runs"][0]["parameters"]
        assert (parameters["quota"], parameters["quota_share"], parameters["beta"]) == ("fixed", 0.6, 2.0)

    def test_check_finds_nothing(self) -> None:
        run("simulate", *TRACE, "--check")

    def test_skipped_rows_are_counted(self) -> None:
        with Path("jobs.csv").open("a") as file:
            file.write("odd,o,A100,1,-3,0,0,60,HP\n")
        result = run("simulate", *TRACE, "--skip-bad-rows")
        assert "left out 1 row that" in result.stderr

    def test_a_default_that_no_task_needs_is_remarked_on(self) -> None:
        text = Path("jobs.csv").read_text().splitlines()
        own = text[0].split(",").index("guarantee_hours") if "guarantee_hours" in text[0] else None
        result = run("simulate", *TRACE, "--set", "guarantee_hours=4")
        assert ("changes nothing" in result.stderr) == (own is not None)


class TestTimestamps:
    def test_a_trace_with_timestamps_gives_events_and_pages_with_dates(self) -> None:
        times = [datetime(2024, 4, 1) + timedelta(seconds=float(row["submit_time"])) for row in rows("jobs.csv")]
        jobs = pc.read_csv("jobs.csv")
        place = jobs.column_names.index("submit_time")
        pq.write_table(jobs.set_column(place, "submit_time", pa.array(times, pa.timestamp("ms"))), "dated.parquet")
        trace = ("--jobs", "dated.parquet", "--nodes", "nodes.csv")
        run("simulate", *trace, "--events", "e.csv", "--json", "s.json")
        assert loaded("s.json")["runs"][0]["parameters"]["first_day"] == "2024-04-01"
        events = rows("e.csv")
        assert list(events[0])[-1] == "timestamp"
        for row in events[:: len(events) // 5]:
            moment = datetime(2024, 4, 1) + timedelta(seconds=float(row["time"]))
            assert abs(datetime.fromisoformat(row["timestamp"]) - moment) < timedelta(seconds=1)
        life = run("explain", "--events", "e.csv", events[0]["task"]).stdout
        assert "finished" in life
        assert events[0]["timestamp"][:16].replace("T", " ") in life
        run("trace", "inspect", *trace, "--html", "t.html")
        page = Path("t.html").read_text(encoding="utf-8")
        assert "days, from 2024-04-01 " in page
        assert '"type":"date"' in page
        run("compare", *trace, "--schedulers", "static", "--html", "c.html")
        assert "Time 0 is 2024-04-01 00:00" in Path("c.html").read_text(encoding="utf-8")
        other = CliRunner().invoke(app, ["simulate", *trace, "--set", "first_day=2024-04-02"])
        assert other.exit_code == 2
        assert "the trace has timestamps, by which it is 2024-04-01; leave it out" in other.stderr

    def test_without_them_the_columns_are_as_ever(self) -> None:
        run("simulate", *TRACE, "--events", "e.csv")
        assert list(rows("e.csv")[0])[-1] == "reason"


class TestCompare:
    def test_one_table_with_the_best_marked(self) -> None:
        result = run("compare", *TRACE, "--schedulers", "gfs,yarn-cs,static", "--set", "quota_share=0.5")
        for name in ("gfs", "yarn-cs", "static"):
            assert re.search(rf"^{name} ", result.stdout, re.MULTILINE)
        assert "* best of its column" in result.stdout
        assert widest(result.stdout) <= 80

    def test_report_and_json(self) -> None:
        run(
            "compare",
            *TRACE,
            "--schedulers",
            " static , gfs",
            "--set",
            "quota_share=0.5",
            "--html",
            "r.html",
            "--json",
            "s.json",
        )
        assert [entry["scheduler"] for entry in loaded("s.json")["runs"]] == ["static", "gfs"]
        page = Path("r.html").read_text(encoding="utf-8")
        assert "Side by side" in page
        assert not re.search(r"<script[^>]+src=", page)

    def test_agrees_with_simulate_however_many_workers(self) -> None:
        alone = json.loads(run("simulate", *TRACE, "--json", "-").stdout)["runs"][0]["metrics"]
        for workers in ("1", "2"):
            result = run("compare", *TRACE, "--schedulers", "gfs,yarn-cs", "--workers", workers, "--json", "-")
            assert json.loads(result.stdout)["runs"][0]["metrics"] == alone


class TestExplain:
    def evicted(self, path: str) -> str:
        return next(row["task"] for row in rows(path) if row["event"] == "evict")

    def test_tells_waits_runs_evictions_and_why(self) -> None:
        run("simulate", *TRACE, "--events", "e.csv")
        name = self.evicted("e.csv")
        result = run("explain", "--events", "e.csv", name, "--json", "life.json")
        assert f"{name}: Spot task of org-" in result.stdout
        assert "evicted for h" in re.sub(r"\s+", " ", result.stdout)
        assert "was evicted" in result.stdout
        assert "after it was submitted." in result.stdout
        assert widest(result.stdout.split("\n\n")[0]) <= 80
        life = loaded("life.json")
        assert (life["task"], life["kind"], life["gpu_model"]) == (name, "Spot", "A100")
        assert life["steps"][0]["what"] == "submitted"
        assert life["steps"][-1]["what"] == "finished"
        assert "evicted" in {step["what"] for step in life["steps"]}

    @pytest.mark.parametrize("file", ["e.parquet", "e.csv.gz"])
    def test_reads_what_simulate_writes(self, file: str) -> None:
        run("simulate", *TRACE, "--events", "e.csv")
        run("simulate", *TRACE, "--events", file)
        name = self.evicted("e.csv")
        assert run("explain", "--events", file, name).stdout == run("explain", "--events", "e.csv", name).stdout

    LIFE = (
        "time,event,task,kind,organization,gpu_model,run,node,cards,gpus,reason\n"
        "0,submit,a,HP,lab,A100,0,,,2,\n"
        "0,start,a,HP,lab,A100,1,n3,0+1,2,\n"
        "4000,lost,a,HP,lab,A100,1,n3,0+1,2,node n3 failed\n"
        "4000,submit,b,Spot,lab,A100,0,,,1,\n"
        "4100,start,a,HP,lab,A100,2,n4,0+1,2,pool A100: no idle GPU\n"
        "4600,cancel,b,Spot,lab,A100,0,,,1,\n"
        "5000,finish,a,HP,lab,A100,2,n4,0+1,2,\n"
        "6000,submit,c,HP,lab,A100,0,,,2,\n"
        "6000,start,c,HP,lab,A100,1,n4,0+1,2,\n"
        "6600,cancel,c,HP,lab,A100,1,n4,0+1,2,\n"
    )

    @pytest.mark.parametrize(
        ("name", "steps", "sentence"),
        [
            (
                "a",
                [("4,000", "lost", "node n3 failed"), ("4,000", "waited", "pool A100: no idle GPU")],
                "It waited 1.67 min in all, ran twice, was never evicted, was lost once and finished 83.3 min"
                " after it was submitted.",
            ),
            (
                "b",
                [("4,000", "waited", ""), ("4,600", "cancelled", "its owner withdrew it")],
                "It waited 10 min in all, never ran, was never evicted and was cancelled 10 min after it was"
                " submitted.",
            ),
            (
                "c",
                [("6,000", "ran", ""), ("6,600", "cancelled", "its owner withdrew it")],
                "It waited 0 s in all, ran once, was never evicted and was cancelled 10 min after it was submitted.",
            ),
        ],
    )
    def test_losses_and_cancellations(self, name: str, steps: list[tuple[str, str, str]], sentence: str) -> None:
        Path("life.csv").write_text(self.LIFE)
        told = run("explain", "--events", "life.csv", name).stdout
        lines = [" ".join(line.split()) for line in told.splitlines()]
        for when, what, why in steps:
            assert any(line.startswith(f"{when} {what}") and line.endswith(why) for line in lines), told
        assert sentence in " ".join(told.split())

    def test_a_loss_as_json(self) -> None:
        Path("life.csv").write_text(self.LIFE)
        run("explain", "--events", "life.csv", "a", "--json", "life.json")
        lost = next(step for step in loaded("life.json")["steps"] if step["what"] == "lost")
        assert (lost["time"], lost["nodes"], lost["reason"]) == (4000, ["n3"], "node n3 failed")


class TestNodeEvents:
    """Two nodes of eight fail while the trace goes on, one is cordoned for an hour."""

    EVENTS = (
        "time,node,event\n40000,n1,fail\n50000,n1,repair\n60000,n2,cordon\n63600,n2,uncordon\n"
        "80000,n5,fail\n80000,n6,fail\n90000,n5,repair\n90000,n6,repair\n"
    )

    @pytest.fixture(autouse=True)
    def file(self) -> None:
        Path("node_events.csv").write_text(self.EVENTS)

    def test_simulate_loses_runs_and_says_so(self) -> None:
        words = ("--node-events", "node_events.csv", "--events", "e.csv", "--json", "s.json")
        result = run("simulate", *TRACE, *words, "--check")
        metrics = loaded("s.json")["runs"][0]["metrics"]
        lost = {(row["task"], row["run"]): row for row in rows("e.csv") if row["event"] == "lost"}
        assert len(lost) == metrics["hp"]["lost"] + metrics["spot"]["lost"] > 0
        assert {row["time"] for row in lost.values()} <= {"40000", "80000"}
        assert "lost runs" in result.stdout
        (name, _), row = next(iter(lost.items()))
        told = " ".join(run("explain", "--events", "e.csv", name).stdout.split())
        assert row["reason"]
        assert f"lost {row['reason']}" in told
        assert "was lost" in told

    def test_compare_shows_what_was_lost(self) -> None:
        words = ("--node-events", "node_events.csv", "--schedulers", "gfs,static")
        result = run("compare", *TRACE, *words, "--html", "r.html", "--json", "c.json")
        assert "lost" in result.stdout
        assert "lost runs" in Path("r.html").read_text(encoding="utf-8")
        assert all(entry["metrics"]["hp"]["lost"] >= 0 for entry in loaded("c.json")["runs"])

    def test_workers_get_them_too(self) -> None:
        words = ("--node-events", "node_events.csv", "--schedulers", "gfs,static", "--json", "-")
        one, two = (run("compare", *TRACE, *words, "--workers", n).stdout for n in ("1", "2"))
        assert [entry["metrics"] for entry in json.loads(one)["runs"]] == [
            entry["metrics"] for entry in json.loads(two)["runs"]
        ]

    def test_without_them_nothing_is_lost(self) -> None:
        result = run("simulate", *TRACE, "--json", "s.json")
        assert loaded("s.json")["runs"][0]["metrics"]["hp"]["lost"] == 0
        assert "lost" not in result.stdout

    def test_cancelled_tasks_are_told(self) -> None:
        work = gfs.generate("paper", nodes=8, days=1)
        cancels = tuple(t.submit_time + 60 if t.index % 5 == 0 else float("inf") for t in work.tasks)
        write_trace(replace(work, cancel_times=cancels), "cancels")
        words = ("--jobs", "cancels/jobs.csv", "--nodes", "cancels/nodes.csv")
        assert (
            f"{sum(time < float('inf') for time in cancels)} with a cancel time" in run("trace", "check", *words).stdout
        )
        result = run("simulate", *words, "--events", "e.csv", "--json", "s.json", "--check")
        metrics = loaded("s.json")["runs"][0]["metrics"]
        cancelled = {row["task"] for row in rows("e.csv") if row["event"] == "cancel"}
        assert len(cancelled) == metrics["hp"]["cancelled"] + metrics["spot"]["cancelled"] > 0
        assert "cancelled tasks" in result.stdout


class TestTrace:
    def test_generate_can_let_nodes_fail(self) -> None:
        words = ("--preset", "paper", "--nodes", "9", "--days", "2")
        run("trace", "generate", *words, "--out", "plain")
        result = run("trace", "generate", *words, "--mtbf-days", "2", "--mttr-hours", "1", "--out", "new")
        assert "wrote new/jobs.csv, new/nodes.csv and new/node_events.csv" in result.stdout
        assert "--nodes new/nodes.csv --node-events new/node_events.csv" in result.stdout
        fails = sum(row["event"] == "fail" for row in rows("new/node_events.csv"))
        assert f", {fails} node failures" in result.stdout
        assert Path("new/jobs.csv").read_bytes() == Path("plain/jobs.csv").read_bytes()
        assert {path.name for path in Path("plain").iterdir()} == {".gfs-files.json", "jobs.csv", "nodes.csv"}
        files = ("--jobs", "new/jobs.csv", "--nodes", "new/nodes.csv", "--node-events", "new/node_events.csv")
        assert f", {fails} node failures" in run("trace", "check", *files).stdout

    def test_no_failure_by_chance_is_a_file_of_none(self) -> None:
        run("trace", "generate", "--preset", "demo", "--nodes", "1", "--mtbf-days", "1e9", "--out", "new")
        assert Path("new/node_events.csv").read_text() == "time,node,event\n"

    def test_generate_writes_writes_a_trace_that_passes_the_check(self) -> None:
        words = ("--preset", "paper", "--nodes", "9", "--days", "2", "--spot-scale", "2", "--seed", "5")
        result = run("trace", "generate", *words, "--out", "new/one")
        assert "on 9 nodes (72 A100 GPUs)" in result.stdout
        checked = run("trace", "check", "--jobs", "new/one/jobs.csv", "--nodes", "new/one/nodes.csv")
        assert checked.stdout.startswith("OK: ")
        run("trace", "generate", *words, "--out", "again")
        assert Path("again/jobs.csv").read_bytes() == Path("new/one/jobs.csv").read_bytes()

    def test_check_lists_every_bad_value(self) -> None:
        with Path("jobs.csv").open("a") as file:
            file.write("odd,o,A100,1,-3,0,0,60,HP\n")
        last = len(Path("jobs.csv").read_text().splitlines())
        result = CliRunner().invoke(app, ["trace", "check", *TRACE, "--json", "bad.json"])
        assert result.exit_code == 2
        assert "gpu_request" in result.stdout
        assert "worker_num" in result.stdout
        assert "error: 1 row cannot be used" in result.stderr
        document = loaded("bad.json")
        assert document["ok"] is False
        assert {"file", "row", "column", "value", "reason"} == set(document["bad_rows"][0])
        assert {(bad["row"], bad["column"]) for bad in document["bad_rows"]} == {
            (last, "gpu_request"),
            (last, "worker_num"),
        }
        left = run("trace", "check", *TRACE, "--skip-bad-rows")
        assert "OK without 1 row: " in left.stdout

    def test_check_of_very_many_bad_rows_stays_short(self) -> None:
        with Path("jobs.csv").open("a") as file:
            file.writelines(f"odd{i},o,A100,1,-3,1,0,60,HP,1,3600\n" for i in range(500))
        result = CliRunner().invoke(app, ["trace", "check", *TRACE])
        assert "... and 450 more values" in result.stdout
        assert len(result.stdout.splitlines()) < 120

    def test_inspect_prints_tables_and_writes_a_page(self) -> None:
        result = run("trace", "inspect", *TRACE, "--json", "i.json")
        for title in ("Pools", "Classes", "GPU requests", "Duration by", "organizations"):
            assert title in result.stdout
        assert "open trace.html" in result.stderr
        assert "Load against capacity" in Path("trace.html").read_text(encoding="utf-8")
        document = loaded("i.json")
        assert [part["kind"] for part in document["classes"]] == ["HP", "Spot"]
        assert len(document["load"][0]["hp"]) == len(document["bin_start"])

    def test_inspect_page_can_go_elsewhere(self) -> None:
        run("trace", "inspect", *TRACE, "--html", "page.html")
        assert files() == {"jobs.csv", "nodes.csv", "page.html"}

    def test_convert_reads_the_microsoft_format(self) -> None:
        jobs = "".join(f"id{i},{i * 60},{600 + i},{1 + i % 9}\n" for i in range(200))
        Path("cluster01.csv").write_text("job_id,submission_time,duration,num_gpu\n" + jobs)
        result = run("trace", "convert", "--msr", "cluster01.csv", "--out", "m", "--spot-share", "0.5", "--load", "0.5")
        assert "spot tasks on" in result.stdout
        run("simulate", "--jobs", "m/jobs.csv", "--nodes", "m/nodes.csv")

    @pytest.mark.parametrize(
        ("words", "tasks", "guess"),
        [
            (("slurm", "sacct.txt", "--nodes", "scontrol.txt"), "3 HP and 2 spot tasks", "organization by Account"),
            (("csv", "jobs.csv", "--nodes", "nodes.csv", "--map", "columns.toml"), "1 HP and 2 spot tasks", ""),
        ],
    )
    def test_convert_reads_the_samples(self, words: tuple[str, ...], tasks: str, guess: str) -> None:
        samples = Path(__file__).parents[2] / "examples" / "records"
        given = [str(samples / word) if "." in word else word for word in words]
        result = run("trace", "convert", "--from", *given, "--out", "m")
        assert tasks in result.stdout
        assert guess in result.stdout
        assert "--set first_day=2026-05-04" in result.stdout
        run("simulate", "--jobs", "m/jobs.csv", "--nodes", "m/nodes.csv", "--set", "first_day=2026-05-04")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "say which records these are: --from slurm, kubernetes, prometheus, csv, msr"),
            (("--from", "pbs", "x"), "--from pbs: unknown"),
            (("--from", "slurm"), "name the file"),
            (("--from", "slurm", "jobs.csv"), "give the nodes with --nodes"),
            (("--from", "slurm", "jobs.csv", "--nodes", "nodes.csv"), "scontrol show nodes"),
            (("--from", "csv", "jobs.csv", "--nodes", "nodes.csv"), "with --map FILE"),
            (("--from", "kubernetes", "jobs.csv"), "line 1 is not JSON"),
            (("--from", "slurm", "jobs.csv", "--nodes", "nodes.csv", "--timezone", "Mars"), "no such time zone"),
            (("--msr", "a", "--from", "slurm"), "give one of them"),
            (("--from", "prometheus"), "name the address of the server"),
            (("--from", "prometheus", "localhost:9090"), "give its address, such as http://"),
            (("--from", "prometheus", "http://127.0.0.1:9"), "http://127.0.0.1:9: no answer"),
            (("--from", "prometheus", "http://a", "--nodes", "nodes.csv"), "leave --nodes out"),
            (("--from", "prometheus", "http://a", "--start", "soon"), "--start soon: write a date or a moment"),
            (("--from", "prometheus", "http://a", "--start", "2026-05-01", "--days", "3"), "not both"),
            (("--from", "prometheus", "http://a", "--days", "9999"), "9,999 days are asked for; 800 are the most"),
            (("--from", "prometheus", "http://a", "--header", "secret"), "--header: write 'Name: value'"),
            (("--from", "prometheus", "http://a", "--token-file", "none"), "none: cannot be read"),
            (("--from", "slurm", "jobs.csv", "--days", "3"), "only with --from prometheus, not slurm"),
            (("--from", "slurm", "jobs.csv", "--demand", "d.csv"), "--demand: only --from prometheus knows"),
        ],
    )
    def test_convert_says_what_is_missing(self, words: tuple[str, ...], said: str) -> None:
        result = CliRunner().invoke(app, ["trace", "convert", *words, "--out", "m"])
        assert result.exit_code == 2, result.output
        assert said in " ".join(result.stderr.split())
        assert not Path("m").exists()

    def test_convert_lists_bad_rows(self) -> None:
        Path("cluster01.csv").write_text("job_id,submission_time,duration,num_gpu\na,0,-5,1\n")
        result = CliRunner().invoke(app, ["trace", "convert", "--msr", "cluster01.csv", "--out", "m"])
        assert result.exit_code == 2
        assert "must not be negative" in result.stdout
        assert "nothing was written" in result.stderr
        assert not Path("m").exists()


class TestDemo:
    def test_everything_it_promises(self) -> None:
        result = run("demo", "--out", "my demo", "--seed", "1")
        assert {path.name for path in Path("my demo").iterdir()} == {
            ".gfs-files.json",  # which of them gfs wrote
            "report.html",
            "jobs.csv",
            "nodes.csv",
            "summary.json",
            "events.csv",
        }
        assert [entry["scheduler"] for entry in loaded("my demo/summary.json")["runs"]] == [
            "gfs-plus",
            "gfs",
            "yarn-cs",
            "static",
        ]
        assert "* best of its column" in result.stdout
        page = Path("my demo/report.html").read_text(encoding="utf-8")
        assert not re.search(r"<script[^>]+src=", page)

    def test_the_commands_it_recommends_work_as_printed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/gfs")
        printed = [line.strip() for line in run("demo").stdout.splitlines() if line.startswith("    gfs ")]
        commands = [shlex.split(line)[1:] for line in printed if "JOBS.csv" not in line]
        assert {words[0] for words in commands} == {"explain", "trace", "compare"}
        for words in commands:
            run(*words)


class TestLists:
    def test_schedulers(self) -> None:
        result = run("schedulers")
        assert all(name in result.stdout for name in gfs.SCHEDULERS)

    def test_parameters(self) -> None:
        result = run("parameters")
        for item in gfs.Parameters.describe():
            default = f"{item.default:g}" if isinstance(item.default, float) else str(item.default).lower()
            assert re.search(rf"^{item.name} +{re.escape(default or '-')} ", result.stdout, re.MULTILINE)
            assert item.meaning.split()[0] in result.stdout
        assert widest(result.stdout) <= 80

    def test_version(self) -> None:
        assert run("--version").stdout.strip() == f"gfs {gfs.__version__}"

    @pytest.mark.parametrize(
        "words",
        [
            *(["demo"], ["simulate"], ["compare"], ["explain"], ["schedulers"], ["parameters"], ["trace"]),
            *(["reproduce"], ["plan"], ["sweep"], ["sweep", "run"], ["sweep", "show"], ["forecast"]),
            *(["trace", name] for name in ("generate", "check", "inspect", "convert")),
            *(["forecast", name] for name in ("predict", "backtest", "evaluate")),
        ],
        ids=" ".join,
    )
    @pytest.mark.parametrize("option", ["--help", "-h"])
    def test_every_help_has_an_example(self, words: list[str], option: str) -> None:
        text = re.sub(r"\x1b\[[0-9;]*m", "", run(*words, option).stdout)  # Typer colours it on GitHub
        assert "<bool>" not in text
        assert re.search(r"Examples?:\s+gfs ", text)
        assert widest(text) <= 80

    def test_help_is_wrapped_by_the_terminal_not_by_the_source(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "140")
        text = run("simulate", "--help").stdout
        assert (
            "Every task runs until it is done or cancelled. The event log (--events) holds every submission, start"
            in text
        )


class TestOldNames:
    """Options of earlier versions work, with one line of warning."""

    @pytest.mark.parametrize("word", [("--quota", "q.csv"), ("--quota=q.csv",)], ids=" ".join)
    def test_an_old_option(self, word: tuple[str, ...]) -> None:
        warn_once.cache_clear()
        result = run("simulate", *TRACE, "--set", "quota=none", *word)
        assert Path("q.csv").exists()
        warning = "warning: option --quota is now called --quota-log; the old name works in this version only"
        assert result.stderr.count(warning) == 1

    def test_an_old_parameter_and_an_old_value(self) -> None:
        warn_once.cache_clear()
        Path("p.toml").write_text('patience = 60\nquota = "open-loop"\n')
        result = run("simulate", *TRACE, "--config", "p.toml", "--json", "s.json", "--set", "patience=70")
        found = loaded("s.json")["runs"][0]
        assert found["parameters"]["starvation_timeout"] == 70
        assert found["quota_in_force"] == found["parameters"]["quota"] == "forecast-no-feedback"
        assert [line for line in result.stderr.splitlines() if line.startswith("warning: ")] == [
            "warning: parameter patience is now called starvation_timeout; the old name works in this version only",
            "warning: quota = open-loop is now called forecast-no-feedback; the old name works in this version only",
            "warning: starvation_timeout: no effect under gfs (quota: forecast-no-feedback);"
            " gfs parameters says what they are for",
        ]

    @pytest.mark.parametrize(("command", "renamed"), OPTIONS.items())
    def test_every_new_option_exists(self, command: str, renamed: dict[str, str]) -> None:
        text = re.sub(r"\x1b\[[0-9;]*m", "", run(*command.split(), "--help").stdout)
        for old, new in renamed.items():
            assert f"{new} " in text
            assert f"{old} " not in text


class TestIdleSettings:
    def test_a_setting_without_effect_is_told_in_a_line(self) -> None:
        warn_once.cache_clear()
        result = run("compare", *TRACE, "--schedulers", "lyra,yarn-cs", "--set", "p=0.8", "--set", "theta=60")
        assert [line for line in result.stderr.splitlines() if line.startswith("warning: ")] == [
            "warning: p, theta: no effect under lyra (quota: none), yarn-cs (quota: none);"
            " gfs parameters says what they are for"
        ]
