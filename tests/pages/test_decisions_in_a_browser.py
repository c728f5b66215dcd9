"""What decisions went by, on the page in a real browser: compared with the notes of the decision log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from browser import Browser
from gfs.dashboard.recording import recording_of
from gfs.dashboard.replay import Replay
from gfs.telemetry.decisions import EvictionNote, ExpectedNote, ForecastNote, NodeNote
from page_reading import at, chart, rows, shown, tiles
from recorded_day import Day, recorded_day


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def day(folder: Path) -> Day:
    return recorded_day(folder)


@pytest.fixture(scope="module")
def plus(folder: Path) -> Day:
    """The same under gfs-plus, which reserves nodes and evicts more."""
    return recorded_day(folder, "gfs-plus")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        started.look()
        yield started
        assert started.problems == []


def last_forecast(day: Day, model: str, time: float) -> dict[str, tuple[float, float]]:
    """Organization -> expected and bound by the newest note of a pool."""
    found: dict[str, tuple[float, float]] = {}
    for note in day.tables.decisions:
        if isinstance(note, ForecastNote) and note.gpu_model == model and note.time <= time:
            found = dict(zip(note.organizations, zip(note.expected, note.bound, strict=True), strict=True))
    return found


def test_the_forecast_of_each_organization(browser: Browser, day: Day) -> None:
    time = day.busy_moment
    pools = [last_forecast(day, model, time) for model in ("A100", "T4")]
    at(browser, day.page, view="organizations", t=time)
    seen = {row[0]: row for row in rows(browser, ".view .table")}
    assert len(seen) > 3
    for name, row in seen.items():
        told = [pool[name] for pool in pools if name in pool]
        assert row[3] == shown(sum(expected for expected, _ in told)), name
        assert row[4] == shown(sum(bound for _, bound in told)), name
    at(browser, day.page, view="organizations", t=time, pool="T4", org="org-57")
    assert browser.run("document.getElementById('demand').hidden") is True
    drawn = chart(browser, "forecast-0")
    for index in range(50, len(drawn["time"]), 60):
        expected, bound = last_forecast(day, "T4", drawn["time"][index]).get("org-57", (None, None))
        assert drawn["lines"]["expected"][index] == pytest.approx(expected, abs=1e-5)
        assert drawn["lines"]["bound"][index] == pytest.approx(bound, abs=1e-5)
    assert max(drawn["lines"]["demand that came"]) > 0
    api = Replay(recording_of(day.tables, "t")).status(time)
    t4 = next(pool for pool in api.pools if pool.pool == "T4")
    assert {o.organization: (o.expected, o.bound) for o in t4.organizations} == pools[1]


def test_without_a_decision_log_it_says_how_to_get_one(browser: Browser, plus: Day) -> None:
    at(browser, plus.page, view="organizations")  # gfs-plus follows no forecast
    assert "--decisions" in browser.run("document.getElementById('no-forecast').innerText")


def kept_at(day: Day, time: float) -> dict[str, str]:
    kept: dict[str, str] = {}
    for note in day.tables.decisions:
        if isinstance(note, NodeNote) and note.time <= time:
            kept.pop(note.node, None)
            if note.closed or note.reserved_for:
                kept[note.node] = note.reserved_for
    return kept


def test_nodes_that_are_kept_from_spot_tasks(browser: Browser, plus: Day) -> None:
    moments = [note.time for note in plus.tables.decisions if isinstance(note, NodeNote) and note.reserved_for]
    time = next(t for t in moments if kept_at(plus, t))
    kept = kept_at(plus, time)
    held: dict[str, float] = {}
    for (node, _), pods in plus.on_gpus(time).items():
        held[node] = held.get(node, 0) + sum(share for _, _, share in pods)
    idle = sum(8 - held.get(node, 0) for node in kept)
    assert idle > 0
    at(browser, plus.page, t=time)
    table = {row[0]: row for row in rows(browser, ".view .table")}
    assert table["all"][8] == shown(idle)
    words = browser.run("document.querySelector('[data-key=idle] .detail').textContent")
    assert f"{shown(idle)} kept from spot tasks" in words
    node, task = next((node, task) for node, task in kept.items() if task)
    at(browser, plus.page, view="nodes", t=time, node=node)
    assert tiles(browser)["nodes-kept"] == str(len(kept))
    assert f"reserved for {task}" in browser.run("document.querySelector('#node .words').innerText")
    before = min(moments) - 1
    at(browser, plus.page, view="nodes", t=before)
    assert tiles(browser)["nodes-kept"] == str(len(kept_at(plus, before)))
    status = Replay(recording_of(plus.tables, "t")).status(time)
    assert {k.node: k.reserved_for for pool in status.pools for k in pool.kept_from_spot} == kept
    assert sum(pool.gpus.kept_from_spot for pool in status.pools) == idle


def test_the_queue_says_when_room_is_expected(browser: Browser, day: Day) -> None:
    notes = [note for note in day.tables.decisions if isinstance(note, ExpectedNote)]
    known = [note for note in notes if note.known and note.start is not None]
    time = known[len(known) // 2].time
    last = {note.task: note for note in notes if note.time <= time}
    at(browser, day.page, view="queue", t=time)
    seen = {row[0]: row[6] for row in rows(browser, ".view .table")}
    told = {name: note for name, note in last.items() if note.start is not None and note.start > time and name in seen}
    assert any(note.known for note in told.values())
    for name, text in seen.items():
        if name not in told:
            assert text == "–", name
        elif told[name].known:
            assert text.startswith("in "), name
        else:
            assert text.startswith("not before day "), name
    queue = {row.task: row for row in Replay(recording_of(day.tables, "t")).queue(time).waiting}
    assert {name: (row.expected_start, row.expected_known) for name, row in queue.items() if row.expected_start} == {
        name: (note.start, note.known) for name, note in told.items()
    }


def test_the_life_of_a_task_has_what_was_weighed(browser: Browser, plus: Day) -> None:
    note = max((n for n in plus.tables.decisions if isinstance(n, EvictionNote)), key=lambda note: len(note.options))
    assert len(note.options) > 1
    victim = note.options[0].victims[0]
    at(browser, plus.page, task=quote(victim), t=note.time)
    browser.run("document.querySelectorAll('#life details').forEach((d) => { d.open = true; })")
    browser.settle()
    tables = browser.run(
        "[...document.querySelectorAll('#life details')].map((d) =>"
        " [...d.querySelectorAll('tbody tr')].map((r) => [...r.cells].map((c) => c.innerText.trim())))"
    )
    expected = [
        [option.node, ", ".join(option.victims), f"{shown(round(option.waste / 3600, 1))} GPU-h",
         f"{float(f'{option.cost:.4g}'):,g}", "★ taken" if option.chosen else ""]
        for option in note.options
    ]  # fmt: skip
    assert expected in tables
    steps = [step for step in Replay(recording_of(plus.tables, "t")).life(victim).steps if step.time == note.time]
    (evicted,) = [step for step in steps if step.what == "evicted"]
    assert evicted.taker == note.task
    assert [(o.node, o.victims, o.chosen) for o in evicted.weighed] == [
        (o.node, o.victims, o.chosen) for o in note.options
    ]


def test_a_quota_chart_for_every_pool(browser: Browser, day: Day) -> None:
    time = 100_000
    at(browser, day.page, t=time)
    titles = browser.run("[...document.querySelectorAll('figure.chart:not([hidden]) h3')].map((h) => h.textContent)")
    assert [title for title in titles if "quota" in title] == [
        f"{model}: spot quota and HP demand" for model in ("A100", "T4")
    ]
    log = [row for row in day.quota.to_pylist() if row["guarantee_hours"] == 1]
    newest = {row["gpu_model"]: row for row in log if row["time"] <= time}
    assert tiles(browser)["quota"] == shown(sum(row["quota"] for row in newest.values()))
    drawn = chart(browser, "quota-1")
    by_time = {row["time"]: row for row in log if row["gpu_model"] == "T4"}
    assert drawn["lines"]["spot quota"] == pytest.approx([by_time[t]["quota"] for t in drawn["time"]], abs=1e-5)


def test_an_exported_page_says_who_can_simulate(browser: Browser, day: Day) -> None:
    at(browser, day.page, view="whatif")
    words = browser.run("document.querySelector('.view').innerText")
    assert "gfs view events.csv --jobs jobs.csv --nodes nodes.csv" in words
    assert browser.run("document.querySelector('form')") is None
