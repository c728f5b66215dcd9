"""Which of the candidates that were tried in a pool to recommend, and which cannot be told apart from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gfs.domain.errors import InputError
from gfs.plans.candidates import Candidate, Family
from gfs.plans.certainty import Finding, Interval, difference, finding
from gfs.plans.evidence import Sums, total
from gfs.plans.targets import Target, all_met, total_miss

Tried = Mapping[Candidate, Sequence[Sums]]
"""What was tried in a pool, with its blocks."""


def order(candidate: Candidate, sums: Sums, targets: Sequence[Target]) -> tuple[Any, ...]:
    """The best first: within all targets by the mean spot wait, then evictions, waste and what is simplest.

    Beyond the targets: by how much they are missed in all, then the same.
    """
    miss = total_miss(targets, sums)
    return (miss, sums.spot_wait, sums.evicted, sums.wasted_gpu_hours, candidate.rank)


def ranked(
    tried: Tried, targets: Sequence[Target], part: Callable[[Sequence[Sums]], Sequence[Sums]] = lambda blocks: blocks
) -> list[Candidate]:
    """All that was tried, the best first; `part` picks the blocks by which to judge."""
    sums = {candidate: total(part(blocks)) for candidate, blocks in tried.items()}
    return sorted(tried, key=lambda candidate: order(candidate, sums[candidate], targets))


def choose(
    tried: Tried, targets: Sequence[Target], part: Callable[[Sequence[Sums]], Sequence[Sums]] = lambda blocks: blocks
) -> Candidate:
    """The best: never worse than any other that was tried, by the same targets on the same blocks."""
    if not tried:
        raise InputError("no setting could be simulated")
    return ranked(tried, targets, part)[0]


def best_of_families(tried: Tried, targets: Sequence[Target]) -> dict[Family, Candidate]:
    """Of each scheduler with each kind of quota the best, the best family first."""
    best: dict[Family, Candidate] = {}
    for candidate in ranked(tried, targets):
        best.setdefault(candidate.family, candidate)
    return best


@dataclass(frozen=True, slots=True)
class Rival:
    """The best of another family beside the recommended one."""

    candidate: Candidate
    sums: Sums
    meets: bool
    """Whether it keeps all targets."""
    wait: Interval | None
    """Its mean spot wait minus that of the recommended one; None where it cannot be told."""
    finding: Finding | None
    """Of that difference: 'worse' says that the recommended one waits less."""


def rivals(
    chosen: Sequence[Sums],
    compared: Mapping[Candidate, Sequence[Sums]],
    every: Mapping[Candidate, Sums],
    targets: Sequence[Target],
) -> list[Rival]:
    """Each of `every` beside the chosen one: `compared` has the same blocks of those that can be compared by them."""
    found = []
    for candidate, sums in every.items():
        blocks = compared.get(candidate)
        gap = None if blocks is None else difference(blocks, chosen, lambda s: s.spot_wait)
        found.append(Rival(candidate, sums, all_met(targets, sums), gap, None if gap is None else finding(gap)))
    return found
