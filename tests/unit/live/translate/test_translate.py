"""Each row of the table of words (docs/concepts/live.md), and that nothing an API server may say breaks it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from objects import affinity, group, node, pod

from gfs.domain.task import Priority
from gfs.live.settings import LiveSettings
from gfs.live.translate.antiaffinity import read_apart
from gfs.live.translate.asks import read_asks
from gfs.live.translate.budgets import read_budget
from gfs.live.translate.gangs import group_of, read_group
from gfs.live.translate.nodes import read_node
from gfs.live.translate.pods import CREATE_AGAIN, class_of, read_pod
from gfs.live.translate.quantities import duration, moment, quantity
from gfs.live.translate.rules import LabelRule, Refusal, Taint, Toleration, group_name, pool_of, read_rule
from gfs.live.translate.unsupported import unknown_affinity

SETTINGS = LiveSettings()
LABEL = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", 0.5), ("64Gi", 64 * 2**30), ("2", 2.0), ("1e3", 1000.0), ("1.5k", 1500.0), (".5", 0.5), (8, 8.0),
     ("1n", 1e-9), ("1u", 1e-6), ("1k", 1e3), ("1M", 1e6), ("1G", 1e9), ("1T", 1e12), ("1P", 1e15), ("1E", 1e18),
     ("1Ki", 1024.0), ("1Mi", 1024.0**2), ("1Gi", 1024.0**3), ("1Ti", 1024.0**4), ("1Pi", 1024.0**5), ("2E", None),
     ("1Ei", None), (0, 0.0), ("-1", None), ("", None), ("much", None),
     ("1Xi", None), ("1e400", None), (None, None), ("9" * 40, None)],
)  # fmt: skip
def test_quantities(text: Any, number: float | None) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h", 3600.0), ("90m", 5400.0), ("1h30m", 5400.0), ("3600", 3600.0), ("2d", 172800.0), ("0s", None), ("", None),
     ("soon", None), ("-1h", None), ("1h ", 3600.0), ("99999999999", None)],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01T01:00:00Z", 3600.0), ("1970-01-01T02:00:00+01:00", 3600.0), ("1970-01-01T01:00:00", None),
     ("yesterday", None), (None, None), (5, None)],
)  # fmt: skip
def test_moments(text: Any, seconds: float | None) -> None:
    assert moment(text) == seconds


# -- nodes ---------------------------------------------------------------------------------------------------


def test_a_node_has_what_it_can_allocate() -> None:
    view = read_node(node("n1", 4, "H800", room={"memory": "64Gi"}, labels={"zone": "a"}), SETTINGS)
    assert view is not None
    assert (view.model, view.has, view.closed) == ("H800", (4, 64.0, 64.0, 110), "")
    assert view.labels["zone"] == "a"


@pytest.mark.parametrize("strange", [node(gpus=0), node(model=""), node(gpus="many"), {}, {"metadata": 5}], ids=str)
def test_a_node_without_gpus_or_model_is_not_ours(strange: Any) -> None:
    assert read_node(strange, SETTINGS) is None


@pytest.mark.parametrize(
    ("given", "closed"),
    [
        (node(unschedulable=True), "cordoned"),
        (node(ready="False"), "not ready"),
        (node(ready="Unknown"), "not ready"),
        (node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), "not ready"),
        (node(taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]), "cordoned"),
    ],
    ids=["cordoned", "failed", "unknown", "new", "tainted"],
)
def test_nodes_that_take_no_pods(given: Any, closed: str) -> None:
    view = read_node(given, SETTINGS)
    assert view is not None
    assert view.closed == closed


def test_taints_that_close_a_node_to_everybody_are_no_rule() -> None:
    taints = [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "team", "value": "x", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]
    view = read_node(node(taints=taints), SETTINGS)
    assert view is not None
    assert view.taints == (Taint("team", "x", "NoSchedule"),)


# -- which nodes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "labels", "fits"),
    [
        ({"nodeSelector": {"zone": "a"}}, {"zone": "a"}, True),
        ({"nodeSelector": {"zone": "a"}}, {"zone": "b"}, False),
        ({"affinity": affinity([("zone", "In", ["a", "b"])])}, {"zone": "b"}, True),
        ({"affinity": affinity([("zone", "NotIn", ["a"])])}, {}, True),
        ({"affinity": affinity([("zone", "Exists", [])])}, {}, False),
        ({"affinity": affinity([("zone", "DoesNotExist", [])])}, {"zone": "a"}, False),
        ({"affinity": affinity([("size", "Gt", ["4"])])}, {"size": "8"}, True),
        ({"affinity": affinity([("size", "Gt", ["4"])])}, {"size": "4"}, False),
        ({"affinity": affinity([("size", "Gt", ["4"])])}, {"size": str(2**63 - 1)}, True),
        ({"affinity": affinity([("size", "Gt", ["4"])])}, {"size": str(2**63)}, False),  # no number of 64 bits
        ({"affinity": affinity([("size", "Lt", ["4"])])}, {"size": "3"}, True),
        ({"affinity": affinity([("size", "Lt", ["4"])])}, {"size": "4"}, False),
        ({"affinity": affinity([("size", "Lt", ["4"])])}, {"size": str(-(2**63))}, True),
        ({"affinity": affinity([("size", "Lt", ["4"])])}, {"size": str(-(2**63) - 1)}, False),
        ({"affinity": affinity([("size", "Lt", ["4"])])}, {"size": "x"}, False),
        ({"affinity": affinity([("zone", "In", ["a"])], [("zone", "In", ["b"])])}, {"zone": "b"}, True),
        ({"affinity": affinity([("zone", "In", ["a"]), ("size", "In", ["8"])])}, {"zone": "a"}, False),
        ({"affinity": affinity([])}, {"zone": "a"}, False),
    ],
)
def test_selector_and_required_affinity(spec: Any, labels: dict[str, str], fits: bool) -> None:
    rule = read_rule(spec)
    assert (group_name(labels, (), rule.keys) in rule) == fits


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "value": "x"}, True),
        ({"key": "team", "operator": "Equal", "value": "y"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
    ids=str,
)
def test_tolerations(toleration: Any, fits: bool) -> None:
    tainted = group_name({}, [Taint("team", "x", "NoSchedule")], ())
    assert (tainted in read_rule({"tolerations": [toleration]})) == fits
    assert tainted not in LabelRule()
    assert "" in LabelRule()


def test_labels_values_and_tolerations_of_a_rule_are_a_thousand_at_most() -> None:
    # Two labels, one expression with three values, and tolerations: 2 + (1 + 3) + 994 = 1,000.
    spec = {"nodeSelector": {"zone": "a", "disk": "ssd"}, "affinity": affinity([("size", "In", ["2", "4", "8"])])}
    tolerations = [{"key": f"team-{i}", "operator": "Exists"} for i in range(995)]
    longest = read_rule({**spec, "tolerations": tolerations[:994]})
    assert (longest.size, unknown_affinity(longest)) == (1000, "")
    said = "its node selector, affinity and tolerations have 1001 parts; 1000 are allowed"
    assert unknown_affinity(read_rule({**spec, "tolerations": tolerations})) == said


def test_equal_rules_are_one_ask_in_another_process_too() -> None:
    rule = read_rule({"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "t", "operator": "Exists"}]})
    again = pickle.loads(pickle.dumps(rule))
    assert again == rule
    assert hash(again) == hash(rule)
    assert rule.tolerations == (Toleration("t", "Exists", "", ""),)
    equal = {"key": "t", "value": "v"}
    assert read_rule({"tolerations": [equal]}) == read_rule({"tolerations": [equal, {**equal, "operator": "Equal"}]})


@pytest.mark.parametrize(
    ("spec", "models", "pool"),
    [
        ({}, ["A100"], "A100"),
        ({"nodeSelector": {LABEL: "B300"}}, ["A100"], "B300"),
        ({"affinity": affinity([(LABEL, "In", ["A100"])])}, ["A100", "H800"], "A100"),
        ({"affinity": affinity([(LABEL, "In", ["A100", "B300"])])}, ["A100", "H800"], "A100"),
        ({}, ["A100", "H800"], "names no GPU model"),
        ({}, [], "no node of the cluster"),
        ({"affinity": affinity([(LABEL, "In", ["A100", "H800"])])}, ["A100", "H800"], "several GPU models"),
        ({"nodeSelector": {LABEL: "A100"}, "affinity": affinity([(LABEL, "In", ["H800"])])}, ["A100"], "no GPU model"),
    ],
)
def test_the_pool_of_a_pod(spec: Any, models: list[str], pool: str) -> None:
    found = pool_of(read_rule(spec), LABEL, models)
    assert (pool in found.text) if isinstance(found, Refusal) else found == pool


# -- pods ------------------------------------------------------------------------------------------------------


def test_what_a_pod_asks_for() -> None:
    init = [
        {"resources": {"requests": {"cpu": "4"}}},
        {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}, "restartPolicy": "Always"},
    ]
    view = read_pod(pod(gpus=2, initContainers=init, overhead={"cpu": "250m"}), SETTINGS)
    assert view.asks == (2.0, 4.25, 3.0, 1), "the first init container's 4 CPUs, and 2 + 1 GiB with the sidecar"


def container(**asked: str) -> dict[str, Any]:
    return {"resources": {"requests": asked}}


@pytest.mark.parametrize(
    ("spec", "cpus", "gib"),
    [
        ({}, 0.0, 0.0),
        ({"containers": [container(cpu="250m", memory="1Gi"), container(cpu="500m")]}, 0.75, 1.0),
        # An init container runs before the others: the larger of both counts.
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="500m")]}, 1.0, 0.0),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="2"), container(cpu="3")]}, 3.0, 0.0),
        # A limit stands for a request that is missing.
        ({"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}}]}, 2.0, 1.0),
        # What is asked for the pod as a whole counts instead; overhead counts on top.
        ({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "4"}}}, 4.0, 0.0),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Gi"}}, 1.25, 1.0),
    ],
)
def test_the_cpus_and_memory_of_a_pod(spec: Any, cpus: float, gib: float) -> None:
    assert read_asks(spec, SETTINGS) == (0.0, cpus, gib, 1)


@pytest.mark.parametrize(
    ("cls", "group_cls", "settings", "priority"),
    [
        ("gfs-hp", "", {}, Priority.HP),
        ("gfs-spot", "", {}, Priority.SPOT),
        ("gfs-spot", "gfs-hp", {}, Priority.HP),
        ("other", "", {}, None),
        ("other", "", {"hp_from_priority": 5}, Priority.HP),
        ("other", "", {"spot_to_priority": 9}, Priority.SPOT),
        ("mine", "", {"hp_classes": ("mine",)}, Priority.HP),
    ],
)
def test_classes(cls: str, group_cls: str, settings: Any, priority: Priority | None) -> None:
    chosen = LiveSettings(**settings)
    assert class_of(read_pod(pod(cls=cls, priority=7), chosen), group_cls, chosen) is priority


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (pod(gpus="0.5"), "part of a GPU"),
        (pod(annotations={"gpu-fraction": "0.5"}), "part of a GPU"),
        (pod(containers=[{"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}]), "part of a GPU"),
        (pod(gpus=0), "asks for no GPU"),
        (pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}), "inter-pod affinity"),
        (pod(topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}]), "spread"),
        (pod(volumes=[{"name": "v", "ephemeral": {}}]), "volume v"),
        (pod(resourceClaims=[{"name": "c"}]), "dynamic resource"),
        (pod(hostNetwork=True), "host ports"),
        (pod(affinity=affinity([("a", "Near", [])])), "operator 'Near'"),
        (pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}), "no terms"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(given: Any, said: str) -> None:
    assert said in read_pod(given, SETTINGS).refusal


def test_wishes_are_no_rules() -> None:
    spread = [{"whenUnsatisfiable": "ScheduleAnyway"}]
    wish = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}
    assert read_pod(pod(topologySpreadConstraints=spread, affinity=wish), SETTINGS).refusal == ""


@pytest.mark.parametrize(
    ("notes", "guarantee", "interval", "doubts"),
    [
        ({"gfs.dev/guaranteed-duration": "2h", "gfs.dev/checkpoint-interval": "10m"}, 2.0, 600.0, 0),
        ({"gfs.dev/guaranteed-duration": "3h"}, None, None, 1),
        ({"gfs.dev/guaranteed-duration": "x", "gfs.dev/checkpoint-interval": "0"}, None, None, 2),
        ({"gfs.dev/last-checkpoint-time": "yesterday"}, None, None, 1),
        ({}, None, None, 0),
    ],
)
def test_annotations(notes: Any, guarantee: float | None, interval: float | None, doubts: int) -> None:
    view = read_pod(pod(annotations=notes), SETTINGS)
    assert (view.guarantee, view.interval, len(view.doubts)) == (guarantee, interval, doubts)


@pytest.mark.parametrize(
    ("given", "minimum", "whole"),
    [
        (group("g", 4), 4, False),
        (group("g", 4, disruptionMode="PodGroup"), 4, True),
        ({"spec": {"minMember": 3}}, 3, False),
        ({"spec": {"minMember": "x"}}, 1, False),
        ({"spec": {"schedulingPolicy": {"basic": {}}}}, 1, False),
    ],
)
def test_groups_of_either_kind(given: Any, minimum: int, whole: bool) -> None:
    view = read_group(given)
    assert (view.minimum, view.whole) == (minimum, whole)


def test_which_group_a_pod_names() -> None:
    """The two kinds of PodGroup may use the same name; a pod that names both is of the native one."""
    label = {"scheduling.x-k8s.io/pod-group": "b"}
    assert group_of(pod(schedulingGroup={"podGroupName": "a"})) == ("scheduling.k8s.io", "lab", "a")
    assert group_of(pod(labels=label)) == ("scheduling.x-k8s.io", "lab", "b")
    assert group_of(pod(schedulingGroup={"podGroupName": "a"}, labels=label)) == ("scheduling.k8s.io", "lab", "a")
    assert group_of(pod()) is None


def test_a_group_may_preempt_no_pod_and_may_ask_for_what_is_not_supported() -> None:
    view = read_group(group("g", 2, preemptionPolicy="Never", priorityClassName="gfs-hp"))
    assert (view.never_preempts, view.priority_class, view.refusal) == (True, "gfs-hp", "")
    asks = read_group(group("g", 2, schedulingConstraints={"topology": [{"key": "rack"}]}))
    assert "one topology domain" in asks.refusal


@pytest.mark.parametrize(
    ("term", "labels", "away"),
    [
        ({"labelSelector": {"matchLabels": {"app": "x"}}}, {"app": "x"}, True),
        ({"labelSelector": {"matchLabels": {"app": "x"}}}, {"app": "y"}, False),
        ({"labelSelector": {}}, {}, True),
        ({}, {"app": "x"}, False),
        ({"labelSelector": {}, "namespaces": ["web"]}, {}, False),
        ({"labelSelector": {}, "namespaceSelector": {}}, {}, True),
    ],
    ids=["selected", "not selected", "every pod", "no selector", "another namespace", "any namespace"],
)
def test_which_pods_a_running_pod_keeps_away(term: Any, labels: dict[str, str], away: bool) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host", **term}]}
    apart = read_apart({"affinity": {"podAntiAffinity": required}}, "lab")
    assert any(each.keeps_away("lab", labels) for each in apart) == away


@pytest.mark.parametrize(
    ("kind", "creates_again"),
    [("Job", True), ("ReplicaSet", True), ("StatefulSet", True), ("DaemonSet", True), ("Workflow", False)],
)
def test_which_owners_create_pods_again(kind: str, creates_again: bool) -> None:
    reference = {"kind": kind, "name": "o", "uid": "u", "controller": True}
    owner = read_pod(pod(ownerReferences=[reference]), SETTINGS).owner
    assert owner is not None
    assert (owner.kind in CREATE_AGAIN) == creates_again
    assert read_pod(pod(ownerReferences=[{**reference, "controller": False}]), SETTINGS).owner is None


# -- anything --------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1Gi", "2h", "In"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def bent(draw: Any) -> Any:
    """An object in which some value was replaced by anything."""
    thing = json.loads(json.dumps(draw(st.sampled_from([
        pod(annotations={"gfs.dev/run": "1", "gfs.dev/task": "t"}, nodeSelector={"a": "b"},
            affinity=affinity([("a", "In", ["b"])]), tolerations=[{"key": "x"}],
            initContainers=[{"resources": {}}], volumes=[{"name": "v"}]),
        node(taints=[{"key": "a", "effect": "NoSchedule"}]), group("g", 2),
    ]))))  # fmt: skip
    for _ in range(draw(st.integers(1, 3))):
        where = thing
        while True:
            keys = list(where) if isinstance(where, dict) else list(range(len(where)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(where[key], dict | list) and draw(st.booleans()):
                where = where[key]
            else:
                where[key] = draw(JSON)
                break
    return thing


@given(bent())
def test_nothing_that_is_said_breaks_the_translation(thing: Any) -> None:
    view = read_pod(thing, SETTINGS)
    hash(view.rule)
    pool_of(view.rule, LABEL, ["A100"])
    assert "" in view.rule or "" not in view.rule
    read_node(thing, SETTINGS)
    read_group(thing)
    read_budget(thing)
    group_of(thing)


@given(JSON)
def test_nor_does_anything_else(thing: Any) -> None:
    read_pod(thing, SETTINGS)
    read_node(thing, SETTINGS)
    read_group(thing)
    read_budget(thing).breaks([])
    quantity(thing)
    duration(thing)
    moment(thing)


@pytest.mark.parametrize(
    ("selector", "allowed", "breaks"),
    [
        ({"matchLabels": {"app": "x"}}, 0, True),
        ({"matchLabels": {"app": "x"}}, 1, True),
        ({"matchLabels": {"app": "x"}}, 2, False),
        ({"matchLabels": {"app": "y"}}, 0, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 1, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, 0, False),
        ({}, 0, True),
    ],
)
def test_a_budget_is_broken_by_more_pods_than_it_allows(selector, allowed, breaks):
    budget = {"metadata": {"namespace": "lab", "name": "b"}, "spec": {"selector": selector}}
    budget["status"] = {"disruptionsAllowed": allowed}
    pods = [read_pod(pod(name, labels={"app": "x"}), SETTINGS) for name in ("a", "b")]
    assert read_budget(budget).breaks(pods) == breaks
    assert not read_budget({**budget, "metadata": {"namespace": "elsewhere"}}).breaks(pods)
