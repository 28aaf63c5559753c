"""Reference answers of the cross-attention chapter: queries from one sequence, keys and values from another.

Shapes follow the course: x_q (batch, n_q, d_model), x_kv (batch, n_kv, d_model), weights (batch, n_heads, n_q, n_kv);
a mask is boolean and True means a real token. Inputs are never changed. Sizes that do not fit raise ValueError.
Source: Vaswani et al., 2017, section 3.2.3.
"""

import torch
from torch import nn


class CrossAttention(nn.Module):
    """Multi-head attention of the sequence x_q to another sequence x_kv."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"{n_heads} heads do not divide a width of {d_model}")
        self.d_model, self.n_heads = d_model, n_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self, x_q: torch.Tensor, x_kv: torch.Tensor, kv_mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for name, x in {"x_q": x_q, "x_kv": x_kv}.items():
            if x.ndim != 3 or x.shape[-1] != self.d_model:
                raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be (batch, tokens, {self.d_model})")
        batch, n_q, d_model = x_q.shape
        n_kv, d_head = x_kv.shape[1], d_model // self.n_heads
        if x_kv.shape[0] != batch:
            raise ValueError(f"x_q has {batch} sequences, x_kv has {x_kv.shape[0]}")
        if kv_mask is not None and kv_mask.shape != (batch, n_kv):
            raise ValueError(f"kv_mask has shape {tuple(kv_mask.shape)}; it must be {(batch, n_kv)}")

        q = self.W_q(x_q).view(batch, n_q, self.n_heads, d_head).transpose(1, 2)
        k = self.W_k(x_kv).view(batch, n_kv, self.n_heads, d_head).transpose(1, 2)
        v = self.W_v(x_kv).view(batch, n_kv, self.n_heads, d_head).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) / d_head**0.5
        if kv_mask is None:
            weights = scores.softmax(dim=-1)
        else:
            real = kv_mask[:, None, None, :]
            scores = scores.masked_fill(~real, float("-inf"))
            # A source without a real token leaves rows of -inf, whose softmax would be nan.
            scores = scores.masked_fill(~real.any(dim=-1, keepdim=True), 0.0)
            weights = scores.softmax(dim=-1).masked_fill(~real, 0.0)
        heads = (weights @ v).transpose(1, 2).reshape(batch, n_q, d_model)
        return self.W_o(heads), weights


def hard_alignment(weights: torch.Tensor) -> torch.Tensor:
    """For each query the source position with the largest mean weight over the heads: (batch, n_q)."""
    if weights.ndim != 4:
        raise ValueError(f"weights have {weights.ndim} dimensions; they must be (batch, n_heads, n_q, n_kv)")
    return weights.mean(dim=1).argmax(dim=-1)


def attention_multiply_adds(n_q: int, n_kv: int, d_model: int) -> int:
    """n_q * n_kv scores and equally many weighted values, each d_model multiply-adds over all heads."""
    if min(n_q, n_kv, d_model) < 0:
        raise ValueError(f"a size is negative: n_q={n_q}, n_kv={n_kv}, d_model={d_model}")
    return 2 * n_q * n_kv * d_model
