"""A sweep on a Ray cluster of two real workers gives what one process gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gfs.batch.answers import answer_all
from gfs.batch.cache import Cache
from gfs.batch.job import Job
from gfs.batch.ray_cluster import LOCAL, RayCluster
from gfs.batch.traces import Generated
from gfs.batch.workers import OneAfterTheOther, Workers
from gfs.domain.errors import InputError
from gfs.sweeps.runs import SweepRun

pytest.importorskip("ray")


def runs(*shares: float) -> list[Job]:
    trace = Generated("demo", nodes=4, days=1)
    return [SweepRun(trace, "static", 0, (("quota_share", s),), (("quota_share", s),)) for s in shares]


def test_ray_gives_what_one_process_gives(tmp_path: Path) -> None:
    def computed(name: str, workers: Workers) -> dict[Job, Any]:
        failed: dict[Job, str] = {}
        found: dict[Job, Any] = dict(
            answer_all(
                runs(0.5, 0.6, 0.7, 0.02),
                Cache(tmp_path / name),
                lambda count: workers,
                lambda missing: lambda job: None,
                lambda job, error: failed.update({job: f"{type(error).__name__}: {error}"}),
            )
        )
        assert len(failed) == 1
        return {**found, **failed}

    assert computed("ray", RayCluster(LOCAL, 2)) == computed("here", OneAfterTheOther())


def test_an_address_where_nobody_answers() -> None:
    with pytest.raises(InputError, match="no Ray cluster answers at"):
        list(RayCluster("127.0.0.1:1").run(runs(0.5)))
