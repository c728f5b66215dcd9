"""Nodes by profile (docs/concepts/how-gfs-decides.md): a search never has very many changed nodes to look at."""

from __future__ import annotations

import pytest

from builders import Stage, spot
from gfs.core.node import Node
from gfs.policies.gfs import profiles
from gfs.policies.gfs.profiles import NodeProfiles, Profile, profile_of


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
