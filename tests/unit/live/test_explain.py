"""Why pods wait: every pod says it, a long queue costs no more than a short one, and nothing floods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from objects import node, pod
from story import bound, condition, play

from fake_cluster import FakeServer, Replica
from gfs.live.explain import IN_TURN
from gfs.live.learning import caution
from gfs.live.translate.shape import Json


class CountingServer:
    """Counts what is said while a story goes on."""

    def __init__(self, server: FakeServer) -> None:
        self.said: Counter[str] = Counter()
        self._patch, self._create = server.patch, server.create
        server.patch, server.create = self.patch, self.create  # type: ignore[method-assign]

    async def create(self, path: str, body: Json) -> Json:
        self.said["events"] += 1
        return await self._create(path, body)

    async def patch(self, path: str, body: Json) -> Json:
        self.said["events" if "/events/" in path else "patches"] += 1
        return await self._patch(path, body)


Phase = Callable[[FakeServer, Replica], Awaitable[None]]


def drive(story: Phase, gpus: int = 16, **parameters: Any) -> None:
    play(story, node("n1", gpus=gpus), parameters=parameters)


def messages(server: FakeServer) -> dict[str, str]:
    """What pods say, by name."""
    told = {each["metadata"]["name"]: condition(server, each["metadata"]["name"]) for each in server.pods.values()}
    return {name: each["message"] for name, each in told.items() if each}


def test_a_thousand_waiting_pods_in_an_hour() -> None:
    """HP pods come and go all the time, so that the numbers in every reason change."""

    async def story(server: FakeServer, replica: Replica) -> None:
        counting = CountingServer(server)
        for i in range(1000):
            server.put_pod(pod(f"p{i}", gpus=2))
        for second in range(0, 3600, 10):
            server.hand.at = float(second)
            name = f"hp{second // 30}"
            if second % 30 == 0:
                server.put_pod(bound(name, gpus=1 + second // 30 % 7, cls="gfs-hp"))
            elif second % 30 == 20:
                server.remove_pod(f"lab/{name}")
            await replica.step()
        assert len(messages(server)) == 1000, "each of them was told"
        assert counting.said["patches"] <= 20 * 1000, "the quota changes every five minutes"
        assert counting.said["events"] <= 12 * 1000

    drive(story, quota="forecast", forecaster="weekly-peak")


def test_a_long_queue_is_looked_at_in_turns_and_newcomers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        for i in range(500):
            server.put_pod(pod(f"p{i}", gpus=8))
        await replica.step()
        policy = replica.controller.scheduler.pools["A100"].policy
        asked: list[str] = []
        explain = policy.explain
        monkeypatch.setattr(type(policy), "explain", lambda _, task: asked.append(task.name) or explain(task))
        server.put_pod(pod("new", gpus=8))
        server.hand.at = 1.0
        await replica.step()
        assert len(asked) <= IN_TURN + 2, "the policy itself asks for a newcomer, too"
        assert "new" in messages(server)
        replica.controller.step()
        assert len(asked) <= IN_TURN + 2, "not twice in a second"
        for second in range(2, 8):
            server.hand.at = float(second)
            await replica.step()
        assert len(set(asked)) == 501, "each has its turn"

    drive(story, gpus=4, quota="none")


def test_of_a_flood_no_pod_is_told_a_reason_before_it_was_decided_on() -> None:
    """Of 1,200 pods 500 are decided on in the first instant. Two seconds later all were, and each knows its reason."""

    async def story(server: FakeServer, replica: Replica) -> None:
        for i in range(1200):
            server.put_pod(pod(f"p{i}", gpus=8))
        await replica.step()
        assert 0 < len(messages(server)) <= 500
        for second in (0.0, 0.0, 1.0, 2.0):
            server.hand.at = second
            await replica.step()
        told = messages(server)
        assert len(told) == 1200
        assert len(set(told.values())) == 1, "all for the same reason, and it is no gang's"
        assert "gang" not in told["p1199"]

    drive(story, gpus=4, quota="none")


def test_a_pod_that_waits_for_quota_says_when_the_forecast_expects_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("spot", gpus=4))
        await replica.step()
        assert "the quota is cautious: no demand is known yet" in messages(server)["spot"]
        monkeypatch.setattr("gfs.live.explain.caution", lambda pool, hours: "")
        server.hand.at = 2.0
        await replica.step()
        # nothing known: all 16 GPUs are kept for HP in all of the four hours that the forecast has
        assert messages(server)["spot"].endswith("; the forecast expects no room before 15:00 UTC")

    drive(story, quota="forecast", forecaster="weekly-peak")


def test_a_pool_that_follows_a_model_is_not_cautious() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        await replica.step()
        assert caution(replica.controller.scheduler.pools["A100"], 24.0) == ""

    drive(story, quota="fixed")


def test_a_pod_whose_place_is_not_free_yet_says_which_one_it_waits_for() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("victim", gpus=4))
        await replica.rest()
        server.put_pod(pod("urgent", gpus=4, cls="gfs-hp"))
        await replica.rest()
        server.hand.at = 2.0
        await replica.rest()
        said = "is placed on n1 and waits for room there: other pods are still leaving"
        assert messages(server)["urgent"] == said
        assert server.pods["lab/urgent"]["status"]["nominatedNodeName"] == "n1"

    drive(story, gpus=4, quota="none")


def test_a_pod_whose_binding_is_under_way_has_no_reason_to_wait() -> None:
    """The API server is slow; that other pods are still leaving would not be true."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("first"))
        for _ in range(3):
            replica.show()
            replica.controller.step()  # the request has been spawned and has not run
            server.hand.at += 2.0
        (uid,) = replica.controller.mirror.pods
        assert uid in replica.controller.overlay.bindings
        assert replica.controller.pod_events.why(uid) == ""

    drive(story)
