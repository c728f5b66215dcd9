"""Shared set-up: Hypothesis profiles and the switch that rewrites the golden runs."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# `ci` tries the same cases on every machine; `explore` looks for new ones:
#   HYPOTHESIS_PROFILE=explore pytest tests/property
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell starts jobs in the background with Ctrl-C ignored, and programs inherit that: tests press it all the same.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden",
        action="store_true",
        help="rewrite tests/golden/expected from the present code",
    )
