"""The recording of a running cluster: it grows by what the controller records, and tells everyone who listens.

Everything happens on the controller's event loop. It is bounded: when there are too many entries, tasks that ended days
ago are forgotten, and pages begin anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import Any, Final, cast

import msgspec

from gfs.assembly.parameters import QUOTAS
from gfs.assembly.schedulers import SCHEDULERS
from gfs.core.actions import CANCEL, FINISH, START, Record
from gfs.core.scheduler import Scheduler
from gfs.dashboard.decisions import DecisionColumns
from gfs.dashboard.files import RunTables
from gfs.dashboard.live_day import Heard, day_of
from gfs.dashboard.names import Names
from gfs.dashboard.recording import quota_columns
from gfs.dashboard.wire import (
    API_VERSION,
    NONE,
    EntryColumns,
    ExpectedColumns,
    ForecastColumns,
    NodeColumns,
    NodeEventColumns,
    OptionColumns,
    Patch,
    PodColumns,
    QuotaColumns,
    Recording,
    Rules,
    SpotNodeColumns,
    TaskColumns,
)
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.domain.units import DAY
from gfs.domain.workload import Workload
from gfs.telemetry.decisions import AnyNote
from gfs.telemetry.event_log import QuotaLog

MOST_ENTRIES: Final = 400_000
KEPT: Final = 2 * DAY
"""Of tasks that ended longer ago nothing is kept once there are too many entries."""
MOST_NOTES: Final = 50_000
"""Of what decisions went by, no more is kept."""
PATCHES: Final = 2_000
"""So many patches are kept for those who lost the connection; who missed more begins anew."""


class _Columns:
    """Everything that a patch may lengthen."""

    def __init__(self) -> None:
        self.models, self.organizations, self.forecasters = Names(), Names(), Names()
        self.reasons, self.node_names, self.task_names = Names(), Names(), Names()
        self.nodes = NodeColumns([], [], [])
        self.tasks = TaskColumns([], [], [], [], [], [], [])
        self.entries = EntryColumns([], [], [], [], [], [])
        self.pods = PodColumns([], [], [])
        self.node_events = NodeEventColumns([], [], [])
        self.quota = QuotaColumns([], [], [], [], [], [], [], [], [], [], [], [])
        self.decided = DecisionColumns(self.models, self.organizations, self.task_names, self.node_names)
        self.forecasts, self.spot_nodes = self.decided.forecasts, self.decided.spot_nodes
        self.expected, self.options = self.decided.expected, self.decided.options


class LiveRecording:
    """What the page of a running cluster is drawn from."""

    def __init__(self, title: str, scheduler: str, promise: float, rules: Rules, tick: float) -> None:
        self._about = (title, scheduler, promise)
        self._rules, self._tick = rules, tick
        self._heard: list[Heard] = []
        self._notes: list[AnyNote] = []
        self._down: dict[str, str] = {}
        """Node -> what keeps it from taking anything: 'fail' (it is gone) or 'cordon'."""
        self.last_id = 0
        self.patches: deque[tuple[int, bytes]] = deque(maxlen=PATCHES)
        self.news = asyncio.Event()
        """Set and replaced when there is another patch."""
        self.now = 0.0
        self._begin()

    def _begin(self) -> None:
        self._columns = _Columns()
        self._told = _lengths(self._columns)
        self._sampled = -1.0
        self.patches.clear()

    def hear(self, entry: Record | None) -> None:
        """Something was recorded; None: this replica begins to decide, and what it knew before may no longer be so."""
        if entry is None:
            self._heard.clear()
            self._notes.clear()
            self._anew()
            return
        time, what, task, run, reason = entry
        time = max(time, self._heard[-1].time if self._heard else time)
        pods: tuple[tuple[str, float], ...] = ()
        if what == START and run is not None:
            for node in run.nodes:
                self._node(node.spec)
            pods = tuple((node.name, role.gpus_per_pod) for node, role, here, _ in run.places for _ in range(here))
        words = reason.text() if reason is not None else ""
        heard = Heard(time, what, task, run.number if run is not None else 0, pods, words)
        self._heard.append(heard)
        self._add(heard)

    def note(self, note: AnyNote) -> None:
        """Something that decisions go by has changed."""
        self._notes.append(note)
        self._columns.decided.add(note)

    def _add(self, heard: Heard) -> None:
        """The time goes last: who counts entries by it finds all of each."""
        all_, task = self._columns, heard.task
        position = all_.task_names.get(task.name)
        if position is None:
            position = all_.task_names[task.name]
            column = all_.tasks
            column.name.append(task.name)
            column.organization.append(all_.organizations[task.organization])
            column.model.append(all_.models[task.gpu_model])
            column.spot.append(int(task.is_spot))
            column.gpus.append(task.gpus)
            column.guarantee.append(task.guarantee_seconds)
            column.checkpoint.append(task.checkpoint_interval)
        for name, gpus in heard.pods:
            all_.pods.node.append(all_.node_names[name])
            all_.pods.cards.append(NONE)
            all_.pods.gpus.append(gpus)
        entry = all_.entries
        entry.event.append(heard.what)
        entry.task.append(position)
        entry.run.append(heard.run)
        entry.reason.append(all_.reasons[heard.reason])
        entry.pods.append(len(heard.pods))
        entry.time.append(heard.time)

    def _node(self, spec: NodeSpec) -> None:
        columns = self._columns
        if spec.name not in columns.node_names:
            columns.node_names[spec.name]
            columns.nodes.name.append(spec.name)
            columns.nodes.model.append(columns.models[spec.gpu_model])
            columns.nodes.gpus.append(spec.gpus)

    def look(self, now: float, scheduler: Scheduler) -> None:
        """Note nodes that came, went or were closed, and the quota of each tick; tell what is new."""
        self.now = max(now, self.now)
        if len(self._heard) > MOST_ENTRIES or len(self._notes) > 2 * MOST_NOTES:
            self._forget()
        there: dict[str, str] = {}
        for pool in scheduler.pools.values():
            for node in pool.state.nodes:
                self._node(node.spec)
                there[node.spec.name] = "cordon" if node.closed else ""
        ends = {"fail": "repair", "cordon": "uncordon"}
        for name in self._columns.node_names:
            before, after = self._down.get(name, ""), there.get(name, "fail")
            if before != after:
                for event in (ends.get(before, ""), after):
                    if event:
                        self._node_event(name, event)
                self._down[name] = after
        if now - self._sampled >= self._tick:
            self._sampled = now
            log = QuotaLog()
            for pool in scheduler.pools.values():
                log.note(self.now, pool.state, pool.policy)
            columns = self._columns
            rows = quota_columns(log.table(), columns.models, columns.organizations, columns.forecasters)
            for name in QuotaColumns.__struct_fields__:
                if name != "forecasters":
                    getattr(columns.quota, name).extend(getattr(rows, name))
        self._publish()

    def _node_event(self, node: str, event: str) -> None:
        column = self._columns.node_events
        column.time.append(self.now)
        column.node.append(self._columns.node_names[node])
        column.event.append(event)

    def _publish(self) -> None:
        """A patch of what is new since the last one."""
        told, self._told = self._told, _lengths(self._columns)
        patch = Patch(now=self.now, **_since(self._columns, told, self._told))
        self.last_id += 1
        self.patches.append((self.last_id, msgspec.json.encode(patch)))
        news, self.news = self.news, asyncio.Event()
        news.set()

    def _forget(self) -> None:
        """Drop tasks that ended long ago, and begin the columns anew with the rest."""
        over = {h.task.name for h in self._heard if h.what in (FINISH, CANCEL) and h.time < self.now - KEPT}
        self._heard = [heard for heard in self._heard if heard.task.name not in over]
        specs = self._specs()
        self._anew()
        for spec in specs:
            self._node(spec)
        for heard in self._heard:
            self._add(heard)
        self._notes = self._notes[-MOST_NOTES:]
        for note in self._notes:
            self._columns.decided.add(note)

    def _specs(self) -> list[NodeSpec]:
        """Every node there was."""
        nodes, models = self._columns.nodes, list(self._columns.models.copy())
        rows = zip(nodes.name.copy(), nodes.model, nodes.gpus, strict=False)  # others may come meanwhile
        return [NodeSpec(i, name, models[model], gpus) for i, (name, model, gpus) in enumerate(rows)]

    def day(self, rules: ExecutionRules) -> tuple[RunTables, Workload]:
        """What was recorded so far, to be simulated with something else; may be called from another thread."""
        heard, specs, events = self._heard.copy(), self._specs(), self._columns.node_events
        times = zip(events.time.copy(), events.node, events.event, strict=False)
        # A node that is first heard of was there before, as far as a simulation is concerned.
        changes = [NodeEvent(float(time), specs[node].name, cast(Any, what)) for time, node, what in times]
        return day_of(heard, specs, changes, self.now, rules)

    def _anew(self) -> None:
        """Empty columns. A patch that nobody gets: who asks for what follows it has to begin anew, too."""
        self._begin()
        self.last_id += 1
        self._down.clear()

    def after(self, seen: int) -> list[tuple[int, bytes]] | None:
        """The patches after this one; None if some are no longer there, so that a page must begin anew."""
        if seen > self.last_id or (seen < self.last_id and (not self.patches or self.patches[0][0] > seen + 1)):
            return None
        return [patch for patch in self.patches if patch[0] > seen]

    @property
    def recording(self) -> Recording:
        """All that was told so far."""
        title, scheduler, promise = self._about
        return Recording(
            version=API_VERSION,
            title=title,
            scheduler=scheduler,
            promise=promise,
            promise_told=True,
            begin=0,
            live=True,
            now=self.now,
            last_id=self.last_id,
            rules=self._rules,
            nodes_told=True,
            schedulers=list(SCHEDULERS),
            quotas=list(QUOTAS),
            **_since(self._columns, {}, self._told),
        )


PARTS: Final[dict[str, type[msgspec.Struct]]] = {
    "nodes": NodeColumns,
    "tasks": TaskColumns,
    "entries": EntryColumns,
    "pods": PodColumns,
    "node_events": NodeEventColumns,
    "quota": QuotaColumns,
    "forecasts": ForecastColumns,
    "spot_nodes": SpotNodeColumns,
    "expected": ExpectedColumns,
    "options": OptionColumns,
}
NAMES: Final = ("models", "organizations", "reasons")
"""What a recording consists of: tables, and lists of names."""


def _lengths(columns: _Columns) -> dict[str, int]:
    """How many rows each has."""
    rows = {name: len(getattr(columns, name)) for name in (*NAMES, "forecasters")}
    for name, part in PARTS.items():
        rows[name] = len(getattr(getattr(columns, name), part.__struct_fields__[0]))
    return rows


def _since(columns: _Columns, low: dict[str, int], high: dict[str, int]) -> dict[str, Any]:
    """The rows from `low` up to `high` of everything; built without checks, which would take longer than the rest."""
    found: dict[str, Any] = {name: _names(getattr(columns, name), low.get(name, 0), high[name]) for name in NAMES}
    found["cards"] = []
    for name, part in PARTS.items():
        table, rows = getattr(columns, name), slice(low.get(name, 0), high[name])
        lists = {field: getattr(table, field)[rows] for field in part.__struct_fields__ if field != "forecasters"}
        if part is QuotaColumns:
            lists["forecasters"] = _names(columns.forecasters, low.get("forecasters", 0), high["forecasters"])
        found[name] = part(**lists)
    return found


def _names(names: Names, low: int, high: int) -> list[str]:
    """Some of the names, those added last first looked at: there may be many, and few are new."""
    last = list(islice(reversed(names), len(names) - low))
    return last[::-1][: high - low]
