"""What the commands of the bench share: numbers within bounds, orderly ends, errors in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from gfs.cli.console import FAILED, INTERRUPTED, note
from gfs.cli.start import SIGNALS
from gfs.domain.errors import GfsError

Number = TypeVar("Number", int, float)


def within(kind: type[Number], low: float, high: float) -> Callable[[str], Number]:
    """Returns a type for an argument: a number between these two."""

    def read(text: str) -> Number:
        with suppress(ValueError):
            number = kind(text)
            if low <= number <= high:
                return number
        raise argparse.ArgumentTypeError(f"{text} is not a number from {low:g} to {high:g}")

    return read


def run(command: Callable[[], None]) -> None:
    """Run a command; a signal ends it after what it started, an error becomes a line and exit code 2."""
    SIGNALS.listen()
    try:
        command()
    except GfsError as error:
        note(f"error: {error}")
        sys.exit(FAILED)
    except KeyboardInterrupt:
        note("interrupted")
        sys.exit(INTERRUPTED)
