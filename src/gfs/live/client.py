"""The calls of the controller to an API server: the real client (`gfs.live.api`) and the tests' fake have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gfs.live.translate.shape import Json

Objection = Callable[[], str]
"""Returns why a request must not be sent; empty: it may. The client calls it right before sending."""


class Client(Protocol):
    """Writes, and the one read that follows a doubtful answer. `Outdated`: an objection stopped the request."""

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        objection: Objection | None = None,
    ) -> None:
        """Bind a pod to a node."""

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        version: str = "",
        grace: int | None = None,
        objection: Objection | None = None,
    ) -> Json:
        """Delete an object if it has this uid and resource version."""

    async def patch(self, path: str, body: Json) -> Json:
        """Change parts of an object; returns the changed object."""

    async def create(self, path: str, body: Json) -> Json:
        """Create an object."""

    async def find(self, path: str) -> Json | None:
        """Read one object; None: it is not there."""
