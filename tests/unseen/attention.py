"""Wrong answers to the attention chapter that its list of misconceptions does not hold in these words."""

import math

import numpy as np

from solutions import attention as solutions
from tests.unseen.parts import attend, scores_of, weights_of


def masked_with(number):
    return lambda Q, K, V, mask=None: attend(
        scores_of(Q, K) if mask is None else np.where(mask, scores_of(Q, K), number), V)


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
    "project_qkv": [
        (lambda x, W_q, W_k, W_v: (x @ W_q / 2, x @ W_k, x @ W_v), None),
    ],
    "attention_weights": [
        (lambda Q, K: weights_of(scores_of(Q, K) * math.sqrt(Q.shape[-1] / K.shape[1])), "K.shape[1]"),
        (lambda Q, K: weights_of(np.clip(scores_of(Q, K), -50, 50)), None),
    ],
    "scaled_dot_product_attention": [
        *[(masked_with(number), "finite") for number in (-1e4, -1e30)],
        (masked_with(-np.inf), "gives nan"),
        (masked_with(0.0), "become 0"),
        (lambda Q, K, V, mask=None: attend(scores_of(Q, K) if mask is None else np.where(mask, -1e9, scores_of(Q, K)),
                                           V), "inverted"),
        (lambda Q, K, V, mask=None: attend(scores_of(Q, K), V), "has no effect"),
    ],
    "self_attention": [
        (projected(masked_with(-1e7)), "reads everything equally"),
        (projected(lambda Q, K, V, mask: attend(scores_of(Q, K), V)), "never passed on"),
        (lambda x, W_q, W_k, W_v, mask=None: solutions.self_attention(
            x, W_q, W_k, W_v, mask[0] if np.ndim(mask) == 3 else mask), None),
    ],
    "attention_backward": [
        (gradients(lambda A, dA: A * (dA - (A * dA).sum(axis=-1, keepdims=True))), "keep the broadcast shape"),
    ],
}
