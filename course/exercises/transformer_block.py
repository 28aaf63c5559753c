"""Exercises of the chapter on blocks: what must hold, on which inputs, and what people get wrong.

Sizes all differ wherever they can. Widths are small, since every misconception's numbers travel with the check.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import transformer_block as solutions

LAYER_NORM = "Every token its own scale: LayerNorm"
FLOAT16 = "Narrow numbers"
RMS_NORM = "Only the size: RMSNorm"
GELU = "A soft switch: GELU"
FEED_FORWARD = "Each token alone: the feed-forward network"
SWIGLU = "A gate: SwiGLU"
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


def _other_number(rng, x, token):
    """x with one number of one token of every sentence replaced: what mixes numbers spreads it over the token."""
    changed = x.clone()
    changed[:, token, 1] = normal(rng, x.shape[0])
    return changed


# layer_norm ----------------------------------------------------------------------------------------------------------

layer_norm = Exercise(solutions.layer_norm, section=LAYER_NORM, minutes=10, difficulty=2)


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


@layer_norm.property(
    "stays right when the mean is large, in single precision, on any device",
    points=1,
    probe=probes.elsewhere,
    rtol=4e-3,
    atol=4e-3,
    hint="Subtract the mean first and square what is left. The mean of squares minus the square of the mean is a "
    "small difference of two large numbers.",
)
def large_mean(rng):
    yield dict(x=normal(rng, 2, 3, 6, dtype=torch.float32) + 3000.0, weight=torch.ones(6), bias=torch.zeros(6))


@layer_norm.property(
    "sends the right gradients to x, weight and bias",
    points=1,
    probe=probes.gradients,
    **MIXED_GRADIENTS,
    hint="Mean and variance also depend on x. Detach nothing.",
)
def layer_norm_gradients(rng):
    yield dict(x=_tokens(rng, 2, 3, 4) / 10.0, **_scale_and_shift(rng, 4), upstream=[normal(rng, 2, 3, 4)])


@layer_norm.property(
    "measures narrow numbers in float32",
    points=1,
    rtol=0.02,
    atol=0.02,
    hint="float16 ends at 65,504, and the square of 256 is larger. If x is narrower than float32, take "
    "`x.to(torch.float32)` first, and convert the result back with `.to(x.dtype)`.",
)
def narrow_tokens(rng):
    yield dict(x=400.0 * normal(rng, 2, 3, 6).to(torch.float16), **_scale_and_shift(rng, 6, torch.float16))
    yield dict(x=normal(rng, 2, 2, 5, dtype=torch.bfloat16), **_scale_and_shift(rng, 5, torch.bfloat16))


@layer_norm.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    **MIXED,
    hint="`x -= mean` writes into the caller's tensor. Make a new one.",
)
def layer_norm_leaves(rng):
    yield dict(x=_tokens(rng, 2, 2, 3), **_scale_and_shift(rng, 3))


def _centred(x, dim=-1):
    return x - x.mean(dim=dim, keepdim=True)


def _variance(x, dim=-1):
    return _centred(x, dim).square().mean(dim=dim, keepdim=True)


def _in_float32(f):
    """A norm that measures narrow numbers in float32, as it should, whatever else it does."""

    def measured(x, *vectors, eps=1e-5):
        if x.dtype.itemsize >= 4:
            return f(x, *vectors, eps)
        return f(x.float(), *(vector.float() for vector in vectors), eps).to(x.dtype)

    return measured


def _wrong_layer_norm(text):
    """Declares a wrong answer that is right about narrow numbers."""

    def declare(f):
        def wrong(x, weight, bias, eps=1e-5):
            return _in_float32(f)(x, weight, bias, eps=eps)

        wrong.__name__ = f.__name__
        layer_norm.misconception(text)(wrong)
        return f

    return declare


@_wrong_layer_norm(
    "The variance is the unbiased one, divided by d - 1. `torch.var` and `torch.std` do that unless "
    "you pass correction=0. At d = 4 the spread is off by 15%; divide by d."
)
def unbiased(x, weight, bias, eps):
    return _centred(x) / torch.sqrt(x.var(dim=-1, keepdim=True) + eps) * weight + bias


@_wrong_layer_norm("The centered numbers are multiplied by the spread. Divide by it, so that it becomes 1.")
def times_spread(x, weight, bias, eps):
    return _centred(x) * torch.sqrt(_variance(x) + eps) * weight + bias


@_wrong_layer_norm("The result is divided by `weight`. It is multiplied by it.")
def divided_by_weight(x, weight, bias, eps):
    return _centred(x) / torch.sqrt(_variance(x) + eps) / weight + bias


@_wrong_layer_norm("The mean is added. Subtract it, so that each token has mean 0.")
def mean_added(x, weight, bias, eps):
    centered = x + x.mean(dim=-1, keepdim=True)
    return centered / torch.sqrt(centered.square().mean(dim=-1, keepdim=True) + eps) * weight + bias


@_wrong_layer_norm("eps is subtracted from the variance. Add it: the root would be nan for tokens that barely vary.")
def eps_subtracted(x, weight, bias, eps):
    return _centred(x) / torch.sqrt(_variance(x) - eps) * weight + bias


@_wrong_layer_norm(
    "eps is added outside the root: std + eps. For tokens that barely vary, the result is different. The "
    "definition is sqrt(variance + eps)."
)
def eps_outside(x, weight, bias, eps):
    return _centred(x) / (_variance(x).sqrt() + eps) * weight + bias


@_wrong_layer_norm(
    "You divide by `x.std() + eps`. That is two slips: `std` divides by d - 1 unless you pass correction=0, "
    "and eps belongs inside the root."
)
def unbiased_and_outside(x, weight, bias, eps):
    return _centred(x) / (x.std(dim=-1, keepdim=True) + eps) * weight + bias


@_wrong_layer_norm("eps is not used. A token of equal numbers is then 0/0, which is nan.")
def no_eps(x, weight, bias, eps):
    return _centred(x) / _variance(x).sqrt() * weight + bias


@_wrong_layer_norm("eps is fixed in the code. Use the one that is passed: models differ, from 1e-12 to 1e-5.")
def fixed_eps(x, weight, bias, eps):
    return _centred(x) / torch.sqrt(_variance(x) + 1e-5) * weight + bias


@_wrong_layer_norm(
    "Mean and variance run over the tokens. Each token is normed separately, over its own numbers: dim=-1."
)
def over_the_tokens(x, weight, bias, eps):
    dim = max(x.ndim - 2, 0) - x.ndim
    return _centred(x, dim) / torch.sqrt(_variance(x, dim) + eps) * weight + bias


@_wrong_layer_norm(
    "One mean and one variance are taken for the whole array. Each token has its own: dim=-1, keepdim=True."
)
def over_everything(x, weight, bias, eps):
    return (x - x.mean()) / torch.sqrt(x.var(correction=0) + eps) * weight + bias


@_wrong_layer_norm(
    "The mean is not subtracted, so this is RMSNorm, or a division by the spread alone. LayerNorm "
    "subtracts each token's mean first."
)
def not_centred(x, weight, bias, eps):
    return x / torch.sqrt(_variance(x) + eps) * weight + bias


@_wrong_layer_norm("You divide by the variance. Its root is the spread; divide by that.")
def by_variance(x, weight, bias, eps):
    return _centred(x) / (_variance(x) + eps) * weight + bias


@_wrong_layer_norm("The bias is added before the weight multiplies, so it is scaled as well. Scale first, then shift.")
def bias_scaled(x, weight, bias, eps):
    return (_centred(x) / torch.sqrt(_variance(x) + eps) + bias) * weight


@_wrong_layer_norm(
    "The variance is taken as the mean of squares minus the square of the mean. On paper that is the "
    "same; with a large mean and single precision all digits of it are lost. Subtract the mean first."
)
def difference_of_large_numbers(x, weight, bias, eps):
    variance = x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()
    return _centred(x) / torch.sqrt(variance + eps) * weight + bias


@_wrong_layer_norm("Mean and variance are detached. They depend on x, and the gradient must go through them.")
def statistics_detached(x, weight, bias, eps):
    mean, variance = x.mean(-1, keepdim=True).detach(), _variance(x).detach()
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@_wrong_layer_norm("The mean is subtracted in place, and the caller's tokens are changed. Write x - mean.")
def centered_in_place(x, weight, bias, eps):
    with torch.no_grad():
        mean = x.mean(-1, keepdim=True)
    x -= mean if not x.requires_grad else 0.0
    return solutions.layer_norm(x, weight, bias, eps)


NARROW = (
    "The squares are summed in the dtype of x. In float16 they overflow from 256 on, and the token is divided by "
    "infinity. Compute in float32 and convert the result back to the dtype of x."
)


@layer_norm.misconception(NARROW, section=FLOAT16)
def measured_narrow(x, weight, bias, eps=1e-5):
    return _centred(x) / torch.sqrt(_variance(x) + eps) * weight + bias


@layer_norm.misconception(
    "The result is float32 where x is narrower. Compute in float32, and convert back to the dtype of x: "
    "`.to(x.dtype)`.",
    section=FLOAT16,
)
def left_wide(x, weight, bias, eps=1e-5):
    wide = x if x.dtype.itemsize >= 4 else x.float()
    return _centred(wide) / torch.sqrt(_variance(wide) + eps) * weight + bias


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


@rms_norm.property(
    "sends the right gradients to x and weight, also at a token of zeros",
    points=1,
    probe=probes.gradients,
    **MIXED_GRADIENTS,
    hint="The root mean square also depends on x: detach nothing. And take one root, of the sum with eps: the root of "
    "0 has an infinite slope.",
)
def rms_gradients(rng):
    x = normal(rng, 2, 3, 4)
    yield dict(x=x, weight=normal(rng, 4), upstream=[normal(rng, 2, 3, 4)])
    x = normal(rng, 1, 3, 4)
    x[0, 1] = 0.0
    yield dict(x=x, weight=normal(rng, 4), eps=0.1, upstream=[normal(rng, 1, 3, 4)])


@rms_norm.property(
    "works in single precision, on any device",
    points=1,
    probe=probes.elsewhere,
    **SINGLE,
    hint="float32 in, float32 out. Create no tensor with a fixed dtype or on a fixed device.",
)
def rms_single(rng):
    yield dict(x=normal(rng, 2, 3, 5, dtype=torch.float32), weight=normal(rng, 5, dtype=torch.float32))


@rms_norm.property(
    "measures narrow numbers in float32",
    points=1,
    rtol=0.02,
    atol=0.02,
    hint="float16 ends at 65,504, and the square of 256 is larger. If x is narrower than float32, take "
    "`x.to(torch.float32)` first, and convert the result back with `.to(x.dtype)`.",
)
def rms_narrow_tokens(rng):
    yield dict(x=400.0 * normal(rng, 2, 3, 6).to(torch.float16), weight=normal(rng, 6, dtype=torch.float16))
    yield dict(x=normal(rng, 2, 2, 5, dtype=torch.bfloat16), weight=normal(rng, 5, dtype=torch.bfloat16))


@rms_norm.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    **MIXED,
    hint="`x /= ...` and `x.pow_(2)` write into the caller's tensor.",
)
def rms_leaves(rng):
    yield dict(x=_tokens(rng, 2, 3), weight=normal(rng, 3))


def _wrong_rms_norm(text):
    def declare(f):
        def wrong(x, weight, eps=1e-5):
            return _in_float32(f)(x, weight, eps=eps)

        wrong.__name__ = f.__name__
        rms_norm.misconception(text)(wrong)
        return f

    return declare


def _mean_square(x, dim=-1):
    return x.square().mean(dim=dim, keepdim=True)


@_wrong_rms_norm(
    "The mean is subtracted: that is LayerNorm. RMSNorm leaves the mean as it is and only divides by the size."
)
def mean_subtracted(x, weight, eps):
    return _centred(x) / torch.sqrt(_variance(x) + eps) * weight


@_wrong_rms_norm(
    "You divide by the standard deviation, which is measured from the mean. The root mean square is measured from 0."
)
def by_deviation(x, weight, eps):
    return x / torch.sqrt(_variance(x) + eps) * weight


@_wrong_rms_norm("eps is added outside the root. The definition is sqrt(mean of squares + eps).")
def rms_eps_outside(x, weight, eps):
    return x / (_mean_square(x).sqrt() + eps) * weight


@_wrong_rms_norm("eps is not used. A token of zeros is then 0/0, which is nan.")
def rms_no_eps(x, weight, eps):
    return x / _mean_square(x).sqrt() * weight


@_wrong_rms_norm("eps is fixed in the code. Use the one that is passed: Llama 2 has 1e-5, others 1e-6.")
def rms_fixed_eps(x, weight, eps):
    return x / torch.sqrt(_mean_square(x) + 1e-5) * weight


@_wrong_rms_norm(
    "The squares are summed and not averaged: you divide by the length of the vector. The root mean "
    "square is smaller by sqrt(d), so that the numbers stay near 1 whatever the width."
)
def by_length(x, weight, eps):
    return x / torch.sqrt(x.square().sum(-1, keepdim=True) + eps) * weight


@_wrong_rms_norm("The root is missing: you divide by the mean of the squares.")
def by_mean_square(x, weight, eps):
    return x / (_mean_square(x) + eps) * weight


@_wrong_rms_norm("You divide by the mean of the absolute values. Square, mean, root.")
def by_mean_absolute(x, weight, eps):
    return x / (x.abs().mean(-1, keepdim=True) + eps) * weight


@_wrong_rms_norm("One root mean square is taken for the whole array. Each token has its own: dim=-1, keepdim=True.")
def rms_over_everything(x, weight, eps):
    return x / torch.sqrt(x.square().mean() + eps) * weight


@_wrong_rms_norm("The mean runs over the tokens. Each token is normed separately, over its own numbers: dim=-1.")
def rms_over_the_tokens(x, weight, eps):
    return x / torch.sqrt(_mean_square(x, -2) + eps) * weight


@_wrong_rms_norm(
    "The weight is used as 1 + weight. Some models store it like that (Gemma does); here weight itself multiplies."
)
def one_plus_weight(x, weight, eps):
    return x / torch.sqrt(_mean_square(x) + eps) * (1 + weight)


@_wrong_rms_norm("The weight multiplies twice, or squared. Multiply by it once.")
def weight_squared(x, weight, eps):
    return x / torch.sqrt(_mean_square(x) + eps) * weight**2


@_wrong_rms_norm("The root mean square is detached. It depends on x, and the gradient must go through it.")
def rms_detached(x, weight, eps):
    return x / torch.sqrt(_mean_square(x).detach() + eps) * weight


@rms_norm.misconception(NARROW, section=FLOAT16)
def rms_measured_narrow(x, weight, eps=1e-5):
    return x / torch.sqrt(_mean_square(x) + eps) * weight


# gelu and gelu_tanh --------------------------------------------------------------------------------------------------

gelu = Exercise(solutions.gelu, section=GELU, minutes=3, difficulty=1)
gelu_tanh = Exercise(solutions.gelu_tanh, section=GELU, minutes=3, difficulty=1)


def _declare_activation(exercise, hint):
    """The same four properties for both."""

    @exercise.property("is right from far below 0 to far above, to five places", points=2, **MIXED, hint=hint)
    def along_the_line(rng):
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

    @exercise.property(
        "has the right slope",
        points=1,
        probe=probes.gradients,
        **MIXED_GRADIENTS,
        hint="Use only tensor operations; detach nothing.",
    )
    def slope(rng):
        yield dict(x=torch.linspace(-4.0, 4.0, 9, dtype=torch.float64), upstream=[torch.ones(9, dtype=torch.float64)])
        yield dict(x=normal(rng, 2, 3), upstream=[normal(rng, 2, 3)])

    @exercise.property(
        "leaves its input as it was, in single precision and on any device",
        points=1,
        probe=probes.elsewhere,
        rtol=1e-5,
        atol=1e-6,
        hint="Write nothing into x, and create no tensor with a fixed dtype or on a fixed device.",
    )
    def leaves(rng):
        yield dict(probe="unchanged", x=normal(rng, 2, 5, dtype=torch.float32))

    def declare(text):
        return exercise.misconception(text)

    @declare("That is ReLU, the hard switch: 0 below 0. GELU weighs x by the share of a standard normal below it.")
    def relu(x):
        return x.clamp(min=0.0)

    @declare("That is x * sigmoid(x), SiLU. GELU weighs x by a different curve, which rises faster.")
    def silu(x):
        return x * torch.sigmoid(x)

    @declare("That is the approximation with a sigmoid, x * sigmoid(1.702 x). It is off by up to 0.02.")
    def sigmoid_approximation(x):
        return x * torch.sigmoid(1.702 * x)

    @declare("The share is not multiplied by x. GELU is x times the share, not the share alone.")
    def share_alone(x):
        return exercise.reference(x) / x

    @declare("The factor one half is missing: the share must run from 0 to 1, and 1 + erf or 1 + tanh run from 0 to 2.")
    def not_halved(x):
        return 2.0 * exercise.reference(x)

    @declare("The 1 is missing: erf and tanh run from -1 to 1, and a share from 0 to 1.")
    def without_one(x):
        return exercise.reference(x) - 0.5 * x

    @declare(
        "The input is overwritten. Operations whose name ends in an underscore, and `x *= ...`, change the "
        "caller's tensor."
    )
    def in_place(x):
        result = exercise.reference(x)
        if not x.requires_grad:
            x.copy_(result)
        return result

    @declare("The gradient is cut. A detour through NumPy, `.data` or `.detach()` gives numbers without a gradient.")
    def detached(x):
        return exercise.reference(x).detach()


_declare_activation(gelu, "0.5 * x * (1 + erf(x / sqrt(2))): the share of a standard normal below x, times x.")
_declare_activation(
    gelu_tanh,
    "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))). The cube and its factor are inside the brackets.",
)


@gelu.misconception(
    "That is the approximation with tanh. It is off by up to 5e-4; this exercise asks for the exact one, with erf."
)
def tanh_for_exact(x):
    return solutions.gelu_tanh(x)


@gelu.misconception(
    "x goes into erf as it is. erf belongs to a normal distribution of variance 1/2: divide x by sqrt(2) first."
)
def root_of_two_missing(x):
    return 0.5 * x * (1 + torch.erf(x))


@gelu.misconception("x is multiplied by sqrt(2) inside erf. Divide: erf(x / sqrt(2)).")
def times_root_of_two(x):
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(2)))


@gelu.misconception("erf is missing: a share runs from 0 to 1, and erf keeps it there.")
def no_erf(x):
    return 0.5 * x * (1 + x / math.sqrt(2))


@gelu.misconception("x is divided by 2 inside erf, and not by sqrt(2).")
def half_for_root(x):
    return 0.5 * x * (1 + torch.erf(x / 2))


@gelu_tanh.misconception(
    "That is the exact GELU, with erf. Models that were trained with the approximation need the approximation."
)
def exact_for_tanh(x):
    return solutions.gelu(x)


@gelu_tanh.misconception(
    "The factor sqrt(2 / pi) multiplies x alone. It belongs before the brackets that contain both x and the cube."
)
def factor_on_x_alone(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * x + 0.044715 * x**3))


@gelu_tanh.misconception("The cubic term is left out. Without 0.044715 x ** 3 the curve is off by up to 0.02.")
def no_cube(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * x))


@gelu_tanh.misconception("x is squared where it should be cubed. A square makes both sides bend the same way.")
def square_for_cube(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**2)))


_OTHER_FACTOR = "The factor in front of the brackets is wrong. It should be sqrt(2 / pi), about 0.798."
for _factor in (math.sqrt(2), math.sqrt(math.pi), math.sqrt(4 / math.pi), math.sqrt(2 * math.pi), 1.0):
    gelu_tanh.misconception(_OTHER_FACTOR)(
        lambda x, factor=_factor: 0.5 * x * (1 + torch.tanh(factor * (x + 0.044715 * x**3)))
    )


@gelu_tanh.misconception("The cube goes in without its small factor: 0.044715 x ** 3.")
def large_cube(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + x**3)))


@gelu_tanh.misconception("Only the cube goes into tanh. The brackets contain x + 0.044715 x ** 3.")
def cube_alone(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * 0.044715 * x**3))


@gelu_tanh.misconception("tanh is missing: a share runs from 0 to 1, and tanh keeps it there.")
def no_tanh(x):
    return 0.5 * x * (1 + math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


@gelu_tanh.misconception("The root is missing or upside down: the factor is sqrt(2 / pi), about 0.798.")
def factor_upside_down(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(math.pi / 2) * (x + 0.044715 * x**3)))


# FeedForward ---------------------------------------------------------------------------------------------------------

FeedForward = Exercise(solutions.FeedForward, section=FEED_FORWARD, minutes=5, difficulty=1)


def _two_maps(rng, d_model, d_ff, prefix="", dtype=torch.float64):
    """Weights of a feed-forward network, so large that activations leave the middle of their curve."""
    shapes = {"W_1.weight": (d_ff, d_model), "W_1.bias": (d_ff,), "W_2.weight": (d_model, d_ff), "W_2.bias": (d_model,)}
    return {prefix + name: normal(rng, *shape, dtype=dtype) for name, shape in shapes.items()}


def _network(rng, d_model, d_ff, batch, n, weights=_two_maps, dtype=torch.float64):
    return dict(
        init=dict(d_model=d_model, d_ff=d_ff),
        weights=weights(rng, d_model, d_ff, dtype=dtype),
        x=normal(rng, batch, n, d_model, dtype=dtype),
    )


def _declare_network(exercise, weights, structure_hint, forward_hint):
    """The properties that both networks share."""

    # The stub has these parameters, so being made is not enough: a token must come out right.
    @exercise.property(
        "gets a single token right, with the parameters of the stub", points=1, **MIXED, hint=structure_hint
    )
    def structure(rng):
        yield _network(rng, 4, 7, 1, 1, weights)
        yield _network(rng, 5, 3, 1, 1, weights)

    @exercise.property("gives the right output", points=2, **MIXED, hint=forward_hint)
    def forward(rng):
        yield _network(rng, 4, 7, 1, 3, weights)
        yield _network(rng, 5, 3, 2, 4, weights)

    @exercise.property(
        "treats each token alone",
        points=1,
        probe=probes.moved,
        hint="Nothing in here may mix tokens: maps and activations work along the last axis.",
    )
    def alone(rng):
        # Small weights, so that no GELU is shut to the last bit, and so many that not all are shut if they are ReLUs:
        # what was changed shows everywhere in its token.
        case = _network(
            rng,
            4,
            16,
            2,
            3,
            lambda *sizes, **kind: {name: 0.3 * weight for name, weight in weights(*sizes, **kind).items()},
        )
        yield dict(case, name="x", replacement=_other_number(rng, case["x"], 1))

    @exercise.property(
        "sends the right gradients to x and all parameters",
        points=1,
        probe=probes.gradients,
        **MIXED_GRADIENTS,
        hint="Use only tensor operations; detach nothing.",
    )
    def gradients(rng):
        yield dict(**_network(rng, 3, 4, 1, 2, weights), upstream=[normal(rng, 1, 2, 3)])

    @exercise.property(
        "works in single precision, on any device, and leaves x as it was",
        points=1,
        probe=probes.elsewhere,
        **SINGLE,
        hint="float32 in, float32 out; write nothing into x, and create nothing on a fixed device.",
    )
    def single(rng):
        yield dict(probe="unchanged", **_network(rng, 3, 5, 2, 4, weights, torch.float32))


_declare_network(
    FeedForward,
    _two_maps,
    "Leave `__init__` as it is: W_1 is nn.Linear(d_model, d_ff), W_2 is nn.Linear(d_ff, d_model), both with bias.",
    "W_2 of the exact gelu of W_1 of x. Do not add x: the block does that.",
)


def _wrong_feed_forward(text):
    """Declares a network whose forward is `f(self, x)`."""

    def declare(f):
        wrong = type(f.__name__, (solutions.FeedForward,), {"forward": f})
        FeedForward.misconception(text)(wrong)
        return f

    return declare


@_wrong_feed_forward("GELU is the approximation with tanh here. The contract asks for the exact one.")
def tanh_inside(self, x):
    return self.W_2(solutions.gelu_tanh(self.W_1(x)))


@_wrong_feed_forward("The switch is ReLU. The original transformer had that; here, as in BERT and GPT-2, it is GELU.")
def relu_inside(self, x):
    return self.W_2(torch.relu(self.W_1(x)))


@_wrong_feed_forward("The switch is SiLU, x * sigmoid(x). Here it is GELU.")
def silu_inside(self, x):
    return self.W_2(F.silu(self.W_1(x)))


@_wrong_feed_forward("There is no activation between the two maps. Two linear maps in a row are one linear map.")
def nothing_between(self, x):
    return self.W_2(self.W_1(x))


@_wrong_feed_forward("The activation comes after W_2. It belongs between the maps, where d_ff numbers are switched.")
def switched_last(self, x):
    return solutions.gelu(self.W_2(self.W_1(x)))


@_wrong_feed_forward(
    "There is a second activation after W_2. The result of W_2 goes to the stream as it is, and may be negative."
)
def switched_twice(self, x):
    return solutions.gelu(self.W_2(solutions.gelu(self.W_1(x))))


@_wrong_feed_forward("x is added inside the network. The block adds it, so here it would be added twice.")
def residual_inside(self, x):
    return x + self.W_2(solutions.gelu(self.W_1(x)))


@_wrong_feed_forward("The activation comes before the first map. First W_1, then the activation.")
def switched_first(self, x):
    return self.W_2(self.W_1(solutions.gelu(x)))


@FeedForward.misconception(
    "W_1 and W_2 have no bias. In this network both have one (the projections of attention and SwiGLU do without)."
)
class WithoutBias(solutions.FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.W_1, self.W_2 = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)


@FeedForward.misconception("The result is detached, so nothing before it can learn.")
class NetworkDetached(solutions.FeedForward):
    def forward(self, x):
        return super().forward(x).detach()


# SwiGLU --------------------------------------------------------------------------------------------------------------

SwiGLU = Exercise(solutions.SwiGLU, section=SWIGLU, minutes=5, difficulty=1)


def _three_maps(rng, d_model, d_ff, prefix="", dtype=torch.float64):
    return {
        f"{prefix}W_gate.weight": normal(rng, d_ff, d_model, dtype=dtype),
        f"{prefix}W_up.weight": normal(rng, d_ff, d_model, dtype=dtype),
        f"{prefix}W_down.weight": normal(rng, d_model, d_ff, dtype=dtype),
    }


_declare_network(
    SwiGLU,
    _three_maps,
    "Leave `__init__` as it is: W_gate and W_up are nn.Linear(d_model, d_ff, bias=False), W_down is nn.Linear(d_ff, "
    "d_model, bias=False).",
    "W_down of silu(W_gate of x) times W_up of x, where silu(a) = a * sigmoid(a).",
)


def _wrong_swiglu(text):
    def declare(f):
        wrong = type(f.__name__, (solutions.SwiGLU,), {"forward": f})
        SwiGLU.misconception(text)(wrong)
        return f

    return declare


@_wrong_swiglu("Gate and up are swapped: SiLU goes over W_gate of x. Trained weights would then be in the wrong maps.")
def gate_and_up_swapped(self, x):
    return self.W_down(F.silu(self.W_up(x)) * self.W_gate(x))


@_wrong_swiglu("SiLU is missing: the two maps are multiplied as they are. The gate is silu(W_gate of x).")
def no_silu(self, x):
    return self.W_down(self.W_gate(x) * self.W_up(x))


@_wrong_swiglu("The gate is a sigmoid. That is GLU, the older one; in SwiGLU it is SiLU, a * sigmoid(a).")
def sigmoid_gate(self, x):
    return self.W_down(torch.sigmoid(self.W_gate(x)) * self.W_up(x))


@_wrong_swiglu("The gate is GELU. That is GEGLU; in SwiGLU it is SiLU.")
def gelu_gate(self, x):
    return self.W_down(F.gelu(self.W_gate(x)) * self.W_up(x))


@_wrong_swiglu("The gate is ReLU. That is ReGLU; in SwiGLU it is SiLU.")
def relu_gate(self, x):
    return self.W_down(torch.relu(self.W_gate(x)) * self.W_up(x))


@_wrong_swiglu("SiLU goes over the product. It goes over the gate alone, before the product.")
def silu_of_the_product(self, x):
    return self.W_down(F.silu(self.W_gate(x) * self.W_up(x)))


@_wrong_swiglu("SiLU goes over both maps. W_up of x stays as it is.")
def silu_of_both(self, x):
    return self.W_down(F.silu(self.W_gate(x)) * F.silu(self.W_up(x)))


@_wrong_swiglu("Gate and up are added. A gate multiplies: at 0 it closes.")
def added(self, x):
    return self.W_down(F.silu(self.W_gate(x)) + self.W_up(x))


@_wrong_swiglu("W_up is not used. Without it this is the plain feed-forward network with SiLU.")
def no_up(self, x):
    return self.W_down(F.silu(self.W_gate(x)))


@_wrong_swiglu("x is added inside the network. The block adds it, so here it would be added twice.")
def swiglu_residual(self, x):
    return x + self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))


@_wrong_swiglu("W_up is used for both maps. The gate is silu(W_gate of x).")
def up_twice(self, x):
    return self.W_down(F.silu(self.W_up(x)) * self.W_up(x))


@_wrong_swiglu("W_gate is used for both maps. What the gate multiplies is W_up of x.")
def gate_twice(self, x):
    return self.W_down(F.silu(self.W_gate(x)) * self.W_gate(x))


@_wrong_swiglu("The gate is left out: this is W_down of W_up of x. Multiply by silu(W_gate of x) in between.")
def no_gate(self, x):
    return self.W_down(self.W_up(x))


@_wrong_swiglu("The gate is a times tanh(a). In SwiGLU it is SiLU, a * sigmoid(a).")
def tanh_gate(self, x):
    return self.W_down(self.W_gate(x) * torch.tanh(self.W_gate(x)) * self.W_up(x))


@SwiGLU.misconception("The maps have a bias. In SwiGLU none of the three has one.")
class SwigluBias(solutions.SwiGLU):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.W_gate, self.W_up = nn.Linear(d_model, d_ff), nn.Linear(d_model, d_ff)
        self.W_down = nn.Linear(d_ff, d_model)


# Blocks --------------------------------------------------------------------------------------------------------------


def _square_maps(rng, prefix, d_model, names="qkvo", d_kv=None, dtype=torch.float64):
    """Weights of an attention layer inside of a block; keys and values d_kv wide."""
    rows = {"k": d_kv or d_model, "v": d_kv or d_model}
    return {
        f"{prefix}.W_{name}.weight": normal(rng, rows.get(name, d_model), d_model, dtype=dtype) / d_model**0.5
        for name in names
    }


def _lower(n, device=None):
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


def _norms(rng, count, d_model, bias=True, dtype=torch.float64):
    """Weights (and biases) of norm_1, norm_2, ... of a block, no two alike."""
    parts = ("weight", "bias") if bias else ("weight",)
    return {f"norm_{i}.{part}": normal(rng, d_model, dtype=dtype) for i in range(1, count + 1) for part in parts}


def _with_silent(case, *names):
    """The case with some of its parameters at 0."""
    silent = {name: torch.zeros_like(case["weights"][name]) for name in names}
    return case | {"weights": case["weights"] | silent}


class _Flicker:
    """Dropout without chance: in training two of five entries are lost, others at each of several calls."""

    calls = 0

    def drop(self, x):
        if not self.training:
            return x
        self.calls += 1
        places = torch.arange(x.numel()).reshape(x.shape)
        return x * ((places + self.calls) % 5 > 1) * (5 / 3)


# EncoderBlock --------------------------------------------------------------------------------------------------------

EncoderBlock = Exercise(solutions.EncoderBlock, section=ENCODER, minutes=8, difficulty=2)
ENCODER_SIZES = dict(d_model=6, n_heads=2, d_ff=5)


def _encoder(rng, batch, n, dtype=torch.float64, **init):
    init = ENCODER_SIZES | init
    weights = (
        _norms(rng, 2, init["d_model"], dtype=dtype)
        | _square_maps(rng, "attention", init["d_model"], dtype=dtype)
        | _two_maps(rng, init["d_model"], init["d_ff"], "feed_forward.", dtype=dtype)
    )
    return dict(init=init, weights=weights, x=normal(rng, batch, n, init["d_model"], dtype=dtype))


@EncoderBlock.property(
    "gets a single token right, with the parts of the stub",
    points=1,
    **MIXED,
    hint="Leave `__init__` as it is. Each of its four parts is used once: the two norms have different weights.",
)
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
    yield dict(**_encoder(rng, 1, 3), mask=_lower(3))
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
    yield dict(case, mask=_lower(4), name="x", replacement=_other_number(rng, case["x"], 2))


@EncoderBlock.property(
    "gives the same again, also in training mode",
    points=1,
    probe=probes.repeated,
    **MIXED,
    hint="No dropout: nothing in this block is random.",
)
def encoder_again(rng):
    yield _encoder(rng, 2, 5)


@EncoderBlock.property(
    "sends the right gradients to x and all parameters",
    points=1,
    probe=probes.gradients,
    **MIXED_GRADIENTS,
    hint="Detach nothing; write nothing in place. Pass the mask to the attention as it is: the attention handles "
    "tokens that may read nothing.",
)
def encoder_gradients(rng):
    yield dict(**_encoder(rng, 1, 3, d_model=4, d_ff=3), upstream=[normal(rng, 1, 3, 4)])
    blind = torch.tensor([[True, False, False], [False, False, False], [True, False, True]])
    yield dict(**_encoder(rng, 1, 3, d_model=4, d_ff=3), mask=blind, upstream=[normal(rng, 1, 3, 4)])


@EncoderBlock.property(
    "works in single precision, on any device, and leaves x as it was",
    points=1,
    probe=probes.elsewhere,
    rtol=1e-3,
    atol=1e-4,
    hint="`x += ...` writes into the caller's tensor. Write x = x + ...",
)
def encoder_single(rng):
    yield dict(probe="unchanged", **_encoder(rng, 1, 3, torch.float32))


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
NOT_NORMED = "A part reads the stream as it is. Each part reads a normed copy: its own norm first."
NORM_OF_PART = (
    "A part's result is normed before it is added. The norm comes before the part, on a copy of the stream, not after "
    "it."
)


def _encoder_mistake(text, section=ORDER):
    """Declares a block whose forward is `f(self, x, attend)`, with attend(x) what attention makes of x."""

    def declare(f):
        def forward(self, x, mask=None):
            return f(self, x, lambda y: self.attention(y, mask)[0])

        wrong = type(f.__name__, (_Flicker, solutions.EncoderBlock), {"forward": forward})
        EncoderBlock.misconception(text, section=section)(wrong)
        return f

    return declare


@_encoder_mistake(POST_NORM)
def encoder_post_norm(self, x, attend):
    x = self.norm_1(x + attend(x))
    return self.norm_2(x + self.feed_forward(x))


@_encoder_mistake(FROM_NORMED, STREAM)
def encoder_from_normed(self, x, attend):
    x = self.norm_1(x)
    x = self.norm_2(x + attend(x))
    return x + self.feed_forward(x)


@_encoder_mistake(NO_FIRST_RESIDUAL, STREAM)
def encoder_first_forgotten(self, x, attend):
    x = attend(self.norm_1(x))
    return x + self.feed_forward(self.norm_2(x))


@_encoder_mistake(NO_SECOND_RESIDUAL, STREAM)
def encoder_second_forgotten(self, x, attend):
    x = x + attend(self.norm_1(x))
    return self.feed_forward(self.norm_2(x))


@_encoder_mistake("Neither part's result is added to the stream: each replaces it. Write x = x + ... twice.", STREAM)
def encoder_no_residual(self, x, attend):
    return self.feed_forward(self.norm_2(attend(self.norm_1(x))))


@_encoder_mistake(SHARED_NORM, ENCODER)
def encoder_shared_norm(self, x, attend):
    x = x + attend(self.norm_1(x))
    return x + self.feed_forward(self.norm_1(x))


@_encoder_mistake(SWAPPED_NORMS, ENCODER)
def encoder_norms_swapped(self, x, attend):
    x = x + attend(self.norm_2(x))
    return x + self.feed_forward(self.norm_1(x))


@_encoder_mistake(PARALLEL, ENCODER)
def encoder_parallel(self, x, attend):
    return x + attend(self.norm_1(x)) + self.feed_forward(self.norm_2(x))


@_encoder_mistake(NOT_NORMED)
def encoder_second_not_normed(self, x, attend):
    x = x + attend(self.norm_1(x))
    return x + self.feed_forward(x)


@_encoder_mistake(NOT_NORMED)
def encoder_first_not_normed(self, x, attend):
    x = x + attend(x)
    return x + self.feed_forward(self.norm_2(x))


@_encoder_mistake(NORM_OF_PART)
def encoder_norm_of_part(self, x, attend):
    x = x + self.norm_1(attend(x))
    return x + self.norm_2(self.feed_forward(x))


@_encoder_mistake(OLD_STREAM, STREAM)
def encoder_old_stream(self, x, attend):
    y = x + attend(self.norm_1(x))
    return x + self.feed_forward(self.norm_2(y))


@_encoder_mistake(
    "There is a third norm at the end, on the stream. In a pre-norm model one follows the last block; it "
    "is not part of the block."
)
def encoder_final_norm(self, x, attend):
    x = x + attend(self.norm_1(x))
    return self.norm_2(x + self.feed_forward(self.norm_2(x)))


@_encoder_mistake(DROPOUT, ENCODER)
def encoder_dropout(self, x, attend):
    x = x + self.drop(attend(self.norm_1(x)))
    return x + self.drop(self.feed_forward(self.norm_2(x)))


@EncoderBlock.misconception(
    "The mask is not passed on, so padding and the future are read. Call attention(norm_1(x), mask)."
)
class MaskNotPassedOn(solutions.EncoderBlock):
    def forward(self, x, mask=None):
        return super().forward(x)


@EncoderBlock.misconception(
    "The stream is added to in place, `x += ...`, so the caller's tokens change. Write x = x + ...", section=STREAM
)
class AddedInPlace(solutions.EncoderBlock):
    def forward(self, x, mask=None):
        with torch.no_grad():
            first = super().forward(x, mask) if x.requires_grad else None
        if first is not None:
            return super().forward(x, mask)
        x += self.attention(self.norm_1(x), mask)[0]
        return x + self.feed_forward(self.norm_2(x))


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
    return dict(
        init=init,
        weights=weights,
        x=normal(rng, batch, n, width, dtype=dtype),
        memory=3.0 * normal(rng, batch, n_memory, width, dtype=dtype) + 1.0,
    )


@DecoderBlock.property(
    "gets a single token right, with the parts of the stub",
    points=1,
    **MIXED,
    hint="Leave `__init__` as it is. Each of its six parts is used once: the three norms have different weights.",
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
    yield dict(
        **_decoder(rng, 2, 3, 4, d_model=4, d_ff=3),
        memory_mask=torch.tensor([[True, True, False, False], [True, True, True, True]]),
    )
    yield dict(
        **_decoder(rng, 2, 3, 3, d_model=4, d_ff=3),
        memory_mask=torch.tensor([[True, False, True], [False, False, False]]),
    )


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


@DecoderBlock.property(
    "gives the same again, also in training mode",
    points=1,
    probe=probes.repeated,
    **MIXED,
    hint="No dropout: nothing in this block is random.",
)
def decoder_again(rng):
    yield _decoder(rng, 2, 5, 3)


@DecoderBlock.property(
    "sends the right gradients to x, memory and all parameters",
    points=1,
    probe=probes.gradients,
    **MIXED_GRADIENTS,
    hint="Detach nothing, not even the memory: the encoder learns through it.",
)
def decoder_gradients(rng):
    yield dict(**_decoder(rng, 1, 3, 2, d_model=4, d_ff=3), upstream=[normal(rng, 1, 3, 4)])
    half = torch.tensor([[False, False], [True, False]])
    yield dict(**_decoder(rng, 2, 3, 2, d_model=4, d_ff=3), memory_mask=half, upstream=[normal(rng, 2, 3, 4)])


@DecoderBlock.property(
    "works in single precision, on any device, and leaves its inputs as they were",
    points=1,
    probe=probes.elsewhere,
    rtol=1e-3,
    atol=1e-4,
    hint="Write x = x + ..., not x += ...; make the mask boolean, with `device=x.device`.",
)
def decoder_single(rng):
    yield dict(probe="unchanged", **_decoder(rng, 1, 3, 2, torch.float32, d_model=4, d_ff=3))


def _decoder_mistake(text, section=DECODER):
    """Declares a block whose forward is `f(self, x, memory, attend, read)`: attend(x) is causal self-attention, and
    read(x, memory) cross-attention with the memory's mask."""

    def declare(f):
        def forward(self, x, memory, memory_mask=None):
            return f(
                self,
                x,
                memory,
                lambda y: self.self_attention(y, _lower(y.shape[1], y.device))[0],
                lambda y, m: self.cross_attention(y, m, memory_mask)[0],
            )

        wrong = type(f.__name__, (_Flicker, solutions.DecoderBlock), {"forward": forward})
        DecoderBlock.misconception(text, section=section)(wrong)
        return f

    return declare


def _decoder_parts(text, section=DECODER, **parts):
    """Declares a block that is right except for the parts given: masks(n) for the self-attention, or what is read."""

    def forward(self, x, memory, memory_mask=None):
        mask = parts.get("hide", lambda causal: causal)(_lower(x.shape[1], x.device))
        x = x + self.self_attention(self.norm_1(x), mask)[0]
        seen = parts.get("seen", lambda mask: mask)(memory_mask)
        asked, source = parts.get("roles", lambda y, m: (y, m))(self.norm_2(x), memory)
        x = x + self.cross_attention(asked, source, seen)[0]
        return x + self.feed_forward(self.norm_3(x))

    DecoderBlock.misconception(text, section=section)(
        type("Decoder" + "".join(parts).title(), (solutions.DecoderBlock,), {"forward": forward})
    )


_decoder_parts(
    "The self-attention has no causal mask: a token sees the later ones that the decoder should predict. The "
    "block makes this mask itself.",
    hide=lambda causal: None,
)
_decoder_parts(
    "The causal mask hides the token itself as well. The diagonal must be True.",
    hide=lambda causal: causal.tril(-1),
)
_decoder_parts(
    "The mask of the self-attention is the wrong way round: each token sees itself and what comes later. "
    "True means that it may be seen.",
    hide=lambda causal: causal.T,
)
_decoder_parts(
    "The causal mask is on the CPU, wherever x is, so the two cannot be combined. Create it with `device=x.device`.",
    hide=lambda causal: _lower(len(causal)),
)
_decoder_parts(
    "memory_mask is not used, so the padding of the memory is read. Pass it to the cross-attention.",
    seen=lambda mask: None,
)
_decoder_parts(
    "Query and source of the cross-attention are swapped. Queries come from the stream, keys and values from "
    "the memory: cross_attention(norm_2(x), memory).",
    roles=lambda y, m: (m, y),
)
_decoder_parts(
    "The cross-attention reads the decoder's own stream. Its keys and values come from the memory.",
    roles=lambda y, m: (y, y),
    seen=lambda mask: None,
)


@DecoderBlock.misconception(
    "memory_mask is given to the self-attention. It says which tokens of the memory are real, "
    "so it belongs to the cross-attention alone."
)
class MemoryMaskInSelfAttention(solutions.DecoderBlock):
    def forward(self, x, memory, memory_mask=None):
        mask = _lower(x.shape[1], x.device)
        x = x + self.self_attention(self.norm_1(x), mask if memory_mask is None else mask & memory_mask[:, None])[0]
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)[0]
        return x + self.feed_forward(self.norm_3(x))


@_decoder_mistake(
    "The memory is normed as well, by the decoder's norm. The encoder has normed it already; only the stream "
    "is normed here."
)
def memory_normed(self, x, memory, attend, read):
    x = x + attend(self.norm_1(x))
    x = x + read(self.norm_2(x), self.norm_2(memory))
    return x + self.feed_forward(self.norm_3(x))


@_decoder_mistake("The memory is read before the self-attention. First the token reads its own text, then the memory.")
def memory_first(self, x, memory, attend, read):
    x = x + read(self.norm_2(x), memory)
    x = x + attend(self.norm_1(x))
    return x + self.feed_forward(self.norm_3(x))


@_decoder_mistake(POST_NORM, ORDER)
def decoder_post_norm(self, x, memory, attend, read):
    x = self.norm_1(x + attend(x))
    x = self.norm_2(x + read(x, memory))
    return self.norm_3(x + self.feed_forward(x))


@_decoder_mistake(FROM_NORMED, STREAM)
def decoder_from_normed(self, x, memory, attend, read):
    x = self.norm_1(x)
    x = self.norm_2(x + attend(x))
    x = self.norm_3(x + read(x, memory))
    return x + self.feed_forward(x)


@_decoder_mistake("The output of the cross-attention replaces the stream. Add it, or the token itself is lost.", STREAM)
def cross_replaces(self, x, memory, attend, read):
    x = x + attend(self.norm_1(x))
    x = read(self.norm_2(x), memory)
    return x + self.feed_forward(self.norm_3(x))


@_decoder_mistake(NO_FIRST_RESIDUAL, STREAM)
def self_replaces(self, x, memory, attend, read):
    x = attend(self.norm_1(x))
    x = x + read(self.norm_2(x), memory)
    return x + self.feed_forward(self.norm_3(x))


@_decoder_mistake("One norm serves several parts. There are three, each with its own weights.")
def decoder_shared_norm(self, x, memory, attend, read):
    x = x + attend(self.norm_1(x))
    x = x + read(self.norm_1(x), memory)
    return x + self.feed_forward(self.norm_1(x))


@_decoder_mistake(DROPOUT)
def decoder_dropout(self, x, memory, attend, read):
    x = x + self.drop(attend(self.norm_1(x)))
    x = x + self.drop(read(self.norm_2(x), memory))
    return x + self.drop(self.feed_forward(self.norm_3(x)))


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


@LlamaBlock.property(
    "gets a single token right, with the parts of the stub",
    points=1,
    **ROTATED,
    hint="Leave `__init__` as it is. Each of its four parts is used once: the two norms have different weights.",
)
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


@LlamaBlock.property(
    "gives the same again, also in training mode",
    points=1,
    probe=probes.repeated,
    **ROTATED,
    hint="No dropout: nothing in this block is random.",
)
def llama_again(rng):
    yield _llama(rng, 2, 5)


@LlamaBlock.property(
    "sends the right gradients to x and all parameters",
    points=1,
    probe=probes.gradients,
    rtol=1e-4,
    atol=1e-5,
    hint="Detach nothing; write nothing in place.",
)
def llama_gradients(rng):
    yield dict(**_llama(rng, 1, 3, d_model=4, d_ff=3), upstream=[normal(rng, 1, 3, 4)])


@LlamaBlock.property(
    "works in single precision, on any device, and leaves x as it was",
    points=1,
    probe=probes.elsewhere,
    rtol=1e-3,
    atol=1e-4,
    hint="Write x = x + ..., not x += ...",
)
def llama_single(rng):
    yield dict(probe="unchanged", **_llama(rng, 1, 3, torch.float32))


def _llama_mistake(text, section=ORDER):
    """Declares a block whose forward is `f(self, x, attend)`, with attend(x) what attention makes of x."""

    def declare(f):
        def forward(self, x, cache=None):
            return f(self, x, lambda y: self.attention(y, cache))

        wrong = type(f.__name__, (_Flicker, solutions.LlamaBlock), {"forward": forward})
        LlamaBlock.misconception(text, section=section)(wrong)
        return f

    return declare


@_llama_mistake(POST_NORM)
def llama_post_norm(self, x, attend):
    x = self.norm_1(x + attend(x))
    return self.norm_2(x + self.feed_forward(x))


@_llama_mistake(FROM_NORMED, STREAM)
def llama_from_normed(self, x, attend):
    x = self.norm_1(x)
    x = self.norm_2(x + attend(x))
    return x + self.feed_forward(x)


@_llama_mistake(NO_FIRST_RESIDUAL, STREAM)
def llama_first_forgotten(self, x, attend):
    x = attend(self.norm_1(x))
    return x + self.feed_forward(self.norm_2(x))


@_llama_mistake(NO_SECOND_RESIDUAL, STREAM)
def llama_second_forgotten(self, x, attend):
    x = x + attend(self.norm_1(x))
    return self.feed_forward(self.norm_2(x))


@_llama_mistake(SHARED_NORM, LLAMA)
def llama_shared_norm(self, x, attend):
    x = x + attend(self.norm_1(x))
    return x + self.feed_forward(self.norm_1(x))


@_llama_mistake(SWAPPED_NORMS, LLAMA)
def llama_norms_swapped(self, x, attend):
    x = x + attend(self.norm_2(x))
    return x + self.feed_forward(self.norm_1(x))


@_llama_mistake(NOT_NORMED)
def llama_second_not_normed(self, x, attend):
    x = x + attend(self.norm_1(x))
    return x + self.feed_forward(x)


@_llama_mistake(NORM_OF_PART)
def llama_norm_of_part(self, x, attend):
    x = x + self.norm_1(attend(x))
    return x + self.norm_2(self.feed_forward(x))


@_llama_mistake(OLD_STREAM, STREAM)
def llama_old_stream(self, x, attend):
    y = x + attend(self.norm_1(x))
    return x + self.feed_forward(self.norm_2(y))


@_llama_mistake(PARALLEL, LLAMA)
def llama_parallel(self, x, attend):
    return x + attend(self.norm_1(x)) + self.feed_forward(self.norm_2(x))


@_llama_mistake(
    "There is a third norm at the end, on the stream. In a Llama model one follows the last block; it is not "
    "part of the block."
)
def llama_final_norm(self, x, attend):
    x = x + attend(self.norm_1(x))
    return self.norm_2(x + self.feed_forward(self.norm_2(x)))


@_llama_mistake(DROPOUT, LLAMA)
def llama_dropout(self, x, attend):
    x = x + self.drop(attend(self.norm_1(x)))
    return x + self.drop(self.feed_forward(self.norm_2(x)))


CACHE_UNUSED = (
    "Each chunk is read as if nothing came before it. Either the cache is not passed on, or it is emptied, "
    "or an empty one is taken for none: its length is 0, and `if cache:` tests the length. Write "
    "attention(norm_1(x), cache)."
)


@LlamaBlock.misconception(CACHE_UNUSED)
class CacheNotPassedOn(solutions.LlamaBlock):
    def forward(self, x, cache=None):
        return super().forward(x)


@LlamaBlock.misconception(CACHE_UNUSED)
class EmptyCacheDropped(solutions.LlamaBlock):
    def forward(self, x, cache=None):
        return super().forward(x, cache if cache else None)


@LlamaBlock.misconception(
    "base is not passed to the attention, so RoPE uses 10000 whatever the model was trained with."
)
class BaseNotPassedOn(solutions.LlamaBlock):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__(d_model, n_heads, n_kv_heads, d_ff, eps=eps)


@LlamaBlock.misconception("eps is not passed to the norms. Models differ in it: RMSNorm(d_model, eps).")
class EpsNotPassedOn(solutions.LlamaBlock):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__(d_model, n_heads, n_kv_heads, d_ff, base=base)


@LlamaBlock.misconception(
    "The norms subtract the mean. Llama's norm is RMSNorm, which only divides by the size.", section=RMS_NORM
)
class LayerNormInside(solutions.LlamaBlock):
    def __init__(self, d_model, n_heads, n_kv_heads, d_ff, base=10000.0, eps=1e-5):
        super().__init__(d_model, n_heads, n_kv_heads, d_ff, base, eps)
        self.norm_1, self.norm_2 = (nn.LayerNorm(d_model, eps, bias=False) for _ in range(2))


# One part of a block -------------------------------------------------------------------------------------------------


def _slips(exercise, block, section, parts, told):
    """Declares what goes wrong with one part of a block alone.

    parts: the name of each part, and what it makes of a normed stream and the block's other inputs
    told: (number of the part, what goes wrong with it) for what has a sentence of its own above
    """

    def declare(number, slip, text, add=torch.add, norm=None):
        def forward(self, x, **given):
            for here, (_, part) in enumerate(parts, start=1):
                own = norm(self) if norm and here == number else getattr(self, f"norm_{here}")
                x = (add if here == number else torch.add)(x, part(self, own(x), **given))
            return x

        if (number, slip) not in told:
            exercise.misconception(text, section=section)(type("Slip", (block,), {"forward": forward}))

    for number, (name, _) in enumerate(parts, start=1):
        declare(
            number,
            "lost",
            f"The {name} adds nothing to the stream. Add its output, x = x + ..., and see that it is not all zeros.",
            lambda x, said: x,
        )
        for slip, add in (
            ("subtracted from the stream", torch.sub),
            ("multiplied by the stream", torch.mul),
            ("written over the stream", lambda x, said: said),
        ):
            declare(number, slip, f"The output of the {name} is {slip}. Add it: x = x + ...", add)
        declare(
            number,
            "no norm",
            f"The {name} reads the stream as it is. It should read norm_{number} of it.",
            norm=lambda self: nn.Identity(),
        )
        for other in range(1, len(parts) + 1):
            if other != number:
                declare(
                    number,
                    f"norm_{other}",
                    f"The {name} reads norm_{other} of the stream. Its own norm is norm_{number}.",
                    norm=lambda self, other=other: getattr(self, f"norm_{other}"),
                )


# Each of the first two parts has its own sentence on this, above.
REPLACED = {(1, "written over the stream"), (2, "written over the stream")}
_NETWORK = ("network", lambda self, y, **given: self.feed_forward(y))
_slips(
    EncoderBlock,
    solutions.EncoderBlock,
    ENCODER,
    [("attention", lambda self, y, mask=None: self.attention(y, mask)[0]), _NETWORK],
    told={
        (1, "written over the stream"),
        (2, "written over the stream"),
        (1, "no norm"),
        (2, "no norm"),
        (2, "norm_1"),
    },
)
_slips(
    DecoderBlock,
    solutions.DecoderBlock,
    DECODER,
    [
        ("self-attention", lambda self, y, **given: self.self_attention(y, _lower(y.shape[1], y.device))[0]),
        (
            "cross-attention",
            lambda self, y, memory, memory_mask=None: self.cross_attention(y, memory, memory_mask)[0],
        ),
        _NETWORK,
    ],
    told=REPLACED,
)
_slips(
    LlamaBlock,
    solutions.LlamaBlock,
    LLAMA,
    [("attention", lambda self, y, cache=None: self.attention(y, cache)), _NETWORK],
    told=REPLACED | {(2, "no norm"), (2, "norm_1")},
)


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
