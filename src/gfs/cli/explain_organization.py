"""`gfs explain --organization`: what happened to one organization."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfs.cli.console import note, say, show
from gfs.cli.explain import ABOUT, NEEDED, begin_of, life_in_short
from gfs.cli.outputs import JSON, STDOUT, Outputs

if TYPE_CHECKING:
    from gfs.report.table import Cell, DataTable
    from gfs.telemetry.breakdown import EvictionsBetween
    from gfs.telemetry.organization import Asked, OrganizationStory

MOST_OTHERS = 6


def explain_organization(name: str, events: Path, jobs: Path | None, summary: Path | None, json: Path | None) -> None:
    """Print or write the story of an organization."""
    from gfs.assembly.parameters import Parameters
    from gfs.dashboard.files import read_promises, read_summary
    from gfs.domain.units import HOUR
    from gfs.telemetry.breakdown import break_down
    from gfs.telemetry.metrics_life import task_life
    from gfs.telemetry.organization import organization_story, tasks_of_log
    from gfs.workloads.readers.event_log import read_events

    with Outputs(events, jobs, summary) as outputs:
        outputs.plan(json, JSON)
        told = {} if summary is None else read_summary(summary)[1]
        parameters = Parameters().changed(told)
        log = read_events(events, (*NEEDED, *ABOUT), ("timestamp",))
        promises = {} if jobs is None else read_promises(jobs, told)
        guarantee = parameters.guarantee_hours * HOUR
        workload = tasks_of_log(log, promises, guarantee, parameters.checkpoint_interval)
        story = organization_story(log, workload, break_down(log, workload, rules=parameters.rules), name)
        if json != STDOUT:
            parts: list[Any] = [_demand_text(story, begin_of(log)), _beside_table(story), *_evictions_tables(story)]
            worst = story.longest_wait
            if worst is not None:
                parts.append(f"Its longest wait: {worst.task}. {life_in_short(task_life(log, worst.task))}")
            show(*parts)
            if worst is not None:
                say(f"gfs explain --events {shlex.quote(str(events))} {shlex.quote(worst.task)} tells why.")
        outputs.save_json(json, story.to_dict())
    if jobs is None:
        hours, minutes = f"{parameters.guarantee_hours:g} h", f"{parameters.checkpoint_interval / 60:g} min"
        note(f"assumed: a guarantee of {hours} and checkpoints every {minutes}; --jobs FILE says what each task has")


def _demand_text(story: OrganizationStory, begin: datetime | None) -> str:
    from gfs.report.columns import amount, percent

    asked = [(of, kind) for of, kind in ((story.hp, "HP"), (story.spot, "spot")) if of.tasks]
    tasks = " and ".join(f"{amount(of.tasks)} {kind} task{'s' * (of.tasks > 1)}" for of, kind in asked)
    words = [
        f"{story.organization} submitted {tasks} on {', '.join(story.gpu_models)} and did"
        f" {percent(story.share_of_useful)} of the useful GPU-hours of {amount(story.organizations)} organizations."
    ]
    for of, kind in asked:
        mean, peak = amount(round(of.mean, 1)), amount(round(of.peak, 2))
        words.append(
            f"Its {kind} tasks asked for {mean} GPUs on average and {peak} at most ({_when(of, begin)}), running or"
            f" waiting, and held GPUs for {amount(of.held_gpu_hours)} GPU-hours."
        )
    if story.worst_treated:
        words.append("Of all organizations with enough spot tasks to tell, it is treated worst.")
    return " ".join(words)


def _when(of: Asked, begin: datetime | None) -> str:
    from gfs.domain.units import DAY, HOUR

    seconds = of.peak_time or 0.0
    if begin is not None:
        return f"{begin + timedelta(seconds=seconds):%Y-%m-%d %H:%M}"
    return f"day {seconds // DAY + 1:.0f}, {seconds % DAY // HOUR:02.0f}:{seconds % HOUR // 60:02.0f}"


def _beside_table(story: OrganizationStory) -> DataTable:
    """Its figures, those of all, and where it stands."""
    from gfs.report.breakdown import CAUSED, EVICTIONS, HP_TASKS, PROGRESS, SPOT_TASKS
    from gfs.report.columns import EVICTED, HIT_RATE, HP_WAIT, HP_WAIT_99, SPOT_WAIT, SPOT_WAIT_99, WASTED
    from gfs.report.table import Column, DataTable

    shown = (
        *(HP_TASKS, HP_WAIT, HP_WAIT_99, CAUSED),
        *(SPOT_TASKS, SPOT_WAIT, SPOT_WAIT_99, PROGRESS, EVICTIONS, EVICTED, HIT_RATE, WASTED),
    )
    rows: list[list[Cell]] = []
    for column in shown:
        values = [column.value(figures) for figures in (story.figures, story.all)]
        rank = story.ranks.get(column.key)
        place = None if rank is None else f"{rank.place} of {rank.of}"
        rows.append([column.heading, *(column.text(value) for value in values), place])
    columns: list[Column | str] = [
        Column("", left=True),
        story.organization,
        "all",
        Column("place", help="among the organizations that have such tasks; 1 is the best", explain=True),
    ]
    legend = f"{PROGRESS.header}: {PROGRESS.help}\n{CAUSED.header}: {CAUSED.help}"
    return DataTable(columns, rows, title=f"{story.organization} beside the others", note=legend, breaks=frozenset({4}))


def _evictions_tables(story: OrganizationStory) -> list[Any]:
    found = []
    for title, pairs, other in (
        ("Who evicted its spot runs", story.evicted_by, "evictor"),
        ("Whose spot runs its HP tasks evicted", story.evicts, "evicted"),
    ):
        if pairs:
            found.append(_pairs_table(title, pairs, other, story.organization))
    return found


def _pairs_table(title: str, pairs: Sequence[EvictionsBetween], other: str, own: str) -> DataTable:
    from gfs.report.table import COUNT, GPU_HOURS, Column, DataTable

    def name(pair: EvictionsBetween) -> str:
        who: str = getattr(pair, other)
        return f"{who} (itself)" if who == own else who or "not told"

    rows: list[list[Cell]] = [[name(p), p.evictions, p.wasted_gpu_hours] for p in pairs[:MOST_OTHERS]]
    if rest := pairs[MOST_OTHERS:]:
        lost = sum(p.wasted_gpu_hours for p in rest)
        rows.append([f"{len(rest)} others", sum(p.evictions for p in rest), lost])
    columns: list[Column | str] = ["organization", Column("evicted runs", unit=COUNT), Column("wasted", unit=GPU_HOURS)]
    return DataTable(columns, rows, title=title)
