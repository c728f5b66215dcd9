"""Plans that wait for pods to leave, or for room that should be there: none of them waits for ever."""

from __future__ import annotations

import asyncio

import pytest
from objects import node, pod
from story import SETTINGS, bound, play, runs

from fake_cluster import FakeServer, Replica
from gfs.live import evict
from gfs.live.bind import SHORT
from gfs.live.problems import ApiError
from gfs.live.table import Phase

URGENT = {"gpus": 4, "cls": "gfs-hp"}
GRACE = 30.0


def reasons(server: FakeServer, name: str) -> list[str]:
    return [each["reason"] for each in server.events if each["involvedObject"]["name"] == name]


async def evicted(server: FakeServer, replica: Replica) -> None:
    """A spot pod on n1 is being deleted for an HP pod."""
    server.put_pod(bound("victim", gpus=4))
    await replica.rest()
    server.put_pod(pod("urgent", **URGENT))
    await replica.rest()
    assert server.deleted == ["victim"]


def test_a_victim_hangs_from_two_minutes_after_its_grace_period_on_and_another_is_taken() -> None:
    """30 s of grace and 120 s more: at 150 s it is waited for, at 151 s the pod on n2, which came later, goes."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await evicted(server, replica)
        server.put_node(node("n2", gpus=4))
        server.put_pod(bound("other", "n2", gpus=4))
        server.hand.at = GRACE + SETTINGS.hang_timeout
        await replica.rest()
        assert server.deleted == ["victim"]
        assert len(replica.controller.overlay.hanging()) == 0
        server.hand.at += 1.0
        await replica.rest()
        assert server.deleted == ["victim", "other"]
        assert reasons(server, "victim")[-1] == "EvictionHangs"
        assert len(replica.controller.overlay.hanging()) == 1
        server.remove_pod("lab/other")
        await replica.rest()
        assert server.bound == [("urgent", "n2")]
        server.remove_pod("lab/victim")
        server.hand.at += 1.0
        await replica.rest()
        server.hand.at += 1.0
        await replica.rest()
        assert len(replica.controller.overlay.hanging()) == 0

    play(story)


def test_a_plan_goes_elsewhere_when_another_node_has_room_and_no_pod_has_to_leave_it() -> None:
    """For a second the plan waits in any case; then it moves to n2, which came meanwhile."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await evicted(server, replica)
        server.put_node(node("n2", gpus=4))
        server.hand.at = SHORT
        await replica.rest()
        assert not server.bound
        server.hand.at += 1.0
        await replica.rest()
        assert server.bound == [("urgent", "n2")]

    play(story)


def test_a_node_with_too_little_room_or_of_another_kind_is_no_way_out() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        await evicted(server, replica)
        server.put_node(node("n2", gpus=3))
        server.put_node(node("n3", gpus=4, unschedulable=True))
        server.put_node(node("n4", gpus=4, taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]))
        server.hand.at = 10 * SHORT
        await replica.rest()
        assert not server.bound
        assert replica.controller.book.by_name["lab/urgent"].pods == {replica.uid("urgent"): "n1"}

    play(story)


def test_a_plan_whose_room_another_scheduler_takes_is_given_up_with_its_promise() -> None:
    """Another scheduler fills n1 when the victim has gone: HP waits again, and no pod of the other's is deleted."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await evicted(server, replica)
        assert server.pods["lab/urgent"]["status"]["nominatedNodeName"] == "n1"
        server.put_pod(bound("squatter", gpus=4, schedulerName="default-scheduler"))
        server.stop_deleted()
        await replica.rest()
        assert replica.controller.book.by_name["lab/urgent"].phase is Phase.WAITING
        assert not server.bound
        assert server.deleted == ["victim"]
        assert not server.pods["lab/urgent"]["status"]["nominatedNodeName"]
        server.remove_pod("lab/squatter")
        await replica.rest()
        assert server.bound == [("urgent", "n1")]

    play(story)


def test_a_binding_that_is_under_way_is_not_overdue() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        answer = server.hold("bind")
        server.put_pod(pod("first", gpus=4))
        replica.show()
        replica.controller.step()
        server.hand.at = 600.0
        replica.controller.step()
        assert replica.controller.book.by_name["lab/first"].phase is Phase.PLANNED
        answer.set()
        await replica.rest()
        assert server.bound == [("first", "n1")]

    play(story)


# -- victims that cannot be deleted -------------------------------------------------------------------------


async def go_on(replica: Replica) -> None:
    """Decide some times; requests that are tried again for ever go on beside."""
    for _ in range(5):
        replica.show()
        replica.controller.step()
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Answers of an admission webhook that lets nobody delete a pod."""
    monkeypatch.setattr(evict, "PAUSE", 0.0)
    return [ApiError("denied by the admission webhook")] * 10_000


def test_a_victim_that_cannot_be_deleted_is_given_up_after_two_minutes_and_another_is_taken(
    denied: list[Exception],
) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("guarded", gpus=4))
        await replica.rest()
        server.failures = {"delete": denied}
        server.put_pod(pod("urgent", **URGENT))
        await go_on(replica)
        server.put_node(node("n2", gpus=4))
        server.put_pod(bound("other", "n2", gpus=4))
        server.hand.at = SETTINGS.hang_timeout
        await go_on(replica)
        assert replica.controller.book.by_name["lab/urgent"].pods == {replica.uid("urgent"): "n1"}
        server.hand.at += 1.0
        await go_on(replica)
        assert reasons(server, "guarded")[-1] == "EvictionHangs"
        assert replica.controller.book.by_name["lab/urgent"].pods == {replica.uid("urgent"): "n2"}
        assert "lab/guarded" in runs(replica), "it runs on, and counts again"
        server.failures.clear()
        await replica.rest()
        assert server.deleted == ["other"]

    play(story)


def test_a_victim_that_was_given_up_and_runs_on_can_make_room_another_time(denied: list[Exception]) -> None:
    """HP goes to n2, which came meanwhile. The next HP pod evicts the same victim, and its place is counted on."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("guarded", gpus=4))
        await replica.rest()
        server.failures = {"delete": denied}
        server.put_pod(pod("urgent", **URGENT))
        await go_on(replica)
        server.put_node(node("n2", gpus=4))
        for _ in range(2):
            server.hand.at += 2 * SHORT
            await go_on(replica)
        assert server.bound == [("urgent", "n2")]
        server.failures.clear()
        await replica.rest()
        assert not server.deleted
        server.put_pod(pod("second", **URGENT))
        decisions = replica.controller.decisions
        await replica.rest()
        assert server.deleted == ["guarded"]
        assert replica.controller.book.by_name["lab/second"].phase is Phase.PLANNED
        assert replica.controller.decisions - decisions <= 3
        server.stop_deleted()
        await replica.rest()
        assert server.bound == [("urgent", "n2"), ("second", "n1")]

    play(story)


def test_plans_count_on_the_place_of_a_pod_that_a_user_gave_more_time_to_end_in_its_last_minute() -> None:
    """`kubectl delete --grace-period=300`: at 240 s a plan counts on its place, and so does a restarted controller."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("ends", gpus=4, cls="gfs-hp"))
        await replica.rest()
        server.delete_pod("lab/ends", 300)
        for seconds, told in ((239.0, ["lab/ends"]), (240.0, [])):
            server.hand.at = seconds
            await replica.rest()
            fresh = Replica(server, SETTINGS)
            await fresh.rest()
            assert list(runs(replica)) == list(runs(fresh)) == told

    play(story)
