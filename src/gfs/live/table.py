"""The table: for what the core knows of a task and what the API objects show of it, the events for the core
(docs/concepts/live-table.md). Every pair is here; a restart is the first row.
"""

from __future__ import annotations

from enum import Enum


class Told(Enum):
    """What the core knows of a task."""

    NOTHING = "nothing"
    WAITING = "it waits"
    PLANNED = "it is planned"
    """The core has places for it; its pods are not all bound."""
    RUNNING = "it runs"


class Sight(Enum):
    """What the API objects show of a task, compared with what the core knows."""

    NONE = "no pods"
    """No pods that are bound, and not enough that wait."""
    WAITS = "pods that wait"
    """As the core knows them, if it does. Of a plan: its pods wait or are being bound."""
    CHANGED = "other pods wait"
    """They ask for something else than the core knows, or are others, more or fewer."""
    RUNS = "its pods are bound"
    """Where the core has them."""
    FEWER = "fewer pods are bound"
    """The others are where the core has them."""
    ELSEWHERE = "other pods are bound"
    """There are more than the core knows, or they are on other nodes."""


class Step(Enum):
    """An event for the core."""

    SUBMIT = "Submitted"
    ADOPT = "Adopted"
    CANCEL = "Cancelled"
    FAIL = "StartFailed"
    BEGIN = "nothing: its run has begun"
    SHRINK = "Shrunk"
    END = "Finished, or Lost and Cancelled"


BOUND = (Sight.RUNS, Sight.FEWER, Sight.ELSEWHERE)

TABLE: dict[tuple[Told, Sight], tuple[Step, ...]] = {
    (Told.NOTHING, Sight.NONE): (),
    (Told.NOTHING, Sight.WAITS): (Step.SUBMIT,),
    (Told.NOTHING, Sight.CHANGED): (Step.SUBMIT,),
    **{(Told.NOTHING, bound): (Step.ADOPT,) for bound in BOUND},
    (Told.WAITING, Sight.NONE): (Step.CANCEL,),
    (Told.WAITING, Sight.WAITS): (),
    (Told.WAITING, Sight.CHANGED): (Step.CANCEL, Step.SUBMIT),
    **{(Told.WAITING, bound): (Step.CANCEL, Step.ADOPT) for bound in BOUND},
    (Told.PLANNED, Sight.NONE): (Step.FAIL, Step.CANCEL),
    (Told.PLANNED, Sight.WAITS): (),
    (Told.PLANNED, Sight.CHANGED): (Step.FAIL, Step.CANCEL, Step.SUBMIT),
    (Told.PLANNED, Sight.RUNS): (Step.BEGIN,),
    (Told.PLANNED, Sight.FEWER): (Step.FAIL, Step.CANCEL, Step.ADOPT),
    (Told.PLANNED, Sight.ELSEWHERE): (Step.FAIL, Step.CANCEL, Step.ADOPT),
    (Told.RUNNING, Sight.NONE): (Step.END,),
    (Told.RUNNING, Sight.WAITS): (Step.END, Step.SUBMIT),
    (Told.RUNNING, Sight.CHANGED): (Step.END, Step.SUBMIT),
    (Told.RUNNING, Sight.RUNS): (),
    (Told.RUNNING, Sight.FEWER): (Step.SHRINK,),
    (Told.RUNNING, Sight.ELSEWHERE): (Step.CANCEL, Step.ADOPT),
}
