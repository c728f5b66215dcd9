"""What if: the recorded day simulated with another scheduler, quota or number of nodes, beside what was recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec

from gfs.assembly.parameters import Parameters
from gfs.assembly.run import run_simulation
from gfs.assembly.schedulers import find_scheduler, has_leases
from gfs.dashboard.files import RunTables
from gfs.dashboard.recording import recording_of
from gfs.dashboard.wire import Recording
from gfs.domain.errors import GfsError, InputError
from gfs.domain.workload import Workload
from gfs.plans.runs import with_nodes, without_misfits
from gfs.report.columns import comparison_table
from gfs.telemetry.metrics import Metrics, compute_metrics

SETTINGS: Final = ("quota", "quota_share", "p")
"""Parameters that may be asked for, beside `scheduler` and `nodes`, the share of the nodes."""
KEPT: Final = 8
"""So many runs are kept."""


class WhatIfRun(msgspec.Struct, frozen=True):
    """A run that was asked for: how far it is, or how it compares."""

    key: str
    """Names it: `/api/v1/recording?variant=KEY` is its recording."""
    title: str
    state: Literal["running", "done", "failed"]
    share: float = 0.0
    """Of the tasks that are simulated."""
    error: str = ""
    left_out: int = 0
    """Tasks that fit on no such cluster."""
    headings: list[str] = []
    recorded: list[str] = []
    variant: list[str] = []
    """Figures of the recorded run and of this one, as texts, one a heading."""
    better: list[int] = []
    """By heading: 1 where the variant has the better figure, -1 where the recorded run has, else 0."""
    day: str = ""
    """Live: names the day that is simulated, which ends when it was asked for; to be told when asking again."""


class Variant(NamedTuple):
    """What is to be simulated, and beside what."""

    title: str
    tables: RunTables
    workload: Workload
    scheduler: str
    parameters: Parameters
    nodes: float
    """Share of the nodes."""
    before: Parameters
    """Those of the recorded run."""


class Simulated(NamedTuple):
    """What came out of it."""

    recording: Recording
    left_out: int
    compared: dict[str, Any]


Progress = Callable[[float], None]
Run = Callable[[Variant, Progress], Simulated]


class WhatIf:
    """Simulates variants of a recorded run, one at a time, each once."""

    def __init__(self, tables: RunTables, workload: Workload, run: Run | None = None) -> None:
        """`run`: who simulates; this thread by default."""
        self._tables, self._workload = tables, workload
        self._simulate = run or simulate_variant
        known = {name: value for name, value in tables.parameters.items() if name in Parameters.__struct_fields__}
        self._parameters = Parameters().changed(known)
        self._runs: dict[str, WhatIfRun] = {}
        self._recordings: dict[str, Recording] = {}
        self._busy, self._lock = threading.Lock(), threading.Lock()

    def ask(self, query: Mapping[str, str]) -> WhatIfRun:
        """How far a variant is; it begins if it is asked for the first time. Raises InputError for what cannot be."""
        scheduler = query.get("scheduler") or self._tables.scheduler or "gfs"
        settings = {name: query[name] for name in SETTINGS if query.get(name)}
        find_scheduler(scheduler)
        own = {} if settings or query.get("scheduler") else {"pools": self._parameters.pools}
        parameters = self._parameters.changed({"pools": (), **settings, **own})  # what is asked holds in every pool
        share = _share(query.get("nodes", ""))
        nodes = {} if share == 1 else {"nodes": f"{share:g}"}
        asked = {"scheduler": scheduler, **settings, **nodes}
        key = urlencode(asked)
        with self._lock:
            if key not in self._runs:
                title = ", ".join([scheduler, *(f"{name} = {value}" for name, value in {**settings, **nodes}.items())])
                self._runs[key] = WhatIfRun(key, title, "running")
                threading.Thread(target=self._run, args=(key, scheduler, parameters, share), daemon=True).start()
            return self._runs[key]

    def recording(self, key: str) -> Recording:
        """The recording of a variant that is done."""
        if key not in self._recordings:
            raise InputError(f"there is no run {key!r}: ask for it first")
        return self._recordings[key]

    def _run(self, key: str, scheduler: str, parameters: Parameters, share: float) -> None:
        title = self._runs[key].title
        asked = Variant(title, self._tables, self._workload, scheduler, parameters, share, self._parameters)
        with self._busy:
            try:
                done = self._simulate(asked, lambda part: self._note(key, share=part))
                self._keep(key, done)
            except GfsError as error:
                self._note(key, state="failed", error=str(error))
            except BaseException as error:
                self._note(key, state="failed", error=f"{type(error).__name__}: {error}")
                raise

    def _note(self, key: str, **changes: Any) -> None:
        with self._lock:
            self._runs[key] = msgspec.structs.replace(self._runs[key], **changes)

    def _keep(self, key: str, done: Simulated) -> None:
        self._recordings[key] = done.recording
        while len(self._recordings) > KEPT:
            oldest = next(iter(self._recordings))
            del self._recordings[oldest], self._runs[oldest]
        self._note(key, state="done", share=1.0, left_out=done.left_out, **done.compared)


def simulate_variant(asked: Variant, progress: Progress) -> Simulated:
    """Simulate a variant and compare it with what was recorded."""
    changed, misfits = without_misfits(with_nodes(asked.workload, asked.nodes))
    if not changed.tasks:
        raise InputError(f"no task of the trace fits on {len(changed.nodes):,} nodes")
    tables, parameters, count = asked.tables, asked.parameters, len(changed.tasks)
    result = run_simulation(
        changed,
        asked.scheduler,
        parameters,
        record_quota=True,
        record_decisions=True,
        progress=lambda done: progress(min(done / count, 0.99)),
    )
    run = RunTables(
        result.events,
        changed.nodes,
        tables.promises,
        result.quota,
        changed.node_events,
        asked.scheduler,
        parameters.to_dict(),
        result.decisions or (),
    )
    recording = recording_of(run, f"What if: {asked.title}")
    return Simulated(recording, len(misfits), _compared(_recorded(asked), result.metrics))


def _recorded(asked: Variant) -> Metrics:
    tables = asked.tables
    leases = bool(tables.scheduler) and has_leases(find_scheduler(tables.scheduler))
    return compute_metrics(tables.events, asked.workload, quota=tables.quota, rules=asked.before.rules, leases=leases)


def _share(text: str) -> float:
    try:
        share = float(text or 1)
    except ValueError:
        share = 0.0
    if not 0.05 <= share <= 4:
        raise InputError(f"nodes = {text!r}: give a share of the nodes from 0.05 to 4, such as 0.9")
    return share


def _compared(before: Metrics, after: Metrics) -> dict[str, Any]:
    table = comparison_table([("recorded", before), ("what if", after)])
    columns = table.every_column[1:]
    recorded, variant = (row[1:] for row in table.texts())
    marked = table.marked()
    better = [(1 if (1, at) in marked else 0) - (1 if (0, at) in marked else 0) for at in range(1, len(columns) + 1)]
    return {
        "headings": [column.heading.replace("\n", " ") for column in columns],
        "recorded": list(recorded),
        "variant": list(variant),
        "better": better,
    }
