"""What the core is told of nodes: what they have less what others hold there, and whether they take pods."""

from __future__ import annotations

from typing import Any

import pytest
from objects import node, pod
from story import bound, play, state

from fake_cluster import FakeServer, Replica
from gfs.core.node import Node


def only(replica: Replica) -> Node:
    (each,) = state(replica).nodes
    return each


def has(replica: Replica) -> tuple[int, float, float, int, bool]:
    """GPUs, CPUs, GiB, pods of the only node as the core has it, and whether it is closed."""
    spec = only(replica).spec
    return spec.gpus, spec.cpus, spec.memory, spec.pods, only(replica).closed


def test_what_pods_of_others_hold_is_not_ours() -> None:
    """Of 8 GPUs, 64 CPUs, 512 GiB and 110 pods another scheduler's pod has 3 GPUs, 0.5 CPUs and 2 GiB."""

    async def story(server: FakeServer, replica: Replica) -> None:
        await replica.rest()
        assert has(replica) == (8, 64.0, 512.0, 110, False)
        name = server.put_pod(bound("other", gpus=3, schedulerName="default-scheduler"))
        await replica.rest()
        assert has(replica) == (5, 63.5, 510.0, 109, False)
        server.set_phase(name, "Succeeded")
        await replica.rest()
        assert has(replica) == (8, 64.0, 512.0, 110, False), "a finished pod holds nothing"

    play(story, node("n1"))


def test_what_our_runs_hold_stays_part_of_the_node() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("mine", gpus=3))
        await replica.rest()
        server.start_bound()
        await replica.rest()
        assert has(replica) == (8, 64.0, 512.0, 110, False)
        assert only(replica).idle == 5

    play(story, node("n1"))


@pytest.mark.parametrize("what", [{"gpus": 8}, {"gpus": 9}], ids=["all of it", "more than all"])
def test_a_node_of_which_others_hold_every_gpu_is_closed(what: dict[str, int]) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        name = server.put_pod(bound("other", schedulerName="default-scheduler", **what))
        await replica.rest()
        assert only(replica).closed
        server.remove_pod(name)
        await replica.rest()
        assert not only(replica).closed

    play(story, node("n1"))


def test_a_node_that_takes_no_more_pods_is_closed() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        for name in "ab":
            server.put_pod(bound(name, gpus=0, schedulerName="default-scheduler"))
        await replica.rest()
        assert only(replica).closed

    play(story, node("n1", room={"pods": "2"}))


def test_a_running_pod_that_is_refused_counts_as_used_and_is_left_alone() -> None:
    """It asks for a class that is neither HP nor spot, and somebody bound it: no run of ours, but 2 GPUs are taken."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("strange", gpus=2, cls="unknown"))
        await replica.rest()
        assert has(replica)[0] == 6
        assert not state(replica).runs

    play(story, node("n1"))


def test_an_evicted_pod_leaves_its_gpus_to_plans_until_it_is_given_up() -> None:
    """The spot pod has 8 GPUs and is deleted for HP of 4; when it hangs, all 8 count as used again."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("victim", gpus=8))
        await replica.rest()
        server.put_pod(pod("urgent", gpus=4, cls="gfs-hp"))
        await replica.rest()
        assert has(replica)[0] == 8
        assert only(replica).idle == 4
        server.hand.at += 30.0 + replica.controller.settings.hang_timeout + 1.0
        await replica.rest()
        assert only(replica).closed
        assert not state(replica).runs, "HP waits for another way"
        server.stop_deleted()
        await replica.rest()
        assert server.bound == [("urgent", "n1")]

    play(story, node("n1"))


@pytest.mark.parametrize("change", [{"unschedulable": True}, {"ready": "False"}], ids=["cordoned", "not ready"])
def test_a_closed_node_keeps_its_runs_and_opens_again(change: dict[str, Any]) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("mine", gpus=3))
        await replica.rest()
        server.put_node(node("n1", **change))
        server.put_pod(pod("late", gpus=3))
        await replica.rest()
        assert only(replica).closed
        assert len(state(replica).runs) == 1
        server.put_node(node("n1"))
        await replica.rest()
        assert [name for name, _ in server.bound] == ["mine", "late"]

    play(story, node("n1"))


def test_a_node_that_gets_another_model_moves_to_the_other_pool_with_its_runs() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("mine", gpus=3))
        await replica.rest()
        server.start_bound()
        server.put_node(node("n1", model="H800"))
        await replica.rest()
        pools = replica.controller.scheduler.pools
        assert not pools["A100"].state.nodes
        assert [run.task.name for run in pools["H800"].state.runs.values()] == ["lab/mine"]
        assert not server.deleted

    play(story, node("n1"))
