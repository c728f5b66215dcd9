"""Metrics of runs that were lost and of tasks that were cancelled, worked out by hand.

On two nodes of 8 A100 (n0, n1) and one of 4 T4 (m0); checkpoints every 3600 s, guarantees of 1 h.

LOSSES
    h1  HP, 8 A100, submitted 0, 9000 s of work
        run 1: 0 to 5400, lost with n0; 3600 s are saved, 1800 s are not
        run 2: 6000 to 11440 on n1 = 40 s restart + the other 5400 s
    s1  spot, 4 T4, submitted 0, 10000 s of work
        run 1: 0 to 9000, lost with m0; 7200 s are saved, 1800 s are not
        run 2: 9600 to 11200, lost with m0 again: 40 s restart and 1560 s of work, nothing saved
        run 3: 12000 to 14840 = 40 s restart + the other 2800 s
    s2  spot, 4 A100, submitted 100, 1000 s of work: 100 to 1100 on n1

WITHDRAWALS
    s1  spot, 2 pods x 8 A100, submitted 0, 7200 s of work
        run 1: 0 to 5400, evicted for h1; 3600 s are saved, 1800 s are lost
        run 2: 9030 to 10000, cancelled
    s2  spot, half a T4, submitted 100, cancelled at 900 while it waits
    h1  HP, 8 A100, submitted 5400, 3600 s of work: 5430 to 9030
    h2  HP, 2 T4, submitted 12000, 690 s of work: 12000 to 12690
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import needs
from builders import Draft, hp, spot, workload
from gfs.domain.errors import InputError
from gfs.domain.execution import LEASE_END, ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.workload import Workload
from gfs.telemetry.metrics import compute_metrics
from gfs.telemetry.prices import delivered
from gfs.telemetry.runs import runs_table
from logs import AUDITOR, Row, agrees_with_auditor, log, scrambled

NODES = (NodeSpec(0, "n0", "A100", 8), NodeSpec(1, "n1", "A100", 8), NodeSpec(2, "m0", "T4", 4))
ALL, HALF, T4S = "0+1+2+3+4+5+6+7", "0+1+2+3", "0+1+2+3"


def world(*drafts: Draft) -> Workload:
    return workload(NODES, drafts)


LOSSES = world(
    hp("h1", gpus=8, lasting=9000),
    spot("s1", gpus=4, lasting=10000, model="T4"),
    spot("s2", gpus=4, at=100, lasting=1000),
)
LOST: list[Row] = [
    (0.0, "submit", "h1", 0, "", ""),
    (0.0, "start", "h1", 1, "n0", ALL),
    (0.0, "submit", "s1", 0, "", ""),
    (0.0, "start", "s1", 1, "m0", T4S),
    (100.0, "submit", "s2", 0, "", ""),
    (100.0, "start", "s2", 1, "n1", HALF),
    (1100.0, "finish", "s2", 1, "n1", HALF),
    (5400.0, "lost", "h1", 1, "n0", ALL),
    (6000.0, "start", "h1", 2, "n1", ALL),
    (9000.0, "lost", "s1", 1, "m0", T4S),
    (9600.0, "start", "s1", 2, "m0", T4S),
    (11200.0, "lost", "s1", 2, "m0", T4S),
    (11440.0, "finish", "h1", 2, "n1", ALL),
    (12000.0, "start", "s1", 3, "m0", T4S),
    (14840.0, "finish", "s1", 3, "m0", T4S),
]
WITHDRAWALS = world(
    spot("s1", gpus=8, pods=2, lasting=7200),
    spot("s2", gpus=0.5, at=100, lasting=1000, model="T4"),
    hp("h1", gpus=8, at=5400, lasting=3600),
    hp("h2", gpus=2, at=12000, lasting=690, model="T4"),
)
WITHDRAWN: list[Row] = [
    (0.0, "submit", "s1", 0, "", ""),
    (0.0, "start", "s1", 1, "n0", ALL),
    (0.0, "start", "s1", 1, "n1", ALL),
    (100.0, "submit", "s2", 0, "", ""),
    (900.0, "cancel", "s2", 0, "", ""),
    (5400.0, "submit", "h1", 0, "", ""),
    (5400.0, "evict", "s1", 1, "n0", ALL),
    (5400.0, "evict", "s1", 1, "n1", ALL),
    (5430.0, "start", "h1", 1, "n0", ALL),
    (9030.0, "finish", "h1", 1, "n0", ALL),
    (9030.0, "start", "s1", 2, "n0", ALL),
    (9030.0, "start", "s1", 2, "n1", ALL),
    (10000.0, "cancel", "s1", 2, "n0", ALL),
    (10000.0, "cancel", "s1", 2, "n1", ALL),
    (12000.0, "submit", "h2", 0, "", ""),
    (12000.0, "start", "h2", 1, "m0", "1+2"),
    (12690.0, "finish", "h2", 1, "m0", "1+2"),
]


class TestLosses:
    def test_a_lost_run_is_no_eviction_and_its_task_goes_on(self) -> None:
        m = compute_metrics(log(LOST, LOSSES), LOSSES)
        assert (m.hp.tasks, m.hp.jct_mean, m.hp.jqt_mean) == (1, 11440.0, 600.0)  # waited from 5400 to 6000
        # s1 waits 600 s and 800 s; it takes 14840 s, s2 1000 s
        assert (m.spot.tasks, m.spot.jct_mean, m.spot.jqt_mean) == (2, 7920.0, 700.0)
        assert (m.spot.runs, m.spot.evictions, m.spot.eviction_rate) == (4, 0, 0.0)
        assert (m.hp.lost, m.spot.lost, m.hp.cancelled, m.spot.cancelled) == (1, 2, 0, 0)

    def test_the_row_of_a_table_has_the_losses_of_both_classes(self) -> None:
        figures = compute_metrics(log(LOST, LOSSES), LOSSES).figures()
        assert (figures["hp_lost"], figures["spot_lost"], figures["lost"]) == (1, 2, 3)

    def test_what_losses_throw_away(self) -> None:
        m = compute_metrics(log(LOST, LOSSES), LOSSES)
        assert m.hp.lost_gpu_hours == pytest.approx(8 * 1800 / 3600)
        assert m.spot.lost_gpu_hours == pytest.approx(4 * (1800 + 1560) / 3600)
        # Wasted, both classes: that, and the restarts: h1 once, s1 twice.
        assert m.spot.wasted_gpu_hours == pytest.approx((8 * (1800 + 40) + 4 * (1800 + 40 + 1560 + 40)) / 3600)
        assert m.useful_gpu_hours == pytest.approx((8 * 9000 + 4 * 10000 + 4 * 1000) / 3600)

    def test_the_period_a_loss_falls_into_is_neither_kept_nor_broken(self) -> None:
        spot = compute_metrics(log(LOST, LOSSES), LOSSES).spot
        # s1: 9000 s are two whole hours, 1600 s none, the last run finishes inside its first; s2 one
        assert spot.guarantee_periods == 4
        assert spot.evictions_per_guarantee_period == 0.0
        assert spot.guarantee_hit_rate == 1.0  # of three runs: the second of s1 does not count

    def test_lost_runs_dilute_no_broken_promise(self) -> None:
        """s2 is evicted after 1000 s instead: of the three runs that count, one promise is broken."""
        rows = [(*row[:1], "evict", *row[2:]) if row[1:3] == ("finish", "s2") else row for row in LOST]
        spot = compute_metrics(log(rows, LOSSES), LOSSES).spot
        assert spot.guarantee_hit_rate == pytest.approx(2 / 3)
        assert spot.eviction_rate == pytest.approx(1 / 4)  # of all runs

    def test_a_loss_leaves_no_time_to_save(self) -> None:
        rules = ExecutionRules(checkpoint_on_grace=True)
        m = compute_metrics(log(LOST, LOSSES), LOSSES, rules=rules)
        assert m.hp.lost_gpu_hours == pytest.approx(8 * 1800 / 3600)

    def test_only_counted_tasks_lose(self) -> None:
        m = compute_metrics(log(LOST, LOSSES), LOSSES, window=(50.0, None))  # s2 alone
        assert (m.hp.lost, m.spot.lost, m.spot.lost_gpu_hours, m.spot.wasted_gpu_hours) == (0, 0, 0.0, 0.0)

    def test_cards_are_allocated_until_the_loss(self) -> None:
        m = compute_metrics(log(LOST, LOSSES), LOSSES)
        # A100: h1 8 x (5400 + 5440), s2 4 x 1000; T4: 4 x (9000 + 1600 + 2840); from 0 to 14840
        assert m.allocation_rate == pytest.approx(
            {"A100": (8 * 10840 + 4000) / (16 * 14840), "T4": 4 * 13440 / (4 * 14840)}
        )

    def test_runs(self) -> None:
        runs = runs_table(log(LOST, LOSSES), LOSSES)
        assert runs.task.tolist() == [0, 0, 1, 1, 1, 2]
        assert runs.lost.tolist() == [True, False, True, True, False, False]
        assert runs.wait.tolist() == [0.0, 600.0, 0.0, 600.0, 800.0, 0.0]
        assert not (runs.evicted | runs.cancelled).any()

    def test_after_a_loss_a_lease_pays_for_a_restart_not_for_resuming(self) -> None:
        """s needs 2900 s and saves every 600 s. Its runs:

        0 to 300: suspended, all 300 s are kept
        300 to 1500: 120 s to resume, 1080 s of work, lost; 600 s of it are kept, 480 s are not
        1500 to 3540: 40 s of restart and the other 2000 s
        """
        work = world(spot("s", gpus=1, lasting=2900, checkpoint=600))
        rows: list[Row] = [
            (0.0, "submit", "s", 0, "", ""),
            (0.0, "start", "s", 1, "n0", "0"),
            (300.0, "evict", "s", 1, "n0", "0"),
            (300.0, "start", "s", 2, "n1", "0"),
            (1500.0, "lost", "s", 2, "n1", "0"),
            (1500.0, "start", "s", 3, "n0", "0"),
            (3540.0, "finish", "s", 3, "n0", "0"),
        ]
        m = compute_metrics(log(rows, work, reasons={2: LEASE_END}), work, leases=True)
        assert (m.spot.suspensions, m.spot.evictions, m.spot.lost) == (1, 0, 1)
        assert m.useful_gpu_hours == pytest.approx(2900 / 3600)
        assert m.spot.wasted_gpu_hours == pytest.approx((120 + 480 + 40) / 3600)
        assert m.spot.lost_gpu_hours == pytest.approx(480 / 3600)

    def test_a_loss_without_a_start_is_a_torn_log(self) -> None:
        with pytest.raises(InputError, match="never started"):
            compute_metrics(log([(0.0, "lost", "h1", 1, "n0", ALL)], LOSSES), LOSSES)

    def test_guarantee_periods_that_a_lost_run_completed_were_delivered(self) -> None:
        """Until the last submission at 14840 s, when a task comes that never starts: all runs count whole."""
        work = world(
            hp("h1", gpus=8, lasting=9000),
            spot("s1", gpus=4, lasting=10000, model="T4"),
            spot("s2", gpus=4, at=100, lasting=1000),
            spot("z", at=14840),
        )
        found = delivered(log([*LOST, (14840.0, "submit", "z", 0, "", "")], work), work, ExecutionRules())
        month = 730 * 3600 / 14940  # until its work would be done: 14,840 s, and 100 s of z
        assert found.spot_gpu_hours == pytest.approx((4 * 10000 + 4 * 1000) / 3600 * month)
        # s1: 7200 of 9000 s, 0 of 1600 s, and the 2840 s it finished in; s2 1000 s
        assert found.guaranteed_gpu_hours == pytest.approx(4 * (7200 + 2840 + 1000) / 3600 * month)


class TestCancellations:
    def test_cancelled_tasks_have_no_times(self) -> None:
        m = compute_metrics(log(WITHDRAWN, WITHDRAWALS), WITHDRAWALS)
        assert (m.spot.tasks, m.spot.jct_mean, m.spot.jqt_max, m.spot.slowdown_mean) == (0, 0.0, 0.0, 0.0)
        assert (m.spot.cancelled, m.hp.cancelled, m.hp.tasks) == (2, 0, 2)

    def test_a_cancelled_run_is_one_but_neither_useful_nor_wasted(self) -> None:
        m = compute_metrics(log(WITHDRAWN, WITHDRAWALS), WITHDRAWALS)
        assert (m.spot.runs, m.spot.evictions, m.spot.eviction_rate) == (2, 1, 0.5)
        assert m.spot.wasted_gpu_hours == pytest.approx(16 * 1800 / 3600)  # of the eviction
        assert m.useful_gpu_hours == pytest.approx((16 * 3600 + 8 * 3600 + 2 * 690) / 3600)
        # A100: s1 16 x (5400 + 970), h1 8 x 3600
        assert m.allocation_rate["A100"] == pytest.approx((16 * 6370 + 8 * 3600) / (16 * 12690))

    @pytest.mark.parametrize(
        ("hours", "periods", "rate"),
        [
            (1.0, 1, 1.0),  # evicted after an hour and a half; cancelled after 970 s: says nothing
            (2.0, 0, 0.0),  # evicted too early, the only run that counts
            (0.25, 7, 1.0),  # of 15 minutes: 6 of 5400 s, 1 of 970 s, and both runs count
        ],
    )
    def test_whole_periods_count_the_last_one_does_not(self, hours: float, periods: int, rate: float) -> None:
        tasks = tuple(replace(task, guarantee_hours=hours) for task in WITHDRAWALS.tasks)
        work = replace(WITHDRAWALS, tasks=tasks)
        spot = compute_metrics(log(WITHDRAWN, work), work).spot
        assert (spot.guarantee_periods, spot.guarantee_hit_rate) == (periods, rate)

    def test_runs(self) -> None:
        runs = runs_table(log(WITHDRAWN, WITHDRAWALS, encoded=True), WITHDRAWALS)
        assert runs.task.tolist() == [0, 0, 2, 3]
        assert runs.cancelled.tolist() == [False, True, False, False]
        assert runs.end.tolist() == [5400.0, 10000.0, 9030.0, 12690.0]
        assert np.array_equal(runs.withdrawn, [10000.0, 900.0, np.nan, np.nan], equal_nan=True)

    def test_what_spot_tasks_got_leaves_a_cancelled_run_out(self) -> None:
        found = delivered(log(WITHDRAWN, WITHDRAWALS), WITHDRAWALS, ExecutionRules())
        month = 730 * 3600 / 12690  # a short trace lasts until its work would be done
        assert found.spot_gpu_hours == pytest.approx(16 * month)  # the hour that the eviction left
        assert found.guaranteed_gpu_hours == pytest.approx(16 * month)


@needs.shared(AUDITOR)
@pytest.mark.parametrize("window", [None, (100.0, 30_000.0)])
@pytest.mark.parametrize("case", ["losses", "withdrawals", *range(6)])
def test_the_outside_auditor_agrees(tmp_path: Path, case: str | int, window: tuple[float, float] | None) -> None:
    stories = {"losses": (LOSSES, LOST), "withdrawals": (WITHDRAWALS, WITHDRAWN)}
    drawn = scrambled(case, troubled=True) if isinstance(case, int) else stories[case]
    agrees_with_auditor(tmp_path, *drawn, window)


def test_the_logs_by_lot_have_all_that_can_happen() -> None:
    work, rows = scrambled(0, troubled=True)
    kinds = {task.name: task.priority.label for task in work.tasks}
    assert {(kinds[task], event, bool(run)) for _, event, task, run, _, _ in rows} >= {
        ("HP", "lost", True),
        ("Spot", "lost", True),
        ("HP", "cancel", True),
        ("Spot", "cancel", False),
        ("Spot", "evict", True),
    }
