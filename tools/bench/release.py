"""Programs from the official Kubernetes release, held to checksums that its changelog publishes."""

from __future__ import annotations

import hashlib
import platform
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from gfs.domain.errors import InputError

VERSION = "v1.36.2"
"""The newest release whose checksums were published when this was written (CHANGELOG-1.36.md)."""
SHA512 = {
    "amd64": "0c617cb74f6a8ddc142afd453b3ece4b39268d78febdbe9df91faf3a01031d36"
    "4e9347bf8dfdc336e9ed0fe64ad82ce0209ef9fc0340e7d2f784d37bfa7e0d18",
    "arm64": "7226d91204980892f593307f06acefd5579337ec5758c8615a0e46541a990083"
    "c6be9809b01fb9e06da7e9b6d7208a673fd5129b7145436c3fe6e726d1fa469d",
}
SITE = "https://dl.k8s.io"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
ANSWER_WITHIN = 5.0
"""Seconds until a site that does not answer counts as out of reach: source is the next thing to try."""
STEP = 1 << 20


def fetch(names: Sequence[str], folder: Path, say: Callable[[str], None]) -> None:
    """Put those of the programs that the release has into `folder`; raises InputError if it cannot be had."""
    wanted = [name for name in names if name in PROGRAMS]
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine())
    if not wanted or platform.system() != "Linux" or arch is None:
        return
    url = f"{SITE}/{VERSION}/kubernetes-server-linux-{arch}.tar.gz"
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".release.") as temporary:
            archive = Path(temporary) / "server.tar.gz"
            _download(url, archive, SHA512[arch], say)
            _unpack(archive, wanted, folder)
    except (OSError, urllib.error.URLError, tarfile.TarError) as error:
        raise InputError(f"{url}: {getattr(error, 'reason', None) or error}") from error


def _download(url: str, target: Path, sha512: str, say: Callable[[str], None]) -> None:
    say(f"asking {url}")
    digest, done, told = hashlib.sha512(), 0, 0
    with urllib.request.urlopen(url, timeout=ANSWER_WITHIN) as answer, target.open("wb") as file:
        size = int(answer.headers.get("Content-Length") or 0)
        while block := answer.read(STEP):
            digest.update(block)
            file.write(block)
            done += len(block)
            if done - told >= 16 * STEP:
                told = done
                say(f"  {done // STEP} of {size // STEP} MiB")
    if digest.hexdigest() != sha512:
        raise InputError(f"{url}: the checksum is not the published one; nothing of it is used")


def _unpack(archive: Path, names: Sequence[str], folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for name in names:
            packed = tar.extractfile(f"kubernetes/server/bin/{name}")
            if packed is None:
                raise InputError(f"{archive.name}: has no {name}")
            part = archive.with_name(name)
            with packed, part.open("wb") as file:
                shutil.copyfileobj(packed, file, STEP)
            part.chmod(0o755)
            part.replace(folder / name)
