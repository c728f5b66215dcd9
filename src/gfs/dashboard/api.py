"""The JSON of `/api/v1`: what each address answers, as types; the OpenAPI document is made of them.

Within a version fields may be added, never changed or removed.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, NamedTuple

import msgspec

from gfs.dashboard.whatif import WhatIfRun
from gfs.dashboard.wire import API_VERSION, Patch, Recording
from gfs.version import __version__

ROOT: Final = f"/api/v{API_VERSION}"


class GpuCounts(msgspec.Struct, frozen=True):
    """What the GPUs of a pool do."""

    total: float
    hp: float
    spot: float
    reserved: float
    """Held for HP tasks while those that make room for them stop."""
    idle: float
    closed: float
    """Idle GPUs of nodes that failed or are cordoned."""
    kept_from_spot: float = 0.0
    """The idle GPUs of nodes that are closed to spot tasks after evictions, or reserved for one of them."""


class TaskCounts(msgspec.Struct, frozen=True):
    """Tasks of a class."""

    running: int
    waiting: int


class QuotaRow(msgspec.Struct, frozen=True):
    """The spot quota for one length of guarantee."""

    guarantee_hours: float
    quota: float | None
    """GPUs that spot tasks of this guarantee may hold; null: no bound."""
    why: str = ""
    """What led to it, in a sentence, where that is known."""


class KeptNode(msgspec.Struct, frozen=True):
    """A node that spot tasks are kept from."""

    node: str
    reserved_for: str = ""
    """The spot task that may use it; empty: it is closed after recent evictions (circuit breaker)."""


class OrganizationForecast(msgspec.Struct, frozen=True):
    """What is forecast of the HP demand of one organization while the shortest guarantee lasts."""

    organization: str
    expected: float
    bound: float
    """What it stays at or below with probability p."""


class PoolStatus(msgspec.Struct, frozen=True):
    """One pool at one moment."""

    pool: str
    nodes: int
    closed: int
    """Nodes that take nothing."""
    gpus: GpuCounts
    tasks: dict[Literal["HP", "Spot"], TaskCounts]
    quota: list[QuotaRow]
    forecaster: str = ""
    """Live: whose forecast the quota follows."""
    demand_hours: float = 0.0
    """Live: how long demand is known."""
    caution: str = ""
    """Live: why the quota is cautious, if it is."""
    kept_from_spot: list[KeptNode] = []
    """Nodes that spot tasks are kept from."""
    organizations: list[OrganizationForecast] = []
    """What is forecast of each organization's HP demand, where the quota follows a forecast."""


class Status(msgspec.Struct, frozen=True):
    """The cluster at one moment."""

    title: str
    live: bool
    time: float
    """Seconds; `begin` says when second 0 was."""
    begin: float | None
    first: float
    last: float
    """First and last second that are recorded."""
    pools: list[PoolStatus]
    identity: str = ""
    """Live: the replica that answers."""
    leads: bool = False
    leader: str = ""
    shadow: dict[str, Any] | None = None
    refused: int = 0
    """Live: pods that are refused."""
    training: int = 0
    history: str = ""


class WaitingTask(msgspec.Struct, frozen=True):
    """A task that waits."""

    task: str
    kind: Literal["HP", "Spot"]
    organization: str
    gpu_model: str
    gpus: float
    waited: float
    """Seconds."""
    reason: str
    """Why; of a recorded run what its log says when the wait ends."""
    expected_start: float | None = None
    """When the forecast expects room for it, if it waits for quota and the quota follows a forecast."""
    expected_known: bool = False
    """Whether room is expected then; else none is expected before."""


class Queue(msgspec.Struct, frozen=True):
    """Who waits at one moment, longest first."""

    time: float
    waiting: list[WaitingTask]


class WeighedOption(msgspec.Struct, frozen=True):
    """One way to make room that was weighed before an eviction."""

    node: str
    victims: list[str]
    cost: float
    """By the rule of the scheduler: the lowest is taken."""
    waste: float
    """GPU-seconds of work that it throws away."""
    chosen: bool


class LifeStep(msgspec.Struct, frozen=True):
    """One stretch or moment in the life of a task."""

    time: float
    what: Literal["submitted", "waited", "ran", "evicted", "suspended", "lost", "cancelled", "finished"]
    length: float
    run: int
    nodes: list[str]
    gpus: float
    reason: str
    ongoing: bool
    taker: str = ""
    """The task in whose favour it was evicted."""
    weighed: list[WeighedOption] = []
    """Of an eviction: what was weighed, cheapest first, if the run's decision log says."""


class Life(msgspec.Struct, frozen=True):
    """The life of a task, in order."""

    task: str
    kind: Literal["HP", "Spot"]
    organization: str
    gpu_model: str
    gpus: float
    steps: list[LifeStep]


class PodLife(msgspec.Struct, frozen=True):
    """A pod of a live cluster: how it stands, and the life of its task."""

    pod: str
    phase: str
    node: str = ""
    refused: bool = False
    why: str = ""
    """Why it waits or is refused."""
    task: str = ""
    submitted: float | None = None
    gang: str = ""
    kind: str = msgspec.field(name="class", default="")
    organization: str = ""
    pool: str = ""
    gpus: float | None = None
    guarantee_hours: float | None = None
    run: int | None = None
    began: float | bool | None = None
    evicted: bool = False
    note: str = ""
    life: list[LifeStep] = []


class Problem(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    error: str


class Endpoint(NamedTuple):
    """An address of the API."""

    path: str
    about: str
    answer: type[msgspec.Struct]
    query: tuple[tuple[str, str, str], ...] = ()
    """Name, type and meaning of what may be asked in the address."""


_AT = ("t", "number", "the moment, in seconds; without it the last one that is known")
LIVE_ENDPOINT: Final = Endpoint(
    "/pods/{namespace}/{pod}", "Live: a pod as kubectl names it, and the life of its task.", PodLife
)
ENDPOINTS: Final = (
    Endpoint("/status", "What GPUs do, who runs and waits, and the quota.", Status, (_AT,)),
    Endpoint(
        "/queue",
        "Who waits, why and for how long.",
        Queue,
        (
            _AT,
            ("pool", "string", "only this GPU model"),
            ("organization", "string", "only of this organization"),
            ("kind", "string", "HP or Spot"),
            ("limit", "integer", "no more than so many"),
        ),
    ),
    Endpoint("/tasks/{task}", "The life of one task.", Life),
    Endpoint(
        "/recording",
        "All that the page replays, as columns.",
        Recording,
        (("variant", "string", "the key of a what-if run in place of the recorded one"),),
    ),
    Endpoint(
        "/whatif",
        "gfs view with jobs and nodes: the recorded day simulated with something else; ask again until it is done.",
        WhatIfRun,
        (
            ("scheduler", "string", "another scheduler"),
            ("quota", "string", "another spot quota"),
            ("quota_share", "number", "share of the pool, of a fixed quota"),
            ("p", "number", "another promise"),
            ("nodes", "number", "share of the nodes, such as 0.9"),
        ),
    ),
)


def openapi() -> dict[str, Any]:
    """The OpenAPI document."""
    types = (*(endpoint.answer for endpoint in (*ENDPOINTS, LIVE_ENDPOINT)), Patch, Problem)
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    problem = {"description": "It cannot be answered.", "content": _content(Problem)}
    paths: dict[str, Any] = {}
    for endpoint in (*ENDPOINTS, LIVE_ENDPOINT):
        parameters = [
            {"name": name, "in": "query", "required": False, "description": about, "schema": {"type": kind}}
            for name, kind, about in endpoint.query
        ]
        for name in re.findall(r"{(\w+)}", endpoint.path):
            named = {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            parameters.append({**named, "description": "its name, percent-encoded"})
        answers = {"200": {"description": endpoint.about, "content": _content(endpoint.answer)}, "default": problem}
        paths[ROOT + endpoint.path] = {
            "get": {"summary": endpoint.about, "parameters": parameters, "responses": answers}
        }
    stream = {
        "summary": "Server-sent events: what happens from now on, each the columns that a recording gains.",
        "parameters": [
            {
                "name": "Last-Event-ID",
                "in": "header",
                "required": False,
                "description": "what was seen last: what came since is sent first",
                "schema": {"type": "integer"},
            }
        ],
        "responses": {"200": {"description": "The stream."}, "204": {"description": "A recorded run: nothing comes."}},
    }
    paths[f"{ROOT}/stream"] = {"get": stream}
    return {
        "openapi": "3.1.0",
        "info": {"title": "GFS", "version": __version__, "description": "Read-only."},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _content(answer: type[msgspec.Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{answer.__name__}"}}}
