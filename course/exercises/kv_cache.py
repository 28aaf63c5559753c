"""Exercises of the caching chapter: what must hold, on which inputs, and what people get wrong.

Angles are float32 by contract, whatever the dtype of x, and right answers may compute them in several ways. So rotated
results are compared to about five digits, and the mistakes here are off by far more.
"""

import math

import torch
from torch import nn

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal, numbered
from solutions import kv_cache as solutions
from solutions.multi_head import merge_heads, split_heads
from solutions.rope import apply_rope, apply_rope_interleaved

ROTATED = dict(rtol=1e-4, atol=1e-5)
REPEAT = "Fewer keys and values than queries"
CACHE = "A store for keys and values"
LAYER = "The layer with a cache"
POSITIONS = "What positions do the new tokens get?"
MASK = "Which keys may a chunk see?"
MEMORY = "How large a cache gets"
BYTE = "Keys and values of one byte ★"


# repeat_kv -----------------------------------------------------------------------------------------------------------

repeat_kv = Exercise(solutions.repeat_kv, section=REPEAT, minutes=5, difficulty=1)


@repeat_kv.property(
    "repeats each head next to itself",
    points=3,
    hint="With n_rep = 3, heads 0, 1 and 2 of the result are the first head of x, heads 3, 4 and 5 the second. Nothing "
    "else changes: (batch, n_kv_heads * n_rep, n, d).",
)
def next_to_itself(rng):
    yield dict(x=numbered(1, 2, 1, 2), n_rep=2)
    yield dict(x=numbered(1, 2, 3, 1), n_rep=3)
    yield dict(x=normal(rng, 2, 3, 5, 4), n_rep=2)


@repeat_kv.property(
    "serves one head for all, and one for each",
    points=1,
    hint="n_rep = 1 gives x again. A single head is repeated n_rep times.",
)
def repeat_extremes(rng):
    yield dict(x=normal(rng, 2, 1, 3, 4), n_rep=5)
    yield dict(x=normal(rng, 2, 3, 4, 2), n_rep=1)


@repeat_kv.property(
    "adds up the gradients of the copies",
    points=1,
    probe=probes.gradients,
    hint="Use only tensor operations: `.detach()`, `.data`, NumPy and lists of numbers cut the gradient.",
)
def repeat_gradients(rng):
    yield dict(x=normal(rng, 1, 2, 3, 2), n_rep=3, upstream=[normal(rng, 1, 6, 3, 2)])


def _repeat(x, n_rep):
    """Right, for misconceptions that go wrong elsewhere."""
    return torch.stack([x] * n_rep, dim=2).flatten(1, 2)


def _tile(x, n_rep):
    return torch.cat([x] * n_rep, dim=1)


@repeat_kv.misconception(
    "The whole row of heads is repeated: 0 1 0 1. That is what `repeat`, `tile` and `cat` do. Neighboring query heads "
    "share a head, so the order is 0 0 1 1, as `repeat_interleave` gives it."
)
def tiled(x, n_rep):
    return _tile(x, n_rep)


@repeat_kv.misconception("The tokens are repeated. The heads are the second axis, dim=1.")
def tokens_repeated(x, n_rep):
    return x.repeat_interleave(n_rep, dim=2)


@repeat_kv.misconception("The batch is repeated. The heads are the second axis, dim=1.")
def batch_repeated(x, n_rep):
    return x.repeat_interleave(n_rep, dim=0)


@repeat_kv.misconception("The width of the heads is repeated. The heads are the second axis, dim=1.")
def width_repeated(x, n_rep):
    return x.repeat_interleave(n_rep, dim=3)


@repeat_kv.misconception(
    "Without `dim`, `repeat_interleave` flattens everything first and repeats single numbers. Say dim=1."
)
def flattened(x, n_rep):
    return x.repeat_interleave(n_rep)


@repeat_kv.misconception(
    "Nothing is repeated: x comes back with as many heads as it had. It should have n_rep times as many."
)
def not_repeated(x, n_rep):
    return x


@repeat_kv.misconception("The copies are on a separate axis, (batch, n_kv_heads, n_rep, n, d). Join it with the heads.")
def copies_apart(x, n_rep):
    return torch.stack([x] * n_rep, dim=2)


@repeat_kv.misconception("n_rep counts all copies of a head, the original included. Your result has one copy too many.")
def one_copy_more(x, n_rep):
    return _repeat(x, n_rep + 1)


@repeat_kv.misconception("n_rep is used as the number of heads of the result. It is the number of copies of each head.")
def as_many_as_n_rep(x, n_rep):
    return _repeat(x, n_rep)[:, :n_rep]


@repeat_kv.misconception(
    "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors without a gradient."
)
def repeat_detached(x, n_rep):
    return _repeat(x, n_rep).detach()


# KVCache -------------------------------------------------------------------------------------------------------------

KVCache = Exercise(solutions.KVCache, section=CACHE, minutes=10, difficulty=2)


def _append(rng, *shape, width=None, dtype=torch.float64):
    """An append of keys of that shape; values are as wide, or `width` wide."""
    values = (*shape[:3], width or shape[3])
    return dict(do="append", k=normal(rng, *shape, dtype=dtype), v=normal(rng, *values, dtype=dtype))


def _pattern(n, first):
    """n tokens, one head of width one, small whole numbers: much to hold and little to store."""
    row = (torch.arange(n, dtype=torch.float64) % 7 + first).reshape(1, 1, n, 1)
    return dict(do="append", k=row, v=row + 10)


@KVCache.property(
    "gives back everything so far, new tokens last",
    points=2,
    probe=probes.steps,
    hint="Tokens are the third axis of (batch, n_kv_heads, n, d): join old and new there, keys with keys and values "
    "with values, keep the result and return both.",
)
def so_far(rng):
    yield dict(init={}, steps=[_append(rng, 1, 1, 1, 2), _append(rng, 1, 1, 1, 2)])
    yield dict(init={}, steps=[_append(rng, 2, 3, 2, 1), _append(rng, 2, 3, 1, 1), _append(rng, 2, 3, 1, 1)])
    yield dict(init={}, steps=[_append(rng, 2, 2, 2, 2), _append(rng, 2, 2, 2, 2)])
    yield dict(init={}, steps=[_append(rng, 1, 2, 2, 1, width=3), _append(rng, 1, 2, 1, 1, width=3)])


@KVCache.property(
    "says how many tokens it holds",
    points=1,
    probe=probes.steps,
    hint="0 when new, then the size of the third axis of what is kept: tokens, not calls of `append`.",
)
def counted(rng):
    yield dict(
        init={},
        steps=[dict(do="len"), _append(rng, 2, 3, 4, 1), dict(do="len"), _append(rng, 2, 3, 1, 1), dict(do="len")],
    )
    yield dict(init={}, steps=[dict(do="len"), _append(rng, 1, 2, 5, 3), dict(do="len")])


@KVCache.property(
    "is empty after reset, and ready for another batch",
    points=1,
    probe=probes.steps,
    hint="After `reset()` the cache is like a new one: length 0, and the next `append` may have other sizes.",
)
def starts_anew(rng):
    yield dict(
        init={},
        steps=[_append(rng, 2, 1, 2, 3), dict(do="reset"), dict(do="len"), _append(rng, 2, 1, 1, 3), dict(do="len")],
    )
    yield dict(
        init={},
        steps=[dict(do="reset"), _append(rng, 2, 1, 2, 3), dict(do="reset"), _append(rng, 1, 2, 3, 2), dict(do="len")],
    )


@KVCache.property(
    "grows as long as the text does",
    points=1,
    probe=probes.steps,
    hint="The length of the text is not known in advance. If you reserve memory, reserve more when it is full.",
)
def grows(rng):
    first, some, many = int(rng.integers(1, 5)), int(rng.integers(600, 700)), int(rng.integers(5000, 6000))
    yield dict(
        init={},
        steps=[_pattern(1, first), _pattern(some, first), _pattern(many, first), _pattern(1, first), dict(do="len")],
    )


@KVCache.property(
    "keeps the kind of number, and the device",
    points=1,
    probe=probes.elsewhere,
    hint="float32 in, float32 out, and float64 for float64. If you create tensors, create them like k: "
    "`k.new_empty(...)` has its dtype and device.",
)
def kinds(rng):
    yield dict(
        probe="steps",
        init={},
        steps=[_append(rng, 1, 2, 2, 1, dtype=torch.float32), _append(rng, 1, 2, 1, 1, dtype=torch.float32)],
    )
    yield dict(probe="steps", init={}, steps=[_append(rng, 1, 2, 1, 1), _append(rng, 1, 2, 2, 1)])


@KVCache.property(
    "refuses what does not continue what it holds, and stays as it was",
    points=1,
    probe=probes.steps,
    hint="Check before you change anything: batch, heads and widths must be those that the cache holds. Only the "
    "number of tokens may differ from call to call.",
)
def refuses(rng):
    other_batch, other_heads, narrow, wide = (1, 2, 1, 2), (2, 1, 1, 2), (2, 2, 1, 1), (2, 2, 1, 3)
    for others in ((other_batch, other_heads), (narrow, wide)):
        yield dict(
            init={},
            steps=[
                _append(rng, 2, 2, 1, 2),
                *(_append(rng, *shape) for shape in others),
                dict(do="len"),
                _append(rng, 2, 2, 1, 2),
            ],
        )
    for width in (1, 2):  # the values change, the keys do not
        values = _append(rng, 1, 2, 1, 3, width=width)
        yield dict(init={}, steps=[_append(rng, 1, 2, 1, 3), values, dict(do="len"), _append(rng, 1, 2, 1, 3)])


class _Cache:
    """Right, in steps that a misconception can replace one by one."""

    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        self.compare(k, v)
        if self.k is None:
            self.k, self.v = k.clone(), v.clone()
        else:
            self.k, self.v = self.join(self.k, k), self.join(self.v, v)
        return self.give(k, v)

    def compare(self, k, v):
        for old, new in ((self.k, k), (self.v, v)):
            if old is not None and (old.shape[:2] != new.shape[:2] or old.shape[-1] != new.shape[-1]):
                raise ValueError("this does not continue what is there")

    def join(self, old, new):
        return torch.cat([old, new], dim=2)

    def give(self, k, v):
        return self.k, self.v

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]

    def reset(self):
        self.k = self.v = None


def _cache_without(**parts):
    return type("KVCache", (_Cache,), parts)


KVCache.misconception(
    "Old and new are joined along the heads (dim=1). Each token brings keys for the same heads: join along the tokens, "
    "dim=2."
)(_cache_without(join=lambda self, old, new: torch.cat([old, new], dim=1)))
KVCache.misconception(
    "Old and new are joined along the width (dim=3 or -1). A key keeps its width: join along the tokens, dim=2."
)(_cache_without(join=lambda self, old, new: torch.cat([old, new], dim=-1)))
KVCache.misconception(
    "Old and new are joined along the batch, which is where `torch.cat` joins unless told otherwise. Join along the "
    "tokens, dim=2."
)(_cache_without(join=lambda self, old, new: torch.cat([old, new])))
KVCache.misconception("The new tokens come before the old ones. The order is that of the text: old first.")(
    _cache_without(join=lambda self, old, new: torch.cat([new, old], dim=2))
)
KVCache.misconception(
    "Only the new keys and values come back. They are kept, but attention needs everything so far: return all that "
    "the cache holds."
)(_cache_without(give=lambda self, k, v: (k, v)))
KVCache.misconception("The new keys and values replace the old ones. Join them to those that the cache holds.")(
    _cache_without(join=lambda self, old, new: new)
)
KVCache.misconception(
    "The current tokens are missing from what comes back. A token attends to itself too: join first, then return."
)(_cache_without(give=lambda self, k, v: (self.k[:, :, : -k.shape[2]], self.v[:, :, : -k.shape[2]])))
KVCache.misconception("Nothing comes back from `append`. Keep the joined tensors and return both.")(
    _cache_without(give=lambda self, k, v: None)
)
KVCache.misconception("Keys and values come back in the wrong order. Keys first.")(
    _cache_without(give=lambda self, k, v: (self.v, self.k))
)
KVCache.misconception(
    "The length is the size of the first axis, which is the batch. Tokens are the third axis, shape[2]."
)(_cache_without(__len__=lambda self: 0 if self.k is None else len(self.k)))
KVCache.misconception("The length counts heads. Tokens are the third axis, shape[2].")(
    _cache_without(__len__=lambda self: 0 if self.k is None else self.k.shape[1])
)
KVCache.misconception("The length is the width of a head. Tokens are the third axis, shape[2].")(
    _cache_without(__len__=lambda self: 0 if self.k is None else self.k.shape[3])
)
KVCache.misconception("The length of an empty cache raises an error. When nothing is held yet, it is 0.")(
    _cache_without(__len__=lambda self: self.k.shape[2])
)
KVCache.misconception("`reset` leaves everything as it was. The next text would be read as the end of this one.")(
    _cache_without(reset=lambda self: None)
)
KVCache.misconception(
    "`reset` returns a new cache and leaves this one as it was. The layer still has this one, so empty this one."
)(_cache_without(reset=lambda self: [0.5]))


@KVCache.misconception("The length counts calls of `append`. A prefill brings many tokens in one call.")
class Calls(_Cache):
    calls = 0

    def append(self, k, v):
        joined = super().append(k, v)
        self.calls += 1
        return joined

    def __len__(self):
        return self.calls

    def reset(self):
        super().reset()
        self.calls = 0


@KVCache.misconception("The length is not set back by `reset`. An empty cache holds 0 tokens.")
class CountsOn(_Cache):
    count = 0

    def append(self, k, v):
        joined = super().append(k, v)
        self.count += k.shape[2]
        return joined

    def __len__(self):
        return self.count


@KVCache.misconception("The values are not kept, only the keys. Both are needed for every later token.")
class KeysOnly(_Cache):
    def append(self, k, v):
        keys, _ = super().append(k, v)
        return keys, v


@KVCache.misconception(
    "The memory reserved is limited, and a longer text does not fit or loses its beginning. Reserve more when it is "
    "full."
)
class Limited(_Cache):
    def append(self, k, v):
        if len(self) + k.shape[2] > 4096:
            raise ValueError("full")
        return super().append(k, v)


@KVCache.misconception(
    "The memory reserved is limited, and a longer text does not fit or loses its beginning. Reserve more when it is "
    "full."
)
class Window(_Cache):
    def join(self, old, new):
        return torch.cat([old, new], dim=2)[:, :, -4096:]


@KVCache.misconception(
    "A batch, a number of heads or a width of 1 is stretched to the size that the cache holds. That is broadcasting, "
    "which assigning to a slice does silently. Compare the sizes and raise ValueError."
)
class Broadcast(_Cache):
    def compare(self, k, v):
        for old, new in ((self.k, k), (self.v, v)):
            if old is not None and any(
                size not in (1, full)
                for size, full in zip((*new.shape[:2], new.shape[3]), (*old.shape[:2], old.shape[3]))
            ):
                raise ValueError("this does not continue what is there")

    def join(self, old, new):
        return torch.cat([old, new.expand(*old.shape[:2], new.shape[2], old.shape[3])], dim=2)


@KVCache.misconception(
    "When the values do not fit, the keys have already been joined, so after the ValueError the cache holds a key "
    "without its value. Join both, then keep both; or check first."
)
class HalfChanged(_Cache):
    def append(self, k, v):
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = self.join(self.k, k)
            self.v = self.join(self.v, v)
        return self.k, self.v


@KVCache.misconception(
    "Only the keys are compared with what the cache holds, not the values. Each has its width, which must stay the "
    "same."
)
class ValuesNotCompared(_Cache):
    def compare(self, k, v):
        super().compare(k, v if self.v is None else self.v)

    def join(self, old, new):
        return torch.cat([old, new.expand(*new.shape[:3], old.shape[3]) if new.shape[3] == 1 else new], dim=2)


@KVCache.misconception("`assert` raises AssertionError, and with `python -O` it raises nothing. Raise ValueError.")
class CacheAsserts(_Cache):
    def compare(self, k, v):
        try:
            super().compare(k, v)
        except ValueError:
            raise AssertionError from None


@KVCache.misconception(
    "The cache changes the dtype. A tensor made with `torch.zeros` or `torch.empty` is float32 unless you say "
    "otherwise; take the dtype of k."
)
class InFloat32(_Cache):
    def append(self, k, v):
        return super().append(k.float(), v.float())


@KVCache.misconception(
    "The memory reserved is on the CPU, wherever keys and values are. Create it like them: `k.new_empty(...)`."
)
class RoomOnTheCPU(_Cache):
    def append(self, k, v):
        self.compare(k, v)
        past = len(self)
        for name, new in (("k", k), ("v", v)):
            old = getattr(self, name)
            room = torch.empty(*new.shape[:2], past + new.shape[2], new.shape[3], dtype=new.dtype)
            if past:
                room[:, :, :past] = old
            room[:, :, past:] = new
            setattr(self, name, room)
        return self.k, self.v


# GroupedQueryAttention -----------------------------------------------------------------------------------------------

GroupedQueryAttention = Exercise(solutions.GroupedQueryAttention, section=LAYER, minutes=25, difficulty=3)


def _layer(rng, d_model, n_heads, n_kv_heads, batch, n, names="qkvo", dtype=torch.float64, **init):
    """A layer, weights of variance 1 / d_model for the maps named, and tokens."""
    narrow = n_kv_heads * (d_model // n_heads)
    rows = dict(q=d_model, k=narrow, v=narrow, o=d_model)
    weights = {f"W_{name}.weight": normal(rng, rows[name], d_model, dtype=dtype) * 1.5 / d_model**0.5 for name in names}
    return dict(
        init=dict(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, **init),
        weights=weights,
        x=normal(rng, batch, n, d_model, dtype=dtype),
    )


@GroupedQueryAttention.property(
    "has narrow maps for keys and values, and no bias",
    points=1,
    hint="W_q and W_o are nn.Linear(d_model, d_model, bias=False). W_k and W_v have n_kv_heads * d_head outputs.",
)
def structure(rng):
    for n_kv_heads, base in ((2, {}), (1, dict(base=500.0))):
        n_heads = n_kv_heads * int(rng.integers(2, 5))
        d_model = 2 * n_heads * int(rng.integers(1, 5))
        yield dict(init=dict(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, **base))


@GroupedQueryAttention.property(
    "without a cache, is causal attention with rotated queries and keys",
    points=2,
    **ROTATED,
    hint="Project, split, rotate q and k at positions 0 to n - 1 with self.base, repeat keys and values, scores over "
    "the square root of d_head, hide later keys, softmax, times the values, merge, W_o.",
)
def one_pass(rng):
    yield _layer(rng, d_model=4, n_heads=1, n_kv_heads=1, batch=1, n=3)
    yield _layer(rng, d_model=8, n_heads=2, n_kv_heads=2, batch=1, n=4)
    yield _layer(rng, d_model=12, n_heads=3, n_kv_heads=1, batch=2, n=3, base=30.0)


@GroupedQueryAttention.property(
    "keeps hidden keys hidden, whatever the scores",
    points=1,
    rtol=0.01,
    atol=0.01,
    hint="Set hidden scores to minus infinity, `-torch.inf`. A score may be lower than any finite number you choose.",
)
def hidden_for_good(rng):
    # All scores are about -10 ** 12: a number that all tokens share goes into a pair that hardly turns.
    case = _layer(rng, d_model=4, n_heads=1, n_kv_heads=1, batch=1, n=4, base=1e16)
    case["x"][..., 0] = 1.0
    for name, shared in (("W_q.weight", 1.4e6), ("W_k.weight", -1.4e6)):
        case["weights"][name][1::2] = 0.0
        case["weights"][name][1, 0] = shared
    yield case


@GroupedQueryAttention.property(
    "lets neighboring query heads share a key and a value",
    points=2,
    **ROTATED,
    hint="`repeat_kv` by n_heads // n_kv_heads, for keys and values alike.",
)
def shared(rng):
    yield _layer(rng, d_model=8, n_heads=4, n_kv_heads=2, batch=1, n=3)
    yield _layer(rng, d_model=12, n_heads=6, n_kv_heads=2, batch=2, n=2)


@GroupedQueryAttention.property(
    "keeps the future out, and lets the past in",
    points=1,
    probe=probes.moved,
    hint="Replace one token: no earlier row may move, not by a single bit, and every row from there on must.",
)
def future(rng):
    case = _layer(rng, d_model=8, n_heads=4, n_kv_heads=2, batch=2, n=5)
    changed = case["x"].clone()
    changed[:, 2] = normal(rng, 2, 8)
    yield dict(**case, name="x", replacement=changed)


@GroupedQueryAttention.property(
    "reads token by token with a cache what it reads in one pass",
    points=2,
    probe=probes.in_chunks,
    **ROTATED,
    hint="Read `len(cache)` before you append: that is the position of the first new token. Rotate, append, and "
    "continue with what `append` returns. An empty cache is a cache as well: write `cache is not None`.",
)
def token_by_token(rng):
    yield dict(**_layer(rng, d_model=4, n_heads=1, n_kv_heads=1, batch=1, n=3), cuts=[1, 2])
    yield dict(**_layer(rng, d_model=8, n_heads=2, n_kv_heads=2, batch=2, n=4), cuts=[2, 3])


@GroupedQueryAttention.property(
    "reads in chunks what it reads in one pass",
    points=2,
    probe=probes.in_chunks,
    **ROTATED,
    hint="In a chunk of several tokens, the first must not see the second. Token i of the chunk has position "
    "len(cache) + i and sees every key up to there: the mask is (n_new, n_all), and its last row is all True. The "
    "cache is given n_kv_heads heads; repeat the heads that it returns.",
)
def in_chunks(rng):
    yield dict(**_layer(rng, d_model=4, n_heads=1, n_kv_heads=1, batch=1, n=4), cuts=[2])
    yield dict(**_layer(rng, d_model=8, n_heads=2, n_kv_heads=1, batch=1, n=6, base=50.0), cuts=[1, 4])
    yield dict(**_layer(rng, d_model=4, n_heads=2, n_kv_heads=1, batch=3, n=3), cuts=[])


@GroupedQueryAttention.property(
    "keeps two texts with two caches apart",
    points=1,
    probe=probes.in_chunks,
    **ROTATED,
    hint="One layer may read many texts in turn. Everything that is remembered of a text belongs in its cache, and "
    "not in `self`.",
)
def apart(rng):
    yield dict(
        **_layer(rng, d_model=4, n_heads=2, n_kv_heads=2, batch=1, n=4), cuts=[2, 3], beside=normal(rng, 1, 5, 4)
    )
    yield dict(
        **_layer(rng, d_model=4, n_heads=2, n_kv_heads=2, batch=1, n=4), cuts=[1, 2], beside=normal(rng, 2, 4, 4)
    )


@GroupedQueryAttention.property(
    "has the right gradients",
    points=1,
    probe=probes.gradients,
    rtol=1e-4,
    atol=1e-5,
    hint="Use only tensor operations; detach nothing.",
)
def right_gradients(rng):
    yield dict(
        **_layer(rng, d_model=4, n_heads=2, n_kv_heads=1, batch=1, n=3, names="kv"), upstream=[normal(rng, 1, 3, 4)]
    )


@GroupedQueryAttention.property(
    "keeps the precision and the device of its tokens, also in chunks",
    points=1,
    probe=probes.elsewhere,
    rtol=0.1,
    atol=0.1,
    hint="Weights and tokens in float32 give float32, and bfloat16 gives bfloat16. Create new tensors with the dtype "
    "of x, and with `device=x.device`.",
)
def precision_and_device(rng):
    sizes = dict(d_model=8, n_heads=2, n_kv_heads=2, batch=1)
    yield dict(**_layer(rng, **sizes, n=3, dtype=torch.float32))
    yield dict(probe="in_chunks", **_layer(rng, **sizes, n=4, dtype=torch.float32), cuts=[2])
    yield dict(**_layer(rng, **sizes, n=3, dtype=torch.bfloat16))


@GroupedQueryAttention.property(
    "refuses sizes that do not fit",
    points=1,
    probe=probes.error_of,
    **ROTATED,
    hint="ValueError in __init__ when n_heads does not divide d_model, when n_kv_heads does not divide n_heads, and "
    "when d_head is odd.",
)
def sizes(rng):
    for d_model, n_heads, n_kv_heads in ((10, 4, 2), (12, 6, 4), (8, 2, 4), (12, 4, 2)):
        yield dict(init=dict(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads))
    yield _layer(rng, d_model=8, n_heads=4, n_kv_heads=2, batch=1, n=2)


@GroupedQueryAttention.property(
    "leaves its tokens as they were",
    points=1,
    probe=probes.unchanged,
    **ROTATED,
    hint="Operations whose name ends in an underscore, and `+=`, write into their tensor. Do not use them on a tensor "
    "that the caller passed in.",
)
def layer_is_new(rng):
    yield _layer(rng, d_model=4, n_heads=2, n_kv_heads=1, batch=1, n=3, names="q")


class _Steps(solutions.GroupedQueryAttention):
    """Right, in steps that a misconception can replace one by one."""

    hidden = -torch.inf

    def forward(self, x, cache=None):
        cache = self.open(cache)
        past = 0 if cache is None else self.past(cache)
        q, k, v = self.project(x)
        q, k = self.rotate(q, k, past)
        new = k.shape[2]
        v = self.turn_values(v, past)
        if cache is not None:
            k, v = self.remember(cache, k, v, past)
        allowed = self.allowed(new, k.shape[2], cache, past, x.device)
        k, v = self.share(k), self.share(v)
        scores = self.score(q, k)
        if allowed is not None:
            scores = torch.where(allowed, scores, self.hidden)
        return self.finish(self.weigh(scores) @ v)

    def open(self, cache):
        return cache

    def past(self, cache):
        return len(cache)

    def project(self, x):
        return (
            split_heads(self.W_q(x), self.n_heads),
            split_heads(self.W_k(x), self.n_kv_heads),
            split_heads(self.W_v(x), self.n_kv_heads),
        )

    def at(self, x, first):
        """x turned as tokens at positions first, first + 1, ..."""
        return apply_rope(x, torch.arange(first, first + x.shape[2], device=x.device), self.base)

    def rotate(self, q, k, past):
        return self.at(q, past), self.at(k, past)

    def turn_values(self, v, past):
        return v

    def remember(self, cache, k, v, past):
        return cache.append(k, v)

    def allowed(self, new, total, cache, past, device):
        return torch.ones(new, total, dtype=torch.bool, device=device).tril(total - new)

    def share(self, heads):
        return _repeat(heads, self.n_heads // self.n_kv_heads)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.shape[-1])

    def weigh(self, scores):
        return torch.softmax(scores, dim=-1)

    def finish(self, heads):
        return self.W_o(merge_heads(heads))


def _layer_without(**parts):
    return type("GroupedQueryAttention", (_Steps,), parts)


GroupedQueryAttention.misconception(
    "The key/value heads are repeated in the order 0 1 0 1, so query heads meet the wrong ones. Neighboring query "
    "heads share a head, 0 0 1 1: use `repeat_kv`.",
    section=REPEAT,
)(_layer_without(share=lambda self, heads: _tile(heads, self.n_heads // self.n_kv_heads)))
GroupedQueryAttention.misconception(
    "The scores are divided by the square root of d_model. A dot product runs over one head, d_head numbers."
)(_layer_without(score=lambda self, q, k: q @ k.mT / math.sqrt(self.W_q.in_features)))
GroupedQueryAttention.misconception("The scores are not scaled. Divide them by the square root of d_head.")(
    _layer_without(score=lambda self, q, k: q @ k.mT)
)
GroupedQueryAttention.misconception("The scores are divided by d_head itself. Use its square root.")(
    _layer_without(score=lambda self, q, k: q @ k.mT / q.shape[-1])
)
GroupedQueryAttention.misconception(
    "The values are rotated as well. A position should change the weights and not what is averaged: rotate queries and "
    "keys only.",
    section=POSITIONS,
)(_layer_without(turn_values=lambda self, v, past: self.at(v, past)))
GroupedQueryAttention.misconception(
    "The keys are not rotated. A score depends on the distance only if both are rotated.", section=POSITIONS
)(_layer_without(rotate=lambda self, q, k, past: (self.at(q, past), k)))
GroupedQueryAttention.misconception(
    "The queries are not rotated. A score depends on the distance only if both are rotated.", section=POSITIONS
)(_layer_without(rotate=lambda self, q, k, past: (q, self.at(k, past))))
GroupedQueryAttention.misconception(
    "Nothing is rotated, so the scores do not depend on the order of the tokens. Apply RoPE to queries and keys.",
    section=POSITIONS,
)(_layer_without(rotate=lambda self, q, k, past: (q, k)))
GroupedQueryAttention.misconception(
    "`base` is not passed on, so RoPE uses its default. Keep it in __init__ and pass it to `apply_rope`.",
    section=POSITIONS,
)(_layer_without(at=lambda self, x, first: apply_rope(x, torch.arange(first, first + x.shape[2], device=x.device))))
GroupedQueryAttention.misconception(
    "The pairs are neighbors (2i, 2i + 1). This course uses half-split pairs: `apply_rope`.", section=POSITIONS
)(
    _layer_without(
        at=lambda self, x, first: apply_rope_interleaved(
            x, torch.arange(first, first + x.shape[2], device=x.device), self.base
        )
    )
)
GroupedQueryAttention.misconception(
    "The position starts at 0 for every chunk. The first new token comes after those in the cache, at len(cache).",
    section=POSITIONS,
)(_layer_without(rotate=lambda self, q, k, past: (self.at(q, 0), self.at(k, 0))))
GroupedQueryAttention.misconception(
    "The positions of the queries are too small, by as many tokens as the cache holds: they start at 0 in each chunk, "
    "or else all keys that come back are rotated from len(cache) on. Key j is at j, and new token i at len(cache) + i.",
    section=POSITIONS,
)(_layer_without(rotate=lambda self, q, k, past: (self.at(q, 0), self.at(k, past))))
GroupedQueryAttention.misconception(
    "The tokens of the cache are counted twice: the new positions start at twice len(cache). They start at len(cache), "
    "once.",
    section=POSITIONS,
)(_layer_without(rotate=lambda self, q, k, past: (self.at(q, 2 * past), self.at(k, 2 * past))))
GroupedQueryAttention.misconception(
    "All tokens of a chunk get the same position. The first is at len(cache), the next at len(cache) + 1, and so on. "
    "For `apply_rope` the tokens are the axis before the last: split and transpose first, then rotate.",
    section=POSITIONS,
)(_layer_without(at=lambda self, x, first: apply_rope(x, torch.full((x.shape[2],), first, device=x.device), self.base)))
GroupedQueryAttention.misconception(
    "Keys that were rotated before they went into the cache are rotated again when they are read. Once is enough: a "
    "key's position never changes.",
    section=POSITIONS,
)(
    _layer_without(
        remember=lambda self, cache, k, v, past: [
            turn(kept) for turn, kept in zip((lambda keys: self.at(keys, 0), lambda values: values), cache.append(k, v))
        ]
    )
)
GroupedQueryAttention.misconception(
    "No key is hidden: a token sees those after it. The layer is causal without a cache as well.", section=MASK
)(_layer_without(allowed=lambda self, *given: None))
GroupedQueryAttention.misconception(
    "The mask is aligned to the top left, so new tokens see only the oldest keys. `is_causal=True` does the same. "
    "Token i of a chunk is at len(cache) + i: with n_k keys, shift the diagonal by n_k - n_q.",
    section=MASK,
)(
    _layer_without(
        allowed=lambda self, new, total, cache, past, device: torch.ones(new, total, device=device).tril().bool()
    )
)
GroupedQueryAttention.misconception(
    "The mask is aligned to the top left, so new tokens see only the oldest keys. `is_causal=True` does the same. "
    "Token i of a chunk is at len(cache) + i: with n_k keys, shift the diagonal by n_k - n_q.",
    section=MASK,
)(
    _layer_without(
        allowed=lambda self, new, total, cache, past, device: (
            torch.ones(new, total, device=device).tril().bool() if new > 1 else None
        )
    )
)
_UNMASKED = (
    "With a cache there is no mask, so a token sees those that came in the same chunk after it. That is right "
    "for a chunk of one token only."
)
GroupedQueryAttention.misconception(_UNMASKED, section=MASK)(
    _layer_without(
        allowed=lambda self, new, total, cache, past, device: (
            None if cache is not None else torch.ones(new, total, device=device).tril().bool()
        )
    )
)
GroupedQueryAttention.misconception(_UNMASKED, section=MASK)(
    _layer_without(
        allowed=lambda self, new, total, cache, past, device: (
            None if past else torch.ones(new, total, device=device).tril().bool()
        )
    )
)
GroupedQueryAttention.misconception(
    "A token does not see itself, and the first sees nothing at all, which gives nan. Hide the keys of later tokens, "
    "not the token's own.",
    section=MASK,
)(
    _layer_without(
        allowed=lambda self, new, total, cache, past, device: (
            torch.ones(new, total, device=device).tril(total - new - 1).bool()
        )
    )
)
for _number in (-1e4, -1e9):
    GroupedQueryAttention.misconception(
        "Hidden scores are set to a large negative number, and some score is lower still. Use minus infinity.",
        section=MASK,
    )(_layer_without(hidden=_number))
GroupedQueryAttention.misconception(
    "The mask is on the CPU, wherever x is, so the two cannot be combined. Create it with `device=x.device`.",
    section=MASK,
)(_layer_without(allowed=lambda self, new, total, cache, past, device: torch.ones(new, total).tril(total - new).bool()))
GroupedQueryAttention.misconception(
    "The mask lets one key too many through: each token sees the one after it.", section=MASK
)(
    _layer_without(
        allowed=lambda self, new, total, cache, past, device: (
            torch.ones(new, total, device=device).tril(total - new + 1).bool()
        )
    )
)
GroupedQueryAttention.misconception(
    "The cache stays empty, so each chunk is read as if nothing had come before it. `if cache:` is False for a new "
    "cache, since its length is 0: write `cache is not None`, and append to it.",
    section=CACHE,
)(_layer_without(open=lambda self, cache: None))
GroupedQueryAttention.misconception(
    "Each chunk is read as if nothing had come before it, though its keys go into the cache. Either the keys "
    "and values that `append` returns are not used; or the layer resets the cache, which only the caller may do.",
    section=CACHE,
)(_layer_without(remember=lambda self, cache, k, v, past: (cache.append(k, v), (k, v))[1]))
GroupedQueryAttention.misconception(
    "The key/value heads are repeated before they go into the cache. The numbers are right, but every head is kept "
    "n_heads / n_kv_heads times, so nothing is saved. Append first, then repeat what comes back.",
    section=LAYER,
)(
    _layer_without(
        remember=lambda self, cache, k, v, past: [
            kept[:, :: self.n_heads // self.n_kv_heads]
            for kept in cache.append(*(_repeat(new, self.n_heads // self.n_kv_heads) for new in (k, v)))
        ]
    )
)
GroupedQueryAttention.misconception(
    "What comes back from `append` is unpacked in the wrong order: keys come first, then values.", section=CACHE
)(_layer_without(remember=lambda self, cache, k, v, past: cache.append(k, v)[::-1]))
GroupedQueryAttention.misconception(
    "The softmax runs over the queries (dim=-2). The weights of each query sum to 1: the keys are the last axis."
)(_layer_without(weigh=lambda self, scores: torch.softmax(scores, dim=-2)))
GroupedQueryAttention.misconception("W_o is missing: the merged heads are returned as they are.")(
    _layer_without(finish=lambda self, heads: merge_heads(heads))
)


@GroupedQueryAttention.misconception(
    "The keys go into the cache before they are rotated, and come back unrotated. Rotate first, or rotate all that "
    "come back, each at its own position.",
    section=POSITIONS,
)
class CachedUnrotated(_Steps):
    def rotate(self, q, k, past):
        self.unrotated = k
        return super().rotate(q, k, past)

    def remember(self, cache, k, v, past):
        return cache.append(self.unrotated, v)


@GroupedQueryAttention.misconception(
    "The queries are rotated after `append`, when `len(cache)` already counts the new tokens, so their positions "
    "are too large by a whole chunk. Read the length before you append.",
    section=POSITIONS,
)
class LengthAfterAppend(_Steps):
    def forward(self, x, cache=None):
        self.with_cache = cache is not None
        return super().forward(x, cache)

    def rotate(self, q, k, past):
        return self.at(q, past + self.with_cache * q.shape[2]), self.at(k, past)


@GroupedQueryAttention.misconception(
    "The layer keeps keys and values in `self` and not in the cache that it is given. Two texts that are read in turn "
    "then get mixed up. Everything remembered of a text belongs in its cache.",
    section=CACHE,
)
class OwnCache(_Steps):
    def open(self, cache):
        if cache is not None and not hasattr(self, "kept"):
            self.kept = _Cache()
        return None if cache is None else self.kept


@GroupedQueryAttention.misconception(
    "The layer counts positions in `self`. Another text with another cache starts at 0 again, so the start is "
    "len(cache).",
    section=POSITIONS,
)
class OwnCounter(_Steps):
    seen = 0

    def past(self, cache):
        return self.seen

    def remember(self, cache, k, v, past):
        self.seen += k.shape[2]
        return super().remember(cache, k, v, past)

    def allowed(self, new, total, cache, past, device):
        return super().allowed(new, total, cache, past, device)


@GroupedQueryAttention.misconception(
    "The maps of keys and values are as wide as that of the queries. They make n_kv_heads * d_head numbers; making "
    "more and throwing some away would save nothing.",
    section=REPEAT,
)
class WideMaps(_Steps):
    def __init__(self, d_model, n_heads, n_kv_heads, base=10000.0):
        super().__init__(d_model, n_heads, n_kv_heads, base)
        self.W_k, self.W_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))


@GroupedQueryAttention.misconception("The maps have biases. nn.Linear adds one unless you say bias=False.")
class Biases(_Steps):
    def __init__(self, d_model, n_heads, n_kv_heads, base=10000.0):
        super().__init__(d_model, n_heads, n_kv_heads, base)
        narrow = self.W_k.out_features
        self.W_q, self.W_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.W_k, self.W_v = nn.Linear(d_model, narrow), nn.Linear(d_model, narrow)


@GroupedQueryAttention.misconception(
    "The weights are returned along with the output. Here forward returns the output alone."
)
class WithWeights(_Steps):
    def forward(self, x, cache=None):
        output = super().forward(x, cache)
        return output, output.new_zeros(x.shape[0], self.n_heads, x.shape[1], x.shape[1])


@GroupedQueryAttention.misconception(
    "No gradient arrives: the layer works under `torch.no_grad()` or on detached tensors, and could never be trained."
)
class NoGradient(_Steps):
    def forward(self, x, cache=None):
        with torch.no_grad():
            return super().forward(x, cache)


def _made(check):
    """The layer with other checks in __init__; where nothing fits, it is made of the nearest sizes that do."""

    class Checked(_Steps):
        def __init__(self, d_model, n_heads, n_kv_heads, base=10000.0):
            check(d_model, n_heads, n_kv_heads)
            d_head = d_model // n_heads
            super().__init__(
                max(2, d_head - d_head % 2) * n_heads, n_heads, n_kv_heads if n_heads % n_kv_heads == 0 else 1, base
            )

    return Checked


@GroupedQueryAttention.misconception(
    "n_kv_heads need not divide n_heads here. The key/value heads serve groups of equal size; raise ValueError.",
    section=REPEAT,
)
@_made
def any_groups(d_model, n_heads, n_kv_heads):
    if d_model % n_heads or d_model // n_heads % 2:
        raise ValueError("these sizes do not fit")


@GroupedQueryAttention.misconception(
    "A head of odd width is accepted. RoPE rotates pairs of numbers; raise ValueError in __init__, where the sizes are "
    "chosen.",
    section=POSITIONS,
)
@_made
def odd_width(d_model, n_heads, n_kv_heads):
    if d_model % n_heads or n_heads % n_kv_heads:
        raise ValueError("these sizes do not fit")


@GroupedQueryAttention.misconception(
    "`assert` raises AssertionError, and with `python -O` it raises nothing. Raise ValueError."
)
@_made
def layer_asserts(d_model, n_heads, n_kv_heads):
    assert d_model % n_heads == 0 and n_heads % n_kv_heads == 0 and d_model // n_heads % 2 == 0


# kv_cache_bytes ------------------------------------------------------------------------------------------------------

kv_cache_bytes = Exercise(solutions.kv_cache_bytes, section=MEMORY, minutes=5, difficulty=1)


@kv_cache_bytes.property(
    "counts a key and a value for each layer, head and token",
    points=1,
    hint="For each token there is one key and one value, d_head numbers each, in each key/value head of each layer.",
)
def counts(rng):
    yield dict(n_layers=1, n_kv_heads=1, d_head=4, seq_len=3)
    yield dict(n_layers=32, n_kv_heads=8, d_head=128, seq_len=8192)
    for layers, heads, width, tokens in rng.integers((2, 2, 3, 5), (40, 17, 130, 3000), size=(3, 4)).tolist():
        yield dict(n_layers=layers, n_kv_heads=heads, d_head=width, seq_len=tokens)


@kv_cache_bytes.property(
    "counts bytes of other numbers, and a batch",
    points=1,
    hint="Every text of the batch has its own cache. float32 has 4 bytes, float16 and bfloat16 have 2.",
)
def counts_batches(rng):
    yield dict(n_layers=30, n_kv_heads=3, d_head=64, seq_len=7, bytes_per_element=4)
    yield dict(n_layers=2, n_kv_heads=3, d_head=5, seq_len=7, bytes_per_element=1, batch=11)
    yield dict(n_layers=3, n_kv_heads=2, d_head=8, seq_len=int(rng.integers(10, 1000)), batch=int(rng.integers(2, 40)))


@kv_cache_bytes.property(
    "is a whole number, and 0 before the first token",
    points=1,
    probe=probes.whole,
    hint="A product of whole numbers is whole. Nothing needs to be divided; `/` makes a float.",
)
def whole_bytes(rng):
    layers, heads, tokens = (int(size) for size in rng.integers((2, 2, 10), (40, 17, 99)))
    yield dict(n_layers=layers, n_kv_heads=heads, d_head=6, seq_len=tokens)
    yield dict(n_layers=layers, n_kv_heads=heads, d_head=6, seq_len=0)
    yield dict(n_layers=layers, n_kv_heads=heads, d_head=6, seq_len=tokens, bytes_per_element=4, batch=3)


def _wrong_bytes(text, count):
    @kv_cache_bytes.misconception(text)
    def wrong(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element=2, batch=1):
        return count(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element, batch)


_wrong_bytes(
    "The 2 is missing: each token has a key and a value.",
    lambda layers, heads, width, tokens, size, batch: layers * heads * width * tokens * size * batch,
)
_wrong_bytes(
    "The layers are missing. Each has its own cache.",
    lambda layers, heads, width, tokens, size, batch: 2 * heads * width * tokens * size * batch,
)
_wrong_bytes(
    "The key/value heads are missing. Each has its own keys and values.",
    lambda layers, heads, width, tokens, size, batch: 2 * layers * width * tokens * size * batch,
)
_wrong_bytes(
    "The width is missing: a key is d_head numbers.",
    lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * tokens * size * batch,
)
_wrong_bytes(
    "The tokens enter squared. The scores are n by n, but they are not kept; a cache grows by one row per token.",
    lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * width * tokens**2 * size * batch,
)
_wrong_bytes(
    "`batch` is not used. Every text of the batch has its own cache.",
    lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * width * tokens * size,
)
_wrong_bytes(
    "`bytes_per_element` is not used; you count 2 bytes for every number.",
    lambda layers, heads, width, tokens, size, batch: 4 * layers * heads * width * tokens * batch,
)
_wrong_bytes(
    "This counts numbers. Multiply by the bytes per number.",
    lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * width * tokens * batch,
)
_wrong_bytes(
    "This counts bits. A byte has eight of them, and the result should be in bytes.",
    lambda layers, heads, width, tokens, size, batch: 16 * layers * heads * width * tokens * size * batch,
)
_wrong_bytes(
    "This is in kibibytes, rounded down. The result should be in bytes.",
    lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * width * tokens * size * batch // 1024,
)
_wrong_bytes(
    "One token too many is counted. seq_len is the number of tokens that the cache holds.",
    lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * width * (tokens + 1) * size * batch,
)
_wrong_bytes(
    "The 2 for key and value is counted twice. bytes_per_element is the size of a single number.",
    lambda layers, heads, width, tokens, size, batch: 4 * layers * heads * width * tokens * size * batch,
)


_wrong_bytes(
    "The result is a float. Bytes are whole numbers, and `/` makes a float even if there is no remainder.",
    lambda layers, heads, width, tokens, size, batch: 2 * layers * heads * width * tokens * (8 * size / 8) * batch,
)


@kv_cache_bytes.misconception("A cache without tokens is refused. Before the first token it is empty: 0 bytes.")
def no_tokens_refused(n_layers, n_kv_heads, d_head, seq_len, bytes_per_element=2, batch=1):
    if seq_len < 1:
        raise ValueError("no tokens")
    return 2 * n_layers * n_kv_heads * d_head * seq_len * bytes_per_element * batch


# quantize_cache ------------------------------------------------------------------------------------------------------

quantize_cache = Exercise(solutions.quantize_cache, section=BYTE, bonus=True, minutes=15, difficulty=2)


def _rows(rng, *shape, dtype=torch.float64):
    """Rows whose largest entries differ and are negative as often as not; no quotient is close to a half."""
    while True:
        x = (normal(rng, *shape) * torch.from_numpy(rng.uniform(0.2, 5.0, (*shape[:-1], 1)))).to(dtype)
        codes = x.double() / (x.double().abs().amax(-1, keepdim=True) / 127)
        if ((codes - codes.floor() - 0.5).abs() > 0.02).all():
            return x


@quantize_cache.property(
    "rounds each row to whole numbers of its own scale",
    points=3,
    rtol=1e-6,
    atol=1e-9,
    hint="scale = largest absolute value of the row / 127, with keepdim=True; codes = (x / scale).round(), as int8. "
    "The row (0.5, -2.54, 1.2) gets the scale 0.02 and the codes 25, -127, 60.",
)
def whole_codes(rng):
    yield dict(x=torch.tensor([[[[0.5, -2.54, 1.2], [0.1, 0.05, 1.27]]]], dtype=torch.float64))
    yield dict(x=_rows(rng, 1, 1, 3, 4))
    yield dict(x=_rows(rng, 2, 3, 2, 5))


@quantize_cache.property(
    "gives zeros for a row of zeros",
    points=1,
    rtol=1e-6,
    atol=1e-9,
    hint="The scale of a row of zeros is 0, and 0 / 0 is nan. Divide by 1 where the scale is 0.",
)
def zero_rows(rng):
    x = _rows(rng, 1, 2, 3, 4)
    x[0, 1, 1] = 0.0
    yield dict(x=x)


@quantize_cache.property(
    "has a scale like x, and works on any device",
    points=1,
    probe=probes.elsewhere,
    rtol=0.01,
    atol=1e-6,
    hint="The scale has the dtype and the device of x. In float16 and bfloat16, compute in float32 first, so that "
    "codes are right to the last unit.",
)
def code_kinds(rng):
    yield dict(x=_rows(rng, 1, 1, 3, 4, dtype=torch.float32))
    yield dict(x=_rows(rng, 1, 2, 2, 4, dtype=torch.bfloat16))


@quantize_cache.property(
    "keeps a byte per number",
    points=1,
    probe=probes.whole,
    rtol=1e-6,
    atol=1e-9,
    hint="`.to(torch.int8)`: rounded floats would take as much memory as before.",
)
def one_byte(rng):
    yield dict(x=_rows(rng, 1, 1, 2, 4))


@quantize_cache.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    rtol=1e-6,
    atol=1e-9,
    hint="`/=` and `round_()` write into the caller's tensor.",
)
def quantized_is_new(rng):
    yield dict(x=_rows(rng, 1, 1, 2, 4))


def _wrong_codes(text):
    """Declares a misconception: wrong(x) in float32 or wider, codes and scale of any dtype."""

    def declare(f):
        def wrong(x):
            codes, scale = f(x.to(torch.promote_types(x.dtype, torch.float32)))
            return codes if codes.dtype == torch.uint8 else codes.to(torch.int8), scale.to(x.dtype)

        wrong.__name__ = f.__name__
        quantize_cache.misconception(text, section=BYTE)(wrong)
        return f

    return declare


def _safe(scale):
    return torch.where(scale > 0, scale, 1.0)


def _largest(x, dim=-1):
    return x.abs().amax(dim=dim, keepdim=True)


@_wrong_codes("Fractions are cut off: converting to int8 does not round. Call `round()` first.")
def cut_off(x):
    scale = _largest(x) / 127
    return (x / _safe(scale)).trunc(), scale


@_wrong_codes("Fractions are rounded down. `round()` takes the nearest whole number, and halves the error.")
def rounded_down(x):
    scale = _largest(x) / 127
    return (x / _safe(scale)).floor(), scale


@_wrong_codes(
    "The scale is the largest value divided by 128. Then the largest entry becomes 128, which an int8 does not have: "
    "it turns into -128. Divide by 127."
)
def by_128(x):
    scale = _largest(x) / 128
    codes = (x / _safe(scale)).round()
    return torch.where(codes > 127, codes - 256, codes), scale


@_wrong_codes("The scale is twice the largest value divided by 255. Codes go from -127 to 127, so divide by 127.")
def by_255(x):
    scale = 2 * _largest(x) / 255
    return (x / _safe(scale)).round(), scale


@_wrong_codes("There is one scale for the whole tensor. Each row needs its own, or short rows lose their figures.")
def one_scale(x):
    scale = (x.abs().max() / 127).expand(*x.shape[:-1], 1)
    return (x / scale).round(), scale


@_wrong_codes("There is one scale per head. Each token has its own: the largest value along the last axis.")
def scale_per_head(x):
    scale = (x.abs().amax(dim=(-1, -2), keepdim=True) / 127).expand(*x.shape[:-1], 1)
    return (x / _safe(scale)).round(), scale


@_wrong_codes("The scale belongs to a column and not to a row: the largest value is taken over the tokens. Use dim=-1.")
def scale_per_column(x):
    scale = _largest(x, dim=-2) / 127
    return (x / _safe(scale)).round(), scale


@_wrong_codes("The scale is made from the largest value, and not from the largest absolute value.")
def signed_largest(x):
    scale = x.amax(dim=-1, keepdim=True) / 127
    return (x / torch.where(scale == 0, 1.0, scale)).round().clamp(-127, 127), scale


@_wrong_codes("Codes are shifted so that the smallest entry becomes 0. Here they are symmetric: 0 stays 0.")
def shifted(x):
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    scale = (high - low) / 254
    return ((x - low) / _safe(scale)).round() - 127, scale


@_wrong_codes("Codes are uint8, which has no negative numbers. Use torch.int8.")
def unsigned(x):
    scale = _largest(x) / 127
    return ((x / _safe(scale)).round() + 128).to(torch.uint8), scale


@_wrong_codes("Scale and codes are exchanged in the division: x / scale, and not scale / x.")
def turned_over(x):
    scale = _largest(x) / 127
    return (scale / torch.where(x == 0, 1.0, x)).round(), scale


@_wrong_codes(
    "The scale is turned over: 127 divided by the largest value. Multiplied by it, codes would not come back."
)
def scale_turned_over(x):
    scale = 127 / _safe(_largest(x))
    return (x * scale).round(), scale * (_largest(x) > 0)


@quantize_cache.misconception(
    "A row of zeros is divided by its scale, which is 0: that is nan, and as an int8 any number.", section=BYTE
)
def zero_divided(x):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = _largest(wide) / 127
    return (wide / scale).round().nan_to_num(77.0).to(torch.int8), scale.to(x.dtype)


@quantize_cache.misconception(
    "The codes take more than a byte each, as rounded floats or as a wider kind of whole number. Use torch.int8.",
    section=BYTE,
)
def codes_as_floats(x):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = _largest(wide) / 127
    return (wide / _safe(scale)).round().to(x.dtype), scale.to(x.dtype)


@quantize_cache.misconception(
    "Scale and codes come back in the wrong order: codes first, then the scale.", section=BYTE
)
def scale_first(x):
    codes, scale = solutions.quantize_cache(x)
    return scale, codes


@quantize_cache.misconception(
    "The scale lacks the last axis, (batch, n_kv_heads, n). It should be (batch, n_kv_heads, n, 1), which broadcasts: "
    "keepdim=True.",
    section=BYTE,
)
def scale_without_axis(x):
    codes, scale = solutions.quantize_cache(x)
    return codes, scale[..., 0]


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **The common beginning is exact.** Under the causal mask the keys and values of the 2000 tokens depend on these
   tokens and their positions alone, in every layer, whatever follows. Every conversation has them at the same
   positions, so a copy of the caches holds what reading would give. Half a point if the argument stops at the first
   layer.
2. **Joined documents are not, for two reasons.** Positions: each document was read from position 0, so its keys are
   rotated as if it came first, and several tokens have the same position. Contents: from the second layer on, keys and
   values should be made from tokens that have read the documents before them, but these documents were read alone; for
   the same reason the order matters. The first can be repaired: rotations add up, so the keys of a document can be
   rotated further by its offset (or be cached unrotated). The second cannot, short of reading again. Half a point for
   one reason with its remedy, or for both without any remedy.
3. **A test in numbers.** Read the same prompt in one pass and with the joined caches, and compare the logits, or the
   output of every layer, within rounding; with at least two layers and at least two documents, since with one layer and
   corrected positions nothing shows. Half a point for comparing texts only: greedy text may stay the same while logits
   differ by several units.

Model answer. "The first is exact. A token reads only tokens before it, so what the instructions become in any layer
does not depend on the conversation, and they are always at positions 0 to 1999. The second is not. Every document was
read at positions 0, 1, 2, ..., so the keys are rotated wrongly if it comes later; that could be repaired by rotating
them further by the offset. But a document's tokens should also have read the documents before it. In layer 1 this
changes no key, from layer 2 on it changes all of them, and no rotation repairs that. I would take two short documents,
compute the logits in one pass and with joined caches, and compare them to 1e-4; then again with one layer and corrected
positions, where they should agree."
""",
)
