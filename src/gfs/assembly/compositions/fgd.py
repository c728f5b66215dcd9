"""`fgd`: fragmentation gradient descent as the paper compares with it (docs/schedulers/fgd.md)."""

from __future__ import annotations

from gfs.assembly.context import Context
from gfs.assembly.definitions import LearningComposition
from gfs.policies.fgd.fragmentation import ArrivalMix
from gfs.policies.fgd.placement import FgdPlacer
from gfs.policies.fgd.preemption import FgdPreemptor
from gfs.policies.queues import FcfsQueue


def _mix(context: Context) -> ArrivalMix:
    largest = context.pool.sizes[-1]
    mix = context.state.remember("request mix", lambda: ArrivalMix(largest))
    mix.reach(largest)
    context.state.listen(mix)
    return mix


FGD = LearningComposition(
    "fgd",
    "FGD: first come first served, every pod where fragmentation grows least",
    queue=FcfsQueue,
    learner=_mix,
    placer=lambda context, mix: FgdPlacer(context.state, mix),
    preemptor=lambda context, mix: FgdPreemptor(context.pool, mix),
)
