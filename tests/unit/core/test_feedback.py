"""Eta (docs/concepts/spot-quota.md): every branch of the rule, its bounds, and where its two numbers come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Stage, hp, spot
from gfs.core.ledger import GuaranteeCounts, GuaranteeLedger
from gfs.core.run import End, Run, Waiting
from gfs.quota.feedback import BrokenRates, EvictionFeedback, EvictionRates, NoFeedback, Rule
from gfs.quota.waits import SpotWaits

HOUR = 3600.0
P90 = Rule(target=0.1)


@pytest.mark.parametrize(
    ("eta", "e", "wait", "expected"),
    [
        (1.0, 0.2, 0.0, 0.5),  # above 0.15: 1 x 0.1 / 0.2
        (1.0, 0.2, 9e9, 0.5),  # ... however long someone waits
        (0.8, 0.16, 0.0, 0.5),  # 0.8 x 0.1 / 0.16
        (1.0, 0.15, 0.0, 1.0),  # at 1.5 times the target: not above it
        (1.0, 0.1, 9e9, 1.0),  # on target: stays
        (1.0, 0.05, 9e9, 1.0),  # half the target: not below it
        (1.0, 0.04, 3601.0, 1.1),  # 1.5 - 0.04 / 0.1
        (1.0, 0.0, 3601.0, 1.5),
        (2.0, 0.0, 3601.0, 3.0),
        (1.0, 0.0, 3600.0, 1.0),  # few evictions, but nobody waits longer than theta
        (3.0, 0.0, 9e9, 4.0),  # 4.5, held at the upper bound
        (0.15, 0.5, 0.0, 0.1),  # 0.03, held at the lower bound
    ],
)
def test_one_step(eta: float, e: float, wait: float, expected: float) -> None:
    assert P90.next(eta, e, wait) == pytest.approx(expected)


def test_the_target_follows_p() -> None:
    rule = Rule(target=0.05)
    assert rule.next(1.0, 0.08, 0.0) == pytest.approx(0.625)  # above 0.075
    assert rule.next(1.0, 0.02, 4000.0) == pytest.approx(1.1)  # below 0.025


def test_theta_and_bounds_can_be_set() -> None:
    rule = Rule(0.1, theta=60.0, least=0.5, most=1.2)
    assert rule.next(1.0, 0.0, 61.0) == 1.2
    assert rule.next(1.0, 0.9, 61.0) == 0.5


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e7)), max_size=50), st.floats(0.001, 0.5))
def test_eta_stays_within_bounds_whatever_happens(events: list[tuple[float, float]], target: float) -> None:
    rule, eta = Rule(target), 1.0
    for e, wait in events:
        eta = rule.next(eta, e, wait)
        assert 0.1 <= eta <= 4.0


# -- evictions over the last H hours -------------------------------------------------------------------


class Counts(GuaranteeLedger):
    """A ledger with given counts."""

    evicted_so_far = 0
    finished_so_far = 0
    kept_so_far = 0
    broken_so_far = 0

    def counts(self, guarantee_seconds: float, now: float) -> GuaranteeCounts:
        return GuaranteeCounts(self.evicted_so_far, self.finished_so_far, 0, self.kept_so_far, self.broken_so_far)


def test_only_the_last_h_hours_count() -> None:
    ledger = Counts()
    rates = EvictionRates(ledger)
    ledger.evicted_so_far, ledger.finished_so_far = 1, 3
    assert rates.rate(1.0, 0.0) == 0.25  # 1 of 4 so far
    ledger.evicted_so_far, ledger.finished_so_far = 2, 4
    assert rates.rate(1.0, 1800.0) == pytest.approx(2 / 6)  # the whole past is not an hour long yet
    ledger.finished_so_far = 7
    assert rates.rate(1.0, 3600.0) == pytest.approx(1 / 5)  # since 0:00: 1 evicted, 4 finished
    assert rates.rate(1.0, 5400.0) == 0.0  # since 0:30: 0 evicted, 3 finished
    assert rates.rate(1.0, 9000.0) == 0.0  # neither: nothing is wrong


def test_each_guarantee_looks_back_over_its_own_hours() -> None:
    ledger = Counts()
    rates = EvictionRates(ledger)
    for hour, (evicted, completed) in enumerate([(0, 0), (1, 1), (1, 4)]):
        ledger.evicted_so_far, ledger.finished_so_far = evicted, completed
        last_hour, last_two = rates.rate(1.0, hour * HOUR), rates.rate(2.0, hour * HOUR)
    assert last_hour == 0.0  # 0 of 3
    assert last_two == 0.2  # 1 of 5


def run_of(name: str, hours: float, start: float, index: int) -> Run:
    return Run(spot(name, hours=hours).task(index), 1, [], start, 0.0)


def test_the_ledger_counts_by_guarantee() -> None:
    ledger = GuaranteeLedger()
    short, long = run_of("a", 1.0, 0.0, 1), run_of("b", 4.0, 0.0, 2)
    for run in (short, long):
        ledger.started(run, 0.0)
    assert ledger.counts(1 * HOUR, 2 * HOUR) == (0, 0, 2, 1, 0)  # two periods of a, none of b yet
    assert ledger.counts(4 * HOUR, 4 * HOUR) == (0, 0, 1, 1, 0)
    ledger.broken(short, 4.5 * HOUR)
    short.alive = False
    assert ledger.counts(1 * HOUR, 4.5 * HOUR) == (1, 0, 5, 2, 0)  # a's four and b's one; a had its hour
    assert ledger.counts(2 * HOUR, 4.5 * HOUR) == (0, 0, 1, 1, 0)  # b alone
    ledger.finished(long, 5 * HOUR)  # inside its second period: kept
    assert ledger.counts(4 * HOUR, 5 * HOUR) == (0, 1, 2, 1, 0)
    assert ledger.totals(5 * HOUR) == (1, 6)


# -- waits ---------------------------------------------------------------------------------------------


def test_the_longest_wait_lasts_or_ended_within_h_hours() -> None:
    waits = SpotWaits()
    a, b = (run_of(name, 1.0, 0.0, index) for index, name in enumerate("ab"))
    assert waits.longest(1.0, 0.0) == 0.0
    waits.submitted(a.task, 0.0)
    waits.submitted(b.task, 600.0)
    assert waits.longest(1.0, 1000.0) == 1000.0  # a
    a.start = 2000.0
    waits.started(a, 2000.0)
    assert waits.longest(1.0, 2100.0) == 2000.0  # a's wait has ended, not long ago
    assert waits.longest(1.0, 3000.0) == 2400.0  # b
    b.start = 3000.0
    waits.started(b, 3000.0)
    assert waits.longest(1.0, 3000.0 + HOUR) == 2400.0
    assert waits.longest(1.0, 3001.0 + HOUR) == 0.0  # both are forgotten


def test_an_evicted_task_waits_anew() -> None:
    waits = SpotWaits()
    run = run_of("a", 1.0, 0.0, 0)
    waits.submitted(run.task, 0.0)
    waits.started(run, 0.0)
    waits.ended(run, End.EVICTED, 500.0)
    assert waits.longest(1.0, 800.0) == 300.0


def test_after_a_failed_start_a_task_waits_as_if_it_had_not_been_tried() -> None:
    waits = SpotWaits()
    early, late = run_of("early", 1.0, 900.0, 0), run_of("late", 1.0, 0.0, 1)
    waits.submitted(early.task, 0.0)
    waits.submitted(late.task, 600.0)
    early.waited = Waiting(early.task, 1, 0.0)
    waits.started(early, 900.0)
    assert waits.longest(1.0, 950.0) == 900.0  # its wait has ended, not long ago
    waits.ended(early, End.START_FAILED, 960.0)
    assert waits.longest(1.0, 1000.0) == 1000.0  # it goes on
    waits.started(late, 1000.0)
    assert waits.longest(1.0, 9000.0) == 9000.0


def test_who_is_cancelled_waits_no_longer() -> None:
    waits = SpotWaits()
    a, b = run_of("a", 1.0, 100.0, 0), run_of("b", 1.0, 0.0, 1)
    waits.submitted(a.task, 0.0)
    waits.submitted(b.task, 50.0)
    waits.started(a, 100.0)
    waits.ended(a, End.CANCELLED, 200.0)
    assert waits.longest(1.0, 250.0) == 200.0  # b
    waits.withdrawn(b.task, 300.0)
    assert waits.longest(1.0, 400.0) == 100.0  # what a waited, not long ago


def test_waits_of_shorter_guarantees_do_not_open_the_quota_of_longer_ones() -> None:
    waits = SpotWaits()
    for index, (name, hours) in enumerate({"a": 1.0, "b": 4.0}.items()):
        waits.submitted(run_of(name, hours, 0.0, index).task, 0.0)
    b = run_of("b", 4.0, 100.0, 1)
    waits.started(b, 100.0)
    assert waits.longest(1.0, 5000.0) == 5000.0
    assert waits.longest(4.0, 5000.0) == 100.0
    assert waits.longest(1.0, 5000.0) == 5000.0


def test_a_wait_that_ended_counts_whatever_ended_before_it_with_a_shorter_guarantee() -> None:
    waits = SpotWaits()
    for index, (hours, start) in enumerate(((1.0, 50.0), (4.0, 100.0), (2.0, 150.0))):
        run = run_of(f"s{index}", hours, start, index)
        waits.submitted(run.task, 0.0)
        waits.started(run, start)
    assert [waits.longest(hours, 200.0) for hours in (1.0, 2.0, 4.0, 8.0)] == [150.0, 150.0, 100.0, 0.0]


def test_hp_waits_do_not_count() -> None:
    waits = SpotWaits()
    waits.submitted(hp("h").task(0), 0.0)
    assert waits.longest(1.0, 9e9) == 0.0


def test_a_guarantee_is_broken_by_an_eviction_within_its_hours_and_kept_once_for_a_run() -> None:
    # Guarantee of one hour. Evicted after 0.5 h: broken. Evicted after 2.5 h, done after 0.5 h, and running: kept.
    ledger = GuaranteeLedger()
    early, late, done, long = runs = [run_of(name, 1.0, 0.0, i) for i, name in enumerate("abcd")]
    for run in runs:
        ledger.started(run, 0.0)
    ledger.broken(early, 0.5 * HOUR)
    early.alive = False
    ledger.finished(done, 0.5 * HOUR)
    done.alive = False
    ledger.broken(late, 2.5 * HOUR)
    late.alive = False
    evicted, finished, _, kept, broken = ledger.counts(HOUR, 3 * HOUR)
    assert (evicted, finished, kept, broken) == (2, 1, 3, 1)
    assert long.alive
    assert BrokenRates(ledger).rate(1.0, 3 * HOUR) == 0.25
    assert EvictionRates(ledger).rate(1.0, 3 * HOUR) == pytest.approx(2 / 3)


def test_broken_guarantees_are_compared_with_those_kept_not_with_runs_that_finished() -> None:
    ledger = Counts()
    ledger.evicted_so_far, ledger.finished_so_far, ledger.kept_so_far, ledger.broken_so_far = 2, 6, 9, 1
    assert EvictionRates(ledger).rate(1.0, 0.0) == 0.25
    assert BrokenRates(ledger).rate(1.0, 0.0) == 0.1


def test_feedback_looks_at_both_and_moves_eta_once_in_h_hours() -> None:
    ledger, waits = Counts(), SpotWaits()
    feedback = EvictionFeedback(EvictionRates(ledger), waits, P90)
    waits.submitted(run_of("a", 1.0, 0.0, 0).task, 0.0)
    assert feedback.update(1.0, 3600.0) == (1.0, 0.0, 3600.0)  # not above theta
    assert feedback.update(1.0, 3900.0) == (1.5, 0.0, 3900.0)
    ledger.evicted_so_far = 1
    assert feedback.update(1.0, 4200.0) == (1.5, 1.0, 4200.0)  # it has moved five minutes ago
    assert feedback.update(1.0, 7499.0).eta == 1.5
    eta, rate, wait = feedback.update(1.0, 7500.0)
    assert (eta, rate, wait) == (pytest.approx(0.15), 1.0, 7500.0)  # an hour later: 1.5 x 0.1 / 1
    assert feedback.update(1.0, 7800.0).eta == pytest.approx(0.15)
    assert feedback.update(2.0, 7800.0).eta == 0.1  # its own eta began at 1


def test_the_same_evictions_move_eta_only_once() -> None:
    # Two of ten runs are evicted at once: eta halves. By the next step, an hour later, they are out of the window.
    ledger = Counts()
    feedback = EvictionFeedback(EvictionRates(ledger), SpotWaits(), P90)
    feedback.update(1.0, 0.0)
    ledger.evicted_so_far, ledger.finished_so_far = 2, 8
    etas = [feedback.update(1.0, 300.0 * tick).eta for tick in range(1, 40)]
    assert set(etas) == {0.5}


def test_without_feedback_eta_is_1_and_the_numbers_are_still_told() -> None:
    ledger, waits = Counts(), SpotWaits()
    ledger.evicted_so_far, ledger.finished_so_far = 3, 1
    assert NoFeedback(EvictionRates(ledger), waits).update(1.0, 0.0) == (1.0, 0.75, 0.0)


def test_an_evicted_spot_run_is_in_the_ledger_and_an_hp_run_is_not() -> None:
    stage = Stage(8)
    victim, other = stage.holds("n0", spot("s", hours=1)), stage.holds("n0", hp("h", hours=1))
    stage.evicts(victim, 1800.0)
    stage.evicts(other, 1800.0)
    # Evicted within its hour: one run evicted, one guarantee broken.
    assert stage.state.ledger.counts(HOUR, 1800.0) == (1, 0, 0, 0, 1)
