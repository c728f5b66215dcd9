"""What generated workloads are calibrated with: published figures and their sources, choices and their reasons."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def figures() -> dict[str, Any]:
    """Everything in `calibration.json`, as it is written there."""
    loaded: dict[str, Any] = json.loads(_text("calibration.json"))
    return loaded


@cache
def choices() -> dict[str, Any]:
    """Everything in `presets.toml`."""
    return tomllib.loads(_text("presets.toml"))


def _text(name: str) -> str:
    return resources.files("gfs.workloads").joinpath(name).read_text(encoding="utf-8")
