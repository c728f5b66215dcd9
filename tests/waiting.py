"""Waiting for a condition: a test never fails because the machine is slow."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST = 600.0
"""Seconds after which a test gives up. A bound against hanging for ever, never a claim about speed."""


def wait_until(there: Callable[[], bool], what: str = "it did not come") -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + LONGEST
    while not there():
        assert time.monotonic() < end, what
        time.sleep(0.02)
