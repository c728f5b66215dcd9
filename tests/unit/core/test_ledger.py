"""Promises kept and broken: F and G of the cost (docs/concepts/how-gfs-decides.md)."""

from __future__ import annotations

from builders import Stage, spot
from gfs.core.ledger import GuaranteeLedger
from gfs.core.run import Run
from gfs.domain.units import HOUR


def started(ledger: GuaranteeLedger, hours: float = 1, at: float = 0.0, name: str = "s") -> Run:
    run = Stage(8).holds("n0", spot(name, hours=hours), start=at)
    ledger.started(run, at)
    return run


def completed(ledger: GuaranteeLedger, now: float) -> int:
    return ledger.totals(now)[1]


def test_a_run_completes_one_period_every_h_hours() -> None:
    ledger = GuaranteeLedger()
    started(ledger, hours=2)
    assert completed(ledger, 2 * HOUR - 0.001) == 0
    assert completed(ledger, 2 * HOUR) == 1
    assert completed(ledger, 3.9 * HOUR) == 1
    assert completed(ledger, 10 * HOUR) == 5


def test_a_finished_run_completes_the_period_it_is_in() -> None:
    ledger = GuaranteeLedger()
    run = started(ledger)
    ledger.finished(run, 1.5 * HOUR)
    run.alive = False
    assert completed(ledger, 1.5 * HOUR) == 2  # the first hour and the one it was in
    assert completed(ledger, 9 * HOUR) == 2


def test_a_run_that_finishes_as_its_period_ends_completes_it_once() -> None:
    ledger = GuaranteeLedger()
    run = started(ledger)
    ledger.finished(run, HOUR)
    run.alive = False
    assert completed(ledger, HOUR) == 1


def test_a_run_without_length_completes_one() -> None:
    ledger = GuaranteeLedger()
    run = started(ledger)
    ledger.finished(run, 0.0)
    run.alive = False
    assert completed(ledger, 5 * HOUR) == 1


def test_an_evicted_run_keeps_what_it_had_completed_and_breaks_one() -> None:
    ledger = GuaranteeLedger()
    run = started(ledger)
    ledger.broken(run, 2.5 * HOUR)
    run.alive = False
    assert ledger.totals(9 * HOUR) == (1, 2)


def test_decimal_times_count_no_period_twice() -> None:
    # (496.1 + 3600) - 496.1 is not 3600 in floating point, yet the run lasted exactly one period.
    ledger = GuaranteeLedger()
    run = started(ledger, at=496.1)
    ledger.finished(run, 496.1 + HOUR)
    run.alive = False
    assert completed(ledger, 9 * HOUR) == 1


def test_a_period_that_ends_with_the_eviction_was_kept() -> None:
    ledger = GuaranteeLedger()
    run = started(ledger)
    ledger.broken(run, HOUR)
    run.alive = False
    assert ledger.totals(HOUR) == (1, 1)


def test_runs_of_different_guarantees_and_starts_add_up() -> None:
    ledger = GuaranteeLedger()
    started(ledger, hours=1, at=0.0)
    started(ledger, hours=4, at=0.5 * HOUR)
    started(ledger, hours=1, at=0.5 * HOUR)
    # At 5 h: 5 + floor(4.5/4) + floor(4.5) = 5 + 1 + 4. Asked late and only once: nothing is missed.
    assert completed(ledger, 5 * HOUR) == 10


def test_a_run_that_was_lost_or_cancelled_has_neither_kept_nor_broken_the_period_it_was_in() -> None:
    ledger = GuaranteeLedger()
    run = started(ledger)
    ledger.forgotten(run, 2.5 * HOUR)
    run.alive = False
    assert ledger.totals(9 * HOUR) == (0, 2)


def test_what_is_older_than_the_look_back_counts_no_more() -> None:
    # A run that keeps an hour each hour, looked at every six hours: of the last day there are always 24 periods.
    ledger = GuaranteeLedger(look_back=24 * HOUR)
    started(ledger)
    victim = started(ledger, name="victim")
    assert ledger.totals(0.0) == (0, 0)
    ledger.broken(victim, 0.5 * HOUR)
    victim.alive = False
    seen = [ledger.totals(now * HOUR) for now in range(6, 49, 6)]
    assert seen == [(1, 6), (1, 12), (1, 18), (1, 24), (0, 24), (0, 24), (0, 24), (0, 24)]
    assert ledger.counts(HOUR, 48 * HOUR) == (1, 0, 48, 1, 1), "the counts for feedback know no look back"


def test_a_ledger_that_is_asked_seldom_still_forgets_what_is_old() -> None:
    # Evicted on day 0; starts go on every day, but nobody asks for F and G before day 100.
    ledger = GuaranteeLedger(look_back=30 * 24 * HOUR)
    victim = started(ledger)
    ledger.broken(victim, HOUR / 2)
    victim.alive = False
    for day in range(1, 100):
        run = started(ledger, name=f"day {day}", at=day * 24 * HOUR)
        ledger.finished(run, day * 24 * HOUR + 60)
        run.alive = False
    evicted, kept = ledger.totals(100 * 24 * HOUR)
    assert evicted == 0
    assert 29 <= kept <= 31, "one a day, to a mark of six hours"
