"""A proxy between the controller and the API server that does not always do what it should.

Requests are refused (before or after the server has done what was asked), answered by half, cut, or answered after half
a minute; lines of watches come late, twice, out of time or not at all. Everything is drawn from one seeded generator.

Lines of nodes are neither late nor lost: nobody could know then that a node is cordoned or has shrunk.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web
from injections import Injections

from bench.bench import HOST, Bench

SLOW = 30.0
"""Seconds until a slow answer comes: longer than any client of ours waits."""
LATE = (0.5, 3.0)
"""Seconds that a watch is late, at least and at most."""
STATUS = {"409": 409, "410": 410, "429": 429, "500": 500, "503": 503}
REQUESTS = (*STATUS, "500 after the deed", "half a body", "cut before", "cut after", "slow answer")
WATCHES = (
    "watch late",
    "watch doubled",
    "watch repeats the past",
    "watch drops",
    "watch cut",
    "watch 410",
    "watch 429",
)
BINDING = "pod deleted before its binding"
IN_ORDER = tuple(fault for fault in WATCHES if fault not in ("watch late", "watch drops"))
STEADY = ("/api/v1/nodes",)
"""Watches whose lines are neither late nor lost."""
SEEN = 0.5
"""Seconds until a change of a node is surely known."""


class Proxy:
    """`with Proxy(bench, injections) as proxy:`; `proxy.kubeconfig` leads through it."""

    def __init__(self, bench: Bench, injections: Injections, name: str = "proxy") -> None:
        self._bench, self._injections = bench, injections
        self._random = random.Random(injections.seed)
        self._name = name
        self.rates: Mapping[str, float] = {}
        """Fault -> its probability per request, or per line of a watch."""
        self._bindings = 0
        """Bindings under way."""
        self._refuses_bindings = False
        self._one_node = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.kubeconfig: Path

    def __enter__(self) -> Proxy:
        self._thread.start()
        port = self._call(self._start())
        self.kubeconfig = self._bench.folder / f"{self._name}.kubeconfig"
        config = json.loads(self._bench.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://{HOST}:{port}"}
        self.kubeconfig.write_text(json.dumps(config))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.calm()
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def storm(self, requests: float, lines: float) -> None:
        """From now on a share of the requests, and of the lines of watches, is struck by some fault."""
        self.rates = {
            **{fault: requests / len(REQUESTS) for fault in REQUESTS},
            **{fault: lines / len(WATCHES) for fault in WATCHES},
            BINDING: requests / 2,
        }

    def calm(self) -> None:
        """From now on it does what it should."""
        self.rates = {}

    @contextmanager
    def no_bindings(self) -> Iterator[None]:
        """A node gets less: no binding is under way then that was right when it was sent. Those that come get a 503."""
        with self._one_node:
            self._refuses_bindings = True
            try:
                self._call(self._bindings_answered())
                yield
                time.sleep(SEEN)
            finally:
                self._refuses_bindings = False

    async def _bindings_answered(self) -> None:
        while self._bindings:
            await asyncio.sleep(0.005)

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> int:
        client = self._bench.client
        tls = ssl.create_default_context(cafile=client.ca_file)
        self._session = aiohttp.ClientSession(
            f"https://{client.host}:{client.port}",
            connector=aiohttp.TCPConnector(limit=0, ssl=tls),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        return int(self._runner.addresses[0][1])

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()
        held = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in held:  # answers that were to come late
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)

    def _draw(self, faults: tuple[str, ...], where: str) -> str:
        """The fault that strikes now, or none."""
        point = self._random.random()
        for fault in faults:
            point -= self.rates.get(fault, 0.0)
            if point < 0:
                if self.rates:
                    self._injections.note(fault, where)
                return fault
        return ""

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if "watch" in request.query:
                return await self._watch(request)
            if request.path.endswith("/binding"):
                return await self._bind(request)
            return await self._pass(request, self._draw(REQUESTS, f"{request.method} {request.path}"))
        except (aiohttp.ClientError, OSError):  # the API server is away
            return self._cut(request)

    async def _bind(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._refuses_bindings:
            return _refusal(503)
        self._bindings += 1
        try:
            return await self._pass(request, self._draw((*REQUESTS, BINDING), f"{request.method} {request.path}"))
        finally:
            self._bindings -= 1

    async def _pass(self, request: web.BaseRequest, fault: str) -> web.StreamResponse:
        body = await request.read()
        if fault in STATUS:
            return _refusal(STATUS[fault])
        if fault == "cut before":
            return self._cut(request)
        if fault == BINDING:
            await self._delete(request.path.removesuffix("/binding"), _headers(request.headers))
        async with self._session.request(
            request.method, request.path_qs, data=body or None, headers=_headers(request.headers)
        ) as answer:
            content = await answer.read()
        if fault == "cut after":
            return self._cut(request)
        if fault == "500 after the deed":
            return _refusal(500)
        if fault == "slow answer":
            await asyncio.sleep(SLOW)
        kept = {name: answer.headers[name] for name in ("Content-Type", "Content-Encoding") if name in answer.headers}
        if fault != "half a body" or len(content) < 2:
            return web.Response(status=answer.status, body=content, headers=kept)
        half = web.StreamResponse(status=answer.status, headers={**kept, "Content-Length": str(len(content))})
        await half.prepare(request)
        await half.write(content[: len(content) // 2])
        return self._cut(request)

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self._session.get(request.path_qs, headers=_headers(request.headers, plain=True)) as answer:
            if answer.status >= 400:
                return web.Response(status=answer.status, body=await answer.read(), content_type="application/json")
            passed = web.StreamResponse(headers={"Content-Type": "application/json"})
            passed.enable_chunked_encoding()
            await passed.prepare(request)
            before = b""
            with suppress(ConnectionResetError):
                async for line in answer.content:
                    fault = self._draw(IN_ORDER if request.path in STEADY else WATCHES, request.path)
                    if fault == "watch late":
                        await asyncio.sleep(self._random.uniform(*LATE))
                    if fault == "watch repeats the past":
                        await passed.write(before)
                    if fault == "watch cut":
                        await passed.write(line[: len(line) // 2])
                        return self._cut(request)
                    if fault in ("watch 410", "watch 429"):
                        code = int(fault[-3:])
                        told = {"kind": "Status", "code": code, "message": "so says the proxy"}
                        await passed.write(json.dumps({"type": "ERROR", "object": told}).encode() + b"\n")
                        break
                    if fault != "watch drops":
                        await passed.write(line)
                    if fault == "watch doubled":
                        await passed.write(line)
                    before = line
            return passed

    async def _delete(self, path: str, headers: Mapping[str, str]) -> None:
        """Delete a pod that its controller creates again."""
        async with self._session.get(path, headers=headers) as answer:
            pod = await answer.json() if answer.headers.get("Content-Encoding") is None else {}
        if pod.get("metadata", {}).get("ownerReferences"):
            await self._session.delete(path, headers=headers, json={"gracePeriodSeconds": 0})

    def _cut(self, request: web.BaseRequest) -> web.StreamResponse:
        """Close the connection without another word."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


def _refusal(code: int) -> web.Response:
    told = {"kind": "Status", "apiVersion": "v1", "code": code, "message": "so says the proxy"}
    headers = {"Retry-After": "1"} if code in (429, 503) else {}
    return web.json_response(told, status=code, headers=headers)


def _headers(given: Mapping[str, str], *, plain: bool = False) -> dict[str, str]:
    passed = {name: given[name] for name in ("Authorization", "Accept", "Content-Type", "User-Agent") if name in given}
    return passed | ({} if plain else {"Accept-Encoding": given.get("Accept-Encoding", "identity")})
