"""The gate before bindings and deletions: they wait while a watch is not open, and are dropped if they are outdated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from gfs.live.client import Objection
from gfs.live.problems import ApiError

PAUSE = 0.05
"""Seconds between two looks at whether all watches are open."""


class _ClosedError(ApiError):
    """Not sent: a watch is not open."""


class Request(Protocol):
    """A call of the client that asks `objection` right before it sends."""

    async def __call__(self, *, objection: Objection) -> Any:
        """Send the request. `Outdated`: there was an objection."""


class Gate:
    """Lets requests pass while the mirror follows the cluster."""

    def __init__(self, is_current: Callable[[], bool]) -> None:
        """`is_current`: whether all watches are open."""
        self.is_open = is_current

    async def opened(self) -> None:
        """Wait until all watches are open."""
        while not self.is_open():
            await asyncio.sleep(PAUSE)

    async def send(self, request: Request, objection: Objection) -> None:
        """Send a request as soon as all watches are open. `Outdated`: there was an objection at that moment."""

        def checked() -> str:
            if not self.is_open():
                raise _ClosedError
            return objection()

        while True:
            await self.opened()
            try:
                await request(objection=checked)
            except _ClosedError:
                continue
            return
