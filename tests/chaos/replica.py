"""`gfs`, with a clock that a test can step, and killed at a step of its work.

GFS_TEST_CLOCK names a file: the clock is ahead by as many seconds as it says. GFS_TEST_KILL=bind-answered:2 kills the
process (SIGKILL) when it reaches that step for the second time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gfs.cli.main import main
from gfs.core.actions import Plan
from gfs.core.events import Event
from gfs.core.scheduler import Scheduler
from gfs.live.api import Api

KILL = "GFS_TEST_KILL"


def kill_at(step: str, times: int) -> None:
    """Kill this process when it reaches a step for so many times: a decision, or a request to the API server."""
    left = times
    handle: Callable[..., Plan] = Scheduler.handle
    bind, patch, delete = Api.bind, Api.patch, Api.delete

    def reach(name: str) -> None:
        nonlocal left
        left -= name == step
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def decided(self: Scheduler, now: float, events: Sequence[Event]) -> Plan:
        plan = handle(self, now, events)
        if plan.starts:
            reach("decided")
        if plan.evictions:
            reach("evict-decided")
        return plan

    async def bound(self: Api, *words: Any, **options: Any) -> None:
        reach("bind-begun")
        try:
            await bind(self, *words, **options)
        finally:
            reach("bind-answered")

    async def patched(self: Api, path: str, body: Any) -> Any:
        answer = await patch(self, path, body)
        status = body.get("status") or {}
        if any(each["type"] == "DisruptionTarget" for each in status.get("conditions") or ()):
            reach("stop-marked")
        if status.get("nominatedNodeName"):
            reach("nominated")
        return answer

    async def deleted(self: Api, *words: Any, **options: Any) -> Any:
        answer = await delete(self, *words, **options)
        reach("stop-deleted")
        return answer

    Scheduler.handle, Api.bind, Api.patch, Api.delete = decided, bound, patched, deleted  # type: ignore[method-assign, assignment]


if named := os.environ.get("GFS_TEST_CLOCK"):
    _real = time.time
    time.time = lambda: _real() + float(Path(named).read_text() or 0)

if point := os.environ.get(KILL):
    kill_at(point.partition(":")[0], int(point.partition(":")[2] or 1))

if __name__ == "__main__":
    main()
