"""Demand of the time before: steps to hours and back, and the file between."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from gfs.domain.errors import InputError
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.forecasting.past import PastDemand
from gfs.workloads.readers.demand import read_demand
from gfs.workloads.writer import write_demand

DAY = 288
"""Steps of five minutes."""


def test_hours_are_the_maxima_of_whole_clock_hours() -> None:
    """38 steps from 22:50 to 2:00 on: of 22:50 to 23:00 and of 2:00 no full hour is known."""
    begin = 20_000 * DAY - 14  # 22:50 of the day before
    gpus = np.zeros(38 + 1)
    gpus[1] = 99  # 22:55
    gpus[2] = 3  # 23:00
    gpus[13] = 5  # 23:55
    gpus[26] = 7  # 1:00
    gpus[38] = 98  # 2:00
    past = PastDemand({"A100": {"lab": gpus, "silent": np.zeros(39)}}, begin + 39)
    history = past.history()
    assert history.keys == (SeriesKey("lab", "A100"),)
    assert history.gpus.tolist() == [[5, 0, 7]]
    assert (history.start, history.first_day) == (23, date(2024, 10, 3))
    assert history.first.tolist() == [0]


def test_a_file_brings_back_the_same_hours(tmp_path: Path) -> None:
    begin = 20_000 * DAY
    early, late = np.repeat([4.0, 0.0, 2.5], 12), np.repeat([0.0, 8.0, 8.0], 12)
    past = PastDemand({"A100": {"lab": early}, "H800": {"=shop, web": late}}, begin + 36)
    write_demand(past.history(), tmp_path / "demand.csv")
    lines = (tmp_path / "demand.csv").read_text().splitlines()
    assert lines[0] == "time,organization,gpu_model,gpus"
    assert len(lines) == 1 + 3 + 2, "the late one begins with its first demand"
    history = read_demand(tmp_path / "demand.csv").history
    rows = dict(zip(history.keys, history.gpus.tolist(), strict=True))
    assert rows[SeriesKey("lab", "A100")] == [4, 0, 2.5]
    assert [row for key, row in rows.items() if key.gpu_model == "H800"] == [[0, 8, 8]]
    assert history.first_day == date(2024, 10, 4)
    again = PastDemand.of_history(history)
    assert again.end == past.end
    assert again.pools["A100"]["lab"].tolist() == early.tolist()


def test_nothing_is_no_file(tmp_path: Path) -> None:
    nothing = DemandHistory((), np.zeros((0, 5)), np.zeros(0, np.int64))
    with pytest.raises(InputError, match="no demand to write"):
        write_demand(nothing, tmp_path / "demand.csv")
