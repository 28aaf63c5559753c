"""Facts that the primer on PyTorch states."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from solutions.pytorch import training_step

POINTS = np.array([[0.0], [1.0], [2.0]])


def line(weight, bias):
    """A straight line in float64 with that weight and bias."""
    made = nn.Linear(1, 1, dtype=torch.float64)
    with torch.no_grad():
        made.weight.fill_(weight)
        made.bias.fill_(bias)
    return made


def numbers(module):
    return np.array([parameter.item() for parameter in module.parameters()])


def gradient(weight, bias, x, y):
    """The derivatives of the mean squared error, on paper."""
    error = weight * x + bias - y
    return np.array([(2 * error * x).mean(), (2 * error).mean()])


def step(model, optimizer, x, y):
    return training_step(model, F.mse_loss, optimizer, torch.from_numpy(x), torch.from_numpy(y))


def test_the_example_on_paper_comes_out():
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.tensor([[2.0]]), torch.tensor([[6.0]])
    assert training_step(model, F.mse_loss, optimizer, x, y) == 16.0
    assert model.weight.item() == pytest.approx(2.6)
    assert training_step(model, F.mse_loss, optimizer, x, y) == pytest.approx(0.64)


def test_the_gradients_of_the_flat_line():
    np.testing.assert_allclose(gradient(0, 0, POINTS, 2 * POINTS + 1), [-26 / 3, -6])


def test_the_first_step_of_adam_is_the_learning_rate_for_each_parameter():
    model = line(0.0, 0.0)
    step(model, torch.optim.Adam(model.parameters(), lr=0.1), POINTS, 2 * POINTS + 1)
    np.testing.assert_allclose(numbers(model), 0.1, rtol=1e-8)


def path(rate, emptied, steps):
    """The one weight of the chapter: its gradient is 8 w - 24."""
    weights, total = [1.0], 0.0
    for _ in range(steps):
        total = 8 * weights[-1] - 24 + (0 if emptied else total)
        weights.append(weights[-1] - rate * total)
    return np.array(weights)


def test_a_rate_of_a_quarter_jumps_between_one_and_five_and_an_eighth_is_there_at_once():
    assert path(0.25, True, 8).tolist() == [1, 5] * 4 + [1]
    assert path(0.125, True, 1).tolist() == [1, 3]


def test_gradients_that_are_never_emptied_do_not_come_to_rest():
    assert np.abs(path(0.1, False, 1000)[-20:] - 3).max() > 2
    assert np.abs(path(0.1, True, 1000)[-20:] - 3).max() < 1e-12
