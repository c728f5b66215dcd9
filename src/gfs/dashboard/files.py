"""The files of a run, read and checked for the page: a wrong one is an error that names file, row and value."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from gfs.assembly.parameters import Parameters
from gfs.dashboard.wire import Rules
from gfs.domain.errors import BadRows, InputError
from gfs.domain.limits import MOST_GPUS_A_NODE
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.telemetry.decisions import AnyNote, read_decisions
from gfs.telemetry.event_log import EVENTS, SCHEMA
from gfs.telemetry.runs import Ints, categories, numbers
from gfs.workloads.readers.alibaba import NODE_COLUMNS, read_node_specs
from gfs.workloads.readers.checks import Checks
from gfs.workloads.readers.event_log import read_events
from gfs.workloads.readers.node_events import read_node_events
from gfs.workloads.readers.quota_log import read_quota
from gfs.workloads.readers.tables import read_table

log = logging.getLogger("gfs.dashboard")


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where a run is written down; only the event log must be there."""

    events: Path
    nodes: Path | None = None
    jobs: Path | None = None
    """For the guarantee and the checkpoint interval of each task."""
    quota: Path | None = None
    node_events: Path | None = None
    summary: Path | None = None
    """`gfs simulate --json`: scheduler, promise, what restarts cost."""
    decisions: Path | None = None
    """`gfs simulate --decisions`: forecasts by organization, nodes kept from spot tasks, alternatives."""


@dataclass(frozen=True, slots=True, eq=False)
class RunTables:
    """The same, read."""

    events: pa.Table
    nodes: tuple[NodeSpec, ...] | None
    promises: Mapping[str, tuple[float, float]]
    """Task -> its guarantee and checkpoint interval in seconds."""
    quota: pa.Table | None
    node_events: tuple[NodeEvent, ...]
    scheduler: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    decisions: Sequence[AnyNote] = ()

    def rules(self) -> Rules:
        """What a restart costs in this run."""
        known = {name: self.parameters[name] for name in Rules.__struct_fields__ if name in self.parameters}
        return msgspec.convert(known, Rules)


def read_run(files: RunFiles) -> RunTables:
    """Read all files of a run; raises InputError for the first that cannot be used."""
    scheduler, parameters = read_summary(files.summary) if files.summary is not None else ("", {})
    nodes = _nodes(files.nodes) if files.nodes is not None else None
    events = read_events(
        files.events,
        [name for name in SCHEMA.names if name != "reason"],
        ("reason", "timestamp"),
        lambda checks, table: _check(checks, table, nodes),
    )
    node_events: tuple[NodeEvent, ...] = ()
    if files.node_events is not None:
        node_events, bad = read_node_events(files.node_events, nodes)
        if bad:
            raise BadRows(bad)
    return RunTables(
        events=events,
        nodes=nodes,
        promises=read_promises(files.jobs, parameters) if files.jobs is not None else {},
        quota=read_quota(files.quota) if files.quota is not None else None,
        node_events=node_events,
        scheduler=scheduler,
        parameters=parameters,
        decisions=read_decisions(files.decisions) if files.decisions is not None else (),
    )


def _nodes(path: Path) -> tuple[NodeSpec, ...]:
    specs, bad = read_node_specs(read_table(path, NODE_COLUMNS))
    if bad:
        raise BadRows(bad)
    return specs


def read_promises(path: Path, parameters: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Guarantee and checkpoint interval of each task of a jobs file, in seconds; the parameters' where it has none."""
    usual = Parameters()
    table = read_table(path, ("job_name",), ("guarantee_hours", "checkpoint_interval"))
    checks = Checks(table)
    names = checks.text("job_name")
    most = 1e9
    hours = checks.number(
        "guarantee_hours", missing=parameters.get("guarantee_hours", usual.guarantee_hours), most=most
    )
    interval = checks.number(
        "checkpoint_interval", missing=parameters.get("checkpoint_interval", usual.checkpoint_interval), most=most
    )
    bad = checks.bad_rows()
    if bad:
        raise BadRows(bad)
    return dict(zip(names, zip((3600.0 * hours).tolist(), interval.tolist(), strict=True), strict=True))


def read_summary(path: Path) -> tuple[str, dict[str, Any]]:
    """Scheduler and parameters of the one run that a summary tells of."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        runs = told["runs"]
        run = runs[0]
        scheduler, parameters = str(run["scheduler"]), dict(run["parameters"])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(f"{path}: is no summary; give the file that `gfs simulate --json` wrote") from error
    if len(runs) > 1:
        raise InputError(f"{path}: tells of {len(runs)} runs; give the summary of the run whose event log this is")
    return scheduler, parameters


def _check(checks: Checks, events: pa.Table, nodes: tuple[NodeSpec, ...] | None) -> None:
    """What can be wrong about rows that are right each for itself."""
    time = numbers(events["time"])
    checks.reject("time", np.diff(time, prepend=time[:1]) < 0, "is before the row above it")
    run = numbers(events["run"]).astype(np.int64)
    node, node_names = categories(events["node"])
    card, card_texts = categories(events["cards"])
    parsed = [parse_cards(text) for text in card_texts]
    placed = run > 0
    if not len(time):
        return
    checks.reject("node", placed & (np.array([not name for name in node_names])[node]), "missing")
    wrong = np.array([bool(text) and not cards for text, cards in zip(card_texts, parsed, strict=True)])[card]
    checks.reject("cards", placed & wrong, "must be GPUs of the node, such as 3+4 or 3:0.5")
    if nodes is not None:
        has = {spec.name: spec.gpus for spec in nodes}
        gpus = np.array([has.get(name, MOST_GPUS_A_NODE) for name in node_names])[node]
        many = placed & (numbers(events["gpus"]) > gpus)
        checks.reject("gpus", many, lambda row: f"{node_names[node[row]]} has {gpus[row]} GPUs")
        highest = np.array([max(cards, default=-1) for cards in parsed])[card]
        checks.reject("cards", placed & (highest >= gpus), lambda row: f"{node_names[node[row]]} has {gpus[row]} GPUs")
        gone = sorted({name for name in node_names if name} - has.keys())
        if gone and placed.any():
            log.warning(
                f"the log names {len(gone):,} node{'s' * (len(gone) > 1)} that the nodes file lacks, such as {gone[0]}:"
                " shown as far as the log knows, and as failed after their last run"
            )
    _check_lives(checks, events, run)


def _check_lives(checks: Checks, events: pa.Table, run: Ints) -> None:
    """A run ends once, after it began; a task has one run at a time."""
    task, _ = categories(events["task"])
    event, event_names = categories(events["event"])
    words = [EVENTS.index(name) for name in event_names]
    submit, start = EVENTS.index("submit"), EVENTS.index("start")
    running: dict[int, int] = {}
    wrong: dict[int, str] = {}
    ended: set[tuple[int, int]] = set()
    for row, (who, number, code) in enumerate(zip(task.tolist(), run.tolist(), event.tolist(), strict=True)):
        what = words[code]
        if what == submit or not number:
            continue
        now = running.get(who)
        if what == start:
            if now is not None and now != number:
                wrong[row] = f"run {now} of this task has not ended"
            running[who] = number
        elif now == number:
            del running[who]
            ended.add((who, number))
        elif (who, number) not in ended:  # else another pod of the same gang
            wrong[row] = "this run has not started: is the log complete?"
    checks.reject("run", np.isin(np.arange(len(run)), list(wrong)), lambda row: wrong[row])


def parse_cards(text: str) -> dict[int, float]:
    """'3+4' -> {3: 1, 4: 1}; '3:0.5' -> {3: 0.5}; {} for what is neither."""
    found: dict[int, float] = {}
    try:
        for part in text.split("+") if text else ():
            card, _, share = part.partition(":")
            found[int(card)] = float(share) if share else 1.0
    except ValueError:
        return {}
    return found if all(0 <= card < 256 and 0 < share <= 1 for card, share in found.items()) else {}
