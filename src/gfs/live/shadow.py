"""Shadow mode: what GFS would have done, beside what the other scheduler did. Nothing is written to the cluster.

The core decides on the cluster as it is. A start that it plans stands until the other scheduler binds the pod: then the
two are compared and the truth is taken over. A victim that it would have evicted runs on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass

from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.live.mirror import Key, Mirror
from gfs.live.table import Phase
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.pods import PodView

log = logging.getLogger("gfs.live.shadow")
UNWRITTEN = "its reason is not written yet"
SLACK = 5.0
"""Seconds that count as the same moment."""


@dataclass(slots=True)
class Difference:
    """What GFS would have changed so far, in pods."""

    same_node: int = 0
    other_node: int = 0
    earlier: int = 0
    """GFS would have started them before the other scheduler did."""
    earlier_seconds: float = 0.0
    """Their waiting time that GFS would have spared, added up."""
    kept_waiting: int = 0
    """Started by the other scheduler, where GFS would have let them wait."""
    undecided: int = 0
    """Started by the other scheduler before GFS decided on them."""
    would_evict: int = 0
    would_evict_gpus: float = 0.0
    still_waiting: int = 0
    """GFS would have started them; they still wait."""


class Shadow:
    """Compares plans with what happens."""

    def __init__(self) -> None:
        self._planned: dict[str, float] = {}
        """Pod uid -> when its start was planned."""
        self._started: set[str] = set()
        """Uids of pods that the other scheduler has started."""
        self._so_far = Difference()

    def plan(self, task: LiveTask, now: float) -> None:
        """Note a start that GFS plans."""
        for uid, node in task.pods.items():
            if uid not in self._planned:
                self._planned[uid] = now
                log.info(f"would start {task.name} on {node}")

    def evict(self, run: Run, reason: Reason) -> None:
        """Note an eviction that GFS plans."""
        self._so_far.would_evict += run.task.pods
        self._so_far.would_evict_gpus += run.task.gpus
        log.info(f"would evict {run.task.name}: {reason.text()}")

    def compare(self, mirror: Mirror, book: TaskBook, key: Key, now: float, why: Callable[[str], str]) -> None:
        """Compare what the other scheduler has bound under a key with the plans. `why`: a pod waits, by uid."""
        for uid, pod in mirror.members.get(key, {}).items():
            if pod.node and uid not in self._started:
                self._started.add(uid)
                task = book.by_pod.get(uid)
                phase = task.phase if task is not None else Phase.UNKNOWN
                planned = task.pods.get(uid) if task is not None and phase is Phase.PLANNED else None
                if book.is_reconciled:  # otherwise it ran before GFS began
                    self._compare(pod, planned, now, why(uid) or (UNWRITTEN if phase is Phase.WAITING else ""))

    def _compare(self, pod: PodView, planned: str | None, now: float, why: str) -> None:
        """Count a pod that the other scheduler started. `planned`: the node of GFS; `why`: it let the pod wait."""
        since = self._planned.pop(pod.uid, None)
        if planned is not None and since is not None:
            early = now - since
            if early > SLACK:
                self._so_far.earlier += 1
                self._so_far.earlier_seconds += early
            if planned == pod.node:
                self._so_far.same_node += 1
            else:
                self._so_far.other_node += 1
            log.info(f"{pod.path} was started on {pod.node}; GFS: {planned}, {max(early, 0.0):.0f} s earlier")
        elif why:
            self._so_far.kept_waiting += 1
            log.info(f"{pod.path} was started on {pod.node}; GFS would have let it wait: {why}")
        else:
            self._so_far.undecided += 1
            log.info(f"{pod.path} was started on {pod.node} before GFS decided on it")

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._planned.pop(uid, None)
        self._started.discard(uid)

    def summary(self) -> dict[str, float]:
        """Returns what GFS would have changed so far."""
        self._so_far.still_waiting = len(self._planned)
        return asdict(self._so_far)

    def text(self) -> str:
        """Returns the same in a sentence."""
        told = self._so_far
        placed = told.same_node + told.other_node
        started = placed + told.kept_waiting + told.undecided
        return (
            f"shadow: of {started} pods that the other scheduler started, GFS would have"
            f" taken the same node for {told.same_node} and another for {told.other_node}, started"
            f" {told.earlier} earlier (by {told.earlier_seconds:.0f} s in all) and let"
            f" {told.kept_waiting} wait, and {told.undecided} were started before it decided; it would have evicted"
            f" {told.would_evict} pods ({told.would_evict_gpus:g} GPUs), and {len(self._planned)} wait that it would"
            " have started"
        )
