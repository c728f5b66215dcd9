"""What the core is told of nodes: what they have less what others hold there, and whether they take pods."""

from __future__ import annotations

from gfs.core.events import NodeChange, NodeChangeKind
from gfs.domain.node import NodeSpec
from gfs.live.cluster import Cluster
from gfs.live.tasks import TaskBook
from gfs.live.translate.nodes import NodeView
from gfs.live.translate.rules import group_name

LEAST = 1e-6
"""CPUs or GiB of a node that has none left: 0 would mean that they are not limited."""


class Census:
    """Remembers what the core was told of each node, and tells the differences."""

    def __init__(self, cluster: Cluster, book: TaskBook) -> None:
        self._cluster = cluster
        self._book = book
        self._told: dict[str, tuple[NodeSpec, bool]] = {}
        self._index: dict[str, int] = {}
        self._asked: set[str] = set()
        """Labels that some pod asks for."""

    def restored(self, spec: NodeSpec, closed: bool) -> None:
        """A saved state knows this node."""
        self._told[spec.name] = spec, closed
        self._index[spec.name] = spec.index
        self._cluster.remember_model(spec.gpu_model)
        self._cluster.changed_nodes.add(spec.name)

    def ask(self, keys: frozenset[str]) -> None:
        """A pod asks for these labels: nodes are told apart by them from now on."""
        new = keys - self._asked
        if new:  # a label that no node has tells no nodes apart, however many pods ask for it
            self._asked |= new
            nodes = self._cluster.nodes.items()
            self._cluster.changed_nodes |= {name for name, view in nodes if not new.isdisjoint(view.labels)}

    def changes(self) -> list[NodeChange]:
        """What has changed since it was last asked."""
        names, self._cluster.changed_nodes = self._cluster.changed_nodes, set()
        found: list[NodeChange] = []
        for name in sorted(names):
            view, told = self._cluster.nodes.get(name), self._told.get(name)
            if view is None:
                if told is not None:
                    del self._told[name]
                    found.append(NodeChange(NodeChangeKind.REMOVED, told[0]))
                continue
            spec, closed = self._spec(view)
            if told is None or told[0] != spec:
                kind = NodeChangeKind.ADDED if told is None else NodeChangeKind.RESIZED
                found.append(NodeChange(kind, spec))
            if closed != (told is not None and told[1]):
                kind = NodeChangeKind.CORDONED if closed else NodeChangeKind.UNCORDONED
                found.append(NodeChange(kind, spec))
            self._told[name] = spec, closed
        return found

    def _spec(self, view: NodeView) -> tuple[NodeSpec, bool]:
        """What we may use of a node, and whether it takes no pods: closed, or others hold all its GPUs."""
        held, pods = self._cluster.held(view.name, besides=lambda pod: pod.uid in self._book.run_of_pod)
        gpus = view.gpus - int(held.gpus)
        left = view.pods - pods
        spec = NodeSpec(
            index=self._index.setdefault(view.name, len(self._index)),
            name=view.name,
            gpu_model=view.model,
            gpus=max(gpus, 1),
            cpus=max(round(view.cpus - held.cpus, 6), LEAST),
            memory=max(round(view.memory - held.memory, 6), LEAST),
            pods=max(left, 1),
            group=group_name(view.labels, view.taints, self._asked),
        )
        return spec, bool(view.closed) or gpus < 1 or left < 1
