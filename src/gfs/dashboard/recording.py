"""A run's tables as the recording that the page replays."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from gfs.assembly.parameters import Parameters
from gfs.dashboard.decisions import DecisionColumns
from gfs.dashboard.files import RunTables, parse_cards
from gfs.dashboard.names import Names, plain
from gfs.dashboard.wire import (
    API_VERSION,
    NONE,
    EntryColumns,
    NodeColumns,
    NodeEventColumns,
    Number,
    PodColumns,
    QuotaColumns,
    Recording,
    TaskColumns,
)
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.domain.units import HOUR
from gfs.telemetry.event_log import EVENTS
from gfs.telemetry.runs import Floats, Ints, categories, numbers

SUBMIT, START = EVENTS.index("submit"), EVENTS.index("start")
EPS = 1e-6
"""GPUs: sums of fractions are rounded."""


def recording_of(tables: RunTables, title: str) -> Recording:
    """Fold the pods of each event into one entry and name everything once."""
    events = tables.events
    time, gpus = numbers(events["time"]), numbers(events["gpus"])
    run = numbers(events["run"]).astype(np.int64)
    task, task_names = _used(events["task"])
    what, words = categories(events["event"])
    event = np.array([EVENTS.index(word) for word in words], np.int64)[what] if len(words) else what
    first, entry = _entries(task, run, event)
    started = np.flatnonzero(event == START)
    started = started[np.argsort(entry[started], kind="stable")]  # pods of a gang side by side

    models, organizations, forecasters = Names(), Names(), Names()
    cards, card_texts = _used(events["cards"])
    highest = np.array([max(parse_cards(text), default=NONE) for text in card_texts], np.int64)[cards]
    taken = np.where(run > 0, np.where(event == START, gpus, -gpus), 0.0)
    known = tables.nodes or ()
    gone = [spec for spec in _seen(events, taken, highest) if spec.name not in {node.name for node in known}]
    specs = (*known, *gone)
    for spec in specs:
        models[spec.gpu_model]
    position = {spec.name: i for i, spec in enumerate(specs)}
    node_events = [e for e in tables.node_events if e.node in position]
    if tables.nodes is not None:
        node_events = sorted([*node_events, *_ends(events, gone)], key=lambda event: event.time)
    node, node_names = categories(events["node"])
    reason, reasons = _used(events["reason"]) if "reason" in events.column_names else (np.zeros_like(run), [""])
    at = np.array([position.get(name, NONE) for name in node_names], np.int64)
    tasks = _tasks(tables, task, task_names, gpus, event, entry, models, organizations)
    decided = DecisionColumns(models, organizations, {name: i for i, name in enumerate(task_names)}, position)
    for note in tables.decisions:
        decided.add(note)
    promise = tables.parameters.get("p")
    return Recording(
        version=API_VERSION,
        title=title,
        scheduler=tables.scheduler,
        promise=float(promise) if promise is not None else Parameters().p,
        promise_told=promise is not None,
        begin=_begin(events),
        live=False,
        now=None,
        last_id=len(first),
        rules=tables.rules(),
        tasks=tasks,
        nodes=NodeColumns(
            [spec.name for spec in specs], [models[spec.gpu_model] for spec in specs], [spec.gpus for spec in specs]
        ),
        nodes_told=tables.nodes is not None,
        entries=EntryColumns(
            time=plain(time[first]),
            event=event[first].tolist(),
            task=task[first].tolist(),
            run=run[first].tolist(),
            reason=reason[first].tolist(),
            pods=np.bincount(entry[started], minlength=len(first)).tolist(),
        ),
        reasons=reasons,
        pods=PodColumns(
            node=at[node[started]].tolist() if len(started) else [],
            cards=np.where(highest == NONE, NONE, cards)[started].tolist(),
            gpus=plain(gpus[started]),
        ),
        cards=card_texts,
        node_events=NodeEventColumns(
            plain(e.time for e in node_events), [position[e.node] for e in node_events], [e.event for e in node_events]
        ),
        quota=quota_columns(tables.quota, models, organizations, forecasters),
        models=list(models),
        organizations=list(organizations),
        **decided.all(),
    )


def _entries(task: Ints, run: Ints, event: Ints) -> tuple[Ints, Ints]:
    """The row where each entry begins, in the order of the log, and the entry of every row."""
    key = (task * (int(run.max(initial=0)) + 1) + run) * len(EVENTS) + event
    return _by_first(key)


def _used(column: Any) -> tuple[Ints, list[str]]:
    """A text column as codes and names, only those that occur, in order of first appearance."""
    codes, names = categories(column)
    first, code = _by_first(codes)
    return code, [names[known] for known in codes[first].tolist()]


def _by_first(values: Ints) -> tuple[Ints, Ints]:
    """Where each different value first stands, in that order, and which of them every value is."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]


def _tasks(
    tables: RunTables,
    task: Ints,
    names: list[str],
    gpus: Floats,
    event: Ints,
    entry: Ints,
    models: Names,
    organizations: Names,
) -> TaskColumns:
    _, first = np.unique(task, return_index=True)
    told = {name: tables.events[name].to_pylist() for name in ("kind", "organization", "gpu_model")}
    # Of the whole task: what its submission says, or else the pods of its first start together.
    whole = np.zeros(len(names))
    for which in (START, SUBMIT):
        of = np.flatnonzero(event == which)
        _, begin = np.unique(task[of], return_index=True)
        of = of[np.isin(entry[of], entry[of[begin]])]
        sums = np.bincount(task[of], gpus[of], len(names))
        whole = np.where(sums > 0, sums, whole)
    usual = Parameters()
    hours = float(tables.parameters.get("guarantee_hours", usual.guarantee_hours))
    promised = (hours * HOUR, float(tables.parameters.get("checkpoint_interval", usual.checkpoint_interval)))
    promises = [tables.promises.get(name, promised) for name in names]
    return TaskColumns(
        name=names,
        organization=[organizations[told["organization"][row]] for row in first.tolist()],
        model=[models[told["gpu_model"][row]] for row in first.tolist()],
        spot=[int(told["kind"][row] == "Spot") for row in first.tolist()],
        gpus=plain(whole),
        guarantee=plain(promise for promise, _ in promises),
        checkpoint=plain(interval for _, interval in promises),
    )


def _seen(events: pa.Table, taken: Floats, highest: Ints) -> list[NodeSpec]:
    """Returns the nodes that the log names, each with as many GPUs as it needs at least.

    By row: the GPUs that a pod takes there or (below 0) gives back, and the highest number of its GPUs.
    """
    node, names = categories(events["node"])
    order = np.argsort(node, kind="stable")
    by_node = np.bincount(node, taken, len(names))
    held = np.cumsum(taken[order]) - (np.cumsum(by_node) - by_node)[node[order]]
    most = np.ones(len(names))
    np.maximum.at(most, node[order], np.ceil(held - EPS))
    np.maximum.at(most, node, highest + 1)
    codes, first = np.unique(node, return_index=True)
    rows = zip(codes.tolist(), first.tolist(), strict=True)
    model = {names[code]: events["gpu_model"][row].as_py() for code, row in rows if names[code]}
    gpus = dict(zip(names, most.astype(int).tolist(), strict=True))
    return [NodeSpec(i, name, model[name], gpus[name]) for i, name in enumerate(sorted(model))]


def _ends(events: pa.Table, gone: list[NodeSpec]) -> list[NodeEvent]:
    """Nodes that the cluster no longer has: after the last that the log says of them nothing is to be had there."""
    names = {spec.name for spec in gone}
    rows = zip(events["node"].to_pylist(), events["time"].to_pylist(), strict=True) if names else ()
    last = {node: time for node, time in rows if node in names}
    return [NodeEvent(time, node, "fail") for node, time in last.items()]


def _begin(events: pa.Table) -> Number | None:
    """When second 0 was, if the log has timestamps; without a zone they are taken as UTC."""
    if "timestamp" not in events.column_names or not events.num_rows:
        return None
    try:
        moment = datetime.fromisoformat(events["timestamp"][0].as_py())
    except ValueError:
        return None
    dated = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    begin: Number = round(dated.timestamp() - events["time"][0].as_py())
    return begin


def quota_columns(table: pa.Table | None, models: Names, organizations: Names, forecasters: Names) -> QuotaColumns:
    """A quota log as columns; names that are new are added to those known."""
    rows = table.num_rows if table is not None else 0

    def values(name: str) -> list[Number | None]:
        if table is None or name not in table.column_names:
            return [None] * rows
        return [v if math.isfinite(v) else None for v in plain(numbers(table[name]))]

    def codes(name: str, known: Names) -> list[int]:
        if table is None or name not in table.column_names:
            return [NONE] * rows
        return [known[text] if text else NONE for text in table[name].to_pylist()]

    return QuotaColumns(
        time=plain(numbers(table["time"])) if table is not None else [],
        model=codes("gpu_model", models),
        guarantee_hours=plain(numbers(table["guarantee_hours"])) if table is not None else [],
        quota=values("quota"),
        spot_in_use=values("spot_in_use"),
        eta=values("eta"),
        demand=values("demand"),
        expected_demand=values("expected_demand"),
        organization=codes("organization", organizations),
        organization_demand=values("organization_demand"),
        forecaster=codes("forecaster", forecasters),
        forecasters=list(forecasters),
    )
