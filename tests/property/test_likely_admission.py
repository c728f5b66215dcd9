"""Admission by likely run time on a trace of days: nothing from the future, and a quota that is kept."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import Any

import pytest
from audit import Audit
from oracle import rows_of
from traces import five_busy_days

from gfs import Kind, Workload
from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult
from gfs.assembly.run import run_simulation
from gfs.core.ports import Lengths
from gfs.domain.task import Task
from gfs.domain.units import MICRO
from gfs.policies.gfs.likely_run import ByLikelyRun

DAY = 86_400.0
QUOTAS = ("adaptive", "forecast")


def simulated(work: Workload, quota: str, admission: str = "likely") -> RunResult:
    settings = {"quota": quota, "admission": admission, "history_hours": 24.0, "retrain_hours": 12.0}
    parameters = Parameters().changed(settings)
    return run_simulation(work, "gfs-plus", parameters, window=(0.0, 5 * DAY), record_quota=True)


def events(result: RunResult, until: float) -> list[dict[str, Any]]:
    return [row for row in result.events.to_pylist() if row["time"] <= until]


@pytest.mark.parametrize("quota", QUOTAS)
def test_how_long_tasks_will_run_moves_no_decision_of_before(quota: str) -> None:
    """Tasks that cannot have ended by the third day run for hours more, those that come later for a minute."""
    work, cut = five_busy_days(), 3 * DAY

    def otherwise(task: Task) -> Task:
        if task.submit_time >= cut:
            return replace(task, duration=60.0)
        return replace(task, duration=task.duration + 20_000.0) if task.submit_time + task.duration > cut else task

    other = replace(work, tasks=tuple(otherwise(task) for task in work.tasks))
    first, second = simulated(work, quota), simulated(other, quota)
    assert events(first, cut) == events(second, cut)
    assert events(first, 5 * DAY) != events(second, 5 * DAY)
    # Admission was at work by then.
    assert events(first, cut) != events(simulated(work, quota, "guarantee"), cut)


@pytest.mark.parametrize("quota", QUOTAS)
def test_one_of_its_quotas_has_room_for_whoever_starts(quota: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, list[Lengths]] = {}
    asked = ByLikelyRun._asked

    def noted(self: ByLikelyRun, task: Task) -> Lengths:
        lengths = asked(self, task)
        answers.setdefault(task.name, []).append(lengths)
        return lengths

    monkeypatch.setattr(ByLikelyRun, "_asked", noted)
    work = five_busy_days()
    result = simulated(work, quota)
    audit = Audit(work, list(rows_of(result.events.to_pydict())))
    audit.no_card_is_over_committed()
    audit.gangs_start_and_stop_together()
    audit.every_task_is_submitted_once_and_finishes_once()
    audit.hp_is_never_evicted()
    limits: dict[float, tuple[list[float], list[float]]] = {}
    assert result.quota is not None
    for row in result.quota.to_pylist():
        times, values = limits.setdefault(row["guarantee_hours"], ([], []))
        times.append(row["time"])
        values.append(row["quota"])
    tasks = {task.name: task for task in work.tasks if task.kind is Kind.SPOT}
    held: dict[str, int] = {}
    runs = dict.fromkeys(tasks, 0)
    by_likely_run = 0
    for row in result.events.to_pylist():
        name = row["task"]
        if name not in tasks:
            continue
        if row["event"] in ("finish", "evict"):
            held.pop(name, None)
        elif row["event"] == "start" and name not in held:
            held[name] = tasks[name].micro
            lengths = answers[name][runs[name]]  # asked once for each run
            runs[name] += 1
            has_room = []
            for hours in lengths:
                in_use = sum(micro for other, micro in held.items() if tasks[other].guarantee_hours >= hours)
                times, values = limits[hours]
                has_room.append(in_use <= values[bisect_right(times, row["time"]) - 1] * MICRO + 1)
            assert any(has_room), f"{name} starts at {row['time']} over every quota that counts for it"
            assert lengths[0] == tasks[name].guarantee_hours >= lengths[-1]
            by_likely_run += not has_room[0]
    assert by_likely_run > 10, "the guarantee alone would have done, so this proves nothing"
