"""What a worker process gets is what it was sent."""

from __future__ import annotations

from dataclasses import fields
from math import inf

from builders import hp, nodes, spot, workload
from gfs import NodeEvent, Workload, generate
from gfs.batch.comparison import pack_workload, unpack_workload


def values(work: Workload) -> list[tuple[object, ...]]:
    """Everything the tasks say, with its type: 1 is not 1.0 here."""
    return [
        tuple((type(value), value) for value in (getattr(task, field.name) for field in fields(task)))
        for task in work.tasks
    ]


def test_a_workload_arrives_as_it_was() -> None:
    odd = workload(
        nodes(4, 8),
        [hp("h", gpus=2, cancelled=50), spot("s", gpus=0.25, pods=3, hours=2.0)],
        [NodeEvent(10.0, "n1", "fail"), NodeEvent(20.0, "n1", "repair")],
    )
    for work in (odd, generate("demo", nodes=8, days=1), Workload((), odd.nodes, "empty")):
        same = unpack_workload(pack_workload(work))
        assert values(same) == values(work)
        assert (same.nodes, same.name) == (work.nodes, work.name)
        assert (same.durations, same.cancel_times) == (work.durations, work.cancel_times)
        assert same.node_events == work.node_events
    assert (odd.cancel_times, len(odd.node_events)) == ((50, inf), 2)
