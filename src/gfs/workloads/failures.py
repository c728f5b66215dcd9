"""Node failures of a synthetic trace: times of service and of repair are exponential."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gfs.domain.errors import InputError
from gfs.domain.node import NodeEvent, NodeSpec


def check_failure_times(mtbf_days: float, mttr_hours: float) -> None:
    """Say what is wrong with the mean times, if anything."""
    if not (math.isfinite(mtbf_days) and mtbf_days * 24 >= 1):
        raise InputError(f"The mean time between failures must be at least 1/24 days (one hour), not {mtbf_days:g}.")
    if not (math.isfinite(mttr_hours) and mttr_hours > 0):
        raise InputError(f"The mean time to repair must be above 0 hours, not {mttr_hours:g}.")


def node_failures(
    nodes: Sequence[NodeSpec], length: float, time_between: float, time_to_repair: float, rng: np.random.Generator
) -> tuple[NodeEvent, ...]:
    """Failures before second `length`, and the repair of each, be it after it. Whole seconds, at least one apart.

    A node fails again only after its repair. What happens to it depends on its own place among the nodes alone, so
    that more nodes leave it as it is.
    """
    drawn: list[tuple[float, int, NodeEvent]] = []
    for node, chance in zip(nodes, rng.spawn(len(nodes)), strict=True):
        time = _seconds(chance, time_between)
        while time < length:
            repaired = time + _seconds(chance, time_to_repair)
            drawn.append((time, node.index, NodeEvent(time, node.name, "fail")))
            drawn.append((repaired, node.index, NodeEvent(repaired, node.name, "repair")))
            time = repaired + _seconds(chance, time_between)
    drawn.sort(key=lambda each: each[:2])
    return tuple(event for _, _, event in drawn)


def _seconds(chance: np.random.Generator, mean: float) -> float:
    return max(1.0, float(round(chance.exponential(mean))))
