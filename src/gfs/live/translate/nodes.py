"""Nodes: those with GPUs and a label that names the model are ours; what they can allocate, labels and taints."""

from __future__ import annotations

from typing import Any, NamedTuple

from gfs.domain.limits import MOST_GPUS_A_NODE
from gfs.live.settings import LiveSettings
from gfs.live.translate.asks import Asks
from gfs.live.translate.quantities import GIB, quantity
from gfs.live.translate.rules import BLOCKING, BY_NAME, CLOSED, Taint
from gfs.live.translate.shape import Json, entries, table, text


class NodeView(NamedTuple):
    """What we read of a node of ours."""

    name: str
    model: str
    has: Asks
    """What it can allocate."""
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    closed: str
    """Why it takes no pods: 'cordoned', 'not ready'; empty: it does."""


def read_node(node: Any, settings: LiveSettings) -> NodeView | None:
    """Returns a node as we see it; None: it has no GPUs or no model, and is not ours."""
    metadata, spec, status = table(node, "metadata"), table(node, "spec"), table(node, "status")
    allocatable = table(status, "allocatable")
    labels = {str(key): str(value) for key, value in table(metadata, "labels").items()}
    name, model = text(metadata, "name"), labels.get(settings.model_label, "")
    gpus, cpus, memory, pods = (
        quantity(allocatable.get(each, 0)) or 0.0 for each in (settings.resource, "cpu", "memory", "pods")
    )
    if not name or not model or gpus < 1:
        return None
    taints = _taints(spec)
    return NodeView(
        name=name,
        model=model,
        has=Asks(min(int(gpus), MOST_GPUS_A_NODE), cpus, memory / GIB, int(pods)),
        labels={**labels, BY_NAME: name},
        taints=tuple(taint for taint in taints if taint.key not in CLOSED),
        closed=_why_closed(spec, status, taints),
    )


def _taints(spec: Json) -> list[Taint]:
    found = (Taint(text(each, "key"), text(each, "value"), text(each, "effect")) for each in entries(spec, "taints"))
    return sorted(taint for taint in found if taint.effect in BLOCKING)


def _why_closed(spec: Json, status: Json, taints: list[Taint]) -> str:
    """Reads the conditions and the taints: those of a new node begin before it is ready and end a moment after."""
    marks = {taint.key for taint in taints}
    if spec.get("unschedulable") is True or CLOSED[0] in marks:
        return "cordoned"
    if not marks.isdisjoint(CLOSED):
        return "not ready"
    ready = [each for each in entries(status, "conditions") if each.get("type") == "Ready"]
    return "" if any(each.get("status") == "True" for each in ready) else "not ready"
