"""Quantities, durations and moments as Kubernetes and users write them: '500m', '64Gi', '1h30m', RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import isfinite
from typing import Any

UNITS = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
GIB = 2.0**30
MOST = 1e18

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:[eE]([+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i))?"
)
_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?|(\d{1,11})", re.ASCII)
_SECONDS = (86400, 3600, 60, 1, 1)


def quantity(text: Any) -> float | None:
    """Returns the number that a quantity stands for; None: it is none, is negative or above `MOST`."""
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None:
        return None
    number = float(f"{match[1]}e{match[2]}") if match[2] else float(match[1]) * UNITS[match[3] or ""]
    return number if isfinite(number) and 0 <= number <= MOST else None


def duration(text: Any) -> float | None:
    """Returns seconds of '90s', '30m', '1h', '1h30m', '2d' or a plain number of seconds; None: it is none, or 0."""
    match = _DURATION.fullmatch(str(text).strip())
    if match is None:
        return None
    seconds = float(sum(int(part or 0) * unit for part, unit in zip(match.groups(), _SECONDS, strict=True)))
    return seconds if 0 < seconds <= 1e9 else None


def moment(text: Any) -> float | None:
    """Returns seconds since 1970 of an RFC 3339 time such as '2026-04-01T12:00:00Z'; None: it is none."""
    try:
        parsed = datetime.fromisoformat(str(text).strip())
        return parsed.timestamp() if parsed.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None


def rfc3339(seconds: float) -> str:
    """Returns a moment as the API server writes it, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
