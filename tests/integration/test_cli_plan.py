"""`gfs plan` from the command line: the answer, its files, going on, honest answers to odd traces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
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


def simulated(folder: Path, *words: str | Path, jobs: str = "jobs.csv") -> dict[str, Any]:
    """The one run of `gfs simulate`."""
    trace = ("--jobs", folder / jobs, "--nodes", folder / "nodes.csv")
    result = CliRunner().invoke(app, ["simulate", *map(str, (*trace, *words, "--json", folder / "run.json"))])
    assert result.exit_code == 0, result.output
    (run,) = json.loads((folder / "run.json").read_text(encoding="utf-8"))["runs"]
    return dict(run)


class TestAnswer:
    def test_the_budget_then_three_sentences_then_tables_of_80_columns(self, made: tuple[Path, Result]) -> None:
        _, result = made
        assert result.exit_code == 0, result.output
        assert "at most 33 runs: 23 settings, 6 more around the best" in result.stderr.splitlines()[0]
        assert result.stdout.startswith(("Run ", "Nothing that was tried meets "))
        for title in ("Other kinds", "How sure", "Settings", "Other nodes", "Price list"):
            assert title in result.stdout
        tables = result.stdout.rpartition("The page: open")[0]
        assert max(map(len, tables.splitlines())) <= 80
        assert "…" not in tables

    def test_the_json_and_the_table_have_every_run(self, made: tuple[Path, Result]) -> None:
        folder, _ = made
        document = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        table = pq.read_table(folder / "out/settings.parquet")
        assert {"p", "quota", "quota_share", "spot_eviction_rate", "node_share", "spot_scale"} <= set(
            table.column_names
        )
        every = [*document["settings"], *document["what_if"]]
        every += [run for row in document["price_list"] for run in row["runs"]]
        runs = {
            json.dumps([run[key] for key in ("scheduler", "parameters", "node_share", "spot_scale")]) for run in every
        }
        assert table.num_rows == len(runs)
        assert len(runs) <= 33
        assert document["targets"] == {"evictions": 0.05}
        assert "ASSUMPTION" in document["prices"]
        assert document["recommended"] in document["settings"]
        shown = CliRunner().invoke(app, ["sweep", "show", str(folder / "out")], env={"COLUMNS": "200"})
        assert shown.exit_code == 2, "the folder of a plan has no results.parquet"
        shown = CliRunner().invoke(app, ["sweep", "show", str(folder / "out/settings.parquet")], env={"COLUMNS": "200"})
        assert shown.exit_code == 0, shown.output
        assert "scheduler" in shown.stdout.splitlines()[1] + shown.stdout.splitlines()[2], "schedulers are told apart"
        schedulers = {run["scheduler"] for run in document["settings"]}
        assert schedulers == {"gfs-plus", "gfs", "static"}

    @pytest.mark.parametrize("scheduler", ["static", "gfs", "gfs-plus"])
    @pytest.mark.parametrize("percents", [17, 20, 30, 50])
    def test_it_is_never_worse_than_a_fixed_quota(
        self, made: tuple[Path, Result], scheduler: str, percents: int
    ) -> None:
        """Those of its grid, of which the least holds the largest task, each simulated here by itself.

        Within the target its mean wait is no shorter; beyond it its evictions are no fewer.
        """
        folder, _ = made
        document = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        fixed = ("--set", "quota=fixed", "--set", f"quota_share={percents / 100}")
        spot = simulated(folder, "--scheduler", scheduler, *fixed)["metrics"]["spot"]
        planned = document["recommended"]["figures"]
        if document["meets_targets"]:
            assert spot["eviction_rate"] > 0.05 or spot["jqt_mean"] >= planned["spot_jqt_mean"]
        else:
            assert spot["eviction_rate"] >= planned["spot_eviction_rate"]

    def test_the_config_file_gives_the_very_figures(self, made: tuple[Path, Result]) -> None:
        """The scheduler, too, comes from the file."""
        folder, _ = made
        document = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        run = simulated(folder, "--config", folder / "out/gfs.toml")
        planned = document["recommended"]["figures"]
        assert run["scheduler"] == document["recommended"]["scheduler"]
        assert {k: planned[f"spot_{k}"] for k in run["metrics"]["spot"]} == run["metrics"]["spot"]
        assert {k: planned[f"hp_{k}"] for k in run["metrics"]["hp"]} == run["metrics"]["hp"]
        assert planned["allocation_rate"] == run["metrics"]["allocation_rate_total"]

    def test_the_config_file_is_one_that_a_live_cluster_takes(self, made: tuple[Path, Result]) -> None:
        from gfs.live.service import LiveOptions, Service
        from gfs.live.settings import read_config

        folder, _ = made
        recommended = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["recommended"]
        live, parameters = read_config(folder / "out/gfs.toml")
        assert live.scheduler == recommended["scheduler"]
        assert {name: getattr(parameters, name) for name in recommended["parameters"]} == recommended["parameters"]
        Service(LiveOptions(live, parameters))

    def test_the_page_is_whole_and_loads_nothing(self, made: tuple[Path, Result]) -> None:
        folder, result = made
        page = (folder / "out/plan.html").read_text(encoding="utf-8")
        for title in ("The answer", "Other kinds of settings", "How sure", "Settings", "Other nodes"):
            assert f"<h2>{title}</h2>" in page
        assert 'src="http' not in page
        assert result.stdout.split("\n\n")[0].split()[:4] == page.partition('class="lead">')[2].split()[:4]


ONE_SETTING = ("--schedulers", "gfs", "--set", "quota=forecast", "--set", "p=0.8", "--set", "eta_max=1.5")
"""What is set stays as it is, so that one setting is left to try: five runs."""


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

    def test_without_a_trace_it_is_the_preset_demo_and_other_seeds_say_how_sure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of its 64 nodes ten are enough here; the seed is one that no other test has in its memory."""

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
            "quota": "forecast",
            "quota_share": 0.4,
            "p": 0.8,
            "eta_min": 0.1,
            "eta_max": 1.5,
            "lease_aging": 2.0,
        }
        assert [round(o["figures"]["nodes"]) for o in document["what_if"]] == [9, 10, 11]
        assert document["out_of_sample"]["reported_on"] == "4 other seeds"
        assert document["certainty"]["blocks"] == "4 seeds"
        low, high = document["out_of_sample"]["intervals"]["spot-wait-mean"]
        assert low <= document["out_of_sample"]["reported"]["spot-wait-mean"] <= high
        assert "lease_aging: no effect under gfs (quota: forecast)" in result.stderr

    def test_what_a_file_names_is_not_tried_even_with_its_usual_value(self, tmp_path: Path) -> None:
        """0.9 is the usual p: named in a file it stays all the same, like with --set."""
        config = tmp_path / "mine.toml"
        config.write_text("p = 0.9\n[parameters]\nguarantee_hours = 2\n", encoding="utf-8")
        work = workload(nodes(8, 8), [*steady(spot, 10, gpus=4), *steady(hp, 10, gpus=8)])
        options = (*written(work, tmp_path), "--quick", "--workers", "1", "--out", tmp_path / "out")
        result = plan(*options, "--config", config, "--json", "-", "--schedulers", "gfs-plus,gfs")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        tried = [setting["parameters"] for setting in document["settings"]]
        assert {(s["p"], s["guarantee_hours"]) for s in tried} == {(0.9, 2.0)}
        assert {s["quota"] for s in tried} == {"none", "fixed", "forecast", "forecast-no-feedback", "adaptive"}
        assert [row["guarantee_hours"] for row in document["price_list"]] == [2.0]


class TestTargets:
    def test_several_and_which_cannot_be_met_together(self, small: Workload, tmp_path: Path) -> None:
        targets = ("--target", "evictions=0.01", "--target", "spot-wait-p95=1s", "--target", "hp-wait-p99=1000h")
        options = (*written(small, tmp_path), "--quick", "--workers", "1", "--out", tmp_path / "out")
        result = plan(*options, *targets, "--json", "-", "--schedulers", "gfs-plus")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["targets"] == {"evictions": 0.01, "spot-wait-p95": 1.0, "hp-wait-p99": 3.6e6}
        assert not document["meets_targets"]
        named = document["pools"][0]["cannot_be_met"]
        assert "hp-wait-p99" not in [*named["alone"], *named["together"]]
        assert "what comes nearest is gfs-plus" in document["answer"]

    def test_the_old_option_works_with_a_line_of_warning(self, tmp_path: Path) -> None:
        work = workload(nodes(8, 8), [*steady(spot, 10, gpus=4), *steady(hp, 10, gpus=8)])
        options = (*written(work, tmp_path), "--quick", "--workers", "1", "--out", tmp_path / "out", *ONE_SETTING)
        result = plan(*options, "--target-evictions", "0.07", "--json", "-", "--scheduler", "gfs")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["targets"] == {"evictions": 0.07}
        assert "warning: option --scheduler is now called --schedulers" in result.stderr
        assert "warning: option --target-evictions 0.07 is now written --target evictions=0.07" in result.stderr


class TestPools:
    def test_each_pool_gets_its_own_and_the_file_gives_the_very_figures(self, tmp_path: Path) -> None:
        """On A100 HP takes one of two nodes every other hour, and spot tasks of two hours would fill both.

        With half of the pool they are never evicted. A10 has no HP work, so that they need no quota there.
        """
        machines = [*nodes(8, 8), *nodes(8, 8, model="A10", prefix="b", first=2)]
        rough = [hp(f"hp{i}", at=7200 * i + 600, lasting=3600, gpus=8) for i in range(30)]
        rough += [spot(f"spot{i}", at=3600 * i, lasting=7200, gpus=4) for i in range(60)]
        rough += [spot(f"more{i}", at=3600 * i, lasting=7200, gpus=4) for i in range(60)]
        calm = [spot(f"calm{i}", at=1800 * i, lasting=3600, gpus=4, model="A10") for i in range(60)]
        options = (*written(workload(machines, [*rough, *calm]), tmp_path), "--workers", "1", "--out", tmp_path / "out")
        result = plan(*options, "--quick", "--json", tmp_path / "plan.json")
        assert result.exit_code == 0, result.output
        assert "Pool by pool" in result.stdout
        document = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
        pools = {pool["gpu_model"]: pool for pool in document["pools"]}
        assert pools["A10"]["figures"] == {"evictions": 0.0, "spot-wait-mean": 0.0}
        assert pools["A10"]["parameters"] == {"quota": "none"}
        assert pools["A100"]["parameters"] == {"quota": "fixed", "quota_share": 0.5}
        assert pools["A100"]["figures"]["evictions"] == 0
        run = simulated(tmp_path, "--config", tmp_path / "out/gfs.toml")
        planned = document["recommended"]["figures"]
        assert {k: planned[f"spot_{k}"] for k in run["metrics"]["spot"]} == run["metrics"]["spot"]
        assert len(run["parameters"]["pools"]) == 1


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--target", "evictions=5"), "--target 'evictions=5': must be a share, 0 or more and below 1"),
            (("--target", "waste=5"), "must be a figure and its bound, such as evictions=0.05"),
            (("--target-evictions", "nan"), "must be a share"),
            (("--target-evictions", "0.1", "--target", "evictions=0.2"), "evictions is given twice"),
            (("--max-wait", "0"), "--max-wait 0: must be a number of seconds above 0"),
            (("--guarantee", "0"), "guarantee_hours = '0': must be a number from"),
            (("--preset", "huge"), "unknown preset 'huge': there are demo"),
            (("--jobs", "jobs.csv"), "takes both --jobs and --nodes"),
            (("--jobs", "a.csv", "--nodes", "b.csv", "--preset", "demo"), "leave out one of them"),
            (("--schedulers", "gfs,chronus"), "chronus runs tasks by leases and evicts none"),
            (("--schedulers", "nobody"), "unknown scheduler 'nobody'"),
            (("--schedulers", "gfs,gfs"), "scheduler gfs is named twice"),
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
        words = " ".join(result.stdout.split())
        assert words.startswith("Run gfs without a quota: 0.0% of spot runs evicted, 0 s mean spot wait, within")
        assert "The next best of another kind, gfs-plus without a quota" in words

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
        """Every spot task says its own hours: they stay, and others are only listed with their prices."""
        work = workload(nodes(8, 8), [*steady(spot, 50, gpus=4, hours=2), *steady(hp, 30, gpus=8)])
        options = (*written(work, tmp_path), "--workers", "1", "--out", tmp_path / "out", *ONE_SETTING)
        result = plan(*options, "--json", "-")
        assert result.exit_code == 0, result.output
        assert (
            "50 of 50 spot tasks have their own guarantee_hours in the trace, which stay as they are" in result.stderr
        )
        document = json.loads(result.stdout)
        assert document["guarantee_hours"] == 2.0
        assert [row["guarantee_hours"] for row in document["price_list"]] == [2.0, 1.0, 4.0]
        assert not any("guarantee_hours" in setting["parameters"] for setting in document["settings"])
        assert "guarantee_hours" not in (tmp_path / "out/gfs.toml").read_text(encoding="utf-8")

    def test_a_trace_with_dates_gives_the_very_figures_too(self, tmp_path: Path) -> None:
        """`gfs simulate` takes the first day from the timestamps, and so does a plan; its file leaves it out."""
        work = generate("demo", nodes=4, days=2, seed=5)
        _, machines = write_trace(work, tmp_path)
        jobs = tmp_path / "jobs.parquet"
        table = csv.read_csv(tmp_path / "jobs.csv")
        place = table.column_names.index("submit_time")
        seconds = table["submit_time"].to_pylist()
        times = pa.array(
            [datetime(2024, 5, 3) + timedelta(seconds=float(each)) for each in seconds], pa.timestamp("ms")
        )
        pq.write_table(table.set_column(place, "submit_time", times), jobs)
        options = ("--jobs", jobs, "--nodes", machines, "--quick", "--workers", "1", "--out", tmp_path / "out")
        result = plan(*options, *ONE_SETTING, "--json", "-")
        assert result.exit_code == 0, result.output
        recommended = json.loads(result.stdout)["recommended"]
        assert recommended["parameters"]["first_day"] == "2024-05-03"
        assert "first_day" not in (tmp_path / "out/gfs.toml").read_text(encoding="utf-8")
        run = simulated(tmp_path, "--config", tmp_path / "out/gfs.toml", jobs="jobs.parquet")
        assert recommended["figures"]["spot_jqt_mean"] == run["metrics"]["spot"]["jqt_mean"]

    def test_no_share_is_tried_in_which_the_largest_spot_task_could_never_start(self, tmp_path: Path) -> None:
        """12 of 16 cards are 75%."""
        work = workload(nodes(8, 8), [*steady(spot, 10, gpus=4, pods=3), *steady(hp, 10)])
        result = self.made(tmp_path, work, "--json", "-", "--schedulers", "static")
        assert result.exit_code == 0, result.output
        shares = {run["parameters"]["quota_share"] for run in json.loads(result.stdout)["settings"]}
        assert min(shares) == 0.75

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
                "Nothing of another kind meets the targets",
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
        tried = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["price_list"][0]["runs"]
        tasks = [run["figures"]["spot_tasks"] for run in tried]
        assert len(set(tasks)) == len(tasks), "no two amounts of spot work are the same tasks"

    def test_everything_in_one_moment(self, tmp_path: Path) -> None:
        work = workload(nodes(8), [hp("h", gpus=8), spot("s", gpus=8)])
        assert self.made(tmp_path, work).exit_code == 0
