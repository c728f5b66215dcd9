"""What happens to nodes while a trace goes on: one row an event, `time, node, event`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from gfs.domain.errors import BadRow
from gfs.domain.limits import MOST_SECONDS
from gfs.domain.node import NODE_EVENTS, NodeEvent, NodeEventKind, NodeSpec
from gfs.workloads.readers.checks import TIME_KINDS, Checks, since_day
from gfs.workloads.readers.tables import TableSource, read_table

NODE_EVENT_COLUMNS = ("time", "node", "event")

_WORDS: dict[str, NodeEventKind] = {event: event for event in NODE_EVENTS}
_CHOICE = f"{', '.join(NODE_EVENTS[:-1])} or {NODE_EVENTS[-1]}"


def read_node_events(
    source: TableSource, nodes: Sequence[NodeSpec] | None, day: int | None = None
) -> tuple[tuple[NodeEvent, ...], tuple[BadRow, ...]]:
    """The usable events of a file (CSV, gzipped CSV or Parquet) or frame, and what is wrong with the other rows.

    Events go by time; those of one instant keep the order of the file. Without `nodes` any name will do.
    `day`: days from 1970 to second 0, where the trace has timestamps; then these must be timestamps, too.
    """
    table = read_table(source, NODE_EVENT_COLUMNS, name="node events")
    checks = Checks(table)
    times, names, events = (
        checks.number("time", most=MOST_SECONDS, kinds=TIME_KINDS),
        *map(checks.text, ("node", "event")),
    )
    if len(table):
        times = since_day(checks, table, "time", times, day)
    checks.reject(
        "time", times < 0, "must not be negative" if day is None else "is before the day of the first submission"
    )
    if nodes is not None:
        known = {node.name for node in nodes}
        unknown = np.fromiter((name not in known for name in names), bool, len(names))
        checks.reject("node", unknown, "no node has this name")
    wrong = np.fromiter((event not in _WORDS for event in events), bool, len(events))
    checks.reject("event", wrong, lambda row: _unknown(events[row]))
    rows = np.flatnonzero(checks.good)
    rows = rows[np.argsort(times[rows], kind="stable")]
    found = [NodeEvent(float(times[row]), names[row], _WORDS[events[row]]) for row in rows.tolist()]
    contradicts = _contradictions(found)
    at = {int(rows[place]): why for place, why in contradicts.items()}
    checks.reject("event", np.isin(np.arange(len(events)), list(at)), lambda row: at[row])
    return tuple(event for place, event in enumerate(found) if place not in contradicts), checks.bad_rows()


_OPENS: dict[NodeEventKind, NodeEventKind] = {"repair": "fail", "uncordon": "cordon"}
"""What ends a state -> what begins it."""
_STATES: dict[NodeEventKind, str] = {"fail": "failed", "cordon": "cordoned"}


def _contradictions(events: Sequence[NodeEvent]) -> dict[int, str]:
    """Place in the order of time -> why this cannot happen then. What is wrong changes nothing for later events."""
    down: dict[tuple[str, NodeEventKind], float] = {}
    """Node and what it is, failed or cordoned -> since when."""
    wrong: dict[int, str] = {}
    for place, (time, node, event) in enumerate(events):
        begins = _OPENS.get(event, event)
        since = down.get((node, begins))
        if event in _OPENS and since is None:
            wrong[place] = f"{node} is not {_STATES[begins]} at {time:g}"
        elif event in _OPENS:
            del down[node, begins]
        elif since is not None:
            wrong[place] = f"{node} is {_STATES[begins]} already, since {since:g}"
        else:
            down[node, begins] = time
    return wrong


def _unknown(word: str) -> str:
    near = get_close_matches(word.lower(), NODE_EVENTS, n=1)
    return f"must be {_CHOICE}" + (f"; did you mean {near[0]}?" if near else "")
