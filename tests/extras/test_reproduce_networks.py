"""`gfs reproduce` with the extra: the table of forecasters has all six networks of the paper."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra baselines: make test-extras")
pytest.importorskip("neuralforecast", reason="needs the extra baselines: make test-extras")

from series import daily

from gfs.experiments.evaluations import NETWORKS
from gfs.experiments.experiment import Setup
from gfs.experiments.forecasters import CLAIMS, FORECASTERS
from gfs.forecasting.baselines import neural
from gfs.report.table import DataTable


@pytest.fixture
def little_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown does not depend on how well the networks have learnt."""
    for name in NETWORKS:
        monkeypatch.setattr(neural, name, partial(getattr(neural, name), steps=2))


@pytest.mark.usefixtures("little_training")
def test_the_table_has_all_six_networks_and_each_claim_of_the_paper_a_finding(tmp_path: Path) -> None:
    known = daily(2, 72)
    rows = ["time,organization,gpu_model,gpus"]
    for key, series in zip(known.keys, known.gpus, strict=True):
        rows += [f"{hour},{key.organization},{key.gpu_model},{gpus:.3f}" for hour, gpus in enumerate(series)]
    (tmp_path / "demand.csv").write_text("\n".join(rows) + "\n")
    setup = Setup(series=str(tmp_path / "demand.csv"))

    section = FORECASTERS.section(setup, {job: job.run() for job in FORECASTERS.jobs(setup)})

    scores, against = (block for block in section.blocks if isinstance(block, DataTable))
    assert [row[0] for row in scores.rows][:7] == ["orglinear", *NETWORKS]
    assert len(against.rows) == 7
    assert [finding.claim for finding in section.findings] == list(CLAIMS.values())
    assert all(finding.agrees is not None for finding in section.findings)
    assert not section.missing
