"""What is kept of a pod that has come and gone: hardly anything, in bytes of Python's own, not of the machine."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from objects import group, owned, pod
from test_controller import WillingApi, drive
from test_record import opened

from gfs.live.controller import Controller
from hand import Hand

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


@pytest.mark.parametrize("kind", ["alone", "job", "gang"])
def test_who_has_gone_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    """Of a pod as the API server sends it, 10 KiB and more, or of our own view of it, some KiB, nothing is kept. What
    is, its part in the histories of a month and the hash of its name in the event log, takes some hundred bytes."""
    recorder, clock, kept = opened(tmp_path), Hand(), list[int]()

    async def test(controller: Controller, api: WillingApi) -> None:
        cluster = controller.cluster

        async def bound(*pods: dict[str, Any]) -> list[dict[str, Any]]:
            """Wait until pods are bound, and let them run."""
            for _ in range(2):
                controller.step()
                await controller.settle()
            assert len(api.bound) == len(pods)
            api.bound.clear()
            runs = [
                {**each, "spec": {**each["spec"], "nodeName": "n1"}, "status": {"phase": "Running"}} for each in pods
            ]
            for before, after in zip(pods, runs, strict=True):
                cluster.pod_changed(before, after)
            controller.step()
            return runs

        async def end(pods: list[dict[str, Any]]) -> None:
            for each in pods:
                over = {**each, "status": {"phase": "Succeeded"}}
                cluster.pod_changed(each, over)
                cluster.pod_changed(over, None)
            controller.step()
            await controller.settle()

        for i in range(WARM + MORE + 1):
            if kind == "gang":
                cluster.group_changed(None, group(f"g{i}", 2))
            pods = some(kind, i)
            for each in pods:
                cluster.pod_changed(None, each)
            runs = await bound(*pods)
            await end(runs)
            if kind == "gang":
                cluster.group_changed(group(f"g{i}", 2), None)
            if i % 20 == 0:
                recorder.flush()
            clock.at += LIFE
            if i in (WARM, WARM + MORE):
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        drive(test, record=recorder.record, clock=clock, monotonic=clock)
    finally:
        tracemalloc.stop()
    grown = (kept[1] - kept[0]) / MORE
    assert grown < 600, f"{grown:.0f} bytes for each"
