"""The schedulers that come with GFS, each as a composition of parts (docs/guides/write-a-part.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gfs.assembly.context import Context
from gfs.assembly.definitions import Composition, LearningComposition, SchedulerDefinition
from gfs.assembly.quotas import ADAPTIVE, build_quota, caution
from gfs.core.ports import Placer, Policy, Preemptor
from gfs.policies.fgd.fragmentation import ArrivalMix, SeenTasks
from gfs.policies.fgd.placement import FgdPlacer
from gfs.policies.fgd.preemption import FgdPreemptor
from gfs.policies.gfs.gang_victims import GangPreemptor
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.gfs.reservation import Reservation, ReservationQueue
from gfs.policies.gfs.scoring import GfsPlacer, GfsPlusPlacer
from gfs.policies.lyra import LoanPlacer, ReclaimPreemptor
from gfs.policies.placement import best_fit, first_fit
from gfs.policies.preemption import Draws, FirstNodePreemptor, RandomPreemptor
from gfs.policies.queues import FcfsQueue, HeadBlockingQueue, SizedQueue

# -- the paper's scheduler, and the paper's variants of it with a part left out ------------------------------


def _by_cost(context: Context) -> Preemptor:
    return GfsPreemptor(
        context.state, beta=context.parameters.beta, period=context.period, tell=context.tell_alternatives
    )


def _best_fit(context: Context) -> Placer:
    return best_fit(context.pool)


GFS = Composition(
    "gfs",
    "the paper's scheduler: packs, keeps classes together, evicts where least work is lost",
    queue=SizedQueue,
    placer=lambda context: GfsPlacer(context.state, gamma=context.parameters.gamma, m=context.parameters.m),
    preemptor=_by_cost,
    quota="forecast",
)
GFS_E = replace(
    GFS, name="gfs-e", summary="gfs without its estimator: last week's peak instead of a forecast", quota="weekly-peak"
)
GFS_D = replace(GFS, name="gfs-d", summary="gfs without feedback: eta stays 1", quota="forecast-no-feedback")
GFS_S = replace(GFS, name="gfs-s", summary="gfs without its scores: best fit", placer=_best_fit)
GFS_P = replace(
    GFS,
    name="gfs-p",
    summary="gfs without its preemption cost: random nodes and victims",
    preemptor=lambda c: RandomPreemptor(c.pool, c.state.remember(Draws).random_of(c.seed)),
)
GFS_SP = replace(GFS_P, name="gfs-sp", summary="gfs without scores and preemption cost", placer=_best_fit)

# -- beyond the paper ----------------------------------------------------------------------------------------


def _for_gangs(context: Context, reservation: Reservation) -> Preemptor:
    return GangPreemptor(
        context.state, eviction_price=context.parameters.eviction_price, tell=context.tell_alternatives
    )


GFS_PLUS = LearningComposition(
    "gfs-plus",
    "gfs and more: classes apart, whole gangs as victims, a quota that keeps the promise, nobody starves",
    queue=SizedQueue,
    learner=lambda c: Reservation(c.state, c.parameters.starvation_timeout, c.parameters.tick, c.reservation_cost),
    placer=lambda c, reservation: GfsPlusPlacer(c.state, reservation, caution=caution(c, ADAPTIVE)),
    preemptor=_for_gangs,
    quota=ADAPTIVE,
    spot_queue=lambda context, reservation: ReservationQueue(reservation, context.pool.demand),
)

# -- what the paper compares with ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChronusDefinition:
    """Leases given out in rounds by an optimizer, so not a `Composition` that serves one task after the other."""

    name: str = "chronus"
    summary: str = "leases given out in rounds: a program picks who holds the next ones, nobody is evicted"
    quota: str = "none"
    leases: bool = True
    """Tasks hold leases: to be stopped at the end of one is no eviction."""

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool."""
        from gfs.policies.chronus.policy import ChronusPolicy  # the solver's library takes its time to load

        parameters = context.parameters
        return ChronusPolicy(
            context.state,
            placer=best_fit(context.pool),
            quota=build_quota(context, self.quota),
            lease=(parameters.hp_lease, parameters.spot_lease),
            resume_overhead=parameters.resume_overhead,
            aging=parameters.lease_aging,
            solver_seconds=parameters.solver_seconds,
        )


def _arrival_mix(context: Context) -> ArrivalMix:
    mix = ArrivalMix(context.state.remember(SeenTasks))
    context.state.listen(mix)
    return mix


CHRONUS = ChronusDefinition()
FGD = LearningComposition(
    "fgd",
    "FGD: first come first served, every pod where fragmentation grows least",
    queue=FcfsQueue,
    learner=_arrival_mix,
    placer=lambda context, mix: FgdPlacer(context.state, mix),
    preemptor=lambda context, mix: FgdPreemptor(context.pool, mix),
)
LYRA = Composition(
    "lyra",
    "Lyra: spot tasks on whole nodes that HP lends, the cheapest node is taken back",
    queue=SizedQueue,
    placer=lambda context: LoanPlacer(context.pool),
    preemptor=lambda context: ReclaimPreemptor(context.state),
)
STATIC = Composition(
    "static",
    "before GFS: fixed spot quota, first come first served, first fit",
    queue=FcfsQueue,
    placer=lambda context: first_fit(context.pool),
    preemptor=lambda context: FirstNodePreemptor(context.pool),
    quota="fixed",
)
YARN_CS = Composition(
    "yarn-cs",
    "YARN's capacity scheduler: strict order of arrival, best fit, plain preemption",
    queue=HeadBlockingQueue,
    placer=_best_fit,
    preemptor=lambda context: FirstNodePreemptor(context.pool),
)

BUILT_IN: tuple[SchedulerDefinition, ...] = (
    GFS, GFS_PLUS, GFS_E, GFS_D, GFS_S, GFS_P, GFS_SP, CHRONUS, FGD, LYRA, STATIC, YARN_CS,
)  # fmt: skip
