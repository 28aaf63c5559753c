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


def test_KVCache(KVCache) -> None:
    """Accept an implementation of KVCache by returning, reject it by raising."""

    def new(heads=2, n=1, d_k=3, d_v=2, batch=1, dtype=torch.float32):
        return (torch.randn(batch, heads, n, d_k).to(dtype), torch.randn(batch, heads, n, d_v).to(dtype))

    def holds(cache, given, said):
        wanted = [torch.cat(parts, dim=2) for parts in zip(*given)]
        assert len(said) == 2
        for one, other in zip(said, wanted):
            assert one.shape == other.shape, "the shape of what is returned"
            assert one.dtype == other.dtype, "the dtype of what came"
            assert torch.equal(one, other), "what is returned is not what came"
        assert len(cache) == wanted[0].shape[2], "len(cache) counts the tokens"

    for sizes in (
        {},
        {"batch": 3, "heads": 1},
        {"d_k": 2, "d_v": 5},
        {"dtype": torch.bfloat16},
        {"dtype": torch.float64},
    ):
        cache, given = KVCache(), []
        assert len(cache) == 0, "a new cache is empty"
        for n in (3, 1, 2, 1, 1, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1):
            k, v = new(n=n, **sizes)
            before = k.clone(), v.clone()
            given.append(before)
            holds(cache, given, cache.append(k, v))
            assert torch.equal(k, before[0]) and torch.equal(v, before[1]), "an input was changed"
        assert cache.reset() is None, "reset returns nothing"
        assert len(cache) == 0, "reset forgets everything"
        other = new(heads=4, n=2, d_k=1, d_v=7, batch=2)
        holds(cache, [other], cache.append(*other))
    one, two = KVCache(), KVCache()
    first, second = new(), new(n=2)
    one.append(*first)
    assert len(two) == 0, "two caches share what they hold"
    holds(two, [second], two.append(*second))
    more = new(n=3)
    holds(one, [first, more], one.append(*more))
    zeros = tuple(torch.zeros_like(each) for each in new(n=2))
    holds(one, [first, more, zeros], one.append(*zeros))
    cache, given = KVCache(), []
    for n in (1, 2000, 1300, 1, 2000):
        given.append(new(heads=1, n=n, d_k=1, d_v=1))
        holds(cache, given, cache.append(*given[-1]))
    # What does not fit is refused, and changes nothing.
    wrong = [
        new(batch=2),
        new(heads=3),
        new(heads=1),
        new(d_k=4),
        new(d_v=3),
        new(d_v=1),
        (new()[0], new(batch=2)[1]),
        (new(batch=2)[0], new()[1]),
    ]
    for pair in wrong:
        cache, held = KVCache(), new(n=2)
        cache.append(*held)
        try:
            cache.append(*pair)
        except (ValueError, RuntimeError):
            pass
        else:
            raise AssertionError("sizes that differ from those held were not refused")
        assert len(cache) == 2, "a refused append has changed the cache"
        after = new()
        holds(cache, [held, after], cache.append(*after))
