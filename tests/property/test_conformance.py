"""What every scheduler promises, checked on random clusters from the event log alone.

A new entry in `gfs.SCHEDULERS` goes through all of this by itself; one from outside if it is named:
    GFS_CONFORMANCE=apart pytest tests/property/test_conformance.py
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases

from builders import event_bytes, workload
from gfs import SCHEDULERS, NodeSpec, Workload, simulate
from gfs.assembly.result import RunResult
from gfs.domain.execution import LEASE_END
from promises import Audit, rows_of

NAMES = os.environ.get("GFS_CONFORMANCE", ",".join(sorted(SCHEDULERS))).split(",")
every_scheduler = pytest.mark.parametrize("scheduler", NAMES)

EXAMPLES = int(os.environ.get("GFS_CONFORMANCE_EXAMPLES", "60"))
"""Clusters per scheduler for the promises, a quarter for each other property; many more to look for trouble.

The twelve schedulers are put together from few parts: the seven of the gfs family differ from each other in one or
two, so each part meets these numbers several times over. The oracles try hundreds more on gfs, yarn-cs, static,
lyra and fgd and compare every event; the open world keeps books on all schedulers.
"""

ORDER_IS_STRICT = {"yarn-cs"}
"""Schedulers where a head that does not fit blocks those behind it."""


LEASES = {"chronus"}
"""Schedulers of leases: they suspend, HP too, at the ends of leases only, and evict nobody."""


def run(case: Case, scheduler: str, **more: Any) -> RunResult:
    return simulate(case.work, scheduler=scheduler, **{**case.parameters, **more})


def decided_early(result: RunResult) -> dict[str, float]:
    """When HP tasks that had someone evicted got their cards: the log says for whom each victim went."""
    columns = result.events.to_pydict()
    found: dict[str, float] = {}
    for time, event, reason in zip(columns["time"], columns["event"], columns["reason"], strict=True):
        if event == "evict" and reason != LEASE_END:
            words = re.match(r"evicted for (\S+) on \S+: ", reason)
            assert words, f"an eviction must say for whom: {reason!r}"
            found[words[1]] = time
    return found


@every_scheduler
@settings(max_examples=EXAMPLES)
@given(case=cases(max_tasks=30))
def test_keeps_every_promise_of_the_log(scheduler: str, case: Case) -> None:
    result = run(case, scheduler, check=True)
    resources = case.parameters["resources"] == "on"
    audit = Audit(case.work, list(rows_of(result.events.to_pydict())), resources=resources)
    audit.time_never_goes_back()
    audit.every_task_is_submitted_once_and_finishes_once()
    audit.gangs_start_and_stop_together()
    audit.pods_get_what_they_asked_for()
    audit.no_card_is_over_committed()
    audit.no_node_is_over_committed(0.0 if scheduler in LEASES else case.parameters["grace_period"])
    audit.higher_priority_first(case.parameters["grace_period"])
    if case.parameters["quota"] == "fixed":
        audit.spot_stays_inside(case.parameters["quota_share"])
    if scheduler in LEASES:
        audit.leased_work_is_conserved(resume=120.0)
        audit.nobody_stops_inside_a_lease(hp_lease=1200.0, spot_lease=300.0)
        audit.no_hp_waits_in_vain_for_a_lease(300.0)
    else:
        audit.hp_is_never_evicted()
        audit.work_is_conserved(on_grace=case.parameters["checkpoint_on_grace"])
        decided, grace = decided_early(result), case.parameters["grace_period"]
        assert all(audit.tasks[name].preempts for name in decided)
        audit.no_hp_waits_in_vain(decided, scheduler in ORDER_IS_STRICT, grace)


@every_scheduler
@settings(max_examples=max(EXAMPLES // 4, 1))
@given(case=cases(max_tasks=25))
def test_hp_starts_exactly_one_grace_period_after_its_victims_stop(scheduler: str, case: Case) -> None:
    result = run(case, scheduler)
    columns = result.events.to_pydict()
    starts = {
        task: time
        for time, event, task in zip(columns["time"], columns["event"], columns["task"], strict=True)
        if event == "start"
    }
    for name, when in decided_early(result).items():
        assert starts[name] == when + case.parameters["grace_period"]


@every_scheduler
@settings(max_examples=max(EXAMPLES // 4, 1))
@given(case=cases(max_tasks=25))
def test_same_input_same_bytes(scheduler: str, case: Case) -> None:
    assert event_bytes(run(case, scheduler)) == event_bytes(run(case, scheduler, check=True))


@every_scheduler
@settings(max_examples=max(EXAMPLES // 4, 1))
@given(case=cases(max_tasks=25))
def test_pools_do_not_disturb_each_other(scheduler: str, case: Case) -> None:
    # Without a window, T of the preemption cost is the span of all submissions: the same for all pools only
    # if a window says so.
    window = (0.0, 7200.0)
    together = list(rows_of(run(case, scheduler, window=window).events.to_pydict()))
    for model in case.work.capacity():
        alone = only(case.work, model)
        rows = list(rows_of(run(replace(case, work=alone), scheduler, window=window).events.to_pydict()))
        names = {task.name for task in alone.tasks}
        assert [row for row in together if row[2] in names] == rows


def only(work: Workload, model: str) -> Workload:
    """One pool of a workload, as if there were no other."""
    nodes = tuple(node for node in work.nodes if node.gpu_model == model)
    return replace(work.with_tasks(task for task in work.tasks if task.gpu_model == model), nodes=nodes)


@every_scheduler
@settings(max_examples=max(EXAMPLES // 4, 1))
@given(case=cases(max_tasks=20, models=1), shift=st.sampled_from([300.0, 86400.0, 30000000.0]))
def test_only_differences_of_time_matter(scheduler: str, case: Case, shift: float) -> None:
    # Shifted by whole ticks, everything happens later by that and otherwise alike.
    later = replace(
        case.work, tasks=tuple(replace(task, submit_time=task.submit_time + shift) for task in case.work.tasks)
    )
    here = list(rows_of(run(case, scheduler).events.to_pydict()))
    there = list(rows_of(run(replace(case, work=later), scheduler).events.to_pydict()))
    assert [(row[0] + shift, *row[1:]) for row in here] == there


@every_scheduler
@settings(max_examples=max(EXAMPLES // 4, 1))
@given(case=cases(max_tasks=20))
def test_a_workload_that_fits_at_once_never_waits(scheduler: str, case: Case) -> None:
    # At most 20 tasks x 9 pods, 5 of them of at most 8 GPUs, 24 CPUs and 96 GiB, 4 of 2: 150 nodes of 8 GPUs per model,
    # group and rack hold them all at once.
    kinds = dict.fromkeys((n.gpu_model, n.group, n.labels) for n in case.work.nodes)
    nodes = (
        NodeSpec(i, f"x{i}", model, 8, 1e3, 1e4, 100, group, (), labels)
        for i, (model, group, labels) in enumerate(kind for kind in kinds for _ in range(150))
    )
    roomy = replace(case.work, nodes=tuple(nodes))
    rows = list(rows_of(run(replace(case, work=roomy), scheduler, quota="none").events.to_pydict()))
    submitted = {task.name: task.submit_time for task in roomy.tasks}
    # Where leases are given out in rounds, at once means when the next round begins.
    at_once = {name: ceil(at / 300) * 300 if scheduler in LEASES else at for name, at in submitted.items()}
    assert all(row[0] == at_once[row[2]] for row in rows if row[1] == "start")
    assert not any(row[1] == "evict" for row in rows)


@every_scheduler
def test_an_empty_workload_is_over_at_once(scheduler: str) -> None:
    result = simulate(workload([NodeSpec(0, "n0", "A100", 8)], []), scheduler=scheduler, check=True)
    assert result.events.num_rows == 0
