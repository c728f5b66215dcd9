"""The simulator's engine as the world of a live controller: it plays users, kubelets and time before a real API server.

The engine hands over what is due at an instant; here it is done to the cluster, the controller decides with the clock
standing still, and its plan goes back to the engine, which so knows what will be due and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from bench import manifests
from bench.bench import Bench
from bench.stages import HANG
from bench.submission import CLASSES
from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import NOTHING, SUBMIT, Eviction, Plan, Record
from gfs.core.events import (
    Cancelled,
    Event,
    EvictionDone,
    Finished,
    NodeChangeKind,
    NodesChanged,
    StartFailed,
    Submitted,
)
from gfs.core.ledger import LIVE_LOOK_BACK
from gfs.core.reasons import EvictReason
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.domain.task import Task
from gfs.domain.workload import Workload
from gfs.live.api import Api, pod_path
from gfs.live.bind import Binder
from gfs.live.controller import Controller
from gfs.live.settings import LiveSettings
from gfs.live.table import Phase
from gfs.live.tasks import LiveTask
from gfs.live.translate.gangs import NATIVE, GroupName
from gfs.live.translate.pods import PodView
from gfs.live.watch import Reflectors
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
        self.shown = ShownRuns(workload, parameters.grace_period)
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
    """The trace through the simulator, whose victims come back as pods do."""
    rig = Rig(name, workload, parameters, workload.nodes)
    rig.engine(Returning(rig.scheduler, rig.shown), rig.events.record).run()
    return rig.log()


class Shown:
    """A run as the engine sees it: of a task of the workload, and begun when its victims have left."""

    def __init__(self, run: Run, task: Task, start: float) -> None:
        self.run, self.task = run, task
        self.start, self.progress_from = start, start + run.progress_from - run.start

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)


class ShownRuns:
    """Plans of the core as the engine sees them."""

    def __init__(self, workload: Workload, grace: float) -> None:
        self._tasks, self._grace = {task.name: task for task in workload.tasks}, grace
        self._shown: dict[Run, Shown] = {}
        self._left: dict[str, float] = {}
        """Node -> when the last victim there has left."""

    def task(self, name: str) -> Task:
        """The task of the workload, by its name with or without a namespace."""
        return self._tasks[name.rpartition("/")[2]]

    def plan(self, now: float, plan: Plan, starts: Sequence[Run], waits: Callable[[Run], bool]) -> Plan:
        """A plan of which these starts come about. A start begins when the victims that it waits for have left.

        The one that others were evicted for begins after their grace, though a real node may have room before that.
        """
        takers = {each[1].by.index for each in plan.evictions if isinstance(each[1], EvictReason)}
        for evicted, _, _ in plan.evictions:
            self._left.update(dict.fromkeys((node.name for node in evicted.nodes), now + self._grace))
        for run in starts:
            start = max(self._left.get(node.name, now) for node in run.nodes) if waits(run) else now
            start = now + self._grace if run.task.index in takers else start
            self._shown[run] = Shown(run, self.task(run.task.name), max(start, now))
        evictions = [
            Eviction(cast(Run, self._shown[run]), reason, keeps)
            for run, reason, keeps in plan.evictions
            if run in self._shown
        ]
        return Plan(evictions, [cast(Run, self._shown[run]) for run in starts], (), plan.wake)


class Returning:
    """A scheduler under which victims come back as pods do; it stands where the engine expects its scheduler.

    An evicted task leaves the core at once (`Controller._carry_out`). It is submitted again, with the runs that it has
    had, when its pods have been created again: in the same instant, as by a Job that replaces pods that are deleted.
    """

    def __init__(self, scheduler: Scheduler, shown: ShownRuns) -> None:
        self._scheduler, self._shown = scheduler, shown

    @property
    def pools(self) -> Any:
        return self._scheduler.pools

    def handle(self, now: float, events: Sequence[Event]) -> Plan:
        """What the engine asks: an instant, to its end."""
        whole, back = Plan(), list[Task]()
        told: list[Event] = [_of_core(event) for event in events]
        while told or back:
            if not told:
                told = [Submitted(task) for task in sorted(back, key=lambda task: task.index)]
                back = []
            plan, told = self._scheduler.handle(now, told), []
            victims = {run.task.index for run, _, _ in plan.evictions}
            for run in plan.starts:
                if run.task.index in victims:  # its pods have yet to come back
                    told += [StartFailed(run), Cancelled(run.task)]
            for run, _, _ in plan.evictions:
                told.append(Cancelled(run.task))
                back.append(replace(run.task, earlier_runs=run.number))
            starts = [run for run in plan.starts if run.task.index not in victims]
            whole = whole.joined(self._shown.plan(now, plan, starts, lambda run: run.start > now))
        return whole


def _of_core(event: Event) -> Event:
    """An event of the engine with the core's own run."""
    match event:
        case Finished(run):
            return Finished(cast(Shown, run).run)
        case EvictionDone(run):
            return EvictionDone(cast(Shown, run).run)
    return event


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
    early: list[Rows]
    """The same, but bound before the victims had gone: other pods finished there, or the idle GPUs sufficed (Lyra takes
    nodes on loan back as a whole)."""
    other: list[Any]


def differences(expected: Log, actual: Log, grace: float) -> Differences:
    """Compare task by task and run by run: submission, start with its places, eviction with its reason, finish.

    The simulator gives cards of a victim that nobody waits for to others at once; a real pod has its cards until it
    is gone. So such a start comes up to `grace` seconds later, and if its run is evicted meanwhile, it never was. And
    a real node has room as soon as any pod leaves it: a start that waits for victims may come earlier,
    at once if the node has other idle cards.
    """
    leaving = {(row["node"], row["time"]) for row in expected.events if row["event"] == "evict"}
    freed = {(row["node"], row["time"]) for row in actual.events if row["event"] == "finish"}
    found = Differences([], [], [])
    there, here = _by_task(expected), _by_task(actual)
    for task in sorted(there.keys() | here.keys()):
        seen = here.get(task, [])
        for planned in there.get(task, []):
            starts = planned.get("start", [])
            waits = any(
                row["node"] == node and 0 <= row["time"] - at <= grace for row in starts for node, at in leaving
            )
            if seen and (seen[0] == planned or (waits and _without_loss(seen[0]) == _without_loss(planned))):
                seen.pop(0)
            elif waits and seen and 0 < _later(planned, seen[0]) <= grace:
                found.late.append(starts)
                seen.pop(0)
            elif (
                seen and -grace <= (by := _later(planned, seen[0])) < 0 and (by == -grace or _room_came(seen[0], freed))
            ):
                found.early.append(starts)
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
        runs.setdefault((row["task"], row["run"]), {}).setdefault(row["event"], []).append(
            {**row, "run": 0, "cards": ""}
        )
    tasks: dict[str, list[dict[str, Rows]]] = {}
    for (task, _), run in sorted(runs.items(), key=lambda item: item[0]):
        tasks.setdefault(task, []).append(run)
    return tasks


def _without_loss(run: dict[str, Rows]) -> dict[str, Rows]:
    """A run without what its eviction lost: the live core counts the progress of a run from its plan."""
    return {
        event: [{**row, "reason": row["reason"].partition(", lost ")[0]} for row in rows] for event, rows in run.items()
    }


def _room_came(seen: dict[str, Rows], freed: set[tuple[str, float]]) -> bool:
    """Whether a pod finished on one of its nodes when a run started."""
    return any((row["node"], row["time"]) in freed for row in seen["start"])


def _later(planned: dict[str, Rows], seen: dict[str, Rows]) -> float:
    """By how much a start is later, or earlier if negative; 0: there is another difference."""
    by = float(seen["start"][0]["time"] - planned["start"][0]["time"]) if "start" in seen else 0.0
    moved = {event: [{**row, "time": row["time"] + by} for row in rows] for event, rows in planned.items()}
    same = _without_loss({**planned, "start": moved["start"]}), _without_loss({**moved, **_only(planned, "evict")})
    return by if _without_loss(seen) in same else 0.0


def _only(run: dict[str, Rows], event: str) -> dict[str, Rows]:
    return {event: run[event]} if event in run else {}


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


class LiveLog:
    """Writes what a controller records to the log of the workload. It is a `gfs.live.tasks.Sink`."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._submitted: set[str] = set()

    def record(self, entry: Record) -> None:
        """A task is submitted once, however often its pods are created again."""
        time, what, task, run, reason = entry
        if what == SUBMIT and task.name in self._submitted:
            return
        self._submitted.add(task.name)
        self._rig.events.record((time, what, self._rig.shown.task(task.name), run, reason))

    def cancelled(self, now: float, name: str) -> None:
        raise AssertionError(f"all pods of a task are created again: {name}")

    def reconcile(self, now: float, runs: Sequence[Run], waiting: Collection[str], done: Collection[str]) -> None:
        assert not runs, "the cluster was empty"


class NoPatience(Binder):
    """A plan waits where it is until its victims have left, as in the simulator."""

    def overdue(self) -> Iterator[tuple[LiveTask, str]]:
        return iter(())


class World:
    """Stands where the engine expects its scheduler."""

    def __init__(self, namespace: str, rig: Rig, loop: asyncio.AbstractEventLoop) -> None:
        self._namespace, self._rig, self._loop = namespace, rig, loop
        self._clock = StandingClock()
        self._clock.time = rig.workload.tasks[0].submit_time
        self._replaced: set[str] = set()
        """Uids of deleted pods whose owners have created others."""
        self._pods_of: dict[Run, list[str]] = {}
        """Run -> the uids of its pods."""
        self._created = 0
        self._owners: dict[str, dict[str, Any]] = {}

    @property
    def pools(self) -> Any:
        return self._rig.scheduler.pools

    async def open(self, bench: Bench) -> None:
        self._api = await Api.connect(bench.kubeconfig)
        parameters = self._rig.parameters
        await self._api.get("/version")  # the first answer says what time it is there
        self._controller = controller = Controller(
            self._api,
            SETTINGS,
            LiveLog(self._rig),
            tick=parameters.tick,
            guarantee_hours=parameters.guarantee_hours,
            checkpoint_interval=parameters.checkpoint_interval,
            clock=self._clock,
            monotonic=self._clock.now,
            wall=self._api.wall,
            silent=True,  # what is said decides nothing, and takes half of the time
        )
        controller.binder.__class__ = NoPatience
        self._reflectors = Reflectors(self._api, controller.mirror)
        await self._reflectors.start()
        controller.begin(self._rig.scheduler)

    async def close(self) -> None:
        await self._controller.finish_requests()
        await self._reflectors.stop()
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
                    await asyncio.gather(*(self._remove(pod) for pod in self._pods(run) if pod.deleting))
                case NodesChanged(changes):
                    for kind, node in changes:
                        await self._cordon(node.name, kind is NodeChangeKind.CORDONED)
        return await self._decide()

    async def _decide(self) -> Plan:
        """Let the controller decide until nothing moves any more."""
        controller, plans = self._controller, list[tuple[Plan, list[Run]]]()
        while True:
            decided = controller.step()
            plans.append((decided, self._started(decided)))
            await controller.finish_requests()
            await self._until(self._is_mirrored)
            created = await self._create_again()
            if decided is NOTHING and not created and not self._moves():
                whole = Plan()
                for plan, starts in plans:
                    whole = whole.joined(self._rig.shown.plan(self._clock.time, plan, starts, self._waits))
                return whole

    def _started(self, plan: Plan) -> list[Run]:
        """The starts of a plan that come about."""
        found = []
        for run in plan.starts:
            task = self._controller.book.by_index.get(run.task.index)
            if task is not None and task.run is run:
                self._pods_of[run] = list(task.pods)
                found.append(run)
        return found

    def _waits(self, run: Run) -> bool:
        """Whether the pods of a run are not bound: pods of victims are still there."""
        task = self._controller.book.by_index.get(run.task.index)
        return task is not None and task.run is run and task.phase is Phase.PLANNED

    def _moves(self) -> bool:
        controller = self._controller
        mirror, overlay, book = controller.mirror, controller.overlay, controller.book
        return bool(mirror.dirty or mirror.dirty_nodes or overlay.bindings or overlay.evictions or book.ready)

    # -- what users, their controllers and kubelets do ---------------------------------------------

    async def _submit(self, task: Task) -> None:
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": task.name, "namespace": self._namespace},
            "spec": {"managedBy": "gfs.dev/parity", "template": manifests.pod_template()},
        }
        made = await self._api.create(f"/apis/batch/v1/namespaces/{self._namespace}/jobs", job)
        self._owners[task.name] = made["metadata"]
        if task.pods > 1:
            group = manifests.pod_group(task.name, self._namespace, task.pods)
            path = f"/apis/{group['apiVersion']}/namespaces/{self._namespace}/podgroups"
            await self._api.create(path, group)
            name = GroupName(NATIVE, self._namespace, task.name)
            await self._until(lambda: name in self._controller.mirror.groups)
        await self._create_pods(task, task.pods)

    async def _create_pods(self, task: Task, count: int) -> None:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": task.name, "controller": True}
        reference["uid"] = self._owners[task.name]["uid"]
        bodies = []
        for _ in range(count):
            self._created += 1
            body = manifests.pod(
                f"{task.name}-{self._created:05}",
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
        await self._until(lambda: all(uid in self._controller.mirror.pods for uid in uids))

    async def _create_again(self) -> int:
        """The Jobs of deleted pods create as many others; returns how many."""
        deleted = [
            pod for pod in self._controller.mirror.pods.values() if pod.deleting and pod.uid not in self._replaced
        ]
        self._replaced.update(pod.uid for pod in deleted)
        owners = sorted(pod.owner.name for pod in deleted if pod.owner is not None)
        for name in dict.fromkeys(owners):
            await self._create_pods(self._rig.shown.task(name), owners.count(name))
        return len(deleted)

    def _pods(self, run: Run) -> list[PodView]:
        pods = self._controller.mirror.pods
        return [pods[uid] for uid in self._pods_of[cast(Shown, run).run] if uid in pods]

    async def _succeed(self, pod: PodView) -> None:
        await self._api.patch(f"{pod_path(pod.namespace, pod.name)}/status", {"status": {"phase": "Succeeded"}})
        await self._until(lambda: self._controller.mirror.pods[pod.uid].over)

    async def _remove(self, pod: PodView) -> None:
        await self._api.delete(pod_path(pod.namespace, pod.name), uid=pod.uid, grace=0)
        await self._until(lambda: pod.uid not in self._controller.mirror.pods)

    async def _cordon(self, node: str, on: bool) -> None:
        await self._api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}})
        await self._until(lambda: bool(self._controller.mirror.nodes[node].closed) == on)

    # -- until the controller has seen it ----------------------------------------------------------

    def _is_mirrored(self) -> bool:
        pods, overlay = self._controller.mirror.pods, self._controller.overlay
        bound = all(uid not in pods or pods[uid].node for uid, each in overlay.bindings.items() if each.answered)
        return bound and all(uid not in pods or pods[uid].deleting for uid in overlay.evictions)

    async def _until(self, so: Callable[[], bool]) -> None:
        while not so():
            self._controller.changed.clear()
            await self._controller.changed.wait()
