"""A cluster with users, two replicas of the controller behind a faulty proxy, and what may happen to all of them."""

from __future__ import annotations

import http.client
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from injections import Injections
from judge import OURS, audit_cluster, audit_events, broken_rules
from proxy import Proxy

from bench.bench import Bench
from bench.client import ApiError, Manifest, path
from bench.cluster import Cluster, conditions
from bench.manifests import GPU
from bench.processes import Processes
from bench.recorder import Recorder

LEASE = 6.0
# m = 1: no node is closed to spot pods after many evictions, which would take an hour to pass.
CONFIG = """
[live]
burst = 0.01
scheduler_name = "{scheduler}"
lease_seconds = {lease}
lease_name = "{lease_name}"
snapshot_interval = 0.5
hang_timeout = 5.0
resync_interval = 5.0
close_record = true
[parameters]
quota = "none"
m = 1.0
"""
Begin = Callable[..., AbstractContextManager["World"]]
INSIST = 60.0
"""Seconds for which users try again what the API server does not take."""


class World:
    """One run of the suite: its namespaces, nodes and processes go when it is over."""

    def __init__(self, bench: Bench, folder: Path, name: str, seed: int) -> None:
        self.bench, self.client, self.folder, self.name = bench, bench.client, folder, name
        self.random = random.Random(seed)
        self.injections = Injections(folder / "injections.jsonl", seed)
        self.proxy = Proxy(bench, self.injections, name)
        self.replicas = Processes(folder)
        self.watch = folder / "watch.jsonl"
        self.deleted: set[str] = set()
        """Uids of pods that we deleted."""
        self.removed: set[str] = set()
        """Namespaces that we deleted."""
        self.changing: set[str] = set()
        """Namespaces whose owners delete pods, for they are scaled and the like."""
        self.clusters: list[Cluster] = []
        self.gang_seconds = 30.0
        self.lease = LEASE
        """Seconds; no request of a replica takes longer than a third of it."""
        self.homes = {OURS: folder}
        """Scheduler -> where its log is."""

    # -- beginning and end ---------------------------------------------------------------------------

    def cluster(self, name: str) -> Cluster:
        """A namespace with its nodes, which go with it."""
        made = Cluster(self.client, f"{self.name}-{name}")
        self.clusters.append(made)
        return made

    def run_replica(
        self, name: str, *options: str, home: Path | None = None, scheduler: str = OURS, **environment: str
    ) -> None:
        """`gfs live run` as a process of its own; `home`: where its log and state are."""
        home = home or self.folder
        home.mkdir(exist_ok=True)
        config = home / "gfs.toml"
        config.write_text(CONFIG.format(scheduler=scheduler, lease_name=self.name, lease=self.lease))
        words: list[str | Path] = [sys.executable, Path(__file__).with_name("replica.py"), "live", "run"]
        words += ["--kubeconfig", self.proxy.kubeconfig, "--config", config, "--http", "off"]
        words += ["--record", home / "log", "--state", home / "state", *options]
        self.replicas.start(name, words, {"POD_NAME": name, "POD_NAMESPACE": "kube-system", **environment})

    def leader(self) -> str:
        """The replica that holds the lease, or nothing."""
        try:
            lease = self.client.get(path("leases", "kube-system", self.name))
        except (ApiError, OSError, http.client.HTTPException):
            return ""
        return str(lease["spec"].get("holderIdentity") or "").rpartition("-")[0]

    def wait_leader(self, *names: str, seconds: float = 60.0) -> str:
        """Wait until one of these replicas leads."""
        return wait_for(lambda: name if (name := self.leader()) in names else "", seconds, "nobody leads")

    # -- what users do -------------------------------------------------------------------------------

    def insist(self, request: Callable[[], Any]) -> Any:
        """Try until the API server takes it."""
        until = time.monotonic() + INSIST
        while True:
            try:
                return request()
            except ApiError as error:
                if error.code == 409:
                    return None
                if (error.code < 500 and error.code != 429) or time.monotonic() > until:
                    raise
            except (OSError, http.client.HTTPException):
                if time.monotonic() > until:
                    raise
            time.sleep(0.1)

    def create(self, *objects: Manifest) -> None:
        kinds = {"Pod": "pods", "Job": "jobs", "PodGroup": "podgroups", "Node": "nodes"}
        for each in objects:
            self.insist(lambda each=each: self.client.create(kinds[each["kind"]], each))

    def set_gpus(self, node: str, count: int) -> None:
        """A node reports so many GPUs; nothing if it is gone."""
        room = {name: {GPU: str(count)} for name in ("capacity", "allocatable")}
        where = path("nodes", name=node, sub="status")
        with suppress(ApiError):
            self.insist(lambda: self.client.patch(where, {"status": room}))

    def pods(self, namespace: str) -> list[Manifest]:
        found: list[Manifest] = self.insist(lambda: self.client.items("pods", namespace))
        return found

    def delete_pod(self, pod: Manifest) -> None:
        """A user deletes a pod."""
        self.deleted.add(pod["metadata"]["uid"])
        where = path("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.insist(lambda: self.client.delete(where, preconditions={"uid": pod["metadata"]["uid"]}))

    # -- how it ends ---------------------------------------------------------------------------------

    def drained(self) -> str:
        """Nothing if every pod has ended by itself and every Job is complete; else what is left."""
        left = []
        for cluster in self.clusters:
            if cluster.namespace in self.removed:
                continue
            jobs, pods = (self.client.items(kind, cluster.namespace) for kind in ("jobs", "pods"))
            there = Counter(_gang_of(pod) for pod in pods)
            pods = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
            pods = [pod for pod in pods if not _lacks_members(pod, there)]
            torn = {job["metadata"]["uid"] for job in jobs if _is_torn(job, pods)}
            jobs = [job for job in jobs if not _is_complete(job) and job["metadata"]["uid"] not in torn]
            left += [f"Job {job['metadata']['name']}: {job['status']}" for job in jobs]
            left += [told(pod) for pod in pods if owner_of(pod) not in torn]
        return "; ".join(left)

    def drain(self, seconds: float) -> None:
        """Wait until nothing is left; as without faults.

        The Job controller is started anew: after the API server died while it created a pod it may wait for five
        minutes before it creates another, and that is not what is tried here.
        """
        self.bench.processes.stop("kube-controller-manager")
        self.bench.processes.start_again("kube-controller-manager")
        wait_for(self._is_drained, seconds, self.drained)

    def _is_drained(self) -> bool:
        self.check()
        return not self.drained()

    def check(self) -> None:
        """No replica ends by itself."""
        self.replicas.check()

    def end(self) -> None:
        """Let the replicas end as they should, so that the log is whole."""
        for name in list(self.replicas.names()):
            status = self.replicas.end(name, 30)
            assert status == 0, f"{name} ended with {status}: {self.replicas.last_line(name)}"

    def verdict(self) -> list[str]:
        """What is broken by the judges."""
        found = [
            f"watch (ours): {line}" for line in broken_rules(self.watch, self.deleted, self.removed | self.changing)
        ]
        for scheduler, home in self.homes.items():
            found += [
                f"watch of {scheduler}: {line}" for line in audit_cluster(self.watch, scheduler, self.gang_seconds)
            ]
            found += [f"event log of {home}: {line}" for line in audit_events(home / "log")]
        return found


@contextmanager
def world(bench: Bench, folder: Path, name: str, seed: int = 0) -> Iterator[World]:
    """A world in which something is done and which is judged at its end; it says its seed when it fails."""
    made = World(bench, folder, name, seed)
    try:
        with made.proxy:
            try:
                with Recorder(bench.client, made.watch):
                    yield made
                made.proxy.calm()
                made.end()
            finally:
                made.replicas.stop()
        broken = made.verdict()
        assert not broken, "\n".join([*broken[:20], str(made.injections)])
    except BaseException:
        print(f"GFS_CHAOS_SEED={seed} ({made.injections})")
        raise
    finally:
        made.injections.close()
        for cluster in made.clusters:
            cluster.remove()


def _is_complete(job: Manifest) -> bool:
    return any(each["type"] == "Complete" for each in conditions(job))


def _is_torn(job: Manifest, pods: list[Manifest]) -> bool:
    """Whether a gang waits for members that have succeeded and whose pods went with their node: only pods that exist
    count for its minimum, so it waits for ever, and says so.
    """
    mine = [pod for pod in pods if owner_of(pod) == job["metadata"]["uid"]]
    texts = [each.get("message", "") for pod in mine for each in conditions(pod) if each["type"] == "PodScheduled"]
    said = [re.fullmatch(r"(\d+) of the (\d+) pods that its gang needs are there", text) for text in texts]
    done = int(job["status"].get("succeeded") or 0)
    return bool(mine) and len(said) == len(mine) and all(each and int(each[1]) + done >= int(each[2]) for each in said)


def _gang_of(pod: Manifest) -> str:
    return str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName", ""))


def _lacks_members(pod: Manifest, there: Counter[str]) -> bool:
    """Whether a bare pod waits for members of its gang that nobody creates again, and says so.

    One that was bound was evicted, or its node went, before all were. `there`: gang -> its pods.
    """
    texts = [each.get("message", "") for each in conditions(pod) if each["type"] == "PodScheduled"]
    said = [re.fullmatch(r"(\d+) of the (\d+) pods that its gang needs are there", text) for text in texts]
    return not owner_of(pod) and any(each and there[_gang_of(pod)] < int(each[2]) for each in said)


def owner_of(pod: Manifest) -> str:
    """The uid of its owner, or nothing."""
    return next((str(each["uid"]) for each in pod["metadata"].get("ownerReferences") or ()), "")


def told(pod: Manifest) -> str:
    marks = [f"{each['type']}={each['status']} {each.get('message', '')}" for each in conditions(pod)]
    return f"pod {pod['metadata']['name']} on {pod['spec'].get('nodeName')}: {marks}"


def wait_for(so: Callable[[], Any], seconds: float, or_say: str | Callable[[], str]) -> Any:
    """Ask until it is so; what came of it."""
    until = time.monotonic() + seconds
    while True:
        with suppress(ApiError, OSError, http.client.HTTPException):
            if found := so():
                return found
        if time.monotonic() > until:
            raise TimeoutError(f"after {seconds:g} s: {or_say if isinstance(or_say, str) else or_say()}")
        time.sleep(0.1)
