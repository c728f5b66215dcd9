"""The process of a `gfs` command: its streams, the signals that end it, and how it leaves.

This module loads nothing that takes time, so that all of this holds while the rest is loaded.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, what `kill` sends, and what a process gets when its terminal closes."""
PATIENCE = 3
"""The signal that ends the process whatever it does. The second may be the first once more: shells pass them on."""
AGAIN_SECONDS = 0.01
"""Until an exception that Python dropped is raised once more."""


def main() -> None:
    """Run the `gfs` command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing to tidy up yet
    open_missing_streams()
    from gfs.cli.main import main as run

    run()


def open_missing_streams() -> None:
    """A stream that the caller has closed (`>&-`) is /dev/null: else the next file opened would get its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 (stays open)


class Ended(SystemExit):
    """A signal ends the command. Code that survives the SystemExit of others (a plug-in) lets this one pass."""


class EndingSignals:
    """What ends a command from outside: Ctrl-C raises KeyboardInterrupt, the others Ended(128 + number).

    So what is half done is undone on the way out. Python drops an exception that is raised in a finalizer or in a
    callback; such a one is raised again. A signal that the caller ignores, as `nohup` does, stays ignored.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        """The first one that came."""
        self._count = 0
        self._over = False

    def listen(self) -> None:
        """From now on the signals raise."""
        self.number, self._count, self._over = None, 0, False
        for number in ENDING:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._raise)
        sys.unraisablehook = self._dropped

    def raise_no_more(self) -> None:
        """The command is over: from now on a signal ends the process, which may wait for somebody to read."""
        self._over = True

    def _raise(self, number: int, frame: object) -> None:
        self._count += 1
        if self._count == PATIENCE or (self._over and self._count == 1):
            os._exit(128 + number)
        if self._count == 1:
            self.number = number
            self._raise_last()

    def _raise_last(self, *_: object) -> None:
        if self.number is None or self._over:
            return
        if self.number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Ended(128 + self.number)

    def _dropped(self, what: Any) -> None:
        ours = self.number is not None and issubclass(what.exc_type, KeyboardInterrupt | SystemExit)
        if not ours or not hasattr(signal, "setitimer"):
            sys.__unraisablehook__(what)
            return
        signal.signal(signal.SIGALRM, self._raise_last)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)


SIGNALS = EndingSignals()


if __name__ == "__main__":
    main()
