"""The page's files: the bundle is what web/ gives, and nothing but its own script may run."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from test_recording import story

from gfs.dashboard.page import SECURITY, exported_page, script, served_page, style
from gfs.dashboard.recording import recording_of

WEB = Path(__file__).resolve().parents[3] / "web"
STATIC = WEB.parent / "src" / "gfs" / "dashboard" / "static"


def sources() -> str:
    """As web/build.mjs digests them."""
    digest = hashlib.sha256()
    for name in ("build.mjs", "package-lock.json", *sorted(f"src/{path.name}" for path in (WEB / "src").iterdir())):
        digest.update(f"{name}\0".encode() + (WEB / name).read_bytes() + b"\0")
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["page.js", "page.css"])
def test_the_bundle_is_made_of_these_sources(name: str) -> None:
    first = (STATIC / name).read_text(encoding="utf-8").partition("\n")[0]
    assert sources() in first, "web/ has changed: run make web"


def test_the_lock_names_no_registry() -> None:
    assert "http" not in re.sub(r'"url": "[^"]*"', "", (WEB / "package-lock.json").read_text(encoding="utf-8"))


def test_an_export_allows_its_own_script_and_style_by_digest() -> None:
    page = exported_page(recording_of(story()[1], "a <b> & c"))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    for kind, text in (("script", script()), ("style", style())):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy[1]
        assert text in page
    assert "unsafe" not in policy[1]
    assert "<title>a &lt;b&gt; &amp; c - GFS</title>" in page


def test_a_served_page_holds_no_script_of_its_own() -> None:
    page = served_page("t")
    assert re.findall(r"<script([^>]*)>([^<]*)", page) == [(' src="static/page.js" defer', "")]
    assert "<style" not in page
    assert "unsafe" not in SECURITY["Content-Security-Policy"]


def test_nothing_is_fetched_from_elsewhere() -> None:
    assert not re.search(r"(src|href)=.https?:", exported_page(recording_of(story()[1], "t")))
    assert "</script" not in script()  # it would end the element in an export
    assert "@import" not in style()
    assert "url(" not in style()
