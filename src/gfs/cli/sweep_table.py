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
    rows = []
    for group in sorted(groups, key=lambda g: g.means.get("spot_jqt_mean", 0.0)):
        settings = [str(group.settings[name]) for name in varied]
        figures = [text(group.means[key]) if key in group.means else NOTHING for _, key, text in COLUMNS]
        rows.append([*settings, f"{group.seeds}{'*' if group.best else ' '}", *figures])
    table = bare_table(caption="* no other is better in evictions, spot wait and goodput, in the same scenario")
    table.padding = (0, 1, 0, 0)
    titles = [*varied, "runs", *(title for title, _, _ in COLUMNS)]
    for i, title in enumerate(titles):
        widest = max((len(row[i]) for row in rows), default=0)  # titles break over lines, what is below does not
        setting = i < len(varied)
        table.add_column(
            title,
            style="bold" if setting else "",
            justify="left" if setting else "right",
            min_width=widest,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table
