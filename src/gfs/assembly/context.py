"""What the parts of one pool's scheduler are made from."""

from __future__ import annotations

from dataclasses import dataclass

from gfs.assembly.parameters import Parameters
from gfs.core.ledger import GuaranteeLedger
from gfs.core.pool import Pool


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
