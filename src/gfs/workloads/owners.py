"""Which organization each task belongs to, given what it asks for, how long it runs and when it came.

Published are each organization's share of the GPU time of a model, its mean GPUs a job and its GPU-seconds per GPU
asked for. A task goes to an organization the more likely the nearer its size and its running time are to these
means, and the more active the organization is at that hour of the week. One factor for each organization, found by
iterative proportional fitting, then brings every organization its share of the GPU time. Only labels are given
here: no request, running time or submission changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gfs.domain.units import HOUR
from gfs.workloads.rhythms import HOURS_A_WEEK, Floats, activity, hour_of_week

_SIZE_WIDTH, _TIME_WIDTH = 1.5, 3.0
"""How far, in doublings, the sizes and running times of an organization usually lie from its means (a choice)."""
_LASTING = 6 * HOUR
"""Tasks of at least this length are dealt out in turn: one may be all that a small organization has."""
_STEPS, _CLOSE_ENOUGH = 1000, 1e-6
"""Of the fitting: a hundred steps are plenty, and a share may be off by a millionth of itself."""

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Organization:
    """What is published of an organization."""

    share: float
    """Of the GPU time of a GPU model; shares need not add up to 1."""
    gpus_per_job: float
    seconds_per_gpu: float
    """GPU-seconds / GPUs asked for: the mean running time, each job weighted with its GPUs."""


def owners(
    gpus: Floats,
    submit: Floats,
    came: Floats,
    duration: Floats,
    organizations: Mapping[str, Organization],
    rng: np.random.Generator,
) -> list[str]:
    """The organization of each task. `came` tells the hour also of those that run when the window opens."""
    lot = rng.random(len(gpus))
    if not len(gpus):
        return []
    names = sorted(organizations, key=lambda name: (-organizations[name].share, name))
    ranked = [organizations[name] for name in names]
    size, time, hour = _doublings(gpus), _doublings(duration), hour_of_week(came)
    key = ((size - size.min()) * (time.max() + 1) + time) * HOURS_A_WEEK + hour
    _, first, cell = np.unique(key, return_index=True, return_inverse=True)
    work = gpus * duration
    affinity = _affinity(ranked, size[first], time[first], hour[first])
    share = np.asarray([one.share for one in ranked])
    likely = fit_shares(affinity, share, np.bincount(cell, work).astype(np.float64))
    chosen = (lot[:, None] >= np.cumsum(likely, axis=0).T[cell]).sum(axis=1)
    in_turn = np.lexsort((submit, -time))  # longest first: what they leave uneven, shorter ones even out
    lasting = in_turn[duration[in_turn] >= _LASTING]
    chosen[lasting] = deal(likely[:, cell[lasting]], work[lasting], lot[lasting])
    return [names[i] for i in np.minimum(chosen, len(names) - 1).tolist()]


def fit_shares(affinity: Floats, share: Floats, work: Floats) -> Floats:
    """Probability of each organization (row) in each cell (column), so that its part of all `work` is its `share`.

    `factor[o] * affinity[o, c]`, scaled to a sum of 1 in each cell. Rows and cells are scaled in turn until the
    parts are right; all affinities are above 0, so they always become so.
    """
    share, work = share / share.sum(), work / work.sum()
    factor = share.copy()
    for _ in range(_STEPS):
        part = factor * (affinity @ (work / (factor @ affinity)))
        if np.abs(part / share - 1).max() < _CLOSE_ENOUGH:
            break
        factor *= share / part
    likely = factor[:, None] * affinity
    return np.asarray(likely / likely.sum(axis=0), dtype=np.float64)


def deal(likely: Floats, work: Floats, lot: Floats) -> Whole:
    """Organizations (rows of `likely`) for these tasks in turn: drawn like the others, but who is ahead sits out.

    With each task every organization is credited with its probable part of the work, and the one that gets the
    task pays for it. So after any number of tasks each has had its part, to within a task or so.
    """
    credit = np.zeros(len(likely))
    chosen = np.empty(len(work), np.int64)
    for task, (probable, amount, place) in enumerate(zip(likely.T, work, lot, strict=True)):
        credit += probable * amount
        chance = np.cumsum(probable * np.maximum(credit, 0.0))
        chosen[task] = min(int(np.searchsorted(chance, place * chance[-1], side="right")), len(credit) - 1)
        credit[chosen[task]] -= amount
    return chosen


def _doublings(values: Floats) -> Whole:
    """Whole doublings of 1, to the nearest: the classes of sizes and running times."""
    return np.rint(np.log2(values)).astype(np.int64)


def _affinity(organizations: Sequence[Organization], size: Whole, time: Whole, hour: Whole) -> Floats:
    """How well each cell suits each organization (row): a bell around its means, times its habits of the week."""
    sizes = np.log2([one.gpus_per_job for one in organizations])[:, None]
    times = np.log2([one.seconds_per_gpu for one in organizations])[:, None]
    off = ((size - sizes) / _SIZE_WIDTH) ** 2 + ((time - times) / _TIME_WIDTH) ** 2
    active = np.asarray([activity(rank) for rank in range(len(organizations))])
    # relative to the nearest organization: a cell that suits no one must not vanish
    return np.asarray(np.exp((off.min(axis=0) - off) / 2) * active[:, hour], dtype=np.float64)
