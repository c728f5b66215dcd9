"""`orgquantile`: fit, then forecast from any history, cheaply when it is the last one grown by an hour."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gfs.forecasting.history import WEEK_HOURS, DemandHistory, Floats
from gfs.forecasting.orgquantile.bands import Mixture, held_out_scores
from gfs.forecasting.orgquantile.calibration import curve_of
from gfs.forecasting.orgquantile.features import LOOK_BACK, padded
from gfs.forecasting.orgquantile.gate import Gate
from gfs.forecasting.orgquantile.model import Coefficients, Training, fit_coefficients
from gfs.forecasting.orgquantile.outcome import Curves, OrgQuantileForecast
from gfs.forecasting.orgquantile.rise import Rises, rises_of, shifted
from gfs.forecasting.orgquantile.tables import Tables
from gfs.forecasting.orgquantile.track import COMPARED, KEPT, Track, replay_hours
from gfs.forecasting.orgquantile.window import Window

LARGEST_HELD_OUT = 0.3
"""Share of the history: so much at most is kept from the model that the fitting itself is judged by."""
YOUNG_HOURS = WEEK_HOURS
"""A series with fewer hours is new."""


@dataclass(frozen=True, slots=True)
class OrgQuantileEstimator:
    """Fits twice: on everything, for the hours to come; and without the last weeks, to know how such a fit does
    on hours it has not seen. Bounds of the first hours after fitting are calibrated on the second."""

    horizon: int = 4
    """Hours ahead that are fitted; a forecast may ask for more."""
    training: Training = field(default_factory=Training)
    gate: Gate = field(default_factory=Gate)
    name: str = "orgquantile"

    def fit(self, history: DemandHistory) -> OrgQuantilePredictor:
        """Learn from the history."""
        held_out = min(KEPT + COMPARED, 1 + int(LARGEST_HELD_OUT * history.hours))
        cut = history.end - held_out
        tables = Tables(history, self.horizon, self.training.rows_of_each(len(history.keys)))
        rehearsal, final = fit_coefficients(tables, [cut, history.end], self.training)
        hours, top = held_out_scores(tables, rehearsal.hourly, cut)
        curves = Curves(curve_of(hours), curve_of(top))
        return OrgQuantilePredictor(self, rehearsal, final, history.end, curves, rises_of(history, self.horizon))


class OrgQuantilePredictor:
    """The fitted coefficients, and a track of past forecasts that is kept while histories continue one another.

    Forecasts of hours before the end of fitting, needed for their scores, are made by the model that did not see
    them. What was asked before changes how long a forecast takes, never what it says.
    """

    def __init__(
        self,
        estimator: OrgQuantileEstimator,
        rehearsal: Coefficients,
        final: Coefficients,
        fitted_until: int,
        curves: Curves,
        rises: Rises,
    ) -> None:
        self._estimator = estimator
        self._rehearsal, self._final = rehearsal, final
        self._fitted_until = fitted_until
        self._curves, self._rises = curves, rises
        self._seen: DemandHistory | None = None
        self._hours: Window
        self._reach = LOOK_BACK + replay_hours(estimator.horizon)

    def predict(self, history: DemandHistory, hours: int) -> OrgQuantileForecast:
        """Forecast the hours after the history."""
        self._follow(history)
        track, bands = self._track, self._track.bands()
        if hours <= track.horizon:
            bands = bands.first(hours)
        else:
            bands = self._mixture(history.end).bands(track.known(self._window), history.end, history, hours)
        unsettled = (history.hours - history.first < YOUNG_HOURS) | shifted(self._window, track.alarmed)
        return OrgQuantileForecast(
            history.keys,
            bands,
            track.scores,
            track.peaks,
            track.furthest,
            track.past(),
            self._curves,
            self._rises_of_series,
            unsettled,
        )

    def _mixture(self, hour: int) -> Mixture:
        return self._later if hour >= self._fitted_until else self._earlier

    def _follow(self, history: DemandHistory) -> None:
        """Bring the track to the end of the history, from where it stands if that is part of it."""
        horizon = self._estimator.horizon
        seen = self._seen
        if seen is not None and _continues(seen, history, self._reach):
            if (history.start + history.first >= seen.end).any():  # a first record fills the hours before it
                self._replay(history, seen.end + 1)
            else:
                for hour in range(seen.end + 1, history.end + 1):
                    self._hours.append(history.gpus[:, hour - 1 - history.start])
                    self._advance(history, hour)
        else:
            gate = self._estimator.gate
            self._earlier = Mixture.of(self._rehearsal, history.keys, gate)
            self._later = Mixture.of(self._final, history.keys, gate)
            self._rises_of_series = self._rises.of(history.keys)
            self._track = Track(len(history.keys), horizon)
            self._replay(history, min(max(history.start + 1, history.end - replay_hours(horizon)), history.end))
        self._seen = history

    def _replay(self, history: DemandHistory, begin: int) -> None:
        """One origin after the other, from the hour `begin` on."""
        if begin > history.end:
            return
        known = padded(history, begin - LOOK_BACK).T
        self._hours = Window(known[:LOOK_BACK])
        self._advance(history, begin)
        for hour in range(begin + 1, history.end + 1):
            self._hours.append(known[hour - begin + LOOK_BACK - 1])
            self._advance(history, hour)

    def _advance(self, history: DemandHistory, hour: int) -> None:
        """To the origin at this hour, with the hours before it."""
        self._window = self._hours.block
        column = hour - 1 - history.start
        value = history.gpus[:, column] if column >= 0 else np.zeros(len(history.keys))
        self._track.advance(self._mixture(hour), self._window, value, hour, history)


def _continues(seen: DemandHistory, history: DemandHistory, reach: int) -> bool:
    """Whether the history is what was seen, with as many hours or more: the same in all that can still count."""
    since = max(seen.end - reach, seen.start)
    if seen.keys != history.keys or seen.first_day != history.first_day:
        return False
    if not since <= seen.end <= history.end <= seen.end + reach:
        return False
    if seen.start != history.start and max(seen.start, history.start) > seen.end - reach:
        return False
    if not np.array_equal(np.maximum(seen.first + seen.start, since), np.maximum(history.first + history.start, since)):
        return False
    before = seen.gpus[:, since - seen.start :]
    now = history.gpus[:, since - history.start : seen.end - history.start]
    return _same_memory(before, now) or np.array_equal(before, now)


def _same_memory(one: Floats, other: Floats) -> bool:
    """Whether both are views of the same numbers, as the parts of one history are."""
    where, there = one.__array_interface__, other.__array_interface__
    return bool(where["data"] == there["data"] and one.strides == other.strides and one.shape == other.shape)
