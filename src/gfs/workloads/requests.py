"""What tasks ask for: GPUs a pod and pods a task, with the shares of the published request mix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gfs.workloads.calibration import figures
from gfs.workloads.rhythms import Floats

_MOST_TILT = 6.0


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
    mean_gpus: float
    """GPUs a task asks for on average, as published for the pool: it decides how often gangs are large."""

    def gang_tables(self, cards: int) -> dict[float, GangTable]:
        """GPUs a pod -> the gangs of such pods in a pool of this many cards.

        The published table of pods a gang is one for all pools. Its counts are multiplied with `pods ** tilt`, with
        the tilt that brings the pool its published mean, or as near to it as gangs up to the limit can.
        """
        total = sum(self.sizes.values())
        single = sum(size * share for size, share in self.sizes.items()) / total
        wanted = (self.mean_gpus - single) / self.gang_share if self.gang_share else 0.0

        def tables(tilt: float) -> dict[float, GangTable]:
            return {size: _gang_table(int(self.gang_limit * cards // size), tilt) for size in self.gang_sizes}

        def beyond(tilt: float) -> float:
            found = tables(tilt)
            asked = sum(share * size * (found[size].mean - 1) for size, share in self.gang_sizes.items())
            return asked / sum(self.gang_sizes.values()) - wanted

        if not self.gang_share or beyond(-_MOST_TILT) > 0:
            return tables(-_MOST_TILT)
        return tables(_MOST_TILT if beyond(_MOST_TILT) < 0 else brentq(beyond, -_MOST_TILT, _MOST_TILT, xtol=1e-9))


@dataclass(frozen=True, slots=True)
class GangTable:
    """How often a gang has so many pods."""

    pods: NDArray[np.int64]
    weight: Floats

    @property
    def mean(self) -> float:
        """Pods of a gang on average; 1 where there can be none."""
        return float(self.pods @ self.weight / self.weight.sum()) if len(self.pods) else 1.0


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
    tables = mix.gang_tables(cards)
    pods = np.concatenate(
        [
            np.concatenate([_gang_pods(tables[size], many, rng) if many else [], np.ones(total - many)])
            for size, total, many in zip(sizes, counts, gangs, strict=True)
        ]
    )
    order = rng.permutation(count)
    return Requests(per_pod[order], pods[order].astype(np.int64))


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


def _gang_pods(table: GangTable, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Pods of `count` gangs, as often as in the table."""
    if not len(table.pods):
        return np.ones(count, np.int64)
    share = (np.arange(count) + rng.random(count)) / max(count, 1)
    cumulative = np.cumsum(table.weight) / table.weight.sum()
    pods: NDArray[np.int64] = table.pods[np.minimum(np.searchsorted(cumulative, share), len(table.pods) - 1)]
    return pods


def _gang_table(limit: int, tilt: float) -> GangTable:
    """The published table up to `limit` pods, tilted towards large gangs or away from them."""
    table = np.asarray(figures()["gangs"]["jobs_by_pods"], dtype=np.int64)
    table = table[table[:, 0] <= limit]
    return GangTable(table[:, 0], table[:, 1] * (table[:, 0] / 2.0) ** tilt)
