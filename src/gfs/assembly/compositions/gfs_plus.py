"""`gfs-plus`: beyond the paper, by name only."""

from __future__ import annotations

from gfs.assembly.compositions.gfs import by_cost
from gfs.assembly.context import Context
from gfs.assembly.definitions import LearningComposition
from gfs.core.ports import Placer, Preemptor, Queue
from gfs.policies.gfs.gang_victims import GangPreemptor
from gfs.policies.gfs.reservation import Reservation, ReservationPlacer, ReservationQueue
from gfs.policies.queues import SizedQueue


def _reservation(context: Context) -> Reservation:
    return Reservation(context.state, context.parameters.starvation_timeout, context.reservation_cost)


def _placer(context: Context, reservation: Reservation) -> Placer:
    return ReservationPlacer(context.state, reservation, gamma=context.parameters.gamma, m=context.parameters.m)


def _preemptor(context: Context, reservation: Reservation) -> Preemptor:
    return by_cost(context, GangPreemptor)


def _spot_queue(context: Context, reservation: Reservation) -> Queue:
    return ReservationQueue(reservation, context.asks)


GFS_PLUS = LearningComposition(
    "gfs-plus",
    "gfs and more: classes apart, whole gangs as victims, a quota that keeps the promise, nobody starves",
    queue=SizedQueue,
    learner=_reservation,
    placer=_placer,
    preemptor=_preemptor,
    quota="adaptive",
    spot_queue=_spot_queue,
)
