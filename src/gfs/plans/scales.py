"""How much more spot work to try with the recommended setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MOST: Final = 4.0


def first_scales(holds: bool, quick: bool) -> tuple[float, ...]:
    """Where to look first, given whether the spot work of the trace itself can be sold."""
    if quick:
        return (2.0,) if holds else (0.5,)
    return (2.0, MOST) if holds else (0.5,)


def last_scale(holds: Mapping[float, bool]) -> float | None:
    """Where to look last: between the largest that holds and the smallest that does not; None: nowhere."""
    best = largest_scale(holds)
    above = [scale for scale in holds if scale > best]
    if not above:
        return None
    return (best + min(above)) / 2


def largest_scale(holds: Mapping[float, bool]) -> float:
    """The largest multiple of the spot work that holds, all smaller ones that were tried as well; 0: none does."""
    best = 0.0
    for scale in sorted(holds):
        if not holds[scale]:
            break
        best = scale
    return best
