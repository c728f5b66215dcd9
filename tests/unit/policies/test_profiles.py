"""Nodes by profile (docs/concepts/how-gfs-decides.md): a search never has very many changed nodes to look at."""

from __future__ import annotations

import pytest
from gfs.policies.gfs.profiles import NodeProfiles, Profile, profile_of

from builders import Stage, spot
from gfs.core.node import Node
from gfs.policies.gfs import profiles


def test_many_changes_are_looked_at_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Node] = []

    def counted(node: Node) -> Profile | None:
        looks.append(node)
        return profile_of(node)

    monkeypatch.setattr(profiles, "MANY", 3)
    monkeypatch.setattr(profiles, "profile_of", counted)
    stage = Stage(*[8] * 10)
    known = NodeProfiles(stage.pool)
    assert known.of_size(8).levels == {}
    for i in range(10):
        stage.holds(f"n{i}", spot(f"s{i}", gpus=8 if i < 4 else 2))
    looks.clear()
    # One task holds all of a node (4 nodes), or two of its cards (6 nodes): one victim frees 8 cards on each.
    groups = known.of_size(8).levels[1]
    assert sorted(len(group.nodes) for group in groups) == [4, 6]
    assert len(looks) <= 3 + 1


def test_so_are_many_nodes_that_lose_their_spot_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ten spot tasks finish. Once four nodes have changed, the next one has them looked at: no more are ever behind.
    monkeypatch.setattr(profiles, "MANY", 3)
    stage = Stage(*[8] * 10)
    runs = [stage.holds(f"n{i}", spot(f"s{i}", gpus=8)) for i in range(10)]
    known = NodeProfiles(stage.pool)
    (group,) = known.of_size(8).levels[1]
    for left, run in zip(range(9, -1, -1), runs, strict=True):
        stage.state.finish(run, 60.0)
        assert len(group.nodes) - left <= 3 + 1
    assert known.of_size(8).levels == {}
