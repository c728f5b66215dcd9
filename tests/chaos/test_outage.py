"""The API server is away for longer than any lease and any time-out, in the middle of a preemption."""

from __future__ import annotations

import time

from cells import cells_of
from world import Begin

AWAY = 125.0
"""Seconds: eight leases, and longer than a start or a victim may take."""


def test_the_api_server_is_away_for_minutes(begin: Begin) -> None:
    with begin() as world:
        (cell,) = cells_of(world, [("API server away",)])
        world.gang_seconds += AWAY
        cell.run("--elect")
        cell.gang("spot", "gfs-spot")
        cell.wait_running("spot")
        cell.gang("hp", "gfs-hp", run_for=2.0)
        cell.wait_marked("spot")
        world.injections.note("API server killed", f"for {AWAY:g} s")
        world.bench.processes.stop("kube-apiserver")
        time.sleep(AWAY)
        world.bench.processes.start_again("kube-apiserver")
        world.insist(lambda: world.client.get("/readyz"))
        cell.wait_done("hp")
        cell.wait_running("spot")
        cell.withdraw("spot")
        world.drain(60)
