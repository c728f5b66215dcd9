"""Gangs of pods that differ, from a trace file, through every scheduler that places pods one by one.

Five nodes n0 to n4 of 8 GPUs and 96 CPUs each. Three tasks:

    ray    HP, at  0 for 600 s: a head of no GPU and 40 CPUs, 4 workers of 8 GPUs and 64 CPUs
    tune   HP, at 10 for 100 s: 1 pod of 8 GPUs and 64 CPUs
    serve  spot, at 20 for 300 s: 2 prefill pods of 2 GPUs and 8 CPUs, 4 decode pods of 1 GPU and 4 CPUs
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from builders import Story, hp, nodes, play, spot
from gfs import InputError, NodeSpec, Role, SimulationResult, simulate
from gfs.domain.errors import StuckError
from gfs.workloads import read_trace

every_scheduler = pytest.mark.parametrize("scheduler", ["gfs", "gfs-plus", "yarn-cs", "static", "lyra", "fgd"])

JOBS = """\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type,roles
ray,lab,A100,,,,0,600,HP,"[{""pods"": 1, ""cpus"": 40}, {""pods"": 4, ""gpus"": 8, ""cpus"": 64}]"
tune,lab,A100,64,8,1,10,100,HP,
serve,web,A100,,,6,20,300,Spot,"[{""pods"": 2, ""gpus"": 2, ""cpus"": 8}, {""pods"": 4, ""gpus"": 1, ""cpus"": 4}]"
"""
NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num\n" + "".join(f"n{i},A100,8,96\n" for i in range(5))
EIGHT = "0+1+2+3+4+5+6+7"


def run(folder: Path, scheduler: str, resources: str) -> Story:
    (folder / "jobs.csv").write_text(JOBS)
    (folder / "nodes.csv").write_text(NODES)
    work = read_trace(folder / "jobs.csv", folder / "nodes.csv").workload
    return Story(simulate(work, scheduler=scheduler, check=True, quota="none", resources=resources))


@every_scheduler
def test_where_cpus_count_the_head_has_a_node_of_its_own(tmp_path: Path, scheduler: str) -> None:
    """64 + 40 CPUs are more than 96: workers on n0 to n3, head on n4. n4 has 56 CPUs left: too few for tune, which
    waits until 600, and enough for serve, which asks for 2 x 8 + 4 x 4 = 32."""
    story = run(tmp_path, scheduler, "on")
    assert story.where("ray") == [*(f"n{i}/{EIGHT}" for i in range(4)), "n4/"]
    assert story.where("serve") == ["n4/0+1", "n4/2+3", *(f"n4/{gpu}" for gpu in (4, 5, 6, 7))]
    assert [story.spans(name) for name in ("ray", "tune", "serve")] == [[(0, 600)], [(600, 700)], [(20, 320)]]


@every_scheduler
def test_where_only_gpus_count_the_head_sits_beside_a_worker(tmp_path: Path, scheduler: str) -> None:
    """ray holds all GPUs of n0 to n3, tune n4 until 110, and then serve has it until 410."""
    story = run(tmp_path, scheduler, "off")
    assert story.where("ray") == [*(f"n{i}/{EIGHT}" for i in range(4)), "n0/"]
    assert set(story.on("serve")) == {"n4"}
    assert [story.spans(name) for name in ("ray", "tune", "serve")] == [[(0, 600)], [(10, 110)], [(110, 410)]]


@pytest.mark.parametrize("resources", ["on", "off"])
def test_log_tables_and_metrics_count_the_gpus_of_each_role(tmp_path: Path, resources: str) -> None:
    """ray 32 x 600 s, tune 8 x 100 s, serve 8 x 300 s: 22,400 GPU-seconds, all of them useful, in 700 or 600 s."""
    result = run(tmp_path, "gfs", resources).result
    assert isinstance(result, SimulationResult)
    rows = result.events.select(["event", "task", "gpus"]).to_pylist()
    assert Counter(row["gpus"] for row in rows if (row["event"], row["task"]) == ("start", "ray")) == {0: 1, 8: 4}
    assert Counter(row["gpus"] for row in rows if (row["event"], row["task"]) == ("finish", "serve")) == {2: 2, 1: 4}
    assert {row["task"]: row["gpus"] for row in rows if row["event"] == "submit"} == {"ray": 32, "tune": 8, "serve": 8}
    assert result.metrics.useful_gpu_hours == pytest.approx(22_400 / 3600)
    assert result.metrics.allocation_rate_total == pytest.approx(22_400 / (40 * (700 if resources == "on" else 600)))
    tasks = {row["task"]: (row["pods"], row["gpus"]) for row in result.to_arrow("tasks").to_pylist()}
    assert tasks == {"ray": (5, 32.0), "tune": (1, 8.0), "serve": (6, 8.0)}
    sizes = {row["name"]: row["useful_gpu_hours"] for row in result.to_arrow("size").to_pylist()}
    assert sizes == {"17-64": pytest.approx(19_200 / 3600), "5-8": pytest.approx(3200 / 3600)}


@every_scheduler
@pytest.mark.parametrize("resources", ["on", "off"])
def test_a_mixed_gang_is_evicted_whole_by_a_mixed_gang(scheduler: str, resources: str) -> None:
    """serve holds both nodes (8 + 2 x 4). ray asks at 100 for 8 GPUs and a head: serve goes, and its 100 s are lost.

    ray runs from 130 (grace period) to 330; serve needs 16 GPUs, waits until then, and takes 60 s to restart: 890.
    """
    story = play(
        [replace(node, cpus=96.0) for node in nodes(8, 8)],
        spot("serve", lasting=500, roles=(Role(1, 8, cpus_per_pod=32), Role(2, 4, cpus_per_pod=16))),
        hp("ray", at=100, lasting=200, roles=(Role(1, 0, cpus_per_pod=8), Role(1, 8, cpus_per_pod=64))),
        scheduler=scheduler,
        resources=resources,
        quota="none",
    )
    assert story.victims() == ["serve"]
    assert story.spans("serve") == [(0, 100), (330, 890)]
    assert story.spans("ray") == [(130, 330)]
    assert story.result.metrics.spot.wasted_gpu_hours == pytest.approx(16 * (100 + 60) / 3600)


def racks(*labels: str) -> list[NodeSpec]:
    return [
        replace(node, labels=(("rack", label),)) for node, label in zip(nodes(*[8] * len(labels)), labels, strict=True)
    ]


@every_scheduler
@pytest.mark.parametrize("resources", ["on", "off"])
def test_all_roles_share_a_domain(scheduler: str, resources: str) -> None:
    """first takes a node of rack a: the 16 GPUs of pair fit in rack b alone, though a third node is idle."""
    story = play(
        racks("a", "b", "a", "b"),
        hp("first", gpus=8, lasting=50),
        hp("pair", at=1, roles=(Role(1, 8), Role(4, 2), Role(1, 0)), topology="rack"),
        scheduler=scheduler,
        resources=resources,
        quota="none",
    )
    assert set(story.on("pair")) == {"n1", "n3"}
    assert story.spans("pair") == [(1, 101)]


class TestWhatCouldNeverStart:
    """Where CPUs and others count, it is said before anything runs."""

    machines = tuple(replace(node, cpus=70.0, resources=(("rdma/ib", 2.0),)) for node in nodes(8, 8))

    @pytest.mark.parametrize(
        ("roles", "words"),
        [
            (
                (Role(3, 0, cpus_per_pod=60), Role(1, 8, cpus_per_pod=1)),
                r"asks 3 pods of 0 GPUs and 60 CPUs each, of which the empty nodes of pool A100 hold 2, .*of 70 CPUs",
            ),
            (
                (Role(1, 0), Role(2, 4, resources=(("rdma/ib", 4),))),
                r"asks 2 pods of 4 GPUs and 0 CPUs and 4 rdma/ib each, of which the empty .* hold 0, .*pod asks 4;",
            ),
            (
                (Role(2, 0, cpus_per_pod=60), Role(2, 8, cpus_per_pod=20)),
                r"asks 160 CPUs for all its roles, of which the empty nodes of pool A100 have 140, so",
            ),
        ],
    )
    def test_a_role_or_all_together_ask_for_too_much(self, roles: tuple[Role, ...], words: str) -> None:
        with pytest.raises(InputError, match=f"resources=on: task ray {words}.*1 such tasks"):
            play(self.machines, hp("ray", roles=roles), resources="on")
        assert play(self.machines, hp("ray", roles=roles), resources="off").spans("ray") == [(0, 100)]

    def test_no_domain_has_enough(self) -> None:
        small = [replace(node, cpus=10.0) for node in racks("a", "b")]
        with pytest.raises(InputError, match=r"asks 2 pods of 1 GPUs and 8 CPUs each, .* A100 in a hold 1, so"):
            play(small, hp("pair", pods=2, cpus=8, topology="rack"), resources="on")

    def test_what_finds_no_packing_is_told_at_the_end(self) -> None:
        """2 x 5 + 4 are 14 of 16 GPUs, but each node has 3 left beside a pod of 5."""
        with pytest.raises(StuckError, match=r"ray: 2 pods x 5 GPUs [+] 1 pods x 4 GPUs"):
            play(nodes(8, 8), hp("ray", roles=(Role(2, 5), Role(1, 4))))
