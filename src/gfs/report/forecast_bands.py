"""The lines of a forecast on a chart: actual demand, what was expected, and the bands up to the bounds."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final

from gfs.report.page import Selected

SHADES: Final = ("80", "50", "30", "1c")
"""Opacity of the bands, the nearest first."""

Values = Any
"""An array, or a `Selected` of arrays."""


def line(name: str | Selected, y: Values, x0: Values, step: float, style: dict[str, Any]) -> dict[str, Any]:
    """One value for every step from x0 on."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": html.escape(name) if isinstance(name, str) else name,
        "x0": x0,
        "dx": step,
        "y": y,
        "line": style,
        "hovertemplate": "%{y:,.4~g}",
    }


def band_lines(
    expected: Values, bounds: Mapping[float, Values], x0: Values, step: float, colour: Values
) -> list[dict[str, Any]]:
    """What was expected and, above it, a band up to every bound. `colour` is #rrggbb or a `Selected` of such."""
    traces = [line("expected", expected, x0, step, {"color": colour, "width": 1.8})]
    for shade, (p, values) in zip([*SHADES, *SHADES[-1:] * len(bounds)], bounds.items(), strict=False):
        band = line(f"{p:g} bound", values, x0, step, {"color": colour, "width": 0.6})
        traces.append({**band, "fill": "tonexty", "fillcolor": _shaded(colour, shade)})
    return traces


def _shaded(colour: Values, shade: str) -> Values:
    if isinstance(colour, Selected):
        return Selected(colour.by, [f"{c}{shade}" for c in colour.of])
    return f"{colour}{shade}"
