"""The scheduler: events in, a plan out. Simulator and live cluster drive this same object.

for now, events in driver.instants():
    plan = scheduler.handle(now, events)
    driver.apply(plan)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from gfs.core.actions import NOTHING, LostRun, Plan
from gfs.core.events import (
    Adopted,
    Cancelled,
    CheckpointsSaved,
    DisruptionRules,
    Event,
    EvictionDone,
    Finished,
    FoundRun,
    Lost,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    PodsOn,
    Shrunk,
    StartFailed,
    Submitted,
    Tick,
    Trained,
    Wake,
    in_order,
)
from gfs.core.invariants import check_state
from gfs.core.ports import Build, Policy, SolverFigures
from gfs.core.reasons import Reason
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.node import NodeSpec
from gfs.domain.task import Task

MakeState = Callable[[str, Sequence[NodeSpec]], PoolState]
"""GPU model and nodes -> the state of a new pool."""

TickObserver = Callable[[float, PoolState, Policy], None]


class PoolScheduler:
    """One pool: its state, the policy built from it, and what has come up in the instant that is handled."""

    __slots__ = ("_build", "arrived", "freed", "lasting", "policy", "state", "submitted", "touched")

    def __init__(self, state: PoolState, build: Build) -> None:
        self.state = state
        self._build = build
        self.policy = build(state)
        self.submitted = state.listeners.submitted
        self.arrived: list[Task] = []
        self.freed = False
        self.touched = False
        self.lasting = bool(state.nodes)
        """Whether it ever had a node. One that never had any goes when nobody waits for it."""

    def rebuild(self) -> None:
        """Nodes have changed, or a state was loaded: everything derived is rebuilt."""
        self.lasting = self.lasting or bool(self.state.nodes)
        self.state.rebuild()
        self.policy = self._build(self.state)

    def decide(self, now: float) -> Plan:
        """One scheduling pass with what has come up."""
        arrived, freed = self.arrived, self.freed
        self.freed = self.touched = False
        if arrived:
            self.arrived = []
        elif not self.state.waiting:
            return NOTHING
        return self.policy.decide(arrived, freed, now)


class Scheduler:
    """One policy per pool. Pure: the only clock is the `now` it is given, no I/O, no global randomness."""

    __slots__ = ("_build", "_in_turn", "_lost", "_make_state", "_on_tick", "_over", "pools")

    def __init__(
        self,
        nodes: Iterable[NodeSpec],
        make_state: MakeState,
        build: Build,
        *,
        on_tick: TickObserver | None = None,
    ) -> None:
        by_model: dict[str, list[NodeSpec]] = {}
        for node in nodes:
            by_model.setdefault(node.gpu_model, []).append(node)
        self._make_state = make_state
        self._build = build
        self._on_tick = on_tick
        self.pools = {model: PoolScheduler(make_state(model, some), build) for model, some in by_model.items()}
        """By GPU model. A task for a model without nodes has an empty pool to wait in."""
        self._in_turn = [self.pools[model] for model in sorted(self.pools)]
        self._over: set[int] = set()
        """Tasks submitted, done or withdrawn in the instant that is handled: hearing of them again brings none back."""
        self._lost: list[LostRun] = []

    # -- one instant -------------------------------------------------------------------------------

    def handle(self, now: float, events: Sequence[Event]) -> Plan:
        """Take in what happened at one instant, in the order of the time model whatever the order given, and decide."""
        if len(events) == 1:  # the same as below without its calls: a tenth of a simulation's time
            event: Any = events[0]
            kind = type(event)
            if kind is Finished:
                run: Run = event.run
                task = run.task
                pool = self.pools.get(task.gpu_model)
                if pool is not None:
                    state = pool.state
                    known = state.runs.get(task.index) is run and not (state.pending and run in state.pending)
                    if known:
                        state.finish(run, now)
                        return pool.policy.decide((), True, now) if state.waiting else NOTHING
            elif kind is Submitted:
                task = event.task
                pool = self.pools.get(task.gpu_model)
                if pool is not None:
                    state, index = pool.state, task.index
                    if index not in state.runs and index not in state.waiting:
                        if pool.submitted:
                            for tell in pool.submitted:
                                tell(task, now)
                        return pool.policy.decide((task,), False, now)
        return self._handle(now, in_order(events) if len(events) > 1 else events)

    def _handle(self, now: float, events: Sequence[Event]) -> Plan:
        for event in events:
            self._take_in(event, now)
        self._over.clear()
        lost, self._lost = self._lost, []
        return self._decide(now, lost)

    def _take_in(self, event: Event, now: float) -> None:
        """Note what an event says, in the state of its pool."""
        match event:  # the most frequent ones first
            case Submitted(task):
                self._submit(task, now)
            case Finished(run) | Lost(run) | StartFailed(run):
                self._end(event, run, now)
            case Tick():
                self._tick(now)
            case EvictionDone(run):
                self._leave(run, now)
            case Shrunk(run, pods):
                self._shrink(run, pods, now)
            case Cancelled(task):
                self._cancel(task, now)
            case NodesChanged(changes):
                self._change_nodes(changes, now)
            case Adopted(runs):
                self._adopt(runs, now)
            case CheckpointsSaved(saved):
                self._note_checkpoints(saved, now)
            case DisruptionRules(protected, together):
                for pool in self.pools.values():
                    pool.state.pool.protected, pool.state.pool.together = protected, together
            case Trained():
                self._learn(event)
            case Wake():
                for pool in self.pools.values():
                    pool.touched = True

    def _end(self, event: Event, run: Run, now: float) -> None:
        """A run is over. One that is not known here, or that has not begun and is said to be done, is passed over."""
        pool = self._touch(run.task)
        if pool is None or pool.state.runs.get(run.task.index) is not run:
            return
        if isinstance(event, Finished) and run in pool.state.pending:
            return
        pool.freed = True
        if isinstance(event, Finished):
            self._over.add(run.task.index)
            pool.state.finish(run, now)
        elif isinstance(event, Lost):
            pool.state.lose(run, now)
        else:
            pool.state.fail_start(run, now)

    def _shrink(self, run: Run, pods: Iterable[PodsOn], now: float) -> None:
        pool = self._touch(run.task)
        if pool is not None and pool.state.runs.get(run.task.index) is run:
            pool.freed |= pool.state.shrink(run, pods, now)

    def _leave(self, run: Run, now: float) -> None:
        if pool := self._touch(run.task):
            pool.state.eviction_done(run, now)

    def _cancel(self, task: Task, now: float) -> None:
        self._over.add(task.index)
        if pool := self._touch(task):
            # Who waited may have kept others waiting: as head of a strict queue, or with reserved nodes.
            pool.freed |= pool.state.cancel(task, now) is not None

    def _learn(self, trained: Trained) -> None:
        pool = self.pools.get(trained.gpu_model)
        if pool is not None:
            pool.policy.quota.trained(trained.model, trained.asked_at)

    def _submit(self, task: Task, now: float) -> None:
        pool = self._find(task.gpu_model)
        state, index = pool.state, task.index
        if index in self._over or index in state.runs or index in state.waiting:
            return
        pool.touched = True
        self._over.add(index)  # to be told of it again in this instant says nothing new
        for tell in pool.submitted:
            tell(task, now)
        pool.arrived.append(task)

    def _tick(self, now: float) -> None:
        for pool in self.pools.values():
            pool.freed = pool.touched = True
            pool.policy.quota.tick(now)
            pool.policy.ticked(now)
            if self._on_tick:
                self._on_tick(now, pool.state, pool.policy)

    def _change_nodes(self, changes: Iterable[NodeChange], now: float) -> None:
        by_model: dict[str, list[NodeChange]] = {}
        model_of = {node.name: model for model, pool in self.pools.items() for node in pool.state.nodes}
        for change in changes:
            kind, node = change
            model = model_of.get(node.name, node.gpu_model)
            if model != node.gpu_model and kind in (NodeChangeKind.ADDED, NodeChangeKind.RESIZED):  # another label
                by_model.setdefault(model, []).append(NodeChange(NodeChangeKind.REMOVED, node))
                model = node.gpu_model
            by_model.setdefault(model, []).append(change)
            model_of[node.name] = model
        for model, some in sorted(by_model.items()):
            pool = self._find(model)
            lost, changed = pool.state.change_nodes(some, now)
            self._lost += lost
            if changed:
                pool.rebuild()
                pool.freed = pool.touched = True

    def _adopt(self, runs: Iterable[FoundRun], now: float) -> None:
        by_model: dict[str, list[FoundRun]] = {}
        for found in runs:
            if found.task.index not in self._over:
                by_model.setdefault(found.task.gpu_model, []).append(found)
        for model, some in sorted(by_model.items()):
            pool = self._find(model)
            self._lost += pool.state.adopt(some, now)
            pool.rebuild()
            pool.freed = pool.touched = True

    def _note_checkpoints(self, saved: Iterable[tuple[Run, float]], now: float) -> None:
        """Victims are chosen by what they would lose: orders of runs by that are rebuilt."""
        later: set[str] = set()
        for run, at in saved:
            pool = self.pools.get(run.task.gpu_model)
            if pool and pool.state.runs.get(run.task.index) is run and run.progress_from < at <= now:
                run.progress_from = at
                later.add(run.task.gpu_model)
        for model in sorted(later):
            self.pools[model].rebuild()

    def _decide(self, now: float, lost: Sequence[LostRun]) -> Plan:
        plan, pools = NOTHING, len(self.pools)
        for pool in self._in_turn:
            if not pool.touched:
                continue
            decided = pool.decide(now)
            plan = decided if plan is NOTHING else plan.joined(decided)
            if not pool.lasting and not pool.state.waiting:
                del self.pools[pool.state.gpu_model]
        if len(self.pools) < pools:
            self._in_turn = [self.pools[model] for model in sorted(self.pools)]
        if lost:
            plan = Plan() if plan is NOTHING else plan
            plan.lost = lost
        return plan

    def _find(self, model: str) -> PoolScheduler:
        """The pool of a GPU model, an empty one if there is none yet."""
        return self.pools.get(model) or self.add_pool(model)

    def _touch(self, task: Task) -> PoolScheduler | None:
        """The pool that a task belongs to, if there is one; something has come up there."""
        pool = self.pools.get(task.gpu_model)
        if pool is not None:
            pool.touched = True
        return pool

    def add_pool(self, model: str) -> PoolScheduler:
        """A pool without nodes: tasks for it wait, until some come."""
        pool = PoolScheduler(self._make_state(model, ()), self._build)
        self._put(pool)
        return pool

    def _put(self, *pools: PoolScheduler) -> None:
        self.pools.update({pool.state.gpu_model: pool for pool in pools})
        self._in_turn = [self.pools[model] for model in sorted(self.pools)]

    # -- saving ------------------------------------------------------------------------------------

    def facts(self) -> dict[str, dict[str, Any]]:
        """Everything that must be saved, by GPU model."""
        return {model: pool.state.facts() for model, pool in self.pools.items()}

    def remembered(self, models: Iterable[str]) -> set[type]:
        """The classes of what the parts of these pools remember."""
        pools = [self.pools.get(each) or PoolScheduler(self._make_state(each, ()), self._build) for each in models]
        return {kind for pool in pools for kind in pool.state.memory}

    def restore(self, facts: Mapping[str, dict[str, Any]]) -> None:
        """Take over saved facts, all or, if any of them makes no sense, none."""
        pools = []
        for model, some in facts.items():
            state = self._make_state(model, ())
            state.restore(some)
            pool = PoolScheduler(state, self._build)
            pool.lasting = True
            pools.append(pool)
        self._put(*pools)

    def forget_cluster(self, now: float) -> None:
        """Drop nodes, runs and queues; keep what was learned: ledger, evictions, and what parts remember."""
        for pool in self.pools.values():
            pool.state.forget_cluster(now)
            pool.rebuild()

    # -- what can be asked -------------------------------------------------------------------------

    def waiting(self) -> Iterator[tuple[Task, Reason]]:
        """Every task that waits, HP first, and why it does now."""
        for pool in self.pools.values():
            queued = sorted(pool.state.waiting.values(), key=lambda each: each.task.priority)
            for waiting in queued:
                yield waiting.task, pool.policy.explain(waiting.task)

    @property
    def solver(self) -> SolverFigures | None:
        """Where programs are solved: how that went, all pools together."""
        figures = [figure for pool in self.pools.values() if (figure := pool.policy.solver) is not None]
        return reduce(SolverFigures.plus, figures) if figures else None


class CheckedScheduler(Scheduler):
    """Looks through every pool when an instant is over: an account that does not add up raises at once."""

    __slots__ = ()

    def handle(self, now: float, events: Sequence[Event]) -> Plan:
        """Take in what happened at one instant, decide, and check."""
        plan = super().handle(now, events)
        for pool in self.pools.values():
            check_state(pool.state)
        return plan
