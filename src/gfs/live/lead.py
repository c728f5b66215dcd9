"""Leader election by a Lease. A leader that cannot renew it stops writing before another may begin.

Another replica takes a lease over when it has not seen it renewed for its whole length. A leader writes only until two
thirds of the length after the last renewal was *sent*, and no request takes longer than the remaining third.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from gfs.live.api import Api
from gfs.live.problems import ApiError, Conflict
from gfs.live.settings import LiveSettings
from gfs.live.translate.quantities import rfc3339

log = logging.getLogger("gfs.live")


class Leader:
    """One replica in the election."""

    def __init__(
        self,
        api: Api,
        settings: LiveSettings,
        identity: str,
        namespace: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._identity, self._monotonic = api, identity, monotonic
        self._length = settings.lease_seconds
        self._name = settings.lease_name
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._until = 0.0
        self._seen: tuple[Any, float] = (None, 0.0)
        """Holder and renewal of another's lease as last seen, and since when they are so."""
        self.holder = ""

    def leads(self) -> bool:
        """Whether this replica may write now."""
        return self._monotonic() < self._until

    async def campaign(self) -> None:
        """Wait until this replica leads."""
        while not await self._try():
            await asyncio.sleep(self._length / 7.5)

    async def keep(self) -> None:
        """Renew until a renewal comes too late."""
        while self.leads():
            await asyncio.sleep(self._length / 7.5)
            await self._try()
        log.warning("the lease could not be renewed in time: this replica does not lead any more")

    async def resign(self) -> None:
        """Let another replica lead at once."""
        if not self.leads():
            return
        self._until = 0.0
        try:
            lease = await self._api.get(f"{self._folder}/{self._name}")
            if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                await self._api.replace(f"{self._folder}/{self._name}", lease)
        except ApiError as error:
            log.debug(f"the lease was not given back: {error}")

    async def _try(self) -> bool:
        began = self._monotonic()
        try:
            lease = await self._api.find(f"{self._folder}/{self._name}")
            spec = dict((lease or {}).get("spec") or {})
            self.holder = str(spec.get("holderIdentity") or "")
            if self.holder not in ("", self._identity) and not self._expired(spec, began):
                return False
            renewed = rfc3339(self._api.wall())
            if self.holder != self._identity:
                changes = int(spec.get("leaseTransitions") or 0) + (1 if lease else 0)
                spec |= {"acquireTime": renewed, "leaseTransitions": changes}
            spec |= {"holderIdentity": self._identity, "renewTime": renewed}
            spec["leaseDurationSeconds"] = max(1, round(self._length))
            if lease is None:
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
                await self._api.create(self._folder, {**body, "spec": spec})
            else:
                lease["spec"] = spec
                await self._api.replace(f"{self._folder}/{self._name}", lease)
        except Conflict:
            return False  # another was faster
        except ApiError as error:
            log.warning(f"the lease was not renewed: {error}")
            return False
        self.holder = self._identity
        self._until = began + self._length * 2 / 3
        return True

    def _expired(self, spec: dict[str, Any], now: float) -> bool:
        """Whether another's lease has not changed for its whole length, by our own clock."""
        look = spec.get("holderIdentity"), spec.get("renewTime")
        if self._seen[0] != look:
            self._seen = look, now
        return now - self._seen[1] > max(self._length, float(spec.get("leaseDurationSeconds") or 0))
