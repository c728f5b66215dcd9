"""A recipe: how the scheduler of one pool is put together, under a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gfs.assembly.context import Context
from gfs.assembly.quotas import build_quota
from gfs.core.ports import Admission, Observer, Placer, Policy, Preemptor, Queue
from gfs.policies.admission import ByGuarantee
from gfs.policies.greedy import GreedyPolicy


class Recipe(Protocol):
    """What the registry keeps of a scheduler."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        ...

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        ...

    @property
    def quota(self) -> str:
        """The quota it has unless another one is asked for."""
        ...

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool."""
        ...


@dataclass(frozen=True, slots=True)
class Composition:
    """A scheduler that serves tasks one by one (`GreedyPolicy`), by the parts it is put together from."""

    name: str
    summary: str
    queue: Callable[[], Queue]
    placer: Callable[[Context], Placer]
    preemptor: Callable[[Context], Preemptor]
    quota: str = "none"
    """The quota it has unless another one is asked for."""

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool."""
        placer, preemptor = self.placer(context), self.preemptor(context)
        return _serve(context, self.queue(), self.queue(), placer, preemptor, self.quota)


L = TypeVar("L", bound=Observer)


@dataclass(frozen=True, slots=True)
class LearningComposition(Generic[L]):
    """A `Composition` whose parts share what is learnt from what happens in their pool."""

    name: str
    summary: str
    queue: Callable[[], Queue]
    learner: Callable[[Context], L]
    """Built once for each pool, and handed to the parts."""
    placer: Callable[[Context, L], Placer]
    preemptor: Callable[[Context, L], Preemptor]
    quota: str = "none"
    """The quota it has unless another one is asked for."""
    spot_queue: Callable[[L, Admission], Queue] | None = None
    """A queue of its own for spot tasks."""
    admission: Callable[[Context], tuple[Admission, Context]] = lambda context: (ByGuarantee(), context)
    """Which quotas count for a task, and what the quota is made from."""

    def build(self, context: Context) -> Policy:
        """The scheduler of one pool."""
        learner = self.learner(context)
        context.observers.append(learner)
        placer, preemptor = self.placer(context, learner), self.preemptor(context, learner)
        admission, for_quota = self.admission(context)
        spot_queue = self.spot_queue(learner, admission) if self.spot_queue else self.queue()
        return _serve(for_quota, self.queue(), spot_queue, placer, preemptor, self.quota, admission)


def _serve(
    context: Context,
    hp_queue: Queue,
    spot_queue: Queue,
    placer: Placer,
    preemptor: Preemptor,
    quota: str,
    admission: Admission | None = None,
) -> Policy:
    """The policy that serves tasks one by one with these parts."""
    return GreedyPolicy(
        context.pool,
        hp_queue=hp_queue,
        spot_queue=spot_queue,
        placer=placer,
        preemptor=preemptor,
        quota=build_quota(context, quota),
        ledger=context.ledger,
        rules=context.parameters.rules,
        admission=admission,
    )
