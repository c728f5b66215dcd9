"""What the page is given: a recording as columns, names told once and referred to by their position.

These types are the contract of `/api/v1` and of an exported page; web/src/wire.ts says the same in TypeScript. Within a
version fields may be added, never changed.
"""

from __future__ import annotations

from typing import Final

import msgspec

API_VERSION: Final = 1
NONE: Final = -1
"""Position of a name that is not there."""

Number = int | float


class NodeColumns(msgspec.Struct, frozen=True):
    """The nodes of the cluster."""

    name: list[str]
    model: list[int]
    """Position in `models`."""
    gpus: list[int]


class TaskColumns(msgspec.Struct, frozen=True):
    """The tasks, in the order in which the log first speaks of them."""

    name: list[str]
    organization: list[int]
    """Position in `organizations`."""
    model: list[int]
    spot: list[int]
    """1: spot, 0: HP."""
    gpus: list[Number]
    """Of all pods together."""
    guarantee: list[Number]
    """Promised undisturbed seconds."""
    checkpoint: list[Number]
    """Seconds of progress between two checkpoints."""


class EntryColumns(msgspec.Struct, frozen=True):
    """The event log, one entry for all pods of a task, in its order."""

    time: list[Number]
    event: list[int]
    """Position in `EVENTS` of gfs.telemetry.event_log."""
    task: list[int]
    run: list[int]
    reason: list[int]
    """Position in `reasons`."""
    pods: list[int]
    """How many entries of `pods` belong to this one: the pods of a start, 0 of anything else."""


class PodColumns(msgspec.Struct, frozen=True):
    """The pods that started, in the order of their entries."""

    node: list[int]
    cards: list[int]
    """Position in `cards`: the numbers of its GPUs, where the log has them. -1: they are only counted."""
    gpus: list[Number]


class NodeEventColumns(msgspec.Struct, frozen=True):
    """Failures and cordons of nodes, in order of time."""

    time: list[Number]
    node: list[int]
    event: list[str]
    """fail, repair, cordon or uncordon."""


class QuotaColumns(msgspec.Struct, frozen=True):
    """The quota log (docs/reference/files.md#quota-log), in order of time. A null stands for an empty cell."""

    time: list[Number]
    model: list[int]
    guarantee_hours: list[Number]
    quota: list[Number | None]
    """Null also for a quota without bound."""
    spot_in_use: list[Number | None]
    eta: list[Number | None]
    demand: list[Number | None]
    expected_demand: list[Number | None]
    organization: list[int]
    organization_demand: list[Number | None]
    forecaster: list[int]
    """Position in `forecasters`."""
    forecasters: list[str]


class ForecastColumns(msgspec.Struct, frozen=True):
    """The forecast of each organization's HP demand over the shortest guarantee, in order of time."""

    time: list[Number]
    model: list[int]
    organization: list[int]
    expected: list[Number]
    bound: list[Number]


class SpotNodeColumns(msgspec.Struct, frozen=True):
    """Nodes that are kept from spot tasks from a moment on, or no longer, in order of time."""

    time: list[Number]
    node: list[int]
    closed: list[int]
    """1: the circuit breaker keeps it closed."""
    task: list[int]
    """The spot task that it is reserved for. Neither closed nor reserved: open to all."""


class ExpectedColumns(msgspec.Struct, frozen=True):
    """When the forecast expects room for tasks that wait for quota, in order of time."""

    time: list[Number]
    task: list[int]
    start: list[Number | None]
    """Null: it no longer waits for quota."""
    known: list[int]
    """0: no room is expected before, and no more is known."""


class OptionColumns(msgspec.Struct, frozen=True):
    """What was weighed before an eviction, in order of time, of each decision the cheapest first."""

    time: list[Number]
    task: list[int]
    """In whose favour."""
    node: list[int]
    victims: list[list[int]]
    """Tasks that would have had to go."""
    cost: list[Number]
    waste: list[Number]
    """GPU-seconds thrown away."""
    chosen: list[int]


class Rules(msgspec.Struct, frozen=True):
    """What a restart costs and what an eviction loses (docs/concepts/time-model.md)."""

    restart_overhead: float = 40.0
    restart_overhead_large: float = 60.0
    small_task_gpus: float = 8.0
    resume_overhead: float = 120.0
    checkpoint_on_grace: bool = False


class Patch(msgspec.Struct, frozen=True):
    """What a live recording gains: columns that continue those that are there."""

    now: Number
    models: list[str]
    organizations: list[str]
    nodes: NodeColumns
    tasks: TaskColumns
    entries: EntryColumns
    reasons: list[str]
    pods: PodColumns
    cards: list[str]
    node_events: NodeEventColumns
    quota: QuotaColumns
    forecasts: ForecastColumns
    spot_nodes: SpotNodeColumns
    expected: ExpectedColumns
    options: OptionColumns


class Recording(msgspec.Struct, frozen=True):
    """All that is known of a run or of a cluster. `last_id`: the last patch in it, of a recorded run its entries."""

    version: int
    title: str
    scheduler: str
    """Empty: not told."""
    promise: float
    """p: the share of guarantees that spot tasks are promised to see kept."""
    promise_told: bool
    """Whether the run says so; else it is the usual one."""
    begin: Number | None
    """Seconds from 1970 to second 0, if dates are known."""
    live: bool
    now: Number | None
    """Live: up to when this is all that happened."""
    last_id: int
    rules: Rules
    models: list[str]
    organizations: list[str]
    nodes: NodeColumns
    nodes_told: bool
    """Whether nodes were given; else they are those that the log names."""
    tasks: TaskColumns
    entries: EntryColumns
    reasons: list[str]
    pods: PodColumns
    cards: list[str]
    node_events: NodeEventColumns
    quota: QuotaColumns
    forecasts: ForecastColumns
    spot_nodes: SpotNodeColumns
    expected: ExpectedColumns
    options: OptionColumns
    schedulers: list[str] = []
    quotas: list[str] = []
    """What `/api/v1/whatif` can simulate this with; none: nothing."""
