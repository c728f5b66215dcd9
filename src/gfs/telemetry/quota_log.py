"""The quota log: the spot quota and what led to it, at every tick (the `--quota` file)."""

from __future__ import annotations

import pyarrow as pa

from gfs.core.ports import Policy
from gfs.domain.units import MICRO

COLUMNS = ("time", "gpu_model", "guarantee_hours", "inventory", "eta", "quota", "spot_in_use", "idle")


class QuotaLog:
    """Notes the quota of every pool at every tick."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, str, float, float, float, float, float, int]] = []

    def note(self, now: float, policy: Policy) -> None:
        """One row per guarantee length of the pool's quota."""
        pool = policy.pool
        for row in policy.quota_rows():
            in_use = pool.spot_held(row.guarantee_hours) / MICRO
            self._rows.append((now, pool.gpu_model, *row, in_use, pool.idle))

    def table(self) -> pa.Table:
        """The log as a table."""
        columns = list(zip(*self._rows, strict=True)) or [()] * len(COLUMNS)
        types = [pa.float64(), pa.string(), *[pa.float64()] * 5, pa.int64()]
        return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=list(COLUMNS))
