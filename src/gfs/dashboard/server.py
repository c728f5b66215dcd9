"""A server for one page: standard library only, read-only, on loopback unless told otherwise."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

from gfs.dashboard.api import ROOT
from gfs.dashboard.page import SECURITY
from gfs.dashboard.site import Site
from gfs.domain.errors import InputError
from gfs.version import __version__

LONGEST_QUERY = 20


class PageServer(ThreadingHTTPServer):
    """Serves a site at an address."""

    daemon_threads = True

    def __init__(self, site: Site, host: str, port: int) -> None:
        self.site = site
        self.local = _is_local(host)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise InputError(f"--http {host}:{port}: {error.strerror or error}; name another address") from error

    @property
    def address(self) -> str:
        """What a browser is to open."""
        host, port = self.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version = f"gfs/{__version__}"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        # A name that merely leads to this machine could be anybody's: a page of theirs would read ours.
        if self.server.local and not _is_local(urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""):
            return self._send(403, {"Content-Type": "text/plain"}, b"ask by a name of this machine\n", body)
        # Nor may a page of another site make this one compute.
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return self._send(403, {"Content-Type": "text/plain"}, b"this is not for other sites\n", body)
        asked = urlsplit(self.path)
        if asked.path == f"{ROOT}/stream":  # a recorded run: nothing comes, and a browser need not ask again
            return self._send(204, {}, b"", body)
        try:
            query = dict(parse_qsl(asked.query, max_num_fields=LONGEST_QUERY))
        except ValueError:
            query = {}
        status, headers, content = self.server.site.respond(asked.path, query)
        return self._send(status, headers, content, body)

    def _send(self, status: int, headers: Mapping[str, str], content: bytes, body: bool) -> None:
        self.send_response(status)
        for name, value in {**SECURITY, **headers}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are nobody's business."""


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
