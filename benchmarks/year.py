"""A year through one scheduler object: a million tasks with a steady load, and what memory it takes.

Much changes in it: every day an organization comes that is gone the next day, tasks are cancelled, runs are lost,
nodes fail and are cordoned. Demand is remembered for 182 days, as by default, and for up to a week more: until that
is full, after 189 days, memory grows with organizations x time; from then on it may not grow.

The driver is as small as can be: it keeps no log, so that what grows is the scheduler's own. Memory is that of the
process, seen at the end of every month after a collection.
"""

from __future__ import annotations

import gc
import heapq
import json
import random
import resource
import sys
import time
from collections import Counter
from itertools import count
from typing import Any

from gfs import NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import (
    Cancelled,
    EvictionDone,
    Finished,
    Lost,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    Submitted,
    Tick,
)
from gfs.core.ledger import LIVE_LOOK_BACK
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.meter import DemandRecord
from machine import against, console, figures_table, in_own_process

TASKS, DAYS, NODES = 1_000_000, 365, 60
MEAN_RUN = 1.1 * HOUR
"""A task asks for 2.75 GPUs on average, so that three quarters of the cards are in use."""
STEADY_ORGANIZATIONS, VISITS = 8, 0.03
"""Organizations that stay, and the share of tasks that belong to the one that is there for a day."""
CANCELLED, LOST = 0.03, 0.01
"""Shares of tasks that are withdrawn, waiting or running, and of runs that are lost."""
FULL = 7
"""The month at whose end the window of demand is full: 210 days, of which 182 and up to a week more are kept."""
GROWTH_LIMIT = 1.05
"""Memory at the end of the year against that at the end of month 7."""
RETRAIN_HOURS = 720.0
"""Monthly instead of daily: a fit from 200 organizations x 182 days takes long, and memory is what is measured."""
QUOTAS = {"gfs": "forecast-no-feedback", "gfs-plus": "adaptive", "lyra": "none"}
SCHEDULERS = tuple(QUOTAS)


def year() -> dict[str, Any]:
    """Each scheduler in a process of its own."""
    return {"tasks": TASKS, "limit": GROWTH_LIMIT, "runs": {n: in_own_process("year.py", n) for n in SCHEDULERS}}


def live(name: str, tasks: int = TASKS, days: int = DAYS) -> dict[str, Any]:
    """One year; the objects alive and the resident memory at the end of every month."""
    specs = [NodeSpec(i, f"n{i}", "A100", 8, 96.0) for i in range(NODES)]
    # The forecast without feedback: with it the quota may fall so low that spot tasks pile up: no steady load.
    parameters = Parameters(quota=QUOTAS[name], aggregate="independent", retrain_hours=RETRAIN_HOURS)
    scheduler = build_scheduler(
        name, specs, parameters, period=LIVE_LOOK_BACK, look_back=LIVE_LOOK_BACK, guarantees=(1.0, 2.0)
    )
    chance, sequence = random.Random(0), count()
    gap, now, index, next_tick, month = days * DAY / tasks, 0.0, 0, 0.0, 1
    heap: list[tuple[float, int, Any]] = []
    for day in range(days):
        heap += [(when, next(sequence), event) for when, event in _outages(specs, day)]
    heapq.heapify(heap)
    blocks, resident, happened = [], [], Counter[str]()
    began = time.process_time()
    while index < tasks:
        arrival = index * gap
        now = min(arrival, next_tick, heap[0][0])
        events: list[Any] = []
        while heap and heap[0][0] <= now:
            events.append(heapq.heappop(heap)[2])
        if now == next_tick:
            events.append(Tick())
            next_tick += 300.0
        if now == arrival:
            task = _task(index, now, chance)
            events.append(Submitted(task))
            index += 1
            if chance.random() < CANCELLED:
                heapq.heappush(heap, (now + chance.expovariate(1 / MEAN_RUN), next(sequence), Cancelled(task)))
        happened.update(type(event).__name__ for event in events)
        plan = scheduler.handle(now, events)
        for eviction in plan.evictions:
            heapq.heappush(heap, (now + 30.0, next(sequence), EvictionDone(eviction.run)))
        for run in plan.starts:
            over = run.progress_from + chance.expovariate(1 / MEAN_RUN)
            end = Lost(run) if chance.random() < LOST else Finished(run)
            heapq.heappush(heap, (over, next(sequence), end))
        happened.update(evicted=len(plan.evictions), lost_with_a_node=len(plan.lost))
        if now >= month * 30 * DAY:
            month += 1
            gc.collect()
            blocks.append(sys.getallocatedblocks())
            resident.append(round(_resident(), 1))
    state = scheduler.pools["A100"].state
    record = state.memory.get(DemandRecord)
    return {
        "seconds": time.process_time() - began,
        "blocks": blocks,
        "resident_mib": resident,
        "waiting": len(state.waiting),
        "running": len(state.runs),
        "happened": dict(happened),
        "organizations": len(record.rows) if record is not None else 0,
        "meter_mib": round(record.hourly.nbytes / 2**20, 1) if record is not None else 0.0,
    }


def _outages(specs: list[NodeSpec], day: int) -> list[tuple[float, NodesChanged]]:
    """Every day one node fails and another is cordoned, for four hours each."""
    failed, cordoned = specs[day % NODES], specs[(day * 7 + 3) % NODES]
    kinds = NodeChangeKind
    return [
        (day * DAY + hour * HOUR, NodesChanged([NodeChange(kind, node)]))
        for hour, kind, node in (
            (3, kinds.FAILED, failed),
            (7, kinds.REPAIRED, failed),
            (13, kinds.CORDONED, cordoned),
            (17, kinds.UNCORDONED, cordoned),
        )
    ]


def _task(index: int, now: float, chance: random.Random) -> Task:
    kind = Priority.SPOT if chance.random() < 0.15 else Priority.HP
    gpus = chance.choice([0.5, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0])
    pods = chance.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 2])
    hours = chance.choice([1.0, 2.0])
    organization = f"org-{chance.randrange(STEADY_ORGANIZATIONS)}"
    if chance.random() < VISITS:
        organization = f"visitor-{now // DAY:.0f}"
    return Task(index, f"t{index}", organization, "A100", kind, pods, gpus, now, guarantee_hours=hours)


def _resident() -> float:
    """MiB of this process in memory now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 1024**2
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show_year(figures: dict[str, Any]) -> None:
    title = f"a year, {figures['tasks']:,} tasks through one scheduler object"
    table = figures_table(title, "scheduler", "CPU-s", "MiB, month 1", "month 3", f"month {FULL}", "month 12")
    for name, run in figures["runs"].items():
        shown = [run["resident_mib"][month] for month in (0, 2, FULL - 1, -1)]
        table.add_row(name, f"{run['seconds']:.0f}", *(f"{held:.0f}" for held in shown))
    console.print(table)
    for name, run in figures["runs"].items():
        growth = run["resident_mib"][-1] / run["resident_mib"][FULL - 1]
        console.print(f"  {name}: end of the year against month {FULL} {against(growth, figures['limit'], digits=3)}")


if __name__ == "__main__":
    print(json.dumps(live(sys.argv[1], *map(int, sys.argv[2:]))))
