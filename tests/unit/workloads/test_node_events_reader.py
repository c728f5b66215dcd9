"""The reader of node events: what it takes, what it refuses, and how it says so."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders import nodes
from gfs import BadRows, InputError, NodeEvent, read_trace
from gfs.domain.errors import BadRow
from gfs.workloads.readers.node_events import read_node_events

THREE = nodes(8, 8, 8)
HEADER = "time,node,event\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "node_events.csv"


def test_events_go_by_time_and_in_the_order_of_the_file(file: Path) -> None:
    file.write_text(HEADER + "90,n1,repair\n30.5,n1,fail\n90,n2,cordon\n90,n0,fail\n")
    events, bad = read_node_events(file, THREE)
    assert events == (
        NodeEvent(30.5, "n1", "fail"),
        NodeEvent(90.0, "n1", "repair"),
        NodeEvent(90.0, "n2", "cordon"),
        NodeEvent(90.0, "n0", "fail"),
    )
    assert bad == ()


@pytest.mark.parametrize(
    ("row", "column", "value", "reason"),
    [
        (",n1,fail", "time", "", "missing"),
        ("soon,n1,fail", "time", "soon", "not a number"),
        ("-1,n1,fail", "time", "-1", "must not be negative"),
        ("inf,n1,fail", "time", "inf", "not a finite number"),
        ("5,,fail", "node", "", "missing"),
        ("5,n7,fail", "node", "n7", "no node has this name"),
        ("5,n1,", "event", "", "missing"),
        ("5,n1,Failed", "event", "Failed", "must be fail, repair, cordon or uncordon; did you mean fail?"),
        ("5,n1,drain", "event", "drain", "must be fail, repair, cordon or uncordon"),
        (
            "5,n1,uncordoned",
            "event",
            "uncordoned",
            "must be fail, repair, cordon or uncordon; did you mean uncordon?",
        ),
    ],
)
def test_a_bad_value_is_named(file: Path, row: str, column: str, value: str, reason: str) -> None:
    file.write_text(f"{HEADER}1,n0,cordon\n{row}\n")
    events, bad = read_node_events(file, THREE)
    assert events == (NodeEvent(1.0, "n0", "cordon"),)
    assert bad == (BadRow(str(file), 3, column, value, reason),)


@pytest.mark.parametrize(
    ("rows", "bad_row", "value", "reason"),
    [
        ("5,n1,repair", 2, "repair", "n1 is not failed at 5"),
        ("5,n1,uncordon", 2, "uncordon", "n1 is not cordoned at 5"),
        ("5,n1,fail 7,n1,uncordon 9,n1,repair", 3, "uncordon", "n1 is not cordoned at 7"),
        ("5,n1,fail 9,n1,fail", 3, "fail", "n1 is failed already, since 5"),
        ("5,n1,fail 5,n1,fail", 3, "fail", "n1 is failed already, since 5"),
        ("5,n1,cordon 9,n1,repair 12,n1,uncordon", 3, "repair", "n1 is not failed at 9"),
        ("9,n1,cordon 5,n1,cordon", 2, "cordon", "n1 is cordoned already, since 5"),
        ("5,n1,fail 6,n1,repair 6,n1,repair 7,n1,fail", 4, "repair", "n1 is not failed at 6"),
    ],
)
def test_what_contradicts_itself_is_a_bad_row(file: Path, rows: str, bad_row: int, value: str, reason: str) -> None:
    file.write_text(HEADER + "".join(f"{row}\n" for row in rows.split()))
    events, bad = read_node_events(file, THREE)
    assert bad == (BadRow(str(file), bad_row, "event", value, reason),)
    assert len(events) == len(rows.split()) - 1, "the others stay"


def test_a_node_may_be_failed_and_cordoned(file: Path) -> None:
    file.write_text(HEADER + "1,n0,cordon\n2,n0,fail\n3,n0,uncordon\n3,n1,fail\n4,n0,repair\n")
    assert read_node_events(file, THREE)[1] == ()


def test_gzip_and_parquet(tmp_path: Path) -> None:
    packed, columnar = tmp_path / "e.csv.gz", tmp_path / "e.parquet"
    packed.write_bytes(gzip.compress((HEADER + "5,n1,fail\n").encode()))
    pq.write_table(pa.table({"time": [5], "node": ["n1"], "event": ["fail"]}), columnar)
    for path in (packed, columnar):
        assert read_node_events(path, THREE) == ((NodeEvent(5.0, "n1", "fail"),), ())


def test_a_file_of_no_events_and_one_of_something_else(file: Path) -> None:
    file.write_text(HEADER)
    assert read_node_events(file, THREE) == ((), ())
    file.write_text("time,machine,event\n1,n0,fail\n")
    with pytest.raises(InputError, match="column node missing"):
        read_node_events(file, THREE)


class TestWithATrace:
    @pytest.fixture(autouse=True)
    def files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("jobs.csv").write_text(
            "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
            "a,o,A100,1,1,1,0,60,HP\n"
        )
        Path("nodes.csv").write_text("node_name,gpu_model,gpu_capacity_num,cpu_num\nn0,A100,8,1\nn1,A100,8,1\n")

    def test_they_end_up_in_the_workload(self) -> None:
        Path("e.csv").write_text(HEADER + "5,n1,fail\n9,n1,repair\n")
        work = read_trace("jobs.csv", "nodes.csv", node_events="e.csv")
        assert work.node_events == (NodeEvent(5.0, "n1", "fail"), NodeEvent(9.0, "n1", "repair"))

    def test_bad_rows_of_all_files_are_told_together(self) -> None:
        Path("jobs.csv").write_text(Path("jobs.csv").read_text() + "b,o,A100,1,1,1,0,-60,HP\n")
        Path("e.csv").write_text(HEADER + "5,n3,fail\n9,n1,fail\n")
        with pytest.raises(BadRows) as caught:
            read_trace("jobs.csv", "nodes.csv", node_events="e.csv")
        assert [(bad.file, bad.row, bad.column) for bad in caught.value.rows] == [
            ("jobs.csv", 3, "duration"),
            ("e.csv", 2, "node"),
        ]
        work = read_trace("jobs.csv", "nodes.csv", node_events="e.csv", skip_bad_rows=True)
        assert work.node_events == (NodeEvent(9.0, "n1", "fail"),)

    def test_nodes_that_are_not_right_yet_are_not_compared(self) -> None:
        Path("nodes.csv").write_text("node_name,gpu_model,gpu_capacity_num,cpu_num\nn0,A100,8,1\nn1,A100,none,1\n")
        Path("e.csv").write_text(HEADER + "5,n1,fail\n")
        with pytest.raises(BadRows) as caught:
            read_trace("jobs.csv", "nodes.csv", node_events="e.csv")
        assert [(bad.file, bad.column) for bad in caught.value.rows] == [("nodes.csv", "gpu_capacity_num")]
