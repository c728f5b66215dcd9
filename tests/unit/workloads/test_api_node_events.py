"""Node events from Python: a file or a sequence, beside files or in place of those of a workload."""

from __future__ import annotations

from pathlib import Path

import pytest

import gfs
from builders import hp, nodes, spot, workload
from gfs import BadRows, InputError, NodeEvent
from gfs.workloads import write_trace

WORK = workload(
    nodes(8, 8),
    [hp("h", gpus=8, lasting=50), spot("s", at=5)],
    [NodeEvent(10_000.0, "n0", "cordon"), NodeEvent(10_001.0, "n0", "uncordon")],
)
GIVEN = [NodeEvent(20_000.0, "n1", "uncordon"), NodeEvent(9_000.0, "n1", "cordon")]
"""Out of order, which does not matter."""
SORTED = tuple(GIVEN[::-1])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_trace(WORK, tmp_path)


def test_those_of_the_workload_stand_unless_others_are_given() -> None:
    assert gfs.simulate(WORK, quota="none").workload.node_events == WORK.node_events
    assert gfs.simulate(WORK, node_events=GIVEN, quota="none").workload.node_events == SORTED
    assert gfs.simulate(WORK, node_events=[], quota="none").workload.node_events == ()


def test_beside_files(files: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "node_events.csv"
    assert gfs.simulate(*files, node_events=file).workload.node_events == WORK.node_events
    assert gfs.simulate(*files, node_events=str(file)).workload.node_events == WORK.node_events
    assert gfs.simulate(*files, node_events=GIVEN).workload.node_events == SORTED
    assert gfs.simulate(*files).workload.node_events == ()
    assert gfs.simulate(WORK, node_events=file).workload.node_events == WORK.node_events


def test_compare_gives_them_to_all(files: tuple[Path, Path]) -> None:
    compared = gfs.compare(*files, node_events=GIVEN, schedulers=["gfs", "static"])
    assert [result.workload.node_events for result in compared] == [SORTED] * 2


def test_what_cannot_be_used(files: tuple[Path, Path], tmp_path: Path) -> None:
    stranger = [NodeEvent(5.0, "n9", "fail")]
    for trace in ((WORK,), files):
        with pytest.raises(InputError, match="node 'n9', which the workload does not have"):
            gfs.simulate(*trace, node_events=stranger)
    file = tmp_path / "bad.csv"
    file.write_text("time,node,event\n5,n9,fail\n6,n0,cordon\n7,n0,uncordon\n")
    for trace in ((WORK,), files):
        with pytest.raises(BadRows, match=r"row 2, node = 'n9'"):
            gfs.simulate(*trace, node_events=file)
        kept = gfs.simulate(*trace, node_events=file, skip_bad_rows=True).workload.node_events
        assert [event.time for event in kept] == [6.0, 7.0]
