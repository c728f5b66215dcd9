"""Linear quantile regression by iteratively reweighted least squares (IRLS).

The pinball loss of a residual r is q*r above 0 and (q-1)*r below. It equals k*r^2 with k = |q - [r<0]| / |r|, so
least squares with the weights k of the previous step comes closer to its minimum with every step. Residuals below
`smoothing` weigh as if they were that large, which keeps the weights finite. A ridge penalty draws the coefficients
towards a prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gfs.forecasting.history import Floats, Ints
from gfs.forecasting.orgquantile.features import Single

ONE_CORE = 250_000
"""Multiplications that a linear algebra library does on one core. For matrices as narrow as ours its threads cost
several times the processor time that they save."""


@dataclass(frozen=True, slots=True)
class QuantileFit:
    """How one quantile is fitted."""

    q: float
    penalty: float
    """Share of the importance of all rows."""
    steps: int
    smoothing: float
    constant_penalty: float = 0.0
    """The penalty of the constant, as a rule none."""

    def quick(self) -> QuantileFit:
        """The same in one step, from coefficients that were fitted on nearly the same rows."""
        return replace(self, steps=1)

    def stiffened(self, times: float, constant: bool = False) -> QuantileFit:
        """The same with a penalty so many times as large; what is added may count for the constant too."""
        excess = (times - 1) * self.penalty if constant else 0.0
        return replace(self, penalty=times * self.penalty, constant_penalty=excess)


class RegressionRows:
    """Features and targets to fit, in blocks of few rows (`ONE_CORE`): blocks x rows x (features, target).

    Rows in groups are fitted group by group, all at once: there is one more axis in front, here and in coefficients.
    """

    def __init__(self, x: Single, y: Single, groups: tuple[int, Ints] | None = None) -> None:
        """From features x rows, and the target of each row. `groups`: how many, and that of each row."""
        features, count = x.shape
        block = max(1, ONE_CORE // (features + 1) ** 2)
        self._places: Ints | slice = slice(count)
        blocks: tuple[int, ...] = (-(-count // block),)
        if groups is not None:
            number, group = groups
            order = np.argsort(group, kind="stable")
            sizes = np.bincount(group, minlength=number)
            blocks = number, -(-int(sizes.max(initial=1)) // block)
            begins = np.cumsum(sizes) - sizes
            self._places = np.empty(count, np.int64)
            self._places[order] = np.arange(count) + (np.arange(number) * blocks[1] * block - begins)[group[order]]
        self._shape = (*blocks, block)
        filled = np.zeros((*self._shape, features + 1), dtype=np.float32)
        filled.reshape(-1, features + 1)[self._places, :-1] = x.T
        self._blocks = filled
        self.aim_at(y)

    def aim_at(self, y: Single) -> None:
        """Another target of each row."""
        self._blocks.reshape(-1, self._blocks.shape[-1])[self._places, -1] = y

    def in_blocks(self, weight: Single) -> Single:
        """A weight for each row, laid out as the rows are."""
        blocks = np.zeros(self._shape, dtype=np.float32)
        blocks.reshape(-1)[self._places] = weight
        return blocks

    def residuals(self, coefficients: Floats) -> Single:
        """Targets less fitted values."""
        factors = np.concatenate([-coefficients, np.ones((*coefficients.shape[:-1], 1))], axis=-1).astype(np.float32)
        residuals: Single = np.matmul(self._blocks, factors[..., None, :, None])[..., 0]
        return residuals

    def least_squares(self, importance: Single, penalty: float, constant_penalty: float, prior: Floats) -> Floats:
        """Coefficients of weighted least squares with a ridge penalty around the prior."""
        weighted = self._blocks * importance[..., None]
        products = np.matmul(weighted.swapaxes(-1, -2), self._blocks).sum(axis=-3).astype(np.float64)
        rows = importance.sum(axis=(-2, -1), dtype=np.float64)[..., None]
        total = penalty * rows
        ridge = np.repeat(total, prior.shape[-1], axis=-1)
        ridge[..., :1] = constant_penalty * rows
        gram = products[..., :-1, :-1] + np.eye(prior.shape[-1]) * (ridge + 1e-9 * (1 + total))[..., None]
        wanted = (products[..., :-1, -1] + ridge * prior)[..., None]
        return np.asarray(np.linalg.solve(gram, wanted)[..., 0], dtype=np.float64)


def ridge_regression(rows: RegressionRows, weight: Single, penalty: float, features: int) -> Floats:
    """Weighted least squares drawn towards 0: where the quantiles start from."""
    return rows.least_squares(rows.in_blocks(weight), penalty, 0.0, np.zeros(features))


def quantile_regression(rows: RegressionRows, weight: Single, how: QuantileFit, start: Floats, prior: Floats) -> Floats:
    """Coefficients whose weighted pinball loss at q, with the penalty, is (nearly) smallest."""
    coefficients, weights = start, rows.in_blocks(weight)
    for _ in range(how.steps):
        residual = rows.residuals(coefficients)
        slope = np.where(residual > 0, np.float32(how.q), np.float32(1 - how.q))
        importance = weights * slope / np.maximum(np.abs(residual), np.float32(how.smoothing))
        single = importance.astype(np.float32, copy=False)
        coefficients = rows.least_squares(single, how.penalty, how.constant_penalty, prior)
    return coefficients
