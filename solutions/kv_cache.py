"""Reference answers of the caching chapter: a cache of keys and values, and heads that share them, in PyTorch.

Shapes follow the course: x (batch, n, d_model), keys and values (batch, n_kv_heads, n, d). Inputs are never changed.
Sizes that do not fit raise ValueError.
Sources: Shazeer, 2019, "Fast Transformer Decoding" (MQA); Ainslie et al., 2023, "GQA".
"""

import math

import torch
from torch import nn

from solutions.multi_head import merge_heads, split_heads
from solutions.rope import apply_rope


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Query heads 0 .. n_rep - 1 share the first key/value head, the next n_rep the second, and so on."""
    if x.ndim != 4 or n_rep < 1:
        raise ValueError(f"{tuple(x.shape)} repeated {n_rep} times: four dimensions and at least 1 are needed")
    return x.repeat_interleave(n_rep, dim=1)


class KVCache:
    """Keys and values of all tokens so far, joined along the tokens."""

    def __init__(self):
        self.kept = None

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if k.ndim != 4 or v.ndim != 4 or k.shape[:3] != v.shape[:3]:
            raise ValueError(f"keys {tuple(k.shape)} and values {tuple(v.shape)} do not belong together")
        for old, new in zip(self.kept or (), (k, v)):
            if old.shape[:2] != new.shape[:2] or old.shape[3] != new.shape[3]:
                raise ValueError(f"{tuple(new.shape)} does not continue {tuple(old.shape)}; reset() before a new batch")
        if self.kept is None:
            self.kept = (k, v)
        else:
            self.kept = tuple(torch.cat(pair, dim=2) for pair in zip(self.kept, (k, v)))
        return self.kept

    def __len__(self) -> int:
        return 0 if self.kept is None else self.kept[0].shape[2]

    def reset(self) -> None:
        self.kept = None


class GroupedQueryAttention(nn.Module):
    """Causal self-attention with RoPE, fewer key/value heads than query heads, and an optional cache."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, base: float = 10000.0):
        super().__init__()
        if min(n_heads, n_kv_heads) < 1 or d_model % n_heads or n_heads % n_kv_heads:
            raise ValueError(f"width {d_model}, {n_heads} heads and {n_kv_heads} key/value heads do not divide")
        d_head = d_model // n_heads
        if d_head % 2:
            raise ValueError(f"a head of width {d_head} cannot be cut into pairs")
        self.n_heads, self.n_kv_heads, self.base = n_heads, n_kv_heads, base
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        if x.ndim != 3 or x.shape[-1] != self.W_q.in_features:
            raise ValueError(f"x is {tuple(x.shape)}, not (batch, n, {self.W_q.in_features})")
        past = 0 if cache is None else len(cache)
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        q = apply_rope(split_heads(self.W_q(x), self.n_heads), positions, self.base)
        k = apply_rope(split_heads(self.W_k(x), self.n_kv_heads), positions, self.base)
        v = split_heads(self.W_v(x), self.n_kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (repeat_kv(kept, self.n_heads // self.n_kv_heads) for kept in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        # New token i is at position past + i, and may see every key up to there.
        later = torch.arange(k.shape[2], device=x.device) > positions[:, None]
        wide = torch.promote_types(scores.dtype, torch.float32)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1, dtype=wide).to(v.dtype)
        return self.W_o(merge_heads(weights @ v))


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, bytes_per_element: int = 2, batch: int = 1
) -> int:
    """One key and one value per layer, head and token."""
    if min(n_layers, n_kv_heads, d_head, bytes_per_element, batch) < 1 or seq_len < 0:
        raise ValueError("sizes are at least 1, and the number of tokens at least 0")
    numbers = n_layers * n_kv_heads * d_head * seq_len * batch
    return 2 * numbers * bytes_per_element


def quantize_cache(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole numbers from -127 to 127, and for each row the number that brings them back."""
    if not x.is_floating_point():
        raise ValueError(f"numbers of dtype {x.dtype} are not floats")
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = wide.abs().amax(dim=-1, keepdim=True) / 127
    codes = (wide / scale.where(scale > 0, 1.0)).round()  # a row of zeros has the scale 0
    return codes.to(torch.int8), scale.to(x.dtype)
