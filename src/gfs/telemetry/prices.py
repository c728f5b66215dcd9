"""What a GPU-hour is worth, and the monthly benefit of a better scheduler (docs/concepts/metrics.md).

The prices are an assumption (`prices.json` says so): `--prices FILE` replaces them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gfs.domain.errors import InputError
from gfs.domain.execution import ExecutionRules
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.files import read_toml
from gfs.telemetry.metrics import EPS, Metrics, useful_and_wasted
from gfs.telemetry.runs import Floats, TaskColumns, runs_table

HOURS_PER_MONTH: Final = 730.0

_DEFAULT: Final = "default"
ASSUMED: Final = "ASSUMPTION, not a quote: on-demand list prices; spot sells for less; --prices FILE gives yours"


@cache
def default_prices() -> Mapping[str, float]:
    """US dollars per GPU-hour by GPU model: an assumption. Key 'default' stands for any other model."""
    file = json.loads(resources.files("gfs.telemetry").joinpath("prices.json").read_text(encoding="utf-8"))
    return MappingProxyType({**file["prices"], _DEFAULT: float(file["default"])})


def prices_text(given: Iterable[tuple[str, float]]) -> str:
    """Which prices money was counted at: those that were given, else the assumed ones."""
    prices = ", ".join(f"{model} ${price:.2f}" for model, price in given)
    return f"as given, per GPU-hour: {prices}" if prices else ASSUMED


def read_prices(path: Path) -> dict[str, float]:
    """Prices by GPU model from a TOML or JSON file: lines of `A100 = 2.10`, `default` for any other model.

    They may also stand in a table called `prices`, as in the file of the assumed ones.
    """
    content = _read(path)
    inner = content.get("prices", {})
    if isinstance(inner, dict):
        content = {
            **{name: value for name, value in content.items() if name not in ("prices", "note", "unit")},
            **inner,
        }
    prices: dict[str, float] = {}
    for model, price in content.items():
        number = isinstance(price, int | float) and not isinstance(price, bool)
        if not number or not isfinite(price) or price < 0:
            raise InputError(
                f"{path}: {model} = {price!r}: must be dollars per GPU-hour, 0 or more, such as {model} = 2.5"
            )
        prices[model] = float(price)
    if not prices:
        raise InputError(f"{path}: names no price; write a line per GPU model, such as A100 = 2.5, and default = 1.5")
    return prices


def _read(path: Path) -> dict[str, Any]:
    if path.suffix.lower() == ".toml":
        return read_toml(path)
    if path.suffix.lower() != ".json":
        raise InputError(f"{path}: unknown kind of file; prices stand in a .toml or .json file")
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path}: not a JSON file: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f'{path}: must be an object of prices by GPU model, such as {{"A100": 2.5}}')
    return content


def price_of(model: str, prices: Mapping[str, float]) -> float:
    """Price of a model: its own, else that of the longest name it begins with (A100-SXM4-80GB: A100),
    else the one called 'default', else 0.
    """
    if model in prices:
        return prices[model]
    prefixes = [name for name in prices if model.upper().startswith(name.upper())]
    return prices[max(prefixes, key=len)] if prefixes else prices.get(_DEFAULT, 0.0)


def monthly_benefit(
    before: Metrics, after: Metrics, capacity: Mapping[str, int], prices: Mapping[str, float] | None = None
) -> float:
    """Dollars a month: useful share of the pool gained x GPUs x price x 730 h, of all GPU models together.

    Negative when `after` does less useful work. Without `prices` the assumed default prices are used.
    """
    table = default_prices() if prices is None else prices
    gained = {m: after.goodput_rate.get(m, 0.0) - before.goodput_rate.get(m, 0.0) for m in capacity}
    return sum(gained[m] * gpus * price_of(m, table) * HOURS_PER_MONTH for m, gpus in capacity.items())


@dataclass(frozen=True, slots=True)
class Delivered:
    """What spot tasks got while work was submitted, as amounts of a month.

    Every task of a simulation runs to its end, so over all of it any setting delivers the same. What tells settings
    apart is how much they deliver in time: until the last submission; in a trace of less than a day, until its work
    would be done if no task waited. A run that lasts beyond it counts by the share of its time that lies before.
    """

    period_hours: float
    """Of that time: the same under every setting."""
    spot_gpu_hours: float
    """Useful GPU-hours of spot tasks a month: without work that was lost and without restarts."""
    guaranteed_gpu_hours: float
    """GPU-hours a month of guarantee periods that were completed."""
    worth: float
    """The useful GPU-hours at the given prices, US dollars a month."""
    wasted_worth: float
    """GPU-hours that spot tasks held and lost, at the same prices, US dollars a month."""


def delivered(
    events: pa.Table, workload: Workload, rules: ExecutionRules, prices: Mapping[str, float] | None = None
) -> Delivered:
    """Work it out from an event log; without `prices` at the assumed ones."""
    tasks, runs = TaskColumns.of(workload), runs_table(events, workload)
    if not len(runs.task):
        return Delivered(0.0, 0.0, 0.0, 0.0, 0.0)
    start, end = float(np.nanmin(runs.submitted)), float(np.nanmax(runs.submitted))
    if end - start < DAY:
        end = float(np.nanmax(tasks.submit + tasks.wanted))
    if end <= start:
        return Delivered(0.0, 0.0, 0.0, 0.0, 0.0)
    spot = tasks.spot[runs.task]
    length = runs.length
    inside = np.clip(np.minimum(runs.start + length, end) - runs.start, 0.0, None)
    share = np.divide(inside, length, out=np.zeros_like(length), where=length > 0) * spot
    useful, wasted = useful_and_wasted(runs, tasks, rules)
    promised = np.maximum(tasks.guarantee[runs.task], EPS)
    # One that finishes inside a guarantee period completes that one too (docs/concepts/metrics.md).
    whole = np.where(runs.finished, length, np.floor((length + EPS) / promised) * promised)
    table = default_prices() if prices is None else prices
    price = np.asarray([price_of(model, table) for model in tasks.models])[tasks.model[runs.task]]
    a_month = HOURS_PER_MONTH * HOUR / (end - start)

    def hours(gpu_seconds: Floats) -> float:
        return float((gpu_seconds * share).sum()) / HOUR * a_month

    return Delivered(
        period_hours=(end - start) / HOUR,
        spot_gpu_hours=hours(useful),
        guaranteed_gpu_hours=hours(tasks.gpus[runs.task] * whole),
        worth=hours(useful * price),
        wasted_worth=hours(wasted * price),
    )
