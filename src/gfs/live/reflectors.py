"""The reflectors that keep the mirror: which kinds are watched, as far as the API server has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from gfs.live.api import Api
from gfs.live.mirror import Mirror
from gfs.live.translate.gangs import NATIVE, PLUGIN
from gfs.live.watch import Changed, Reflector

log = logging.getLogger("gfs.live")


async def group_paths(api: Api) -> list[str]:
    """Where PodGroups are, of either kind, in the version that the server offers."""
    offered = await api.groups()
    found = []
    for group in (NATIVE, PLUGIN):
        for version in offered.get(group, ()):
            if "podgroups" in await api.resources(f"{group}/{version}"):
                found.append(f"/apis/{group}/{version}/podgroups")
                break
    return found


class Reflectors:
    """All reflectors of one mirror."""

    def __init__(self, api: Api, mirror: Mirror, groups: list[str], woken: Callable[[], None] = lambda: None) -> None:
        """`woken` is called when a watch that had ended is open again."""
        kinds: list[tuple[str, Changed]] = [
            ("/api/v1/namespaces", mirror.namespace_changed),
            *((path, partial(mirror.group_changed, kind=path.split("/")[2])) for path in groups),
            ("/apis/policy/v1/poddisruptionbudgets", mirror.budget_changed),
            ("/api/v1/nodes", mirror.node_changed),
            ("/api/v1/pods", mirror.pod_changed),
        ]
        resync = mirror.settings.resync_interval
        self._reflectors = [Reflector(api, path, changed, resync=resync, woken=woken) for path, changed in kinds]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to mirror, and wait until every list has been read whole."""
        self._tasks = [asyncio.create_task(each.run()) for each in self._reflectors]
        await asyncio.gather(*(each.synced.wait() for each in self._reflectors))

    async def stop(self) -> None:
        """Stop mirroring."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> float:
        """Seconds since the one that has been silent longest heard anything."""
        return max(each.silence() for each in self._reflectors)

    def are_current(self) -> bool:
        """Whether all of them follow what happens; otherwise a node may have been closed that looks open here."""
        return all(each.current for each in self._reflectors)

    @property
    def lists(self) -> int:
        """How often a list was read."""
        return sum(each.lists for each in self._reflectors)
