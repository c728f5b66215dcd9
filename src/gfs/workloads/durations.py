"""How long tasks run, and which task runs how long.

Running times come from published quantiles: log-linear between the knots, the longest knot set by the mean.

The few tasks that run for days to months are placed so that demand rises and falls with the weeks. A cluster is not
empty when a trace of it begins, and not empty when it ends. The published trace shows this: 3,588 of its jobs already
run at hour 0, and its longest jobs last from its first second to its last. Tasks that run for weeks are therefore
placed as a window onto a longer life shows them: some run already at time 0 (and are recorded with what is left of
them), some are cut off by the end, the rest lie inside. No long task runs past the end of the window, as in the
published trace. Together they follow the published level of demand, week by week.

Requests and running times are each as published; how they go together sets the load. Only the pairing is chosen here,
never a request or a running time: large tasks run shorter or longer on the whole, as much as is needed for the
GPU-seconds that the pool is to be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gfs.domain.units import HOUR
from gfs.workloads.rhythms import Floats, longer_by_day

_PROPOSALS = 16
"""Starts that are compared for each task: more of them follow the curve more closely."""
_SPREAD = 2.0
"""Standard deviation of the log of a running time: (ln 3600 - ln 1100) / 0.58 for the published quantiles."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A quantile function: `seconds[i]` is not exceeded by `shares[i]` of the tasks."""

    shares: tuple[float, ...]
    seconds: tuple[float, ...]

    def at(self, share: Floats) -> Floats:
        """Seconds at each share, log-linear between the knots."""
        return np.asarray(np.exp(np.interp(share, self.shares, np.log(self.seconds))), dtype=np.float64)

    def mean(self) -> float:
        """Mean of the tasks between the first and the last knot."""
        pieces = zip(self.shares, self.shares[1:], self.seconds, self.seconds[1:], strict=False)
        total = sum((b - a) * log_linear_mean(low, high) for a, b, low, high in pieces)
        return total / (self.shares[-1] - self.shares[0])

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """`count` whole seconds, one from each of `count` equal slices, shortest first.

        Slices instead of free draws: the quantiles and the mean of the sample are those of the function
        whatever the seed, and only what lies between the slices is chance.
        """
        if not count:
            return np.empty(0)
        width = (self.shares[-1] - self.shares[0]) / count
        share = self.shares[0] + (np.arange(count) + rng.random(count)) * width
        return np.maximum(np.rint(self.at(share)), 1.0)


def log_linear_mean(low: float, high: float) -> float:
    """Mean of a piece of a quantile function that is log-linear from `low` to `high`."""
    return low if high <= low else (high - low) / float(np.log(high / low))


def top_for_mean(low: float, mean: float) -> float:
    """The upper knot that gives a log-linear piece from `low` upwards this `mean`."""
    if mean <= low:
        return low
    found: float = brentq(lambda top: log_linear_mean(low, top) - mean, low * 1.000001, mean * 1000.0)
    return found


def with_mean(shares: tuple[float, ...], seconds: tuple[float, ...], mean: float) -> Quantiles:
    """The quantile function through these knots whose last piece, up to share 1, brings about `mean`."""
    rest = Quantiles(shares, seconds)
    last = 1.0 - shares[-1]
    top = top_for_mean(seconds[-1], (mean - rest.mean() * (shares[-1] - shares[0])) / last)
    return Quantiles((*shares, 1.0), (*seconds, top))


def long_durations(count: int, shortest: float, mean: float, horizon: float, rng: np.random.Generator) -> Floats:
    """`count` running times of at least `shortest` and about `mean` seconds, up to the whole `horizon`.

    They are log-linear from `shortest` up to the length that gives the mean. Where even the whole horizon as the
    longest does not, as many as needed last the whole horizon.
    """
    if not count:
        return np.empty(0)
    longest = min(top_for_mean(shortest, mean), horizon)
    varied_mean = log_linear_mean(shortest, longest)
    whole = 0
    if longest == horizon and mean > varied_mean:
        whole = min(count, round(count * (mean - varied_mean) / (horizon - varied_mean)))
    varied = count - whole
    share = (np.arange(varied) + rng.random(varied)) / max(varied, 1)
    lengths = np.rint(shortest * (longest / shortest) ** share)
    return np.concatenate([lengths, np.full(whole, np.floor(horizon))])


def starts(gpus: Floats, durations: Floats, weeks: Sequence[float], horizon: float, rng: np.random.Generator) -> Floats:
    """When tasks begin in [0, horizon - duration] so that what they hold together follows `weeks`.

    `weeks` are relative levels at equal distances over the horizon. Those with the most GPU-seconds are placed first;
    each takes of a few starts the one where most is missing.
    """
    hours = int(np.ceil(horizon / HOUR))
    middles = (np.arange(len(weeks)) + 0.5) / len(weeks) * hours
    level = np.interp(np.arange(hours) + 0.5, middles, weeks)
    work = gpus * durations
    missing = level / level.sum() * work.sum() / HOUR
    begun = np.zeros(len(gpus))
    for task in np.lexsort((np.arange(len(work)), -work)):
        room = max(np.floor(horizon - durations[task]), 0.0)
        proposed = np.floor(np.concatenate([[0.0, room], rng.random(_PROPOSALS) * room]))
        first = (proposed // HOUR).astype(np.int64)
        last = np.minimum(np.ceil((proposed + durations[task]) / HOUR).astype(np.int64), hours)
        until = np.concatenate([[0.0], np.cumsum(missing)])
        best = int(np.argmax((until[last] - until[first]) / (last - first)))
        begun[task] = proposed[best]
        missing[first[best] : last[best]] -= gpus[task]
    return begun


def cut(submit: Floats, durations: Floats, start: float, length: float) -> tuple[Floats, Floats]:
    """Starts and durations as a window of `length` seconds from `start` shows them; 0 seconds for those not seen."""
    begin = np.maximum(submit - start, 0.0)
    end = np.minimum(submit + durations - start, np.floor(length))
    return begin, np.maximum(end - begin, 0.0)


def pick_long_tasks(
    gpus: Floats, durations: Floats, largest: float, target: float | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The tasks that run for these long `durations`, in the same order: at most `largest` GPUs each.

    Tasks are drawn with a weight of `gpus ** power`; of many powers the one is taken that brings
    the GPU-seconds nearest to `target` (None: power 0).
    """
    able = np.flatnonzero(gpus <= largest)
    count = min(len(durations), len(able))
    if not count:
        return np.empty(0, np.int64)
    luck = rng.gumbel(size=len(able))
    shuffle = rng.permutation(count)
    logs = np.log(gpus[able])
    best, best_error = np.empty(0, np.int64), np.inf
    for power in np.linspace(-2.5, 4.0, 131) if target is not None else (0.0,):
        keys = luck + power * logs
        chosen = np.sort(np.argpartition(-keys, count - 1)[:count])
        picked = able[chosen[shuffle]]
        error = abs(float(gpus[picked] @ durations[:count]) - (target or 0.0))
        if error < best_error:
            best, best_error = picked, error
    return best


def pair_durations(
    gpus: Floats, submit: Floats, durations: Floats, window: float, target: float | None, rng: np.random.Generator
) -> Floats:
    """Give each task one of the ascending `durations`; GPU-seconds inside the window meet `target`.

    Tasks get them in the order of `chance - strength * log2(gpus) + longer by day`; the strength is found by
    bisection (None: 0). Tasks submitted in working hours run longer, as published.
    """
    base = rng.standard_normal(len(gpus)) + longer_by_day(submit) / _SPREAD
    logs = np.log2(np.maximum(gpus, 0.25))
    room = window - submit

    def order_for(strength: float) -> NDArray[np.int64]:
        return np.argsort(base - strength * logs, kind="stable")

    def asked(order: NDArray[np.int64]) -> float:
        return float(gpus[order] @ np.minimum(durations, room[order]))

    order = order_for(0.0)
    if target is not None:
        low, high = -2.0, 2.0
        for _ in range(22):
            middle = (low + high) / 2
            order = order_for(middle)
            low, high = (middle, high) if asked(order) > target else (low, middle)
    paired = np.empty(len(gpus))
    paired[order] = durations
    return paired
