"""What is kept of a pod that has come and gone: hardly anything, in bytes of Python's own, not of the machine."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from objects import group, owned, pod
from story import play
from test_record import opened

from fake_cluster import FakeServer, Replica

WARM, MORE = 60, 200
"""Lives of pods before and while it is counted."""
LIFE = 120.0
"""Seconds from one to the next: runs are kept until their first hour of guarantee ends, so it warms up for two."""


def some(kind: str, i: int) -> list[dict[str, Any]]:
    """Pods that come together: one by itself, of a Job of its own, or of a gang."""
    if kind == "gang":
        return [pod(f"p{i}-{k}", gpus=2, schedulingGroup={"podGroupName": f"g{i}"}) for k in range(2)]
    if kind == "job":
        return [owned(f"p{i}", f"job-{i}", gpus=4)]
    return [pod(f"p{i}", gpus=4)]


@pytest.mark.parametrize("ends", ["Succeeded", "Failed"])
@pytest.mark.parametrize("kind", ["alone", "job", "gang"])
def test_a_pod_that_has_gone_leaves_nothing_behind(kind: str, ends: str, tmp_path: Path) -> None:
    """Of a pod as the API server sends it, 10 KiB and more, or of our own view of it, some KiB, nothing is kept. What
    is, its part in the histories of a month and the hash of its name in the event log, takes some hundred bytes."""
    recorder, kept = opened(tmp_path), list[int]()

    async def story(server: FakeServer, replica: Replica) -> None:
        for i in range(WARM + MORE + 1):
            if kind == "gang":
                server.put_group(group(f"g{i}", 2))
            names = [server.put_pod(each) for each in some(kind, i)]
            await replica.rest()
            assert len(server.bound) == len(names)
            server.bound.clear()
            server.events.clear()
            server.start_bound()
            await replica.rest()
            for name in names:
                server.set_phase(name, ends)
                server.remove_pod(name)
            if kind == "gang":
                server.remove_group(f"g{i}")
            await replica.rest()
            if i % 20 == 0:
                recorder.flush()
            server.hand.at += LIFE
            if i in (WARM, WARM + MORE):
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
        assert not replica.controller.pod_events._written

    tracemalloc.start()
    try:
        play(story, sink=recorder)
    finally:
        tracemalloc.stop()
    grown = (kept[1] - kept[0]) / MORE
    assert grown < 600, f"{grown:.0f} bytes for each"
