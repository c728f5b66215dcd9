"""An outside program checks the logs of every scheduler and finds the same numbers in them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gfs
import needs
from gfs.cli.main import app
from gfs.domain.units import DAY
from gfs.workloads import write_trace
from waiting import LONGEST

AUDITOR = needs.SHARED / "tools" / "audit_events.py"
MICROSOFT = needs.SHARED / "data" / "msr_itp_elasticflow" / "raw"

pytestmark = needs.shared(AUDITOR)

PRESETS = {
    "demo": ("--preset", "demo", "--nodes", "16", "--days", "2"),
    "paper": ("--preset", "paper", "--nodes", "24", "--days", "3", "--spot-scale", "4"),
    "production": ("--preset", "production", "--nodes", "300", "--days", "1.5"),
}
"""Longer than a day, after which forecasts begin."""
SETTINGS = {
    "default": (),
    "fixed quota": ("--set", "quota=fixed"),
}


def run(*words: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output


def audit(
    trace: Path,
    out: Path,
    scheduler: str,
    *options: str,
    window: str | None = None,
    node_events: Path | None = None,
) -> dict[str, Any]:
    """Simulate a trace, then let the auditor look at everything that was written. Gives the metrics."""
    files = ("--jobs", str(trace / "jobs.csv"), "--nodes", str(trace / "nodes.csv"))
    written = {name: str(out / f"{name}.{'json' if name == 'json' else 'csv'}") for name in ("events", "json", "quota")}
    results = [word for name, path in written.items() for word in (f"--{name}", path)]
    span = ("--window", window) if window else ()
    if node_events is not None:
        files = (*files, "--node-events", str(node_events))
    run("simulate", *files, "--scheduler", scheduler, *options, *results, *span)
    metrics: dict[str, Any] = json.loads(Path(written["json"]).read_text())["runs"][0]["metrics"]
    if metrics["leases"]:
        # The auditor knows nothing of suspensions, so what it makes of them is compared here.
        at = results.index("--json")
        results[at : at + 2] = ["--leases"]
    command = [sys.executable, str(AUDITOR), *files, *results, *span]
    audited = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert audited.returncode == 0, audited.stderr[-2000:]
    if metrics["leases"]:
        agrees_on_leases(metrics, json.loads(audited.stdout))
    return metrics


def agrees_on_leases(said: dict[str, Any], found: dict[str, Any]) -> None:
    """Times, runs and suspensions as the log tells them; lost work follows other rules."""
    for kind in ("hp", "spot"):
        for key in ("tasks", "jct_mean", "jct_p99", "jqt_mean", "jqt_p99"):
            assert said[kind][key] == pytest.approx(found[kind][key], rel=1e-6, abs=1e-3), (kind, key)
    assert said["spot"]["runs"] == found["spot"]["runs"]
    assert said["spot"]["suspensions"] == found["spot"]["evictions"]
    assert said["spot"]["eviction_rate"] is None


@pytest.fixture(scope="module", params=PRESETS)
def preset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    run("trace", "generate", *PRESETS[request.param], "--out", str(folder))
    return folder


CLUSTERS = ["cluster05.csv", "cluster06.csv"]


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MICROSOFT.exists():
        pytest.skip(needs.NO_SHARED)
    folder = tmp_path_factory.mktemp("msr")
    run("trace", "convert", "--msr", str(MICROSOFT / request.param), "--out", str(folder))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", gfs.SCHEDULERS)
def test_every_scheduler_on_every_preset(preset: Path, scheduler: str, tmp_path: Path) -> None:
    audit(preset, tmp_path, scheduler)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    run("trace", "generate", *PRESETS["demo"], "--out", str(folder))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", gfs.SCHEDULERS)
def test_with_a_window_and_a_quota(demo: Path, scheduler: str, tmp_path: Path) -> None:
    audit(demo, tmp_path, scheduler, "--set", "quota=fixed", window="43200:172800")


def withdrawn(work: gfs.Workload) -> gfs.Workload:
    """Every seventh task is cancelled: by turns as it comes, as a grace period ends, halfway, when just done."""
    cancels = [inf] * len(work.tasks)
    for number, task in enumerate(work.tasks[::7]):
        duration = work.durations[task.index]
        cancels[task.index] = task.submit_time + (0.0, 30.0, duration / 2, duration)[number % 4]
    return replace(work, cancel_times=tuple(cancels))


def cordons(work: gfs.Workload) -> gfs.Workload:
    """Every fifth node is cordoned for six hours on each day, one after the other, whatever fails meanwhile."""
    days = int(max(task.submit_time for task in work.tasks) // DAY)
    closed = []
    for day in range(days + 1):
        for place, node in enumerate(work.nodes[day % 5 :: 5]):
            since = day * DAY + 1000.0 * place
            closed += [
                gfs.NodeEvent(since, node.name, "cordon"),
                gfs.NodeEvent(since + 21_600, node.name, "uncordon"),
            ]
    return replace(work, node_events=tuple(sorted(closed)))


ALL = "all of it, six pools"
TROUBLE: dict[str, Callable[[], gfs.Workload]] = {
    "failures": lambda: gfs.generate("demo", days=3, mtbf_days=3, mttr_hours=6),
    "cordons": lambda: cordons(gfs.generate("demo", days=3)),
    "cancellations": lambda: withdrawn(gfs.generate("demo", days=3)),
    ALL: lambda: withdrawn(gfs.generate("production", nodes=120, days=1.5, mtbf_days=3, mttr_hours=2)),
}
"""What no scheduler can know in advance."""


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name != ALL)) for name in TROUBLE]
)
def troubled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trouble")
    write_trace(TROUBLE[request.param](), folder)
    return folder


@pytest.mark.parametrize("scheduler", gfs.SCHEDULERS)
def test_every_scheduler_in_trouble(troubled: Path, scheduler: str, tmp_path: Path) -> None:
    events = troubled / "node_events.csv"
    metrics = audit(troubled, tmp_path, scheduler, node_events=events if events.exists() else None)
    fails = ",fail" in events.read_text() if events.exists() else False
    assert (metrics["hp"]["lost"] > 0) == fails
    cancels = "cancel_time" in (troubled / "jobs.csv").read_text()
    assert (metrics["hp"]["cancelled"] > 0) == cancels
    assert (metrics["spot"]["cancelled"] > 0) == cancels


@pytest.fixture(scope="module")
def own_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    work = withdrawn(gfs.generate("demo", days=3, seed=2, spot_scale=2, mtbf_days=4, mttr_hours=8))
    own = tuple(replace(task, checkpoint_interval=(600.0, 1800.0, 3600.0)[task.index % 3]) for task in work.tasks)
    write_trace(replace(work, tasks=own), folder)
    return folder


@pytest.mark.parametrize("scheduler", gfs.SCHEDULERS)
def test_trouble_with_a_window_a_quota_and_other_checkpoints(
    own_checkpoints: Path, scheduler: str, tmp_path: Path
) -> None:
    events = own_checkpoints / "node_events.csv"
    audit(own_checkpoints, tmp_path, scheduler, "--set", "quota=fixed", window="43200:172800", node_events=events)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("scheduler", gfs.SCHEDULERS)
def test_every_scheduler_on_whole_clusters(cluster: Path, scheduler: str, setting: str, tmp_path: Path) -> None:
    # These clusters are small beside their gangs: the largest spot task asks for half of all cards.
    audit(cluster, tmp_path, scheduler, "--set", "quota_share=0.5", *SETTINGS[setting])


@pytest.mark.slow
def test_all_microsoft_clusters_together(tmp_path: Path) -> None:
    if not MICROSOFT.exists():
        pytest.skip(needs.NO_SHARED)
    run("trace", "convert", "--msr", str(MICROSOFT), "--out", str(tmp_path))
    audit(tmp_path, tmp_path, "gfs", "--set", "quota=fixed")
