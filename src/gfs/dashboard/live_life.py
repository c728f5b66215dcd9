"""The life of a pod's task, as `/api/v1/pods` tells it: its past by the recorded event log, and its present state."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv as pacsv

from gfs.dashboard.api import PodLife
from gfs.live.controller import Controller
from gfs.live.explain import why_waiting
from gfs.live.observe import REFUSED
from gfs.live.record_files import EVENTS
from gfs.live.recorded import split_name
from gfs.live.service import Service
from gfs.live.table import Phase
from gfs.live.tasks import LiveTask
from gfs.live.translate.gangs import GroupName
from gfs.live.translate.pods import PodView
from gfs.telemetry.metrics_life import TaskStep, task_life

FOREIGN = "another scheduler's pod: what it holds counts as used, and it is never touched"
NO_RECORD = "its past is not recorded: start gfs live run with --record"


async def explain_pod(service: Service, controller: Controller, namespace: str, name: str) -> PodLife | None:
    """Returns what is known of a pod and its task, also of a pod that is gone; None: nothing."""
    path = f"{namespace}/{name}"
    pods = [pod for pod in controller.mirror.pods.values() if (pod.namespace, pod.name) == (namespace, name)]
    view = max(pods, key=lambda each: each.created, default=None)
    task = controller.book.by_pod.get(view.uid) if view is not None else None
    told: dict[str, Any] = {"pod": path, "phase": view.phase if view else "gone", "node": view.node if view else ""}
    told |= _present(controller, view, task, service.options.parameters.history_hours) if view is not None else {}
    life: list[TaskStep] = []
    if service.options.record is not None and (view is None or view.ours):
        names = _names(path)
        if task is not None and task.task is not None:
            names = [service.recorder.name_of(task.task)]
        elif view is not None and view.bound_as is not None:
            names = [view.bound_as.task]
        if service.recorder.take():
            await asyncio.to_thread(service.recorder.write, service.may_write)
        known, life = await asyncio.to_thread(read_life, service.options.record / EVENTS, names, controller.now)
        told.setdefault("task", known)
        told["life"] = [asdict(_explained(step, told.get("why", ""))) for step in life]
    elif view is None or view.ours:
        told["note"] = NO_RECORD
    return msgspec.convert(told, PodLife) if view is not None or life else None


def _present(controller: Controller, pod: PodView, task: LiveTask | None, least_hours: float) -> dict[str, Any]:
    """Returns the present state of a pod."""
    waits = controller.book.waits.get(pod.uid)
    told: dict[str, Any] = {"refused": waits is not None and waits.reason == REFUSED}
    told["why"] = waits.text if waits is not None else controller.pod_events.why(pod.uid)
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
    if task.phase is Phase.WAITING and (why := why_waiting(controller.scheduler, core, least_hours)) is not None:
        told["why"] = why.text
    if task.run is not None:
        began = task.phase is Phase.RUNNING
        told |= {"run": task.run.number, "began": began, "evicted": False}
        told["why"] = "" if began else told["why"]
    return told


def _explained(step: TaskStep, why: str) -> TaskStep:
    """Returns the step; a wait that goes on gets the present reason."""
    return replace(step, reason=why) if step.ongoing and step.what == "waited" and why else step


def _names(path: str) -> list[str]:
    """Returns the possible task names of a pod that is gone: its own, or its controller's."""
    job = re.sub(r"-[a-z0-9]{5}$", "", path)
    indexed, index = re.sub(r"-\d+$", "", job), re.search(r"-(\d+)$", job)
    return [path, job, *([f"{indexed}/{index[1]}", indexed] if index else [])]


def read_life(log: Path, names: Sequence[str], now: float) -> tuple[str, list[TaskStep]]:
    """Returns the first of these tasks that the log knows, the last one of that name, and its life up to now."""
    types = pacsv.ConvertOptions(column_types={"run": pa.float64(), "task": pa.string(), "node": pa.string()})
    for name in names:
        table = pacsv.read_csv(pa.BufferReader(_lines(log, name)), convert_options=types)
        found = [each for each in table["task"].to_pylist() if name in (each, split_name(each)[0])]
        if found:
            life = task_life(table, found[-1])
            return found[-1], [replace(step, length=now - step.time) if step.ongoing else step for step in life]
    return "", []


def _lines(log: Path, text: str) -> bytes:
    """Returns the header of a log, which may be of months, and the lines that contain a text."""
    with log.open("rb") as file:
        return file.readline() + b"".join(line for line in file if text.encode() in line)
