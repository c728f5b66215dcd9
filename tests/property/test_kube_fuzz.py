"""Whatever objects the API's schemas allow: no traceback, and no pod is bound where it does not fit.

The controller runs without an API server; `kube_fits` says of every binding whether it is right, from objects alone.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from kube_fits import why_not
from kube_objects import Json, nodes, of_kind, pods

from gfs.assembly.parameters import Parameters
from gfs.live.api import Api
from gfs.live.controller import Controller
from gfs.live.service import new_scheduler
from gfs.live.settings import LIVE_DEFAULTS, LiveSettings
from gfs.live.translate.budgets import read_budget
from gfs.live.translate.gangs import group_of, read_group
from gfs.live.translate.nodes import read_node
from gfs.live.translate.pods import read_pod
from gfs.live.translate.pools import pool_of
from hand import Hand

SETTINGS = LiveSettings(burst=0.0)
KINDS = ("Pod", "Node", "PodGroup", "PriorityClass", "PodDisruptionBudget")
Action = tuple[str, Any]


class World:
    """Plays API server and kubelets for one controller: a binding is shown at once, a deleted pod is gone at once."""

    def __init__(self) -> None:
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        hand = Hand()
        self.controller = Controller(
            cast(Api, self), SETTINGS, tick=300.0, guarantee_hours=1.0, checkpoint_interval=3600.0, clock=hand,
            monotonic=hand,
        )  # fmt: skip
        self.wrong: list[str] = []
        self.bound = 0
        self._news: list[tuple[Json, Json | None]] = []

    async def bind(self, namespace: str, name: str, uid: str, node: str, notes: dict[str, str]) -> None:
        pod = self.pods[uid]
        others = [each for each in self.pods.values() if each["spec"].get("nodeName") == node]
        if why := why_not(pod, self.nodes.get(node), others):
            self.wrong.append(f"{name} on {node}: {why}")
        self.bound += 1
        after = copy.deepcopy(pod)
        after["spec"]["nodeName"], after["status"]["phase"] = node, "Running"
        after["metadata"]["annotations"] = {**(after["metadata"].get("annotations") or {}), **notes}
        self.pods[uid] = after
        self._news.append((pod, after))

    async def delete(self, path: str, *, uid: str = "", grace: int | None = None) -> Json:
        if pod := self.pods.pop(uid, None):
            self._news.append((pod, None))
        return {}

    def __getattr__(self, name: str) -> Any:
        async def answer(*_: Any, **__: Any) -> Json:
            return {}

        return answer

    def act(self, what: str, thing: Any) -> None:
        """Something happens in the cluster."""
        cluster = self.controller.cluster
        match what:
            case "node":
                name = thing["metadata"]["name"]
                before, self.nodes[name] = self.nodes.get(name), thing
                cluster.node_changed(before, thing)
            case "no node":
                if before := self.nodes.pop(thing, None):
                    cluster.node_changed(before, None)
            case "pod":
                if thing["metadata"]["uid"] not in self.pods:
                    self.pods[thing["metadata"]["uid"]] = thing
                    cluster.pod_changed(None, thing)
            case "no pod":
                if before := self.pods.pop(thing, None):
                    cluster.pod_changed(before, None)
            case "group":
                cluster.group_changed(None, thing)
            case "budget":
                cluster.budget_changed(None, thing)

    async def step(self) -> None:
        """Decide, and show what came of it."""
        for _ in range(3):
            self.controller.step()
            await self.controller.settle()
            news, self._news = self._news, []
            for before, after in news:
                self.controller.cluster.pod_changed(before, after)


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
        world.controller.begin(new_scheduler(SETTINGS, Parameters(**{**LIVE_DEFAULTS, "quota": "none"})))
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
    event(f"{min(world.bound, 4)} bound")
    assert not world.wrong
    ours = [pod for what, pod in actions if what == "pod" and pod["spec"].get("schedulerName") == "gfs-scheduler"]
    known = world.controller.book
    for pod in ours:  # nobody is forgotten: bound, waiting, refused or gone
        uid = pod["metadata"]["uid"]
        there = world.pods.get(uid)
        if there is None or there["spec"].get("nodeName") or "deletionTimestamp" in there["metadata"]:
            continue
        gated = bool([gate for gate in there["spec"].get("schedulingGates") or () if gate is not None])
        assert gated or uid in known.by_pod or uid in known.refused, "nobody is forgotten"


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
