"""Places at which tests kill the controller: `GFS_FAILPOINT=bind-answered:2` kills it there the second time.

A killed process leaves work half done; these are the places where that matters. Without the variable a place costs one
comparison.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "GFS_FAILPOINT"
_armed, _, _times = os.environ.get(VARIABLE, "").partition(":")
_left = int(_times) if _times.isdigit() else 1


def reach(name: str) -> None:
    """Kill the process if this is the place and the time."""
    global _left
    if name != _armed:
        return
    _left -= 1
    if not _left:
        os.kill(os.getpid(), signal.SIGKILL)
