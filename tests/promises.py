"""Promises that can be checked from the event log alone, knowing only what the tasks asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import floor, inf, isclose

from gfs import NodeRule, NodeSpec, Task, Workload

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


def asked(task: Task) -> tuple[float, float, float]:
    """Returns the CPUs, the GiB of memory and the pods that one pod of the task takes."""
    return task.cpus_per_pod, task.memory_per_pod, 1.0


def limits(node: NodeSpec) -> tuple[float, float, float]:
    """Returns the CPUs, the GiB of memory and the pods that a node takes; what it does not state is not limited."""
    return node.cpus or inf, node.memory or inf, node.pods or inf


def admits(node: NodeSpec, task: Task) -> bool:
    """Returns whether the node has the GPU model of the task and its filter allows the node."""
    allowed = all(node.group in rule.groups for rule in task.rules if isinstance(rule, NodeRule))
    return node.gpu_model == task.gpu_model and allowed


def pods_inside(task: Task, free: tuple[float, float, float]) -> float:
    """Returns how many pods of the task so many free CPUs, GiB and pods allow."""
    wanted = [(left, each) for left, each in zip(free, asked(task), strict=True) if each]
    return max(min(inf if left == inf else floor((left + SLACK) / each) for left, each in wanted), 0)


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
        for name, runs in self.runs.items():
            for lived in runs.values():
                assert len(lived.places) == self.tasks[name].pods, name
                assert lived.places == lived.ends, name

    def pods_get_what_they_asked_for(self) -> None:
        for name, runs in self.runs.items():
            task = self.tasks[name]
            for lived in runs.values():
                for node, cards, micro in lived.places:
                    assert admits(self.nodes[node], task), f"{name} may not use {node}"
                    assert set(cards) <= set(range(self.nodes[node].gpus))
                    if task.gpus_per_pod < 1:
                        assert len(cards) == 1
                        assert micro == round(task.gpus_per_pod * CARD)
                    else:
                        assert (len(set(cards)), micro) == (task.gpus_per_pod, 0)

    def no_card_is_over_committed(self) -> None:
        used: dict[tuple[str, int], int] = defaultdict(int)
        for _, event, name, _, node, cards, micro in self.rows:
            sign = {"submit": 0, "start": 1, "finish": -1, "evict": -1}[event]
            for card in cards:
                used[node, card] += sign * (micro or CARD)
                assert 0 <= used[node, card] <= CARD, f"{name} on {node} card {card}"
        assert not any(used.values())

    def no_node_is_over_committed(self) -> None:
        """CPUs, memory and pods of what runs on a node stay inside what it states, if they count."""
        used: dict[str, list[float]] = {name: [0.0, 0.0, 0.0] for name in self.nodes}
        for _, event, name, _, node, _, _ in self.rows if self.resources else ():
            sign = {"submit": 0, "start": 1, "finish": -1, "evict": -1}[event]
            if sign:
                now = [held + sign * each for held, each in zip(used[node], asked(self.tasks[name]), strict=True)]
                assert all(h <= most + SLACK for h, most in zip(now, limits(self.nodes[node]), strict=True)), (
                    name,
                    node,
                )
                used[node] = now
        assert all(abs(held) < SLACK for node in used.values() for held in node)

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
        for _, event, name, _, _, _, micro in self.rows:
            task = self.tasks[name]
            if not task.is_spot or event == "submit":
                continue
            pod = micro or int(task.gpus_per_pod) * CARD
            in_use[name] = in_use.get(name, 0) + (pod if event == "start" else -pod)
            if event == "start" and in_use[name] == task.pods * pod:
                held = sum(micro for other, micro in in_use.items() if self.tasks[other].gpu_model == task.gpu_model)
                assert held <= share * capacity[task.gpu_model] * CARD + 1, f"{name} starts over quota"

    def no_hp_waits_in_vain(self, decided: dict[str, float], only_heads: bool) -> None:
        """After every instant: no waiting HP task fits on idle cards and cards of spot tasks.

        `decided` says when HP tasks that evicted someone got their cards, a grace period before they start.
        """
        hp = [task for task in self.work.tasks if not task.is_spot]
        got = {task.name: decided.get(task.name, self.runs[task.name][1].start) for task in hp}
        for now in sorted({row[0] for row in self.rows}):
            waiting = [task for task in hp if task.submit_time <= now < got[task.name]]
            if only_heads:
                waiting = list({task.gpu_model: task for task in reversed(waiting)}.values())
            holding: list[tuple[Task, Place]] = []
            for task in hp:
                lived = self.runs[task.name][1]
                if got[task.name] <= now < lived.end:
                    holding += [(task, place) for place in lived.places]
            self._none_of_them_fits(waiting, holding, now)

    def _none_of_them_fits(self, waiting: list[Task], holding: list[tuple[Task, Place]], now: float) -> None:
        """None of the waiting HP tasks fits beside the HP pods that hold these places."""
        used: Counter[tuple[str, int]] = Counter()
        taken: dict[str, tuple[float, float, float]] = {}
        for task, (node, cards, micro) in holding if waiting else ():
            for card in cards:
                used[node, card] += micro or CARD
            cpus, memory, pods = taken.get(node, (0.0, 0.0, 0.0))
            taken[node] = (cpus + task.cpus_per_pod, memory + task.memory_per_pod, pods + 1)
        for task in waiting:
            slots = 0.0
            for node in self.work.nodes:
                if admits(node, task):
                    here = _pods_on_cards(task, [CARD - used[node.name, card] for card in range(node.gpus)])
                    if self.resources:
                        left = (m - t for m, t in zip(limits(node), taken.get(node.name, (0, 0, 0)), strict=True))
                        here = min(here, pods_inside(task, tuple(left)))  # type: ignore[arg-type]
                    slots += here
            assert slots < task.pods, f"{task.name} waits in vain at {now}"


def _pods_on_cards(task: Task, rooms: list[int]) -> float:
    """Returns how many pods of the task find GPUs, given what is free of each GPU of a node."""
    if task.gpus_per_pod < 1:
        return sum(room // round(task.gpus_per_pod * CARD) for room in rooms)
    return rooms.count(CARD) // int(task.gpus_per_pod)
