"""All experiments, in the order of the report."""

from __future__ import annotations

from gfs.experiments.ablations import ABLATIONS
from gfs.experiments.beyond import BEYOND
from gfs.experiments.comparison import COMPARISON
from gfs.experiments.exhibit import Experiment
from gfs.experiments.guarantees import GUARANTEES

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (COMPARISON, GUARANTEES, ABLATIONS, BEYOND)
}
"""By name."""
