"""Which build of torch the tests of the networks get."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable
from types import SimpleNamespace

import install_torch
import pytest

CPU_BUILD, ORDINARY = "a CPU build", "the ordinary build"
EXTRA = tomllib.loads((install_torch.ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
(PINNED,) = (requirement for requirement in EXTRA["baselines"] if requirement.startswith("torch"))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What is installed, by what is there, what the indexes offer and how much disk is free."""

    def run(
        there: tuple[str, ...] = (), offered: tuple[str, ...] = (CPU_BUILD, ORDINARY), free_gb: float = 100
    ) -> list[str]:
        done = []

        def install(*requirements: str, quiet: bool = False) -> bool:
            for each in (word for word in requirements if word.startswith(("torch", "neuralforecast"))):
                build = CPU_BUILD if each.endswith("+cpu") else ORDINARY
                if each.startswith("torch") and build not in offered:
                    return False
                done.append(build if each.startswith("torch") else "neuralforecast")
            return True

        monkeypatch.setattr(install_torch, "CPU", "+cpu")
        versions = {word.partition("==")[0]: word.partition("==")[2] or "1.0" for word in there}
        monkeypatch.setattr(install_torch, "version_of", lambda name: versions.get(name, ""))
        monkeypatch.setattr(install_torch, "install", install)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free_gb * 1e9))
        install_torch.main()
        return sorted(done)

    return run


def test_what_is_there_stays(installed: Callable[..., list[str]]) -> None:
    assert installed(there=(PINNED, "neuralforecast")) == []
    assert installed(there=(PINNED,)) == ["neuralforecast"]


def test_another_version_goes(installed: Callable[..., list[str]]) -> None:
    assert installed(there=("torch==1.0", "neuralforecast")) == [CPU_BUILD, "neuralforecast"]


@pytest.mark.parametrize("free_gb", [100, 1])
def test_a_cpu_build_is_taken_on_any_disk(installed: Callable[..., list[str]], free_gb: float) -> None:
    assert installed(free_gb=free_gb) == [CPU_BUILD, "neuralforecast"]


def test_the_ordinary_build_is_taken_with_10_gb_of_disk(installed: Callable[..., list[str]]) -> None:
    assert installed(offered=(ORDINARY,), free_gb=10) == ["neuralforecast", ORDINARY]


def test_on_a_small_disk_one_line_says_what_is_not_tested(
    installed: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert installed(offered=(ORDINARY,), free_gb=9.9) == []
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("not tested: the six networks.")
    assert "needs 10 GB of disk (9.9 are free)" in line


def test_no_torch_although_the_disk_has_room_is_an_error(installed: Callable[..., list[str]]) -> None:
    with pytest.raises(SystemExit, match="pip cannot install"):
        installed(offered=())
