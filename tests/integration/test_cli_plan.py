"""`gfs plan` from the command line: the answer, its files, going on, honest answers to odd traces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from builders import Draft, hp, nodes, spot, workload
from gfs import Workload, generate
from gfs.cli.main import app
from gfs.workloads import write_trace

FILES = ("plan.html", "gfs.toml", "settings.parquet")
DAY = 86400


def plan(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, words)], env={"COLUMNS": "80"})


def written(work: Workload, folder: Path) -> tuple[str | Path, ...]:
    """The options that give this trace."""
    jobs, machines = write_trace(work, folder)
    return ("--jobs", jobs, "--nodes", machines)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """Six busy nodes for two days, with evictions."""
    return generate("demo", nodes=6, days=2, spot_scale=2, seed=1)


@pytest.fixture(scope="module")
def made(small: Workload, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A plan for it: the folder and what was printed."""
    folder = tmp_path_factory.mktemp("plan")
    options = (*written(small, folder), "--quick", "--workers", "1", "--out", folder / "out")
    return folder, plan(*options, "--json", folder / "plan.json")


class TestAnswer:
    def test_words_first_then_tables_of_80_columns(self, made: tuple[Path, Result]) -> None:
        _, result = made
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(("Set p = ", "None of the "))
        for title in ("Settings", "Against today", "Other nodes", "Other spot work", "Each guarantee"):
            assert title in result.stdout
        tables = result.stdout.rpartition("The page: open")[0]
        assert max(map(len, tables.splitlines())) <= 80
        assert "…" not in tables

    def test_the_json_and_the_table_have_every_run(self, made: tuple[Path, Result]) -> None:
        folder, _ = made
        document = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        table = pq.read_table(folder / "out/settings.parquet")
        assert {"p", "guarantee_hours", "eta_min", "eta_max", "spot_eviction_rate", "node_share"} <= set(
            table.column_names
        )
        runs = {
            json.dumps([run["scheduler"], run["parameters"], run["node_share"], run["spot_scale"]])
            for part in ("settings", "today", "what_if", "demand")
            for run in document[part]
        }
        assert table.num_rows == len(runs)
        assert document["target_evictions"] == 0.05
        assert "ASSUMPTION" in document["prices"]
        assert document["recommended"] in document["settings"]

    def test_the_recommended_one_is_within_the_target_and_waits_least(self, made: tuple[Path, Result]) -> None:
        document = json.loads((made[0] / "plan.json").read_text(encoding="utf-8"))
        within = [s["figures"] for s in document["settings"] if s["figures"]["spot_eviction_rate"] <= 0.05]
        assert document["meets_target"] == bool(within)
        if within:
            shortest = min(figures["spot_jqt_mean"] for figures in within)
            assert document["recommended"]["figures"]["spot_jqt_mean"] == shortest

    def test_the_config_file_gives_the_very_figures(self, made: tuple[Path, Result]) -> None:
        folder, _ = made
        document = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        trace = ("--jobs", str(folder / "jobs.csv"), "--nodes", str(folder / "nodes.csv"))
        words = ("simulate", *trace, "--config", str(folder / "out/gfs.toml"), "--json", str(folder / "run.json"))
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        (run,) = json.loads((folder / "run.json").read_text(encoding="utf-8"))["runs"]
        planned = document["recommended"]["figures"]
        assert {k: planned[f"spot_{k}"] for k in run["metrics"]["spot"]} == run["metrics"]["spot"]
        assert {k: planned[f"hp_{k}"] for k in run["metrics"]["hp"]} == run["metrics"]["hp"]
        assert planned["allocation_rate"] == run["metrics"]["allocation_rate_total"]

    def test_the_page_is_whole_and_loads_nothing(self, made: tuple[Path, Result]) -> None:
        folder, result = made
        page = (folder / "out/plan.html").read_text(encoding="utf-8")
        for title in ("The answer", "Settings", "Against today", "Other nodes", "What could be sold"):
            assert f"<h2>{title}</h2>" in page
        assert 'src="http' not in page
        assert result.stdout.split("\n\n")[0].split()[:4] == page.partition('class="lead">')[2].split()[:4]


ONE_SETTING = tuple(word for name in ("p=0.8", "guarantee_hours=1", "eta_max=1.5") for word in ("--set", name))
"""What is set stays as it is, so that one setting is left to try: six runs."""


class TestAgain:
    def test_a_stopped_plan_goes_on_and_the_same_again_is_the_same(self, tmp_path: Path) -> None:
        """Two at once give the same bytes as one; of what was lost only that is computed again."""
        trace = (*written(generate("demo", nodes=10, days=0.5, seed=1), tmp_path), "--quick", *ONE_SETTING)
        assert plan(*trace, "--workers", "1", "--out", tmp_path / "one").exit_code == 0
        options = (*trace, "--workers", "2", "--out", tmp_path / "out")
        assert plan(*options).exit_code == 0
        whole = {name: (tmp_path / "out" / name).read_bytes() for name in FILES}
        assert whole == {name: (tmp_path / "one" / name).read_bytes() for name in FILES}
        sorted((tmp_path / "out/cache").glob("*.json"))[0].unlink()
        again = plan(*options)
        assert again.stderr.count("1 of 1:") == 1
        assert whole == {name: (tmp_path / "out" / name).read_bytes() for name in FILES}
        third = plan(*options)
        assert "1 of 1:" not in third.stderr
        assert third.stdout == again.stdout

    def test_without_a_trace_it_is_the_preset_demo(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of its 32 nodes ten are enough here; the seed is one that no other test has in its memory."""

        def ten_nodes(preset: str, **options: Any) -> Workload:
            return generate(preset, **{**options, "nodes": options["nodes"] or 10, "days": 0.5})

        monkeypatch.setattr("gfs.batch.simulation.generate", ten_nodes)
        words = ("--quick", *ONE_SETTING, "--set", "quota_share=0.4", "--set", "lease_aging=2", "--seed", "77")
        result = plan(*words, "--out", tmp_path / "out", "--json", "-", "--workers", "1")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["trace"] == "demo x1, seed 77"
        assert len(document["settings"]) == 1
        assert document["recommended"]["parameters"] == {
            "guarantee_hours": 1.0,
            "p": 0.8,
            "eta_max": 1.5,
            "quota_share": 0.4,
            "lease_aging": 2.0,
        }
        assert [round(o["figures"]["nodes"]) for o in document["what_if"]] == [9, 10, 11]
        assert "lease_aging: no effect under gfs (quota: forecast), static (quota: fixed 40%)" in result.stderr

    def test_what_a_file_names_is_not_tried_even_with_its_usual_value(self, tmp_path: Path) -> None:
        """0.9 is the usual p: named in a file it stays all the same, like with --set."""
        config = tmp_path / "mine.toml"
        config.write_text("p = 0.9\n[parameters]\nguarantee_hours = 1\n", encoding="utf-8")
        work = workload(nodes(8, 8), [*steady(spot, 10, gpus=4), *steady(hp, 10, gpus=8)])
        options = (*written(work, tmp_path), "--quick", "--workers", "1", "--out", tmp_path / "out")
        result = plan(*options, "--config", config, "--json", "-")
        assert result.exit_code == 0, result.output
        tried = [setting["parameters"] for setting in json.loads(result.stdout)["settings"]]
        assert {(s["p"], s["guarantee_hours"]) for s in tried} == {(0.9, 1.0)}
        assert {s["eta_max"] for s in tried} == {1.5, 4.0}


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--target-evictions", "5"), "--target-evictions 5: must be a share, 0 or more and below 1"),
            (("--target-evictions", "nan"), "must be a share"),
            (("--max-wait", "0"), "--max-wait 0: must be a number of seconds above 0"),
            (("--preset", "huge"), "unknown preset 'huge': there are demo"),
            (("--jobs", "jobs.csv"), "takes both --jobs and --nodes"),
            (("--jobs", "a.csv", "--nodes", "b.csv", "--preset", "demo"), "leave out one of them"),
            (("--scheduler", "static"), "it follows no forecast, so there is nothing to plan"),
            (("--scheduler", "nobody"), "unknown scheduler 'nobody'"),
            (("--set", "q=1"), "unknown parameter 'q'"),
            (("--jobs", "a.csv", "--nodes", "b.csv"), "b.csv"),
        ],
    )
    def test_what_is_wrong_is_said_before_anything_runs(
        self, words: tuple[str, ...], said: str, tmp_path: Path
    ) -> None:
        result = plan(*words, "--out", tmp_path / "out")
        assert result.exit_code == 2, result.output
        assert said in result.stderr
        assert not (tmp_path / "out").exists(), "a bad option leaves no empty folder"

    def test_a_folder_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("", encoding="utf-8")
        result = plan("--out", tmp_path / "out")
        assert result.exit_code == 2
        assert "is a file; name a folder" in result.stderr

    def test_a_result_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "out/gfs.toml").mkdir(parents=True)
        result = plan("--out", tmp_path / "out")
        assert result.exit_code == 2
        assert "is a folder; name a file in it" in result.stderr


def steady(kind: Any, count: int, every: float = 1800, **wishes: Any) -> Iterable[Draft]:
    """Tasks of an hour, one every half an hour."""
    return [kind(f"{kind.__name__}{i}", at=i * every, lasting=3600, **wishes) for i in range(count)]


class TestOddTraces:
    def made(self, folder: Path, work: Workload, *words: str) -> Result:
        return plan(*written(work, folder), "--quick", "--workers", "1", "--out", folder / "out", *words)

    def test_without_spot_tasks_there_is_nothing_to_plan(self, tmp_path: Path) -> None:
        result = self.made(tmp_path, workload(nodes(8, 8), steady(hp, 20, gpus=4)))
        assert result.exit_code == 2
        assert "jobs.csv has no spot tasks: nobody can be evicted" in result.stderr

    def test_spot_tasks_alone_are_never_evicted(self, tmp_path: Path) -> None:
        result = self.made(tmp_path, workload(nodes(8, 8), steady(spot, 60, gpus=4)))
        assert result.exit_code == 0, result.output
        assert "All settings come to the same on this trace" in " ".join(result.stdout.split())
        assert "0.0% of spot runs (0 of 60) are evicted" in " ".join(result.stdout.split())

    def test_one_node_and_one_organization(self, tmp_path: Path) -> None:
        """HP and spot tasks in turn on one node: 10% of it is nothing."""
        work = workload(nodes(8), [*steady(hp, 60, gpus=4), *steady(spot, 60, gpus=6)])
        result = self.made(tmp_path, work)
        assert result.exit_code == 0, result.output
        assert "The cluster is too small to ask for 10% more or fewer nodes" in " ".join(result.stdout.split())

    def test_a_task_as_large_as_the_cluster_is_left_out_on_a_smaller_one(self, tmp_path: Path) -> None:
        work = workload(nodes(*[8] * 10), [hp("big", gpus=8, pods=10, lasting=60), *steady(spot, 40, gpus=8)])
        result = self.made(tmp_path, work)
        assert result.exit_code == 0, result.output
        assert "1 task too large for such a cluster left out" in " ".join(result.stdout.split())
        assert "90% of nodes: left out, too large for it: 1" in result.stdout
        assert "left out, too large for it: 1" in (tmp_path / "out/plan.html").read_text(encoding="utf-8")

    def test_a_smaller_cluster_that_no_spot_task_fits_on_says_nothing_of_evictions(self, tmp_path: Path) -> None:
        work = workload(nodes(*[8] * 10), [*steady(hp, 10), *steady(spot, 5, gpus=8, pods=10)])
        result = self.made(tmp_path, work)
        assert result.exit_code == 0, result.output
        assert "With 10% fewer nodes no spot task would fit; with 10% more" in " ".join(result.stdout.split())

    def test_guarantees_of_the_trace_are_kept(self, tmp_path: Path) -> None:
        """Every spot task says its own hours, so no other is tried."""
        work = workload(nodes(8, 8), [*steady(spot, 50, gpus=4, hours=2), *steady(hp, 30, gpus=8)])
        result = self.made(tmp_path, work, "--json", str(tmp_path / "plan.json"))
        assert result.exit_code == 0, result.output
        assert "50 of 50 spot tasks have their own guarantee_hours" in result.stderr
        document = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
        assert "of their runs with their guarantees kept." in document["answer"]
        assert not any("guarantee_hours" in setting["parameters"] for setting in document["settings"])

    def test_where_some_spot_tasks_say_their_guarantee_others_are_tried_for_the_rest(self, tmp_path: Path) -> None:
        work = workload(nodes(8, 8), [*steady(spot, 20, gpus=4), *steady(hp, 10, gpus=8)])
        jobs, machines = write_trace(work, tmp_path)
        header, *rows = jobs.read_text(encoding="utf-8").splitlines()
        own = [f"{row},{'3' if row.startswith('spot7,') else ''}" for row in rows]
        jobs.write_text("\n".join([f"{header},guarantee_hours", *own]), encoding="utf-8")
        options = ("--jobs", jobs, "--nodes", machines, "--quick", "--workers", "1", "--out", tmp_path / "out")
        result = plan(*options, "--json", "-")
        assert "1 of 20 spot tasks have their own guarantee_hours" in result.stderr
        document = json.loads(result.stdout)
        assert {setting["parameters"]["guarantee_hours"] for setting in document["settings"]} == {1.0, 2.0}
        assert "of their runs with their guarantees kept." in document["answer"]

    def test_a_spot_task_larger_than_the_usual_fixed_quota(self, tmp_path: Path) -> None:
        """12 of 16 cards are more than 35%: the fixed quota to compare with is 75%."""
        work = workload(nodes(8, 8), [*steady(spot, 10, gpus=4, pods=3), *steady(hp, 10)])
        result = self.made(tmp_path, work)
        assert result.exit_code == 0, result.output
        assert "With a fixed quota of 75% of each pool" in " ".join(result.stdout.split())

    @pytest.mark.parametrize(
        ("drafts", "said"),
        [
            ([spot("s", lasting=3600)], "With 1 spot run it cannot be told whether 5.00% is kept"),
            (
                [
                    spot("s", gpus=4, lasting=7200),
                    spot("t", gpus=4, lasting=7200),
                    hp("h", gpus=8, at=1800, lasting=3600),
                ],
                "with no quota there are no more evictions and waits are shorter.",
            ),
            (
                [
                    spot("s", gpus=4, lasting=7200),
                    spot("t", gpus=8, lasting=7200),
                    spot("u", gpus=8, at=60, lasting=7200),
                ],
                "It covers 2.02 h: what it gives a month is a rough guess.",
            ),
        ],
        ids=["one spot task", "all evicted", "no HP task"],
    )
    def test_three_jobs_give_a_plan_that_says_how_little_they_tell(
        self, drafts: list[Draft], said: str, tmp_path: Path
    ) -> None:
        result = self.made(tmp_path, workload(nodes(8), drafts), "--json", str(tmp_path / "plan.json"))
        assert result.exit_code == 0, result.output
        assert said in " ".join(result.stdout.split())
        tried = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["demand"]
        tasks = [run["figures"]["spot_tasks"] for run in tried]
        assert len(set(tasks)) == len(tasks), "no two amounts of spot work are the same tasks"

    def test_everything_in_one_moment(self, tmp_path: Path) -> None:
        work = workload(nodes(8), [hp("h", gpus=8), spot("s", gpus=8)])
        assert self.made(tmp_path, work).exit_code == 0
