"""The bench for tests of faults: one a session; in the end it is counted how many faults there were."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from judge import TOOLS
from world import Begin, world

import needs
from bench.bench import Bench

NUMBERS = count(1)
LOST_AT_ONCE = r"ignore:Exception ignored in. <ssl\.SSLSocket [^>]*laddr=\('127\.0\.0\.1', \d+\)>"
"""Python leaves a TLS socket unclosed whose server is killed before the handshake begins; it has no remote address."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", f"{LOST_AT_ONCE}:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    needs.bench_programs()
    if not TOOLS.exists():
        print(f"{TOOLS} is not there: watches and event logs are judged by our own checks only")
    with Bench(keep_logs=tmp_path_factory.mktemp("logs")) as running:
        yield running


@pytest.fixture
def begin(bench: Bench, tmp_path: Path) -> Begin:
    """A world of its own: `with begin(seed) as world: ...`."""
    return lambda seed=0: world(bench, tmp_path, f"chaos-{next(NUMBERS)}", seed)
