"""Where the bench's programs come from; nothing is fetched or built here."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import needs
from bench import binaries, release, source
from gfs.domain.errors import InputError


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PATH, an empty cache, a release site that does not exist."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("GFS_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(release, "SITE", f"file://{tmp_path}/site")
    return tmp_path


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_assets_come_before_the_path_and_the_path_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = program(tmp_path / "cache" / binaries.versions() / "kwok")
    assert binaries.find(["kwok"]) == ({"kwok": cached}, [])
    on_path = program(tmp_path / "bin" / "kwok")
    assert binaries.find(["kwok"]) == ({"kwok": on_path}, [])
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    asset = program(tmp_path / "assets" / "kwok")
    assert binaries.find(["kwok", "helm"]) == ({"kwok": asset}, ["helm"])


def test_the_cache_is_where_the_desktop_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GFS_BENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert binaries.cache_folder() == Path("/x/gfs/bench")


def test_what_cannot_be_had_is_said_in_one_line() -> None:
    with pytest.raises(InputError) as error:
        binaries.bring(["kube-apiserver", "kwok"])
    text = str(error.value)
    assert text.startswith("the bench needs kube-apiserver, kwok: put them on PATH")
    assert "install Go" in text
    assert "\n" not in text


def test_the_command_says_it_too(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench.binaries", "helm"]
    told = subprocess.run(words, capture_output=True, text=True, check=False, env=needs.bench_environment())
    assert told.returncode == 2
    assert told.stderr.endswith("(there is no Go to build them with)\n")
    assert "Traceback" not in told.stderr


def archive(tmp_path: Path) -> Path:
    """A release with one program, where `fetch` looks for it."""
    folder = tmp_path / "site" / release.VERSION
    folder.mkdir(parents=True)
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")
    file = folder / f"kubernetes-server-linux-{arch}.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        info = tarfile.TarInfo("kubernetes/server/bin/kubectl")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    return file


@pytest.mark.skipif(sys.platform != "linux", reason="the release has programs for Linux")
def test_a_release_is_used_only_with_the_published_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = archive(tmp_path)
    with pytest.raises(InputError, match="the checksum is not the published one"):
        release.fetch(["kubectl"], tmp_path, lambda line: None)
    assert not (tmp_path / "kubectl").exists()
    digest = hashlib.sha512(file.read_bytes()).hexdigest()
    monkeypatch.setattr(release, "SHA512", {"amd64": digest, "arm64": digest})
    release.fetch(["kubectl", "kwok"], tmp_path, lambda line: None)
    assert (tmp_path / "kubectl").read_bytes() == b"hello"
    assert os.access(tmp_path / "kubectl", os.X_OK)
    assert not list(tmp_path.glob(".release.*"))


GO = """#!{python}
import json, os, sys
if sys.argv[1:3] == ["mod", "download"]:
    print(json.dumps({{"GoMod": "{mod}"}}))
else:
    if {fails}:
        sys.exit("go: no answer")
    name = sys.argv[sys.argv.index("-o") + 1]
    open(name, "w").write(open("go.mod").read() + " ".join(sys.argv))
    os.chmod(name, 0o755)
"""


def fake_go(tmp_path: Path, fails: bool = False) -> None:
    mod = tmp_path / "published.mod"
    mod.write_text("module m\n\ngo 1.26.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n")
    program(tmp_path / "bin" / "go", GO.format(python=sys.executable, mod=mod, fails=fails))


def test_kubernetes_is_built_with_the_published_versions_of_its_own_modules(tmp_path: Path) -> None:
    fake_go(tmp_path)
    lines: list[str] = []
    (built,) = binaries.bring(["kube-apiserver"], lines.append).values()
    told = built.read_text()
    assert built == tmp_path / "cache" / binaries.versions() / "kube-apiserver"
    assert f"require k8s.io/kubernetes {source.KUBERNETES}" in told
    assert f"replace k8s.io/api => k8s.io/api {source.KUBERNETES.replace('v1.', 'v0.')}" in told
    assert f"version.gitVersion={source.KUBERNETES}" in told
    assert any("kube-apiserver: built in" in line for line in lines)
    assert not list(built.parent.glob(".build.*"))


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    fake_go(tmp_path, fails=True)
    with pytest.raises(InputError, match=r"go build sigs\.k8s\.io/kwok/cmd/kwok failed: go: no answer"):
        binaries.bring(["kwok"])
    assert [path.name for path in (tmp_path / "cache" / binaries.versions()).iterdir()] == [".lock"]


def test_a_package_of_debian_is_unpacked_and_not_installed(tmp_path: Path) -> None:
    """apt-get fails before it has a list of packages."""
    program(
        tmp_path / "bin" / "apt-get",
        f"""#!/bin/sh
case $1 in
update) : > {tmp_path}/list ;;
download) [ -e {tmp_path}/list ] && : > $3_1.0_all.deb || {{ echo 'E: no package' >&2; exit 100; }} ;;
esac
""",
    )
    unpack = "/bin/mkdir -p usr/bin && for name in prometheus promtool; do echo '#!' > usr/bin/$name; done"
    program(tmp_path / "bin" / "dpkg-deb", f"#!/bin/sh\n{unpack}\n/bin/chmod +x usr/bin/*\n")
    if os.geteuid() != 0:
        program(tmp_path / "list")
    found = binaries.bring(binaries.WELCOME)
    assert [path.parent.name for path in found.values()] == [binaries.versions()] * 2


def test_what_a_test_may_do_without_is_said_in_one_line() -> None:
    with pytest.raises(
        InputError, match="the test needs prometheus: put them on PATH, as `apt-get install prometheus`"
    ):
        binaries.bring(["prometheus"])
