"""The pass that most schedulers share (Alg. 3): HP first, then spot, each task as soon as it fits.

quota check (spot only) -> on idle cards -> by preemption (HP only) -> wait, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from gfs.core.actions import NOTHING, Eviction, Plan
from gfs.core.ledger import GuaranteeLedger
from gfs.core.node import Place
from gfs.core.pool import Pool
from gfs.core.ports import Admission, Lengths, Placer, Preemptor, Queue, Quota, QuotaRow, Victims, WholeGangs
from gfs.core.reasons import Behind, EvictReason, NoRoom, OverQuota, Reason, SaysWhyClosed
from gfs.core.run import Run
from gfs.core.trial import Trial
from gfs.domain.execution import ExecutionRules, since_checkpoint
from gfs.domain.task import Kind, Task
from gfs.domain.units import MICRO
from gfs.policies.admission import ByGuarantee

PART_OF_A_CARD = 1 - 1 / MICRO
"""The largest fraction: where no card is idle, only fractions can still fit."""
ROUNDING = 1e-3
"""GPUs of slack where a limit is only meant to save hopeless tries."""


def _unlimited(lengths: Lengths) -> float:
    """HP tasks know no quota."""
    return inf


class GreedyPolicy:
    """A queue per class, a placer, a preemptor and a quota, put together."""

    leases = False
    solver = None

    def __init__(
        self,
        pool: Pool,
        *,
        hp_queue: Queue,
        spot_queue: Queue,
        placer: Placer,
        preemptor: Preemptor,
        quota: Quota,
        ledger: GuaranteeLedger,
        rules: ExecutionRules,
        admission: Admission | None = None,
    ) -> None:
        """`admission`: by the guarantee if nothing else is given."""
        self.pool = pool
        self.quota = quota
        self.ledger = ledger
        self._queues = (hp_queue, spot_queue)
        self._placer = placer
        self._choose = placer.choose
        self._why_closed = placer.why_closed if isinstance(placer, SaysWhyClosed) else None
        self._preemptor = preemptor
        self._gangs = preemptor if isinstance(preemptor, WholeGangs) else None
        self._rules = rules
        self._admission = admission or ByGuarantee()
        self._lengths = self._admission.lengths
        self._trial = Trial(pool)
        self._reasons: dict[int, Reason] = {}
        """Task index -> why it waits, for every task in the queues."""
        self._evictions: dict[int, int] = {}
        """Task index -> times evicted, for tasks that were."""
        self._plan = Plan()
        self._now = 0.0
        self._attempts = (self._try_hp, self._try_spot)

    # -- what happened -----------------------------------------------------------------------------

    def finish(self, run: Run, now: float) -> None:
        """A run is done; its cards are free."""
        task = run.task
        pool = self.pool
        if task.kind:
            self.ledger.finished(run, now)
            pool.forget_spot(run)
            self._preemptor.ended(run)
        run.alive = False
        pool.release(run.places, task)

    def tick(self, now: float) -> None:
        """The regular moment: the quota is reconsidered."""
        self.quota.tick(now)

    # -- one pass ----------------------------------------------------------------------------------

    def decide(self, arrived: Sequence[Task], freed: bool, now: float) -> Plan:
        """HP first, then spot. Without room freed only the newcomers can have a chance."""
        if not arrived and not self._reasons:
            return NOTHING
        if now >= self._placer.next_change:
            freed = self._placer.advance(now) or freed
        hopeful = freed and bool(self._reasons)  # someone waits, and may find room now
        if not arrived and not hopeful:
            return NOTHING
        self._now = now
        self._plan = plan = Plan()
        hp_queue, spot_queue = self._queues
        if not self._reasons and len(arrived) == 1:  # nearly always
            task = arrived[0]
            if self._attempts[task.kind](task):
                if not plan.evictions:
                    return plan
                self._scan_spot()
            else:
                self._queues[task.kind].push(task)
        elif hopeful:
            for task in arrived:
                self._queues[task.kind].push(task)
            if hp_queue:
                hp_queue.scan(self._try_hp, self.pool.largest_hp_gap() or PART_OF_A_CARD, _unlimited)
            self._scan_spot()
        else:
            hp = [task for task in arrived if not task.kind]
            spot = [task for task in arrived if task.kind]
            hp_queue.arrive(hp, self._try_hp)
            if plan.evictions:
                for task in spot:
                    spot_queue.push(task)
                self._scan_spot()
            else:
                spot_queue.arrive(spot, self._try_spot)
        self._explain_waiting(arrived)
        return plan

    def _scan_spot(self) -> None:
        pod_limit = self.pool.largest_gap() or PART_OF_A_CARD
        self._queues[Kind.SPOT].scan(self._try_spot, pod_limit, self._headroom)

    def _headroom(self, lengths: Lengths) -> float:
        """GPUs that spot tasks with these lengths may still take, with a little slack for rounding."""
        return max(map(self._room, lengths)) + ROUNDING

    def _room(self, hours: float) -> float:
        return self.quota.limit(hours) - self.pool.spot_held(hours) / MICRO

    def _within_quota(self, task: Task) -> bool:
        for hours in self._lengths(task):
            if self.pool.spot_held(hours) + task.micro <= self.quota.limit(hours) * MICRO:
                return True
        return False

    def _try_spot(self, task: Task) -> bool:
        pool = self.pool
        if not self._within_quota(task):
            return False
        if task.pods == 1:
            node = self._choose(task)
            if node is None:
                return False
            places = [pool.occupy(node, task)]
        elif not (places := self._place_gang(task)):
            return False
        run = self._start(task, places, self._now)
        pool.register_spot(run)
        self._preemptor.started(run)
        self.ledger.started(run, self._now)
        return True

    def _try_hp(self, task: Task) -> bool:
        if task.pods == 1:
            node = self._choose(task)
            if node is not None:
                self._start(task, [self.pool.occupy(node, task)], self._now)
                return True
        elif places := self._place_gang(task):
            self._start(task, places, self._now)
            return True
        if self._hp_slots(task) < task.pods:
            return False
        return self._place_by_preemption(task)

    def _idle_slots(self, task: Task) -> int:
        pool, cards = self.pool, task.cards
        return pool.idle_slots(cards) if cards else pool.idle_share_slots(task.share)

    def _hp_slots(self, task: Task) -> int:
        pool, cards = self.pool, task.cards
        return pool.hp_slots(cards) if cards else pool.hp_share_slots(task.share)

    def _place_gang(self, task: Task) -> list[Place]:
        """All pods on idle cards, or none."""
        if self._idle_slots(task) < task.pods:
            return []
        if self._trial.fill(task, self._choose, up=self._placer.fills_up):
            return self._trial.commit()
        self._trial.rollback()
        return []

    def _place_by_preemption(self, task: Task) -> bool:
        trial, preemptor, now = self._trial, self._preemptor, self._now
        reasons: list[EvictReason] = []
        while not trial.fill(task, self._choose, up=self._placer.fills_up):
            victims = self._gangs.choose_gang(task, task.pods - trial.pods, now) if self._gangs else None
            if victims is None:
                victims = preemptor.choose(task, now)
            if victims is None:
                for run in trial.evicted:
                    preemptor.started(run)
                trial.rollback()
                return False
            for run in victims.runs:
                trial.evict(run)
                preemptor.ended(run)
                reasons.append(self._evict_reason(run, task, victims))
            if victims.node is not None:
                trial.place(victims.node, task)
        for run, reason in zip(trial.evicted, reasons, strict=True):
            self._evict(run, reason)
        self._start(task, trial.commit(), now + self._rules.grace_period)
        return True

    # -- acting on a decision ----------------------------------------------------------------------

    def _start(self, task: Task, places: list[Place], start: float) -> Run:
        index = task.index
        number, overhead, waited_for = 1, 0.0, None
        if self._reasons:
            waited_for = self._reasons.pop(index, None)
        if index in self._evictions:
            number += self._evictions[index]
            overhead = self._rules.overhead(task, number)
        run = Run(task, number, places, start, overhead, waited_for)
        self._plan.starts.append(run)
        return run

    def _evict(self, run: Run, reason: EvictReason) -> None:
        task, now = run.task, self._now
        self.ledger.broken(run, now)
        run.alive = False
        for node in run.nodes:
            self._placer.evicted(node, now)
        self._evictions[task.index] = self._evictions.get(task.index, 0) + 1
        self._queues[Kind.SPOT].push(task)
        self._plan.evictions.append(Eviction(run, reason))

    def _evict_reason(self, run: Run, by: Task, victims: Victims) -> EvictReason:
        task = run.task
        lost = 0.0
        if not self._rules.checkpoint_on_grace:
            lost = since_checkpoint(run.progress_from, task.checkpoint_interval, self._now)
        node = victims.node or run.nodes[0]
        return EvictReason(by, node.name, victims.choice, lost, task.gpus)

    # -- why tasks wait ----------------------------------------------------------------------------

    def _explain_waiting(self, arrived: Sequence[Task]) -> None:
        """Note a reason for everything that entered the queues in this pass and is still there."""
        plan = self._plan
        started = {run.task.index for run in plan.starts}
        for task in (*arrived, *(eviction.run.task for eviction in plan.evictions)):
            if task.index not in started:
                self._reasons[task.index] = self._explain(task)

    def _explain(self, task: Task) -> Reason:
        pool = self.pool
        ahead = self._queues[task.kind].ahead_of(task)
        if ahead is not None:
            return Behind(ahead)
        if task.kind and not self._within_quota(task):
            hours = max(self._lengths(task), key=self._room)
            held, limit = pool.spot_held(hours) / MICRO, self.quota.limit(hours)
            why, why_hours = self.quota.why(hours), self._admission.why(task, hours)
            return OverQuota(pool.gpu_model, limit, held, task.gpus, hours, why, why_hours)
        placer = self._placer
        return NoRoom(
            pool=pool.gpu_model,
            pods=task.pods,
            gpus_per_pod=task.gpus_per_pod,
            idle=pool.idle,
            gap=pool.largest_gap(),
            slots=self._idle_slots(task),
            closed=placer.closed(task),
            without_spot=None if task.kind else self._hp_slots(task),
            why_closed=self._why_closed(task) if self._why_closed else "",
        )

    def waiting(self) -> Iterator[tuple[Task, Reason]]:
        """Everything that waits and why it does now, HP first."""
        for queue in self._queues:
            for task in queue:
                yield task, self._explain(task)

    def quota_rows(self) -> Sequence[QuotaRow]:
        """The spot quota as it stands."""
        return self.quota.rows()
