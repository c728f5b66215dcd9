"""The common front of schedulers with many quotas, by numbers that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gfs
from builders import hp, nodes, spot, workload
from gfs.assembly.parameters import Parameters
from gfs.batch import front as fronts
from gfs.batch.cache import ResultCache
from gfs.batch.front import FRONTS, FrontComparison, FrontPoint, LeftOut, Standing, quotas_of, run_fronts
from gfs.report.front import front_table, front_words, left_out_words
from gfs.report.front_page import front_page, log_axis

WAITS, COMPLETIONS = FRONTS


def point(
    scheduler: str, quota: str, wait: float, evicted: float | None, jct: float = 1, wasted: float = 1
) -> FrontPoint:
    """A run that waits so long and has this share of its runs evicted."""
    figures = {"spot_jqt_mean": wait, "spot_eviction_rate": evicted, "spot_jct_mean": jct, "hp_jqt_mean": 1.0}
    figures |= {"spot_wasted_gpu_hours": wasted, "spot_runs": 9, "spot_tasks": 9, "hp_tasks": 9, "goodput_rate": 0.5}
    return FrontPoint(scheduler, quota, quota == "none", figures)


def compared(*points: FrontPoint, noise: float = 0.05) -> FrontComparison:
    return FrontComparison(points, (), noise, "trace")


def on_front(comparison: FrontComparison) -> list[str]:
    return [f"{one.scheduler} {one.quota}" for one in comparison.front(WAITS)]


class TestFront:
    def test_a_point_that_another_beats_on_both_is_not_on_it(self) -> None:
        found = compared(point("a", "1", 10, 0.3), point("b", "1", 20, 0.1), point("b", "2", 30, 0.2))
        assert on_front(found) == ["a 1", "b 1"]  # 20 s and 10% are better than 30 s and 20%

    def test_equal_on_one_figure_and_worse_on_the_other(self) -> None:
        found = compared(point("a", "1", 10, 0.3), point("b", "1", 10, 0.2), point("b", "2", 9, 0.3))
        assert on_front(found) == ["b 2", "b 1"]  # the first is as good as each on one figure, and worse on the other

    def test_equal_points_are_all_on_it(self) -> None:
        found = compared(point("a", "1", 10, 0.2), point("b", "1", 10, 0.2), point("b", "2", 11, 0.2))
        assert on_front(found) == ["a 1", "b 1"]

    def test_without_an_eviction_rate_it_takes_part_in_the_second_front_alone(self) -> None:
        leases = point("chronus", "none", 1, None, jct=5, wasted=5)
        found = compared(leases, point("a", "1", 10, 0.2, jct=6, wasted=6))
        assert on_front(found) == ["a 1"]
        assert [one.scheduler for one in found.front(COMPLETIONS)] == ["chronus"]
        assert "chronus: no part in this front, because it gives out leases and evicts nobody." in front_words(
            found, WAITS
        )
        assert "chronus" not in [standing.scheduler for standing in found.standings(WAITS)]

    def test_nobody_evicts(self, tmp_path: Path) -> None:
        found = compared(point("chronus", "none", 1, None))
        assert front_words(found, WAITS) == ["No scheduler has points of spot wait and evictions."]
        assert front_table(found, WAITS).rows == []
        front_page(found, tmp_path / "f.html")


class TestNoise:
    """b's 96 s and 19.2% are 4% below a's 100 s and 20%."""

    def standings(self, noise: float) -> dict[str, Standing]:
        found = compared(
            point("a", "1", 100, 0.20), point("a", "2", 200, 0.30), point("b", "1", 96, 0.192), noise=noise
        )
        return {standing.scheduler: standing for standing in found.standings(WAITS)}

    def test_better_by_less_is_on_the_front_but_beats_nobody(self) -> None:
        found = self.standings(0.05)
        assert found["b"] == Standing("b", points=1, best=1, front=1, unbeaten=1)
        assert found["a"] == Standing("a", points=2, best=1, front=0, unbeaten=1)  # its second point is not its best

    def test_better_by_more(self) -> None:
        assert self.standings(0.03)["a"] == Standing("a", points=2, best=1, front=0, unbeaten=0)

    def test_better_on_one_figure_alone_never_counts(self) -> None:
        found = compared(point("a", "1", 100, 0.2), point("b", "1", 1, 0.2))
        assert [standing.unbeaten for standing in found.standings(WAITS)] == [1, 1]

    def test_in_words(self) -> None:
        found = compared(point("a", "1", 100, 0.2), point("b", "none", 50, 0.1))
        assert front_words(found, WAITS) == [
            "1 of 2 points are on the common front: b 1; none of a.",
            "Best points that no other scheduler beats on both by more than 5%: b 1 of 1, a 0 of 1.",
        ]
        assert front_table(found, WAITS).texts() == [["b", "none (own)", "50.0", "10.0", "1.00", "50.0"]]


def test_a_short_repr() -> None:
    assert repr(compared(point("a", "none", 1, 0.1))) == (
        "<FrontComparison of a: 1 points, 1 on the front of spot wait and evictions,"
        " 1 on the front of spot completion time and waste>"
    )


def test_what_was_left_out_is_said_once_per_reason() -> None:
    missing = [LeftOut(name, quota, "too small") for quota in ("fixed 5%", "fixed 10%") for name in ("a", "b")]
    missing.append(LeftOut("b", "forecast p=0.9", "stuck"))
    found = replace(compared(point("a", "none", 1, 0.1), point("b", "none", 1, 0.1)), left_out=tuple(missing))
    assert left_out_words(found) == [
        "Left out: fixed 5%, fixed 10% (too small).",
        "Left out: forecast p=0.9 of b (stuck).",
    ]


class TestQuotas:
    @pytest.mark.parametrize(
        ("scheduler", "own", "count"),
        [("yarn-cs", "none", 12), ("static", "fixed", 12), ("gfs", "forecast", 12), ("gfs-plus", "adaptive", 16)],
    )
    def test_the_own_quota_comes_first_and_none_twice(self, scheduler: str, own: str, count: int) -> None:
        """None, 7 shares and 4 p; gfs-plus has 4 p of its adaptive quota besides."""
        found = quotas_of(gfs.SCHEDULERS[scheduler])
        assert found[0]["quota"] == own
        assert len(found) == count

    def test_a_quota_that_no_other_scheduler_has_comes_once(self) -> None:
        assert [one for one in quotas_of(gfs.SCHEDULERS["gfs-e"]) if one["quota"] == "weekly-peak"] == [
            {"quota": "weekly-peak", "p": 0.9}
        ]


SMALL = workload(
    nodes(8, 8),
    [
        hp("h1", gpus=8, at=600, lasting=3000),
        spot("s1", gpus=2, lasting=6000),
        spot("s2", gpus=4, at=60, lasting=3000),
    ],
)
"""16 GPUs: s2 does not fit into a fixed quota of less than 25%."""


class TestRuns:
    def test_each_scheduler_with_each_quota_that_holds_the_largest_task(self) -> None:
        found = run_fronts(SMALL, ["yarn-cs", "static"], Parameters())
        assert {(one.scheduler, one.quota) for one in found.points if one.own} == {
            ("yarn-cs", "none"),
            ("static", "fixed 35%"),
        }
        assert [one.quota for one in found.left_out if one.scheduler == "static"] == [
            *("fixed 5%", "fixed 10%", "fixed 15%", "fixed 20%"),
        ]
        assert "must be 25% at least" in found.left_out[0].reason
        alone = gfs.simulate(SMALL, scheduler="static", quota="fixed", quota_share=0.3)
        (same,) = (one for one in found.points if (one.scheduler, one.quota) == ("static", "fixed 30%"))
        assert same.figures == alone.metrics.figures()

    def test_the_same_in_processes_and_from_the_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        here = run_fronts(SMALL, ["yarn-cs"], Parameters(), cache=ResultCache(tmp_path))
        assert run_fronts(SMALL, ["yarn-cs"], Parameters(), workers=lambda runs: 2) == here
        monkeypatch.setattr(fronts, "run_simulation", lambda *_, **__: pytest.fail("computed again"))
        assert run_fronts(SMALL, ["yarn-cs"], Parameters(), cache=ResultCache(tmp_path)) == here

    def test_a_quota_that_cannot_be_run_is_left_out(self) -> None:
        """Demand is not forecast for 200 hours, but fixed quotas need no forecast."""
        long = workload(nodes(8, 8), [hp("h1"), spot("s1", hours=200)])
        found = gfs.compare_fronts(long, schedulers="lyra")
        assert [one.quota for one in found.left_out if "168 hours at most" in one.reason] == [
            *("forecast p=0.8", "forecast p=0.9", "forecast p=0.95", "forecast p=0.99"),
        ]
        assert len(found.points) == 7  # none, and 10% to 35%: one GPU of 16 is more than 5%

    @pytest.mark.parametrize("name", ["quota", "quota_share", "p"])
    def test_what_it_varies_cannot_be_set(self, name: str) -> None:
        value = "none" if name == "quota" else 0.6
        with pytest.raises(gfs.InputError, match=f"^{name}: a comparison of fronts goes over all quotas itself"):
            gfs.compare_fronts(SMALL, schedulers="lyra", **{name: value})

    @pytest.mark.parametrize("noise", [-0.1, 1.0, float("nan")])
    def test_noise_is_a_share(self, noise: float) -> None:
        with pytest.raises(gfs.InputError, match="must be at least 0 and below 1"):
            gfs.compare_fronts(SMALL, noise=noise)

    def test_nothing_to_trade_without_spot_tasks(self) -> None:
        with pytest.raises(gfs.InputError, match="no spot task is counted"):
            gfs.compare_fronts(workload(nodes(8), [hp("h1")]))
        with pytest.raises(gfs.InputError, match="no spot task is counted"):
            gfs.compare_fronts(SMALL, window="500:")


class TestLogAxis:
    def test_round_ticks(self) -> None:
        axis, places = log_axis("x", [0.8, 900.0])
        assert places == [0.8, 900.0]
        assert axis["ticktext"] == ["1", "3", "10", "30", "100", "300"]

    def test_a_short_span_has_closer_ticks(self) -> None:
        assert log_axis("x", [2.1, 3.9])[0]["ticktext"] == ["2", "2.5", "3", "3.5", "4"]

    def test_nothing_has_a_place_of_its_own(self) -> None:
        axis, places = log_axis("x", [0.0, 4.0, 4000.0])
        assert (axis["ticktext"][0], axis["tickvals"][0], places) == ("0", 2.0, [2.0, 4.0, 4000.0])
        assert log_axis("x", [0.0])[1] == [0.5]
