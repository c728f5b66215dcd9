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

    parts: list[Any] = [group_table(results, kind) for kind in kinds]
    if "organization" in kinds:
        pairs = [(result.breakdown(), result.scheduler) for result in results]
        parts += [evictions_table(part, name) for part, name in pairs if part.evictions]
        parts.append(fairness_table(results))
        parts += [text for result in results if (text := worst_treated_text(result))]
    say()
    show(*parts)
