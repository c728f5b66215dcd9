"""What users claim in their own favour is bounded, told and counted (docs/concepts/threat-model.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from objects import group, node, owned, pod

from gfs.assembly.parameters import Parameters
from gfs.domain.task import Priority
from gfs.live.api import Api
from gfs.live.controller import Controller
from gfs.live.service import new_scheduler
from gfs.live.settings import LIVE_DEFAULTS, LiveSettings
from gfs.live.tasks import LiveTask
from gfs.live.translate.pods import read_pod
from gfs.live.translate.quantities import moment, rfc3339
from hand import Hand

CREATED = "2026-01-01T00:00:00Z"
NOTES = {"gfs.dev/task": "lab/p", "gfs.dev/run": "3", "gfs.dev/submitted": "2025-12-31T00:00:00Z"}
HP = {"cls": "gfs-hp"}


class SilentApi:
    """Says yes to everything; keeps bindings, events and deletions."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.events: list[tuple[str, str]] = []
        self.deleted: list[tuple[str, int | None]] = []

    async def bind(self, namespace: str, name: str, uid: str, node: str, notes: dict[str, str]) -> None:
        self.bound.append((name, node))

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.events.append((body["reason"], body["message"]))
        return {}

    async def delete(self, path: str, *, uid: str = "", grace: int | None = None) -> dict[str, Any]:
        self.deleted.append((uid, grace))
        return {}

    async def patch(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}


class Play:
    """A controller with one node of eight GPUs, and what it did."""

    def __init__(self, **settings: Any) -> None:
        self.api = SilentApi()
        self.settings, hand = LiveSettings(burst=0.0, **settings), Hand()
        self.controller = Controller(
            cast(Api, self.api), self.settings, tick=300.0, guarantee_hours=1.0, checkpoint_interval=3600.0,
            clock=hand, monotonic=hand,
        )  # fmt: skip
        self.cluster = self.controller.cluster
        self.cluster.node_changed(None, node("n1", gpus=8))

    async def show(self, *pods: Any) -> None:
        for each in pods:
            self.cluster.pod_changed(None, each)
        for _ in range(2):
            self.controller.step()
            await self.controller.settle()

    def task(self, name: str) -> LiveTask:
        return self.controller.book.by_name[name]

    @property
    def doubted(self) -> dict[str, int]:
        return dict(self.controller.intake.doubted)


def play(story: Callable[[Play], Any], **settings: Any) -> None:
    async def main() -> None:
        here = Play(**settings)
        here.controller.begin(new_scheduler(here.settings, Parameters(**{**LIVE_DEFAULTS, "quota": "none"})))
        await story(here)

    asyncio.run(main())


# -- checkpoints, guarantee, grace ---------------------------------------------------------------------------


def test_a_long_checkpoint_interval_counts_as_the_longest_that_is_believed() -> None:
    """Who saves every 400 days would lose everything and be evicted last: it counts as 4 h."""

    async def story(here: Play) -> None:
        await here.show(pod("p", annotations={"gfs.dev/checkpoint-interval": "400d"}))
        task = here.task("lab/p").task
        assert task is not None
        assert task.checkpoint_interval == 14400.0
        assert here.doubted == {"checkpoint-interval": 1}
        said = "gfs.dev/checkpoint-interval = '400d': counts as 14400 s, the longest that is believed"
        assert ("ClaimNotBelieved", said) in here.api.events

    play(story)


def test_a_guarantee_that_is_not_offered_is_not_given() -> None:
    async def story(here: Play) -> None:
        await here.show(pod("p", annotations={"gfs.dev/guaranteed-duration": "168h"}))
        task = here.task("lab/p").task
        assert task is not None
        assert task.guarantee_hours == 1.0
        assert here.doubted == {"guarantee": 1}

    play(story)


def test_checkpoints_that_are_yet_to_come_are_not_believed() -> None:
    async def story(here: Play) -> None:
        await here.show(pod("p"))
        bound = pod("p", nodeName="n1", phase="Running")
        await here.show(bound)
        run = next(iter(here.controller.scheduler.pools["A100"].state.runs.values()))
        began = run.progress_from
        soon = rfc3339(here.controller.clock.now() + 3600)
        await here.show(pod("p", nodeName="n1", phase="Running", annotations={"gfs.dev/last-checkpoint-time": soon}))
        assert run.progress_from == began
        assert here.doubted == {"last-checkpoint": 1}
        long_ago = {"gfs.dev/last-checkpoint-time": "1999-01-01T00:00:00Z"}
        await here.show(pod("p", nodeName="n1", phase="Running", annotations=long_ago))
        assert run.progress_from == began, "before it ran: it has lost nothing yet that it could lose"

    play(story)


@pytest.mark.parametrize(("cls", "grace"), [("gfs-spot", 600), ("gfs-hp", None)])
def test_a_victim_gets_no_more_than_the_longest_grace(cls: str, grace: int | None) -> None:
    """A spot pod that wants ten days to stop would keep HP waiting for ten days; HP itself is never evicted."""

    async def story(here: Play) -> None:
        await here.show(pod("slow", gpus=8, cls=cls, terminationGracePeriodSeconds=864_000))
        await here.show(pod("slow", gpus=8, cls=cls, terminationGracePeriodSeconds=864_000, nodeName="n1"))
        await here.show(pod("urgent", gpus=8, cls="gfs-hp"))
        assert here.api.deleted == ([("uid-slow", grace)] if grace else [])
        assert here.doubted == ({"grace": 1} if grace else {})

    play(story)


def test_ordinary_grace_is_the_pods_own() -> None:
    async def story(here: Play) -> None:
        await here.show(pod("p", gpus=8, terminationGracePeriodSeconds=60))
        await here.show(pod("p", gpus=8, terminationGracePeriodSeconds=60, nodeName="n1"))
        await here.show(pod("urgent", gpus=8, cls="gfs-hp"))
        assert here.api.deleted == [("uid-p", None)]
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
        here.cluster.namespace_changed(None, {"metadata": metadata})
        await here.show(pod("p", labels={"gfs.dev/organization": claimed} if claimed else {}))
        task = here.task("lab/p").task
        assert task is not None
        assert task.organization == whose
        assert here.doubted == ({"organization": 1} if claimed and claimed != whose else {})

    play(story, organization_claims=claims)


# -- notes of the scheduler ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notes", "bound", "believed"),
    [
        (NOTES, True, True),
        (NOTES, False, False),
        ({**NOTES, "gfs.dev/task": "web/service"}, True, False),
        ({**NOTES, "gfs.dev/task": "lab/\x1b[2J"}, True, False),
        ({**NOTES, "gfs.dev/task": "lab/" + "x" * 700}, True, False),
        ({**NOTES, "gfs.dev/run": "-1"}, True, False),
        ({"gfs.dev/submitted": "1970-01-01T00:00:00Z"}, False, False),
    ],
    ids=["bound", "not bound", "a neighbour's", "escape", "long", "no run", "alone"],
)
def test_notes_are_believed_of_bound_pods_of_the_same_namespace(notes: Any, bound: bool, believed: bool) -> None:
    view = read_pod(pod("p", annotations=notes, **({"nodeName": "n1"} if bound else {})), LiveSettings())
    assert (view.bound_as is not None) == believed
    assert [doubt.claim for doubt in view.doubts] == ([] if believed else ["task"])


def test_a_forged_submission_time_wins_no_place_in_the_queue() -> None:
    """Both ask for all GPUs; the forger came later. 30 days before its creation is the most a bound pod may claim."""

    async def story(here: Play) -> None:
        forged = {"gfs.dev/submitted": "1970-01-01T00:00:00Z", "gfs.dev/task": "lab/forger", "gfs.dev/run": "1"}
        first, late = pod("first", gpus=8, **HP), pod("forger", gpus=8, created="2026-01-02T00:00:00Z", **HP)
        late["metadata"]["annotations"] = forged
        await here.show(late, first)
        assert here.api.bound == [("first", "n1")]
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
    async def story(here: Play) -> None:
        service = owned("service", owner="train", cls="gfs-hp", gpus=2)
        thief = owned("thief", owner="train", gpus=2)
        thief["metadata"]["namespace"] = "web"
        await here.show(service)
        here.cluster.pod_changed(service, None)  # its place is free
        await here.show(thief)
        task = here.task("web/train").task
        assert task is not None
        assert task.priority is Priority.SPOT
        assert list(here.task("web/train").key[:3]) == ["owned", "web", "uid-of-train"]

    play(story)


def test_a_pod_of_the_same_owner_that_asks_for_something_else_is_another_task() -> None:
    """The first was evicted and waits to come back. What comes instead is not placed by what that asked for."""

    async def story(here: Play) -> None:
        here.cluster.node_changed(None, node("n2", gpus=8, labels={"zone": "b"}))
        first = owned("train-1", gpus=2)
        await here.show(first)
        placed = owned("train-1", gpus=2, nodeName=here.api.bound[0][1], phase="Running")
        await here.show(placed)
        here.controller.book.by_name["lab/train"].offset = 1
        here.cluster.pod_changed(placed, None)
        await here.show(owned("train-2", gpus=2, nodeSelector={"zone": "b"}))
        assert here.api.bound[-1] == ("train-2", "n2")

    play(story)


def test_pods_of_one_gang_are_of_one_class() -> None:
    async def story(here: Play) -> None:
        here.cluster.group_changed(None, group("team", 2))
        member = {"schedulingGroup": {"podGroupName": "team"}}
        await here.show(pod("a", **member), pod("b", cls="gfs-hp", **member))
        assert "something else than the other pods" in here.controller.book.refused["uid-b"]

    play(story)


def test_no_pool_is_made_for_a_model_that_somebody_invents() -> None:
    """Each pool has figures of its own: their number must not be up to users."""

    async def story(here: Play) -> None:
        await here.show(*(pod(f"p{i}", nodeSelector={"nvidia.com/gpu.product": f"M{i}"}) for i in range(20)))
        assert list(here.controller.scheduler.pools) == ["A100"]
        assert here.controller.book.refused["uid-p7"] == "no node has GPU model M7"
        here.cluster.node_changed(None, node("n7", gpus=8, model="M7"))
        await here.show()
        assert here.api.bound == [("p7", "n7")]

    play(story)


def test_thousands_of_pods_of_one_owner_are_found_in_one_look_each() -> None:
    """Counted in looks at tasks, not in seconds: 3,000 pods cost as many, not 3,000 x 3,000 / 2."""

    class Counting(dict[Any, Any]):
        looks = 0

        def get(self, key: Any, default: Any = None) -> Any:
            Counting.looks += 1
            return super().get(key, default)

    async def story(here: Play) -> None:
        here.controller.book.by_key = Counting()
        for number in range(3000):
            here.cluster.pod_changed(None, owned(f"p{number}", gpus=1))
        here.controller.intake.take(here.controller.clock.now())
        assert len(here.controller.book.by_key) == 3000
        assert Counting.looks < 4 * 3000

    play(story)


# -- fairness ------------------------------------------------------------------------------------------------


def test_budgets_can_be_left_out_of_account() -> None:
    async def story(here: Play) -> None:
        keep = {"metadata": {"namespace": "lab", "name": "keep"}, "spec": {"selector": {}}}
        here.cluster.budget_changed(None, {**keep, "status": {"disruptionsAllowed": 0}})
        await here.show(pod("p"))
        await here.show(pod("p", nodeName="n1", phase="Running"))
        assert bool(here.controller.scheduler.pools["A100"].state.pool.protected) == here.settings.honour_budgets

    play(story)
    play(story, honour_budgets=False)


def test_a_crowd_of_newcomers_is_told_after_the_first_of_every_other_namespace() -> None:
    async def story(here: Play) -> None:
        book, cluster = here.controller.book, here.cluster
        for number in range(3000):
            cluster.pod_changed(None, pod(f"crowd-{number}", gpus=9))
        late = pod("late", gpus=9)
        late["metadata"]["namespace"] = "web"
        cluster.pod_changed(None, late)
        here.controller.intake.take(here.controller.clock.now())
        first = here.controller.explainer._newcomers()
        assert len(first) == 1000
        assert first[1] == "uid-late"
        assert len(book.unsaid) == 2001

    play(story)


def test_labels_that_no_node_has_tell_no_nodes_apart() -> None:
    """However many pods ask for a new one each, nothing is computed again; for one that a node has, that node is."""

    async def story(here: Play) -> None:
        here.cluster.node_changed(None, node("n2", labels={"rack": "r1"}))
        await here.show()
        for i in range(3):
            here.controller.census.ask(frozenset({f"nobody-{i}"}))
        assert not here.cluster.changed_nodes
        here.controller.census.ask(frozenset({"rack"}))
        assert here.cluster.changed_nodes == {"n2"}

    play(story)
