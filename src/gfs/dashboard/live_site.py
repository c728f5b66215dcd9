"""The page and the API of a running controller, as routes of its server; needs gfs-scheduler[live]."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec
from aiohttp import web

from gfs.core.actions import Record
from gfs.dashboard.api import ROOT, Life, Problem, Queue, Status, WaitingTask
from gfs.dashboard.live import LiveRecording
from gfs.dashboard.live_life import explain_pod
from gfs.dashboard.live_status import live_status
from gfs.dashboard.live_whatif import LiveWhatIf
from gfs.dashboard.page import SECURITY
from gfs.dashboard.replay import KINDS, Replay
from gfs.dashboard.site import Response, Site
from gfs.dashboard.wire import Recording, Rules
from gfs.live.controller import Controller
from gfs.live.explain import expected_room, in_words
from gfs.live.service import Service
from gfs.telemetry.decisions import AnyNote

log = logging.getLogger("gfs.live")
KEEP_ALIVE: Final = 15.0
"""Seconds of silence after which a stream says that it is there: proxies close what is silent."""
TITLE: Final = "GFS on this cluster"


class LiveDashboard:
    """Follows a service and answers about it."""

    def __init__(self, service: Service) -> None:
        options = service.options
        known = {name: getattr(options.parameters.rules, name) for name in Rules.__struct_fields__}
        parameters = options.parameters
        self.live = LiveRecording(TITLE, options.settings.scheduler, parameters.p, Rules(**known), parameters.tick)
        self._service = service
        rules, scheduler = parameters.rules, options.settings.scheduler
        self.whatif = LiveWhatIf(lambda: self.live.day(rules), scheduler, parameters)
        self._site = Site(self, self.whatif)
        self._packed: tuple[int, bytes] | None = None
        service.recorder.listener = self._hear
        service.looked = self._look
        service.noted = self._note

    def _hear(self, entry: Record | None) -> None:
        with self._apart():
            self.live.hear(entry)

    def _note(self, note: AnyNote) -> None:
        with self._apart():
            self.live.note(note)

    def _look(self, controller: Controller) -> None:
        with self._apart():
            self.live.look(controller.now, controller.scheduler)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Whatever goes wrong with a page, the cluster is scheduled."""
        try:
            yield
        except Exception:
            log.exception("the page follows the cluster no longer; decisions go on")
            self._service.recorder.listener = self._service.looked = self._service.noted = None

    def routes(self) -> list[web.RouteDef]:
        """What is added to the routes of the server."""
        return [
            web.get("/", self._answer),
            web.get("/static/{file}", self._answer),
            web.get(f"{ROOT}/stream", self._stream),
            web.get(f"{ROOT}/status", self._status),
            web.get(f"{ROOT}/queue", self._queue),
            web.get(f"{ROOT}/recording", self._recording),
            web.get(f"{ROOT}/pods/{{namespace}}/{{pod}}", self._pod),
            web.get(ROOT + "/{rest:.*}", self._answer),
        ]

    # -- what a site is made of: moments of the past, worked out from the recording ----------------------------

    @property
    def recording(self) -> Recording:
        """All that is known."""
        return self.live.recording

    def status(self, time: float | None) -> Status:
        """The cluster at a moment."""
        return Replay(self.recording).status(time)

    def queue(self, time: float | None, pool: str = "", organization: str = "", kind: str = "") -> Queue:
        """Who waits."""
        return Replay(self.recording).queue(time, pool, organization, kind)

    def life(self, name: str) -> Life:
        """The life of a task that is still in the recording."""
        return Replay(self.recording).life(name)

    # -- answers ----------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Decisions go on meanwhile."""
        return _sent(await asyncio.to_thread(self._site.respond, request.raw_path.partition("?")[0], request.query))

    async def _status(self, request: web.Request) -> web.StreamResponse:
        """Of now: from the controller itself, which knows more than the recording."""
        if request.query.get("t"):
            return await self._answer(request)
        return _json(live_status(self._service, TITLE, next(iter(self.live.recording.entries.time), None)))

    async def _queue(self, request: web.Request) -> web.StreamResponse:
        """Of now: with the reasons that the controller has, which the recording gets only when a wait ends."""
        controller = self._service.controller
        if request.query.get("t") or controller is None:
            return await self._answer(request)
        asked = [request.query.get(name, "") for name in ("pool", "organization", "kind")]
        waiting = [
            (each, controller.now - each.since)
            for pool in controller.scheduler.pools.values()
            for each in pool.state.waiting.values()
        ]
        waiting.sort(key=lambda pair: (-pair[1], pair[0].task.name))
        limit = request.query.get("limit", "")
        most = int(limit) if limit.isdecimal() else len(waiting)
        found: list[WaitingTask] = []
        for each, waited in waiting:
            task = each.task
            told = (task.gpu_model, task.organization, task.priority.label)
            if len(found) < most and all(wish in ("", have) for wish, have in zip(asked, told, strict=True)):
                pool = controller.scheduler.pools[task.gpu_model]
                reason = pool.policy.explain(task)
                why = in_words(pool, task, reason, self._service.options.parameters.history_hours)
                name, kind = self._service.recorder.name_of(task), KINDS[task.is_spot]
                room = expected_room(pool, task, reason)
                expected = (room.time, room.known) if room is not None else (None, False)
                about = (name, kind, task.organization, task.gpu_model, task.gpus, waited, why)
                found.append(WaitingTask(*about, *expected))
        return _json(Queue(controller.now, found))

    async def _recording(self, request: web.Request) -> web.StreamResponse:
        """Encoded here, so that nothing changes meanwhile; packed beside the decisions, once for each patch."""
        if request.query.get("variant"):
            return await self._answer(request)
        last_id = self.live.last_id
        if self._packed is None or self._packed[0] != last_id:
            encoded = msgspec.json.encode(self.live.recording)
            self._packed = (last_id, await asyncio.to_thread(gzip.compress, encoded, 5))
        headers = {**SECURITY, "Content-Type": "application/json", "Content-Encoding": "gzip"}
        return _sent(Response(200, headers, self._packed[1]))

    async def _pod(self, request: web.Request) -> web.StreamResponse:
        service = self._service
        if (controller := service.controller) is None:
            return _json(Problem(f"this replica does not decide; {service.leading or 'nobody'} leads"), 503)
        told = await explain_pod(service, controller, request.match_info["namespace"], request.match_info["pod"])
        if told is None:
            return _json(Problem("no such pod is known"), 404)
        return _json(told)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Patches as server-sent events, first those that were missed."""
        stream = web.StreamResponse(
            headers={**SECURITY, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        seen = _number(request.headers.get("Last-Event-ID") or request.query.get("after", ""))
        await stream.prepare(request)
        with suppress(ConnectionError):
            while True:
                news, patches = self.live.news, self.live.after(seen)
                if patches is None:
                    await stream.write(b"event: reset\ndata: {}\n\n")
                    return stream
                for seen, patch in patches:
                    await stream.write(b"id: %d\ndata: %b\n\n" % (seen, patch))
                try:
                    await asyncio.wait_for(news.wait(), KEEP_ALIVE)
                except TimeoutError:
                    await stream.write(b": still here\n\n")
        return stream


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _json(value: msgspec.Struct, status: int = 200) -> web.StreamResponse:
    headers = {**SECURITY, "Content-Type": "application/json", "Cache-Control": "no-store"}
    return _sent(Response(status, headers, msgspec.json.encode(value)))


def _sent(response: Response) -> web.Response:
    headers: Any = dict(response.headers)
    return web.Response(status=response.status, headers=headers, body=response.body)
