"""Wrong answers to the masks chapter that its list of misconceptions does not hold in these words."""

import math

import numpy as np

from tests.unseen.parts import attend, scores_of, weights_of


def own_error(kind):
    raise kind("my own words")

# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "causal_mask": [
        (lambda n_q, n_k=None: np.tril(np.ones((n_q, n_k or n_q))) == 1, "top left"),
        (lambda n_q, n_k=None: np.triu(np.ones((n_q, n_q)), 1) == 0, "n_k is ignored"),
        (lambda n_q, n_k=None: np.tril(np.ones((n_q, n_k or n_q), dtype=int), (n_k or n_q) - n_q), "numbers 0 and 1"),
        (lambda n_q, n_k=None: np.triu(np.full((n_q, n_k or n_q), -1e9), 1 + (n_k or n_q) - n_q), None),
    ],
    "padding_mask": [
        (lambda lengths, max_len: np.arange(max_len)[None] < np.reshape(lengths, (-1, 1)), "axis for the queries"),
        (lambda lengths, max_len: np.arange(max_len) < np.clip(lengths, 0, max_len)[:, None, None], "without a word"),
        (lambda lengths, max_len: (np.arange(max_len) < np.reshape(lengths, (-1, 1, 1))) if max(lengths) <= max_len
         else own_error(ValueError), "Negative lengths pass"),
    ],
    "sliding_window_mask": [
        (lambda n, window: np.tril(np.ones((n, n), bool)) & ~np.tril(np.ones((n, n), bool), -window - 1),
         "does not count the token itself"),
        (lambda n, window: np.triu(np.tril(np.ones((n, n), bool)), 1 - window), "A window below 1 passes"),
    ],
    "masked_softmax": [
        *[(lambda scores, mask, number=number: weights_of(np.where(mask, scores, number)), "finite")
          for number in (-1e4, -1e6, -1e12)],
        (lambda scores, mask: weights_of(np.where(mask, scores, -math.inf)), "gives nan"),
        (lambda scores, mask: np.nan_to_num(weights_of(np.where(mask, scores, -math.inf)),
                                            nan=1 / scores.shape[-1]), "reads all keys equally"),
        (lambda scores, mask: weights_of(scores) * mask / np.maximum((weights_of(scores) * mask).sum(-1, keepdims=True),
                                                                     1e-300), "One difference to masking first"),
    ],
    "causal_attention": [
        (lambda Q, K, V: attend(scores_of(Q, K), V), "reads the future too"),
        (lambda Q, K, V: attend(np.where(np.tril(np.ones((Q.shape[-2], K.shape[-2]))), scores_of(Q, K), -np.inf), V),
         "top left"),
        (lambda Q, K, V: attend(np.where(np.tril(np.ones((Q.shape[-2], K.shape[-2])), K.shape[-2] - Q.shape[-2]),
                                         scores_of(Q, K), -1e7), V), "big finite number"),
    ],
    "next_token_loss": [
        (lambda logits, tokens: -np.log(weights_of(logits[:, :-1])[
            np.arange(len(tokens))[:, None], np.arange(tokens.shape[1] - 1), tokens[:, 1:]]).mean(), "Ids are not checked"),
        (lambda logits, tokens: np.square(weights_of(logits[:, :-1]) - np.eye(logits.shape[-1])[tokens[:, 1:]]).mean(),
         None),
    ],
}
