"""Leases: rounds, renewal, suspension, moving. Spot leases last 300 s, HP leases 1,200 s."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from builders import Story, hp, nodes, play, play_unchecked, spot
from gfs import InputError, NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.assembly.snapshot import load_state, save_state
from gfs.core.events import Cancelled, Finished, Submitted, Tick, Wake
from gfs.core.reasons import Reason
from gfs.core.scheduler import Scheduler
from gfs.domain.errors import StuckError
from gfs.policies.chronus.reasons import BetweenLeases, NoLease


def chronus(sizes: list[int], *drafts: object, **parameters: object) -> Story:
    return play(nodes(*sizes), *drafts, scheduler="chronus", **parameters)  # type: ignore[arg-type]


def test_cards_are_given_out_where_a_round_begins() -> None:
    story = chronus([8], hp("a", at=10, gpus=1, lasting=100), spot("b", at=300, gpus=1, lasting=100))
    assert story.started("a") == [300.0]
    assert story.started("b") == [300.0], "an arrival on the stroke is served on the stroke"
    assert story.why_waited("a") == "leases are given out in rounds, the next one 5 min after it was queued"


def test_cards_that_fall_free_stay_idle_until_the_next_round() -> None:
    story = chronus([1], hp("a", gpus=1, lasting=100), hp("b", at=50, gpus=1, lasting=100))
    assert story.finished("a") == 100.0
    assert story.started("b") == [300.0]


def test_a_renewed_lease_costs_nothing() -> None:
    # Ten spot leases and nobody else wants the cards: one run, no overhead.
    story = chronus([8], spot("s", gpus=8, lasting=3000))
    assert story.spans("s") == [(0.0, 3000.0)]


def test_spot_is_suspended_at_the_end_of_its_lease_for_hp_and_pays_when_it_resumes() -> None:
    # h arrives at 10 and waits for the round at 300, when the lease of s ends. h runs 300-500; its cards are
    # leased out again at 600. s has done 300 of its 1,000 s and pays 120 s: 600 + 120 + 700 = 1,420.
    story = chronus([8], spot("s", gpus=8, lasting=1000), hp("h", at=10, gpus=8, lasting=200))
    assert story.spans("h") == [(300.0, 500.0)]
    assert story.spans("s") == [(0.0, 300.0), (600.0, 1420.0)]
    assert story.why_evicted("s") == "lease-end"


def test_checkpoints_do_not_matter_all_progress_is_kept() -> None:
    story = chronus([8], spot("s", gpus=8, lasting=1000, checkpoint=7200), hp("h", at=10, gpus=8, lasting=200))
    assert story.spans("s") == [(0.0, 300.0), (600.0, 1420.0)]


def test_hp_is_not_stopped_inside_its_lease() -> None:
    # h holds a lease until 1200; another HP task of the same size waits for it, however long it has waited.
    story = chronus([8], hp("h", gpus=8, lasting=1100), hp("i", at=10, gpus=8, lasting=100))
    assert story.spans("h") == [(0.0, 1100.0)]
    assert story.started("i") == [1200.0]


def test_hp_leases_rotate_by_how_long_a_task_has_waited() -> None:
    # At 1200 the lease of h ends. i has waited 1,190 s: 3 whole rounds of 12, so 1.25 per GPU against
    # 1 + 120/1200 = 1.1 for renewing h. i takes over; at 2400 it is done, and h goes on: 2400 + 120 + 800.
    story = chronus([8], hp("h", gpus=8, lasting=2000), hp("i", at=10, gpus=8, lasting=1150))
    assert story.spans("i") == [(1200.0, 2350.0)]
    assert story.spans("h") == [(0.0, 1200.0), (2400.0, 3320.0)]


def test_a_short_wait_does_not_cost_another_its_lease() -> None:
    # At 1200 i has waited 200 s, no whole round: 1.0 against 1.1. At 2400 it has waited four: 1.33.
    story = chronus([8], hp("h", gpus=8, lasting=5000), hp("i", at=1000, gpus=8, lasting=100))
    assert story.started("i") == [2400.0]


def test_spot_leases_rotate_too() -> None:
    # Renewing a costs nothing and saves 120/300 = 0.4. b gains 1/12 a round: 5/12 > 0.4 after 5 whole rounds of
    # waiting, at 1800 (it came at 300).
    story = chronus([8], spot("a", gpus=8, lasting=4000), spot("b", at=300, gpus=8, lasting=250))
    assert story.started("b") == [1800.0]
    assert story.spans("a")[0] == (0.0, 1800.0)


def test_hp_before_spot_whatever_spot_is_worth() -> None:
    # Spot has waited for two hours in all; the HP task that has just come is served first.
    story = chronus(
        [8],
        hp("first", gpus=8, lasting=7100),
        spot("s", at=1, gpus=8, lasting=100),
        hp("second", at=7150, gpus=8, lasting=100),
    )
    assert story.started("second") == [7200.0]
    assert story.started("s") == [7500.0]


def test_most_gpus_in_use() -> None:
    # 8 cards: the gang of 2 x 4 fills them, the task of 5 leaves 3 idle; both came at the same time.
    story = chronus([8], spot("five", gpus=5, lasting=200), spot("gang", gpus=4, pods=2, lasting=200))
    assert story.started("gang") == [0.0]
    assert story.started("five") == [300.0]


def test_the_fewest_gpus_make_room() -> None:
    # h needs 2 cards. Stopping a (2 cards on n0) is enough; b spans 2 x 4 cards.
    story = chronus(
        [4, 8],
        spot("b", gpus=4, pods=2, lasting=1000),
        spot("a", gpus=4, lasting=1000),
        hp("h", at=10, gpus=2, lasting=100),
    )
    assert story.victims() == ["a"]


def test_a_renewed_task_is_moved_where_the_cards_would_do_but_lie_apart() -> None:
    # y (5) and a (3) fill n0, x and b (4 each) fill n1. At 300 x and y are done: 9 cards are idle, no node has 8.
    # The next leases: h, a and b, 15 of 16 cards. Moving a (3 cards) to n1 is less than moving b (4) to n0.
    # a has done 300 of 1,000 s and pays 120 s: 300 + 120 + 700 = 1,120.
    story = chronus(
        [8, 8],
        hp("x", gpus=4, lasting=250),
        hp("y", gpus=5, lasting=250),
        spot("a", gpus=3, lasting=1000),
        spot("b", gpus=4, lasting=1000),
        hp("h", at=10, gpus=8, lasting=100),
    )
    assert (story.on("a"), story.on("b"), story.on("h")) == (["n0"], ["n1"], ["n0"])
    assert story.spans("h") == [(300.0, 400.0)]
    assert story.spans("a") == [(0.0, 300.0), (300.0, 1120.0)]
    assert story.on("a", run=2) == ["n1"]
    assert story.spans("b") == [(0.0, 1000.0)]


def test_a_lease_in_nobodys_way_goes_on_even_if_its_like_may_stop() -> None:
    # Four spot tasks of 2; an HP task of 2 needs one of them gone, not more.
    story = chronus([8], *(spot(f"s{i}", gpus=2, lasting=1000) for i in range(4)), hp("h", at=10, gpus=2, lasting=100))
    assert len(story.victims()) == 1


def test_the_quota_holds_for_leases() -> None:
    # Half of 8 cards: two tasks of 2 hold leases, the third waits though cards are idle.
    story = chronus([8], *(spot(f"s{i}", gpus=2, lasting=200) for i in range(3)), quota="fixed", quota_share=0.5)
    assert [story.started(f"s{i}") for i in range(3)] == [[0.0], [0.0], [300.0]]


def test_leases_rotate_under_a_full_quota_too() -> None:
    # As in the rotation above, but it is the quota that a fills: 4 of 8 cards are idle all the time.
    story = chronus(
        [8],
        spot("a", gpus=4, lasting=4000),
        spot("b", at=300, gpus=4, lasting=250),
        quota="fixed",
        quota_share=0.5,
    )
    assert story.started("b") == [1800.0]
    assert story.spans("a")[0] == (0.0, 1800.0)


def test_several_rotate_at_once_under_a_full_quota() -> None:
    story = chronus(
        [8],
        *(spot(f"a{i}", gpus=2, lasting=4000) for i in range(2)),
        *(spot(f"b{i}", at=300, gpus=2, lasting=250) for i in range(2)),
        quota="fixed",
        quota_share=0.5,
    )
    assert [story.started(f"b{i}") for i in range(2)] == [[1800.0], [1800.0]]
    assert [story.spans(f"a{i}")[0] for i in range(2)] == [(0.0, 1800.0), (0.0, 1800.0)]


@pytest.mark.parametrize("length", [1.1, 7.0, 1.0, 333.3])
def test_rounds_of_any_length(length: float) -> None:
    # 1.1 x 3 is not 3.3 in floating point; a round must not be missed for that.
    story = chronus(
        [1],
        hp("a", gpus=1, lasting=2.95 * length),
        hp("b", at=0.5 * length, gpus=1, lasting=length),
        hp_lease=10 * length,
        spot_lease=length,
        resume_overhead=0,
    )
    assert story.started("b") == [pytest.approx(3 * length)]


def test_fractions_hold_leases_too() -> None:
    # Two halves share the card; at 300 the HP half needs one of them gone.
    story = chronus(
        [1],
        spot("a", gpus=0.5, lasting=1000),
        spot("b", gpus=0.5, lasting=1000),
        hp("h", at=10, gpus=0.5, lasting=100),
    )
    assert story.started("h") == [300.0]
    assert len(story.victims()) == 1


def test_hp_fractions_do_not_wait_for_spot_where_the_free_parts_lie_apart() -> None:
    # 0.4 + 0.4 of two cards are free: enough in sum for z, but on no card. The lease of s ends for it.
    story = chronus(
        [1, 1, 1],
        hp("x", gpus=0.6, lasting=5000),
        hp("y", gpus=0.6, lasting=5000),
        spot("s", gpus=1, lasting=5000),
        hp("z", at=10, gpus=0.6, lasting=100),
    )
    assert story.spans("z") == [(300.0, 400.0)]


def test_hp_does_not_wait_for_spot_where_what_fits_in_sum_does_not_fit() -> None:
    # 8 cards are idle for 3 + 3 + 2, but 4 + 4 on two nodes: the third finds room where the lease of s ends.
    story = chronus(
        [4, 4, 8],
        spot("s", gpus=8, lasting=3000),
        *(hp(f"three{i}", at=10, gpus=3, lasting=100) for i in range(2)),
        hp("two", at=10, gpus=2, lasting=100),
    )
    assert story.started("two") == [300.0]
    assert story.evicted("s") == [300.0]


def test_fractions_rotate_like_whole_cards() -> None:
    # As with whole cards: spot after five whole rounds of waiting, HP when a lease of 1,200 s ends.
    beside_hp = chronus(
        [1],
        hp("h", gpus=0.5, lasting=9000),
        spot("a", gpus=0.5, lasting=9000),
        spot("b", at=300, gpus=0.5, lasting=100),
    )
    assert beside_hp.started("b") == [1800.0]
    assert beside_hp.victims() == ["a"]
    among_hp = chronus(
        [1], *(hp(f"h{i}", gpus=0.5, lasting=9000) for i in range(2)), hp("i", at=300, gpus=0.5, lasting=100)
    )
    assert among_hp.started("i") == [1200.0]


def test_a_lease_that_has_just_begun_does_not_end_in_the_same_instant() -> None:
    # At 1200 a has waited longest and gets the lease. zero starts and is done in that instant, which makes a
    # second decision at 1200: a must not lose its lease to b there, whose wait is worth more than renewing a.
    story = chronus(
        [8, 1],
        hp("first", gpus=8, lasting=1200),
        hp("a", at=1, gpus=8, lasting=1000),
        hp("b", at=301, gpus=8, lasting=1000),
        hp("zero", at=1100, gpus=1, lasting=0),
    )
    assert story.spans("a") == [(1200.0, 2200.0)]
    assert story.spans("b") == [(2400.0, 3400.0)]


def test_spot_fractions_get_the_parts_that_hp_leases_give_back() -> None:
    # Two HP halves fill the GPU until 2300; in the next round both halves are for spot.
    story = chronus(
        [1],
        *(hp(f"h{i}", gpus=0.5, lasting=2300) for i in range(2)),
        spot("s", at=10, gpus=0.5, lasting=100),
        spot("t", at=10, gpus=0.5, lasting=100),
    )
    assert [story.started(name) for name in "st"] == [[2400.0], [2400.0]]


def test_what_was_suspended_starts_again_elsewhere_if_there_is_room() -> None:
    # a and b share n0. At 300 a is done, and h needs four GPUs of one node: s (2 on n1) stops and starts again on n0 at
    # once. It has done 300 of 1,000 s and pays 120 s: 300 + 120 + 700 = 1,120.
    story = chronus(
        [4, 4],
        hp("a", gpus=2, lasting=250),
        spot("s", gpus=2, lasting=1000),
        hp("b", gpus=2, lasting=2000),
        hp("h", at=10, gpus=4, lasting=100),
    )
    assert (story.on("s"), story.on("h")) == (["n1"], ["n1"])
    assert story.spans("s") == [(0.0, 300.0), (300.0, 1120.0)]
    assert story.on("s", run=2) == ["n0"]


def test_who_got_no_lease_in_its_first_round_is_told_so() -> None:
    story = chronus([1], hp("h", gpus=1, lasting=1000), hp("w", at=400, gpus=1, lasting=100))
    assert story.started("w") == [1200.0]
    assert story.why_waited("w") == "no lease in this round: 0 GPUs were left, task asks 1"


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (BetweenLeases(720.0), "leases are given out in rounds, the next one 12 min after it was queued"),
        (
            NoLease(free=1.5, gpus=12.0),
            "no lease in this round: 1.5 GPUs were left, task asks 12",
        ),
        (
            NoLease(free=8.0, gpus=8.0, short="8 idle GPUs on n1, but 4 of 96 CPUs free, pod asks 8"),
            "no lease in this round: 8 GPUs were left, task asks 8;"
            " 8 idle GPUs on n1, but 4 of 96 CPUs free, pod asks 8",
        ),
    ],
)
def test_the_words_of_reasons(reason: Reason, text: str) -> None:
    assert reason.text() == text


def test_suspensions_are_counted_apart_and_no_eviction_rate_is_reported() -> None:
    story = chronus([8], spot("s", gpus=8, lasting=1000), hp("h", at=10, gpus=8, lasting=200))
    metrics = story.result.metrics
    assert (metrics.spot.suspensions, metrics.hp.suspensions) == (1, 0)
    assert metrics.leases
    summary = story.result.summary()["metrics"]["spot"]
    assert summary["suspensions"] == 1
    assert summary["evictions"] == 0
    assert summary["eviction_rate"] is None
    assert "1 of spot leases not renewed," in repr(story.result)
    assert "<td>leases not renewed</td><td>0</td><td>1</td>" in story.result._repr_html_()
    # 120 s x 8 GPUs went into resuming, nothing else was lost.
    assert summary["wasted_gpu_hours"] == pytest.approx(120 * 8 / 3600)


def test_the_life_of_a_suspended_task() -> None:
    story = chronus([8], spot("s", gpus=8, lasting=1000), hp("h", at=10, gpus=8, lasting=200))
    steps = [(step.what, step.time, step.length) for step in story.result.explain("s")]
    assert steps == [
        ("submitted", 0.0, 0.0),
        ("ran", 0.0, 300.0),
        ("suspended", 300.0, 0.0),
        ("waited", 300.0, 300.0),
        ("ran", 600.0, 820.0),
        ("finished", 1420.0, 0.0),
    ]
    assert story.why_waited("s", run=2) == "no lease in this round: 0 GPUs were left, task asks 8"


def test_a_task_that_can_never_get_a_lease_is_reported_as_stuck() -> None:
    # A round comes every 300 s as long as somebody waits: the simulation must not go on like that for ever.
    with pytest.raises(StuckError, match="1 tasks can never start"):
        play_unchecked(nodes(8), spot("s", gpus=9, lasting=100), scheduler="chronus")


def test_lease_lengths_are_parameters() -> None:
    story = chronus(
        [8],
        spot("s", gpus=8, lasting=1000),
        hp("h", at=10, gpus=8, lasting=50),
        hp_lease=200,
        spot_lease=100,
        resume_overhead=10,
    )
    assert story.spans("s") == [(0.0, 100.0), (200.0, 1110.0)]


def test_an_hp_lease_is_a_whole_number_of_rounds() -> None:
    with pytest.raises(InputError, match="hp_lease = 1000: must be a whole multiple of spot_lease = 300"):
        Parameters(hp_lease=1000)


def test_the_solver_is_reported() -> None:
    # The knapsack of test_chronus_selection: one program, solved.
    drafts = (spot("a6", gpus=6, lasting=100), *(spot(f"b5{i}", gpus=5, lasting=100) for i in range(2)))
    story = chronus([10], *drafts)
    assert story.result.summary()["solver"] == {"solves": 1, "out_of_time": 0, "worst_gap": 0.0}
    assert story.started("a6") == [300.0]
    late = chronus([10], *drafts, solver_seconds=1e-9)
    assert late.result.summary()["solver"]["out_of_time"] == 1
    assert late.result.summary()["solver"]["worst_gap"] > 0
    assert late.started("a6") == [0.0], "without a solution: what is worth most per GPU, then by submission and name"


# -- a clock that is never exact ----------------------------------------------------------------------------


def _chronus(cards: int) -> Scheduler:
    return build_scheduler("chronus", [NodeSpec(0, "n0", "A100", cards)], Parameters(), period=7200.0, check=True)


def _task(index: int, gpus: int = 1) -> Task:
    return Task(index, f"h{index}", "lab", "A100", Priority.HP, 1, gpus, 0.0)


def test_a_wake_up_that_comes_late_serves_its_round() -> None:
    scheduler = _chronus(8)
    plan = scheduler.handle(10.0, [Submitted(_task(0))])
    assert (plan.starts, plan.wake) == ([], 300.0)
    late = scheduler.handle(300.02, [Wake()])
    assert [run.start for run in late.starts] == [300.02]
    plan = scheduler.handle(310.0, [Submitted(_task(1))])
    assert (plan.starts, plan.wake) == ([], 600.0), "nobody waited for the round that goes on: the next one is due"
    assert len(scheduler.handle(1000.0, [Wake()]).starts) == 1, "late by a round and more"


def test_a_late_round_is_served_once() -> None:
    scheduler = _chronus(1)
    scheduler.handle(10.0, [Submitted(_task(0)), Submitted(_task(1))])
    plan = scheduler.handle(300.02, [Wake()])
    assert (len(plan.starts), plan.wake) == (1, 600.0)
    (run,) = plan.starts
    assert not scheduler.handle(400.0, [Finished(run)]).starts, "the card is idle until the next round"
    assert len(scheduler.handle(600.5, [Wake()]).starts) == 1


def test_who_was_cancelled_before_its_round_is_forgotten() -> None:
    scheduler, task = _chronus(8), _task(0)
    scheduler.handle(10.0, [Submitted(task)])
    scheduler.handle(20.0, [Cancelled(task)])
    plan = scheduler.handle(650.0, [Submitted(_task(1))])
    assert (plan.starts, plan.wake) == ([], 900.0), "nobody has waited for the round at 300"


def test_a_wake_up_is_asked_for_again_after_a_restart(tmp_path: Path) -> None:
    scheduler = _chronus(8)
    assert scheduler.handle(10.0, [Submitted(_task(0))]).wake == 300.0
    assert scheduler.handle(20.0, [Submitted(_task(1))]).wake == inf, "asked for already"
    save_state(scheduler, tmp_path / "state", now=20.0, name="chronus")
    fresh = _chronus(8)
    load_state(fresh, tmp_path / "state", name="chronus")
    assert fresh.handle(30.0, [Tick()]).wake == 300.0
    assert len(fresh.handle(300.01, [Wake()]).starts) == 2
