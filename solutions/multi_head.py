"""Reference answers of the multi-head chapter: attention in several subspaces at once, in PyTorch.

Shapes follow the course: x (batch, n, d_model), heads (batch, n_heads, n, d_head), exactly one batch dimension; a mask
is boolean and True means that the query may attend to the key. Inputs are never changed. Sizes that do not fit raise
ValueError. Source: Vaswani et al., 2017, section 3.2.2.
"""

import math

import torch
from torch import nn


def split_heads(x: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Cut each token's row into n_heads pieces; piece h of every token belongs to head h."""
    if x.ndim != 3:
        raise ValueError(f"x has {x.ndim} dimensions; (batch, n, d_model) has three")
    batch, n_tokens, d_model = x.shape
    if n_heads < 1 or d_model % n_heads != 0:
        raise ValueError(f"width {d_model} cannot be split into {n_heads} equal heads")
    return x.reshape(batch, n_tokens, n_heads, d_model // n_heads).transpose(1, 2)


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Undo the split: put each token's pieces side by side, in the order of the heads."""
    if x.ndim != 4:
        raise ValueError(f"x has {x.ndim} dimensions; (batch, n_heads, n, d_head) has four")
    return x.transpose(1, 2).flatten(start_dim=2)


class MultiHeadAttention(nn.Module):
    """Self-attention with n_heads heads in one batched product; a token that may attend to nothing gets zeros."""

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        if n_heads < 1 or d_model % n_heads != 0:
            raise ValueError(f"width {d_model} cannot be split into {n_heads} equal heads")
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        if x.ndim != 3 or x.shape[-1] != self.W_q.in_features:
            raise ValueError(f"x is {tuple(x.shape)}, not (batch, n, {self.W_q.in_features})")
        q, k, v = (split_heads(project(x), self.n_heads) for project in (self.W_q, self.W_k, self.W_v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        hidden = ~mask if mask is not None else scores.new_zeros(1, 1, dtype=torch.bool)
        if hidden.ndim == 3:  # one per sentence: as it is, its batch would meet the heads
            hidden = hidden[:, None]
        fits = all(size in (1, full) for size, full in zip(hidden.shape[::-1], scores.shape[::-1]))
        if hidden.ndim not in (2, 4) or not fits:
            raise ValueError(f"a mask {tuple(mask.shape)} does not fit weights {tuple(scores.shape)}")
        # A row that is all -inf would give nan in the softmax. Any finite row will do instead, since all of it is set
        # to 0 afterwards.
        empty = hidden.all(dim=-1, keepdim=True)
        scores = scores.masked_fill(hidden, -math.inf).masked_fill(empty, 0.0)
        # PyTorch computes a softmax of narrower numbers in float32, and returns their dtype.
        shares = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
        return self.W_o(merge_heads(shares @ v)), shares


def attention_parameters(d_model: int, n_heads: int, bias: bool = False) -> int:
    """Count four square matrices for any number of heads; with bias, one more number per output."""
    if n_heads < 1 or d_model % n_heads != 0:
        raise ValueError(f"width {d_model} cannot be split into {n_heads} equal heads")
    inputs = d_model + 1 if bias else d_model
    return 4 * inputs * d_model
