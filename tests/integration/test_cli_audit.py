"""An outside program checks the logs of every scheduler and finds the same numbers in them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gfs
from gfs.cli.main import app

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
AUDITOR = SHARED / "tools" / "audit_events.py"
MICROSOFT = SHARED / "data" / "msr_itp_elasticflow" / "raw"

pytestmark = pytest.mark.skipif(not AUDITOR.exists(), reason="the auditor is not here")

PRESETS = {
    "demo": ("--preset", "demo"),
    "paper": ("--preset", "paper", "--nodes", "24", "--days", "4", "--spot-scale", "4"),
    "production": ("--preset", "production", "--days", "1"),
}
SETTINGS = {
    "default": (),
    "fixed quota": ("--set", "quota=fixed"),
}


def run(*words: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output


def audit(trace: Path, out: Path, scheduler: str, *options: str, window: str | None = None) -> None:
    """Simulate a trace, then let the auditor look at everything that was written."""
    files = ("--jobs", str(trace / "jobs.csv"), "--nodes", str(trace / "nodes.csv"))
    written = {
        name: str(out / f"{name}.{'json' if name == 'json' else 'csv'}") for name in ("events", "json", "quota")
    }
    results = [word for name, path in written.items() for word in (f"--{name}", path)]
    span = ("--window", window) if window else ()
    run("simulate", *files, "--scheduler", scheduler, *options, *results, *span)
    metrics = json.loads(Path(written["json"]).read_text())["runs"][0]["metrics"]
    if metrics["leases"]:
        # The auditor knows nothing of suspensions, so what it makes of them is compared here.
        at = results.index("--json")
        results[at : at + 2] = ["--leases"]
    command = [sys.executable, str(AUDITOR), *files, *results, *span]
    audited = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert audited.returncode == 0, audited.stderr[-2000:]
    if metrics["leases"]:
        agrees_on_leases(metrics, json.loads(audited.stdout))


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


@pytest.fixture(scope="module", params=["cluster05.csv", "cluster06.csv"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MICROSOFT.exists():
        pytest.skip("the Microsoft trace is not here")
    folder = tmp_path_factory.mktemp("msr")
    run("trace", "convert", "--msr", str(MICROSOFT / request.param), "--out", str(folder))
    return folder


@pytest.mark.parametrize("scheduler", gfs.SCHEDULERS)
def test_every_scheduler_on_every_preset(preset: Path, scheduler: str, tmp_path: Path) -> None:
    audit(preset, tmp_path, scheduler)


@pytest.mark.parametrize("scheduler", gfs.SCHEDULERS)
def test_with_a_window_and_a_quota(scheduler: str, tmp_path: Path) -> None:
    run("trace", "generate", *PRESETS["demo"], "--out", str(tmp_path))
    audit(tmp_path, tmp_path, scheduler, "--set", "quota=fixed", window="86400:432000")


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("scheduler", gfs.SCHEDULERS)
def test_every_scheduler_on_microsoft_clusters(
    cluster: Path, scheduler: str, setting: str, tmp_path: Path
) -> None:
    # These clusters are small beside their gangs: the largest spot task asks for half of all cards.
    audit(cluster, tmp_path, scheduler, "--set", "quota_share=0.5", *SETTINGS[setting])


def test_all_microsoft_clusters_together(tmp_path: Path) -> None:
    if not MICROSOFT.exists():
        pytest.skip("the Microsoft trace is not here")
    run("trace", "convert", "--msr", str(MICROSOFT), "--out", str(tmp_path))
    audit(tmp_path, tmp_path, "gfs", "--set", "quota=fixed")
