"""Promises that must hold at every moment; `--check` tests them after every decision."""

from __future__ import annotations

from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.run import Run
from gfs.domain.errors import InvariantError
from gfs.domain.units import MICRO


def check_pool(pool: Pool) -> None:
    """Compare every count of the pool with what its nodes hold, card by card."""
    idle_levels = [0] * len(pool.idle_levels)
    hp_free_levels = [0] * len(pool.hp_free_levels)
    spot_in_use: dict[float, int] = {}
    runs: set[Run] = set()
    for node in pool.nodes:
        check_node(node)
        idle_levels[node.idle] += 1
        hp_free_levels[node.hp_free] += 1
        runs.update(node.spot)
    for run in runs:
        hours = run.task.guarantee_hours
        spot_in_use[hours] = spot_in_use.get(hours, 0) + run.task.micro
        _expect(run.alive, f"spot run {run} is over but still on a node")
        _expect(run.pods == run.task.pods, f"spot run {run} has {run.pods} pods")
    _expect(pool.idle == sum(node.idle for node in pool.nodes), f"pool {pool.gpu_model}: idle count is off")
    _expect(idle_levels == pool.idle_levels, f"pool {pool.gpu_model}: idle levels are off")
    _expect(hp_free_levels == pool.hp_free_levels, f"pool {pool.gpu_model}: HP-free levels are off")
    held = {hours: micro for hours, micro in pool.spot_in_use.items() if micro}
    _expect(held == spot_in_use, f"pool {pool.gpu_model}: spot in use {held}, nodes say {spot_in_use}")


def check_node(node: Node) -> None:
    """No card over-committed, every count of the node right."""
    name = f"node {node.name}"
    divided = 0
    for card, (hp, spot) in node.shares.items():
        divided |= 1 << card
        _expect(hp >= 0 and spot >= 0 and 0 < hp + spot <= MICRO, f"{name}: card {card} holds {hp} + {spot}")
    _expect(not node.free & divided, f"{name}: a divided card is called idle")
    _expect(node.free.bit_count() == node.idle, f"{name}: {node.idle} idle, cards say {node.free:b}")
    _expect(0 <= node.idle <= node.total, f"{name}: {node.idle} of {node.total} idle")
    spot_whole = sum(node.spot.values())
    spot_divided = sum(1 for _, spot in node.shares.values() if spot)
    hp_divided = sum(1 for hp, _ in node.shares.values() if hp)
    hp_whole = node.total - node.idle - len(node.shares) - spot_whole
    _expect(hp_whole >= 0, f"{name}: more cards held than there are")
    _expect(node.spot_cards == spot_whole + spot_divided, f"{name}: spot cards {node.spot_cards}")
    _expect(node.hp_cards == hp_whole + hp_divided, f"{name}: HP cards {node.hp_cards}")
    _expect(node.hp_free == node.total - hp_whole - hp_divided, f"{name}: HP-free cards {node.hp_free}")


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantError(f"{otherwise} (a bug in GFS, please report it)")
