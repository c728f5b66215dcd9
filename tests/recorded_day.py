"""Two simulated days on two pools, and what telemetry finds in their event log: what the web page must show."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from gfs import generate
from gfs.assembly.parameters import Parameters
from gfs.assembly.run import run_simulation
from gfs.dashboard.files import RunTables
from gfs.dashboard.page import exported_page
from gfs.dashboard.recording import recording_of
from gfs.domain.node import NodeEvent
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import Metrics
from gfs.telemetry.runs import Runs, TaskColumns, runs_table

DAY = 86400.0
CLOSED = (NodeEvent(90_000.0, "n2", "cordon"), NodeEvent(90_000.0, "n3", "fail"), NodeEvent(130_000.0, "n3", "repair"))
FOR = re.compile(r"evicted for (\S+) on ")


@dataclass
class Day:
    """Two days on two pools, simulated: what the page is made of and what telemetry finds in it."""

    workload: Workload
    events: pa.Table
    quota: pa.Table
    metrics: Metrics
    runs: Runs
    columns: TaskColumns
    tables: RunTables
    page: Path

    def running(self, time: float) -> np.ndarray:
        return (self.runs.start <= time) & ~(self.runs.end <= time)

    def held(self, time: float, model: str, spot: bool) -> float:
        task = self.runs.task[self.running(time)]
        of = (self.columns.spot[task] == spot) & (self.columns.model[task] == self.columns.models.index(model))
        return float(self.columns.gpus[task[of]].sum())

    def waiting(self, time: float) -> set[str]:
        """Submitted, not running, and neither finished nor withdrawn."""
        runs = self.runs
        there = runs.submitted <= time
        there[runs.task[self.running(time)]] = False
        there[runs.task[(runs.finished | runs.cancelled) & (runs.end <= time)]] = False
        there &= ~(runs.withdrawn <= time)
        return {self.workload.tasks[i].name for i in np.flatnonzero(there)}

    def evicted(self, after: float, until: float) -> int:
        ended = self.runs.evicted & (self.runs.end > after) & (self.runs.end <= until)
        return int(ended.sum())

    def reserved(self, time: float) -> float:
        """GPUs of the tasks for which somebody was evicted and which have not started since."""
        tasks = {task.name: task for task in self.workload.tasks}
        held = set()
        for row in self.events.select(["time", "event", "task", "reason"]).to_pylist():
            if row["time"] <= time and row["event"] == "evict" and (found := FOR.match(row["reason"])):
                held.add(found[1])
            elif row["time"] <= time and row["event"] in ("start", "cancel"):
                held.discard(row["task"])
        return sum(tasks[name].gpus for name in held)

    @cached_property
    def busy_moment(self) -> float:
        """In the second day, while room is being made for somebody and tasks wait."""
        times = self.runs.end[self.runs.evicted & (self.runs.end > DAY)] + 1
        busiest = sorted(times.tolist(), key=lambda time: len(self.waiting(time)), reverse=True)
        return next(time for time in busiest if self.reserved(time))

    @cached_property
    def mixed_moment(self) -> float:
        """While two nodes are closed, both classes run, some GPUs are idle and none is reserved."""
        moments = [time for time in range(91_000, 129_000, 1000) if not self.reserved(time)]
        return max(moments, key=lambda time: min(self.held(time, "A100", True), self.held(time, "A100", False)))

    def on_gpus(self, time: float) -> dict[tuple[str, int], list[tuple[str, str, float]]]:
        """Node and GPU -> task, class and share of each pod on it."""
        now = self.running(time)
        runs = {(self.workload.tasks[t].name, n) for t, n in zip(self.runs.task[now], self.runs.run[now], strict=True)}
        found: dict[tuple[str, int], list[tuple[str, str, float]]] = {}
        for row in self.events.to_pylist():
            if row["event"] == "start" and (row["task"], row["run"]) in runs:
                for part in row["cards"].split("+"):
                    card, _, share = part.partition(":")
                    found.setdefault((row["node"], int(card)), []).append((row["task"], row["kind"], float(share or 1)))
        return found


def two_pools() -> Workload:
    one = generate("demo", nodes=8, days=2, spot_scale=3, seed=1)
    two = generate("demo", nodes=4, days=2, spot_scale=3, seed=2)
    tasks = [*one.tasks, *(replace(t, name=f"t4-{t.name}", gpu_model="T4") for t in two.tasks)]
    durations = [*one.durations, *two.durations]
    order = sorted(range(len(tasks)), key=lambda i: (tasks[i].submit_time, tasks[i].name))
    nodes = [*one.nodes, *(replace(n, name=f"t4-{n.name}", gpu_model="T4") for n in two.nodes)]
    return Workload(
        tuple(replace(tasks[i], index=at) for at, i in enumerate(order)),
        tuple(replace(node, index=at) for at, node in enumerate(nodes)),
        durations=tuple(durations[i] for i in order),
        node_events=CLOSED,
    )


def recorded_day(folder: Path, scheduler: str = "gfs") -> Day:
    """Simulate it and export its page."""
    workload = two_pools()
    result = run_simulation(workload, scheduler, Parameters(), record_quota=True, record_decisions=True)
    assert result.quota is not None
    assert result.decisions is not None
    tables = RunTables(
        result.events,
        workload.nodes,
        {task.name: (task.guarantee_seconds, task.checkpoint_interval) for task in workload.tasks},
        result.quota,
        workload.node_events,
        scheduler,
        {"p": 0.9},
        result.decisions,
    )
    page = folder / f"{scheduler}.html"
    page.write_text(exported_page(recording_of(tables, "two days")), encoding="utf-8")
    runs = runs_table(result.events, workload)
    columns = TaskColumns.of(workload)
    return Day(workload, result.events, result.quota, result.metrics, runs, columns, tables, page)
