"""Where GFS puts a pod: three scores, each deciding alone, in order, ties by node id."""

from __future__ import annotations

from math import log

import pytest

from builders import Draft, Stage, hp, nodes, play, spot
from gfs import Priority
from gfs.core.node import Node
from gfs.domain.units import DAY, HOUR
from gfs.policies.gfs.scoring import GfsPlacer, score3


def chosen(stage: Stage, draft: Draft, **parameters: float) -> str | None:
    return name_of(GfsPlacer(stage.state, **parameters).choose(draft.task()))


def name_of(node: Node | None) -> str | None:
    return node.name if node else None


def evict_on(stage: Stage, node: str, now: float) -> None:
    """A spot task is evicted from the node: it starts there and is stopped at once."""
    stage.evicts(stage.holds(node, spot("victim"), start=now), now)


# -- score1: packing --------------------------------------------------------------------------------------


def test_the_fullest_node_that_still_fits_is_best() -> None:
    stage = Stage(8, 8, 8)
    stage.holds("n1", hp("a", gpus=4))  # score1 = 1 - 4/8 = 0.5
    stage.holds("n2", hp("b", gpus=6))  # score1 = 1 - 2/8 = 0.75
    assert chosen(stage, hp("x", gpus=2)) == "n2"
    assert chosen(stage, hp("x", gpus=3)) == "n1"  # n2 has only two
    assert chosen(stage, hp("x", gpus=5)) == "n0"
    assert chosen(stage, spot("x", gpus=2)) == "n2"


def test_packing_looks_at_the_share_of_idle_cards_not_their_number() -> None:
    # n0: 5 of 8 idle, score1 = 0.375; n1: 3 of 4 idle, score1 = 0.25; n2: 1 of 1 idle, score1 = 0.
    stage = Stage(8, 4, 1)
    stage.holds("n0", hp("a", gpus=3))
    stage.holds("n1", hp("b", gpus=1))
    assert chosen(stage, hp("x", gpus=1)) == "n0"
    # One more card of n1 gone: 2 of 4 idle, score1 = 0.5 beats 0.375.
    stage.holds("n1", hp("c", gpus=1))
    assert chosen(stage, hp("x", gpus=1)) == "n1"


def test_an_empty_small_node_scores_like_an_empty_large_one() -> None:
    # score1 = 0, score2 = 0 on all: the lowest id.
    assert chosen(Stage(8, 4, 1), spot("x")) == "n0"
    assert chosen(Stage(1, 4, 8), spot("x")) == "n0"
    assert chosen(Stage(1, 4, 8), spot("x", gpus=2)) == "n1"


def test_a_card_held_in_part_is_not_idle() -> None:
    stage = Stage(2, 2)
    stage.holds("n1", hp("a", gpus=0.1))
    assert chosen(stage, hp("x")) == "n1"  # score1: n1 1 - 1/2, n0 0
    assert chosen(stage, hp("x", gpus=2)) == "n0"


def test_no_node_with_enough_idle_cards_means_none() -> None:
    stage = Stage(4, 4)
    stage.holds("n0", hp("a"))
    stage.holds("n1", hp("b"))
    assert chosen(stage, hp("x", gpus=4)) is None


# -- score2: co-location ----------------------------------------------------------------------------------


def test_equally_full_nodes_own_class_decides() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", spot("s", gpus=4))
    stage.holds("n1", hp("h", gpus=4))
    assert chosen(stage, hp("x")) == "n1"
    assert chosen(stage, spot("x")) == "n0"


def test_own_class_counts_as_share_of_the_node() -> None:
    # Both have a quarter idle: n0 2 of 8, n1 1 of 4.
    # HP holds 4/8 = 0.5 of n0 and 1/4 = 0.25 of n1; spot 2/8 = 0.25 and 2/4 = 0.5.
    stage = Stage(8, 4)
    stage.holds("n0", hp("a", gpus=4))
    stage.holds("n0", spot("b", gpus=2))
    stage.holds("n1", hp("c", gpus=1))
    stage.holds("n1", spot("d", gpus=2))
    assert chosen(stage, hp("x")) == "n0"
    assert chosen(stage, spot("x")) == "n1"


def test_a_card_divided_between_classes_counts_for_both() -> None:
    # n0: one card with HP 0.5 and spot 0.5; n1: one card with HP 0.5 only. One of two cards idle on both.
    stage = Stage(2, 2, 2)
    stage.holds("n1", hp("a", gpus=0.5))
    stage.holds("n0", hp("b", gpus=0.5))
    stage.holds("n0", spot("c", gpus=0.5))
    assert chosen(stage, spot("x")) == "n0"  # spot: n0 1/2, n1 0
    assert chosen(stage, hp("x")) == "n0"  # HP: 1/2 on both, so the id decides


def test_packing_beats_own_class() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", hp("h", gpus=4))  # all of one class, but emptier
    stage.holds("n1", spot("s", gpus=5))
    assert chosen(stage, hp("x")) == "n1"


# -- score3: eviction history -----------------------------------------------------------------------------


def test_after_an_eviction_spot_shuns_the_node_and_hp_prefers_it() -> None:
    # One eviction just now: e = 0.8 x 1 + 0.2 x 1/24 = 0.80833; 0.01 x 3^e = 0.0243.
    # Spot: 1 - 0.0243 = 0.9757 on n0 against 1 - 0.01 = 0.99 on n1. HP: 0.0243 against 0.01.
    stage = Stage(8, 8)
    placer = GfsPlacer(stage.state)
    evict_on(stage, "n0", now=0.0)
    assert name_of(placer.choose(spot("x").task())) == "n1"
    assert name_of(placer.choose(hp("x").task())) == "n0"


def test_history_decides_only_where_packing_and_class_tie() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", spot("s"))
    placer = GfsPlacer(stage.state)
    evict_on(stage, "n0", now=0.0)
    assert name_of(placer.choose(spot("x").task())) == "n0"  # fuller, though it has a history


def test_old_evictions_count_little_but_they_count() -> None:
    # After an hour: e = 0.2 x 1/24 = 0.00833, 0.01 x 3^e = 0.010092: still a little more than 0.01.
    stage = Stage(8, 8)
    placer = GfsPlacer(stage.state)
    evict_on(stage, "n0", now=0.0)
    stage.state.age(HOUR)
    assert name_of(placer.choose(spot("x").task())) == "n1"
    stage.state.age(DAY)  # all forgotten: the id decides again
    assert name_of(placer.choose(spot("x").task())) == "n0"


def test_two_old_evictions_weigh_less_than_one_fresh() -> None:
    # n0: two of 2 h ago: e = 0.2 x 2/24 = 0.0167. n1: one of now: e = 0.80833.
    stage = Stage(8, 8)
    placer = GfsPlacer(stage.state)
    evict_on(stage, "n0", now=0.0)
    evict_on(stage, "n0", now=0.0)
    stage.state.age(2 * HOUR)
    evict_on(stage, "n1", now=2 * HOUR)
    assert name_of(placer.choose(spot("x").task())) == "n0"
    assert name_of(placer.choose(hp("x").task())) == "n1"


# -- circuit breaker --------------------------------------------------------------------------------------


def test_the_breaker_closes_at_about_4_2_weighted_evictions() -> None:
    # 1 - 0.01 x 3^e is 0 from e = log 100 / log 3 = 4.19 on. Each fresh eviction adds 0.8 + 0.2/24 = 0.80833:
    # five make 4.04, open; six make 4.85, closed.
    assert 5 * (0.8 + 0.2 / 24) < log(100, 3) < 6 * (0.8 + 0.2 / 24)
    stage = Stage(8)
    placer = GfsPlacer(stage.state)
    for _ in range(5):
        evict_on(stage, "n0", now=0.0)
    assert name_of(placer.choose(spot("x").task())) == "n0"
    assert placer.closed(spot("x").task()) == (0, "")
    evict_on(stage, "n0", now=0.0)
    assert placer.choose(spot("x").task()) is None
    assert placer.closed(spot("x").task()) == (1, "")
    assert name_of(placer.choose(hp("x").task())) == "n0"  # HP may still go there


def test_a_spot_score_of_exactly_zero_is_closed() -> None:
    # gamma = 1, m = 10, two evictions: e = 2, 0.01 x 10^2 = 1, 1 - 1 = 0.
    stage = Stage(8)
    placer = GfsPlacer(stage.state, gamma=1.0, m=10.0)
    evict_on(stage, "n0", now=0.0)
    assert name_of(placer.choose(spot("x").task())) == "n0"
    evict_on(stage, "n0", now=0.0)
    assert placer.choose(spot("x").task()) is None


def test_the_breaker_opens_exactly_when_an_eviction_leaves_the_hour() -> None:
    # Six evictions, at 0, 10, ..., 50. At 3600 the first is an hour old: 5 fresh and 6 of the day make
    # 0.8 x 5 + 0.2 x 6/24 = 4.05 < 4.19.
    stage = Stage(8)
    placer = GfsPlacer(stage.state)
    for when in range(0, 60, 10):
        evict_on(stage, "n0", now=float(when))
    assert stage.state.evictions.next_change == 3600.0
    stage.state.age(3599.999)
    assert not placer.reopened()
    assert placer.choose(spot("x").task()) is None
    stage.state.age(3600.0)
    assert placer.reopened(), "a node has become available"
    assert not placer.reopened(), "said once"
    assert name_of(placer.choose(spot("x").task())) == "n0"


def test_the_breaker_opens_exactly_when_an_eviction_leaves_the_day() -> None:
    # gamma = 0: only the day counts. m = 100: 0.01 x 100^(e24/24) is 1 from 24 evictions on.
    stage = Stage(8)
    placer = GfsPlacer(stage.state, gamma=0.0, m=100.0)
    for when in range(24):
        evict_on(stage, "n0", now=float(when))
    stage.state.age(HOUR + 100)
    assert placer.choose(spot("x").task()) is None, "the hour does not matter here"
    stage.state.age(DAY - 0.001)
    assert placer.choose(spot("x").task()) is None
    stage.state.age(DAY)
    assert placer.reopened()
    assert name_of(placer.choose(spot("x").task())) == "n0"


def test_a_spot_task_waits_at_a_closed_node_until_it_cools_down() -> None:
    # gamma = 1, m = 100: one eviction within the hour closes the node. s is evicted at 100; h runs 130 to 140.
    # The node is empty from 140 on but closed until 100 + 3600 = 3700; the next tick is at 3900.
    story = play(nodes(8), spot("s", gpus=8, lasting=500), hp("h", gpus=8, at=100, lasting=10), gamma=1.0, m=100.0)
    assert story.started("s") == [0.0, 3900.0]


def test_a_closed_node_reopens_for_an_arrival_between_ticks() -> None:
    # As above, but a task that arrives at 3700 exactly brings a pass with it; one at 3699 comes too early.
    story = play(
        nodes(8),
        spot("s", gpus=8, lasting=500),
        hp("h", gpus=8, at=100, lasting=10),
        hp("early", at=3699, lasting=0.5),
        hp("late", at=3700, lasting=0),
        gamma=1.0,
        m=100.0,
    )
    # late takes one card at 3700 and is gone at once; s then needs all eight: also at 3700, in the second pass.
    assert story.started("s") == [0.0, 3700.0]


def test_an_evicted_gang_counts_once_on_every_node_it_was_on() -> None:
    # gamma = 1, m = 10: two evictions close a node, one does not. The gang had two pods on each of two nodes.
    story = play(
        nodes(4, 4, 4),
        spot("gang", gpus=2, pods=4, lasting=2000),
        hp("h", gpus=4, pods=3, at=100, lasting=10),
        spot("after", gpus=4, at=200, lasting=10),
        gamma=1.0,
        m=10.0,
    )
    assert story.evicted("gang") == [100.0]
    assert set(story.on("gang", run=1)) == {"n0", "n1"}
    # h frees everything at 140. Were pods counted, n0 and n1 would be closed and the gang would not fit on n2.
    assert story.started("gang") == [0.0, 140.0]


# -- fractions --------------------------------------------------------------------------------------------


def test_a_fraction_takes_the_fullest_card_that_still_fits() -> None:
    stage = Stage(4)
    for share in (0.3, 0.8, 0.6):  # each opens a card of its own: 0.3+0.8 > 1, 0.6 fits beside 0.3
        stage.holds("n0", hp(f"s{share}", gpus=share))
    # Card 0 holds 0.3 + 0.6 = 0.9, card 1 holds 0.8.
    node = stage.node("n0")
    assert stage.holds("n0", hp("x", gpus=0.1)).places == [(node, stage.state.runs[3].task, 1, 0)]
    assert stage.holds("n0", hp("y", gpus=0.2)).places[0][3] == 1
    assert stage.holds("n0", hp("z", gpus=0.2)).places[0][3] == 2, "an idle GPU last"
    assert node.idle == 1


def test_a_fraction_prefers_a_divided_card_on_a_full_node() -> None:
    # n0: idle 1 of 2. n1: idle 0 of 2, half of a card free: score1 = 1.
    stage = Stage(2, 2)
    stage.holds("n0", hp("a"))
    stage.holds("n1", hp("b"))
    stage.holds("n1", hp("c", gpus=0.5))
    assert chosen(stage, hp("x", gpus=0.5)) == "n1"
    assert chosen(stage, hp("x", gpus=0.6)) == "n0"


def test_ten_tenths_fill_one_card_exactly() -> None:
    story = play(nodes(1), *[spot(f"s{i:02}", gpus=0.1, lasting=100) for i in range(11)])
    assert [story.started(f"s{i:02}") for i in range(10)] == [[0.0]] * 10
    assert story.started("s10") == [100.0]


def test_three_thirds_fit_on_one_card() -> None:
    story = play(nodes(1), *[spot(f"s{i}", gpus=1 / 3) for i in range(4)])
    assert [story.started(f"s{i}")[0] for i in range(4)] == [0.0, 0.0, 0.0, 100.0]


def test_a_gang_of_fractions_shares_cards() -> None:
    story = play(nodes(1, 1), spot("gang", gpus=0.5, pods=4))
    assert story.where("gang") == ["n0/0:0.5", "n0/0:0.5", "n1/0:0.5", "n1/0:0.5"]


# -- gangs ------------------------------------------------------------------------------------------------


def test_pods_of_a_gang_pack_one_after_the_other() -> None:
    story = play(nodes(8, 8), spot("gang", gpus=3, pods=4))
    # n0 until only 2 cards are left, then n1.
    assert story.where("gang") == ["n0/0+1+2", "n0/3+4+5", "n1/0+1+2", "n1/3+4+5"]


def test_a_gang_starts_whole_or_not_at_all() -> None:
    story = play(nodes(4, 4), hp("h", gpus=4, lasting=50), spot("gang", gpus=4, pods=2, at=10))
    assert story.started("gang") == [50.0]
    assert story.why_waited("gang") == "pool A100: 4 idle GPUs, room for 1 of 2 pods of 4"


@pytest.mark.parametrize(("sizes", "fits"), [((1, 4, 8), 3), ((4, 4, 4), 3), ((8, 8), 4), ((1, 1, 1), 0)])
def test_only_whole_pods_fit_on_a_node_whatever_its_size(sizes: tuple[int, ...], fits: int) -> None:
    # Pods of 3 to 4 cards: (1, 4, 8) hold 0 + 1 + 2 = 3 of four cards.
    assert Stage(*sizes).pool.idle_slots(4) == fits


def test_a_node_that_lost_hundreds_of_tasks_at_once_is_just_closed() -> None:
    # 800 evictions within the hour: e = 0.8 x 800 + 0.2 x 800/24 = 646.7, and 3^646.7 is beyond any float.
    assert score3(Priority.SPOT, 646.7, 3.0) == 0.0
    assert score3(Priority.HP, 646.7, 3.0) == 1.0
    assert score3(Priority.SPOT, 2.0, 1e200) == 0.0
