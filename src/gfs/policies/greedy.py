"""The pass that most schedulers share (Alg. 3): HP first, then spot, each task as soon as it fits.

quota check (spot only) -> on idle cards -> by preemption (HP only) -> wait, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from gfs.core.actions import NOTHING, Eviction, Plan
from gfs.core.admission import SpotAdmission
from gfs.core.listeners import Listener
from gfs.core.node import Node, Place
from gfs.core.ports import (
    FillsUp,
    KeepsFromSpot,
    Placer,
    Preemptor,
    Queue,
    Quota,
    Refuses,
    Reopens,
    StrictOrder,
    Victims,
    WholeGangs,
    WholeNodes,
)
from gfs.core.reasons import Behind, EvictReason, NoNode, NoRoom, OverQuota, Reason
from gfs.core.run import End, Run
from gfs.core.state import PoolState
from gfs.core.trial import Trial
from gfs.domain.errors import StalePolicyError
from gfs.domain.execution import since_checkpoint
from gfs.domain.task import Priority, Task
from gfs.domain.units import MICRO
from gfs.policies.placement import Chooser
from gfs.policies.preemption import gentlest

PART_OF_A_CARD = 1 - 1 / MICRO
"""The largest fraction: where no card is idle, only fractions can still fit."""
ROUNDING = 1e-3
"""GPUs of slack where a limit is only meant to save hopeless tries."""


def _unlimited(guarantee_hours: float) -> float:
    """HP tasks know no quota."""
    return inf


class GreedyPolicy(Listener):
    """A queue per class, a placer, a preemptor and a quota, put together."""

    __slots__ = (
        "_admission", "_cards_only", "_chooser", "_evictions", "_fills_up", "_gangs", "_now", "_passed_heard",
        "_placer", "_plan", "_pool", "_preemptor", "_queues", "_refuses", "_reopens", "_returned", "_stale", "_strict",
        "_trial", "_waiting", "_whole_nodes", "quota", "state",
    )  # fmt: skip

    def __init__(
        self,
        state: PoolState,
        *,
        hp_queue: Queue,
        spot_queue: Queue,
        placer: Placer,
        preemptor: Preemptor,
        quota: Quota,
    ) -> None:
        self.state = state
        self.quota = quota
        self._admission = SpotAdmission(state.pool, quota)
        self._pool = state.pool
        self._cards_only = not state.pool.counts_resources
        self._waiting = state.waiting
        self._evictions = state.evictions
        self._queues = (hp_queue, spot_queue)
        # What parts can do besides is looked up once: to ask a protocol takes longer than many a decision.
        self._strict = tuple(queue if isinstance(queue, StrictOrder) else None for queue in self._queues)
        self._refuses = placer if isinstance(placer, Refuses) else None
        self._placer = placer
        self._chooser = Chooser(state.pool, placer)
        self._fills_up = isinstance(placer, FillsUp) and placer.fills_up
        self._reopens = placer if isinstance(placer, Reopens) else None
        self._preemptor = preemptor
        self._gangs = preemptor if isinstance(preemptor, WholeGangs) else None
        self._whole_nodes = isinstance(preemptor, WholeNodes)
        self._trial = Trial(state.pool)
        self._returned: list[Task] = []
        """Tasks whose runs ended before their time in this instant: why they wait is still to be said."""
        self._plan = Plan()
        self._now = 0.0
        self._stale = False
        for waiting in state.waiting.values():
            self._queues[waiting.task.priority].push(waiting.task)
            if waiting.reason is None:
                self._returned.append(waiting.task)
        self._passed_heard = state.listeners.passed
        state.listen(self)

    # -- what happened -----------------------------------------------------------------------------

    def ended(self, run: Run, end: End, now: float) -> None:
        """A task that was stopped waits again."""
        if end.waits_again:
            self._queues[run.task.priority].push(run.task)
            self._returned.append(run.task)

    def dropped(self) -> None:
        """Nodes have changed: another policy takes over."""
        self._stale = True

    def withdrawn(self, task: Task, now: float) -> None:
        """A task waits no longer."""
        self._queues[task.priority].remove(task)
        if self._returned:
            self._returned = [each for each in self._returned if each.index != task.index]

    # -- one pass ----------------------------------------------------------------------------------

    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """HP first, then spot. Without room freed only the newcomers can have a chance."""
        waiting = self._waiting
        if self._stale:
            raise StalePolicyError("nodes have changed since this policy was built: build it again from the state")
        if now >= self._evictions.next_change:
            self.state.age(now)
            freed = (self._reopens is not None and self._reopens.reopened()) or freed
        rescan = freed and bool(waiting)  # someone waits, and may find room now
        if not arrived and not rescan:
            return NOTHING
        self._now = now
        self._plan = plan = Plan()
        if not waiting and len(arrived) == 1:  # nearly always
            task = arrived[0]
            if self._try_spot(task) if task.is_spot else self._try_hp(task):
                if not plan.evictions:
                    return self._passed(plan) if self._passed_heard else plan
                self._scan_spot()
            else:
                self._push(task)
        elif rescan:
            for task in arrived:
                self._push(task)
            self._queues[Priority.HP].scan(self._try_hp, self._pool.largest_hp_gap() or PART_OF_A_CARD, _unlimited)
            self._scan_spot()
        else:
            self._serve_newcomers(arrived)
        if arrived or self._returned:
            self._explain_waiting(arrived)
        return self._passed(plan) if self._passed_heard else plan

    def _passed(self, plan: Plan) -> Plan:
        for tell in self._passed_heard:
            tell(self._now)
        return plan

    def _push(self, task: Task) -> None:
        self.state.queue(task, self._now)
        self._queues[task.priority].push(task)

    def _serve_newcomers(self, arrived: Sequence[Task]) -> None:
        """Others wait and nothing has changed for them: only the newcomers have a chance."""
        hp = [task for task in arrived if not task.is_spot]
        spot = [task for task in arrived if task.is_spot]
        for task in arrived:
            self.state.queue(task, self._now)
        self._queues[Priority.HP].arrive(hp, self._try_hp)
        if self._plan.evictions:
            for task in spot:
                self._queues[Priority.SPOT].push(task)
            self._scan_spot()
        else:
            self._queues[Priority.SPOT].arrive(spot, self._try_spot)

    def _scan_spot(self) -> None:
        pod_limit = self._pool.largest_gap() or PART_OF_A_CARD
        self._queues[Priority.SPOT].scan(self._try_spot, pod_limit, self._headroom)

    def _headroom(self, guarantee_hours: float) -> float:
        """GPUs that spot tasks with this guarantee may still take, with a little slack for rounding."""
        return self._admission.headroom(guarantee_hours) + ROUNDING

    # -- one task ----------------------------------------------------------------------------------

    def _try_spot(self, task: Task) -> bool:
        if self._admission.exceeded(task) is not None:
            return False
        if task.pods == 1 and self._cards_only and task.node_filter is None:
            node = self._placer.choose(task)
            if node is None:
                return False
            places = [self._pool.occupy(node, task)]
        elif not (places := self._place(task)):
            return False
        self._plan.starts.append(self.state.start(task, places, self._now))
        return True

    def _try_hp(self, task: Task) -> bool:
        if task.pods == 1 and self._cards_only and task.node_filter is None:
            node = self._placer.choose(task)
            if node is not None:
                self._plan.starts.append(self.state.start(task, [self._pool.occupy(node, task)], self._now))
                return True
        elif places := self._place(task):
            self._plan.starts.append(self.state.start(task, places, self._now))
            return True
        if not task.preempts or self._pool.slots(task, without_spot=True) < task.pods:
            return False
        return self._place_by_preemption(task)

    def _place(self, task: Task) -> list[Place]:
        """All pods on idle cards, or none."""
        if self._pool.slots(task) < task.pods:
            return []
        if self._trial.fill(task, self._chooser_for(task), up=self._fills_up):
            return self._trial.commit()
        self._trial.rollback()
        return []

    def _chooser_for(self, task: Task) -> Callable[[Task], Node | None]:
        return self._placer.choose if self._pool.plain(task) else self._chooser.choose_fitting

    def _place_by_preemption(self, task: Task) -> bool:
        """All pods, some on cards that victims leave; nobody is evicted unless all of them find a place."""
        trial, now = self._trial, self._now
        victims = self._make_room(task)
        if victims is None:
            return False
        self._spare_bystanders(victims)
        for run, chosen in victims.items():
            self._plan.evictions.append(Eviction(run, self._evict_reason(run, task, chosen)))
            self.state.evict(run, now)
        evicted = trial.evicted
        self._plan.starts.append(self.state.start_after(task, trial.commit(), now, evicted))
        return True

    def _make_room(self, task: Task) -> dict[Run, Victims] | None:
        """Place all pods on the trial, evicting where need be; each victim and its choice, or None with all undone."""
        trial, choose = self._trial, self._chooser_for(task)
        gone: dict[Run, Victims] = {}
        while not trial.fill(task, choose, up=self._fills_up):
            victims = self._choose_victims(task, task.pods - trial.pods)
            if victims is None:
                trial.rollback()
                return None
            for run in victims.runs:
                for each in self._pool.together.get(run, (run,)):
                    if each.alive and each not in gone:
                        trial.evict(each)
                        gone[each] = victims
            if victims.node is not None:
                trial.place(victims.node, task)
        return gone

    def _choose_victims(self, task: Task, pods: int) -> Victims | None:
        """The preemptor's choice, unless it hits somebody who is protected and another one does not, or hits fewer."""
        victims = self._gangs.choose_gang(task, pods, self._now) if self._gangs is not None else None
        if victims is None:
            victims = self._preemptor.choose(task, self._now)
        protected = self._pool.protected
        if victims is None or protected.isdisjoint(victims.runs):
            return victims
        other = gentlest(self._pool, task, self._now, whole_nodes=self._whole_nodes)
        most = 0 if victims.node is None else len(protected.intersection(victims.runs)) - 1
        return other if other is not None and len(protected.intersection(other.runs)) <= most else victims

    def _spare_bystanders(self, victims: dict[Run, Victims]) -> None:
        """Nobody goes from nodes that the taker does not use: their cards are as free as they were taken."""
        used, together = {node for node, _, _ in self._trial.places}, self._pool.together
        unused = [run for run in victims if used.isdisjoint(run.nodes)]
        for run in [run for run in unused if set(together.get(run, ())).issubset(unused)]:
            self._trial.spare(run)
            del victims[run]

    def _evict_reason(self, run: Run, by: Task, victims: Victims) -> EvictReason:
        task = run.task
        lost = 0.0
        if not self.state.rules.checkpoint_on_grace:
            lost = since_checkpoint(run.progress_from, task.checkpoint_interval, self._now)
        node = victims.node or run.nodes[0]
        choice = f"{victims.choice}, against its disruption budget" if run in self._pool.protected else victims.choice
        return EvictReason(by, node.name, choice, lost, task.gpus, victims.alternatives)

    def kept_from_spot(self) -> Mapping[Node, Task | None]:
        """Nodes that the placer keeps spot tasks away from."""
        return self._placer.kept_from_spot() if isinstance(self._placer, KeepsFromSpot) else {}

    # -- why tasks wait ----------------------------------------------------------------------------

    def _explain_waiting(self, arrived: Sequence[Task]) -> None:
        """Note a reason for everything that entered the queues in this instant and is still there."""
        for task in (*arrived, *self._returned):
            waiting = self._waiting.get(task.index)
            if waiting is not None and waiting.reason is None:
                waiting.reason = self.explain(task)
        self._returned.clear()

    def explain(self, task: Task) -> Reason:
        """Why a task that waits does so now."""
        pool = self._pool
        if not pool.capacity:
            return NoNode(pool.gpu_model, len(pool.nodes))
        strict = self._strict[task.priority]
        if strict is not None and (head := strict.head()) is not task:
            return Behind(head)
        if task.is_spot and (hours := self._admission.exceeded(task)) is not None:
            held, limit = pool.spot_held(hours) / MICRO, self.quota.limit(hours)
            return OverQuota(pool.gpu_model, limit, held, task.gpus, hours, self.quota.why(hours))
        return self._no_room(task)

    def _no_room(self, task: Task) -> NoRoom:
        pool, chooser = self._pool, self._chooser
        closed, why_closed = self._refuses.closed(task) if self._refuses is not None else (0, "")
        slots, without_spot = pool.slots(task), None if task.is_spot else pool.slots(task, without_spot=True)
        return NoRoom(
            pool=pool.gpu_model,
            pods=task.pods,
            gpus_per_pod=task.gpus_per_pod,
            idle=pool.idle,
            gap=pool.largest_gap(),
            slots=slots,
            closed=closed,
            without_spot=without_spot,
            why_closed=why_closed,
            short=chooser.short(task) if slots < task.pods else "",
            still_short=""
            if without_spot is None or without_spot >= task.pods
            else chooser.short(task, without_spot=True),
        )
