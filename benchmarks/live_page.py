"""The page of a running cluster of 30,000 nodes and 100,000 tasks: bytes of its stream, CPU of an update.

A replica that was never connected is told a story: what is measured is the page, its server and the stream between.
"""

from __future__ import annotations

import random
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from gfs.core.actions import FINISH, START, SUBMIT, Record
from gfs.core.run import Run
from gfs.domain.task import Priority, Task
from machine import against, console, figures_table
from page import BROWSER, NODES, TASKS, WEEK, Browser, spent

HAS_LIVE = find_spec("aiohttp") is not None
LIVE_LIMIT = 0.5
"""CPU seconds of an update, of which there is one every two seconds."""


def live_page(repeat: int) -> dict[str, Any]:
    """A running cluster of the same size: what its stream sends, and what a page and the controller do for a patch."""
    if BROWSER is None or not HAS_LIVE:
        return {}
    from told_cluster import BEGIN, Cluster

    cluster, chance = Cluster(NODES), random.Random(0)
    rates: dict[str, Any] = {"patches": 10 * repeat}
    try:
        told = [
            entry
            for index in range(TASKS)
            for entry in _story(cluster, chance, index, BEGIN - WEEK * (TASKS - index) / TASKS)
            if entry[0] <= BEGIN
        ]
        told.sort(key=_when)
        cluster.call(lambda: [cluster.service.recorder.record(entry) for entry in told])
        cluster.tell(BEGIN)
        cluster.serve()
        with tempfile.TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
            browser.call("Performance.enable", timeDomain="threadTicks")
            browser.look()
            browser.open(f"http://127.0.0.1:{cluster.port}/#view=now")
            browser.wait("document.querySelector('.connection')?.textContent === 'Live'")
            browser.settle()
            updates, busy, sent = [], [], []
            for patch in range(rates["patches"]):
                now, before = BEGIN + 2 * (patch + 1), spent(browser)
                new = range(TASKS + 7 * patch, TASKS + 7 * (patch + 1))
                entries = [entry for index in new for entry in _story(cluster, chance, index, now - 1, 0.4)]
                began = time.process_time()
                cluster.tell(now, *[entry[1:4] for entry in sorted(entries, key=_when)])
                busy.append(time.process_time() - began)
                browser.wait(f"Number(document.documentElement.dataset.ready) >= {now}")
                updates.append(spent(browser) - before)
                sent.append(len(cluster.page.live.patches[-1][1]))
        rates |= {"page": median(updates), "controller": median(busy), "bytes": 30 * sum(sent) / len(sent)}
        rates["quiet"] = 30 * _quiet_bytes(cluster, BEGIN)
    finally:
        if cluster.server is not None:
            cluster.stop()
        cluster.close()
    return rates


def _quiet_bytes(cluster: Any, begin: float) -> int:
    """A patch of two seconds in which nothing happens."""
    cluster.tell(begin + 1e6)
    cluster.tell(begin + 1e6 + 2)
    return len(cluster.page.live.patches[-1][1])


def _when(entry: Record) -> float:
    return entry[0]


def _story(cluster: Any, chance: random.Random, index: int, at: float, lasting: float = 90_000.0) -> list[Record]:
    """A task that comes, starts and finishes."""
    gpus, node = chance.choice([1, 2, 4, 8]), cluster.nodes[chance.randrange(NODES)]
    priority = Priority(int(chance.random() < 0.4))
    task = Task(index, f"lab/task-{index}", f"org-{index % 60}", "A100", priority, 1, float(gpus), at)
    run = Run(task, 1, [(node, (1 << gpus) - 1, gpus)], at, at)
    end = at + (chance.expovariate(1 / lasting) if lasting > 1 else lasting)
    return [(at, SUBMIT, task, None, None), (at, START, task, run, None), (end, FINISH, task, run, None)]


def show_live_page(figures: dict[str, Any]) -> None:
    """What a running cluster costs."""
    if not figures:
        console.print("the live page was not measured: no Chromium or no gfs-scheduler[live] here")
        return
    title = f"the live page: {NODES:,} nodes, {TASKS:,} tasks, 630 entries a minute, a patch every 2 s"
    table = figures_table(title, "figure", "value")
    table.add_row("stream", f"{figures['bytes'] / 1000:.0f} kB a minute")
    table.add_row("stream of a quiet cluster", f"{figures['quiet'] / 1000:.1f} kB a minute")
    table.add_row("a patch in the controller", f"{1000 * figures['controller']:.0f} CPU-ms")
    console.print(table)
    console.print(f"a patch on the page: {against(figures['page'], LIVE_LIMIT, ' CPU-s', 3)}")
