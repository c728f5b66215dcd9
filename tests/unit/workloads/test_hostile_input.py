"""Traces and logs as they should not be: wrong types and units, other kinds of files, names that mean harm."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gfs
from builders import hp, nodes, play, spot, workload
from gfs import BadRows, InputError, NodeEvent
from gfs.cli.main import app
from gfs.domain.text import printable
from gfs.forecasting.forecast import NormalForecast
from gfs.forecasting.sources import history_of_workload
from gfs.simulator import engine
from gfs.telemetry.tables import csv_lines, escaped_cells, unescaped_cells, write_table
from gfs.workloads import read_msr, read_trace, write_trace
from gfs.workloads.plausibility import check_run_length, plausibility
from gfs.workloads.readers import file_bytes
from gfs.workloads.readers.demand import read_demand
from gfs.workloads.readers.event_log import read_events

DAY = 86_400.0
NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num\nn0,A100,8,64\n"
HEADER = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"


def cli(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def node_file(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    return path


def job_table(tmp_path: Path, **columns: Any) -> Path:
    """A Parquet file of two jobs, with these columns in place of the usual ones."""
    usual: dict[str, Any] = {
        "job_name": ["a", "b"],
        "organization": ["x", "x"],
        "gpu_model": ["A100", "A100"],
        "cpu_request": [1, 1],
        "gpu_request": [1.0, 2.0],
        "worker_num": [1, 1],
        "submit_time": [0.0, 60.0],
        "duration": [600.0, 5400.0],
        "job_type": ["HP", "Spot"],
    }
    path = tmp_path / "jobs.parquet"
    pq.write_table(pa.table(usual | columns), path)
    return path


def job_csv(tmp_path: Path, **changes: str) -> Path:
    """A CSV file of one job."""
    cells = {"job_name": "a", "gpu_request": "1", "submit_time": "0", "duration": "60"} | changes
    row = "{job_name},x,A100,1,{gpu_request},1,{submit_time},{duration},HP\n".format(**cells)
    path = tmp_path / "jobs.csv"
    path.write_text(HEADER + row)
    return path


# -- Arrow's own types of time ------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_seconds_whatever_their_unit(tmp_path: Path, node_file: Path, unit: str) -> None:
    lengths = pa.array([timedelta(minutes=10), timedelta(minutes=90)], pa.duration(unit))
    submitted = pa.array([timedelta(0), timedelta(minutes=1)], pa.duration(unit))
    read = read_trace(job_table(tmp_path, duration=lengths, submit_time=submitted), node_file).workload
    assert read.durations == (600.0, 5400.0)
    assert [task.submit_time for task in read.tasks] == [0.0, 60.0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_timestamps_count_from_the_midnight_before_the_first(
    tmp_path: Path, node_file: Path, unit: str, zone: str | None
) -> None:
    kind = pa.timestamp(unit, zone)
    morning = datetime(2024, 4, 1, 6, tzinfo=UTC)
    times = pa.array([morning, morning + timedelta(days=1)], kind)
    cancelled = pa.array([None, morning + timedelta(days=2)], kind)
    events = tmp_path / "events.parquet"
    pq.write_table(pa.table({"time": pa.array([morning], kind), "node": ["n0"], "event": ["cordon"]}), events)
    read = read_trace(job_table(tmp_path, submit_time=times, cancel_time=cancelled), node_file, node_events=events)
    assert [task.submit_time for task in read.workload.tasks] == [6 * 3600.0, DAY + 6 * 3600.0]
    assert read.workload.cancel_times == (inf, 2 * DAY + 6 * 3600.0)
    assert read.workload.node_events == (NodeEvent(6 * 3600.0, "n0", "cordon"),)
    assert read.first_day == date(2024, 4, 1)


def test_timestamps_and_seconds_do_not_mix(tmp_path: Path, node_file: Path) -> None:
    times = pa.array([datetime(2024, 4, 1), datetime(2024, 4, 2)], pa.timestamp("us"))
    with pytest.raises(InputError, match="cancel_time holds timestamps, but submit_time of the jobs holds seconds"):
        read_trace(job_table(tmp_path, cancel_time=times), node_file)
    with pytest.raises(InputError, match="cancel_time holds seconds, but submit_time of the jobs holds timestamps"):
        read_trace(job_table(tmp_path, submit_time=times, cancel_time=[1e9, 2e9]), node_file)
    events = tmp_path / "events.csv"
    events.write_text("time,node,event\n60,n0,fail\n")
    with pytest.raises(InputError, match="column time holds seconds"):
        read_trace(job_table(tmp_path, submit_time=times), node_file, node_events=events)


def test_a_time_where_a_number_belongs_is_refused(tmp_path: Path, node_file: Path) -> None:
    with pytest.raises(InputError, match=r"column worker_num holds values of type duration\[s\]"):
        read_trace(job_table(tmp_path, worker_num=pa.array([1, 1], pa.duration("s"))), node_file)
    with pytest.raises(InputError, match="column duration holds values of type timestamp"):
        read_trace(job_table(tmp_path, duration=pa.array([1, 1], pa.timestamp("s"))), node_file)


def test_demand_by_timestamps_and_by_durations(tmp_path: Path) -> None:
    path = tmp_path / "demand.parquet"
    hours = [datetime(2024, 4, 1, 5), datetime(2024, 4, 1, 6)]
    pq.write_table(pa.table({"time": pa.array(hours, pa.timestamp("ns")), "lab": [1.0, 2.0]}), path)
    history = read_demand(path).history
    assert (history.start, history.first_day, history.gpus.tolist()) == (5, date(2024, 4, 1), [[1.0, 2.0]])
    lengths = [timedelta(hours=7), timedelta(hours=8)]
    pq.write_table(pa.table({"time": pa.array(lengths, pa.duration("ms")), "lab": [1.0, 2.0]}), path)
    assert read_demand(path).history.start == 7


# -- units and bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [("submit_time", "1e300"), ("submit_time", "1700000000000"), ("duration", "1e300"), ("gpu_request", "1e300")],
)
def test_a_value_beyond_its_limit_is_a_bad_row(tmp_path: Path, node_file: Path, column: str, value: str) -> None:
    with pytest.raises(BadRows, match=f"jobs.csv: row 2, {column} = '{value}': too large"):
        read_trace(job_csv(tmp_path, **{column: value}), node_file)


@pytest.mark.parametrize("capacity", ["9e30", "1e7", "257"])
def test_a_node_of_too_many_gpus_is_a_bad_row(tmp_path: Path, node_file: Path, capacity: str) -> None:
    node_file.write_text(NODES.replace(",8,", f",{capacity},"))
    with pytest.raises(BadRows, match=r"row 2, gpu_capacity_num = .*: too large: the most is 256"):
        read_trace(job_csv(tmp_path), node_file)


def test_the_same_limits_hold_for_a_workload_made_in_python() -> None:
    for made in (
        workload(nodes(10_000_000), [hp("a")]),
        workload(nodes(8), [hp("a", at=1e300)]),
        workload(nodes(8), [hp("a", lasting=inf)]),
        workload(nodes(8), [hp("a\0b")]),
    ):
        with pytest.raises(InputError, match="this workload cannot be scheduled"):
            gfs.simulate(made)


def test_demand_beyond_its_limit_leaves_no_page(tmp_path: Path) -> None:
    series = tmp_path / "demand.csv"
    series.write_text("hour,lab\n" + "".join(f"{h},{'1e300' if h == 9 else 1}\n" for h in range(100)))
    page = tmp_path / "page.html"
    result = cli("forecast", "predict", "--series", series, "--plot", page)
    assert result.exit_code == 2
    assert "too large" in result.output
    assert not page.exists()


def test_milliseconds_stop_before_the_run(tmp_path: Path, node_file: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(HEADER + "".join(f"j{i},x,A100,1,1,1,{i * 3_600_000_000},3600000000,HP\n" for i in range(9)))
    for words in (("simulate",), ("compare",), ("plan", "--out", tmp_path / "plan")):
        result = cli(*words, "--jobs", jobs, "--nodes", node_file)
        assert result.exit_code == 2
        assert "108,000,000 ticks of 300 s" in result.output
        assert "the most is 2,000,000" in result.output
    assert not (tmp_path / "plan").exists()
    checked = cli("trace", "check", "--jobs", jobs, "--nodes", node_file)
    assert checked.exit_code == 0
    assert "warning: submissions span 913 years: are they in milliseconds?" in checked.output


def test_check_prints_span_and_load(tmp_path: Path, node_file: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(HEADER + "a,x,A100,1,8,1,0,43200,HP\nb,x,A100,1,1,1,86400,0,Spot\n")
    result = cli("trace", "check", "--jobs", jobs, "--nodes", node_file)
    assert "span 24.0 h, load 0.5 of the GPUs, median duration 6.0 h" in result.output
    assert "warning" not in result.output


def test_what_looks_odd_is_said() -> None:
    def said(*tasks: Any) -> str:
        return " ".join(plausibility(workload(nodes(8), tasks)).warnings)

    assert "2023-11-14" in said(hp("a", at=1.7e9))
    assert "durations in milliseconds" in said(hp("a", lasting=3.6e6))
    assert "times what the nodes have" in said(hp("a", gpus=8, lasting=DAY))
    assert "durations in hours or days" in said(hp("a", lasting=0.4))


def test_a_run_is_as_long_as_the_time_in_which_anything_runs() -> None:
    check_run_length(workload(nodes(8), [hp("a"), hp("b", at=9e10)]), 300.0)  # an idle time is none
    with pytest.raises(InputError, match="3,333,333 ticks"):  # eight at a time, one after the other
        check_run_length(workload(nodes(8), [hp(f"h{i}", gpus=8, lasting=1e8) for i in range(10)]), 300.0)


def test_idle_years_cost_nothing_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def ticks(gap: float) -> int:
        made = workload(nodes(8), [hp("a"), hp("b", at=gap)])
        return len(gfs.simulate(made, quota="fixed", record_quota=True, tick=3600).quota["time"])

    assert ticks(1e10) == ticks(1e9) < 2 * 14 * 24

    drafts = [hp("a", lasting=3600), hp("b", at=16 * DAY + 7, gpus=8), spot("s", at=16 * DAY + 8, gpus=8)]
    passed_over = gfs.simulate(workload(nodes(8), drafts), tick=3600).events
    monkeypatch.setattr(engine, "MOST_IDLE", inf)
    assert gfs.simulate(workload(nodes(8), drafts), tick=3600).events.equals(passed_over)


@pytest.mark.parametrize("seed", [-1])
def test_negative_seeds_are_refused(seed: int, tmp_path: Path) -> None:
    made = workload(nodes(8), [hp("a")])
    for call in (
        lambda: gfs.simulate(made, seed=seed),
        lambda: gfs.compare(made, seed=seed),
        lambda: gfs.generate("demo", seed=seed),
        lambda: read_msr(tmp_path, seed=seed),
    ):
        with pytest.raises(InputError, match=r"must be 0 or more"):
            call()


# -- other kinds of files -----------------------------------------------------------------------------------


def zipped(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return data.getvalue()


def feather() -> bytes:
    data = io.BytesIO()
    pyarrow.feather.write_feather(pa.table({"a": [1]}), data)
    return data.getvalue()


def tarred(**files: bytes) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"raw-traces/{name}.csv")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "this is an Excel workbook; save it as CSV"),
        (zipped("mimetype", "content.xml"), "this is an OpenDocument spreadsheet; save it as CSV"),
        (zipped("jobs.csv"), "this is a zip archive; unpack it"),
        (feather(), r"this is a Feather \(Arrow IPC\) file; save it as CSV or Parquet"),
        (gzip.compress(feather()), "this is a Feather"),
        (tarred(jobs=b"x"), "this is a tar archive; unpack it"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "this is an Excel workbook of the old kind"),
        (NODES.encode("utf-16"), "this is UTF-16 text; save it as UTF-8"),
        (b'{"node_name": "n0"}', "this is JSON"),
        (b"<!doctype html><html>", "this is a page of HTML"),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"nodes.csv: {said}"):
        read_trace(job_csv(tmp_path), path)


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "--html", "x.pdf"),
        ("trace", "inspect", "--html", "x.pdf"),
        ("simulate", "--json", "x.csv"),
        ("simulate", "--events", "x.xlsx"),
        ("trace", "check", "--json", "x.html"),
    ],
)
def test_a_result_of_another_ending_is_refused(tmp_path: Path, node_file: Path, words: tuple[str, ...]) -> None:
    target = tmp_path / words[-1]
    result = cli(*words[:-1], target, "--jobs", job_csv(tmp_path), "--nodes", node_file)
    assert result.exit_code == 2
    assert "use a name that ends in" in result.output
    assert not target.exists()


# -- names --------------------------------------------------------------------------------------------------

EVIL = "\x1b[31mred\x9b2J\u202egnp"


def test_what_steers_a_terminal_is_written_out() -> None:
    assert printable(EVIL) == r"\x1b[31mred\x9b2J\u202egnp"
    assert printable("a\nb\tü×") == "a\nb\tü×"
    assert printable("a\nb", keep="") == r"a\nb"
    assert str(InputError(EVIL)) == printable(EVIL)


def test_names_are_safe_wherever_they_are_printed(tmp_path: Path, node_file: Path) -> None:
    story = play(nodes(8), hp(EVIL, org=EVIL), spot("s", gpus=8, lasting=7200), hp("h", gpus=8, at=60))
    events = tmp_path / "events.csv"
    write_table(story.result.events, events)
    outputs = [cli("explain", "--events", events, name) for name in (EVIL, EVIL + "?", "s")]
    outputs.append(cli("explain", "--events", events, EVIL, "--json", "-"))
    jobs = job_csv(tmp_path, job_name=EVIL, submit_time=EVIL)
    outputs += [cli("trace", "check", "--jobs", jobs, "--nodes", node_file)]
    outputs += [cli("simulate", "--jobs", jobs, "--nodes", node_file)]
    node_file.write_text(NODES.replace("A100", EVIL))
    jobs.write_text(job_csv(tmp_path).read_text().replace("A100", EVIL))
    outputs += [cli("simulate", "--jobs", jobs, "--nodes", node_file)]
    outputs += [cli("trace", "check", "--jobs", jobs, "--nodes", node_file)]
    outputs += [cli("trace", "check", "--jobs", jobs, "--nodes", tmp_path / EVIL)]
    for result in outputs:
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert not set("\x1b\x9b\u202e") & set(result.output)
        assert "red" in result.output or result is outputs[2]


@pytest.mark.parametrize("where", ["job_name", "node"])
def test_nul_in_a_name_is_refused(tmp_path: Path, node_file: Path, where: str) -> None:
    jobs = job_csv(tmp_path, job_name="a\0b" if where == "job_name" else "a")
    if where == "node":
        node_file.write_text(NODES.replace("n0", "n\x000"))
    with pytest.raises(BadRows, match="holds a NUL character"):
        read_trace(jobs, node_file)


FORMULAS = ["=1+1", "@cmd", "+cmd", "-cmd|' /C calc'!A0", "-1+1", "\tx", "\rx", "'=1", "''=1", "-", "+"]
PLAIN = ["-5", "+5.5", "-1e-3", "'quoted'", "a=b", "x-y", "'", ""]


def test_no_cell_is_run_by_a_spreadsheet_and_all_come_back() -> None:
    cells = pa.array([*FORMULAS, *PLAIN, None], pa.string())
    written = escaped_cells(cells)
    assert written.to_pylist() == [*(f"'{cell}" for cell in FORMULAS), *PLAIN, None]
    assert unescaped_cells(written).equals(cells)


def test_a_few_rows_are_written_as_a_table_of_them(tmp_path: Path) -> None:
    texts = [*FORMULAS, *PLAIN, 'a "word", and more', "two\nlines", None]
    numbers = [1 / 3, 5.0, None, 2.0**60, -0.5, *range(len(texts) - 5)]
    write_table(pa.table({"text": texts, "number": pa.array(numbers, pa.float64())}), tmp_path / "table.csv")
    lines = csv_lines(zip(texts, numbers, strict=True))
    (tmp_path / "rows.csv").write_text(f"text,number\n{lines}", encoding="utf-8", newline="")
    whole = pacsv.ParseOptions(newlines_in_values=True)
    table, rows = (pacsv.read_csv(tmp_path / name, parse_options=whole) for name in ("table.csv", "rows.csv"))
    assert rows.equals(table)


def test_a_trace_with_names_like_formulas_reads_back_equal(tmp_path: Path) -> None:
    names = [name for name in FORMULAS if name != "''=1"] + ["''=1"]
    made = workload(nodes(8), [hp(name, org="=SUM(A1)", at=i) for i, name in enumerate(names)])
    jobs, node_file = write_trace(made, tmp_path)
    assert ",'=SUM(A1)," in jobs.read_text() or '"\'=SUM(A1)"' in jobs.read_text()
    read = read_trace(jobs, node_file).workload
    assert [(task.name, task.organization) for task in read.tasks] == [(name, "=SUM(A1)") for name in names]
    events = tmp_path / "events.csv"
    write_table(gfs.simulate(made).events, events)
    told = read_events(events, ("time", "event", "task", "run", "node", "gpus", "reason"))
    assert set(told["task"].to_pylist()) == set(names)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("event", "explode", "must be submit,"),
        ("kind", "VIP", "must be HP or Spot"),
        ("run", "0.5", "must be a whole number"),
        ("time", "1e300", "too large: the most is 100,000,000,000"),
    ],
)
def test_an_event_log_with_an_unknown_word_is_refused(tmp_path: Path, column: str, value: str, said: str) -> None:
    cells = {"time": "0", "event": "submit", "task": "a", "kind": "HP", "run": "0", "node": "", "gpus": "1"}
    cells |= {"reason": "", column: value}
    path = tmp_path / "events.csv"
    path.write_text(",".join(cells) + "\n" + ",".join(cells.values()) + "\n")
    result = cli("explain", "--events", path, "a")
    assert result.exit_code == 2
    assert f"events.csv: row 2, {column} = '{value}': {said}" in result.output


# -- folders of results -------------------------------------------------------------------------------------

GENERATE = ("trace", "generate", "--preset", "demo", "--nodes", "2", "--days", "1", "--out")


def test_files_that_gfs_did_not_write_stay(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("mine")
    refused = cli(*GENERATE, tmp_path)
    assert refused.exit_code == 2
    assert "nodes.csv: is there already and was not written by gfs" in refused.output
    assert (tmp_path / "nodes.csv").read_text() == "mine"
    assert not (tmp_path / "jobs.csv").exists()
    assert cli(*GENERATE, tmp_path, "--force").exit_code == 0
    assert (tmp_path / "nodes.csv").read_text() != "mine"


def test_its_own_files_are_overwritten_until_somebody_changes_them(tmp_path: Path) -> None:
    for _ in range(2):
        assert cli(*GENERATE, tmp_path).exit_code == 0
    (tmp_path / "jobs.csv").write_text("mine now")
    assert cli(*GENERATE, tmp_path).exit_code == 2
    assert (tmp_path / "jobs.csv").read_text() == "mine now"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("demo", "--out"), "report.html"),
        (("plan", "--quick", "--out"), "plan.html"),
        (("reproduce", "--quick", "--out"), "results.md"),
        (("trace", "convert", "--msr", "msr.csv", "--out"), "jobs.csv"),
        (("sweep", "sweep.toml", "--out"), "results.parquet"),
    ],
)
def test_every_command_that_fills_a_folder_asks_first(
    words: tuple[str, ...], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("msr.csv").write_text("job_id,submission_time,duration,num_gpu\na,0,60,1\n")
    Path("sweep.toml").write_text('[trace]\npreset = "demo"\n[vary]\nseed = [0]\n')
    Path(name).write_text("mine")
    result = cli(*words, tmp_path)
    assert result.exit_code == 2, result.output
    assert f"{name}: is there already" in result.output
    assert Path(name).read_text() == "mine"


# -- Microsoft's trace as it is published --------------------------------------------------------------------

MSR = b"job_id,submission_time,duration,num_gpu\n%s,0,600,1\n%s,3600,600,8\n"


def test_the_microsoft_repository_is_read_as_it_is_published(tmp_path: Path) -> None:
    data = tmp_path / "elasticflow-traces" / "data"
    data.mkdir(parents=True)
    archive = data / "raw-traces.tar.gz"
    archive.write_bytes(tarred(cluster02=MSR % (b"x", b"y"), cluster01=MSR % (b"x", b"y"), notes=b"?"))
    (data / "elasticflow-traces.tar.gz").write_bytes(tarred(other=b"?"))
    for path in (data.parent, data, archive):
        read = read_msr(path)
        assert [t.name for t in read.tasks] == ["cluster01/x", "cluster02/x", "cluster01/y", "cluster02/y"]
    assert read.tasks[0].organization == "cluster01"


def test_what_is_wrong_with_an_archive_is_said(tmp_path: Path) -> None:
    archive = tmp_path / "raw-traces.tar.gz"
    whole = tarred(cluster01=MSR % (b"x", b"y") * 500)
    for data, said in (
        (whole[:60], "cannot be read as a tar archive"),
        (tarred(other=b"?"), "there is no file cluster"),
        (tarred(cluster01=b"a,b\n1,2\n"), "raw-traces/cluster01.csv: column submission_time"),
    ):
        archive.write_bytes(data)
        with pytest.raises(InputError, match=said):
            read_msr(archive)


def test_a_load_that_asks_for_millions_of_nodes_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "cluster01.csv"
    table.write_bytes(MSR % (b"x", b"y"))
    with pytest.raises(InputError, match=r"the most is 1,000,000"):
        read_msr(table, load=1e-9)


# -- reprs --------------------------------------------------------------------------------------------------


def test_reprs_are_short_whatever_they_hold() -> None:
    made = gfs.generate("demo", nodes=6, days=2)
    compared = gfs.compare(made, schedulers="static", quota="none")
    history = history_of_workload(made)
    forecast = NormalForecast(history.keys, history.gpus, history.gpus)
    for thing in (made, compared, compared[0], compared[0].metrics, history, forecast):
        assert len(repr(thing)) < 400, repr(thing)
    assert repr(made).startswith("<Workload 'demo': ")


def test_compare_takes_one_scheduler_by_name() -> None:
    made = workload(nodes(8), [hp("a")])
    assert [result.scheduler for result in gfs.compare(made, schedulers="gfs")] == ["gfs"]
    assert [result.scheduler for result in gfs.compare(made, schedulers="gfs, static")] == ["gfs", "static"]


def test_the_table_of_a_notebook_escapes_the_name_of_the_scheduler() -> None:
    result = replace(gfs.simulate(workload(nodes(8), [hp("a")])), scheduler="<script>")
    assert "<script>" not in result._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_bytes, "MOST_UNPACKED", 2**20)
    (tmp_path / "nodes.csv").write_text(NODES, encoding="utf-8")
    jobs = tmp_path / "jobs.csv.gz"
    jobs.write_bytes(gzip.compress(b"0" * 2**21))
    with pytest.raises(InputError, match=r"jobs\.csv\.gz: unpacks to more than 0\.000977 GiB\. Split it"):
        read_trace(jobs, tmp_path / "nodes.csv")
