"""What is written on pods: when it changes, and no flood of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from objects import pod

from gfs.live.api import Api
from gfs.live.pod_events import PodEvents
from gfs.live.problems import Conflict, Unavailable
from gfs.live.settings import LiveSettings
from gfs.live.translate.pods import read_pod

SETTINGS = LiveSettings()


class Paper:
    """An API server that takes everything and counts."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.patches: list[Any] = []
        self.refuses = False
        self.has_event = False

    async def create(self, path: str, body: Any) -> Any:
        if self.has_event:
            raise Conflict("it is there")
        self.events.append(body)

    async def patch(self, path: str, body: Any) -> Any:
        if self.refuses:
            raise Unavailable("not now")
        (self.events if "/events/" in path else self.patches).append(body)


class Teller:
    def __init__(self, *, silent: bool = False) -> None:
        self.paper, self.at = Paper(), 0.0
        self.pod_events = PodEvents(
            cast(Api, self.paper),
            SETTINGS,
            self._run,
            lambda: self.at,
            lambda: 1e9 + self.at,
            silent=silent,
        )

    def _run(self, job: Any) -> None:
        asyncio.run(job)


def test_numbers_that_change_are_told_ever_less_often() -> None:
    teller, view = Teller(), read_pod(pod(), SETTINGS)
    told = []
    for second in range(0, 3600, 10):
        teller.at = float(second)
        before = len(teller.paper.patches)
        teller.pod_events.waits(view, "Unschedulable", f"pool A100: {second} idle GPUs")
        told += [second] if len(teller.paper.patches) > before else []
    assert told == [0, 60, 180, 420, 900, 1500, 2100, 2700, 3300]
    assert len(teller.paper.events) == 1


def test_reasons_that_take_turns_are_told_once_a_minute_after_a_while() -> None:
    teller, view = Teller(), read_pod(pod(), SETTINGS)
    for second in range(3600):
        teller.at = float(second)
        teller.pod_events.waits(view, "Unschedulable", "no idle GPU" if second % 2 else "spot quota 5")
    assert len(teller.paper.patches) <= 5 + 60
    assert len(teller.paper.events) <= 2 * 6, "the same every ten minutes"


def test_what_the_server_did_not_take_is_told_again_at_the_next_look() -> None:
    teller, view = Teller(), read_pod(pod(), SETTINGS)
    teller.paper.refuses = True
    teller.pod_events.waits(view, "Unschedulable", "waits")
    teller.paper.refuses = False
    teller.at = 1.0
    for _ in range(2):
        teller.pod_events.waits(view, "Unschedulable", "waits")
    (told,) = teller.paper.patches
    assert told["status"]["conditions"][0]["message"] == "waits"
    assert "lastTransitionTime" in told["status"]["conditions"][0]


def test_another_reason_is_told_at_once_and_the_same_one_never_again() -> None:
    teller = Teller()
    view = read_pod(pod(), SETTINGS)
    for why in ("3 idle GPUs", "3 idle GPUs", "4 idle GPUs", "spot quota 5", "spot quota 5"):
        teller.pod_events.waits(view, "Unschedulable", why)
    messages = [patch["status"]["conditions"][0]["message"] for patch in teller.paper.patches]
    assert messages == ["3 idle GPUs", "spot quota 5"], "4 in place of 3 can wait a minute"
    teller.at = 61.0
    teller.pod_events.waits(view, "Unschedulable", "spot quota 6")
    assert len(teller.paper.patches) == 3


def test_the_same_sentence_with_another_reason_is_told_at_once() -> None:
    """Autoscalers add nodes for `Unschedulable` only, so the reason of the condition matters."""
    teller, view = Teller(), read_pod(pod(), SETTINGS)
    teller.pod_events.waits(view, "WaitsForSpotQuota", "8 idle GPUs")
    teller.pod_events.waits(view, "Unschedulable", "8 idle GPUs")
    told = [patch["status"]["conditions"][0]["reason"] for patch in teller.paper.patches]
    assert told == ["WaitsForSpotQuota", "Unschedulable"]


def test_an_event_that_has_expired_is_written_again() -> None:
    """The API server keeps events for an hour; one that is still there is counted up."""
    teller, view = Teller(), read_pod(pod(), SETTINGS)
    for at, there in ((0.0, False), (1200.0, True), (7200.0, False)):
        teller.at, teller.paper.has_event = at, there
        teller.pod_events.event(view, "Preempted", "makes room")
    assert [event["count"] for event in teller.paper.events] == [1, 2, 3]


def test_a_shadow_says_nothing() -> None:
    teller = Teller(silent=True)
    teller.pod_events.waits(read_pod(pod(), SETTINGS), "Unschedulable", "no room")
    teller.pod_events.event(read_pod(pod(), SETTINGS), "Why", "because")
    assert not teller.paper.events
    assert not teller.paper.patches


class Slow(Paper):
    """An API server that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = asyncio.Event()

    async def create(self, path: str, body: Any) -> Any:
        await super().create(path, body)
        await self.answer.wait()

    async def patch(self, path: str, body: Any) -> Any:
        await super().patch(path, body)
        await self.answer.wait()


def test_a_slow_server_has_few_words_in_flight_and_hears_the_last_one_of_each_pod() -> None:
    """Each of 20 pods waits for one reason, then for another, before anything is answered."""

    async def story() -> None:
        paper, tasks = Slow(), list[Any]()
        loop = asyncio.get_running_loop()
        pod_events = PodEvents(
            cast(Api, paper), SETTINGS, lambda job: tasks.append(loop.create_task(job)), lambda: 0.0, lambda: 1e9
        )
        views = [read_pod(pod(f"p{i}"), SETTINGS) for i in range(20)]
        for view in views:
            pod_events.waits(view, "Unschedulable", "no idle GPU")
        await asyncio.sleep(0)
        assert (len(paper.patches), len(paper.events)) == (4, 4), "8 in flight: conditions and events of four pods"
        for view in views:
            pod_events.waits(view, "Unschedulable", "spot quota")
        await pod_events.withdraw(views[19].uid)
        binding = asyncio.create_task(pod_events.withdraw(views[0].uid))
        await asyncio.sleep(0)
        assert not binding.done(), "its first sentence is on the way"
        paper.answer.set()
        await binding
        await asyncio.gather(*tasks)
        told = [(each["metadata"]["uid"], each["status"]["conditions"][0]["message"]) for each in paper.patches]
        first, last = (
            [uid for uid, why in told if why == "no idle GPU"],
            [uid for uid, why in told if why != "no idle GPU"],
        )
        assert first == [f"uid-p{i}" for i in range(4)], "the others are told the last one alone"
        assert sorted(last) == sorted(f"uid-p{i}" for i in range(1, 19)), "and those that are bound nothing more"
        assert len(paper.events) == 2 * 20

    asyncio.run(story())


def test_while_pods_are_bound_one_word_at_a_time_is_said_and_afterwards_the_rest() -> None:
    """20 events while bindings are under way: one is in flight; when these are over, the others go, 8 at a time."""

    async def story() -> None:
        paper, tasks, busy = Slow(), list[Any](), True
        loop = asyncio.get_running_loop()
        pod_events = PodEvents(
            cast(Api, paper),
            SETTINGS,
            lambda job: tasks.append(loop.create_task(job)),
            lambda: 0.0,
            lambda: 1e9,
            lambda: busy,
        )
        for i in range(20):
            pod_events.event(read_pod(pod(f"p{i}"), SETTINGS), "Scheduled", "bound", "Normal")
        await asyncio.sleep(0)
        assert len(paper.events) == 1
        busy, first = False, paper.answer
        paper.answer = asyncio.Event()
        first.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(paper.events) == 1 + 8
        paper.answer.set()
        while not all(task.done() for task in tasks):
            await asyncio.gather(*tasks)
        assert len(paper.events) == 20

    asyncio.run(story())
