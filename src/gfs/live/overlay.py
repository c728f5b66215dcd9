"""Bindings and evictions that the controller has sent and the mirror does not show yet.

This, and the names of tasks (`identity`), is all that the controller remembers beside the mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gfs.core.run import Run
from gfs.live.mirror import Mirror, key_of
from gfs.live.translate.asks import Asks, less, total
from gfs.live.translate.pods import PodView


@dataclass(slots=True)
class Assumed:
    """A binding, from sending until the mirror shows it."""

    pod: PodView
    node: str
    task: str
    answered: bool = False
    """Whether the API server has said that the pod is bound."""


SOON = 60.0
"""Plans count on the place of a deleted pod that should be gone within so many seconds."""


class Overlay:
    """Bindings and evictions under way."""

    def __init__(self, mirror: Mirror, wall: Callable[[], float]) -> None:
        """`wall`: the time of day by the API server."""
        self._mirror, self._wall = mirror, wall
        self.bindings: dict[str, Assumed] = {}
        """Pod uid -> its binding."""
        self._on_node: dict[str, dict[str, Assumed]] = {}
        self.evictions: dict[str, Run | None] = {}
        """Uid of a pod that we delete -> the run that takes its place (None: it is taken back), until that shows."""
        self._planned: dict[str, set[str]] = {}
        """Node -> uids of pods that plans are to bind there."""
        self.given_up: set[str] = set()
        """Leaving pods that no task waits for: what they hold counts as used."""

    def bind(self, pod: PodView, node: str, task: str) -> None:
        """A binding is sent."""
        self.bindings[pod.uid] = self._on_node.setdefault(node, {})[pod.uid] = Assumed(pod, node, task)

    def bound(self, uid: str) -> None:
        """The API server has said that a pod is bound."""
        if uid in self.bindings:
            self.bindings[uid].answered = True

    def forget_binding(self, uid: str) -> None:
        """A binding shows in the mirror, or did not come about."""
        assumed = self.bindings.pop(uid, None)
        if assumed is not None:
            on_node = self._on_node[assumed.node]
            del on_node[uid]
            if not on_node:
                del self._on_node[assumed.node]
            self._mirror.dirty_nodes.add(assumed.node)

    def forget_eviction(self, uid: str) -> None:
        """A pod shows as deleted, or is not to be deleted after all."""
        if uid not in self.evictions:
            return
        if (taker := self.evictions.pop(uid)) is not None:  # it may be bound now
            self._mirror.dirty_nodes.update(node.name for node in taker.nodes)
        if (pod := self._mirror.pods.get(uid)) is not None:
            if not pod.deleting:
                self.given_up.discard(uid)  # it stays as a run, which may be evicted another time
            self._mirror.dirty[key_of(pod)] = None
            self._mirror.dirty_nodes.add(pod.node)
            self._mirror.wake()

    def give_up(self, pods: Iterable[PodView]) -> None:
        """Count these leaving pods as staying: no task waits for them."""
        for pod in pods:
            self.given_up.add(pod.uid)
            self._mirror.dirty_nodes.add(self.node_of(pod))

    def refresh(self) -> None:
        """Forget entries that the mirror shows, and bindings of pods that are gone or deleted: they cannot succeed."""
        changed, self._mirror.changed = self._mirror.changed, set()
        for uid in changed:
            pod = self._mirror.pods.get(uid)
            if pod is None or pod.node or pod.over or pod.deleting:
                self.forget_binding(uid)
            if pod is None or pod.over or (pod.deleting and pod.preempted):
                self.forget_eviction(uid)
            if pod is None:
                self.given_up.discard(uid)

    def node_of(self, pod: PodView) -> str:
        """Returns the node that a pod is bound to, by mirror and answers; empty: none."""
        if pod.node:
            return pod.node
        assumed = self.bindings.get(pod.uid)
        return assumed.node if assumed is not None and assumed.answered else ""

    def task_of(self, pod: PodView) -> str:
        """Returns the name of the task that a bound pod was bound for; empty: another scheduler bound it."""
        if pod.bound_as is not None:
            return pod.bound_as.task
        assumed = self.bindings.get(pod.uid)
        return assumed.task if assumed is not None and not pod.node else ""

    def is_evicted(self, pod: PodView) -> bool:
        """Whether a pod makes room for another one or is taken back. It does not count for a run then."""
        return pod.uid in self.evictions or bool(pod.deleting and pod.preempted)

    def is_leaving(self, pod: PodView) -> bool:
        """Whether a bound pod is deleted and soon gone: plans count on its place, bindings wait until it is gone."""
        return self.is_evicted(pod) or 0.0 < pod.deleting <= self._wall() + SOON

    def holds(self, pod: PodView) -> bool:
        """Whether a bound pod holds what it has as far as plans go: a leaving one does not, unless it hangs."""
        return pod.uid in self.given_up or not self.is_leaving(pod) or self.hangs(pod)

    def hangs(self, pod: PodView) -> bool:
        """Whether a deleted pod should have gone long ago."""
        return bool(pod.deleting) and self._wall() > pod.deleting + self._mirror.settings.hang_timeout

    def hanging(self) -> list[PodView]:
        """Returns the deleted pods that should have gone long ago."""
        return [pod for pod in self._mirror.leaving.values() if self.hangs(pod)]

    def leaving_on(self, node: str) -> list[PodView]:
        """Returns the pods of a node whose places plans count on."""
        unseen = (assumed.pod for _, assumed in self.unseen_on(node))
        return [pod for pod in (*self._mirror.on_node.get(node, {}).values(), *unseen) if not self.holds(pod)]

    def unseen_on(self, node: str) -> Iterator[tuple[str, Assumed]]:
        """Returns the bindings to a node that the mirror does not show, by uid."""
        for uid, assumed in self._on_node.get(node, {}).items():
            pod = self._mirror.pods.get(uid)
            if pod is None or not pod.node:
                yield uid, assumed

    # -- what is free ------------------------------------------------------------------------------

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

    def free_now(self, node: str, besides: str = "") -> Asks | None:
        """Returns what no pod and no binding under way, but this one, takes; None: the node takes no pods."""
        view = self._mirror.nodes.get(node)
        if view is None or view.closed:
            return None
        held = [pod.asks for pod in self._mirror.on_node.get(node, {}).values()]
        sent = [assumed.pod.asks for uid, assumed in self.unseen_on(node) if uid != besides]
        return less(view.has, total([*held, *sent]))

    def free_soon(self, node: str, besides: Collection[str] = ()) -> Asks | None:
        """Returns what will be free when pods have left and plans, but for these pods, are carried out."""
        view = self._mirror.nodes.get(node)
        if view is None or view.closed:
            return None
        pods = self._mirror.pods
        held = [pod.asks for pod in self._mirror.on_node.get(node, {}).values() if self.holds(pod)]
        coming = {*self._planned.get(node, ()), *(uid for uid, _ in self.unseen_on(node))}
        claims = [pods[uid].asks for uid in coming if uid in pods and not pods[uid].node and uid not in besides]
        return less(view.has, total([*held, *claims]))

    def fits_now(self, pods: Iterable[PodView], places: Mapping[str, str]) -> bool:
        """Whether pods can be bound where a plan has them."""
        return all(_fits(asks, self.free_now(node)) for node, asks in _by_node(pods, places).items())

    def fits_soon(self, pods: Collection[PodView], places: Mapping[str, str]) -> bool:
        """Whether pods will fit where a plan has them."""
        own = {pod.uid for pod in pods}
        return all(_fits(asks, self.free_soon(node, own)) for node, asks in _by_node(pods, places).items())


def _by_node(pods: Iterable[PodView], places: Mapping[str, str]) -> dict[str, Asks]:
    asked: dict[str, list[Asks]] = {}
    for pod in pods:
        asked.setdefault(places[pod.uid], []).append(pod.asks)
    return {node: total(asks) for node, asks in asked.items()}


def _fits(asks: Asks, free: Asks | None) -> bool:
    return free is not None and asks.within(free)
