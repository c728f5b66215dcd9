"""What `--by` of `gfs simulate` and `gfs compare` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gfs.cli.console import say, show

if TYPE_CHECKING:
    from gfs.assembly.result import RunResult
    from gfs.telemetry.breakdown import Kind


def show_groups(results: Sequence[RunResult], kinds: Sequence[Kind]) -> None:
    """A table for each kind of group; with organizations also who evicts whom and who is treated worst."""
    if not kinds:
        return
    from gfs.report.breakdown import evictions_table, fairness_table, group_table, worst_treated_text

    runs = [(result.scheduler, result.breakdown()) for result in results]
    parts: list[Any] = [group_table(runs, kind) for kind in kinds]
    if "organization" in kinds:
        parts += [evictions_table(name, part) for name, part in runs if part.evictions]
        parts.append(fairness_table(runs))
        parts += [text for run in runs if (text := worst_treated_text(*run))]
    say()
    show(*parts)
