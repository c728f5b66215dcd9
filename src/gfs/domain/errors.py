"""Everything GFS raises on purpose.

GfsError                  anything below; the command line prints it and exits with code 2
├── InputError            a file, row, option or parameter the user can correct
│   └── BadRows           a trace with rows that cannot be used, listed one by one
├── StuckError            a simulation that can never finish: some task can never start
├── StalePolicyError      a policy that was built before its pool's nodes changed: a bug of whoever kept it
└── InvariantError        a broken promise of the scheduler found by `--check`: a bug in GFS
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gfs.domain.text import printable


class GfsError(Exception):
    """Root of all errors of GFS. The message says what is wrong and what to do next; it is safe to print."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class InputError(GfsError):
    """Something the user gave cannot be used."""


class BadRow(NamedTuple):
    """One value of a table that cannot be used."""

    file: str
    row: int
    """Line of the file as an editor counts it: the header is 1, the first record 2."""
    column: str
    value: str
    reason: str


class BadRows(InputError):  # noqa: N818 (it is what it is called)
    """A trace holds rows that cannot be used."""

    def __init__(self, rows: Sequence[BadRow], shown: int = 20) -> None:
        self.rows = tuple(rows)
        lines = [f"{r.file}: row {r.row}, {r.column} = {r.value!r}: {r.reason}" for r in self.rows[:shown]]
        if len(self.rows) > shown:
            lines.append(f"... and {len(self.rows) - shown} more")
        lines.append("Nothing was run. Correct these rows, or leave them out with --skip-bad-rows.")
        super().__init__("\n".join(lines))


class StuckError(GfsError):
    """Nothing runs or arrives any more and time alone does not help, yet tasks still wait."""


class StalePolicyError(GfsError):
    """A policy was asked to decide after its pool's nodes had changed: build it again from the state."""


class InvariantError(GfsError):
    """The scheduler broke one of its promises. This is a bug in GFS: please report it."""
