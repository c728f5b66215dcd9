"""The two gates at the only places that write: each reason why a binding or a deletion is not sent after all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from objects import group, node, owned, pod
from story import bound, condition, in_team, play, runs

from fake_cluster import FakeServer, Replica, stamp
from gfs.live import evict, gate
from gfs.live.problems import ApiError
from gfs.live.translate.shape import Json

URGENT = {"gpus": 4, "cls": "gfs-hp"}
Change = Callable[[FakeServer], object]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that failed is tried again at once."""
    monkeypatch.setattr(evict, "PAUSE", 0.0)


# -- bindings -----------------------------------------------------------------------------------------------


def squatter(server: FakeServer) -> None:
    server.put_pod(bound("squatter", schedulerName="default-scheduler"))


def leaving_squatter(server: FakeServer) -> None:
    """Another pod came and is being deleted: it holds its GPU until it is gone."""
    squatter(server)
    server.delete_pod("lab/squatter")


def deleted_with_finalizer(name: str) -> Change:
    def delete(server: FakeServer) -> None:
        pod = server.pods[name]
        server.put_pod({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": stamp(server.hand.now())}})

    return delete


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (leaving_squatter, "node n1 has no room any more"),
        (deleted_with_finalizer("lab/p0"), "the pod does not wait any more"),
        (deleted_with_finalizer("lab/p3"), "its gang has fewer pods than it needs"),
        (lambda server: server.set_phase("lab/p3", "Failed"), "its gang has fewer pods than it needs"),
        (lambda server: server.put_node(node("n1", gpus=3, labels={"zone": "a"})), "node n1 has no room any more"),
        (squatter, "node n1 has no room any more"),
        (lambda server: server.put_node(node("n1", room={"cpu": "1500m"}, gpus=4, labels={"zone": "a"})), "no room"),
        (lambda server: server.put_node(node("n1", gpus=4, unschedulable=True)), "does not take it"),
        (lambda server: server.put_node(node("n1", gpus=4, ready="False")), "does not take it"),
        (lambda server: server.put_node(node("n1", gpus=4, model="H800")), "does not take it"),
        (lambda server: server.remove_node("n1"), "does not take it"),
        (lambda server: server.put_node(node("n1", gpus=4, labels={"zone": "b"})), "does not take it"),
        (
            lambda server: server.put_node(
                node("n1", gpus=4, labels={"zone": "a"}, taints=[{"key": "x", "effect": "NoSchedule"}])
            ),
            "does not take it",
        ),
        (lambda server: server.put_group(group("team", 5)), "its gang has fewer pods than it needs"),
        (lambda server: server.remove_group("team"), "its gang has fewer pods than it needs"),
        (lambda server: server.delete_pod("lab/p3"), "its gang has fewer pods than it needs"),
        (lambda server: server.bind_by_hand("lab/p0", "n9"), "the pod does not wait any more"),
    ],
    ids=[
        "another pod leaves", "deleted, with a finalizer", "a member deleted, with a finalizer", "a member failed",
        "a GPU failed", "another pod took a GPU", "fewer CPUs", "cordoned", "not ready", "another model", "gone",
        "another label", "tainted", "minimum raised", "group gone", "a member gone", "bound by another scheduler",
    ],
)  # fmt: skip
def test_a_binding_is_not_sent_if_the_cluster_has_changed_since_the_decision(
    change: Change, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Four pods of a gang with a GPU each wait for their turn to be sent, to a node that has four."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 4))
        for number in range(4):
            server.put_pod(in_team(f"p{number}", nodeSelector={"zone": "a"}))
        turn = server.queue("bind")
        replica.show()
        replica.controller.step()
        while server.asked["bind"] < 4:
            await asyncio.sleep(0)
        change(server)
        replica.show()
        turn.set()
        await replica.controller.finish_requests()
        refused = [each for each in caplog.messages if "lab/p0 was not bound" in each]
        assert len(refused) == 1
        assert why in refused[0]
        assert ("p0", "n1") not in server.bound
        await replica.rest()
        assert not server.deleted, "nothing was bound that could be taken back"

    play(story, node("n1", gpus=4, labels={"zone": "a"}), silent=True)


@pytest.mark.parametrize("before", [1, 2], ids=["each pod was a task of its own", "two were needed"])
def test_a_gang_of_which_more_pods_are_needed_by_now_does_not_start_with_fewer(before: int) -> None:
    """There are three pods and two GPUs. When three must start together, none of them is bound.

    A fourth pod has failed, and a fifth is being deleted.
    """

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", before))
        server.put_pod(bound("fourth", made=in_team))
        server.set_phase("lab/fourth", "Failed")
        server.put_pod(bound("fifth", "n2", made=in_team))
        server.delete_pod("lab/fifth")
        for name in "abc":
            server.put_pod(in_team(name))
        turn = server.queue("bind")
        replica.show()
        replica.controller.step()
        while server.asked["bind"] < 2:
            await asyncio.sleep(0)
        server.put_group(group("team", 3))
        replica.show()
        turn.set()
        await replica.rest()
        assert not server.bound
        server.hand.at += 1.0
        await replica.rest()
        assert condition(server, "a")["reason"] == "Unschedulable"
        server.put_node(node("n1", gpus=3))
        await replica.rest()
        assert sorted(name for name, _ in server.bound) == ["a", "b", "c"]

    play(story, node("n1", gpus=2), node("n2", gpus=1, unschedulable=True))


@pytest.mark.parametrize("mate", ["runs", "has succeeded", "is being deleted"])
def test_further_pods_of_a_gang_are_bound_one_by_one_while_it_runs(mate: str) -> None:
    """Two are needed and one GPU is idle: b is bound if a runs or has succeeded, else it waits for a third pod."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        server.put_pod(bound("a", made=in_team))
        server.put_pod(bound("other", schedulerName="default-scheduler"))
        if mate == "has succeeded":
            server.set_phase("lab/a", "Succeeded")
        if mate == "is being deleted":
            server.delete_pod("lab/a")
        server.put_pod(in_team("b"))
        await replica.rest()
        assert server.bound == ([] if mate == "is being deleted" else [("b", "n1")])

    play(story, node("n1", gpus=3))


def test_a_binding_of_a_plan_that_is_over_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    """An HP pod takes the place before the binding is sent."""

    async def story(server: FakeServer, replica: Replica) -> None:
        turn = server.queue("bind")
        server.put_pod(pod("spot", gpus=4))
        replica.show()
        replica.controller.step()
        server.put_pod(pod("urgent", **URGENT))
        replica.show()
        replica.controller.step()
        turn.set()
        await replica.rest()
        assert "lab/spot was not bound to n1: not sent: it is planned no more" in caplog.messages
        assert server.bound == [("urgent", "n1")]

    play(story)


@pytest.mark.parametrize("closed", [False, True], ids=["nothing has changed", "the node was closed meanwhile"])
def test_a_binding_waits_while_a_watch_is_not_open(closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a gang of two a is bound, then a watch breaks. That alone is no reason to take a back."""
    monkeypatch.setattr(gate, "PAUSE", 0.0)
    current, turn = [True], asyncio.Event()

    real = FakeServer.bind

    async def slow(server: FakeServer, namespace: str, pod: str, *args: Any, **more: Any) -> None:
        if pod == "b":
            await turn.wait()
        await real(server, namespace, pod, *args, **more)

    monkeypatch.setattr(FakeServer, "bind", slow)

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 2, bare=False))
        replica.show()
        replica.controller.step()
        while not server.bound:
            await asyncio.sleep(0)
        current[0] = False
        turn.set()
        for _ in range(99):
            await asyncio.sleep(0)
        assert [name for name, _ in server.bound] == ["a"]
        if closed:
            server.put_node(node("n1", gpus=4, unschedulable=True))
        replica.show()
        current[0] = True
        await replica.rest()
        assert [name for name, _ in server.bound] == (["a"] if closed else ["a", "b"])
        assert server.deleted == (["a"] if closed else [])

    play(story, is_current=lambda: current[0])


def test_the_binding_of_a_pod_that_is_gone_takes_no_room() -> None:
    """An HP pod is replaced by one of the same name before its binding is sent: spot elsewhere stays."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("spot", "n2", gpus=4))
        server.put_pod(pod("serve", **URGENT))
        turn = server.queue("bind")
        replica.show()
        replica.controller.step()
        assert runs(replica)["lab/serve"].nodes[0].name == "n1"
        server.remove_pod("lab/serve")
        server.put_pod(pod("serve", **URGENT))
        replica.show()
        replica.controller.step()
        turn.set()
        await replica.rest()
        assert server.bound == [("serve", "n1")]
        assert not server.deleted

    play(story, node("n1", gpus=4), node("n2", gpus=4))


def test_bindings_under_way_count_as_room_that_is_taken() -> None:
    """Two pods of 4 GPUs: the binding of the first is not answered. The second is not bound to the same node."""

    async def story(server: FakeServer, replica: Replica) -> None:
        answer = server.hold("bind")
        server.put_pod(pod("first", gpus=4))
        replica.show()
        replica.controller.step()
        server.put_pod(pod("second", gpus=4))
        for _ in range(3):
            replica.show()
            replica.controller.step()
            await asyncio.sleep(0)
        answer.set()
        await replica.rest()
        assert server.bound == [("first", "n1")]

    play(story)


def test_a_binding_under_way_is_not_sent_again_when_its_node_changes() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        answer = server.hold("bind")
        server.put_pod(pod("first"))
        replica.show()
        replica.controller.step()
        squatter(server)
        for _ in range(3):
            replica.show()
            replica.controller.step()
            await asyncio.sleep(0)
        assert server.asked["bind"] == 1
        assert not replica.controller.book.by_name["lab/first"].is_blocked
        answer.set()
        await replica.rest()
        assert server.bound == [("first", "n1")]

    play(story)


# -- evictions ----------------------------------------------------------------------------------------------


async def about_to_evict(server: FakeServer, replica: Replica) -> asyncio.Event:
    """A spot pod on n1 is to go for an HP pod, and its deletion waits for its turn to be sent."""
    server.put_pod(bound("victim", gpus=4))
    await replica.rest()
    turn = server.queue("delete")
    server.put_pod(pod("urgent", **URGENT))
    replica.show()
    replica.controller.step()
    while not server.asked["delete"]:
        await asyncio.sleep(0)
    return turn


def test_a_taker_is_bound_when_the_last_deletion_on_another_node_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a gang on n1 and n2 the pod on n1 has gone, where HP is to run; it waits for the deletion on n2 as well."""
    turn, real = asyncio.Event(), FakeServer.delete

    async def slow(server: FakeServer, path: str, **more: Any) -> Json:
        if path.endswith("/b"):
            await turn.wait()
        return await real(server, path, **more)

    monkeypatch.setattr(FakeServer, "delete", slow)

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name, where in (("a", "n1"), ("b", "n2")):
            server.put_pod(in_team(name, 4, nodeName=where, phase="Running"))
        await replica.rest()
        server.put_pod(pod("urgent", **URGENT))
        for _ in range(9):
            replica.show()
            replica.controller.step()
            await asyncio.sleep(0)
        while server.deleted != ["a"]:
            await asyncio.sleep(0)
        server.remove_pod("lab/a")
        for _ in range(9):
            replica.show()
            replica.controller.step()
            await asyncio.sleep(0)
        assert not server.bound
        turn.set()
        await replica.rest()
        assert server.deleted == ["a", "b"]
        assert server.bound == [("urgent", "n1")]

    play(story, node("n1", gpus=4), node("n2", gpus=4))


def of_class_by_now(cls: str) -> Change:
    def change(server: FakeServer) -> None:
        changed = {**server.pods["lab/victim"]}
        changed["spec"] = {**changed["spec"], "priorityClassName": cls}
        server.put_pod(changed)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda server: server.delete_pod("lab/urgent"), "no pod of lab/urgent waits for its place any more"),
        (lambda server: server.set_phase("lab/victim", "Succeeded"), "the pod is gone"),
        (lambda server: server.bind_by_hand("lab/urgent", "n9"), "no pod of lab/urgent waits for its place any more"),
        (of_class_by_now("gfs-hp"), "it is no spot pod"),
        (of_class_by_now("batch"), "it is no spot pod"),
    ],
    ids=["the taker is gone", "it has finished", "the taker is bound elsewhere", "it is HP", "it is of no class"],
)
def test_a_victim_is_spared_if_it_must_not_go_any_more(
    change: Change, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gfs.live")

    async def story(server: FakeServer, replica: Replica) -> None:
        turn = await about_to_evict(server, replica)
        change(server)
        replica.show()
        turn.set()
        await replica.rest()
        assert not server.deleted
        assert f"lab/victim is not deleted: {why}" in caplog.messages
        assert replica.controller.evictor.evicted == 0

    play(story)


def test_a_spared_victim_runs_on_in_the_core() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        turn = await about_to_evict(server, replica)
        server.delete_pod("lab/urgent")
        replica.show()
        turn.set()
        await replica.rest()
        assert list(runs(replica)) == ["lab/victim"]

    play(story)


def test_a_victim_is_spared_if_its_taker_is_planned_anew_elsewhere() -> None:
    """The node is drained before the deletion is sent: HP goes to n2, and the victim stays where it is."""

    async def story(server: FakeServer, replica: Replica) -> None:
        turn = await about_to_evict(server, replica)
        server.put_node(node("n2", gpus=4))
        server.remove_node("n1")
        replica.show()
        replica.controller.step()
        turn.set()
        await replica.rest()
        assert not server.deleted
        assert server.bound == [("urgent", "n2")]

    play(story)


def test_another_pod_that_has_the_name_of_a_victim_by_now_is_not_deleted() -> None:
    """A StatefulSet created it again after the victim was marked. The watch has not shown it."""

    async def story(server: FakeServer, replica: Replica) -> None:
        turn = await about_to_evict(server, replica)
        assert condition(server, "victim", "DisruptionTarget")
        server.remove_pod("lab/victim")
        server.put_pod(pod("victim", gpus=4))
        turn.set()
        for _ in range(99):
            await asyncio.sleep(0)
        assert not server.deleted
        await replica.rest()
        assert server.bound == [("urgent", "n1")]

    play(story)


def test_a_taker_is_bound_when_the_deletion_of_its_victim_was_sent() -> None:
    """Another pod leaves n1 meanwhile, and there is room at once. Otherwise a gang could be evicted by half."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("other", gpus=4, schedulerName="default-scheduler"))
        turn = await about_to_evict(server, replica)
        server.remove_pod("lab/other")
        replica.show()
        for _ in range(9):
            replica.controller.step()
            await asyncio.sleep(0)
        assert not server.bound
        turn.set()
        await replica.rest()
        assert server.deleted == ["victim"]
        assert server.bound == [("urgent", "n1")]

    play(story, node("n1", gpus=8))


@pytest.mark.parametrize("goes", [True, False], ids=["the taker is deleted unseen", "the taker still waits"])
def test_a_victim_is_not_deleted_while_a_watch_is_not_open(goes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is deleted then may be for nobody. The deletion waits until the mirror has caught up."""
    monkeypatch.setattr(gate, "PAUSE", 0.0)
    current = [True]

    async def story(server: FakeServer, replica: Replica) -> None:
        turn = await about_to_evict(server, replica)
        current[0] = False
        if goes:
            server.delete_pod("lab/urgent")
        turn.set()
        for _ in range(99):
            await asyncio.sleep(0)
        assert not server.deleted
        replica.show()
        current[0] = True
        await replica.rest()
        assert server.deleted == ([] if goes else ["victim"])

    play(story, is_current=lambda: current[0])


@pytest.mark.parametrize("made", [pod, owned], ids=["bare", "of a Job"])
def test_a_running_hp_pod_is_never_evicted(made: Callable[..., Json]) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("first", gpus=4, cls="gfs-hp", made=made))
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert not server.deleted
        assert not server.bound

    play(story)


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet", "StatefulSet", "DaemonSet", "Workflow", ""])
def test_a_victim_may_have_any_owner(kind: str) -> None:
    """Spot is spot: also a pod that no controller creates again makes room for HP."""

    async def story(server: FakeServer, replica: Replica) -> None:
        references = [{"kind": kind, "name": "o", "uid": "uid-of-o", "controller": True}] if kind else []
        server.put_pod(bound("victim", gpus=4, ownerReferences=references))
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert server.deleted == ["victim"]
        mark = condition(server, "victim", "DisruptionTarget")
        assert mark["reason"] == "PreemptionByScheduler"
        assert "lab/urgent" in mark["message"]

    play(story)


# -- pods that are taken back -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "deleted"),
    [("Job", True), ("ReplicaSet", True), ("StatefulSet", True), ("DaemonSet", True), ("Workflow", False), ("", False)],
)
def test_a_pod_is_taken_back_only_if_its_owner_creates_it_again(kind: str, deleted: bool) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        references = [{"kind": kind, "name": "o", "uid": "uid-of-o", "controller": True}] if kind else []
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 2, ownerReferences=references))
        server.failures = {"bind": [ApiError("refused")]}
        await replica.step()
        await replica.step()
        assert server.deleted == (["b"] if deleted else [])

    play(story)


def test_a_pod_that_is_being_deleted_is_not_taken_back() -> None:
    """Its user deleted it, which the watch has not shown: it carries no mark of ours."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 2, bare=False))
        server.failures = {"bind": [ApiError("refused")]}
        await replica.step()
        server.delete_pod("lab/b")
        replica.controller.step()
        await replica.controller.finish_requests()
        assert not server.deleted
        assert not condition(server, "b", "DisruptionTarget")

    play(story)


@pytest.mark.parametrize("when", ["before it is looked at", "before it is marked", "before it is deleted"])
def test_a_pod_that_has_started_is_not_taken_back(when: str) -> None:
    """Each request names the version that it is for, so that a pod that starts meanwhile is left alone."""

    async def story(server: FakeServer, replica: Replica) -> None:
        call = {"before it is looked at": "find", "before it is marked": "patch", "before it is deleted": "delete"}[
            when
        ]
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 2, bare=False))
        server.failures = {"bind": [ApiError("refused")]}
        replica.show()
        replica.controller.step()
        await replica.controller.finish_requests()
        turn, asked = server.queue(call), server.asked[call]
        replica.show()
        replica.controller.step()
        while server.asked[call] == asked:
            await asyncio.sleep(0)
        server.set_phase("lab/b", "Running")
        turn.set()
        await replica.rest()
        assert not server.deleted
        assert "b" in {name for name, _ in server.bound}
        server.hand.at += 2.0
        await replica.rest()
        assert sorted(name for name, _ in server.bound) == ["a", "b"], "the other pod joins it"

    play(story, silent=True)
