"""Asking Jobs: a gang waits for a pod that its Job does not create again, since it has succeeded and is gone.

What is seen of pods that succeed is remembered while the controller lives; who starts after such a pod has gone can
know it from its Job alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from urllib.parse import quote

from gfs.live.api import Api, Json
from gfs.live.problems import ApiError
from gfs.live.say import Spawn
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.pods import Owner
from gfs.live.translate.shape import table
from gfs.live.watch import uid_of

log = logging.getLogger("gfs.live")
LOOK = 5.0
"""Seconds between two looks at who waits for the rest of its gang: one that waits at two of them is asked for."""
ASK_AGAIN = 60.0
"""Seconds until a Job is asked again."""
MOST = 10
"""Jobs that are asked at a time: thousands of gangs that never get whole delay nobody."""


class JobDesk:
    """Asks the Jobs of gangs that are short of pods how many are still to succeed."""

    def __init__(
        self,
        api: Api,
        book: TaskBook,
        spawn: Spawn,
        tell: Callable[[LiveTask], None],
        monotonic: Callable[[], float],
    ) -> None:
        """`tell` hears of tasks that need fewer pods than was thought."""
        self._api, self._book, self._spawn, self._tell, self._monotonic = api, book, spawn, tell, monotonic
        self._next = -inf
        self._due: dict[LiveTask, float] = {}
        """Gangs that are short of pods -> when their Job is to be asked."""

    def look(self) -> None:
        """Ask where it is time to."""
        now = self._monotonic()
        if now < self._next:
            return
        self._next = now + LOOK
        short = [task for task in self._book.by_name.values() if _is_short(task)]
        self._due = {task: self._due.get(task, now + LOOK) for task in short}
        for task in [task for task, due in self._due.items() if due <= now][:MOST]:
            self._due[task] = now + ASK_AGAIN
            pod = next(iter(task.free.values()))
            if pod.owner is not None and pod.owner.kind == "Job":
                self._spawn(self._ask(task, pod.namespace, pod.owner))

    async def _ask(self, task: LiveTask, namespace: str, owner: Owner) -> None:
        try:
            job = await self._api.find(f"/apis/batch/v1/namespaces/{namespace}/jobs/{quote(owner.name, safe='')}")
        except ApiError as error:
            log.debug(f"Job {namespace}/{owner.name} was not read: {error}")
            return
        done = task.minimum - pods_to_come(job) if job is not None and uid_of(job) == owner.uid else 0
        if done > task.done_before and task.members == owner.uid:
            task.done_before = done
            self._tell(task)


def pods_to_come(job: Json) -> float:
    """How many pods of a Job are still to succeed."""
    status, wanted = table(job, "status"), table(job, "spec").get("completions")
    uncounted = table(status, "uncountedTerminatedPods").get("succeeded") or ()
    return wanted - (status.get("succeeded") or 0) - len(uncounted) if wanted else inf


def _is_short(task: LiveTask) -> bool:
    return task.gang is not None and not task.extra and task.run is None and 0 < len(task.free) < task.needs
