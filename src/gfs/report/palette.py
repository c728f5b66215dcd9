"""Colours: one for each class, scheduler and forecaster, the same on every chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

HP: Final = "#3b6fd4"
SPOT: Final = "#f0902e"
CAPACITY: Final = "#8a94a6"
HEAT: Final = [[0.0, "#f3efe0"], [0.35, "#8fc7b5"], [0.7, "#2f7f93"], [1.0, "#173a63"]]

_KNOWN: Final = {
    "gfs": "#0f9d76",
    "static": "#7b8494",
    "yarn-cs": "#b05cc6",
    "chronus": "#d8a100",
    "lyra": "#2e9bd6",
    "fgd": "#d1495b",
}
_FORECASTERS: Final = {
    "persistence": "#7b8494",
    "seasonal-24": "#b05cc6",
    "seasonal-168": "#94745a",
    "weekly-peak": "#d8a100",
    "orglinear": "#d1495b",
    "orgquantile": "#0f9d76",
}
_MORE: Final = ("#6c8f2f", "#5b5bd6", "#c2703d", "#3aa6a6", "#e377a8", "#94745a", "#4c78a8", "#9c9c3a")

SERIES: Final = ("#3b6fd4", "#f0902e", "#0f9d76", "#d1495b", "#7d5fc4", "#d8a100", "#2e9bd6", "#94745a", "#9aa3b2")
"""For things without a colour of their own, such as organizations; the last is for the rest."""


MISSED: Final = "#d1372c"
"""What went beyond a bound."""


def scheduler_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for every scheduler: its own if it has one, else the next that is free."""
    return _colours(names, _KNOWN)


def forecaster_colours(names: Sequence[str]) -> dict[str, str]:
    """The same for forecasters."""
    return _colours(names, _FORECASTERS)


def _colours(names: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    colours: dict[str, str] = {}
    free = iter(_MORE * (len(names) // len(_MORE) + 1))
    for name in names:
        colours.setdefault(name, known[name] if name in known else next(free))
    return colours


def faded(colour: str, opacity: float) -> str:
    """A colour #rrggbb that lets through what is behind it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
