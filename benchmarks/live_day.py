"""The paper's production result on the bench: the same day under a static quota with kube-scheduler, then under GFS.

Time is made faster. The driver plays users and their controllers: it creates each task's pods when its user would, and
creates them again after an eviction with the work that is left since the last checkpoint. Under the static quota it
also plays the fixed share: a spot task's pods are created when, with those that are there, they stay within it (what a
ResourceQuota on the spot class does). Under GFS all are created at once, and its own quota decides.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

from bench import manifests
from bench.client import GROUPS
from bench.demo import BEGIN, Demo
from bench.submission import nodes
from gfs.domain.task import Task
from gfs.domain.units import HOUR
from gfs.domain.workload import Workload
from gfs.live.api import Api
from gfs.live.problems import NotFound
from gfs.live.translate.shape import Json
from live_judge import Pod
from live_races import raced
from live_track import SPACE, Contender, Follower, Track

STATIC = 0.35
"""The share of the GPUs that spot tasks may have under the static quota, as in the simulated comparison."""
EVERY = 0.1
"""Seconds between two looks."""
PODS = f"/{GROUPS['pods']}/namespaces/{SPACE}/pods"
GROUP_PATH = f"/{GROUPS['podgroups']}/namespaces/{SPACE}/podgroups"
OWNERS = f"/api/v1/namespaces/{SPACE}/configmaps"


@dataclass
class Work:
    """A task and how far it has come."""

    task: Task
    left: float
    """Seconds of work, of the workload's time."""
    submitted: float
    """Seconds since 1970, of the bench."""
    run: int = 0
    names: list[str] = field(default_factory=list)
    """The pods of the present run."""
    stopped: bool = False
    """Whether the present run was evicted, and its pods are on their way out."""
    owner: Json = field(default_factory=dict)

    @property
    def gpus(self) -> float:
        """What it asks for in all."""
        return self.task.gpus


class Users:
    """Creates the work of a day, and again what was evicted."""

    def __init__(self, api: Api, contender: Contender, follower: Follower, speed: float, quota: float) -> None:
        """`quota`: GPUs that spot tasks may have at once."""
        self._api, self._contender, self._follower, self._speed = api, contender, follower, speed
        self._quota, self._spot = quota, 0.0
        self._held: deque[Work] = deque()
        self._alive: list[Work] = []
        self._seen = 0
        self._pods: dict[str, Pod] = {}
        self.runs = self.evicted_runs = self.finished = 0
        self.began = 0.0

    async def play(self, due: list[tuple[float, Work]], until: float) -> None:
        """Until the day is over, by the wall clock; `due` is in order of time."""
        waiting = deque(due)
        while time.time() < until:
            while waiting and waiting[0][0] <= time.time():
                _, work = waiting.popleft()
                self._held.append(work)
            self._look()
            await asyncio.gather(*(self._begin(work) for work in list(self._admitted())))
            await asyncio.sleep(EVERY)

    def _admitted(self) -> Iterator[Work]:
        """Who may be created now: HP always, spot within the quota, in order of submission, who fits."""
        held, self._held = self._held, deque()
        for work in held:
            if work.task.is_spot and self._spot + work.gpus > self._quota:
                self._held.append(work)
                continue
            self._spot += work.gpus if work.task.is_spot else 0.0
            yield work

    def _look(self) -> None:
        judge = self._follower.look()
        for pod in islice(judge.pods.values(), self._seen, None):
            self._pods[pod.name] = pod
        self._seen = len(judge.pods)
        for work in list(self._alive):
            pods = [self._pods.get(name) for name in work.names]
            there = [pod for pod in pods if pod is not None]
            if not work.stopped and any(pod.evicted < inf for pod in there):
                self._stop(work, there)
            if len(there) == len(pods) and all(pod.over < inf for pod in there):
                self._alive.remove(work)
                self._spot -= work.gpus if work.task.is_spot else 0.0
                if work.stopped:
                    self._held.appendleft(work)
                else:
                    self.finished += 1

    def _stop(self, work: Work, pods: list[Pod]) -> None:
        """A pod of a run is evicted: the others cannot go on without it; what was saved need not be done again."""
        work.stopped = True
        self.evicted_runs += 1
        began = max(pod.running for pod in pods)
        ran = max(0.0, min(pod.evicted for pod in pods) - began) * self._speed if began < inf else 0.0
        interval = work.task.checkpoint_interval
        work.left = max(work.left - ran // interval * interval, 1.0)
        for pod in pods:
            if pod.evicted == inf and pod.over == inf:
                self._stopping = asyncio.ensure_future(self._delete(pod.name))

    async def _delete(self, name: str) -> None:
        with suppress(NotFound):
            await self._api.delete(f"{PODS}/{name}")

    async def _begin(self, work: Work) -> None:
        task, first = work.task, not work.run
        name = f"{'spot' if task.is_spot else 'hp'}-{task.index}"
        if first:
            meta = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SPACE}}
            made = await self._api.create(OWNERS, meta)
            work.owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "controller": True}
            work.owner["uid"] = made["metadata"]["uid"]
            if task.pods > 1:
                await self._api.create(GROUP_PATH, manifests.pod_group(name, SPACE, task.pods))
        work.run += 1
        self.runs += task.is_spot
        work.stopped = False
        work.names = [f"{name}-r{work.run}-{i}" for i in range(task.pods)]
        self._alive.append(work)
        await asyncio.gather(*(self._api.create(PODS, self._pod(work, each, name)) for each in work.names))

    def _pod(self, work: Work, name: str, group: str) -> Json:
        task = work.task
        notes = {
            "gfs.dev/guaranteed-duration": f"{task.guarantee_hours:g}h",
            "gfs.dev/checkpoint-interval": f"{task.checkpoint_interval:.0f}s",
        }
        pod = manifests.pod(
            name,
            SPACE,
            scheduler=self._contender.scheduler,
            priority_class="gfs-spot" if task.is_spot else "gfs-hp",
            gpus=task.gpus_per_pod,
            cpus=f"{task.cpus_per_pod or 1:g}",
            grace=1,
            run_for=round(work.left / self._speed, 3),
            nodeSelector={manifests.MODEL_LABEL: task.gpu_model},
            annotations=notes,
            group=group if task.pods > 1 else "",
        )
        pod["metadata"]["ownerReferences"] = [work.owner]
        return pod


def workload(nodes: int, hours: float) -> Workload:
    """A day of the demonstration's trace, whose spot work alone would fill the cluster at times."""
    return Demo(Path(), nodes=nodes, hours=hours).workload()


def day(
    track: Track, contender: Contender, trace: Workload, hours: float, seconds: float, share: float = STATIC
) -> dict[str, Any]:
    """The day, in so many seconds, under one scheduler; kube-scheduler with the static quota, GFS with its own."""
    speed, gpus = hours * HOUR / seconds, sum(trace.capacity().values())
    quota = inf if contender.gfs else share * gpus
    track.create(nodes(trace))
    with raced(track, contender, "day", pods="", speed=speed) as (follower, result):

        async def play() -> Users:
            async with await Api.connect(track.bench.kubeconfig, in_flight=32, timeout=60.0) as api:
                users, began = Users(api, contender, follower, speed, quota), time.time()
                due = []
                for task in trace.tasks:
                    at = began + (task.submit_time - BEGIN) / speed
                    due.append((at, Work(task, trace.durations[task.index], at)))
                await users.play(due, began + seconds)
                users.began = began
                return users

        users = asyncio.run(play())
    judge = follower.look()
    end = users.began + seconds
    held = sum(pod.gpus * max(0.0, min(pod.over, end) - pod.bound) for pod in judge.pods.values() if pod.bound < end)
    lost = judge.lost_work()
    hours_of = speed / HOUR
    hp = [pod for pod in judge.named("hp-") if pod.created < end]
    track.clear()
    return {
        **result.figures,
        "gpus": gpus,
        **({} if contender.gfs else {"static_share": share}),
        "tasks": len(trace.tasks),
        "speed": speed,
        "spot_runs": users.runs,
        "spot_runs_evicted": users.evicted_runs,
        "eviction_rate": round(100 * users.evicted_runs / max(users.runs, 1), 2),
        "tasks_finished": users.finished,
        "allocation": round(100 * held / (gpus * seconds), 1),
        "useful_gpu_hours": round(held * hours_of - lost, 1),
        "hp_wait_mean": round(sum(min(pod.bound, end) - pod.created for pod in hp) / max(len(hp), 1), 3),
    }
