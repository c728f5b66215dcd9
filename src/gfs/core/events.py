"""What a driver tells the scheduler, simulated or live: typed events, handed over instant by instant.

Within one instant the order is fixed, whatever the order given: evicted runs that have left, runs that
ended or shrank, tasks withdrawn, nodes that changed, runs adopted, checkpoints, disruption rules, a model handed back,
the tick, arrivals; then one scheduling pass. An event about a run that is over, or about a task that is not there, says
nothing new and is passed over: a live cluster may well tell things late or twice. A run is known by the object that a
plan gave or that stands in the state (`PoolState.runs`, `leaving`): after a restart a driver takes it from there. That
a run has ended, or some of its pods, is told when these pods are gone, for their cards are given out at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, get_args

from msgspec import Struct

from gfs.core.run import Run
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task


class Finished(Struct, frozen=True, eq=False, gc=False):
    """A run has done its work."""

    run: Run


class Lost(Struct, frozen=True, eq=False, gc=False):
    """A run ended by no decision of ours: its node failed, somebody deleted its pods. Its task is queued again."""

    run: Run
    why: str = "its pods are gone"


class StartFailed(Struct, frozen=True, eq=False, gc=False):
    """A planned start did not come about: its task is put back as if it had not been tried."""

    run: Run


class PodsOn(NamedTuple):
    """Pods of one role of a task on one node."""

    node: str
    pods: int
    role: int = 0
    """Number of the role in the run's task as it is now; a task of equal pods has only role 0."""


class Shrunk(Struct, frozen=True, eq=False, gc=False):
    """Some pods of a run have ended and left their nodes; the run goes on with the others, as a smaller task.

    Pods beyond those that the run has on a node, and pods on nodes that are not there, are passed over. An event that
    names all pods of the run is ignored: that a run is over is said by `Finished` or `Lost`.
    """

    run: Run
    pods: Sequence[PodsOn]
    """Those that have left."""


class EvictionDone(Struct, frozen=True, eq=False, gc=False):
    """An evicted run has left its cards: its grace period is over."""

    run: Run


class Cancelled(Struct, frozen=True, eq=False, gc=False):
    """The owner of a task has withdrawn it, whether it waits or runs."""

    task: Task


class NodeChangeKind(Enum):
    """What can happen to a node."""

    ADDED = "added"
    REMOVED = "removed"
    FAILED = "failed"
    REPAIRED = "repaired"
    CORDONED = "cordoned"
    UNCORDONED = "uncordoned"
    RESIZED = "resized"
    """It has other cards, CPUs, memory or labels than before."""


class NodeChange(NamedTuple):
    """One node, and what happened to it."""

    kind: NodeChangeKind
    node: NodeSpec
    """Found by its name and GPU model; for a new or resized one, what it has now."""


class NodesChanged(Struct, frozen=True, eq=False, gc=False):
    """Nodes came, went, failed, were repaired, closed, opened or resized. Tell all of an instant in one event."""

    changes: Sequence[NodeChange]


class FoundRun(NamedTuple):
    """Pods of a task that run already, though nobody here started them: the scheduler was restarted."""

    task: Task
    pods: Sequence[PodsOn]
    start: float
    number: int = 1
    """1 for the first run of the task."""


class Adopted(Struct, frozen=True, eq=False, gc=False):
    """Runs were found that the state does not know: they are taken over. Tell all of an instant in one event."""

    runs: Sequence[FoundRun]


class CheckpointsSaved(Struct, frozen=True, eq=False, gc=False):
    """Runs said when they last saved their progress: that is what an eviction now would lose nothing of.

    The next checkpoint is expected an interval later. Tell all of an instant in one event.
    """

    saved: Sequence[tuple[Run, float]]


class DisruptionRules(Struct, frozen=True, eq=False, gc=False):
    """What to stop a run would mean outside. Tell all of it whenever it changes, of runs that are known."""

    protected: frozenset[Run]
    """Better left alone (a disruption budget): others go, as long as that makes room."""
    together: Mapping[Run, Sequence[Run]]
    """Run -> all that go if it goes, itself included; those that are not here go alone."""


class Trained(Struct, frozen=True, eq=False, gc=False):
    """A forecaster's fit is done (`ports.FitRequest`): the fitted model of a pool is handed back."""

    gpu_model: str
    model: Any
    """What the work gave: the pool's forecaster knows what it is."""
    asked_at: float
    """When it was asked for."""


class Tick(Struct, frozen=True, eq=False, gc=False):
    """The regular moment: quotas are reconsidered."""


class Submitted(Struct, frozen=True, eq=False, gc=False):
    """A task has been submitted."""

    task: Task


class Wake(Struct, frozen=True, eq=False, gc=False):
    """A moment that an earlier plan asked for has come."""


Event: TypeAlias = (
    EvictionDone
    | Finished
    | Lost
    | StartFailed
    | Shrunk
    | Cancelled
    | NodesChanged
    | Adopted
    | CheckpointsSaved
    | DisruptionRules
    | Trained
    | Tick
    | Submitted
    | Wake
)
"""In the order in which the events of one instant are taken."""

_ORDER: dict[type, int] = {kind: rank for rank, kind in enumerate(get_args(Event))}


_OF_RUNS = (Finished, Lost, StartFailed, Shrunk, EvictionDone)
_OF_TASKS = (Submitted, Cancelled)


def in_order(events: Sequence[Event]) -> list[Event]:
    """The events of one instant in the order of the time model; those of one kind by submission of their tasks.

    Changes of nodes stay as given: tell all of an instant in one event.
    """
    return sorted(events, key=_rank)


def _rank(event: Event) -> tuple[int, int]:
    rank = _ORDER[type(event)]
    if isinstance(event, _OF_RUNS):
        return rank, event.run.task.index
    return rank, event.task.index if isinstance(event, _OF_TASKS) else 0
