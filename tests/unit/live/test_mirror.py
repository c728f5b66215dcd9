"""Which changes of a pod the mirror reports, and to whom."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from objects import node, pod
from story import play

from fake_cluster import FakeServer, Replica
from gfs.live.mirror import Mirror
from gfs.live.settings import LiveSettings
from gfs.live.translate.pods import read_pod
from gfs.live.translate.shape import Json

SETTINGS = LiveSettings()
STARTED = {"phase": "Running", "startTime": "2026-01-01T00:00:05Z"}
MARK = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
SAVED = "2026-01-01T00:00:09Z"
APART = {"labelSelector": {"matchLabels": {"app": "x"}}}
KEEPS_AWAY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}


def changed(thing: Json, **parts: Json) -> Json:
    """The object with other values in `metadata`, `spec` or `status`; None removes one."""
    after = copy.deepcopy(thing)
    for part, values in parts.items():
        after[part] = {key: value for key, value in {**after[part], **values}.items() if value is not None}
    return after


def see(before: Json, after: Json | None, *others: Json) -> Mirror:
    """A mirror that has just seen a pod change."""
    mirror = Mirror(SETTINGS)
    for each in (before, *others):
        mirror.pod_changed(None, each)
    mirror.dirty, mirror.dirty_nodes, mirror.changed, mirror.new_pods = {}, set(), set(), []
    mirror.pod_changed(before, after)
    return mirror


WAITS = pod("p", labels={"app": "x"}, annotations={"team": "a"})
GATED = pod("p", schedulingGates=[{"name": "quota"}])
BOUND = changed(WAITS, spec={"nodeName": "n1"})
RUNS = changed(BOUND, status=STARTED)
NOTES = {"team": "a", "gfs.dev/task": "lab/p", "gfs.dev/run": "1"}

CHANGES: dict[str, tuple[Json, Json | None]] = {
    "bound": (WAITS, changed(BOUND, metadata={"annotations": NOTES})),
    "bound without notes": (WAITS, BOUND),
    "its task written later": (BOUND, changed(BOUND, metadata={"annotations": NOTES})),
    "nominated": (WAITS, changed(WAITS, status={"nominatedNodeName": "n1"})),
    "nominated no more": (changed(WAITS, status={"nominatedNodeName": "n1"}), WAITS),
    "deleted": (RUNS, changed(RUNS, metadata={"deletionTimestamp": "2026-01-01T01:00:00Z"})),
    "marked as victim": (RUNS, changed(RUNS, status={"conditions": [MARK]})),
    "failed": (RUNS, changed(RUNS, status={"phase": "Failed"})),
    "failed before it started": (BOUND, changed(BOUND, status={"phase": "Failed"})),
    "failed while it waited": (WAITS, changed(WAITS, status={"phase": "Failed"})),
    "succeeded": (RUNS, changed(RUNS, status={"phase": "Succeeded"})),
    "gate removed": (GATED, changed(GATED, spec={"schedulingGates": None})),
    "selector while gated": (GATED, changed(GATED, spec={"nodeSelector": {"zone": "a"}})),
    "labels": (RUNS, changed(RUNS, metadata={"labels": {"app": "y"}})),
    "group label": (WAITS, changed(WAITS, metadata={"labels": {"scheduling.x-k8s.io/pod-group": "g"}})),
    "guarantee": (WAITS, changed(WAITS, metadata={"annotations": {"gfs.dev/guaranteed-duration": "2h"}})),
    "checkpoint": (RUNS, changed(RUNS, metadata={"annotations": {"gfs.dev/last-checkpoint-time": SAVED}})),
    "another owner": (WAITS, changed(WAITS, metadata={"ownerReferences": [{"kind": "Job", "controller": True}]})),
    "resized": (WAITS, changed(WAITS, spec={"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}]})),
    "gone": (RUNS, None),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_that_matters_queues_the_key_and_the_node_of_a_pod(what: str) -> None:
    before, after = CHANGES[what]
    mirror = see(before, after)
    assert "uid-p" in mirror.dirty
    assert mirror.changed == {"uid-p"}
    assert mirror.dirty_nodes == ({"n1"} if "nodeName" in (after or before)["spec"] else set())
    if after is not None:
        assert mirror.pods["uid-p"] == read_pod(after, SETTINGS)


@pytest.mark.parametrize(
    ("before", "after"),
    [(BOUND, RUNS), (BOUND, changed(BOUND, status={"startTime": STARTED["startTime"]}))],
    ids=["running", "seen by its kubelet"],
)
def test_a_pod_that_starts_concerns_no_task(before: Json, after: Json) -> None:
    mirror = see(before, after)
    assert (mirror.dirty, mirror.dirty_nodes, mirror.changed) == ({}, set(), {"uid-p"})
    assert mirror.pods["uid-p"] == read_pod(after, SETTINGS)


def test_what_is_not_read_of_a_pod_changes_nothing() -> None:
    ready = {"type": "Ready", "status": "True"}
    mirror = see(RUNS, changed(RUNS, status={"conditions": [ready]}, metadata={"managedFields": [{}]}))
    assert (mirror.dirty, mirror.dirty_nodes, mirror.changed) == ({}, set(), set())


def test_a_pod_of_another_scheduler_concerns_its_node_and_the_pods_that_it_keeps_away() -> None:
    other = changed(BOUND, spec={"schedulerName": "default-scheduler", "affinity": KEEPS_AWAY})
    unbound = changed(other, spec={"nodeName": None})
    for before, after in ((other, None), (other, changed(other, status={"phase": "Failed"})), (unbound, other)):
        mirror = see(before, after, pod("waits", labels={"app": "x"}), pod("unlike", labels={"app": "y"}))
        assert (list(mirror.dirty), mirror.dirty_nodes) == (["uid-waits"], {"n1"})


@pytest.mark.parametrize("zone", ["a", "b"])
def test_a_selector_that_is_added_while_a_pod_is_gated_counts(zone: str) -> None:
    """As Kueue does it: it chooses nodes for a pod that has a gate, and removes the gate."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("p", schedulingGates=[{"name": "quota"}], annotations={"gfs.dev/guaranteed-duration": "x"}))
        await replica.rest()
        assert not replica.controller.claims.doubted
        for spec in ({"nodeSelector": {"zone": zone}}, {"schedulingGates": None}):
            server.put_pod(changed(server.pods["lab/p"], spec=spec))
            await replica.rest()
        assert server.bound == ([("p", "n1")] if zone == "a" else [])
        assert replica.controller.claims.doubted == {"guarantee": 1}

    nodes: Any = [node("n1", labels={"zone": "a"})]
    play(story, *nodes)
