"""Who hears what happens in a pool: several parts at once, on trials too, until nodes change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from builders import Stage, hp, nodes, spot
from gfs.core.events import NodeChange, NodeChangeKind
from gfs.core.listeners import NOTIFICATIONS, Listener
from gfs.core.node import Node
from gfs.core.run import End, Run
from gfs.core.trial import Trial
from gfs.domain.task import Task
from gfs.policies.fgd.fragmentation import ArrivalMix
from gfs.policies.fgd.placement import FgdPlacer
from gfs.policies.gfs.scoring import GfsPlacer
from gfs.policies.placement import best_fit, first_fit


class Diary(Listener):
    """Writes down all that it hears."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def node_changed(self, node: Node) -> None:
        self.lines.append(f"{node.name} has {node.idle} idle")

    def spot_held(self, run: Run) -> None:
        self.lines.append(f"{run.task.name} holds")

    def spot_released(self, run: Run) -> None:
        self.lines.append(f"{run.task.name} lets go")

    def started(self, run: Run, now: float) -> None:
        self.lines.append(f"{now:g}: {run.task.name} starts")

    def finished(self, run: Run, now: float) -> None:
        self.lines.append(f"{now:g}: {run.task.name} is done")

    def ended(self, run: Run, end: End, now: float) -> None:
        self.lines.append(f"{now:g}: {run.task.name} is {end.value}")

    def withdrawn(self, task: Task, now: float) -> None:
        self.lines.append(f"{now:g}: {task.name} waits no more")

    def evictions_changed(self, node: Node) -> None:
        self.lines.append(f"another count of evictions on {node.name}")

    def heard(self) -> list[str]:
        """What was written since the last time."""
        lines, self.lines = self.lines, []
        return lines


def test_a_life_as_it_is_heard() -> None:
    stage, diary = Stage(4), Diary()
    stage.state.listen(diary)
    run = stage.holds("n0", spot("s", gpus=2), start=5.0)
    assert diary.heard() == ["n0 has 2 idle", "s holds", "5: s starts"]
    stage.state.finish(run, 9.0)
    assert diary.heard() == ["9: s is done", "s lets go", "n0 has 4 idle"]


def test_an_eviction_is_heard_on_the_trial_and_again_when_it_is_meant() -> None:
    stage, diary = Stage(4), Diary()
    run = stage.holds("n0", spot("s", gpus=2))
    stage.state.listen(diary)
    trial = Trial(stage.pool)
    trial.evict(run)
    assert diary.heard() == ["s lets go", "n0 has 4 idle"]
    trial.rollback()
    assert diary.heard() == ["n0 has 2 idle", "s holds"], "told back"
    stage.evicts(run, 60.0)
    assert diary.heard() == [
        "s lets go",
        "n0 has 4 idle",
        "another count of evictions on n0",
        "60: s is evicted",
    ]
    stage.state.age(60.0 + 3600.0)
    assert diary.heard() == ["another count of evictions on n0"]


def test_a_lost_a_failed_and_a_cancelled_run() -> None:
    stage, diary = Stage(4), Diary()
    lost, failed, cancelled = (stage.holds("n0", hp(name)) for name in "abc")
    stage.state.listen(diary)
    stage.state.lose(lost, 10.0)
    stage.state.fail_start(failed, 20.0)
    assert stage.state.cancel(cancelled.task, 30.0) is cancelled
    assert stage.state.cancel(lost.task, 40.0) is True
    assert stage.state.cancel(lost.task, 50.0) is None, "it is not here any more"
    assert [line for line in diary.heard() if "idle" not in line] == [
        "10: a is lost",
        "20: b is start failed",
        "30: c is cancelled",
        "40: a waits no more",
    ]


def test_what_a_part_does_not_override_it_is_not_called_for() -> None:
    class Deaf(Listener):
        """Hears nothing."""

    class OnlyEnds(Listener):
        def ended(self, run: Run, end: End, now: float) -> None:
            """Hears this."""

    listeners = Stage(1).state.listeners
    listeners.add(Deaf())
    assert not any(getattr(listeners, name) for name in NOTIFICATIONS)
    listeners.add(OnlyEnds())
    assert [name for name in NOTIFICATIONS if getattr(listeners, name)] == ["ended"]


def test_who_joins_twice_hears_everything_once() -> None:
    stage, diary = Stage(4), Diary()
    stage.state.listen(diary)
    stage.state.listen(diary)
    stage.holds("n0", spot("s", gpus=2), start=5.0)
    assert diary.heard() == ["n0 has 2 idle", "s holds", "5: s starts"]


def test_several_placers_on_one_pool_all_stay_right() -> None:
    stage, mix = Stage(8, 8, 8), ArrivalMix()
    mix.learn([hp("x", gpus=gpus).task() for gpus in (1, 8)])

    def placers() -> list[Any]:
        state = stage.state
        return [
            GfsPlacer(state),
            best_fit(state.pool),
            GfsPlacer(state),
            first_fit(state.pool),
            FgdPlacer(state, mix),
        ]

    old = placers()
    for name, draft in {
        "n1": hp("a", gpus=3),
        "n2": spot("b", gpus=6),
        "n0": spot("c", gpus=0.5),
    }.items():
        run = stage.holds(name, draft)
        for asked in (hp("x", gpus=1), spot("x", gpus=2), hp("x", gpus=5), hp("x", gpus=0.5)):
            task = asked.task(99)
            assert [p.choose(task) for p in old] == [p.choose(task) for p in placers()]
    stage.state.finish(run, 10.0)
    assert [p.choose(spot("x", gpus=8).task(99)) for p in old] == [stage.node("n0")] * len(old)


def test_feeds_give_each_part_what_changed_since_it_last_asked() -> None:
    stage = Stage(4, 4, 4)
    often, seldom = stage.pool.listeners.feed(), stage.pool.listeners.feed()
    stage.holds("n0", hp("a"))
    stage.holds("n2", hp("b"))
    assert {node.name for node in often()} == {"n0", "n2"}
    assert often() == set()
    stage.holds("n1", hp("c"))
    assert {node.name for node in often()} == {"n1"}
    assert {node.name for node in seldom()} == {"n0", "n1", "n2"}, "whoever asks first takes nothing from others"
    late = stage.pool.listeners.feed()
    stage.holds("n1", hp("d"))
    assert {node.name for node in late()} == {"n1"}


def test_when_nodes_change_all_are_dropped_and_what_is_remembered_stays() -> None:
    stage, diary = Stage(4), Diary()
    state = stage.state
    state.listen(diary)
    feed = stage.pool.listeners.feed()
    state.remember(Count).seen += 2
    started = state.listeners.started
    (new,) = nodes(8, prefix="m", first=1)
    lost, changed = state.change_nodes([NodeChange(NodeChangeKind.ADDED, new)], 0.0)
    assert (lost, changed) == ([], True)
    state.rebuild()
    stage.holds("m0", spot("s"))
    assert diary.heard() == []
    assert feed() == set()
    assert state.remember(Count) == Count(2)
    assert state.listeners.started is started, "the same list: whoever keeps it goes on telling the right ones"


@dataclass
class Count:
    """What a part remembers."""

    seen: int = 0


def test_what_is_remembered_has_a_class_of_its_own() -> None:
    @dataclass
    class Local:
        """No other process could find it."""

    for kind in (list, dict, Diary, Local):
        with pytest.raises(TypeError, match="what is remembered is a dataclass or Struct of a module"):
            Stage(4).state.remember(kind)
