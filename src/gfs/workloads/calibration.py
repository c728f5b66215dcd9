"""The published figures that generated workloads are calibrated with, each with its source in the JSON."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def figures() -> dict[str, Any]:
    """Everything in `calibration.json`, as it is written there."""
    text = resources.files("gfs.workloads").joinpath("calibration.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
