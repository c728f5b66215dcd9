"""Before and after on the whole cluster (the paper's production figure): a static quota, then gfs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import plotly.graph_objects as go

from gfs.assembly.parameters import Parameters
from gfs.assembly.schedulers import least_quota_share
from gfs.batch.job import Job, JobResult, JobResults
from gfs.batch.simulation import Trace, load
from gfs.experiments.experiment import Experiment, Finding, Section, Setup, paper
from gfs.experiments.jobs import Simulation
from gfs.experiments.views import WEEK
from gfs.report.columns import NOTHING, amount, percent, short_seconds
from gfs.report.figures import SERIES, bars, colours_of, up_to
from gfs.report.page import Block, Chart
from gfs.report.table import DataTable
from gfs.telemetry.prices import HOURS_PER_MONTH, default_prices, price_of, prices_text

BEFORE, AFTER = "static", "gfs"
ENOUGH = 0.5
"""The share of the paper's effect from which ours counts as the same."""
FEW = 10
"""Evictions below which nothing can be said of them."""


class PoolChange(NamedTuple):
    """A GPU model before and after."""

    model: str
    cards: int
    runs: tuple[int, int]
    evictions: tuple[int, int]
    allocation: tuple[float, float]
    asked: float
    """What would be allocated if every task started at once and there were GPUs for all."""
    price: float
    """Dollars per GPU-hour."""
    worth: float
    """Share of the GPU time that money is counted from: gained useful work; beside the paper gained allocation."""

    @property
    def evicted(self) -> tuple[float, float]:
        """Evictions / spot runs."""
        before, after = (e / max(n, 1) for e, n in zip(self.evictions, self.runs, strict=True))
        return before, after

    @property
    def gained(self) -> float:
        """Share of the GPUs that is allocated after, but not before."""
        return self.allocation[1] - self.allocation[0]

    @property
    def possible(self) -> float:
        """The most that could be gained: what is asked for, up to all GPUs, and not allocated before."""
        return max(0.0, min(self.asked, 1.0) - self.allocation[0])

    @property
    def benefit(self) -> float:
        """Dollars a month."""
        return self.worth * self.cards * self.price * HOURS_PER_MONTH

    @property
    def spot(self) -> bool:
        """Whether spot tasks ran there at all."""
        return max(self.runs) > 0


def whole_cluster(setup: Setup, scheduler: str, *views: str) -> Simulation:
    """A run on the whole cluster: one seed, it is large."""
    seed = setup.runs()[0]
    trace = setup.cluster(seed)
    settings = _enough_quota(trace) if scheduler == BEFORE else ()
    return Simulation(trace, scheduler, seed, settings, frozenset(views))


@cache
def _enough_quota(trace: Trace) -> tuple[tuple[str, str], ...]:
    """A larger share for spot tasks where one of them could never start in the usual one."""
    least = least_quota_share(load(trace))
    return (("quota_share", f"{least:g}"),) if least > Parameters().quota_share else ()


def static_words(run: Simulation) -> str:
    """What the static scheduler is."""
    share = Parameters().changed(dict(run.settings)).quota_share
    return f"first fit, and {share:.0%} of each pool for spot tasks"


def of_model(values: Mapping[str, float], model: str) -> float | None:
    """The paper's value for a model of the trace: 'A100-SXM4-80GB' is its A100."""
    return values.get(model.split("-", 1)[0])


def _runs(setup: Setup) -> list[Simulation]:
    return [whole_cluster(setup, scheduler, "pools") for scheduler in (BEFORE, AFTER)]


def jobs(setup: Setup) -> list[Job]:
    """Two runs."""
    return [*_runs(setup)]


def section(setup: Setup, results: JobResults) -> Section:
    """Evictions, allocation and what it is worth, by GPU model."""
    runs = _runs(setup)
    before, after = (results[run]["views"]["pools"] for run in runs)
    useful = [results[run]["metrics"]["goodput_rate"] for run in runs]
    beside = setup.given is None
    pools = [
        PoolChange(
            model,
            old["cards"],
            (old["runs"], after[model]["runs"]),
            (old["evictions"], after[model]["evictions"]),
            (old["allocation"], after[model]["allocation"]),
            old["asked"],
            price_of(model, dict(setup.prices) or default_prices()),
            after[model]["allocation"] - old["allocation"] if beside else useful[1][model] - useful[0][model],
        )
        for model, old in before.items()
    ]
    spot = [pool for pool in pools if pool.spot]
    blocks: list[Block] = [_eviction_chart(spot)] if spot else []
    blocks += [_allocation_chart(pools, beside=beside), _table(pools, prices_text(setup.prices), beside=beside)]
    shows = (
        f"All pools under {BEFORE} ({static_words(runs[0])}), then under {AFTER}:"
        " spot runs evicted, GPU allocation while tasks are submitted, and what the difference is worth."
    )
    if beside:
        shows += (
            " The paper compares two months of one cluster, January and October, in which the work changed too;"
            " here both schedulers get the same tasks, and HP tasks alone ask for about the allocation the paper"
            " had before. No scheduler can gain more than is asked for."
        )
    return Section(shows, blocks, _findings(pools) if beside else (), _missing(pools, results[runs[0]]))


def _missing(pools: list[PoolChange], before: JobResult) -> list[str]:
    words = []
    without = [pool.model for pool in pools if not pool.spot]
    if len(without) == len(pools):
        words.append("The trace has no spot tasks: nothing can be evicted, before or after.")
    elif without:
        words.append(f"No spot tasks ran on {', '.join(without)}: no eviction rate there.")
    first, last = before["metrics"]["span"]
    if last - first < WEEK:
        words.append(f"The trace lasts {short_seconds(last - first)}: what a month is worth is no more than a guess.")
    return words


def _bars(pools: list[PoolChange], values: list[tuple[float, float]]) -> list[Any]:
    colours = colours_of((BEFORE, AFTER))
    names = [pool.model for pool in pools]
    return [
        bars(names, [100 * v[i] for v in values], [percent(v[i]) for v in values], colours[name], f"{when}: {name}")
        for i, (when, name) in enumerate((("before", BEFORE), ("after", AFTER)))
    ]


def _layout(axis: dict[str, Any]) -> go.Layout:
    return go.Layout(xaxis_type="category", yaxis=axis, uniformtext={"minsize": 9, "mode": "hide"})


def _eviction_chart(pools: list[PoolChange]) -> Chart:
    top = 100 * max(max(pool.evicted) for pool in pools)
    return Chart(
        "Spot runs evicted, by GPU model",
        "Evictions / spot runs in each pool; lower is better.",
        _bars(pools, [pool.evicted for pool in pools]),
        _layout(up_to("spot runs evicted [%]", top)),
    )


def _allocation_chart(pools: list[PoolChange], *, beside: bool) -> Chart:
    data = _bars(pools, [pool.allocation for pool in pools])
    if beside:
        theirs = paper()["deployment"]
        known = [(p.model, b) for p in pools if (b := of_model(theirs["allocation_before"], p.model)) is not None]
        gained = {model: of_model(theirs["allocation_gained"], model) for model, _ in known}
        after = [(model, b + more) for model, b in known if (more := gained[model]) is not None]
        for when, points, symbol in (("before", known, "diamond-open"), ("after", after, "diamond")):
            data.append(
                go.Scatter(
                    mode="markers",
                    name=f"paper, {when}",
                    x=[model for model, _ in points],
                    y=[value for _, value in points],
                    marker={"symbol": symbol, "size": 11, "color": SERIES[3], "line": {"width": 2}},
                    hovertemplate="%{x}: %{y:.2f}%<extra>paper, " + when + "</extra>",
                )
            )
    return Chart(
        "GPU allocation, by GPU model",
        "Mean share of the GPUs that is allocated, from the first submission to the last."
        + (" Diamonds: what the paper prints, hollow before and full after." if beside else ""),
        data,
        _layout({"title_text": "GPU allocation [%]", "range": [0, 112]}),
    )


def _table(pools: list[PoolChange], prices: str, *, beside: bool) -> DataTable:
    theirs = paper()["deployment"]
    header = ["GPU model", "GPUs", "spot runs", "evicted before", "evicted after"]
    header += ["asked for", "allocated before", *["paper"] * beside, "allocated after", "gained [points]"]
    header += ["paper"] * beside
    header += ["price [$/GPU-h]", "benefit [$/month]"]
    rows = []
    for pool in pools:
        row = [pool.model, amount(pool.cards), f"{pool.runs[0]:,} / {pool.runs[1]:,}"]
        row += [percent(rate) if pool.spot else NOTHING for rate in pool.evicted]
        row += [percent(pool.asked), percent(pool.allocation[0])]
        row += [_paper_percent(theirs["allocation_before"], pool.model, "{:.2f}%")] * beside
        row += [percent(pool.allocation[1]), f"{100 * pool.gained:+.2f}"]
        row += [_paper_percent(theirs["allocation_gained"], pool.model, "{:+.2f}")] * beside
        rows.append([*row, f"{pool.price:.2f}", f"{pool.benefit:+,.0f}"])
    what = "allocation (as the paper counts it)" if beside else "goodput (useful work)"
    total = sum(pool.benefit for pool in pools)
    cards = sum(pool.cards for pool in pools)
    row = ["all", amount(cards), *[""] * (len(header) - 4), "", f"{total:+,.0f}"]
    return DataTable(
        header,
        [*rows, row],
        note="Spot runs: before / after. Asked for: what would be allocated if every task started at once and there"
        f" were GPUs for all. Benefit: points of {what} gained x GPUs x price x 730 h. Prices: {prices}.",
    )


def _paper_percent(values: Mapping[str, float], model: str, digits: str) -> str:
    value = of_model(values, model)
    return NOTHING if value is None else digits.format(value)


def _findings(pools: list[PoolChange]) -> list[Finding]:
    return [_less_evicted(pools), _all_below(pools), _more_in_use(pools), _worth(pools)]


def _less_evicted(pools: list[PoolChange]) -> Finding:
    theirs = paper()["deployment"]["a100_eviction_change"]
    claim = f"Evictions of A100 fall by {-theirs:.1f}%"
    mine = [pool for pool in pools if of_model({"A100": 1.0}, pool.model)]
    counts = [sum(pool.evictions[when] for pool in mine) for when in (0, 1)]
    if counts[0] < FEW:
        return Finding(claim, None, f"too few to tell: {counts[0]} evictions before, {counts[1]} after.")
    before, after = mine[0].evicted
    change = 100 * (after / before - 1)
    found = f"here {change:+.1f}%: {percent(before)} before ({counts[0]:,}), {percent(after)} after ({counts[1]:,})."
    return Finding(claim, change <= ENOUGH * theirs, found)


def _all_below(pools: list[PoolChange]) -> Finding:
    limit = paper()["deployment"]["evicted_below"]
    worst = max(pools, key=lambda pool: pool.evicted[1])
    before = max(pools, key=lambda pool: pool.evicted[0])
    found = (
        f"the highest here: {percent(worst.evicted[1])} ({worst.model}); before, {percent(before.evicted[0])}"
        f" ({before.model})."
    )
    if 100 * before.evicted[0] < limit:
        found += " It was so before as well."
    return Finding(f"After, all models below {limit:g}%", 100 * worst.evicted[1] < limit, found)


def _more_in_use(pools: list[PoolChange]) -> Finding:
    theirs = paper()["deployment"]["allocation_gained"]
    known = [(pool, value) for pool in pools if (value := of_model(theirs, pool.model)) is not None]
    alike = [100 * pool.gained >= ENOUGH * value for pool, value in known]
    words = "; ".join(
        f"{pool.model} {100 * pool.gained:+.2f} (possible {100 * pool.possible:.2f}, paper {value:+.2f})"
        for pool, value in known
    )
    claim = f"Higher GPU allocation, by {min(theirs.values()):.1f} to {max(theirs.values()):.1f} points"
    return Finding(claim, all(alike), f"points here: {words}.")


def dollars(value: float) -> str:
    """Such as '-$1,234'."""
    return f"{'-' if round(value) < 0 else ''}${abs(value):,.0f}"


def _worth(pools: list[PoolChange]) -> Finding:
    theirs = paper()["deployment"]
    total, cards = sum(pool.benefit for pool in pools), sum(pool.cards for pool in pools)
    mine, of_paper = total / max(cards, 1), theirs["benefit_a_month"] / theirs["cards"]
    return Finding(
        f"Worth about ${theirs['benefit_a_month']:,} a month",
        mine >= ENOUGH * of_paper,
        f"here {dollars(total)} with assumed prices: {dollars(mine)} a GPU, in the paper {dollars(of_paper)}.",
    )


DEPLOYMENT = Experiment("deployment", "Before and after on the whole cluster", jobs, section)
