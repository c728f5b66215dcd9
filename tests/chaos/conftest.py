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
