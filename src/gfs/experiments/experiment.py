"""What an experiment of the paper is: its setup, the jobs it needs, the section it makes, the paper's own values."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from gfs.batch.job import Job, JobResult, JobResults
from gfs.batch.simulation import GeneratedTrace, Trace, TraceFiles
from gfs.report.page import Block, Tile

LOADS = {"low": 1.0, "medium": 2.0, "high": 4.0}
"""The paper's three loads: spot tasks times so many."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How much to compute, and on which trace."""

    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False
    given: TraceFiles | None = None
    series: str = ""
    """A file of demand for the forecasters, in place of that of the trace."""
    prices: tuple[tuple[str, float], ...] = ()
    """Dollars per GPU-hour by GPU model; empty: the assumed ones."""

    @property
    def loads(self) -> tuple[str, ...]:
        """The loads that are compared: of the user's trace there is one."""
        return tuple(LOADS) if self.given is None else ("as it is",)

    @property
    def medium(self) -> str:
        """The load for what is compared at one load only."""
        return self.loads[len(self.loads) // 2]

    def trace(self, load: str, seed: int) -> Trace:
        """The trace of a load; the user's own is the same for all seeds."""
        if self.given is not None:
            return self.given
        whole = GeneratedTrace("paper", LOADS[load], seed)
        return whole._replace(nodes=24, days=10) if self.quick else whole

    def cluster(self, seed: int = 0) -> Trace:
        """The whole cluster with all its pools."""
        if self.given is not None:
            return self.given
        whole = GeneratedTrace("production", 1.0, seed)
        return whole._replace(nodes=120, days=8) if self.quick else whole

    def runs(self) -> tuple[int, ...]:
        """The seeds that make a difference: a given trace is one, and so are its runs."""
        return self.seeds if self.given is None else self.seeds[:1]


@cache
def paper() -> dict[str, Any]:
    """All that the file holds."""
    return tomllib.loads(resources.files("gfs.experiments").joinpath("paper.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the paper found, and whether it comes out here."""

    claim: str
    """What the paper found."""
    agrees: bool | None
    """None: cannot be told."""
    found: str
    """What was found here, and by how much it misses."""

    @property
    def word(self) -> str:
        """Whether it agrees, in a word or three."""
        return {True: "agrees", False: "disagrees", None: "cannot be told"}[self.agrees]

    def tile(self) -> Tile:
        """As a tile, a disagreement as loud as an agreement."""
        return Tile(self.claim, self.word.upper() if self.agrees is False else self.word, self.found, self.agrees)


class FindingCounts(NamedTuple):
    """How many findings agree with the paper, disagree, and cannot be told: the same everywhere they are counted."""

    agree: int
    disagree: int
    unknown: int

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> FindingCounts:
        """Count them."""
        found = [finding.agrees for finding in findings]
        return cls(found.count(True), found.count(False), found.count(None))

    def text(self) -> str:
        """Such as '6 findings: 3 agree, 1 disagrees, 2 cannot be told'."""
        total = sum(self)
        agree, disagree = (
            f"{n} {word}{'s' * (n == 1)}" for n, word in ((self.agree, "agree"), (self.disagree, "disagree"))
        )
        return f"{total} finding{'s' * (total != 1)}: {agree}, {disagree}, {self.unknown} cannot be told"


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the report."""

    shows: str
    """What is to be seen, in a sentence or two."""
    blocks: Sequence[Block] = ()
    findings: Sequence[Finding] = ()
    missing: Sequence[str] = field(default=())
    """What the trace cannot show."""


NO_SPOT = "There are no spot tasks in this trace: nobody waits for a quota, and nobody can be evicted."


def without_spot(result: JobResult) -> bool:
    """Whether a run had no spot task."""
    return not result["metrics"]["spot"]["tasks"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    title: str
    jobs: Callable[[Setup], list[Job]]
    """What has to be computed."""
    section: Callable[[Setup, JobResults], Section]
    """What it looks like."""
