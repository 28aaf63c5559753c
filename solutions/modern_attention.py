"""Reference answers of the chapter on today's models: what changed in attention and in the block, in PyTorch.

Shapes follow the course: x (batch, n, d_model), scores (batch, n_heads, n_q, n_k). Inputs are never changed. Sizes that
do not fit raise ValueError. Sources: Gemma Team, 2024 (caps on scores); OpenAI, 2025 (a learned sink); Llama Team, 2024
(stretched frequencies); Henry et al., 2020, and Yang et al., 2025 (normalized queries and keys); DeepSeek-AI, 2024 (a
latent for keys and values); Shazeer et al., 2017, and Jiang et al., 2024 (experts).
"""

import math

import torch
from torch import nn

from solutions.kv_cache import KVCache, repeat_kv
from solutions.multi_head import merge_heads, split_heads
from solutions.rope import apply_rope, rope_frequencies
from solutions.transformer_block import SwiGLU, rms_norm


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


def scaled_rope_frequencies(
    d_head: int, base: float, factor: float, low: float, high: float, original_length: int
) -> torch.Tensor:
    """Leave fast pairs unchanged, divide slow ones by the factor, and mix the two in between."""
    theta = rope_frequencies(d_head, base)
    turns = original_length * theta / (2 * math.pi)  # full circles within the length of training
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * theta + (1 - kept) * theta / factor


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


class LatentAttention(nn.Module):
    """Causal attention that keeps, per token, a latent that all heads share and a rotated key that all heads share."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int,
        d_rope: int,
        d_latent: int,
        base: float = 10000.0,
        eps: float = 1e-6,
    ):
        super().__init__()
        if min(n_heads, d_head, d_latent) < 1 or d_rope < 2 or d_rope % 2:
            raise ValueError(f"{n_heads} heads of {d_head} + {d_rope} and a latent of {d_latent} do not fit")
        self.n_heads, self.d_head, self.d_rope, self.base = n_heads, d_head, d_rope, base
        self.W_q = nn.Linear(d_model, n_heads * (d_head + d_rope), bias=False)
        self.W_down = nn.Linear(d_model, d_latent, bias=False)
        self.norm = RMSNorm(d_latent, eps)
        self.W_k_rope = nn.Linear(d_model, d_rope, bias=False)
        self.W_up_k = nn.Linear(d_latent, n_heads * d_head, bias=False)
        self.W_up_v = nn.Linear(d_latent, n_heads * d_head, bias=False)
        self.W_o = nn.Linear(n_heads * d_head, d_model, bias=False)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        if x.ndim != 3 or x.shape[-1] != self.W_down.in_features:
            raise ValueError(f"x is {tuple(x.shape)}, not (batch, n, {self.W_down.in_features})")
        past = 0 if cache is None else len(cache)
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        plain, turned = split_heads(self.W_q(x), self.n_heads).split([self.d_head, self.d_rope], dim=-1)
        turned = apply_rope(turned, positions, self.base)
        latent = self.norm(self.W_down(x))[:, None]
        key = apply_rope(self.W_k_rope(x), positions, self.base)[:, None]
        if cache is not None:
            latent, key = cache.append(latent, key)
        k, v = (split_heads(up(latent[:, 0]), self.n_heads) for up in (self.W_up_k, self.W_up_v))
        scores = (plain @ k.mT + turned @ key.mT) / math.sqrt(self.d_head + self.d_rope)
        later = torch.arange(k.shape[2], device=x.device) > positions[:, None]
        scores = scores.masked_fill(later, -math.inf)
        weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return self.W_o(merge_heads(weights.to(v.dtype) @ v))


def route(logits: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest logits of each row, as weights that sum to 1, and whose they are."""
    if logits.ndim != 2 or not 1 <= top_k <= logits.shape[1]:
        raise ValueError(f"{top_k} of {tuple(logits.shape)}: (n_tokens, n_experts) and 1 to n_experts are needed")
    chosen, experts = logits.topk(top_k, dim=-1)
    wide = torch.promote_types(logits.dtype, torch.float32)
    return chosen.softmax(dim=-1, dtype=wide).to(logits.dtype), experts


class MixtureOfExperts(nn.Module):
    """Many feed-forward networks, of which each token uses a few."""

    def __init__(self, d_model: int, d_ff: int, n_experts: int, top_k: int):
        super().__init__()
        if not 1 <= top_k <= n_experts:
            raise ValueError(f"{top_k} of {n_experts} experts cannot be chosen")
        self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(SwiGLU(d_model, d_ff) for _ in range(n_experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim != 3 or x.shape[-1] != self.router.in_features:
            raise ValueError(f"x is {tuple(x.shape)}, not (batch, n, {self.router.in_features})")
        rows = x.flatten(0, 1)
        weights, experts = route(self.router(rows), self.top_k)
        mixed = torch.zeros_like(rows)
        for e, expert in enumerate(self.experts):
            token, choice = torch.where(experts == e)
            if len(token):
                mixed = mixed.index_add(0, token, weights[token, choice, None] * expert(rows[token]))
        return mixed.view_as(x)
