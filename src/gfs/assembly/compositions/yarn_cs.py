"""`yarn-cs`: YARN's capacity scheduler as the paper compares with it (docs/concepts/how-gfs-decides.md)."""

from __future__ import annotations

from gfs.assembly.definitions import Composition
from gfs.policies.first_node import FirstNodePreemptor
from gfs.policies.fit import best_fit
from gfs.policies.queues import HeadBlockingQueue

YARN_CS = Composition(
    "yarn-cs",
    "YARN's capacity scheduler: strict order of arrival, best fit, plain preemption",
    queue=HeadBlockingQueue,
    placer=lambda context: best_fit(context.pool),
    preemptor=lambda context: FirstNodePreemptor(context.pool),
)
