"""The table: for what the core knows of a task and what the API objects show of it, the events for the core
(docs/concepts/live-table.md). Every pair is here; a restart is the first row.
"""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """The phase of a task in the core."""

    UNKNOWN = "unknown"
    WAITING = "waiting"
    PLANNED = "planned"
    """The core has places for it; its pods are not all bound."""
    RUNNING = "running"


class Observed(Enum):
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


BOUND = (Observed.RUNS, Observed.FEWER, Observed.ELSEWHERE)

TABLE: dict[tuple[Phase, Observed], tuple[Step, ...]] = {
    (Phase.UNKNOWN, Observed.NONE): (),
    (Phase.UNKNOWN, Observed.WAITS): (Step.SUBMIT,),
    (Phase.UNKNOWN, Observed.CHANGED): (Step.SUBMIT,),
    **{(Phase.UNKNOWN, bound): (Step.ADOPT,) for bound in BOUND},
    (Phase.WAITING, Observed.NONE): (Step.CANCEL,),
    (Phase.WAITING, Observed.WAITS): (),
    (Phase.WAITING, Observed.CHANGED): (Step.CANCEL, Step.SUBMIT),
    **{(Phase.WAITING, bound): (Step.CANCEL, Step.ADOPT) for bound in BOUND},
    (Phase.PLANNED, Observed.NONE): (Step.FAIL, Step.CANCEL),
    (Phase.PLANNED, Observed.WAITS): (),
    (Phase.PLANNED, Observed.CHANGED): (Step.FAIL, Step.CANCEL, Step.SUBMIT),
    (Phase.PLANNED, Observed.RUNS): (Step.BEGIN,),
    (Phase.PLANNED, Observed.FEWER): (Step.FAIL, Step.CANCEL, Step.ADOPT),
    (Phase.PLANNED, Observed.ELSEWHERE): (Step.FAIL, Step.CANCEL, Step.ADOPT),
    (Phase.RUNNING, Observed.NONE): (Step.END,),
    (Phase.RUNNING, Observed.WAITS): (Step.END, Step.SUBMIT),
    (Phase.RUNNING, Observed.CHANGED): (Step.END, Step.SUBMIT),
    (Phase.RUNNING, Observed.RUNS): (),
    (Phase.RUNNING, Observed.FEWER): (Step.SHRINK,),
    (Phase.RUNNING, Observed.ELSEWHERE): (Step.CANCEL, Step.ADOPT),
}
