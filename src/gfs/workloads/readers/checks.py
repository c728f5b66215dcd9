"""Collect what is wrong with the rows of a table, a whole column at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gfs.domain.errors import BadRow, InputError
from gfs.domain.limits import MOST_SECONDS
from gfs.domain.units import DAY
from gfs.workloads.readers.tables import Table

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
T = TypeVar("T")

TIME_KINDS = ("duration", "timestamp")
"""What Arrow may store a point in time as, besides plain seconds."""


class Checks:
    """The bad values of one table. Of several faults of one value the first is kept."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._bad: dict[str, Bools] = {}
        self._found: list[tuple[int, int, BadRow]] = []
        self.good: Bools = np.ones(len(table), dtype=bool)
        """Rows without a bad value."""

    def fine(self, column: str) -> Bools:
        """Rows whose value in this column has no fault so far."""
        return ~self._bad.setdefault(column, np.zeros(len(self._table), dtype=bool))

    def text(self, column: str) -> list[str]:
        """A text column; missing values are rejected."""
        values = self._table.text(column)
        different = set(values)
        if "" in different:
            self.reject(column, np.fromiter((not v for v in values), bool, len(values)), "missing")
        if any("\0" in value for value in different):
            self.reject(column, np.fromiter(("\0" in v for v in values), bool, len(values)), "holds a NUL character")
        return values

    def parsed(self, column: str, parse: Callable[[str], T], blank: T) -> list[T]:
        """A text column as `parse` reads it, which rejects a value by ValueError; `blank` where there is none."""
        if column not in self._table.columns:
            return [blank] * len(self._table)
        values = self._table.text(column)
        read, wrong = {"": blank}, dict[str, str]()
        for value in dict.fromkeys(values):
            try:
                read[value] = parse(value) if value else blank
            except ValueError as error:
                read[value], wrong[value] = blank, str(error)
        if wrong:
            which = np.fromiter((value in wrong for value in values), bool, len(values))
            self.reject(column, which, lambda row: wrong[values[row]])
        return [read[value] for value in values]

    def number(
        self, column: str, *, missing: float | Floats | None = None, most: float, kinds: Sequence[str] = ()
    ) -> Floats:
        """A number column; what is no finite number up to `most` is rejected.

        `missing` stands for blanks, which are rejected without it, or where an array of it is NaN.
        `kinds` says whether Arrow durations (as seconds) and timestamps (as seconds since 1970) will do as well.
        Rejected values are 1 in the result, which passes every later check.
        """
        if column not in self._table.columns:
            assert missing is not None
            return np.full(len(self._table), missing)
        kind = self._table.kind(column)
        if kind and kind not in kinds:
            raise InputError(
                f"{self._table.file}: column {column} holds values of type {self._table.columns[column].type}."
                " Write plain numbers into it."
            )
        values, present = self._table.numbers(column)
        values = values.copy()
        blank: Bools = np.zeros(len(values), dtype=bool)
        instead: Floats = np.broadcast_to(math.nan if missing is None else missing, values.shape)
        needed: Bools = np.isnan(instead) & (missing is None or isinstance(missing, np.ndarray))
        if not present.all():
            texts = self._table.text(column)
            blank = ~present & np.fromiter((not text for text in texts), bool, len(texts))
            self.reject(column, blank & needed, "missing")
            self.reject(column, ~present & ~blank, "not a number")
            values[~present] = 1.0
        infinite = ~np.isfinite(values)
        if infinite.any():
            self.reject(column, infinite, "not a finite number")
            values[infinite] = 1.0
        large = values > most
        if large.any():
            hint = " seconds; is it in milliseconds?" if most == MOST_SECONDS else ""
            self.reject(column, large, f"too large: the most is {most:,.0f}{hint}")
            values[large] = 1.0
        blank &= ~needed
        values[blank] = instead[blank]
        return values

    def reject(self, column: str, which: Bools, reason: str | Callable[[int], str]) -> None:
        """Note the rows where `which` holds and nothing was wrong with the value before."""
        if not which.any():
            return
        fresh = which & self.fine(column)
        rank = list(self._table.columns).index(column)
        for row in np.flatnonzero(fresh).tolist():
            why = reason if isinstance(reason, str) else reason(row)
            line = int(self._table.lines[row])
            shown = self._table.shown(column, row)
            self._found.append((line, rank, BadRow(self._table.file, line, column, shown, why)))
        self._bad[column] |= fresh
        self.good &= ~fresh

    def reject_duplicates(self, column: str, values: list[str]) -> None:
        """Reject values that an earlier row has already."""
        if len(set(values)) == len(values):
            return
        first: dict[str, int] = {}
        again = np.fromiter((first.setdefault(v, i) != i for i, v in enumerate(values)), bool, len(values))
        lines = self._table.lines
        self.reject(column, again, lambda row: f"already used in row {lines[first[values[row]]]}")

    def bad_rows(self) -> tuple[BadRow, ...]:
        """All faults, in the order of the file."""
        shape = [(bad.row, -1, bad) for bad in self._table.bad]
        return tuple(bad for _, _, bad in sorted(shape + self._found, key=lambda entry: entry[:2]))


def since_day(checks: Checks, table: Table, column: str, values: Floats, day: int | None) -> Floats:
    """Times beside submissions: if those were timestamps, so are these, and they count from the same midnight.

    `day`: days from 1970 to second 0; None where submissions are seconds.
    """
    dated = table.kind(column) == "timestamp"
    if dated != (day is not None):
        mine, theirs = ("timestamps", "seconds") if dated else ("seconds", "timestamps")
        raise InputError(
            f"{table.file}: column {column} holds {mine}, but submit_time of the jobs holds {theirs}."
            " Write both in the same way."
        )
    return values if day is None else np.where(checks.fine(column), values - day * DAY, values)
