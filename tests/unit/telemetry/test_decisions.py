"""The decision log: worked numbers of alternatives, nodes kept from spot tasks, forecasts and expected starts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from builders import Draft, hp, nodes, spot, workload
from gfs import generate
from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult
from gfs.assembly.run import run_simulation
from gfs.domain.errors import InputError
from gfs.domain.units import DAY, HOUR
from gfs.telemetry.decisions import (
    AT_LEAST,
    AnyNote,
    EvictionNote,
    ExpectedNote,
    ForecastNote,
    NodeNote,
    Option,
    read_decisions,
    write_decisions,
)


def played(scheduler: str, sizes: tuple[int, ...], *drafts: Draft, **parameters: object) -> RunResult:
    work = workload(nodes(*sizes), drafts)
    settings = Parameters(**{"quota": "none", **parameters})
    return run_simulation(work, scheduler, settings, window=(0, DAY), record_decisions=True)


def notes_of(result: RunResult, kind: type[AnyNote]) -> list[AnyNote]:
    assert result.decisions is not None
    return [note for note in result.decisions if isinstance(note, kind)]


def test_both_nodes_are_weighed_and_the_cheaper_one_is_taken() -> None:
    # At 1000 no guarantee period is over and nobody was evicted: (0 + 1) / (0 + 0 + 1) = 1 for one victim. Waste: a
    # 8 x 1000, b 8 x 400 GPU-seconds; beta / (16 cards x 86,400 s) of it: 0.5 x 8000 / 1,382,400 and 0.5 x 3200 / ...
    result = played(
        "gfs",
        (8, 8),
        spot("a", gpus=8, lasting=9000),
        spot("b", gpus=8, at=600, lasting=9000),
        hp("h", gpus=8, at=1000),
    )
    assert notes_of(result, EvictionNote) == [
        EvictionNote(
            1000.0,
            "h",
            [
                Option("n1", ["b"], round(1 + 0.5 * 3200 / (16 * DAY), 12), 3200.0, chosen=True),
                Option("n0", ["a"], round(1 + 0.5 * 8000 / (16 * DAY), 12), 8000.0),
            ],
        )
    ]


def test_gfs_plus_tells_the_victims_of_a_gang_and_who_would_have_done_alone() -> None:
    # GPU-hours for each of two pods of 8 at 1000. The price is 2. wide wastes 16 x 1000 s, restarts in 60 s and makes
    # room for both; small wastes 8 x 400 s, restarts in 40 s and makes room for one.
    result = played(
        "gfs-plus",
        (8, 8, 8),
        spot("wide", gpus=8, pods=2, lasting=9000),
        spot("small", gpus=8, at=600, lasting=9000),
        hp("h", gpus=8, pods=2, at=1000),
    )
    (note,) = notes_of(result, EvictionNote)
    assert isinstance(note, EvictionNote)
    assert [(o.victims, o.waste, o.chosen) for o in note.options] == [
        (["wide"], 16_000.0, True),
        (["small"], 3200.0, False),
    ]
    assert [o.cost for o in note.options] == pytest.approx([(2 + 16 * 1060 / 3600) / 2, 2 + 8 * 440 / 3600])


def test_one_note_for_all_victims_of_a_choice() -> None:
    result = played(
        "gfs", (8,), spot("a", gpus=4, lasting=9000), spot("b", gpus=4, lasting=9000), hp("h", gpus=8, at=1000)
    )
    (note,) = notes_of(result, EvictionNote)
    assert isinstance(note, EvictionNote)
    assert [sorted(option.victims) for option in note.options] == [["a", "b"]]


def test_the_circuit_breaker_closes_a_node_and_opens_it_again() -> None:
    # Six evictions within minutes: 0.8 x 6 + 0.2 x 6 / 24 = 4.85 > 4.2 closes n0. An hour after the first ones they
    # count only for the day, and it opens.
    drafts = [spot(f"s{i}", gpus=8, at=100 * i, lasting=10_000) for i in range(6)]
    result = played("gfs", (8,), *drafts, *(hp(f"h{i}", gpus=8, at=100 * i + 50, lasting=10) for i in range(6)))
    closed, opened = notes_of(result, NodeNote)
    assert (closed, opened) == (NodeNote(closed.time, "n0", closed=True), NodeNote(opened.time, "n0", closed=False))
    evicted = [row["time"] for row in result.events.to_pylist() if row["event"] == "evict"]
    assert closed.time in evicted
    assert HOUR <= opened.time - evicted[0] <= HOUR + 900


def test_nodes_reserved_for_a_starving_gang_are_noted_with_its_name() -> None:
    # Small tasks keep both nodes half full; the gang of two whole nodes waits for longer than an hour.
    small = [spot(f"s{i}", gpus=4, at=600 * i, lasting=3600) for i in range(40)]
    gang = spot("gang", gpus=8, pods=2, at=1000, lasting=600)
    result = played("gfs-plus", (8, 8), *small, gang, starvation_timeout=3600)
    start = next(row["time"] for row in result.events.to_pylist() if row["task"] == "gang" and row["event"] == "start")
    marks = [note for note in notes_of(result, NodeNote) if isinstance(note, NodeNote) and note.time <= start]
    told = sorted((note.node, note.reserved_for, note.closed) for note in marks)
    assert told == [("n0", "", False), ("n0", "gang", False), ("n1", "", False), ("n1", "gang", False)]
    for note in marks:
        assert note.time > 1000 + 3600 if note.reserved_for else note.time == start


@pytest.fixture(scope="module")
def forecast() -> RunResult:
    work = generate("demo", nodes=6, days=3, spot_scale=3, seed=1)
    return run_simulation(work, "gfs", Parameters(), record_quota=True, record_decisions=True)


def test_the_bounds_of_the_organizations_add_up_to_that_of_the_pool(forecast: RunResult) -> None:
    """The paper's rule is the sum of peaks, so the quota log's bound is the sum of what is noted at that tick."""
    assert forecast.quota is not None
    pool = {row["time"]: row for row in forecast.quota.to_pylist() if row["guarantee_hours"] == 1}
    noted = [note for note in notes_of(forecast, ForecastNote) if isinstance(note, ForecastNote)]
    assert len(noted) > 100
    for note in noted:
        assert sum(note.bound) == pytest.approx(pool[note.time]["demand"], abs=0.01)
        assert sum(note.expected) == pytest.approx(pool[note.time]["expected_demand"], abs=0.01)  # one hour: no peaks
        highest = max(note.bound, default=0.0)
        assert highest == pytest.approx(pool[note.time]["organization_demand"], abs=0.001)
    known = [(one, two) for one, two in pairwise(noted) if one.organizations == two.organizations]
    assert min(two.time - one.time for one, two in known) >= AT_LEAST


def test_an_expected_start_is_noted_of_tasks_that_wait_for_quota(forecast: RunResult) -> None:
    noted = [note for note in notes_of(forecast, ExpectedNote) if isinstance(note, ExpectedNote)]
    log = forecast.events.to_pylist()
    waits: dict[str, list[tuple[float, str]]] = {}
    for row in log:
        waits.setdefault(row["task"], []).append((row["time"], row["event"]))
    assert any(note.known and note.start is not None for note in noted)
    for note in noted:
        if note.start is not None:
            assert note.start > note.time
            last = [event for time, event in waits[note.task] if time <= note.time][-1]
            assert last in ("submit", "evict")  # it waits
    last_of = {note.task: note for note in noted}
    assert all(note.start is None for note in last_of.values())  # in the end nobody waits for quota


def test_to_note_decisions_changes_none() -> None:
    work = generate("demo", nodes=6, days=1, spot_scale=3, seed=2)
    for scheduler in ("gfs", "gfs-plus", "lyra", "chronus"):
        plain = run_simulation(work, scheduler, Parameters(solver_seconds=60))
        noted = run_simulation(work, scheduler, Parameters(solver_seconds=60), record_decisions=True)
        assert noted.events.equals(plain.events), scheduler
        assert plain.decisions is None


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz"])
def test_a_log_is_read_as_it_was_written(tmp_path: Path, name: str, forecast: RunResult) -> None:
    assert forecast.decisions is not None
    write_decisions(forecast.decisions, tmp_path / name)
    assert read_decisions(tmp_path / name) == list(forecast.decisions)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"what":"forecast"}', "line 1, .*missing required field"),
        ('{"what":"dream","time":1}', "line 1, .*Invalid value 'dream'"),
        ("time,event", "line 1, .*malformed"),
        ('{"what":"node","time":5,"node":"n","closed":true}\n{"what":"node","time":4,"node":"n","closed":true}',
         "line 2, .*time = 4 is before the line above it"),
    ],
)  # fmt: skip
def test_what_is_no_decision_log_is_said(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=told + ".*gfs simulate --decisions"):
        read_decisions(path)


def test_a_file_that_is_not_packed_is_said(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl.gz").write_text("plain", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        read_decisions(tmp_path / "d.jsonl.gz")
