"""The mirrors of a cluster: which kinds are watched, as far as the API server has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gfs.live.api import Api
from gfs.live.cluster import Cluster
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


class Mirrors:
    """All mirrors of one cluster."""

    def __init__(self, api: Api, cluster: Cluster, groups: list[str], woken: Callable[[], None] = lambda: None) -> None:
        """`woken` is told when a mirror that was broken follows again."""
        kinds: list[tuple[str, Changed]] = [
            ("/api/v1/namespaces", cluster.namespace_changed),
            *((path, cluster.group_changed) for path in groups),
            ("/apis/policy/v1/poddisruptionbudgets", cluster.budget_changed),
            ("/api/v1/nodes", cluster.node_changed),
            ("/api/v1/pods", cluster.pod_changed),
        ]
        resync = cluster.settings.resync_interval
        self._mirrors = [Reflector(api, path, changed, resync=resync, woken=woken) for path, changed in kinds]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to mirror, and wait until every list has been read whole."""
        self._tasks = [asyncio.create_task(mirror.run()) for mirror in self._mirrors]
        await asyncio.gather(*(mirror.synced.wait() for mirror in self._mirrors))

    async def stop(self) -> None:
        """Stop mirroring."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> float:
        """Seconds since the one that has been silent longest heard anything."""
        return max(mirror.silence() for mirror in self._mirrors)

    def are_current(self) -> bool:
        """Whether all of them follow what happens; otherwise a node may have been closed that looks open here."""
        return all(mirror.current for mirror in self._mirrors)

    @property
    def lists(self) -> int:
        """How often a list was read."""
        return sum(mirror.lists for mirror in self._mirrors)
