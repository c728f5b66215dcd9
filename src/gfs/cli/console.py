"""Where words go: results to standard output, remarks and errors to standard error."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from gfs.domain.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PLAIN = {"–": "-", "—": "-", "−": "-", "×": "x", "★": "*", "…": ".", "≥": ">", "≤": "<", "│": "|"}
PLAIN |= dict(zip("▁▂▃▄▅▆▇█▒░", "..::++##%-", strict=True))  # of small plots
"""What stands for a character that the terminal does not have; '?' for the rest."""

FAILED = 2
"""Exit code for everything the user can correct."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 + SIGINT."""


def out() -> Console:
    """Standard output, for tables; control characters in names are written out."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, *args: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    return SafeConsole(highlight=False)


def show(*things: RenderableType) -> None:
    """Print tables, an empty line between them."""
    console = out()
    for position, thing in enumerate(things):
        if position:
            console.print()
        console.print(thing)


def say(text: str = "") -> None:
    """Print a line of a result: never wrapped, so that paths and commands can be copied."""
    typer.echo(printable(text))


def note(text: str) -> None:
    """Remark on what happens, on standard error."""
    typer.echo(printable(text), err=True)


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave with exit code 2."""
    note(f"error: {message}")
    raise typer.Exit(FAILED)


def forgive_encodings() -> None:
    """Never fail over a character that the terminal cannot show."""
    codecs.register_error("gfs-plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="gfs-plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end
