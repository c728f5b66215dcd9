"""The spot quota of a cluster that another scheduler runs: the numbers of the core, and their sentence."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from builders import nodes
from gfs.assembly.outside import QuotaForecaster
from gfs.assembly.parameters import Parameters
from gfs.domain.errors import InputError
from gfs.forecasting import registry
from gfs.forecasting.forecast import Predictor
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.forecasting.naive import WEEKLY_PEAK
from gfs.forecasting.past import PastDemand
from gfs.forecasting.registry import Model, find_model

WEEKS = 2 * 168
FITS: list[int] = []


class Counted:
    name = "counted"

    def fit(self, history: DemandHistory) -> Predictor:
        FITS.append(history.hours)
        return WEEKLY_PEAK.fit(history)


def history(**series: np.ndarray) -> DemandHistory:
    """Hourly demand on A100 from Monday 2026-05-04 on."""
    rows = np.array(list(series.values()), dtype=float)
    keys = tuple(SeriesKey(name, "A100") for name in series)
    return DemandHistory(keys, rows, np.zeros(len(keys), np.int64), 0, date(2026, 5, 4))


def flat(*levels: float, hours: int = WEEKS) -> PastDemand:
    names = "abcdef"
    return PastDemand.of_history(history(**{names[i]: np.full(hours, level) for i, level in enumerate(levels)}))


def forecaster(hours: float = 1.0, **settings: object) -> QuotaForecaster:
    return QuotaForecaster(Parameters().changed({"forecaster": "weekly-peak", **settings}), hours)


def test_what_the_peaks_leave_of_the_pool() -> None:
    """Two organizations of 30 and 20 GPUs on 8 x 8: 64 - 50 = 14."""
    (quota,) = forecaster().quota(nodes(*[8] * 8), flat(30, 20), dated=True)
    assert (quota.gpu_model, quota.capacity, quota.demand, quota.gpus) == ("A100", 64, 50, 14)
    assert quota.text() == "A100: forecast peak 50 of 64 GPUs at 00:00 UTC, p 0.9: 14 GPUs for spot for 1 h"


def test_more_demand_than_gpus_leaves_nothing_and_parts_are_rounded_down() -> None:
    (over,) = forecaster().quota(nodes(*[8] * 8), flat(50, 20), dated=True)
    assert over.text().endswith("forecast peak 70 of 64 GPUs at 00:00 UTC, p 0.9: no GPU for spot for 1 h")
    (part,) = forecaster().quota(nodes(*[8] * 8), flat(30.5, 20), dated=True)
    assert (part.demand, part.gpus) == (51, 13), "64 - 50.5 = 13.5"
    (one,) = forecaster(4.0, p=0.95).quota(nodes(*[8] * 8), flat(63), dated=False)
    assert one.text() == "A100: forecast peak 63 of 64 GPUs at 00:00, p 0.95: 1 GPU for spot for 4 h"


def test_the_bounds_are_those_of_the_forecaster() -> None:
    """Worked out beside it: sum over organizations of the highest 0.9-quantile of the next four hours."""
    random = np.random.default_rng(0)
    day = 20 + 10 * np.sin(np.arange(WEEKS) * 2 * np.pi / 24)
    known = history(a=day + random.uniform(0, 4, WEEKS), b=random.uniform(0, 12, WEEKS).round())
    settings = {"forecaster": "orgquantile"}
    (quota,) = forecaster(4.0, **settings).quota(nodes(*[8] * 16), PastDemand.of_history(known), dated=True)
    predicted = find_model("orgquantile").load().fit(known).predict(known, 4)
    expected = predicted.quantile(0.9).max(axis=1).sum()
    assert quota.row.demand == pytest.approx(expected, rel=1e-6)
    assert quota.gpus == int(128 - expected)
    (independent,) = forecaster(4.0, **settings, aggregate="independent").quota(
        nodes(*[8] * 16), PastDemand.of_history(known), dated=True
    )
    assert independent.gpus > quota.gpus, "organizations whose peaks do not meet leave more"


def test_pools_stand_apart_and_one_without_demand_is_all_for_spot() -> None:
    machines = [*nodes(*[8] * 8), *nodes(8, 8, model="H800", prefix="h", first=8)]
    quotas = forecaster().quota(machines, flat(30, 20), dated=True)
    assert [(quota.gpu_model, quota.gpus) for quota in quotas] == [("A100", 14), ("H800", 16)]


def test_demand_for_a_model_without_nodes_is_a_slip() -> None:
    with pytest.raises(InputError, match=r"demand for GPU model A100, of which there is no node .nodes have H800"):
        forecaster().quota(nodes(*[8] * 8, model="H800"), flat(30), dated=True)


def test_less_than_a_day_is_forecast_with_caution_and_says_so() -> None:
    """Of five hours the highest: 40, although the last one wants 8."""
    known = history(a=np.array([8.0, 40, 8, 8, 8]))
    (quota,) = forecaster().quota(nodes(*[8] * 8), PastDemand.of_history(known), dated=True)
    assert "forecast peak 40 of 64 GPUs at 05:00 UTC, p 0.9 (cautious: less than a day of demand is known): 24" in (
        quota.text()
    )


def test_a_fitted_model_is_kept_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.MODELS, "counted", Model("counted", "", f"{__name__}:Counted"))
    FITS.clear()
    work = forecaster(forecaster="counted", retrain_hours=24.0)
    for hours in (48, 49, 71, 72):
        (quota,) = work.quota(nodes(*[8] * 8), flat(30, hours=hours), dated=True)
        assert quota.gpus == 34
    assert FITS == [48, 72]
