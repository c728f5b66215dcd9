"""Everyday events of a GPU cluster on a real API server: nodes, workloads, what happens -> who survives, who is bound,
who is evicted, who waits and why. In every case GFS gives up nobody but those that the case names with `evicted`, and
each pod that waits at the end has a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from everyday import HOSTNAME, NEVER, REMADE, ZONE, Case, Node, Play, Story, Table, is_deleting, played

from bench.bench import Bench

table = Table()
NO_ROOM, REFUSED, GANG, QUOTA = "Unschedulable", "Refused", "WaitsForGang", "WaitsForSpotQuota"

# -- a node looks strange for a while: what runs goes on, nothing new comes until the node is whole ---------------

FULL = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
TROUBLES: dict[str, tuple[Callable[[Node], object], Callable[[Node], object]]] = {
    "device plug-in restarts": (lambda a: a.has_gpus(0), lambda a: a.has_gpus(8)),
    "feature discovery restarts": (lambda a: a.label(model=None), lambda a: a.label(model=a.model)),
    "label corrected and back": (lambda a: a.label(model="other"), lambda a: a.label(model=a.model)),
    "kubelet restarts": (lambda a: a.is_ready("False"), lambda a: a.is_ready("True")),
    "node unreachable": (lambda a: a.is_ready("Unknown"), lambda a: a.is_ready("True")),
    "cordon": (lambda a: a.cordon(), lambda a: a.cordon(on=False)),
    "taint added later": (lambda a: a.taint(), lambda a: a.untaint()),
    "gpus fail": (lambda a: a.has_gpus(5), lambda a: a.has_gpus(8)),
    "all but one gpu fail": (lambda a: a.has_gpus(1), lambda a: a.has_gpus(8)),
    "fewer cpus": (lambda a: a.has(cpu="2"), lambda a: a.has(cpu="64")),
    "less memory": (lambda a: a.has(memory="2Gi"), lambda a: a.has(memory="512Gi")),
    "fewer pods": (lambda a: a.has(pods="1"), lambda a: a.has(pods="110")),
    "nothing reported": (lambda a: a.has_nothing(), lambda a: a.has(**FULL)),
}  # fmt: skip


@table.case(each=TROUBLES)
def trouble(c: Case, breaks: Callable[[Node], object], mends: Callable[[Node], object]) -> None:
    """An HP Deployment, a spot Job and a gang over two nodes stay; a newcomer waits for the node to be whole."""
    a = c.node("a", 8)
    serve = c.deployment("serve", 2, gpus=2).runs()
    train = c.job("train", gpus=1).runs()
    b = c.node("b", 2)
    team = c.gang_job("team", 2, gpus=2, hp=True).runs(on=[a, b])
    breaks(a)
    late = c.hp("late", preemptionPolicy="Never", priority_class=NEVER).waits(NO_ROOM)
    mends(a)
    late.bound(on=a)
    for each in (serve, train, team):
        each.survives()


@table.case(each={"spot": (False,), "hp": (True,)})
def model_label_corrected_for_good(c: Case, hp: bool) -> None:
    """An administrator corrects the model: what runs there goes on and the node belongs to the new pool."""
    a = c.node("a", 8)
    train = c.job("train", 2, gpus=2, hp=hp).runs()
    a.label(model=f"{a.model}-x")
    c.spot("new", 4, by_model=False, nodeSelector={"nvidia.com/gpu.product": f"{a.model}-x"}).bound(on=a)
    c.spot("full", 1, by_model=False, nodeSelector={"nvidia.com/gpu.product": f"{a.model}-x"}).waits(NO_ROOM)
    train.survives()


@table.case()
def removed_empty_node_concerns_nobody(c: Case) -> None:
    """The autoscaler adds a node and takes it away empty."""
    c.node("a", 4)
    team = c.gang_job("team", 2, gpus=2, hp=True).runs()
    b = c.node("b", 4)
    c.spot("short", 4).runs(on=b).succeeds()
    b.remove()
    c.processed()
    team.survives()


@table.case()
def node_is_replaced_under_the_same_name(c: Case) -> None:
    """A machine is reinstalled: its Job's pod comes back on the new node."""
    a = c.node("a", 4)
    train = c.job("train", gpus=4).runs()
    a.remove()
    train.again(on=c.node("a", 4))


@table.case()
def autoscaler_adds_a_node(c: Case) -> None:
    """A pod that waits for capacity says Unschedulable, and takes the node that comes."""
    c.node("a", 2)
    serve = c.deployment("serve", 2, gpus=2).waits(NO_ROOM).runs(1)
    b = c.node("b", 2)
    serve.runs(on=[*c.nodes[:1], b])


@table.case()
def autoscaler_removes_a_node_with_pods(c: Case) -> None:
    """A removed node takes its own pods with it; the rest of the Job stays."""
    a = c.node("a", 2)
    train = c.job("train", 2, gpus=2).runs(1, on=a)
    b = c.node("b", 2)
    train.runs(on=[a, b]).survives(on=b)
    a.remove()
    train.again(1, on=c.node("c", 2))


@table.case()
def node_drained(c: Case) -> None:
    """kubectl drain: the replicas come back elsewhere, nobody is evicted for them while there is room."""
    a = c.node("a", 4)
    serve = c.deployment("serve", 2, gpus=2).runs(on=a)
    b = c.node("b", 4)
    a.drain()
    serve.again(on=b)


@table.case()
def drained_node_of_one_gang_member_p23(c: Case) -> None:
    """An HP gang loses one pod to a drain: the new pod goes to the free node, the other goes on."""
    a, b = c.node("a", 4), c.node("b", 4)
    team = c.gang_job("team", 2, gpus=4, hp=True).runs(on=[a, b]).survives(on=b)
    third = c.node("c", 4)
    a.drain()
    team.again(1, on=third)


@table.case()
def drain_is_held_by_a_budget(c: Case) -> None:
    """A budget forbids the drain: the pod stays, GFS does nothing."""
    a = c.node("a", 4)
    serve = c.deployment("serve", 1, gpus=4).runs()
    c.budget(serve, 1)
    a.drain()
    c.processed()
    serve.survives()


# -- a restart of the controller changes nothing ------------------------------------------------------------------


@table.case("stopped", "killed")
def waiting_job_pods(c: Case) -> None:
    """forgotten: five Jobs of 4 pods, 2 fit of each; after the restart the running ones end, the rest is bound."""
    nodes = [c.node(f"n{i}", 4) for i in range(5)]
    jobs = [c.job(f"j{i}", 4, gpus=2, at=node).runs(2).waits(NO_ROOM) for i, node in enumerate(nodes)]
    c.restart()
    for job in jobs:
        job.succeeds()
    for job in jobs:
        job.again(2)


@table.case("stopped", "killed")
def waiting_deployment(c: Case) -> None:
    """forgot3: HP Deployments of 3 replicas, 2 fit of each; after the restart a node of 8 GPUs comes."""
    nodes = [c.node(f"n{i}", 2) for i in range(4)]
    serves = [c.deployment(f"d{i}", 3, at=nodes[i], gpus=1).runs(2).waits(NO_ROOM) for i in range(4)]
    c.restart()
    for node in nodes:
        node.has_gpus(8)
    for serve in serves:
        serve.runs(3).survives()


@table.case("stopped", "killed")
def waiting_deployment_and_new_node(c: Case) -> None:
    """An empty node comes after the restart: the replica that waits takes it."""
    c.node("a", 4)
    serve = c.deployment("serve", 3, gpus=2).runs(2).waits(NO_ROOM)
    c.restart()
    c.node("b", 2)
    serve.runs(3).survives()


@table.case("stopped", "killed")
def waiting_bare_pods(c: Case) -> None:
    a = c.node("a", 2)
    runs = c.spot("runs", 2).runs()
    waits = c.spot("waits", 2).waits(NO_ROOM)
    c.restart()
    runs.succeeds()
    waits.runs(on=a)


@table.case("stopped", "killed")
def waiting_indexed_job_and_stateful_set(c: Case) -> None:
    """Pods with a place of their own: two indices and two replicas run, the others wait through the restart."""
    c.node("a", 4)
    train = c.job("train", 4, hp=True, indexed=True).runs(4).succeeds(2).runs(2)
    serve = c.stateful_set("serve", 4).runs(2).waits(NO_ROOM)
    c.restart()
    train.succeeds()
    serve.runs(4).survives()


@table.case("stopped", "killed")
def waiting_gang(c: Case) -> None:
    """A gang that waits for its third pod waits on, and starts when the pod comes."""
    c.node("a", 8)
    c.group_of("team", 3)
    team = c.members("team", 2).waits(GANG, count=2)
    c.restart()
    team.waits(GANG, count=2)
    c.members("third", 1, group="team").runs()
    team.runs()


@table.case("stopped", "killed")
def running_gang_survives(c: Case) -> None:
    a, b = c.node("a", 4), c.node("b", 4)
    team = c.gang_job("team", 2, gpus=4, hp=True).runs(on=[a, b])
    c.restart()
    c.processed()
    team.survives()


@table.case("stopped", "killed")
def partly_finished_gang(c: Case) -> None:
    """The GPUs of a member that finished while the controller was away are free."""
    c.node("a", 8)
    team = c.gang_job("team", 2, gpus=4).runs()
    c.restart(lambda: team.succeeds(1))
    c.hp("urgent", 4).runs()
    team.survives()


@table.case("stopped", "killed")
def pods_that_went_meanwhile(c: Case) -> None:
    """A Deployment is deleted while the controller is away: its GPUs are free when it is back."""
    c.node("a", 4)
    serve = c.deployment("serve", 2, gpus=2).runs()
    waits = c.hp("waits", 4).waits(NO_ROOM)
    c.restart(lambda: serve.delete())
    waits.runs()


@table.case("stopped", "killed")
def node_without_gpus_meanwhile(c: Case) -> None:
    """The device plug-in restarts together with the controller."""
    a = c.node("a", 8)
    serve = c.deployment("serve", 2, gpus=2).runs()
    c.restart(lambda: a.has_gpus(0))
    c.processed()
    a.has_gpus(8)
    c.spot("late", 4).runs(on=a)
    serve.survives()


@table.case("stopped", "killed")
def victim_on_its_way_out(c: Case) -> None:
    """The controller goes while a victim has 30 s to stop: HP takes the place, nobody else is evicted."""
    a = c.node("a", 4)
    victim = c.job("victim", gpus=4, grace=30).runs()
    urgent = c.hp("urgent", 4)
    victim.evicted()
    c.restart()
    urgent.runs(on=a)


@table.case("stopped", "killed")
def waiting_for_a_restart_with_more_pods(c: Case) -> None:
    """A Job's parallelism is raised while the controller is away."""
    c.node("a", 4)
    train = c.job("train", 1, completions=4, gpus=1).runs()
    c.restart(lambda: train.scale(4))
    train.runs(4).survives()


@table.case("stopped", "killed")
def elastic_gang(c: Case) -> None:
    """A gang of 4 with minimum 2 runs with 3; the fourth gets the place that comes after the restart."""
    c.node("a", 3)
    team = c.gang_job("team", 4, minimum=2).runs(3)
    c.restart()
    c.node("b", 1)
    team.runs(4).survives()


@table.case("recorded", audited=False)
def partly_finished_gang_is_recorded(c: Case) -> None:
    """crashloop: one pod of a gang succeeds and two fail while the controller is away; it decides on."""
    c.node("a", 4)
    team = c.gang_job("team", 3).runs()
    c.restart(lambda: team.succeeds(1).fails(2).created(2))
    team.again(2)
    c.spot("next").runs()


# -- pods that are gone hold nothing and get nothing ----------------------------------------------------------------


@table.case()
def deployment_on_cordoned_node_deleted_p05(c: Case) -> None:
    """An HP Deployment on a cordoned node is deleted: nobody is evicted for it elsewhere."""
    a = c.node("a", 4)
    serve = c.deployment("serve", 2, gpus=2).runs(on=a)
    c.node("b", 4)
    spot = c.job("spot", 2, gpus=2).runs()
    a.cordon()
    serve.delete().gone()
    c.processed()
    spot.survives()


@table.case(each={"p06 surge 0": (0, 2, 4), "surge 1 with room": (1, 2, 8), "surge 1 one replica": (1, 1, 4)})
def rolling_update(c: Case, surge: int, replicas: int, gpus: int) -> None:
    """Each new pod takes the place of an old one; the node full of spot is left alone."""
    a = c.node("a", gpus)
    serve = c.deployment("serve", replicas, surge, gpus=2).runs(on=a)
    c.node("b", 8)
    spot = c.job("spot", 2, gpus=4).runs()
    serve.roll_out()
    serve.again(on=a)
    spot.survives()


@table.case()
def stateful_set_rolls(c: Case) -> None:
    """Pods come back under the same name, one by one, in their own places."""
    a = c.node("a", 4)
    serve = c.stateful_set("serve", 2, gpus=2).runs(on=a)
    c.node("b", 4)
    spot = c.job("spot", 2, gpus=2).runs()
    serve.roll_out()
    serve.again(on=a)
    spot.survives()


GOES = {
    "r09 deployment deleted": (lambda c: c.deployment("old", 2, gpus=2), lambda old: old.delete()),
    "job deleted": (lambda c: c.job("old", 2, hp=True, gpus=2), lambda old: old.delete()),
    "job deleted in the foreground": (lambda c: c.job("old", 2, hp=True, gpus=2), lambda old: old.delete("Foreground")),
    "p22 deployment scaled down": (lambda c: c.deployment("old", 4, gpus=1), lambda old: old.scale(1)),
    "p12 parallelism lowered": (lambda c: c.job("old", 4, hp=True, gpus=1), lambda old: old.scale(1)),
    "t10 stateful set scaled down": (lambda c: c.stateful_set("old", 4, gpus=1), lambda old: old.scale(1)),
    "deployment scaled to nothing": (lambda c: c.deployment("old", 2, gpus=2), lambda old: old.scale(0)),
    "job suspended": (lambda c: c.job("old", 2, hp=True, gpus=2), lambda old: old.edit({"suspend": True})),
    "gang job deleted": (lambda c: c.gang_job("old", 2, hp=True, gpus=2), lambda old: old.delete()),
    "gang job suspended": (lambda c: c.gang_job("old", 2, hp=True, gpus=2), lambda old: old.edit({"suspend": True})),
    "bare pods deleted": (lambda c: c.hp("old", 4), lambda old: old.delete()),
    "pods succeed": (lambda c: c.job("old", 2, hp=True, gpus=2), lambda old: old.succeeds()),
    "job fails for good": (
        lambda c: c.job("old", gpus=4, hp=True, backoff_limit=0), lambda old: old.fails(reason="Error")
    ),
    "job beyond its deadline": (
        lambda c: c.job("old", 2, gpus=2, hp=True), lambda old: old.edit({"activeDeadlineSeconds": 1})
    ),
}  # fmt: skip
"""What is created, and how its pods go for good."""


@table.case(each=GOES)
def free_at_once(c: Case, create: Callable[[Case], Any], ends: Callable[[Any], object]) -> None:
    """A full pool; pods go for good; HP that waits for 3 of 4 GPUs is bound as soon as they are gone."""
    c.node("a", 4)
    old = create(c).runs()
    waits = c.hp("waits", 3).waits(NO_ROOM)
    ends(old)
    waits.runs()


@table.case(each=GOES)
def free_for_a_newcomer(c: Case, create: Callable[[Case], Any], ends: Callable[[Any], object]) -> None:
    """A full pool; pods go for good and nobody waits: 3 of 4 GPUs are there for who comes then."""
    c.node("a", 4)
    old = create(c).runs()
    ends(old)
    old.holds(1)
    c.processed()
    c.spot("next", 3).runs()


@table.case()
def spot_job_deleted_r08(c: Case) -> None:
    c.node("a", 4)
    old = c.job("old", 2, gpus=2).runs()
    waits = c.spot("waits", 3).waits(NO_ROOM)
    old.delete()
    waits.runs()


@table.case()
def namespace_deleted(c: Case) -> None:
    """A namespace goes with all its workloads; its GPUs serve the next pod of the pool."""
    a = c.node("a", 4)
    c.deployment("serve", 2, gpus=2).runs(on=a)
    c.gang("team", 2, gpus=4).waits(NO_ROOM, count=2)
    c.delete_namespace()
    c.next_door().hp("next", 4).runs(on=a)


@table.case()
def scaled_up_and_down(c: Case) -> None:
    c.node("a", 4)
    serve = c.deployment("serve", 1).runs().scale(4).runs().scale(2)
    c.spot("fills", 2).runs()
    serve.runs(2).survives()


@table.case()
def hp_deployment_scaled_up_evicts_spot(c: Case) -> None:
    a = c.node("a", 4)
    spot = c.job("spot", gpus=2).runs()
    serve = c.deployment("serve", 1, gpus=2).runs()
    serve.scale(2)
    spot.evicted()
    serve.runs(on=a)
    spot.waits(NO_ROOM)


@table.case()
def spot_job_parallelism_raised(c: Case) -> None:
    c.node("a", 4)
    train = c.job("train", 2, completions=8).runs()
    train.scale(4).runs().survives()


@table.case()
def suspended_job_resumed(c: Case) -> None:
    """A Job that is suspended frees its GPUs and starts again when they are free again."""
    a = c.node("a", 4)
    train = c.job("train", 2, gpus=2).runs()
    train.edit({"suspend": True}).gone()
    other = c.spot("other", 4).runs(on=a)
    train.edit({"suspend": False}).waits(NO_ROOM, count=2)
    other.succeeds()
    train.again(on=a)


@table.case()
def job_created_suspended(c: Case) -> None:
    c.node("a", 4)
    train = c.job("train", 2, gpus=2, spec={"suspend": True})
    c.spot("other", 4).runs().succeeds()
    train.edit({"suspend": False}).runs()


@table.case()
def gated_pod_is_left_alone_until_its_gate_opens(c: Case) -> None:
    c.node("a", 4)
    gated = c.spot("gated", 4, schedulingGates=[{"name": "everyday.dev/wait"}])
    c.spot("other", 4).runs().succeeds()
    c.client.patch(f"/api/v1/namespaces/{c.namespace}/pods/gated", {"spec": {"schedulingGates": None}})
    gated.runs()


@table.case()
def spot_pods_of_a_job_are_replaced_after_eviction(c: Case) -> None:
    """An evicted pod of a Job waits as a new pod and runs again when HP has gone."""
    a = c.node("a", 4)
    train = c.job("train", gpus=4).runs()
    urgent = c.hp("urgent", 4)
    train.evicted()
    urgent.runs(on=a)
    train.waits(NO_ROOM)
    urgent.delete()
    train.again(on=a)


@table.case(each={"deployment": ("deployment",), "stateful set": ("stateful_set",)})
def pod_deleted_by_its_user(c: Case, kind: str) -> None:
    """kubectl delete pod: the replacement takes the place, spot beside it stays."""
    a = c.node("a", 4)
    serve = getattr(c, kind)("serve", 2, gpus=2).runs(on=a)
    c.node("b", 4)
    spot = c.job("spot", 2, gpus=2).runs()
    serve.delete_pods(1)
    serve.again(1, on=a)
    spot.survives()


@table.case()
def hp_pod_deleted_on_a_cordoned_node(c: Case) -> None:
    """The replacement exists and has no other place: spot elsewhere goes for it."""
    a = c.node("a", 4)
    serve = c.deployment("serve", 1, gpus=4).runs(on=a)
    b = c.node("b", 4)
    spot = c.spot("spot", 4).runs(on=b)
    a.cordon()
    serve.delete_pods()
    spot.evicted()
    serve.runs(on=b)


@table.case()
def indexed_job_pod_fails(c: Case) -> None:
    """An index of an indexed Job fails and comes back; the other goes on."""
    c.node("a", 4)
    train = c.job("train", 2, gpus=2, indexed=True).runs().fails(1)
    train.survives()
    train.again(1)


@table.case()
def jobs_in_line(c: Case) -> None:
    """Three Jobs for one node: each starts when the one before has finished."""
    c.node("a", 4)
    first = c.job("first", 2, gpus=2).runs()
    second = c.job("second", 2, gpus=2).waits(NO_ROOM, count=2)
    third = c.job("third", 4).waits(NO_ROOM, count=4)
    first.succeeds()
    second.runs().succeeds()
    third.runs()


# -- members of a gang that have finished ------------------------------------------------------------------------


@table.case()
def gang_member_finished_frees_its_gpus_t02(c: Case) -> None:
    c.node("a", 8)
    team = c.gang_job("team", 2, gpus=4).runs().succeeds(1)
    c.spot("next", 4).runs()
    team.survives()


@table.case()
def hp_takes_what_a_finished_member_left_t03(c: Case) -> None:
    """4 GPUs are idle since a member has finished: HP evicts nobody."""
    c.node("a", 8)
    team = c.gang_job("team", 2, gpus=4).runs().succeeds(1)
    c.hp("urgent", 4).runs()
    team.survives()


@table.case()
def empty_node_of_a_finished_member_removed_t01(c: Case) -> None:
    """The autoscaler removes the node that a finished member left empty: the rest goes on."""
    a, b = c.node("a", 4), c.node("b", 4)
    team = c.gang_job("team", 2, gpus=4, hp=True).runs(on=[a, b]).succeeds(on=a)
    a.remove()
    c.processed()
    team.survives()


@table.case()
def gang_members_finish_one_by_one(c: Case) -> None:
    """Each finished member leaves room for one more pod, until the gang is over."""
    c.node("a", 3)
    team = c.gang_job("team", 3).runs()
    for i in range(3):
        team.succeeds(1)
        c.spot(f"next-{i}").runs()


@table.case()
def last_members_are_evicted_alone(c: Case) -> None:
    """HP needs what the rest of a gang holds: the rest goes, what has finished is not counted."""
    c.node("a", 4)
    team = c.gang_job("team", 2, gpus=2).runs().succeeds(1)
    urgent = c.hp("urgent", 4)
    team.evicted(1)
    urgent.runs()


@table.case(audited=False)
def gang_job_with_more_completions_p08b(c: Case) -> None:
    """Completions above parallelism: the next pod is bound when one has finished while the others run."""
    c.node("a", 2)
    team = c.gang_job("team", 2, completions=4).runs()
    for _ in range(2):
        team.succeeds(1)
        team.again(1)
    team.runs(2).survives()


@table.case(audited=False)
def gang_job_with_more_completions_all_finish(c: Case) -> None:
    """Both members finish together: the next two are a gang by themselves."""
    c.node("a", 2)
    team = c.gang_job("team", 2, completions=4).runs().succeeds()
    team.again(2)


@table.case()
def gang_member_fails_and_comes_back(c: Case) -> None:
    """OOM kill: the Job creates the pod again and it joins the running rest."""
    c.node("a", 2)
    team = c.gang_job("team", 2, hp=True).runs().fails(1)
    team.again(1)
    team.runs(2).survives()


# -- minimum of a gang: today's pods and today's minimum ------------------------------------------------------------


@table.case()
def group_over_two_jobs_r01(c: Case) -> None:
    """JobSet: one PodGroup (minimum 4) over two Jobs of 2: nothing starts before the second Job is there."""
    c.node("a", 8)
    c.group_of("team", 4)
    first = c.job("first", 2, group="team").waits(GANG, count=2)
    c.spot("other").runs()
    second = c.job("second", 2, group="team")
    c.together(4, first, second)


@table.case()
def minimum_above_what_the_job_has_r02(c: Case) -> None:
    c.node("a", 8)
    c.group_of("team", 3)
    c.job("team", 2, group="team").keeps_waiting(GANG, count=2)


@table.case()
def gang_with_cpu_only_driver_e01(c: Case) -> None:
    """A driver without GPU is a member: all start, or none."""
    c.node("a", 8)
    c.group_of("team", 3)
    workers = c.job("workers", 2, group="team")
    driver = c.job("driver", 1, gpus=0, group="team")
    c.processed()
    c.all_or_none(3, workers, driver)


@table.case()
def gang_with_a_refused_member(c: Case) -> None:
    """One of three members has a claim that GFS does not know: none starts."""
    c.node("a", 8)
    c.group_of("team", 3)
    c.members("workers", 2, group="team").keeps_waiting(GANG, REFUSED, count=2)
    c.members("odd", 1, group="team", **CLAIM).keeps_waiting(REFUSED)


@table.case()
def gang_members_of_two_sizes(c: Case) -> None:
    """A launcher with more CPUs and a worker: all start, or none."""
    c.node("a", 8)
    c.group_of("team", 2)
    launcher = c.members("launcher", 1, group="team", cpus="4")
    worker = c.members("worker", 1, group="team")
    c.processed()
    c.all_or_none(2, launcher, worker)


@table.case()
def minimum_raised_while_waiting_q05(c: Case) -> None:
    """2 of 2 wait for room; the minimum becomes 3: nothing starts with 2."""
    c.node("a", 2)
    blocks = c.spot("blocks", 2).runs()
    c.plugin_group("team", 2)
    team = c.members("team", 2).waits(NO_ROOM, count=2)
    c.minimum("team", 3)
    c.processed()
    blocks.succeeds()
    c.spot("one").runs()
    team.keeps_waiting(GANG, count=2)


@table.case()
def minimum_raised_and_reached(c: Case) -> None:
    """The second of 2 comes when the minimum is 3: all three start when the third is there."""
    c.node("a", 4)
    c.plugin_group("team", 2)
    one = c.members("one", 1, group="team").waits(GANG)
    c.minimum("team", 3)
    c.processed()
    two = c.members("two", 1, group="team").waits(GANG)
    c.together(3, one, two, c.members("three", 1, group="team"))


@table.case(each={"q04 to what is there": (2,), "q07 to what fits": (4,)})
def minimum_lowered(c: Case, pods: int) -> None:
    """A gang of minimum 4 waits for pods or for room; the minimum is lowered to 2: two start."""
    c.node("a", 2)
    c.plugin_group("team", 4)
    team = c.members("team", pods).waits(GANG, NO_ROOM, count=pods)
    c.minimum("team", 2)
    team.runs(2)


@table.case(each={"raised": (4,), "lowered": (1,)})
def minimum_of_a_running_gang(c: Case, minimum: int) -> None:
    """A gang that runs is not touched, and a later pod joins it."""
    c.node("a", 4)
    c.plugin_group("team", 2)
    team = c.job("team", 2, group="team", completions=4, hp=True).runs()
    c.minimum("team", minimum)
    c.processed()
    team.survives()


@table.case()
def plugin_gang_starts_whole(c: Case) -> None:
    a = c.node("a", 4)
    c.plugin_group("team", 3)
    team = c.job("team", 3, group="team", gpus=2).waits(NO_ROOM, count=3)
    b = c.node("b", 2)
    team.runs(on=[a, b])


@table.case()
def gang_created_again_with_more_gpus_p07(c: Case) -> None:
    """kubectl delete, GPUs 1 -> 2, kubectl apply: it starts as it is now."""
    c.node("a", 8)
    c.gang_job("team", 2).runs().delete().gone()
    c.delete_group("team")
    c.gang_job("team", 2, gpus=2).runs()


@table.case()
def gang_created_again_smaller_p09(c: Case) -> None:
    c.node("a", 8)
    c.gang_job("team", 4).runs().delete().gone()
    c.delete_group("team")
    c.gang_job("team", 2).runs()


@table.case()
def gang_created_again_larger_p09b(c: Case) -> None:
    """The group's new minimum is 4 and 3 pods are there: nothing starts."""
    c.node("a", 8)
    c.gang_job("team", 2).runs().delete().gone()
    c.delete_group("team")
    c.group_of("team", 4)
    team = c.job("team", 3, group="team").waits(GANG, count=3)
    c.spot("other").runs()
    team.keeps_waiting(GANG, count=3)


@table.case()
def bare_gang_created_again_under_the_same_names(c: Case) -> None:
    c.node("a", 8)
    c.gang("team", 3).runs().delete().gone()
    c.delete_group("team")
    c.gang("team", 2, gpus=2).runs()


@table.case()
def odd_member_removed_r12(c: Case) -> None:
    """The odd member comes last and is replaced by an equal one."""
    c.node("a", 8)
    c.group_of("team", 2)
    first = c.members("first", 1, group="team", gpus=4).waits(GANG)
    odd = c.members("odd", 1, group="team", gpus=5).waits()
    odd.delete().gone()
    c.together(2, first, c.members("second", 1, group="team", gpus=4))


@table.case()
def odd_first_member_removed_p17(c: Case) -> None:
    """The odd member came first, so that the equal ones were refused: they are looked at again when it is gone."""
    c.node("a", 8)
    c.group_of("team", 2)
    odd = c.members("odd", 1, group="team", gpus=4, cpus="2").waits(GANG)
    rest = c.members("rest", 2, group="team", gpus=4)
    c.processed()
    odd.delete().gone()
    rest.runs()


@table.case()
def odd_member_finished(c: Case) -> None:
    """The first member runs, those after it differ: when it has finished, they run at the latest."""
    c.node("a", 8)
    c.group_of("team", 1)
    odd = c.members("odd", 1, group="team", gpus=4).runs()
    rest = c.members("rest", 2, group="team", gpus=2)
    c.processed()
    odd.succeeds()
    rest.runs()


@table.case()
def group_label_removed_r10(c: Case) -> None:
    """The label of a group that is not there is removed from a pod that waits: it is a task by itself."""
    c.node("a", 4)
    alone = c.spot("alone", labels={"scheduling.x-k8s.io/pod-group": "nobody"}).waits(REFUSED, GANG)
    alone.change({"labels": {"scheduling.x-k8s.io/pod-group": None}})
    alone.runs()


@table.case()
def group_comes_after_its_pods(c: Case) -> None:
    c.node("a", 4)
    team = c.members("team", 2).waits(GANG, REFUSED, count=2)
    c.group_of("team", 2)
    team.runs()


@table.case()
def group_of_waiting_pods_deleted_and_created(c: Case) -> None:
    """The PodGroup goes and comes back with another minimum while its pods wait."""
    c.node("a", 2)
    c.group_of("team", 4)
    team = c.members("team", 2).waits(GANG, count=2)
    c.delete_group("team", force=True)
    team.waits(GANG, REFUSED, count=2)
    c.group_of("team", 2)
    team.runs()


@table.case()
def group_of_running_pods_deleted(c: Case) -> None:
    """The PodGroup goes while its pods run: they go on."""
    c.node("a", 4)
    team = c.gang("team", 2, priority_class="gfs-hp").runs()
    c.delete_group("team", force=True)
    c.processed()
    team.survives()


@table.case()
def gang_scaled_above_its_minimum(c: Case) -> None:
    """Pods beyond the minimum start as room allows; the rest says why it waits."""
    c.node("a", 3)
    c.plugin_group("team", 2)
    team = c.job("team", 2, group="team", completions=4).runs()
    team.scale(4).runs(3).waits(NO_ROOM)
    team.survives()


@table.case()
def gang_scaled_down_to_its_minimum(c: Case) -> None:
    """Parallelism of an HP gang is lowered: the GPUs of the pods that went are free."""
    c.node("a", 4)
    c.plugin_group("team", 2)
    team = c.job("team", 4, group="team", hp=True).runs().scale(2)
    c.hp("next", 2).runs()
    team.runs(2).survives()


@table.case()
def gang_larger_than_the_room_waits_whole(c: Case) -> None:
    a = c.node("a", 2)
    team = c.gang_job("team", 3).waits(NO_ROOM, count=3)
    c.spot("small", 2).runs(on=a)
    team.keeps_waiting(NO_ROOM, count=3)


@table.case()
def gang_gets_room_from_a_new_node(c: Case) -> None:
    a = c.node("a", 4)
    team = c.gang_job("team", 2, gpus=4).waits(NO_ROOM, count=2)
    b = c.node("b", 4)
    team.runs(on=[a, b])


@table.case()
def job_of_a_waiting_gang_deleted(c: Case) -> None:
    """A gang that waits is deleted: the next in line starts."""
    c.node("a", 4)
    blocks = c.spot("blocks", 4).runs()
    gang = c.gang_job("gang", 2, gpus=2).waits(NO_ROOM, count=2)
    next_ = c.spot("next", 4).waits(NO_ROOM)
    gang.delete().gone()
    blocks.succeeds()
    next_.runs()


@table.case(audited=False)
def gang_bound_pod_by_pod_by_others_p10(c: Case) -> None:
    """Somebody else binds a spot gang pod by pod: it is one gang, and HP evicts it whole."""
    a = c.node("a", 4)
    c.group_of("team", 2)
    first = c.members("first", 1, group="team", gpus=2, node=a.name).runs()
    c.processed()
    second = c.members("second", 1, group="team", gpus=2, node=a.name).runs()
    urgent = c.hp("urgent", 4)
    first.evicted()
    second.evicted()
    urgent.runs()


@table.case(audited=False)
def half_a_gang_bound_by_others_can_be_evicted(c: Case) -> None:
    """Somebody else bound one of two members; HP needs its GPUs."""
    a = c.node("a", 4)
    c.group_of("team", 2)
    first = c.members("first", 1, group="team", gpus=4, node=a.name).runs()
    urgent = c.hp("urgent", 4)
    first.evicted()
    urgent.runs()


# -- HP and spot: who is evicted, who is not --------------------------------------------------------------------------


@table.case(each={"one goes": (1, 1), "r05 both go": (2, 2)})
def gpu_fails_under_spot(c: Case, asked: int, victims: int) -> None:
    """Allocatable falls from 8 to 5 under 8 GPUs of spot: HP evicts there as elsewhere."""
    a = c.node("a", 8)
    spot = c.job("spot", 2, gpus=4).runs()
    a.has_gpus(5)
    urgent = c.hp("urgent", asked)
    spot.evicted(victims)
    urgent.runs(on=a)


@table.case()
def gpu_fails_while_hp_waits(c: Case) -> None:
    """HP of 4 GPUs waits beside 6 of HP; 8 -> 5 under them: they stay, HP says why it waits."""
    a = c.node("a", 8)
    serve = c.deployment("serve", 3, gpus=2).runs()
    late = c.hp("late", 4).waits(NO_ROOM)
    a.has_gpus(5)
    late.keeps_waiting(NO_ROOM)
    serve.survives()


@table.case()
def gpu_fails_while_a_victim_stops(c: Case) -> None:
    """HP of 4 GPUs evicts one of two spot pods of 4; 8 -> 5 meanwhile: the other has to go, too."""
    a = c.node("a", 8)
    spot = c.job("spot", 2, gpus=4, grace=5).runs()
    urgent = c.hp("urgent", 4)
    spot.evicted(1)
    a.has_gpus(5)
    spot.evicted(1)
    urgent.runs(on=a)


@table.case()
def gpu_fails_without_hp(c: Case) -> None:
    """Nobody waits: spot stays although the node has less than it holds."""
    a = c.node("a", 8)
    spot = c.job("spot", 2, gpus=4).runs()
    a.has_gpus(5)
    c.processed()
    spot.survives()


@table.case()
def never_preempts_k24(c: Case) -> None:
    """preemptionPolicy Never: HP waits for room that comes by itself."""
    c.node("a", 4)
    spot = c.spot("spot", 4).runs()
    urgent = c.hp("urgent", 4, priority_class=NEVER).waits(NO_ROOM)
    c.processed()
    spot.succeeds()
    urgent.runs()


@table.case(each={"i02 whole": ("PodGroup", 2), "i03 single": ("Pod", 1)})
def disruption_mode_of_a_basic_group(c: Case, mode: str, victims: int) -> None:
    """A basic group of two pods; HP needs one GPU: both go, or one."""
    c.node("a", 2)
    c.group_of("team", 1, basic=True, disruptionMode=mode)
    team = c.members("team", 2).runs()
    urgent = c.hp("urgent", 1)
    team.evicted(victims)
    urgent.runs()


@table.case()
def disruption_mode_of_a_basic_group_of_a_job_g08(c: Case) -> None:
    c.node("a", 3)
    c.group_of("team", 1, basic=True, disruptionMode="PodGroup")
    team = c.job("team", 3, group="team").runs()
    urgent = c.hp("urgent", 1)
    team.evicted(3)
    urgent.runs()


@table.case()
def disruption_mode_of_a_gang(c: Case) -> None:
    """Three pods with a minimum of two that go together."""
    c.node("a", 3)
    c.group_of("team", 2, disruptionMode="PodGroup")
    team = c.members("team", 3).runs()
    urgent = c.hp("urgent", 1)
    team.evicted(3)
    urgent.runs()


@table.case()
def hp_does_not_evict_for_what_never_fits(c: Case) -> None:
    c.node("a", 4)
    spot = c.spot("spot", 4).runs()
    c.hp("huge", 5).keeps_waiting(NO_ROOM)
    spot.survives()


@table.case()
def hp_gang_does_not_evict_below_its_minimum(c: Case) -> None:
    """An HP gang of 3 of which 2 exist: spot goes on until the third is there."""
    c.node("a", 3)
    spot = c.spot("spot", 3).runs()
    c.group_of("team", 3)
    c.members("team", 2, priority_class="gfs-hp").keeps_waiting(GANG, count=2)
    spot.survives()


@table.case()
def hp_gang_that_never_fits_evicts_nobody(c: Case) -> None:
    c.node("a", 4)
    spot = c.spot("spot", 4).runs()
    c.gang_job("team", 3, gpus=2, hp=True).keeps_waiting(NO_ROOM, count=3)
    spot.survives()


@table.case()
def hp_deleted_while_its_victim_stops(c: Case) -> None:
    """HP goes before its victim is gone: the second victim that it would need is spared."""
    c.node("a", 4)
    victim = c.job("victim", gpus=4, grace=10).runs()
    urgent = c.hp("urgent", 4)
    victim.evicted()
    c.wait(lambda: any(map(is_deleting, c.world.pods[c.namespace].values())), "marked, and deleted a moment later")
    urgent.delete().gone()
    victim.again()


@table.case()
def empty_node_comes_during_a_long_grace_r11(c: Case) -> None:
    """The victim has 500 s to stop; an empty node comes: HP takes it."""
    c.node("a", 4)
    victim = c.spot("victim", 4, grace=500).runs()
    urgent = c.hp("urgent", 4)
    victim.evicted()
    b = c.node("b", 4)
    urgent.runs(on=b)


@table.case()
def room_comes_during_a_long_grace(c: Case) -> None:
    """The victim has 500 s to stop; another pod ends: HP takes its place."""
    a = c.node("a", 4)
    short = c.hp("short", 4).runs(on=a)
    b = c.node("b", 4)
    victim = c.spot("victim", 4, grace=500).runs(on=b)
    urgent = c.hp("urgent", 4)
    victim.evicted()
    short.succeeds()
    urgent.runs(on=a)


@table.case()
def pre_stop_hook(c: Case) -> None:
    """A victim that takes its 6 s to save: HP is bound when it is gone, never before."""
    a = c.node("a", 4)
    victim = c.spot("victim", 4, grace=6).runs()
    urgent = c.hp("urgent", 4)
    victim.evicted()
    urgent.runs(on=a).came_after(victim)


@table.case()
def victim_with_a_finalizer_t07(c: Case) -> None:
    """A finalizer keeps the object of a victim that has ended: its GPUs are free."""
    a = c.node("a", 4)
    victim = c.spot("victim", 4).runs().change({"finalizers": ["everyday.dev/keep"]})
    urgent = c.hp("urgent", 4)
    victim.evicted()
    urgent.runs(on=a)


@table.case()
def victim_hangs_and_a_node_comes_t07(c: Case) -> None:
    """A victim's kubelet is dead: HP looks elsewhere after a bound."""
    c.node("a", 4)
    victim = c.spot("victim", 4).runs().hangs()
    urgent = c.hp("urgent", 4)
    victim.evicted()
    b = c.node("b", 4)
    urgent.runs(on=b)


@table.case()
def victims_that_break_no_budget_go_first(c: Case) -> None:
    a, b = c.node("a", 4), c.node("b", 4)
    kept = c.spot("kept", 4, at=a).runs()
    other = c.spot("other", 4, at=b).runs()
    c.budget(kept, 1)
    urgent = c.hp("urgent", 4)
    other.evicted()
    urgent.runs(on=b)
    kept.survives()


@table.case()
def hp_job_pods_oom_killed(c: Case) -> None:
    """A pod of an HP Job fails; the Job's new pod is bound; spot beside it stays."""
    c.node("a", 4)
    train = c.job("train", 2, hp=True).runs()
    spot = c.spot("spot", 2).runs()
    train.fails(1)
    train.again(1)
    spot.survives()


@table.case()
def image_pull_error(c: Case) -> None:
    """A bound pod that cannot start holds its GPUs and is left alone; deleted, it frees them."""
    c.node("a", 4)
    stuck = c.hp("stuck", 4, never_starts=True).bound()
    late = c.hp("late", 4).waits(NO_ROOM)
    c.processed()
    stuck.delete_pods(grace=0)
    late.runs()


@table.case()
def gang_with_an_image_pull_error(c: Case) -> None:
    """One of two members never starts: the other goes on."""
    a, b = c.node("a", 2), c.node("b", 2)
    c.group_of("team", 2)
    team = c.job("team", 2, gpus=2, hp=True, group="team", never_starts=True).bound(on=[a, b])
    c.processed()
    team.survives()


@table.case()
def pod_failure_policy_sees_the_disruption(c: Case) -> None:
    """An eviction does not count against backoffLimit 0."""
    c.node("a", 4)
    train = c.job("train", gpus=4, backoff_limit=0).runs()
    urgent = c.hp("urgent", 4)
    train.evicted()
    urgent.runs().succeeds()
    train.again()


@table.case()
def spot_deployment_is_evicted_and_comes_back(c: Case) -> None:
    c.node("a", 4)
    batch = c.deployment("batch", 2, hp=False, gpus=2).runs()
    urgent = c.hp("urgent", 2)
    batch.evicted(1)
    urgent.runs()
    batch.waits(NO_ROOM)
    urgent.succeeds()
    batch.runs(2)


@table.case()
def pods_of_other_schedulers_count(c: Case) -> None:
    """Pods of others hold their GPUs and are never touched."""
    a = c.node("a", 4)
    foreign = c.foreign("foreign", 3, a).runs()
    c.hp("urgent", 2).keeps_waiting(NO_ROOM)
    foreign.survives()


@table.case()
def bare_pods_of_a_failed_node(c: Case) -> None:
    """Bare pods of a node that is not ready are not GFS's to delete."""
    a = c.node("a", 4)
    bare = c.spot("bare", 4).runs()
    a.is_ready("Unknown")
    c.processed()
    bare.survives()


@table.case()
def step_of_a_workflow_e32(c: Case) -> None:
    """A pod of an owner that creates nothing again is not deleted when its node looks strange."""
    a = c.node("a", 4)
    step = c.spot("step", 2, workflow=True).runs()
    a.has_gpus(0)
    c.processed()
    a.has_gpus(4)
    c.spot("next", 2).runs()
    step.survives()


@table.case()
def steps_of_a_workflow_in_a_gang_e32(c: Case) -> None:
    """One node of a gang of workflow steps is removed: the step on the other node goes on."""
    a, b = c.node("a", 4), c.node("b", 4)
    c.gang("team", 2, gpus=4, workflow=True).runs(on=[a, b]).survives(on=b)
    a.remove()
    c.processed()


@table.case()
def gang_loses_a_node(c: Case) -> None:
    """One node of an HP gang is removed: the other member goes on, the Job's new pod takes the new node."""
    a, b = c.node("a", 4), c.node("b", 4)
    team = c.gang_job("team", 2, gpus=4, hp=True).runs(on=[a, b]).survives(on=b)
    a.remove()
    team.again(1, on=c.node("c", 4))


@table.case()
def gang_of_bare_pods_loses_a_member(c: Case) -> None:
    """A bare member is deleted for good: the other goes on, the GPUs are free."""
    c.node("a", 4)
    team = c.gang("team", 2, gpus=2, priority_class="gfs-hp").runs().delete_pods(1)
    c.spot("next", 2).runs()
    team.survives()


# -- rules that GFS does not implement are refused, never passed over ----------------------------------------------


def anti_affinity(app: str) -> dict[str, Any]:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@table.case(each={"of others": (True,), "of ours": (False,)})
def anti_affinity_of_running_pods_e21(c: Case, foreign: bool) -> None:
    """A pod on node a wants no neighbour with app=x: such a pod goes to b or is refused."""
    a = c.node("a", 4)
    whose = {} if foreign else {"scheduler": c.group.scheduler, "priority_class": "gfs-spot"}
    c.foreign("lonely", 1, a, affinity=anti_affinity("x"), **whose).runs()
    c.spot("x", 4 - 1, labels={"app": "x"}).keeps_waiting(NO_ROOM, REFUSED)


@table.case()
def anti_affinity_with_another_node(c: Case) -> None:
    a = c.node("a", 4)
    c.foreign("lonely", 1, a, affinity=anti_affinity("x")).runs()
    b = c.node("b", 4)
    c.spot("x", 1, labels={"app": "x"}).never_on(a)
    c.processed()
    c.spot("plain", 3, at=b).runs()


@table.case()
def topology_constraint_that_nothing_satisfies_e27(c: Case) -> None:
    """A gang that must be in one zone, two zones with half the room each: it waits and says why."""
    c.node("a", 4, zone="z1"), c.node("b", 4, zone="z2")
    c.group_of("team", 2, schedulingConstraints={"topology": [{"key": ZONE}]})
    c.members("team", 2, gpus=4).keeps_waiting(NO_ROOM, REFUSED, GANG, count=2)


@table.case()
def topology_constraint_that_one_zone_satisfies(c: Case) -> None:
    """Zones of 1, 1 and 8 GPUs: the gang is in one zone, or refused."""
    c.node("a", 1, zone="z1"), c.node("b", 1, zone="z2")
    z = c.node("z", 8, zone="z3")
    c.group_of("team", 2, schedulingConstraints={"topology": [{"key": ZONE}]})
    team = c.members("team", 2)
    c.processed()
    c.all_or_none(2, team, on=z)


CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}


@table.case(each={"dra claim": (CLAIM, "dynamic resource"), "no class": ({"priority_class": ""}, "class")})
def refused(c: Case, rule: dict[str, Any], word: str) -> None:
    """A rule that GFS does not know: refused with that reason, no capacity is asked for."""
    c.node("a", 4)
    c.spot("ruled", **rule).keeps_waiting(REFUSED, saying=word)
    c.spot("plain").runs()


@table.case()
def refused_pod_becomes_acceptable(c: Case) -> None:
    """The class of a refused pod cannot change, but its replacement is bound at once."""
    c.node("a", 4)
    c.spot("pod", priority_class="").waits(REFUSED).delete().gone()
    c.spot("pod").runs()


# -- classes, selectors, labels ---------------------------------------------------------------------------------------


@table.case()
def priority_class_created_again(c: Case) -> None:
    """The class is deleted and created again with another value: running pods stay, new ones are HP."""
    c.node("a", 4)
    first = c.hp("first", 2, priority_class=REMADE).runs()
    c.remake_class(REMADE, 2000)
    second = c.hp("second", 2, priority_class=REMADE).runs()
    c.hp("third", 1).keeps_waiting(NO_ROOM)
    first.survives(), second.survives()


@table.case()
def node_label_that_a_waiting_pod_wants_comes(c: Case) -> None:
    a = c.node("a", 4)
    pod = c.spot("pod", nodeSelector={"disk": "fast"}).waits(NO_ROOM)
    a.label(disk="fast")
    pod.runs(on=a)


@table.case()
def node_relabelled_for_waiting_pods(c: Case) -> None:
    """Pods of a model that no node has wait; a node is corrected to that model: they are bound."""
    a = c.node("a", 4, model=f"{c.model}-wrong")
    early = c.job("early", 2).waits(NO_ROOM, count=2)
    a.label(model=c.model)
    early.runs(on=a)


@table.case()
def taint_removed(c: Case) -> None:
    a = c.node("a", 4)
    a.taint()
    pod = c.spot("pod").waits(NO_ROOM)
    a.untaint()
    pod.runs(on=a)


@table.case()
def uncordoned(c: Case) -> None:
    a = c.node("a", 4)
    a.cordon()
    gang = c.gang_job("gang", 2, gpus=2).waits(NO_ROOM, count=2)
    a.cordon(on=False)
    gang.runs(on=a)


@table.case()
def taint_that_evicts(c: Case) -> None:
    """NoExecute: Kubernetes evicts the pod, its Job's new pod goes to another node."""
    a = c.node("a", 4)
    train = c.job("train", gpus=4).runs(on=a)
    b = c.node("b", 4)
    a.taint("NoExecute")
    train.again(on=b)


@table.case()
def model_label_comes_late(c: Case) -> None:
    """A new node has GPUs before feature discovery has named the model."""
    a = c.node("a", 4)
    a.label(model=None)
    train = c.job("train", 2, gpus=2).waits(NO_ROOM, count=2)
    a.label(model=c.model)
    train.runs(on=a)


@table.case()
def node_that_a_waiting_pod_names_is_removed(c: Case) -> None:
    """A pod waits for a node by name; the node goes: it waits on, the others do not."""
    a, b = c.node("a", 4), c.node("b", 4)
    c.spot("runs", 4, at=a).runs()
    waits = c.spot("waits", 1, at=a).waits(NO_ROOM)
    a.remove()
    c.spot("free", 4).runs(on=b)
    waits.keeps_waiting(NO_ROOM)


@table.case()
def more_gpus_appear(c: Case) -> None:
    """A node is seen before its device plug-in reports: pods wait, then are bound."""
    a = c.node("a", 4)
    a.has_gpus(0)
    pods = c.job("train", 2, gpus=2).waits(NO_ROOM, count=2)
    a.has_gpus(4)
    pods.runs(on=a)


@table.case("alone")
def all_nodes_relabelled_idle(c: Case) -> None:
    """A pod without selector waits; all nodes get another model: it is bound, and before a newcomer."""
    a = c.node("a", 4)
    blocks = c.hp("blocks", 4, by_model=False).runs()
    early = c.spot("early", 4, by_model=False).waits(NO_ROOM)
    a.label(model=f"{c.model}-x")
    blocks.succeeds()
    early.runs(on=a)


# -- waiting for quota ------------------------------------------------------------------------------------------------


@table.case("quota", each={"bare": ("spot",), "job": ("job",)})
def spot_waits_for_quota(c: Case, kind: str) -> None:
    """There is room and no quota: a reason that autoscalers ignore."""
    c.node("a", 4)
    getattr(c, kind)("waits").keeps_waiting(QUOTA)
    c.hp("urgent", 4).runs()


@table.case("quota")
def spot_gang_waits_for_quota(c: Case) -> None:
    c.node("a", 4)
    c.gang_job("team", 2).keeps_waiting(QUOTA, count=2)


@table.case("quota")
def hp_does_not_wait_for_quota(c: Case) -> None:
    c.node("a", 4)
    c.hp("first", 4).runs()
    c.hp("second", 4).keeps_waiting(NO_ROOM)


@table.case("quota")
def refused_spot_does_not_wait_for_quota(c: Case) -> None:
    c.node("a", 4)
    c.spot("ruled", **CLAIM).keeps_waiting(REFUSED)


# -- bindings under way ------------------------------------------------------------------------------------------------


@table.case()
def binding_of_a_gang_refused(c: Case) -> None:
    """The API server refuses one binding of two and the other pod has not started: it is taken back and comes back."""
    a, b = c.node("a", 4), c.node("b", 4)
    with c.closed_to_bindings(b):
        team = c.gang_job("team", 2, gpus=4, never_starts=True)
        team.taken_back()
        team.hangs(on=False)
    team.bound(on=[a, b])


@table.case(audited=False)
def binding_refused_for_bare_pods(c: Case) -> None:
    """Nobody creates a bare pod again: it is held, and the rest joins it."""
    a, b = c.node("a", 4), c.node("b", 4)
    with c.closed_to_bindings(b):
        team = c.gang("team", 2, gpus=4, never_starts=True).bound(1, on=a).survives()
        team.waits()
    team.bound(on=[a, b])


@table.case()
def binding_of_a_single_pod_refused(c: Case) -> None:
    """A refused binding is tried again, and elsewhere."""
    a = c.node("a", 4)
    with c.closed_to_bindings(a):
        pod = c.hp("pod", 4).waits()
    pod.runs(on=a)


@table.case(audited=False)
def nodes_shrink_while_bindings_are_under_way_r03(c: Case) -> None:
    """20 nodes shrink from 8 to 5 while 40 pods of 4 GPUs are bound: no more than the node has by then."""
    nodes = [c.node(f"n{i}", 8) for i in range(20)]
    c.job("burst", 40, gpus=4)
    c.wait(lambda: any(map(c.pods_on, nodes)), "the first is bound")
    c.at_once(*(partial(node.has_gpus, 5) for node in nodes))
    c.nothing_bound_beyond(5, nodes, c.processed())


# -- the test ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def play(bench: Bench, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """All chosen cases, played at once."""
    chosen = [i.callspec.params["story"] for i in request.session.items if i.function is test_everyday]  # type: ignore[attr-defined]
    stories = chosen or [*table.stories.values()]
    with played(bench, stories, tmp_path_factory.mktemp("everyday")) as result:
        yield result


@pytest.mark.parametrize("story", table.stories.values(), ids=str)
def test_everyday(play: Play, story: Story) -> None:
    problem = play.outcomes[story.name]
    if isinstance(problem, AssertionError):  # it says all that is to be known
        pytest.fail(f"{story.text}\n{problem}", pytrace=False)
    if problem is not None:
        raise problem


def test_the_recorded_watch_of_all_cases_is_sound(play: Play, audit_watch: Callable[..., Any]) -> None:
    apart = [case.namespace for case in play.cases.values() if not case.story.audited]
    broken = []
    for group in play.groups.values():
        audited = audit_watch(play.watch, "--scheduler", group.scheduler)
        if audited is None:
            pytest.skip("the auditor is not at hand")
        broken += [line for line in audited.stdout.splitlines() if line.startswith("BROKEN")]
    wrong = [line for line in broken if not any(name in line for name in apart)]
    if wrong := [line for line in wrong if not is_status_of_an_old_binding(line, play.watch)]:
        pytest.fail("\n".join(wrong), pytrace=False)


def is_status_of_an_old_binding(finding: str, watch: Path) -> bool:
    """Whether a pod that is said to be bound to a node that is gone was bound while the node was there.

    KWOK may write once more that a pod runs after the garbage collector has marked it as failed. The auditor takes
    that for a new binding.
    """
    said = re.fullmatch(r"BROKEN: line (\d+): (\S+)/(\S+) was bound to (\S+), which does not exist", finding)
    if said is None:
        return False
    *earlier, last = watch.read_text().splitlines()[: int(said[1])]
    uid, node = json.loads(last)["object"]["metadata"]["uid"], said[4]
    known = False
    for line in earlier:
        if uid in line or f'"name": "{node}"' in line:
            each = json.loads(line)
            if each["object"]["metadata"]["name"] == node and each["type"] == "DELETED":
                return known
            known |= each["object"]["metadata"]["uid"] == uid and each["object"]["spec"].get("nodeName") == node
    return False
