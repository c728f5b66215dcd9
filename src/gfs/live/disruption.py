"""What the core is told about stopping runs: whose disruption budget it would break, and which runs go together."""

from __future__ import annotations

from gfs.core.events import DisruptionRules
from gfs.core.run import Run
from gfs.live.mirror import Mirror
from gfs.live.table import Told
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.gangs import GroupName


class Disruption:
    """Remembers what the core was told, and gives the rules again when they have changed."""

    def __init__(self, mirror: Mirror, book: TaskBook) -> None:
        self._mirror, self._book = mirror, book
        self._told: tuple[frozenset[Run], dict[Run, tuple[Run, ...]]] = frozenset(), {}
        self._seen: tuple[int, list[tuple[Run | None, int]]] = 0, []
        """What the rules follow from: changes of budgets and groups so far, runs and how many pods each has."""

    def changes(self) -> list[DisruptionRules]:
        """Returns the rules, if they are others than before."""
        if not self._mirror.disruption_changes:
            return []
        seen = self._mirror.disruption_changes, [(task.run, len(task.pods)) for task in self._spot()]
        if seen == self._seen:
            return []
        self._seen = seen
        rules = self._protected(), self._together()
        if rules == self._told:
            return []
        protected, together = self._told = rules
        for members in together.values():  # a run that would take a protected one along is protected, too
            if not protected.isdisjoint(members):
                protected = protected.union(members)
        return [DisruptionRules(protected, together)]

    def _spot(self) -> list[LiveTask]:
        """Returns the spot tasks that run."""
        tasks = self._book.by_index.values()
        return [task for task in tasks if task.run is not None and task.run.task.is_spot and task.told is Told.RUNNING]

    def _protected(self) -> frozenset[Run]:
        pods, homes = self._mirror.pods, {budget.namespace for budget in self._mirror.budgets.values()}
        if not homes or not self._mirror.settings.honour_budgets:
            return frozenset()
        found = set()
        for task in self._spot():
            mine = [pod for uid in task.pods if (pod := pods.get(uid)) is not None and pod.namespace in homes]
            if task.run and mine and any(budget.breaks(mine) for budget in self._mirror.budgets.values()):
                found.add(task.run)
        return frozenset(found)

    def _together(self) -> dict[Run, tuple[Run, ...]]:
        """The runs of a group go together if it says so, or if less than its minimum would be left.

        A group may have runs in two pools after a node got another model label: each pool decides for its own.
        """
        groups: dict[tuple[GroupName, str], list[LiveTask]] = {}
        for task in self._spot():
            if isinstance(task.key, GroupName) and task.task is not None:
                groups.setdefault((task.key, task.task.gpu_model), []).append(task)
        together: dict[Run, tuple[Run, ...]] = {}
        for (name, _), tasks in groups.items():
            group = self._mirror.groups.get(name)
            if group is None or len(tasks) < 2:
                continue
            runs = tuple(task.run for task in tasks if task.run is not None)
            pods = sum(len(task.pods) for task in tasks)
            for task in tasks:
                if task.run is not None and (group.whole or pods - len(task.pods) < group.minimum > 1):
                    together[task.run] = runs
        return together
