"""The table that all commands and pages share: columns say what a figure is, renderers say how it looks.

A `Column` has a header, a unit, the rule by which a value is the best, and an explanation. A `DataTable` is columns and
rows of bare values. `terminal.py` prints it; `page.py` puts it on a page. So a figure reads the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gfs.domain.text import printable

NOTHING: Final = "–"
"""What stands where there is no value."""

Cell = str | float | None
"""A name, a figure, or nothing."""
Best = Literal["lowest", "highest"] | float | None
"""Which value of a column is marked: the lowest, the highest, the one nearest to a number, or none."""
Mark = Literal["recommended", "missed"]
"""What a whole row is marked as."""


@dataclass(frozen=True, slots=True)
class Unit:
    """How a figure is written. It is the same for every row, and stands in the header."""

    label: str = ""
    scale: float = 1.0
    """The figure is multiplied by it: 100 for shares in %."""
    digits: int | None = None
    """Digits after the point of small values; None: as many as make three that count."""

    def write(self, value: float) -> str:
        """The figure without its unit: '0.31', '6,494'."""
        scaled = self.scale * value
        size = abs(scaled)
        if self.digits is None:
            after = 0 if size >= 99.95 or size == 0 else 1 if size >= 9.995 else 2
        else:
            after = self.digits if size < 100 else max(self.digits - 1, 0) if size < 1000 else 0
        return f"{scaled:,.{after}f}"


TEXT: Final = Unit()
COUNT: Final = Unit(digits=0)
SECONDS: Final = Unit("s")
PERCENT: Final = Unit("%", 100)
GPUS: Final = Unit("GPUs")
GPU_HOURS: Final = Unit("GPU-h")
DOLLARS: Final = Unit("$", digits=0)
MILLISECONDS: Final = Unit("ms", digits=2)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    header: str
    key: str = ""
    """The name of the figure in a record: the key of a mapping or an attribute."""
    unit: Unit = TEXT
    best: Best = None
    help: str = ""
    """What the figure is, in a sentence without its full stop."""
    explain: bool = False
    """The header needs the explanation: it stands below the table, not only where one points at."""
    needs: str = ""
    """A key that must be there and above 0 for the figure to mean anything: 'spot_tasks'."""
    left: bool = False
    """Text to read, not figures to compare."""
    wrap: bool = False
    """Long text that may be broken over several lines."""

    @property
    def heading(self) -> str:
        """The header with its unit: 'spot wait mean [s]'."""
        return f"{self.header} [{self.unit.label}]" if self.unit.label else self.header

    def value(self, record: Any) -> Cell:
        """The figure of a record; None where it is not there or means nothing."""
        if self.needs and not _get(record, self.needs):
            return None
        found: Cell = _get(record, self.key)
        return found

    def text(self, value: Cell) -> str:
        """A value of this column as it is shown, without the unit."""
        if value is None:
            return NOTHING
        return printable(value, keep="") if isinstance(value, str) else self.unit.write(value)

    def best_rows(self, values: Sequence[Cell]) -> frozenset[int]:
        """The rows that read like the best one; none when all read the same."""
        numbers = {i: v for i, v in enumerate(values) if v is not None and not isinstance(v, str)}
        texts = {i: self.text(v) for i, v in numbers.items()}
        if self.best is None or len(set(texts.values())) < 2:
            return frozenset()
        best = min(numbers, key=lambda i: self.distance(numbers[i]))
        return frozenset(i for i, text in texts.items() if text == texts[best])

    def distance(self, value: float) -> float:
        """How far a value is from where it should be; lower is better."""
        if isinstance(self.best, str):
            return value if self.best == "lowest" else -value
        return abs(value - (self.best or 0.0))


def _get(record: Any, key: str) -> Any:
    return record.get(key) if isinstance(record, Mapping) else getattr(record, key)


@dataclass(frozen=True, slots=True)
class DataTable:
    """Columns and rows. A column that needs no explanation may be its header alone."""

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell]]
    best: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of cells to mark as best besides those that the columns' own rules find."""
    best_of: str = "column"
    """Among what a marked cell is the best: of its column, or of its group of rows."""
    note: str = ""
    title: str = ""
    names: int = 1
    """The first columns, which name the row."""
    marks: Mapping[int, Mark] = field(default_factory=dict)
    """Rows that are marked as a whole."""
    breaks: frozenset[int] = frozenset()
    """Rows with a rule above them."""
    split: int = 0
    """The column before which the table is broken in two where it is too wide; 0: in parts of about the same width."""

    @property
    def every_column(self) -> list[Column]:
        """The columns as such."""
        return [Column(c, left=i < self.names) if isinstance(c, str) else c for i, c in enumerate(self.columns)]

    @property
    def header(self) -> list[str]:
        """What stands above the columns."""
        return [column.heading for column in self.every_column]

    def texts(self) -> list[list[str]]:
        """The cells as they are shown."""
        columns = self.every_column
        return [[column.text(cell) for column, cell in zip(columns, row, strict=False)] for row in self.rows]

    def marked(self) -> frozenset[tuple[int, int]]:
        """(row, column) of all cells to mark as best."""
        found = set(self.best)
        for j, column in enumerate(self.every_column):
            found |= {(i, j) for i in column.best_rows([row[j] if j < len(row) else None for row in self.rows])}
        return frozenset(found)

    def legend(self) -> list[str]:
        """What the headers mean that do not say it themselves."""
        return [f"{column.header}: {column.help}" for column in self.every_column if column.explain]


def table_of(
    names: Sequence[Column | str],
    labels: Iterable[Sequence[Cell]],
    columns: Sequence[Column],
    records: Iterable[Any],
    **more: Any,
) -> DataTable:
    """A row for every record: its labels below `names`, then the figures that the columns read from it.

    `more` are further fields of the table: title, note, marks.
    """
    rows = [[*label, *(column.value(r) for column in columns)] for label, r in zip(labels, records, strict=True)]
    return DataTable([*names, *columns], rows, names=len(names), **more)
