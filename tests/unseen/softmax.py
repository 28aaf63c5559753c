"""Wrong answers to the softmax chapter that its list of misconceptions does not hold in these words."""

import numpy as np

from tests.unseen.parts import weights_of


def own_error(kind):
    raise kind("my own words")


def central_differences(x):
    steps = 1e-5 * np.eye(len(x))
    return np.stack([(weights_of(x + s) - weights_of(x - s)) / 2e-5 for s in steps], axis=1)


def small_term_in_the_total(query, keys, values):
    powers = np.exp(keys @ query - (keys @ query).max())
    return powers @ values / (powers.sum() + 1e-9)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "softmax": [
        (lambda x, axis=-1: weights_of(x, axis) / (1 + 1e-7 / np.exp(x - x.max(axis, keepdims=True)).sum(
            axis, keepdims=True)), "is added to the denominator"),
        (lambda x, axis=-1: weights_of(np.clip(x, -700, 700), axis), "clipped"),
        (lambda x, axis=-1: weights_of(x - x.max(), axis) if x.max() > 709 else np.exp(x) / np.exp(x).sum(
            axis, keepdims=True), "only where scores are large"),
        (lambda x, axis=-1: np.round(weights_of(x, axis), 6), None),
    ],
    "log_softmax": [(lambda x, axis=-1: np.nan_to_num(np.log(weights_of(x, axis)), neginf=-1e9), None)],
    "softmax_jacobian": [(central_differences, None)],
    "softmax_temperature": [
        (lambda x, temperature: weights_of(x / temperature) if temperature > 0 else own_error(TypeError), None),
    ],
    "soft_lookup": [(small_term_in_the_total, "is added to the denominator")],
}
