"""Names of earlier versions that still work, each with one line of warning: parameters, their values, options."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache

PARAMETERS = {"patience": "starvation_timeout", "lease_patience": "lease_aging"}
"""Parameters by their old names."""
VALUES: Mapping[str, Mapping[str, str]] = {
    "quota": {"open-loop": "forecast-no-feedback"},
    "checkpoint_on_grace": {"yes": "true", "no": "false"},
}
"""Old values of a parameter, under its present name."""
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "simulate": {"--quota": "--quota-log"},
    "plan": {"--scheduler": "--schedulers"},
    "sweep show": {"--plot": "--html"},
    "forecast predict": {"--plot": "--html", "--out": "--table", "--window": "--look-back"},
    "forecast backtest": {"--out": "--html", "--window": "--look-back"},
    "forecast evaluate": {"--window": "--look-back"},
}
"""Old options of a command."""


def present_name(kind: str, name: str, renamed: Mapping[str, str]) -> str:
    """What `name` is called now; an old name is warned of once."""
    if name not in renamed:
        return name
    warn_once(f"{kind} {name} is now called {renamed[name]}; the old name works in this version only")
    return renamed[name]


@cache
def warn_once(warning: str) -> None:
    """One line, however many runs are given the same."""
    logging.getLogger("gfs").warning(warning)
