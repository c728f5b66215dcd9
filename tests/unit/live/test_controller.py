"""The controller on a cluster in memory: what is seen, in whatever batches, leads to the right bindings."""

from __future__ import annotations

import asyncio
import copy
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from objects import group, node, owned, pod
from story import bound, condition, in_team, play, runs, state

from fake_cluster import FakeServer, Replica
from gfs.live.problems import Unavailable
from gfs.live.shadow import Shadow
from gfs.live.table import Phase
from gfs.live.translate.gangs import PLUGIN
from gfs.live.translate.shape import Json

URGENT = {"gpus": 4, "cls": "gfs-hp"}


def test_the_room_of_a_pod_that_went_before_its_binding_was_seen_is_free() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        first = server.put_pod(pod("first", **URGENT))
        await replica.step()
        server.put_pod(pod("second", gpus=4))
        server.remove_pod(first)
        await replica.rest()
        assert server.bound == [("first", "n1"), ("second", "n1")]

    play(story)


def test_a_bound_pod_that_goes_before_it_is_adopted_is_passed_over() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.remove_pod(server.put_pod(bound("there", gpus=4)))
        server.put_pod(pod("next", gpus=4))
        await replica.step()
        assert server.bound == [("next", "n1")]

    play(story)


def test_what_a_shadow_planned_and_another_scheduler_bound_is_a_run() -> None:
    shadow = Shadow()

    async def story(server: FakeServer, replica: Replica) -> None:
        first = server.put_pod(pod("first", gpus=4))
        await replica.step()
        server.bind_by_hand(first, "n1")
        server.start_bound()
        await replica.step()
        server.put_pod(pod("urgent", **URGENT))
        await replica.step()
        assert not server.bound
        assert not server.asked, "a shadow writes nothing"
        assert (shadow.summary()["same_node"], shadow.summary()["would_evict"]) == (1, 1)

    play(story, shadow=shadow)


def test_a_shadow_counts_every_pod_that_another_scheduler_starts_after_it() -> None:
    """One ran before, one is bound before GFS sees it wait, one after GFS has let it wait."""
    shadow = Shadow()

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("before", gpus=1))
        await replica.rest()
        server.bind_by_hand(server.put_pod(pod("fast", gpus=1)), "n1")
        await replica.rest()
        late = server.put_pod(pod("late", gpus=4))
        await replica.rest()
        server.remove_pod("lab/before")
        server.remove_pod("lab/fast")
        server.bind_by_hand(late, "n1")
        await replica.rest()
        assert (shadow.summary()["undecided"], shadow.summary()["kept_waiting"]) == (1, 1)
        assert shadow.text().startswith("shadow: of 2 pods that the other scheduler started")

    play(story, shadow=shadow)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one after the other"])
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "kept waiting"])
def test_a_gang_that_another_scheduler_bound_is_adopted_by_a_shadow(at_once: bool, planned: bool) -> None:
    shadow = Shadow()

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        names = [server.put_pod(in_team(name)) for name in "abc"]
        if planned:
            await replica.step()
        for name in names:
            server.bind_by_hand(name, "n1")
            server.set_phase(name, "Running")
            if not at_once:
                await replica.step()
        await replica.rest()
        assert sum(run.pods for run in runs(replica).values()) == 3
        assert state(replica).pool.idle == 1
        server.put_pod(pod("urgent", **URGENT))
        await replica.step()
        assert shadow.summary()["would_evict"] == 3
        assert not server.bound

    play(story, shadow=shadow)


async def under_way(server: FakeServer, call: str) -> None:
    """Wait until a request of this kind is on its way."""
    while not server.asked[call]:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_a_pod_that_is_evicted_before_its_binding_is_sent_is_not_bound() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        turn = server.queue("bind")
        server.put_pod(pod("first", gpus=4))
        replica.show()
        replica.controller.step()
        server.put_pod(pod("urgent", **URGENT))
        replica.show()
        replica.controller.step()
        turn.set()
        await replica.rest()
        assert server.bound == [("urgent", "n1")]
        assert not server.deleted
        assert replica.controller.book.by_name["lab/first"].phase is Phase.WAITING

    play(story)


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "answer lost"])
def test_a_pod_that_is_evicted_while_its_binding_is_under_way_comes_back_as_the_same_task(answered: bool) -> None:
    """It is deleted only when it is known to be bound; the HP pod is bound when it is gone."""

    async def story(server: FakeServer, replica: Replica) -> None:
        answer = server.hold("bind")
        server.put_pod(owned("first", gpus=4))
        server.lost_answers["bind"] = [] if answered else [Unavailable("no answer")]
        replica.show()
        replica.controller.step()
        await under_way(server, "bind")
        server.put_pod(pod("urgent", **URGENT))
        replica.show()
        replica.controller.step()
        await asyncio.sleep(0)
        assert not server.deleted
        answer.set()
        await replica.rest()
        assert server.deleted == ["first"]
        assert ("urgent", "n1") not in server.bound
        server.stop_deleted()
        await replica.rest()
        assert server.bound[-1] == ("urgent", "n1")
        server.put_pod(owned("second", gpus=4))
        await replica.rest()
        assert replica.controller.book.by_pod[replica.uid("second")].name == "lab/train"

    play(story)


def test_a_victim_that_comes_back_is_in_its_next_run_and_starts_where_there_is_room() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(owned("first", gpus=2))
        await replica.rest()
        server.start_bound()
        server.put_node(node("n2", gpus=2))
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert list(runs(replica)) == ["lab/urgent"], "a pod that does not exist holds nothing"
        server.put_pod(owned("second", gpus=2))
        await replica.rest()
        again = runs(replica)["lab/train"]
        assert (again.number, [each.name for each in again.nodes]) == (2, ["n2"])
        assert again.task.submit_time == replica.controller.identities.past["lab/train"].submitted

    play(story)


def test_no_gpus_are_held_for_a_victim_that_no_owner_creates_again() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("victim", gpus=4))
        await replica.rest()
        server.start_bound()
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        server.put_node(node("n2", gpus=4))
        server.put_pod(pod("late", gpus=4))
        await replica.rest()
        assert server.bound == [("victim", "n1"), ("late", "n2")]

    play(story)


def keep(**selector: Any) -> dict[str, Any]:
    """A budget that allows no disruption."""
    return {
        "metadata": {"namespace": "lab", "name": "keep"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": 0},
    }


def test_budgets_and_groups_become_disruption_rules() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_budget(keep(matchExpressions=[{"key": "app", "operator": "In", "values": ["x"]}]))
        server.put_group(group("team", 2, disruptionMode={"all": {}}))
        for name in "abc":
            server.put_pod(in_team(name, labels={"app": "x"} if name == "c" else {}))
        await replica.rest()
        pool = state(replica).pool
        assert len(server.bound) == 3
        assert len(pool.together) == 2, "the minimum, and the pod beyond it"
        assert pool.protected == set(pool.together), "a run that would take a protected one along is protected"
        server.remove_budget("keep")
        await replica.rest()
        assert not pool.protected

    play(story)


def test_budgets_are_kept_in_the_first_instant_after_a_restart() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_budget(keep(matchLabels={"app": "x"}))
        for name in ("kept", "other"):
            server.put_pod(bound(name, gpus=2, labels={"app": "x"} if name == "kept" else {}))
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp"))
        await replica.step()
        assert server.deleted == ["other"]

    play(story)


def test_what_adopted_runs_hold_is_not_counted_twice() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("there", gpus=2))
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp"))
        await replica.step()
        assert server.bound == [("urgent", "n1")], "no pod had to go"

    play(story)


def test_a_gang_that_is_found_began_with_its_last_pod_and_after_that_second() -> None:
    """Started at 0:10 and 0:25, cut to whole seconds: from 0:26 on all of it runs for sure."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name, second in (("one", 10), ("two", 25)):
            found = in_team(name, nodeName="n1", phase="Running")
            found["status"]["startTime"] = f"2026-01-01T00:00:{second}Z"
            server.put_pod(found)
        await replica.step()
        (run,) = runs(replica).values()
        assert run.start == datetime(2026, 1, 1, 0, 0, 26, tzinfo=UTC).timestamp()

    play(story)


def test_after_a_restart_a_gang_and_the_pods_beyond_it_are_what_they_were() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name, task in (("c", "lab/team/c"), ("a", "lab/team"), ("b", "lab/team")):
            notes = {"gfs.dev/task": task, "gfs.dev/run": "1"}
            server.put_pod(in_team(name, nodeName="n1", phase="Running", annotations=notes))
        server.put_pod(in_team("d"))
        await replica.rest()
        assert server.bound == [("d", "n1")], "it waited for nothing but the restart"
        pods = {name: run.pods for name, run in runs(replica).items()}
        assert pods == {"lab/team": 2, "lab/team/c": 1, "lab/team/d": 1}

    play(story)


def test_a_controller_that_may_not_decide_any_more_does_not() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("late", gpus=4))
        replica.show()
        await replica.controller.run(lambda: False)
        assert not replica.controller.decisions

    play(story)


def told(replica: Replica) -> list[str]:
    """Tasks that the core knows, by submission."""
    return [task.name for task in replica.controller.book.by_index.values()]


def test_of_a_flood_500_tasks_are_decided_in_an_instant_and_hp_comes_first() -> None:
    """1,200 pods at once for four GPUs, four of them HP and the last to come: all are known after three instants."""

    async def story(server: FakeServer, replica: Replica) -> None:
        for number in range(1196):
            server.put_pod(pod(f"spot-{number:04}"))
        server.hand.at += 3600.0
        for number in range(4):
            server.put_pod(pod(f"urgent-{number}", cls="gfs-hp"))
        for known in (500, 1000, 1200):
            await replica.step()
            assert len(told(replica)) == known
            assert replica.controller.changed.is_set() or known == 1200, "the rest is not forgotten"
        assert {name for name, _ in server.bound} == {f"urgent-{number}" for number in range(4)}
        assert not server.deleted

    play(story, silent=True)


def test_while_bindings_are_behind_only_hp_is_decided_on() -> None:
    """400 bindings are not answered: of 600 new spot pods none is told to the core, the one HP pod at once. When 250
    have been answered, spot pods are told again, in order of their creation, as many as leave 500 in all."""

    async def story(server: FakeServer, replica: Replica) -> None:
        controller = replica.controller
        for number in range(600):
            server.put_pod(pod(f"spot-{number:04}"))
        server.hand.at += 3600.0
        server.put_pod(pod("urgent", cls="gfs-hp"))
        replica.show()
        controller.binder.under_way = 400
        controller.step()
        assert told(replica) == ["lab/urgent"]
        assert controller.changed.is_set(), "the rest is not forgotten"
        controller.binder.under_way = 150
        controller.step()
        assert sorted(told(replica)) == [f"lab/spot-{number:04}" for number in range(350)] + ["lab/urgent"]
        controller.binder.under_way = 0
        controller.step()
        assert len(told(replica)) == 601
        await controller.finish_requests()

    play(story, silent=True)


def test_pods_of_one_job_are_tasks_of_their_own_and_one_that_comes_back_continues_the_one_that_went() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        for number in range(6):
            server.put_pod(owned(f"train-{number}"))
        await replica.rest()
        assert len(server.bound) == 4
        server.start_bound()
        await replica.rest()
        gone, _ = server.bound[2]
        name = replica.controller.book.by_pod[replica.uid(gone)].name
        server.set_phase(f"lab/{gone}", "Failed")
        server.remove_pod(f"lab/{gone}")
        await replica.rest()
        server.put_pod(owned("train-again"))
        await replica.rest()
        again = replica.controller.book.by_pod[replica.uid("train-again")]
        assert again.name == name
        assert again.task is not None
        assert again.task.earlier_runs == 1
        assert set(replica.controller.book.by_name) == {
            "lab/train",
            *(f"lab/train/{number}" for number in range(1, 6)),
        }

    play(story)


def test_a_pod_that_is_created_again_in_a_running_gang_is_bound_where_the_old_one_was() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 4, bare=False))
        await replica.rest()
        where = dict(server.bound)
        server.start_bound()
        await replica.rest()
        server.set_phase("lab/a", "Failed")
        await replica.rest()
        assert state(replica).pool.idle == 4, "finished pods hold nothing"
        server.put_pod(in_team("c", 4, bare=False))
        await replica.rest()
        assert server.bound[2:] == [("c", where["a"])]
        assert not server.deleted

    play(story, node("n1", gpus=4), node("n2", gpus=4))


def test_the_rest_of_a_gang_joins_pods_that_another_scheduler_bound_and_they_are_evicted_together() -> None:
    """b is a task of its own. Less than the minimum would be left of the group without a or b: they go together."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        server.put_pod(in_team("a", 4, nodeName="n1", phase="Running"))
        server.put_pod(in_team("b", 4))
        await replica.rest()
        assert server.bound == [("b", "n2")]
        server.start_bound()
        await replica.rest()
        assert sum(run.pods for run in runs(replica).values()) == 2
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert sorted(server.deleted) == ["a", "b"]

    play(story, node("n1", gpus=4), node("n2", gpus=4))


def test_the_gpus_of_a_victim_that_finished_before_it_was_deleted_are_free() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        first = server.put_pod(owned("first", gpus=4))
        await replica.rest()
        server.start_bound()
        await replica.rest()
        server.put_pod(pod("urgent", **URGENT))
        replica.show()
        replica.controller.step()
        server.set_phase(first, "Succeeded")
        replica.show()
        await replica.rest()
        assert not server.deleted, "its success counts"
        server.start_bound()
        server.set_phase("lab/urgent", "Succeeded")
        server.put_pod(pod("next", gpus=4))
        await replica.rest()
        assert [name for name, _ in server.bound] == ["first", "urgent", "next"]
        assert list(replica.controller.book.by_name) == ["lab/next"]

    play(story)


def test_a_refused_pod_is_looked_at_again_when_what_it_lacked_is_there() -> None:
    """A PodGroup that comes after its pods, a model that no node has yet, a gang that is not complete."""

    async def story(server: FakeServer, replica: Replica) -> None:
        label = "nvidia.com/gpu.product"
        for name in "ab":
            server.put_pod(in_team(name, nodeSelector={label: "A100"}))
        server.put_pod(pod("other", nodeSelector={label: "H800"}))
        await replica.rest()
        waits = replica.controller.book.waits
        assert waits[replica.uid("a")] == ("Refused", "its PodGroup team is not there")
        assert waits[replica.uid("other")] == ("Unschedulable", "no node has GPU model H800")
        server.put_group(group("team", 3))
        await replica.rest()
        assert waits[replica.uid("a")] == ("WaitsForGang", "2 of the 3 pods that its gang needs are there")
        server.put_group(group("team", 2))
        server.put_node(node("n2", model="H800"))
        await replica.rest()
        assert sorted(server.bound) == [("a", "n1"), ("b", "n1"), ("other", "n2")]
        assert not waits

    play(story)


@pytest.mark.parametrize("change", ["no GPUs", "no model", "another model", "cordoned", "gone"])
def test_running_pods_are_left_alone_whatever_their_node_looks_like(change: str) -> None:
    """The device plug-in or the feature discovery restarts, a label is corrected, a node is drained or removed."""

    async def story(server: FakeServer, replica: Replica) -> None:
        for name, cls in (("hp", "gfs-hp"), ("spot", "gfs-spot")):
            server.put_pod(pod(name, gpus=2, cls=cls))
        await replica.rest()
        server.start_bound()
        await replica.rest()
        match change:
            case "no GPUs":
                server.put_node(node("n1", gpus=0))
            case "no model":
                server.put_node(node("n1", gpus=4, model=""))
            case "another model":
                server.put_node(node("n1", gpus=4, model="H800"))
            case "cordoned":
                server.put_node(node("n1", gpus=4, unschedulable=True))
            case "gone":
                server.remove_node("n1")
        await replica.rest()
        server.put_node(node("n1", gpus=4))
        await replica.rest()
        assert not server.deleted
        assert {name: run.number for name, run in runs(replica).items()} == {"lab/hp": 1, "lab/spot": 1}
        assert state(replica).pool.idle == 0

    play(story)


def with_cpus(made: Json, cpus: str) -> Json:
    """The same pod with other CPUs."""
    changed = copy.deepcopy(made)
    changed["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpus
    return changed


def test_what_a_running_pod_asks_for_may_change() -> None:
    """A pod on n1 is resized in place, from half a CPU to 62 of 64. Another one that asks for 8 goes to n2."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("grows"))
        await replica.rest()
        server.put_pod(with_cpus(server.pods["lab/grows"], "62"))
        server.put_pod(with_cpus(pod("p"), "8"))
        await replica.rest()
        assert server.bound == [("p", "n2")]
        assert runs(replica)["lab/grows"].task.cpus_per_pod == 62.0

    play(story, node("n1", gpus=4), node("n2", gpus=8))


def test_a_pod_of_a_gang_that_was_resized_can_still_be_evicted() -> None:
    """Two pods of 2 GPUs, one of them with 8 CPUs by now: the core has both, each with 8 CPUs."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_group(group("team", 2))
        for name in "ab":
            server.put_pod(in_team(name, 2))
        await replica.rest()
        server.put_pod(with_cpus(server.pods["lab/b"], "8"))
        await replica.rest()
        (run,) = runs(replica).values()
        assert (run.task.pods, run.task.cpus_per_pod) == (2, 8.0)
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        assert sorted(server.deleted) == ["a", "b"]
        server.stop_deleted()
        await replica.rest()
        assert server.bound[2:] == [("urgent", "n1")]

    play(story)


def test_a_pod_that_asks_for_no_cpus_goes_where_none_are_left() -> None:
    """Others hold 60 CPUs on a node that has 32 by now. What a pod does not ask for is not short (as in Kubernetes)."""

    async def story(server: FakeServer, replica: Replica) -> None:
        squatter = bound("squatter", schedulerName="default-scheduler")
        server.put_pod(with_cpus(squatter, "60"))
        server.put_node(node("n1", gpus=4, room={"cpu": "32"}))
        modest = pod("modest", gpus=2)
        del modest["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        server.put_pod(modest)
        await replica.rest()
        assert server.bound == [("modest", "n1")]
        assert replica.controller.decisions <= 3, "it is not planned again and again"

    play(story)


def test_a_node_that_holds_more_than_it_has_is_open_for_preemption() -> None:
    """A GPU fails: 4 become 3 under 4 GPUs of spot. HP of 2 evicts three: one is too many anyhow."""

    async def story(server: FakeServer, replica: Replica) -> None:
        for number in range(4):
            server.put_pod(pod(f"spot-{number}"))
        await replica.rest()
        server.start_bound()
        server.put_node(node("n1", gpus=3))
        await replica.rest()
        assert not server.deleted
        server.put_pod(pod("urgent", gpus=2, cls="gfs-hp"))
        for _ in range(3):
            await replica.rest()
            server.stop_deleted()
        assert ("urgent", "n1") in server.bound
        assert len(server.deleted) == 3, "1 too many, and 2 for HP"

    play(story)


def test_a_spot_pod_that_waits_for_quota_says_so_with_a_reason_that_autoscalers_ignore() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("spot", gpus=4))
        await replica.rest()
        assert condition(server, "spot")["reason"] == "WaitsForSpotQuota"
        server.put_pod(pod("urgent", gpus=8, cls="gfs-hp"))
        server.hand.at += 2.0
        await replica.rest()
        assert condition(server, "urgent")["reason"] == "Unschedulable"

    play(story, parameters={"quota": "forecast", "forecaster": "weekly-peak"})


def test_the_phase_of_a_task_follows_its_pods() -> None:
    async def story(server: FakeServer, replica: Replica) -> None:
        answer = server.hold("bind")
        name = server.put_pod(pod("p", gpus=4))
        replica.show()
        replica.controller.step()
        task = replica.controller.book.by_name["lab/p"]
        assert task.phase is Phase.PLANNED
        answer.set()
        await replica.rest()
        assert task.phase is Phase.RUNNING
        server.remove_pod(name)
        await replica.rest()
        assert task.phase is Phase.UNKNOWN
        assert not replica.controller.book.by_name

    play(story)


def test_the_log_has_a_line_for_each_start_eviction_and_deletion(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gfs.live")

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(pod("train", gpus=4))
        await replica.rest()
        server.start_bound()
        server.put_pod(pod("urgent", **URGENT))
        await replica.rest()
        server.stop_deleted()
        await replica.rest()
        assert [line.partition(": ")[0] for line in caplog.messages] == [
            "start lab/train on n1 (run 1)",
            "start lab/urgent on n1 (run 1)",
            "evict lab/train for lab/urgent",
            "deleted lab/train on n1",
        ]

    play(story)


def test_when_all_nodes_get_another_model_a_pod_that_waits_comes_before_a_newcomer() -> None:
    """Neither names a model. One of two fits when the blocking pod has finished: the one that came first."""

    async def story(server: FakeServer, replica: Replica) -> None:
        server.put_pod(bound("blocks", gpus=4, cls="gfs-hp"))
        server.put_pod(pod("early", gpus=4))
        await replica.rest()
        server.put_node(node("n1", gpus=4, model="A100-80GB"))
        await replica.rest()
        server.hand.at += 60.0
        server.put_pod(pod("another", gpus=4))
        await replica.rest()
        server.set_phase("lab/blocks", "Succeeded")
        await replica.rest()
        assert server.bound == [("early", "n1")]

    play(story)


def test_groups_of_both_kinds_may_have_one_name() -> None:
    """The one of scheduler-plugins goes: the pods of the other start."""

    async def story(server: FakeServer, replica: Replica) -> None:
        mirror, plugin = replica.controller.mirror, group("team", 3)
        server.put_group(group("team", 2))
        replica.show()
        mirror.group_changed(None, plugin, PLUGIN)
        mirror.group_changed(plugin, None, PLUGIN)
        for name in "ab":
            server.put_pod(in_team(name))
        await replica.rest()
        assert sorted(server.bound) == [("a", "n1"), ("b", "n1")]

    play(story)
