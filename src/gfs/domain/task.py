"""A task: what a user submits (docs/concepts/glossary.md). Roles of equal pods that start together or not at all.

How long it will run is not here: no scheduler knows, so there is no field that one could read. A trace keeps
durations beside its tasks (`gfs.domain.workload`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache

from gfs.domain.units import HOUR, MICRO, to_micro


class Priority(IntEnum):
    """The two classes of work."""

    HP = 0
    """High priority: never evicted."""
    SPOT = 1
    """May be evicted by HP, runs only inside the spot quota."""

    @property
    def label(self) -> str:
        """The word the trace and the event log use: 'HP' or 'Spot'."""
        return "HP" if self is Priority.HP else "Spot"


Requests = tuple[tuple[str, float], ...]
"""What a pod asks for besides GPUs: (name, amount), such as (("cpus", 4.0), ("pods", 1.0))."""

CPUS, MEMORY, PODS = "cpus", "memory", "pods"
"""Names of the usual resources. Memory is counted in GiB; every pod takes one of `pods`."""


@lru_cache(maxsize=1 << 16)
def requests_of(cpus: float, memory: float, resources: Requests = ()) -> Requests:
    """Returns what a pod requests besides GPUs, zeros left out. Equal requests are one object."""
    amounts = ((CPUS, cpus), (MEMORY, memory), *resources, (PODS, 1.0))
    return tuple((name, amount) for name, amount in amounts if amount)


class Role:
    """A number of equal pods of a task, each asking for resources on one node. A task of equal pods is its own role."""

    __slots__ = (
        "cards", "cpus_per_pod", "gpu_model", "gpus_per_pod", "index", "is_spot", "memory_per_pod", "number", "pods",
        "priority", "requests", "resources", "rules", "share",
    )  # fmt: skip

    index: int
    """The task's."""
    number: int
    """Its position among the roles of the task; 0 where all pods are equal."""
    gpu_model: str
    priority: Priority
    is_spot: bool
    """Whether it belongs to a spot task: it may be evicted, and runs only inside the spot quota."""
    pods: int
    gpus_per_pod: float
    """A whole number of GPUs, a fraction of one (< 1), or 0: then it may run on any node of the pool."""
    cards: int
    """Whole GPUs a pod takes; 0 for a fraction."""
    share: int
    """Millionths that a pod takes of one GPU; 0 for whole GPUs."""
    cpus_per_pod: float
    memory_per_pod: float
    """GiB."""
    resources: Requests
    """Further resources by name."""
    requests: Requests
    """All of them: what a pod asks for besides GPUs."""
    rules: tuple[Hashable, ...]
    """What restricts its nodes: each is read by the filter that is made for it (`gfs.core.filters`)."""

    def __init__(
        self,
        pods: int,
        gpus_per_pod: float,
        *,
        cpus_per_pod: float = 0.0,
        memory_per_pod: float = 0.0,
        resources: Requests = (),
        rules: tuple[Hashable, ...] = (),
        number: int = 0,
    ) -> None:
        """A role without a task: `Task` takes a copy of it."""
        self.pods = pods
        self.gpus_per_pod = gpus_per_pod
        self.cpus_per_pod = cpus_per_pod
        self.memory_per_pod = memory_per_pod
        self.resources = resources
        self.rules = rules
        self.number = number
        self.requests = requests_of(cpus_per_pod, memory_per_pod, resources)
        self.cards, self.share = _gpus_of_pod(gpus_per_pod)

    @property
    def micro_per_pod(self) -> int:
        """GPUs of a pod in millionths."""
        return self.cards * MICRO + self.share

    def of(self, task: Role, number: int, *, rules: tuple[Hashable, ...] = (), pods: int = 0) -> Role:
        """Returns this role as one of the task, with more rules or another number of pods."""
        role = Role(
            pods or self.pods,
            self.gpus_per_pod,
            cpus_per_pod=self.cpus_per_pod,
            memory_per_pod=self.memory_per_pod,
            resources=self.resources,
            rules=(*self.rules, *rules),
            number=number,
        )
        role.index, role.gpu_model, role.priority = task.index, task.gpu_model, task.priority
        role.is_spot = task.is_spot
        return role


@dataclass(frozen=True, slots=True, eq=False)
class Task(Role):
    """Pods that start together or not at all: `pods` equal ones, or the roles that are given as `mixed`."""

    index: int
    """A unique key that rises with submission: in a trace the rank by (submit_time, name). Earlier submission,
    then id: the lower index came first."""
    name: str
    organization: str
    gpu_model: str
    priority: Priority
    pods: int
    """Of all roles together."""
    gpus_per_pod: float
    """A fraction of one GPU (< 1), or a whole number of GPUs; of several roles the most."""
    submit_time: float
    cpus_per_pod: float = 0.0
    guarantee_hours: float = 1.0
    """Hours a spot run is promised undisturbed (H)."""
    checkpoint_interval: float = HOUR
    """Seconds of progress between two checkpoints."""
    memory_per_pod: float = 0.0
    """GiB."""
    rules: tuple[Hashable, ...] = ()
    """What restricts the nodes of its pods."""
    earlier_runs: int = 0
    """Runs it had before the scheduler came to know it: a live driver submits a task again whose pods came back."""
    preempts: bool = True
    """Whether an HP task may evict spot tasks; False: it waits for idle GPUs."""
    resources: Requests = ()
    """Further resources of a pod by name, such as (("rdma/ib", 1.0),)."""
    urgency: int = 0
    """Orders tasks within their class before all else, higher first; among victims the lower goes first."""
    mixed: tuple[Role, ...] = ()
    """The roles of a task whose pods differ, most GPUs per pod first; none: all pods are equal.

    Requests and rules are those of the roles then: the task's own count for nothing."""
    topology_key: str = ""
    """A node label, such as 'rack', of which all pods must run on one value; empty: any nodes."""

    is_spot: bool = field(init=False)
    cards: int = field(init=False)
    share: int = field(init=False)
    requests: Requests = field(init=False)
    number: int = field(init=False)
    gpus: float = field(init=False)
    """GPUs of the whole task."""
    micro: int = field(init=False)
    """GPUs of the whole task in millionths: exact, so that sums never drift."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "number", 0)
        put(self, "is_spot", self.priority is Priority.SPOT)
        if self.mixed:
            by_size = sorted(self.mixed, key=lambda role: -role.gpus_per_pod)
            put(self, "mixed", tuple([role.of(self, number) for number, role in enumerate(by_size)]))
            put(self, "pods", sum(role.pods for role in self.mixed))
            put(self, "gpus_per_pod", max(role.gpus_per_pod for role in self.mixed))
        cards, share = _gpus_of_pod(self.gpus_per_pod)
        put(self, "number", 0)
        put(self, "cards", cards)
        put(self, "share", share)
        put(self, "requests", requests_of(self.cpus_per_pod, self.memory_per_pod, self.resources))
        if self.mixed:
            put(self, "gpus", sum([role.pods * role.gpus_per_pod for role in self.mixed]))
            put(self, "micro", sum([role.pods * role.micro_per_pod for role in self.mixed]))
        else:  # one by one, as there may be millions
            put(self, "gpus", self.pods * self.gpus_per_pod)
            put(self, "micro", self.pods * (cards * MICRO + share))

    @property
    def roles(self) -> tuple[Role, ...]:
        """Its pods by what they ask for."""
        return self.mixed or (self,)

    @property
    def asks(self) -> str:
        """Its pods in words: '4 pods of 8 GPUs + 1 pods of 0 GPUs'."""
        return " + ".join(f"{role.pods} pods of {role.gpus_per_pod:g} GPUs" for role in self.roles)

    def shrunk(self, lost: Mapping[int, int]) -> Task:
        """Returns the task without so many pods of its roles, by their numbers; some must be left."""
        if not self.mixed:
            return replace(self, pods=self.pods - lost[0])
        left = [(role, role.pods - lost.get(role.number, 0)) for role in self.mixed]
        return replace(self, mixed=tuple(role.of(self, 0, pods=pods) for role, pods in left if pods))

    @property
    def guarantee_seconds(self) -> float:
        """The promised undisturbed time in seconds."""
        return self.guarantee_hours * HOUR


def _gpus_of_pod(gpus: float) -> tuple[int, int]:
    whole = int(gpus)
    return (whole, 0) if whole else (0, to_micro(gpus))
