"""Correct answers to the masks chapter, written in other ways. All must get full marks."""


import numpy as np
import torch
import torch.nn.functional as F

from course.right_answers.masks import (
    attention_divided_at_the_end,
    attention_prefix_by_prefix,
)

# causal_mask

def causal_by_torch(n_q, n_k=None):
    n_k = n_q if n_k is None else n_k
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(diagonal=n_k - n_q).numpy()


def causal_by_turning_round(n_q, n_k=None):
    """Read from the end, both ways, the mask is an upper triangle that begins in the corner."""
    return np.triu(np.ones((n_q, n_q if n_k is None else n_k), dtype=bool))[::-1, ::-1]


# padding_mask

def padding_by_torch(lengths, max_len):
    lengths = torch.as_tensor(lengths)
    if (lengths < 0).any() or (lengths > max_len).any():
        raise ValueError("impossible lengths")
    return (torch.arange(max_len).expand(len(lengths), max_len) < lengths.unsqueeze(1)).unsqueeze(1).numpy()


def padding_by_a_table_of_all_lengths(lengths, max_len):
    lengths = np.array(lengths)
    if not np.array_equal(lengths, lengths.clip(0, max_len)):
        raise ValueError("impossible lengths")
    return np.tri(max_len + 1, max_len, -1, dtype=bool)[lengths][:, None]


# sliding_window_mask

def window_between_two_triangles(n, window):
    if window <= 0:
        raise ValueError("window")
    ones = np.ones((n, n), dtype=bool)
    return np.tril(ones) & ~np.tril(ones, -window)


def window_as_a_sum_of_diagonals(n, window):
    if window < 1:
        raise ValueError("window")
    return sum(np.eye(n, k=-step) for step in range(min(window, n))) > 0


# document_mask

def document_by_loops(document_ids):
    ids = np.array(document_ids)
    mask = np.zeros((*ids.shape, ids.shape[-1]), dtype=bool)
    for place in np.ndindex(ids.shape):
        for key in range(place[-1] + 1):
            mask[(*place, key)] = ids[(*place[:-1], key)] == ids[place]
    return mask


def document_by_differences(document_ids):
    ids = np.asarray(document_ids, dtype=np.int64)
    differences = np.subtract.outer(ids, ids) if ids.ndim == 1 else ids[..., None] - ids[..., None, :]
    return np.logical_and(differences == 0, np.tri(ids.shape[-1]))


def document_by_torch(document_ids):
    ids = torch.as_tensor(np.array(document_ids))
    return (ids.unsqueeze(-1) == ids.unsqueeze(-2)).tril().numpy()


# masked_softmax

def softmax_by_torch(scores, mask):
    scores = torch.as_tensor(scores).to(torch.float64).masked_fill(~torch.as_tensor(mask), -torch.inf)
    return torch.softmax(scores, dim=-1).nan_to_num(0.0).numpy()


def softmax_by_log_sum_exp(scores, mask):
    visible = np.where(mask, scores, -np.inf)
    log_total = np.logaddexp.reduce(visible, axis=-1, keepdims=True)
    return np.where(mask, np.exp(visible - np.where(log_total == -np.inf, 0.0, log_total)), 0.0)


def softmax_by_a_masked_array(scores, mask):
    scores, mask = np.broadcast_arrays(scores, mask)
    visible = np.ma.array(scores.astype(float), mask=~mask)
    powers = np.ma.exp(visible - visible.max(axis=-1, keepdims=True))
    return np.asarray((powers / powers.sum(axis=-1, keepdims=True)).filled(0.0))


# causal_attention

def attention_by_torch(Q, K, V):
    """The output of PyTorch's own; the weights from values that are the identity."""
    mask = torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool).tril(K.shape[-2] - Q.shape[-2])
    Q, K, V = (torch.tensor(array, dtype=torch.float64) for array in (Q, K, V))
    leading = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
    Q, K = (x.expand(*leading, *x.shape[-2:]) for x in (Q, K))
    eye = torch.eye(K.shape[-2], dtype=torch.float64).expand(*leading, -1, -1)
    weights = F.scaled_dot_product_attention(Q, K, eye, attn_mask=mask)
    return (weights @ V).numpy(), weights.numpy()


ALTERNATIVES = {
    "causal_mask": [causal_by_torch, causal_by_turning_round],
    "padding_mask": [padding_by_torch, padding_by_a_table_of_all_lengths],
    "sliding_window_mask": [window_between_two_triangles, window_as_a_sum_of_diagonals],
    "document_mask": [document_by_loops, document_by_differences, document_by_torch],
    "masked_softmax": [softmax_by_torch, softmax_by_log_sum_exp, softmax_by_a_masked_array],
    "causal_attention": [attention_prefix_by_prefix, attention_divided_at_the_end],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "causal_attention": [attention_by_torch],
}
