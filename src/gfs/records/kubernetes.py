"""A trace from what Kubernetes remembers: pods and nodes as `kubectl get -o json` writes them, or a recorded watch.

    kubectl get pods -A -o json > pods.json             # what is there now: a finished pod is soon deleted
    kubectl get pods -A -w -o json --output-watch-events > pods.json    # a recorded watch: nothing is missed
    kubectl get nodes -o json > nodes.json

Pods are read as `gfs live` reads them: a PodGroup is a gang, a pod that its controller created again after an eviction
is the next run of the same task, a namespace or its label is the organization. A task lasts as long as its last run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority
from gfs.domain.units import HOUR
from gfs.live.settings import LiveSettings
from gfs.live.translate.nodes import read_node
from gfs.live.translate.pods import PodView, class_of, read_pod
from gfs.live.translate.quantities import moment
from gfs.live.translate.shape import entries, table, text
from gfs.records.conversion import Conversion, JobRecord, Notes, SpotRule, assemble
from gfs.workloads.readers.file_bytes import read_any_bytes

NO_CLASS = "(no class)"
"""Stands for the priority class of pods without one."""


@dataclass(frozen=True, slots=True)
class PodLife:
    """A pod, and when it ran."""

    view: PodView
    start: float
    """0: it never ran."""
    end: float
    """0: it has not ended, as far as the records go."""


@dataclass(slots=True)
class _Seen:
    """What the files hold."""

    pods: dict[str, Any] = field(default_factory=dict)
    """By uid, each as it was last seen."""
    gone: dict[str, float] = field(default_factory=dict)
    """When a watch saw a pod deleted; 0: the watch does not say when."""
    nodes: dict[str, Any] = field(default_factory=dict)
    last: float = 0.0
    """The latest moment in the files."""

    def add(self, event: str, received: float, item: Any) -> None:
        kind, metadata = text(item, "kind"), table(item, "metadata")
        name = text(metadata, "name")
        deleted = moment(metadata.get("deletionTimestamp")) or 0.0
        if kind == "Node" and name and (event != "DELETED" or name not in self.nodes):
            self.nodes[name] = item
        elif kind == "Pod" and name:
            key = text(metadata, "uid") or f"{text(metadata, 'namespace')}/{name}"
            self.pods[key] = item
            if event == "DELETED":
                self.gone[key] = received or deleted
        self.last = max(self.last, received, moment(metadata.get("creationTimestamp")) or 0.0, deleted)


def read_pods(
    pods: Path, nodes: Path | None, *, spot: Sequence[str] = (), settings: LiveSettings | None = None
) -> Conversion:
    """Read pods, and nodes where they are not in the same file. `spot`: priority classes that may be evicted."""
    settings, seen = settings or LiveSettings(), _Seen()
    for path in (pods, nodes):
        if path is not None:
            for event, received, item in _objects(path):
                seen.add(event, received, item)
    lives = [_life(item, seen.gone.get(key), settings) for key, item in seen.pods.items()]
    specs = node_specs(seen.nodes.values(), settings)
    return convert(lives, specs, seen.last, pods.name, SpotRule(spot, "priority class"), settings, Notes())


def node_specs(nodes: Iterable[Any], settings: LiveSettings) -> tuple[NodeSpec, ...]:
    """Return the nodes that have GPUs, sorted by name."""
    views = [view for node in nodes if (view := read_node(node, settings)) is not None]
    views.sort(key=lambda view: view.name)
    return tuple(NodeSpec(i, view.name, view.model, int(view.has.gpus), view.has.cpus) for i, view in enumerate(views))


def convert(
    lives: Iterable[PodLife],
    nodes: Sequence[NodeSpec],
    last: float,
    name: str,
    is_spot: SpotRule,
    settings: LiveSettings,
    notes: Notes,
) -> Conversion:
    """Return the trace of these pods and nodes.

    `last`: the latest moment of the records. `is_spot` decides about priority classes that the settings do not name.
    """
    kept = [life for life in lives if _belongs(life, notes)]
    last = max([last, *(life.start for life in kept), *(life.end for life in kept)])
    models = {node.name: node.gpu_model for node in nodes}
    records = [
        record
        for task, chains in sorted(_tasks(kept).items())
        if (record := _record(task, chains, models, is_spot, settings, notes, last)) is not None
    ]
    if is_spot.seen:
        is_spot.note(notes)
    notes.guess(f"organization by label {settings.organization_label}, else the namespace")
    return assemble(records, nodes, name, notes)


def _life(item: Any, deleted: float | None, settings: LiveSettings) -> PodLife:
    """Read when a pod ran. `deleted`: when a watch saw it deleted; None: no watch did."""
    view = read_pod(item, settings)
    begins, ends = [], []
    for container in entries(table(item, "status"), "containerStatuses"):
        state = table(container, "state")
        for known in (state, table(container, "lastState")):
            begins += [moment(table(known, phase).get("startedAt")) for phase in ("running", "terminated")]
        ends.append(moment(table(state, "terminated").get("finishedAt")) or 0.0)
    if deleted is None and view.over:
        deleted = moment(table(item, "metadata").get("deletionTimestamp"))
    end = max(ends, default=0.0) if view.over else 0.0
    return PodLife(view, min(filter(None, begins), default=view.started), end or deleted or 0.0)


def _belongs(life: PodLife, notes: Notes) -> bool:
    """Return whether a pod has a place in a trace, and note why not."""
    if life.view.asks.gpus <= 0:
        notes.left_out["asks for no GPU"] += 1
        return False
    if not life.view.node or not life.start:
        notes.left_out["never ran"] += 1
        return False
    return True


def _tasks(lives: list[PodLife]) -> dict[str, list[list[PodLife]]]:
    """Return for each task the chains of its pods: a pod, and those that continue it one after the other."""
    tasks: dict[str, list[list[PodLife]]] = {}
    for life in sorted(lives, key=lambda life: (life.view.created, life.view.path, life.view.uid)):
        chains = tasks.setdefault(_task_of(life, tasks), [])
        continued = next((chain for chain in chains if _continues(chain[-1], life)), None)
        if continued is None:
            chains.append([life])
        else:
            continued.append(life)
    return tasks


def _task_of(life: PodLife, tasks: dict[str, list[list[PodLife]]]) -> str:
    """Return the name of a pod's task."""
    view = life.view
    if view.gang is not None:
        return f"{view.namespace}/{view.gang.name}"
    if view.bound_as is not None:
        return view.bound_as.task
    if view.owner is None:
        return view.path
    # each pod of a controller is a task, unless it continues another
    base = f"{view.namespace}/{view.owner.name}"
    names = (base if number == 1 else f"{base}-{number}" for number in count(1))
    return next(name for name in names if name not in tasks or _continues(tasks[name][0][-1], life))


def _continues(before: PodLife, after: PodLife) -> bool:
    """Return whether `after` was created in place of `before`, which had not done its work."""
    failed = before.end and before.view.phase != "Succeeded"
    return (
        bool(failed)
        and after.view.created >= before.end - 1.0
        and before.view.owner == after.view.owner
        and before.view.slot == after.view.slot
    )


def _record(
    task: str,
    chains: list[list[PodLife]],
    models: dict[str, str],
    is_spot: SpotRule,
    settings: LiveSettings,
    notes: Notes,
    last: float,
) -> JobRecord | None:
    first = min((chain[0].view for chain in chains), key=lambda view: view.created)
    latest = [chain[-1] for chain in chains]
    model = next((models[life.view.node] for life in latest if life.view.node in models), "")
    if not model:
        notes.left_out["its node is not among the nodes given"] += 1
        return None
    if any(not life.end for life in latest):
        notes.guess("tasks that still run last as long as they have run so far")
    if any(len(chain) > 1 for chain in chains):
        notes.guess("tasks that ran several times last as long as their last run")
    if len({life.view.asks.gpus for life in latest}) > 1:
        notes.guess("gangs whose pods differ count each as large as its largest")
    priority = class_of(first, "", settings)
    spot = priority is Priority.SPOT if priority is not None else is_spot(first.priority_class or NO_CLASS)
    duration = max((life.end or last) for life in latest) - min(life.start for life in latest)
    return JobRecord(
        task,
        first.organization or first.namespace or "default",
        model,
        spot,
        len(chains),
        float(max(life.view.asks.gpus for life in latest)),
        first.created,
        max(duration, 0.0),
        max(life.view.asks.cpus for life in latest),
        first.guarantee or 1.0,
        first.interval or HOUR,
    )


def _objects(path: Path) -> Iterator[tuple[str, float, Any]]:
    """(event, when it was received or 0, object) of a list, of single objects, or of the lines of a watch."""
    content = read_any_bytes(path).decode("utf-8-sig", errors="replace").strip()
    decoder, at = json.JSONDecoder(), 0
    while at < len(content):
        try:
            item, at = decoder.raw_decode(content, at)
        except (ValueError, RecursionError) as error:
            line = content.count("\n", 0, getattr(error, "pos", at)) + 1
            raise InputError(f"{path}: line {line} is not JSON. Write it with kubectl get -o json.") from None
        while at < len(content) and content[at].isspace():
            at += 1
        yield from _unwrapped(path, item)


def _unwrapped(path: Path, item: Any) -> Iterator[tuple[str, float, Any]]:
    if not isinstance(item, dict):
        raise InputError(f"{path}: holds {type(item).__name__} where an object of Kubernetes should be.")
    if isinstance(item.get("object"), dict) and "type" in item:
        received = item.get("received")
        yield str(item["type"]), float(received) if isinstance(received, int | float) else 0.0, item["object"]
    elif isinstance(item.get("items"), list):
        kind = text(item, "kind").removesuffix("List")
        for each in entries(item, "items"):
            yield "ADDED", 0.0, each if each.get("kind") else {**each, "kind": kind}
    else:
        yield "ADDED", 0.0, item
