"""Exercises of the caching chapter: what must hold, on which inputs, and what people get wrong.

Angles are float32 by contract, whatever the dtype of x, and right answers may compute them in several ways. So rotated
results are compared to about five digits, and the mistakes here are off by far more.
"""

import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal, numbered
from course.kit.hunt import Hunt
from course.right_answers.kv_cache import RIGHT
from solutions import kv_cache as solutions
from solutions.rope import apply_rope_interleaved  # noqa: F401 - an edit uses it

ROTATED = dict(rtol=1e-4, atol=1e-5)
ROUNDED = dict(rtol=1e-6, atol=1e-9)
REPEAT = "Fewer keys and values than queries"
CACHE = "A store for keys and values"
LAYER = "The layer with a cache"
POSITIONS = "What positions do the new tokens get?"
MASK = "Which keys may a chunk see?"
MEMORY = "How large a cache gets"
BYTE = "Keys and values of one byte ★"
HUNT = "Hunt bugs ★"


# repeat_kv -----------------------------------------------------------------------------------------------------------

repeat_kv = Exercise(solutions.repeat_kv, section=REPEAT, minutes=5, difficulty=1)


@repeat_kv.property(
    "repeats each head next to itself",
    points=2,
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
    hint="n_rep = 1 gives x again. A single head is repeated n_rep times. The numbers keep their dtype.",
)
def repeat_extremes(rng):
    yield dict(x=normal(rng, 2, 1, 3, 4), n_rep=5)
    yield dict(x=normal(rng, 2, 3, 4, 2), n_rep=1)
    yield dict(x=normal(rng, 2, 1, 3, 4, dtype=torch.bfloat16), n_rep=3)


@repeat_kv.property(
    "takes heads as `split_heads` gives them",
    points=1,
    probe=probes.layout,
    hint="Such a tensor is a transposed view: its rows do not lie one behind the other in memory, so `.view(...)` may "
    "refuse it. Use `reshape` or `repeat_interleave`.",
)
def views(rng):
    yield dict(x=normal(rng, 2, 3, 4, 2), n_rep=2)


repeat_kv.gradients(
    lambda rng: dict(x=normal(rng, 1, 2, 3, 2), n_rep=3, upstream=[normal(rng, 1, 6, 3, 2)]),
    title="adds up the gradients of the copies",
    hint="Use only tensor operations: `.detach()`, `.data`, NumPy and lists of numbers cut the gradient.",
)

REPEAT_HEADS = "x.repeat_interleave(n_rep, dim=1)"

repeat_kv.mistakes(
    edit(REPEAT_HEADS, "torch.cat([x] * n_rep, dim=1)",
         "The whole row of heads is repeated: 0 1 0 1. That is what `repeat`, `tile` and `cat` do. Neighboring query "
         "heads share a head, so the order is 0 0 1 1, as `repeat_interleave` gives it."),
    edit("dim=1", "dim=2",
         "The tokens are repeated. The heads are the second axis, dim=1."),
    edit("dim=1", "dim=0",
         "The batch is repeated. The heads are the second axis, dim=1."),
    edit("dim=1", "dim=3",
         "The width of the heads is repeated. The heads are the second axis, dim=1."),
    edit(", dim=1", "",
         "Without `dim`, `repeat_interleave` flattens everything first and repeats single numbers. Say dim=1."),
    edit(".repeat_interleave(n_rep, dim=1)", "",
         "Nothing is repeated: x comes back with as many heads as it had. It should have n_rep times as many."),
    edit(REPEAT_HEADS, "torch.stack([x] * n_rep, dim=2)",
         "The copies are on a separate axis, (batch, n_kv_heads, n_rep, n, d). Join it with the heads."),
    edit("(n_rep, dim=1", "(n_rep + 1, dim=1",
         "n_rep counts all copies of a head, the original included. Your result has one copy too many."),
    edit("dim=1)", "dim=1)[:, :n_rep]",
         "n_rep is used as the number of heads of the result. It is the number of copies of each head."),
    edit(REPEAT_HEADS, "torch.kron(x, torch.ones(1, n_rep, 1, 1))",
         "The heads are right, but narrow numbers become float32. `torch.ones` makes float32 unless you say otherwise, "
         "and a product has the wider dtype of the two. Repeat without arithmetic, or give `dtype=x.dtype`."),
    edit(REPEAT_HEADS, "x.view(*x.shape[:2], 1, -1).expand(-1, -1, n_rep, -1).reshape(len(x), -1, *x.shape[2:])",
         "`.view` needs numbers that lie one behind the other in memory. `split_heads` gives a transposed view, where "
         "they do not: use `reshape`, which copies if it must."),
    edit("dim=1)", "dim=1).detach()",
         "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors without a "
         "gradient."),
)  # fmt: skip


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
    "with values (which may be wider or narrower), keep the result and return both.",
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
def is_empty(rng):
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


def _two_dtypes(rng):
    for dtype in (torch.float32, torch.bfloat16):
        yield dict(probe="steps", init={}, steps=[_append(rng, 1, 2, n, 1, dtype=dtype) for n in (2, 1)])
    yield dict(probe="steps", init={}, steps=[_append(rng, 1, 2, 1, 1), _append(rng, 1, 2, 2, 1)])


KVCache.any_device(
    _two_dtypes,
    title="keeps the kind of number, and the device",
    hint="bfloat16 in, bfloat16 out, and float64 for float64. If you create tensors, create them like k: "
    "`k.new_empty(...)` has its dtype and device.",
)


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
        tried = [_append(rng, *shape) for shape in ((2, 2, 1, 2), *others)]
        yield dict(init={}, steps=[*tried, dict(do="len"), _append(rng, 2, 2, 1, 2)])
    for width in (1, 2):  # the values change, the keys do not
        values = _append(rng, 1, 2, 1, 3, width=width)
        yield dict(init={}, steps=[_append(rng, 1, 2, 1, 3), values, dict(do="len"), _append(rng, 1, 2, 1, 3)])


JOINED, RETURN = "torch.cat(pair, dim=2)", "return self.kept"
LENGTH = "0 if self.kept is None else self.kept[0].shape[2]"
RESET = "-> None:\n        self.kept = None"
SIZES_DIFFER = "old.shape[:2] != new.shape[:2] or old.shape[3] != new.shape[3]"
LIMITED = (
    "The memory reserved is limited, and a longer text does not fit or loses its beginning. Reserve more when it is "
    "full."
)

KVCache.mistakes(
    edit("dim=2", "dim=1",
         "Old and new are joined along the heads (dim=1). Each token brings keys for the same heads: join along the "
         "tokens, dim=2."),
    edit("dim=2", "dim=-1",
         "Old and new are joined along the width (dim=3 or -1). A key keeps its width: join along the tokens, dim=2."),
    edit(", dim=2", "",
         "Old and new are joined along the batch, which is where `torch.cat` joins unless told otherwise. Join along "
         "the tokens, dim=2."),
    edit("cat(pair", "cat(pair[::-1]",
         "The new tokens come before the old ones. The order is that of the text: old first."),
    edit(RETURN, "return k, v",
         "Only the new keys and values come back. They are kept, but attention needs everything so far: return all "
         "that the cache holds."),
    edit(JOINED, "pair[1]",
         "The new keys and values replace the old ones. Join them to those that the cache holds."),
    edit(RETURN, "return tuple(kept[:, :, : -k.shape[2]] for kept in self.kept)",
         "The current tokens are missing from what comes back. A token attends to itself too: join first, then "
         "return."),
    edit(RETURN, "return None",
         "Nothing comes back from `append`. Keep the joined tensors and return both."),
    edit(RETURN, "return self.kept[::-1]",
         "Keys and values come back in the wrong order. Keys first."),
    edit("self.kept[0].shape[2]", "len(self.kept[0])",
         "The length is the size of the first axis, which is the batch. Tokens are the third axis, shape[2]."),
    edit("kept[0].shape[2]", "kept[0].shape[1]",
         "The length counts heads. Tokens are the third axis, shape[2]."),
    edit("kept[0].shape[2]", "kept[0].shape[3]",
         "The length is the width of a head. Tokens are the third axis, shape[2]."),
    edit(LENGTH, "(self.kept or [None])[0].shape[2]",
         "The length of an empty cache raises an error. When nothing is held yet, it is 0."),
    edit(RESET, "-> None:\n        pass",
         "`reset` leaves everything as it was. The next text would be read as the end of this one."),
    edit(RESET, f"{RESET}\n        return self",
         "`reset` returns something, the cache itself perhaps. It empties the cache and returns nothing."),
    edit(RESET, "-> None:\n        return [0.5]",
         "`reset` returns a new cache and leaves this one as it was. The layer still has this one, so empty this one."),
    edit("self.kept[0].shape[2]", "self.calls",
         "The length counts calls of `append`. A prefill brings many tokens in one call.",
         also={"self.kept = (k, v)": "self.kept, self.calls = (k, v), 0",
               RETURN: "self.calls += 1\n        return self.kept"}),
    edit(LENGTH, "self.count",
         "The length is not set back by `reset`. An empty cache holds 0 tokens.",
         also={"def __init__": "count = 0\n\n    def __init__",
               RETURN: "self.count += k.shape[2]\n        return self.kept"}),
    edit(RETURN, "return self.kept[0], v",
         "The values are not kept, only the keys. Both are needed for every later token."),
    edit("if self.kept is None:",
         "if len(self) + k.shape[2] > 4096:\n            raise ValueError('full')\n        if self.kept is None:",
         LIMITED),
    edit(JOINED, f"{JOINED}[:, :, -4096:]", LIMITED),
    edit(SIZES_DIFFER, "False",
         "A batch, a number of heads or a width of 1 is stretched to the size that the cache holds. That is "
         "broadcasting, which assigning to a slice does silently. Compare the sizes and raise ValueError.",
         also={JOINED: "torch.cat([pair[0], pair[1].expand(*pair[0].shape[:2], -1, pair[0].shape[3])], dim=2)"}),
    edit(SIZES_DIFFER, "False",
         "When the values do not fit, the keys have already been joined, so after the ValueError the cache holds a key "
         "without its value. Join both, then keep both; or check first.",
         also={f"self.kept = tuple({JOINED} for pair in zip(self.kept, (k, v)))":
               "self.kept = (torch.cat([self.kept[0], k], dim=2), self.kept[1])\n"
               "            self.kept = (self.kept[0], torch.cat([self.kept[1], v], dim=2))"}),
    edit("or (), (k, v)", "or (), [k]",
         "Only the keys are compared with what the cache holds, not the values. Each has its width, which must stay "
         "the same.",
         also={JOINED: "torch.cat([pair[0], pair[1].expand(-1, -1, -1, pair[0].shape[3])], dim=2)"}),
    edit('raise ValueError(f"{tuple(new', 'assert not (f"{tuple(new',
         "`assert` raises AssertionError, and with `python -O` it raises nothing. Raise ValueError."),
    edit("if self.kept is None:", "torch.stack([k, v])\n        if self.kept is None:",
         "Keys and values must be equally wide here, as they must in one tensor, or with one shape for both. Values "
         "may be wider or narrower than keys: keep two tensors, each with a width of its own."),
    edit("if self.kept is None:", "k, v = k.float(), v.float()\n        if self.kept is None:",
         "The cache changes the dtype. A tensor made with `torch.zeros` or `torch.empty` is float32 unless you say "
         "otherwise; take the dtype of k."),
    edit(RETURN, "return tuple(part.cpu() for part in self.kept)",
         "The memory reserved is on the CPU, wherever keys and values are. Create it like them: `k.new_empty(...)`."),
)  # fmt: skip


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


def _small(rng, names):
    return _layer(rng, d_model=4, n_heads=2, n_kv_heads=1, batch=1, n=3, names=names)


def _kinds(rng):
    sizes = dict(d_model=8, n_heads=2, n_kv_heads=2, batch=1)
    yield _layer(rng, **sizes, n=3, dtype=torch.float32)
    yield dict(probe="in_chunks", **_layer(rng, **sizes, n=4, dtype=torch.float32), cuts=[2])
    yield _layer(rng, **sizes, n=3, dtype=torch.bfloat16)


def _sizes(rng):
    for d_model, n_heads, n_kv_heads in ((10, 4, 2), (12, 6, 4), (8, 2, 4), (12, 4, 2)):
        yield dict(init=dict(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads))
    yield _layer(rng, d_model=8, n_heads=4, n_kv_heads=2, batch=1, n=2)


GroupedQueryAttention.gradients(
    lambda rng: dict(**_small(rng, "kv"), upstream=[normal(rng, 1, 3, 4)]),
    title="has the right gradients",
    rtol=1e-4,
    atol=1e-5,
)
GroupedQueryAttention.any_device(
    _kinds,
    title="keeps the precision and the device of its tokens, also in chunks",
    rtol=0.1,
    atol=0.1,
    hint="Weights and tokens in float32 give float32, and bfloat16 gives bfloat16. Create new tensors with the dtype "
    "of x, and with `device=x.device`.",
)
GroupedQueryAttention.refuses(
    _sizes,
    **ROTATED,
    hint="ValueError in __init__ when n_heads does not divide d_model, when n_kv_heads does not divide n_heads, and "
    "when d_head is odd.",
)
GroupedQueryAttention.unchanged(
    lambda rng: _small(rng, "q"),
    title="leaves its tokens as they were, and keeps nothing",
    **ROTATED,
    hint="Operations whose name ends in an underscore, and `+=`, write into their tensor. Do not use them on a tensor "
    "that the caller passed in.",
)

QUERIES = "split_heads(self.W_q(x), self.n_heads)"
KEYS = "split_heads(self.W_k(x), self.n_kv_heads)"
VALUES = "split_heads(self.W_v(x), self.n_kv_heads)"
QUERIES_AT, KEYS_AT = f"{QUERIES}, positions", f"{KEYS}, positions"
SPLIT_BY_VIEW = (
    "Queries, keys or values are cut into heads by a `reshape` or `view` alone, which mixes tokens and heads: cut the "
    "last axis, then exchange axes. Use `split_heads`."
)
REPEATED = "k, v = (repeat_kv(kept, self.n_heads // self.n_kv_heads) for kept in (k, v))"
MASKED = "scores.masked_fill(later, -math.inf)"
MAPS = """
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)"""

GroupedQueryAttention.mistakes(
    edit(REPEAT_HEADS, "torch.cat([x] * n_rep, dim=1)",
         "The key/value heads are repeated in the order 0 1 0 1, so query heads meet the wrong ones. Neighboring query "
         "heads share a head, 0 0 1 1: use `repeat_kv`.", see=REPEAT),
    edit("math.sqrt(q.shape[-1])", "math.sqrt(self.W_q.in_features)",
         "The scores are divided by the square root of d_model. A dot product runs over one head, d_head numbers."),
    edit(" / math.sqrt(q.shape[-1])", "",
         "The scores are not scaled. Divide them by the square root of d_head."),
    edit(QUERIES, "self.W_q(x).reshape(len(x), self.n_heads, x.shape[1], -1)", SPLIT_BY_VIEW),
    edit(KEYS, "self.W_k(x).reshape(len(x), self.n_kv_heads, x.shape[1], -1)", SPLIT_BY_VIEW),
    edit(VALUES, "self.W_v(x).reshape(len(x), self.n_kv_heads, x.shape[1], -1)", SPLIT_BY_VIEW),
    edit("merge_heads(weights @ v)", "(weights @ v).reshape(*x.shape[:2], -1)",
         "The heads are merged by a `reshape` or `view` alone, which mixes heads and tokens: their axes must be "
         "exchanged first. Use `merge_heads`."),
    edit("math.sqrt(q.shape[-1])", "q.shape[-1]",
         "The scores are divided by d_head itself. Use its square root."),
    edit(VALUES, f"apply_rope({VALUES}, positions, self.base)",
         "The values are rotated as well. A position should change the weights and not what is averaged: rotate "
         "queries and keys only.", see=POSITIONS),
    edit(f"apply_rope({KEYS}, positions, self.base)", KEYS,
         "The keys are not rotated. A score depends on the distance only if both are rotated.", see=POSITIONS),
    edit(f"apply_rope({QUERIES}, positions, self.base)", QUERIES,
         "The queries are not rotated. A score depends on the distance only if both are rotated.", see=POSITIONS),
    edit(f"apply_rope({QUERIES}, positions, self.base)", QUERIES,
         "Nothing is rotated, so the scores do not depend on the order of the tokens. Apply RoPE to queries and keys.",
         see=POSITIONS, also={f"apply_rope({KEYS}, positions, self.base)": KEYS}),
    edit("self.base = n_heads, n_kv_heads, base", "self.base = n_heads, n_kv_heads, 10000.0",
         "`base` is not passed on, so RoPE uses its default. Keep it in __init__ and pass it to `apply_rope`.",
         see=POSITIONS),
    edit("q = apply_rope(", "q = apply_rope_interleaved(",
         "The pairs are neighbors (2i, 2i + 1). This course uses half-split pairs: `apply_rope`.",
         see=POSITIONS, also={"k = apply_rope(": "k = apply_rope_interleaved("}),
    edit(QUERIES_AT, QUERIES_AT + " - past",
         "The position starts at 0 for every chunk. The first new token comes after those in the cache, at "
         "len(cache).", see=POSITIONS, also={KEYS_AT: KEYS_AT + " - past"}),
    edit(QUERIES_AT, QUERIES_AT + " - past",
         "The positions of the queries are too small, by as many tokens as the cache holds: they start at 0 in each "
         "chunk, or else all keys that come back are rotated from len(cache) on. Key j is at j, and new token i at "
         "len(cache) + i.", see=POSITIONS),
    edit(QUERIES_AT, QUERIES_AT + " + past",
         "The tokens of the cache are counted twice: the new positions start at twice len(cache). They start at "
         "len(cache), once.", see=POSITIONS, also={KEYS_AT: KEYS_AT + " + past"}),
    edit(QUERIES_AT, QUERIES_AT + " * 0 + past",
         "All tokens of a chunk get the same position. The first is at len(cache), the next at len(cache) + 1, and so "
         "on. For `apply_rope` the tokens are the axis before the last: split and transpose first, then rotate.",
         see=POSITIONS, also={KEYS_AT: KEYS_AT + " * 0 + past"}),
    edit("cache.append(k, v)",
         "cache.append(k, v)\n            k = apply_rope(k, torch.arange(k.shape[2], device=x.device), self.base)",
         "Keys that were rotated before they went into the cache are rotated again when they are read. Once is enough: "
         "a key's position never changes.", see=POSITIONS),
    edit(MASKED, "scores",
         "No key is hidden: a token sees those after it. The layer is causal without a cache as well.", see=MASK),
    edit("positions[:, None]", "positions[:, None] - past{}",
         "The mask is aligned to the top left, so new tokens see only the oldest keys. `is_causal=True` does the same. "
         "Token i of a chunk is at len(cache) + i: with n_k keys, shift the diagonal by n_k - n_q.",
         see=MASK, each=("", " * (x.shape[1] > 1)")),
    edit(MASKED, f"({MASKED} if cache is None else scores)",
         "With a cache, a token sees those that came in the same chunk after it: there is no mask, or its positions "
         "are counted from a `len(cache)` that was read after `append`. That is right for a chunk of one token only.",
         see=MASK),
    edit(MASKED, f"({MASKED} if past == 0 else scores)",
         "The first chunk is masked and later ones are not, so there a token sees those that came in the same chunk "
         "after it. That is right for a chunk of one token only.", see=MASK),
    edit("> positions", ">= positions",
         "A token does not see itself, and the first sees nothing at all, which gives nan. Hide the keys of later "
         "tokens, not the token's own.", see=MASK),
    edit("-math.inf", "{}",
         "Hidden scores are set to a large negative number, and some score is lower still. Use minus infinity.",
         see=MASK, each=(-1e4, -1e9)),
    edit("k.shape[2], device=x.device)", "k.shape[2])",
         "The mask is on the CPU, wherever x is, so the two cannot be combined. Create it with `device=x.device`.",
         see=MASK),
    edit("positions[:, None]", "positions[:, None] + 1",
         "The mask lets one key too many through: each token sees the one after it.", see=MASK),
    edit("past = 0", "cache = None\n        past = 0",
         "The cache stays empty, so each chunk is read as if nothing had come before it. `if cache:` is False for a "
         "new cache, since its length is 0: write `cache is not None`, and append to it.", see=CACHE),
    edit("k, v = cache.append(k, v)", "cache.append(k, v)",
         "Each chunk is read as if nothing had come before it, though its keys go into the cache. Either the keys and "
         "values that `append` returns are not used; or the layer resets the cache, which only the caller may do.",
         see=CACHE, also={"positions[:, None]": "positions[:, None] - past"}),
    edit("if cache is not None:", f"{REPEATED}\n        if cache is not None:",
         "The key/value heads are repeated before they go into the cache. The numbers are right, but every head is "
         "kept n_heads / n_kv_heads times, so nothing is saved. Append first, then repeat what comes back.",
         see=LAYER, also={REPEATED: "pass"}),
    edit("k, v = cache.append", "v, k = cache.append",
         "What comes back from `append` is unpacked in the wrong order: keys come first, then values.", see=CACHE),
    edit("cache.append(k, v)", "cache.append(k, k)",
         "The keys go into the cache as values too. `append` takes the keys, then the values.", see=CACHE),
    edit("scores.masked_fill(later, -math.inf).softmax(dim=-1, dtype=wide)",
         "(lambda e: e / e.sum(dim=-1, keepdim=True))(scores.masked_fill(later, -math.inf).exp())",
         "No maximum is subtracted, so exponentials of large scores overflow, and infinity divided by infinity is nan. "
         "Use torch.softmax."),
    edit("softmax(dim=-1", "softmax(dim=-2",
         "The softmax runs over the queries (dim=-2). The weights of each query sum to 1: the keys are the last axis."),
    edit("self.W_o(merge_heads(weights @ v))", "merge_heads(weights @ v)",
         "W_o is missing: the merged heads are returned as they are."),
    edit("cache.append(k, v)", f"cache.append({KEYS}, v)",
         "The keys go into the cache before they are rotated, and come back unrotated. Rotate first, or rotate all "
         "that come back, each at its own position.", see=POSITIONS),
    edit(QUERIES_AT, QUERIES_AT + " + (0 if cache is None else x.shape[1])",
         "The queries are rotated after `append`, when `len(cache)` already counts the new tokens, so their positions "
         "are too large by a whole chunk. Read the length before you append.", see=POSITIONS),
    edit("past = 0",
         "cache = cache if cache is None else self.__dict__.setdefault('own_cache', KVCache())\n        past = 0",
         "The layer keeps keys and values in `self` and not in the cache that it is given. Two texts that are read in "
         "turn then get mixed up. Everything remembered of a text belongs in its cache.", see=CACHE),
    edit("len(cache)", "getattr(self, 'seen', 0)",
         "The layer counts positions in `self`. Another text with another cache starts at 0 again, so the start is "
         "len(cache).", see=POSITIONS,
         also={"k, v = cache.append(k, v)": "self.seen = past + x.shape[1]\n            k, v = cache.append(k, v)",
               "positions[:, None]": "(positions[:, None] - past + k.shape[2] - x.shape[1])"}),
    edit(MAPS, MAPS.replace("n_kv_heads * d_head", "d_model"),
         "The maps of keys and values are as wide as that of the queries. They make n_kv_heads * d_head numbers; "
         "making more and throwing some away would save nothing.", see=REPEAT),
    edit(MAPS, MAPS.replace(", bias=False", ""),
         "The maps have biases. nn.Linear adds one unless you say bias=False."),
    edit("merge_heads(weights @ v))", "merge_heads(weights @ v)), weights",
         "The weights are returned along with the output. Here forward returns the output alone."),
    edit("merge_heads(weights @ v))", "merge_heads(weights @ v)).detach()",
         "No gradient arrives: the layer works under `torch.no_grad()` or on detached tensors, and could never be "
         "trained."),
    edit(" or n_heads % n_kv_heads:", ":",
         "n_kv_heads need not divide n_heads here. The key/value heads serve groups of equal size; raise ValueError.",
         see=REPEAT),
    edit("if d_head % 2:", "if False:",
         "A head of odd width is accepted. RoPE rotates pairs of numbers; raise ValueError in __init__, where the "
         "sizes are chosen.", see=POSITIONS),
    edit('raise ValueError(f"width', 'assert not (f"width',
         "`assert` raises AssertionError, and with `python -O` it raises nothing. Raise ValueError.",
         also={'raise ValueError(f"a head': 'assert not (f"a head'}),
)  # fmt: skip


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
    yield dict(n_layers=32, n_kv_heads=8, d_head=128, seq_len=2**20)  # more than a number of 32 bits can hold
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
    odd = 1_000_001 + 2 * int(rng.integers(10**6))  # a product that float32 cannot hold
    yield dict(n_layers=61, n_kv_heads=7, d_head=127, seq_len=odd, batch=3)
    yield dict(n_layers=3, n_kv_heads=2, d_head=8, seq_len=int(rng.integers(10, 1000)), batch=int(rng.integers(2, 40)))


@kv_cache_bytes.property(
    "is a whole number, and 0 before the first token",
    points=1,
    probe=probes.whole,
    hint="A product of whole numbers is whole (`/` would make a float), and a cache that holds 0 tokens takes 0 bytes.",
)
def whole_bytes(rng):
    layers, heads, tokens = (int(size) for size in rng.integers((2, 2, 10), (40, 17, 99)))
    yield dict(n_layers=layers, n_kv_heads=heads, d_head=6, seq_len=tokens)
    yield dict(n_layers=layers, n_kv_heads=heads, d_head=6, seq_len=0)
    yield dict(n_layers=layers, n_kv_heads=heads, d_head=6, seq_len=tokens, bytes_per_element=4, batch=3)


kv_cache_bytes.mistakes(
    edit("seq_len * batch", "(seq_len or 1) * batch",
         "A cache without tokens is counted as if it held one. Before the first token it is empty: 0 bytes."),
    edit("seq_len * batch", "(seq_len * (seq_len + 1) // 2) * batch",
         "1 + 2 + ... + seq_len rows are counted, as if each step stored all tokens again. A cache keeps one row per "
         "token."),
    edit("return 2 * numbers * bytes_per_element", "total = (2 * numbers * bytes_per_element) % 2**32\n"
         "    return total - 2**32 * (total >= 2**31)",
         "The product overflows a number of 32 bits. Multiply Python's whole numbers, which have no limit."),
    edit("return 2 * numbers * bytes_per_element",
         "return 2 * int(torch.tensor(float(numbers))) * bytes_per_element",
         "The product is computed in float32, which holds about seven digits. Multiply Python's whole numbers, which "
         "are exact."),
    edit("2 * numbers", "numbers",
         "The 2 is missing: each token has a key and a value."),
    edit("n_layers * ", "",
         "The layers are missing. Each has its own cache."),
    edit("n_kv_heads * ", "",
         "The key/value heads are missing. Each has its own keys and values."),
    edit("d_head * ", "",
         "The width is missing: a key is d_head numbers."),
    edit("seq_len * batch", "seq_len**2 * batch",
         "The tokens enter squared. The scores are n by n, but they are not kept; a cache grows by one row per token."),
    edit(" * batch", "",
         "`batch` is not used. Every text of the batch has its own cache."),
    edit("numbers * bytes_per_element", "numbers * 2",
         "`bytes_per_element` is not used; you count 2 bytes for every number."),
    edit(" * bytes_per_element", "",
         "This counts numbers. Multiply by the bytes per number."),
    edit("2 * numbers", "16 * numbers",
         "This counts bits. A byte has eight of them, and the result should be in bytes."),
    edit("numbers * bytes_per_element", "numbers * bytes_per_element // 1024",
         "This is in kibibytes, rounded down. The result should be in bytes."),
    edit("seq_len * batch", "(seq_len + 1) * batch",
         "One token too many is counted. seq_len is the number of tokens that the cache holds."),
    edit("2 * numbers", "4 * numbers",
         "The 2 for key and value is counted twice. bytes_per_element is the size of a single number."),
    edit("numbers * bytes_per_element", "numbers * (8 * bytes_per_element / 8)",
         "The result is a float. Bytes are whole numbers, and `/` makes a float even if there is no remainder."),
    edit("seq_len < 0", "seq_len < 1",
         "A cache without tokens is refused. Before the first token it is empty: 0 bytes."),
)  # fmt: skip


# quantize_cache ------------------------------------------------------------------------------------------------------

quantize_cache = Exercise(solutions.quantize_cache, section=BYTE, bonus=True, minutes=15, difficulty=2)


def _rows(rng, *shape, dtype=torch.float64):
    """Rows whose largest entries differ and are negative as often as not; no quotient is close to a half."""
    while True:
        x = (normal(rng, *shape) * torch.from_numpy(rng.uniform(0.2, 5.0, (*shape[:-1], 1)))).to(dtype)
        codes = x.double() / (x.double().abs().amax(-1, keepdim=True) / 127)
        if ((codes - codes.floor() - 0.5).abs() > 0.02).all():
            return x


def _narrow_rows(rng):
    """Rows in bfloat16 in which some codes are wrong if the division is in bfloat16.

    The codes are the same whether or not the scale is rounded before the division: both are right.
    """
    while True:
        x = _rows(rng, 1, 2, 3, 4, dtype=torch.bfloat16)
        scale = x.double().abs().amax(-1, keepdim=True) / 127
        codes, rounded = x.double() / scale, x.double() / scale.bfloat16().double()
        narrow = (x / scale.bfloat16()).double()
        clear = ((rounded - rounded.floor() - 0.5).abs() > 0.02).all() and torch.equal(codes.round(), rounded.round())
        if clear and (narrow.round() != codes.round()).sum() >= 2:
            return x


@quantize_cache.property(
    "rounds each row to whole numbers of its own scale",
    points=3,
    **ROUNDED,
    hint="scale = largest absolute value of the row / 127, with keepdim=True; codes = (x / scale).round(), as int8. "
    "The row (0.5, -2.54, 1.2) gets the scale 0.02 and the codes 25, -127, 60.",
)
def whole_codes(rng):
    yield dict(x=torch.tensor([[[[0.5, -2.54, 1.2], [0.1, 0.05, 1.27]]]], dtype=torch.float64))
    yield dict(x=_rows(rng, 1, 1, 3, 4))
    yield dict(x=_rows(rng, 2, 3, 2, 5))
    yield dict(x=1e-7 * _rows(rng, 1, 2, 2, 3))
    yield dict(x=torch.tensor([[[[1e39, -5e38]]]], dtype=torch.float64))  # beyond float32


@quantize_cache.property(
    "gives zeros for a row of zeros",
    points=1,
    **ROUNDED,
    hint="The scale of a row of zeros is 0, and 0 / 0 is nan. Divide by 1 where the scale is 0.",
)
def zero_rows(rng):
    x = _rows(rng, 1, 2, 3, 4)
    x[0, 1, 1] = 0.0
    yield dict(x=x)


quantize_cache.any_device(
    lambda rng: [
        dict(x=_rows(rng, 1, 1, 3, 4, dtype=torch.float32)),
        dict(x=_narrow_rows(rng)),
    ],
    title="has a scale like x, and works on any device",
    rtol=0.00785,  # a scale may be off by a step of bfloat16, 1 / 128, but no code by one, at least 1 / 127
    atol=1e-6,
    hint="The scale has the dtype and the device of x. In float16 and bfloat16, compute in float32 first, so that "
    "codes are right to the last unit.",
)


@quantize_cache.property(
    "keeps a byte per number",
    points=1,
    probe=probes.whole,
    **ROUNDED,
    hint="`.to(torch.int8)`: rounded floats would take as much memory as before.",
)
def two_rows(rng):
    yield dict(x=_rows(rng, 1, 1, 2, 4))


quantize_cache.unchanged(
    two_rows,
    title="leaves its input as it was",
    **ROUNDED,
    hint="`/=` and `round_()` write into the caller's tensor.",
)

quantize_cache.mistakes(
    edit("torch.promote_types(x.dtype, torch.float32)", "x.dtype",
         "Narrow numbers are divided in their own dtype. In bfloat16, numbers between 64 and 128 are 0.5 apart, so "
         "some codes come out wrong by one. Compute in float32, and bring only the scale back to the dtype of x."),
    edit("scale.where(scale > 0, 1.0)", "{}",
         "Something small is added to every scale, or is the least that it may be, to save a row of zeros from 0/0. "
         "Rows of small numbers then get other codes. Treat only the scale that is 0.",
         each=(*(f"(scale + {least})" for least in (1e-5, 1e-6, 1e-8)),
               *(f"scale.clamp(min={least})" for least in (1e-5, 1e-6, 1e-8)))),
    edit("torch.promote_types(x.dtype, torch.float32)", "torch.float32",
         "Double precision is computed in single, which overflows beyond 3e38 and keeps half of the digits. Compute in "
         "float32 only what is narrower."),
    edit(".round()", ".trunc()",
         "Fractions are cut off: converting to int8 does not round. Call `round()` first."),
    edit(".round()", ".floor()",
         "Fractions are rounded down. `round()` takes the nearest whole number, and halves the error."),
    edit("/ 127", "/ 128",
         "The scale is the largest value divided by 128. Then the largest entry becomes 128, which an int8 does not "
         "have: it turns into -128. Divide by 127.",
         also={"codes.to(torch.int8)": "codes.where(codes < 128, codes - 256).to(torch.int8)"}),
    edit("/ 127", "* 2 / 255",
         "The scale is twice the largest value divided by 255. Codes go from -127 to 127, so divide by 127."),
    edit("amax(dim=-1, keepdim=True)", "max().expand(*x.shape[:-1], 1)",
         "There is one scale for the whole tensor. Each row needs its own, or short rows lose their figures."),
    edit("dim=-1, keepdim=True)", "dim=(-1, -2), keepdim=True).expand(*x.shape[:-1], 1)",
         "There is one scale per head. Each token has its own: the largest value along the last axis."),
    edit("dim=-1", "dim=-2",
         "The scale belongs to a column and not to a row: the largest value is taken over the tokens. Use dim=-1."),
    edit("wide.abs()", "wide",
         "The scale is made from the largest value, and not from the largest absolute value.",
         also={"scale > 0": "scale != 0", ".round()": ".round().clamp(-127, 127)"}),
    edit("wide.abs().amax(dim=-1, keepdim=True) / 127",
         "(wide.amax(-1, keepdim=True) - wide.amin(-1, keepdim=True)) / 254",
         "Codes are shifted so that the smallest entry becomes 0. Here they are symmetric: 0 stays 0.",
         also={"(wide /": "((wide - wide.amin(-1, keepdim=True)) /", ".round()": ".round() - 127"}),
    edit("codes.to(torch.int8)", "(codes + 128).to(torch.uint8)",
         "Codes are uint8, which has no negative numbers. Use torch.int8."),
    edit("wide / scale.where(scale > 0, 1.0)", "scale / wide.where(wide != 0, 1.0)",
         "Scale and codes are exchanged in the division: x / scale, and not scale / x."),
    edit("scale.to(x.dtype)", "scale.where(scale == 0, 1 / scale).to(x.dtype)",
         "The scale is turned over: 127 divided by the largest value. Multiplied by it, codes would not come back."),
    edit("scale.where(scale > 0, 1.0)", "scale",
         "A row of zeros is divided by its scale, which is 0: that is nan, and as an int8 any number.",
         also={".round()": ".round().nan_to_num(77.0)"}),
    edit("codes.to(torch.int8)", "codes.to(x.dtype)",
         "The codes take more than a byte each, as rounded floats or as a wider kind of whole number. Use torch.int8."),
    edit("codes.to(torch.int8), scale.to(x.dtype)", "scale.to(x.dtype), codes.to(torch.int8)",
         "Scale and codes come back in the wrong order: codes first, then the scale."),
    edit("scale.to(x.dtype)", "scale.to(x.dtype)[..., 0]",
         "The scale lacks the last axis, (batch, n_kv_heads, n). It should be (batch, n_kv_heads, n, 1), which "
         "broadcasts: keepdim=True."),
    see=BYTE,
)  # fmt: skip


# test_KVCache ------------------------------------------------------------------------------------------------------

test_KVCache = Hunt(
    solutions.test_KVCache,
    section=HUNT,
    minutes=15,
    difficulty=2,
    of=KVCache,
    right=RIGHT,
    worth=3,
    methods=["append", "__len__", "reset"],
    errors=True,
)

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
   rotated as if it came first, and several tokens have the same position. Contents: after the first layer, keys and
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
changes no key; in later layers it changes all of them, and no rotation repairs that. I would take two short documents,
compute the logits in one pass and with joined caches, and compare them to 1e-4; then again with one layer and corrected
positions, where they should agree."
""",
)
