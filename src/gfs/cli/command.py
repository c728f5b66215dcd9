"""What all commands have in common: plain errors, old option names, readable help."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from gfs.assembly import aliases
from gfs.cli.console import INTERRUPTED, fail, note
from gfs.cli.outputs import WRITTEN
from gfs.cli.start import SIGNALS
from gfs.domain.errors import GfsError

NOTHING_WRITTEN = "interrupted; nothing was written"


class Warnings(logging.Handler):
    """Prints the package's warnings to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        note(f"warning: {record.getMessage()}")


WARNINGS = Warnings(logging.WARNING)


class _ShowsFlags:
    """Options that take no value show no type in the help."""

    def get_params(self, ctx: Any) -> Any:
        """All options, `--help` too."""
        found = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return found


class CommandGroup(_ShowsFlags, TyperGroup):
    """A group of commands whose errors become one sentence and an exit code."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the words of the command. `--help` and `--version` print here."""
        with _errors_in_one_sentence():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        WRITTEN.clear()
        with _errors_in_one_sentence():
            return super().invoke(ctx)


@contextmanager
def _errors_in_one_sentence() -> Iterator[None]:
    """Turn errors into one sentence: exit code 2 for what the user can correct, 130 after Ctrl-C."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # a full disk is reported here, not by Python on its way out
    except GfsError as error:
        fail(str(error))
    except KeyboardInterrupt as stop:
        _say_interrupted(stop)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}")
    except MemoryError:
        fail("there is not enough memory for this trace; try a part of it")


def _say_interrupted(stop: KeyboardInterrupt) -> NoReturn:
    """Say in one line what is there after Ctrl-C, and leave with exit code 130."""
    SIGNALS.raise_no_more()
    complete = f"interrupted; complete before that: {', '.join(map(str, WRITTEN))}" if WRITTEN else NOTHING_WRITTEN
    note(str(stop) or complete)
    raise typer.Exit(INTERRUPTED) from None


class Command(_ShowsFlags, TyperCommand):
    """One command."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The terminal wraps, not the source; lines such as 'demo: ...' stay apart.
        self.help = re.sub(r"(?<!\n)\n(?!\n|\w+: )", " ", self.help or "")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; those of earlier versions under their present names."""
        renamed = aliases.OPTIONS.get(" ".join(ctx.command_path.split()[1:]), {})
        return super().parse_args(ctx, [_present_option(word, renamed) for word in args])


def _present_option(word: str, renamed: Any) -> str:
    name, equals, value = word.partition("=")
    return aliases.present_name("option", name, renamed) + equals + value
