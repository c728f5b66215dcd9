"""Everything at once, at random moments: nothing is over-committed, nobody is forgotten, and the queue drains."""

from __future__ import annotations

import pytest
from daily import Days
from injections import SEEDS
from storm import GPUS, NODES, Storm
from world import Begin

from bench import manifests


@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm(begin: Begin, seed: int) -> None:
    with begin(seed) as world:
        lab, doomed, office = (world.cluster(name) for name in ("lab", "doomed", "office"))
        lab.add_nodes([manifests.node(f"{world.name}-n{i}", gpus=GPUS) for i in range(NODES)])
        for name in ("one", "two"):
            world.run_replica(name)
        world.wait_leader("one", "two")
        with Days(world, lab, office):
            Storm(world, lab, doomed).rage(seconds=35.0, tasks=45, requests=0.2, lines=0.1)
        world.drain(120.0)
