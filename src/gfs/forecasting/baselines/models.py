"""The paper's baselines: networks of neuralforecast, each with its training.

All learn from the same windows of the same standardised series. Steps were chosen on hours before the test part:
`dlinear` and `deepar` with half as many are less than 1% worse there, the others are stopped after two to four
minutes of one core. Networks with attention are kept narrow, which buys them more steps in that time.
"""

from __future__ import annotations

from functools import partial

from neuralforecast.models import Autoformer, DeepAR, DLinear, FEDformer, Informer, VanillaTransformer

from gfs.forecasting.baselines.networks import Direct, Recurrent
from gfs.forecasting.baselines.neural import NeuralEstimator

WIDTH, HEADS = 32, 2
"""Length of the embedding of an hour, and attention heads, in the networks with attention."""

transformer = partial(
    NeuralEstimator,
    name="transformer",
    # without dropout, torch computes attention without writing it down, several times as fast
    network=Direct(partial(VanillaTransformer, hidden_size=WIDTH, n_head=HEADS, dropout=0.0)),
    steps=2000,
    rate=1e-3,
    batch=8,
)
informer = partial(
    NeuralEstimator,
    name="informer",
    network=Direct(partial(Informer, hidden_size=WIDTH, n_head=HEADS)),
    steps=1000,
    rate=1e-3,
    batch=8,
)
autoformer = partial(
    NeuralEstimator,
    name="autoformer",
    network=Direct(partial(Autoformer, hidden_size=WIDTH, n_head=HEADS)),
    steps=1000,
    rate=1e-3,
    batch=8,
)
fedformer = partial(
    NeuralEstimator,
    name="fedformer",
    network=Direct(partial(FEDformer, hidden_size=WIDTH, modes=32)),  # it has eight heads
    steps=1000,
    rate=1e-3,
    batch=8,
)
dlinear = partial(
    NeuralEstimator,
    name="dlinear",
    network=Direct(DLinear, calendar=False),
    steps=8000,
    rate=1e-3,
    batch=64,
)
deepar = partial(
    NeuralEstimator,
    name="deepar",
    network=Recurrent(partial(DeepAR, lstm_hidden_size=40)),
    steps=2000,
    rate=3e-3,
    batch=32,
)
