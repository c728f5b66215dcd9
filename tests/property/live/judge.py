"""A cluster in memory that judges every call of the controller by its own objects, and reads these by itself.

What the watch has not shown yet the controller cannot know: then the last object that was shown counts.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter, deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from fake_cluster import Change, FakeServer, Replica, stamp
from gfs.live.problems import Unavailable
from gfs.live.settings import LiveSettings
from gfs.live.translate.shape import Json
from hand import Hand

MODEL, GPU, OURS = "nvidia.com/gpu.product", "nvidia.com/gpu", "gfs-scheduler"
CREATE_AGAIN = ("Job", "ReplicaSet", "StatefulSet", "DaemonSet")
HP, SPOT = "gfs-hp", "gfs-spot"


# -- reading objects -------------------------------------------------------------------------------


def uid_of(pod: Json) -> str:
    return str(pod["metadata"]["uid"])


def path_of(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def node_of(pod: Json) -> str:
    return str(pod["spec"].get("nodeName") or "")


def gpus_of(pod: Json) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"][GPU])


def is_over(pod: Json) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def is_deleting(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_ours(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulerName") == OURS)


def waits(pod: Json) -> bool:
    return is_ours(pod) and not node_of(pod) and not is_over(pod) and not is_deleting(pod)


def class_of(pod: Json) -> str:
    return str(pod["spec"].get("priorityClassName", ""))


def group_of(pod: Json) -> str:
    return str(pod["spec"].get("schedulingGroup", {}).get("podGroupName", ""))


def owner_kind(pod: Json) -> str:
    return next((str(each["kind"]) for each in pod["metadata"].get("ownerReferences", ())), "")


def minimum_of(group: Json) -> int:
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


def is_preempted(pod: Json) -> bool:
    marks = [each for each in pod["status"].get("conditions", ()) if each["type"] == "DisruptionTarget"]
    return any(each["reason"] == "PreemptionByScheduler" for each in marks)


def model_of(node: Json) -> str:
    return str(node["metadata"]["labels"].get(MODEL, ""))


def capacity(node: Json) -> int:
    return int(node["status"]["allocatable"].get(GPU, 0))


def is_open(node: Json) -> bool:
    ready = any(each["status"] == "True" for each in node["status"]["conditions"])
    return ready and not node["spec"].get("unschedulable") and bool(model_of(node)) and capacity(node) > 0


def admits(node: Json, pod: Json) -> bool:
    """Whether the selector and the taints let a pod onto a node."""
    labels = node["metadata"]["labels"]
    tolerated = {each["key"] for each in pod["spec"].get("tolerations", ())}
    selected = all(labels.get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())
    return selected and all(taint["key"] in tolerated for taint in node["spec"].get("taints", ()))


def counts_for_gang(pod: Json) -> bool:
    return pod["status"]["phase"] == "Succeeded" or not (is_over(pod) or is_deleting(pod))


# -- judging ---------------------------------------------------------------------------------------


class JudgedServer(FakeServer):
    """Notes in `wrong` every call that must not be made."""

    def __init__(self, hand: Hand | None = None) -> None:
        super().__init__(hand)
        self.replica: JudgedReplica | None = None
        self.wrong: list[str] = []
        self.unanswered: Counter[str] = Counter()
        """Call -> how many of its next ones are done, and end without an answer."""
        self.gate = asyncio.Event()
        """Closed: requests are under way until it opens."""
        self.gate.set()

    @property
    def has_faults(self) -> bool:
        return any(self.failures.values()) or self.unanswered.total() > 0

    def end_faults(self) -> None:
        self.failures.clear()
        self.unanswered.clear()

    async def _enter(self, call: str, objection: Callable[[], str] = lambda: "") -> None:
        await self.gate.wait()
        await super()._enter(call, objection)

    def _lose_answer(self, call: str) -> None:
        if self.unanswered[call]:
            self.unanswered[call] -= 1
            raise Unavailable("no answer")

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        objection: Callable[[], str] = lambda: "",
    ) -> None:
        def at_last() -> str:
            found = self.pods.get(f"{namespace}/{pod}")
            if not (why := objection()) and found is not None and uid_of(found) == uid and not node_of(found):
                self._judge_binding(found, node)
            return why

        await super().bind(namespace, pod, uid, node, annotations, at_last)
        bound = copy.deepcopy(self.pods[f"{namespace}/{pod}"])  # its kubelet sees it
        bound["status"].setdefault("startTime", stamp(self.hand.now()))
        self._put("pod", f"{namespace}/{pod}", bound)
        self._lose_answer("bind")

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        version: str = "",
        grace: int | None = None,
        objection: Callable[[], str] = lambda: "",
    ) -> Json:
        name = "/".join(path.split("/")[4::2])

        def at_last() -> str:
            found = self.pods.get(name)
            why = objection()
            same = found is not None and uid_of(found) == uid and version in ("", found["metadata"]["resourceVersion"])
            if not why and same and found is not None:
                self._judge_deletion(found)
            return why

        answer = await super().delete(path, uid=uid, version=version, grace=grace, objection=at_last)
        self._lose_answer("delete")
        return answer

    async def patch(self, path: str, body: Json) -> Json:
        answer = await super().patch(path, body)
        self._lose_answer("patch")
        return answer

    def _judge_binding(self, pod: Json, node: str) -> None:
        assert self.replica is not None
        shown, name = self.replica.shown, f"{path_of(pod)} on {node}"
        view = shown["node"].get(node)
        if view is None or not is_open(view):
            self.wrong.append(f"bound {name}, which takes no pods")
            return
        if not admits(view, pod):
            self.wrong.append(f"bound {name}, against its rules")
        held = sum(gpus_of(each) for each in self.pods.values() if self._known_on(each, node))
        if held + gpus_of(pod) > capacity(view):
            self.wrong.append(f"bound {name}: {held} + {gpus_of(pod)} of {capacity(view)} GPUs")
        if group_of(pod):
            group = shown["group"].get(group_of(pod))
            members = [each for each in shown["pod"].values() if group_of(each) == group_of(pod)]
            present = sum(map(counts_for_gang, members))
            if group is None or present < minimum_of(group):
                self.wrong.append(f"bound {name}: {present} pods of its gang are there")
            elif not any(node_of(each) and not is_over(each) for each in members):
                mates = self.replica.controller.book.by_pod[uid_of(pod)].pods
                starting = len(mates) + sum(each["status"]["phase"] == "Succeeded" for each in members)
                if starting < minimum_of(group):
                    self.wrong.append(f"bound {name}: only {starting} pods of its gang start")

    def _known_on(self, pod: Json, node: str) -> bool:
        """Whether a pod holds GPUs on a node, and the controller can know."""
        assert self.replica is not None
        if node_of(pod) != node or is_over(pod):
            return False
        seen = self.replica.shown["pod"].get(path_of(pod))
        mine = "gfs.dev/task" in pod["metadata"].get("annotations", {})
        return mine or (seen is not None and uid_of(seen) == uid_of(pod) and node_of(seen) == node)

    def _judge_deletion(self, pod: Json) -> None:
        name = f"deleted {path_of(pod)} on {node_of(pod)}"
        if not node_of(pod):
            self.wrong.append(f"{name}, which is not bound")
        if class_of(pod) == HP and pod["status"]["phase"] == "Running":
            self.wrong.append(f"{name}: a running HP pod")
        if is_preempted(pod):
            if class_of(pod) != SPOT:
                self.wrong.append(f"{name}: preempted, no spot pod")
            mates = [each for each in self.pods.values() if group_of(pod) and group_of(each) == group_of(pod)]
            nodes = {node_of(each) for each in (pod, *mates)}
            if nodes.isdisjoint(self._promised_nodes()):
                self.wrong.append(f"{name} for nobody")
        elif pod["status"]["phase"] != "Pending" or not group_of(pod) or owner_kind(pod) not in CREATE_AGAIN:
            self.wrong.append(f"{name}: neither a victim nor one to take back")

    def _promised_nodes(self) -> set[str]:
        """Nodes that an HP pod which waits has its place on."""
        assert self.replica is not None
        shown = {uid_of(each): each for each in self.replica.shown["pod"].values()}
        return {
            node
            for task in self.replica.controller.book.planned
            for uid, node in task.pods.items()
            if uid in shown and waits(shown[uid]) and class_of(shown[uid]) == HP
        }


class JudgedReplica(Replica):
    """A controller, and all objects as the watch has shown them."""

    def __init__(self, server: JudgedServer, settings: LiveSettings, saved: Any = None, **options: Any) -> None:
        self.shown: dict[str, dict[str, Json]] = {"node": {}, "pod": {}, "group": {}}
        server.replica = self
        super().__init__(server, settings, saved, **options)

    @property
    def unseen(self) -> deque[Change]:
        return self._watch

    def show(self, most: int = 1_000_000) -> None:
        for kind, before, after in islice(self._watch, most):
            thing = after if after is not None else before
            assert thing is not None
            name = path_of(thing) if kind == "pod" else str(thing["metadata"]["name"])
            if after is not None:
                self.shown[kind][name] = after
            else:
                self.shown[kind].pop(name, None)
        super().show(most)
