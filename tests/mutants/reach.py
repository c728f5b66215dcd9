"""Which test executes which lines, and how long it takes: recorded once, file by file, with the code as it is."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from mutations import Mutant

PACKAGE = "src/gfs"
CALLS = 500
"""Of one function in one test: further calls are not recorded. A test that is overlooked makes a survivor, no kill."""


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """One test that passed: its CPU seconds while it was recorded, and the lines that it executed."""

    test: str
    seconds: float
    lines: dict[str, frozenset[int]]
    """File -> lines. A file outside the scope has no lines: that the test entered it is all that is known."""

    def executes(self, mutant: Mutant, importers: Iterable[str]) -> bool:
        """Whether the test can notice a mutant. What runs at import is noticed by users of the module, too."""
        if mutant.at_import:
            return any(path in self.lines for path in (mutant.path, *importers))
        return not self.lines.get(mutant.path, frozenset()).isdisjoint(range(mutant.first, mutant.last + 1))


def importers(path: str, root: Path) -> list[str]:
    """Returns the files of the package that import a module."""
    module = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    package, _, name = module.rpartition(".")
    said = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
    return [str(file.relative_to(root)) for file in (root / PACKAGE).rglob("*.py") if said.search(file.read_text())]


class Recorder:
    """A pytest plug-in that notes the lines of each test. What a shared fixture executes counts for the whole file."""

    def __init__(self, root: Path, scope: set[str]) -> None:
        self._root = f"{root}/"
        self._scope = scope
        self._left: dict[CodeType, set[int] | None] = {}
        self._calls = Counter[CodeType]()
        self._seen: dict[str, set[int]] = defaultdict(set)
        self._shared: dict[str, set[int]] = defaultdict(set)
        self._failed = False
        self.tests: dict[str, tuple[float, dict[str, set[int]]]] = {}

    def _forget(self) -> None:
        self._left = {}
        self._calls.clear()

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        try:
            left = self._left[code]
        except KeyError:
            left = self._enter(code)
        if not left:
            return None
        self._calls[code] += 1
        if self._calls[code] >= CALLS:
            self._left[code] = None
        return self._line

    def _enter(self, code: CodeType) -> set[int] | None:
        """The lines of a function that were not seen in this test yet; none where nobody asks for them."""
        left = None
        if code.co_filename.startswith(self._root + PACKAGE):
            path = code.co_filename.removeprefix(self._root)
            self._seen[path].update(())
            if path in self._scope:
                left = {line for _, _, line in code.co_lines() if line is not None}
                self._seen[path].add(code.co_firstlineno)
        self._left[code] = left
        return left

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        code, line = frame.f_code, frame.f_lineno
        left = self._left.get(code)
        if left and line in left:
            left.discard(line)
            self._seen[code.co_filename.removeprefix(self._root)].add(line)
        return self._line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._forget()
        self._seen, self._failed = defaultdict(set), False
        began = time.process_time()
        threading.settrace(self._call)
        sys.settrace(self._call)
        result = yield
        sys.settrace(None)
        threading.settrace(None)
        if not self._failed:
            self.tests[item.nodeid] = time.process_time() - began, self._seen
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        self._forget()
        outer, self._seen = self._seen, self._shared
        result = yield
        self._forget()
        self._seen = outer
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= not report.passed

    def write(self, file: Path, digest: str) -> None:
        """Write what was recorded, as JSON."""
        tests = {
            test: (
                seconds,
                {path: sorted(seen[path] | self._shared[path]) for path in seen.keys() | self._shared.keys()},
            )
            for test, (seconds, seen) in self.tests.items()
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"digest": digest, "tests": tests}))


def digest(test_file: Path, sources: dict[str, bytes], root: Path) -> str:
    """Of all that a recording depends on: the package, the scope, the helpers of the tests and the file of tests."""
    parts = hashlib.sha256(repr(sorted(sources)).encode())
    helpers = [file for file in (root / "tests").rglob("*.py") if not file.match("mutants/*")]
    helpers = [file for file in helpers if not file.name.startswith("test_")]
    for file in sorted([*(root / PACKAGE).rglob("*.py"), *helpers, test_file]):
        parts.update(file.read_bytes())
    return parts.hexdigest()


def read(file: Path, wanted: str) -> list[Reach] | None:
    """Returns a recording, or none where there is none with this digest."""
    if not file.exists():
        return None
    recorded = json.loads(file.read_text())
    if recorded["digest"] != wanted:
        return None
    return [
        Reach(test, seconds, {path: frozenset(seen) for path, seen in lines.items()})
        for test, (seconds, lines) in recorded["tests"].items()
    ]
