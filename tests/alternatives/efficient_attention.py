"""Correct answers to the chapter on efficient attention, written in other ways. All must get full marks."""

import functools
import math

import numpy as np
import torch
import torch.nn.functional as F


# online_softmax

def online_in_tensors(blocks):
    """0-d tensors all along; what is hidden is caught by replacing the level, not by asking."""
    m, total = torch.tensor(-math.inf, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    for block in map(torch.Tensor.double, blocks):
        if block.numel():
            new = torch.maximum(m, block.amax())
            level = new if new.isfinite() else torch.zeros_like(new)
            total = total * torch.exp(m - level) + torch.exp(block - level).sum()
            m = new
    return m, total


def online_number_by_number(blocks):
    """One score at a time, as in the paper."""
    m, total = -math.inf, 0.0
    for block in blocks:
        for x in block.tolist():
            if x > m:
                total, m = total * math.exp(m - x) + 1.0, x
            elif x > -math.inf:
                total += math.exp(x - m)
    return m, total


def online_by_log_sums(blocks):
    """The total is kept as a logarithm, which needs no rescaling, and measured from the maximum at the end."""
    m, log_total = np.float64(-np.inf), np.float64(-np.inf)
    for block in blocks:
        row = block.numpy().astype(np.float64)
        m = row.max(initial=m)
        log_total = np.logaddexp.reduce(row, initial=log_total)
    return m, np.exp(log_total - m) if m > -np.inf else np.float64(0.0)


# tiled_attention

def widened(attend):
    """Narrow inputs in float32, the result as narrow as Q."""
    @functools.wraps(attend)
    def wide(Q, K, V, block_size, causal=False):
        if Q.dtype.itemsize > 2:
            return attend(Q, K, V, block_size, causal)
        return attend(Q.float(), K.float(), V.float(), block_size, causal).to(Q.dtype)
    return wide


@widened
def keys_outside(Q, K, V, block_size, causal=False):
    """The outer loop goes over keys; the statistics of all queries are kept."""
    batch, n_q, d_k = Q.shape
    n_k = K.shape[1]
    m = torch.full((batch, n_q), -torch.inf, dtype=Q.dtype, device=Q.device)
    total, out = torch.zeros_like(m), Q.new_zeros(batch, n_q, V.shape[-1])
    for j, (k, v) in enumerate(zip(K.split(block_size, 1), V.split(block_size, 1))):
        scores = torch.einsum("bid,bjd->bij", Q, k) / d_k ** 0.5
        if causal:
            above = torch.ones(n_q, k.shape[1], dtype=torch.bool, device=Q.device).triu(1 + n_k - n_q - j * block_size)
            scores = torch.where(above, -torch.inf, scores)
        new = torch.maximum(m, scores.detach().max(-1).values)
        level = torch.where(torch.isinf(new), torch.zeros_like(new), new)
        p, shrink = torch.exp(scores - level[..., None]), torch.exp(m - level)
        total = shrink * total + p.sum(-1)
        out = shrink[..., None] * out + p @ v
        m = new
    return out / torch.where(total > 0, total, torch.ones_like(total))[..., None]


def query_blocks_by_fused_attention(Q, K, V, block_size, causal=False):
    """A block of queries and all keys for PyTorch's fused attention: n * block_size scores at a time."""
    n_q, n_k = Q.shape[-2], K.shape[-2]
    parts = []
    for first, q in zip(range(0, n_q, block_size), Q.split(block_size, dim=-2)):
        seen = torch.ones(q.shape[-2], n_k, dtype=torch.bool, device=Q.device).tril(first + n_k - n_q)
        parts.append(F.scaled_dot_product_attention(q, K, V, attn_mask=seen if causal else None))
    return torch.cat(parts, dim=-2)


@widened
def one_query_at_a_time(Q, K, V, block_size, causal=False):
    """With values and a column of ones side by side, total and output are one thing to rescale."""
    n_q, n_k = Q.shape[1], K.shape[1]
    ones = torch.cat([V, V.new_ones(*V.shape[:2], 1)], dim=2)
    rows = []
    for i in range(n_q):
        seen = max(0, i + 1 + n_k - n_q) if causal else n_k
        m, both = None, Q.new_zeros(len(Q), 1, V.shape[2] + 1)
        for start in range(0, seen, block_size):
            end = min(start + block_size, seen)
            scores = Q[:, i:i + 1] @ K[:, start:end].mT * Q.shape[2] ** -0.5
            top = scores.detach().amax(2, keepdim=True)
            new = top if m is None else torch.maximum(m, top)
            both = (0 if m is None else both * (m - new).exp()) + (scores - new).exp() @ ones[:, start:end]
            m = new
        rows.append(both[..., :-1] / (both[..., -1:] if seen else 1))
    return torch.cat(rows, dim=1)


# sliding_window_attention

def padded_and_unfolded(Q, K, V, window):
    """All windows as views of keys that were padded in front; what lies before the text is hidden."""
    n, d = Q.shape[-2:]
    k, v = (F.pad(x, (0, 0, window - 1, 0)).unfold(-2, window, 1) for x in (K, V))  # (..., n, d, window)
    scores = (Q.unsqueeze(-2) @ k).squeeze(-2) / d ** 0.5
    real = torch.arange(n, device=Q.device)[:, None] + torch.arange(window, device=Q.device) >= window - 1
    weights = torch.where(real, scores, -math.inf).softmax(dim=-1)
    return (v @ weights.unsqueeze(-1)).squeeze(-1)


def diagonal_by_diagonal(Q, K, V, window):
    """One step back after the other: the scores at a distance are a row-wise product with shifted keys."""
    n = Q.shape[1]
    diagonals = []
    for back in range(min(window, n)):
        products = (Q[:, back:] * K[:, :n - back]).sum(-1) / math.sqrt(Q.shape[2])
        diagonals.append(F.pad(products, (back, 0), value=-math.inf))
    weights = torch.stack(diagonals, dim=-1).softmax(dim=-1)
    out = V.new_zeros(*Q.shape[:2], V.shape[2])
    for back in range(min(window, n)):
        out = out + F.pad(weights[:, back:, back, None] * V[:, :n - back], (0, 0, back, 0))
    return out


def pieces_and_the_piece_before(Q, K, V, window, size=None):
    """Pieces of `window` tokens; each reads itself and the piece before."""
    n, parts, size = Q.shape[1], [], size or window
    for start in range(0, n, size):
        low, end = max(0, start - window), min(n, start + size)
        i, j = torch.arange(start, end, device=Q.device)[:, None], torch.arange(low, end, device=Q.device)
        scores = Q[:, start:end] @ K[:, low:end].mT * Q.shape[2] ** -0.5
        mask = (j <= i) & (j > i - window)
        parts.append(scores.where(mask, -torch.inf).softmax(-1) @ V[:, low:end])
    return torch.cat(parts, dim=1)


def groups_of_128(Q, K, V, window):
    return pieces_and_the_piece_before(Q, K, V, window, 128)


# linear_attention

def linear_with_a_column_of_ones(Q, K, V, feature_map):
    """The total is the result for values of 1."""
    ones = torch.cat([V, torch.ones_like(V[..., :1])], dim=-1)
    both = feature_map(Q) @ (feature_map(K).transpose(-2, -1) @ ones)
    total = both[..., -1:]
    return both[..., :-1] / torch.where(total == 0, torch.ones_like(total), total)


def linear_as_a_recurrence(Q, K, V, feature_map):
    """A state that reads key after key, and answers all queries at the end."""
    state = total = 0
    for j in range(K.shape[1]):
        f = feature_map(K[:, j:j + 1])
        state, total = state + f.mT * V[:, j:j + 1], total + f
    q = feature_map(Q)
    return (q @ state) / (q * total).sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny)


ALTERNATIVES = {
    "online_softmax": [online_in_tensors, online_number_by_number, online_by_log_sums],
    "tiled_attention": [keys_outside, one_query_at_a_time],
    "sliding_window_attention": [padded_and_unfolded, diagonal_by_diagonal, pieces_and_the_piece_before, groups_of_128],
    "linear_attention": [linear_with_a_column_of_ones, linear_as_a_recurrence],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "tiled_attention": [query_blocks_by_fused_attention],
}
