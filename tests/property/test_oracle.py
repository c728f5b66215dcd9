"""The product against the slow, obvious scheduler: the same events, pod by pod and node by node."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy
from oracle import Settings, compare_logs, replay
from strategies import Case, cases, contests

from gfs import simulate


def compare(case: Case, scheduler: str) -> Counter[str]:
    """Run both, expect the same; say what happened in the run."""
    given_ = case.parameters
    result = simulate(case.work, scheduler=scheduler, **given_)
    expected, seen = replay(
        case.work,
        Settings(
            scheduler=scheduler,
            quota_share=given_["quota_share"] if given_["quota"] == "fixed" else None,
            grace=given_["grace_period"],
            on_grace=given_["checkpoint_on_grace"],
            m=given_["m"],
            gamma=given_["gamma"],
            beta=given_["beta"],
            resources=given_["resources"] == "on",
        ),
    )
    compare_logs(case.work, result.events, expected, resources=given_["resources"] == "on")
    return seen


def hunt(scheduler: str, examples: int, where: SearchStrategy[Case] | None = None) -> Counter[str]:
    """Compare on many random cases; add up what happened in them."""
    seen = Counter[str]()

    @settings(max_examples=examples, phases=(Phase.explicit, Phase.generate))
    @given(cases(mixes=False) if where is None else where)
    def check(case: Case) -> None:
        seen.update(compare(case, scheduler))

    check()
    return seen


def test_gfs_does_what_the_obvious_scheduler_does() -> None:
    seen = hunt("gfs", 250)
    # A comparison on quiet clusters would prove nothing: every rule must have been at work, often. The limits are
    # about a third of what is usual (800 evictions), as the cases tried depend on the version of Hypothesis.
    for what, least in {
        "eviction": 300,
        "gang evicted": 50,
        "checkpoint saved": 150,
        "restart": 300,
        "HP gang preempts": 80,
        "fraction preempts": 10,
        "several nodes to preempt on": 100,
        "preemption rolled back": 30,
        "breaker closed a node": 200,
        "over quota": 200,
        "enough cards, but not of the rest": 2000,
        "evicted for more than cards": 40,
    }.items():
        assert seen[what] >= least, f"{what}: only {seen[what]} times; make the load higher"


def test_the_cheapest_node_is_found_where_victims_and_waste_pull_apart() -> None:
    assert hunt("gfs", 200, contests())["several nodes to preempt on"] >= 150


@pytest.mark.parametrize("scheduler", ["yarn-cs", "static"])
def test_the_plain_schedulers_do_what_the_obvious_one_does(scheduler: str) -> None:
    seen = hunt(scheduler, 120)
    assert seen["eviction"] >= 100
    assert seen["gang evicted"] >= 10
    assert seen["over quota"] >= 50
    assert seen["enough cards, but not of the rest"] >= 350
    assert seen["evicted for more than cards"] >= 12
