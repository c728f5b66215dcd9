"""`gfs-plus`: beyond the paper, by name only."""

from __future__ import annotations

from gfs.assembly.compositions.gfs import by_cost
from gfs.assembly.context import Context
from gfs.assembly.definitions import LearningComposition
from gfs.core.ports import Placer, Preemptor, Queue
from gfs.policies.gfs.gang_victims import GangPreemptor
from gfs.policies.gfs.keeper import Keeper
from gfs.policies.gfs.patient import KeepingPlacer, PatientQueue
from gfs.policies.queues import SizedQueue


def _keeper(context: Context) -> Keeper:
    return Keeper(context.state, context.parameters.starvation_timeout, context.kept)


def _placer(context: Context, keeper: Keeper) -> Placer:
    return KeepingPlacer(context.state, keeper, gamma=context.parameters.gamma, m=context.parameters.m)


def _preemptor(context: Context, keeper: Keeper) -> Preemptor:
    return by_cost(context, GangPreemptor)


def _spot_queue(context: Context, keeper: Keeper) -> Queue:
    return PatientQueue(keeper, context.asks)


GFS_PLUS = LearningComposition(
    "gfs-plus",
    "gfs and more: classes apart, whole gangs as victims, a quota that keeps the promise, nobody starves",
    queue=SizedQueue,
    learner=_keeper,
    placer=_placer,
    preemptor=_preemptor,
    quota="adaptive",
    spot_queue=_spot_queue,
)
