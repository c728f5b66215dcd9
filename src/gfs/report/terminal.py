"""Tables on a terminal: never wider than it is, and no figure is cut.

What does not fit beside each other is printed in parts, one below the other; each begins with the names of the rows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from gfs.domain.text import printable
from gfs.report.table import Column, DataTable

STAR: Final = "*"
SIGNS: Final = {"recommended": STAR, "missed": "!"}
STYLES: Final = {"recommended": "bold green", "missed": "dim"}
WIDEST_NAME: Final = 30
"""Longer names are broken over lines."""
LEAST_WRAPPED: Final = 18
"""Columns that long text needs at least."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A column ready to be printed."""

    column: Column
    header: list[str]
    cells: list[Text]
    width: int
    name: bool


@dataclass(frozen=True, slots=True)
class TerminalTable:
    """A table that Rich can print."""

    table: DataTable
    explained: set[str] = field(default_factory=set)
    """What was explained already, below tables before it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width
        names, columns = self._parts(short=False)
        if _width([*names, *columns]) > room:
            names, columns = self._parts(short=True)
        split = self.table.split - len(names)
        if len(names) > 1 and _width(names) > 0.6 * room:  # then the names are shown once, beside numbers
            columns = [*names, *columns]
            names = [self._numbers()]
        for number, part in enumerate(_fitting(names, columns, room, split)):
            if number:
                yield Text("")
            yield self._rich([*names, *part], self.table.title if not number else "", room)
        yield from self._below()

    def _numbers(self) -> _Part:
        marks = [self.table.marks.get(i) for i in range(len(self.table.rows))]
        cells = [
            Text(f"{i}{SIGNS[m] if m else ' ' * any(marks)}", STYLES[m] if m else "") for i, m in enumerate(marks, 1)
        ]
        return _part(Column("no."), cells, name=True)

    def _parts(self, *, short: bool) -> tuple[list[_Part], list[_Part]]:
        """The columns that name a row, and the others."""
        table = self.table
        texts, best, columns = table.texts(), table.marked(), table.every_column
        parts = []
        for j, column in enumerate(columns):
            starred = any(place == j for _, place in best)
            signed = j == table.names - 1 and bool(table.marks)
            cells = []
            for i, row in enumerate(texts):
                mark = table.marks.get(i)
                sign = SIGNS[mark] if signed and mark else STAR if (i, j) in best else " " if starred else ""
                style = "bold green" if (i, j) in best else STYLES[mark] if mark else ""
                cells.append(Text(f"{row[j] if j < len(row) else ''}{sign}", style=style))
            parts.append(_part(column, cells, name=j < table.names, pad=" " * starred, short=short))
        return parts[: table.names], parts[table.names :]

    def _rich(self, parts: Sequence[_Part], title: str, room: int) -> Table:
        """No frame and narrow gaps: fits 80 columns and can be pasted anywhere."""
        spare = (room - _width(parts)) // max(len(parts) - 1, 1)  # more air where there is room for it
        drawn = Table(
            title=Text(printable(title, keep=""), style="bold") if title else None,
            box=box.SIMPLE_HEAD,
            show_edge=False,
            padding=(0, min(spare, 2), 0, 0),  # the box has a gap of 1
            pad_edge=False,
            title_justify="left",
        )
        lines = max(len(part.header) for part in parts)
        for part in parts:
            column = part.column
            drawn.add_column(
                Text("\n".join([*[""] * (lines - len(part.header)), *part.header])),
                style="bold" if part.name else "",
                justify="left" if column.left or column.wrap else "right",
                no_wrap=not (column.wrap or part.name),
                overflow="fold",
                min_width=None if column.wrap else part.width,
                max_width=WIDEST_NAME if part.name else None,
                ratio=1 if column.wrap else None,
            )
        for i in range(len(self.table.rows)):
            if i and i in self.table.breaks:
                drawn.add_section()
            drawn.add_row(*(part.cells[i] for part in parts))
        return drawn

    def _below(self) -> Iterator[Text]:
        lines = [f"{STAR} best of its {self.table.best_of}"] if self.table.marked() else []
        lines += [line for line in self.table.note.split("\n") if line]
        for line in [*lines, *(line for line in self.table.legend() if line not in self.explained)]:
            yield Text(printable(line))
        self.explained.update(self.table.legend())


def _part(column: Column, cells: list[Text], *, name: bool, pad: str = "", short: bool = True) -> _Part:
    """With a short header: broken at its spaces, so that it is no wider than what is below or its longest word."""
    widest = max((cell_len(line) for cell in cells for line in cell.plain.split("\n")), default=0)
    if name:
        widest = min(widest, WIDEST_NAME)
    if column.wrap:
        widest = min(widest, LEAST_WRAPPED)
    lines = printable(column.header).split("\n")
    if short:
        longest = max((len(word) for line in lines for word in line.split()), default=0)
        room = max(widest - len(pad), longest, 1)
        lines = [part for line in lines for part in textwrap.wrap(line, room, break_long_words=False)]
    header = [f"{line}{pad}" for line in [*lines, *([f"[{column.unit.label}]"] if column.unit.label else [])]]
    return _Part(column, header, cells, max([widest, *map(cell_len, header)]), name)


def _width(parts: Sequence[_Part]) -> int:
    """With a gap between them."""
    return sum(part.width + 1 for part in parts) - bool(parts)


def _fitting(names: Sequence[_Part], columns: Sequence[_Part], room: int, split: int) -> list[list[_Part]]:
    """The columns in as few parts as fit beside the names."""
    left = room - _width(names) - bool(names)
    fewest = _filled(columns, left)
    if len(fewest) < 2:
        return fewest
    if split > 0:
        return [part for half in (columns[:split], columns[split:]) for part in _fitting(names, half, room, 0)]
    widths = range(_width(columns) // len(fewest), left)
    return next((found for width in widths if len(found := _filled(columns, width)) == len(fewest)), fewest)


def _filled(columns: Sequence[_Part], room: int) -> list[list[_Part]]:
    parts: list[list[_Part]] = [[]]
    for column in columns:
        if parts[-1] and _width([*parts[-1], column]) > room:
            parts.append([])
        parts[-1].append(column)
    return parts
