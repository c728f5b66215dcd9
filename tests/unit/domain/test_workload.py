"""What goes with the tasks of a workload, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from builders import Draft, hp, nodes, spot, workload
from gfs import InputError, NodeEvent, Role, Workload
from gfs.domain.workload import check_workload, never_fitting

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


class TestMixedTasks:
    """One node of 8 GPUs in rack a, two of 4 in rack b."""

    machines = tuple(replace(node, labels=(("rack", rack),)) for node, rack in zip(nodes(8, 4, 4), "abb", strict=True))

    def problem(self, *drafts: Draft) -> str:
        work = workload(self.machines, drafts)
        with pytest.raises(InputError) as caught:
            check_workload(work)
        return str(caught.value).removeprefix("this workload cannot be scheduled: task t ")

    @pytest.mark.parametrize(
        ("roles", "rack"),
        [
            ((Role(1, 0), Role(4, 4)), ""),
            ((Role(1, 8), Role(2, 4)), ""),
            ((Role(50, 0, cpus_per_pod=1e6), Role(1, 0.5)), ""),
            ((Role(3, 0), Role(2, 4)), "rack"),
        ],
    )
    def test_what_may_fit_passes(self, roles: tuple[Role, ...], rack: str) -> None:
        work = workload(self.machines, [hp("t", roles=roles, topology=rack)])
        check_workload(work)
        assert never_fitting(work) == []

    @pytest.mark.parametrize(
        ("roles", "why"),
        [
            ((Role(1, 0), Role(1, 9)), "can hold: 0 pods of 9 GPUs"),
            ((Role(1, 0), Role(5, 4)), "can hold: 4 pods of 4 GPUs"),
            ((Role(1, 8), Role(3, 4)), "can hold: 16 GPUs together"),
        ],
    )
    def test_by_role_and_together(self, roles: tuple[Role, ...], why: str) -> None:
        draft = hp("t", roles=roles)
        assert self.problem(draft).endswith(f"more than all nodes with A100 {why}")
        assert [task.name for task in never_fitting(workload(self.machines, [draft, hp("u")]))] == ["t"]

    @pytest.mark.parametrize(
        ("wishes", "why"),
        [
            ({"pods": 3, "gpus": 4}, "asks 3 pods of 4 GPUs, more than any rack can hold: 2 pods of 4 GPUs in a"),
            ({"gpus": 1, "topology": "row"}, "asks 1 pods of 1 GPUs, no node with A100 has the label row"),
            (
                {"roles": (Role(1, 8), Role(1, 4))},
                "asks 1 pods of 8 GPUs + 1 pods of 4 GPUs, more than any rack can hold: 8 GPUs together in a",
            ),
        ],
    )
    def test_within_one_domain(self, wishes: dict[str, Any], why: str) -> None:
        draft = hp("t", **{"topology": "rack"} | wishes)
        assert self.problem(draft) == why
        assert len(never_fitting(workload(self.machines, [draft]))) == 1

    @pytest.mark.parametrize(
        ("role", "why"),
        [
            (Role(0, 1), "asks 0 pods of 1 GPUs + 1 pods of 1 GPUs"),
            (Role(1, -1), "asks 1 pods of 1 GPUs + 1 pods of -1 GPUs"),
            (Role(1, 1.5), "asks 1 pods of 1.5 GPUs + 1 pods of 1 GPUs"),
            (Role(1, 1e-9), "asks 1 pods of 1 GPUs + 1 pods of 1e-09 GPUs"),
            (Role(100_001, 0), "asks 1 pods of 1 GPUs + 100001 pods of 0 GPUs"),
            (Role(1, 0, cpus_per_pod=-1), "asks for -1 cpus per pod; it must be 0 to 1,000,000,000,000,000"),
            (Role(1, 0, resources=(("x", nan),)), "asks for nan x per pod; it must be 0 to 1,000,000,000,000,000"),
        ],
    )
    def test_roles_that_cannot_be(self, role: Role, why: str) -> None:
        assert self.problem(hp("t", roles=(role, Role(1, 1)))) == why

    def test_some_role_asks_for_gpus(self) -> None:
        assert self.problem(hp("t", roles=(Role(1, 0), Role(2, 0)))) == "asks 1 pods of 0 GPUs + 2 pods of 0 GPUs"

    @pytest.mark.parametrize("amount", [-1.0, nan, inf])
    def test_nodes_have_amounts_that_can_be(self, amount: float) -> None:
        strange = replace(self.machines[0], resources=(("rdma/ib", amount),))
        with pytest.raises(InputError, match=f"node n0 has {amount:g} rdma/ib; it must be 0 to"):
            check_workload(workload([strange], [hp("t")]))


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
