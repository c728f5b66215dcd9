"""The driver of a live cluster: what the mirrors show goes to the core in events, its plans go to the API server.

One loop on one thread decides; requests run beside it and report back. Nothing is decided on a half-read list.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from math import floor, inf
from typing import Any

from gfs.core.actions import EVICT, LOST, NOTHING, START, LostRun, Plan, Record
from gfs.core.events import Cancelled, Event, Lost, NodesChanged, StartFailed, Submitted, Tick, Trained, Wake
from gfs.core.reasons import EvictReason
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.live.api import Api
from gfs.live.bind import Binder
from gfs.live.census import Census
from gfs.live.clock import Clock, WallClock
from gfs.live.cluster import Cluster
from gfs.live.disruption import Disruption
from gfs.live.evict import Evictor
from gfs.live.explain import Explainer
from gfs.live.failpoint import reach
from gfs.live.intake import Intake
from gfs.live.jobs import JobDesk
from gfs.live.learning import is_cautious
from gfs.live.restart import adopt, attach_adopted, reconcile, remember, tasks_done
from gfs.live.say import Speaker
from gfs.live.settings import LiveSettings
from gfs.live.shadow import Shadow
from gfs.live.tasks import LiveRun, LiveTask, TaskBook
from gfs.live.translate.pods import PodView

log = logging.getLogger("gfs.live")
NO_PLACE = "a pod of it went, and there is no room for the one that came in its place"
Settle = Callable[[float, Iterable[Run], Collection[str], Collection[str]], None]
SETTLE = 0.005
"""Seconds to wait for what comes together with the first change after a while: of a gang, its other pods."""
BLIND = 0.05
"""Seconds until it is looked again whether the mirrors follow what happens."""


class Controller:
    """Decides for one cluster."""

    def __init__(
        self,
        api: Api,
        settings: LiveSettings,
        *,
        tick: float,
        guarantee_hours: float,
        checkpoint_interval: float,
        least_hours: float = 24.0,
        clock: Clock | None = None,
        record: Callable[[Record], None] = lambda entry: None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        shadow: Shadow | None = None,
    ) -> None:
        """`wall`: the time of day that is written on objects."""
        self.api, self.settings = api, settings
        self.clock: Clock = clock or WallClock()
        self.changed = asyncio.Event()
        self._jobs: set[asyncio.Task[None]] = set()
        self._record, self._monotonic, self._tick = record, monotonic, tick
        self.cluster = Cluster(settings, self.changed.set)
        self.book = TaskBook(self.cluster, guarantee_hours, checkpoint_interval)
        self.census = Census(self.cluster, self.book)
        self._disruption = Disruption(self.cluster, self.book)
        self.speaker = Speaker(api, settings, self.spawn, monotonic, wall)
        self.shadow = shadow
        self.speaker.silent = shadow is not None
        self.binder = Binder(api, self.cluster, self.book, self.speaker, self.spawn, self.changed.set, monotonic)
        self.speaker.is_busy = self.binder.is_busy
        self.evictor = Evictor(api, self.cluster, self.speaker, self.spawn, self.changed.set, monotonic)
        self.intake = Intake(self.cluster, self.book, self.census, self.speaker, record, self.clock, monotonic)
        self.intake.shadow = shadow
        self.intake.under_way = lambda: self.binder.under_way
        self.explainer = Explainer(self.cluster, self.book, self.binder, self.speaker, monotonic, least_hours)
        self._jobs_of_gangs = JobDesk(api, self.book, self.spawn, self._fewer, monotonic)
        self._trained: list[Trained] = []
        self._next_tick = self._wake_at = inf
        self._not_before = -inf
        """When the next instant may be decided, by the monotonic clock."""
        self.now = -inf
        self.decisions = 0
        self.decision_seconds = 0.0
        self.longest_step = 0.0
        """Seconds of the longest instant: nothing else happens while it lasts."""
        self.restored = False
        self._first = True
        self._joining: list[LiveRun] = []
        """Rests of gangs of bare pods that are bound: the gangs are to be adopted whole."""
        self._adopted: dict[str, list[PodView]] = {}
        """Task -> the pods of its run that is being adopted."""
        self.scheduler: Scheduler

    # -- running -----------------------------------------------------------------------------------

    def spawn(self, job: Coroutine[Any, Any, None]) -> None:
        """Let a request run beside the loop."""
        task = asyncio.get_running_loop().create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._jobs.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(f"a request failed in a way that it should not: {error!r}")

    def trained(self, event: Trained) -> None:
        """A fit is done. May be called from any thread."""
        self._trained.append(event)
        self._loop.call_soon_threadsafe(self.changed.set)

    def tick(self) -> None:
        """Think again about the quota now."""
        self._next_tick = self.now
        self.changed.set()

    def begin(self, scheduler: Scheduler, *, restored: bool = False) -> None:
        """The mirrors have been read whole: from now on it can decide. `restored`: by a saved state."""
        self.scheduler, self.restored = scheduler, restored
        self._loop = asyncio.get_running_loop()
        if restored:
            remember(scheduler, self.book, self.census)
        now = self.clock.now()
        self._next_tick = floor(now / self._tick) * self._tick
        self.changed.set()

    async def run(self, after_step: Callable[[float], None], may_decide: Callable[[], bool] = lambda: True) -> None:
        """Decide whenever something has changed or is due, until cancelled or until it may not."""
        while True:
            due = min(self._next_tick, self._wake_at)
            wait = min(self.clock.until(due), 1.0)
            try:
                async with asyncio.timeout(wait):
                    await self.changed.wait()
                await asyncio.sleep(max(min(SETTLE, self.settings.burst), self._not_before - self._monotonic()))
            except TimeoutError:
                pass
            if not may_decide():  # it was paused, and another may have decided since
                return
            if not self.binder.current():  # what has happened meanwhile comes first
                self.changed.clear()
                await asyncio.sleep(BLIND)
                continue
            self.step()
            self._not_before = self._monotonic() + self.settings.burst
            after_step(self.now)

    def settle_record(self, settle: Settle) -> None:
        """After a restart: tell the event log what runs, what waits, and what was done meanwhile."""
        runs = [live.run for live in self.book.of_run.values() if live.began and not live.leaving]
        settle(self.now, runs, self.book.by_name.keys(), tasks_done(self.cluster))

    async def close(self, seconds: float) -> None:
        """Let requests under way end, at most so long, and stop the others: whoever leads next decides anew."""
        try:
            if self._jobs:
                await asyncio.wait(self._jobs, timeout=seconds)
        finally:
            for job in list(self._jobs):
                job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)

    async def settle(self) -> None:
        """Wait until all requests under way are done."""
        while self._jobs:
            await asyncio.wait(self._jobs)

    # -- one instant -------------------------------------------------------------------------------

    def step(self) -> Plan:
        """Take in all that has changed, decide, and carry it out."""
        began = time.perf_counter()
        self.changed.clear()
        self.now = now = max(self.clock.now(), self.now)
        events = self._events(now)
        plan: Plan = NOTHING
        if self._adopted:  # newcomers come after those who are there: what these hold is not others' any more
            arrivals = [each for each in events if isinstance(each, Submitted)]
            self._decide(now, [each for each in events if not isinstance(each, Submitted)])
            events = [*self._changes(), *arrivals]
        if events:
            plan = self._decide(now, events)
        if self.shadow is None:
            self.binder.start_ready(self._waits_for_victims)
            self._note_begun()
            self._jobs_of_gangs.look()
        self.explainer.look(self.scheduler, self._waits_for_victims)
        if self.intake.is_behind:
            self.changed.set()
        self.longest_step = max(self.longest_step, time.perf_counter() - began)
        return plan

    def _decide(self, now: float, events: list[Event]) -> Plan:
        began = time.perf_counter()
        plan = self.scheduler.handle(now, events)
        self.decision_seconds += time.perf_counter() - began
        self.decisions += 1
        self._attach()
        if plan.starts:
            reach("decided")
        self._carry_out(plan, now)
        return plan

    def _events(self, now: float) -> list[Event]:
        events: list[Event] = list(self._trained)
        if self._trained and any(is_cautious(pool) for pool in self.scheduler.pools.values()):
            self._next_tick = now  # the first model is not kept waiting
        self._trained.clear()
        self._note_begun()
        self.intake.wait_again(self.evictor.unbound)
        self.evictor.unbound.clear()
        events += self.intake.take(now)
        if self.shadow is None:
            self.binder.overdue(self.settings.start_timeout, self._waits_for_victims)
        events += [failed for live in self.binder.failed if (failed := self._failed(live))]
        self.binder.failed.clear()
        events += [self._broken(live) for live in self.binder.broken if self.book.of_run.get(live.run) is live]
        self.binder.broken.clear()
        events += self._hanging()
        events += self._join()
        if self._first and self.restored:
            told = self.intake.expect, self.intake.look_again
            events += reconcile(self.scheduler, self.book, self.cluster, self.intake.found, *told)
            self._go_on_evicting()
        self._first = False
        adopted, self._adopted = adopt(self.book, self.intake.found, self.clock)
        events += adopted
        for name in list(self.intake.found):
            events += self._not_adopted(self.book.by_name[name])
        events += self._changes()
        if now >= self._next_tick:
            events.append(Tick())
            self._next_tick = (floor(now / self._tick) + 1) * self._tick
        if now >= self._wake_at:
            self._wake_at = inf
            events.append(Wake())
        for run in [run for run in self.evictor.leaving if run not in self.book.of_run]:
            self.evictor.gone(run)
        return events

    def _go_on_evicting(self) -> None:
        """Runs that a saved state knows as evicted may have pods that nobody has deleted yet."""
        for pool in self.scheduler.pools.values():
            for run, taker in pool.state.leaving.items():
                if (live := self.book.of_run.get(run)) is not None and self.shadow is None:
                    self.evictor.resume(live, taker.task.name)

    def _changes(self) -> list[Event]:
        """What has changed of nodes, and of who may be stopped."""
        nodes = self.census.changes()
        return [*([NodesChanged(nodes)] if nodes else []), *self._disruption.changes()]

    def _attach(self) -> None:
        """Runs that were adopted have their pods now."""
        adopted, self._adopted = self._adopted, {}
        for task in attach_adopted(self.scheduler, self.book, adopted):
            assert task.task is not None
            assert task.run is not None
            self._give_extras(task.run)
            self._record((self.now, START, task.task, task.run.run, None))  # and SUBMIT, unless that was told
            task.logged = True

    def _not_adopted(self, task: LiveTask) -> list[Event]:
        """Pods of a gang that somebody bound: beyond its minimum, or without the rest of it."""
        if self.shadow is not None and task.run is None and task.name not in self._adopted:
            if not task.told:
                return []
            task.told = False  # the other scheduler binds one after the other: it is adopted with the last
            return [Cancelled(task.task)] if task.task is not None else []
        held = []
        for pod in self.intake.found.pop(task.name):
            self.book.by_pod.pop(pod.uid, None)
            if task.run is not None or task.name in self._adopted:
                self.cluster.pod_changes.append((pod, pod))  # looked at again when its gang runs
                self.changed.set()
            elif pod.owner is not None:
                self.spawn(self.binder.take_back(pod, "it was bound without the rest of its gang"))
            else:
                self.speaker.warn(pod, "GangIncomplete", "held: the other pods of its gang are still to be bound")
                held.append(pod)
        if not held:
            return []
        known: list[Event] = [Cancelled(task.task)] if task.told and task.task is not None else []
        self.book.hold(task, held)
        self.intake.look_again(task)
        self.changed.set()
        return known

    def _fewer(self, task: LiveTask) -> None:
        """A gang is not to wait for pods that have succeeded and are gone."""
        self.intake.wants_the_rest(task)
        self.changed.set()

    def _join(self) -> list[Event]:
        """Gangs of bare pods whose rest is bound, and seen to be: they are adopted whole in the next instant."""
        events: list[Event] = []
        for live in self._joining:
            if self.book.of_run.get(live.run) is not live:
                continue
            pods = [self.cluster.pods.get(uid) for uid in live.bound]
            if not all(pod is None or pod.node for pod in pods):
                continue
            events.append(Cancelled(live.run.task))
            self.book.join(live)
            self.changed.set()
        self._joining = [live for live in self._joining if self.book.of_run.get(live.run) is live]
        return events

    def _failed(self, live: LiveRun) -> Event | None:
        """A start did not come about: its pods wait again."""
        if self.book.of_run.get(live.run) is not live or live.leaving:
            return None
        bound = [pod for uid in live.bound if (pod := self.cluster.pods.get(uid)) and pod.owner is None]
        self.book.release(live, keep_waiting=True)
        task = live.of
        self.intake.wants_the_rest(task)
        if bound:  # nobody would create them again: they are held, and the rest is to join them
            self.cluster.pod_changes += [(pod, pod) for pod in bound]
            self.changed.set()
        elif len(task.free) < task.needs:
            self.intake.expect(task)
        return StartFailed(live.run)

    def _broken(self, live: LiveRun) -> Event:
        """A run lost a pod that has no place any more: the rest of it is taken back."""
        self._lost(live.run, self.now, LostRun(live.run, NO_PLACE))
        return Lost(live.run, NO_PLACE)

    def _hanging(self) -> list[Event]:
        """Victims that do not go away: whoever was to take their place looks for another."""
        events: list[Event] = []
        for victim in self.evictor.hanging(self.settings.hang_timeout):
            pool = self.scheduler.pools.get(victim.run.task.gpu_model)
            taker = pool.state.leaving.get(victim.run) if pool else None
            live = self.book.of_run.get(taker) if taker is not None else None
            if live is not None:
                self.binder.forget(live)
                if failed := self._failed(live):
                    events.append(failed)
        return events

    def _waits_for_victims(self, run: Run) -> bool:
        pool = self.scheduler.pools.get(run.task.gpu_model)
        return pool is not None and run in pool.state.pending

    # -- carrying out ------------------------------------------------------------------------------

    def _carry_out(self, plan: Plan, now: float) -> None:
        for lost in plan.lost:
            self._lost(lost.run, now, lost)
        for run, _, _ in plan.evictions:  # before the starts: who is evicted may start elsewhere at once
            if (live := self.book.of_run.get(run)) is not None:
                live.of.offset = max(live.of.offset, run.number if live.began else run.number - 1)
        takers = {run.task.index: run for run in plan.starts}
        started = [self._plan_start(run) for run in plan.starts]
        for run, reason, _ in plan.evictions:
            live = self.book.of_run.get(run)
            if live is None or not isinstance(reason, EvictReason):
                continue
            taker = takers.get(reason.by.index)
            self._evict(live, reason, self.book.of_run.get(taker) if taker else None, now)
        for live in started:
            if self.shadow is not None:
                self.shadow.plan(live, now)
            elif self._waits_for_victims(live.run):
                for uid, node in live.pods.items():
                    if (pod := self.cluster.pods.get(uid)) is not None:
                        self.evictor.nominate(pod, node)
        self._wake_at = min(self._wake_at, plan.wake)

    def _plan_start(self, run: Run) -> LiveRun:
        task = self.book.by_name[run.task.name]
        if run.number <= task.offset:  # the core had forgotten it while it had no pods
            run.number = task.offset + 1
        old = self.book.of_run.get(run)
        live = old or self.book.begin(run, self._monotonic())
        self.binder.plan(live)
        return live

    def _evict(self, live: LiveRun, reason: EvictReason, taker: LiveRun | None, now: float) -> None:
        pods = [pod for uid in taker.pods if (pod := self.cluster.pods.get(uid))] if taker else []
        self.binder.forget(live)
        live.leaving = True
        task = live.of
        if task.run is live:
            task.run = None
        if live.began:
            self._record((now, EVICT, live.run.task, live.run, reason))
        if self.shadow is not None:
            self.shadow.evict(live.run, reason)
            return
        for uid in self.evictor.evict(live, reason, pods):  # never bound: they wait on
            live.pods.pop(uid, None)
            self.book.run_of_pod.pop(uid, None)
            task.free[uid] = self.cluster.pods[uid]
        if not live.pods:
            self.intake.left(live)
        if not task.returns:
            self._give_up(task)
        if task.gang is not None:
            self.intake.hold_extras(task.gang)
        if task.run is not None and task.run.open:
            self.book.fill(task.run)

    def _give_up(self, task: LiveTask) -> None:
        """Nobody creates the pods of this task again: GPUs are not to be held for it."""
        if task.told and len(task.free) < task.needs and task.task is not None:
            if task.run is not None:  # planned in the same instant
                self.binder.forget(task.run)
                self.book.release(task.run, keep_waiting=True)
            self.intake.withdraw(task)
            self.changed.set()

    def _lost(self, run: Run, now: float, why: Any) -> None:
        """A run went with its node: what is left of it is taken back, if its controller creates it again."""
        live = self.book.of_run.get(run)
        if live is None:
            return
        self.binder.forget(live)
        if live.began:
            self._record((now, LOST, run.task, run, why))
            live.of.offset = max(live.of.offset, run.number)
        rest = [pod for uid in live.bound if (pod := self.cluster.pods.get(uid)) and not pod.over]
        self.book.release(live, keep_waiting=True)
        for pod in rest:
            if pod.owner is not None and self.shadow is None:
                self.spawn(self.binder.take_back(pod, why.text()))
        self.intake.wants_the_rest(live.of)
        if len(live.of.free) < live.of.needs:
            self.intake.expect(live.of)

    def _note_begun(self) -> None:
        """Runs whose last pod was bound have begun."""
        begun, self.binder.begun = self.binder.begun, []
        for live in begun:
            if live.leaving or live.began:
                continue
            live.began = True
            reach("begun")
            if live.of.held:
                self._joining.append(live)
                continue
            waited = live.run.waited
            self._record((self.now, START, live.run.task, live.run, waited.reason if waited else None))
            self._give_extras(live)

    def _give_extras(self, live: LiveRun) -> None:
        """Pods of a gang beyond its minimum are tasks of their own once it runs."""
        gang = live.of
        if gang.gang is None or gang.extra:
            return
        spare, gang.free = list(gang.free.values()), {}
        for pod in spare:
            self.book.by_pod.pop(pod.uid, None)
            self.cluster.pod_changes.append((pod, pod))
        for task in self.book.extras.get(gang.gang, ()):
            self.intake.look_again(task)
        self.changed.set()
