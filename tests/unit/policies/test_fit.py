"""Placement by idle cards alone: best fit (yarn-cs) and first fit (static)."""

from __future__ import annotations

from builders import Draft, Stage, hp, spot
from gfs import NodeSpec
from gfs.core.node import Node
from gfs.core.ports import Placer
from gfs.core.state import PoolState
from gfs.domain.task import Role
from gfs.policies.placement import Chooser, FitPlacer, best_fit, first_fit


def chosen(placer: FitPlacer, draft: Draft) -> str | None:
    node = placer.choose(draft.task())
    return node.name if node else None


def scene() -> Stage:
    """n0: 5 of 8 idle; n1: 3 of 4 idle; n2: 1 of 1 idle; n3: 0 of 1 idle, half of its card free."""
    stage = Stage(8, 4, 1, 1)
    stage.holds("n0", hp("a", gpus=3))
    stage.holds("n1", spot("b", gpus=1))
    stage.holds("n3", hp("c", gpus=0.5))
    return stage


def test_best_fit_counts_idle_cards_not_their_share() -> None:
    placer = best_fit(scene().pool)
    assert chosen(placer, hp("x", gpus=1)) == "n2"  # 1 idle
    assert chosen(placer, hp("x", gpus=2)) == "n1"  # 3 idle, though GFS would take n0: 5/8 < 3/4
    assert chosen(placer, hp("x", gpus=4)) == "n0"
    assert chosen(placer, hp("x", gpus=6)) is None


def test_first_fit_takes_the_lowest_id() -> None:
    placer = first_fit(scene().pool)
    assert chosen(placer, hp("x", gpus=1)) == "n0"
    assert chosen(placer, hp("x", gpus=6)) is None
    stage = Stage(1, 4, 8)
    assert chosen(first_fit(stage.pool), hp("x", gpus=4)) == "n1"


def test_best_fit_of_a_fraction_is_a_divided_card_on_a_full_node() -> None:
    placer = best_fit(scene().pool)
    assert chosen(placer, hp("x", gpus=0.5)) == "n3"
    assert chosen(placer, hp("x", gpus=0.6)) == "n2"


def test_first_fit_of_a_fraction_is_the_lowest_id_with_room() -> None:
    placer = first_fit(scene().pool)
    assert chosen(placer, hp("x", gpus=0.5)) == "n0"


def test_class_and_history_do_not_matter() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", spot("s", gpus=2))
    stage.holds("n1", hp("h", gpus=2))
    for placer in (best_fit(stage.pool), first_fit(stage.pool)):
        stage.evicts(stage.holds("n0", spot("victim")))
        assert chosen(placer, spot("x")) == chosen(placer, hp("x")) == "n0"
        assert placer.closed(spot("x").task()) == (0, ""), "it uses every node with room"


class FirstChoice(Placer):
    """A placer that names its first choice and nothing else: the last node with the GPUs."""

    def choose(self, role: Role) -> Node | None:
        return max(self.pool.with_gpus(role), key=lambda node: node.index, default=None)


def test_a_placer_that_only_names_its_first_choice_gets_the_fullest_node_that_fits() -> None:
    # Group a: n0 with 8 idle cards, n1 with 4. Group b: n2 with 2. The task may only use group a.
    groups = {"n0": "a", "n1": "a", "n2": "b"}
    state = PoolState("A100", [NodeSpec(i, name, "A100", 8, group=groups[name]) for i, name in enumerate(groups)])
    n0, n1, n2 = state.pool.nodes
    for index, (node, cards) in enumerate(((n1, 4), (n2, 6))):
        task = hp(f"h{index}", gpus=cards).task(index)
        state.start(task, [state.pool.occupy(node, task)], 0.0)
    chooser = Chooser(state.pool, FirstChoice(state.pool))
    assert chooser.choose(hp("x", gpus=2, only=("a",)).task(9)) is n1
    assert chooser.choose(hp("y", gpus=6, only=("a",)).task(10)) is n0
    assert chooser.choose(hp("z", gpus=4, only=("b",)).task(11)) is None


def test_what_is_short_is_told_of_a_node_that_lacks_it_not_of_one_that_fits() -> None:
    # n0: 2 idle cards and CPUs for its one pod. n1: 4 idle cards, 4 CPUs, no pod of 8 CPUs. The gang wants two pods.
    specs = [NodeSpec(0, "n0", "A100", 2, cpus=8.0), NodeSpec(1, "n1", "A100", 4, cpus=4.0)]
    state = PoolState("A100", specs)
    chooser = Chooser(state.pool, best_fit(state.pool))
    gang = hp("gang", gpus=2, pods=2, cpus=8).task(0)
    assert chooser.choose(gang) is state.pool.nodes[0]
    assert chooser.short(gang) == "4 idle GPUs on n1, but 4 of 4 CPUs free, pod asks 8"
    assert chooser.short(gang, without_spot=True) == "4 GPUs on n1, but 4 of 4 CPUs free, pod asks 8"
