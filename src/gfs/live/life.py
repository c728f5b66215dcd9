"""The whole life of a task: what the recorded event log says of it, and how it stands now."""

from __future__ import annotations

import asyncio
import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from gfs.live.controller import Controller
from gfs.live.explain import why_waiting
from gfs.live.observe import REFUSED
from gfs.live.service import Service
from gfs.live.table import Told
from gfs.live.tasks import LiveTask
from gfs.live.translate.gangs import GroupName
from gfs.live.translate.pods import PodView
from gfs.telemetry.metrics_life import TaskStep, task_life

FOREIGN = "another scheduler's pod: what it holds counts as used, and it is never touched"
NO_RECORD = "its past is not recorded: start gfs live run with --record"


async def explain_pod(service: Service, namespace: str, name: str) -> dict[str, Any] | None:
    """What is known of a pod and of its task, gone pods included; None: nothing at all."""
    controller, path = service.controller, f"{namespace}/{name}"
    if controller is None:
        return None
    pods = [pod for pod in controller.mirror.pods.values() if (pod.namespace, pod.name) == (namespace, name)]
    view = max(pods, key=lambda each: each.created, default=None)
    task = controller.book.by_pod.get(view.uid) if view is not None else None
    told: dict[str, Any] = {"pod": path, "phase": view.phase if view else "gone", "node": view.node if view else ""}
    told |= _present(controller, view, task, service.options.parameters.history_hours) if view is not None else {}
    steps = []
    if service.options.record is not None and (view is None or view.ours):
        service.flush()
        names = [service.recorder.name_of(task.task)] if task is not None and task.task is not None else []
        names = names or ([view.bound_as.task] if view is not None and view.bound_as is not None else _names(path))
        steps = await asyncio.to_thread(_steps, service.options.record / "events.csv", names, controller.now)
        told.setdefault("task", steps[0][0] if steps else "")
        told["life"] = [asdict(_explained(step, told.get("why", ""))) for _, step in steps]
    elif view is None or view.ours:
        told["note"] = NO_RECORD
    return told if view is not None or steps else None


def _present(controller: Controller, pod: PodView, task: LiveTask | None, least_hours: float) -> dict[str, Any]:
    """Returns how a pod stands now."""
    waits = controller.book.waits.get(pod.uid)
    told: dict[str, Any] = {"refused": waits is not None and waits.reason == REFUSED}
    told["why"] = waits.text if waits is not None else controller.speaker.why(pod.uid)
    if not pod.ours:
        told["why"] = FOREIGN
    if controller.overlay.is_evicted(pod):
        told |= {"evicted": True, "why": "it was evicted and is leaving"}
    if task is None or task.task is None:
        return told
    core, gang = task.task, task.key if isinstance(task.key, GroupName) else None
    told |= {"task": task.name, "submitted": core.submit_time, "gang": f"{gang.namespace}/{gang.name}" if gang else ""}
    told |= {"class": core.priority.label, "organization": core.organization, "pool": core.gpu_model}
    told |= {"gpus": core.gpus, "guarantee_hours": core.guarantee_hours}
    if task.told is Told.WAITING and (why := why_waiting(controller.scheduler, core, least_hours)) is not None:
        told["why"] = why.text
    if task.run is not None:
        began = task.told is Told.RUNNING
        told |= {"run": task.run.number, "began": began, "evicted": False}
        told["why"] = "" if began else told["why"]
    return told


def _explained(step: TaskStep, why: str) -> TaskStep:
    """A wait that goes on has the reason of now."""
    return replace(step, reason=why) if step.ongoing and step.what == "waited" and why else step


def _names(path: str) -> list[str]:
    """The names that the task of a pod that is gone may have: the pod's own, or its controller's."""
    job = re.sub(r"-[a-z0-9]{5}$", "", path)
    indexed, index = re.sub(r"-\d+$", "", job), re.search(r"-(\d+)$", job)
    return [path, job, *([f"{indexed}/{index[1]}", indexed] if index else [])]


def _steps(log: Path, names: Sequence[str], now: float) -> list[tuple[str, TaskStep]]:
    """The life of the first of these tasks that the log knows, of several by one name the last, with its name."""
    for name in names:
        rows = b"".join(_lines(log, name))
        if not rows:
            continue
        options = pyarrow.csv.ReadOptions(column_names=_columns(log))
        types = pyarrow.csv.ConvertOptions(column_types={"run": pa.float64(), "task": pa.string(), "node": pa.string()})
        table = pyarrow.csv.read_csv(pa.BufferReader(rows), options, convert_options=types)
        again = re.compile(re.escape(name) + r"(~\d+)?")
        found = [each for each in dict.fromkeys(table["task"].to_pylist()) if again.fullmatch(each)]
        if found:
            life = task_life(table, found[-1])
            return [(found[-1], replace(s, length=now - s.time) if s.ongoing else s) for s in life]
    return []


def _columns(log: Path) -> list[str]:
    with log.open(encoding="utf-8") as file:
        return file.readline().strip().split(",")


def _lines(log: Path, text: str) -> Iterator[bytes]:
    """The lines of a file that contain a text: it may be of months."""
    with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        wanted, at = text.encode(), content.find(b"\n")
        while (at := content.find(wanted, at + 1)) >= 0:
            begin, end = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at)
            end = len(content) if end < 0 else end
            yield content[begin:end] + b"\n"
            at = end
