"""What an experiment shows: blocks of a page, and how they agree with the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gfs.batch.job import Job, JobResult, JobResults
from gfs.experiments.setup import Setup
from gfs.report.page import Block, Figure


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that the paper found, and whether it comes out here."""

    claim: str
    """What the paper found."""
    agrees: bool | None
    """None: cannot be told."""
    found: str
    """What came out here, and by how much it misses."""

    def figure(self) -> Figure:
        """As a tile, a disagreement as loud as an agreement."""
        word = {True: "agrees", False: "DISAGREES", None: "cannot be told"}[self.agrees]
        return Figure(self.claim, word, self.found, self.agrees)


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One section of the report."""

    shows: str
    """What is to be seen, in a sentence or two."""
    blocks: Sequence[Block] = ()
    verdicts: Sequence[Verdict] = ()
    missing: Sequence[str] = field(default=())
    """What the trace cannot show."""


NO_SPOT = "There are no spot tasks in this trace: nobody waits for a quota, and nobody can be evicted."


def without_spot(answer: JobResult) -> bool:
    """Whether a run had no spot task."""
    return not answer["metrics"]["spot"]["tasks"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    title: str
    jobs: Callable[[Setup], list[Job]]
    """What has to be computed."""
    exhibit: Callable[[Setup, JobResults], Exhibit]
    """What it looks like."""
