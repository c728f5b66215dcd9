"""The bench for tests: one a session, a fresh namespace and no nodes for each test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import needs
from bench.bench import Bench
from bench.cluster import Cluster
from bench.recorder import Recorder
from numbered_log import numbered

AUDIT = needs.SHARED / "tools" / "audit_cluster.py"
NUMBERS = count(1)


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    needs.bench_programs()
    with Bench() as running:
        yield running


def find_tool(name: str) -> Path:
    return needs.bench_programs([name])[name]


@pytest.fixture(scope="session")
def helm() -> Path:
    return find_tool("helm")


@pytest.fixture
def cluster(bench: Bench) -> Iterator[Cluster]:
    """A namespace of its own; its nodes and everything in it go when the test is over."""
    fresh = Cluster(bench.client, f"test-{next(NUMBERS)}")
    yield fresh
    fresh.remove()


@pytest.fixture
def record(bench: Bench, tmp_path: Path) -> Iterator[Path]:
    """A recorded watch of all that happens during the test, audited from outside when it is over."""
    file = tmp_path / "watch.jsonl"
    with Recorder(bench.client, file):
        yield file
    audited = audit(file)
    assert audited is None or audited.returncode == 0, audited.stdout + audited.stderr


def audit(file: Path, *options: str) -> subprocess.CompletedProcess[str] | None:
    """Let the independent program look at a recorded watch; None where it is not at hand."""
    if not AUDIT.exists():
        return None
    words = [sys.executable, str(AUDIT), "--watch", str(file), *options]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def audit_events(out: Path) -> None:
    """Let the independent program look at the event log and the trace of a folder, where it is at hand."""
    program = AUDIT.with_name("audit_events.py")
    if program.exists():
        files = [word for name in ("jobs", "nodes") for word in (f"--{name}", str(out / f"{name}.csv"))]
        files += ["--events", str(numbered(out / "events.csv"))]
        told = subprocess.run([sys.executable, str(program), *files], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout + told.stderr


@pytest.fixture
def audit_watch() -> Callable[..., subprocess.CompletedProcess[str] | None]:
    return audit
