"""The page of `gfs view` in a real browser: what it shows is compared with what telemetry finds in the event log.

GFS_PICTURES names a folder for the pictures of docs/images.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from browser import Browser
from gfs.dashboard.files import RunTables
from gfs.dashboard.page import exported_page
from gfs.dashboard.recording import recording_of
from gfs.dashboard.replay import Replay
from gfs.dashboard.server import PageServer
from gfs.dashboard.site import Site
from gfs.dashboard.whatif import WhatIf
from gfs.telemetry.decisions import EvictionNote
from gfs.telemetry.metrics_life import task_life
from gfs.telemetry.runs import Bins, time_average
from gfs.telemetry.tables import with_timestamps
from page_reading import at, chart, colours, rows, shown, tiles
from recorded_day import DAY, FOR, Day, recorded_day

BINS = 600


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    return recorded_day(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_problems(browser: Browser) -> Iterator[None]:
    browser.problems.clear()
    browser.look()
    yield
    assert browser.problems == []


@pytest.mark.parametrize("moment", [30_000.0, 100_000.0, "busy", 172_000.0])
def test_numbers_of_a_moment_are_those_of_the_log(browser: Browser, day: Day, moment: float | str) -> None:
    time = day.busy_moment if isinstance(moment, str) else moment
    at(browser, day.page, t=time)
    seen = tiles(browser)
    hp, spot = (sum(day.held(time, model, kind) for model in ("A100", "T4")) for kind in (False, True))
    assert (seen["hp"], seen["spot"], seen["held"]) == (shown(hp), shown(spot), shown(hp + spot))
    assert seen["waiting"] == shown(len(day.waiting(time)))
    assert seen["evictions"] == shown(day.evicted(time - DAY, time))
    assert seen["reserved"] == shown(day.reserved(time))
    if moment == "busy":
        assert day.reserved(time) > 0
        assert day.waiting(time)
    runs = day.runs
    ended = day.columns.spot[runs.task] & (runs.end <= time) & (runs.end > time - DAY)
    short = runs.length < day.columns.guarantee[runs.task]
    judged = int((ended & (runs.finished | runs.evicted | ~short)).sum())
    broken = int((ended & runs.evicted & short).sum())
    assert seen["guarantee"] == (f"{100 * (1 - broken / judged):.1f}%" if judged else "–")


def test_pools_are_told_apart_and_add_up(browser: Browser, day: Day) -> None:
    time = 100_000.0
    at(browser, day.page, t=time)
    table = {row[0]: row for row in rows(browser, ".view .table")}
    closed_node = next(node for node in day.workload.nodes if node.name == "n2")
    for model in ("A100", "T4"):
        gpus, hp, spot, reserved, idle, closed = (float(cell.replace(",", "")) for cell in table[model][2:8])
        assert (gpus, hp, spot) == (
            day.workload.capacity()[model],
            float(shown(day.held(time, model, False))),
            float(shown(day.held(time, model, True))),
        )
        assert hp + spot + reserved + idle + closed == pytest.approx(gpus, abs=0.3)
        assert closed <= (closed_node.gpus + 8 if model == "A100" else 0)
    assert float(table["A100"][7]) >= 8  # n3 has failed, so all its GPUs are closed
    at(browser, day.page, t=time, pool="T4")
    assert tiles(browser)["hp"] == shown(day.held(time, "T4", False))


def test_charts_show_the_averages_of_the_log(browser: Browser, day: Day) -> None:
    at(browser, day.page, pool="A100")
    seen = chart(browser, "gpus")
    runs, columns = day.runs, day.columns
    first, last = 0.0, max(runs.last_event, day.quota["time"].to_numpy().max())
    first = min(float(np.nanmin(runs.submitted)), float(day.quota["time"].to_numpy().min()))
    over = Bins(first, (last - first) / BINS, BINS)
    assert seen["time"] == pytest.approx([first + (i + 0.5) * over.width for i in range(BINS)])
    here = columns.model[runs.task] == columns.models.index("A100")
    for label, spot in (("HP", False), ("spot", True)):
        of = here & (columns.spot[runs.task] == spot)
        expected = time_average(runs.start[of], runs.end[of], columns.gpus[runs.task][of], over)[0]
        assert seen["lines"][label] == pytest.approx(expected.tolist(), abs=1e-6), label
    evictions = chart(browser, "evictions")["lines"]["evictions"]
    assert sum(evictions) == int((runs.evicted & here).sum()) > 0


def test_useful_is_the_goodput_of_the_metrics(browser: Browser, day: Day) -> None:
    """No run is cancelled or open here, so that useful GPU time on the chart is the goodput that the summary tells."""
    at(browser, day.page)
    seen = chart(browser, "gpus")
    width = seen["time"][1] - seen["time"][0]
    span = day.metrics.span[1] - day.metrics.span[0]
    useful = sum(seen["lines"]["useful"]) * width
    assert useful == pytest.approx(
        day.metrics.goodput_rate_total * sum(day.workload.capacity().values()) * span, rel=1e-6
    )


def test_quota_chart_is_the_quota_log(browser: Browser, day: Day) -> None:
    at(browser, day.page, pool="T4", t=100_000)
    seen = chart(browser, "quota")
    log = [row for row in day.quota.to_pylist() if row["gpu_model"] == "T4" and row["guarantee_hours"] == 1]
    by_time = {row["time"]: row for row in log}
    assert len(seen["time"]) > 300
    names = {"spot quota": "quota", "spot in use": "spot_in_use", "bound of demand": "demand"}
    for label, column in names.items():
        expected = [by_time[time][column] for time in seen["time"]]
        assert seen["lines"][label] == pytest.approx(expected, abs=1e-5), label
    last = [row for row in log if row["time"] <= 100_000][-1]
    assert tiles(browser)["quota"] == shown(last["quota"])


def test_the_queue_says_who_waits_why_and_since_when(browser: Browser, day: Day) -> None:
    time = day.busy_moment
    at(browser, day.page, view="queue", t=time)
    seen = {row[0]: row for row in rows(browser, ".view .table")}
    assert set(seen) == day.waiting(time)
    for name, row in seen.items():
        wait = next(s for s in task_life(day.events, name) if s.what == "waited" and s.time <= time < s.time + s.length)
        assert row[-1] == wait.reason
        minutes = re.fullmatch(r"(?:(\d+) h ?)?(?:(\d+) min)?(?:(\d+) s)?", row[5])
        assert minutes, row[5]
        hours, mins, seconds = (int(part or 0) for part in minutes.groups())
        assert abs(3600 * hours + 60 * mins + seconds - (time - wait.time)) <= 31


def test_filters_of_the_queue(browser: Browser, day: Day) -> None:
    time = day.busy_moment
    tasks = {task.name: task for task in day.workload.tasks}
    waiting = day.waiting(time)
    organization = max(
        {tasks[name].organization for name in waiting}, key=lambda o: sum(tasks[n].organization == o for n in waiting)
    )
    at(browser, day.page, view="queue", t=time)

    def choose(control: str, value: object) -> set[str]:
        browser.run(
            f"(() => {{ const c = document.getElementById('{control}'); c.value = '{value}';"
            " c.dispatchEvent(new Event(c.tagName === 'INPUT' ? 'input' : 'change')); })()"
        )
        browser.settle()
        return {row[0] for row in rows(browser, ".view .table")}

    some = choose("queue-organization", organization)
    assert some == {name for name in waiting if tasks[name].organization == organization} != set()
    assert choose("queue-size", 8) == {name for name in some if tasks[name].gpus >= 8}
    choose("queue-organization", "")
    choose("queue-size", 0)
    assert choose("queue-class", "Spot") == {name for name in waiting if tasks[name].is_spot}
    choose("queue-class", "")
    one = sorted(waiting)[0]
    assert one in choose("queue-find", one)
    assert browser.run("location.hash").endswith(f"find={one}")


def test_the_life_of_a_task(browser: Browser, day: Day) -> None:
    evicted = np.flatnonzero(day.runs.evicted)
    name = day.workload.tasks[int(day.runs.task[evicted[0]])].name
    at(browser, day.page, task=name)
    steps = [step for step in task_life(day.events, name) if step.what in ("waited", "ran")]
    items = browser.run("[...document.querySelectorAll('#life .steps li')].map((i) => i.innerText)")
    assert len(items) == len(steps)
    for item, step in zip(items, steps, strict=True):
        assert (" waits " if step.what == "waited" else " runs ") in item
    taker = FOR.match(next(s.reason for s in task_life(day.events, name) if s.what == "evicted"))
    assert taker
    assert any(f"evicted in favour of {taker[1]}" in item for item in items)
    assert browser.run("document.querySelectorAll('#life .lifeline .part').length") == len(steps)
    browser.press("Escape")
    assert browser.run("document.getElementById('life').hidden") is True


def test_every_gpu_of_the_map_has_the_colour_of_who_holds_it(browser: Browser, day: Day) -> None:
    time = day.mixed_moment
    held = day.on_gpus(time)
    at(browser, day.page, view="nodes", t=time, node="n1")
    on_n1 = {task for (node, _), pods in held.items() for task, _, _ in pods if node == "n1"}
    assert {row[0] for row in rows(browser, "#node .table")} == on_n1
    layout = browser.run(
        "Object.fromEntries(Object.entries(document.getElementById('map').dataset).map(([k, v]) => [k, +v]))"
    )
    size, columns, top = layout["size"], int(layout["columns"]), 0.0
    inner = size - max(2, size * 0.08)
    places, expected = [], []
    for model in ("A100", "T4"):
        nodes = [node for node in day.workload.nodes if node.gpu_model == model]
        top += layout["head"]
        for i, node in enumerate(nodes):
            for gpu in range(8):
                pods = held.get((node.name, gpu), [])
                if node.name in ("n1", "n2", "n3") or 0 < sum(share for _, _, share in pods) < 0.99 or len(pods) > 1:
                    continue  # marked, or several colours
                across, down = (gpu % 4 + 0.5) * inner / 4, (gpu // 4 + 0.5) * inner / 2
                places.append([(i % columns) * size + across, top + (i // columns) * size + down])
                expected.append(pods[0][1] if pods else "idle")
        top += -(-len(nodes) // columns) * size + 8
    assert colours(browser, places) == expected
    assert set(expected) == {"HP", "Spot", "idle"}
    assert tiles(browser)["nodes-closed"] == "2"
    row, column = divmod(5, columns)  # a click chooses the sixth node
    box = browser.run("(({ left, top }) => ({ left, top }))(document.getElementById('map').getBoundingClientRect())")
    browser.click(box["left"] + (column + 0.5) * size, box["top"] + layout["head"] + (row + 0.5) * size)
    assert browser.run("document.querySelector('#node h2').textContent") == day.workload.nodes[5].name


def test_organizations(browser: Browser, day: Day) -> None:
    time = day.busy_moment
    at(browser, day.page, view="organizations", t=time)
    seen = {row[0]: row for row in rows(browser, ".view .table")}
    tasks, waiting = day.workload.tasks, day.waiting(time)
    running = {tasks[int(i)].name for i in day.runs.task[day.running(time)]}
    assert set(seen) == {task.organization for task in tasks}
    ended = day.runs.evicted & (day.runs.end > time - DAY) & (day.runs.end <= time)
    for name, row in seen.items():
        own = [task for task in tasks if task.organization == name]
        demand = sum(t.gpus for t in own if not t.is_spot and (t.name in running or t.name in waiting))
        assert row[1] == shown(demand)
        assert row[5] == shown(sum(t.gpus for t in own if t.is_spot and t.name in running))
        assert row[7] == shown(sum(t.name in waiting for t in own))
        assert row[-2] == shown(sum(tasks[int(i)].organization == name for i in day.runs.task[ended]))
    assert sum(int(row[-1]) for row in seen.values()) == int(ended.sum())


def slide(browser: Browser, step: int) -> None:
    browser.run(f"document.getElementById('time').value = {step}")
    browser.run("document.getElementById('time').dispatchEvent(new Event('input'))")
    browser.settle()


def test_slider_keys_play_and_links(browser: Browser, day: Day) -> None:
    at(browser, day.page, t=50_000)
    before = tiles(browser)
    slide(browser, 8000)
    address = browser.run("location.href")
    after = tiles(browser)
    assert after != before
    browser.open(address)
    browser.settle()
    assert tiles(browser) == after  # a link opens the same moment
    moment = float(browser.run("document.documentElement.dataset.ready"))
    browser.run("document.activeElement?.blur()")
    browser.press("ArrowRight")
    stepped = float(browser.run("document.documentElement.dataset.ready"))
    length = day.runs.last_event - float(np.nanmin(day.runs.submitted))
    assert stepped - moment == pytest.approx(length / 1000, rel=0.01)
    browser.press("ArrowLeft")
    assert tiles(browser) == after
    browser.run("document.getElementById('play').click()")
    browser.wait(f"Number(document.documentElement.dataset.ready) > {stepped + 600}")
    browser.run("document.getElementById('play').click()")
    # Back and forth over the whole period ends where it began: every step can be undone.
    browser.open(address)
    for value in (0, 10_000, 3000, 0):
        slide(browser, value)
    at(browser, day.page, t=moment)
    assert tiles(browser) == after


NAMELESS = """[...document.querySelectorAll('input,select,button,[role=img],canvas:not([role=img] *)')]
  .filter((e) => e.checkVisibility() && !(e.ariaLabel || e.labels?.length || e.textContent.trim()))
  .map((e) => e.outerHTML)"""


@pytest.mark.parametrize("width", [400, 600, 720, 1000, 1280, 1920, 2560])
@pytest.mark.parametrize("dark", [False, True])
def test_every_view_fits_every_screen(browser: Browser, day: Day, width: int, dark: bool) -> None:
    browser.look(width, 900, dark=dark)
    evicted = day.workload.tasks[int(day.runs.task[np.flatnonzero(day.runs.evicted)[0]])].name
    for view in ("now", "nodes", "queue", "organizations", "whatif"):
        at(browser, day.page, view=view, t=day.busy_moment, task=evicted)
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), view
        nameless = browser.run(NAMELESS)
        assert nameless == [], view


def test_times_are_told_in_the_zone_of_the_reader(browser: Browser, day: Day, tmp_path: Path) -> None:
    events = with_timestamps(day.events, "2024-04-01")
    tables = RunTables(events, day.workload.nodes, {}, None, ())
    page = tmp_path / "dated.html"
    page.write_text(exported_page(recording_of(tables, "dated")), encoding="utf-8")
    for zone, hour in (("UTC", "06:00:00"), ("Asia/Shanghai", "14:00:00"), ("America/New_York", "02:00:00")):
        browser.look(zone=zone)
        at(browser, page, t=6 * 3600)
        told = browser.run("document.querySelector('.moment').textContent")
        assert hour in told, (zone, told)
        assert "2024" in told


def test_an_empty_cluster(browser: Browser, day: Day, tmp_path: Path) -> None:
    for nodes in (day.workload.nodes, ()):
        tables = RunTables(day.events.slice(0, 0), nodes, {}, None, ())
        page = tmp_path / "empty.html"
        page.write_text(exported_page(recording_of(tables, "empty")), encoding="utf-8")
        for view in ("now", "nodes", "queue", "organizations"):
            at(browser, page, view=view)
        at(browser, page)
        seen = tiles(browser)
        assert seen["held"] == "0"
        assert seen["idle"] == shown(sum(node.gpus for node in nodes))
        assert seen["guarantee"] == "–"


HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "evicted for a on b",
    "\u202egnorw\u202c",
    "${alert(1)}' or 1=1 -- &amp; %00",
    "x" * 300,
)


def test_hostile_names_are_only_text(browser: Browser, day: Day, tmp_path: Path) -> None:
    tasks = list(day.workload.tasks)
    names = {tasks[i].name: f"{HOSTILE[i % len(HOSTILE)]}{i}" for i in range(len(tasks))}
    owners = {o: HOSTILE[i % len(HOSTILE)] + str(i) for i, o in enumerate(sorted({t.organization for t in tasks}))}
    nodes = {n.name: HOSTILE[i % len(HOSTILE)] + str(i) for i, n in enumerate(day.workload.nodes)}
    table = day.events
    for column, new in (("task", names), ("organization", owners), ("node", nodes)):
        told = [new.get(value, value) for value in table[column].to_pylist()]
        table = table.set_column(table.column_names.index(column), column, pa.array(told))
    specs = tuple(replace(node, name=nodes[node.name], gpu_model=node.gpu_model) for node in day.workload.nodes)
    page = tmp_path / "hostile.html"
    title = "</title><script>window.hacked=1</script>"
    page.write_text(exported_page(recording_of(RunTables(table, specs, {}, None, ()), title)), encoding="utf-8")
    time = day.busy_moment
    for view in ("now", "nodes", "queue", "organizations"):
        browser.open(f"{page.as_uri()}#view={view}&t={time}")
        browser.settle()
        assert browser.run("window.hacked") is None
        assert browser.run("document.querySelectorAll('main script, main img, main iframe').length") == 0
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), view
    browser.open(f"{page.as_uri()}#view=queue&t={time}")
    browser.settle()
    told = browser.run("[...document.querySelectorAll('.view tbody tr')].map((r) => r.dataset.task)")
    assert set(told) == {names[name] for name in day.waiting(time)}
    assert browser.run("document.querySelector('h1').textContent") == title
    browser.run("document.querySelector('.view tbody a').click()")
    browser.settle()
    assert browser.run("document.querySelector('#life h2').textContent") in {
        name.replace("\u202e", "\\u202e").replace("\u202c", "\\u202c") for name in told
    }


def test_a_broken_recording_is_said(browser: Browser, day: Day, tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    whole = day.page.read_text(encoding="utf-8")
    page.write_text(re.sub(r'(id="recording">).{300}', r"\1", whole), encoding="utf-8")
    browser.open(page.as_uri(), until="document.querySelector('[role=alert]') !== null")
    assert "cannot be shown" in browser.run("document.querySelector('[role=alert]').textContent")


def evicted_among_several(day: Day) -> str:
    """A task that went because it was cheaper than another."""
    notes = [note for note in day.tables.decisions if isinstance(note, EvictionNote)]
    return max(notes, key=lambda note: len(note.options)).options[0].victims[0]


def test_pictures_of_the_docs(browser: Browser, day: Day, tmp_path: Path) -> None:
    """Made anew where GFS_PICTURES says; here only that they can be made."""
    folder = Path(os.environ.get("GFS_PICTURES", tmp_path))
    browser.look(1280, 1000)
    pictures = {
        "page-now": {"pool": "A100"},
        "page-nodes": {"view": "nodes", "node": "n1"},
        "page-organizations": {"view": "organizations"},
        "page-task": {"view": "queue", "task": evicted_among_several(day)},
    }
    for name, state in pictures.items():
        at(browser, day.page, t=day.busy_moment, **state)
        browser.run("document.querySelectorAll('#life details').forEach((d) => { d.open = true; })")
        browser.settle()
        browser.picture(folder / f"{name}.png")
        assert (folder / f"{name}.png").stat().st_size > 20_000


def test_what_if_side_by_side(browser: Browser, day: Day) -> None:
    """On a server: fewer nodes are asked for, and both runs are shown, the second as its own recording draws it."""
    recording = msgspec.structs.replace(
        recording_of(day.tables, "two days"), schedulers=["gfs", "static"], quotas=["none"]
    )
    whatif = WhatIf(day.tables, day.workload)
    with PageServer(Site(Replay(recording), whatif), "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(f"{server.address}#view=whatif")
        browser.run("document.getElementById('whatif-scheduler').value = 'static'")
        browser.run("document.getElementById('whatif-quota').value = 'none'")
        browser.run("document.getElementById('whatif-nodes').value = '0.8'")
        browser.run("document.getElementById('whatif-run').click()")
        browser.wait("document.querySelector('#whatif-outcome tbody tr') !== null")
        browser.wait("document.getElementById('whatif-after').data !== undefined")
        (run,) = whatif._runs.values()
        assert rows(browser, "#whatif-outcome") == [
            [heading, one + (" ★" if better < 0 else ""), other + (" ★" if better > 0 else "")]
            for heading, one, other, better in zip(run.headings, run.recorded, run.variant, run.better, strict=True)
        ]
        assert any(run.better)
        before, after = (chart(browser, f"whatif-{which}") for which in ("before", "after"))
        assert before["time"] == after["time"]
        assert before["lines"]["all GPUs"][0] == 96
        assert after["lines"]["all GPUs"][0] == sum(whatif.recording(run.key).nodes.gpus) < 96
        browser.open(f"{server.address}?variant={quote(run.key)}")
        assert browser.run("document.querySelector('h1').textContent") == f"What if: {run.title}"
        # A page of another site may neither read nor make it compute.
        assert browser.run("fetch('api/v1/status').then((answer) => answer.status)") == 200
        server.shutdown()
