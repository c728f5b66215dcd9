"""What tasks ask for: GPUs a pod and pods a task, with the shares of the published request mix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gfs.workloads.calibration import figures
from gfs.workloads.durations import Floats


@dataclass(frozen=True, slots=True)
class RequestMix:
    """Shares of tasks by GPUs a pod, and how gangs (tasks of more than one pod) cross them."""

    sizes: Mapping[float, float]
    """Share of the tasks by GPUs a pod; scaled to a sum of 1."""
    gang_share: float
    """Share of the tasks that have more than one pod."""
    gang_sizes: Mapping[float, float]
    """Share of the gangs by GPUs a pod."""
    gang_limit: float
    """The largest gang, as a share of the cards of the pool."""

    def mean_gpus(self, cards: int) -> float:
        """GPUs a task asks for on average in a pool of this many cards."""
        total = sum(self.sizes.values())
        mean = sum(size * share for size, share in self.sizes.items()) / total
        for size, share in self.gang_sizes.items():
            table = _gang_table(int(self.gang_limit * cards // size))
            if len(table):
                pods = float(table[:, 0] @ table[:, 1] / table[:, 1].sum())
                mean += self.gang_share * share * size * (pods - 1)
        return mean


@dataclass(frozen=True, slots=True)
class Requests:
    """GPUs a pod and pods of each task."""

    gpus_per_pod: Floats
    pods: NDArray[np.int64]

    @property
    def gpus(self) -> Floats:
        """GPUs of each whole task."""
        return self.gpus_per_pod * self.pods


def draw_requests(mix: RequestMix, count: int, cards: int, rng: np.random.Generator) -> Requests:
    """`count` requests in random order. The counts by size and of gangs are exact, to the nearest task."""
    sizes = sorted(mix.sizes)
    counts = apportion([mix.sizes[size] for size in sizes], count)
    limit = mix.gang_limit * cards
    gang_weights = [mix.gang_sizes.get(size, 0.0) if limit // size >= 2 else 0.0 for size in sizes]
    wanted = round(mix.gang_share * count) if any(gang_weights) else 0
    gangs = np.minimum(apportion(gang_weights, wanted), counts)
    per_pod = np.repeat(np.asarray(sizes, dtype=np.float64), counts)
    pods = np.concatenate(
        [
            np.concatenate([_gang_pods(int(limit // size), many, rng), np.ones(total - many, np.int64)])
            for size, total, many in zip(sizes, counts, gangs, strict=True)
        ]
    )
    order = rng.permutation(count)
    return Requests(per_pod[order], pods[order])


def apportion(weights: Sequence[float], total: int) -> NDArray[np.int64]:
    """Split `total` in proportion to `weights`: whole numbers, largest remainders first, exact sum."""
    ideal: Floats = np.asarray(weights, dtype=np.float64)
    if not total or not ideal.sum():
        return np.zeros(len(ideal), np.int64)
    ideal = ideal / ideal.sum() * total
    parts: NDArray[np.int64] = np.floor(ideal).astype(np.int64)
    missing = total - int(parts.sum())
    parts[np.argsort(parts - ideal, kind="stable")[:missing]] += 1
    return parts


def _gang_pods(limit: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Pods of `count` gangs of at most `limit` pods, as often as in the published table."""
    table = _gang_table(limit)
    if not len(table):
        return np.ones(count, np.int64)
    share = (np.arange(count) + rng.random(count)) / max(count, 1)
    cumulative = np.cumsum(table[:, 1]) / table[:, 1].sum()
    pods: NDArray[np.int64] = table[np.minimum(np.searchsorted(cumulative, share), len(table) - 1), 0]
    return pods


def _gang_table(limit: int) -> NDArray[np.int64]:
    """The published [pods, jobs] up to `limit` pods."""
    table: NDArray[np.int64] = np.asarray(figures()["gangs"]["jobs_by_pods"], dtype=np.int64)
    small: NDArray[np.int64] = table[table[:, 0] <= limit]
    return small
