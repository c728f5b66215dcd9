"""The page of schedulers over many quotas: a chart of each front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, Final

import plotly.graph_objects as go

from gfs.batch.front import FRONTS, FrontAxes, FrontComparison
from gfs.domain.units import HOUR
from gfs.report.columns import amount, percent, short_seconds
from gfs.report.figures import CAPACITY, colours_of, front_points, seconds_axis
from gfs.report.front import front_table, front_words, left_out_words, points_table, quota_name
from gfs.report.page import Chart, PageSection, Paragraph, write_page

WAITS, COMPLETIONS = FRONTS
LABELS: Final = {WAITS: ("waits", percent, "evicted"), COMPLETIONS: ("completes in", amount, "GPU-h wasted")}
"""What is said of a point: what it does, how its cost is written, what that is."""
TITLE: Final = "Every scheduler with every quota"
CAPTION: Final = (
    "Towards the lower left is better. Filled: on the common front. Diamonds: the scheduler's own quota."
    " Point at one to see its quota."
)


def front_page(comparison: FrontComparison, out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    colours = colours_of(comparison.schedulers)
    sections = []
    for axes in FRONTS:
        words = [Paragraph(line, lead=not place) for place, line in enumerate(front_words(comparison, axes))]
        chart = [_chart(comparison, axes, colours)] if comparison.placed(axes) else []
        sections.append(PageSection(axes.name.capitalize(), [*words, *chart, front_table(comparison, axes)]))
    missing = [Paragraph(line) for line in left_out_words(comparison)]
    sections.append(PageSection("All points", [*missing, points_table(comparison)]))
    subtitle = (
        f"{', '.join(comparison.schedulers)}: each with its own quota, without one, with fixed quotas and with quotas"
        f" that go by forecasts; {len(comparison.points)} runs. Lower is better in everything drawn."
    )
    write_page(out, f"GFS fronts: {comparison.trace}", subtitle, sections)


def _chart(comparison: FrontComparison, axes: FrontAxes, colours: Mapping[str, str]) -> Chart:
    does, text, what = LABELS[axes]
    placed, front = comparison.placed(axes), comparison.front(axes)
    times, costs = ([place[i] for _, place in placed] for i in (0, 1))
    if axes is WAITS:
        x_axis, costs = log_axis("spot runs evicted [%]", [100 * cost for cost in costs])
        y_axis, times = seconds_axis("mean spot wait", fine=True), [max(time, 1.0) for time in times]
    else:
        x_axis, costs = log_axis("wasted [GPU-h]", costs)
        y_axis, times = log_axis("mean spot completion time [h]", [time / HOUR for time in times])
    line = sorted((x, -y) for (point, _), x, y in zip(placed, costs, times, strict=True) if point in front)
    steps = {"color": CAPACITY, "width": 1.4, "dash": "dot", "shape": "hv"}
    xs, ys = [x for x, _ in line], [-y for _, y in line]
    data = [go.Scatter(mode="lines", name="common front", x=xs, y=ys, line=steps, hoverinfo="skip")]
    for name in dict.fromkeys(point.scheduler for point, _ in placed):
        mine = [(*row, x, y) for row, x, y in zip(placed, costs, times, strict=True) if row[0].scheduler == name]
        data += front_points(
            name,
            colours[name],
            [(x, y) for _, _, x, y in mine],
            [point in front for point, *_ in mine],
            [f"{name}, {quota_name(point)}" for point, *_ in mine],
            [f"{does} {short_seconds(time)}, {text(cost)} {what}" for _, (time, cost), _, _ in mine],
            ["diamond" if point.own else "circle" for point, *_ in mine],
        )
    return Chart(TITLE, CAPTION, data, go.Layout(xaxis=x_axis, yaxis=y_axis), height=480)


TICKS: Final = ((1,), (1, 3), (1, 2, 5), range(1, 10), [n / 2 for n in range(2, 20)], [n / 10 for n in range(10, 100)])
"""Digits that ticks begin with, for ever shorter spans."""
ENOUGH: Final = 4
"""Ticks of an axis."""


def log_axis(title: str, values: Sequence[float]) -> tuple[dict[str, Any], list[float]]:
    """A logarithmic axis with round ticks, and where the values are on it: 0 has a tick of its own below the others."""
    above = [value for value in values if value > 0] or [1.0]
    low, high = min(above), max(above)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks: list[float] = []
    for digits in TICKS:
        every = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [tick for tick in every if low / 1.05 <= tick <= high * 1.05]
        if len(ticks) >= ENOUGH:
            break
    texts = [f"{float(f'{tick:.3g}'):,.10g}" for tick in ticks]
    if len(above) < len(values):
        ticks, texts = [low / 2, *ticks], ["0", *texts]
    axis = {"type": "log", "title_text": title, "tickvals": ticks, "ticktext": texts}
    return axis, [value if value > 0 else low / 2 for value in values]
