"""Where `gfs quota export` takes demand and nodes from: files, or a Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gfs.cli.console import note
from gfs.cli.forecast_options import DemandOptions
from gfs.cli.prometheus_options import Server, ask, parse_range
from gfs.domain.errors import BadRows, InputError

if TYPE_CHECKING:
    from gfs.domain.node import NodeSpec
    from gfs.forecasting.past import PastDemand
    from gfs.live.settings import LiveSettings


@dataclass(frozen=True, slots=True)
class DemandFiles:
    """Demand of a file or a trace, and nodes.csv."""

    series: Path | None
    jobs: Path | None
    nodes: Path | None
    first_day: str | None
    skip_bad_rows: bool

    def check(self) -> None:
        """Say at once what is missing."""
        if (self.series is None) == (self.jobs is None) or self.nodes is None:
            raise InputError(
                "give demand and nodes in one of three ways: --series FILE --nodes FILE, --jobs FILE --nodes FILE,"
                " or --prometheus URL"
            )

    def read(self) -> tuple[Sequence[NodeSpec], PastDemand, bool]:
        """Nodes, demand, and whether it has dates."""
        from gfs.forecasting.history import SeriesKey
        from gfs.forecasting.past import PastDemand

        demand = DemandOptions(
            self.series, self.jobs, self.nodes if self.jobs else None, None, None, self.first_day, self.skip_bad_rows
        )
        assert self.nodes is not None
        nodes, history = _read_nodes(self.nodes), demand.read()
        models = {node.gpu_model for node in nodes}
        unnamed = all(not key.organization and key.gpu_model not in models for key in history.keys)
        if unnamed and len(models) == 1:  # a wide file: each column is a series, of whatever it is called
            model = models.pop()
            note(f"columns of {demand.name} are taken for organizations that want {model}")
            history = replace(history, keys=tuple(SeriesKey(key.gpu_model, model) for key in history.keys))
        return nodes, PastDemand.of_history(history), history.first_day is not None


@dataclass(frozen=True, slots=True)
class DemandServer:
    """Demand of the last weeks, and nodes as they are now unless a file is given."""

    server: Server
    days: float | None
    settings: LiveSettings
    nodes: Path | None
    spot: tuple[str, ...] = ()
    told: set[str] = field(default_factory=set)
    """Guesses that were told already."""

    def check(self) -> None:
        """Say at once if it is no address."""
        from gfs.live.prometheus import check_url

        check_url(self.server.url)

    def read(self) -> tuple[Sequence[NodeSpec], PastDemand, bool]:
        """Nodes, demand, and whether it has dates."""
        from gfs.cli.progress import bars
        from gfs.forecasting.meter import STEP

        asked = parse_range(None, None, self.days, STEP, usual_days=self.settings.prometheus_days)

        async def read() -> tuple[Sequence[NodeSpec], PastDemand]:
            from gfs.records.prometheus import cluster_demand, read_cluster

            with bars(["HP demand"], asked.days, unit="days") as running:
                async with self.server.connect() as prometheus:
                    cluster = await read_cluster(prometheus, self.settings, asked.start, asked.end, self.spot)
                    if self.nodes is not None:
                        cluster = replace(cluster, nodes=_read_nodes(self.nodes))
                    past = await cluster_demand(
                        prometheus, self.settings, cluster, asked, lambda days: running("HP demand", days)
                    )
            for guess in cluster.guesses:
                if guess not in self.told:
                    note(f"guessed: {guess}")
                    self.told.add(guess)
            return cluster.nodes, past

        return *ask(read), True


DemandSource = DemandFiles | DemandServer


def _read_nodes(path: Path) -> tuple[NodeSpec, ...]:
    from gfs.workloads.readers.alibaba import NODE_COLUMNS, read_node_specs
    from gfs.workloads.readers.tables import read_table

    specs, bad = read_node_specs(read_table(path, NODE_COLUMNS))
    if bad:
        raise BadRows(bad)
    return specs
