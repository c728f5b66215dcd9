"""Hourly maxima against a slow and plain count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gfs.domain.units import HOUR, MICRO
from gfs.forecasting.history import SeriesKey
from gfs.forecasting.sources import Spans, history_of_spans

QUARTERS = st.integers(0, 30)
TASKS = st.lists(st.tuples(st.integers(0, 2), QUARTERS, st.integers(0, 20), st.integers(1, 8)), min_size=1)
"""(series, begin, length, GPUs), times in quarters of an hour so that many coincide."""


@given(TASKS, st.integers(0, 10), st.integers(1, 40))
def test_hourly_maxima(tasks: list[tuple[int, int, int, int]], since: int, length: int) -> None:
    series, begin, lasting, gpus = (np.asarray(column) for column in zip(*tasks, strict=True))
    spans = Spans(series, begin * HOUR / 4, (begin + lasting) * HOUR / 4, gpus * MICRO)
    keys = [SeriesKey("o", str(i)) for i in range(3)]
    found = history_of_spans(keys, spans, since * HOUR / 4, (since + length) * HOUR / 4)
    assert found.hours == max((since + length) // 4 - since // 4, 1)
    for row in range(3):
        for hour in range(found.hours):
            quarters = range(4 * (found.start + hour), 4 * (found.start + hour) + 4)
            at_once = [sum(g for s, b, n, g in tasks if s == row and b <= q < b + n) for q in quarters]
            assert found.gpus[row, hour] == max(at_once)
