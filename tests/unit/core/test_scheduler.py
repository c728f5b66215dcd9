"""The object that simulator and live cluster drive: one policy per pool, pure."""

from __future__ import annotations

from itertools import count

import pyarrow
import pytest

from builders import hp, nodes, play, spot, workload
from gfs import SCHEDULERS, InputError, Parameters, Workload, generate
from gfs.assembly.schedulers import build_scheduler, find_scheduler
from gfs.core.events import EvictionDone, Finished, Submitted
from gfs.domain.units import DAY
from gfs.simulator.engine import Engine
from gfs.telemetry.event_log import EventLog


def test_an_unknown_scheduler_gets_the_closest_name() -> None:
    with pytest.raises(InputError, match="unknown scheduler 'yarn': did you mean yarn-cs"):
        find_scheduler("yarn")
    with pytest.raises(InputError, match=r"there are gfs, .*static.*, yarn-cs"):
        find_scheduler("qqqq")


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_registry_names_agree(name: str) -> None:
    assert find_scheduler(name).name == name
    assert find_scheduler(name).summary


def test_a_task_of_one_pool_never_touches_another() -> None:
    machines = [*nodes(4), *nodes(4, model="T4", prefix="t")]
    story = play(machines, spot("a", gpus=4, lasting=500), hp("h", gpus=4, at=100, model="T4"), hp("i", gpus=4, at=110))
    assert story.on("h") == ["t0"]
    assert story.started("h") == [100.0]
    assert story.evicted("a") == [110.0]


def test_events_in_actions_out_without_a_simulator() -> None:
    work = workload(nodes(4), [spot("s", gpus=4, lasting=500), hp("h", gpus=4, at=100)])
    scheduler = build_scheduler("gfs", work.nodes, Parameters(quota="none"), period=3600.0, check=True)
    s, h = work.tasks
    plan = scheduler.handle(0.0, [Submitted(s)])
    assert [(run.task.name, run.start) for run in plan.starts] == [("s", 0.0)]
    plan = scheduler.handle(100.0, [Submitted(h)])
    assert [eviction.run.task.name for eviction in plan.evictions] == ["s"]
    (run,) = plan.starts
    assert (run.task.name, run.start) == ("h", 130.0)
    assert [(task.name, reason.text()) for task, reason in scheduler.waiting() if reason] == [
        ("s", "pool A100: no idle GPU")
    ]
    plan = scheduler.handle(130.0, [EvictionDone(plan.evictions[0].run)])
    assert plan.starts == []
    plan = scheduler.handle(230.0, [Finished(run)])
    assert [(again.task.name, again.number, again.progress_from) for again in plan.starts] == [("s", 2, 270.0)]
    assert list(scheduler.waiting()) == []


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_a_policy_that_is_built_again_decides_as_the_first_one_would(name: str) -> None:
    # Everything derived is thrown away and built anew from the state, again and again: nobody can tell.
    work = generate("demo", nodes=6, days=0.5, spot_scale=3, seed=2)
    once, often = (events_of(work, name, rebuilt) for rebuilt in (False, True))
    assert once.num_rows > len(work.tasks)
    assert once.equals(often)


def events_of(work: Workload, name: str, rebuilt: bool) -> pyarrow.Table:
    log, parameters, instants = EventLog(work), Parameters(), count()
    scheduler = build_scheduler(name, work.nodes, parameters, period=DAY, check=True)
    engine = Engine(work, scheduler, log.record, rules=parameters.rules)

    def after(now: float) -> None:
        if next(instants) % 5 == 0:
            for pool in scheduler.pools.values():
                pool.rebuild()

    if rebuilt:
        engine.after_instant = after
    engine.run()
    return log.table()
