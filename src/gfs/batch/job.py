"""A job: something to compute once, on any process, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

ResultT = TypeVar("ResultT", covariant=True)
T = TypeVar("T")

JobResult = dict[str, Any]
"""What a job gives: plain numbers, texts and lists, as they stand in its file."""


class Runnable(Protocol[ResultT]):
    """Something that an executor can run, here or in another process."""

    def run(self) -> ResultT:
        """Compute the result."""


def result_or_error(job: Runnable[T]) -> T | Exception:
    """Run a job; a failure is handed over as well."""
    try:
        return job.run()
    except Exception as error:
        return error


class Job(Runnable[JobResult], Protocol):
    """A run whose result can be kept in a file. Jobs are compared by value, so two classes of them are never equal."""

    @property
    def label(self) -> str:
        """What it is, in a few words."""

    @property
    def weight(self) -> float:
        """About how long it takes, in seconds of an idle core."""

    def identity(self) -> dict[str, Any]:
        """Everything that the result depends on, except for the code."""


JobResults = Mapping[Job, JobResult]
