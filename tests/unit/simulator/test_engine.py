"""The time model: grace, restart overhead, checkpoints, and the order within one instant."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from builders import Draft, hp, nodes, play, play_unchecked, spot
from gfs import (
    SCHEDULERS,
    InputError,
    NodeEvent,
    NodeSpec,
    Priority,
    StuckError,
    Task,
    Workload,
    simulate,
)
from gfs.core.reasons import NoRoom, OverQuota
from gfs.domain.units import DAY
from gfs.simulator.engine import stuck_advice

# -- eviction and what it costs ---------------------------------------------------------------------------


def test_the_victim_stops_at_once_and_hp_starts_after_the_grace_period() -> None:
    story = play(nodes(8), spot("s", gpus=8, lasting=500), hp("h", gpus=8, at=100, lasting=50))
    assert story.evicted("s") == [100.0]
    assert story.spans("h") == [(130.0, 180.0)]


def test_a_grace_period_can_be_chosen() -> None:
    tasks = [spot("s", gpus=8, lasting=500), hp("h", gpus=8, at=100, lasting=50)]
    assert play(nodes(8), *tasks, grace_period=5.0).spans("h") == [(105.0, 155.0)]
    assert play(nodes(8), *tasks, grace_period=0.0).spans("h") == [(100.0, 150.0)]


def test_hp_on_idle_cards_needs_no_grace() -> None:
    story = play(nodes(8, 8), spot("s", gpus=8, lasting=500), hp("h", gpus=8, at=100))
    assert story.started("h") == [100.0]


@pytest.mark.parametrize(
    ("gpus", "pods", "overhead"),
    [(8, 1, 40), (4, 2, 40), (0.5, 2, 40), (3, 3, 60), (8, 2, 60)],
    ids=["8 GPUs", "2 x 4 GPUs", "fractions", "9 GPUs", "16 GPUs"],
)
def test_a_restart_costs_40_s_up_to_8_gpus_and_60_s_above(gpus: float, pods: int, overhead: float) -> None:
    # Evicted at 100 without a checkpoint; h runs 130 to 140, then s needs its overhead and all 500 s.
    story = play(nodes(8, 8), spot("s", gpus=gpus, pods=pods, lasting=500), hp("h", gpus=8, pods=2, at=100, lasting=10))
    assert story.spans("s") == [(0.0, 100.0), (140.0, 140.0 + overhead + 500.0)]


def test_the_first_run_has_no_overhead() -> None:
    assert play(nodes(8), spot("s", lasting=500)).spans("s") == [(0.0, 500.0)]


def test_eviction_loses_what_came_after_the_last_checkpoint() -> None:
    # 250 s of progress, checkpoints at 100 and 200: 200 saved, 300 of 500 left. h runs 280 to 290; 290 + 40 + 300.
    story = play(nodes(8), spot("s", gpus=8, lasting=500, checkpoint=100), hp("h", gpus=8, at=250, lasting=10))
    assert story.spans("s") == [(0.0, 250.0), (290.0, 630.0)]


def test_a_checkpoint_taken_at_the_instant_of_eviction_counts() -> None:
    # 200 s of progress, the second checkpoint falls on the eviction: 300 left. 240 + 40 + 300.
    story = play(nodes(8), spot("s", gpus=8, lasting=500, checkpoint=100), hp("h", gpus=8, at=200, lasting=10))
    assert story.spans("s") == [(0.0, 200.0), (240.0, 580.0)]


def test_checkpoints_of_a_later_run_count_from_the_end_of_its_overhead() -> None:
    # Run 1: 0 to 150, 100 saved. h1: 180 to 190. Run 2 from 190: overhead to 230, checkpoint at 330.
    # Evicted at 329: nothing more saved, 400 left. h2: 359 to 369. Run 3 from 369: 369 + 40 + 400 = 809.
    story = play(
        nodes(8),
        spot("s", gpus=8, lasting=500, checkpoint=100),
        hp("h1", gpus=8, at=150, lasting=10),
        hp("h2", gpus=8, at=329, lasting=10),
    )
    assert story.spans("s") == [(0.0, 150.0), (190.0, 329.0), (369.0, 809.0)]
    # One second later the checkpoint at 330 is taken: 300 left. 370 + 40 + 300 = 710.
    story = play(
        nodes(8),
        spot("s", gpus=8, lasting=500, checkpoint=100),
        hp("h1", gpus=8, at=150, lasting=10),
        hp("h2", gpus=8, at=330, lasting=10),
    )
    assert story.spans("s") == [(0.0, 150.0), (190.0, 330.0), (370.0, 710.0)]


def test_an_eviction_during_overhead_saves_and_loses_nothing() -> None:
    # Run 2 from 190 is evicted at 220, before its overhead ends at 230: still 400 left. h2: 250 to 260.
    story = play(
        nodes(8),
        spot("s", gpus=8, lasting=500, checkpoint=100),
        hp("h1", gpus=8, at=150, lasting=10),
        hp("h2", gpus=8, at=220, lasting=10),
    )
    assert story.spans("s") == [(0.0, 150.0), (190.0, 220.0), (260.0, 260.0 + 40.0 + 400.0)]


def test_with_checkpoint_on_grace_everything_is_saved() -> None:
    # 250 s of progress saved: 250 left. 290 + 40 + 250.
    story = play(
        nodes(8),
        spot("s", gpus=8, lasting=500),
        hp("h", gpus=8, at=250, lasting=10),
        checkpoint_on_grace=True,
    )
    assert story.spans("s") == [(0.0, 250.0), (290.0, 580.0)]
    assert "lost 0 s" in story.why_evicted("s")


# -- order within one instant -----------------------------------------------------------------------------


def test_a_finish_frees_its_cards_for_an_arrival_at_the_same_time() -> None:
    story = play(nodes(8), spot("a", gpus=8, lasting=100), hp("h", gpus=8, at=100), spot("b", gpus=8, at=200))
    assert story.started("h") == [100.0]
    assert story.started("b") == [200.0]
    assert story.victims() == []


def test_a_spot_task_that_finishes_now_is_not_evicted_now() -> None:
    story = play(nodes(8), spot("a", gpus=8, lasting=100, checkpoint=7), hp("h", gpus=8, at=100))
    assert story.spans("a") == [(0.0, 100.0)]
    assert story.started("h") == [100.0]


def test_of_arrivals_at_one_instant_hp_is_served_first() -> None:
    story = play(nodes(8), spot("a", gpus=8), hp("z", gpus=1))
    assert story.started("z") == [0.0]
    assert story.started("a") == [100.0]
    assert story.victims() == []


def test_all_arrivals_of_an_instant_are_in_before_the_pass() -> None:
    # Served one by one, "a" (1 GPU) would take a card first; in one pass the larger goes first.
    story = play(nodes(8), spot("a", gpus=1, at=10), spot("b", gpus=8, at=10))
    assert story.started("b") == [10.0]
    assert story.started("a") == [110.0]


def test_log_order_of_an_instant_is_finish_submit_evict_start() -> None:
    story = play(
        nodes(4, 4),
        hp("done", gpus=4, lasting=100),
        spot("victim", gpus=4, lasting=500),
        hp("h", gpus=4, pods=2, at=100, lasting=10),
        grace_period=0.0,
    )
    assert [(line.event, line.task) for line in story.lines if line.time == 100.0] == [
        ("finish", "done"),
        ("submit", "h"),
        ("evict", "victim"),
        ("start", "h"),
        ("start", "h"),
    ]


# -- tasks without any work -------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["gfs", "yarn-cs", "static"])
def test_a_task_of_no_duration_starts_and_finishes_at_once(scheduler: str) -> None:
    story = play(
        nodes(1),
        hp("h", at=7, lasting=0),
        spot("s", gpus=1, at=7, lasting=0),
        scheduler=scheduler,
        quota_share=1.0,
    )
    assert story.spans("h") == [(7.0, 7.0)]
    assert story.spans("s") == [(7.0, 7.0)]  # after h has freed the card, still at 7


def test_a_task_of_no_duration_pays_its_grace_period() -> None:
    story = play(nodes(1), spot("s", lasting=500), hp("h", at=100, lasting=0))
    assert story.spans("h") == [(130.0, 130.0)]
    assert story.spans("s") == [(0.0, 100.0), (130.0, 130.0 + 40.0 + 500.0)]


# -- ticks ------------------------------------------------------------------------------------------------


def test_a_tick_runs_a_pass() -> None:
    # gamma = 1, m = 100: the node is closed to spot from 100 to 3700; nothing else happens until the tick at 3900.
    tasks = [spot("s", lasting=500), hp("h", at=100, lasting=10)]
    assert play(nodes(1), *tasks, gamma=1.0, m=100.0).started("s") == [0.0, 3900.0]
    assert play(nodes(1), *tasks, gamma=1.0, m=100.0, tick=50.0).started("s") == [0.0, 3700.0]
    assert play(nodes(1), *tasks, gamma=1.0, m=100.0, tick=1000.0).started("s") == [0.0, 4000.0]


def test_ticks_are_multiples_of_their_length_not_of_the_first_arrival() -> None:
    tasks = [spot("s", at=70, lasting=500), hp("h", at=170, lasting=10)]
    # closed until 170 + 3600 = 3770; next multiple of 300 is 3900.
    assert play(nodes(1), *tasks, gamma=1.0, m=100.0).started("s") == [70.0, 3900.0]


# -- tasks that can never start ---------------------------------------------------------------------------


def test_a_task_that_can_never_start_is_named() -> None:
    with pytest.raises(StuckError, match=r"1 tasks can never start.*\n  gang: 2 pods x 4 GPUs: .*1 of 2 pods"):
        play_unchecked(nodes(4), hp("gang", gpus=4, pods=2))


def test_waiting_long_for_a_task_that_runs_is_not_being_stuck() -> None:
    story = play(nodes(4), hp("month", gpus=4, lasting=30 * DAY), hp("patient", gpus=4, at=10))
    assert story.started("patient") == [30 * DAY]


def test_a_long_gap_between_arrivals_is_not_being_stuck() -> None:
    story = play(nodes(4), hp("now", gpus=4), hp("later", gpus=4, at=30 * DAY))
    assert story.started("later") == [30 * DAY]


def test_a_stuck_task_says_why_it_is_stuck_now() -> None:
    with pytest.raises(StuckError) as error:
        play_unchecked(nodes(4), hp("fine", gpus=4), hp("gang", gpus=4, pods=2))
    assert "no idle GPU" not in str(error.value)  # the cluster is empty by then


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_the_advice_for_nodes_that_stay_closed_is_to_open_them(scheduler: str) -> None:
    work = Workload(
        (Task(0, "h", "lab", "A100", Priority.HP, 1, 1.0, 10.0),),
        tuple(nodes(4, 4)),
        "story",
        durations=(5.0,),
        node_events=(NodeEvent(1.0, "n0", "fail"), NodeEvent(2.0, "n1", "cordon")),
    )
    with pytest.raises(StuckError) as error:
        simulate(work, scheduler=scheduler)
    said = str(error.value)
    assert "though nothing runs any more" in said
    assert "2 nodes stay failed or cordoned to the end: add their repair or uncordon to the node events." in said
    assert "quota" not in said


@pytest.mark.parametrize("scheduler", ["gfs", "chronus", "yarn-cs"])
def test_the_advice_for_too_many_cards_is_to_take_the_task_out(scheduler: str) -> None:
    with pytest.raises(StuckError) as error:
        play_unchecked(nodes(4), hp("gang", gpus=4, pods=2), scheduler=scheduler)
    assert str(error.value).endswith("Take tasks that need more GPUs than there are out of the trace.")


def test_the_advice_fits_each_cause_and_names_several() -> None:
    quota = OverQuota("A100", 4.0, 0.0, 8, 1)
    cpus = NoRoom("A100", 1, 1, idle=8, gap=8, slots=0, short="8 idle GPUs on n0, but 1 of 96 CPUs free, pod asks 2")
    raise_it = "here the spot quota is the reason, raise it (for example --set quota_share=0.5, or quota=none)"
    correct = "here CPUs or memory are short, correct cpu_request or cpu_num, or count GPUs only (resources=off)"
    assert stuck_advice([quota], closed=0) == f"W{raise_it}."
    assert stuck_advice([cpus], closed=0) == f"W{correct}."
    assert stuck_advice([quota, cpus], closed=0) == f"W{raise_it}; w{correct}."


def test_a_pod_larger_than_any_node_is_found_to_be_stuck_between_ticks_too() -> None:
    with pytest.raises(StuckError):
        play_unchecked(nodes(4), hp("h", gpus=8, at=1))


@pytest.mark.parametrize(
    ("machines", "draft", "words"),
    [
        (nodes(4), hp("h", at=1, model="T4"), "task h asks for T4, of which there is no node"),
        (nodes(4), hp("h", gpus=8), "task h asks 1 pods of 8 GPUs, more than all nodes with A100 can hold"),
        (nodes(4, 4), hp("h", gpus=3, pods=3), "task h asks 3 pods of 3 GPUs, more than all nodes"),
        (nodes(4), hp("h", gpus=0.0), "task h asks 1 pods of 0 GPUs"),
        (nodes(4), hp("h", gpus=1.5), "task h asks 1 pods of 1.5 GPUs"),
        (nodes(0), hp("h"), "node n0 has 0 GPUs; it must be 1 to 256"),
        (nodes(4), hp("h", lasting=float("nan")), "lasts nan s"),
    ],
)
def test_a_workload_made_by_hand_is_held_to_the_rules_of_a_file(
    machines: Sequence[NodeSpec], draft: Draft, words: str
) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        play(machines, draft)


def test_two_tasks_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two tasks are called h"):
        play(nodes(4), hp("h"), hp("h", at=5))


def test_a_long_tick_is_not_being_stuck() -> None:
    # gamma = 1, m = 100: the node is closed from 100 to 3700; the next pass is the tick at 700000.
    story = play(nodes(1), spot("s", lasting=500), hp("h", at=100, lasting=10), gamma=1.0, m=100.0, tick=700000.0)
    assert story.started("s") == [0.0, 700000.0]


def test_no_more_is_saved_than_was_done() -> None:
    story = play(
        nodes(1),
        spot("s", lasting=99.9999999, checkpoint=100),
        hp("h", at=99.9999998, lasting=0),
        restart_overhead=0.0,
        grace_period=0.0,
    )
    times = [line.time for line in story.lines]
    assert times == sorted(times)
