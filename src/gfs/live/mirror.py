"""The mirror of a cluster: nodes, pods, groups, namespaces and budgets as the API server last reported them.

Its work queue holds the keys of tasks, and the nodes, that have changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from gfs.live.settings import LiveSettings
from gfs.live.translate.budgets import BudgetView, read_budget
from gfs.live.translate.gangs import NATIVE, GroupName, GroupView, read_group
from gfs.live.translate.nodes import NodeView, read_node
from gfs.live.translate.pods import PodView, read_pod, read_status
from gfs.live.translate.shape import Json, table, text

ORGANIZATIONS = "gfs.dev/organizations"
"""Annotation of a namespace: the organizations that its pods may name by their own label, separated by commas."""
Key: TypeAlias = GroupName | str
"""The unit of a look: the pods of a group, or one pod by its uid."""


def key_of(pod: PodView) -> Key:
    """Returns the key of a pod."""
    return pod.gang or pod.uid


class _Home(NamedTuple):
    """The organizations of a namespace."""

    organization: str = ""
    """By its label."""
    others: frozenset[str] = frozenset()
    """Further organizations that its pods may name."""


class Mirror:
    """The objects as last read. The reflectors call `*_changed`; the controller takes `dirty` and `dirty_nodes`."""

    def __init__(self, settings: LiveSettings, wake: Callable[[], None] = lambda: None) -> None:
        self.settings = settings
        self.wake = wake
        self.nodes: dict[str, NodeView] = {}
        """Nodes of ours: with GPUs and a model."""
        self.pods: dict[str, PodView] = {}
        """By uid, also finished ones."""
        self.members: dict[Key, dict[str, PodView]] = {}
        """Key -> pods of ours by uid."""
        self.present: Counter[Key] = Counter()
        """Key -> members that wait, run or have succeeded, and are not being deleted."""
        self.on_node: dict[str, dict[str, PodView]] = {}
        """Node -> the pods that hold something there."""
        self.leaving: dict[str, PodView] = {}
        """Pods that hold something and are deleted, by uid."""
        self.apart: dict[str, PodView] = {}
        """Pods that hold something and keep others away (anti-affinity)."""
        self.groups: dict[Key, GroupView] = {}
        self.budgets: dict[tuple[str, str], BudgetView] = {}
        self._homes: dict[str, _Home] = {}
        self.models: Counter[str] = Counter()
        """GPU model -> number of nodes."""
        self._unbound: dict[str, PodView] = {}
        """Pods of ours that are not bound, by uid."""
        self.ended: dict[str, bool] = {}
        """Uids of pods that have gone since the last step -> whether they had succeeded."""
        self.dirty: dict[Key, None] = {}
        """The work queue: keys to look at again."""
        self.dirty_nodes: set[str] = set()
        self.changed: set[str] = set()
        """Uids of pods that have come, gone or changed."""
        self.new_pods: list[PodView] = []
        """Pods of ours that came, or lost their scheduling gates, since the last step."""
        self.saved: dict[str, None] = {}
        """Uids of pods with a new checkpoint."""
        self.disruption_changes = 0
        """Number of changes of budgets and groups, and of labels of pods."""

    # -- what the reflectors report ----------------------------------------------------------------

    def node_changed(self, before: Json | None, after: Json | None) -> None:
        """A node came, went or changed."""
        view = read_node(after, self.settings) if after is not None else None
        name = text(table(after or before, "metadata"), "name")
        known = self.nodes.get(name)
        if view == known:
            return  # kubelets report every few seconds, and nearly always the same
        models = set(self.models)
        _keep(self.nodes, name, view)
        if known is not None:
            self.models -= Counter([known.model])
        if view is not None:
            self.models += Counter([view.model])
        self.dirty_nodes.add(name)
        if view is None or known is None or view.model != known.model:
            self._look_at(pod for pod in self.on_node.get(name, {}).values() if pod.ours)
        if self.models.keys() != models:
            self._look_at(self._unbound.values())
        self.wake()

    def pod_changed(self, before: Json | None, after: Json | None) -> None:
        """A pod came, went or changed."""
        uid = text(table(after or before, "metadata"), "uid")
        known = self.pods.get(uid)
        if after is None:
            view = None
        elif known is not None and _beside_status(before) == _beside_status(after):
            view = replace(known, **read_status(after))  # most changes are of this kind
        else:
            view = read_pod(after, self.settings)
        if view == known:
            return
        self.changed.add(uid)
        if known is not None:
            self._remove(known)
        if view is not None:
            self._add(view)
        if known is None or view is None or _concerns_tasks(known, view):
            for each in filter(None, (known, view)):
                self._note_change(each)
        if view is not None and known is not None and view.labels != known.labels:
            self.disruption_changes += 1
        if view is not None and view.ours:
            if not view.gated and (known is None or known.gated):
                self.new_pods.append(view)
            if view.last_checkpoint not in (None, known and known.last_checkpoint):
                self.saved[uid] = None
        elif view is None and known is not None and known.ours:
            self.ended[uid] = text(table(before, "status"), "phase") == "Succeeded"
        self.wake()

    def _remove(self, pod: PodView) -> None:
        del self.pods[pod.uid]
        self._unbound.pop(pod.uid, None)
        self.leaving.pop(pod.uid, None)
        self.apart.pop(pod.uid, None)
        if pod.node:
            self.on_node.get(pod.node, {}).pop(pod.uid, None)
        if pod.ours:
            key = key_of(pod)
            del self.members[key][pod.uid]
            self.present[key] -= _is_present(pod)
            if not self.members[key]:
                del self.members[key], self.present[key]

    def _add(self, pod: PodView) -> None:
        self.pods[pod.uid] = pod
        if pod.node and not pod.over:
            self.on_node.setdefault(pod.node, {})[pod.uid] = pod
            if pod.deleting:
                self.leaving[pod.uid] = pod
            if pod.apart:
                self.apart[pod.uid] = pod
        if pod.ours:
            key = key_of(pod)
            self.members.setdefault(key, {})[pod.uid] = pod
            self.present[key] += _is_present(pod)
            if not pod.node and not pod.over:
                self._unbound[pod.uid] = pod

    def _note_change(self, pod: PodView) -> None:
        """Queue what a change of a pod concerns."""
        if pod.ours:
            self.dirty[key_of(pod)] = None
        if pod.node:
            self.dirty_nodes.add(pod.node)
            if pod.apart:
                self._look_at(filter(pod.keeps_away, self._unbound.values()))

    def group_changed(self, before: Json | None, after: Json | None, kind: str = NATIVE) -> None:
        """A PodGroup came, went or changed."""
        metadata = table(after or before, "metadata")
        name = GroupName(kind, text(metadata, "namespace"), text(metadata, "name"))
        view = read_group(after) if after is not None else None
        if view == self.groups.get(name):
            return  # its status says nothing new
        _keep(self.groups, name, view)
        self.disruption_changes += 1
        self.dirty[name] = None
        self.wake()

    def namespace_changed(self, before: Json | None, after: Json | None) -> None:
        """A namespace came, went or changed."""
        name, metadata = text(table(after or before, "metadata"), "name"), table(after, "metadata")
        listed = text(table(metadata, "annotations"), ORGANIZATIONS).split(",")
        others = frozenset(each.strip() for each in listed if each.strip())
        home = _Home(text(table(metadata, "labels"), self.settings.organization_label), others)
        if home != self._homes.get(name, _Home()):
            _keep(self._homes, name, home if after is not None else None)
            self._look_at(pod for pod in self.pods.values() if pod.ours and pod.namespace == name)
            self.wake()

    def budget_changed(self, before: Json | None, after: Json | None) -> None:
        """A PodDisruptionBudget came, went or changed."""
        budget = read_budget(after or before)
        self.disruption_changes += 1
        _keep(self.budgets, (budget.namespace, budget.name), budget if after is not None else None)

    def _look_at(self, pods: Iterable[PodView]) -> None:
        self.dirty.update(dict.fromkeys(map(key_of, pods)))

    def look_at_all(self) -> None:
        """Queue every key: a resync."""
        self.dirty.update(dict.fromkeys(self.members))
        self.dirty_nodes.update(self.nodes)
        self.changed.update(self.pods)
        self.wake()

    # -- queries -------------------------------------------------------------------------

    def organization(self, namespace: str, claimed: str) -> str:
        """Returns the organization of a pod: its label, if its namespace allows that, else what its namespace says."""
        own, listed = self._homes.get(namespace, _Home())
        free = not own and not listed and self.settings.organization_claims
        return claimed if claimed and (free or claimed in listed) else own or namespace

    def admits(self, node: str, pod: PodView, model: str) -> bool:
        """Whether a node is there, of this model, open, and one that the pod asks for."""
        view = self.nodes.get(node)
        if view is None or view.closed or view.model != model:
            return False
        return pod.rule.admits(view.labels, view.taints)


def _is_present(pod: PodView) -> bool:
    return pod.phase == "Succeeded" or not (pod.over or pod.deleting or pod.gated)


def _keep(views: dict[Any, Any], name: Any, view: Any) -> None:
    """Keep what was read of an object; None: it is gone."""
    if view is None:
        views.pop(name, None)
    else:
        views[name] = view


def _concerns_tasks(before: PodView, after: PodView) -> bool:
    """Whether more has changed than whether a pod has started."""
    return before.over != after.over or replace(before, phase=after.phase, started=after.started) != after


def _beside_status(pod: Json | None) -> tuple[Any, ...]:
    """Returns what is read of a pod beside its status, as far as it can change."""
    metadata = table(pod, "metadata")
    return table(pod, "spec"), *(metadata.get(each) for each in ("labels", "annotations", "ownerReferences"))
