"""Users who invent guarantees: nothing is kept for one that no task has any more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_state import Live

from builders import Draft, Stage, hp, spot
from gfs import SCHEDULERS
from gfs.core.admission import SpotAdmission
from gfs.core.events import Cancelled, Finished, Tick
from gfs.core.ledger import MOST_GUARANTEES, GuaranteeLedger
from gfs.core.run import Run
from gfs.domain.units import HOUR
from gfs.quota.static import FixedQuota
from gfs.quota.waits import SpotWaits

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))


def invented(many: int, gpus: float = 1) -> Iterator[Draft]:
    for i in range(many):
        yield spot(f"s{i}", gpus=gpus, hours=1 + i / 1000)


@every_scheduler
def test_guarantees_that_nobody_has_any_more_leave_nothing_behind(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler, quota="fixed", quota_share=1.0)
    now = 0.0
    for draft in invented(300):
        live.submit(now, draft)
        now += 300.0
        live.tell(now, *(Finished(run) for run in live.state().runs.values()), Tick())
    state = live.state()
    assert len(state.pool.spot_in_use) <= 1
    live.tell(now + 3 * HOUR, *(Finished(run) for run in state.runs.values()), Tick())
    evicted, completed = state.ledger.totals(now + 9 * HOUR)
    assert (evicted, completed) == (0, 300), "all were kept"
    assert not state.pool.spot_in_use
    assert not state.ledger._due
    assert len(state.ledger._by_guarantee) <= MOST_GUARANTEES + 1
    assert state.ledger.counts(0.0, now + 9 * HOUR) == (0, 300, 300, 300, 0)


@every_scheduler
def test_waits_of_invented_guarantees_are_forgotten(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler, quota="weekly-peak")
    live.submit(0, hp("h", gpus=4))
    live.submit(1, *invented(50, gpus=4))
    waits = live.part(SpotWaits)
    assert waits.longest(1.0, 301.0) == 300
    live.tell(600, *(Cancelled(live.tasks[f"s{i}"]) for i in range(50)), Tick())
    assert not waits._since
    assert waits.longest(1.0, 900.0) == 0
    for queue in getattr(live.scheduler.pools["A100"].policy, "_queues", ()):
        assert not getattr(queue, "_lanes", None)


def test_ended_waits_are_forgotten_when_their_guarantee_is_over() -> None:
    waits = SpotWaits()
    for i, draft in enumerate(invented(100)):
        task = draft.task(i)
        waits.submitted(task, i * 60.0)
        waits.started(Run(task, 1, [], i * 60.0 + 30, 0.0), i * 60.0 + 30)
    assert waits.longest(1.0, 100 * 60.0) == 30
    # The last one started at 99 x 60 + 30 s, and its guarantee is 1.099 h.
    assert waits.longest(1.0, 99 * 60 + 30 + 1.099 * HOUR + 1) == 0
    assert not waits._ended


def test_counts_that_are_asked_for_stay_exact_when_others_are_summed_up() -> None:
    """Offered are 1 h and 2 h. Of 300 tasks with other guarantees between 0.5 h and 3.5 h every third is evicted."""
    ledger, expected = GuaranteeLedger(), {HOUR: [0, 0], 2 * HOUR: [0, 0]}
    for seconds in expected:
        ledger.counts(seconds, 0.0)
    for i in range(300):
        hours, now = 0.5 + i / 100, i * 4 * HOUR
        run = Run(spot("s", hours=hours).task(i), 1, [], now, now)
        ledger.started(run, now)
        evicted = i % 3 == 0
        (ledger.broken if evicted else ledger.finished)(run, now + 60)
        run.alive = False
        for seconds, counts in expected.items():
            if hours * HOUR >= seconds:
                counts[not evicted] += 1
    for seconds, counts in expected.items():
        assert ledger.counts(seconds, 2000 * HOUR) == (*counts, counts[1], counts[1], counts[0])
    assert ledger.totals(2000 * HOUR) == (100, 200)
    assert len(ledger._by_guarantee) <= MOST_GUARANTEES + 3
    assert not ledger._due


def test_for_an_invented_guarantee_the_shorter_ones_on_offer_count_and_its_own() -> None:
    stage = Stage(8)
    admission = SpotAdmission(stage.pool, FixedQuota(stage.pool, 0.5, guarantees=(1.0, 2.0, 4.0)))
    assert admission.counted(3.0) == (1.0, 2.0, 3.0)
    assert admission.counted(4.0) == (1.0, 2.0, 4.0)
    assert admission.counted(0.5) == (0.5,)
