"""The paper's neural baselines: they learn, say what the library says, and leave no traces."""

from __future__ import annotations

import logging
import math
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra baselines: make test-extras")
pytest.importorskip("neuralforecast", reason="needs the extra baselines: make test-extras")

import pandas as pd
import torch
from neuralforecast.tsdataset import TimeSeriesDataset
from scipy.special import stdtrit
from series import DAY, WEEK, daily

from gfs import InputError
from gfs.forecasting.baselines.networks import CALENDAR, Direct, Size
from gfs.forecasting.baselines.neural import (
    Cases,
    NeuralEstimator,
    NeuralPredictor,
    calendar_of,
    learned_scales,
    share_of_rate,
    standardised,
)
from gfs.forecasting.baselines.quantiles import LEVELS, changes
from gfs.forecasting.evaluation import roll
from gfs.forecasting.history import DemandHistory, Floats
from gfs.forecasting.naive import PERSISTENCE
from gfs.forecasting.registry import MODELS

NAMES = [name for name, model in MODELS.items() if model.extra == "baselines"]
WINDOW = 2 * DAY


def small(name: str, steps: int = 3) -> NeuralEstimator:
    estimator = MODELS[name].load(WINDOW)
    assert isinstance(estimator, NeuralEstimator)
    return replace(estimator, steps=steps)


def fitted(name: str, history: DemandHistory, steps: int = 3) -> NeuralPredictor:
    predictor = small(name, steps).fit(history)
    assert isinstance(predictor, NeuralPredictor)
    return predictor


def ask(predictor: NeuralPredictor, history: DemandHistory) -> tuple[Floats, Floats]:
    """What our path says, standardised."""
    own = predictor.estimator
    forecast: Any = predictor.predict(history, own.horizon)
    mean, spread = predictor.scales.of(history)
    return (forecast.middle - mean[:, None]) / spread[:, None], (forecast.quantiles - mean[:, None]) / spread[:, None]


def ask_library(predictor: NeuralPredictor, history: DemandHistory) -> Floats:
    """What neuralforecast's own `predict` says of the same data: series x hours x outputs."""
    own, module = predictor.estimator, predictor.module
    mean, spread = predictor.scales.of(history)
    values = standardised(history, mean, spread, history.end - own.window)
    hours = np.arange(history.end - own.window, history.end + own.horizon)
    calendar = calendar_of(history, hours)
    columns = ["y", *CALENDAR, "available_mask"]
    rows = []
    for series in values:
        demand = np.append(series, np.zeros(own.horizon))[:, None]
        rows.append(np.concatenate([demand, calendar, np.ones((len(hours), 1))], axis=1))
    pointers = np.arange(len(values) + 1) * len(hours)
    table = np.concatenate(rows).astype(np.float32)
    data = TimeSeriesDataset(table, pd.Index(columns), pointers, y_idx=0)
    module.trainer_kwargs.update(logger=False, enable_progress_bar=False, accelerator="cpu")
    module.set_test_size(own.horizon)
    return module.predict(data).reshape(len(values), own.horizon, -1)


@pytest.mark.parametrize("name", NAMES)
def test_the_direct_path_says_what_the_library_says(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # Lightning may write what it likes

    def evenly(high: int, size: tuple[int, ...], **_: Any) -> torch.Tensor:
        return torch.arange(math.prod(size)).reshape(size) % high

    known = daily()
    predictor = fitted(name, known.until(3 * WEEK), steps=10)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "randint", evenly)  # Informer samples keys, also when it is asked
        middle, grid = ask(predictor, known)
        said = ask_library(predictor, known)
    if isinstance(predictor.estimator.network, Direct):
        assert np.moveaxis(grid, 0, 2) == pytest.approx(np.sort(said, axis=2), abs=1e-4)
        return
    assert middle == pytest.approx(said[:, :, 0], abs=1e-4)
    # the first hour is drawn from the library's distribution itself: its spread is that of the drawn quantiles
    freedom, mean, width = said[:, 0, -3], said[:, 0, -2], said[:, 0, -1]
    for level, quantile in zip(LEVELS[1:-1], grid[1:-1, :, 0], strict=True):
        assert quantile == pytest.approx(mean + width * stdtrit(freedom, level), abs=0.05)


def test_bounds_of_deepar_widen_with_the_hours() -> None:
    known = daily()
    _, grid = ask(fitted("deepar", known, steps=60), known)
    width = grid[LEVELS.index(0.95)] - grid[LEVELS.index(0.05)]
    assert (width[:, -1] > width[:, 0]).all()


@pytest.mark.parametrize(("name", "steps"), [("dlinear", 500), ("deepar", 100), ("transformer", 300)])
def test_it_learns_a_daily_rhythm(name: str, steps: int) -> None:
    known = daily()
    quick = replace(small(name, steps), batch=16)
    learnt, last = (roll(estimator, known).scores().nmae for estimator in (quick, PERSISTENCE))
    assert learnt < 0.6 * last


@pytest.mark.parametrize("name", NAMES)
def test_more_training_fits_better(name: str) -> None:
    """The loss on what it was trained on falls."""
    known = daily(2, 2 * WEEK)
    size = Size(WINDOW, 4)
    cases = Cases(known, learned_scales(known), *size)
    values = cases.take(np.arange(0, len(cases), 7))
    losses = []
    for steps in (1, 60):
        predictor = fitted(name, known, steps)
        with torch.no_grad():
            losses.append(float(predictor.estimator.network.loss(predictor.module, size, *values)))
    assert losses[1] < losses[0]


def test_no_trace_of_it_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing on the disk, nothing on the terminal; random numbers, threads, log and environment as before."""
    monkeypatch.chdir(tmp_path)
    known = daily(2, WEEK)

    def state() -> tuple[object, ...]:
        numpy = np.random.get_state()[1]
        assert isinstance(numpy, np.ndarray)
        torch_state = torch.get_rng_state().numpy().tobytes()
        seeds = {name: value for name, value in os.environ.items() if "SEED" in name}
        level = logging.root.manager.disable
        return random.getstate(), numpy.tobytes(), torch_state, torch.get_num_threads(), seeds, level

    before = state()
    for name in NAMES:
        fitted(name, known, steps=1).predict(known, 4).quantile(0.9)
    assert state() == before
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", NAMES)
def test_what_ran_before_does_not_matter(name: str) -> None:
    known = daily(2, 2 * WEEK)
    first = fitted(name, known).predict(known, 4).quantile(0.9)
    torch.manual_seed(123)
    np.random.seed(321)
    torch.rand(7)
    assert (fitted(name, known).predict(known, 4).quantile(0.9) == first).all()


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_is_another_network(name: str) -> None:
    known = daily(2, 2 * WEEK)
    one = fitted(name, known).predict(known, 4).mean()
    other = replace(small(name), seed=1).fit(known).predict(known, 4).mean()
    assert (one != other).any()


@pytest.mark.parametrize("name", NAMES)
def test_a_window_shorter_than_a_day_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"window = 23: {name} needs at least 24 hours"):
        MODELS[name].load(23)


def test_a_series_that_wakes_up_after_the_fitting_gets_a_scale_of_its_own() -> None:
    known = daily(2)
    gpus = known.gpus.copy()
    gpus[1, : 3 * WEEK] = 0.0
    later = replace(known, gpus=gpus)
    predictor = fitted("dlinear", later.until(3 * WEEK))
    assert list(changes(later.until(3 * WEEK))) == [True, False]
    assert set(predictor.scales.of_key) == {known.keys[0]}
    asleep = predictor.predict(later.until(3 * WEEK), 4)
    assert (asleep.quantile(0.99)[1] == 0).all()
    assert changes(later).all()
    _, spread = predictor.scales.of(later)
    assert spread[1] == pytest.approx(gpus[1].std())


def test_the_learning_rate_rises_and_falls() -> None:
    # 5% of the steps: all of it, less what the cosine has taken: (1 + cos(0.05 pi)) / 2 = 0.994
    assert share_of_rate(0.025) == pytest.approx(0.5 * (1 + math.cos(0.025 * math.pi)) / 2)
    assert share_of_rate(0.05) == pytest.approx(0.994, abs=1e-3)
    assert share_of_rate(0.5) == pytest.approx(0.5)
    assert share_of_rate(1.0) == 0.0


def test_cases_are_windows_with_the_hours_after_them() -> None:
    # Demand 0, 1, 2, ... of 40 hours has mean 19.5. The first case begins 24 h after the first record.
    hours = np.arange(40.0)[None, :]
    known = DemandHistory(daily(1).keys, hours, np.zeros(1, dtype=np.int64))
    scales = learned_scales(known)
    mean, spread = scales.of_key[known.keys[0]]
    assert mean == 19.5
    cases = Cases(known, scales, 30, 4)
    assert len(cases) == 40 - 4 - 24 + 1
    values, calendar = cases.take(np.array([0]))
    # 6 hours before the first record count as the first value, then 0 to 23, then 24 to 27 to forecast
    assert values[0] * spread + mean == pytest.approx([*[0.0] * 6, *np.arange(28.0)], abs=1e-4)
    assert calendar.shape == (1, 34, len(CALENDAR))
    assert calendar[0, 6] == pytest.approx([0, 1, 0, 1], abs=1e-6)  # hour 0 is midnight of a Monday


def test_the_rest_of_the_program_needs_no_torch() -> None:
    code = "import sys, gfs, gfs.forecasting.registry; assert not {'torch', 'neuralforecast'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
