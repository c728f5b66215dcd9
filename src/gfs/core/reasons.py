"""Why a task waits and why one was evicted: values with the numbers, turned into words when someone reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from gfs.domain.task import Task
from gfs.domain.units import format_gpus, format_seconds


class Reason(Protocol):
    """Why a task waits or was evicted."""

    def text(self) -> str:
        """The reason in one line of plain text."""


class NoRoom(NamedTuple):
    """No set of nodes can hold all pods of the task."""

    pool: str
    pods: int
    gpus_per_pod: float
    idle: int
    gap: int
    """Largest number of idle GPUs on one node."""
    slots: int
    """Pods of this size that would fit now."""
    closed: int = 0
    """Nodes with room that the placer refuses."""
    without_spot: int | None = None
    """HP: pods that would fit if every spot task went."""
    why_closed: str = ""
    """What the placer says of the nodes it refuses; nothing: the circuit breaker keeps them closed."""
    short: str = ""
    """What else is short on the node with the GPUs that comes first: '8 idle GPUs on n12, but 14 of 96 ...'."""
    still_short: str = ""
    """HP: what else would be short if every spot task went."""

    @property
    def lacks_more_than_cards(self) -> bool:
        """Whether CPUs, memory, pods or a node filter keep it waiting."""
        return bool(self.short or self.still_short)

    def text(self) -> str:
        """How many GPUs are idle, how many pods would fit, and what keeps the others out."""
        need = format_gpus(self.gpus_per_pod)
        pods = f"pods of {need}" if self.gpus_per_pod else "pods without GPUs"
        idle = f"pool {self.pool}: {self.idle or 'no'} idle GPU{'s' * (self.idle > 1)}"
        if self.closed and self.slots >= self.pods:
            if self.why_closed and self.pods > 1:  # some of its pods may find room on other nodes
                return f"{idle}, but {self._refused()}"
            nodes = f"the {self.closed} nodes" if self.closed > 1 else "the node"
            return f"{idle}, but {nodes} with room {self._refusal()}"
        if self.short:
            some = f"{idle}, room for {self.slots} of {self.pods} {pods}: "
            words = f"{some if self.slots else f'pool {self.pool}: '}{self.short}"
        elif self.idle == 0 and self.gpus_per_pod < 1:
            words = f"pool {self.pool}: no GPU has {need} free"
            if self.pods > 1:
                words = f"pool {self.pool}: shared GPUs lack room for {self.pods} {pods}"
        elif self.idle == 0:
            words = idle
        elif self.slots == 0:
            words = f"{idle} but no node has {need}; largest gap {self.gap}"
        else:
            words = f"{idle}, room for {self.slots} of {self.pods} {pods}"
        if self.without_spot is not None and self.without_spot > self.slots:
            words += f"; without any spot task {self.without_spot} of {self.pods} pods would fit"
            words += f": {self.still_short}" if self.still_short else ""
        elif self.still_short and not self.short:
            words += f"; without any spot task {self.still_short}"
        if self.closed and not self.short:
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
    """The guarantee that the quota is for."""
    why: str = ""
    """What led to the quota."""

    def text(self) -> str:
        """The quota, what led to it, how much of it is in use and what the task asks for."""
        why = f": {self.why};" if self.why else ","
        return (
            f"pool {self.pool}: spot quota {format_gpus(round(self.quota, 2))} for"
            f" {format_gpus(self.hours)} h{why} {format_gpus(self.in_use)} in use,"
            f" task asks {format_gpus(self.gpus)}"
        )


class NoDomain(NamedTuple):
    """All pods must run in one topology domain, and no open node is in any."""

    pool: str
    key: str

    def text(self) -> str:
        """The label that nodes lack."""
        return f"pool {self.pool}: no node has the label {self.key}"


class NoNode(NamedTuple):
    """There is no node at all that the task could ever use."""

    pool: str
    closed: int = 0
    """Nodes of this model that are closed: cordoned or failed."""

    def text(self) -> str:
        """Whether the GPU model has no node at all, or only closed ones."""
        if self.closed:
            many = f"all {self.closed} nodes" if self.closed > 1 else "the only node"
            return f"pool {self.pool}: {many} closed (cordoned or failed)"
        return f"no node has GPU model {self.pool}"


class Behind(NamedTuple):
    """The queue serves strictly in order and someone is ahead."""

    head: Task

    def text(self) -> str:
        """Who stands first in the queue."""
        return f"queued behind {self.head.name}, which does not fit yet"


EVICTED_FOR: Final = "evicted for "


class Alternative(NamedTuple):
    """One way to make room that was weighed before somebody was evicted."""

    node: str
    """Where its GPUs would have got free; of several nodes the first."""
    victims: tuple[Task, ...]
    cost: float
    """By the rule of the scheduler: the lowest is taken."""
    waste: float
    """GPU-seconds of work that it would throw away."""
    chosen: bool = False


class EvictReason(NamedTuple):
    """Why a spot run had to go."""

    by: Task
    node: str
    """Where its GPUs are wanted; of several nodes the first."""
    choice: str
    """How the victim was chosen, e.g. 'cheapest of 14 nodes'."""
    lost: float
    """Seconds of progress lost."""
    gpus: float
    alternatives: tuple[Alternative, ...] = ()
    """What was weighed, cheapest first, if the scheduler was told to keep it."""

    def text(self) -> str:
        """For whom the run went, on which node, how it was chosen and what it lost."""
        lost = f"lost {format_seconds(self.lost)} x {format_gpus(self.gpus)} GPU{'s' * (self.gpus != 1)}"
        return f"{EVICTED_FOR}{self.by.name} on {self.node}: {self.choice}, {lost}"


def preemptor_in(reason: str, tasks: Mapping[str, int]) -> int | None:
    """The task for which a run went, by the text of an `EvictReason`; a name may itself hold ' on '."""
    words, begin = reason.removeprefix(EVICTED_FOR), reason.startswith(EVICTED_FOR)
    at = words.find(" on ") if begin else -1
    while at >= 0:
        if words[:at] in tasks:
            return tasks[words[:at]]
        at = words.find(" on ", at + 1)
    return None
