"""The state of one pool: every fact there is, and nothing that could be worked out from another.

Nodes, runs with their places, waiting tasks, the ledger of guarantees, recent evictions, and what parts of a
scheduler remember (demand history, feedback, fitted models: `remember`). Queues, node indexes and victim
profiles are built from it and hear of every change (`listen`). It can be saved and loaded
(`gfs.assembly.snapshot`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import is_dataclass
from itertools import count, starmap
from math import inf
from typing import Any, Literal, TypeVar

from msgspec import Struct

from gfs.core.actions import LostRun
from gfs.core.events import FoundRun, NodeChange, NodeChangeKind, PodsOn
from gfs.core.ledger import EvictionHistory, GuaranteeLedger
from gfs.core.listeners import Listener, Listeners
from gfs.core.node import GPUS, SLACK, WHOLE, Node, Place
from gfs.core.pool import Pool
from gfs.core.run import End, Leaving, Run, Waiting, held_on
from gfs.domain.execution import ExecutionRules
from gfs.domain.node import NodeSpec
from gfs.domain.task import Role, Task
from gfs.domain.units import MICRO

T = TypeVar("T")

FACTS = ("nodes", "runs", "waiting", "leaving", "pending", "ledger", "evictions", "memory")


class PoolState:
    """The facts of one pool, and the cards that they add up to."""

    __slots__ = (
        "_by_name", "_finished", "_started", "evictions", "gpu_model", "leaving", "ledger",
        "listeners", "memory", "nodes", "pending", "pool", "rules", "runs", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        gpu_model: str,
        specs: Iterable[NodeSpec] = (),
        *,
        rules: ExecutionRules | None = None,
        look_back: float = inf,
    ) -> None:
        """`look_back`: seconds that the ledger's F and G cover."""
        self.gpu_model = gpu_model
        self.rules = rules or ExecutionRules()
        self.listeners = Listeners()
        self._started, self._finished = self.listeners.started, self.listeners.finished
        self.pool = Pool(gpu_model, self.listeners)
        """Who holds which cards: derived from nodes and runs, kept up to date."""
        self.nodes = [Node(spec) for spec in specs]
        """In the order of the cluster's node list."""
        self.runs: dict[int, Run] = {}
        """Task index -> its run, in the order of starting."""
        self.waiting: dict[int, Waiting] = {}
        """Task index -> the task that waits, in the order of queuing."""
        self.leaving: dict[Run, Leaving] = {}
        """Evicted runs that are still in their grace period."""
        self.pending: dict[Run, int] = {}
        """Run that has not begun -> how many evicted runs have not left its places yet."""
        self.ledger = GuaranteeLedger(look_back)
        self.evictions = EvictionHistory()
        self.memory: dict[type, Any] = {}
        """Class -> what a part remembers (`remember`)."""
        self.rebuild()

    # -- derived parts -----------------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        """Let a part hear what happens, until nodes change."""
        self.listeners.add(listener)

    def remember(self, kind: type[T]) -> T:
        """What a part remembers: one object of a class of its own, made when first asked for.

        It is saved with the state, field by field, so the class is a dataclass or a msgspec Struct at the top level of
        a module, with a default for every field.
        """
        if kind not in self.memory:
            if "." in kind.__qualname__ or not (is_dataclass(kind) or issubclass(kind, Struct)):
                raise TypeError(f"{kind.__qualname__}: what is remembered is a dataclass or Struct of a module")
            self.memory[kind] = kind()
        kept: T = self.memory[kind]
        return kept

    def rebuild(self) -> None:
        """Work out again who holds which cards. Listeners are dropped: what they keep is out of date."""
        self.listeners.clear()
        self._by_name = {node.name: node for node in self.nodes}
        self.pool.rebuild(list(self.nodes), list(self.runs.values()))

    # -- tasks and runs ----------------------------------------------------------------------------

    def queue(self, task: Task, now: float) -> None:
        """A newcomer waits."""
        self.waiting[task.index] = Waiting(task, 1 + task.earlier_runs, now)

    def start(self, task: Task, places: list[Place], now: float, victims: Sequence[Run] = ()) -> Run:
        """Starts a task in these places, which it has taken; it begins when evicted runs have left them.

        `victims`: the runs that are evicted for it.
        """
        blockers = self._blockers(places, now, victims) if self.leaving or victims else []
        start = max([now, *(self.leaving[run].until for run in blockers)]) if blockers else now
        run = self._run(task, places, start, now)
        if blockers:
            self.pending[run] = len(blockers)
            for blocker in blockers:
                self.leaving[blocker].takers.append(run)
            if run.waited is None:  # a newcomer waits for them to leave, and since now
                run.waited = Waiting(task, run.number, now)
        elif task.is_spot:
            self.ledger.started(run, now)
        return run

    def _run(self, task: Task, places: list[Place], start: float, now: float) -> Run:
        waiting = self.waiting.pop(task.index, None) if self.waiting else None
        if waiting is None and not task.earlier_runs:  # nearly always
            run = Run(task, 1, places, start, start)
        else:
            number = 1 + task.earlier_runs if waiting is None else waiting.number
            overhead = waiting.overhead if waiting is not None else None
            if overhead is None:
                overhead = self.rules.overhead(task, number)
            run = Run(task, number, places, start, start + overhead, waiting)
        self.runs[task.index] = run
        if task.is_spot:
            self.pool.register_spot(run)
        if self._started:
            for tell in self._started:
                tell(run, start)
        return run

    def _blockers(self, places: list[Place], now: float, victims: Sequence[Run]) -> list[Run]:
        """Returns the evicted runs that must leave before pods in these places can begin.

        GPUs and what else a victim holds are given out at once, but they are held until it has left: its own taker and
        others that need more of a node than is free beside it, or a port that it has, wait for that.
        """
        grace = self.rules.grace_period
        if grace:
            self.leaving.update((run, Leaving(now + grace, [])) for run in victims)
        blockers = dict.fromkeys(victims if grace else ())
        for node in {place[0] for place in places}:
            leaving = [run for run in self.leaving if run.pods_on(node)]
            if leaving:
                idle = {GPUS: float(node.idle), **node.free}
                if any(idle[name] + SLACK < amount for name, amount in self._not_promised(leaving, node).items()):
                    blockers.update(dict.fromkeys(leaving))
        if self.leaving:
            for node, role, _, _ in places:
                for each, rule in self.pool.filters_of(role):
                    blockers.update({run: None for run in self.leaving if each.waits_for(rule, node, run)})
        return list(blockers)

    def _not_promised(self, leaving: Iterable[Run], node: Node) -> dict[str, float]:
        """Returns what leaving runs hold of a node beyond what those get that wait for them."""
        more = dict.fromkeys((GPUS, *node.free), 0.0)
        wanted: dict[Run, dict[str, float]] = {}
        for run in sorted(leaving, key=lambda run: len(self.leaving[run].takers)):  # so least is left over
            held = held_on(run, node)
            for taker in self.leaving[run].takers:
                theirs = wanted.setdefault(taker, held_on(taker, node, parts=0))
                for name in held:
                    promised = min(held[name], theirs[name])
                    held[name] -= promised
                    theirs[name] -= promised
            for name in more:
                more[name] += held[name]
        return more

    def adopt(self, found: Collection[FoundRun], now: float) -> list[LostRun]:
        """Take over runs that nobody here started, but for those known already; `rebuild` is due after it.

        A run with pods on a node that is not there is lost.
        """
        lost: list[LostRun] = []
        adopted: list[Run] = []
        shares = self._shares()
        for task, pods, start, number in sorted(found, key=lambda each: (each.start, each.task.index)):
            if task.index in self.runs:
                continue
            if task.index in self.waiting:
                number = max(number, self.waiting[task.index].number)
                self.cancel(task, now)
            number = max(number, 1 + task.earlier_runs)
            for tell in self.listeners.submitted:
                tell(task, now)
            run = Run(task, number, [], start, start + self.rules.overhead(task, number))
            missing = next((name for name, *_ in pods if name not in self._by_name), None)
            if missing is not None:
                run.alive = False
                self.waiting[task.index] = Waiting(task, number + 1, now)
                lost.append(LostRun(run, f"node {missing} is not there"))
                continue
            for name, here, number_of_role in starmap(PodsOn, pods):
                node, role = self._by_name[name], task.roles[number_of_role]
                if role.share:
                    run.places += [(node, role, 1, _slot_for(role, shares[node])) for _ in range(here)]
                else:
                    run.places.append((node, role, here, WHOLE))
            self.runs[task.index] = run
            adopted.append(run)
        self.ledger.adopted((run for run in adopted if run.task.is_spot), now)
        return lost

    def finish(self, run: Run, now: float) -> None:
        """A run is done."""
        task = run.task
        if self._finished:
            for tell in self._finished:
                tell(run, now)
        del self.runs[task.index]
        if task.is_spot:
            self.ledger.finished(run, now)
            self.pool.forget_spot(run)
        run.alive = False
        self.pool.release(run.places)

    def shrink(self, run: Run, pods: Iterable[PodsOn], now: float) -> bool:
        """Notes that so many pods of a run have left; returns whether any did, and others are left (`Shrunk`)."""
        gone: dict[tuple[Node, int], int] = {}
        for name, left, number in starmap(PodsOn, pods):
            node = self._by_name.get(name)
            if node is not None and number < len(run.task.roles):
                here = sum(held for where, whose, held, _ in run.places if where is node and whose.number == number)
                gone[node, number] = min(gone.get((node, number), 0) + left, here)
        before = run.task
        if not 0 < sum(gone.values()) < before.pods:
            return False
        smaller, kept, freed = run.without(gone)
        self.pool.shrink(run, smaller, kept, freed)
        if run.waited is not None:
            run.waited.task = smaller
        for tell in self.listeners.shrunk:
            tell(run, before, now)
        return True

    def evict(self, run: Run, now: float) -> None:
        """A run that is off its cards already (by a trial) is stopped for good: its task waits again."""
        task = run.task
        if task.is_spot:
            self.ledger.broken(run, now)
        run.alive = False
        del self.runs[task.index]
        self.waiting[task.index] = Waiting(task, run.number + 1, now)
        for node in run.nodes:
            self.evictions.record(node.name, now)
            for tell_node in self.listeners.evictions_changed:
                tell_node(node)
        self._tell_ended(run, End.EVICTED, now)

    def lose(self, run: Run, now: float) -> None:
        """A run ended by no decision of ours; one that had not begun is a failed start."""
        if run in self.pending:
            self.fail_start(run, now)
            return
        self._drop(run, now)
        self.waiting[run.task.index] = Waiting(run.task, run.number + 1, now)
        self._tell_ended(run, End.LOST, now)

    def fail_start(self, run: Run, now: float) -> None:
        """A planned start did not come about: the task waits as before."""
        self._drop(run, now)
        self.waiting[run.task.index] = run.waited or Waiting(run.task, run.number, run.start)
        self._tell_ended(run, End.START_FAILED, now)

    def cancel(self, task: Task, now: float) -> Run | Literal[True] | None:
        """A task is withdrawn: its run if it had one, True if it waited, None if it is not here."""
        run = self.runs.get(task.index)
        if run is not None:
            self._drop(run, now)
            self._tell_ended(run, End.CANCELLED, now)
            return run
        waited = self.waiting.pop(task.index, None)
        if waited is None:
            return None
        for tell in self.listeners.withdrawn:
            tell(waited.task, now)  # as it stands in the queues: after a restart the caller may have another copy
        return True

    def _drop(self, run: Run, now: float) -> None:
        """Takes a run off its places."""
        self._forget(run, now)
        self.pool.lift(run)

    def _forget(self, run: Run, now: float) -> None:
        """Strikes a run that is neither done nor evicted."""
        del self.runs[run.task.index]
        if self.pending.pop(run, None) is not None:
            for left in self.leaving.values():
                left.takers = [taker for taker in left.takers if taker is not run]
        elif run.task.is_spot:
            self.ledger.forgotten(run, now)
        run.alive = False

    def _tell_ended(self, run: Run, end: End, now: float) -> None:
        for tell in self.listeners.ended:
            tell(run, end, now)

    def eviction_done(self, run: Run, now: float) -> None:
        """Notes that an evicted run has left: what waited for that begins."""
        left = self.leaving.pop(run, None)
        for taker in left.takers if left is not None else ():
            self.pending[taker] -= 1
            if self.pending[taker]:
                continue
            del self.pending[taker]
            if taker.start != now:  # the grace was longer or shorter than foreseen
                taker.progress_from += now - taker.start
                taker.start = now
                self.pool.note_changed(taker.nodes)
            if taker.task.is_spot:
                self.ledger.started(taker, now)

    def give_back(self, run: Run, now: float) -> None:
        """Takes back the start of a spot run that has not begun; a trial has taken it off its places already."""
        self._forget(run, now)
        self.waiting[run.task.index] = run.waited or Waiting(run.task, run.number, run.start)
        self._tell_ended(run, End.START_FAILED, now)

    def age(self, now: float) -> None:
        """Evictions of some time ago no longer count."""
        for name in self.evictions.advance(now):
            node = self._by_name.get(name)
            if node is not None:
                for tell in self.listeners.evictions_changed:
                    tell(node)

    # -- nodes -------------------------------------------------------------------------------------

    def change_nodes(self, changes: Iterable[NodeChange], now: float) -> tuple[list[LostRun], bool]:
        """Note what happened to nodes: the runs that were lost by it, and whether anything changed.

        The cards are worked out again by `rebuild`, which the caller owes if anything changed.
        """
        doomed: dict[Node, str] = {}
        changed = False
        for kind, spec in changes:
            node = self._by_name.get(spec.name)
            if node is not None:
                changed = self._change_node(node, kind, spec, doomed) or changed
            elif kind in (NodeChangeKind.ADDED, NodeChangeKind.RESIZED):
                self._by_name[spec.name] = node = Node(spec)
                self.nodes.append(node)
                changed = True
        lost = self._lose_on(doomed, now) if doomed else []
        if changed:
            self.nodes = sorted(self._by_name.values(), key=lambda each: (each.spec.index, each.name))
        return lost, changed

    def _change_node(self, node: Node, kind: NodeChangeKind, spec: NodeSpec, doomed: dict[Node, str]) -> bool:
        match kind:
            case NodeChangeKind.CORDONED | NodeChangeKind.UNCORDONED:
                before, node.cordoned = node.cordoned, kind is NodeChangeKind.CORDONED
                return node.cordoned != before
            case NodeChangeKind.FAILED | NodeChangeKind.REPAIRED:
                before, node.failed = node.failed, kind is NodeChangeKind.FAILED
                if node.failed:
                    doomed[node] = "failed"
                return node.failed != before
            case NodeChangeKind.REMOVED:
                doomed[node] = "was removed"
                del self._by_name[node.name]
                return True
            case _:
                if spec == node.spec:
                    return False
                node.spec = spec
                return True

    def _lose_on(self, doomed: dict[Node, str], now: float) -> list[LostRun]:
        """Whatever has a pod on one of these nodes is lost whole; cards there are gone."""
        lost: list[LostRun] = []
        for run in list(self.runs.values()):
            where = next((place[0] for place in run.places if place[0] in doomed), None)
            if where is not None:
                began = run not in self.pending
                self.lose(run, now)
                lost.append(LostRun(run, f"node {where.name} {doomed[where]}", began))
        return lost

    def _shares(self) -> dict[Node, dict[int, int]]:
        """Returns, for every node, its divided GPUs by slot and the millionths held of each."""
        shares: dict[Node, dict[int, int]] = {node: {} for node in self.nodes}
        for run in self.runs.values():
            for node, role, _, slot in run.places:
                if slot != WHOLE and node in shares:
                    shares[node][slot] = shares[node].get(slot, 0) + role.share
        return shares

    # -- saving ------------------------------------------------------------------------------------

    def forget_cluster(self, now: float) -> None:
        """Drop nodes, runs and the queue; keep what was learned. `rebuild` is due after it."""
        for run in list(self.runs.values()):
            self.cancel(run.task, now)
        self.waiting.clear()
        self.leaving.clear()
        self.pending.clear()
        self.nodes = []

    def facts(self) -> dict[str, Any]:
        """Everything that must be saved."""
        return {**{name: getattr(self, name) for name in FACTS}, "memory": tuple(self.memory.values())}

    def restore(self, facts: dict[str, Any]) -> None:
        """Take over saved facts; `rebuild` and the parts that listen come next."""
        for name in FACTS:
            setattr(self, name, facts[name])
        for run in (*self.runs.values(), *self.leaving):
            run.places = [(node, run.task.roles[role.number], pods, slot) for node, role, pods, slot in run.places]
        self.memory = {type(each): each for each in facts["memory"]}
        self.rebuild()


def _slot_for(role: Role, held: dict[int, int]) -> int:
    """Returns the first divided GPU with room for one pod, more than the node has if need be, and takes its part."""
    slot = next(slot for slot in count() if held.get(slot, 0) + role.share <= MICRO)
    held[slot] = held.get(slot, 0) + role.share
    return slot
