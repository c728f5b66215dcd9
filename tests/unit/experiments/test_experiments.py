"""Jobs, their cache, means over seeds, and what the report says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gfs.batch.cache import ROOT, ResultCache, imported_files
from gfs.batch.job import Job, JobResult
from gfs.batch.simulation import GeneratedTrace, TraceFiles
from gfs.domain.errors import InputError
from gfs.experiments.comparison import COMPARISON, SAME_QUOTA, SAME_QUOTA_COMPARISON, SCHEDULERS, runs
from gfs.experiments.experiment import Finding, FindingCounts, Section, Setup
from gfs.experiments.forecast_limit import FORECAST_LIMIT
from gfs.experiments.jobs import Simulation, merged, month, run_simulations
from gfs.experiments.quantities import EVICTED, Mean, mean_of
from gfs.experiments.report import Provenance, markdown, page
from gfs.experiments.sensitivity import CASES, QUICK, SENSITIVITY, ahead
from gfs.experiments.trace_statistics import TraceStatistics
from gfs.experiments.victim_gap import GapSample
from gfs.report.table import DataTable

SMALL = GeneratedTrace("demo", nodes=4, days=1)


def ignored(missing: list[Job]) -> Any:
    return lambda job: None


@dataclass(frozen=True)
class Sum:
    """A job that writes down that it was run."""

    number: int
    log: str

    @property
    def label(self) -> str:
        return f"sum of {self.number}"

    @property
    def weight(self) -> float:
        return float(self.number)

    def identity(self) -> dict[str, Any]:
        return {"job": "sum", "number": self.number}

    def run(self) -> JobResult:
        with Path(self.log).open("a", encoding="utf-8") as file:
            file.write(f"{self.number}\n")
        if self.number == 13:
            raise InputError("13 cannot be summed")
        return {"sum": self.number * (self.number + 1) / 2}


class TestMeans:
    def test_the_interval_is_students(self) -> None:
        # 1, 2, 3: standard error 1 / sqrt(3), t = 4.3027 with two degrees of freedom.
        mean = mean_of([1.0, 2.0, 3.0])
        assert mean.value == 2
        assert mean.half == pytest.approx(2.4841, abs=1e-4)
        assert mean_of([5.0]) == Mean(5.0, 0.0)

    def test_in_words(self) -> None:
        assert Mean(12.34, 1.26).text(lambda x: f"{x:.1f}") == "12.3 ± 1.3"
        assert Mean(12.34, 0.0).text(lambda x: f"{x:.1f}") == "12.3"

    def test_apart_when_the_intervals_do_not_touch(self) -> None:
        assert Mean(10, 2).apart(Mean(13, 0.5))
        assert not Mean(10, 2).apart(Mean(12.4, 0.5))

    def test_a_metric_that_a_run_does_not_have(self) -> None:
        results = [{"metrics": {"spot": {"eviction_rate": rate}}} for rate in (0.1, None)]
        assert EVICTED.of(results) is None
        assert EVICTED.of(results[:1]) == Mean(0.1, 0.0)


class TestCache:
    def test_what_was_computed_is_not_computed_again(self, tmp_path: Path) -> None:
        cache, log = ResultCache(tmp_path / "cache"), str(tmp_path / "log")
        jobs = [Sum(n, log) for n in (3, 4, 3)]
        first = run_simulations(jobs, cache, 1, ignored)
        assert first[Sum(4, log)] == {"sum": 10}
        assert run_simulations([*jobs, Sum(5, log)], cache, 1, ignored)[Sum(5, log)] == {"sum": 15}
        assert Path(log).read_text(encoding="utf-8").split() == ["4", "3", "5"]  # the longest first, each once

    def test_a_run_that_was_stopped_goes_on_where_it_was(self, tmp_path: Path) -> None:
        cache, log = ResultCache(tmp_path / "cache"), str(tmp_path / "log")
        with pytest.raises(InputError, match="13 cannot"):
            run_simulations([Sum(20, log), Sum(13, log), Sum(2, log)], cache, 1, ignored)
        run_simulations([Sum(20, log), Sum(2, log)], cache, 1, ignored)
        assert Path(log).read_text(encoding="utf-8").split() == ["20", "13", "2"]

    def test_several_at_once_give_the_same(self, tmp_path: Path) -> None:
        log = str(tmp_path / "log")
        jobs = [Sum(n, log) for n in range(1, 6)]
        alone = run_simulations(jobs, ResultCache(tmp_path / "one"), 1, ignored)
        assert run_simulations(jobs, ResultCache(tmp_path / "two"), 2, ignored) == alone

    def test_a_broken_file_counts_as_none(self, tmp_path: Path) -> None:
        cache, job = ResultCache(tmp_path), Sum(3, str(tmp_path / "log"))
        cache.keep(job, job.run())
        (file,) = tmp_path.glob("*.json")
        file.write_text(file.read_text(encoding="utf-8")[:20], encoding="utf-8")
        assert cache.find(job) is None

    def test_other_parameters_are_another_run(self, tmp_path: Path) -> None:
        cache, job = ResultCache(tmp_path), Simulation(SMALL, "static")
        cache.keep(job, {"x": 1})
        assert cache.find(job) == {"x": 1}
        assert cache.find(replace(job, settings=(("quota_share", "0.35"),))) == {"x": 1}  # what it is anyway
        for other in (
            replace(job, settings=(("quota_share", "0.5"),)),
            replace(job, scheduler="gfs"),
            replace(job, seed=1),
            replace(job, trace=SMALL._replace(seed=1)),
            replace(job, views=frozenset({"heat"})),
        ):
            assert cache.find(other) is None

    def test_a_given_trace_is_what_is_in_its_files(self, tmp_path: Path) -> None:
        for name, text in (("a", "1"), ("b", "2"), ("c", "1")):
            (tmp_path / name).write_text(text, encoding="utf-8")
        a, b, c = (TraceFiles.of(tmp_path / name, tmp_path / "a") for name in "abc")
        assert a.identity() == c.identity() != b.identity()

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("", encoding="utf-8")
        job = Sum(3, str(tmp_path / "log"))
        with pytest.raises(InputError, match="cannot be made"):
            ResultCache(tmp_path / "file" / "cache").keep(job, {"sum": 6})

    def test_what_is_kept_is_said_with_the_way_on(self, tmp_path: Path) -> None:
        cache = ResultCache(tmp_path / "cache")
        assert cache.summary() == "no run was complete, so none is kept"
        cache.keep(Sum(3, ""), {"sum": 6})
        assert cache.summary() == f"1 result is kept in {tmp_path}/cache; the same command again goes on from there"
        cache.keep(Sum(4, ""), {"sum": 10})
        assert cache.summary().startswith("2 results are kept in ")

    def test_a_result_depends_on_the_code_that_the_job_imports(self) -> None:
        def names(module: str) -> set[str]:
            return {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in imported_files(module)}

        sweep, experiment = names("gfs.sweeps.spec"), names("gfs.experiments.jobs")
        assert {"simulator.engine", "policies.gfs.preemption", "forecasting.naive", "workloads.__init__"} <= sweep
        assert not any(name.startswith(("report.", "cli.", "experiments.")) for name in sweep)
        assert {"experiments.views", "report.series"} <= experiment - sweep
        assert not any(name.startswith(("sweeps.", "report.figures", "report.page")) for name in experiment)


class TestJobs:
    def test_jobs_of_two_kinds_on_one_trace_are_two(self) -> None:
        assert len({GapSample(SMALL), TraceStatistics(SMALL)}) == 2

    def test_the_same_run_is_made_once_with_all_that_is_wanted_of_it(self) -> None:
        plain = Simulation(SMALL, "gfs")
        heat, quota = replace(plain, views=frozenset({"heat"})), replace(plain, views=frozenset({"quota"}))
        other = Simulation(SMALL, "fgd")
        both = replace(plain, views=frozenset({"heat", "quota"}))
        assert merged([plain, heat, other, quota]) == {plain: both, heat: both, quota: both, other: other}

    def test_a_simulation_gives_its_summary_and_its_views(self) -> None:
        job = Simulation(SMALL, "static", settings=(("guarantee_hours", "2"),), views=frozenset({"evictions", "quota"}))
        answer = job.run()
        assert answer["scheduler"] == "static"
        assert answer["parameters"]["guarantee_hours"] == 2
        assert answer["capacity"] == {"A100": 32}
        ended = sum(sum(week) for week in answer["views"]["evictions"]["ended"])
        assert 0 < ended <= answer["metrics"]["spot"]["runs"]
        assert answer["views"]["quota"]["pool"] == "A100"

    def test_the_quota_is_seen_with_the_forecast_and_the_actual_demand(self) -> None:
        view = Simulation(SMALL, "gfs", views=frozenset({"quota"})).run()["views"]["quota"]
        rows = zip(view["expected_demand"], view["demand"], view["actual"], strict=True)
        rows = [row for row in rows if None not in row]
        assert len(rows) > 20
        assert all(expected <= bound for expected, bound, _ in rows)
        assert sum(actual <= bound for _, bound, actual in rows) > len(rows) / 2

    def test_where_nobody_looked_ahead_there_is_no_bound(self) -> None:
        view = Simulation(SMALL, "static", views=frozenset({"quota"})).run()["views"]["quota"]
        assert set(view["demand"]) == {None}
        assert None not in view["quota"]

    def test_a_guarantee_that_is_set_holds_for_the_tasks(self) -> None:
        one, four = (Simulation(SMALL, "static", settings=(("guarantee_hours", h),)).run() for h in ("1", "4"))
        periods = [a["metrics"]["spot"]["guarantee_periods"] for a in (one, four)]
        assert periods[0] > periods[1]


def made_up(wait: dict[str, float], rate: dict[str, float]) -> dict[Job, JobResult]:
    """JobResults of a comparison with one seed, the same at every load."""
    setup = Setup(seeds=(0,))
    return {
        run: {
            "metrics": {
                "hp": {"jct_mean": 100.0, "jqt_mean": 1.0},
                "spot": {
                    "jct_mean": 200.0,
                    "jqt_mean": wait[name],
                    "eviction_rate": None if name == "chronus" else rate[name],
                },
            }
        }
        for load in setup.loads
        for name in SCHEDULERS
        for run in runs(setup, name, load)
    }


class TestComparison:
    def test_where_gfs_is_best_it_agrees_with_the_paper(self) -> None:
        wait = {"gfs": 5.0, "chronus": 10.0, "lyra": 20.0, "yarn-cs": 30.0, "fgd": 40.0}
        rate = {"gfs": 0.01, "lyra": 0.02, "yarn-cs": 0.03, "fgd": 0.04}
        shown = COMPARISON.section(Setup(seeds=(0,)), made_up(wait, rate))
        low = shown.findings[1]
        assert low.claim == "Lowest spot JQT, low load: gfs"
        assert low.agrees is True
        assert low.found == "gfs has the lowest here too; 10 of 10 pairs stand in the paper's order."
        table = shown.blocks[0]
        assert isinstance(table, DataTable)
        assert table.rows[-1][0] == "gfs against the best other"
        assert table.rows[-1][7:11] == ["-50%", "-55%", "-50%", "-43%"]  # wait and evictions, ours and the paper's

    def test_where_it_is_not_that_is_said_with_numbers(self) -> None:
        wait = {"gfs": 25.0, "chronus": 10.0, "lyra": 20.0, "yarn-cs": 30.0, "fgd": 40.0}
        rate = {"gfs": 0.025, "lyra": 0.02, "yarn-cs": 0.03, "fgd": 0.04}
        shown = COMPARISON.section(Setup(seeds=(0,)), made_up(wait, rate))
        assert shown.findings[2] == Finding(
            "Lowest evictions, low load: gfs",
            False,
            "here lyra has the lowest: 2.50 against 2.00; 5 of 6 pairs stand in the paper's order.",
        )


class TestSameQuota:
    def test_all_but_chronus_have_the_forecast_of_independent_organizations_without_feedback(self) -> None:
        jobs = SAME_QUOTA_COMPARISON.jobs(Setup())
        assert {job.scheduler for job in jobs} == {"yarn-cs", "lyra", "fgd", "gfs"}
        parameters = {(p.quota, p.aggregate) for job in jobs for p in [job.parameters()]}
        assert parameters == {("forecast-no-feedback", "independent")}
        assert {job.seed for job in jobs} == {0}
        plain = {job.trace for job in COMPARISON.jobs(Setup())}
        assert {job.trace for job in jobs} <= plain, "the traces of the other comparison"

    def test_it_is_shown_beside_the_paper_as_the_other_one(self) -> None:
        wait = {"gfs": 5.0, "chronus": 9.0, "lyra": 20.0, "yarn-cs": 30.0, "fgd": 40.0}
        rate = {"gfs": 0.01, "lyra": 0.02, "yarn-cs": 0.03, "fgd": 0.04}
        results = {replace(job, settings=SAME_QUOTA): found for job, found in made_up(wait, rate).items()}
        shown = SAME_QUOTA_COMPARISON.section(Setup(), results)
        table = shown.blocks[0]
        assert isinstance(table, DataTable)
        assert [row[0] for row in table.rows] == ["yarn-cs", "lyra", "fgd", "gfs", "gfs against the best other"]
        assert shown.findings[1].found == "gfs has the lowest here too; 6 of 6 pairs stand in the paper's order."


class TestSensitivity:
    def test_every_case_changes_one_thing_of_a_month_at_the_medium_load(self) -> None:
        traces = list(dict.fromkeys(job.trace for job in SENSITIVITY.jobs(Setup())))
        base = GeneratedTrace("paper", 2.0, 0, days=28.0)
        assert traces == [base._replace(**changes) for changes in CASES.values()]
        assert all(len(changes) <= 1 for changes in CASES.values())

    def test_quick_has_few_cases_and_a_given_trace_none(self) -> None:
        given = Setup(given=TraceFiles("jobs.csv", "nodes.csv", ""))
        assert len({job.trace for job in SENSITIVITY.jobs(Setup((0,), quick=True))}) == len(QUICK)
        assert SENSITIVITY.jobs(given) == []
        assert SENSITIVITY.section(given, {}).missing == ["Gang sizes and load of a given trace are what they are."]

    def test_the_cases_in_which_another_is_better_are_named(self) -> None:
        places = {"lyra": (90.0, 0.09), "fgd": (96.0, 0.01), "yarn-cs": (50.0, 0.2), "gfs": (100.0, 0.1)}
        assert ahead(places, "gfs") == ["lyra"]  # fgd is within noise, yarn-cs evicts more
        wins = {case: 0.5 if case == "spot work x8" else 2.0 for case in CASES}
        results = {
            job: {"metrics": {"spot": {"jqt_mean": factor, "eviction_rate": factor / 10}}}
            for job in SENSITIVITY.jobs(Setup())
            for case, changes in CASES.items()
            if job.trace == GeneratedTrace("paper", 2.0, 0, days=28.0)._replace(**changes)
            for factor in [wins[case] if job.scheduler == "lyra" else 1.0]
        }
        shown = SENSITIVITY.section(Setup(), results)
        assert [(f.agrees, f.found) for f in shown.findings] == [(False, "better on both: spot work x8: lyra.")] * 2
        table = shown.blocks[0]
        assert isinstance(table, DataTable)
        assert table.rows[-1][-2:] == ["lyra", "lyra"]


class TestForecastLimit:
    def test_distances_are_those_from_the_perfect_forecast(self) -> None:
        jobs = FORECAST_LIMIT.jobs(Setup())
        assert {job.trace for job in jobs} == {GeneratedTrace("paper", load, 0, days=28.0) for load in (2.0, 4.0)}
        results = {}
        for job in jobs:
            perfect = job.parameters().forecaster == "perfect"
            spot = {"tasks": 9, "jqt_mean": 10.0, "eviction_rate": 0.01, "wasted_gpu_hours": 5.0}
            results[job] = {"metrics": {"spot": spot if perfect else {**spot, "jqt_mean": 40.0, "eviction_rate": 0.03}}}
        medium, high = FORECAST_LIMIT.section(Setup(), results).blocks
        assert isinstance(medium, DataTable)
        assert isinstance(high, DataTable)
        assert medium.rows[0] == ["gfs", "weekly-peak", "40.0", "3.00", "5", "+30", "+2.00"]
        assert medium.rows[4] == ["gfs", "perfect", "10.0", "1.00", "5", "–", "–"]
        assert high.note == "Spot load high."

    def test_a_month_of_a_generated_trace_and_all_of_another(self) -> None:
        given = TraceFiles("jobs.csv", "nodes.csv", "")
        assert month(GeneratedTrace("paper")) == GeneratedTrace("paper", days=28.0)
        assert month(SMALL) == SMALL
        assert month(given) == given


class TestReport:
    def test_what_cannot_be_told_is_counted_apart(self) -> None:
        findings = [
            Finding("a", True, ""),
            Finding("b", None, "no data."),
            Finding("c", None, ""),
            Finding("d", False, ""),
        ]
        assert FindingCounts.of(findings) == (1, 1, 2)
        assert FindingCounts.of(findings).text() == "4 findings: 1 agrees, 1 disagrees, 2 cannot be told"
        page_text = page({"One": Section("Shows this.", [], findings)}, Provenance("gfs reproduce", Setup(), 1.0), {})
        assert "4 findings: 1 agrees, 1 disagrees, 2 cannot be told" in page_text

    def test_a_disagreement_is_as_loud_as_an_agreement(self) -> None:
        table = DataTable(["a", "b"], [["x", "1"], ["y", "2"]], frozenset({(0, 1)}), note="A note.")
        shown = {"One": Section("Shows this.", [table], [Finding("claim", False, "by far.")], ["Half of it."])}
        provenance = Provenance("gfs reproduce", Setup(), 12.0)
        text = page(shown, provenance, {})
        assert "DISAGREES" in text
        assert "What cannot be shown: Half of it." in text
        assert "1 finding: 0 agree, 1 disagrees, 0 cannot be told" in text
        assert markdown(shown, provenance).endswith(
            "## One\n\nShows this.\n\n* claim: **disagrees**. By far.\n\n"
            "| a | b |\n| --- | --- |\n| x | **1** |\n| y | 2 |\n\nA note.\n\nNot shown: Half of it.\n"
        )
