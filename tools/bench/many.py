"""Many requests at once, as a crowd of users would send them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from bench.client import GROUPS
from gfs.live.api import Api
from gfs.live.problems import Conflict
from gfs.live.translate.shape import Json

AT_ONCE = 32
ANSWER = 60.0
"""Seconds that an answer may take."""


def for_all(
    kubeconfig: Path, do: Callable[[Api, Json], Awaitable[object]], objects: Iterable[Json], rate: float = 0.0
) -> float:
    """Do something with each object, as fast as the server takes it or so many a second; the seconds it took."""

    async def main() -> float:
        async with await Api.connect(kubeconfig, in_flight=AT_ONCE, timeout=ANSWER) as api:
            began, waiting = time.monotonic(), iter(enumerate(objects))

            async def work() -> None:
                for number, item in waiting:
                    if rate:
                        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                    await do(api, item)

            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
            return time.monotonic() - began

    return asyncio.run(main())


def create_all(kubeconfig: Path, objects: Iterable[Json], rate: float = 0.0) -> float:
    """Create objects; the seconds it took."""
    return for_all(kubeconfig, _create, objects, rate)


async def _create(api: Api, item: Json) -> None:
    kind = f"{item['kind'].lower()}s"
    namespace = item["metadata"].get("namespace")
    where = f"/{GROUPS[kind]}" + (f"/namespaces/{namespace}" if namespace else "")
    with suppress(Conflict):  # the answer to the first try was lost
        await api.create(f"{where}/{kind}", item)
