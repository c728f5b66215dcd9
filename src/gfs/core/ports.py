"""The small interfaces that a scheduler is put together from. Variants are other parts behind these.

A part that must hear what happens is a `Listener` besides (`gfs.core.listeners`). What only some parts can do
has an interface of its own here, and is used where a part has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gfs.core.actions import Plan
from gfs.core.node import Node
from gfs.core.reasons import Alternative, Reason
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Task
from gfs.domain.units import format_clock

Attempt = Callable[[Task], bool]
"""Try to start a task now; say whether it started."""

TaskLimit = Callable[[float], float]
"""Guarantee hours -> the most GPUs a task with this guarantee could start with."""


# -- queues --------------------------------------------------------------------------------------------------


class Queue(Protocol):
    """Tasks of one class that wait, and the order in which they get their chance."""

    def push(self, task: Task) -> None:
        """Add a task."""

    def remove(self, task: Task) -> None:
        """Take a task out that waits no longer."""

    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """Newcomers, by index, and nothing has changed for those who wait: try or queue them, in order."""

    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offer the waiting tasks in order; those that start leave the queue.

        No pod of more than `pod_limit` GPUs can start now, and no task of more than `task_limit` says.
        """


@runtime_checkable
class StrictOrder(Protocol):
    """A queue in which nobody overtakes."""

    def head(self) -> Task:
        """Whoever is served next."""


# -- placers -------------------------------------------------------------------------------------------------


class Placer(Protocol):
    """Chooses nodes for pods on idle cards."""

    def choose(self, task: Task) -> Node | None:
        """The node for one more pod of the task, or None."""


@runtime_checkable
class FillsUp(Protocol):
    """A placer for which a node that was best for one pod may stay best for the task's next pods."""

    fills_up: bool
    """Whether it does so as long as they fit."""


@runtime_checkable
class Ranks(Protocol):
    """A placer that can name more than its first choice: for tasks that ask for more than cards."""

    def ranked(self, task: Task) -> Iterator[Node]:
        """The nodes with cards for one more pod of the task, best first."""


@runtime_checkable
class Compares(Protocol):
    """A placer that can choose among given nodes without looking at the others."""

    def best_of(self, task: Task, nodes: Iterable[Node]) -> Node | None:
        """The best of these nodes, which all have room for one more pod; None if it refuses them."""


@runtime_checkable
class Refuses(Protocol):
    """A placer that does not use every node with room."""

    def closed(self, task: Task) -> tuple[int, str]:
        """How many nodes with room for a pod it refuses now, and why: 'on loan to spot tasks'.

        Nothing for why: the circuit breaker keeps them closed after recent evictions.
        """


@runtime_checkable
class Reopens(Protocol):
    """A placer that refuses nodes for some time."""

    def reopened(self) -> bool:
        """Whether a node has become available since the last time it was asked."""


@runtime_checkable
class KeepsFromSpot(Protocol):
    """A placer, or a policy with such a placer, that keeps spot tasks away from some nodes."""

    def kept_from_spot(self) -> Mapping[Node, Task | None]:
        """Each such node, and the task it is reserved for; None: closed after recent evictions (circuit breaker)."""


# -- preemptors ----------------------------------------------------------------------------------------------


class Victims(NamedTuple):
    """What it takes to make room for one HP pod, or for several at once."""

    node: Node | None
    """Where the pod goes; None: anywhere on the cards that get idle."""
    runs: Sequence[Run]
    choice: str
    """Why these, for people: 'cheapest of 14 nodes'."""
    alternatives: tuple[Alternative, ...] = ()
    """What was weighed, cheapest first; kept only by a preemptor that was told to."""


class Preemptor(Protocol):
    """Decides whom HP displaces. It only decides: the policy acts, on a trial."""

    def choose(self, task: Task, now: float) -> Victims | None:
        """The node and victims for one more pod of an HP task, or None if no eviction helps."""


@runtime_checkable
class WholeGangs(Protocol):
    """A preemptor that looks at all pods of an HP task together before it takes them one by one."""

    def choose_gang(self, task: Task, pods: int, now: float) -> Victims | None:
        """Victims that make room for so many pods at once, or None: then pod by pod."""


@runtime_checkable
class WholeNodes(Protocol):
    """A preemptor that takes back nodes from everybody on them."""

    whole_nodes: bool


# -- quotas --------------------------------------------------------------------------------------------------


class QuotaRow(NamedTuple):
    """The numbers behind one spot quota (the rows of the `--quota` file)."""

    guarantee_hours: float
    inventory: float
    eta: float
    quota: float
    demand: float = nan
    """The bound on HP demand over the guarantee that the inventory is what it leaves of the pool."""
    eviction_rate: float = nan
    """Evicted runs / runs that ended over the last H hours (`adaptive`: broken / all guarantees of a week)."""
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

    @property
    def horizons(self) -> Sequence[float]:
        """The guarantees on offer, in hours, shortest first: a start must respect every quota up to its own."""
        ...

    def limit(self, guarantee_hours: float) -> float:
        """Q_H: GPUs that spot tasks with at least this guarantee may hold together."""

    def tick(self, now: float) -> None:
        """The regular moment to think again."""

    def rows(self) -> Sequence[QuotaRow]:
        """The quota and what led to it, one row per guarantee."""

    def why(self, guarantee_hours: float) -> str:
        """What led to it, in a few words to follow the number; nothing if the number says it all."""


class OrganizationDemand(NamedTuple):
    """What a forecast says of one organization's HP demand while the shortest guarantee lasts."""

    organization: str
    expected: float
    """The highest hour of what is expected."""
    bound: float
    """The highest hour of what is not exceeded with probability p."""


@runtime_checkable
class ForecastsOrganizations(Protocol):
    """A quota that follows a forecast of each organization's demand."""

    def organization_demand(self) -> Sequence[OrganizationDemand]:
        """What the last forecast says; nothing before the first."""


class ExpectedRoom(NamedTuple):
    """When a forecast expects room for a task that waits for quota."""

    time: float
    known: bool
    """Whether there is room then; else there is none until then, and no more is known."""

    def text(self) -> str:
        """In a few words to follow a reason."""
        clock = format_clock(self.time)
        return f"the forecast expects room at {clock}" if self.known else f"the forecast expects no room before {clock}"


@runtime_checkable
class Foresees(Protocol):
    """A quota that knows when there may be room."""

    def expected_room(self, task: Task) -> ExpectedRoom | None:
        """When room is expected for a task that waits for quota; None: unknown."""


class FitRequest(NamedTuple):
    """A forecaster's fit as a unit of work: the driver runs it when and where it likes. It can be pickled."""

    gpu_model: str
    """The pool it is for."""
    fit: Callable[[], Any]
    """The work itself; what it gives is the model."""
    asked_at: float


Train = Callable[[FitRequest], Any]
"""The driver's side: give the model at once (a simulation), or None now and a `Trained` event later."""


def train_at_once(request: FitRequest) -> Any:
    """Run the work here and now: what a simulation does."""
    return request.fit()


@runtime_checkable
class Learns(Protocol):
    """A quota whose forecaster is fitted from time to time."""

    def trained(self, model: Any, asked_at: float) -> None:
        """The fit that was asked for at `asked_at` is done."""


# -- policies ------------------------------------------------------------------------------------------------


class SolverFigures(NamedTuple):
    """How the optimisation of a policy that solves programs went."""

    solves: int
    out_of_time: int
    """Programs that the solver could not finish in its time."""
    worst_gap: float
    """How far the worst of these may be from the best value, as a share of it."""

    def plus(self, other: SolverFigures) -> SolverFigures:
        """Both together."""
        gap = max(self.worst_gap, other.worst_gap)
        return SolverFigures(self.solves + other.solves, self.out_of_time + other.out_of_time, gap)


@runtime_checkable
class Solves(Protocol):
    """A policy that solves programs."""

    @property
    def solver(self) -> SolverFigures:
        """How that went."""


class Policy(Protocol):
    """A whole scheduler for one pool, built from its state: sees everything that waits, returns what to do."""

    quota: Quota

    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """One pass, made when a task has come or waits. `freed`: more than the arrivals may have a chance."""

    def explain(self, task: Task) -> Reason:
        """Why a task that waits does so now."""


Build = Callable[[PoolState], Policy]
"""How the policy of a pool is built from its state: at the beginning, and whenever its nodes have changed."""
