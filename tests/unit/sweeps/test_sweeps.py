"""A sweep: what its file asks for, the table it makes, and the front."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders import hp, nodes, spot, workload
from gfs.batch.simulation import GeneratedTrace, TraceFiles
from gfs.domain.errors import InputError
from gfs.sweeps.spec import SweepRun, read_sweep
from gfs.sweeps.table import TableRow, read_results, write_results
from gfs.sweeps.table import results_table as table_of_rows
from gfs.workloads import write_trace

TRACE = '[trace]\npreset = "demo"\nnodes = 4\ndays = 1\n'


def swept(folder: Path, text: str) -> list[SweepRun]:
    file = folder / "sweep.toml"
    file.write_text(text, encoding="utf-8")
    return read_sweep(file).runs()


def results_table(runs: Iterable[SweepRun], results: Mapping[SweepRun, Any], errors: Mapping[SweepRun, str]) -> Any:
    return table_of_rows([TableRow(run, run.varied, results.get(run, {}), errors.get(run)) for run in runs])


class TestSpec:
    def test_every_combination_in_order(self, tmp_path: Path) -> None:
        runs = swept(tmp_path, TRACE + '[vary]\nscheduler = ["gfs", "static"]\nseed = [0, 1]\n[set]\np = 0.8\n')
        assert [(run.scheduler, run.seed) for run in runs] == [
            ("gfs", 0),
            ("gfs", 1),
            ("static", 0),
            ("static", 1),
        ]
        assert runs[1].trace == GeneratedTrace("demo", 1.0, 1, 4, 1)
        assert runs[1].settings == (("p", 0.8),)
        assert runs[1].label == "scheduler=gfs, seed=1"

    def test_spot_scale_is_of_the_trace(self, tmp_path: Path) -> None:
        runs = swept(tmp_path, TRACE + "[vary]\nspot_scale = [1, 4]\n")
        assert [run.trace.spot_scale for run in runs if isinstance(run.trace, GeneratedTrace)] == [1.0, 4.0]
        assert all(run.settings == () for run in runs)

    def test_a_sample_is_drawn_by_its_seed(self, tmp_path: Path) -> None:
        text = "sample = 5\nsample_seed = 7\n" + TRACE + "[vary]\np = { low = 0.8, high = 0.9 }\nseed = [1, 2]\n"
        runs = swept(tmp_path, text)
        assert len(runs) == 5
        assert all(0.8 <= dict(run.settings)["p"] <= 0.9 for run in runs)  # type: ignore[operator]
        assert runs == swept(tmp_path, text)
        assert runs != swept(tmp_path, text.replace("seed = 7", "seed = 8"))

    def test_a_trace_of_ones_own_is_seen_from_the_file(self, tmp_path: Path) -> None:
        write_trace(workload(nodes(8), [hp("h"), spot("s")]), tmp_path)
        (run,) = swept(tmp_path, '[trace]\njobs = "jobs.csv"\nnodes = "nodes.csv"\n[vary]\nseed = [0]\n')
        assert run.trace == TraceFiles.of(tmp_path / "jobs.csv", tmp_path / "nodes.csv")

    def test_the_files_of_a_trace_are_read_once_for_all_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_trace(workload(nodes(8), [hp("h"), spot("s")]), tmp_path)
        asked: list[Path] = []
        found = TraceFiles.of(tmp_path / "jobs.csv", tmp_path / "nodes.csv")
        monkeypatch.setattr(TraceFiles, "of", lambda jobs, nodes: asked.append(jobs) or found)
        runs = swept(tmp_path, '[trace]\njobs = "jobs.csv"\nnodes = "nodes.csv"\n[vary]\np = [0.7, 0.8, 0.9]\n')
        assert (len(runs), len(asked)) == (3, 1)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("x", "not a TOML file"),
            (TRACE, "[vary] is empty"),
            (TRACE + "[vary]\np = 0.9\n", "vary.p = 0.9: must be a list of values"),
            (TRACE + "[vary]\np = []\n", "vary.p = []: must be a list"),
            (TRACE + "[vary]\nq = [1]\n", "unknown parameter 'q'"),
            (TRACE + "[vary]\np = [0.2]\n", "p = 0.2: must be a number from 0.5 to 0.999"),
            (TRACE + '[vary]\nscheduler = ["lira"]\n', "lira"),
            (TRACE + "[vary]\np = { low = 0.8, high = 0.9 }\n", "a range can only be sampled"),
            ("sample = 2\n" + TRACE + "[vary]\np = { low = 0.9, high = 0.8 }\n", "low = 0.9 is above high = 0.8"),
            (
                "sample = 2\n" + TRACE + "[vary]\np = { from = 1 }\n",
                "vary.p = {'from': 1}: must be { low",
            ),
            ("sample = 0\n" + TRACE + "[vary]\np = [0.9]\n", "sample = 0: must be a number of runs, 1 to 100,000"),
            (
                "runs = 3\n" + TRACE + "[vary]\np = [0.9]\n",
                "the file has the unknown key 'runs'",
            ),
            ('[trace]\npreset = "x"\n[vary]\np = [0.9]\n', "trace.preset = 'x': must be one of demo"),
            ('[trace]\njobs = "no.csv"\nnodes = "no.csv"\n[vary]\np = [0.9]\n', "there is no file"),
            ('[trace]\njobs = "sweep.toml"\n[vary]\np = [0.9]\n', "trace.nodes is missing"),
            (TRACE + "[vary]\np = [0.9]\n[set]\nm = [1]\n", "set.m = [1]: must be one value"),
            ("vary = 3\n" + TRACE, "vary = 3: must be a table: [vary]"),
            (TRACE + '[vary]\nseed = ["a"]\n', "seed = 'a': must be a whole number"),
            (TRACE + "[vary]\nseed = [1.5]\n", "seed = 1.5: must be a whole number"),
            (TRACE + "[vary]\nseed = [-1]\n", "seed = -1: must be a whole number, 0 or more"),
            (TRACE + "[vary]\nspot_scale = [0]\n", "spot_scale = 0: must be a number above 0"),
            (TRACE + "[vary]\np = [[0.9]]\n", "vary.p = [[0.9]]: must be a list of values"),
            (
                "sample = 1000000000\n" + TRACE + "[vary]\np = [0.9]\n",
                "sample = 1000000000: must be a number",
            ),
            (TRACE + "hours = 3\n[vary]\np = [0.9]\n", "[trace] has the unknown key 'hours'; it may have preset"),
            (TRACE.replace("days = 1", "days = 0") + "[vary]\np = [0.9]\n", "trace.days = 0: must be a number above 0"),
            (TRACE.replace("nodes = 4", "nodes = 0") + "[vary]\np = [0.9]\n", "trace.nodes = 0: must be the name of a"),
            (TRACE + 'jobs = "a.csv"\n[vary]\np = [0.9]\n', "both a preset and files"),
            ("[vary]\np = [0.9]\n", "[trace] names no trace"),
            (TRACE + '[vary]\nspot_scale = ["x"]\n', "spot_scale = 'x': must be a number"),
            ('sample_seed = "x"\n' + TRACE + "[vary]\np = [0.9]\n", "sample_seed = 'x': must be a whole number"),
        ],
    )
    def test_what_is_wrong_is_named(self, text: str, said: str, tmp_path: Path) -> None:
        with pytest.raises(InputError) as error:
            swept(tmp_path, text)
        assert said in str(error.value)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"no.toml: cannot be read"):
            read_sweep(tmp_path / "no.toml")


def run(scheduler: str, seed: int, p: float) -> SweepRun:
    varied: tuple[tuple[str, Any], ...] = (("scheduler", scheduler), ("seed", seed), ("p", p))
    return SweepRun(GeneratedTrace("demo"), scheduler, seed, (("p", p),), varied)


def figures(evicted: float | None, wait: float, used: float) -> dict[str, Any]:
    return {
        "spot_eviction_rate": evicted,
        "spot_jqt_mean": wait,
        "goodput_rate": used,
        "allocation_rate": 0.9,
        "spot_runs": 7,
    }


class TestTable:
    def test_a_row_a_run_and_a_type_a_column(self) -> None:
        runs = [run("gfs", 0, 0.9), run("chronus", 0, 1)]
        table = results_table(runs, {runs[0]: figures(0.1, 5.0, 0.5)}, {runs[1]: "InputError: no"})
        assert table.column_names == [
            *("run", "scheduler", "seed", "p"),
            *("spot_eviction_rate", "spot_jqt_mean", "goodput_rate", "allocation_rate", "spot_runs", "error"),
        ]
        assert table.schema.field("seed").type == pa.int64()
        assert table.schema.field("p").type == pa.float64()
        assert table.to_pylist()[1]["error"] == "InputError: no"
        assert table.to_pylist()[1]["spot_runs"] is None

    def test_the_front_by_means_over_seeds(self, tmp_path: Path) -> None:
        answers = {
            run("gfs", 0, 0.9): figures(0.1, 10.0, 0.5),
            run("gfs", 1, 0.9): figures(0.3, 30.0, 0.5),  # means 0.2, 20
            run("gfs", 0, 0.8): figures(0.2, 21.0, 0.5),  # as many evicted, longer waits: beaten
            run("lyra", 0, 0.9): figures(0.1, 50.0, 0.5),  # fewer evicted
            run("fgd", 0, 0.9): figures(0.3, 60.0, 0.6),  # more useful work
            run("chronus", 0, 0.9): figures(None, 70.0, 0.5),  # evicts nobody
        }
        failed = run("static", 0, 0.9)
        table = results_table([*answers, failed], answers, {failed: "InputError: too small"})
        write_results(table, tmp_path / "results.parquet")
        results = read_results(tmp_path)
        assert results.varied == ["scheduler", "p"]
        front = {(g.settings["scheduler"], g.settings["p"]): g.front for g in results.groups}
        assert front == {
            ("gfs", 0.9): True,
            ("gfs", 0.8): False,
            ("lyra", 0.9): True,
            ("fgd", 0.9): True,
            ("chronus", 0.9): True,
        }
        assert results.groups[0].seeds == 2
        assert results.groups[0].means["spot_jqt_mean"] == 20.0
        assert results.failed == [("scheduler=static, p=0.9, seed=0", "InputError: too small")]

    def test_more_gpus_in_use_alone_is_no_merit(self, tmp_path: Path) -> None:
        """A setting that allocates more and wastes it has no place on the front."""
        results = {
            run("gfs", 0, 0.9): figures(0.1, 10.0, 0.5),
            run("fgd", 0, 0.9): figures(0.3, 60.0, 0.5) | {"allocation_rate": 0.99},
        }
        write_results(results_table(list(results), results, {}), tmp_path / "results.parquet")
        assert [group.front for group in read_results(tmp_path).groups] == [True, False]

    def test_scenarios_do_not_compete(self, tmp_path: Path) -> None:
        """With four times the spot work everything is worse; its best setting is still on a front."""

        def scaled(scheduler: str, scale: float) -> SweepRun:
            varied: tuple[tuple[str, Any], ...] = (("scheduler", scheduler), ("spot_scale", scale))
            return SweepRun(GeneratedTrace("demo", scale), scheduler, 0, (), varied)

        results = {
            scaled("gfs", 1.0): figures(0.1, 10.0, 0.7),
            scaled("lyra", 1.0): figures(0.2, 20.0, 0.7),
            scaled("gfs", 4.0): figures(0.3, 30.0, 0.6),
            scaled("lyra", 4.0): figures(0.2, 40.0, 0.6),
        }
        write_results(results_table(list(results), results, {}), tmp_path / "results.parquet")
        found = read_results(tmp_path)
        assert found.scenarios == [{"spot_scale": 1.0}, {"spot_scale": 4.0}]
        assert [group.front for group in found.groups] == [True, False, True, True]

    def test_a_table_of_somebody_else(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"a": [1]}), tmp_path / "results.parquet")
        with pytest.raises(InputError, match="was not written by gfs sweep"):
            read_results(tmp_path)
        with pytest.raises(InputError, match="no results of a sweep"):
            read_results(tmp_path / "nothing")
