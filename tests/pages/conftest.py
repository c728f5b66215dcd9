"""Pages in a real browser: `make test-pages` installs one where it can."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import needs
from browser import BROWSER


@pytest.fixture(scope="session", autouse=True)
def chromium() -> None:
    if BROWSER is None:
        needs.require("chromium")


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The packages that `make web` installs."""
    folder = Path(__file__).resolve().parents[2] / "web" / "node_modules"
    if not folder.is_dir():
        needs.lack(
            "no packages of web/: install Node and run make test-pages", possible_here=shutil.which("npm") is not None
        )
    return folder
