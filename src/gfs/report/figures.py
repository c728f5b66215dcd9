"""What charts share: Plotly's graph objects, the one template, and the axes, bars and lines that several pages draw.

Only modules that write pages import this: Plotly takes a tenth of a second to load.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from gfs.domain.units import DAY, HOUR
from gfs.report.design import LIGHT
from gfs.report.page import Selected

HP: Final = LIGHT["hp"]
SPOT: Final = LIGHT["spot"]
CAPACITY: Final = LIGHT["rest"]
HEAT: Final = [[0.0, "#f3efe0"], [0.35, "#8fc7b5"], [0.7, "#2f7f93"], [1.0, "#173a63"]]

_SERIES: Final = tuple(LIGHT[f"series-{i}"] for i in range(8))
_KNOWN: Final = {
    "gfs": _SERIES[2],
    "gfs-plus": _SERIES[0],
    "static": CAPACITY,
    "yarn-cs": _SERIES[6],
    "chronus": _SERIES[1],
    "lyra": _SERIES[4],
    "fgd": _SERIES[3],
    "persistence": CAPACITY,
    "seasonal-24": _SERIES[6],
    "seasonal-168": _SERIES[7],
    "weekly-peak": _SERIES[1],
    "orglinear": _SERIES[3],
    "orgquantile": _SERIES[2],
}
_MORE: Final = (_SERIES[5], _SERIES[7], *_SERIES)

SERIES: Final = (*_SERIES, CAPACITY)
"""For things without a colour of their own, such as organizations; the last is for the rest."""


MISSED: Final = LIGHT["bad"]
"""What went beyond a bound."""


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """A colour for every scheduler or forecaster: its own if it has one, else the next that is free."""
    colours: dict[str, str] = {}
    free = iter(_MORE * (len(names) // len(_MORE) + 1))
    for name in names:
        colours.setdefault(name, _KNOWN[name] if name in _KNOWN else next(free))
    return colours


def faded(colour: str, opacity: float) -> str:
    """A colour #rrggbb that lets through what is behind it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


_CLEAR: Final = "rgba(0,0,0,0)"
_AXIS: Final = {"automargin": True, "title": {"font": {"size": 13}}}
TEMPLATE: Final = go.layout.Template(
    layout=go.Layout(
        paper_bgcolor=_CLEAR,
        plot_bgcolor=_CLEAR,
        font={"family": "system-ui,-apple-system,Segoe UI,Roboto,Arial,sans-serif", "size": 13},
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        hoverlabel={"font": {"size": 12}},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.03, "yanchor": "bottom", "bgcolor": _CLEAR},
        xaxis=_AXIS,
        yaxis=_AXIS,
    ),
    data={
        "bar": [go.Bar(textposition="outside", cliponaxis=False)],
        "heatmap": [go.Heatmap(colorscale=HEAT, colorbar={"thickness": 12, "outlinewidth": 0})],
    },
)
"""How every chart looks. The page's script adds the colours of the reader's light or dark setting."""

SECONDS: Final = {
    1: "≤1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    HOUR: "1 h",
    6 * HOUR: "6 h",
    DAY: "1 day",
    7 * DAY: "1 week",
    30 * DAY: "30 days",
}
FINE_SECONDS: Final = SECONDS | {
    300: "5 min",
    900: "15 min",
    1800: "30 min",
    3 * HOUR: "3 h",
    12 * HOUR: "12 h",
    3 * DAY: "3 days",
}
del FINE_SECONDS[600]


def seconds_axis(title: str = "", *, fine: bool = False, **more: Any) -> dict[str, Any]:
    """A logarithmic axis of times, with ticks that people read: '10 s', '1 h', '1 day'."""
    ticks = FINE_SECONDS if fine else SECONDS
    return {"type": "log", "title_text": title, "tickvals": list(ticks), "ticktext": list(ticks.values()), **more}


def day_axis() -> dict[str, Any]:
    """An axis of the 24 hours."""
    return {"title_text": "hour of day", "dtick": 3, "range": [-0.6, 23.6]}


def zero_based(title: str, **more: Any) -> dict[str, Any]:
    """An axis that begins at zero."""
    return {"title_text": title, "rangemode": "tozero", **more}


def up_to(title: str, highest: float, *, room: float = 1.2) -> dict[str, Any]:
    """An axis from zero to a bit above the highest bar, so that the text above it has room."""
    return {"title_text": title, "range": [0, room * highest or 1]}


def wait_against_evictions(**more: Any) -> go.Layout:
    """The plane of waits (up, logarithmic) and evictions (to the right)."""
    return go.Layout(xaxis=zero_based("spot runs evicted [%]"), yaxis=seconds_axis("mean spot wait", fine=True), **more)


def front_points(
    name: str,
    colour: str,
    places: Sequence[tuple[float, float]],
    front: Sequence[bool],
    texts: Sequence[str],
    details: Sequence[str],
    shapes: Sequence[str] = (),
) -> list[go.Scatter]:
    """Points, filled and larger where they are on a front; `texts` and `details` show when one points at them."""
    shown = {"mode": "markers", "name": html.escape(name), "legendgroup": html.escape(name)}
    marker = {
        "color": colour,
        "opacity": 1,
        "size": [14 if on else 9 for on in front],
        "symbol": [
            shape if on else f"{shape}-open" for shape, on in zip(shapes or ["circle"] * len(front), front, strict=True)
        ],
        "line": {"width": [0 if on else 2 for on in front]},
    }
    points = go.Scatter(
        **shown,
        showlegend=False,
        x=[x for x, _ in places],
        y=[y for _, y in places],
        text=[html.escape(text) for text in texts],
        customdata=list(details),
        marker=marker,
        hovertemplate="%{text}<br>%{customdata}<extra></extra>",
    )
    return [go.Scatter(**shown, x=[None], y=[None], marker={"color": colour, "size": 9}), points]  # legend, points


def dashed(*, x: Any = None, y: Any = None, colour: str = CAPACITY, width: float = 1) -> dict[str, Any]:
    """A dashed line across the chart, upright at `x` or level at `y`."""
    along = {"x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1}
    if y is not None:
        along = {"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y}
    return {"type": "line", **along, "line": {"color": colour, "dash": "dash", "width": width}}


def bars(names: Sequence[str], values: Sequence[float], texts: Sequence[str], colour: Any, name: str = "") -> go.Bar:
    """Bars with what they mean written above them."""
    return go.Bar(
        name=name,
        x=[html.escape(one) for one in names],
        y=[round(value, 4) for value in values],
        text=list(texts),
        marker_color=colour,
        hovertemplate="%{x}: %{text}<extra>" + name + "</extra>",
    )


def curve(
    name: str, y: Any, colour: str, hover: str = "", *, width: float = 2.2, shape: str = "linear", **more: Any
) -> go.Scatter:
    """A line; `hover` says what one of its points means, where lines do not share a box that says it."""
    style, said = {"color": colour, "width": width, "shape": shape}, html.escape(name)
    text = {"hovertemplate": f"{hover}<extra>{said}</extra>"} if hover else {}
    return go.Scatter(**{"mode": "lines", "name": said, "y": y, "line": style, **text, **more})


def area(name: str, y: Any, colour: str, stack: str, **more: Any) -> go.Scatter:
    """A series on top of those of the same stack, in steps."""
    filled = {"stackgroup": stack, "fillcolor": faded(colour, 0.75)}
    return curve(name, y, colour, width=0.6, shape="hvh", **filled, **more)


def sizes_layout(order: Sequence[str], title: str = "") -> go.Layout:
    """Times by size of the task: sizes to the right, times upwards."""
    sizes = {"type": "category", "categoryorder": "array", "categoryarray": list(order), "title_text": "GPUs per task"}
    return go.Layout(xaxis=sizes, yaxis=seconds_axis(title, fine=True))


def node_heat_map(labels: Sequence[str], percent: Any, title: str, **x: Any) -> go.Heatmap:
    """Share of every node's GPUs over time, in %."""
    return go.Heatmap(
        **x,
        y=[html.escape(label) for label in labels],
        z=percent,
        zmin=0,
        zmax=100,
        colorbar_title={"text": title, "side": "right", "font": {"size": 12}},
        hovertemplate="%{y}, %{x}: %{z}%<extra></extra>",
    )


SHADES: Final = (0.5, 0.31, 0.19, 0.11)
"""Opacity of the bands, the nearest first."""

Values = Any
"""An array, or a `Selected` of arrays."""


def line(
    name: str | Selected, y: Values, x0: Values, step: float, colour: Values, width: float = 1.8, **more: Any
) -> Any:
    """One value for every step from x0 on."""
    return selectable(
        go.Scatter,
        name=html.escape(name) if isinstance(name, str) else name,
        **{"mode": "lines", "hovertemplate": "%{y:,.4~g}", **more},
        x0=x0,
        dx=step,
        y=y,
        line_color=colour,
        line_width=width,
    )


def band_lines(
    expected: Values, bounds: Mapping[float, Values], x0: Values, step: float, colour: Values, **more: Any
) -> list[Any]:
    """What was expected and, above it, a band up to every bound. `colour` is #rrggbb or a `Selected` of such."""
    traces = [line("expected", expected, x0, step, colour, **more)]
    for shade, (p, values) in zip([*SHADES, *SHADES[-1:] * len(bounds)], bounds.items(), strict=False):
        fill = faded(colour, shade) if isinstance(colour, str) else colour.map(lambda c, s=shade: faded(c, s))
        traces.append(line(f"{p:g} bound", values, x0, step, colour, 0.6, fill="tonexty", fillcolor=fill, **more))
    return traces


def missed(name: str | Selected, x: Values, y: Values) -> Any:
    """Red points: demand was above its bound."""
    style = {"color": MISSED, "size": 6}
    return selectable(go.Scatter, mode="markers", name=name, x=x, y=y, marker=style, hoverinfo="skip")


def selectable(kind: type[Any], **properties: Any) -> Any:
    """A trace or layout of which some properties are for the reader to choose.

    Those that are a `Selected` go to its `meta`, by their path ('line.color'), where the page's script finds them.
    """
    chosen = {name: value for name, value in properties.items() if isinstance(value, Selected)}
    made = kind(**{name: value for name, value in properties.items() if name not in chosen})
    if chosen:
        made.meta = {name.replace("_", "."): value for name, value in chosen.items()}
    return made
