"""A workload: the tasks and the nodes of one cluster, checked and ready to be scheduled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gfs.domain.node import NodeSpec
from gfs.domain.task import Task


@dataclass(frozen=True, slots=True)
class Workload:
    """Tasks in the order of their index (submission, then name) and nodes in the order of theirs."""

    tasks: tuple[Task, ...]
    nodes: tuple[NodeSpec, ...]
    name: str = "trace"

    def capacity(self) -> dict[str, int]:
        """Cards of each GPU model, models in order of first appearance."""
        total: Counter[str] = Counter()
        for node in self.nodes:
            total[node.gpu_model] += node.gpus
        return dict(total)
