"""Answers of the API: worked by hand on a small story, and as the OpenAPI document says."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from test_recording import story

from gfs.core.reasons import preemptor_in
from gfs.dashboard.api import ENDPOINTS, Life, Queue, Status, openapi
from gfs.dashboard.recording import recording_of
from gfs.dashboard.replay import Replay
from gfs.dashboard.site import Site
from gfs.dashboard.wire import Recording


def site() -> Site:
    return Site(Replay(recording_of(story()[1], "story")))


def asked(path: str, status: int = 200, query: Mapping[str, str] | None = None) -> Any:
    answer = site().respond(f"/api/v1{path}", query or {})
    assert answer.status == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    body = gzip.decompress(answer.body) if "Content-Encoding" in answer.headers else answer.body
    return json.loads(body)


@pytest.mark.parametrize(
    ("time", "hp", "spot", "reserved", "waiting"),
    [
        (0, 0, 4, 0, (0, 0)),
        (49, 0, 4, 0, (0, 0)),
        (50, 0, 0, 0.5, (1, 1)),  # s has gone for h, which starts after the grace period
        (80, 0.5, 0, 0, (0, 1)),
        (90, 0, 0, 0, (0, 1)),
    ],
)
def test_status_of_a_moment(time: float, hp: float, spot: float, reserved: float, waiting: tuple[int, int]) -> None:
    told = msgspec.convert(asked("/status", query={"t": str(time)}), Status)
    (pool,) = told.pools
    assert (pool.gpus.total, pool.gpus.hp, pool.gpus.spot, pool.gpus.reserved) == (16, hp, spot, reserved)
    assert pool.gpus.idle == 16 - hp - spot - reserved
    assert (pool.tasks["HP"].waiting, pool.tasks["Spot"].waiting) == waiting
    assert (told.first, told.last, told.live) == (0, 90, False)


def test_without_a_moment_it_is_the_last_one() -> None:
    assert asked("/status")["time"] == 90


def test_the_queue_and_its_filters() -> None:
    both = msgspec.convert(asked("/queue", query={"t": "60"}), Queue)
    assert [(row.task, row.waited) for row in both.waiting] == [("h", 10), ("s", 10)]
    assert [row["task"] for row in asked("/queue", query={"t": "60", "kind": "Spot"})["waiting"]] == ["s"]
    assert asked("/queue", query={"t": "60", "organization": "nobody"})["waiting"] == []


def test_the_life_of_a_task() -> None:
    life = msgspec.convert(asked("/tasks/s"), Life)
    assert [step.what for step in life.steps] == ["submitted", "ran", "evicted", "waited"]
    assert (life.steps[1].nodes, life.steps[1].length) == (["n0", "n1"], 50)


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        ("/tasks/nobody", {}, 404, "no task 'nobody' among the 2 recorded"),
        ("/status", {"t": "soon"}, 400, "t = 'soon': give a moment"),
        ("/status", {"t": "nan"}, 400, "give a moment"),
        ("/nothing", {}, 404, "nothing at /api/v1/nothing"),
        ("/tasks/", {}, 404, "nothing at"),
    ],
)
def test_what_cannot_be_answered(path: str, query: dict[str, str], status: int, said: str) -> None:
    assert said in asked(path, status, query)["error"]


def test_the_recording_is_the_one_that_an_export_holds() -> None:
    assert msgspec.convert(asked("/recording"), Recording) == recording_of(story()[1], "story")


def test_the_document_names_every_address_and_type() -> None:
    document = asked("/openapi.json")
    assert document == json.loads(json.dumps(openapi()))
    assert {f"/api/v1{endpoint.path}" for endpoint in ENDPOINTS} < set(document["paths"])
    schemas = document["components"]["schemas"]
    refs = {part.partition('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}
    assert refs <= set(schemas)
    answers = {"/status": {"t": "50"}, "/queue": {"t": "50"}, "/tasks/s": {}, "/recording": {}}
    for path, query in answers.items():
        name = {"/tasks/s": "Life"}.get(path, path[1:].capitalize())
        told = asked(path, query=query)
        assert set(schemas[name]["required"]) <= set(told) <= set(schemas[name]["properties"]), path


def test_the_schema_page_shows_every_type() -> None:
    page = site().respond("/api/v1/", {}).body.decode()
    for name in openapi()["components"]["schemas"]:
        assert f"<h2>{name}</h2>" in page
    assert "<script" not in page


def test_names_that_hold_the_words_around_them() -> None:
    names = {"a on b": 0, "a": 1}
    assert preemptor_in("evicted for a on n1: why", names) == 1
    assert preemptor_in("evicted for a on b on n1: why", {"a on b": 0}) == 0
    assert preemptor_in("lost", names) is None
    assert preemptor_in("evicted for c on n1: why", names) is None
