"""Promises that must hold at every moment; `--check` tests them after every decision."""

from __future__ import annotations

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.core.state import PoolState
from gfs.domain.errors import InvariantError
from gfs.domain.units import MICRO


def check_state(state: PoolState) -> None:
    """Compare every count of a pool with what its nodes hold, and these with what its runs say, GPU by GPU."""
    pool = state.pool
    check_pool(pool)
    _expect(not state.runs.keys() & state.waiting.keys(), f"pool {pool.gpu_model}: a task runs and waits")
    for index, run in state.runs.items():
        _expect(run.alive and run.task.index == index, f"run {run} is over but still in the books")
        _expect(run.pods == run.task.pods, f"run {run} has {run.pods} of {run.task.pods} pods")
    fresh = type(pool)(pool.gpu_model)
    held = [_held(node) for node in pool.nodes]
    counts = (pool.idle_levels, pool.hp_free_levels, pool.capacity)
    in_use = {hours: micro for hours, micro in pool.spot_in_use.items() if micro}
    copies = {node: Node(node.spec) for node in pool.nodes}
    for node, copy in copies.items():
        copy.cordoned, copy.failed = node.cordoned, node.failed
    runs = [_moved(run, copies) for run in state.runs.values()]
    fresh.rebuild(list(copies.values()), runs)
    check_pool(fresh)
    _expect([_held(node) for node in fresh.nodes] == held, f"pool {pool.gpu_model}: nodes do not hold what runs say")
    again = (fresh.idle_levels, fresh.hp_free_levels, fresh.capacity)
    _expect(again == counts, f"pool {pool.gpu_model}: counts {counts}, runs say {again}")
    _expect(fresh.spot_in_use == in_use, f"pool {pool.gpu_model}: spot in use {in_use}, runs say {fresh.spot_in_use}")


def _held(node: Node) -> tuple[object, ...]:
    """Returns all that is kept of a node, resources rounded; of divided GPUs it does not matter which is which."""
    resources = {name: round(free, 6) for name, free in node.free.items()}
    shares = sorted(tuple(used) for used in node.shares.values())
    counts = (node.idle, node.spot_cards, node.hp_free, node.room, node.hp_room)
    return (node.closed, counts, shares, *(() if node.closed else (resources,)))


def _moved(run: Run, copies: dict[Node, Node]) -> Run:
    places = [(copies[node], role, pods, slot) for node, role, pods, slot in run.places]
    return Run(run.task, run.number, places, run.start, run.start)


def check_pool(pool: Pool) -> None:
    """Compare every count of the pool with what its nodes hold, GPU by GPU."""
    idle_levels = [0] * len(pool.idle_levels)
    hp_free_levels = [0] * len(pool.hp_free_levels)
    runs: set[Run] = set()
    for node in pool.nodes:
        check_node(node)
        idle_levels[node.idle] += 1
        hp_free_levels[node.hp_free] += 1
        runs.update(node.spot)
    for run in runs:
        _expect(run.alive, f"spot run {run} is over but still on a node")
        _expect(run.pods == run.task.pods, f"spot run {run} has {run.pods} pods")
    _expect(idle_levels == pool.idle_levels, f"pool {pool.gpu_model}: idle levels are off")
    _expect(hp_free_levels == pool.hp_free_levels, f"pool {pool.gpu_model}: HP-free levels are off")


def check_node(node: Node) -> None:
    """No GPU over-committed, every count of the node right."""
    name = f"node {node.name}"
    enough = all(free > -1e-6 for free in node.free.values())
    _expect(enough or node.closed or node.overdrawn, f"{name}: more taken than there is")
    for slot, (hp, spot) in node.shares.items():
        _expect(hp >= 0 and spot >= 0 and 0 < hp + spot <= MICRO, f"{name}: GPU {slot} holds {hp} + {spot}")
    _expect(0 <= node.idle <= node.total, f"{name}: {node.idle} of {node.total} idle")
    spot_whole = sum(node.spot.values())
    spot_divided = sum(1 for _, spot in node.shares.values() if spot)
    hp_divided = sum(1 for hp, _ in node.shares.values() if hp)
    _expect(not (node.idle and node.surplus), f"{name}: GPUs are idle though more are held than there are")
    hp_whole = node.total + node.surplus - node.idle - len(node.shares) - spot_whole
    _expect(hp_whole >= 0, f"{name}: more GPUs held than there are")
    _expect(node.spot_cards == spot_whole + spot_divided, f"{name}: spot GPUs {node.spot_cards}")
    hp_free = node.total - hp_whole - hp_divided
    _expect(node.hp_free - node.hp_surplus == hp_free, f"{name}: HP-free GPUs {node.hp_free}")
    _expect(not (node.hp_free and node.hp_surplus), f"{name}: GPUs for HP though HP holds more than there are")


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantError(f"{otherwise} (a bug in GFS, please report it)")
