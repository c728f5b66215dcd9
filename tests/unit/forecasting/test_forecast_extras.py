"""A forecaster whose packages are not installed says what to install, in a sentence."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from gfs import InputError
from gfs.cli.main import app
from gfs.forecasting.registry import MODELS

PACKAGES = ("torch", "neuralforecast", "lightgbm")
NEED_EXTRA = {name: model.extra for name, model in MODELS.items() if model.extra}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if none of the packages were there, whether or not they are."""
    for name in [name for name in sys.modules if name.startswith("gfs.forecasting.baselines")]:
        monkeypatch.delitem(sys.modules, name)
    for name in PACKAGES:
        monkeypatch.setitem(sys.modules, name, None)


def test_the_baselines_of_the_paper_and_the_ceiling_are_there() -> None:
    networks = ("transformer", "informer", "autoformer", "fedformer", "dlinear", "deepar")
    assert {**dict.fromkeys(networks, "baselines"), "lightgbm": "lightgbm"} == NEED_EXTRA


@pytest.mark.parametrize(("name", "extra"), NEED_EXTRA.items())
def test_it_says_what_to_install(name: str, extra: str) -> None:
    with pytest.raises(InputError) as raised:
        MODELS[name].load()
    assert str(raised.value) == (
        f"forecaster {name} needs packages that are not installed: pip install 'gfs-scheduler[{extra}]'"
    )


@pytest.mark.parametrize(("name", "extra"), NEED_EXTRA.items())
def test_the_command_line_refuses_in_a_sentence(name: str, extra: str) -> None:
    result = CliRunner().invoke(app, ["forecast", "evaluate", "--series", "none.csv", "--models", name])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert f"pip install 'gfs-scheduler[{extra}]'" in " ".join(result.stderr.split())
