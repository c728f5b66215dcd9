"""What the event log says so far: tasks that have not ended, the places of their runs, and the GPUs those hold.

The log stays consistent by itself. A process that was killed may not have written its last decisions, and after a
restart the core may number the GPUs of a node in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.csv

from gfs.core.actions import CANCEL, FINISH
from gfs.core.node import Node, Place
from gfs.core.run import Run
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.telemetry.event_log import EVENTS

TEXTS = ("event", "task", "kind", "organization", "gpu_model", "node", "cards")
COLUMNS = ("time", "event", "task", "kind", "organization", "gpu_model", "run", "node", "cards", "gpus")
FROM_LOG = -1
"""The index of a task that is known from the log alone: the log has no CPUs, guarantees and checkpoints."""


@dataclass(slots=True, eq=False)
class RecordedTask:
    """A task that has not ended, as the log has it. All its runs have the same shape."""

    key: str
    """Its name in the cluster. A name can come again, so the log numbers them: `NAME`, `NAME~2`, ..."""
    task: Task
    """With its name in the log, and the pods that it started with."""
    submitted: float
    runs: int = 0
    began: float | None = None
    """When its run began; None: it waits."""
    places: list[Place] = field(default_factory=list)
    """One for each pod of its run, with the GPUs that the log has for it."""
    alive: Counter[str] = field(default_factory=Counter)
    """Node -> pods of its run that have not ended. The log keeps the others until the run ends, or is split."""
    progress: list[float] = field(default_factory=list)
    """Seconds of work of each run that is over."""

    def learn(self, task: Task) -> None:
        """Take from the cluster what the log does not have, unless it is known."""
        if self.task.index == FROM_LOG:
            known = self.task
            shape = {name: getattr(known, name) for name in ("pods", "gpus_per_pod", "gpu_model", "priority")}
            self.task = replace(task, name=known.name, **(shape if self.runs else {}))

    def has_shape_of(self, task: Task) -> bool:
        """Whether a run of `task` can be the next one of this task."""
        return not self.runs or _shape(self.task) == _shape(task)

    def goes_on_at(self, places: Iterable[Place]) -> bool:
        """Whether its run is the one at these places, with all of its pods or some; note which are left."""
        alive = pods_by_node(places)
        if self.began is None or not alive <= pods_by_node(self.places):
            return False
        self.alive = alive
        return True

    def begin(self, task: Task, places: list[Place], time: float) -> None:
        """Its next run begins."""
        self.task = replace(task, name=self.task.name, pods=len(places))
        self.runs += 1
        self.began, self.places, self.alive = time, places, pods_by_node(places)

    def stop(self, time: float, rules: ExecutionRules) -> None:
        """Its run, if it has one, is over."""
        if self.began is not None:
            self.progress.append(max(0.0, time - self.began - rules.overhead(self.task, self.runs)))
        self.began, self.places = None, []
        self.alive.clear()

    def duration(self, what: int, time: float, rules: ExecutionRules) -> float:
        """Seconds that it takes in a trace: its work; at least its time here if it was cancelled."""
        if what == CANCEL:
            return max(0.0, time - self.submitted)
        *early, last = self.progress
        return sum(rules.saved_at_loss(self.task, each) for each in early) + last

    def run(self) -> Run | None:
        """Its run, for an entry of the log."""
        if self.began is None:
            return None
        return Run(self.task, self.runs, list(self.places), self.began, self.began)


def _shape(task: Task) -> tuple[Any, ...]:
    return task.pods, task.gpus_per_pod, task.gpu_model, task.priority


def pods_by_node(places: Iterable[Place]) -> Counter[str]:
    """How many of these places, one for each pod, are on each node."""
    return Counter(node.name for node, _, _ in places)


class RecordedGpus:
    """Which GPUs of each node are held in the log, as sets: bit i stands for GPU i."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def held(self, node: str) -> int:
        """Returns the number of GPUs that are held on a node."""
        return self._held[node].bit_count()

    def take(self, places: Iterable[Place], nodes: Mapping[str, NodeSpec]) -> list[Place]:
        """Hold the same GPUs as in the core where the log has them, and has them free, else the lowest free ones."""
        taken = []
        for node, mask, cards in places:
            held = self._held[node.name]
            if mask & held or mask.bit_length() > nodes[node.name].gpus:
                mask = _lowest(held, mask.bit_count())
            taken.append((node, mask, cards))
            self.hold(taken[-1:])
        return taken

    def hold(self, places: Iterable[Place]) -> None:
        """Hold just these GPUs."""
        for node, mask, _ in places:
            self._held[node.name] |= mask

    def give_back(self, places: Iterable[Place]) -> None:
        """Free the GPUs of a run that is over."""
        for node, mask, _ in places:
            self._held[node.name] &= ~mask


def _lowest(held: int, count: int) -> int:
    mask = card = 0
    while mask.bit_count() < count:
        mask |= (1 << card) & ~held
        card += 1
    return mask


@dataclass(slots=True)
class LogSoFar:
    """What an earlier process has written."""

    tasks: dict[str, RecordedTask] = field(default_factory=dict)
    """Name in the log -> a task that has not ended."""
    unlisted: list[tuple[RecordedTask, int, float]] = field(default_factory=list)
    """Tasks that have ended, how and when, but have no row in `jobs.csv`."""
    numbers: dict[int, int] = field(default_factory=dict)
    """Hash of a name in the cluster -> the number of the last task of that name."""
    last: float = 0.0
    """The time of the last row."""
    half: int = 0
    """Rows at the end that are of some pods of a gang and not of all: the process was killed while it wrote."""


def split_name(name: str) -> tuple[str, int]:
    """Returns the name in the cluster and the number of a task in the log: ('train', 2) for `train~2`."""
    base, _, number = name.rpartition("~")
    return (base, int(number)) if number.isdecimal() else (name, 1)


def read_log(path: Path, nodes: Mapping[str, NodeSpec], listed: Collection[str], rules: ExecutionRules) -> LogSoFar:
    """Read an event log. `nodes` are those of the log, `listed` the names that have a row in `jobs.csv`."""
    so_far, largest = LogSoFar(), Counter[str]()
    for spec in nodes.values():
        largest[spec.gpu_model] = max(largest[spec.gpu_model], spec.gpus)
    for time, event, name, kind, organization, model, run, node, cards, gpus in _rows(path):
        so_far.last = max(so_far.last, time)
        known = so_far.tasks.get(name)
        if event == "submit":
            key, number = split_name(name)
            so_far.numbers[hash(key)] = max(number, so_far.numbers.get(hash(key), 0))
            pods = int(gpus) if gpus > largest[model] > 0 else 1  # of a gang that never ran the log has the sum
            priority = Priority.HP if kind == Priority.HP.label else Priority.SPOT
            task = Task(FROM_LOG, name, organization, model, priority, pods, gpus / pods, time)
            so_far.tasks[name] = RecordedTask(key, task, time)
        elif known is not None and event == "start":
            if known.began is None:
                known.began, known.runs = time, int(run)
            known.places.append((Node(nodes.get(node) or NodeSpec(0, node, model, 1)), _mask(cards), int(gpus)))
            known.alive[node] += 1
            if known.runs == 1:
                known.task = replace(known.task, gpu_model=model, pods=len(known.places), gpus_per_pod=gpus)
            so_far.half = len(known.places) if len(known.places) < known.task.pods else 0
        elif known is not None:
            what = EVENTS.index(event)
            known.places = [each for each in known.places if (each[0].name, each[1]) != (node, _mask(cards))]
            so_far.half = known.task.pods - len(known.places) if known.places else 0
            if not known.places:
                known.stop(time, rules)
                if what in (FINISH, CANCEL):
                    del so_far.tasks[name]
                    if name not in listed:
                        so_far.unlisted.append((known, what, time))
    return so_far


def _mask(cards: str) -> int:
    return sum(1 << int(card.partition(":")[0]) for card in cards.split("+") if card)


def _rows(path: Path) -> Iterator[tuple[Any, ...]]:
    types = {name: pyarrow.string() for name in TEXTS} | {name: pyarrow.float64() for name in ("time", "gpus")}
    options = pyarrow.csv.ConvertOptions(include_columns=list(COLUMNS), column_types=types)
    for batch in pyarrow.csv.open_csv(path, convert_options=options):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
