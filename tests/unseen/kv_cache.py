"""Wrong answers to the caching chapter that its list of misconceptions does not hold in these words."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from solutions import kv_cache as solutions
from solutions.rope import apply_rope
from tests.alternatives.kv_cache import JustJoined


def own_error(kind):
    raise kind("my own words")


def four(x, n_rep):
    if x.dim() != 4 or n_rep < 1:
        own_error(ValueError)
    return x


class Cache:
    """A right cache in parts, for answers that get one of them wrong."""

    def __init__(self):
        self.rows = []

    def append(self, k, v):
        for new, old in zip((k, v), self.rows[-1] if self.rows else (k, v)):
            if new.ndim != 4 or k.shape[:3] != v.shape[:3] or (*new.shape[:2], new.shape[3]) != (
                    *old.shape[:2], old.shape[3]):
                own_error(ValueError)
        self.keep(k, v)
        return tuple(self.join(rows) for rows in zip(*self.rows))

    def keep(self, k, v):
        self.rows.append((k, v))

    def join(self, rows):
        return torch.cat(rows, 2)

    def __len__(self):
        return sum(k.shape[2] for k, _ in self.rows)

    def reset(self):
        self.rows = []


def cache_but(**parts):
    return type("KVCache", (Cache,), parts)


class EmptyAtFirst(JustJoined):
    """Begins with an empty tensor of shape (0,), which `torch.cat` lets through whatever comes; so does its length."""

    def __init__(self):
        self.k = self.v = torch.empty(0)

    def __len__(self):
        return self.k.shape[-2] if self.k.numel() else 0


class JoinedTooLate(Cache):
    """What does not fit is noticed while joining, when it has been kept already."""

    def append(self, k, v):
        self.rows.append((k, v))
        return tuple(torch.cat(rows, 2) for rows in zip(*self.rows))


def forget(self):
    self.rows = None


class Parts(nn.Module):
    """A right layer in parts, for answers that get one of them wrong."""

    def __init__(self, d_model, n_heads, n_kv_heads, base=10000.0):
        super().__init__()
        if n_heads < 1 or n_kv_heads < 1 or d_model % n_heads or n_heads % n_kv_heads or d_model // n_heads % 2:
            own_error(ValueError)
        self.heads, self.shared, self.width, self.base = n_heads, n_kv_heads, d_model // n_heads, base
        for role, outputs in zip("qkvo", (n_heads, n_kv_heads, n_kv_heads, n_heads)):
            setattr(self, f"W_{role}", nn.Linear(d_model, outputs * self.width, bias=False))

    def forward(self, x, cache=None):
        if x.ndim != 3:
            own_error(ValueError)
        q, k, v = (W(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        q, k, v, before = self.place_and_keep(q, k, v, cache)
        k, v = self.spread(k), self.spread(v)
        out = self.attend(q, k, v, before)
        return self.W_o(out.transpose(1, 2).flatten(2))

    def place_and_keep(self, q, k, v, cache):
        before = self.length(cache)
        first = self.first(before, q.shape[2])
        q, k = self.turn(q, first), self.turn(k, first)
        if cache is not None:
            k, v = cache.append(k, v)
        return q, k, v, before

    def length(self, cache):
        return 0 if cache is None else len(cache)

    def first(self, before, n):
        return before

    def turn(self, x, first):
        return apply_rope(x, torch.arange(first, first + x.shape[2], device=x.device), self.base)

    def spread(self, t):
        return t.repeat_interleave(self.heads // self.shared, dim=1)

    def attend(self, q, k, v, before):
        mask = self.visible(q, k, before)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


    def visible(self, q, k, before):
        places = torch.arange(k.shape[2], device=q.device)
        return places <= before + torch.arange(q.shape[2], device=q.device)[:, None]


def but(**parts):
    """The layer with some of its parts replaced."""
    return type("GroupedQueryAttention", (Parts,), parts)


def if_cache(self, q, k, v, cache):
    return Parts.place_and_keep(self, q, k, v, cache if cache else None)


def result_dropped(self, q, k, v, cache):
    q, k, v, before = Parts.place_and_keep(self, q, k, v, cache)
    return q, k[:, :, before:], v[:, :, before:], 0


def length_after(self, q, k, v, cache):
    if cache is not None:
        k, v = cache.append(self.turn(k, len(cache)), v)
        return self.turn(q, len(cache)), k, v, len(cache) - q.shape[2]
    return self.turn(q, 0), self.turn(k, 0), v, 0


def reset_first(self, q, k, v, cache):
    if cache is not None:
        cache.reset()
    return Parts.place_and_keep(self, q, k, v, cache)


def turned_once_more(self, q, k, v, cache):
    q, k, v, before = Parts.place_and_keep(self, q, k, v, cache)
    return q, self.turn(k, 0) if cache is not None else k, v, before


def repeated_at_once(self, q, k, v, cache):
    return Parts.place_and_keep(self, q, Parts.spread(self, k), Parts.spread(self, v), cache)


def turned_from_the_end(self, q, k, v, cache):
    """Unrotated keys are kept and turned on reading, but from the chunk's own position on."""
    before = 0 if cache is None else len(cache)
    if cache is not None:
        k, v = cache.append(k, v)
    return self.turn(q, before), self.turn(k, before), v, before


def reset_by_a_chunk(self, q, k, v, cache):
    """Takes several tokens for a new prompt."""
    if cache is not None and q.shape[2] > 1:
        cache.reset()
    return Parts.place_and_keep(self, q, k, v, cache)


def heads_numbered(self, x, first):
    """The axis before the last is that of the heads."""
    return apply_rope(x.transpose(1, 2), torch.arange(first, first + x.shape[1]), self.base).transpose(1, 2)


class LastTokenOnly(Parts):
    """With a cache, reads the last of the tokens that it is given."""

    def forward(self, x, cache=None):
        return super().forward(x[:, -1:] if cache is not None and len(cache) else x, cache)


def fused_causal(self, q, k, v, before):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_if_several(self, q, k, v, before):
    return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)


def causal_if_first(self, q, k, v, before):
    return F.scaled_dot_product_attention(q, k, v, is_causal=before == 0)


def scaled_by_the_model(self, q, k, v, before):
    return Parts.attend(self, q * math.sqrt(self.width / self.W_q.in_features), k, v, before)


def checked(count):
    def with_checks(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element=2, batch=1):
        solutions.kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element, batch)
        return count(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element, batch)
    return with_checks


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "repeat_kv": [
        (lambda x, n_rep: four(x, n_rep).repeat_interleave(n_rep, dim=1).flip(1), None),
    ],
    "KVCache": [
        (cache_but(join=lambda self, rows: torch.cat(rows, 1)), "along the heads"),
        (cache_but(join=lambda self, rows: torch.cat(rows, 3)), "along the width"),
        (cache_but(join=lambda self, rows: torch.stack(rows)), None),
        (EmptyAtFirst, None),
        (JoinedTooLate, None),
        (cache_but(reset=forget), None),
    ],
    "GroupedQueryAttention": [
        (but(place_and_keep=if_cache), "`if cache:`"),
        (but(place_and_keep=result_dropped), "are not used"),
        (but(place_and_keep=reset_first), "resets the cache"),
        (but(place_and_keep=length_after), "rotated after `append`"),
        (but(first=lambda self, before, n: 0), "starts at 0 for every chunk"),
        (but(place_and_keep=turned_once_more), "rotated again"),
        (but(place_and_keep=repeated_at_once, spread=lambda self, t: t), "nothing is saved"),
        (but(spread=lambda self, t: t.repeat(1, self.heads // self.shared, 1, 1)), "0 1 0 1"),
        (but(attend=fused_causal), "top left"),
        (but(attend=causal_if_several), "top left"),
        (but(attend=causal_if_first), "With a cache there is no mask"),
        (but(attend=scaled_by_the_model), "square root of d_model"),
        (but(turn=lambda self, x, first: apply_rope(x, first + torch.arange(x.shape[2]))), "`base` is not passed on"),
        (but(place_and_keep=turned_from_the_end), "all keys that come back"),
        (but(turn=heads_numbered), "get the same position"),
        (but(place_and_keep=reset_by_a_chunk), None),
        (but(first=lambda self, before, n: before if n == 1 else 0), None),
        (but(visible=lambda self, q, k, before: torch.ones(q.shape[2], k.shape[2]).tril(before) > 0),
         "mask is on the CPU"),
        (LastTokenOnly, None),
    ],
    "kv_cache_bytes": [
        (checked(lambda *sizes: torch.tensor([2, *sizes]).double().prod().item()), "is a float"),
        (checked(lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * width * tokens * size + batch),
         None),
        (checked(lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * width * tokens * size * batch
                 // 1000), None),
    ],
    "quantize_cache": [
        (lambda x: (solutions.quantize_cache(x)[0].short(), solutions.quantize_cache(x)[1]), "more than a byte"),
    ],
}
