"""Files of demand: what is taken, what is refused, and how it is said."""

from __future__ import annotations

import gzip
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gfs.domain.errors import BadRows, InputError
from gfs.forecasting.history import DemandHistory, SeriesKey
from gfs.workloads.readers.demand import read_demand

HEADER = "time,organization,gpu_model,gpus\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "demand.csv"


def long(file: Path, *rows: str) -> DemandHistory:
    file.write_text(HEADER + "\n".join(rows) + "\n")
    return read_demand(file).history


def refused(file: Path, text: str) -> list[tuple[int, str, str, str]]:
    """(row, column, value, reason) of what is wrong."""
    file.write_text(text)
    with pytest.raises(BadRows) as caught:
        read_demand(file)
    return [(bad.row, bad.column, bad.value, bad.reason) for bad in caught.value.rows]


class TestLong:
    def test_the_cluster_is_part_of_the_series(self, file: Path) -> None:
        file.write_text("time,organization,gpu_model,gpus,cluster\n3,a,A10,7,west\n3,a,A10,2,east\n4,a,A10,1,\n")
        history = read_demand(file).history
        assert [str(key) for key in history.keys] == ["a on A10", "a on A10 in east", "a on A10 in west"]
        assert history.gpus[:, 0].tolist() == [0, 2, 7]

    def test_hour_numbers(self, file: Path) -> None:
        history = long(file, "3,b,A100,2", "4,b,A100,2.5", "3,a,A10,7", "4,a,A10,0")
        assert history.keys == (SeriesKey("a", "A10"), SeriesKey("b", "A100"))
        assert history.gpus.tolist() == [[7, 0], [2, 2.5]]
        assert (history.start, history.first_day) == (3, None)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("2024-04-02T05:00", "2024-04-02T06:59"),
            ("2024-04-02 05:00:00", "2024-04-02 06:00:00"),
            ("2024-04-02T05", "2024-04-02T06"),
            ("2024-04-02T05:30:00Z", "2024-04-02T06:00:00.123456789Z"),
            ("2024-04-02T13:00+08:00", "2024-04-02T14:00+08:00"),
        ],
    )
    def test_timestamps(self, file: Path, first: str, second: str) -> None:
        history = long(file, f"{second},o,A100,2", f"{first},o,A100,1")
        assert history.gpus.tolist() == [[1, 2]]
        assert (history.start, history.first_day) == (5, date(2024, 4, 2))

    def test_dates_are_midnights(self, file: Path) -> None:
        history = long(file, "2024-04-01,o,A100,1", "2024-04-02,o,A100,2")
        assert history.gpus.tolist() == [[1] * 24 + [2]]

    def test_gaps_duplicates_late_and_silent_series_in_one_file(self, file: Path) -> None:
        rows = ("0,a,A10,1", "0,a,A10,4", "3,a,A10,2", "1,b,A10,5", "4,a,A10,2")
        history = long(file, *rows)
        assert history.gpus.tolist() == [[4, 4, 4, 2, 2], [0, 5, 0, 0, 0]]
        assert history.first.tolist() == [0, 1]

    def test_other_columns_are_ignored(self, file: Path) -> None:
        file.write_text("gpus,note,time,gpu_model,organization\n3,x,0,A100,o\n")
        assert read_demand(file).history.gpus.tolist() == [[3]]

    def test_rest_of_sums_is_zero(self, file: Path) -> None:
        assert long(file, "0,o,A100,-3e-12").gpus.tolist() == [[0]]

    @pytest.mark.parametrize(
        ("row", "column", "value", "reason"),
        [
            ("1,o,A100,nan", "gpus", "nan", "not a finite number"),
            ("1,o,A100,inf", "gpus", "inf", "not a finite number"),
            ("1,o,A100,", "gpus", "", "missing"),
            ("1,o,A100,many", "gpus", "many", "not a number"),
            ("1,o,A100,-1", "gpus", "-1", "must not be negative"),
            ("1,,A100,1", "organization", "", "missing"),
            ("1,o,,1", "gpu_model", "", "missing"),
            (",o,A100,1", "time", "", "missing"),
            ("-1,o,A100,1", "time", "-1", "must not be negative"),
            ("1.5,o,A100,1", "time", "1.5", "the number of an hour must be whole"),
            ("nan,o,A100,1", "time", "nan", "not a finite number"),
            ("2024-04-01,o,A100,1", "time", "2024-04-01", "not a number"),
            ("1,o,A100", "(row)", "1,o,A100", "3 values where the header names 4 columns"),
        ],
    )
    def test_a_bad_value_is_named(self, file: Path, row: str, column: str, value: str, reason: str) -> None:
        assert refused(file, f"{HEADER}0,o,A100,1\n{row}\n") == [(3, column, value, reason)]

    def test_seconds_are_not_hours(self, file: Path) -> None:
        ((row, column, value, reason),) = refused(file, f"{HEADER}1712000000,o,A100,1\n")
        assert (row, column, value) == (2, "time", "1712000000")
        assert "too large for the number of an hour" in reason

    @pytest.mark.parametrize(("text", "reason"), [("7", "not a timestamp"), ("", "missing"), ("noon", "not a time")])
    def test_among_timestamps_all_must_be_some(self, file: Path, text: str, reason: str) -> None:
        ((row, column, value, said),) = refused(file, f"{HEADER}2024-04-01T00,o,A,1\n{text},o,A,1\n")
        assert (row, column, value) == (3, "time", text)
        assert said.startswith(reason)

    def test_a_blank_first_time_does_not_decide(self, file: Path) -> None:
        assert refused(file, f"{HEADER},o,A,1\n2024-04-01T00,o,A,1\n") == [(2, "time", "", "missing")]
        assert refused(file, f"{HEADER},o,A,1\n5,o,A,1\n") == [(2, "time", "", "missing")]

    def test_bad_rows_can_be_left_out(self, file: Path) -> None:
        file.write_text(f"{HEADER}0,o,A,1\n1,o,A,nan\n1,p,A,-4\n2,o,A,3\n")
        read = read_demand(file, skip_bad_rows=True)
        assert [bad.row for bad in read.skipped] == [3, 4]
        assert read.history.keys == (SeriesKey("o", "A"),)
        assert read.history.gpus.tolist() == [[1, 1, 3]]

    def test_nothing_usable_is_an_error(self, file: Path) -> None:
        file.write_text(f"{HEADER}0,o,A,nan\n")
        with pytest.raises(InputError, match="no usable row"):
            read_demand(file, skip_bad_rows=True)
        file.write_text(HEADER)
        with pytest.raises(InputError, match="no usable row"):
            read_demand(file)

    def test_a_missing_column_is_named(self, file: Path) -> None:
        file.write_text("time,organization,gpus\n0,o,1\n")
        with pytest.raises(InputError, match="column gpu_model missing"):
            read_demand(file)


class TestWide:
    def test_columns_become_series_in_their_order(self, file: Path) -> None:
        file.write_text("hour,H800,A10\n0,1,2\n1,3,4\n")
        history = read_demand(file).history
        assert [str(key) for key in history.keys] == ["H800", "A10"]
        assert history.gpus.tolist() == [[1, 3], [2, 4]]

    def test_a_blank_is_no_record(self, file: Path) -> None:
        file.write_text("time,a,b\n2024-04-01T03,1,\n2024-04-01T04,,2\n2024-04-01T05,3,\n2024-04-01T06,3,4\n")
        history = read_demand(file).history
        assert history.gpus.tolist() == [[1, 1, 3, 3], [0, 2, 2, 4]]
        assert history.first.tolist() == [0, 1]
        assert (history.start, history.first_day) == (3, date(2024, 4, 1))

    def test_blanks_to_the_end_are_silence(self, file: Path) -> None:
        file.write_text("hour,a,b\n0,1,2\n1,1,\n2,1,\n")
        assert read_demand(file).history.gpus.tolist() == [[1, 1, 1], [2, 0, 0]]

    @pytest.mark.parametrize(
        ("cell", "reason"),
        [("nan", "not a finite number"), ("x", "not a number"), ("-1", "must not be negative")],
    )
    def test_a_bad_value_is_named(self, file: Path, cell: str, reason: str) -> None:
        assert refused(file, f"hour,a,b\n0,1,\n1,1,{cell}\n") == [(3, "b", cell, reason)]

    def test_a_column_without_any_value_is_refused(self, file: Path) -> None:
        file.write_text("hour,a,b\n0,1,\n1,1,\n")
        with pytest.raises(InputError, match="column b holds no value"):
            read_demand(file)

    def test_a_column_twice_is_refused(self, file: Path) -> None:
        file.write_text("hour,a,a\n0,1,2\n")
        with pytest.raises(InputError, match="column a appears twice"):
            read_demand(file)

    def test_another_table_is_refused(self, file: Path) -> None:
        file.write_text("node_name,capacity\nn1,8\n")
        with pytest.raises(InputError, match="no file of demand"):
            read_demand(file)


class TestFormats:
    def test_gzip(self, tmp_path: Path) -> None:
        path = tmp_path / "demand.csv.gz"
        path.write_bytes(gzip.compress(b"hour,a\n0,1\n1,2\n"))
        assert read_demand(path).history.gpus.tolist() == [[1, 2]]

    @pytest.mark.parametrize("zone", [None, "UTC"])
    @pytest.mark.parametrize("unit", ["s", "ns"])
    def test_parquet_with_its_own_timestamps(self, tmp_path: Path, unit: str, zone: str | None) -> None:
        path = tmp_path / "demand.parquet"
        times = pa.array([datetime(2024, 4, 1, 7), datetime(2024, 4, 1, 8)], pa.timestamp(unit)).cast(
            pa.timestamp(unit, zone)
        )
        names = pa.array(["o", "o"]).dictionary_encode()
        table = pa.table({"time": times, "organization": names, "gpu_model": ["A", "A"], "gpus": [1, 2]})
        pq.write_table(table, path)
        history = read_demand(path).history
        assert history.gpus.tolist() == [[1, 2]]
        assert (history.start, history.first_day) == (7, date(2024, 4, 1))

    def test_parquet_wide_with_nulls(self, tmp_path: Path) -> None:
        path = tmp_path / "demand.parquet"
        pq.write_table(pa.table({"hour": [0, 1, 2], "a": [1.0, None, 3.0]}), path)
        assert read_demand(path).history.gpus.tolist() == [[1, 1, 3]]

    @pytest.mark.parametrize(
        ("content", "said"), [(b"", "empty"), (b"\x1f\x8bxx", "gzip"), (b"hour;a\n0;1\n", "commas")]
    )
    def test_what_is_no_table_is_refused(self, file: Path, content: bytes, said: str) -> None:
        file.write_bytes(content)
        with pytest.raises(InputError, match=said):
            read_demand(file)

    def test_no_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            read_demand(tmp_path / "none.csv")
