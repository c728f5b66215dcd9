"""Organizations of generated tasks: their shares, sizes and running times are as published, demand is steady."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gfs.domain.task import Priority
from gfs.domain.workload import Workload
from gfs.workloads import PRESETS, generate
from gfs.workloads.calibration import figures
from gfs.workloads.owners import Organization, deal, fit_shares, owners

HOUR, DAY = 3600.0, 86_400.0
A100 = "A100-SXM4-80GB"


@dataclass(frozen=True)
class Job:
    """What is looked at of a task."""

    gpus: float
    submit_time: float
    duration: float


def of_owner(workload: Workload, priority: Priority = Priority.HP, model: str = "A100") -> dict[str, list[Job]]:
    """Tasks of a class in a pool by organization."""
    found: dict[str, list[Job]] = {}
    for task, duration in zip(workload.tasks, workload.durations, strict=True):
        if task.priority is priority and task.gpu_model == model:
            found.setdefault(task.organization, []).append(Job(task.gpus, task.submit_time, duration))
    return found


def work(tasks: list[Job]) -> float:
    return sum(t.gpus * t.duration for t in tasks)


def shares(workload: Workload, priority: Priority = Priority.HP, model: str = "A100") -> dict[str, float]:
    """Share of the GPU time by organization."""
    found = {owner: work(tasks) for owner, tasks in of_owner(workload, priority, model).items()}
    return {owner: amount / sum(found.values()) for owner, amount in found.items()}


def published(model: str = A100, first: int = 20) -> dict[str, float]:
    """The published shares of the `first` organizations of a model, scaled to a sum of 1."""
    table = dict(list(figures()["organizations"]["share_by_model"][model].items())[:first])
    return {f"org-{name}": share / sum(table.values()) for name, share in table.items()}


def gpus_per_job(tasks: list[Job]) -> float:
    return float(np.mean([t.gpus for t in tasks]))


def seconds_per_gpu(tasks: list[Job]) -> float:
    return work(tasks) / sum(t.gpus for t in tasks)


def hourly(tasks: list[Job], days: int) -> np.ndarray:
    """GPUs asked for at the beginning of each hour."""
    change = np.zeros(days * 24 + 1)
    for t in tasks:
        change[min(int(np.ceil(t.submit_time / HOUR)), days * 24)] += t.gpus
        change[min(int(np.ceil((t.submit_time + t.duration) / HOUR)), days * 24)] -= t.gpus
    return np.cumsum(change)[:-1]


@pytest.fixture(scope="module")
def paper() -> Workload:
    return generate("paper")


def test_shares_of_gpu_time_as_published(paper: Workload) -> None:
    found = shares(paper)
    assert set(found) == set(published())
    for owner, share in published().items():
        # an 8-card task of a month is 0.17% of all: 8 x 30 / (0.575 x 2,296 x 91)
        assert found[owner] == pytest.approx(share, rel=0.02, abs=0.006), owner


@cache
def production(seed: int) -> Workload:
    return generate("production", spot_scale=0, seed=seed)


@pytest.mark.parametrize("model", ["A10", A100, "GPU-series-2"])
@pytest.mark.parametrize("seed", [1, 2])
def test_shares_hold_in_every_pool(model: str, seed: int) -> None:
    found = shares(production(seed), model=model)
    for owner, share in published(model).items():
        assert found.get(owner, 0.0) == pytest.approx(share, rel=0.02, abs=0.006), owner


def test_shares_hold_in_a_small_cluster() -> None:
    found = shares(generate("demo", days=28, seed=1))
    for owner, share in published(first=8).items():
        assert found[owner] == pytest.approx(share, rel=0.05, abs=0.005), owner


def test_who_publishes_large_jobs_has_large_jobs(paper: Workload) -> None:
    found = of_owner(paper)
    facts = figures()["organizations"]["gpus_per_job"]
    # GPUs a job, published: 15.4, 12.6, 2.44, 1.85, 1.36 of the large organizations that submit most
    named = ["57", "4", "24", "67", "66"]
    assert all(facts[a] > facts[b] for a, b in pairwise(named))
    sizes = [gpus_per_job(found[f"org-{name}"]) for name in named]
    assert all(a > b for a, b in pairwise(sizes))
    assert sizes == pytest.approx([facts[name] for name in named], rel=0.45)
    # gangs of hundreds of cards belong to the organizations whose mean job is large
    largest = {owner: max(t.gpus for t in tasks) for owner, tasks in found.items()}
    assert largest["org-57"] > 400
    assert max(largest[owner] for owner in ("org-66", "org-67", "org-37", "org-13", "org-19")) <= 64


def test_who_publishes_long_jobs_has_long_jobs(paper: Workload) -> None:
    found = of_owner(paper)
    # GPU-seconds per GPU, published: 2.3 million (37), 149,000 (67), 121,000 (66), 34,000 (4), 24,400 (57)
    times = [seconds_per_gpu(found[f"org-{name}"]) for name in ("37", "67", "66", "4", "57")]
    assert all(a > b for a, b in pairwise(times))
    assert times[0] > 20 * times[1]
    assert min(t.duration for t in found["org-5"]) > DAY  # five jobs of half a year


def test_demand_of_organizations_without_large_gangs_is_steady(paper: Workload) -> None:
    found = of_owner(paper)
    for owner in ("org-66", "org-67", "org-37"):
        demand = hourly(found[owner], 91)[168:]
        assert demand.std() / demand.mean() < 0.2, owner
    # the one with the gangs is not
    assert hourly(found["org-57"], 91)[168:].std() > 100


def test_spot_tasks_have_owners_in_the_same_way(paper: Workload) -> None:
    found = shares(paper, Priority.SPOT)
    for owner in ("org-57", "org-66", "org-67", "org-37"):
        assert found[owner] == pytest.approx(published()[owner], rel=0.05), owner
    sizes = {owner: gpus_per_job(tasks) for owner, tasks in of_owner(paper, Priority.SPOT).items()}
    assert sizes["org-57"] > 3 * sizes["org-66"]


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize(("nodes", "days"), [(8, 1 / 24), (40, 1.0), (40, 60.0)])
def test_only_organizations_of_the_model_at_any_scale(name: str, nodes: int, days: float) -> None:
    workload = generate(name, nodes=nodes, days=days, seed=5)
    for task in workload.tasks:
        like_the_papers = name == "fleet" or task.gpu_model == "A100"
        assert task.organization in published(A100 if like_the_papers else task.gpu_model)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_labels_are_all_that_is_given(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_choice(gpus: np.ndarray, *others: Any) -> list[str]:
        others[-1].random(len(gpus))  # one number a task
        return ["somebody"] * len(gpus)

    labelled = generate(name, nodes=40, days=3, seed=2)
    monkeypatch.setattr("gfs.workloads.generator.owners", no_choice)
    plain = generate(name, nodes=40, days=3, seed=2)
    unlabelled = [astuple(replace(task, organization="somebody")) for task in labelled.tasks]
    assert unlabelled == [astuple(task) for task in plain.tasks]
    assert labelled.durations == plain.durations


def test_demand_of_each_organization_stands_from_the_first_hour(paper: Workload) -> None:
    # tasks that run already when the window opens are dealt out like the others
    for owner in ("org-66", "org-67", "org-37"):
        demand = hourly(of_owner(paper)[owner], 91)
        assert demand[:48].mean() == pytest.approx(demand.mean(), rel=0.45), owner


def test_every_organization_has_facts() -> None:
    facts = figures()["organizations"]
    named = {name for table in facts["share_by_model"].values() for name in table}
    assert set(facts["gpus_per_job"]) == set(facts["seconds_per_gpu"]) == named
    # 57: 1,675,761 GPUs in 108,911 jobs, 40,938,745,702 GPU-seconds
    assert facts["gpus_per_job"]["57"] == pytest.approx(1_675_761 / 108_911, rel=0.005)
    assert facts["seconds_per_gpu"]["57"] == pytest.approx(40_938_745_702 / 1_675_761, rel=0.005)


# -- the parts ---------------------------------------------------------------------------------------------


def test_fitting_by_hand() -> None:
    # Two cells of equal work, and two organizations of equal shares; the first likes the first cell nine times
    # as well as the second likes it, and the other way round. By symmetry no factor is needed: 0.9 and 0.1.
    likely = fit_shares(np.array([[9.0, 1.0], [1.0, 9.0]]), np.array([0.5, 0.5]), np.array([1.0, 1.0]))
    assert likely == pytest.approx(np.array([[0.9, 0.1], [0.1, 0.9]]))
    # Affinities that do not differ leave the shares in every cell: 3 : 1
    likely = fit_shares(np.ones((2, 3)), np.array([0.6, 0.2]), np.array([5.0, 1.0, 2.0]))
    assert likely == pytest.approx(np.array([[0.75] * 3, [0.25] * 3]))


def test_fitting_meets_shares_that_the_affinities_do_not_suggest() -> None:
    rng = np.random.default_rng(1)
    affinity = np.exp(-rng.uniform(0, 20, (6, 40)))
    share, amount = rng.random(6) + 0.01, rng.random(40)
    likely = fit_shares(affinity, share, amount)
    assert likely.sum(axis=0) == pytest.approx(np.ones(40))
    assert likely @ amount / amount.sum() == pytest.approx(share / share.sum(), rel=1e-4)


def test_dealing_keeps_to_the_parts_after_every_task() -> None:
    # one in four of 400 equal tasks: after any number of them it has had a quarter, to within a task or two
    rng = np.random.default_rng(1)
    likely = np.repeat([[0.75], [0.25]], 400, axis=1)
    chosen = deal(likely, np.ones(400), rng.random(400))
    had = np.cumsum(chosen == 1)
    assert np.abs(had - 0.25 * np.arange(1, 401)).max() < 1.5


def test_who_is_ahead_sits_out() -> None:
    # Equal parts, and the lot always falls on the first of those who may have it. A task of 3: credits 1.5 and
    # 1.5, the first gets it, -1.5 and 1.5. A task of 1: -1 and 2, so the second, -1 and 1. A task of 2: 0 and 2,
    # so the second again, 0 and 0. A task of 1: 0.5 and 0.5, the first.
    chosen = deal(np.full((2, 4), 0.5), np.array([3.0, 1.0, 2.0, 1.0]), np.zeros(4))
    assert chosen.tolist() == [0, 1, 1, 0]


def test_owners_of_a_handful_of_tasks() -> None:
    rng = np.random.default_rng(0)
    small, large = Organization(0.5, 1.0, 10_000.0), Organization(0.5, 64.0, 10_000.0)
    none = np.empty(0)
    assert owners(none, none, none, none, {"a": small}, rng) == []
    one = np.ones(1)
    assert owners(one, 0 * one, 0 * one, one, {"a": small}, rng) == ["a"]
    # 64 tasks of one card and one of 64 cards, equally long: half of the GPU time each
    gpus = np.array([64.0] + [1.0] * 64)
    times = np.arange(65) * 60.0
    found = owners(gpus, times, times, np.full(65, 7200.0), {"large": large, "small": small}, rng)
    assert found == ["large"] + ["small"] * 64
