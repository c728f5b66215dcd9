"""The judge of a race between schedulers: figures from a recorded watch, and from nothing else.

    python benchmarks/live_judge.py WATCH.jsonl [--speed 60]

It knows no scheduler. It reads what the API server said of pods and groups, line by line
(`{"type": ..., "received": seconds, "object": {...}}`). All times are those of who recorded, of one clock:

* created: the line that has the pod for the first time; bound: the first that has its node;
* running: the first with the phase Running; evicted: the first with the condition DisruptionTarget for
  PreemptionByScheduler and a deletion time;
* lost work: GPUs x time since the last checkpoint, of which there is one every `gfs.dev/checkpoint-interval` from the
  beginning of the run (annotation; without one none is ever made). A gang works from when the last of its pods runs;
  all of them lose what they have since then as soon as the first is evicted: the rest cannot go on without it;
* half placed: a gang of which some pods are bound, and fewer than its minimum, for longer than `HALF` seconds.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import msgspec

GPU = "nvidia.com/gpu"
INTERVAL = "gfs.dev/checkpoint-interval"
SPOT = "gfs-spot"
HALF = 5.0
"""Seconds in which a gang's pods may be bound one after the other."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class _Meta(msgspec.Struct):
    uid: str
    name: str
    namespace: str = ""
    annotations: dict[str, str] | None = None
    deletionTimestamp: str | None = None  # noqa: N815


class _Resources(msgspec.Struct):
    requests: dict[str, str] = {}


class _Container(msgspec.Struct):
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Group(msgspec.Struct):
    podGroupName: str = ""  # noqa: N815


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815
    priorityClassName: str = ""  # noqa: N815
    containers: list[_Container] = []
    schedulingGroup: _Group | None = None  # noqa: N815
    schedulingPolicy: dict[str, Any] | None = None  # noqa: N815


class _Condition(msgspec.Struct):
    type: str = ""
    reason: str | None = None


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    kind: str = ""
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Line(msgspec.Struct):
    type: str
    received: float
    object: _Object


@dataclass(slots=True)
class Pod:
    """What the watch said of one pod; inf: not yet."""

    name: str
    gpus: int
    spot: bool
    gang: tuple[str, str] | None
    interval: float
    """Seconds of the workload's time between two checkpoints; inf: none."""
    created: float
    bound: float = inf
    running: float = inf
    evicted: float = inf
    over: float = inf
    succeeded: bool = False

    @property
    def wait(self) -> float:
        """Seconds from creation to binding."""
        return self.bound - self.created

    def lost(self, began: float, at: float, speed: float) -> float:
        """GPU-seconds of the workload's time that are lost if it works from then and ends then."""
        ran = max(0.0, at - began) * speed
        return self.gpus * (ran % self.interval if self.interval < inf else ran)


@dataclass
class Judge:
    """Told of every line, in order."""

    speed: float = 1.0
    """Seconds of the workload's time a second."""
    pods: dict[str, Pod] = field(default_factory=dict)
    minimum: dict[tuple[str, str], int] = field(default_factory=dict)
    last: float = 0.0
    lines: int = 0
    _decoder: Any = field(default_factory=lambda: msgspec.json.Decoder(_Line))

    def take(self, line: bytes) -> None:
        """One line of the record."""
        event = self._decoder.decode(line)
        item, self.last = event.object, event.received
        self.lines += 1
        if item.kind == "PodGroup":
            policy = (item.spec.schedulingPolicy or {}).get("gang") or {}
            self.minimum[item.metadata.namespace, item.metadata.name] = int(policy.get("minCount", 1))
        elif item.kind == "Pod":
            self._pod(event.type, event.received, item)

    def _pod(self, word: str, now: float, item: _Object) -> None:
        pod = self.pods.get(item.metadata.uid)
        if pod is None:
            pod = self.pods[item.metadata.uid] = _pod_of(item, now)
        if item.spec.nodeName:
            pod.bound = min(pod.bound, now)
        phase = item.status.phase
        if phase == "Running":
            pod.running = min(pod.running, now)
        if item.metadata.deletionTimestamp is not None and any(
            each.type == "DisruptionTarget" and each.reason == "PreemptionByScheduler"
            for each in item.status.conditions or ()
        ):
            pod.evicted = min(pod.evicted, now)
        if phase in ("Succeeded", "Failed") or word == "DELETED":
            pod.over = min(pod.over, now)
            pod.succeeded = pod.succeeded or phase == "Succeeded"

    # -- what came of it ---------------------------------------------------------------------------

    def named(self, begins: str) -> list[Pod]:
        """The pods whose names begin so."""
        return [pod for pod in self.pods.values() if pod.name.startswith(begins)]

    def lost_work(self) -> float:
        """GPU-hours of the workload's time that evictions lost."""
        lost = sum(
            pod.lost(pod.running, pod.evicted, self.speed)
            for pod in self.pods.values()
            if pod.gang is None and is_victim(pod)
        )
        for members in self.gangs().values():
            if hit := [pod.evicted for pod in members if is_victim(pod)]:
                first = min(hit)
                there = [pod for pod in members if pod.created < first <= pod.over]
                began = max((pod.running for pod in there), default=first)  # without one of them it did nothing
                lost += sum(pod.lost(began, first, self.speed) for pod in there)
        return lost / 3600

    def losers(self) -> int:
        """Pods that lost their work by evictions: the evicted ones, and the others of their gangs."""
        count = sum(pod.gang is None and is_victim(pod) for pod in self.pods.values())
        for members in self.gangs().values():
            if hit := [pod.evicted for pod in members if is_victim(pod)]:
                count += sum(pod.running < min(hit) <= pod.over for pod in members)
        return count

    def tasks_hit(self) -> int:
        """Tasks of which a pod was evicted: a gang is one."""
        victims = [pod for pod in self.pods.values() if is_victim(pod)]
        return sum(pod.gang is None for pod in victims) + len({pod.gang for pod in victims if pod.gang is not None})

    def half_placed(self, since: float = 0.0) -> tuple[int, float]:
        """How many gangs were half placed for more than `HALF` seconds since then, and GPU-seconds that these held."""
        gangs, held = 0, 0.0
        for key, members in self.gangs().items():
            need, wasted, half = self.minimum.get(key, len(members)), 0.0, 0.0
            moments = {since, *(pod.bound for pod in members), *(pod.over for pod in members), self.last}
            for begin, end in pairwise(sorted(each for each in moments if since <= each <= self.last)):
                there = [pod for pod in members if pod.bound <= begin < pod.over]
                done = sum(pod.succeeded and pod.over <= begin for pod in members)
                if there and len(there) + done < need:
                    half, wasted = half + end - begin, wasted + (end - begin) * sum(pod.gpus for pod in there)
            if half > HALF:
                gangs, held = gangs + 1, held + wasted
        return gangs, held

    def gangs(self) -> dict[tuple[str, str], list[Pod]]:
        """Namespace and name of a group -> its pods."""
        gangs: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in self.pods.values():
            if pod.gang is not None:
                gangs[pod.gang].append(pod)
        return gangs

    def figures(self, begins: str = "", since: float = 0.0) -> dict[str, Any]:
        """What can be said of the pods whose names begin so, of all evictions, and of all gangs since then."""
        pods = self.named(begins)
        bound = [pod for pod in pods if pod.bound < inf]
        hp = [pod.wait for pod in bound if not pod.spot]
        gangs, held = self.half_placed(since)
        took = max((pod.bound for pod in bound), default=0.0) - min((pod.created for pod in pods), default=0.0)
        return {
            "pods": len(pods),
            "bound": len(bound),
            "bound_gpus": sum(pod.gpus for pod in bound),
            "bound_per_second": round(len(bound) / took, 1) if bound and took > 0 else 0.0,
            "drained_per_second": _rate([pod.bound for pod in bound]),
            "wait_p50": quantile([pod.wait for pod in bound], 0.5),
            "wait_p99": quantile([pod.wait for pod in bound], 0.99),
            "hp_never_bound": sum(not pod.spot and pod.bound == inf for pod in pods),
            "hp_wait_p50": quantile(hp, 0.5),
            "hp_wait_p99": quantile(hp, 0.99),
            "hp_wait_mean": round(sum(hp) / len(hp), 3) if hp else 0.0,
            "evicted": sum(map(is_victim, self.pods.values())),
            "tasks_evicted": self.tasks_hit(),
            "lost_their_work": self.losers(),
            "lost_gpu_hours": round(self.lost_work(), 2),
            "gangs": len(self.gangs()),
            "gangs_half_placed": gangs,
            "half_placed_gpu_seconds": round(held, 1),
        }


def _rate(moments: Sequence[float]) -> float:
    """How many a second, from the first to the last."""
    took = max(moments, default=0.0) - min(moments, default=0.0)
    return round((len(moments) - 1) / took, 1) if took > 0 else 0.0


def is_victim(pod: Pod) -> bool:
    """Whether it was evicted while it ran or was about to."""
    return pod.evicted < inf and pod.bound < inf


def _pod_of(item: _Object, now: float) -> Pod:
    meta, spec = item.metadata, item.spec
    group = spec.schedulingGroup.podGroupName if spec.schedulingGroup is not None else ""
    interval = seconds((meta.annotations or {}).get(INTERVAL, ""))
    gpus = sum(int(each.resources.requests.get(GPU, "0")) for each in spec.containers)
    gang = (meta.namespace, group) if group else None
    return Pod(meta.name, gpus, spec.priorityClassName == SPOT, gang, interval, now)


def seconds(text: str) -> float:
    """Seconds of '30m', '1h', '90s' or '90'; inf: nothing that can be read."""
    said = re.fullmatch(r"(\d+)([smh]?)", text)
    return int(said[1]) * UNITS[said[2] or "s"] if said else inf


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 3) if ordered else 0.0


def judged(lines: Iterable[bytes], speed: float = 1.0) -> Judge:
    """A judge who has read all lines."""
    judge = Judge(speed)
    for line in lines:
        judge.take(line)
    return judge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("watch", type=Path)
    parser.add_argument("--speed", type=float, default=1.0, help="seconds of the workload's time a second")
    parser.add_argument("--pods", default="", help="only those whose names begin so")
    chosen = parser.parse_args()
    with chosen.watch.open("rb") as file:
        print(json.dumps(judged(file, chosen.speed).figures(chosen.pods), indent=1))


if __name__ == "__main__":
    main()
