"""Answers of the API about a recorded run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

from gfs.core.reasons import preemptor_in
from gfs.dashboard.api import (
    GpuCounts,
    KeptNode,
    Life,
    LifeStep,
    OrganizationForecast,
    PoolStatus,
    Queue,
    QuotaRow,
    Status,
    TaskCounts,
    WaitingTask,
    WeighedOption,
)
from gfs.dashboard.wire import Recording
from gfs.domain.errors import InputError
from gfs.telemetry.event_log import EVENTS
from gfs.telemetry.metrics_life import task_life

SUBMIT, START, FINISH, EVICT, LOST, CANCEL = range(len(EVENTS))
KINDS: tuple[Literal["HP"], Literal["Spot"]] = ("HP", "Spot")


class Replay:
    """A recording as the source of answers."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        times, ticks = recording.entries.time, recording.quota.time
        self.first = float(min([*times[:1], *ticks[:1]], default=0))
        now = [] if recording.now is None else [recording.now]
        self.last = float(max([*times[-1:], *ticks[-1:], *now], default=0))

    def status(self, time: float | None) -> Status:
        """The cluster at a moment."""
        now, recording = self._at(time), self.recording
        pools = [self._pool(model, now) for model in range(len(recording.models))]
        title, begin = recording.title, None if recording.begin is None else float(recording.begin)
        return Status(title, recording.live, now.time, begin, self.first, self.last, pools)

    def queue(self, time: float | None, pool: str = "", organization: str = "", kind: str = "") -> Queue:
        """Who waits at a moment, longest first."""
        now, tasks, found = self._at(time), self.recording.tasks, []
        for task, since in now.waiting.items():
            expected = self._expected(task, now.time)
            row = WaitingTask(
                tasks.name[task],
                KINDS[tasks.spot[task]],
                self.recording.organizations[tasks.organization[task]],
                self.recording.models[tasks.model[task]],
                float(tasks.gpus[task]),
                now.time - since,
                self._reason(task, now.applied),
                *expected,
            )
            asked = ((pool, row.gpu_model), (organization, row.organization), (kind, row.kind))
            if all(wanted in ("", value) for wanted, value in asked):
                found.append(row)
        return Queue(now.time, sorted(found, key=lambda row: (-row.waited, row.task)))

    def life(self, name: str) -> Life:
        """The life of a task; raises InputError for one that the log does not know."""
        tasks = self.recording.tasks
        if name not in tasks.name:
            raise InputError(f"There is no task {name!r} among the {len(tasks.name):,} recorded ones.")
        task = tasks.name.index(name)
        steps = task_life(pa.Table.from_pylist(list(self._rows(task))), name)
        told = [
            LifeStep(
                step.time,
                step.what,
                self.last - step.time if step.ongoing else step.length,
                step.run,
                list(step.nodes),
                float(step.gpus),
                step.reason,
                step.ongoing,
                *(self._weighed(task, step.time, step.reason) if step.what == "evicted" else ()),
            )
            for step in steps
        ]
        owner, model = self.recording.organizations[tasks.organization[task]], self.recording.models[tasks.model[task]]
        return Life(name, KINDS[tasks.spot[task]], owner, model, float(tasks.gpus[task]), told)

    def _rows(self, task: int) -> Iterator[dict[str, Any]]:
        """The rows of the event log that tell of a task."""
        recording, entries, pods = self.recording, self.recording.entries, self.recording.pods
        placed: dict[int, list[tuple[str, float]]] = {}
        pod = 0
        for entry, of in enumerate(entries.task):
            count, run = entries.pods[entry], entries.run[entry]
            if of == task:
                if count:
                    names = [recording.nodes.name[n] for n in pods.node[pod : pod + count]]
                    placed[run] = list(zip(names, pods.gpus[pod : pod + count], strict=True))
                for node, gpus in placed.get(run, [("", recording.tasks.gpus[task])]):
                    yield {
                        "time": float(entries.time[entry]),
                        "event": EVENTS[entries.event[entry]],
                        "task": recording.tasks.name[task],
                        "run": run,
                        "node": node,
                        "gpus": float(gpus),
                        "reason": recording.reasons[entries.reason[entry]],
                    }
            pod += count

    def _at(self, time: float | None) -> _Moment:
        return _Moment(self.recording, self.last if time is None else time)

    def _pool(self, model: int, now: _Moment) -> PoolStatus:
        recording, tasks = self.recording, self.recording.tasks
        nodes = [n for n, of in enumerate(recording.nodes.model) if of == model]
        total = float(sum(recording.nodes.gpus[n] for n in nodes))
        held, counts = [0.0, 0.0], [[0, 0], [0, 0]]
        for task in now.running:
            if tasks.model[task] == model:
                held[tasks.spot[task]] += tasks.gpus[task]
                counts[tasks.spot[task]][0] += 1
        for task in now.waiting:
            if tasks.model[task] == model:
                counts[tasks.spot[task]][1] += 1
        kept = {n: task for n, task in now.kept.items() if recording.nodes.model[n] == model}
        reserved = float(sum(tasks.gpus[t] for t in now.reserved if tasks.model[t] == model))
        closed = now.closed & set(nodes)
        shut = sum(recording.nodes.gpus[n] - now.used(n) for n in closed)
        idle = max(0.0, total - sum(held) - reserved - shut)
        return PoolStatus(
            recording.models[model],
            len(nodes),
            len(closed),
            GpuCounts(
                total,
                held[0],
                held[1],
                reserved,
                idle,
                shut,
                min(idle, sum(recording.nodes.gpus[n] - now.used(n) for n in kept.keys() - closed)),
            ),
            {"HP": TaskCounts(*counts[0]), "Spot": TaskCounts(*counts[1])},
            list(self._quota(model, now.time)),
            kept_from_spot=[
                KeptNode(recording.nodes.name[n], tasks.name[task] if task >= 0 else "") for n, task in kept.items()
            ],
            organizations=self._forecast(model, now.time),
        )

    def _quota(self, model: int, time: float) -> Iterator[QuotaRow]:
        quota, newest = self.recording.quota, dict[float, float | None]()
        for row in range(bisect_right(quota.time, time)):
            if quota.model[row] == model:
                newest[float(quota.guarantee_hours[row])] = quota.quota[row]
        for hours in sorted(newest):
            yield QuotaRow(hours, newest[hours])

    def _forecast(self, model: int, time: float) -> list[OrganizationForecast]:
        """The organizations of the newest forecast."""
        forecasts, names = self.recording.forecasts, self.recording.organizations
        rows = [row for row in range(bisect_right(forecasts.time, time)) if forecasts.model[row] == model]
        return [
            OrganizationForecast(
                names[forecasts.organization[row]], float(forecasts.expected[row]), float(forecasts.bound[row])
            )
            for row in rows
            if forecasts.time[row] == forecasts.time[rows[-1]]
        ]

    def _expected(self, task: int, time: float) -> tuple[float | None, bool]:
        """When room is expected for a task that waits for quota, and whether that is known."""
        expected = self.recording.expected
        for row in range(bisect_right(expected.time, time) - 1, -1, -1):
            if expected.task[row] == task:
                start = expected.start[row]
                return (None, False) if start is None or start <= time else (float(start), bool(expected.known[row]))
        return None, False

    def _weighed(self, victim: int, time: float, reason: str) -> tuple[str, list[WeighedOption]]:
        """Who took a task's place, and what was weighed before."""
        recording, options = self.recording, self.recording.options
        names = recording.tasks.name
        taker = preemptor_in(reason, {name: task for task, name in enumerate(names)})
        if taker is None:
            return "", []
        found, ours = list[WeighedOption](), False
        for row in range(bisect_right(options.time, time + 1)):  # live, an eviction is recorded a moment later
            if options.task[row] != taker:
                continue
            if options.chosen[row]:  # each decision begins with what was taken
                ours = victim in options.victims[row]
                found = [] if ours else found
            if ours:
                node = options.node[row]
                found.append(
                    WeighedOption(
                        recording.nodes.name[node] if node >= 0 else "",
                        [names[v] for v in options.victims[row]],
                        float(options.cost[row]),
                        float(options.waste[row]),
                        bool(options.chosen[row]),
                    )
                )
        return names[taker], found

    def _reason(self, task: int, applied: int) -> str:
        """What the log says when the wait ends; '' if it does not end."""
        entries = self.recording.entries
        for entry in range(applied, len(entries.time)):
            if entries.task[entry] == task:
                return self.recording.reasons[entries.reason[entry]] if entries.event[entry] == START else ""
        return ""


class _Moment:
    """Everything that had happened by a moment, that instant included."""

    def __init__(self, recording: Recording, time: float) -> None:
        self.time, self._recording = time, recording
        self.running: dict[int, tuple[int, int]] = {}
        """Task -> its first pod and how many it has."""
        self.waiting: dict[int, float] = {}
        """Task -> since when."""
        self.reserved: set[int] = set()
        """Waiting tasks that somebody made room for."""
        self.closed = self._closed_nodes()
        self.kept = self._kept_nodes()
        """Node that spot tasks are kept from -> the task it is reserved for, or -1."""
        entries, names = recording.entries, {name: task for task, name in enumerate(recording.tasks.name)}
        self.applied, pod = bisect_right(entries.time, time), 0
        for entry in range(self.applied):
            task, event = entries.task[entry], entries.event[entry]
            if event == START:
                self.waiting.pop(task, None)
                self.reserved.discard(task)
                self.running[task] = (pod, entries.pods[entry])
                pod += entries.pods[entry]
                continue
            self.running.pop(task, None)
            if event in (SUBMIT, EVICT, LOST):
                self.waiting[task] = float(entries.time[entry])
            else:
                self.waiting.pop(task, None)
                self.reserved.discard(task)
            if event == EVICT:
                taker = preemptor_in(recording.reasons[entries.reason[entry]], names)
                if taker is not None and taker in self.waiting:
                    self.reserved.add(taker)

    def used(self, node: int) -> float:
        """GPUs of a node that are held."""
        pods = self._recording.pods
        return sum(
            float(pods.gpus[pod])
            for first, count in self.running.values()
            for pod in range(first, first + count)
            if pods.node[pod] == node
        )

    def _closed_nodes(self) -> set[int]:
        down: dict[str, set[int]] = {"fail": set(), "cordon": set()}
        events = self._recording.node_events
        for moment, node, event in zip(events.time, events.node, events.event, strict=True):
            if moment > self.time:
                break
            if event in down:
                down[event].add(node)
            else:
                down["fail" if event == "repair" else "cordon"].discard(node)
        return down["fail"] | down["cordon"]

    def _kept_nodes(self) -> dict[int, int]:
        kept: dict[int, int] = {}
        told = self._recording.spot_nodes
        for moment, node, closed, task in zip(told.time, told.node, told.closed, told.task, strict=True):
            if moment > self.time:
                break
            if closed or task >= 0:
                kept[node] = task
            else:
                kept.pop(node, None)
        return kept


def moment_of(text: str | None) -> float | None:
    """The t of an address; raises InputError for what is no number."""
    if text is None or not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not -1e12 < value < 1e12:
        raise InputError(f"t = {text!r}: give a moment in seconds")
    return value
