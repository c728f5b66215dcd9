"""The few tasks that run for days to months: how long, and when, so that they are a steady load.

A cluster is not empty when a trace of it begins, and not empty when it ends. The published trace shows
this: 3,588 of its jobs already run at hour 0, and its longest jobs last from its first second to its last.
Tasks that run for weeks are therefore placed as a window onto a stationary stream shows them: some run
already at time 0 (and are recorded with what is left of them), some are cut off by the end, the
rest lie inside. No long task runs past the end of the window, as in the published trace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfs.workloads.durations import Floats, log_linear_mean, top_for_mean

_STEP_1, _STEP_2 = 0.7548776662466927, 0.5698402909980532
"""Steps of the two-dimensional low-discrepancy sequence R2: powers of 1 / 1.3247, the plastic number."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """When tasks are submitted and for how many seconds they run."""

    submit: Floats
    duration: Floats


def long_running(count: int, shortest: float, mean: float, horizon: float, rng: np.random.Generator) -> Intervals:
    """`count` tasks of at least `shortest` and about `mean` seconds inside [0, horizon].

    Lengths are log-linear from `shortest` up to the length that gives the mean. Where even the whole horizon
    as the longest does not, as many as needed last the whole horizon.
    """
    if not count:
        return Intervals(np.empty(0), np.empty(0))
    longest = min(top_for_mean(shortest, mean), horizon)
    varied_mean = log_linear_mean(shortest, longest)
    whole = 0
    if longest == horizon and mean > varied_mean:
        whole = min(count, round(count * (mean - varied_mean) / (horizon - varied_mean)))
    varied = count - whole
    share = (np.arange(varied) + rng.random(varied)) / max(varied, 1)
    lengths = np.rint(shortest * (longest / shortest) ** share)
    submit = np.concatenate([_stationary_starts(lengths, shortest, longest, horizon, rng), np.zeros(whole)])
    return Intervals(submit, np.concatenate([lengths, np.full(whole, np.floor(horizon))]))


def _stationary_starts(
    lengths: Floats, shortest: float, longest: float, horizon: float, rng: np.random.Generator
) -> Floats:
    """Starts for ascending `lengths` so that the same number runs at any time, in expectation.

    Let m(d) be the density of observed lengths and y(d) that of the tasks already running at time 0 (and, by
    symmetry, of those cut off by the end). A stationary stream needs
    `y(d) = integral from d of m(u) (T - u) du / (T - d)^2`; so a task of length d runs at time 0 with
    probability y/m, is cut off with probability y/m, and else starts anywhere in [0, T - d].
    """
    count = len(lengths)
    if not count:
        return np.empty(0)
    room = np.maximum(horizon - lengths, 0.0)
    room_of_longer = np.cumsum(room[::-1])[::-1] - room
    density = count / (max(np.log(longest / shortest), 1e-9) * lengths)
    at_edge = np.clip(room_of_longer / np.maximum(room, 1.0) ** 2 / density, 0.0, 0.5)
    place = (np.arange(count) * _STEP_1 + rng.random()) % 1.0
    inside = np.floor((np.arange(count) * _STEP_2 + rng.random()) % 1.0 * room)
    last = np.floor(room)
    return np.where(place < at_edge, 0.0, np.where(place < 2 * at_edge, last, inside))


def cut(intervals: Intervals, start: float, length: float) -> Intervals:
    """What a window of `length` seconds from `start` shows of these tasks, times counted from `start`."""
    begin = np.maximum(intervals.submit - start, 0.0)
    end = np.minimum(intervals.submit + intervals.duration - start, np.floor(length))
    seen = end > begin
    return Intervals(begin[seen], (end - begin)[seen])
