"""Whose jobs, as tables and a sentence: figures by organization, GPU model and size, and who evicts whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gfs.report.columns import (
    EVICTED,
    HIT_RATE,
    HP_WAIT,
    HP_WAIT_99,
    SPOT_WAIT,
    SPOT_WAIT_99,
    WASTED,
    amount,
    percent,
    short_seconds,
    unmarked,
)
from gfs.report.page import Paragraph
from gfs.report.table import COUNT, PERCENT, TEXT, Cell, Column, DataTable, Unit
from gfs.telemetry.breakdown import ALL, KINDS, Breakdown, Kind

MOST_GROUPS: Final = 20
"""Rows of a table by group; the largest organizations are shown."""
MOST_COMPARED: Final = 8
"""Groups where several schedulers stand below each other."""
MOST_PAIRS: Final = 8
"""Organizations on each side of the table of who evicts whom."""
OTHERS: Final = "others"

HEADERS: Final[dict[Kind, str]] = {"organization": "organization", "model": "GPU model", "size": "GPUs of the task"}
HP_TASKS: Final = Column("HP tasks", "hp_tasks", COUNT, help="HP tasks that finished")
SPOT_TASKS: Final = Column("spot tasks", "spot_tasks", COUNT, help="spot tasks that finished")
EVICTIONS: Final = Column("evicted runs", "spot_evictions", COUNT, help="its spot runs that were evicted")
CAUSED: Final = Column(
    "evicts", "evictions_caused", COUNT, help="spot runs that were evicted for its HP tasks", explain=True
)
PROGRESS: Final = Column(
    "spot progress",
    "spot_progress_rate",
    PERCENT,
    "highest",
    "of the time from submission to finish, the share that its spot tasks needed to run",
    explain=True,
)
GROUPED: Final = (
    *(HP_TASKS, HP_WAIT, HP_WAIT_99, CAUSED),
    *(SPOT_TASKS, SPOT_WAIT, SPOT_WAIT_99, EVICTIONS, EVICTED, HIT_RATE, WASTED, PROGRESS),
)
INDEX: Final = Unit(digits=3)
JAIN: Final = "Jain's index of the organizations' progress: 1 if all are treated alike, 1/n if one of n gets everything"


Named = tuple[str, Breakdown]
"""A scheduler, and the figures of its run by group."""


def group_table(runs: Sequence[Named], kind: Kind) -> DataTable:
    """A row for each group and scheduler, the whole last. With several schedulers the best of each group is marked."""
    several = len(runs) > 1
    names = list(dict.fromkeys(group.name for _, part in runs for group in part.by(kind)))
    shown = names[: MOST_COMPARED if several else MOST_GROUPS]
    columns = [*unmarked(GROUPED)]
    rows: list[list[Cell]] = []
    breaks, best = set(), set()
    for name in [*shown, ALL]:
        begin = len(rows)
        if several or name == ALL:
            breaks.add(begin)
        for scheduler, part in runs:
            record = part.whole if name == ALL else next((g for g in part.by(kind) if g.name == name), None)
            label = [name if len(rows) == begin else "", *[scheduler] * several]
            rows.append([*label, *(None if record is None else column.value(record) for column in columns)])
        first = len(rows[0]) - len(columns)
        for j, column in enumerate(GROUPED, first):
            best |= {(begin + i, j) for i in column.best_rows([row[j] for row in rows[begin:]])}
    labels: list[Column | str] = [HEADERS[kind], *(["scheduler"] if several else [])]
    left = len(names) - len(shown)
    who = "organizations" if kind == "organization" else "groups"
    return DataTable(
        [*labels, *columns],
        rows,
        best=frozenset(best),
        title=f"By {HEADERS[kind]}",
        note=f"the {len(shown)} of {len(names):,} {who} with the most work; --json FILE has all" if left > 0 else "",
        names=len(labels),
        best_of="group",
        breaks=frozenset(breaks),
        split=len(labels) + GROUPED.index(SPOT_TASKS),
    )


def evictions_table(scheduler: str, part: Breakdown) -> DataTable:
    """Who evicts whom: a row for each organization that lost runs, a column for each whose HP tasks took them."""
    taken: Counter[str] = Counter()
    given: Counter[str] = Counter()
    for pair in part.evictions:
        taken[pair.evicted] += pair.evictions
        given[pair.evictor or "not told"] += pair.evictions
    rows_of, columns_of = (_largest(of) for of in (taken, given))
    cells: Counter[tuple[str, str]] = Counter()
    for pair in part.evictions:
        evictor = pair.evictor or "not told"
        row = pair.evicted if pair.evicted in rows_of else OTHERS
        cells[row, evictor if evictor in columns_of else OTHERS] += pair.evictions
    columns = [Column(f"by {name}", unit=COUNT) for name in columns_of]
    rows: list[list[Cell]] = [
        [name, *(cells[name, by] or None for by in columns_of), sum(cells[name, by] for by in columns_of)]
        for name in rows_of
    ]
    rows.append([ALL, *(sum(cells[name, by] for name in rows_of) for by in columns_of), sum(cells.values())])
    return DataTable(
        ["spot runs of", *columns, Column("by all", unit=COUNT)],
        rows,
        title=f"Who evicts whom under {scheduler}",
        breaks=frozenset({len(rows) - 1}),
    )


def _largest(counts: Counter[str]) -> list[str]:
    """The names with the highest counts, and one for all others."""
    names = [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return names if len(names) <= MOST_PAIRS + 1 else [*names[:MOST_PAIRS], OTHERS]


def fairness_table(runs: Sequence[Named]) -> DataTable:
    """How evenly each scheduler treats the organizations."""
    columns = [
        Column("fairness, HP", unit=INDEX, best="highest", help=JAIN),
        Column("fairness, spot", unit=INDEX, best="highest", help=JAIN, explain=True),
        Column("worst treated", unit=TEXT, left=True, help="organization with the lowest spot progress"),
    ]
    rows = [[scheduler, part.fairness_hp, part.fairness_spot, part.worst_treated] for scheduler, part in runs]
    return DataTable(["scheduler", *columns], rows)


def worst_treated_text(scheduler: str, part: Breakdown) -> str:
    """Which organization has it worst, in a sentence; '' where there are none to compare."""
    whole = part.whole
    if part.worst_treated is None:
        return ""
    worst = part.group("organization", part.worst_treated)
    words = [
        f"its {amount(worst.spot_tasks)} spot tasks needed {percent(worst.spot_progress_rate or 0.0)} of the time from"
        " submission to finish",
        f"they waited {short_seconds(worst.spot_jqt_mean)} on average (all: {short_seconds(whole.spot_jqt_mean)})",
    ]
    if worst.spot_eviction_rate is not None:
        all_of_them = percent(whole.spot_eviction_rate or 0.0)
        evicted = f"{percent(worst.spot_eviction_rate)} of their runs were evicted (all: {all_of_them})"
        by = next((pair for pair in part.evictions if pair.evicted == worst.name and pair.evictor), None)
        if by is not None:
            own = "by its own HP tasks" if by.evictor == worst.name else f"by {by.evictor}"
            evicted += f", {amount(by.evictions)} of {amount(worst.spot_evictions)} {own}"
        words.append(evicted)
    words.append(
        f"{amount(worst.spot_wasted_gpu_hours)} of {amount(whole.spot_wasted_gpu_hours)} wasted GPU-hours are its own"
    )
    return f"Worst treated under {scheduler} is {worst.name}: {'; '.join(words)}."


def whose_jobs(runs: Sequence[Named], shown: Named) -> list[DataTable | Paragraph]:
    """For a page: how each organization, GPU model and size fares under all schedulers, and who evicts whom in one."""
    part = shown[1]
    blocks: list[DataTable | Paragraph] = [Paragraph(text)] if (text := worst_treated_text(*shown)) else []
    blocks += [fairness_table(runs)] if len(part.organization) > 1 else []
    blocks += [group_table(runs, kind) for kind in KINDS if len(part.by(kind)) > 1]
    return [*blocks, evictions_table(*shown)] if part.evictions else blocks
