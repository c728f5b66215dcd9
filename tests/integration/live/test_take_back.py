"""A binding that the API server refuses: the gang is taken back whole, or what cannot come back is held and told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from running import running

from gfs.live.bench import manifests
from gfs.live.bench.bench import Bench
from gfs.live.bench.client import ApiError, path
from gfs.live.bench.cluster import Cluster, conditions
from waiting import wait_until

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@contextmanager
def closed_to_bindings(cluster: Cluster, node: str) -> Iterator[None]:
    """Until it ends, the API server refuses every binding to a node."""
    name = f"no-bindings-{cluster.namespace}"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": f"object.target.name != '{node}'", "message": "no binding for you"}],
        },
    }
    binding = {**policy, "kind": "ValidatingAdmissionPolicyBinding"}
    binding["spec"] = {"policyName": name, "validationActions": ["Deny"]}
    cluster.client.request("POST", POLICIES, policy)
    cluster.client.request("POST", POLICIES.replace("policies", "policybindings"), binding)
    cluster.pod("probe", scheduler="nobody", priority_class="", gpus=0)
    _until_refused(cluster, node)
    try:
        yield
    finally:
        cluster.client.delete(f"{POLICIES.replace('policies', 'policybindings')}/{name}")
        cluster.client.delete(f"{POLICIES}/{name}")


def _until_refused(cluster: Cluster, node: str) -> None:
    """A new policy takes a moment."""
    body = {"kind": "Binding", "metadata": {"name": "probe"}, "target": {"kind": "Node", "name": node}}
    where = path("pods", cluster.namespace, "probe", "binding") + "?dryRun=All"

    def refused() -> bool:
        try:
            cluster.client.request("POST", where, body)
        except ApiError as error:
            if "no binding for you" in str(error):
                return True
            raise
        return False

    wait_until(refused, "the policy never took effect")


def bound(cluster: Cluster) -> dict[str, str]:
    pods = cluster.client.items("pods", cluster.namespace)
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def test_pods_of_a_controller_are_deleted_and_come_back(bench: Bench, cluster: Cluster) -> None:
    """Its watch is not audited: KWOK starts a pod at once, and live takes it back though it runs by then, a defect."""
    for name in ("n1", "n2"):
        cluster.add_node(name, gpus=4)
    with running(bench), closed_to_bindings(cluster, "n2"):
        cluster.create(manifests.pod_group("team", cluster.namespace, 2))
        cluster.job("team", pods=2, gpus=4, group="team", grace=1, backoff_limit=0)
        half = cluster.wait_pods(lambda pods: any(pod["spec"].get("nodeName") == "n1" for pod in pods.values()))
        (first,) = (name for name, pod in half.items() if pod["spec"].get("nodeName"))
        gone = cluster.wait_pods(
            lambda pods: any(each["type"] == "DisruptionTarget" for each in conditions(pods.get(first, {})))
        )
        told = next(each for each in conditions(gone[first]) if each["type"] == "DisruptionTarget")
        assert "gang" in told["message"]
        cluster.wait_gone(first)
        reasons = {event["reason"] for event in cluster.events(first)}
        assert "GangTakenBack" in reasons
    with running(bench):
        cluster.wait_pods(lambda pods: {"n1", "n2"} <= {pod["spec"].get("nodeName") for pod in pods.values()}, 90)
        job = cluster.client.get(path("jobs", cluster.namespace, "team"))
        assert not job["status"].get("failed"), "a pod that was taken back does not count against its Job"


def test_bare_pods_are_held_and_told_and_the_rest_joins_them(bench: Bench, cluster: Cluster, record: Path) -> None:
    for name in ("n1", "n2"):
        cluster.add_node(name, gpus=4)
    with running(bench):
        with closed_to_bindings(cluster, "n2"):
            cluster.gang("team", 2, gpus=4)
            cluster.client.wait(
                "events",
                lambda events: any(e["reason"] == "GangIncomplete" for e in events.values()),
                cluster.namespace,
            )
            (held,) = bound(cluster)
            assert bound(cluster)[held] == "n1"
        assert set(cluster.wait_bound("team-0", "team-1").values()) == {"n1", "n2"}
