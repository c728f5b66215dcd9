"""What the parts of one pool's scheduler are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gfs.assembly.parameters import Parameters
from gfs.core.pool import Pool
from gfs.core.ports import Quota, Train, train_at_once
from gfs.core.state import PoolState
from gfs.forecasting.forecast import Estimator
from gfs.forecasting.online import PoolForecasters, Stopwatch
from gfs.forecasting.perfect import FutureDemand
from gfs.policies.gfs.reservation import ReservationCost


class QuotaDefinition(Protocol):
    """A quota of your own."""

    @property
    def name(self) -> str:
        """What it is called, in results and after `--set quota=`."""

    @property
    def summary(self) -> str:
        """What it does, in a line."""

    def build(self, context: Context) -> Quota:
        """The quota of one pool, from its state: called again whenever its nodes have changed."""


@dataclass(frozen=True, slots=True)
class Context:
    """The state of one pool, and the numbers a run was given. No tasks, no durations."""

    state: PoolState
    parameters: Parameters
    period: float
    """Seconds under evaluation: the T of the preemption cost."""
    guarantees: tuple[float, ...]
    """The guarantees on offer, in hours."""
    seed: int = 0
    """Of parts with random choices."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    """Where forecasters note the time they take."""
    reservation_cost: ReservationCost = field(default_factory=ReservationCost)
    """Where it is counted what reserving nodes for tasks costs."""
    tell_alternatives: bool = False
    """Whether evictions are to say what else was weighed."""
    foresight: Mapping[str, FutureDemand] | None = None
    """HP demand as it will be, by GPU model: for `forecaster=perfect` in a simulation, and for nothing else."""
    train: Train = train_at_once
    """Who runs a forecaster's fit, and when."""
    forecasters: PoolForecasters = field(default_factory=PoolForecasters)
    """Of all pools."""
    own_quota: QuotaDefinition | None = None
    """A quota that was given as an object: in place of the one that the parameters name."""
    own_forecaster: Estimator | None = None
    """A forecaster that was given as an object: in place of the one that the parameters name."""

    @property
    def pool(self) -> Pool:
        """What is held on the nodes."""
        return self.state.pool
