"""What the parts of one pool's scheduler are made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from gfs.assembly.parameters import Parameters
from gfs.core.ledger import GuaranteeLedger
from gfs.core.pool import Pool
from gfs.core.ports import Observer
from gfs.forecasting.online import Stopwatch
from gfs.policies.gfs.keeper import KeptCards


@dataclass(frozen=True, slots=True)
class Context:
    """One pool, its books and the numbers a run was given."""

    pool: Pool
    ledger: GuaranteeLedger
    parameters: Parameters
    period: float
    """Seconds under evaluation: the T of the preemption cost."""
    guarantees: tuple[float, ...]
    """The guarantee lengths in hours that occur."""
    seed: int = 0
    """For parts that draw lots."""
    observers: list[Observer] = field(default_factory=list)
    """Parts add themselves here if they want to see what happens in the pool."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    """Where forecasters note the time they take."""
    kept: KeptCards = field(default_factory=KeptCards)
    """Where it is counted what keeping cards for tasks costs."""
