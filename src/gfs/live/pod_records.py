"""A trace from what Kubernetes remembers: pods and nodes as `kubectl get -o json` writes them, or a recorded watch.

    kubectl get pods -A -o json > pods.json             # what is there now: a finished pod is soon deleted
    kubectl get pods -A -w -o json --output-watch-events > pods.json    # a recorded watch: nothing is missed
    kubectl get nodes -o json > nodes.json

Pods are read as `gfs live` reads them: a PodGroup is a gang, a pod that its controller created again after it had been
evicted is the next run of the same task, a namespace or its label is the organization. A task lasts as long as its last
run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
from gfs.workloads.readers.file_bytes import GZIP, unpacked
from gfs.workloads.records.conversion import Conversion, JobRecord, Notes, SpotRule, assemble


@dataclass(slots=True)
class _PodLife:
    """What is known of one pod."""

    view: PodView
    start: float
    end: float
    """0: it has not ended, as far as the records go."""
    good_end: bool
    """It succeeded: nothing that is created later continues it."""


@dataclass(slots=True)
class Seen:
    """Pods and nodes, as records have them."""

    pods: dict[str, Any] = field(default_factory=dict)
    """By uid, as it was last seen."""
    gone: dict[str, float] = field(default_factory=dict)
    """When a watch saw a pod deleted."""
    nodes: dict[str, Any] = field(default_factory=dict)
    last: float = 0.0
    """The latest moment that the records speak of."""


def read_pods(
    pods: Path, nodes: Path | None, *, spot: Sequence[str] = (), settings: LiveSettings | None = None
) -> Conversion:
    """Read pods, and nodes where they are not in the same file. `spot`: priority classes that may be evicted."""
    settings, notes, seen = settings or LiveSettings(), Notes(), Seen()
    for path in (pods, nodes):
        if path is not None:
            for word, received, item in _objects(path):
                _take(seen, word, received, item)
    return convert(seen, pods.name, SpotRule(spot, "priority class"), settings, notes)


def convert(seen: Seen, name: str, is_spot: SpotRule, settings: LiveSettings, notes: Notes) -> Conversion:
    """The trace of these pods and nodes. `is_spot` is asked for classes that the settings do not name."""
    views = [view for item in seen.nodes.values() if (view := read_node(item, settings)) is not None]
    views.sort(key=lambda view: view.name)
    specs = tuple(NodeSpec(i, view.name, view.model, view.gpus, view.cpus) for i, view in enumerate(views))
    models = {view.name: view.model for view in views}
    lives = [life for item in seen.pods.values() if (life := _life(item, seen, settings, notes)) is not None]
    records = [
        record
        for key, chains in sorted(_tasks(lives).items())
        if (record := _record(key, chains, models, is_spot, settings, notes, seen.last)) is not None
    ]
    if is_spot.seen:
        is_spot.note(notes)
    notes.guess(f"organization by label {settings.organization_label}, else the namespace")
    return assemble(records, specs, name, notes)


def _take(seen: Seen, word: str, received: float, item: Any) -> None:
    metadata = table(item, "metadata")
    uid, name = text(metadata, "uid"), text(metadata, "name")
    kind = text(item, "kind")
    if kind == "Node" and name and (word != "DELETED" or name not in seen.nodes):
        seen.nodes[name] = item
    elif kind == "Pod" and name:
        key = uid or f"{text(metadata, 'namespace')}/{name}"
        seen.pods[key] = item
        if word == "DELETED":
            seen.gone[key] = received or moment(metadata.get("deletionTimestamp")) or 0.0
    for stamp in (metadata.get("creationTimestamp"), metadata.get("deletionTimestamp")):
        seen.last = max(seen.last, received, moment(stamp) or 0.0)


def _life(item: Any, seen: Seen, settings: LiveSettings, notes: Notes) -> _PodLife | None:
    """When a pod ran; None, noted, for one that has no place in a trace."""
    view = read_pod(item, settings)
    if view.asks.gpus <= 0:
        notes.left_out["asks for no GPU"] += 1
        return None
    status, metadata = table(item, "status"), table(item, "metadata")
    begins, ends = [], []
    for container in entries(status, "containerStatuses"):
        for state in (table(container, "state"), table(container, "lastState")):
            begins += [moment(table(state, phase).get("startedAt")) for phase in ("running", "terminated")]
        ends.append(moment(table(table(container, "state"), "terminated").get("finishedAt")) or 0.0)
    start = min((begin for begin in begins if begin), default=view.started)
    if not view.node or not start:
        notes.left_out["never ran"] += 1
        return None
    key = view.uid or view.path
    deleted = seen.gone.get(key) or moment(metadata.get("deletionTimestamp")) or 0.0
    end = max(ends, default=0.0) if view.over else 0.0
    end = end or (deleted if key in seen.gone or view.over else 0.0)
    seen.last = max(seen.last, start, end)
    return _PodLife(view, start, end, view.phase == "Succeeded")


def _tasks(lives: list[_PodLife]) -> dict[str, list[list[_PodLife]]]:
    """Task -> the lives of each of its pods, one after the other."""
    tasks: dict[str, list[list[_PodLife]]] = {}
    for life in sorted(lives, key=lambda life: (life.view.created, life.view.path, life.view.uid)):
        view = life.view
        if view.gang:
            chains = tasks.setdefault(f"{view.namespace}/{view.gang.name}", [])
        elif view.bound_as is not None:
            chains = tasks.setdefault(view.bound_as.task, [])
        elif view.owner is not None:
            chains = _chains_of_owner(tasks, life)
        else:
            chains = tasks.setdefault(view.path, [])
        for chain in chains:
            if _continues(chain[-1], life):
                chain.append(life)
                break
        else:
            chains.append([life])
    return tasks


def _chains_of_owner(tasks: dict[str, list[list[_PodLife]]], life: _PodLife) -> list[list[_PodLife]]:
    """Pods of one controller that are no gang: a task each; one that continues another joins it."""
    owner = life.view.owner
    assert owner is not None
    base, number = f"{life.view.namespace}/{owner.name}", 1
    while True:
        name = base if number == 1 else f"{base}-{number}"
        chains = tasks.setdefault(name, [])
        if not chains or _continues(chains[0][-1], life):
            return chains
        number += 1


def _continues(before: _PodLife, after: _PodLife) -> bool:
    """Whether `after` was created in place of `before`, which had not done its work."""
    ended = before.end and not before.good_end and after.view.created >= before.end - 1.0
    return bool(ended) and before.view.owner == after.view.owner and before.view.slot == after.view.slot


def _record(
    name: str,
    chains: list[list[_PodLife]],
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
    spot = priority is Priority.SPOT if priority is not None else is_spot(first.priority_class or "(no class)")
    duration = max((life.end or last) for life in latest) - min(life.start for life in latest)
    return JobRecord(
        name,
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
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from error
    content = (unpacked(str(path), data) if data[:2] == GZIP else data).decode("utf-8-sig", errors="replace").strip()
    if not content:
        raise InputError(f"{path}: the file is empty.")
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
        for each in item["items"]:
            if isinstance(each, dict):
                yield "ADDED", 0.0, each if each.get("kind") else {**each, "kind": kind}
    else:
        yield "ADDED", 0.0, item
