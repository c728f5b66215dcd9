"""Whom HP displaces: sparing by waste, the cost of a node, whole-gang victims, all or nothing."""

from __future__ import annotations

from random import Random

import pytest

from builders import Draft, Stage, Story, hp, nodes, play, spot
from gfs.policies.preemption import DRAWS, RandomPreemptor

# -- who is spared on a node ------------------------------------------------------------------------------


def test_the_task_that_would_waste_most_is_spared() -> None:
    # At 1000: old wastes 4 x 1000, young 4 x 400 GPU-seconds. HP needs four cards: one of them must go.
    story = play(
        nodes(8),
        spot("old", gpus=4, lasting=9000),
        spot("young", gpus=4, at=600, lasting=9000),
        hp("h", gpus=4, at=1000),
    )
    assert story.victims() == ["young"]


def test_waste_starts_again_at_every_checkpoint() -> None:
    # old saves at 950 (interval 950), so at 1000 it would waste 4 x 50, young 4 x 400.
    story = play(
        nodes(8),
        spot("old", gpus=4, lasting=9000, checkpoint=950),
        spot("young", gpus=4, at=600, lasting=9000),
        hp("h", gpus=4, at=1000),
    )
    assert story.victims() == ["old"]


def test_waste_counts_the_gpus_of_the_whole_task() -> None:
    # On n0: gang holds 2 cards here and 2 on n1, wasting 4 x 500 = 2000; pair holds 2 cards, 2 x 900 = 1800.
    # Were only the cards on n0 counted, the gang would waste 2 x 500 = 1000 and go.
    story = play(
        nodes(4, 4),
        hp("filler", gpus=2, lasting=300),
        spot("pair", gpus=2, at=100, lasting=9000),
        hp("lower", gpus=2, at=200, lasting=99999),
        spot("gang", gpus=2, pods=2, at=500, lasting=9000),
        hp("h", gpus=2, at=1000),
        window=(0, 1e9),
    )
    assert sorted(story.on("gang")) == ["n0", "n1"]
    assert story.on("pair") == ["n0"]
    assert story.victims() == ["pair"]


def test_sparing_goes_from_the_highest_waste_down_even_if_more_must_go() -> None:
    # HP wants 4 of 8. Waste at 1000: big 4 x 900 = 3600, a 2 x 1000 = 2000, b 2 x 950 = 1900.
    # big is spared first (4 left = enough), then neither a nor b can be: two victims although one would do.
    story = play(
        nodes(8),
        spot("a", gpus=2, lasting=9000),
        spot("b", gpus=2, at=50, lasting=9000),
        spot("big", gpus=4, at=100, lasting=9000),
        hp("h", gpus=4, at=1000),
    )
    assert sorted(story.victims()) == ["a", "b"]


def test_small_tasks_are_spared_where_they_do_not_help() -> None:
    # HP wants 4 of 8. Waste at 1000: big 4 x 100 = 400, a 2 x 1000, b 2 x 950. a and b are spared, big goes.
    story = play(
        nodes(8),
        spot("a", gpus=2, lasting=9000),
        spot("b", gpus=2, at=50, lasting=9000),
        spot("big", gpus=4, at=900, lasting=9000),
        hp("h", gpus=4, at=1000),
    )
    assert story.victims() == ["big"]


def test_idle_cards_help_so_fewer_must_go() -> None:
    # 2 idle + 3 of b = 5 = what HP wants; a wastes more and is spared.
    story = play(
        nodes(8),
        spot("a", gpus=3, lasting=9000),
        spot("b", gpus=3, at=10, lasting=9000),
        hp("h", gpus=5, at=100),
    )
    assert story.victims() == ["b"]
    assert story.where("h") == ["n0/3+4+5+6+7"]


def test_during_restart_overhead_nothing_can_be_wasted() -> None:
    # s is evicted at 100 for h1 (130-140), runs again from 140, 40 s of overhead until 180.
    # At 170 it has nothing to lose, while t (since 141, first run) would waste 8 x 29.
    story = play(
        nodes(8, 8),
        spot("s", gpus=8, lasting=9000),
        hp("other", gpus=8, lasting=141),
        hp("h1", gpus=8, at=100, lasting=10),
        spot("t", gpus=8, at=141, lasting=9000),
        hp("h2", gpus=8, at=170),
    )
    assert story.spans("s")[:2] == [(0.0, 100.0), (140.0, 170.0)]
    assert story.evicted("t") == []


# -- the cost of a node -----------------------------------------------------------------------------------
#
# Two nodes of 2 cards, pool cards x T = 4 x 3600 = 14400. n0 holds a (2 GPUs, since `a_at`), n1 holds b and c
# (1 GPU each, since 2470). HP wants 2 cards at 2520, when b and c waste 50 + 50 = 100.
#     n0: (F+1)/(G+F+1) + 0.5 x 2 x (2520 - a_at) / 14400        n1: (F+2)/(G+F+2) + 0.5 x 100 / 14400
# All guarantees are 4 h, so no period is completed by a, b or c.


def two_or_one(a_at: float, *before: Draft, **parameters: object) -> Story:
    return play(
        nodes(2, 2),
        *before,
        spot("a", gpus=2, at=a_at, lasting=9000, hours=4),
        spot("b", at=2470, lasting=9000, hours=4),
        spot("c", at=2470, lasting=9000, hours=4),
        hp("h", gpus=2, at=2520, lasting=10),
        **parameters,
    )


KEPT = spot("kept", lasting=10)
"""A spot task that finishes at 10: its one guarantee period is kept, G = 1."""


def test_without_any_period_kept_only_waste_decides() -> None:
    # F = G = 0: 1/1 + waste against 2/2 + waste.
    assert two_or_one(a_at=2469).victims() == ["b", "c"]  # 2 x 51 = 102 > 100
    assert two_or_one(a_at=2471, beta=0.5).victims() == ["a"]  # 2 x 49 = 98; a lands on n0 or n1 alike


def test_one_more_victim_costs_a_sixth_when_g_is_1() -> None:
    # G = 1, F = 0: 1/2 + 2w/28800 against 2/3 + 100/28800: n1 is cheaper if 2w - 100 > 28800/6 = 4800.
    assert two_or_one(20, KEPT).victims() == ["b", "c"]  # w = 2500: 5000 - 100 = 4900
    assert two_or_one(120, KEPT).victims() == ["a"]  # w = 2400: 4800 - 100 = 4700


def test_beta_weighs_waste() -> None:
    # beta = 0.4: 0.4 x 4900 / 14400 = 0.136 < 1/6.
    assert two_or_one(20, KEPT, beta=0.4).victims() == ["a"]
    # beta = 0: 1/2 against 2/3 whatever the waste.
    assert two_or_one(20, KEPT, beta=0.0).victims() == ["a"]


def test_t_is_the_window_under_evaluation() -> None:
    # T = 7200 instead of 3600 halves the weight of waste: 0.5 x 4900 / 28800 = 0.085 < 1/6.
    assert two_or_one(20, KEPT, window=(0.0, 7200.0)).victims() == ["a"]
    assert two_or_one(20, KEPT, window=(0.0, 3600.0)).victims() == ["b", "c"]
    # Less than an hour counts as an hour.
    assert two_or_one(20, KEPT, window=(0.0, 60.0)).victims() == ["b", "c"]


def test_t_without_a_window_is_first_to_last_submission() -> None:
    # A task submitted at 7200 after all this makes T = 7200, known from the start.
    assert two_or_one(20, KEPT, hp("last", at=7200)).victims()[:1] == ["a"]


def test_f_counts_the_evictions_so_far() -> None:
    # "early" fills both nodes and is evicted at 40 for "first": F = 1. When it finishes its period is kept: G = 1.
    # n0: 2/3 + 2w/28800, n1: 3/4 + 100/28800: n1 if 2w - 100 > 28800/12 = 2400.
    before = (spot("early", gpus=2, pods=2, lasting=10, at=35), hp("first", gpus=2, at=40, lasting=10))
    # first runs 70 to 80; early needs both nodes again: 80 to 130 (40 + 10 s), then all is idle.
    assert two_or_one(1000, *before).victims() == ["early", "b", "c"]  # w = 1520: 3040 - 100 = 2940
    assert two_or_one(1300, *before).victims() == ["early", "a"]  # w = 1220: 2440 - 100 = 2340
    # With F = 0 the limit is 4800, not 2400: the same waste falls on the other side.
    assert two_or_one(1000, KEPT).victims() == ["a"]


def test_g_counts_periods_that_running_tasks_have_completed() -> None:
    # a is promised half an hour at a time: since 20 it has completed one by 1820. G = 1 without KEPT.
    tasks = [
        spot("a", gpus=2, at=20, lasting=9000, hours=0.5),
        spot("b", at=2470, lasting=9000, hours=4),
        spot("c", at=2470, lasting=9000, hours=4),
        hp("h", gpus=2, at=2520, lasting=10),
    ]
    # beta = 0.4 as above: G = 1 spares n1 (0.136 < 1/6); with G = 0 waste alone would choose n1.
    assert play(nodes(2, 2), *tasks, beta=0.4).victims() == ["a"]
    tasks[0] = spot("a", gpus=2, at=20, lasting=9000, hours=4)
    assert play(nodes(2, 2), *tasks, beta=0.4).victims() == ["b", "c"]


def test_equal_cost_fewer_victims() -> None:
    # F = G = 0, and at 200 everyone has just saved (interval 100): cost 1 on both nodes.
    story = play(
        nodes(2, 2),
        spot("b", lasting=9000, checkpoint=100),
        spot("c", lasting=9000, checkpoint=100),
        spot("a", gpus=2, at=100, lasting=9000, checkpoint=100),
        hp("h", gpus=2, at=200),
    )
    assert story.on("a") == ["n1"]
    assert story.victims() == ["a"]


def test_equal_cost_and_victims_lowest_node() -> None:
    story = play(
        nodes(2, 2, 2),
        *[spot(f"s{i}", gpus=2, lasting=9000) for i in range(3)],
        hp("h", gpus=2, at=200),
    )
    assert story.on("h") == ["n0"]
    assert len(story.victims()) == 1


# -- gangs ------------------------------------------------------------------------------------------------


def test_a_victim_goes_from_all_its_nodes_and_the_same_gang_uses_the_cards() -> None:
    # gang has just saved (0 waste), single wastes 4 x 100. The first HP pod evicts gang on n1, which frees n2 too:
    # the second pod goes there and single stays.
    story = play(
        nodes(4, 4, 4),
        spot("gang", gpus=4, pods=2, lasting=9000, checkpoint=100),
        spot("single", gpus=4, lasting=9000),
        hp("h", gpus=4, pods=2, at=100),
    )
    assert story.on("single") == ["n0"]  # fewer pods: it was placed first
    assert story.on("gang") == ["n1", "n2"]
    assert story.victims() == ["gang"]
    assert story.on("h") == ["n1", "n2"]


def test_gpus_of_a_gang_that_hp_does_not_need_are_held_for_its_grace_period() -> None:
    story = play(
        nodes(4, 4),
        spot("gang", gpus=4, pods=2, lasting=9000),
        hp("h", gpus=4, at=100, lasting=500),
        spot("next", gpus=4, at=110),
    )
    assert story.on("h") == ["n0"]
    assert story.where("next") == ["n1/0+1+2+3"]
    assert story.started("next") == [130.0]


def test_a_victim_may_start_again_in_the_same_pass() -> None:
    # small and pad sit on n0, a on n1; pad leaves. h wants 2 cards: only n0 can be emptied; n1 has one for small.
    story = play(
        nodes(2, 2),
        spot("small", lasting=1000),
        hp("pad", at=1, lasting=5),
        hp("a", at=2, lasting=9000),
        hp("h", gpus=2, at=100, lasting=9000),
    )
    assert (story.on("small"), story.on("pad"), story.on("a")) == (["n0"], ["n0"], ["n1"])
    assert story.spans("small") == [(0.0, 100.0), (100.0, 1140.0)]  # 40 s overhead, nothing was saved
    assert story.on("small", run=2) == ["n1"]
    assert story.started("h") == [130.0]


def test_nothing_is_evicted_if_the_gang_cannot_fit_anyway() -> None:
    story = play(
        nodes(4, 4, 4),
        hp("fixed", gpus=1, lasting=500),
        spot("s1", gpus=4, lasting=400),
        spot("s2", gpus=4, lasting=400),
        hp("h", gpus=4, pods=3, at=100),
    )
    assert story.victims() == []
    assert story.started("h") == [500.0]


def test_idle_nodes_are_used_first_and_all_pods_start_after_the_grace_period() -> None:
    story = play(
        nodes(4, 4),
        spot("s", gpus=4, lasting=9000),
        hp("h", gpus=4, pods=2, at=100, lasting=10),
        spot("greedy", gpus=1, at=110, lasting=10),
    )
    assert story.victims() == ["s"]
    assert story.spans("h") == [(130.0, 140.0)]
    assert story.on("h") == ["n1", "n0"]  # the idle node, then the one that had to be emptied
    # n1 looks empty from 100 to 130 but is held for h.
    assert story.started("greedy") == [140.0]


def test_hp_held_in_its_grace_period_cannot_be_displaced() -> None:
    story = play(
        nodes(4), spot("s", gpus=4, lasting=900), hp("h1", gpus=4, at=100), hp("h2", gpus=4, at=110, lasting=1)
    )
    assert story.started("h1") == [130.0]
    assert story.started("h2") == [230.0]


@pytest.mark.parametrize("scheduler", ["gfs", "yarn-cs", "static"])
def test_hp_never_displaces_hp(scheduler: str) -> None:
    story = play(nodes(4), hp("a", gpus=4), hp("b", gpus=4, at=10), scheduler=scheduler)
    assert story.spans("b") == [(100.0, 200.0)]


@pytest.mark.parametrize("scheduler", ["gfs", "yarn-cs", "static"])
def test_spot_never_displaces_spot(scheduler: str) -> None:
    story = play(nodes(4), spot("a", gpus=4), spot("b", gpus=4, at=10), scheduler=scheduler, quota_share=1.0)
    assert story.spans("b") == [(100.0, 200.0)]


# -- fractions --------------------------------------------------------------------------------------------


def test_a_whole_card_for_hp_needs_all_fractions_on_it_gone() -> None:
    # Card 0: z; card 1: x 0.5 + y 0.5. Sparing by waste at 100: z 1 x 100, x 0.5 x 100, y 0.5 x 90.
    # z is spared (card 1 can still be emptied), then neither x nor y can be.
    story = play(
        nodes(2),
        spot("z", lasting=9000),
        spot("x", gpus=0.5, lasting=9000),
        spot("y", gpus=0.5, at=10, lasting=9000),
        hp("h", at=100),
    )
    assert sorted(story.victims()) == ["x", "y"]
    assert story.where("x") == story.where("y") == ["n0/1:0.5"]
    assert story.where("h") == ["n0/1"]


def test_a_fraction_of_hp_displaces_only_as_much_as_it_needs() -> None:
    # One card: big 0.6 and small 0.4. HP wants 0.4: waste 0.6 x 100 against 0.4 x 100, so small goes.
    story = play(
        nodes(1),
        spot("big", gpus=0.6, lasting=9000),
        spot("small", gpus=0.4, lasting=9000),
        hp("h", gpus=0.4, at=100, lasting=10),
    )
    assert story.victims() == ["small"]
    assert story.where("h") == ["n0/0:0.4"]


def test_a_fraction_of_hp_may_share_a_card_with_hp_once_spot_has_gone() -> None:
    story = play(
        nodes(1),
        hp("first", gpus=0.5, lasting=9000),
        spot("s", gpus=0.5, lasting=9000),
        hp("h", gpus=0.5, at=100, lasting=10),
    )
    assert story.victims() == ["s"]
    assert story.started("h") == [130.0]


def test_a_whole_card_is_out_of_reach_where_hp_has_a_part() -> None:
    story = play(
        nodes(1), hp("part", gpus=0.1, lasting=500), spot("s", gpus=0.9, lasting=900), hp("h", at=100, lasting=10)
    )
    assert story.started("h")[0] >= 500.0
    assert story.evicted("s") == [500.0]


# -- the plain preemption of yarn-cs and static -----------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["yarn-cs", "static"])
def test_plain_preemption_takes_the_first_node_that_suffices_and_spares_later_tasks(scheduler: str) -> None:
    # n0 could hold the pod if a and b went; n1 would lose less work, but nobody asks.
    story = play(
        nodes(4, 4),
        spot("a", gpus=2, lasting=9000),
        spot("b", gpus=2, lasting=9000),
        spot("c", gpus=4, at=99, lasting=9000),
        hp("h", gpus=2, at=100),
        scheduler=scheduler,
        quota_share=1.0,
    )
    assert story.victims() == ["a"]
    assert story.where("h") == ["n0/0+1"]
    assert "first node that suffices" in story.why_evicted("a")


@pytest.mark.parametrize("scheduler", ["yarn-cs", "static"])
def test_plain_preemption_passes_by_nodes_that_cannot_hold_the_pod(scheduler: str) -> None:
    story = play(
        nodes(4, 4),
        hp("a", gpus=2, lasting=9000),
        spot("b", gpus=2, lasting=9000),
        spot("c", gpus=4, lasting=9000),
        hp("h", gpus=3, at=100),
        scheduler=scheduler,
        quota_share=1.0,
    )
    assert story.victims() == ["c"]
    assert story.on("h") == ["n1"]


# -- a random node ----------------------------------------------------------------------------------------


def test_where_all_draws_miss_the_next_node_that_could_hold_the_pod_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # HP has n0 and n2, spot tasks n1 and n3. n0 is drawn each time, then n2 or n3 or n0 to begin with.
    for start, node, victim in ((2, "n3", "s3"), (3, "n3", "s3"), (0, "n1", "s1")):
        stage, random = Stage(1, 1, 1, 1), Random(0)
        for name in ("n0", "n2"):
            stage.holds(name, hp(f"h{name[1]}"))
        for name in ("n1", "n3"):
            stage.holds(name, spot(f"s{name[1]}"))
        draws = iter([*[0] * DRAWS, start])
        monkeypatch.setattr(random, "randrange", lambda count, draws=draws: next(draws))
        found = RandomPreemptor(stage.pool, random).choose(hp("h").task(9), 60.0)
        assert found is not None
        assert (found.node.name, [run.task.name for run in found.runs]) == (node, [victim])
