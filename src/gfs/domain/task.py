"""A task: what a user submits (docs/concepts/glossary.md). Equal pods that start together or not at all.

How long it will run is not here: no scheduler knows, so there is no field that one could read. A trace keeps
durations beside its tasks (`gfs.domain.workload`).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

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


class NodeFilter(NamedTuple):
    """Which nodes of its pool a task may use: labels and taints, resolved where they are read."""

    groups: Container[str]
    """The groups of nodes (`NodeSpec.group`) that will do."""
    rule: str = ""
    """What was asked for, in words: 'zone=a'."""


class _Placed:
    """What every placement reads, side by side in memory: a trace has many tasks, and none is in a cache."""

    __slots__ = ("cards", "gpu_model", "index", "is_spot", "node_filter", "pods", "priority", "submit_time")


@dataclass(frozen=True, slots=True, eq=False)
class Task(_Placed):
    """`pods` equal pods, each wanting `gpus_per_pod` GPUs of one model on one node."""

    index: int
    """A unique key that rises with submission: in a trace the rank by (submit_time, name). Earlier submission,
    then id: whoever has the lower index came first."""
    name: str
    organization: str
    gpu_model: str
    priority: Priority
    pods: int
    gpus_per_pod: float
    """A fraction of one card (< 1), or a whole number of cards."""
    submit_time: float
    cpus_per_pod: float = 0.0
    guarantee_hours: float = 1.0
    """Hours a spot run is promised undisturbed (H)."""
    checkpoint_interval: float = HOUR
    """Seconds of progress between two checkpoints."""
    memory_per_pod: float = 0.0
    """GiB."""
    node_filter: NodeFilter | None = None
    """None: any node of the pool."""
    earlier_runs: int = 0
    """Runs it had before the scheduler came to know it: a live driver submits a task again whose pods came back."""
    preempts: bool = True
    """Whether an HP task may evict spot tasks; False: it waits for idle GPUs."""

    is_spot: bool = field(init=False)
    """Whether it is a spot task: it may be evicted, and runs only inside the spot quota."""
    cards: int = field(init=False)
    """Whole cards a pod takes; 0 for a fractional task."""
    share: int = field(init=False)
    """Micro-cards a pod takes of one card; 0 for a task of whole cards."""
    gpus: float = field(init=False)
    """GPUs of the whole task: pods x gpus_per_pod."""
    micro: int = field(init=False)
    """GPUs of the whole task in micro-cards: exact, so that sums never drift."""

    def __post_init__(self) -> None:
        cards, share = int(self.gpus_per_pod), 0
        if not cards:
            share = to_micro(self.gpus_per_pod)
        object.__setattr__(self, "is_spot", self.priority is Priority.SPOT)
        object.__setattr__(self, "cards", cards)
        object.__setattr__(self, "share", share)
        object.__setattr__(self, "gpus", self.pods * self.gpus_per_pod)
        object.__setattr__(self, "micro", self.pods * (cards * MICRO + share))

    @property
    def guarantee_seconds(self) -> float:
        """The promised undisturbed time in seconds."""
        return self.guarantee_hours * HOUR
