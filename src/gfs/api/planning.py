"""A plan from Python: which scheduler and quota each pool should have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gfs.api.frames import Frames
from gfs.api.inputs import Source
from gfs.api.sweeping import trace_files
from gfs.assembly.parameters import Parameters
from gfs.domain.errors import InputError
from gfs.telemetry.breakdown import KINDS
from gfs.workloads.readers.tables import TableSource

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from gfs.plans.plan import CapacityPlan


@dataclass(frozen=True, slots=True, eq=False)
class PlanOutcome(Frames):
    """A recommendation, and every run that it rests on."""

    plan: CapacityPlan

    @property
    def answer(self) -> str:
        """What is recommended, in a few sentences."""
        from gfs.plans.summary_text import answer_text

        return answer_text(self.plan)

    @property
    def config(self) -> str:
        """The recommendation as a TOML file, for `config=` and `--config`."""
        from gfs.plans.config_file import config_text

        return config_text(self.plan)

    def summary(self) -> dict[str, Any]:
        """What `gfs plan --json` writes."""
        from gfs.plans.summary_text import summary

        return summary(self.plan)

    def to_arrow(self, table: str = "") -> pa.Table:
        """Every run that was made (what was varied, all figures, why it failed if it did); or the figures of the
        recommendation by `organization`, `model` or `size`."""
        from gfs.sweeps.table import TableRow, results_table

        groups = self.plan.chosen.groups
        if table in KINDS and groups is not None:
            return pa.Table.from_pylist(groups.to_dict()[table])
        if table not in ("", "runs"):
            raise InputError(f"unknown table {table!r}: there are runs, {', '.join(KINDS)}")
        return results_table([TableRow(r.run, r.run.varied, r.figures, r.error or None) for r in self.plan.runs()])

    def plot(self, gpu_model: str = "") -> Figure:
        """What was tried in a pool, by default the largest: spot wait against evictions, a figure of Plotly."""
        from gfs.plans.page import settings_chart
        from gfs.report.plots import figure_of

        choices = {choice.pool.gpu_model: choice for choice in self.plan.pools}
        if gpu_model and gpu_model not in choices:
            raise InputError(f"no pool {gpu_model!r} was planned: there are {', '.join(choices)}")
        return figure_of(settings_chart(self.plan, choices[gpu_model or next(iter(choices))]))

    def write_page(self, path: Path | str) -> None:
        """The page that `gfs plan` writes: one HTML file that works offline."""
        from gfs.plans.page import plan_page
        from gfs.plans.view import PlanView

        plan_page(PlanView(self.plan), Path(path))

    def __repr__(self) -> str:
        return f"<PlanOutcome: {self.answer}>"

    def _repr_html_(self) -> str:
        """The answer, and the tables below it."""
        from gfs.plans.view import PlanView, plan_tables
        from gfs.report.page import Block, Paragraph, block_html

        blocks: list[Block] = [Paragraph(self.answer), *plan_tables(PlanView(self.plan))]
        return "".join(block_html(block, []) for block in blocks)


def plan(
    jobs: Source,
    nodes: TableSource | None = None,
    *,
    targets: Sequence[str] | Mapping[str, float | str] = ("evictions=0.05",),
    schedulers: Sequence[str] = ("gfs-plus", "gfs", "static"),
    guarantee: float | None = None,
    max_wait: float = 3600.0,
    quick: bool = False,
    seed: int = 0,
    workers: int = 1,
    cache: Path | str | None = None,
    config: Path | str | None = None,
    prices: Mapping[str, float] | None = None,
    **parameters: Any,
) -> PlanOutcome:
    """Find the scheduler and the quota of each pool that meet the targets with the shortest spot waits.

    As `gfs plan` does (docs/guides/plan.md): `targets` are `["evictions=0.05", "spot-wait-p95=2h"]` or a mapping of the
    same; `guarantee` the hours promised to spot tasks that do not say their own; `parameters` stay as they are given.
    `cache` is a folder that keeps runs: the same plan goes on from there.
    """
    from gfs.batch.cache import ResultCache
    from gfs.batch.simulation import TraceFiles
    from gfs.plans.computing import computing
    from gfs.plans.plan import capacity_plan
    from gfs.plans.request import plan_request
    from gfs.plans.targets import parse_targets

    given = {**parameters, **({} if guarantee is None else {"guarantee_hours": guarantee})}
    chosen, named = Parameters.given(config, given)
    texts = [f"{name}={bound}" for name, bound in targets.items()] if isinstance(targets, Mapping) else targets
    kept = None if cache is None else ResultCache(Path(cache))
    with trace_files(jobs, nodes) as (jobs_file, nodes_file):
        request = plan_request(
            TraceFiles.of(jobs_file, nodes_file),
            schedulers,
            seed=seed,
            parameters=chosen,
            given=named,
            targets=parse_targets(list(texts)),
            max_wait=max_wait,
            quick=quick,
            prices=prices,
        )
        return PlanOutcome(capacity_plan(request, computing(kept, workers)))
