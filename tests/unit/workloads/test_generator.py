"""The generator meets the published figures: request mix, running times, rhythms, load."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest

from gfs.domain.errors import InputError
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.workloads import PRESETS, generate, read_trace, write_trace
from gfs.workloads.calibration import figures
from gfs.workloads.durations import Quantiles, cut, long_durations, starts, with_mean
from gfs.workloads.requests import apportion
from gfs.workloads.rhythms import until_closing_time

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
def production() -> Workload:
    return generate("production")


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
    # 138,403 x 4.903 GPUs x 17,750 s / (2,296 x 91 days) = 66.7%, 26,635 x 4.903 x 10,100 s = 7.3%
    assert hp.load(2296, 91) == pytest.approx(0.667, abs=0.002)
    assert spot.load(2296, 91) == pytest.approx(0.073, abs=0.001)
    # hardly anything is asked for beyond the window, so it does not matter how that is counted
    assert hp.gpus @ hp.duration / (2296 * 91 * DAY) == pytest.approx(hp.load(2296, 91), rel=0.01)


def test_paper_arrivals_have_the_rhythm_of_the_day(hp: Columns) -> None:
    later = hp.submit[hp.submit > 0]
    found = np.bincount((later // 3600 % 24).astype(int), minlength=24) / len(later)
    published = np.array(figures()["hour_of_day"]["jobs"])
    assert np.abs(found - published / published.sum()).max() < 0.007
    assert set(np.argsort(found)[-6:]) <= {10, 11, 14, 15, 16, 17}


# The published hourly series (GPUs of jobs active in the hour, both classes, no queueing): relative to its mean by hour
# of the day, then figures in parts of the capacity. The paper's cluster gets 1.65 times as many tasks for each card and
# hour as the pool of the trace, and a task of a minute counts for a whole hour there: `excess` is what that adds.
A100_DAY = [.94, .93, .90, .89, .88, .88, .88, .88, .88, .90, .98, 1.03, 1.01, 1.01, 1.06, 1.08, 1.10, 1.12, 1.10, 1.10,
            1.11, 1.10, 1.10, 1.11]  # fmt: skip
H800_DAY = [.86, .83, .79, .78, .78, .76, .76, .77, .78, .84, .97, 1.08, 1.03, 1.05, 1.13, 1.14, 1.17, 1.23, 1.16, 1.22,
            1.22, 1.19, 1.24, 1.22]  # fmt: skip
A100_MEAN = 0.791


def active(workload: Workload, model: str, days: int) -> np.ndarray:
    """GPUs of the tasks that are active in each hour, in parts of the capacity."""
    change = np.zeros(days * 24 + 1)
    for task in workload.tasks:
        if task.gpu_model == model:
            first = int(task.submit_time // 3600)
            last = int(np.ceil((task.submit_time + workload.durations[task.index]) / 3600))
            change[first] += task.gpus
            change[min(max(last, first + 1), days * 24)] -= task.gpus
    return np.cumsum(change)[:-1] / workload.capacity()[model]


def by_hour(demand: np.ndarray) -> np.ndarray:
    return demand.reshape(-1, 24).mean(axis=0) / demand.mean()


def rise(demand: np.ndarray) -> np.ndarray:
    """How much more is asked for within the next four hours."""
    return np.array([demand[i + 1 : i + 5].max() - demand[i] for i in range(len(demand) - 5)])


@pytest.mark.parametrize("seed", [0, 1])
def test_paper_demand_is_that_of_the_published_series(paper: Workload, seed: int) -> None:
    demand = active(paper if not seed else generate("paper", seed=seed), "A100", 91)
    excess = demand.mean() - A100_MEAN
    assert excess == pytest.approx(0.11, abs=0.01)
    assert np.abs(by_hour(demand) - A100_DAY).max() < 0.06
    assert np.mean(demand - excess > 1) == pytest.approx(0.126, abs=0.07)  # published: of hours above capacity
    assert np.quantile(demand - excess, 0.99) == pytest.approx(1.18, abs=0.06)
    assert np.quantile(rise(demand), 0.9) == pytest.approx(0.152, abs=0.07)
    assert np.quantile(rise(demand), 0.99) == pytest.approx(0.340, abs=0.07)
    weeks = demand.reshape(13, -1).mean(axis=1)
    assert weeks.std() / weeks.mean() == pytest.approx(0.05, abs=0.02)  # published: weeks 1 to 13
    published = figures()["weeks"]["level"]["A100-SXM4-80GB"][:13]
    assert np.corrcoef(weeks, published)[0, 1] > 0.7


def test_production_demand_is_that_of_the_published_series(production: Workload) -> None:
    a100, h800 = active(production, "A100-SXM4-80GB", 28), active(production, "H800", 28)
    assert a100.mean() == pytest.approx(A100_MEAN, abs=0.03)
    assert np.abs(by_hour(a100) - A100_DAY).max() < 0.09
    assert np.abs(by_hour(h800) - H800_DAY).max() < 0.15
    assert np.corrcoef(by_hour(h800), H800_DAY)[0, 1] > 0.9
    assert np.quantile(rise(a100), [0.9, 0.99]) == pytest.approx([0.152, 0.340], abs=0.12)
    assert np.quantile(rise(h800), [0.9, 0.99]) == pytest.approx([0.480, 1.178], abs=0.2)
    for model in ("A10", "GPU-series-1"):  # long services: the same around the clock
        assert np.abs(by_hour(active(production, model, 28)) - 1).max() < 0.03


def test_production_jobs_ask_for_the_published_gpus(production: Workload) -> None:
    for model, published in figures()["trace_totals"]["gpus_per_job_by_model"].items():
        found = np.mean([task.gpus for task in production.tasks if task.gpu_model == model])
        assert found == pytest.approx(published, rel=0.03), model


def test_production_pods_ask_for_whole_cards_and_fit_onto_the_nodes(production: Workload) -> None:
    pods = sum(task.pods for task in production.tasks)
    assert sum(task.pods for task in production.tasks if task.gpus_per_pod >= 1) / pods > 0.95  # "nearly all"
    # Most nodes of GPU-series-1 have one card: pods of several must leave room on the other 87, of 656 cards.
    several = [t.gpus_per_pod > 1 and t.gpu_model == "GPU-series-1" for t in production.tasks]
    work = sum(t.gpus * d for t, d, s in zip(production.tasks, production.durations, several, strict=True) if s)
    assert work / (28 * DAY) < 0.75 * 656


def test_paper_organizations_have_rhythms_of_their_own(paper: Workload) -> None:
    count = Counter(t.organization for t in paper.tasks)

    def night_share(owner: str) -> float:
        return float(np.mean([t.submit_time // 3600 % 24 < 8 for t in paper.tasks if t.organization == owner]))

    largest = [owner for owner, _ in count.most_common(5)]
    nights = sorted(night_share(owner) for owner in largest)
    assert nights[-1] > 1.5 * nights[0]


@pytest.mark.parametrize(("priority", "share"), [(Priority.HP, 0.185), (Priority.SPOT, 1 / 8)])
def test_paper_gangs_are_as_large_as_published(paper: Workload, priority: Priority, share: float) -> None:
    found = Columns.of(paper, priority)
    assert 2296 * share * 0.9 < found.gpus.max() <= 2296 * share
    assert found.gpus.mean() == pytest.approx(4.903, rel=0.01)


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
        assert found.load(57 * 8, 91) == pytest.approx(0.073 * scale, abs=0.004)
        assert found.duration.mean() == pytest.approx(10_100, rel=0.01)
    assert as_rows(generate("paper", nodes=57, spot_scale=0), Priority.SPOT) == []


def test_hp_scale_multiplies_hp_and_leaves_spot_alone() -> None:
    plain, less = generate("paper", nodes=57, days=28), generate("paper", nodes=57, days=28, hp_scale=0.5)
    assert as_rows(less, Priority.SPOT) == as_rows(plain, Priority.SPOT)
    assert len(as_rows(less, Priority.HP)) == pytest.approx(len(as_rows(plain, Priority.HP)) / 2, rel=0.01)


def test_the_largest_gang_cuts_the_tail_and_keeps_the_mean() -> None:
    for share in (1 / 32, 0.5):
        hp = [task for task in generate("paper", days=28, largest_gang=share).tasks if not task.is_spot]
        sizes = [task.gpus for task in hp]
        assert 0.5 * share * 2296 < max(sizes) <= share * 2296
        assert sum(sizes) / len(sizes) == pytest.approx(4.903, rel=0.03)


@pytest.mark.parametrize(("nodes", "days"), [(29, 91), (287, 7), (100, 28), (1000, 3), (40, 182)])
def test_nodes_and_days_scale_the_tasks_and_keep_the_load(nodes: int, days: float) -> None:
    workload = generate("paper", nodes=nodes, days=days)
    hp, spot = Columns.of(workload, Priority.HP), Columns.of(workload, Priority.SPOT)
    assert len(workload.nodes) == nodes
    assert hp.load(nodes * 8, days) == pytest.approx(0.667, abs=0.02)
    assert spot.load(nodes * 8, days) == pytest.approx(0.073, abs=0.01)
    assert len(spot.submit) == pytest.approx(26_635 * nodes / 287 * days / 91, abs=1)
    # a short window also shows the long tasks that run already when it begins
    running = (hp.submit == 0).sum()
    assert len(hp.submit) - running == pytest.approx(138_403 * nodes / 287 * days / 91, rel=0.03)


def test_production_has_the_published_pools(production: Workload) -> None:
    workload = production
    groups = Counter((n.gpu_model, n.gpus) for n in workload.nodes)
    published = figures()["nodes"]["groups"]
    assert groups == {(model, gpus): count for model, kinds in published.items() for count, gpus in kinds}
    assert sum(n.gpus for n in workload.nodes) == 10_412
    hp = Columns.of(workload, Priority.HP)
    assert np.quantile(hp.duration, 0.9) == pytest.approx(58_770, rel=0.05)
    assert np.median(hp.duration) == pytest.approx(1101, rel=0.02)
    for model, cards in workload.capacity().items():
        pool = Columns.of(workload, Priority.HP, model)
        rate = figures()["allocation_rate_before"]["rate"].get(model)
        wanted = rate or figures()["trace_totals"]["demand_over_capacity_by_model"][model]
        assert pool.load(cards, 28) == pytest.approx(wanted, abs=0.03), model
        jobs = len(pool.submit) + len(Columns.of(workload, Priority.SPOT, model).submit)
        assert jobs == pytest.approx(figures()["trace_totals"]["jobs_by_model"][model] * 28 / 184, abs=2)


def test_demo_is_small_and_busy() -> None:
    workload = generate()
    assert len(workload.nodes) == 64
    assert len(workload.tasks) == 6580
    cards = sum(workload.capacity().values())
    assert sum(Columns.of(workload, priority).load(cards, 14) for priority in Priority) > 0.8


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
        ({"preset": "none"}, "unknown preset .none.: there are demo, paper, production, fleet"),
        ({"nodes": 0}, "at least 1 nodes"),
        ({"preset": "production", "nodes": 5}, "at least 8 nodes"),
        ({"days": 0}, "days"),
        ({"days": float("inf")}, "days"),
        ({"spot_scale": -1}, "spot scale"),
        ({"hp_scale": -1}, "HP scale"),
        ({"largest_gang": 0}, "largest gang"),
        ({"largest_gang": 1.5}, "largest gang"),
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


def test_long_tasks_follow_the_weeks() -> None:
    horizon, chance = 1_000_000.0, np.random.default_rng(1)
    lasting = long_durations(4000, 10_000, 200_000, horizon, chance)
    assert lasting.mean() == pytest.approx(200_000, rel=0.01)
    gpus = chance.choice([1.0, 2.0, 8.0], 4000)
    begun = starts(gpus, lasting, (0.5, 1.0, 1.5, 1.0), horizon, chance)
    assert begun.min() == 0
    assert (begun + lasting).max() <= horizon
    # levels at 1/8, 3/8, 5/8 and 7/8 of the horizon
    held = [gpus[(begun <= t) & (begun + lasting > t)].sum() for t in (125_000, 375_000, 625_000, 875_000)]
    assert held / np.mean(held) == pytest.approx([0.5, 1.0, 1.5, 1.0], abs=0.05)


def test_long_tasks_may_fill_the_window() -> None:
    chance = np.random.default_rng(1)
    lasting = long_durations(100, 10_000, 900_000, 1_000_000, chance)
    assert lasting.mean() == pytest.approx(900_000, rel=0.02)
    begun = starts(np.ones(100), lasting, (1.0,), 1_000_000, chance)
    assert np.all(begun[lasting == 1_000_000] == 0)


def test_a_window_cuts_tasks_at_both_ends() -> None:
    # From 100 for 50 seconds: the first is over by then, the next is cut at both ends, the last at its end.
    begun, lasting = np.array([0.0, 90.0, 120.0, 140.0]), np.array([100.0, 100.0, 10.0, 50.0])
    submit, shown = cut(begun, lasting, 100, 50)
    assert submit.tolist()[1:] == [0, 20, 40]
    assert shown.tolist() == [0, 50, 10, 10]


def test_some_tasks_end_shortly_before_midnight() -> None:
    day, hour = 86_400.0, 3600.0
    submit, lasting = np.array([9.0, 26.0, 9.0, 9.0]) * hour, np.array([5.0, 6.0, 0.5, 20.0]) * hour
    moved = until_closing_time(submit, lasting, 1.0, 2 * day, np.random.default_rng(0))
    assert moved[2:].tolist() == submit[2:].tolist()  # too short, too long
    end = moved[:2] + lasting[:2]
    assert np.all((end > [day - hour / 2 - 1, 2 * day - hour / 2 - 1]) & (end <= [day, 2 * day]))
    assert until_closing_time(submit, lasting, 0.0, 2 * day, np.random.default_rng(0)).tolist() == submit.tolist()


def test_apportion_is_exact() -> None:
    # 10 in proportion 1 : 1 : 1 is 3.33 each; the first takes the one left over
    assert apportion([1, 1, 1], 10).tolist() == [4, 3, 3]
    assert apportion([0.5, 0.25, 0.25], 4).tolist() == [2, 1, 1]
    assert apportion([0.0, 0.0], 4).tolist() == [0, 0]
