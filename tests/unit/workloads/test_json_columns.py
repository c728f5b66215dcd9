"""Roles and topology keys of jobs, resources and labels of nodes: JSON in the cells of a trace."""

from __future__ import annotations

import csv
import gzip
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfs.domain.errors import BadRows
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Role, Task
from gfs.domain.workload import Workload
from gfs.workloads import read_trace, write_trace
from gfs.workloads.readers.alibaba import TraceRead
from gfs.workloads.readers.json_cells import read_labels, read_resources, read_roles

JOB = {
    "job_name": "a",
    "organization": "org",
    "gpu_model": "A100",
    "cpu_request": "",
    "gpu_request": "",
    "worker_num": "",
    "submit_time": "0",
    "duration": "60",
    "job_type": "HP",
    "roles": "",
    "topology_key": "",
}
NODE = {"node_name": "n0", "gpu_model": "A100", "gpu_capacity_num": "8", "cpu_num": "96", "resources": "", "labels": ""}
NODES = [NODE | {"node_name": f"n{i}", "labels": json.dumps({"rack": rack})} for i, rack in enumerate("aab")]
RAY = [{"pods": 1, "cpus": 8}, {"pods": 2, "gpus": 8, "cpus": 96, "memory": 512, "resources": {"rdma/ib": 8}}]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


class Folder:
    """A trace of these jobs; by default on three nodes of 8 GPUs, two of them in rack a."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, *jobs: dict[str, str], nodes: list[dict[str, str]] = NODES, **options: Any) -> TraceRead:
        return read_trace(
            write(self.path / "jobs.csv", [JOB | job for job in jobs]), write(self.path / "nodes.csv", nodes), **options
        )

    def faults(self, *jobs: dict[str, str], nodes: list[dict[str, str]] = NODES) -> list[tuple[int, str, str, str]]:
        with pytest.raises(BadRows) as caught:
            self.read(*jobs, nodes=nodes)
        return [row[1:] for row in caught.value.rows]

    def task(self, roles: object, nodes: list[dict[str, str]] = NODES, **job: str) -> Task:
        return self.read({"roles": json.dumps(roles)} | job, nodes=nodes).workload.tasks[0]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def stated(task: Task) -> list[tuple[Any, ...]]:
    return [(role.pods, role.gpus_per_pod, dict(role.requests)) for role in task.roles]


class TestRoles:
    def test_a_row_becomes_a_task_of_roles_most_gpus_first(self, folder: Folder) -> None:
        task = folder.task(RAY)
        assert stated(task) == [
            (2, 8, {"cpus": 96, "memory": 512, "rdma/ib": 8, "pods": 1}),
            (1, 0, {"cpus": 8, "pods": 1}),
        ]
        assert (task.pods, task.gpus, task.gpus_per_pod, len(task.mixed)) == (3, 16, 8, 2)
        assert {(role.index, role.gpu_model, role.priority) for role in task.mixed} == {(0, "A100", Priority.HP)}

    def test_one_role_is_equal_pods(self, folder: Folder) -> None:
        task = folder.task([{"pods": 4, "gpus": 0.5, "cpus": 6, "memory": 32, "resources": {"efa": 1}}])
        assert (task.mixed, task.pods, task.gpus_per_pod, task.gpus) == ((), 4, 0.5, 2)
        assert (task.cpus_per_pod, task.memory_per_pod, task.resources) == (6, 32, (("efa", 1),))

    def test_rows_without_roles_are_read_as_ever(self, folder: Folder) -> None:
        plain = {"job_name": "b", "cpu_request": "4", "gpu_request": "2", "worker_num": "3"}
        mixed, task = folder.read({"roles": json.dumps(RAY)}, plain).workload.tasks
        assert (mixed.name, task.name, task.mixed) == ("a", "b", ())
        assert (task.pods, task.gpus_per_pod, task.cpus_per_pod) == (3, 2, 4)

    @pytest.mark.parametrize(
        ("column", "value", "reason"),
        [
            ("worker_num", "4", "the pods of all roles together are 3"),
            ("gpu_request", "16", "the most GPUs that a role asks for are 8"),
            ("cpu_request", "8", "the most CPUs that a role asks for are 96"),
            ("worker_num", "three", "not a number"),
        ],
    )
    def test_other_columns_may_be_given_and_must_agree(
        self, folder: Folder, column: str, value: str, reason: str
    ) -> None:
        agreed = {"worker_num": "3", "gpu_request": "8", "cpu_request": "96"}
        assert len(folder.task(RAY, **agreed).mixed) == 2
        job = {"roles": json.dumps(RAY)} | agreed | {column: value}
        assert folder.faults(job) == [(2, column, value, reason)]

    def test_a_row_without_roles_needs_them(self, folder: Folder) -> None:
        faults = folder.faults({"roles": json.dumps(RAY)}, {"job_name": "b"})
        assert faults == [(3, name, "", "missing") for name in ("cpu_request", "gpu_request", "worker_num")]

    @pytest.mark.parametrize(
        ("roles", "reason"),
        [
            ("{}", 'must be a JSON array of roles, such as [{"pods": 4, "gpus": 8}], not {}'),
            ("[]", 'must be a JSON array of roles, such as [{"pods": 4, "gpus": 8}], not []'),
            ("3 workers", "not JSON: Extra data at character 3"),
            ('[{"pods": 1,}]', "not JSON: "),
            ("[" * 100_000, "not JSON that can be used: it is nested too deeply"),
            ("[4]", "role 1 must be a JSON object, such as {...}, not 4"),
            ('[{"gpus": 1}]', "role 1: pods is missing"),
            ('[{"pods": 1, "gpus": 1}, {"pods": 1, "gpu": 8}]', 'role 2: unknown key "gpu": did you mean gpus?'),
            ('[{"pods": 1, "xyz": 8}]', 'role 1: unknown key "xyz": there are pods, gpus, cpus, memory, resources'),
            ('[{"pods": 1, "pods": 2}]', 'key "pods" appears twice'),
            ('[{"pods": 0, "gpus": 1}]', "role 1: pods must be a whole number of 1 or more, not 0"),
            ('[{"pods": 1.5, "gpus": 1}]', "role 1: pods must be a whole number of 1 or more, not 1.5"),
            ('[{"pods": 2000000000, "gpus": 1}]', "role 1: pods must be 0 to 1,000,000,000, not 2000000000"),
            ('[{"pods": 200000}, {"pods": 1, "gpus": 1}]', "role 1: at most 100,000 pods without GPUs, not 200000"),
            ('[{"pods": 1, "gpus": 1.5}]', "role 1: gpus must be whole above 1, not 1.5"),
            ('[{"pods": 1, "gpus": 1e-7}]', "role 1: gpus rounds to nothing: the least is a millionth of a GPU"),
            ('[{"pods": 1, "gpus": -1}]', "role 1: gpus must be 0 to 1,000,000,000, not -1"),
            ('[{"pods": 1, "gpus": NaN}]', "NaN is not a finite number"),
            ('[{"pods": 1, "gpus": -Infinity}]', "-Infinity is not a finite number"),
            ('[{"pods": 1, "gpus": 1e999}]', "role 1: gpus must be 0 to 1,000,000,000, not Infinity"),
            ('[{"pods": 1, "gpus": "8"}]', 'role 1: gpus must be a number, not "8"'),
            ('[{"pods": true, "gpus": 8}]', "role 1: pods must be a number, not true"),
            ('[{"pods": 1, "gpus": 8, "cpus": null}]', "role 1: cpus must be a number, not null"),
            ('[{"pods": 1}, {"pods": 2, "cpus": 4}]', "no role asks for GPUs; at least one must"),
            ('[{"pods": 1, "gpus": 1, "resources": 3}]', "role 1: resources must be a JSON object, such as {...}, "),
            ('[{"pods": 1, "gpus": 1, "resources": {"x": "y"}}]', 'role 1: x must be a number, not "y"'),
            ('[{"pods": 1, "gpus": 1, "resources": {"cpu": 3}}]', "role 1: cpu has a place of its own: cpus"),
            ('[{"pods": 1, "gpus": 1, "resources": {"": 3}}]', '"" is no name: it is empty, or holds a NUL'),
            ('[{"pods": 1, "gpus": 1, "resources": {"\\u0000": 3}}]', '"\\u0000" is no name: '),
            ('[{"pods": 1, "gpus": 1, "resources": {"\\ud800": 3}}]', '"\\ud800" is no name: '),
        ],
    )  # fmt: skip
    def test_what_cannot_be(self, folder: Folder, roles: str, reason: str) -> None:
        ((row, column, value, why),) = folder.faults({"roles": roles})
        assert (row, column, value) == (2, "roles", roles)
        assert why.startswith(reason)

    def test_a_number_with_too_many_digits(self) -> None:
        with pytest.raises(ValueError, match=r"4300|not JSON|must be 0 to"):
            read_roles('[{"pods": ' + "9" * 5000 + "}]")

    @pytest.mark.parametrize(
        ("roles", "reason"),
        [
            ([{"pods": 1}, {"pods": 1, "gpus": 9}], "0 pods of 9 GPUs"),
            ([{"pods": 1}, {"pods": 7, "gpus": 4}], "6 pods of 4 GPUs"),
            ([{"pods": 1, "gpus": 8}, {"pods": 5, "gpus": 4}], "24 GPUs together"),
            ([{"pods": 4, "gpus": 8}], "3 pods of 8 GPUs"),
        ],
    )
    def test_what_could_never_start(self, folder: Folder, roles: list[dict[str, Any]], reason: str) -> None:
        cell = json.dumps(roles)
        why = f"more than all nodes with A100 can hold: {reason}"
        assert folder.faults({"roles": cell}) == [(2, "roles", cell, why)]

    def test_a_model_without_nodes(self, folder: Folder) -> None:
        fault = (2, "gpu_model", "T4", "no node has this GPU model")
        assert folder.faults({"roles": json.dumps(RAY), "gpu_model": "T4"}) == [fault]

    def test_bad_rows_are_left_out_on_request(self, folder: Folder) -> None:
        jobs = [{"roles": "[]"}, {"job_name": "b", "roles": json.dumps(RAY)}, {"job_name": "c", "roles": "[1]"}]
        read = folder.read(*jobs, skip_bad_rows=True)
        assert [(task.name, task.index, task.pods) for task in read.workload.tasks] == [("b", 0, 3)]
        assert [row.row for row in read.skipped] == [2, 4]

    def test_every_kind_of_file_says_the_same(self, folder: Folder) -> None:
        jobs = [
            {"roles": json.dumps(RAY)},
            {"job_name": "b", "gpu_request": "1", "worker_num": "1", "cpu_request": "0"},
        ]
        expected = [stated(task) for task in folder.read(*jobs).workload.tasks]
        table = pa.Table.from_pylist(
            [{name: (JOB | job)[name] or None for name in JOB} for job in jobs],
            pa.schema([(name, pa.string()) for name in JOB]),
        )
        for number in ("cpu_request", "gpu_request", "worker_num", "submit_time", "duration"):
            place = table.column_names.index(number)
            table = table.set_column(place, number, table[number].cast(pa.float64()))
        pq.write_table(table, folder.path / "jobs.parquet")
        packed = folder.path / "jobs.csv.gz"
        packed.write_bytes(gzip.compress((folder.path / "jobs.csv").read_bytes()))
        for source in (folder.path / "jobs.parquet", packed, table):
            tasks = read_trace(source, folder.path / "nodes.csv").workload.tasks
            assert [stated(task) for task in tasks] == expected

    @given(st.text(alphabet='[]{}",:0123456789.eE-+ \\uDdpodsgcumery/truenflai', max_size=60))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        for read in (read_roles, read_labels, read_resources):
            with suppress(ValueError):
                read(text)


class TestTopologyKey:
    def test_it_is_a_label_of_nodes(self, folder: Folder) -> None:
        equal = {"gpu_request": "8", "worker_num": "2", "cpu_request": "0", "topology_key": "rack"}
        mixed = {"job_name": "b", "roles": json.dumps(RAY), "topology_key": "rack"}
        assert [task.topology_key for task in folder.read(equal, mixed).workload.tasks] == ["rack", "rack"]

    @pytest.mark.parametrize(
        ("job", "reason"),
        [
            ({"topology_key": "row"}, "no node with A100 has the label row"),
            ({"worker_num": "3"}, "more than any rack can hold: 2 pods of 8 GPUs in a"),
            (
                {"worker_num": "", "roles": '[{"pods": 3, "gpus": 8}, {"pods": 1}]'},
                "more than any rack can hold: 2 pods of 8 GPUs in a",
            ),
        ],
    )  # fmt: skip
    def test_what_could_never_start(self, folder: Folder, job: dict[str, str], reason: str) -> None:
        asked = {"gpu_request": "8", "worker_num": "2", "cpu_request": "0", "topology_key": "rack"} | job
        assert folder.faults(asked) == [(2, "topology_key", asked["topology_key"], reason)]


class TestNodes:
    def test_resources_and_labels(self, folder: Folder) -> None:
        node = NODE | {
            "resources": '{"memory": 1024, "rdma/ib": 8, "pods": 110, "hugepages-2Mi": 0}',
            "labels": '{"rack": "r7", "zone": "z1"}',
        }
        (spec,) = folder.read({"roles": '[{"pods": 1, "gpus": 1}]'}, nodes=[node]).workload.nodes
        assert (spec.cpus, spec.memory, spec.pods) == (96, 1024, 110)
        assert spec.resources == (("rdma/ib", 8), ("hugepages-2Mi", 0))
        assert spec.labels == (("rack", "r7"), ("zone", "z1"))
        assert spec.limits() == {"cpus": 96, "memory": 1024, "pods": 110, "rdma/ib": 8, "hugepages-2Mi": 0}

    @pytest.mark.parametrize(
        ("column", "value", "reason"),
        [
            ("resources", "8", "must be a JSON object, such as {...}, not 8"),
            ("resources", '{"rdma/ib": -1}', "rdma/ib must be 0 to 1,000,000,000,000,000, not -1"),
            ("resources", '{"cpus": 96}', "cpus has a place of its own: cpu_num"),
            ("resources", '{"gpu": 8}', "gpu has a place of its own: gpu_capacity_num"),
            ("resources", '{"memory": 0}', "memory must be above 0; leave it out where it limits nothing"),
            ("resources", '{"pods": 1.5}', "pods must be whole and above 0; leave it out where it limits nothing"),
            ("labels", '["r7"]', 'must be a JSON object, such as {...}, not ["r7"]'),
            ("labels", '{"rack": 7}', 'label "rack" must be a text such as "r7", not 7'),
            ("labels", '{"rack": ""}', 'label "rack" must be a text such as "r7", not ""'),
        ],
    )
    def test_what_cannot_be(self, folder: Folder, column: str, value: str, reason: str) -> None:
        job = {"roles": '[{"pods": 1, "gpus": 1}]'}
        assert folder.faults(job, nodes=[*NODES, NODE | {"node_name": "x", column: value}]) == [
            (5, column, value, reason)
        ]


class TestWriting:
    def work(self) -> Workload:
        def task(index: int, **wishes: Any) -> Task:
            return Task(index, f"t{index}", "org", "A100", Priority.HP, 2, 1.0, float(index), **wishes)

        head = Role(1, 0, cpus_per_pod=4.5)
        worker = Role(2, 8, cpus_per_pod=32, memory_per_pod=256, resources=(("rdma/ib", 1.0),))
        tasks = (
            task(0, cpus_per_pod=8.0),
            task(1, mixed=(head, worker), topology_key="rack"),
            task(2, mixed=(Role(1, 0.25), Role(1, 0.5))),
            task(3, memory_per_pod=64.0, resources=(("efa", 2.0),)),
        )
        nodes = (
            NodeSpec(0, "n0", "A100", 8, 96.0, 1024.0, 110, resources=(("rdma/ib", 8.0),), labels=(("rack", "a"),)),
            NodeSpec(1, "n1", "A100", 8, 96.0, resources=(("rdma/ib", 0.0),), labels=(("rack", "a"),)),
            NodeSpec(2, "n2", "A100", 8),
        )
        return Workload(tasks, nodes, durations=(1.0,) * 4)

    def test_what_is_written_reads_the_same(self, tmp_path: Path) -> None:
        work = self.work()
        again = read_trace(*write_trace(work, tmp_path)).workload
        assert again.nodes == work.nodes
        assert [stated(task) for task in again.tasks] == [stated(task) for task in work.tasks]
        assert [task.mixed == () for task in again.tasks] == [True, False, False, True]
        for name in ("pods", "gpus_per_pod", "gpus", "micro", "topology_key", "memory_per_pod", "resources"):
            assert [getattr(task, name) for task in again.tasks] == [getattr(task, name) for task in work.tasks], name

    def test_the_cells(self, tmp_path: Path) -> None:
        jobs, nodes = (pyarrow.csv.read_csv(path).to_pylist() for path in write_trace(self.work(), tmp_path))
        numbers = [(row["cpu_request"], row["gpu_request"], row["worker_num"]) for row in jobs]
        assert numbers == [(8, 1, 2), (32, 8, 3), (0, 0.5, 2), (0, 1, 2)]
        assert [json.loads(row["roles"] or "0") for row in jobs] == [
            0,
            [{"pods": 2, "gpus": 8, "cpus": 32, "memory": 256, "resources": {"rdma/ib": 1}}, {"pods": 1, "cpus": 4.5}],
            [{"pods": 1, "gpus": 0.5}, {"pods": 1, "gpus": 0.25}],
            [{"pods": 2, "gpus": 1, "memory": 64, "resources": {"efa": 2}}],
        ]
        assert nodes[0]["resources"] == '{"memory": 1024, "pods": 110, "rdma/ib": 8}'
        assert [row["labels"] for row in nodes] == ['{"rack": "a"}', '{"rack": "a"}', ""]

    def test_columns_without_content_are_left_out(self, tmp_path: Path) -> None:
        work = self.work()
        plain = replace(work.with_tasks(work.tasks[:1]), nodes=work.nodes[2:])
        jobs, nodes = write_trace(plain, tmp_path)
        assert jobs.read_text().splitlines()[0].endswith(",job_type")
        assert nodes.read_text().splitlines()[0] == "node_name,gpu_model,gpu_capacity_num,cpu_num"
