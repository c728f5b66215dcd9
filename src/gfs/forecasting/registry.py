"""The forecasters by name, ours and those of installed distributions. Modules are imported when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from gfs.domain.errors import InputError
from gfs.domain.text import suggestion
from gfs.entry_points import Offer, find_offers, the_offer
from gfs.forecasting.forecast import Estimator


@dataclass(frozen=True, slots=True)
class Model:
    """A forecaster that can be asked for by name."""

    name: str
    summary: str
    """What it forecasts, in one line."""
    place: str
    """`module:attribute` of an estimator, or of what makes one when it is called without arguments."""
    extra: str = ""
    """The extra of the installation that it needs, if any."""
    windowed: bool = False
    """Whether it looks at a window of fixed length: it is made with `window`, in hours."""
    hourly: bool = False
    """Whether it keeps a track of its forecasts hour by hour: one that is asked in between would lose it."""
    dated: bool = False
    """Whether it knows public holidays: a class that takes `country`."""

    def load(self, window: int | None = None, country: str = "") -> Estimator:
        """The estimator, not fitted yet; `window` for one that has a window, in place of its own.

        `country` (ISO code, such as CN) names the country whose public holidays count, for one that knows holidays.
        """
        module, _, attribute = self.place.partition(":")
        try:
            found = getattr(import_module(module), attribute)
        except ImportError as error:
            if not self.extra:
                raise
            command = f"pip install 'gfs-scheduler[{self.extra}]'"
            raise InputError(f"forecaster {self.name} needs packages that are not installed: {command}") from error
        if not callable(found):
            return cast(Estimator, found)
        settings: dict[str, object] = {}
        if self.windowed and window is not None:
            settings["window"] = window
        if self.dated and country:
            settings["country"] = country
        return cast(Estimator, found(**settings))


def _network(name: str, summary: str) -> Model:
    """One of the networks that the paper compares with."""
    place = f"gfs.forecasting.baselines.neural:{name}"
    return Model(name, f"of the paper's baselines: {summary}", place, extra="baselines", windowed=True)


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("persistence", "the last value", "gfs.forecasting.naive:PERSISTENCE"),
        Model("seasonal-24", "the value a day ago", "gfs.forecasting.naive:SEASONAL_DAY"),
        Model("seasonal-168", "the value a week ago", "gfs.forecasting.naive:SEASONAL_WEEK"),
        Model("weekly-peak", "the highest value of the previous week", "gfs.forecasting.naive:WEEKLY_PEAK"),
        Model(
            "orglinear",
            "the paper's model: linear in trend and cycle, normal distribution",
            "gfs.forecasting.orglinear.estimator:OrgLinearEstimator",
            windowed=True,
            dated=True,
        ),
        Model(
            "orgquantile",
            "ours: quantile regression, calibrated on its own recent misses",
            "gfs.forecasting.orgquantile.estimator:OrgQuantileEstimator",
            hourly=True,
        ),
        _network("transformer", "attention between all hours of the window"),
        _network("informer", "attention between the hours that matter most"),
        _network("autoformer", "attention between periods instead of hours"),
        _network("fedformer", "attention between frequencies instead of hours"),
        _network("dlinear", "linear in trend and rest of the window"),
        _network("deepar", "recurrent network, hour after hour, Student's t distribution"),
        Model(
            "lightgbm",
            "boosted trees, one model per probability: how good a forecast can get",
            "gfs.forecasting.baselines.boosting:LightGbmEstimator",
            extra="lightgbm",
        ),
    )
}
"""All forecasters, in the order in which they are shown."""


GROUP = "gfs.forecasters"
"""The entry point group: an estimator, or what makes one when it is called without arguments."""


def find_model(name: str) -> Model:
    """The forecaster with this name, ours or that of an installed distribution."""
    if name in MODELS:
        return MODELS[name]
    offers = find_offers(GROUP)
    offer = the_offer("forecaster", name, offers)
    if offer is None:
        names = dict.fromkeys([*MODELS, *(offer.name for offer in offers)])
        raise InputError(f"unknown forecaster {name!r}: {suggestion(name, names)}")
    return OfferedModel(name, f"of {offer.distribution}", offer.entry_point.value, offer=offer)


def as_estimator(thing: object) -> Estimator:
    """The object itself if it can be fitted; else an InputError that says what it lacks."""
    if isinstance(thing, type):
        raise InputError(f"{thing.__name__} is a class: give an object of it")
    lacking = [] if isinstance(getattr(thing, "name", None), str) else ["name"]
    lacking += [] if callable(getattr(thing, "fit", None)) else ["fit(history)"]
    if lacking:
        raise InputError(f"an object of type {type(thing).__name__} is no forecaster: it lacks {', '.join(lacking)}")
    return cast(Estimator, thing)


@dataclass(frozen=True, slots=True)
class OfferedModel(Model):
    """A forecaster of another distribution."""

    offer: Offer | None = None

    def load(self, window: int | None = None, country: str = "") -> Estimator:
        """The estimator, not fitted yet; it has no window of ours and knows no holidays."""
        assert self.offer is not None
        try:
            found = self.offer.import_it()
            return as_estimator(found() if isinstance(found, type) or not hasattr(found, "fit") else found)
        except InputError as error:
            raise InputError(f"forecaster {self.name!r} of {self.offer.source} cannot be used: {error}") from error
