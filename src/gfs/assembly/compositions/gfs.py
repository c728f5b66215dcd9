"""`gfs`: the paper's scheduler (SPEC 3, 4), and the paper's variants of it with a part left out (SPEC 6)."""

from __future__ import annotations

from gfs.assembly.context import Context
from gfs.assembly.recipes import Composition
from gfs.core.ports import Placer, Preemptor
from gfs.policies.fit import best_fit
from gfs.policies.gfs.gang_victims import GangPreemptor
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.gfs.scoring import GfsPlacer
from gfs.policies.queues import SizedQueue
from gfs.policies.random_node import RandomPreemptor


def _placer(context: Context) -> Placer:
    return GfsPlacer(context.pool, gamma=context.parameters.gamma, m=context.parameters.m)


def _preemptor(context: Context) -> Preemptor:
    return GfsPreemptor(
        context.pool,
        context.ledger,
        rules=context.parameters.rules,
        beta=context.parameters.beta,
        period=context.period,
    )


def _gang_preemptor(context: Context) -> Preemptor:
    return GangPreemptor(
        context.pool,
        context.ledger,
        rules=context.parameters.rules,
        beta=context.parameters.beta,
        period=context.period,
    )


def _best_fit(context: Context) -> Placer:
    return best_fit(context.pool)


def _by_lot(context: Context) -> Preemptor:
    return RandomPreemptor(context.pool, context.seed)


GFS = Composition(
    "gfs",
    "the paper's scheduler: packs, keeps classes together, evicts where least work is lost",
    queue=SizedQueue,
    placer=_placer,
    preemptor=_preemptor,
)
GFS_E = Composition(
    "gfs-e",
    "gfs without its estimator: last week's peak instead of a forecast",
    queue=SizedQueue,
    placer=_placer,
    preemptor=_preemptor,
    quota="weekly-peak",
)
GFS_D = Composition(
    "gfs-d",
    "gfs without feedback: eta stays 1",
    queue=SizedQueue,
    placer=_placer,
    preemptor=_preemptor,
    quota="open-loop",
)
GFS_S = Composition(
    "gfs-s",
    "gfs without its scores: best fit",
    queue=SizedQueue,
    placer=_best_fit,
    preemptor=_preemptor,
    quota="forecast",
)
GFS_P = Composition(
    "gfs-p",
    "gfs without its preemption cost: nodes and victims by lot",
    queue=SizedQueue,
    placer=_placer,
    preemptor=_by_lot,
    quota="forecast",
)
GFS_SP = Composition(
    "gfs-sp",
    "gfs without scores and preemption cost",
    queue=SizedQueue,
    placer=_best_fit,
    preemptor=_by_lot,
    quota="forecast",
)
GFS_PLUS = Composition(
    "gfs-plus",
    "gfs and more: victims for a whole gang at once, a quota that keeps back what the promise takes",
    queue=SizedQueue,
    placer=_placer,
    preemptor=_gang_preemptor,
    quota="adaptive",
)
ABLATIONS = (GFS_E, GFS_D, GFS_S, GFS_P, GFS_SP)
