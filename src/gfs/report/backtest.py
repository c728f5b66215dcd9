"""What a backtest keeps of one forecaster: its scores, and for the series that are shown every forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gfs.forecasting.evaluation import Rolled, Scores
from gfs.forecasting.history import DAY_HOURS, WEEK_HOURS, Bools, DemandHistory, Floats

BOUND: Final = 0.95
"""The bound whose misses are shown."""
MOST_AHEAD: Final = 4
"""Hours ahead that can be chosen: a longer horizon would multiply the size of the page."""
MOST_VALUES: Final = 1_200_000
"""Numbers of bands on a page: about 7 MB. Of a longer test part the last hours are drawn."""
SAMPLED: Final = 6
"""Hours between two points of the coverage over time."""


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """Which part of a backtest is drawn."""

    rows: tuple[int, ...]
    """The largest series of the test part, largest first."""
    ahead: tuple[int, ...]
    """1 for the hour that begins at the origin."""
    origins: range
    """Numbers of the hours at which forecasts are drawn."""

    @classmethod
    def of(cls, history: DemandHistory, origins: range, horizon: int, *, top: int, models: int) -> DrawnPart:
        """The `top` largest series, and as many of the last hours as a page can hold."""
        demand = history.since(origins.start).gpus.mean(axis=1)
        order = sorted(range(len(demand)), key=lambda row: (-demand[row], history.keys[row]))
        rows = tuple(order[:top])
        ahead = tuple(int(h) for h in np.rint(np.linspace(1, horizon, min(horizon, MOST_AHEAD))))
        room = max(MOST_VALUES // (3 * models * len(rows) * len(ahead)), 2 * WEEK_HOURS)
        return cls(rows, ahead, origins[-room:])


@dataclass(frozen=True, slots=True, eq=False)
class BacktestResult:
    """One forecaster."""

    scores: Scores
    by_series: tuple[Scores | None, ...]
    """Of the series that are shown; None for one of which nothing was known in time."""
    by_ahead: tuple[Scores, ...]
    """Of all series, for every hour ahead."""
    weekly: tuple[Floats, ...]
    """Coverage over time of all series together, for the hours ahead that are drawn."""
    drawn: Rolled
    """The series and origins that are drawn."""

    @classmethod
    def of(cls, rolled: Rolled, part: DrawnPart) -> BacktestResult:
        """Keep what is shown and drop the rest, which may be large."""
        horizon = rolled.actual.shape[2]
        held, series = held_up(rolled), [_cut(rolled, [row], slice(None), slice(None)) for row in part.rows]
        return cls(
            rolled.scores(),
            tuple(one.scores() if one.counted.any() else None for one in series),
            tuple(_cut(rolled, slice(None), slice(None), slice(h, h + 1)).scores() for h in range(horizon)),
            tuple(share_over_time(held[:, :, h - 1], rolled.counted) for h in part.ahead),
            _cut(rolled, part.rows, slice(-len(part.origins), None), slice(None)),
        )


def held_up(rolled: Rolled) -> Bools:
    """Series x origins x hours ahead: whether demand was at or below its bound."""
    held: Bools = rolled.actual <= rolled.quantiles[BOUND]
    return held


def span_of(origins: int) -> int:
    """Hours over which coverage is averaged: a week, in a short test part a day, 0 if it is shorter than two."""
    return next((hours for hours in (WEEK_HOURS, DAY_HOURS) if origins >= 2 * hours), 0)


def share_over_time(held: Bools, counted: Bools) -> Floats:
    """Share of what held up in every stretch of a week (or day), a value every few hours.

    Both are series x origins, or origins alone. Where nothing counts there is a gap (NaN).
    """
    hours = span_of(held.shape[-1])
    if not hours:
        return np.empty(0)

    def sums(flags: Bools) -> Floats:
        per_hour = np.atleast_2d(flags).sum(axis=0)
        total = np.concatenate([[0.0], np.cumsum(per_hour)])
        stretches: Floats = (total[hours:] - total[:-hours])[::SAMPLED]
        return stretches

    cases = sums(counted)
    return np.where(cases > 0, sums(held & counted) / np.maximum(cases, 1.0), np.nan)


def _cut(rolled: Rolled, rows: Sequence[int] | slice, origins: slice, ahead: slice) -> Rolled:
    """A part of it. The peaks stay those of the whole horizon."""
    chosen = rows if isinstance(rows, slice) else list(rows)
    first = rolled.start + origins.indices(rolled.actual.shape[1])[0]

    def cut(values: Floats) -> Floats:
        return values[chosen][:, origins, ahead]

    return replace(
        rolled,
        start=first,
        actual=cut(rolled.actual),
        mean=cut(rolled.mean),
        quantiles={p: cut(values) for p, values in rolled.quantiles.items()},
        peak=rolled.peak[chosen][:, origins],
        counted=rolled.counted[chosen][:, origins],
    )
