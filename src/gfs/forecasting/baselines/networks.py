"""The networks of neuralforecast: how each is built, its loss and its forecast.

They are called directly instead of through the library's trainer and data frames, which take far longer than the
networks themselves. Values are standardised, so the library's own scaling is the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from neuralforecast.losses.pytorch import DistributionLoss, MQLoss
from scipy.special import stdtrit

from gfs.forecasting.baselines.quantiles import LEVELS, MIDDLE, extended
from gfs.forecasting.history import Floats

Singles = npt.NDArray[np.float32]

CALENDAR = ("day_sin", "day_cos", "week_sin", "week_cos")
"""What a network is given of every hour, those to forecast too."""
LOC, SCALE = torch.zeros(1), torch.ones(1)
"""The identity, in the library's terms."""


class Size(NamedTuple):
    """Hours in and hours out."""

    window: int
    horizon: int


@dataclass(frozen=True, slots=True)
class Direct:
    """Predicts all hours at once, at all LEVELS; trained with the pinball loss of these."""

    make: Callable[..., Any]
    """The library's class, with its settings."""
    calendar: bool = True
    """Whether it can be given the calendar."""

    def build(self, size: Size, seed: int) -> Any:
        """One with random weights."""
        loss = MQLoss(quantiles=list(LEVELS))
        extra = {"futr_exog_list": list(CALENDAR)} if self.calendar else {}
        return self.make(h=size.horizon, input_size=size.window, loss=loss, valid_loss=loss, random_seed=seed, **extra)

    def loss(self, module: Any, size: Size, values: Singles, calendar: Singles) -> Any:
        """Pinball loss of the hours after the window."""
        predicted = self._predicted(module, values[:, : size.window], calendar)
        return module.loss(y=_column(values[:, size.window :]), y_hat=predicted)

    def predict(self, module: Any, size: Size, values: Singles, calendar: Singles, hours: int) -> tuple[Floats, Floats]:
        """Levels in their order, should the network have crossed them."""
        predicted = self._predicted(module, values, calendar[:, : size.window + size.horizon])
        quantiles = np.sort(np.moveaxis(predicted[:, :, 0].numpy().astype(np.float64), 2, 0), axis=0)
        return extended(quantiles[MIDDLE], quantiles, hours)

    def _predicted(self, module: Any, window: Singles, calendar: Singles) -> Any:
        return module.loss.domain_map(module(_batch(window, calendar if self.calendar else None)))


@dataclass(frozen=True, slots=True)
class Recurrent:
    """DeepAR: predicts the next hour, as Student's t, and goes on from the actual value or, in a forecast, from a draw.

    The library goes on from the mean alone, so that its bounds do not widen; the paper of DeepAR draws, and so do
    we. One path more, without chance, gives the middle, which is the library's.
    """

    make: Callable[..., Any]
    paths: int = 200

    def build(self, size: Size, seed: int) -> Any:
        """One with random weights. The library counts one hour less: what the first value is predicted from."""
        return self.make(
            h=size.horizon,
            input_size=size.window - 1,
            loss=DistributionLoss("StudentT", return_params=True),
            futr_exog_list=list(CALENDAR),
            random_seed=seed,
        )

    def loss(self, module: Any, size: Size, values: Singles, calendar: Singles) -> Any:
        """Log likelihood of the hours that have half a window or more before them."""
        judged = size.window // 2 + size.horizon
        module.h = judged  # the network gives its last h hours
        predicted = module.loss.domain_map(module(_batch(values[:, :-1], calendar[:, 1:])))
        module.h = size.horizon
        return module.loss(y=_column(values[:, -judged:]), distr_args=_parameters(module, predicted))

    def predict(self, module: Any, size: Size, values: Singles, calendar: Singles, hours: int) -> tuple[Floats, Floats]:
        """The same draws for every series, spread evenly over all probabilities."""
        random = np.random.default_rng(0)
        draws = [np.append(0.5, (random.permutation(self.paths) + 0.5) / self.paths) for _ in range(hours)]
        module.h, module.maintain_state, module.rnn_state = 1, True, None
        predicted = module(_batch(values, calendar[:, 1 : size.window + 1]))
        series, each = len(values), self.paths + 1
        predicted = predicted.repeat_interleave(each, dim=0)
        module.rnn_state = tuple(state.repeat_interleave(each, dim=1) for state in module.rnn_state)
        drawn = np.empty((hours, series, each))
        for hour, draw in enumerate(draws):
            if hour:
                known = calendar[:, size.window + hour : size.window + hour + 1].repeat(each, axis=0)
                predicted = module(_batch(drawn[hour - 1].reshape(-1, 1).astype(np.float32), known))
            freedom, mean, width = (
                part.numpy().reshape(series, each).astype(np.float64)
                for part in _parameters(module, module.loss.domain_map(predicted))
            )
            drawn[hour] = mean + width * stdtrit(freedom, draw)
        module.h, module.maintain_state, module.rnn_state = size.horizon, False, None
        quantiles = np.quantile(drawn[:, :, 1:], LEVELS, axis=2)
        return drawn[:, :, 0].T, quantiles.swapaxes(1, 2)


def _batch(values: Singles, calendar: Singles | None) -> dict[str, Any]:
    known = None if calendar is None else torch.from_numpy(np.ascontiguousarray(calendar))
    return {"insample_y": _column(values), "futr_exog": known, "hist_exog": None, "stat_exog": None}


def _column(values: Singles) -> Any:
    return torch.from_numpy(np.ascontiguousarray(values))[:, :, None]


def _parameters(module: Any, predicted: Any) -> Any:
    return module.loss.scale_decouple(predicted, loc=LOC, scale=SCALE)
