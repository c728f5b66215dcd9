"""GFS: guaranteed and preemptible GPU work on the same cards.

import gfs

result = gfs.simulate("jobs.csv", "nodes.csv", scheduler="gfs")
result.metrics.spot.eviction_rate
result.events.to_pandas()
"""

from gfs.api import Comparison, RunResult, compare, generate, read_trace, simulate
from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import SCHEDULERS
from gfs.domain.errors import BadRow, BadRows, GfsError, InputError, InvariantError, StuckError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Kind, Task
from gfs.domain.workload import Workload
from gfs.version import __version__

__all__ = [
    "SCHEDULERS",
    "BadRow",
    "BadRows",
    "Comparison",
    "GfsError",
    "InputError",
    "InvariantError",
    "Kind",
    "NodeSpec",
    "Parameters",
    "RunResult",
    "StuckError",
    "Task",
    "Workload",
    "__version__",
    "compare",
    "generate",
    "read_trace",
    "simulate",
]
