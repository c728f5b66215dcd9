"""Why a task waits and why one was evicted: values with the numbers, turned into words when someone reads them."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from gfs.domain.task import Task
from gfs.domain.units import format_gpus, format_seconds


class Reason(Protocol):
    """Why a task waits or was evicted."""

    def text(self) -> str:
        """Say it so that a person understands."""
        ...


@runtime_checkable
class SaysWhyClosed(Protocol):
    """A placer that refuses nodes with room for another reason than recent evictions."""

    def why_closed(self, task: Task) -> str:
        """What keeps the task from them, to follow 'the 3 nodes with room are': 'on loan to spot tasks'."""
        ...


class NoRoom(NamedTuple):
    """No set of nodes can hold all pods of the task."""

    pool: str
    pods: int
    gpus_per_pod: float
    idle: int
    gap: int
    """Largest number of idle cards on one node."""
    slots: int
    """Pods of this size that would fit now."""
    closed: int = 0
    """Nodes with room that the placer refuses."""
    without_spot: int | None = None
    """HP: pods that would fit if every spot task went."""
    why_closed: str = ""
    """What the placer says of the nodes it refuses; nothing: the circuit breaker keeps them closed."""

    def text(self) -> str:
        """Say it so that a person understands."""
        need = format_gpus(self.gpus_per_pod)
        idle = f"pool {self.pool}: {self.idle or 'no'} idle card{'s' * (self.idle > 1)}"
        if self.closed and self.slots >= self.pods:
            if self.why_closed and self.pods > 1:  # some of its pods may find room on other nodes
                return f"{idle}, but {self._refused()}"
            nodes = f"the {self.closed} nodes" if self.closed > 1 else "the node"
            return f"{idle}, but {nodes} with room {self._refusal()}"
        if self.idle == 0 and self.gpus_per_pod < 1:
            words = f"pool {self.pool}: no card has {need} free"
            if self.pods > 1:
                words = f"pool {self.pool}: divided cards lack room for {self.pods} pods of {need}"
        elif self.idle == 0:
            words = idle
        elif self.slots == 0:
            words = f"{idle} but no node has {need}; largest gap {self.gap}"
        else:
            words = f"{idle}, room for {self.slots} of {self.pods} pods of {need}"
        if self.without_spot is not None and self.without_spot > self.slots:
            words += f"; without any spot task {self.without_spot} of {self.pods} pods would fit"
        if self.closed:
            words += f"; {self._refused()}"
        return words

    def _refused(self) -> str:
        with_room = " with room" if self.why_closed else ""
        return f"{self.closed} node{'s' * (self.closed > 1)}{with_room} {self._refusal()}"

    def _refusal(self) -> str:
        if not self.why_closed:
            return "closed to spot tasks after recent evictions"
        return f"{'are' if self.closed > 1 else 'is'} {self.why_closed}"


class OverQuota(NamedTuple):
    """The spot quota is used up."""

    pool: str
    quota: float
    in_use: float
    gpus: float
    hours: float
    """How long the quota must hold for: the task's guarantee, unless something else is said."""
    why: str = ""
    """What led to the quota."""
    why_hours: str = ""
    """What led to these hours, if it was not the guarantee."""

    def text(self) -> str:
        """Say it so that a person understands."""
        why = f": {self.why};" if self.why else ","
        hours = f" ({self.why_hours})" if self.why_hours else ""
        return (
            f"pool {self.pool}: spot quota {format_gpus(round(self.quota, 2))} for"
            f" {format_gpus(self.hours)} h{hours}{why} {format_gpus(self.in_use)} in use,"
            f" task asks {format_gpus(self.gpus)}"
        )


class Behind(NamedTuple):
    """The queue serves strictly in order and someone is ahead."""

    head: Task

    def text(self) -> str:
        """Say it so that a person understands."""
        return f"queued behind {self.head.name}, which does not fit yet"


class EvictReason(NamedTuple):
    """Why a spot run had to go."""

    by: Task
    node: str
    """Where its cards are wanted; of several nodes the first."""
    choice: str
    """How the victim was chosen, e.g. 'cheapest of 14 nodes'."""
    lost: float
    """Seconds of progress lost."""
    gpus: float

    def text(self) -> str:
        """Say it so that a person understands."""
        lost = f"lost {format_seconds(self.lost)} x {format_gpus(self.gpus)} GPU{'s' * (self.gpus != 1)}"
        return f"evicted for {self.by.name} on {self.node}: {self.choice}, {lost}"
