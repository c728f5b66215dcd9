"""Tables into the Python interface and out of it: Arrow in memory reads as files do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import gfs
from gfs.workloads import write_trace

SMALL = gfs.generate("demo", nodes=8, days=3, seed=1)


class Frame:
    """A frame of some library: all that is known of it is how it hands over its columns."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    write_trace(SMALL, folder)
    return folder


def tables(folder: Path) -> tuple[pa.Table, pa.Table]:
    return pacsv.read_csv(folder / "jobs.csv"), pacsv.read_csv(folder / "nodes.csv")


@pytest.mark.parametrize("wrap", [lambda table: table, Frame], ids=["arrow", "frame"])
def test_frames_simulate_as_their_files_do(trace: Path, wrap: Any) -> None:
    jobs, nodes = tables(trace)
    by_file = gfs.simulate(trace / "jobs.csv", trace / "nodes.csv", scheduler="yarn-cs")
    by_frame = gfs.simulate(wrap(jobs), wrap(nodes), scheduler="yarn-cs")
    assert by_frame.metrics == by_file.metrics
    assert by_frame.events.equals(by_file.events)
    assert by_frame.workload.name == "jobs"


def test_text_of_every_kind_that_libraries_have(trace: Path) -> None:
    jobs, nodes = tables(trace)
    expected = gfs.read_trace(jobs, nodes).tasks[0].organization
    views = [pa.string_view()] if hasattr(pa, "string_view") else []  # older versions have none
    for kind in (pa.large_string(), *views, pa.dictionary(pa.int32(), pa.string())):
        at = jobs.column_names.index("organization")
        column = jobs["organization"].combine_chunks()
        cast = column.dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(column.to_pylist(), kind)
        assert gfs.read_trace(jobs.set_column(at, "organization", cast), nodes).tasks[0].organization == expected


def test_an_index_of_pandas_is_no_column(trace: Path) -> None:
    demand = pa.table({"hour": [0, 1, 2], "a": [1.0, 2.0, 3.0], "__index_level_0__": [7, 8, 9]})
    assert len(gfs.forecast(Frame(demand), model="persistence").prediction.history.keys) == 1


def test_what_is_wrong_with_a_frame_is_told(trace: Path) -> None:
    jobs, nodes = tables(trace)
    with pytest.raises(gfs.InputError, match=r"^jobs \(Frame\): column duration missing \(found: job_name, .*\)\.$"):
        gfs.simulate(Frame(jobs.drop(["duration"])), nodes)
    durations = jobs["duration"].to_pylist()
    durations[5] = -1
    bad = jobs.set_column(jobs.column_names.index("duration"), "duration", pa.array(durations))
    with pytest.raises(gfs.BadRows) as refused:
        gfs.simulate(Frame(bad), nodes)
    assert refused.value.rows == (gfs.BadRow("jobs (Frame)", 5, "duration", "-1", "must not be negative"),)
    left = gfs.simulate(Frame(bad), nodes, skip_bad_rows=True, scheduler="static", quota="none")
    assert len(left.workload.tasks) == len(SMALL.tasks) - 1
    with pytest.raises(gfs.InputError, match=r"^nodes \(list\): give the path of a file, an Arrow table, or a frame"):
        gfs.simulate(jobs, [1, 2])  # type: ignore[arg-type]
    with pytest.raises(gfs.InputError, match="a jobs file needs a nodes file"):
        gfs.simulate(jobs)


def test_node_events_as_a_frame(trace: Path) -> None:
    name = SMALL.nodes[0].name
    events = pa.table({"time": [3600.0, 7200.0], "node": [name, name], "event": ["fail", "repair"]})
    jobs, nodes = tables(trace)
    given = gfs.simulate(jobs, nodes, node_events=Frame(events), scheduler="yarn-cs").workload.node_events
    assert given == (gfs.NodeEvent(3600.0, name, "fail"), gfs.NodeEvent(7200.0, name, "repair"))
    assert gfs.simulate(SMALL, node_events=events, scheduler="yarn-cs").workload.node_events == given


class TestOut:
    result = gfs.simulate(SMALL, scheduler="gfs-plus", record_quota=True)

    def test_tasks(self) -> None:
        tasks = self.result.to_arrow()
        metrics, rows = self.result.metrics, tasks.to_pylist()
        assert [row["task"] for row in rows] == [task.name for task in SMALL.tasks]
        spot = [row for row in rows if row["kind"] == "Spot"]
        assert sum(row["evictions"] for row in spot) == metrics.spot.evictions > 0
        assert sum(row["runs"] for row in spot) == metrics.spot.runs
        assert sum(row["wait"] for row in spot) / len(spot) == pytest.approx(metrics.spot.jqt_mean)
        assert sum(row["wasted_gpu_hours"] for row in rows) == pytest.approx(metrics.spot.wasted_gpu_hours)
        first = rows[0]
        assert first["finish_time"] - first["submit_time"] >= first["duration"]

    @pytest.mark.parametrize("table", gfs.SimulationResult.TABLES)
    def test_every_table(self, table: str) -> None:
        assert self.result.to_arrow(table).num_rows > 0
        compared = gfs.Comparison((self.result, self.result), SMALL).to_arrow(table)
        assert compared.num_rows == 2 * self.result.to_arrow(table).num_rows
        assert compared.column_names[0] == "scheduler"

    def test_what_has_never_happened_is_empty(self) -> None:
        cancelled = gfs.Workload(SMALL.tasks[:1], SMALL.nodes, durations=(100.0,), cancel_times=(50.0,))
        (row,) = gfs.simulate(cancelled).to_arrow().to_pylist()
        assert (row["finish_time"], row["cancelled"], row["runs"]) == (None, True, 1)

    def test_schedulers(self) -> None:
        both = gfs.compare(SMALL, schedulers="yarn-cs,static", quota="none")
        rows = both.to_arrow().to_pylist()
        assert [row["scheduler"] for row in rows] == ["yarn-cs", "static"]
        assert rows[1]["spot_jqt_mean"] == both["static"].metrics.spot.jqt_mean
        assert pa.RecordBatchReader.from_stream(both).read_all().num_rows == 2
        assert "<table>" in both._repr_html_()

    def test_unknown_tables_and_plots(self) -> None:
        with pytest.raises(gfs.InputError, match="unknown table 'task': did you mean tasks"):
            self.result.to_arrow("task")
        with pytest.raises(gfs.InputError, match="unknown plot 'wait': did you mean waits"):
            self.result.plot("wait")
        with pytest.raises(gfs.InputError, match="no quota was recorded"):
            gfs.simulate(SMALL, scheduler="yarn-cs").to_arrow("quota")

    @pytest.mark.parametrize(
        "what", ["tradeoff", "waits", "hp-waits", "spot-waits", "allocation", "evictions", "quota", "nodes"]
    )
    def test_plots(self, what: str) -> None:
        figure = self.result.plot(what)
        assert figure.data
        assert figure.layout.title.text
        assert figure.to_json()

    def test_a_library_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "polars", None)
        with pytest.raises(gfs.InputError, match="Polars is not installed: pip install polars"):
            self.result.to_polars()


def test_sweep_takes_frames_and_says_what_is_best(trace: Path) -> None:
    jobs, nodes = tables(trace)
    tried = gfs.sweep(jobs, nodes, vary={"quota_share": [0.3, 0.9], "scheduler": ["yarn-cs"]}, quota="fixed")
    assert [row["quota_share"] for row in tried.runs.to_pylist()] == [0.3, 0.9]
    alone = gfs.simulate(jobs, nodes, scheduler="yarn-cs", quota="fixed", quota_share=0.9)
    assert tried.runs.to_pylist()[1]["spot_jqt_mean"] == alone.metrics.spot.jqt_mean
    assert {row["quota_share"] for row in tried.to_arrow("front").to_pylist()} <= {0.3, 0.9}
    assert tried.plot().data
    assert "<table>" in tried._repr_html_()
    assert (
        gfs.sweep(trace / "jobs.csv", trace / "nodes.csv", vary={"seed": (0, 1)}, scheduler="gfs-p").runs.num_rows == 2
    )
    sampled = gfs.sweep(SMALL, vary={"quota_share": {"low": 0.5, "high": 0.9}}, sample=3, quota="fixed")
    assert sampled.runs.num_rows == 3
    with pytest.raises(gfs.InputError, match="unknown parameter 'q'"):
        gfs.sweep(SMALL, vary={"q": [1]})
    failed = gfs.sweep(SMALL, vary={"quota_share": [0.01]}, quota="fixed").runs.to_pylist()
    assert "could never start" in failed[0]["error"]


def test_a_plan_of_frames_is_that_of_the_files(trace: Path, tmp_path: Path) -> None:
    jobs, nodes = tables(trace)
    wanted: dict[str, Any] = {"schedulers": ["gfs-plus"], "quick": True, "cache": tmp_path / "runs"}
    made = gfs.plan(jobs, nodes, targets={"evictions": 0.4, "spot-wait-p95": "20h"}, **wanted)
    same = gfs.plan(trace / "jobs.csv", trace / "nodes.csv", targets=["evictions=0.4", "spot-wait-p95=20h"], **wanted)
    assert made.answer == same.answer
    assert made.to_arrow().num_rows == len(made.plan.runs())
    (tmp_path / "gfs.toml").write_text(made.config)
    again = gfs.simulate(jobs, nodes, config=tmp_path / "gfs.toml")
    assert again.metrics.spot.jqt_mean == pytest.approx(made.plan.chosen.figures["spot_jqt_mean"])
    by_size = made.to_arrow("size").to_pylist()
    assert sum(group["spot_evictions"] for group in by_size) == again.metrics.spot.evictions
    assert made.summary()["by"] == again.breakdown().to_dict()
    assert made.plot().data
    assert made.answer[:20] in made._repr_html_()
    made.write_page(tmp_path / "plan.html")
    assert made.answer[:20] in (tmp_path / "plan.html").read_text(encoding="utf-8")
    with pytest.raises(gfs.InputError, match="no pool 'T4' was planned: there are A100"):
        made.plot("T4")


def test_forecasts_of_everything_that_tells_demand(trace: Path) -> None:
    jobs, nodes = tables(trace)
    by_file = gfs.forecast(trace / "jobs.csv", trace / "nodes.csv", model="seasonal-24")
    for other in (gfs.forecast(jobs, nodes, model="seasonal-24"), gfs.forecast(SMALL, model="seasonal-24")):
        assert other.to_arrow().equals(by_file.to_arrow())
    seen = gfs.forecast(gfs.simulate(SMALL, scheduler="yarn-cs"), model="seasonal-24", hours=2)
    assert set(seen.to_arrow()["hours_ahead"].to_pylist()) == {1, 2}
    series = str(seen.prediction.history.keys[0])
    assert series in seen.plot(series).layout.title.text
    assert "<table>" in seen._repr_html_()
    with pytest.raises(gfs.InputError, match="there is no series"):
        seen.plot("nobody")
    with pytest.raises(gfs.InputError, match="hours = 0"):
        gfs.forecast(SMALL, hours=0)
    with pytest.raises(gfs.InputError, match="bounds"):
        gfs.forecast(SMALL, bounds=(1.5,))


def test_a_simulation_needs_no_library_of_frames() -> None:
    code = "gfs.simulate(gfs.generate('demo', nodes=4, days=0.2)).to_arrow(); assert 'polars' not in sys.modules"
    subprocess.run([sys.executable, "-c", f"import sys, gfs; {code}"], check=True)
