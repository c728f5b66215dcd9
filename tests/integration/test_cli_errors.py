"""What goes wrong is said in a sentence: exit code 2, no traceback, no file left half-written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.csv
import pytest
from typer.testing import CliRunner, Result

import gfs
from gfs import files as gfs_files
from gfs.cli.main import app
from gfs.simulator.engine import Engine
from gfs.workloads import write_trace

TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")
HEADER = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
GOOD = "j1,o,A100,1,1,1,0,60,HP\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    write_trace(gfs.generate("paper", nodes=8, days=1), ".")
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def refused(*words: str) -> str:
    """Run a command that must fail, and give back what it says."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    _, error, said = result.stderr.partition("error: ")
    assert error, result.output
    assert "Traceback" not in result.output
    assert not list(Path().glob(".*.part"))
    return said


def disk_full(*_: Any, **__: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class TestBadTraces:
    @pytest.mark.parametrize(
        ("row", "column", "reason"),
        [
            ("j2,o,A100,1,nan,1,0,60,HP", "gpu_request", "not a finite number"),
            ("j2,o,A100,1,inf,1,0,60,HP", "gpu_request", "not a finite number"),
            ("j2,o,A100,1,many,1,0,60,HP", "gpu_request", "not a number"),
            ("j2,o,A100,1,1.5,1,0,60,HP", "gpu_request", "whole number"),
            ("j2,o,A100,1,1,1,0,-60,HP", "duration", "negative"),
            ("j2,o,A100,1,1,1,-1,60,HP", "submit_time", "negative"),
            ("j1,o,A100,1,1,1,0,60,HP", "job_name", "already used in row 2"),
            ("j2,o,A100,1,9,1,0,60,HP", "gpu_request", "the largest A100 node has 8 cards"),
            ("j2,o,A100,1,8,9,0,60,HP", "worker_num", "holds only 8 pods"),
            ("j2,o,H100,1,1,1,0,60,HP", "gpu_model", "no node has this GPU model"),
            ("j2,o,A100,1,1,1,0,60,Urgent", "job_type", "HP or Spot"),
        ],
    )
    @pytest.mark.parametrize("command", [("simulate",), ("compare",), ("trace", "inspect")], ids=" ".join)
    def test_a_bad_row_is_named_and_nothing_runs(
        self, command: tuple[str, ...], row: str, column: str, reason: str
    ) -> None:
        Path("jobs.csv").write_text(f"{HEADER}{GOOD}{row}\n")
        said = refused(*command, *TRACE)
        assert f"jobs.csv: row 3, {column} = " in said
        assert reason in said
        assert "--skip-bad-rows" in said
        assert sorted(path.name for path in Path().iterdir()) == ["jobs.csv", "nodes.csv"]

    @pytest.mark.parametrize("command", [("simulate",), ("trace", "check"), ("trace", "inspect")], ids=" ".join)
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "jobs.csv: the file is empty"),
            (b"a,b,c\n1,2,3\n", "job_name"),
            (HEADER.encode() + "j1,caf\xe9,A100,1,1,1,0,60,HP\n".encode("latin-1"), "line 2 is not UTF-8"),
            (HEADER.encode(), "no usable job"),
        ],
        ids=["empty", "wrong columns", "Latin-1", "header only"],
    )
    def test_a_file_that_is_no_trace(self, command: tuple[str, ...], content: bytes, said: str) -> None:
        Path("jobs.csv").write_bytes(content)
        assert said in refused(*command, *TRACE)

    def test_a_directory_instead_of_a_file(self) -> None:
        Path("d").mkdir()
        assert "d: this is a directory" in refused("simulate", "--jobs", "d", "--nodes", "nodes.csv")

    def test_a_missing_file(self) -> None:
        assert "no.csv: no such file" in refused("simulate", "--jobs", "no.csv", "--nodes", "nodes.csv")

    def test_bad_nodes_are_found_too(self) -> None:
        with Path("nodes.csv").open("a") as file:
            file.write("n0,A100,0,1\n")
        result = run("trace", "check", *TRACE)
        assert result.exit_code == 2
        assert "already used" in result.stdout
        assert "gpu_capacity_num" in result.stdout


class TestBadOptions:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--scheduler", "yarn"), "did you mean yarn-cs?"),
            (("--set", "quota_shar=0.4"), "did you mean quota_share"),
            (("--set", "beta"), "key=value"),
            (("--set", "beta=much"), "must be a number"),
            (("--set", "beta=-1"), "beta = '-1': must be a number from 0 to 1,000,000"),
            (("--set", "quota=half"), "must be one of none, fixed"),
            (("--set", "quota=fixed", "--set", "quota_share=0"), "could never start"),
            (("--window", "later"), "START:END"),
            (("--window", "9:3"), "its end must come after its start"),
            (("--window", "99999999:"), "no task is submitted inside it"),
            (("--window", "nan:"), "START:END"),
            (("--config", "none.toml"), "none.toml: cannot be read"),
            (("--config", "nodes.csv"), "not a TOML file"),
            (("--events", "e.txt"), "ends in .csv, .csv.gz, .parquet"),
            (("--events", "no/e.csv"), "folder no does not exist"),
            (("--events", "jobs.csv"), "one of the inputs"),
            (("--events", "x.csv", "--quota-log", "x.csv"), "named twice"),
            (("--json", "."), "is a folder"),
            (("--set", "tick=1e300"), "tick = '1e300': must be a number from 1 to 2,592,000"),
            (("--set", "grace_period=1e12"), "must be a number from 0 to 86,400"),
            (("--set", "restart_overhead=1e308"), "must be a number from 0 to 86,400"),
            (("--set", "\x1b[2Jm=1"), "unknown parameter '\\x1b[2Jm'"),
            (("--config", "\x1b[2J"), "\\x1b[2J: cannot be read"),
            (("--json", os.devnull), "not an ordinary file"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_simulate_says_what_is_wrong(self, words: tuple[str, ...], said: str) -> None:
        before = Path("jobs.csv").read_bytes()
        assert said in refused("simulate", *TRACE, *words)
        assert Path("jobs.csv").read_bytes() == before

    def test_a_parameter_file_is_named_with_key_and_value(self) -> None:
        Path("p.toml").write_text("[parameters]\ntick = 1e300\n")
        said = refused("simulate", *TRACE, "--config", "p.toml")
        assert said == "p.toml: tick = 1e+300: must be a number from 1 to 2,592,000\n"

    @pytest.mark.parametrize(
        "words",
        [
            ("compare", *TRACE, "--html", "x.pdf"),
            ("compare", *TRACE, "--set", "p=2", "--html", "new/x.html"),
            ("simulate", *TRACE, "--seed", "-1", "--json", "s.json"),
            ("demo", "--out", "new", "--seed", "-1"),
            ("demo", "--out", "new/deep", "--sed", "1"),
            ("forecast", "predict", *TRACE, "--model", "nobody", "--html", "x.html"),
            ("forecast", "backtest", *TRACE, "--html", "x.pdf"),
        ],
        ids=" ".join,
    )
    def test_a_bad_option_leaves_nothing_behind(self, words: tuple[str, ...]) -> None:
        assert run(*words).exit_code == 2
        assert sorted(path.name for path in Path().iterdir()) == ["jobs.csv", "nodes.csv"]

    def test_a_negative_seed_is_refused_from_python_too(self) -> None:
        with pytest.raises(gfs.InputError, match="seed = -1: must be 0 or more"):
            gfs.simulate("jobs.csv", "nodes.csv", scheduler="static", quota="none", seed=-1)

    def test_options_are_checked_before_the_trace_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gfs.workloads.read_trace", lambda *_, **__: pytest.fail("read"))
        refused("simulate", *TRACE, "--scheduler", "nope")
        refused("simulate", *TRACE, "--events", "no/e.csv")
        refused("compare", *TRACE, "--html", "no/r.html")
        refused("trace", "inspect", *TRACE, "--html", "no/r.html")

    @pytest.mark.parametrize(
        ("names", "said"),
        [("gfs,statik", "did you mean static?"), ("gfs,gfs", "named twice"), (",", "name at least one")],
    )
    def test_compare_wants_known_schedulers_once(self, names: str, said: str) -> None:
        assert said in refused("compare", *TRACE, "--schedulers", names)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--preset", "papr"), "did you mean paper?"),
            (("--preset", "zzz"), "there are demo, paper, production"),
            (("--preset", "demo", "--days", "0"), "at least 1/24"),
            (("--preset", "demo", "--nodes", "0"), "at least 1 nodes"),
            (("--preset", "demo", "--spot-scale", "-1"), "0 or more"),
            (("--preset", "demo", "--mtbf-days", "0"), "mean time between failures must be at least 1/24"),
            (("--preset", "demo", "--mtbf-days", "9", "--mttr-hours", "0"), "mean time to repair must be above 0"),
            (("--preset", "demo", "--mttr-hours", "2"), "--mtbf-days, too"),
        ],
    )
    def test_generate_says_what_is_wrong(self, words: tuple[str, ...], said: str) -> None:
        assert said in refused("trace", "generate", *words, "--out", "new")
        assert not Path("new").exists()

    @pytest.mark.parametrize("words", [("trace", "generate", "--preset", "demo"), ("demo",)], ids=" ".join)
    def test_a_file_where_the_folder_should_be(self, words: tuple[str, ...]) -> None:
        assert "nodes.csv: is a file" in refused(*words, "--out", "nodes.csv")

    @pytest.mark.parametrize("words", [("--spot-share", "2"), ("--load", "0")], ids=" ".join)
    def test_convert_wants_sensible_shares(self, words: tuple[str, ...]) -> None:
        Path("c.csv").write_text("job_id,submission_time,duration,num_gpu\na,0,5,1\n")
        refused("trace", "convert", "--msr", "c.csv", "--out", "m", *words)

    @pytest.mark.parametrize(
        "words",
        [("simulate",), ("simulate", *TRACE, "--seed", "x"), ("nonsense",), ("trace", "check", "--jobz", "f")],
        ids=" ".join,
    )
    def test_usage_errors_have_exit_code_2(self, words: tuple[str, ...]) -> None:
        assert run(*words).exit_code == 2


class TestNodeEvents:
    @pytest.mark.parametrize("command", [("simulate",), ("compare",)], ids=" ".join)
    def test_bad_rows_are_listed_and_nothing_is_run(
        self, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Engine, "run", lambda _: pytest.fail("ran"))
        Path("e.csv").write_text("time,node,event\n5,n1,fail\n,n1,repair\n9,n77,fail\n9,n2,failed\n")
        said = refused(*command, *TRACE, "--node-events", "e.csv")
        assert "e.csv: row 3, time = '': missing" in said
        assert "e.csv: row 4, node = 'n77': no node has this name" in said
        assert "e.csv: row 5, event = 'failed': must be fail, repair, cordon or uncordon; did you mean fail?" in said
        assert "--skip-bad-rows" in said

    def test_no_such_file(self) -> None:
        assert "none.csv: no such file" in refused("simulate", *TRACE, "--node-events", "none.csv")

    def test_they_are_an_input_that_no_result_overwrites(self) -> None:
        Path("e.csv").write_text("time,node,event\n")
        said = refused("simulate", *TRACE, "--node-events", "e.csv", "--events", "e.csv")
        assert "is one of the inputs" in said

    def test_check_lists_them_in_a_table(self) -> None:
        Path("e.csv").write_text("time,node,event\n9,n77,fail\n")
        result = run("trace", "check", *TRACE, "--node-events", "e.csv")
        assert result.exit_code == 2
        assert "no node has this name" in result.stdout


class TestExplain:
    def test_columns_that_are_missing_are_named(self) -> None:
        Path("e.csv").write_text("time,event,task\n1,submit,a\n")
        said = refused("explain", "--events", "e.csv", "a")
        assert "run, node, gpus, reason missing" in said

    def test_values_that_are_no_numbers(self) -> None:
        Path("e.csv").write_text("time,event,task,run,node,gpus,reason\nsoon,submit,a,0,,1,\n")
        assert "row 2, time = 'soon': not a number" in refused("explain", "--events", "e.csv", "a")

    def test_a_log_that_was_cut_off(self) -> None:
        Path("e.csv").write_text("time,event,task,run,node,gpus,reason\n1,submit,a,0,,1,\n2,sta")
        assert "row 3" in refused("explain", "--events", "e.csv", "a")

    def test_an_unknown_task_gets_similar_names(self) -> None:
        assert run("simulate", *TRACE, "--events", "e.csv").exit_code == 0
        assert "Did you mean" in refused("explain", "--events", "e.csv", "h01x")


class TestWriting:
    """Results are complete or absent, whatever happens."""

    def test_no_permission_is_noticed_before_the_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)
        monkeypatch.setattr(Engine, "run", lambda _: pytest.fail("ran"))
        assert "no permission to write" in refused("simulate", *TRACE, "--json", "s.json")
        assert "no permission to write" in refused("demo", "--out", "d")

    def test_no_permission_that_shows_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def denied(*_: Any, **__: Any) -> NoReturn:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr("gfs.files._create_locked", denied)
        assert "e.csv: cannot be written: Permission denied" in refused("simulate", *TRACE, "--events", "e.csv")

    def test_full_disk_leaves_the_old_events(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("e.csv").write_text("old")
        monkeypatch.setattr(pyarrow.csv, "write_csv", disk_full)
        assert "e.csv: cannot be written: No space left" in refused("simulate", *TRACE, "--events", "e.csv")
        assert Path("e.csv").read_text() == "old"

    @pytest.mark.parametrize(
        ("words", "target"),
        [
            (("simulate", *TRACE, "--json", "out.json"), "out.json"),
            (("compare", *TRACE, "--schedulers", "gfs", "--html", "out.html"), "out.html"),
            (("trace", "inspect", *TRACE, "--html", "out.html"), "out.html"),
        ],
        ids=["json", "report", "page"],
    )
    def test_full_disk_in_the_middle_of_a_text(
        self, words: tuple[str, ...], target: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def half(path: Path, text: str) -> NoReturn:
            path.write_text(text[: len(text) // 2], encoding="utf-8")
            disk_full()

        Path(target).write_text("old")
        monkeypatch.setattr(gfs_files, "_write_text", half)
        assert f"{target}: cannot be written: No space left" in refused(*words)
        assert Path(target).read_text() == "old"

    def test_full_disk_for_a_trace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pyarrow.csv, "write_csv", disk_full)
        assert "jobs.csv: cannot be written" in refused("trace", "generate", "--preset", "demo", "--out", "new")
        assert list(Path("new").iterdir()) == []

    def test_any_other_trouble_with_files_names_the_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def lost(_: Engine) -> NoReturn:
            raise OSError(errno.EIO, os.strerror(errno.EIO), "somewhere.csv")

        monkeypatch.setattr(Engine, "run", lost)
        assert "somewhere.csv: Input/output error" in refused("simulate", *TRACE)

    def test_too_little_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def greedy(_: Engine) -> NoReturn:
            raise MemoryError

        monkeypatch.setattr(Engine, "run", greedy)
        assert "not enough memory" in refused("simulate", *TRACE)


class TestInterrupted:
    """Ctrl-C."""

    @pytest.mark.parametrize(
        "words",
        [
            ("simulate", *TRACE, "--events", "e.csv", "--json", "s.json", "--quota-log", "q.csv"),
            ("compare", *TRACE, "--html", "r.html", "--json", "s.json"),
        ],
        ids=["simulate", "compare"],
    )
    def test_in_the_middle_of_a_simulation_leaves_no_file(
        self, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Engine, "run", _press)
        result = run(*words)
        assert result.exit_code == 130
        assert result.stderr == "interrupted; nothing was written\n"
        assert sorted(path.name for path in Path().iterdir()) == ["jobs.csv", "nodes.csv"]

    def test_between_two_files_says_which_is_complete(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gfs_files, "_write_text", _press)
        result = run("simulate", *TRACE, "--events", "e.csv", "--json", "s.json")
        assert result.exit_code == 130
        assert "interrupted; complete before that: e.csv" in result.stderr
        assert sorted(path.name for path in Path().iterdir()) == ["e.csv", "jobs.csv", "nodes.csv"]


def _press(*_: Any) -> NoReturn:
    raise KeyboardInterrupt
