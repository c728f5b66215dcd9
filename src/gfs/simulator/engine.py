"""The simulated cluster: a clock, what runs when it will finish, and the one loop.

Arrivals come from the sorted workload, everything else that is due from a heap of (time, sequence number, ...).
All that falls on one instant goes to the scheduler together; its plan is carried out at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import floor, inf
from typing import Any

from gfs.core.actions import CANCEL, EVICT, FINISH, LOST, NOTHING, START, SUBMIT, Eviction, LostRun, Plan, Record
from gfs.core.events import (
    Cancelled,
    Event,
    EvictionDone,
    Finished,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    Submitted,
    Tick,
    Wake,
)
from gfs.core.reasons import OverQuota, Reason
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.domain.errors import StuckError
from gfs.domain.execution import ExecutionRules
from gfs.domain.limits import MOST_IDLE
from gfs.domain.node import NodeEventKind
from gfs.domain.task import Task
from gfs.domain.units import DAY
from gfs.domain.workload import Workload
from gfs.gc_paused import gc_paused

STUCK_AFTER = 14 * DAY
"""Simulated time without arrivals and without anything running after which what still waits is stuck."""

FINISHES, BEGINS, LEFT, WITHDRAWN, WOKEN, NODES = range(6)
"""What is due: a run finishes or begins, an evicted one has left, a task is cancelled, a wake-up, nodes change."""

Heap = list[tuple[float, int, int, Any]]
"""(time, sequence number, what is due, the run, task or node changes it is due for)."""

Progress = Callable[[int], None]
"""Told now and then how many tasks have finished."""

CHANGES: dict[NodeEventKind, NodeChangeKind] = {
    "fail": NodeChangeKind.FAILED,
    "repair": NodeChangeKind.REPAIRED,
    "cordon": NodeChangeKind.CORDONED,
    "uncordon": NodeChangeKind.UNCORDONED,
}

AFTER_ALL = 1 << 60
"""Added to the sequence number of a cancellation: what begins or finishes at the same instant comes first."""

TICK, WAKE = Tick(), Wake()


class Engine:
    """Runs a workload through a scheduler until every task has finished or was cancelled."""

    __slots__ = (
        "_begins", "_cancelled", "_durations", "_heap", "_nodes", "_progress", "_record", "_remaining", "_rules",
        "_sequence", "_tick", "_workload", "after_instant", "scheduler",
    )  # fmt: skip

    def __init__(
        self,
        workload: Workload,
        scheduler: Scheduler,
        record: Callable[[Record], None],
        *,
        rules: ExecutionRules,
        tick: float = 300.0,
        progress: Progress | None = None,
    ) -> None:
        self.scheduler = scheduler
        self._workload = workload
        self._durations = workload.durations
        self._record = record
        self._rules = rules
        self._tick = tick
        self._progress = progress
        self._heap: Heap = []  # an entry keeps its time; that of a run that was stopped is skipped
        self._sequence = count(1)
        self._cancelled = 0
        self._begins: list[Run] = []
        """Spot runs that begin in this instant, unless its tick takes them back."""
        self._remaining: dict[int, float] = {}
        """Task index -> work left in seconds, for tasks that were stopped."""
        self._nodes = {node.name: node for node in workload.nodes}
        self.after_instant: Callable[[float], None] | None = None
        """Called when an instant has been handled: a moment at which the whole state may be saved."""

    def run(self) -> None:
        """Simulate to the end."""
        with gc_paused():  # to collect would cost a fifth of the time
            self._loop()

    def _loop(self) -> None:
        """From instant to instant: what is due, arrivals and ticks go to the scheduler together.

        What happens to nearly every task, that it comes and finishes, stands here without calls: they cost a tenth.
        """
        tasks, cancel_times = self._workload.tasks, self._workload.cancel_times
        heap, record, total = self._heap, self._record, len(tasks)
        arrived, finished, last_moved = 0, 0, inf
        next_arrival = tasks[0].submit_time if tasks else inf
        next_tick = _first_tick(next_arrival, self._tick)
        stuck_after = max(STUCK_AFTER, 2 * self._tick)
        self._expect_node_events()
        while True:  # with a condition here Python 3.11 may never specialize the loop: it does so at plain jumps back
            if next_arrival == inf and finished + self._cancelled >= total:
                return
            now = next_arrival if next_arrival < next_tick else next_tick
            events: list[Event] = []
            begins = self._begins = []
            if heap and heap[0][0] <= now:
                now = heap[0][0]
                while True:
                    _, _, what, who = heappop(heap)
                    if what == BEGINS and who.task.is_spot:
                        begins.append(who)  # unless the tick of this instant takes it back
                    elif what != FINISHES:
                        self._take_due(what, who, now, events)
                    elif who.alive:
                        record((now, FINISH, who.task, who, None))
                        events.append(Finished(who))
                        finished += 1
                        last_moved = now
                    if not heap or heap[0][0] != now:
                        break
            if next_arrival == now:
                while next_arrival == now:
                    task = tasks[arrived]
                    record((now, SUBMIT, task, None, None))
                    events.append(Submitted(task))
                    if cancel_times and cancel_times[arrived] < inf:
                        self._cancel_later(task, cancel_times[arrived], now, events)
                    arrived += 1
                    next_arrival = tasks[arrived].submit_time if arrived < total else inf
                last_moved = now
            elif next_arrival == inf and now - last_moved > stuck_after and self._is_stuck():
                raise self._stuck(total - finished - self._cancelled)
            if now == next_tick:
                events.append(TICK)
                over = finished + self._cancelled
                next_tick = self._tick_after(now, now - last_moved if over == arrived else 0.0, next_arrival)
                if self._progress:
                    self._progress(over)
            plan = self.scheduler.handle(now, events) if events else NOTHING  # none: a run was stopped before its end
            if begins:
                self._begin_spot(begins, plan)
            if plan is not NOTHING:
                self._carry_out(plan, now)
            if events and self.after_instant is not None:
                self.after_instant(now)

    def _tick_after(self, now: float, idle: float, next_arrival: float) -> float:
        """The next tick; where nothing runs or waits for long, the last one before the next arrival."""
        following = now + self._tick
        return following if idle <= MOST_IDLE else max(following, _first_tick(next_arrival - self._tick, self._tick))

    # -- what is due -------------------------------------------------------------------------------

    def _take_due(self, what: int, who: Any, now: float, events: list[Event]) -> None:
        """Something in the heap falls on this instant that is no finish."""
        if what == WITHDRAWN:
            self._cancel(who, now, events)
        elif what == LEFT:
            events.append(EvictionDone(who))
        elif what == WOKEN:
            events.append(WAKE)
        elif what == NODES:
            events.append(NodesChanged(who))
        elif who.alive:
            self._begin(who)

    def _cancel_later(self, task: Task, at: float, now: float, events: list[Event]) -> None:
        """A task will be withdrawn, or is at once."""
        if at <= now:
            self._cancel(task, now, events)
        else:
            heappush(self._heap, (at, AFTER_ALL + next(self._sequence), WITHDRAWN, task))

    def _cancel(self, task: Task, now: float, events: list[Event]) -> None:
        """The owner of a task withdraws it, unless it is done."""
        pool = self.scheduler.pools.get(task.gpu_model)
        run = pool.state.runs.get(task.index) if pool else None
        waits = now == task.submit_time or (pool is not None and task.index in pool.state.waiting)
        if not (waits if run is None else run.alive):
            return
        if any(isinstance(event, Finished) and event.run is run for event in events):
            return  # it finishes at this very instant
        began = run is not None and run.start <= now and run not in self._begins
        self._record((now, CANCEL, task, run if began else None, None))
        events.append(Cancelled(task))
        self._cancelled += 1

    def _expect_node_events(self) -> None:
        """What happens to nodes is known in advance here; the scheduler hears of it when it happens."""
        at: dict[float, list[NodeChange]] = {}
        for event in self._workload.node_events:
            at.setdefault(event.time, []).append(NodeChange(CHANGES[event.event], self._nodes[event.node]))
        for time, changes in at.items():
            heappush(self._heap, (time, next(self._sequence), NODES, changes))

    # -- carrying out a plan -----------------------------------------------------------------------

    def _carry_out(self, plan: Plan, now: float) -> None:
        for lost in plan.lost:
            if lost.began:
                self._lose(lost, now)
        for eviction in plan.evictions:
            self._stop(now, eviction)
        for run in plan.starts:
            if run.start > now:
                heappush(self._heap, (run.start, next(self._sequence), BEGINS, run))
            else:
                self._begin(run)
        if plan.wake != inf:
            heappush(self._heap, (plan.wake, next(self._sequence), WOKEN, None))

    def _begin_spot(self, runs: list[Run], plan: Plan) -> None:
        """Begins the spot runs of this instant, but for those that the tick took back or that were cancelled."""
        stopped = {each.run for each in plan.evictions} | {each.run for each in plan.lost}
        for run in runs:
            if run.alive or run in stopped:
                self._begin(run)

    def _begin(self, run: Run) -> None:
        """A run's pods start; it will finish when what is left of its work is done."""
        task, waited = run.task, run.waited
        left = self._durations[task.index] if run.number == 1 else self._remaining[task.index]
        self._record((run.start, START, task, run, waited.reason if waited is not None else None))
        heappush(self._heap, (run.progress_from + left, next(self._sequence), FINISHES, run))

    def _stop(self, now: float, eviction: Eviction) -> None:
        """An evicted run keeps what it had saved."""
        run, reason, keeps_progress = eviction
        if keeps_progress:
            saved = max(0.0, now - run.progress_from)
        else:
            saved = self._rules.saved(run.task, run.number, now - run.start)
            if self._rules.grace_period:
                heappush(self._heap, (now + self._rules.grace_period, next(self._sequence), LEFT, run))
        self._keep(run.task, saved)
        self._record((now, EVICT, run.task, run, reason))

    def _lose(self, lost: LostRun, now: float) -> None:
        """A lost run keeps what its last checkpoint saved."""
        run = lost.run
        overhead = run.progress_from - run.start
        self._keep(run.task, self._rules.saved_at_loss(run.task, now - run.start - overhead))
        self._record((now, LOST, run.task, run, lost))

    def _keep(self, task: Task, saved: float) -> None:
        left = self._remaining.get(task.index, self._durations[task.index])
        self._remaining[task.index] = left - saved

    # -- stuck -------------------------------------------------------------------------------------

    def _is_stuck(self) -> bool:
        """Whether nothing that is due will change that nothing moves."""
        return not any(what in (WITHDRAWN, NODES) or (who and who.alive) for _, _, what, who in self._heap)

    def _stuck(self, tasks: int) -> StuckError:
        waiting = list(self.scheduler.waiting())
        lines = [f"{tasks} tasks can never start, though nothing runs any more. The first of them:"]
        for task, reason in waiting[:5]:
            asks = " + ".join(f"{role.pods} pods x {role.gpus_per_pod:g} GPUs" for role in task.roles)
            lines.append(f"  {task.name}: {asks}: {reason.text()}")
        closed = sum(node.closed for pool in self.scheduler.pools.values() for node in pool.state.nodes)
        lines.append(
            "Nothing has moved for days of simulated time. " + stuck_advice([why for _, why in waiting], closed)
        )
        return StuckError("\n".join(lines))


def stuck_advice(reasons: Sequence[Reason], closed: int) -> str:
    """What to do about tasks that wait for these reasons, for ever, while so many nodes are closed."""
    steps: list[str] = []
    if closed:
        nodes = f"{closed} node{'s' * (closed > 1)}"
        steps.append(f"{nodes} stay failed or cordoned to the end: add their repair or uncordon to the node events")
    if any(isinstance(why, OverQuota) for why in reasons):
        steps.append("where the spot quota is the reason, raise it (for example --set quota_share=0.5, or quota=none)")
    lacks_more_than_cards = {getattr(why, "lacks_more_than_cards", None) for why in reasons}
    if True in lacks_more_than_cards:
        steps.append(
            "where CPUs or memory are short, correct cpu_request or cpu_num, or count GPUs only (resources=off)"
        )
    if not steps or False in lacks_more_than_cards:
        steps.append("take tasks that need more GPUs than there are out of the trace")
    text = "; ".join(steps)
    return f"{text[0].upper()}{text[1:]}."


def _first_tick(start: float, tick: float) -> float:
    """The first multiple of `tick` at or after `start`."""
    if start == inf:
        return inf
    ticks = floor(start / tick)
    return ticks * tick if ticks * tick >= start else (ticks + 1) * tick
