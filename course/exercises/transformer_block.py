"""Exercises of the chapter on blocks: what must hold, on which inputs, and what people get wrong.

Sizes all differ wherever they can. Widths are small, since every misconception's numbers travel with the check.
"""

import math

import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import transformer_block as solutions

FLOAT16 = "Narrow numbers"
RMS_NORM = "Only the size: RMSNorm"
GELU = "A soft switch: GELU"
FEED_FORWARD = "Each token alone: the feed-forward network"
STREAM = "The stream that everything is added to"
ENCODER = "The encoder block"
DECODER = "The decoder block"
LLAMA = "The Llama block"
ORDER = "Norm first or norm last?"

CAT_SAT = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
# Angles are float32 by contract, and may be computed in several ways, and norms in float32 as well.
ROTATED = dict(rtol=1e-4, atol=1e-5)
SINGLE = dict(rtol=1e-4, atol=1e-5)
# In double precision too, constants and norms may be computed in single: torch.tensor(2.0).sqrt() is, and so is a norm
# in Llama's own code.
MIXED = dict(rtol=1e-5, atol=5e-6)
MIXED_GRADIENTS = dict(rtol=1e-4, atol=1e-5)
ALL_GRADIENTS = dict(title="sends the right gradients to x and all parameters", **MIXED_GRADIENTS)


def _other_number(rng, x, token):
    """x with one number of one token of every sentence replaced: what mixes numbers spreads it over the token."""
    changed = x.clone()
    changed[:, token, 1] = normal(rng, x.shape[0])
    return changed


# layer_norm ----------------------------------------------------------------------------------------------------------

layer_norm = Exercise(solutions.layer_norm, section="Every token its own scale: LayerNorm", minutes=10, difficulty=2)


def _scale_and_shift(rng, width, dtype=None):
    return dict(weight=normal(rng, width, dtype=dtype), bias=normal(rng, width, dtype=dtype))


def _tokens(rng, *shape):
    """Tokens with numbers so large and so different that eps makes no difference, wherever it is added."""
    while True:
        x = 20.0 * normal(rng, *shape)
        if x.std(dim=-1, correction=0).min() > 10.0:
            return x


@layer_norm.property(
    "gives every token mean 0 and variance 1",
    points=2,
    **MIXED,
    hint="Subtract the mean of the last axis, keepdim=True. The variance is the mean of the squares of what is left, "
    "divided by d and not by d - 1. Divide by the root of variance plus eps.",
)
def standard_tokens(rng):
    plain = dict(weight=torch.ones(4, dtype=torch.float64), bias=torch.zeros(4, dtype=torch.float64))
    yield dict(x=CAT_SAT.clone(), **plain)
    yield dict(x=5.0 * normal(rng, 2, 3, 4) + 2.0, **plain)


@layer_norm.property(
    "scales by the weight and then shifts by the bias",
    points=1,
    **MIXED,
    hint="Each of the d numbers has its own weight and its own bias: normed * weight + bias.",
)
def scaled_and_shifted(rng):
    yield dict(x=_tokens(rng, 2, 3, 4), **_scale_and_shift(rng, 4))
    yield dict(x=_tokens(rng, 3, 5), **_scale_and_shift(rng, 5))


@layer_norm.property(
    "has eps inside the root, as large as asked for",
    points=1,
    **MIXED,
    hint="sqrt(variance + eps). With equal numbers the variance is 0, and only eps prevents a division by 0.",
)
def large_eps(rng):
    yield dict(x=normal(rng, 2, 3, 4), **_scale_and_shift(rng, 4), eps=0.1)
    yield dict(x=0.01 * normal(rng, 2, 3), **_scale_and_shift(rng, 3))
    yield dict(x=torch.zeros(2, 5, dtype=torch.float64), **_scale_and_shift(rng, 5))


@layer_norm.property(
    "takes one token, or any leading dimensions", points=1, **MIXED, hint="Count the axis from the end: dim=-1."
)
def any_leading_dimensions(rng):
    yield dict(x=_tokens(rng, 5), **_scale_and_shift(rng, 5))
    yield dict(x=_tokens(rng, 2, 3, 2, 4), **_scale_and_shift(rng, 4))


@layer_norm.property(
    "moves no other token when one is changed",
    points=1,
    probe=probes.moved,
    hint="Mean and variance belong to one token. An average over tokens or over the batch would mix them, and "
    "earlier tokens would depend on later ones.",
)
def tokens_apart(rng):
    x = normal(rng, 2, 4, 5)
    yield dict(x=x, **_scale_and_shift(rng, 5), name="x", replacement=_other_number(rng, x, 2))


layer_norm.any_device(
    lambda rng: [
        dict(x=normal(rng, 2, 3, 6, dtype=torch.float32) + 3000.0, weight=torch.ones(6), bias=torch.zeros(6)),
        dict(probe="layout", x=normal(rng, 2, 3, 4, dtype=torch.float32), weight=torch.ones(4), bias=torch.zeros(4)),
    ],
    title="stays right when the mean is large, in single precision, on any device",
    rtol=4e-3,
    atol=4e-3,
    hint="Subtract the mean first and square what is left. The mean of squares minus the square of the mean is a "
    "small difference of two large numbers.",
)
layer_norm.gradients(
    lambda rng: dict(x=_tokens(rng, 2, 3, 4) / 10.0, **_scale_and_shift(rng, 4), upstream=[normal(rng, 2, 3, 4)]),
    title="sends the right gradients to x, weight and bias",
    **MIXED_GRADIENTS,
    hint="Mean and variance also depend on x. Detach nothing.",
)
NARROW_NUMBERS = dict(
    title="measures narrow numbers in float32",
    points=1,
    probe=probes.widened,
    rtol=0.02,
    atol=0.02,
    hint="float16 and bfloat16 are both narrower than float32: float16 ends at 65,504, and the square of 256 is "
    "larger; bfloat16 keeps two or three digits. For both, take `x.to(torch.float32)` first, and convert the result "
    "back with `.to(x.dtype)`.",
)


@layer_norm.property(**NARROW_NUMBERS)
def narrow_tokens(rng):
    yield dict(x=400.0 * normal(rng, 2, 3, 6).to(torch.float16), **_scale_and_shift(rng, 6, torch.float16))
    yield dict(x=normal(rng, 2, 4, 32, dtype=torch.bfloat16), **_scale_and_shift(rng, 32, torch.bfloat16))


layer_norm.unchanged(
    lambda rng: dict(x=_tokens(rng, 2, 2, 3), **_scale_and_shift(rng, 3)),
    title="leaves its input as it was",
    **MIXED,
    hint="`x -= mean` writes into the caller's tensor. Make a new one.",
)

WIDE = "x.to(torch.promote_types(x.dtype, torch.float32))"
MEAN = "wide.mean(dim=-1, keepdim=True)"
VARIANCE = "centered.square().mean(dim=-1, keepdim=True)"
NARROW = (
    "The squares are summed in the dtype of x. In float16 they overflow at 256, and the token is divided by "
    "infinity. Compute in float32 and convert the result back to the dtype of x."
)
WIDER_RESULT = (
    "The result is float32 where x is narrower. Compute in float32, and convert back to the dtype in which x came: "
    "`.to(x.dtype)`, with x still the argument itself. If the wide copy is called x too, `x.dtype` is float32."
)

NO_KEEPDIM = (
    "A mean has lost its axis, so it does not fit the tokens or is combined with the wrong ones. `keepdim=True` keeps "
    "the axis, with length 1."
)

layer_norm.mistakes(
    edit(VARIANCE, "wide.var(dim=-1, keepdim=True)",
         "The variance is the unbiased one, divided by d - 1. `torch.var` and `torch.std` do that unless "
         "you pass correction=0. At d = 4 the spread is off by 15%; divide by d."),
    edit("centered / spread", "centered * spread",
         "The centered numbers are multiplied by the spread. Divide by it, so that it becomes 1."),
    edit("* weight", "/ weight", "The result is divided by `weight`. It is multiplied by it."),
    edit("* weight + bias", "* bias + weight",
         "Weight and bias are exchanged: multiply by the weight, then add the bias."),
    edit("wide - ", "wide + ", "The mean is added. Subtract it, so that each token has mean 0."),
    edit("+ eps", "- eps",
         "eps is subtracted from the variance. Add it: the root would be nan for tokens that barely vary."),
    edit(" + eps)", ") + eps",
         "eps is added outside the root: std + eps. For tokens that barely vary, the result is different. The "
         "definition is sqrt(variance + eps)."),
    edit(f"torch.sqrt({VARIANCE} + eps)", "wide.std(dim=-1, keepdim=True) + eps",
         "You divide by `x.std() + eps`. That is two slips: `std` divides by d - 1 unless you pass correction=0, "
         "and eps belongs inside the root."),
    edit(" + eps", "", "eps has no effect. A token of equal numbers is then 0/0, which is nan."),
    edit("centered / spread", f"centered * (1 / {VARIANCE}.sqrt() + eps)",
         "eps is added to one over the root. There it protects nothing, since a variance of 0 has given infinity "
         "already. Add it to the variance, inside the root."),
    edit("+ eps", "+ 1e-5", "eps is fixed in the code. Use the one that is passed: models differ, from 1e-12 to 1e-5."),
    edit(VARIANCE, "centered.square().mean(dim=-min(x.ndim, 2), keepdim=True)",
         "Mean and variance run over the tokens. Each token is normed separately, over its own numbers: dim=-1.",
         also={MEAN: "wide.mean(dim=-min(x.ndim, 2), keepdim=True)"}),
    edit(VARIANCE, "centered.square().mean()",
         "One mean and one variance are taken for the whole array. Each token has its own: dim=-1, keepdim=True.",
         also={MEAN: "wide.mean()"}),
    edit(VARIANCE, "centered.square().mean(dim=0, keepdim=True)",
         "Mean and variance run over axis 0. Each token is normed separately, over its own numbers: dim=-1.",
         also={MEAN: "wide.mean(dim=0, keepdim=True)"}),
    edit(MEAN, "wide.mean(dim=-1)", NO_KEEPDIM, also={VARIANCE: "centered.square().mean(dim=-1)"}),
    edit(MEAN, "wide.mean(dim=-1)", NO_KEEPDIM),
    edit(VARIANCE, "centered.square().mean(dim=-1)", NO_KEEPDIM),
    edit(f"wide - {MEAN}", "wide",
         "The mean is not subtracted: this is RMSNorm with a bias. LayerNorm subtracts each token's mean first, and "
         "then the mean of the squares is the variance."),
    edit("centered / spread", "wide / spread",
         "The mean is not subtracted, so this is RMSNorm, or a division by the spread alone. LayerNorm "
         "subtracts each token's mean first."),
    edit("torch.sqrt(", "(", "You divide by the variance. Its root is the spread; divide by that."),
    edit("centered / spread * weight + bias", "(centered / spread + bias) * weight",
         "The bias is added before the weight multiplies, so it is scaled as well. Scale first, then shift."),
    edit(VARIANCE, f"wide.square().mean(dim=-1, keepdim=True) - {MEAN}.square()",
         "The variance is taken as the mean of squares minus the square of the mean. In algebra that is the "
         "same; with a large mean and single precision all digits of it are lost. Subtract the mean first."),
    edit(VARIANCE, f"{VARIANCE}.detach()",
         "Mean and variance are detached. They depend on x, and the gradient must go through them.",
         also={MEAN: f"{MEAN}.detach()"}),
    edit(f"wide - {MEAN}", f"wide.sub_({MEAN})",
         "The mean is subtracted in place, and the caller's tokens are changed. Write x - mean."),
    edit(WIDE, "x", NARROW, see=FLOAT16),
    edit(".to(x.dtype)", "", WIDER_RESULT, see=FLOAT16),
)  # fmt: skip


# rms_norm ------------------------------------------------------------------------------------------------------------

rms_norm = Exercise(solutions.rms_norm, section=RMS_NORM, minutes=5, difficulty=1)


@rms_norm.property(
    "gives every token a root mean square of 1, then scales",
    points=2,
    **MIXED,
    hint="Square, mean over the last axis with keepdim=True, plus eps, root. Divide x by that and multiply by weight.",
)
def standard_size(rng):
    yield dict(x=CAT_SAT.clone(), weight=torch.ones(4, dtype=torch.float64))
    yield dict(x=_tokens(rng, 2, 3, 5) + 5.0, weight=normal(rng, 5))
    yield dict(x=_tokens(rng, 2, 3, 2, 4), weight=normal(rng, 4))
    yield dict(x=_tokens(rng, 5), weight=normal(rng, 5))  # one token alone


@rms_norm.property(
    "has eps inside the root, as large as asked for",
    points=1,
    **MIXED,
    hint="sqrt(mean of squares + eps). For a token of zeros only eps prevents a division by 0.",
)
def rms_eps(rng):
    yield dict(x=normal(rng, 3, 4), weight=normal(rng, 4), eps=0.1)
    yield dict(x=0.01 * normal(rng, 2, 3), weight=normal(rng, 3))
    yield dict(x=torch.zeros(2, 5, dtype=torch.float64), weight=normal(rng, 5))


@rms_norm.property(
    "moves no other token when one is changed",
    points=1,
    probe=probes.moved,
    hint="Each token has its own root mean square: dim=-1.",
)
def rms_tokens_apart(rng):
    x = normal(rng, 2, 4, 5)
    yield dict(x=x, weight=normal(rng, 5), name="x", replacement=_other_number(rng, x, 1))


def _rms_gradients(rng):
    x = normal(rng, 2, 3, 4)
    yield dict(x=x, weight=normal(rng, 4), upstream=[normal(rng, 2, 3, 4)])
    x = normal(rng, 1, 3, 4)
    x[0, 1] = 0.0
    yield dict(x=x, weight=normal(rng, 4), eps=0.1, upstream=[normal(rng, 1, 3, 4)])


rms_norm.gradients(
    _rms_gradients,
    title="sends the right gradients to x and weight, also at a token of zeros",
    **MIXED_GRADIENTS,
    hint="The root mean square also depends on x: detach nothing. And take one root, of the sum with eps: the root of "
    "0 has an infinite slope.",
)
rms_norm.any_device(
    lambda rng: [
        dict(x=normal(rng, 2, 3, 5, dtype=torch.float32), weight=normal(rng, 5, dtype=torch.float32)),
        dict(probe="layout", x=normal(rng, 2, 3, 4, dtype=torch.float32), weight=torch.ones(4)),
    ],
    title="works in single precision, on any device",
    **SINGLE,
    hint="float32 in, float32 out. Create no tensor with a fixed dtype or on a fixed device.",
)


@rms_norm.property(**NARROW_NUMBERS)
def rms_narrow_tokens(rng):
    yield dict(x=400.0 * normal(rng, 2, 3, 6).to(torch.float16), weight=normal(rng, 6, dtype=torch.float16))
    yield dict(x=normal(rng, 2, 4, 32, dtype=torch.bfloat16), weight=normal(rng, 32, dtype=torch.bfloat16))


rms_norm.unchanged(
    lambda rng: dict(x=_tokens(rng, 2, 3), weight=normal(rng, 3)),
    title="leaves its input as it was",
    **MIXED,
    hint="`x /= ...` and `x.pow_(2)` write into the caller's tensor.",
)

MEAN_SQUARE = "wide.square().mean(dim=-1, keepdim=True)"
BY_ROOT = "* torch.rsqrt(mean_square + eps)"

rms_norm.mistakes(
    edit("mean_square = ", f"wide = wide - {MEAN}\n    mean_square = ",
         "The mean is subtracted: that is LayerNorm. RMSNorm leaves the mean as it is and only divides by the size."),
    edit(MEAN_SQUARE, "wide.var(dim=-1, correction=0, keepdim=True)",
         "You divide by the standard deviation, which is measured from the mean. The root mean square is measured "
         "from 0."),
    edit(BY_ROOT, "/ (mean_square.sqrt() + eps)",
         "eps is added outside the root. The definition is sqrt(mean of squares + eps)."),
    edit(" + eps", "", "eps has no effect. A token of zeros is then 0/0, which is nan."),
    edit("torch.rsqrt(mean_square + eps)", "(torch.rsqrt(mean_square) + eps)",
         "eps is added to one over the root. There it protects nothing, since a mean square of 0 has given infinity "
         "already. Add it to the mean of the squares, inside the root."),
    edit("+ eps", "+ 1e-5", "eps is fixed in the code. Use the one that is passed: Llama 2 has 1e-5, others 1e-6."),
    edit(".mean(", ".sum(",
         "The squares are summed and not averaged: you divide by the length of the vector. The root mean "
         "square is smaller by sqrt(d), so that the numbers stay near 1 whatever the width."),
    edit(BY_ROOT, "/ (mean_square + eps)", "The root is missing: you divide by the mean of the squares."),
    edit(BY_ROOT, "/ (wide.abs().mean(dim=-1, keepdim=True) + eps)",
         "You divide by the mean of the absolute values. Square, mean, root."),
    edit(MEAN_SQUARE, "wide.square().mean(dim=-1)", NO_KEEPDIM),
    edit(MEAN_SQUARE, "wide.square().mean()",
         "One root mean square is taken for the whole array. Each token has its own: dim=-1, keepdim=True."),
    edit("dim=-1", "dim=-2",
         "The mean runs over the tokens. Each token is normed separately, over its own numbers: dim=-1."),
    edit("* weight", "* (1 + weight.to(wide.dtype))",
         "The weight is used as 1 + weight. Some models store it like that (Gemma does); here weight itself "
         "multiplies."),
    edit("* weight", "* weight * weight", "The weight multiplies twice, or squared. Multiply by it once."),
    edit(MEAN_SQUARE, f"{MEAN_SQUARE}.detach()",
         "The root mean square is detached. It depends on x, and the gradient must go through it."),
    edit(WIDE, "x", NARROW, see=FLOAT16),
    edit(".to(x.dtype)", "", WIDER_RESULT, see=FLOAT16),
)  # fmt: skip


# gelu and gelu_tanh --------------------------------------------------------------------------------------------------

gelu = Exercise(solutions.gelu, section=GELU, minutes=3, difficulty=1)
gelu_tanh = Exercise(solutions.gelu_tanh, section=GELU, minutes=3, difficulty=1)


def _declare_activation(exercise, curve, hint):
    """Declare the properties and the mistakes that both share; curve: the part of the text that is erf or tanh."""

    @exercise.property("is right from far below 0 to far above, to five places", points=2, **MIXED, hint=hint)
    def along_the_line(rng):
        yield dict(x=torch.tensor(1.0, dtype=torch.float64))  # shown where no name explains the result
        yield dict(x=torch.linspace(-6.0, 6.0, 25, dtype=torch.float64))
        yield dict(x=2.0 * normal(rng, 2, 3, 4))

    @exercise.property(
        "survives numbers of a thousand",
        points=1,
        **MIXED,
        hint="Far above 0 the result is x, far below it is 0. Use torch.erf or torch.tanh, which do not overflow.",
    )
    def thousands(rng):
        yield dict(x=torch.tensor([-1000.0, -30.0, 0.0, 30.0, 1000.0], dtype=torch.float64))
        yield dict(x=1000.0 * normal(rng, 2, 3))

    def slope(rng):
        yield dict(x=torch.linspace(-4.0, 4.0, 9, dtype=torch.float64), upstream=[torch.ones(9, dtype=torch.float64)])
        yield dict(x=normal(rng, 2, 3), upstream=[normal(rng, 2, 3)])

    exercise.gradients(slope, title="has the right slope", **MIXED_GRADIENTS)
    exercise.any_device(
        lambda rng: dict(probe="unchanged", x=normal(rng, 2, 5, dtype=torch.float32)),
        title="leaves its input as it was, in single precision and on any device",
        rtol=1e-5,
        atol=1e-6,
        hint="Write nothing into x, and create no tensor with a fixed dtype or on a fixed device.",
    )
    share = f"(1.0 + {curve})"
    result = f"0.5 * x * {share}"
    exercise.mistakes(
        edit(result, "x.clamp(min=0.0)",
             "That is ReLU, the hard switch: 0 below 0. GELU weighs x by the share of a standard normal below it."),
        edit(result, "x * torch.sigmoid(x)",
             "That is x * sigmoid(x), SiLU. GELU weighs x by a different curve, which rises faster."),
        edit(result, "x * torch.sigmoid(1.702 * x)",
             "That is the approximation with a sigmoid, x * sigmoid(1.702 x). It is off by up to 0.02."),
        edit(result, f"{result} / x",
             "The share is not multiplied by x. GELU is x times the share, not the share alone."),
        edit("0.5 * x", "x", "The factor one half is missing: the share must run from 0 to 1, and 1 + erf or 1 + tanh "
             "run from 0 to 2."),
        edit(share, curve, "The 1 is missing: erf and tanh run from -1 to 1, and a share from 0 to 1."),
        edit(result, f"{result} if x.requires_grad else x.copy_({result})",
             "The input is overwritten. Operations whose name ends in an underscore, and `x *= ...`, change the "
             "caller's tensor."),
        edit(result, f"({result}).detach()",
             "The gradient is cut. A detour through NumPy, `.data` or `.detach()` gives numbers without a gradient."),
    )  # fmt: skip


ERF = "torch.erf(x / math.sqrt(2.0))"
_declare_activation(gelu, ERF, "0.5 * x * (1 + erf(x / sqrt(2))): the share of a standard normal below x, times x.")
_declare_activation(
    gelu_tanh,
    "torch.tanh(inner)",
    "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))): the root goes over 2 / pi and is about 0.798, and "
    "what it multiplies is x and the small cube together.",
)

gelu.mistakes(
    edit(f"0.5 * x * (1.0 + {ERF})", "gelu_tanh(x)", "That is the approximation with tanh. It is off by up to 5e-4; "
         "this exercise asks for the exact one, with erf."),
    edit("x / math.sqrt(2.0)", "x",
         "x goes into erf as it is. erf belongs to a normal distribution of variance 1/2: divide x by sqrt(2) first."),
    edit("x / math", "x * math", "x is multiplied by sqrt(2) inside erf. Divide: erf(x / sqrt(2))."),
    edit(ERF, "x / math.sqrt(2.0)", "erf is missing: a share runs from 0 to 1, and erf keeps it there."),
    edit("math.sqrt(2.0)", "2.0", "x is divided by 2 inside erf, and not by sqrt(2)."),
    edit("math.sqrt(2.0)", "{}", "sqrt(2) is rounded to a few digits: write `math.sqrt(2)`.",
         each=(1.4142, 1.414, 1.41, 1.4)),
)  # fmt: skip
gelu_tanh.mistakes(
    edit("0.5 * x * (1.0 + torch.tanh(inner))", "x * torch.sigmoid(inner)",
         "The share is the sigmoid of u, where u is what goes into tanh. (1 + tanh(u)) / 2 is the sigmoid of 2u: at "
         "u = 1, both are 0.88, and the sigmoid of 1 is 0.73."),
    edit("math.sqrt(2.0 / math.pi)", "math.sqrt(2.0) / math.pi",
         "The root is taken of 2 alone: sqrt(2) / pi is about 0.45. The factor is sqrt(2 / pi), about 0.798."),
    edit("torch.tanh(inner)", ERF,
         "That is the exact GELU, with erf. Models that were trained with the approximation need the approximation."),
    edit("(x + 0.044715 * x**3)", "x + 0.044715 * x**3",
         "The factor sqrt(2 / pi) multiplies x alone. It belongs before the brackets that contain both x and the "
         "cube."),
    edit(" + 0.044715 * x**3", "",
         "The cubic term is left out. Without 0.044715 x ** 3 the curve is off by up to 0.02."),
    edit("math.sqrt(2.0 / math.pi)", "{}", "sqrt(2 / pi) is rounded to a few digits: write `math.sqrt(2 / math.pi)`.",
         each=(0.7979, 0.7978, 0.798, 0.8)),
    edit("math.sqrt(2.0 / math.pi)", "2.0 / math.pi",
         "The root is missing: the factor is sqrt(2 / pi), about 0.798, not 2 / pi."),
    edit("(x + 0.044715 * x**3)", "{}", "The cube takes in more than x. Only x is cubed: x + 0.044715 * x ** 3.",
         each=("(x + 0.044715 * x) ** 3", "(x + (0.044715 * x) ** 3)")),
    edit("x**3", "x**2", "x is squared where it should be cubed. A square makes both sides bend the same way."),
    edit("math.sqrt(2.0 / math.pi)", "{}",
         "The factor in front of the brackets is wrong. It should be sqrt(2 / pi), about 0.798.",
         each=(math.sqrt(2), math.sqrt(math.pi), math.sqrt(4 / math.pi), math.sqrt(2 * math.pi), 1.0,
               math.sqrt(1 / math.pi), 1 / math.pi, 0.5)),
    edit("0.044715 * ", "", "The cube goes in without its small factor: 0.044715 x ** 3."),
    edit("(x + 0", "(0", "Only the cube goes into tanh. The brackets contain x + 0.044715 x ** 3."),
    edit("torch.tanh(inner)", "inner", "tanh is missing: a share runs from 0 to 1, and tanh keeps it there."),
    edit("2.0 / math.pi", "math.pi / 2",
         "The root is missing or upside down: the factor is sqrt(2 / pi), about 0.798."),
)  # fmt: skip


# FeedForward ---------------------------------------------------------------------------------------------------------

FeedForward = Exercise(solutions.FeedForward, section=FEED_FORWARD, minutes=5, difficulty=1)


def _two_maps(rng, d_model, d_ff, prefix="", dtype=torch.float64):
    """Weights of a feed-forward network, so large that activations leave the middle of their curve."""
    shapes = {"W_1.weight": (d_ff, d_model), "W_1.bias": (d_ff,), "W_2.weight": (d_model, d_ff), "W_2.bias": (d_model,)}
    return {prefix + name: normal(rng, *shape, dtype=dtype) for name, shape in shapes.items()}


def _declare_network(exercise, weights, hint, far=0.0):
    """Declare the properties that both networks share.

    far: a size of weights at which a careless exponential overflows, or 0
    """

    def case(rng, d_model, d_ff, batch, n, size=1.0, dtype=torch.float64):
        maps = weights(rng, d_model, d_ff, dtype=dtype)
        return dict(
            init=dict(d_model=d_model, d_ff=d_ff),
            weights={name: size * weight for name, weight in maps.items()},
            x=normal(rng, batch, n, d_model, dtype=dtype),
        )

    # `__init__` is given, so being made is not enough: a token must come out right.
    @exercise.property("gets a single token right, with the parameters as given", points=1, **MIXED, hint=hint)
    def structure(rng):
        yield case(rng, 4, 7, 1, 1)
        yield case(rng, 5, 3, 1, 1)

    @exercise.property("gives the right output", points=2, **MIXED, hint=hint)
    def forward(rng):
        yield case(rng, 4, 7, 1, 3)
        yield case(rng, 5, 3, 2, 4)
        if far:
            yield case(rng, 3, 4, 1, 2, size=far)

    @exercise.property(
        "treats each token alone",
        points=1,
        probe=probes.moved,
        hint="Nothing in here may mix tokens: maps and activations work along the last axis.",
    )
    def alone(rng):
        # Small weights, so that no GELU is shut to the last bit, and so many that not all are shut if they are ReLUs:
        # what was changed shows everywhere in its token.
        small = case(rng, 4, 16, 2, 3, size=0.3)
        yield dict(small, name="x", replacement=_other_number(rng, small["x"], 1))

    exercise.gradients(lambda rng: dict(**case(rng, 3, 4, 1, 2), upstream=[normal(rng, 1, 2, 3)]), **ALL_GRADIENTS)
    exercise.any_device(
        lambda rng: dict(probe="unchanged", **case(rng, 3, 5, 2, 4, dtype=torch.float32)),
        title="works in single precision and on any device, leaves x as it was, and keeps nothing",
        **SINGLE,
        hint="float32 in, float32 out; write nothing into x, and create nothing on a fixed device.",
    )


_declare_network(
    FeedForward,
    _two_maps,
    "W_2(gelu(W_1(x))), with the exact gelu. To call a map adds its bias, so each is added once. Do not add x: the "
    "block does that.",
)

RESHAPED = (
    "A weight is reshaped where it should be transposed. nn.Linear(a, b) keeps its weight as (b, a); `reshape` and "
    "`view` leave the numbers in their order and only cut the rows elsewhere. Call the map, or write x @ weight.T."
)
MIDDLE_RESHAPED = "gelu(x @ self.W_1.weight.reshape(self.W_1.weight.T.shape) + self.W_1.bias)"
W_2_RESHAPED = "self.W_2.weight.reshape(self.W_2.weight.T.shape)"

FeedForward.mistakes(
    edit("gelu(self", "gelu_tanh(self",
         "GELU is the approximation with tanh here. The contract asks for the exact one."),
    edit("gelu(self", "torch.relu(self",
         "The switch is ReLU. The original transformer had that; here, as in BERT and GPT-2, it is GELU."),
    edit("gelu(self", "nn.functional.silu(self", "The switch is SiLU, x * sigmoid(x). Here it is GELU."),
    edit("gelu(self", "(self",
         "There is no activation between the two maps. Two linear maps in a row are one linear map."),
    edit("self.W_2(gelu(", "gelu(self.W_2(",
         "The activation comes after W_2. It belongs between the maps, where d_ff numbers are switched."),
    edit("self.W_2(gelu(self.W_1(x)))", "gelu(self.W_2(gelu(self.W_1(x))))",
         "There is a second activation after W_2. The result of W_2 goes to the stream as it is, and may be negative."),
    edit("return ", "return x + ",
         "x is added inside the network. The block adds it, so here it would be added twice."),
    edit("gelu(self.W_1(x))", "self.W_1(gelu(x))",
         "The activation comes before the first map. First W_1, then the activation."),
    edit("(d_model, d_ff)", "(d_model, d_ff, bias=False)",
         "W_1 and W_2 have no bias. In this network both have one (the projections of attention and SwiGLU do "
         "without).", also={"(d_ff, d_model)": "(d_ff, d_model, bias=False)"}),
    edit("self.W_2(gelu(self.W_1(x)))", "{}",
         "A bias is left out. W_1 and W_2 both have one: call the maps, W_2(gelu(W_1(x))), which add them.",
         each=("gelu(x @ self.W_1.weight.T) @ self.W_2.weight.T", "self.W_2(gelu(x @ self.W_1.weight.T))",
               "gelu(self.W_1(x)) @ self.W_2.weight.T")),
    edit("self.W_2(gelu(self.W_1(x)))", "{}",
         "A bias is added twice. To call a map, W_1(x), multiplies by the weight and adds the bias already.",
         each=("self.W_2(gelu(self.W_1(x) + self.W_1.bias)) + self.W_2.bias",
               "self.W_2(gelu(self.W_1(x) + self.W_1.bias))", "self.W_2(gelu(self.W_1(x))) + self.W_2.bias")),
    edit("self.W_2(gelu(self.W_1(x)))", "{}", RESHAPED,
         each=(f"({MIDDLE_RESHAPED}) @ {W_2_RESHAPED} + self.W_2.bias", f"self.W_2({MIDDLE_RESHAPED})",
               f"gelu(self.W_1(x)) @ {W_2_RESHAPED} + self.W_2.bias")),
    edit("self.W_2(gelu(self.W_1(x)))", "self.W_2(gelu(self.W_1(x))).detach()",
         "The result is detached, so nothing before it can learn."),
)  # fmt: skip


# SwiGLU --------------------------------------------------------------------------------------------------------------

SwiGLU = Exercise(solutions.SwiGLU, section="A gate: SwiGLU", minutes=5, difficulty=1)


def _three_maps(rng, d_model, d_ff, prefix="", dtype=torch.float64):
    shapes = {"W_gate": (d_ff, d_model), "W_up": (d_ff, d_model), "W_down": (d_model, d_ff)}
    return {f"{prefix}{name}.weight": normal(rng, *shape, dtype=dtype) for name, shape in shapes.items()}


_declare_network(
    SwiGLU,
    _three_maps,
    "W_down(silu(W_gate(x)) * W_up(x)), where silu(a) = a * sigmoid(a): each of the three maps is used once, and so is "
    "SiLU. Take torch.sigmoid or F.silu, which do not overflow.",
    far=2000.0,
)

SILU = "gate * torch.sigmoid(gate)"
GATED = "opened * self.W_up(x)"

SwiGLU.mistakes(
    edit("self.W_gate(x)", "self.W_up(x)",
         "Gate and up are swapped: SiLU goes over W_gate of x. Trained weights would then be in the wrong maps.",
         also={"self.W_up(x)": "self.W_gate(x)"}),
    edit(SILU, "gate", "SiLU is missing: the two maps are multiplied as they are. The gate is silu(W_gate of x)."),
    edit(SILU, "torch.sigmoid(gate)",
         "The gate is a sigmoid. That is GLU, the older one; in SwiGLU it is SiLU, a * sigmoid(a)."),
    edit("torch.sigmoid(gate)", "(torch.exp(gate) / (1 + torch.exp(gate)))",
         "The exponential of a large number is infinite, in float32 above 88 and in float64 above 709, and infinity "
         "divided by infinity is nan. `torch.sigmoid` and `F.silu` do not overflow."),
    edit(SILU, "{}",
         "SiLU, or its sigmoid, is applied twice. F.silu(a) is a * sigmoid(a) already: nothing is left to multiply by.",
         each=(f"nn.functional.silu({SILU})", f"({SILU}) * torch.sigmoid(gate)", f"gate * torch.sigmoid({SILU})")),
    edit(SILU, f"gate * ({SILU})",
         "SiLU is multiplied by its argument once more. F.silu(a) is a * sigmoid(a) already."),
    edit("self.W_down(opened * self.W_up(x))", "self.W_down(nn.functional.silu(mixed[0]) * mixed[1])",
         "The numbers of both maps are mixed before they are taken apart: `stack(..., dim=-1)` puts a number of the "
         "gate and one of W_up in turn, and `chunk` cuts in the middle. With `torch.cat`, the first half is the gate "
         "again.",
         also={"opened = ":
               "mixed = torch.stack([gate, self.W_up(x)], dim=-1).flatten(-2).tensor_split(2, -1)\n        opened = "}),
    edit(SILU, "gelu(gate)", "The gate is GELU. That is GEGLU; in SwiGLU it is SiLU."),
    edit(SILU, "torch.relu(gate)", "The gate is ReLU. That is ReGLU; in SwiGLU it is SiLU."),
    edit(GATED, "nn.functional.silu(gate * self.W_up(x))",
         "SiLU goes over the product. It goes over the gate alone, before the product."),
    edit(GATED, "opened * nn.functional.silu(self.W_up(x))", "SiLU goes over both maps. W_up of x stays as it is."),
    edit(GATED, "opened + self.W_up(x)", "Gate and up are added. A gate multiplies: at 0 it closes."),
    edit(GATED, "opened", "W_up is left out. Without it this is the plain feed-forward network with SiLU."),
    edit("return ", "return x + ",
         "x is added inside the network. The block adds it, so here it would be added twice."),
    edit("self.W_gate(x)", "self.W_up(x)", "W_up is used for both maps. The gate is silu(W_gate of x)."),
    edit("self.W_up(x)", "self.W_gate(x)", "W_gate is used for both maps. What the gate multiplies is W_up of x."),
    edit(GATED, "self.W_up(x)",
         "The gate is left out: this is W_down of W_up of x. Multiply by silu(W_gate of x) in between."),
    edit("sigmoid", "tanh", "The gate is a times tanh(a). In SwiGLU it is SiLU, a * sigmoid(a)."),
    edit("self.W_gate = nn.Linear(d_model, d_ff, bias=False)", "self.W_gate = nn.Linear(d_model, d_ff)",
         "The maps have a bias. In SwiGLU none of the three has one.",
         also={"self.W_up = nn.Linear(d_model, d_ff, bias=False)": "self.W_up = nn.Linear(d_model, d_ff)",
               "(d_ff, d_model, bias=False)": "(d_ff, d_model)"}),
)  # fmt: skip


# Blocks --------------------------------------------------------------------------------------------------------------

SINGLE_BLOCK = dict(
    title="works in single precision and on any device, leaves x as it was, and keeps nothing", rtol=1e-3, atol=1e-4
)
STRUCTURE = dict(
    title="gets a single token right, with the parts as given",
    points=1,
    hint="Each of its four parts is used once: the two norms have different weights.",
)
AGAIN = dict(
    title="gives the same again, also in training mode",
    points=1,
    probe=probes.repeated,
    hint="Nothing in this block is random, and nothing is kept from one call to the next.",
)


def _square_maps(rng, prefix, d_model, d_kv=None, dtype=torch.float64):
    """Weights of an attention layer inside of a block; keys and values d_kv wide."""
    rows = {"q": d_model, "k": d_kv or d_model, "v": d_kv or d_model, "o": d_model}
    maps = {name: normal(rng, count, d_model, dtype=dtype) for name, count in rows.items()}
    return {f"{prefix}.W_{name}.weight": weight / d_model**0.5 for name, weight in maps.items()}


def _norms(rng, count, d_model, bias=True, dtype=torch.float64):
    """Weights (and biases) of norm_1, norm_2, ... of a block, no two alike."""
    parts = ("weight", "bias") if bias else ("weight",)
    return {f"norm_{i}.{part}": normal(rng, d_model, dtype=dtype) for i in range(1, count + 1) for part in parts}


def _with_silent(case, *names):
    """The case with some of its parameters at 0."""
    silent = {name: torch.zeros_like(case["weights"][name]) for name in names}
    return case | {"weights": case["weights"] | silent}


def _flicker(block, x):
    """Dropout without chance: in training two of five entries are lost, others at each of several calls."""
    if not block.training:
        return x
    block.calls = getattr(block, "calls", 0) + 1
    places = torch.arange(x.numel()).reshape(x.shape)
    return x * ((places + block.calls) % 5 > 1) * (5 / 3)


POST_NORM = (
    "That is post-norm: the norm is on the stream itself, after the sum. Here each part reads a normed "
    "copy, and the stream itself is only added to: x + part(norm(x))."
)
FROM_NORMED = "The sum starts from the normed x, so the stream itself is lost in every block: add to x, not to norm(x)."
SHARED_NORM = "One norm serves both parts. Each has its own weights; use norm_2 for the second."
DROPOUT = (
    "Two calls give two results: dropout is on. This block has none; and `nn.Dropout` is active until "
    ".eval() is called."
)
SWAPPED_NORMS = (
    "The two norms are swapped. norm_1 is for the attention, norm_2 for the network: trained weights would "
    "be in the wrong norms."
)
NO_SECOND_RESIDUAL = "The last part's result is returned as it is. Add it to the stream, as with the others."
NO_FIRST_RESIDUAL = "The output of the attention replaces the stream. Add it, x = x + ..., or the token itself is lost."
PARALLEL = (
    "Both parts read the same x. The second reads the stream after the first has been added to it (some models "
    "do run them in parallel, but this block does not)."
)
OLD_STREAM = "The second sum starts from the original x, so the output of the attention is lost from the stream."
STALE_SUM = (
    "A sum starts from an earlier stream, so what a part added in between is lost. Each part adds to the newest x."
)
NOT_NORMED = "A part reads the stream as it is. Each part reads a normed copy: its own norm first."
NORM_OF_PART = (
    "A part's result is normed before it is added. The norm comes before the part, on a copy of the stream, not after "
    "it."
)


OUTPUT_READ = (
    "The network reads what the part before it has returned. It reads the stream, to which that has been added: the "
    "norm of the newest x."
)
TWO_RESULTS = (
    "The attention returns two results, its output and its weights, as a tuple. Add the first: "
    "`self.attention(...)[0]`, or unpack both."
)
WEIGHTS_ADDED = "The second result of the attention is added, its weights. The first is the output: take `[0]`."
REPLACED = {(1, "replaces"), (2, "replaces")}  # the first two parts of each block have their own sentence on this


def _part_mistakes(exercise, see, named, **sums):
    """Declare what can go wrong with each part of a block alone.

    sums: name of the part -> the text that adds its output to the stream
    named: (number of the part, kind of mistake) of those that have another sentence
    """
    for number, (part, total) in enumerate(sums.items(), start=1):
        part, output, norm = part.replace("_", "-"), total.removeprefix("x + "), f"self.norm_{number}(x)"
        from_stream, not_here = output.replace(norm, "x"), {} if norm in output else {norm: "x"}
        not_added = f"The output of the {part} is {{}} the stream. Add it: x = x + ..."
        mistakes = {
            "lost": edit(total, f"(x, {output})[0]",
                         f"The {part} adds nothing to the stream. Add its output, x = x + ..., and see that it is not "
                         "all zeros."),
            "minus": edit(total, f"x - {output}", not_added.format("subtracted from")),
            "times": edit(total, f"x * {output}", not_added.format("multiplied by")),
            "replaces": edit(total, output, not_added.format("written over")),
            "no norm": edit(norm, "x", f"The {part} reads the stream as it is. It should read norm_{number} of it."),
            "from norm": edit(total, f"{norm} + {output}",
                              f"The output of the {part} is added to norm_{number} of the stream, and the stream "
                              "itself is lost. Add it to the stream: only the part reads the norm."),
            "post-norm": edit(total, f"self.norm_{number}(x + {from_stream})",
                              f"norm_{number} comes after the sum of the {part}: that is post-norm. Here the {part} "
                              f"reads norm_{number} of the stream, and nothing is done to the sum.", also=not_here),
            "norm of part": edit(total, f"x + self.norm_{number}({from_stream})",
                                 f"norm_{number} is taken of the output of the {part}. It comes before the part, which "
                                 f"reads norm_{number} of the stream.", also=not_here),
        } | {
            f"norm_{other}": edit(norm, f"self.norm_{other}(x)",
                                  f"The {part} reads norm_{other} of the stream. Its own norm is norm_{number}.")
            for other in range(1, len(sums) + 1) if other != number
        }  # fmt: skip
        exercise.mistakes(*(mistake for kind, mistake in mistakes.items() if (number, kind) not in named), see=see)


# EncoderBlock --------------------------------------------------------------------------------------------------------

EncoderBlock = Exercise(solutions.EncoderBlock, section=ENCODER, minutes=8, difficulty=2)
ENCODER_SIZES = dict(d_model=6, n_heads=2, d_ff=5)
LOWER = torch.ones(4, 4, dtype=torch.bool).tril()


def _encoder(rng, batch, n, dtype=torch.float64, **init):
    init = ENCODER_SIZES | init
    weights = (
        _norms(rng, 2, init["d_model"], dtype=dtype)
        | _square_maps(rng, "attention", init["d_model"], dtype=dtype)
        | _two_maps(rng, init["d_model"], init["d_ff"], "feed_forward.", dtype=dtype)
    )
    return dict(init=init, weights=weights, x=normal(rng, batch, n, init["d_model"], dtype=dtype))


@EncoderBlock.property(**STRUCTURE, **MIXED)
def encoder_structure(rng):
    yield _encoder(rng, 1, 1)
    yield _encoder(rng, 1, 1, d_model=4, n_heads=1, d_ff=7)


@EncoderBlock.property(
    "norms, attends, adds; norms, thinks, adds",
    points=3,
    **MIXED,
    hint="x = x + attention(norm_1(x)), then x + feed_forward(norm_2(x)). The attention returns two things.",
)
def encoder_forward(rng):
    yield _encoder(rng, 1, 3)
    yield _encoder(rng, 3, 4, d_model=4, d_ff=7)
    faint = _encoder(rng, 1, 2)  # so that eps counts
    yield dict(faint, x=0.003 * faint["x"])


@EncoderBlock.property(
    "passes the mask on", points=1, **MIXED, hint="Pass it to the attention as it is, whatever its shape."
)
def encoder_masks(rng):
    yield dict(**_encoder(rng, 1, 3), mask=LOWER[:3, :3])
    padding = torch.tensor([[[True, True, False, False]], [[True, True, True, True]]])
    yield dict(**_encoder(rng, 2, 4), mask=padding)


@EncoderBlock.property(
    "leaves the stream alone when its parts give zeros",
    points=1,
    **MIXED,
    hint="With W_o, W_2 and its bias at 0, both parts give 0, so the result must be x: on the stream itself there are "
    "only the sums.",
)
def encoder_identity(rng):
    yield _with_silent(_encoder(rng, 2, 3), "attention.W_o.weight", "feed_forward.W_2.weight", "feed_forward.W_2.bias")
    yield _with_silent(_encoder(rng, 2, 3), "attention.W_o.weight")


@EncoderBlock.property(
    "keeps the future out under a causal mask",
    points=1,
    probe=probes.moved,
    hint="Only attention may mix tokens, and it must get the mask.",
)
def encoder_future(rng):
    case = _encoder(rng, 2, 4)
    yield dict(case, mask=LOWER, name="x", replacement=_other_number(rng, case["x"], 2))


EncoderBlock.property(**AGAIN, **MIXED)(lambda rng: _encoder(rng, 2, 5))


def _encoder_gradients(rng):
    yield dict(**_encoder(rng, 1, 3, d_model=4, d_ff=3), upstream=[normal(rng, 1, 3, 4)])
    blind = torch.tensor([[True, False, False], [False, False, False], [True, False, True]])
    yield dict(**_encoder(rng, 1, 3, d_model=4, d_ff=3), mask=blind, upstream=[normal(rng, 1, 3, 4)])


EncoderBlock.gradients(
    _encoder_gradients,
    **ALL_GRADIENTS,
    hint="Detach nothing; write nothing in place. Pass the mask to the attention as it is: the attention handles "
    "tokens that may read nothing.",
)
EncoderBlock.any_device(
    lambda rng: dict(probe="unchanged", **_encoder(rng, 1, 3, torch.float32), mask=LOWER[:3, :3]),
    **SINGLE_BLOCK,
    hint="`x += ...` writes into the caller's tensor. Write x = x + ...",
)

HEARD = "x + heard"
THOUGHT = "x + self.feed_forward(self.norm_2(x))"

EncoderBlock.mistakes(
    edit(HEARD, "self.norm_1(x + heard)", POST_NORM,
         also={"self.norm_1(x)": "x", THOUGHT: "self.norm_2(x + self.feed_forward(x))"}),
    edit("heard, _ = ", "x = self.norm_1(x)\n        heard, _ = ", FROM_NORMED, see=STREAM,
         also={"self.norm_1(x)": "x", HEARD: "self.norm_2(x + heard)", "self.norm_2(x)": "x"}),
    edit(HEARD, "heard", NO_FIRST_RESIDUAL, see=STREAM),
    edit("return x + ", "return ", NO_SECOND_RESIDUAL, see=STREAM),
    edit(HEARD, "heard", "Neither part's result is added to the stream: each replaces it. Write x = x + ... twice.",
         see=STREAM, also={"return x + ": "return "}),
    edit("self.norm_2(x)", "self.norm_1(x)", SHARED_NORM, see=ENCODER),
    edit("self.norm_2(x)", "self.norm_1(x)", SWAPPED_NORMS, see=ENCODER, also={"self.norm_1(x)": "self.norm_2(x)"}),
    edit("x = x + heard", "start, x = x, x + heard", PARALLEL, see=ENCODER,
         also={"self.norm_2(x)": "self.norm_2(start)"}),
    edit("self.norm_2(x)", "x", NOT_NORMED),
    edit("self.norm_1(x)", "x", NOT_NORMED),
    edit("self.norm_2(x)", "self.norm_2(heard)", OUTPUT_READ, see=STREAM),
    edit("self.norm_2(x)", "self.norm_2(heard)",
         "The parts are put in a row, and the stream is added once, at the end. Each part adds to the stream, and the "
         "next reads the sum.", see=STREAM, also={HEARD: "x"}),
    edit(HEARD, "x + self.norm_1(heard)", NORM_OF_PART,
         also={"self.norm_1(x)": "x", THOUGHT: "x + self.norm_2(self.feed_forward(x))"}),
    edit("x = x + heard", "start, x = x, x + heard", OLD_STREAM, see=STREAM, also={"return x": "return start"}),
    edit(THOUGHT, f"self.norm_2({THOUGHT})",
         "There is a third norm at the end, on the stream. In a pre-norm model one follows the last block; it "
         "is not part of the block."),
    edit("heard, _ = self.attention(self.norm_1(x), mask)", "x = x + self.feed_forward(self.norm_2(x))",
         "The network comes before the attention. First the attention, which mixes the tokens; then the network.",
         also={"x = x + heard": "heard, _ = self.attention(self.norm_1(x), mask)",
               f"return {THOUGHT}": "return x + heard"}),
    edit(HEARD, "x + _flicker(self, heard)", DROPOUT, see=ENCODER,
         also={THOUGHT: "x + _flicker(self, self.feed_forward(self.norm_2(x)))"}),
    see=ORDER,
)  # fmt: skip
EncoderBlock.mistakes(
    edit("self.norm_1(x), mask", "self.norm_1(x), None if mask is None else ~mask",
         "The mask is turned around. True means \"may attend\" here, as in MultiHeadAttention (PyTorch's own module "
         "means the opposite): pass it on as it is."),
    edit("heard, _ = ", "heard = ", TWO_RESULTS, see=ENCODER),
    edit("heard, _ = ", "_, heard = ", WEIGHTS_ADDED, see=ENCODER),
    edit("self.norm_1(x), mask", "self.norm_1(x)",
         "The mask is not passed on, so padding and the future are read. Call attention(norm_1(x), mask)."),
    edit(HEARD, "x + heard if x.requires_grad else x.add_(heard)",
         "The stream is added to in place, `x += ...`, so the caller's tokens change. Write x = x + ...", see=STREAM),
)  # fmt: skip
_part_mistakes(EncoderBlock, ENCODER, REPLACED | {(1, "no norm"), (2, "no norm"), (2, "norm_1")},
               attention=HEARD, network=THOUGHT)  # fmt: skip


# DecoderBlock --------------------------------------------------------------------------------------------------------

DecoderBlock = Exercise(solutions.DecoderBlock, section=DECODER, minutes=8, difficulty=2)


def _decoder(rng, batch, n, n_memory, dtype=torch.float64, **init):
    init = ENCODER_SIZES | init
    width = init["d_model"]
    weights = (
        _norms(rng, 3, width, dtype=dtype)
        | _square_maps(rng, "self_attention", width, dtype=dtype)
        | _square_maps(rng, "cross_attention", width, dtype=dtype)
        | _two_maps(rng, width, init["d_ff"], "feed_forward.", dtype=dtype)
    )
    x = normal(rng, batch, n, width, dtype=dtype)
    memory = 3.0 * normal(rng, batch, n_memory, width, dtype=dtype) + 1.0
    return dict(init=init, weights=weights, x=x, memory=memory)


@DecoderBlock.property(
    "gets a single token right, with the parts as given",
    points=1,
    **MIXED,
    hint="Each of its six parts is used once: the three norms have different weights.",
)
def decoder_structure(rng):
    yield _decoder(rng, 1, 1, 1)


@DecoderBlock.property(
    "reads itself, reads the memory, thinks, and adds each",
    points=3,
    **MIXED,
    hint="Three times x = x + part(norm(x)). The memory goes to the cross-attention as it is.",
)
def decoder_forward(rng):
    yield _decoder(rng, 1, 3, 2, d_model=4, d_ff=3)
    yield _decoder(rng, 2, 3, 3)
    yield _decoder(rng, 2, 4, 5)


@DecoderBlock.property(
    "reads no padding of the memory",
    points=1,
    **MIXED,
    hint="memory_mask goes to the cross-attention as it is, with True for a real token, and nowhere else.",
)
def decoder_memory_mask(rng):
    for mask in ([[1, 1, 0, 0], [1, 1, 1, 1]], [[1, 0, 1], [0, 0, 0]]):
        case = _decoder(rng, 2, 3, len(mask[0]), d_model=4, d_ff=3)
        yield dict(case, memory_mask=torch.tensor(mask, dtype=torch.bool))


@DecoderBlock.property(
    "writes without seeing the future, and reads all of the memory",
    points=2,
    probe=probes.moved,
    hint="The self-attention needs a causal mask, which forward has to make. The memory has no future.",
)
def decoder_future(rng):
    case = _decoder(rng, 2, 4, 3, d_model=4, d_ff=3)
    case["memory"] = case["memory"] / 3.0  # no weight so near 0 that what is replaced is lost in rounding
    yield dict(case, name="x", replacement=_other_number(rng, case["x"], 2))
    yield dict(case, name="memory", replacement=_other_number(rng, case["memory"], 2))


@DecoderBlock.property(
    "leaves the stream alone when its parts give zeros",
    points=1,
    **MIXED,
    hint="With W_o of both attentions, W_2 and its bias at 0, the result must be x.",
)
def decoder_identity(rng):
    attentions = ("self_attention.W_o.weight", "cross_attention.W_o.weight")
    yield _with_silent(_decoder(rng, 2, 3, 4), *attentions, "feed_forward.W_2.weight", "feed_forward.W_2.bias")
    yield _with_silent(_decoder(rng, 1, 3, 4), *attentions)


DecoderBlock.property(**AGAIN, **MIXED)(lambda rng: _decoder(rng, 2, 5, 3))


def _decoder_gradients(rng):
    yield dict(**_decoder(rng, 1, 3, 2, d_model=4, d_ff=3), upstream=[normal(rng, 1, 3, 4)])
    half = torch.tensor([[False, False], [True, False]])
    yield dict(**_decoder(rng, 2, 3, 2, d_model=4, d_ff=3), memory_mask=half, upstream=[normal(rng, 2, 3, 4)])


DecoderBlock.gradients(
    _decoder_gradients,
    title="sends the right gradients to x, memory and all parameters",
    **MIXED_GRADIENTS,
    hint="Detach nothing, not even the memory: the encoder learns through it.",
)
DecoderBlock.any_device(
    lambda rng: dict(probe="unchanged", **_decoder(rng, 1, 3, 2, torch.float32, d_model=4, d_ff=3)),
    title="works in single precision and on any device, leaves its inputs as they were, and keeps nothing",
    rtol=1e-3,
    atol=1e-4,
    hint="Write x = x + ..., not x += ...; make the mask boolean, with `device=x.device`.",
)

ATTEND = "self.self_attention(self.norm_1(x), earlier)"
READ = "self.cross_attention(self.norm_2(x), memory, memory_mask)"
LAST = "x + self.feed_forward(self.norm_3(x))"

DecoderBlock.mistakes(
    edit(", earlier", "",
         "The self-attention has no causal mask: a token sees the later ones that the decoder should predict. The "
         "block makes this mask itself."),
    edit(".tril()", ".tril(-1)", "The causal mask hides the token itself as well. The diagonal must be True."),
    edit(".tril()", ".triu()",
         "The mask of the self-attention is the wrong way round: each token sees itself and what comes later. "
         "True means that it may be seen."),
    edit(", device=x.device", "",
         "The causal mask is on the CPU, wherever x is, so the two cannot be combined. Create it with "
         "`device=x.device`."),
    edit("memory, memory_mask", "memory, None if memory_mask is None else ~memory_mask",
         "memory_mask is turned around. True means a real token here (PyTorch's own module means the opposite): pass "
         "it on as it is."),
    edit(", earlier", ", ~earlier",
         "The causal mask is turned around. True means \"may attend\" here: `tril` itself."),
    edit("memory, memory_mask", "memory",
         "memory_mask has no effect, so the padding of the memory is read. Pass it to the cross-attention."),
    edit("self.norm_2(x), memory", "memory, self.norm_2(x)",
         "Query and source of the cross-attention are swapped. Queries come from the stream, keys and values from "
         "the memory: cross_attention(norm_2(x), memory)."),
    edit("memory, memory_mask", "self.norm_2(x)",
         "The cross-attention reads the decoder's own stream. Its keys and values come from the memory."),
    see=DECODER,
)  # fmt: skip
DecoderBlock.mistakes(
    edit("(x), earlier", "(x), earlier if memory_mask is None else earlier & memory_mask[:, None]",
         "memory_mask is given to the self-attention. It says which tokens of the memory are real, "
         "so it belongs to the cross-attention alone."),
)  # fmt: skip
DecoderBlock.mistakes(
    edit("memory, memory_mask", "self.norm_2(memory), memory_mask",
         "The memory is normed as well, by the decoder's norm. The encoder has normed it already; only the stream "
         "is normed here."),
    edit(ATTEND, READ,
         "The memory is read before the self-attention. First the token reads its own text, then the memory.",
         also={READ: ATTEND}),
    edit(HEARD, "self.norm_1(x + heard)", POST_NORM, see=ORDER,
         also={"self.norm_1(x)": "x", "self.norm_2(x)": "x", "x + read": "self.norm_2(x + read)",
               LAST: "self.norm_3(x + self.feed_forward(x))"}),
    edit("heard, _ = ", "x = self.norm_1(x)\n        heard, _ = ", FROM_NORMED, see=STREAM,
         also={"self.norm_1(x)": "x", HEARD: "self.norm_2(x + heard)", "self.norm_2(x)": "x",
               "x + read": "self.norm_3(x + read)", "self.norm_3(x)": "x"}),
    edit("heard, _ = ", "heard = ", TWO_RESULTS),
    edit("read, _ = ", "read = ", TWO_RESULTS),
    edit("heard, _ = ", "_, heard = ", WEIGHTS_ADDED),
    edit("read, _ = ", "_, read = ", WEIGHTS_ADDED),
    edit("x = x + heard", "start, x = x, x + heard",
         "All parts read the same x. Each reads the stream after those before it have been added.",
         also={"self.norm_2(x)": "self.norm_2(start)", "self.norm_3(x)": "self.norm_3(start)"}),
    edit("x = x + heard", "start, x = x, x + heard",
         "The cross-attention reads the stream as it was before the self-attention. Add the output of the "
         "self-attention first; then norm_2 reads the sum.", see=STREAM, also={"self.norm_2(x)": "self.norm_2(start)"}),
    edit("x = x + read", "start, x = x, x + read",
         "The network reads the stream as it was before the cross-attention. Add the output of the cross-attention "
         "first; then norm_3 reads the sum.", see=STREAM, also={"self.norm_3(x)": "self.norm_3(start)"}),
    edit("x = x + heard", "start, x = x, x + heard", STALE_SUM, see=STREAM, also={"x + read": "start + read"}),
    edit("x = x + heard", "start, x = x, x + heard", STALE_SUM, see=STREAM,
         also={LAST: "start + self.feed_forward(self.norm_3(x))"}),
    edit("x = x + read", "start, x = x, x + read", STALE_SUM, see=STREAM,
         also={LAST: "start + self.feed_forward(self.norm_3(x))"}),
    edit("self.norm_3(x)", "self.norm_3(read)", OUTPUT_READ, see=STREAM),
    edit("self.norm_3(x)", "self.norm_3(heard)", OUTPUT_READ, see=STREAM),
    edit("self.norm_2(x)", "self.norm_2(heard)",
         "The cross-attention reads what the self-attention has returned. It reads the stream, to which that has been "
         "added: norm_2 of the newest x.", see=STREAM),
    edit(LAST, "{}",
         "The stream is added once too often: each part's output is added once, and the stream goes on from there.",
         each=(f"x + {LAST}", f"x - read - heard + {LAST}", f"heard + {LAST}", f"read + {LAST}")),
    edit("x + read", "read",
         "The output of the cross-attention replaces the stream. Add it, or the token itself is lost.", see=STREAM),
    edit(HEARD, "heard", NO_FIRST_RESIDUAL, see=STREAM),
    edit("self.norm_2(x)", "self.norm_1(x)",
         "One norm serves several parts. There are three, each with its own weights.",
         also={"self.norm_3(x)": "self.norm_1(x)"}),
    edit(HEARD, "x + _flicker(self, heard)", DROPOUT,
         also={"x + read": "x + _flicker(self, read)",
               LAST: "x + _flicker(self, self.feed_forward(self.norm_3(x)))"}),
    see=DECODER,
)  # fmt: skip
_part_mistakes(DecoderBlock, DECODER, REPLACED, self_attention=HEARD, cross_attention="x + read", network=LAST)


# LlamaBlock ----------------------------------------------------------------------------------------------------------

LlamaBlock = Exercise(solutions.LlamaBlock, section=LLAMA, minutes=8, difficulty=2)
LLAMA_SIZES = dict(d_model=8, n_heads=2, n_kv_heads=1, d_ff=5)


def _llama(rng, batch, n, dtype=torch.float64, size=1.0, **init):
    init = LLAMA_SIZES | init
    width = init["d_model"]
    d_kv = width // init["n_heads"] * init["n_kv_heads"]
    weights = (
        _norms(rng, 2, width, bias=False, dtype=dtype)
        | _square_maps(rng, "attention", width, d_kv=d_kv, dtype=dtype)
        | _three_maps(rng, width, init["d_ff"], "feed_forward.", dtype=dtype)
    )
    return dict(init=init, weights=weights, x=size * normal(rng, batch, n, width, dtype=dtype))


@LlamaBlock.property(**STRUCTURE, **ROTATED)
def llama_structure(rng):
    yield _llama(rng, 1, 1)
    yield _llama(rng, 1, 1, d_model=12, n_heads=3, n_kv_heads=3, d_ff=7)


@LlamaBlock.property(
    "norms, attends, adds; norms, thinks, adds",
    points=2,
    **ROTATED,
    hint="As the encoder block: x = x + part(norm(x)), twice. This attention returns one thing.",
)
def llama_forward(rng):
    yield _llama(rng, 1, 3)
    yield _llama(rng, 2, 5, n_heads=4, n_kv_heads=2)


@LlamaBlock.property(
    "hands base and eps to its parts", points=1, **ROTATED, hint="base goes to the attention, eps to both norms."
)
def llama_settings(rng):
    yield _llama(rng, 1, 6, base=50.0)
    yield _llama(rng, 1, 3, eps=0.1, size=0.3)
    yield _llama(rng, 1, 2, size=0.003)  # eps counts here, too, and is the one by default


@LlamaBlock.property(
    "reads in chunks with a cache as in one pass",
    points=2,
    probe=probes.in_chunks,
    **ROTATED,
    hint="Pass the cache to the attention each time. A new cache is empty and its length is 0: compare with None, do "
    "not write `if cache:`.",
)
def llama_chunks(rng):
    for cuts in ([3], [1, 2, 4]):
        yield dict(**_llama(rng, 2, 5), cuts=cuts)


@LlamaBlock.property(
    "keeps the future out",
    points=1,
    probe=probes.moved,
    hint="Your attention is causal without a mask. Nothing else may mix tokens.",
)
def llama_future(rng):
    case = _llama(rng, 2, 4)
    yield dict(case, name="x", replacement=_other_number(rng, case["x"], 2))


@LlamaBlock.property(
    "leaves the stream alone when its parts give zeros",
    points=1,
    **ROTATED,
    hint="With W_o and W_down at 0, the result must be x.",
)
def llama_identity(rng):
    yield _with_silent(_llama(rng, 2, 3), "attention.W_o.weight", "feed_forward.W_down.weight")
    yield _with_silent(_llama(rng, 1, 3), "attention.W_o.weight")


LlamaBlock.property(**AGAIN, **ROTATED)(lambda rng: _llama(rng, 2, 5))
LlamaBlock.gradients(
    lambda rng: dict(**_llama(rng, 1, 3, d_model=4, d_ff=3), upstream=[normal(rng, 1, 3, 4)]),
    **ALL_GRADIENTS,
    hint="Detach nothing; write nothing in place.",
)
LlamaBlock.any_device(
    lambda rng: dict(probe="unchanged", **_llama(rng, 1, 3, torch.float32)),
    **SINGLE_BLOCK,
    hint="Write x = x + ..., not x += ...",
)

ATTENDED = "x + self.attention(self.norm_1(x), cache)"

LlamaBlock.mistakes(
    edit(ATTENDED, "self.norm_1(x + self.attention(x, cache))", POST_NORM,
         also={THOUGHT: "self.norm_2(x + self.feed_forward(x))"}),
    edit(f"x = {ATTENDED}", "x = self.norm_1(x)\n        x = self.norm_2(x + self.attention(x, cache))", FROM_NORMED,
         see=STREAM, also={"self.norm_2(x)": "x"}),
    edit("x = x + ", "x = ", NO_FIRST_RESIDUAL, see=STREAM),
    edit("return x + ", "return ", NO_SECOND_RESIDUAL, see=STREAM),
    edit("x = x + ", "x = ", "Neither part's result is added to the stream: each replaces it. Write x = x + ... twice.",
         see=STREAM, also={"return x + ": "return "}),
    edit("self.norm_2(x)", "self.norm_1(x)", SHARED_NORM, see=LLAMA),
    edit("self.norm_2(x)", "self.norm_1(x)", SWAPPED_NORMS, see=LLAMA, also={"self.norm_1(x)": "self.norm_2(x)"}),
    edit("self.norm_2(x)", "x", NOT_NORMED),
    edit(ATTENDED, "x + self.norm_1(self.attention(x, cache))", NORM_OF_PART,
         also={THOUGHT: "x + self.norm_2(self.feed_forward(x))"}),
    edit("x = x + ", "start, x = x, x + ", OLD_STREAM, see=STREAM, also={"return x": "return start"}),
    edit("x = x + ", "start, x = x, x + ", PARALLEL, see=LLAMA, also={"self.norm_2(x)": "self.norm_2(start)"}),
    edit("x = x + ", "start, x = x, x + ",
         "The network reads norm_1 of the stream from before the attention, normed once more. It reads norm_2 of the "
         "newest x.", see=LLAMA, also={"self.norm_2(x)": "self.norm_2(self.norm_1(start))"}),
    edit(ATTENDED, "x + (heard := self.attention(self.norm_1(x), cache))", OUTPUT_READ, see=STREAM,
         also={"self.norm_2(x)": "self.norm_2(heard)"}),
    edit(THOUGHT, f"self.norm_2({THOUGHT})",
         "There is a third norm at the end, on the stream. In a Llama model one follows the last block; it is not "
         "part of the block."),
    edit(ATTENDED, "x + _flicker(self, self.attention(self.norm_1(x), cache))", DROPOUT, see=LLAMA,
         also={THOUGHT: "x + _flicker(self, self.feed_forward(self.norm_2(x)))"}),
    see=ORDER,
)  # fmt: skip
LlamaBlock.mistakes(
    edit("self.norm_1(x), cache", "self.norm_1(x), {}",
         "Each chunk is read as if nothing came before it, and the caller's cache stays empty. Either it is not passed "
         "on, or a copy of it or a new one is, or it is emptied, or an empty one is taken for none: its length is 0, "
         "and `if cache:` tests the length. Write attention(norm_1(x), cache), and do no more with it.",
         each=("None", "cache if cache else None")),
    edit(f"x = {ATTENDED}", f"cache is None or cache.reset()\n        x = {ATTENDED}",
         "Each call empties the cache, so each chunk is read as if nothing came before it. Whoever made the cache "
         "decides when a new text begins: leave it as it comes."),
    edit(f"x = {ATTENDED}", f"self.attention(self.norm_1(x), cache)\n        x = {ATTENDED}",
         "The attention is called twice. Each call appends its keys and values, so the cache holds every token twice, "
         "and positions go wrong. Call it once, and keep the result in a variable."),
    edit("self.norm_1(x), cache", "self.norm_1(x), self.kept if cache is None else cache",
         "Called twice on the same x, the block gives two results: it keeps something between calls, such as a cache "
         "of its own. With cache=None nothing is kept.", see=LLAMA,
         also={"super().__init__()": "super().__init__(); self.kept = KVCache()"}),
    edit("n_kv_heads, base)", "n_kv_heads)",
         "base is not passed to the attention, so RoPE uses 10000 whatever the model was trained with."),
    edit("norm_1 = RMSNorm(d_model, eps)", "norm_1 = RMSNorm(d_model)",
         "eps does not reach the norms. `__init__` gives it to them, RMSNorm(d_model, eps), and `forward` calls them, "
         "norm_1(x): `rms_norm(x, weight)` alone would take the default.",
         also={"norm_2 = RMSNorm(d_model, eps)": "norm_2 = RMSNorm(d_model)"}),
    edit("norm_1 = RMSNorm(d_model, eps)", "norm_1 = nn.LayerNorm(d_model, eps, bias=False)",
         "The norms subtract the mean. Llama's norm is RMSNorm, which only divides by the size.", see=RMS_NORM,
         also={"norm_2 = RMSNorm(d_model, eps)": "norm_2 = nn.LayerNorm(d_model, eps, bias=False)"}),
)  # fmt: skip
_part_mistakes(LlamaBlock, LLAMA, REPLACED | {(2, "no norm"), (2, "norm_1")}, attention=ATTENDED, network=THOUGHT)


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **What was measured.** In fresh towers of 24 blocks: post-norm keeps less of the input (cosine about 0.45 against
   0.75) and makes tokens more alike, and its gradients are about twice as large on every floor, not vanishing. In
   training: at one rate without warm-up, 24 pre-norm blocks learned to reverse eight digits in 100 steps and 24
   post-norm blocks did not leave the level of guessing; with two blocks both learned. One width, one rate, one seed,
   a toy task, few steps. Naming both results and two of these limits suffices.
2. **What follows and what does not.** It follows that pre-norm is easier to start with; it does not follow that
   post-norm cannot be trained (the original transformer and BERT were, with warm-up), nor that the trained pre-norm
   model is the better one. Full marks for naming one concrete thing that could reverse the judgement: warm-up, a
   smaller rate, other initial weights, more steps.
3. **A fair comparison.** Each order gets the rate (and warm-up) that suits it best, chosen on other data; several
   seeds; the same number of parameters and steps (pre-norm's final norm counted); a measure fixed beforehand, such as
   the loss on held-out text. Half a point for "more seeds" alone.

Model answer. "The first experiment shows that fresh post-norm towers lose more of their input and send back larger
gradients; the second, that at a rate of 0.003 and with no warm-up 24 of them do not learn a toy task in 100 steps.
With one rate for both, that compares the rate as much as the order of the norms: one that suits the first tower may
simply be too high for the second. Two blocks learned either way, and the models of 2017 and 2018 were trained with
post-norm and warm-up, so 'does not work' is already refuted. To say which is better I would try five rates, with
warm-up and without, for each order, choose by the loss on validation texts, run the winners with five seeds on the
same data and the same number of steps and parameters, and report the mean and the spread of the test loss at 12 and
at 48 blocks. If post-norm with warm-up is as good, then the figure was about ease of training and not about quality."
""",
)
