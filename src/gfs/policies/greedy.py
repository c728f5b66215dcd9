"""The pass that most schedulers share (Alg. 3): HP first, then spot, each task as soon as it fits.

quota check (spot only) -> on idle cards -> by preemption (HP only) -> wait, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from gfs.core.actions import NOTHING, Eviction, Plan
from gfs.core.admission import SpotAdmission
from gfs.core.listeners import Listener
from gfs.core.node import Node, Place
from gfs.core.ports import Placer, Policy, Preemptor, Queue, Quota, Victims
from gfs.core.reasons import Behind, EvictReason, NoDomain, NoNode, NoRoom, OverQuota, Reason
from gfs.core.run import End, Run
from gfs.core.state import PoolState
from gfs.core.trial import Trial
from gfs.domain.errors import StalePolicyError
from gfs.domain.execution import since_checkpoint
from gfs.domain.task import Priority, Role, Task
from gfs.domain.units import MICRO
from gfs.policies.domains import Roles, options_of, places_of, tightest_first
from gfs.policies.placement import FEW, Chooser
from gfs.policies.preemption import gentlest

PART_OF_A_CARD = 1 - 1 / MICRO
"""The largest fraction: where no card is idle, only fractions can still fit."""
ROUNDING = 1e-3
"""GPUs of slack where a limit is only meant to save hopeless tries."""


def _unlimited(guarantee_hours: float) -> float:
    """HP tasks know no quota."""
    return inf


class GreedyPolicy(Listener, Policy):
    """A queue per class, a placer, a preemptor and a quota, put together."""

    __slots__ = (
        "_admission", "_chooser", "_evictions", "_now", "_passed_heard", "_placer", "_plan", "_pool", "_preemptor",
        "_queues", "_returned", "_stale", "_trial", "_waiting", "quota", "state",
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
        self._waiting = state.waiting
        self._evictions = state.evictions
        self._queues = (hp_queue, spot_queue)
        self._placer = placer
        self._chooser = Chooser(state.pool, placer)
        self._preemptor = preemptor
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
            freed = self._placer.reopened() or freed
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

    def ticked(self, now: float) -> None:
        """Takes back spot starts that have not begun, the latest first, while the quota has fallen below them."""
        for run in [run for run in reversed(self.state.pending) if run.task.is_spot]:
            if self._admission.fallen_below(run.task):
                self._pool.lift(run)
                self.state.give_back(run, now)

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
        places = self._place(task)
        if places:
            self._plan.starts.append(self.state.start(task, places, self._now))
        return bool(places)

    def _try_hp(self, task: Task) -> bool:
        if places := self._place(task):
            self._plan.starts.append(self.state.start(task, places, self._now))
            return True
        return task.preempts and self._place_by_preemption(task)

    def _place(self, task: Task) -> list[Place]:
        """Returns places for all pods in idle room, or none."""
        if task.topology_key:
            domains = tightest_first(self._pool, options_of(self._pool, task).values())
            placed = next((places for roles in domains if (places := self._place_roles(roles))), [])
            return places_of(task, placed)
        if task.pods == 1:
            (role,) = task.roles
            node = self._chooser.choose(role)
            return [self._pool.occupy(node, role)] if node is not None else []
        return self._place_roles(task.roles)

    def _place_roles(self, roles: Sequence[Role]) -> list[Place]:
        pool = self._pool
        for role in roles:
            slots = pool.slots if role.pods > FEW else pool.gpu_slots  # to try a few pods is quicker than to count
            if slots(role) < role.pods:
                return []
        if all(self._trial.fill(role, self._chooser.choose, up=self._placer.fills_up) for role in roles):
            return self._trial.commit()
        self._trial.rollback()
        return []

    def _place_by_preemption(self, task: Task) -> bool:
        """Starts all pods, some in the room of victims; nothing is evicted unless all of them find a place."""
        trial, now = self._trial, self._now
        victims = self._victims(task)
        if victims is None:
            return False
        self._spare_bystanders(victims)
        evicted = [run for run in trial.evicted if run not in self.state.pending]
        for run in trial.evicted:
            if run in self.state.pending:
                self.state.give_back(run, now)
                continue
            self._plan.evictions.append(Eviction(run, self._evict_reason(run, task, victims[run])))
            self.state.evict(run, now)
        self._plan.starts.append(self.state.start(task, places_of(task, trial.commit()), now, evicted))
        return True

    def _victims(self, task: Task) -> dict[Run, Victims] | None:
        """Places all pods on the trial, in the domain whose victims cost least; returns the victims."""
        if not task.topology_key:
            return self._make_room(task.roles)
        ranked: list[tuple[float, int, Roles]] = []
        for position, roles in enumerate(options_of(self._pool, task).values()):
            victims = self._make_room(roles)
            if victims is not None:
                ranked.append((self._preemptor.cost(victims, self._now), position, roles))
                self._trial.rollback()
        return self._make_room(min(ranked)[2]) if ranked else None

    def _make_room(self, roles: Sequence[Role]) -> dict[Run, Victims] | None:
        """Places all pods on the trial, evicting where need be; returns each victim and its choice.

        None, with all undone: it cannot be done.
        """
        if any(self._pool.slots(role, without_spot=True) < role.pods for role in roles):
            return None
        trial, choose = self._trial, self._chooser.choose
        gone: dict[Run, Victims] = {}
        for role in roles:
            while not trial.fill(role, choose, up=self._placer.fills_up):
                victims = self._choose_victims(role, role.pods - trial.placed(role))
                if victims is None:
                    trial.rollback()
                    return None
                for run in victims.runs:
                    for each in self._pool.together.get(run, (run,)):
                        if each.alive and each not in gone:
                            trial.evict(each)
                            gone[each] = victims
                if victims.node is not None:
                    trial.place(victims.node, role)
        return gone

    def _choose_victims(self, role: Role, pods: int) -> Victims | None:
        """The preemptor's choice, unless it hits a protected run and another one does not, or hits fewer."""
        victims = self._preemptor.choose_gang(role, pods, self._now) or self._preemptor.choose(role, self._now)
        protected = self._pool.protected
        if victims is None or protected.isdisjoint(victims.runs):
            return victims
        other = gentlest(self._pool, role, self._now, whole_nodes=self._preemptor.whole_nodes)
        most = 0 if victims.node is None else len(protected.intersection(victims.runs)) - 1
        return other if other is not None and len(protected.intersection(other.runs)) <= most else victims

    def _spare_bystanders(self, victims: dict[Run, Victims]) -> None:
        """Spares runs on nodes that the taker does not use: their GPUs are as free as they were taken."""
        used, together = {place[0] for place in self._trial.places}, self._pool.together
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
        return self._placer.kept_from_spot()

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
        if task.topology_key and not options_of(pool, task):
            return NoDomain(pool.gpu_model, task.topology_key)
        head = self._queues[task.priority].head()
        if head is not None and head is not task:
            return Behind(head)
        if task.is_spot and (hours := self._admission.exceeded(task)) is not None:
            held, limit = pool.spot_held(hours) / MICRO, self.quota.limit(hours)
            return OverQuota(pool.gpu_model, limit, held, task.gpus, hours, self.quota.why(hours))
        return self._no_room(task)

    def _no_room(self, task: Task) -> NoRoom:
        """Speaks of the role that lacks most; with a topology key, in the domain that comes closest."""
        pool, chooser = self._pool, self._chooser
        closed, why_closed = self._placer.closed(task)
        role, slots = self._scarcest(task)
        without_spot = None if task.is_spot else pool.slots(role, without_spot=True)
        return NoRoom(
            pool=pool.gpu_model,
            pods=role.pods,
            gpus_per_pod=role.gpus_per_pod,
            idle=pool.idle,
            gap=pool.largest_gap(),
            slots=slots,
            closed=closed,
            without_spot=without_spot,
            why_closed=why_closed,
            short=chooser.short(role) if slots < role.pods else "",
            still_short=""
            if without_spot is None or without_spot >= role.pods
            else chooser.short(role, without_spot=True),
        )

    def _scarcest(self, task: Task) -> tuple[Role, int]:
        """Returns the role of which fewest of the pods find room, and for how many there is room."""
        options = list(options_of(self._pool, task).values()) or [task.roles]
        scarcest = [
            min(((role, self._pool.slots(role)) for role in roles), key=lambda each: each[1] / each[0].pods)
            for roles in options
        ]
        return max(scarcest, key=lambda each: each[1] / each[0].pods)
