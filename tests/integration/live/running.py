"""A controller that runs while a test looks at the cluster, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from bench.bench import Bench
from gfs.assembly.parameters import Parameters
from gfs.live.service import LiveOptions, Service
from gfs.live.settings import LIVE_DEFAULTS, LiveSettings
from waiting import LONGEST

QUICK = LiveSettings(burst=0.01, hang_timeout=1.5, lease_seconds=6.0)


@contextmanager
def running(
    bench: Bench,
    *,
    settings: LiveSettings = QUICK,
    parameters: dict[str, Any] | None = None,
    kubeconfig: Path | None = None,
    **options: Any,
) -> Iterator[Service]:
    """A service that decides; all spot tasks may start unless the parameters say otherwise."""
    chosen = Parameters(**{**LIVE_DEFAULTS, "quota": "none", **(parameters or {})})
    wanted = LiveOptions(
        settings=settings, parameters=chosen, kubeconfig=kubeconfig or bench.kubeconfig, **{"elect": False, **options}
    )
    loop = asyncio.new_event_loop()
    service: list[Service] = []
    problems: list[BaseException] = []
    ready = threading.Event()

    async def main() -> None:
        service.append(Service(wanted))
        work = asyncio.create_task(service[0].run())
        stopping.append(work)
        while service[0].controller is None and not work.done():
            await asyncio.sleep(0.01)
        ready.set()
        with suppress(asyncio.CancelledError):
            await work

    stopping: list[asyncio.Task[None]] = []

    def run() -> None:
        try:
            loop.run_until_complete(main())
        except BaseException as error:
            problems.append(error)
        finally:
            ready.set()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        assert ready.wait(LONGEST)
        if problems:
            raise problems[0]
        yield service[0]
    finally:
        if stopping and not loop.is_closed():
            loop.call_soon_threadsafe(stopping[0].cancel)
        thread.join(LONGEST)
        assert not thread.is_alive()
        if problems:  # rather than what a test saw of it
            raise problems[0]


def quick(**changes: Any) -> LiveSettings:
    return msgspec.structs.replace(QUICK, **changes)


def until(service: Service, so: Callable[[], object]) -> None:
    """Wait until the controller has come to something; it is looked at in its own thread."""
    controller, done = service.controller, threading.Event()
    assert controller is not None

    def look() -> None:
        if so():
            done.set()
        else:
            controller._loop.call_later(0.02, look)

    controller._loop.call_soon_threadsafe(look)
    assert done.wait(LONGEST)
