"""A node: a machine with cards of one GPU model (docs/concepts/glossary.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


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
    """Nodes with the same labels and taints, as far as tasks ask for them, are one group (`NodeFilter`)."""


NodeEventKind = Literal["fail", "repair", "cordon", "uncordon"]
NODE_EVENTS: tuple[NodeEventKind, ...] = ("fail", "repair", "cordon", "uncordon")


class NodeEvent(NamedTuple):
    """What happens to a node of a trace at some moment."""

    time: float
    node: str
    event: NodeEventKind
