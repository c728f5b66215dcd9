"""Judges of what happened: a recorded watch and an event log, looked at from outside.

The independent programs of `../shared/tools` do it where they are at hand. Our own checks here need nothing: no node
holds more than it has, HP is no victim, nobody goes without a reason, and in the end nobody is forgotten.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import needs
from gfs.live.settings import LiveSettings
from gfs.live.translate.asks import read_asks
from numbered_log import numbered

TOOLS = needs.SHARED / "tools"
OURS = "gfs-scheduler"
SETTINGS = LiveSettings()


def audit_cluster(watch: Path, scheduler: str = OURS, gang_seconds: float = 30.0) -> list[str]:
    """What the independent program finds broken in a watch; nothing where it is not at hand."""
    words = ("--watch", str(watch), "--scheduler", scheduler, "--gang-seconds", f"{gang_seconds:g}")
    return [line for line in _audit("audit_cluster.py", *words) if not _is_rest(line, watch)]


def _is_rest(finding: str, watch: Path) -> bool:
    """Whether a gang that is said to be bound in part is bound as far as its pods have not succeeded yet, or a pod that
    is said to wait has ended.
    """
    if waits := re.fullmatch(r"BROKEN: at the end: (\S+)/(\S+) waits for .*", finding):
        names = {"namespace": waits[1], "name": waits[2]}
        seen = [
            item for _, _, item in lines(watch) if item["kind"] == "Pod" and names.items() <= item["metadata"].items()
        ]
        return seen[-1]["status"].get("phase") in ("Succeeded", "Failed")
    said = re.fullmatch(r"BROKEN: line (\d+): gang (\S+): (\d+) of (\d+) pods bound after .*", finding)
    if said is None:
        return False
    until, gang, bound, minimum = int(said[1]), {"podGroupName": said[2]}, int(said[3]), int(said[4])
    done = {
        item["metadata"]["uid"]
        for number, _, item in lines(watch)
        if number <= until
        and item["kind"] == "Pod"
        and item["spec"].get("schedulingGroup") == gang
        and item["status"].get("phase") == "Succeeded"
    }
    return bound + len(done) >= minimum


def audit_events(log: Path) -> list[str]:
    """What the independent program finds broken in an event log; nothing where it is not at hand."""
    files = [word for name in ("jobs", "nodes") for word in (f"--{name}", str(log / f"{name}.csv"))]
    return _audit("audit_events.py", *files, "--events", str(numbered(log / "events.csv")))


def _audit(program: str, *words: str) -> list[str]:
    if not (TOOLS / program).exists():
        return []
    done = subprocess.run([sys.executable, str(TOOLS / program), *words], capture_output=True, text=True, check=False)
    if not done.returncode:
        return []
    told = (done.stdout + done.stderr).splitlines()
    return [line for line in told if line.startswith("BROKEN") or done.returncode == 2]


def lines(watch: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Line number, word and object of a recorded watch."""
    with watch.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            event = json.loads(line)
            yield number, event["type"], event["object"]


def broken_rules(watch: Path, deleted: Collection[str] = (), namespaces: Collection[str] = ()) -> list[str]:
    """Our own look at a watch. `deleted`: uids of pods that the test deleted, `namespaces`: those that it deleted."""
    found: list[str] = []
    room: dict[str, int] = {}
    held: dict[str, dict[str, int]] = defaultdict(dict)
    for number, word, item in lines(watch):
        metadata, spec = item["metadata"], item["spec"]
        if item["kind"] == "Node" and word != "DELETED":
            room[metadata["name"]] = int(item["status"]["allocatable"].get("nvidia.com/gpu", 0))
        if item["kind"] != "Pod" or not spec.get("schedulerName", "").startswith(OURS):
            continue
        name, node, uid = f"{metadata['namespace']}/{metadata['name']}", spec.get("nodeName"), metadata["uid"]
        mark = mark_of(item)
        if mark.get("reason") == "PreemptionByScheduler" and spec.get("priorityClassName") == "gfs-hp":
            found.append(f"line {number}: HP pod {name} is a victim")
        if word == "DELETED" or item["status"].get("phase") in ("Succeeded", "Failed"):
            held.get(node, {}).pop(uid, None)
        elif node and uid not in held[node]:
            held[node][uid] = int(read_asks(spec, SETTINGS).gpus)
            if sum(held[node].values()) > room.get(node, 0):
                found.append(f"line {number}: {node} holds {sum(held[node].values())} of {room.get(node, 0)} GPUs")
        by_us = node and uid not in deleted and metadata["namespace"] not in namespaces
        if word == "DELETED" and by_us and item["status"].get("phase") != "Succeeded" and not mark.get("message"):
            found.append(f"line {number}: {name} went without a reason")
    return found


def mark_of(pod: dict[str, Any]) -> dict[str, Any]:
    """The condition that says why a pod is about to go, or nothing."""
    conditions = pod["status"].get("conditions") or ()
    return next((each for each in conditions if each["type"] == "DisruptionTarget"), {})


def victims(watch: Path) -> Counter[str]:
    """How many pods were deleted for which reason."""
    seen: dict[str, str] = {}
    for _, _, item in lines(watch):
        if item["kind"] == "Pod" and (mark := mark_of(item)):
            seen[item["metadata"]["uid"]] = mark["reason"]
    return Counter(seen.values())
