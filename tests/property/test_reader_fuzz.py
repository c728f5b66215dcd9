"""Whatever a file holds: the readers give a result, or an InputError that names the file. Nothing else, ever."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gfs.domain.errors import BadRows, InputError
from gfs.forecasting.sources import EVENT_COLUMNS, history_of_events
from gfs.telemetry.metrics_life import task_life
from gfs.workloads import read_msr, read_trace
from gfs.workloads.plausibility import check_run_length, plausibility
from gfs.workloads.readers.alibaba import NODE_COLUMNS
from gfs.workloads.readers.demand import LONG, read_demand
from gfs.workloads.readers.event_log import read_events
from gfs.workloads.readers.msr import MSR_COLUMNS
from gfs.workloads.readers.node_events import NODE_EVENT_COLUMNS

JOB = {
    "job_name": "a",
    "organization": "x",
    "gpu_model": "A100",
    "cpu_request": "1",
    "gpu_request": "1",
    "worker_num": "1",
    "submit_time": "0",
    "duration": "60",
    "job_type": "HP",
    "guarantee_hours": "1",
    "checkpoint_interval": "3600",
    "cancel_time": "",
}
NODE = dict(zip(NODE_COLUMNS, ("n0", "A100", "8", "64"), strict=True))
NODE_EVENT = dict(zip(NODE_EVENT_COLUMNS, ("60", "n0", "fail"), strict=True))
EVENT = {"time": "0", "event": "submit", "task": "a", "kind": "HP", "organization": "x", "gpu_model": "A100"}
EVENT |= {"run": "0", "node": "", "cards": "", "gpus": "1", "reason": ""}
LIFE_COLUMNS = ("time", "event", "task", "run", "node", "gpus", "reason")
DEMAND = dict(zip(LONG, ("0", "x", "A100", "1"), strict=True))
WIDE = {"hour": "0", "lab": "1", "shop": ""}
MSR = {"job_id": "a", **dict(zip(MSR_COLUMNS, ("0", "60", "1"), strict=True))}

CELLS = (
    "",
    "0",
    "1",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e300",
    "9e30",
    "1e7",
    "0.5",
    "1_000",
    "0x10",
    "a",
    "n0",
    "HP",
    "Spot",
)
CELLS += (
    "submit",
    "start",
    "finish",
    "evict",
    "lost",
    "cancel",
    "fail",
    "repair",
    "A100",
    "2024-04-01T05:00",
    "\0",
    "\x1b",
)
CELLS += (
    "'=1",
    "=1",
    '"',
    "a\nb",
    "a\rb",
    ",",
    "\ufeff",
    "9999-12-31T23:59:59-14:00",
    "0001-01-01",
    "١",
    "\u2028",
    " 1 ",
)
ODD_COLUMNS: tuple[Callable[[int], Any], ...] = (
    lambda n: pa.nulls(n),
    lambda n: pa.array([True] * n),
    lambda n: pa.array([b"\xff"] * n),
    lambda n: pa.array([[1]] * n),
    lambda n: pa.array([{"a": 1}] * n),
    lambda n: pa.array([Decimal("1.5")] * n),
    lambda n: pa.array([2**63 - 1] * n),
    lambda n: pa.array([2**64 - 1] * n, pa.uint64()),
    lambda n: pa.array([0.5] * n, pa.float16()),
    lambda n: pa.array([float("nan")] * n),
    lambda n: pa.array([time(5)] * n),
    lambda n: pa.array([date(2024, 4, 1)] * n),
    lambda n: pa.array([0] * n, pa.date64()),
    lambda n: pa.array([2**31 - 1] * n, pa.date32()),
    lambda n: pa.array([datetime(2024, 4, 1, tzinfo=UTC)] * n),
    lambda n: pa.array([2**63 - 1] * n, pa.timestamp("us")),
    lambda n: pa.array([-(2**63) + 1] * n, pa.timestamp("ns", "Europe/Berlin")),
    lambda n: pa.array([timedelta(seconds=60)] * n),
    lambda n: pa.array([2**63 - 1] * n, pa.duration("s")),
    lambda n: pa.array([-5] * n, pa.duration("ns")),
    lambda n: pa.array(["a"] * n, pa.large_string()),
    lambda n: pa.array(["1"] * n).dictionary_encode(),
    lambda n: pa.array([None, *["1"] * n][:n], pa.string()),
)


def csv_bytes(rows: list[dict[str, str]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def parquet_bytes(columns: dict[str, Any]) -> bytes:
    data = io.BytesIO()
    pq.write_table(pa.table(columns), data)
    return data.getvalue()


@st.composite
def files(draw: st.DrawFn, good: dict[str, str]) -> bytes:
    """A file of a few rows: some cells, a column or the bytes themselves are not as they should be."""
    count = draw(st.integers(0, 4))
    rows = [dict(good) for _ in range(max(count, 1))]
    columns = st.sampled_from(sorted(good))
    if draw(st.booleans()):
        for row in rows:
            for name in draw(st.lists(columns, max_size=3)):
                row[name] = draw(st.sampled_from(CELLS) | st.text(max_size=5))
    if draw(st.integers(0, 2)) == 0:
        table: dict[str, Any] = {name: pa.array([row[name] for row in rows]) for name in good}
        for name in draw(st.lists(columns, max_size=3)):
            table[name] = draw(st.sampled_from(ODD_COLUMNS))(len(rows))
        data = parquet_bytes(table)
    else:
        data = csv_bytes(rows)
        if not count:
            data = data.split(b"\n")[0] + b"\n"
    if draw(st.booleans()) and draw(st.booleans()):
        data = gzip.compress(data)
    match draw(st.sampled_from(["whole", "whole", "cut", "odd byte", "noise"])):
        case "cut":
            data = data[: draw(st.integers(0, len(data)))]
        case "odd byte":
            at = draw(st.integers(0, len(data) - 1))
            data = data[:at] + draw(st.binary(min_size=1, max_size=2)) + data[at + 1 :]
        case "noise":
            data = draw(st.binary(max_size=80))
        case _:
            pass
    return data


def survives(read: Callable[[], object], *names: str) -> None:
    """Reading gives something, or an error that names a file and a reason."""
    found: InputError | None = None
    try:
        read()
    except InputError as error:
        found = error
    if isinstance(found, BadRows):
        assert found.rows
        assert all(row.file and row.reason for row in found.rows)
    elif found is not None:
        assert any(name in str(found) for name in names), str(found)
        assert len(str(found)) < 3_000


def write(folder: Path, **contents: bytes) -> dict[str, Path]:
    paths = {name: folder / name for name in contents}
    for name, data in contents.items():
        paths[name].write_bytes(data)
    return paths


def read_all(folder: Path, jobs: bytes, nodes: bytes, events: bytes, skip: bool) -> None:
    paths = write(folder, jobs=jobs, nodes=nodes, node_events=events)

    def read() -> None:
        made = read_trace(paths["jobs"], paths["nodes"], node_events=paths["node_events"], skip_bad_rows=skip).workload
        plausibility(made)
        check_run_length(made, 1e9)
        repr(made)

    survives(read, "jobs", "nodes", "node_events", "ticks")


def read_log(folder: Path, data: bytes) -> None:
    path = write(folder, events=data)["events"]

    def read() -> None:
        task_life(read_events(path, LIFE_COLUMNS, ("kind", "organization", "gpu_model")), "a")
        history_of_events(read_events(path, EVENT_COLUMNS))

    survives(read, "events", "task", "demand", "log")


def read_series(folder: Path, data: bytes, skip: bool) -> None:
    path = write(folder, demand=data)["demand"]
    survives(lambda: read_demand(path, skip_bad_rows=skip), "demand")


def read_microsoft(folder: Path, data: bytes) -> None:
    path = write(folder, cluster=data)["cluster"]
    survives(lambda: read_msr(path), "cluster", "load")


BOUNDED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@BOUNDED
@given(jobs=files(JOB), nodes=files(NODE), events=files(NODE_EVENT), skip=st.booleans())
def test_traces(tmp_path: Path, jobs: bytes, nodes: bytes, events: bytes, skip: bool) -> None:
    read_all(tmp_path, jobs, csv_bytes([NODE]), csv_bytes([NODE_EVENT]), skip)
    read_all(tmp_path, csv_bytes([JOB]), nodes, events, skip)


@BOUNDED
@given(data=files(EVENT))
def test_event_logs(tmp_path: Path, data: bytes) -> None:
    read_log(tmp_path, data)


@BOUNDED
@given(long=files(DEMAND), wide=files(WIDE), skip=st.booleans())
def test_demand(tmp_path: Path, long: bytes, wide: bytes, skip: bool) -> None:
    read_series(tmp_path, long, skip)
    read_series(tmp_path, wide, skip)


@BOUNDED
@given(data=files(MSR))
def test_microsoft(tmp_path: Path, data: bytes) -> None:
    read_microsoft(tmp_path, data)


# -- every odd column in every place --------------------------------------------------------------------------

PLACES = [(what, name) for what, row in (("job", JOB), ("node", NODE), ("fail", NODE_EVENT)) for name in row]
PLACES += [("event", name) for name in EVENT] + [("long", name) for name in DEMAND] + [("wide", name) for name in WIDE]
ROWS = {"job": JOB, "node": NODE, "fail": NODE_EVENT, "event": EVENT, "long": DEMAND, "wide": WIDE}


@pytest.mark.parametrize(("what", "name"), PLACES, ids=[f"{what} {name}" for what, name in PLACES])
def test_columns_of_odd_types(tmp_path: Path, what: str, name: str) -> None:
    good = ROWS[what]
    for odd in ODD_COLUMNS:
        data = parquet_bytes({column: pa.array([value] * 2) for column, value in good.items()} | {name: odd(2)})
        if what == "event":
            read_log(tmp_path, data)
        elif what in ("long", "wide"):
            read_series(tmp_path, data, skip=True)
        else:
            files_given = {"job": csv_bytes([JOB]), "node": csv_bytes([NODE]), "fail": csv_bytes([NODE_EVENT])}
            read_all(tmp_path, *(files_given | {what: data}).values(), skip=True)


# -- crashes that were found, by name -------------------------------------------------------------------------
