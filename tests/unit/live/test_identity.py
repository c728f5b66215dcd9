"""Names of tasks: which pod continues which task, for how long, and after a restart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from objects import owned, pod

from gfs.live.identity import FORGET, Identities, place_of
from gfs.live.observe import CORE
from gfs.live.settings import LiveSettings
from gfs.live.translate.gangs import NATIVE, GroupName
from gfs.live.translate.pods import RUN, TASK, PodView, read_pod

TEAM = GroupName(NATIVE, "lab", "team")


def view(made: Any) -> PodView:
    return read_pod(made, LiveSettings())


def named(names: Identities, pod: PodView, gang: GroupName | None = None, slot: str = "", at: float = 0.0) -> str:
    return names.name_of(gang, slot if gang is not None else pod.uid, pod, at, lambda name: False)


def has_run(names: Identities, pod: PodView, run: int = 1) -> str:
    """The pod was bound and its run has begun."""
    name = named(names, pod)
    names.adopt(name, place_of(None, pod.uid, pod), 0.0, run, owned=pod.owner is not None)
    return name


def stateful(name: str) -> PodView:
    reference = {"kind": "StatefulSet", "name": "db", "uid": "uid-of-db", "controller": True}
    return view(pod(name, ownerReferences=[reference]))


def indexed(name: str, index: int) -> PodView:
    return view(owned(name, annotations={"batch.kubernetes.io/job-completion-index": str(index)}))


def test_names_of_new_tasks() -> None:
    """A pod is named by itself, by its owner and its place there, or by its group."""
    names = Identities()
    assert named(names, view(pod("alone"))) == "lab/alone"
    assert [named(names, view(owned(f"train-{each}"))) for each in "abc"] == ["lab/train", "lab/train/1", "lab/train/2"]
    assert named(names, stateful("db-0")) == "lab/db/db-0"
    assert named(names, view(pod("m")), TEAM, CORE) == "lab/team"
    assert named(names, view(pod("n")), TEAM, "uid-n") == "lab/team/n"
    assert named(names, indexed("sweep-x", 3)) == "lab/train/3", "pods of an indexed Job have a place each"


def test_a_name_that_pods_of_another_owner_have_gets_a_number() -> None:
    names = Identities()
    assert named(names, indexed("train-x", 0)) == "lab/train/0"
    reference = {"kind": "Job", "name": "train", "uid": "uid-of-another", "controller": True}
    note = {"batch.kubernetes.io/job-completion-index": "0"}
    assert named(names, view(pod("train-z", ownerReferences=[reference], annotations=note))) == "lab/train/0#2"


def test_every_name_is_read_back_from_the_pods_that_are_bound_for_it() -> None:
    names = Identities()
    pods = [view(pod("alone")), view(owned("train-a")), view(owned("train-b")), stateful("db-0"), indexed("sweep-x", 3)]
    note = {"batch.kubernetes.io/job-completion-index": "3"}
    reference = {"kind": "Job", "name": "train", "uid": "uid-of-another", "controller": True}
    pods.append(view(pod("sweep-z", ownerReferences=[reference], annotations=note)))
    for each in pods:
        name = named(names, each)
        again = view(pod("x", nodeName="n1", annotations={TASK: name, RUN: "1"}))
        assert again.bound_as is not None, name
        assert again.bound_as.task == name
    assert any("#" in name for name in names.past)


def test_a_pod_keeps_its_name() -> None:
    names = Identities()
    first, second = view(owned("train-a")), view(owned("train-b"))
    assert [named(names, each) for each in (first, second, first)] == ["lab/train", "lab/train/1", "lab/train"]


def test_a_pod_that_is_created_again_continues_the_task_that_has_been_vacant_longest() -> None:
    names = Identities()
    a, b = view(owned("train-a")), view(owned("train-b"))
    has_run(names, a)
    has_run(names, b, run=3)
    names.vacate("lab/train/1", 10.0)
    names.vacate("lab/train", 20.0)
    again = view(owned("train-c"))
    assert named(names, again, at=30.0) == "lab/train/1"
    assert (names.past["lab/train/1"].runs, names.past["lab/train/1"].submitted) == (3, 0.0), (
        "with its first submission"
    )
    assert named(names, view(owned("train-d"))) == "lab/train"
    assert named(names, view(owned("train-e"))) == "lab/train/2", "no task is vacant"


def test_a_pod_of_a_stateful_set_continues_only_its_own_task() -> None:
    names = Identities()
    for each in ("db-0", "db-1"):
        has_run(names, stateful(each))
        names.vacate(f"lab/db/{each}", 5.0)
    assert named(names, stateful("db-1")) == "lab/db/db-1"
    assert names.past["lab/db/db-0"].left == 5.0


@pytest.mark.parametrize(
    ("made", "runs", "kept"),
    [(owned("p"), 1, True), (owned("p"), 0, False), (pod("p"), 1, False)],
    ids=["ran, with an owner", "never ran", "bare"],
)
def test_a_task_without_pods_is_kept_if_it_ran_and_its_owner_may_create_some(made: Any, runs: int, kept: bool) -> None:
    names = Identities()
    seen = view(made)
    name = has_run(names, seen, runs) if runs else named(names, seen)
    names.vacate(name, 10.0)
    assert (name in names.past) == kept


def test_a_vacant_task_is_forgotten_after_an_hour() -> None:
    names = Identities()
    has_run(names, view(owned("train-a")))
    names.vacate("lab/train", 100.0)
    names.expire(100.0 + FORGET)
    assert "lab/train" in names.past
    names.expire(101.0 + FORGET)
    assert not names.past
    again = view(owned("train-b"))
    assert named(names, again, at=5000.0) == "lab/train"
    assert (names.past["lab/train"].runs, names.past["lab/train"].submitted) == (0, 5000.0), "another task"


def test_a_bare_pod_that_is_created_again_under_its_name_is_another_task() -> None:
    names = Identities()
    has_run(names, view(pod("p")), run=2)
    names.vacate("lab/p", 10.0)
    another = pod("p")
    another["metadata"]["uid"] = "uid-of-another"
    assert named(names, view(another), at=20.0) == "lab/p"
    assert (names.past["lab/p"].runs, names.past["lab/p"].submitted) == (0, 20.0)


def test_a_task_that_has_done_its_work_is_not_continued() -> None:
    names = Identities()
    has_run(names, view(owned("train-a")), run=2)
    names.drop("lab/train")
    assert named(names, view(owned("train-b")), at=7.0) == "lab/train"
    assert names.past["lab/train"].runs == 0
    names.past["lab/train"].runs = 4
    names.renew("lab/train", 9.0)
    assert (names.past["lab/train"].runs, names.past["lab/train"].submitted) == (0, 9.0)


def test_what_is_saved_is_what_is_loaded() -> None:
    """a waits for lab/train, lab/train/1 has been vacant since 10, lab/train/2 since 5: the next pod continues it."""
    names = Identities()
    pods = [view(owned(f"train-{each}")) for each in "abc"]
    for each in pods:
        has_run(names, each)
    names.vacate("lab/train/2", 5.0)
    names.vacate("lab/train/1", 10.0)
    loaded = Identities()
    loaded.load(msgspec.json.decode(msgspec.json.encode(names.save())))
    assert loaded.past == names.past
    assert named(loaded, pods[0]) == "lab/train"
    assert [named(loaded, view(owned(f"train-{each}"))) for each in "xyz"] == [
        "lab/train/2",
        "lab/train/1",
        "lab/train/3",
    ]


@pytest.mark.parametrize("saved", [[], {"lab/p": {"submitted": "soon", "place": ""}}, {"lab/p": 5}])
def test_a_saved_state_that_makes_no_sense_is_an_error(saved: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        Identities().load(saved)


def test_pods_of_two_namespaces_that_name_the_same_owner_are_not_continued_by_each_other() -> None:
    mine, other = view(owned("train-a")), owned("train-a")
    other["metadata"]["namespace"] = "web"
    assert place_of(None, mine.uid, mine) != place_of(None, mine.uid, view(other))
