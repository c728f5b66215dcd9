"""The driver of a live cluster: it turns what the mirror shows into events of the core, and plans into requests.

One loop on one thread decides; requests run beside it and report back. The loop decides only on complete lists, and
only while all watches are open.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from heapq import nsmallest
from math import floor, inf
from typing import Any

from gfs.core.actions import NOTHING, Plan
from gfs.core.events import EvictionDone, NodesChanged, Tick, Trained, Wake
from gfs.core.reasons import EvictReason
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.domain.task import Task
from gfs.live.bind import Binder
from gfs.live.claims import Claims
from gfs.live.client import Client
from gfs.live.clock import Clock
from gfs.live.disruption import Disruption
from gfs.live.evict import Evictor
from gfs.live.explain import Explainer
from gfs.live.gate import PAUSE, Gate
from gfs.live.identity import Identities
from gfs.live.learning import is_cautious
from gfs.live.mirror import Mirror, key_of
from gfs.live.nodes import NodeBook
from gfs.live.overlay import Overlay
from gfs.live.pod_events import PodEvents
from gfs.live.settings import LiveSettings
from gfs.live.shadow import Shadow
from gfs.live.table import Phase
from gfs.live.tasks import LiveTask, Sink, TaskBook

log = logging.getLogger("gfs.live")
GATHER = 0.005
"""Seconds between the first change and its instant, so that pods of one gang are decided together."""
MOST = 500
"""The most tasks of one instant, less the bindings under way. A task may cost the core milliseconds. With a limit, the
controller binds pods, reads watches and renews the lease during a flood, and HP tasks do not queue behind thousands of
bindings."""
EVERY = 1.0
"""Seconds between two looks at plans that wait, and at tasks without pods."""


class Controller:
    """Decides for one cluster."""

    def __init__(
        self,
        client: Client,
        settings: LiveSettings,
        sink: Sink,
        *,
        tick: float,
        guarantee_hours: float,
        checkpoint_interval: float,
        least_hours: float = 24.0,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        is_current: Callable[[], bool] = lambda: True,
        shadow: Shadow | None = None,
        silent: bool = False,
    ) -> None:
        """`sink` records; `wall`: the time of day by the API server; `is_current`: whether all watches are open.

        `silent`: write no conditions and events.
        """
        self.settings, self.shadow, self._gate = settings, shadow, Gate(is_current)
        self.clock = clock or Clock(wall=wall)
        self._monotonic, self._tick = monotonic, tick
        self.changed = asyncio.Event()
        self._requests: set[asyncio.Task[None]] = set()
        self.mirror = Mirror(settings, self.changed.set)
        self.overlay = Overlay(self.mirror, wall)
        self.identities = Identities()
        self.book = TaskBook(
            self.mirror,
            self.overlay,
            self.identities,
            sink,
            self.clock,
            monotonic,
            guarantee_hours=guarantee_hours,
            checkpoint_interval=checkpoint_interval,
        )
        self.nodes = NodeBook(self.book)
        self._disruption = Disruption(self.book)
        quiet = silent or shadow is not None
        self.pod_events = PodEvents(
            client, settings, self.spawn, monotonic, wall, lambda: self.binder.under_way > 0, silent=quiet
        )
        self.claims = Claims(self.book, self.pod_events, self.clock, monotonic)
        self.binder = Binder(client, self.book, self.pod_events, self.spawn, monotonic, self._gate)
        self.evictor = Evictor(client, self.book, self.pod_events, self.spawn, monotonic, self._gate)
        self.explainer = Explainer(self.mirror, self.book, self.pod_events, monotonic, least_hours)
        self._trained: list[Trained] = []
        self._touched: set[str] = set()
        """Nodes that changed since the last look at plans."""
        self._next_tick = self._wake_at = inf
        self._not_before = self._looked = -inf
        """Earliest time of the next instant, and time of the last look at waiting plans, by the monotonic clock."""
        self._resync_at = inf
        self.now = -inf
        self._failed: set[type[Exception]] = set()
        """Kinds of errors in reports, each of which was logged."""
        self.decisions = 0
        self.decision_seconds = 0.0
        self.longest_step = 0.0
        """Seconds of the longest instant. The loop does nothing else meanwhile."""
        self.scheduler: Scheduler

    # -- running -----------------------------------------------------------------------------------

    def spawn(self, request: Coroutine[Any, Any, None]) -> None:
        """Let a request run beside the loop."""
        task = asyncio.get_running_loop().create_task(request)
        self._requests.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(f"a request failed in a way that it should not: {error!r}")

    def trained(self, event: Trained) -> None:
        """Takes a finished fit, from any thread."""
        self._trained.append(event)
        self._loop.call_soon_threadsafe(self.changed.set)

    def tick(self) -> None:
        """Compute the quota again now."""
        self._next_tick = self.now
        self.changed.set()

    def begin(self, scheduler: Scheduler) -> None:
        """Begin to decide: the lists are complete."""
        self.scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        now = self.now = self.clock.now()
        self._next_tick = floor(now / self._tick) * self._tick
        self._resync_at = self._monotonic() + self.settings.resync_interval
        self.changed.set()

    async def run(self, may_decide: Callable[[], bool]) -> None:
        """Decide after each change and when something is due, until cancelled or until `may_decide` is false."""
        while True:
            due = min(self._next_tick, self._wake_at)
            wait = min(self.clock.until(due), EVERY)
            try:
                async with asyncio.timeout(wait):
                    await self.changed.wait()
                await asyncio.sleep(max(min(GATHER, self.settings.burst), self._not_before - self._monotonic()))
            except TimeoutError:
                pass
            if not may_decide():  # the process was paused, and another replica may have decided since
                return
            if not self._gate.is_open():  # the mirror catches up first
                self.changed.clear()
                await asyncio.sleep(PAUSE)
                continue
            self.step()
            self._not_before = self._monotonic() + self.settings.burst

    async def close(self, seconds: float) -> None:
        """Wait so many seconds for requests under way, then stop the others. The next leader decides anew."""
        try:
            if self._requests:
                await asyncio.wait(self._requests, timeout=seconds)
        finally:
            for request in list(self._requests):
                request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)

    async def finish_requests(self) -> None:
        """Wait until all requests under way are done."""
        while self._requests:
            await asyncio.wait(self._requests)

    # -- one instant -------------------------------------------------------------------------------

    def step(self) -> Plan:
        """Take in all that has changed, decide, and carry it out."""
        began = time.perf_counter()
        self.changed.clear()
        self.now = now = max(self.clock.now(), self.now)
        self._look(now)
        plan: Plan = NOTHING
        if self.book.found:  # runs and their disruption rules come before new tasks
            self._note_changes()
            plan = self._decide(now)
        self.book.reconcile_record(now)
        submitted = self._newcomers()
        self.book.record_over(now)  # new tasks may have the names of those that are over
        self.book.submit(submitted, now)
        self._note_changes()
        self._note_due(now)
        more = self._decide(now)
        plan = more if plan is NOTHING else plan.joined(more)
        touched, self._touched = self._touched | self.mirror.dirty_nodes, set()
        if self.shadow is None:
            unplaced = [task for task in submitted if task.phase is Phase.WAITING]
            for task in (*self.binder.start_ready(touched), *unplaced):
                self.evictor.nominate(task)
        self.book.record_over(now)
        self._report(partial(self.explainer.look, self.scheduler))
        if self.mirror.dirty or self.mirror.dirty_nodes or self._able():
            self.changed.set()
        self.longest_step = max(self.longest_step, time.perf_counter() - began)
        return plan

    def _report(self, report: Callable[[], None]) -> None:
        """Report to users. An error in a report stops no decision; the first of each kind is logged."""
        try:
            report()
        except Exception as error:
            if type(error) not in self._failed:
                self._failed.add(type(error))
                log.exception("a report failed, decisions go on; please report this")

    def _look(self, now: float) -> None:
        """Look at all that has changed."""
        new, self.mirror.new_pods = self.mirror.new_pods, []
        for pod in new:
            self.nodes.ask(pod.rule.keys)
            self.claims.look(pod)
        for task, why, pause in self.binder.take_failed():
            self._fail(task, why, pause)
        if self._monotonic() - self._looked >= EVERY:
            self._look_at_waiting(now)
        self.overlay.refresh()
        self.mirror.dirty.update(dict.fromkeys(self.book.broken_plans(self.mirror.dirty_nodes)))
        self._reconcile(now)
        for uid in self.mirror.ended:
            self.pod_events.forget(uid)
            self.book.waits.pop(uid, None)
            if self.shadow is not None:
                self.shadow.forget(uid)
        self.mirror.ended.clear()
        self.book.events += self.claims.checkpoints(now)

    def _reconcile(self, now: float) -> None:
        keys, self.mirror.dirty = list(self.mirror.dirty), {}
        if not self.book.is_reconciled:  # pods that are bound carry the names of their tasks, others get what is left
            keys.sort(key=lambda key: not any(pod.node for pod in self.mirror.members.get(key, {}).values()))
        for key in keys:
            if self.shadow is not None:
                self._report(partial(self.shadow.compare, self.mirror, self.book, key, now, self.pod_events.why))
            try:
                self.book.reconcile(key, now)
            except Exception:  # one object must not stop the controller
                log.exception(f"{key} is left alone until it changes; please report this")
                self.book.abandon(key)

    def _look_at_waiting(self, now: float) -> None:
        """Resync, forget old entries, and make plans again that wait in vain."""
        self._looked = self._monotonic()
        if self._looked >= self._resync_at:
            self._resync_at = self._looked + self.settings.resync_interval
            self.mirror.look_at_all()
            self.pod_events.forget_all_but(self.mirror.pods)
        self.identities.expire(now)
        for pod in self.mirror.leaving.values():  # whether plans count on its place depends on the time
            self.mirror.dirty_nodes.add(pod.node)
            if pod.uid in self.book.by_pod and self.overlay.is_leaving(pod):
                self.mirror.dirty[key_of(pod)] = None
        if self.shadow is None:
            for task, why in self.binder.overdue():
                self._fail(task, why, 0.0)
            return
        for uid, taker in list(self.overlay.evictions.items()):
            if not self.book.is_planned(taker):  # the other scheduler decided otherwise, and the pod runs on
                self.overlay.forget_eviction(uid)

    def _fail(self, task: LiveTask, why: str, pause: float) -> None:
        """Give up a plan, and take back the pods of its gang that are bound already, if possible."""
        pods = [pod for uid in task.pods if (pod := self.mirror.pods.get(uid)) is not None]
        bound = [pod for pod in pods if self.overlay.node_of(pod)]
        ours = [pod for pod in bound if self.overlay.task_of(pod) == task.name]
        log.info(f"{task.name} was not started: {why}")
        if ours and len(bound) < len(task.pods):
            self.evictor.take_back(ours, f"its gang could not be bound whole: {why}")
        self.book.fail(task, why, pause)

    def _note_changes(self) -> None:
        """Add the events of changed nodes and disruption rules."""
        self._touched |= self.mirror.dirty_nodes
        if nodes := self.nodes.changes():
            self.book.events.append(NodesChanged(nodes))
        self.book.events += self._disruption.changes()

    def _note_due(self, now: float) -> None:
        if self._trained and any(is_cautious(pool) for pool in self.scheduler.pools.values()):
            self._next_tick = now  # the first model counts at once
        self.book.events += self._trained
        self._trained.clear()
        if now >= self._next_tick:
            self.book.events.append(Tick())
            self._next_tick = (floor(now / self._tick) + 1) * self._tick
        if now >= self._wake_at:
            self._wake_at = inf
            self.book.events.append(Wake())

    def _newcomers(self) -> list[LiveTask]:
        """Returns the tasks to submit: HP tasks first, by submission; no spot tasks while bindings are behind."""
        room, past = max(0, MOST - self.binder.under_way), self.identities.past
        able = [task for task in self._able() if task.is_hp or room >= MOST // 2]
        return nsmallest(room, able, key=lambda task: (not task.is_hp, past[task.name].submitted, task.name))

    def _able(self) -> list[LiveTask]:
        at = self._monotonic()
        return [task for task in self.book.ready if task.not_before <= at]

    # -- deciding and carrying out -----------------------------------------------------------------

    def _decide(self, now: float) -> Plan:
        """Let the core decide, and again with what follows from its plan at once."""
        whole: Plan = NOTHING
        while events := self.book.take_events():
            began = time.perf_counter()
            plan = self.scheduler.handle(now, events)
            self.decision_seconds += time.perf_counter() - began
            self.decisions += 1
            self.book.attach_adopted(partial(self._run_of, plan), now)
            self._carry_out(plan, now)
            whole = plan if whole is NOTHING else whole.joined(plan)
            self._wake_at = min(self._wake_at, plan.wake)
        return whole

    def _run_of(self, plan: Plan, task: Task) -> Run | None:
        """Returns the run that the core took over for a task, also if it evicted that in the same instant."""
        for evicted in plan.evictions:
            if evicted.run.task.index == task.index:
                return evicted.run
        pool = self.scheduler.pools.get(task.gpu_model)
        return pool.state.runs.get(task.index) if pool is not None else None

    def _carry_out(self, plan: Plan, now: float) -> None:
        """Start what is planned and stop what must go.

        An evicted task is submitted again when its owner has created its pods again: what does not exist holds nothing.
        """
        for lost in plan.lost:  # nodes go after their runs: this is for a node that went in the same instant
            self.book.forget_run(lost.run)
        started: dict[int, LiveTask] = {}
        for run in plan.starts:
            if (task := self.book.plan(run)) is None:
                continue
            started[run.task.index] = task
            log.info(f"start {task.name} on {', '.join(sorted(task.nodes))} (run {run.number})")
            if self.shadow is not None:
                self.shadow.plan(task, now)
        for run, reason, _ in plan.evictions:
            taker = started.get(reason.by.index) if isinstance(reason, EvictReason) else None
            if taker is None or taker.run is None:  # its start did not come about: the run goes on
                self.book.events.append(EvictionDone(run))
                self.book.forget_run(run)
                continue
            pods = self.book.evict(run, taker.run, now, reason)
            if self.shadow is not None:
                self.shadow.evict(run, reason)
            else:
                self.evictor.evict(run.task.name, pods, reason, taker, taker.run)
