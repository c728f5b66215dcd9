"""Which runs of a group go together: by its disruption mode, or if less than its minimum would be left."""

from __future__ import annotations

from typing import Any

import pytest
from objects import group, node, pod
from story import bound, in_team, play, state

from fake_cluster import FakeServer, Replica

ALL, SINGLE = {"disruptionMode": {"all": {}}}, {"disruptionMode": {"single": {}}}


def basic(**spec: Any) -> dict[str, Any]:
    """A group without a minimum."""
    made = group("team", 1, **spec)
    made["spec"]["schedulingPolicy"] = {"basic": {}}
    return made


@pytest.mark.parametrize(
    ("made", "pods", "together"),
    [
        (group("team", 2, **ALL), 4, 3),
        (basic(**ALL), 3, 3),
        (basic(**SINGLE), 3, 0),
        (basic(), 3, 0),
        (group("team", 2), 3, 1),
        (group("team", 2), 4, 0),
        (group("team", 3), 4, 1),
    ],
    ids=[
        "all: the minimum of 2 and 2 more are 3 runs", "basic and all", "basic and single", "basic",
        "minimum 2 of 3: without the 2 one is left", "minimum 2 of 4: two are left in any case",
        "minimum 3 of 4: without the 3 one is left, without the one three",
    ],
)  # fmt: skip
def test_how_many_runs_go_only_with_all_others(made: dict[str, Any], pods: int, together: int) -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(made)
        for number in range(pods):
            server.put_pod(in_team(f"p{number}"))
        await replica.rest()
        server.start_bound()
        await replica.rest()
        assert len(server.bound) == pods
        rules = state(replica).pool.together
        assert len(rules) == together
        assert all(set(each) == set(state(replica).runs.values()) for each in rules.values())

    play(story, node("n1"))


def test_rules_follow_the_pods_of_a_group() -> None:
    """Minimum 2 of 4 pods: no run takes others along. One pod finishes: the two of the minimum take the third along."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for number in range(4):
            server.put_pod(in_team(f"p{number}"))
        await replica.rest()
        server.start_bound()
        await replica.rest()
        assert not state(replica).pool.together
        server.set_phase("lab/p3", "Succeeded")
        await replica.rest()
        assert len(state(replica).pool.together) == 1

    play(story, node("n1"))


def test_rules_follow_the_labels_of_pods() -> None:
    """A budget covers a pod from the moment on that it has the label."""

    async def story(server: FakeServer, replica: Replica) -> None:
        spec = {"selector": {"matchLabels": {"app": "train"}}}
        server.put_budget(
            {"metadata": {"name": "keep", "namespace": "lab"}, "spec": spec, "status": {"disruptionsAllowed": 0}}
        )
        server.put_pod(bound("a", labels={"app": "other"}))
        await replica.rest()
        assert not state(replica).pool.protected
        changed = server.pods["lab/a"]
        server.put_pod({**changed, "metadata": {**changed["metadata"], "labels": {"app": "train"}}})
        await replica.rest()
        assert state(replica).pool.protected == set(state(replica).runs.values())

    play(story)


def test_hp_takes_the_whole_of_a_group_that_goes_together() -> None:
    """A group in mode `all` holds 2 + 2 of 8 GPUs. HP of 6 needs two of them: one pod would do, and both go."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(basic(**ALL))
        for name in "ab":
            server.put_pod(in_team(name, 2))
        await replica.rest()
        server.start_bound()
        await replica.rest()
        server.put_pod(pod("urgent", gpus=6, cls="gfs-hp"))
        await replica.rest()
        assert sorted(server.deleted) == ["a", "b"]

    play(story, node("n1"))


def test_only_spot_runs_have_rules() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2, **ALL))
        for name in "abc":
            server.put_pod(in_team(name, cls="gfs-hp"))
        await replica.rest()
        assert len(state(replica).runs) == 2
        assert not state(replica).pool.together

    play(story, node("n1"))
