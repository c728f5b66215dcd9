"""`fgd`: fragmentation gradient descent as the paper compares with it (SPEC 6)."""

from __future__ import annotations

from gfs.assembly.recipes import LearningComposition
from gfs.policies.fgd.fragmentation import RequestMix
from gfs.policies.fgd.placement import FgdPlacer
from gfs.policies.fgd.preemption import FgdPreemptor
from gfs.policies.queues import FcfsQueue

FGD = LearningComposition(
    "fgd",
    "FGD: first come first served, every pod where fragmentation grows least",
    queue=FcfsQueue,
    learner=lambda context: RequestMix(context.pool.sizes[-1]),
    placer=lambda context, mix: FgdPlacer(context.pool, mix),
    preemptor=lambda context, mix: FgdPreemptor(context.pool, mix),
)
