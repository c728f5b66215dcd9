"""The quotas of the last tick, one for each quota horizon, and the numbers that led to them.

A quota horizon is the length H of a guarantee, in hours, that a quota is computed for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, nan
from typing import Any, Protocol

from gfs.core.pool import Pool
from gfs.core.ports import ExpectedRoom, OrganizationDemand, Quota, QuotaRow
from gfs.domain.task import Task
from gfs.domain.units import HOUR, MICRO
from gfs.quota.inventory import DemandForecast


class DemandForecaster(Protocol):
    """Forecasts the HP demand of a pool."""

    def prepare(self, now: float) -> Callable[[], DemandForecast]:
        """HP demand from `now` on, by what is known now; made when it is called, which may be later or never."""
        ...

    def trained(self, model: Any, asked_at: float) -> None:
        """A fit that was asked for is done."""
        ...


@dataclass
class QuotaMemory:
    """What a quota remembers of its last tick."""

    rows: dict[float, QuotaRow] = field(default_factory=dict)
    """Guarantee hours -> the quota and what led to it, without the columns of the forecast."""
    forecast: DemandForecast | None = None
    now: float = 0.0
    pending: Callable[[], None] | None = field(default=None, init=False)
    """Works out the rows and the forecast of the last tick, if nobody has asked for them since."""

    def settle(self) -> None:
        """Have the rows and the forecast of the last tick worked out: at the latest when it is saved."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending()


class QuotaTable(Quota):
    """The quota of every horizon at the last tick."""

    def __init__(
        self, pool: Pool, forecaster: DemandForecaster, guarantees: Sequence[float], memory: QuotaMemory | None
    ) -> None:
        self._pool = pool
        self._forecaster = forecaster
        self.horizons = tuple(sorted(guarantees))
        self._memory = memory or QuotaMemory()
        self._memory.settle()  # by the nodes of the last tick
        self._rows = self._memory.rows
        self._later: dict[tuple[int, float], float] = {}
        """Hours from the last tick and guarantee hours -> GPUs that the forecast leaves then."""
        self._later_of = nan
        for hours in self._rows.keys() - set(guarantees):  # no longer on offer
            del self._rows[hours]

    def trained(self, model: Any, asked_at: float) -> None:
        """The fit that was asked for at `asked_at` is done."""
        self._forecaster.trained(model, asked_at)

    def limit(self, guarantee_hours: float) -> float:
        """Q_H of the last tick, 0 before the first one."""
        row = self.row(guarantee_hours)
        return row.quota if row is not None else 0.0

    def row(self, guarantee_hours: float) -> QuotaRow | None:
        """The quota of the last tick and what led to it."""
        if self._memory.pending is not None:
            self._memory.settle()
        return self._rows.get(guarantee_hours) or self._rows.get(self.horizon(guarantee_hours))

    def horizon(self, guarantee_hours: float) -> float:
        """The quota horizon that a guarantee counts as: the next longer one that there is, or the longest."""
        return next((hours for hours in self.horizons if hours >= guarantee_hours), self.horizons[-1])

    def rows(self) -> Sequence[QuotaRow]:
        """All quotas, with the columns of the forecast if one was made."""
        self._memory.settle()
        forecast, rows = self._memory.forecast, self._rows.values()
        return list(rows) if forecast is None else [_with_forecast(row, forecast) for row in rows]

    def organization_demand(self) -> Sequence[OrganizationDemand]:
        """The forecast by organization over the shortest horizon, hour by hour the highest."""
        forecast, hours = self._memory.forecast, ceil(self.horizons[0])
        if forecast is None or not forecast.organizations:
            return []
        expected, bound = forecast.mean[:, :hours].max(axis=1), forecast.upper[:, :hours].max(axis=1)
        rows = zip(forecast.organizations, expected.tolist(), bound.tolist(), strict=True)
        return [OrganizationDemand(*row) for row in rows]

    def expected_room(self, task: Task) -> ExpectedRoom | None:
        """When the forecast expects room for a task, if what other spot tasks hold stays as it is; None: unknown.

        Every quota that counts for it must have room then; how far that can be seen is the length of the forecast
        less the task's guarantee.
        """
        memory, own = self._memory, self.horizon(task.guarantee_hours)
        memory.settle()
        counted = [hours for hours in self.horizons if hours <= own]
        if memory.forecast is None or any(hours not in self._rows for hours in counted):
            return None
        if self._later_of != memory.now:
            self._later_of = memory.now
            self._later.clear()
        seen = memory.forecast.upper.shape[1] - ceil(own)
        for after in range(1, seen + 1):
            if all(self._room_later(after, h) >= self._pool.spot_held(h) / MICRO + task.gpus for h in counted):
                return ExpectedRoom(memory.now + after * HOUR, known=True)
        return ExpectedRoom(memory.now + seen * HOUR, known=False) if seen > 0 else None

    def _room_later(self, after: int, hours: float) -> float:
        """GPUs that the forecast leaves to spot tasks for `hours`, beginning `after` some hours."""
        if (after, hours) not in self._later:
            self._later[after, hours] = self._room(after, hours)
        return self._later[after, hours]

    @abstractmethod
    def _room(self, after: int, hours: float) -> float:
        """The same, worked out by the rule of the quota."""

    def _left(self, demand: float) -> float:
        """What a demand leaves of the pool."""
        return self._pool.capacity - min(self._pool.capacity, demand)


def _with_forecast(row: QuotaRow, forecast: DemandForecast) -> QuotaRow:
    """With the forecaster, the organization with the highest bound, and the expected peak."""
    hours = ceil(row.guarantee_hours)
    expected = float(forecast.mean[:, :hours].sum(axis=0).max(initial=0.0))
    return QuotaRow(*row[:7], forecast.forecaster, *highest_bound(forecast, hours), expected)


def highest_bound(forecast: DemandForecast, hours: int) -> tuple[str, float, int]:
    """Whose bound is highest within so many hours, that bound, and the hour when the sum of bounds is highest."""
    upper = forecast.upper[:, :hours]
    if not upper.size:
        return "", 0.0, 0
    peaks = upper.max(axis=1)
    first = int(peaks.argmax())
    return forecast.organizations[first], float(peaks[first]), int(upper.sum(axis=0).argmax()) + 1
