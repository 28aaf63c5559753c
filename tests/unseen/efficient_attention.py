"""Wrong answers to the chapter on efficient attention that are not in its list of mistakes in these words."""

import math

import torch
import torch.nn.functional as F

from solutions.efficient_attention import tiled_attention
from tests.alternatives.efficient_attention import linear_as_a_recurrence
from tests.unseen.parts import changed


def rows(blocks):
    for block in blocks:
        if len(block):
            yield block.double()


def kept_in_a_list(blocks):
    kept = list(rows(blocks))
    m = max((block.max().item() for block in kept), default=-math.inf)
    return m, sum(torch.exp(block - m).sum().item() for block in kept) if m > -math.inf else 0.0


def from_a_finite_maximum(blocks):
    m, total = -1e4, 0.0
    for block in rows(blocks):
        new = max(m, block.max().item())
        total = total * math.exp(m - new) + torch.exp(block - new).sum().item()
        m = new
    return (m, total) if total else (-math.inf, 0.0)


def fused_and_nothing_else(Q, K, V, block_size, causal=False):
    return F.scaled_dot_product_attention(Q, K, V, is_causal=causal)


def a_cube_instead_of_a_square(Q, K, V, block_size, causal=False):
    n_q, n_k = Q.shape[1], K.shape[1]
    scores = (Q[:, :, None] * K[:, None]).sum(-1) / math.sqrt(Q.shape[2])
    seen = torch.ones_like(scores[0], dtype=torch.bool)
    seen = seen.tril(n_k - n_q) if causal else seen
    empty = ~seen.any(-1, keepdim=True)
    return scores.masked_fill(~seen & ~empty, -math.inf).softmax(-1).masked_fill(~seen, 0.0) @ V


def window_by_a_mask(Q, K, V, window):
    n = Q.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool, device=Q.device).tril().triu(1 - window)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)


def query_by_query(attend, reach=lambda i, window, n: (i - window + 1, i + 1)):
    """One query at a time: `attend` makes weights from its scores, (..., 1, keys), and `reach` says which keys it has."""
    def answer(Q, K, V, window):
        n, rows = Q.shape[1], []
        for i in range(n):
            first, end = reach(i, window, n)
            seen = slice(max(0, first), min(n, end))
            rows.append(attend(Q[:, i : i + 1] @ K[:, seen].mT / math.sqrt(Q.shape[2])) @ V[:, seen])
        return torch.cat(rows, dim=1)
    return answer


def over_keys(scores):
    return scores.softmax(-1)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "online_softmax": [
        (kept_in_a_list, "held at once"),
        (from_a_finite_maximum, None),
    ],
    "tiled_attention": [
        (fused_and_nothing_else, "top left"),
        (a_cube_instead_of_a_square, "a whole (n_q, n_k) matrix"),
        (changed(tiled_attention, "amax(dim=-1, ", "amax(dim=(-2, -1), "), "one maximum for all"),
    ],
    "linear_attention": [(changed(linear_as_a_recurrence, "torch.finfo(q.dtype).tiny", "1e-6"), None)],
    "sliding_window_attention": [
        (window_by_a_mask, "grow with n * n"),
        (query_by_query(lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True)), "No maximum"),
        (query_by_query(lambda scores: scores.softmax(0)), "over the batch"),
        (query_by_query(lambda scores: scores.softmax(-2)), "gets the weight 1"),
        (query_by_query(over_keys, lambda i, window, n: (i - window + 1, i + window)), "as far forward as back"),
        (query_by_query(over_keys, lambda i, window, n: (i - window // 2, i + window // 2 + 1)), "centered"),
        (query_by_query(over_keys, lambda i, window, n: (i, i + window)), "reaches forward"),
        (query_by_query(over_keys, lambda i, window, n: (i - window // 2, i + 1)), None),
    ],
}
