"""Losses and cancellations on the screen and on the page: shown where there are some, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from builders import hp, nodes, spot, workload
from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult
from gfs.report.columns import COMPARED, columns_for, comparison_table, result_table
from gfs.report.comparison import comparison_page
from gfs.report.table import DataTable
from gfs.report.terminal import TerminalTable
from gfs.telemetry.metrics import Metrics, compute_metrics
from logs import Row, log

WORK = workload(nodes(8), [hp("h", gpus=4, lasting=5000), spot("s", lasting=100), spot("t", at=10)])
CALM: list[Row] = [
    (0.0, "submit", "h", 0, "", ""),
    (0.0, "start", "h", 1, "n0", "0+1+2+3"),
    (0.0, "submit", "s", 0, "", ""),
    (0.0, "start", "s", 1, "n0", "4"),
    (10.0, "submit", "t", 0, "", ""),
    (10.0, "start", "t", 1, "n0", "5"),
    (100.0, "finish", "s", 1, "n0", "4"),
    (110.0, "finish", "t", 1, "n0", "5"),
    (5000.0, "finish", "h", 1, "n0", "0+1+2+3"),
]
LOST: list[Row] = [  # h is lost after an hour and a quarter, s is cancelled
    *CALM[:6],
    (50.0, "cancel", "s", 1, "n0", "4"),
    CALM[7],
    (4500.0, "lost", "h", 1, "n0", "0+1+2+3"),
    (4500.0, "start", "h", 2, "n0", "0+1+2+3"),
    (5940.0, "finish", "h", 2, "n0", "0+1+2+3"),
]


def metrics(rows: list[Row]) -> Metrics:
    return compute_metrics(log(rows, WORK), WORK)


def result(rows: list[Row], scheduler: str = "gfs") -> RunResult:
    return RunResult(
        scheduler=scheduler,
        metrics=metrics(rows),
        events=log(rows, WORK),
        quota=None,
        quota_in_force="none",
        parameters=Parameters(),
        window=(None, None),
        seed=0,
        seconds=0.0,
        workload=WORK,
    )


def printed(table: DataTable, width: int = 80) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(TerminalTable(table))
    return capture.get()


def test_columns_appear_with_what_they_show() -> None:
    calm, troubled = metrics(CALM).figures(), metrics(LOST).figures()
    assert columns_for([calm]) == COMPARED
    *usual, lost, cancelled = columns_for([calm, troubled])
    assert tuple(usual) == COMPARED
    assert [lost.value(figures) for figures in (calm, troubled)] == [0, 1]
    assert [cancelled.value(figures) for figures in (calm, troubled)] == [0, 1]
    # Who loses more is chance, and who cancels is the owner's affair: no star.
    assert lost.best_rows([0, 1]) == frozenset()


def test_the_comparison_in_the_terminal() -> None:
    calm = printed(comparison_table([("gfs", metrics(CALM)), ("static", metrics(CALM))]))
    troubled = comparison_table([("gfs", metrics(CALM)), ("static", metrics(LOST))])
    assert "lost" not in calm
    assert "cancelled" not in calm
    assert troubled.header[-2:] == ["lost runs", "cancelled tasks"]
    assert [row[-2:] for row in troubled.texts()] == [["0", "0"], ["1", "1"]]
    assert "…" not in printed(troubled)


def test_one_run_in_the_terminal() -> None:
    assert "lost runs" not in printed(result_table(result(CALM)))
    lines = [line.split() for line in printed(result_table(result(LOST))).splitlines()]
    assert ["lost", "runs", "1", "0"] in lines
    assert ["GPU-hours", "lost", "with", "them", "1", "0"] in lines  # 4 GPUs x 900 s
    assert ["cancelled", "tasks", "0", "1"] in lines


def test_one_run_in_a_notebook() -> None:
    calm, troubled = result(CALM)._repr_html_(), result(LOST)._repr_html_()
    assert "lost" not in calm
    assert "cancelled" not in calm
    assert "<td>lost runs</td><td>1</td><td>0</td>" in troubled
    assert "<td>cancelled tasks</td><td>0</td><td>1</td>" in troubled


@pytest.mark.parametrize("rows", [CALM, LOST], ids=["calm", "lost"])
def test_the_page(tmp_path: Path, rows: list[Row]) -> None:
    out = tmp_path / "page.html"
    comparison_page([result(CALM, "static"), result(rows)], WORK, out)
    page = out.read_text(encoding="utf-8")
    for words in ("lost runs", "cancelled tasks", "1 runs were lost to failures instead of 0"):
        assert (words in page) == (rows is LOST), words
    comparison_page([result(rows)], WORK, out)
    assert ("1 runs were lost to failures." in out.read_text(encoding="utf-8")) == (rows is LOST)
