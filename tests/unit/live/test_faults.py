"""Requests that fail while the controller decides: nothing is given away twice, forgotten, or done against its will."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest
from objects import group, node, owned, pod
from story import SETTINGS, bound, condition, in_team, play, runs, state
from test_record import began, opened, rows, spot, told

from fake_cluster import FakeServer, Replica
from gfs.core.actions import START, SUBMIT
from gfs.domain.node import NodeSpec
from gfs.live import evict, gate, tasks
from gfs.live.clock import Clock
from gfs.live.mirror import Key, Mirror
from gfs.live.observe import Observation
from gfs.live.overlay import Overlay
from gfs.live.problems import ApiError, Conflict, NotFound, TooMany, Unavailable

URGENT = {"gpus": 4, "cls": "gfs-hp"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that failed is tried again at once."""
    monkeypatch.setattr(evict, "PAUSE", 0.0)
    monkeypatch.setattr(gate, "READ_AGAIN", 0.0)
    monkeypatch.setattr(gate, "PAUSE", 0.001)


async def running_victim(server: FakeServer, replica: Replica) -> None:
    """A spot pod runs on all GPUs."""
    server.put_pod(bound("victim", gpus=4))
    await replica.rest()


# -- evictions ----------------------------------------------------------------------------------------------


def test_a_victim_is_deleted_though_its_mark_and_its_deletion_met_a_conflict() -> None:
    """A conflict means that the pod has changed, or that another has its name: only the second is the end of it."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await running_victim(server, replica)
        server.failures = {"patch": [Conflict("changed")], "delete": [Conflict("changed")]}
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert server.asked["delete"] == 2
        assert server.deleted == ["victim"]
        assert replica.controller.evictor.evicted == 1

    play(story, silent=True)


@pytest.mark.parametrize("done", [True, False], ids=["was carried out", "another deleted it"])
def test_a_victim_whose_deletion_was_not_answered_and_that_is_gone_counts_as_evicted(done: bool) -> None:
    """The request may have been carried out; where it was refused, another one has deleted the pod."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await running_victim(server, replica)
        lost = Unavailable("timed out") if done else TooMany("later")
        server.failures = {"delete": [lost, NotFound("gone")]}
        server.put_pod(pod("urgent", **URGENT))
        await replica.step()
        assert server.asked["delete"] == 2
        assert replica.controller.evictor.evicted == (1 if done else 0)

    play(story)


def test_a_victim_whose_deletion_was_carried_out_without_an_answer_is_waited_for() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        await running_victim(server, replica)
        server.lost_answers = {"delete": [Unavailable("timed out")]}
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert not server.bound
        server.stop_deleted()
        await replica.rest()
        assert server.bound == [("urgent", "n1")]

    play(story)


def test_a_victim_whose_deletion_did_not_happen_counts_again_when_its_taker_has_gone() -> None:
    """The answer is lost, nothing was done, and then the HP pod goes: the next HP pod evicts the victim."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await running_victim(server, replica)

        async def taker_goes(path: str, **options: Any) -> Any:
            server.delete = deletes  # type: ignore[method-assign]
            server.remove_pod("lab/urgent")
            replica.show()
            raise Unavailable("no answer")

        deletes = server.delete
        server.delete = taker_goes  # type: ignore[method-assign]
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert server.deleted == []
        assert list(runs(replica)) == ["lab/victim"]
        server.put_pod(pod("next", **URGENT))
        await replica.rest()
        assert server.deleted == ["victim"]

    play(story, silent=True)


def test_another_pod_of_the_same_name_is_left_alone() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        await running_victim(server, replica)
        server.put_pod(pod("urgent", **URGENT))
        replica.show()
        replica.controller.step()
        server.remove_pod("lab/victim")
        server.put_pod(bound("victim", gpus=4))
        await replica.controller.finish_requests()
        assert not server.deleted

    play(story)


def test_a_pod_that_has_succeeded_by_now_is_not_deleted() -> None:
    """The mirror is behind: what the mark's answer says counts. A success that is deleted could not be counted."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await running_victim(server, replica)
        server.put_pod(pod("urgent", **URGENT))
        replica.show()
        server.set_phase("lab/victim", "Succeeded")
        replica.controller.step()
        await replica.controller.finish_requests()
        assert not server.asked["delete"]
        await replica.rest()
        assert server.bound == [("urgent", "n1")]

    play(story)


def test_what_is_under_way_ends_with_the_controller() -> None:
    """The next leader decides anew: a victim of an old decision is not to be deleted."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await running_victim(server, replica)
        server.failures = {"delete": [Unavailable("no answer")] * 10_000}
        server.put_pod(pod("urgent", **URGENT))
        replica.show()
        replica.controller.step()
        while not server.asked["delete"]:
            await asyncio.sleep(0)
        await replica.controller.close(0.0)
        server.asked.clear()
        await asyncio.sleep(0.01)
        assert not server.asked

    play(story)


def test_a_restart_between_a_decision_and_its_deletion_leads_to_the_same_decision() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        await running_victim(server, replica)
        server.hold("delete")
        server.hold("patch")
        server.put_pod(pod("urgent", **URGENT))
        replica.show()
        replica.controller.step()
        await asyncio.sleep(0)
        await replica.controller.close(0.0)
        server.held.clear()
        after = Replica(server, SETTINGS)
        await after.rest()
        assert server.deleted == ["victim"]
        server.stop_deleted()
        await after.rest()
        assert server.bound == [("urgent", "n1")]
        assert list(runs(after)) == ["lab/urgent"]

    play(story)


def test_a_restart_while_a_victim_leaves_keeps_the_place_for_the_pod_that_it_was_promised_to() -> None:
    """Its condition, its deletion and the nomination stand on the API objects: no second victim is looked for."""

    async def story(server: FakeServer, replica: Replica) -> None:
        for name, where in (("a", "n1"), ("b", "n2")):
            server.put_pod(bound(name, where, gpus=4))
        await replica.rest()
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        (victim,) = server.deleted
        after = Replica(server, SETTINGS)
        await after.rest()
        assert server.deleted == [victim]
        server.stop_deleted()
        await after.rest()
        assert server.bound == [("urgent", {"a": "n1", "b": "n2"}[victim])]

    play(story, node("n1", gpus=4), node("n2", gpus=4))


# -- bindings -----------------------------------------------------------------------------------------------


def test_no_other_pod_gets_the_room_of_a_binding_of_which_nothing_is_known() -> None:
    """Neither the binding nor the first three looks are answered; then it turns out to be bound."""

    async def story(server: FakeServer, replica: Replica) -> None:
        silence = Unavailable("no answer")
        server.lost_answers, server.failures = {"bind": [silence]}, {"find": [silence] * 3}
        server.put_pod(pod("first", gpus=4))
        replica.show()
        replica.controller.step()
        await asyncio.sleep(0)
        server.put_pod(pod("second", gpus=4))
        await replica.rest()
        assert server.asked["find"] == 4
        assert server.asked["bind"] == 1, "it is not bound twice"
        assert server.bound == [("first", "n1")]
        assert list(runs(replica)) == ["lab/first"]

    play(story, silent=True)


def test_an_unexpected_error_of_a_binding_does_not_give_its_room_away() -> None:
    """The pod is bound, the answer is lost, and the first look fails in a way that nobody thought of."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.lost_answers = {"bind": [Unavailable("no answer")]}
        server.failures = {"find": [ZeroDivisionError("by accident")]}  # type: ignore[list-item]
        server.put_pod(pod("first", gpus=4))
        replica.show()
        replica.controller.step()
        await asyncio.sleep(0)
        server.put_pod(pod("second", gpus=4))
        await replica.rest()
        assert server.bound == [("first", "n1")]
        assert list(runs(replica)) == ["lab/first"]

    play(story, silent=True)


def test_an_error_in_a_report_stops_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any) -> Any:
        raise ZeroDivisionError

    async def story(server: FakeServer, replica: Replica) -> None:
        monkeypatch.setattr(replica.controller.explainer, "look", wrong)
        server.put_pod(pod("first", gpus=4))
        await replica.rest()
        assert server.bound == [("first", "n1")]

    play(story)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_a_binding_is_repeated_only_where_its_node_still_takes_pods(closed: bool) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.failures = {"bind": [TooMany("later", retry_after=0.01)]}
        server.put_pod(pod("first", gpus=4))
        replica.show()
        replica.controller.step()
        server.put_node(node("n1", gpus=4, unschedulable=closed))
        replica.show()
        await replica.controller.finish_requests()
        assert server.bound == ([] if closed else [("first", "n1")])

    play(story)


def test_nothing_is_decided_while_a_watch_is_broken() -> None:
    current = [False]

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("first", gpus=4))
        replica.show()
        running = asyncio.create_task(replica.controller.run(lambda: True))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not replica.controller.decisions
        current[0] = True
        while not server.bound:
            await asyncio.sleep(0.01)
        running.cancel()

    play(story, is_current=lambda: current[0])


@pytest.mark.parametrize("bare", [True, False], ids=["bare", "of a controller"])
def test_a_pod_that_is_evicted_before_it_is_bound_and_then_is_not_bound_waits_on(bare: bool) -> None:
    """Its binding gets no answer, HP wants its place meanwhile, and it turns out that nothing was bound."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.failures = {"bind": [Unavailable("no answer")]}
        server.put_pod(pod("victim", gpus=4) if bare else owned("victim", gpus=4))
        replica.show()
        replica.controller.step()  # the binding is under way
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert server.bound == [("urgent", "n1")]
        assert not server.deleted
        server.set_phase("lab/urgent", "Succeeded")
        await replica.rest()
        assert server.bound == [("urgent", "n1"), ("victim", "n1")]

    play(story)


def test_a_start_that_failed_is_tried_again_after_a_pause_that_grows() -> None:
    """Refused three times: after 1, 2 and 4 s it is tried again, and not before."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.failures = {"bind": [ApiError("refused")] * 3}
        server.put_pod(pod("first", gpus=4))
        tried = []
        for second in range(10):
            server.hand.at = float(second)
            await replica.rest()
            tried.append(server.asked["bind"])
        assert tried == [1, 2, 2, 3, 3, 3, 3, 4, 4, 4]
        assert server.bound == [("first", "n1")]

    play(story, silent=True)


# -- gangs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bare", [False, True], ids=["of a Job", "bare"])
def test_of_a_gang_that_could_not_be_bound_whole_pods_that_come_back_are_taken_back(bare: bool) -> None:
    """Of two pods one is refused. The other is deleted if its owner creates it again, else it is held and said so."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 2, bare=bare))
        server.failures = {"bind": [ApiError("refused")]}
        await replica.rest()
        assert server.deleted == ([] if bare else ["b"])
        reasons = {each["reason"] for each in server.events}
        assert ("GangIncomplete" if bare else "GangTakenBack") in reasons
        if bare:
            assert server.bound == [("b", "n1"), ("a", "n1")], "the rest joins it when it can"
            return
        assert server.bound == [("b", "n1")], "a pod that is taken back counts for no minimum"
        assert condition(server, "b", "DisruptionTarget")["reason"] == "GangTakenBack"
        server.stop_deleted()
        server.put_pod(in_team("c", 2, bare=False))
        server.hand.at += 2.0
        await replica.rest()
        assert sorted(name for name, _ in server.bound[1:]) == ["a", "c"]

    play(story)


@pytest.mark.parametrize(
    ("refused", "ours", "deleted"),
    [(2, {"c"}, ["c"]), (0, {"b", "c"}, [])],
    ids=["b cannot be bound", "all are bound by now"],
)
def test_what_another_scheduler_bound_is_not_taken_back(refused: int, ours: set[str], deleted: list[str]) -> None:
    """Another scheduler is first with a, and binds it to n2. b is refused, or bound beside c."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 3))
        for name in "abc":
            server.put_pod(in_team(name, bare=False))
        server.failures = {"bind": [ApiError("refused")] * refused}
        turn = server.queue("bind")
        replica.show()
        replica.controller.step()
        server.put_node(node("n2", gpus=4))
        server.bind_by_hand("lab/a", "n2")
        turn.set()
        await replica.controller.finish_requests()
        assert {name for name, _ in server.bound} == ours
        await replica.step()
        assert server.deleted == deleted

    play(story)


@pytest.mark.parametrize("pods", [1, 2])
def test_what_is_bound_whole_after_all_is_not_taken_back(pods: int) -> None:
    """A proxy answers that the first binding failed; the API server carries it out a moment later."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", pods))
        for name in "ab"[:pods]:
            server.put_pod(in_team(name, 2, bare=False))
        server.failures = {"bind": [ApiError("bad gateway")]}
        replica.show()
        replica.controller.step()
        await replica.controller.finish_requests()
        task = next(iter(replica.controller.book.planned))
        for name in "ab"[:pods]:
            late = server.pods[f"lab/{name}"]
            notes = {"gfs.dev/task": task.name, "gfs.dev/run": "1"}
            server.put_pod({**late, "metadata": {**late["metadata"], "annotations": notes}})
            server.bind_by_hand(f"lab/{name}", "n1")
        await replica.rest()
        assert not server.deleted
        assert [run.task.pods for run in runs(replica).values()] == [pods]

    play(story)


def test_a_gang_is_taken_back_whatever_is_seen_before_all_its_bindings_are_answered() -> None:
    """Of three pods one is refused and its node is closed, while the bindings of the others are under way."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 3))
        for name in "abc":
            server.put_pod(in_team(name, 4, bare=False))
        server.failures = {"bind": [ApiError("refused")]}
        answer = server.hold("bind")
        replica.show()
        replica.controller.step()
        places = dict(replica.controller.book.by_name["lab/team"].pods)
        while len(replica.controller.overlay.bindings) != 2:
            await asyncio.sleep(0)
        refused = next(uid for uid in places if uid not in replica.controller.overlay.bindings)
        server.put_node(node(places[refused], gpus=4, unschedulable=True))
        replica.show()
        replica.controller.step()
        answer.set()
        await replica.rest()
        assert len(server.bound) == 2
        assert sorted(server.deleted) == sorted(name for name, _ in server.bound)

    play(story, node("n1", gpus=4), node("n2", gpus=4), node("n3", gpus=4))


def test_the_rest_of_a_gang_of_bare_pods_goes_where_it_can_be_bound() -> None:
    """b was to go to n2 beside a on n1 and was refused; n2 is closed by then, and n3 has room."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 4))
        server.failures = {"bind": [ApiError("refused")]}
        await replica.step()
        ((_, place),) = server.bound
        (other,) = {"n1", "n2"} - {place}
        server.start_bound()
        server.put_node(node(other, gpus=4, unschedulable=True))
        server.put_node(node("n3", gpus=4))
        server.hand.at += 2.0
        await replica.rest()
        assert {where for _, where in server.bound} == {place, "n3"}

    play(story, node("n1", gpus=4), node("n2", gpus=4))


@pytest.mark.parametrize("bare", [False, True], ids=["of a controller", "bare"])
def test_a_pod_that_ran_without_the_rest_of_its_gang_and_succeeded_is_not_waited_for(bare: bool) -> None:
    """There is room for one of two pods. a was bound all the same, and is done: b is all that is left to start."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 4, bare=bare))
        await replica.rest()
        assert not server.bound
        server.bind_by_hand("lab/a", "n1")
        server.set_phase("lab/a", "Succeeded")
        await replica.rest()
        assert server.bound == [("b", "n1")]
        after = Replica(server, SETTINGS)
        await after.rest()
        assert list(runs(after)) == list(runs(replica)), "nor by a controller that starts now"

    play(story)


def test_of_a_gang_that_stopped_only_the_pods_start_again_that_have_not_succeeded() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name, where in (("a", "n1"), ("b", "n2")):
            server.put_pod(in_team(name, 4, bare=False, nodeName=where, phase="Running"))
        await replica.rest()
        server.set_phase("lab/a", "Succeeded")
        await replica.rest()
        server.set_phase("lab/b", "Failed")
        await replica.rest()
        assert not runs(replica)
        server.put_pod(in_team("c", 4, bare=False))
        await replica.rest()
        assert [name for name, _ in server.bound] == ["c"]

    play(story, node("n1", gpus=4), node("n2", gpus=4))


def test_pods_that_do_not_exist_count_for_no_minimum() -> None:
    """a has succeeded and is gone, b has failed: of the two that the gang needs c alone is there, which c says."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name, where in (("a", "n1"), ("b", "n2")):
            server.put_pod(in_team(name, 4, bare=False, nodeName=where, phase="Running"))
        await replica.rest()
        server.set_phase("lab/a", "Succeeded")
        server.remove_pod("lab/a")
        server.set_phase("lab/b", "Failed")
        server.put_pod(in_team("c", 4, bare=False))
        server.hand.at += 2.0
        await replica.rest()
        assert not server.bound
        assert condition(server, "c")["message"] == "1 of the 2 pods that its gang needs are there"
        server.put_group(group("team", 1))
        await replica.rest()
        assert [name for name, _ in server.bound] == ["c"]

    play(story, node("n1", gpus=4), node("n2", gpus=4))


def test_a_task_whose_pods_never_come_back_holds_no_gpus() -> None:
    """Its Job was deleted after the eviction: when the HP pod is done all four GPUs are idle."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("gone", made=owned, gpus=4))
        await replica.rest()
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        server.stop_deleted()
        await replica.rest()
        server.set_phase("lab/urgent", "Succeeded")
        await replica.rest()
        assert not state(replica).runs
        assert not state(replica).waiting
        assert state(replica).pool.idle == 4

    play(story)


# -- objects that cause an error ----------------------------------------------------------------------------


def test_a_pod_that_causes_an_error_is_left_alone_until_it_changes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two pods of 2 GPUs cause an error: one that runs still counts as used, and one that waits delays no other."""
    observe, broken = tasks.observe, set[str]()

    def fails(mirror: Mirror, overlay: Overlay, key: Key, *planned: Any, **together: Any) -> Observation:
        if key in broken:
            raise KeyError(key)
        return observe(mirror, overlay, key, *planned, **together)

    monkeypatch.setattr(tasks, "observe", fails)

    async def story(server: FakeServer, replica: Replica) -> None:
        for each in (bound("runs", gpus=2), pod("waits", gpus=2)):
            server.put_pod(each)
        broken.update((replica.uid("runs"), replica.uid("waits")))
        server.put_pod(pod("large", gpus=4))
        await replica.rest()
        assert "is left alone until it changes" in caplog.text
        assert condition(server, "waits")["reason"] == "SchedulerError"
        assert not condition(server, "runs")
        assert not server.bound
        server.put_pod(pod("other", gpus=2))
        await replica.rest()
        assert server.bound == [("other", "n1")]
        broken.clear()
        server.remove_pod("lab/other")
        waits = server.pods["lab/waits"]
        server.put_pod({**waits, "metadata": {**waits["metadata"], "labels": {"team": "vision"}}})
        await replica.rest()
        assert server.bound == [("other", "n1"), ("waits", "n1")]

    play(story)


# -- clock and disk -----------------------------------------------------------------------------------------


def test_time_is_not_before_that_of_a_saved_state(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = [10_000.0]
    monkeypatch.setattr("time.monotonic", lambda: 50.0)
    clock = Clock(wall=lambda: wall[0])
    clock.begin(13_600.0)  # the clock was set back by an hour before the restart
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
    assert told(tmp_path) == ["submit lab/train", "start lab/train n1"]
    assert [row["node_name"] for row in rows(tmp_path, "nodes.csv")] == ["n1"]
