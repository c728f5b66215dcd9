"""What the core is told about stopping runs: whose disruption budget it would break, and which groups go whole."""

from __future__ import annotations

from gfs.core.events import DisruptionRules
from gfs.core.run import Run
from gfs.live.cluster import Cluster
from gfs.live.tasks import LiveRun, TaskBook


class Disruption:
    """Remembers what the core was told, and tells it again when that has changed."""

    def __init__(self, cluster: Cluster, book: TaskBook) -> None:
        self._cluster, self._book = cluster, book
        self._told: tuple[frozenset[Run], dict[Run, tuple[Run, ...]]] = frozenset(), {}
        self._seen: tuple[int, list[tuple[LiveRun, int]]] = 0, []
        """What the rules follow from: changes of budgets and groups so far, runs and how many pods each has."""

    def changes(self) -> list[DisruptionRules]:
        """The rules, if they are others than before."""
        if not self._cluster.disruption_changes:
            return []
        seen = self._cluster.disruption_changes, [(live, len(live.pods)) for live in self._spot()]
        if seen == self._seen:
            return []
        self._seen = seen
        rules = self._protected(), self._together()
        if rules == self._told:
            return []
        protected, together = self._told = rules
        for members in together.values():  # who would take a protected run along is protected, too
            if not protected.isdisjoint(members):
                protected = protected.union(members)
        return [DisruptionRules(protected, together)]

    def _spot(self) -> list[LiveRun]:
        return [live for live in self._book.of_run.values() if live.run.task.is_spot and not live.leaving]

    def _protected(self) -> frozenset[Run]:
        pods, homes = self._cluster.pods, {budget.namespace for budget in self._cluster.budgets.values()}
        if not homes or not self._cluster.settings.honour_budgets:
            return frozenset()
        found = set()
        for live in self._spot():
            mine = [pod for uid in live.pods if (pod := pods.get(uid)) is not None and pod.namespace in homes]
            if mine and any(budget.breaks(mine) for budget in self._cluster.budgets.values()):
                found.add(live.run)
        return frozenset(found)

    def _together(self) -> dict[Run, tuple[Run, ...]]:
        """The runs of a group whose pods are disrupted all or none: its minimum, and each pod beyond it."""
        if not any(group.whole for group in self._cluster.groups.values()):
            return {}
        members: dict[tuple[str, str], list[Run]] = {}
        for live in self._spot():
            group = self._cluster.groups.get(live.of.gang) if live.of.gang else None
            if group is not None and group.whole:
                members.setdefault((group.namespace, group.name), []).append(live.run)
        return {run: tuple(runs) for runs in members.values() if len(runs) > 1 for run in runs}
