"""`lyra`: capacity loaning between HP and spot tasks, as the paper compares with it (docs/schedulers/lyra.md)."""

from __future__ import annotations

from gfs.assembly.definitions import Composition
from gfs.policies.lyra.loans import LoanPlacer
from gfs.policies.lyra.reclaim import ReclaimPreemptor
from gfs.policies.queues import SizedQueue

LYRA = Composition(
    "lyra",
    "Lyra: spot tasks on whole nodes that HP lends, the cheapest node is taken back",
    queue=SizedQueue,
    placer=lambda context: LoanPlacer(context.pool),
    preemptor=lambda context: ReclaimPreemptor(context.state),
)
