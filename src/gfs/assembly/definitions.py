"""A scheduler definition: how the scheduler of one pool is put together, under a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from gfs.assembly.context import Context, QuotaDefinition
from gfs.assembly.quotas import build_quota
from gfs.core.ports import Placer, Policy, Preemptor, Queue
from gfs.forecasting.forecast import Estimator
from gfs.policies.greedy import GreedyPolicy
from gfs.policies.queues import Demand


class SchedulerDefinition(Protocol):
    """What the registry keeps of a scheduler."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    @property
    def summary(self) -> str:
        """What it does, in a line."""

    @property
    def quota(self) -> str:
        """The quota it has unless another one is asked for."""

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool, from its state: called again whenever its nodes have changed."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A scheduler that serves tasks one by one (`GreedyPolicy`), by the parts it is put together from."""

    name: str
    summary: str
    queue: Callable[[Demand], Queue]
    """Made for each class; tasks that ask for the same besides cards fit or fail alike."""
    placer: Callable[[Context], Placer]
    preemptor: Callable[[Context], Preemptor]
    quota: str = "none"
    """The quota it has unless another one is asked for."""

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool."""
        placer, preemptor = self.placer(context), self.preemptor(context)
        queues = self.queue(context.pool.demand), self.queue(context.pool.demand)
        return _serve(context, *queues, placer, preemptor, self.quota)


@dataclass(frozen=True, slots=True)
class WithOwnParts:
    """A scheduler with a quota or a forecaster that was given as an object."""

    scheduler: SchedulerDefinition
    own_quota: QuotaDefinition | None = None
    own_forecaster: Estimator | None = None

    @property
    def name(self) -> str:
        """With the names of the parts: 'gfs+night-quota'."""
        parts = (self.scheduler, self.own_quota, self.own_forecaster)
        return "+".join(part.name for part in parts if part is not None)

    @property
    def summary(self) -> str:
        """Of the scheduler."""
        return self.scheduler.summary

    @property
    def quota(self) -> str:
        """The name of the quota that was given, or the scheduler's own."""
        return self.scheduler.quota if self.own_quota is None else self.own_quota.name

    @property
    def leases(self) -> bool:
        """As of the scheduler."""
        return bool(getattr(self.scheduler, "leases", False))

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool, which finds the parts in its context."""
        return self.scheduler.build(replace(context, own_quota=self.own_quota, own_forecaster=self.own_forecaster))


Recipe = SchedulerDefinition
"""The name of earlier versions, for packages that import it."""

L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class LearningComposition(Generic[L]):
    """A `Composition` whose parts share what is learnt from what happens in their pool."""

    name: str
    summary: str
    queue: Callable[[Demand], Queue]
    """Made for each class; tasks that ask for the same besides cards fit or fail alike."""
    learner: Callable[[Context], L]
    """Built before the parts, and handed to them."""
    placer: Callable[[Context, L], Placer]
    preemptor: Callable[[Context, L], Preemptor]
    quota: str = "none"
    """The quota it has unless another one is asked for."""
    spot_queue: Callable[[Context, L], Queue] | None = None
    """A queue of its own for spot tasks."""

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool."""
        learner = self.learner(context)
        placer, preemptor = self.placer(context, learner), self.preemptor(context, learner)
        spot_queue = self.spot_queue(context, learner) if self.spot_queue else self.queue(context.pool.demand)
        return _serve(context, self.queue(context.pool.demand), spot_queue, placer, preemptor, self.quota)


def _serve(
    context: Context, hp_queue: Queue, spot_queue: Queue, placer: Placer, preemptor: Preemptor, quota: str
) -> Policy:
    """The policy that serves tasks one by one with these parts."""
    return GreedyPolicy(
        context.state,
        hp_queue=hp_queue,
        spot_queue=spot_queue,
        placer=placer,
        preemptor=preemptor,
        quota=build_quota(context, quota),
    )
