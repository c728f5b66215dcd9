"""The controller without an API server: what the mirrors show, in whatever batches, leads to the right bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from objects import group, node, owned, pod

from gfs.assembly.parameters import Parameters
from gfs.live.api import Api
from gfs.live.controller import Controller
from gfs.live.service import new_scheduler
from gfs.live.settings import LIVE_DEFAULTS, LiveSettings
from gfs.live.shadow import Shadow
from hand import Hand

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


def drive(
    test: Callable[[Controller, WillingApi], Awaitable[None]],
    shadow: Shadow | None = None,
    api: WillingApi | None = None,
    **options: Any,
) -> None:
    """Let a controller with one node of four GPUs go through a test; time stands unless the test has another clock."""
    api, hand = api or WillingApi(), Hand()

    async def main() -> None:
        controller = Controller(
            cast(Api, api),
            SETTINGS,
            tick=300.0,
            guarantee_hours=1.0,
            checkpoint_interval=3600.0,
            shadow=shadow,
            **{"clock": hand, "monotonic": hand, **options},
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


def test_who_is_evicted_while_it_is_being_bound_comes_back_as_the_same_task() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        first = owned("first", gpus=4)
        controller.cluster.pod_changed(None, first)
        controller.step()  # the binding is under way
        task = controller.book.by_name["lab/train"]
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        await controller.settle()
        controller.cluster.pod_changed(first, None)
        controller.step()
        await controller.settle()
        assert api.bound == [("first", "n1"), ("urgent", "n1")]
        controller.cluster.pod_changed(None, owned("second", gpus=4))
        controller.step()
        assert controller.book.by_name == {"lab/train": task, "lab/urgent": controller.book.by_name["lab/urgent"]}
        assert list(task.free) == ["uid-second"]

    drive(test)


def test_who_is_evicted_and_starts_elsewhere_at_once_is_in_its_next_run() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        waits, bound = owned("first", gpus=2), owned("first", gpus=2, nodeName="n1", phase="Running")
        controller.cluster.pod_changed(None, waits)
        controller.step()
        await controller.settle()
        controller.cluster.pod_changed(waits, bound)
        controller.step()
        controller.cluster.node_changed(None, node("n2", gpus=2))
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        again = controller.book.by_name["lab/train"].run
        assert again is not None
        assert (again.run.number, again.open) == (2, ["n2"])

    drive(test)


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


def test_budgets_are_kept_in_the_first_instant_after_a_restart() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        controller.cluster.budget_changed(
            None,
            {"metadata": {"namespace": "lab", "name": "keep"}, "spec": {"selector": {"matchLabels": {"app": "x"}}}},
        )
        for name in ("kept", "other"):
            there = pod(name, gpus=2, nodeName="n1", phase="Running", labels={"app": "x"} if name == "kept" else {})
            controller.cluster.pod_changed(None, there)
        controller.cluster.pod_changed(None, pod("urgent", gpus=2, cls="gfs-hp"))
        controller.step()
        state = controller.scheduler.pools["A100"].state
        assert [run.task.name for run in state.leaving] == ["lab/other"]

    drive(test)


def test_what_adopted_runs_hold_is_not_counted_twice() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        controller.cluster.pod_changed(None, pod("there", gpus=2, nodeName="n1", phase="Running"))
        controller.cluster.pod_changed(None, pod("urgent", gpus=2, cls="gfs-hp"))
        controller.step()
        await controller.settle()
        assert api.bound == [("urgent", "n1")], "nobody had to go"

    drive(test)


def in_team(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, gpus=1, schedulingGroup={"podGroupName": "team"}, **more)


def test_a_gang_that_is_found_began_with_its_last_pod_and_after_that_second() -> None:
    """Started at 0:10 and 0:25, cut to whole seconds: from 0:26 on all of it runs for sure."""

    async def test(controller: Controller, api: WillingApi) -> None:
        controller.cluster.group_changed(None, group("team", 2))
        for name, second in (("one", 10), ("two", 25)):
            found = in_team(name, nodeName="n1", phase="Running")
            found["status"]["startTime"] = f"2026-01-01T00:00:{second}Z"
            controller.cluster.pod_changed(None, found)
        controller.step()
        [run] = controller.scheduler.pools["A100"].state.runs.values()
        assert run.start == datetime(2026, 1, 1, 0, 0, 26, tzinfo=UTC).timestamp()

    drive(test)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one after the other"])
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "kept waiting"])
def test_a_gang_that_another_scheduler_bound_is_adopted_by_a_shadow(at_once: bool, planned: bool) -> None:
    shadow = Shadow()

    async def test(controller: Controller, api: WillingApi) -> None:
        controller.cluster.group_changed(None, group("team", 2))
        names = ("a", "b", "c")
        for name in names if planned else ():
            controller.cluster.pod_changed(None, in_team(name))
        controller.step()
        for name in names:
            controller.cluster.pod_changed(in_team(name), in_team(name, nodeName="n1", phase="Running"))
            if not at_once:
                controller.step()
        for _ in range(3):
            controller.step()
        runs = controller.scheduler.pools["A100"].state.runs.values()
        assert sorted(run.pods for run in runs) == [1, 2], "the minimum, and the pod beyond it"
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        assert shadow.summary()["would_evict"] == 3
        assert not api.bound

    drive(test, shadow)


def test_after_a_restart_a_gang_and_the_pods_beyond_it_are_what_they_were() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        controller.cluster.group_changed(None, group("team", 2))
        for name, task in (("c", "lab/team/c"), ("a", "lab/team"), ("b", "lab/team")):
            notes = {"gfs.dev/task": task, "gfs.dev/run": "1"}
            controller.cluster.pod_changed(None, in_team(name, nodeName="n1", phase="Running", annotations=notes))
        controller.cluster.pod_changed(None, in_team("d"))
        for _ in range(3):
            controller.step()
            await controller.settle()
        assert api.bound == [("d", "n1")], "it waited for nothing but the restart"
        runs = controller.scheduler.pools["A100"].state.runs.values()
        assert {run.task.name: run.pods for run in runs} == {"lab/team": 2, "lab/team/c": 1, "lab/team/d": 1}

    drive(test)


def test_who_may_not_decide_any_more_does_not() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        controller.cluster.pod_changed(None, pod("late", gpus=4))
        await controller.run(lambda now: None, lambda: False)
        assert not controller.decisions

    drive(test)


def test_a_victim_whose_binding_was_not_answered_yet_comes_back_as_the_same_task() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        answered = asyncio.Event()

        async def bind(namespace: str, name: str, uid: str, node: str, notes: dict[str, str]) -> None:
            await answered.wait()

        api.bind = bind  # type: ignore[method-assign]
        first = owned("train-1", gpus=4)
        controller.cluster.pod_changed(None, first)
        controller.step()
        bound = owned("train-1", gpus=4, nodeName="n1", phase="Running")
        controller.cluster.pod_changed(first, bound)
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        answered.set()
        await controller.settle()
        task = controller.book.by_name["lab/train"]
        controller.cluster.pod_changed(bound, None)
        controller.step()
        controller.cluster.pod_changed(None, owned("train-2", gpus=4))
        controller.step()
        await controller.settle()
        assert controller.book.by_pod["uid-train-2"] is task

    drive(test)


def test_of_a_flood_500_tasks_are_decided_in_an_instant_and_hp_comes_first() -> None:
    """1,200 pods at once for four GPUs, four of them HP and the last to come: all are known after three instants."""

    async def test(controller: Controller, api: WillingApi) -> None:
        for number in range(1196):
            controller.cluster.pod_changed(None, pod(f"spot-{number:04}"))
        for number in range(4):
            controller.cluster.pod_changed(None, pod(f"urgent-{number}", cls="gfs-hp", created="2026-01-01T01:00:00Z"))
        for known in (500, 1000, 1200):
            controller.step()
            await controller.settle()
            assert sum(task.told for task in controller.book.by_key.values()) == known
            assert controller.changed.is_set() or known == 1200, "the rest is not forgotten"
        assert {name for name, _ in api.bound} == {f"urgent-{number}" for number in range(4)}, "nobody was evicted"

    drive(test)


def test_while_bindings_are_behind_only_hp_is_decided_on() -> None:
    """400 bindings are not answered: of 600 new spot pods none is told to the core, the one HP pod at once. When 250
    have been answered, spot pods are told again, in order of their creation, as many as leave 500 in all."""

    async def test(controller: Controller, api: WillingApi) -> None:
        for number in range(600):
            controller.cluster.pod_changed(None, pod(f"spot-{number:04}"))
        controller.cluster.pod_changed(None, pod("urgent", cls="gfs-hp", created="2026-01-01T01:00:00Z"))
        controller.intake.under_way = lambda: 400
        controller.step()
        told = [task.name for task in controller.book.by_key.values() if task.told]
        assert told == ["lab/urgent"]
        assert controller.changed.is_set(), "the rest is not forgotten"
        controller.intake.under_way = lambda: 150
        controller.step()
        told = [task.name for task in controller.book.by_key.values() if task.told]
        assert told == [f"lab/spot-{number:04}" for number in range(350)] + ["lab/urgent"]
        controller.intake.under_way = lambda: 0
        controller.step()
        assert all(task.told for task in controller.book.by_key.values())
        await controller.settle()

    drive(test)


def test_pods_of_one_job_are_told_apart_without_looking_at_each() -> None:
    """Each of its pods is a task; one that comes back takes the place of the one that went, whichever that was."""

    async def test(controller: Controller, api: WillingApi) -> None:
        pods = {number: owned(f"train-{number}") for number in range(6)}
        for each in pods.values():
            controller.cluster.pod_changed(None, each)
        controller.step()
        await controller.settle()
        assert len(api.bound) == 4
        for name, place in api.bound:
            number = int(name.removeprefix("train-"))
            controller.cluster.pod_changed(pods[number], owned(name, nodeName=place, phase="Running"))
        controller.step()
        gone, _ = api.bound[2]
        task = controller.book.by_pod[f"uid-{gone}"]
        controller.cluster.pod_changed(owned(gone, nodeName="n1", phase="Failed"), None)
        controller.step()
        controller.cluster.pod_changed(None, owned("train-again"))
        controller.step()
        assert controller.book.by_pod["uid-train-again"] is task
        names = {each.name for each in controller.book.by_key.values()}
        assert names == {"lab/train", *(f"lab/train/{number}" for number in range(1, 6))}

    drive(test)


def member(name: str, bare: bool = False, **more: Any) -> dict[str, Any]:
    made = pod if bare else owned
    return made(name, gpus=4, schedulingGroup={"podGroupName": "team"}, **more)


def test_a_pod_that_is_created_again_in_a_running_gang_is_bound_where_the_old_one_was() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        cluster = controller.cluster
        cluster.node_changed(None, node("n2", gpus=4))
        cluster.group_changed(None, group("team", 2))
        for name in "ab":
            cluster.pod_changed(None, member(name))
        controller.step()
        await controller.settle()
        where = dict(api.bound)
        for name in "ab":
            cluster.pod_changed(None, member(name, nodeName=where[name], phase="Running"))
        controller.step()
        cluster.pod_changed(None, member("a", nodeName=where["a"], phase="Failed"))
        controller.step()
        cluster.pod_changed(None, member("c"))
        controller.step()
        await controller.settle()
        assert api.bound[2:] == [("c", where["a"])]

    drive(test)


def test_the_rest_of_a_gang_of_bare_pods_joins_those_that_are_bound_and_they_are_one_run() -> None:
    async def test(controller: Controller, api: WillingApi) -> None:
        cluster = controller.cluster
        cluster.node_changed(None, node("n2", gpus=4))
        cluster.group_changed(None, group("team", 2))
        cluster.pod_changed(None, member("a", bare=True, nodeName="n1", phase="Running"))
        cluster.pod_changed(None, member("b", bare=True))
        for _ in range(2):
            controller.step()
            await controller.settle()
        assert api.bound == [("b", "n2")]
        cluster.pod_changed(None, member("b", bare=True, nodeName="n2", phase="Running"))
        for _ in range(3):
            controller.step()
            await controller.settle()
        (run,) = controller.book.of_run.values()
        assert (run.run.task.pods, sorted(run.pods.values())) == (2, ["n1", "n2"])
        assert sorted(place.name for place in run.run.nodes) == ["n1", "n2"]

    drive(test)


def test_a_victim_that_is_done_before_it_is_stopped_is_not_waited_for() -> None:
    """Its Job does not create it again: the GPUs that come free are everybody's."""

    async def test(controller: Controller, api: WillingApi) -> None:
        cluster = controller.cluster
        first, runs = owned("first", gpus=4), owned("first", gpus=4, nodeName="n1", phase="Running")
        cluster.pod_changed(None, first)
        controller.step()
        await controller.settle()
        cluster.pod_changed(first, runs)
        cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        await controller.settle()
        done = owned("first", gpus=4, nodeName="n1", phase="Succeeded")
        cluster.pod_changed(runs, done)
        controller.step()
        await controller.settle()
        urgent = pod("urgent", gpus=4, cls="gfs-hp", nodeName="n1", phase="Running")
        cluster.pod_changed(None, urgent)
        controller.step()
        cluster.pod_changed(urgent, pod("urgent", gpus=4, cls="gfs-hp", nodeName="n1", phase="Succeeded"))
        cluster.pod_changed(None, pod("next", gpus=4))
        controller.step()
        await controller.settle()
        assert [name for name, _ in api.bound] == ["first", "urgent", "next"]
        assert list(controller.book.by_name) == ["lab/next"]

    drive(test)
