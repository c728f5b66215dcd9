"""The report of a reproduction: one page, and the same tables as Markdown."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gfs.batch.job import JobResults
from gfs.experiments.exhibit import Exhibit, Experiment, Verdict
from gfs.experiments.jobs import Simulation
from gfs.experiments.setup import Setup
from gfs.report.columns import amount, percent, short_seconds
from gfs.report.page import Block, DataTable, Section, Words, build_page
from gfs.version import __version__


@dataclass(frozen=True, slots=True)
class Made:
    """How a report was made."""

    command: str
    setup: Setup
    seconds: float
    """CPU seconds of all answers in it, whenever they were computed."""

    def words(self) -> str:
        """In a line, for whom wants to make it again."""
        seeds = ", ".join(str(seed) for seed in self.setup.runs())
        machine = f"{platform.machine()}, Python {platform.python_version()}"
        return f"Made by `{self.command}`, seeds {seeds}, GFS {__version__}, {machine}; {self.seconds:,.0f} CPU-s."


def exhibits(chosen: Sequence[Experiment], setup: Setup, answers: JobResults) -> dict[str, Exhibit]:
    """What each experiment shows, by its title."""
    return {experiment.title: experiment.exhibit(setup, answers) for experiment in chosen}


def page(shown: Mapping[str, Exhibit], made: Made, answers: JobResults) -> str:
    """The whole report as HTML."""
    setup = made.setup
    if setup.given is None:
        title = "The paper, made anew"
        subtitle = "Every table and figure of the GFS paper, computed on traces calibrated to its published figures."
        opening = _paper_opening(shown)
    else:
        title = f"What GFS would change: {setup.given.label}"
        subtitle = "The experiments of the GFS paper on this trace."
        opening = [Words(_plain_words(setup, answers), lead=True)]
    sections = [Section("In short", [*opening, Words(made.words().replace("`", ""))])]
    for name, exhibit in shown.items():
        blocks: list[Block] = [Words(exhibit.shows)]
        if exhibit.verdicts:
            blocks.append(tuple(verdict.figure() for verdict in exhibit.verdicts))
        blocks += exhibit.blocks
        if exhibit.missing:
            blocks.append(Words("What cannot be shown: " + " ".join(exhibit.missing)))
        sections.append(Section(name, blocks))
    return build_page(title, subtitle, sections)


def _paper_opening(shown: Mapping[str, Exhibit]) -> list[Block]:
    verdicts = [verdict for exhibit in shown.values() for verdict in exhibit.verdicts]
    agree = sum(verdict.agrees is True for verdict in verdicts)
    against = sum(verdict.agrees is False for verdict in verdicts)
    rows = [
        [name, *(str(sum(v.agrees is how for v in exhibit.verdicts)) for how in (True, False, None))]
        for name, exhibit in shown.items()
        if exhibit.verdicts
    ]
    return [
        Words(
            f"Of {len(verdicts)} findings that are checked, {agree} come out here and {against} do not. The"
            " authors' trace is not public in full; what can be compared is order and shape, not digits.",
            lead=True,
        ),
        DataTable(["section", "come out", "do not", "cannot be told"], rows),
    ]


def _plain_words(setup: Setup, answers: JobResults) -> str:
    """What GFS would have changed on the user's cluster, in one paragraph."""
    assert setup.given is not None
    runs = {
        job.scheduler: answer["metrics"]
        for job, answer in answers.items()
        if isinstance(job, Simulation) and {name for name, _ in job.settings} <= {"quota_share"}
    }
    before = next((name for name in ("static", "yarn-cs", "fgd", "lyra") if name in runs), None)
    after = next((name for name in ("gfs", "gfs-plus") if name in runs), None)
    if before is None or after is None:
        return "What GFS would have changed takes the section 'deployment' or 'comparison' to say."
    old, new = runs[before], runs[after]
    words = [f"Had {after} scheduled this cluster instead of {_spoken(before)}:"]
    if new["spot"]["tasks"]:
        words.append(
            f"spot tasks would have waited {short_seconds(new['spot']['jqt_mean'])} on average instead of "
            f"{short_seconds(old['spot']['jqt_mean'])}, {percent(new['spot']['eviction_rate'])} of their runs"
            f" would have been evicted instead of {percent(old['spot']['eviction_rate'])}, and "
            f"{amount(new['spot']['wasted_gpu_hours'])} GPU-hours of work would have been lost instead of "
            f"{amount(old['spot']['wasted_gpu_hours'])}."
        )
    else:
        words.append("there are no spot tasks in this trace, so nothing can be evicted or kept back for them.")
    if new["hp"]["tasks"]:
        words.append(
            f"HP tasks would have waited {short_seconds(new['hp']['jqt_mean'])} on average instead of "
            f"{short_seconds(old['hp']['jqt_mean'])};"
        )
    words.append(
        f"{percent(new['allocation_rate_total'])} of the cards would have been in use instead of "
        f"{percent(old['allocation_rate_total'])}."
    )
    if after == "gfs" and "gfs-plus" in runs and new["spot"]["tasks"]:
        plus = runs["gfs-plus"]["spot"]
        words.append(
            f"With gfs-plus, which goes beyond the paper: {short_seconds(plus['jqt_mean'])} of waiting and "
            f"{percent(plus['eviction_rate'])} evicted."
        )
    return " ".join(words)


def _spoken(scheduler: str) -> str:
    return "a static quota" if scheduler == "static" else scheduler


def markdown(shown: Mapping[str, Exhibit], made: Made) -> str:
    """The tables and findings as Markdown, without the pictures."""
    parts = [made.words()]
    for name, exhibit in shown.items():
        parts += [f"## {name}", exhibit.shows]
        if exhibit.verdicts:
            parts.append("\n".join(_line(verdict) for verdict in exhibit.verdicts))
        for block in exhibit.blocks:
            if isinstance(block, DataTable):
                parts.append(_markdown_table(block))
            elif isinstance(block, Words):
                parts.append(block.text)
        parts += [f"Not shown: {text}" for text in exhibit.missing]
    return "\n\n".join(parts) + "\n"


def _line(verdict: Verdict) -> str:
    word = {True: "agrees", False: "**disagrees**", None: "cannot be told"}[verdict.agrees]
    return f"* {verdict.claim}: {word}. {verdict.found[:1].upper()}{verdict.found[1:]}"


def _markdown_table(table: DataTable) -> str:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"

    marked = [
        [f"**{cell}**" if (i, j) in table.best else cell for j, cell in enumerate(cells)]
        for i, cells in enumerate(table.rows)
    ]
    lines = [row(table.header), row(["---"] * len(table.header)), *map(row, marked)]
    return "\n".join(lines) + (f"\n\n{table.note}" if table.note else "")
