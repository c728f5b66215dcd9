"""What every scheduler promises to a cluster that does as it likes, whoever drives it (docs/concepts/the-core.md).

Not the simulator drives here but a small world of the test's own (`open_world`), which keeps its own books of
cards and compares after every instant. A new entry in `gfs.SCHEDULERS` goes through all of this by itself.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from open_world import Instant, Move, Wish, World
from strategies import among

from gfs import SCHEDULERS, NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.events import EvictionDone, NodeChangeKind, Submitted

EXAMPLES = int(os.environ.get("GFS_OPEN_WORLD", "14"))
"""Histories per scheduler and test; many more to look for trouble."""
PHASES = tuple(Phase) if "GFS_SHRINK" in os.environ else (Phase.explicit, Phase.reuse, Phase.generate)
"""To make a failing history small takes minutes: only if one asks for it."""

every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))

HAPPENINGS = [
    "finish",
    "finish",
    "lose",
    "fail",
    "left",
    "left",
    "cancel",
    "echo",
    "tick",
    "shrink",
    "shrink",
    "smaller",
]


@dataclass(frozen=True)
class Tale:
    """A cluster, parameters, and what happens."""

    nodes: list[NodeSpec]
    numbers: dict[str, Any]
    filters: bool
    """Whether the node filters of tasks hold."""
    mixes: bool
    """Whether tasks have more roles, ports, topology keys and priorities."""
    instants: list[Instant]

    def __repr__(self) -> str:
        nodes = [
            f"{node.name}: {node.gpus} x {node.gpu_model}, {node.cpus:g} CPUs, {node.memory:g} GiB, {node.pods} pods,"
            f" group {node.group} {node.resources} {node.labels}"
            for node in self.nodes
        ]
        return "\n".join(
            [f"{self.numbers}, filters: {self.filters}, mixed: {self.mixes}", *nodes, *map(str, self.instants)]
        )

    def cluster(self, scheduler: str, file: Path, **more: Any) -> World:
        parameters = Parameters(solver_seconds=60.0, **{**self.numbers, **more})
        return World(scheduler, self.nodes, parameters, file, filters=self.filters, mixes=self.mixes)


@st.composite
def submits(draw: st.DrawFn) -> Move:
    return Move(
        "submit",
        wish=Wish(
            priority=draw(among(Priority.HP, Priority.SPOT, Priority.SPOT)),
            gpus=draw(among(1, 1, 2, 2, 4, 8, 0.5, 0.3, 0.6)),
            pods=draw(among(1, 1, 1, 2, 3, 5)),
            model=draw(among(*["A100"] * 5, "T4", "H20")),
            hours=draw(among(0.125, 1.0, 2.0)),
            checkpoint=draw(among(60.0, 3600.0)),
            org=draw(among("lab", "shop")),
            cpus=draw(among(0.0, 0.0, 2.0, 8.0)),
            memory=draw(among(0.0, 0.0, 8.0, 24.0)),
            only=draw(among((), (), ("a",), ("b",), ("a", "b"))),
            roles=draw(among((), (), ((1, 0.0, 2.0),), ((2, 0.0, 1.0), (2, 1.0, 2.0)), ((1, 2.0, 0.0), (3, 0.5, 1.0)))),
            ports=draw(among((), (), ("TCP/80",), ("TCP/80", "TCP/443"))),
            resources=draw(among((), (("rdma/ib", 1.0),))),
            topology=draw(among("", "", "rack")),
            urgency=draw(among(0, 0, 1, -1)),
            preempts=draw(among(True, True, True, False)),
        ),
    )


@st.composite
def tales(draw: st.DrawFn) -> Tale:
    """A few nodes, many tasks at the beginning, then anything."""
    picks = st.integers(0, 255)
    others = st.tuples(st.sampled_from(HAPPENINGS), picks, picks).map(lambda drawn: Move(*drawn))
    changes = st.tuples(st.just("node"), picks, picks).map(lambda drawn: Move(*drawn))
    moves = st.lists(st.one_of(submits(), submits(), others, others, changes), max_size=6)
    pauses = st.sampled_from([-1.0, -1.0, 1.0, 12.5, 30.0, 40.0, 300.0, 450.0, 3600.0, 0.0])
    rest = st.tuples(pauses, moves, st.sampled_from([False, False, False, True]))
    opening = Instant(0.0, draw(st.lists(submits(), min_size=4, max_size=10)))
    kinds = st.tuples(
        st.sampled_from(["A100"] * 4 + ["T4"]),
        st.sampled_from([1, 2, 4, 4, 8]),
        st.sampled_from([0.0, 8.0, 16.0]),
        st.sampled_from([0.0, 0.0, 24.0, 48.0]),
        st.sampled_from([0, 0, 0, 3]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([(), (), (("rdma/ib", 0.0),), (("rdma/ib", 2.0),)]),
        st.sampled_from([(), (("rack", "r1"),), (("rack", "r1"),), (("rack", "r2"),)]),
    )
    mixes = draw(among(False, False, True))
    drawn = [kind if mixes else kind[:-2] for kind in draw(st.lists(kinds, max_size=5))]
    return Tale(
        [NodeSpec(i, f"n{i}", *kind) for i, kind in enumerate(drawn)],
        {
            "quota": draw(among("none", "none", "fixed", "weekly-peak")),
            "quota_share": draw(among(0.5, 1.0)),
            "grace_period": draw(among(30.0, 30.0, 30.0, 0.0)),
            "m": draw(among(3.0, 60.0)),
            "starvation_timeout": draw(among(43200.0, 0.0, 600.0)),
            "resources": draw(among("off", "on")),
        },
        draw(st.booleans()),
        mixes,
        [opening, *(Instant(*drawn) for drawn in draw(st.lists(rest, min_size=5, max_size=16)))],
    )


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "state"


@every_scheduler
@settings(max_examples=EXAMPLES, phases=PHASES)
@given(tale=tales())
def test_keeps_its_books_whatever_happens(scheduler: str, file: Path, tale: Tale) -> None:
    tale.cluster(scheduler, file).play(tale.instants)


@every_scheduler
@settings(max_examples=max(EXAMPLES // 2, 1), phases=PHASES)
@given(tale=tales())
def test_whoever_fits_gets_its_turn(scheduler: str, file: Path, tale: Tale) -> None:
    world = tale.cluster(scheduler, file, quota="none")
    world.play(tale.instants)
    world.settle()


@every_scheduler
@settings(max_examples=max(EXAMPLES // 2, 1), phases=PHASES)
@given(tale=tales())
def test_a_scheduler_without_a_memory_takes_over_what_runs(scheduler: str, file: Path, tale: Tale) -> None:
    world = tale.cluster(scheduler, file)
    world.play(tale.instants)
    world.begin_again()


@pytest.mark.parametrize("scheduler", sorted(set(SCHEDULERS) - {"chronus"}))
def test_a_driver_can_tell_who_has_not_left_the_cards_of_a_start(scheduler: str) -> None:
    """A spot task of two nodes is evicted for one node; another HP task gets the rest and begins when it has left."""
    nodes = [NodeSpec(i, f"n{i}", "A100", 4) for i in range(2)]
    cluster = build_scheduler(scheduler, nodes, Parameters(quota="none"), period=7200.0)
    state = cluster.pools["A100"].state
    wide, half, small = (
        Task(i, name, "lab", "A100", kind, pods, gpus, 0.0)
        for i, (name, kind, pods, gpus) in enumerate(
            [("wide", Priority.SPOT, 2, 4.0), ("half", Priority.HP, 1, 4.0), ("small", Priority.HP, 1, 2.0)]
        )
    )
    cluster.handle(0.0, [Submitted(wide)])
    plan = cluster.handle(100.0, [Submitted(half)])
    (victim,), (taker,) = [eviction.run for eviction in plan.evictions], plan.starts
    (start,) = cluster.handle(105.0, [Submitted(small)]).starts
    assert start.task is small
    assert start.nodes != taker.nodes, "it was given the other node of the victim"
    assert state.leaving[victim].takers == [taker, start]
    assert (taker.start, start.start) == (130.0, 130.0)
    assert set(victim.nodes) == {*start.nodes, *taker.nodes}, "it is still on the nodes of both"
    cluster.handle(131.0, [EvictionDone(victim)])
    assert state.leaving == {}
    assert (taker.start, start.start) == (131.0, 131.0)


@pytest.mark.parametrize("scheduler", ["gfs"])
def test_all_of_it_comes_to_pass(scheduler: str, file: Path) -> None:
    """The histories above are worth something: in some dozens of them everything happens."""
    happened: Counter[str] = Counter()

    @settings(max_examples=200, phases=(Phase.generate,), database=None)
    @given(tale=tales())
    def play(tale: Tale) -> None:
        world = tale.cluster(scheduler, file)
        world.play(tale.instants)
        happened.update(world.counts)

    play()
    expected = {
        "started",
        "finished",
        "cancelled",
        "cancelled early",
        "lost",
        "failed",
        "restarted",
        "shrunk",
        "shrunk by a role",
        "mixed",
        "ports",
        "given back",
        "overfull",
    }
    expected |= {kind.value for kind in NodeChangeKind} | {"evicted"}
    assert not expected - happened.keys(), happened
