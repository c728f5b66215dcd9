"""Who plays the users of a day: the fixed share of a static quota, and what is left to do after an eviction."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from builders import hp, spot
from gfs.domain.task import Task
from live_day import Users, Work
from live_judge import Judge, Pod
from live_track import CONTENDERS


class Created:
    """An API server that notes what is created and deleted."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.deleted: list[str] = []

    async def create(self, path: str, body: Any) -> Any:
        self.objects.append(body)
        return {"metadata": {"uid": f"uid-{body['metadata']['name']}"}}

    async def delete(self, path: str, **_: Any) -> None:
        self.deleted.append(path.rpartition("/")[2])

    def pods(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.objects if each["kind"] == "Pod"]


class Seen:
    """A follower whose judge the test writes."""

    def __init__(self) -> None:
        self.judge = Judge()

    def look(self) -> Judge:
        return self.judge

    def pod(self, name: str, **fields: float) -> Pod:
        pod = self.judge.pods[name] = Pod(name, 4, name.startswith("spot"), None, 3600.0, 0.0, bound=0.0, **fields)
        return pod


def users(api: Created, seen: Seen, quota: float) -> Users:
    return Users(api, CONTENDERS["kube-gang"], seen, speed=60.0, quota=quota)  # type: ignore[arg-type]


def work(task: Task, seconds: float = 7200.0) -> Work:
    return Work(task, seconds, 0.0)


def admit(who: Users) -> None:
    async def begin() -> None:
        who._look()
        await asyncio.gather(*(who._begin(each) for each in list(who._admitted())))

    asyncio.run(begin())


def test_spot_tasks_wait_until_the_share_has_room_and_hp_never_does() -> None:
    """A share of 8 GPUs and spot tasks of 4, 6 and 4: the first and third fit, the second comes after both."""
    api, seen = Created(), Seen()
    who = users(api, seen, quota=8.0)
    tasks = [
        spot("t0", gpus=4).task(0),
        spot("t1", gpus=6).task(1),
        spot("t2", gpus=4).task(2),
        hp("t3", gpus=8).task(3),
    ]
    who._held.extend(work(task) for task in tasks)
    admit(who)
    assert api.pods() == ["spot-0-r1-0", "spot-2-r1-0", "hp-3-r1-0"]
    seen.pod("spot-0-r1-0", running=0.0, over=1.0)
    admit(who)
    assert api.pods()[3:] == [], "4 of 8 are left, it wants 6"
    seen.pod("spot-2-r1-0", running=0.0, over=2.0)
    admit(who)
    assert api.pods()[3:] == ["spot-1-r1-0"]
    assert who.finished == 2


def test_an_evicted_task_comes_again_with_the_work_that_was_not_saved() -> None:
    """At 60 times the speed 90 s are 90 min: one checkpoint of an hour was made, so of two hours one is left."""
    api, seen = Created(), Seen()
    who = users(api, seen, quota=inf)
    task = work(spot("t0", gpus=4).task(0))
    who._held.append(task)
    admit(who)
    pod = seen.pod("spot-0-r1-0", running=100.0)
    pod.evicted = 190.0
    admit(who)
    assert (task.left, who.evicted_runs, api.pods()) == (3600.0, 1, ["spot-0-r1-0"])
    pod.over = 191.0
    admit(who)
    assert api.pods() == ["spot-0-r1-0", "spot-0-r2-0"]
    assert api.objects[-1]["metadata"]["annotations"]["bench.gfs.dev/run-for"] == "60"
    assert api.objects[-1]["metadata"]["ownerReferences"][0]["uid"] == "uid-spot-0"


def test_the_rest_of_a_gang_is_stopped_with_its_first_victim() -> None:
    api, seen = Created(), Seen()
    who = users(api, seen, quota=inf)
    who._held.append(work(spot("a", gpus=4, pods=2).task(0)))
    admit(who)
    assert [each["kind"] for each in api.objects] == ["ConfigMap", "PodGroup", "Pod", "Pod"]
    seen.pod("spot-0-r1-0", running=0.0, evicted=5.0)
    seen.pod("spot-0-r1-1", running=0.0)
    admit(who)
    assert api.deleted == ["spot-0-r1-1"]
