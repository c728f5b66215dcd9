"""The page of a running controller in a real browser: it follows what happens, also after a break."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from gfs.core.actions import CANCEL, EVICT, FINISH, START, SUBMIT
from gfs.domain.task import Priority, Task
from page_reading import colours, rows
from told_cluster import BEGIN, Cluster
from waiting import LONGEST


def a_task(index: int, name: str, priority: Priority, gpus: float) -> Task:
    return Task(index, name, "lab", "A100", priority, 1, gpus, BEGIN)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    started = Cluster()
    started.serve()
    yield started
    started.stop()
    started.close()


def fetch(cluster: Cluster, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{cluster.port}{path}", timeout=LONGEST) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def held(browser: Browser) -> str:
    return str(browser.run("document.querySelector('[data-key=held] .value').textContent"))


def until(browser: Browser, gpus: int) -> None:
    browser.wait(f"document.querySelector('[data-key=held] .value')?.textContent === '{gpus}'")


def test_the_page_follows_and_catches_up(cluster: Cluster, tmp_path: Path) -> None:
    big, small = a_task(0, "lab/big", Priority.SPOT, 8), a_task(1, "lab/small", Priority.HP, 2)
    first = cluster.run(big, 0)
    cluster.tell(BEGIN, (SUBMIT, big, None), (START, big, first))
    with Browser(tmp_path / "profile") as browser:
        browser.look()
        browser.open(f"http://127.0.0.1:{cluster.port}/")
        until(browser, 8)
        browser.wait("document.querySelector('.connection')?.textContent === 'Live'")
        assert browser.problems == []
        second = cluster.run(small, 1)
        cluster.tell(BEGIN + 60, (SUBMIT, small, None), (START, small, second))
        until(browser, 10)
        assert "2023" in browser.run("document.querySelector('.moment').textContent")

        cluster.stop()  # the connection breaks, and things happen meanwhile
        browser.wait("document.querySelector('.connection').textContent.includes('lost')")
        cluster.tell(BEGIN + 120, (EVICT, big, first))
        cluster.tell(BEGIN + 180, (FINISH, small, second))
        assert held(browser) == "10"
        cluster.serve()
        until(browser, 0)
        browser.wait("document.querySelector('.connection').textContent === 'Live'")
        assert browser.run("document.querySelector('[data-key=waiting] .value').textContent") == "1"
        # A moment of the past stays where it is while the cluster goes on.
        browser.run(f"location.hash = 't={BEGIN + 90}'")
        until(browser, 10)
        cluster.tell(BEGIN + 240)
        browser.settle()
        assert held(browser) == "10"


def test_gpus_without_numbers_are_drawn_lowest_first(cluster: Cluster, tmp_path: Path) -> None:
    """Four spot and two HP GPUs of eight; when the spot task has gone, the HP task is drawn on the lowest two."""
    spot, hp = a_task(0, "lab/spot", Priority.SPOT, 4), a_task(1, "lab/hp", Priority.HP, 2)
    first, second = cluster.run(spot, 0), cluster.run(hp, 0)
    cluster.tell(BEGIN, (SUBMIT, spot, None), (SUBMIT, hp, None), (START, spot, first), (START, hp, second))
    with Browser(tmp_path / "profile") as browser:
        browser.look()
        browser.open(f"http://127.0.0.1:{cluster.port}/#view=nodes&node=n0")
        browser.wait("document.querySelectorAll('#node tbody tr').length === 2")
        size, head = (float(browser.run(f"document.getElementById('map').dataset.{name}")) for name in ("size", "head"))
        inner = size - max(2, size * 0.08)
        places = [[(i % 4 + 0.5) * inner / 4, head + (i // 4 + 0.5) * inner / 2] for i in range(8)]
        assert colours(browser, places) == ["Spot"] * 4 + ["HP"] * 2 + ["idle"] * 2
        assert {(row[0], row[3]) for row in rows(browser, "#node .table")} == {
            ("lab/spot", "4 GPUs"),
            ("lab/hp", "2 GPUs"),
        }
        cluster.tell(BEGIN + 60, (FINISH, spot, first))
        browser.wait("document.querySelectorAll('#node tbody tr').length === 1")
        assert colours(browser, places) == ["HP"] * 2 + ["idle"] * 6
        assert browser.problems == []


def test_the_api_of_a_replica(cluster: Cluster) -> None:
    task = a_task(0, "lab/big", Priority.SPOT, 8)
    cluster.tell(BEGIN, (SUBMIT, task, None), (START, task, cluster.run(task, 0)))
    status, told = fetch(cluster, "/api/v1/status")
    assert (status, told["live"], told["pools"], told["leads"]) == (200, True, [], False)
    status, told = fetch(cluster, f"/api/v1/status?t={BEGIN + 1}")
    assert (status, told["pools"][0]["gpus"]["spot"], told["pools"][0]["gpus"]["total"]) == (200, 8, 16)
    assert fetch(cluster, "/api/v1/tasks/lab%2Fbig")[1]["steps"][0]["what"] == "submitted"
    status, told = fetch(cluster, "/api/v1/pods/lab/big-0")
    assert (status, told["error"]) == (503, "this replica does not decide; nobody leads")
    assert fetch(cluster, "/api/v1/nothing")[0] == 404
    assert fetch(cluster, "/api/v1/openapi.json")[1]["openapi"] == "3.1.0"


def lines(cluster: Cluster, count: int, headers: dict[str, str], query: str = "") -> list[str]:
    """The first lines of the stream."""
    request = urllib.request.Request(f"http://127.0.0.1:{cluster.port}/api/v1/stream{query}", headers=headers)
    with urllib.request.urlopen(request, timeout=LONGEST) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        return [answer.readline().decode().strip() for _ in range(count)]


def test_a_stream_goes_on_after_what_was_seen(cluster: Cluster) -> None:
    for second in range(3):
        cluster.tell(BEGIN + second)
    assert [line for line in lines(cluster, 9, {}) if line.startswith("id")] == ["id: 1", "id: 2", "id: 3"]
    assert lines(cluster, 2, {"Last-Event-ID": "2"})[0] == "id: 3"
    assert lines(cluster, 2, {}, "?after=2")[0] == "id: 3"
    assert lines(cluster, 1, {"Last-Event-ID": "77"}) == ["event: reset"]  # another controller's


def test_a_page_that_fails_stops_no_decision(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(entry: object) -> None:
        raise ZeroDivisionError(entry)

    monkeypatch.setattr(cluster.page.live, "hear", fails)
    task = a_task(0, "lab/big", Priority.SPOT, 8)
    cluster.tell(BEGIN, (SUBMIT, task, None))
    assert "decisions go on" in caplog.text
    assert cluster.service.recorder.listener is None
    cluster.tell(BEGIN + 1, (CANCEL, task, None))
