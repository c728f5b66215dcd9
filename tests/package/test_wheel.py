"""What users get: wheel and sdist are built, the wheel is installed in an environment of its own, the demo runs there.

Run by `make test-package`; it installs packages, so the tests of `make test` leave it out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = shutil.ignore_patterns(
    *(".[!n]*", "build", "dist", "demo-output", "__pycache__", "node_modules", "*.egg-info", "latest.json")
)
"""Hidden files are environments and caches, but for web/.npmrc."""


def run(*words: str | Path, cwd: Path) -> str:
    """What a command prints; it must succeed. It knows nothing of this environment and of this folder."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env["PYTHONIOENCODING"] = "utf-8"
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel built from it."""
    source = tmp_path_factory.mktemp("source") / "gfs"  # building leaves files beside the source
    shutil.copytree(ROOT, source, ignore=GENERATED)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", source / "dist", source, cwd=source)
    return source / "dist"


def test_the_wheel_runs_the_demo_in_an_environment_of_its_own(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("gfs_scheduler-*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    exact = ("-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    run(python, "-m", "pip", "install", *exact, wheel, cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = "import gfs; from importlib.metadata import version; print(gfs.__file__, version('gfs-scheduler'))"
    file, version = run(python, "-c", where, cwd=elsewhere).split()
    assert (tmp_path / "env").resolve() in Path(file).resolve().parents
    assert version == wheel.name.split("-")[1]
    printed = run(python.with_name("gfs"), "demo", "--out", "demo-output", cwd=elsewhere)
    assert {"gfs", "yarn-cs", "static"} <= {line.split(" ")[0] for line in printed.splitlines()}
    assert (elsewhere / "demo-output" / "report.html").stat().st_size > 100_000
    assert {path.name for path in elsewhere.iterdir()} == {"demo-output"}


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = [name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name]
    files = [
        path
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and path.suffix in (".py", ".json", ".toml", ".css", ".js")
    ]
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in files} | {"gfs/py.typed"}
    assert set(names) == wanted


def test_the_sdist_is_enough_to_test_and_document(built: Path) -> None:
    (sdist,) = built.glob("gfs_scheduler-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = run("git", "ls-files", cwd=ROOT).splitlines() if (ROOT / ".git").exists() else []
    missing = {name for name in listed if not name.startswith(".") and (ROOT / name).exists()} - names
    assert not missing
    assert {"Makefile", "constraints.txt", "mkdocs.yml", "docs/README.md", "tests/package/test_wheel.py"} <= names
    assert not [name for name in names if name.endswith(".pyc") or name.startswith((".", "build/"))]
