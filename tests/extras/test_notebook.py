"""The tutorial runs as it stands, and frames of pandas and Polars go in and come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gfs
from gfs.workloads import write_trace

nbclient, nbformat, pandas, polars = (
    pytest.importorskip(package, reason="needs the extra notebook: make test-extras")
    for package in ("nbclient", "nbformat", "pandas", "polars")
)

TUTORIAL = Path(__file__).parents[2] / "docs" / "guides" / "tutorial.ipynb"
SMALL = gfs.generate("demo", nodes=8, days=3, seed=1)


def test_the_tutorial_runs_in_ten_cells(tmp_path: Path) -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) == 10
    assert all(not cell.outputs for cell in cells), "it is kept without results: whoever runs it makes them"
    here = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, startup_timeout=600, resources=here).execute()
    shown = [{kind for output in cell.outputs for kind in output.get("data", {})} for cell in cells]
    assert all(shown), "every cell shows something"
    assert sum("application/vnd.plotly.v1+json" in kinds for kinds in shown) >= 4


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    write_trace(SMALL, folder)
    return folder


@pytest.mark.parametrize("library", [pandas, polars], ids=["pandas", "polars"])
def test_frames_in(trace: Path, library: Any) -> None:
    jobs, nodes = (library.read_csv(trace / f"{name}.csv") for name in ("jobs", "nodes"))
    by_file = gfs.compare(trace / "jobs.csv", trace / "nodes.csv", schedulers="yarn-cs,static", quota="none")
    by_frame = gfs.compare(jobs, nodes, schedulers="yarn-cs,static", quota="none")
    assert [result.metrics for result in by_frame] == [result.metrics for result in by_file]
    assert gfs.forecast(jobs, nodes, model="persistence").to_arrow().num_rows > 0
    bad = jobs.drop("duration", axis=1) if library is pandas else jobs.drop("duration")
    with pytest.raises(gfs.InputError, match=r"^jobs \(DataFrame\): column duration missing"):
        gfs.simulate(bad, nodes)


def test_timestamps_of_pandas_are_dates(trace: Path) -> None:
    jobs, nodes = (pandas.read_csv(trace / f"{name}.csv") for name in ("jobs", "nodes"))
    jobs["submit_time"] = pandas.Timestamp("2026-03-02") + pandas.to_timedelta(jobs["submit_time"], unit="s")
    dated = gfs.simulate(jobs, nodes, scheduler="yarn-cs")
    assert dated.parameters.first_day == "2026-03-02"
    assert dated.metrics == gfs.simulate(SMALL, scheduler="yarn-cs").metrics


def test_a_missing_value_of_pandas_is_a_bad_row(trace: Path) -> None:
    jobs, nodes = (pandas.read_csv(trace / f"{name}.csv") for name in ("jobs", "nodes"))
    jobs.loc[5, "duration"] = None
    with pytest.raises(gfs.BadRows) as refused:
        gfs.simulate(jobs, nodes)
    assert refused.value.rows == (gfs.BadRow("jobs (DataFrame)", 5, "duration", "", "missing"),)


def test_frames_out() -> None:
    result = gfs.simulate(SMALL, scheduler="gfs-plus")
    tasks = result.to_pandas()
    assert tasks[tasks["kind"] == "Spot"]["wait"].mean() == pytest.approx(result.metrics.spot.jqt_mean)
    assert result.to_polars("organization")["spot_evictions"].sum() == result.metrics.spot.evictions
    assert polars.DataFrame(result).height == len(SMALL.tasks)
    assert list(gfs.compare(SMALL, schedulers="yarn-cs,lyra").to_pandas()["scheduler"]) == ["yarn-cs", "lyra"]
