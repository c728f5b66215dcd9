"""A trial that is rolled back leaves no trace, whatever was tried on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import among

from builders import Draft, Stage
from gfs import Priority
from gfs.core.events import NodeChange, NodeChangeKind
from gfs.core.invariants import check_pool
from gfs.core.node import Node
from gfs.core.pool import Pool
from gfs.core.trial import Trial
from gfs.policies.gfs.scoring import GfsPlacer

SLOTS = {name for kind in Node.__mro__ for name in getattr(kind, "__slots__", ())}
SIZES = [0.1, 0.3, 1 / 3, 0.5, 0.9, 1, 1, 2, 4, 8]
LOOKED_AT = [Draft("x", priority, gpus) for priority in Priority for gpus in (0.2, 0.5, 1, 2, 4, 8)]


def snapshot(pool: Pool) -> dict[str, Any]:
    """Every count of a pool and its nodes, by value."""
    nodes = [{name: _copied(getattr(node, name)) for name in SLOTS - {"spec"}} for node in pool.nodes]
    fields = set(Pool.__slots__) - {"nodes", "listeners", "_changed"}
    counts = {name: _copied(getattr(pool, name)) for name in fields}
    counts["spot_in_use"] = {hours: micro for hours, micro in pool.spot_in_use.items() if micro}
    return {"nodes": nodes, **counts}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return type(value)(value) if isinstance(value, list | set) else value


@st.composite
def busy_stages(draw: st.DrawFn) -> Stage:
    """A pool with random HP and spot runs on it, gangs and fractions among them; nodes may hold more than they have."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=5))
    stage = Stage(*sizes)
    stage.runs = []
    for number in range(draw(st.integers(0, 14))):
        draft = Draft(
            f"t{number}",
            draw(among(*Priority)),
            draw(among(*SIZES)),
            draw(st.integers(1, 3)),
            hours=draw(among(1, 2)),
        )
        task, trial = draft.task(number), Trial(stage.pool)
        names = []
        for _ in range(draft.pods):
            options = [node for node in stage.pool.nodes if has_room(node, draft)]
            if not options:
                break
            node = draw(st.sampled_from(options))
            trial.place(node, task)
            names.append(node.name)
        trial.rollback()
        if len(names) == draft.pods:
            run = stage.spread(names, draft)
            if run.task.is_spot:
                stage.runs.append(run)
    if draw(st.booleans()):
        get_smaller(stage, [draw(st.integers(1, node.total)) for node in stage.pool.nodes])
    return stage


def get_smaller(stage: Stage, sizes: Sequence[int]) -> None:
    """Nodes lose cards, whatever is held there."""
    specs = [replace(node.spec, gpus=size) for node, size in zip(stage.pool.nodes, sizes, strict=True)]
    stage.state.change_nodes([NodeChange(NodeChangeKind.RESIZED, spec) for spec in specs], 0.0)
    stage.state.rebuild()


def has_room(node: Node, draft: Draft) -> bool:
    if draft.gpus >= 1:
        return node.idle >= draft.gpus
    return node.slot_for(draft.task().share) is not None


@settings(max_examples=200)
@given(stage=busy_stages(), data=st.data())
def test_rollback_restores_every_field(stage: Stage, data: st.DataObject) -> None:
    pool, placer = stage.pool, GfsPlacer(stage.state)
    check_pool(pool)
    before = snapshot(pool)
    asked = [draft.task() for draft in LOOKED_AT if draft.gpus <= pool.sizes[-1]]
    chosen_before = [placer.choose(wish) for wish in asked]
    tried = Draft("h", Priority.HP, data.draw(among(*SIZES)), pods=8)
    trial, task, victims = Trial(pool), tried.task(99), list(stage.runs)
    for _ in range(data.draw(st.integers(1, 8))):
        options = [node for node in pool.nodes if has_room(node, tried)]
        if victims and (not options or data.draw(st.booleans())):
            trial.evict(victims.pop(data.draw(st.integers(0, len(victims) - 1))))
        elif options:
            trial.place(data.draw(st.sampled_from(options)), task)
    if trial.pods or trial.evicted:
        assert snapshot(pool) != before, "a trial that changes nothing proves nothing"
    trial.rollback()
    assert snapshot(pool) == before
    assert [placer.choose(wish) for wish in asked] == chosen_before, "the index must roll back too"
    check_pool(pool)


@settings(max_examples=100)
@given(stage=busy_stages())
def test_a_committed_eviction_frees_exactly_the_cards_of_the_run(stage: Stage) -> None:
    pool, trial = stage.pool, Trial(stage.pool)
    for run in stage.runs:
        held_before = pool.spot_held(0)
        trial.evict(run)
        assert held_before - pool.spot_held(0) == sum(pods * role.micro_per_pod for _, role, pods, _ in run.places)
    trial.commit()
    assert all(node.spot_cards == 0 and node.hp_free == node.total - node.hp_cards for node in pool.nodes)
    check_pool(pool)
