"""A cluster in memory: an API server that knows the calls of the controller and no others, kubelets and users.

Changes reach a controller's mirror when the test lets them (`show`), in the order in which they happened.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gfs.assembly.parameters import Parameters
from gfs.core.actions import Record
from gfs.live.controller import Controller
from gfs.live.mirror import Mirror
from gfs.live.problems import Conflict, NotFound, Outdated
from gfs.live.service import new_scheduler
from gfs.live.settings import LIVE_DEFAULTS, LiveSettings
from gfs.live.translate.shape import Json
from hand import Hand

Change = tuple[str, Json | None, Json | None]
"""The kind of an object, and the object before and after."""


class FakeServer:
    """Objects, and the writes that the controller may ask for. Like `gfs.live.api.Api`."""

    def __init__(self, hand: Hand | None = None) -> None:
        self.hand = hand or Hand()
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        """By namespace/name."""
        self.groups: dict[str, Json] = {}
        self.events: list[Json] = []
        self.bound: list[tuple[str, str]] = []
        """Pods that were bound, with their nodes, in order."""
        self.deleted: list[str] = []
        """Pods, by name, that the controller deleted."""
        self.graces: dict[str, int | None] = {}
        """Pod that the controller deleted, by name -> the grace period that it gave; None: the pod's own."""
        self.failures: dict[str, list[Exception]] = {}
        """Call -> errors that its next ones end with, before anything is done."""
        self.lost_answers: dict[str, list[Exception]] = {}
        """Call -> errors that its next ones end with although everything was done."""
        self.queued: dict[str, asyncio.Event] = {}
        """Call -> the event that its requests wait for before they are sent."""
        self.held: dict[str, asyncio.Event] = {}
        """Call -> the event that its requests, which are sent, wait for before anything is done."""
        self.asked: Counter[str] = Counter()
        """Call -> how often it was made."""
        self.budgets: dict[str, Json] = {}
        self.namespaces: dict[str, Json] = {}
        self._watches: list[deque[Change]] = []
        self._version = 1
        self.uids = 0

    @property
    def _things(self) -> dict[str, dict[str, Json]]:
        return {
            "namespace": self.namespaces, "budget": self.budgets, "group": self.groups,
            "node": self.nodes, "pod": self.pods,
        }  # fmt: skip

    # -- what the controller asks ------------------------------------------------------------------

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        objection: Callable[[], str] = lambda: "",
    ) -> None:
        await self._enter("bind", objection)
        found = self._pod(f"{namespace}/{pod}", uid)
        if found["spec"].get("nodeName"):
            raise Conflict("already bound")
        self.bound.append((pod, node))
        after = copy.deepcopy(found)
        after["spec"]["nodeName"] = node
        after["metadata"]["annotations"] = {**(found["metadata"].get("annotations") or {}), **annotations}
        self._put("pod", f"{namespace}/{pod}", after)
        self._leave("bind")

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        version: str = "",
        grace: int | None = None,
        objection: Callable[[], str] = lambda: "",
    ) -> Json:
        await self._enter("delete", objection)
        name = _name(path)
        found = self._same_pod(name, uid)
        if version and found["metadata"]["resourceVersion"] != version:
            raise Conflict("another version")
        self.deleted.append(found["metadata"]["name"])
        self.graces[found["metadata"]["name"]] = grace
        self.delete_pod(name, grace)
        self._leave("delete")
        return self.pods.get(name, found)

    async def patch(self, path: str, body: Json) -> Json:
        await self._enter("patch")
        if "/events/" in path:
            return {}
        found = self._same_pod(_name(path), body["metadata"]["uid"])
        version = body["metadata"].get("resourceVersion")
        if version and found["metadata"]["resourceVersion"] != version:
            raise Conflict("another version")
        after, status = copy.deepcopy(found), body["status"]
        if "nominatedNodeName" in status:
            after["status"]["nominatedNodeName"] = status["nominatedNodeName"] or ""
        kept = {each["type"]: each for each in after["status"].get("conditions") or ()}
        kept |= {each["type"]: each for each in status.get("conditions", [])}
        after["status"]["conditions"] = list(kept.values())
        self._put("pod", _name(path), after)
        self._leave("patch")
        return copy.deepcopy(self.pods[_name(path)])

    async def create(self, path: str, body: Json) -> Json:
        await self._enter("create")
        self.events.append(body)
        return body

    async def find(self, path: str) -> Json | None:
        await self._enter("find")
        return copy.deepcopy(self.pods.get(_name(path)))

    async def _enter(self, call: str, objection: Callable[[], str] = lambda: "") -> None:
        self.asked[call] += 1
        await asyncio.sleep(0)
        if call in self.queued:
            await self.queued[call].wait()
        if self.failures.get(call):
            raise self.failures[call].pop(0)
        if why := objection():
            raise Outdated(f"not sent: {why}")
        if call in self.held:
            await self.held[call].wait()

    def _leave(self, call: str) -> None:
        """All is done; the answer may be lost."""
        if self.lost_answers.get(call):
            raise self.lost_answers[call].pop(0)

    def hold(self, call: str) -> asyncio.Event:
        """Let requests of this kind be under way until the event is set that is returned."""
        self.held[call] = asyncio.Event()
        return self.held[call]

    def queue(self, call: str) -> asyncio.Event:
        """Let requests of this kind wait before they are sent, until the event is set that is returned."""
        self.queued[call] = asyncio.Event()
        return self.queued[call]

    def _same_pod(self, name: str, uid: str) -> Json:
        """As `_pod`, but another pod of this name is a conflict."""
        if name in self.pods and uid and self.pods[name]["metadata"]["uid"] != uid:
            raise Conflict(f"{name} has another uid")
        return self._pod(name, uid)

    def _pod(self, name: str, uid: str) -> Json:
        found = self.pods.get(name)
        if found is None or (uid and found["metadata"]["uid"] != uid):
            raise NotFound(f"{name} is not there")
        return found

    # -- what users, kubelets and others do --------------------------------------------------------

    def put_node(self, node: Json) -> None:
        self._put("node", node["metadata"]["name"], node)

    def remove_node(self, name: str) -> None:
        self._put("node", name, None)

    def put_group(self, group: Json) -> None:
        self._put("group", group["metadata"]["name"], group)

    def remove_group(self, name: str) -> None:
        self._put("group", name, None)

    def put_budget(self, budget: Json) -> None:
        self._put("budget", budget["metadata"]["name"], budget)

    def remove_budget(self, name: str) -> None:
        self._put("budget", name, None)

    def put_namespace(self, namespace: Json) -> None:
        self._put("namespace", namespace["metadata"]["name"], namespace)

    def put_pod(self, pod: Json) -> str:
        """Create or change a pod; a new one gets a uid of its own. Returns namespace/name."""
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if name not in self.pods:
            self.uids += 1
            pod = copy.deepcopy(pod)
            pod["metadata"] |= {"uid": f"uid-{self.uids:06d}", "creationTimestamp": stamp(self.hand.now())}
        self._put("pod", name, pod)
        return name

    def set_phase(self, name: str, phase: str) -> None:
        pod = copy.deepcopy(self.pods[name])
        pod["status"] |= {"phase": phase}
        if phase == "Running":
            pod["status"].setdefault("startTime", stamp(self.hand.now()))
        self._put("pod", name, pod)

    def bind_by_hand(self, name: str, node: str) -> None:
        """Another scheduler, or a user, binds a pod."""
        pod = copy.deepcopy(self.pods[name])
        pod["spec"]["nodeName"] = node
        self._put("pod", name, pod)

    def delete_pod(self, name: str, grace: int | None = None) -> None:
        """Delete a pod as a user would; one that is bound goes when its kubelet has stopped it (`stop_deleted`)."""
        pod = copy.deepcopy(self.pods[name])
        if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
            self._put("pod", name, None)
            return
        seconds = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
        pod["metadata"].setdefault("deletionTimestamp", stamp(self.hand.now() + seconds))
        self._put("pod", name, pod)

    def remove_pod(self, name: str) -> None:
        self._put("pod", name, None)

    def start_bound(self) -> None:
        """Kubelets start all pods that are bound."""
        for name, pod in list(self.pods.items()):
            if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending" and not _deleting(pod):
                self.set_phase(name, "Running")

    def stop_deleted(self) -> list[str]:
        """Kubelets stop all pods that are being deleted; returns their names."""
        gone = [name for name, pod in self.pods.items() if _deleting(pod)]
        for name in gone:
            self._put("pod", name, None)
        return gone

    def _put(self, kind: str, name: str, after: Json | None) -> None:
        things = self._things[kind]
        before = things.get(name)
        if after is None:
            if things.pop(name, None) is None:
                return
        else:
            self._version += 1
            after["metadata"]["resourceVersion"] = str(self._version)
            things[name] = after
        for watch in self._watches:
            watch.append((kind, before, after))

    # -- watches -----------------------------------------------------------------------------------

    def watch(self) -> deque[Change]:
        """All that is there, then what changes."""
        changes: deque[Change] = deque(
            (kind, None, thing) for kind, things in self._things.items() for thing in things.values()
        )
        self._watches.append(changes)
        return changes


class Sink:
    """Keeps what was recorded."""

    def __init__(self) -> None:
        self.entries: list[Record] = []

    def record(self, entry: Record) -> None:
        self.entries.append(entry)

    def cancelled(self, now: float, name: str) -> None:
        pass

    def reconcile(self, now: float, runs: Any, waiting: Any, done: Any) -> None:
        pass


class Replica:
    """A controller with its view of the cluster."""

    def __init__(self, server: FakeServer, settings: LiveSettings, saved: Any = None, **options: Any) -> None:
        self.server, hand = server, server.hand
        self.sink = Sink()
        parameters = Parameters(**{**LIVE_DEFAULTS, "quota": "none", **options.pop("parameters", {})})
        self.controller = Controller(
            server,
            settings,
            options.pop("sink", self.sink),
            tick=300.0,
            guarantee_hours=1.0,
            checkpoint_interval=3600.0,
            clock=hand,
            monotonic=hand,
            wall=hand.now,
            **options,
        )
        self._watch = server.watch()
        self.show()
        scheduler = new_scheduler(settings, parameters)
        self.controller.begin(scheduler)
        if saved is not None:
            self.controller.identities.load(saved)

    def show(self, most: int = 1_000_000) -> None:
        """Let the mirror see the next changes."""
        mirror: Mirror = self.controller.mirror
        told = {
            "namespace": mirror.namespace_changed, "budget": mirror.budget_changed, "group": mirror.group_changed,
            "node": mirror.node_changed, "pod": mirror.pod_changed,
        }  # fmt: skip
        while self._watch and most:
            most -= 1
            kind, before, after = self._watch.popleft()
            told[kind](before, after)

    async def step(self) -> None:
        """See everything, decide, and let all requests end."""
        self.show()
        self.controller.step()
        await self.controller.finish_requests()

    def uid(self, name: str) -> str:
        """The uid of a pod of namespace `lab` by its name."""
        return str(self.server.pods[f"lab/{name}"]["metadata"]["uid"])

    async def rest(self, steps: int = 12) -> None:
        """Decide until nothing changes any more."""
        for _ in range(steps):
            await self.step()
            if not self._watch and not self.controller.changed.is_set():
                return


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _name(path: str) -> str:
    """namespace/name of the pod that a path names."""
    parts = path.split("/")
    return f"{parts[4]}/{parts[6]}"


def _deleting(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]
