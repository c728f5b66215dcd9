"""The controller is killed at every step of a gang's binding and of a preemption: whoever comes next ends the job."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from cells import cells_of
from replica import KILL
from world import Begin

BINDING = ("decided", "bind-begun", "bind-begun:2", "bind-answered", "bind-answered:2")
PREEMPTING = (
    "evict-decided", "stop-marked", "stop-marked:2", "stop-deleted", "stop-deleted:2", "nominated", "bind-begun:3",
    "bind-answered:3",
)  # fmt: skip


def test_killed_at_every_step(begin: Begin) -> None:
    cases = [(point, bare) for point in BINDING for bare in (False, True)]
    cases += [(point, False) for point in PREEMPTING]
    with begin() as world:
        cells = cells_of(world, cases)
        for cell in cells:
            cell.gang("spot", "gfs-spot")
            cell.run(**{KILL: cell.case})
        for cell in cells:
            if cell.case in PREEMPTING:
                cell.wait_running("spot")
                cell.gang("hp", "gfs-hp", run_for=2.0)
        for cell in cells:
            status = world.replicas.wait(cell.name, 120)
            assert status == -signal.SIGKILL, f"{cell.case} was not reached: {status}"
            world.injections.note("killed at a failpoint", f"{cell.name} at {cell.case}")
            cell.run()
        for cell in cells:
            if cell.case in PREEMPTING:
                cell.wait_done("hp")
            cell.wait_running("spot")
            cell.withdraw("spot")
        world.drain(60)


def test_every_failpoint_is_reached_by_the_suite() -> None:
    source = Path(__file__).with_name("replica.py").read_text()
    named = set(re.findall(r'reach\("([\w-]+)"\)', source))
    assert named == {point.partition(":")[0] for point in (*BINDING, *PREEMPTING)}
    assert named
