"""`--by` of `gfs simulate` and `gfs compare`, and `gfs explain --organization`, on a trace of some days."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import gfs
from gfs.cli.main import app
from gfs.workloads import write_trace

TRACE = ("--jobs", "jobs.csv", "--nodes", "nodes.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    write_trace(gfs.generate("demo", nodes=16, days=4, spot_scale=2, seed=1), ".")
    return tmp_path


def run(*words: str) -> Result:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines()), default=0) <= 80 or "--json" in words
    return result


def refused(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 2, result.output
    return result.stderr.partition("error: ")[2]


def loaded(path: str) -> dict[str, Any]:
    return dict(json.loads(Path(path).read_text(encoding="utf-8")))


def one_line(text: str) -> str:
    return " ".join(text.split())


class TestBy:
    def test_tables_of_one_run(self) -> None:
        plain = run("simulate", *TRACE, "--scheduler", "yarn-cs").stdout
        told = run("simulate", *TRACE, "--scheduler", "yarn-cs", "--by", "organization,size").stdout
        assert told.startswith(plain)
        told = told.removeprefix(plain)
        for heading in ("By organization", "By GPUs of the task", "Who evicts whom under yarn-cs", "fairness, spot"):
            assert heading in told
        assert "Worst treated under yarn-cs is org-" in told
        assert "By GPU model" not in told

    def test_tables_of_several_runs(self) -> None:
        told = run("compare", *TRACE, "--schedulers", "yarn-cs,static", "--by", "size").stdout
        assert "* best of its group" in told
        assert "Who evicts whom" not in told

    def test_json_has_all_groups_and_they_add_up(self) -> None:
        run("compare", *TRACE, "--schedulers", "gfs-plus,yarn-cs", "--json", "c.json")
        for entry in loaded("c.json")["runs"]:
            by, spot = entry["by"], entry["metrics"]["spot"]
            for kind in ("organization", "model", "size"):
                assert sum(group["spot_evictions"] for group in by[kind]) == spot["evictions"]
            assert by["all"]["spot_runs"] == spot["runs"]
            assert sum(pair["evictions"] for pair in by["evictions"]) == spot["evictions"] > 0
            assert 0 < by["fairness"]["spot"] <= 1
            assert by["worst_treated"] in {group["name"] for group in by["organization"]}

    def test_the_report_has_a_section(self) -> None:
        run("compare", *TRACE, "--schedulers", "gfs-plus,yarn-cs", "--html", "r.html")
        page = Path("r.html").read_text(encoding="utf-8")
        assert "<h2>Whose jobs</h2>" in page
        assert "Worst treated under gfs-plus is org-" in page
        assert "Who evicts whom under gfs-plus" in page
        assert "★ best of its group." in page

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("simulate", *TRACE, "--by", "team"), "--by team: give organization, model or size"),
            (("compare", *TRACE, "--by", ""), "--by: give organization, model or size"),
            (("compare", *TRACE, "--by", "size,size"), "--by size is named twice"),
            (("compare", *TRACE, "--front", "--by", "size"), "--by: with --front there are no figures by group"),
        ],
    )
    def test_what_is_refused(self, words: tuple[str, ...], said: str) -> None:
        assert refused(*words).startswith(said)


class TestOrganization:
    def test_the_story_is_that_of_the_summary(self) -> None:
        run("simulate", *TRACE, "--scheduler", "yarn-cs", "--events", "e.csv", "--json", "s.json")
        by = loaded("s.json")["runs"][0]["by"]
        name = by["worst_treated"]
        files = ("--events", "e.csv", "--jobs", "jobs.csv", "--summary", "s.json", "--json", "o.json")
        result = run("explain", *files, "--organization", name)
        told = one_line(result.stdout)
        assert told.startswith(f"{name} submitted ")
        assert "Of all organizations with enough spot tasks to tell, it is treated worst." in told
        assert f"{name} beside the others" in told
        assert ("Who evicted its spot runs" in told) == any(pair["evicted"] == name for pair in by["evictions"])
        assert "gfs explain --events e.csv s" in told
        story = loaded("o.json")
        (group,) = (group for group in by["organization"] if group["name"] == name)
        assert story["figures"] == {key: pytest.approx(value) for key, value in group.items()}
        assert story["all"] == {key: pytest.approx(value) for key, value in by["all"].items()}
        assert story["worst_treated"] is True
        assert story["evicted_by"] == [
            {**pair, "wasted_gpu_hours": pytest.approx(pair["wasted_gpu_hours"])}
            for pair in by["evictions"]
            if pair["evicted"] == name
        ]
        same = gfs.simulate("jobs.csv", "nodes.csv", scheduler="yarn-cs").explain_organization(name)
        assert json.loads(json.dumps(same.to_dict()))["hp"] == story["hp"]

    def test_without_the_jobs_it_says_what_it_assumes(self) -> None:
        run("simulate", *TRACE, "--events", "e.csv")
        name = gfs.read_trace("jobs.csv", "nodes.csv").tasks[0].organization
        result = run("explain", "--events", "e.csv", "--organization", name)
        assert "assumed: a guarantee of 1 h and checkpoints every 60 min" in result.stderr
        assert run("explain", "--events", "e.csv", "--organization", name, "--json", "-").stdout.startswith("{")

    def test_names_with_brackets_are_names(self) -> None:
        work = gfs.read_trace("jobs.csv", "nodes.csv")
        write_trace(replace(work, tasks=tuple(replace(t, organization="[red]lab[/red]") for t in work.tasks)), ".")
        run("simulate", *TRACE, "--events", "e.csv")
        assert (
            "[red]lab[/red] submitted" in run("explain", "--events", "e.csv", "--organization", "[red]lab[/red]").stdout
        )

    def test_what_is_refused(self) -> None:
        run("simulate", *TRACE, "--events", "e.csv")
        log = ("explain", "--events", "e.csv")
        assert refused(*log).startswith("give the name of a task, or --organization NAME")
        assert refused(*log, "s1", "--organization", "org-1").startswith("give the name of a task, or")
        assert refused(*log, "--organization", "nobody").startswith("there is no organization 'nobody' in the log: ")
        assert refused(*log, "s1", "--jobs", "jobs.csv").startswith("--jobs is for --organization: leave it out")
