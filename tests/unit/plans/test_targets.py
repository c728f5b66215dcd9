"""Targets: how they are written, when they are met, which cannot be met together."""

from __future__ import annotations

import pytest

from gfs.domain.errors import InputError
from gfs.plans.evidence import Sums
from gfs.plans.targets import DEFAULT, Conflict, Target, all_met, conflict, parse_target, parse_targets, total_miss


def sums(evicted: float = 0.0, spot: dict[str, int] | None = None, hp: dict[str, int] | None = None) -> Sums:
    """Of 1,000 runs; waits as seconds -> tasks."""
    spot, hp = spot or {}, hp or {}
    waited = [sum(float(wait) * count for wait, count in waits.items()) for waits in (spot, hp)]
    evictions = round(1000 * evicted)
    return Sums(1000, evictions, 1000, evictions // 4, 0.0, spot, waited[0], hp, waited[1])


class TestParse:
    @pytest.mark.parametrize(
        ("text", "target"),
        [
            ("evictions=0.05", Target("evictions", 0.05)),
            ("evictions = 5%", Target("evictions", 0.05)),
            ("broken=0.1", Target("broken", 0.1)),
            ("evictions=0", Target("evictions", 0.0)),
            ("hp-wait-p99=30s", Target("hp-wait-p99", 30)),
            ("hp-wait-p99=30", Target("hp-wait-p99", 30)),
            ("spot-wait-p95=2h", Target("spot-wait-p95", 7200)),
            ("spot-wait-mean=1.5 min", Target("spot-wait-mean", 90)),
            ("spot-wait-p99.9=1d", Target("spot-wait-p99.9", 86400)),
        ],
    )
    def test_what_can_be_asked_for(self, text: str, target: Target) -> None:
        assert parse_target(text) == target

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("evictions", "must be a figure and its bound, such as evictions=0.05"),
            ("waste=3", "must be a figure and its bound"),
            ("spot-wait=3h", "must be a figure and its bound"),
            ("evictions=5", "must be a share, 0 or more and below 1"),
            ("evictions=nan", "must be a share"),
            ("evictions=-1%", "must be a share"),
            ("spot-wait-p95=soon", "must be a length of time, such as 30s"),
            ("spot-wait-p95=-3s", "must be a length of time"),
        ],
    )
    def test_what_cannot(self, text: str, said: str) -> None:
        with pytest.raises(InputError, match=said):
            parse_target(text)

    def test_each_figure_once_and_the_usual_one_where_there_is_none(self) -> None:
        assert parse_targets([]) == DEFAULT == (Target("evictions", 0.05),)
        with pytest.raises(InputError, match="evictions is given twice"):
            parse_targets(["evictions=0.1", "broken=0.1", "evictions=0.2"])

    def test_how_they_read(self) -> None:
        assert Target("evictions", 0.05).label == "evictions ≤ 5.00%"
        assert Target("spot-wait-p95", 7200).label == "spot-wait-p95 ≤ 2 h"


class TestMet:
    def test_a_bound_itself_is_kept(self) -> None:
        assert Target("evictions", 0.05).met(sums(0.05))
        assert not Target("evictions", 0.05).met(sums(0.051))

    def test_the_grace_period_is_no_miss(self) -> None:
        """Of 100 HP tasks 99 start at once or after 30 s: p99 is 30 s, p100 would be 900."""
        waited = sums(hp={"0": 90, "30": 9, "900": 1})
        assert Target("hp-wait-p99", 30).met(waited)
        assert not Target("hp-wait-p99", 29).met(waited)

    def test_broken_is_about_runs_evicted_in_their_guaranteed_hours(self) -> None:
        """250 of 1,000 runs: a quarter."""
        assert Target("broken", 0.25).met(sums(1.0))
        assert Target("broken", 0.2).miss(sums(1.0)) == pytest.approx(0.25)

    def test_misses_are_shares_of_the_bound_and_add_up(self) -> None:
        """6% of 5% is a fifth too much; 3 h instead of 2 h a half."""
        targets = (Target("evictions", 0.05), Target("spot-wait-mean", 7200))
        assert total_miss(targets, sums(0.06, {"10800": 4})) == pytest.approx(0.2 + 0.5)
        assert total_miss(targets, sums(0.05, {"7200": 4})) == 0

    def test_a_bound_of_nothing_can_be_missed_by_more_or_less(self) -> None:
        none = Target("evictions", 0.0)
        assert none.miss(sums(0.02)) == pytest.approx(2)  # in hundredths
        assert none.miss(sums(0.01)) == pytest.approx(1)


class TestConflict:
    evictions, wait, hp = Target("evictions", 0.05), Target("spot-wait-mean", 600), Target("hp-wait-p99", 30)
    calm, fast = sums(0.01, {"3600": 1}), sums(0.2, {"60": 1})

    def test_two_that_exclude_each_other(self) -> None:
        """One setting is calm and slow, the other fast and rough: either target can be met, not both."""
        targets = (self.hp, self.evictions, self.wait)
        assert not any(all_met(targets, one) for one in (self.calm, self.fast))
        assert conflict(targets, [self.calm, self.fast]) == Conflict((), (self.evictions, self.wait))

    def test_one_that_nothing_meets(self) -> None:
        never = Target("evictions", 0.001)
        assert conflict((never, self.wait), [self.calm, self.fast]) == Conflict((never,), ())

    def test_none_where_something_meets_all(self) -> None:
        assert conflict((self.evictions, self.wait), [self.calm, sums(0.05, {"600": 1})]) is None

    def test_three_of_which_any_two_can_be_met(self) -> None:
        third = Target("hp-wait-mean", 10)
        tried = [
            sums(0.01, {"60": 1}, {"99": 1}),
            sums(0.01, {"3600": 1}, {"1": 1}),
            sums(0.2, {"60": 1}, {"1": 1}),
        ]
        targets = (self.evictions, self.wait, third)
        assert conflict(targets, tried) == Conflict((), targets)
