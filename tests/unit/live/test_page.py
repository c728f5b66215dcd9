"""The page of a controller: what it says, and that names cannot break it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from gfs.live.page import page

POOL: dict[str, Any] = {
    "pool": "A100<script>", "nodes": 3, "closed": 1,
    "gpus": {"total": 24, "idle": 4, "hp": 12, "spot": 8},
    "tasks": {"HP": {"running": 3, "waiting": 0}, "Spot": {"running": 2, "waiting": 7}},
    "quota": [{"guarantee_hours": 1.0, "quota": 8.5, "why": "forecast peak 14 & more"}],
    "caution": "the quota is cautious: 3.0 of 24 hours of demand are known",
}  # fmt: skip
STATUS: dict[str, Any] = {
    "leader": "gfs-0", "leads": True, "refused": 2, "history": "", "training": 1, "shadow": None, "pools": [POOL],
}  # fmt: skip


def test_the_page_says_how_it_stands() -> None:
    text = page(STATUS)
    for said in (
        "gfs-0 leads; 2 pods are refused.", "A forecaster is being trained", "3 nodes, 1 of them closed",
        "12 of 24 GPUs are held by HP, 8 by spot tasks, 4 are idle", "width: 50.0%", "8.5", "3.0 of 24 hours",
    ):  # fmt: skip
        assert said in text
    assert "<script" not in text
    assert "14 &amp; more" in text


def test_every_tag_is_closed() -> None:
    open_tags: list[str] = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            if tag not in ("meta", "!doctype"):
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Checker().feed(page(STATUS))
    assert not open_tags


def test_who_stands_by_says_so() -> None:
    assert "This replica stands by" in page({**STATUS, "leads": False, "pools": []})
    assert "Nobody leads" in page({**STATUS, "leads": False, "leader": "", "pools": []})
