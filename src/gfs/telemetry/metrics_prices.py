"""What a GPU-hour is worth, and the monthly benefit of a better scheduler (docs/concepts/metrics.md).

The prices are an assumption (`metrics_prices.json` says so): `--prices FILE` replaces them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gfs.domain.errors import InputError
from gfs.files import read_toml

if TYPE_CHECKING:
    from gfs.telemetry.metrics import Metrics

HOURS_PER_MONTH: Final = 730.0

_DEFAULT: Final = "default"
ASSUMED: Final = "ASSUMPTION, not a quote: on-demand list prices; spot sells for less; --prices FILE gives yours"


@cache
def _file() -> dict[str, Any]:
    text = resources.files("gfs.telemetry").joinpath("metrics_prices.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def default_prices() -> Mapping[str, float]:
    """US dollars per GPU-hour by GPU model: an assumption. Key 'default' stands for any other model."""
    return MappingProxyType({**_file()["prices"], _DEFAULT: float(_file()["default"])})


def prices_note() -> str:
    """What kind of prices these are."""
    return str(_file()["note"])


def prices_text(given: Iterable[tuple[str, float]]) -> str:
    """Which prices money was counted at: those that were given, else the assumed ones."""
    said = ", ".join(f"{model} ${price:g}" for model, price in given)
    return f"as given, per GPU-hour: {said}" if said else ASSUMED


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
) -> dict[str, Any]:
    """Dollars a month: useful share of the pool gained x GPUs x price x 730 h, per GPU model and in total.

    Negative when `after` does less useful work. Without `prices` the assumed default prices are used.
    """
    table = default_prices() if prices is None else prices
    per_model = {}
    for model, gpus in capacity.items():
        gained = after.goodput_rate.get(model, 0.0) - before.goodput_rate.get(model, 0.0)
        price = price_of(model, table)
        per_model[model] = {
            "goodput_gained": gained,
            "gpus": gpus,
            "price": price,
            "benefit": gained * gpus * price * HOURS_PER_MONTH,
        }
    return {
        "total": sum(m["benefit"] for m in per_model.values()),
        "per_model": per_model,
        "unit": "USD per month",
        "assumption": prices_note() if prices is None else "prices as configured",
    }
