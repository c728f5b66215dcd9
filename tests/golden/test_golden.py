"""Golden runs: the event log of every scheduler on small fixed traces, line by line (see README.md)."""

from __future__ import annotations

import csv
import io
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from builders import csv_text
from gfs import SCHEDULERS, NodeRule, Role, Task, Workload, read_trace, simulate
from gfs.assembly.result import RunResult
from gfs.core.filters.ports import PortRule
from promises import Audit, Room, admits, limits, pods_inside, rows_of, surely_fits

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
PARAMETERS = {"quota_share": 0.5, "m": 30.0}
"""Half of each pool for spot where a scheduler has a quota; a breaker that closes after two fresh evictions."""
NOT_ON_FILE = {"cards", "reason"}
"""Which GPUs of a node a pod has is free, as long as they are; the words of reasons have tests of their own."""

CASES = {
    **{name: (name, {}) for name in SCHEDULERS},
    "gfs-unlimited": ("gfs", {"quota": "none"}),
    "lyra-forecast": ("lyra", {"quota": "forecast"}),
}
"""Name of the log -> scheduler and what else is set."""
MORE_THAN_GPUS = re.compile("pod asks|takes no more|more pods of")
"""What the reason of a task says that waits for CPUs, memory or a pod's place."""
WITHOUT_VARIANTS = ("gfs", "gfs-unlimited", "gfs-plus", "yarn-cs", "static", "lyra", "fgd", "chronus")


def plain(jobs: Path = HERE / "jobs.csv") -> Workload:
    """The trace as it is on file."""
    return read_trace(jobs, HERE / "nodes.csv")


def filtered(jobs: Path = HERE / "jobs.csv") -> Workload:
    """The trace with two more nodes, memory, a limit of pods, two zones, and tasks that ask for a zone.

    By the number in its name: of five tasks one asks for zone a, two for zone b, one for either of them.
    """
    work = plain(jobs)
    extra = [replace(work.nodes[0], name="a100-2", gpus=4, cpus=48.0), replace(work.nodes[2], name="t4-2", gpus=2)]
    nodes = tuple(
        replace(node, index=i, memory=32.0 * node.gpus, pods=6, group="ab"[i % 2])
        for i, node in enumerate([*work.nodes, *extra])
    )

    def asking(task: Task) -> Task:
        number = int(task.name.split("-")[1])
        task = replace(task, memory_per_pod=(0.0, 16.0, 40.0)[number % 3] * max(task.gpus_per_pod, 1) / 2)
        zones = {1: "a", 2: "b", 3: "b", 4: "ab"}.get(number % 5, "")
        asked = replace(task, rules=(NodeRule(frozenset(zones), f"zone={','.join(zones)}"),))
        taking = [node for node in nodes if admits(node, asked)]
        slots = sum(min(node.gpus // max(task.cards, 1), pods_inside(task, limits(node))) for node in taking)
        return asked if zones and slots >= task.pods else task

    return replace(work, tasks=tuple(map(asking, work.tasks)), nodes=nodes)


def mixed(jobs: Path = HERE / "jobs.csv") -> Workload:
    """The trace of two zones as one of two racks, some nodes with ports of a network, and tasks of several roles.

    By the number in its name: of seven tasks one has a head without GPU that takes a port, one a pod of one GPU (half a
    GPU where its own pods have one) on the network beside its own, one takes a port itself, one asks for one rack. Of
    five one has a higher priority, one a lower one; of eleven one never preempts.
    """
    work = filtered(jobs)
    network = ((), (("rdma/ib", 1.0),), (("rdma/ib", 0.0),))
    nodes = tuple(
        replace(node, resources=network[node.index % 3], labels=(("rack", f"r{node.index // 2}"),), pods=12)
        for node in work.nodes
    )
    rooms = [Room.empty(node) for node in nodes]

    def asking(task: Task) -> Task:
        number = int(task.name.split("-")[1])
        task = replace(task, urgency={1: 1, 2: -1}.get(number % 5, 0), preempts=number % 11 > 0)
        own = Role(
            task.pods,
            task.gpus_per_pod,
            cpus_per_pod=task.cpus_per_pod,
            memory_per_pod=task.memory_per_pod,
            rules=task.rules,
        )
        head = Role(1, 0.0, cpus_per_pod=2.0, memory_per_pod=8.0, rules=(PortRule(("TCP/6379",)),))
        small = Role(1, 1.0 if task.gpus_per_pod > 1 else 0.25, cpus_per_pod=1.0, resources=(("rdma/ib", 1.0),))
        more: dict[int, dict[str, Any]] = {
            0: {"mixed": (own, head)},
            2: {"mixed": (own, small)},
            3: {"rules": (*task.rules, PortRule(("TCP/6379",)))},
            5: {"mixed": (own, head, small)},
            6: {"topology_key": "rack"},
        }
        asked = replace(task, **more.get(number % 7, {}))
        return asked if surely_fits(asked, rooms) else task

    return replace(work, tasks=tuple(map(asking, work.tasks)), nodes=nodes)


TRACES = {
    "gpus": (plain, "off", tuple(CASES)),
    "resources": (plain, "on", tuple(CASES)),
    "filters": (filtered, "off", WITHOUT_VARIANTS),
    "filters-resources": (filtered, "on", WITHOUT_VARIANTS),
    "roles": (mixed, "on", ("gfs", "gfs-plus", "yarn-cs", "static", "lyra", "fgd", "chronus")),
}
"""Folder of the logs -> how the trace is made, whether CPUs, memory and pods count, and the logs there."""
LOGS = [(trace, case) for trace, (_, _, cases) in TRACES.items() for case in cases]

every_log = pytest.mark.parametrize(("trace", "case"), LOGS, ids=["/".join(log) for log in LOGS])


def run(trace: str, case: str, jobs: Path = HERE / "jobs.csv", check: bool = False) -> RunResult:
    make, resources, _ = TRACES[trace]
    scheduler, settings = CASES[case]
    settings = {**PARAMETERS, **settings, "resources": resources}
    return simulate(make(jobs), scheduler=scheduler, check=check, **settings)


@cache
def in_order(trace: str, case: str) -> RunResult:
    return run(trace, case, check=True)


def on_file(result: RunResult) -> str:
    columns = {name: values for name, values in result.events.to_pydict().items() if name not in NOT_ON_FILE}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


@every_log
def test_the_log_is_the_one_on_file(trace: str, case: str, request: pytest.FixtureRequest) -> None:
    file = EXPECTED / trace / f"{case}.csv"
    text = on_file(in_order(trace, case))
    if request.config.getoption("--regenerate-golden"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    assert file.exists(), f"no golden run of {trace}/{case} yet: pytest tests/golden --regenerate-golden"
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()


@every_log
def test_no_gpu_and_no_node_of_the_log_is_given_twice(trace: str, case: str) -> None:
    result = in_order(trace, case)
    audit = Audit(result.workload, list(rows_of(result.events.to_pydict())), resources=TRACES[trace][1] == "on")
    audit.time_never_goes_back()
    audit.every_task_is_submitted_once_and_finishes_once()
    audit.gangs_start_and_stop_together()
    audit.pods_get_what_they_asked_for()
    audit.no_card_is_over_committed()
    audit.no_node_is_over_committed(0.0 if case == "chronus" else 30.0)
    audit.higher_priority_first(30.0)


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
@pytest.mark.parametrize(("seed", "trace"), [(1, "gpus"), (2, "resources"), (3, "filters-resources")])
def test_the_order_of_rows_in_the_jobs_file_does_not_matter(
    scheduler: str, seed: int, trace: str, tmp_path: Path
) -> None:
    header, *rows = (HERE / "jobs.csv").read_text(encoding="utf-8").splitlines()
    random.Random(seed).shuffle(rows)
    shuffled = tmp_path / "jobs.csv"
    shuffled.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    assert csv_text(run(trace, scheduler, shuffled)) == csv_text(in_order(trace, scheduler))


# A log without evictions, gangs on several nodes and fractions, or without tasks that wait for CPUs, guards little.


def test_the_golden_trace_is_eventful_enough() -> None:
    events = in_order("gpus", "gfs-unlimited").events.to_pylist()
    evictions = {(row["task"], row["run"]) for row in events if row["event"] == "evict"}
    assert len(evictions) >= 15
    assert any(row["run"] >= 3 for row in events)
    assert sum(":" in row["cards"] for row in events) >= 20


@pytest.mark.parametrize("case", ["gfs-unlimited", "gfs-plus", "lyra", "fgd", "chronus"])
@pytest.mark.parametrize("trace", ["resources", "filters-resources"])
def test_many_tasks_wait_for_cpus_memory_or_pods(trace: str, case: str) -> None:
    events = in_order(trace, case).events.to_pylist()
    waited = {row["task"] for row in events if row["event"] == "start" and MORE_THAN_GPUS.search(row["reason"])}
    assert len(waited) >= 10


@pytest.mark.parametrize("case", ["gfs-unlimited", "gfs-plus", "lyra", "fgd", "chronus"])
@pytest.mark.parametrize("trace", ["filters", "filters-resources"])
def test_tasks_wait_for_a_node_of_their_zone(trace: str, case: str) -> None:
    events = in_order(trace, case).events.to_pylist()
    waited = {row["task"] for row in events if row["event"] == "start" and "zone=" in row["reason"]}
    assert len(waited) >= 5


@pytest.mark.parametrize("case", ["gfs", "gfs-plus", "lyra", "fgd", "chronus"])
def test_tasks_of_roles_wait_for_ports(case: str) -> None:
    work = mixed()
    assert sum(bool(task.mixed) for task in work.tasks) >= 15
    assert sum(bool(task.topology_key) for task in work.tasks) >= 4
    reasons = [row["reason"] for row in in_order("roles", case).events.to_pylist() if row["event"] == "start"]
    assert any("port TCP/6379 of the host is taken" in reason for reason in reasons)
