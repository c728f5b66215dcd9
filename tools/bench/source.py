"""Programs built from source through the Go module proxy: a small module that requires theirs.

Kubernetes keeps some of its modules in one tree and replaces them by folders there. A module from outside needs the
published versions instead: one `replace` line each, read from Kubernetes' own go.mod.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gfs.domain.errors import InputError

KUBERNETES = "v1.36.3"
KWOK = "v0.8.0"
HELM = "v4.3.1"
EVERY = 5.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True, slots=True)
class Project:
    """A Go module and the programs that are built from it."""

    module: str
    version: str
    programs: dict[str, str]
    """Name of a program -> its package."""
    ldflags: str = ""
    staging: str = ""
    """The version of the modules that it replaces by folders of its own tree."""


_VERSION = "k8s.io/component-base/version"
PROJECTS = (
    Project(
        "k8s.io/kubernetes",
        KUBERNETES,
        {
            **{f"kube-{part}": f"k8s.io/kubernetes/cmd/kube-{part}" for part in ("apiserver", "scheduler")},
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
            "etcd": "go.etcd.io/etcd/server/v3",  # at the version that this Kubernetes is tested with
        },
        ldflags=" ".join(
            f"-X {_VERSION}.{name}={value}"
            for name, value in (
                ("gitVersion", KUBERNETES),
                ("gitMajor", KUBERNETES[1:].split(".")[0]),
                ("gitMinor", KUBERNETES.split(".")[1]),
            )
        ),
        staging=KUBERNETES.replace("v1.", "v0."),
    ),
    Project(
        "sigs.k8s.io/kwok",
        KWOK,
        {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        ldflags=f"-X sigs.k8s.io/kwok/pkg/consts.Version={KWOK}",
    ),
    Project("helm.sh/helm/v4", HELM, {"helm": "helm.sh/helm/v4/cmd/helm"}),
)


def build(names: Sequence[str], folder: Path, say: Callable[[str], None]) -> None:
    """Build the programs into `folder`, each renamed into place when it is whole; raises InputError if it fails."""
    if shutil.which("go") is None:
        raise InputError("there is no Go to build them with")
    for project in PROJECTS:
        wanted = {name: package for name, package in project.programs.items() if name in names}
        if wanted:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".build.") as temporary:
                _build(project, wanted, Path(temporary), folder, say)


def _build(project: Project, programs: dict[str, str], module: Path, folder: Path, say: Callable[[str], None]) -> None:
    say(f"building {', '.join(programs)} of {project.module} {project.version} from source: minutes, once")
    lines = ["module bench", f"go {_go_version(project, module)}", f"require {project.module} {project.version}"]
    if project.staging:
        replaced = re.findall(r"^\s*(\S+) => \./staging/", _go_mod(project, module), re.MULTILINE)
        lines += [f"replace {name} => {name} {project.staging}" for name in replaced]
    (module / "go.mod").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, package in programs.items():  # one by one: each is there as soon as it is built
        words = ["go", "build", "-v", "-mod=mod", "-trimpath", f"-ldflags=-s -w {project.ldflags}"]
        _run([*words, "-o", name, package], module, partial(_tell, say, name))
        (module / name).replace(folder / name)


def _tell(say: Callable[[str], None], name: str, line: str) -> None:
    say(f"  {name}: {line}")


def _go_mod(project: Project, module: Path) -> str:
    """The go.mod of the project, as published."""
    words = ["go", "mod", "download", "-json", f"{project.module}@{project.version}"]
    told = subprocess.run(words, cwd=module, env=_environment(), capture_output=True, text=True, check=False)
    try:
        return Path(json.loads(told.stdout)["GoMod"]).read_text(encoding="utf-8")
    except (ValueError, KeyError, OSError) as error:
        reason = (told.stderr.strip().splitlines() or ["no answer"])[-1]
        raise InputError(f"{project.module} {project.version} cannot be had: {reason}") from error


def _go_version(project: Project, module: Path) -> str:
    stated = re.search(r"^go (\S+)", _go_mod(project, module), re.MULTILINE)
    return stated[1] if stated else "1.24"


def _run(words: Sequence[str], module: Path, say: Callable[[str], None]) -> None:
    """Run `go build -v`, which names each package it compiles, and say every few seconds how many there were."""
    process = subprocess.Popen(
        words, cwd=module, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    began = time.monotonic()
    try:
        while True:
            try:
                process.wait(timeout=EVERY)
                break
            except subprocess.TimeoutExpired:
                compiled = sum(" " not in line.strip() for line in tuple(lines))
                say(f"{compiled} packages compiled, {time.monotonic() - began:.0f} s")
    except BaseException:
        process.terminate()
        process.wait()
        raise
    reader.join()
    if process.stderr is not None:
        process.stderr.close()
    if process.returncode:
        raise InputError(f"go build {words[-1]} failed: {(lines or ['no reason given'])[-1].strip()}")
    say(f"built in {time.monotonic() - began:.0f} s")


def _environment() -> dict[str, str]:
    """The user's own settings of Go, without C: then no compiler is needed and the programs run anywhere."""
    return os.environ | {"CGO_ENABLED": "0"}
