"""A fit is a unit of work: the driver runs it when and where it likes, and no decision waits for it."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

from builders import hp, nodes, play
from gfs import Parameters
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import Submitted, Tick, Trained
from gfs.core.ports import FitRequest, Train
from gfs.core.scheduler import Scheduler
from gfs.domain.units import HOUR
from gfs.forecasting.forecast import Forecast, NormalForecast
from gfs.forecasting.history import DemandHistory
from gfs.forecasting.online import ForecastMemory, Stopwatch
from gfs.forecasting.registry import MODELS, Model

HOURS = 30


class Desk:
    """A driver that lets every fit lie until somebody takes it up."""

    def __init__(self) -> None:
        self.lying: list[FitRequest] = []

    def __call__(self, training: FitRequest) -> None:
        self.lying.append(training)


def cluster(desk: Train, hours: int = HOURS, quota: str = "", watch: Stopwatch | None = None) -> Scheduler:
    """Two nodes, HP tasks every hour for more than a day, a quota by the paper's forecaster after 24 hours."""
    scheduler = build_scheduler(
        "gfs", nodes(8, 8), Parameters(quota=quota), period=30 * 24 * HOUR, train=desk, stopwatch=watch
    )
    for tick in range(12 * hours + 1):
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
    assert scheduler.pools["A100"].state.memory[ForecastMemory].fitted is fitted_new


def two_pools(desk: Train, hours: int = HOURS, watch: Stopwatch | None = None) -> Scheduler:
    """A node of each model; HP tasks for A100 from the beginning, for H20 from hour 20 on."""
    work = [*nodes(8), *nodes(8, model="H20", prefix="h", first=1)]
    parameters = Parameters(quota="forecast", cluster="west")
    scheduler = build_scheduler("gfs", work, parameters, period=30 * 24 * HOUR, train=desk, stopwatch=watch)
    for tick in range(12 * hours + 1):
        now = tick * 300.0
        events: list[Submitted | Tick] = [Tick()]
        if tick % 12 == 0:
            models = ("A100", "H20") if tick >= 240 else ("A100",)
            events += [Submitted(hp(f"{m}{tick}", at=now, model=m).task(tick + len(m))) for m in models]
        scheduler.handle(now, events)
    return scheduler


def test_all_pools_are_fitted_together() -> None:
    desk = Desk()
    scheduler = two_pools(desk)
    # Asked once an hour from hour 24 on, by the pool that ticks first, and not once for each pool.
    assert [training.asked_at / HOUR for training in desk.lying] == [24, 25, 26, 27, 28, 29, 30]
    training = desk.lying[-1]
    history = training.fit.history  # type: ignore[attr-defined]
    assert [str(key) for key in history.keys] == ["lab on A100 in west", "lab on H20 in west"]
    assert history.first.tolist() == [0, 20]
    scheduler.handle((HOURS + 1) * HOUR, [Trained(training.gpu_model, training.fit(), training.asked_at), Tick()])
    fitted = [pool.state.memory[ForecastMemory].fitted for pool in scheduler.pools.values()]
    assert fitted[0] is not fitted[1], "each remembers what it was asked"
    assert fitted[0].parameters is fitted[1].parameters
    assert fitted[0].attribute_values == (("lab",), ("A100", "H20"), ("west",))
    rows = [row for pool in scheduler.pools.values() for row in pool.policy.quota.rows()]
    assert {row.forecaster for row in rows} == {"orglinear"}


def test_a_fit_for_all_pools_counts_once() -> None:
    watch = Stopwatch()
    two_pools(lambda training: training.fit(), hours=50, watch=watch)
    assert (watch.fits, watch.failures) == (2, 0), "at hours 24 and 48"


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


# -- models that fail ------------------------------------------------------------------------------


class Odd:
    """A fitted model that says what it is made to say."""

    def __init__(self, says: Callable[[DemandHistory, int], Any]) -> None:
        self._says = says

    def predict(self, history: DemandHistory, hours: int) -> Forecast:
        return self._says(history, hours)  # type: ignore[no-any-return]


def normal(history: DemandHistory, hours: int, value: float = 5.0) -> NormalForecast:
    numbers = np.full((len(history.keys), hours), value)
    return NormalForecast(history.keys, numbers, np.ones_like(numbers))


class WithoutPeaks(NormalForecast):
    """Its bounds are fine, its peaks are not."""

    def peak_quantile(self, p: float, hours: int) -> Any:
        raise ZeroDivisionError("no peaks")


def without_peaks(history: DemandHistory, hours: int) -> WithoutPeaks:
    sure = normal(history, hours)
    return WithoutPeaks(sure.keys, sure.mu, sure.sigma)


def raises(*_: Any) -> Any:
    raise ArithmeticError("it does not\nconverge")


BAD_MODELS = {
    "garbage": "garbage",
    "raises": Odd(raises),
    "nothing": Odd(lambda history, hours: None),
    "not a number": Odd(lambda history, hours: normal(history, hours, float("nan"))),
    "too few hours": Odd(lambda history, hours: normal(history, hours - 1)),
    "other series": Odd(lambda history, hours: normal(history.only([]), hours)),
    "no peaks": Odd(without_peaks),
}


@pytest.mark.parametrize("quota", ["", "weekly-peak", "forecast-no-feedback"])
@pytest.mark.parametrize("what", BAD_MODELS)
def test_a_model_that_cannot_forecast_is_not_taken(what: str, quota: str) -> None:
    desk, watch = Desk(), Stopwatch()
    scheduler = cluster(desk, quota=quota, watch=watch)
    asked = desk.lying[0].asked_at if desk.lying else HOURS * HOUR
    scheduler.handle(HOURS * HOUR + 1, [Trained("A100", BAD_MODELS[what], asked)])
    assert (watch.failures, watch.fits) == (1, 0)
    assert "a fitted model cannot forecast (" in watch.problem
    scheduler.handle((HOURS + 1) * HOUR, [Tick()])
    assert forecasters(scheduler) <= {"cautious", ""}
    assert watch.failures == 1, "it was not taken, so it does not fail again"


def test_a_bad_model_does_not_replace_a_good_one() -> None:
    desk, watch = Desk(), Stopwatch()
    scheduler = cluster(desk, watch=watch)
    good = desk.lying[0].fit()
    scheduler.handle((HOURS + 1) * HOUR, [Trained("A100", good, desk.lying[0].asked_at)])
    scheduler.handle((HOURS + 2) * HOUR, [Trained("A100", "garbage", desk.lying[-1].asked_at), Tick()])
    assert forecasters(scheduler) == {"orglinear"}
    assert scheduler.pools["A100"].state.memory[ForecastMemory].fitted is good
    assert (watch.fits, watch.failures) == (1, 1)
    # Asked for at hour 24 and fitted since, so due again at hour 48, whatever came of the other one.
    asked = len(desk.lying)
    scheduler.handle(47 * HOUR, [Tick()])
    assert len(desk.lying) == asked
    scheduler.handle(48 * HOUR, [Tick()])
    assert len(desk.lying) == asked + 1


def test_a_driver_whose_training_raises_is_asked_again_after_an_hour() -> None:
    asked: list[float] = []
    watch = Stopwatch()

    def fails(training: FitRequest) -> Any:
        asked.append(training.asked_at / HOUR)
        raise ArithmeticError("it does not\nconverge")

    scheduler = cluster(fails, watch=watch)
    assert asked == [24, 25, 26, 27, 28, 29, 30]
    assert watch.failures == 7
    assert watch.problem == "orglinear of pool A100: a fit failed (ArithmeticError: it does not converge)"
    assert forecasters(scheduler) == {"cautious"}
    assert len(scheduler.pools["A100"].state.runs) == 16


def test_a_model_that_fails_later_gives_way_to_the_cautious_rule_and_to_another_fit() -> None:
    """It forecasts until hour 25; at hour 26 it raises, and at the next tick another fit is asked for."""
    watch, asked = Stopwatch(), []

    def tired(until: int) -> Odd:
        return Odd(lambda history, hours: normal(history, hours) if history.end <= until else raises())

    def train(training: FitRequest) -> Any:
        asked.append(training.asked_at / HOUR)
        return tired(until=25) if len(asked) == 1 else tired(until=99)

    scheduler = cluster(train, hours=25, watch=watch)
    assert asked == [24]
    assert forecasters(scheduler) == {"orglinear"}
    seen = []
    for tick in range(12 * 26, 12 * 27, 6):
        scheduler.handle(tick * 300.0, [Tick()])
        seen.append(forecasters(scheduler))
    assert asked == [24, 26.5]
    assert seen == [{"cautious"}, {"orglinear"}]
    assert (watch.fits, watch.failures) == (2, 1)


def test_a_total_that_fails_later_is_replaced_by_the_sum_of_the_bounds() -> None:
    watch = Stopwatch()

    class Turns(NormalForecast):
        def peak_quantile(self, p: float, hours: int) -> Any:
            return super().peak_quantile(p, hours) if p == 0.9 else raises()

    def train(training: FitRequest) -> Any:
        def says(history: DemandHistory, hours: int) -> Forecast:
            sure = normal(history, hours)
            return Turns(sure.keys, sure.mu, sure.sigma)

        return Odd(says)

    online = cluster(train, quota="forecast-no-feedback", watch=watch).pools["A100"].policy.quota._forecaster  # type: ignore[attr-defined]
    forecast = online.forecast((HOURS + 1) * HOUR)
    bound = 5 + 1.2815515655446004  # mu + z sigma at p = 0.9
    assert forecast.total_peak(2) == pytest.approx(bound)
    assert forecast.total_peak(2, 0.95) == pytest.approx(bound), "one organization: the sum of the bounds at p"
    assert watch.failures == 0
    assert online.forecast((HOURS + 1) * HOUR + 300).forecaster in ("cautious", "orglinear")
    assert watch.failures == 1
    assert "it does not converge" in watch.problem


class Breaking:
    """An estimator whose fit always fails."""

    name = "mine"

    def fit(self, history: DemandHistory) -> Any:
        raise ArithmeticError("singular matrix")


BREAKING = Breaking()


def test_a_simulation_goes_on_and_says_in_one_line_that_the_forecaster_failed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "mine", Model("mine", "fails", f"{__name__}:BREAKING"))
    tasks = [hp(f"h{hour}", at=hour * HOUR, lasting=HOUR) for hour in range(48)]
    with caplog.at_level(logging.WARNING, logger="gfs"):
        story = play(nodes(8), *tasks, scheduler="gfs", quota="forecast", forecaster="mine")
    (record,) = caplog.records
    assert story.result.forecasting is not None
    failures = story.result.forecasting.failures
    assert failures >= 20
    assert record.getMessage().startswith(f"the forecaster failed {failures} times")
    assert record.getMessage().endswith("mine of pool A100: a fit failed (ArithmeticError: singular matrix)")
    assert story.result.forecasting.fits == 0
