"""Random small clusters under high load: spot work fills them early, HP arrives in waves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

from hypothesis import strategies as st

from builders import Draft, rules_of, workload
from gfs import NodeSpec, Priority, Role, Workload
from promises import Room, surely_fits


@lru_cache(maxsize=None, typed=True)
def among(*values: Any) -> st.SearchStrategy[Any]:
    """One of these. Hypothesis takes longer to make a strategy than to draw from it, so each is made once."""
    return st.sampled_from(values)


@dataclass(frozen=True)
class Case:
    """A workload and the parameters to run it with."""

    work: Workload
    parameters: dict[str, Any]

    def __repr__(self) -> str:
        lines = [f"parameters: {self.parameters}"]
        lines += [
            f"node {n.name}: {n.gpus} x {n.gpu_model}, {n.cpus:g} CPUs, {n.memory:g} GiB, {n.pods} pods {n.group}"
            f" {n.resources or ''} {n.labels or ''}"
            for n in self.work.nodes
        ]
        lines += [
            f"{t.priority.label} {t.name}: {t.gpu_model} at {t.submit_time} for {self.work.durations[t.index]}"
            f" H={t.guarantee_hours} checkpoint={t.checkpoint_interval} urgency={t.urgency}"
            f" {t.topology_key and 'one ' + t.topology_key} {'' if t.preempts else 'never preempts'}: "
            + " + ".join(
                f"{r.pods} x {r.gpus_per_pod} with {r.cpus_per_pod:g} CPUs {r.memory_per_pod:g} GiB"
                f" {r.resources or ''} {' '.join(map(str, r.rules))}"
                for r in t.roles
            )
            for t in self.work.tasks
        ]
        return "\n".join(lines)


FRACTIONS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1 / 3, 0.123457, 0.999999]


NOTHING: tuple[float, float] = (0.0, 0.0)
ASKS = (NOTHING, (0.5, 0.0), (1.0, 4.0), (1.7, 0.0), (2.0, 8.0), (3.0, 0.0), (3.0, 12.0), (0.0, 12.0))
"""CPUs and GiB of memory for each GPU of a pod; a fraction of a GPU asks as much as a whole one."""
LIMITS = ((0.0, 0.0, 0), (1.0, 0.0, 0), (1.7, 0.0, 0), (2.0, 6.0, 0), (2.0, 0.0, 3), (3.0, 12.0, 0), (0.0, 6.0, 2))
"""CPUs and GiB of memory for each GPU of a node, and its most pods; 0: not stated."""
PORTS, RDMA = (("TCP/80",), ("TCP/443",), ("TCP/80", "TCP/443")), (("rdma/ib", 1.0),)
RESOURCES = ((), (), *((("rdma/ib", amount),) for amount in (0.0, 1.0, 4.0)))
LABELS = ((), *((("rack", rack),) for rack in ("r1", "r1", "r2")))
FILTERS: tuple[tuple[str, ...], ...] = (*[()] * 3, ("a",), ("b",), ("a", "b"))


def fitting(draft: Draft, machines: list[NodeSpec]) -> Draft:
    """Returns the task with as many of its pods as the empty nodes hold; it asks for less if they hold none."""
    half = replace(draft, cpus=draft.cpus / 2, memory=draft.memory / 2)
    modest = replace(draft, cpus=0.0, memory=0.0, only=())
    rooms = [Room.empty(node) for node in machines]
    options = (
        (each, sum(room.pods(each.task()) for room in rooms)) for each in (draft, half, replace(half, only=()), modest)
    )
    fits, held = next(option for option in options if option[1])
    return replace(fits, pods=int(min(fits.pods, held)))


@st.composite
def mixed(draw: st.DrawFn, plain: Draft, machines: list[NodeSpec]) -> Draft:
    """The task, perhaps with more that it asks for: roles, a further resource, a port, one domain, a priority."""
    extra = {"urgency": draw(among(0, 0, 1, -2)), "preempts": draw(among(True, True, True, False))}
    plain = replace(plain, **extra)
    more = {
        "topology": draw(among("", "", "rack")),
        "ports": draw(among((), (), *PORTS)),
        "resources": draw(among((), RDMA)),
    }
    kinds = [(plain.gpus, plain.pods, plain.cpus, plain.memory)]
    if draw(among(True, True, False)):
        others = {(0, 1, 2.0, 4.0), (0, 2, 1.0, 0.0), (0.5, 1, 1.0, 0.0), (1, 1, 1.0, 0.0), (2, 2, 0.0, 8.0)}
        others = sorted(kind for kind in others if kind[0] < plain.gpus)
        kinds += {kind[0]: kind for kind in draw(st.lists(st.sampled_from(others), max_size=2))}.values()
    if len(kinds) > 1:
        asking = draw(st.integers(0, 2 * len(kinds)))  # which of the roles asks for the resource and the port
        roles = tuple(
            Role(
                pods,
                gpus,
                cpus_per_pod=cpus,
                memory_per_pod=memory,
                resources=more["resources"] if number == asking else (),
                rules=rules_of(plain.only, more["ports"] if number in (asking, asking - 1) else ()),
            )
            for number, (gpus, pods, cpus, memory) in enumerate(kinds)
        )
        options = [replace(plain, roles=roles, topology=topology) for topology in dict.fromkeys((more["topology"], ""))]
    else:
        options = [
            replace(plain, **more),
            replace(plain, topology=more["topology"]),
            replace(plain, ports=more["ports"]),
        ]
    rooms = [Room.empty(node) for node in machines]
    return next((each for each in options if surely_fits(each.task(), rooms)), plain)


@st.composite
def workloads(draw: st.DrawFn, max_tasks: int = 40, models: int = 2) -> Workload:
    """1-8 nodes of mixed sizes in one or two pools, and tasks whose instants often coincide.

    Nodes and tasks state CPUs, memory and pods. Half of the workloads have node filters, a third have mixed tasks.
    """
    mixes = draw(among(True, False, False))
    names = ["A100", "T4"][: draw(st.integers(1, models))]
    groups, filters = draw(among((("",), ((),)), (("a", "b"), FILTERS)))
    machines: list[NodeSpec] = []
    for model in names:
        for i, size in enumerate(draw(st.lists(among(1, 2, 4, 8), min_size=1, max_size=8 // len(names)))):
            cpus, memory, pods = draw(among(*LIMITS))
            most = (size * cpus, size * memory, pods)
            rest = (draw(among(*RESOURCES)), draw(among(*LABELS))) if mixes else ()
            machines.append(NodeSpec(0, f"{model.lower()}-{i}", model, size, *most, draw(among(*groups)), *rest))
    # Few distinct instants, some on a tick, some where a grace period or an overhead of others ends.
    instants = draw(st.lists(among(0, 0.5, 30, 40, 60, 70, 300, 330, 600, 901, 1800, 3600), min_size=1, max_size=5))
    drafts = []
    for number in range(draw(st.one_of(st.integers(max_tasks // 2, max_tasks), st.integers(1, max_tasks)))):
        model = draw(among(*names))
        sizes = [node.gpus for node in machines if node.gpu_model == model]
        whole = [g for g in (1, 2, 3, 4, 8) if g <= max(sizes)]
        gpus = draw(among(*whole * 2, *[draw(among(*FRACTIONS))] * 2))
        pods = draw(among(1, 1, 1, 2, 2, 3, 5))
        cpus, memory = draw(among(*ASKS))
        asks = {"cpus": cpus * max(gpus, 1), "memory": memory * max(gpus, 1), "only": draw(among(*filters))}
        if draw(st.integers(0, 4)) < 3:
            wishes: dict[str, Any] = {
                "priority": Priority.SPOT,
                "at": draw(among(*instants)) / draw(among(1, 4)),
                "lasting": draw(among(0, 50, 500, 1000, 4000.5, 7200)),
                "hours": draw(among(0.125, 1, 2, 4)),
                "checkpoint": draw(among(30, 100, 250, 3600)),
            }
        else:
            wishes = {
                "priority": Priority.HP,
                "at": draw(among(*instants)),
                "lasting": draw(among(0, 10, 100, 299.75, 900)),
            }
        draft = fitting(Draft(f"t{number:02}", gpus=gpus, pods=pods, model=model, **asks, **wishes), machines)
        drafts.append(draw(mixed(draft, machines)) if mixes else draft)
    return workload(machines, drafts)


def least_share(work: Workload) -> float:
    """The smallest share of a pool, in sixteenths, that still admits the largest spot task."""
    capacity = work.capacity()
    asked = [task.gpus / capacity[task.gpu_model] for task in work.tasks if task.is_spot]
    return min(1.0, ceil(16 * max(asked, default=0.0)) / 16)


@st.composite
def cases(draw: st.DrawFn, max_tasks: int = 40, models: int = 2) -> Case:
    """A workload with a quota or without, resources on or off, and parameters that make every rule matter."""
    work = draw(workloads(max_tasks, models))
    least = least_share(work)
    quota, share = draw(among(("none", 1.0), ("none", 1.0), ("fixed", least), ("fixed", 1.0)))
    return Case(
        work,
        {
            "resources": draw(among("off", "on")),
            "quota": quota,
            "quota_share": share,
            "grace_period": draw(among(30.0, 30.0, 0.0)),
            "checkpoint_on_grace": draw(among(False, False, False, True)),
            "m": draw(among(3.0, 10.0, 60.0)),
            "gamma": draw(among(0.8, 0.8, 1.0, 0.0)),
            "beta": draw(among(0.5, 0.5, 0.0, 50.0)),
            "starvation_timeout": draw(among(43200.0, 600.0, 0.0)),
        },
    )


@st.composite
def contests(draw: st.DrawFn) -> Case:
    """A few equal nodes full of spot tasks, one HP pod at a time: where the cost of a node decides.

    Either no guarantee period is ever completed (G = 0, so equal costs are common and ties must be broken), or
    periods are short, so that F and G weigh one more victim against its waste. Nodes have 2 CPUs for each GPU.
    """
    size = draw(among(2, 4))
    machines = [NodeSpec(0, f"n{i}", "A100", size, 2.0 * size) for i in range(draw(st.integers(2, 4)))]
    hours, beta = draw(among((4, 0.0), (4, 0.5), (0.125, 2.0), (0.125, 8.0), (0.25, 30.0)))
    checkpoint = draw(among(100, 250, 3600))
    drafts = [
        Draft(
            f"s{number:02}",
            Priority.SPOT,
            gpus=draw(among(1, 1, 2, size)),
            cpus=draw(among(0, 1, 2, 4)),
            at=draw(among(0, 0, 100, 150, 400, 700)),
            lasting=draw(among(300, 2500, 5000)),
            hours=hours,
            checkpoint=checkpoint,
        )
        for number in range(draw(st.integers(6, 14)))
    ]
    drafts += [
        Draft(
            f"h{number}",
            Priority.HP,
            gpus=draw(among(size, 2, 1)),
            cpus=draw(among(1, 4, 2 * size)),
            at=draw(among(500, 777, 1000, 1250, 1600)) + 300 * number,
            lasting=draw(among(20, 200)),
        )
        for number in range(draw(st.integers(2, 6)))
    ]
    settled = {"quota": "none", "quota_share": 1.0, "checkpoint_on_grace": False, "m": 3.0, "gamma": 0.8}
    drawn = {"resources": draw(among("off", "on")), "grace_period": 30.0, "beta": beta}
    return Case(workload(machines, drafts), {**settled, **drawn})
