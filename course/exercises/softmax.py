"""Exercises of the softmax chapter: what must hold, on which inputs, and the usual mistakes."""

import numpy as np

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import both_signs
from solutions import softmax as solutions

# Tight enough to see an epsilon of 1e-10 in a denominator, wide enough for any order of the same operations.
EXACT = 1e-11
# Wide enough to let an epsilon pass, so that it costs its own property of softmax and not all of them.
NEARLY = 1e-4

ROWS_AND_AXES = "Rows and axes"
SHARES = "Exponentials, then shares"
WHY_MAXIMUM = "Why subtract the maximum"

# softmax ---------------------------------------------------------------------------------------------------------

softmax = Exercise(solutions.softmax, section=WHY_MAXIMUM, minutes=10, difficulty=2)


@softmax.property(
    "turns one row of scores into weights",
    points=1,
    rtol=NEARLY,
    hint="Exponentiate every score, then divide by the sum of these exponentials and by nothing else.",
)
def one_row(rng):
    yield dict(x=np.array([3.0, 1.0]))
    yield dict(x=both_signs(rng, 5))


@softmax.property(
    "normalizes along any axis",
    points=2,
    rtol=NEARLY,
    hint="Take the maximum and the sum along `axis`, with keepdims=True, so that each row keeps its own.",
)
def any_axis(rng):
    yield dict(x=rng.normal(size=(3, 5)))
    yield dict(x=rng.normal(size=(3, 5)), axis=0)
    yield dict(x=rng.normal(size=(2, 3, 4)), axis=1)
    yield dict(x=rng.normal(size=(2, 3, 4)), axis=-3)
    yield dict(x=rng.uniform(-2.5, -1.5, size=(3, 3)))  # low enough for 1e-4 in the denominator to show


@softmax.property(
    "survives scores of a thousand",
    points=2,
    rtol=NEARLY,
    hint="Subtract from each row its own largest score before you exponentiate.",
)
def large(rng):
    yield dict(x=np.array([[1000.0, 999.0], [-1000.0, -1001.0]]))
    yield dict(x=np.array([2000.0, 1000.0, -1000.0]))
    yield dict(x=np.array([-1000.0, -1002.0]) + rng.normal(size=2))
    yield dict(x=np.array([[1000.0, 1001.0, 998.0], [5.0, 3.0, 4.0]]) + rng.normal(size=(2, 3)))


@softmax.property(
    "gives shares of exactly one, with nothing lost",
    points=1,
    rtol=2e-13,
    atol=0.0,
    hint="Divide by the sum itself. After the maximum is subtracted it needs no safety term.",
)
def exact_shares(rng):
    yield dict(x=rng.normal(size=4))
    yield dict(x=rng.normal(size=(2, 3)))


@softmax.property(
    "accepts whole numbers",
    points=1,
    rtol=NEARLY,
    hint="If only this fails: an array of whole numbers cannot hold fractions. Convert it to floats first.",
)
def whole_numbers(rng):
    yield dict(x=np.array([[1, 1, 2], [0, 2, 1]]))
    yield dict(x=rng.integers(-9, 9, size=4))


NOT_IN_PLACE = "If only this fails: `x -= ...` writes into the caller's array; `x = x - ...` makes a new one."
UNCHANGED = dict(title="leaves its input as it was", hint=NOT_IN_PLACE, rtol=NEARLY)
softmax.unchanged(lambda rng: dict(x=both_signs(rng, 2, 3)), **UNCHANGED)

START = "scores = np.asarray(x, dtype=float)"
TOP = "scores.max(axis=axis, keepdims=True, initial=-np.inf)"
TOTAL = "powers.sum(axis=axis, keepdims=True)"
GLOBAL_TOP = {TOP: "scores.max()"}
NO_TOP = {"scores - top": "scores"}
IN_PLACE = "x -= x.max(axis=axis, keepdims=True)"
EPSILON = (
    "A small number is added to the denominator. After the maximum is subtracted, the sum is at least 1, so there is "
    "no division by zero to prevent, and with the extra term the weights no longer sum to one."
)
EPSILONS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
DEFAULT_AXIS = (
    "The default of `axis` is no longer -1. Called without `axis`, softmax works along the last axis: keep the first "
    "line of the exercise as it was."
)

softmax.mistakes(
    edit("scores - top", "scores",
         "No maximum is subtracted. Large scores then overflow and give inf/inf, very negative ones round to 0 and "
         "give 0/0; both are nan."),
    edit(TOP, "scores.max()",
         "One maximum is subtracted for the whole array. Each row needs its own, or rows far below the largest score "
         "become 0/0."),
    edit(TOTAL, "powers.sum()",
         "The weights sum to one over the whole array. Only the scores along `axis` compete with each other, so "
         "every row must sum to one.", see=ROWS_AND_AXES, also=GLOBAL_TOP),
    edit(TOTAL, "powers.sum()",
         "Each row has its own maximum, but the total is taken over the whole array. Sum along `axis` as well.",
         see=ROWS_AND_AXES),
    edit(START, f"axis = -1\n    {START}",
         "`axis` is ignored: the weights sum to one along the last axis, whichever was asked for.",
         see=ROWS_AND_AXES),
    edit(START, f"axis = 0\n    {START}",
         "The weights sum to one down the columns, along the first axis. Pass `axis` on to the maximum and to the "
         "sum; its default, -1, means the last axis.", see=ROWS_AND_AXES),
    edit(TOTAL, "powers.sum()",
         "This is the formula for a single row, without a maximum: the sum runs over the whole array, and scores of "
         "a thousand overflow to nan. Each row needs its own maximum and its own sum.", also=NO_TOP),
    edit(START, f"axis = -1\n    {START}",
         "`axis` is ignored, and no maximum is subtracted. The work is always done along the last axis, and scores "
         "of a thousand overflow to nan.", also=NO_TOP),
    edit(START, f"axis = tuple(range(1, x.ndim))\n    {START}",
         "The loop treats each entry along the first axis as one row. That is right only for a table with axis=-1: a "
         "single row becomes all ones, and `axis` is ignored.", see=ROWS_AND_AXES),
    edit("sum(axis=axis", "sum(axis=-1",
         "`axis` is used for the maximum but not for the sum, which runs along the last axis. Both need it.",
         see=ROWS_AND_AXES),
    edit(TOTAL, "powers.sum(axis=axis)",
         "keepdims=True is missing from the sum. The totals lose an axis, so NumPy either refuses to divide or, on a "
         "square array, divides each column by the total of a row.", see=ROWS_AND_AXES),
    edit(TOP, "scores.max(axis=axis)",
         "keepdims=True is missing from the maximum. The maxima lose an axis, so NumPy either refuses to subtract "
         "or, on a square array, subtracts the maximum of a different row.", see=ROWS_AND_AXES),
    edit(TOP, "scores.max(axis=axis)",
         "keepdims=True is missing from the maximum and from the sum. Both lose an axis and no longer line up with "
         "their rows.", see=ROWS_AND_AXES, also={TOTAL: "powers.sum(axis=axis)"}),
    edit(START, f"{START}\n    scores, axis = np.moveaxis(scores, axis, -1), -1",
         "The axis was moved to the end for the computation but not moved back. The result needs the shape of the "
         "input.", see=ROWS_AND_AXES),
    edit(TOTAL, f"({TOTAL} + {{}})", EPSILON, each=(1e-3, 1e-4, *EPSILONS, 1e-11, 1e-12)),
    edit(TOTAL, f"({TOTAL} + {{}})",
         "A small number in the denominator is used instead of subtracting the maximum. It turns 0/0 into weights "
         "that are all 0, leaves inf/inf as nan, and makes every other row sum to less than one.",
         also=NO_TOP, each=(1e-4, *EPSILONS, 1e-12, 1e-16)),
    edit("axis: int = -1", "axis: int = {}", DEFAULT_AXIS, see=ROWS_AND_AXES, each=(0, 1)),
    edit(TOTAL, "sum(powers)",
         "The sum runs down the columns, as Python's own `sum` does on an array, and no maximum is subtracted. Use "
         "`.sum(axis=axis, keepdims=True)`, and subtract each row's maximum first.", see=ROWS_AND_AXES, also=NO_TOP),
    edit(TOTAL, "powers.sum(axis=axis)",
         "keepdims=True is missing from the sum, and no maximum is subtracted. The totals no longer line up with "
         "their rows, and scores of a thousand overflow to nan.", see=ROWS_AND_AXES, also=NO_TOP),
    edit("powers = np.exp(scores - top)", "np.exp(x, out=x)",
         "No maximum is subtracted, so a large score overflows to nan; and everything is written into the input, "
         "which belongs to the caller.",
         also={f"return powers / {TOTAL}": "x /= x.sum(axis=axis, keepdims=True)\n    return x"}),
    edit("powers = np.exp(scores - top)", f"{IN_PLACE}\n    powers = np.exp(x)",
         "The input is changed in place. `x -= ...` writes into the caller's array; `x = x - ...` makes a new one."),
    edit("powers = np.exp(scores - top)", f"{IN_PLACE}\n    np.exp(x, out=x)",
         "Everything is written into the input: the caller's scores are overwritten, and an array of whole numbers "
         "cannot hold the weights. Work on a new array of floats.",
         also={f"return powers / {TOTAL}": "x /= x.sum(axis=axis, keepdims=True)\n    return x"}),
    edit("powers = np.exp(scores - top)",
         "powers = np.exp(scores)\n    powers = powers - powers.max(axis=axis, keepdims=True)",
         "The maximum is subtracted after the exponential. Subtract it from the scores before: only there does it "
         "cancel, and only there does it prevent the overflow."),
    edit("powers.sum", "powers.max",
         "The largest weight is always 1: the exponentials are divided by the largest of them, or not divided at all "
         "after the maximum was subtracted. Divide by their sum.", see=SHARES),
    edit(f"powers / {TOTAL}", "np.exp(scores)",
         "The exponentials are not divided by their sum, so they are positive but not yet shares.", see=SHARES),
    edit(TOP, "scores.min(axis=axis, keepdims=True)",
         "The minimum is subtracted. The shift cancels, but it leaves the largest exponent as large as the whole "
         "range of the scores, and that overflows. Subtract the maximum."),
    edit(TOP, "scores.mean(axis=axis, keepdims=True)",
         "The mean is subtracted. The shift cancels, but half of the exponents stay positive, and far from the mean "
         "they overflow. Subtract the maximum."),
    edit("scores.max", "np.abs(scores).max",
         "The largest absolute value is subtracted. In a row of very negative scores that pushes every exponent "
         "further down, to 0/0. Subtract the largest score, sign included."),
    edit("np.asarray(x", "np.abs(x",
         "The sign of the scores is dropped, so a very negative score counts as a very good one.", see=SHARES),
    edit("scores - top", "scores.min(axis=axis, keepdims=True) - scores",
         "The order is reversed: the smallest score gets the largest weight. The exponent is score minus maximum, "
         "not maximum minus score."),
    edit("np.exp(", "np.exp2(", "The base is 2. Softmax uses the natural exponential, `np.exp`.", see=SHARES),
    edit("np.exp(scores - top)", "scores",
         "The scores are divided by their own sum, without an exponential. Negative scores then give negative "
         "weights, and scores that sum to zero give inf.", see=SHARES),
    edit("scores - top", "np.clip(scores, -500, 500)",
         "The scores are clipped so that they do not overflow. Two scores beyond the limit then count as equal. "
         "Subtracting the maximum loses nothing."),
    edit("scores - top", "np.minimum(scores, 700)",
         "Only scores above a limit are clipped. They then count as equal, and very negative ones still round to 0 "
         "and give 0/0. Subtracting the maximum loses nothing."),
    edit("scores - top", "scores - top if scores.max() > 100 else scores",
         "The maximum is subtracted only where scores are large. Very negative ones round to 0, and a row of them "
         "becomes 0/0. Always subtract it."),
    edit(f"powers / {TOTAL}", f"np.nan_to_num(powers / {TOTAL})",
         "The nan from an overflow is replaced with zeros. The weights then no longer sum to one. Prevent the "
         "overflow: subtract the maximum.", also=NO_TOP),
    edit(f"powers / {TOTAL}", f"(powers / {TOTAL}).astype(x.dtype)",
         "The result is stored in an array of the input's type. An array of whole numbers turns every weight below 1 "
         "into 0. Make the result an array of floats."),
)  # fmt: skip


def _with_epsilon(size):
    def softmax_with_epsilon(x, axis=-1):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / (e.sum(axis=axis, keepdims=True) + size)

    return softmax_with_epsilon


# log_softmax -----------------------------------------------------------------------------------------------------

log_softmax = Exercise(solutions.log_softmax, section="Logarithms of weights", minutes=7, difficulty=2)


@log_softmax.property(
    "is the logarithm of the weights",
    points=1,
    rtol=EXACT,
    hint="The log weight is the score minus the log of the summed exponentials.",
)
def log_rows(rng):
    yield dict(x=np.array([3.0, 1.0]))
    yield dict(x=rng.normal(size=(3, 5)))
    yield dict(x=rng.permutation([-9, 8, *rng.integers(-3, 6, size=2)]))  # one of them far below the others


@log_softmax.property(
    "works along any axis", points=1, rtol=EXACT, hint="Take the maximum and the sum along `axis`, with keepdims=True."
)
def log_any_axis(rng):
    yield dict(x=rng.normal(size=(3, 5)), axis=0)
    yield dict(x=rng.normal(size=(2, 3, 4)), axis=-2)
    yield dict(x=rng.normal(size=(3, 3)) + np.array([6.0, 0.0, 0.0]))  # some weights are small


@log_softmax.property(
    "is accurate at scores of plus and minus a thousand",
    points=2,
    rtol=EXACT,
    hint="Never take the logarithm of a weight that has already rounded to zero.",
)
def log_large(rng):
    yield dict(x=np.array([[1000.0, 999.0, -1000.0], [-1000.0, -1001.0, -3000.0]]))
    yield dict(x=np.array([1000.0, 0.0]) + rng.normal(size=2))
    yield dict(x=np.array([-1000.0, -1002.0]) + rng.normal(size=2))


@log_softmax.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    rtol=NEARLY,
    hint="If only this fails: `x -= ...` writes into the caller's array; `x = x - ...` makes a new one.",
)
def log_pure(rng):
    yield dict(x=rng.uniform(-0.7, 0.7, size=(2, 3)))  # no weight is small: that belongs to the other properties


@log_softmax.misconception(
    "This is the logarithm of the finished weights. Where a weight has rounded to 0, its "
    "logarithm is -inf and the score is lost. Simplify the logarithm on paper first."
)
def log_of_softmax(x, axis=-1):
    return np.log(solutions.softmax(x, axis=axis))


_FLOOR = (
    "A small number is added, or used as a lower limit, to avoid the logarithm of 0. No log weight can then be "
    "below the logarithm of that number, so all lower scores look alike."
)


def _with_added(size):
    def log_of_weight_and_more(x, axis=-1):
        return np.log(solutions.softmax(x, axis=axis) + size)

    return log_of_weight_and_more


def _with_clip(size):
    def log_of_clipped_weight(x, axis=-1):
        return np.log(np.clip(solutions.softmax(x, axis=axis), size, 1.0))

    return log_of_clipped_weight


for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15, 1e-16, 1e-20, 1e-30, 1e-300):
    log_softmax.misconception(_FLOOR)(_with_added(_size))
    log_softmax.misconception(_FLOOR)(_with_clip(_size))


@log_softmax.misconception(
    "Only the maximum is subtracted. Subtract the logarithm of the sum as well, or the weights do not sum to one."
)
def log_without_the_sum(x, axis=-1):
    return x - x.max(axis=axis, keepdims=True)


@log_softmax.misconception(
    "The exponentials are summed without subtracting the maximum first. They overflow to inf, or all round to 0."
)
def log_no_maximum(x, axis=-1):
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


@log_softmax.misconception(
    "This is the logarithm of the plain formula, exponentials over their sum. At a thousand "
    "both are inf, and the result is nan. Simplify on paper first, and subtract the maximum."
)
def log_of_plain_formula(x, axis=-1):
    return np.log(np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True))


@log_softmax.misconception(
    "The logarithm of the sum is added. The sum is in the denominator, so subtract its logarithm."
)
def log_sum_added(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps + np.log(np.exp(gaps).sum(axis=axis, keepdims=True))


@log_softmax.misconception(
    "The maximum is added to the score. It was subtracted inside the sum, so subtract it from the score in front "
    "as well."
)
def maximum_added(x, axis=-1):
    top = x.max(axis=axis, keepdims=True)
    return x + top - np.log(np.exp(x - top).sum(axis=axis, keepdims=True))


@log_softmax.misconception(
    "This is the formula for a single row: the sum runs over the whole array, and without the "
    "maximum it overflows at a thousand.",
    section="Rows and axes",
)
def log_formula_of_one_row(x, axis=-1):
    return x - np.log(np.exp(x).sum())


@log_softmax.misconception(
    "The maximum is subtracted inside the sum but not from the score outside. Use the same "
    "shifted scores in both places."
)
def log_shift_in_the_sum_only(x, axis=-1):
    return x - np.log(np.exp(x - x.max(axis=axis, keepdims=True)).sum(axis=axis, keepdims=True))


@log_softmax.misconception(
    "One maximum is subtracted for the whole array. In a row far below it, every exponential is "
    "0 and the logarithm of their sum is -inf. Each row needs its own.",
    section="Why subtract the maximum",
)
def log_global_maximum(x, axis=-1):
    gaps = x - x.max()
    return gaps - np.log(np.exp(gaps).sum(axis=axis, keepdims=True))


@log_softmax.misconception(DEFAULT_AXIS, section="Rows and axes")
def log_default_axis_first(x, axis=0):
    return solutions.log_softmax(x, axis=axis)


@log_softmax.misconception(
    "The logarithm is not the natural one. It has to undo `np.exp`: use `np.log`, not `np.log2` or `np.log10`."
)
def log_of_base_two(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps - np.log2(np.exp(gaps).sum(axis=axis, keepdims=True))


@log_softmax.misconception("The sum of the exponentials is subtracted. Subtract its logarithm instead.")
def log_of_the_sum_forgotten(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps - np.exp(gaps).sum(axis=axis, keepdims=True)


@log_softmax.misconception(
    "Only the logarithm of the sum is returned, one number for each row. Subtract it from each score."
)
def log_of_the_sum_alone(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return np.log(np.exp(gaps).sum(axis=axis, keepdims=True))


@log_softmax.misconception(
    "The order is reversed: the maximum minus the score. Subtract the maximum from the scores.",
)
def log_gaps_reversed(x, axis=-1):
    return solutions.log_softmax(-np.asarray(x, dtype=float), axis=axis)


@log_softmax.misconception(
    "The sum runs along the first axis, whichever was asked for. Pass it `axis`.", section="Rows and axes"
)
def log_sum_along_the_first(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps - np.log(np.exp(gaps).sum(axis=0, keepdims=True))


@log_softmax.misconception("`axis` is ignored: the function always works along the last axis.", section="Rows and axes")
def log_always_last(x, axis=-1):
    return solutions.log_softmax(x)


@log_softmax.misconception(
    "The sum runs over the whole array. Each row has its own sum, along `axis`.", section="Rows and axes"
)
def log_over_everything(x, axis=-1):
    gaps = x - x.max()
    return gaps - np.log(np.exp(gaps).sum())


@log_softmax.misconception(
    "keepdims=True is missing, so maxima and sums no longer line up with their rows.", section="Rows and axes"
)
def log_keepdims_forgotten(x, axis=-1):
    gaps = x - x.max(axis=axis)
    return gaps - np.log(np.exp(gaps).sum(axis=axis))


@log_softmax.misconception(
    "keepdims=True is missing from the sum, so the logarithms of the totals no longer line up with their rows.",
    section="Rows and axes",
)
def log_keepdims_forgotten_in_sum(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps - np.log(np.exp(gaps).sum(axis=axis))


@log_softmax.misconception(
    "Something small is added to the sum inside the logarithm. After the maximum is subtracted "
    "the sum is at least 1: there is no logarithm of 0 to prevent.",
    section="Why subtract the maximum",
)
def log_epsilon(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps - np.log(np.exp(gaps).sum(axis=axis, keepdims=True) + 1e-6)


@log_softmax.misconception(
    "Something small is added to the sum inside the logarithm. After the maximum is subtracted "
    "the sum is at least 1: there is no logarithm of 0 to prevent.",
    section="Why subtract the maximum",
)
def log_small_epsilon(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps - np.log(np.exp(gaps).sum(axis=axis, keepdims=True) + 1e-8)


@log_softmax.misconception("These are the weights themselves. Return their logarithms.")
def no_logarithm(x, axis=-1):
    return solutions.softmax(x, axis=axis)


@log_softmax.misconception("The sign is reversed. Weights are at most 1, so their logarithms are at most 0.")
def negated(x, axis=-1):
    return -solutions.log_softmax(x, axis=axis)


@log_softmax.misconception("The logarithm has base 2. Use the natural logarithm, which undoes `np.exp`.")
def log_base_two(x, axis=-1):
    return solutions.log_softmax(x, axis=axis) / np.log(2.0)


@log_softmax.misconception("The logarithm has base 10. Use the natural logarithm, which undoes `np.exp`.")
def log_base_ten(x, axis=-1):
    return solutions.log_softmax(x, axis=axis) / np.log(10.0)


@log_softmax.misconception(
    "`log1p` adds 1 to the sum before taking the logarithm. The sum already contains the 1 of the largest score."
)
def one_counted_twice(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps - np.log1p(np.exp(gaps).sum(axis=axis, keepdims=True))


@log_softmax.misconception("The exponentials are averaged. The denominator is their sum.")
def mean_for_sum(x, axis=-1):
    gaps = x - x.max(axis=axis, keepdims=True)
    return gaps - np.log(np.exp(gaps).mean(axis=axis, keepdims=True))


@log_softmax.misconception(
    "The input is changed in place. `x -= ...` writes into the caller's array; `x = x - ...` makes a new one.",
    section="Why subtract the maximum",
)
def log_in_place(x, axis=-1):
    x -= x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


@log_softmax.misconception(
    "Everything is written into the input: the caller's scores are overwritten, and an array of whole "
    "numbers cannot hold the log weights. Work on a new array of floats.",
    section="Why subtract the maximum",
)
def log_all_in_place(x, axis=-1):
    x -= x.max(axis=axis, keepdims=True)
    x -= np.log(np.exp(x).sum(axis=axis, keepdims=True))
    return x


# softmax_temperature ---------------------------------------------------------------------------------------------

softmax_temperature = Exercise(solutions.softmax_temperature, section="Temperature", minutes=5, difficulty=1)


@softmax_temperature.property(
    "sharpens below 1 and flattens above 1",
    points=2,
    rtol=EXACT,
    hint="Divide the scores by the temperature, then take softmax along the last axis.",
)
def sharpens(rng):
    yield dict(x=np.array([3.0, 1.0]), temperature=2.0)
    yield dict(x=rng.normal(size=(3, 3)), temperature=0.5)
    yield dict(x=rng.normal(size=(2, 3, 4)), temperature=3.5)
    yield dict(x=rng.integers(-9, 9, size=(2, 3)), temperature=2)


@softmax_temperature.property(
    "survives scores of a thousand",
    points=1,
    rtol=NEARLY,
    hint="Scale first, then use the softmax that subtracts the maximum of what it is given.",
)
def temperature_large(rng):
    scores = np.array([[1000.0, 999.0], [-1000.0, -1001.0]])
    yield dict(x=rng.permuted(scores, axis=1) + rng.uniform(-5, 5, size=(2, 1)), temperature=0.5)
    yield dict(x=rng.permutation([1000.0, 0.0, -1000.0]) + rng.uniform(-5, 5), temperature=500.0)
    yield dict(x=rng.permutation([2.0, 1.0, 1.5]) + rng.uniform(), temperature=0.001)


@softmax_temperature.property(
    "refuses a temperature of zero or below",
    points=1,
    probe=probes.error_of,
    rtol=NEARLY,
    hint="Raise ValueError when temperature <= 0, before anything is divided, and only then.",
)
def refuses(rng):
    yield dict(x=rng.permutation(4) + rng.uniform(-0.2, 0.2, size=4), temperature=0.01)  # one takes everything
    yield dict(x=rng.normal(size=4), temperature=0.0)
    yield dict(x=rng.normal(size=4), temperature=-1.0)
    yield dict(x=rng.normal(size=(2, 3)), temperature=0)


@softmax_temperature.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    rtol=NEARLY,
    hint="If only this fails: `x /= ...` writes into the caller's array.",
)
def temperature_pure(rng):
    yield dict(x=rng.normal(size=(2, 3)), temperature=2.0)


def _refuse(temperature):
    if temperature <= 0:
        raise ValueError("temperature")


@softmax_temperature.misconception(
    "The scores are multiplied by the temperature. Then a higher temperature sharpens, and it should flatten: divide."
)
def multiplied(x, temperature):
    _refuse(temperature)
    return solutions.softmax(x * temperature)


@softmax_temperature.misconception(
    "The finished weights are divided by the temperature, so they no longer sum to one, "
    "and their ratios stay the same. Divide the scores, before softmax."
)
def weights_divided(x, temperature):
    _refuse(temperature)
    return solutions.softmax(x) / temperature


@softmax_temperature.misconception(
    "The temperature changes nothing. Shifting the scores by it cancels, and so does "
    "scaling the weights and normalizing again. Divide the scores by it."
)
def ignored(x, temperature):
    _refuse(temperature)
    return solutions.softmax(x - temperature)


@softmax_temperature.misconception(
    "The temperature is divided by the scores. It is the other way around: divide the scores by it."
)
def divided_by_scores(x, temperature):
    _refuse(temperature)
    return solutions.softmax(temperature / x)


@softmax_temperature.misconception(
    "The scores are cut to whole numbers before they are divided. Convert them to floats: `np.asarray(x, dtype=float)`."
)
def whole_scores(x, temperature):
    _refuse(temperature)
    return solutions.softmax(np.trunc(x) / temperature)


@softmax_temperature.misconception(
    "The scores are divided by the square root of the temperature. Divide by the temperature itself."
)
def square_root(x, temperature):
    _refuse(temperature)
    return solutions.softmax(x / np.sqrt(temperature))


@softmax_temperature.misconception(
    "The weights are raised to a power and not normalized again. Powers of weights no longer sum to one."
)
def power_not_normalized(x, temperature):
    _refuse(temperature)
    return solutions.softmax(x) ** (1.0 / temperature)


@softmax_temperature.misconception(
    "The finished weights are raised to the power 1/temperature. On paper that is the "
    "same, but a weight that has rounded to 0 stays 0 at any temperature. "
    "Divide the scores."
)
def power_of_weights(x, temperature):
    _refuse(temperature)
    powers = solutions.softmax(x) ** (1.0 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


@softmax_temperature.misconception(
    "No maximum is subtracted after scaling, so large scores give inf/inf and very negative ones 0/0.",
    section="Why subtract the maximum",
)
def temperature_no_maximum(x, temperature):
    _refuse(temperature)
    e = np.exp(x / temperature)
    return e / e.sum(axis=-1, keepdims=True)


@softmax_temperature.misconception(
    "This is the plain formula: no maximum is subtracted, so a thousand overflows to "
    "nan, and a temperature of zero or below is not refused."
)
def plain_formula(x, temperature):
    e = np.exp(x / np.float64(temperature))
    return e / e.sum(axis=-1, keepdims=True)


@softmax_temperature.misconception(
    "The maximum is taken before the scores are divided by the temperature. It must be "
    "the maximum of the numbers that go into the exponential.",
    section="What goes wrong: the right maximum of the wrong numbers",
)
def maximum_before_scaling(x, temperature):
    _refuse(temperature)
    e = np.exp(x / temperature - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@softmax_temperature.misconception(
    "One maximum is subtracted for the whole array. Each row needs its own, or rows far "
    "below the largest score become 0/0.",
    section="Why subtract the maximum",
)
def temperature_global_maximum(x, temperature):
    _refuse(temperature)
    e = np.exp(x / temperature - (x / temperature).max())
    return e / e.sum(axis=-1, keepdims=True)


_NEARLY_THE_TEMPERATURE = (
    "A small number is added to the temperature, which makes every temperature slightly wrong. "
    "Refuse zero with a ValueError instead."
)


def _warmer_by(size):
    def temperature_plus_epsilon(x, temperature):
        _refuse(temperature)
        return solutions.softmax(x / (temperature + size))

    return temperature_plus_epsilon


def _warmer_and_not_refused(size):
    def temperature_plus_epsilon_for_any(x, temperature):
        return solutions.softmax(x / (temperature + size))

    return temperature_plus_epsilon_for_any


def _temperature_with_epsilon(size):
    def temperature_with_epsilon(x, temperature):
        _refuse(temperature)
        return _with_epsilon(size)(x / temperature)

    return temperature_with_epsilon


for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
    softmax_temperature.misconception(_NEARLY_THE_TEMPERATURE)(_warmer_by(_size))
    softmax_temperature.misconception(_NEARLY_THE_TEMPERATURE)(_warmer_and_not_refused(_size))
    softmax_temperature.misconception(EPSILON, section="Why subtract the maximum")(_temperature_with_epsilon(_size))


@softmax_temperature.misconception("`//` divides and rounds down. Use `/`, which keeps the fractions.")
def floor_division(x, temperature):
    _refuse(temperature)
    return solutions.softmax(x // temperature)


@softmax_temperature.misconception(
    "The weights sum to one down the columns. Temperature works along the last axis.", section="Rows and axes"
)
def temperature_first_axis(x, temperature):
    _refuse(temperature)
    return solutions.softmax(x / temperature, axis=0)


@softmax_temperature.misconception(
    "The weights sum to one over the whole array. Each row along the last axis should.", section="Rows and axes"
)
def temperature_over_everything(x, temperature):
    _refuse(temperature)
    return solutions.softmax((x / temperature).ravel()).reshape(x.shape)


@softmax_temperature.misconception("The scores are divided in place, which changes the caller's array.")
def temperature_in_place(x, temperature):
    _refuse(temperature)
    x /= temperature
    return solutions.softmax(x)


@softmax_temperature.misconception("The scores are divided in place, which changes the caller's array.")
def temperature_in_place_on_floats(x, temperature):
    _refuse(temperature)
    x = np.asarray(x, dtype=float)
    x /= temperature
    return solutions.softmax(x)


@softmax_temperature.misconception(
    "Any temperature is accepted. At zero this is 0/0, and below zero the smallest "
    "score wins: raise ValueError for temperature <= 0."
)
def nothing_refused(x, temperature):
    return solutions.softmax(x / np.float64(temperature))


@softmax_temperature.misconception(
    "Zero is accepted and gives one token all the weight. That is useful for sampling, "
    "but here the docstring says ValueError for a temperature of zero or below."
)
def zero_taken_as_argmax(x, temperature):
    if temperature == 0:
        return np.eye(x.shape[-1])[x.argmax(axis=-1)]
    _refuse(temperature)
    return solutions.softmax(x / temperature)


@softmax_temperature.misconception(
    "A temperature of zero or below is silently replaced by a tiny one. The caller made "
    "a mistake and should be told: raise ValueError."
)
def replaced_by_a_tiny_one(x, temperature):
    return solutions.softmax(x / max(temperature, 1e-9))


@softmax_temperature.misconception(
    "Only negative temperatures are refused. At zero every score is divided by 0 and "
    "the weights are nan: raise ValueError there as well."
)
def zero_accepted(x, temperature):
    if temperature < 0:
        raise ValueError("temperature")
    return solutions.softmax(x / np.float64(temperature))


@softmax_temperature.misconception(
    "Only zero is refused. A negative temperature reverses the order of the scores: raise ValueError for it as well."
)
def negative_accepted(x, temperature):
    if temperature == 0:
        raise ValueError("temperature")
    return solutions.softmax(x / temperature)


@softmax_temperature.misconception(
    "`assert` raises AssertionError, and `python -O` skips it. Use `raise ValueError(...)`."
)
def asserted(x, temperature):
    if temperature <= 0:
        raise AssertionError
    return solutions.softmax(x / temperature)


# softmax_jacobian ------------------------------------------------------------------------------------------------

softmax_jacobian = Exercise(
    solutions.softmax_jacobian, section="The Jacobian: every derivative at once", minutes=10, difficulty=3
)


@softmax_jacobian.property(
    "holds every derivative of every weight",
    points=3,
    rtol=EXACT,
    hint="On the diagonal p_i (1 - p_i), off it -p_i p_j, where p are the weights. Finite "
    "differences are not exact enough.",
)
def derivatives(rng):
    yield dict(x=np.array([3.0, 1.0]))
    yield dict(x=rng.normal(size=4))
    yield dict(x=rng.integers(-3, 4, size=3))


@softmax_jacobian.property(
    "survives scores of a thousand",
    points=1,
    rtol=NEARLY,
    hint="Build it from the weights of a softmax that subtracts the maximum.",
)
def jacobian_large(rng):
    yield dict(x=rng.permutation([1000.0, 999.0, 998.0]) + rng.uniform(-5, 5))
    yield dict(x=rng.permutation([-1000.0, -1000.5]) + rng.uniform(-5, 5))


@softmax_jacobian.property(
    "leaves its input as it was",
    points=1,
    probe=probes.unchanged,
    rtol=NEARLY,
    hint="If only this fails: `x -= ...` writes into the caller's array; `x = x - ...` makes a new one.",
)
def jacobian_pure(rng):
    yield dict(x=rng.normal(size=3))


_OFF_DIAGONAL = (
    "Only the diagonal is filled. All weights share one denominator, so each score moves every weight: the "
    "entries off the diagonal are -p_i p_j."
)


@softmax_jacobian.misconception(_OFF_DIAGONAL)
def diagonal_only(x):
    p = solutions.softmax(x)
    return np.diag(p * (1 - p))


@softmax_jacobian.misconception(
    "The entries off the diagonal have the wrong sign. When another score rises, this weight falls: they are -p_i p_j."
)
def positive_off_the_diagonal(x):
    p = solutions.softmax(x)
    return np.where(np.eye(len(p), dtype=bool), p * (1 - p), np.outer(p, p))


@softmax_jacobian.misconception(
    "The weights are added in every row and not only on the diagonal. Put them on the diagonal with "
    "`np.diag` before you subtract the outer product."
)
def weights_in_every_row(x):
    p = solutions.softmax(x)
    return p - np.outer(p, p)


@softmax_jacobian.misconception(
    "This is one number per weight, p (1 - p). Each of the n "
    "weights depends on each of the n scores: the result is (n, n)."
)
def elementwise(x):
    p = solutions.softmax(x)
    return p * (1 - p)


@softmax_jacobian.misconception(
    "The outer product is missing. The weights on the diagonal are only the first half; "
    "each row must sum to zero, because a shift of all scores changes nothing."
)
def without_outer_product(x):
    return np.diag(solutions.softmax(x))


@softmax_jacobian.misconception(
    "The outer product is added. Subtract it: when one score rises, the others lose weight."
)
def outer_product_added(x):
    p = solutions.softmax(x)
    return np.diag(p) + np.outer(p, p)


@softmax_jacobian.misconception("The sign is reversed. A weight grows with its own score, so the diagonal is positive.")
def sign_reversed(x):
    p = solutions.softmax(x)
    return np.outer(p, p) - np.diag(p)


@softmax_jacobian.misconception(
    "The derivative is built from exponentials that were never divided by their sum. Use the weights."
)
def from_exponentials(x):
    p = solutions.softmax(x)
    e = p / p.max()
    return np.diag(e) - np.outer(e, e)


@softmax_jacobian.misconception("The input is used as if it held weights. It holds scores: apply softmax first.")
def scores_taken_for_weights(x):
    return np.diag(x) - np.outer(x, x)


@softmax_jacobian.misconception(
    "The term p_i is in every entry. It belongs only where i = j; elsewhere the entry is -p_i p_j."
)
def one_for_delta(x):
    p = solutions.softmax(x)
    return np.outer(p, 1 - p)


@softmax_jacobian.misconception(
    "`p * p` multiplies entry by entry and gives a vector. The product p_i p_j is needed for every pair: `np.outer`."
)
def elementwise_square(x):
    p = solutions.softmax(x)
    return np.diag(p) - p * p


@softmax_jacobian.misconception(
    "`p @ p` is a single number, the sum of the squares. The product p_i p_j is needed for every pair: `np.outer`."
)
def inner_product(x):
    p = solutions.softmax(x)
    return np.diag(p) - p @ p


@softmax_jacobian.misconception("The diagonal has 1 where it needs the weights: p_i, not 1.")
def identity_for_weights(x):
    p = solutions.softmax(x)
    return np.eye(len(p)) - np.outer(p, p)


@softmax_jacobian.misconception(
    "The square on the diagonal is missing: the outer product also has a diagonal, so the "
    "entries there are p_i - p_i p_i."
)
def square_left_out_on_the_diagonal(x):
    p = solutions.softmax(x)
    return np.where(np.eye(len(p), dtype=bool), np.diag(p), -np.outer(p, p))


@softmax_jacobian.misconception(
    "The softmax inside subtracts no maximum, so scores of a thousand give nan.", section="Why subtract the maximum"
)
def jacobian_no_maximum(x):
    e = np.exp(x)
    p = e / e.sum()
    return np.diag(p) - np.outer(p, p)


@softmax_jacobian.misconception(
    "These are finite differences. They are right to a few digits only; the exact "
    "derivative costs no more, once it is worked out on paper."
)
def forward_differences(x):
    steps = 1e-6 * np.eye(len(x))
    return np.stack([(solutions.softmax(x + step) - solutions.softmax(x)) / 1e-6 for step in steps], axis=1)


@softmax_jacobian.misconception(
    "These are finite differences. They are right to a few digits only; the exact "
    "derivative costs no more, once it is worked out on paper."
)
def central_differences(x):
    steps = 1e-3 * np.eye(len(x))
    return np.stack([(solutions.softmax(x + step) - solutions.softmax(x - step)) / 2e-3 for step in steps], axis=1)


def _jacobian_with_epsilon(size):
    def jacobian_with_epsilon(x):
        p = _with_epsilon(size)(x)
        return np.diag(p) - np.outer(p, p)

    return jacobian_with_epsilon


for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
    softmax_jacobian.misconception(EPSILON, section="Why subtract the maximum")(_jacobian_with_epsilon(_size))


@softmax_jacobian.misconception(
    "The input is changed in place. `x -= ...` writes into the caller's array; `x = x - ...` makes a new one.",
    section="Why subtract the maximum",
)
def jacobian_in_place(x):
    p = solutions.softmax(x)
    x -= x.max()
    return np.diag(p) - np.outer(p, p)


# soft_lookup -----------------------------------------------------------------------------------------------------

soft_lookup = Exercise(solutions.soft_lookup, section="A soft dictionary", minutes=8, difficulty=1)


@soft_lookup.property(
    "mixes the values by how well their keys match",
    points=3,
    rtol=EXACT,
    hint="Take the dot product of the query with every key, turn the scores into weights, sum the weighted values.",
)
def mixes(rng):
    yield dict(query=np.array([1.0, 0.5, 0.0]), keys=np.eye(3), values=np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    yield dict(query=rng.normal(size=4), keys=rng.normal(size=(5, 4)), values=rng.normal(size=(5, 3)))
    yield dict(query=rng.normal(size=4), keys=rng.normal(size=(5, 4)), values=rng.normal(size=(5, 4)))
    yield dict(query=rng.normal(size=3), keys=rng.normal(size=(3, 3)), values=rng.normal(size=(3, 2)))
    yield dict(
        query=np.array([1, 1, 0, 0]),
        keys=np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]),
        values=rng.integers(-5, 5, size=(3, 2)),
    )


@soft_lookup.property(
    "survives scores of a thousand", points=1, rtol=NEARLY, hint="Use the softmax that subtracts the maximum."
)
def lookup_large(rng):
    yield dict(
        query=np.array([100.0, 0.0]),
        keys=np.array([[10.0, 1.0], [9.99, 2.0], [-10.0, 3.0]]),
        values=rng.normal(size=(3, 2)),
    )
    yield dict(
        query=np.array([100.0, 0.0]), keys=np.array([[-10.0, 1.0], [-10.01, 2.0]]), values=rng.normal(size=(2, 3))
    )


@soft_lookup.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    rtol=NEARLY,
    hint="If only this fails: `/=` and `*=` write into the caller's arrays.",
)
def lookup_pure(rng):
    yield dict(query=rng.normal(size=3), keys=rng.normal(size=(4, 3)), values=rng.normal(size=(4, 2)))


@soft_lookup.misconception(
    "Only the best match is returned, as in an ordinary dictionary. A soft lookup mixes all values."
)
def hard(query, keys, values):
    return values[(keys @ query).argmax()]


@soft_lookup.misconception(
    "The scores are divided by the square root of the width. That belongs to the attention chapter; "
    "this lookup is not scaled."
)
def scaled(query, keys, values):
    return solutions.softmax(keys @ query / np.sqrt(len(query))) @ values


@soft_lookup.misconception("The scores are divided by the width of the query. This lookup is not scaled.")
def scaled_by_width(query, keys, values):
    return solutions.softmax(keys @ query / len(query)) @ values


@soft_lookup.misconception("Softmax is applied to the values. Apply it to the scores, which then become the weights.")
def softmax_over_values(query, keys, values):
    return (keys @ query) @ solutions.softmax(values, axis=0)


@soft_lookup.misconception(
    "Softmax is applied at the end, to the mixed values. Apply it to the scores, before they are combined "
    "with the values."
)
def softmax_at_the_end(query, keys, values):
    return solutions.softmax((keys @ query) @ values)


@soft_lookup.misconception(
    "The raw scores are used as weights. Without softmax they are not shares: they can be negative and sum to anything."
)
def no_softmax(query, keys, values):
    return (keys @ query) @ values


@soft_lookup.misconception(
    "The scores are divided by their sum. With negative scores the results are not shares: use softmax."
)
def scores_divided_by_their_sum(query, keys, values):
    scores = keys @ query
    return scores / scores.sum() @ values


@soft_lookup.misconception(
    "The match is measured by the cosine, which ignores length. Here a longer query makes the weights "
    "sharper: use the plain dot product."
)
def cosine(query, keys, values):
    lengths = np.linalg.norm(keys, axis=1) * np.linalg.norm(query)
    return solutions.softmax(keys @ query / lengths) @ values


@soft_lookup.misconception("The match is measured by distance. This lookup scores with the dot product.")
def by_distance(query, keys, values):
    return solutions.softmax(-np.linalg.norm(keys - query, axis=1)) @ values


@soft_lookup.misconception(
    "Keys and values are swapped: the query is compared with the values and the keys are mixed. "
    "Compare with keys, return values."
)
def swapped(query, keys, values):
    return solutions.softmax(values @ query) @ keys


@soft_lookup.misconception(
    "The query is multiplied by the columns of the key table. One key is one row: score it with `keys @ query`."
)
def keys_by_column(query, keys, values):
    return solutions.softmax(query @ keys) @ values


@soft_lookup.misconception("The result is a mix of the keys. They only decide the weights: return a mix of the values.")
def keys_mixed(query, keys, values):
    return solutions.softmax(keys @ query) @ keys


@soft_lookup.misconception("These are the weights. The last step is missing: the weighted sum of the values.")
def weights_returned(query, keys, values):
    return solutions.softmax(keys @ query)


@soft_lookup.misconception("The values are weighted but not summed. Add up the rows to get one vector.")
def not_summed(query, keys, values):
    return solutions.softmax(keys @ query)[:, None] * values


@soft_lookup.misconception(
    "The weighted values are averaged. The weights already sum to one, so add, and do not "
    "divide by the number of keys again."
)
def averaged(query, keys, values):
    return solutions.softmax(keys @ query) @ values / len(values)


@soft_lookup.misconception("All values get the same weight, whatever the query is.")
def plain_mean(query, keys, values):
    return values.mean(axis=0)


@soft_lookup.misconception(
    "The softmax inside subtracts no maximum, so scores of a thousand give nan.", section="Why subtract the maximum"
)
def lookup_no_maximum(query, keys, values):
    e = np.exp(keys @ query)
    return e / e.sum() @ values


@soft_lookup.misconception("The values are multiplied in place, which changes the caller's array.")
def values_in_place(query, keys, values):
    weights = solutions.softmax(keys @ query)
    values *= weights[:, None]
    return values.sum(axis=0)


@soft_lookup.misconception("The values are multiplied in place, which changes the caller's array.")
def values_in_place_on_floats(query, keys, values):
    return values_in_place(query, keys, np.asarray(values, dtype=float))


def _lookup_with_epsilon(size):
    def lookup_with_epsilon(query, keys, values):
        return _with_epsilon(size)(keys @ query) @ values

    return lookup_with_epsilon


for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
    soft_lookup.misconception(EPSILON, section="Why subtract the maximum")(_lookup_with_epsilon(_size))


written = Written(
    points=4,
    rubric="""One point each.

1. The mathematics: multiplying every exponential by the same positive number cancels in numerator and denominator, so
   softmax(s - c) = softmax(s) for any c. (A correct sentence is enough, without a formula.)
2. The upper end: with c = the largest score every exponent is at most 0, so no exponential exceeds 1 and no sum
   exceeds n. Nothing can overflow.
3. The lower end: the largest score itself gives e^0 = 1, so the sum is at least 1 and there is no 0/0. "It avoids
   overflow" alone does not earn this point.
4. The small number: it does not prevent inf/inf; it turns a row of very negative scores into all zeros; it makes the
   weights of every healthy row sum to less than one. Any two of these, with a number or an example.

Model answer: "A shift of all scores multiplies top and bottom of the fraction by the same number, so the weights stay.
Choose the shift so that the largest exponent is 0: then all exponentials lie between 0 and 1, one of them is exactly 1,
and the sum lies between 1 and n. It neither overflows nor vanishes, and what rounds to 0 would have been a weight near
0 anyway. The small number does nothing for exp(1000) = inf, since inf / (inf + 1e-8) is still nan. For scores of -1000
it gives 0 / 1e-8 = 0 for every weight. And in a row that needed no help, such as (3, 1), the weights then sum to
slightly less than one."

Common half answers: "to make the numbers smaller" (what about -1000?); "so that the sum is one" (the division does
that, not the shift).""",
)
