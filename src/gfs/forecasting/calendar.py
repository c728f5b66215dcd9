"""Public holidays, from the `holidays` package. Only where the history is dated and a country is given."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import numpy.typing as npt

from gfs.domain.errors import InputError
from gfs.forecasting.history import DAY_HOURS, DemandHistory, Ints


def holiday_hours(history: DemandHistory, hours: Ints, country: str) -> npt.NDArray[np.bool_]:
    """Whether each of these hours falls on a public holiday."""
    if not country or history.first_day is None or not len(hours):
        return np.zeros(len(hours), np.bool_)
    import holidays

    first, last = (history.first_day + timedelta(days=int(h) // DAY_HOURS) for h in (hours.min(), hours.max()))
    try:
        free = holidays.country_holidays(country, years=range(first.year, last.year + 1))
    except NotImplementedError:
        raise InputError(f"country {country!r}: no calendar of public holidays is known for it") from None
    days = np.array([(day - history.first_day).days for day in free], dtype=np.int64)
    found: npt.NDArray[np.bool_] = np.isin(hours // DAY_HOURS, days)
    return found
