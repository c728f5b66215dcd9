"""The generator meets the published figures: request mix, running times, rhythms, load."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gfs.domain.errors import InputError
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.workloads import PRESETS, generate, read_trace, write_trace
from gfs.workloads.calibration import figures
from gfs.workloads.durations import Quantiles, with_mean
from gfs.workloads.longrunning import cut, long_running
from gfs.workloads.requests import apportion

DAY = 86_400.0


@dataclass
class Columns:
    """One class of a workload as arrays."""

    submit: np.ndarray
    duration: np.ndarray
    size: np.ndarray
    pods: np.ndarray

    @classmethod
    def of(cls, workload: Workload, priority: Priority, model: str | None = None) -> Columns:
        tasks = [t for t in workload.tasks if t.priority is priority and model in (None, t.gpu_model)]
        lasting = workload.durations
        rows = [(t.submit_time, lasting[t.index], t.gpus_per_pod, t.pods) for t in tasks]
        return cls(*np.array(rows).reshape(-1, 4).T)

    @property
    def gpus(self) -> np.ndarray:
        return self.size * self.pods

    def load(self, cards: int, days: float) -> float:
        inside = np.minimum(self.duration, days * DAY - self.submit)
        return float(self.gpus @ inside / (cards * days * DAY))

    def demand(self, days: float, step: float) -> np.ndarray:
        """GPUs asked for at the beginning of each step."""
        change = np.zeros(int(days * DAY / step) + 2)
        np.add.at(change, np.ceil(self.submit / step).astype(int), self.gpus)
        ends = np.ceil((self.submit + self.duration) / step).astype(int)
        np.add.at(change, np.minimum(ends, len(change) - 1), -self.gpus)
        return np.cumsum(change)[: int(days * DAY / step)]


def as_rows(workload: Workload, priority: Priority) -> list[tuple[object, ...]]:
    names = [field.name for field in fields(Task) if field.name != "index"]
    return [
        (*(getattr(t, name) for name in names), workload.durations[t.index])
        for t in workload.tasks
        if t.priority is priority
    ]


@pytest.fixture(scope="module")
def paper() -> Workload:
    return generate("paper")


@pytest.fixture(scope="module")
def hp(paper: Workload) -> Columns:
    return Columns.of(paper, Priority.HP)


@pytest.fixture(scope="module")
def spot(paper: Workload) -> Columns:
    return Columns.of(paper, Priority.SPOT)


def test_paper_has_the_size_of_the_paper(paper: Workload, hp: Columns, spot: Columns) -> None:
    assert paper.capacity() == {"A100": 287 * 8}
    assert len(paper.nodes) == 287
    assert (len(hp.submit), len(spot.submit)) == (138_403, 26_635)
    assert 15 <= len({t.organization for t in paper.tasks}) <= 25
    assert max(t.submit_time for t in paper.tasks) < 91 * DAY


@pytest.mark.parametrize("priority", list(Priority))
def test_paper_request_mix_within_half_a_point(paper: Workload, priority: Priority) -> None:
    published = figures()["paper_simulation"]["request_mix_percent"][priority.label]
    found = Columns.of(paper, priority)
    assert 100 * np.mean(found.size < 1) == pytest.approx(published["<1"], abs=0.5)
    for size in (1, 2, 4, 8):
        assert 100 * np.mean(found.size == size) == pytest.approx(published[str(size)], abs=0.5)
    assert 100 * np.mean(found.pods > 1) == pytest.approx(published["gang"], abs=0.5)


def test_paper_running_times(hp: Columns, spot: Columns) -> None:
    assert np.median(hp.duration) == pytest.approx(1100, rel=0.01)
    assert np.quantile(hp.duration, 0.99) == pytest.approx(29_300, rel=0.02)
    assert hp.duration.mean() == pytest.approx(17_750, rel=0.01)
    assert hp.duration[hp.duration > 29_300].mean() > 14 * DAY  # the top 1% runs for weeks
    assert np.median(spot.duration) == pytest.approx(2100, rel=0.01)
    assert np.quantile(spot.duration, 0.9) == pytest.approx(21_700, rel=0.01)
    assert spot.duration.mean() == pytest.approx(10_100, rel=0.01)
    assert np.all(hp.duration == np.floor(hp.duration))


def test_paper_long_jobs_hold_most_gpu_time(hp: Columns) -> None:
    work = hp.gpus * hp.duration
    assert work[hp.duration > 3 * DAY].sum() / work.sum() == pytest.approx(0.784, abs=0.04)
    # published: -0.02, about none
    assert abs(np.corrcoef(hp.duration, hp.gpus)[0, 1]) < 0.05


def test_paper_offered_load(hp: Columns, spot: Columns) -> None:
    assert 0.55 < hp.load(2296, 91) < 0.60
    assert spot.load(2296, 91) == pytest.approx(0.07, abs=0.002)
    # hardly anything is asked for beyond the window, so it does not matter how that is counted
    assert hp.gpus @ hp.duration / (2296 * 91 * DAY) == pytest.approx(hp.load(2296, 91), rel=0.01)


def test_paper_hp_demand_is_steady_from_the_first_day_and_fits(hp: Columns) -> None:
    demand = hp.demand(91, 300) / 2296
    assert demand.max() <= 1.0
    daily = demand.reshape(91, -1).mean(axis=1)
    assert daily.min() > 0.45
    assert daily.max() < 0.72
    assert daily[:7].mean() == pytest.approx(daily.mean(), rel=0.1)
    assert daily[-7:].mean() == pytest.approx(daily.mean(), rel=0.1)


def test_paper_rhythm_of_the_day(paper: Workload, hp: Columns) -> None:
    later = hp.submit[hp.submit > 0]
    found = np.bincount((later // 3600 % 24).astype(int), minlength=24) / len(later)
    published = np.array(figures()["hour_of_day"]["jobs"])
    assert np.abs(found - published / published.sum()).max() < 0.004
    assert set(np.argsort(found)[-6:]) <= {10, 11, 14, 15, 16, 17}
    # demand of both classes swings between 0.88 and 1.12 of its mean in the trace, low in the morning
    demand = hp.demand(91, 3600) + Columns.of(paper, Priority.SPOT).demand(91, 3600)
    by_hour = demand.reshape(-1, 24).mean(axis=0) / demand.mean()
    assert by_hour.min() == pytest.approx(0.88, abs=0.05)
    assert by_hour.max() == pytest.approx(1.12, abs=0.05)
    assert 3 <= by_hour.argmin() <= 9
    assert by_hour.argmax() >= 14


def test_paper_organizations_have_rhythms_of_their_own(paper: Workload) -> None:
    count = Counter(t.organization for t in paper.tasks)

    def night_share(owner: str) -> float:
        return float(np.mean([t.submit_time // 3600 % 24 < 8 for t in paper.tasks if t.organization == owner]))

    largest = [owner for owner, _ in count.most_common(5)]
    nights = sorted(night_share(owner) for owner in largest)
    assert nights[-1] > 1.5 * nights[0]


@pytest.mark.parametrize(("priority", "share"), [(Priority.HP, 1 / 4), (Priority.SPOT, 1 / 8)])
def test_paper_gang_sizes_as_published(paper: Workload, priority: Priority, share: float) -> None:
    found = Columns.of(paper, priority)
    assert found.gpus.max() <= 2296 * share
    gangs = found.pods[found.pods > 1]
    table = np.array(figures()["gangs"]["jobs_by_pods"])
    for low, high in pairwise((2, 3, 4, 9, 33)):
        published = table[(table[:, 0] >= low) & (table[:, 0] < high), 1].sum() / table[:, 1].sum()
        assert np.mean((gangs >= low) & (gangs < high)) == pytest.approx(published, abs=0.03)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    files = [write_trace(generate("paper", nodes=29, seed=seed), tmp_path / run) for run, seed in
             (("a", 7), ("b", 7), ("c", 8))]  # fmt: skip
    a, b, c = ([path.read_bytes() for path in pair] for pair in files)
    assert a == b
    assert a[0] != c[0]


def test_spot_scale_multiplies_spot_and_leaves_hp_alone() -> None:
    base = generate("paper", nodes=57)
    for scale in (2, 4):
        more = generate("paper", nodes=57, spot_scale=scale)
        assert as_rows(more, Priority.HP) == as_rows(base, Priority.HP)
        found = Columns.of(more, Priority.SPOT)
        assert len(found.submit) == pytest.approx(scale * len(as_rows(base, Priority.SPOT)), abs=scale)
        assert found.load(57 * 8, 91) == pytest.approx(0.07 * scale, abs=0.004)
        assert found.duration.mean() == pytest.approx(10_100, rel=0.01)
    assert as_rows(generate("paper", nodes=57, spot_scale=0), Priority.SPOT) == []


@pytest.mark.parametrize(("nodes", "days"), [(29, 91), (287, 7), (100, 28), (1000, 3), (40, 182)])
def test_nodes_and_days_scale_the_tasks_and_keep_the_load(nodes: int, days: float) -> None:
    workload = generate("paper", nodes=nodes, days=days)
    hp, spot = Columns.of(workload, Priority.HP), Columns.of(workload, Priority.SPOT)
    assert len(workload.nodes) == nodes
    assert hp.load(nodes * 8, days) == pytest.approx(0.575, abs=0.02)
    assert spot.load(nodes * 8, days) == pytest.approx(0.07, abs=0.01)
    assert len(spot.submit) == pytest.approx(26_635 * nodes / 287 * days / 91, abs=1)
    # a short window also shows the long tasks that run already when it begins
    running = (hp.submit == 0).sum()
    assert len(hp.submit) - running == pytest.approx(138_403 * nodes / 287 * days / 91, rel=0.03)
    assert (hp.demand(days, 300) / (nodes * 8)).max() <= 1.0


def test_production_has_the_published_pools() -> None:
    workload = generate("production")
    groups = Counter((n.gpu_model, n.gpus) for n in workload.nodes)
    published = figures()["nodes"]["groups"]
    assert groups == {(model, gpus): count for model, kinds in published.items() for count, gpus in kinds}
    assert sum(n.gpus for n in workload.nodes) == 10_412
    hp = Columns.of(workload, Priority.HP)
    assert np.quantile(hp.duration, 0.9) == pytest.approx(58_770, rel=0.02)
    assert np.median(hp.duration) == pytest.approx(1101, rel=0.02)
    for model, cards in workload.capacity().items():
        pool = Columns.of(workload, Priority.HP, model)
        rate = figures()["allocation_rate_before"]["rate"].get(model)
        wanted = rate or figures()["trace_totals"]["demand_over_capacity_by_model"][model]
        assert pool.load(cards, 28) == pytest.approx(wanted, abs=0.03), model
        assert (pool.demand(28, 300) / cards).max() <= 1.0, model
        jobs = len(pool.submit) + len(Columns.of(workload, Priority.SPOT, model).submit)
        assert jobs == pytest.approx(figures()["trace_totals"]["jobs_by_model"][model] * 28 / 184, abs=2)


def test_demo_is_small_and_busy() -> None:
    workload = generate()
    assert len(workload.nodes) == 32
    assert len(workload.tasks) == 7200
    cards = sum(workload.capacity().values())
    assert sum(Columns.of(workload, priority).load(cards, 7) for priority in Priority) > 0.7


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize(("nodes", "days"), [(8, 1 / 24), (9, 1.0), (60, 2.5)])
def test_any_size_can_be_read_back(tmp_path: Path, name: str, nodes: int, days: float) -> None:
    workload = generate(name, nodes=nodes, days=days, spot_scale=1.5, seed=3)
    back = read_trace(*write_trace(workload, tmp_path)).workload
    assert len(back.tasks) == len(workload.tasks) > 0
    assert min(workload.durations) >= 1
    assert all(t.submit_time < days * DAY for t in workload.tasks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "none"}, "Choose one of: demo, fleet, paper, production"),
        ({"nodes": 0}, "at least 1 nodes"),
        ({"preset": "production", "nodes": 5}, "at least 8 nodes"),
        ({"days": 0}, "days"),
        ({"days": float("inf")}, "days"),
        ({"spot_scale": -1}, "spot scale"),
        ({"spot_scale": float("nan")}, "spot scale"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wishes_that_cannot_be_met(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(**options)


def test_quantiles_are_log_linear_between_knots() -> None:
    function = Quantiles((0.0, 0.5, 1.0), (1.0, 100.0, 10_000.0))
    assert function.at(np.array([0.25, 0.5, 0.75])) == pytest.approx([10, 100, 1000])
    # mean of a log-linear piece, (high - low) / ln(high / low): 99 / 4.605 = 21.5 and 9,900 / 4.605 = 2,149.8
    assert function.mean() == pytest.approx((21.498 + 2149.8) / 2, rel=1e-4)
    assert with_mean((0.0, 0.5), (1.0, 100.0), function.mean()).seconds[-1] == pytest.approx(10_000, rel=1e-6)


def test_long_tasks_are_a_steady_load() -> None:
    horizon = 1_000_000.0
    tasks = long_running(4000, 10_000, 200_000, horizon, np.random.default_rng(1))
    assert tasks.duration.mean() == pytest.approx(200_000, rel=0.01)
    assert (tasks.submit + tasks.duration).max() <= horizon
    running = [np.sum((tasks.submit <= t) & (tasks.submit + tasks.duration > t)) for t in range(0, 1_000_000, 50_000)]
    assert min(running) > 0.94 * np.mean(running)
    assert max(running) < 1.06 * np.mean(running)


def test_long_tasks_may_fill_the_window() -> None:
    tasks = long_running(100, 10_000, 900_000, 1_000_000, np.random.default_rng(1))
    assert tasks.duration.mean() == pytest.approx(900_000, rel=0.02)
    assert np.all(tasks.submit[tasks.duration == 1_000_000] == 0)


def test_a_window_cuts_tasks_at_both_ends() -> None:
    tasks = long_running(500, 10_000, 200_000, 1_000_000, np.random.default_rng(1))
    seen = cut(tasks, 400_000, 100_000)
    assert seen.submit.min() == 0
    assert (seen.submit + seen.duration).max() == 100_000
    assert np.all(seen.duration > 0)


def test_apportion_is_exact() -> None:
    # 10 in proportion 1 : 1 : 1 is 3.33 each; the first takes the one left over
    assert apportion([1, 1, 1], 10).tolist() == [4, 3, 3]
    assert apportion([0.5, 0.25, 0.25], 4).tolist() == [2, 1, 1]
    assert apportion([0.0, 0.0], 4).tolist() == [0, 0]
