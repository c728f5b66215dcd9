"""The chart's admission policies on a real API server: what an unprivileged user may do, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from running import running
from test_chart import of_kind, render

from bench import manifests
from bench.bench import Bench
from bench.client import ApiError, Client, Manifest, path
from bench.cluster import Cluster
from waiting import wait_until

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = f"{POLICIES.removesuffix('ies')}ybindings"
GIVEN = "gfs.dev/priority-classes"
TENANT = "tenant"
NUMBERS = count(1)


@pytest.fixture(scope="module")
def policies(bench: Bench, helm: Path) -> Iterator[list[Manifest]]:
    """The chart's policies, in force; gone after the tests of this file."""
    bench.install_plugin_pod_groups()
    objects = render(helm, "--set", "admissionPolicy.guardedClasses={company-hp}")
    made = []
    for kind, where in (("ValidatingAdmissionPolicy", POLICIES), ("ValidatingAdmissionPolicyBinding", BINDINGS)):
        for each in of_kind(objects, kind):
            bench.client.request("POST", where, each)
            made.append((where, each))
    bench.client.create("priorityclasses", manifests.priority_class("company-hp", 5000))
    bench.client.create("namespaces", manifests.namespace("policies-in-force"))
    _wait_until_in_force(bench)
    yield [each for _, each in made]
    for where, each in made:
        bench.client.delete(f"{where}/{each['metadata']['name']}")
    bench.client.delete(path("priorityclasses", name="company-hp"))
    bench.client.delete(path("namespaces", name="policies-in-force"))


def _wait_until_in_force(bench: Bench) -> None:
    """A policy takes a moment to reach the server's admission: both refuse something when they have."""
    forged = {"gfs.dev/run": "1"}
    for kind in ({"priority_class": "gfs-hp"}, {"annotations": forged}):
        probe = manifests.pod("probe", "policies-in-force", **kind)  # type: ignore[arg-type]
        wait_until(lambda probe=probe: attempt(bench.client, "pods", probe) != "", "the policy is not in force")


@pytest.fixture
def tenant(bench: Bench, cluster: Cluster, policies: list[Manifest]) -> Client:
    """A user who may do everything with pods and groups of pods in the namespace, and nothing else."""
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    metadata = {"name": TENANT, "namespace": cluster.namespace}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]
    rules += [{"apiGroups": ["scheduling.k8s.io", "scheduling.x-k8s.io"], "resources": ["podgroups"], "verbs": ["*"]}]
    bench.client.create("roles", {**api, "kind": "Role", "metadata": dict(metadata), "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": TENANT}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT}
    binding = {**api, "kind": "RoleBinding", "metadata": dict(metadata), "roleRef": reference, "subjects": [subject]}
    bench.client.create("rolebindings", binding)
    user = bench.client.acting_as(TENANT)

    def may_read() -> bool:
        try:
            user.get(path("pods", cluster.namespace))
        except ApiError:
            return False
        return True

    wait_until(may_read, "the tenant got no rights")  # they take a moment, too
    return user


def give(bench: Bench, cluster: Cluster, classes: str) -> None:
    """The administrator gives classes to the namespace; it takes effect with the server's own watch."""
    change = {"metadata": {"annotations": {GIVEN: classes}}}
    bench.client.patch(path("namespaces", name=cluster.namespace), change)


def attempt(user: Client, kind: str, manifest: Manifest) -> str:
    """'' if the user may create it, else why not. Nothing is created."""
    try:
        user.create(kind, manifest, dry_run=True)
    except ApiError as error:
        if error.code not in (403, 422):
            raise
        return str(error)
    return ""


def settled(user: Client, kind: str, manifest: Manifest, allowed: bool) -> str:
    """As `attempt`, as soon as the answer is what is expected."""
    told: list[str] = []

    def expected() -> bool:
        told[:] = [attempt(user, kind, manifest)]
        return bool(told[0]) != allowed

    wait_until(expected, f"{kind}: allowed is still not {allowed}")
    return told[0]


def pod(cluster: Cluster, **options: Any) -> Manifest:
    return manifests.pod(f"p{next(NUMBERS)}", cluster.namespace, **options)


@pytest.mark.parametrize(
    ("given", "named", "allowed"),
    [
        (None, "gfs-spot", True),
        (None, "gfs-hp", False),
        (None, "company-hp", False),
        (None, "", True),
        ("gfs-hp, gfs-spot", "gfs-hp", True),
        ("gfs-hp, gfs-spot", "gfs-spot", True),
        ("gfs-hp", "gfs-spot", False),
        ("", "gfs-spot", False),
        ("company-hp", "company-hp", True),
    ],
)
def test_pods_name_only_classes_that_their_namespace_is_given(
    bench: Bench, cluster: Cluster, tenant: Client, given: str | None, named: str, allowed: bool
) -> None:
    if given is not None:
        give(bench, cluster, given)
    for scheduler in ("gfs-scheduler", "default-scheduler"):  # a class is a class wherever it is used
        told = settled(tenant, "pods", pod(cluster, priority_class=named, scheduler=scheduler), allowed)
        assert bool(told) != allowed, told
        assert allowed or f"priority class {named} is not given to namespace {cluster.namespace}" in told


@pytest.mark.parametrize("kind", ["podgroups", "podgroups.scheduling.x-k8s.io"])
def test_nor_by_the_class_of_a_group(bench: Bench, cluster: Cluster, tenant: Client, kind: str) -> None:
    group = manifests.plugin_pod_group if kind.endswith("x-k8s.io") else manifests.pod_group

    def of_class(name: str) -> Manifest:
        made = group("g", cluster.namespace, minimum=2)
        made["spec"]["priorityClassName"] = name
        return made

    assert attempt(tenant, kind, group("g", cluster.namespace, minimum=2)) == ""
    assert attempt(tenant, kind, of_class("gfs-spot")) == ""
    assert "priority class gfs-hp is not given" in attempt(tenant, kind, of_class("gfs-hp"))
    give(bench, cluster, "gfs-hp,gfs-spot")
    assert settled(tenant, kind, of_class("gfs-hp"), allowed=True) == ""


def test_what_only_the_scheduler_writes_nobody_else_writes(
    bench: Bench, cluster: Cluster, tenant: Client, record: Path
) -> None:
    cluster.add_node("n1")
    for note in ("gfs.dev/task", "gfs.dev/run", "gfs.dev/submitted"):
        told = attempt(tenant, "pods", pod(cluster, annotations={note: "1"}))
        assert "written by the scheduler only" in told
    assert "may not name its node" in attempt(tenant, "pods", pod(cluster, node="n1"))
    mine = pod(cluster)
    name = mine["metadata"]["name"]
    with running(bench):  # which writes them at the binding
        tenant.create("pods", mine)
        cluster.wait_bound(name)
    assert cluster.get(name)["metadata"]["annotations"]["gfs.dev/run"] == "1"
    where = path("pods", cluster.namespace, name)
    for value in ("13", None):
        with pytest.raises(ApiError, match="written by the scheduler only"):
            tenant.patch(where, {"metadata": {"annotations": {"gfs.dev/run": value}}})
    # what users are asked to write they can write
    tenant.patch(where, {"metadata": {"annotations": {"gfs.dev/last-checkpoint-time": "2026-01-01T00:00:00Z"}}})
    tenant.delete(where, gracePeriodSeconds=0)


def test_what_was_given_once_and_is_no_longer_can_still_be_changed_and_removed(
    bench: Bench, cluster: Cluster, tenant: Client
) -> None:
    """Finalizers come off a pod and a group of a class that was taken away."""
    give(bench, cluster, "gfs-hp")
    urgent = pod(cluster, priority_class="gfs-hp")
    group = manifests.pod_group("g", cluster.namespace, minimum=2, priority_class="gfs-hp")
    for kind, each in (("pods", urgent), ("podgroups", group)):
        each["metadata"]["finalizers"] = ["example.com/stay"]
        assert settled(tenant, kind, each, allowed=True) == ""
        tenant.create(kind, each)
    give(bench, cluster, "gfs-spot")
    assert settled(tenant, "pods", pod(cluster, priority_class="gfs-hp"), allowed=False)
    for kind, each in (("pods", urgent), ("podgroups", group)):
        where = path(kind, cluster.namespace, each["metadata"]["name"])
        tenant.patch(where, {"metadata": {"finalizers": None}})
        tenant.delete(where)


def test_the_type_checker_of_the_server_has_no_complaint(bench: Bench, policies: list[Manifest]) -> None:
    """It looks at the kinds that the server itself knows; a group that an operator brings is not among them."""
    for each in of_kind(policies, "ValidatingAdmissionPolicy"):
        where = f"{POLICIES}/{each['metadata']['name']}"
        wait_until(lambda where=where: "observedGeneration" in (bench.client.get(where).get("status") or {}))
        status = bench.client.get(where)["status"]
        assert status["observedGeneration"] == 1
        assert not (status.get("typeChecking") or {}).get("expressionWarnings")


@pytest.mark.parametrize(
    "options",
    [("--set", "admissionPolicy.enabled=false"), ("--set", "shadow=true")],
    ids=["switched off", "shadow"],
)
def test_policies_can_be_left_out(helm: Path, options: tuple[str, ...]) -> None:
    assert of_kind(render(helm), "ValidatingAdmissionPolicy")
    assert not of_kind(render(helm, *options), "ValidatingAdmissionPolicy")
    assert not of_kind(render(helm, *options), "ValidatingAdmissionPolicyBinding")


def test_numbers_can_be_guarded_too(bench: Bench, helm: Path) -> None:
    objects = render(helm, "--set", "admissionPolicy.guardedFromPriority=0")
    (classes,) = [each for each in of_kind(objects, "ValidatingAdmissionPolicy") if "class" in each["metadata"]["name"]]
    guarded = next(each["expression"] for each in classes["spec"]["variables"] if each["name"] == "guarded")
    assert "object.spec.priority >= 0" in guarded
    classes["metadata"]["name"] = "by-number"
    bench.client.request("POST", f"{POLICIES}?dryRun=All", classes)
