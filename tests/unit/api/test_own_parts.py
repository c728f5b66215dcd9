"""Quotas and forecasters of one's own: as objects, and by entry point."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gfs
from gfs.cli.main import app
from gfs.parts import Context, DemandHistory, FixedMemory, FixedQuota, NormalForecast, Quota
from gfs.workloads import write_trace

SMALL = gfs.generate("demo", nodes=8, days=3, seed=1)


class Half:
    """As `quota=fixed` with a share of 0.5."""

    name, summary = "half", "half of the pool"

    def build(self, context: Context) -> Quota:
        memory = context.state.remember(FixedMemory)
        return FixedQuota(context.pool, 0.5, context.guarantees, memory)


class Nothing:
    """Expects that nobody will want anything."""

    name = "nothing"

    def fit(self, history: DemandHistory) -> Nothing:
        return self

    def predict(self, history: DemandHistory, hours: int) -> NormalForecast:
        zero = 0.0 * history.gpus[:, -1:].repeat(hours, axis=1)
        return NormalForecast(history.keys, zero, zero + 1e-6)


class TestObjects:
    def test_a_quota(self) -> None:
        ours = gfs.simulate(SMALL, scheduler="yarn-cs", quota=Half(), check=True)
        fixed = gfs.simulate(SMALL, scheduler="yarn-cs", quota="fixed", quota_share=0.5)
        assert ours.metrics == fixed.metrics
        assert (ours.scheduler, ours.quota_in_force) == ("yarn-cs+half", "half")

    def test_a_forecaster(self) -> None:
        ours = gfs.simulate(SMALL, scheduler="gfs", forecaster=Nothing(), history_hours=1, record_quota=True)
        assert ours.scheduler == "gfs+nothing"
        assert ours.summary()["parameters"]["forecaster"] == "nothing"
        assert ours.quota is not None
        assert "nothing" in ours.quota["forecaster"].to_pylist()

    def test_in_a_comparison_and_in_processes_of_their_own(self) -> None:
        one = gfs.compare(SMALL, schedulers="yarn-cs,lyra", quota=Half())
        two = gfs.compare(SMALL, schedulers="yarn-cs,lyra", quota=Half(), workers=2)
        assert [result.scheduler for result in two] == ["yarn-cs+half", "lyra+half"]
        assert [result.metrics for result in two] == [result.metrics for result in one]

    def test_leases_stay_leases(self) -> None:
        assert gfs.simulate(SMALL, scheduler="chronus", quota=Half()).metrics.leases

    @pytest.mark.parametrize(
        ("part", "said"),
        [
            ({"quota": object()}, "an object of type object is no quota: it lacks name, summary, build"),
            ({"quota": Half}, "Half is a class: give an object of it"),
            ({"forecaster": object()}, "is no forecaster: it lacks name, fit"),
            ({"forecaster": type("P", (Nothing,), {"name": "persistence"})()}, "there is a built-in forecaster"),
            ({"quota": type("Q", (Half,), {"name": "fixed"})()}, "its name 'fixed' is that of a built-in quota"),
        ],
    )
    def test_what_cannot_be_used(self, part: dict[str, Any], said: str) -> None:
        with pytest.raises(gfs.InputError, match=f"^this part cannot be used: .*{said}"):
            gfs.simulate(SMALL, **part)


Offered = Callable[[str, str], None]

MODULE = """
from test_own_parts import Half, Nothing

HALF = Half()
"""


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offered]:
    """Puts a distribution on the path that offers something in a group of entry points."""
    place = tmp_path / "site"
    metadata = place / "my_parts-1.2.dist-info"
    metadata.mkdir(parents=True)
    (place / "my_parts.py").write_text(MODULE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(place)

    def add(group: str, line: str) -> None:
        with (metadata / "entry_points.txt").open("a") as file:
            file.write(f"[{group}]\n{line}\n")

    yield add
    sys.modules.pop("my_parts", None)


class TestEntryPoints:
    def test_a_quota(self, offered: Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(gfs.InputError, match="quota = 'half': must be one of none, fixed"):
            gfs.simulate(SMALL, quota="half")
        offered("gfs.quotas", "half = my_parts:HALF")
        ours = gfs.simulate(SMALL, scheduler="yarn-cs", quota="half")
        assert ours.metrics == gfs.simulate(SMALL, scheduler="yarn-cs", quota="fixed", quota_share=0.5).metrics
        assert (ours.scheduler, ours.quota_in_force) == ("yarn-cs", "half")
        monkeypatch.chdir(tmp_path)
        write_trace(SMALL, ".")
        words = ["simulate", "--jobs", "jobs.csv", "--nodes", "nodes.csv", "--set", "quota=half"]
        assert "spot quota: half" in CliRunner().invoke(app, words).stdout

    def test_a_forecaster(self, offered: Offered) -> None:
        with pytest.raises(gfs.InputError, match="unknown forecaster 'nothing'"):
            gfs.forecast(SMALL, model="nothing")
        offered("gfs.forecasters", "nothing = my_parts:Nothing")
        assert max(gfs.forecast(SMALL, model="nothing").to_arrow()["expected"].to_pylist()) == 0.0
        assert gfs.simulate(SMALL, forecaster="nothing", history_hours=1).scheduler == "gfs"

    def test_faults_stay_their_own(self, offered: Offered) -> None:
        offered("gfs.quotas", "gone = my_parts:GONE\nother = my_parts:HALF")
        offered("gfs.forecasters", "broken = no_such_module:X")
        for quota, said in (("gone", "AttributeError"), ("other", "it calls itself 'half'")):
            with pytest.raises(gfs.InputError, match=f"quota '{quota}' of my-parts 1.2 .* cannot be used: .*{said}"):
                gfs.simulate(SMALL, quota=quota)
        with pytest.raises(gfs.InputError, match=r"forecaster 'broken' of my-parts 1.2 .* cannot be used: ModuleNot"):
            gfs.forecast(SMALL, model="broken")
        assert gfs.simulate(SMALL, quota="none").metrics.hp.tasks > 0
