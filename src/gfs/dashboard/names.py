"""Names told once and referred to by position, and numbers as short as JSON can write them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from gfs.dashboard.wire import Number


class Names(dict[str, int]):
    """Names and their positions, in order of first appearance."""

    def __missing__(self, name: str) -> int:
        self[name] = position = len(self)
        return position


def plain(values: Iterable[Any]) -> list[Number]:
    """Numbers as JSON writes them shortest: whole ones without '.0', others to six digits after the point."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [int(v) if math.isfinite(v) and float(v).is_integer() else round(float(v), 6) for v in listed]
