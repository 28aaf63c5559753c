"""Reference answers of the softmax chapter."""

import numpy as np


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Turn scores into weights that are positive and sum to one along `axis`.

    x: (...) scores of any size and any magnitude, whole numbers too; not changed
    axis: the axis along which the weights sum to one; negative axes count from the end
    returns: (...) weights, float, same shape as x
    """
    scores = np.asarray(x, dtype=float)
    # The start value -inf is the maximum of nothing: with it an empty axis gives an empty result.
    top = scores.max(axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - top)
    return powers / powers.sum(axis=axis, keepdims=True)


def log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """The natural logarithm of softmax, finite and accurate even where the weight itself rounds to zero.

    x: (...) scores of any size and any magnitude, whole numbers too; not changed
    axis: the axis along which the weights sum to one; negative axes count from the end
    returns: (...) log weights, float, none above zero, same shape as x
    """
    scores = np.asarray(x, dtype=float)
    gaps = scores - scores.max(axis=axis, keepdims=True, initial=-np.inf)
    return gaps - np.log(np.exp(gaps).sum(axis=axis, keepdims=True))


def softmax_temperature(x: np.ndarray, temperature: float) -> np.ndarray:
    """Softmax along the last axis with a knob: below 1 the weights get sharper, above 1 flatter.

    x: (..., n) scores of any magnitude, whole numbers too; not changed
    temperature: a number above zero, in the units of the scores
    returns: (..., n) weights that sum to one along the last axis
    raises: ValueError if temperature is zero or negative
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be above zero, got {temperature}")
    return softmax(np.asarray(x, dtype=float) / temperature)


def softmax_jacobian(x: np.ndarray) -> np.ndarray:
    """All derivatives of softmax at once: entry (i, j) is d weight_i / d score_j.

    x: (n,) scores of any magnitude, whole numbers too; not changed
    returns: (n, n) exact derivatives, each row and each column sums to zero
    raises: ValueError if x does not have exactly one dimension
    """
    if np.ndim(x) != 1:
        raise ValueError(f"x must have one dimension, got {np.ndim(x)}")
    weights = softmax(x)
    return np.diag(weights) - np.outer(weights, weights)


def soft_lookup(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Look one query up in a soft dictionary: a mix of all values, weighted by softmax of query . key (not scaled).

    query: (d_k,) what we look for
    keys: (n, d_k) one key a row
    values: (n, d_v) the value that belongs to each key
    returns: (d_v,) weighted sum of the values
    raises: ValueError if keys and values differ in number, if the query and the keys differ in width,
        or if the query is not 1-D or keys or values are not 2-D
    """
    query, keys, values = np.asarray(query), np.asarray(keys), np.asarray(values)
    if (query.ndim, keys.ndim, values.ndim) != (1, 2, 2):
        raise ValueError(f"need (d_k,), (n, d_k) and (n, d_v), got {query.shape}, {keys.shape} and {values.shape}")
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys, but {len(values)} values")
    if keys.shape[1] != len(query):
        raise ValueError(f"the query has width {len(query)}, but the keys have width {keys.shape[1]}")
    return softmax(keys @ query) @ values
