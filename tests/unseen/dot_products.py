"""Wrong answers to the dot products chapter that its list of misconceptions does not hold in these words."""

import math

import numpy as np

from tests.unseen.parts import weights_of


def own_error(kind):
    raise kind("my own words")


def refuse_unless(fits):
    if not fits:
        own_error(ValueError)


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


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "dot": [
        (cut_to_the_shorter, "entries without a partner"),
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
    ],
    "matmul": [
        (loop_without_checks, "Nothing is checked"),
        (lambda A, B: [[round(x, 6) for x in row] for row in (np.array(A) @ np.array(B)).tolist()], None),
    ],
    "pairwise_scores": [
        (lambda Q, K: Q @ K.transpose(0, 2, 1) if K.ndim == 3 else Q @ K.T, None),
        (lambda Q, K: np.einsum("...qd,...kd->...kq", Q, K), "Rows and columns are exchanged"),
        (lambda Q, K: weights_of(Q @ np.swapaxes(K, -1, -2)), "a softmax"),
    ],
    "score_variance": [
        (seeds_the_global_state, None),
        (lambda d, n_samples, rng: (rng.normal(size=(n_samples, d)) * rng.normal(size=(n_samples, d))).sum(), None),
    ],
}
