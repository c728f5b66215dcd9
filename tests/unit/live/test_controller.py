"""The controller without an API server: what the mirrors show, in whatever batches, leads to the right bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from objects import group, node, pod

from gfs.assembly.parameters import Parameters
from gfs.live.api import Api
from gfs.live.controller import Controller
from gfs.live.service import new_scheduler
from gfs.live.settings import LIVE_DEFAULTS, LiveSettings
from gfs.live.shadow import Shadow

SETTINGS = LiveSettings(burst=0.0)


class WillingApi:
    """Says yes to everything and notes the bindings."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []

    async def bind(self, namespace: str, name: str, uid: str, node: str, notes: dict[str, str]) -> None:
        self.bound.append((name, node))

    def __getattr__(self, name: str) -> Callable[..., Awaitable[dict[str, Any]]]:
        async def answer(*_: Any, **__: Any) -> dict[str, Any]:
            return {}

        return answer


def drive(test: Callable[[Controller, WillingApi], Awaitable[None]], shadow: Shadow | None = None) -> None:
    """Let a controller with one node of four GPUs go through a test."""

    async def main() -> None:
        api = WillingApi()
        controller = Controller(
            cast(Api, api), SETTINGS, tick=300.0, guarantee_hours=1.0, checkpoint_interval=3600.0, shadow=shadow
        )
        controller.cluster.node_changed(None, node("n1", gpus=4))
        controller.begin(new_scheduler(SETTINGS, Parameters(**{**LIVE_DEFAULTS, "quota": "none"})))
        await test(controller, api)

    asyncio.run(main())


def test_room_kept_for_a_pod_that_went_before_its_binding_was_seen_is_given_back() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        first, second = pod("first", gpus=4, cls="gfs-hp"), pod("second", gpus=4)
        controller.cluster.pod_changed(None, first)
        controller.step()
        await controller.settle()
        controller.cluster.pod_changed(None, second)
        controller.cluster.pod_changed(first, pod("first", gpus=4, cls="gfs-hp", nodeName="n1", phase="Running"))
        controller.cluster.pod_changed(first, None)
        controller.step()
        controller.step()
        await controller.settle()
        assert api.bound == [("first", "n1"), ("second", "n1")]

    drive(test)


def test_a_bound_pod_that_goes_before_it_is_adopted_is_passed_over() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        there = pod("there", gpus=4, nodeName="n1", phase="Running")
        controller.cluster.pod_changed(None, there)
        controller.cluster.pod_changed(there, None)
        controller.cluster.pod_changed(None, pod("next", gpus=4))
        controller.step()
        await controller.settle()
        assert api.bound == [("next", "n1")]

    drive(test)


def test_what_a_shadow_planned_and_another_bound_is_a_run() -> None:
    shadow = Shadow()

    async def test(controller: Controller, api: WillingApi) -> None:
        controller.cluster.pod_changed(None, pod("first", gpus=4))
        controller.step()
        controller.cluster.pod_changed(None, pod("first", gpus=4, nodeName="n1", phase="Running"))
        controller.step()
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        assert not api.bound
        assert (shadow.summary()["same_node"], shadow.summary()["would_evict"]) == (1, 1)

    drive(test, shadow)


def test_no_gpus_are_held_for_a_victim_that_nobody_creates_again() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        victim = pod("victim", gpus=4)
        controller.cluster.pod_changed(None, victim)
        controller.step()
        await controller.settle()
        bound = pod("victim", gpus=4, nodeName="n1", phase="Running")
        controller.cluster.pod_changed(victim, bound)
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        controller.cluster.pod_changed(bound, pod("victim", gpus=4, nodeName="n1", deletionTimestamp="soon"))
        controller.cluster.node_changed(None, node("n2", gpus=4))
        controller.cluster.pod_changed(None, pod("late", gpus=4))
        controller.step()
        await controller.settle()
        assert api.bound == [("victim", "n1"), ("late", "n2")]

    drive(test)


def test_budgets_and_groups_become_disruption_rules() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        budget = {
            "metadata": {"namespace": "lab", "name": "keep"},
            "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}},
            "status": {"disruptionsAllowed": 0},
        }
        controller.cluster.budget_changed(None, budget)
        controller.cluster.group_changed(None, group("team", 2, disruptionMode={"all": {}}))
        for name in ("a", "b", "c"):
            in_group = {"schedulingGroup": {"podGroupName": "team"}}
            controller.cluster.pod_changed(None, pod(name, labels={"app": "x"} if name == "c" else {}, **in_group))
        for _ in range(4):  # the minimum first, then the pod beyond it
            controller.step()
            await controller.settle()
        pool = controller.scheduler.pools["A100"].state.pool
        assert len(api.bound) == 3
        assert len(pool.together) == 2
        assert pool.protected == set(pool.together), "whoever takes a protected run along is protected"
        controller.cluster.budget_changed(budget, None)
        controller.step()
        assert not pool.protected

    drive(test)


def test_who_may_not_decide_any_more_does_not() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        controller.cluster.pod_changed(None, pod("late", gpus=4))
        await controller.run(lambda now: None, lambda: False)
        assert not controller.decisions

    drive(test)
