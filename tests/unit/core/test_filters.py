"""Filters: node rules and ports of the host, in placement, in the choice of victims and in reasons."""

from __future__ import annotations

import pytest
from test_resources import GREEDY, Live, evicted, node, on

from gfs import NodeRule
from gfs.core.events import Finished
from gfs.core.filters.base import Filter
from gfs.core.filters.ports import PortRule
from gfs.core.filters.registry import FILTERS

every_greedy_scheduler = pytest.mark.parametrize("scheduler", GREEDY)
WEB = (PortRule(("TCP/8080",)),)
BOTH = (PortRule(("TCP/8080", "TCP/9090")),)
ZONE_B = (NodeRule(frozenset("b"), "zone=b"),)


@every_greedy_scheduler
def test_two_pods_with_a_port_do_not_share_a_node(scheduler: str) -> None:
    live = Live(scheduler, node("n0"), node("n1"))
    assert on(live.hp(0, "gang", 1, pods=2, rules=WEB)) == ["n0", "n1"]
    assert not live.hp(1, "third", 1, rules=BOTH).starts
    live.give_up(2, "third")
    assert on(live.hp(3, "other port", 1, rules=(PortRule(("TCP/9090",)),))) != []
    assert len(on(live.hp(4, "no port", 1, pods=4))) == 4


@every_greedy_scheduler
def test_a_port_is_free_when_its_pod_has_gone(scheduler: str) -> None:
    live = Live(scheduler, node("n0"))
    live.hp(0, "first", 1, rules=WEB)
    assert not live.hp(1, "second", 1, rules=WEB).starts
    assert live.why("second") == "pool A100: 7 idle GPUs on n0, but port TCP/8080 of the host is taken"
    assert on(live.tell(2, Finished(live.run("first")))) == ["n0"]


@pytest.mark.parametrize("scheduler", sorted(set(GREEDY) - {"lyra"}))
def test_the_victim_is_who_has_the_port(scheduler: str) -> None:
    """Six GPUs are idle. `web` has the port, `other` has not, whichever loses less."""
    live = Live(scheduler, node("n0"))
    live.spot(0, "web", 1, rules=WEB)
    live.spot(900, "other", 1)
    plan = live.hp(1000, "h", 2, rules=BOTH)
    assert (evicted(plan), on(plan)) == (["web"], ["n0"])


@pytest.mark.parametrize("scheduler", sorted(set(GREEDY) - {"lyra"}))
def test_a_gang_with_a_port_evicts_on_as_many_nodes(scheduler: str) -> None:
    live = Live(scheduler, *(node(f"n{i}") for i in range(3)))
    live.hp(0, "h0", 8)
    live.spot(1, "s", 1, pods=2, rules=WEB)
    live.spot(2, "other", 1)
    plan = live.hp(100, "gang", 1, pods=2, rules=WEB)
    assert (evicted(plan), on(plan)) == (["s"], ["n1", "n2"])
    assert not live.hp(200, "too many", 1, pods=3, rules=WEB).evictions, "HP has the port on two nodes of three"


@every_greedy_scheduler
def test_a_port_that_hp_has_is_out_of_reach(scheduler: str) -> None:
    live = Live(scheduler, node("n0"))
    live.hp(0, "first", 1, rules=WEB)
    plan = live.hp(1, "h", 1, rules=WEB)
    assert not plan.evictions
    assert live.why("h") == "pool A100: 7 idle GPUs on n0, but port TCP/8080 of the host is taken"


@every_greedy_scheduler
def test_the_reason_names_what_the_task_asks_for(scheduler: str) -> None:
    live = Live(scheduler, node("n0", group="a"), node("n1", group="b"))
    live.hp(0, "h0", 8, rules=ZONE_B)
    live.hp(1, "h1", 8, rules=ZONE_B)
    asked = "not one of the nodes that the task asks for (zone=b)"
    assert live.why("h1") == f"pool A100: 8 idle GPUs on n0, but {asked}"


@every_greedy_scheduler
def test_rules_add_up(scheduler: str) -> None:
    live = Live(scheduler, *(node(f"n{i}", group="ab"[i % 2]) for i in range(4)))
    assert on(live.hp(0, "gang", 1, pods=2, rules=(*WEB, *ZONE_B))) == ["n1", "n3"]
    assert not live.hp(1, "more", 1, rules=(*WEB, *ZONE_B)).starts


class OddOnly:
    """The pod may run on nodes with an odd number of GPUs only."""


class OddFilter(Filter):
    reads = OddOnly

    def admits(self, rule: OddOnly, node: object, gone: object = ()) -> bool:
        return bool(node.spec.gpus % 2)  # type: ignore[attr-defined]

    def why(self, rule: OddOnly) -> str:
        return "its number of GPUs is even"


@every_greedy_scheduler
def test_a_filter_of_your_own_takes_part_in_all(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gfs.core.pool.FILTERS", [*FILTERS, OddFilter])
    odd = (OddOnly(),)
    live = Live(scheduler, node("n0", 4), node("n1", 3), node("n2", 2))
    live.spot(0, "even", 4)
    live.spot(1, "odd", 3, rules=odd)
    assert live.run("odd").nodes[0].name == "n1"
    plan = live.hp(100, "h", 1, rules=odd)
    assert (evicted(plan), on(plan)) == (["odd"], ["n1"])
    live.give_up(150, "odd")
    live.hp(200, "h3", 3, rules=odd)
    lacks = "4 idle GPUs but no node has 3; largest gap 2; without any spot task 4 GPUs on n0"
    assert live.why("h3") == f"pool A100: {lacks}, but its number of GPUs is even"
