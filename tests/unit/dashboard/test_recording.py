"""Event logs as recordings: entries, pods, nodes, and what is said about logs that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from builders import hp, nodes, spot, workload
from gfs.dashboard.files import RunFiles, RunTables, parse_cards, read_run
from gfs.dashboard.recording import recording_of
from gfs.dashboard.replay import Replay
from gfs.dashboard.wire import Recording
from gfs.domain.errors import GfsError, InputError
from gfs.domain.workload import Workload
from gfs.telemetry.event_log import EVENTS, write_events
from logs import Row, log

GANG: list[Row] = [
    (0, "submit", "s", 0, "", ""),
    (0, "start", "s", 1, "n0", "0+1"),
    (0, "start", "s", 1, "n1", "0+1"),
    (50, "submit", "h", 0, "", ""),
    (50, "evict", "s", 1, "n0", "0+1"),
    (50, "evict", "s", 1, "n1", "0+1"),
    (80, "start", "h", 1, "n0", "0:0.5"),
    (90, "finish", "h", 1, "n0", "0:0.5"),
]
WHY = {4: "evicted for h on n0: only node", 5: "evicted for h on n0: only node"}
"""By number of the row."""


def story() -> tuple[Workload, RunTables]:
    work = workload(nodes(8, 8), [spot("s", pods=2, gpus=2), hp("h", gpus=0.5, at=50)])
    return work, RunTables(log(GANG, work, reasons=WHY), work.nodes, {"s": (7200.0, 600.0)}, None, ())


def test_pods_of_a_gang_are_one_entry() -> None:
    recording = recording_of(story()[1], "t")
    entries = recording.entries
    assert [EVENTS[code] for code in entries.event] == ["submit", "start", "submit", "evict", "start", "finish"]
    assert entries.time == [0, 0, 50, 50, 80, 90]
    assert entries.pods == [0, 2, 0, 0, 1, 0]
    assert [recording.nodes.name[i] for i in recording.pods.node] == ["n0", "n1", "n0"]
    assert [recording.cards[i] for i in recording.pods.cards] == ["0+1", "0+1", "0:0.5"]
    assert recording.pods.gpus == [2, 2, 0.5]
    assert recording.reasons[entries.reason[3]] == "evicted for h on n0: only node"
    assert recording.last_id == 6


def test_tasks_have_their_size_owner_and_promise() -> None:
    tasks = recording_of(story()[1], "t").tasks
    assert (tasks.name, tasks.spot, tasks.gpus) == (["s", "h"], [1, 0], [4, 0.5])
    assert (tasks.guarantee, tasks.checkpoint) == ([7200, 3600], [600, 3600])


def test_a_recording_survives_json() -> None:
    recording = recording_of(story()[1], "t")
    assert msgspec.json.decode(msgspec.json.encode(recording), type=Recording) == recording


def test_without_a_nodes_file_nodes_are_those_of_the_log() -> None:
    seen = recording_of(RunTables(story()[1].events, None, {}, None, ()), "t")
    assert (seen.nodes.name, seen.nodes.gpus, seen.nodes_told) == (["n0", "n1"], [2, 2], False)


def without_numbers(rows: list[Row]) -> list[Row]:
    """As a live cluster records them."""
    return [(*row[:5], "") for row in rows]


def test_the_gpus_of_a_live_log_are_counted() -> None:
    work, tables = story()
    live = RunTables(log(without_numbers(GANG), work, reasons=WHY), work.nodes, {}, None, ())
    counted, numbered = recording_of(live, "t"), recording_of(tables, "t")
    assert counted.pods.cards == [-1, -1, -1]
    assert (counted.pods.node, counted.pods.gpus) == (numbered.pods.node, numbered.pods.gpus)
    for time in (0, 60, 85, 100):
        assert Replay(counted).status(time).pools[0].gpus == Replay(numbered).status(time).pools[0].gpus


def test_a_node_of_a_live_log_has_at_least_the_gpus_that_were_held_at_once() -> None:
    """Two GPUs of s on either node; then, when they are given back, 3 of a and half a GPU of h on n0."""
    work = workload(nodes(8, 8), [spot("s", pods=2, gpus=2), hp("h", gpus=0.5, at=50), hp("a", gpus=3, at=60)])
    rows = without_numbers(
        [*GANG[:7], (85, "start", "a", 1, "n0", ""), (90, "finish", "h", 1, "n0", ""), (90, "finish", "a", 1, "n0", "")]
    )
    seen = recording_of(RunTables(log(rows, work), None, {}, None, ()), "t")
    assert (seen.nodes.name, seen.nodes.gpus) == (["n0", "n1"], [4, 2])


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("3+4", {3: 1.0, 4: 1.0}),
        ("3:0.5", {3: 0.5}),
        ("", {}),
        ("x", {}),
        ("300", {}),
        ("-1", {}),
        ("3:2", {}),
    ],
)
def test_gpus_of_a_pod(text: str, cards: dict[int, float]) -> None:
    assert parse_cards(text) == cards


def written(folder: Path, changed: dict[int, Row | None] | None = None) -> RunFiles:
    """The story as files, some rows of the log replaced or taken out."""
    work, _ = story()
    rows = [row for i, row in enumerate(GANG) if (changed or {}).get(i, row) is not None]
    rows = [(changed or {}).get(GANG.index(row), row) or row for row in rows]
    write_events(log(rows, work), folder / "events.csv")
    (folder / "nodes.csv").write_text("node_name,gpu_model,gpu_capacity_num,cpu_num\nn0,A100,8,0\nn1,A100,8,0\n")
    return RunFiles(folder / "events.csv", folder / "nodes.csv")


def test_files_are_read(tmp_path: Path) -> None:
    files = written(tmp_path)
    (tmp_path / "jobs.csv").write_text("job_name,guarantee_hours\ns,2\nh,\n")
    (tmp_path / "run.json").write_text(
        json.dumps({"runs": [{"scheduler": "gfs", "parameters": {"p": 0.8, "restart_overhead": 5}}]})
    )
    tables = read_run(RunFiles(files.events, files.nodes, tmp_path / "jobs.csv", summary=tmp_path / "run.json"))
    recording = recording_of(tables, "t")
    assert (recording.scheduler, recording.promise, recording.rules.restart_overhead) == ("gfs", 0.8, 5)
    assert recording.tasks.guarantee == [7200, 3600]
    assert recording == recording_of(
        read_run(RunFiles(files.events, files.nodes, tmp_path / "jobs.csv", summary=tmp_path / "run.json")), "t"
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({7: (70, "finish", "h", 1, "n0", "0:0.5")}, "row 9, time = '70': is before the row above it"),
        ({6: (80, "start", "h", 1, "", "0:0.5")}, "row 8, node = '': missing"),
        ({6: (80, "start", "h", 1, "n0", "9")}, "row 8, cards = '9': n0 has 8 GPUs"),
        ({6: (80, "start", "h", 1, "n0", "many")}, "row 8, cards = 'many': must be GPUs of the node"),
        ({6: None}, "row 8, run = '1': this run has not started"),
        ({4: None, 5: None, 6: (80, "start", "s", 2, "n0", "0")}, "row 6, run = '2': run 1 of this task has not ended"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, changed: dict[int, Row | None], said: str) -> None:
    with pytest.raises(InputError) as error:
        read_run(written(tmp_path, changed))
    assert str(tmp_path / "events.csv") in str(error.value)
    assert said in str(error.value)


def test_a_live_log_is_read_and_its_pods_must_fit_on_their_nodes(tmp_path: Path) -> None:
    files = written(tmp_path, dict(enumerate(without_numbers(GANG))))
    assert recording_of(read_run(files), "t").pods.gpus == [2, 2, 0.5]
    assert files.nodes is not None
    files.nodes.write_text("node_name,gpu_model,gpu_capacity_num,cpu_num\nn0,A100,8,0\nn1,A100,1,0\n")
    with pytest.raises(InputError, match="row 4, gpus = '2': n1 has 1 GPUs"):
        read_run(files)


def test_a_node_that_is_gone_is_shown_and_failed_after_its_last_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a recorded cluster has it, whose nodes file tells of those that are left."""
    changed: dict[int, Row | None] = {
        6: (80, "start", "h", 1, "n7", "3"),
        7: (90, "finish", "h", 1, "n7", "3"),
    }
    recording = recording_of(read_run(written(tmp_path, changed)), "t")
    assert (recording.nodes.name, recording.nodes.gpus) == (["n0", "n1", "n7"], [8, 8, 4])
    events = recording.node_events
    assert (events.time, events.node, events.event) == ([90], [2], ["fail"])
    assert "names 1 node that the nodes file lacks, such as n7" in caplog.text
    assert Replay(recording).status(95).pools[0].gpus.closed == 4


QUOTA = "time,gpu_model,guarantee_hours,inventory,eta,quota,spot_in_use,idle,demand\n"


def test_quota_log(tmp_path: Path) -> None:
    files = written(tmp_path)
    (tmp_path / "quota.csv").write_text(QUOTA + "0,A100,1,3,1,2.5,4,12,\n300,A100,1,3,1,inf,4,12,\n")
    quota = recording_of(read_run(RunFiles(files.events, files.nodes, quota=tmp_path / "quota.csv")), "t").quota
    assert (quota.time, quota.quota, quota.demand) == ([0, 300], [2.5, None], [None, None])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("0,A100,1,3,1,two,4,12,\n", "row 2, quota = 'two': not a number"),
        ("300,A100,1,3,1,2,4,12,\n0,A100,1,3,1,2,4,12,\n", "row 3, time = '0': is before the row above it"),
        ("0,,1,3,1,2,4,12,\n", "row 2, gpu_model = '': missing"),
    ],
)
def test_bad_quota_logs(tmp_path: Path, rows: str, said: str) -> None:
    files = written(tmp_path)
    (tmp_path / "quota.csv").write_text(QUOTA + rows)
    with pytest.raises(InputError, match=said):
        read_run(RunFiles(files.events, files.nodes, quota=tmp_path / "quota.csv"))


@pytest.mark.parametrize("text", ["", "[]", '{"runs": []}', '{"runs": [{}, {}]}'])
def test_what_is_no_summary(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(GfsError, match=r"run\.json"):
        read_run(RunFiles(written(tmp_path).events, summary=tmp_path / "run.json"))
