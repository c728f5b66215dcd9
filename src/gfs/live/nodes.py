"""Nodes for the core: what they have less what other pods hold there, and whether they take pods.

A node without GPUs or without a model label is not in the core, even if our pods run there. They run on, and the core
gets the node when it is whole again.
"""

from __future__ import annotations

from gfs.core.events import NodeChange, NodeChangeKind
from gfs.domain.node import NodeSpec
from gfs.live.tasks import TaskBook
from gfs.live.translate.asks import less, total
from gfs.live.translate.nodes import NodeView
from gfs.live.translate.rules import group_name

LEAST = 1e-6
"""CPUs or GiB of a node that has none left: 0 would mean that they are not limited."""


class NodeBook:
    """Remembers each node as the core has it, and returns the differences."""

    def __init__(self, book: TaskBook) -> None:
        self._mirror, self._overlay, self._book = book.mirror, book.overlay, book
        self._known: dict[str, tuple[NodeSpec, bool]] = {}
        self._asked: set[str] = set()
        """Labels that some pod asks for."""

    def ask(self, keys: frozenset[str]) -> None:
        """Distinguish nodes by these labels from now on, because a pod asks for them."""
        new = keys - self._asked
        if new:  # labels that no node has change nothing, however many pods ask for them
            self._asked |= new
            nodes = self._mirror.nodes.items()
            self._mirror.dirty_nodes |= {name for name, view in nodes if not new.isdisjoint(view.labels)}

    def changes(self) -> list[NodeChange]:
        """Returns the changes since the last call."""
        names, self._mirror.dirty_nodes = self._mirror.dirty_nodes, set()
        found: list[NodeChange] = []
        for name in sorted(names):
            view, known = self._mirror.nodes.get(name), self._known.get(name)
            if view is None:
                if known is not None:
                    del self._known[name]
                    found.append(NodeChange(NodeChangeKind.REMOVED, known[0]))
                continue
            spec, closed = self._spec(view)
            if known is None or known[0] != spec:
                kind = NodeChangeKind.ADDED if known is None else NodeChangeKind.RESIZED
                found.append(NodeChange(kind, spec))
            was_closed = known is not None and known[1] and known[0].gpu_model == spec.gpu_model
            if closed != was_closed:
                kind = NodeChangeKind.CORDONED if closed else NodeChangeKind.UNCORDONED
                found.append(NodeChange(kind, spec))
            self._known[name] = spec, closed
        return found

    def _spec(self, view: NodeView) -> tuple[NodeSpec, bool]:
        """What we may use of a node, and whether it takes no pods: closed, or others hold all its GPUs."""
        bound = self._mirror.on_node.get(view.name, {}).values()
        others = [pod.asks for pod in bound if not self._book.counts(pod)]
        sent = self._overlay.unseen_on(view.name)
        others += [assumed.pod.asks for uid, assumed in sent if uid not in self._book.by_pod]
        left = less(view.has, total(others))
        spec = NodeSpec(
            index=0,
            name=view.name,
            gpu_model=view.model,
            gpus=max(int(left.gpus), 1),
            cpus=max(round(left.cpus, 6), LEAST),
            memory=max(round(left.memory, 6), LEAST),
            pods=max(left.pods, 1),
            group=group_name(view.labels, view.taints, self._asked),
        )
        return spec, bool(view.closed) or left.gpus < 1 or left.pods < 1
