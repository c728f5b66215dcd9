"""Demand as a deployment sees it: running or queued, hours that end now, nothing from the future."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import hp, spot
from gfs.core.run import End, Run
from gfs.domain.task import Task
from gfs.forecasting.forecast import Forecast
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.forecasting.meter import DemandMeter, DemandRecord
from gfs.forecasting.naive import WEEKLY_PEAK
from gfs.forecasting.online import OnlineForecaster, cautious_bounds

MINUTE, HOUR = 60.0, 3600.0


def task(name: str, gpus: float = 1, org: str = "lab", index: int = 0) -> Task:
    return hp(name, gpus=gpus, org=org).task(index)


def done(of: Task) -> Run:
    return Run(of, 1, [], 0.0, 0.0)


def test_a_task_wants_its_gpus_from_submission_to_finish() -> None:
    meter = DemandMeter("A100")
    a, b = task("a", 4), task("b", 2)
    meter.submitted(a, 0.0)
    meter.submitted(b, 10 * MINUTE)
    meter.finished(done(a), 70 * MINUTE)
    known = meter.history(3 * HOUR)
    assert known.keys == (SeriesKey("lab", "A100"),)
    assert known.gpus.tolist() == [[6, 6, 2]]  # b alone is left from 1:10 on
    assert (known.start, known.end) == (0, 3)


def test_what_ends_when_another_begins_does_not_add_up() -> None:
    meter = DemandMeter("A100")
    a, b = task("a", 4), task("b", 4)
    meter.submitted(a, 0.0)
    meter.finished(done(a), 30 * MINUTE)
    meter.submitted(b, 30 * MINUTE)
    assert meter.history(HOUR).gpus.tolist() == [[4]]


def test_the_hours_end_now_whatever_the_minute() -> None:
    meter = DemandMeter("A100")
    a = task("a", 8)
    meter.submitted(a, 20 * MINUTE)
    meter.finished(done(a), 40 * MINUTE)  # wanted from 0:20 to 0:40
    assert meter.history(60 * MINUTE).gpus.tolist() == [[8]]
    later = meter.history(95 * MINUTE)  # the hour from 0:35 to 1:35 saw it
    assert later.gpus[0, -1] == 8
    assert meter.history(105 * MINUTE).gpus[0, -1] == 0  # 0:45 to 1:45 did not
    assert meter.history(165 * MINUTE).gpus.tolist() == [[0, 0]]  # of 23:45 to 0:45 not all was seen


def test_only_full_steps_of_five_minutes_count() -> None:
    meter = DemandMeter("A100")
    meter.submitted(task("a", 8), 0.0)
    meter.submitted(task("b", 8), 301.0)
    assert meter.history(300.0).gpus.tolist() == [[8]]
    assert meter.history(599.0).gpus.tolist() == [[8]]
    assert meter.history(600.0).gpus.tolist() == [[16]]


def test_before_five_minutes_nothing_is_known() -> None:
    meter = DemandMeter("A100")
    meter.submitted(task("a", 8), 0.0)
    assert meter.history(0.0).hours == 0
    assert meter.level().tolist() == [8]


def test_spot_tasks_are_no_demand() -> None:
    meter = DemandMeter("A100")
    s = spot("s", gpus=8).task(0)
    meter.submitted(s, 0.0)
    meter.finished(done(s), 10.0)
    assert meter.history(HOUR).keys == ()


def test_a_task_that_is_withdrawn_or_cancelled_wants_nothing_any_more() -> None:
    meter = DemandMeter("A100")
    waits, runs = task("a", 4), task("b", 2)
    meter.submitted(waits, 0.0)
    meter.submitted(runs, 0.0)
    meter.withdrawn(waits, 30 * MINUTE)
    assert meter.level().tolist() == [2]
    meter.ended(done(runs), End.CANCELLED, 40 * MINUTE)
    assert meter.level().tolist() == [0]


@pytest.mark.parametrize("end", [End.LOST, End.START_FAILED, End.EVICTED])
def test_a_task_that_waits_again_wants_as_much_as_before(end: End) -> None:
    meter = DemandMeter("A100")
    stopped = task("a", 4)
    meter.submitted(stopped, 0.0)
    meter.ended(done(stopped), end, 30 * MINUTE)
    assert meter.level().tolist() == [4]


def test_what_is_older_than_it_remembers_is_dropped_by_whole_hours() -> None:
    meter, whole = DemandMeter("A100", days=28), DemandMeter("A100")
    for each in (meter, whole):
        each.submitted(task("a", 3), 0.0)
    for hour in range(24 * 60):
        last, known = meter.history(hour * HOUR), whole.history(hour * HOUR)
        assert last.end == known.end
        assert (last.gpus == known.gpus[:, -last.hours :]).all() or not last.hours
    assert 28 * 24 <= last.hours <= 35 * 24 + 1
    assert known.hours == 24 * 60 - 1


def test_an_organization_that_comes_later_begins_there() -> None:
    meter = DemandMeter("A100")
    meter.submitted(task("a", org="old"), 0.0)
    meter.submitted(task("b", 5, org="new"), 150 * MINUTE)
    known = meter.history(4 * HOUR)
    assert [key.organization for key in known.keys] == ["old", "new"]
    assert known.first.tolist() == [0, 2]
    assert known.gpus[1].tolist() == [0, 0, 5, 5]


def test_where_organizations_begin_is_the_same_whenever_it_was_asked() -> None:
    # Organizations come after 0, 50 and 100 minutes. One meter is asked every five minutes, the others once.
    names = ("first", "second", "third")
    coming = [(3000.0 * i, task(name, org=name, index=i)) for i, name in enumerate(names)]

    def asked_at(*times: float) -> DemandHistory:
        meter, due = DemandMeter("A100"), list(coming)
        for now in times:
            while due and due[0][0] <= now:
                meter.submitted(due[0][1], due.pop(0)[0])
            known = meter.history(now)
        return known

    for last in range(2, 40):
        often, once = asked_at(*(300.0 * i for i in range(last + 1))), asked_at(300.0 * last)
        assert often.first.tolist() == once.first.tolist()
        assert often.gpus.tolist() == once.gpus.tolist()


def test_a_silent_night_keeps_what_is_wanted() -> None:
    meter = DemandMeter("A100")
    meter.submitted(task("a", 3), 0.0)
    assert meter.history(500 * HOUR).gpus.tolist() == [[3.0] * 500]


def test_many_organizations_and_a_long_time_fit() -> None:
    meter = DemandMeter("A100")
    for i in range(40):
        meter.submitted(task("a", i + 1, org=f"org {i}"), 0.0)
    known = meter.history(400 * HOUR)
    assert known.gpus.shape == (40, 400)
    assert known.gpus[:, -1].tolist() == list(range(1, 41))


def test_what_is_wanted_now_is_counted_from_who_runs_or_waits() -> None:
    """Built in the midst of things: nothing was watched, and nothing is missing."""
    a, b, c = task("a", 4), task("b", 2, index=1), task("c", 1, org="shop", index=2)
    meter = DemandMeter("A100", tasks=[a, c, spot("s", gpus=8).task(3), b])
    assert [key.organization for key in meter.keys] == ["lab", "shop"]
    assert meter.level().tolist() == [6, 1]
    meter.finished(done(a), 10 * MINUTE)
    meter.withdrawn(c, 10 * MINUTE)
    assert meter.level().tolist() == [2, 0]
    # From 0:10, when it first heard of anything: 6 and 1 until a and c went, in the step that began then.
    assert meter.history(70 * MINUTE).gpus.tolist() == [[6], [1]]
    assert meter.history(135 * MINUTE).gpus[:, -1].tolist() == [2, 0]


def test_a_record_goes_on_with_what_is_wanted_now_whatever_was_wanted_then() -> None:
    record = DemandRecord()
    first = DemandMeter("A100", record=record)
    first.submitted(task("a", 4), 0.0)
    first.history(2 * HOUR)
    # Nobody watched for an hour, in which a was done and two others came.
    later = DemandMeter("A100", record=record, tasks=[task("b", 1, index=1), task("c", 3, org="shop", index=2)])
    assert later.level().tolist() == [1, 3]
    known = later.history(5 * HOUR)
    # Of 0:00 to 2:00 it is known that 4 were wanted, and in the hour after the step that went on still was.
    assert known.gpus.tolist() == [[4, 4, 4, 1, 1], [0, 0, 3, 3, 3]]
    assert known.first.tolist() == [0, 2]


@pytest.mark.parametrize("late", [0, 25 * MINUTE, 2 * HOUR], ids=["at once", "after five steps", "after two hours"])
def test_what_was_wanted_before_the_record_began_can_be_learned_later(late: float) -> None:
    """As if it had been watched: 4 until 1:30, then 2, from 3:00 on 5; the shop 3 from 2:00 on."""
    watched, begun = DemandMeter("A100"), DemandMeter("A100", record=(record := DemandRecord()))
    watched.submitted(task("a", 4), 0.0)
    watched.submitted(task("b", 2, index=1), 90 * MINUTE)
    watched.withdrawn(task("a", 4), 90 * MINUTE)
    watched.submitted(task("s", 3, org="shop", index=2), 2 * HOUR)
    begun.submitted(task("b", 2, index=1), 3 * HOUR)
    begun.submitted(task("s", 3, org="shop", index=2), 3 * HOUR)
    for meter in (watched, begun):
        meter.submitted(task("c", 3, index=3), 3 * HOUR)
        meter.history(3 * HOUR + late)
    lab, shop = np.array([4.0] * 18 + [6.0] + [2.0] * 17), np.array([0.0] * 24 + [3.0] * 12)
    record.prepend({"lab": lab, "shop": shop}, end=36)
    tasks = [task("b", 2, index=1), task("s", 3, org="shop", index=2), task("c", 3, index=3)]
    again = DemandMeter("A100", record=record, tasks=tasks)
    for minutes in range(200, 400, 35):
        expected, known = (meter.history(minutes * MINUTE) for meter in (watched, again))
        if minutes * MINUTE >= 3 * HOUR + late:
            assert known.gpus.tolist() == expected.gpus.tolist()
            assert (known.first.tolist(), known.start) == (expected.first.tolist(), expected.start)


def test_a_record_that_knows_more_than_is_told_stays_as_it_is() -> None:
    record = DemandRecord()
    DemandMeter("A100", record=record).submitted(task("a", 4), 3 * HOUR)
    record.prepend({"lab": np.ones(24)}, end=40)
    record.prepend({}, end=20)
    assert (record.origin, record.steps) == (36, 0)


DAY = 24 * HOUR
WINDOW = 28
"""Days of demand that are kept, and up to a week more until what is older is dropped."""


def visits(meter: DemandMeter, days: range) -> None:
    """Every day an organization comes for an hour and never again; the lab wants 3 GPUs all the time."""
    for day in days:
        visitor = task(f"v{day}", 2, org=f"visitor {day}", index=day)
        meter.submitted(visitor, day * DAY + HOUR)
        meter.withdrawn(visitor, day * DAY + 2 * HOUR)


def test_organizations_that_have_vanished_are_forgotten_with_their_demand() -> None:
    record = DemandRecord()
    meter = DemandMeter("A100", days=WINDOW, record=record)
    meter.submitted(task("steady", 3), 0.0)
    sizes = {}
    for day in range(7, 200, 7):
        visits(meter, range(day - 7, day))
        known = meter.history(day * DAY)
        names = [key.organization for key in known.keys]
        visitors = [int(name.removeprefix("visitor ")) for name in names[1:]]
        assert names[0] == "lab"
        assert visitors == list(range(visitors[0], day)), "those of the last weeks, each in a row of its own"
        assert len(visitors) <= WINDOW + 8
        assert (known.gpus[0] == 3).all()
        assert all(known.gpus[1:].max(axis=1) == 2)
        assert meter.level().tolist() == [3] + [0] * len(visitors)
        sizes[day] = len(pickle.dumps(record))
    assert visitors[0] >= 160
    assert max(size for day, size in sizes.items() if day > 100) <= 1.05 * sizes[98], sizes


def test_an_organization_that_comes_back_after_it_was_forgotten_begins_anew() -> None:
    meter = DemandMeter("A100", days=WINDOW)
    meter.submitted(task("steady", 3), 0.0)
    visits(meter, range(1))
    assert meter.history(30 * DAY).first.tolist() == [0, 1]
    assert [key.organization for key in meter.history(40 * DAY).keys] == ["lab"]
    meter.submitted(task("again", 5, org="visitor 0"), 41 * DAY)
    known = meter.history(41 * DAY + 2 * HOUR)
    assert [key.organization for key in known.keys] == ["lab", "visitor 0"]
    assert known.first[1] == known.hours - 2
    assert known.gpus[1, -3:].tolist() == [0, 5, 5]


def test_who_waits_for_longer_than_the_window_is_not_forgotten() -> None:
    meter = DemandMeter("A100", days=WINDOW)
    meter.submitted(task("waits", 4, org="patient"), 0.0)
    visits(meter, range(1, 3))
    assert [key.organization for key in meter.history(100 * DAY).keys] == ["patient"]
    meter.withdrawn(task("waits", 4, org="patient"), 100 * DAY)
    assert len(meter.history(127 * DAY).keys) == 1
    assert meter.history(140 * DAY).keys == ()


@pytest.mark.parametrize("hourly", [False, True])
def test_a_forecast_of_an_hour_is_not_taken_for_that_of_others(hourly: bool) -> None:
    """One organization is forgotten and another comes within the hour: as many rows as before, but other ones."""
    meter = DemandMeter("A100", days=WINDOW)
    meter.submitted(task("steady", 3), 0.0)
    visits(meter, range(1))
    online = OnlineForecaster(meter, WEEKLY_PEAK, capacity=16, p=0.9, hours=2, hourly=hourly)
    before = online.forecast(35 * DAY)
    assert before.organizations == ("lab", "visitor 0")
    assert before.upper.tolist() == [[3, 3], [0, 0]], "nothing in the last week"
    meter.submitted(task("new", 7, org="newcomer"), 35 * DAY + 300)  # the 28 days and a week are full
    after = online.forecast(35 * DAY + 600)
    assert after.organizations == ("lab", "newcomer")
    assert after.upper.tolist() == [[3, 3], [7, 7]]


class Counting:
    """Notes when it was fitted and asked; forecasts the last value."""

    name = "counting"

    def __init__(self) -> None:
        self.fitted: list[int] = []
        self.asked: list[int] = []

    def fit(self, history: DemandHistory) -> Counting:
        self.fitted.append(history.end)
        return self

    def predict(self, history: DemandHistory, hours: int) -> Forecast:
        self.asked.append(history.end)
        return WEEKLY_PEAK.fit(history).predict(history, hours)


def test_a_fit_is_asked_for_when_it_pays() -> None:
    """Every day for five days; then when a fifth of the history is new, to the hour: h with h - f >= h / 5."""
    meter, model = DemandMeter("A100"), Counting()
    meter.submitted(task("steady", 3), 0.0)
    online = OnlineForecaster(meter, model, capacity=16, p=0.9, hours=2)
    for hour in range(24 * 14):
        online.forecast(hour * 3600.0)
    # 150 - 120 >= 30, 188 - 150 >= 37.6, 235 - 188 >= 47, 294 - 235 >= 58.8.
    assert model.fitted == [24, 48, 72, 96, 120, 150, 188, 235, 294]


def test_an_hourly_model_is_asked_when_an_hour_begins_and_who_comes_within_it_is_cautious() -> None:
    meter, model = DemandMeter("A100"), Counting()
    meter.submitted(task("steady", 3), 0.0)
    online = OnlineForecaster(meter, model, capacity=16, p=0.9, hours=2, hourly=True)
    for tick in range(12 * 24, 12 * 26):
        online.forecast(tick * 300.0)
    assert model.asked == [24, 24, 25], "tried out, and once an hour"
    meter.submitted(task("new", 7, org="newcomer"), 26 * 3600.0 - 700)
    within = online.forecast(26 * 3600.0 - 300)
    assert within.organizations == ("lab", "newcomer")
    assert within.upper.tolist() == [[3, 3], [7, 7]]
    assert within.total_peak(2) == 10
    assert model.asked == [24, 24, 25]
    assert online.forecast(26 * 3600.0).upper.tolist() == [[3, 3], [7, 7]]
    assert model.asked == [24, 24, 25, 26]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 14400), st.integers(1, 9000), st.integers(1, 9)), min_size=1, max_size=20),
    st.integers(3, 60),
)
def test_it_is_the_maximum_of_the_hour_that_ends_now(spans: list[tuple[int, int, int]], steps: int) -> None:
    """Against a second-by-second count."""
    now = 300 * steps
    seconds = np.zeros(now)
    events = []
    for index, (begin, lasting, gpus) in enumerate(spans):
        seconds[begin : begin + lasting] += gpus
        wanted = task("t", gpus, index=index)
        events += [(begin, 1, wanted), (begin + lasting, 0, wanted)]
    meter = DemandMeter("A100")
    meter.history(0.0)
    for when, begins, wanted in sorted(events, key=lambda event: event[:2]):
        if when < now:
            if begins:
                meter.submitted(wanted, float(when))
            else:
                meter.finished(done(wanted), float(when))
    known = meter.history(float(now))
    if known.keys:
        expected = seconds[max(now - 3600, 0) :].max()
        assert known.gpus[0, -1] == expected


def test_the_cautious_rule_takes_a_high_value_of_the_last_day() -> None:
    # Of 24 hours at most two may lie above the 0.9 bound: the third highest counts, or the last if that is more.
    falling = np.arange(30.0, 6.0, -1.0)
    gpus = np.array([[99.0, *falling], [99.0, *falling[::-1]]])  # the 99 was 25 hours ago
    known = DemandHistory((SeriesKey("a", "A100"), SeriesKey("b", "A100")), gpus, np.zeros(2, np.int64))
    assert cautious_bounds(known, 2, 0.9).tolist() == [[28, 28], [30, 30]]
    assert cautious_bounds(known.until(3), 1, 0.9).tolist() == [[99], [99]]
    assert cautious_bounds(known, 1, 0.5) == pytest.approx(np.array([[19], [30]]))
