"""The groups of a sweep as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from gfs.cli.tables import bare_table
from gfs.report.columns import NOTHING
from gfs.report.sweep_columns import COLUMNS, Group


def sweep_table(varied: Sequence[str], groups: Sequence[Group]) -> Table:
    """A row a group, the shortest spot wait first."""
    table = bare_table(caption="* no other is better in evictions, spot wait and cards in use")
    for name in varied:
        table.add_column(name, style="bold")
    table.add_column("runs", justify="right")
    for title, _, _ in COLUMNS:
        table.add_column(title, justify="right")
    for group in sorted(groups, key=lambda g: g.means.get("spot_jqt_mean", 0.0)):
        cells = [Text(str(group.settings[name])) for name in varied]
        figures = [Text(text(group.means[key]) if key in group.means else NOTHING) for _, key, text in COLUMNS]
        table.add_row(*cells, Text(f"{group.seeds}{'*' if group.best else ' '}"), *figures)
    return table
