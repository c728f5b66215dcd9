"""Statistics, heat map and deployment on traces small enough to be worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import Draft, hp, nodes, play, spot, workload
from gfs.batch.cache import ResultCache
from gfs.batch.simulation import TraceFiles
from gfs.domain.units import DAY, HOUR
from gfs.domain.workload import Workload
from gfs.experiments.deployment import DEPLOYMENT, PoolChange, _findings, of_model, static_words, whole_cluster
from gfs.experiments.experiment import Experiment, Section, Setup
from gfs.experiments.heat_map import HEAT_MAP, _swing
from gfs.experiments.jobs import Simulation, run_simulations
from gfs.experiments.statistics import STATISTICS, Evictions, eviction_findings, most_eight_card_pods
from gfs.experiments.trace_statistics import POINTS, TraceStatistics, thinned
from gfs.experiments.views import heat, pools
from gfs.report.page import Chart, PageSection, build_page
from gfs.report.table import DataTable
from gfs.workloads import write_trace
from gfs.workloads.inspection import Cdf

MACHINES = [*nodes(8, 8), *nodes(4, model="T4", prefix="t")]
# On A100, s1 takes a node for two hours; h2 needs both nodes after half an hour. On T4 s2 is left alone.
DRAFTS = (
    spot("s1", gpus=8, lasting=7200, org="a"),
    spot("s2", gpus=4, lasting=3600, model="T4", org="b"),
    hp("h1", gpus=4, at=0, lasting=600, org="a"),
    hp("h2", gpus=8, pods=2, at=1800, lasting=3600, org="b"),
)


def given(folder: Path, world: Workload) -> Setup:
    return Setup(given=TraceFiles.of(*write_trace(world, folder)))


def shown(experiment: Experiment, setup: Setup, folder: Path) -> Section:
    results = run_simulations(
        experiment.jobs(setup), ResultCache(folder / "cache"), 1, lambda missing: lambda job: None
    )
    section = experiment.section(setup, results)
    build_page("x", "x", [PageSection("x", section.blocks)])
    return section


def of_kind(section: Section, kind: type[Any]) -> list[Any]:
    return [block for block in section.blocks if isinstance(block, kind)]


def test_evictions_and_allocation_by_pool() -> None:
    result = play(MACHINES, *DRAFTS, scheduler="static", quota_share=1.0).result
    found = pools(result)
    assert (found["A100"]["runs"], found["A100"]["evictions"]) == (2, 1)
    assert (found["T4"]["runs"], found["T4"]["evictions"]) == (1, 0)
    # Less than a day: measured to 7200 s, where the work would end had none waited. A100: s1 8 cards for 1800 s,
    # h1 4 for 600 s, h2 16 from 1830 (a grace of 30 s) to 5430 s, s1 again 8 from there to 7200 s.
    held = 8 * 1800 + 4 * 600 + 16 * 3600 + 8 * (7200 - 5430)
    assert found["A100"]["allocation"] == pytest.approx(held / (16 * 7200))
    assert found["T4"]["allocation"] == pytest.approx(0.5)
    assert found["A100"]["asked"] == pytest.approx((8 * 7200 + 4 * 600 + 16 * 3600) / (16 * 7200))


def test_allocation_counts_until_the_last_submission() -> None:
    result = play(nodes(2), hp("long", lasting=4 * DAY), hp("last", at=2 * DAY, lasting=DAY)).result
    assert pools(result)["A100"]["allocation"] == pytest.approx(0.5)


def test_heat_of_each_pool_and_its_idle_nodes() -> None:
    result = play(
        [*nodes(8, 8), *nodes(1, model="T4", prefix="t")], hp("h", gpus=4, lasting=5400), scheduler="static"
    ).result
    view = heat(result)
    a100, t4 = view["pools"]
    assert (a100["model"], a100["nodes"], a100["idle_nodes"]) == ("A100", 2, 1)
    assert a100["percent"] == [[50, 25], [0, 0]]
    assert a100["hourly"] == [25.0, 12.5]
    assert (t4["idle_nodes"], t4["percent"]) == (1, [[0, 0]])


def test_the_swing_of_a_day_and_its_lowest_hour() -> None:
    day = [50.0] * 24
    day[5] = 20.0  # the sixth hour after 22:00 is 3:00
    assert _swing([*day, *day, 0.0], first_hour=22) == (30.0, 3)


def test_statistics_of_a_trace(tmp_path: Path) -> None:
    setup = given(tmp_path, workload(MACHINES, DRAFTS))
    answer = TraceStatistics(setup.cluster()).run()
    # Pods: s1 8, s2 4, h1 4, h2 2 x 8: three of five ask for 8.
    assert answer["eight_card_pods"] == pytest.approx(0.6)
    assert answer["whole_card_pods"] == 1.0
    high, low = answer["classes"]
    assert high["pod_requests"] == {"values": (4.0, 8.0), "shares": pytest.approx((1 / 3, 1.0))}
    assert low["task_requests"] == {"values": (4.0, 8.0), "shares": (0.5, 1.0)}
    assert [d["organization"] for d in answer["demand"]] == ["b", "a"]


def test_arrivals_leave_out_what_ran_when_the_trace_begins(tmp_path: Path) -> None:
    drafts = [
        hp("old"),
        hp("older", gpus=2),
        hp("new", at=2 * HOUR + 5),
        spot("s", at=3 * HOUR),
        hp("next", at=26 * HOUR),
    ]
    answer = TraceStatistics(given(tmp_path, workload(nodes(8), drafts)).cluster()).run()
    assert answer["hp_arrivals_by_hour"] == [0, 0, 2, *[0] * 21]


def hourly(**rates: float) -> Evictions:
    """A week in which 100 runs end in every hour, so many percent by eviction; `h10=30`: from 10:00 to 11:00."""
    evicted = np.zeros((1, 24), int)
    for hour, rate in rates.items():
        evicted[0, int(hour[1:])] = rate
    return Evictions(np.full((1, 24), 100), evicted)


def test_evictions_by_hour_and_what_they_follow() -> None:
    found = hourly(h10=30, h11=30, h20=12)
    assert found.rate(range(10, 12)) == 30.0
    assert found.rate() == pytest.approx(3.0)  # 72 of 2,400
    assert found.follow([*[1] * 10, 31, 31, *[1] * 8, 13, 1, 1, 1]) == pytest.approx(1.0)
    assert hourly(h10=3).follow([1] * 24) == 0.0, "too few to tell"


def test_observations_on_evictions_are_told_beside_more_spot_work() -> None:
    arrivals = {"hp_arrivals_by_hour": [*[1] * 10, 31, 31, *[1] * 12]}
    peak, mean, follows = eviction_findings(arrivals, hourly(h20=12), hourly(**{f"h{h}": 40 for h in range(10, 12)}))
    assert (peak.agrees, mean.agrees, follows.agrees) == (False, False, False)
    assert peak.found.endswith("most at 20:00, 12.0%. With 16 times the spot work 40.00% and 0.00%.")
    assert mean.found.endswith("With 16 times the spot work 3.33%.")
    assert follows.found.endswith("With 16 times the spot work 1.00.")


def test_more_spot_work_is_tried_on_the_synthetic_cluster_alone(tmp_path: Path) -> None:
    scales = [job.trace.spot_scale for job in STATISTICS.jobs(Setup()) if isinstance(job, Simulation)]
    assert scales == [1.0, 16.0]
    _, run, more = STATISTICS.jobs(given(tmp_path, workload(nodes(8), [hp("h"), spot("s")])))
    assert run == more


def test_the_trace_leaves_no_room_for_so_many_pods_of_eight() -> None:
    # A10: 228,643 tasks of one card. Half of the tasks with a median below 8: 113,564. The other 1,974,000 GPUs in
    # pods of eight: 246,700 pods of 588,900.
    assert most_eight_card_pods() == pytest.approx(0.419, abs=0.001)


def test_distributions_are_thinned_to_their_ends() -> None:
    whole = Cdf(tuple(map(float, range(1000))), tuple((i + 1) / 1000 for i in range(1000)))
    thin = thinned(whole)
    assert len(thin.values) == POINTS
    assert (thin.values[0], thin.values[-1], thin.shares[-1]) == (0.0, 999.0, 1.0)
    assert thinned(Cdf((1.0, 8.0), (0.5, 1.0))) == Cdf((1.0, 8.0), (0.5, 1.0))


def test_the_static_quota_lets_every_spot_task_start(tmp_path: Path) -> None:
    small = whole_cluster(given(tmp_path, workload(nodes(8), [spot("s", gpus=2)])), "static")
    assert small.settings == ()
    large = whole_cluster(given(tmp_path, workload(nodes(8), [spot("s", gpus=5)])), "static")
    assert large.settings == (("quota_share", "0.63"),)  # 5 of 8
    assert static_words(large) == "first fit, and 63% of each pool for spot tasks"


def test_models_of_the_paper() -> None:
    values = {"A10": 1.0, "A100": 2.0}
    assert [of_model(values, name) for name in ("A10", "A100-SXM4-80GB", "T4")] == [1.0, 2.0, None]


def test_verdicts_of_the_deployment() -> None:
    """A100: 20% of 100 runs, then 5%: -75%. 1000 GPUs x 0.10 x $2.50 x 730 h = $182,500."""
    pool = PoolChange("A100", 1000, (100, 100), (20, 5), (0.7, 0.8), 0.9, 2.5, 0.1)
    assert pool.benefit == pytest.approx(182_500)
    others = [PoolChange(model, 10, (10, 10), (0, 0), (0.6, 0.7), 1.3, 1.0, 0.1) for model in ("A10", "A800")]
    less, below, more, worth = _findings([pool, *others])
    assert (less.agrees, below.agrees, more.agrees, worth.agrees) == (True, True, False, True)
    assert "-75.0%" in less.found
    assert "A800 +10.00 (possible 40.00, paper +22.79)" in more.found  # less than half of the paper's
    few = _findings([pool._replace(evictions=(3, 0)), *others])[0]
    assert (few.agrees, few.found) == (None, "too few to tell: 3 evictions before, 0 after.")


CASES = {
    "only HP": ([hp("h1"), hp("h2", at=50, org="b")], "no spot tasks"),
    "only spot": ([spot("s1"), spot("s2", at=50, gpus=8)], "no HP tasks"),
    "one organization": ([hp("h1", gpus=8), spot("s1", at=50)], "one organization"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_trace_cannot_show_is_named(tmp_path: Path, name: str) -> None:
    drafts: list[Draft]
    drafts, words = CASES[name]
    setup = given(tmp_path, workload([*nodes(8), *nodes(1, model="T4", prefix="t")], drafts))
    section = shown(STATISTICS, setup, tmp_path)
    assert words in " ".join(section.missing)
    assert not section.findings
    assert "paper" not in of_kind(section, DataTable)[0].header
    for other in (HEAT_MAP, DEPLOYMENT):
        assert shown(other, setup, tmp_path).blocks
    worth = of_kind(shown(DEPLOYMENT, setup, tmp_path), DataTable)[0]
    assert "Benefit: points of goodput (useful work) gained" in worth.note  # on one's own trace waste is worth nothing


def test_four_weeks_of_evictions(tmp_path: Path) -> None:
    """Every day at 10:00 a task comes and evicts; the two runs of a day end at 10:00 and at 12:00 or later."""
    drafts = []
    for day in range(29):  # the last one closes the fourth week
        start = day * DAY + 9 * HOUR
        drafts += [spot(f"s{day}", gpus=8, at=start, lasting=1800 + HOUR)]
        drafts += [hp(f"h{day}", gpus=8, at=start + HOUR, lasting=HOUR)]
    setup = given(tmp_path, workload(nodes(8), drafts))
    section = shown(STATISTICS, setup, tmp_path)
    chart = next(chart for chart in of_kind(section, Chart) if "evicted" in chart.title)
    assert [line["name"] for line in chart.data] == ["week 1", "week 2", "week 3", "week 4", "all weeks"]
    rates = chart.data[-1]["y"]
    assert rates[10] == 100.0
    assert [rate for rate in rates if rate is not None] == [100.0, 0.0]
    assert "28 of 56 runs" in chart.caption
    assert not any("four weeks" in words for words in section.missing)
