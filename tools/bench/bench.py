"""The bench: a control plane on loopback ports of its own, with keys of its own, in a temporary folder."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench import binaries, manifests, stages
from bench.client import Client, Manifest, path
from bench.processes import Processes
from gfs.domain.errors import GfsError, InputError

HOST = "127.0.0.1"
START_WITHIN = 120.0
"""Seconds until a part of the bench must be ready: a few are enough, a busy machine may need many."""
STARTS = 3
"""Another program may ask for one of our ports by its number: try again with others."""
GATES = "GenericWorkload=true"
API_GATES = f"{GATES},GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true"
"""The last one lets a PodGroup have a class and a disruption mode of its own."""
CONTROLLERS = (
    "daemonset-controller,deployment-controller,disruption-controller,garbage-collector-controller,job-controller,"
    "namespace-controller,node-lifecycle-controller,pod-garbage-collector-controller,podgroup-protection-controller,"
    "replicaset-controller,statefulset-controller,taint-eviction-controller,"
    "validatingadmissionpolicy-status-controller"
)
CLASSES = {"gfs-hp": 1000, "gfs-spot": 100}


class Bench:
    """A running cluster: `with Bench() as bench: bench.client...`; everything it started ends with it."""

    def __init__(
        self,
        say: Callable[[str], None] = lambda line: None,
        keep_logs: Path | None = None,
        api_options: Sequence[str] = (),
    ) -> None:
        """`api_options`: further ones of kube-apiserver."""
        self._say = say
        self._keep_logs = keep_logs
        self._api_options = tuple(api_options)
        self._programs: Mapping[str, Path] = {}
        self._token = secrets.token_hex(16)
        self.client: Client = None  # type: ignore[assignment]  # there is one as soon as the bench has started
        self.processes: Processes
        self.folder: Path
        self.kubeconfig: Path

    def __enter__(self) -> Bench:
        self._programs = binaries.bring(binaries.BENCH, self._say)
        self.folder = Path(tempfile.mkdtemp(prefix="gfs-bench-"))
        self.processes = Processes(self.folder)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill everything and remove the folder."""
        if self.client is not None:
            self.client.close()
        self.processes.stop()
        if self._keep_logs is not None:
            for log in self.folder.glob("*.log"):
                shutil.copy(log, self._keep_logs)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_scheduler(
        self,
        kubeconfig: Path | None = None,
        gates: str = f"{GATES},GangScheduling=true",
        options: Sequence[str] = ("--kube-api-qps=1000", "--kube-api-burst=2000"),
    ) -> None:
        """Start kube-scheduler, to compare with; it takes the pods of `default-scheduler`."""
        self.processes.start("kube-scheduler", [
            self._programs["kube-scheduler"], f"--kubeconfig={kubeconfig or self.kubeconfig}", "--leader-elect=false",
            "--secure-port=0", *((f"--feature-gates={gates}",) if gates else ()), *options,
        ])  # fmt: skip

    def kubeconfig_of_account(self, name: str) -> Path:
        """A kubeconfig of a service account of its own that may do everything."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
        self.client.create("serviceaccounts", account)
        rbac = "rbac.authorization.k8s.io"
        rights = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
        role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        self.client.create("clusterrolebindings", {**rights, "roleRef": role, "subjects": [subject]})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.client.request("POST", path("serviceaccounts", "default", name, "token"), asked)
        return self.kubeconfig_for(answer["status"]["token"], name)

    def install_plugin_pod_groups(self) -> None:
        """Have the PodGroup of scheduler-plugins, too."""
        self._install(manifests.plugin_pod_group_definition())

    def install_loose_kind(self, group: str, version: str, kind: str) -> None:
        """Have a kind of some operator that takes any object."""
        self._install(manifests.definition(group, version, kind))

    def _install(self, definition: Manifest) -> None:
        where = path("customresourcedefinitions", name=definition["metadata"]["name"])
        if not self.client.exists(where):
            self.client.create("customresourcedefinitions", definition)
        spec = definition["spec"]
        served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        self._await(served, lambda: self.client.exists(served))

    def kubeconfig_for(self, token: str, name: str = "user") -> Path:
        """Write a kubeconfig with another token, for example one of a service account."""
        file = self.folder / f"{name}.kubeconfig"
        authority = base64.b64encode(self.client.ca_file.read_bytes()).decode()
        server = f"https://{HOST}:{self.client.port}"
        file.write_text(
            json.dumps({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "bench", "cluster": {"server": server, "certificate-authority-data": authority}}],
                "users": [{"name": name, "user": {"token": token}}],
                "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": name}}],
                "current-context": "bench",
            })
        )  # fmt: skip
        file.chmod(0o600)
        return file

    def _start(self) -> None:
        self._say("starting etcd and kube-apiserver")
        for attempt in range(1, STARTS + 1):
            try:
                self._start_server()
                break
            except InputError as error:
                self.processes.stop()
                if attempt == STARTS or "address already in use" not in str(error):
                    raise
        self.kubeconfig = self.kubeconfig_for(self._token, "admin")
        self._say("starting kube-controller-manager and kwok")
        self.processes.start("kube-controller-manager", [
            self._programs["kube-controller-manager"], f"--kubeconfig={self.kubeconfig}", "--leader-elect=false",
            "--secure-port=0", f"--controllers={CONTROLLERS}", f"--feature-gates={GATES}", "--kube-api-qps=1000",
            "--kube-api-burst=2000", "--concurrent-job-syncs=10",
            "--node-monitor-grace-period=24h",  # nodes without kubelets send no heartbeats
        ])  # fmt: skip
        config = self.folder / "kwok.json"
        config.write_text(stages.configuration(), encoding="utf-8")
        words: list[str | Path] = [self._programs["kwok"], f"--kubeconfig={self.kubeconfig}", f"--config={config}"]
        self.processes.start("kwok", words, {"TZ": "UTC", "HOME": str(self.folder)})
        for name, value in CLASSES.items():
            self.client.create("priorityclasses", manifests.priority_class(name, value))
        self._await("kube-controller-manager and kwok", self._plays)
        self._say(f"the bench is ready: {self.version()} on {HOST}:{self.client.port}")

    def version(self) -> str:
        """The version of the API server."""
        return str(self.client.get("/version")["gitVersion"])

    def _start_server(self) -> None:
        etcd, peer, port = free_ports(3)
        data = self.folder / "etcd"
        shutil.rmtree(data, ignore_errors=True)
        self.processes.start("etcd", [
            self._programs["etcd"], f"--data-dir={data}", "--unsafe-no-fsync",
            f"--listen-client-urls=http://{HOST}:{etcd}", f"--advertise-client-urls=http://{HOST}:{etcd}",
            f"--listen-peer-urls=http://{HOST}:{peer}", f"--initial-advertise-peer-urls=http://{HOST}:{peer}",
            f"--initial-cluster=default=http://{HOST}:{peer}", "--log-level=error",
        ])  # fmt: skip
        certificates = self.folder / "certificates"
        key, tokens = self.folder / "service-account.key", self.folder / "tokens.csv"
        _write_secret(key, _private_key())
        _write_secret(tokens, f'{self._token},admin,admin,"system:masters"\n')
        self.processes.start("kube-apiserver", [
            self._programs["kube-apiserver"], f"--etcd-servers=http://{HOST}:{etcd}", f"--secure-port={port}",
            f"--bind-address={HOST}", f"--advertise-address={HOST}", f"--cert-dir={certificates}",
            f"--token-auth-file={tokens}", "--authorization-mode=RBAC", "--anonymous-auth=false",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            f"--service-account-issuer=https://{HOST}:{port}", "--service-cluster-ip-range=10.0.0.0/24",
            f"--feature-gates={API_GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true",
            "--disable-admission-plugins=ServiceAccount",  # pods of a new namespace need not wait for its account
            "--enable-priority-and-fairness=false", "--endpoint-reconciler-type=none", "--event-ttl=1h",
            *self._api_options,
        ])  # fmt: skip
        authority = certificates / "apiserver.crt"
        self._await("the certificate of kube-apiserver", authority.exists)
        self.client = Client(HOST, port, authority, self._token)
        self._await("kube-apiserver", self._serves)

    def _serves(self) -> bool:
        ready = self.client.get("/readyz") == "ok"
        return ready and self.client.exists(path("namespaces", name="default"))

    def _plays(self) -> bool:
        """Whether KWOK and the Job controller work: a first Job runs through on a node of its own."""
        name = "bench-is-ready"
        if not self.client.exists(path("nodes", name=name)):
            self.client.create("nodes", manifests.node(name, gpus=0))
            self.client.create("jobs", manifests.job(name, gpus=0, run_for=0, nodeName=name, priority_class=""))
        done = bool(self.client.get(path("jobs", "default", name)).get("status", {}).get("succeeded"))
        if done:
            self.client.delete(path("jobs", "default", name), propagationPolicy="Foreground")
            self.client.wait("pods", lambda pods: not pods, "default")
            self.client.delete(path("nodes", name=name))
        return done

    def _await(self, what: str, ready: Callable[[], bool]) -> None:
        """Ask until it is ready: nothing could be watched before there is an API server."""
        deadline = time.monotonic() + START_WITHIN
        while True:
            self.processes.check()
            try:
                if ready():
                    return
                reason = "not ready"
            except (OSError, GfsError) as error:
                reason = str(error)
            if time.monotonic() > deadline:
                raise InputError(f"{what} did not start within {START_WITHIN:g} s: {reason}")
            time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that belong to this process until it ends, also while the server there restarts.

    A socket that does not listen stays bound to each of them: the kernel then gives it to no other socket. A server
    that names the port can listen there, since servers allow that (SO_REUSEADDR).
    """
    sockets = [socket.socket() for _ in range(count)]
    for kept in sockets:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((HOST, 0))
    ports = [kept.getsockname()[1] for kept in sockets]
    for kept in sockets:
        if sys.platform == "linux":
            kept.detach()
        else:  # other systems let nobody listen where another socket is bound
            kept.close()
    return ports


def _private_key() -> str:
    """A key for service accounts: SEC 1 of any number below the order of P-256, the public part left out."""
    number = (1 + secrets.randbelow(2**255)).to_bytes(32, "big")
    der = bytes.fromhex("30310201010420") + number + bytes.fromhex("a00a06082a8648ce3d030107")
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n"


def _write_secret(file: Path, text: str) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as opened:
        opened.write(text)
