"""A plan as a page for a meeting: the answer in three sentences, how sure it is, then everything it rests on.

Tables by organization (whose jobs wait, whose are evicted) belong into `_pools`, beside those by pool.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go

from gfs.plans.choice import ranked
from gfs.plans.config_file import config_text
from gfs.plans.evidence import Sums, total
from gfs.plans.plan import CapacityPlan, PoolChoice
from gfs.plans.summary_text import answer_text, details_text, targets_text
from gfs.plans.targets import Target, all_met
from gfs.plans.view import (
    PlanView,
    certainty_table,
    pools_table,
    price_table,
    rivals_table,
    rows_table,
    settings_table,
    targets_note,
)
from gfs.report.breakdown import whose_jobs
from gfs.report.charts import time_unit
from gfs.report.columns import NODES, PLAN_OTHERS, amount, money, percent, short_seconds
from gfs.report.figures import CAPACITY, HP, MISSED, SPOT, bars, colours_of, dashed, front_points, seconds_axis, up_to
from gfs.report.page import Block, Chart, Details, PageSection, Paragraph, Tile, write_page

CHOSEN = colours_of(["gfs"])["gfs"]
MOST_LABELS = 8
"""Bars that have room for what they mean above them."""


def plan_page(view: PlanView, out: Path) -> None:
    """Write the page; raises InputError when it cannot be written."""
    plan, request = view.plan, view.plan.request
    missed = f"★ recommended, ! beyond {targets_note(request.targets)}"
    nodes = rows_table("", "cluster", view.nodes, (NODES, *PLAN_OTHERS), f"{missed}.")
    answer: list[Block] = [Paragraph(answer_text(plan), lead=True), _tiles(plan), Paragraph(details_text(plan))]
    sections = [
        PageSection("The answer", answer),
        PageSection("Other kinds of settings", [rivals_table(plan)]),
        PageSection("How sure", [*_block_chart(plan), certainty_table(plan)]),
        *_pools(plan, missed),
        *(
            PageSection(_settings_title(plan, c), [settings_chart(plan, c), _settings(plan, c, missed)])
            for c in plan.pools
        ),
        *_whose_jobs(plan),
        PageSection("Other nodes", [*_node_bars(view), nodes]),
        PageSection(
            "What could be sold",
            [
                Paragraph(
                    f"Spot work counts as sold if {targets_text(request.targets)} and the mean wait is within"
                    f" {short_seconds(request.max_wait)}. The recommended settings throughout; what is promised to"
                    " customers is theirs to choose, so the recommendation leaves it as it is."
                ),
                _price_chart(view),
                price_table(view),
            ],
        ),
        PageSection("The config file", [Details("gfs.toml", config_text(plan))]),
    ]
    names = ", ".join(request.space.schedulers)
    about = f"{request.trace.label}: {names} with every quota they can have; {len(plan.runs())} runs."
    write_page(out, "GFS plan", about, sections)


def _whose_jobs(plan: CapacityPlan) -> list[PageSection]:
    """What the recommendation means for each organization."""
    if plan.chosen.groups is None:
        return []
    named = "the recommendation", plan.chosen.groups
    return [PageSection("Whose jobs", whose_jobs([named], named))]


def _settings_title(plan: CapacityPlan, choice: PoolChoice) -> str:
    return "Settings" if len(plan.pools) == 1 else f"Settings of pool {choice.pool.gpu_model}"


def _settings(plan: CapacityPlan, choice: PoolChoice, missed: str) -> Block:
    return settings_table(choice, plan, missed.removeprefix("★ recommended, "))


def _pools(plan: CapacityPlan, missed: str) -> list[PageSection]:
    """Who gets what: by pool where there are several."""
    if len(plan.pools) == 1:
        return []
    return [PageSection("Pool by pool", [pools_table(plan, f"{missed}.")])]


def _tiles(plan: CapacityPlan) -> tuple[Tile, ...]:
    sums, figures = plan.chosen.sums, plan.chosen.figures
    tiles = [
        Tile(target.figure, target.written(target.value(sums)), f"target {target.written(target.bound)}", good)
        for target in plan.request.targets
        for good in [target.met(sums)]
    ]
    named = {target.figure for target in plan.request.targets}
    tiles += [] if "evictions" in named else [Tile("spot runs evicted", percent(sums.evicted), "no target")]
    tiles += [] if "spot-wait-mean" in named else [Tile("mean spot wait", short_seconds(sums.spot_wait), "no target")]
    tiles.append(Tile("spot GPU-hours a month", amount(figures["spot_gpu_hours"]), "useful work"))
    tiles.append(Tile("worth a month", money(figures["worth"]), "at the prices below"))
    return tuple(tiles)


def _eviction_target(targets: Sequence[Target]) -> float | None:
    return next((100 * target.bound for target in targets if target.figure == "evictions"), None)


def _block_chart(plan: CapacityPlan) -> list[Chart]:
    """Block by block, or seed by seed: how much they differ is what the interval is made of."""
    if not plan.seeds and not plan.block:
        return []
    names = [f"seed {seed}" for seed in plan.seeds] or [f"{plan.block} {i + 1}" for i in range(len(plan.evidence))]
    return _pair_of_bars(plan, names, plan.evidence, "The recommended settings; dashed: the target.")


def _node_bars(view: PlanView) -> list[Chart]:
    """On clusters of other sizes."""
    rows = [row for row in view.nodes if row.figures]
    sums = [row.result.sums for row in rows]
    return _pair_of_bars(view.plan, [row.name for row in rows], sums, "Same trace, same settings; dashed: the target.")


def _pair_of_bars(plan: CapacityPlan, names: Sequence[str], sums: Sequence[Sums], caption: str) -> list[Chart]:
    """Evictions and waits side by side."""
    evicted, waits = [100 * one.evicted for one in sums], [one.spot_wait for one in sums]
    scale, unit = time_unit(max(waits, default=0.0))
    target = _eviction_target(plan.request.targets)
    first = go.Layout(
        yaxis=up_to("spot runs evicted [%]", max([*evicted, target or 0.0])),
        shapes=[dashed(y=target, colour=MISSED, width=1.5)] if target is not None else [],
    )
    second = go.Layout(yaxis=up_to(f"mean spot wait [{unit}]", max(waits, default=0.0) / scale))
    room = len(names) <= MOST_LABELS
    left = bars(names, evicted, [percent(value / 100) if room else "" for value in evicted], SPOT)
    said = [short_seconds(wait) if room else "" for wait in waits]
    right = bars(names, [wait / scale for wait in waits], said, HP)
    return [
        Chart("Evictions", caption, [left], first, 300, wide=False),
        Chart("Waiting", "Mean wait of spot tasks.", [right], second, 300, wide=False),
    ]


def settings_chart(plan: CapacityPlan, choice: PoolChoice) -> Chart:
    """Every setting as a point, filled where it keeps the targets; the star is the recommended one."""
    targets = plan.request.targets
    order = ranked(choice.tried, targets)
    sums = {candidate: total(choice.tried[candidate]) for candidate in order}
    colours = colours_of(plan.request.space.schedulers)
    data = []
    for scheduler, colour in colours.items():
        mine = [candidate for candidate in order if candidate.scheduler == scheduler and candidate != choice.candidate]
        data += front_points(
            scheduler,
            colour,
            [(round(100 * sums[c].evicted, 4), round(max(sums[c].spot_wait, 1.0), 2)) for c in mine],
            [all_met(targets, sums[c]) for c in mine],
            [c.label for c in mine],
            [f"{percent(sums[c].evicted)} evicted, waits {short_seconds(sums[c].spot_wait)}" for c in mine],
        )
    best = sums[choice.candidate]
    data.append(
        go.Scatter(
            mode="markers",
            name="recommended",
            x=[round(100 * best.evicted, 4)],
            y=[round(max(best.spot_wait, 1.0), 2)],
            text=[html.escape(choice.candidate.label)],
            marker={"color": colours[choice.candidate.scheduler], "symbol": "star", "size": 20},
            hovertemplate="%{text}<extra></extra>",
        )
    )
    target = _eviction_target(targets)
    layout = go.Layout(
        xaxis={"title_text": "spot runs evicted [%]", "rangemode": "tozero"},
        yaxis=seconds_axis("mean spot wait", fine=True),
        shapes=[dashed(x=target, colour=MISSED, width=1.5)] if target is not None else [],
    )
    caption = "Towards the lower left is better. Filled: within all targets. Point at one to see it."
    return Chart("Spot waiting and evictions", caption, data, layout, height=440)


def _price_chart(view: PlanView) -> Chart:
    """GPU-hours delivered as more spot work is offered, by guarantee; what cannot be sold is grey."""
    rows = [row for row in view.prices if row.figures]
    hours = [row.figures["guaranteed_gpu_hours"] for row in rows]
    texts = [f"{percent(row.result.sums.evicted)}, {short_seconds(row.result.sums.spot_wait)}" for row in rows]
    colours = [CHOSEN if row.keeps else CAPACITY for row in rows]
    layout = go.Layout(yaxis=up_to("guaranteed spot GPU-hours a month", max(hours, default=1.0)))
    caption = "Above each bar: evicted, mean wait. Green: can be sold. Grey: not."
    data = [bars([row.name for row in rows], hours, texts, colours)]
    return Chart("Guarantees and amounts of spot work", caption, data, layout, height=320)
