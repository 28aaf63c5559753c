"""Reference answers of the chapter on longer texts and smaller caches, in PyTorch.

Shapes follow the course: x (batch, n, d_model). Inputs are never changed. Sizes that do not fit raise ValueError.
Sources: Llama Team, 2024 (stretched frequencies); DeepSeek-AI, 2024 (a latent for keys and values); DeepSeek-AI, 2025
(an index that chooses keys).
"""

import math

import torch
from torch import nn

from solutions.kv_cache import KVCache
from solutions.multi_head import merge_heads, split_heads
from solutions.rope import apply_rope, rope_frequencies
from solutions.transformer_block import rms_norm


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


def index_scores(q: torch.Tensor, k: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """How much each query of the index wants each key: its heads' products, those below 0 as 0, by their weights."""
    batch, heads, n_q, width = q.shape if q.ndim == 4 else (0, 0, 0, 0)
    if k.ndim != 3 or k.shape[::2] != (batch, width) or weights.shape != (batch, n_q, heads):
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and weights {tuple(weights.shape)} do not fit")
    products = torch.relu(q @ k[:, None].mT)
    return (weights.to(q.dtype).mT[..., None] * products).sum(dim=1)


def top_k_attention(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, scores: torch.Tensor, top_k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention to the keys with the largest scores, and to no others."""
    n_q, n_k = Q.shape[-2], K.shape[-2]
    if scores.shape != (len(Q), n_q, n_k) or K.shape[:-1] != V.shape[:-1] or Q.shape[1:2] != K.shape[1:2]:
        sizes = ", ".join(str(tuple(part.shape)) for part in (Q, K, V, scores))
        raise ValueError(f"Q, K, V and scores of {sizes} do not fit")
    if top_k < 1:
        raise ValueError(f"a query reads at least one key, not {top_k}")
    readable = torch.ones(n_q, n_k, dtype=torch.bool, device=Q.device).tril(n_k - n_q)
    ranked = scores.masked_fill(~readable, -math.inf)
    best = ranked.topk(min(top_k, n_k), dim=-1).indices
    # Where fewer than top_k may be read, later keys are among the best.
    chosen = torch.zeros_like(readable.expand_as(scores)).scatter(-1, best, True) & readable
    seen = chosen[:, None]
    own = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(~seen, -math.inf)
    empty = ~seen.any(dim=-1, keepdim=True)
    wide = torch.promote_types(Q.dtype, torch.float32)
    weights = own.masked_fill(empty, 0.0).softmax(dim=-1, dtype=wide).masked_fill(empty, 0.0)
    weights = weights.to(Q.dtype)
    return weights @ V, weights
