"""Reading JSON that may have any shape: what is not as expected counts as not there."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def table(thing: Any, name: str) -> dict[str, Any]:
    """An object inside an object."""
    found = thing.get(name) if isinstance(thing, dict) else None
    return found if isinstance(found, dict) else {}


def entries(thing: Any, name: str) -> list[dict[str, Any]]:
    """The objects of a list inside an object."""
    found = thing.get(name) if isinstance(thing, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(thing: Any, name: str) -> str:
    """A text inside an object."""
    found = thing.get(name) if isinstance(thing, dict) else None
    return found if isinstance(found, str) else ""


def cut(value: Any) -> str:
    """Returns a value as written in Python, 60 characters at most."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
