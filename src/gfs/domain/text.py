"""Names come from files and are printed to terminals: what would steer a terminal is shown, not obeyed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that turn the direction of writing, line separators, halves of characters."""


def printable(text: str, keep: str = "\n\t") -> str:
    r"""The text with `\x1b` and its like written out, except for the characters of `keep`."""
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else repr(match[0])[1:-1], text)


def one_line(error: BaseException) -> str:
    """Type and message of an error, without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def suggestion(name: str, known: Iterable[str]) -> str:
    """What an unknown name may have meant: 'did you mean gfs or gfs-e?', or all that there are."""
    names = list(known)
    close = get_close_matches(name, names, n=2)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"
