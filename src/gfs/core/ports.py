"""The base classes of the parts that a scheduler is put together from. A variant is another part.

A part overrides what it does in its own way; the rest has a default. A part that needs to know what happens is a
`Listener` besides (`gfs.core.listeners`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Any, NamedTuple

from gfs.core.actions import Plan
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.reasons import Alternative, Reason
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.task import Role, Task
from gfs.domain.units import format_clock

Attempt = Callable[[Task], bool]
"""Try to start a task now; say whether it started."""

TaskLimit = Callable[[float], float]
"""Guarantee hours -> the most GPUs a task with this guarantee could start with."""


# -- queues --------------------------------------------------------------------------------------------------


class Queue(ABC):
    """Waiting tasks of one class, and the order in which they get their chance."""

    @abstractmethod
    def push(self, task: Task) -> None:
        """Adds a task."""

    @abstractmethod
    def remove(self, task: Task) -> None:
        """Takes out a task that waits no longer."""

    @abstractmethod
    def arrive(self, tasks: Sequence[Task], attempt: Attempt) -> None:
        """Tries or queues newcomers, by index, in order; nothing has changed for the others."""

    @abstractmethod
    def scan(self, attempt: Attempt, pod_limit: float, task_limit: TaskLimit) -> None:
        """Offers the waiting tasks in order; those that start leave the queue.

        No pod of more than `pod_limit` GPUs can start now, and no task of more than `task_limit` says.
        """

    def head(self) -> Task | None:
        """Returns the task that must be served next; None: tasks may overtake one another."""
        return None


# -- placers -------------------------------------------------------------------------------------------------


class Placer(ABC):
    """Chooses nodes for pods in idle room."""

    __slots__ = ("pool",)

    fills_up = False
    """Whether a node that is best for one pod stays best for the role's next pods, as long as they fit."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    @abstractmethod
    def choose(self, role: Role) -> Node | None:
        """Returns the node for one more pod of the role, or None. It may look at GPUs alone."""

    def ranked(self, role: Role) -> Iterator[Node]:
        """Returns the nodes with GPUs for one more pod of the role, best first; here fullest first."""
        return iter(sorted(self.pool.with_gpus(role), key=lambda node: (node.idle, node.index)))

    def best_of(self, role: Role, nodes: Iterable[Node]) -> Node | None:
        """Returns the best of these nodes, which all have room for one more pod; None if it refuses them."""
        given = set(nodes)
        return next((node for node in self.ranked(role) if node in given), None) if given else None

    def closed(self, task: Task) -> tuple[int, str]:
        """Returns how many nodes with room for a pod it refuses now, and why: 'on loan to spot tasks'.

        No words: the circuit breaker keeps them closed after recent evictions.
        """
        return 0, ""

    def reopened(self) -> bool:
        """Returns whether a refused node has become available since the last call."""
        return False

    def kept_from_spot(self) -> Mapping[Node, Task | None]:
        """Returns the nodes that spot tasks are kept from, each with the task it is reserved for.

        None: it is closed after recent evictions (circuit breaker).
        """
        return {}


# -- preemptors ----------------------------------------------------------------------------------------------


class Victims(NamedTuple):
    """What it takes to make room for one HP pod, or for several at once."""

    node: Node | None
    """Where the pod goes; None: anywhere in the room that gets free."""
    runs: Sequence[Run]
    choice: str
    """Why these, for people: 'cheapest of 14 nodes'."""
    alternatives: tuple[Alternative, ...] = ()
    """What was weighed, cheapest first; kept only by a preemptor that was told to."""


class Preemptor(ABC):
    """Decides which runs make room for HP. It only decides: the policy acts, on a trial."""

    whole_nodes = False
    """Whether every spot run on the node goes."""

    @abstractmethod
    def choose(self, role: Role, now: float) -> Victims | None:
        """Returns the node and victims for one more pod of an HP role, or None if no eviction helps."""

    def choose_gang(self, role: Role, pods: int, now: float) -> Victims | None:
        """Returns victims that make room for so many pods at once, or None: then pod by pod."""
        return None

    def cost(self, runs: Collection[Run], now: float) -> float:
        """Returns what it costs to evict these runs, to compare the domains of a task; here their number."""
        return float(len(runs))


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
    """Evicted runs / runs that ended over the last H hours (`adaptive`: broken / all guarantees of 5 days)."""
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


class OrganizationDemand(NamedTuple):
    """What a forecast says of one organization's HP demand while the shortest guarantee lasts."""

    organization: str
    expected: float
    """The highest hour of what is expected."""
    bound: float
    """The highest hour of what is not exceeded with probability p."""


class ExpectedRoom(NamedTuple):
    """When a forecast expects room for a task that waits for quota."""

    time: float
    known: bool
    """Whether there is room then; else there is none until then, and no more is known."""

    def text(self) -> str:
        """In a few words to follow a reason."""
        clock = format_clock(self.time)
        return f"the forecast expects room at {clock}" if self.known else f"the forecast expects no room before {clock}"


class Quota(ABC):
    """How many GPUs spot tasks may hold."""

    horizons: Sequence[float] = ()
    """The guarantees on offer, in hours, shortest first: a start must respect every quota up to its own."""

    @abstractmethod
    def limit(self, guarantee_hours: float) -> float:
        """Returns Q_H: GPUs that spot tasks with at least this guarantee may hold together."""

    def tick(self, now: float) -> None:  # noqa: B027
        """Reconsiders the quota: the regular moment has come."""

    def rows(self) -> Sequence[QuotaRow]:
        """Returns the quota and what led to it, one row per guarantee; none: nothing is limited."""
        return ()

    def why(self, guarantee_hours: float) -> str:
        """Returns what led to it, in a few words to follow the number; nothing if the number says it all."""
        return ""

    def trained(self, model: Any, asked_at: float) -> None:  # noqa: B027
        """Takes the fit of its forecaster that was asked for at `asked_at`."""

    def organization_demand(self) -> Sequence[OrganizationDemand]:
        """Returns what the last forecast says of each organization; nothing without one."""
        return ()

    def expected_room(self, task: Task) -> ExpectedRoom | None:
        """Returns when room is expected for a task that waits for quota; None: unknown."""
        return None


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


class Policy(ABC):
    """A whole scheduler for one pool, built from its state: sees everything that waits, returns what to do."""

    __slots__ = ()

    quota: Quota

    @abstractmethod
    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """Makes one pass, when a task has come or waits. `freed`: more than the arrivals may have a chance."""

    def ticked(self, now: float) -> None:  # noqa: B027
        """Looks at what the quota of a new tick means for what has been decided; a pass comes next."""

    @abstractmethod
    def explain(self, task: Task) -> Reason:
        """Returns why a waiting task waits now."""

    def kept_from_spot(self) -> Mapping[Node, Task | None]:
        """Returns the nodes that spot tasks are kept from (`Placer.kept_from_spot`)."""
        return {}

    @property
    def solver(self) -> SolverFigures | None:
        """How its programs were solved, if it solves any."""
        return None


Build = Callable[[PoolState], Policy]
"""How the policy of a pool is built from its state: at the beginning, and whenever its nodes have changed."""
