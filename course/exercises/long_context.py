"""Exercises on longer texts and smaller caches: what must hold, on which inputs, and what people get wrong.

Angles are float32 by contract, whatever the dtype of x, and right answers may compute them in several ways. So rotated
results are compared to about five digits, and the mistakes here are off by far more.
"""

import torch

from attnlab.checking import probes
from course.kit.cached_layers import (
    ALL_FROM_0,
    DEFAULT_BASE,
    DEFAULT_EPS,
    EMPTY_CACHE,
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
