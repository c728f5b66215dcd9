"""The same trace on other nodes, or with other spot work, with worked numbers."""

from __future__ import annotations

from math import inf

from builders import hp, nodes, spot, workload
from gfs import NodeEvent
from gfs.plans.runs import node_counts, with_nodes, with_spot, without_misfits


class TestNodes:
    def test_ten_percent_of_each_pool_to_the_nearest_node(self) -> None:
        """0.9 x 32 = 28.8, 1.1 x 32 = 35.2; of 4 and of 1 ten percent are less than half a node."""
        machines = [
            *nodes(*[8] * 32),
            *nodes(4, 4, 4, 4, model="A10", prefix="a"),
            *nodes(8, model="H800", prefix="h"),
        ]
        cluster = workload(machines, [])
        assert node_counts(cluster, 0.9) == {"A100": (32, 29), "A10": (4, 4), "H800": (1, 1)}
        assert node_counts(cluster, 1.1) == {"A100": (32, 35), "A10": (4, 4), "H800": (1, 1)}
        assert node_counts(cluster, 0.01)["H800"] == (1, 1)

    def test_which_nodes_go_is_spread_over_the_sizes(self) -> None:
        """Ten small and ten large ones: of each size one goes, the sixth of ten."""
        cluster = workload(nodes(*[1, 8] * 10), [])
        left = with_nodes(cluster, 0.9)
        assert [node.gpus for node in left.nodes].count(1) == 9
        assert [node.gpus for node in left.nodes].count(8) == 9
        assert [node.index for node in left.nodes] == list(range(18))
        assert {n.name for n in cluster.nodes} - {n.name for n in left.nodes} == {"n10", "n11"}

    def test_more_nodes_are_twins_with_names_of_their_own(self) -> None:
        cluster = workload([*nodes(*[8] * 9), *nodes(8, prefix="n4~2", first=9)], [])
        more = with_nodes(cluster, 1.2)
        assert [node.name for node in more.nodes[10:]] == ["n2~2", "n7~2"]
        assert len({node.name for node in more.nodes}) == 12
        assert with_nodes(cluster, 2.5).capacity() == {"A100": 8 * 25}

    def test_a_pool_of_one_node_stays(self) -> None:
        cluster = workload(nodes(8), [])
        assert with_nodes(cluster, 0.9) == with_nodes(cluster, 1.1) == cluster

    def test_what_happens_to_nodes_happens_to_those_that_are_left(self) -> None:
        """Of ten nodes n5 goes; of eleven the new one, n5~2, never fails."""
        events = [NodeEvent(float(i), f"n{i}", "cordon") for i in range(10)]
        cluster = workload(nodes(*[8] * 10), [], events)
        assert [event.node for event in with_nodes(cluster, 0.9).node_events] == [f"n{i}" for i in range(10) if i != 5]
        assert with_nodes(cluster, 1.1).node_events == tuple(events)

    def test_tasks_that_then_fit_nowhere_are_told(self) -> None:
        """A gang of ten pods needs all ten nodes: on nine it could never start."""
        drafts = [hp("big", gpus=8, pods=10), spot("s", at=5, lasting=7, cancelled=8), hp("h", at=9, lasting=3)]
        cluster = workload(nodes(*[8] * 10), drafts)
        left, misfits = without_misfits(with_nodes(cluster, 0.9))
        assert [task.name for task in misfits] == ["big"]
        assert [(task.name, task.index) for task in left.tasks] == [("s", 0), ("h", 1)]
        assert (left.durations, left.cancel_times) == ((7, 3), (8, inf))
        assert without_misfits(cluster) == (cluster, [])


class TestSpotWork:
    base = workload(nodes(8), [hp("h", at=0), spot("s1", at=100), spot("s2", at=300), hp("z", at=400)])

    def test_twice_is_every_spot_task_again_half_a_trace_later(self) -> None:
        """The trace lasts 400 s: 100 + 200 = 300, and 300 + 200 wraps around to 100."""
        twice = with_spot(self.base, 2)
        assert [(t.name, t.submit_time) for t in twice.tasks] == [
            ("h", 0),
            ("s1", 100),
            ("s2~2", 100),
            ("s1~2", 300),
            ("s2", 300),
            ("z", 400),
        ]
        assert [task.index for task in twice.tasks] == list(range(6))

    def test_copies_last_as_long_and_are_cancelled_as_soon(self) -> None:
        """s2 comes at 300 and is cancelled after 50 s; its copy at 100 (as above) is so, too."""
        drafts = [hp("h"), spot("s1", at=100, lasting=60), spot("s2", at=300, lasting=90, cancelled=350)]
        twice = with_spot(workload(nodes(8), [*drafts, hp("z", at=400)]), 2)
        assert twice.durations == (100, 60, 90, 60, 90, 100)
        assert twice.cancel_times == (inf, inf, 150, inf, 350, inf)

    def test_half_and_one_and_a_half(self) -> None:
        assert [t.name for t in with_spot(self.base, 0.5).tasks] == ["h", "s2", "z"]
        assert [t.name for t in with_spot(self.base, 1.5).tasks] == ["h", "s1", "s2~2", "s2", "z"]

    def test_days_stay_days(self) -> None:
        """A week and a bit: half of it is 3.75 days, and the copy comes three days later."""
        day = 86400.0
        long = workload(nodes(8), [hp("h"), spot("s", at=1000), hp("z", at=7.5 * day)])
        copy = next(task for task in with_spot(long, 2).tasks if task.name == "s~2")
        assert copy.submit_time == 1000 + 3 * day

    def test_all_at_once_stays_all_at_once(self) -> None:
        once = workload(nodes(8), [spot("s")])
        assert [task.submit_time for task in with_spot(once, 4).tasks] == [0.0] * 4
