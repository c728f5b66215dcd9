"""What users claim in their own favour is bounded, told and counted (docs/concepts/threat-model.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from objects import group, node, owned, pod

from fake_cluster import FakeServer, Replica
from gfs.domain.task import Priority, Task
from gfs.live.settings import LiveSettings
from gfs.live.translate.pods import read_pod
from gfs.live.translate.quantities import moment, rfc3339
from gfs.live.translate.shape import Json

CREATED = "2026-01-01T00:00:00Z"
NOTES = {"gfs.dev/task": "lab/p", "gfs.dev/run": "3", "gfs.dev/submitted": "2025-12-31T00:00:00Z"}
HP = {"cls": "gfs-hp"}


class Play:
    """A controller with one node of eight GPUs, and what it did."""

    def __init__(self, **settings: Any) -> None:
        self.server, self.settings = FakeServer(), LiveSettings(burst=0.0, **settings)
        self.server.put_node(node("n1", gpus=8))
        self.replica = Replica(self.server, self.settings)
        self.controller = self.replica.controller

    async def show(self, *pods: Json) -> None:
        for each in pods:
            self.server.put_pod(each)
        await self.replica.rest()

    async def run(self, *pods: Json) -> None:
        """Let pods come, be bound and start."""
        await self.show(*pods)
        self.server.start_bound()
        await self.replica.rest()

    async def annotate(self, name: str, **notes: str) -> None:
        """Write `gfs.dev/last-checkpoint-time` and the like on a pod."""
        there = self.server.pods[f"lab/{name}"]
        metadata = there["metadata"]
        written = {f"gfs.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
        annotations = {**metadata.get("annotations", {}), **written}
        await self.show({**there, "metadata": {**metadata, "annotations": annotations}})

    def task(self, name: str) -> Task:
        task = self.controller.book.by_name[name].task
        assert task is not None
        return task

    def waits(self, name: str) -> str:
        return self.controller.book.waits[self.replica.uid(name)].text

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(each["reason"], each["message"]) for each in self.server.events]

    @property
    def doubted(self) -> dict[str, int]:
        return dict(self.controller.claims.doubted)


def play(story: Callable[[Play], Any], **settings: Any) -> None:
    async def main() -> None:
        await story(Play(**settings))

    asyncio.run(main())


# -- checkpoints, guarantee, grace ---------------------------------------------------------------------------


def test_a_long_checkpoint_interval_counts_as_the_longest_that_is_believed() -> None:
    """Who saves every 400 days would lose everything and be evicted last: it counts as 4 h."""

    async def story(here: Play) -> None:
        await here.show(pod("p", annotations={"gfs.dev/checkpoint-interval": "400d"}))
        task = here.task("lab/p")
        assert task.checkpoint_interval == 14400.0
        assert here.doubted == {"checkpoint-interval": 1}
        said = "gfs.dev/checkpoint-interval = '400d': counts as 14400 s, the longest that is believed"
        assert ("ClaimNotBelieved", said) in here.events

    play(story)


def test_a_guarantee_that_is_not_offered_is_not_given() -> None:
    async def story(here: Play) -> None:
        await here.show(pod("p", annotations={"gfs.dev/guaranteed-duration": "168h"}))
        task = here.task("lab/p")
        assert task.guarantee_hours == 1.0
        assert here.doubted == {"guarantee": 1}

    play(story)


def test_checkpoints_that_are_yet_to_come_are_not_believed() -> None:
    async def story(here: Play) -> None:
        await here.run(pod("p"))
        (run,) = here.controller.scheduler.pools["A100"].state.runs.values()
        began = run.progress_from
        await here.annotate("p", last_checkpoint_time=rfc3339(here.controller.clock.now() + 3600))
        assert run.progress_from == began
        assert here.doubted == {"last-checkpoint": 1}
        await here.annotate("p", last_checkpoint_time="1999-01-01T00:00:00Z")
        assert run.progress_from == began, "before it ran: it has lost nothing yet that it could lose"

    play(story)


def test_a_checkpoint_counts_as_progress_from_when_it_was_saved() -> None:
    """Saved 100 s after the start: an eviction at 130 s loses 30 s."""

    async def story(here: Play) -> None:
        await here.run(pod("p"))
        (run,) = here.controller.scheduler.pools["A100"].state.runs.values()
        began, hand = run.progress_from, here.server.hand
        hand.at = 130.0
        await here.annotate("p", last_checkpoint_time=rfc3339(began + 100))
        assert run.progress_from == began + 100
        assert not here.doubted

    play(story)


@pytest.mark.parametrize(("cls", "grace"), [("gfs-spot", 600), ("gfs-hp", None)])
def test_a_victim_gets_no_more_than_the_longest_grace(cls: str, grace: int | None) -> None:
    """A spot pod that wants ten days to stop would keep HP waiting for ten days; HP itself is never evicted."""

    async def story(here: Play) -> None:
        await here.run(pod("slow", gpus=8, cls=cls, terminationGracePeriodSeconds=864_000))
        await here.show(pod("urgent", gpus=8, cls="gfs-hp"))
        assert here.server.graces == ({"slow": grace} if grace else {})
        assert here.doubted == ({"grace": 1} if grace else {})

    play(story)


def test_ordinary_grace_is_the_pods_own() -> None:
    async def story(here: Play) -> None:
        await here.run(pod("p", gpus=8, terminationGracePeriodSeconds=60))
        await here.show(pod("urgent", gpus=8, cls="gfs-hp"))
        assert here.server.graces == {"p": None}
        assert not here.doubted

    play(story)


# -- organization --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "listed", "claims", "claimed", "whose"),
    [
        ("", "", True, "search", "search"),
        ("", "", False, "search", "lab"),
        ("house", "", True, "search", "house"),
        ("house", "search, ads", True, "search", "search"),
        ("house", "ads", True, "search", "house"),
        ("", "ads", True, "search", "lab"),
        ("", "ads", False, "ads", "ads"),
        ("house", "", True, "", "house"),
    ],
)
def test_whose_pod_it_is_says_the_namespace(label: str, listed: str, claims: bool, claimed: str, whose: str) -> None:
    async def story(here: Play) -> None:
        metadata = {"name": "lab", "labels": {"gfs.dev/organization": label} if label else {}}
        metadata["annotations"] = {"gfs.dev/organizations": listed} if listed else {}
        here.server.put_namespace({"metadata": metadata})
        await here.show(pod("p", labels={"gfs.dev/organization": claimed} if claimed else {}))
        task = here.task("lab/p")
        assert task.organization == whose
        assert here.doubted == ({"organization": 1} if claimed and claimed != whose else {})

    play(story, organization_claims=claims)


# -- notes of the scheduler ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notes", "bound", "believed"),
    [
        (NOTES, True, True),
        ({**NOTES, "gfs.dev/task": "lab/train/0#2"}, True, True),
        ({**NOTES, "gfs.dev/task": "lab/train~2"}, True, False),
        (NOTES, False, False),
        ({**NOTES, "gfs.dev/task": "web/service"}, True, False),
        ({**NOTES, "gfs.dev/task": "lab/\x1b[2J"}, True, False),
        ({**NOTES, "gfs.dev/task": "lab/" + "x" * 700}, True, False),
        ({**NOTES, "gfs.dev/run": "-1"}, True, False),
        ({"gfs.dev/submitted": "1970-01-01T00:00:00Z"}, False, False),
    ],
    ids=["bound", "second of a name", "of the log", "not bound", "a neighbour's", "escape", "long", "no run", "alone"],
)
def test_notes_are_believed_of_bound_pods_of_the_same_namespace(notes: Any, bound: bool, believed: bool) -> None:
    view = read_pod(pod("p", annotations=notes, **({"nodeName": "n1"} if bound else {})), LiveSettings())
    assert (view.bound_as is not None) == believed
    assert [doubt.claim for doubt in view.doubts] == ([] if believed else ["task"])


def test_a_forged_submission_time_wins_no_place_in_the_queue() -> None:
    """Both ask for all GPUs; the forger came later. 30 days before its creation is the most a bound pod may claim."""

    async def story(here: Play) -> None:
        forged = {"gfs.dev/submitted": "1970-01-01T00:00:00Z", "gfs.dev/task": "lab/forger", "gfs.dev/run": "1"}
        here.server.put_pod(pod("first", gpus=8, **HP))
        here.server.hand.at += 60.0
        await here.show(pod("forger", gpus=8, annotations=forged, **HP))
        assert here.server.bound == [("first", "n1")]
        assert here.doubted == {"task": 1}

    play(story)
    bound = read_pod(
        pod("p", annotations={**NOTES, "gfs.dev/submitted": "1990-01-01T00:00:00Z"}, nodeName="n1"), LiveSettings()
    )
    assert bound.bound_as is not None
    assert bound.bound_as.submitted == (moment(CREATED) or 0.0) - 30 * 86400
    assert [doubt.claim for doubt in bound.doubts] == ["submitted"]


def test_a_forged_run_number_spares_nobody() -> None:
    """gfs-plus spares who was stopped twelve times; a note of run 500 is found after a restart as run 11."""

    async def story(here: Play) -> None:
        await here.show(pod("p", nodeName="n1", phase="Running", annotations={**NOTES, "gfs.dev/run": "500"}))
        (run,) = here.controller.scheduler.pools["A100"].state.runs.values()
        assert run.number == 11

    play(story)


# -- owners and groups ---------------------------------------------------------------------------------------


def test_a_pod_does_not_become_that_of_a_neighbour_by_naming_its_owner() -> None:
    """The service has run and its place is vacant; a pod of another namespace that names the same owner is new."""

    async def story(here: Play) -> None:
        await here.run(owned("service", owner="train", cls="gfs-hp", gpus=2))
        here.server.set_phase("lab/service", "Failed")
        here.server.remove_pod("lab/service")
        thief = owned("thief", owner="train", gpus=2)
        thief["metadata"]["namespace"] = "web"
        await here.show(thief)
        task = here.task("web/train")
        assert (task.priority, task.earlier_runs) == (Priority.SPOT, 0)
        assert here.controller.identities.past["lab/train"].left is not None

    play(story)


def test_a_pod_of_the_same_owner_that_asks_for_something_else_is_placed_by_what_it_asks_for() -> None:
    async def story(here: Play) -> None:
        here.server.put_node(node("n2", gpus=8, labels={"zone": "b"}))
        await here.run(owned("train-1", gpus=2))
        here.server.set_phase("lab/train-1", "Failed")
        here.server.remove_pod("lab/train-1")
        await here.show(owned("train-2", gpus=2, nodeSelector={"zone": "b"}))
        assert here.server.bound[-1] == ("train-2", "n2")

    play(story)


def test_pods_of_one_gang_are_of_one_class() -> None:
    async def story(here: Play) -> None:
        here.server.put_group(group("team", 2))
        member = {"schedulingGroup": {"podGroupName": "team"}}
        await here.show(pod("a", **member), pod("b", cls="gfs-hp", **member))
        assert "something else than the other pods" in here.waits("b")

    play(story)


def test_no_pool_is_made_for_a_model_that_a_user_invents() -> None:
    """Each pool has figures of its own: their number must not be up to users."""

    async def story(here: Play) -> None:
        await here.show(*(pod(f"p{i}", nodeSelector={"nvidia.com/gpu.product": f"M{i}"}) for i in range(20)))
        assert list(here.controller.scheduler.pools) == ["A100"]
        assert here.waits("p7") == "no node has GPU model M7"
        here.server.put_node(node("n7", gpus=8, model="M7"))
        await here.show()
        assert here.server.bound == [("p7", "n7")]

    play(story)


# -- fairness ------------------------------------------------------------------------------------------------


def test_budgets_can_be_left_out_of_account() -> None:
    async def story(here: Play) -> None:
        keep = {"metadata": {"namespace": "lab", "name": "keep"}, "spec": {"selector": {}}}
        here.server.put_budget({**keep, "status": {"disruptionsAllowed": 0}})
        await here.run(pod("p"))
        assert bool(here.controller.scheduler.pools["A100"].state.pool.protected) == here.settings.honour_budgets

    play(story)
    play(story, honour_budgets=False)


def test_a_crowd_of_newcomers_is_told_after_the_first_of_every_other_namespace() -> None:
    """3,001 pods, of which 1,000 are told in a second: the one of the other namespace is the second."""

    async def story(here: Play) -> None:
        for number in range(3000):
            here.server.put_pod(pod(f"crowd-{number}", gpus=9, cls="unknown"))
        late = pod("late", gpus=9, cls="unknown")
        late["metadata"]["namespace"] = "web"
        uid = here.server.pods[here.server.put_pod(late)]["metadata"]["uid"]
        here.replica.show()
        for key in here.controller.mirror.dirty:
            here.controller.book.reconcile(key, here.controller.clock.now())
        assert here.controller.explainer._newcomers()[1] == uid
        here.controller.explainer.look(here.controller.scheduler)
        told = {each for each in here.controller.mirror.pods if here.controller.pod_events.why(each)}
        assert len(told) == 1000
        assert uid in told
        assert len(here.controller.book.unexplained) == 2001

    play(story)


def test_labels_that_no_node_has_tell_no_nodes_apart() -> None:
    """However many pods ask for a new one each, nothing is computed again; for one that a node has, that node is."""

    async def story(here: Play) -> None:
        here.server.put_node(node("n2", labels={"rack": "r1"}))
        await here.show()
        nodes, mirror = here.controller.nodes, here.controller.mirror
        for i in range(3):
            nodes.ask(frozenset({f"nobody-{i}"}))
        assert not mirror.dirty_nodes
        nodes.ask(frozenset({"rack"}))
        assert mirror.dirty_nodes == {"n2"}

    play(story)
