"""Leases that end now: which runs may stop (docs/schedulers/chronus.md)."""

from __future__ import annotations

from builders import Stage, hp, spot
from gfs.policies.chronus.placement import EndingLeases
from gfs.policies.chronus.program import shape_of


def test_no_more_runs_of_a_shape_stop_than_the_round_leaves_without_a_lease() -> None:
    stage = Stage(8, 8)
    small = [stage.holds("n0", spot(f"s{i}", gpus=1)) for i in range(3)]
    large = [stage.holds("n1", spot(f"l{i}", gpus=4)) for i in range(2)]
    kept = stage.holds("n0", hp("h", gpus=1))
    shapes = {run: shape_of(run.task, resources=False) for run in (*small, *large)}
    ending = EndingLeases(shapes, {shapes[small[0]]: 2, shapes[large[0]]: 1})
    # Two of three small ones and one of two large ones, in the order given; the lease of h goes on.
    assert ending.stoppable([kept, *small, *large]) == [small[0], small[1], large[0]]
    assert ending.stoppable(reversed(small)) == [small[2], small[1]]
    assert ending.counted_for(1.0) == [*small, *large]  # fewest GPUs first
    assert ending.counted_for(2.0) == []  # their guarantee is one hour
    ending.change(large[0], -1)
    assert ending.stoppable([*large, *small]) == [small[0], small[1]]
    ending.change(large[0], +1)
    assert ending.stoppable(large) == [large[0]]
