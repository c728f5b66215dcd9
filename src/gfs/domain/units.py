"""Units. Card shares are whole numbers of micro-cards, so that sums are exact on every machine."""

from __future__ import annotations

from typing import Final

MICRO: Final = 1_000_000
"""Micro-cards in one GPU card: the resolution of fractional requests."""

HOUR: Final = 3600.0
DAY: Final = 86_400.0


def to_micro(share: float) -> int:
    """Turn a fraction of a card into micro-cards, to the nearest one."""
    return round(share * MICRO)


def format_seconds(seconds: float) -> str:
    """Say a length of time as a person would: '42 s', '12 min', '3.4 h', '2.1 days'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * DAY:
        return f"{seconds / HOUR:.1f} h"
    return f"{seconds / DAY:.1f} days"


def format_clock(seconds: float) -> str:
    """The time of day at so many seconds after midnight: '14:05'."""
    minutes = int(seconds % DAY) // 60
    return f"{minutes // 60:02}:{minutes % 60:02}"


def format_gpus(gpus: float) -> str:
    """Say a number of GPUs without a useless '.0'."""
    return f"{gpus:.0f}" if gpus == int(gpus) else f"{gpus:g}"
