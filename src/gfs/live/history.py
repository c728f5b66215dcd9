"""Demand of the last weeks from Prometheus, as kube-state-metrics saw it before GFS did.

HP demand is what containers of HP pods request that are pending or running, every five minutes:
`kube_pod_container_resource_requests` of pods whose `kube_pod_info` names an HP class and whose
`kube_pod_status_phase` is one of the two. The organization is the pod's label (`kube_pod_labels`, where it is
collected), that of its namespace, or the namespace. In a cluster of several GPU models the pool is that of the pod's
node (`kube_node_labels`), and pods without a node do not count.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
import numpy as np

from gfs.core.scheduler import Scheduler
from gfs.domain.errors import GfsError, InputError
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.history import Floats
from gfs.forecasting.meter import STEP, DemandRecord
from gfs.live.settings import LiveSettings

log = logging.getLogger("gfs.live")
TIMEOUT = 60.0
"""Seconds for one query, of a day."""
A_DAY = round(DAY / STEP)
POD = "namespace, pod, uid"
Series = list[tuple[dict[str, str], list[tuple[float, str]]]]
"""Labels, and (seconds, value as text) of each sample."""


class PrometheusError(GfsError):
    """Prometheus could not be asked, or did not answer as it should."""


class _Matrix(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[_Matrix] = []


class _Answer(msgspec.Struct):
    status: str
    error: str = ""
    data: _Data = msgspec.field(default_factory=_Data)


class Prometheus:
    """A client of its HTTP API."""

    def __init__(self, url: str, token: str = "") -> None:
        check_url(url)
        self._url = url.rstrip("/")
        self._shown = without_password(self._url)
        own = urlsplit(url).username is not None  # a name in the address goes before the token: both cannot be sent
        headers = {"Authorization": f"Bearer {token}"} if token and not own else {}
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT), headers=headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _: object, trace: TracebackType | None) -> None:
        await self._session.close()

    async def query_range(self, query: str, start: float, end: float, step: float) -> Series:
        """The samples of a query from start to end, both included."""
        asked: dict[str, Any] = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:.0f}"}
        try:
            async with self._session.post(f"{self._url}/api/v1/query_range", data=asked) as response:
                content = await response.read()
            answer = msgspec.json.decode(content, type=_Answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise PrometheusError(f"{self._shown}: no answer ({type(error).__name__}: {error})") from error
        except msgspec.MsgspecError as error:
            raise PrometheusError(f"{self._shown}: HTTP {response.status}, not an answer of Prometheus") from error
        if answer.status != "success":
            raise PrometheusError(f"{self._shown}: {answer.error}")
        return [(each.metric, each.values) for each in answer.data.result]


def check_url(url: str) -> None:
    """`InputError` if it is not the address of a server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(
            f"prometheus = {without_password(url)!r}: give its address, such as http://prometheus.monitoring:9090"
        )


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    return re.sub(r"//[^/@]*@", "//", url)


def _label(name: str) -> str:
    """A name of Kubernetes as kube-state-metrics writes it."""
    return re.sub(r"\W", "_", name)


def demand_query(settings: LiveSettings, *, by_model: bool) -> str:
    """GPUs wanted by HP pods, by namespace and organization label, and by GPU model if there are several."""
    organization, model = (f"label_{_label(name)}" for name in (settings.organization_label, settings.model_label))
    classes = "|".join(name.replace(".", r"\\.") for name in settings.hp_classes)
    # kube-state-metrics may run twice: each container counts once
    asked = (
        f"sum by ({POD}, node) (max by ({POD}, node, container)"
        f' (kube_pod_container_resource_requests{{resource="{_label(settings.resource)}"}}))'
    )
    wanted = (
        f'({asked} and on ({POD}) kube_pod_info{{priority_class=~"{classes}"}}'
        f' and on ({POD}) (kube_pod_status_phase{{phase=~"Pending|Running"}} == 1))'
    )
    named = (
        f"({wanted} * on ({POD}) group_left ({organization}) max by ({POD}, {organization})"
        f' (kube_pod_labels{{{organization}!=""}}) or on ({POD}) {wanted})'
    )
    if not by_model:
        return f"sum by (namespace, {organization}) ({named})"
    models = f'max by (node, {model}) (kube_node_labels{{{model}!=""}})'
    return f"sum by (namespace, {organization}, {model}) ({named} * on (node) group_left ({model}) {models})"


@dataclass(frozen=True, slots=True)
class PastDemand:
    """HP demand of all pools, step by step, up to a step."""

    pools: dict[str, dict[str, Floats]]
    """GPU model -> organization -> GPUs, in as many steps for all."""
    end: int

    @property
    def hours(self) -> float:
        """How many hours are known."""
        steps = [len(gpus) for pool in self.pools.values() for gpus in pool.values()]
        return max(steps, default=0) * STEP / HOUR

    def text(self) -> str:
        """What is known, in a sentence."""
        organizations = {name for pool in self.pools.values() for name in pool}
        many = f"{len(organizations)} organization{'s' * (len(organizations) != 1)}"
        return f"{self.hours / 24:.1f} days of HP demand by {many} were taken from Prometheus"


async def read_demand(
    server: Prometheus, settings: LiveSettings, models: set[str], whose: Callable[[str, str], str], end: int
) -> PastDemand:
    """The demand of the days before step `end`. `whose`: organization by namespace and label."""
    first = end - round(settings.prometheus_days * A_DAY)
    size, only = end - first, next(iter(models)) if len(models) == 1 else ""
    query = demand_query(settings, by_model=not only)
    organization, model = (f"label_{_label(name)}" for name in (settings.organization_label, settings.model_label))
    gpus: dict[str, dict[str, Floats]] = {}
    seen = np.zeros(size, bool)
    for begin in range(first, end, A_DAY):
        span = begin * STEP, (min(begin + A_DAY, end) - 1) * STEP, STEP
        for _, values in await server.query_range("count(kube_node_info)", *span):
            seen[[round(at / STEP) - first for at, _ in values]] = True
        for labels, values in await server.query_range(query, *span):
            namespace, pool = labels.get("namespace", ""), only or labels.get(model, "")
            name = whose(namespace, labels.get(organization, ""))
            row = gpus.setdefault(pool, {}).setdefault(name, np.zeros(size))
            for at, value in values:
                row[round(at / STEP) - first] += float(value)
    if not gpus:
        return PastDemand({}, end)
    # while nobody looked, demand stayed as it was
    last = np.maximum.accumulate(np.where(seen, np.arange(size), -1))[int(seen.argmax()) :]
    return PastDemand({pool: {name: row[last] for name, row in some.items()} for pool, some in gpus.items()}, end)


def learn(scheduler: Scheduler, past: PastDemand, models: set[str]) -> None:
    """Put past demand before what the pools of these GPU models have seen themselves."""
    for model in sorted(models & past.pools.keys()):
        pool = scheduler.pools[model]
        pool.state.remember("demand", DemandRecord).prepend(past.pools[model], past.end)
        pool.rebuild()
