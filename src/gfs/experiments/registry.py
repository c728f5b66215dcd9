"""All experiments, in the order of the report."""

from __future__ import annotations

from gfs.experiments.ablations import ABLATIONS
from gfs.experiments.beyond import BEYOND
from gfs.experiments.comparison import COMPARISON
from gfs.experiments.deployment import DEPLOYMENT
from gfs.experiments.experiment import Experiment
from gfs.experiments.forecasters import FORECASTERS
from gfs.experiments.guarantees import GUARANTEES
from gfs.experiments.heat_map import HEAT_MAP
from gfs.experiments.statistics import STATISTICS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        STATISTICS,
        HEAT_MAP,
        COMPARISON,
        GUARANTEES,
        FORECASTERS,
        ABLATIONS,
        DEPLOYMENT,
        BEYOND,
    )
}
"""By name."""
