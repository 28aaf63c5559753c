"""Exercises of the chapter on today's models: what must hold, on which inputs, and what people get wrong.

Angles are float32 by contract, whatever the dtype of x, and right answers may compute them in several ways. So rotated
results are compared to about five digits, and the mistakes here are off by far more.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import modern_attention as solutions
from solutions.multi_head import merge_heads, split_heads
from solutions.rope import apply_rope, rope_frequencies

ROTATED = dict(rtol=1e-4, atol=1e-5)
SINGLE = dict(rtol=1e-5, atol=1e-6)
CAP = "Scores that cannot grow"
SINK = "A place for weight that no key deserves"
STRETCH = "Frequencies for longer texts"
QK_NORM = "Normalized queries and keys"
LATENT = "A latent in place of keys and values"
EXPERTS = "Experts in place of a single network"


def _detached(text, exercise, right):
    """Declares a misconception: right numbers, and no gradient."""

    def detached(*args, **options):
        return right(*args, **options).detach()

    exercise.misconception(text)(detached)


# soft_cap ------------------------------------------------------------------------------------------------------------

soft_cap = Exercise(solutions.soft_cap, section=CAP, minutes=5, difficulty=1)
SCORES = torch.tensor([[0.0, 1.0, -1.0], [5.0, -20.0, 400.0]], dtype=torch.float64)


@soft_cap.property(
    "bends scores to between -cap and cap",
    points=3,
    hint="cap * tanh(scores / cap): divide before the tanh, multiply after it.",
)
def bends(rng):
    yield dict(scores=SCORES.clone(), cap=5.0)
    yield dict(scores=10.0 * normal(rng, 2, 3, 4, 4), cap=float(rng.integers(3, 30)))
    yield dict(scores=3.0 * normal(rng, 7), cap=2)


@soft_cap.property(
    "leaves scores as they are without a cap",
    points=1,
    hint="`cap=None` means that there is no cap: return the scores.",
)
def without_a_cap(rng):
    yield dict(scores=normal(rng, 2, 3), cap=1.0)
    yield dict(scores=SCORES.clone(), cap=None)
    yield dict(scores=100.0 * normal(rng, 2, 3, 3), cap=None)


@soft_cap.property(
    "sends the right gradients",
    points=1,
    probe=probes.gradients,
    hint="Use only tensor operations: `.detach()`, `.data`, NumPy and lists of numbers cut the gradient.",
)
def cap_gradients(rng):
    yield dict(scores=4.0 * normal(rng, 3, 4), cap=5.0, upstream=[normal(rng, 3, 4)])


@soft_cap.property(
    "keeps the kind of number, and the device",
    points=1,
    probe=probes.elsewhere,
    rtol=0.02,
    atol=0.02,
    hint="float32 in, float32 out, and bfloat16 for bfloat16. If you create tensors, create them like the scores.",
)
def cap_kinds(rng):
    yield dict(scores=3.0 * normal(rng, 3, 4, dtype=torch.float32), cap=5.0)
    yield dict(scores=3.0 * normal(rng, 3, 4, dtype=torch.bfloat16), cap=5.0)


@soft_cap.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    hint="`/=` and `tanh_()` write into the caller's tensor.",
)
def cap_is_new(rng):
    yield dict(scores=3.0 * normal(rng, 3, 4), cap=5.0)


def _wrong_cap(text):
    """Declares a misconception about what is done where there is a cap."""

    def declare(f):
        def wrong(scores, cap):
            return scores if cap is None else f(scores, cap)

        wrong.__name__ = f.__name__
        soft_cap.misconception(text)(wrong)
        return f

    return declare


@_wrong_cap(
    "Scores are clipped. Beyond the cap a clipped score has no gradient, so training cannot bring it back. tanh bends "
    "it instead, and its slope is never 0."
)
def clipped(scores, cap):
    return scores.clamp(-cap, cap)


@_wrong_cap("The result is between -1 and 1. Multiply by the cap again after the tanh.")
def not_multiplied(scores, cap):
    return torch.tanh(scores / cap)


@_wrong_cap("The scores are not divided by the cap before the tanh, so all that are beyond 2 or 3 become equal.")
def not_divided(scores, cap):
    return cap * torch.tanh(scores)


@_wrong_cap("The scores are multiplied by the cap inside the tanh, where they should be divided by it.")
def multiplied_inside(scores, cap):
    return cap * torch.tanh(scores * cap)


@_wrong_cap("You divide after the tanh and multiply inside: it should be the other way around.")
def the_other_way_around(scores, cap):
    return torch.tanh(scores * cap) / cap


@_wrong_cap("Only high scores are bent. A score far below 0 is as much of a problem: use tanh for both signs.")
def high_only(scores, cap):
    return torch.where(scores > 0, cap * torch.tanh(scores / cap), scores)


@_wrong_cap("A sigmoid lets nothing below 0 through. tanh keeps the sign of a score.")
def sigmoid(scores, cap):
    return cap * torch.sigmoid(scores / cap)


@_wrong_cap("A sigmoid shifted to -1 to 1 is a tanh of half its argument: scores / cap must be doubled inside.")
def half_the_slope(scores, cap):
    return cap * (2 * torch.sigmoid(scores / cap) - 1)


@_wrong_cap("This bends by s / (1 + |s|): bounded as well, but small scores already shrink. Use tanh.")
def softsign(scores, cap):
    return cap * F.softsign(scores / cap)


@_wrong_cap("The arctangent bends too, but to other numbers, and it ends at pi / 2. Use tanh.")
def arctangent(scores, cap):
    return cap * torch.atan(scores / cap)


@_wrong_cap("The cap is fixed in the code. Use the one that is passed.")
def fixed_cap(scores, cap):
    return 50.0 * torch.tanh(scores / 50.0)


@_wrong_cap("The scores are rescaled so that the largest is the cap. Each score is bent by itself.")
def rescaled(scores, cap):
    return scores * (cap / scores.abs().max())


@soft_cap.misconception("`cap=None` is treated as a cap, or raises an error. Without a cap, return the scores.")
def none_is_one(scores, cap):
    cap = cap or 1.0
    return cap * torch.tanh(scores / cap)


@soft_cap.misconception("Nothing is bent: the scores come back as they were although there is a cap.")
def never_bent(scores, cap):
    return scores * 1.0


@soft_cap.misconception("The caller's scores are written into. Make a new tensor.")
def cap_in_place(scores, cap):
    if cap is None:
        return scores
    if not scores.requires_grad:
        scores.copy_(cap * torch.tanh(scores / cap))
    return cap * torch.tanh(scores / cap) if scores.requires_grad else scores


@soft_cap.misconception("The result is float32 whatever comes in. Keep the dtype of the scores.")
def cap_in_float32(scores, cap):
    return scores if cap is None else (cap * torch.tanh(scores / cap)).float()


_detached(
    "The gradient is cut. `.detach()`, `.data`, `.numpy()` and `torch.tensor(...)` give tensors without a gradient.",
    soft_cap,
    lambda scores, cap: scores if cap is None else cap * torch.tanh(scores / cap),
)


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
    yield dict(scores=normal(rng, 2, 2, 3, 4), sink=sink, mask=each_text)
    yield dict(scores=normal(rng, 2, 2, 3, 4), sink=sink, mask=each_text.transpose(0, 1))
    yield dict(scores=normal(rng, 2, 2, 3, 4), sink=sink, mask=SOME[1:2].flip(1)[None, None])


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


@softmax_with_sink.property(
    "sends the right gradients to scores and sinks",
    points=1,
    probe=probes.gradients,
    hint="The sinks are learned: their gradient must arrive. Use only tensor operations, on `sink` too.",
)
def sink_gradients(rng):
    yield dict(scores=normal(rng, 1, 2, 2, 3), sink=normal(rng, 2), upstream=[normal(rng, 1, 2, 2, 3)])
    empty = torch.tensor([[True, False, True], [False, False, False]])
    yield dict(scores=normal(rng, 1, 2, 2, 3), sink=normal(rng, 2), mask=empty, upstream=[normal(rng, 1, 2, 2, 3)])


@softmax_with_sink.property(
    "keeps the kind of number of the scores, and the device",
    points=1,
    probe=probes.elsewhere,
    rtol=0.02,
    atol=0.02,
    hint="bfloat16 scores give bfloat16 weights, also if the sinks are float32: end with `.to(scores.dtype)`. Create "
    "new tensors like the scores.",
)
def sink_kinds(rng):
    single = normal(rng, 1, 2, 3, 4, dtype=torch.float32)
    yield dict(scores=single, sink=normal(rng, 2, dtype=torch.float32), mask=SOME)
    yield dict(scores=single.to(torch.bfloat16), sink=normal(rng, 2, dtype=torch.float32))


@softmax_with_sink.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    hint="Writing minus infinity into `scores` writes into the caller's tensor. masked_fill and torch.where make a new "
    "one.",
)
def sink_is_new(rng):
    yield dict(scores=normal(rng, 1, 2, 3, 4), sink=normal(rng, 2), mask=SOME)


class _Sink:
    """Right, in steps that a misconception can replace one by one."""

    fill = -math.inf

    def __call__(self, scores, sink, mask=None):
        column = self.column(scores, sink)
        hidden = None if mask is None else self.hidden(scores, mask)
        return self.finish(
            self.weigh(self.join(scores if hidden is None else self.hide(scores, hidden), column)), scores
        )

    def column(self, scores, sink):
        return sink[:, None, None].expand(*scores.shape[:3], 1)

    def hidden(self, scores, mask):
        return ~mask

    def hide(self, scores, hidden):
        return scores.masked_fill(hidden, self.fill)

    def join(self, scores, column):
        return torch.cat([scores, column.to(scores)], dim=-1)

    def weigh(self, every):
        return every.softmax(dim=-1)

    def finish(self, every, scores):
        return every[..., :-1].to(scores.dtype)


def _sink_without(text, **parts):
    answer = type("_Sink", (_Sink,), parts)()

    def wrong(scores, sink, mask=None):
        return answer(scores, sink, mask)

    softmax_with_sink.misconception(text)(wrong)


_sink_without(
    "The sink is not used: the weights of a row sum to 1. Its exponential belongs in the total of each row.",
    column=lambda self, scores, sink: (
        torch.full((*scores.shape[:3], 1), -math.inf, dtype=scores.dtype).to(scores.device) + 0.0 * sink[:, None, None]
    ),
    hide=lambda self, scores, hidden: torch.where(
        hidden.all(-1, keepdim=True), -1e30, scores.masked_fill(hidden, -1e30)
    ),
    finish=lambda self, every, scores: torch.nan_to_num(every[..., :-1]).to(scores.dtype),
)
_sink_without(
    "The first sink is used for every head. There is one number per head: sink[:, None, None].",
    column=lambda self, scores, sink: sink[:1, None, None].expand(*scores.shape[:3], 1),
)
_sink_without(
    "All heads get the mean of the sinks. Each head has its own.",
    column=lambda self, scores, sink: sink.mean().expand(*scores.shape[:3], 1),
)
_sink_without(
    "The sink counts with the opposite sign: either it is negated, or it is added to the scores of the keys, which is "
    "the same. It is a score of its own, beside those of the keys.",
    join=lambda self, scores, column: torch.cat([scores + column, torch.zeros_like(column)], dim=-1),
)
_sink_without(
    "The sink is in the total as it is. Like every score it is exponentiated first.",
    weigh=lambda self, every: every[..., :].exp() / (every[..., :-1].exp().sum(-1, keepdim=True) + every[..., -1:]),
)
_sink_without(
    "The weight of the sink is returned as well: there is a column more than there are keys. Drop it.",
    finish=lambda self, every, scores: every.to(scores.dtype),
)
_sink_without(
    "The first weight is dropped, and that of the sink is kept. Drop the column where you put the sink.",
    finish=lambda self, every, scores: every[..., 1:].to(scores.dtype),
)
_sink_without(
    "After the sink's weight is dropped, the rows are normalized again, so the sink changes nothing. What it takes "
    "must stay missing.",
    finish=lambda self, every, scores: torch.nan_to_num(
        every[..., :-1] / every[..., :-1].sum(-1, keepdim=True).clamp_min(1e-300)
    ).to(scores.dtype),
)
_sink_without(
    "The sink is subtracted from every score, and then there is no place for its weight.",
    join=lambda self, scores, column: torch.cat([scores - column, torch.full_like(column, -1e30)], dim=-1),
)
_sink_without(
    "The mask is inverted: you hide what should be visible. True means may attend.",
    hidden=lambda self, scores, mask: mask,
)
_sink_without("The mask has no effect: every key is visible.", hidden=lambda self, scores, mask: torch.zeros_like(mask))
_sink_without(
    "A hidden score becomes a big finite number. A visible score can be lower still. Use minus infinity.", fill=-1e9
)
_sink_without("A hidden score becomes 0, which is an ordinary score and gets weight. Use minus infinity.", fill=0.0)
_sink_without(
    "The softmax runs over the queries (dim=-2). The keys, and with them the sink, are the last axis.",
    weigh=lambda self, every: every.softmax(dim=-2),
)
_sink_without(
    "No maximum is subtracted, so large scores or sinks overflow.",
    weigh=lambda self, every: every.exp() / every.exp().sum(-1, keepdim=True),
)
_sink_without(
    "A mask of four dimensions is not broadcast to the scores. masked_fill and torch.where do that by themselves.",
    hidden=lambda self, scores, mask: ~mask.reshape(-1, *mask.shape[-2:])[:1],
)
_sink_without(
    "The gradient of the sinks is cut. `.detach()`, `.data`, `.item()` and `torch.tensor(...)` give numbers without a "
    "gradient, and then a sink is never learned.",
    column=lambda self, scores, sink: sink.detach()[:, None, None].expand(*scores.shape[:3], 1),
)
_sink_without(
    "The result has the dtype of the sinks, or float32, whatever the scores are. End with `.to(scores.dtype)`.",
    finish=lambda self, every, scores: every[..., :-1].float(),
)
_sink_without(
    "Each head gets the sink of another head. Heads are the second axis of the scores: sink[:, None, None].",
    column=lambda self, scores, sink: sink.roll(1)[:, None, None].expand(*scores.shape[:3], 1),
)


@softmax_with_sink.misconception(
    "The mask comes after the softmax: hidden keys have taken their share, and it is lost. Hide the scores first."
)
def sink_masked_after(scores, sink, mask=None):
    weights = _Sink()(scores, sink)
    return weights if mask is None else weights * mask


@softmax_with_sink.misconception(
    "The maximum that is subtracted is that of the scores alone. A sink far above them still overflows, and in a row "
    "without an allowed key it is minus infinity minus itself, which is nan."
)
def maximum_of_the_scores(scores, sink, mask=None):
    shown = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    top = shown.max(-1, keepdim=True).values
    powers = (shown - top).exp()
    return (powers / (powers.sum(-1, keepdim=True) + (sink[:, None, None] - top).exp())).to(scores.dtype)


@softmax_with_sink.misconception(
    "1 is added to each total, as if every sink were 0. The sink is a learned number: add its exponential."
)
def off_by_one(scores, sink, mask=None):
    return _Sink()(scores, torch.zeros_like(sink) + 0.0 * sink, mask)


@softmax_with_sink.misconception(
    "The sink is hidden together with the keys: a row without an allowed key is nan. The sink is always there."
)
def sink_hidden_too(scores, sink, mask=None):
    weights = _Sink()(scores, sink, mask)
    if mask is None:
        return weights
    return torch.where(mask.any(-1, keepdim=True), weights, math.nan)


@softmax_with_sink.misconception("The caller's scores are written into. masked_fill and torch.where make a new tensor.")
def sink_in_place(scores, sink, mask=None):
    weights = _Sink()(scores, sink, mask)
    if mask is not None and not scores.requires_grad:
        scores.masked_fill_(~mask, -math.inf)
    return weights


# scaled_rope_frequencies ---------------------------------------------------------------------------------------------

scaled_rope_frequencies = Exercise(solutions.scaled_rope_frequencies, section=STRETCH, minutes=15, difficulty=2)


@scaled_rope_frequencies.property(
    "keeps fast pairs and divides slow ones",
    points=2,
    **SINGLE,
    hint="The wavelength of a pair is 2 pi / frequency, in tokens. Below original_length / high the frequency stays; "
    "above original_length / low it is divided by the factor.",
)
def kept_or_divided(rng):
    # Wavelengths 6.3, 63, 628 and 6283 tokens, none of them between the two limits.
    yield dict(d_head=8, base=10000.0, factor=8.0, low=1.0, high=4.0, original_length=4096)
    yield dict(d_head=8, base=10000.0, factor=float(rng.integers(2, 6)), low=1.0, high=4.0, original_length=400)


@scaled_rope_frequencies.property(
    "mixes the two in between",
    points=2,
    **SINGLE,
    hint="The share kept is (original_length / wavelength - low) / (high - low): 1 at the fast limit, 0 at the slow "
    "one. The rest is divided by the factor.",
)
def mixed(rng):
    yield dict(d_head=8, base=10000.0, factor=4.0, low=1.0, high=4.0, original_length=1500)
    yield dict(d_head=128, base=500000.0, factor=8.0, low=1.0, high=4.0, original_length=8192)
    yield dict(
        d_head=2 * int(rng.integers(12, 30)),
        base=float(rng.integers(200, 3000)),
        factor=float(rng.integers(2, 9)),
        low=1.0,
        high=4.0,
        original_length=int(rng.integers(80, 300)),
    )


@scaled_rope_frequencies.property(
    "follows low and high",
    points=1,
    **SINGLE,
    hint="1 and 4 are Llama's numbers. Use the arguments.",
)
def other_limits(rng):
    yield dict(d_head=32, base=1000.0, factor=8.0, low=2.0, high=3.0, original_length=200)
    yield dict(d_head=32, base=1000.0, factor=3.0, low=0.5, high=12.0, original_length=int(rng.integers(80, 300)))


@scaled_rope_frequencies.property(
    "changes nothing for a factor of 1, and works for a single pair",
    points=1,
    **SINGLE,
    hint="With a factor of 1 the result is `rope_frequencies(d_head, base)`. The result has one entry per pair.",
)
def nothing_stretched(rng):
    yield dict(d_head=12, base=float(rng.integers(200, 3000)), factor=1.0, low=1.0, high=4.0, original_length=100)
    yield dict(d_head=2, base=10000.0, factor=4.0, low=1.0, high=4.0, original_length=5)


class _Stretch:
    """Right, in steps that a misconception can replace one by one."""

    def __call__(self, d_head, base, factor, low, high, original_length):
        theta = self.plain(d_head, base)
        share = self.share(self.turns(theta, original_length), low, high)
        return self.mix(theta, share, factor)

    def plain(self, d_head, base):
        return rope_frequencies(d_head, base)

    def turns(self, theta, length):
        return length * theta / (2 * math.pi)

    def share(self, turns, low, high):
        return ((turns - low) / (high - low)).clamp(0, 1)

    def mix(self, theta, share, factor):
        return theta * (share + (1 - share) / factor)


def _stretch_without(text, **parts):
    answer = type("_Stretch", (_Stretch,), parts)()

    def wrong(d_head, base, factor, low, high, original_length):
        return answer(d_head, base, factor, low, high, original_length)

    scaled_rope_frequencies.misconception(text)(wrong)


_stretch_without(
    "Every frequency is divided. Fast pairs tell neighbors apart, and they have turned full circles in training: they "
    "stay as they are.",
    share=lambda self, turns, low, high: torch.zeros_like(turns),
)
_stretch_without(
    "No frequency is changed: this is plain `rope_frequencies`.",
    share=lambda self, turns, low, high: torch.ones_like(turns),
)
_stretch_without(
    "Fast pairs are divided and slow ones are kept. A long wavelength is the one that is not seen in full in training.",
    mix=lambda self, theta, share, factor: theta * (1 - share + share / factor),
)
_stretch_without(
    "Between the limits the shares are exchanged: near the fast limit nearly all is kept, near the slow one almost "
    "nothing.",
    share=lambda self, turns, low, high: torch.where(
        (turns > low) & (turns < high), (high - turns) / (high - low), ((turns - low) / (high - low)).clamp(0, 1)
    ),
)
_stretch_without(
    "Between the limits nothing is mixed; the frequency is kept as it is.",
    share=lambda self, turns, low, high: (turns > low).float(),
)
_stretch_without(
    "Between the limits nothing is mixed; the frequency is divided by the factor.",
    share=lambda self, turns, low, high: (turns >= high).float(),
)
_stretch_without(
    "The mixture does not end at the limits: the share kept goes below 0 or above 1. Clamp it.",
    share=lambda self, turns, low, high: (turns - low) / (high - low),
)
_stretch_without(
    "The wavelength lacks 2 pi. A pair that turns by theta per token needs 2 pi / theta tokens for a full circle.",
    turns=lambda self, theta, length: length * theta,
)
_stretch_without(
    "The wavelength is multiplied by 2 pi twice. It is 2 pi / frequency.",
    turns=lambda self, theta, length: length * theta / (2 * math.pi) ** 2,
)
_stretch_without(
    "Slow frequencies are multiplied by the factor. They must become smaller, so that a circle takes longer.",
    mix=lambda self, theta, share, factor: theta * (share + (1 - share) * factor),
)
_stretch_without(
    "The mixture is linear in the wavelength. It is linear in original_length / wavelength.",
    share=lambda self, turns, low, high: ((1 / low - 1 / turns) / (1 / low - 1 / high)).clamp(0, 1),
)
_stretch_without(
    "The limits are original_length times low and times high. Divide by them: the wavelength is compared with "
    "original_length / low and original_length / high.",
    share=lambda self, turns, low, high: ((turns - 1 / high) / (1 / low - 1 / high)).clamp(0, 1),
)
_stretch_without(
    "The limits are fixed at 1 and 4. Use low and high.",
    share=lambda self, turns, low, high: ((turns - 1.0) / 3.0).clamp(0, 1),
)
_stretch_without(
    "The mixture is divided by the factor once more: only the part that is not kept is.",
    mix=lambda self, theta, share, factor: torch.where(
        share < 1, theta * (share + (1 - share) / factor) / torch.where(share > 0, factor, 1.0), theta
    ),
)
_stretch_without(
    "The mixture is geometric. It adds share times the frequency and (1 - share) times the divided one.",
    mix=lambda self, theta, share, factor: theta * factor ** -(1 - share),
)
_stretch_without(
    "The base is not passed on to `rope_frequencies`, which then uses its default.",
    plain=lambda self, d_head, base: rope_frequencies(d_head),
)
_stretch_without(
    "These are wavelengths. The result should be frequencies, in radians per token.",
    mix=lambda self, theta, share, factor: 2 * math.pi / (theta * (share + (1 - share) / factor)),
)
_stretch_without(
    "Each frequency is there twice. One per pair, d_head / 2 in all.",
    mix=lambda self, theta, share, factor: (theta * (share + (1 - share) / factor)).repeat(2),
)


@scaled_rope_frequencies.misconception(
    "A larger base is used instead (NTK-aware scaling). That stretches each pair by another factor; Llama's rule looks "
    "at the wavelength."
)
def larger_base(d_head, base, factor, low, high, original_length):
    return rope_frequencies(d_head, base * factor ** (d_head / max(d_head - 2, 1)))


# QKNormAttention -----------------------------------------------------------------------------------------------------

QKNormAttention = Exercise(solutions.QKNormAttention, section=QK_NORM, minutes=30, difficulty=3)


def _qk_layer(rng, d_model, n_heads, n_kv_heads, d_head, batch, n, names="qkvo", dtype=torch.float64, **init):
    """A layer, weights of variance about 1 / d_model for the maps named, norm weights that differ, and tokens."""
    rows = dict(q=n_heads * d_head, k=n_kv_heads * d_head, v=n_kv_heads * d_head, o=d_model)
    columns = dict(q=d_model, k=d_model, v=d_model, o=n_heads * d_head)
    weights = {
        f"W_{name}.weight": normal(rng, rows[name], columns[name], dtype=dtype) * 1.5 / columns[name] ** 0.5
        for name in names
    }
    for name in "qk":
        if name in names:
            weights[f"norm_{name}.weight"] = (1.2 + 0.6 * normal(rng, d_head)).to(dtype)
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
        n_heads = n_kv_heads * int(rng.integers(2, 4))
        yield dict(
            init=dict(d_model=4 * int(rng.integers(2, 5)), n_heads=n_heads, n_kv_heads=n_kv_heads, d_head=d_head)
        )


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
    hint="Pass eps on to both norms. Its default here is 1e-6, that of RMSNorm in this course 1e-5.",
)
def qk_eps(rng):
    yield _qk_layer(rng, d_model=4, n_heads=2, n_kv_heads=1, d_head=2, batch=1, n=3, eps=0.5)
    case = _qk_layer(rng, d_model=4, n_heads=2, n_kv_heads=1, d_head=2, batch=1, n=3)
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
    sizes = dict(d_model=4, n_heads=2, n_kv_heads=2, d_head=2, batch=1)
    yield _qk_layer(rng, **sizes, n=6, window=3)
    yield _qk_layer(rng, **sizes, n=5, window=2)
    yield _qk_layer(rng, **sizes, n=3, window=1)
    yield _qk_layer(rng, **sizes, n=4, window=9)


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
    points=2,
    probe=probes.in_chunks,
    **ROTATED,
    hint="Read `len(cache)` before you append: that is the position of the first new token. Normalize, rotate, append, "
    "and continue with what `append` returns. Token i of a chunk sees every key up to len(cache) + i.",
)
def qk_in_chunks(rng):
    yield dict(**_qk_layer(rng, d_model=4, n_heads=1, n_kv_heads=1, d_head=4, batch=1, n=4), cuts=[1, 2, 3])
    yield dict(**_qk_layer(rng, d_model=6, n_heads=2, n_kv_heads=1, d_head=4, batch=2, n=6, base=50.0), cuts=[1, 4])
    yield dict(**_qk_layer(rng, d_model=4, n_heads=2, n_kv_heads=1, d_head=2, batch=1, n=3), cuts=[])


@QKNormAttention.property(
    "reads in chunks within its window too",
    points=1,
    probe=probes.in_chunks,
    **ROTATED,
    hint="The cache keeps all tokens, so the mask must hide those that are too far back: the distance from a query's "
    "position, len(cache) + i, to a key's place in the cache.",
)
def qk_window_in_chunks(rng):
    sizes = dict(d_model=4, n_heads=2, n_kv_heads=1, d_head=2, batch=1)
    yield dict(**_qk_layer(rng, **sizes, n=7, window=3), cuts=[2, 6])
    yield dict(**_qk_layer(rng, **sizes, n=5, window=2), cuts=[1, 2, 3, 4])


@QKNormAttention.property(
    "keeps two texts with two caches apart",
    points=1,
    probe=probes.in_chunks,
    **ROTATED,
    hint="One layer may read many texts in turn. Everything that is remembered of a text belongs in its cache, and "
    "not in `self`.",
)
def qk_apart(rng):
    sizes = dict(d_model=4, n_heads=2, n_kv_heads=2, d_head=2, batch=1)
    yield dict(**_qk_layer(rng, **sizes, n=4), cuts=[2, 3], beside=normal(rng, 1, 5, 4))


@QKNormAttention.property(
    "has the right gradients, also for the norms",
    points=1,
    probe=probes.gradients,
    rtol=1e-4,
    atol=1e-5,
    hint="Use only tensor operations; detach nothing. The weights of norm_q and norm_k are learned as well.",
)
def qk_gradients(rng):
    yield dict(
        **_qk_layer(rng, d_model=6, n_heads=2, n_kv_heads=1, d_head=4, batch=1, n=3, names="qk"),
        upstream=[normal(rng, 1, 3, 6)],
    )


@QKNormAttention.property(
    "keeps the precision and the device of its tokens, also in chunks",
    points=1,
    probe=probes.elsewhere,
    rtol=0.1,
    atol=0.1,
    hint="Weights and tokens in float32 give float32, and bfloat16 gives bfloat16. Create new tensors with "
    "`device=x.device`.",
)
def qk_precision(rng):
    sizes = dict(d_model=8, n_heads=2, n_kv_heads=2, d_head=4, batch=1)
    yield dict(**_qk_layer(rng, **sizes, n=4, window=2, dtype=torch.float32))
    yield dict(probe="in_chunks", **_qk_layer(rng, **sizes, n=4, dtype=torch.float32), cuts=[2])
    yield dict(**_qk_layer(rng, **sizes, n=3, dtype=torch.bfloat16))


@QKNormAttention.property(
    "leaves its tokens as they were",
    points=1,
    probe=probes.unchanged,
    **ROTATED,
    hint="Operations whose name ends in an underscore, and `+=`, write into their tensor. Do not use them on a tensor "
    "that the caller passed in.",
)
def qk_is_new(rng):
    yield _qk_layer(rng, d_model=4, n_heads=2, n_kv_heads=1, d_head=2, batch=1, n=3, names="q")


class _Normed(solutions.QKNormAttention):
    """Right, in steps that a misconception can replace one by one."""

    def forward(self, x, cache=None):
        cache = self.open(cache)
        past = 0 if cache is None else self.past(cache)
        q, k, v = self.project(x)
        q, k, v = self.prepare(q, k, v, past)
        new = k.shape[2]
        if cache is not None:
            k, v = self.remember(cache, k, v)
        allowed = self.allowed(new, k.shape[2], x.device)
        k, v = self.share(k), self.share(v)
        weights = self.weigh(self.score(q, k).masked_fill(~allowed, -torch.inf))
        return self.finish(weights.to(v.dtype) @ v)

    def open(self, cache):
        return cache

    def past(self, cache):
        return len(cache)

    def project(self, x):
        heads = ((self.W_q, self.n_heads), (self.W_k, self.n_kv_heads), (self.W_v, self.n_kv_heads))
        return tuple(split_heads(W(x), n) for W, n in heads)

    def prepare(self, q, k, v, past):
        return self.at(self.norm_q(q), past), self.at(self.norm_k(k), past), v

    def at(self, x, first):
        return apply_rope(x, torch.arange(first, first + x.shape[2], device=x.device), self.base)

    def remember(self, cache, k, v):
        return cache.append(k, v)

    def allowed(self, new, total, device):
        back = self.back(new, total, device)
        return (back >= 0) if self.window is None else (back >= 0) & (back < self.window)

    def back(self, new, total, device):
        """How far each key is behind each query: (new, total)."""
        return torch.arange(total - new, total, device=device)[:, None] - torch.arange(total, device=device)

    def share(self, heads):
        return heads.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.shape[-1])

    def weigh(self, scores):
        return torch.softmax(scores, dim=-1)

    def finish(self, heads):
        return self.W_o(merge_heads(heads))


def _normed_without(text, section=None, **parts):
    QKNormAttention.misconception(text, section=section)(type("QKNormAttention", (_Normed,), parts))


def _over_all_heads(norm, heads):
    """One root mean square over all heads of a token."""
    size = heads.square().mean(dim=(1, 3), keepdim=True)
    return heads * torch.rsqrt(size + norm.eps) * norm.weight


_normed_without(
    "Queries and keys are not normalized: this is grouped-query attention. Apply norm_q and norm_k after splitting.",
    prepare=lambda self, q, k, v, past: (self.at(q, past), self.at(k, past), v),
)
_normed_without(
    "The norm comes after the rotation. Its weight has one number per entry, and a rotated pair would be scaled "
    "unequally, so that a score no longer depends on the distance alone. Normalize, then rotate.",
    prepare=lambda self, q, k, v, past: (self.norm_q(self.at(q, past)), self.norm_k(self.at(k, past)), v),
)
_normed_without(
    "Only the queries are normalized. A score is as large as both vectors make it: normalize the keys as well.",
    prepare=lambda self, q, k, v, past: (self.at(self.norm_q(q), past), self.at(k, past), v),
)
_normed_without(
    "Only the keys are normalized. A score is as large as both vectors make it: normalize the queries as well.",
    prepare=lambda self, q, k, v, past: (self.at(q, past), self.at(self.norm_k(k), past), v),
)
_normed_without(
    "norm_q is used for the keys as well. Queries and keys each have a norm with its own weight.",
    prepare=lambda self, q, k, v, past: (self.at(self.norm_q(q), past), self.at(self.norm_q(k), past), v),
)
_normed_without(
    "norm_q and norm_k are exchanged.",
    prepare=lambda self, q, k, v, past: (self.at(self.norm_k(q), past), self.at(self.norm_q(k), past), v),
)
_normed_without(
    "The values are normalized too. They are what is averaged, and their size carries information.",
    prepare=lambda self, q, k, v, past: (self.at(self.norm_q(q), past), self.at(self.norm_k(k), past), self.norm_k(v)),
)
_normed_without(
    "The norm runs over all heads of a token together. Each head has its own root mean square: split first, then "
    "normalize the last axis. That is what OLMo 2 does, with a weight for each number of all heads.",
    prepare=lambda self, q, k, v, past: (
        self.at(_over_all_heads(self.norm_q, q), past),
        self.at(_over_all_heads(self.norm_k, k), past),
        v,
    ),
)
_normed_without(
    "Vectors are brought to length 1 and not to a root mean square of 1, which is larger by sqrt(d_head).",
    prepare=lambda self, q, k, v, past: (
        self.at(F.normalize(q, dim=-1) * self.norm_q.weight, past),
        self.at(F.normalize(k, dim=-1) * self.norm_k.weight, past),
        v,
    ),
)
_normed_without(
    "The weights of the norms are not used. They are learned, one number for each entry of a head.",
    prepare=lambda self, q, k, v, past: (
        self.at(F.rms_norm(q, q.shape[-1:], eps=self.norm_q.eps) + 0 * self.norm_q.weight, past),
        self.at(F.rms_norm(k, k.shape[-1:], eps=self.norm_k.eps) + 0 * self.norm_k.weight, past),
        v,
    ),
)
_normed_without(
    "The scores are divided by the square root of d_model / n_heads. The head has a width of its own, d_head.",
    score=lambda self, q, k: q @ k.mT / math.sqrt(self.W_q.in_features / self.n_heads),
)
_normed_without(
    "The scores are not divided by the square root of d_head. Normalized vectors still have d_head numbers, and their "
    "dot product grows with the width.",
    score=lambda self, q, k: q @ k.mT,
)
_normed_without(
    "The scores are divided by d_head itself. Use its square root.",
    score=lambda self, q, k: q @ k.mT / q.shape[-1],
)
_normed_without(
    "Nothing is rotated, so the scores do not depend on the order of the tokens. Apply RoPE after the norms.",
    prepare=lambda self, q, k, v, past: (self.norm_q(q), self.norm_k(k), v),
)
_normed_without(
    "The values are rotated as well. A position should change the weights and not what is averaged.",
    prepare=lambda self, q, k, v, past: (
        self.at(self.norm_q(q), past),
        self.at(self.norm_k(k), past),
        self.at(v, past),
    ),
)
_normed_without(
    "`base` is not passed on, so RoPE uses its default.",
    at=lambda self, x, first: apply_rope(x, torch.arange(first, first + x.shape[2], device=x.device)),
)
_normed_without(
    "The window is one token too long. With window 3 the distances 0, 1 and 2 are allowed: the token itself counts.",
    allowed=lambda self, new, total, device: (
        (self.back(new, total, device) >= 0)
        & (self.back(new, total, device) < (total + 1 if self.window is None else self.window + 1))
    ),
)
_normed_without(
    "The window is one token too short. With window 3 a token sees itself and the 2 before it.",
    allowed=lambda self, new, total, device: (
        (self.back(new, total, device) >= 0)
        & (self.back(new, total, device) < (total + 1 if self.window is None else max(1, self.window - 1)))
    ),
)
_normed_without(
    "The window is not used: every earlier key is visible.",
    allowed=lambda self, new, total, device: self.back(new, total, device) >= 0,
)
_normed_without(
    "The window reaches to both sides, so a token sees what comes after it. The mask must be causal too.",
    allowed=lambda self, new, total, device: (
        self.back(new, total, device) >= 0 if self.window is None else self.back(new, total, device).abs() < self.window
    ),
)
_normed_without(
    "The mask is missing: tokens see what comes after them.",
    allowed=lambda self, new, total, device: self.back(new, total, device) <= total,
)
_normed_without(
    "With a cache, the causal mask begins at the first key, so the first token of a chunk sees only the first token "
    "of the text. Token i of a chunk is at position len(cache) + i.",
    back=lambda self, new, total, device: (
        torch.arange(new, device=device)[:, None] - torch.arange(total, device=device)
    ),
    weigh=lambda self, scores: torch.nan_to_num(torch.softmax(scores, dim=-1)),
)
_normed_without(
    "With a cache, the window is counted from the last token of the chunk for all its tokens. Each query has its own "
    "position.",
    allowed=lambda self, new, total, device: (
        (self.back(new, total, device) >= 0)
        & (
            torch.ones(1, dtype=torch.bool, device=device)
            if self.window is None or new == total
            else torch.arange(total, device=device) > total - 1 - self.window
        )
    ),
    weigh=lambda self, scores: torch.nan_to_num(torch.softmax(scores, dim=-1)),
)
_normed_without(
    "With a cache, positions begin at 0 again in each chunk. The first new token is at len(cache).",
    past=lambda self, cache: 0,
)
_normed_without(
    "The cache stays empty, so each chunk is read as if nothing had come before it. `if cache:` is False for a new "
    "cache, since its length is 0: write `cache is not None`.",
    open=lambda self, cache: None,
)
_normed_without(
    "The key/value heads are repeated before they go into the cache. The numbers are right, but nothing is saved. "
    "Append first, then repeat what comes back.",
    remember=lambda self, cache, k, v: [
        kept[:, :: self.n_heads // self.n_kv_heads]
        for kept in cache.append(*(new.repeat_interleave(self.n_heads // self.n_kv_heads, 1) for new in (k, v)))
    ],
)
_normed_without(
    "What comes back from `append` is unpacked in the wrong order: keys come first, then values.",
    remember=lambda self, cache, k, v: cache.append(k, v)[::-1],
)
_normed_without(
    "The key/value heads are repeated in the order 0 1 0 1. Neighboring query heads share a head: use `repeat_kv`.",
    share=lambda self, heads: heads.repeat(1, self.n_heads // self.n_kv_heads, 1, 1),
)
_normed_without(
    "The softmax runs over the queries (dim=-2). The weights of each query sum to 1: the keys are the last axis.",
    weigh=lambda self, scores: torch.nan_to_num(torch.softmax(scores, dim=-2)),
)
_normed_without("W_o is missing: the merged heads are not mapped back.", finish=lambda self, heads: _short(self, heads))


def _short(layer, heads):
    """The merged heads with as many numbers as the tokens have."""
    return F.pad(merge_heads(heads), (0, layer.W_q.in_features))[..., : layer.W_q.in_features]


@QKNormAttention.misconception(
    "Keys go into the cache before they are normalized, and come back as they are. Normalize and rotate, then append."
)
class CachedBeforeTheNorm(_Normed):
    def prepare(self, q, k, v, past):
        self.plain = self.at(k, past)
        return super().prepare(q, k, v, past)

    def remember(self, cache, k, v):
        return cache.append(self.plain, v)


@QKNormAttention.misconception(
    "The layer keeps keys and values in `self` and not in the cache that it is given. Two texts that are read in turn "
    "then get mixed up."
)
class KeptInSelf(_Normed):
    def open(self, cache):
        if cache is not None and not hasattr(self, "kept"):
            self.kept = solutions.KVCache()
        return None if cache is None else self.kept


@QKNormAttention.misconception("The maps have biases. nn.Linear adds one unless you say bias=False.")
class QKBiases(_Normed):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        for name in ("W_q", "W_k", "W_v", "W_o"):
            plain = getattr(self, name)
            setattr(self, name, nn.Linear(plain.in_features, plain.out_features))


@QKNormAttention.misconception(
    "The norms run over n_heads * d_head numbers. There is one weight for each of the d_head entries, shared by heads."
)
class WideNorms(_Normed):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.norm_q = solutions.RMSNorm(self.W_q.out_features, self.norm_q.eps)
        self.norm_k = solutions.RMSNorm(self.W_k.out_features, self.norm_k.eps)

    def project(self, x):
        q, k, v = self.norm_q(self.W_q(x)), self.norm_k(self.W_k(x)), self.W_v(x)
        return split_heads(q, self.n_heads), split_heads(k, self.n_kv_heads), split_heads(v, self.n_kv_heads)

    def prepare(self, q, k, v, past):
        return self.at(q, past), self.at(k, past), v


@QKNormAttention.misconception("eps is fixed or left at the default of RMSNorm. Pass on the one that the layer gets.")
class DefaultEps(_Normed):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.norm_q.eps = self.norm_k.eps = 1e-5


@QKNormAttention.misconception(
    "No gradient arrives: the layer works under `torch.no_grad()` or on detached tensors, and could never be trained."
)
class QKNoGradient(_Normed):
    def forward(self, x, cache=None):
        with torch.no_grad():
            return super().forward(x, cache)


@QKNormAttention.misconception(
    "The weights of attention are returned along with the output. Here forward returns the output alone."
)
class QKWithWeights(_Normed):
    def forward(self, x, cache=None):
        output = super().forward(x, cache)
        return output, output.new_zeros(x.shape[0], self.n_heads, x.shape[1], x.shape[1])


@QKNormAttention.misconception(
    "The mask is on the CPU, wherever x is, so the two cannot be combined. Create it with `device=x.device`."
)
class QKMaskOnTheCPU(_Normed):
    def back(self, new, total, device):
        return super().back(new, total, None)


# LatentAttention -----------------------------------------------------------------------------------------------------

LatentAttention = Exercise(solutions.LatentAttention, section=LATENT, minutes=30, difficulty=3)


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
        heads, width = int(rng.integers(2, 4)), int(rng.integers(3, 6))
        yield dict(
            init=dict(d_model=4 * int(rng.integers(2, 5)), n_heads=heads, d_head=width, d_rope=d_rope, d_latent=7)
        )


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
    case = _latent_layer(rng, d_model=6, n_heads=2, d_head=3, d_rope=2, d_latent=4, batch=2, n=5)
    changed = case["x"].clone()
    changed[:, 2] = normal(rng, 2, 6)
    yield dict(**case, name="x", replacement=changed)


@LatentAttention.property(
    "reads in chunks with a cache what it reads in one pass",
    points=2,
    probe=probes.in_chunks,
    **ROTATED,
    hint="Read `len(cache)` before you append: that is the position of the first new token. Norm and rotate, append, "
    "and make keys and values of all that `append` returns. Token i of a chunk sees every key up to len(cache) + i.",
)
def latent_in_chunks(rng):
    sizes = dict(d_model=6, n_heads=2, d_head=3, d_rope=2, d_latent=4)
    yield dict(**_latent_layer(rng, **sizes, batch=1, n=4), cuts=[1, 2, 3])
    yield dict(**_latent_layer(rng, **sizes, batch=2, n=6, base=50.0), cuts=[1, 4])
    yield dict(**_latent_layer(rng, **sizes, batch=1, n=3), cuts=[])


@LatentAttention.property(
    "keeps the normed latent and the rotated key, and nothing else",
    points=1,
    probe=probes.in_chunks,
    **ROTATED,
    hint="One call of `append` for each call of forward: the normed latents as (batch, 1, n, d_latent), and the "
    "rotated keys as (batch, 1, n, d_rope). `[:, None]` makes the axis of the heads.",
)
def latent_kept(rng):
    sizes = dict(d_model=6, n_heads=2, d_head=3, d_rope=2, d_latent=4)
    yield dict(**_latent_layer(rng, **sizes, batch=2, n=5), cuts=[2], kept=True)


@LatentAttention.property(
    "keeps two texts with two caches apart",
    points=1,
    probe=probes.in_chunks,
    **ROTATED,
    hint="One layer may read many texts in turn. Everything that is remembered of a text belongs in its cache, and "
    "not in `self`.",
)
def latent_apart(rng):
    sizes = dict(d_model=6, n_heads=2, d_head=3, d_rope=2, d_latent=4, batch=1)
    yield dict(**_latent_layer(rng, **sizes, n=4), cuts=[2, 3], beside=normal(rng, 1, 5, 6))


@LatentAttention.property(
    "has the right gradients",
    points=1,
    probe=probes.gradients,
    rtol=1e-4,
    atol=1e-5,
    hint="Use only tensor operations; detach nothing. The weight of the norm is learned as well.",
)
def latent_gradients(rng):
    case = _latent_layer(
        rng, d_model=6, n_heads=2, d_head=3, d_rope=2, d_latent=4, batch=1, n=3, names=("W_down", "W_k_rope", "norm")
    )
    yield dict(**case, upstream=[normal(rng, 1, 3, 6)])


@LatentAttention.property(
    "keeps the precision and the device of its tokens, also in chunks",
    points=1,
    probe=probes.elsewhere,
    rtol=0.1,
    atol=0.1,
    hint="Weights and tokens in float32 give float32, and bfloat16 gives bfloat16. Create new tensors with "
    "`device=x.device`.",
)
def latent_precision(rng):
    sizes = dict(d_model=8, n_heads=2, d_head=4, d_rope=2, d_latent=6, batch=1)
    yield dict(**_latent_layer(rng, **sizes, n=4, dtype=torch.float32))
    yield dict(probe="in_chunks", **_latent_layer(rng, **sizes, n=4, dtype=torch.float32), cuts=[2])
    yield dict(**_latent_layer(rng, **sizes, n=3, dtype=torch.bfloat16))


@LatentAttention.property(
    "leaves its tokens as they were",
    points=1,
    probe=probes.unchanged,
    **ROTATED,
    hint="Operations whose name ends in an underscore, and `+=`, write into their tensor. Do not use them on a tensor "
    "that the caller passed in.",
)
def latent_is_new(rng):
    yield _latent_layer(rng, d_model=6, n_heads=2, d_head=3, d_rope=2, d_latent=4, batch=1, n=3)


class _Latent(solutions.LatentAttention):
    """Right, in steps that a misconception can replace one by one."""

    def forward(self, x, cache=None):
        cache = self.open(cache)
        past = 0 if cache is None else self.past(cache)
        plain, turned = self.ask(x)
        turned = self.turn_query(turned, past)
        latent, key = self.keep(x, past)
        new = latent.shape[2]
        if cache is not None:
            latent, key = self.remember(cache, latent, key)
        latent, key = self.open_latent(latent), self.open_key(key)
        k, v = self.make(latent)
        later = self.later(new, k.shape[2], x.device)
        weights = self.weigh(self.score(plain, turned, k, key).masked_fill(later, -torch.inf))
        return self.finish(weights.to(v.dtype) @ v)

    def open(self, cache):
        return cache

    def past(self, cache):
        return len(cache)

    def ask(self, x):
        return split_heads(self.W_q(x), self.n_heads).split([self.d_head, self.d_rope], dim=-1)

    def at(self, x, first):
        return apply_rope(x, torch.arange(first, first + x.shape[2], device=x.device), self.base)

    def turn_query(self, turned, past):
        return self.at(turned, past)

    def keep(self, x, past):
        return self.norm(self.W_down(x))[:, None], self.at(self.W_k_rope(x)[:, None], past)

    def remember(self, cache, latent, key):
        return cache.append(latent, key)

    def open_latent(self, latent):
        return latent

    def open_key(self, key):
        return key

    def make(self, latent):
        return tuple(split_heads(up(latent[:, 0]), self.n_heads) for up in (self.W_up_k, self.W_up_v))

    def later(self, new, total, device):
        return torch.arange(total, device=device) > torch.arange(total - new, total, device=device)[:, None]

    def score(self, plain, turned, k, key):
        return (plain @ k.mT + turned @ key.mT) / math.sqrt(self.d_head + self.d_rope)

    def weigh(self, scores):
        return torch.softmax(scores, dim=-1)

    def finish(self, heads):
        return self.W_o(merge_heads(heads))


def _latent_without(text, **parts):
    LatentAttention.misconception(text)(type("LatentAttention", (_Latent,), parts))


def _all_plain_first(layer, x):
    rows, n = layer.W_q(x), layer.n_heads
    plain, turned = rows.split([n * layer.d_head, n * layer.d_rope], dim=-1)
    return split_heads(plain, n), split_heads(turned, n)


_latent_without(
    "The latent is not normed. Norm it after W_down, before it is kept and before keys and values are made from it.",
    keep=lambda self, x, past: (
        self.W_down(x)[:, None] + 0 * self.norm.weight.sum(),
        self.at(self.W_k_rope(x)[:, None], past),
    ),
)
_latent_without(
    "The latent is normed when it is read, and the cache keeps it as it came from W_down. With the same numbers in the "
    "end, each step norms all of the past again. Norm first, then append.",
    keep=lambda self, x, past: (self.W_down(x)[:, None], self.at(self.W_k_rope(x)[:, None], past)),
    open_latent=lambda self, latent: self.norm(latent),
)
_latent_without(
    "The latent is normed twice, before it is kept and again when it is read.",
    open_latent=lambda self, latent: self.norm(latent),
)
_latent_without(
    "The shared key is not rotated. It is there to carry the positions: rotate it as the second part of the query.",
    keep=lambda self, x, past: (self.norm(self.W_down(x))[:, None], self.W_k_rope(x)[:, None]),
)
_latent_without(
    "The cache keeps the shared key before its rotation, and all keys are rotated when they are read. The numbers are "
    "right, but each step rotates all of the past again. Rotate first, then append.",
    keep=lambda self, x, past: (self.norm(self.W_down(x))[:, None], self.W_k_rope(x)[:, None]),
    open_key=lambda self, key: self.at(key, 0),
)
_latent_without(
    "The query is not rotated. A score depends on the distance only if both sides are.",
    turn_query=lambda self, turned, past: turned,
)
_latent_without(
    "In each head, the rotated part of the query comes first. The first d_head numbers are the plain ones.",
    ask=lambda self, x: split_heads(self.W_q(x), self.n_heads).split([self.d_rope, self.d_head], dim=-1)[::-1],
)
_latent_without(
    "The plain parts of all heads come first, then all rotated parts. W_q goes head by head: split the heads, and then "
    "each head's numbers.",
    ask=_all_plain_first,
)
_latent_without(
    "The scores are divided by the square root of d_head alone. d_head + d_rope products are added up.",
    score=lambda self, plain, turned, k, key: (plain @ k.mT + turned @ key.mT) / math.sqrt(self.d_head),
)
_latent_without(
    "The two parts of a score are each divided by their own root. They are a single dot product, over d_head + d_rope "
    "numbers.",
    score=lambda self, plain, turned, k, key: (
        plain @ k.mT / math.sqrt(self.d_head) + turned @ key.mT / math.sqrt(self.d_rope)
    ),
)
_latent_without(
    "The scores are not scaled. Divide them by the square root of d_head + d_rope.",
    score=lambda self, plain, turned, k, key: plain @ k.mT + turned @ key.mT,
)
_latent_without(
    "The scores are divided by the square root of the latent's width. Queries and keys have d_head + d_rope numbers.",
    score=lambda self, plain, turned, k, key: (plain @ k.mT + turned @ key.mT) / math.sqrt(self.W_down.out_features),
)
_latent_without(
    "The rotated part is left out of the score, so positions do not count at all.",
    score=lambda self, plain, turned, k, key: (
        (plain @ k.mT + 0 * (turned @ key.mT)) / math.sqrt(self.d_head + self.d_rope)
    ),
)
_latent_without(
    "The plain part is left out of the score. Both products are added.",
    score=lambda self, plain, turned, k, key: (
        (0 * (plain @ k.mT) + turned @ key.mT) / math.sqrt(self.d_head + self.d_rope)
    ),
)
_latent_without(
    "Keys and values are exchanged: W_up_k makes the keys, W_up_v the values.",
    make=lambda self, latent: _Latent.make(self, latent)[::-1],
)
_latent_without(
    "The keys made from the latent are rotated as well. Only the shared key and the second part of the query are: that "
    "is why it is apart.",
    make=lambda self, latent: (
        self.at(_even(_Latent.make(self, latent)[0]), 0)[..., : self.d_head],
        _Latent.make(self, latent)[1],
    ),
)
_latent_without(
    "`base` is not passed on, so RoPE uses its default.",
    at=lambda self, x, first: apply_rope(x, torch.arange(first, first + x.shape[2], device=x.device)),
)
_latent_without(
    "With a cache, positions begin at 0 again in each chunk. The first new token is at len(cache).",
    past=lambda self, cache: 0,
)
_latent_without(
    "The cache stays empty, so each chunk is read as if nothing had come before it. `if cache:` is False for a new "
    "cache, since its length is 0: write `cache is not None`.",
    open=lambda self, cache: None,
)
_latent_without(
    "With a cache, the causal mask begins at the first key, so the first token of a chunk sees only the first token "
    "of the text. Token i of a chunk is at position len(cache) + i.",
    later=lambda self, new, total, device: (
        torch.arange(total, device=device) > torch.arange(new, device=device)[:, None]
    ),
)
_latent_without(
    "The mask is missing: tokens see what comes after them.",
    later=lambda self, new, total, device: torch.zeros(new, total, dtype=torch.bool, device=device),
)
_latent_without(
    "The softmax runs over the queries (dim=-2). The weights of each query sum to 1: the keys are the last axis.",
    weigh=lambda self, scores: torch.nan_to_num(torch.softmax(scores, dim=-2)),
)
_latent_without(
    "W_o is missing: the merged heads are not mapped back.",
    finish=lambda self, heads: F.pad(merge_heads(heads), (0, self.W_down.in_features))[..., : self.W_down.in_features],
)


def _even(x):
    """With one number more where the width is odd, so that it can be cut into pairs."""
    return F.pad(x, (0, x.shape[-1] % 2))


@LatentAttention.misconception(
    "The cache is given keys and values of all heads. It should keep the latent, from which they are made again."
)
class KeysKept(_Latent):
    def forward(self, x, cache=None):
        if cache is None:
            return super().forward(x)
        past = len(cache)
        plain, turned = self.ask(x)
        latent, key = self.keep(x, past)
        k, v = self.make(latent)
        wide = torch.cat([k, key.expand(-1, self.n_heads, -1, -1)], dim=-1)
        wide, v = cache.append(wide, v)
        k, key = wide.split([self.d_head, self.d_rope], dim=-1)
        later = self.later(x.shape[1], k.shape[2], x.device)
        scores = self.score(plain, self.at(turned, past), k, key)
        return self.finish(self.weigh(scores.masked_fill(later, -torch.inf)) @ v)


@LatentAttention.misconception(
    "The rotated key and the latent go into the cache in the wrong order: the latent first, then the key."
)
class KeyFirst(_Latent):
    def remember(self, cache, latent, key):
        return cache.append(key, latent)[::-1]


@LatentAttention.misconception(
    "The rotated key is kept once for each head. It is the same for all: keep it with a single head, and let "
    "broadcasting repeat it."
)
class KeyForEachHead(_Latent):
    def remember(self, cache, latent, key):
        return cache.append(latent, key.expand(-1, self.n_heads, -1, -1))


@LatentAttention.misconception(
    "The layer keeps the past in `self` and not in the cache that it is given. Two texts that are read in turn then "
    "get mixed up."
)
class LatentInSelf(_Latent):
    def open(self, cache):
        if cache is not None and not hasattr(self, "kept"):
            self.kept = solutions.KVCache()
        return None if cache is None else self.kept


@LatentAttention.misconception("The maps have biases. nn.Linear adds one unless you say bias=False.")
class LatentBiases(_Latent):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        for name in ("W_q", "W_down", "W_k_rope", "W_up_k", "W_up_v", "W_o"):
            plain = getattr(self, name)
            setattr(self, name, nn.Linear(plain.in_features, plain.out_features))


@LatentAttention.misconception("eps is fixed or left at the default of RMSNorm. Pass on the one that the layer gets.")
class LatentDefaultEps(_Latent):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.norm.eps = 1e-5


@LatentAttention.misconception(
    "No gradient arrives: the layer works under `torch.no_grad()` or on detached tensors, and could never be trained."
)
class LatentNoGradient(_Latent):
    def forward(self, x, cache=None):
        with torch.no_grad():
            return super().forward(x, cache)


@LatentAttention.misconception(
    "The mask is on the CPU, wherever x is, so the two cannot be combined. Create it with `device=x.device`."
)
class LatentMaskOnTheCPU(_Latent):
    def later(self, new, total, device):
        return super().later(new, total, None)


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
    yield dict(logits=LOGITS.clone(), top_k=2)
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


@route.property(
    "sends gradients to the chosen logits alone",
    points=1,
    probe=probes.gradients,
    hint="The router learns through the weights: detach nothing.",
)
def route_gradients(rng):
    yield dict(logits=_apart(rng, 3, 5), top_k=2, upstream=[normal(rng, 3, 2), torch.zeros(3, 2, dtype=torch.float64)])


@route.property(
    "keeps the kind of number, and the device",
    points=1,
    probe=probes.elsewhere,
    rtol=0.02,
    atol=0.02,
    hint="float32 logits give float32 weights. The experts are whole numbers. Create no tensor on a fixed device.",
)
def route_kinds(rng):
    yield dict(logits=_apart(rng, 3, 5).float(), top_k=2)
    yield dict(logits=_apart(rng, 3, 5).to(torch.bfloat16), top_k=2)


@route.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    hint="To hide logits by writing minus infinity into them changes the caller's tensor.",
)
def route_is_new(rng):
    yield dict(logits=_apart(rng, 3, 5), top_k=2)


def _wrong_route(text):
    def declare(f):
        def wrong(logits, top_k):
            return f(logits, top_k)

        wrong.__name__ = f.__name__
        route.misconception(text)(wrong)
        return f

    return declare


@_wrong_route(
    "The weights are shares of a softmax over all experts, so they sum to less than 1. Take the softmax over the "
    "chosen logits only."
)
def softmax_over_all(logits, top_k):
    return logits.softmax(-1).topk(top_k, dim=-1)


@_wrong_route("The weights are the logits themselves. They still need a softmax.")
def bare_logits(logits, top_k):
    return logits.topk(top_k, dim=-1)


@_wrong_route("The order is smallest first. Largest first, in weights and experts.")
def smallest_first(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return values.softmax(-1).flip(-1), experts.flip(-1)


@_wrong_route("The weights are in the opposite order from the experts.")
def weights_turned_around(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return values.softmax(-1).flip(-1), experts


@_wrong_route("The smallest logits are chosen. The router's largest logits name the experts.")
def smallest_chosen(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1, largest=False)
    return values.softmax(-1), experts


@_wrong_route("Experts and weights come back in the wrong order: weights first.")
def experts_first(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return experts, values.softmax(-1)


@_wrong_route("The softmax runs over the tokens. Each token shares out a weight of 1 among its own experts: dim=-1.")
def over_tokens(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return values.softmax(0), experts


@_wrong_route("Each expert chooses tokens here. Each token chooses experts: topk along the last axis.")
def tokens_chosen(logits, top_k):
    values, tokens = logits.topk(min(top_k, len(logits)), dim=0)
    return values.softmax(0).T, tokens.T


@_wrong_route("The weights are sigmoids of the logits. They should be a softmax over those that were chosen.")
def sigmoids(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return values.sigmoid(), experts


@_wrong_route("All chosen experts get the same weight. A larger logit should count for more.")
def equal_weights(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return torch.ones_like(values) / top_k + 0 * values, experts


@_wrong_route("The chosen logits are divided by their sum. A logit may be negative; take the softmax.")
def divided_by_sum(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return values / values.sum(-1, keepdim=True), experts


@_wrong_route("Every expert has a column, with weight 0 where it is not chosen. Only top_k columns are asked for.")
def full_rows(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    weights = torch.zeros_like(logits).scatter(-1, experts, values.softmax(-1))
    return weights, torch.arange(logits.shape[-1]).expand_as(logits)


@_wrong_route("Only the best expert comes back. A token uses top_k of them.")
def best_only(logits, top_k):
    values, experts = logits.topk(1, dim=-1)
    return values.softmax(-1), experts


@_wrong_route("The experts are floats. They are indices: leave them as the whole numbers that `topk` returns.")
def float_experts(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return values.softmax(-1), experts.to(values.dtype)


@_wrong_route("No maximum is subtracted, so large logits overflow. Use torch.softmax.")
def route_overflows(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return values.exp() / values.exp().sum(-1, keepdim=True), experts


@_wrong_route("The gradient is cut, so the router would never learn. `.detach()` and NumPy give tensors without one.")
def route_detached(logits, top_k):
    values, experts = logits.topk(top_k, dim=-1)
    return values.softmax(-1).detach(), experts


# MixtureOfExperts ----------------------------------------------------------------------------------------------------

MixtureOfExperts = Exercise(solutions.MixtureOfExperts, section=EXPERTS, minutes=25, difficulty=3)


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


@MixtureOfExperts.property(
    "has the right gradients, for the router too, and none for an idle expert",
    points=2,
    probe=probes.gradients,
    rtol=1e-4,
    atol=1e-6,
    hint="The router learns through the weights that multiply the experts' outputs. An expert without rows is not "
    "called, so it gets no gradient.",
)
def moe_gradients(rng):
    names = {"router.weight", *(f"experts.{e}.W_down.weight" for e in range(5))}
    yield dict(
        **_moe_layer(rng, d_model=3, d_ff=2, n_experts=5, top_k=2, batch=1, n=2, names=names),
        upstream=[normal(rng, 1, 2, 3)],
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


@MixtureOfExperts.property(
    "leaves its tokens as they were",
    points=1,
    probe=probes.unchanged,
    **SINGLE,
    hint="Add the experts' outputs to a new tensor of zeros, not to the rows of x.",
)
def moe_is_new(rng):
    yield _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=2, batch=1, n=3)


class _Mixture(solutions.MixtureOfExperts):
    """Right, in steps that a misconception can replace one by one."""

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, experts = self.choose(self.router(rows))
        mixed = self.begin(rows)
        for e, expert in enumerate(self.experts):
            token, place = torch.where(experts == e)
            if len(token):
                mixed = self.add(mixed, token, weights[token, place, None], expert, rows)
        return mixed.view_as(x)

    def choose(self, logits):
        values, experts = logits.topk(self.top_k, dim=-1)
        return values.softmax(-1), experts

    def begin(self, rows):
        return torch.zeros_like(rows)

    def add(self, mixed, token, weight, expert, rows):
        return mixed.index_add(0, token, weight * expert(rows[token]))


def _mixture_without(text, **parts):
    MixtureOfExperts.misconception(text)(type("MixtureOfExperts", (_Mixture,), parts))


def _chosen_by(layer, logits, weights):
    values, experts = logits.topk(layer.top_k, dim=-1)
    return weights(values, experts, logits), experts


_mixture_without(
    "The weights come from a softmax over all experts, so those of the chosen ones sum to less than 1. Use `route`.",
    choose=lambda self, logits: logits.softmax(-1).topk(self.top_k, dim=-1),
)
_mixture_without(
    "The weights are left out: the experts' outputs are added as they are.",
    choose=lambda self, logits: _chosen_by(self, logits, lambda v, e, logits: torch.ones_like(v) + 0 * v),
)
_mixture_without(
    "The experts' outputs are averaged. Each counts by its own weight.",
    choose=lambda self, logits: _chosen_by(self, logits, lambda v, e, logits: torch.ones_like(v) / self.top_k + 0 * v),
)
_mixture_without(
    "The weights are those of other experts: their order is not that of the indices.",
    choose=lambda self, logits: _chosen_by(self, logits, lambda v, e, logits: v.softmax(-1).flip(-1)),
)
_mixture_without(
    "Only the best expert of a token is used. A token uses top_k of them.",
    choose=lambda self, logits: tuple(
        part[:, :1] for part in _chosen_by(self, logits, lambda v, e, logits: v.softmax(-1))
    ),
)
_mixture_without(
    "The experts with the smallest logits are used.",
    choose=lambda self, logits: (
        logits.topk(self.top_k, dim=-1, largest=False)[0].softmax(-1),
        logits.topk(self.top_k, dim=-1, largest=False)[1],
    ),
)
_mixture_without(
    "The rows themselves are in the result as well. The residual connection is the block's, not this layer's.",
    begin=lambda self, rows: rows.clone(),
)
_mixture_without(
    "Each expert reads what the one before it returned. All read the rows of x, and their outputs are added.",
    add=lambda self, mixed, token, weight, expert, rows: mixed.index_add(
        0, token, weight * expert(rows[token] + mixed[token])
    ),
)
_mixture_without(
    "A row is overwritten by the next expert that it chose. Add to it: `index_add`, or `+=` on the rows.",
    add=lambda self, mixed, token, weight, expert, rows: mixed.index_copy(0, token, weight * expert(rows[token])),
)
_mixture_without(
    "The weight multiplies the rows before the expert reads them. An expert is not linear: weigh what it returns.",
    add=lambda self, mixed, token, weight, expert, rows: mixed.index_add(0, token, expert(weight * rows[token])),
)
_mixture_without(
    "Every expert reads all rows, and those that are not its own are multiplied by 0. The numbers are right, but "
    "nothing is saved: call it with its own rows only.",
    add=lambda self, mixed, token, weight, expert, rows: mixed.index_add(0, token, weight * expert(rows)[token]),
)
_mixture_without(
    "The weights are detached, so the router gets no gradient and never learns.",
    choose=lambda self, logits: _chosen_by(self, logits, lambda v, e, logits: v.softmax(-1).detach()),
)


@MixtureOfExperts.misconception(
    "The tokens of a text are routed together: all take the experts of their mean, or of the first one. Route each of "
    "them by itself."
)
class RoutedTogether(_Mixture):
    def choose(self, logits):
        return super().choose(logits.mean(0, keepdim=True).expand_as(logits))


@MixtureOfExperts.misconception("The router has a bias. nn.Linear adds one unless you say bias=False.")
class RouterBias(_Mixture):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.router = nn.Linear(self.router.in_features, self.router.out_features)


@MixtureOfExperts.misconception(
    "The experts are in a plain Python list, so PyTorch does not find their parameters: they would never be trained or "
    "saved. Use nn.ModuleList."
)
class PlainList(_Mixture):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        experts = list(self.experts)
        del self.experts
        self.experts = experts


@MixtureOfExperts.misconception("All experts are one module, so they share their weights. Make a new one for each.")
class OneForAll(_Mixture):
    def __init__(self, *sizes, **named):
        super().__init__(*sizes, **named)
        self.experts = nn.ModuleList([self.experts[0]] * len(self.experts))


@MixtureOfExperts.misconception(
    "No gradient arrives: the layer works under `torch.no_grad()` or on detached tensors, and could never be trained."
)
class MixtureNoGradient(_Mixture):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


@MixtureOfExperts.misconception(
    "The weights are returned along with the output. Here forward returns the output alone."
)
class MixtureWithWeights(_Mixture):
    def forward(self, x):
        return super().forward(x), self.choose(self.router(x.flatten(0, 1)))


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
