"""Right answers of the chapter softmax, for its hunt. RIGHT says by what each differs from the reference."""

import math

import numpy as np


def softmax_through_logarithms(x, axis=-1):
    gaps = x - np.max(x, axis=axis, keepdims=True)
    return np.exp(gaps - np.log(np.sum(np.exp(gaps), axis=axis, keepdims=True)))


def softmax_by_pairwise_gaps(x, axis=-1):
    """1 / sum_j exp(s_j - s_i): nothing is subtracted by hand, and an overflow lands on the right limit, zero."""
    rows = np.moveaxis(np.asarray(x, dtype=float), axis, -1)
    with np.errstate(over="ignore"):
        weights = 1.0 / np.exp(rows[..., None, :] - rows[..., :, None]).sum(axis=-1)
    return np.moveaxis(weights, -1, axis)


def softmax_in_extended_precision(x, axis=-1):
    powers = np.exp(np.subtract(x, np.amax(x, axis=axis, keepdims=True), dtype=np.longdouble))
    return (powers / powers.sum(axis=axis, keepdims=True)).astype(float)


def softmax_in_place_on_a_copy(x, axis=-1):
    weights = np.array(x, dtype=np.float64)
    if weights.size:
        weights -= weights.max(axis, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis, keepdims=True)
    return weights


def softmax_row_by_row(x, axis=-1):
    def one(row):
        top = max(row.tolist())
        powers = [math.exp(score - top) for score in row.tolist()]
        total = math.fsum(powers)
        return np.array([power / total for power in powers])

    return np.apply_along_axis(one, axis, np.asarray(x, dtype=float))


def softmax_in_the_dtype_of_x(x, axis=-1):
    x = np.asarray(x)
    gaps = x - x.max(axis=axis, keepdims=True) if x.dtype.kind == "f" else x.astype(float) - x.max(axis, keepdims=True)
    powers = np.exp(gaps)
    return powers / powers.sum(axis=axis, keepdims=True)


RIGHT = {
    "goes through logarithms": softmax_through_logarithms,
    "divides one by a sum over all gaps": softmax_by_pairwise_gaps,
    "computes in extended precision": softmax_in_extended_precision,
    "works in place on a copy": softmax_in_place_on_a_copy,
    "goes through the rows in Python, and adds with `math.fsum`": softmax_row_by_row,
    "returns float32 for float32": softmax_in_the_dtype_of_x,
}
