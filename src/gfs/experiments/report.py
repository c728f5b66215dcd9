"""The report of a reproduction: one page, and the same tables as Markdown."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gfs.batch.job import JobResults
from gfs.experiments.ablations import ABLATIONS
from gfs.experiments.beyond import BEYOND
from gfs.experiments.comparison import COMPARISON, SAME_QUOTA_COMPARISON
from gfs.experiments.deployment import DEPLOYMENT
from gfs.experiments.experiment import Experiment, Finding, FindingCounts, Section, Setup
from gfs.experiments.forecast_limit import FORECAST_LIMIT
from gfs.experiments.forecasters import FORECASTERS
from gfs.experiments.guarantees import GUARANTEES
from gfs.experiments.heat_map import HEAT_MAP
from gfs.experiments.jobs import Simulation
from gfs.experiments.sensitivity import SENSITIVITY
from gfs.experiments.statistics import STATISTICS
from gfs.report.columns import percent, short_seconds
from gfs.report.comparison import what_changed
from gfs.report.page import Block, PageSection, Paragraph, build_page
from gfs.report.table import DataTable
from gfs.version import __version__

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        STATISTICS,
        HEAT_MAP,
        COMPARISON,
        SAME_QUOTA_COMPARISON,
        SENSITIVITY,
        GUARANTEES,
        FORECASTERS,
        FORECAST_LIMIT,
        ABLATIONS,
        DEPLOYMENT,
        BEYOND,
    )
}
"""By name, in the order of the report."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a report was made."""

    command: str
    setup: Setup
    seconds: float
    """CPU seconds of all results in it, whenever they were computed."""

    def words(self) -> str:
        """In a line, for whoever wants to make it again."""
        seeds = ", ".join(str(seed) for seed in self.setup.runs())
        machine = f"{platform.machine()}, Python {platform.python_version()}"
        return f"Made by `{self.command}`, seeds {seeds}, GFS {__version__}, {machine}; {self.seconds:,.0f} CPU-s."


def sections(chosen: Sequence[Experiment], setup: Setup, results: JobResults) -> dict[str, Section]:
    """What each experiment shows, by its title."""
    return {experiment.title: experiment.section(setup, results) for experiment in chosen}


def page(shown: Mapping[str, Section], provenance: Provenance, results: JobResults) -> str:
    """The whole report as HTML."""
    setup = provenance.setup
    if setup.given is None:
        title = "The paper, reproduced"
        subtitle = "Every table and figure of the GFS paper, computed on traces calibrated to its published figures."
        opening = _paper_opening(shown)
    else:
        title = f"What GFS would change: {setup.given.label}"
        subtitle = "The experiments of the GFS paper on this trace."
        opening = [Paragraph(_plain_words(setup, results), lead=True)]
    page_sections = [PageSection("In short", [*opening, Paragraph(provenance.words().replace("`", ""))])]
    for name, section in shown.items():
        blocks: list[Block] = [Paragraph(section.shows)]
        if section.findings:
            blocks.append(tuple(finding.tile() for finding in section.findings))
        blocks += section.blocks
        if section.missing:
            blocks.append(Paragraph("What cannot be shown: " + " ".join(section.missing)))
        page_sections.append(PageSection(name, blocks))
    return build_page(title, subtitle, page_sections)


def _paper_opening(shown: Mapping[str, Section]) -> list[Block]:
    counts = FindingCounts.of(finding for section in shown.values() for finding in section.findings)
    rows = [
        [name, *map(str, FindingCounts.of(section.findings))] for name, section in shown.items() if section.findings
    ]
    return [
        Paragraph(
            f"{counts.text()}. The authors' trace is not public in full; what can be compared is order and shape,"
            " not digits.",
            lead=True,
        ),
        DataTable(["section", "agree", "disagree", "cannot be told"], rows),
    ]


def _plain_words(setup: Setup, results: JobResults) -> str:
    """What GFS would have changed on the user's cluster, in one paragraph."""
    assert setup.given is not None
    runs = {
        job.scheduler: result["metrics"]
        for job, result in results.items()
        if isinstance(job, Simulation) and {name for name, _ in job.settings} <= {"quota_share"}
    }
    before = next((name for name in ("static", "yarn-cs", "fgd", "lyra") if name in runs), None)
    after = next((name for name in ("gfs", "gfs-plus") if name in runs), None)
    if before is None or after is None:
        return "To say what GFS would have changed, the part 'deployment' or 'comparison' is needed."
    spoken = "a static quota" if before == "static" else before
    words = [what_changed(spoken, runs[before], after, runs[after])]
    if not runs[after]["spot"]["tasks"]:
        words.append("There are no spot tasks in this trace, so nothing can be evicted or kept back for them.")
    elif after == "gfs" and "gfs-plus" in runs:
        plus = runs["gfs-plus"]["spot"]
        words.append(
            f"With gfs-plus, which goes beyond the paper: {short_seconds(plus['jqt_mean'])} of waiting and "
            f"{percent(plus['eviction_rate'])} evicted."
        )
    return " ".join(words)


def markdown(shown: Mapping[str, Section], provenance: Provenance) -> str:
    """The tables and findings as Markdown, without the pictures."""
    parts = [provenance.words()]
    for name, section in shown.items():
        parts += [f"## {name}", section.shows]
        if section.findings:
            parts.append("\n".join(_line(finding) for finding in section.findings))
        for block in section.blocks:
            if isinstance(block, DataTable):
                parts.append(_markdown_table(block))
            elif isinstance(block, Paragraph):
                parts.append(block.text)
        parts += [f"Not shown: {text}" for text in section.missing]
    return "\n\n".join(parts) + "\n"


def _line(finding: Finding) -> str:
    word = f"**{finding.word}**" if finding.agrees is False else finding.word
    return f"* {finding.claim}: {word}. {finding.found[:1].upper()}{finding.found[1:]}"


def _markdown_table(table: DataTable) -> str:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"

    best = table.marked()
    marked = [
        [f"**{cell}**" if (i, j) in best else cell for j, cell in enumerate(cells)]
        for i, cells in enumerate(table.texts())
    ]
    lines = [row(table.header), row(["---"] * len(table.header)), *map(row, marked)]
    return "\n".join(lines) + (f"\n\n{table.note}" if table.note else "")
