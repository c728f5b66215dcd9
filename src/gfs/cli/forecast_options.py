"""Options that the forecast commands share: where demand comes from, and how it is forecast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gfs.cli.console import note
from gfs.cli.options import TRACE, file_option, option, parse_names
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.forecasting.evaluation import Rolled
    from gfs.forecasting.forecast import Estimator
    from gfs.forecasting.history import DemandHistory


DEMAND = "Demand"
FORECAST = "Forecast"
WINDOW = 672
"""Four weeks: L of the paper."""
HORIZON = 4
LONGEST_HORIZON = 8784
"""A year: what is asked for by mistake should not fill the memory."""
SPLIT = "0.7,0.1,0.2"

Series = Annotated[
    Path | None,
    file_option("--series", "Hourly demand: time,organization,gpu_model,gpus, or one column per series.", DEMAND),
]
TraceJobs = Annotated[Path | None, file_option("--jobs", "Or: jobs of a trace, whose HP demand is taken.", TRACE)]
TraceNodes = Annotated[Path | None, file_option("--nodes", "Nodes of the trace.", TRACE)]
Events = Annotated[
    Path | None, file_option("--events", "Or: event log of a run, as gfs simulate --events writes it.", DEMAND)
]
Hours = Annotated[str | None, option("--hours", "Use only these hours of the demand.", DEMAND, metavar="START:END")]
FirstDay = Annotated[
    str | None, option("--first-day", "The date of hour 0, for demand without dates.", DEMAND, metavar="YYYY-MM-DD")
]
Models = Annotated[
    str | None,
    option(
        "--models", "Forecasters to set side by side; by default all that need no extra.", FORECAST, metavar="A,B,C"
    ),
]
LookBack = Annotated[
    int,
    option(
        "--look-back", "Hours that forecasters with a window of fixed length look back.", FORECAST, metavar="N", min=1
    ),
]
Horizon = Annotated[
    int, option("--horizon", "Hours that are forecast.", FORECAST, metavar="N", min=1, max=LONGEST_HORIZON)
]
Country = Annotated[
    str,
    option(
        "--country", "Whose public holidays count, such as CN, for forecasters that know them.", FORECAST, metavar="CC"
    ),
]
Split = Annotated[
    str,
    option(
        "--split", "Shares of the hours for training, validation and test, in this order.", FORECAST, metavar="A,B,C"
    ),
]


Shares = tuple[float, float, float]


def load_models(names: Sequence[str], window: int, country: str) -> dict[str, Estimator]:
    """The estimators by name, not fitted yet."""
    from gfs.forecasting.history import check_country
    from gfs.forecasting.registry import find_model

    check_country(country)
    return {name: find_model(name).load(window, country=country) for name in names}


def note_idle_options(names: Sequence[str], window: int, country: str, history: DemandHistory) -> None:
    """Remark on options that change nothing, because of the forecasters or of the demand."""
    from gfs.forecasting.registry import find_model

    chosen = [find_model(name) for name in names]
    if window != WINDOW and not any(model.windowed for model in chosen):
        note("--look-back changes nothing: none of these forecasters looks at a window of fixed length")
    if country and not any(model.dated for model in chosen):
        note("--country changes nothing: none of these forecasters knows holidays")
    elif country and history.first_day is None:
        note("--country changes nothing: this demand has no dates; --first-day gives the date of hour 0")


def roll_models(
    estimators: Mapping[str, Estimator], history: DemandHistory, *, horizon: int, split: Shares
) -> Iterator[tuple[str, Rolled]]:
    """Each in turn over the test part, with a bar."""
    from gfs.cli.progress import bars
    from gfs.forecasting.evaluation import origins_of_test, roll

    origins = origins_of_test(history, horizon, split)
    with bars(list(estimators), len(origins), unit="hours") as running:
        for name, estimator in estimators.items():
            progress = partial(running, name)
            yield name, roll(estimator, history, horizon=horizon, split=split, progress=progress)


def parse_models(text: str | None) -> list[str]:
    """The forecasters in a list like 'persistence,weekly-peak', each known and named once."""
    from gfs.forecasting.registry import MODELS, find_model

    if text is None:
        return [name for name, model in MODELS.items() if not model.extra]
    none = "no forecaster to evaluate: name at least one, for example --models persistence"
    return parse_names(text, "forecaster", find_model, none)


def parse_split(text: str) -> Shares:
    """'0.7,0.1,0.2' as three numbers."""
    try:
        train, validation, test = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"split {text!r}: write three shares, for example 0.7,0.1,0.2") from None
    return train, validation, test


def parse_bounds(text: str) -> list[float]:
    """'0.9,0.95' as probabilities, lowest first."""
    example = "write probabilities between 0 and 1, for example 0.9,0.95"
    try:
        bounds = sorted(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"bounds {text!r}: {example}") from None
    if not all(0 < p < 1 for p in bounds):
        raise InputError(f"bounds {text!r}: {example}")
    if len(set(bounds)) < len(bounds):
        raise InputError(f"bounds {text!r}: name each once")
    return bounds
