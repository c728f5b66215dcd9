"""Read-only HTTP: /healthz, /readyz, /metrics and the routes of a page; a token if one is set."""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from gfs.domain.address import parse_address
from gfs.domain.errors import InputError
from gfs.live.connection import is_loopback
from gfs.live.figures import Figures
from gfs.live.service import Service

OPEN = ("/healthz", "/readyz")
"""Paths that a kubelet asks for without a token."""
ASK = 'Basic realm="GFS: any name, and the token as password", charset="UTF-8"'
"""Programs send a bearer token; a browser asks its user for a name and a password."""


class HttpServer:
    """Serves the figures of a service."""

    def __init__(self, service: Service, address: str, token: str = "", routes: Sequence[web.RouteDef] = ()) -> None:
        """`routes` are served besides, such as a page."""
        self._routes = routes
        self._service, self._figures, self._token = service, Figures(service), token
        self._host, self._port = parse_address(address)
        if not token and not is_loopback(self._host):
            raise InputError(
                f"--http {address} can be reached from other machines: put a token that readers must show into"
                " GFS_HTTP_TOKEN, or serve on loopback (127.0.0.1)"
            )
        self._runner: web.AppRunner | None = None
        self.port = self._port

    async def start(self) -> None:
        """Listen."""
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/readyz", self._ready),
                web.get("/metrics", self._metrics),
                *self._routes,
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            raise InputError(f"--http {self._host}:{self._port}: {error.strerror or error}") from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if (
            self._token
            and request.path not in OPEN
            and not _shows(request.headers.get("Authorization", ""), self._token)
        ):
            raise web.HTTPUnauthorized(text="a bearer token is needed\n", headers={"WWW-Authenticate": ASK})
        return await handler(request)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        """A replica is ready when it decides, or stands by while another does."""
        service = self._service
        ready = service.controller is not None or service.leading not in ("", service.identity)
        return web.Response(text="ok\n" if ready else "not yet\n", status=200 if ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._figures.text(), content_type="text/plain", charset="utf-8")


def _shows(given: str, token: str) -> bool:
    """Whether a request shows the token: as a bearer token, or as the password of any name. Takes as long for any."""
    kind, _, shown = given.partition(" ")
    content = shown.encode(errors="surrogateescape")
    if kind == "Basic":
        try:
            content = b64decode(content, validate=True).partition(b":")[2]
        except ValueError:
            return False
    return hmac.compare_digest(content, token.encode(errors="surrogateescape")) and kind in ("Basic", "Bearer")
