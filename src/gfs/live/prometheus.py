"""A client of the HTTP API of Prometheus, Thanos, Mimir and VictoriaMetrics.

Query long ranges in pieces: a server refuses more than 11,000 points per series, and more samples or seconds than its
limits. After `QueryTooLargeError` smaller pieces may do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from gfs.domain.errors import GfsError, InputError

TIMEOUT = 60.0
"""Seconds for one query, of a day."""
Series = list[tuple[dict[str, str], list[tuple[float, float]]]]
"""Labels, and (seconds, value) of each sample."""
_TOO_LARGE = re.compile("too many|exceed|more than|timed out|timeout|limit", re.I)
"""Words of errors about queries that are too large: servers agree on no code."""


class PrometheusError(GfsError):
    """Prometheus gives no answer, or not the expected one."""


class QueryTooLargeError(PrometheusError):
    """The answer is more than the server gives at once, or takes too long."""


class _Result(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct):
    result: list[_Result] = []


class _Answer(msgspec.Struct):
    status: str
    error: str = ""
    errorType: str = ""  # noqa: N815 (its name)
    data: _Data = msgspec.field(default_factory=_Data)


class Prometheus:
    """A client of one server."""

    def __init__(self, url: str, token: str = "", headers: Mapping[str, str] | None = None) -> None:
        check_url(url)
        self._url = url.rstrip("/")
        self.shown = _without_password(self._url)
        """Its address without a password, for messages."""
        own = urlsplit(url).username is not None  # a name in the address goes before the token: both cannot be sent
        bearer = {"Authorization": f"Bearer {token}"} if token and not own else {}
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=TIMEOUT), headers={**bearer, **(headers or {})}
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _: object, trace: TracebackType | None) -> None:
        await self._session.close()

    async def query_range(self, query: str, start: float, end: float, step: float) -> Series:
        """Return the samples of a query from start to end, both included."""
        asked = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:.0f}"}
        found = await self._ask("query_range", asked)
        return [(each.metric, [(at, x) for at, text in each.values if isfinite(x := float(text))]) for each in found]

    async def query(self, query: str, at: float) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of each series of a query at a moment."""
        found = await self._ask("query", {"query": query, "time": f"{at:.0f}"})
        values = [(each.metric, float(each.value[1])) for each in found if each.value is not None]
        return [(labels, value) for labels, value in values if isfinite(value)]

    async def _ask(self, what: str, asked: dict[str, Any]) -> list[_Result]:
        try:
            async with self._session.post(f"{self._url}/api/v1/{what}", data=asked) as response:
                content = await response.read()
        except TimeoutError as error:
            raise QueryTooLargeError(f"{self.shown}: no answer within {TIMEOUT:.0f} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PrometheusError(
                f"{self.shown}: no answer ({type(error).__name__}: {_without_password(str(error))})"
            ) from error
        if response.status in (401, 403):
            raise PrometheusError(
                f"{self.shown}: HTTP {response.status}, it does not let us in. Give its bearer token in the"
                " environment variable GFS_PROMETHEUS_TOKEN, or name and password in the address"
            )
        try:
            answer = msgspec.json.decode(content, type=_Answer)
        except msgspec.MsgspecError as error:
            raise PrometheusError(
                f"{self.shown}: HTTP {response.status}, not an answer of Prometheus. Its address is the one under"
                " which /api/v1/query answers"
            ) from error
        if answer.status != "success":
            slow = answer.errorType == "timeout" or _TOO_LARGE.search(answer.error) is not None
            kind = QueryTooLargeError if slow else PrometheusError
            raise kind(f"{self.shown}: HTTP {response.status}, {answer.error or 'no reason given'}")
        return answer.data.result


def check_url(url: str) -> None:
    """Raise `InputError` if this is not the address of a server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(
            f"prometheus = {_without_password(url)!r}: give its address, such as http://prometheus.monitoring:9090"
        )


def _without_password(url: str) -> str:
    """Return a URL as messages may show it."""
    return re.sub(r"//[^/@]*@", "//", url)
