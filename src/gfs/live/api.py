"""A client of the API server: plain JSON over aiohttp, many requests in flight, errors by type.

The client retries reads, patches and deletions. It retries other writes only if the server has certainly done nothing.
The caller of `bind` handles a binding without an answer. Patches are strategic merges.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Self, TypedDict, cast
from weakref import WeakSet

import aiohttp
import msgspec

from gfs.live.client import Objection
from gfs.live.connection import read_connection, tls_of
from gfs.live.problems import NotFound, NotLeading, Outdated, TooMany, Unavailable, problem_of
from gfs.live.translate.shape import Json, table, text

PAGE = 500
"""Objects of a list per request."""
WATCH_SECONDS = 290.0
"""Seconds after which the server ends a watch."""
OVERDUE = 10.0
"""Seconds after which a watch counts as dead that the server should have ended."""
PROBES = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A quiet connection is probed after 20 s; without an answer it is closed 30 s later."""
CLOSING = 2.0
"""The most seconds that connections get to close."""
TRIES = 4
FIRST_WAIT = 0.1
"""Seconds until a request is tried again; four times as many after each further attempt."""


class Api:
    """One connection to one API server."""

    def __init__(
        self,
        host: str,
        session: aiohttp.ClientSession,
        *,
        in_flight: int = 32,
        credentials: Any = None,
        tries: int = TRIES,
        sockets: Collection[socket.socket] = (),
    ) -> None:
        """`tries`: how often a request is sent at most. `sockets`: those of the session."""
        self._host = host.rstrip("/")
        self._session = session
        self._credentials = credentials
        self._free = asyncio.Semaphore(in_flight)
        self._tries = tries
        self._sockets = sockets
        self.may_write: Callable[[], bool] = lambda: True
        """Checked right before every write: a replica that no longer leads sends nothing."""
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.requests = 0
        self.problems = 0
        self._date, self._ahead = "", time.time() - time.monotonic()
        """The last date that an answer stated, and how far the clock of the API server is ahead of `monotonic`."""

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        *,
        context: str | None = None,
        in_flight: int = 32,
        timeout: float = 5.0,
        tries: int = TRIES,
        insecure: bool = False,
    ) -> Self:
        """Returns a client for the cluster of a kubeconfig, or of this pod. `insecure`: without checking the server."""
        configuration = await read_connection(kubeconfig, context)
        tls = tls_of(configuration, insecure=insecure)
        sockets: WeakSet[socket.socket] = WeakSet()

        def make(address: aiohttp.AddrInfoType) -> socket.socket:
            made = _probed_socket(address)
            sockets.add(made)
            return made

        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls, socket_factory=make),
            timeout=aiohttp.ClientTimeout(total=timeout),
        )
        more: dict[str, Any] = {"in_flight": in_flight, "tries": tries, "sockets": sockets}
        return cls(configuration.host, session, credentials=configuration, **more)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Those of requests that were cancelled close by themselves, and are waited for."""
        await self._session.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                while any(each.fileno() >= 0 for each in self._sockets):
                    await asyncio.sleep(0.01)

    # -- requests ----------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        tries: int | None = None,
        at_once: bool = False,
        objection: Objection | None = None,
    ) -> Json:
        """Sends a request and returns the answer; an `ApiError` if the server refuses it.

        `at_once`: outside the limit of requests in flight.
        """
        turn: AbstractAsyncContextManager[None] = nullcontext() if at_once else self._free
        repeatable = method in ("GET", "PATCH", "DELETE")
        wait, left = FIRST_WAIT, tries or self._tries
        while True:
            try:
                async with turn, self._open(method, path, body, objection, params=query) as answer:
                    return _decoded(await answer.read())
            except (TooMany, Unavailable) as error:
                left -= 1
                if not left or not (repeatable or isinstance(error, TooMany)):
                    raise
                await self.sleep(error.retry_after if isinstance(error, TooMany) else wait)
                wait *= 4

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: Any = None, objection: Objection | None = None, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a request, with `options` of aiohttp, and yields the answer to be read; an `ApiError` if it refuses."""
        headers = await self._headers()
        if body is not None:
            kind = "strategic-merge-patch+json" if method == "PATCH" else "json"
            headers["Content-Type"], options["data"] = f"application/{kind}", msgspec.json.encode(body)
        if method != "GET" and not self.may_write():
            raise NotLeading(f"{method} {path}: not sent, for this replica does not lead now")
        if objection is not None and (why := objection()):
            raise Outdated(f"not sent: {why}")
        self.requests += 1
        options |= {"headers": headers, "allow_redirects": False}
        try:
            async with self._session.request(method, self._host + path, **options) as answer:
                self._note_date(answer.headers.get("Date", ""))
                if answer.status >= 300:  # redirects too: the token stays here
                    self.problems += 1
                    said = f"{method} {path}: {_message(await answer.read(), answer.reason)}"
                    raise problem_of(answer.status, said, answer.headers.get("Retry-After"))
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.problems += 1
            raise Unavailable(f"{method} {path}: no answer ({type(error).__name__}: {error})") from error

    def wall(self) -> float:
        """Returns the time of day by the clock of the API server: the clock of this machine may be wrong."""
        return time.monotonic() + self._ahead

    def _note_date(self, date: str) -> None:
        """Notes the time that an answer states; it changes once a second."""
        if date and date != self._date:
            with suppress(ValueError):
                self._ahead = parsedate_to_datetime(date).timestamp() - time.monotonic()
                self._date = date

    async def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "gfs-scheduler"}
        if self._credentials is not None:
            try:
                token = await self._credentials.get_api_key_with_prefix("BearerToken", alias="authorization")
            except Exception as error:  # a token file or a program of the kubeconfig; it may work the next time
                raise Unavailable(f"the credentials cannot be read ({error!r})") from error
            if token:
                headers["Authorization"] = token
        return headers

    async def get(self, path: str) -> Json:
        """Read one object."""
        return await self.request("GET", path)

    async def find(self, path: str) -> Json | None:
        """Read one object; None: it is not there."""
        try:
            return await self.get(path)
        except NotFound:
            return None

    async def create(self, path: str, body: Json) -> Json:
        """Create an object."""
        return await self.request("POST", path, body)

    async def replace(self, path: str, body: Json) -> Json:
        """Replace an object; its resource version, if given, must still be that."""
        return await self.request("PUT", path, body)

    async def patch(self, path: str, body: Json) -> Json:
        """Change parts of an object; returns the changed object."""
        return await self.request("PATCH", path, body)

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        version: str = "",
        grace: int | None = None,
        objection: Objection | None = None,
    ) -> Json:
        """Delete an object if it has this uid and resource version; a pod with its own grace period by default."""
        same = {"uid": uid or None, "resourceVersion": version or None}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": same, "gracePeriodSeconds": grace}
        return await self.request("DELETE", path, options, objection=objection)

    # -- lists and watches -------------------------------------------------------------------------

    async def list_all(self, path: str) -> tuple[list[Json], str]:
        """Returns all objects and their resource version; lists do not queue behind thousands of bindings."""
        objects: list[Json] = []
        following = ""
        while True:
            page = await self.request("GET", path, query={"limit": PAGE, "continue": following}, at_once=True)
            if "items" not in page:  # it does not mean that there are no objects
                raise Unavailable(f"GET {path}: an answer that is no list")
            for thing in page["items"] or ():
                table(thing, "metadata").pop("managedFields", None)  # half of an object, and not used
                objects.append(thing)
            metadata = table(page, "metadata")
            following = text(metadata, "continue")
            if not following:
                return objects, text(metadata, "resourceVersion")

    async def watch(
        self,
        path: str,
        version: str,
        *,
        seconds: float = WATCH_SECONDS,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[tuple[str, Json], None]:
        """Yields (ADDED, MODIFIED, DELETED or BOOKMARK, object) after a resource version, for some seconds at most.

        `opened`: called when the server has accepted the watch. `Gone`: the version is too old. `Unavailable`: the
        connection broke or fell silent.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": round(seconds),
        }
        silence = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=seconds + OVERDUE)
        async with self._open("GET", path, params=query, timeout=silence) as answer:
            opened()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _watch_line(path, line)

    # -- what a scheduler does ---------------------------------------------------------------------

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str],
        objection: Objection | None = None,
    ) -> None:
        """Give a pod its node, in a single request. The server copies the annotations to the pod."""
        metadata = {"name": pod, "namespace": namespace, "uid": uid, "annotations": dict(annotations)}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self.request("POST", f"{pod_path(namespace, pod)}/binding", body, tries=1, objection=objection)

    async def allowed(self, verb: str, resource: str, **attributes: str) -> bool:
        """Returns whether we have a right. `attributes`: group, subresource, namespace and name."""
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "resource": resource, **attributes}},
        }
        review = await self.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return bool((review.get("status") or {}).get("allowed"))


def _probed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Returns a socket that notices when the other side is gone: a watch without news must not look alive for ever."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in PROBES.items():
        if hasattr(socket, option):  # not on every system
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def pod_path(namespace: str, name: str) -> str:
    """Returns the path of a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


class _Metadata(TypedDict, total=False):
    """The metadata that the controller uses. Without `managedFields` decoding is three times as fast."""

    name: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    labels: Any
    annotations: Any
    ownerReferences: Any


class _Thing(TypedDict, total=False):
    """An object of a watch, or the status that ends one."""

    metadata: _Metadata
    spec: Any
    status: Any
    code: Any
    message: Any


class _Event(TypedDict):
    type: str
    object: _Thing


_EVENT = msgspec.json.Decoder(_Event)


def _decoded(content: bytes) -> Json:
    """Returns the object in an answer; the answer to a binding is empty."""
    try:
        answer = msgspec.json.decode(content) if content.strip() else {}
    except msgspec.DecodeError as error:
        raise Unavailable(f"an answer that cannot be read ({error})") from error
    return answer if isinstance(answer, dict) else {}


def _message(content: bytes, reason: str | None) -> str:
    with suppress(Unavailable):
        if said := _decoded(content).get("message"):
            return str(said)
    return content[:200].decode(errors="replace") or str(reason)


def _watch_line(path: str, line: bytes) -> tuple[str, Json]:
    try:
        event = _EVENT.decode(line)
    except msgspec.DecodeError as error:
        raise Unavailable(f"watch {path}: a line that is no event ({error})") from error
    kind, thing = event["type"], event["object"]
    if kind == "ERROR":
        raise problem_of(int(thing.get("code") or 500), f"watch {path}: {thing.get('message')}")
    return kind, cast(Json, thing)
