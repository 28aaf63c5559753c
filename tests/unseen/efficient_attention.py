"""Wrong answers to the last chapter that its list of misconceptions does not hold in these words."""

import math

import torch
import torch.nn.functional as F


def own_error(kind):
    raise kind("my own words")


def rows(blocks):
    for block in blocks:
        if block.ndim != 1:
            own_error(ValueError)
        if len(block):
            yield block.double()


def in_half_precision(blocks):
    m, total = -math.inf, 0.0
    for block in rows(blocks):
        new = max(m, block.max().item())
        if new > -math.inf:
            total = total * math.exp(m - new) + torch.exp(block - new).half().sum().item()
            m = new
    return m, total


def kept_in_a_list(blocks):
    kept = list(rows(blocks))
    m = max((block.max().item() for block in kept), default=-math.inf)
    return m, sum(torch.exp(block - m).sum().item() for block in kept) if m > -math.inf else 0.0


def fit(Q, K, V, size=1):
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2] or size < 1:
        own_error(ValueError)


def fused_and_nothing_else(Q, K, V, block_size, causal=False):
    fit(Q, K, V, block_size)
    return F.scaled_dot_product_attention(Q, K, V, is_causal=causal)


def a_cube_instead_of_a_square(Q, K, V, block_size, causal=False):
    fit(Q, K, V, block_size)
    n_q, n_k = Q.shape[1], K.shape[1]
    scores = (Q[:, :, None] * K[:, None]).sum(-1) / math.sqrt(Q.shape[2])
    seen = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q) if causal else torch.ones(n_q, n_k, dtype=torch.bool)
    empty = ~seen.any(-1, keepdim=True)
    return scores.masked_fill(~seen & ~empty, -math.inf).softmax(-1).masked_fill(~seen, 0.0) @ V


def rescaled_only_from_the_third_block_on(Q, K, V, block_size, causal=False):
    """Works with two blocks of rising scores by luck of nobody."""
    fit(Q, K, V, block_size)
    m = total = out = None
    for j, start in enumerate(range(0, K.shape[1], block_size)):
        scores = Q @ K[:, start:start + block_size].mT / math.sqrt(Q.shape[2])
        new = scores.amax(-1, keepdim=True) if m is None else torch.maximum(m, scores.amax(-1, keepdim=True))
        p = (scores - new).exp()
        shrink = 1.0 if j < 2 else (m - new).exp()
        total = p.sum(-1, keepdim=True) + (0 if total is None else total * shrink)
        out = p @ V[:, start:start + block_size] + (0 if out is None else out * shrink)
        m = new
    return out / total


def rolled_keys(Q, K, V, window):
    """Shifted with torch.roll: the first tokens read the end of the text."""
    fit(Q, K, V, window)
    if Q.shape[1] != K.shape[1]:
        own_error(ValueError)
    scores = torch.stack([(Q * K.roll(back, 1)).sum(-1) for back in range(window)], -1) / math.sqrt(Q.shape[2])
    weights = scores.softmax(-1)
    return sum(weights[..., back, None] * V.roll(back, 1) for back in range(window))


def window_by_a_mask(Q, K, V, window):
    fit(Q, K, V, window)
    if Q.shape[1] != K.shape[1]:
        own_error(ValueError)
    n = Q.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril().triu(1 - window)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)


def total_of_absolute_weights(Q, K, V, feature_map):
    fit(Q, K, V)
    q, k = feature_map(Q), feature_map(K)
    return q @ (k.mT @ V) / (q.abs().sum(-1, keepdim=True) * k.abs().sum((1, 2))[:, None, None])


# name -> pairs of an answer and words of the misconception it should be told, or None where none is right
UNSEEN = {
    "online_softmax": [(in_half_precision, None), (kept_in_a_list, "everything is held at once")],
    "tiled_attention": [(fused_and_nothing_else, "top left"), (a_cube_instead_of_a_square, "a whole (n_q, n_k) matrix"),
                        (rescaled_only_from_the_third_block_on, "rescaled when the maximum grows")],
    "sliding_window_attention": [(rolled_keys, None), (window_by_a_mask, "all n x n scores are computed")],
    "linear_attention": [(total_of_absolute_weights, None)],
}
