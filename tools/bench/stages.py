"""What KWOK plays: kubelets that start a pod at once, run it as long as its annotation says, and end it in its grace.

Annotations of a pod: `bench.gfs.dev/run-for` (seconds from its start until it succeeds; without it, it runs on) and
`bench.gfs.dev/hang` (nothing happens to it any more: a dead kubelet, or a process that ignores signals).
"""

from __future__ import annotations

import json
from typing import Any

RUN_FOR = "bench.gfs.dev/run-for"
HANG = "bench.gfs.dev/hang"
NEVER = 24 * 3600 * 1000
"""Milliseconds: longer than any bench lives."""

_DELETED = ".metadata.deletionTimestamp"
# KWOK looks at a pod afresh whenever it changes, so a delay must be counted from a fixed moment. Times of the API are
# whole seconds; the message of the Ready condition has the exact one.
_LEFT = (
    f'([.status.conditions[] | select(.type == "Ready") | .message][0]) as $began'
    ' | ($began[0:19] + "Z" | fromdateiso8601) + ("0" + $began[19:-1] | tonumber)'
    f' + (.metadata.annotations["{RUN_FOR}"] | tonumber) - now'
    ' | (if . < 0 then 0 else . end | tostring) + "s"'
)

_START = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}, message: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""

_END = """
{{ $now := Now }}
phase: PHASE
conditions:
- {type: ContainersReady, status: "False", reason: REASON, lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "False", reason: REASON, lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state: {terminated: {exitCode: CODE, reason: WORD, finishedAt: {{ $now | Quote }}}}
{{ end }}
"""


def _ended(phase: str, code: int, word: str) -> str:
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    return _END.replace("PHASE", phase).replace("REASON", reason).replace("CODE", str(code)).replace("WORD", word)


def _stage(name: str, phases: tuple[str, ...], deleted: bool, next_: Any, hangs: bool = False, **spec: Any) -> Any:
    rules = [
        {"key": ".status.phase", "operator": "In", "values": list(phases)},
        {"key": _DELETED, "operator": "Exists" if deleted else "DoesNotExist"},
        {"key": f'.metadata.annotations["{HANG}"]', "operator": "Exists" if hangs else "DoesNotExist"},
        *spec.pop("rules", ()),
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": rules},
            "next": next_,
            **spec,
        },
    }


def _stages() -> list[Any]:
    alive = ("Pending", "Running")
    never = {"durationMilliseconds": NEVER}
    return [
        _stage("pod-start", ("Pending",), False, {"statusTemplate": _START}),
        _stage(
            "pod-complete",
            ("Running",),
            False,
            {"statusTemplate": _ended("Succeeded", 0, "Completed")},
            rules=[{"key": f'.metadata.annotations["{RUN_FOR}"]', "operator": "Exists"}],
            delay={"durationFrom": {"expressionFrom": _LEFT}},
        ),
        # As a kubelet does: the pod first fails by its signal, then its object goes; Jobs with a pod failure policy
        # replace a pod only when it has failed.
        _stage(
            "pod-terminate",
            alive,
            True,
            {"statusTemplate": _ended("Failed", 143, "Error")},
            delay={"durationFrom": {"expressionFrom": _DELETED}},
        ),
        # Once only: KWOK deletes by name, and a second deletion may hit a new pod of the same name.
        _stage(
            "pod-remove",
            ("Succeeded", "Failed"),
            True,
            {"delete": True},
            rules=[{"key": ".metadata.deletionGracePeriodSeconds | tostring", "operator": "NotIn", "values": ["0"]}],
        ),
        _stage("pod-hang", alive, False, {"delete": True}, hangs=True, delay=never),
        _stage("pod-hang-deleted", alive, True, {"delete": True}, hangs=True, delay=never),
    ]


def configuration() -> str:
    """KWOK's configuration file: JSON documents, which are YAML."""
    # KWOK minds the pods of a node only if it has a stage for nodes; ours need nothing done to them.
    nothing = {"selector": {"matchAnnotations": {HANG: "never"}}, "next": {"delete": True}}
    nodes = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "node-nothing"},
        "spec": {"resourceRef": {"apiGroup": "v1", "kind": "Node"}, **nothing},
    }
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "manageAllNodes": True,
            "podPlayStageParallelism": 16,
            "podsOnNodeSyncParallelism": 4,
            "nodePlayStageParallelism": 1,
            "nodeLeaseDurationSeconds": 0,
        },
    }
    return "\n---\n".join(json.dumps(document) for document in (options, nodes, *_stages())) + "\n"
