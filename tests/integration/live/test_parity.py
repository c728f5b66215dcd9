"""What is simulated is what is run: one trace through the simulator and through the live controller."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from parity import differences, live, simulated

from bench import submission
from bench.bench import Bench
from bench.cluster import Cluster
from gfs.assembly.parameters import Parameters
from gfs.domain.node import NodeEvent, NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.live.settings import LIVE_DEFAULTS

SIZES = ((1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (2, 8), (4, 2))
"""Pods and GPUs of each."""


LATE = 0.05
"""The most starts that may come later than in the simulator: another pod took room that was idle, and they waited for a
victim's pods."""
EARLY = 0.02
"""The most starts that may come before a victim's pods have gone, as there is other room: there are 0 to 2."""


def trace(tasks: int = 90, hours: float = 9, seed: int = 1) -> Workload:
    """Two pools; spot tasks all the time, HP tasks every third hour, more than there is room for."""
    random = Random(seed)
    nodes = [(f"a{i}", "A100") for i in range(5)] + [(f"h{i}", "H800") for i in range(3)]
    drawn = []
    for i in range(tasks):
        priority = Priority(i % 2)
        at = (
            random.random() * hours
            if priority is Priority.SPOT
            else random.randrange(2, int(hours), 3) + random.random()
        )
        drawn.append((round(3600 * at) if i != 1 else 0, priority))
    made, durations = [], []
    for i, (at, priority) in enumerate(sorted(drawn)):
        pods, gpus = random.choice(SIZES)
        made.append(
            Task(
                index=i,
                name=f"t{i:03}",
                organization=random.choice(("vision", "speech", "search")),
                gpu_model=random.choice(("A100", "A100", "H800")),
                priority=priority,
                pods=pods,
                gpus_per_pod=float(gpus),
                submit_time=float(at),
                cpus_per_pod=float(gpus),
                guarantee_hours=float(random.choice((1, 1, 2, 4))),
                checkpoint_interval=float(random.choice((600, 1800, 3600))),
                memory_per_pod=float(8 * gpus),
            )
        )
        durations.append(float(random.randrange(600, 3600 if priority is Priority.HP else 9000)))
    return Workload(
        tuple(made),
        tuple(NodeSpec(i, name, model, 8, 64.0, 512.0, 110) for i, (name, model) in enumerate(nodes)),
        durations=tuple(durations),
        node_events=(NodeEvent(7000.0, "a1", "cordon"), NodeEvent(13000.0, "a1", "uncordon")),
    )


@pytest.mark.parametrize(
    ("scheduler", "quota"),
    [("gfs", ""), ("gfs-plus", ""), ("gfs-plus", "none"), ("fgd", "none"), ("lyra", "none")],
    ids=["gfs", "gfs-plus", "gfs-plus without quota", "fgd", "lyra"],
)
def test_the_same_decisions(bench: Bench, cluster: Cluster, record: Path, scheduler: str, quota: str) -> None:
    workload, parameters = trace(), Parameters(**LIVE_DEFAULTS, quota=quota)
    cluster.add_nodes(submission.nodes(workload))
    expected = simulated(scheduler, workload, parameters)
    assert sum(row["event"] == "evict" for row in expected.events) > 5, "there is something to decide"
    assert quota or any("spot quota" in row["reason"] for row in expected.events)
    actual = live(bench, cluster.namespace, scheduler, workload, parameters)
    assert actual.quotas == expected.quotas
    found = differences(expected, actual, parameters.grace_period)
    starts = len({(row["task"], row["run"]) for row in expected.events if row["event"] == "start"})
    print(
        f"{len(found.late)} of {starts} starts waited for a victim's pods to go, {len(found.early)} did not have to;"
        f" {len(found.other)} other differences"
    )
    assert not found.other
    assert len(found.late) <= LATE * starts
    assert len(found.early) <= EARLY * starts
