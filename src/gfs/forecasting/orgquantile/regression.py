"""Linear quantile regression: a few steps of iteratively reweighted least squares (IRLS).

The pinball loss of a residual r is q*r above 0 and (q-1)*r below. It equals k*r^2 with k = |q - [r<0]| / |r|, so
least squares with the weights k of the previous step comes closer to its minimum with every step. Residuals below
`SMOOTHING` (in units of the target) weigh as if they were that large, which keeps the weights finite.
A ridge penalty draws the coefficients towards a prior, the constant excepted.
"""

from __future__ import annotations

import numpy as np

from gfs.forecasting.history import Floats

SMOOTHING = 0.05
SMALL = 200_000
"""Multiplications that a linear algebra library does on one core."""


def ridge(x: Floats, y: Floats, weight: Floats, penalty: float) -> Floats:
    """Weighted least squares drawn towards 0: where the quantiles start from."""
    return _solve(x, y, weight, penalty * float(weight.sum()), np.zeros(x.shape[1]))


def quantile_regression(
    x: Floats,
    y: Floats,
    q: float,
    *,
    start: Floats,
    weight: Floats,
    prior: Floats,
    penalty: float,
    steps: int,
    smoothing: float = SMOOTHING,
) -> Floats:
    """Coefficients whose weighted pinball loss at q, with the penalty, is (nearly) smallest."""
    coefficients = start
    for _ in range(steps):
        residual = y - x @ coefficients
        importance = weight * np.where(residual > 0, q, 1 - q) / np.maximum(np.abs(residual), smoothing)
        coefficients = _solve(x, y, importance, penalty * float(importance.sum()), prior)
    return coefficients


def _solve(x: Floats, y: Floats, importance: Floats, penalty: float, prior: Floats) -> Floats:
    weighed = x * importance[:, None]
    gram = _product(weighed, x)
    draw = np.full(x.shape[1], penalty)
    draw[0] = 0.0
    gram[np.diag_indices_from(gram)] += draw + 1e-9 * (1 + penalty)
    return np.asarray(np.linalg.solve(gram, weighed.T @ y + draw * prior), dtype=np.float64)


def _product(left: Floats, right: Floats) -> Floats:
    """left.T @ right, a few rows at a time: so small that a linear algebra library stays on one core.

    For matrices this narrow its threads cost several times the processor time that they save.
    """
    block = max(1, SMALL // left.shape[1] ** 2)
    whole = len(left) // block * block
    blocks = (-1, block, left.shape[1])
    product: Floats = left[whole:].T @ right[whole:]
    product += np.matmul(left[:whole].reshape(blocks).transpose(0, 2, 1), right[:whole].reshape(blocks)).sum(
        axis=0
    )
    return product
