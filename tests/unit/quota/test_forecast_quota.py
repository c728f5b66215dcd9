"""The spot quota allocator: inventory, both aggregation rules, the quota, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Stage, hp, nodes, play, spot
from gfs import InputError
from gfs.assembly.codec import pack, unpack
from gfs.core.pool import Pool
from gfs.forecasting.history import SeriesKey
from gfs.forecasting.online import PoolForecast
from gfs.quota.feedback import Signal
from gfs.quota.forecast import ForecastQuota
from gfs.quota.inventory import AGGREGATES, calibrated_total, independent, sum_of_peaks
from gfs.quota.table import QuotaMemory

STEADY = Signal(1.0, 0.0, 0.0)


class SevenAnHour:
    """A forecast that knows the total by itself: 7 GPUs more with every hour."""

    keys = (SeriesKey("org 0", "A100"),)

    def total_peak_quantile(self, p: float, hours: int, rows: Sequence[int]) -> float:
        """At any level."""
        return 7.0 * hours


def pool_forecast(
    upper: Sequence[Sequence[float]],
    mean: Sequence[Sequence[float]] | None = None,
    forecast: SevenAnHour | None = None,
) -> PoolForecast:
    above = np.array(upper, dtype=float).reshape(len(upper), -1)
    below = np.array(upper if mean is None else mean, dtype=float).reshape(above.shape)
    organizations = tuple(f"org {i}" for i in range(len(upper)))
    return PoolForecast(organizations, "synthetic", below, above, p=0.9, forecast=forecast)


class Told:
    """A demand that is given, and a feedback that is given."""

    def __init__(self, ahead: PoolForecast, signal: Signal = STEADY) -> None:
        self.ahead, self.signal = ahead, signal
        self.made = 0

    def prepare(self, now: float) -> Callable[[], PoolForecast]:
        """The same at any time, and how often it was made."""

        def make() -> PoolForecast:
            self.made += 1
            return self.ahead

        return make

    def update(self, guarantee_hours: float, now: float) -> Signal:
        """The same for any guarantee at any time."""
        return self.signal


def quota(pool: Pool, told: Told, aggregate: str = "sum-of-peaks", guarantees: Sequence[float] = (1, 2, 4)):
    spot_quota = ForecastQuota(pool, told, told, aggregate=AGGREGATES[aggregate], guarantees=guarantees)
    spot_quota.tick(14 * 3600.0)
    return spot_quota


def test_demand_is_forecast_only_when_a_quota_is_asked_for_by_what_the_tick_knew() -> None:
    # 32 cards idle at the tick, 10 GPUs of demand: a quota of 22. Cards that are taken after the tick change nothing.
    stage = Stage(8, 8, 8, 8)
    told = Told(pool_forecast([[10.0] * 4]))
    spot_quota = quota(stage.pool, told)
    assert told.made == 0
    stage.holds("n0", hp("h", gpus=8))
    stage.holds("n1", hp("g", gpus=8))
    assert spot_quota.limit(1.0) == 22.0
    assert spot_quota.limit(2.0) == 22.0
    assert told.made == 1
    spot_quota.tick(14 * 3600.0 + 300)
    assert told.made == 1
    assert [row.quota for row in spot_quota.rows()] == [16.0, 16.0, 16.0]  # 16 are idle by now
    assert told.made == 2


def test_what_is_saved_is_worked_out_by_the_tick_before() -> None:
    told, memory = Told(pool_forecast([[10.0] * 4])), QuotaMemory()
    pool = Stage(8, 8, 8, 8).pool
    spot_quota = ForecastQuota(pool, told, told, aggregate=AGGREGATES["sum-of-peaks"], guarantees=(1,), memory=memory)
    spot_quota.tick(300.0)
    saved = unpack(pack(memory)[0])
    assert saved.rows[1].quota == 22.0
    assert saved.now == 300.0
    assert told.made == 1


# -- bounds for the pool -------------------------------------------------------------------------------


def test_the_papers_rule_adds_up_each_organizations_peak() -> None:
    # 1 h: 10 + 5. 2 h: max(10, 8) + max(5, 9). 4 h: max(10, 8, 12, 1) + max(5, 9, 2, 4).
    assert sum_of_peaks(pool_forecast([[10, 8, 12, 1], [5, 9, 2, 4]])) == [15, 19, 21, 21]


def test_independent_organizations_add_means_and_variances() -> None:
    # Hour 1: means 10 + 20, distances 3 and 4: 30 + 5. Hour 2: 12 + 10, distances 0 and 2: 24, but the peak is 35.
    ahead = pool_forecast([[13, 12], [24, 12]], [[10, 12], [20, 10]])
    assert independent(ahead) == pytest.approx([35, 35])
    # Less than the sum of peaks, which is 13 + 24.
    assert sum_of_peaks(ahead) == [37, 37]


def test_a_forecaster_may_know_the_total_better() -> None:
    ahead = [[10, 8, 12, 1], [5, 9, 2, 4]]
    assert calibrated_total(pool_forecast(ahead, forecast=SevenAnHour())) == [7, 14, 21, 28]
    assert calibrated_total(pool_forecast(ahead)) == sum_of_peaks(pool_forecast(ahead)), "one that knows only bounds"


def test_a_pool_nobody_wants_needs_nothing() -> None:
    nobody = PoolForecast((), "synthetic", np.zeros((0, 4)), np.zeros((0, 4)), p=0.9)
    assert sum_of_peaks(nobody) == independent(nobody) == [0, 0, 0, 0]


# -- inventory and quota -------------------------------------------------------------------------------


def test_what_demand_leaves_of_the_pool_is_the_quota_of_each_guarantee() -> None:
    # Two nodes of 8: C = 16, all idle. Peaks over 1, 2, 4 h: 6, 8, 11.
    spot_quota = quota(Stage(8, 8).pool, Told(pool_forecast([[6, 8, 7, 11]])))
    assert [spot_quota.limit(hours) for hours in (1, 2, 4)] == [10, 8, 5]


def test_demand_above_capacity_leaves_nothing() -> None:
    spot_quota = quota(Stage(8).pool, Told(pool_forecast([[6, 9, 9, 9]])))
    assert [spot_quota.limit(hours) for hours in (1, 2)] == [2, 0]
    assert spot_quota.rows()[1].inventory == 0  # not below
    assert spot_quota.rows()[1].demand == 9


def test_eta_scales_the_inventory() -> None:
    spot_quota = quota(Stage(8, 8).pool, Told(pool_forecast([[6, 6, 6, 6]]), Signal(0.5, 0.2, 0.0)))
    assert spot_quota.limit(1) == 5
    assert (spot_quota.rows()[0].inventory, spot_quota.rows()[0].eta, spot_quota.rows()[0].quota) == (10, 0.5, 5)


def test_never_more_than_what_is_idle_or_spot_already() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", hp("h", gpus=8))
    stage.holds("n1", spot("a", gpus=2, hours=1))
    stage.holds("n1", spot("b", gpus=3, hours=4))
    # S0 = 3. Sa = 5 for 1 h, 3 for 2 h and 4 h. f = 16 - 8 = 8, doubled.
    spot_quota = quota(stage.pool, Told(pool_forecast([[8, 8, 8, 8]]), Signal(2.0, 0.0, 0.0)))
    assert [spot_quota.limit(hours) for hours in (1, 2, 4)] == [8, 6, 6]


@pytest.mark.parametrize(
    ("gpus", "hours", "expected"),
    [
        (4, 1, "expects room at 15:00"),  # 16 - 11 from 15:00 on is 5
        (6, 1, "expects room at 16:00"),
        (15, 1, "expects no room before 17:00"),  # from then on nothing is known
        (6, 2, "expects room at 16:00"),  # both hours from then on must have room
        (8, 2, "expects no room before 16:00"),
        (6, 4, ""),  # the forecast is no longer than the guarantee
    ],
)
def test_it_says_when_the_forecast_expects_room(gpus: float, hours: float, expected: str) -> None:
    """At 14:00 and C = 16: demand of 14, 11, 9 and 8 leaves 2, 5, 7 and 8, and nobody holds anything."""
    spot_quota = quota(Stage(8, 8).pool, Told(pool_forecast([[14, 11, 9, 8]])))
    room = spot_quota.expected_room(spot("s", gpus=gpus, hours=hours).task(0))
    assert (f"the forecast {expected}" if expected else None) == (room.text() if room else None)


def test_what_others_hold_and_feedback_count_for_expected_room() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", spot("a", gpus=2, hours=1))
    spot_quota = quota(stage.pool, Told(pool_forecast([[14, 11, 9, 8]]), Signal(0.5, 0.2, 0.0)))
    # eta halves what is left: 2.5, 3.5 and 4, of which 2 are held
    assert spot_quota.expected_room(spot("s", gpus=1, hours=1).task(0)).time == 16 * 3600.0
    assert not spot_quota.expected_room(spot("s", gpus=3, hours=1).task(0)).known


def test_of_a_guarantee_that_has_no_quota_yet_it_does_not_say_when_there_is_room() -> None:
    # A controller comes back and offers 2 h besides: until its first tick there is a quota for 1 h only.
    pool, told, memory = Stage(8, 8).pool, Told(pool_forecast([[14, 11, 9, 8]])), QuotaMemory()
    before, after = (
        ForecastQuota(pool, told, told, aggregate=sum_of_peaks, guarantees=guarantees, memory=memory)
        for guarantees in ((1,), (1, 2))
    )
    one, two = (spot("s", gpus=6, hours=hours).task(0) for hours in (1, 2))
    assert after.expected_room(one) is None, "nothing is known at all"
    before.tick(14 * 3600.0)
    assert after.expected_room(one).time == 16 * 3600.0
    assert after.expected_room(two) is None
    after.tick(14 * 3600.0)
    assert after.expected_room(two).time == 16 * 3600.0


def test_a_shorter_guarantee_without_a_quota_leaves_it_open_when_there_is_room() -> None:
    # It comes back and offers 1 h besides 2 h: the quota of 1 h counts for a task of 2 h, too.
    pool, told, memory = Stage(8, 8).pool, Told(pool_forecast([[14, 11, 9, 8]])), QuotaMemory()
    before, after = (
        ForecastQuota(pool, told, told, aggregate=sum_of_peaks, guarantees=guarantees, memory=memory)
        for guarantees in ((2,), (1, 2))
    )
    before.tick(14 * 3600.0)
    two = spot("s", gpus=6, hours=2).task(0)
    assert after.expected_room(two) is None
    after.tick(14 * 3600.0)
    assert after.expected_room(two).time == 16 * 3600.0


def test_a_pool_with_one_node() -> None:
    assert quota(Stage(1).pool, Told(pool_forecast([[0, 0, 0, 1]]))).limit(1) == 1
    assert quota(Stage(1).pool, Told(pool_forecast([[0, 0, 0, 1]]))).limit(4) == 0


def test_there_is_no_quota_before_the_first_tick() -> None:
    told = Told(pool_forecast([[0, 0, 0, 0]]))
    spot_quota = ForecastQuota(Stage(8).pool, told, told, aggregate=sum_of_peaks, guarantees=(1,))
    assert spot_quota.limit(1) == 0
    assert not spot_quota.rows()
    assert spot_quota.why(1) == "no forecast yet"


def test_a_guarantee_of_another_length_counts_as_the_next_longer_one() -> None:
    spot_quota = quota(Stage(8, 8).pool, Told(pool_forecast([[6, 8, 7, 11]])))
    assert spot_quota.limit(0.5) == 10
    assert spot_quota.limit(1.5) == 8
    assert spot_quota.limit(3) == spot_quota.limit(24) == 5


def test_a_guarantee_of_part_of_an_hour_covers_the_whole_hour() -> None:
    spot_quota = quota(Stage(8, 8).pool, Told(pool_forecast([[6, 8, 7, 11]])), guarantees=(0.5, 1.5))
    assert (spot_quota.limit(0.5), spot_quota.limit(1.5)) == (10, 8)


def test_every_number_that_led_to_it_can_be_read_back() -> None:
    told = Told(pool_forecast([[600, 794], [1310, 1200]], mean=[[500, 600], [1100, 950]]), Signal(0.82, 0.14, 4000.0))
    (row,) = quota(Stage(*[8] * 300).pool, told, guarantees=(2,)).rows()
    assert row._asdict() == {
        "guarantee_hours": 2,
        "inventory": 2400 - 2104,
        "eta": 0.82,
        "quota": pytest.approx(0.82 * 296),
        "demand": 2104,
        "eviction_rate": 0.14,
        "longest_wait": 4000.0,
        "forecaster": "synthetic",
        "organization": "org 1",
        "organization_demand": 1310,
        "peak_hour": 2,  # 794 + 1200 against 600 + 1310
        "expected_demand": 1600,  # 500 + 1100 against 600 + 950
    }


def test_it_explains_itself() -> None:
    told = Told(pool_forecast([[600, 794], [1310, 1200]]), Signal(0.82, 0.14, 4000.0))
    spot_quota = quota(Stage(*[8] * 300).pool, told, guarantees=(1, 2))
    assert spot_quota.why(2) == "forecast peak 2,104 at 15:00 (org 1: 1,310), eta 0.82 after 14% evictions"
    assert spot_quota.why(1) == "forecast peak 1,910 at 14:00 (org 1: 1,310), eta 0.82 after 14% evictions"
    stage = Stage(8)
    stage.holds("n0", hp("h", gpus=6))
    calm = quota(stage.pool, Told(pool_forecast([[1, 1]])), guarantees=(1,))
    assert calm.why(1) == "forecast peak 1 at 14:00 (org 0: 1), eta 1.00, 2 GPUs not held by HP"


@given(
    st.integers(1, 40),
    st.lists(st.lists(st.floats(0, 1e4), min_size=4, max_size=4), max_size=5),
    st.floats(0.1, 4.0),
    st.integers(0, 40),
)
def test_never_negative_and_never_above_idle_and_spot(
    size: int, upper: list[list[float]], eta: float, held: int
) -> None:
    stage = Stage(size)
    if 0 < held <= size:
        stage.holds("n0", spot("s", gpus=held, hours=2))
    spot_quota = quota(
        stage.pool, Told(pool_forecast(upper) if upper else pool_forecast([[0] * 4]), Signal(eta, 0.0, 0.0))
    )
    for hours in (1, 2, 4):
        idle_and_spot = stage.pool.idle + stage.pool.spot_held(hours) / 1e6
        assert 0 <= spot_quota.limit(hours) <= idle_and_spot


# -- in a run ------------------------------------------------------------------------------------------


def test_spot_waits_for_the_first_look_at_demand_and_is_told_why() -> None:
    # At 0:00 nothing is known. At 0:05 the five minutes show 4 GPUs of HP demand: 4 of 8 cards are left.
    story = play(
        nodes(8),
        hp("h", gpus=4, lasting=4000),
        spot("s", gpus=3, at=10, lasting=100),
        spot("t", gpus=2, at=20, lasting=1000),
        quota="forecast",
    )
    assert story.started("s") == [300.0]
    assert story.started("t") == [400.0]  # 3 + 2 would be more than 4, and s is done at 400
    assert story.why_waited("s") == (
        "pool A100: spot quota 0 for 1 h: forecast peak 8 at 00:00 (all: 8), eta 1.00; 0 in use, task asks 3"
    )


@pytest.mark.parametrize("scheduler", ["lyra", "fgd", "yarn-cs", "static", "chronus"])
def test_any_scheduler_can_be_given_the_forecast_quota(scheduler: str) -> None:
    story = play(
        nodes(8, 8),
        hp("h", gpus=8, lasting=4000),
        spot("s", gpus=5, at=10, lasting=100),
        spot("t", gpus=4, at=20, lasting=1000),
        scheduler=scheduler,
        quota="forecast",
    )
    assert story.started("s") == [300.0]
    assert story.started("t")[0] == (600.0 if scheduler == "chronus" else 400.0)  # leases: in rounds


def test_a_guarantee_beyond_what_can_be_forecast_is_refused() -> None:
    with pytest.raises(InputError, match="a guarantee of 169 hours: demand is forecast for 168 hours at most"):
        play(nodes(8), spot("s", hours=169), scheduler="gfs", quota="forecast")
    assert play(nodes(8), spot("s", hours=169), scheduler="gfs", quota="adaptive").started("s") == [0.0]
