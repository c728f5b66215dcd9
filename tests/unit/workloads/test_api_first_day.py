"""Traces with timestamps from Python: the first day is theirs, as on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import gfs
from builders import hp, nodes, spot, workload
from gfs.workloads import write_trace


@pytest.fixture
def dated(tmp_path: Path) -> tuple[Path, Path]:
    jobs, machines = write_trace(workload(nodes(8), [hp("h", gpus=8, lasting=50), spot("s", at=5)]), tmp_path)
    table = pc.read_csv(jobs)
    times = [datetime(2024, 4, 1) + timedelta(seconds=second) for second in table["submit_time"].to_pylist()]
    place = table.column_names.index("submit_time")
    file = tmp_path / "dated.parquet"
    pq.write_table(table.set_column(place, "submit_time", pa.array(times, pa.timestamp("ms"))), file)
    return file, machines


def test_the_first_day_is_that_of_the_timestamps(dated: tuple[Path, Path]) -> None:
    assert gfs.simulate(*dated, quota="none").parameters.first_day == "2024-04-01"
    assert gfs.simulate(*dated, quota="none", first_day="2024-04-01").parameters.first_day == "2024-04-01"
    compared = gfs.compare(*dated, schedulers="gfs,yarn-cs", quota="none")
    assert [result.parameters.first_day for result in compared] == ["2024-04-01"] * 2


def test_another_day_is_refused(dated: tuple[Path, Path]) -> None:
    with pytest.raises(gfs.InputError, match="has timestamps, by which it is 2024-04-01; leave it out"):
        gfs.simulate(*dated, first_day="2024-04-02")


def test_without_timestamps_no_day_is_known(dated: tuple[Path, Path], tmp_path: Path) -> None:
    assert gfs.simulate(tmp_path / "jobs.csv", dated[1], quota="none").parameters.first_day == ""
