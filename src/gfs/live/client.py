"""What the controller asks of an API server. The real client (`gfs.live.api`) and the tests' fake know these calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Json = dict[str, Any]


def no_objection() -> str:
    """Returns that nothing speaks against sending a request."""
    return ""


class Client(Protocol):
    """Writes of the controller, and the one read that follows a doubtful answer."""

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        objection: Callable[[], str] = no_objection,
    ) -> None:
        """Give a pod its node. `objection`: asked right before sending; unless empty, `Outdated` with that text."""

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        version: str = "",
        grace: int | None = None,
        objection: Callable[[], str] = no_objection,
    ) -> Json:
        """Delete an object if it has this uid and resource version."""

    async def patch(self, path: str, body: Json, kind: str = ...) -> Json:
        """Change parts of an object; returns it as it is then."""

    async def create(self, path: str, body: Json) -> Json:
        """Create an object."""

    async def find(self, path: str) -> Json | None:
        """Read one object; None: it is not there."""
