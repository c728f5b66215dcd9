"""Any table of jobs, by a map of its columns."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from gfs.domain.errors import BadRows, InputError
from gfs.records.conversion import Conversion
from gfs.records.mapped import read_map, read_mapped

SAMPLES = Path(__file__).parents[3] / "examples" / "records"
MAP = """
[jobs]
job_name = "id"
gpu_request = "gpus"
submit_time = "at"
duration = "ran"
job_type = "queue"
[values]
gpu_model = "A100"
organization = "team"
"""
NODES = "node_name,gpu_capacity_num\nn1,8\n"


def of_rows(
    folder: Path, *rows: str, header: str = "id,gpus,at,ran,queue", map: str = MAP, **options: bool
) -> Conversion:
    (folder / "jobs.csv").write_text("\n".join((header, *rows)) + "\n")
    (folder / "nodes.csv").write_text(NODES)
    (folder / "map.toml").write_text(map)
    return read_mapped(folder / "jobs.csv", folder / "nodes.csv", folder / "map.toml", **options)


class TestSample:
    def test_columns_become_tasks(self) -> None:
        read = read_mapped(SAMPLES / "jobs.csv", SAMPLES / "nodes.csv", SAMPLES / "columns.toml")
        tasks = read.workload.tasks
        assert [(t.name, t.organization, t.gpu_model, t.is_spot) for t in tasks] == [
            ("j-1", "vision", "A100", False),
            ("j-2", "language", "A100", True),
            ("j-3", "vision", "A100", True),
        ]
        assert [(t.pods, t.gpus_per_pod) for t in tasks] == [(2, 4.0), (1, 2.0), (1, 0.5)]
        assert [t.submit_time for t in tasks] == [8 * 3600, 8.25 * 3600, 8.5 * 3600]  # 10:00 +02:00 is 8:00 UTC
        assert read.workload.durations == (3600.0, 1800.0, 100.0)
        assert (read.first_day, read.guesses, read.left_out) == (date(2026, 5, 4), (), ())


class TestTimes:
    def test_seconds_since_1970_are_dates(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, "a,1,1777888800,60,prod")  # 2026-05-04 10:00 UTC
        assert (read.workload.tasks[0].submit_time, read.first_day) == (36000.0, date(2026, 5, 4))

    @pytest.mark.parametrize("written", [lambda at: f"{at}", lambda at: f"1970-01-01T{at // 3600:02}:00"])
    def test_a_job_without_an_end_still_runs_and_one_without_a_start_never_did(
        self, tmp_path: Path, written: Callable[[int], str]
    ) -> None:
        """The latest time is 5:00, when b ended: a has run since 2:00, for three hours."""
        map = MAP.replace('duration = "ran"', 'start_time = "from"\nend_time = "to"')
        one, two, five = (written(hours * 3600) for hours in (1, 2, 5))
        rows = (f"a,1,{one},{two},,prod", f"b,1,{one},{one},{five},prod", f"c,1,{one},,,prod")
        read = of_rows(tmp_path, *rows, header="id,gpus,at,from,to,queue", map=map)
        assert dict(zip([t.name for t in read.workload.tasks], read.workload.durations, strict=True)) == {
            "a": 3 * 3600,
            "b": 4 * 3600,
        }
        assert read.left_out == (("never ran: no start", 1),)
        assert "jobs without an end still run: they last until the latest time in the table" in read.guesses

    @pytest.mark.parametrize(("unit", "factor"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
    def test_other_units(self, tmp_path: Path, unit: str, factor: int) -> None:
        row = f"a,1,{1777888800 * factor},{60 * factor},prod"
        read = of_rows(tmp_path, row, map=f'{MAP}[times]\nunit = "{unit}"\n')
        assert (read.workload.tasks[0].submit_time, read.workload.durations) == (36000.0, (60.0,))

    def test_a_unit_that_cannot_be_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadRows) as caught:
            of_rows(tmp_path, "a,1,1777888800000,60,prod")
        assert "is no time in s: set unit in [times]" in caught.value.rows[0].reason

    def test_plain_seconds_have_no_date(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, "a,1,100,60,prod", "b,1,7200,60,prod")
        assert ([t.submit_time for t in read.workload.tasks], read.first_day) == ([100.0, 7200.0], None)

    def test_dates_without_a_zone_are_of_the_one_named(self, tmp_path: Path) -> None:
        row = "a,1,2026-05-04T10:00:00,60,prod"
        berlin = of_rows(tmp_path, row, map=f'{MAP}[times]\ntimezone = "Europe/Berlin"\n')
        assert berlin.workload.tasks[0].submit_time == 8 * 3600
        assert of_rows(tmp_path, row).workload.tasks[0].submit_time == 10 * 3600

    def test_an_end_before_its_start(self, tmp_path: Path) -> None:
        map = MAP.replace('duration = "ran"', 'start_time = "at"\nend_time = "ran"')
        with pytest.raises(BadRows) as caught:
            of_rows(tmp_path, "a,1,100,60,prod", map=map)
        assert [(bad.row, bad.column, bad.reason) for bad in caught.value.rows] == [(2, "ran", "is before the start")]


class TestRows:
    def test_jobs_without_gpus_are_left_out(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, "a,1,100,60,prod", "b,0,100,60,prod")
        assert (len(read.workload.tasks), read.left_out) == (1, (("asks for no GPU", 1),))

    def test_the_same_name_twice_gets_a_number(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, "a,1,100,60,prod", "a,1,200,60,prod")
        assert [task.name for task in read.workload.tasks] == ["a", "a#2"]

    def test_classes_are_guessed_where_the_map_does_not_say(self, tmp_path: Path) -> None:
        read = of_rows(tmp_path, "a,1,100,60,prod", "b,1,100,60,scavenger")
        assert [task.is_spot for task in read.workload.tasks] == [False, True]
        assert read.guesses == ("class by column queue: spot: scavenger; HP: prod. Say it yourself in [job_type]",)

    def test_bad_values_are_listed_with_their_rows(self, tmp_path: Path) -> None:
        rows = ("a,1.5,100,60,prod", "b,1,soon,60,prod", "c,1,100,-5,prod")
        with pytest.raises(BadRows) as caught:
            of_rows(tmp_path, *rows)
        assert [(bad.row, bad.column) for bad in caught.value.rows] == [(2, "gpus"), (3, "at"), (4, "ran")]
        read = of_rows(tmp_path, *rows, "d,1,100,60,prod", skip_bad_rows=True)
        assert ([t.name for t in read.workload.tasks], read.left_out) == (["d"], (("cannot be used", 3),))


class TestMap:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('[jobs]\nsubmit_time = "at"\n', "neither gpu_request"),
            (MAP + '[jobz]\nx = "y"\n', "jobz"),
            (MAP.replace('duration = "ran"', ""), "neither duration nor start_time and end_time"),
            (MAP.replace('gpu_model = "A100"', ""), "no GPU model"),
            (MAP + '[times]\nunit = "weeks"\n', "weeks"),
            ("[jobs]\ngpus = 3\n", "Expected `str`"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, text: str, said: str) -> None:
        path = tmp_path / "map.toml"
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            read_map(path)

    def test_an_unknown_time_zone(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="Mars/Olympus: no such time zone"):
            of_rows(tmp_path, "a,1,100,60,prod", map=f'{MAP}[times]\ntimezone = "Mars/Olympus"\n')
