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


def test_softmax(softmax) -> None:
    """Accept an implementation of softmax by returning, reject it by raising."""

    def expected(x, axis):
        """The definition, row by row, in floats of Python's own."""
        moved = np.moveaxis(np.asarray(x, dtype=float), axis, -1)
        rows = []
        for row in moved.reshape(-1, moved.shape[-1]):
            top = max(row)
            powers = [float(np.exp(score - top)) for score in row]
            rows.append([power / sum(powers) for power in powers])
        return np.moveaxis(np.array(rows).reshape(moved.shape), -1, axis)

    draws = np.random.default_rng(0)
    inputs = [
        (np.array([3.0, 1.0]), -1),
        (np.array([-2.0, 0.5, 0.0, 1.5]), 0),
        (np.array([7.0]), -1),
        *((draws.normal(size=(2, 3, 4)), axis) for axis in (0, 1, 2, -1, -2, -3)),
        *((draws.normal(size=(3, 3)), axis) for axis in (0, 1)),
        (draws.normal(size=(3, 1)), 0),
        (draws.uniform(-9, -8, size=(2, 3)), -1),
        (np.array([[1, 1, 2], [0, 2, 1]]), -1),
        (np.array([[1000.0, 999.0], [-1000.0, -1001.0]]), -1),
        (np.array([[1000.0, 5.0], [-1000.0, 3.0]]), 0),
        (np.array([0.0, 1000.0, 0.0, 0.0]), -1),
        (np.array([1000.0, -1000.0]), -1),
        (np.array([-1000.0, -1002.0]), -1),
    ]
    for x, axis in inputs:
        before = x.copy()
        weights = softmax(x, axis=axis)
        assert isinstance(weights, np.ndarray) and weights.dtype.kind == "f", "floats are asked for"
        assert weights.shape == x.shape, "the shape of x is asked for"
        np.testing.assert_allclose(weights, expected(x, axis), rtol=1e-12, atol=1e-300)
        np.testing.assert_array_equal(x, before, err_msg="x was changed")
    x = draws.normal(size=(3, 3))
    for each in (x[0], x, draws.normal(size=(3, 3, 3))):
        np.testing.assert_allclose(softmax(each), expected(each, -1), rtol=1e-12, err_msg="the default of axis is -1")
    np.testing.assert_allclose(softmax(x, 0), expected(x, 0), rtol=1e-12)
    first, other = softmax(x), softmax(x + draws.normal(size=(3, 3)))
    assert not np.allclose(first, other), "something is kept between calls"
    np.testing.assert_allclose(softmax(x), first, rtol=1e-12)
