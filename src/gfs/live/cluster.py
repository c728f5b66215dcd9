"""The cluster as the mirrors show it: nodes, pods, groups and namespaces, and what pods hold on each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gfs.live.api import Json
from gfs.live.settings import LiveSettings
from gfs.live.translate.asks import NOTHING, Asks
from gfs.live.translate.budgets import BudgetView, read_budget
from gfs.live.translate.gangs import GroupView, read_group
from gfs.live.translate.nodes import NodeView, read_node
from gfs.live.translate.pods import PodView, read_pod, with_status
from gfs.live.translate.shape import table, text

SLACK = 1e-6
ORGANIZATIONS = "gfs.dev/organizations"
"""Annotation of a namespace: the organizations that its pods may name by their own label, separated by commas."""
PodChange = tuple[PodView | None, PodView | None]
"""A pod before and after; None: not there."""


def members_of(pod: PodView) -> str:
    """Whose pods the pods of a gang are: one controller's, or bare ones of one group."""
    return pod.owner.uid if pod.owner is not None else f"{pod.namespace}/{pod.gang}"


class Cluster:
    """What was read last. The mirrors call `*_changed`; whoever decides takes `pod_changes` and `changed_nodes`."""

    def __init__(self, settings: LiveSettings, wake: Callable[[], None] = lambda: None) -> None:
        self.settings = settings
        self._wake = wake
        self.nodes: dict[str, NodeView] = {}
        self.pods: dict[str, PodView] = {}
        """By uid, those that are over too as long as they are there."""
        self.groups: dict[tuple[str, str], GroupView] = {}
        self.namespaces: dict[str, str] = {}
        """Namespace -> its organization by label, or ''."""
        self._may_name: dict[str, frozenset[str]] = {}
        """Namespace -> further organizations that its pods may name."""
        self._models: Counter[str] = Counter()
        self.budgets: dict[tuple[str, str], BudgetView] = {}
        self.disruption_changes = 0
        """How often a budget or a group has changed."""
        self.on_node: dict[str, dict[str, PodView]] = {}
        """Node -> the pods that hold something there."""
        self.succeeded: dict[str, set[str]] = {}
        """Whose pods they are -> those of a gang that have succeeded: nobody creates them again."""
        self.pod_changes: list[PodChange] = []
        self.changed_nodes: set[str] = set()
        self.rules_changed = False
        """Whether something has changed by which a refused pod may be taken now."""

    # -- what the mirrors tell ---------------------------------------------------------------------

    def node_changed(self, before: Json | None, after: Json | None) -> None:
        """A node came, went or changed."""
        view = read_node(after, self.settings) if after is not None else None
        name = text(table(after or before, "metadata"), "name")
        known = self.nodes.get(name)
        if view == known:
            return  # kubelets report every few seconds, and nearly always the same
        if known is not None:
            self._models[known.model] -= 1
        if view is None:
            del self.nodes[name]
        else:
            self.nodes[name] = view
            self._models[view.model] += 1
        self.changed_nodes.add(name)
        if view is None or known is None or view.model != known.model:
            self.rules_changed = True
        self._wake()

    def pod_changed(self, before: Json | None, after: Json | None) -> None:
        """A pod came, went or changed."""
        uid = text(table(after or before, "metadata"), "uid")
        known = self.pods.get(uid)
        if after is None:
            view = None
        elif known is not None and before is not None and _only_status_differs(before, after):
            view = with_status(known, after)  # most changes are of this kind
        else:
            view = read_pod(after, self.settings)
        if view == known:
            return
        for place in (known, view):
            if place is not None and place.node:
                self.on_node.setdefault(place.node, {}).pop(uid, None)
                self.changed_nodes.add(place.node)
        self._note_success(uid, known, view)
        if view is None:
            del self.pods[uid]
            gone = read_pod(before, self.settings)  # as it was when it went: done or not
            known = gone if gone.uid == uid else known
        else:
            self.pods[uid] = view
            if view.node and not view.over:
                self.on_node.setdefault(view.node, {})[uid] = view
        self.pod_changes.append((known, view))
        self._wake()

    def _note_success(self, uid: str, known: PodView | None, view: PodView | None) -> None:
        pod = view or known
        if pod is None or not pod.gang or pod.phase != "Succeeded":
            return
        key = members_of(pod)
        done = self.succeeded.setdefault(key, set())
        if view is not None:
            done.add(uid)
        else:
            done.discard(uid)
        if not done:
            del self.succeeded[key]

    def group_changed(self, before: Json | None, after: Json | None) -> None:
        """A PodGroup came, went or changed."""
        view = read_group(after or before)
        if after is None:
            self.groups.pop((view.namespace, view.name), None)
        elif self.groups.get((view.namespace, view.name)) == view:
            return  # its status tells nothing new
        else:
            self.groups[view.namespace, view.name] = view
        self.rules_changed = True
        self.disruption_changes += 1
        self._wake()

    def namespace_changed(self, before: Json | None, after: Json | None) -> None:
        """A namespace came, went or changed."""
        metadata = table(after or before, "metadata")
        name = text(metadata, "name")
        if after is None:
            self.namespaces.pop(name, None)
            self._may_name.pop(name, None)
        else:
            self.namespaces[name] = text(table(metadata, "labels"), self.settings.organization_label)
            listed = text(table(metadata, "annotations"), ORGANIZATIONS).split(",")
            self._may_name[name] = frozenset(each.strip() for each in listed if each.strip())

    def budget_changed(self, before: Json | None, after: Json | None) -> None:
        """A PodDisruptionBudget came, went or changed."""
        budget = read_budget(after or before)
        self.disruption_changes += 1
        if after is None:
            self.budgets.pop((budget.namespace, budget.name), None)
        else:
            self.budgets[budget.namespace, budget.name] = budget

    # -- what can be asked -------------------------------------------------------------------------

    def organization(self, namespace: str, claimed: str) -> str:
        """Whose pod it is: what its label claims, if pods of its namespace may say so, else what the namespace says."""
        own, listed = self.namespaces.get(namespace, ""), self._may_name.get(namespace, frozenset())
        free = not own and not listed and self.settings.organization_claims
        return claimed if claimed and (free or claimed in listed) else own or namespace

    def models(self) -> set[str]:
        """The GPU models of the cluster."""
        return {model for model, nodes in self._models.items() if nodes}

    def remember_model(self, model: str) -> None:
        """A saved state knows nodes of this GPU model."""
        self._models[model] += 0

    def knows_model(self, model: str) -> bool:
        """Whether it has, or once had, nodes of this GPU model: pools are for those, not for whatever pods name."""
        return model in self._models

    def held(self, node: str, besides: Callable[[PodView], bool] = lambda pod: False) -> tuple[Asks, int]:
        """What pods hold on a node, and how many there are, without some."""
        total, count = NOTHING, 0
        for pod in self.on_node.get(node, {}).values():
            if not besides(pod):
                total, count = total + pod.asks, count + 1
        return total, count

    def room(self, node: str, asked: Asks, pods: int) -> bool:
        """Whether a node has room for so much more than pods hold there now: the last check before a binding."""
        view = self.nodes.get(node)
        if view is None or view.closed:
            return False
        held, count = self.held(node)
        total = held + asked
        return (
            total.gpus <= view.gpus
            and total.cpus <= view.cpus + SLACK
            and total.memory <= view.memory + SLACK
            and count + pods <= view.pods
        )


def _only_status_differs(before: Json, after: Json) -> bool:
    """Whether all that is read of a pod besides its status is as before; such comparisons are quick."""
    was, now = table(before, "metadata"), table(after, "metadata")
    read = ("uid", "name", "namespace", "annotations", "labels", "ownerReferences", "creationTimestamp")
    return before.get("spec") == after.get("spec") and all(was.get(each) == now.get(each) for each in read)
