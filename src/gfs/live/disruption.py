"""Disruption rules for the core: runs whose eviction breaks a budget, and runs that go together."""

from __future__ import annotations

from gfs.core.events import DisruptionRules
from gfs.core.run import Run
from gfs.live.mirror import Key
from gfs.live.table import Phase
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.gangs import GroupName


class Disruption:
    """Computes the rules, and returns them when they differ from the last ones."""

    def __init__(self, book: TaskBook) -> None:
        self._mirror, self._book = book.mirror, book
        self._known: tuple[frozenset[Run], dict[Run, tuple[Run, ...]]] = frozenset(), {}
        self._seen: tuple[int, list[tuple[Run, int]]] = 0, []
        """The input of the last rules: number of changes of objects, and runs with their numbers of pods."""

    def changes(self) -> list[DisruptionRules]:
        """Returns the rules if they have changed."""
        if not self._mirror.disruption_changes:
            return []
        running = [task for task in self._book.by_index.values() if task.phase is Phase.RUNNING]
        spot = {task.run: task for task in running if task.run is not None and task.run.task.is_spot}
        seen = self._mirror.disruption_changes, [(run, len(task.pods)) for run, task in spot.items()]
        if seen == self._seen:
            return []
        self._seen = seen
        rules = self._protected(spot), self._together(spot)
        if rules == self._known:
            return []
        protected, together = self._known = rules
        for members in together.values():  # evicting one of them evicts the protected one
            if not protected.isdisjoint(members):
                protected = protected.union(members)
        return [DisruptionRules(protected, together)]

    def _protected(self, spot: dict[Run, LiveTask]) -> frozenset[Run]:
        pods, budgets = self._mirror.pods, self._mirror.budgets.values()
        if not budgets or not self._mirror.settings.honour_budgets:
            return frozenset()
        homes, found = {budget.namespace for budget in budgets}, set()
        for run, task in spot.items():
            mine = [pod for uid in task.pods if (pod := pods.get(uid)) is not None and pod.namespace in homes]
            if mine and any(budget.breaks(mine) for budget in budgets):
                found.add(run)
        return frozenset(found)

    def _together(self, spot: dict[Run, LiveTask]) -> dict[Run, tuple[Run, ...]]:
        """The runs of a group go together if it says so, or if less than its minimum would be left.

        A group may have runs in two pools after a node got another model label: each pool decides for its own.
        """
        groups: dict[tuple[Key, str], dict[Run, int]] = {}
        for run, task in spot.items():
            groups.setdefault((task.key, run.task.gpu_model), {})[run] = len(task.pods)
        together: dict[Run, tuple[Run, ...]] = {}
        for (key, _), pods in groups.items():
            group = self._mirror.groups.get(key) if isinstance(key, GroupName) else None
            if group is None or len(pods) < 2:
                continue
            total = sum(pods.values())
            for run, count in pods.items():
                if group.whole or total - count < group.minimum > 1:
                    together[run] = tuple(pods)
        return together
