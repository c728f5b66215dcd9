"""Linear quantile regression: a few steps of iteratively reweighted least squares (IRLS).

The pinball loss of a residual r is q*r above 0 and (q-1)*r below. It equals k*r^2 with k = |q - [r<0]| / |r|, so
least squares with the weights k of the previous step comes closer to its minimum with every step. Residuals below
`smoothing` (in units of the target) weigh as if they were that large, which keeps the weights finite.
A ridge penalty draws the coefficients towards a prior, the constant excepted unless it is held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gfs.forecasting.history import Floats
from gfs.forecasting.orgquantile.features import Single

SMALL = 250_000
"""Multiplications that a linear algebra library does on one core."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How one quantile is fitted."""

    q: float
    penalty: float
    """Share of the importance of all rows."""
    steps: int
    smoothing: float
    held: float = 0.0
    """The penalty of the constant, which is free as a rule."""

    def stiffened(self, times: float) -> Steps:
        """The same with a penalty so many times as large."""
        return replace(self, penalty=times * self.penalty)

    def held_by(self, times: float) -> Steps:
        """The same with a penalty so many times as large, the excess of which counts for the constant too."""
        return replace(self, penalty=times * self.penalty, held=(times - 1) * self.penalty)


class Rows:
    """Features and outcomes to fit, a few rows a block: blocks x rows x (features, outcome).

    Blocks are so small that a linear algebra library stays on one core. For matrices this narrow its threads cost
    several times the processor time that they save.
    """

    def __init__(self, x: Single, y: Single) -> None:
        """From features x rows, and the outcome of each row."""
        features, count = x.shape
        block = max(1, SMALL // (features + 1) ** 2)
        self._shape = (-(-count // block), block)
        filled = np.zeros((self._shape[0] * block, features + 1), dtype=np.float32)
        filled[:count, :-1] = x.T
        filled[:count, -1] = y
        self._blocks = filled.reshape(*self._shape, features + 1)

    def in_blocks(self, weight: Single) -> Single:
        """A weight for each row, laid out as the rows are."""
        blocks = np.zeros(self._shape, dtype=np.float32)
        blocks.reshape(-1)[: len(weight)] = weight
        return blocks

    def residuals(self, coefficients: Floats) -> Single:
        """Outcomes less what the coefficients make of the features."""
        residuals: Single = np.matmul(self._blocks, np.append(-coefficients, 1.0).astype(np.float32))
        return residuals

    def least_squares(self, importance: Single, penalty: float, held: float, prior: Floats) -> Floats:
        """Coefficients of weighted least squares, drawn towards the prior; the constant by `held`."""
        weighed = self._blocks * importance[..., None]
        products = np.matmul(weighed.transpose(0, 2, 1), self._blocks).sum(axis=0).astype(np.float64)
        rows = float(importance.sum(dtype=np.float64))
        total = penalty * rows
        draw = np.full(len(prior), total)
        draw[0] = held * rows
        gram = products[:-1, :-1] + np.diag(draw + 1e-9 * (1 + total))
        return np.asarray(np.linalg.solve(gram, products[:-1, -1] + draw * prior), dtype=np.float64)


def ridge(rows: Rows, weight: Single, penalty: float, features: int) -> Floats:
    """Weighted least squares drawn towards 0: where the quantiles start from."""
    return rows.least_squares(rows.in_blocks(weight), penalty, 0.0, np.zeros(features))


def quantile_regression(rows: Rows, weight: Single, how: Steps, start: Floats, prior: Floats) -> Floats:
    """Coefficients whose weighted pinball loss at q, with the penalty, is (nearly) smallest."""
    coefficients, importances = start, rows.in_blocks(weight)
    for _ in range(how.steps):
        residual = rows.residuals(coefficients)
        slope = np.where(residual > 0, np.float32(how.q), np.float32(1 - how.q))
        importance = importances * slope / np.maximum(np.abs(residual), np.float32(how.smoothing))
        coefficients = rows.least_squares(importance.astype(np.float32, copy=False), how.penalty, how.held, prior)
    return coefficients
