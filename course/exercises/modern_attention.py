"""Exercises of the chapter on today's models: what must hold, on which inputs, and what people get wrong.

Angles are float32 by contract, whatever the dtype of x, and right answers may compute them in several ways. So rotated
results are compared to about five digits, and the mistakes here are off by far more.
"""

import numpy as np
import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import modern_attention as solutions

ROTATED = dict(rtol=1e-4, atol=1e-5)
SINGLE = dict(rtol=1e-5, atol=1e-6)
IN_CHUNKS = dict(probe=probes.in_chunks, **ROTATED)
KINDS = (torch.float32, torch.bfloat16)
NARROW = dict(rtol=0.02, atol=0.02)  # for bfloat16
CAP = "Scores that cannot grow"
SINK = "A place for weight that no key deserves"
STRETCH = "Frequencies for longer texts"
QK_NORM = "Normalized queries and keys"
LATENT = "A latent in place of keys and values"
EXPERTS = "Experts in place of a single network"

# soft_cap ------------------------------------------------------------------------------------------------------------

soft_cap = Exercise(solutions.soft_cap, section=CAP, minutes=5, difficulty=1)
SCORES = torch.tensor([[0.0, 1.0, -1.0], [5.0, -20.0, 400.0]], dtype=torch.float64)


@soft_cap.property(
    "bends scores to between -cap and cap",
    points=3,
    hint="cap * tanh(scores / cap): divide before the tanh, multiply after it.",
)
def bends(rng):
    yield dict(scores=torch.tensor(3.0, dtype=torch.float64), cap=2.0)  # shown where no name explains the result
    yield dict(scores=SCORES, cap=5.0)
    yield dict(scores=10.0 * normal(rng, 2, 3, 4, 4), cap=float(rng.integers(3, 30)))
    yield dict(scores=3.0 * normal(rng, 7), cap=2)


@soft_cap.property(
    "bends by a cap of 1, and leaves scores as they are without one",
    points=1,
    hint="`cap=None` means that there is no cap: return the scores.",
)
def without_a_cap(rng):
    yield dict(scores=normal(rng, 2, 3), cap=1.0)
    yield dict(scores=SCORES, cap=None)
    yield dict(scores=100.0 * normal(rng, 2, 3, 3), cap=None)


soft_cap.gradients(
    lambda rng: dict(scores=4.0 * normal(rng, 3, 4), cap=5.0, upstream=[normal(rng, 3, 4)]),
    title="sends the right gradients",
    hint="Use only tensor operations: `.detach()`, `.data`, NumPy and lists of numbers cut the gradient.",
)
soft_cap.any_device(
    lambda rng: [dict(scores=3.0 * normal(rng, 3, 4, dtype=kind), cap=5.0) for kind in KINDS],
    title="keeps the kind of number, and the device",
    **NARROW,
    hint="float32 in, float32 out, and bfloat16 for bfloat16. If you create tensors, create them like the scores.",
)
soft_cap.unchanged(
    lambda rng: dict(scores=3.0 * normal(rng, 3, 4), cap=5.0),
    title="leaves its input as it was",
    hint="`/=` and `tanh_()` write into the caller's tensor.",
)

BENT = "cap * torch.tanh(scores / cap)"

soft_cap.mistakes(
    edit(BENT, "scores.clamp(-cap, cap)",
         "Scores are clipped. Beyond the cap a clipped score has no gradient, so training cannot bring it back. tanh "
         "bends it instead, and its slope is never 0."),
    edit("cap * torch", "torch",
         "The result is between -1 and 1. Multiply by the cap again after the tanh."),
    edit("scores / cap", "scores",
         "The scores are not divided by the cap before the tanh, so all that are beyond 2 or 3 become equal."),
    edit("scores / cap", "scores * cap",
         "The scores are multiplied by the cap inside the tanh, where they should be divided by it."),
    edit(BENT, "torch.tanh(scores * cap) / cap",
         "You divide after the tanh and multiply inside: it should be the other way around."),
    edit(BENT, f"torch.where(scores > 0, {BENT}, scores)",
         "Only high scores are bent. A score far below 0 is as much of a problem: use tanh for both signs."),
    edit("tanh", "sigmoid",
         "A sigmoid lets nothing below 0 through. tanh keeps the sign of a score."),
    edit(BENT, "cap * (2 * torch.sigmoid(scores / cap) - 1)",
         "A sigmoid shifted to -1 to 1 is a tanh of half its argument: scores / cap must be doubled inside."),
    edit("torch.tanh", "nn.functional.softsign",
         "This bends by s / (1 + |s|): bounded as well, but small scores already shrink. Use tanh."),
    edit("tanh", "atan",
         "The arctangent bends too, but to other numbers, and it ends at pi / 2. Use tanh."),
    edit(BENT, "50.0 * torch.tanh(scores / 50.0)",
         "The cap is fixed in the code. Use the one that is passed."),
    edit(BENT, "scores * (cap / scores.abs().max())",
         "The scores are rescaled so that the largest is the cap. Each score is bent by itself."),
    edit("return scores if cap is None else", "cap = cap or {}\n    return",
         "`cap=None` is treated as a cap. Without a cap nothing is bent: return the scores as they are.",
         each=(1.0, 30.0, 50.0)),
    edit(BENT, "scores",
         "Nothing is bent: the scores come back as they were although there is a cap."),
    edit("return", f"if cap is not None and not scores.requires_grad: return scores.copy_({BENT})\n    return",
         "The caller's scores are written into. Make a new tensor."),
    edit(BENT, f"({BENT}).float()",
         "The result is float32 whatever comes in. Keep the dtype of the scores."),
    edit(BENT, f"({BENT}).detach()",
         "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors without a "
         "gradient."),
)  # fmt: skip


# softmax_with_sink ---------------------------------------------------------------------------------------------------

softmax_with_sink = Exercise(solutions.softmax_with_sink, section=SINK, minutes=15, difficulty=2)
# Rows with one allowed key, several, and all.
SOME = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)


def _heads_apart(rng, n_heads):
    """Sinks that clearly differ from head to head."""
    return torch.linspace(-1.5, 2.0, n_heads, dtype=torch.float64) + 0.2 * normal(rng, n_heads)


@softmax_with_sink.property(
    "keeps back the share of the sink",
    points=3,
    hint="Each row has one more score than keys: the sink of its head. Take the softmax over all of them and drop the "
    "last weight. With a score of 0 for the only key, and a sink of 0, the key gets 1/2.",
)
def share_of_the_sink(rng):
    yield dict(scores=torch.zeros(1, 1, 1, 1, dtype=torch.float64), sink=torch.zeros(1, dtype=torch.float64))
    yield dict(scores=normal(rng, 1, 1, 3, 4), sink=torch.tensor([1.5], dtype=torch.float64))
    yield dict(scores=normal(rng, 2, 1, 2, 5), sink=torch.tensor([-0.7], dtype=torch.float64))


@softmax_with_sink.property(
    "has a sink for each head",
    points=1,
    hint="sink has one number per head, and heads are the second axis of the scores: sink[:, None, None] broadcasts.",
)
def a_sink_for_each_head(rng):
    yield dict(scores=normal(rng, 1, 3, 2, 4), sink=_heads_apart(rng, 3))
    yield dict(scores=normal(rng, 2, 4, 4, 4), sink=_heads_apart(rng, 4))


@softmax_with_sink.property(
    "hides what the mask hides, but never the sink",
    points=2,
    hint="Where the mask is False, the score becomes minus infinity. The mask has a column per key and none for the "
    "sink: hide first and add the sink then, or give the mask one more column of True.",
)
def sink_with_a_mask(rng):
    yield dict(scores=normal(rng, 1, 1, 3, 4), sink=torch.tensor([0.5], dtype=torch.float64), mask=SOME)
    yield dict(scores=normal(rng, 2, 2, 3, 4), sink=torch.full((2,), 0.3, dtype=torch.float64), mask=SOME)


@softmax_with_sink.property(
    "takes a mask for each text or each head",
    points=1,
    hint="The mask may have four dimensions, some of them of size 1. torch.where and masked_fill broadcast it; "
    "indexing with it, and joining a column to it, do not.",
)
def sink_with_wide_masks(rng):
    sink = torch.full((2,), 0.3, dtype=torch.float64)
    each_text = torch.stack([SOME, SOME.flip(1)])[:, None]
    for mask in (each_text, each_text.transpose(0, 1), SOME[1:2].flip(1)[None, None]):
        yield dict(scores=normal(rng, 2, 2, 3, 4), sink=sink, mask=mask)


@softmax_with_sink.property(
    "gives zeros where no key is allowed",
    points=1,
    hint="A row without an allowed key leaves all its weight to the sink: its weights are 0, and not nan.",
)
def sink_with_an_empty_row(rng):
    empty = torch.cat([SOME[:2], torch.zeros(1, 4, dtype=torch.bool)])
    yield dict(scores=normal(rng, 1, 2, 3, 4), sink=torch.full((2,), -0.4, dtype=torch.float64), mask=empty)


@softmax_with_sink.property(
    "survives large scores and large sinks",
    points=1,
    rtol=1e-6,
    atol=1e-9,
    hint="The largest number that you subtract before you exponentiate must be that of the scores and the sink "
    "together. torch.softmax over all of them takes care of that.",
)
def large_sinks(rng):
    scores = normal(rng, 1, 2, 2, 3)
    yield dict(scores=scores + 2000.0, sink=torch.tensor([2000.0, 1999.0], dtype=torch.float64))
    yield dict(scores=scores - 2000.0, sink=torch.tensor([-2000.0, -1999.0], dtype=torch.float64))
    yield dict(scores=scores, sink=torch.tensor([3000.0, -3000.0], dtype=torch.float64))


@softmax_with_sink.property(
    "keeps hidden keys hidden, whatever the scores",
    points=1,
    rtol=0.01,
    atol=0.01,
    hint="Set hidden scores to minus infinity, `-torch.inf`. A score may be lower than any finite number you choose.",
)
def sink_hidden_for_good(rng):
    order, sink = torch.from_numpy(rng.permutation(3)), -4e12 + float(rng.integers(1, 3))
    scores = torch.tensor([[[[-4e12, -4e12 - 1.0, 5.0 + float(rng.uniform())]]]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False]])
    yield dict(scores=scores[..., order], sink=torch.tensor([sink], dtype=torch.float64), mask=mask[:, order])


def _sinks_and_upstream(rng):
    empty = torch.tensor([[True, False, True], [False, False, False]])
    for mask in ({}, dict(mask=empty)):
        scores, sink = normal(rng, 1, 2, 2, 3), normal(rng, 2)
        yield dict(scores=scores, sink=sink, **mask, upstream=[normal(rng, 1, 2, 2, 3)])


def _narrow_sinks(rng):
    single = normal(rng, 1, 2, 3, 4, dtype=torch.float32)
    yield dict(scores=single, sink=normal(rng, 2, dtype=torch.float32), mask=SOME)
    yield dict(scores=single.to(torch.bfloat16), sink=normal(rng, 2, dtype=torch.float32))


softmax_with_sink.gradients(
    _sinks_and_upstream,
    title="sends the right gradients to scores and sinks",
    hint="The sinks are learned: their gradient must arrive. Use only tensor operations, on `sink` too.",
)
softmax_with_sink.any_device(
    _narrow_sinks,
    title="keeps the kind of number of the scores, and the device",
    **NARROW,
    hint="bfloat16 scores give bfloat16 weights, also if the sinks are float32: end with `.to(scores.dtype)`. Create "
    "new tensors like the scores.",
)
softmax_with_sink.unchanged(
    lambda rng: dict(scores=normal(rng, 1, 2, 3, 4), sink=normal(rng, 2), mask=SOME),
    hint="Writing minus infinity into `scores` writes into the caller's tensor. masked_fill and torch.where make a new "
    "one.",
)

SHARES = "every.softmax(dim=-1)"
NOT_WIDENED = {"torch.promote_types(scores.dtype, torch.float32)": "scores.dtype"}  # in the dtype of the scores
HIDE = "every = every.masked_fill(hidden, -math.inf)"

softmax_with_sink.mistakes(
    edit("nn.functional.pad(~mask.bool(), (0, 1))", "nn.functional.pad(~mask.bool(), (0, 1), value=True)",
         "The mask hides the sink as well. It is always there, and never hidden."),
    edit("[wide, extra]", "[wide, -math.inf + 0 * extra]",
         "The sink is not used: the weights of a row sum to 1. Its exponential belongs in the total of each row.",
         also={"hidden, -math.inf": "hidden, -1e30"}),
    edit("[:, None, None]", "[:1, None, None]",
         "The first sink is used for every head. There is one number per head: sink[:, None, None]."),
    edit("sink.to(wide)[:, None, None]", "sink.to(wide).mean()",
         "All heads get the mean of the sinks. Each head has its own."),
    edit("[wide, extra]", "[wide + extra, torch.zeros_like(extra)]",
         "The sink counts with the opposite sign: either it is negated, or it is added to the scores of the keys, "
         "which is the same. It is a score of its own, beside those of the keys."),
    edit(SHARES, "(every.exp() / (every[..., :-1].exp().sum(-1, keepdim=True) + every[..., -1:]))",
         "The sink is in the total as it is. Like every score it is exponentiated first.", also=NOT_WIDENED),
    edit(f"{SHARES}[..., :-1]", SHARES,
         "The weight of the sink is returned as well: there is a column more than there are keys. Drop it."),
    edit(f"{SHARES}[..., :-1]", f"{SHARES}[..., 1:]",
         "The first weight is dropped, and that of the sink is kept. Drop the column where you put the sink."),
    edit(f"{SHARES}[..., :-1]", f"nn.functional.normalize({SHARES}[..., :-1], p=1, dim=-1)",
         "After the sink's weight is dropped, the rows are normalized again, so the sink changes nothing. What it "
         "takes must stay missing.", also=NOT_WIDENED),
    edit("[wide, extra]", "[wide - extra, torch.full_like(extra, -1e30)]",
         "The sink is subtracted from every score, and then there is no place for its weight."),
    edit("~mask", "mask",
         "The mask is inverted: you hide what should be visible. True means may attend."),
    edit(HIDE, "pass",
         "The mask has no effect: every key is visible."),
    edit("-math.inf", "-1e9",
         "A hidden score becomes a big finite number. A visible score can be lower still. Use minus infinity."),
    edit("-math.inf", "0.0",
         "A hidden score becomes 0, which is an ordinary score and gets weight. Use minus infinity."),
    edit(SHARES, "every.softmax(dim=-2)",
         "The softmax runs over the queries (dim=-2). The keys, and with them the sink, are the last axis.",
         also=NOT_WIDENED),
    edit(SHARES, "(every.exp() / every.exp().sum(-1, keepdim=True))",
         "No maximum is subtracted, so large scores or sinks overflow."),
    edit("~mask.bool()", "~mask.reshape(-1, *mask.shape[-2:])[:1]",
         "A mask of four dimensions is not broadcast to the scores. masked_fill and torch.where do that by "
         "themselves."),
    edit("sink.to(wide)", "sink.detach().to(wide)",
         "The gradient of the sinks is cut. `.detach()`, `.data`, `.item()` and `torch.tensor(...)` give numbers "
         "without a gradient, and then a sink is never learned."),
    edit(".to(scores.dtype)", ".float()",
         "The result has the dtype of the sinks, or float32, whatever the scores are. End with `.to(scores.dtype)`.",
         also=NOT_WIDENED),
    edit("sink.to(wide)", "sink.to(wide).roll(1)",
         "Each head gets the sink of another head. Heads are the second axis of the scores: sink[:, None, None]."),
    edit(HIDE, f"return ({SHARES} * ~hidden)[..., :-1].to(scores.dtype)",
         "The mask comes after the softmax: hidden keys have taken their share, and it is lost. Hide the scores "
         "first."),
    edit(f"return {SHARES}",
         "powers = (every - every[..., :-1].amax(-1, keepdim=True)).exp()\n"
         "    return (powers / powers.sum(-1, keepdim=True))",
         "The maximum that is subtracted is that of the scores alone. A sink far above them still overflows, and in a "
         "row without an allowed key it is minus infinity minus itself, which is nan."),
    edit("sink.to(wide)", "(0 * sink).to(wide)",
         "1 is added to each total, as if every sink were 0. The sink is a learned number: add its exponential."),
    edit("nn.functional.pad(~mask.bool(), (0, 1))", "torch.cat([~mask, ~mask.any(-1, keepdim=True)], dim=-1)",
         "The sink is hidden together with the keys: a row without an allowed key is nan. The sink is always there."),
    edit(HIDE, f"{HIDE}\n        if not scores.requires_grad: scores.masked_fill_(~mask, -math.inf)",
         "The caller's scores are written into. masked_fill and torch.where make a new tensor."),
)  # fmt: skip


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
    "follows low and high", points=1, **SLOW, hint="1 and 4 are Llama's numbers. Use the arguments."
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


# Properties and mistakes of both layers with a cache -----------------------------------------------------------------

OWN_CACHE = (
    "One layer may read many texts in turn. Everything that is remembered of a text belongs in its cache, and not in "
    "`self`."
)
PRECISION = dict(
    title="keeps the precision and the device of its tokens, also in chunks",
    rtol=0.1,
    atol=0.1,
    hint="Weights and tokens in float32 give float32, and bfloat16 gives bfloat16. Create new tensors with "
    "`device=x.device`.",
)
UNCHANGED = dict(
    title="leaves its tokens as they were, and keeps nothing",
    **ROTATED,
    hint="Operations whose name ends in an underscore, and `+=`, write into their tensor. Do not use them on a tensor "
    "that the caller passed in.",
)
W_O = "self.W_o = nn.Linear(n_heads * d_head, d_model, bias=False)"
SOFTMAX = "softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))"
MERGED = "merge_heads(weights.to(v.dtype) @ v)"

DEFAULT_BASE = edit("super().__init__()", "super().__init__(); base = 10000.0",
         "`base` is not passed on, so RoPE uses its default.")  # fmt: skip
DEFAULT_EPS = edit("super().__init__()", "super().__init__(); eps = {}",
         "eps is fixed or left at the default of RMSNorm. Pass on the one that the layer gets.",
         each=(1e-5, 1e-6))  # fmt: skip
ALL_FROM_0 = edit("len(cache)", "0",
         "With a cache, positions and the mask begin at 0 again in each chunk. The first new token is at "
         "len(cache).")  # fmt: skip
WITH_BIASES = edit(W_O, f"{W_O}\n"
         "        for part in self.children():\n"
         "            if isinstance(part, nn.Linear): part.bias = nn.Parameter(torch.zeros(part.out_features))",
         "The maps have biases. nn.Linear adds one unless you say bias=False.")  # fmt: skip
POSITIONS_FROM_0 = edit("len(cache)", "0",
         "With a cache, positions begin at 0 again in each chunk. The first new token is at len(cache).",
         also={"positions[:, None]": "(positions + k.shape[2] - x.shape[1])[:, None]"})  # fmt: skip
MASK_FROM_0 = edit("positions[:, None]", "torch.arange(x.shape[1], device=x.device)[:, None]",
         "With a cache, the causal mask begins at the first key, so the first token of a chunk sees only the first "
         "token of the text. Token i of a chunk is at position len(cache) + i.")  # fmt: skip
MASK_ON_THE_CPU = edit("positions[:, None]", "positions[:, None].cpu()",
         "The mask is on the CPU, wherever x is, so the two cannot be combined. Create it with `device=x.device`.",
         also={"k.shape[2], device=x.device": "k.shape[2]"})  # fmt: skip
EMPTY_CACHE = edit("cache is None", "not cache",
         "The cache stays empty, so each chunk is read as if nothing had come before it. `if cache:` is False for a "
         "new cache, since its length is 0: write `cache is not None`.",
         also={"cache is not None": "cache"})  # fmt: skip
OVER_QUERIES = edit(SOFTMAX, "softmax(dim=-2).nan_to_num()",
         "The softmax runs over the queries (dim=-2). The weights of each query sum to 1: the keys are "
         "the last axis.")  # fmt: skip
NOT_MAPPED_BACK = edit(f"self.W_o({MERGED})", f"nn.functional.pad({MERGED}, (0, x.shape[-1]))[..., : x.shape[-1]]",
         "W_o is missing: the merged heads are not mapped back.")  # fmt: skip
NO_GRADIENT = edit("def forward(self, x: torch.Tensor", "@torch.no_grad()\n    def forward(self, x: torch.Tensor",
         "No gradient arrives: the layer works under `torch.no_grad()` or on detached tensors, and could never be "
         "trained.")  # fmt: skip


# QKNormAttention -----------------------------------------------------------------------------------------------------

QKNormAttention = Exercise(solutions.QKNormAttention, section=QK_NORM, minutes=30, difficulty=3)
EQUAL_HEADS = dict(d_model=4, n_heads=2, n_kv_heads=2, d_head=2, batch=1)
SHARED_HEADS = {**EQUAL_HEADS, "n_kv_heads": 1}


def _qk_layer(rng, d_model, n_heads, n_kv_heads, d_head, batch, n, names="qkvo", dtype=torch.float64, **init):
    """A layer, weights of variance about 1 / d_model for the maps named, norm weights that differ, and tokens."""
    wide, narrow = n_heads * d_head, n_kv_heads * d_head
    shapes = dict(q=(wide, d_model), k=(narrow, d_model), v=(narrow, d_model), o=(d_model, wide))
    weights = {f"W_{m}.weight": normal(rng, *shapes[m], dtype=dtype) * 1.5 / shapes[m][1] ** 0.5 for m in names}
    weights |= {f"norm_{m}.weight": (1.2 + 0.6 * normal(rng, d_head)).to(dtype) for m in "qk" if m in names}
    return dict(
        init=dict(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, d_head=d_head, **init),
        weights=weights,
        x=normal(rng, batch, n, d_model, dtype=dtype),
    )


@QKNormAttention.property(
    "has four maps without bias and two norms over d_head",
    points=1,
    hint="W_q has n_heads * d_head outputs, W_k and W_v n_kv_heads * d_head, W_o as many inputs as W_q has outputs. "
    "norm_q and norm_k are RMSNorm(d_head, eps).",
)
def qk_structure(rng):
    for n_kv_heads, d_head in ((2, 6), (1, 2 * int(rng.integers(2, 7)))):
        n_heads, d_model = n_kv_heads * int(rng.integers(2, 4)), 4 * int(rng.integers(2, 5))
        yield dict(init=dict(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, d_head=d_head))


@QKNormAttention.property(
    "normalizes queries and keys per head, then rotates them",
    points=3,
    **ROTATED,
    hint="Project, split, norm_q and norm_k over each head's d_head numbers, then apply_rope with self.base, then "
    "attention as before: scores over the square root of d_head, hide later keys, softmax, values, merge, W_o. Values "
    "are neither normalized nor rotated.",
)
def qk_one_pass(rng):
    yield _qk_layer(rng, d_model=4, n_heads=1, n_kv_heads=1, d_head=4, batch=1, n=3)
    yield _qk_layer(rng, d_model=8, n_heads=2, n_kv_heads=2, d_head=4, batch=1, n=4)
    yield _qk_layer(rng, d_model=12, n_heads=3, n_kv_heads=3, d_head=4, batch=2, n=3, base=30.0)


@QKNormAttention.property(
    "takes eps from its arguments",
    points=1,
    **ROTATED,
    hint="Pass eps on to both norms: RMSNorm(d_head, eps).",
)
def qk_eps(rng):
    yield _qk_layer(rng, **SHARED_HEADS, n=3, eps=0.5)
    case = _qk_layer(rng, **SHARED_HEADS, n=3)
    yield {**case, "x": 0.002 * case["x"]}


@QKNormAttention.property(
    "has a head width of its own, and shares keys and values",
    points=2,
    **ROTATED,
    hint="d_head is an argument, not d_model / n_heads: the scores are divided by its square root. `repeat_kv` by "
    "n_heads // n_kv_heads, for keys and values alike.",
)
def own_width(rng):
    yield _qk_layer(rng, d_model=6, n_heads=4, n_kv_heads=2, d_head=4, batch=1, n=4)
    yield _qk_layer(rng, d_model=10, n_heads=6, n_kv_heads=2, d_head=2, batch=2, n=3)


@QKNormAttention.property(
    "sees no further than its window",
    points=2,
    **ROTATED,
    hint="With window 3 a token sees itself and the 2 before it: distances 0, 1 and 2. With window 1 it sees itself "
    "alone; without a window it sees all before it.",
)
def within_the_window(rng):
    for n, window in ((6, 3), (5, 2), (3, 1), (4, 9)):
        yield _qk_layer(rng, **EQUAL_HEADS, n=n, window=window)


@QKNormAttention.property(
    "keeps the future out, and lets the past in",
    points=1,
    probe=probes.moved,
    hint="Replace one token: no earlier row may move, not by a single bit. With a window, rows further on than the "
    "window do not move either.",
)
def qk_future(rng):
    for window in ({}, dict(window=3)):
        case = _qk_layer(rng, d_model=6, n_heads=4, n_kv_heads=2, d_head=2, batch=2, n=7, **window)
        changed = case["x"].clone()
        changed[:, 2] = normal(rng, 2, 6)
        yield dict(**case, name="x", replacement=changed)


@QKNormAttention.property(
    "reads in chunks with a cache what it reads in one pass",
    points=1,
    **IN_CHUNKS,
    hint="Read `len(cache)` before you append: that is the position of the first new token. Normalize, rotate, append, "
    "and continue with what `append` returns. Token i of a chunk sees every key up to len(cache) + i.",
)
def qk_in_chunks(rng):
    yield dict(**_qk_layer(rng, d_model=4, n_heads=1, n_kv_heads=1, d_head=4, batch=1, n=4), cuts=[1, 2, 3])
    yield dict(**_qk_layer(rng, d_model=6, n_heads=2, n_kv_heads=1, d_head=4, batch=2, n=6, base=50.0), cuts=[1, 4])
    yield dict(**_qk_layer(rng, **SHARED_HEADS, n=3), cuts=[])


@QKNormAttention.property(
    "keeps normed, rotated keys and plain values",
    points=1,
    **IN_CHUNKS,
    hint="Normalize and rotate the new keys, then append them with the new values.",
)
def qk_kept(rng):
    yield dict(**_qk_layer(rng, **SHARED_HEADS, n=5), cuts=[2], kept=True)


@QKNormAttention.property(
    "reads in chunks within its window too",
    points=1,
    **IN_CHUNKS,
    hint="The cache keeps all tokens, so the mask must hide those that are too far back: the distance from a query's "
    "position, len(cache) + i, to a key's place in the cache.",
)
def qk_window_in_chunks(rng):
    yield dict(**_qk_layer(rng, **SHARED_HEADS, n=7, window=3), cuts=[2, 6])
    yield dict(**_qk_layer(rng, **SHARED_HEADS, n=5, window=2), cuts=[1, 2, 3, 4])


@QKNormAttention.property("keeps two texts with two caches apart", points=1, **IN_CHUNKS, hint=OWN_CACHE)
def qk_apart(rng):
    yield dict(**_qk_layer(rng, **EQUAL_HEADS, n=4), cuts=[2, 3], beside=normal(rng, 1, 5, 4))


def _narrow_qk_layers(rng):
    sizes = dict(d_model=8, n_heads=2, n_kv_heads=2, d_head=4, batch=1)
    yield dict(**_qk_layer(rng, **sizes, n=4, window=2, dtype=torch.float32))
    yield dict(probe="in_chunks", **_qk_layer(rng, **sizes, n=4, dtype=torch.float32), cuts=[2])
    yield dict(**_qk_layer(rng, **sizes, n=3, dtype=torch.bfloat16))


QKNormAttention.gradients(
    lambda rng: dict(
        **_qk_layer(rng, d_model=6, n_heads=2, n_kv_heads=1, d_head=4, batch=1, n=3, names="qk"),
        upstream=[normal(rng, 1, 3, 6)],
    ),
    title="has the right gradients, also for the norms",
    **ROTATED,
    hint="Use only tensor operations; detach nothing. The weights of norm_q and norm_k are learned as well.",
)
QKNormAttention.any_device(_narrow_qk_layers, **PRECISION)
QKNormAttention.unchanged(lambda rng: _qk_layer(rng, **SHARED_HEADS, n=3, names="q"), **UNCHANGED)

Q_HEADS = "split_heads(self.W_q(x), self.n_heads)"
K_HEADS = "split_heads(self.W_k(x), self.n_kv_heads)"
VALUES = "split_heads(self.W_v(x), self.n_kv_heads)"
NORM = "rms_norm(x, self.weight, self.eps)"
NORMS = "RMSNorm(d_head, eps), RMSNorm(d_head, eps)"
SHARE = "k, v = (repeat_kv(kept, self.n_heads // self.n_kv_heads) for kept in (k, v))"

QKNormAttention.mistakes(
    ALL_FROM_0,
    edit("self.norm_q(", "(",
         "Queries and keys are not normalized: this is grouped-query attention. Apply norm_q and norm_k after "
         "splitting.", also={"self.norm_k(": "("}),
    edit(f"apply_rope(self.norm_q({Q_HEADS}), positions, self.base)",
         f"self.norm_q(apply_rope({Q_HEADS}, positions, self.base))",
         "The norm comes after the rotation. Its weight has one number per entry, and a rotated pair would be scaled "
         "unequally, so that a score no longer depends on the distance alone. Normalize, then rotate.",
         also={f"apply_rope(self.norm_k({K_HEADS}), positions, self.base)":
               f"self.norm_k(apply_rope({K_HEADS}, positions, self.base))"}),
    edit("self.norm_k(", "(",
         "Only the queries are normalized. A score is as large as both vectors make it: normalize the keys as well."),
    edit("self.norm_q(", "(",
         "Only the keys are normalized. A score is as large as both vectors make it: normalize the queries as well."),
    edit("self.norm_k(", "self.norm_q(",
         "norm_q is used for the keys as well. Queries and keys each have a norm with its own weight."),
    edit("self.norm_q(", "self.norm_k(",
         "norm_q and norm_k are exchanged.", also={"self.norm_k(": "self.norm_q("}),
    edit(VALUES, f"self.norm_k({VALUES})",
         "The values are normalized too. They are what is averaged, and their size carries information."),
    edit(NORM, "x * torch.rsqrt(x.square().mean(dim=(1, 3), keepdim=True) + self.eps) * self.weight",
         "The norm runs over all heads of a token together. Each head has its own root mean square: split first, then "
         "normalize the last axis. That is what OLMo 2 does, with a weight for each number of all heads."),
    edit(NORM, "nn.functional.normalize(x, dim=-1) * self.weight",
         "Vectors are brought to length 1 and not to a root mean square of 1, which is larger by sqrt(d_head)."),
    edit(NORM, "rms_norm(x, torch.ones_like(self.weight), self.eps)",
         "The weights of the norms are not used. They are learned, one number for each entry of a head."),
    edit("q.shape[-1]", "x.shape[-1] / self.n_heads",
         "The scores are divided by the square root of d_model / n_heads. The head has a width of its own, d_head."),
    edit(" / math.sqrt(q.shape[-1])", "",
         "The scores are not divided by the square root of d_head. Normalized vectors still have d_head numbers, and "
         "their dot product grows with the width."),
    edit("math.sqrt(q.shape[-1])", "q.shape[-1]",
         "The scores are divided by d_head itself. Use its square root."),
    edit("n_heads)), positions", "n_heads)), 0 * positions",
         "Nothing is rotated, so the scores do not depend on the order of the tokens. Apply RoPE after the norms.",
         also={"kv_heads)), positions": "kv_heads)), 0 * positions"}),
    edit(VALUES, f"apply_rope({VALUES}, positions, self.base)",
         "The values are rotated as well. A position should change the weights and not what is averaged."),
    DEFAULT_BASE,
    edit("distance >= self.window", "distance > self.window",
         "The window is one token too long. With window 3 the distances 0, 1 and 2 are allowed: the token itself "
         "counts."),
    edit("distance >= self.window", "distance >= max(1, self.window - 1)",
         "The window is one token too short. With window 3 a token sees itself and the 2 before it."),
    edit("hidden | (distance >= self.window)", "hidden",
         "The window is not used: every earlier key is visible."),
    edit("hidden | (distance >= self.window)", "distance.abs() >= self.window",
         "The window reaches to both sides, so a token sees what comes after it. The mask must be causal too."),
    edit(".masked_fill(hidden, -math.inf)", "",
         "The mask is missing: tokens see what comes after them."),
    MASK_FROM_0,
    edit("(distance >= self.window)", "(past > 0) & (distance[-1] >= self.window)",
         "With a cache, the window is counted from the last token of the chunk for all its tokens. Each query has its "
         "own position.", also={"weights.to": "weights.nan_to_num().to"}),
    POSITIONS_FROM_0,
    EMPTY_CACHE,
    edit("if cache is not None", f"{SHARE}\n        if cache is not None",
         "The key/value heads are repeated before they go into the cache. The numbers are right, but nothing is saved. "
         "Append first, then repeat what comes back.", also={SHARE: "pass"}),
    edit("k, v = cache.append", "v, k = cache.append",
         "What comes back from `append` is unpacked in the wrong order: keys come first, then values."),
    edit("repeat_kv(kept, self.n_heads // self.n_kv_heads)", "kept.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)",
         "The key/value heads are repeated in the order 0 1 0 1. Neighboring query heads share a head: use "
         "`repeat_kv`."),
    OVER_QUERIES,
    NOT_MAPPED_BACK,
    edit("cache.append(k, v)", f"cache.append(apply_rope({K_HEADS}, positions, self.base), v)",
         "Keys go into the cache before they are normalized, and come back as they are. Normalize and rotate, then "
         "append."),
    edit("past = 0 if", "cache = None if cache is None else self.kept\n        past = 0 if",
         "The layer keeps keys and values in `self` and not in the cache that it is given. Two texts that are read in "
         "turn then get mixed up.", also={"super().__init__()": "super().__init__(); self.kept = KVCache()"}),
    WITH_BIASES,
    edit(NORMS, "RMSNorm(n_heads * d_head, eps), RMSNorm(n_kv_heads * d_head, eps)",
         "The norms run over n_heads * d_head numbers. There is one weight for each of the d_head entries, shared by "
         "heads."),
    DEFAULT_EPS,
    NO_GRADIENT,
    edit(f"self.W_o({MERGED})", f"self.W_o({MERGED}), x.new_zeros(len(x), self.n_heads, x.shape[1], x.shape[1])",
         "The weights of attention are returned along with the output. Here forward returns the output alone."),
    MASK_ON_THE_CPU,
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
    "adds a plain and a rotated score",
    points=3,
    **ROTATED,
    hint="Norm the latent, make keys and values from it, add plain @ plain and rotated @ rotated, divide by the square "
    "root of d_head + d_rope, hide later keys, softmax, values, merge, W_o.",
)
def latent_one_head(rng):
    yield _latent_layer(rng, d_model=6, n_heads=1, d_head=3, d_rope=2, d_latent=4, batch=1, n=3)
    yield _latent_layer(rng, d_model=6, n_heads=1, d_head=2, d_rope=4, d_latent=3, batch=2, n=4)


@LatentAttention.property(
    "takes each head's rows of W_q in order, and shares the rotated key",
    points=2,
    **ROTATED,
    hint="Split the heads first, (batch, n_heads, n, d_head + d_rope), then split the last axis: d_head plain numbers, "
    "then d_rope rotated ones. The rotated key has one head, and broadcasting serves all.",
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
    EMPTY_CACHE,
    MASK_FROM_0,
    edit("scores.masked_fill(later, -math.inf)", "scores",
         "The mask is missing: tokens see what comes after them."),
    OVER_QUERIES,
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


# route ---------------------------------------------------------------------------------------------------------------

route = Exercise(solutions.route, section=EXPERTS, minutes=8, difficulty=2)
LOGITS = torch.tensor([[2.0, 0.0, 1.0, -1.0], [0.5, 3.0, -2.0, 1.5]], dtype=torch.float64)


def _apart(rng, n, experts):
    """Logits that clearly differ within a row, so that rounding cannot change a choice."""
    return torch.from_numpy(np.stack([rng.permutation(experts) for _ in range(n)]) * 0.6 + rng.uniform(0, 0.2, (n, 1)))


@route.property(
    "chooses the largest logits and weighs them among themselves",
    points=3,
    hint="`logits.topk(top_k, dim=-1)` gives the largest and whose they are. Take the softmax of these alone. With the "
    "logits 2, 0, 1, -1 and top_k 2: experts 0 and 2, weights 0.731 and 0.269.",
)
def chosen(rng):
    yield dict(logits=LOGITS, top_k=2)
    yield dict(logits=_apart(rng, 5, 7), top_k=3)


@route.property(
    "works for one expert, and for all",
    points=1,
    hint="With top_k 1 the weight is 1. With all experts, the weights are the softmax of the row, sorted.",
)
def one_or_all(rng):
    yield dict(logits=_apart(rng, 4, 5), top_k=1)
    yield dict(logits=_apart(rng, 4, 5), top_k=5)


@route.property(
    "names experts by whole numbers",
    points=1,
    probe=probes.whole,
    hint="The experts are indices, as `topk` returns them: they will pick modules and rows.",
)
def whole_experts(rng):
    yield dict(logits=_apart(rng, 3, 5), top_k=2)


@route.property(
    "survives logits of a thousand",
    points=1,
    hint="`torch.softmax` subtracts the largest first; exp of a thousand overflows.",
)
def large_logits(rng):
    yield dict(logits=_apart(rng, 3, 5) + 1000.0, top_k=2)
    yield dict(logits=_apart(rng, 3, 5) - 1000.0, top_k=2)


route.gradients(
    lambda rng: dict(
        logits=_apart(rng, 3, 5), top_k=2, upstream=[normal(rng, 3, 2), torch.zeros(3, 2, dtype=torch.float64)]
    ),
    title="sends gradients to the chosen logits alone",
    hint="The router learns through the weights: detach nothing.",
)
route.any_device(
    lambda rng: [dict(logits=_apart(rng, 3, 5).to(kind), top_k=2) for kind in KINDS],
    title="keeps the kind of number, and the device",
    **NARROW,
    hint="float32 logits give float32 weights. The experts are whole numbers. Create no tensor on a fixed device.",
)
route.unchanged(
    lambda rng: dict(logits=_apart(rng, 3, 5), top_k=2),
    title="leaves its input as it was",
    hint="To hide logits by writing minus infinity into them changes the caller's tensor.",
)

TOP = "logits.topk(top_k, dim=-1)"
WEIGHTS = "chosen.softmax(dim=-1, dtype=wide).to(logits.dtype)"

route.mistakes(
    edit(TOP, "logits.softmax(-1).topk(top_k, dim=-1)",
         "The weights are shares of a softmax over all experts, so they sum to less than 1. Take the softmax over the "
         "chosen logits only.", also={WEIGHTS: "chosen"}),
    edit(WEIGHTS, "(chosen.sigmoid() / chosen.sigmoid().sum(-1, keepdim=True))",
         "The weights are sigmoids, divided by their sum. Some models do that; this exercise asks for the softmax of "
         "the chosen logits."),
    edit(WEIGHTS, "chosen",
         "The weights are the logits themselves. They still need a softmax."),
    edit(f"{WEIGHTS}, experts", f"{WEIGHTS}.flip(-1), experts.flip(-1)",
         "The order is smallest first. Largest first, in weights and experts."),
    edit(WEIGHTS, f"{WEIGHTS}.flip(-1)",
         "The weights are in the opposite order from the experts."),
    edit(TOP, "logits.topk(top_k, dim=-1, largest=False)",
         "The smallest logits are chosen. The router's largest logits name the experts."),
    edit(f"{WEIGHTS}, experts", f"experts, {WEIGHTS}",
         "Experts and weights come back in the wrong order: weights first."),
    edit("softmax(dim=-1", "softmax(dim=0",
         "The softmax runs over the tokens. Each token shares out a weight of 1 among its own experts: dim=-1."),
    edit(TOP, "logits.topk(min(top_k, len(logits)), dim=0)",
         "Each expert chooses tokens here. Each token chooses experts: topk along the last axis.",
         also={f"{WEIGHTS}, experts": "chosen.softmax(0).T, experts.T"}),
    edit(WEIGHTS, "chosen.sigmoid()",
         "The weights are sigmoids of the logits. They should be a softmax over those that were chosen."),
    edit(WEIGHTS, "torch.ones_like(chosen) / top_k + 0 * chosen",
         "All chosen experts get the same weight. A larger logit should count for more."),
    edit(WEIGHTS, "chosen / chosen.sum(-1, keepdim=True)",
         "The chosen logits are divided by their sum. A logit may be negative; take the softmax."),
    edit(f"{WEIGHTS}, experts",
         f"torch.zeros_like(logits).scatter(-1, experts, {WEIGHTS}), "
         "torch.arange(logits.shape[-1]).expand_as(logits)",
         "Every expert has a column, with weight 0 where it is not chosen. Only top_k columns are asked for."),
    edit(TOP, "logits.topk(1, dim=-1)",
         "Only the best expert comes back. A token uses top_k of them."),
    edit(f"{WEIGHTS}, experts", f"{WEIGHTS}, experts.to(logits.dtype)",
         "The experts are floats. They are indices: leave them as the whole numbers that `topk` returns."),
    edit(WEIGHTS, "chosen.exp() / chosen.exp().sum(-1, keepdim=True)",
         "No maximum is subtracted, so large logits overflow. Use torch.softmax."),
    edit(WEIGHTS, f"{WEIGHTS}.detach()",
         "The gradient is cut, so the router would never learn. `.detach()` and NumPy give tensors without one."),
)  # fmt: skip


# MixtureOfExperts ----------------------------------------------------------------------------------------------------

MixtureOfExperts = Exercise(solutions.MixtureOfExperts, section=EXPERTS, minutes=25, difficulty=3)
DIFFERENTIATED = {"router.weight", *(f"experts.{e}.W_down.weight" for e in range(5))}


def _moe_layer(rng, d_model, d_ff, n_experts, top_k, batch, n, names=None, dtype=torch.float64):
    """A layer, weights, and tokens whose router logits clearly differ, so that rounding cannot change a choice."""
    router = 1.5 * normal(rng, n_experts, d_model)
    while True:
        x = normal(rng, batch, n, d_model)
        logits = (x @ router.T).sort(dim=-1).values
        if n_experts == 1 or logits.diff(dim=-1).min() > 0.02:
            break
    weights = {"router.weight": router}
    for e in range(n_experts):
        for name, shape in (("W_gate", (d_ff, d_model)), ("W_up", (d_ff, d_model)), ("W_down", (d_model, d_ff))):
            weights[f"experts.{e}.{name}.weight"] = normal(rng, *shape) * 1.5 / shape[1] ** 0.5
    return dict(
        init=dict(d_model=d_model, d_ff=d_ff, n_experts=n_experts, top_k=top_k),
        weights={key: value.to(dtype) for key, value in weights.items() if names is None or key in names},
        x=x.to(dtype),
    )


@MixtureOfExperts.property(
    "has a router without bias and a list of SwiGLU networks",
    points=1,
    hint="router: nn.Linear(d_model, n_experts, bias=False). experts: nn.ModuleList of SwiGLU(d_model, d_ff). A plain "
    "Python list would hide their parameters.",
)
def moe_structure(rng):
    yield dict(init=dict(d_model=int(rng.integers(3, 7)), d_ff=5, n_experts=3, top_k=2))
    yield dict(init=dict(d_model=4, d_ff=int(rng.integers(5, 9)), n_experts=2, top_k=1))


@MixtureOfExperts.property(
    "adds up the chosen experts, by their weights",
    points=3,
    **SINGLE,
    hint="Flatten the texts into rows, route them, and for each expert add weight * expert(its rows) to these rows of "
    "the result.",
)
def moe_sums(rng):
    yield _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=2, batch=1, n=4)
    yield _moe_layer(rng, d_model=4, d_ff=3, n_experts=5, top_k=3, batch=2, n=3)


@MixtureOfExperts.property(
    "works with one expert per token, and with all",
    points=1,
    **SINGLE,
    hint="With top_k 1 every weight is 1. With top_k = n_experts every expert reads every row.",
)
def moe_one_or_all(rng):
    yield _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=1, batch=1, n=4)
    yield _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=3, batch=1, n=3)


@MixtureOfExperts.property(
    "calls an expert with the rows routed to it, and with no others",
    points=2,
    probe=probes.routed,
    **SINGLE,
    hint="`torch.where(experts == e)` says which rows chose expert e. Call the expert with `rows[these]` only: reading "
    "all rows and multiplying by 0 costs as much as if every expert were used.",
)
def moe_rows(rng):
    yield dict(**_moe_layer(rng, d_model=3, d_ff=4, n_experts=4, top_k=2, batch=2, n=3), inner="experts")
    yield dict(**_moe_layer(rng, d_model=3, d_ff=4, n_experts=6, top_k=1, batch=1, n=3), inner="experts")


MixtureOfExperts.gradients(
    lambda rng: dict(
        **_moe_layer(rng, d_model=3, d_ff=2, n_experts=5, top_k=2, batch=1, n=2, names=DIFFERENTIATED),
        upstream=[normal(rng, 1, 2, 3)],
    ),
    title="has the right gradients, for the router too, and none for an idle expert",
    points=2,
    rtol=1e-4,
    atol=1e-6,
    hint="The router learns through the weights that multiply the experts' outputs. An expert without rows is not "
    "called, so it gets no gradient.",
)


@MixtureOfExperts.property(
    "works in single precision",
    points=1,
    rtol=1e-3,
    atol=1e-4,
    hint="float32 in, float32 out. Create the result like x: `torch.zeros_like(rows)`.",
)
def moe_single(rng):
    yield _moe_layer(rng, d_model=4, d_ff=3, n_experts=3, top_k=2, batch=1, n=3, dtype=torch.float32)


MixtureOfExperts.unchanged(
    lambda rng: _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=2, batch=1, n=3),
    title="leaves its tokens as they were, and keeps nothing",
    **SINGLE,
    hint="Add the experts' outputs to a new tensor of zeros, not to the rows of x.",
)

ROUTED = "route(self.router(rows), self.top_k)"
WEIGHT = "weights[token, choice, None]"
OUTPUT = "expert(rows[token])"

MixtureOfExperts.mistakes(
    edit(ROUTED, "self.router(rows).softmax(dim=-1).topk(self.top_k, dim=-1)",
         "The weights come from a softmax over all experts, so those of the chosen ones sum to less than 1. Use "
         "`route`."),
    edit(ROUTED, "route(self.router(rows), 1)", "Only the best expert of a token is used. A token uses top_k of them."),
    edit(f"{WEIGHT} * {OUTPUT}", OUTPUT,
         "The weights are left out: the experts' outputs are added as they are."),
    edit(WEIGHT, "1 / self.top_k",
         "The experts' outputs are averaged. Each counts by its own weight."),
    edit(WEIGHT, "weights.flip(-1)[token, choice, None]",
         "The weights are those of other experts: their order is not that of the indices."),
    edit(ROUTED, f"(part[:, :1] for part in {ROUTED})",
         "Only the best expert of a token is used. A token uses top_k of them."),
    edit(TOP, "logits.topk(top_k, dim=-1, largest=False)",
         "The experts with the smallest logits are used."),
    edit("torch.zeros_like(rows)", "rows.clone()",
         "The rows themselves are in the result as well. The residual connection is the block's, not this layer's."),
    edit(OUTPUT, "expert(rows[token] + mixed[token])",
         "Each expert reads what the one before it returned. All read the rows of x, and their outputs are added."),
    edit("index_add", "index_copy",
         "A row is overwritten by the next expert that it chose. Add to it: `index_add`, or `+=` on the rows."),
    edit(f"{WEIGHT} * {OUTPUT}", f"expert({WEIGHT} * rows[token])",
         "The weight multiplies the rows before the expert reads them. An expert is not linear: weigh what it "
         "returns."),
    edit(OUTPUT, "expert(rows)[token]",
         "Every expert reads all rows, and those that are not its own are multiplied by 0. The numbers are right, but "
         "nothing is saved: call it with its own rows only."),
    edit(WEIGHT, "weights.detach()[token, choice, None]",
         "The weights are detached, so the router gets no gradient and never learns."),
    edit("self.router(rows)", "self.router(rows).mean(0, keepdim=True).expand(len(rows), -1)",
         "The tokens of a text are routed together: all take the experts of their mean, or of the first one. Route "
         "each of them by itself."),
    edit("n_experts, bias=False", "n_experts",
         "The router has a bias. nn.Linear adds one unless you say bias=False."),
    edit("nn.ModuleList(", "list(",
         "The experts are in a plain Python list, so PyTorch does not find their parameters: they would never be "
         "trained or saved. Use nn.ModuleList."),
    edit("SwiGLU(d_model, d_ff) for _ in range(n_experts)", "[SwiGLU(d_model, d_ff)] * n_experts",
         "All experts are one module, so they share their weights. Make a new one for each."),
    NO_GRADIENT,
    edit("return mixed.view_as(x)", "return mixed.view_as(x), (weights, experts)",
         "The weights are returned along with the output. Here forward returns the output alone."),
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
