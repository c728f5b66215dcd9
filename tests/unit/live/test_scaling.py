"""Four times as many nodes and pods are four times the work, counted in calls of functions: no machine changes them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from objects import group, node, owned, pod
from test_controller import WillingApi, drive

from gfs.live.controller import Controller

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

    async def test(controller: Controller, api: WillingApi) -> None:
        cluster, seen = controller.cluster, 0
        for i in range(1, nodes):
            cluster.node_changed(None, node(f"m{i}"))
        for i in range(len(pods) // 4 if kind == "gangs" else 0):
            cluster.group_changed(None, group(f"gang-{i}", 2))
        now, running, done = {each["metadata"]["name"]: each for each in pods}, list[str](), 0
        coming = iter(pods)
        with counter:
            for _ in range(len(pods)):
                if done == len(pods):
                    break
                for _, each in zip(range(20), coming, strict=False):
                    cluster.pod_changed(None, each)
                controller.step()
                await controller.settle()
                for name, place in api.bound[seen:]:
                    before = now[name]
                    now[name] = {
                        **before,
                        "spec": {**before["spec"], "nodeName": place},
                        "status": {"phase": "Running"},
                    }
                    cluster.pod_changed(before, now[name])
                    running.append(name)
                seen = len(api.bound)
                for name in running[:20] if seen == len(pods) or len(running) >= 6 * nodes else ():
                    over = {**now[name], "status": {"phase": "Succeeded"}}
                    cluster.pod_changed(now[name], over)
                    cluster.pod_changed(over, None)
                    done += 1
                    running.remove(name)

        assert done == len(pods)

    drive(test)
    return counter.calls / len(pods)


@pytest.mark.parametrize("kind", ["pods", "job", "gangs"])
def test_work_for_a_pod_does_not_grow_with_their_number(kind: str) -> None:
    """Indexes of nodes are a little deeper in a larger cluster: a fifth more at most."""
    small, large = work(SMALL, kind), work(4 * SMALL, kind)
    assert large <= 1.2 * small, f"{small:.0f} calls a pod, {large:.0f} with four times as many"
