"""Everything a scheduler, a quota or a forecaster of your own is put together from: what a plug-in needs, in one place.

    from gfs.parts import Composition, Context, NodeIndex, SizedQueue, GfsPreemptor

A definition (`Composition`, or an object of your own with `name`, `summary`, `quota` and `build(context)`) builds
the policy of one pool from its state. It is called at the beginning, and again whenever the pool's nodes have
changed: a part keeps what it can work out again, and asks `state.remember(kind)` for what it cannot. The
guides show how: docs/guides/add-a-scheduler.md and docs/guides/write-a-part.md.
"""

from gfs.assembly.context import Context, QuotaDefinition
from gfs.assembly.definitions import Composition, LearningComposition, SchedulerDefinition
from gfs.assembly.quotas import build_quota
from gfs.core.actions import NOTHING, Eviction, Plan
from gfs.core.filters.base import Filter
from gfs.core.filters.nodes import NodeRule
from gfs.core.index import Bucket, NodeIndex, Rank
from gfs.core.listeners import Listener
from gfs.core.node import Node, Place
from gfs.core.pool import Pool
from gfs.core.ports import (
    Attempt,
    Placer,
    Policy,
    Preemptor,
    Queue,
    Quota,
    QuotaRow,
    TaskLimit,
    Victims,
)
from gfs.core.reasons import Reason
from gfs.core.run import End, Run, Waiting
from gfs.core.state import PoolState
from gfs.core.trial import Trial
from gfs.domain.task import Priority, Role, Task
from gfs.forecasting.forecast import BaseForecast, Estimator, Forecast, NormalForecast, Predictor
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.policies.gfs.preemption import GfsPreemptor
from gfs.policies.gfs.scoring import GfsPlacer
from gfs.policies.greedy import GreedyPolicy
from gfs.policies.placement import Chooser, best_fit, first_fit
from gfs.policies.preemption import Draws, FirstNodePreemptor, RandomPreemptor, victims_on
from gfs.policies.queues import Demand, FcfsQueue, HeadBlockingQueue, SizedQueue
from gfs.quota.static import FixedMemory, FixedQuota, UnlimitedQuota

__all__ = [
    "NOTHING",
    "Attempt",
    "BaseForecast",
    "Bucket",
    "Chooser",
    "Composition",
    "Context",
    "Demand",
    "DemandHistory",
    "Draws",
    "End",
    "Estimator",
    "Eviction",
    "FcfsQueue",
    "Filter",
    "FirstNodePreemptor",
    "FixedMemory",
    "FixedQuota",
    "Forecast",
    "GfsPlacer",
    "GfsPreemptor",
    "GreedyPolicy",
    "HeadBlockingQueue",
    "LearningComposition",
    "Listener",
    "Node",
    "NodeIndex",
    "NodeRule",
    "NormalForecast",
    "Place",
    "Placer",
    "Plan",
    "Policy",
    "Pool",
    "PoolState",
    "Predictor",
    "Preemptor",
    "Priority",
    "Queue",
    "Quota",
    "QuotaDefinition",
    "QuotaRow",
    "RandomPreemptor",
    "Rank",
    "Reason",
    "Role",
    "Run",
    "SchedulerDefinition",
    "SeriesKey",
    "SizedQueue",
    "Task",
    "TaskLimit",
    "Trial",
    "UnlimitedQuota",
    "Victims",
    "Waiting",
    "best_fit",
    "build_quota",
    "first_fit",
    "victims_on",
]  # fmt: skip
