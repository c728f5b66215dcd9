"""`gfs`: the paper's scheduler, and the paper's variants of it with a part left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from gfs.assembly.context import Context
from gfs.assembly.definitions import Composition
from gfs.core.ports import Placer, Preemptor
from gfs.policies.fit import best_fit
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.gfs.scoring import GfsPlacer
from gfs.policies.queues import SizedQueue
from gfs.policies.random_node import RandomPreemptor


def _by_scores(context: Context) -> Placer:
    return GfsPlacer(context.state, gamma=context.parameters.gamma, m=context.parameters.m)


def by_cost(context: Context, make: Callable[..., Preemptor] = GfsPreemptor) -> Preemptor:
    """A preemptor that goes by the paper's cost."""
    numbers = context.parameters
    return make(context.state, beta=numbers.beta, period=context.period)


def _best_fit(context: Context) -> Placer:
    return best_fit(context.pool)


def _at_random(context: Context) -> Preemptor:
    return RandomPreemptor(context.pool, context.state.remember("random", lambda: Random(context.seed)))


GFS = Composition(
    "gfs",
    "the paper's scheduler: packs, keeps classes together, evicts where least work is lost",
    queue=SizedQueue,
    placer=_by_scores,
    preemptor=by_cost,
    quota="forecast",
)
GFS_E = replace(
    GFS,
    name="gfs-e",
    summary="gfs without its estimator: last week's peak instead of a forecast",
    quota="weekly-peak",
)
GFS_D = replace(GFS, name="gfs-d", summary="gfs without feedback: eta stays 1", quota="forecast-no-feedback")
GFS_S = replace(GFS, name="gfs-s", summary="gfs without its scores: best fit", placer=_best_fit)
GFS_P = replace(
    GFS,
    name="gfs-p",
    summary="gfs without its preemption cost: random nodes and victims",
    preemptor=_at_random,
)
GFS_SP = replace(GFS_P, name="gfs-sp", summary="gfs without scores and preemption cost", placer=_best_fit)
ABLATIONS = (GFS_E, GFS_D, GFS_S, GFS_P, GFS_SP)
