"""Lyra (docs/schedulers/lyra.md): whole nodes on loan to spot tasks, and the cheapest one taken back for HP."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pytest

import builders
from builders import Draft, Stage, hp, nodes, spot
from gfs.core.reasons import NoRoom
from gfs.policies.lyra import LoanPlacer, ReclaimPreemptor

play = partial(builders.play, scheduler="lyra")


def chosen(stage: Stage, draft: Draft) -> str | None:
    node = LoanPlacer(stage.pool).choose(draft.task())
    return node.name if node else None


# -- who may go where -------------------------------------------------------------------------------------


def test_each_class_keeps_to_its_nodes_however_much_is_idle_elsewhere() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", spot("s"))  # on loan: 7 idle
    stage.holds("n1", hp("h"))  # in use by HP: 7 idle
    for gpus in (0.5, 1, 7):
        assert chosen(stage, spot("x", gpus=gpus)) == "n0"
        assert chosen(stage, hp("x", gpus=gpus)) == "n1"
    assert chosen(stage, spot("x", gpus=8)) is None
    assert chosen(stage, hp("x", gpus=8)) is None


@pytest.mark.parametrize("part", [0.1, 1])
def test_a_fraction_claims_its_node_like_a_whole_card(part: float) -> None:
    stage = Stage(2, 4)
    stage.holds("n0", hp("h", gpus=part))  # 1 card idle, and 0.9 of another if divided
    assert chosen(stage, spot("x", gpus=0.5)) == "n1"
    stage = Stage(2, 4)
    stage.holds("n0", spot("s", gpus=part))
    assert chosen(stage, hp("x", gpus=0.5)) == "n1"


def test_an_empty_node_is_for_whoever_comes_first() -> None:
    assert chosen(Stage(8), spot("x")) == chosen(Stage(8), hp("x")) == "n0"


def test_best_fit_counts_idle_cards_not_their_share() -> None:
    # HP sees n0 with 5 of 8 idle and n1 with 3 of 4; n2 is on loan. Spot sees n2, 4 of 8 idle, and n3, empty.
    stage = Stage(8, 4, 8, 8)
    stage.holds("n0", hp("a", gpus=3))
    stage.holds("n1", hp("b", gpus=1))
    stage.holds("n2", spot("c", gpus=4))
    assert [chosen(stage, hp("x", gpus=g)) for g in (1, 3, 4, 5, 6)] == ["n1", "n1", "n0", "n0", "n3"]
    assert [chosen(stage, spot("x", gpus=g)) for g in (1, 4, 5)] == ["n2", "n2", "n3"]


def test_of_equally_idle_nodes_the_first_is_taken_empty_or_not() -> None:
    # 4 idle on both: n0 is an empty node of 4, n1 half of a node of 8.
    stage = Stage(4, 8)
    stage.holds("n1", hp("a", gpus=4))
    assert chosen(stage, hp("x")) == "n0"
    stage = Stage(8, 4)
    stage.holds("n0", spot("a", gpus=4))
    assert chosen(stage, spot("x")) == "n0"


def test_a_fraction_goes_to_a_divided_card_of_its_own_class_first() -> None:
    # n0 and n1 have no idle card; half of a card is free on each.
    stage = Stage(1, 1, 1)
    stage.holds("n0", hp("a", gpus=0.5))
    stage.holds("n1", spot("b", gpus=0.5))
    assert chosen(stage, hp("x", gpus=0.5)) == "n0"
    assert chosen(stage, spot("x", gpus=0.5)) == "n1"
    assert chosen(stage, spot("x", gpus=0.6)) == "n2"


def test_a_gang_fills_up_a_node_before_it_takes_the_next() -> None:
    story = play(nodes(8, 8), spot("s", lasting=900), spot("gang", gpus=2, pods=4, at=10))
    # n0 has 7 idle after s: three pods of 2, then the next node is lent.
    assert story.on("gang") == ["n0", "n0", "n0", "n1"]


def test_a_node_changes_hands_when_its_last_pod_has_gone() -> None:
    story = play(
        nodes(4),
        spot("s1", lasting=100),
        spot("s2", lasting=200),
        hp("h", at=200, lasting=100),  # s2 finishes in this instant: nobody is evicted
        spot("x", at=250, lasting=10),
    )
    assert story.victims() == []
    assert story.started("h") == [200.0]
    assert story.started("x") == [300.0]


def test_larger_pods_come_first() -> None:
    story = play(nodes(8), spot("busy", gpus=8), spot("small", gpus=1, at=1), spot("large", gpus=8, at=2))
    assert story.started("large") == [100.0]
    assert story.started("small") == [200.0]


def test_it_has_no_quota_of_its_own_but_can_be_given_one() -> None:
    tasks = [spot("a", gpus=4), spot("b", gpus=4, at=10)]
    assert play(nodes(8), *tasks).started("b") == [10.0]
    # Q = 0.5 x 8 = 4: a holds it until 100.
    assert play(nodes(8), *tasks, quota="fixed", quota_share=0.5).started("b") == [100.0]


# -- which node is taken back -----------------------------------------------------------------------------


class Reclaimed(NamedTuple):
    node: str
    victims: list[str]
    choice: str


def reclaimed(sizes: Sequence[int], loans: dict[str, str], wish: Draft) -> Reclaimed | None:
    """What is taken back for one pod of `wish`. `loans`: task -> the nodes of its pods, one card each."""
    stage = Stage(*sizes)
    preemptor = ReclaimPreemptor(stage.state)
    for name, where in loans.items():
        names = where.split()
        stage.spread(names, spot(name, pods=len(names)))
    found = preemptor.choose(wish.task(), now=0.0)
    return found and Reclaimed(found.node.name, [run.task.name for run in found.runs], found.choice)


@pytest.mark.parametrize(
    ("why", "sizes", "loans", "node", "victims"),
    [
        # a: 1/1. gang: 1/2 on n1 and on n2.
        ("a part of a gang is cheaper than a whole task", (8, 8, 8), {"a": "n0", "gang": "n1 n2"}, "n1", "gang"),
        # n0: 1/3 + 1/3 = 2/3. n3, n4: 1/2.
        (
            "the tasks of a node add up",
            (8, 8, 8, 8, 8),
            {"t1": "n0 n1 n2", "t2": "n0 n1 n2", "pair": "n3 n4", "x": "n1", "y": "n2"},
            "n3",
            "pair",
        ),
        # four: 4 pods on 2 nodes, 1/2 each. three: 3 pods on 3 nodes, 1/3 each. By pods it would be 1/4 and 1/3.
        (
            "nodes are counted, not pods",
            (8, 8, 8, 8, 8),
            {"four": "n0 n0 n1 n1", "three": "n2 n3 n4"},
            "n2",
            "three",
        ),
        # n0: 1/2 + 1/2 = 1 with two victims; n3: 1/1 with one. n1, n2: 1/2 + 1 = 3/2.
        (
            "at equal cost fewer victims",
            (8, 8, 8, 8),
            {"p": "n0 n1", "q": "n0 n2", "x": "n1", "y": "n2", "z": "n3"},
            "n3",
            "z",
        ),
        ("then the first node", (8, 8, 8), {"a": "n2", "b": "n1", "c": "n0"}, "n0", "c"),
        # s1 and s2 take 2 of 8 cards of the only node, the pod wants 2 of the 6 that are idle: both go.
        ("a node is returned whole", (8,), {"s1": "n0", "s2": "n0"}, "n0", "s1 s2"),
    ],
)
def test_the_cheapest_node(why: str, sizes: tuple[int, ...], loans: dict[str, str], node: str, victims: str) -> None:
    found = reclaimed(sizes, loans, hp("h", gpus=2))
    assert found is not None
    assert (found.node, found.victims) == (node, victims.split()), why


def test_costs_equal_on_paper_tie() -> None:
    # n0 to n5 hold one pod each of six gangs: 6 x 1/6 = 1, six victims. n6 holds one task: 1/1, one victim.
    # In floating point six sixths are a little less than 1 and would cost six gangs.
    assert sum([1 / 6] * 6) < 1
    gangs = {f"g{i}": "n0 n1 n2 n3 n4 n5" for i in range(6)}
    found = reclaimed([8] * 7, {**gangs, "single": "n6"}, hp("h", gpus=8))
    assert found is not None
    assert found.node == "n6"


def test_cost_comes_before_the_number_of_victims() -> None:
    # n0 to n5: 1/6 + 1/7 = 0.3095, two victims. n7 to n19: 4 x 1/13 = 0.3077, four victims. n6: 1/7 + 1.
    loans = {
        "six": "n0 n1 n2 n3 n4 n5",
        "seven": "n0 n1 n2 n3 n4 n5 n6",
        **{f"t{i}": " ".join(f"n{n}" for n in range(7, 20)) for i in range(4)},
        "x": "n6",
    }
    found = reclaimed([8] * 20, loans, hp("h", gpus=8))
    assert found is not None
    assert found.node == "n7"


@pytest.mark.parametrize(("gpus", "node"), [(0.5, "n0"), (1, "n0"), (4, "n0"), (5, "n2"), (8, "n2")])
def test_a_node_that_is_too_small_is_passed_by(gpus: float, node: str) -> None:
    # n0 (4 cards): 1/2. n1 (4 cards): 1/2 + 1. n2 (8 cards): 1.
    found = reclaimed((4, 4, 8), {"pair": "n0 n1", "a": "n1", "b": "n2"}, hp("h", gpus=gpus))
    assert found is not None
    assert found.node == node


def test_only_nodes_on_loan_are_counted_and_only_large_ones() -> None:
    loans = {"a": "n0", "b": "n1"}
    assert reclaimed((4, 8, 8), loans, hp("h", gpus=4)) == ("n0", ["a"], "cheapest of 2 nodes on loan")
    assert reclaimed((4, 8, 8), loans, hp("h", gpus=8)) == ("n1", ["b"], "only node on loan that suffices")
    assert reclaimed((4, 8, 8), {"a": "n0"}, hp("h", gpus=8)) is None
    assert reclaimed((4, 8, 8), {}, hp("h", gpus=1)) is None


def test_costs_follow_what_comes_and_goes() -> None:
    stage = Stage(8, 8, 8)
    preemptor = ReclaimPreemptor(stage.state)

    def cheapest() -> tuple[str, int]:
        found = preemptor.choose(hp("h").task(), now=0.0)
        assert found is not None
        return found.node.name, len(found.runs)

    stage.spread(["n0"], spot("a"))
    assert cheapest() == ("n0", 1)
    pair = stage.spread(["n1", "n2"], spot("pair", pods=2))  # n1 and n2: 1/2 each, n0: 1
    assert cheapest() == ("n1", 1)
    stage.spread(["n0", "n1", "n2"], spot("trio", pods=3))  # n0: 1 + 1/3, n1 and n2: 1/2 + 1/3 = 5/6
    assert cheapest() == ("n1", 2)
    stage.state.finish(pair, 10.0)  # n0: 1 + 1/3, n1 and n2: 1/3
    assert cheapest() == ("n1", 1)
    stage.spread(["n1"], spot("b"))  # n1: 1/3 + 1
    assert cheapest() == ("n2", 1)


# -- what HP does with it ---------------------------------------------------------------------------------


def test_idle_cards_of_a_node_on_loan_are_not_for_hp() -> None:
    # Six of eight cards are idle, but the node is on loan: it is returned whole, s must go.
    story = play(nodes(8), spot("s", gpus=2, lasting=900), hp("h", gpus=2, at=100, lasting=10))
    assert story.evicted("s") == [100.0]
    assert story.where("h") == ["n0/0+1"]
    assert story.started("h") == [130.0]
    assert story.started("s") == [0.0, 140.0]  # not before h has gone: the node is in use by HP


@pytest.mark.parametrize("gpus", [0.1, 1])
def test_even_a_fraction_takes_a_whole_node_back(gpus: float) -> None:
    story = play(
        nodes(2), spot("a", lasting=900), spot("b", gpus=0.5, lasting=900), hp("h", gpus=gpus, at=100, lasting=10)
    )
    assert sorted(story.victims()) == ["a", "b"]


def test_nodes_that_are_not_on_loan_come_first() -> None:
    # HP first: a is on n0, where three cards are idle; s has n1 on loan; n2 is empty.
    story = play(
        nodes(4, 4, 4),
        spot("s", gpus=4, lasting=900),
        hp("a", lasting=900),
        hp("gang", gpus=3, pods=2, at=100),
    )
    assert story.on("s") == ["n1"]
    assert story.on("gang") == ["n0", "n2"]
    assert story.victims() == []


def test_all_pods_start_after_the_grace_period_and_the_cards_are_held_meanwhile() -> None:
    story = play(
        nodes(4, 4),
        spot("s", gpus=4, lasting=9000),
        hp("h", gpus=4, pods=2, at=100, lasting=10),
        spot("x", at=110, lasting=10),
    )
    assert story.on("h") == ["n1", "n0"]  # the empty node, then the one that had to be returned
    assert story.spans("h") == [(130.0, 140.0)]
    assert story.started("x") == [140.0]


def test_the_other_nodes_of_an_evicted_gang_are_used_before_anyone_else_is_evicted() -> None:
    # n0: a, cost 1. n1 and n2: gang, 1/2 each. The first pod takes n1 back; that empties n2 for the second.
    story = play(
        nodes(4, 4, 4),
        spot("a", gpus=4, lasting=900),
        spot("gang", gpus=4, pods=2, lasting=900),
        hp("h", gpus=4, pods=2, at=100),
    )
    assert (story.on("a"), story.on("gang")) == (["n0"], ["n1", "n2"])
    assert story.victims() == ["gang"]
    assert story.on("h") == ["n1", "n2"]


def test_costs_are_those_after_the_nodes_already_taken_back() -> None:
    # Before:  n0: v + w/2 = 3/2   n1: w/2 + x = 3/2   n2: u + p/2 = 3/2   n3: p/2 + q/2 = 1   n4: q/2 + y = 3/2
    # The first pod takes n3 back: p and q go. After:  n2: u = 1, n4: y = 1; n0 and n1 as before.
    # So the second pod takes n2; by the costs from before it would be n0.
    stage = Stage(*[4] * 5)
    preemptor = ReclaimPreemptor(stage.state)
    loans = {"v": "n0", "w": "n0 n1", "x": "n1", "u": "n2", "p": "n2 n3", "q": "n3 n4", "y": "n4"}
    runs = {}
    for name, where in loans.items():
        names = where.split()
        runs[name] = stage.spread(names, spot(name, pods=len(names)))
    wish = hp("h", gpus=4, pods=2).task()
    first = preemptor.choose(wish, now=0.0)
    assert first is not None
    assert (first.node.name, list(first.runs)) == ("n3", [runs["p"], runs["q"]])
    for run in first.runs:
        stage.evicts(run)
    second = preemptor.choose(wish, now=0.0)
    assert second is not None
    assert (second.node.name, list(second.runs)) == ("n2", [runs["u"]])


def test_nothing_is_evicted_if_the_gang_cannot_fit_anyway() -> None:
    story = play(
        nodes(4, 4, 4),
        hp("fixed", lasting=500),
        spot("s1", gpus=4, lasting=400),
        spot("s2", gpus=4, lasting=400),
        hp("h", gpus=4, pods=3, at=100),
    )
    assert story.victims() == []
    assert story.started("h") == [500.0]


def test_a_victim_may_start_again_at_once_on_another_node() -> None:
    # Only n0 is large enough for h. small finds room on n1, s (3 cards) must wait for n0.
    story = play(
        nodes(4, 2, 2),
        spot("s", gpus=3, lasting=900),
        spot("small", lasting=900),
        hp("h", gpus=4, at=100, lasting=10),
    )
    assert (story.on("s"), story.on("small")) == (["n0"], ["n0"])
    assert story.started("small") == [0.0, 100.0]
    assert story.on("small", run=2) == ["n1"]
    assert story.started("s") == [0.0, 140.0]


# -- the words --------------------------------------------------------------------------------------------


HP_HAS = "in use by HP, not on loan"
LENT = "on loan to spot tasks"


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (
            NoRoom("A100", 1, 2, idle=12, gap=5, slots=5, closed=3, why_closed=HP_HAS),
            "pool A100: 12 idle GPUs, but the 3 nodes with room are in use by HP, not on loan",
        ),
        (
            NoRoom("A100", 1, 2, idle=2, gap=2, slots=1, closed=1, why_closed=HP_HAS),
            "pool A100: 2 idle GPUs, but the node with room is in use by HP, not on loan",
        ),
        (
            NoRoom("A100", 2, 2, idle=12, gap=5, slots=5, closed=3, why_closed=HP_HAS),  # one may fit elsewhere
            "pool A100: 12 idle GPUs, but 3 nodes with room are in use by HP, not on loan",
        ),
        (
            NoRoom("A100", 9, 2, idle=12, gap=5, slots=5, closed=5, without_spot=8, why_closed=LENT),
            "pool A100: 12 idle GPUs, room for 5 of 9 pods of 2; without any spot task 8 of 9 pods would fit;"
            " 5 nodes with room are on loan to spot tasks",
        ),
        (
            NoRoom("A100", 1, 8, idle=12, gap=6, slots=0, why_closed=HP_HAS),
            "pool A100: 12 idle GPUs but no node has 8; largest gap 6",
        ),
    ],
)
def test_words(reason: NoRoom, text: str) -> None:
    assert reason.text() == text


def test_refused_nodes_are_counted_where_a_pod_would_fit() -> None:
    stage = Stage(8, 8, 4, 1, 1)
    stage.holds("n0", hp("a", gpus=2))  # in use by HP, 6 idle
    stage.holds("n1", hp("b", gpus=0.5))  # in use by HP, 7 idle
    stage.holds("n2", spot("c", gpus=1))  # on loan, 3 idle
    stage.holds("n3", hp("d", gpus=0.5))  # in use by HP, half a card free
    stage.holds("n4", spot("e", gpus=0.7))  # on loan, 0.3 of a card free
    placer = LoanPlacer(stage.pool)

    def refused(draft: Draft) -> int:
        count, why = placer.closed(draft.task())
        assert why == (HP_HAS if draft.task().is_spot else LENT)
        return count

    assert [refused(spot("x", gpus=g)) for g in (8, 7, 6, 1)] == [0, 1, 2, 2]
    assert [refused(spot("x", gpus=g)) for g in (0.5, 0.6)] == [3, 2]  # n0, n1 and, if it fits, n3
    assert [refused(hp("x", gpus=g)) for g in (4, 3, 1)] == [0, 1, 1]
    assert [refused(hp("x", gpus=g)) for g in (0.3, 0.4)] == [2, 1]


def test_a_spot_task_is_told_whose_the_idle_cards_are() -> None:
    story = play(nodes(8, 8), hp("a", gpus=6), hp("b", gpus=5), spot("s", gpus=2, at=10), spot("t", gpus=3, at=11))
    # 2 idle on n0, 3 on n1.
    assert story.why_waited("s") == ("pool A100: 5 idle GPUs, but the 2 nodes with room are in use by HP, not on loan")
    assert story.why_waited("t") == "pool A100: 5 idle GPUs, but the node with room is in use by HP, not on loan"


def test_an_hp_task_is_told_what_is_on_loan() -> None:
    # a leaves 2 cards of n0, s 4 of n1: room for one pod of 4; if s went, for two.
    story = play(
        nodes(8, 8), hp("a", gpus=6), spot("s", gpus=4, lasting=900), hp("b", gpus=4, pods=4, at=10, lasting=10)
    )
    assert story.why_waited("b") == (
        "pool A100: 6 idle GPUs, room for 1 of 4 pods of 4; without any spot task 2 of 4 pods would fit;"
        " 1 node with room is on loan to spot tasks"
    )


def test_an_eviction_says_out_of_how_many_nodes_on_loan() -> None:
    story = play(
        nodes(8, 8, 8),
        *[spot(f"s{i}", gpus=8, lasting=9000) for i in range(3)],
        hp("h", gpus=8, at=720),
    )
    assert story.why_evicted("s0") == "evicted for h on n0: cheapest of 3 nodes on loan, lost 12 min x 8 GPUs"
