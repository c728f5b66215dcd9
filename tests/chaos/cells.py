"""Cases that go side by side on one bench: each has nodes, pods and a controller under a scheduler name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from judge import mark_of
from world import World, told, wait_for

from bench import manifests
from bench.client import Manifest, path
from bench.cluster import Cluster


class Cell(NamedTuple):
    """Two nodes of four GPUs with a GPU model of their own, and who schedules there."""

    world: World
    cluster: Cluster
    number: int
    case: str
    bare: bool = False

    @property
    def name(self) -> str:
        return f"gfs-scheduler-{self.number}"

    @property
    def home(self) -> Path:
        return self.world.folder / self.name

    def nodes(self) -> list[Manifest]:
        return [manifests.node(f"{self.world.name}-{self.number}-{i}", 4, self.name) for i in range(2)]

    def gang(self, name: str, priority_class: str, run_for: float | None = None) -> None:
        """A gang that takes all that there is: of a Job, or of bare pods; without `run_for` it runs on."""
        pod: dict[str, Any] = {
            "gpus": 4,
            "priority_class": priority_class,
            "run_for": run_for,
            "grace": 1,
            "scheduler": self.name,
            "nodeSelector": {manifests.MODEL_LABEL: self.name},
        }
        namespace, name = self.cluster.namespace, self._named(name)
        self.world.create(manifests.pod_group(name, namespace, 2))
        if self.bare:
            self.world.create(*(manifests.pod(f"{name}-{i}", namespace, group=name, **pod) for i in range(2)))
        else:
            self.world.create(manifests.job(name, namespace, pods=2, group=name, indexed=True, **pod))

    def _named(self, name: str) -> str:
        return f"{name}-{self.number}"

    def run(self, *options: str, **environment: str) -> None:
        """Start the controller."""
        self.world.run_replica(self.name, "--no-elect", *options, home=self.home, scheduler=self.name, **environment)

    def pods(self, name: str) -> list[Manifest]:
        """The pods of a gang."""
        pods, group = self.world.pods(self.cluster.namespace), {"podGroupName": self._named(name)}
        return [pod for pod in pods if pod["spec"].get("schedulingGroup") == group]

    def wait_running(self, name: str, seconds: float = 120.0) -> None:
        """Wait until both pods of a gang run."""
        self._wait(name, "Running", seconds)

    def wait_done(self, name: str, seconds: float = 120.0) -> None:
        """Wait until both pods of a gang have succeeded."""
        self._wait(name, "Succeeded", seconds)

    def _wait(self, name: str, phase: str, seconds: float) -> None:
        def so() -> bool:
            pods = [pod for pod in self.pods(name) if "deletionTimestamp" not in pod["metadata"]]
            return sum(pod["status"].get("phase") == phase for pod in pods) == 2

        wait_for(
            so, seconds, lambda: f"{self.case}, {self._named(name)} is not {phase}: {list(map(told, self.pods(name)))}"
        )

    def wait_marked(self, name: str) -> None:
        """Wait until a pod of a gang is marked as a victim."""
        wait_for(lambda: any(mark_of(pod) for pod in self.pods(name)), 60, f"{name} is no victim")

    def withdraw(self, name: str) -> None:
        """Its owner does not want a gang any more."""
        self.world.deleted |= {pod["metadata"]["uid"] for pod in self.pods(name)}
        where = path("jobs", self.cluster.namespace, self._named(name))
        self.world.insist(lambda: self.cluster.client.delete(where, propagationPolicy="Background"))
        if self.bare:
            for pod in self.pods(name):
                self.world.delete_pod(pod)


def cells_of(world: World, cases: Sequence[tuple[Any, ...]]) -> list[Cell]:
    """A cell for each case. Many processes start at once: their requests may take a while."""
    world.lease = 15.0
    cluster = world.cluster("cells")
    cells = [Cell(world, cluster, number, *case) for number, case in enumerate(cases)]
    cluster.add_nodes([node for cell in cells for node in cell.nodes()])
    world.homes = {cell.name: cell.home for cell in cells}
    return cells
