"""Reference answers of the chapter on scores that stay in hand, in PyTorch.

Shapes follow the course: x (batch, n, d_model), scores (batch, n_heads, n_q, n_k). Inputs are never changed. Sizes that
do not fit raise ValueError. Sources: Gemma Team, 2024 (caps on scores); OpenAI, 2025 (a learned sink); Henry et al.,
2020, and Yang et al., 2025 (normalized queries and keys); Qiu et al., 2025, and Qwen3-Next (a gate on the output).
"""

import math

import torch
from torch import nn

from solutions.kv_cache import KVCache, repeat_kv
from solutions.multi_head import merge_heads, split_heads
from solutions.rope import apply_rope
from solutions.transformer_block import rms_norm


def soft_cap(scores: torch.Tensor, cap: float | None) -> torch.Tensor:
    """Small scores hardly change, and none gets beyond -cap or cap."""
    return scores if cap is None else cap * torch.tanh(scores / cap)


def softmax_with_sink(scores: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Softmax over the keys and a score per head that belongs to no key; the share of the sink is dropped."""
    if scores.ndim != 4 or sink.shape != scores.shape[1:2]:
        raise ValueError(f"scores {tuple(scores.shape)} and a sink {tuple(sink.shape)}: one number per head is needed")
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    extra = sink.to(wide)[:, None, None].expand(*wide.shape[:3], 1)
    every = torch.cat([wide, extra], dim=-1)
    if mask is not None:
        hidden = nn.functional.pad(~mask.bool(), (0, 1))  # the sink is never hidden
        every = every.masked_fill(hidden, -math.inf)
    return every.softmax(dim=-1)[..., :-1].to(scores.dtype)


class RMSNorm(nn.Module):
    """`rms_norm` with a weight to learn."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class QKNormAttention(nn.Module):
    """Causal attention with RoPE whose queries and keys are normalized per head, in a window if there is one."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_head: int,
        base: float = 10000.0,
        window: int | None = None,
        eps: float = 1e-6,
    ):
        super().__init__()
        if min(n_heads, n_kv_heads) < 1 or n_heads % n_kv_heads or d_head < 2 or d_head % 2:
            raise ValueError(f"{n_heads} heads, {n_kv_heads} key/value heads and width {d_head} do not fit")
        if window is not None and window < 1:
            raise ValueError(f"a window of {window} tokens does not hold the token itself")
        self.n_heads, self.n_kv_heads, self.base, self.window = n_heads, n_kv_heads, base, window
        self.W_q = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_o = nn.Linear(n_heads * d_head, d_model, bias=False)
        self.norm_q, self.norm_k = RMSNorm(d_head, eps), RMSNorm(d_head, eps)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        if x.ndim != 3 or x.shape[-1] != self.W_q.in_features:
            raise ValueError(f"x is {tuple(x.shape)}, not (batch, n, {self.W_q.in_features})")
        past = 0 if cache is None else len(cache)
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        q = apply_rope(self.norm_q(split_heads(self.W_q(x), self.n_heads)), positions, self.base)
        k = apply_rope(self.norm_k(split_heads(self.W_k(x), self.n_kv_heads)), positions, self.base)
        v = split_heads(self.W_v(x), self.n_kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)
        distance = positions[:, None] - torch.arange(k.shape[2], device=x.device)
        hidden = distance < 0
        if self.window is not None:
            hidden = hidden | (distance >= self.window)
        k, v = (repeat_kv(kept, self.n_heads // self.n_kv_heads) for kept in (k, v))
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
        weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return self.W_o(merge_heads(weights.to(v.dtype) @ v))


class GatedAttention(nn.Module):
    """Causal attention with normalized queries and keys, partly rotated, and a gate on what the heads return."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_head: int,
        d_rotary: int,
        base: float = 10000.0,
        eps: float = 1e-6,
    ):
        super().__init__()
        if min(n_heads, n_kv_heads) < 1 or n_heads % n_kv_heads:
            raise ValueError(f"{n_heads} heads and {n_kv_heads} key/value heads do not fit")
        if d_rotary % 2 or not 2 <= d_rotary <= d_head:
            raise ValueError(f"{d_rotary} numbers of {d_head} cannot be rotated: an even number is, from 2 to d_head")
        self.n_heads, self.n_kv_heads, self.d_rotary, self.base = n_heads, n_kv_heads, d_rotary, base
        self.W_q = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_g = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.W_o = nn.Linear(n_heads * d_head, d_model, bias=False)
        self.norm_q, self.norm_k = RMSNorm(d_head, eps), RMSNorm(d_head, eps)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        if x.ndim != 3 or x.shape[-1] != self.W_q.in_features:
            raise ValueError(f"x is {tuple(x.shape)}, not (batch, n, {self.W_q.in_features})")
        past = 0 if cache is None else len(cache)
        positions = torch.arange(past, past + x.shape[1], device=x.device)

        def rotated(heads):
            turned, plain = heads[..., : self.d_rotary], heads[..., self.d_rotary :]
            return torch.cat([apply_rope(turned, positions, self.base), plain], dim=-1)

        q = rotated(self.norm_q(split_heads(self.W_q(x), self.n_heads)))
        k = rotated(self.norm_k(split_heads(self.W_k(x), self.n_kv_heads)))
        v = split_heads(self.W_v(x), self.n_kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)
        later = torch.arange(k.shape[2], device=x.device) > positions[:, None]
        k, v = (repeat_kv(kept, self.n_heads // self.n_kv_heads) for kept in (k, v))
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(later, -math.inf)
        weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        merged = merge_heads(weights.to(v.dtype) @ v)
        return self.W_o(torch.sigmoid(self.W_g(x)) * merged)
