"""Claims of pods: doubtful ones are counted and get a warning event, checkpoints go to the core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf

from gfs.core.events import CheckpointsSaved, Event
from gfs.core.run import Run
from gfs.domain.task import Priority
from gfs.live.clock import Clock
from gfs.live.observe import priority_of
from gfs.live.pod_events import PodEvents
from gfs.live.table import Phase
from gfs.live.tasks import TaskBook
from gfs.live.translate.pods import DOUBTED, LAST_CHECKPOINT, Doubt, PodView
from gfs.live.translate.quantities import rfc3339

SAVED_EVERY = 1.0
"""Seconds between two reports of checkpoints: the core puts its victims in order again after each."""
SKEW = 60.0
"""Seconds that the clock of a pod may be ahead of ours."""


class Claims:
    """Checks the claims of pods."""

    def __init__(self, book: TaskBook, pod_events: PodEvents, clock: Clock, monotonic: Callable[[], float]) -> None:
        self._mirror, self._book, self._pod_events = book.mirror, book, pod_events
        self._clock, self._monotonic = clock, monotonic
        self.doubted: Counter[str] = Counter()
        """Claim -> how often it was not believed."""
        self._saved: dict[Run, float] = {}
        self._reported = -inf

    def look(self, pod: PodView) -> None:
        """Count the doubtful claims of a new pod, and write warning events."""
        for doubt in pod.doubts:
            self._doubt(pod, doubt)
        settings = self._mirror.settings
        whose = self._mirror.organization(pod.namespace, pod.organization)
        if pod.organization and whose != pod.organization:
            words = f"{settings.organization_label} = {pod.organization}: pods of its namespace belong to {whose}"
            self._doubt(pod, Doubt("organization", DOUBTED, words))
        if pod.grace > settings.longest_grace and priority_of(self._mirror, pod) is Priority.SPOT:
            words = (
                f"terminationGracePeriodSeconds = {pod.grace:.0f}: an eviction gives it {settings.longest_grace:g} s"
            )
            self._doubt(pod, Doubt("grace", DOUBTED, words))

    def _doubt(self, pod: PodView, doubt: Doubt) -> None:
        self.doubted[doubt.claim] += 1
        self._pod_events.event(pod, doubt.reason, doubt.text)

    def checkpoints(self, now: float) -> list[Event]:
        """Returns the checkpoints since the last report, at most once a second."""
        saved, self._mirror.saved = self._mirror.saved, {}
        for uid in saved:
            pod, task = self._mirror.pods.get(uid), self._book.by_pod.get(uid)
            if pod is None or pod.last_checkpoint is None or pod.over:
                continue
            if task is None or task.run is None or task.phase is not Phase.RUNNING:
                if not pod.deleting:
                    self._mirror.saved[uid] = None  # its run is not known yet
                continue
            self._note(task.run, pod, pod.last_checkpoint, now)
        if not self._saved or self._monotonic() - self._reported < SAVED_EVERY:
            return []
        self._reported = self._monotonic()
        events: list[Event] = [CheckpointsSaved(list(self._saved.items()))]
        self._saved = {}
        return events

    def _note(self, run: Run, pod: PodView, at: float, now: float) -> None:
        if self._clock.of_wall(at - SKEW) >= now:  # it lies in the future
            words = f"{LAST_CHECKPOINT} = {rfc3339(at)}: is yet to come"
            self._doubt(pod, Doubt("last-checkpoint", DOUBTED, words))
            return
        saved = min(self._clock.of_wall(at), now)
        if saved > run.progress_from:
            self._saved[run] = max(saved, self._saved.get(run, saved))
