"""Stopping a pod: it is marked, so that its controller knows why, and deleted, however often that has to be tried."""

from __future__ import annotations

import asyncio
import logging

from gfs.live.api import Api, pod_path
from gfs.live.cluster import Cluster
from gfs.live.failpoint import reach
from gfs.live.problems import ApiError, Conflict, NotFound
from gfs.live.say import Speaker
from gfs.live.translate.pods import TERMINAL, PodView
from gfs.live.watch import uid_of

log = logging.getLogger("gfs.live")
PAUSE = 2.0
"""Seconds until what failed is tried again."""


async def stop_pod(api: Api, cluster: Cluster, speaker: Speaker, pod: PodView, reason: str, message: str) -> bool:
    """Mark a pod and delete it with its own grace period, as far as it is given; False: it had gone by itself."""
    stopped = await _insist(api, cluster, speaker, pod, reason, message)
    reach("stop-deleted")
    return stopped


async def _insist(api: Api, cluster: Cluster, speaker: Speaker, pod: PodView, reason: str, message: str) -> bool:
    longest = cluster.settings.longest_grace
    marked = deleted = False
    capped = round(longest) if pod.grace > longest else None
    while True:
        try:
            if not marked:
                phase = await speaker.mark_disrupted(pod, reason, message)
                marked = True
                reach("stop-marked")
                if phase in TERMINAL:  # its controller counts what it has done, and so do we
                    return False
            await api.delete(pod_path(pod.namespace, pod.name), uid=pod.uid, grace=capped)
            return True
        except NotFound:
            return deleted
        except ApiError as error:
            if isinstance(error, Conflict) and await _is_another(api, pod):
                return deleted
            # Only the answer may have been lost: then the pod has not gone by itself.
            deleted |= marked and error.uncertain
            log.warning(f"{pod.path} was not stopped, it is tried again: {error}")
        await asyncio.sleep(PAUSE)
        now = cluster.pods.get(pod.uid)
        if now is None or now.over:
            return deleted


async def _is_another(api: Api, pod: PodView) -> bool:
    """Whether the pod is gone or another one has its name: only then is a conflict the end of it."""
    try:
        found = await api.find(pod_path(pod.namespace, pod.name))
    except ApiError:
        return False
    return found is None or uid_of(found) != pod.uid
