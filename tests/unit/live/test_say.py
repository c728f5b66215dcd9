"""What is said on pods: when it changes, and no flood of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="needs gfs-scheduler[live]")

from objects import pod

from gfs.live.say import Speaker
from gfs.live.settings import LiveSettings
from gfs.live.translate.pods import read_pod

SETTINGS = LiveSettings()


class Paper:
    """An API server that takes everything and counts."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.patches: list[Any] = []

    async def create(self, path: str, body: Any) -> Any:
        self.events.append(body)

    async def patch(self, path: str, body: Any, kind: str = "") -> Any:
        (self.events if "/events/" in path else self.patches).append(body)


class Teller:
    def __init__(self) -> None:
        self.paper, self.at = Paper(), 0.0
        self.speaker = Speaker(self.paper, SETTINGS, self._run, lambda: self.at, lambda: 1e9 + self.at)  # type: ignore[arg-type]

    def _run(self, job: Any) -> None:
        asyncio.run(job)


def test_a_thousand_waiting_pods_in_an_hour() -> None:
    teller = Teller()
    pods = [read_pod(pod(f"p{i}"), SETTINGS) for i in range(1000)]
    for second in range(0, 3600, 10):
        teller.at = float(second)
        for each in pods:
            teller.speaker.waits(each, f"pool A100: {second % 7} idle GPUs but no node has 8; largest gap {second % 5}")
    assert len(teller.paper.events) <= 1000 * 6, "one in ten minutes at most"
    assert len(teller.paper.patches) <= 1000 * 60, "one a minute at most"


def test_another_reason_is_told_at_once_and_the_same_one_never_again() -> None:
    teller = Teller()
    view = read_pod(pod(), SETTINGS)
    for why in ("3 idle GPUs", "3 idle GPUs", "4 idle GPUs", "spot quota 5", "spot quota 5"):
        teller.speaker.waits(view, why)
    messages = [patch["status"]["conditions"][0]["message"] for patch in teller.paper.patches]
    assert messages == ["3 idle GPUs", "spot quota 5"], "4 in place of 3 can wait a minute"
    teller.at = 61.0
    teller.speaker.waits(view, "spot quota 6")
    assert len(teller.paper.patches) == 3


def test_a_shadow_says_nothing() -> None:
    teller = Teller()
    teller.speaker.silent = True
    teller.speaker.waits(read_pod(pod(), SETTINGS), "no room")
    teller.speaker.warn(read_pod(pod(), SETTINGS), "Why", "because")
    assert not teller.paper.events
    assert not teller.paper.patches
