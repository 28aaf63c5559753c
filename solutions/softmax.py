"""Reference answers of the softmax chapter."""

import numpy as np


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Turn scores into positive weights that sum to one along `axis`.

    x: (...) scores of any magnitude, whole numbers too; not changed
    axis: weights sum to one along it; negative counts from the end
    returns: (...) weights, float, same shape as x
    """
    scores = np.asarray(x, dtype=float)
    # With -inf as the initial maximum, an empty axis gives an empty result.
    top = scores.max(axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - top)
    return powers / powers.sum(axis=axis, keepdims=True)


def log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Natural logarithm of softmax, also where a weight rounds to 0.

    x: (...) scores of any magnitude, whole numbers too; not changed
    axis: weights sum to one along it; negative counts from the end
    returns: (...) log weights, float, none above zero, same shape as x
    """
    scores = np.asarray(x, dtype=float)
    gaps = scores - scores.max(axis=axis, keepdims=True, initial=-np.inf)
    return gaps - np.log(np.exp(gaps).sum(axis=axis, keepdims=True))


def softmax_temperature(x: np.ndarray, temperature: float) -> np.ndarray:
    """Softmax along the last axis, sharper or flatter by temperature.

    x: (..., n) scores of any magnitude, whole numbers too; not changed
    temperature: a number above zero; below 1 sharper, above 1 flatter
    returns: (..., n) weights that sum to one along the last axis
    raises: ValueError if temperature is zero or negative
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be above zero, got {temperature}")
    return softmax(np.asarray(x, dtype=float) / temperature)


def softmax_jacobian(x: np.ndarray) -> np.ndarray:
    """All derivatives of softmax: entry (i, j) is d p_i / d score_j.

    x: (n,) scores of any magnitude, whole numbers too; not changed
    returns: (n, n) exact derivatives; rows and columns sum to zero
    raises: ValueError if x does not have exactly one dimension
    """
    if np.ndim(x) != 1:
        raise ValueError(f"x must have one dimension, got {np.ndim(x)}")
    weights = softmax(x)
    return np.diag(weights) - np.outer(weights, weights)


def soft_lookup(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Look one query up: mix all values by how well the query matches each key.

    The weights are the softmax of the dot products, not scaled.

    query: (d_k,) what we look for
    keys: (n, d_k) one key per row
    values: (n, d_v) the value that belongs to each key
    returns: (d_v,) weighted sum of the values
    raises: ValueError if keys and values differ in number, if query and
        keys differ in width, or if any input has more or fewer axes
    """
    query, keys, values = np.asarray(query), np.asarray(keys), np.asarray(values)
    if (query.ndim, keys.ndim, values.ndim) != (1, 2, 2):
        raise ValueError(f"need (d_k,), (n, d_k) and (n, d_v), got {query.shape}, {keys.shape} and {values.shape}")
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys, but {len(values)} values")
    if keys.shape[1] != len(query):
        raise ValueError(f"the query has width {len(query)}, but the keys have width {keys.shape[1]}")
    return softmax(keys @ query) @ values
