"""A node: a machine with GPUs of one model (docs/concepts/glossary.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from gfs.domain.task import CPUS, MEMORY, PODS


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What a node has. What it holds at the moment is the cluster state's business."""

    index: int
    """Position in the cluster's node list: a unique key, and the last tie-break of every choice."""
    name: str
    gpu_model: str
    gpus: int
    cpus: float = 0.0
    """0: not stated, so not limited; the same holds for memory and pods."""
    memory: float = 0.0
    """GiB."""
    pods: int = 0
    """The most pods it takes."""
    group: str = ""
    """Nodes with the same labels and taints, as far as tasks ask for them, are one group (`NodeRule`)."""
    resources: tuple[tuple[str, float], ...] = ()
    """Further resources by name, such as (("rdma/ib", 8.0),). One that is stated as 0 is not there."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels that name topology domains, such as (("rack", "r7"),)."""

    def label(self, key: str) -> str:
        """Returns the value of a label; nothing if the node does not have it."""
        return next((value for name, value in self.labels if name == key), "")

    def limits(self) -> dict[str, float]:
        """Returns what it has besides GPUs, by name; what it does not state is not limited."""
        amounts = ((CPUS, self.cpus), (MEMORY, self.memory), (PODS, float(self.pods)))
        return {name: amount for name, amount in amounts if amount} | dict(self.resources)

    def gpus_only(self) -> NodeSpec:
        """Returns the node without what it states besides GPUs: then nothing else is limited."""
        return replace(self, cpus=0.0, memory=0.0, pods=0, resources=()) if self.limits() else self


NodeEventKind = Literal["fail", "repair", "cordon", "uncordon"]
NODE_EVENTS: tuple[NodeEventKind, ...] = ("fail", "repair", "cordon", "uncordon")


class NodeEvent(NamedTuple):
    """What happens to a node of a trace at some moment."""

    time: float
    node: str
    event: NodeEventKind
