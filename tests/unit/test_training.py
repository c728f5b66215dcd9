"""A fit is a unit of work: the driver runs it when and where it likes, and no decision waits for it."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from builders import hp, nodes
from gfs import Parameters
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import Submitted, Tick, Trained
from gfs.core.ports import Training
from gfs.core.scheduler import Scheduler
from gfs.domain.units import HOUR

HOURS = 30


class Desk:
    """A driver that lets every fit lie until somebody takes it up."""

    def __init__(self) -> None:
        self.lying: list[Training] = []

    def __call__(self, training: Training) -> None:
        self.lying.append(training)


def cluster(desk: Desk) -> Scheduler:
    """Two nodes, HP tasks every hour for more than a day, a quota by the paper's forecaster after 24 hours."""
    scheduler = build_scheduler("gfs", nodes(8, 8), Parameters(), period=30 * 24 * HOUR, train=desk)
    for tick in range(12 * HOURS + 1):
        now = tick * 300.0
        events: list[Submitted | Tick] = [Tick()]
        if tick % 12 == 0:
            events.append(Submitted(hp(f"h{tick}", at=now).task(tick)))
        plan = scheduler.handle(now, events)
        assert not plan.lost
    return scheduler


def forecasters(scheduler: Scheduler) -> set[str]:
    return {row.forecaster for row in scheduler.pools["A100"].policy.quota.rows()}


def test_until_the_model_comes_the_quota_is_cautious_and_decisions_go_on() -> None:
    desk = Desk()
    scheduler = cluster(desk)
    assert len(scheduler.pools["A100"].state.runs) == 16, "HP tasks took all cards meanwhile"
    assert forecasters(scheduler) == {"cautious"}


def test_a_fit_that_does_not_come_is_asked_for_again_after_an_hour_not_at_every_tick() -> None:
    desk = Desk()
    cluster(desk)
    # From hour 24 on, when there is a day of history, to hour 30: once an hour.
    assert [training.asked_at / HOUR for training in desk.lying] == [24, 25, 26, 27, 28, 29, 30]


def test_a_model_that_is_handed_back_is_used_from_the_next_tick_on() -> None:
    desk = Desk()
    scheduler = cluster(desk)
    training = desk.lying[0]
    now = (HOURS + 1) * HOUR
    scheduler.handle(now, [Tick(), Trained(training.gpu_model, training.fit(), training.asked_at)])
    assert forecasters(scheduler) == {"orglinear"}, "within an instant a model comes before the tick"


def test_an_older_model_that_comes_late_does_not_replace_a_newer_one() -> None:
    desk = Desk()
    scheduler = cluster(desk)
    old, new = desk.lying[0], desk.lying[-1]
    fitted_old, fitted_new = old.fit(), new.fit()
    scheduler.handle((HOURS + 1) * HOUR, [Trained("A100", fitted_new, new.asked_at)])
    scheduler.handle((HOURS + 2) * HOUR, [Trained("A100", fitted_old, old.asked_at)])
    assert scheduler.pools["A100"].state.memory["forecaster"].fitted is fitted_new


def test_the_work_can_be_done_in_another_process() -> None:
    desk = Desk()
    scheduler = cluster(desk)
    training = desk.lying[-1]
    assert pickle.loads(pickle.dumps(training)).asked_at == training.asked_at
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        model = pool.submit(training.fit).result()
    scheduler.handle((HOURS + 1) * HOUR, [Trained(training.gpu_model, model, training.asked_at), Tick()])
    assert forecasters(scheduler) == {"orglinear"}


def test_a_model_for_a_pool_that_is_gone_or_has_no_forecaster_is_passed_over() -> None:
    scheduler = build_scheduler("static", nodes(8), Parameters(), period=HOUR)
    scheduler.handle(0.0, [Trained("A100", object(), 0.0), Trained("H20", object(), 0.0)])
