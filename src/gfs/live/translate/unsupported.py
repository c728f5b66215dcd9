"""Rules of a pod that we do not know: it is refused with that reason, never bound blindly. Wishes are ignored."""

from __future__ import annotations

from typing import Any

from gfs.live.translate.rules import BY_NAME, MOST_EXPRESSIONS, NAME_FIELD, OPERATORS, Need, NodeRule, Toleration
from gfs.live.translate.shape import entries, table, text

EQUAL, EXISTS = ("", "Equal"), "Exists"
"""What a toleration may say of the value of a taint. One that says something else tolerates nothing."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def unsupported(spec: dict[str, Any]) -> str:
    """The first rule that we do not know, in words; empty: there is none."""
    affinity = table(spec, "affinity")
    for kind, name in (("podAffinity", "inter-pod affinity"), ("podAntiAffinity", "inter-pod anti-affinity")):
        if entries(table(affinity, kind), REQUIRED):
            return f"{name} is not supported"
    if any(text(each, "whenUnsatisfiable") != "ScheduleAnyway" for each in entries(spec, "topologySpreadConstraints")):
        return "topology spread constraints are not supported"
    containers = (*entries(spec, "containers"), *entries(spec, "initContainers"))
    if spec.get("hostNetwork") is True or any(
        port.get("hostPort") for container in containers for port in entries(container, "ports")
    ):
        return "host ports are not supported"
    for volume in entries(spec, "volumes"):
        tie = next((tie for tie in ("persistentVolumeClaim", "ephemeral") if tie in volume), None)
        if tie:
            return f"volume {text(volume, 'name')}: {tie} may tie it to certain nodes, which is not supported"
    if entries(spec, "resourceClaims"):
        return "claims of dynamic resource allocation are not supported"
    return _strange_affinity(table(affinity, "nodeAffinity"))


def _strange_affinity(affinity: dict[str, Any]) -> str:
    required = affinity.get(REQUIRED)
    if required is None:
        return ""
    terms = entries(required, "nodeSelectorTerms")
    for term in terms:
        for need in entries(term, "matchExpressions"):
            if text(need, "operator") not in OPERATORS:
                return f"node affinity operator {text(need, 'operator')!r} is not supported"
        for need in entries(term, "matchFields"):
            if text(need, "key") != NAME_FIELD or text(need, "operator") not in ("In", "NotIn"):
                return f"node affinity on field {text(need, 'key')!r} is not supported"
    return "" if terms else "its required node affinity has no terms and so no node will do"


def too_long(rule: NodeRule) -> str:
    """Whether a rule is so long that to look at it would delay others; empty: it is not."""
    if rule.size <= MOST_EXPRESSIONS:
        return ""
    return f"its node selector, affinity and tolerations have {rule.size} parts; {MOST_EXPRESSIONS} are allowed"


def read_rule(spec: dict[str, Any]) -> NodeRule:
    """Selector, required affinity and tolerations of a pod."""
    selector = {str(key): str(value) for key, value in table(spec, "nodeSelector").items()}
    required = table(table(table(spec, "affinity"), "nodeAffinity"), REQUIRED)
    terms = []
    for term in entries(required, "nodeSelectorTerms"):
        needs = [Need(text(n, "key"), text(n, "operator"), _values(n)) for n in entries(term, "matchExpressions")]
        needs += [Need(BY_NAME, text(n, "operator"), _values(n)) for n in entries(term, "matchFields")]
        terms.append(tuple(needs))
    tolerations = [
        Toleration(text(each, "key"), text(each, "operator") == EXISTS, text(each, "value"), text(each, "effect"))
        for each in entries(spec, "tolerations")
        if text(each, "operator") in (*EQUAL, EXISTS)
    ]
    return NodeRule(tuple(sorted(selector.items())), tuple(terms), tuple(sorted(set(tolerations))))


def _values(need: dict[str, Any]) -> tuple[str, ...]:
    values = need.get("values")
    return tuple(str(value) for value in values) if isinstance(values, list) else ()
