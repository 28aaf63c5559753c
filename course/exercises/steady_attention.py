"""Exercises on scores that stay in hand: what must hold, on which inputs, and what people get wrong.

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
    FINITE,
    MASK_FROM_0,
    MASK_ON_THE_CPU,
    MERGED,
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
from solutions import steady_attention as solutions

IN_CHUNKS = dict(probe=probes.in_chunks, **ROTATED)
KINDS = (torch.float32, torch.bfloat16)
NARROW = dict(rtol=0.02, atol=0.02)  # for bfloat16
CAP = "Scores that cannot grow"
SINK = "A place for weight that no key deserves"
QK_NORM = "Normalized queries and keys"
GATE = "A gate on the output"

# soft_cap ------------------------------------------------------------------------------------------------------------

soft_cap = Exercise(solutions.soft_cap, section=CAP, minutes=5, difficulty=1, bonus=True)
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
    "bends by a cap of 1, however large the scores, and not at all without a cap",
    points=1,
    hint="`cap=None` means that there is no cap: return the scores. With a cap, torch.tanh takes scores of any size; "
    "an exponential of your own overflows.",
)
def without_a_cap(rng):
    yield dict(scores=normal(rng, 2, 3), cap=1.0)
    for large, kind in ((4000.0, torch.float64), (400.0, torch.float32)):
        # tanh is exactly 1 or -1 there, however it is computed.
        yield dict(scores=torch.tensor([large, -large, large + float(rng.integers(1, 9))], dtype=kind), cap=1.0)
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
    lambda rng: dict(scores=3.0 * normal(rng, 3, 4), cap=1.5),  # so that some are beyond the cap
    title="leaves its input as it was",
    hint="`/=` and `tanh_()` write into the caller's tensor.",
)

BENT = "cap * torch.tanh(scores / cap)"
OVERFLOW = (
    "The tanh is made from exponentials, which overflow for large scores, and infinity divided by infinity is nan. "
    "torch.tanh takes scores of any size."
)

soft_cap.mistakes(
    edit(BENT, "scores.clamp(-cap, cap)",
         "Scores are clipped. Beyond the cap a clipped score has no gradient, so training cannot bring it back. tanh "
         "bends it instead, and its slope is never 0."),
    edit(BENT, f"torch.where(scores.abs() > cap, {BENT}, scores)",
         "Only scores beyond the cap are bent, and those within it come back as they were. tanh bends each score, a "
         "small one hardly, so use it for all of them."),
    edit(BENT, "cap * ((2 * scores / cap).exp() - 1) / ((2 * scores / cap).exp() + 1)", OVERFLOW),
    edit(BENT, "cap * (1 - (-2 * scores / cap).exp()) / (1 + (-2 * scores / cap).exp())", OVERFLOW),
    edit(BENT, "cap * ((scores / cap).exp() - (-scores / cap).exp()) / ((scores / cap).exp() + (-scores / cap).exp())",
         OVERFLOW),
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
         "The gradient is cut. `torch.no_grad()`, `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give "
         "tensors without a gradient."),
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
         "A row without an allowed key is nan. Either the mask hides the sink as well, which is always there, or the "
         "weights that remain are divided by their sum, 0. Their sum is no longer needed: drop the sink's weight."),
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
         "The gradient of the sinks is cut. `torch.no_grad()`, `.detach()`, `.data`, `.item()` and `torch.tensor(...)` "
         "give numbers without a gradient, and then a sink is never learned."),
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


# QKNormAttention -----------------------------------------------------------------------------------------------------

QKNormAttention = Exercise(solutions.QKNormAttention, section=QK_NORM, minutes=30, difficulty=3)
EQUAL_HEADS = dict(d_model=4, n_heads=2, n_kv_heads=2, d_head=2, batch=1)
SHARED_HEADS = {**EQUAL_HEADS, "n_kv_heads": 1}


def _qk_layer(rng, d_model, n_heads, n_kv_heads, d_head, batch, n, names="qkvo", dtype=torch.float64, **init):
    """A layer, weights of variance about 1 / d_model for the maps named, norm weights that differ, and tokens."""
    wide, narrow = n_heads * d_head, n_kv_heads * d_head
    shapes = dict(q=(wide, d_model), k=(narrow, d_model), v=(narrow, d_model), g=(wide, d_model), o=(d_model, wide))
    weights = {f"W_{m}.weight": normal(rng, *shapes[m], dtype=dtype) * 1.5 / shapes[m][1] ** 0.5 for m in names}
    weights |= {f"norm_{m}.weight": (1.2 + 0.6 * normal(rng, d_head)).to(dtype) for m in "qk" if m in names}
    return dict(
        init=dict(d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, d_head=d_head, **init),
        weights=weights,
        x=normal(rng, batch, n, d_model, dtype=dtype),
    )


def _far_below_zero(rng, case):
    """A layer of two tokens in which a token scores itself with minus billions; the second token is replaced."""
    weights = case["weights"]
    weights["W_q.weight"] = -weights["W_k.weight"]
    for name, size in (("norm_q", 1e10), ("norm_k", 1.0)):
        weights[f"{name}.weight"] = torch.full_like(weights[f"{name}.weight"], size)
    changed = case["x"].clone()
    changed[:, 1] = normal(rng, *changed[:, 1].shape)
    return dict(case, name="x", replacement=changed)


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
    "normalizes queries and keys per head, then rotates them, however large the scores",
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
    large = _qk_layer(rng, d_model=4, n_heads=1, n_kv_heads=1, d_head=4, batch=1, n=3)
    for norm in ("norm_q.weight", "norm_k.weight"):
        large["weights"][norm] *= 40.0  # exp of a score overflows
    yield large


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
    yield _far_below_zero(rng, _qk_layer(rng, d_model=6, n_heads=2, n_kv_heads=2, d_head=4, batch=1, n=2))


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
BY_VIEW = (
    "Queries, keys and values are cut into heads by a `reshape` or `view` alone, which mixes tokens and heads: cut the "
    "last axis, then exchange axes. Use `split_heads`."
)
NORM = "rms_norm(x, self.weight, self.eps)"
NORMS = "RMSNorm(d_head, eps), RMSNorm(d_head, eps)"
SHARE = "k, v = (repeat_kv(kept, self.n_heads // self.n_kv_heads) for kept in (k, v))"

QKNormAttention.mistakes(
    ALL_FROM_0,
    FINITE,
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
    edit("(distance >= self.window)", "((distance >= self.window) & (positions[:, None] - distance < past))",
         "The window hides keys of earlier chunks alone, so within a chunk, and without a cache, it has no effect. It "
         "counts for every key."),
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
    edit("distance = positions[:, None] - torch.arange(k.shape[2], device=x.device)",
         "first = 0 if self.window is None else max(0, k.shape[2] - self.window)\n"
         "        k, v = k[:, :, first:], v[:, :, first:]\n"
         "        distance = positions[:, None] - torch.arange(first, first + k.shape[2], device=x.device)",
         "Keys and values are cut to the last `window` of them, for all queries alike. Earlier queries of the same "
         "chunk lose keys of theirs, and a row without a key is nan. Keep them all, and let the mask hide what is too "
         "far back for each query."),
    edit(Q_HEADS, "self.W_q(x).reshape(len(x), self.n_heads, x.shape[1], -1)", BY_VIEW,
         also={K_HEADS: "self.W_k(x).reshape(len(x), self.n_kv_heads, x.shape[1], -1)",
               VALUES: "self.W_v(x).reshape(len(x), self.n_kv_heads, x.shape[1], -1)"}),
    edit("repeat_kv(kept, self.n_heads // self.n_kv_heads)", "kept.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)",
         "The key/value heads are repeated in the order 0 1 0 1. Neighboring query heads share a head: use "
         "`repeat_kv`."),
    OVER_QUERIES,
    NO_MAXIMUM,
    MERGED_BY_VIEW,
    NOT_MAPPED_BACK,
    edit(f"self.norm_k({K_HEADS}), positions", f"self.norm_k({K_HEADS}), positions - past",
         "In each chunk the new keys begin at position 0 again, and the queries at len(cache). Both begin at "
         "len(cache)."),
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


# GatedAttention ------------------------------------------------------------------------------------------------------

GatedAttention = Exercise(solutions.GatedAttention, section=GATE, minutes=20, difficulty=3)
GATED_SIZES = dict(d_model=6, n_heads=2, n_kv_heads=1, d_head=4, d_rotary=2, batch=1)


def _gated_layer(rng, *, names="qkvgo", **sizes):
    """As `_qk_layer`, with a gate that opens for some numbers and closes for others."""
    case = _qk_layer(rng, names=names, **sizes)
    if "g" in names:
        case["weights"]["W_g.weight"] *= 1.5
    return case


@GatedAttention.property(
    "has five maps without bias and two norms over d_head",
    points=1,
    hint="W_q and W_g have n_heads * d_head outputs, W_k and W_v n_kv_heads * d_head, W_o as many inputs as W_q has "
    "outputs. norm_q and norm_k are RMSNorm(d_head, eps).",
)
def gated_structure(rng):
    for n_kv_heads, d_head in ((2, 6), (1, 2 * int(rng.integers(2, 7)))):
        n_heads, d_model = n_kv_heads * int(rng.integers(2, 4)), 4 * int(rng.integers(2, 5))
        sizes = dict(n_kv_heads=n_kv_heads, d_head=d_head, d_rotary=2)
        yield dict(init=dict(d_model=d_model, n_heads=n_heads, **sizes))


@GatedAttention.property(
    "multiplies what the heads return by a gate, number by number",
    points=3,
    **ROTATED,
    hint="Merge the heads, multiply by torch.sigmoid(self.W_g(x)), which has the same shape, and then apply W_o. All "
    "else is as in QKNormAttention.",
)
def gated_one_pass(rng):
    yield _gated_layer(rng, d_model=4, n_heads=1, n_kv_heads=1, d_head=4, d_rotary=4, batch=1, n=3)
    yield _gated_layer(rng, d_model=8, n_heads=2, n_kv_heads=2, d_head=4, d_rotary=4, batch=1, n=4)
    yield _gated_layer(rng, d_model=12, n_heads=3, n_kv_heads=3, d_head=4, d_rotary=4, batch=2, n=3, base=30.0)


@GatedAttention.property(
    "rotates the first d_rotary numbers of a head, and no others",
    points=2,
    **ROTATED,
    hint="Cut the last axis behind d_rotary, give the first part to apply_rope, and join the rest to what it returns. "
    "apply_rope then takes its pairs and its frequencies from a width of d_rotary.",
)
def gated_partly_rotated(rng):
    yield _gated_layer(rng, d_model=8, n_heads=1, n_kv_heads=1, d_head=8, d_rotary=4, batch=1, n=4)
    yield _gated_layer(rng, d_model=12, n_heads=2, n_kv_heads=2, d_head=6, d_rotary=4, batch=1, n=5, base=20.0)
    yield _gated_layer(rng, d_model=8, n_heads=2, n_kv_heads=2, d_head=4, d_rotary=2, batch=2, n=4)
    yield _gated_layer(rng, d_model=4, n_heads=1, n_kv_heads=1, d_head=8, d_rotary=2, batch=1, n=4)


@GatedAttention.property(
    "has a head width of its own, and shares keys and values",
    points=1,
    **ROTATED,
    hint="d_head is an argument, not d_model / n_heads. `repeat_kv` by n_heads // n_kv_heads, for keys and values "
    "alike. The gate has n_heads * d_head numbers.",
)
def gated_own_width(rng):
    yield _gated_layer(rng, d_model=6, n_heads=4, n_kv_heads=2, d_head=4, d_rotary=2, batch=1, n=4)
    yield _gated_layer(rng, d_model=10, n_heads=6, n_kv_heads=2, d_head=2, d_rotary=2, batch=2, n=3)


@GatedAttention.property(
    "takes base and eps from its arguments",
    points=1,
    **ROTATED,
    hint="Pass `base` to apply_rope, for queries and keys, and eps to both norms. Its default here is 1e-6.",
)
def gated_settings(rng):
    sizes = dict(d_model=6, n_heads=2, n_kv_heads=2, d_head=6, d_rotary=4, batch=1)
    yield _gated_layer(rng, **sizes, n=4, base=20.0)
    yield _gated_layer(rng, **sizes, n=3, eps=0.5)
    case = _gated_layer(rng, **sizes, n=3)
    yield {**case, "x": 0.002 * case["x"]}


@GatedAttention.property(
    "keeps the future out, and lets the past in",
    points=1,
    probe=probes.moved,
    hint="Replace one token: no earlier row may move, not by a single bit, and every row from there on must.",
)
def gated_future(rng):
    case = _gated_layer(rng, **{**GATED_SIZES, "batch": 2}, n=5)
    changed = case["x"].clone()
    changed[:, 2] = normal(rng, 2, 6)
    yield dict(**case, name="x", replacement=changed)
    sizes = dict(d_model=6, n_heads=2, n_kv_heads=2, d_head=4, d_rotary=2, batch=1)
    yield _far_below_zero(rng, _gated_layer(rng, **sizes, n=2))


@GatedAttention.property(
    "reads in chunks with a cache what it reads in one pass",
    points=1,
    **IN_CHUNKS,
    hint="Read `len(cache)` before you append: that is the position of the first new token. The gate needs no cache: "
    "it is computed from the new tokens alone.",
)
def gated_in_chunks(rng):
    sizes = dict(d_model=4, n_heads=1, n_kv_heads=1, d_head=4, d_rotary=2, batch=1)
    yield dict(**_gated_layer(rng, **sizes, n=4), cuts=[1, 2, 3])
    yield dict(**_gated_layer(rng, **{**GATED_SIZES, "batch": 2}, n=6, base=50.0), cuts=[1, 4])
    yield dict(**_gated_layer(rng, **GATED_SIZES, n=3), cuts=[])


@GatedAttention.property(
    "keeps normed, rotated keys and plain values",
    points=1,
    **IN_CHUNKS,
    hint="Normalize and rotate the new keys, then append them with the new values. The rotated numbers of a key come "
    "first, then the rest. Nothing of the gate is kept.",
)
def gated_kept(rng):
    yield dict(**_gated_layer(rng, **GATED_SIZES, n=5), cuts=[2], kept=True)


@GatedAttention.property("keeps two texts with two caches apart", points=1, **IN_CHUNKS, hint=OWN_CACHE)
def gated_apart(rng):
    yield dict(**_gated_layer(rng, **GATED_SIZES, n=4), cuts=[2, 3], beside=normal(rng, 1, 5, 6))


def _narrow_gated_layers(rng):
    sizes = dict(d_model=8, n_heads=2, n_kv_heads=2, d_head=4, d_rotary=2, batch=1)
    yield dict(**_gated_layer(rng, **sizes, n=4, dtype=torch.float32))
    yield dict(probe="in_chunks", **_gated_layer(rng, **sizes, n=4, dtype=torch.float32), cuts=[2])
    yield dict(**_gated_layer(rng, **sizes, n=3, dtype=torch.bfloat16))


GatedAttention.gradients(
    lambda rng: dict(**_gated_layer(rng, **GATED_SIZES, n=3, names="qkg"), upstream=[normal(rng, 1, 3, 6)]),
    title="has the right gradients, also for the norms and the gate",
    **ROTATED,
    hint="Use only tensor operations; detach nothing. norm_q, norm_k and W_g are learned as well.",
)
GatedAttention.any_device(_narrow_gated_layers, **PRECISION)
GatedAttention.unchanged(lambda rng: _gated_layer(rng, **GATED_SIZES, n=3, names="qg"), **UNCHANGED)

OPEN = "torch.sigmoid(self.W_g(x))"
GATED = f"{OPEN} * merged"
PARTLY = "torch.cat([apply_rope(turned, positions, self.base), plain], dim=-1)"
CUT = "heads[..., : self.d_rotary], heads[..., self.d_rotary :]"
GATE_MAP = "self.W_g = nn.Linear(d_model, n_heads * d_head, bias=False)"
GATED_QUERIES = f"rotated(self.norm_q({Q_HEADS}))"
GATED_KEYS = f"rotated(self.norm_k({K_HEADS}))"

GatedAttention.mistakes(
    FINITE,
    edit(GATED, "merged",
         "The gate is not used: this is QKNormAttention with fewer rotated numbers. Multiply the merged heads by "
         "sigmoid(W_g x) before W_o."),
    edit(OPEN, "self.W_g(x)",
         "The gate has no sigmoid, so it can be negative or larger than 1. A gate is between 0 and 1."),
    edit(OPEN, "nn.functional.silu(self.W_g(x))",
         "The gate is a SiLU, as in SwiGLU. Here it is a sigmoid: it can close what it multiplies, and it never makes "
         "it larger."),
    edit("torch.sigmoid(", "torch.tanh(",
         "The gate is a tanh, which also turns signs around. Use a sigmoid, which is between 0 and 1."),
    edit(OPEN, "(1 - torch.sigmoid(self.W_g(x)))",
         "The gate works the wrong way: it closes where W_g x is large. Multiply by the sigmoid and not by 1 minus "
         "it."),
    edit(OPEN, "self.W_g(x).softmax(dim=-1)",
         "The gate is a softmax, so its numbers compete and sum to 1. Each number has a sigmoid of its own: all of "
         "them may close."),
    edit(OPEN, "2 * torch.sigmoid(self.W_g(x))",
         "The gate is doubled, so that it begins near 1. Here it is a sigmoid and nothing else: it begins near 1/2, "
         "and W_o can make up for that."),
    edit(GATED, "torch.sigmoid(self.W_g(x)) + merged",
         "The gate is added. It should multiply what the heads return, so that it can bring it to 0."),
    edit(OPEN, "torch.sigmoid(self.W_g(x)).unflatten(-1, (-1, self.n_heads)).mT.flatten(-2)",
         "The gate's numbers are in another order than the merged heads: all heads' first numbers, then all second "
         "ones. Its rows are head by head, as those of W_q."),
    edit(OPEN,
         "torch.sigmoid(self.W_g(x)).unflatten(-1, (self.n_heads, -1)).mean(-1, keepdim=True)"
         ".expand(-1, -1, -1, merged.shape[-1] // self.n_heads).flatten(-2)",
         "Each head has one gate for all its numbers. Here each number of a head has a gate of its own."),
    edit(OPEN, "torch.sigmoid(self.W_g(x)).mean(dim=1, keepdim=True)",
         "One gate serves all tokens: it is averaged over the text, so it also sees what comes later. Each token has "
         "its own."),
    edit(f"self.W_o({GATED})",
         "nn.functional.pad(torch.sigmoid(self.W_g(x)), (0, x.shape[-1]))[..., : x.shape[-1]] * self.W_o(merged)",
         "The gate comes after W_o. It has n_heads * d_head numbers, one for each that the heads return: multiply "
         "before W_o, while the heads are still apart."),
    edit("self.W_g(x)",
         "nn.functional.linear(nn.functional.pad(merged, (0, x.shape[-1]))[..., : x.shape[-1]], self.W_g.weight)",
         "The gate is computed from what the heads return. It reads x, the token itself."),
    edit(OPEN, f"{OPEN}.detach()",
         "The gate is detached, so W_g gets no gradient and is never learned."),
    edit(CUT, "heads, heads[..., :0]",
         "All numbers of a head are rotated. Only the first d_rotary of them are, and the rest pass unchanged."),
    edit(PARTLY, "torch.cat([plain, apply_rope(turned, positions, self.base)], dim=-1)",
         "The last d_rotary numbers of a head are rotated. The first ones are, and the rest pass.",
         also={CUT: "heads[..., heads.shape[-1] - self.d_rotary :], heads[..., : heads.shape[-1] - self.d_rotary]"}),
    edit(PARTLY, "torch.cat([plain, apply_rope(turned, positions, self.base)], dim=-1)",
         "The rotated numbers are put behind the others. Scores do not change, but the cache then keeps keys in "
         "another order: what was first comes first."),
    edit("self.base)", "self.base ** (self.d_rotary / heads.shape[-1]))",
         "The frequencies are those of a head d_head wide. apply_rope sees only d_rotary numbers, so its frequencies "
         "are those of a head d_rotary wide."),
    edit(PARTLY, "(lambda half, r, d: torch.cat([half[..., :r], heads[..., r : d // 2], half[..., r:], "
         "heads[..., d // 2 + r :]], dim=-1))(apply_rope("
         "torch.cat([turned[..., : self.d_rotary // 2], "
         "heads[..., heads.shape[-1] // 2 : heads.shape[-1] // 2 + self.d_rotary // 2]], dim=-1), "
         "positions, self.base), self.d_rotary // 2, heads.shape[-1])",
         "The pairs reach over the whole head, (i, i + d_head/2). They should be within the first d_rotary numbers: "
         "(i, i + d_rotary/2)."),
    edit("apply_rope(turned, positions, self.base)",
         "apply_rope(turned.unflatten(-1, (-1, 2)).mT.flatten(-2), positions, self.base)"
         ".unflatten(-1, (2, -1)).mT.flatten(-2)",
         "Neighbors are paired, (0, 1), (2, 3), ... In the half-split order, number i of the first d_rotary is paired "
         "with i + d_rotary/2."),
    edit(PARTLY, "torch.cat([apply_rope(heads[..., : 2 * self.d_rotary], positions, self.base), "
         "heads[..., 2 * self.d_rotary :]], dim=-1)",
         "Twice as many numbers are rotated as should be: d_rotary counts numbers, and not pairs."),
    edit("heads[..., : self.d_rotary], heads[..., self.d_rotary :]",
         "heads[..., : self.d_rotary], heads[..., self.d_rotary - heads.shape[-1] :]",
         "The numbers that are not rotated are taken from the end, by a negative index. Where all are rotated it is "
         "-0, which takes the whole head again: begin at d_rotary."),
    edit(PARTLY, "nn.functional.pad(apply_rope(turned, positions, self.base), (0, plain.shape[-1]))",
         "The numbers that are not rotated are lost. Join them to the rotated ones: they are compared as well."),
    edit(PARTLY, "heads",
         "Nothing is rotated, so the scores do not depend on the order of the tokens. The first d_rotary numbers of "
         "queries and keys are."),
    edit("q = " + GATED_QUERIES, f"q = self.norm_q({Q_HEADS})",
         "Only the keys are rotated. A score depends on the distance if both sides are."),
    edit("k = " + GATED_KEYS, f"k = self.norm_k({K_HEADS})",
         "Only the queries are rotated. A score depends on the distance if both sides are."),
    edit(GATED_QUERIES, f"self.norm_q(rotated({Q_HEADS}))",
         "The norm comes after the rotation. Its weight has one number per entry, and a rotated pair would be scaled "
         "unequally. Normalize, then rotate.",
         also={GATED_KEYS: f"self.norm_k(rotated({K_HEADS}))"}),
    edit("self.norm_q(", "(",
         "Queries and keys are not normalized. Apply norm_q and norm_k after splitting.", also={"self.norm_k(": "("}),
    edit("self.norm_k(", "(", "Only the queries are normalized. Normalize the keys as well."),
    edit("self.norm_q(", "(", "Only the keys are normalized. Normalize the queries as well."),
    edit("self.norm_q(", "self.norm_k(", "norm_q and norm_k are exchanged.", also={"self.norm_k(": "self.norm_q("}),
    edit(NORM, "rms_norm(x, 1 + self.weight, self.eps)",
         "The norms multiply by 1 + weight. That is how Qwen3-Next's files are read, whose weights are stored minus 1. "
         "Here the weight multiplies as it is."),
    edit(VALUES, f"rotated({VALUES})",
         "The values are rotated as well. A position should change the weights and not what is averaged."),
    edit("q.shape[-1]", "x.shape[-1] / self.n_heads",
         "The scores are divided by the square root of d_model / n_heads. The head has a width of its own, d_head."),
    edit("q.shape[-1]", "self.d_rotary",
         "The scores are divided by the square root of d_rotary. A score is a product of d_head numbers, rotated or "
         "not."),
    edit(" / math.sqrt(q.shape[-1])", "",
         "The scores are not divided by the square root of d_head."),
    edit("math.sqrt(q.shape[-1])", "q.shape[-1]", "The scores are divided by d_head itself. Use its square root."),
    DEFAULT_BASE,
    DEFAULT_EPS,
    edit(".masked_fill(later, -math.inf)", "", "The mask is missing: tokens see what comes after them."),
    ALL_FROM_0,
    MASK_FROM_0,
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
    edit(f"self.W_o({GATED})", f"nn.functional.pad({GATED}, (0, x.shape[-1]))[..., : x.shape[-1]]",
         "W_o is missing: the gated heads are not mapped back."),
    edit("past = 0 if", "cache = None if cache is None else self.kept\n        past = 0 if",
         "The layer keeps keys and values in `self` and not in the cache that it is given. Two texts that are read in "
         "turn then get mixed up.", also={"super().__init__()": "super().__init__(); self.kept = KVCache()"}),
    WITH_BIASES,
    edit(GATE_MAP, "self.W_g = nn.Linear(d_model, n_heads, bias=False)",
         "W_g has one output per head. It should have n_heads * d_head: a gate for each number that the heads return.",
         also={OPEN: "torch.sigmoid(self.W_g(x)).repeat_interleave(merged.shape[-1] // self.n_heads, dim=-1)"}),
    NO_GRADIENT,
    MASK_ON_THE_CPU,
)  # fmt: skip


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **The gradient.** With a score of 900 one key has nearly all the weight, so p (1 - p) is 0 in float32: no gradient
   reaches the scores that could correct the choice. (In bfloat16 a step at 900 is 4.) It does not prove the cause:
   large scores and a loss at guessing may both come from a learning rate that is too high elsewhere, as in the
   feed-forward networks. Half a point without the doubt.
2. **The price.** Choosing is possible: with one key at +11.3 and 999 at -11.3 the weight of the one is 1 / (1 + 999
   e^-22.6), which is 1 but for about 1.5e-7; with the others at 0 it is still 0.988. Learned factors raise the bound.
   Silence has nothing to do with QK-norm: without a sink the weights sum to 1, with it or without it. A head needs a
   sink (a learned score or a first token) or a gate. With a sink of 0, a thousand keys at -11.3 sum to 0.012. Half a
   point for one of the two.
3. **The runs.** The same model, data and number of steps, with and without the norms and nothing else changed, at
   several learning rates, 0.001 and 0.01 among them, each from several seeds; the largest score and the loss at the
   end, on held-out text. It helps if the runs at 0.01 learn with the norms and not without, and if the best loss over
   all rates is better or the range of good rates wider. Half a point if seeds or other rates are missing.

Model answer. "At a score of 900 the softmax gives one key all the weight. Its derivative p (1 - p) is 0, so a wrong
choice is never corrected. That fits a loss at guessing, but it does not prove the cause: the scores may be a symptom of
steps that are too large everywhere. The price is not real. If one key reaches 11.3 and 999 reach -11.3, the one gets
all but about a ten-millionth; even against zeros it gets 99%. And silence does not depend on the size of scores, since
a softmax sums to 1 in any case. For that a head needs a sink or a gate; with a sink of 0 a thousand keys at -11.3 get
1% together. Before I believe in QK-norm here, I would train both versions at 0.001, 0.003 and 0.01 from three seeds
each, with all else equal, and compare held-out losses and largest scores. If the best loss of both is the same, the
norms buy a wider range of learning rates, and that is what I would say."

Common half answers: "the gradient explodes" (it vanishes); "a bound of 11.3 makes the weights flat" (exponentials of
22.6 apart are not flat); one run at 0.01 that succeeds, as proof.
""",
)
