"""Intervals from blocks with worked numbers, and what is called a difference."""

from __future__ import annotations

from math import sqrt

import pytest

from gfs.plans.certainty import Interval, difference, finding, interval, student
from gfs.plans.evidence import DAY, WEEK, Sums, block_edges, block_name, total


def block(evictions: int, runs: int = 100, wait: float = 0.0) -> Sums:
    """One task waited."""
    return Sums(runs=runs, evictions=evictions, spot_waits={f"{wait:g}": 1}, spot_wait_sum=wait)


def evicted(sums: Sums) -> float:
    return sums.evicted


def wait(sums: Sums) -> float:
    return sums.spot_wait


class TestInterval:
    def test_of_four_blocks_by_hand(self) -> None:
        """2, 4, 6 and 8 of 100 runs: 20 of 400 are 5%.

        Without one block in turn: 18, 16, 14 and 12 of 300, that is 6, 5.33, 4.67 and 4%, around 5%. Their squared
        distances are 1, 1/9, 1/9 and 1 (in points), together 20/9; times 3/4 the variance is 5/3. For a mean of equal
        blocks that is what everybody knows: the deviation of 2, 4, 6, 8 (2.58) over the root of 4.
        Student's t with 3 degrees of freedom: 2.353.
        """
        found = interval([block(2), block(4), block(6), block(8)], evicted)
        assert found is not None
        reach = 2.353 * sqrt(5 / 3) / 100
        assert found.value == pytest.approx(0.05)
        assert (found.low, found.high) == pytest.approx((0.05 - reach, 0.05 + reach))
        assert found.low == pytest.approx(0.0196, abs=1e-4)

    def test_blocks_count_by_what_is_in_them(self) -> None:
        """A block of 10 runs moves the rate less than one of 1,000: 1 + 0 + 0 + 50 of 1,210 runs."""
        found = interval([block(1, 10), block(0), block(0), block(50, 1000)], evicted)
        assert found is not None
        assert found.value == pytest.approx(51 / 1210)

    def test_fewer_than_four_say_nothing(self) -> None:
        assert interval([block(1), block(2), block(3)], evicted) is None

    def test_no_share_is_below_nothing(self) -> None:
        found = interval([block(0), block(0), block(0), block(4)], evicted)
        assert found is not None
        assert found.low == 0

    def test_percentiles_have_one_too(self) -> None:
        """Three tasks waited 10 s and one 100 s: the 75th percentile is 10 s, and 100 s without one of the three."""
        blocks = [block(0, wait=seconds) for seconds in (10, 10, 10, 100)]
        found = interval(blocks, lambda sums: sums.wait("spot", "p75"))
        assert found is not None
        assert found.value == 10
        assert found.high > 100

    def test_many_blocks_go_by_the_normal_distribution(self) -> None:
        assert student(3) == 2.353
        assert student(30) == 1.697
        assert student(52) == 1.645


class TestDifference:
    def test_the_same_blocks_are_compared(self) -> None:
        """Weeks differ by hours, but the other waits ten minutes longer in each of them: that is no chance."""
        one = [block(0, wait=seconds) for seconds in (1000, 5000, 9000, 20000)]
        other = [block(0, wait=seconds) for seconds in (1600, 5600, 9600, 20600)]
        gap = difference(other, one, wait)
        assert gap is not None
        assert gap.value == pytest.approx(600)
        assert finding(gap) == "worse"
        back = difference(one, other, wait)
        assert back is not None
        assert finding(back) == "better"
        alone = interval(one, wait)
        assert alone is not None
        assert alone.high - alone.low > 10_000

    def test_what_may_as_well_be_nothing_is_no_difference(self) -> None:
        one = [block(0, wait=seconds) for seconds in (100, 200, 300, 400)]
        other = [block(0, wait=seconds) for seconds in (400, 100, 300, 300)]
        gap = difference(other, one, wait)
        assert gap is not None
        assert finding(gap) == "no difference"
        assert finding(Interval(0.0, 0.0, 0.0)) == "no difference"


class TestBlocks:
    @pytest.mark.parametrize(
        ("days", "count", "name"),
        [(91, 13, "week"), (28, 4, "week"), (27.99, 4, "week"), (27, 27, "day"), (14.5, 14, "day"), (4, 4, "day")],
    )
    def test_weeks_where_there_are_four_else_days(self, days: float, count: int, name: str) -> None:
        edges = block_edges(1000.0, 1000.0 + days * DAY)
        assert (len(edges), block_name(edges)) == (count, name)
        assert edges[0] == 1000.0
        assert edges[1] - edges[0] == (WEEK if name == "week" else DAY)

    def test_a_short_trace_is_one_block(self) -> None:
        assert block_edges(5.0, 3 * DAY) == [5.0]
        assert block_name([5.0]) == ""

    def test_waits_of_blocks_are_put_together(self) -> None:
        """0, 0, 30 and 90 s: the median is 0, three quarters waited at most 30 s, the mean is 30 s."""
        first = Sums(spot_waits={"0": 1, "30": 1}, spot_wait_sum=30)
        both = total([first, Sums(spot_waits={"0": 1, "90": 1}, spot_wait_sum=90)])
        assert [both.wait("spot", which) for which in ("p50", "p75", "p76", "mean")] == [0, 30, 90, 30]
        assert (both.spot_tasks, both.wait("hp", "p99")) == (4, 0)
