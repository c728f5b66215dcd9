"""Requests that fail while the controller decides: nothing is given away twice, forgotten, or done against its will."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from objects import group, node, owned, pod
from test_controller import SETTINGS, WillingApi, drive, member
from test_record import began, opened, rows, spot, told

from gfs.assembly.parameters import Parameters
from gfs.core.actions import START, SUBMIT
from gfs.domain.node import NodeSpec
from gfs.live import bind, stop
from gfs.live.api import Api
from gfs.live.clock import WallClock
from gfs.live.controller import Controller
from gfs.live.problems import Conflict, Invalid, NotFound, TooMany, Unreachable
from gfs.live.service import new_scheduler
from gfs.live.settings import LIVE_DEFAULTS
from hand import Hand


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long before it is tried again."""
    monkeypatch.setattr(stop, "PAUSE", 0.0)
    monkeypatch.setattr(bind, "LOOK_AGAIN", 0.0)


class FaultyApi(WillingApi):
    """Answers of some requests are given beforehand; an error is raised."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, list[Any]] = {}
        self.asked: list[str] = []

    async def bind(self, namespace: str, name: str, uid: str, node: str, notes: dict[str, str]) -> None:
        self._next("bind")
        await super().bind(namespace, name, uid, node, notes)

    def _next(self, what: str) -> Any:
        self.asked.append(what)
        answers = self.answers.get(what)
        answer = answers.pop(0) if answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __getattr__(self, name: str) -> Callable[..., Awaitable[dict[str, Any]]]:
        async def answer(*_: Any, **__: Any) -> Any:
            return self._next(name)

        return answer


def faulty(test: Callable[[Controller, FaultyApi], Awaitable[None]]) -> None:
    drive(cast(Callable[[Controller, WillingApi], Awaitable[None]], test), api=FaultyApi())


def test_a_victim_is_deleted_though_its_mark_or_its_deletion_met_a_conflict() -> None:
    """A conflict means that the pod has changed, or that another has its name: only the second is the end of it."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        controller.cluster.pod_changed(None, pod("victim", gpus=4, nodeName="n1", phase="Running"))
        controller.step()
        api.answers = {
            "patch": [Conflict("changed"), {}],
            "delete": [Conflict("changed"), {}],
            "find": [{"metadata": {"uid": "uid-victim"}}] * 2,
        }
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        await controller.settle()
        assert api.asked.count("delete") == 2
        assert controller.evictor.evicted == 1

    faulty(test)


@pytest.mark.parametrize("answered", [True, False])
def test_a_victim_whose_deletion_was_not_answered_and_that_is_gone_counts_as_evicted(answered: bool) -> None:
    """The request may have been carried out; where it was refused, somebody else has deleted the pod."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        controller.cluster.pod_changed(None, pod("victim", gpus=4, nodeName="n1", phase="Running"))
        controller.step()
        lost = TooMany("later") if answered else Unreachable("timed out")
        api.answers = {"delete": [lost, NotFound("gone")]}
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        await controller.settle()
        assert api.asked.count("delete") == 2
        assert controller.evictor.evicted == (0 if answered else 1)

    faulty(test)


def test_a_pod_of_the_same_name_is_left_alone() -> None:
    async def test(controller: Controller, api: FaultyApi) -> None:
        controller.cluster.pod_changed(None, pod("victim", gpus=4, nodeName="n1", phase="Running"))
        controller.step()
        api.answers = {"delete": [Conflict("another")], "find": [{"metadata": {"uid": "uid-of-another"}}]}
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        await controller.settle()
        assert api.asked.count("delete") == 1

    faulty(test)


def test_nobody_gets_the_room_of_a_binding_of_which_nothing_is_known() -> None:
    """Neither the binding nor the first three looks are answered; then it turns out to be bound."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        silence = Unreachable("no answer")
        api.answers = {"bind": [silence], "find": [silence, silence, silence, {"spec": {"nodeName": "n1"}}]}
        controller.cluster.pod_changed(None, pod("first", gpus=4))
        controller.step()
        await controller.settle()
        assert api.asked.count("find") == 4
        (run,) = controller.book.of_run.values()
        assert run.bound == {"uid-first"}
        assert api.asked.count("bind") == 1, "it is not bound twice"

    faulty(test)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_a_binding_is_repeated_only_where_its_node_still_takes_pods(closed: bool) -> None:
    async def test(controller: Controller, api: FaultyApi) -> None:
        api.answers = {"bind": [TooMany("later", retry_after=0.01)]}
        controller.cluster.pod_changed(None, pod("first", gpus=4))
        controller.step()
        if closed:
            controller.cluster.node_changed(None, node("n1", gpus=4, unschedulable=True))
        for job in list(controller._jobs):
            if "_bind" in repr(job):
                await job
        assert api.bound == ([] if closed else [("first", "n1")])
        await controller.close(0.0)

    faulty(test)


def test_what_was_under_way_ends_with_the_controller() -> None:
    """Whoever leads next decides anew: a victim of an old decision is not to be deleted."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        controller.cluster.pod_changed(None, pod("victim", gpus=4, nodeName="n1", phase="Running"))
        controller.step()
        api.answers = {"delete": [Unreachable("no answer")] * 10**6}
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        while "delete" not in api.asked:
            await asyncio.sleep(0)
        await controller.close(0.0)
        api.asked.clear()
        await asyncio.sleep(0.01)
        assert not api.asked

    faulty(test)


def test_nothing_is_decided_while_a_watch_is_broken() -> None:
    async def test(controller: Controller, api: FaultyApi) -> None:
        current, steps = [False], []
        controller.binder.current = lambda: current[0]
        controller.cluster.pod_changed(None, pod("first", gpus=4))
        running = asyncio.create_task(controller.run(steps.append))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not steps
        current[0] = True
        while not api.bound:
            await asyncio.sleep(0.01)
        running.cancel()

    faulty(test)


def test_a_task_whose_pods_never_come_back_holds_no_gpus() -> None:
    """Its Job was deleted after the eviction. The core has room for it again and again; 31 s later it is withdrawn."""
    now = [0.0]

    async def test(controller: Controller, api: FaultyApi) -> None:
        cluster = controller.cluster
        cluster.pod_changed(None, owned("gone", gpus=4, nodeName="n1", phase="Running"))
        controller.step()
        cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        await controller.settle()
        cluster.pod_changed(owned("gone", gpus=4, nodeName="n1", phase="Failed"), None)
        controller.step()
        await controller.settle()
        cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp", nodeName="n1", phase="Succeeded"))
        for _ in range(8):
            controller.step()
            await controller.settle()
            now[0] += 10.0
        (pool,) = controller.scheduler.pools.values()
        assert not pool.state.runs
        assert pool.state.pool.idle == 4

    drive(cast(Any, test), api=FaultyApi(), monotonic=lambda: now[0])


def test_of_a_gang_that_was_stopped_only_those_start_again_that_have_not_succeeded() -> None:
    async def test(controller: Controller, api: FaultyApi) -> None:
        cluster = controller.cluster
        cluster.node_changed(None, node("n2", gpus=4))
        cluster.group_changed(None, group("team", 2))
        for name, where in (("a", "n1"), ("b", "n2")):
            cluster.pod_changed(None, member(name, nodeName=where, phase="Running"))
        controller.step()
        cluster.pod_changed(None, member("a", nodeName="n1", phase="Succeeded"))
        controller.step()
        cluster.pod_changed(None, member("b", nodeName="n2", phase="Failed"))
        controller.step()
        cluster.pod_changed(None, member("c"))
        for _ in range(2):
            controller.step()
            await controller.settle()
        assert [name for name, _ in api.bound] == ["c"]

    faulty(test)


def test_an_eviction_that_a_saved_state_knows_is_brought_to_its_end() -> None:
    """Killed between the decision and the deletion: the victim still runs."""
    notes = {"gfs.dev/task": "lab/victim", "gfs.dev/run": "1", "gfs.dev/submitted": "2026-01-01T00:00:00Z"}
    victim = pod("victim", gpus=4, nodeName="n1", phase="Running", annotations=notes)
    urgent = pod("urgent", gpus=4, cls="gfs-hp")
    saved: list[Any] = []

    async def before(controller: Controller, api: FaultyApi) -> None:
        controller.cluster.pod_changed(None, victim)
        controller.step()
        controller.cluster.pod_changed(None, urgent)
        controller.step()
        saved.append(controller.scheduler.facts())
        await controller.close(0.0)

    faulty(before)

    async def after() -> None:
        api, hand = FaultyApi(), Hand()
        controller = Controller(
            cast(Api, api), SETTINGS, tick=300.0, guarantee_hours=1.0, checkpoint_interval=3600.0, clock=hand,
            monotonic=hand,
        )  # fmt: skip
        controller.cluster.node_changed(None, node("n1", gpus=4))
        scheduler = new_scheduler(SETTINGS, Parameters(**{**LIVE_DEFAULTS, "quota": "none"}))
        scheduler.restore(saved[0])
        controller.cluster.pod_changed(None, victim)
        controller.cluster.pod_changed(None, urgent)
        controller.begin(scheduler, restored=True)
        controller.step()
        await controller.settle()
        assert "delete" in api.asked
        controller.cluster.pod_changed(victim, None)
        for _ in range(2):
            controller.step()
            await controller.settle()
        assert api.bound == [("urgent", "n1")]

    asyncio.run(after())


def test_time_is_not_before_that_of_a_saved_state(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = [10_000.0]
    monkeypatch.setattr("time.time", lambda: wall[0])
    monkeypatch.setattr("time.monotonic", lambda: 50.0)
    clock = WallClock()
    clock.not_before(13_600.0)  # the clock was set back by an hour before the restart
    assert clock.now() == 13_600.0
    assert clock.of_wall(9_940.0) == 13_540.0, "a minute ago"
    wall[0] += 3_600.0  # and is set again
    assert clock.now() == 13_600.0


def test_what_the_disk_does_not_take_is_written_later(tmp_path: Path) -> None:
    recorder = opened(tmp_path)
    recorder.record((0.0, SUBMIT, spot(), None, None))
    recorder.flush()
    recorder.record((10.0, START, spot(), began(), None))
    spec = NodeSpec(index=0, name="n1", gpu_model="A100", gpus=4)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "events.csv").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))  # ten bytes more and not one line
    try:
        recorder.flush([spec])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "events.csv").stat().st_size == size, "no half line"
    recorder.flush()
    assert told(tmp_path) == ["submit lab/train", "start lab/train 0"]
    assert [row["node_name"] for row in rows(tmp_path, "nodes.csv")] == ["n1"]


def test_the_rest_of_a_gang_of_bare_pods_goes_where_it_can_be_bound() -> None:
    """b was to go to n2 beside a on n1 and was refused; n2 is closed by then, and n3 has room."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        cluster = controller.cluster
        cluster.node_changed(None, node("n2", gpus=4))
        cluster.group_changed(None, group("team", 2))
        for name in "ab":
            cluster.pod_changed(None, member(name, bare=True))
        api.answers = {"bind": [{}, Invalid("refused")]}
        controller.step()
        for job in list(controller._jobs):
            if "Binder._bind" in repr(job):
                await job
        ((first, place),) = api.bound
        cluster.pod_changed(None, member(first, bare=True, nodeName=place, phase="Running"))
        (other,) = {"n1", "n2"} - {place}
        cluster.node_changed(None, node(other, gpus=4, unschedulable=True))
        cluster.node_changed(None, node("n3", gpus=4))
        while len(api.bound) < 2:
            controller.step()
            await asyncio.sleep(0.01)
        assert {where for _, where in api.bound} == {place, "n3"}
        await controller.close(0.0)

    faulty(test)


@pytest.mark.parametrize("bare", [False, True], ids=["of a controller", "bare"])
def test_a_pod_that_ran_without_the_rest_of_its_gang_and_succeeded_is_not_waited_for(bare: bool) -> None:
    """There is room for one of two pods. a was bound all the same, and is done: b is all that is left to start."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        cluster = controller.cluster
        cluster.group_changed(None, group("team", 2))
        for name in "ab":
            cluster.pod_changed(None, member(name, bare))
        controller.step()
        assert not api.bound
        cluster.pod_changed(None, member("a", bare, nodeName="n1", phase="Succeeded"))
        for _ in range(3):
            controller.step()
            await controller.settle()
        assert api.bound == [("b", "n1")]

    faulty(test)


def test_a_pod_that_has_succeeded_by_now_is_not_deleted() -> None:
    """The mirror is behind: what the mark's answer says counts. A success that is deleted could not be counted."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        controller.cluster.pod_changed(None, pod("victim", gpus=4, nodeName="n1", phase="Running"))
        controller.step()
        api.answers = {"patch": [{"status": {"phase": "Succeeded"}}]}
        controller.cluster.pod_changed(None, pod("urgent", gpus=4, cls="gfs-hp"))
        controller.step()
        await controller.settle()
        assert "delete" not in api.asked

    faulty(test)


@pytest.mark.parametrize("bare", [True, False], ids=["bare", "of a controller"])
def test_who_is_evicted_before_it_is_bound_and_then_is_not_bound_waits_on(bare: bool) -> None:
    """Its binding gets no answer, HP wants its place meanwhile, and it turns out that nothing was bound."""
    victim = pod("victim", gpus=4) if bare else owned("victim", gpus=4)

    async def test(controller: Controller, api: FaultyApi) -> None:
        api.answers = {"bind": [Unreachable("no answer")]}
        controller.cluster.pod_changed(None, victim)
        controller.step()  # the binding is under way
        urgent = pod("urgent", gpus=4, cls="gfs-hp")
        controller.cluster.pod_changed(None, urgent)
        for _ in range(3):
            controller.step()
            await controller.settle()
        assert api.bound == [("urgent", "n1")]
        assert "delete" not in api.asked
        controller.cluster.pod_changed(urgent, pod("urgent", gpus=4, cls="gfs-hp", nodeName="n1", phase="Succeeded"))
        for _ in range(3):
            controller.step()
            await controller.settle()
        assert api.bound == [("urgent", "n1"), ("victim", "n1")]

    faulty(test)


def restarted(saved: Any, world: Callable[[Controller], None]) -> list[tuple[str, str]]:
    """What is bound after a restart by a saved state, of what is in the cluster by then."""
    api, hand = FaultyApi(), Hand()

    async def main() -> None:
        controller = Controller(
            cast(Api, api), SETTINGS, tick=300.0, guarantee_hours=1.0, checkpoint_interval=3600.0, clock=hand,
            monotonic=hand,
        )  # fmt: skip
        controller.cluster.node_changed(None, node("n1", gpus=4))
        controller.cluster.group_changed(None, group("team", 2))
        scheduler = new_scheduler(SETTINGS, Parameters(**{**LIVE_DEFAULTS, "quota": "none"}))
        scheduler.restore(saved)
        world(controller)
        controller.begin(scheduler, restored=True)
        for _ in range(3):
            controller.step()
            await controller.settle()

    asyncio.run(main())
    return api.bound


@pytest.mark.parametrize("nodes", [1, 2], ids=["waited", "was about to start"])
def test_a_gang_that_a_saved_state_knows_whole_starts_with_what_is_left_of_it(nodes: int) -> None:
    """a and b waited for room, or were about to be bound, when the state was saved; a has run and succeeded since."""
    saved: list[Any] = []

    async def before(controller: Controller, api: FaultyApi) -> None:
        for name in ("n1", "n2")[:nodes]:
            controller.cluster.node_changed(None, node(name, gpus=4))
        controller.cluster.group_changed(None, group("team", 2))
        for name in "ab":
            controller.cluster.pod_changed(None, member(name))
        controller.step()
        saved.append(controller.scheduler.facts())
        await controller.close(0.0)

    def after(controller: Controller) -> None:
        controller.cluster.pod_changed(None, member("a", nodeName="n1", phase="Succeeded"))
        controller.cluster.pod_changed(None, member("b"))

    faulty(before)
    assert restarted(saved[0], after) == [("b", "n1")]


def run_of_which_one_succeeds_and_goes(controller: Controller) -> None:
    """a and b of a gang run; a succeeds although it is being deleted, and is gone; b fails."""
    cluster = controller.cluster
    cluster.node_changed(None, node("n2", gpus=4))
    cluster.group_changed(None, group("team", 2))
    for name, where in (("a", "n1"), ("b", "n2")):
        cluster.pod_changed(None, member(name, nodeName=where, phase="Running"))
    controller.step()
    done = member("a", nodeName="n1", phase="Succeeded", deletionTimestamp="now")
    cluster.pod_changed(None, done)
    cluster.pod_changed(done, None)
    controller.step()
    cluster.pod_changed(None, member("b", nodeName="n2", phase="Failed"))
    controller.step()


def test_who_has_succeeded_and_is_gone_is_not_waited_for() -> None:
    """The Job counts a as done and creates only b again."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        run_of_which_one_succeeds_and_goes(controller)
        controller.cluster.pod_changed(None, member("c"))
        for _ in range(2):
            controller.step()
            await controller.settle()
        assert [name for name, _ in api.bound] == ["c"]

    faulty(test)


@pytest.mark.parametrize(
    ("uid", "status", "bound"),
    [
        ("uid-of-train", {"succeeded": 1}, ["c"]),
        ("uid-of-train", {"uncountedTerminatedPods": {"succeeded": ["uid-a"]}}, ["c"]),
        ("uid-of-train", {}, []),
        ("uid-of-another", {"succeeded": 1}, []),
    ],
    ids=["counted", "about to be counted", "to come", "another Job"],
)
def test_nor_by_whoever_starts_after_it_has_gone(uid: str, status: dict[str, Any], bound: list[str]) -> None:
    """Of two pods that are to succeed together c is there, for longer than one look: its Job is asked for the other."""
    now = [0.0]

    async def test(controller: Controller, api: FaultyApi) -> None:
        job = {"metadata": {"uid": uid}, "spec": {"completions": 2}, "status": status}
        api.answers = {"find": [job]}
        controller.cluster.group_changed(None, group("team", 2))
        controller.cluster.pod_changed(None, member("c"))
        for _ in range(4):
            controller.step()
            await controller.settle()
            now[0] += 5.0
        assert [name for name, _ in api.bound] == bound
        assert api.asked.count("find") == 1, "it is not asked again and again"

    drive(cast(Any, test), api=FaultyApi(), monotonic=lambda: now[0])


def test_another_job_of_the_same_name_starts_whole() -> None:
    """What had succeeded was of the Job before."""

    async def test(controller: Controller, api: FaultyApi) -> None:
        run_of_which_one_succeeds_and_goes(controller)
        another = member("c")
        another["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another"
        controller.cluster.pod_changed(None, another)
        for _ in range(2):
            controller.step()
            await controller.settle()
        assert not api.bound, "it waits for the second pod"

    faulty(test)
