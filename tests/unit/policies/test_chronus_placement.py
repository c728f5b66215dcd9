"""Room for a task where leases end: which runs stop (docs/schedulers/chronus.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from builders import Draft, Stage, hp, spot
from gfs.core.run import Run
from gfs.core.trial import Trial
from gfs.domain.task import Task
from gfs.policies.chronus.placement import RoundPlacement
from gfs.policies.chronus.program import LeaseShape
from gfs.policies.placement import best_fit


def shape_of(task: Task) -> LeaseShape:
    return LeaseShape(task.priority, task.gpus_per_pod, task.pods, task.guarantee_hours)


def stopped(
    stage: Stage, draft: Draft, ending: Sequence[Run], may_stop: Sequence[Run], most_spot: float | None = None
) -> list[str] | None:
    """The runs that stop for a task, as many of each shape as are given; None: it finds no room."""
    trial = Trial(stage.pool)

    def over_quota(task: Task) -> float | None:
        held = sum(run.task.gpus for run in ending if run not in trial.evicted)
        return 1.0 if most_spot is not None and held + task.gpus > most_spot else None

    shapes = {run: shape_of(run.task) for run in ending}
    placement = RoundPlacement(trial, best_fit(stage.pool).choose, over_quota, shapes)
    before = Counter(shapes[run] for run in may_stop)
    placement.stops = before.copy()
    idle = stage.pool.idle
    placed, evicted = placement.place(draft.task(1000)), list(trial.evicted)
    assert +placement.stops == before - Counter(shapes[run] for run in evicted)
    trial.rollback()
    assert (placement.stops, stage.pool.idle) == (before, idle), "all is as it was"
    return [run.task.name for run in evicted] if placed else None


def test_no_more_runs_of_a_shape_stop_than_the_round_leaves_without_a_lease() -> None:
    stage = Stage(8)
    small = [stage.holds("n0", spot(f"s{i}")) for i in range(4)]
    large = stage.holds("n0", spot("large", gpus=4))
    ending = [*small, large]
    assert stopped(stage, hp("h", gpus=2), ending, small[:2]) == ["s0", "s1"]
    assert stopped(stage, hp("h", gpus=3), ending, small[:2]) is None
    assert stopped(stage, hp("h", gpus=3), ending, [*small[:2], large]) == ["large"]


def test_a_lease_that_goes_on_is_in_nobodys_hands() -> None:
    stage = Stage(2)
    ending = stage.holds("n0", spot("ending"))
    stage.holds("n0", spot("going on"))
    assert stopped(stage, hp("h"), [ending], [ending]) == ["ending"]
    assert stopped(stage, hp("h", gpus=2), [ending], [ending]) is None


def test_the_node_where_the_fewest_gpus_stop_hp_before_all() -> None:
    # Two GPUs. n0: an HP task of 2. n1: a spot gang of 2 x 2, 4 GPUs. n2: spot tasks of 3. So n2, and without it n1.
    stage = Stage(2, 2, 3, 2)
    one = stage.holds("n0", hp("one", gpus=2))
    gang = stage.spread(["n1", "n3"], spot("gang", gpus=2, pods=2))
    three = stage.holds("n2", spot("three", gpus=3))
    assert stopped(stage, hp("h", gpus=2), [one, gang, three], [one, gang, three]) == ["three"]
    assert stopped(stage, hp("h", gpus=2), [one, gang, three], [one, gang]) == ["gang"]
    assert stopped(stage, hp("h", gpus=2), [one, gang, three], [one]) == ["one"]


def test_on_a_node_the_largest_go_first_and_who_turns_out_not_to_be_in_the_way_stays() -> None:
    # Four GPUs of 3 + 2 + 2: the 3 goes, then a 2: 5. Without the 3, 2 + 2 suffice: no, only one of them has gone.
    stage = Stage(7)
    runs = [stage.holds("n0", spot(name, gpus=gpus)) for name, gpus in {"three": 3, "two": 2, "more": 2}.items()]
    assert stopped(stage, hp("h", gpus=4), runs, runs) == ["three", "two"]
    # A GPU, of a whole one and two halves on another: the whole one goes, the halves stay.
    stage = Stage(2)
    runs = [stage.holds("n0", spot(name, gpus=gpus)) for name, gpus in {"a": 0.5, "b": 0.5, "one": 1}.items()]
    assert stopped(stage, hp("h"), runs, runs) == ["one"]
    assert stopped(stage, hp("h"), runs, runs[:2]) == ["a", "b"]
    assert stopped(stage, hp("h", gpus=0.5), runs, runs[:2]) == ["a"]


def test_a_gang_that_does_not_fit_whole_stops_nobody() -> None:
    stage = Stage(2, 2)
    spot_run = stage.holds("n0", spot("s", gpus=2))
    stage.holds("n1", hp("h", gpus=1))
    assert stopped(stage, hp("gang", gpus=2, pods=2), [spot_run], [spot_run]) is None


def test_the_quota_is_met_by_stopping_the_smallest_that_may_stop() -> None:
    # 4 of 8 GPUs are the quota, and held: the task of 1 needs the 1 to stop, the task of 3 the 3.
    stage = Stage(8)
    runs = [stage.holds("n0", spot("three", gpus=3)), stage.holds("n0", spot("one", gpus=1))]
    assert stopped(stage, spot("x", gpus=1), runs, runs, most_spot=4) == ["one"]
    assert stopped(stage, spot("x", gpus=3), runs, runs[:1], most_spot=4) == ["three"]
    assert stopped(stage, spot("x", gpus=3), runs, runs[1:], most_spot=4) is None
