"""A saved state holds the roles of tasks whose pods differ, and which of them each place is for."""

from __future__ import annotations

from builders import hp, nodes
from gfs import Parameters, Role
from gfs.assembly.codec import pack, unpack
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import Submitted


def test_roles_and_places_of_a_mixed_gang_come_back() -> None:
    scheduler = build_scheduler("gfs", nodes(8, 8), Parameters(quota="none"), period=7200.0, check=True)
    roles = (Role(1, 0, cpus_per_pod=8), Role(2, 4, cpus_per_pod=32, resources=(("rdma/ib", 1.0),)))
    task = hp("ray", roles=roles).task()
    (run,) = scheduler.handle(0.0, [Submitted(task)]).starts
    written, left_out = pack((task, run.places))
    again, places = unpack(written)
    assert left_out == []
    assert [(role.pods, role.gpus_per_pod, role.requests) for role in again.roles] == [
        (2, 4, (("cpus", 32), ("rdma/ib", 1), ("pods", 1))),
        (1, 0, (("cpus", 8), ("pods", 1))),
    ]
    assert [(node.name, role.number, role.index, role.is_spot, pods) for node, role, pods, _ in places] == [
        ("n0", 0, task.index, False, 2),
        ("n0", 1, task.index, False, 1),
    ]
