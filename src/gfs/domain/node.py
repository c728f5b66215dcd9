"""A node: a machine with cards of one GPU model (SPEC 1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What a node has. What it holds at the moment is the cluster state's business."""

    index: int
    """Position in the cluster's node list: a unique key, and the last tie-break of every choice."""
    name: str
    gpu_model: str
    gpus: int
    cpus: float = 0.0
