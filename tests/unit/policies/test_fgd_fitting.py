"""What FGD remembers of asks for more than cards stays what a fresh look at every node gives."""

from __future__ import annotations

import random

from gfs import NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import Finished, Submitted
from gfs.policies.fgd import fitting
from gfs.policies.fgd.fitting import FittingNodes
from gfs.policies.fgd.fragmentation import ArrivalMix


def test_remembered_outcomes_are_those_of_a_fresh_look(monkeypatch):
    monkeypatch.setattr(fitting, "MOST_ASKS", 3)  # asks come and go
    specs = tuple(NodeSpec(i, f"n{i}", "A100", 8, cpus=64.0) for i in range(12))
    scheduler = build_scheduler("fgd", specs, Parameters(quota="none", resources="on"), period=86400.0)
    state, mix, pick = scheduler.pools["A100"].state, ArrivalMix(8), random.Random(1)
    remembered, found = FittingNodes(state.pool), 0
    for index in range(300):
        gpus, priority = pick.choice((0.5, 1.0, 2.0, 4.0)), pick.choice((Priority.HP, Priority.SPOT))
        task = Task(index, f"t{index}", "lab", "A100", priority, 1, gpus, float(index), cpus_per_pod=12 * gpus)
        mix.learn((task,))
        if priority is Priority.HP:
            best = remembered.best(task, mix)
            assert best == FittingNodes(state.pool).best(task, mix)
            found += best is not None
        scheduler.handle(float(index), [Submitted(task)])
        if index % 2 and state.runs:
            scheduler.handle(index + 0.5, [Finished(pick.choice(list(state.runs.values())))])
    assert found > 30
