"""Tests of the controller on a cluster in memory: a story, and how to let it happen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from objects import node, owned, pod

from fake_cluster import FakeServer, Replica
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.live.settings import LiveSettings
from gfs.live.translate.shape import Json

SETTINGS = LiveSettings(burst=0.0)
Story = Callable[[FakeServer, Replica], Awaitable[None]]


def play(story: Story, *nodes: Json, settings: LiveSettings = SETTINGS, **options: Any) -> None:
    """Let a controller live through a story; without nodes it has one of four GPUs. Time stands unless it is moved."""

    async def main() -> None:
        server = FakeServer()
        for each in nodes or (node("n1", gpus=4),):
            server.put_node(each)
        replica = Replica(server, settings, **options)
        await story(server, replica)
        await replica.controller.close(0.0)

    asyncio.run(main())


def state(replica: Replica) -> PoolState:
    """The state of the pool of A100 nodes."""
    return replica.controller.scheduler.pools["A100"].state


def runs(replica: Replica) -> dict[str, Run]:
    """What the core has running, by task."""
    return {run.task.name: run for run in state(replica).runs.values()}


def bound(name: str, where: str = "n1", *, made: Callable[..., Json] = pod, **more: Any) -> Json:
    """A pod that runs."""
    return made(name, nodeName=where, phase="Running", **more)


def in_team(name: str, gpus: int = 1, *, bare: bool = True, **more: Any) -> Json:
    """A pod of the PodGroup `team`."""
    return (pod if bare else owned)(name, gpus=gpus, schedulingGroup={"podGroupName": "team"}, **more)


def condition(server: FakeServer, name: str, kind: str = "PodScheduled") -> Json:
    """A condition of a pod of namespace `lab`; empty: it has none of this kind."""
    conditions = server.pods[f"lab/{name}"]["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})
