"""Why pods wait: every pod hears of it, a long queue costs no more than a short one, and nothing floods."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from objects import node, pod

from gfs.assembly.parameters import Parameters
from gfs.core.scheduler import PoolScheduler
from gfs.live.api import Api
from gfs.live.controller import Controller
from gfs.live.explain import IN_TURN
from gfs.live.service import new_scheduler
from gfs.live.settings import LIVE_DEFAULTS, LiveSettings
from hand import Hand

SETTINGS = LiveSettings(burst=0.0)


class CountingApi:
    """Takes everything, and counts what is said."""

    def __init__(self) -> None:
        self.said: Counter[str] = Counter()
        self.messages: dict[str, str] = {}

    async def create(self, path: str, body: Any) -> dict[str, Any]:
        self.said["events"] += path.endswith("/events")
        return {}

    async def patch(self, path: str, body: Any, kind: str = "") -> dict[str, Any]:
        if "/events/" in path:
            self.said["events"] += 1
        else:
            self.said["patches"] += 1
            self.messages[path.split("/")[-2]] = body["status"]["conditions"][0]["message"]
        return {}

    def __getattr__(self, name: str) -> Callable[..., Awaitable[dict[str, Any]]]:
        async def answer(*_: Any, **__: Any) -> dict[str, Any]:
            return {}

        return answer


def drive(test: Callable[[Controller, CountingApi, Hand], Awaitable[None]], gpus: int = 16, **parameters: Any) -> None:
    async def main() -> None:
        api, hand = CountingApi(), Hand()
        controller = Controller(
            cast(Api, api), SETTINGS, tick=300.0, guarantee_hours=1.0, checkpoint_interval=3600.0, clock=hand,
            monotonic=hand,
        )  # fmt: skip
        controller.cluster.node_changed(None, node("n1", gpus=gpus))
        controller.begin(new_scheduler(SETTINGS, Parameters(**{**LIVE_DEFAULTS, **parameters})))
        await test(controller, api, hand)

    asyncio.run(main())


def test_a_thousand_waiting_pods_in_an_hour() -> None:
    """HP pods come and go all the time, so that the numbers in every reason change."""

    async def test(controller: Controller, api: CountingApi, hand: Hand) -> None:
        for i in range(1000):
            controller.cluster.pod_changed(None, pod(f"p{i}", gpus=2))
        for second in range(0, 3600, 10):
            hand.at = float(second)
            hp = pod(f"hp{second // 30}", gpus=1 + second // 30 % 7, cls="gfs-hp", nodeName="n1", phase="Running")
            if second % 30 == 0:
                controller.cluster.pod_changed(None, hp)
            elif second % 30 == 20:
                controller.cluster.pod_changed(hp, None)
            controller.step()
            await controller.settle()
        assert len(api.messages) == 1000, "everybody was told"
        assert api.said["patches"] <= 20 * 1000, (
            "the quota changes every five minutes, and the node is overfull at times"
        )
        assert api.said["events"] <= 12 * 1000

    drive(test, quota="forecast", forecaster="weekly-peak")


def test_a_long_queue_is_looked_at_in_turns_and_newcomers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(controller: Controller, api: CountingApi, hand: Hand) -> None:
        for i in range(500):
            controller.cluster.pod_changed(None, pod(f"p{i}", gpus=8))
        controller.step()
        policy = controller.scheduler.pools["A100"].policy
        asked: list[str] = []
        explain = policy.explain
        monkeypatch.setattr(type(policy), "explain", lambda _, task: asked.append(task.name) or explain(task))
        controller.cluster.pod_changed(None, pod("new", gpus=8))
        hand.at = 1.0
        controller.step()
        await controller.settle()
        assert len(asked) <= IN_TURN + 2, "the policy itself asks for a newcomer, too"
        assert "new" in api.messages
        controller.step()
        assert len(asked) <= IN_TURN + 2, "not twice in a second"
        for second in range(2, 8):
            hand.at = float(second)
            controller.step()
        assert len(set(asked)) == 501, "each has its turn"

    drive(test, gpus=4, quota="none")


def test_of_a_flood_nobody_is_told_a_reason_before_it_was_decided_on() -> None:
    """Of 1,200 pods 500 are decided on in the first instant. Two seconds later all were, and each knows its reason."""

    async def test(controller: Controller, api: CountingApi, hand: Hand) -> None:
        for i in range(1200):
            controller.cluster.pod_changed(None, pod(f"p{i}", gpus=8))
        controller.step()
        await controller.settle()
        assert 0 < len(api.messages) <= 500
        for second in (0.0, 0.0, 1.0, 2.0):
            hand.at = second
            controller.step()
        await controller.settle()
        assert len(api.messages) == 1200
        assert len(set(api.messages.values())) == 1, "all for the same reason, and it is no gang's"
        assert "gang" not in api.messages["p1199"]

    drive(test, gpus=4, quota="none")


def test_who_waits_for_quota_hears_when_the_forecast_expects_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(controller: Controller, api: CountingApi, hand: Hand) -> None:
        controller.cluster.pod_changed(None, pod("spot", gpus=4))
        controller.step()
        await controller.settle()
        assert "the quota is cautious: no demand is known yet" in api.messages["spot"]
        monkeypatch.setattr("gfs.live.explain.caution", lambda pool, hours: "")
        hand.at = 2.0
        controller.step()
        await controller.settle()
        # nothing known: all 16 GPUs are kept for HP in all of the four hours that the forecast has
        assert api.messages["spot"].endswith("; the forecast expects no room before 15:00 UTC")

    drive(test, quota="forecast", forecaster="weekly-peak")


def test_a_pool_that_follows_a_model_is_not_cautious() -> None:
    async def test(controller: Controller, api: CountingApi, hand: Hand) -> None:
        from gfs.live.learning import caution

        controller.step()
        pool: PoolScheduler = controller.scheduler.pools["A100"]
        assert caution(pool, 24.0) == ""

    drive(test, quota="fixed")
