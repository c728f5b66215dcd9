"""The chart's alerts in a real Prometheus: it reads the rules, and each fires when it should and clears again."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from test_chart import EVERYTHING, of_kind, render

import needs
from bench import binaries
from prometheus import Past, serving

HOUR, DAY = 60, 24 * 60


class Case(NamedTuple):
    """Minutes: all is well first, then not, then well again. Series of each stretch, as promtool writes them."""

    series: dict[str, str]
    fires: int
    cleared: int


def stretch(*parts: tuple[float, float, int]) -> str:
    """Begin, growth a minute and minutes of each part."""
    return " ".join(f"{begin:g}{growth:+g}x{minutes - 1}" for begin, growth, minutes in parts)


def level(*parts: tuple[float, int]) -> str:
    return stretch(*((value, 0.0, minutes) for value, minutes in parts))


CASES = {
    "GfsNobodyDecides": Case({'gfs_leader{pod="a"}': level((1, 10), (0, 10), (1, 20))}, 15, 25),
    "GfsTwoLeaders": Case(
        {'gfs_leader{pod="a"}': level((1, 40)), 'gfs_leader{pod="b"}': level((0, 10), (1, 10), (0, 20))}, 15, 25
    ),
    "GfsDecisionsStopped": Case(
        {"gfs_last_decision_timestamp_seconds": stretch((0, 60, 10), (600, 0, 40), (3000, 60, 20))}, 35, 55
    ),
    "GfsApiServerProblems": Case(
        {
            "gfs_api_requests_total": stretch((0, 60, 120)),
            "gfs_api_problems_total": stretch((0, 0, 20), (0, 30, 40), (1200, 0, 60)),
        },
        50,
        90,
    ),
    "GfsVictimHangs": Case({"gfs_hanging_victims": level((0, 10), (2, 20), (0, 20))}, 20, 35),
    "GfsWatchLags": Case({"gfs_watch_silence_seconds": stretch((20, 0, 10), (20, 60, 30), (20, 0, 20))}, 35, 45),
    "GfsPromiseBroken": Case(
        {
            'gfs_promise{pod="a"}': level((0.9, 4 * DAY)),
            'gfs_guarantees_total{pool="A100", outcome="kept"}': stretch((0, 1, 4 * DAY)),
            'gfs_guarantees_total{pool="A100", outcome="broken"}': stretch(
                (0, 0, DAY), (0, 0.5, DAY), (DAY / 2, 0, 2 * DAY)
            ),
        },
        2 * DAY - 60,
        4 * DAY - 60,
    ),
    "GfsQuotaAtZero": Case(
        {
            'gfs_spot_quota_gpus{pool="A100", guarantee_hours="1"}': level((8, HOUR), (0, 8 * HOUR), (8, HOUR)),
            'gfs_spot_quota_gpus{pool="A100", guarantee_hours="4"}': level((0, 10 * HOUR)),
            'gfs_tasks{pool="A100", class="Spot", state="waiting"}': level((3, 10 * HOUR)),
        },
        8 * HOUR,
        9 * HOUR + 30,
    ),
    "GfsForecasterStale": Case(
        {
            "gfs_forecaster_last_fit_timestamp_seconds": level((0, 10), (600, 3 * DAY - 10))
            + " "
            + level((3 * DAY * 60, 2 * HOUR))
        },
        3 * DAY - 60,
        3 * DAY + HOUR,
    ),
    "GfsHpWaits": Case(
        {'gfs_tasks{pool="A100", class="HP", state="waiting"}': level((0, 10), (1, 60), (0, 20))}, 60, 80
    ),
    "GfsPodsRefused": Case({"gfs_refused_pods": level((0, 10), (1, 30), (0, 20))}, 35, 50),
}


@pytest.fixture(scope="module")
def promtool() -> Path:
    return needs.bench_programs(binaries.WELCOME)["promtool"]


@pytest.fixture
def rules(helm: Path, tmp_path: Path) -> Path:
    (alerts,) = of_kind(render(helm, *EVERYTHING), "PrometheusRule")
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": alerts["spec"]["groups"]}))
    return file


def alerts_of(rules: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]]


def test_every_alert_has_a_case(rules: Path) -> None:
    assert {rule["alert"] for rule in alerts_of(rules)} == set(CASES)


def test_the_rules_parse(promtool: Path, rules: Path) -> None:
    done = subprocess.run([promtool, "check", "rules", str(rules)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", list(CASES))
def test_an_alert_fires_and_clears(promtool: Path, rules: Path, name: str) -> None:
    case = CASES[name]

    def firing(minute: int, count: int) -> dict[str, Any]:
        expression = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)'
        return {"eval_time": f"{minute}m", "expr": expression, "exp_samples": [{"labels": "{}", "value": count}]}

    told = {
        "rule_files": [rules.name],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
                "promql_expr_test": [firing(5, 0), firing(case.fires, 1), firing(case.cleared, 0)],
            }
        ],
    }
    file = rules.with_name("test.yml")
    file.write_text(yaml.safe_dump(told))
    words = [promtool, "test", "rules", file.name]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=rules.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_running_prometheus_takes_the_rules(rules: Path, tmp_path: Path) -> None:
    with (
        serving(Past(), tmp_path, rule_file=rules) as address,
        urllib.request.urlopen(f"{address}/api/v1/rules") as answer,
    ):
        (group,) = json.loads(answer.read())["data"]["groups"]
    assert {rule["name"] for rule in group["rules"]} == set(CASES)
    assert not [rule["lastError"] for rule in group["rules"] if rule.get("lastError")]
