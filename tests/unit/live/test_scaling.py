"""Four times as many nodes and pods are four times the work, counted in calls of functions: no machine changes them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from objects import group, node, owned, pod
from story import play

from fake_cluster import FakeServer, Replica

SMALL = 8
"""Nodes of eight GPUs."""


class Counter:
    """Counts calls while it is open."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> Counter:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        self.calls += event == "call"


def gang(number: int, size: int) -> list[dict[str, Any]]:
    """Pods of a group of which two must start together."""
    names = [f"gang-{number}-{i}" for i in range(size)]
    return [pod(name, schedulingGroup={"podGroupName": f"gang-{number}"}) for name in names]


def flood(kind: str, count: int) -> list[dict[str, Any]]:
    """So many pods: by themselves, of one Job, or in gangs of two with two more."""
    if kind == "job":
        return [owned(f"p{i}") for i in range(count)]
    if kind == "gangs":
        return [each for number in range(count // 4) for each in gang(number, 4)]
    return [pod(f"p{i}") for i in range(count)]


def work(nodes: int, kind: str) -> float:
    """Calls for each pod: they come 20 at a time, three to every GPU, run, end and go."""
    counter, pods = Counter(), flood(kind, 24 * nodes)

    async def story(server: FakeServer, replica: Replica) -> None:
        for i in range(len(pods) // 4 if kind == "gangs" else 0):
            server.put_group(group(f"gang-{i}", 2))
        replica.show()
        coming, running, done = iter(pods), list[str](), 0
        for _ in range(len(pods)):
            if done == len(pods):
                break
            for _, each in zip(range(20), coming, strict=False):
                server.put_pod(each)
            with counter:
                await replica.step()
            running += [f"lab/{name}" for name, _ in server.bound]
            server.bound.clear()
            server.start_bound()
            for name in running[:20] if len(running) >= 6 * nodes or done + len(running) == len(pods) else ():
                server.set_phase(name, "Succeeded")
                server.remove_pod(name)
                done += 1
            running = [name for name in running if name in server.pods]
        assert done == len(pods)

    play(story, *(node(f"n{i}") for i in range(nodes)))
    return counter.calls / len(pods)


@pytest.mark.parametrize("kind", ["pods", "job", "gangs"])
def test_work_for_a_pod_does_not_grow_with_their_number(kind: str) -> None:
    """Indexes of nodes are a little deeper in a larger cluster: a fifth more at most."""
    small, large = work(SMALL, kind), work(4 * SMALL, kind)
    assert large <= 1.2 * small, f"{small:.0f} calls a pod, {large:.0f} with four times as many"
