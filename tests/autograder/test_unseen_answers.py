"""Answers that no list of the course holds: each loses points, and is either named rightly or not named at all.

They make the mistakes of `autograder/exercises` in other words, so their numbers differ in the last digits, or mistakes
that have no name there, or two at once. A wrong name would be worse than none.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnlab.check import examine
from autograder import registry
from autograder.exercise import PUBLIC_SEED

SEEDS = (PUBLIC_SEED, 524287)
_made: dict = {}


def weights_of(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def scores_of(Q, K):
    return np.einsum("...id,...jd->...ij", Q, K) / math.sqrt(Q.shape[-1])


def attend(scores, V):
    return weights_of(scores) @ V, weights_of(scores)


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


def total_kept_between_calls(a, b, products=[]):  # noqa: B006 (the mistake under test)
    refuse_unless(len(a) == len(b))
    products.extend(x * y for x, y in zip(a, b))
    return sum(products)


def cut_to_the_shorter(a, b):
    total = 0.0
    for i in range(min(len(a), len(b))):
        total += a[i] * b[i]
    return total


def zero_refused(a, b):
    refuse_unless(a.shape == b.shape and a.any() and b.any())
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def cosine_over(lengths):
    def cosine_similarity(a, b):
        refuse_unless(a.shape == b.shape)
        return np.sum(a * b) / lengths(math.sqrt(np.sum(np.square(a))), math.sqrt(np.sum(np.square(b))))
    return cosine_similarity


def loop_without_checks(A, B):
    C = [[0.0 for _ in B[0]] for _ in A]
    for i in range(len(A)):
        for j in range(len(B[0])):
            for k in range(len(B)):
                C[i][j] += A[i][k] * B[k][j]
    return C


def seeds_the_global_state(d, n_samples, rng):
    np.random.seed(0)
    return (rng.normal(size=(n_samples, d)) * rng.normal(size=(n_samples, d))).sum(1).var()


def sampled(statistic):
    return lambda d, n_samples, rng: statistic(rng.normal(size=(n_samples, d)), rng.normal(size=(n_samples, d)))


def masked_with(number):
    return lambda Q, K, V, mask=None: attend(
        scores_of(Q, K) if mask is None else np.where(mask, scores_of(Q, K), number), V)


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


def projected(attention):
    return lambda x, W_q, W_k, W_v, mask=None: attention(x @ W_q, x @ W_k, x @ W_v, mask)


def gradients(softmax_step):
    def attention_backward(Q, K, V, d_output):
        A = weights_of(scores_of(Q, K))
        dS = softmax_step(A, d_output @ np.swapaxes(V, -1, -2)) / np.sqrt(K.shape[-1])
        return dS @ K, np.einsum("...qk,...qd->...kd", dS, Q), np.einsum("...qk,...qv->...kv", A, d_output)
    return attention_backward


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "dot": [
        (cut_to_the_shorter, "entries without a partner"),
        (lambda a, b: sum(x * y for x, y in zip(a, b)) if len(a) == len(b) else own_error(TypeError),
         "wrong exception"),
        (lambda a, b: np.dot(np.float32(a), np.float32(b)), None),
        (lambda a, b: np.dot(a, b) if len(a) else own_error(ValueError), "Empty vectors are refused"),
        (total_kept_between_calls, None),
    ],
    "cosine_similarity": [
        (zero_refused, "refused with an error"),
        (cosine_over(lambda a, b: a * b + 1e-6), "pulls every other cosine"),
        (cosine_over(lambda a, b: (a + 1e-9) * (b + 1e-9)), "pulls every other cosine"),
        (cosine_over(lambda a, b: max(a, 1e-12) * max(b, 1e-12)), "as if they were zero"),
        (cosine_over(lambda a, b: a * b if a * b else math.nan), "0/0"),
        (cosine_over(lambda a, b: np.float32(a * b) or 1.0), None),
    ],
    "matmul": [
        (loop_without_checks, "Nothing is checked"),
        (lambda A, B: [[round(x, 6) for x in row] for row in (np.array(A) @ np.array(B)).tolist()], None),
    ],
    "pairwise_scores": [
        (lambda Q, K: Q @ K.transpose(0, 2, 1) if K.ndim == 3 else Q @ K.T, None),
        (lambda Q, K: np.einsum("...qd,...kd->...kq", Q, K), "Rows and columns are exchanged"),
        (lambda Q, K: weights_of(Q @ np.swapaxes(K, -1, -2)), "a softmax was taken"),
    ],
    "score_variance": [
        (seeds_the_global_state, None),
        (sampled(lambda q, k: math.sqrt(np.einsum("nd,nd->n", q, k).var())), "standard deviation"),
        (sampled(lambda q, k: (q * k).sum(axis=1).var() / q.shape[1]), "near 1 whatever d"),
        (sampled(lambda q, k: (q * k).sum()), None),
    ],
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
    "project_qkv": [
        (lambda x, W_q, W_k, W_v: (x @ W_v, x @ W_k, x @ W_q), "values first"),
        (lambda x, W_q, W_k, W_v: (x @ W_q / 2, x @ W_k, x @ W_v), None),
    ],
    "attention_weights": [
        (lambda Q, K: weights_of(scores_of(Q, K) * math.sqrt(Q.shape[-1] / K.shape[1])), "K.shape[1]"),
        (lambda Q, K: weights_of(Q @ (K.T if K.ndim == 2 else K.transpose(0, 2, 1)) / Q.shape[-1] ** 0.5), None),
        (lambda Q, K: weights_of(np.clip(scores_of(Q, K), -50, 50)), None),
    ],
    "scaled_dot_product_attention": [
        *[(masked_with(number), "finite") for number in (-1e4, -1e6, -1e12, -1e30)],
        (masked_with(-np.inf), "gives nan"), (masked_with(0.0), "multiplied by 0"),
        (lambda Q, K, V, mask=None: attend(scores_of(Q, K) if mask is None else np.where(mask, -1e9, scores_of(Q, K)),
                                           V), "turned round"),
        (lambda Q, K, V, mask=None: attend(scores_of(Q, K), V), "never used"),
    ],
    "self_attention": [
        (projected(masked_with(-1e7)), "reads everything equally"),
        (projected(lambda Q, K, V, mask: attend(scores_of(Q, K), V)), "never passed on"),
    ],
    "attention_backward": [
        (gradients(lambda A, dA: A * (dA - (A * dA).sum(axis=-1, keepdims=True))), "keep the broadcast shape"),
        (gradients(lambda A, dA: A * (dA - dA.mean(axis=-1, keepdims=True))), None),
    ],
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name, i", [(name, i) for name, answers in UNSEEN.items() for i in range(len(answers))])
def test_an_unseen_wrong_answer_loses_points_and_is_named_rightly_or_not_at_all(name, i, seed):
    answer, words = UNSEEN[name][i]
    if (name, seed) not in _made:
        _made[name, seed] = registry.exercise(name).material(seed)
    report = examine(answer, _made[name, seed], show_cases=seed == PUBLIC_SEED)
    assert report.points < report.max_points
    named = {finding.misconception for finding in report.findings if not finding.passed and finding.misconception}
    assert bool(named) == (words is not None), named
    assert all(words in text for text in named), named


def test_every_exercise_has_one():
    assert UNSEEN.keys() == registry.all_exercises().keys()
