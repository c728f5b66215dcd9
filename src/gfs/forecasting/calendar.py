"""Public holidays, from the `holidays` package. Only where the history is dated and a country is given."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache

import numpy as np
import numpy.typing as npt

from gfs.domain.errors import InputError
from gfs.forecasting.history import DAY_HOURS, DemandHistory, Ints


def holiday_hours(history: DemandHistory, hours: Ints, country: str) -> npt.NDArray[np.bool_]:
    """Whether each of these hours falls on a public holiday."""
    if not country or history.first_day is None or not len(hours):
        return np.zeros(len(hours), np.bool_)
    begin = history.first_day
    first, last = (begin + timedelta(days=int(h) // DAY_HOURS) for h in (hours.min(), hours.max()))
    free = [day for year in range(first.year, last.year + 1) for day in _holidays(country, year)]
    days = np.array([(day - begin).days for day in free], dtype=np.int64)
    found: npt.NDArray[np.bool_] = np.isin(hours // DAY_HOURS, days)
    return found


def check_country(country: str) -> None:
    """An error that says so if the holidays of a country are not known."""
    if country:
        _holidays(country, 2000)


@cache
def _holidays(country: str, year: int) -> tuple[date, ...]:
    import holidays

    try:
        return tuple(sorted(holidays.country_holidays(country, years=year)))
    except NotImplementedError:
        message = f"country {country!r}: no calendar of public holidays is known for it; use a code such as CN or DE"
        raise InputError(message) from None
