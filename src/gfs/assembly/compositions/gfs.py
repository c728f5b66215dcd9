"""`gfs`: the paper's scheduler (SPEC 3)."""

from __future__ import annotations

from gfs.assembly.context import Context
from gfs.assembly.recipes import Composition
from gfs.core.ports import Placer, Preemptor
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.gfs.scoring import GfsPlacer
from gfs.policies.queues import SizedQueue


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


GFS = Composition(
    "gfs",
    "the paper's scheduler: packs, keeps classes together, evicts where least work is lost",
    queue=SizedQueue,
    placer=_placer,
    preemptor=_preemptor,
)
