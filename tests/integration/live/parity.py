"""The simulator's engine as the world of a live controller: it plays users, kubelets and time before a real API server.

The engine hands over what is due at an instant; here it is done to the cluster, the controller decides with the clock
standing still, and its plan goes back to the engine, which so knows what will be due and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import NOTHING, Plan
from gfs.core.events import Event, EvictionDone, Finished, NodeChangeKind, NodesChanged, Submitted
from gfs.core.ledger import LIVE_LOOK_BACK
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.domain.task import Task
from gfs.domain.workload import Workload
from gfs.live.api import STRATEGIC, Api, pod_path
from gfs.live.bench import manifests
from gfs.live.bench.bench import Bench
from gfs.live.bench.stages import HANG
from gfs.live.bench.submission import CLASSES
from gfs.live.controller import Controller
from gfs.live.mirrors import Mirrors, group_paths
from gfs.live.settings import LiveSettings
from gfs.simulator.engine import Engine
from gfs.telemetry.event_log import EventLog, QuotaLog

SETTINGS = LiveSettings(message_interval=1e6, event_interval=1e6)
PATIENCE = 20.0
"""Real seconds that the API server may take for an instant."""


class Log(NamedTuple):
    """What was decided: rows of the event log, and of the quotas."""

    events: list[dict[str, Any]]
    quotas: list[dict[str, Any]]


class Rig:
    """A scheduler as a live cluster has it, and what it leaves in the logs."""

    def __init__(self, name: str, workload: Workload, parameters: Parameters, nodes: Sequence[Any] = ()) -> None:
        self.workload, self.parameters = workload, parameters
        self.events, self.quotas = EventLog(workload), QuotaLog()
        self.scheduler = build_scheduler(
            name,
            nodes,
            parameters,
            period=LIVE_LOOK_BACK,
            guarantees=SETTINGS.guarantees,
            look_back=LIVE_LOOK_BACK,
            on_tick=self.quotas.note,
        )

    def engine(self, scheduler: Any, record: Callable[..., None]) -> Engine:
        rules, tick = self.parameters.rules, self.parameters.tick
        return Engine(self.workload, cast(Scheduler, scheduler), record, rules=rules, tick=tick)

    def log(self, namespace: str = "") -> Log:
        rows = self.events.table().to_pylist()
        for row in rows:
            row["reason"] = row["reason"].replace(f"{namespace}/", "") if namespace else row["reason"]
        return Log(rows, self.quotas.table().to_pylist())


def simulated(name: str, workload: Workload, parameters: Parameters) -> Log:
    """The trace through the simulator."""
    rig = Rig(name, workload, parameters, workload.nodes)
    rig.engine(rig.scheduler, rig.events.record).run()
    return rig.log()


def live(bench: Bench, namespace: str, name: str, workload: Workload, parameters: Parameters) -> Log:
    """The trace through the live controller. The namespace and the nodes must be there."""
    rig = Rig(name, workload, parameters)
    loop = asyncio.new_event_loop()
    world = World(namespace, rig, loop)
    try:
        loop.run_until_complete(world.open(bench))
        rig.engine(world, lambda entry: None).run()
        return rig.log(namespace)
    finally:
        loop.run_until_complete(world.close())
        loop.close()


Rows = list[dict[str, Any]]


class Differences(NamedTuple):
    """Runs that the two logs tell differently."""

    late: list[Rows]
    """Planned at the same moment for the same place, where pods of a victim still were: bound when these had gone."""
    other: list[Any]


def differences(expected: Log, actual: Log, grace: float) -> Differences:
    """Compare task by task and run by run: submission, start with its places, eviction with its reason, finish.

    The simulator gives cards of a victim that nobody waits for to others at once; a real pod has its cards until it
    is gone. So such a start comes up to `grace` seconds later, and if its run is evicted meanwhile, it never was.
    """
    leaving = {(row["node"], row["time"]) for row in expected.events if row["event"] == "evict"}
    found = Differences([], [])
    there, here = _by_task(expected), _by_task(actual)
    for task in sorted(there.keys() | here.keys()):
        seen = here.get(task, [])
        for planned in there.get(task, []):
            starts = planned.get("start", [])
            waits = any(row["node"] == node and 0 <= row["time"] - at < grace for row in starts for node, at in leaving)
            if seen and seen[0] == planned:
                seen.pop(0)
            elif waits and seen and 0 < _later(planned, seen[0]) <= grace:
                found.late.append(starts)
                seen.pop(0)
            elif waits and "evict" in planned and planned["evict"][0]["time"] <= starts[0]["time"] + grace:
                found.late.append(starts)
            else:
                found.other.append((planned, seen.pop(0) if seen else {}))
        found.other.extend(({}, run) for run in seen)
    return found


def _by_task(log: Log) -> dict[str, list[dict[str, Rows]]]:
    """Task -> its runs in order, the submission first: event -> rows, without the number of the run."""
    runs: dict[tuple[str, int], dict[str, Rows]] = {}
    for row in log.events:
        runs.setdefault((row["task"], row["run"]), {}).setdefault(row["event"], []).append({**row, "run": 0})
    tasks: dict[str, list[dict[str, Rows]]] = {}
    for (task, _), run in sorted(runs.items(), key=lambda item: item[0]):
        tasks.setdefault(task, []).append(run)
    return tasks


def _later(planned: dict[str, Rows], seen: dict[str, Rows]) -> float:
    """By how much a start is later; 0: there is another difference."""
    by = float(seen["start"][0]["time"] - planned["start"][0]["time"]) if "start" in seen else 0.0
    moved = [{**row, "time": row["time"] + by} for row in planned["start"]]
    return by if seen == {**planned, "start": moved} else 0.0


class StandingClock:
    """The time that the engine has come to; everything that is seen has just happened."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def of_wall(self, moment: float) -> float:
        return self.time

    def until(self, moment: float) -> float:
        return 0.0


class World:
    """Stands where the engine expects its scheduler."""

    def __init__(self, namespace: str, rig: Rig, loop: asyncio.AbstractEventLoop) -> None:
        self._namespace, self._rig, self._loop = namespace, rig, loop
        self._clock = StandingClock()
        self._clock.time = rig.workload.tasks[0].submit_time
        self._replaced: set[Run] = set()
        self._owners: dict[int, dict[str, Any]] = {}

    @property
    def pools(self) -> Any:
        return self._rig.scheduler.pools

    async def open(self, bench: Bench) -> None:
        self._api = await Api.connect(bench.kubeconfig)
        parameters = self._rig.parameters
        self._controller = controller = Controller(
            self._api,
            SETTINGS,
            tick=parameters.tick,
            guarantee_hours=parameters.guarantee_hours,
            checkpoint_interval=parameters.checkpoint_interval,
            clock=self._clock,
            record=self._rig.events.record,
            monotonic=self._clock.now,
        )
        self._mirrors = Mirrors(self._api, controller.cluster, await group_paths(self._api))
        controller.speaker.silent = True  # what is said decides nothing, and takes half of the time
        await self._mirrors.start()
        controller.begin(self._rig.scheduler)

    async def close(self) -> None:
        await self._controller.settle()
        await self._mirrors.stop()
        await self._api.close()

    def handle(self, now: float, events: Sequence[Event]) -> Plan:
        """What the engine asks: an instant, to its end."""
        self._clock.time = now
        return self._loop.run_until_complete(asyncio.wait_for(self._instant(events), PATIENCE))

    async def _instant(self, events: Sequence[Event]) -> Plan:
        for event in events:
            match event:
                case Submitted(task):
                    await self._submit(task)
                case Finished(run):
                    await asyncio.gather(*(self._succeed(pod) for pod in self._pods(run)))
                case EvictionDone(run):
                    await asyncio.gather(*(self._remove(pod) for pod in self._pods(run)))
                case NodesChanged(changes):
                    for kind, node in changes:
                        await self._cordon(node.name, kind is NodeChangeKind.CORDONED)
        return await self._decide()

    async def _decide(self) -> Plan:
        """Let the controller decide until nothing moves any more."""
        controller, plan = self._controller, Plan()
        while True:
            decided = controller.step()
            plan = plan.joined(decided)
            await controller.settle()
            await self._until(self._is_mirrored)
            created = await self._create_again()
            if (
                decided is NOTHING
                and not created
                and not controller.cluster.pod_changes
                and not controller.binder.begun
            ):
                return plan

    # -- what users, their controllers and kubelets do ---------------------------------------------

    async def _submit(self, task: Task) -> None:
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": task.name, "namespace": self._namespace},
            "spec": {"managedBy": "gfs.dev/parity", "template": manifests.pod_template()},
        }
        made = await self._api.create(f"/apis/batch/v1/namespaces/{self._namespace}/jobs", job)
        self._owners[task.index] = made["metadata"]
        if task.pods > 1:
            group = manifests.pod_group(task.name, self._namespace, task.pods)
            path = f"/apis/{group['apiVersion']}/namespaces/{self._namespace}/podgroups"
            await self._api.create(path, group)
            await self._until(lambda: (self._namespace, task.name) in self._controller.cluster.groups)
        await self._create_pods(task, 1, task.pods)

    async def _create_pods(self, task: Task, run: int, count: int) -> None:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": task.name, "controller": True}
        reference["uid"] = self._owners[task.index]["uid"]
        bodies = []
        for i in range(count):
            body = manifests.pod(
                f"{task.name}-{run}-{i:02}",
                self._namespace,
                gpus=task.gpus_per_pod,
                priority_class=CLASSES[task.priority.label],
                cpus=f"{task.cpus_per_pod:g}",
                memory=f"{task.memory_per_pod:g}Gi",
                labels={"gfs.dev/organization": task.organization},
                annotations={
                    "gfs.dev/guaranteed-duration": f"{task.guarantee_hours:g}h",
                    "gfs.dev/checkpoint-interval": f"{task.checkpoint_interval:g}s",
                    HANG: "true",  # here the engine plays the kubelets
                },
                group=task.name if task.pods > 1 else "",
                grace=int(self._rig.parameters.grace_period),
                nodeSelector={manifests.MODEL_LABEL: task.gpu_model},
            )
            body["metadata"]["ownerReferences"] = [reference]
            bodies.append(body)
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        made = await asyncio.gather(*(self._api.create(path, body) for body in bodies))
        uids = [each["metadata"]["uid"] for each in made]
        await self._until(lambda: all(uid in self._controller.cluster.pods for uid in uids))

    async def _create_again(self) -> int:
        """The controllers of victims bring as many pods as are on their way out."""
        created = 0
        for run, (leaving, _) in list(self._controller.evictor.leaving.items()):
            if run not in self._replaced:
                self._replaced.add(run)
                created += len(leaving.pods)
                task = self._rig.workload.tasks[run.task.index]
                await self._create_pods(task, run.number + 1, len(leaving.pods))
        return created

    def _pods(self, run: Run) -> list[Any]:
        found = self._controller.book.of_run.get(run)
        pods = self._controller.cluster.pods
        return [pods[uid] for uid in found.pods] if found is not None else []

    async def _succeed(self, pod: Any) -> None:
        await self._api.patch(
            f"{pod_path(pod.namespace, pod.name)}/status", {"status": {"phase": "Succeeded"}}, STRATEGIC
        )
        await self._until(lambda: self._controller.cluster.pods[pod.uid].over)

    async def _remove(self, pod: Any) -> None:
        await self._api.delete(pod_path(pod.namespace, pod.name), uid=pod.uid, grace=0)
        await self._until(lambda: pod.uid not in self._controller.cluster.pods)

    async def _cordon(self, node: str, on: bool) -> None:
        await self._api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}})
        await self._until(lambda: bool(self._controller.cluster.nodes[node].closed) == on)

    # -- until the controller has seen it ----------------------------------------------------------

    def _is_mirrored(self) -> bool:
        pods, book = self._controller.cluster.pods, self._controller.book
        for leaving, _ in self._controller.evictor.leaving.values():
            if not all(uid not in pods or pods[uid].deleting for uid in leaving.pods):
                return False
        return all(uid not in pods or pods[uid].node for each in book.of_run.values() for uid in each.bound)

    async def _until(self, so: Callable[[], bool]) -> None:
        while not so():
            self._controller.changed.clear()
            await self._controller.changed.wait()
