"""gfs-plus: HP and spot apart, and nodes reserved for a spot task that has waited too long."""

from __future__ import annotations

import pytest

from builders import Draft, Stage, Story, hp, nodes, play, spot
from gfs.policies.gfs.reservation import Reservation, ReservationCost
from gfs.policies.gfs.scoring import GfsPlacer, GfsPlusPlacer

TICK = 300.0


def waiting(stage: Stage) -> Reservation:
    """For tasks that have waited for more than an hour."""
    return Reservation(stage.state, 3600.0, TICK, ReservationCost())


def placer(stage: Stage, caution: float = 1.0) -> GfsPlusPlacer:
    return GfsPlusPlacer(stage.state, waiting(stage), caution=lambda: caution)


def test_hp_goes_beside_hp_and_spot_away_from_it() -> None:
    stage = Stage(8, 8, 8)
    stage.holds("n0", hp("h", gpus=2))
    stage.holds("n1", spot("s", gpus=6))
    apart, packing = placer(stage), GfsPlacer(stage.state)
    assert packing.choose(hp("h2", gpus=1).task(9)) is stage.node("n1")  # the fullest node, whoever is on it
    assert apart.choose(hp("h2", gpus=1).task(9)) is stage.node("n0")
    assert apart.choose(spot("s2", gpus=2).task(9)) is stage.node("n1")  # no HP there, and fuller than n2
    assert apart.choose(spot("s2", gpus=4).task(9)) is stage.node("n2")  # one of three is empty: more than 1/16
    stage.holds("n2", hp("h3", gpus=1))
    assert apart.choose(spot("s2", gpus=4).task(9)) is stage.node("n2")  # none is empty: where HP holds fewest


def test_the_last_empty_nodes_are_not_for_spot_tasks() -> None:
    # A fiftieth of 100 nodes are 2. All but 3 nodes hold HP, n0 has a gap of four cards.
    stage = Stage(*[8] * 100)
    stage.holds("n0", hp("h0", gpus=4))
    for i in range(1, 97):
        stage.holds(f"n{i}", hp(f"h{i}", gpus=8))
    apart = placer(stage)
    small, whole = spot("s", gpus=4).task(900), spot("w", gpus=8).task(901)
    assert apart.choose(whole) is stage.node("n97")  # 3 are empty: one may go
    assert apart.choose(small) is stage.node("n0")
    assert apart.closed(whole) == (2, "kept empty for HP")
    stage.holds("n97", spot("w", gpus=8))
    assert apart.choose(whole) is None
    assert list(apart.ranked(whole)) == []
    assert apart.choose(small) is stage.node("n0")
    stage.holds("n0", spot("s", gpus=4))
    assert apart.choose(small) is None
    assert apart.choose(hp("h", gpus=1).task(902)) is stage.node("n98")
    assert apart.closed(hp("h", gpus=8).task(902)) == (0, "")
    for name in ("n98", "n99"):
        stage.holds(name, hp(name, gpus=6))
    assert apart.choose(spot("s2", gpus=2).task(903)) is stage.node("n98")  # none is empty: nothing is kept
    assert apart.closed(small) == (0, "")


def test_as_caution_falls_fewer_nodes_are_kept_empty() -> None:
    # A fiftieth of 100 nodes are 2, half of them 1. Two nodes are empty, all others hold HP.
    stage = Stage(*[8] * 100)
    for i in range(98):
        stage.holds(f"n{i}", hp(f"h{i}", gpus=8))
    whole = spot("w", gpus=8).task(900)
    for caution, kept in ((1.0, 2), (0.5, 1), (0.49, 0), (0.0, 0)):
        apart = placer(stage, caution)
        assert (apart.choose(whole) is None) == (kept == 2)
        assert apart.closed(whole)[0] == kept


def test_spot_tasks_fill_gaps_while_few_nodes_are_empty() -> None:
    # HP holds 6 GPUs of n0 and 13 nodes, spot 4 of n1; n2, one of 16, is empty, which is few. None of 16 is kept.
    stage = Stage(*[8] * 16)
    stage.holds("n0", hp("h", gpus=6))
    stage.holds("n1", spot("s", gpus=4))
    for i in range(3, 16):
        stage.holds(f"n{i}", hp(f"h{i}", gpus=8))
    apart = placer(stage)
    assert apart.choose(spot("a", gpus=2).task(9)) is stage.node("n0")
    assert apart.choose(spot("b", gpus=4).task(9)) is stage.node("n1")
    assert apart.choose(spot("c", gpus=8).task(9)) is stage.node("n2")
    stage.holds("n2", hp("h2", gpus=1))
    assert apart.choose(spot("a", gpus=2).task(9)) is stage.node("n1")  # none is empty: away from HP


def test_where_spot_tasks_wait_the_adaptive_quota_gives_up_empty_nodes_too() -> None:
    # 50 nodes, one of them kept, and 12 GPUs, 3%, reserved. w waits for the one empty node. The reserve shrinks by 0.6
    # points a day, with the first step no node is kept, and when less than a GPU of the 400, 0.25%, is reserved, w
    # starts: 2.75 / 0.6 days later.
    tasks = [hp(f"h{i}", gpus=8, lasting=9e5) for i in range(1, 50)]
    story = play(nodes(*[8] * 50), *tasks, spot("w", gpus=8, at=10), scheduler="gfs-plus", quota="adaptive")
    assert story.started("w") == [pytest.approx(2.75 / 0.6 * 86_400, abs=900)]


def test_a_task_says_that_it_waits_for_nodes_that_are_kept_empty() -> None:
    # 50 nodes, one of them kept. A spot task of a whole node waits for h1, although n49 is empty.
    tasks = [hp(f"h{i}", gpus=8, lasting=1000 + i) for i in range(1, 50)]
    story = play(nodes(*[8] * 50), *tasks, spot("s", gpus=8, at=10), scheduler="gfs-plus", quota="none")
    assert story.started("s") == [1001]
    assert story.why_waited("s").endswith("8 idle GPUs, but the node with room is kept empty for HP")


def stream(until: int) -> list[Draft]:
    """Spot tasks of four cards, one every 15 minutes for an hour: on two nodes four of them always run."""
    return [spot(f"t{at:06}", gpus=4, at=at, lasting=3600) for at in range(0, until, 900)]


def starving(starvation_timeout: float) -> Story:
    gang = spot("gang", gpus=8, pods=2, at=3000, lasting=600)
    return play(nodes(8, 8), *stream(36_000), gang, scheduler="gfs-plus", starvation_timeout=starvation_timeout)


def test_a_gang_that_waited_too_long_gets_its_nodes() -> None:
    late = starving(starvation_timeout=1e6)
    assert late.started("gang") == [38_700]  # only when the stream has ended
    story = starving(starvation_timeout=7200)
    # From 10,200 s on, two hours after 3,000 s, nothing else may start; what runs by then ends by 13,500 s.
    assert story.started("gang") == [13_500]
    assert story.started("t010800") == [14_100]
    assert story.why_waited("t010800").endswith("the node with room is reserved for gang, which has waited 2.2 h")


def test_the_cost_of_keeping_is_counted() -> None:
    figures = starving(starvation_timeout=7200).result.reservations
    assert figures is not None
    # 4 cards from 10,800 s, 8 from 11,700 s and 12 from 12,600 s to 13,500 s: 900 s each.
    assert (figures.tasks, figures.gpu_hours) == (1, (4 + 8 + 12) * 900 / 3600)
    assert starving(starvation_timeout=1e6).result.reservations is None


def test_hp_may_use_reserved_nodes() -> None:
    gang = spot("gang", gpus=8, pods=2, at=3000, lasting=600)
    hurry = hp("hurry", gpus=4, at=11_000, lasting=300)
    story = play(nodes(8, 8), *stream(36_000), gang, hurry, scheduler="gfs-plus", starvation_timeout=7200)
    assert story.started("hurry") == [11_000]
    # Beside it there is no room for the gang, so nothing is reserved for a while: a task slips in until 14,900 s.
    assert story.started("gang") == [14_900]


def test_the_quota_is_not_kept_for_it() -> None:
    # Twelve of 32 cards for spot tasks; the gang wants all twelve. Nobody else waits for that.
    gang = spot("gang", gpus=4, pods=3, at=3000, lasting=600)
    wishes = {"scheduler": "gfs-plus", "quota": "fixed", "quota_share": 0.375}
    alone = play(nodes(8, 8, 8, 8), *stream(36_000), **wishes, starvation_timeout=7200)
    story = play(nodes(8, 8, 8, 8), *stream(36_000), gang, **wishes, starvation_timeout=7200)
    names = [each.name for each in stream(36_000)]
    assert [story.started(name) for name in names] == [alone.started(name) for name in names]
    assert story.started("gang")[0] > 36_000


def later(reservation: Reservation, now: float) -> None:
    """Something happens at this time: an HP task comes, and the reservation takes a look."""
    reservation.submitted(hp("any").task(99), now)


def test_nodes_with_fewest_spot_cards_are_reserved() -> None:
    stage = Stage(8, 8, 8, 8)
    stage.holds("n0", hp("h", gpus=4))
    stage.holds("n1", spot("a", gpus=6))
    stage.holds("n2", spot("b", gpus=2))
    reservation = waiting(stage)
    changed: list[str] = []
    reservation.observe(lambda node: changed.append(node.name))
    task = spot("gang", gpus=8, pods=2).task(50)
    stage.state.queue(task, 0.0)
    later(reservation, 3600.0)
    assert reservation.task is None  # not longer than it
    later(reservation, 3900.0)
    assert reservation.task is task
    assert [node.name for node in reservation.nodes] == changed == ["n3", "n2"]
    stage.holds("n3", hp("h2", gpus=1))
    later(reservation, 4200.0)
    assert [node.name for node in reservation.nodes] == ["n2", "n1"]  # HP has come to n3
    assert changed[2:] == ["n3", "n1"]
    reservation.passed(4300.0)
    assert reservation.task is task


def test_nothing_is_reserved_for_whom_no_nodes_suffice() -> None:
    stage = Stage(8, 8)
    stage.holds("n0", hp("h", gpus=1))
    reservation = waiting(stage)
    stage.state.queue(spot("gang", gpus=8, pods=2).task(50), 0.0)
    later(reservation, 7200.0)
    assert reservation.task is None
    assert not reservation.nodes


def test_after_a_start_nodes_are_reserved_for_the_next_task() -> None:
    stage = Stage(8, 8)
    reservation = waiting(stage)
    first, second = (spot(name, gpus=8).task(index) for index, name in enumerate(("first", "second"), 50))
    for task in (first, second):
        stage.state.queue(task, 0.0)
    later(reservation, 4000.0)
    assert reservation.task is first
    stage.state.start(first, [stage.pool.occupy(stage.node("n0"), first)], 5000.0)
    assert reservation.task is first
    reservation.passed(5000.0)
    assert reservation.task is None
    later(reservation, 4000.0 + TICK - 1)  # not before the next tick
    assert reservation.task is None
    later(reservation, 5000.0 + TICK)
    assert reservation.task is second


def test_spot_tasks_are_kept_from_reserved_nodes_but_the_one_they_are_for() -> None:
    stage = Stage(8, 8, 8)
    stage.holds("n2", spot("s", gpus=4))
    gang = spot("gang", gpus=8, pods=2).task(50)
    stage.state.queue(gang, 0.0)
    reservation = waiting(stage)
    apart = GfsPlusPlacer(stage.state, reservation)
    later(reservation, 4000.0)
    reserved, other = [stage.node("n0"), stage.node("n1")], spot("x", gpus=8).task(51)
    assert list(apart.ranked(gang)) == reserved
    assert apart.choose(gang) is apart.best_of(gang, reserved[::-1]) is reserved[0]
    assert apart.choose(other) is apart.best_of(other, reserved) is None
    assert apart.choose(spot("y", gpus=4).task(52)) is stage.node("n2")
    assert apart.choose(hp("h", gpus=8).task(53)) is reserved[0]
    assert apart.kept_from_spot() == dict.fromkeys(reserved, gang)
    assert apart.closed(other) == (2, "reserved for gang, which has waited 67 min")
    assert apart.closed(gang) == (0, "")
