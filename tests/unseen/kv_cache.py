"""Wrong answers to the caching chapter that its list of misconceptions does not hold in these words."""

import functools

import torch

from solutions import kv_cache as solutions
from tests.alternatives.kv_cache import ByFusedAttention, JustJoined
from tests.unseen.parts import changed

ROTATION = "q, k = apply_rope(q, where, self.base), apply_rope(k, where, self.base)"
APPEND = "k, v = cache.append(k, v)"
START = "start, n = 0 if cache is None else len(cache), x.shape[1]"
JOIN = "torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)"


class EmptyAtFirst(JustJoined):
    """Begins with an empty tensor of shape (0,), which `torch.cat` lets through whatever comes; so does its length."""

    def __init__(self):
        self.k = self.v = torch.empty(0)

    def __len__(self):
        return self.k.shape[-2] if self.k.numel() else 0


class InOneTensor:
    """Keys and values one behind the other, which refuses widths that differ."""

    def __init__(self):
        self.both = None

    def append(self, k, v):
        new = torch.stack([k, v])
        self.both = new if self.both is None else torch.cat([self.both, new], dim=3)
        return self.both[0], self.both[1]

    def __len__(self):
        return 0 if self.both is None else self.both.shape[3]

    def reset(self):
        self.both = None


layer = functools.partial(changed, ByFusedAttention)


def in_its_own_dtype(x):
    largest = torch.linalg.vector_norm(x, float("inf"), dim=-1, keepdim=True)
    scale = largest / 127
    return torch.where(largest > 0, x / scale, 0.0).round().to(torch.int8), scale


def by_strides(x, n_rep):
    """Reads memory as if rows lay one behind the other, which is right for such tensors alone."""
    b, h, n, d = x.shape
    return torch.as_strided(x, (b, h, n_rep, n, d), (h * n * d, n * d, 0, d, 1)).reshape(b, h * n_rep, n, d)


def in_single_precision(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element=2, batch=1):
    return int(torch.tensor([2.0, n_layers, n_kv_heads, d_head, seq_len, bytes_per_element, batch]).prod())


def as_floats(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element=2, batch=1):
    return float(solutions.kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element, batch))


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "repeat_kv": [
        (by_strides, None),
        (lambda x, n_rep: solutions.repeat_kv(x, n_rep).flip(1), None),
        (lambda x, n_rep: torch.kron(x, torch.ones(n_rep)[:, None, None]), "narrow numbers become float32"),
        (lambda x, n_rep: solutions.repeat_kv(x, n_rep).double(), None),
    ],
    "KVCache": [
        (changed(JustJoined, JOIN, JOIN.replace("2)", "1)")), "along the heads"),
        (changed(JustJoined, JOIN, JOIN.replace("2)", "3)")), "along the width"),
        (changed(JustJoined, JOIN, JOIN.replace("cat", "stack").replace(", 2)", ")")), None),
        (EmptyAtFirst, None),
        (InOneTensor, "equally wide"),
        (changed(InOneTensor, "dim=3", "dim=2", "shape[3]", "shape[2]"), None),
        (changed(JustJoined, f"k, v = {JOIN}", "self.k = k = torch.cat([self.k, k], 2)\n            "
                 "v = torch.cat([self.v, v], 2)"), "already been joined"),
        (changed(JustJoined, "    def reset(self):\n        self.k = None", "    def reset(self):\n        del self.k"),
         None),
    ],
    "GroupedQueryAttention": [
        (layer("0 if cache is None else len(cache)", "len(cache) if cache else 0", "if cache is not None:",
         "if cache:"),
         "`if cache:`"),
        (layer(APPEND, "cache.append(k, v)", ".tril(start)", ".tril()"), "are not used"),
        (layer(START, f"cache is None or cache.reset()\n        {START}"), "resets the cache"),
        (layer(ROTATION, "k = apply_rope(k, where, self.base)", "seen = ",
               "q = apply_rope(q, where if cache is None else where + n, self.base)\n        seen = "),
         "rotated after `append`"),
        (layer("torch.arange(start, start + n", "torch.arange(n"), "starts at 0 for every chunk"),
        (layer(APPEND, f"{APPEND}\n            k = apply_rope(k, torch.arange(k.shape[2]), self.base)"),
         "rotated again"),
        (layer(APPEND, "k, v = cache.append(*(t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v)))"),
         "nothing is saved"),
        (layer("(q, k, v,", "(q, *(t.repeat(1, self.n_heads // self.n_kv_heads, 1, 1) for t in (k, v)),"), "0 1 0 1"),
        (layer("attn_mask=seen", "is_causal=True"), "top left"),
        (layer("attn_mask=seen", "is_causal=n > 1"), "top left"),
        (layer("attn_mask=seen", "is_causal=start == 0"), "later ones are not"),
        (layer("enable_gqa=True", "enable_gqa=True, scale=x.shape[2] ** -0.5"), "square root of d_model"),
        (layer(", self.base", ""), "`base` is not passed on"),
        (layer(ROTATION, "q = apply_rope(q, where, self.base)", "seen = ",
               "k = apply_rope(k, torch.arange(start, start + k.shape[2]), self.base)\n        seen = "),
         "all keys that come back"),
        (layer(ROTATION, "q, k = (apply_rope(t.transpose(1, 2), torch.arange(start, start + t.shape[1]), self.base)"
                         ".transpose(1, 2) for t in (q, k))"), "get the same position"),
        (layer(", device=x.device).tril", ").tril"), "mask is on the CPU"),
        (layer(START, f"cache is None or x.shape[1] == 1 or cache.reset()\n        {START}"), None),
        (layer("torch.arange(start, start + n", "torch.arange(start * (n == 1), start * (n == 1) + n"), None),
        (layer(START, f"x = x[:, -1:] if cache is not None and len(cache) else x\n        {START}"), None),
        (layer("len(cache), x", "0 if cache.k is None else cache.k.shape[2], x"), None),
    ],
    "kv_cache_bytes": [
        (as_floats, "is a float"),
        (in_single_precision, "computed in float32"),
        (lambda *sizes, **others: solutions.kv_cache_bytes(*sizes, **others) // 1000, None),
    ],
    "quantize_cache": [
        (lambda x: (solutions.quantize_cache(x)[0].short(), solutions.quantize_cache(x)[1]), "more than a byte"),
        (lambda x: (-solutions.quantize_cache(x)[0], -solutions.quantize_cache(x)[1]), None),
        (in_its_own_dtype, "in their own dtype"),
    ],
}
