"""The table of the controller: every pair of what the core was told and what is seen, by a small scenario each; and
`observe` as a pure function, with worked numbers.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from objects import group, node, owned, pod

from fake_cluster import FakeServer, Replica, stamp
from gfs.live import tasks
from gfs.live.mirror import Mirror
from gfs.live.observe import CORE, Observation, observe
from gfs.live.overlay import Overlay
from gfs.live.settings import LiveSettings
from gfs.live.table import TABLE, Observed, Phase, Step
from gfs.live.translate.gangs import NATIVE, GroupName

UNKNOWN, WAITING, PLANNED, RUNNING = Phase
NONE, WAITS, CHANGED, RUNS, FEWER, ELSEWHERE = Observed

UNREACHABLE = {
    (UNKNOWN, WAITS): "`WAITS` means as the core knows them: while it knows none, pods that wait are `CHANGED`",
    (UNKNOWN, RUNS): "`RUNS` means where the core has them: it has nothing yet, so bound pods are `ELSEWHERE`",
    (UNKNOWN, FEWER): "the same",
    (WAITING, RUNS): "the core has no places of a task that waits: bound pods are `ELSEWHERE`",
    (WAITING, FEWER): "the same",
    (PLANNED, FEWER): "the bound pods of a plan are its own until it ends; those of another one are `ELSEWHERE`",
    (RUNNING, WAITS): "pods that wait are not those that run: they are `CHANGED`",
}
"""Pairs that the table has an answer for all the same: a pair without one would stop the controller."""


class World:
    """A cluster of one node of 4 GPUs, and its controller."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.server.put_node(node("n1", gpus=4))
        self.replica: Replica

    def start(self) -> None:
        self.replica = Replica(self.server, LiveSettings())

    async def rest(self) -> None:
        await self.replica.rest()

    def gang(self, minimum: int, *names: str, **more: Any) -> None:
        self.server.put_group(group("g", minimum))
        for name in names:
            self.server.put_pod(pod(name, schedulingGroup={"podGroupName": "g"}, **more))


Act = Callable[[World], Awaitable[None]]


async def pod_gone_that_was_bound_to_a_node_without_gpus(world: World) -> None:
    """What it holds there concerns nobody: the core was never told of it."""
    world.server.put_pod(pod("a"))
    world.server.bind_by_hand("lab/a", "n9")
    world.start()
    await world.rest()
    world.server.remove_pod("lab/a")
    await world.rest()


async def new_pod(world: World) -> None:
    world.server.put_pod(pod("a"))
    world.start()
    await world.rest()


async def bound_pod_at_start(world: World) -> None:
    world.server.put_pod(pod("a"))
    world.server.bind_by_hand("lab/a", "n1")
    world.start()
    await world.rest()


async def _one_that_waits(world: World) -> None:
    world.server.put_pod(pod("a", gpus=8))
    world.start()
    await world.rest()


async def waiting_pod_deleted(world: World) -> None:
    await _one_that_waits(world)
    world.server.delete_pod("lab/a")
    await world.rest()


async def waiting_pod_looked_at_again(world: World) -> None:
    await _one_that_waits(world)
    world.replica.controller.mirror.look_at_all()
    await world.rest()


async def waiting_pod_asks_for_less(world: World) -> None:
    await _one_that_waits(world)
    smaller = copy.deepcopy(world.server.pods["lab/a"])
    smaller["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "250m"
    world.server.put_pod(smaller)
    await world.rest()


async def waiting_pod_bound_by_another_scheduler(world: World) -> None:
    await _one_that_waits(world)
    world.server.bind_by_hand("lab/a", "n1")
    await world.rest()


async def _one_that_is_planned(world: World) -> None:
    """An HP pod waits until its victim has left n1."""
    world.server.put_pod(pod("victim", gpus=4))
    world.start()
    await world.rest()
    world.server.put_pod(pod("a", gpus=4, cls="gfs-hp"))
    await world.rest()


async def planned_pod_deleted(world: World) -> None:
    await _one_that_is_planned(world)
    world.server.delete_pod("lab/a")
    await world.rest()


async def planned_pod_looked_at_again(world: World) -> None:
    await _one_that_is_planned(world)
    world.replica.controller.mirror.look_at_all()
    await world.rest()


async def node_of_a_plan_cordoned(world: World) -> None:
    await _one_that_is_planned(world)
    world.server.put_node(node("n1", gpus=4, unschedulable=True))
    await world.rest()


async def planned_pod_bound(world: World) -> None:
    world.server.put_pod(pod("a"))
    world.start()
    await world.rest()


async def planned_pod_bound_elsewhere(world: World) -> None:
    await _one_that_is_planned(world)
    world.server.put_node(node("n2", gpus=4))
    world.server.bind_by_hand("lab/a", "n2")
    await world.rest()


async def running_pod_gone(world: World) -> None:
    await new_pod(world)
    world.server.remove_pod("lab/a")
    await world.rest()


async def gang_created_again(world: World) -> None:
    """All pods of a gang of a Job fail, and others take their place in the same instant."""
    world.server.put_group(group("g", 2))
    for name in ("a", "b"):
        world.server.put_pod(owned(name, schedulingGroup={"podGroupName": "g"}))
    world.start()
    await world.rest()
    for name in ("a", "b"):
        world.server.remove_pod(f"lab/{name}")
    for name in ("c", "d"):
        world.server.put_pod(owned(name, schedulingGroup={"podGroupName": "g"}))
    await world.rest()


async def running_pod_looked_at_again(world: World) -> None:
    await new_pod(world)
    world.replica.controller.mirror.look_at_all()
    await world.rest()


async def one_of_a_gang_done(world: World) -> None:
    world.gang(2, "a", "b")
    world.start()
    await world.rest()
    world.server.set_phase("lab/a", "Succeeded")
    await world.rest()


async def node_of_a_run_relabelled(world: World) -> None:
    await new_pod(world)
    world.server.put_node(node("n1", gpus=4, model="H100"))
    await world.rest()


SCENARIOS: dict[tuple[Phase, Observed], Act] = {
    (UNKNOWN, NONE): pod_gone_that_was_bound_to_a_node_without_gpus,
    (UNKNOWN, CHANGED): new_pod,
    (UNKNOWN, ELSEWHERE): bound_pod_at_start,
    (WAITING, NONE): waiting_pod_deleted,
    (WAITING, WAITS): waiting_pod_looked_at_again,
    (WAITING, CHANGED): waiting_pod_asks_for_less,
    (WAITING, ELSEWHERE): waiting_pod_bound_by_another_scheduler,
    (PLANNED, NONE): planned_pod_deleted,
    (PLANNED, WAITS): planned_pod_looked_at_again,
    (PLANNED, CHANGED): node_of_a_plan_cordoned,
    (PLANNED, RUNS): planned_pod_bound,
    (PLANNED, ELSEWHERE): planned_pod_bound_elsewhere,
    (RUNNING, NONE): running_pod_gone,
    (RUNNING, CHANGED): gang_created_again,
    (RUNNING, RUNS): running_pod_looked_at_again,
    (RUNNING, FEWER): one_of_a_gang_done,
    (RUNNING, ELSEWHERE): node_of_a_run_relabelled,
}


def test_every_pair_is_in_the_table_and_has_a_scenario_or_a_reason_why_it_cannot_be() -> None:
    pairs = {(phase, observed) for phase in Phase for observed in Observed}
    assert TABLE.keys() == pairs
    assert SCENARIOS.keys() | UNREACHABLE.keys() == pairs
    assert not SCENARIOS.keys() & UNREACHABLE.keys()


def test_the_table_leaves_the_core_with_what_is_seen() -> None:
    """Whatever the core was phase, after the steps it knows of pods that wait, of bound ones, or of none."""
    after = {Step.SUBMIT: WAITING, Step.ADOPT: RUNNING, Step.CANCEL: UNKNOWN, Step.BEGIN: RUNNING, Step.END: UNKNOWN}
    for (phase, observed), steps in TABLE.items():
        known = phase
        for step in steps:
            known = after.get(step, known)
        waits = (WAITING, PLANNED) if phase is PLANNED and observed is WAITS else (WAITING,)
        expected = (UNKNOWN,) if observed is NONE else waits if observed in (WAITS, CHANGED) else (RUNNING,)
        assert known in expected, (phase, observed)


@pytest.mark.parametrize("pair", SCENARIOS, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
def test_a_scenario_meets_its_pair(pair: tuple[Phase, Observed], monkeypatch: pytest.MonkeyPatch) -> None:
    met: set[tuple[Phase, Observed]] = set()

    class Watched(dict[tuple[Phase, Observed], tuple[Step, ...]]):
        def __getitem__(self, key: tuple[Phase, Observed]) -> tuple[Step, ...]:
            met.add(key)
            return super().__getitem__(key)

    monkeypatch.setattr(tasks, "TABLE", Watched(TABLE))

    async def story() -> None:
        await SCENARIOS[pair](World())

    asyncio.run(story())
    assert pair in met
    assert met.isdisjoint(UNREACHABLE)


# -- observe ---------------------------------------------------------------------------------------

G = GroupName(NATIVE, "lab", "g")


class Scene:
    """A gang of minimum `minimum`, and what is seen of it."""

    def __init__(self, minimum: int) -> None:
        self.mirror = Mirror(LiveSettings())
        self.overlay = Overlay(self.mirror, lambda: 0.0)
        self.mirror.node_changed(None, node("n1"))
        self.mirror.group_changed(None, group("g", minimum))

    def member(self, name: str, **more: Any) -> None:
        more.setdefault("gpus", 1)
        self.mirror.pod_changed(None, pod(name, schedulingGroup={"podGroupName": "g"}, **more))

    def bound(self, name: str, **more: Any) -> None:
        notes = {"gfs.dev/task": "lab/g", "gfs.dev/run": "1"}
        self.member(name, nodeName="n1", annotations=notes, **{"phase": "Running", **more})

    def look(self, *planned: str, together: bool = False) -> Observation:
        return observe(self.mirror, self.overlay, G, planned, together=together)


def waiting(found: Observation) -> dict[str, str]:
    return {slot: "".join(pod.name for pod in seen.pods) for slot, seen in found.waiting.items()}


def running(found: Observation) -> dict[str, str]:
    return {name: "".join(pod.name for pod in seen.pods) for name, seen in found.bound.items()}


def why(found: Observation) -> dict[str, str]:
    return {uid.removeprefix("uid-"): f"{waits.reason}: {waits.text}" for uid, waits in found.waits.items()}


def test_below_the_minimum_all_pods_wait_for_the_gang() -> None:
    scene = Scene(minimum=3)
    scene.member("a")
    scene.member("b")
    found = scene.look()
    assert waiting(found) == {}
    words = "WaitsForGang: 2 of the 3 pods that its gang needs are there"
    assert why(found) == {"a": words, "b": words}


def test_the_first_pods_are_the_core_and_others_wait_until_it_has_started() -> None:
    scene = Scene(minimum=2)
    for name in "abc":
        scene.member(name)
    found = scene.look()
    assert waiting(found) == {CORE: "ab"}
    assert why(found) == {"c": "WaitsForGang: its gang has not started yet"}


def test_pods_beyond_the_minimum_are_tasks_of_their_own_once_the_gang_runs() -> None:
    scene = Scene(minimum=2)
    scene.bound("a")
    scene.bound("b")
    scene.member("c")
    found = scene.look()
    assert running(found) == {"lab/g": "ab"}
    assert waiting(found) == {"uid-c": "c"}


def test_pods_that_have_succeeded_count_for_the_minimum_and_hold_nothing() -> None:
    """3 are needed, 1 has succeeded: 2 must start together."""
    scene = Scene(minimum=3)
    scene.bound("a", phase="Succeeded")
    for name in "bcd":
        scene.member(name)
    found = scene.look()
    assert running(found) == {}
    assert waiting(found) == {CORE: "bc"}


def test_a_gang_of_which_all_have_succeeded_has_no_task() -> None:
    scene = Scene(minimum=2)
    scene.bound("a", phase="Succeeded")
    scene.bound("b", phase="Succeeded")
    assert scene.look() == Observation()


def test_pods_that_have_failed_count_for_nothing() -> None:
    scene = Scene(minimum=2)
    scene.bound("a", phase="Failed")
    scene.member("b")
    assert why(scene.look()) == {"b": "WaitsForGang: 1 of the 2 pods that its gang needs are there"}


def test_pods_that_are_deleted_hold_what_they_have_and_count_for_no_minimum() -> None:
    """2 are needed; of a and b, which run, a is being deleted: with c there are 2 again."""
    scene = Scene(minimum=2)
    scene.bound("a", deletionTimestamp=stamp(1000.0))
    scene.bound("b")
    found = scene.look()
    assert running(found) == {"lab/g": "ab"}
    scene.member("c")
    assert waiting(scene.look()) == {"uid-c": "c"}
    scene.mirror.pod_changed(None, pod("d", deletionTimestamp=stamp(1000.0), schedulingGroup={"podGroupName": "g"}))
    assert "uid-d" not in waiting(scene.look())


def test_a_pod_that_is_deleted_starts_no_gang() -> None:
    """2 are needed; a is being deleted: b alone is not enough, whatever room there is."""
    scene = Scene(minimum=2)
    scene.bound("a", deletionTimestamp=stamp(1000.0))
    scene.member("b")
    assert waiting(scene.look()) == {}
    assert why(scene.look()) == {"b": "WaitsForGang: 1 of the 2 pods that its gang needs are there"}


def test_evicted_pods_are_no_part_of_the_run() -> None:
    """Both pods of the core were evicted: two others must start together again."""
    scene = Scene(minimum=2)
    for name in "ab":
        scene.bound(name)
        scene.overlay.evictions[f"uid-{name}"] = None
    scene.member("c")
    assert why(scene.look()) == {"c": "WaitsForGang: 1 of the 2 pods that its gang needs are there"}
    scene.member("d")
    found = scene.look()
    assert running(found) == {}
    assert waiting(found) == {CORE: "cd"}


def test_a_pod_that_differs_from_most_is_refused_until_the_gang_runs() -> None:
    scene = Scene(minimum=2)
    scene.member("a", gpus=2)
    scene.member("b")
    scene.member("c")
    found = scene.look()
    assert waiting(found) == {CORE: "bc"}
    assert why(found) == {"a": "Refused: it asks for something else than the other pods of its gang"}
    scene.bound("d")
    assert waiting(scene.look()) == {"uid-a": "a", "uid-b": "b", "uid-c": "c"}


def test_while_a_core_is_being_bound_others_wait() -> None:
    """a is bound, the binding of b is under way."""
    scene = Scene(minimum=2)
    scene.bound("a")
    scene.member("b")
    scene.member("c")
    found = scene.look("uid-a", "uid-b", together=True)
    assert waiting(found) == {}
    assert why(found) == {"c": "WaitsForGang: its gang has not started yet"}


def test_the_binding_of_one_pod_keeps_no_other_waiting_if_the_gang_runs() -> None:
    """Of 3 pods that are needed 1 runs and 2 were created again: b is being bound, c is a task of its own."""
    scene = Scene(minimum=3)
    scene.bound("a")
    scene.member("b")
    scene.member("c")
    assert waiting(scene.look("uid-b")) == {"uid-c": "c"}


def test_a_group_of_minimum_1_has_a_task_for_each_pod() -> None:
    scene = Scene(minimum=1)
    scene.member("a")
    scene.member("b")
    assert waiting(scene.look()) == {"uid-a": "a", "uid-b": "b"}


def test_without_its_group_a_pod_is_refused() -> None:
    scene = Scene(minimum=1)
    scene.member("a")
    scene.mirror.group_changed(group("g", 1), None)
    assert why(scene.look()) == {"a": "Refused: its PodGroup g is not there"}


def test_looking_changes_nothing() -> None:
    scene = Scene(minimum=2)
    for name in "abc":
        scene.member(name)
    first = scene.look()
    assert scene.look() == first
