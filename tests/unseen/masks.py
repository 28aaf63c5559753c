"""Wrong answers to the masks chapter that its list of misconceptions does not hold in these words."""

import functools

import numpy as np

from tests.alternatives.masks import (
    attention_divided_at_the_end,
    causal_by_torch,
    document_by_differences,
    document_by_loops,
    document_by_torch,
    padding_by_a_table_of_all_lengths,
    padding_by_torch,
    softmax_by_a_masked_array,
    softmax_by_log_sum_exp,
    softmax_by_torch,
    window_as_a_sum_of_diagonals,
    window_between_two_triangles,
)
from tests.unseen.parts import attend, changed, scores_of

RESULT = "powers @ V / total, powers / total"
attention = functools.partial(changed, attention_divided_at_the_end)


def filled(number, *texts):
    return attention("= -np.inf", f"= {number}", *texts)

# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "causal_mask": [
        (changed(causal_by_torch, "torch.bool", "torch.int64"), "numbers 0 and 1"),
        (changed(causal_by_torch, "n_k - n_q", "abs(n_k - n_q)"), None),
    ],
    "padding_mask": [
        (lambda lengths, max_len: np.arange(max_len)[None] < np.reshape(lengths, (-1, 1)), "axis for the queries"),
        (changed(padding_by_torch, "(lengths < 0).any() or (lengths > max_len).any()",
         "not 0 <= lengths[0] <= max_len"),
         None),
        (lambda lengths, max_len: padding_by_torch(np.asarray(lengths).astype(np.uint8), max_len), None),
        (changed(padding_by_a_table_of_all_lengths, 'raise ValueError("impossible lengths")', "pass"), None),
        (lambda lengths, max_len: padding_by_torch(lengths, max_len)[..., :max(lengths)], "as wide as the longest"),
    ],
    "sliding_window_mask": [
        (changed(window_between_two_triangles, "-window)", "-window - 1)"), "does not count the token itself"),
        (changed(window_as_a_sum_of_diagonals, 'raise ValueError("window")', "window = 1"), None),
    ],
    "document_mask": [
        (changed(document_by_differences, "== 0", ">= 0"), "compared with >="),
        (changed(document_by_loops, "range(place[-1] + 1)", "range(place[-1])"), "diagonal is missing"),
        (changed(document_by_torch, ".tril()", ""), "future is visible"),
        (changed(document_by_differences, "np.asarray(document_ids, dtype=np.int64)",
                 "(lambda ids: np.arange(ids.max() + 1)[ids])(np.asarray(document_ids))"), "counts from the end"),
        (changed(document_by_loops, "np.array(document_ids)", "np.array(document_ids, dtype=bool)"), None),
    ],
    "masked_softmax": [
        (changed(softmax_by_a_masked_array, "scores, mask = np", "if scores.dtype.kind == 'f':\n        "
                 "scores -= scores.max(axis=-1, keepdims=True)\n    scores, mask = np"), "subtracted before the mask"),
        (changed(softmax_by_torch, "return torch.softmax(scores, dim=-1)", "weights = torch.softmax(scores, dim=-1)\n"
                 "    return (weights * ~weights.isnan().any())"), None),
        (changed(softmax_by_log_sum_exp, "return np.where", "top = np.maximum(visible.max(axis=-1, keepdims=True), 0)\n"
                 "    total = np.exp(visible - top).sum(axis=-1, keepdims=True)\n"
                 "    return np.exp(visible - top) / np.where(total == 0, 1, total)\n    return np.where"), "never below 0"),
        (lambda scores, mask: softmax_by_torch(scores, mask).astype(scores.dtype), "lose every fraction"),
    ],
    "causal_attention": [
        (lambda Q, K, V: attend(scores_of(Q, K), V), "reads the future too"),
        (attention(" + K.shape[-2] - Q.shape[-2]", ""), "top left"),
        *((filled(number), "big finite number") for number in (-1e7, -1e25)),
        (filled(-1e4), "not even low"),
        (filled("-np.finfo(float).max"), "reads all keys equally"),
        (filled(-1e20, RESULT, "powers / total * ~future @ V, powers / total * ~future"), "set to 0 afterward"),
        (attention("return powers @ V / total", "return (powers @ V / total).astype(V.dtype)"), "lose every fraction"),
        (attention("np.where(np.isinf(top), 0.0, top)", "np.maximum(top, 0)"), "never below 0"),
        (attention("scores[..., future] =", "scores[..., future & (len(future) == len(future.T))] ="), None),
    ],
}
