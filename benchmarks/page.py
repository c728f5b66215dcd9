"""The web page at 30,000 nodes and 100,000 tasks in a real Chromium: CPU of its main thread, memory, bytes.

A week is made up without a scheduler: what is measured is the page. Steps of the slider are a thousandth of the week,
jumps go from one end to the other, so that every entry of the log is applied or undone.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from gfs.dashboard.decisions import DecisionColumns
from gfs.dashboard.names import Names
from gfs.dashboard.page import exported_page
from gfs.dashboard.wire import (
    EntryColumns,
    NodeColumns,
    NodeEventColumns,
    PodColumns,
    QuotaColumns,
    Recording,
    Rules,
    TaskColumns,
)
from gfs.telemetry.decisions import AnyNote, EvictionNote, ExpectedNote, ForecastNote, NodeNote, Option
from machine import against, console, figures_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import BROWSER, Browser

NODES, TASKS, WEEK = 30_000, 100_000, 7 * 86400
LIMIT = 0.05
"""CPU seconds of a step: twenty pictures a second."""
VIEWS = ("now", "nodes", "queue", "organizations")
MOVE = """(async () => {{ const slider = document.getElementById("time"); slider.value = {step};
  slider.dispatchEvent(new Event("input"));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0))); }})()"""


def recording() -> Recording:
    """Tasks of one to eight whole GPUs on random nodes for some hours each; a tenth is evicted once."""
    chance = random.Random(0)
    free = [[0.0] * 8 for _ in range(NODES)]
    rows: list[tuple[float, int, int, int, int, int, int, str]] = []
    tasks = TaskColumns([], [], [], [], [], [], [])
    for task in range(TASKS):
        node, gpus = chance.randrange(NODES), chance.choice([1, 1, 2, 4, 8, 8])
        submit, length = chance.uniform(0, WEEK), chance.expovariate(1 / 90_000) + 60
        slots = sorted(sorted(range(8), key=free[node].__getitem__)[:gpus])
        start = max(submit, *(free[node][slot] for slot in slots))
        for slot in slots:
            free[node][slot] = start + length
        cards = "+".join(map(str, slots))
        spot = int(chance.random() < 0.4)
        for column, value in zip(
            (tasks.name, tasks.organization, tasks.model, tasks.spot, tasks.gpus, tasks.guarantee, tasks.checkpoint),
            (f"task-{task}", chance.randrange(60), int(node >= 20_000), spot, gpus, 3600, 3600),
            strict=True,
        ):
            column.append(value)  # type: ignore[attr-defined]
        ends = [(start, start + length)]
        if spot and chance.random() < 0.25:
            ends = [(start, start + length / 2), (start + length * 0.6, start + length)]
        rows.append((submit, 0, 0, task, 0, 0, 0, ""))
        for number, (begin, end) in enumerate(ends, 1):
            why = chance.randrange(2, 20_000) if begin > submit else 0
            rows.append((begin, 2, 1, task, number, why, node, cards))
            evicted = number < len(ends)
            rows.append((end, 1, 3 if evicted else 2, task, number, int(evicted), 0, ""))
    rows.sort(key=lambda row: row[:2])
    texts = sorted({row[7] for row in rows})
    place = {text: i for i, text in enumerate(texts)}
    starts = [row for row in rows if row[2] == 1]
    reason = "pool A100: spot quota {} for 1 h: forecast peak {} at 00:15, eta 2.00; 28.25 in use, task asks 16"
    return Recording(
        version=1, title="a week", scheduler="gfs", promise=0.9, promise_told=True, begin=None, live=False, now=None,
        last_id=len(rows), rules=Rules(), models=["A100", "H800"], organizations=[f"org-{i}" for i in range(60)],
        nodes=NodeColumns([f"node-{i}" for i in range(NODES)], [int(i >= 20_000) for i in range(NODES)], [8] * NODES),
        nodes_told=True, tasks=tasks,
        entries=EntryColumns(
            [int(row[0]) for row in rows], [row[2] for row in rows], [row[3] for row in rows], [row[4] for row in rows],
            [row[5] for row in rows], [int(row[2] == 1) for row in rows],
        ),
        reasons=["", "evicted for task-1 on node-1: only node", *(reason.format(i, 3 * i) for i in range(20_000))],
        pods=PodColumns(
            [row[6] for row in starts], [place[row[7]] for row in starts], [row[7].count("+") + 1 for row in starts]
        ),
        cards=texts,
        node_events=NodeEventColumns([], [], []), quota=QuotaColumns([], [], [], [], [], [], [], [], [], [], [], []),
        **_decided(chance, tasks),
    )  # fmt: skip


def _decided(chance: random.Random, tasks: TaskColumns) -> dict[str, Any]:
    """A forecast of 60 organizations twice an hour, nodes closed for an hour, alternatives of 5,000 evictions."""
    models, owners = Names({"A100": 0, "H800": 1}), Names({f"org-{i}": i for i in range(60)})
    nodes = {f"node-{i}": i for i in range(NODES)}
    columns = DecisionColumns(models, owners, {name: i for i, name in enumerate(tasks.name)}, nodes)
    notes: list[AnyNote] = []
    for begin in range(0, WEEK, 1800):
        for model in models:
            expected = [chance.uniform(0, 4000) for _ in owners]
            notes.append(ForecastNote(begin, model, list(owners), expected, [1.2 * gpus for gpus in expected]))
    for _ in range(5000):
        at, some = chance.uniform(0, WEEK), [chance.randrange(TASKS) for _ in range(9)]
        node = f"node-{chance.randrange(NODES)}"
        notes += [NodeNote(at, node, closed=True), NodeNote(min(at + 3600, WEEK), node, closed=False)]
        options = [Option(node, [f"task-{each}"], chance.random(), 1e4 * i, i == 0) for i, each in enumerate(some[1:])]
        notes.append(EvictionNote(at, f"task-{some[0]}", options))
        notes.append(ExpectedNote(at, f"task-{some[1]}", at + 7200))
    for note in sorted(notes, key=lambda note: note.time):
        columns.add(note)
    return columns.all()


def page(repeat: int) -> dict[str, Any]:
    """CPU seconds of the page's main thread, megabytes."""
    if BROWSER is None:
        return {}
    told = recording()
    figures: dict[str, Any] = {"entries": told.last_id, "json": len(msgspec.json.encode(told)) / 1e6, "views": {}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(exported_page(told), encoding="utf-8")
        figures["file"] = file.stat().st_size / 1e6
        for view in VIEWS:
            with Browser(Path(folder) / view) as browser:
                figures["views"][view] = _view(browser, f"{file.as_uri()}#t={WEEK // 2}&view={view}", repeat)
    return figures


def _view(browser: Browser, address: str, repeat: int) -> dict[str, float]:
    browser.call("Performance.enable", timeDomain="threadTicks")
    browser.look()
    browser.open(address)

    def moved(step: int) -> float:
        before = spent(browser)
        browser.run(MOVE.format(step=step))
        return spent(browser) - before

    first = spent(browser)
    steps = [moved(5000 + 10 * i) for i in range(10 * repeat)]
    jumps = [moved(10_000 * (i % 2)) for i in range(4 * repeat)]
    heap = float(browser.run("performance.memory.usedJSHeapSize")) / 1e6
    return {"first": first, "step": median(steps), "jump": median(jumps), "heap": heap}


def spent(browser: Browser) -> float:
    """CPU seconds of the page's main thread so far."""
    told = browser.call("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in told if each["name"] == "TaskDuration"))


def show_page(figures: dict[str, Any]) -> None:
    """A line a view."""
    if not figures:
        console.print("the page was not measured: no Chromium here")
        return
    title = f"the page: {NODES:,} nodes, {TASKS:,} tasks, {figures['entries']:,} entries, {figures['file']:.1f} MB"
    table = figures_table(title, "view", "first [CPU-s]", "step [CPU-ms]", "whole week [CPU-ms]", "memory [MB]")
    for view, told in figures["views"].items():
        cells = (
            f"{told['first']:.2f}",
            f"{1000 * told['step']:.0f}",
            f"{1000 * told['jump']:.0f}",
            f"{told['heap']:.0f}",
        )
        table.add_row(view, *cells)
    console.print(table)
    slowest = max(told["step"] for told in figures["views"].values())
    console.print(f"the slowest step: {against(slowest, LIMIT, ' CPU-s', 3)}")
