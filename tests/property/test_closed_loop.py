"""The closed loop on traces of days: nothing from the future, and a quota that is kept."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from traces import five_busy_days, five_short_days

from gfs import Workload
from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult
from gfs.assembly.run import run_simulation
from gfs.domain.units import MICRO
from promises import Audit, rows_of

DAY = 86_400.0
LOOPS = [
    ("gfs", "forecast", "off"),
    ("gfs", "forecast", "on"),
    ("gfs", "weekly-peak", "on"),
    ("gfs", "forecast-no-feedback", "off"),
    ("gfs-p", "forecast", "on"),
    ("gfs-plus", "adaptive", "off"),
    ("gfs-plus", "adaptive", "on"),
    ("lyra", "forecast", "off"),
    ("fgd", "adaptive", "on"),
    pytest.param(("chronus", "forecast", "off"), id="chronus-forecast-off", marks=pytest.mark.slow),
]
"""Scheduler, quota, and whether CPUs, memory, pods and node filters count."""


def days(resources: str) -> Workload:
    return five_short_days() if resources == "on" else five_busy_days()


def simulated(work: Workload, scheduler: str, quota: str, resources: str) -> RunResult:
    # A day of history is enough to learn from, so that all of forecasting and feedback is at work. The period of
    # the preemption cost is what the operator says, not what the trace turns out to be.
    settings = {"quota": quota, "history_hours": 24.0, "retrain_hours": 12.0, "resources": resources}
    parameters = Parameters().changed(settings)
    return run_simulation(work, scheduler, parameters, window=(0.0, 5 * DAY), record_quota=True)


@cache
def as_it_came(scheduler: str, quota: str, resources: str) -> RunResult:
    """The five days as they are; all that is looked at below."""
    return simulated(days(resources), scheduler, quota, resources)


@pytest.fixture(params=LOOPS, ids="-".join, scope="module")
def loop(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """Of the module, so that both tests of a loop follow each other and share its run."""
    found: tuple[str, str, str] = request.param
    return found


def rows(result: RunResult, until: float) -> list[dict[str, object]]:
    assert result.quota is not None
    return [row for row in result.quota.to_pylist() if row["time"] <= until]


def test_the_future_moves_no_quota_of_before(loop: tuple[str, str, str]) -> None:
    """What comes after the third day is made another: other tasks, and what runs by then ends at another time."""
    _, quota, resources = loop
    work, cut = days(resources), 3 * DAY
    known = [task for task in work.tasks if task.submit_time < cut]
    other = []
    for task in known:
        duration = work.durations[task.index]
        # What would end after the cut at the earliest ends later still; nothing else of before is touched.
        other.append(duration + 20_000.0 if task.submit_time + duration > cut else duration)
    assert tuple(other) != work.durations[: len(known)]
    first = as_it_came(*loop)
    second = simulated(replace(work, tasks=tuple(known), durations=tuple(other)), *loop)
    early = rows(first, cut)
    assert early == rows(second, cut)
    assert rows(first, 5 * DAY) != rows(second, 5 * DAY)
    forecasters = {row["forecaster"] for row in early} - {None}
    if quota == "adaptive":  # does not look ahead
        assert not forecasters
    else:
        assert forecasters >= {"nothing known yet", "cautious"}
        assert len(forecasters) == 3  # and one that has learnt


def test_the_quota_is_kept_and_the_log_holds(loop: tuple[str, str, str]) -> None:
    scheduler, quota, resources = loop
    work = days(resources)
    result = as_it_came(*loop)
    audit = Audit(work, list(rows_of(result.events.to_pydict())), resources=resources == "on")
    audit.pods_get_what_they_asked_for()
    audit.no_node_is_over_committed()
    audit.no_card_is_over_committed()
    audit.gangs_start_and_stop_together()
    audit.every_task_is_submitted_once_and_finishes_once()
    if scheduler != "chronus":
        audit.hp_is_never_evicted()
    limits: dict[float, tuple[list[float], list[float]]] = {}
    for row in result.quota.to_pylist():
        assert row["quota"] >= 0
        if quota != "adaptive" or row["guarantee_hours"] == 1:  # there it is what all spot tasks may hold
            assert row["quota"] <= row["idle"] + row["spot_in_use"] + 1e-9
        assert 0 <= row["eviction_rate"] <= 1
        if quota in ("forecast", "weekly-peak"):
            assert 0.1 <= row["eta"] <= 4
        times, values = limits.setdefault(row["guarantee_hours"], ([], []))
        times.append(row["time"])
        values.append(row["quota"])
    assert set(limits) == {1.0, 2.0, 4.0}
    if quota == "adaptive":
        assert_the_reserve_stays_idle(work, result)
    guarantee = {task.name: task.guarantee_hours for task in work.tasks if task.is_spot}
    size = {task.name: task.micro for task in work.tasks}
    held: dict[str, int] = {}
    binding = 0
    events = [row for row in result.events.to_pylist() if row["task"] in guarantee]
    evicted = {row["time"] for row in events if row["event"] == "evict"}
    for row in events:
        name = row["task"]
        if row["event"] in ("finish", "evict"):
            held.pop(name, None)
        elif row["event"] == "start" and name not in held:
            held[name] = size[name]
            hours = guarantee[name]
            in_use = sum(micro for other, micro in held.items() if guarantee[other] >= hours)
            times, values = limits[hours]
            # A start that waits for runs which were evicted a grace period ago was decided since then.
            since = row["time"] - 30.0 if row["time"] - 30.0 in evicted else row["time"]
            limit = max(values[bisect_right(times, since) - 1 : bisect_right(times, row["time"])])
            assert in_use <= limit * MICRO + 1, f"{name} starts at {row['time']} over its quota of {limit}"
            binding += in_use > 0.9 * limit * MICRO
    if quota == "adaptive":
        return  # what binds is the reserve
    assert binding > 10, "the quota never mattered, so this proves nothing"


def assert_the_reserve_stays_idle(work: Workload, result: RunResult) -> None:
    """After every start of a spot task at least the share of the pool that the quota log has in `eta` is idle."""
    assert result.quota is not None
    shares = [row for row in result.quota.to_pylist() if row["guarantee_hours"] == 1.0]
    times = [row["time"] for row in shares]
    capacity = sum(node.gpus for node in work.nodes)
    in_use: Counter[tuple[str, str]] = Counter()
    binding = 0
    for row in result.events.to_pylist():
        cards = [(row["node"], card.partition(":")[0]) for card in (row["cards"] or "").split("+")]
        if row["event"] == "start":
            in_use.update(cards)
            reserve = int(shares[bisect_right(times, row["time"]) - 1]["eta"] * capacity)
            idle = capacity - len(in_use)
            assert row["kind"] == "HP" or idle >= reserve, f"{row['task']} at {row['time']}: {idle} idle of {reserve}"
            binding += row["kind"] == "Spot" and idle < reserve + 8
        elif row["event"] in ("finish", "evict"):
            in_use.subtract(cards)
            in_use = +in_use
    assert binding > 10, "the reserve never mattered, so this proves nothing"
