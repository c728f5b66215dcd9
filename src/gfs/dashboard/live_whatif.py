"""What if, asked of a running controller: its day so far is simulated in another process, so that no decision waits."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Final, cast
from urllib.parse import parse_qsl, urlencode

import msgspec

from gfs.assembly.parameters import Parameters
from gfs.dashboard.files import RunTables
from gfs.dashboard.whatif import Progress, Simulated, Variant, WhatIf, WhatIfRun, simulate_variant
from gfs.dashboard.wire import Recording
from gfs.domain.errors import GfsError, InputError
from gfs.domain.workload import Workload

CONTEXT: Final = multiprocessing.get_context("spawn")
DAYS: Final = 2
"""So many days are kept, each with the runs that were asked for."""
NICE: Final = 10
"""The other process gets what the machine has to spare."""


class LiveWhatIf:
    """Simulates variants of what was recorded until somebody asked."""

    def __init__(self, day: Callable[[], tuple[RunTables, Workload]], scheduler: str, parameters: Parameters) -> None:
        self._day, self._scheduler = day, scheduler
        self._parameters = parameters.changed({"resources": "off"})
        self._days: dict[str, WhatIf] = {}
        self._asked = 0
        self._lock = threading.Lock()

    def ask(self, query: Mapping[str, str]) -> WhatIfRun:
        """How far a variant is; without a `day` it is one of all that was recorded up to now."""
        day = query.get("day", "")
        with self._lock:
            if not day:
                day = self._begin()
            if day not in self._days:
                raise InputError("this day is no longer kept: ask again")
            whatif = self._days[day]
        run = whatif.ask({name: value for name, value in query.items() if name != "day"})
        return msgspec.structs.replace(run, day=day, key=f"{urlencode({'day': day})}&{run.key}")

    def _begin(self) -> str:
        tables, workload = self._day()
        if not workload.tasks:
            raise InputError("nothing was recorded yet")
        told = replace(tables, scheduler=self._scheduler, parameters=self._parameters.to_dict())
        self._asked += 1
        day = str(self._asked)
        self._days[day] = WhatIf(told, workload, self._elsewhere)
        while len(self._days) > DAYS:
            del self._days[next(iter(self._days))]
        return day

    def recording(self, key: str) -> Recording:
        """The recording of a variant that is done."""
        asked = dict(parse_qsl(key))
        whatif = self._days.get(asked.pop("day", ""))
        if whatif is None:
            raise InputError(f"there is no run {key!r}: ask for it first")
        return whatif.recording(urlencode(asked))

    def _elsewhere(self, asked: Variant, progress: Progress) -> Simulated:
        """In another process, which ends with this one."""
        told, tell = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_simulate, args=(asked, tell), daemon=True)
        process.start()
        tell.close()
        try:
            while isinstance(answer := told.recv(), float):
                progress(answer)
        except EOFError:
            raise InputError("the simulation ended early: is there enough memory?") from None
        finally:
            process.join()
        if isinstance(answer, str):
            raise InputError(answer)
        return cast(Simulated, answer)


def _simulate(asked: Variant, tell: Connection) -> None:
    """Tells how far it is, and in the end what came out or what went wrong."""
    os.nice(NICE)
    try:
        tell.send(simulate_variant(asked, tell.send))
    except GfsError as error:
        tell.send(str(error))
