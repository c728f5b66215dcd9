"""The page of a replica that was never connected: its real HTTP server, and a story that is told to its recorder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from bench.bench import free_ports
from gfs.assembly.schedulers import build_scheduler
from gfs.core.node import WHOLE
from gfs.core.run import Run
from gfs.dashboard.live_site import LiveDashboard
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task
from gfs.live.serve import HttpServer
from gfs.live.service import LiveOptions, Service
from waiting import LONGEST

BEGIN = 1_700_000_000.0


class Cluster:
    """The replica on a loop of its own."""

    def __init__(self, nodes: int = 2) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.service, self.page = self.call(self._start)
        parameters = self.service.options.parameters
        machines = [NodeSpec(i, f"n{i}", "A100", 8) for i in range(nodes)]
        self.scheduler = build_scheduler("static", machines, parameters, period=1000.0, guarantees={1.0})
        self.nodes = self.scheduler.pools["A100"].state.nodes
        self.server: HttpServer | None = None
        (self.port,) = free_ports(1)

    async def _start(self) -> tuple[Service, LiveDashboard]:
        service = Service(LiveOptions())
        return service, LiveDashboard(service)

    def call(self, work: Callable[[], Any]) -> Any:
        """Run something on the loop."""

        async def run() -> Any:
            done = work()
            return await done if asyncio.iscoroutine(done) else done

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(LONGEST)

    def serve(self) -> None:
        self.server = HttpServer(self.service, f"127.0.0.1:{self.port}", "", self.page.routes())
        self.call(self.server.start)

    def stop(self) -> None:
        assert self.server is not None
        self.call(self.server.stop)

    def tell(self, now: float, *entries: tuple[int, Task, Run | None]) -> None:
        def told() -> None:
            for what, task, run in entries:
                self.service.recorder.record((now, what, task, run, None))
            self.page.live.look(now, self.scheduler)

        self.call(told)

    def run(self, task: Task, node: int) -> Run:
        return Run(task, 1, [(self.nodes[node], task, task.pods, WHOLE)], BEGIN, BEGIN)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
