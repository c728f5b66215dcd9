"""What the package says of itself: exact versions within the ranges, one version, one name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gfs
from gfs.forecasting.registry import MODELS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
EXTRAS = PROJECT["optional-dependencies"]


def test_the_constraints_are_versions_and_no_addresses() -> None:
    assert not [line for line in LINES if not re.fullmatch(r"[\w.-]+==[\w.+!-]+", line)]


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_every_requirement_has_an_exact_version_within_its_range(extra: str) -> None:
    exact = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in LINES)}
    for text in EXTRAS[extra] if extra else PROJECT["dependencies"]:
        wanted = Requirement(text)
        if wanted.name == "torch":  # pyproject.toml has its exact version; each build adds a label of its own
            continue
        assert wanted.name in exact, f"{wanted.name} is not in constraints.txt: make constraints"
        assert exact[wanted.name] in wanted.specifier, f"{wanted}, but constraints.txt has {exact[wanted.name]}"


def test_what_gfs_imports_has_a_lower_bound() -> None:
    """`make test-versions` tries it."""
    for text in PROJECT["dependencies"]:
        assert ">=" in text


def test_the_citation_names_the_version() -> None:
    assert f"\nversion: {gfs.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_hints_name_the_package_and_extras_that_exist() -> None:
    assert {model.extra for model in MODELS.values()} - {""} <= set(PROJECT["optional-dependencies"])
    for folder in ("src", "tools", "docs", "examples"):
        for file in [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]:
            for name, extra in re.findall(r"pip install '([\w-]+)\[([\w-]+)\]'", file.read_text(encoding="utf-8")):
                assert name == PROJECT["name"], f"{file}: pip install '{name}[{extra}]'"
                assert extra in PROJECT["optional-dependencies"], f"{file}: pip install '{name}[{extra}]'"
