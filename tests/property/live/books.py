"""What a controller holds, by pods, and whether it agrees with itself and with the cluster."""

from __future__ import annotations

from collections import Counter
from typing import Any

from history import World
from judge import (
    HP,
    MODEL,
    SPOT,
    JudgedReplica,
    admits,
    capacity,
    class_of,
    gpus_of,
    group_of,
    is_deleting,
    is_open,
    is_ours,
    is_over,
    minimum_of,
    model_of,
    node_of,
    path_of,
    waits,
)

from gfs.core.invariants import check_state
from gfs.live.mirror import key_of
from gfs.live.table import Phase
from gfs.live.tasks import LiveTask
from gfs.live.translate.shape import Json


def books(replica: JudgedReplica) -> dict[str, Any]:
    """All that a controller believes, in values that two controllers of the same cluster must share."""
    controller = replica.controller
    book, mirror = controller.book, controller.mirror
    path = {uid: pod.path for uid, pod in mirror.pods.items()}

    def of(told: Phase) -> dict[str, Any]:
        return {
            min(path.get(uid, uid) for uid in task.pods): (
                sorted((path.get(uid, uid), node) for uid, node in task.pods.items()),
                _number(task),
                task.task.submit_time if task.task else None,
                task.task.priority.name if task.task else None,
            )
            for task in book.by_index.values()
            if task.phase is told
        }

    return {
        "running": of(Phase.RUNNING),
        "waiting": of(Phase.WAITING),
        "planned": of(Phase.PLANNED),
        "not submitted": sorted(path[pod.uid] for seen in book.ready.values() for pod in seen.pods),
        "refused": {path.get(uid, uid): tuple(why) for uid, why in book.waits.items()},
        "bindings": sorted(path.get(uid, uid) for uid in controller.overlay.bindings),
        "evictions": sorted(path.get(uid, uid) for uid in controller.overlay.evictions),
        "nodes": {
            node.name: (model, node.spec.gpus, node.spec.cpus, node.spec.memory, node.spec.pods, node.cordoned)
            for model, pool in controller.scheduler.pools.items()
            for node in pool.state.nodes
        },
        "held": sorted(
            (sorted((node.name, run.pods_on(node)) for node in run.nodes), run.task.pods, run.task.cards, run.number)
            for pool in controller.scheduler.pools.values()
            for run in pool.state.runs.values()
        ),
        "queued": sorted(
            (model, waiting.task.submit_time, waiting.task.pods, waiting.task.cards, waiting.number)
            for model, pool in controller.scheduler.pools.items()
            for waiting in pool.state.waiting.values()
        ),
    }


def _number(task: LiveTask) -> int:
    assert task.task is not None
    return task.run.number if task.run is not None else task.task.earlier_runs + 1


def check_books(replica: JudgedReplica) -> None:
    """The controller agrees with itself."""
    controller = replica.controller
    for pool in controller.scheduler.pools.values():
        check_state(pool.state)
    book, mirror = controller.book, controller.mirror
    for task in book.by_index.values():
        if task.phase in (Phase.PLANNED, Phase.RUNNING):
            assert task.run is not None, f"{task.name} has no run"
            placed = Counter[str]()
            for node, _, pods, _ in task.run.places:
                placed[node.name] += pods
            assert Counter(task.pods.values()) == placed, f"{task.name}: {task.pods}, core {placed}"
            assert task.run.alive, f"the run of {task.name} is over"
    if mirror.dirty:
        return
    check_runs(replica)
    ready = Counter(pod.uid for seen in book.ready.values() for pod in seen.pods)
    for uid, pod in mirror.pods.items():
        if pod.ours and pod.waits and uid not in controller.overlay.bindings:
            told = book.by_pod[uid].phase.name if uid in book.by_pod else ""
            places = [*["waits"] * (uid in book.waits), *["ready"] * ready[uid], *[told] * bool(told)]
            assert len(places) == 1, f"{pod.path} is in {places or 'no book'}"
            assert told in ("", "WAITING", "PLANNED"), f"{pod.path} waits and is in a task that is {told}"


def check_runs(replica: JudgedReplica) -> None:
    """Every bound pod is in a run of the core, unless it leaves, is refused, or its mates are of another GPU model."""
    controller = replica.controller
    book, mirror, overlay = controller.book, controller.mirror, controller.overlay
    for uid, pod in mirror.pods.items():
        is_there = bool(pod.node) and pod.node in mirror.nodes and not pod.over and not overlay.is_leaving(pod)
        if not (pod.ours and is_there) or pod.refusal or pod.priority_class not in (HP, SPOT) or uid in book.by_pod:
            continue
        mates = mirror.members[key_of(pod)].values()
        kinds = {(mirror.nodes[each.node].model, each.asks.gpus) for each in mates if each.node in mirror.nodes}
        assert len(kinds) > 1, f"{pod.path} runs on {pod.node}, and the core does not know it"


def check_empty(replica: JudgedReplica) -> None:
    """Nothing is kept of pods that are gone."""
    controller = replica.controller
    book, mirror, overlay, pod_events = controller.book, controller.mirror, controller.overlay, controller.pod_events
    kept = {
        "by_key": book.by_key, "by_name": book.by_name, "by_index": book.by_index, "by_pod": book.by_pod,
        "waits": book.waits, "unexplained": book.unexplained, "ready": book.ready, "events": book.events,
        "found": book.found, "adopted": book.adopted,
        "planned": book.planned, "members": mirror.members,
        "on node": {k: v for k, v in mirror.on_node.items() if v}, "apart": mirror.apart,
        "leaving": mirror.leaving,
        "unbound": mirror._unbound, "ended": mirror.ended, "pods": mirror.pods, "bindings": overlay.bindings,
        "bindings by node": overlay._on_node, "evictions": overlay.evictions, "given up": overlay.given_up,
        "written": pod_events._written, "queue": pod_events._queue,
        "failed": controller.binder.failed, "saved": mirror.saved, "requests": controller._requests,
    }  # fmt: skip
    left = {name: some for name, some in kept.items() if some}
    assert not left, f"kept although no pod is there: {left}"
    for model, pool in controller.scheduler.pools.items():
        assert not pool.state.runs, f"{model}: {pool.state.runs}"
        assert not pool.state.waiting, f"{model}: {pool.state.waiting}"
        assert not pool.state.leaving, f"{model}: {pool.state.leaving}"


# -- an independent look at who could start ------------------------------------------------------------


AFTER_EVICTIONS = "closed to spot tasks after recent evictions"
"""Why spot pods wait for a while beside idle GPUs: that is a decision, not an oversight."""
OVERFULL_IS_OPEN = True
"""Whether HP may evict spot pods on a node that holds more than it has (it shrank, or others bound pods there)."""


def free_on(world: World, node: Json, *, without_spot: bool = False) -> int:
    """GPUs of a node that nobody holds (and no spot pod of ours); 0: it takes no pods."""
    if not is_open(node):
        return 0
    name = node["metadata"]["name"]
    held = [pod for pod in world.server.pods.values() if node_of(pod) == name and not is_over(pod)]
    if without_spot and (OVERFULL_IS_OPEN or sum(map(gpus_of, held)) <= capacity(node)):
        held = [pod for pod in held if not (is_ours(pod) and class_of(pod) == SPOT)]
    return capacity(node) - sum(map(gpus_of, held))


def models(world: World) -> set[str]:
    nodes = world.server.nodes.values()
    return {model_of(node) for node in nodes if model_of(node) and capacity(node) > 0}


def pool_for(world: World, pod: Json) -> str:
    """The GPU model that a pod is for; empty: it cannot be said."""
    named = pod["spec"].get("nodeSelector", {}).get(MODEL)
    return named or (next(iter(models(world))) if len(models(world)) == 1 else "")


def places_for(world: World, pod: Json, *, without_spot: bool = False) -> int:
    """How many pods like this one find room now."""
    model = pool_for(world, pod)
    fitting = [node for node in world.server.nodes.values() if model_of(node) == model and admits(node, pod)]
    return sum(max(0, free_on(world, node, without_spot=without_spot)) // gpus_of(pod) for node in fitting)


def expected_reason(world: World, pod: Json) -> str:
    """The reason that a pod which waits must state: `Refused`, `WaitsForGang` or `Unschedulable`."""
    group = world.server.groups.get(group_of(pod))
    if class_of(pod) not in (HP, SPOT) or (group_of(pod) and group is None):
        return "Refused"
    if not pool_for(world, pod):
        return "Refused"
    if pool_for(world, pod) not in models(world):
        return "Unschedulable"
    if group is None or minimum_of(group) <= 1:
        return "Unschedulable"
    held, succeeded, alike = gang_of(world, pod)
    if pod not in alike:
        return "Refused"
    if held:
        return "WaitsForGang" if held + succeeded + len(alike) < minimum_of(group) else "Unschedulable"
    if len(alike) + succeeded < minimum_of(group):
        return "WaitsForGang"
    needed = max(1, minimum_of(group) - succeeded)
    return "Unschedulable" if pod in alike[:needed] else "WaitsForGang"


def gang_of(world: World, pod: Json) -> tuple[int, int, list[Json]]:
    """Of the gang of a pod that waits: members that are bound, that have succeeded, and that wait and are alike."""
    members = [each for each in world.server.pods.values() if group_of(each) == group_of(pod)]
    succeeded = sum(each["status"]["phase"] == "Succeeded" for each in members)
    held = sum(bool(node_of(each)) and not is_over(each) and not is_deleting(each) for each in members)
    waiting = sorted(filter(waits, members), key=lambda each: (each["metadata"]["creationTimestamp"], path_of(each)))
    waiting = [each for each in waiting if class_of(each) in (HP, SPOT) and pool_for(world, each) in models(world)]
    if held:
        return held, succeeded, waiting
    kinds = Counter(_kind(each) for each in waiting)
    usual = kinds.most_common(1)[0][0] if kinds else None
    return held, succeeded, [each for each in waiting if _kind(each) == usual]


def _kind(pod: Json) -> tuple[Any, ...]:
    rules = {key: pod["spec"].get(key) for key in ("nodeSelector", "tolerations")}
    return gpus_of(pod), class_of(pod), str(rules)


def check_liveness(world: World) -> None:
    """Nothing that fits waits, and every pod that waits says why, truly."""
    for pod in list(world.server.pods.values()):
        if not waits(pod):
            continue
        name, expected = path_of(pod), expected_reason(world, pod)
        conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
        said = conditions.get("PodScheduled")
        assert said is not None, f"{name} waits and does not say why ({expected})"
        assert said["status"] == "False"
        assert said["reason"] == expected, f"{name} says {said['reason']} ({said['message']}), but: {expected}"
        if expected != "Unschedulable" or pool_for(world, pod) not in models(world):
            continue
        group = world.server.groups.get(group_of(pod))
        together = 1
        if group is not None and minimum_of(group) > 1:
            held, succeeded, _ = gang_of(world, pod)
            together = 1 if held else max(1, minimum_of(group) - succeeded)
        if class_of(pod) == SPOT and AFTER_EVICTIONS in said["message"]:
            continue
        room = places_for(world, pod)
        assert room < together, f"{name} waits ({said['message']}), and {room} such pods have room"
        if class_of(pod) == HP:
            room = places_for(world, pod, without_spot=True)
            assert room < together, f"{name} waits ({said['message']}), and {room} have room without spot pods"
