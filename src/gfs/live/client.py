"""The calls of the controller to an API server: the real client (`gfs.live.api`) and the tests' fake have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gfs.live.translate.shape import Json


class Client(Protocol):
    """Writes, and the one read that follows a doubtful answer.

    The client calls `objection` right before sending. If it returns a text, the client raises `Outdated` instead.
    """

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        objection: Callable[[], str] = ...,
    ) -> None:
        """Bind a pod to a node."""

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        version: str = "",
        grace: int | None = None,
        objection: Callable[[], str] = ...,
    ) -> Json:
        """Delete an object if it has this uid and resource version."""

    async def patch(self, path: str, body: Json, kind: str = ...) -> Json:
        """Change parts of an object; returns the changed object."""

    async def create(self, path: str, body: Json) -> Json:
        """Create an object."""

    async def find(self, path: str) -> Json | None:
        """Read one object; None: it is not there."""
