"""What a request is answered with: pure, so that any server can ask."""

from __future__ import annotations

import gzip
import html
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

import msgspec

from gfs.dashboard import page
from gfs.dashboard.api import ENDPOINTS, LIVE_ENDPOINT, ROOT, Life, Problem, Queue, Status, openapi
from gfs.dashboard.replay import moment_of
from gfs.dashboard.whatif import WhatIfRun
from gfs.dashboard.wire import Recording
from gfs.domain.errors import InputError

JSON, HTML = "application/json", "text/html; charset=utf-8"
FRESH: Final = {"Cache-Control": "no-store"}


class Source(Protocol):
    """Where answers come from: a recorded run or a running controller."""

    @property
    def recording(self) -> Recording:
        """All that is known."""

    def status(self, time: float | None) -> Status:
        """The cluster at a moment."""

    def queue(self, time: float | None, pool: str = "", organization: str = "", kind: str = "") -> Queue:
        """Who waits."""

    def life(self, name: str) -> Life:
        """The life of a task; raises InputError for one that is not known."""


class Simulates(Protocol):
    """Who answers what would have been."""

    def ask(self, query: Mapping[str, str]) -> WhatIfRun:
        """How far a variant is; it begins if it is asked for the first time."""

    def recording(self, key: str) -> Recording:
        """The recording of a variant that is done."""


class Response(NamedTuple):
    """Status, headers and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Site:
    """The page, its files and the API over a source."""

    def __init__(self, source: Source, whatif: Simulates | None = None) -> None:
        self._source, self._whatif = source, whatif
        self._packed: tuple[int, bytes] | None = None
        self._routes: dict[str, Callable[[Mapping[str, str]], Response]] = {
            "/": lambda _: _answer(page.served_page(source.recording.title).encode(), HTML),
            "/static/page.js": lambda _: _answer(page.script().encode(), "text/javascript; charset=utf-8"),
            "/static/page.css": lambda _: _answer(page.style().encode(), "text/css; charset=utf-8"),
            f"{ROOT}/": lambda _: _answer(schema_page().encode(), HTML),
            f"{ROOT}/openapi.json": lambda _: _answer(json.dumps(openapi()).encode(), JSON),
            f"{ROOT}/status": lambda query: _json(source.status(moment_of(query.get("t")))),
            f"{ROOT}/queue": self._queue,
            f"{ROOT}/recording": self._recording,
        }
        if whatif is not None:
            self._routes[f"{ROOT}/whatif"] = lambda query: _json(whatif.ask(query))

    def respond(self, path: str, query: Mapping[str, str]) -> Response:
        """The answer to a GET of this path, as it stands in the request, and of these parameters."""
        try:
            if path in self._routes:
                return self._routes[path](query)
            task = path.removeprefix(f"{ROOT}/tasks/")
            if task not in (path, ""):
                return _json(self._source.life(unquote(task)))
        except InputError as error:
            unknown = path.startswith(f"{ROOT}/tasks/")
            return _json(Problem(str(error)), 404 if unknown else 400)
        return _json(Problem(f"there is nothing at {path}; {ROOT}/ says what there is"), 404)

    def _queue(self, query: Mapping[str, str]) -> Response:
        asked = {name: query.get(name, "") for name in ("pool", "organization", "kind")}
        return _json(first_of(self._source.queue(moment_of(query.get("t")), **asked), query.get("limit", "")))

    def _recording(self, query: Mapping[str, str]) -> Response:
        """Packed; once for as long as nothing is added."""
        if self._whatif is not None and query.get("variant"):
            variant = msgspec.json.encode(self._whatif.recording(query["variant"]))
            return _answer(gzip.compress(variant, 5, mtime=0), JSON, packed=True)
        recording = self._source.recording
        if self._packed is None or self._packed[0] != recording.last_id:
            self._packed = (recording.last_id, gzip.compress(msgspec.json.encode(recording), 6, mtime=0))
        return _answer(self._packed[1], JSON, packed=True)


def first_of(queue: Queue, limit: str) -> Queue:
    """Those that have waited longest, no more than `limit` if that is a number."""
    return msgspec.structs.replace(queue, waiting=queue.waiting[: int(limit)]) if limit.isdecimal() else queue


def _json(value: msgspec.Struct, status: int = 200) -> Response:
    return _answer(msgspec.json.encode(value), JSON, status)


def _answer(body: bytes, kind: str, status: int = 200, packed: bool = False) -> Response:
    encoding = {"Content-Encoding": "gzip"} if packed else {}
    return Response(status, {**page.SECURITY, **FRESH, "Content-Type": kind, **encoding}, body)


@cache
def schema_page() -> str:
    """The API as a page for people: addresses, then the fields of each type."""
    document = openapi()
    rows: list[tuple[str, ...]] = [
        (f"GET {ROOT}{endpoint.path}", endpoint.about, ", ".join(name for name, _, _ in endpoint.query))
        for endpoint in (*ENDPOINTS, LIVE_ENDPOINT)
    ]
    rows.append((f"GET {ROOT}/stream", document["paths"][f"{ROOT}/stream"]["get"]["summary"], ""))
    parts = [_table("Addresses", ("address", "answers", "may be asked"), rows)]
    for name, schema in document["components"]["schemas"].items():
        fields: list[tuple[str, ...]] = [
            (field, _type(told), "" if field in schema.get("required", ()) else "yes")
            for field, told in schema.get("properties", {}).items()
        ]
        about = schema.get("description", "")
        parts.append(f"<section><h2>{html.escape(name)}</h2><p>{html.escape(about)}</p>")
        parts.append(_table("Fields", ("field", "type", "may be missing"), fields) + "</section>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>API - GFS</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="../../static/page.css"></head><body><header><h1>API of GFS</h1>'
        f'<p>Read-only JSON. <a href="openapi.json">openapi.json</a> is the same for programs.</p></header>'
        f"<main>{''.join(parts)}</main></body></html>\n"
    )


def _table(caption: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def cells(tag: str, row: tuple[str, ...]) -> str:
        return "".join(f'<{tag} class="text">{html.escape(cell)}</{tag}>' for cell in row)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="table"><table><caption>{caption}</caption><thead><tr>{cells("th", head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _type(told: Mapping[str, Any]) -> str:
    """A schema in a word or two."""
    if "$ref" in told:
        return str(told["$ref"]).rpartition("/")[2]
    if "anyOf" in told:
        return " or ".join(_type(each) for each in told["anyOf"])
    if "enum" in told:
        return " or ".join(str(each) for each in told["enum"])
    if told.get("type") == "array":
        return f"list of {_type(told.get('items', {}))}"
    return str(told.get("type", "anything"))
