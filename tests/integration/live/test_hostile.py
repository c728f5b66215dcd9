"""Hostile input on a real API server: each is refused with a reason or handled right, and nobody else is delayed.

`delay` counts the requests that the controller sends between the moment it sees an ordinary pod and its binding: the
count does not depend on how busy the machine is.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from running import quick, running, until
from test_placing import why

import needs
from bench import manifests
from bench.bench import Bench, free_ports
from bench.client import ApiError, path
from bench.cluster import Cluster
from gfs.core.actions import Plan
from gfs.domain.errors import InputError
from gfs.live.api import Api
from gfs.live.problems import Unavailable
from gfs.live.service import Service
from gfs.live.table import Phase
from gfs.live.translate.gangs import NATIVE, GroupName
from waiting import LONGEST, wait_until

DELAY = 500
"""Requests that may come before the binding of an ordinary pod while others misbehave. Some dozens are in flight;
behind the messages to the pods of a large gang it would be 20,000."""
MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations of an object together, as the API server counts them."""
REVERSED, ESCAPE = "\u202e", "\x1b[2J\x1b]0;owned\x07"
GANG = int(os.environ.get("GFS_TEST_GANG", "10000"))
"""Pods of the largest gang; fewer where one only wants to see that the test works."""


def delay(service: Service, cluster: Cluster, name: str, **pod: Any) -> int:
    """Requests that the controller sends from the moment it sees an ordinary pod until the pod is bound."""
    controller, api = service.controller, service.api
    assert controller is not None
    assert api is not None
    step, note_bound, sent, done = controller.step, controller.overlay.bound, list[int](), threading.Event()

    def watched_step() -> Plan:
        if any(new.path == f"{cluster.namespace}/{name}" for new in controller.mirror.new_pods):
            sent.append(api.requests)
        return step()

    def watched_bound(uid: str) -> None:
        note_bound(uid)
        if controller.mirror.pods[uid].path == f"{cluster.namespace}/{name}":
            sent.append(api.requests)
            done.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controller, "step", watched_step)
        patch.setattr(controller.overlay, "bound", watched_bound)
        cluster.pod(name, **{"priority_class": "gfs-hp", **pod})
        assert done.wait(LONGEST)
    seen, bound = sent
    return bound - seen


def doubts(events: Mapping[str, Any]) -> list[Any]:
    return [each for each in events.values() if each["reason"] in ("InvalidAnnotation", "ClaimNotBelieved")]


@contextmanager
def neighbour(bench: Bench, name: str) -> Iterator[Cluster]:
    """Somebody else, in a namespace of their own."""
    other = Cluster(bench.client, name)
    try:
        yield other
    finally:
        other.remove()


# -- single pods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        ({"gpus": 1000}, "1000 GPUs, which no node can have"),
        ({"cpus": "9E"}, "CPUs, which no node can have"),
        ({"memory": "7Ei"}, "GiB of memory, which no node can have"),
        ({"cpus": "1n", "memory": "8191Pi"}, "GiB of memory, which no node can have"),
    ],
    ids=["gpus", "cpus", "memory", "sum"],
)
def test_absurd_requests_are_refused(bench: Bench, cluster: Cluster, record: Path, asks: Any, said: str) -> None:
    cluster.add_node("n1")
    with running(bench) as service:
        cluster.pod("absurd", **asks)
        assert said in why(cluster, "absurd", "refused")
        assert delay(service, cluster, "plain") < DELAY


def test_resources_that_are_not_counted_are_refused(bench: Bench, cluster: Cluster) -> None:
    """The kubelet would turn the pod away, again and again: nobody counts how many of them are left."""
    cluster.add_node("n1")
    container = {"name": "main", "image": "example.com/none"}
    asked = {"nvidia.com/gpu": "1", "rdma/hca": "1", "ephemeral-storage": "1Gi"}
    with running(bench):
        cluster.pod("fabric", containers=[{**container, "resources": {"requests": asked, "limits": asked}}])
        assert "'rdma/hca', which is not counted" in why(cluster, "fabric", "refused")
    with running(bench, settings=quick(ignored_resources=("rdma/hca", "ephemeral-storage"))):
        cluster.wait_bound("fabric")


def test_labels_and_annotations_of_the_largest_size(bench: Bench, cluster: Cluster, record: Path) -> None:
    """256 KiB of annotations, our own among them, 2,000 labels: read once, cut in messages, nobody waits for it."""
    cluster.add_node("n1")
    ours = {"gfs.dev/guaranteed-duration": "x" * 60_000, "gfs.dev/checkpoint-interval": "9" * 60_000}
    ours |= {"gfs.dev/last-checkpoint-time": "-" * 60_000, "gfs.dev/task": "y" * 30_000, "gfs.dev/run": "1" * 30_000}
    rest = MOST_ANNOTATIONS - sum(len(key) + len(value) for key, value in ours.items())
    ours["z"] = "z" * (rest - 1)
    labels = {f"label-{number}": "v" * 63 for number in range(2000)}
    with running(bench) as service:
        for number in range(10):
            cluster.pod(f"large-{number}", gpus=9, annotations=ours, labels=labels)
        assert delay(service, cluster, "plain") < DELAY
        assert "no node has 9" in why(cluster, "large-9")
        events = cluster.client.wait("events", lambda seen: len(doubts(seen)) >= 40, cluster.namespace)
        assert max(len(event["message"]) for event in events.values()) < 400
        assert service.controller is not None
        assert service.controller.claims.doubted["guarantee"] == 10
    with pytest.raises(ApiError, match="262144"):
        cluster.pod("larger", annotations={**ours, "more": "x"})


def test_selectors_of_thousands_of_labels_are_refused(bench: Bench, cluster: Cluster) -> None:
    cluster.add_node("n1")
    with running(bench) as service:
        for number in range(5):
            selector = {f"key-{number}-{each}": "v" for each in range(5000)}
            cluster.pod(f"choosy-{number}", nodeSelector=selector)
        assert delay(service, cluster, "plain") < DELAY
        assert "have 5002 parts; 1000 are allowed" in why(cluster, "choosy-4", "refused")


def test_unicode_and_escape_codes_are_shown_not_sent(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("n1")
    odd = f"1h{REVERSED}{ESCAPE}\u0000é\U0001f600".replace("\u0000", "")
    notes = {"gfs.dev/guaranteed-duration": odd, "batch.kubernetes.io/job-completion-index": odd, "gfs.dev/task": odd}
    with running(bench, record=tmp_path / "log"):
        cluster.pod("odd", annotations={**notes, "gfs.dev/run": "\u0663"})
        cluster.wait_bound("odd")
        told = cluster.client.wait(
            "events", lambda seen: any(e["reason"] == "ClaimNotBelieved" for e in seen.values()), cluster.namespace
        )
    for event in told.values():
        assert event["message"].isprintable()
    log = (tmp_path / "log" / "events.csv").read_text()
    assert f"{cluster.namespace}/odd" in log
    assert ESCAPE not in log


# -- gangs ---------------------------------------------------------------------------------------------------


def test_a_gang_of_ten_thousand_pods_delays_nobody(bench: Bench, cluster: Cluster, capsys: Any) -> None:
    """It can never start: 10,000 GPUs of 16. Its pods are told so in turns; a neighbour's pod goes first."""
    cluster.add_node("n1", gpus=8)
    cluster.add_node("n2", gpus=8)
    with neighbour(bench, f"{cluster.namespace}-other") as other, running(bench) as service:
        controller = service.controller
        assert controller is not None
        alone = delay(service, other, "alone")
        cluster.create(manifests.pod_group("horde", cluster.namespace, minimum=GANG))
        template = manifests.pod("horde", cluster.namespace, group="horde")
        began, cpu = time.monotonic(), time.process_time()
        amid: list[int] = []
        for first in range(0, GANG, GANG // 4):
            names = [f"horde-{number}" for number in range(first, first + GANG // 4)]
            part = {**template["metadata"], "labels": {"part": f"{first}"}}
            cluster.create(*({**template, "metadata": {**part, "name": name}} for name in names))
            amid.append(delay(service, other, f"amid-{first}", gpus=1))
        until(service, lambda: len(controller.mirror.members[GroupName(NATIVE, cluster.namespace, "horde")]) == GANG)
        amid.append(delay(service, other, "after"))
        until(service, lambda: controller.book.by_name[f"{cluster.namespace}/horde"].phase is Phase.WAITING)
        amid.append(delay(service, other, "last"))
        figures = f"{time.monotonic() - began:.0f} s, {time.process_time() - cpu:.0f} CPU-s with the test itself"
        decided = f"{controller.decision_seconds:.2f} s deciding, {controller.decisions} decisions"
        with capsys.disabled():
            print(f"\n{GANG} pods: {figures}; {decided}; requests before a binding {alone}, amid {max(amid)} at most")
        assert max(amid) < DELAY
        assert f"{GANG}" in why(cluster, "horde-0")
    for first in range(0, GANG, GANG // 4):  # all in one request would take longer than an answer may
        which = f"{path('pods', cluster.namespace)}?labelSelector=part%3D{first}"
        bench.client.delete(which, gracePeriodSeconds=0)


def test_groups_of_both_kinds_that_claim_the_same_pods(bench: Bench, cluster: Cluster, record: Path) -> None:
    """A pod that names two groups belongs to that of Kubernetes; groups of other namespaces are not there for it."""
    bench.install_plugin_pod_groups()
    cluster.add_node("n1", gpus=8)
    label = "scheduling.x-k8s.io/pod-group"
    with neighbour(bench, f"{cluster.namespace}-other") as other, running(bench) as service:
        cluster.create(
            manifests.pod_group("a", cluster.namespace, minimum=2),
            manifests.plugin_pod_group("b", cluster.namespace, minimum=3),
        )
        other.create(manifests.pod_group("theirs", other.namespace, minimum=2))
        for name in ("x", "y"):
            cluster.pod(name, group="a", labels={label: "b"})
        cluster.pod("z", labels={label: "b"})
        cluster.pod("thief", labels={label: "theirs"})
        cluster.wait_bound("x", "y")
        assert "1 of the 3 pods" in why(cluster, "z")
        assert "PodGroup theirs is not there" in why(cluster, "thief", "refused")
        assert delay(service, other, "plain") < DELAY


def test_pods_of_a_gang_that_ask_for_different_things(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=8)
    with running(bench):
        cluster.create(manifests.pod_group("mixed", cluster.namespace, minimum=2))
        cluster.pod("first", group="mixed", gpus=1)
        cluster.pod("large", group="mixed", gpus=4)
        cluster.pod("urgent", group="mixed", gpus=1, priority_class="gfs-hp")
        for name in ("large", "urgent"):
            assert "something else than the other pods of its gang" in why(cluster, name, "refused")
        cluster.pod("second", group="mixed", gpus=1)
        cluster.wait_bound("first", "second")


# -- owners and classes --------------------------------------------------------------------------------------


def owner(pod: Any, kind: str = "Pod", **more: Any) -> dict[str, Any]:
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        **more,
    }


def test_owners_that_own_each_other(bench: Bench, cluster: Cluster, record: Path) -> None:
    cluster.add_node("n1", gpus=4)
    made = {}
    for name in ("egg", "hen"):
        made[name] = cluster.create(manifests.pod(name, cluster.namespace))[0]
    for name, by in (("egg", "hen"), ("hen", "egg")):
        change = {"metadata": {"ownerReferences": [owner(made[by])]}}
        bench.client.patch(path("pods", cluster.namespace, name), change)
    with running(bench) as service:
        cluster.wait_bound("egg", "hen")
        assert delay(service, cluster, "plain") < DELAY


def wait_for_admission(cluster: Cluster, priority_class: str, value: int | None) -> None:
    """Until the API server admits pods with this value of a class, or with None refuses them: it hears of it later."""
    pod = manifests.pod("none", cluster.namespace, priority_class=priority_class)

    def given() -> int | None:
        try:
            return int(cluster.client.create("pods", pod, dry_run=True)["spec"]["priority"])
        except ApiError as refused:
            if priority_class not in str(refused):
                raise
            return None

    wait_until(lambda: given() == value, f"pods of class {priority_class} get another value than {value}")


def test_priority_classes_that_change_and_vanish(bench: Bench, cluster: Cluster, record: Path) -> None:
    """A class counts by its name, and a pod is what it was created as."""
    cluster.add_node("n1", gpus=2)
    bench.client.create("priorityclasses", manifests.priority_class("fleeting", 500))
    try:
        with running(bench, settings=quick(hp_classes=("gfs-hp", "fleeting"))):
            cluster.pod("first", priority_class="fleeting")
            cluster.wait_bound("first")
            bench.client.delete(path("priorityclasses", name="fleeting"))
            wait_for_admission(cluster, "fleeting", None)
            bench.client.create("priorityclasses", manifests.priority_class("fleeting", -500))
            wait_for_admission(cluster, "fleeting", -500)
            cluster.pod("second", priority_class="fleeting")
            cluster.wait_bound("second")
            cluster.pod("urgent", priority_class="gfs-hp")
            why(cluster, "urgent")  # both are HP still: nobody is evicted
            assert cluster.get("first")["spec"]["priority"] == 500
            assert cluster.get("second")["spec"]["priority"] == -500
    finally:
        bench.client.delete(path("priorityclasses", name="fleeting"))


# -- whom we trust, and what we tell -------------------------------------------------------------------------


def test_an_api_server_with_another_authority_is_not_spoken_to(bench: Bench, tmp_path: Path) -> None:
    """Its certificate is not signed by whom the kubeconfig names: no request, and so no token, is sent."""
    other = tmp_path / "other.crt"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    needs.require("openssl")
    subprocess.run([*words, "-keyout", str(tmp_path / "key"), "-out", str(other)], check=True, capture_output=True)

    def reach(change: Any, **options: Any) -> str:
        config = json.loads(bench.kubeconfig.read_text())
        change(config["clusters"][0]["cluster"])
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(config))

        async def ask() -> str:
            async with await Api.connect(file, **options) as api:
                return str((await api.request("GET", "/version", tries=1))["gitVersion"])

        return asyncio.run(ask())

    wrong = base64.b64encode(other.read_bytes()).decode()
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        reach(lambda cluster: cluster.update({"certificate-authority-data": wrong}))
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        reach(lambda cluster: cluster.pop("certificate-authority-data"))

    def skip(cluster: dict[str, Any]) -> None:
        del cluster["certificate-authority-data"]
        cluster["insecure-skip-tls-verify"] = True

    with pytest.raises(InputError, match="the server could be anybody"):
        reach(skip)
    assert reach(skip, insecure=True) == bench.version()


def test_no_secret_is_told_anywhere(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    """The command itself, with tokens that are known, through a start, an eviction and a refusal; then everything that
    it wrote or serves is looked through: log, pages, figures, snapshot, event log, and the objects of the cluster."""
    cluster.add_node("n1", gpus=2)
    reader, prometheus, password = "reader-7f3a91", "prometheus-5be2c4", "password-9d1e77"
    service = bench.kubeconfig_for(bench._token, "leaky")
    secrets = [bench._token, reader, prometheus, password]
    address = f"127.0.0.1:{free_ports(1)[0]}"
    log, state, record = tmp_path / "log", tmp_path / "state", tmp_path / "record"
    words = [
        str(Path(sys.executable).parent / "gfs"),
        "live",
        "run",
        "--kubeconfig",
        str(service),
        "--http",
        address,
        "--no-elect",
    ]
    words += ["--state", str(state), "--record", str(record), "--set", "quota=forecast"]
    words += ["--prometheus", f"http://reader:{password}@127.0.0.1:1"]
    told = {}
    with log.open("wb") as out:
        tokens = {"GFS_HTTP_TOKEN": reader, "GFS_PROMETHEUS_TOKEN": prometheus}
        running = subprocess.Popen(words, stdout=out, stderr=out, env={**os.environ, **tokens})
        try:
            cluster.pod("urgent", gpus=2, priority_class="gfs-hp")
            cluster.wait_bound("urgent")
            cluster.pod("odd", gpus=0)
            why(cluster, "odd", "refused")
            headers = {"Authorization": f"Bearer {reader}"}
            for page in ("", "metrics", "api/v1/status", f"api/v1/pods/{cluster.namespace}/urgent"):
                request = urllib.request.Request(f"http://{address}/{page}", headers=headers)
                with urllib.request.urlopen(request, timeout=LONGEST) as answer:
                    told[page] = answer.read() + str(answer.headers).encode()
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://{address}/api/v1/status", timeout=LONGEST)
        finally:
            running.terminate()
            running.wait(LONGEST)
    told |= {str(file): file.read_bytes() for folder in (state, record) for file in folder.rglob("*") if file.is_file()}
    told["log"] = log.read_bytes()
    told["objects"] = json.dumps([bench.client.items(kind, cluster.namespace) for kind in ("pods", "events")]).encode()
    assert b"127.0.0.1:1: no answer" in told["log"], "Prometheus was asked in vain, and that is said"
    assert any(name.endswith("state.gfs") for name in told)
    for name, content in told.items():
        for secret in secrets:
            assert secret.encode() not in content, f"{name} tells a secret"
            assert base64.b64encode(secret.encode()) not in content, f"{name} tells a secret"
