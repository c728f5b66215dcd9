"""What is free on nodes: now, for bindings, and soon, for plans.

Now a leaving pod still holds what it has. Soon it is gone, and all plans have been carried out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gfs.live.mirror import Mirror
from gfs.live.overlay import Overlay
from gfs.live.translate.asks import Asks, less, total
from gfs.live.translate.pods import PodView


class Room:
    """Counts what pods, bindings under way and plans take of a node."""

    def __init__(self, mirror: Mirror, overlay: Overlay) -> None:
        self._mirror, self._overlay = mirror, overlay
        self._planned: dict[str, set[str]] = {}
        """Node -> uids of pods that plans are to bind there."""

    def claim(self, places: Mapping[str, str]) -> None:
        """A plan is to bind pods, by uid, to these nodes."""
        for uid, node in places.items():
            self._planned.setdefault(node, set()).add(uid)

    def release(self, places: Mapping[str, str]) -> None:
        """A plan is carried out or given up."""
        for uid, node in places.items():
            if (planned := self._planned.get(node)) is not None:
                planned.discard(uid)
                if not planned:
                    del self._planned[node]

    def planned_on(self, nodes: Iterable[str]) -> set[str]:
        """Returns the uids of pods that plans are to bind to any of these nodes."""
        return {uid for node in nodes for uid in self._planned.get(node, ())}

    def now(self, node: str, besides: str = "") -> Asks | None:
        """Returns what no pod and no binding under way, but this one, takes; None: the node takes no pods."""
        view = self._mirror.nodes.get(node)
        if view is None or view.closed:
            return None
        held = [pod.asks for pod in self._mirror.on_node.get(node, {}).values()]
        sent = [assumed.pod.asks for uid, assumed in self._overlay.unseen_on(node) if uid != besides]
        return less(view.has, total([*held, *sent]))

    def soon(self, node: str, besides: Collection[str] = ()) -> Asks | None:
        """Returns what will be free when pods have left and plans, but for these pods, are carried out."""
        view = self._mirror.nodes.get(node)
        if view is None or view.closed:
            return None
        pods = self._mirror.pods
        held = [pod.asks for pod in self._mirror.on_node.get(node, {}).values() if self._overlay.holds(pod)]
        coming = {*self._planned.get(node, ()), *(uid for uid, _ in self._overlay.unseen_on(node))}
        claims = [pods[uid].asks for uid in coming if uid in pods and not pods[uid].node and uid not in besides]
        return less(view.has, total([*held, *claims]))

    def fits_now(self, pods: Iterable[PodView], places: Mapping[str, str]) -> bool:
        """Whether pods can be bound where a plan has them."""
        return all(_fits(asks, self.now(node)) for node, asks in _by_node(pods, places).items())

    def fits_soon(self, pods: Collection[PodView], places: Mapping[str, str]) -> bool:
        """Whether pods will fit where a plan has them."""
        own = {pod.uid for pod in pods}
        return all(_fits(asks, self.soon(node, own)) for node, asks in _by_node(pods, places).items())


def _by_node(pods: Iterable[PodView], places: Mapping[str, str]) -> dict[str, Asks]:
    asked: dict[str, list[Asks]] = {}
    for pod in pods:
        asked.setdefault(places[pod.uid], []).append(pod.asks)
    return {node: total(asks) for node, asks in asked.items()}


def _fits(asks: Asks, free: Asks | None) -> bool:
    return free is not None and asks.within(free)
