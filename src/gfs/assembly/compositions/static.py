"""`static`: what operators have before GFS (docs/concepts/how-gfs-decides.md)."""

from __future__ import annotations

from gfs.assembly.definitions import Composition
from gfs.policies.first_node import FirstNodePreemptor
from gfs.policies.fit import first_fit
from gfs.policies.queues import FcfsQueue

STATIC = Composition(
    "static",
    "before GFS: fixed spot quota, first come first served, first fit",
    queue=FcfsQueue,
    placer=lambda context: first_fit(context.pool),
    preemptor=lambda context: FirstNodePreemptor(context.pool),
    quota="fixed",
)
