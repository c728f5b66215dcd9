"""What was sent and does not show yet: bindings hold room, evicted pods are no part of their runs."""

from __future__ import annotations

from typing import Any

import pytest
from objects import node, pod

from gfs.live.mirror import Mirror
from gfs.live.overlay import Overlay
from gfs.live.settings import LiveSettings
from gfs.live.translate.pods import PodView
from gfs.live.translate.quantities import moment

MARK = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


class Cluster:
    """A mirror with one node and one pod, and an overlay."""

    def __init__(self, **made: Any) -> None:
        self.mirror = Mirror(LiveSettings())
        self.wall = moment("2026-01-01T00:00:00Z") or 0.0
        self.overlay = Overlay(self.mirror, lambda: self.wall)
        self.mirror.node_changed(None, node("n1"))
        self._now = pod("p", **made)
        self.mirror.pod_changed(None, self._now)
        self._clean()

    def _clean(self) -> None:
        self.mirror.dirty.clear()
        self.mirror.dirty_nodes.clear()

    @property
    def pod(self) -> PodView:
        return self.mirror.pods["uid-p"]

    def change(self, *, marks: Any = (), **made: Any) -> None:
        before, self._now = self._now, pod("p", **made)
        self._now["status"]["conditions"] = list(marks)
        self.mirror.pod_changed(before, self._now)
        self._clean()
        self.overlay.refresh()


def test_a_binding_holds_room_from_sending_and_counts_as_bound_from_the_answer_on() -> None:
    here = Cluster()
    here.overlay.bind(here.pod, "n1", "lab/p")
    assert [uid for uid, _ in here.overlay.unseen_on("n1")] == ["uid-p"]
    assert (here.overlay.node_of(here.pod), here.overlay.task_of(here.pod)) == ("", "lab/p")
    here.overlay.bound("uid-p")
    assert here.overlay.node_of(here.pod) == "n1"


def test_a_binding_that_shows_is_forgotten() -> None:
    here = Cluster()
    here.overlay.bind(here.pod, "n1", "lab/p")
    here.change(nodeName="n1")
    assert not here.overlay.bindings
    assert not list(here.overlay.unseen_on("n1"))
    assert here.mirror.dirty_nodes == {"n1"}
    assert here.overlay.node_of(here.pod) == "n1"


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "gone"])
def test_the_binding_of_a_pod_that_is_gone_or_deleted_is_forgotten(answered: bool, deleted: bool) -> None:
    """The API server binds no such pod, and a binding that came first would show."""
    here = Cluster()
    here.overlay.bind(here.pod, "n1", "lab/p")
    if answered:
        here.overlay.bound("uid-p")
    if deleted:
        here.change(deletionTimestamp="2026-01-01T00:00:30Z")
    else:
        here.mirror.pod_changed(here._now, None)
        here.overlay.refresh()
    assert not here.overlay.bindings


def test_a_pod_that_is_to_be_evicted_is_no_part_of_its_run_and_leaves_its_room_to_plans() -> None:
    here = Cluster(nodeName="n1", phase="Running")
    assert here.overlay.holds(here.pod)
    here.overlay.evictions["uid-p"] = None
    assert here.overlay.is_evicted(here.pod)
    assert not here.overlay.holds(here.pod)


@pytest.mark.parametrize(
    ("marks", "deleted", "evicted"),
    [([MARK], True, True), ([MARK], False, False), ([], True, False)],
    ids=["marked and deleted", "only marked", "deleted by a user"],
)
def test_an_eviction_shows_on_the_pod(marks: Any, deleted: bool, evicted: bool) -> None:
    """So a restarted controller sees the same: marked as a victim, and deleted."""
    here = Cluster(nodeName="n1", phase="Running")
    more = {"deletionTimestamp": "2026-01-01T00:00:30Z"} if deleted else {}
    here.change(nodeName="n1", phase="Running", marks=marks, **more)
    assert here.overlay.is_evicted(here.pod) == evicted


@pytest.mark.parametrize(
    ("seconds", "holds"),
    [(0, True), (1, False), (61, False), (181, False), (182, True)],
    ids=["gone in 61 s", "gone in a minute", "to be gone now", "late by two minutes", "hangs"],
)
def test_plans_count_on_the_place_of_a_pod_that_is_gone_within_a_minute_until_it_hangs(
    seconds: int, holds: bool
) -> None:
    """It is to be gone at 1:01; from two minutes (`hang_timeout`) after that on it holds its place again."""
    here = Cluster(nodeName="n1", phase="Running")
    here.change(nodeName="n1", phase="Running", deletionTimestamp="2026-01-01T00:01:01Z")
    here.wall += seconds
    assert here.overlay.holds(here.pod) == holds
    assert here.overlay.hangs(here.pod) == (seconds == 182)


def test_an_eviction_that_shows_is_forgotten_and_one_that_is_taken_back_is_looked_at_again() -> None:
    here = Cluster(nodeName="n1", phase="Running")
    here.overlay.evictions["uid-p"] = None
    here.change(nodeName="n1", phase="Running", marks=[MARK])
    assert "uid-p" in here.overlay.evictions
    here.overlay.forget_eviction("uid-p")
    assert (list(here.mirror.dirty), here.mirror.dirty_nodes) == (["uid-p"], {"n1"})
    here.overlay.evictions["uid-p"] = None
    here.change(nodeName="n1", phase="Running", marks=[MARK], deletionTimestamp="2026-01-01T00:00:30Z")
    assert not here.overlay.evictions
    assert here.overlay.is_evicted(here.pod)


def test_an_evicted_pod_that_is_given_up_holds_its_room_until_it_is_gone() -> None:
    here = Cluster(nodeName="n1", phase="Running")
    here.overlay.evictions["uid-p"] = None
    here.overlay.give_up([here.pod])
    assert here.overlay.holds(here.pod)
    assert here.mirror.dirty_nodes == {"n1"}
    here.mirror.pod_changed(here._now, None)
    here.overlay.refresh()
    assert not here.overlay.given_up


def test_the_notes_on_a_bound_pod_say_whose_it_is() -> None:
    notes = {"gfs.dev/task": "lab/train", "gfs.dev/run": "2"}
    here = Cluster(nodeName="n1", annotations=notes)
    assert here.overlay.task_of(here.pod) == "lab/train"
    here = Cluster(nodeName="n1")
    assert here.overlay.task_of(here.pod) == "", "another scheduler bound it"
