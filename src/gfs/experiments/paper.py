"""The paper's values, from the data file beside this module."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def paper() -> dict[str, Any]:
    """All that the file holds."""
    return tomllib.loads(resources.files("gfs.experiments").joinpath("paper.toml").read_text(encoding="utf-8"))
