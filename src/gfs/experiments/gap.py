"""How far the victims of gfs-plus are from the best ones: sampled decisions of a run against a MILP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gfs.assembly.compositions.gfs import by_cost
from gfs.assembly.compositions.gfs_plus import GFS_PLUS
from gfs.assembly.parameters import Parameters
from gfs.assembly.run import run_simulation
from gfs.batch.job import JobResult
from gfs.batch.traces import Trace, load
from gfs.core.ports import Victims
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.policies.gfs.exact_victims import least_weight
from gfs.policies.gfs.gang_victims import GangPreemptor

Sample = list[tuple[float, float]]
"""What the victims weigh, and what the best ones would."""
MOST = 120
"""Decisions that are compared."""
EVERY = 5
"""One in so many decisions on gangs is, until there are enough."""


class SampledPreemptor(GangPreemptor):
    """Notes, for one gang in `EVERY`, what its victims weigh and what the best ones would."""

    def __init__(self, state: PoolState, *, sample: Sample, **numbers: Any) -> None:
        super().__init__(state, **numbers)
        self._nodes = state.pool.nodes
        self._sample = sample
        self._decisions = 0

    def choose_gang(self, task: Task, pods: int, now: float) -> Victims | None:
        """As without being looked at."""
        chosen = super().choose_gang(task, pods, now)
        if chosen is not None and pods > 1 and len(self._sample) < MOST:
            self._decisions += 1
            if self._decisions % EVERY == 0:
                weights = self.weights(now)
                weight = sum(weights.of(run, now) for run in chosen.runs)
                best = least_weight(self.runs(), self._nodes, task.cards, pods, weights, now)
                self._sample.append((weight, best))
        return chosen


@dataclass(frozen=True, slots=True)
class GapSample:
    """The optimality gap of gfs-plus on a trace."""

    trace: Trace

    @property
    def label(self) -> str:
        """What it is."""
        return f"optimality gap on {self.trace.label}"

    @property
    def weight(self) -> float:
        """About as long as a large run."""
        return 90.0

    def identity(self) -> dict[str, Any]:
        """All that it depends on."""
        return {"job": "gap", "trace": self.trace.identity(), "most": MOST, "every": EVERY}

    def run(self) -> JobResult:
        """Run gfs-plus without a quota, so that many decisions are made, and compare some of them."""
        sample: Sample = []
        preemptor = partial(SampledPreemptor, sample=sample)
        recipe = replace(
            GFS_PLUS, name="gfs-plus-sampled", preemptor=lambda context, keeper: by_cost(context, preemptor)
        )
        run_simulation(load(self.trace), recipe, Parameters(quota="none"))
        gaps = np.array([weight / best - 1 for weight, best in sample if best > 0])
        return {"gaps": np.maximum(gaps, 0.0).round(6).tolist()}
