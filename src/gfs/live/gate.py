"""The gate before bindings and deletions: they wait while a watch is not open, and are dropped if they are outdated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from gfs.live.api import pod_path
from gfs.live.client import Client, Objection
from gfs.live.problems import ApiError
from gfs.live.translate.pods import PodView
from gfs.live.translate.shape import Json
from gfs.live.watch import uid_of

log = logging.getLogger("gfs.live")
PAUSE = 0.05
"""Seconds between two looks at whether all watches are open."""
READ_AGAIN = 0.5
"""Seconds between two reads of a pod, if the API server gives no answer."""


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


async def read_pod_now(client: Client, pod: PodView) -> Json | None:
    """Returns a pod as the API server has it now; None: it is gone. Asks until the server answers."""
    while True:
        try:
            found = await client.find(pod_path(pod.namespace, pod.name))
        except Exception as error:
            log.debug(f"the state of {pod.path} is not known yet: {error!r}")
            await asyncio.sleep(READ_AGAIN)
        else:
            return found if found is not None and uid_of(found) == pod.uid else None
