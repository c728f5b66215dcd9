"""Every way a command can fail, turned into a sentence and an exit code: no tracebacks for users."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from gfs.cli.console import INTERRUPTED, fail, note
from gfs.domain.errors import GfsError

NOTHING_WRITTEN = "interrupted; nothing was written"


class GuardedGroup(TyperGroup):
    """A group of commands whose errors a person can read."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; exit code 2 for what the user can correct, 130 after Ctrl-C."""
        try:
            return super().invoke(ctx)
        except GfsError as error:
            fail(str(error))
        except KeyboardInterrupt as stop:
            note(str(stop) or NOTHING_WRITTEN)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # the reader of our output has gone (`| head`): leave without a word
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}")
        except MemoryError:
            fail("there is not enough memory for this trace; try a part of it")
