"""What wrong answers are made of. What raises stands in each chapter's own file, as in a student's."""

import math

import numpy as np


def weights_of(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def scores_of(Q, K):
    return np.einsum("...id,...jd->...ij", Q, K) / math.sqrt(Q.shape[-1])


def attend(scores, V):
    return weights_of(scores) @ V, weights_of(scores)
