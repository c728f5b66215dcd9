"""A plan: which settings are tried, which is recommended, what could be sold, the words for it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gfs import Parameters
from gfs.batch.job import JobResult
from gfs.batch.simulation import GeneratedTrace
from gfs.domain.errors import InputError
from gfs.plans.plan import CapacityPlan, PlanRequest, capacity_plan, plan_request
from gfs.plans.runs import PlanRun
from gfs.plans.search import (
    BOUNDS,
    CLOSE,
    PAPER,
    PS,
    TIGHT,
    WIDE,
    Bounds,
    SearchSpace,
    Setting,
    SettingResult,
    best_by_guarantee,
    choose,
    first_round,
    first_scales,
    halfway,
    largest_scale,
    last_scale,
    search_space,
    second_round,
    third_round,
)
from gfs.plans.summary_text import config_text, summary_text
from gfs.plans.view import PlanView, plan_tables

TRACE = GeneratedTrace("demo", nodes=4, days=1)


def figures(evicted: float, wait: float, **more: Any) -> JobResult:
    """What a run comes to."""
    usual = {
        "spot_eviction_rate": evicted,
        "spot_evictions": round(1000 * evicted),
        "spot_runs": 1000,
        "spot_jqt_mean": wait,
        "spot_jqt_p99": 3 * wait,
        "spot_guarantee_hit_rate": 1 - evicted,
        "spot_gpu_hours": 1000.0,
        "guaranteed_gpu_hours": 990.0,
        "worth": 2500.0,
        "first_half_eviction_rate": evicted,
        "second_half_eviction_rate": evicted,
        "nodes": 4,
        "period_hours": 24.0,
        "left_out": 0,
    }
    return usual | more


def tried(p: float, hours: float, eta: Bounds, evicted: float, wait: float) -> SettingResult:
    setting = Setting(p, hours, eta)
    return SettingResult(PlanRun(TRACE, "gfs", 0, setting.values()), setting, figures(evicted, wait))


class TestChoose:
    def test_the_shortest_wait_within_the_target(self) -> None:
        """0.06 is beyond the target of 0.05; of the others 300 s is the shortest."""
        results = [
            tried(0.8, 1, PAPER, 0.06, 100),
            tried(0.9, 1, PAPER, 0.05, 300),
            tried(0.95, 1, PAPER, 0.01, 400),
        ]
        chosen = choose(results, 0.05)
        assert chosen.setting.p == 0.9
        assert chosen.within(0.05)

    def test_of_equal_waits_the_one_with_fewer_evictions(self) -> None:
        results = [tried(0.9, 1, PAPER, 0.03, 300), tried(0.8, 1, PAPER, 0.02, 300)]
        assert choose(results, 0.05).setting.p == 0.8

    def test_of_equals_the_shortest_guarantee_and_the_nearest_to_the_paper(self) -> None:
        results = [
            tried(0.9, 2, PAPER, 0.0, 0),
            tried(0.8, 1, PAPER, 0.0, 0),
            tried(0.9, 1, TIGHT, 0.0, 0),
            tried(0.9, 1, PAPER, 0.0, 0),
        ]
        assert choose(results, 0.05).setting == Setting(0.9, 1, PAPER)
        assert choose(results[::-1], 0.05).setting == Setting(0.9, 1, PAPER)

    def test_none_within_the_target_gives_the_nearest_and_by_how_much_it_misses(self) -> None:
        results = [tried(0.8, 1, PAPER, 0.12, 100), tried(0.99, 1, PAPER, 0.07, 900)]
        chosen = choose(results, 0.05)
        assert chosen.setting.p == 0.99
        assert chosen.evicted - 0.05 == pytest.approx(0.02)
        assert not chosen.within(0.05)

    def test_what_failed_is_never_recommended(self) -> None:
        stuck = replace(tried(0.9, 1, PAPER, 0, 0), figures={}, error="stuck")
        assert choose([stuck, tried(0.8, 1, PAPER, 0.2, 1)], 0.05).setting.p == 0.8
        with pytest.raises(InputError, match="no setting could be simulated: stuck"):
            choose([stuck], 0.05)

    def test_the_best_of_each_guarantee(self) -> None:
        results = [
            tried(0.8, 1, PAPER, 0.01, 50),
            tried(0.8, 4, PAPER, 0.09, 10),
            tried(0.9, 4, PAPER, 0.04, 80),
        ]
        best = best_by_guarantee(results, 0.05)
        assert [(c.setting.hours, c.setting.p) for c in best] == [(1, 0.8), (4, 0.9)]


class TestRounds:
    space = search_space("forecast", (), own_guarantees=False, quick=False)

    def test_first_every_p_with_every_guarantee(self) -> None:
        grid = first_round(self.space)
        assert len(grid) == 15
        assert {setting.eta for setting in grid} == {PAPER}

    def test_then_other_bounds_where_they_promise_something(self) -> None:
        """Shortest waits: p = 0.8 with 1 h and with 2 h. Best within the target: p = 0.99 with 1 h."""
        space = SearchSpace((0.8, 0.99), (1.0, 2.0), BOUNDS)
        found = [
            tried(0.8, 1, PAPER, 0.06, 10),
            tried(0.99, 1, PAPER, 0.01, 90),
            tried(0.8, 2, PAPER, 0.07, 20),
            tried(0.99, 2, PAPER, 0.01, 99),
        ]
        assert second_round(space, found, 0.05) == [
            Setting(0.8, 1, TIGHT),
            Setting(0.8, 1, CLOSE),
            Setting(0.8, 2, TIGHT),
            Setting(0.8, 2, CLOSE),
            Setting(0.99, 1, TIGHT),
            Setting(0.99, 1, CLOSE),
            Setting(0.99, 1, WIDE),
        ]

    def test_last_the_neighbours_of_the_best(self) -> None:
        found = [tried(0.85, 1, TIGHT, 0.01, 10), tried(0.8, 1, TIGHT, 0.06, 5)]
        assert third_round(self.space, found, 0.05) == [
            Setting(0.9, 1, TIGHT),
            Setting(0.85, 1, Bounds(0.32, 1.9)),  # between 0.5 to 1.5 and 0.2 to 2.5
        ]

    def test_halfway_is_a_matter_of_factors(self) -> None:
        assert halfway(Bounds(0.1, 1.0), Bounds(0.1, 4.0)) == Bounds(0.1, 2.0)

    def test_what_was_given_stays(self) -> None:
        assert search_space("forecast", {"p", "eta_max"}, own_guarantees=True, quick=True) == SearchSpace(
            (None,), (None,), (None,)
        )
        assert search_space("adaptive", (), own_guarantees=False, quick=False).bounds == (None,)

    def test_a_quota_without_a_forecast_has_nothing_to_plan(self) -> None:
        with pytest.raises(InputError, match=r"'fixed'.*quota=forecast"):
            search_space("fixed", (), own_guarantees=False, quick=False)

    def test_one_setting_alone_needs_no_more_rounds(self) -> None:
        space = SearchSpace((None,), (None,), (None,))
        (only,) = first_round(space)
        found = [SettingResult(PlanRun(TRACE, "gfs", 0, ()), only, figures(0.1, 10))]
        assert second_round(space, found, 0.05) == []
        assert third_round(space, found, 0.05) == []
        assert only.label == "as given"


class TestDemand:
    def test_where_to_look(self) -> None:
        assert first_scales(True, quick=False) == (2, 4)
        assert first_scales(False, quick=False) == (0.5,)
        assert first_scales(True, quick=True) == (2,)

    @pytest.mark.parametrize(
        ("holds", "largest", "last"),
        [
            ({1: True, 2: True, 4: True}, 4, None),
            ({1: True, 2: True, 4: False}, 2, 3),
            ({1: True, 2: False, 4: True}, 1, 1.5),  # what holds beyond a failure is luck
            ({0.5: True, 1: False}, 0.5, 0.75),
            ({0.5: False, 1: False}, 0, 0.25),
        ],
    )
    def test_the_largest_that_holds(self, holds: dict[float, bool], largest: float, last: float | None) -> None:
        assert largest_scale(holds) == largest
        assert last_scale(holds) == last


def request(target: float = 0.05, max_wait: float = 3600.0, quick: bool = False) -> PlanRequest:
    return plan_request(
        TRACE,
        "gfs",
        seed=0,
        parameters=Parameters(),
        given=(),
        target=target,
        max_wait=max_wait,
        quick=quick,
    )


class Fake:
    """Computes runs by a formula: tighter bounds and larger p evict less and wait more, spot work evicts more."""

    def __init__(self, evicted: float = 0.1) -> None:
        self.evicted = evicted
        self.asked: list[PlanRun] = []

    def __call__(self, runs: Sequence[PlanRun]) -> tuple[dict[PlanRun, JobResult], dict[PlanRun, str]]:
        self.asked += runs
        return {run: self.one(run) for run in runs if run.scheduler != "static"}, {
            run: "no room" for run in runs if run.scheduler == "static"
        }

    def one(self, run: PlanRun) -> JobResult:
        settings: dict[str, Any] = {"p": 0.5, "eta_max": 8.0, **dict(run.settings)}
        load = run.spot_scale / run.node_share**4
        return figures(
            self.evicted * (1 - settings["p"]) * settings["eta_max"] * load,
            1000 * settings["p"] / settings["eta_max"] * load,
            left_out=3 if run.node_share < 1 else 0,
        )


class TestPlan:
    def plan(self, fake: Fake, **limits: Any) -> CapacityPlan:
        return capacity_plan(replace(request(**limits), pools={0.9: {"A100": (20, 18)}, 1.1: {"A100": (20, 22)}}), fake)

    def test_every_run_is_asked_for_once(self) -> None:
        fake = Fake()
        made = self.plan(fake)
        assert len(fake.asked) == len(set(fake.asked)) == len(made.runs())

    def test_the_answer_in_words(self) -> None:
        """p = 0.9, eta up to 4: 0.1 x 0.1 x 4 = 4% within 5%, and 1000 x 0.9 / 4 = 225 s.

        p = 0.85 up to 2.5 evicts 3.75% and waits longer, p = 0.85 up to 4 evicts 6%. Up to 5.7, halfway to the
        wide bounds, p = 0.9 would evict 5.7%. On 90% of the nodes it is 4% / 0.9^4 = 6.1%, with 1.5 times the
        spot work 6%.
        """
        made = self.plan(Fake())
        assert made.chosen.setting == Setting(0.9, 1, PAPER)
        words = summary_text(made)
        assert words.startswith("Set p = 0.9, guarantee 1 h, eta 0.1 to 4: 4.00% of spot runs (40 of 1,000) are")
        assert "wait 3.75 min on average (target: at most 5.00%)" in words
        assert "as operators have it today, it would be impossible to run; without any quota 40.0%" in words
        assert "With 10% fewer nodes 6.10% and 5.72 min, beyond the target (3 tasks too large" in words
        assert "with 10% more nodes 2.73% and 2.56 min." in words
        assert "takes no forecast" not in words
        assert "this much can be sold within the target and a mean wait of 60 min, but not 1.5 times" in words

    def test_no_setting_within_the_target_is_said_first(self) -> None:
        """The fewest: p = 0.99 and eta up to 1.5 give 20 x 0.01 x 1.5 = 30%; a quarter of the spot work 7.5%."""
        made = self.plan(Fake(evicted=20))
        words = summary_text(made)
        assert words.startswith(f"None of the {len(made.settings)} settings tried keeps evictions at or below 5.00%")
        assert "misses the target by 25 points" in words
        assert "Not even 0.25 times this spot work can be sold" in words
        assert made.largest is None

    def test_where_only_a_fixed_quota_keeps_the_target_it_is_not_kept_as_well(self) -> None:
        class Fixed(Fake):
            def __call__(self, runs: Sequence[PlanRun]) -> tuple[dict[PlanRun, JobResult], dict[PlanRun, str]]:
                return {run: figures(0.01, 60) if run.scheduler == "static" else self.one(run) for run in runs}, {}

        words = summary_text(self.plan(Fixed(evicted=20)))
        assert "With the fixed quota the target is kept: here it takes no forecast." in words

    def test_a_quarter_of_one_task_is_no_work_to_sell(self) -> None:
        """Half of one task is one, which waits too long; of a quarter nothing is left, and nothing waits."""

        class OneTask(Fake):
            def one(self, run: PlanRun) -> JobResult:
                return figures(0.0, 0.0, spot_runs=0) if run.spot_scale < 0.5 else figures(0.0, 7200.0, spot_runs=1)

        made = self.plan(OneTask())
        assert [o.run.spot_scale for o in made.demand] == [0.25, 0.5, 1.0]
        assert made.largest is None

    def test_one_setting_alone_is_called_that(self) -> None:
        one = replace(request(), space=SearchSpace((None,), (None,), (None,)), base=(("guarantee_hours", 2.0),))
        words = summary_text(capacity_plan(one, Fake(evicted=0.01)))
        assert words.startswith("Only one setting was tried, as given: 4.00% of spot runs (40 of 1,000) are evicted")
        assert "of their runs with the guarantee of 2 h kept." in words
        missed = summary_text(capacity_plan(one, Fake(evicted=0.1)))
        assert missed.startswith("The only setting tried, as given, does not keep evictions at or below 5.00%")

    def test_why_a_setting_failed_stands_below_the_table(self) -> None:
        made = self.plan(Fake())
        broken = replace(made.settings[0], figures={}, error="no room")
        table = plan_tables(PlanView(replace(made, settings=[*made.settings[-3:], broken, made.chosen])))[0]
        assert table.note.startswith("* recommended, ! over 5.00% evicted")
        assert "no room" in table.note

    def test_a_target_that_nothing_can_miss(self) -> None:
        words = summary_text(self.plan(Fake(evicted=0), target=0.0))
        assert "0.0% of spot runs (0 of 1,000) are evicted" in words
        assert "at least 4 times the spot work could be sold" in words
        assert "With no quota the target is kept as well and waits are shorter: here it takes no forecast." in words

    def test_a_wait_beyond_the_limit_is_not_sold(self) -> None:
        """225 s are more than 200; half of the spot work waits 112.5 s, three quarters 169 s."""
        made = self.plan(Fake(), max_wait=200.0)
        assert [o.run.spot_scale for o in made.demand] == [0.5, 0.75, 1.0]
        assert "only 0.75 times the spot work can be sold" in summary_text(made)

    def test_a_half_of_the_trace_that_misses_the_target_is_named(self) -> None:
        class Uneven(Fake):
            def one(self, run: PlanRun) -> JobResult:
                return {**super().one(run), "first_half_eviction_rate": 0.05, "second_half_eviction_rate": 0.06}

        words = "5.00% were evicted in its first half, 6.00% in its second; its second half alone misses the target."
        assert summary_text(self.plan(Uneven())).endswith(words)  # 5% is not beyond 5%

    def test_too_few_runs_and_hours_are_said(self) -> None:
        class Tiny(Fake):
            def one(self, run: PlanRun) -> JobResult:
                return figures(0.0, 60.0, spot_runs=4, spot_evictions=0, period_hours=2.0)

        words = summary_text(self.plan(Tiny()))
        assert "With 4 spot runs it cannot be told whether 5.00% is kept: one eviction alone would be 25.0%." in words
        assert words.endswith("It covers 2 h: what it gives a month is a rough guess.")

    def test_other_spot_work_is_tried_only_where_it_is_other(self) -> None:
        """Of one task a half is still one; of two a quarter and a half are one."""
        one, two = (replace(request(), spot_tasks=count) for count in (1, 2))
        assert one.other_scales([0.5, 2.0], tried=[1.0]) == [2.0]
        assert two.other_scales([0.25], tried=[1.0, 0.5]) == []
        assert two.other_scales([0.5, 1.5], tried=[1.0]) == [0.5, 1.5]

    def test_where_nothing_meets_the_target_and_today_is_no_worse(self) -> None:
        class Worse(Fake):
            def one(self, run: PlanRun) -> JobResult:
                return figures(0.5, 60.0 if "quota" in dict(run.settings) else 600.0)

        assert "With no quota there are no more evictions and waits are shorter." in summary_text(self.plan(Worse()))

    def test_a_cluster_too_small_for_ten_percent(self) -> None:
        made = capacity_plan(request(quick=True), Fake())
        assert [o.run.node_share for o in made.what_if] == [1.0]
        assert "too small to ask for 10% more or fewer nodes" in summary_text(made)

    def test_all_alike(self) -> None:
        class Alike(Fake):
            def one(self, run: PlanRun) -> JobResult:
                return figures(0.0, 0.0)

        assert (
            "All settings come to the same on this trace, so keep the usual ones, p = 0.9, guarantee 1 h,"
            in summary_text(capacity_plan(request(), Alike()))
        )

    def test_leases_have_no_eviction_rate(self) -> None:
        class Leases(Fake):
            def one(self, run: PlanRun) -> JobResult:
                return {**figures(0.0, 0.0), "spot_eviction_rate": None}

        with pytest.raises(InputError, match="leases"):
            capacity_plan(request(), Leases())

    def test_the_file_is_toml_and_names_what_was_chosen(self) -> None:
        text = config_text(self.plan(Fake()))
        assert tomllib.loads(text) == {"p": 0.9, "guarantee_hours": 1.0, "eta_min": 0.1, "eta_max": 4.0}
        assert "# Use it: gfs simulate --scheduler gfs --config gfs.toml" in text

    def test_what_is_shown_begins_with_what_is_recommended(self) -> None:
        view = PlanView(self.plan(Fake()))
        assert view.settings[0].recommended
        keeps = [row.keeps for row in view.settings]
        assert keeps == sorted(keeps, reverse=True)
        assert view.today[1].remark == "no room"
        assert [row.keeps for row in view.demand] == [True, False, False, False]


class TestQuestion:
    @pytest.mark.parametrize("target", [-0.1, 1.0, 5.0, float("nan")])
    def test_a_target_is_a_share(self, target: float) -> None:
        with pytest.raises(InputError, match="must be a share, 0 or more and below 1"):
            request(target=target)

    @pytest.mark.parametrize("wait", [0.0, -1.0, float("inf")])
    def test_a_wait_is_a_number_of_seconds(self, wait: float) -> None:
        with pytest.raises(InputError, match="must be a number of seconds above 0"):
            request(max_wait=wait)

    def test_what_was_given_holds_in_every_run(self) -> None:
        asked = plan_request(
            TRACE,
            "gfs",
            seed=0,
            parameters=Parameters(theta=60.0),
            given={"guarantee_hours": "1"},
            target=0.05,
            max_wait=60,
            quick=False,
        )
        assert dict(asked.base) == {"guarantee_hours": 1.0, "theta": 60.0}
        assert asked.space.hours == (None,)
        assert asked.space.ps == PS
        run = asked.run(Setting(0.8, None, TIGHT))
        assert run.parameters() == Parameters(theta=60.0, p=0.8, eta_min=0.5, eta_max=1.5)
        assert [r.parameters().theta for r in asked.today()] == [60.0, 60.0]


def test_a_run_says_what_it_is() -> None:
    run = PlanRun(TRACE, "gfs", 0, (("p", 0.9), ("quota", "none")), node_share=0.9, spot_scale=2)
    assert run.label == "gfs, p=0.9, quota=none, nodes x0.9, spot x2"
    assert run.identity()["node_share"] == 0.9
    assert run.identity() != replace(run, spot_scale=1.0).identity()
