"""The small interfaces that a scheduler is put together from. Variants are other parts behind these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import nan
from typing import NamedTuple, Protocol, runtime_checkable

from gfs.core.actions import Plan
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.domain.task import Task

Attempt = Callable[[Task], bool]
"""Try to start a task now; say whether it started."""

Lengths = tuple[float, ...]
"""Hours ahead: a spot task may start if the quota for one of them has room for it."""

TaskLimit = Callable[[Lengths], float]
"""Lengths -> the most GPUs a task with these could start with."""


class Queue(Protocol):
    """Tasks of one class that wait, and the order in which they get their chance."""

    def push(self, task: Task) -> None:
        """Add a task."""
        ...

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """Newcomers, by index, and nothing has changed for those who wait: try or queue them, in order."""
        ...

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offer the waiting tasks in order; those that start leave the queue.

        No pod of more than `pod_limit` GPUs can start now, and no task of more than `task_limit` says.
        """
        ...

    def ahead_of(self, task: Task) -> Task | None:
        """The task this one is stuck behind, where order is strict."""
        ...

    def __iter__(self) -> Iterator[Task]:
        """The waiting tasks."""
        ...

    def __len__(self) -> int: ...


class Placer(Protocol):
    """Chooses nodes for pods on idle cards."""

    def choose(self, task: Task) -> Node | None:
        """The node for one more pod of the task, or None."""
        ...

    def evicted(self, node: Node, now: float) -> None:
        """A spot task with pods on `node` has been evicted."""
        ...

    fills_up: bool
    """Whether a node that was best for one pod stays best for the task's next pods as long as they fit."""

    next_change: float
    """When time alone next changes what it would choose (infinity: never)."""

    def advance(self, now: float) -> bool:
        """`next_change` has come; say whether a node became available by that."""
        ...

    def closed(self, task: Task) -> int:
        """How many nodes with room for a pod of the task it refuses at the moment."""
        ...


class Victims(NamedTuple):
    """What it takes to make room for one HP pod, or for several at once."""

    node: Node | None
    """Where the pod goes; None: anywhere on the cards that get idle."""
    runs: Sequence[Run]
    choice: str
    """Why these, for people: 'cheapest of 14 nodes'."""


class Preemptor(Protocol):
    """Decides whom HP displaces. It only decides: the policy acts, on a trial."""

    def choose(self, task: Task, now: float) -> Victims | None:
        """The node and victims for one more pod of an HP task, or None if no eviction helps."""
        ...

    def started(self, run: Run) -> None:
        """A spot run now holds its cards."""
        ...

    def ended(self, run: Run) -> None:
        """A spot run no longer holds its cards."""
        ...


@runtime_checkable
class WholeGangs(Protocol):
    """A preemptor that looks at all pods of an HP task together before it takes them one by one."""

    def choose_gang(self, task: Task, pods: int, now: float) -> Victims | None:
        """Victims that make room for so many pods at once, or None: then pod by pod."""
        ...


class Admission(Protocol):
    """Which of the spot quotas must have room for a task to start."""

    def lengths(self, task: Task) -> Lengths:
        """The hours of these quotas, one of which will do; the same as long as the task waits."""
        ...

    def why(self, task: Task, hours: float) -> str:
        """Why the quota for so many hours counts, to follow 'for 2 h'; nothing if they are its guarantee."""
        ...


class QuotaRow(NamedTuple):
    """The numbers behind one spot quota (the rows of the `--quota` file)."""

    guarantee_hours: float
    inventory: float
    eta: float
    quota: float
    demand: float = nan
    """The bound on HP demand over the guarantee that the inventory is what it leaves of the pool."""
    eviction_rate: float = nan
    """Evicted runs / (evicted runs + completed guarantee periods) over the last H hours."""
    longest_wait: float = nan
    """Seconds of the longest current or recent wait of a spot task."""
    forecaster: str = ""
    """Whose forecast the bound is."""
    organization: str = ""
    """Whose demand has the highest bound."""
    organization_demand: float = nan
    peak_hour: int = 0
    """The hour, from 1, in which all organizations together have the highest bound; 0: none forecast."""
    expected_demand: float = nan
    """What the forecast expects of all organizations together in their highest hour: the middle, not the bound."""


class Quota(Protocol):
    """How many cards spot tasks may hold."""

    def limit(self, guarantee_hours: float) -> float:
        """Q_H: GPUs that spot tasks with at least this guarantee may hold together."""
        ...

    def tick(self, now: float) -> None:
        """The regular moment to think again."""
        ...

    def rows(self) -> Sequence[QuotaRow]:
        """The quota and what led to it, one row per guarantee."""
        ...

    def why(self, guarantee_hours: float) -> str:
        """What led to it, in a few words to follow the number; nothing if the number says it all."""
        ...


class Observer(Protocol):
    """Sees what happens in a pool, for parts that learn from it."""

    def arrived(self, tasks: Sequence[Task], now: float) -> None:
        """Tasks have been submitted; the pass that serves them comes next."""
        ...

    def finished(self, run: Run, now: float) -> None:
        """A run is done."""
        ...

    def decided(self, plan: Plan, now: float) -> None:
        """These runs are evicted and these start, by a pass at `now`."""
        ...


class SolverFigures(NamedTuple):
    """How the optimisation of a policy that solves programs went."""

    solves: int
    out_of_time: int
    """Programs that the solver could not finish in its time."""
    worst_gap: float
    """How far the worst of these may be from the best value, as a share of it."""


class Policy(Protocol):
    """A whole scheduler for one pool: sees everything that waits, returns what to do."""

    pool: Pool

    @property
    def leases(self) -> bool:
        """Whether it suspends tasks at the ends of leases instead of evicting them."""
        ...

    @property
    def solver(self) -> SolverFigures | None:
        """Where it solves programs: how that went."""
        ...

    def finish(self, run: Run, now: float) -> None:
        """A run is done; its cards are free."""
        ...

    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """One scheduling pass. `freed`: something other than the arrivals may have made room."""
        ...

    def tick(self, now: float) -> None:
        """The regular moment: quotas are reconsidered."""
        ...

    def quota_rows(self) -> Sequence[QuotaRow]:
        """The spot quota as it stands."""
        ...

    def waiting(self) -> Iterator[tuple[Task, Reason]]:
        """Everything that waits and why it does now."""
        ...
