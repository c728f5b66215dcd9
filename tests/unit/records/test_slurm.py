"""Slurm's accounting, read by the sample that the guide shows."""

from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gfs.domain.errors import BadRows, InputError
from gfs.records.conversion import Conversion
from gfs.records.slurm import read_slurm

SAMPLES = Path(__file__).parents[3] / "examples" / "records"
HEADER = "JobID|Account|Partition|QOS|Submit|Start|End|ElapsedRaw|State|AllocTRES|NNodes"
NODES = "NodeName=n1 Gres=gpu:a100:8,gpu:h100:2 Partitions=p CfgTRES=cpu=64,gres/gpu=10\n"


@pytest.fixture(scope="module")
def sample() -> Conversion:
    return read_slurm(SAMPLES / "sacct.txt", SAMPLES / "scontrol.txt")


def of_rows(folder: Path, *rows: str, nodes: str = NODES, **options: object) -> Conversion:
    (folder / "jobs.txt").write_text("\n".join((HEADER, *rows)) + "\n")
    (folder / "nodes.txt").write_text(nodes)
    return read_slurm(folder / "jobs.txt", folder / "nodes.txt", **options)  # type: ignore[arg-type]


def job(name: str = "1", *, qos: str = "normal", tres: str = "gres/gpu:a100=4,cpu=8", nodes: int = 1) -> str:
    return (
        f"{name}|team|p|{qos}|2026-05-04T08:00:00|2026-05-04T08:01:00|2026-05-04T08:02:00|60|COMPLETED|{tres}|{nodes}"
    )


class TestSample:
    def test_every_job_with_gpus_that_ran_is_a_task(self, sample: Conversion) -> None:
        assert [task.name for task in sample.workload.tasks] == ["101", "102", "103_0", "103_1", "104"]

    def test_a_requeued_job_was_submitted_once_and_lasts_as_long_as_its_last_run(self, sample: Conversion) -> None:
        assert sample.workload.tasks[0].submit_time == 8 * 3600
        assert sample.workload.durations[0] == 7200

    def test_a_job_of_two_nodes_is_a_gang_of_two_pods(self, sample: Conversion) -> None:
        task = sample.workload.tasks[1]
        assert (task.pods, task.gpus_per_pod, task.cpus_per_pod) == (2, 8.0, 64.0)

    def test_classes_by_the_names_of_qos(self, sample: Conversion) -> None:
        assert [task.name for task in sample.workload.tasks if task.is_spot] == ["101", "104"]
        assert any("spot: preempt-low / a100, spot / a100; HP: normal / a100" in guess for guess in sample.guesses)

    def test_organization_model_and_first_day(self, sample: Conversion) -> None:
        assert [task.organization for task in sample.workload.tasks[:2]] == ["vision", "language"]
        assert sample.workload.capacity() == {"a100": 16}
        assert sample.first_day == date(2026, 5, 4)

    def test_what_is_left_out_is_counted(self, sample: Conversion) -> None:
        assert dict(sample.left_out) == {"asks for no GPU": 1, "never ran": 2}


class TestRules:
    def test_patterns_decide_the_class(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, job("1", qos="batch"), job("2", qos="spotlight"), spot=["bat*"])
        assert [task.is_spot for task in read.workload.tasks] == [True, False]
        assert not any("class" in guess for guess in read.guesses)

    @pytest.mark.parametrize("qos", ["workflow", "slow-storage", "freeze"])
    def test_words_inside_other_words_make_no_spot_job(self, tmp_path: Path, qos: str) -> None:
        assert not of_rows(tmp_path, job(qos=qos)).workload.tasks[0].is_spot

    def test_untyped_gpus_are_of_the_model_that_most_of_the_partition_is(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, job(tres="gres/gpu=4"))
        assert read.workload.tasks[0].gpu_model == "a100"

    def test_gpus_that_do_not_divide_among_the_nodes_are_one_pod(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, job(tres="gres/gpu:a100=5", nodes=2))
        assert (read.workload.tasks[0].pods, read.workload.tasks[0].gpus_per_pod) == (1, 5.0)
        assert any("divide evenly" in guess for guess in read.guesses)

    def test_the_clock_of_sacct_may_be_another(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, job(), zone=ZoneInfo("Europe/Berlin"))
        assert read.workload.tasks[0].submit_time == 6 * 3600  # 8:00 in Berlin's summer is 6:00 UTC

    def test_a_job_larger_than_all_nodes_is_left_out(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, job("1"), job("2", tres="gres/gpu:a100=9"))
        assert [task.name for task in read.workload.tasks] == ["1"]
        assert read.left_out == (("asks for more GPUs than its nodes could ever give", 1),)


class TestBadInput:
    @pytest.mark.parametrize(
        ("row", "column"),
        [
            (job().replace("|60|", "|1-00:00|"), "ElapsedRaw"),
            (job().replace("2026-05-04T08:00:00", "yesterday"), "Submit"),
            ("1|team", "(row)"),
        ],
    )
    def test_the_row_and_column_are_named(self, tmp_path: Path, row: str, column: str) -> None:
        with pytest.raises(BadRows) as caught:
            of_rows(tmp_path, job("9"), row)
        assert [(bad.row, bad.column) for bad in caught.value.rows] == [(3, column)]

    def test_bad_rows_may_be_left_out(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, job("9"), "1|team", skip_bad_rows=True)
        assert (len(read.workload.tasks), read.left_out) == (1, (("cannot be read", 1),))

    def test_columns_that_are_missing_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "jobs.txt").write_text("JobID|State\n1|COMPLETED\n")
        (tmp_path / "nodes.txt").write_text(NODES)
        with pytest.raises(
            InputError, match="column Account, Partition, QOS, Submit, Start, End, ElapsedRaw, AllocTRES"
        ):
            read_slurm(tmp_path / "jobs.txt", tmp_path / "nodes.txt")

    def test_nodes_of_another_program(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="scontrol show nodes"):
            of_rows(tmp_path, job(), nodes="PARTITION AVAIL\n")

    def test_no_job_with_gpus(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"no job with GPUs in it. Left out: 1 \(asks for no GPU\)"):
            of_rows(tmp_path, job(tres="cpu=8"))
