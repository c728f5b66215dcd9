"""A task as the event log has it, and what a row of the log says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from gfs.core.actions import CANCEL
from gfs.core.node import Node, Place
from gfs.core.run import Run
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.live.record_files import Row
from gfs.telemetry.event_log import pods_of

FROM_LOG = -1
"""The index of a task that only the log describes: its CPUs, guarantee and checkpoints are not known."""
SHAPE = ("pods", "gpus_per_pod", "gpu_model", "priority")


@dataclass(slots=True, eq=False)
class RecordedTask:
    """A task that has not ended, as the event log has it. All its runs have the same shape."""

    key: str
    """Its name in the cluster."""
    task: Task
    """With its name in the log."""
    submitted: float
    run: Run | None = None
    """None: it waits."""
    pods: Counter[str] = field(default_factory=Counter)
    """Node -> pods of its run."""
    alive: Counter[str] = field(default_factory=Counter)
    """Those of them that have not ended. The log keeps the others until the run ends or is split."""
    lengths: list[float] = field(default_factory=list)
    """Seconds of each run that is over."""

    def learn(self, task: Task) -> None:
        """Take from the cluster what the log does not have, unless it is known."""
        if self.task.index == FROM_LOG:
            has_run = self.run is not None or self.lengths
            shape = {name: getattr(self.task, name) for name in SHAPE} if has_run else {}
            self.task = replace(task, name=self.task.name, **shape)

    def has_shape_of(self, task: Task) -> bool:
        """Returns whether a run of `task` can be the next one of this task."""
        return not self.lengths or all(getattr(self.task, name) == getattr(task, name) for name in SHAPE)

    def goes_on_with(self, pods: Counter[str]) -> bool:
        """Returns whether its run is the one with these pods, all of its own or some; notes which are left."""
        if pods <= self.pods:
            self.alive = pods
        return pods <= self.pods

    def begin(self, task: Task, places: list[Place], time: float) -> None:
        """Begin the next run."""
        self.task = renamed(task, self.task.name)
        self.run = Run(self.task, len(self.lengths) + 1, places, time, time)
        self.pods = self.alive = Counter(node for node, _ in pods_of(self.run))

    def stop(self, time: float) -> None:
        """End the run, if there is one."""
        if self.run is not None:
            self.lengths.append(time - self.run.start)
            self.run, self.pods = None, Counter()

    def duration(self, what: int, time: float, rules: ExecutionRules) -> float:
        """Returns the seconds that it takes in a trace: its work; at least its time here if it was cancelled."""
        if what == CANCEL:
            return max(0.0, time - self.submitted)
        *early, last = [length - rules.overhead(self.task, run) for run, length in enumerate(self.lengths, 1)]
        return sum(rules.saved_at_loss(self.task, each) for each in early) + max(0.0, last)


def renamed(task: Task, name: str) -> Task:
    """Returns the task by this name."""
    return task if task.name == name else replace(task, name=name)


def split_name(name: str) -> tuple[str, int]:
    """Returns the name in the cluster and the number of a task in the log: ('train', 2) for `train~2`."""
    base, _, number = name.rpartition("~")
    return (base, int(number)) if number.isdecimal() else (name, 1)


def read_task(row: Row, pods: int, gpus_per_pod: float) -> Task:
    """Returns a task as far as a row of the log describes it."""
    priority = Priority.HP if row["kind"] == Priority.HP.label else Priority.SPOT
    about = (row["task"], row["organization"], row["gpu_model"])
    return Task(FROM_LOG, *about, priority, pods, gpus_per_pod, float(row["time"]))


def read_place(row: Row) -> Place:
    """Returns where a pod runs, as far as a row of the log describes it: by name and GPUs."""
    node = NodeSpec(0, row["node"], row["gpu_model"], 1)
    mask = sum(1 << int(gpu) for gpu in row["cards"].split("+"))
    return Node(node), mask, mask.bit_count()


def read_node(row: Row) -> NodeSpec:
    """Returns a node as `nodes.csv` describes it."""
    return NodeSpec(0, row["node_name"], row["gpu_model"], int(row["gpu_capacity_num"]), float(row["cpu_num"]))
