"""Lists of names in one option: 'gfs,static'."""

from __future__ import annotations

from collections.abc import Callable

from gfs.domain.errors import InputError


def parse_names(text: str, kind: str, find: Callable[[str], object], none: str) -> list[str]:
    """The names in a list, each known to `find` and named once; `none` says what to do about an empty list."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(none)
    for name in names:
        find(name)
        if names.count(name) > 1:
            raise InputError(f"{kind} {name} is named twice: name each once")
    return names
