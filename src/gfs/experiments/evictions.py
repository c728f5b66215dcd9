"""When spot tasks are evicted under a static quota: hour of the day, HP arrivals (the paper's section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from gfs.batch.job import JobResult
from gfs.domain.units import DAY
from gfs.experiments.deployment import BEFORE, FEW
from gfs.experiments.experiment import Finding, paper
from gfs.experiments.views import WEEK
from gfs.report.figures import SERIES, SPOT, curve, day_axis, zero_based
from gfs.report.page import Chart

WEEKS = 4
WEEK_COLOURS = (SERIES[0], SERIES[2], SERIES[4], SERIES[6])
CROWDED = 16.0
"""Times the spot work of the trace: about what HP leaves of the A100 pool."""


class Evictions(NamedTuple):
    """Spot runs that ended and those evicted: (weeks, hours of the day)."""

    ended: Any
    evicted: Any

    @classmethod
    def of(cls, trace: JobResult, run: JobResult) -> Evictions:
        """Of the weeks in which tasks are submitted, four at most."""
        first, last = trace["submissions"]
        weeks = min(WEEKS, max(1, int((last - first + DAY) // WEEK)))
        view = run["views"]["evictions"]
        return cls(np.asarray(view["ended"])[:weeks], np.asarray(view["evicted"])[:weeks])

    @property
    def some(self) -> bool:
        """Whether there are enough to say something of them."""
        return int(self.evicted.sum()) >= FEW

    def rates(self) -> list[float | None]:
        """Percent by hour of the day, all weeks together; None where no run ended."""
        return _rates(self.ended.sum(axis=0), self.evicted.sum(axis=0))

    def rate(self, hours: Sequence[int] = range(24)) -> float:
        """Percent in these hours of the day."""
        return 100 * float(self.evicted[:, hours].sum()) / max(int(self.ended[:, hours].sum()), 1)

    def follow(self, arrivals: Sequence[float]) -> float:
        """Correlation of the rates with HP arrivals, over the hours of the day; 0 if there are too few."""
        rates = self.rates()
        known = [hour for hour in range(24) if rates[hour] is not None]
        if not self.some:
            return 0.0
        return float(np.corrcoef([arrivals[hour] for hour in known], [rates[hour] for hour in known])[0, 1])


def _rates(ended: Any, evicted: Any) -> list[float | None]:
    return [100 * int(e) / int(n) if n else None for n, e in zip(ended, evicted, strict=True)]


def eviction_chart(evictions: Evictions) -> Chart:
    """A thin line a week, a thick one for all."""
    weeks = len(evictions.ended)
    lines = [
        (f"week {i + 1}", _rates(evictions.ended[i], evictions.evicted[i]), colour, 1.2)
        for i, colour in enumerate(WEEK_COLOURS[: weeks if weeks > 1 else 0])
    ]
    lines.append(("all weeks" if weeks > 1 else "all days", evictions.rates(), SPOT, 3.2))
    total = f"{evictions.evicted.sum():,} of {evictions.ended.sum():,} runs"
    return Chart(
        "Spot runs evicted, by hour of day",
        f"Of the spot runs that end in an hour of the day, the share that ends by eviction, under {BEFORE}:"
        f" {total} in all. An hour without such a run is a gap; time 0 of the trace is midnight.",
        [
            curve(name, rates, colour, "%{x}:00: %{y:.1f}%", width=width, mode="lines+markers", marker_size=3 + width)
            for name, rates, colour, width in lines
        ],
        go.Layout(showlegend=True, xaxis=day_axis(), yaxis=zero_based("spot runs evicted [%]")),
    )


def eviction_findings(trace: JobResult, evictions: Evictions, crowded: Evictions) -> list[Finding]:
    """Of the trace's own spot work, and beside it what comes of enough to fill what HP leaves (`crowded`)."""
    theirs, some = paper()["statistics"], evictions.some
    low, high = theirs["eviction_peak_hours"]
    inside, outside = range(low, high), [*range(low), *range(high, 24)]
    arrivals = trace["hp_arrivals_by_hour"]
    rates, follows = evictions.rates(), evictions.follow(arrivals)
    highest = max(range(24), key=lambda hour: rates[hour] or 0.0)
    few = "" if some else f" Too few to tell: {evictions.evicted.sum()} evictions."
    more = f" With {CROWDED:g} times the spot work"
    return [
        Finding(
            f"Most evictions from {low}:00 to {high}:00, up to {theirs['eviction_peak']}%"
            f" against {theirs['eviction_off_peak']}% off peak",
            evictions.rate(inside) > evictions.rate(outside) if some else None,
            f"here {evictions.rate(inside):.2f}% in these hours, {evictions.rate(outside):.2f}% in the others; most at"
            f" {highest}:00, {rates[highest] or 0.0:.1f}%.{few}{more} {crowded.rate(inside):.2f}% and"
            f" {crowded.rate(outside):.2f}%.",
        ),
        Finding(
            f"{theirs['eviction_mean']}% of spot runs are evicted under a static quota",
            theirs["eviction_mean"] / 2 <= evictions.rate() <= 2 * theirs["eviction_mean"],
            f"here {evictions.rate():.2f}%; up to twice or half counts as agreeing.{more} {crowded.rate():.2f}%.",
        ),
        Finding(
            f"Evictions follow HP arrivals (correlation {theirs['eviction_follows_hp']})",
            follows >= theirs["eviction_follows_hp"] / 2 if some else None,
            (few.strip() or f"here {follows:.2f} over the hours of the day; half as much counts as agreeing.")
            + f"{more} {crowded.follow(arrivals):.2f}.",
        ),
    ]
