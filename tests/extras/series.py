"""Demand for tests of forecasters that learn."""

from __future__ import annotations

import numpy as np

from gfs.forecasting.history import DemandHistory, SeriesKey

DAY, WEEK = 24, 168


def daily(count: int = 3, hours: int = 4 * WEEK, seed: int = 0) -> DemandHistory:
    """A day's rhythm with a little noise, larger for later series."""
    random = np.random.default_rng(seed)
    wave = 2 + np.sin(2 * np.pi * np.arange(hours) / DAY)
    gpus = 20.0 * (1 + np.arange(count))[:, None] * (wave + 0.05 * random.standard_normal((count, hours)))
    keys = tuple(SeriesKey(f"org-{i}", "A100") for i in range(count))
    return DemandHistory(keys, np.maximum(gpus, 0), np.zeros(count, dtype=np.int64))
