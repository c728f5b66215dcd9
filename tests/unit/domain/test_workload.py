"""What goes with the tasks of a workload, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from builders import hp, nodes, spot, workload
from gfs import InputError, NodeEvent, Workload
from gfs.domain.workload import check_workload

BASE = workload(
    nodes(8, 8),
    [hp("a", at=0, lasting=10), spot("b", at=5, lasting=20, cancelled=35), hp("c", at=5, lasting=30)],
    [NodeEvent(3.0, "n1", "fail"), NodeEvent(4.0, "n1", "repair")],
)


class TestWithTasks:
    def test_durations_and_cancellations_go_with_their_tasks(self) -> None:
        cut = BASE.with_tasks(BASE.tasks[:0:-1])
        assert [(task.name, task.index) for task in cut.tasks] == [("b", 0), ("c", 1)]
        assert (cut.durations, cut.cancel_times) == ((20, 30), (35, inf))
        assert (cut.nodes, cut.node_events, cut.name) == (BASE.nodes, BASE.node_events, BASE.name)

    def test_a_copy_at_another_time_is_cancelled_as_long_after(self) -> None:
        """b comes at 5 and is cancelled 30 s later; its copy comes at 100."""
        copy = replace(BASE.tasks[1], name="copy", submit_time=100.0)
        more = BASE.with_tasks([*BASE.tasks, copy])
        assert [task.name for task in more.tasks] == ["a", "b", "c", "copy"]
        assert more.durations == (10, 20, 30, 20)
        assert more.cancel_times == (inf, 35, inf, 130)

    def test_where_nobody_cancels_nobody_does(self) -> None:
        plain = replace(BASE, cancel_times=())
        assert plain.with_tasks(plain.tasks[:2]).cancel_times == ()

    def test_no_tasks(self) -> None:
        none = BASE.with_tasks([])
        assert (none.tasks, none.durations, none.cancel_times) == ((), (), ())


class TestChecks:
    def test_as_many_durations_and_cancellations_as_tasks(self) -> None:
        with pytest.raises(InputError, match="3 tasks needs as many durations, not 0"):
            Workload(BASE.tasks, BASE.nodes)
        with pytest.raises(InputError, match="3 tasks needs as many cancel_times, not 1"):
            replace(BASE, cancel_times=(inf,))

    def test_a_sound_workload_passes(self) -> None:
        check_workload(BASE)
        check_workload(replace(BASE, cancel_times=(0.0, 5.0, inf)))  # in the instant of submission

    @pytest.mark.parametrize("when", [4.9, nan, -inf])
    def test_cancelled_before_submission(self, when: float) -> None:
        with pytest.raises(InputError, match=r"task b is cancelled at .*, before it is submitted at 5"):
            check_workload(replace(BASE, cancel_times=(inf, when, inf)))

    @pytest.mark.parametrize(
        ("events", "said"),
        [
            ([NodeEvent(1.0, "n9", "fail")], "speaks of node 'n9', which the workload does not have"),
            ([NodeEvent(1.0, "n0", "drain")], "event 'drain' at 1: there are fail, repair, cordon, uncordon"),  # type: ignore[arg-type]
            ([NodeEvent(-1.0, "n0", "fail")], "its time must be 0 to 100,000,000,000"),
            ([NodeEvent(nan, "n0", "fail")], "its time must be 0 to 100,000,000,000"),
            ([NodeEvent(9.0, "n0", "fail"), NodeEvent(8.0, "n0", "repair")], "out of order"),
        ],
    )
    def test_node_events(self, events: list[NodeEvent], said: str) -> None:
        wrong = replace(BASE, node_events=tuple(events))
        with pytest.raises(InputError, match=f"this workload cannot be scheduled: .*{said}"):
            check_workload(wrong)
