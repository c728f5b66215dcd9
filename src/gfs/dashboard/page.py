"""The page itself: as files of a server, or as one file that holds its recording.

No script or style may come from elsewhere or be written into the page: the policy names our files, in an export by
their digests.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from gfs.dashboard.wire import Recording
from gfs.domain.text import printable
from gfs.files import write_text

_NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'"
SECURITY: Final = {
    "Content-Security-Policy": f"{_NOTHING}; frame-ancestors 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; img-src 'self' data:",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer."""


@cache
def script() -> str:
    """The script of the page."""
    return resources.files("gfs.dashboard").joinpath("static/page.js").read_text(encoding="utf-8")


@cache
def style() -> str:
    """The design that reports share and, on top of it, what only the page has."""
    shared = resources.files("gfs.report").joinpath("design.css").read_text(encoding="utf-8")
    return shared + resources.files("gfs.dashboard").joinpath("static/page.css").read_text(encoding="utf-8")


def served_page(title: str) -> str:
    """The page that asks its server for the recording."""
    return _page(
        title, '<link rel="stylesheet" href="static/page.css">', '<script src="static/page.js" defer></script>'
    )


def exported_page(recording: Recording) -> str:
    """The page with its recording inside: one file that needs no server."""
    policy = f"{_NOTHING}; script-src '{_digest(script())}'; style-src '{_digest(style())}'; img-src data:"
    packed = base64.b64encode(gzip.compress(msgspec.json.encode(recording), 6, mtime=0)).decode()
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style()}</style>'
    data = f'<script type="application/octet-stream" id="recording">{packed}</script>'
    return _page(recording.title, head, f"{data}\n<script>{script()}</script>")


def write_export(recording: Recording, out: Path) -> None:
    """Write the exported page, whole or not at all."""
    write_text(out, exported_page(recording))


def _page(title: str, head: str, end: str) -> str:
    shown = html.escape(printable(title))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{shown} - GFS</title>\n<link rel="icon" href="data:,">\n{head}\n</head>\n<body>\n'
        f"<header><h1>{shown}</h1><p>Loading ...</p></header>\n<main></main>\n"
        f"<noscript><p>This page needs JavaScript.</p></noscript>\n{end}\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
