"""What commands of many jobs share: their folder, how they end, and a bar with the time left."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gfs.cli.console import note
from gfs.domain.text import printable

if TYPE_CHECKING:
    from gfs.batch.job import Job


def end_with_workers() -> None:
    """A command that is told to end (SIGTERM, or SIGHUP when its terminal closes) takes its workers with it."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, lambda number, frame: sys.exit(128 + number))


@contextmanager
def result_folder(folder: Path, files: Sequence[str], force: bool) -> Iterator[None]:
    """Make the folder for results, in which these files will be written; one made in vain goes again."""
    from gfs.cli.outputs import make_folder

    made = [place for place in (folder, *folder.parents) if not place.exists()]
    make_folder(folder, files, force)
    try:
        yield
    except BaseException:
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
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=1e9) as progress:

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
