"""`gfs explain`: the life of one task, or what happened to an organization, from an event log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gfs.cli.console import say, show
from gfs.cli.options import Json, examples, file_option, option
from gfs.cli.outputs import JSON, STDOUT, Outputs
from gfs.domain.errors import InputError

if TYPE_CHECKING:
    from gfs.report.table import DataTable
    from gfs.telemetry.metrics_life import TaskStep

EPILOG = examples(
    "gfs explain --events demo-output/events.csv s001",
    "gfs explain --events demo-output/events.csv --jobs demo-output/jobs.csv --organization org-57",
)

ABOUT = ("kind", "organization", "gpu_model")
NEEDED = ("time", "event", "task", "run", "node", "gpus", "reason")
MOST_NODES = 3
ENDED = "still so at the end of the log"
ORGANIZATION = "An organization"


def explain(
    events: Annotated[Path, file_option("--events", "Event log of a run: .csv, .csv.gz or .parquet.")],
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="Name of the task, as in the jobs file.")] = None,
    organization: Annotated[
        str | None, option("--organization", "Tell of this organization instead.", ORGANIZATION, metavar="NAME")
    ] = None,
    jobs: Annotated[
        Path | None, file_option("--jobs", "Jobs of the trace: guarantee and checkpoints of each.", ORGANIZATION)
    ] = None,
    summary: Annotated[
        Path | None, file_option("--summary", "Summary of the run (--json): its parameters.", ORGANIZATION)
    ] = None,
    json: Json = None,
) -> None:
    """Tell the life of one task: when it waited, ran, was evicted, lost, cancelled or finished, and why.

    With --organization: what its tasks asked for and got, whom they evicted, who evicted them, and how that compares
    with the others. The event log is what gfs simulate --events FILE writes.
    """
    if (task is None) == (organization is None):
        raise InputError("give the name of a task, or --organization NAME")
    if organization is not None:
        from gfs.cli.explain_organization import explain_organization

        explain_organization(organization, events, jobs, summary, json)
        return
    for name, value in (("--jobs", jobs), ("--summary", summary)):
        if value is not None:
            raise InputError(f"{name} is for --organization: leave it out")
    assert task is not None
    from gfs.telemetry.metrics_life import task_life
    from gfs.workloads.readers.event_log import read_events

    with Outputs(events) as outputs:
        outputs.plan(json, JSON)
        log = read_events(events, NEEDED, (*ABOUT, "timestamp"))
        steps, about = task_life(log, task), _about(log, task)
        if json != STDOUT:
            words = (about["kind"], "task of", about["organization"], f"on {about['gpu_model']}")
            show(life_table(steps, f"{task}: {' '.join(words)}" if all(about.values()) else task, begin_of(log)))
            say()
            say(life_in_short(steps))
        outputs.save_json(json, {"task": task, **about, "steps": steps})


def _about(log: Any, task: str) -> dict[str, str]:
    """Class, organization and GPU model of a task; '' where the log does not say."""
    import pyarrow.compute as pc

    row = pc.index(log["task"], task).as_py()
    return {name: log[name][row].as_py() if name in log.column_names else "" for name in ABOUT}


def begin_of(log: Any) -> datetime | None:
    """When second 0 of the log was, if it says so."""
    if "timestamp" not in log.column_names:
        return None
    try:
        return datetime.fromisoformat(log["timestamp"][0].as_py()) - timedelta(seconds=round(log["time"][0].as_py()))
    except ValueError:  # not as we write it
        return None


def life_table(
    steps: Sequence[TaskStep], title: str, begin: datetime | None, *, seconds: bool = True, ongoing: str = ENDED
) -> DataTable:
    """One row a step. `begin`: when second 0 was; `seconds`: whether they are shown; `ongoing`: of a step that is."""
    from gfs.domain.units import format_gpus
    from gfs.report.columns import short_seconds
    from gfs.report.table import Column, DataTable

    rows = []
    for step in steps:
        length = short_seconds(step.length) if step.what in ("waited", "ran") else ""
        nodes = " ".join(step.nodes[:MOST_NODES])
        if len(step.nodes) > MOST_NODES:
            nodes += f" and {len(step.nodes) - MOST_NODES} more"
        words = {
            "submitted": f"asks for {format_gpus(step.gpus)} GPU{'' if step.gpus == 1 else 's'}",
            "suspended": "its lease ended and was not renewed in this place; its progress is kept",
            "cancelled": step.reason or "its owner withdrew it",
            "lost": step.reason or "ended by no decision of the scheduler",
        }
        why = words.get(step.what, f"{step.reason} ({ongoing})".strip() if step.ongoing else step.reason)
        when = [] if begin is None else [f"{begin + timedelta(seconds=step.time):%Y-%m-%d %H:%M}"]
        at = [f"{step.time:,.0f}"] if seconds else []
        rows.append([*at, *when, step.what, length, nodes if step.what == "ran" else "", why])
    columns = [
        *([Column("at second")] if seconds else []),
        *([] if begin is None else [Column("date", left=True)]),
        Column("what", left=True),
        Column("for"),
        Column("where", wrap=any(len(row[-2]) > 12 for row in rows), left=True),
        Column("why", wrap=True),
    ]
    return DataTable(columns, rows, title=title, names=0)


def life_in_short(steps: Sequence[TaskStep], unfinished: str = "had not finished when the log ends") -> str:
    """The whole life in a sentence."""
    from gfs.report.columns import short_seconds

    waited = sum(step.length for step in steps if step.what == "waited")
    count = Counter(step.what for step in steps)
    words = [
        f"waited {short_seconds(waited)} in all",
        f"ran {_times(count['ran'])}" if count["ran"] else "never ran",
        f"was evicted {_times(count['evicted'])}" if count["evicted"] else "was never evicted",
    ]
    if count["suspended"]:
        words[-1] = f"was suspended {_times(count['suspended'])}"
    if count["lost"]:
        words.append(f"was lost {_times(count['lost'])}")
    if steps[-1].what in ("finished", "cancelled"):
        ended = "finished" if steps[-1].what == "finished" else "was cancelled"
        words.append(f"{ended} {short_seconds(steps[-1].time - steps[0].time)} after it was submitted")
    else:
        words.append(unfinished)
    return f"It {', '.join(words[:-1])} and {words[-1]}."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
