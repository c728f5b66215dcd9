"""The product against the slow, obvious scheduler: the same events, pod by pod and card by card."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from oracle import Settings, in_canonical_order, replay, rows_of
from strategies import Case, cases

from gfs import simulate
from gfs.policies.gfs import preemption


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
        ),
    )
    assert in_canonical_order(list(rows_of(result.events.to_pydict()))) == expected
    return seen


def hunt(scheduler: str, examples: int) -> Counter[str]:
    """Compare on many random cases; add up what happened in them."""
    seen = Counter[str]()

    @settings(max_examples=examples)
    @given(cases())
    def check(case: Case) -> None:
        seen.update(compare(case, scheduler))

    check()
    return seen


def test_gfs_does_what_the_obvious_scheduler_does() -> None:
    seen = hunt("gfs", 200)
    # A comparison on quiet clusters would prove nothing: every rule must have been at work, often.
    for what, least in {
        "eviction": 500,
        "gang evicted": 100,
        "checkpoint saved": 300,
        "restart": 500,
        "HP gang preempts": 150,
        "fraction preempts": 30,
        "several nodes to preempt on": 200,
        "preemption rolled back": 100,
        "breaker closed a node": 500,
        "over quota": 500,
    }.items():
        assert seen[what] >= least, f"{what}: only {seen[what]} times; make the load higher"


def test_the_search_by_rising_waste_finds_what_looking_at_every_node_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Small pools are searched node by node; make the product take the way it takes in large ones.
    monkeypatch.setattr(preemption, "FEW_NODES", 0)
    assert hunt("gfs", 150)["several nodes to preempt on"] >= 50


@pytest.mark.parametrize("scheduler", ["yarn-cs", "static"])
def test_the_plain_schedulers_do_what_the_obvious_one_does(scheduler: str) -> None:
    seen = hunt(scheduler, 120)
    assert seen["eviction"] >= 100
    assert seen["gang evicted"] >= 10
    assert seen["over quota"] >= 50
