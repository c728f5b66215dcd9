"""Whatever objects the API's schemas allow: no traceback, and no pod is bound where it does not fit.

The controller runs on a cluster in memory; `kube_fits` says of every binding whether it is right, from objects alone.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from kube_fits import why_not
from kube_objects import Json, nodes, of_kind, pods

from fake_cluster import FakeServer, Replica
from gfs.live.settings import LiveSettings
from gfs.live.translate.budgets import read_budget
from gfs.live.translate.gangs import group_of, read_group
from gfs.live.translate.nodes import read_node
from gfs.live.translate.pods import read_pod
from gfs.live.translate.rules import pool_of

SETTINGS = LiveSettings(burst=0.0)
KINDS = ("Pod", "Node", "PodGroup", "PriorityClass", "PodDisruptionBudget")
Action = tuple[str, Any]


class World:
    """One controller on a cluster in memory: a bound pod runs at once, a deleted pod is gone at once."""

    def __init__(self) -> None:
        self.server = JudgingServer()
        self.replica = Replica(self.server, SETTINGS)
        self.controller = self.replica.controller

    def act(self, what: str, thing: Any) -> None:
        """Something happens in the cluster."""
        server = self.server
        match what:
            case "node":
                server.put_node(thing)
            case "no node":
                server.remove_node(thing)
            case "pod":
                server.put_pod(thing)
            case "no pod":
                server.remove_uid(thing)
            case "group":
                server.put_group(thing)
            case "budget":
                server.put_budget(thing)

    async def step(self) -> None:
        """Decide, and show what came of it."""
        for _ in range(3):
            await self.replica.step()
            self.server.start_bound()
            self.server.stop_deleted()


class JudgingServer(FakeServer):
    """Says of every binding whether it is right. Objects keep the uids that they have."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def put_pod(self, pod: Json) -> str:
        metadata = pod["metadata"]
        name = f"{metadata.setdefault('namespace', 'lab')}/{metadata.setdefault('name', metadata['uid'])}"
        if name not in self.pods and metadata["uid"] not in {each["metadata"]["uid"] for each in self.pods.values()}:
            self._put("pod", name, copy.deepcopy(pod))
        return name

    def put_budget(self, budget: Json) -> None:
        metadata = budget.get("metadata") or {}
        self._put("budget", str(metadata.get("name")), {**budget, "metadata": metadata})

    def remove_uid(self, uid: str) -> None:
        for name in [name for name, pod in self.pods.items() if pod["metadata"]["uid"] == uid]:
            self.remove_pod(name)

    async def bind(self, namespace: str, pod: str, uid: str, node: str, annotations: Any, **more: Any) -> None:
        there = self.pods.get(f"{namespace}/{pod}")
        count = len(self.bound)
        await super().bind(namespace, pod, uid, node, annotations, **more)
        if there is not None and len(self.bound) > count:
            others = [
                each
                for each in self.pods.values()
                if each["spec"].get("nodeName") == node and each["metadata"]["uid"] != uid
            ]
            if why := why_not(there, self.nodes.get(node), others):
                self.wrong.append(f"{pod} on {node}: {why}")


@contextmanager
def no_errors() -> Iterator[None]:
    """Nothing that runs beside the loop may fail, either."""
    told: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("gfs.live")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
    assert not told


def play(actions: list[Action]) -> World:
    """Let a controller live through this."""

    async def main() -> World:
        world = World()
        for what, thing in actions:
            if what == "step":
                await world.step()
            else:
                world.act(what, thing)
        for _ in range(2):
            await world.step()
        return world

    with no_errors():
        return asyncio.run(main())


@st.composite
def groups(draw: st.DrawFn) -> Json:
    group = draw(of_kind("PodGroup"))
    names = {"name": draw(st.sampled_from(["team", "other"])), "namespace": draw(st.sampled_from(["lab", "web"]))}
    return {**group, "metadata": {**(group.get("metadata") or {}), **names}}


@st.composite
def histories(draw: st.DrawFn, whole: bool) -> list[Action]:
    """What happens in a cluster. `whole`: its objects can mostly be used; else they are as the schema has them."""
    actions: list[Action] = [("node", draw(nodes(f"n{number}"))) for number in range(draw(st.integers(1, 3)))]
    for number in range(draw(st.integers(3, 8))):
        pod = draw(pods(f"p{number}")) if whole else draw(of_kind("Pod"))
        if not whole:
            pod["metadata"] = {**(pod.get("metadata") or {}), "uid": f"uid-p{number}"}
            pod["spec"], pod["status"] = pod.get("spec") or {}, pod.get("status") or {}
        actions.append(("pod", pod))
        match draw(st.integers(0, 11)):
            case 0:
                actions.append(("group", draw(groups())))
            case 1:
                actions.append(("no pod", f"uid-p{draw(st.integers(0, number))}"))
            case 2:
                actions.append(("node", draw(nodes(f"n{draw(st.integers(0, 3))}"))))
            case 3:
                actions.append(("no node", f"n{draw(st.integers(0, 2))}"))
            case 4:
                actions.append(("budget", draw(of_kind("PodDisruptionBudget"))))
            case 5 | 6 | 7 | 8:
                actions.append(("step", None))
    return actions


def check_placements(actions: list[Action]) -> None:
    world = play(actions)
    event(f"{min(len(world.server.bound), 4)} bound")
    assert not world.server.wrong
    ours = [pod for what, pod in actions if what == "pod" and pod["spec"].get("schedulerName") == "gfs-scheduler"]
    known = world.controller.book
    for pod in ours:  # nobody is forgotten: bound, waiting, refused or gone
        uid = pod["metadata"]["uid"]
        there = next((each for each in world.server.pods.values() if each["metadata"]["uid"] == uid), None)
        if there is None or there["spec"].get("nodeName") or "deletionTimestamp" in there["metadata"]:
            continue
        gated = bool([gate for gate in there["spec"].get("schedulingGates") or () if gate is not None])
        assert gated or uid in known.by_pod or uid in known.waits, "nobody is forgotten"


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_object_of_the_schema_can_be_read(kind: str, data: st.DataObject) -> None:
    thing = data.draw(of_kind(kind))
    view = read_pod(thing, SETTINGS)
    hash(view.rule)
    pool_of(view.rule, SETTINGS.model_label, ["A100"])
    assert ("" in view.rule) in (True, False)
    read_node(thing, SETTINGS)
    read_group(thing)
    read_budget(thing).breaks([view])
    group_of(thing)


@settings(max_examples=60)
@given(histories(whole=False))
def test_any_history_of_any_objects_is_lived_through(actions: list[Action]) -> None:
    play(actions)


@settings(max_examples=120)
@given(histories(whole=True))
def test_no_pod_is_bound_where_it_does_not_fit(actions: list[Action]) -> None:
    check_placements(actions)


@pytest.mark.slow
@settings(max_examples=2500)
@given(histories(whole=True))
def test_nor_in_many_more_histories(actions: list[Action]) -> None:
    check_placements(actions)


@pytest.mark.slow
@settings(max_examples=1200)
@given(histories(whole=False))
def test_many_more_histories_of_any_objects_are_lived_through(actions: list[Action]) -> None:
    play(actions)
