"""The experiment on forecasters: what is computed, what is shown, and what is said when it cannot be."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfs import InputError
from gfs.batch.job import JobResult
from gfs.batch.simulation import TraceFiles
from gfs.experiments.evaluations import HORIZON, NETWORKS, DemandFile, Evaluation, demand_of, installed, largest
from gfs.experiments.experiment import Section, Setup
from gfs.experiments.forecasters import FORECASTERS
from gfs.forecasting.evaluation import Scores, roll
from gfs.forecasting.naive import PERSISTENCE
from gfs.report.page import Chart, PageSection, Paragraph, build_page
from gfs.report.table import DataTable

HOURS, ORGANIZATIONS = 300, 8
JOBS = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num\nn0,A100,8,96\n"


def demand_file(folder: Path, hours: int = HOURS, organizations: int = ORGANIZATIONS) -> str:
    """Organization o0 wants about 10 GPUs, o1 about 20, and so on, with a daily wave."""
    rng = np.random.default_rng(0)
    rows = ["time,organization,gpu_model,gpus"]
    for i in range(organizations):
        wave = 10 * (i + 1) + 3 * np.sin(np.arange(hours) * 2 * np.pi / 24) + rng.normal(size=hours)
        rows += [f"{hour},o{i},A100,{max(value, 0):.3f}" for hour, value in enumerate(wave)]
    path = folder / f"demand-{hours}-{organizations}.csv"
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def trace(folder: Path, *rows: str) -> TraceFiles:
    (folder / "jobs.csv").write_text(JOBS + "".join(f"{row}\n" for row in rows))
    (folder / "nodes.csv").write_text(NODES)
    return TraceFiles.of(folder / "jobs.csv", folder / "nodes.csv")


def run_simulations(setup: Setup) -> dict[Any, JobResult]:
    """As they read from their files."""
    return {job: json.loads(json.dumps(job.run(), allow_nan=False)) for job in jobs_of(setup)}


def shown(setup: Setup, results: dict[Any, JobResult]) -> Section:
    """The section, after it was put on a page."""
    section = FORECASTERS.section(setup, results)
    assert build_page("t", "s", [PageSection(FORECASTERS.title, section.blocks)])
    return section


def models_of(setup: Setup) -> set[str]:
    return {job.model for job in jobs_of(setup)}


def jobs_of(setup: Setup) -> list[Any]:
    return list(FORECASTERS.jobs(setup))


def blocks_of(section: Section, kind: type[Any]) -> list[Any]:
    return [block for block in section.blocks if isinstance(block, kind)]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed, whether or not it is."""
    for name in [name for name in sys.modules if name.startswith("gfs.forecasting.baselines")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("torch", "neuralforecast"):
        monkeypatch.setitem(sys.modules, name, None)


def with_networks(results: dict[Any, JobResult], **factors: float) -> dict[Any, JobResult]:
    """As if the networks had been run: each so many times as far off as orglinear, 2 unless it is said."""
    plain = next(answer for job, answer in results.items() if job.model == "orglinear")

    def scores(name: str) -> dict[str, float]:
        return {key: value * factors.get(name, 2.0) for key, value in plain["scores"].items()}

    return {
        job: {**plain, "scores": scores(job.model), "band": None} if job.model in NETWORKS else answer
        for job, answer in results.items()
    }


class TestEvaluation:
    def test_the_six_largest_series_largest_first(self, tmp_path: Path) -> None:
        history = largest(demand_of(DemandFile.of(demand_file(tmp_path))))
        assert [key.organization for key in history.keys] == ["o7", "o6", "o5", "o4", "o3", "o2"]

    def test_scores_are_those_of_the_evaluation(self, tmp_path: Path) -> None:
        source = DemandFile.of(demand_file(tmp_path))
        answer = Evaluation(source, "persistence").run()
        scores = asdict(roll(PERSISTENCE, largest(demand_of(source)), horizon=HORIZON).scores())
        times = {"train_seconds", "predict_ms"}
        assert {k: v for k, v in answer["scores"].items() if k not in times} == {
            k: v for k, v in scores.items() if k not in times
        }
        assert (answer["of"], len(answer["series"]), answer["hours"], answer["test_hours"]) == (8, 6, 300, 60)

    def test_the_band_is_of_the_largest_series_four_hours_ahead(self, tmp_path: Path) -> None:
        source = DemandFile.of(demand_file(tmp_path))
        band = Evaluation(source, "orglinear").run()["band"]
        # 60 hours of test, the last three of which have no four hours after them: 57 forecasts, the first from
        # hour 240 for hour 243
        assert (band["hour"], len(band["actual"])) == (243, 57)
        assert band["actual"] == pytest.approx(demand_of(source).gpus[7, 243:300], abs=0.01)
        assert np.mean(np.array(band["actual"]) <= band["bounds"]["0.95"]) > 0.8

    def test_identity_is_what_is_in_the_file_and_what_is_installed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = demand_file(tmp_path, hours=30)
        copy = tmp_path / "copy.csv"
        copy.write_bytes(Path(path).read_bytes())
        one, other = (Evaluation(DemandFile.of(str(p)), "dlinear") for p in (path, copy))
        assert one.identity() == other.identity()
        before = one.identity()
        monkeypatch.setattr("gfs.experiments.evaluations.installed", lambda: {"torch": "99"})
        assert one.identity() != before
        assert replace(one, model="orglinear").identity()["packages"] == {}

    @pytest.mark.usefixtures("bare")
    def test_without_the_extra_it_says_what_to_install(self, tmp_path: Path) -> None:
        job = Evaluation(DemandFile.of(demand_file(tmp_path, hours=30)), "dlinear")
        assert installed() == {"torch": "", "neuralforecast": ""}
        assert "pip install 'gfs-scheduler[baselines]'" in job.run()["unavailable"]


class TestJobs:
    def test_one_a_model_and_in_a_quick_one_no_networks(self, tmp_path: Path) -> None:
        series = demand_file(tmp_path, hours=30)
        quick, whole = (models_of(Setup(quick=quick, series=series)) for quick in (True, False))
        assert quick == {"orglinear", "weekly-peak", "persistence", "orgquantile"}
        assert whole == quick | set(NETWORKS)

    def test_without_a_file_it_is_the_trace_at_medium_load(self) -> None:
        setup = Setup(seeds=(5, 6))
        assert {job.demand for job in jobs_of(setup)} == {setup.trace("medium", 5)}

    def test_a_file_that_is_no_good_is_refused_before_anything_runs(self, tmp_path: Path) -> None:
        (tmp_path / "bad.csv").write_text("time,organization,gpu_model,gpus\n0,o,A100,-3\n")
        for name in ("none.csv", "bad.csv"):
            with pytest.raises(InputError):
                FORECASTERS.jobs(Setup(series=str(tmp_path / name)))


class TestExhibit:
    def test_the_table_shows_the_scores(self, tmp_path: Path) -> None:
        setup = Setup(quick=True, series=demand_file(tmp_path))
        results = run_simulations(setup)
        section = shown(setup, results)
        (table,) = blocks_of(section, DataTable)
        rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.texts()}
        for job, answer in results.items():
            scores = Scores(**answer["scores"])
            row = rows[job.model]
            assert row["MAE [GPUs]"] == f"{scores.mae:.2f}"
            assert row["RMSE [GPUs]"] == f"{scores.rmse:.2f}"
            assert row["0.95-MAQE"] == f"{scores.maqe_95:.3f}"
            assert row["covered 0.95 [%]"] in (f"{100 * scores.coverage_95:.1f}", "100")
        assert "the 6 largest of 8 series" in blocks_of(section, Paragraph)[0].text
        assert len(blocks_of(section, Chart)) == 4
        assert "quick" in section.missing[0]
        assert [finding.agrees for finding in section.findings] == [None]

    @pytest.mark.usefixtures("bare")
    def test_without_the_extra_nothing_is_claimed(self, tmp_path: Path) -> None:
        setup = Setup(series=demand_file(tmp_path))
        section = shown(setup, run_simulations(setup))
        assert "gfs-scheduler[baselines]" in section.missing[0]
        assert [(v.agrees, "gfs-scheduler[baselines]" in v.found) for v in section.findings] == [(None, True)]
        assert len(blocks_of(section, DataTable)) == 1

    @pytest.mark.usefixtures("bare")
    def test_orglinear_against_the_next_best_beside_the_paper(self, tmp_path: Path) -> None:
        setup = Setup(series=demand_file(tmp_path))
        # dlinear is a tenth less off than orglinear, deepar twice as far
        section = shown(setup, with_networks(run_simulations(setup), dlinear=0.9))
        against = {row[0]: row for row in blocks_of(section, DataTable)[1].rows}
        assert against["MAE [GPUs]"][2].startswith("dlinear ")
        assert against["MAE [GPUs]"][3:] == ["+11.1%", "-24.3%"]  # 1 / 0.9
        assert against["0.95-MAQE"][2].startswith("deepar ")
        assert against["0.95-MAQE"][3:] == ["-50.0%", "-54.4%"]  # 1 / 2, and 0.026 / 0.057 in the paper
        assert against["train [s]"][4] == "-98.4%"  # 464.9 / 28,610.1
        agrees = {finding.claim: finding.agrees for finding in section.findings}
        assert agrees == {
            "orglinear has the lowest MAE of the seven": False,
            "orglinear has the lowest MSE of the seven": False,
            "orglinear has the lowest MAPE of the seven": False,
            "0.95-MAQE of orglinear is below deepar's": True,
            "0.9-MAQE of orglinear is below deepar's": True,
            "orglinear trains faster than deepar": True,
        }

    def test_a_trace_of_spot_tasks_has_no_demand(self, tmp_path: Path) -> None:
        setup = Setup(quick=True, given=trace(tmp_path, "a,lab,A100,4,1,1,0,100,Spot"))
        section = shown(setup, run_simulations(setup))
        assert section.missing == ["There is no HP task in this trace: no demand to forecast."]
        assert not section.blocks

    def test_a_short_trace_is_too_short(self, tmp_path: Path) -> None:
        setup = Setup(quick=True, given=trace(tmp_path, "a,lab,A100,4,1,1,0,100,HP", "b,lab,A100,4,1,1,36000,9,HP"))
        section = shown(setup, run_simulations(setup))
        assert section.missing[0].startswith("10 hours of demand are too few")

    def test_one_organization_and_no_paper_beside_the_users_trace(self, tmp_path: Path) -> None:
        rows = [f"j{i},lab,A100,4,{1 + i % 3},1,{1800 * i},{3600 * (1 + i % 4)},HP" for i in range(96)]
        setup = Setup(quick=True, given=trace(tmp_path, *rows))
        section = shown(setup, run_simulations(setup))
        assert not section.findings
        assert "1 series, 47 hours, the last 10 for the test" in blocks_of(section, Paragraph)[0].text
