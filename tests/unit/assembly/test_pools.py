"""Pools with a scheduler and parameters of their own: in a simulation and as `gfs live` builds its core."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

import gfs
from builders import hp, nodes, spot, workload
from gfs import InputError, Parameters, Workload, generate
from gfs.assembly.run import run_simulation
from gfs.assembly.schedulers import build_scheduler, quota_in_force, warn_of_idle_settings
from gfs.batch.comparison import run_all
from gfs.plans.evidence import sums_by_pool
from gfs.policies.gfs.scoring import GfsPlusPlacer
from gfs.policies.greedy import GreedyPolicy
from gfs.quota.adaptive import AdaptiveQuota
from gfs.quota.static import FixedQuota

OWN = {"A10": {"scheduler": "static", "quota": "fixed", "quota_share": 0.25}}


def two_pools() -> Workload:
    """The same work twice, on A100 and on A10."""
    one = generate("demo", nodes=4, days=1, seed=2, spot_scale=3)
    drafts = []
    for model, prefix in (("A100", "a"), ("A10", "b")):
        for task, lasting in zip(one.tasks, one.durations, strict=True):
            make = spot if task.is_spot else hp
            wish: dict[str, Any] = {"at": task.submit_time, "gpus": task.gpus_per_pod, "pods": task.pods}
            drafts.append(make(f"{prefix}{task.name}", lasting=lasting, model=model, **wish))
    return workload([*nodes(8, 8, 8, 8), *nodes(8, 8, 8, 8, model="A10", prefix="b")], drafts)


def of_pool(trace: Workload, model: str, scheduler: str, parameters: Parameters) -> Any:
    result = run_simulation(trace, scheduler, parameters)
    return sums_by_pool(result.events, trace, parameters.rules, [0.0])[model]


def test_each_pool_does_what_it_would_do_under_its_own_scheduler_everywhere() -> None:
    """Without forecasts, which learn from all pools together, pools do not know of each other."""
    trace = two_pools()
    mixed = Parameters().changed({"p": 0.95, "pools": OWN})
    plus, static = Parameters(p=0.95), Parameters(quota="fixed", quota_share=0.25)
    a10, a100 = (of_pool(trace, model, "gfs-plus", mixed) for model in ("A10", "A100"))
    assert a100 == of_pool(trace, "A100", "gfs-plus", plus)
    assert a10 == of_pool(trace, "A10", "static", static)
    assert a10 != of_pool(trace, "A10", "gfs-plus", plus)


def test_what_limits_spot_tasks_is_said_pool_by_pool() -> None:
    definition = gfs.schedulers()["gfs-plus"]
    mixed = Parameters().changed({"pools": OWN})
    assert quota_in_force(definition, mixed) == "adaptive; A10 (static) fixed 25%"


def test_a_pool_without_tasks_of_its_own_quota_and_one_too_small_for_its_largest_task() -> None:
    trace = workload([*nodes(8), *nodes(8, model="A10", prefix="b")], [spot("s", gpus=4, model="A10")])
    small = Parameters().changed({"pools": {"A10": {"quota": "fixed", "quota_share": 0.25}}})
    with pytest.raises(InputError, match="2 of 8 GPUs of pool A10, but task s asks 4"):
        run_simulation(trace, "gfs", small)
    elsewhere = Parameters().changed({"pools": {"A100": {"quota": "fixed", "quota_share": 0.25}}})
    assert run_simulation(trace, "gfs-plus", elsewhere).metrics.spot.tasks == 1


def test_schedulers_that_do_not_exist_or_do_not_go_together() -> None:
    for scheduler, said in (("nobody", r"\[pools.A10\] unknown scheduler 'nobody'"), ("chronus", "leases under")):
        own = Parameters().changed({"pools": {"A10": {"scheduler": scheduler}}})
        with pytest.raises(InputError, match=said):
            build_scheduler("gfs", nodes(8), own, period=3600.0)


def test_a_comparison_runs_each_scheduler_in_every_pool() -> None:
    own = Parameters().changed({"pools": OWN})
    with pytest.raises(InputError, match=r"\[pools.A10\] names a scheduler"):
        run_all(two_pools(), ["gfs", "static"], own, workers=1)


def test_a_parameter_that_any_pool_reads_is_not_idle(caplog: pytest.LogCaptureFixture) -> None:
    """static reads no p, but gfs-plus on A100 does; nobody reads lease_aging; there is no pool B200."""
    own = Parameters().changed({"p": 0.8, "lease_aging": 7, "pools": {**OWN, "B200": {"p": 0.7}}})
    warn_of_idle_settings(["gfs-plus"], two_pools().nodes, own, {"p", "lease_aging", "pools"})
    assert "lease_aging: no effect" in caplog.text
    assert "[pools.B200]: no effect, there is no such pool" in caplog.text
    assert "p: no effect" not in caplog.text


class TestLive:
    """The file that `gfs plan` writes, read as `gfs live run --config` reads it."""

    TEXT = (
        'scheduler = "gfs-plus"\nquota = "adaptive"\np = 0.95\n\n'
        '[pools.A10]\nscheduler = "static"\nquota = "fixed"\nquota_share = 0.25\n'
    )

    def test_the_core_is_built_as_the_file_says(self, tmp_path: Path) -> None:
        from gfs.core.events import NodeChange, NodeChangeKind, NodesChanged
        from gfs.live.service import LiveOptions, Service, new_scheduler
        from gfs.live.settings import read_config

        file = tmp_path / "gfs.toml"
        file.write_text(self.TEXT, encoding="utf-8")
        live, parameters = read_config(file)
        assert live.scheduler == "gfs-plus"
        assert parameters.resources == "on"
        Service(LiveOptions(live, parameters))  # accepts it
        core = new_scheduler(live, parameters)
        machines = [*nodes(8), *nodes(8, model="A10", prefix="b", first=1)]
        core.handle(0.0, [NodesChanged([NodeChange(NodeChangeKind.ADDED, node) for node in machines])])
        a100, a10 = (cast(GreedyPolicy, core.pools[model].policy) for model in ("A100", "A10"))
        assert isinstance(a100.quota, AdaptiveQuota)
        assert isinstance(a100._placer, GfsPlusPlacer)
        assert isinstance(a10.quota, FixedQuota)
        assert not isinstance(a10._placer, GfsPlusPlacer)

    def test_the_table_of_live_settings_wins(self, tmp_path: Path) -> None:
        from gfs.live.service import LiveOptions, Service
        from gfs.live.settings import read_config

        file = tmp_path / "gfs.toml"
        file.write_text(f'{self.TEXT}[live]\nscheduler = "gfs"\n', encoding="utf-8")
        assert read_config(file)[0].scheduler == "gfs"
        file.write_text(self.TEXT.replace('"static"', '"chronus"'), encoding="utf-8")
        with pytest.raises(InputError, match=r"\[pools.A10\] scheduler = 'chronus' beside 'gfs-plus'"):
            Service(LiveOptions(*read_config(file)))
