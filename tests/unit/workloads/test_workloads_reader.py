"""The reader of Alibaba traces: what it takes, what it refuses, and how it says so."""

from __future__ import annotations

import gzip
from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.task import Priority
from gfs.workloads import read_trace

JOB_HEADER = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type"
NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num\nn1,A100,8,128\nn2,A100,4,64\nn3,A10,1,32\n"
GOOD = {
    "job_name": "a",
    "organization": "org",
    "gpu_model": "A100",
    "cpu_request": "8",
    "gpu_request": "1",
    "worker_num": "1",
    "submit_time": "0",
    "duration": "60",
    "job_type": "HP",
}


def job(**changes: str) -> str:
    return ",".join((GOOD | changes).values())


class Trace:
    """Files of a trace in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.jobs, self.nodes = folder / "jobs.csv", folder / "nodes.csv"
        self.nodes.write_text(NODES)

    def read(self, *rows: str, header: str = JOB_HEADER, **options):
        self.jobs.write_text("\n".join([header, *rows]) + "\n")
        return read_trace(self.jobs, self.nodes, **options)

    def faults(self, *rows: str, header: str = JOB_HEADER) -> list[tuple[int, str, str]]:
        with pytest.raises(BadRows) as caught:
            self.read(*rows, header=header)
        return [(bad.row, bad.column, bad.value) for bad in caught.value.rows]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Trace(tmp_path)


def test_a_row_becomes_a_task_with_the_defaults_for_what_it_does_not_say(trace: Trace) -> None:
    read = trace.read(job(gpu_request="4.0", worker_num="3.0", submit_time="12.5", job_type="Spot"))
    (task,) = read.workload.tasks
    assert (task.name, task.organization, task.gpu_model, task.priority) == ("a", "org", "A100", Priority.SPOT)
    assert (task.pods, task.gpus_per_pod, task.cards, task.gpus) == (3, 4.0, 4, 12.0)
    assert (task.submit_time, task.cpus_per_pod, read.workload.durations) == (12.5, 8.0, (60.0,))
    assert (task.guarantee_hours, task.checkpoint_interval) == (1.0, 3600.0)
    assert read.skipped == ()
    assert [(n.index, n.name, n.gpu_model, n.gpus, n.cpus) for n in read.workload.nodes] == [
        (0, "n1", "A100", 8, 128.0),
        (1, "n2", "A100", 4, 64.0),
        (2, "n3", "A10", 1, 32.0),
    ]


def test_optional_columns_count_where_filled_in(trace: Trace) -> None:
    header = JOB_HEADER + ",guarantee_hours,checkpoint_interval"
    read = trace.read(
        job(job_name="a") + ",4,600",
        job(job_name="b") + ",,",
        header=header,
        guarantee_hours=2,
        checkpoint_interval=90,
    )
    assert [(t.guarantee_hours, t.checkpoint_interval) for t in read.workload.tasks] == [(4, 600), (2, 90)]


class TestCancelTime:
    header = JOB_HEADER + ",cancel_time"

    def test_a_blank_is_never(self, trace: Trace) -> None:
        read = trace.read(
            job(job_name="b", submit_time="10") + ",50",
            job(job_name="c", submit_time="5") + ",",
            job(job_name="a", submit_time="10") + ",10",  # in the instant of its submission
            header=self.header,
        )
        assert [task.name for task in read.workload.tasks] == ["c", "a", "b"]
        assert read.workload.cancel_times == (inf, 10.0, 50.0)

    def test_nobody_who_cancels_is_no_column(self, trace: Trace) -> None:
        assert trace.read(job(), header=JOB_HEADER).workload.cancel_times == ()
        assert trace.read(job() + ",", header=self.header).workload.cancel_times == ()

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("99.5", "must not be before submit_time"),
            ("-1", "must not be before submit_time"),
            ("soon", "not a number"),
            ("inf", "not a finite number"),
            ("nan", "not a finite number"),
        ],
    )
    def test_what_cannot_be(self, trace: Trace, value: str, reason: str) -> None:
        with pytest.raises(BadRows) as caught:
            trace.read(job() + ",", job(job_name="b", submit_time="100") + f",{value}", header=self.header)
        assert caught.value.rows == (BadRow(str(trace.jobs), 3, "cancel_time", value, reason),)

    def test_a_row_that_cannot_be_used_takes_its_cancellation_with_it(self, trace: Trace) -> None:
        rows = (job() + ",70", job(job_name="b", duration="-1") + ",80", job(job_name="c", duration="5") + ",90")
        work = trace.read(*rows, header=self.header, skip_bad_rows=True).workload
        assert (work.durations, work.cancel_times) == ((60.0, 5.0), (70.0, 90.0))

    def test_a_bad_submission_says_nothing_of_the_cancellation(self, trace: Trace) -> None:
        assert trace.faults(job(submit_time="later") + ",0", header=self.header) == [(2, "submit_time", "later")]

    def test_parquet(self, trace: Trace, tmp_path: Path) -> None:
        file = parquet(tmp_path / "jobs.parquet", cancel_time=pa.array([None, 9.0]))
        work = read_trace(file, trace.nodes).workload
        assert ([task.name for task in work.tasks], work.cancel_times) == (["12", "7"], (9.0, inf))


def test_tasks_are_ordered_by_submission_then_name(trace: Trace) -> None:
    rows = [("b", "5"), ("a10", "5"), ("z", "0"), ("a9", "5")]
    read = trace.read(*(job(job_name=name, submit_time=time) for name, time in rows))
    assert [(t.index, t.name) for t in read.workload.tasks] == [(0, "z"), (1, "a10"), (2, "a9"), (3, "b")]


def test_ids_stay_text_and_extra_columns_are_ignored(trace: Trace) -> None:
    read = trace.read(
        job(job_name="007", organization="1.0") + ",x", job(job_name="7") + ",", header=JOB_HEADER + ",note"
    )
    assert [(t.name, t.organization) for t in read.workload.tasks] == [("007", "1.0"), ("7", "org")]


def test_zero_duration_and_fractions_are_fine(trace: Trace) -> None:
    read = trace.read(job(duration="0"), job(job_name="b", gpu_request="0.3", worker_num="36"))
    # 12 cards, each holds floor(1 / 0.3) = 3 pods: 36 in all
    assert read.workload.durations == (0.0, 60.0)
    assert [t.share for t in read.workload.tasks] == [0, 300_000]


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        *((column, "", "missing") for column in GOOD),
        *((column, "x", "not a number") for column in list(GOOD)[3:8]),
        *((column, "-1", "") for column in list(GOOD)[3:8]),
        *((column, "nan", "not a finite number") for column in list(GOOD)[3:8]),
        *((column, "inf", "not a finite number") for column in list(GOOD)[3:8]),
        ("job_type", "hp", "must be HP or Spot"),
        ("gpu_request", "1.5", "above 1 it must be a whole number of cards"),
        ("gpu_request", "0", "must be above 0"),
        ("gpu_request", "0.0000004", "rounds to nothing: the least is a millionth of a card"),
        ("gpu_request", "9", "a pod must fit on one node; the largest A100 node has 8 cards"),
        ("worker_num", "0", "must be a whole number of 1 or more"),
        ("worker_num", "1.5", "must be a whole number of 1 or more"),
        ("worker_num", "13", "the whole pool A100 holds only 12 pods of 1 GPUs"),
        ("gpu_model", "H100", "no node has this GPU model"),
    ],
)
def test_a_bad_value_is_named_with_row_column_value_and_reason(
    trace: Trace, column: str, value: str, reason: str
) -> None:
    with pytest.raises(BadRows) as caught:
        trace.read(job(job_name="fine"), job(**{column: value}))
    (bad,) = caught.value.rows
    assert (bad.file, bad.row, bad.column, bad.value) == (str(trace.jobs), 3, column, value)
    assert bad.reason == reason or (not reason and bad.reason)


def test_gangs_of_large_pods_count_whole_nodes(trace: Trace) -> None:
    # 8 + 4 cards hold floor(8/3) + floor(4/3) = 3 pods of 3 cards, not 12/3 = 4; one pod of 8
    trace.read(job(gpu_request="3", worker_num="3"))
    assert trace.faults(job(gpu_request="3", worker_num="4")) == [(2, "worker_num", "4")]
    assert trace.faults(job(gpu_request="8", worker_num="2")) == [(2, "worker_num", "2")]
    # fractions: 12 cards x floor(1/0.6) = 12 pods
    assert trace.faults(job(gpu_request="0.6", worker_num="13")) == [(2, "worker_num", "13")]


def test_duplicates_point_to_the_first_use(trace: Trace) -> None:
    with pytest.raises(BadRows) as caught:
        trace.read(job(), job(job_name="b"), job())
    assert [(bad.row, bad.column, bad.reason) for bad in caught.value.rows] == [
        (4, "job_name", "already used in row 2")
    ]


def test_optional_columns_are_checked(trace: Trace) -> None:
    header = JOB_HEADER + ",guarantee_hours,checkpoint_interval"
    assert trace.faults(job() + ",0,-5", header=header) == [
        (2, "guarantee_hours", "0"),
        (2, "checkpoint_interval", "-5"),
    ]


def test_all_faults_are_listed_in_the_order_of_the_file(trace: Trace) -> None:
    assert trace.faults(job(duration="-1", cpu_request=""), job(job_name="b", job_type="?")) == [
        (2, "cpu_request", ""),
        (2, "duration", "-1"),
        (3, "job_type", "?"),
    ]


def test_rows_are_counted_as_an_editor_does(trace: Trace) -> None:
    rows = [
        "",
        job(),
        "",
        job(job_name='"two\nlines"'),
        job(job_name="short", duration="-1"),
        "a,b",
        job(job_name=""),
    ]
    # lines: 1 header, 2 blank, 3 good, 4 blank, 5-6 a name with a line break, 7 bad, 8 too short, 9 no name
    assert trace.faults(*rows) == [(7, "duration", "-1"), (8, "(row)", "a,b"), (9, "job_name", "")]


def test_a_line_of_commas_is_a_row_of_missing_values(trace: Trace) -> None:
    assert len(trace.faults(job(), "", "," * 8)) == 9


def test_bad_rows_can_be_skipped(trace: Trace) -> None:
    trace.nodes.write_text(NODES + "n1,A100,8,1\n")
    read = trace.read(job(), job(job_name="b", duration="-1"), job(job_name="c"), skip_bad_rows=True)
    assert [t.name for t in read.workload.tasks] == ["a", "c"]
    assert [(bad.row, bad.column) for bad in read.skipped] == [(5, "node_name"), (3, "duration")]
    assert len(read.workload.nodes) == 3


def test_skipping_everything_is_an_error(trace: Trace) -> None:
    with pytest.raises(InputError, match="no usable job"):
        trace.read(job(duration="-1"), skip_bad_rows=True)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("n1,A100,8,128", "node_name"),
        (",A100,8,128", "node_name"),
        ("n4,,8,128", "gpu_model"),
        ("n4,A100,,128", "gpu_capacity_num"),
        ("n4,A100,0,128", "gpu_capacity_num"),
        ("n4,A100,7.5,128", "gpu_capacity_num"),
        ("n4,A100,nan,128", "gpu_capacity_num"),
        ("n4,A100,8,", "cpu_num"),
        ("n4,A100,8,-1", "cpu_num"),
    ],
)
def test_bad_nodes_are_named(trace: Trace, row: str, column: str) -> None:
    trace.nodes.write_text(NODES + row + "\n")
    with pytest.raises(BadRows) as caught:
        trace.read(job(gpu_model="none", duration="-1"))
    # what a job asks for is not compared with nodes that are not right yet
    assert [(bad.row, bad.column) for bad in caught.value.rows] == [(5, column), (2, "duration")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n\n  \n", "empty"),
        (b"job_name,organization\n1,2\n", "column gpu_model, cpu_request, .* missing"),
        (JOB_HEADER.replace(",", ";").encode() + b"\n", "separated by commas"),
        (JOB_HEADER.encode() + b"\n", "no usable job"),
        ((JOB_HEADER + ",duration\n" + job() + ",1\n").encode(), "duration appears twice"),
        ((JOB_HEADER + "\n" + job(organization="Köln")).encode("latin-1"), r"line 2 is not UTF-8.*iconv"),
        (b"PAR1 and then garbage", "cannot be read as Parquet"),
        (b"\x1f\x8b and then garbage", "cannot be unpacked"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(trace: Trace, content: bytes, message: str) -> None:
    trace.jobs.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_trace(trace.jobs, trace.nodes)
    assert str(trace.jobs) in str(caught.value)


def test_a_directory_a_missing_file_and_text_called_parquet(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        read_trace(tmp_path, trace.nodes)
    with pytest.raises(InputError, match="no such file"):
        read_trace(tmp_path / "none.csv", trace.nodes)
    (tmp_path / "x.parquet").write_text("hello")
    with pytest.raises(InputError, match="not a Parquet file"):
        read_trace(tmp_path / "x.parquet", trace.nodes)


def test_no_permission(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match="no permission to read"):
        read_trace(trace.jobs, trace.nodes)


@pytest.mark.parametrize("option", ["guarantee_hours", "checkpoint_interval"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_defaults_must_be_above_zero(trace: Trace, option: str, value: float) -> None:
    with pytest.raises(InputError, match=option):
        trace.read(job(), **{option: value})


def test_windows_line_ends_byte_order_mark_blanks_and_gzip(trace: Trace, tmp_path: Path) -> None:
    packed = tmp_path / "jobs.csv.gz"
    spaced = job().replace(",", " , ")
    packed.write_bytes(gzip.compress(f"\ufeff{JOB_HEADER}\r\n{spaced}\r\n".encode()))
    (task,) = read_trace(packed, trace.nodes).workload.tasks
    assert (task.name, task.gpu_model, task.priority) == ("a", "A100", Priority.HP)


def parquet(path: Path, **changes: pa.Array) -> Path:
    columns = {
        "job_name": pa.array([7, 12]),
        "organization": pa.array(["x", "y"]).dictionary_encode(),
        "gpu_model": pa.array(["A100", "A100"]),
        "cpu_request": pa.array([8, 8]),
        "gpu_request": pa.array([0.5, 8.0]),
        "worker_num": pa.array([1, 1], pa.int32()),
        "submit_time": pa.array([3, 1]),
        "duration": pa.array([60.0, 60.0]),
        "job_type": pa.array(["HP", "Spot"]),
    }
    pq.write_table(pa.table(columns | changes), path)
    return path


def test_parquet(trace: Trace, tmp_path: Path) -> None:
    tasks = read_trace(parquet(tmp_path / "jobs.parquet"), trace.nodes).workload.tasks
    assert [(t.name, t.organization, t.gpus_per_pod, t.submit_time) for t in tasks] == [
        ("12", "y", 8.0, 1.0),
        ("7", "x", 0.5, 3.0),
    ]


def test_parquet_ids_stored_as_floats_are_whole_numbers(trace: Trace, tmp_path: Path) -> None:
    file = parquet(tmp_path / "jobs.parquet", job_name=pa.array([7.0, 12.0]))
    assert [t.name for t in read_trace(file, trace.nodes).workload.tasks] == ["12", "7"]


def test_parquet_missing_values_are_bad_rows(trace: Trace, tmp_path: Path) -> None:
    file = parquet(tmp_path / "jobs.parquet", duration=pa.array([None, float("nan")]), job_name=pa.array(["a", None]))
    with pytest.raises(BadRows) as caught:
        read_trace(file, trace.nodes)
    assert caught.value.rows == (
        BadRow(str(file), 2, "duration", "", "missing"),
        BadRow(str(file), 3, "job_name", "", "missing"),
        BadRow(str(file), 3, "duration", "nan", "not a finite number"),
    )


def test_a_cut_off_parquet_file(trace: Trace, tmp_path: Path) -> None:
    file = parquet(tmp_path / "jobs.parquet")
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_trace(file, trace.nodes)


def test_old_mac_line_ends(trace: Trace) -> None:
    trace.jobs.write_bytes(f"{JOB_HEADER}\r{job()}\r".encode())
    assert len(read_trace(trace.jobs, trace.nodes).workload.tasks) == 1


def test_parquet_text_that_is_not_utf8(trace: Trace, tmp_path: Path) -> None:
    broken = pa.array(["Köln".encode("latin-1"), b"y"]).cast(pa.binary()).view(pa.string())
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_trace(parquet(tmp_path / "jobs.parquet", organization=broken), trace.nodes)
