"""The harness of the table of everyday events: many cases at once on one bench, each with nodes of its own GPU model.

A case is a short function of a `Case`: it adds nodes and workloads, lets something happen, and says what comes of it.
All judging goes through the API server. `survives`, `keeps_waiting` and the rules that hold for every case are judged
when all cases are over and have had a common time to go wrong.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench import manifests
from bench.bench import Bench
from bench.client import GROUPS, ApiError, Client, Manifest, path
from bench.recorder import Recorder
from bench.stages import HANG
from gfs.live.settings import LiveSettings

LIMIT = 60.0
"""Seconds until something has happened: a bound for a busy machine, far below the settings that hold GPUs back."""
SOON = 45.0
"""Seconds until a pod that waits has the right reason, once it has one."""
HOLD = 12.0
"""Seconds that all cases are left alone before what must not happen is judged."""
CLEAN = 300.0
KUBERNETES = {"DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet"}
"""Reasons of DisruptionTarget that are not the scheduler's."""
HP, SPOT = "gfs-hp", "gfs-spot"
NEVER, REMADE = "everyday-hp-never", "everyday-hp-remade"
"""Further HP classes: one that preempts nobody, one that is deleted and created again."""
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GROUPS |= {"statefulsets": "apis/apps/v1", "daemonsets": "apis/apps/v1"}
PLUGIN = "podgroups.scheduling.x-k8s.io"
KINDS = {"Job": "jobs", "Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}

SETTINGS = {
    "burst": 0.01,
    "hang_timeout": 20.0,
    "snapshot_interval": 0.5,
    "hp_classes": [HP, NEVER, REMADE],
}
"""Of every controller; GPUs that are held for a pod that is gone would be held for longer than any case waits."""


# -- the table -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """One row of the table."""

    name: str
    group: str
    text: str
    play: Callable[[Case], object]
    audited: bool

    def __str__(self) -> str:
        return self.name


class Table:
    """Collects the cases: `@table.case`, or `@table.case(name=argument, ...)` for a family of cases."""

    def __init__(self) -> None:
        self.stories: dict[str, Story] = {}

    def case(self, *groups: str, audited: bool = True, each: Mapping[str, tuple[Any, ...]] | None = None) -> Any:
        """Add a case for each controller group (default: main) and each named tuple of further arguments."""

        def add(function: Callable[..., object]) -> Callable[..., object]:
            for group in groups or ("main",):
                for label, arguments in (each or {"": ()}).items():
                    words = [function.__name__, label, group if len(groups) > 1 else ""]
                    name = re.sub(r"[^a-z0-9]+", "-", " ".join(filter(None, words)).lower()).strip("-")
                    assert name not in self.stories, name
                    assert len(name) <= 58, f"{name} is too long for a namespace"
                    play = partial(_with, function, arguments)
                    self.stories[name] = Story(name, group, function.__doc__ or "", play, audited)
            return function

        return add


def _with(function: Callable[..., object], arguments: tuple[Any, ...], case: Case) -> None:
    function(case, *arguments)


# -- the cluster as the API server tells it ----------------------------------------------------------------------


class World:
    """All pods by namespace, as the recorded watch tells them, with what was ever seen of them."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Manifest]] = defaultdict(dict)
        self.marks: dict[str, dict[str, tuple[str, str, str]]] = defaultdict(dict)
        """Namespace -> pod -> workload, reason and message of a DisruptionTarget that is not Kubernetes' own."""
        self.phases: dict[tuple[str, str], str] = {}
        """Namespace and pod -> the phase in which it got such a mark."""
        self.bound_at: dict[str, int] = {}
        """Pod uid -> the version of the object in which it was first bound."""
        self.ended_at: dict[str, int] = {}
        """Pod uid -> the version of the object in which it held nothing any more."""
        self._changed: dict[str, threading.Condition] = defaultdict(threading.Condition)

    def take(self, word: str, item: Manifest) -> None:
        if item.get("kind") != "Pod":
            return
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        with self._changed[namespace]:
            if word == "DELETED":
                self.pods[namespace].pop(name, None)
            else:
                self.pods[namespace][name] = item
            if word == "DELETED" or is_over(item):
                self.ended_at.setdefault(item["metadata"]["uid"], int(item["metadata"]["resourceVersion"]))
            if node_of(item):
                self.bound_at.setdefault(item["metadata"]["uid"], int(item["metadata"]["resourceVersion"]))
            for mark in conditions(item, "DisruptionTarget"):
                if mark["status"] == "True" and mark.get("reason") not in KUBERNETES:
                    told = workload_of(item), mark.get("reason", ""), mark.get("message", "")
                    self.marks[namespace].setdefault(name, told)
                    self.phases.setdefault((namespace, name), phase_of(item))
            self._changed[namespace].notify_all()

    def wait(
        self, namespace: str, so: Callable[[], object], what: str, alive: Callable[[], object], within: float
    ) -> None:
        end = time.monotonic() + within
        with self._changed[namespace]:
            while not so():
                alive()
                left = end - time.monotonic()
                assert left > 0, f"{what} (not within {within:g} s): {self.shown(namespace)}"
                self._changed[namespace].wait(min(left, 1.0))

    def shown(self, namespace: str) -> str:
        """The pods of a namespace in a few words each."""
        words = []
        for name, pod in sorted(self.pods[namespace].items()):
            told = [name, phase_of(pod), f"on {node_of(pod)}" if node_of(pod) else "not bound"]
            told += ["is being deleted"] if is_deleting(pod) else []
            told += [f"{c.get('reason')}: {c.get('message')}" for c in conditions(pod, "PodScheduled", "False")]
            told += [f"{c.get('reason')}: {c.get('message')}" for c in conditions(pod, "DisruptionTarget")]
            words.append(" ".join(told))
        return "\n  " + ("\n  ".join(words) or "no pods")


def conditions(item: Manifest, type_: str, status: str = "") -> list[Manifest]:
    found = (item.get("status") or {}).get("conditions") or []
    return [c for c in found if c["type"] == type_ and (not status or c["status"] == status)]


def node_of(pod: Manifest) -> str:
    return str(pod["spec"].get("nodeName") or "")


def phase_of(pod: Manifest) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def is_deleting(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_over(pod: Manifest) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


def workload_of(pod: Manifest) -> str:
    return str((pod["metadata"].get("labels") or {}).get("workload", ""))


def gpus_of(pod: Manifest) -> int:
    return sum(int(c["resources"].get("requests", {}).get(manifests.GPU, 0)) for c in pod["spec"]["containers"])


# -- controllers -------------------------------------------------------------------------------------------------


@dataclass
class Group:
    """Cases that share a controller: `gfs live run` as a process of its own, for pods of its own scheduler name."""

    name: str
    parameters: str = 'quota = "none"'
    record: bool = False
    state: bool = False
    kill: bool = False
    """Whether a restart kills it, or asks it to end."""
    folder: Path = Path()
    kubeconfig: Path = Path()
    process: subprocess.Popen[bytes] | None = None
    active: int = 0
    """Cases that have not ended."""
    _arrived: list[Callable[[], object]] = field(default_factory=list)
    _turn: int = 0
    _turned: threading.Condition = field(default_factory=threading.Condition)

    @property
    def scheduler(self) -> str:
        return f"everyday-{self.name}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        config = self.folder / f"{self.name}.toml"
        known = {name: value for name, value in SETTINGS.items() if name in LiveSettings.__struct_fields__}
        lines = [f"{name} = {json.dumps(value)}" for name, value in {**known, "scheduler_name": self.scheduler}.items()]
        config.write_text("\n".join(["[live]", *lines, "[parameters]", self.parameters]))
        words = [sys.executable, "-m", "gfs.cli.main", "live", "run", "--kubeconfig", str(self.kubeconfig)]
        words += ["--config", str(config), "--http", "off", "--no-elect"]
        words += ["--record", str(self.folder / f"{self.name}-record")] if self.record else []
        words += ["--state", str(self.folder / f"{self.name}-state")] if self.state else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "COLUMNS": "200"})

    def stop(self) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL if self.kill else signal.SIGTERM)
            self.process.wait(CLEAN)
            self.process = None

    def check(self) -> None:
        """The controller must not end by itself."""
        ended = self.process.poll() if self.process is not None else None
        assert ended is None, f"the controller ended with {ended}: {self.log.read_text()[-800:]}"

    def restart(self, meanwhile: Callable[[], object]) -> None:
        """Wait until all cases of the group are here; then the controller stops, this happens, and it starts again."""
        with self._turned:
            turn = self._turn
            self._arrived.append(meanwhile)
            self._go_on_if_all_are_here()
            self._turned.wait_for(lambda: self._turn > turn)

    def leave(self) -> None:
        with self._turned:
            self.active -= 1
            self._go_on_if_all_are_here()

    def _go_on_if_all_are_here(self) -> None:
        if not self._arrived or len(self._arrived) < self.active:
            return
        try:
            self.stop()
            for happens in self._arrived:
                happens()
        finally:
            self.start()
            self._arrived.clear()
            self._turn += 1
            self._turned.notify_all()


GROUP_OPTIONS: dict[str, dict[str, Any]] = {
    "main": {},
    "quota": {"parameters": 'quota = "fixed"\nquota_share = 0.0'},
    "stopped": {"state": True},
    "killed": {"kill": True},
    "recorded": {"record": True},
    "alone": {},
}
"""`alone` begins when the others have ended and their nodes are gone."""


# -- the words of a case -----------------------------------------------------------------------------------------


class Node:
    """A node of a case."""

    def __init__(self, case: Case, name: str) -> None:
        self._case, self.name, self.model = case, name, case.model

    def has_gpus(self, count: int) -> None:
        """The device plug-in reports so many GPUs."""
        self._status({"capacity": {manifests.GPU: str(count)}, "allocatable": {manifests.GPU: str(count)}})

    def has(self, **room: str) -> None:
        self._status({"capacity": room, "allocatable": room})

    def has_nothing(self) -> None:
        """Its kubelet has registered anew and reports nothing yet."""
        self._status({"capacity": None, "allocatable": None})

    def is_ready(self, status: str) -> None:
        """'True', 'False' or 'Unknown'."""
        self._status({"conditions": [manifests.ready_condition(status)]})

    def has_condition(self, type_: str, status: str) -> None:
        self._status({"conditions": [{"type": type_, "status": status}]})

    def label(self, **labels: str | None) -> None:
        """Sets labels; `model` is the GPU model, `zone` the zone, None removes one."""
        names = {"model": manifests.MODEL_LABEL, "zone": ZONE}
        self._patch({"metadata": {"labels": {names.get(key, key): value for key, value in labels.items()}}})

    def cordon(self, on: bool = True) -> None:
        self._patch({"spec": {"unschedulable": on or None}})

    def taint(self, effect: str = "NoSchedule") -> None:
        self._patch({"spec": {"taints": [{"key": "everyday", "value": "x", "effect": effect}]}})

    def untaint(self) -> None:
        self._patch({"spec": {"taints": None}})

    def drain(self) -> None:
        """As `kubectl drain`: cordon, then the eviction API for every pod."""
        self.cordon()
        for pod in self._case.pods_on(self):
            self._case.evict_by_api(pod)

    def remove(self) -> None:
        """The machine goes; its pods are removed as the garbage collector does, which would take a minute."""
        self._case.client.delete(path("nodes", name=self.name))
        why = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
        for pod in self._case.pods_on(self):
            where = path("pods", self._case.namespace, pod["metadata"]["name"])
            with suppress(ApiError):
                status = {"phase": "Failed", "conditions": [why]}
                self._case.client.patch(f"{where}/status", {"status": status}, "strategic")
            self._case.client.delete(where, gracePeriodSeconds=0)

    def _patch(self, change: Manifest) -> None:
        self._case.client.patch(path("nodes", name=self.name), change)

    def _status(self, status: Manifest) -> None:
        where = path("nodes", name=self.name, sub="status")
        self._case.client.patch(where, {"status": status}, "strategic")


class Workload:
    """A bare pod, a gang, or an owner with its pods; `known`: the pods last seen to be bound."""

    def __init__(self, case: Case, name: str, count: int, kind: str = "") -> None:
        self._case, self.name, self.count, self.kind = case, name, count, kind
        self.known: dict[str, str] = {}
        """Pod uid -> node."""

    # -- what happens --

    def scale(self, count: int) -> Workload:
        """replicas, or a Job's parallelism."""
        self.edit({"replicas" if self.kind != "Job" else "parallelism": count})
        self.count = count
        return self

    def edit(self, spec: Manifest) -> Workload:
        self._case.client.patch(path(KINDS[self.kind], self._case.namespace, self.name), {"spec": spec})
        return self

    def roll_out(self, **template: Any) -> Workload:
        """A new version of the template; `again` waits for its pods."""
        note = {"metadata": {"annotations": {"version": str(time.monotonic_ns())}}, **template}
        return self.edit({"template": note})

    def delete(self, how: str = "Background") -> Workload:
        """Delete the owner, or the pods where there is none."""
        if self.kind:
            where = path(KINDS[self.kind], self._case.namespace, self.name)
            self._case.client.delete(where, propagationPolicy=how)
        else:
            self.delete_pods()
        return self

    def delete_pods(self, count: int | None = None, grace: int | None = None) -> Workload:
        """Delete pods one by one, by default all."""
        for pod in self._alive()[:count]:
            self.known.pop(pod["metadata"]["uid"], None)
            options = {} if grace is None else {"gracePeriodSeconds": grace}
            self._case.client.delete(self._path(pod), **options)
        return self

    def succeeds(self, count: int | None = None, on: Node | None = None) -> Workload:
        """Pods that run end well, by default all."""
        return self._ends("Succeeded", 0, "Completed", count, on)

    def fails(self, count: int | None = None, on: Node | None = None, reason: str = "OOMKilled") -> Workload:
        """Pods that run fail, by default all."""
        return self._ends("Failed", 137, reason, count, on)

    def change(self, metadata: Manifest, pods: list[Manifest] | None = None) -> Workload:
        """Change labels, annotations or finalizers of its pods, by default of those that are not over."""
        for pod in self._alive() if pods is None else pods:
            with suppress(ApiError):  # it has just gone
                self._case.client.patch(self._path(pod), {"metadata": metadata})
        return self

    def hangs(self, on: bool = True) -> Workload:
        """Its kubelet does nothing any more: neither starts nor ends it."""
        return self.change({"annotations": {HANG: "true" if on else None}}, self._all())

    # -- what comes of it --

    def bound(self, count: int | None = None, on: Iterable[Node] | Node | None = None) -> Workload:
        """Waits until so many pods (default: all) are bound, on exactly these nodes."""
        return self._await(count, on, lambda pod: True, "bound")

    def runs(self, count: int | None = None, on: Iterable[Node] | Node | None = None) -> Workload:
        """Waits until so many pods (default: all) run, on exactly these nodes."""
        return self._await(count, on, lambda pod: phase_of(pod) == "Running", "running")

    def again(self, count: int | None = None, on: Iterable[Node] | Node | None = None) -> Workload:
        """Waits until so many pods run that are others than those last seen."""
        before = set(self.known)
        return self._await(count, on, lambda pod: pod["metadata"]["uid"] not in before, "bound anew")

    def created(self, count: int) -> Workload:
        """Waits until so many pods that are not bound exist."""
        self._case.wait(
            lambda: sum(not node_of(pod) for pod in self._alive()) >= count, f"{count} of {self.name} created"
        )
        return self

    def waits(self, *reasons: str, count: int = 1, saying: str = "") -> Workload:
        """Waits until so many pods are not bound and say why; a wrong reason counts at the end."""
        wanted = f"{self.name} waits with {' or '.join(reasons) or 'a reason'}" + (f", {saying!r}" if saying else "")
        self._case.wait(lambda: self._says(count), wanted)
        try:
            self._case.wait(lambda: self._says(count, reasons, saying), wanted, SOON)
        except AssertionError as wrong:
            self._case.wrong_reasons.append(str(wrong))
        return self

    def keeps_waiting(self, *reasons: str, count: int = 1, saying: str = "") -> Workload:
        """`waits`, and nothing of it is bound until the end."""
        self.waits(*reasons, count=count, saying=saying)

        def judge() -> None:
            assert not any(map(node_of, self._alive())), f"{self.name} was bound{self._case.shown()}"
            assert self._says(count), f"{self.name} waits without a reason{self._case.shown()}"

        return self._later(judge)

    def _says(self, count: int, reasons: tuple[str, ...] = (), saying: str = "") -> bool:
        free = [pod for pod in self._alive() if not node_of(pod)]
        right = [pod for pod in free if says(pod, reasons, saying)]
        return len(right) >= count and len(right) == len(free)

    def survives(self, on: Node | None = None) -> Workload:
        """The pods last seen to be bound (on this node) stay until the end."""
        kept = {uid for uid, node in self.known.items() if on is None or node == on.name}
        assert kept, f"{self.name}: nothing ran"

        def judge() -> None:
            there = {pod["metadata"]["uid"] for pod in self._alive()}
            assert kept <= there, f"lost {len(kept - there)} of {self.name}{self._case.shown()}"

        return self._later(judge)

    def never_on(self, node: Node) -> Workload:
        def judge() -> None:
            assert node.name not in map(node_of, self._all()), f"{self.name} is on {node.name}{self._case.shown()}"

        return self._later(judge)

    def came_after(self, other: Workload) -> Workload:
        """It was bound when the pods of another workload had ended, not before."""
        bound = min(self._case.world.bound_at[uid] for uid in self.known)
        ended = [self._case.world.ended_at.get(uid) for uid in other.known]
        assert all(end is not None and end <= bound for end in ended), f"{self.name} came before {other.name} had gone"
        return self

    def evicted(self, count: int | None = None) -> Workload:
        """Waits until so many pods (default: all last seen) are marked as victims; no others may be."""
        wanted = count if count is not None else len(self.known)
        self._case.expected[self.name] += wanted
        total = self._case.expected[self.name]
        self._case.wait(
            lambda: len(self._case.marked(self.name, "PreemptionByScheduler")) >= total,
            f"{wanted} of {self.name} evicted",
        )
        return self

    def taken_back(self) -> Workload:
        """Waits until one of its pods is given up; more may be, as long as none of them has started."""
        self._case.taken_back.add(self.name)
        self._case.wait(lambda: self._case.marked(self.name), f"{self.name} taken back")
        return self

    def holds(self, gpus: int) -> Workload:
        """Waits until its pods hold no more than so many GPUs."""

        def held() -> int:
            return sum(gpus_of(pod) for pod in self._all() if node_of(pod) and not is_over(pod))

        self._case.wait(lambda: held() <= gpus, f"{self.name} holds {gpus} GPUs")
        return self

    def gone(self) -> Workload:
        """Waits until nothing of it is there any more."""
        self._case.wait(lambda: not self._all(), f"{self.name} gone")
        return self

    # -- inside --

    def _all(self) -> list[Manifest]:
        pods = sorted(self._case.pods().items())
        return [pod for _, pod in pods if workload_of(pod) == self.name]

    def _alive(self) -> list[Manifest]:
        return [pod for pod in self._all() if not is_over(pod) and not is_deleting(pod)]

    def _await(
        self, count: int | None, on: Iterable[Node] | Node | None, so: Callable[[Manifest], bool], word: str
    ) -> Workload:
        wanted = count if count is not None else self.count
        nodes = None if on is None else {n.name for n in ((on,) if isinstance(on, Node) else on)}
        found: list[Manifest] = []
        everybody: list[Manifest] = []

        def there() -> bool:
            everybody[:] = [pod for pod in self._alive() if node_of(pod)]
            found[:] = filter(so, everybody)
            return len(found) >= wanted

        self._case.wait(there, f"{wanted} of {self.name} {word}")
        used = {node_of(pod) for pod in found}
        assert nodes is None or used == nodes, f"{self.name} is on {used}, not on {nodes}{self._case.shown()}"
        self.known = {pod["metadata"]["uid"]: node_of(pod) for pod in everybody}
        return self

    def _ends(self, phase: str, code: int, reason: str, count: int | None, on: Node | None) -> Workload:
        found = [p for p in self._alive() if p["metadata"]["uid"] in self.known]
        for pod in [p for p in found if on is None or node_of(p) == on.name][:count]:
            ended = {"terminated": {"exitCode": code, "reason": reason}}
            state = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
            status = {"phase": phase, "containerStatuses": [state]}
            self._case.client.patch(f"{self._path(pod)}/status", {"status": status})
            del self.known[pod["metadata"]["uid"]]
            uid = pod["metadata"]["uid"]
            self._case.wait(
                lambda uid=uid: uid not in {each["metadata"]["uid"] for each in self._alive()}, f"{uid} has ended"
            )
        return self

    def _path(self, pod: Manifest) -> str:
        return path("pods", self._case.namespace, pod["metadata"]["name"])

    def _later(self, judge: Callable[[], None]) -> Workload:
        self._case.judgements.append(judge)
        return self


def poll(so: Callable[[], object], what: str) -> None:
    """Wait for what no watch of ours tells."""
    end = time.monotonic() + LIMIT
    while not so():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def create_class(client: Client, name: str, value: int, policy: str = "PreemptLowerPriority") -> None:
    """Create a PriorityClass and wait until pods may have it."""
    client.create("priorityclasses", {**manifests.priority_class(name, value), "preemptionPolicy": policy})
    pod = manifests.pod("probe", priority_class=name)

    def usable() -> bool:
        with suppress(ApiError):
            return bool(client.create("pods", pod, dry_run=True))
        return False

    poll(usable, f"pods may have the class {name}")


def _is_ready(node: Manifest) -> bool:
    taints = [taint["key"] for taint in node["spec"].get("taints") or ()]
    return not any(key.startswith("node.kubernetes.io/") for key in taints)


def _plural(kind: str) -> str:
    return kind.lower().removesuffix("y") + ("ies" if kind.endswith("y") else "s")


def says(pod: Manifest, reasons: tuple[str, ...], saying: str) -> bool:
    """Whether a pod that waits has one of these reasons and words."""
    return any(
        bool(c.get("message")) and (not reasons or c.get("reason") in reasons) and saying in c["message"]
        for c in conditions(pod, "PodScheduled", "False")
    )


class Case:
    """One case while it plays: a namespace and a GPU model of its own, both called as the case."""

    def __init__(self, story: Story, client: Client, world: World, group: Group) -> None:
        self.story, self.client, self.group = story, client, group
        self.namespace = self.model = story.name
        self.world = world
        self.nodes: list[Node] = []
        self.judgements: list[Callable[[], None]] = []
        self.wrong_reasons: list[str] = []
        self.taken_back: set[str] = set()
        """Workloads of which pods that have not started may be given up."""
        self.expected: Counter[str] = Counter()
        """Workload -> how many of its pods GFS may evict or take back."""
        self.problem: BaseException | None = None
        self.neighbours: list[Case] = []
        self._labelled: set[str] = set()
        """PodGroups of scheduler-plugins, which pods name by a label."""

    # -- nodes and workloads --

    def node(self, name: str, gpus: int = 8, zone: str = "", **node: Any) -> Node:
        """Add a node of the case's model."""
        full = f"{self.namespace}-{name}"
        labels = ({ZONE: zone} if zone else {}) | node.pop("labels", {})
        self.client.create("nodes", manifests.node(full, gpus, **{"model": self.model, "labels": labels, **node}))
        self.nodes.append(Node(self, full))
        if node.get("ready", True):
            poll(lambda: self._is_ready(full), f"{full} is ready")
        return self.nodes[-1]

    def _is_ready(self, node: str) -> bool:
        found = self.client.get(path("nodes", name=node))
        ready = [c for c in found["status"].get("conditions", []) if c["type"] == "Ready" and c["status"] == "True"]
        return bool(ready) and not found["spec"].get("taints")

    def spot(self, name: str, gpus: int = 1, **pod: Any) -> Workload:
        """A bare spot pod."""
        return self._pods(name, 1, gpus=gpus, **pod)

    def hp(self, name: str, gpus: int = 1, **pod: Any) -> Workload:
        """A bare HP pod."""
        return self._pods(name, 1, gpus=gpus, **{"priority_class": HP, **pod})

    def gang(self, name: str, pods: int, minimum: int | None = None, **pod: Any) -> Workload:
        """A PodGroup and bare pods of it."""
        self.group_of(name, minimum or pods)
        return self.members(name, pods, **pod)

    def members(self, name: str, pods: int, group: str = "", **pod: Any) -> Workload:
        """Bare pods of a PodGroup, which may be there or not."""
        return self._pods(name, pods, group=group or name, **pod)

    def job(self, name: str, pods: int = 1, completions: int | None = None, **job: Any) -> Workload:
        """A Job; `job`: fields of the Job's spec in `spec`, the rest is of the template."""
        spec = job.pop("spec", {})
        manifest = manifests.job(name, self.namespace, pods=pods, **self._template(name, job))
        manifest["spec"] |= {"completions": completions or pods, **spec}
        return self._own(name, pods, "Job", manifest)

    def gang_job(self, name: str, pods: int, minimum: int | None = None, **job: Any) -> Workload:
        """A PodGroup and a Job whose pods are its members."""
        self.group_of(name, minimum or pods)
        return self.job(name, pods, group=name, **job)

    def deployment(self, name: str, pods: int, surge: int = 1, hp: bool = True, **template: Any) -> Workload:
        """A Deployment, HP by default; `surge` 0: a pod goes before its successor comes."""
        rolling = {"maxSurge": surge, "maxUnavailable": 1 - surge}
        spec = {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
        return self._replicas(name, pods, "Deployment", spec, template, hp)

    def stateful_set(self, name: str, pods: int, hp: bool = True, **template: Any) -> Workload:
        spec = {"serviceName": name, "podManagementPolicy": "Parallel"}
        return self._replicas(name, pods, "StatefulSet", spec, template, hp)

    def group_of(self, name: str, minimum: int, **spec: Any) -> None:
        """Create a PodGroup; with `basic=True` it is no gang."""
        manifest = manifests.pod_group(self._group(name), self.namespace, minimum)
        if spec.pop("basic", False):
            manifest["spec"]["schedulingPolicy"] = {"basic": {}}
        manifest["spec"] |= spec
        self.client.create("podgroups", manifest)

    def plugin_group(self, name: str, minimum: int) -> None:
        """Create a PodGroup of scheduler-plugins: its minimum can be changed, and the size of a Job in it."""
        self._labelled.add(name)
        self.client.create(PLUGIN, manifests.plugin_pod_group(self._group(name), self.namespace, minimum))

    def minimum(self, name: str, count: int) -> None:
        """Change the minimum of a PodGroup of scheduler-plugins."""
        self.client.patch(path(PLUGIN, self.namespace, self._group(name)), {"spec": {"minMember": count}})

    def delete_group(self, name: str, force: bool = False) -> None:
        """Delete a PodGroup; it goes when no pod names it any more, or at once by `force`."""
        where = path(PLUGIN if name in self._labelled else "podgroups", self.namespace, self._group(name))
        self.client.delete(where)
        with suppress(ApiError):
            if force:
                self.client.patch(where, {"metadata": {"finalizers": None}})
        poll(lambda: not self.client.exists(where), f"the PodGroup {name} is gone")

    def delete_namespace(self) -> None:
        self.client.delete(path("namespaces", name=self.namespace))
        self.wait(lambda: not self.pods(), "the namespace is empty")

    def next_door(self) -> Case:
        """Another namespace beside the same nodes."""
        other = Case(self.story, self.client, self.world, self.group)
        other.namespace = f"{self.namespace}-2"
        self.client.create("namespaces", manifests.namespace(other.namespace))
        self.neighbours.append(other)
        return other

    def foreign(self, name: str, gpus: int, node: Node, **pod: Any) -> Workload:
        """A pod of another scheduler on a node."""
        return self._pods(name, 1, gpus=gpus, node=node.name, **{"scheduler": "other", "priority_class": "", **pod})

    def workflow(self, name: str) -> list[Manifest]:
        """The owner reference of an owner that creates no pod again."""
        version = "argoproj.io/v1alpha1"
        manifest = {"apiVersion": version, "kind": "Workflow", "metadata": {"name": name}}
        created = self.client.request("POST", f"/apis/{version}/namespaces/{self.namespace}/workflows", manifest)
        uid = created["metadata"]["uid"]
        return [{"apiVersion": version, "kind": "Workflow", "name": name, "uid": uid, "controller": True}]

    def budget(self, workload: Workload, minimum: int) -> None:
        """A PodDisruptionBudget that everybody knows of."""
        name = workload.name
        manifest = manifests.disruption_budget(name, self.namespace, {"workload": name}, minimum)
        self.client.create("poddisruptionbudgets", manifest)
        where = path("poddisruptionbudgets", self.namespace, name)
        poll(lambda: self.client.get(where)["status"].get("currentHealthy"), "the budget counts")
        self.processed()

    # -- what happens --

    @contextmanager
    def closed_to_bindings(self, node: Node) -> Iterator[None]:
        """Until it ends, the API server refuses every binding to a node."""
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}]
        refusal = {"expression": f"object.target.name != '{node.name}'", "message": "closed to bindings"}
        kinds = {
            "ValidatingAdmissionPolicy": {"matchConstraints": {"resourceRules": rules}, "validations": [refusal]},
            "ValidatingAdmissionPolicyBinding": {"policyName": node.name, "validationActions": ["Deny"]},
        }
        group = "admissionregistration.k8s.io/v1"
        for kind, spec in kinds.items():
            manifest = {"apiVersion": group, "kind": kind, "metadata": {"name": node.name}, "spec": spec}
            self.client.request("POST", f"/apis/{group}/{_plural(kind)}", manifest)
        try:
            self._pods("closed", 1, gpus=0, scheduler="nobody", priority_class="")
            poll(lambda: self._is_refused("closed", node), "the policy takes effect")
            yield
        finally:
            for kind in kinds:
                self.client.delete(f"/apis/{group}/{_plural(kind)}/{node.name}")

    def _is_refused(self, pod: str, node: Node) -> bool:
        body = {"kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node.name}}
        try:
            self.client.request("POST", path("pods", self.namespace, pod, "binding") + "?dryRun=All", body)
        except ApiError as error:
            return "closed to bindings" in str(error)
        return False

    def at_once(self, *acts: Callable[[], object]) -> None:
        """All this happens at the same time."""
        threads = [threading.Thread(target=act) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def remake_class(self, name: str, value: int) -> None:
        """A PriorityClass is deleted and created again."""
        self.client.delete(path("priorityclasses", name=name))
        create_class(self.client, name, value)

    def restart(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """The controller stops, this happens, and it starts again and has seen it."""
        self.group.restart(meanwhile)
        self.processed()

    def _silent(self) -> list[str]:
        """Returns the pods that wait without a reason."""
        ours = [pod for pod in self.pods().values() if pod["spec"].get("schedulerName") == self.group.scheduler]
        free = [pod for pod in ours if not node_of(pod) and not is_over(pod) and not is_deleting(pod)]
        gates = [pod for pod in free if not pod["spec"].get("schedulingGates")]
        return [pod["metadata"]["name"] for pod in gates if not says(pod, (), "")]

    def processed(self, within: float = LIMIT) -> int:
        """Waits until the controller has seen all that happened: a pod that fits nowhere says so; its version."""
        probe = self.hp(f"probe-{time.monotonic_ns()}", 64)
        self.wait(lambda: probe._says(1), "the controller has seen what happened", within)
        return int(probe._all()[0]["metadata"]["resourceVersion"])

    def evict_by_api(self, pod: Manifest) -> None:
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        with suppress(ApiError):  # a budget forbids it
            self.client.request("POST", path("pods", self.namespace, name, "eviction"), eviction)

    # -- what is there --

    def pods(self) -> dict[str, Manifest]:
        return self.world.pods[self.namespace]

    def pods_on(self, node: Node) -> list[Manifest]:
        return [p for p in list(self.pods().values()) if node_of(p) == node.name and not is_over(p)]

    def marked(self, workload: str, reason: str = "") -> list[str]:
        """The pods of a workload that GFS gave up."""
        return [
            name
            for name, (owner, why, _) in self.world.marks[self.namespace].items()
            if owner == workload and (not reason or why == reason)
        ]

    def wait(self, so: Callable[[], object], what: str, within: float = LIMIT) -> None:
        self.world.wait(self.namespace, so, what, self.group.check, within)

    def shown(self) -> str:
        return self.world.shown(self.namespace)

    def together(self, count: int, *workloads: Workload) -> None:
        """Waits until so many pods of several workloads are bound."""
        self.wait(lambda: len(self._bound(workloads)) >= count, f"{count} bound together")

    def all_or_none(self, count: int, *workloads: Workload, on: Node | None = None) -> None:
        """At the end all pods of several workloads are bound (on this node), or none."""

        def judge() -> None:
            bound = self._bound(workloads)
            assert len(bound) in (0, count), f"{len(bound)} of {count} are bound{self.shown()}"
            assert on is None or {node_of(p) for p in bound} <= {on.name}, f"not all on {on.name}{self.shown()}"

        self.judgements.append(judge)

    def nothing_bound_beyond(self, gpus: int, nodes: Iterable[Node], version: int) -> None:
        """From this version on no pod was bound to a node that has no more than so many GPUs and not enough left."""
        for node in nodes:
            pods = self.pods_on(node)
            late = [p for p in pods if self.world.bound_at[p["metadata"]["uid"]] > version]
            assert not late or sum(map(gpus_of, pods)) <= gpus, f"too much on {node.name}{self.shown()}"

    def _bound(self, workloads: Iterable[Workload]) -> list[Manifest]:
        return [pod for workload in workloads for pod in workload._alive() if node_of(pod)]

    # -- at the end --

    def judge(self) -> None:
        """What was to be judged at the end, and the rules of every case."""
        if self.problem is not None:
            raise self.problem
        self.group.check()
        for case in self.neighbours:
            case.judge()
        for judgement in self.judgements:
            judgement()
        given_up: Counter[str] = Counter()
        for pod, (workload, _, _) in self.world.marks[self.namespace].items():
            started = self.world.phases[self.namespace, pod] != "Pending"
            given_up[workload] += started or workload not in self.taken_back
        told = [f"{name}: {why}: {text}" for name, (_, why, text) in self.world.marks[self.namespace].items()]
        assert +given_up == +self.expected, f"GFS gave up {dict(given_up)}, not {dict(self.expected)}: {told}"
        assert not self.wrong_reasons, self.wrong_reasons[0]
        self.wait(lambda: not self._silent(), "every pod that waits has a reason", SOON)

    # -- inside --

    def _pods(self, name: str, count: int, **pod: Any) -> Workload:
        owners = self.workflow(name) if pod.pop("workflow", False) else []
        if node := pod.get("node"):
            poll(lambda: _is_ready(self.client.get(path("nodes", name=node))), f"{node} is ready")
        for i in range(count):
            full = f"{name}-{i}" if count > 1 else name
            manifest = manifests.pod(full, self.namespace, **self._template(name, dict(pod)))
            manifest["metadata"] |= {"ownerReferences": owners} if owners else {}
            self.client.create("pods", manifest)
        return Workload(self, name, count)

    def _template(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        at: Node | None = asked.pop("at", None)
        selector = {manifests.MODEL_LABEL: self.model} if asked.pop("by_model", True) else {}
        selector |= ({HOSTNAME: at.name} if at else {}) | asked.pop("nodeSelector", {})
        labels = {"workload": name, **asked.pop("labels", {})}
        if asked.get("group") in self._labelled:
            labels[manifests.GROUP_LABEL] = self._group(asked.pop("group"))
        elif "group" in asked:
            asked["group"] = self._group(asked["group"])
        if asked.pop("hp", False):
            asked["priority_class"] = HP
        if asked.pop("never_starts", False):
            asked["annotations"] = {HANG: "true"}
        return {"grace": 1, "labels": labels, "scheduler": self.group.scheduler, "nodeSelector": selector, **asked}

    def _group(self, name: str) -> str:
        return f"{self.namespace}-{name}"[-63:].strip("-")

    def _replicas(
        self, name: str, pods: int, kind: str, spec: Manifest, template: dict[str, Any], hp: bool
    ) -> Workload:
        asked = self._template(name, {"restartPolicy": "Always", "hp": hp, **template})
        selector = {"selector": {"matchLabels": {"workload": name}}, "template": manifests.pod_template(**asked)}
        manifest = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": self.namespace}}
        return self._own(name, pods, kind, {**manifest, "spec": {"replicas": pods, **selector, **spec}})

    def _own(self, name: str, count: int, kind: str, manifest: Manifest) -> Workload:
        self.client.create(KINDS[kind], manifest)
        return Workload(self, name, count, kind)


# -- playing -----------------------------------------------------------------------------------------------------


class Play:
    """All chosen cases, played at once."""

    def __init__(self, bench: Bench, stories: Iterable[Story], folder: Path) -> None:
        self._bench, self._client = bench, bench.client
        self.world = World()
        self.groups = {
            name: Group(name, **options, folder=folder, kubeconfig=bench.kubeconfig)
            for name, options in GROUP_OPTIONS.items()
        }
        self.cases = {story.name: Case(story, bench.client, self.world, self.groups[story.group]) for story in stories}
        self.outcomes: dict[str, BaseException | None] = {}
        self.watch = folder / "watch.jsonl"

    def run(self) -> None:
        self._bench.install_plugin_pod_groups()
        self._bench.install_loose_kind("argoproj.io", "v1alpha1", "Workflow")
        create_class(self._client, NEVER, 1000, "Never")
        create_class(self._client, REMADE, 1000)
        try:
            with Recorder(self._client, self.watch, listener=self.world.take):
                self._run([c for c in self.cases.values() if c.story.group != "alone"])
                self._run([c for c in self.cases.values() if c.story.group == "alone"])
        finally:
            for name in (NEVER, REMADE):
                self._client.delete(path("priorityclasses", name=name))

    def _run(self, cases: list[Case]) -> None:
        groups = [g for g in self.groups.values() if any(c.group is g for c in cases)]
        probes = [Case(Story(g.scheduler, g.name, "", print, True), self._client, self.world, g) for g in groups]
        try:
            for group in groups:
                group.active = sum(c.group is group for c in cases)
                group.start()
            for ready in probes:
                self._client.create("namespaces", manifests.namespace(ready.namespace))
                ready.processed(CLEAN)
            _at_once(cases, self._play)
            time.sleep(HOLD if any(c.judgements for c in cases) else 0)
            for case in cases:
                self.outcomes[case.story.name] = _problem_of(case.judge)
        finally:
            for group in groups:
                group.stop()
            _at_once([*probes, *cases], self._clean)

    def _play(self, case: Case) -> None:
        try:
            self._client.create("namespaces", manifests.namespace(case.namespace))
            case.problem = _problem_of(lambda: case.story.play(case))
        finally:
            case.group.leave()

    def _clean(self, case: Case) -> None:
        """Leave nothing of a case."""
        for neighbour in case.neighbours:
            self._clean(neighbour)
        client, namespace = self._client, case.namespace
        for kind in KINDS.values():
            client.delete(path(kind, namespace), propagationPolicy="Background")
        for node in case.nodes:
            client.delete(path("nodes", name=node.name))
        client.delete(path("pods", namespace), gracePeriodSeconds=0)
        for name, pod in list(case.pods().items()):
            if "everyday.dev/keep" in (pod["metadata"].get("finalizers") or ()):
                with suppress(ApiError):
                    client.patch(path("pods", namespace, name), {"metadata": {"finalizers": None}})
        client.delete(path("namespaces", name=namespace))
        self.world.wait(namespace, lambda: not case.pods(), "nothing left", lambda: None, CLEAN)


def _at_once(cases: list[Case], act: Callable[[Case], None]) -> None:
    threads = [threading.Thread(target=act, args=(case,), daemon=True) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _problem_of(act: Callable[[], object]) -> BaseException | None:
    try:
        act()
    except Exception as error:
        return error
    return None


@contextmanager
def played(bench: Bench, stories: Iterable[Story], folder: Path) -> Iterator[Play]:
    """Plays the cases and gives what came of them."""
    play = Play(bench, stories, folder)
    play.run()
    yield play
