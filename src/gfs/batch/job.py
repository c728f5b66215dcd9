"""Something to compute once, in any process: what it is, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Answer = dict[str, Any]
"""What a job gives: plain numbers, texts and lists, as they stand in its file."""


class Job(Protocol):
    """Something to compute, once. Jobs are compared by what they are, so two classes of them are never equal."""

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        ...

    @property
    def weight(self) -> float:
        """About how long it takes, in seconds of an idle core."""
        ...

    def identity(self) -> dict[str, Any]:
        """All that the answer depends on, but for the version of GFS."""
        ...

    def run(self) -> Answer:
        """Compute it."""
        ...


Answers = Mapping[Job, Answer]
