"""A recording that grows: it comes to say what the event log says, and patches bring everyone to the same state."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from builders import hp, nodes, spot, workload
from gfs.assembly.parameters import Parameters
from gfs.assembly.run import run_simulation
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import Record
from gfs.core.scheduler import Scheduler
from gfs.dashboard import live
from gfs.dashboard.files import RunTables
from gfs.dashboard.live import LiveRecording
from gfs.dashboard.recording import recording_of
from gfs.dashboard.replay import Replay
from gfs.dashboard.wire import Patch, Recording, Rules
from gfs.domain.workload import Workload
from gfs.telemetry.event_log import EventLog
from waiting import LONGEST

MACHINES = nodes(8, 8)


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> tuple[Workload, Any, list[Record]]:
    """A workload, the event log of its simulation, and the entries as a controller would record them."""
    work = workload(
        MACHINES,
        [
            spot("s1", gpus=8, lasting=7200),
            spot("s2", gpus=2, pods=2, lasting=900, at=30),
            spot("half", gpus=0.5, lasting=60, at=40),
            hp("h1", gpus=8, at=600, lasting=300),
            hp("gone", gpus=8, pods=2, at=650, lasting=300, cancelled=660),
        ],
    )
    heard: list[Record] = []
    record = EventLog.record

    def both(self: EventLog, entry: Record) -> None:
        heard.append(entry)
        record(self, entry)

    monkeypatch.setattr(EventLog, "record", both)
    result = run_simulation(work, "yarn-cs", Parameters())
    return work, result.events, heard


def a_scheduler() -> Scheduler:
    return build_scheduler("static", MACHINES, Parameters(), period=1000.0, guarantees={1.0})


def begun() -> LiveRecording:
    return LiveRecording("t", "gfs", 0.9, Rules(), tick=300.0)


def test_it_says_what_the_event_log_says(story: tuple[Workload, Any, list[Record]]) -> None:
    work, events, heard = story
    grown = begun()
    for entry in heard:
        grown.hear(entry)
    grown.look(9000.0, a_scheduler())
    said, expected = Replay(grown.recording), Replay(recording_of(RunTables(events, work.nodes, {}, None, ()), "t"))
    assert grown.recording.now == 9000
    for time in (0, 35, 45, 600, 615, 640, 655, 700, 1000, 5000):
        one, other = said.status(time), expected.status(time)
        assert one.pools[0].gpus == other.pools[0].gpus, time
        assert one.pools[0].tasks == other.pools[0].tasks, time
        assert {row.task for row in said.queue(time).waiting} == {row.task for row in expected.queue(time).waiting}
    for name in ("s1", "s2", "half", "h1", "gone"):
        assert said.life(name) == expected.life(name)


def patched(parts: list[bytes]) -> dict[str, Any]:
    """As a page puts patches together."""
    whole: dict[str, Any] = {}
    for text in parts:
        for name, part in msgspec.json.decode(text).items():
            if isinstance(part, dict):
                for column, values in part.items():
                    whole.setdefault(name, {}).setdefault(column, []).extend(values)
            elif isinstance(part, list):
                whole.setdefault(name, []).extend(part)
    return whole


def test_patches_add_up_to_the_recording(story: tuple[Workload, Any, list[Record]]) -> None:
    grown, scheduler = begun(), a_scheduler()
    for at, entry in enumerate(story[2]):
        grown.hear(entry)
        if at % 3 == 0:
            grown.look(entry[0], scheduler)
    grown.look(9000.0, scheduler)
    patches = grown.after(0)
    assert patches is not None
    assert [number for number, _ in patches] == list(range(1, grown.last_id + 1))
    for text in (text for _, text in patches):
        msgspec.json.decode(text, type=Patch)
    whole = patched([text for _, text in patches])
    told = msgspec.to_builtins(grown.recording)
    assert {name: told[name] for name in whole} == whole
    assert len(whole["quota"]["time"]) > 3
    # Who has seen the first five gets the others.
    assert grown.after(5) == patches[5:]
    assert grown.after(grown.last_id) == []
    assert grown.after(grown.last_id + 7) is None


def test_nodes_that_go_come_back_and_are_closed() -> None:
    grown, scheduler = begun(), a_scheduler()
    grown.look(0.0, scheduler)
    pool = scheduler.pools["A100"]
    one, other = list(pool.state.nodes)
    pool.state.nodes = [one]
    grown.look(10.0, scheduler)
    pool.state.nodes = [one, other]
    one.closed = True
    grown.look(20.0, scheduler)
    events = grown.recording.node_events
    seen = list(zip(events.time, (grown.recording.nodes.name[n] for n in events.node), events.event, strict=True))
    assert seen == [(10, "n1", "fail"), (20, "n0", "cordon"), (20, "n1", "repair")]


def test_who_missed_too_much_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PATCHES", 3)
    grown = begun()
    for now in range(10):
        grown.look(float(now), a_scheduler())
    assert grown.after(2) is None
    assert [number for number, _ in grown.after(7) or ()] == [8, 9, 10]


def test_what_ended_long_ago_is_forgotten(
    story: tuple[Workload, Any, list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_ENTRIES", 4)
    grown, scheduler = begun(), a_scheduler()
    for entry in story[2]:
        if entry[2].name != "s1" or entry[1] == 0:  # s1 waits for ever
            grown.hear(entry)
    grown.look(1000.0, scheduler)
    assert len(grown.recording.tasks.name) == 5
    grown.look(1000.0 + 3 * 86400, scheduler)
    assert grown.recording.tasks.name == ["s1"]
    assert isinstance(grown.recording, Recording)
    assert grown.after(1) is None


def test_listeners_hear_of_news() -> None:
    async def wait() -> bool:
        grown = begun()
        news = grown.news
        asyncio.get_running_loop().call_soon(grown.look, 1.0, a_scheduler())
        await asyncio.wait_for(news.wait(), LONGEST)
        return grown.after(0) != []

    assert asyncio.run(wait())


def test_who_begins_to_decide_again_begins_anew(story: tuple[Workload, Any, list[Record]]) -> None:
    """Another replica decided meanwhile: what ended under it would run here for ever."""
    grown, scheduler = begun(), a_scheduler()
    for entry in story[2][:4]:
        grown.hear(entry)
    grown.look(100.0, scheduler)
    seen = grown.last_id
    grown.hear(None)
    grown.hear(story[2][0])
    grown.look(200.0, scheduler)
    assert len(grown.recording.entries.time) == 1
    assert grown.recording.nodes.name == ["n0", "n1"]
    assert grown.after(seen) is None
