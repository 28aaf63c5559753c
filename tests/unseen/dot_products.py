"""Wrong answers to the dot products chapter that its list of misconceptions does not hold in these words."""

import functools

import numpy as np

from tests.alternatives.dot_products import cosine_with_norms, dot_by_index
from tests.unseen.parts import changed, weights_of

LENGTHS = "np.linalg.norm(a) * np.linalg.norm(b)"


def own_error(kind):
    raise kind("my own words")

cosine = functools.partial(changed, cosine_with_norms)


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
        (changed(dot_by_index, 'raise ValueError("lengths differ")', "pass", "len(a))", "min(len(a), len(b)))"),
         "entries without a partner"),
        (lambda a, b: np.dot(a, b) if len(a) else own_error(ValueError), "Empty vectors are refused"),
        (lambda a, b: np.dot(np.float32(a), np.float32(b)), None),
    ],
    "cosine_similarity": [
        (cosine("return 0.0", 'raise ValueError("my own words")'), "refused with an error"),
        (cosine(LENGTHS, f"{LENGTHS} + 1e-6"), "pulls every other cosine"),
        (cosine(LENGTHS, "(np.linalg.norm(a) + 1e-9) * (np.linalg.norm(b) + 1e-9)"), "pulls every other cosine"),
        (cosine(LENGTHS, "max(np.linalg.norm(a), 1e-12) * max(np.linalg.norm(b), 1e-12)"), "as if they were zero"),
        (cosine("return 0.0", "return math.nan"), "0/0"),
    ],
    "matmul": [(loop_without_checks, "Nothing is checked")],
    "pairwise_scores": [
        (lambda Q, K: np.einsum("...qd,...kd->...kq", Q, K), "Rows and columns are exchanged"),
        (lambda Q, K: weights_of(Q @ np.swapaxes(K, -1, -2)), "a softmax"),
        (lambda Q, K: Q @ K.transpose(0, 2, 1) if K.ndim == 3 else Q @ K.T, None),
    ],
    "score_variance": [(seeds_the_global_state, None)],
}
