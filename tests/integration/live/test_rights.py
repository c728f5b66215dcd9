"""The chart's rights are enough, and none of them is too many."""

from __future__ import annotations

import asyncio
import copy
import itertools
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from running import quick, running
from test_chart import of_kind, render

from bench import manifests
from bench.bench import Bench
from bench.client import Manifest, path
from bench.cluster import Cluster
from gfs.live.api import Api
from gfs.live.check import check_cluster
from gfs.live.problems import Unavailable
from gfs.live.settings import LiveSettings

HOME = "gfs-system"
NUMBERS = count(1)
Rules = list[dict[str, Any]]


@pytest.fixture(scope="module")
def home(bench: Bench) -> str:
    if not bench.client.exists(path("namespaces", name=HOME)):
        bench.client.create("namespaces", manifests.namespace(HOME))
    return HOME


def rules(objects: list[Manifest], kind: str) -> Rules:
    (role,) = of_kind(objects, kind)
    return list(role["rules"])


def grant(bench: Bench, everywhere: Rules, at_home: Rules) -> Path:
    """A service account with these rights and no others; how to be it."""
    name = f"gfs-{next(NUMBERS)}"
    metadata = {"name": name, "namespace": HOME}
    account = {"kind": "ServiceAccount", "name": name, "namespace": HOME}
    bench.client.create("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    for kind, meta, granted in (("ClusterRole", {"name": name}, everywhere), ("Role", metadata, at_home)):
        api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        bench.client.create(f"{kind.lower()}s", {**api, "kind": kind, "metadata": dict(meta), "rules": granted})
        binding = {**api, "kind": f"{kind}Binding", "metadata": dict(meta), "roleRef": reference, "subjects": [account]}
        bench.client.create(f"{kind.lower()}bindings", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = bench.client.request("POST", path("serviceaccounts", HOME, name, "token"), request)
    return bench.kubeconfig_for(answer["status"]["token"], name)


def missing(kubeconfig: Path, shadow: bool = False) -> str:
    """What `gfs live check` says of the rights: '' if all are there."""

    async def ask() -> str:
        async with await Api.connect(kubeconfig) as api:
            found, _ = await check_cluster(api, LiveSettings(), HOME, shadow=shadow)
            return "".join(each.says for each in found if each.what == "rights" and not each.fine)

    return asyncio.run(ask())


def without_one(granted: Rules) -> Iterator[tuple[str, Rules]]:
    """The rules with one right taken away, each in turn."""
    for i, rule in enumerate(granted):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    left = copy.deepcopy(granted)
                    del left[i]
                    left += [
                        {**rule, "apiGroups": [g], "resources": [r], "verbs": [v]}
                        for g in rule["apiGroups"]
                        for r in rule["resources"]
                        for v in rule["verbs"]
                        if (g, r, v) != (group, resource, verb)
                    ]
                    yield f"{verb} {resource}", left


Right = tuple[str, str, str]
"""Verb, API group and resource, with its subresource."""


def right_of(method: str, url: str) -> Right:
    """The right that a request needs."""
    parts = url.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    read = "get" if len(rest) > 1 else "list"
    verbs = {"GET": read, "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "WATCH": "watch"}
    return verbs[method], group, "/".join((rest[0], *rest[2:]))


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> set[Right]:
    """The rights that are made use of; the first binding gets no answer, so that it must be looked after."""
    rights: set[Right] = set()
    request, watch, bind = Api.request, Api.watch, Api.bind
    silent = [True]

    async def noted_request(self: Api, method: str, url: str, *rest: Any, **options: Any) -> Any:
        if not re.fullmatch(r"/(version|apis(/[^/]+/[^/]+)?|.*/selfsubject\w+)", url):  # which everybody may ask
            rights.add(right_of(method, url))
        return await request(self, method, url, *rest, **options)

    def noted_watch(self: Api, url: str, version: str, **query: Any) -> Any:
        rights.add(right_of("WATCH", url))
        return watch(self, url, version, **query)

    async def noted_bind(self: Api, *words: Any, **options: Any) -> None:
        await bind(self, *words, **options)
        if silent.pop() if silent else False:
            raise Unavailable("no answer")

    monkeypatch.setattr(Api, "request", noted_request)
    monkeypatch.setattr(Api, "watch", noted_watch)
    monkeypatch.setattr(Api, "bind", noted_bind)
    return rights


def granted(*some: Rules) -> set[Right]:
    return {
        (verb, group, resource)
        for rule in itertools.chain(*some)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_it_works_with_exactly_the_rights_of_the_chart_and_uses_them_all(
    bench: Bench, cluster: Cluster, helm: Path, home: str, record: Path, used: set[Right]
) -> None:
    """A gang starts, HP takes its place, a pod that cannot start is told why, and the lease is held; twice."""
    bench.install_plugin_pod_groups()
    objects = render(helm)
    everywhere, at_home = rules(objects, "ClusterRole"), rules(objects, "Role")
    kubeconfig = grant(bench, everywhere, at_home)
    cluster.add_node("n1", gpus=4)
    settings = quick(lease_namespace=home, lease_name="gfs-scheduler")
    with running(bench, kubeconfig=kubeconfig, settings=settings, elect=True) as service:
        cluster.gang("train", pods=2, gpus=2, grace=1)
        cluster.wait_bound("train-0", "train-1")
        cluster.pod("urgent", gpus=4, priority_class="gfs-hp")
        cluster.wait_bound("urgent")
        cluster.pod("late", gpus=4, priority_class="gfs-hp")
        cluster.wait_condition("late", "PodScheduled", status="False", reason="Unschedulable")
        cluster.client.wait(
            "events", lambda seen: any(e["reason"] == "Preempted" for e in seen.values()), cluster.namespace
        )
        assert bench.client.get(path("leases", home, "gfs-scheduler"))["spec"]["holderIdentity"] == service.identity
    for _ in range(2):  # the second says again what the first has said
        with running(bench, kubeconfig=kubeconfig, settings=settings, parameters={"quota": "forecast"}) as service:
            cluster.client.wait("events", lambda seen, told=service: told.controller.pod_events.sent, home)  # type: ignore[misc]
    assert not missing(kubeconfig)  # which looks at the priority classes
    assert granted(everywhere, at_home) == used


def test_every_right_is_needed(bench: Bench, helm: Path, home: str) -> None:
    bench.install_plugin_pod_groups()
    objects = render(helm)
    everywhere, at_home = rules(objects, "ClusterRole"), rules(objects, "Role")
    assert not missing(grant(bench, everywhere, at_home))
    for taken, left in without_one(everywhere):
        assert missing(grant(bench, left, at_home)) == f"missing: {taken}"
    for taken, left in without_one(at_home):
        assert missing(grant(bench, everywhere, left)) == f"missing: {taken}"


def test_a_shadow_needs_less(bench: Bench, helm: Path, home: str) -> None:
    objects = render(helm, "--set", "shadow=true")
    assert not missing(grant(bench, rules(objects, "ClusterRole"), rules(objects, "Role")), shadow=True)
