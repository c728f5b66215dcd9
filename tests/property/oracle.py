"""The slow, obvious scheduler: written from the rules (docs/concepts/time-model.md), to be compared with the fast one.

A card is a list of (run, micro-cards). Every question is answered by looking at all cards of all nodes, every
pass sorts the whole queue, every trial is a copy of the cluster. It shares no code with `gfs.core` or
`gfs.policies`; it only reads the same tasks and nodes.

Choices the rules leave open, taken as the product takes them:

* ticks fall on multiples of 300 s from the first submission on; passes are per pool;
* an HP gang that must preempt puts each pod on idle cards if it can and preempts only where it cannot;
* waste = GPUs of the task x progress since the last checkpoint, 0 during restart overhead; of equal waste the
  earlier task is spared first;
* costs are compared to twelve digits, so that rounding never decides between costs equal on paper;
* F and G stand still while one HP gang is decided; G counts periods completed by now;
* T is the window or, without one, first to last submission of the whole workload, at least one hour;
* a class holds a card if it holds any part of it; score3 is compared to nine digits;
* an eviction is in the last hour (day) while it is less than 3600 s (86400 s) old;
* yarn-cs and static take the first node, in order of id, that suffices, and spare later tasks first; yarn-cs
  counts idle cards, not their share; its queue blocks inside each class;
* whole cards are taken lowest number first; equally full cards likewise;
* CPUs, memory and pods of a node count if `resources` is on, node filters always: a node that lacks any of it has no
  room, and a victim is spared only if the pod fits in every respect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor, inf

import pyarrow as pa

from gfs import NodeSpec, Priority, Task, Workload
from promises import CARD, Audit, Row, admits, asked, less, limits, pods_inside, rows_of


@dataclass(frozen=True)
class Settings:
    """The parameters that matter to a decision."""

    scheduler: str = "gfs"
    quota_share: float | None = None
    grace: float = 30.0
    on_grace: bool = False
    overhead_small: float = 40.0
    overhead_large: float = 60.0
    tick: float = 300.0
    beta: float = 0.5
    gamma: float = 0.8
    m: float = 3.0
    period: float | None = None
    resources: bool = False


@dataclass(eq=False)
class Stay:
    """One run of a task."""

    task: Task
    number: int
    pods: list[tuple[int, tuple[int, ...], int]] = field(default_factory=list)
    """(node, cards, micro-cards)"""
    start: float = 0.0
    progress_from: float = 0.0
    end: float = inf
    """When it finishes, if nobody evicts it."""
    outcome: str = "running"
    stopped: float = inf


Card = list[tuple[Stay, int]]


class Cards(list[Card]):
    """The cards of one node, and what else it has (None: nothing else counts)."""

    def __init__(self, cards: Iterable[Card], spec: NodeSpec | None = None) -> None:
        super().__init__(cards)
        self.spec = spec

    def copy(self) -> Cards:
        """Returns the same node, to be changed without changing this one."""
        return Cards(([*card] for card in self), self.spec)


def need(task: Task) -> int:
    """Micro-cards a fractional pod takes; 0 for whole cards."""
    return round(task.gpus_per_pod * CARD) if task.gpus_per_pod < 1 else 0


def room(card: Card) -> int:
    return CARD - sum(micro for _, micro in card)


def idle_cards(node: Cards) -> list[int]:
    return [i for i, card in enumerate(node) if not card]


def fits(node: Cards, task: Task) -> bool:
    return finds_cards(node, task) and has_the_rest(node, task)


def finds_cards(node: Cards, task: Task) -> bool:
    if need(task):
        return any(room(card) >= need(task) for card in node)
    return len(idle_cards(node)) >= task.gpus_per_pod


def has_the_rest(node: Cards, task: Task) -> bool:
    """Whether the filter of the task, and CPUs, memory and pods of the node allow one more pod."""
    if node.spec is None:
        return True
    free = limits(node.spec)
    if any(left < inf for left in free.values()):
        cards_of = Counter(stay for card in node for stay, _ in card)
        held = [(stay.task, cards // max(int(stay.task.gpus_per_pod), 1)) for stay, cards in cards_of.items()]
        free = less(free, *held)
    return admits(node.spec, task) and pods_inside(task, free) >= 1


def rest_of(node: Cards) -> dict[str, float]:
    """What is free on a node besides cards."""
    if node.spec is None:
        return {}
    held = Counter(stay for card in node for stay, _ in card)
    pods = [(stay.task, cards // max(int(stay.task.gpus_per_pod), 1)) for stay, cards in held.items()]
    return less(limits(node.spec), *pods)


def taken_on(stay: Stay, node: int, parts: int = 0) -> dict[str, float]:
    """What a run holds of a node, each part of a card as so many cards."""
    mine = [(cards, micro) for where, cards, micro in stay.pods if where == node]
    taken = {name: len(mine) * amount for name, amount in asked(stay.task).items()}
    return {"gpus": float(sum(parts if micro else len(cards) for cards, micro in mine)), **taken}


def cards_held(node: Cards, priority: Priority) -> int:
    return sum(any(stay.task.priority is priority for stay, _ in card) for card in node)


def without(node: Cards, gone: list[Stay]) -> Cards:
    return Cards(([(stay, micro) for stay, micro in card if stay not in gone] for card in node), node.spec)


class OraclePool:
    """One pool from its first arrival to its last finish."""

    def __init__(self, work: Workload, model: str, settings: Settings) -> None:
        self.set = settings
        self.tasks = [task for task in work.tasks if task.gpu_model == model]
        self.names = [node.name for node in work.nodes if node.gpu_model == model]
        self.cluster: list[Cards] = []
        for node in work.nodes:
            if node.gpu_model == model:
                spec = node if settings.resources else replace(node, cpus=0.0, memory=0.0, pods=0)
                self.cluster.append(Cards(([] for _ in range(node.gpus)), spec))
        self.capacity = sum(len(node) for node in self.cluster)
        self.waiting: list[Task] = []
        self.stays: list[Stay] = []
        self.starting: list[Stay] = []
        self.leaving: dict[Stay, tuple[float, list[Stay]]] = {}
        """Evicted run in its grace period -> when it has left, and the runs that wait for that."""
        self.evictions: list[tuple[float, int]] = []
        """(time, node)"""
        self.left = {task.index: work.durations[task.index] for task in self.tasks}
        self.runs = Counter[int]()
        self.rows: list[Row] = []
        self.seen = Counter[str]()
        """How often something worth testing happened."""
        span = work.tasks[-1].submit_time - work.tasks[0].submit_time
        self.period = max(settings.period if settings.period is not None else span, 3600.0)

    # -- time -----------------------------------------------------------------------------------

    def play(self) -> list[Row]:
        arrivals = list(self.tasks)
        done = 0
        first = arrivals[0].submit_time if arrivals else inf
        tick = floor(first / self.set.tick) * self.set.tick if arrivals else inf
        while tick < first:
            tick += self.set.tick
        while done < len(self.tasks):
            running = [stay for stay in self.stays if stay.outcome == "running"]
            now = min(
                [tick]
                + [task.submit_time for task in arrivals[:1]]
                + [stay.end for stay in running]
                + [stay.start for stay in self.starting]
            )
            self.leaving = {stay: left for stay, left in self.leaving.items() if left[0] > now}
            for stay in [stay for stay in self.starting if stay.start == now]:
                self.starting.remove(stay)
                self.log(now, "start", stay)
            finished = [stay for stay in running if stay.end == now and stay not in self.starting]
            for stay in finished:
                stay.outcome, stay.stopped = "finished", now
                self.cluster = [without(node, [stay]) for node in self.cluster]
                self.log(now, "finish", stay)
                done += 1
            if now == tick:
                tick += self.set.tick
            arrived = [task for task in arrivals if task.submit_time == now]
            for task in arrived:
                arrivals.remove(task)
                self.waiting.append(task)
                self.rows.append((now, "submit", task.name, 0, "", (), 0))
            self.decide(now)
        return self.rows

    def log(self, now: float, event: str, stay: Stay) -> None:
        for node, cards, micro in stay.pods:
            self.rows.append((now, event, stay.task.name, stay.number, self.names[node], cards, micro))

    # -- one pass -------------------------------------------------------------------------------

    def decide(self, now: float) -> None:
        for priority in (Priority.HP, Priority.SPOT):
            for task in self.in_order(priority):
                if not self.attempt(task, now) and self.set.scheduler == "yarn-cs":
                    break

    def in_order(self, priority: Priority) -> list[Task]:
        queue = [task for task in self.waiting if task.priority is priority]
        if self.set.scheduler == "gfs":
            return sorted(queue, key=lambda task: (-task.gpus_per_pod, task.pods, task.index))
        return sorted(queue, key=lambda task: task.index)

    def attempt(self, task: Task, now: float) -> bool:
        if task.is_spot and not self.admitted(task):
            self.seen["over quota"] += 1
            return False
        before = [node.copy() for node in self.cluster]
        stay, victims = Stay(task, self.runs[task.index] + 1), []
        for _ in range(task.pods):
            node = self.best_node(task, now)
            lacks = [finds_cards(each, task) and not has_the_rest(each, task) for each in self.cluster]
            self.seen["enough cards, but not of the rest"] += node is None and any(lacks)
            if node is None and not task.is_spot and task.preempts:
                chosen = self.whom_to_evict(task, now)
                if chosen is not None:
                    node, gone = chosen
                    victims += gone
                    self.seen["evicted for more than cards"] += any(lacks)
                    self.cluster = [without(cards, gone) for cards in self.cluster]
            if node is None:
                self.cluster = before
                if victims:
                    self.seen["preemption rolled back"] += 1
                return False
            self.put(stay, node)
        self.waiting.remove(task)
        self.runs[task.index] += 1
        self.stays.append(stay)
        evicted = [victim for victim in victims if victim not in self.starting]
        for victim in victims:
            if victim in self.starting:
                self.take_back(victim)
            else:
                self.evict(victim, now)
        blockers = self.blockers(stay, evicted, now) if self.set.grace else []
        self.begin(stay, max([now, *(self.leaving[each][0] for each in blockers)]), now)
        for each in blockers:
            self.leaving[each][1].append(stay)
        if victims and task.pods > 1:
            self.seen["HP gang preempts"] += 1
        if victims and need(task):
            self.seen["fraction preempts"] += 1
        return True

    def blockers(self, stay: Stay, victims: list[Stay], now: float) -> list[Stay]:
        """The evicted runs that must leave first: its own victims, and those that are still on what it takes.

        A node has what is idle on it now, less what leaving runs hold beyond what those get that wait for them.
        """
        self.leaving |= {victim: (now + self.set.grace, []) for victim in victims}
        found = dict.fromkeys(victims)
        for node in {node for node, _, _ in stay.pods}:
            there = [each for each in self.leaving if any(where == node for where, _, _ in each.pods)]
            idle = {"gpus": len(idle_cards(self.cluster[node])), **rest_of(self.cluster[node])}
            wanted: dict[Stay, dict[str, float]] = {}
            beyond = dict.fromkeys(idle, 0.0)
            for each in sorted(there, key=lambda each: len(self.leaving[each][1])):
                held = taken_on(each, node, parts=1)
                for taker in self.leaving[each][1]:
                    theirs = wanted.setdefault(taker, taken_on(taker, node))
                    for name in held:
                        promised = min(held[name], theirs.get(name, 0.0))
                        held[name] -= promised
                        theirs[name] = theirs.get(name, 0.0) - promised
                for name in beyond:
                    beyond[name] += held.get(name, 0.0)
            if there and any(idle[name] + 1e-9 < beyond[name] for name in idle):
                found |= dict.fromkeys(there)
                self.seen["start waits for others' victims"] += not victims
        return list(found)

    def take_back(self, stay: Stay) -> None:
        """A spot run that has not begun makes room: its task waits as if it had not been tried."""
        self.starting.remove(stay)
        for _, takers in self.leaving.values():
            if stay in takers:
                takers.remove(stay)
        stay.outcome = "taken back"
        self.runs[stay.task.index] -= 1
        self.waiting.append(stay.task)

    def admitted(self, task: Task) -> bool:
        """For every guarantee h on offer up to its own: spot cards in use with guarantee >= h, plus w*g, within Q_h.

        The quota is the same for all, and for the shortest guarantee all spot tasks count.
        """
        if self.set.quota_share is None:
            return True
        in_use = sum(
            stay.task.pods * (need(stay.task) or stay.task.gpus_per_pod * CARD)
            for stay in self.stays
            if stay.outcome == "running" and stay.task.is_spot
        )
        wanted = task.pods * (need(task) or task.gpus_per_pod * CARD)
        return in_use + wanted <= self.set.quota_share * self.capacity * CARD + 1e-3

    def put(self, stay: Stay, node: int) -> None:
        cards, micro = self.cluster[node], need(stay.task)
        if micro:
            open_cards = [(room(c), i) for i, c in enumerate(cards) if c and room(c) >= micro]
            taken = (min(open_cards)[1],) if open_cards else (idle_cards(cards)[0],)
        else:
            taken = tuple(idle_cards(cards)[: int(stay.task.gpus_per_pod)])
        for card in taken:
            cards[card].append((stay, micro or CARD))
        stay.pods.append((node, taken, micro))

    def begin(self, stay: Stay, start: float, now: float) -> None:
        task, overhead = stay.task, 0.0
        if stay.number > 1:
            overhead = self.set.overhead_small if task.gpus <= 8 else self.set.overhead_large
            self.seen["restart"] += 1
        stay.start, stay.progress_from = start, start + overhead
        stay.end = stay.progress_from + self.left[task.index]
        if start > now:
            self.starting.append(stay)
        else:
            self.log(now, "start", stay)

    def evict(self, stay: Stay, now: float) -> None:
        task = stay.task
        progress = max(0.0, now - stay.progress_from)
        saved = progress if self.set.on_grace else progress // task.checkpoint_interval * task.checkpoint_interval
        self.left[task.index] -= saved
        stay.outcome, stay.stopped = "evicted", now
        self.evictions += [(now, node) for node in sorted({node for node, _, _ in stay.pods})]
        self.waiting.append(task)
        self.log(now, "evict", stay)
        self.seen["eviction"] += 1
        self.seen["gang evicted"] += len({node for node, _, _ in stay.pods}) > 1
        self.seen["checkpoint saved"] += saved > 0

    # -- choosing a node ------------------------------------------------------------------------

    def best_node(self, task: Task, now: float) -> int | None:
        fitting = [i for i, node in enumerate(self.cluster) if fits(node, task)]
        if self.set.scheduler == "static":
            return min(fitting, default=None)
        if self.set.scheduler == "yarn-cs":
            return min(fitting, key=lambda i: (len(idle_cards(self.cluster[i])), i), default=None)
        if task.is_spot:
            closed = [i for i in fitting if self.history_score(i, Priority.SPOT, now) <= 0]
            self.seen["breaker closed a node"] += bool(closed)
            fitting = [i for i in fitting if i not in closed]
        return min(fitting, key=lambda i: self.preference(i, task.priority, now), default=None)

    def preference(self, i: int, priority: Priority, now: float) -> tuple[Fraction, Fraction, float, int]:
        node = self.cluster[i]
        packing = 1 - Fraction(len(idle_cards(node)), len(node))
        together = Fraction(cards_held(node, priority), len(node))
        return (-packing, -together, -round(self.history_score(i, priority, now), 9), i)

    def history_score(self, i: int, priority: Priority, now: float) -> float:
        ages = [now - when for when, node in self.evictions if node == i]
        last_hour = sum(age < 3600 for age in ages)
        last_day = sum(age < 86400 for age in ages)
        e = self.set.gamma * last_hour + (1 - self.set.gamma) * last_day / 24
        heat = 0.01 * self.set.m**e
        return max(1 - heat, 0.0) if priority is Priority.SPOT else min(heat, 1.0)

    # -- choosing victims -----------------------------------------------------------------------

    def whom_to_evict(self, task: Task, now: float) -> tuple[int, list[Stay]] | None:
        options = []
        for i, node in enumerate(self.cluster):
            spot = {stay: None for card in node for stay, _ in card if stay.task.is_spot}
            if not fits(without(node, list(spot)), task):
                continue
            if self.set.scheduler != "gfs":
                return i, self.not_spared(node, task, sorted(spot, key=lambda stay: -stay.task.index))
            most_waste_first = sorted(spot, key=lambda stay: (-self.waste(stay, now), stay.task.index))
            gone = self.not_spared(node, task, most_waste_first)
            options.append((self.cost(gone, now), len(gone), i, gone))
        self.seen["several nodes to preempt on"] += len(options) > 1
        if not options:
            return None
        _, _, i, gone = min(options, key=lambda option: option[:3])
        return i, gone

    def not_spared(self, node: Cards, task: Task, order: list[Stay]) -> list[Stay]:
        gone = list(order)
        for stay in order:
            others = [other for other in gone if other is not stay]
            if fits(without(node, others), task):
                gone = others
        return gone

    def waste(self, stay: Stay, now: float) -> float:
        age = now - stay.progress_from
        return stay.task.pods * stay.task.gpus_per_pod * (age % stay.task.checkpoint_interval if age > 0 else 0.0)

    def cost(self, gone: list[Stay], now: float) -> float:
        broken = self.broken_before(now) + len(gone)
        kept = self.kept(now)
        wasted = sum(self.waste(stay, now) for stay in gone)
        return round(broken / (kept + broken) + self.set.beta * wasted / (self.capacity * self.period), 12)

    def broken_before(self, now: float) -> int:
        return sum(stay.outcome == "evicted" for stay in self.stays)

    def kept(self, now: float) -> int:
        """Guarantee periods completed by now: one per H hours, and the one a finished run was in."""
        total = 0
        for stay in self.stays:
            if stay.task.is_spot:
                promised = stay.task.guarantee_hours * 3600
                length = min(stay.stopped, now) - stay.start
                total += int(length // promised)
                total += stay.outcome == "finished" and (length % promised > 0 or length == 0)
        return total


PHASES = ("finish", "submit", "evict", "start")


def replay(work: Workload, settings: Settings) -> tuple[list[Row], Counter[str]]:
    """Every event of every pool, in the canonical order of `in_canonical_order`, and what was seen."""
    rows: list[Row] = []
    seen = Counter[str]()
    for model in dict.fromkeys(node.gpu_model for node in work.nodes):
        pool = OraclePool(work, model, settings)
        rows += pool.play()
        seen += pool.seen
    return in_canonical_order(rows), seen


def in_canonical_order(rows: list[Row]) -> list[Row]:
    """By time, phase, task and run; the pods of a run stay in their order."""
    return sorted(rows, key=lambda row: (row[0], PHASES.index(row[1]), row[2], row[3]))


def compare_logs(work: Workload, events: pa.Table, expected: list[Row], *, resources: bool) -> None:
    """The log of the product has the expected events. Which cards of a node a pod has is free, as long as they are."""
    rows = list(rows_of(events.to_pydict()))
    assert without_numbers(rows) == without_numbers(expected)
    audit = Audit(work, rows, resources=resources)
    audit.pods_get_what_they_asked_for()
    audit.no_card_is_over_committed()
    audit.no_node_is_over_committed()


def without_numbers(rows: list[Row]) -> list[tuple[float, str, str, int, str, int, int]]:
    """Returns the rows in their canonical order, each with the number of cards in place of the cards."""
    ordered = in_canonical_order(rows)
    return [(time, event, task, run, node, len(cards), micro) for time, event, task, run, node, cards, micro in ordered]
