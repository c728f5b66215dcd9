"""Record the published schemas of what we read, from the API server of the bench: make live-binaries, then run this.

kube_schemas.json has the version it came from. What says nothing about the shape of a value is left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from bench.bench import Bench

FILE = Path(__file__).parent / "kube_schemas.json"
ROOTS = {
    "Pod": ("api/v1", "io.k8s.api.core.v1.Pod"),
    "Node": ("api/v1", "io.k8s.api.core.v1.Node"),
    "PodGroup": ("apis/scheduling.k8s.io/v1alpha2", "io.k8s.api.scheduling.v1alpha2.PodGroup"),
    "PriorityClass": ("apis/scheduling.k8s.io/v1", "io.k8s.api.scheduling.v1.PriorityClass"),
    "PodDisruptionBudget": ("apis/policy/v1", "io.k8s.api.policy.v1.PodDisruptionBudget"),
}
KEPT = ("type", "format", "properties", "required", "items", "additionalProperties", "enum", "$ref", "oneOf", "allOf")


def trimmed(schema: Any) -> Any:
    """The schema without descriptions, defaults and extensions; a reference by its name alone."""
    if not isinstance(schema, dict):
        return schema
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return trimmed(schema["allOf"][0])
    kept = {key: schema[key] for key in KEPT if key in schema}
    for key, value in kept.items():
        if key == "$ref":
            kept[key] = value.rpartition("/")[2]
        elif key == "properties":
            kept[key] = {name: trimmed(each) for name, each in value.items()}
        elif key in ("items", "additionalProperties"):
            kept[key] = trimmed(value)
        elif key in ("oneOf", "allOf"):
            kept[key] = [trimmed(each) for each in value]
    return kept


def references(schema: Any) -> set[str]:
    """The names of the schemas that one refers to."""
    if isinstance(schema, list):
        return set().union(*map(references, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return own.union(*(references(value) for value in schema.values()))


def record() -> dict[str, Any]:
    """All schemas that the roots need."""
    with Bench() as bench:
        paths = {path for path, _ in ROOTS.values()}
        served = [bench.client.get(f"/openapi/v3/{path}")["components"]["schemas"] for path in sorted(paths)]
        source = f"kube-apiserver {bench.version()}, /openapi/v3"
    known = {name: trimmed(schema) for schemas in served for name, schema in schemas.items()}
    needed, found = {name for _, name in ROOTS.values()}, dict[str, Any]()
    while needed:
        name = needed.pop()
        found[name] = known[name]
        needed |= references(known[name]) - found.keys()
    roots = {kind: name for kind, (_, name) in ROOTS.items()}
    return {"source": source, "roots": roots, "schemas": dict(sorted(found.items()))}


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), separators=(",", ":"), sort_keys=True).replace("},", "},\n") + "\n")
