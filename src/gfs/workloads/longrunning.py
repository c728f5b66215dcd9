"""The few tasks that run for days to months: how long, and when, so that demand rises and falls with the weeks.

A cluster is not empty when a trace of it begins, and not empty when it ends. The published trace shows
this: 3,588 of its jobs already run at hour 0, and its longest jobs last from its first second to its last.
Tasks that run for weeks are therefore placed as a window onto a longer life shows them: some run already at time 0
(and are recorded with what is left of them), some are cut off by the end, the rest lie inside. No long task runs past
the end of the window, as in the published trace. Together they follow the published level of demand, week by week.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gfs.domain.units import HOUR
from gfs.workloads.durations import Floats, log_linear_mean, top_for_mean

_PROPOSALS = 16
"""Starts that are compared for each task: more of them follow the curve more closely."""


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
