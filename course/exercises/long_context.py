"""Exercises on longer texts and smaller caches: what must hold, on which inputs, and what people get wrong.

Angles are float32 by contract, whatever the dtype of x, and right answers may compute them in several ways. So rotated
results are compared to about five digits, and the mistakes here are off by far more.
"""

import numpy as np
import torch

from attnlab.checking import probes
from course.kit.cached_layers import (
    ALL_FROM_0,
    DEFAULT_BASE,
    DEFAULT_EPS,
    EMPTY_CACHE,
    FINITE,
    MASK_FROM_0,
    MASK_ON_THE_CPU,
    MERGED_BY_VIEW,
    NO_GRADIENT,
    NO_MAXIMUM,
    NOT_MAPPED_BACK,
    OVER_QUERIES,
    OWN_CACHE,
    POSITIONS_FROM_0,
    PRECISION,
    ROTATED,
    UNCHANGED,
    WITH_BIASES,
)
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import long_context as solutions

IN_CHUNKS = dict(probe=probes.in_chunks, **ROTATED)
STRETCH = "Frequencies for longer texts"
LATENT = "A latent in place of keys and values"
INDEX = "An index that chooses keys"

# scaled_rope_frequencies ---------------------------------------------------------------------------------------------

scaled_rope_frequencies = Exercise(solutions.scaled_rope_frequencies, section=STRETCH, minutes=15, difficulty=2)
LLAMA = dict(low=1.0, high=4.0)
SLOW = dict(rtol=1e-5, atol=1e-10)  # slow pairs turn by a millionth per token


@scaled_rope_frequencies.property(
    "keeps fast pairs and divides slow ones",
    points=2,
    **SLOW,
    hint="The wavelength of a pair is 2 pi / frequency, in tokens. Below original_length / high the frequency stays; "
    "above original_length / low it is divided by the factor.",
)
def kept_or_divided(rng):
    # Wavelengths 6.3, 63, 628 and 6283 tokens, none of them between the two limits.
    yield dict(d_head=8, base=10000.0, factor=8.0, **LLAMA, original_length=4096)
    yield dict(d_head=8, base=10000.0, factor=float(rng.integers(2, 6)), **LLAMA, original_length=400)


@scaled_rope_frequencies.property(
    "mixes the two in between",
    points=2,
    **SLOW,
    hint="The share kept is (original_length / wavelength - low) / (high - low): 1 at the fast limit, 0 at the slow "
    "one. The rest is divided by the factor.",
)
def mixed(rng):
    yield dict(d_head=8, base=10000.0, factor=4.0, **LLAMA, original_length=1500)
    yield dict(d_head=128, base=500000.0, factor=8.0, **LLAMA, original_length=8192)
    d_head, base, factor = 2 * int(rng.integers(12, 30)), float(rng.integers(200, 3000)), float(rng.integers(2, 9))
    yield dict(d_head=d_head, base=base, factor=factor, **LLAMA, original_length=int(rng.integers(80, 300)))


@scaled_rope_frequencies.property(
    "follows low and high, in every call",
    points=1,
    probe=probes.again,
    **SLOW,
    hint="1 and 4 are Llama's numbers. Use the arguments.",
)
def other_limits(rng):
    yield dict(d_head=32, base=1000.0, factor=8.0, low=2.0, high=3.0, original_length=200)
    yield dict(d_head=32, base=1000.0, factor=3.0, low=0.5, high=12.0, original_length=int(rng.integers(80, 300)))


@scaled_rope_frequencies.property(
    "changes nothing for a factor of 1, and works for a single pair",
    points=1,
    **SLOW,
    hint="With a factor of 1 the result is `rope_frequencies(d_head, base)`. The result has one entry per pair.",
)
def nothing_stretched(rng):
    yield dict(d_head=12, base=float(rng.integers(200, 3000)), factor=1.0, **LLAMA, original_length=100)
    yield dict(d_head=2, base=10000.0, factor=4.0, **LLAMA, original_length=5)


KEPT = "((turns - low) / (high - low)).clamp(0, 1)"
MIXED = "kept * theta + (1 - kept) * theta / factor"

scaled_rope_frequencies.mistakes(
    edit(KEPT, "torch.zeros_like(turns)",
         "Every frequency is divided. Fast pairs tell neighbors apart, and they have turned full circles in training: "
         "they stay as they are."),
    edit(KEPT, "((1 / theta - low) / (high - low)).clamp(0, 1)",
         "Wavelengths are compared with low and high. Those are limits for rotations: how often a pair turns within "
         "original_length.", also={"original_length * theta / (2 * math.pi)": "theta"}),
    edit(KEPT, "((2 * math.pi / theta - low) / (high - low)).clamp(0, 1)",
         "Wavelengths are compared with low and high. Those are limits for rotations: original_length / wavelength."),
    edit(KEPT, "torch.ones_like(turns)",
         "No frequency is changed: this is plain `rope_frequencies`."),
    edit(MIXED, "(1 - kept) * theta + kept * theta / factor",
         "Fast pairs are divided and slow ones are kept. A long wavelength is the one that is not seen in full in "
         "training."),
    edit(KEPT, f"torch.where((turns > low) & (turns < high), (high - turns) / (high - low), {KEPT})",
         "Between the limits the shares are exchanged: near the fast limit nearly all is kept, near the slow one "
         "almost nothing."),
    edit(KEPT, "(turns > low).float()",
         "Between the limits nothing is mixed; the frequency is kept as it is."),
    edit(KEPT, "(turns >= high).float()",
         "Between the limits nothing is mixed; the frequency is divided by the factor."),
    edit(".clamp(0, 1)", "",
         "The mixture does not end at the limits: the share kept goes below 0 or above 1. Clamp it."),
    edit(" / (2 * math.pi)", "",
         "The wavelength lacks 2 pi. A pair that turns by theta per token needs 2 pi / theta tokens for a full "
         "circle."),
    edit(" / (2 * math.pi)", " / 2 * math.pi",
         "A bracket is missing: `x / 2 * pi` divides by 2 and then multiplies by pi. Write `x / (2 * pi)`."),
    edit("(2 * math.pi)", "(2 * math.pi) ** 2",
         "The wavelength is multiplied by 2 pi twice. It is 2 pi / frequency."),
    edit("/ factor", "* factor",
         "Slow frequencies are multiplied by the factor. They must become smaller, so that a circle takes longer."),
    edit(KEPT, "((1 / low - 1 / turns) / (1 / low - 1 / high)).clamp(0, 1)",
         "The mixture is linear in the wavelength. It is linear in original_length / wavelength."),
    edit(MIXED, "1 / (kept / theta + (1 - kept) * factor / theta)",
         "Wavelengths are mixed here. Mix frequencies: the share kept times theta, and the rest times theta / factor. "
         "The mean of two wavelengths is not the wavelength of the mean."),
    edit("= rope_frequencies(d_head, base)", "= rope_frequencies(d_head, base) ** 0.5",
         "The exponent of the frequencies is half of what it should be, before anything is stretched. Pair i has base "
         "** (-2 i / d_head), which is what `rope_frequencies(d_head, base)` returns."),
    edit("= rope_frequencies(d_head, base)", "= rope_frequencies(d_head, base) ** 2",
         "The exponent of the frequencies is twice what it should be, before anything is stretched. Pair i has base "
         "** (-2 i / d_head), which is what `rope_frequencies(d_head, base)` returns."),
    edit(KEPT, "((turns - 1 / high) / (1 / low - 1 / high)).clamp(0, 1)",
         "The limits are original_length times low and times high. Divide by them: the wavelength is compared with "
         "original_length / low and original_length / high."),
    edit("(turns - low) / (high - low)", "(turns - 1.0) / 3.0",
         "The limits are fixed at 1 and 4. Use low and high."),
    edit(MIXED, f"torch.where((kept > 0) & (kept < 1), ({MIXED}) / factor, {MIXED})",
         "The mixture is divided by the factor once more: only the part that is not kept is."),
    edit(MIXED, "theta / factor ** (1 - kept)",
         "The mixture is geometric. It adds share times the frequency and (1 - share) times the divided one."),
    edit("(d_head, base)", "(d_head)",
         "The base is not passed on to `rope_frequencies`, which then uses its default."),
    edit(MIXED, f"2 * math.pi / ({MIXED})",
         "These are wavelengths. The result should be frequencies, in radians per token."),
    edit(MIXED, f"({MIXED}).repeat(2)",
         "Each frequency is there twice. One per pair, d_head / 2 in all."),
    edit("(d_head, base)", "(d_head, base * factor ** (d_head / max(d_head - 2, 1)))",
         "A larger base is used instead (NTK-aware scaling). That stretches each pair by another factor; Llama's rule "
         "looks at the wavelength.", also={MIXED: "theta"}),
)  # fmt: skip


# LatentAttention -----------------------------------------------------------------------------------------------------

LatentAttention = Exercise(solutions.LatentAttention, section=LATENT, minutes=30, difficulty=3)
LATENT_SIZES = dict(d_model=6, n_heads=2, d_head=3, d_rope=2, d_latent=4)


def _latent_layer(rng, d_model, n_heads, d_head, d_rope, d_latent, batch, n, names=None, dtype=torch.float64, **init):
    """A layer, weights of variance about 1 / inputs for the parameters named, and tokens."""
    shapes = {
        "W_q": (n_heads * (d_head + d_rope), d_model),
        "W_down": (d_latent, d_model),
        "W_k_rope": (d_rope, d_model),
        "W_up_k": (n_heads * d_head, d_latent),
        "W_up_v": (n_heads * d_head, d_latent),
        "W_o": (d_model, n_heads * d_head),
    }
    weights = {
        f"{name}.weight": normal(rng, *shape, dtype=dtype) * 1.5 / shape[1] ** 0.5 for name, shape in shapes.items()
    }
    weights["norm.weight"] = (1.2 + 0.6 * normal(rng, d_latent)).to(dtype)
    return dict(
        init=dict(d_model=d_model, n_heads=n_heads, d_head=d_head, d_rope=d_rope, d_latent=d_latent, **init),
        weights={key: value for key, value in weights.items() if names is None or key.split(".")[0] in names},
        x=normal(rng, batch, n, d_model, dtype=dtype),
    )


@LatentAttention.property(
    "has six maps without bias and a norm over the latent",
    points=1,
    hint="W_q to n_heads * (d_head + d_rope), W_down to d_latent, W_k_rope to d_rope, W_up_k and W_up_v from d_latent "
    "to n_heads * d_head, W_o to d_model, each with bias=False; norm is RMSNorm(d_latent, eps).",
)
def latent_structure(rng):
    for d_rope in (2, 4):
        heads, width, d_model = int(rng.integers(2, 4)), int(rng.integers(3, 6)), 4 * int(rng.integers(2, 5))
        yield dict(init=dict(d_model=d_model, n_heads=heads, d_head=width, d_rope=d_rope, d_latent=7))


@LatentAttention.property(
    "adds a plain and a rotated score, however large",
    points=3,
    **ROTATED,
    hint="Norm the latent, make keys and values from it, add plain @ plain and rotated @ rotated, divide by the square "
    "root of d_head + d_rope, hide later keys, softmax, values, merge, W_o.",
)
def latent_one_head(rng):
    yield _latent_layer(rng, d_model=6, n_heads=1, d_head=3, d_rope=2, d_latent=4, batch=1, n=3)
    yield _latent_layer(rng, d_model=6, n_heads=1, d_head=2, d_rope=4, d_latent=3, batch=2, n=4)
    large = _latent_layer(rng, d_model=6, n_heads=1, d_head=3, d_rope=2, d_latent=4, batch=1, n=3)
    large["weights"]["W_q.weight"] *= 1500.0  # exp of a score overflows
    yield large


@LatentAttention.property(
    "takes each head's rows in order, and shares the rotated key",
    points=2,
    **ROTATED,
    hint="Split the heads first, (batch, n_heads, n, d_head + d_rope), then split the last axis: d_head plain numbers, "
    "then d_rope rotated ones. What W_up_k and W_up_v return is split into heads in the same way. The rotated key has "
    "one head, and broadcasting serves all.",
)
def latent_heads(rng):
    yield _latent_layer(rng, d_model=8, n_heads=3, d_head=3, d_rope=2, d_latent=4, batch=1, n=4)
    yield _latent_layer(rng, d_model=6, n_heads=2, d_head=2, d_rope=4, d_latent=5, batch=2, n=3)


@LatentAttention.property(
    "takes base and eps from its arguments",
    points=1,
    **ROTATED,
    hint="Pass `base` to apply_rope, for queries and keys, and `eps` to the norm. Its default here is 1e-6.",
)
def latent_settings(rng):
    sizes = dict(d_model=6, n_heads=2, d_head=2, d_rope=4, d_latent=3, batch=1)
    yield _latent_layer(rng, **sizes, n=4, base=20.0)
    yield _latent_layer(rng, **sizes, n=3, eps=0.5)
    case = _latent_layer(rng, **sizes, n=3)
    yield {**case, "x": 0.002 * case["x"]}


@LatentAttention.property(
    "keeps the future out, and lets the past in",
    points=1,
    probe=probes.moved,
    hint="Replace one token: no earlier row may move, not by a single bit, and every row from there on must.",
)
def latent_future(rng):
    case = _latent_layer(rng, **LATENT_SIZES, batch=2, n=5)
    changed = case["x"].clone()
    changed[:, 2] = normal(rng, 2, 6)
    yield dict(**case, name="x", replacement=changed)
    # Each token scores every key with a million below 0, and each latent says its own value.
    sizes = dict(d_model=2, n_heads=1, d_head=1, d_rope=2, d_latent=2, batch=1)
    case = _latent_layer(rng, **sizes, n=3)
    rows = dict(W_q=[[-1e6, 0], [0, 0], [0, 0]], W_down=[[1, 0], [0, 1]], W_up_k=[[1, 0]], W_up_v=[[0, 1]])
    for name, weight in rows.items():
        case["weights"][f"{name}.weight"] = torch.tensor(weight, dtype=torch.float64)
    case["weights"]["norm.weight"] = torch.ones(2, dtype=torch.float64)
    case["x"] = torch.tensor([[[1, 1], [1, -1], [1, 1]]], dtype=torch.float64)
    yield dict(case, name="x", replacement=case["x"] * torch.tensor([[1, 1], [1, 1], [1, -1]]))


@LatentAttention.property(
    "reads in chunks with a cache what it reads in one pass",
    points=2,
    **IN_CHUNKS,
    hint="Read `len(cache)` before you append: that is the position of the first new token. Norm and rotate, append, "
    "and make keys and values of all that `append` returns. Token i of a chunk sees every key up to len(cache) + i.",
)
def latent_in_chunks(rng):
    yield dict(**_latent_layer(rng, **LATENT_SIZES, batch=1, n=4), cuts=[1, 2, 3])
    yield dict(**_latent_layer(rng, **LATENT_SIZES, batch=2, n=6, base=50.0), cuts=[1, 4])
    yield dict(**_latent_layer(rng, **LATENT_SIZES, batch=1, n=3), cuts=[])


@LatentAttention.property(
    "keeps the normed latent and the rotated key, and nothing else",
    points=1,
    **IN_CHUNKS,
    hint="One call of `append` for each call of forward: the normed latents as (batch, 1, n, d_latent), and the "
    "rotated keys as (batch, 1, n, d_rope). `[:, None]` makes the axis of the heads.",
)
def latent_kept(rng):
    yield dict(**_latent_layer(rng, **LATENT_SIZES, batch=2, n=5), cuts=[2], kept=True)


@LatentAttention.property("keeps two texts with two caches apart", points=1, **IN_CHUNKS, hint=OWN_CACHE)
def latent_apart(rng):
    yield dict(**_latent_layer(rng, **LATENT_SIZES, batch=1, n=4), cuts=[2, 3], beside=normal(rng, 1, 5, 6))


def _narrow_latent_layers(rng):
    sizes = dict(d_model=8, n_heads=2, d_head=4, d_rope=2, d_latent=6, batch=1)
    yield dict(**_latent_layer(rng, **sizes, n=4, dtype=torch.float32))
    yield dict(probe="in_chunks", **_latent_layer(rng, **sizes, n=4, dtype=torch.float32), cuts=[2])
    yield dict(**_latent_layer(rng, **sizes, n=3, dtype=torch.bfloat16))


LatentAttention.gradients(
    lambda rng: dict(
        **_latent_layer(rng, **LATENT_SIZES, batch=1, n=3, names=("W_down", "W_k_rope", "norm")),
        upstream=[normal(rng, 1, 3, 6)],
    ),
    title="has the right gradients",
    **ROTATED,
    hint="Use only tensor operations; detach nothing. The weight of the norm is learned as well.",
)
LatentAttention.any_device(_narrow_latent_layers, **PRECISION)
LatentAttention.unchanged(lambda rng: _latent_layer(rng, **LATENT_SIZES, batch=1, n=3), **UNCHANGED)

PARTS = "split_heads(self.W_q(x), self.n_heads).split([self.d_head, self.d_rope], dim=-1)"
KEY = "apply_rope(self.W_k_rope(x), positions, self.base)"
TWO_SCORES = "(plain @ k.mT + turned @ key.mT) / math.sqrt(self.d_head + self.d_rope)"

LatentAttention.mistakes(
    ALL_FROM_0,
    FINITE,
    edit("self.norm(self.W_down(x))", "self.W_down(x)",
         "The latent is not normed. Norm it after W_down, before it is kept and before keys and values are made from "
         "it."),
    edit("self.norm(self.W_down(x))", "self.W_down(x)",
         "The latent is normed when it is read, and the cache keeps it as it came from W_down. With the same numbers "
         "in the end, each step norms all of the past again. Norm first, then append.",
         also={"up(latent[:, 0])": "up(self.norm(latent[:, 0]))"}),
    edit("up(latent[:, 0])", "up(self.norm(latent[:, 0]))",
         "The latent is normed twice, before it is kept and again when it is read."),
    edit(KEY, "self.W_k_rope(x)",
         "The shared key is not rotated. It is there to carry the positions: rotate it as the second part of the "
         "query."),
    edit(KEY, "self.W_k_rope(x)",
         "The cache keeps the shared key before its rotation, and all keys are rotated when they are read. The numbers "
         "are right, but each step rotates all of the past again. Rotate first, then append.",
         also={"@ key.mT": "@ apply_rope(key, torch.arange(key.shape[2], device=x.device), self.base).mT"}),
    edit("apply_rope(turned, positions, self.base)", "turned",
         "The query is not rotated. A score depends on the distance only if both sides are."),
    edit(PARTS, "split_heads(self.W_q(x), self.n_heads).split([self.d_rope, self.d_head], dim=-1)[::-1]",
         "In each head, the rotated part of the query comes first. The first d_head numbers are the plain ones."),
    edit(PARTS,
         "(split_heads(part, self.n_heads) for part in self.W_q(x).split("
         "[self.n_heads * self.d_head, self.n_heads * self.d_rope], dim=-1))",
         "The plain parts of all heads come first, then all rotated parts. W_q goes head by head: split the heads, and "
         "then each head's numbers."),
    edit("self.d_head + self.d_rope", "self.d_head",
         "The scores are divided by the square root of d_head alone. d_head + d_rope products are added up."),
    edit(TWO_SCORES, "plain @ k.mT / math.sqrt(self.d_head) + turned @ key.mT / math.sqrt(self.d_rope)",
         "The two parts of a score are each divided by their own root. They are a single dot product, over d_head + "
         "d_rope numbers."),
    edit(" / math.sqrt(self.d_head + self.d_rope)", "",
         "The scores are not scaled. Divide them by the square root of d_head + d_rope."),
    edit("self.d_head + self.d_rope", "self.W_down.out_features",
         "The scores are divided by the square root of the latent's width. Queries and keys have d_head + d_rope "
         "numbers."),
    edit("turned @ key.mT", "0 * (turned @ key.mT)",
         "The rotated part is left out of the score, so positions do not count at all."),
    edit("plain @ k.mT", "0 * (plain @ k.mT)",
         "The plain part is left out of the score. Both products are added."),
    edit("k, v = (split_heads", "v, k = (split_heads",
         "Keys and values are exchanged: W_up_k makes the keys, W_up_v the values."),
    edit("plain @ k.mT",
         "plain @ apply_rope("
         "nn.functional.pad(k, (0, self.d_head % 2)), torch.arange(k.shape[2], device=x.device), self.base"
         ")[..., : self.d_head].mT",
         "The keys made from the latent are rotated as well. Only the shared key and the second part of the query are: "
         "that is why it is apart."),
    DEFAULT_BASE,
    POSITIONS_FROM_0,
    edit(KEY, "apply_rope(self.W_k_rope(x), positions - past, self.base)",
         "In each chunk the new shared keys begin at position 0 again, and the queries at len(cache). Both begin at "
         "len(cache)."),
    edit("split_heads(up(latent[:, 0]), self.n_heads)", "up(latent).reshape(len(x), self.n_heads, -1, self.d_head)",
         "What W_up_k and W_up_v return is cut into heads by a `reshape` or `view` alone, which mixes tokens and "
         "heads: cut the last axis, then exchange axes. Use `split_heads`, as for the query."),
    edit("split_heads(self.W_q(x), self.n_heads)", "self.W_q(x).reshape(len(x), self.n_heads, x.shape[1], -1)",
         "What W_q returns is cut into heads by a `reshape` or `view` alone, which mixes tokens and heads: cut the "
         "last axis, then exchange axes. Use `split_heads`."),
    EMPTY_CACHE,
    MASK_FROM_0,
    edit("scores.masked_fill(later, -math.inf)", "scores",
         "The mask is missing: tokens see what comes after them."),
    OVER_QUERIES,
    NO_MAXIMUM,
    MERGED_BY_VIEW,
    NOT_MAPPED_BACK,
    edit("latent, key = cache.append(latent, key)", "pass",
         "The cache is given keys and values of all heads. It should keep the latent, from which they are made again.",
         also={f"scores = {TWO_SCORES}":
               "if cache is not None:\n"
               "            every, v = cache.append(torch.cat([k, key.expand(-1, self.n_heads, -1, -1)], dim=-1), v)\n"
               "            k, key = every.split([self.d_head, self.d_rope], dim=-1)\n"
               f"        scores = {TWO_SCORES}"}),
    edit("latent, key = cache.append(latent, key)", "key, latent = cache.append(key, latent)",
         "The rotated key and the latent go into the cache in the wrong order: the latent first, then the key."),
    edit("cache.append(latent, key)", "cache.append(latent, key.expand(-1, self.n_heads, -1, -1))",
         "The rotated key is kept once for each head. It is the same for all: keep it with a single head, and let "
         "broadcasting repeat it."),
    edit("past = 0 if", "cache = None if cache is None else self.kept\n        past = 0 if",
         "The layer keeps the past in `self` and not in the cache that it is given. Two texts that are read in turn "
         "then get mixed up.", also={"super().__init__()": "super().__init__(); self.kept = KVCache()"}),
    WITH_BIASES,
    DEFAULT_EPS,
    NO_GRADIENT,
    MASK_ON_THE_CPU,
)  # fmt: skip


# index_scores --------------------------------------------------------------------------------------------------------

index_scores = Exercise(solutions.index_scores, section=INDEX, minutes=8, difficulty=2)
KINDS = (torch.float32, torch.bfloat16)
NARROW = dict(rtol=0.05, atol=0.05)  # for bfloat16


def _index(rng, batch, heads, n_q, n_k, d, dtype=torch.float64, signed=True):
    """Queries, keys and weights; weights of both signs, or none below 0."""
    weights = normal(rng, batch, n_q, heads, dtype=dtype)
    weights = weights + 0.3 * weights.sign()
    return dict(
        q=normal(rng, batch, heads, n_q, d, dtype=dtype),
        k=normal(rng, batch, n_k, d, dtype=dtype),
        weights=weights if signed else weights.abs(),
    )


@index_scores.property(
    "adds up the heads' products, those below 0 as 0",
    points=3,
    hint="Each head multiplies its query with the one key of a token, and what is below 0 becomes 0. Then the heads "
    "are added with their weights. With products 3 and -2, and weights 0.5 and 1: 1.5.",
)
def index_one_query(rng):
    yield dict(
        q=torch.tensor([[[[1.0, 2.0]], [[-1.0, 0.0]]]], dtype=torch.float64),
        k=torch.tensor([[[1.0, 1.0], [-2.0, 1.0], [-1.0, 0.0]]], dtype=torch.float64),
        weights=torch.tensor([[[0.5, 1.0]]], dtype=torch.float64),
    )
    yield _index(rng, 1, 3, 1, 6, 4, signed=False)


@index_scores.property(
    "has a weight for each query and head",
    points=2,
    hint="weights is (batch, n_q, n_index_heads) and the products are (batch, n_index_heads, n_q, n_k): `weights.mT` "
    "swaps the last two axes, and `[..., None]` adds the axis of the keys.",
)
def index_a_weight_for_each(rng):
    yield _index(rng, 1, 3, 3, 3, 4, signed=False)
    yield _index(rng, 2, 4, 3, 5, 2, signed=False)


@index_scores.property(
    "multiplies by the weights after the ReLU, whatever their sign",
    points=1,
    hint="A weight may be negative: then what its head finds counts against a key. Apply the ReLU to q . k alone.",
)
def index_signed(rng):
    yield _index(rng, 1, 2, 2, 5, 3)
    yield _index(rng, 2, 3, 4, 4, 3)


index_scores.gradients(
    lambda rng: dict(**_index(rng, 1, 2, 2, 3, 3), upstream=[normal(rng, 1, 2, 3)]),
    title="sends the right gradients to queries, keys and weights",
    hint="The index is learned: use only tensor operations, and detach nothing.",
)
index_scores.any_device(
    lambda rng: [_index(rng, 1, 2, 2, 4, 4, dtype=kind) for kind in KINDS],
    title="keeps the kind of number, and the device",
    **NARROW,
    hint="bfloat16 in, bfloat16 out. If you create tensors, create them like q.",
)
index_scores.unchanged(
    lambda rng: _index(rng, 1, 2, 3, 4, 3),
    hint="`relu_()` and `*=` write into their tensor. Do not use them on q, k or weights.",
)

PRODUCTS = "torch.relu(q @ k[:, None].mT)"
HEAD_WEIGHTS = "weights.to(q.dtype).mT[..., None]"
SUM = f"({HEAD_WEIGHTS} * products).sum(dim=1)"

index_scores.mistakes(
    edit(PRODUCTS, "q @ k[:, None].mT",
         "The ReLU is missing: a head that finds nothing takes away from what the others found. Products below 0 "
         "count as 0."),
    edit(PRODUCTS, "q @ k[:, None].mT",
         "The ReLU comes after the sum over heads. Each head's product goes through it alone.",
         also={SUM: f"torch.relu({SUM})"}),
    edit(PRODUCTS, "q @ k[:, None].mT",
         "The ReLU is applied to weight times product, so a head with a negative weight counts where it should not. "
         "Apply it to the product alone.", also={SUM: f"torch.relu({HEAD_WEIGHTS} * products).sum(dim=1)"}),
    edit(SUM, "products.sum(dim=1)",
         "The weights are not used. Each query has a weight for each head."),
    edit(SUM, "products.mean(dim=1)",
         "The heads are averaged. They are added with the weights of the query."),
    edit(HEAD_WEIGHTS, "weights.to(q.dtype).softmax(-1).mT[..., None]",
         "The weights go through a softmax. They are used as they come, and may be negative."),
    edit(HEAD_WEIGHTS, "weights.to(q.dtype).reshape(q.shape[:3])[..., None]",
         "The weights are reshaped where their axes should be swapped, so most land at another query or head. "
         "reshape keeps the order of the numbers; `.mT` swaps the last two axes."),
    edit(HEAD_WEIGHTS, "weights.to(q.dtype).flip(-1).mT[..., None]",
         "The weights are those of other heads: their order is turned around."),
    edit(HEAD_WEIGHTS, "weights.to(q.dtype)[:, :1].mT[..., None]",
         "All queries use the weights of the first one. Each query has its own."),
    edit(HEAD_WEIGHTS, "weights.to(q.dtype).mT[:, :, None]",
         "The weights are taken by key. They are the query's: the same for all the keys that it looks at."),
    edit("k[:, None].mT", "k[:1, None].mT",
         "All texts are compared with the keys of the first one. Each text of the batch has its own."),
    edit(PRODUCTS, "torch.relu(q @ k[:, None].mT / q.shape[-1] ** 0.5)",
         "The products are divided by the square root of the width. Here there is no scale: only the order of the "
         "scores matters."),
    edit("torch.relu(", "torch.abs(",
         "The absolute value is taken: a product of -3 counts like 3. A ReLU makes it 0."),
    edit("torch.relu(", "nn.functional.gelu(",
         "This is a GELU, which lets small negative numbers through. Use torch.relu."),
    edit("torch.relu(", "torch.sigmoid(",
         "A sigmoid gives even a negative product a share. A ReLU makes it 0."),
    edit(PRODUCTS, "torch.relu(q @ k[:, None].mT).square()",
         "The products are squared after the ReLU. Here they are used as they are."),
    edit(".sum(dim=1)", ".amax(dim=1)",
         "Only the strongest head counts. All heads are added."),
    edit(SUM, f"{SUM} / products.shape[1]",
         "The sum is divided by the number of heads. They are added, not averaged."),
    edit(".sum(dim=1)", "",
         "There is a score for each head. The heads are added: (batch, n_q, n_k)."),
    edit(SUM, f"{SUM}.mT",
         "Queries and keys are exchanged in the result. It is (batch, n_q, n_k)."),
    edit(SUM, f"{SUM}.softmax(dim=-1)",
         "The scores go through a softmax over the keys. They are asked for as they are: sums, not weights."),
    edit(SUM, f"{SUM}.tril(products.shape[-1] - products.shape[-2])",
         "Scores of later keys are set to 0. This function has no mask, and 0 is not the lowest score either."),
    edit(SUM,
         f"{SUM}.masked_fill(torch.ones(products.shape[-2:], dtype=torch.bool, device=q.device)"
         ".triu(1 + products.shape[-1] - products.shape[-2]), -math.inf)",
         "Later keys are hidden. This function scores every key; `top_k_attention` hides those that come later."),
    edit(SUM, f"({SUM}).float()",
         "The result is float32 whatever comes in. Keep the dtype of q."),
    edit(SUM, f"({SUM}).detach()",
         "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors without a "
         "gradient."),
    edit("products = ", "if not q.requires_grad: q.relu_()\n    products = ",
         "The caller's queries are written into. Operations whose name ends in an underscore do that.",
         also={PRODUCTS: "torch.relu((q if not q.requires_grad else q) @ k[:, None].mT)"}),
)  # fmt: skip


# top_k_attention -----------------------------------------------------------------------------------------------------

top_k_attention = Exercise(solutions.top_k_attention, section=INDEX, minutes=15, difficulty=3)


def _ranked(rng, batch, n_q, n_k, dtype=torch.float64):
    """Scores of both signs that differ within a row, and are exact in narrow dtypes too."""
    rows = np.stack([rng.permutation(n_k) for _ in range(batch * n_q)]).reshape(batch, n_q, n_k)
    return torch.from_numpy(0.5 * rows - 0.25 * n_k).to(dtype)


def _sparse(rng, n_q, n_k, top_k, batch=1, heads=1, d=4, d_v=3, dtype=torch.float64):
    return dict(
        Q=1.5 * normal(rng, batch, heads, n_q, d, dtype=dtype),
        K=1.5 * normal(rng, batch, heads, n_k, d, dtype=dtype),
        V=normal(rng, batch, heads, n_k, d_v, dtype=dtype),
        scores=_ranked(rng, batch, n_q, n_k, dtype),
        top_k=top_k,
    )


@top_k_attention.property(
    "attends to the keys with the largest scores, by its own softmax",
    points=3,
    hint="`scores` only chooses: the weights are the softmax of Q K^T / sqrt(d) over the chosen keys. Hide all others "
    "with minus infinity before the softmax.",
)
def one_query(rng):
    yield _sparse(rng, n_q=1, n_k=4, top_k=2)
    yield _sparse(rng, n_q=1, n_k=6, top_k=3)
    yield _sparse(rng, n_q=1, n_k=5, top_k=1)


@top_k_attention.property(
    "chooses among the keys that a query may read",
    points=2,
    hint="Hide later keys in the scores before topk, or they take places. Early queries may read fewer than top_k "
    "keys: they read all of these, and no later one.",
)
def chosen_among_the_past(rng):
    yield _sparse(rng, n_q=4, n_k=4, top_k=2)
    yield _sparse(rng, n_q=6, n_k=6, top_k=3, d=2)


@top_k_attention.property(
    "takes further tokens of a text, whose keys are more than its queries",
    points=1,
    hint="The last query reads up to the last key: query i may read key j if j <= i + n_k - n_q.",
)
def more_keys(rng):
    yield _sparse(rng, n_q=3, n_k=6, top_k=2)
    yield _sparse(rng, n_q=2, n_k=7, top_k=4)


@top_k_attention.property(
    "is causal attention where top_k leaves nothing out",
    points=1,
    hint="topk cannot take more than there are: min(top_k, n_k).",
)
def nothing_left_out(rng):
    yield _sparse(rng, n_q=4, n_k=4, top_k=4)
    yield _sparse(rng, n_q=3, n_k=5, top_k=int(rng.integers(6, 40)))


@top_k_attention.property(
    "chooses for each text by itself, and the same keys for all its heads",
    points=1,
    hint="scores is (batch, n_q, n_k): `[:, None]` adds an axis that broadcasts over heads.",
)
def texts_and_heads(rng):
    yield _sparse(rng, n_q=3, n_k=3, top_k=2, batch=2, heads=3, d=3)
    yield _sparse(rng, n_q=4, n_k=6, top_k=3, batch=3, heads=2)


@top_k_attention.property(
    "gives zeros where no key may be read",
    points=1,
    hint="With more queries than keys, the first n_q - n_k queries read nothing. A softmax over minus infinities alone "
    "is nan: fill such a row with zeros before it, and set its weights to 0 after it.",
)
def nothing_to_read(rng):
    yield _sparse(rng, n_q=5, n_k=3, top_k=2, heads=2)
    yield _sparse(rng, n_q=3, n_k=2, top_k=2, batch=2)


@top_k_attention.property(
    "keeps other keys hidden, whatever their scores",
    points=1,
    rtol=0.01,
    atol=0.01,
    hint="Hide with minus infinity, `-torch.inf`. A score may be lower than any finite number you choose.",
)
def hidden_for_good(rng):
    case = _sparse(rng, n_q=3, n_k=3, top_k=2, d=1)
    case["Q"] = torch.full_like(case["Q"], 2e6)
    case["K"] = torch.tensor([[[[-2e6], [-2e6 - 1e-6], [5.0]]]], dtype=torch.float64)
    case["V"] = 1.0 + rng.uniform() + torch.arange(9, dtype=torch.float64).reshape(1, 1, 3, 3)
    case["scores"] = torch.tensor([[[2.0, 3.0, 1.0]]], dtype=torch.float64).expand(1, 3, 3).clone()
    yield case
    case = dict(case)
    case["scores"] = 1e12 * (case["scores"] - 6.0)
    yield case


top_k_attention.gradients(
    lambda rng: [
        dict(
            **_sparse(rng, n_q=3, n_k=4, top_k=2, heads=2), upstream=[normal(rng, 1, 2, 3, 3), normal(rng, 1, 2, 3, 4)]
        ),
        dict(**_sparse(rng, n_q=3, n_k=2, top_k=1), upstream=[normal(rng, 1, 1, 3, 3), normal(rng, 1, 1, 3, 2)]),
    ],
    title="sends gradients to Q, K and V, finite ones, and none to the scores",
    hint="The choice has no gradient, and the scores are used for nothing else. Where no key may be read, no infinity "
    "may reach the softmax: 0 times nan is nan in the gradient too.",
)
top_k_attention.any_device(
    lambda rng: [_sparse(rng, n_q=3, n_k=4, top_k=2, dtype=kind) for kind in KINDS],
    title="keeps the kind of number, and the device",
    **NARROW,
    hint="bfloat16 in, bfloat16 out, for both results. Create masks with `device=Q.device`.",
)
top_k_attention.unchanged(
    lambda rng: _sparse(rng, n_q=4, n_k=4, top_k=2),
    hint="To hide later keys by writing minus infinity into `scores` changes the caller's tensor. masked_fill and "
    "torch.where make a new one.",
)

RANKED = "scores.masked_fill(~readable, -math.inf)"
BEST = "ranked.topk(min(top_k, n_k), dim=-1).indices"
CHOSEN = "torch.zeros_like(readable.expand_as(scores)).scatter(-1, best, True) & readable"
SCALED = "Q @ K.mT / math.sqrt(Q.shape[-1])"
ROWS = "own.masked_fill(empty, 0.0).softmax(dim=-1, dtype=wide).masked_fill(empty, 0.0)"

top_k_attention.mistakes(
    edit(RANKED, "scores",
         "The keys are chosen among all, also later ones, and later ones are hidden afterwards. They have taken "
         "places: a query then reads too few keys, or none. Hide them before you choose."),
    edit(CHOSEN, "torch.zeros_like(readable.expand_as(scores)).scatter(-1, best, True)",
         "A query that may read fewer than top_k keys is filled up with later ones. What is minus infinity can be "
         "among the largest if there is nothing else: hide later keys again after the choice."),
    edit("tril(n_k - n_q)", "tril(n_k)",
         "There is no causal mask: keys that come later are chosen too."),
    edit("tril(n_k - n_q)", "tril()",
         "The mask begins at the first key. Queries are the last tokens of the text: the last query reads up to the "
         "last key."),
    edit("tril(n_k - n_q)", "tril(n_k - n_q - 1)",
         "A token does not read itself. It may read all keys up to its own."),
    edit(SCALED, "scores[:, None].expand(-1, Q.shape[1], -1, -1)",
         "The weights are the softmax of `scores`. These only choose; the weights come from Q and K."),
    edit(SCALED, f"{SCALED} + scores[:, None]",
         "The scores are added to Q K^T. They only choose the keys."),
    edit(RANKED, "(Q @ K.mT).detach().mean(dim=1).masked_fill(~readable, -math.inf)",
         "The keys are chosen by Q K^T. That costs a product with every key, which the choice is there to save: choose "
         "by `scores`."),
    edit(RANKED, "(-scores).masked_fill(~readable, -math.inf)",
         "The keys with the smallest scores are chosen. Take the largest."),
    edit(RANKED, "scores.abs().masked_fill(~readable, -math.inf)",
         "The keys are chosen by the size of their scores, whatever the sign. A score of -5 is lower than 1."),
    edit(CHOSEN, "torch.zeros_like(readable.expand_as(scores)).scatter(1, "
         "ranked.topk(min(top_k, n_q), dim=1).indices, True) & readable",
         "The choice runs over the queries: each key takes the queries with the largest scores. Each query chooses "
         "among the keys, along the last axis."),
    edit(BEST, "ranked.topk(min(top_k + 1, n_k), dim=-1).indices",
         "A key too many is chosen. A query reads top_k keys."),
    edit(BEST, "ranked.topk(max(1, min(top_k, n_k) - 1), dim=-1).indices",
         "A key too few is chosen. A query reads top_k keys."),
    edit("& readable", "& readable | readable & ~readable.tril(n_k - n_q - 1)",
         "Each token also reads itself, chosen or not. Only the top_k keys with the largest scores are read."),
    edit(RANKED,
         "(0 * scores + torch.arange(n_k, device=Q.device)).masked_fill(~readable, -math.inf)",
         "The last top_k keys are read: that is a window. The scores choose, and a key may be far back."),
    edit(BEST, f"({BEST})[:, -1:].expand(-1, n_q, -1)",
         "All queries read the keys that were chosen for the last one. Each query has its own row of scores."),
    edit(BEST, f"({BEST})[:1].expand(len(scores), -1, -1)",
         "All texts read the keys that were chosen for the first one. Each text has its own scores."),
    edit(CHOSEN, "(scores > ranked.topk(min(top_k, n_k), dim=-1).values[..., -1:]) & readable",
         "The key with the smallest of the top_k scores is lost: compare with >=, not with >."),
    edit(ROWS, "torch.where(~seen, 0.0, nn.functional.softmax("
         "own.where(readable, -math.inf).where(readable.any(-1, keepdim=True), 0.0), dim=-1))",
         "The softmax runs over all keys, and the weights of those that were not chosen are dropped after it, so a "
         "row no longer sums to 1. Hide them before the softmax.", also={".masked_fill(~seen, -math.inf)": ""}),
    edit(" / math.sqrt(Q.shape[-1])", "", "The products are not divided by the square root of d."),
    edit("math.sqrt(Q.shape[-1])", "Q.shape[-1]", "The products are divided by d itself. Use its square root."),
    edit("math.sqrt(Q.shape[-1])", "math.sqrt(V.shape[-1])",
         "The products are divided by the square root of the width of V. The width of Q and K counts."),
    edit("min(top_k, n_k)", "top_k",
         "topk refuses to take more keys than there are. A short text has fewer than top_k: take min(top_k, n_k)."),
    edit(ROWS, "own.softmax(dim=-1, dtype=wide)",
         "A query that may read nothing gets nan: a softmax over minus infinities alone is 0 / 0."),
    edit(ROWS, "own.softmax(dim=-1, dtype=wide).nan_to_num(0.0)",
         "Minus infinity is added to the products, and the nan of a row without keys is replaced after the softmax. "
         "The numbers are right, but the gradient of that row is nan. Fill the row before the softmax.",
         also={".masked_fill(~seen, -math.inf)": " + torch.where(seen, 0.0, -math.inf)"}),
    edit(ROWS, "own.masked_fill(empty, 0.0).softmax(dim=-1, dtype=wide)",
         "A query that may read nothing gets equal weights on all keys. Its weights and its output are 0."),
    edit(".masked_fill(~seen, -math.inf)", ".masked_fill(~seen, -1e9)",
         "Other keys get a big finite number for a score. A chosen one can be lower still. Use minus infinity.",
         also={ROWS: "own.softmax(dim=-1, dtype=wide).masked_fill(empty, 0.0)"}),
    edit(".masked_fill(~seen, -math.inf)", " * seen",
         "Scores of other keys become 0, which is an ordinary score and gets weight. Use minus infinity."),
    edit(RANKED, "scores.masked_fill(~readable, -1e9)",
         "Later keys get a finite number among the scores. A score can be lower still, and then a later key takes "
         "its place. Use minus infinity."),
    edit("softmax(dim=-1", "softmax(dim=-2",
         "The softmax runs over the queries (dim=-2). The weights of each query sum to 1: the keys are the last axis.",
         also={ROWS.partition(".softmax")[0]: "own", "dtype=wide)": "dtype=wide).nan_to_num(0.0)"}),
    edit("return weights @ V, weights", "return weights, weights @ V",
         "Weights and output come back in the wrong order: the output first."),
    edit("return weights @ V, weights", "return weights @ V",
         "Only the output comes back. Return the weights as well: (output, weights)."),
    edit("return weights @ V, weights",
         "return weights @ V, weights.gather(-1, best[:, None].expand(-1, Q.shape[1], -1, -1))",
         "The weights have a column only for each chosen key. Give every key a column, with 0 where it is not chosen."),
    edit("return weights @ V, weights", "return weights.detach() @ V, weights.detach()",
         "The gradient is cut, so Q and K would never learn. Only the choice has no gradient."),
    edit(SCALED, f"{SCALED} + (scores - scores.detach())[:, None]",
         "A gradient reaches `scores`. They only choose here: DeepSeek trains the index by a loss of its own."),
    edit("weights = weights.to(Q.dtype)", "weights, V = weights.float(), V.float()",
         "The results are float32 whatever comes in. Keep the dtype of Q."),
    edit("device=Q.device", "device='cpu'",
         "The mask is on the CPU, wherever Q is, so the two cannot be combined. Create it with `device=Q.device`."),
    edit("ranked = ", "if not scores.requires_grad: scores.masked_fill_(~readable, -math.inf)\n    ranked = ",
         "The caller's scores are written into. masked_fill and torch.where make a new tensor."),
)  # fmt: skip


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **The factor.** The cache keeps 512 + 64 = 576 numbers per token and layer, and a key/value head keeps 2 x 128 =
   256. Four times 576 are 2304, so there were 9 key/value heads, an unusual number; from the usual 8 the factor is
   2048 / 576 = 3.6. Half a point for 8 heads, without the rotated key.
2. **Time does not follow, for two reasons.** A step also reads all weights (of the experts used), which the latent
   does not make smaller: only with long texts or large batches is the cache most of what is read. And the latent has
   to be turned into keys and values: made again for all tokens, that is more work than before, by a factor of
   hundreds with DeepSeek-V3's sizes; with the matrices moved over to query and output it is less, but every head then
   works with 512 + 64 numbers instead of 128, which is more arithmetic per number read. Other good reasons: the cost
   of everything that is not attention, kernels that are not written for it, the prompt, which is limited by
   arithmetic. Half a point for one reason. No point for "it depends on the hardware" alone.
3. **Measurements.** Speed: seconds per token on the same machine and with the same weights' precision, at several
   lengths and batch sizes, against a well-written GQA, prompt and decoding apart, and the memory really used.
   Quality: two models of the same size trained on the same tokens (or the same conversion with further training),
   several seeds if possible, held-out loss and a task with long texts. A few texts are not enough: greedy texts may
   be equal while logits differ, sampled ones differ anyway, and a loss that is slightly worse does not show in five
   examples. Half a point for speed only or quality only.

Model answer. "A head of width 128 keeps 2 * 128 = 256 numbers per token and layer, the latent and its rotated key
576. Four times 576 is 2304, which would be 9 heads; with the usual 8 the factor is 3.6. Four times faster does not
follow. First, a step reads all weights, and these are no smaller; for one user with a short text the cache hardly
counts. Second, keys and values have to be made from the latent, for every old token in every step, unless the
matrices are moved over to the query and the output; even then, each head multiplies 576 numbers instead of 128. I
would measure milliseconds per token at 1,000, 10,000 and 100,000 tokens and at batch sizes of 1 and 64, on the same
machine, against a good GQA kernel, and read off the memory used. For quality I would want both models trained on the
same tokens, with the loss on held-out text and a test of finding facts in long texts, and the spread between seeds. A
few texts would show nothing, since they can be equal by luck and differ by sampling."
""",
)
