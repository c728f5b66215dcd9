"""Histories of a cluster: whatever happens, the controller does no harm, leaves nothing waiting that fits, and holds
the same books as one that was started this moment.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import pytest
from books import books, check_books, check_empty, check_liveness
from history import SETTINGS, Errors, Happening, World, histories, run
from hypothesis import Phase, given, settings
from judge import is_deleting, node_of, path_of

EXAMPLES = int(os.environ.get("GFS_LIVE_HISTORIES", "200"))
"""Histories of the first test, and five times as many as of the second; many more to look for trouble."""
PHASES = tuple(Phase) if "GFS_SHRINK" in os.environ else (Phase.explicit, Phase.reuse, Phase.generate)
PACES = ("rest", "rest", "rest", "step", "step", "part", "part", "none")


@pytest.fixture(autouse=True)
def _errors() -> Any:
    """Nothing fails in a way that it should not."""
    errors, log = Errors(), logging.getLogger("gfs.live")
    log.addHandler(errors)
    yield
    log.removeHandler(errors)
    assert not errors.found


def check(world: World) -> None:
    assert not world.server.wrong, world.server.wrong
    check_books(world.replica)


def server_of(world: World) -> dict[str, Any]:
    """What the decisions of a controller have made of the pods."""
    return {
        name: (node_of(pod), is_deleting(pod), pod["status"]["phase"])
        for name, pod in sorted(world.server.pods.items())
    }


def same(fresh: World, world: World) -> None:
    """Both controllers decided the same and hold the same books."""
    new = {"pods": server_of(fresh), **books(fresh.replica)}
    old = {"pods": server_of(world), **books(world.replica)}
    for name in new:
        some, others = ({"": each} if not isinstance(each, dict) else each for each in (new[name], old[name]))
        differ = sorted(key for key in {*some, *others} if some.get(key) != others.get(key))
        told = [f"{key}: started afresh {some.get(key)}, kept running {others.get(key)}" for key in differ]
        assert not differ, f"{name}: {told}"


async def end(world: World) -> None:
    """The storm is over: pods that are deleted stop, owners create others, faults end, and some time passes."""
    world.server.end_faults()
    calm = 0
    for _ in range(40):
        before = {name: (pod["metadata"]["uid"], node_of(pod)) for name, pod in world.server.pods.items()}
        for what in ("garbage", "stop", "replace"):
            await world.happen(Happening(what))
        world.server.hand.at += 10.0 if calm < 2 else 60.0
        await world.rest()
        check(world)
        after = {name: (pod["metadata"]["uid"], node_of(pod)) for name, pod in world.server.pods.items()}
        calm = calm + 1 if before == after and not any(map(is_deleting, world.server.pods.values())) else 0
        if calm > 4:
            return
    raise AssertionError("the cluster does not come to rest")


async def empty(world: World) -> None:
    """All pods go."""
    world.owners.clear()
    for pod in list(world.server.pods.values()):
        world.server.remove_pod(path_of(pod))
    for seconds in (2.0, 2.0, SETTINGS.resync_interval + 1):
        world.server.hand.at += seconds
        await world.rest()
    check(world)
    check_empty(world.replica)


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(histories(faults=True, paces=PACES))
def test_no_harm_is_done_and_nothing_that_fits_waits(history: list[Happening]) -> None:
    async def story() -> None:
        world = World()
        world.begin()
        for happening in history:
            await world.happen(happening)
            await world.go_on(happening.pace)
            check(world)
        await world.rest()
        await end(world)
        check_liveness(world)
        await empty(world)
        await world.close()

    run(story)


async def forget_given_up(world: World) -> None:
    """Let evicted pods stop that no plan waits for any more because another node had room first.

    That these count as staying is the one thing that is remembered and stands on no object.
    """
    for _ in range(9):
        overlay, mirror = world.replica.controller.overlay, world.replica.controller.mirror
        if all(overlay.hangs(mirror.pods[uid]) for uid in overlay.given_up):
            return
        world.server.stop_deleted()
        await world.rest()
    raise AssertionError("a pod that is not deleted is given up")


@settings(max_examples=max(1, EXAMPLES // 5), phases=PHASES)
@given(histories(faults=False))
def test_a_controller_started_afresh_holds_the_same_books_and_decides_the_same(history: list[Happening]) -> None:
    async def story() -> None:
        world = World()
        world.begin()
        await world.rest()
        for happening in history:
            await forget_given_up(world)
            twin = world.twin()
            await twin.rest()
            same(twin, world)
            for each in (world, twin):
                each.server.hand.at += 20.0 + (7 * happening.a + 3 * happening.b) % 41
                await each.happen(happening)
                await each.rest()
                check(each)
            same(twin, world)
            await twin.close()
        await world.close()

    run(story)
