"""What a GPU-hour is worth, and the monthly benefit of a better scheduler (docs/concepts/metrics.md).

The prices are an assumption (`metrics_prices.json` says so): replace them with your own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gfs.telemetry.metrics import Metrics

HOURS_PER_MONTH: Final = 730.0

_DEFAULT: Final = "default"


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
    """Dollars a month: allocation rate gained x cards x price x 730 h, per GPU model and in total.

    Negative when `after` allocates less. Without `prices` the assumed default prices are used.
    """
    table = default_prices() if prices is None else prices
    per_model = {}
    for model, cards in capacity.items():
        gained = after.allocation_rate.get(model, 0.0) - before.allocation_rate.get(model, 0.0)
        price = price_of(model, table)
        per_model[model] = {
            "allocation_rate_gained": gained,
            "cards": cards,
            "price": price,
            "benefit": gained * cards * price * HOURS_PER_MONTH,
        }
    return {
        "total": sum(m["benefit"] for m in per_model.values()),
        "per_model": per_model,
        "unit": "USD per month",
        "assumption": prices_note() if prices is None else "prices as configured",
    }
