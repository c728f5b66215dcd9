"""`gfs live run`: the controller with what is around it: election, reflectors, saved state, event log, training."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import build_scheduler, check_pool_schedulers, find_scheduler, has_leases
from gfs.assembly.snapshot import load_state, save_state
from gfs.core.actions import Record
from gfs.core.ledger import LIVE_LOOK_BACK
from gfs.core.ports import Policy, Train, train_at_once
from gfs.core.scheduler import Scheduler, TickObserver
from gfs.core.state import PoolState
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.forecasting.meter import STEP
from gfs.forecasting.past import learn
from gfs.live.api import Api
from gfs.live.clock import Clock
from gfs.live.controller import Controller
from gfs.live.history import read_demand
from gfs.live.identity import Identities
from gfs.live.lead import Leader
from gfs.live.learning import Learning, Trainer, demand_hours
from gfs.live.prometheus import Prometheus, PrometheusError
from gfs.live.record import Recorder
from gfs.live.settings import LiveSettings
from gfs.live.shadow import Shadow
from gfs.live.watch import Reflectors
from gfs.telemetry.decisions import AnyNote, DecisionLog

log = logging.getLogger("gfs.live")
STATE = "state.gfs"
ASK_AGAIN = 300.0
"""Pause after a failed query of Prometheus, in seconds."""
NO_HISTORY = (
    "Prometheus knows no HP pods with GPUs: are hp_classes and resource as they were, does it have kube-state-metrics,"
    " and, if there are several GPU models, their label (--metric-labels-allowlist=nodes=[...])?"
)
LAST_REQUESTS = 1.0
"""Seconds that requests under way have to end when the process stops."""
FLUSH, LOOK = 0.1, 2.0
"""Seconds between two writings of the event log, and between two looks at nodes and quotas beside the decisions."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """The options of the command line."""

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
    """Accept an API server whose certificate cannot be verified."""


class Service:
    """One replica."""

    def __init__(self, options: LiveOptions) -> None:
        name = options.settings.scheduler
        if has_leases(find_scheduler(name)):
            raise InputError(
                f"scheduler {name!r} gives out leases: pods cannot be suspended; choose another, such as gfs"
            )
        check_pool_schedulers(find_scheduler(name), options.parameters)
        self.options = options
        self.identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}-{os.getpid()}"
        self.namespace = os.environ.get("POD_NAMESPACE") or options.settings.lease_namespace
        self.recorder = Recorder(options.record, options.parameters.rules)
        self.cancelled, self.reconcile = self.recorder.cancelled, self.recorder.reconcile
        """With `record` below, what a `Sink` has."""
        self.leader: Leader | None = None
        """None: there is no election."""
        self.api: Api | None = None
        self.controller: Controller | None = None
        """None: this replica does not decide."""
        self.reflectors: Reflectors
        self.trainer: Trainer
        self._decisions: DecisionLog
        self.history = ""
        """The outcome of reading demand history from Prometheus."""
        self.looked: Callable[[Controller], None] | None = None
        """Called every few seconds, for the page."""
        self.noted: Callable[[AnyNote], None] | None = None
        """Called with each note of the decision log, for the page."""

    async def run(self) -> None:
        """Take part until cancelled: lead and decide, or stand by."""
        options, settings = self.options, self.options.settings
        connect = partial(
            Api.connect,
            options.kubeconfig,
            context=options.context,
            timeout=min(5.0, settings.lease_seconds / 3),
            insecure=options.insecure,
        )
        api, lease_api = await connect(in_flight=settings.in_flight), await connect(in_flight=2, tries=1)
        self.api = api
        async with api, lease_api:
            if options.elect and not options.shadow:
                self.leader = Leader(lease_api, settings, self.identity, self.namespace)
                await self._take_turns(api, self.leader)
            else:
                await self._decide(api)

    async def _take_turns(self, api: Api, leader: Leader) -> None:
        """Decide while this replica has the lease, stand by otherwise."""
        api.may_write = leader.leads
        try:
            while True:
                log.info(f"{self.identity} stands by for the lease {self.options.settings.lease_name}")
                await leader.campaign()
                log.info(f"{self.identity} leads")
                keeping = asyncio.create_task(leader.keep())
                try:
                    await self._decide(api)
                finally:
                    await _stop([keeping])
        finally:
            await leader.resign()

    async def _decide(self, api: Api) -> None:
        """Decide until cancelled, or until another replica may lead."""
        options, parameters = self.options, self.options.parameters
        settings = options.settings
        if options.shadow:
            settings = msgspec.structs.replace(settings, scheduler_name=settings.shadow_of)
            api.may_write = lambda: False
        clock = Clock(options.speed, api.wall)
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
            is_current=lambda: reflectors.are_current(),
            shadow=Shadow() if options.shadow else None,
        )
        self.reflectors = reflectors = Reflectors(api, controller.mirror)
        self.trainer = trainer = Trainer(controller.trained)
        self._decisions = DecisionLog(self._note, self.recorder.name_of)
        self.recorder.open()
        async with AsyncExitStack() as last_first:  # it calls all of them, also if it is cancelled meanwhile
            last_first.callback(self._end_deciding)
            last_first.push_async_callback(reflectors.stop)
            last_first.callback(trainer.close)
            await reflectors.start()
            scheduler = new_scheduler(options.settings, parameters, trainer.train, self._tick)
            clock.begin(self._load(scheduler, controller.identities, api.wall()))  # the lists said what time it is
            controller.begin(scheduler)
            self.controller = controller
            last_first.push_async_callback(lambda: controller.close(LAST_REQUESTS if self.may_write() else 0.0))
            beside = [asyncio.create_task(work) for work in self._housekeeping(controller, clock)]
            last_first.push_async_callback(_stop, beside)
            await controller.run(self.may_write)

    def _end_deciding(self) -> None:
        """Write state and record, unless another replica may write them by now."""
        controller, settings = self.controller, self.options.settings
        if controller is not None and self.may_write():
            self.save()
            if settings.close_record:
                self.recorder.close(controller.now)
            self.flush()
            if controller.shadow is not None:
                log.info(controller.shadow.text())
        self.recorder.drop()
        self.controller = None

    def may_write(self) -> bool:
        """Whether no other replica can decide and write to the same files."""
        return self.leader is None or self.leader.leads()

    @property
    def leading(self) -> str:
        """The replica that leads, as far as this one knows; '': none."""
        if self.leader is not None:
            return self.leader.holder
        return self.identity if self.controller is not None else ""

    # -- beside the decisions: none of it can stop one --------------------------------------------

    def _housekeeping(self, controller: Controller, clock: Clock) -> Iterator[Coroutine[Any, Any, None]]:
        """Returns what runs beside the decisions."""
        settings = self.options.settings
        yield self._every(FLUSH, self._write)
        announce = partial(controller.pod_events.announce, self.namespace)
        learning = Learning(controller.scheduler, self.options.parameters.history_hours, announce)
        yield self._every(LOOK, partial(self._look, controller, learning))
        yield self._every(max(settings.snapshot_interval, FLUSH), self.save)
        if settings.prometheus:
            yield self._read_history(controller, clock)

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None] | None]) -> None:
        """Do something now and then. A process that slept through its lease does not: the files are another's then."""
        while True:
            await asyncio.sleep(seconds)
            if self.may_write():
                with _logged("housekeeping failed"):
                    if (rest := work()) is not None:
                        await rest

    def _write(self) -> Awaitable[None] | None:
        """Write the event log in another thread. A cancellation meanwhile does not stop it."""
        if not self.recorder.take():
            return None
        return asyncio.shield(asyncio.to_thread(self.recorder.write, self.may_write))

    def _look(self, controller: Controller, learning: Learning) -> None:
        self.recorder.note_nodes(self.nodes())
        learning.look()
        if self.looked is not None:
            self.looked(controller)

    # -- what is written down (a `Sink`): it never stops a decision --------------------------------

    def record(self, entry: Record) -> None:
        """Record what happened to a task, and what the decision went by."""
        self.recorder.record(entry)
        pool = self.controller.scheduler.pools.get(entry[2].gpu_model) if self.controller is not None else None
        if pool is not None:
            with _logged("what a decision went by was not recorded"):
                self._decisions.record(entry, pool.state, pool.policy)

    def _tick(self, now: float, state: PoolState, policy: Policy) -> None:
        """Record the quota of a pool."""
        with _logged("the quota was not recorded"):
            self.recorder.note_quota(now, state, policy)
            self._decisions.tick(now, state, policy)

    def _note(self, note: AnyNote) -> None:
        self.recorder.note(note)
        if self.noted is not None:
            self.noted(note)

    def _load(self, scheduler: Scheduler, identities: Identities, now: float) -> float:
        """Take over what the saved state has learned, and names of tasks. Returns its time; 0: there is none to use.

        Nodes, runs and queues come from the API server.
        """
        path = self.options.state / STATE if self.options.state else None
        if path is None or not path.exists():
            log.info("no saved state: the spot quota is cautious until there is something to learn from")
            return 0.0
        try:
            saved = load_state(scheduler, path, name=self.options.settings.scheduler)
        except InputError as error:
            log.warning(f"{error} It begins without: the spot quota is cautious until there is something to learn from")
            return 0.0
        scheduler.forget_cluster(max(now, saved.time))
        with _logged(f"{path}: the names of tasks were not taken over; tasks that were evicted before begin anew"):
            identities.load(saved.beside)
        log.info(f"took over the state saved {max(0.0, now - saved.time):.0f} s ago")
        return saved.time

    async def _read_history(self, controller: Controller, clock: Clock) -> None:
        """Take demand of the last weeks from Prometheus, beside the decisions, unless the saved state has it."""
        settings, scheduler = self.options.settings, controller.scheduler
        models, end = set(controller.mirror.models), int(clock.now() // STEP)
        pools = [scheduler.pools.get(model) or scheduler.add_pool(model) for model in models]
        known = [hours / 24 for pool in pools if (hours := demand_hours(pool)) is not None]
        if not known:
            self.history = f"Prometheus is not asked: the quota of {settings.scheduler} follows no forecast"
            log.info(self.history)
            return
        if min(known) > settings.prometheus_days - 1:
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
        path = self.options.state / STATE
        name, names = self.options.settings.scheduler, controller.identities.save()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save_state(controller.scheduler, path, now=controller.now, name=name, beside=names, still=self.may_write)
        except (InputError, OSError) as error:
            log.warning(f"the state was not saved: {error}")

    def flush(self) -> None:
        """Write the event log and the trace, if we still may when all is ready to be written."""
        if self.controller is not None:
            self.recorder.flush(self.nodes(), self.may_write)

    def nodes(self) -> list[NodeSpec]:
        """Returns the nodes as the core has them."""
        pools = self.controller.scheduler.pools.values() if self.controller is not None else ()
        return [node.spec for pool in pools for node in pool.state.nodes]


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """Log errors, so that decisions go on."""
    try:
        yield
    except Exception:
        log.exception(what)


def new_scheduler(
    settings: LiveSettings, parameters: Parameters, train: Train = train_at_once, observe: TickObserver | None = None
) -> Scheduler:
    """Returns the core as a live cluster has it: resources count, and it looks back 30 days.

    `observe` looks at every tick; then evictions say what else was weighed.
    """
    return build_scheduler(
        settings.scheduler,
        (),
        parameters,
        period=LIVE_LOOK_BACK,
        guarantees={*settings.guarantees, parameters.guarantee_hours},
        look_back=LIVE_LOOK_BACK,
        train=train,
        on_tick=observe,
        tell_alternatives=observe is not None,
    )
