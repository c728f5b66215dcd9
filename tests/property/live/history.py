"""What happens to a cluster: users, owners, kubelets, nodes, other schedulers and faults, one thing after another.

A history is a list of `Happening`s. Each one names what happens and two numbers that choose to whom, so that the same
happening does the same to equal clusters, and any part of a history is a history.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st
from judge import (
    GPU,
    HP,
    MODEL,
    SPOT,
    JudgedReplica,
    JudgedServer,
    capacity,
    gpus_of,
    group_of,
    is_deleting,
    is_over,
    node_of,
    path_of,
    waits,
)

from gfs.assembly.parameters import Parameters
from gfs.live.problems import Conflict, TooMany, Unavailable
from gfs.live.service import new_scheduler
from gfs.live.settings import LIVE_DEFAULTS, LiveSettings
from gfs.live.translate.shape import Json

SETTINGS = LiveSettings()
PARAMETERS = {**LIVE_DEFAULTS, "quota": "none"}
MODELS = ("A100", "H100")
NODES = 3
ROUNDS = 40
"""Decisions after which a controller that nothing happens to must be at rest."""


class Happening(NamedTuple):
    """What happens, to whom, and how far the controller gets before the next thing happens."""

    what: str
    a: int = 0
    b: int = 0
    pace: str = "rest"


class Owner(NamedTuple):
    """What creates pods, and which."""

    kind: str
    name: str
    pods: tuple[Json, ...]
    """One for each that it wants."""


# -- objects ---------------------------------------------------------------------------------------


def new_node(name: str, model: str = MODELS[0], gpus: int = 8, **spec: Any) -> Json:
    labels = {MODEL: model, "zone": "east" if name in ("n1", "n3") else "west"}
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    conditions = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": room, "conditions": conditions},
    }


def new_pod(name: str, gpus: int, cls: str, **spec: Any) -> Json:
    requests = {GPU: str(gpus), "cpu": "500m", "memory": "2Gi"}
    return {
        "metadata": {"name": name, "namespace": "lab"},
        "spec": {
            "schedulerName": "gfs-scheduler",
            "priorityClassName": cls,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def new_group(name: str, minimum: int) -> Json:
    return {
        "metadata": {"name": name, "namespace": "lab"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }


# -- the world -------------------------------------------------------------------------------------


class World:
    """A cluster and its controller."""

    def __init__(self, server: JudgedServer | None = None) -> None:
        self.server = server or JudgedServer()
        self.owners: dict[str, Owner] = {}
        self.lost_groups: dict[str, Json] = {}
        self.count = 0
        if server is None:
            for number in range(1, NODES + 1):
                self.server.put_node(new_node(f"n{number}"))
        self.replica: JudgedReplica

    def begin(self, saved: Any = None, facts: bytes | None = None) -> None:
        """Start a controller on the objects that are there."""
        self.server._watches.clear()
        self.replica = JudgedReplica(self.server, SETTINGS, saved)
        if facts is not None:
            scheduler = new_scheduler(SETTINGS, Parameters(**PARAMETERS))
            scheduler.restore(pickle.loads(facts))
            scheduler.forget_cluster(self.server.hand.now())
            self.replica.controller.scheduler = scheduler

    def snapshot(self) -> tuple[Any, bytes]:
        """What a controller saves: names of tasks, and what the core has learned."""
        controller = self.replica.controller
        names = msgspec.json.decode(msgspec.json.encode(controller.identities.save()))
        return names, pickle.dumps(controller.scheduler.facts())

    def twin(self) -> World:
        """The same cluster with a controller that was just started."""
        server = JudgedServer()
        server.hand.at = self.server.hand.at
        for kind in ("nodes", "pods", "groups"):
            setattr(server, kind, copy.deepcopy(getattr(self.server, kind)))
        server.uids, server._version = self.server.uids, self.server._version
        twin = World(server)
        twin.owners, twin.lost_groups, twin.count = dict(self.owners), dict(self.lost_groups), self.count
        twin.begin(*self.snapshot())
        return twin

    async def restart(self) -> None:
        """The controller is killed, requests under way included, and another one starts."""
        saved = self.snapshot()
        await self.close()
        self.server.gate.set()
        self.begin(*saved)

    async def close(self) -> None:
        await self.replica.controller.close(0.0)

    # -- the controller's pace ---------------------------------------------------------------------

    async def go_on(self, pace: str) -> None:
        """Let the controller see and do things: `none`, `part`, `step` (without answers), or all until it rests."""
        controller = self.replica.controller
        if pace == "part":
            self.replica.show(2)
            controller.step()
            await asyncio.sleep(0)
        elif pace == "step":
            self.replica.show()
            controller.step()
            for _ in range(6):
                await asyncio.sleep(0)
        elif pace == "rest":
            await self.rest()

    async def rest(self) -> None:
        """Decide until all requests have ended and nothing changes any more."""
        controller, hand = self.replica.controller, self.server.hand
        self.server.gate.set()
        for _ in range(ROUNDS):
            self.replica.show()
            controller.step()
            await controller.finish_requests()
            if self.replica.unseen or controller.changed.is_set():
                continue
            later = [task.not_before for task in controller.book.ready if task.not_before > hand()]
            if not later:
                return
            hand.at = min(later)  # a start that failed is tried again after a pause
        self.server.wrong.append("the controller does not come to rest")

    # -- what happens ------------------------------------------------------------------------------

    async def happen(self, happening: Happening) -> None:
        what, a, b, _ = happening
        self.server.hand.at += 1.0
        if what == "restart":
            await self.restart()
        else:
            HAPPENINGS[what](self, a, b)

    def create(self, template: Json) -> str:
        return self.server.put_pod(template)

    def add_owner(self, owner: Owner) -> None:
        self.owners[owner.name] = owner
        self.replace_pods(owner)

    def replace_pods(self, owner: Owner) -> None:
        """Create the pods that an owner wants and that are neither there nor done."""
        mine = [pod for pod in self.server.pods.values() if pod["metadata"].get("labels", {}).get("of") == owner.name]
        for number, template in enumerate(owner.pods):
            there = [pod for pod in mine if pod["metadata"]["labels"]["slot"] == str(number)]
            if owner.kind == "StatefulSet":
                for pod in [pod for pod in there if is_over(pod)]:
                    self.server.remove_pod(path_of(pod))
                    there.remove(pod)
                if there:
                    continue  # it creates a pod when the old one of that name has gone
                name = f"{owner.name}-{number}"
            elif any(_is_wanted(pod, owner.kind) for pod in there):
                continue
            else:
                self.count += 1
                name = f"{owner.name}-{number}-{self.count:03d}"
            pod = copy.deepcopy(template)
            metadata = pod["metadata"]
            metadata |= {"name": name, "labels": {"of": owner.name, "slot": str(number)}}
            if owner.kind:
                reference = {"kind": owner.kind, "name": owner.name, "uid": f"uid-of-{owner.name}", "controller": True}
                metadata["ownerReferences"] = [reference]
            if owner.name.startswith("indexed"):
                metadata["annotations"] = {"batch.kubernetes.io/job-completion-index": str(number)}
            self.create(pod)

    def pick(self, number: int, wanted: Callable[[Json], bool]) -> Json | None:
        """One of the pods that are wanted, the same in equal clusters; None: there is none."""
        found = [pod for _, pod in sorted(self.server.pods.items()) if wanted(pod)]
        return found[number % len(found)] if found else None

    def pick_node(self, number: int) -> Json | None:
        names = sorted(self.server.nodes)
        return copy.deepcopy(self.server.nodes[names[number % len(names)]]) if names else None


def _is_wanted(pod: Json, kind: str) -> bool:
    """Whether an owner creates no pod in place of this one: it is there to stay, or has done the work of a Job."""
    if is_over(pod):
        return pod["status"]["phase"] == "Succeeded" and kind != "ReplicaSet"
    return not is_deleting(pod)


SIZES = (1, 2, 4, 8, 3, 1, 2, 6)


def _spec(a: int, b: int) -> dict[str, Any]:
    """Rules of a pod: mostly none."""
    return {
        0: {"nodeSelector": {"zone": "east"}},
        1: {"nodeSelector": {MODEL: MODELS[1]}},
        2: {"tolerations": [{"key": "reserved", "operator": "Exists"}]},
    }.get((a // 16 + b // 16) % 9, {"nodeSelector": {MODEL: MODELS[0]}} if b % 2 else {})


def _class(a: int) -> str:
    return HP if a % 2 else SPOT


def _template(a: int, b: int, **more: Any) -> Json:
    return new_pod("", SIZES[b % 8], "batch" if a % 64 == 63 else _class(a), **_spec(a, b), **more)


def bare(world: World, a: int, b: int) -> None:
    world.count += 1
    _once(world, Owner("", f"bare{world.count}", (_template(a, b),)))


def _once(world: World, owner: Owner) -> None:
    """Pods that are not created again: bare ones, and those of an owner that does not."""
    world.add_owner(owner)
    del world.owners[owner.name]


def job(world: World, a: int, b: int) -> None:
    world.count += 1
    name = f"indexed{world.count}" if a // 2 % 2 else f"job{world.count}"
    world.add_owner(Owner("Job", name, (_template(a, b),) * (1 + a // 4 % 3)))


def replica_set(world: World, a: int, b: int) -> None:
    world.count += 1
    world.add_owner(Owner("ReplicaSet", f"web{world.count}", (_template(a, b),) * (1 + a // 4 % 3)))


def stateful_set(world: World, a: int, b: int) -> None:
    world.count += 1
    world.add_owner(Owner("StatefulSet", f"set{world.count}", (_template(a, b),) * (1 + a // 4 % 2)))


def workflow(world: World, a: int, b: int) -> None:
    world.count += 1
    _once(world, Owner("Workflow", f"argo{world.count}", (_template(a, b),)))


def gang(world: World, a: int, b: int) -> None:
    """A PodGroup and its pods: of a Job, of two, of a workflow or bare; now and then more or others than needed."""
    world.count += 1
    minimum, more = 2 + a // 2 % 3, (0, 0, 0, 1, 2, -1)[b // 8 % 6]
    name = f"gang{world.count}"
    world.server.put_group(new_group(name, minimum))
    template = _template(a, b, schedulingGroup={"podGroupName": name})
    pods = [template] * (minimum + more)
    if a // 32 % 6 == 5 and len(pods) > 2:
        pods[-1] = copy.deepcopy(template)
        pods[-1]["spec"]["containers"][0]["resources"]["requests"][GPU] = str(1 + gpus_of(template) % 8)
    kind = ("Job", "Job", "", "Workflow", "two", "indexed")[a // 8 % 6]
    if kind == "two":
        world.add_owner(Owner("Job", f"{name}-a", tuple(pods[:1])))
        world.add_owner(Owner("Job", f"{name}-b", tuple(pods[1:])))
    elif kind == "indexed":
        world.add_owner(Owner("Job", f"indexed-{name}", tuple(pods)))
    elif kind == "Job":
        world.add_owner(Owner("Job", name, tuple(pods)))
    else:
        _once(world, Owner(kind, name, tuple(pods)))


def late_member(world: World, a: int, b: int) -> None:
    """Another pod of a gang."""
    names = sorted(world.server.groups)
    if names:
        name = names[b % len(names)]
        mate = next((pod for pod in world.server.pods.values() if group_of(pod) == name), None)
        size = gpus_of(mate) if mate is not None else SIZES[a % 8]
        cls = str(mate["spec"]["priorityClassName"]) if mate is not None else _class(a)
        spec = mate["spec"] if mate is not None else {}
        rules = {key: spec[key] for key in ("nodeSelector", "tolerations") if key in spec}
        world.count += 1
        pod = new_pod("", size, cls, schedulingGroup={"podGroupName": name}, **rules)
        _once(world, Owner("", f"late{world.count}", (pod,)))


def minimum(world: World, a: int, b: int) -> None:
    names = sorted(world.server.groups)
    if names:
        world.server.put_group(new_group(names[a % len(names)], 1 + b % 5))


def group_goes(world: World, a: int, b: int) -> None:
    names = sorted(world.server.groups)
    if names:
        name = names[a % len(names)]
        world.lost_groups[name] = copy.deepcopy(world.server.groups[name])
        world.server.remove_group(name)


def group_returns(world: World, a: int, b: int) -> None:
    names = sorted(world.lost_groups)
    if names:
        world.server.put_group(world.lost_groups.pop(names[a % len(names)]))


def start_all(world: World, a: int, b: int) -> None:
    world.server.start_bound()


def start_one(world: World, a: int, b: int) -> None:
    pod = world.pick(a, lambda pod: bool(node_of(pod)) and pod["status"]["phase"] == "Pending" and not is_deleting(pod))
    if pod is not None:
        world.server.set_phase(path_of(pod), "Running")


def _end(phase: str) -> Callable[[World, int, int], None]:
    def end(world: World, a: int, b: int) -> None:
        pod = world.pick(a, lambda pod: bool(node_of(pod)) and not is_over(pod))
        if pod is not None:
            world.server.set_phase(path_of(pod), phase)

    return end


def cleaned_up(world: World, a: int, b: int) -> None:
    """Pods that are over are removed."""
    for name, pod in list(world.server.pods.items()):
        if is_over(pod):
            world.server.remove_pod(name)


def deleted(world: World, a: int, b: int) -> None:
    pod = world.pick(a, lambda pod: not is_deleting(pod))
    if pod is not None:
        world.server.delete_pod(path_of(pod))


def deleted_slowly(world: World, a: int, b: int) -> None:
    """A user gives a pod more time to end than it asked for."""
    pod = world.pick(a, lambda pod: bool(node_of(pod)) and not is_deleting(pod))
    if pod is not None:
        world.server.delete_pod(path_of(pod), 60 + 10 * (b % 16))


def resized(world: World, a: int, b: int) -> None:
    """A pod that runs gets other CPUs, never more than there are."""
    pod = world.pick(a, lambda pod: bool(node_of(pod)) and not is_over(pod))
    if pod is not None:
        changed = copy.deepcopy(pod)
        changed["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{1 + b % 4}"
        world.server.put_pod(changed)


def owner_deleted(world: World, a: int, b: int) -> None:
    names = sorted(world.owners)
    if names:
        name = names[a % len(names)]
        del world.owners[name]
        for path, pod in list(world.server.pods.items()):
            if pod["metadata"].get("labels", {}).get("of") == name:
                world.server.delete_pod(path)


def stopped(world: World, a: int, b: int) -> None:
    world.server.stop_deleted()


def one_stopped(world: World, a: int, b: int) -> None:
    pod = world.pick(a, is_deleting)
    if pod is not None:
        world.server.remove_pod(path_of(pod))


def replaced(world: World, a: int, b: int) -> None:
    for owner in list(world.owners.values()):
        world.replace_pods(owner)


def replaced_one(world: World, a: int, b: int) -> None:
    names = sorted(world.owners)
    if names:
        world.replace_pods(world.owners[names[a % len(names)]])


def other_scheduler(world: World, a: int, b: int) -> None:
    pod, node = world.pick(a, waits), world.pick_node(b)
    if pod is not None and node is not None:
        world.server.bind_by_hand(path_of(pod), node["metadata"]["name"])


def foreign(world: World, a: int, b: int) -> None:
    """A pod of another scheduler takes GPUs, now and then more than there are."""
    node = world.pick_node(a)
    if node is not None:
        world.count += 1
        pod = new_pod(f"other{world.count}", SIZES[b % 8], "")
        pod["spec"] |= {"schedulerName": "default-scheduler", "nodeName": node["metadata"]["name"]}
        held = sum(
            gpus_of(each)
            for each in world.server.pods.values()
            if node_of(each) == node["metadata"]["name"] and not is_over(each)
        )
        if held + gpus_of(pod) <= capacity(node) or b % 16 == 15:
            world.create(pod)


def foreign_leaves(world: World, a: int, b: int) -> None:
    pod = world.pick(a, lambda pod: pod["spec"]["schedulerName"] == "default-scheduler")
    if pod is not None:
        world.server.remove_pod(path_of(pod))


def node_comes(world: World, a: int, b: int) -> None:
    for number in range(1, NODES + 2):
        if f"n{number}" not in world.server.nodes:
            model = MODELS[b % 8 == 7]
            spec = {"taints": [{"key": "reserved", "value": "", "effect": "NoSchedule"}]} if b % 8 == 6 else {}
            world.server.put_node(new_node(f"n{number}", model, (8, 8, 4, 2)[a % 4], **spec))
            return


def node_goes(world: World, a: int, b: int) -> None:
    """A node is removed; its pods are collected as garbage some time later."""
    node = world.pick_node(a)
    if node is not None:
        world.server.remove_node(node["metadata"]["name"])


def garbage(world: World, a: int, b: int) -> None:
    for name, pod in list(world.server.pods.items()):
        if node_of(pod) and node_of(pod) not in world.server.nodes:
            world.server.remove_pod(name)


def cordon(world: World, a: int, b: int) -> None:
    node = world.pick_node(a)
    if node is not None:
        node["spec"] = {**node["spec"], "unschedulable": not node["spec"].get("unschedulable", False)}
        world.server.put_node(node)


def ready(world: World, a: int, b: int) -> None:
    node = world.pick_node(a)
    if node is not None:
        condition = node["status"]["conditions"][0]
        condition["status"] = "Unknown" if condition["status"] == "True" else "True"
        world.server.put_node(node)


def resize(world: World, a: int, b: int) -> None:
    """A node has other GPUs: fewer than it holds, none, or all again."""
    node = world.pick_node(a)
    if node is not None:
        node["status"]["allocatable"][GPU] = str((8, 0, 5, 4, 8, 2)[b % 6])
        world.server.put_node(node)


def relabel(world: World, a: int, b: int) -> None:
    """The model label of a node goes, comes back or becomes another one."""
    node = world.pick_node(a)
    if node is not None:
        labels = node["metadata"]["labels"]
        if b % 4 == 0 and MODEL in labels:
            del labels[MODEL]
        else:
            labels[MODEL] = MODELS[b % 4 == 3]
        world.server.put_node(node)


def rezone(world: World, a: int, b: int) -> None:
    node = world.pick_node(a)
    if node is not None:
        labels = node["metadata"]["labels"]
        labels["zone"] = "west" if labels["zone"] == "east" else "east"
        world.server.put_node(node)


def time_passes(world: World, a: int, b: int) -> None:
    world.server.hand.at += (2.0, 6.0, 30.0, 61.0, 200.0, 3700.0)[a % 6]


def fault(world: World, a: int, b: int) -> None:
    """The next calls of a kind fail."""
    call = ("bind", "bind", "delete", "patch", "find")[a % 5]
    problem = (Conflict("changed"), Unavailable("no answer"), TooMany(), Unavailable("500"), None)[b % 5]
    if problem is not None:
        world.server.failures.setdefault(call, []).extend([problem] * (1 + b // 5 % 4))
    elif call != "find":
        world.server.unanswered[call] += 1


def requests_hang(world: World, a: int, b: int) -> None:
    world.server.gate.clear()


def requests_go_on(world: World, a: int, b: int) -> None:
    world.server.gate.set()


def nothing(world: World, a: int, b: int) -> None:
    pass


HAPPENINGS: dict[str, Callable[[World, int, int], None]] = {
    "bare": bare, "job": job, "replica set": replica_set, "stateful set": stateful_set, "workflow": workflow,
    "gang": gang, "late member": late_member, "minimum": minimum, "group goes": group_goes,
    "group returns": group_returns, "start all": start_all, "start one": start_one, "succeed": _end("Succeeded"),
    "fail": _end("Failed"), "clean up": cleaned_up, "delete": deleted, "delete slowly": deleted_slowly,
    "resize pod": resized, "owner deleted": owner_deleted, "stop": stopped, "stop one": one_stopped,
    "replace": replaced, "replace one": replaced_one,
    "other scheduler": other_scheduler, "foreign": foreign, "foreign leaves": foreign_leaves,
    "node comes": node_comes, "node goes": node_goes, "garbage": garbage, "cordon": cordon, "ready": ready,
    "resize": resize, "relabel": relabel, "rezone": rezone, "time": time_passes, "fault": fault,
    "requests hang": requests_hang, "requests go on": requests_go_on, "nothing": nothing,
}  # fmt: skip

OFTEN = (
    *("bare", "job", "replica set", "stateful set", "workflow", "gang", "gang", "gang") * 2,
    *("start all", "start one", "succeed", "stop", "replace", "delete", "time") * 2,
)
FAULTS = ("fault", "requests hang", "requests go on", "restart")


def happenings(*, faults: bool, paces: tuple[str, ...] = ("rest",)) -> st.SearchStrategy[Happening]:
    kinds = [*OFTEN, *(kind for kind in HAPPENINGS if faults or kind not in FAULTS), *(FAULTS if faults else ())]
    numbers = st.integers(0, 127)
    return st.builds(Happening, st.sampled_from(kinds), numbers, numbers, st.sampled_from(paces))


def histories(*, faults: bool, paces: tuple[str, ...] = ("rest",)) -> st.SearchStrategy[list[Happening]]:
    """Up to 30 happenings, mostly many: interesting things need a full cluster."""
    some = happenings(faults=faults, paces=paces)
    return st.one_of(st.lists(some, min_size=least, max_size=30) for least in (3, 10, 18))


# -- running ---------------------------------------------------------------------------------------


class QuickLoop(asyncio.SelectorEventLoop):
    """An event loop in which a pause takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0

    def time(self) -> float:
        return super().time() + self._ahead

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._ahead += max(0.0, self._scheduled[0]._when - self.time())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run(story: Callable[[], Any]) -> None:
    with quick_loop() as loop:
        loop.run_until_complete(story())


@contextmanager
def quick_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = QuickLoop()
    try:
        yield loop
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class Errors(logging.Handler):
    """Collects what the controller logs as an error: a request that failed in a way that it should not."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())
