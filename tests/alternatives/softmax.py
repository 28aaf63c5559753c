"""Correct answers of the softmax chapter, written in other ways. Each must get full marks."""

import math

import numpy as np

# softmax ---------------------------------------------------------------------------------------------------------


def softmax_through_logarithms(x, axis=-1):
    top = np.max(x, axis=axis, keepdims=True)
    log_total = top + np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True))
    return np.exp(x - log_total)


def softmax_row_by_row(x, axis=-1):
    def one_row(row):
        gaps = row - row.max()
        return np.exp(gaps) / np.exp(gaps).sum()

    return np.apply_along_axis(one_row, axis, np.array(x, dtype=np.float64))


def softmax_with_the_axis_moved_last(x, axis=-1):
    rows = np.moveaxis(np.array(x, dtype=float), axis, -1)
    rows = rows - rows.max(axis=-1)[..., None]
    np.exp(rows, out=rows)
    rows /= rows.sum(axis=-1)[..., None]
    return np.moveaxis(rows, -1, axis)


def softmax_by_pairwise_gaps(x, axis=-1):
    """1 / sum_j exp(s_j - s_i): nothing is subtracted by hand, and an overflow lands on the right limit, zero."""
    rows = np.moveaxis(np.asarray(x, dtype=float), axis, -1)
    with np.errstate(over="ignore"):
        weights = 1.0 / np.exp(rows[..., None, :] - rows[..., :, None]).sum(axis=-1)
    return np.moveaxis(weights, -1, axis)


# log_softmax -----------------------------------------------------------------------------------------------------


def log_softmax_with_logaddexp(x, axis=-1):
    x = np.asarray(x, dtype=float)
    return x - np.logaddexp.reduce(x, axis=axis, keepdims=True)


def log_softmax_in_plain_python(x, axis=-1):
    def one_row(row):
        top = max(row)
        log_total = math.log(sum(math.exp(score - top) for score in row))
        return [score - top - log_total for score in row]

    return np.apply_along_axis(one_row, axis, np.asarray(x, dtype=float))


# softmax_temperature ---------------------------------------------------------------------------------------------


def temperature_after_the_shift(x, temperature):
    if not temperature > 0:
        raise ValueError("temperature must be positive")
    gaps = (x - np.max(x, axis=-1, keepdims=True)) / temperature
    return np.exp(gaps) / np.exp(gaps).sum(-1, keepdims=True)


def temperature_as_a_power_of_each_exponential(x, temperature):
    if temperature <= 0.0:
        raise ValueError
    coldness = 1.0 / temperature
    powers = np.exp(coldness * (x - np.max(x, axis=-1)[..., None]))
    return powers / np.einsum("...j->...", powers)[..., None]


# softmax_jacobian ------------------------------------------------------------------------------------------------


def jacobian_entry_by_entry(x):
    if len(np.shape(x)) != 1:
        raise ValueError("one row of scores, please")
    powers = [math.exp(score - max(x)) for score in x]
    p = [power / sum(powers) for power in powers]
    n = len(p)
    return np.array([[p[i] * ((1.0 if i == j else 0.0) - p[j]) for j in range(n)] for i in range(n)])


def jacobian_from_a_column(x):
    (n,) = np.shape(x)  # a ValueError for anything but one dimension
    p = np.exp(x - np.max(x))
    p = (p / p.sum()).reshape(n, 1)
    return p * (np.eye(n) - p.T)


# soft_lookup -----------------------------------------------------------------------------------------------------


def lookup_in_a_loop(query, keys, values):
    if np.ndim(query) != 1 or np.ndim(keys) != 2 or np.ndim(values) != 2:
        raise ValueError("one query, a table of keys, a table of values")
    if len(keys) != len(values) or any(len(key) != len(query) for key in keys):
        raise ValueError("sizes differ")
    scores = [sum(float(a) * float(b) for a, b in zip(query, key)) for key in keys]
    powers = [math.exp(score - max(scores)) for score in scores]
    mixed = np.zeros(np.shape(values)[1])
    for power, value in zip(powers, values):
        mixed += power / sum(powers) * np.asarray(value, dtype=float)
    return mixed


def lookup_with_einsum(query, keys, values):
    query, keys, values = map(np.asarray, (query, keys, values))
    if query.ndim != 1 or keys.ndim != 2 or values.ndim != 2 or keys.shape[1] != query.shape[0]:
        raise ValueError("shapes")
    scores = np.einsum("d,nd->n", query, keys)
    powers = np.exp(scores - scores.max())
    return np.einsum("n,nv->v", powers, values) / powers.sum()  # einsum refuses unequal lengths by itself


ALTERNATIVES = {
    "softmax": [softmax_through_logarithms, softmax_row_by_row, softmax_with_the_axis_moved_last,
                softmax_by_pairwise_gaps],
    "log_softmax": [log_softmax_with_logaddexp, log_softmax_in_plain_python],
    "softmax_temperature": [temperature_after_the_shift, temperature_as_a_power_of_each_exponential],
    "softmax_jacobian": [jacobian_entry_by_entry, jacobian_from_a_column],
    "soft_lookup": [lookup_in_a_loop, lookup_with_einsum],
}
