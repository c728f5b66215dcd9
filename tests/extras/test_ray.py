"""A sweep on a Ray cluster of two real workers gives what one process gives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gfs.batch.cache import Executor, ResultCache, run_jobs
from gfs.batch.executors import on_this_machine
from gfs.batch.job import Job
from gfs.batch.ray_cluster import LOCAL, on_ray
from gfs.batch.simulation import GeneratedTrace
from gfs.domain.errors import InputError
from gfs.sweeps.spec import SweepRun

pytest.importorskip("ray", reason="needs the extra ray: make test-extras")


def runs(*shares: float) -> list[Job]:
    trace = GeneratedTrace("demo", nodes=4, days=1)
    return [SweepRun(trace, "static", 0, (("quota_share", s),), (("quota_share", s),)) for s in shares]


def test_ray_gives_what_one_process_gives(tmp_path: Path) -> None:
    def computed(name: str, executor: Executor) -> dict[Job, Any]:
        failed: dict[Job, str] = {}
        found: dict[Job, Any] = dict(
            run_jobs(
                runs(0.5, 0.6, 0.7, 0.02),
                ResultCache(tmp_path / name),
                executor,
                lambda missing: lambda job: None,
                lambda job, error: failed.update({job: f"{type(error).__name__}: {error}"}),
            )
        )
        assert len(failed) == 1
        return {**found, **failed}

    assert computed("ray", on_ray(LOCAL, 2)) == computed("here", partial(on_this_machine, 1))


def test_an_address_where_nobody_answers() -> None:
    with pytest.raises(InputError, match="no Ray cluster answers at"):
        list(on_ray("127.0.0.1:1")(runs(0.5)))
