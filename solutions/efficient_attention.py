"""Reference answers of the chapter on efficient attention: attention that never holds all scores at once, in PyTorch.

Shapes follow the course: Q (..., n_q, d_k), K (..., n_k, d_k), V (..., n_k, d_v); leading dimensions broadcast. Inputs
are never changed. Sizes that do not fit raise ValueError.
Sources: Milakov and Gimelshein, 2018 (online softmax); Dao et al., 2022 (tiles); Katharopoulos et al., 2020 (linear
attention); Beltagy et al., 2020 (sliding window).
"""

import math
from collections.abc import Callable, Iterable

import torch


def online_softmax(blocks: Iterable[torch.Tensor]) -> tuple[float, float]:
    """Largest entry of all blocks, and the sum of exp(x - largest); each block is read once and not kept.

    No entry, or only minus infinity: (-inf, 0.0).
    """
    maximum, total = -math.inf, 0.0
    for given in blocks:
        block = torch.as_tensor(given).double()
        if block.ndim != 1:
            raise ValueError(f"a block has one dimension, this one has shape {tuple(block.shape)}")
        top = max(maximum, block.max().item()) if block.numel() else maximum
        if top > -math.inf:  # until then there is nothing to rescale, and -inf - -inf would be nan
            total = total * math.exp(maximum - top) + (block - top).exp().sum().item()
            maximum = top
    return maximum, total


def tiled_attention(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int, causal: bool = False
) -> torch.Tensor:
    """Exact attention from tiles of at most block_size x block_size scores, (..., n_q, d_v).

    With `causal` the last query sees every key; a query that may see none gets zeros. Sums over tiles are float32
    where Q is narrower.
    """
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError(f"Q {tuple(Q.shape)}, K {tuple(K.shape)} and V {tuple(V.shape)} do not fit")
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    n_q, n_k = Q.shape[-2], K.shape[-2]
    leading = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2], V.shape[:-2])
    wide = torch.promote_types(Q.dtype, torch.float32)
    finished = [Q.new_zeros(*leading, 0, V.shape[-1])]
    for first in range(0, n_q, block_size):
        rows = Q[..., first : first + block_size, :].to(wide) / math.sqrt(Q.shape[-1])
        place = torch.arange(first, first + rows.shape[-2], device=Q.device)[:, None] + n_k - n_q
        maximum = rows.new_full((*leading, rows.shape[-2], 1), -math.inf)
        total = torch.zeros_like(maximum)
        gathered = rows.new_zeros(*leading, rows.shape[-2], V.shape[-1])
        for start in range(0, n_k, block_size):
            if causal and start > place[-1]:
                break  # all further tiles are hidden, so about half of them are never made
            tile = rows @ K[..., start : start + block_size, :].to(wide).mT
            if causal:
                keys = torch.arange(start, start + tile.shape[-1], device=Q.device)
                tile = tile.masked_fill(keys > place, -math.inf)
            # No gradient through the maximum: the result does not depend on it.
            top = torch.maximum(maximum, tile.detach().amax(dim=-1, keepdim=True))
            level = top.masked_fill(top == -math.inf, 0.0)  # nothing seen yet: all powers are 0, and none is nan
            powers, shrink = torch.exp(tile - level), torch.exp(maximum - level)
            total = total * shrink + powers.sum(dim=-1, keepdim=True)
            gathered = gathered * shrink + powers @ V[..., start : start + block_size, :].to(wide)
            maximum = top
        finished.append((gathered / total.masked_fill(total == 0, 1.0)).to(Q.dtype))
    return torch.cat(finished, dim=-2)


def linear_attention(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, feature_map: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Attention with weights phi(q) . phi(k) over their sum, (..., n_q, d_v): keys and values are summed first.

    A query whose weights are all 0 gets zeros.
    """
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError(f"Q {tuple(Q.shape)}, K {tuple(K.shape)} and V {tuple(V.shape)} do not fit")
    asking, answering = feature_map(Q), feature_map(K)
    summary = answering.mT @ V
    total = asking @ answering.sum(dim=-2).unsqueeze(-1)
    return asking @ summary / total.masked_fill(total == 0, 1.0)


def sliding_window_attention(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, window: int) -> torch.Tensor:
    """Each token reads itself and the window - 1 tokens before it, (..., n, d_v); no other score is computed.

    Queries come in groups, each with the keys that one of them can reach.
    """
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError(f"Q {tuple(Q.shape)}, K {tuple(K.shape)} and V {tuple(V.shape)} do not fit")
    if Q.shape[-2] != K.shape[-2]:
        raise ValueError(f"{Q.shape[-2]} queries and {K.shape[-2]} keys: a window needs the same number of both")
    if window < 1:
        raise ValueError(f"window must be at least 1 (the token itself), got {window}")
    n = Q.shape[-2]
    leading = torch.broadcast_shapes(Q.shape[:-2], K.shape[:-2], V.shape[:-2])
    finished = [Q.new_zeros(*leading, 0, V.shape[-1])]
    group = max(window, 16)  # a narrow window would make many tiny products
    for first in range(0, n, group):
        last, start = min(first + group, n), max(0, first - window + 1)
        band = Q[..., first:last, :] @ K[..., start:last, :].mT / math.sqrt(Q.shape[-1])
        back = torch.arange(first, last, device=Q.device)[:, None] - torch.arange(start, last, device=Q.device)
        hidden = (back < 0) | (back >= window)
        finished.append(band.masked_fill(hidden, -math.inf).softmax(dim=-1) @ V[..., start:last, :])
    return torch.cat(finished, dim=-2)
