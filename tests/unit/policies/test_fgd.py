"""FGD (docs/schedulers/fgd.md): expected fragmentation F, the node where it grows least, victims by the same gradient.

F of a node with k idle cards and free parts r on divided cards, for a mix of tasks:
    F = k x P(more than k cards) + sum of r x P(more than r)
The product keeps F times the number of tasks, in micro-cards; `f` below turns that into cards x tasks.
"""

from __future__ import annotations

import pytest

from builders import Draft, Stage, hp, nodes, play, spot
from gfs import NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import Submitted
from gfs.core.node import Node
from gfs.domain.units import MICRO
from gfs.policies.fgd.fragmentation import ArrivalMix
from gfs.policies.fgd.placement import FgdPlacer
from gfs.policies.fgd.preemption import FgdPreemptor


def mix_of(counts: dict[float, int]) -> ArrivalMix:
    """A mix of so many tasks of each size."""
    mix = ArrivalMix()
    for gpus, count in counts.items():
        mix.learn([hp("x", gpus=gpus).task()] * count)
    return mix


def f(mix: ArrivalMix, idle: int, *parts: float) -> float:
    """F of a node in cards x tasks."""
    return mix.fragmentation(idle, [round(part * MICRO) for part in parts]) / MICRO


def name_of(node: Node | None) -> str | None:
    return node.name if node else None


def chosen(stage: Stage, draft: Draft, mix: ArrivalMix) -> str | None:
    return name_of(FgdPlacer(stage.state, mix).choose(draft.task()))


def displaced(stage: Stage, draft: Draft, mix: ArrivalMix) -> tuple[str, set[str]] | None:
    """Node and victims for one pod of an HP task."""
    victims = FgdPreemptor(stage.pool, mix).choose(draft.task(1000), 0.0)
    return victims and (victims.node.name, {run.task.name for run in victims.runs})


ONES_AND_EIGHTS = mix_of({1: 1, 8: 1})
PAPER = mix_of({1: 55, 2: 14, 4: 7, 8: 24})
"""About the HP mix of the paper. Tasks that want more than k cards: 45 for k = 1, 31 for 2 and 3, 24 for 4 to 7.
F of k idle cards: 1: 45, 2: 62, 3: 93, 4: 96, 5: 120, 6: 144, 7: 168, 8: 0."""


# -- F -----------------------------------------------------------------------------------------------------


def test_idle_cards_count_for_each_task_that_wants_more() -> None:
    assert [f(PAPER, idle) for idle in range(9)] == [0, 45, 62, 93, 96, 120, 144, 168, 0]


def test_free_parts_are_lost_to_whole_cards_and_to_larger_fractions() -> None:
    # Tasks: 2 of a whole card, 3 of 0.5, 1 of 0.25. A free part of 0.3 is too small for five of the six, a part of
    # 0.5 for the two whole cards, a part of 0.2 for all.
    mix = mix_of({1: 2, 0.5: 3, 0.25: 1})
    assert f(mix, 0, 0.3) == pytest.approx(0.3 * 5)
    assert f(mix, 0, 0.5) == pytest.approx(0.5 * 2)
    assert f(mix, 0, 0.2) == pytest.approx(0.2 * 6)


def test_idle_cards_and_free_parts_add_up() -> None:
    # 8 cards do not fit on 2 idle ones: everything is lost to them, 2 + 0.5. One card fits: only the part is lost.
    # Half a card fits: nothing is lost, the part is as large.
    mix = mix_of({8: 1, 1: 1, 0.5: 1})
    assert f(mix, 2, 0.5) == pytest.approx((2 + 0.5) + 0.5 + 0)


def test_two_parts_do_not_make_a_whole() -> None:
    # 0.7 fits on neither of two halves: 1.0 lost.
    assert f(mix_of({0.7: 1}), 0, 0.5, 0.5) == 1.0
    # With an idle card it fits, but the halves remain too small.
    assert f(mix_of({0.7: 1}), 1, 0.5, 0.5) == 1.0


def test_without_arrivals_nothing_is_known_and_f_is_0() -> None:
    assert f(ArrivalMix(), 5, 0.5) == 0


def test_of_given_nodes_a_fraction_takes_the_one_where_f_grows_least() -> None:
    # Mix: a whole card and a half. Half a card of n0 leaves half a card that is lost to the whole one: F grows by 0.5.
    # The half that n1 has left was lost to it already: F falls by 0.5.
    stage = Stage(1, 1)
    stage.holds("n1", hp("h", gpus=0.5))
    placer, half = FgdPlacer(stage.state, mix_of({1: 1, 0.5: 1})), hp("x", gpus=0.5).task()
    assert name_of(placer.best_of(half, stage.pool.nodes)) == "n1"
    assert name_of(placer.best_of(half, [stage.node("n0")])) == "n0"
    assert placer.best_of(half, []) is None


def test_a_gang_counts_once_with_the_request_of_a_pod() -> None:
    mix = ArrivalMix()
    mix.learn([spot("gang", gpus=2, pods=50).task(), hp("single", gpus=2).task()])
    assert mix.tasks == {2 * MICRO: 2}


# -- placing whole cards -----------------------------------------------------------------------------------


def test_breaking_into_an_empty_node_costs_most() -> None:
    # F of k idle cards is k for k < 8 (lost to the one task of 8), 0 for 8.
    # n0: 8 -> 7 idle, 0 -> 7: growth 7. n1: 7 -> 6 idle: growth -1.
    stage = Stage(8, 8)
    stage.holds("n1", hp("a"))
    assert chosen(stage, hp("x"), ONES_AND_EIGHTS) == "n1"
    assert chosen(stage, hp("x", gpus=8), ONES_AND_EIGHTS) == "n0"


def test_the_growth_decides_not_how_full_a_node_is() -> None:
    # One card: 2 -> 1 idle, 62 -> 45: growth -17. 3 -> 2: 93 -> 62: -31. 5 -> 4: 120 -> 96: -24.
    stage = Stage(8, 8, 8)
    stage.holds("n0", hp("a", gpus=6))
    stage.holds("n1", hp("b", gpus=5))
    stage.holds("n2", hp("c", gpus=3))
    assert chosen(stage, hp("x"), PAPER) == "n1"
    # Two cards: 2 -> 0: 62 -> 0: -62. 3 -> 1: 93 -> 45: -48. 5 -> 3: 120 -> 93: -27.
    assert chosen(stage, hp("x", gpus=2), PAPER) == "n0"
    # Four cards: only n2, 5 -> 1.
    assert chosen(stage, hp("x", gpus=4), PAPER) == "n2"


def test_both_classes_are_placed_alike() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", hp("a", gpus=6))
    stage.holds("n1", spot("b", gpus=5))
    assert chosen(stage, spot("x"), PAPER) == chosen(stage, hp("x"), PAPER) == "n1"


def test_equal_growth_goes_by_node_id_not_by_idle_cards() -> None:
    # Under ones and eights each card on a node with 1 to 7 idle ones is a growth of -1.
    stage = Stage(8, 8, 8)
    stage.holds("n1", hp("a", gpus=2))
    stage.holds("n2", hp("b", gpus=7))
    assert chosen(stage, hp("x"), ONES_AND_EIGHTS) == "n1"


def test_a_small_node_is_open_to_small_tasks_for_nothing() -> None:
    # n0: 8 -> 7: 0 -> 168. n1, of 4 cards: 4 -> 3: 96 -> 93. n2, of 1 card: 1 -> 0: 45 -> 0.
    stage = Stage(8, 4, 1)
    assert chosen(stage, hp("x"), PAPER) == "n2"
    stage.holds("n2", hp("a"))
    assert chosen(stage, hp("x"), PAPER) == "n1"


def test_no_node_with_enough_idle_cards_means_none() -> None:
    stage = Stage(4, 4)
    stage.holds("n0", hp("a"))
    stage.holds("n1", hp("b"))
    assert chosen(stage, hp("x", gpus=4), PAPER) is None


def test_the_next_pod_of_a_gang_may_grow_f_less_elsewhere() -> None:
    # One card: 3 -> 2 idle is -31 (n0), then 2 -> 1 is -17, but 5 -> 4 is -24 (n1), then 4 -> 3 is -3.
    stage = Stage(8, 8)
    stage.holds("n0", hp("a", gpus=5))
    stage.holds("n1", hp("b", gpus=3))
    placer = FgdPlacer(stage.state, PAPER)
    gang = hp("gang").task(9)
    where = []
    for _ in range(4):
        node = placer.choose(gang)
        assert node is not None
        where.append(node.name)
        stage.pool.occupy(node, gang)
    # n0: 3 -> 2 (-31); n1: 5 -> 4 (-24) before n0: 2 -> 1 (-17), then n0: 1 -> 0 (-45).
    assert where == ["n0", "n1", "n0", "n0"]
    assert not placer.fills_up


# -- placing fractions -------------------------------------------------------------------------------------

HALVES_AND_ONES = mix_of({0.5: 1, 1: 1})


def test_a_fraction_closes_a_gap_rather_than_opening_a_card() -> None:
    # n0: opens one of 2 idle cards: F 0 -> 0 (1 idle) + 0.5 x 1 (the rest, lost to the whole card): growth 0.5.
    # n1: the free half is lost to the whole card (0.5), then it is used up: growth -0.5.
    stage = Stage(2, 2)
    stage.holds("n1", hp("a", gpus=0.5))
    assert chosen(stage, hp("x", gpus=0.5), HALVES_AND_ONES) == "n1"
    # 0.6 does not fit beside 0.5: both nodes would open a card, n0 with 2 -> 1 and n1 with 1 -> 0 idle, growth
    # 0.4 x 2 on both: the id decides.
    assert chosen(stage, hp("x", gpus=0.6), HALVES_AND_ONES) == "n0"


def test_what_a_fraction_leaves_behind_counts() -> None:
    # Tasks: one of 0.3, one of 1. n0 has 0.6 free: 0.6 x 1 (lost to the whole card) -> 0.3 x 1: growth -0.3.
    # n1 has 0.4 free: 0.4 x 1 -> 0.1 x 2 (now too small for 0.3 as well): growth -0.2.
    mix = mix_of({0.3: 1, 1: 1})
    stage = Stage(1, 1)
    stage.holds("n0", hp("a", gpus=0.4))
    stage.holds("n1", hp("b", gpus=0.6))
    assert chosen(stage, hp("x", gpus=0.3), mix) == "n0"
    assert chosen(stage, hp("x", gpus=0.4), mix) == "n1"  # 0.4 -> 0: -0.4, against 0.6 -> 0.2 x 2: -0.2


def test_the_growth_is_that_of_the_card_the_pool_would_take() -> None:
    # n0 has free parts of 0.4 and 0.7; a fraction of 0.3 goes to the 0.4 (fullest that fits): 0.4 -> 0.1 x 2, that
    # is -0.2. The 0.7 would be 0.7 -> 0.4: -0.3, as on n1, but it is not the card that would be taken. So n1.
    mix = mix_of({0.3: 1, 1: 1})
    stage = Stage(2, 1)
    stage.holds("n0", hp("a", gpus=0.6))
    in_the_way = stage.holds("n0", hp("b", gpus=0.4))
    stage.holds("n0", hp("c", gpus=0.3))
    stage.pool.release(in_the_way.places)
    stage.holds("n1", hp("d", gpus=0.3))
    assert chosen(stage, hp("x", gpus=0.3), mix) == "n1"
    assert chosen(stage, hp("x", gpus=0.5), mix) == "n0"  # 0.7 -> 0.2 x 2 on both nodes


def test_nodes_are_ranked_as_they_are_chosen_after_each_change() -> None:
    # The task that came wants two cards: a fraction opens a lone card (n0, n2) before one of two idle ones (n1),
    # and closes a gap first.
    stage, mix = Stage(1, 2, 1), mix_of({2: 1})
    placer, half = FgdPlacer(stage.state, mix), spot("x", gpus=0.5).task()
    assert [node.name for node in placer.ranked(half)] == ["n0", "n2", "n1"]
    run = stage.holds("n0", hp("a", gpus=1))
    assert [node.name for node in placer.ranked(half)] == ["n2", "n1"]
    stage.holds("n1", hp("b", gpus=1))
    stage.state.finish(run, 1.0)
    assert [node.name for node in placer.ranked(half)] == ["n0", "n1", "n2"]
    assert [node.name for node in placer.ranked(hp("y", gpus=2).task())] == []


def test_a_fraction_opens_the_card_that_is_missed_least() -> None:
    # No divided card, half a card: n0: 8 -> 7 idle: +168; n1: 3 -> 2: -31; the rest, 0.5 x 100, is the same.
    stage = Stage(8, 8)
    stage.holds("n1", hp("a", gpus=5))
    assert chosen(stage, hp("x", gpus=0.5), PAPER) == "n1"


# -- victims on a node ---------------------------------------------------------------


def test_fewest_go_and_of_equally_many_those_after_which_f_is_least() -> None:
    # Three cards are wanted of 4 + 2 + 2 + 1: the 4 alone suffices, though it leaves 1 idle (F 45) and 2 + 1 none.
    stage = Stage(9)
    stage.holds("n0", spot("four", gpus=4))
    stage.holds("n0", spot("two", gpus=2))
    stage.holds("n0", spot("one", gpus=1))
    stage.holds("n0", spot("two more", gpus=2))
    assert displaced(stage, hp("h", gpus=3), PAPER) == ("n0", {"four"})
    # Five are wanted, nobody makes room alone: those that hold least stay first, so the 1 and the earlier 2.
    assert displaced(stage, hp("h", gpus=5), PAPER) == ("n0", {"two more", "four"})


def test_nobody_goes_who_could_stay_even_if_f_would_be_less() -> None:
    # Mix: ten tasks of 2, one of 8. F of 1 idle card is 1 x 11, of 3 idle cards 3 x 1.
    # Three cards of 2 + 2 + 2: two must go and leave 1; if all went, F would be less, but one can stay.
    stage = Stage(6)
    for name in ("first", "second", "third"):
        stage.holds("n0", spot(name, gpus=2))
    assert displaced(stage, hp("h", gpus=3), mix_of({2: 10, 8: 1})) == ("n0", {"third", "second"})


def test_equal_sets_later_tasks_go() -> None:
    # Two cards of 1 + 1 + 1: two go, the later ones.
    stage = Stage(3)
    for name in ("first", "second", "third"):
        stage.holds("n0", spot(name))
    assert displaced(stage, hp("h", gpus=2), PAPER) == ("n0", {"third", "second"})


def test_equal_sets_of_different_sizes_later_tasks_go() -> None:
    # Mix of ones: F is 0 everywhere, so any one victim will do for one card; the latest holds 2.
    stage = Stage(6)
    stage.holds("n0", spot("three", gpus=3))
    stage.holds("n0", spot("one"))
    stage.holds("n0", spot("two", gpus=2))
    assert displaced(stage, hp("h"), mix_of({1: 1})) == ("n0", {"two"})


# -- the node that is taken --------------------------------------------------------------------------------


def test_the_node_where_f_grows_least_is_taken() -> None:
    # Two cards are wanted. n0: 0 idle, the 4 goes, 2 left: 0 -> 62. n1: 1 idle and a 1 goes: 45 -> 0: growth -45.
    stage = Stage(4, 4)
    stage.holds("n0", spot("four", gpus=4))
    stage.holds("n1", hp("fixed", gpus=2))
    stage.holds("n1", spot("one"))
    assert displaced(stage, hp("h", gpus=2), PAPER) == ("n1", {"one"})


def test_the_growth_counts_not_f_itself() -> None:
    # Three cards. n0: 2 idle, the 2 goes, 1 left: 62 -> 45: growth -17. n1: 0 idle, the 3 goes: 0 -> 0.
    stage = Stage(4, 3)
    stage.holds("n0", spot("two", gpus=2))
    stage.holds("n1", spot("three", gpus=3))
    assert displaced(stage, hp("h", gpus=3), PAPER) == ("n0", {"two"})


def test_fewer_victims_come_before_less_growth() -> None:
    # Eight cards. n0: 6 idle, two go: 144 -> 0: growth -144. n1: one goes: growth 0.
    stage = Stage(8, 8)
    stage.holds("n0", spot("a"))
    stage.holds("n0", spot("b"))
    stage.holds("n1", spot("c", gpus=8))
    assert displaced(stage, hp("h", gpus=8), PAPER) == ("n1", {"c"})


def test_equal_growth_fewer_victims_then_node_id() -> None:
    # Two cards, nothing idle, nothing left: growth 0 on all.
    stage = Stage(2, 2, 2)
    stage.holds("n0", spot("a"))
    stage.holds("n0", spot("b"))
    stage.holds("n1", spot("c", gpus=2))
    stage.holds("n2", spot("d", gpus=2))
    assert displaced(stage, hp("h", gpus=2), PAPER) == ("n1", {"c"})


def test_what_a_gang_frees_elsewhere_does_not_count() -> None:
    # n0: the gang's pod goes, nothing is left there: growth 0; that n1 then has 1 idle (F 45) is not seen.
    # n2: the 2 goes for one card, 1 left: growth 45.
    stage = Stage(1, 1, 2)
    stage.spread(["n0", "n1"], spot("gang", pods=2))
    stage.holds("n2", spot("two", gpus=2))
    assert displaced(stage, hp("h"), PAPER) == ("n0", {"gang"})


def test_nodes_that_cannot_hold_the_pod_are_passed_by() -> None:
    stage = Stage(4, 4)
    stage.holds("n0", hp("fixed", gpus=2))
    stage.holds("n0", spot("a", gpus=2))
    assert displaced(stage, hp("h", gpus=3), PAPER) is None  # nobody to evict on n1
    stage.holds("n1", spot("b", gpus=4))
    assert displaced(stage, hp("h", gpus=3), PAPER) == ("n1", {"b"})


def test_a_fraction_displaces_a_whole_card_and_the_rest_counts() -> None:
    # Half a card. n0: the 2 goes, 1 left idle and half a card: 0 -> 45 + 50. n1: the 1 goes, half left: 0 -> 50.
    stage = Stage(2, 1)
    stage.holds("n0", spot("two", gpus=2))
    stage.holds("n1", spot("one"))
    assert displaced(stage, hp("h", gpus=0.5), PAPER) == ("n1", {"one"})


# -- victims on divided cards ------------------------------------------------------------------------------


def test_a_fraction_displaces_the_fraction_it_can_replace_exactly() -> None:
    # Half a card. n0: the 1 goes, half a card left: growth 50 x 1. n1: one half goes for the other: growth 0.
    stage = Stage(1, 1)
    stage.holds("n0", spot("one"))
    stage.holds("n1", spot("half", gpus=0.5))
    stage.holds("n1", spot("other", gpus=0.5))
    assert displaced(stage, hp("h", gpus=0.5), PAPER) == ("n1", {"other"})


def test_one_that_suffices_goes_before_several_that_would_leave_less() -> None:
    # One card of: 3 held by one run; two halves on a card. Both halves must go together and would leave nothing
    # (F 0), the 3 leaves 2 idle (F 62): one run that suffices comes first.
    stage = Stage(4)
    stage.holds("n0", spot("three", gpus=3))
    stage.holds("n0", spot("a", gpus=0.5))
    stage.holds("n0", spot("b", gpus=0.5))
    assert displaced(stage, hp("h"), PAPER) == ("n0", {"three"})


def test_where_several_must_go_the_run_after_which_f_is_least_goes() -> None:
    # Two GPUs of: 0.9 on GPU 0, 0.9 on GPU 1, 0.5 + 0.5 on GPU 2, nothing idle. Nobody suffices alone, nobody holds
    # a whole GPU. A half gone leaves 0.1 + 0.1 + 0.5, F 70; a 0.9 gone leaves an idle GPU (45) and 0.1 (10), F 55.
    # So the halves stay, and both 0.9 go.
    stage = Stage(3)
    for name, gpus in {"a": 0.9, "b": 0.9, "c": 0.5, "d": 0.5}.items():
        stage.holds("n0", spot(name, gpus=gpus))
    assert displaced(stage, hp("h", gpus=2), PAPER) == ("n0", {"a", "b"})
    # All three GPUs: all must go.
    assert displaced(stage, hp("h", gpus=3), PAPER) == ("n0", {"a", "b", "c", "d"})


def test_of_equal_f_the_later_run_goes() -> None:
    # One GPU, mix of ones: one idle GPU more or less makes no difference to F. Both suffice, the 1 came later.
    stage = Stage(4)
    stage.holds("n0", hp("half", gpus=0.5))
    stage.holds("n0", spot("two", gpus=2))
    stage.holds("n0", spot("one"))
    assert displaced(stage, hp("h"), mix_of({1: 1})) == ("n0", {"one"})


def test_where_several_must_go_those_that_hold_least_stay() -> None:
    # Six GPUs of 1 + 1 + 2 + 3 beside an HP fraction: nobody suffices alone. Without early 6 are left: it stays; then
    # nobody else can.
    stage = Stage(8)
    stage.holds("n0", hp("fixed", gpus=0.5))
    stage.holds("n0", spot("early"))
    stage.holds("n0", spot("late"))
    stage.holds("n0", spot("two", gpus=2))
    stage.holds("n0", spot("three", gpus=3))
    assert displaced(stage, hp("h", gpus=6), mix_of({8: 1})) == ("n0", {"three", "two", "late"})


def test_a_run_of_which_cpus_are_needed_goes_though_its_gpus_are_not() -> None:
    # One GPU and 10 CPUs are wanted. 2 GPUs and 4 CPUs are free: without few there are 8 CPUs, without many 28.
    node = NodeSpec(0, "n0", "A100", 8, cpus=32.0)
    scheduler = build_scheduler("fgd", [node], Parameters(resources="on"), period=86400.0)
    asks = {"few": (3.0, 4.0), "many": (3.0, 24.0)}
    for index, (name, (gpus, cpus)) in enumerate(asks.items()):
        task = Task(index, name, "lab", "A100", Priority.SPOT, 1, gpus, 0.0, cpus_per_pod=cpus)
        assert scheduler.handle(0.0, [Submitted(task)]).starts
    plan = scheduler.handle(
        10.0, [Submitted(Task(2, "h", "lab", "A100", Priority.HP, 1, 1.0, 10.0, cpus_per_pod=10.0))]
    )
    assert [eviction.run.task.name for eviction in plan.evictions] == ["many"]


def test_a_run_with_fractions_of_several_cards_goes_from_all_of_them() -> None:
    # Two cards. Both nodes have HP 0.3 + spot 0.6 on card 0, spot 0.6 on cards 1 and 2: F (0.1 + 0.4 + 0.4) x 100.
    # n0: the gang has cards 0 and 1, so both tasks must go, and 0.7 of card 0 is free: 90 -> 70.
    # n1: the gang has cards 1 and 2, so it alone must go, and 0.1 of card 0 is free: 90 -> 10.
    stage = Stage(3, 3)
    for name, spot_tasks in {"n0": ("gang", "single"), "n1": ("single", "gang")}.items():
        stage.holds(name, hp("fixed", gpus=0.3))
        for task in spot_tasks:
            stage.holds(name, spot(f"{task} of {name}", gpus=0.6, pods=2 if task == "gang" else 1))
    assert displaced(stage, hp("h", gpus=2), PAPER) == ("n1", {"gang of n1"})


def test_cards_of_hp_are_out_of_reach() -> None:
    stage = Stage(1, 2)
    stage.holds("n0", hp("fixed", gpus=0.1))
    stage.holds("n0", spot("a", gpus=0.9))
    assert displaced(stage, hp("h"), PAPER) is None
    assert displaced(stage, hp("h", gpus=0.9), PAPER) == ("n0", {"a"})


# -- whole runs --------------------------------------------------------------------------------------------


def test_an_arrival_is_counted_before_anyone_is_placed() -> None:
    # x wants one card while z, at the same instant, wants four. n0: 4 -> 3 idle: 0 -> 3 x 1. n1: 2 -> 1: 2 -> 1.
    story = play(nodes(4, 2), hp("x"), hp("z", gpus=4), scheduler="fgd")
    assert story.on("x") == ["n1"]
    assert story.started("z") == [0.0]


def test_nothing_is_known_of_the_future() -> None:
    # z comes a second later: x knows only its own size, F is 0 everywhere and the first node is as good as any.
    story = play(nodes(4, 2), hp("x"), hp("z", gpus=4, at=1), scheduler="fgd")
    assert story.on("x") == ["n0"]
    assert story.started("z") == [100.0]


def test_both_classes_and_pools_by_themselves_make_the_mix() -> None:
    # The four cards may be wanted by a spot task, but not in another pool.
    story = play(nodes(4, 2), hp("x"), spot("z", gpus=4), scheduler="fgd")
    assert story.on("x") == ["n1"]
    machines = [*nodes(4, 2), *nodes(4, model="T4", prefix="t")]
    story = play(machines, hp("x"), spot("z", gpus=4, model="T4"), scheduler="fgd")
    assert story.on("x") == ["n0"]


def test_a_task_that_does_not_fit_lets_the_next_one_try() -> None:
    story = play(nodes(2), hp("a"), hp("b", gpus=2, at=1), hp("c", at=2, lasting=10), scheduler="fgd")
    assert story.started("c") == [2.0]
    assert story.started("b") == [100.0]


def test_hp_displaces_spot_along_the_gradient_and_the_log_says_so() -> None:
    # At 100 the mix is: 2 tasks of 1, 2 of 2, 1 of 4. n0: big alone, 4 cards; n1: small and tiny, and 1 idle.
    # h wants 2. n0: 0 idle, then 2: 0 -> 2 x 1. n1: without small 1 + 2 - 2 = 1 idle: 1 x 3 -> 1 x 3; without tiny
    # 1 + 1 - 2 = 0 idle: 1 x 3 -> 0: growth -3.
    story = play(
        nodes(4, 4),
        spot("big", gpus=4, lasting=9000),
        spot("small", gpus=2, at=1, lasting=9000),
        spot("tiny", at=2, lasting=9000),
        hp("short", at=3, lasting=10),
        hp("h", gpus=2, at=100, lasting=50),
        scheduler="fgd",
    )
    assert story.victims() == ["tiny"]
    assert story.on("h") == ["n1"]
    assert story.spans("h") == [(130.0, 180.0)]
    assert "least fragmentation of 2 nodes" in story.why_evicted("tiny")


def test_nothing_is_evicted_unless_the_whole_gang_fits() -> None:
    story = play(
        nodes(2, 2),
        hp("fixed", gpus=2, lasting=500),
        spot("s", gpus=2, lasting=900),
        hp("gang", gpus=2, pods=2, at=100),
        scheduler="fgd",
    )
    assert story.evicted("s") == [500.0]
    assert story.started("gang") == [530.0]
