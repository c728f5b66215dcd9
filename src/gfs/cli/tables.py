"""Tables of the terminal that only the command line has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from gfs.domain.errors import BadRow
from gfs.report.columns import NOTHING, amount, percent, short_seconds

if TYPE_CHECKING:
    from gfs.assembly.result import ForecastFigures, KeptFigures, RunResult
    from gfs.core.ports import SolverFigures
    from gfs.telemetry.metrics import ClassMetrics

MOST_BAD_ROWS = 50
LONGEST_VALUE = 24


def bare_table(title: str | Text | None = None, caption: str | None = None) -> Table:
    """No frame, titles to the left: fits 80 columns and can be pasted anywhere."""
    return Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 2, 0, 0),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
    )


def result_table(result: RunResult) -> Table:
    """One run: both classes side by side."""
    metrics = result.metrics
    hp, spot = metrics.hp, metrics.spot
    table = bare_table(Text(f"{result.scheduler} on {result.workload.name}"))
    table.add_column("", style="bold", no_wrap=True)
    table.add_column("HP", justify="right", no_wrap=True)
    table.add_column("spot", justify="right", no_wrap=True)

    def times(label: str, name: str) -> None:
        table.add_row(label, *(_time(of_class, name) for of_class in (hp, spot)))

    table.add_row("tasks counted", amount(hp.tasks), amount(spot.tasks))
    times("wait, mean", "jqt_mean")
    times("wait, median", "jqt_p50")
    times("wait, p99", "jqt_p99")
    times("submission to finish, mean", "jct_mean")
    times("submission to finish, p99", "jct_p99")
    table.add_row("slowdown, mean", *(f"{c.slowdown_mean:.2f}" if c.tasks else NOTHING for c in (hp, spot)))
    if spot.runs:
        table.add_section()
        table.add_row("runs", NOTHING, amount(spot.runs))
        if metrics.leases:
            table.add_row("suspended at lease ends", amount(hp.suspensions), amount(spot.suspensions))
        else:
            table.add_row("evicted, of runs", "never", f"{amount(spot.evictions)} = {percent(spot.eviction_rate)}")
            table.add_row("kept their guaranteed hours", NOTHING, percent(spot.guarantee_hit_rate))
        table.add_row("GPU-hours wasted, HP and spot", NOTHING, amount(spot.wasted_gpu_hours))
        if metrics.quota_use is not None:
            table.add_row("quota in use", NOTHING, percent(metrics.quota_use))
    if hp.lost or spot.lost or hp.cancelled or spot.cancelled:
        table.add_section()
    if hp.lost or spot.lost:
        table.add_row("runs lost to failures", amount(hp.lost), amount(spot.lost))
        table.add_row("GPU-hours lost with them", amount(hp.lost_gpu_hours), amount(spot.lost_gpu_hours))
    if hp.cancelled or spot.cancelled:
        table.add_row("tasks cancelled", amount(hp.cancelled), amount(spot.cancelled))
    return table


def forecasting_text(figures: ForecastFigures) -> str:
    """What the forecasts of a run took, in a line."""
    training = f"trained {figures.fits:,} times in {figures.training_seconds:.2f} s"
    failed = f", failed {figures.failures:,} times" if figures.failures else ""
    asked = f"asked {figures.forecasts:,} times in {figures.forecast_seconds:.2f} s"
    return f"of these, forecasts: {training}, {asked}{failed}"


def kept_text(figures: KeptFigures) -> str:
    """What it took that no spot task starves, in a line."""
    tasks = f"{figures.tasks:,} spot task{'s' * (figures.tasks > 1)} that had waited too long"
    return f"cards were kept for {tasks}: {amount(figures.gpu_hours)} GPU-hours idle"


def solver_text(figures: SolverFigures) -> str:
    """How the programs of a run went, in a line."""
    if not figures.solves:
        return "leases: no program had to be solved"
    text = f"leases: {figures.solves:,} programs solved"
    if not figures.out_of_time:
        return f"{text}, all to the optimum"
    late = f"{figures.out_of_time:,} of them ran out of time"
    return f"{text}, {late}; the worst answer may be {figures.worst_gap:.2%} below the best"


def pools_table(result: RunResult) -> Table:
    """How well each pool was used."""
    table = bare_table("Cards in use")
    table.add_column("GPU model", style="bold")
    table.add_column("cards", justify="right")
    table.add_column("in use", justify="right")
    for model, cards in result.workload.capacity().items():
        table.add_row(Text(model), amount(cards), percent(result.metrics.allocation_rate[model]))
    return table


def bad_rows_table(rows: Sequence[BadRow]) -> Table:
    """The values of a trace that cannot be used: where, what and why."""
    files = {row.file for row in rows}
    names = {file: Path(file).name for file in files}
    if len(set(names.values())) < len(files):
        names = {file: file for file in files}
    more = len(rows) - MOST_BAD_ROWS
    table = bare_table(caption=f"... and {more:,} more values; --json FILE lists them all" if more > 0 else None)
    table.add_column("file", overflow="fold")
    table.add_column("row", justify="right", no_wrap=True)
    table.add_column("column", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("reason", overflow="fold", ratio=1)
    for row in rows[:MOST_BAD_ROWS]:
        value = row.value if len(row.value) <= LONGEST_VALUE else f"{row.value[: LONGEST_VALUE - 3]}..."
        table.add_row(Text(names[row.file]), str(row.row), Text(row.column), Text(repr(value)), Text(row.reason))
    return table


def _time(of_class: ClassMetrics, name: str) -> str:
    return short_seconds(getattr(of_class, name)) if of_class.tasks else NOTHING
