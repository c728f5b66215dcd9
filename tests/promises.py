"""Promises that can be checked from the event log alone, knowing only what the tasks asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor, inf, isclose

from gfs import NodeRule, NodeSpec, Role, Task, Workload
from gfs.core.filters.ports import PortRule

CARD = 1_000_000
SLACK = 1e-6
"""CPUs and GiB: so little too much is rounding."""

Row = tuple[float, str, str, int, str, tuple[int, ...], int]
"""time, event, task, run, node, cards, micro-cards of the one card (0: whole cards)"""

Place = tuple[str, tuple[int, ...], int]
"""node, cards, micro-cards of a fraction (0: whole cards)"""


def rows_of(columns: dict[str, list[object]]) -> Iterator[Row]:
    """Yields the rows of the product's event table."""
    for time, event, task, run, node, cards in zip(
        *(columns[name] for name in ("time", "event", "task", "run", "node", "cards")), strict=True
    ):
        text, _, share = str(cards).partition(":")
        numbers = tuple(int(card) for card in text.split("+") if card)
        yield (time, event, task, run, node, numbers, round(float(share) * CARD) if share else 0)  # type: ignore[misc]


Amounts = dict[str, float]
"""Name of a resource -> how much of it."""


def asked(role: Role) -> Amounts:
    """Returns what one pod of the role takes besides GPUs."""
    return {"cpus": role.cpus_per_pod, "memory": role.memory_per_pod, "pods": 1.0, **dict(role.resources)}


def limits(node: NodeSpec) -> Amounts:
    """Returns what a node has besides GPUs; what it does not state is not limited."""
    return {"cpus": node.cpus or inf, "memory": node.memory or inf, "pods": node.pods or inf, **dict(node.resources)}


def less(free: Amounts, *held: tuple[Role, int], sign: int = 1) -> Amounts:
    """Returns what is left of so much once it holds so many pods of these roles (or gives them back: -1)."""
    left = dict(free)
    for role, pods in held:
        for name, each in asked(role).items():
            if name in left:
                left[name] -= sign * pods * each
    return left


def ports(role: Role) -> set[str]:
    """Returns the ports of its node that a pod takes."""
    return {port for rule in role.rules if isinstance(rule, PortRule) for port in rule.ports}


def admits(node: NodeSpec, role: Role) -> bool:
    """Returns whether the node has the GPU model of the role and its filter allows the node."""
    allowed = all(node.group in rule.groups for rule in role.rules if isinstance(rule, NodeRule))
    return node.gpu_model == role.gpu_model and allowed


def pods_inside(role: Role, free: Amounts) -> float:
    """Returns how many pods of the role so much besides GPUs allows."""
    wanted = [(free.get(name, inf), each) for name, each in asked(role).items() if each]
    return max(min(inf if left == inf else floor((left + SLACK) / each) for left, each in wanted), 0)


def role_of(task: Task, gpus: int, micro: int) -> Role:
    """Returns the role of a pod that holds so many GPUs, or so much of one; no two roles ask for the same."""
    (role,) = (role for role in task.roles if (role.share or role.cards * CARD) == (micro or gpus * CARD))
    return role


def alike(task: Task) -> Hashable:
    """Returns all that decides whether and when a task may start, but its priority and submission."""
    roles = tuple((role.pods, role.gpus_per_pod, tuple(asked(role).items()), role.rules) for role in task.roles)
    return task.gpu_model, task.priority, roles, task.topology_key, task.preempts, task.guarantee_hours


@dataclass
class Room:
    """What is free on a node."""

    node: NodeSpec
    gpus: list[int]
    """Of each GPU, in millionths."""
    free: Amounts
    taken: set[str] = field(default_factory=set)
    """Ports."""

    @classmethod
    def empty(cls, node: NodeSpec, *, resources: bool = True) -> Room:
        """A node that holds nothing."""
        return cls(node, [CARD] * node.gpus, limits(node) if resources else {})

    def pods(self, role: Role) -> float:
        """Returns how many pods of the role find room."""
        if not admits(self.node, role) or ports(role) & self.taken or any(left < -SLACK for left in self.free.values()):
            return 0
        most = min(pods_inside(role, self.free), 1 if ports(role) else inf)
        if role.share:
            return min(most, sum(room // role.share for room in self.gpus))
        return min(most, self.gpus.count(CARD) // role.cards) if role.cards else min(most, role.pods * 1000)


def surely_fits(task: Task, rooms: Sequence[Room]) -> bool:
    """Returns whether all pods find room, wherever those of the earlier roles go.

    For tasks of one role it is exact. A pod of an earlier role spoils as many places as it takes GPUs or anything else
    that a pod of the later one asks for, at most, and only those of one node.
    """
    key = task.topology_key
    if not key:
        return _surely_fit(task.roles, rooms)
    domains = {label for room in rooms if (label := room.node.label(key))}
    return any(_surely_fit(task.roles, [room for room in rooms if room.node.label(key) == label]) for label in domains)


def _surely_fit(roles: Sequence[Role], rooms: Sequence[Room]) -> bool:
    limited = {name for room in rooms for name, left in room.free.items() if left < inf}
    for number, role in enumerate(roles):
        places = [room.pods(role) for room in rooms]
        on_a_node = max(places, default=0)
        spoiled = sum(other.pods * min(_spoils(other, role, limited), on_a_node) for other in roles[:number])
        if sum(places) - spoiled < role.pods:
            return False
    return True


def _spoils(other: Role, role: Role, limited: set[str]) -> int:
    """Returns how many places for pods of the role a pod of another one takes, at most."""
    theirs, ours = asked(other), asked(role)
    spoiled = [ceil(theirs.get(name, 0.0) / each - SLACK) for name, each in ours.items() if each and name in limited]
    if role.share:
        spoiled.append(ceil(other.share / role.share) if other.share else other.cards * (CARD // role.share))
    elif role.cards:
        spoiled.append(ceil(other.cards / role.cards) if other.cards else int(bool(other.share)))
    return max([bool(ports(other) & ports(role)), *spoiled])


@dataclass
class Lived:
    """One run as the log tells it."""

    start: float
    places: list[Place]
    end: float = float("inf")
    evicted: bool = False
    ends: list[Place] = field(default_factory=list)


class Audit:
    """Reads a log once, then answers. `resources`: CPUs, memory and pods limit what a node takes."""

    def __init__(self, work: Workload, rows: list[Row], *, resources: bool = False) -> None:
        self.work, self.rows, self.resources = work, rows, resources
        self.nodes = {node.name: node for node in work.nodes}
        self.tasks = {task.name: task for task in work.tasks}
        self.runs: dict[str, dict[int, Lived]] = defaultdict(dict)
        for time, event, name, number, node, cards, micro in rows:
            runs, place = self.runs[name], (node, cards, micro)
            if event == "start":
                lived = runs.setdefault(number, Lived(time, []))
                assert lived.start == time, f"{name}: pods of run {number} start at {lived.start} and {time}"
                lived.places.append(place)
            elif event in ("finish", "evict"):
                lived = runs[number]
                assert not lived.ends or lived.end == time, f"{name}: pods of run {number} stop at different times"
                lived.end, lived.evicted = time, event == "evict"
                lived.ends.append(place)

    def time_never_goes_back(self) -> None:
        times = [row[0] for row in self.rows]
        assert times == sorted(times)

    def every_task_is_submitted_once_and_finishes_once(self) -> None:
        for name, task in self.tasks.items():
            submits = [row for row in self.rows if row[1] == "submit" and row[2] == name]
            assert [row[0] for row in submits] == [task.submit_time], name
            runs = self.runs[name]
            assert sorted(runs) == list(range(1, len(runs) + 1)), f"{name}: runs {sorted(runs)}"
            assert [runs[n].evicted for n in sorted(runs)] == [True] * (len(runs) - 1) + [False], name
            assert all(lived.end < float("inf") for lived in runs.values()), name
            ordered = [runs[n] for n in sorted(runs)]
            assert ordered[0].start >= task.submit_time
            assert all(a.end <= b.start for a, b in pairwise(ordered)), name

    def gangs_start_and_stop_together(self) -> None:
        """All pods of all roles of a run, each with the GPUs of its role, in one topology domain."""
        for name, runs in self.runs.items():
            task = self.tasks[name]
            for lived in runs.values():
                pods = Counter(role_of(task, len(cards), micro).number for _, cards, micro in lived.places)
                assert pods == {role.number: role.pods for role in task.roles}, name
                assert lived.places == lived.ends, name
                domains = {self.nodes[node].label(task.topology_key) for node, _, _ in lived.places}
                assert not task.topology_key or (len(domains) == 1 and domains != {""}), f"{name} runs in {domains}"

    def pods_get_what_they_asked_for(self) -> None:
        for name, runs in self.runs.items():
            for lived in runs.values():
                for node, cards, micro in lived.places:
                    role = role_of(self.tasks[name], len(cards), micro)
                    assert admits(self.nodes[node], role), f"{name} may not use {node}"
                    assert set(cards) <= set(range(self.nodes[node].gpus))
                    assert len(set(cards)) == len(cards) == (role.cards or bool(role.share))

    def no_card_is_over_committed(self) -> None:
        used: dict[tuple[str, int], int] = defaultdict(int)
        for _, event, name, _, node, cards, micro in self.rows:
            sign = {"submit": 0, "start": 1, "finish": -1, "evict": -1}[event]
            for card in cards:
                used[node, card] += sign * (micro or CARD)
                assert 0 <= used[node, card] <= CARD, f"{name} on {node} card {card}"
        assert not any(used.values())

    def no_node_is_over_committed(self, grace: float = 0.0) -> None:
        """What pods hold stays inside what their node states, and no two of them hold the same port.

        Resources if they count, whole GPUs and ports always. An evicted run holds its own for the grace period.
        """
        rooms = {name: Room.empty(node, resources=self.resources) for name, node in self.nodes.items()}
        free = {name: {"whole GPUs": float(room.node.gpus), **room.free} for name, room in rooms.items()}
        taken: dict[str, Counter[str]] = {name: Counter() for name in rooms}
        moves = []
        for position, (time, event, name, _, node, cards, micro) in enumerate(self.rows):
            sign = {"submit": 0, "start": 1, "finish": -1, "evict": -1}[event]
            if sign:
                late = event == "evict" and grace > 0
                role = role_of(self.tasks[name], len(cards), micro)
                moves.append((time + grace, -1, sign, node, role) if late else (time, position, sign, node, role))
        for _, _, sign, node, role in sorted(moves, key=lambda move: move[:2]):
            free[node] = less(free[node], (role, 1), sign=sign)
            free[node]["whole GPUs"] -= sign * role.cards
            taken[node].update(dict.fromkeys(ports(role), sign))
            assert all(left >= -SLACK for left in free[node].values()), f"{role.index} on {node}: {free[node]}"
            assert max(taken[node].values(), default=0) <= 1, f"{role.index} on {node}: {taken[node]}"
        for name, room in rooms.items():
            assert all(left == inf or isclose(left, room.free[what], abs_tol=SLACK)
                       for what, left in free[name].items() if what in room.free)  # fmt: skip

    def higher_priority_first(self, grace: float) -> None:
        """Of two tasks of a class that wait and ask for the very same, the one with the higher priority starts first.

        Where evicted runs have not left yet, the log does not say when a start was decided.
        """
        evicted = sorted({row[0] for row in self.rows if row[1] == "evict"})
        groups: dict[Hashable, list[tuple[float, float, Task]]] = defaultdict(list)
        for name, task in self.tasks.items():
            runs, since = self.runs[name], task.submit_time
            for number in sorted(runs):
                groups[alike(task)].append((since, runs[number].start, task))
                since = runs[number].end
        for waits in groups.values():
            if len({task.urgency for _, _, task in waits}) > 1:
                for _, start, task in waits:
                    if not any(start - grace <= time <= start for time in evicted):
                        for since, later, other in waits:
                            passed = other.urgency > task.urgency and since <= start < later
                            assert not passed, f"{task.name} starts at {start}, before {other.name}"

    def hp_is_never_evicted(self) -> None:
        evicted = {row[2] for row in self.rows if row[1] == "evict"}
        assert all(self.tasks[name].is_spot for name in evicted)

    def work_is_conserved(self, on_grace: bool = False) -> None:
        """Saved progress of all runs adds up to the duration (docs/concepts/time-model.md)."""
        for name, runs in self.runs.items():
            task, total = self.tasks[name], 0.0
            for number, lived in runs.items():
                overhead = 0 if number == 1 else 40 if task.gpus <= 8 else 60
                progress = max(0.0, lived.end - lived.start - overhead)
                if lived.evicted and not on_grace:
                    progress = floor(progress / task.checkpoint_interval) * task.checkpoint_interval
                total += progress
            duration = self.work.durations[task.index]
            assert isclose(total, duration, abs_tol=1e-6), f"{name}: {total} of {duration}"

    def leased_work_is_conserved(self, resume: float) -> None:
        """A suspended run keeps all its progress; the next one pays for resuming."""
        for name, runs in self.runs.items():
            total = sum(max(0.0, r.end - r.start - resume * (number > 1)) for number, r in runs.items())
            duration = self.work.durations[self.tasks[name].index]
            assert isclose(total, duration, abs_tol=1e-6), f"{name}: {total} of {duration}"

    def nobody_stops_inside_a_lease(self, hp_lease: float, spot_lease: float) -> None:
        """Runs begin where a round begins, and are stopped only where a lease of theirs ends."""
        for name, runs in self.runs.items():
            lease = spot_lease if self.tasks[name].is_spot else hp_lease
            for lived in runs.values():
                assert lived.start % spot_lease == 0, f"{name} starts at {lived.start}"
                whole_leases = lived.end > lived.start and (lived.end - lived.start) % lease == 0
                assert whole_leases or not lived.evicted, f"{name} stops at {lived.end}"

    def no_hp_waits_in_vain_for_a_lease(self, round_length: float) -> None:
        """Where a round has begun, no waiting HP task fits beside the leases of the other HP tasks."""
        hp = [task for task in self.work.tasks if not task.is_spot]
        # A task of no length has its cards and gives them back within one instant, in which nobody may stop the
        # leases that have begun beside it.
        fleeting = {self.runs[task.name][1].start for task in hp if not self.work.durations[task.index]}
        for now in sorted({row[0] for row in self.rows if row[0] % round_length == 0} - fleeting):
            holding: list[tuple[Task, Place]] = []
            waiting = []
            for task in hp:
                held = [r for r in self.runs[task.name].values() if r.start <= now < r.end]
                holding += [(task, place) for lived in held for place in lived.places]
                last = self.runs[task.name][max(self.runs[task.name])]
                if task.submit_time <= now and not held and now < last.start:
                    waiting.append(task)
            self._none_of_them_fits(waiting, holding, now)

    def spot_stays_inside(self, share: float) -> None:
        """At every start: all spot GPUs in use, with the newcomer, within the quota: that of the shortest guarantee."""
        capacity = self.work.capacity()
        in_use: dict[str, int] = {}
        for _, event, name, _, _, cards, micro in self.rows:
            task = self.tasks[name]
            if not task.is_spot or event == "submit":
                continue
            pod = micro or len(cards) * CARD
            in_use[name] = in_use.get(name, 0) + (pod if event == "start" else -pod)
            if event == "start" and in_use[name] == sum(r.pods * (r.share or r.cards * CARD) for r in task.roles):
                held = sum(micro for other, micro in in_use.items() if self.tasks[other].gpu_model == task.gpu_model)
                assert held <= share * capacity[task.gpu_model] * CARD + 1, f"{name} starts over quota"

    def no_hp_waits_in_vain(self, decided: dict[str, float], only_heads: bool, grace: float) -> None:
        """After every instant: no waiting HP task fits on idle GPUs and GPUs of spot tasks, unless it never preempts.

        `decided` says when HP tasks that evicted someone got their GPUs, a grace period before they start. Others may
        have got theirs at any time since runs were evicted that leave when they start.
        """
        hp = [task for task in self.work.tasks if not task.is_spot]
        evicted = {round(row[0], 6) for row in self.rows if row[1] == "evict"}
        starts = {task.name: self.runs[task.name][1].start for task in hp}
        late = {name for name, start in starts.items() if round(start - grace, 6) in evicted and name not in decided}
        for now in sorted({row[0] for row in self.rows}):
            waiting = [task for task in hp if task.submit_time <= now < decided.get(task.name, starts[task.name])]
            if only_heads:
                waiting.sort(key=lambda task: (task.urgency, -task.index))
                waiting = list({task.gpu_model: task for task in waiting}.values())
            waiting = [task for task in waiting if task.name not in late or now < starts[task.name] - grace]
            holding: list[tuple[Task, Place]] = []
            for task in hp:
                lived = self.runs[task.name][1]
                since = lived.start - grace if task.name in late else decided.get(task.name, lived.start)
                if since <= now < lived.end:
                    holding += [(task, place) for place in lived.places]
            self._none_of_them_fits([task for task in waiting if task.preempts], holding, now)

    def _none_of_them_fits(self, waiting: list[Task], holding: list[tuple[Task, Place]], now: float) -> None:
        """None of the waiting HP tasks fits beside the HP pods that hold these places."""
        if not waiting:
            return
        rooms = {name: Room.empty(node, resources=self.resources) for name, node in self.nodes.items()}
        divided: dict[str, Counter[object]] = defaultdict(Counter)
        for number, (task, (node, cards, micro)) in enumerate(holding):
            room, role = rooms[node], role_of(task, len(cards), micro)
            begun = any(run.start <= now for run in self.runs[task.name].values())
            if micro:  # a GPU gets its number when a run begins: until then it may be any, and nobody has room there
                divided[node][cards if begun else number] += micro if begun else CARD
            del room.gpus[: role.cards]
            room.free = less(room.free, (role, 1))
            room.taken |= ports(role)
        for node, loads in divided.items():
            gpus, unsure = rooms[node].gpus, any(load >= CARD for load in loads.values())
            gpus[:] = gpus[len(loads) :] + [0 if unsure else CARD - load for load in loads.values()]
        for task in waiting:
            assert not surely_fits(task, list(rooms.values())), f"{task.name} waits in vain at {now}"
