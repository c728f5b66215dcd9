"""A pool: all nodes with one GPU model and the counts that decisions look at, kept up to date change by change."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import mul
from typing import Any

import numpy as np

from gfs.core.filters.base import Filter
from gfs.core.filters.registry import FILTERS
from gfs.core.listeners import Listeners
from gfs.core.node import MOST_PODS, NO_SHARES, SLACK, WHOLE, Node, Place, pods_within
from gfs.core.run import Run
from gfs.core.table import NodeTable
from gfs.domain.node import NodeSpec
from gfs.domain.task import Requests, Role, Task
from gfs.domain.units import MICRO


def _highest(levels: list[int]) -> int:
    level = len(levels) - 1
    while level and not levels[level]:
        level -= 1
    return level


class Pool:
    """What is held on the nodes. It follows from the nodes and the runs on them: `rebuild` works it out again."""

    __slots__ = (
        "_changed", "_counted", "_filters", "_limited", "_observers", "_overdrawn", "_table", "capacity", "divided",
        "gpu_model", "hp_free_levels", "idle_levels", "listeners", "nodes", "protected", "sizes", "spot_in_use",
        "together",
    )  # fmt: skip

    def __init__(self, gpu_model: str, listeners: Listeners | None = None) -> None:
        self.gpu_model = gpu_model
        self.listeners = listeners or Listeners()
        """Told of every node that changed, at once, and of spot runs that take or leave what they hold."""
        self._changed, self._observers = self.listeners.changed, self.listeners.node_changed
        self.nodes: list[Node] = []
        """In the order of the cluster's node list, closed ones too."""
        self.spot_in_use: dict[float, int] = {}
        """Guarantee hours -> millionths of GPUs held by spot tasks with that guarantee."""
        self.protected: frozenset[Run] = frozenset()
        """Spot runs that are better left alone (`DisruptionRules`)."""
        self.together: Mapping[Run, Sequence[Run]] = {}
        """Spot run -> all that go with it."""
        self.rebuild([], ())

    @classmethod
    def of(cls, gpu_model: str, specs: Sequence[NodeSpec]) -> Pool:
        """A pool of empty nodes."""
        pool = cls(gpu_model)
        pool.rebuild([Node(spec) for spec in specs], ())
        return pool

    def rebuild(self, nodes: list[Node], runs: Sequence[Run]) -> None:
        """Start over with these nodes, on which these runs hold their places. There must be no listeners yet.

        Cordoned and failed nodes are closed. A node that holds more than it has is not: HP may evict spot runs there.
        """
        self.nodes = nodes
        self.sizes = sorted({node.spec.gpus for node in nodes}) or [1]
        """The different numbers of GPUs that nodes have."""
        self._limited = frozenset(name for spec in {node.spec for node in nodes} for name in spec.limits())
        self._counted: dict[Requests, Requests] = {}
        self._filters = [each() for each in FILTERS]
        self.idle_levels = [0] * (self.sizes[-1] + 1)
        """How many nodes have k wholly idle GPUs."""
        self.hp_free_levels = [0] * (self.sizes[-1] + 1)
        """How many nodes have k GPUs without an HP pod."""
        for position, node in enumerate(nodes):
            node.index, node.size_rank = position, self.sizes.index(node.spec.gpus)
            node.clear()
            if node.cordoned or node.failed:
                node.close()
            self.idle_levels[node.idle] += 1
            self.hp_free_levels[node.hp_free] += 1
        self.spot_in_use.clear()
        self.divided: set[Node] = set()
        """Nodes with divided GPUs."""
        for run in runs:
            for place in run.places:
                self.hold(place)
            if run.task.is_spot:
                self._enter_spot(run)
        for node in nodes:
            node.overdrawn = node.short
        self._overdrawn = any(node.overdrawn for node in nodes)
        self._changed.clear()
        self.capacity = sum(node.total for node in nodes if not node.closed)
        """GPUs on nodes that take pods."""
        self._table: NodeTable | None = None

    # -- what fits ---------------------------------------------------------------------------------

    def requests(self, role: Role) -> Requests:
        """Returns the role's requests besides GPUs that some node of the pool limits."""
        requests = role.requests
        known = self._counted.get(requests)
        if known is None:
            known = self._counted[requests] = tuple(each for each in requests if each[0] in self._limited)
        return known

    def by_gpus_alone(self, role: Role) -> bool:
        """Returns whether GPUs alone say which nodes take a pod of the role."""
        if role.rules or self._overdrawn or not (role.cards or role.share):
            return False
        return not (self._limited and self.requests(role))

    def demand(self, task: Task) -> Hashable:
        """Returns what decides where a task fits besides its number of GPUs: equals fit or fail alike."""
        if not task.mixed and not task.topology_key:
            role = (self.requests(task), task.rules) if task.rules or self._limited else None
            return role if task.preempts else (role, False)
        roles = tuple((role.pods, role.gpus_per_pod, self.requests(role), role.rules) for role in task.roles)
        return roles, task.topology_key, task.preempts

    def filters_of(self, role: Role) -> Iterable[tuple[Filter, Any]]:
        """Returns the role's rules, each with the filter that decides by it."""
        return [(each, rule) for rule in role.rules for each in self._filters if isinstance(rule, each.reads)]

    def admits(self, node: Node, role: Role, gone: Collection[Run] = ()) -> bool:
        """Returns whether every filter lets the node take a pod of the role, once these spot runs have gone."""
        return not role.rules or all(each.admits(rule, node, gone) for each, rule in self.filters_of(role))

    def takes(self, node: Node, role: Role) -> bool:
        """Returns whether a node with the GPUs takes one more pod of the role in all other respects."""
        free = node.free
        if free:
            for name, amount in role.requests:
                if name in free and free[name] + SLACK < amount:
                    return False
            if node.overdrawn and node.short:
                return False
        return not role.rules or self.admits(node, role)

    def fits(self, node: Node, role: Role) -> bool:
        """Returns whether one more pod of the role fits on the node now."""
        return node.has_gpus(role) and self.takes(node, role)

    def could_hold(self, node: Node, role: Role) -> bool:
        """Returns whether the node could hold one pod of an HP role if all its spot runs went."""
        return node.has_gpus(role, without_spot=True) and self.most_pods(node, role, 1, without_spot=True) == 1

    def most_pods(self, node: Node, role: Role, most: int, *, without_spot: bool = False) -> int:
        """Returns how many pods the node takes, of so many that find GPUs there (if every spot run went)."""
        if role.rules:
            if not self.admits(node, role, node.spot if without_spot else ()):
                return 0
            most = min(most, *(each.most for each, _ in self.filters_of(role)))
        if not node.free:
            return most
        return pods_within(node.free_without_spot if without_spot else node.free, role.requests, most)

    def slots(self, role: Role, *, without_spot: bool = False) -> int:
        """Returns how many pods of the role find room now (if every spot run went)."""
        if self.by_gpus_alone(role):
            return self.gpu_slots(role, without_spot=without_spot)
        return int(self.table.pods(role, without_spot=without_spot).sum())

    def gpu_slots(self, role: Role, *, without_spot: bool = False) -> int:
        """Returns how many pods of the role find GPUs now (if every spot run went), whatever else they request."""
        if role.cards:
            return self.hp_slots(role.cards) if without_spot else self.idle_slots(role.cards)
        if not role.share:
            return sum(node.pods_by_gpus(role, without_spot=without_spot) for node in self.nodes)
        whole = self.hp_slots(1) if without_spot else self.idle
        divided = sum(node.pods_by_gpus(role, without_spot=without_spot) for node in self.divided)
        undivided = whole - sum(node.hp_free if without_spot else node.idle for node in self.divided)
        return undivided * (MICRO // role.share) + divided

    def with_gpus(self, role: Role) -> Iterator[Node]:
        """Yields the nodes with the GPUs for one more pod of the role, whatever else it requests."""
        return (node for node in self.nodes if node.has_gpus(role))

    def nodes_for(self, role: Role, *, without_spot: bool = False) -> list[Node]:
        """Returns the nodes with room for a pod of the role (if every spot run went)."""
        nodes = self.nodes
        return [nodes[i] for i in np.flatnonzero(self.table.pods(role, without_spot=without_spot)).tolist()]

    @property
    def table(self) -> NodeTable:
        """The counts of all nodes as columns, up to date."""
        if self._table is None:
            self._table = NodeTable(self, sorted(self._limited), self.listeners.feed())
        return self._table

    def short_of(self, node: Node, role: Role, *, without_spot: bool = False) -> str:
        """Returns what keeps a pod from a node that has the GPUs (if every spot run went), in words."""
        gone = node.spot if without_spot else ()
        for each, rule in self.filters_of(role):
            if not each.admits(rule, node, gone):
                return each.why(rule)
        free = node.free_without_spot if without_spot else node.free
        has = node.spec.limits()
        for name, amount in free.items():
            if amount < -SLACK:
                beside = " by HP" if without_spot else ""
                return f"{has[name] - amount:.4g} {_words(name)} are in use{beside}, more than its {has[name]:.4g}"
        fitting = {(name, amount): pods_within({name: free[name]}, ((name, amount),), MOST_PODS)
                   for name, amount in role.requests if name in free}  # fmt: skip
        if not fitting:
            return ""
        name, amount = min(fitting, key=lambda request: fitting[request])  # it allows no more pods than all together
        if name != "pods":
            return f"{free[name]:.4g} of {has[name]:.4g} {_words(name)} free, pod asks {amount:.4g}"
        if free[name] < 1 and not without_spot:
            return f"{has[name]:g} pods run there and it takes no more"
        return f"it takes {max(free[name], 0):g} more pods of {has[name]:g} at most"

    # -- counts ------------------------------------------------------------------------------------

    @property
    def idle(self) -> int:
        """Wholly idle GPUs."""
        return sum(map(mul, self.idle_levels, range(len(self.idle_levels))))

    def idle_slots(self, gpus: int) -> int:
        """Returns how many pods of so many whole GPUs find idle ones."""
        return sum(count * (level // gpus) for level, count in enumerate(self.idle_levels) if count)

    def hp_slots(self, gpus: int) -> int:
        """Returns how many pods of so many whole GPUs HP could place if every spot run went."""
        return sum(count * (level // gpus) for level, count in enumerate(self.hp_free_levels) if count)

    def hp_candidates(self, gpus: int) -> int:
        """Returns how many nodes could hold one pod of so many whole GPUs if every spot run went."""
        return sum(self.hp_free_levels[gpus:])

    def spot_held(self, guarantee_hours: float) -> int:
        """Returns the millionths of GPUs held by spot tasks with at least this guarantee (Sa of the quota)."""
        held = 0
        for hours, micro in self.spot_in_use.items():
            if hours >= guarantee_hours:
                held += micro
        return held

    def largest_gap(self) -> int:
        """Returns the most idle GPUs on one node."""
        return _highest(self.idle_levels)

    def largest_hp_gap(self) -> int:
        """Returns the most GPUs on one node that HP could have if every spot run went."""
        return _highest(self.hp_free_levels)

    # -- changes -----------------------------------------------------------------------------------

    def occupy(self, node: Node, role: Role, pods: int = 1) -> Place:
        """Gives pods of the role what they ask for on a node that has it. Fractions one at a time."""
        slot = WHOLE
        if role.share:
            found = node.slot_for(role.share)
            assert found is not None, "the node was chosen because it has room"
            slot = found
        place = (node, role, pods, slot)
        self.hold(place)
        return place

    def hold(self, place: Place) -> None:
        """Takes what a place needs. It must be free, except when a pool is rebuilt."""
        self._move(place, 1)

    def release(self, places: Iterable[Place]) -> None:
        """Gives back what these places hold."""
        for place in places:
            self._move(place, -1)

    def _move(self, place: Place, sign: int) -> None:
        """Takes (1) or gives back (-1) what a place holds. On a closed node nothing is counted."""
        node, role, pods, slot = place
        if node.closed:
            return
        if slot < 0:
            gpus = sign * pods * role.cards
            self._move_idle(node, gpus)
            if role.is_spot:
                node.spot_cards += gpus
            else:
                self._move_hp(node, gpus)
            if node.shares:
                node.refresh_rooms()
        else:
            self._move_share(node, slot, role, sign * role.share)
        free = node.free
        if free:
            pods *= sign
            for name, amount in role.requests:
                if name in free:
                    free[name] -= pods * amount
                    if role.is_spot:
                        node.spot_use[name] += pods * amount
        if role.rules:
            for each, rule in self.filters_of(role):
                each.moved(rule, place, sign * place[2])
        self._changed.add(node)
        for tell in self._observers:
            tell(node)

    def _move_idle(self, node: Node, gpus: int) -> None:
        levels = self.idle_levels
        levels[node.idle] -= 1
        left = node.idle - node.surplus - gpus
        if left >= 0:
            node.idle, node.surplus = left, 0
        else:
            node.idle, node.surplus = 0, -left
        levels[node.idle] += 1

    def _move_hp(self, node: Node, gpus: int) -> None:
        levels = self.hp_free_levels
        levels[node.hp_free] -= 1
        left = node.hp_free - node.hp_surplus - gpus
        if left >= 0:
            node.hp_free, node.hp_surplus = left, 0
        else:
            node.hp_free, node.hp_surplus = 0, -left
        levels[node.hp_free] += 1

    def _move_share(self, node: Node, slot: int, role: Role, share: int) -> None:
        used = node.shares.get(slot)
        if used is None:
            used = [0, 0]
            node.shares = {**node.shares, slot: used}
            self.divided.add(node)
            self._move_idle(node, 1)
        before = used[role.priority]
        used[role.priority] = after = before + share
        if not before or not after:
            one = 1 if after else -1
            if role.is_spot:
                node.spot_cards += one
            else:
                self._move_hp(node, one)
        if used == [0, 0]:
            del node.shares[slot]
            if not node.shares:
                node.shares = NO_SHARES
                self.divided.discard(node)
            self._move_idle(node, -1)
        node.refresh_rooms()

    def register_spot(self, run: Run) -> None:
        """Notes a spot run, which holds its places already, on its nodes and in the quota's books."""
        self._enter_spot(run)
        for tell in self.listeners.spot_held:
            tell(run)

    def forget_spot(self, run: Run) -> None:
        """Undoes `register_spot`."""
        for node, *_ in run.places:
            node.spot.pop(run, None)
        self._count_spot(run.task, -1)
        for tell in self.listeners.spot_released:
            tell(run)

    def lift(self, run: Run) -> None:
        """Takes a run off all its nodes."""
        if run.task.is_spot:
            self.forget_spot(run)
        self.release(run.places)

    def shrink(self, run: Run, task: Task, kept: list[Place], freed: list[Place]) -> None:
        """Lets a run go on as a smaller task in the places `kept`, and gives back the others."""
        if task.is_spot:
            self.forget_spot(run)
        self.release(freed)
        run.task, run.places = task, kept
        self.note_changed(run.nodes)
        if task.is_spot:
            self.register_spot(run)

    def note_changed(self, nodes: Iterable[Node]) -> None:
        """Notes that runs on these nodes are not what they were, though they hold the same."""
        self._changed.update(nodes)

    def put_back(self, run: Run) -> None:
        """Undoes `lift`: exactly the same places, which must be free."""
        for place in run.places:
            self.hold(place)
        if run.task.is_spot:
            self.register_spot(run)

    def _enter_spot(self, run: Run) -> None:
        task = run.task
        for node, role, pods, slot in run.places:
            if not node.closed:
                node.spot[run] = node.spot.get(run, 0) + (pods * role.cards if slot < 0 else 0)
        self._count_spot(task, 1)

    def _count_spot(self, task: Task, sign: int) -> None:
        hours = task.guarantee_hours
        held = self.spot_in_use.get(hours, 0) + sign * task.micro
        if held:
            self.spot_in_use[hours] = held
        else:
            self.spot_in_use.pop(hours, None)


def _words(name: str) -> str:
    """How a reason names a resource."""
    return {"cpus": "CPUs", "memory": "GiB memory"}.get(name, name)
