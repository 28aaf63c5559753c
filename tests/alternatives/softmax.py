"""Correct answers of the softmax chapter, written in other ways. Each must get full marks."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from course.right_answers.softmax import (
    softmax_by_pairwise_gaps,
    softmax_in_extended_precision,
    softmax_through_logarithms,
)

# softmax ---------------------------------------------------------------------------------------------------------


class SoftmaxObject:
    """A callable object in place of a function, with a parameter of its own."""

    __name__ = "softmax"

    def __call__(self, x, axis=-1, *, base=math.e):
        gaps = x - x.max(axis, keepdims=True)
        powers = base ** gaps
        return powers * np.reciprocal(powers.sum(axis, keepdims=True))


def softmax_by_torch(x, axis=-1):
    return torch.softmax(torch.tensor(x, dtype=torch.float64), dim=axis).numpy()


# log_softmax -----------------------------------------------------------------------------------------------------


def log_softmax_with_logaddexp(x, axis=-1):
    x = np.asarray(x, dtype=float)
    return x - np.logaddexp.reduce(x, axis=axis, keepdims=True)


def log_softmax_without_the_largest(x, axis=-1):
    """log1p of all exponentials but that of the largest score, which is 1."""
    gaps = x - np.max(x, axis=axis, keepdims=True)
    powers = np.exp(gaps)
    np.put_along_axis(powers, np.expand_dims(gaps.argmax(axis), axis), 0.0, axis)
    return gaps - np.log1p(powers.sum(axis=axis, keepdims=True))


def log_softmax_by_torch(x, axis=-1):
    return torch.log_softmax(torch.tensor(x, dtype=torch.float64), dim=axis).numpy()


# softmax_temperature ---------------------------------------------------------------------------------------------


def temperature_after_the_shift(x, temperature):
    if not temperature > 0:
        raise ValueError("temperature must be positive")
    gaps = (x - np.max(x, axis=-1, keepdims=True)) / temperature
    return np.exp(gaps) / np.exp(gaps).sum(-1, keepdims=True)


def temperature_in_place_on_a_copy(x, temperature, axis=-1):
    if not 0 < temperature:
        raise RuntimeError("as PyTorch would")
    x = np.array(x, dtype=float)
    x /= temperature
    x -= x.max(axis, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis, keepdims=True)
    return x


def temperature_by_torch(x, temperature):
    if temperature <= 0:
        raise ValueError("temperature")
    return torch.softmax(torch.tensor(x, dtype=torch.float64) / temperature, dim=-1).numpy()


# softmax_jacobian ------------------------------------------------------------------------------------------------


def jacobian_from_a_column(x):
    n = len(x)
    p = np.exp(x - np.max(x))
    p = (p / p.sum()).reshape(n, 1)
    return p * (np.eye(n) - p.T)


def jacobian_by_complex_steps(x):
    """Exact to the last digit: no difference of nearly equal numbers is taken."""
    def weights(z):
        powers = np.exp(z - z.real.max())
        return powers / powers.sum()

    return np.stack([weights(x + 1e-200j * unit).imag / 1e-200 for unit in np.eye(len(x))], axis=1)


def jacobian_by_autograd(x):
    scores = torch.tensor(x, dtype=torch.float64)
    return torch.autograd.functional.jacobian(lambda scores: scores.softmax(-1), scores).numpy()


# soft_lookup -----------------------------------------------------------------------------------------------------


def lookup_in_a_loop(query, keys, values):
    scores = [sum(float(a) * float(b) for a, b in zip(query, key)) for key in keys]
    powers = [math.exp(score - max(scores)) for score in scores]
    mixed = np.zeros(np.shape(values)[1])
    for power, value in zip(powers, values):
        mixed += power / sum(powers) * np.asarray(value, dtype=float)
    return mixed


def lookup_in_one_pass(query, keys, values):
    """Online softmax: each key is seen once, and what was summed so far is scaled when the maximum grows."""
    top, total, mixed = -math.inf, 0.0, np.zeros(values.shape[1])
    for key, value in zip(keys, values):
        score = float(key @ query)
        higher = max(top, score)
        old, new = math.exp(top - higher), math.exp(score - higher)
        top, total, mixed = higher, total * old + new, mixed * old + value * new
    return mixed / total


def lookup_by_torch(query, keys, values):
    """Attention of one query, with a scale of 1."""
    query, keys, values = (torch.tensor(array, dtype=torch.float64) for array in (query, keys, values))
    return F.scaled_dot_product_attention(query[None], keys, values, scale=1.0)[0].numpy()


ALTERNATIVES = {
    "softmax": [softmax_through_logarithms, softmax_by_pairwise_gaps, softmax_in_extended_precision, SoftmaxObject()],
    "log_softmax": [log_softmax_with_logaddexp, log_softmax_without_the_largest],
    "softmax_temperature": [temperature_by_torch, temperature_after_the_shift, temperature_in_place_on_a_copy],
    "softmax_jacobian": [jacobian_from_a_column, jacobian_by_complex_steps],
    "soft_lookup": [lookup_in_a_loop, lookup_in_one_pass],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "softmax": [softmax_by_torch],
    "log_softmax": [log_softmax_by_torch],
    "softmax_jacobian": [jacobian_by_autograd],
    "soft_lookup": [lookup_by_torch],
}
