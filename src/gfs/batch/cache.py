"""Results of many jobs: computed before (a file each, named by everything the result depends on), or now and kept."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from gfs.batch.job import Job, JobResult
from gfs.domain.errors import InputError
from gfs.files import remove_leftovers, write_text
from gfs.version import __version__

PACKAGE = "gfs"
ROOT = Path(__file__).parents[1]
MODULE = re.compile(rf"\b{PACKAGE}(?:\.\w+)+")
FROM_IMPORT = re.compile(rf"\bfrom ({PACKAGE}(?:\.\w+)+) import (\([^)]*\)|.*)")
WORD = re.compile(r"\w+")
DATA = (".json", ".toml")


@cache
def code_digest(module: str) -> str:
    """A digest of the code that a job of this module runs: the module and all of GFS that it imports.

    A result of other code is another result. Code that only shows results is not imported by a job, so a change
    of it leaves the cache as it is. Files of data beside the modules belong to the code.
    """
    digest = hashlib.sha256(__version__.encode())
    files = imported_files(module)
    data = {path for folder in {file.parent for file in files} for path in folder.iterdir() if path.suffix in DATA}
    for path in sorted(files | data):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def imported_files(module: str) -> frozenset[Path]:
    """The files of a module and of everything it imports from GFS, directly or not, anywhere in it."""
    found: set[Path] = set()
    waiting = [module]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        file = _file_of(name)
        if file is None:
            continue
        found.add(file)
        waiting += _imports_of(file)
    return frozenset(found)


@cache
def _imports_of(file: Path) -> frozenset[str]:
    """Names of modules that a file imports, or mentions as import_module needs them; some may be no modules."""
    text = file.read_text(encoding="utf-8")
    names = set(MODULE.findall(text))
    names |= {f"{home}.{name}" for home, inside in FROM_IMPORT.findall(text) for name in WORD.findall(inside)}
    packages = {name.rsplit(".", end)[0] for name in names for end in range(1, name.count("."))}
    return frozenset(names | packages)


def _file_of(module: str) -> Path | None:
    """Where the source of a module is; None if there is no such module."""
    place = ROOT.joinpath(*module.split(".")[1:])
    if module.startswith(f"{PACKAGE}."):
        return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)
    own = getattr(sys.modules.get(module), "__file__", None)  # a job from outside
    return Path(own) if own else None


class ResultCache:
    """The results in one folder, which is made when the first is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tidy = False

    def find(self, job: Job) -> JobResult | None:
        """The result if it is known; a file that cannot be read counts as none."""
        try:
            result: JobResult = json.loads(self._path(job).read_text(encoding="utf-8"))["result"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result

    def keep(self, job: Job, result: JobResult) -> JobResult:
        """Write a result down, and return it as it reads there."""
        text = json.dumps({"label": job.label, "identity": job.identity(), "result": result}, allow_nan=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not self._tidy:
                remove_leftovers(self._folder)
        except OSError as error:
            raise InputError(f"{self._folder}: cannot be made: {error.strerror or error}") from error
        self._tidy = True
        write_text(self._path(job), text, tidy=False)
        kept: JobResult = json.loads(text)["result"]
        return kept

    def summary(self) -> str:
        """How many results are kept, where, and how to go on."""
        count = sum(1 for _ in self._folder.glob("*.json"))
        if not count:
            return "no run was complete, so none is kept"
        kept = "1 result is" if count == 1 else f"{count:,} results are"
        return f"{kept} kept in {self._folder}; the same command again goes on from there"

    def _path(self, job: Job) -> Path:
        whole = json.dumps([code_digest(type(job).__module__), job.identity()], sort_keys=True)
        return self._folder / f"{hashlib.sha256(whole.encode()).hexdigest()[:32]}.json"


Executor = Callable[[list[Job]], Generator[tuple[Any, Any], None, None]]
"""Hands over every job, in any order, with its result or the exception by which it failed."""
Progress = Callable[[Job], None]
"""Told of every job that is done."""
Failed = Callable[[Job, Exception], None]
"""Told of every job that failed."""


def run_jobs(
    jobs: Iterable[Job],
    cache: ResultCache | None,
    executor: Executor,
    started: Callable[[list[Job]], Progress],
    failed: Failed | None = None,
) -> dict[Job, JobResult]:
    """Every job with its result.

    `started` gets those that are to be computed, the longest first, and returns what to call for each that is done. A
    job that fails is told to `failed`, and the others go on; without it the first failure ends everything. Without a
    cache nothing is kept.
    """
    results: dict[Job, JobResult] = {}
    missing: list[Job] = []
    for job in dict.fromkeys(jobs):
        known = cache.find(job) if cache else None
        if known is None:
            missing.append(job)
        else:
            results[job] = known
    missing.sort(key=lambda job: -job.weight)
    done = started(missing)
    try:
        with closing(executor(missing)) as computed:
            for job, result in computed:
                if not isinstance(result, Exception):
                    results[job] = cache.keep(job, result) if cache else result
                elif failed is not None:
                    failed(job, result)
                else:
                    raise result
                done(job)
    except KeyboardInterrupt:
        if cache is None:
            raise
        raise KeyboardInterrupt(f"interrupted; {cache.summary()}") from None
    return results
