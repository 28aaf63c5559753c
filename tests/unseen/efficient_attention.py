"""Wrong answers to the last chapter that its list of misconceptions does not hold in these words."""

import math

import torch
import torch.nn.functional as F


def rows(blocks):
    for block in blocks:
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


def nan_in_partly_empty_tiles(Q, K, V, block_size, causal=False):
    """Whole tiles without a query that sees are skipped; within a tile nobody looks."""
    n_q, n_k = Q.shape[1], K.shape[1]
    parts = []
    for first in range(0, n_q, block_size):
        q = Q[:, first:first + block_size].double() / math.sqrt(Q.shape[2])
        place = torch.arange(first, first + q.shape[1], device=Q.device)[:, None] + n_k - n_q
        m, total, out = q.new_full((len(q), q.shape[1], 1), -math.inf), 0, q.new_zeros(len(q), q.shape[1], V.shape[2])
        for start in range(0, n_k, block_size):
            if causal and start > place[-1]:
                break
            s = q @ K[:, start:start + block_size].double().mT
            if causal:
                s = s.masked_fill(start + torch.arange(s.shape[-1], device=Q.device) > place, -math.inf)
            new = torch.maximum(m, s.detach().amax(-1, keepdim=True))
            p, shrink = (s - new).exp(), (m - new).exp()
            total, out, m = total * shrink + p.sum(-1, keepdim=True), out * shrink + p @ V[:, start:start + block_size].double(), new
        parts.append(out if isinstance(total, int) else out / total)
    return torch.cat(parts, 1).to(Q.dtype)


def one_maximum_for_all_blocks(Q, K, V, block_size, causal=False):
    """The running maximum, total and output go on from one block of queries to the next."""
    n_q, n_k, narrow = Q.shape[1], K.shape[1], Q.dtype
    Q, K, V = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (Q, K, V))
    m, parts = Q.new_full((len(Q), 1, 1), -math.inf), []
    for first in range(0, n_q, block_size):
        q = Q[:, first:first + block_size] / math.sqrt(Q.shape[2])
        place = torch.arange(first, first + q.shape[1], device=Q.device)[:, None] + n_k - n_q
        total, out = q.new_zeros(len(q), q.shape[1], 1), q.new_zeros(len(q), q.shape[1], V.shape[2])
        for start in range(0, n_k, block_size):
            s = q @ K[:, start:start + block_size].mT
            if causal:
                s = s.masked_fill(start + torch.arange(s.shape[-1], device=Q.device) > place, -math.inf)
            new = torch.maximum(m, s.detach().amax((1, 2), keepdim=True))
            safe = new.masked_fill(new == -math.inf, 0.0)
            p, shrink = (s - safe).exp(), (m - safe).exp()
            total, out = total * shrink + p.sum(-1, keepdim=True), out * shrink + p @ V[:, start:start + block_size]
            m = new
        parts.append(out / total.masked_fill(total == 0, 1.0))
    return torch.cat(parts, 1).to(narrow)


def window_by_a_mask(Q, K, V, window):
    n = Q.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool, device=Q.device).tril().triu(1 - window)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)


def total_of_at_least_a_millionth(Q, K, V, feature_map):
    q, k = feature_map(Q), feature_map(K)
    return q @ (k.mT @ V) / (q @ k.sum(1)[..., None]).clamp(min=1e-6)


# name -> pairs of an answer and words of the misconception it should be told, or None where none is right
UNSEEN = {
    "online_softmax": [
        (in_half_precision, None),
        (kept_in_a_list, "held at once"),
        (from_a_finite_maximum, None),
    ],
    "tiled_attention": [
        (fused_and_nothing_else, "top left"),
        (a_cube_instead_of_a_square, "a whole (n_q, n_k) matrix"),
        (nan_in_partly_empty_tiles, None),
        (one_maximum_for_all_blocks, None),
    ],
    "sliding_window_attention": [
        (window_by_a_mask, "grow with n * n"),
    ],
    "linear_attention": [
        (total_of_at_least_a_millionth, None),
    ],
}
