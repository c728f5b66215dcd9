"""Whether the tests notice small faults: `make mutants`, or MUTANTS="--seed 7 --sample 50 --only src/gfs/quota".

A mutant is one small change of the source (mutations.py). The sample is drawn evenly from all mutants of the scope;
a seed gives the same sample for the same source. Each mutant is imported in place of its module in a process of its
own, which runs the tests that execute the changed statement (reach.py), until one fails. No file is changed.

A test without end counts as one that fails: a mutant gets a multiple of the CPU time that its tests take otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.util
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from mutations import Mutant, mutants, sample
from reach import Reach, Recorder, digest, importers, read

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutants"
SCOPE = ("src/gfs/core", "src/gfs/policies", "src/gfs/quota", "src/gfs/telemetry/metrics", "src/gfs/live/translate")
TESTS = (
    *(f"tests/unit/{part}" for part in ("domain", "core", "policies", "quota", "simulator", "telemetry", "assembly")),
    "tests/unit/live",
    "tests/golden",
    *(f"tests/property/test_{name}.py" for name in ("fgd_oracle", "lyra_oracle", "oracle", "node_index")),
    *(f"tests/property/test_{name}.py" for name in ("groups_add_up", "quota_change", "trial_rollback")),
)
"""Not the long property tests: what only they notice counts as a survivor, and deserves a test that says why."""
HEAVY = ("numpy", "scipy.optimize", "scipy.sparse", "pyarrow", "plotly", "highspy", "rich", "typer", "msgspec")
HEAVY_LIVE = ("aiohttp", "kubernetes_asyncio", "prometheus_client")
QUIET = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
FIRST_BATCH_SECONDS = 3.0
"""Most mutants fail soon: further files of tests are only collected when these few pass."""


# One process per piece of work


@dataclass(slots=True)
class Work:
    """What one process does; `cpu_seconds` is what it may take."""

    name: str
    run: Callable[[], int]
    cpu_seconds: float
    done: Callable[[int], None]
    """Gets the exit code, or minus the signal that ended it."""
    deadline: float = field(default=0.0, init=False)


def in_processes(works: Iterable[Work], processes: int) -> None:
    """Do each work in a process that is forked from this one, so many at a time."""
    running: dict[int, Work] = {}
    waiting = iter(works)
    try:
        while True:
            while len(running) < processes and (work := next(waiting, None)):
                # A wait without end takes no CPU time: a multiple, because other programs want the CPU, too.
                work.deadline = time.monotonic() + 60 + 10 * work.cpu_seconds
                running[_forked(work)] = work
            if not running:
                return
            time.sleep(0.02)
            for pid, work in list(running.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended or time.monotonic() > work.deadline:
                    _end_group(pid)
                    if not ended:
                        _, status = os.waitpid(pid, 0)
                    del running[pid]
                    work.done(os.waitstatus_to_exitcode(status))
    finally:
        for pid in running:
            _end_group(pid)


def _forked(work: Work) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    log = os.open(BUILD / f"{work.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    limit = int(work.cpu_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    code = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        code = work.run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_group(pid: int) -> None:
    """End what a work has left behind: it leads a group of processes of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


# Recording


def recorded(sources: dict[str, bytes], processes: int) -> list[Reach]:
    """Returns what every test reaches; records the files of tests that have changed."""
    files = sorted({file for glob in TESTS for file in _test_files(glob)})
    found: dict[Path, list[Reach]] = {}
    missing: list[Work] = []
    for file in files:
        kept = BUILD / "reach" / f"{'-'.join(file.relative_to(ROOT).parts)}.json"
        wanted = digest(file, sources, ROOT)
        known = read(kept, wanted)
        if known is not None:
            found[file] = known
            continue

        def done(code: int, file: Path = file, kept: Path = kept, wanted: str = wanted) -> None:
            known = read(kept, wanted)
            if known is None:
                sys.exit(f"{file}: pytest ended with {code}. See {BUILD}/{kept.stem}.log")
            found[file] = known
            print(f"recorded {file.relative_to(ROOT)}: {len(known)} tests", flush=True)

        missing.append(Work(kept.stem, _recording(file, kept, wanted, set(sources)), 3600, done))
    in_processes(missing, processes)
    return [reach for file in files for reach in found[file]]


def _test_files(glob: str) -> Iterator[Path]:
    for path in ROOT.glob(glob):
        yield from path.rglob("test_*.py") if path.is_dir() else [path]


def _recording(file: Path, kept: Path, wanted: str, scope: set[str]) -> Callable[[], int]:
    def run() -> int:
        recorder = Recorder(ROOT, scope)
        code = pytest.main([*QUIET, str(file)], plugins=[recorder])
        recorder.write(kept, wanted)
        return code

    return run


# Mutants


class Swap(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module from another source."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = ROOT / path
        self._source = source
        self._name = path.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Returns how to load the module, and none for all others."""
        if name != self._name:
            return None
        folder = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, self._path, loader=self, submodule_search_locations=folder)

    def get_source(self, fullname: str) -> str:
        """Returns the other source."""
        return self._source.decode()

    def get_code(self, fullname: str) -> Any:
        """Returns the other source, compiled."""
        return compile(self._source, self._path, "exec")


class Selection:
    """A pytest plug-in that runs chosen tests in a given order and notes the first that fails."""

    def __init__(self, tests: Sequence[Reach], note: Path) -> None:
        self._rank = {reach.test: rank for rank, reach in enumerate(tests)}
        self._note = note
        self.args = list(dict.fromkeys(str(ROOT / reach.test.partition("::")[0]) for reach in tests))

    def pytest_sessionstart(self) -> None:
        """A counterexample is enough, it need not be a small one."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", parent=settings.get_profile("ci"), phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._rank), key=lambda i: self._rank[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note.write_text(report.nodeid)


@dataclass(slots=True)
class Verdict:
    """What became of a mutant: the test that noticed it, why it counts as noticed otherwise, or empty."""

    mutant: Mutant | None
    tests: list[Reach]
    killed_by: str = ""


def chosen_tests(reaches: list[Reach], mutant: Mutant, users: list[str], seconds: float) -> list[Reach]:
    """Returns tests that execute a mutant, by file: those of the same package first, then the quick ones."""
    tests = [reach for reach in reaches if reach.executes(mutant, users)]
    package = f"tests/unit/{Path(mutant.path).parts[2]}/"
    chosen: set[Reach] = set()
    for reach in sorted(tests, key=lambda r: (package not in r.test, r.seconds, r.test)):
        seconds -= reach.seconds
        if seconds < 0 and chosen:
            break
        chosen.add(reach)
    cost: dict[str, float] = defaultdict(float)
    for reach in chosen:
        cost[_file(reach)] += reach.seconds
    in_order = [reach for reach in tests if reach in chosen]
    return sorted(in_order, key=lambda r: (package not in r.test, cost[_file(r)], _file(r)))


def _file(reach: Reach) -> str:
    return reach.test.partition("::")[0]


def batches(tests: list[Reach]) -> list[list[Reach]]:
    """Returns the tests in two parts: whole files of a few seconds, and the rest."""
    total, last = 0.0, ""
    for index, reach in enumerate(tests):
        if total > FIRST_BATCH_SECONDS and _file(reach) != last:
            return [tests[:index], tests[index:]]
        total, last = total + reach.seconds, _file(reach)
    return [tests]


def judged(verdicts: Iterable[Verdict], sources: dict[str, bytes]) -> Iterator[Work]:
    """Returns the work that runs the tests of each mutant. Without a mutant, they run on the code as it is."""
    for number, verdict in enumerate(verdicts):
        if not verdict.tests:
            continue
        name = f"mutant-{number}"
        note = BUILD / f"{name}.failed"
        note.unlink(missing_ok=True)
        mutant = verdict.mutant
        path = mutant.path if mutant else max(sources)
        swap = Swap(path, mutant.applied(sources[path]) if mutant else sources[path])

        def run(verdict: Verdict = verdict, note: Path = note, swap: Swap = swap) -> int:
            sys.meta_path.insert(0, swap)
            for batch in batches(verdict.tests):
                selection = Selection(batch, note)
                code = pytest.main([*QUIET, "-x", *selection.args], plugins=[selection])
                if code:
                    return int(code)
            return 0

        def done(code: int, verdict: Verdict = verdict, note: Path = note) -> None:
            if code == pytest.ExitCode.NO_TESTS_COLLECTED:
                sys.exit(f"{verdict.mutant}: none of its tests were collected")
            if code in (-signal.SIGXCPU, -signal.SIGKILL):
                verdict.killed_by = "no end"
            elif code:
                verdict.killed_by = note.read_text() if note.exists() else "an error while tests are imported"
            if not verdict.mutant and code:
                sys.exit(f"On the code as it is, this fails: {verdict.killed_by}. See {BUILD}/mutant-0.log")
            if verdict.mutant:
                print(f"{'killed  ' if code else 'SURVIVED'} {verdict.mutant}  [{verdict.killed_by}]", flush=True)

        yield Work(name, run, 30 + 4 * sum(reach.seconds for reach in verdict.tests), done)


def report(verdicts: list[Verdict], everything: Counter[str]) -> str:
    """Returns the counts by folder and the survivors, as Markdown."""
    sampled = Counter(_folder(v.mutant.path) for v in verdicts if v.mutant)
    killed = Counter(_folder(v.mutant.path) for v in verdicts if v.mutant and v.killed_by)
    lines = ["| folder | mutants | sample | killed | share |", "|---|---|---|---|---|"]
    for folder in [*sorted(everything), "all"]:
        counts = [c.total() if folder == "all" else c[folder] for c in (everything, sampled, killed)]
        lines.append(f"| {folder} | {counts[0]} | {counts[1]} | {counts[2]} | {counts[2] / max(counts[1], 1):.1%} |")
    lines += ["", "Survivors:", ""]
    lines += [
        f"* `{v.mutant}`{'' if v.tests else ' (no test executes it)'}" for v in verdicts if v.mutant and not v.killed_by
    ]
    return "\n".join(lines)


def _folder(path: str) -> str:
    return "/".join(Path(path).parts[1:-1])


def main() -> None:
    """Draw a sample of mutants, run the tests on each, print what they did not notice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=31, help="of the sample (31)")
    parser.add_argument("--sample", type=int, default=220, help="how many mutants (220)")
    parser.add_argument("--only", action="append", default=[], metavar="PATH", help="only files that begin so")
    parser.add_argument("--line", type=int, help="only mutants of this line, all of them (with --only FILE)")
    parser.add_argument("--seconds", type=float, default=30.0, help="CPU time of the tests of one mutant (30)")
    parser.add_argument("--processes", type=int, default=2, help="at a time (2)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    BUILD.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    for module in (*HEAVY, *HEAVY_LIVE):
        importlib.import_module(module)
    files = sorted(file for file in (ROOT / "src/gfs").rglob("*.py"))
    sources = {path: file.read_bytes() for file in files if (path := str(file.relative_to(ROOT))).startswith(SCOPE)}
    reaches = recorded(sources, options.processes)

    chosen = {path: text for path, text in sources.items() if path.startswith(tuple(options.only) or "")}
    drawn, number = sample(chosen, options.sample, options.seed, options.line)
    users = {path: importers(path, ROOT) for path in {mutant.path for mutant in drawn}}
    verdicts = [Verdict(m, chosen_tests(reaches, m, users[m.path], options.seconds)) for m in drawn]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    said = f"{len(drawn)} of {number} mutants"
    print(f"commit {commit}, seed {options.seed}: {said}, {len(reaches)} tests", flush=True)

    used = {reach.test for verdict in verdicts for reach in verdict.tests}
    control = Verdict(None, [reach for reach in reaches if reach.test in used])
    in_processes(judged([control, *verdicts], sources), options.processes)
    print("\n" + report(verdicts, Counter(_folder(m.path) for path in chosen for m in mutants(path, chosen[path]))))


if __name__ == "__main__":
    main()
