"""HTTP/1.1 to one server, no more of it than an API server needs: connections kept open, a request at a time on each.

A general client spends several times as long on a request as the rest of us on the pod that it is about.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

HEAD = 65536
"""Bytes of a head, or of a line, at most."""
SAFE = "/:@~"
BODILESS = (204, 304)
IDLE = 15.0
"""Seconds after which an idle connection is not used any more."""


class WireError(ConnectionError):
    """The connection broke, or what came is no HTTP."""


class WireAnswer(NamedTuple):
    """What the server said."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """By names in lower case."""
    content: bytes


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    used: float = 0.0

    def is_good(self) -> bool:
        """Whether it can be used again: open, and not idle for so long that somebody on the way may have cut it."""
        return not self.writer.is_closing() and not self.reader.at_eof() and time.monotonic() - self.used < IDLE


class Wire:
    """Sends requests to one server; as many connections as there are requests at a time."""

    def __init__(self, address: str, tls: ssl.SSLContext | bool = False) -> None:
        """`address`: such as https://10.0.0.1:6443, with a path if the API is not at its root."""
        parts = urlsplit(address)
        self._host, self._tls = parts.hostname or "", tls
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._root, self._name = parts.path.rstrip("/"), parts.netloc.rpartition("@")[2]
        self._idle: list[_Connection] = []

    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        query: Mapping[str, str] | None = None,
    ) -> WireAnswer:
        """One request and its answer; `OSError` if there is none. Whoever waits no longer cancels it."""
        target = self._root + quote(path, safe=SAFE) + (f"?{urlencode(query)}" if query else "")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._name}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join((*lines, "", ""))
        if head.count("\n") != len(lines) + 1:
            raise WireError("a header holds a line break")
        connection = await self._connect()
        try:
            connection.writer.write(head.encode() + (body or b""))
            answer = await _read(connection.reader, method)
        except BaseException as error:  # also when it was cancelled: what comes later belongs to nobody
            connection.writer.transport.abort()
            if isinstance(error, asyncio.IncompleteReadError | asyncio.LimitOverrunError | ValueError | IndexError):
                raise WireError(f"the connection broke in an answer, or it is none ({error})") from error
            raise
        if answer.headers.get("connection", "").lower() == "close":
            connection.writer.close()
        else:
            connection.used = time.monotonic()
            self._idle.append(connection)
        return answer

    async def _connect(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_good():
                return connection
            connection.writer.close()
        return _Connection(*await asyncio.open_connection(self._host, self._port, ssl=self._tls or None, limit=HEAD))

    def close(self) -> None:
        """Close the connections that nobody uses."""
        while self._idle:
            self._idle.pop().writer.close()


async def _read(reader: asyncio.StreamReader, method: str) -> WireAnswer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    version, status, *reason = first.split(" ", 2)
    if not version.startswith("HTTP/1."):
        raise ValueError(f"{first[:40]!r} begins it")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    code = int(status)
    if 100 <= code < 200:
        return await _read(reader, method)
    if method == "HEAD" or code in BODILESS:
        content = b""
    elif headers.get("transfer-encoding", "").lower() == "chunked":
        content = await _chunks(reader)
    elif "content-length" in headers:
        content = await reader.readexactly(int(headers["content-length"]))
    else:
        content = await reader.read()
        headers["connection"] = "close"
    return WireAnswer(code, "".join(reason), headers, content)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    content = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        content += (await reader.readexactly(size + 2))[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # what may follow the last chunk
    return bytes(content)
