"""Progress on standard error, nothing or plain lines where nobody watches; the folder for results of many jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfs.cli.console import note
from gfs.domain.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from gfs.batch.job import Job


REFRESHES = 5
"""Redraws per second: drawing takes CPU time from the simulation."""


@contextmanager
def bars(
    names: Sequence[str], total: int, *, in_turn: bool = True, unit: str = "tasks"
) -> Iterator[Callable[[str, int], None]]:
    """A bar per run on standard error, gone when all is done; `in_turn`: one run after the other.

    Yields what to tell how far a run has come.
    """
    if not sys.stderr.isatty():
        yield lambda name, finished: None
        return
    from rich.progress import MofNCompleteColumn, TextColumn

    with _progress(MofNCompleteColumn(), TextColumn(unit), refresh_per_second=REFRESHES) as progress:
        shown = {name: progress.add_task(printable(name), total=total) for name in names}

        def update(name: str, finished: int) -> None:
            before = list(shown)[: list(shown).index(name)] if in_turn else []  # they are over
            for other in before:
                progress.update(shown[other], completed=total)
            progress.update(shown[name], completed=finished)

        yield update


def _progress(*columns: ProgressColumn, **options: Any) -> Progress:
    """Bars on standard error, gone when all is done; `columns` stand between the bar and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    before, after = (TextColumn("{task.description}", markup=False), BarColumn()), TimeRemainingColumn(compact=True)
    return Progress(*before, *columns, after, console=Console(stderr=True), transient=True, **options)


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Say that something is under way that cannot tell how far it is; nothing where nobody watches."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(printable(text)):
        yield


@contextmanager
def result_folder(folder: Path, files: Sequence[str], force: bool) -> Iterator[None]:
    """Make the folder for results, in which these files will be written; one made in vain goes again."""
    from gfs.cli.outputs import check_folder, make_folder
    from gfs.files import unlist_ours

    check_folder(folder, files, force)
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        make_folder(folder, files, force)
        yield
    except BaseException:
        unlist_ours(folder)
        for place in made:
            with suppress(OSError):  # not empty: something was computed
                place.rmdir()
        raise


@contextmanager
def job_progress() -> Iterator[Callable[[list[Job]], Callable[[Job], None]]]:
    """A bar over all that has to be computed, with the time left; lines where nobody watches."""
    if not sys.stderr.isatty():
        yield _lines
        return
    from rich.progress import TaskProgressColumn

    with _progress(TaskProgressColumn(), speed_estimate_period=1e9) as progress:

        def started(missing: list[Job]) -> Callable[[Job], None]:
            if not missing:
                return lambda job: None
            bar = progress.add_task(f"0 of {len(missing)} runs", total=sum(job.weight for job in missing))
            count = 0

            def done(job: Job) -> None:
                nonlocal count
                count += 1
                progress.update(
                    bar, advance=job.weight, description=printable(f"{count} of {len(missing)}: {job.label}")
                )

            return done

        yield started


def _lines(missing: list[Job]) -> Callable[[Job], None]:
    count = 0

    def done(job: Job) -> None:
        nonlocal count
        count += 1
        note(f"{count} of {len(missing)}: {job.label}")

    return done
