"""Wrong answers to the softmax chapter that its list of misconceptions does not hold in these words."""

import numpy as np

from tests.unseen.parts import weights_of


def own_error(kind):
    raise kind("my own words")


def refuse_unless(fits):
    if not fits:
        own_error(ValueError)


def float_in_place(x, axis=-1):
    x = np.asarray(x, dtype=float)
    x -= np.amax(x, axis=axis, keepdims=True)
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def cached(x, axis=-1, seen={}):  # noqa: B006 (the mistake under test)
    return seen.setdefault(x.shape, weights_of(x, axis))


def mean_shift_of_one_row_only(x, axis=-1):
    return weights_of(x, axis) if x.ndim > 1 else np.exp(x) / np.exp(x).sum()


def refusing(kind):
    return lambda x, temperature: weights_of(x / temperature) if temperature > 0 else own_error(kind)


def central_differences(x):
    refuse_unless(x.ndim == 1)
    steps = 1e-5 * np.eye(len(x))
    return np.stack([(weights_of(x + s) - weights_of(x - s)) / 2e-5 for s in steps], axis=1)


def lookup(mix):
    def soft_lookup(query, keys, values):
        refuse_unless((query.ndim, keys.ndim, values.ndim) == (1, 2, 2) and len(keys) == len(values))
        return mix(keys @ query, values)
    return soft_lookup


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "softmax": [
        (lambda x, axis=-1: np.exp(x) / np.exp(x).sum(axis=axis), "keepdims=True is missing from the sum, and no max"),
        (lambda x, axis=-1: np.exp(x) / sum(np.exp(x)), "Python's own `sum`"),
        (lambda x, axis=-1: np.exp(x) / (1e-6 + np.exp(x).sum(axis=axis, keepdims=True)), "stands in for"),
        (lambda x, axis=-1: weights_of(x, axis) / (1 + 1e-7 / np.exp(x - x.max(axis, keepdims=True)).sum(
            axis, keepdims=True)), "Something small is added"),
        (lambda x, axis=0: weights_of(x, axis), "default of `axis`"),
        (lambda x, axis=-1: weights_of(np.clip(x, -700, 700), axis), "clipped"),
        (lambda x, axis=-1: weights_of(x - x.max(), axis) if x.max() > 709 else np.exp(x) / np.exp(x).sum(
            axis, keepdims=True), "only where scores are large"),
        (lambda x, axis=-1: np.round(weights_of(x, axis), 6), None),
        (lambda x, axis=-1: weights_of(np.float32(x), axis), None),
        (lambda x, axis=-1: weights_of(x, axis or -1), None),
        (float_in_place, "changed in place"), (cached, None), (mean_shift_of_one_row_only, None),
    ],
    "log_softmax": [
        (lambda x, axis=-1: np.log(weights_of(x, axis) + 1e-16), "keeps the logarithm away from 0"),
        (lambda x, axis=-1: np.log(np.maximum(1e-9, weights_of(x, axis))), "keeps the logarithm away from 0"),
        (lambda x, axis=-1: np.nan_to_num(np.log(weights_of(x, axis)), neginf=-1e9), None),
    ],
    "softmax_temperature": [
        (refusing(AssertionError), "`assert` raises"), (refusing(TypeError), None),
        (lambda x, temperature: weights_of(x / (1e-7 + temperature)), "added to the temperature"),
        (lambda x, temperature: weights_of(x / temperature) if temperature > 0.01 else own_error(ValueError), None),
    ],
    "softmax_jacobian": [
        (central_differences, None),
        (lambda x: np.diag(weights_of(x)) - np.outer(weights_of(x), weights_of(x)), "number of dimensions"),
    ],
    "soft_lookup": [
        (lookup(lambda s, values: np.exp(s) / np.exp(s).sum() @ values), "subtracts no maximum"),
        (lookup(lambda s, values: np.exp(s - s.max()) @ values / (np.exp(s - s.max()).sum() + 1e-9)),
         "Something small"),
        (lookup(lambda s, values: values[s.argmax()]), "best match"),
    ],
}
