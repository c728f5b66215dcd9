"""OrgLinear: values, gradients and training (the paper's equations for GDE, docs/concepts/demand-forecast.md).

    trend x_t = moving average of the window x (reflection padding), cyclical part x_c = x - x_t
    c_t = Emb(hour) + Emb(weekday) + Emb(holiday), put one after the other
    c_o = attention over the embeddings of the series' attributes (organization, GPU model, cluster), ditto
    mu = W_c [x_c, c_o, c_t] + b_c  +  W_t [x_t, c_o, c_t] + b_t
    sigma = softplus(W_v [x, c_o, c_t] + b_v)
    loss = mean of log sigma + (y - mu)^2 / (2 sigma^2)

Both means see the same context and add up, so their context weights are one matrix and their offsets one vector.
The paper's formula leaves out log sigma, which has no finite optimum; attention is scaled before the softmax.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from gfs.forecasting.adam import Adam, Parameters, Reals
from gfs.forecasting.history import Floats, Ints

LEAST_SIGMA = 1e-3
"""In units of an hour ahead: none is certain."""
CALENDAR = {"hour": 24, "weekday": 7, "holiday": 2}


class Shape(NamedTuple):
    """What the sizes of all weights follow from."""

    window: int
    horizon: int
    width: int
    """Length of an embedding."""
    attributes: tuple[int, ...]
    """How many values each attribute of a series has, the unknown one (0) included."""

    @property
    def context(self) -> int:
        """Length of [c_o, c_t]."""
        return self.width * (len(self.attributes) + len(CALENDAR))


class Batch(NamedTuple):
    """Cases to forecast, and the targets if they are known."""

    window: Reals
    """Cases x hours, standardised."""
    calendar: Ints
    """Cases x (hour, weekday, holiday) of the first hour to forecast."""
    attributes: Ints
    """Series x attributes."""
    target: Reals
    """Cases x hours ahead, standardised."""
    series: Ints | None = None
    """The series of each case; without it there are as many of both."""


def moving_average(hours: int, kernel: int) -> Floats:
    """The matrix that turns a window into its trend: means of `kernel` hours around each, mirrored at the ends."""
    if kernel % 2 == 0:
        raise ValueError(f"a centred moving average has an odd kernel, not {kernel}")
    half = min(kernel // 2, hours - 1)
    source = np.pad(np.arange(hours), half, mode="reflect")
    matrix = np.zeros((hours, hours))
    for shift in range(2 * half + 1):
        np.add.at(matrix, (np.arange(hours), source[shift : shift + hours]), 1 / (2 * half + 1))
    return matrix


def initial(shape: Shape, generator: np.random.Generator) -> Parameters:
    """Weights to begin with: the forecast is what windows are measured from, every embedding small and random."""
    width, horizon = shape.width, shape.horizon
    parameters: Parameters = {
        "cycle": np.zeros((shape.window, horizon)),
        "trend": np.zeros((shape.window, horizon)),
        "spread": np.zeros((shape.window, horizon)),
        "context": np.zeros((shape.context, horizon)),
        "spread_context": np.zeros((shape.context, horizon)),
        "offset": np.zeros(horizon),
        "spread_offset": np.zeros(horizon),
    }
    for name, values in CALENDAR.items():
        parameters[name] = generator.normal(0.0, 0.1, (values, width))
    for i, values in enumerate(shape.attributes):
        parameters[f"attribute{i}"] = generator.normal(0.0, 0.1, (values, width))
    for name in ("query", "key", "value"):
        parameters[name] = np.eye(width) + generator.normal(0.0, 0.1, (width, width))
    return parameters


class AttentionContext(NamedTuple):
    """[c_o, c_t] of a batch, and what its gradients need."""

    features: Reals
    tokens: Reals
    """Cases x attributes x width."""
    query: Reals
    key: Reals
    value: Reals
    attention: Reals
    """Cases x attributes x attributes: rows add up to 1."""


def context_of(parameters: Parameters, batch: Batch) -> AttentionContext:
    """Embeddings of calendar and attributes, attention over the latter."""
    tokens = np.stack(
        [parameters[f"attribute{i}"][batch.attributes[:, i]] for i in range(batch.attributes.shape[1])], axis=1
    )
    query, key, value = (tokens @ parameters[name] for name in ("query", "key", "value"))
    logits = query @ key.swapaxes(1, 2) / np.sqrt(tokens.shape[2])
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    attention = weights / weights.sum(axis=2, keepdims=True)
    attended = (attention @ value).reshape(len(tokens), -1)
    known = attended, tokens, query, key, value, attention
    attended, *others = known if batch.series is None else (of_series[batch.series] for of_series in known)
    calendar = [parameters[name][batch.calendar[:, i]] for i, name in enumerate(CALENDAR)]
    return AttentionContext(np.concatenate([attended, *calendar], axis=1), *others)


def forward(parameters: Parameters, batch: Batch, average: Reals) -> tuple[Reals, Reals]:
    """mu and sigma of every case and hour ahead, standardised."""
    mu, logit = _heads(parameters, batch, average.T, context_of(parameters, batch))
    return mu, np.logaddexp(0.0, logit) + LEAST_SIGMA


def loss(parameters: Parameters, batch: Batch, average: Reals) -> float:
    """The loss of a batch: what training makes small."""
    mu, sigma = forward(parameters, batch, average)
    return float((np.log(sigma) + 0.5 * ((batch.target - mu) / sigma) ** 2).mean())


def gradients_of(parameters: Parameters, batch: Batch, average: Reals, transposed: Reals) -> Parameters:
    """The derivative of the loss by every weight; `transposed`: of the moving average, where it takes time to get."""
    context = context_of(parameters, batch)
    mu, logit = _heads(parameters, batch, transposed, context)
    sigma = np.logaddexp(0.0, logit) + LEAST_SIGMA
    error = batch.target - mu
    by_mu = -error / sigma**2 / error.size
    by_sigma = (1 / sigma - error**2 / sigma**3) / error.size
    by_logit = by_sigma * (1 / (1 + np.exp(-logit)))
    hours = by_mu.shape[1]
    both = np.concatenate([by_mu, by_logit], axis=1)
    by_heads = (both.T @ batch.window.astype(both.dtype)).T  # the quicker of the two ways round
    by_window = by_heads[:, :hours]
    by_trend = average @ by_window
    gradients: Parameters = {
        "cycle": by_window - by_trend,
        "trend": by_trend,
        "spread": by_heads[:, hours:],
        "context": context.features.T @ by_mu,
        "spread_context": context.features.T @ by_logit,
        "offset": by_mu.sum(axis=0),
        "spread_offset": by_logit.sum(axis=0),
    }
    by_features = by_mu @ parameters["context"].T + by_logit @ parameters["spread_context"].T
    gradients.update(_context_gradients(parameters, batch, context, by_features))
    return gradients


def mean_weights(parameters: Parameters, transposed: Reals) -> Reals:
    """The weights of the window in mu, trend and cycle in one: (x - Ax) C + Ax T = x (C + A' (T - C))."""
    both: Reals = parameters["cycle"] + transposed @ (parameters["trend"] - parameters["cycle"])
    return both


def _heads(parameters: Parameters, batch: Batch, transposed: Reals, context: AttentionContext) -> tuple[Reals, Reals]:
    weights = np.concatenate([mean_weights(parameters, transposed), parameters["spread"]], axis=1)
    both = batch.window @ weights
    hours = parameters["offset"].size
    mu = both[:, :hours] + context.features @ parameters["context"] + parameters["offset"]
    logit = both[:, hours:] + context.features @ parameters["spread_context"] + parameters["spread_offset"]
    return mu, logit


def _context_gradients(
    parameters: Parameters, batch: Batch, context: AttentionContext, by_features: Reals
) -> Parameters:
    """Back through the embeddings and the attention."""
    cases, count, width = context.tokens.shape
    attributes = batch.attributes if batch.series is None else batch.attributes[batch.series]
    gradients: Parameters = {}
    for i, name in enumerate(CALENDAR):
        start = width * (count + i)
        gradients[name] = _by_row(parameters[name], batch.calendar[:, i], by_features[:, start : start + width])
    by_attended = by_features[:, : count * width].reshape(cases, count, width)
    by_value = context.attention.swapaxes(1, 2) @ by_attended
    by_attention = by_attended @ context.value.swapaxes(1, 2)
    along = (by_attention * context.attention).sum(axis=2, keepdims=True)
    by_logits = context.attention * (by_attention - along) / np.sqrt(width)
    by_query, by_key = by_logits @ context.key, by_logits.swapaxes(1, 2) @ context.query
    by_tokens = np.zeros_like(context.tokens)
    for name, by_projected in (("query", by_query), ("key", by_key), ("value", by_value)):
        flat = by_projected.reshape(-1, width)
        gradients[name] = context.tokens.reshape(-1, width).T @ flat
        by_tokens += (flat @ parameters[name].T).reshape(by_tokens.shape)
    for i in range(count):
        name = f"attribute{i}"
        gradients[name] = _by_row(parameters[name], attributes[:, i], by_tokens[:, i])
    return gradients


def _by_row(table: Reals, rows: Ints, by_cases: Reals) -> Reals:
    """The gradient of a table of embeddings: what the cases that used a row add up to."""
    used = (np.arange(len(table))[:, None] == rows[None, :]).astype(by_cases.dtype)
    total: Reals = used @ by_cases
    return total


Cases = Callable[[Ints], Batch]
"""Positions of training cases -> the cases."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast to learn."""

    epochs: int = 10
    batch: int = 256
    rate: float = 5e-4
    """To begin with; it falls in a straight line to 0."""
    most: int = 100_000
    """Cases to learn from; of more, so many drawn at random."""
    fading: float = 0.1
    """How fast the weights of an hour of the window fade, times the rate and its age: old ones must earn them."""


def train(
    parameters: Parameters, cases: Cases, count: int, average: Reals, schedule: Schedule, generator: np.random.Generator
) -> Parameters:
    """Adam over shuffled batches. The parameters given are left as they are.

    On one thread: the matrices are so small that a second one would only wait, and the sums would depend on it.
    """
    weights = {name: value.copy() for name, value in parameters.items()}
    ages = np.arange(len(weights["cycle"]), 0, -1, dtype=weights["cycle"].dtype)[:, None]
    adam = Adam(weights, schedule.rate, schedule.epochs * -(-count // schedule.batch))
    transposed = average.T
    with threadpool_limits(1, user_api="blas"):
        for _ in range(schedule.epochs):
            order = generator.permutation(count)
            for start in range(0, count, schedule.batch):
                gradients = gradients_of(weights, cases(order[start : start + schedule.batch]), average, transposed)
                fade = np.exp(-adam.rate * schedule.fading * ages)
                for name in ("cycle", "trend", "spread"):
                    weights[name] *= fade
                adam.step(gradients)
    return weights
