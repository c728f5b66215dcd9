"""Why pods wait, told to their owners: newcomers at once, the others in turns, so that a long queue costs no more.

Pods that wait for quota are also told when the forecast expects room, or that the quota is a cautious one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, zip_longest
from math import inf

from gfs.core.ports import ExpectedRoom, Foresees
from gfs.core.reasons import OverQuota, Reason
from gfs.core.run import Run
from gfs.core.scheduler import PoolScheduler, Scheduler
from gfs.domain.task import Task
from gfs.live.bind import Binder
from gfs.live.cluster import Cluster
from gfs.live.learning import caution
from gfs.live.say import Speaker
from gfs.live.tasks import TaskBook

EVERY = 1.0
"""Seconds between two looks."""
IN_TURN = 100
"""Pods that are looked at again each time."""
NEWCOMERS = 1000
"""Pods that are told for the first time each time; namespaces take turns, so that nobody waits for one with more."""


class Explainer:
    """Tells every pod that waits why it does."""

    def __init__(
        self,
        cluster: Cluster,
        book: TaskBook,
        binder: Binder,
        speaker: Speaker,
        monotonic: Callable[[], float],
        least_hours: float,
    ) -> None:
        """`least_hours`: of demand, before a forecaster learns from them."""
        self._cluster, self._book, self._binder, self._speaker = cluster, book, binder, speaker
        self._monotonic, self._least_hours = monotonic, least_hours
        self._looked = -inf
        self._turn: list[str] = []
        """Pods that wait, by uid, and have yet to be looked at in this round."""

    def look(self, scheduler: Scheduler, waits_for_victims: Callable[[Run], bool]) -> None:
        """Tell those who came since the last time, and the next of the others; nothing if that was just now."""
        now = self._monotonic()
        if now - self._looked < EVERY:
            return
        self._looked = now
        if not self._turn:
            free = [uid for task in self._book.by_key.values() for uid in task.free]
            self._turn = [*self._book.refused, *free][::-1]
        fresh = self._newcomers()
        due = dict.fromkeys((*fresh, *(self._turn.pop() for _ in range(min(IN_TURN, len(self._turn))))))
        explained: dict[str, str] = {}
        for uid in due:
            why = self._why(uid, scheduler, explained)
            if not why and self._is_next(uid):
                self._book.unsaid[uid] = None
            self._tell(uid, why)
        for run, starting in self._binder.starting.items():
            if waits_for_victims(run):
                for uid, node in starting.pods.items():
                    self._tell(uid, f"is placed on {node} and waits for preempted pods to leave it")

    def _newcomers(self) -> list[str]:
        """Who is to be told first, the first of every namespace before the second of any."""
        unsaid = self._book.unsaid
        if len(unsaid) <= NEWCOMERS:
            self._book.unsaid = {}
            return list(unsaid)
        queues: dict[str, list[str]] = {}
        for uid in unsaid:
            pod = self._cluster.pods.get(uid)
            queues.setdefault(pod.namespace if pod is not None else "", []).append(uid)
        turns = (uid for turn in zip_longest(*queues.values()) for uid in turn if uid is not None)
        chosen = list(islice(turns, NEWCOMERS))
        for uid in chosen:
            del unsaid[uid]
        return chosen

    def _is_next(self, uid: str) -> bool:
        """Whether a pod of a flood is yet to be decided on: there is nothing to say of it so far."""
        task = self._book.by_pod.get(uid)
        return task is not None and uid in task.free and not task.told and task.run is None

    def _tell(self, uid: str, why: str) -> None:
        pod = self._cluster.pods.get(uid)
        if why and pod is not None and not pod.node:
            self._speaker.waits(pod, why)

    def _why(self, uid: str, scheduler: Scheduler, explained: dict[str, str]) -> str:
        """Why a pod waits, '' if it does not. Pods of one task wait for the same reason."""
        if uid in self._book.refused:
            return f"refused: {self._book.refused[uid]}"
        task = self._book.by_pod.get(uid)
        if task is None or uid not in task.free:
            return ""
        if task.name not in explained:
            if task.told and task.task is not None:
                explained[task.name] = why_waiting(scheduler, task.task, self._least_hours)
            elif task.run is not None or (not task.extra and len(task.free) >= task.needs):
                explained[task.name] = ""
            elif task.extra:
                explained[task.name] = "its gang has not started yet"
            else:
                explained[task.name] = f"{len(task.free)} of the {task.needs} pods that its gang needs are there"
        return explained[task.name]


def why_waiting(scheduler: Scheduler, task: Task, least_hours: float) -> str:
    """The core's reason, and for one who waits for quota what may be expected; '': it does not wait."""
    pool = scheduler.pools.get(task.gpu_model)
    waiting = pool.state.waiting.get(task.index) if pool is not None else None
    if pool is None or waiting is None:
        return ""
    return in_words(pool, waiting.task, pool.policy.explain(waiting.task), least_hours)


def in_words(pool: PoolScheduler, task: Task, reason: Reason, least_hours: float) -> str:
    """A reason, and for one who waits for quota what may be expected."""
    if not isinstance(reason, OverQuota):
        return reason.text()
    more, room = caution(pool, least_hours), expected_room(pool, task, reason)
    if not more and room is not None:
        more = f"{room.text()} UTC"
    return f"{reason.text()}; {more}" if more else reason.text()


def expected_room(pool: PoolScheduler, task: Task, reason: Reason) -> ExpectedRoom | None:
    """When the forecast expects room for a task that waits for this reason; None: it says nothing of it."""
    quota = pool.policy.quota
    return quota.expected_room(task) if isinstance(reason, OverQuota) and isinstance(quota, Foresees) else None
