"""Text on the terminal: results to standard output, remarks and errors to standard error."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer

from gfs.domain.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from gfs.report.table import DataTable

PLAIN = {"–": "-", "—": "-", "−": "-", "×": "x", "★": "*", "…": ".", "≥": ">", "≤": "<", "│": "|"}
PLAIN |= dict(zip("▁▂▃▄▅▆▇█▒░", "..::++##%-", strict=True))  # of small plots
"""Replacements for characters that the terminal's encoding lacks; '?' for the rest."""

FAILED = 2
"""Exit code for everything the user can correct."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 + SIGINT."""
STDERR = 2
"""The file descriptor of standard error."""


def out() -> Console:
    """Standard output, for tables; control characters in names are written out."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, *args: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    return SafeConsole(highlight=False)


def show(*things: RenderableType | DataTable) -> None:
    """Print tables and texts, an empty line between them."""
    from rich.text import Text

    from gfs.report.table import DataTable
    from gfs.report.terminal import TerminalTable

    console = out()
    explained: set[str] = set()
    for position, thing in enumerate(things):
        if position:
            console.print()
        if isinstance(thing, str):  # brackets in names are brackets, not styles of Rich
            thing = Text(thing)
        console.print(TerminalTable(thing, explained) if isinstance(thing, DataTable) else thing)


def say(text: str = "") -> None:
    """Print a line of a result: never wrapped, so that paths and commands can be copied."""
    typer.echo(printable(text))


def note(text: str) -> None:
    """Remark on what happens, on standard error."""
    typer.echo(printable(text), err=True)


def fail(message: str) -> NoReturn:
    """Print an error and leave with exit code 2."""
    note(f"error: {message}")
    raise typer.Exit(FAILED)


def prepare_streams() -> None:
    """Let printing never fail: neither over a character the terminal lacks nor because nobody reads any more."""
    codecs.register_error("gfs-plain", _replace_unprintable)
    sys.stdout, sys.stderr = _safe(sys.stdout), _safe(sys.stderr)


def _safe(stream: TextIO) -> TextIO:
    return _SafeStream(stream) if isinstance(stream, io.TextIOWrapper) else stream


class _SafeStream(io.TextIOWrapper):
    """A stream whose reader may leave early (`| head`, a closed terminal): the rest is dropped, the command goes on.

    Other errors (a full disk) are raised once. What cannot be written to standard error is dropped.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        raw = io.FileIO(stream.fileno(), "w", closefd=False)
        super().__init__(
            io.BufferedWriter(raw), encoding=stream.encoding, errors="gfs-plain", line_buffering=stream.line_buffering
        )
        self._reader_left = (errno.EPIPE, errno.EIO) if stream.isatty() else (errno.EPIPE,)

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        """Send to nowhere what could not be written and what comes after it."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        super().flush()
        if error.errno not in self._reader_left and self.fileno() != STDERR:
            raise OSError(error.errno, error.strerror, "standard output") from None


def _replace_unprintable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end
