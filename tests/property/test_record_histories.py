"""Whatever happens to tasks, runs and recorders, the log that is left keeps the rules of an event log."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

import needs
from gfs.core.actions import CANCEL, EVICT, FINISH, LOST, START, SUBMIT
from gfs.core.node import WHOLE, Node, Place
from gfs.core.run import Run
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.live.record import Recorder
from numbered_log import numbered

AUDITOR = needs.SHARED / "tools" / "audit_events.py"
NAMES = 6
SIZES = (4, 4, 2)
"""GPUs of the nodes n0, n1, ... at first."""
STEPS = (
    *["nothing", "submit", "start", "pod ends", "finish", "evict", "lost", "cancel", "rest", "adopt", "resize"],
    *["broken", "write", "unwritten", "kill", "cut", "back", "submit", "start", "submit", "start", "pod ends"],
)
HISTORY = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.integers(0, 3)), min_size=40, max_size=120)


@dataclass
class Live:
    """A task of the cluster. `pods`: node -> its pods that run there."""

    task: Task
    pods: Counter[int] = field(default_factory=Counter)


class World:
    """A cluster that is never over-committed, and the recorder that hears of it, as long as one runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.indices = folder, 1000.0, 0
        self.sizes, self.live, self.done = list(SIZES), dict[str, Live](), set[str]()
        self.recorder: Recorder | None = None
        self.before = self.written()
        self.restart(0)

    def written(self) -> dict[str, int]:
        """The sizes of the files, in the order they are written."""
        paths = [self.folder / name for name in ("events.csv", "jobs.csv")]
        return {path.name: path.stat().st_size if path.exists() else 0 for path in paths}

    def nodes(self) -> list[NodeSpec]:
        return [NodeSpec(i, f"n{i}", "A100", gpus) for i, gpus in enumerate(self.sizes)]

    def run(self, live: Live) -> Run | None:
        nodes = [Node(spec) for spec in self.nodes()]
        places: list[Place] = [(nodes[node], live.task, pods, WHOLE) for node, pods in live.pods.items()]
        return Run(live.task, 1, places, self.now, self.now) if places else None

    def tell(self, what: int, live: Live, run: Run | None = None) -> None:
        if self.recorder is not None:
            self.recorder.record((self.now, what, live.task, run, None))

    def place(self, live: Live, choice: int) -> bool:
        """Put all pods of a task where there is room, on the first nodes or on the last."""
        held = Counter[int]()
        for each in self.live.values():
            for node, count in each.pods.items():
                held[node] += count * each.task.cards
        pods = Counter[int]()
        for _ in range(live.task.pods):
            for node in sorted(range(len(self.sizes)), reverse=bool(choice & 1)):
                if held[node] + live.task.cards <= self.sizes[node]:
                    held[node] += live.task.cards
                    pods[node] += 1
                    break
            else:
                return False
        live.pods = pods
        return True

    def end(self, name: str, what: int) -> None:
        live = self.live[name]
        run, live.pods = self.run(live), Counter()
        if what in (FINISH, CANCEL):
            del self.live[name]
            self.done |= {name} if what == FINISH else set()
        self.tell(what, live, run)

    def submit(self, number: int, choice: int) -> None:
        name = f"lab/t{number % NAMES}"
        if name not in self.live:
            self.done.discard(name)
            self.indices += 1
            kind = Priority.SPOT if choice & 1 else Priority.HP
            pods, gpus = number // NAMES % 4 + 1, 1.0 + (choice >> 1)
            interval = 10.0 * (1 + number % 3)
            task = Task(self.indices, name, "lab", "A100", kind, pods, gpus, self.now, checkpoint_interval=interval)
            self.live[name] = Live(task)
            self.tell(SUBMIT, self.live[name])

    def step(self, what: str, number: int, choice: int) -> None:
        self.now += number
        waiting = [name for name, live in self.live.items() if not live.pods]
        running = [name for name, live in self.live.items() if live.pods]
        names = waiting if what == "start" else [*self.live] if what == "cancel" else running
        name = names[number % len(names)] if names else ""
        if what == "submit":
            self.submit(number, choice)
        elif what == "resize":
            self.sizes[choice % len(self.sizes)] = 1 + number % 5
        elif what == "start" and name:
            if self.place(self.live[name], choice):
                self.tell(START, self.live[name], self.run(self.live[name]))
        elif what == "pod ends" and name:
            self.pod_ends(name, number)
        elif what == "rest" and name:
            self.rest(name)
        elif what == "adopt" and name:
            self.adopt(self.live[name], choice)
        elif what in ("finish", "lost", "cancel") and name:
            self.end(name, {"finish": FINISH, "lost": LOST, "cancel": CANCEL}[what])
        elif what == "evict" and name and self.live[name].task.is_spot:
            self.end(name, EVICT)
        else:
            self.keep(what, number, choice)

    def pod_ends(self, name: str, number: int) -> None:
        """A pod of a gang is done; the others go on, as a smaller task."""
        live = self.live[name]
        if live.task.pods == 1:
            self.end(name, FINISH)
            return
        node = [*live.pods][number % len(live.pods)]
        live.pods -= Counter([node])
        live.task = replace(live.task, pods=live.task.pods - 1)
        run = self.run(live)
        if self.recorder is not None and run is not None:
            self.recorder.record((self.now, START, run.task, run, None))

    def rest(self, name: str) -> None:
        """Of a gang one pod is done and the others are lost."""
        live = self.live[name]
        self.end(name, LOST)
        live.task = replace(live.task, pods=max(live.task.pods - 1, 1))
        self.tell(SUBMIT, live)

    def adopt(self, live: Live, choice: int) -> None:
        """The controller takes over a run as another object: another index, maybe elsewhere."""
        before, live.pods = live.pods, Counter()
        if choice < 2 or not self.place(live, choice):
            live.pods = before
        self.indices += 1
        live.task = replace(live.task, index=self.indices)
        if choice & 1:
            self.tell(SUBMIT, live)
        self.tell(START, live, self.run(live))

    def keep(self, what: str, number: int, choice: int) -> None:
        """Something happens to the recorder."""
        recorder = self.recorder
        if recorder is None:
            if what in ("write", "unwritten", "kill", "cut"):
                self.restart(choice)
        elif what == "broken":
            task = Task(0, f"lab/t{number % NAMES}", "lab", "A100", Priority.SPOT, 1, 1.0, self.now)
            run = cast(Run, SimpleNamespace(places=None, nodes=None, task=task))
            recorder.record((self.now, START, task, run, None))
            recorder.record(cast(Any, (self.now, START, None, None, None)))
        elif what == "unwritten":
            recorder.flush(self.nodes(), lambda: False)
        elif what == "write":
            self.write(recorder)
        elif what == "back":
            self.now -= 100 * number
        elif what in ("kill", "cut"):
            self.recorder = None
            if what == "cut":
                self.cut(recorder, number)

    def write(self, recorder: Recorder) -> None:
        self.before = self.written()
        recorder.flush(self.nodes())

    def cut(self, recorder: Recorder, number: int) -> None:
        """The process is killed while it writes."""
        self.write(recorder)
        after = self.written()
        left = sum(after.values()) - sum(self.before.values())
        left = left * number // 100
        for name, size in self.before.items():
            kept = min(left, after[name] - size)
            with (self.folder / name).open("r+b") as file:
                file.truncate(size + kept)
            left -= kept

    def restart(self, choice: int) -> None:
        """Another process takes over. It reconciles the log before it records, and may find tasks again."""
        self.recorder = recorder = Recorder(self.folder, ExecutionRules())
        recorder.open()
        recorder.note_nodes(self.nodes())
        for live in self.live.values():
            self.indices += 1
            live.task = replace(live.task, index=self.indices)
        runs = [run for live in self.live.values() if (run := self.run(live)) is not None]
        recorder.reconcile(self.now, runs, [name for name, live in self.live.items() if not live.pods], self.done)
        if choice & 1:
            for live in self.live.values():
                self.tell(SUBMIT, live)
        if choice & 2:
            for live in self.live.values():
                if live.pods:
                    self.tell(START, live, self.run(live))


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def broken_rules(folder: Path) -> Iterator[str]:
    """Our own look at a record of which every task has ended."""
    sizes = {row["node_name"]: int(row["gpu_capacity_num"]) for row in table(folder / "nodes.csv")}
    listed = table(folder / "jobs.csv")
    jobs = {row["job_name"]: row for row in listed}
    held, last = Counter[str](), 0.0
    submitted, running, ended = set[str](), dict[str, list[tuple[str, int]]](), set[str]()
    runs, entries = Counter[str](), list[tuple[tuple[str, ...], list[tuple[str, int]]]]()
    for row in table(folder / "events.csv"):
        if float(row["time"]) < last:
            yield f"time goes back: {row}"
        last = float(row["time"])
        entry = tuple(row[name] for name in ("time", "event", "task", "run"))
        if not entries or entries[-1][0] != entry:
            entries.append((entry, []))
        entries[-1][1].append((row["node"], int(row["gpus"])))
    for (_, event, task, run), pods in entries:
        gpus = Counter[str]()
        for node, count in pods:
            gpus[node] += count if node else 0
        if task in ended or (task in submitted) == (event == "submit"):
            yield f"{event} of {task}, which has ended or was not submitted"
        if event == "submit":
            submitted.add(task)
        elif event == "start":
            runs[task] += 1
            if task in running or int(run) != runs[task]:
                yield f"{task} starts as run {run} after {runs[task] - 1}"
            held += gpus
            if any(held[node] > sizes[node] for node in gpus):
                yield f"{task} starts on GPUs that are held or not there: {gpus}"
            if len(pods) != int(jobs[task]["worker_num"]):
                yield f"{task} starts with {len(pods)} pods of {jobs[task]['worker_num']}"
            running[task] = pods
        elif sorted(running.pop(task, [])) != sorted(pod for pod in pods if pod[0]) or (
            event != "cancel" and not +gpus
        ):
            yield f"{event} of {task} at {pods}, where it does not run"
        held -= gpus if event not in ("submit", "start") else Counter()
        ended |= {task} if event in ("finish", "cancel") else set()
        if event == "evict" and jobs[task]["job_type"] == "HP":
            yield f"HP task {task} is evicted"
    if not (len(listed) == len(jobs) and {*jobs} == ended == submitted):
        yield f"rows of {sorted(row['job_name'] for row in listed)} for tasks {sorted(submitted)}"


def audited(folder: Path) -> str:
    """What the outside auditor finds broken; nothing where it is not at hand."""
    if not AUDITOR.exists():
        return ""
    spec = importlib.util.spec_from_file_location("audit_events", AUDITOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    words = [word for name in ("jobs", "nodes") for word in (f"--{name}", str(folder / f"{name}.csv"))]
    words += ["--events", str(numbered(folder / "events.csv"))]
    said = io.StringIO()
    quiet, heard = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said)
    with mock.patch.object(sys, "argv", ["audit", *words]), quiet, heard:
        broken = module.main()
    return said.getvalue() if broken else ""


@settings(max_examples=150)
@given(HISTORY)
def test_a_record_keeps_the_rules_whatever_happens(history: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        world = World(folder)
        for what, number, choice in history:
            world.step(what, number, choice)
        if world.recorder is None:
            world.restart(0)
        assert world.recorder is not None
        world.recorder.close(world.now)
        world.recorder.flush(world.nodes())
        assert list(broken_rules(folder)) == []
        assert audited(folder) == ""
