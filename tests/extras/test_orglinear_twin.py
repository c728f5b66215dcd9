"""A twin of OrgLinear in torch, written from the paper's equations: same values, same gradients, same training.

The twin keeps what the paper writes and our NumPy code folds together: the trend by padding and averaging the
window, two heads for the mean with context weights of their own, and automatic gradients instead of ours by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra baselines: make test-extras")

from torch.nn import functional  # noqa: E402

from gfs.forecasting.adam import Parameters  # noqa: E402
from gfs.forecasting.orglinear.model import (  # noqa: E402
    CALENDAR,
    LEAST_SIGMA,
    Batch,
    Schedule,
    Shape,
    forward,
    gradients_of,
    initial,
    loss,
    moving_average,
    train,
)

SHAPES = [
    (Shape(window=48, horizon=4, width=4, attributes=(5, 3)), 25),
    (Shape(window=12, horizon=1, width=2, attributes=(2,)), 5),
    (Shape(window=30, horizon=6, width=3, attributes=(4, 3, 2)), 7),
    (Shape(window=672, horizon=4, width=4, attributes=(21, 5)), 25),
]


def random_parameters(shape: Shape, seed: int) -> Parameters:
    generator = np.random.default_rng(seed)
    start = initial(shape, generator)
    return {name: value + generator.normal(0, 0.2, value.shape) for name, value in start.items()}


def random_batch(shape: Shape, cases: int, seed: int) -> Batch:
    generator = np.random.default_rng(seed)
    calendar = np.stack([generator.integers(0, n, cases) for n in CALENDAR.values()], axis=1)
    attributes = np.stack([generator.integers(0, n, cases) for n in shape.attributes], axis=1)
    target = generator.normal(size=(cases, shape.horizon))
    target[0] = 0.0  # a target of zero counts like any other
    return Batch(generator.normal(size=(cases, shape.window)), calendar, attributes, target)


class Twin(torch.nn.Module):
    """The paper's model with torch's own layers."""

    def __init__(self, shape: Shape, kernel: int, parameters: Parameters) -> None:
        super().__init__()
        self.shape, self.kernel = shape, kernel
        window, horizon, context = shape.window, shape.horizon, shape.context
        self.cycle = torch.nn.Linear(window + context, horizon, dtype=torch.float64)
        self.trend = torch.nn.Linear(window + context, horizon, dtype=torch.float64)
        self.spread = torch.nn.Linear(window + context, horizon, dtype=torch.float64)
        self.calendar = torch.nn.ModuleList(
            torch.nn.Embedding(values, shape.width, dtype=torch.float64) for values in CALENDAR.values()
        )
        self.attributes = torch.nn.ModuleList(
            torch.nn.Embedding(values, shape.width, dtype=torch.float64) for values in shape.attributes
        )
        self.query, self.key, self.value = (
            torch.nn.Linear(shape.width, shape.width, bias=False, dtype=torch.float64) for _ in range(3)
        )
        with torch.no_grad():
            # The two means add up: half of what NumPy keeps in one place goes to each.
            for head, name in ((self.cycle, "cycle"), (self.trend, "trend")):
                _set(head.weight, np.concatenate([parameters[name], parameters["context"] / 2]).T)
                _set(head.bias, parameters["offset"] / 2)
            _set(self.spread.weight, np.concatenate([parameters["spread"], parameters["spread_context"]]).T)
            _set(self.spread.bias, parameters["spread_offset"])
            for i, name in enumerate(CALENDAR):
                _set(self.calendar[i].weight, parameters[name])
            for i in range(len(shape.attributes)):
                _set(self.attributes[i].weight, parameters[f"attribute{i}"])
            for layer, name in ((self.query, "query"), (self.key, "key"), (self.value, "value")):
                _set(layer.weight, parameters[name].T)

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """mu and sigma."""
        window = torch.from_numpy(batch.window)
        half = self.kernel // 2
        padded = functional.pad(window[:, None], (half, half), mode="reflect")
        trend = functional.avg_pool1d(padded, self.kernel, stride=1)[:, 0]
        codes = torch.from_numpy(batch.attributes)
        tokens = torch.stack([table(codes[:, i]) for i, table in enumerate(self.attributes)], dim=1)
        attended = functional.scaled_dot_product_attention(self.query(tokens), self.key(tokens), self.value(tokens))
        dates = torch.from_numpy(batch.calendar)
        calendar = [table(dates[:, i]) for i, table in enumerate(self.calendar)]
        context = torch.cat([attended.flatten(1), *calendar], dim=1)
        mu = self.cycle(torch.cat([window - trend, context], 1)) + self.trend(torch.cat([trend, context], 1))
        sigma = functional.softplus(self.spread(torch.cat([window, context], 1))) + LEAST_SIGMA
        return mu, sigma

    def loss(self, batch: Batch) -> torch.Tensor:
        """Gaussian negative log likelihood, without its constant."""
        mu, sigma = self(batch)
        return functional.gaussian_nll_loss(mu, torch.from_numpy(batch.target), sigma**2, eps=0.0)

    def gradients(self) -> Parameters:
        """What torch found, under NumPy's names."""
        window = self.shape.window
        found = {
            "cycle": self.cycle.weight.grad.T[:window],
            "trend": self.trend.weight.grad.T[:window],
            "spread": self.spread.weight.grad.T[:window],
            "context": self.cycle.weight.grad.T[window:],
            "spread_context": self.spread.weight.grad.T[window:],
            "offset": self.trend.bias.grad,
            "spread_offset": self.spread.bias.grad,
            "query": self.query.weight.grad.T,
            "key": self.key.weight.grad.T,
            "value": self.value.weight.grad.T,
        }
        found |= {name: self.calendar[i].weight.grad for i, name in enumerate(CALENDAR)}
        found |= {f"attribute{i}": table.weight.grad for i, table in enumerate(self.attributes)}
        return {name: gradient.numpy() for name, gradient in found.items()}


def _set(weight: torch.Tensor, values: np.ndarray) -> None:
    weight.copy_(torch.from_numpy(np.ascontiguousarray(values)))


@pytest.mark.parametrize(("shape", "kernel"), SHAPES)
def test_the_same_values(shape: Shape, kernel: int) -> None:
    parameters, batch = random_parameters(shape, seed=1), random_batch(shape, cases=9, seed=2)
    mu, sigma = forward(parameters, batch, moving_average(shape.window, kernel))
    with torch.no_grad():
        twin_mu, twin_sigma = Twin(shape, kernel, parameters)(batch)
    np.testing.assert_allclose(mu, twin_mu.numpy(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(sigma, twin_sigma.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("shape", "kernel"), SHAPES)
def test_the_same_loss_and_gradients(shape: Shape, kernel: int) -> None:
    parameters, batch = random_parameters(shape, seed=3), random_batch(shape, cases=9, seed=4)
    average = moving_average(shape.window, kernel)
    gradients = gradients_of(parameters, batch, average, average.T)
    twin = Twin(shape, kernel, parameters)
    twin_loss = twin.loss(batch)
    twin_loss.backward()
    assert loss(parameters, batch, average) == pytest.approx(twin_loss.item(), rel=1e-11)
    expected = twin.gradients()
    assert set(gradients) == set(expected)
    for name, gradient in gradients.items():
        size = np.abs(expected[name]).max()
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-9, atol=1e-10 * max(size, 1e-6), err_msg=name)


def test_the_same_weights_after_some_steps_of_adam() -> None:
    """Full batches, so that the order of the cases does not matter: ours beside torch's optimiser."""
    shape, kernel = SHAPES[0]
    start, batch = random_parameters(shape, seed=5), random_batch(shape, cases=16, seed=6)
    # Context weights and offsets of the mean are one in NumPy and two in the twin, where Adam would move the sum
    # twice as far: the twin's second head gets none to learn.
    twin = Twin(shape, kernel, {**start, "context": 2 * start["context"], "offset": 2 * start["offset"]})
    window = shape.window
    with torch.no_grad():
        twin.trend.weight[:, window:] = 0.0
        twin.trend.bias[:] = 0.0
    schedule = Schedule(epochs=5, batch=16, rate=1e-2, fading=0.1)
    average = moving_average(window, kernel)
    ours = train(start, lambda order: batch, 16, average, schedule, np.random.default_rng(0))
    optimiser = torch.optim.Adam(twin.parameters(), lr=1e-2)
    falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / 5)
    ages = torch.arange(window, 0, -1)
    for _ in range(5):
        optimiser.zero_grad()
        twin.loss(batch).backward()
        twin.trend.weight.grad[:, window:] = 0.0
        twin.trend.bias.grad[:] = 0.0
        with torch.no_grad():
            for head in (twin.cycle, twin.trend, twin.spread):
                head.weight[:, :window] *= torch.exp(-0.1 * falling.get_last_lr()[0] * ages)
        optimiser.step()
        falling.step()
    with torch.no_grad():
        theirs = {
            "cycle": twin.cycle.weight.T[:window],
            "trend": twin.trend.weight.T[:window],
            "context": twin.cycle.weight.T[window:],
            "offset": twin.cycle.bias,
            "spread": twin.spread.weight.T[:window],
            "query": twin.query.weight.T,
            "attribute0": twin.attributes[0].weight,
            "hour": twin.calendar[0].weight,
        }
        for name, weights in theirs.items():
            np.testing.assert_allclose(ours[name], weights.numpy(), rtol=1e-6, atol=1e-8, err_msg=name)
            assert np.abs(ours[name] - start[name]).max() > 1e-3, f"{name} has not moved"
