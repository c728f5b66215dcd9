"""The quota log: the spot quota and what led to it, at every tick (the `--quota` file)."""

from __future__ import annotations

from math import isnan

import pyarrow as pa

from gfs.core.ports import Policy
from gfs.core.state import PoolState
from gfs.domain.units import MICRO

SCHEMA = pa.schema(
    [
        ("time", pa.float64()),
        ("gpu_model", pa.string()),
        ("guarantee_hours", pa.float64()),
        ("inventory", pa.float64()),
        ("eta", pa.float64()),
        ("quota", pa.float64()),
        ("spot_in_use", pa.float64()),
        ("idle", pa.int64()),
        ("demand", pa.float64()),
        ("eviction_rate", pa.float64()),
        ("longest_wait", pa.float64()),
        ("forecaster", pa.string()),
        ("organization", pa.string()),
        ("organization_demand", pa.float64()),
        ("peak_hour", pa.int64()),
        ("expected_demand", pa.float64()),
    ]
)


class QuotaLog:
    """Notes the quota of every pool at every tick."""

    def __init__(self) -> None:
        self._rows: list[tuple[float | str | None, ...]] = []

    def note(self, now: float, state: PoolState, policy: Policy) -> None:
        """One row per guarantee length of the pool's quota."""
        pool = state.pool
        for row in policy.quota.rows():
            in_use = pool.spot_held(row.guarantee_hours) / MICRO
            *quota, demand, rate, wait, forecaster, organization, peak, hour, expected = row
            happened = (None,) * 3 if isnan(rate) else (demand, rate, wait)
            ahead = (forecaster, organization, peak, hour, expected) if forecaster else (None,) * 5
            self._rows.append((now, pool.gpu_model, *quota, in_use, pool.idle, *happened, *ahead))

    def table(self) -> pa.Table:
        """The log as a table."""
        columns = list(zip(*self._rows, strict=True)) or [()] * len(SCHEMA)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
