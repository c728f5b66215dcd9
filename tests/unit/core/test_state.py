"""Worked stories of what happens to tasks, runs and nodes, told to a scheduler event by event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import pytest

from builders import Draft, hp, nodes, spot
from gfs import SCHEDULERS, NodeSpec, Parameters, Priority, Task
from gfs.assembly.schedulers import build_scheduler
from gfs.core.actions import Plan
from gfs.core.events import (
    Cancelled,
    EvictionDone,
    Finished,
    Lost,
    NodeChange,
    NodeChangeKind,
    NodesChanged,
    StartFailed,
    Submitted,
    Tick,
    Wake,
)
from gfs.core.invariants import check_state
from gfs.core.ledger import LIVE_LOOK_BACK, GuaranteeLedger
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.core.state import PoolState
from gfs.domain.errors import StalePolicyError
from gfs.domain.units import DAY, HOUR
from gfs.forecasting.meter import SLACK, STEP, DemandMeter
from gfs.policies.gfs.reservation import ReservedNodes
from gfs.quota.waits import SpotWaits

T = TypeVar("T")
every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
GREEDY = sorted(set(SCHEDULERS) - {"chronus"})
every_greedy_scheduler = pytest.mark.parametrize("scheduler", GREEDY)


class Live:
    """A scheduler and the tasks it was told of, by name."""

    def __init__(self, *sizes: int, scheduler: str = "gfs", model: str = "A100", **parameters: Any) -> None:
        parameters.setdefault("quota", "none")
        self.scheduler: Scheduler = build_scheduler(
            scheduler, nodes(*sizes, model=model), Parameters(**parameters), period=7200.0, check=True
        )
        self.tasks: dict[str, Task] = {}

    def task(self, draft: Draft) -> Task:
        task = self.tasks[draft.name] = draft.task(len(self.tasks))
        return task

    def submit(self, now: float, *drafts: Draft) -> Plan:
        return self.tell(now, *(Submitted(self.task(draft)) for draft in drafts))

    def tell(self, now: float, *events: Any) -> Plan:
        plan = self.scheduler.handle(now, list(events))
        for pool in self.scheduler.pools.values():
            check_state(pool.state)
        return plan

    def state(self, model: str = "A100") -> PoolState:
        return self.scheduler.pools[model].state

    def part(self, kind: type[T], model: str = "A100") -> T:
        """The part of this kind that listens."""
        told = (getattr(tell, "__self__", None) for tell in self.state(model).listeners.submitted)
        return next(part for part in told if isinstance(part, kind))

    def run(self, name: str) -> Run:
        task = self.tasks[name]
        return self.state(task.gpu_model).runs[task.index]

    def waits(self) -> dict[str, str]:
        return {task.name: reason.text() for task, reason in self.scheduler.waiting()}

    def idle(self) -> int:
        return self.state().pool.idle


def started(plan: Plan) -> list[str]:
    return [run.task.name for run in plan.starts]


def evicted(plan: Plan) -> list[str]:
    return [eviction.run.task.name for eviction in plan.evictions]


# -- cancelled -----------------------------------------------------------------------------------------------


@every_scheduler
def test_a_task_cancelled_while_it_waits_leaves_no_trace(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler, quota="weekly-peak", starvation_timeout=600.0)
    live.submit(300, hp("h1", gpus=4), hp("h2", gpus=2), spot("s1", gpus=2), spot("s2", gpus=4))
    live.tell(3000, Tick())
    state = live.state()
    assert live.part(DemandMeter).level().sum() == 6
    live.tell(3010, *(Cancelled(live.tasks[name]) for name in ("h2", "s1", "s2")))
    assert live.waits() == {}
    assert not state.waiting
    assert live.part(DemandMeter).level().sum() == 4
    assert live.part(SpotWaits).longest(0.1, 4000.0) == 0
    if scheduler == "gfs-plus":
        assert state.memory[ReservedNodes].task is None
    live.tell(3020, Finished(live.run("h1")))
    plan = live.tell(3300, Tick())
    assert not plan.starts
    assert live.idle() == 4


@every_scheduler
def test_newcomers_count_when_a_node_has_room_again_in_their_instant(scheduler: str) -> None:
    """A node that holds too much has room again just when tasks come."""
    live = Live(4, 4, scheduler=scheduler, quota="weekly-peak", starvation_timeout=600.0)
    live.submit(0, hp("a", gpus=2), hp("b", gpus=2))
    live.tell(300, Tick())
    (node,) = live.run("a").nodes
    assert live.run("b").nodes == [node], "both on one node, which loses two of its four cards"
    smaller = replace(node.spec, gpus=2)
    live.tell(400, NodesChanged([NodeChange(NodeChangeKind.RESIZED, smaller)]))
    assert node.overfull
    events = [Submitted(live.task(hp("c", gpus=8))), Submitted(live.task(spot("s", gpus=8)))]
    live.tell(700, Finished(live.run("a")), *events, Tick())
    assert not node.overfull
    assert live.part(DemandMeter).level().sum() == 2 + 8, "b runs, c waits"
    assert live.part(SpotWaits).longest(1.0, 1000.0) == 300
    live.tell(1000, *(Cancelled(live.tasks[name]) for name in "bcs"), Tick())
    assert live.part(DemandMeter).level().sum() == 0


def test_nodes_reserved_for_a_cancelled_task_are_given_free_at_once() -> None:
    live = Live(4, scheduler="gfs-plus", starvation_timeout=600.0)
    live.submit(0, spot("s1", gpus=2))
    live.submit(1, spot("big", gpus=4))
    live.submit(1000, spot("s3", gpus=8))  # a look at who waits: the node is reserved for `big`
    reserved = live.state().memory[ReservedNodes]
    assert reserved.task is live.tasks["big"]
    assert [node.name for node in reserved.nodes] == ["n0"]
    assert started(live.submit(1020, spot("s4", gpus=2))) == []
    assert "reserved for big" in live.waits()["s4"]
    plan = live.tell(1030, Cancelled(live.tasks["big"]))
    assert reserved.task is None
    assert not reserved.nodes
    assert started(plan) == ["s4"]


def test_a_cancelled_head_lets_the_next_one_try() -> None:
    live = Live(4, scheduler="yarn-cs")
    live.submit(0, hp("h1", gpus=2), hp("h2", gpus=4), hp("h3", gpus=2))
    assert live.waits()["h3"] == "queued behind h2, which does not fit yet"
    assert started(live.tell(1, Cancelled(live.tasks["h2"]))) == ["h3"]


@every_greedy_scheduler
def test_a_cancelled_run_gives_its_cards_back(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, hp("h1", gpus=4), hp("h2", gpus=4))
    plan = live.tell(10, Cancelled(live.tasks["h1"]))
    assert started(plan) == ["h2"]
    assert live.run("h2").since == 0
    assert not live.tell(11, Finished(live.run("h2")), Cancelled(live.tasks["h1"])).starts
    assert live.idle() == 4


def test_cancelled_in_the_instant_of_submission_it_never_was() -> None:
    live = Live(4)
    task = live.task(hp("h"))
    plan = live.tell(0, Cancelled(task), Submitted(task))
    assert not plan.starts
    assert live.waits() == {}


def test_cancelled_as_it_finishes_it_has_finished() -> None:
    live = Live(4)
    live.submit(0, spot("s", gpus=4, hours=1))
    live.tell(60, Cancelled(live.tasks["s"]), Finished(live.run("s")))
    assert live.state().ledger.totals(60) == (0, 1)
    assert live.idle() == 4


def test_told_twice_in_one_instant_a_task_that_is_over_does_not_come_back() -> None:
    live = Live(4)
    live.submit(0, hp("h1", gpus=4), hp("h2", gpus=4))
    plan = live.tell(
        5,
        Submitted(live.tasks["h1"]),
        Submitted(live.tasks["h2"]),
        Finished(live.run("h1")),
        Cancelled(live.tasks["h2"]),
    )
    assert not plan.starts
    assert live.waits() == {}
    assert live.idle() == 4


# -- in a grace period ---------------------------------------------------------------------------------------


def preempting(scheduler: str = "gfs", **parameters: Any) -> tuple[Live, Run]:
    """Spot task s has been evicted for h at 100, and has not left yet."""
    live = Live(4, scheduler=scheduler, **parameters)
    live.submit(0, spot("s", gpus=4))
    victim = live.run("s")
    plan = live.submit(100, hp("h", gpus=4))
    assert (evicted(plan), started(plan)) == (["s"], ["h"])
    assert live.run("h").start == 130
    return live, victim


@every_greedy_scheduler
def test_room_of_an_hp_run_that_is_cancelled_in_its_grace_period_is_promised_until_the_victim_has_left(
    scheduler: str,
) -> None:
    live, victim = preempting(scheduler)
    plan = live.tell(110, Cancelled(live.tasks["h"]))
    assert started(plan) == ["s"]
    assert live.run("s").start == 130, "its first run is still there"
    assert live.idle() == 0
    plan = live.submit(111, hp("h2", gpus=1))
    assert started(plan) == ["h2"]
    assert not plan.evictions, "a run that has not begun is not evicted"
    assert (live.state().waiting[live.tasks["s"].index].number, live.run("h2").start) == (2, 130)
    plan = live.tell(140, EvictionDone(victim))
    assert live.run("h2").start == 140
    assert live.idle() == 3
    assert not live.tell(141, EvictionDone(victim)).starts, "told twice"


@every_greedy_scheduler
@pytest.mark.parametrize("event", [Lost, StartFailed])
def test_an_hp_run_that_fails_in_its_grace_period_was_not_tried(scheduler: str, event: type) -> None:
    live, victim = preempting(scheduler)
    plan = live.tell(110, event(live.run("h")))
    assert not plan.lost
    assert not plan.evictions
    assert started(plan) == ["h"]
    assert (live.run("h").number, live.run("h").start, live.run("h").since) == (1, 130, 100)
    live.tell(125, EvictionDone(victim))
    assert (live.run("h").start, live.run("h").since) == (125, 100)


def test_what_a_victim_has_beside_its_taker_is_held_until_it_has_left() -> None:
    live = Live(8)
    live.submit(0, spot("s", gpus=8))
    victim = live.run("s")
    live.submit(100, hp("h", gpus=4))
    assert live.run("h").start == 130
    live.submit(110, spot("small", gpus=2))
    assert live.run("small").start == 130, "the victim is still on all 8 GPUs"
    live.submit(115, hp("h2", gpus=2))
    assert live.run("h2").start == 130
    live.tell(120, EvictionDone(victim))
    assert [live.run(name).start for name in ("h", "small", "h2")] == [120, 120, 120]
    live.tell(125, Finished(live.run("h2")))
    live.submit(126, spot("later", gpus=2))
    assert live.run("later").start == 126


def test_idle_gpus_beside_a_leaving_victim_are_used_at_once() -> None:
    live = Live(8)
    live.submit(0, spot("s", gpus=4))
    live.submit(100, hp("h", gpus=7))
    assert live.run("h").start == 130
    live.submit(101, spot("one", gpus=1))
    # 8 GPUs, 4 held by the victim; of the 4 others 3 are promised to h.
    assert live.run("one").start == 101


def test_cpus_of_a_victim_are_held_until_it_has_left() -> None:
    live = Live(8)
    spec = replace(live.state().nodes[0].spec, cpus=32.0)
    live.tell(0, NodesChanged([NodeChange(NodeChangeKind.RESIZED, spec)]))
    live.submit(0, spot("s", gpus=2, cpus=24))
    live.submit(100, hp("h", gpus=1, cpus=16))
    live.submit(101, spot("small", gpus=1, cpus=4), spot("large", gpus=1, cpus=8))
    # Of 32 CPUs the victim holds 24. h is promised 16 of these, so 8 are held and 8 are free.
    assert (live.run("small").start, live.run("large").start) == (101, 130)


@pytest.mark.parametrize("left", [101.0, 130.0, 200.0])
def test_the_real_length_of_an_eviction_moves_the_start(left: float) -> None:
    live, victim = preempting()
    live.tell(left, EvictionDone(victim))
    run = live.run("h")
    assert (run.start, run.progress_from) == (left, left)
    assert not live.state().pending
    assert not live.state().leaving


def test_an_hp_run_begins_when_the_last_of_its_victims_has_left() -> None:
    live = Live(4)
    live.submit(0, spot("s1", gpus=2), spot("s2", gpus=2))
    first, second = live.run("s1"), live.run("s2")
    live.submit(100, hp("h", gpus=4))
    live.tell(105, EvictionDone(first))
    assert live.run("h").start == 130
    live.tell(150, EvictionDone(second))
    assert live.run("h").start == 150


def test_a_restarted_run_begins_its_progress_an_overhead_after_its_start() -> None:
    live = Live(4)
    live.submit(0, hp("h", gpus=4))
    live.tell(50, NodesChanged([NodeChange(NodeChangeKind.CORDONED, nodes(4)[0])]), Lost(live.run("h")))
    live.submit(60, spot("s", gpus=4))
    plan = live.tell(70, NodesChanged([NodeChange(NodeChangeKind.UNCORDONED, nodes(4)[0])]))
    assert started(plan) == ["h"]
    run = live.run("h")
    assert (run.number, run.start, run.progress_from, run.since) == (2, 70, 110, 50)


# -- lost, and never begun -----------------------------------------------------------------------------------


@every_greedy_scheduler
def test_a_lost_run_waits_by_its_submission(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, hp("h1", gpus=4))
    live.submit(10, hp("h2", gpus=4))
    plan = live.tell(20, Lost(live.run("h1")))
    assert started(plan) == ["h1"], "it was submitted first"
    assert (live.run("h1").number, live.run("h1").since) == (2, 20)
    assert not plan.lost, "whoever told it knows"


@every_greedy_scheduler
def test_a_failed_start_is_as_if_not_tried(scheduler: str) -> None:
    live = Live(4, 4, scheduler=scheduler)
    live.submit(0, spot("a", gpus=4), hp("b", gpus=4))
    live.submit(5, spot("s", gpus=4))
    live.submit(6, spot("t", gpus=4))
    plan = live.tell(60, Finished(live.run("a")))
    assert started(plan) == ["s"]
    close = NodesChanged([NodeChange(NodeChangeKind.CORDONED, spec) for spec in nodes(4, 4)])
    live.tell(61, StartFailed(live.run("s")), close)
    waiting = live.state().waiting[live.tasks["s"].index]
    assert (waiting.number, waiting.since) == (1, 5)
    assert live.state().ledger.counts(0, 1e6) == (0, 1, 1, 1, 0), "nobody was evicted, only `a` kept its promise"
    opened = NodesChanged([NodeChange(NodeChangeKind.UNCORDONED, spec) for spec in nodes(4, 4)])
    assert started(live.tell(70, opened)) == ["s"]
    run = live.run("s")
    assert (run.number, run.since, run.start, run.progress_from) == (1, 5, 70, 70)


def test_a_spot_run_lost_after_a_second_has_kept_no_guarantee() -> None:
    live = Live(4)
    live.submit(0, spot("s", gpus=4, hours=1))
    live.tell(1, Lost(live.run("s")))
    assert live.state().ledger.totals(1) == (0, 0)
    assert live.run("s").number == 2
    assert live.state().ledger.totals(HOUR) == (0, 0), "the first run would have had its hour by now"
    assert live.state().ledger.totals(HOUR + 1) == (0, 1), "the second one has"


def test_a_spot_run_lost_in_its_third_hour_has_kept_two() -> None:
    live = Live(4)
    live.submit(0, spot("s", gpus=4, hours=1))
    live.tell(2.5 * HOUR, Lost(live.run("s")))
    assert live.state().ledger.totals(2.5 * HOUR) == (0, 2)


def test_a_node_that_fails_takes_gangs_with_it_whole() -> None:
    live = Live(4, 4)
    live.submit(0, hp("h", gpus=4, pods=2))
    plan = live.tell(10, NodesChanged([NodeChange(NodeChangeKind.FAILED, nodes(4, 4)[1])]))
    assert [(lost.run.task.name, lost.text()) for lost in plan.lost] == [("h", "node n1 failed")]
    assert live.idle() == 4
    assert live.state().waiting[0].number == 2


def test_resizing_and_failing_in_one_event() -> None:
    """A gang on both nodes: one gets smaller, the other fails, all told at once."""
    live = Live(4, 4)
    live.submit(0, hp("a", gpus=1), hp("gang", gpus=0.5, pods=16))
    first, second = nodes(4, 4)
    live.submit(1, spot("s", gpus=1))
    smaller = NodeSpec(first.index, first.name, first.gpu_model, 3)
    live.tell(2, NodesChanged([NodeChange(NodeChangeKind.RESIZED, smaller), NodeChange(NodeChangeKind.FAILED, second)]))
    assert live.state().pool.capacity in (0, 3)


def test_a_node_that_got_smaller_opens_when_what_it_holds_fits_again() -> None:
    live = Live(4)
    live.submit(0, hp("h1", gpus=2), hp("h2", gpus=2), hp("h3", gpus=1))
    spec = nodes(4)[0]
    live.tell(1, NodesChanged([NodeChange(NodeChangeKind.RESIZED, NodeSpec(0, spec.name, spec.gpu_model, 3))]))
    assert live.state().pool.capacity == 3
    plan = live.tell(2, Finished(live.run("h1")))
    assert started(plan) == ["h3"]
    (node,) = live.state().nodes
    assert live.run("h2").nodes == live.run("h3").nodes == [node]
    assert (node.idle, node.surplus) == (0, 0), "as many as it still has"


def test_where_a_node_holds_too_much_the_others_go_on() -> None:
    live = Live(4, 4)
    live.submit(0, hp("h1", gpus=4), hp("h2", gpus=4), hp("h3", gpus=4))
    on = live.run("h1").places[0][0].spec
    live.tell(1, NodesChanged([NodeChange(NodeChangeKind.RESIZED, NodeSpec(on.index, on.name, on.gpu_model, 2))]))
    assert started(live.tell(2, Finished(live.run("h2")))) == ["h3"]


# -- models and nodes ----------------------------------------------------------------------------------------


@every_scheduler
def test_a_task_for_a_model_without_nodes_waits_until_there_is_one(scheduler: str) -> None:
    live = Live(8, scheduler=scheduler)
    plan = live.submit(300, hp("h", gpus=4, model="H20"), spot("s", gpus=2, model="H20"))
    assert not plan.starts
    live.tell(600, Tick(), Wake())
    assert live.waits() == dict.fromkeys(("h", "s"), "no node has GPU model H20")
    assert live.idle() == 8
    added = [NodeSpec(7, "new", "H20", 8), NodeSpec(8, "newer", "H20", 8)]
    plan = live.tell(900, NodesChanged([NodeChange(NodeChangeKind.ADDED, spec) for spec in added]))
    assert sorted(started(plan)) == ["h", "s"]
    assert {node.name for run in plan.starts for node in run.nodes} <= {"new", "newer"}
    assert live.run("h").since == 300


@every_scheduler
def test_a_pool_without_nodes_can_be_asked_anything(scheduler: str) -> None:
    live = Live(scheduler=scheduler)
    live.tell(0, Tick(), Wake())
    live.submit(1, hp("h", gpus=8, pods=3), hp("f", gpus=0.5), spot("s", gpus=4), spot("g", gpus=0.25, pods=2))
    live.tell(300, Tick(), Wake())
    assert set(live.waits().values()) == {"no node has GPU model A100"}
    live.tell(310, Cancelled(live.tasks["h"]), Cancelled(live.tasks["g"]))
    gone = NodeSpec(0, "n0", "A100", 8)
    live.tell(320, *[NodesChanged([NodeChange(kind, gone)]) for kind in list(NodeChangeKind)[1:6]])
    assert sorted(live.waits()) == ["f", "s"]


@every_scheduler
def test_all_nodes_removed_and_another_added(scheduler: str) -> None:
    live = Live(4, 4, scheduler=scheduler)
    live.submit(0, hp("h", gpus=4), spot("s", gpus=4))
    plan = live.tell(300, NodesChanged([NodeChange(NodeChangeKind.REMOVED, spec) for spec in nodes(4, 4)]))
    assert sorted(lost.text() for lost in plan.lost) == ["node n0 was removed", "node n1 was removed"]
    assert set(live.waits().values()) == {"no node has GPU model A100"}
    added = [NodeSpec(3, "n3", "A100", 4), NodeSpec(4, "n4", "A100", 4)]
    plan = live.tell(600, NodesChanged([NodeChange(NodeChangeKind.ADDED, spec) for spec in added]))
    assert sorted((run.task.name, run.number) for run in plan.starts) == [("h", 2), ("s", 2)]


def test_closed_nodes_are_named_as_the_reason() -> None:
    live = Live(4, 4)
    live.tell(0, NodesChanged([NodeChange(NodeChangeKind.CORDONED, spec) for spec in nodes(4, 4)]))
    live.submit(1, hp("h"))
    assert live.waits() == {"h": "pool A100: all 2 nodes closed (cordoned or failed)"}


# -- order within an instant ---------------------------------------------------------------------------------


def test_the_order_given_does_not_matter() -> None:
    """Told in the worst order: the cards of the one who finishes go to the first of those who come."""
    plans = []
    for backwards in (False, True):
        live = Live(4, 4, scheduler="static")
        live.submit(0, hp("h0", gpus=4), hp("h1", gpus=4))
        tasks = [live.task(hp(f"h{number}", gpus=4)) for number in range(2, 6)]
        events = [
            Finished(live.run("h0")),
            Lost(live.run("h1")),
            Cancelled(tasks[0]),
            NodesChanged([NodeChange(NodeChangeKind.ADDED, NodeSpec(5, "n5", "A100", 4))]),
            Tick(),
            *(Submitted(task) for task in tasks),
            Wake(),
        ]
        plans.append(started(live.tell(10, *(reversed(events) if backwards else events))))
    assert plans[0] == plans[1] == ["h1", "h3", "h4"]


def test_lost_runs_of_one_instant_are_queued_by_submission() -> None:
    orders = []
    for backwards in (False, True):
        live = Live(4, 4, scheduler="chronus")
        live.submit(0, hp("h0", gpus=4), hp("h1", gpus=4))
        lost = [Lost(live.run("h0")), Lost(live.run("h1"))]
        live.tell(10, *(reversed(lost) if backwards else lost))
        orders.append(list(live.state().waiting))
    assert orders == [[0, 1], [0, 1]]


# -- what is remembered, and for how long --------------------------------------------------------------------


def kept_and_broken(ledger: GuaranteeLedger, at: float) -> None:
    """Within a second of `at` a spot run finishes and another one is evicted."""
    task = spot("s", hours=1).task(0)
    for stop in (ledger.finished, ledger.broken):
        run = Run(task, 1, [], at, at)
        ledger.started(run, at)
        stop(run, at + 1)
        run.alive = False


def test_f_and_g_cover_thirty_days() -> None:
    """One of each a day. The look back is cut in steps of six hours, and asked at every one of them."""
    ledger = GuaranteeLedger(LIVE_LOOK_BACK)
    for step in range(4 * 100):
        now = step * 6 * HOUR
        if step % 4 == 0:
            kept_and_broken(ledger, now)
        evicted, completed = ledger.totals(now + 2)
        assert evicted == completed
        days = step // 4 + 1
        assert min(days, 30) <= evicted <= min(days, 31)
    assert ledger.counts(0, 100 * DAY) == (100, 100, 100, 100, 100), "the feedback counts by itself, from look to look"
    for step in range(4 * 100, 4 * 131):
        ledger.totals(step * 6 * HOUR)
    assert ledger.totals(131 * DAY) == (0, 0)
    assert len(ledger._marks) <= 30 * 4 + 2


def test_without_a_look_back_f_and_g_cover_everything() -> None:
    ledger = GuaranteeLedger()
    for day in range(100):
        kept_and_broken(ledger, day * DAY)
    assert ledger.totals(1e9) == (100, 100)


@pytest.mark.parametrize("days", [28.0, 60.0])
def test_demand_of_long_ago_is_dropped(days: float) -> None:
    short, long = DemandMeter("A100", days=days), DemandMeter("A100", days=10_000.0)
    for meter in (short, long):
        for hour in range(24 * 200):
            task = hp(f"h{hour}", gpus=1 + hour % 7, org=f"org{hour // (24 * 50)}").task(hour)
            meter.submitted(task, hour * HOUR)
            meter.withdrawn(task, hour * HOUR + 600)
    now = 200 * DAY
    kept, everything = short.history(now), long.history(now)
    assert everything.hours == 24 * 200
    assert days * 24 <= kept.hours <= days * 24 + 24 * 7 + 1
    recent = everything.since(everything.end - kept.hours)
    heard = [row for row, gpus in enumerate(recent.gpus) if gpus.any()]
    assert kept.keys == recent.only(heard).keys, "who has wanted nothing since is forgotten"
    assert (kept.gpus == recent.gpus[heard]).all(), "what is kept is what it was"
    assert short._record.hourly.shape[1] <= days * DAY / STEP + 2 * SLACK + 24


def test_a_meter_that_was_silent_for_longer_than_it_remembers() -> None:
    meter = DemandMeter("A100", days=28.0)
    task = hp("h", gpus=4).task(0)
    meter.submitted(task, 0.0)
    meter.withdrawn(task, 100 * DAY)
    history = meter.history(400 * DAY)
    assert history.hours <= 28 * 24 + 7 * 24 + 1
    assert not history.gpus.any()
    assert not task.is_spot


# -- told twice, late, or of things unknown ------------------------------------------------------------------


@every_scheduler
def test_a_task_told_of_twice_in_an_instant_starts_once(scheduler: str) -> None:
    live = Live(8, scheduler=scheduler, quota="weekly-peak")
    task = live.task(hp("h", gpus=2))
    plan = live.tell(300, Submitted(task), Submitted(task), Tick())
    assert started(plan) == ["h"]
    assert live.idle() == 6
    assert live.part(DemandMeter).level().sum() == 2


@every_scheduler
def test_a_task_told_of_again_later_goes_on_as_it_was(scheduler: str) -> None:
    """One runs on 6 of 8 cards, one waits for 4: to hear of either again starts neither, nor queues it twice."""
    live = Live(8, scheduler=scheduler, quota="weekly-peak")
    runs, waits = live.task(hp("runs", gpus=6)), live.task(hp("waits", gpus=4))
    live.tell(300, Submitted(runs), Tick())
    live.tell(310, Submitted(waits))
    run = live.run("runs")
    for task in (runs, waits):
        assert not live.tell(320, Submitted(task)).starts
    assert live.run("runs") is run
    assert (live.idle(), list(live.waits())) == (2, ["waits"])
    assert live.part(DemandMeter).level().sum() == 10
    plans = [live.tell(330, Finished(run)), live.tell(600, Tick())]
    assert [name for plan in plans for name in started(plan)] == ["waits"]


@every_scheduler
@pytest.mark.parametrize("event", [Finished, Lost, StartFailed, EvictionDone])
def test_what_is_said_of_a_run_that_nobody_knows_is_passed_over(scheduler: str, event: Any) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, hp("h", gpus=2))
    for model in ("A100", "H20"):
        stranger = Task(77, "x", "lab", model, Priority.HP, 1, 1.0, 0.0)
        assert not live.tell(5, event(Run(stranger, 1, [], 0.0, 0.0))).starts
        assert not live.tell(6, Cancelled(stranger)).starts
    assert list(live.scheduler.pools) == ["A100"], "to hear of a model makes no pool"


@every_scheduler
def test_a_run_is_known_by_its_object(scheduler: str) -> None:
    """After a failed start the next run has the same number: what is said of the first is not said of the second."""
    live = Live(4, scheduler=scheduler)
    live.submit(0, hp("h", gpus=2))
    live.tell(300, Wake(), Tick())
    first = live.run("h")
    live.tell(310, StartFailed(first))
    live.tell(600, Wake(), Tick())
    second = live.run("h")
    assert second is not first
    assert second.number == first.number == 1
    live.tell(610, Finished(first), Lost(first))
    assert live.run("h") is second


@every_greedy_scheduler
def test_a_run_in_its_grace_period_is_not_done(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, spot("s", gpus=4))
    (run,) = live.submit(10, hp("h", gpus=4)).starts
    live.tell(20, Finished(run))
    assert live.run("h") is run
    assert live.idle() == 0


@every_greedy_scheduler
def test_a_start_that_dies_with_its_node_in_the_grace_period_is_told(scheduler: str) -> None:
    live = Live(4, scheduler=scheduler)
    live.submit(0, spot("s", gpus=4))
    live.submit(10, hp("h", gpus=4))
    plan = live.tell(20, NodesChanged([NodeChange(NodeChangeKind.FAILED, live.state().nodes[0].spec)]))
    assert [(lost.run.task.name, lost.began) for lost in plan.lost] == [("h", False)]
    assert live.state().waiting[live.tasks["h"].index].number == 1


def test_the_tick_comes_before_the_arrivals_of_its_instant() -> None:
    """The demand that a quota goes by at 3,600 s is not yet that of the task that comes just then."""
    for turned in (False, True):
        live = Live(8, quota="weekly-peak")
        live.submit(0, hp("first", gpus=2))
        live.tell(300, Tick())
        events = [Tick(), Submitted(live.task(hp("late", gpus=4)))]
        live.tell(7200, *(reversed(events) if turned else events))
        (row, *_) = live.scheduler.pools["A100"].policy.quota.rows()
        assert row.demand == 2


def test_a_node_that_gets_room_by_an_eviction_elsewhere_is_used_in_the_same_instant() -> None:
    """n0 has lost two of its four cards with three in use. The gang that HP evicts on n1 has a pod there, too."""
    live = Live(4, 4)
    live.submit(0, hp("fixed", gpus=2, pods=1))
    live.submit(1, spot("gang", gpus=1, pods=5))
    spec = live.state().nodes[0].spec
    live.tell(10, NodesChanged([NodeChange(NodeChangeKind.RESIZED, replace(spec, gpus=3))]))
    assert [node.overfull for node in live.state().nodes] == [True, False]
    plan = live.submit(20, hp("whole", gpus=4), hp("one", gpus=1))
    assert evicted(plan) == ["gang"]
    assert started(plan) == ["whole", "one"]
    assert live.run("one").nodes[0].name == "n0"
    assert not any(node.overfull for node in live.state().nodes)


def test_a_start_waits_for_the_victims_of_all_its_pods() -> None:
    """Two pods of one task on one node, each in the room of another victim."""
    live = Live(4)
    live.submit(0, spot("a", gpus=2), spot("b", gpus=2))
    plan = live.submit(10, hp("h", gpus=2, pods=2))
    victims = [eviction.run for eviction in plan.evictions]
    assert len(victims) == 2
    state, (taker,) = live.state(), plan.starts
    assert {run: left.takers for run, left in state.leaving.items()} == {run: [taker] for run in victims}
    live.tell(20, EvictionDone(victims[0]))
    assert (list(state.leaving), state.pending) == ([victims[1]], {taker: 1})


def test_a_start_still_waits_for_its_victim_when_the_node_got_smaller() -> None:
    live = Live(4)
    live.submit(0, hp("first", gpus=2))
    live.submit(1, spot("victim", gpus=2))
    plan = live.submit(10, hp("taker", gpus=2))
    live.tell(11, Finished(live.run("first")))
    spec = live.state().nodes[0].spec
    live.tell(12, NodesChanged([NodeChange(NodeChangeKind.RESIZED, replace(spec, gpus=3))]))
    ((victim, left),) = live.state().leaving.items()
    assert (victim, left.takers) == (plan.evictions[0].run, [live.run("taker")])
    assert live.state().pending == {live.run("taker"): 1}


# -- nodes with another label, pools without nodes -----------------------------------------------------------


def test_a_node_with_another_label_leaves_its_pool() -> None:
    live = Live(4, 4)
    live.submit(0, hp("h", gpus=8 // 2))
    on = live.run("h").nodes[0]
    label = replace(on.spec, gpu_model="H20")
    plan = live.tell(10, NodesChanged([NodeChange(NodeChangeKind.RESIZED, label)]))
    assert [lost.text() for lost in plan.lost] == [f"node {on.name} was removed"]
    names = {model: [node.name for node in pool.state.nodes] for model, pool in live.scheduler.pools.items()}
    assert names == {"A100": [name for name in ("n0", "n1") if name != on.name], "H20": [on.name]}
    live.tell(20, NodesChanged([NodeChange(NodeChangeKind.REMOVED, on.spec)]))  # told by its old label
    assert not live.scheduler.pools["H20"].state.nodes


def test_a_pool_that_never_had_a_node_goes_when_nobody_waits_for_it() -> None:
    live = Live(4)
    live.submit(0, hp("typo", model="A1OO"))
    assert set(live.scheduler.pools) == {"A100", "A1OO"}
    live.tell(5, Cancelled(live.tasks["typo"]))
    assert set(live.scheduler.pools) == {"A100"}
    started_later = live.submit(10, hp("h", gpus=1))
    assert started(started_later) == ["h"]


# -- built twice ---------------------------------------------------------------------------------------------


@every_scheduler
def test_a_policy_is_not_used_after_another_one_was_built_from_its_state(scheduler: str) -> None:
    live = Live(8, scheduler=scheduler, quota="weekly-peak")
    pool = live.scheduler.pools["A100"]
    first = pool.policy
    pool.policy = pool._build(pool.state)
    live.submit(300, hp("h", gpus=4), hp("again", gpus=8))
    assert live.part(DemandMeter).level().sum() == 12, "nobody listens twice"
    with pytest.raises(StalePolicyError, match="build it again"):
        first.decide([], True, 301.0)


def test_a_spot_start_that_waits_for_a_victim_is_taken_back_when_the_quota_falls() -> None:
    """A quarter of 16 GPUs is for spot tasks. When a node of 8 closes, it is a quarter of 8 from the next tick on."""
    live = Live(8, 8, quota="fixed", quota_share=0.25)
    live.submit(0, hp("all", gpus=8), hp("half", gpus=4))
    live.submit(1, spot("s", gpus=4))
    live.submit(100, hp("h", gpus=1))
    live.submit(105, spot("next", gpus=3))
    run = live.run("next")
    assert run.start == 130
    closed = live.run("all").nodes[0].spec
    live.tell(110, NodesChanged([NodeChange(NodeChangeKind.CORDONED, closed)]))
    assert run.alive
    plan = live.tell(120, Tick())
    assert not run.alive
    assert not plan.evictions
    waiting = live.state().waiting[live.tasks["next"].index]
    assert (waiting.number, waiting.since) == (1, 105)


def test_a_gpu_of_which_a_victim_has_a_part_is_held_until_it_has_left() -> None:
    """Both GPUs are held in part by one gang. HP takes one of them; the other is not free before the gang has left."""
    live = Live(1, 1)
    live.submit(0, spot("gang", gpus=0.6, pods=2))
    live.submit(100, hp("h", gpus=1))
    live.submit(101, spot("next", gpus=1))
    assert (live.run("h").start, live.run("next").start) == (130, 130)


def test_a_start_that_moved_is_a_change_of_its_nodes() -> None:
    """Victims are chosen by what they have done since their start: that must not be remembered from before."""
    live = Live(8)
    live.submit(0, spot("s", gpus=8))
    victim = live.run("s")
    live.submit(100, hp("h", gpus=4))
    live.submit(101, spot("next", gpus=2))
    take = live.state().listeners.feed()
    take()
    live.tell(110, EvictionDone(victim))
    assert live.run("next").nodes[0] in take()
