"""What the event log says so far: the tasks that have not ended, and how many GPUs their runs hold.

The state follows from the entries of the log, whether they were just recorded or are read after a restart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from gfs.core.actions import CANCEL, FINISH, START, SUBMIT, Record
from gfs.core.run import Run
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task

KIND = ("gpus_per_pod", "gpu_model", "priority")
"""What all pods of a task have in common."""


@dataclass(slots=True, eq=False)
class RecordedTask:
    """A task that has not ended, as the event log has it. All its runs have as many pods of one kind."""

    task: Task
    """With its name in the log."""
    submitted: float
    run: Run | None = None
    """None: it waits."""
    ended: Counter[str] = field(default_factory=Counter)
    """Node -> pods that have ended. The log keeps them until the run ends or is split."""
    lengths: list[float] = field(default_factory=list)
    """Seconds of each run that is over."""

    @property
    def pods(self) -> Counter[str]:
        """Node -> pods of its run."""
        return pods_by_node(self.run) if self.run is not None else Counter()

    def learn(self, task: Task) -> None:
        """Take over what the cluster says of it now. A task that has run keeps the number and kind of its pods."""
        has_run = self.run is not None or self.lengths
        kept = {name: getattr(self.task, name) for name in ("pods", *KIND)} if has_run else {}
        self.task = replace(task, name=self.task.name, **kept)

    def is_like(self, task: Task) -> bool:
        """Returns whether the pods of a task are of the same kind."""
        return all(getattr(self.task, name) == getattr(task, name) for name in KIND)

    def can_start(self, task: Task) -> bool:
        """Returns whether a run of `task` can be the next one of this task."""
        return not self.lengths or (self.task.pods == task.pods and self.is_like(task))

    def goes_on_with(self, task: Task, pods: Counter[str]) -> bool:
        """Returns whether its run is that of `task` with these pods, all of its own or some; notes which have ended."""
        goes_on = pods <= (mine := self.pods) and self.is_like(task)
        if goes_on:
            self.ended = mine - pods
        return goes_on

    def duration(self, what: int, time: float, rules: ExecutionRules) -> float:
        """Returns the seconds that it takes in a trace: its work; at least its time here if it was cancelled."""
        if what == CANCEL:
            return max(0.0, time - self.submitted)
        *early, last = [length - rules.overhead(self.task, run) for run, length in enumerate(self.lengths, 1)]
        return sum(rules.saved_at_loss(self.task, each) for each in early) + max(0.0, last)


class LogState:
    """The state after the last entry of an event log. Tasks are known by their names in the cluster."""

    def __init__(self) -> None:
        self.tasks: dict[str, RecordedTask] = {}
        self.nodes: dict[str, NodeSpec] = {}
        """Every node there was, as large as it ever was."""
        self.last = 0.0
        """The time of the last row."""
        self._numbers: Counter[int] = Counter()
        """Hash of a name in the cluster -> how many tasks of that name are in the log."""
        self._held: Counter[str] = Counter()
        """Node -> GPUs that runs hold."""

    def apply(self, entry: Record) -> RecordedTask | None:
        """Take in the next entry; returns the task that it ends."""
        self.last, what, task, run, _ = entry
        key, number = split_name(task.name)
        if what == SUBMIT:
            self._numbers[hash(key)] = number
            self.tasks[key] = RecordedTask(task, self.last)
        elif (known := self.tasks.get(key)) is not None and what == START and run is not None:
            known.task, known.run, known.ended = task, run, Counter()
            self._held.update(gpus_by_node(run))
        elif known is not None:
            if known.run is not None:
                known.lengths.append(self.last - known.run.start)
                self._held.subtract(gpus_by_node(known.run))
            known.run = None
            return self.tasks.pop(key) if what in (FINISH, CANCEL) else None
        return None

    def is_torn(self, entry: Record) -> bool:
        """Returns whether an entry lacks pods: a process was killed while it wrote."""
        _, _, task, run, _ = entry
        known = self.tasks.get(split_name(task.name)[0])
        if known is None or run is None or (known.run is None and not known.lengths):
            return False
        return run.pods < known.task.pods

    def new_name(self, name: str) -> str:
        """Returns a name for a task that no other task in the log has; `split_name` reads it."""
        number = self._numbers[hash(name)] + 1
        return name if number == 1 else f"{name}~{number}"

    def free(self, node: str) -> int:
        """Returns the number of free GPUs of a node; below 0: its runs hold more than it ever had."""
        return self.nodes[node].gpus - self._held[node]


def pods_by_node(run: Run) -> Counter[str]:
    """Returns the number of pods of a run on each node."""
    pods = Counter[str]()
    for node, _, here, _ in run.places:
        pods[node.name] += here
    return pods


def gpus_by_node(run: Run) -> Counter[str]:
    """Returns the number of GPUs that a run holds on each node."""
    return Counter({node: pods * run.task.cards for node, pods in pods_by_node(run).items()})


def split_name(name: str) -> tuple[str, int]:
    """Returns the name in the cluster and the number of a task in the log: ('train', 2) for `train~2`."""
    base, _, number = name.rpartition("~")
    return (base, int(number)) if number.isdecimal() else (name, 1)
