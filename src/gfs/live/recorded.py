"""What the event log says so far: which tasks have not ended, where their runs are, which GPUs those hold.

A log must make sense by itself, whatever happened to who wrote it. A process that was killed may not have written its
last decision, and after a restart the core may count the GPUs of a node in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.csv

from gfs.core.node import Node, Place
from gfs.core.run import Run
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task

COLUMNS = ("time", "event", "task", "kind", "organization", "gpu_model", "run", "node", "cards", "gpus")


@dataclass(slots=True, eq=False)
class RecordedTask:
    """A task that has not ended, as the log has it."""

    task: Task
    """With the name that it is recorded by."""
    submitted: float
    runs: int = 0
    pods: int = 0
    """Of its runs, which are all of one size; 0: it has not run yet."""
    began: float | None = None
    """When its run began; None: it waits."""
    places: list[Place] = field(default_factory=list)
    """Where its run is, with the GPUs that the log has for it."""
    work: float = 0.0
    """Seconds of useful work in runs that are over."""

    def ran(self, until: float, rules: ExecutionRules) -> float:
        """Seconds of work that its run has done by then."""
        began = until if self.began is None else self.began
        return max(0.0, until - began - rules.overhead(self.task, self.runs))

    def is_on(self, run: Run) -> bool:
        """Whether its run is where this one is."""
        return self.began is not None and _nodes(self.places) == _nodes(run.places)

    def run(self, start: float) -> Run:
        """Its run, for a row of the log."""
        return Run(self.task, self.runs, list(self.places), start, start)


def _nodes(places: Iterable[Place]) -> Counter[str]:
    held: Counter[str] = Counter()
    for node, _, cards in places:
        held[node.name] += cards
    return held


class RecordedCards:
    """Which GPUs of each node the log has as held."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        """Node -> a set of GPUs: bit i stands for GPU i."""

    def take(self, places: Iterable[Place]) -> list[Place]:
        """Hold what a run holds: the same GPUs as in the core, where the log has them free, else others."""
        taken = []
        for node, mask, held in places:
            if mask & self._held[node.name]:
                mask = _lowest(self._held[node.name], mask.bit_count())
            self._held[node.name] |= mask
            taken.append((node, mask, held))
        return taken

    def give_back(self, places: Iterable[Place]) -> None:
        """A run is over."""
        for node, mask, _ in places:
            self._held[node.name] &= ~mask


def _lowest(held: int, count: int) -> int:
    """The lowest GPUs that are not held."""
    mask = card = 0
    while mask.bit_count() < count:
        mask |= (1 << card) & ~held
        card += 1
    return mask


def read_log(path: Path, rules: ExecutionRules) -> tuple[dict[str, RecordedTask], set[str], float]:
    """Tasks that have not ended by name, the names of all tasks, and the time of the last row."""
    left: dict[str, RecordedTask] = {}
    names: set[str] = set()
    last = 0.0
    for row in _rows(path):
        time, event, name, kind, organization, model, run, node, cards, gpus = row
        last = max(last, time)
        known = left.get(name)
        if event == "submit":
            names.add(name)
            task = _task(name, organization, model, kind, gpus, time)
            left[name] = RecordedTask(task, time)
        elif known is None:
            continue
        elif event == "start":
            if known.began is None:
                known.began, known.places = time, []
            known.runs = int(run)
            mask = sum(1 << int(card.partition(":")[0]) for card in str(cards).split("+"))
            known.places.append((_node(node, model), mask, mask.bit_count()))
            known.pods = len(known.places)
            known.task = _task(name, organization, model, kind, gpus, known.submitted, known.pods)
        elif event in ("finish", "cancel"):
            del left[name]
        elif known.began is not None:  # evict or lost, the first of its pods
            known.work += rules.saved_at_loss(known.task, known.ran(time, rules))
            known.began, known.places = None, []
    return left, names, last


def _rows(path: Path) -> Iterator[tuple[Any, ...]]:
    texts = {name: pyarrow.string() for name in ("task", "kind", "organization", "gpu_model", "node", "cards")}
    options = pyarrow.csv.ConvertOptions(
        include_columns=list(COLUMNS), column_types={**texts, "time": pyarrow.float64(), "gpus": pyarrow.float64()}
    )
    for batch in pyarrow.csv.open_csv(path, convert_options=options):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _task(name: str, organization: str, model: str, kind: str, gpus: float, time: float, pods: int = 1) -> Task:
    """A task as far as the log knows it."""
    return Task(
        index=-1,
        name=name,
        organization=organization,
        gpu_model=model,
        priority=Priority.HP if kind == Priority.HP.label else Priority.SPOT,
        pods=pods,
        gpus_per_pod=gpus,
        submit_time=time,
    )


def _node(name: str, model: str) -> Node:
    return Node(NodeSpec(index=0, name=name, gpu_model=model, gpus=1))
