"""`gfs view` as a command: exports, a real server on loopback, and plain errors."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from gfs import generate, simulate
from gfs.cli.main import app
from gfs.telemetry.event_log import write_events
from gfs.workloads import write_trace
from waiting import LONGEST


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    write_trace(generate("demo", nodes=4, days=1, seed=1), place)
    result = simulate(place / "jobs.csv", place / "nodes.csv", scheduler="yarn-cs")
    write_events(result.events, place / "events.csv")
    return place


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[tuple[str, int]]:
    words = [sys.executable, "-m", "gfs.cli.main", "view", str(folder), "--http", "127.0.0.1:0", "--no-open"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = urlsplit(process.stdout.readline().split()[0])
        yield str(told.hostname), int(told.port or 0)
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST) == 0


class Got(NamedTuple):
    status: int
    headers: Message
    body: bytes


def get(address: tuple[str, int], path: str, method: str = "GET", **headers: str) -> Got:
    with closing(http.client.HTTPConnection(*address, timeout=LONGEST)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return Got(answer.status, answer.headers, answer.read())


def test_a_page_its_files_and_its_api(address: tuple[str, int], folder: Path) -> None:
    page = get(address, "/")
    assert page.status == 200
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for name in re.findall(r'(?:src|href)="(static/[^"]*)"', page.body.decode()):
        assert get(address, f"/{name}").status == 200
    recording = get(address, "/api/v1/recording")
    assert recording.headers["Content-Encoding"] == "gzip"
    told = json.loads(gzip.decompress(recording.body))
    assert told["nodes"]["name"] == [f"n{i}" for i in range(4)]
    assert told["title"] == folder.name
    status = json.loads(get(address, "/api/v1/status?t=40000").body)
    assert status["pools"][0]["gpus"]["total"] == 32
    task = told["tasks"]["name"][0]
    assert json.loads(get(address, f"/api/v1/tasks/{task}").body)["task"] == task
    assert get(address, "/api/v1/stream").status == 204
    assert get(address, "/../../etc/passwd").status == 404


def test_head_has_no_body_and_nothing_can_be_written(address: tuple[str, int]) -> None:
    head = get(address, "/", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert get(address, "/", "POST").status == 501


def test_a_name_of_somebody_else_is_refused(address: tuple[str, int]) -> None:
    """Else a page of another site could read ours, by a name that leads to 127.0.0.1."""
    assert get(address, "/api/v1/status", Host="evil.example:80").status == 403
    assert get(address, "/api/v1/status", Host=f"localhost:{address[1]}").status == 200


def test_an_export(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    words = ["view", str(folder / "events.csv"), "--nodes", str(folder / "nodes.csv"), "--export", str(out)]
    done = CliRunner().invoke(app, [*words, "--title", "a <day>"])
    assert done.exit_code == 0, done.output
    assert "<h1>a &lt;day&gt;</h1>" in out.read_text(encoding="utf-8")
    first = out.read_bytes()
    assert CliRunner().invoke(app, [*words, "--title", "a <day>"]).exit_code == 0
    assert out.read_bytes() == first


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('"submit"', '"sumbit"', 1), "event = 'sumbit'"),
        (lambda text: text.replace("time", "when", 1), "column time missing"),
        (lambda text: text.replace('"0"', '"90"', 1), "cards = '90'"),
        (lambda text: text.rpartition(",")[0], "was the file cut off?"),
        (lambda _: "", "the file is empty"),
    ],
)
def test_a_bad_log_is_one_plain_error(folder: Path, tmp_path: Path, change: object, said: str) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(change((folder / "events.csv").read_text()))  # type: ignore[operator]
    words = ["view", str(bad), "--nodes", str(folder / "nodes.csv"), "--export", str(tmp_path / "page.html")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert f"error: {bad}" in done.output
    assert said in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "page.html").exists()


def test_what_cannot_be_served_or_found(folder: Path, tmp_path: Path) -> None:
    for words, said in (
        ([str(tmp_path)], "holds no event log"),
        ([str(folder), "--http", "nowhere"], "give host and port"),
        ([str(tmp_path / "none.csv")], "none.csv"),
    ):
        done = CliRunner().invoke(app, ["view", *words, "--no-open"])
        assert (done.exit_code, said in done.output) == (2, True), done.output
