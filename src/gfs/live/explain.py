"""Writes on pods why they wait: on new pods at once, on the others in turns, so that a long queue costs no more.

For pods that wait for quota the sentence also says when the forecast expects room, or that the quota is cautious.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf

from gfs.core.ports import ExpectedRoom
from gfs.core.reasons import OverQuota, Reason
from gfs.core.scheduler import PoolScheduler, Scheduler
from gfs.domain.task import Task
from gfs.live.learning import caution
from gfs.live.mirror import Mirror
from gfs.live.observe import NO_CAPACITY, QUOTA, REFUSED, Waits
from gfs.live.pod_events import PodEvents
from gfs.live.table import Phase
from gfs.live.tasks import TaskBook

EVERY = 1.0
"""Seconds between two looks."""
IN_TURN = 100
"""Pods of the turn, at each look."""
NEWCOMERS = 1000
"""New pods, at each look; namespaces take turns."""


class Explainer:
    """Writes on every waiting pod why it waits."""

    def __init__(
        self,
        mirror: Mirror,
        book: TaskBook,
        pod_events: PodEvents,
        monotonic: Callable[[], float],
        least_hours: float,
    ) -> None:
        """`least_hours`: of demand, before a forecaster learns from them."""
        self._mirror, self._book, self._pod_events = mirror, book, pod_events
        self._monotonic, self._least_hours = monotonic, least_hours
        self._looked = -inf
        self._turn: list[str] = []
        """Uids of waiting pods that are still to come in this turn."""

    def look(self, scheduler: Scheduler) -> None:
        """Look at new pods and at the next of the others, at most once a second."""
        now, unexplained = self._monotonic(), self._book.unexplained
        if now - self._looked < EVERY:
            return
        self._looked = now
        if not self._turn:
            waiting = [uid for uid, task in self._book.by_pod.items() if task.phase is not Phase.RUNNING]
            self._turn = [*self._book.waits, *waiting]
        others, self._turn = self._turn[:IN_TURN], self._turn[IN_TURN:]
        explained: dict[str, Waits | None] = {}
        for uid in dict.fromkeys((*self._newcomers(), *others)):
            unexplained.pop(uid, None)
            pod, why = self._mirror.pods.get(uid), self.why(uid, scheduler, explained)
            if why is not None and pod is not None and not pod.node:
                self._pod_events.waits(pod, why.reason, why.text)

    def _newcomers(self) -> list[str]:
        """Returns the pods to look at first, the first of every namespace before the second of any."""
        seen, turns = Counter[str](), dict[str, int]()
        for uid in self._book.unexplained:
            pod = self._mirror.pods.get(uid)
            namespace = pod.namespace if pod is not None else ""
            turns[uid] = seen[namespace] = seen[namespace] + 1
        return sorted(turns, key=turns.__getitem__)[:NEWCOMERS]

    def why(self, uid: str, scheduler: Scheduler, explained: dict[str, Waits | None]) -> Waits | None:
        """Returns why a pod waits; None: it does not wait, or no decision was made yet. `explained`: by task."""
        if (waits := self._book.waits.get(uid)) is not None:
            return waits._replace(text=f"refused: {waits.text}") if waits.reason == REFUSED else waits
        task = self._book.by_pod.get(uid)
        if task is None or task.task is None:
            return None
        if task.phase is Phase.PLANNED:
            words = f"is placed on {task.pods[uid]} and waits for room there: other pods are still leaving"
            is_late = task.is_blocked and self._monotonic() - task.since > EVERY
            return Waits(NO_CAPACITY, words) if is_late else None
        if task.name not in explained:
            explained[task.name] = why_waiting(scheduler, task.task, self._least_hours)
        return explained[task.name]


def why_waiting(scheduler: Scheduler, task: Task, least_hours: float) -> Waits | None:
    """Returns the core's reason, and for a task that waits for quota when room is expected; None: it does not wait."""
    pool = scheduler.pools.get(task.gpu_model)
    waiting = pool.state.waiting.get(task.index) if pool is not None else None
    if pool is None or waiting is None:
        return None
    reason = pool.policy.explain(waiting.task)
    kind = QUOTA if isinstance(reason, OverQuota) else NO_CAPACITY
    return Waits(kind, in_words(pool, waiting.task, reason, least_hours))


def in_words(pool: PoolScheduler, task: Task, reason: Reason, least_hours: float) -> str:
    """Returns a reason as text, and for a task that waits for quota when room is expected."""
    if not isinstance(reason, OverQuota):
        return reason.text()
    more, room = caution(pool, least_hours), expected_room(pool, task, reason)
    if not more and room is not None:
        more = f"{room.text()} UTC"
    return f"{reason.text()}; {more}" if more else reason.text()


def expected_room(pool: PoolScheduler, task: Task, reason: Reason) -> ExpectedRoom | None:
    """Returns when the forecast expects room for a task that waits for this reason; None: no forecast says so."""
    quota = pool.policy.quota
    return quota.expected_room(task) if isinstance(reason, OverQuota) else None
