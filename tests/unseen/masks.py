"""Wrong answers to the masks chapter that its list of misconceptions does not hold in these words."""

import numpy as np

from tests.unseen.parts import attend, scores_of, weights_of


def own_error(kind):
    raise kind("my own words")


def length_of_the_first_checked(lengths, max_len):
    if not 0 <= lengths[0] <= max_len:
        own_error(ValueError)
    return np.arange(max_len) < np.reshape(lengths, (-1, 1, 1))


def real_positions_by_index(lengths, max_len):
    return np.tri(max_len + 1, max_len, -1, dtype=bool)[np.asarray(lengths)][:, None]


def one_window_at_least(n, window):
    return np.tril(np.triu(np.ones((n, n), dtype=bool), 1 - max(window, 1)))


def all_zeros_if_any_row_is_empty(scores, mask):
    weights = weights_of(np.where(mask, scores, -np.inf))
    return np.zeros_like(weights) if np.isnan(weights).any() else weights


def shifts_the_callers_scores(scores, mask):
    if scores.dtype.kind == "f":
        scores -= scores.max(axis=-1, keepdims=True)
    visible = np.where(mask, scores, -np.inf)
    top = np.nan_to_num(visible.max(axis=-1, keepdims=True), neginf=0)
    powers = np.exp(visible - top)
    return powers / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-300)


def before(Q, K):
    return np.tri(Q.shape[-2], K.shape[-2], K.shape[-2] - Q.shape[-2], dtype=bool)


def careful(scores):
    return np.nan_to_num(weights_of(scores), nan=0.0)


def attention_filled(number, then_zero=False):
    def answer(Q, K, V):
        weights = weights_of(np.where(before(Q, K), scores_of(Q, K), number))
        weights = weights * before(Q, K) if then_zero else weights
        return weights @ V, weights
    return answer


def attention_into_an_array_like_the_values(Q, K, V):
    weights = careful(np.where(before(Q, K), scores_of(Q, K), -np.inf))
    output = np.zeros((weights @ V).shape, dtype=V.dtype)
    output[...] = weights @ V
    return output, weights


def attention_masked_in_squares_only(Q, K, V):
    scores = scores_of(Q, K)
    if Q.shape[-2] == K.shape[-2]:
        scores = np.where(before(Q, K), scores, -np.inf)
    return careful(scores) @ V, careful(scores)


def logs_of(logits):
    gaps = logits - logits.max(-1, keepdims=True)
    return gaps - np.log(np.exp(gaps).sum(-1, keepdims=True))


def right_sizes_and_ids(logits, tokens):
    if logits.shape[:2] != tokens.shape or tokens.shape[1] < 2:
        own_error(ValueError)
    if tokens.min() < 0 or tokens.max() >= logits.shape[2]:
        own_error(ValueError)


def loss_of_kept_probabilities(logits, tokens):
    right_sizes_and_ids(logits, tokens)
    probabilities = np.clip(weights_of(logits[:, :-1]), 1e-15, 1.0)
    return -np.log(np.take_along_axis(probabilities, tokens[:, 1:, None], -1)).mean()


def loss_of_what_zip_leaves(logits, tokens):
    if tokens.min() < 0 or tokens.max() >= logits.shape[2] or tokens.shape[1] < 2:
        own_error(ValueError)
    return np.mean([-logs_of(row)[target] for guesses, ids in zip(logits, tokens)
                    for row, target in zip(guesses[:-1], ids[1:])])


def loss_with_room_for_one_id_more(logits, tokens):
    if logits.shape[:2] != tokens.shape or tokens.shape[1] < 2 or tokens.min() < 0 or tokens.max() > logits.shape[2]:
        own_error(ValueError)
    return -np.take_along_axis(logs_of(logits[:, :-1]), tokens[:, 1:, None], -1).mean()


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "causal_mask": [
        (lambda n_q, n_k=None: np.tri(n_q, n_q if n_k is None else n_k, 0 if n_k is None else n_k - n_q, dtype=int),
         "numbers 0 and 1"),
        (lambda n_q, n_k=None: np.tri(n_q, n_k or n_q, abs((n_k or n_q) - n_q), dtype=bool), None),
    ],
    "padding_mask": [
        (lambda lengths, max_len: np.arange(max_len)[None] < np.reshape(lengths, (-1, 1)), "axis for the queries"),
        (length_of_the_first_checked, None),
        (real_positions_by_index, None),
    ],
    "sliding_window_mask": [
        (lambda n, window: np.tril(np.ones((n, n), bool)) & ~np.tril(np.ones((n, n), bool), -window - 1),
         "does not count the token itself"),
        (one_window_at_least, None),
    ],
    "masked_softmax": [
        (all_zeros_if_any_row_is_empty, None),
        (shifts_the_callers_scores, "written into"),
    ],
    "causal_attention": [
        (lambda Q, K, V: attend(scores_of(Q, K), V), "reads the future too"),
        (lambda Q, K, V: attend(np.where(np.tril(np.ones((Q.shape[-2], K.shape[-2]))), scores_of(Q, K), -np.inf), V),
         "top left"),
        (lambda Q, K, V: attend(np.where(np.tril(np.ones((Q.shape[-2], K.shape[-2])), K.shape[-2] - Q.shape[-2]),
                                         scores_of(Q, K), -1e7), V), "big finite number"),
        (attention_filled(-1e4), "not even low"),
        (attention_filled(-1e25), "big finite number"),
        (attention_filled(-np.finfo(float).max), "reads all keys equally"),
        (attention_filled(-1e20, then_zero=True), "set to 0 afterward"),
        (attention_into_an_array_like_the_values, "lose every fraction"),
        (attention_masked_in_squares_only, None),
    ],
    "next_token_loss": [
        (lambda logits, tokens: -np.log(weights_of(logits[:, :-1])[
            np.arange(len(tokens))[:, None], np.arange(tokens.shape[1] - 1), tokens[:, 1:]]).mean(), None),
        (loss_of_kept_probabilities, "keeps the logarithm away from 0"),
        (loss_of_what_zip_leaves, None),
        (loss_with_room_for_one_id_more, None),
    ],
}
