"""Cases that histories of a cluster (tests/property/live) found: each one is the shortest that showed a defect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from objects import group, node, owned, pod

from fake_cluster import FakeServer, Replica
from gfs.live.problems import ApiError
from gfs.live.settings import LiveSettings
from gfs.live.table import Phase
from gfs.live.translate.shape import Json

Story = Callable[[], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    asyncio.run(story())


def member(name: str, gang: str = "g", owner: str = "", **more: Any) -> Json:
    more["schedulingGroup"] = {"podGroupName": gang}
    return owned(name, owner, **more) if owner else pod(name, **more)


def cluster(*nodes: Json) -> FakeServer:
    server = FakeServer()
    for each in nodes or (node("n1"),):
        server.put_node(each)
    return server


def start(server: FakeServer, saved: Any = None) -> Replica:
    return Replica(server, LiveSettings(), saved)


def node_of(server: FakeServer, name: str) -> str:
    return str(server.pods[f"lab/{name}"]["spec"].get("nodeName", ""))


def told(replica: Replica) -> dict[str, Phase]:
    return {name: task.phase for name, task in replica.controller.book.by_name.items()}


def test_of_a_gang_all_pods_have_succeeded() -> None:
    async def story() -> None:
        server = cluster()
        server.put_group(group("g", 2))
        names = [server.put_pod(member(name)) for name in ("a", "b")]
        replica = start(server)
        await replica.rest()
        for name in names:
            server.set_phase(name, "Succeeded")
            await replica.rest()
        assert not replica.controller.book.by_index

    play(story)


def test_a_pod_that_another_scheduler_bound_first_is_left_alone() -> None:
    async def story() -> None:
        server = cluster(node("n1"), node("n2"))
        server.put_pod(owned("a"))
        replica = start(server)
        replica.controller.step()
        planned = next(iter(replica.controller.book.planned)).pods["uid-000001"]
        other = "n2" if planned == "n1" else "n1"
        server.bind_by_hand("lab/a", other)
        await replica.controller.finish_requests()  # our binding is refused
        await replica.rest()
        assert server.deleted == []
        assert node_of(server, "a") == other
        assert told(replica) == {"lab/train": Phase.RUNNING}

    play(story)


def test_a_pod_that_another_scheduler_bound_keeps_its_name() -> None:
    async def story() -> None:
        server = cluster()
        server.put_pod(owned("a"))
        server.bind_by_hand("lab/a", "n1")
        replica = start(server)
        await replica.rest()
        server.set_phase("lab/a", "Running")
        await replica.rest()
        assert told(replica) == {"lab/train": Phase.RUNNING}

    play(story)


def test_another_pod_takes_the_place_of_a_deleted_one_in_a_gang_that_waits() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=4))
        server.put_group(group("g", 2))
        for name in ("a", "b", "c"):
            server.put_pod(member(name, gpus=4))
        replica = start(server)
        await replica.rest()
        server.delete_pod("lab/a")
        await replica.rest()
        (task,) = replica.controller.book.by_index.values()
        assert list(task.pods) == ["uid-000002", "uid-000003"]
        assert replica.controller.book.waits == {}

    play(story)


def test_what_is_said_of_a_pod_that_has_gone_is_not_kept_for_ever() -> None:
    async def story() -> None:
        server = cluster()
        replica = start(server)
        server.put_pod(pod("a"))
        server.failures["bind"] = [ApiError("no")]
        replica.show()
        replica.controller.step()
        server.delete_pod("lab/a")
        replica.show()
        replica.controller.step()
        await replica.rest()  # the binding is refused after the pod has gone
        server.hand.at += LiveSettings().resync_interval + 1
        await replica.rest()
        assert not replica.controller.pod_events._written

    play(story)


def test_a_restart_keeps_the_place_of_every_plan_that_waits_for_room() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=8))
        server.put_pod(pod("victim", gpus=8))
        replica = start(server)
        await replica.rest()
        server.put_pod(pod("urgent", gpus=4, cls="gfs-hp"))
        server.put_pod(pod("beside", gpus=4))
        await replica.rest()
        again = start(server, replica.controller.identities.save())
        await again.rest()
        for each in (replica, again):
            planned = {task.name: task.nodes for task in each.controller.book.planned}
            assert planned == {"lab/urgent": {"n1"}, "lab/beside": {"n1"}}
        assert server.pods["lab/beside"]["status"]["nominatedNodeName"] == "n1"

    play(story)


def test_nothing_is_evicted_for_a_plan_that_went_with_its_node() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=2))
        server.put_pod(pod("spot", gpus=2))
        replica = start(server)
        await replica.rest()
        server.put_node(node("n2", gpus=2))
        await replica.rest()
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp"))
        replica.show()
        replica.controller.step()  # its binding to n2 is under way
        server.remove_node("n2")
        await replica.rest()
        assert replica.controller.overlay.evictions == {}
        assert server.deleted == ["spot"]  # for the next plan, which is carried out
        server.stop_deleted()
        await replica.rest()
        assert node_of(server, "urgent") == "n1"

    play(story)


def test_a_plan_on_a_node_that_is_cordoned_is_made_again() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=2))
        server.put_pod(pod("spot", gpus=2))
        replica = start(server)
        await replica.rest()
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp"))
        await replica.rest()
        server.put_node(node("n1", gpus=2, unschedulable=True))
        await replica.rest()
        for each in (replica, start(server, replica.controller.identities.save())):
            await each.rest()
            assert told(each)["lab/urgent"] is Phase.WAITING
        assert server.pods["lab/urgent"]["status"]["nominatedNodeName"] == ""

    play(story)


def test_a_restart_knows_that_a_victim_hangs() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=2))
        server.put_pod(pod("spot", gpus=2))
        replica = start(server)
        await replica.rest()
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp"))
        await replica.rest()
        server.hand.at += 30 + LiveSettings().hang_timeout + 1
        await replica.rest()
        for each in (replica, start(server, replica.controller.identities.save())):
            await each.rest()
            assert told(each)["lab/urgent"] is Phase.WAITING

    play(story)


def test_a_plan_of_one_pod_does_not_keep_others_of_a_gang_that_runs_waiting() -> None:
    """Of a gang of 2 runs one pod beyond the minimum, the others were evicted and created again."""

    async def story() -> None:
        server = cluster(node("n1", gpus=6), node("n2", gpus=2))
        server.put_group(group("g", 2))
        for name in ("a", "b", "c"):
            server.put_pod(member(name, gpus=2))
        replica = start(server)
        await replica.rest()
        server.put_pod(pod("urgent", gpus=6, cls="gfs-hp"))
        await replica.rest()
        for name in ("d", "e"):
            server.put_pod(member(name, gpus=2))
        await replica.rest()
        again = start(server, replica.controller.identities.save())
        await again.rest()
        books = [{name: task.phase for name, task in each.controller.book.by_name.items()} for each in (replica, again)]
        assert books[0] == books[1]
        assert replica.controller.book.waits == again.controller.book.waits

    play(story)


def test_a_plan_whose_room_others_have_taken_is_made_again_at_once() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=4))
        server.put_pod(pod("spot", gpus=4))
        replica = start(server)
        await replica.rest()
        server.put_pod(pod("urgent", gpus=4, cls="gfs-hp"))
        await replica.rest()
        server.put_node(node("n2", gpus=4))
        server.put_pod(pod("other", gpus=2, schedulerName="default-scheduler", nodeName="n1"))
        await replica.rest()
        assert node_of(server, "urgent") == "n2"

    play(story)


def test_a_plan_that_is_made_again_is_nominated_again() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=2), node("n2", gpus=2, unschedulable=True))
        server.put_pod(pod("spot", gpus=2))
        replica = start(server)
        await replica.rest()
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp"))
        await replica.rest()
        server.put_node(node("n1", gpus=2, unschedulable=True))
        server.put_pod(pod("rest", gpus=2))
        server.bind_by_hand("lab/rest", "n2")
        server.put_node(node("n2", gpus=2))
        await replica.rest()
        assert server.deleted == ["spot", "rest"]
        assert server.pods["lab/urgent"]["status"]["nominatedNodeName"] == "n2"

    play(story)


def test_a_victim_that_hangs_counts_as_staying_also_if_no_plan_waits_for_it() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=2))
        server.put_pod(pod("spot", gpus=2))
        replica = start(server)
        await replica.rest()
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp"))
        await replica.rest()
        server.delete_pod("lab/urgent")
        await replica.rest()
        assert [run.idle for run in replica.controller.scheduler.pools["A100"].state.nodes] == [2]
        server.hand.at += 30 + LiveSettings().hang_timeout + 1
        await replica.rest()
        assert [run.idle for run in replica.controller.scheduler.pools["A100"].state.nodes] == [0]

    play(story)


def test_a_run_that_is_found_and_evicted_in_the_same_instant_is_evicted() -> None:
    async def story() -> None:
        server = cluster(node("n1", gpus=2), node("n2", gpus=2, labels={"zone": "west"}))
        server.put_pod(pod("spot", gpus=2, nodeSelector={"nvidia.com/gpu.product": "A100"}))
        server.bind_by_hand("lab/spot", "n1")
        server.remove_node("n1")
        replica = start(server)
        await replica.rest()
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp", nodeSelector={"zone": "east"}))
        await replica.rest()
        server.put_node(node("n1", gpus=2, labels={"zone": "east"}))  # the spot pod is found there
        await replica.rest()
        assert server.deleted == ["spot"]
        server.stop_deleted()
        await replica.rest()
        assert node_of(server, "urgent") == "n1"

    play(story)


def test_a_gang_whose_node_got_another_model_label_can_be_evicted() -> None:
    """Of a gang of 2 the third pod runs on n2; n1, with the first two, becomes a node of another pool."""

    async def story() -> None:
        server = cluster(node("n1", gpus=2), node("n2", gpus=1))
        server.put_group(group("g", 2))
        for name in ("a", "b", "c"):
            server.put_pod(member(name))
        replica = start(server)
        await replica.rest()
        server.put_node(node("n1", gpus=2, model="H100"))
        await replica.rest()
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp", nodeSelector={"nvidia.com/gpu.product": "H100"}))
        await replica.rest()
        assert server.deleted == ["a", "b"]

    play(story)


def test_a_gang_of_which_another_scheduler_bound_a_part_can_be_evicted_whole() -> None:
    """a was bound by GFS and b by hand, both under one PodGroup and one Job: the core knows both, also by name."""

    async def story() -> None:
        server = cluster(node("n1", gpus=4), node("n2", gpus=4))
        server.put_group(group("g", 2))
        notes = {"gfs.dev/task": "lab/g", "gfs.dev/run": "1"}
        server.put_pod(member("a", owner="j", gpus=4, nodeName="n1", phase="Running", annotations=notes))
        server.put_pod(member("b", owner="j", gpus=4, nodeName="n2", phase="Running"))
        replica = start(server)
        await replica.rest()
        assert told(replica) == {"lab/g": Phase.RUNNING, "lab/g#2": Phase.RUNNING}
        for name in ("x", "y"):
            server.put_pod(pod(name, gpus=4, cls="gfs-hp"))
        for _ in range(3):
            await replica.rest()
            server.stop_deleted()
        assert sorted(server.deleted) == ["a", "b"]
        assert node_of(server, "x")
        assert node_of(server, "y")

    play(story)


def test_pods_that_another_scheduler_binds_beside_a_plan_of_their_gang_are_known_at_once() -> None:
    """The bindings of a and b are not answered yet; c is bound by hand."""

    async def story() -> None:
        server = cluster(node("n1", gpus=4))
        server.put_group(group("g", 2))
        for name in "abc":
            server.put_pod(member(name, owner="j"))
        answer = server.hold("bind")
        replica = start(server)
        replica.controller.step()
        server.bind_by_hand("lab/c", "n1")
        replica.show()
        replica.controller.step()
        assert told(replica) == {"lab/g": Phase.PLANNED, "lab/g#2": Phase.RUNNING}
        answer.set()
        await replica.rest()
        assert told(replica) == {"lab/g": Phase.RUNNING, "lab/g#2": Phase.RUNNING}

    play(story)
