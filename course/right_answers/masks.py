"""Right answers of the chapter masks, for its hunt. RIGHT says by what each differs from the reference."""

import math

import numpy as np


def attention_prefix_by_prefix(Q, K, V):
    """Each query with just the keys it may read, and no mask anywhere."""
    n_q, n_k, d_k = Q.shape[-2], K.shape[-2], Q.shape[-1]
    leading = np.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
    weights = np.zeros((*leading, n_q, n_k))
    for i in range(n_q):
        seen = i + n_k - n_q + 1
        if seen > 0:
            scores = np.einsum("...d,...kd->...k", Q[..., i, :], K[..., :seen, :]) / math.sqrt(d_k)
            powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights[..., i, :seen] = powers / powers.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def attention_divided_at_the_end(Q, K, V):
    scores = Q @ np.moveaxis(K, -1, -2) / Q.shape[-1] ** 0.5
    future = np.arange(K.shape[-2]) > np.arange(Q.shape[-2])[:, None] + K.shape[-2] - Q.shape[-2]
    scores[..., future] = -np.inf
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(top), 0.0, top))
    total = powers.sum(axis=-1, keepdims=True)
    total[total == 0] = 1.0
    return powers @ V / total, powers / total


def attention_with_a_number_added(Q, K, V):
    """A mask of zeros and minus infinity is added to the scores; rows without a key are filled in at the end."""
    n_q, n_k = Q.shape[-2], K.shape[-2]
    added = np.where(np.tri(n_q, n_k, n_k - n_q, dtype=bool), 0.0, -np.inf)
    scores = np.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(Q.shape[-1]) + added
    with np.errstate(all="ignore"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = np.nan_to_num(powers / powers.sum(axis=-1, keepdims=True))
    return weights @ V, weights


def attention_multiplied_by_the_mask(Q, K, V):
    """Scores are shifted by their largest visible one, and the mask is a factor after the exponential."""
    n_q, n_k = Q.shape[-2], K.shape[-2]
    visible = np.tri(n_q, n_k, n_k - n_q)
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(float(Q.shape[-1]))
    tops = np.where(visible > 0, scores, -np.inf).max(axis=-1, keepdims=True)
    powers = np.exp(np.minimum(scores - np.where(np.isinf(tops), scores, tops), 0.0)) * visible
    weights = powers / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-300)
    return np.einsum("...qk,...kd->...qd", weights, V), weights


def attention_as_a_list(Q, K, V):
    """The pair of results is a list."""
    return list(attention_divided_at_the_end(Q, K, V))


RIGHT = {
    "gives each query the keys that it may read, and uses no mask": attention_prefix_by_prefix,
    "divides by the sum after the values are added": attention_divided_at_the_end,
    "adds minus infinity to hidden scores": attention_with_a_number_added,
    "multiplies by the mask after the exponential": attention_multiplied_by_the_mask,
    "returns its two results as a list": attention_as_a_list,
}
