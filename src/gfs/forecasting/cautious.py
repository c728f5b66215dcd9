"""A forecast for the first days, when there is too little to learn from: rather too much than too little."""

from __future__ import annotations

import numpy as np

from gfs.forecasting.history import DAY_HOURS, DemandHistory, Floats

CAUTIOUS = "cautious"
"""What it is called in logs."""


def cautious_bounds(history: DemandHistory, hours: int, p: float) -> Floats:
    """Series x hours: what demand stayed at or below in a share p of the last day's hours, but not below the last.

    Of few hours it is the highest.
    """
    day = history.gpus[:, -DAY_HOURS:]
    usual = np.quantile(day, p, axis=1, method="higher")
    return np.repeat(np.maximum(usual, day[:, -1])[:, None], hours, axis=1)
