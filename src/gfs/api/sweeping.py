"""Many settings from Python: a sweep over a grid or a sample of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gfs.api.frames import Frames
from gfs.api.inputs import Source
from gfs.domain.errors import InputError
from gfs.domain.text import one_line
from gfs.domain.workload import Workload, check_workload
from gfs.workloads import read_trace, write_trace
from gfs.workloads.readers.tables import TableSource

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from gfs.sweeps.table import SweepResults


@dataclass(frozen=True, slots=True, eq=False)
class SweepOutcome(Frames):
    """The runs of a sweep, and the settings that no other is better than."""

    runs: pa.Table
    """One row a run: what varied, all figures, and why it failed if it did."""

    @property
    def results(self) -> SweepResults:
        """Seeds averaged, and which settings are on the front of evictions, spot wait and goodput."""
        from gfs.sweeps.table import results_of

        return results_of(self.runs)

    def to_arrow(self, table: str = "") -> pa.Table:
        """The runs; or `front`: the settings on the front with their means."""
        if table in ("", "runs"):
            return self.runs
        if table != "front":
            raise InputError(f"unknown table {table!r}: there are runs, front")
        return pa.Table.from_pylist(
            [{**g.settings, "seeds": g.seeds, **g.means} for g in self.results.groups if g.front]
        )

    def plot(self) -> Figure:
        """Spot wait against evictions, a point for each setting: a figure of Plotly."""
        from gfs.report.plots import figure_of
        from gfs.sweeps.page import sweep_chart

        results = self.results
        return figure_of(sweep_chart(results.varied, results.groups))

    def __repr__(self) -> str:
        groups = self.results.groups
        return (
            f"<SweepOutcome: {self.runs.num_rows:,} runs, {sum(g.front for g in groups)} of {len(groups)} on the front>"
        )

    def _repr_html_(self) -> str:
        """The settings on the front."""
        from gfs.report.page import table_html
        from gfs.sweeps.table import sweep_table

        results = self.results
        return table_html(sweep_table(results.varied, [group for group in results.groups if group.front]))


def sweep(
    jobs: Source,
    nodes: TableSource | None = None,
    *,
    vary: Mapping[str, Any],
    sample: int | None = None,
    sample_seed: int = 0,
    workers: int = 1,
    cache: Path | str | None = None,
    **parameters: Any,
) -> SweepOutcome:
    """Simulate a trace with every combination of what `vary` lists, or with a random sample of them.

    `vary` names schedulers, seeds or parameters: `{"scheduler": ["gfs", "gfs-plus"], "p": [0.8, 0.9, 0.95]}`; for a
    sample also a range: `{"p": {"low": 0.8, "high": 0.99}}`. Further keywords are parameters of all runs. `cache` is a
    folder that keeps runs: the same sweep goes on from there. A run that fails is a row with its error.
    """
    from gfs.batch.cache import ResultCache, run_jobs
    from gfs.batch.executors import on_this_machine
    from gfs.sweeps.spec import sweep_of
    from gfs.sweeps.table import TableRow, results_table

    with trace_files(jobs, nodes) as (jobs_file, nodes_file):
        document: dict[str, Any] = {
            "trace": {"jobs": str(jobs_file), "nodes": str(nodes_file)},
            "vary": {name: _plain(values) for name, values in vary.items()},
            "set": parameters,
            "sample_seed": sample_seed,
            **({} if sample is None else {"sample": sample}),
        }
        runs = sweep_of(document, Path()).runs()
        errors: dict[Any, str] = {}
        found = run_jobs(
            runs,
            None if cache is None else ResultCache(Path(cache)),
            partial(on_this_machine, workers),
            lambda missing: lambda job: None,
            lambda job, error: errors.update({job: one_line(error)}),
        )
    return SweepOutcome(results_table([TableRow(r, r.varied, found.get(r, {}), errors.get(r)) for r in runs]))


def _plain(values: Any) -> Any:
    return dict(values) if isinstance(values, Mapping) else values if isinstance(values, str) else list(values)


@contextmanager
def trace_files(jobs: Source, nodes: TableSource | None) -> Iterator[tuple[Path, Path]]:
    """The trace as files that every process of a batch can read: its own, or written for the time being."""
    if isinstance(jobs, Workload):
        if nodes is not None:
            raise InputError("a workload brings its own nodes: leave out the nodes file")
        check_workload(jobs)
        workload = jobs
    elif nodes is None:
        raise InputError("a jobs table needs a nodes table beside it: sweep(jobs, nodes, ...)")
    elif isinstance(jobs, Path | str) and isinstance(nodes, Path | str):
        read_trace(jobs, nodes)  # errors show now, not in the midst of runs
        yield Path(jobs), Path(nodes)
        return
    else:
        workload = read_trace(jobs, nodes).workload
    if workload.node_events:
        raise InputError("node events are not part of a sweep or a plan: give a workload without them")
    with tempfile.TemporaryDirectory(prefix="gfs-trace-") as folder:
        yield write_trace(workload, Path(folder))
