"""Progress bars, one a run; nothing at all where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gfs.domain.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

REFRESHES = 5
"""Redraws per second: drawing takes CPU time from the simulation."""


class Bars:
    """Told how far each run has come."""

    def __init__(self, names: Sequence[str], total: int, progress: Progress | None, in_turn: bool) -> None:
        self._total = total
        self._progress = progress
        self._in_turn = in_turn
        self._ids: dict[str, TaskID] = {}
        if progress is not None:
            self._ids = {name: progress.add_task(printable(name), total=total) for name in names}

    def update(self, name: str, finished: int) -> None:
        """A run has come this far."""
        if self._progress is None:
            return
        if self._in_turn:  # then all runs before this one are over
            for other, bar in self._ids.items():
                if other == name:
                    break
                self._progress.update(bar, completed=self._total)
        self._progress.update(self._ids[name], completed=finished)


@contextmanager
def bars(names: Sequence[str], total: int, *, in_turn: bool = True, unit: str = "tasks") -> Iterator[Bars]:
    """A bar a run on standard error, gone when all is done; `in_turn`: one run after the other."""
    if not sys.stderr.isatty():
        yield Bars(names, total, None, in_turn)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=REFRESHES) as progress:
        yield Bars(names, total, progress, in_turn)


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Say that something is under way that cannot tell how far it is; nothing where nobody watches."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(printable(text)):
        yield
