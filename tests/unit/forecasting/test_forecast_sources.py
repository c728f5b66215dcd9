"""Demand of a trace, of an event log and of records: what counts in which hour."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from builders import Draft, hp, nodes, play, spot, workload
from gfs.domain.errors import InputError
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.forecasting.sources import MOST_HOURS, history_of_events, history_of_records, history_of_workload

H = 3600.0


def demand(*drafts: Draft, until: float | None = None) -> DemandHistory:
    machines = [*nodes(8, 8), *nodes(8, model="A10", prefix="a", first=2)]
    return history_of_workload(workload(machines, drafts), until)


def values(history: DemandHistory, organization: str = "lab", model: str = "A100") -> list[float]:
    found: list[float] = history.gpus[history.keys.index(SeriesKey(organization, model))].tolist()
    return found


class TestTrace:
    def test_the_maximum_of_an_hour_counts_not_its_mean(self) -> None:
        history = demand(hp("a", gpus=4, lasting=60, at=10), hp("b", gpus=2, lasting=60, at=100), until=H)
        assert values(history) == [4]

    def test_tasks_at_once_add_up(self) -> None:
        assert values(demand(hp("a", gpus=4, lasting=60), hp("b", gpus=2, pods=2, lasting=60), until=H)) == [8]

    def test_a_long_task_counts_in_every_hour_it_touches(self) -> None:
        history = demand(hp("a", at=1.5 * H, lasting=2 * H), until=5 * H)
        assert history.start == 1
        assert values(history) == [1, 1, 1, 0]

    def test_an_end_on_the_hour_does_not_count_in_the_next(self) -> None:
        history = demand(hp("a", gpus=3, lasting=H), hp("b", gpus=2, at=H, lasting=H), until=3 * H)
        assert values(history) == [3, 2, 0]

    def test_what_ends_and_what_begins_at_one_instant_do_not_add_up(self) -> None:
        assert values(demand(hp("a", gpus=3, lasting=60), hp("b", gpus=2, at=60, lasting=9), until=H)) == [3]

    def test_spot_tasks_and_tasks_of_no_length_are_no_demand(self) -> None:
        history = demand(hp("a", lasting=60), hp("b", gpus=8, lasting=0), spot("s", gpus=8), until=H)
        assert values(history) == [1]

    def test_the_last_submission_ends_the_history_with_the_last_full_hour(self) -> None:
        history = demand(hp("a", lasting=9 * H), hp("b", at=2.9 * H), spot("s", at=4.5 * H))
        assert (history.start, history.end) == (0, 4)

    def test_a_series_for_each_organization_and_model_in_alphabetical_order(self) -> None:
        history = demand(
            hp("a", org="x", lasting=60),
            hp("b", org="b", model="A10", lasting=60),
            hp("c", org="b", at=2 * H, lasting=60),
            until=4 * H,
        )
        assert [str(key) for key in history.keys] == ["b on A10", "b on A100", "x on A100"]
        assert history.first.tolist() == [0, 2, 0]
        assert values(history, "b") == [0, 0, 1, 0]

    def test_an_organization_after_the_end_is_known_but_has_no_hour_yet(self) -> None:
        history = demand(hp("a", lasting=60), hp("b", org="new", at=2.5 * H))
        assert history.first.tolist() == [0, 2]
        assert values(history, "new") == [0, 0]

    def test_fractions_add_up_exactly(self) -> None:
        tenths = [hp(f"t{i}", gpus=0.1, lasting=60) for i in range(10)]
        assert values(demand(*tenths, until=H)) == [1.0]

    def test_a_cancelled_task_wants_its_cards_until_then(self) -> None:
        history = demand(hp("a", gpus=4, lasting=5 * H, cancelled=1.5 * H), hp("b", lasting=H), until=4 * H)
        assert values(history) == [5, 4, 0, 0]

    def test_a_cancellation_after_the_end_changes_nothing(self) -> None:
        assert values(demand(hp("a", lasting=H, cancelled=3 * H), until=4 * H)) == [1, 0, 0, 0]

    def test_a_trace_without_hp_tasks_is_refused(self) -> None:
        with pytest.raises(InputError, match="no HP task"):
            demand(spot("s"))

    def test_an_odd_time_does_not_fill_the_memory(self) -> None:
        with pytest.raises(InputError, match="is a time wrong"):
            demand(hp("a"), hp("b", at=(MOST_HOURS + 2) * H))


class TestEventLog:
    def test_queued_counts_like_running(self) -> None:
        # 8 cards: b waits until a is done at 2 h and ends at 3 h
        log = play(nodes(8), hp("a", gpus=8, lasting=2 * H), hp("b", gpus=8, lasting=H), hp("c", at=5.5 * H))
        assert values(history_of_events(log.result.events)) == [16, 16, 8, 0, 0]

    def test_without_a_queue_it_says_what_the_trace_says(self) -> None:
        drafts = [hp("a", gpus=2, lasting=5000), hp("b", at=4000, pods=2, lasting=60), spot("s", at=9000)]
        story = play(nodes(8, 8), *drafts)
        told, planned = history_of_events(story.result.events), history_of_workload(story.result.workload)
        assert told.keys == planned.keys
        assert told.gpus.tolist() == planned.gpus.tolist()

    def test_an_unfinished_task_wants_its_cards_to_the_end(self) -> None:
        row = {"task": "a", "kind": "HP", "organization": "o", "gpu_model": "A100", "gpus": 4.0}
        log = pa.Table.from_pylist([{**row, "time": 0.0, "event": "submit"}])
        assert history_of_events(log, until=3 * H).gpus.tolist() == [[4, 4, 4]]

    def test_a_cancelled_task_wants_its_cards_until_then(self) -> None:
        """a waits until it is cancelled at 1.5 h; b runs, is lost and waits until it is cancelled at 3 h."""
        row = {"kind": "HP", "organization": "o", "gpu_model": "A100", "gpus": 4.0}
        moments = [
            *((0.0, "submit", "a"), (0.0, "submit", "b"), (0.0, "start", "b"), (1.5 * H, "cancel", "a")),
            *((2.0 * H, "lost", "b"), (2.0 * H, "start", "b"), (3.0 * H, "cancel", "b")),
        ]
        log = pa.Table.from_pylist([{**row, "time": t, "event": e, "task": name} for t, e, name in moments])
        assert history_of_events(log, until=5 * H).gpus.tolist() == [[8, 8, 4, 0, 0]]

    def test_a_table_that_is_no_log_is_refused(self) -> None:
        with pytest.raises(InputError, match="no column event, task"):
            history_of_events(pa.table({"time": [1.0]}))

    def test_a_log_without_hp_tasks_is_refused(self) -> None:
        with pytest.raises(InputError, match="no HP task"):
            history_of_events(play(nodes(8), spot("s")).result.events)


class TestRecords:
    def told(self, *rows: tuple[int, int, float]) -> DemandHistory:
        """Rows of (series, hour, gpus)."""
        series, hours, gpus = (np.asarray(column) for column in zip(*rows, strict=True))
        keys = [SeriesKey("o", str(i)) for i in range(max(series) + 1)]
        return history_of_records(keys, series, hours, gpus.astype(float), date(2024, 4, 1))

    def test_a_gap_carries_the_last_value_on(self) -> None:
        assert self.told((0, 5, 3), (0, 8, 7)).gpus.tolist() == [[3, 3, 3, 7]]

    def test_of_several_in_an_hour_the_highest_counts(self) -> None:
        assert self.told((0, 0, 3), (0, 0, 9), (0, 0, 4)).gpus.tolist() == [[9]]

    def test_a_late_series_has_no_demand_before_its_first_record(self) -> None:
        history = self.told((0, 0, 3), (1, 2, 5), (0, 3, 3))
        assert history.first.tolist() == [0, 2]
        assert history.gpus[1, :3].tolist() == [0, 0, 5]

    def test_a_series_that_falls_silent_while_others_go_on_wants_nothing(self) -> None:
        assert self.told((0, 0, 3), (0, 3, 3), (1, 1, 5)).gpus[1].tolist() == [0, 5, 0, 0]

    def test_the_order_of_rows_does_not_matter(self) -> None:
        rows = [(0, 5, 3.0), (1, 6, 2.0), (0, 8, 7.0), (1, 5, 1.0)]
        assert self.told(*rows).gpus.tolist() == self.told(*rows[::-1]).gpus.tolist()

    def test_hours_and_the_first_day_are_kept(self) -> None:
        history = self.told((0, 30, 1), (0, 31, 1))
        assert (history.start, history.end, history.first_day) == (30, 32, date(2024, 4, 1))

    def test_no_record_is_refused(self) -> None:
        nothing = np.empty(0, np.int64)
        with pytest.raises(InputError, match="no record"):
            history_of_records([], nothing, nothing, nothing.astype(float))


def test_histories_of_several_pools_are_joined_at_their_last_hour() -> None:
    old = DemandHistory((SeriesKey("a", "A10"),), np.array([[1.0, 2.0, 3.0]]), np.array([1]), start=5)
    young = DemandHistory((SeriesKey("b", "A100"),), np.array([[9.0]]), np.array([0]), start=7)
    both = DemandHistory.joined([old, young])
    assert (both.start, both.end, both.first.tolist()) == (5, 8, [1, 2])
    assert both.gpus.tolist() == [[1, 2, 3], [0, 0, 9]]
    assert [str(key) for key in both.keys] == ["a on A10", "b on A100"]
