"""`gfs live run`: the controller with everything around it: leader, mirrors, snapshot, event log, training, HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path

import msgspec

from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import build_scheduler, check_pool_schedulers, find_scheduler, has_leases
from gfs.assembly.snapshot import load_state, save_state
from gfs.core.actions import Record
from gfs.core.ledger import LIVE_LOOK_BACK
from gfs.core.ports import Policy, train_at_once
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler, TickObserver
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.files import always, write_bytes
from gfs.forecasting.meter import STEP
from gfs.forecasting.online import Stopwatch
from gfs.forecasting.past import learn
from gfs.live.api import Api
from gfs.live.clock import WallClock
from gfs.live.controller import Controller
from gfs.live.history import read_demand
from gfs.live.lead import Leader
from gfs.live.learning import Learning, demand_hours
from gfs.live.problems import ApiError
from gfs.live.prometheus import Prometheus, PrometheusError
from gfs.live.record import Recorder
from gfs.live.reflectors import Reflectors, group_paths
from gfs.live.settings import LiveSettings
from gfs.live.shadow import Shadow
from gfs.live.train import Trainer
from gfs.telemetry.decisions import AnyNote, DecisionLog

log = logging.getLogger("gfs.live")
STATE, NAMES = "state.gfs", "tasks.json"
ASK_AGAIN = 300.0
"""Seconds after which Prometheus is asked again if it did not answer."""
NO_HISTORY = (
    "Prometheus knows no HP pods with GPUs: are hp_classes and resource as they were, does it have kube-state-metrics,"
    " and, if there are several GPU models, their label (--metric-labels-allowlist=nodes=[...])?"
)
ASK_SERVER = 1.0
"""Seconds until an API server that did not answer is asked again what it offers."""
LAST_REQUESTS = 1.0
"""Seconds that requests under way have to end when it is told to stop."""
FLUSH, FLUSH_NODES = 0.1, 2.0
"""Seconds between two writings of the event log, and of the nodes beside it."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What the command line says."""

    settings: LiveSettings = field(default_factory=LiveSettings)
    parameters: Parameters = field(default_factory=Parameters)
    kubeconfig: Path | None = None
    context: str | None = None
    shadow: bool = False
    state: Path | None = None
    record: Path | None = None
    speed: float = 1.0
    elect: bool = True
    insecure: bool = False
    """Talk to an API server that shows no certificate we trust."""


def check_scheduler(name: str) -> None:
    """Schedulers with leases suspend and move runs, which no pod survives."""
    if has_leases(find_scheduler(name)):
        raise InputError(f"scheduler {name!r} gives out leases: pods cannot be suspended; choose another, such as gfs")


class Service:
    """One replica."""

    def __init__(self, options: LiveOptions) -> None:
        check_scheduler(options.settings.scheduler)
        check_pool_schedulers(find_scheduler(options.settings.scheduler), options.parameters)
        self.options = options
        self.identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}-{os.getpid()}"
        self.namespace = os.environ.get("POD_NAMESPACE") or options.settings.lease_namespace
        self.recorder = Recorder(options.record, options.parameters.rules)
        self._decisions = DecisionLog(self._note, self.recorder.name_of)
        """What decisions went by."""
        self.watch = Stopwatch(time.process_time)
        self.controller: Controller | None = None
        self.leader: Leader | None = None
        self.api: Api | None = None
        self.shadow: Shadow | None = None
        self.trainer: Trainer | None = None
        self.reflectors: Reflectors | None = None
        self.history = ""
        """What has become of the demand history of Prometheus."""
        self.looked: Callable[[Controller], None] | None = None
        """Who looks at the cluster every few seconds, beside the decisions."""
        self.noted: Callable[[AnyNote], None] | None = None
        """Who else is told what decisions go by."""
        self.ready = asyncio.Event()
        """Set while it decides."""

    async def run(self) -> None:
        """Take part until cancelled: lead and decide, or stand by."""
        settings = self.options.settings
        third = settings.lease_seconds / 3
        connect = partial(
            Api.connect,
            self.options.kubeconfig,
            context=self.options.context,
            timeout=min(5.0, third),
            insecure=self.options.insecure,
        )
        api, lease_api = await connect(in_flight=settings.in_flight), await connect(in_flight=2, tries=1)
        try:
            async with api, lease_api:
                await self._take_part(api, lease_api)
        finally:
            if settings.close_record and self.controller is not None:
                self.recorder.close(self.controller.now)
                self.flush(always)

    async def _take_part(self, api: Api, lease_api: Api) -> None:
        """Lead and decide, or stand by."""
        settings = self.options.settings
        self.api = api
        if not self.options.elect or self.options.shadow:
            await self._decide(api)
            return
        self.leader = Leader(lease_api, settings, self.identity, self.namespace, time.monotonic, time.time)
        api.may_write = self.leader.leads
        try:
            while True:
                log.info(f"{self.identity} stands by for the lease {settings.lease_name}")
                await self.leader.campaign()
                log.info(f"{self.identity} leads")
                await self._lead(api, self.leader)
        finally:
            await self.leader.resign()

    async def _lead(self, api: Api, leader: Leader) -> None:
        """Decide as long as the lease is ours."""
        deciding, keeping = asyncio.create_task(self._decide(api)), asyncio.create_task(leader.keep())
        try:
            done, _ = await asyncio.wait((deciding, keeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (deciding, keeping):
                task.cancel()
            await asyncio.gather(deciding, keeping, return_exceptions=True)
        for task in done:
            task.result()

    async def _decide(self, api: Api) -> None:
        options, parameters = self.options, self.options.parameters
        settings = options.settings
        if options.shadow:
            settings = msgspec.structs.replace(settings, scheduler_name=settings.shadow_of)
            api.may_write = lambda: False
            self.shadow = Shadow()
        groups = await _insist(group_paths, api)  # the first answer says what time it is there
        clock = WallClock(options.speed, api.wall)
        controller = Controller(
            api,
            settings,
            self,
            tick=parameters.tick,
            guarantee_hours=parameters.guarantee_hours,
            checkpoint_interval=parameters.checkpoint_interval,
            least_hours=parameters.history_hours,
            clock=clock,
            wall=api.wall,
            is_current=self._is_current,
            shadow=self.shadow,
        )
        reading: asyncio.Task[None] | None = None
        self.reflectors = reflectors = Reflectors(api, controller.mirror, groups, controller.changed.set)
        self.trainer = trainer = Trainer(controller.trained)
        self._decisions = DecisionLog(self._note, self.recorder.name_of)
        self.recorder.open()
        try:
            await reflectors.start()
            observe = self._tick if self._explains else None
            scheduler = new_scheduler(options.settings, parameters, trainer, self.watch, observe)
            saved = self._load(scheduler, clock.now())
            clock.not_before(saved or 0.0)
            controller.begin(scheduler)
            if saved is not None:
                self._load_names(controller)
            self.controller = controller
            self.ready.set()
            if settings.prometheus:
                reading = asyncio.create_task(self._read_history(controller, clock))
            await controller.run(_Housekeeping(self, controller).after_step, self.may_write)
        finally:
            self.ready.clear()
            trainer.close()
            await self._leave(controller, reflectors, reading)

    def _is_current(self) -> bool:
        return self.reflectors is not None and self.reflectors.are_current()

    async def _leave(self, controller: Controller, reflectors: Reflectors, reading: asyncio.Task[None] | None) -> None:
        """Stop all that still runs for a controller, also if it is cancelled meanwhile, as it is when a lease ends."""
        async with AsyncExitStack() as last_first:
            if self.controller is controller:
                last_first.callback(self._end_deciding)
            last_first.push_async_callback(reflectors.stop)
            last_first.push_async_callback(controller.close, LAST_REQUESTS if self.may_write() else 0.0)
            if reading is not None:
                reading.cancel()
                last_first.push_async_callback(asyncio.wait, [reading])

    def may_write(self) -> bool:
        """Whether no other replica can decide and write to the same files."""
        return self.leader is None or self.leader.leads()

    @property
    def _explains(self) -> bool:
        """Whether anybody is told what decisions go by."""
        return self.options.record is not None or self.noted is not None

    # -- what is written down (a `Sink`): it never stops a decision --------------------------------

    def record(self, entry: Record) -> None:
        """Record what happened to a task, and what the decision went by."""
        self.recorder.record(entry)
        pool = self.controller.scheduler.pools.get(entry[2].gpu_model) if self.controller is not None else None
        if self._explains and pool is not None:
            with _logged("what a decision went by was not recorded"):
                self._decisions.record(entry, pool.state, pool.policy)

    def cancelled(self, now: float, name: str) -> None:
        """Record that a task gets no pods any more."""
        self.recorder.cancelled(now, name)

    def settle(self, now: float, runs: Sequence[Run], waiting: Collection[str], done: Collection[str]) -> None:
        """Reconcile the record with the cluster after a start: what runs, what waits, and what was done meanwhile."""
        self.recorder.settle(now, runs, waiting, done)

    def _tick(self, now: float, state: PoolState, policy: Policy) -> None:
        """The quota of a pool was computed."""
        with _logged("the quota was not recorded"):
            self.recorder.note_quota(now, state, policy)
            self._decisions.tick(now, state, policy)

    def _note(self, note: AnyNote) -> None:
        self.recorder.note(note)
        if self.noted is not None:
            self.noted(note)

    def _end_deciding(self) -> None:
        """Write what is known, if that is still ours to do: another replica may decide, and write, by now."""
        if not self.may_write():
            self.recorder.drop()
            self.controller = None
            return
        self.save()
        self.flush()
        if self.shadow is not None:
            log.info(self.shadow.text())

    def _load(self, scheduler: Scheduler, now: float) -> float | None:
        """Take over what the saved state has learned, if there is one that can be used; the time it is of.

        Nodes, runs and queues come from the API server.
        """
        path = self.options.state / STATE if self.options.state else None
        if path is None or not path.exists():
            log.info("no saved state: the spot quota is cautious until there is something to learn from")
            return None
        try:
            saved = load_state(scheduler, path, name=self.options.settings.scheduler)
        except InputError as error:
            log.warning(f"{error} It begins without: the spot quota is cautious until there is something to learn from")
            return None
        scheduler.forget_cluster(max(now, saved))
        log.info(f"took over the state saved {max(0.0, now - saved):.0f} s ago")
        return saved

    def _load_names(self, controller: Controller) -> None:
        """Take over the names of tasks that were saved with the state."""
        path = self.options.state / NAMES if self.options.state else None
        if path is None or not path.exists():
            return
        try:
            controller.identities.load(msgspec.json.decode(path.read_bytes()))
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            log.warning(f"{path}: cannot be read ({error}); tasks that were evicted before begin anew")

    async def _read_history(self, controller: Controller, clock: WallClock) -> None:
        """Take demand of the last weeks from Prometheus, beside the decisions, unless the saved state has it."""
        settings, scheduler = self.options.settings, controller.scheduler
        models, end = controller.mirror.models(), int(clock.now() // STEP)
        known = [demand_hours(scheduler.pools.get(model) or scheduler.add_pool(model)) for model in models]
        if all(hours is None for hours in known):
            self.history = f"Prometheus is not asked: the quota of {settings.scheduler} follows no forecast"
            log.info(self.history)
            return
        if all(hours is None or hours / 24 > settings.prometheus_days - 1 for hours in known):
            return
        while True:
            try:
                async with Prometheus(settings.prometheus, os.environ.get("GFS_PROMETHEUS_TOKEN", "")) as server:
                    past = await read_demand(server, settings, models, controller.mirror.organization, end)
                break
            except PrometheusError as error:
                self.history = f"{error}; it is asked again in {ASK_AGAIN:.0f} s"
                log.warning(f"no demand history: {self.history}")
                await asyncio.sleep(ASK_AGAIN)
        if past.pools:
            learn(scheduler, past, models)
            controller.tick()
        self.history = past.text() if past.pools else NO_HISTORY
        log.info(self.history)

    def save(self) -> None:
        """Write the state, if we may."""
        controller = self.controller
        if self.options.state is None or controller is None or not self.may_write():
            return
        with suppress(OSError):
            self.options.state.mkdir(parents=True, exist_ok=True)
        try:
            path = self.options.state / STATE
            name = self.options.settings.scheduler
            save_state(controller.scheduler, path, now=controller.now, name=name, still=self.may_write)
            names = msgspec.json.encode(controller.identities.save())
            write_bytes(self.options.state / NAMES, names, still=self.may_write)
        except InputError as error:
            log.warning(f"the state was not saved: {error}")

    def flush(self, still: Callable[[], bool] | None = None) -> None:
        """Write the event log and the trace, if we still may when all is ready to be written."""
        if self.controller is not None:
            self.recorder.flush(self.nodes(), still or self.may_write)

    def nodes(self) -> list[NodeSpec]:
        """Returns the nodes as the core has them."""
        pools = self.controller.scheduler.pools.values() if self.controller is not None else ()
        return [node.spec for pool in pools for node in pool.state.nodes]


async def _insist(ask: Callable[[Api], Awaitable[list[str]]], api: Api) -> list[str]:
    """Ask until there is an answer: an API server that is just starting is no reason to give up."""
    while True:
        try:
            return await ask(api)
        except ApiError as error:
            log.warning(f"{error}; it is asked again in {ASK_SERVER:g} s")
            await asyncio.sleep(ASK_SERVER)


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """Whatever goes wrong here is logged, and decisions go on."""
    try:
        yield
    except Exception:
        log.exception(what)


class _Housekeeping:
    """What is to be done now and then after a decision. None of it can stop the next one."""

    def __init__(self, service: Service, controller: Controller) -> None:
        self._service, self._controller = service, controller
        self._saved = self._looked = time.monotonic()
        self._flushed = -inf
        self._writing: asyncio.Task[None] | None = None
        self._learning = Learning(
            controller.scheduler,
            service.options.parameters.history_hours,
            lambda reason, message: controller.speaker.announce(service.namespace, reason, message),
        )

    def after_step(self, now: float) -> None:
        """Save and write what is due, unless the process slept through its lease: the files are another's then."""
        if not self._service.may_write():
            return
        with _logged("housekeeping failed"):
            self._do_what_is_due(time.monotonic())

    def _do_what_is_due(self, at: float) -> None:
        service = self._service
        if at - self._looked >= FLUSH_NODES:
            self._looked = at
            service.recorder.note_nodes(service.nodes())
            self._learning.look()
            if service.looked is not None and service.controller is not None:
                service.looked(service.controller)
        if at - self._flushed >= FLUSH and (self._writing is None or self._writing.done()):
            self._flushed = at
            if (batch := service.recorder.take()) is not None:
                write = asyncio.to_thread(service.recorder.write, batch, service.may_write)
                self._writing = asyncio.get_running_loop().create_task(write)
        if at - self._saved >= service.options.settings.snapshot_interval:
            self._saved = at
            service.save()


def new_scheduler(
    settings: LiveSettings,
    parameters: Parameters,
    trainer: Trainer | None = None,
    stopwatch: Stopwatch | None = None,
    observe: TickObserver | None = None,
) -> Scheduler:
    """The core as a live cluster has it: resources count, 30 days are looked back, training runs elsewhere.

    `observe` looks at every tick; then evictions say what else was weighed.
    """
    offered = {*settings.guarantees, parameters.guarantee_hours}
    return build_scheduler(
        settings.scheduler,
        (),
        parameters,
        period=LIVE_LOOK_BACK,
        guarantees=offered,
        look_back=LIVE_LOOK_BACK,
        stopwatch=stopwatch,
        train=trainer.train if trainer is not None else train_at_once,
        on_tick=observe,
        tell_alternatives=observe is not None,
    )
