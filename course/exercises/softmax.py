"""Exercises of the softmax chapter: what must hold, on which inputs, and the usual mistakes."""

import numpy as np

from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import both_signs
from course.kit.hunt import Hunt
from course.right_answers.softmax import RIGHT
from solutions import softmax as solutions

# Tight enough to see an epsilon of 1e-10 in a denominator, wide enough for any order of the same operations.
EXACT = 1e-11
# Wide enough to let an epsilon pass, so that it costs its own property of softmax and not all of them.
NEARLY = 1e-4

ROWS_AND_AXES = "Rows and axes"
SHARES = "Exponentials, then shares"
WHY_MAXIMUM = "Why subtract the maximum"
HUNT = "Hunt bugs ★"


def _far_apart(rng):
    """Scores of which only the largest is a shift that prevents overflow, in extended precision too."""
    return np.array([0.0, 20_000.0, 0.0, -20_000.0]) + rng.uniform(-2, 2, size=4)


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
    yield dict(x=rng.normal(size=(1, 3, 2)), axis=1)
    yield dict(x=rng.normal(size=(3, 1)))


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
    yield dict(x=_far_apart(rng))
    yield dict(x=rng.uniform(-420, -410, size=3))  # not so low that no exponential is left


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


def not_the_largest(top):
    """Mistakes of a shift by another number than the largest score. top: the text of the maximum in the reference"""
    return (
        edit(top, "{}(scores, axis=axis, keepdims=True)",
             "A number from the middle of each row is subtracted, such as its mean or its median. The shift cancels, "
             "but positive exponents remain, and far from the middle they overflow. Subtract the maximum.",
             see=WHY_MAXIMUM, each=("np.mean", "np.median")),
        edit(top, "np.take(scores, [0], axis=axis)",
             "The first score of each row is subtracted. The shift cancels, but a later score may be far larger, and "
             "its exponential overflows. Subtract the maximum.", see=WHY_MAXIMUM),
        edit(top, top.replace("initial=-np.inf", "initial=0.0"),
             "What is subtracted is never below 0, as with `initial=0`. In a row of very negative scores all "
             "exponentials then round to 0, and the row becomes 0/0. Begin the search for the maximum at -inf.",
             see=WHY_MAXIMUM),
    )  # fmt: skip


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
    *not_the_largest(TOP),
    edit(START, f"axis = axis + 1 if axis < 0 else axis\n    {START}",
         "A negative `axis` is off by one. -1 is the last axis and -2 the one before it; NumPy counts in the same way, "
         "so pass `axis` on as it is.", see=ROWS_AND_AXES),
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
    yield dict(x=rng.normal(size=(1, 3, 2)), axis=1)
    yield dict(x=rng.normal(size=(3, 1)))


@log_softmax.property(
    "is accurate at scores of plus and minus a thousand",
    points=2,
    rtol=EXACT,
    hint="Take the logarithm of the sum of exponentials, not of a weight, which may have rounded to zero.",
)
def log_large(rng):
    yield dict(x=np.array([[1000.0, 999.0, -1000.0], [-1000.0, -1001.0, -3000.0]]))
    yield dict(x=np.array([1000.0, 0.0]) + rng.normal(size=2))
    yield dict(x=np.array([-1000.0, -1002.0]) + rng.normal(size=2))
    yield dict(x=_far_apart(rng))
    yield dict(x=rng.uniform(-420, -410, size=3))  # not so low that no exponential is left
    yield dict(x=np.array([0.0, 900.0]) + rng.normal(size=2))  # the mean would do as a shift, and the first would not


# No weight is small: that belongs to the other properties.
log_softmax.unchanged(lambda rng: dict(x=rng.uniform(-0.7, 0.7, size=(2, 3))), **UNCHANGED)

LOG_TOP = "scores.max(axis=axis, keepdims=True, initial=-np.inf)"
LOG_TOTAL = "np.log(np.exp(gaps).sum(axis=axis, keepdims=True))"
RESULT = f"gaps - {LOG_TOTAL}"
FLOORS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15, 1e-16, 1e-20, 1e-30, 1e-300)

log_softmax.mistakes(
    edit("return gaps - np.log(", "return np.maximum(gaps, {}) - np.log(",
         "The shifted scores are limited from below, so that all scores below the limit look alike. Outside the sum "
         "nothing can overflow: no limit is needed.", each=(-745.0, -700.0, -500.0, -100.0)),
    edit(RESULT, "np.log(softmax(x, axis))",
         "This is the logarithm of the finished weights. Where a weight has rounded to 0, its logarithm is -inf and "
         "the score is lost. Simplify the logarithm by hand first."),
    edit(RESULT, "np.log({})",
         "A small number is added, or used as a lower limit, to avoid the logarithm of 0. No log weight can then be "
         "below the logarithm of that number, so all lower scores look alike.",
         each=(weights for size in FLOORS
               for weights in (f"softmax(x, axis) + {size}", f"np.maximum(softmax(x, axis), {size})"))),
    edit(RESULT, "gaps",
         "Only the maximum is subtracted. Subtract the logarithm of the sum as well, or the weights do not sum to "
         "one."),
    edit(f" - {TOP}", "",
         "The exponentials are summed without subtracting the maximum first. They overflow to inf, or all round to "
         "0."),
    edit(RESULT, "np.log(np.exp(scores) / np.exp(scores).sum(axis=axis, keepdims=True))",
         "This is the logarithm of the plain formula, exponentials over their sum. At a thousand both are inf, and "
         "the result is nan. Simplify by hand first, and subtract the maximum."),
    edit("gaps - np.log", "gaps + np.log",
         "The logarithm of the sum is added. The sum is in the denominator, so subtract its logarithm."),
    edit("gaps - np.log", f"scores + {TOP} - np.log",
         "The maximum is added to the score. It was subtracted inside the sum, so subtract it from the score in front "
         "as well."),
    edit(LOG_TOTAL, "np.log(np.exp(scores).sum())",
         "This is the formula for a single row: the sum runs over the whole array, and without the maximum it "
         "overflows at a thousand.", see=ROWS_AND_AXES, also={f" - {TOP}": ""}),
    edit("gaps - np.log", "scores - np.log",
         "The maximum is subtracted inside the sum but not from the score outside. Use the same shifted scores in "
         "both places."),
    edit(TOP, "scores.max()",
         "One maximum is subtracted for the whole array. In a row far below it, every exponential is 0 and the "
         "logarithm of their sum is -inf. Each row needs its own.", see=WHY_MAXIMUM),
    *not_the_largest(LOG_TOP),
    edit("axis: int = -1", "axis: int = 0", DEFAULT_AXIS, see=ROWS_AND_AXES),
    edit("np.log(", "{}(",
         "The logarithm is not the natural one. It has to undo `np.exp`: use `np.log`, not `np.log2` or `np.log10`.",
         each=("np.log2", "np.log10")),
    edit(LOG_TOTAL, "np.log(np.exp(gaps)).sum(axis=axis, keepdims=True)",
         "The logarithm is taken of each exponential, which only gives the score back, and then these are added up. "
         "Sum the exponentials first, then take one logarithm."),
    edit("np.log(", "(", "The sum of the exponentials is subtracted. Subtract its logarithm instead."),
    edit(RESULT, LOG_TOTAL,
         "Only the logarithm of the sum is returned, one number for each row. Subtract it from each score."),
    edit("np.asarray(x", "-np.asarray(x",
         "The order is reversed: the maximum minus the score. Subtract the maximum from the scores."),
    edit("sum(axis=axis", "sum(axis=0",
         "The sum runs along the first axis, whichever was asked for. Pass it `axis`.", see=ROWS_AND_AXES),
    edit(START, f"axis = -1\n    {START}",
         "`axis` is ignored: the function always works along the last axis.", see=ROWS_AND_AXES),
    edit(LOG_TOTAL, "np.log(np.exp(gaps).sum())",
         "The sum runs over the whole array. Each row has its own sum, along `axis`.",
         see=ROWS_AND_AXES, also=GLOBAL_TOP),
    edit(LOG_TOTAL, "np.log(np.exp(gaps).sum(axis=axis))",
         "keepdims=True is missing, so maxima and sums no longer line up with their rows.",
         see=ROWS_AND_AXES, also={TOP: "scores.max(axis=axis)"}),
    edit(LOG_TOTAL, "np.log(np.exp(gaps).sum(axis=axis))",
         "keepdims=True is missing from the sum, so the logarithms of the totals no longer line up with their rows.",
         see=ROWS_AND_AXES),
    edit("keepdims=True))", "keepdims=True) + {})",
         "Something small is added to the sum inside the logarithm. After the maximum is subtracted the sum is at "
         "least 1: there is no logarithm of 0 to prevent.", see=WHY_MAXIMUM, each=(1e-6, 1e-8)),
    edit(RESULT, "softmax(x, axis)", "These are the weights themselves. Return their logarithms."),
    edit(RESULT, f"{LOG_TOTAL} - gaps",
         "The sign is reversed. Weights are at most 1, so their logarithms are at most 0."),
    edit(RESULT, f"({RESULT}) / np.log(2.0)",
         "The logarithm has base 2. Use the natural logarithm, which undoes `np.exp`."),
    edit(RESULT, f"({RESULT}) / np.log(10.0)",
         "The logarithm has base 10. Use the natural logarithm, which undoes `np.exp`."),
    edit("np.log(", "np.log1p(",
         "`log1p` adds 1 to the sum before taking the logarithm. The sum already contains the 1 of the largest "
         "score."),
    edit(".sum(", ".mean(", "The exponentials are averaged. The denominator is their sum."),
    edit(f"gaps = scores - {TOP}", f"{IN_PLACE}\n    gaps = x",
         "The input is changed in place. `x -= ...` writes into the caller's array; `x = x - ...` makes a new one.",
         see=WHY_MAXIMUM),
    edit(f"gaps = scores - {TOP}", f"{IN_PLACE}\n    gaps = x",
         "Everything is written into the input: the caller's scores are overwritten, and an array of whole numbers "
         "cannot hold the log weights. Work on a new array of floats.",
         see=WHY_MAXIMUM, also={f"return {RESULT}": f"x -= {LOG_TOTAL}\n    return x"}),
)  # fmt: skip

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
    yield dict(x=rng.normal(size=(1, 3)), temperature=1.5)
    yield dict(x=rng.normal(size=(2, 1)), temperature=3.0)


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
    yield dict(x=_far_apart(rng), temperature=rng.uniform(0.5, 0.9))
    yield dict(x=np.array([0.0, 900.0]) + rng.normal(size=2), temperature=1.0)
    yield dict(x=np.array([[1000.0, 998.0], [5.0, 3.0]]) + rng.normal(size=(2, 2)), temperature=1.1)


softmax_temperature.refuses(
    lambda rng: [
        dict(x=rng.permutation(4) + rng.uniform(-0.2, 0.2, size=4), temperature=0.01),  # one takes everything
        dict(x=rng.normal(size=4), temperature=0.0),
        dict(x=rng.normal(size=4), temperature=-1.0),
        dict(x=rng.normal(size=4), temperature=-rng.uniform(0.1, 0.9)),
        dict(x=rng.normal(size=(2, 3)), temperature=0),
    ],
    title="refuses a temperature of zero or below",
    hint="Raise ValueError when temperature <= 0, before anything is divided, and only then.",
    rtol=NEARLY,
)

softmax_temperature.unchanged(
    lambda rng: dict(x=rng.normal(size=(2, 3)), temperature=2.0),
    title="leaves its input as it was",
    hint="If only this fails: `x /= ...` writes into the caller's array.",
    rtol=NEARLY,
)

SCALED = "np.asarray(x, dtype=float) / temperature"
NOT_REFUSED = {"temperature <= 0": "False"}

softmax_temperature.mistakes(
    *not_the_largest(TOP),
    edit(SCALED, "x * temperature",
         "The scores are multiplied by the temperature. Then a higher temperature sharpens, and it should flatten: "
         "divide."),
    edit(f"softmax({SCALED})", "softmax(x) / temperature",
         "The finished weights are divided by the temperature, so they no longer sum to one, and their ratios stay "
         "the same. Divide the scores, before softmax."),
    edit(SCALED, "x - temperature",
         "The temperature changes nothing. Shifting the scores by it cancels, and so does scaling the weights and "
         "normalizing again. Divide the scores by it."),
    edit(SCALED, "temperature / x",
         "The temperature is divided by the scores. It is the other way around: divide the scores by it."),
    edit(SCALED, "np.trunc(x) / temperature",
         "The scores are cut to whole numbers before they are divided. Convert them to floats: "
         "`np.asarray(x, dtype=float)`."),
    edit(SCALED, "x / np.sqrt(temperature)",
         "The scores are divided by the square root of the temperature. Divide by the temperature itself."),
    edit(f"softmax({SCALED})", "softmax(x) ** (1.0 / temperature)",
         "The weights are raised to a power and not normalized again. Powers of weights no longer sum to one."),
    edit(f"return softmax({SCALED})",
         "powers = softmax(x) ** (1.0 / temperature)\n    return powers / powers.sum(axis=-1, keepdims=True)",
         "The finished weights are raised to the power 1/temperature. In algebra that is the same, but a weight that "
         "has rounded to 0 stays 0 at any temperature. Divide the scores."),
    edit("scores - top", "scores",
         "No maximum is subtracted after scaling, so large scores give inf/inf and very negative ones 0/0.",
         see=WHY_MAXIMUM),
    edit("scores - top", "scores",
         "This is the plain formula: no maximum is subtracted, so a thousand overflows to nan, and a temperature of "
         "zero or below is not refused.", also=NOT_REFUSED),
    edit(f"return softmax({SCALED})",
         "powers = np.exp(x / temperature - x.max(axis=-1, keepdims=True))\n"
         "    return powers / powers.sum(axis=-1, keepdims=True)",
         "The maximum is taken before the scores are divided by the temperature. It must be the maximum of the "
         "numbers that go into the exponential.", see="What goes wrong: the right maximum of the wrong numbers"),
    edit(TOP, "scores.max()",
         "One maximum is subtracted for the whole array. Each row needs its own, or rows far below the largest score "
         "become 0/0.", see=WHY_MAXIMUM),
)  # fmt: skip
WARMER = (
    "A small number is added to the temperature, which makes every temperature slightly wrong. Refuse zero with a "
    "ValueError instead."
)
for size in EPSILONS:
    softmax_temperature.mistakes(
        edit(SCALED, f"x / (temperature + {size})", WARMER),
        edit(SCALED, f"x / (temperature + {size})", WARMER, also=NOT_REFUSED),
        edit(TOTAL, f"({TOTAL} + {size})", EPSILON, see=WHY_MAXIMUM),
    )
softmax_temperature.mistakes(
    edit(SCALED, "x // temperature", "`//` divides and rounds down. Use `/`, which keeps the fractions."),
    edit(SCALED, f"{SCALED}, axis=0",
         "The weights sum to one down the columns. Temperature works along the last axis.", see=ROWS_AND_AXES),
    edit(TOTAL, "powers.sum()",
         "The weights sum to one over the whole array. Each row along the last axis should.",
         see=ROWS_AND_AXES, also=GLOBAL_TOP),
    edit(f"return softmax({SCALED})", "x /= temperature\n    return softmax(x)",
         "The scores are divided in place, which changes the caller's array."),
    edit(f"return softmax({SCALED})", "x = np.asarray(x, dtype=float)\n    x /= temperature\n    return softmax(x)",
         "The scores are divided in place, which changes the caller's array."),
    edit("temperature <= 0", "False",
         "Any temperature is accepted. At zero this is 0/0, and below zero the smallest score wins: raise ValueError "
         "for temperature <= 0."),
    edit("if temperature <= 0:",
         "if temperature == 0:\n        return np.eye(x.shape[-1])[x.argmax(axis=-1)]\n    if temperature < 0:",
         "Zero is accepted and gives one token all the weight. That is useful for sampling, but here the docstring "
         "says ValueError for a temperature of zero or below."),
    edit(SCALED, "x / max(temperature, 1e-9)",
         "A temperature of zero or below is silently replaced by a tiny one. The caller made a mistake and should be "
         "told: raise ValueError.", also=NOT_REFUSED),
    edit("temperature <= 0", "temperature < 0",
         "Only negative temperatures are refused. At zero every score is divided by 0 and the weights are nan: raise "
         "ValueError there as well."),
    edit("temperature <= 0", "temperature == 0",
         "Only zero is refused. A negative temperature reverses the order of the scores: raise ValueError for it as "
         "well."),
    edit("raise ValueError", "raise AssertionError",
         "`assert` raises AssertionError, and `python -O` skips it. Use `raise ValueError(...)`."),
)  # fmt: skip

# softmax_jacobian ------------------------------------------------------------------------------------------------

softmax_jacobian = Exercise(
    solutions.softmax_jacobian, section="The Jacobian: every derivative at once", minutes=10, difficulty=3
)


@softmax_jacobian.property(
    "holds every derivative of every weight",
    points=3,
    rtol=EXACT,
    hint="On the diagonal p_i (1 - p_i), off it -p_i p_j, where p are the weights. Finite differences are not exact "
    "enough.",
)
def derivatives(rng):
    yield dict(x=np.array([3.0, 1.0]))
    yield dict(x=rng.normal(size=4))
    yield dict(x=rng.integers(-3, 4, size=3))
    yield dict(x=rng.normal(size=1))


@softmax_jacobian.property(
    "survives scores of a thousand",
    points=1,
    rtol=NEARLY,
    hint="Build it from the weights of a softmax that subtracts the maximum.",
)
def jacobian_large(rng):
    yield dict(x=rng.permutation([1000.0, 999.0, 998.0]) + rng.uniform(-5, 5))
    yield dict(x=rng.permutation([-1000.0, -1000.5]) + rng.uniform(-5, 5))
    yield dict(x=np.repeat(_far_apart(rng), [1, 2, 1, 1]))  # two share the weight
    yield dict(x=np.array([0.0, 899.0, 900.0]) + rng.normal(size=3))


softmax_jacobian.unchanged(lambda rng: dict(x=rng.normal(size=3)), **UNCHANGED)

OUTER = "np.outer(weights, weights)"
JACOBIAN = f"np.diag(weights) - {OUTER}"
FINITE_DIFFERENCES = (
    "These are finite differences. They are right to a few digits only; the exact derivative costs no more, once it "
    "is worked out by hand."
)

softmax_jacobian.mistakes(
    *not_the_largest(TOP),
    edit(JACOBIAN, "np.diag(weights * (1 - weights))",
         "Only the diagonal is filled. All weights share one denominator, so each score moves every weight: the "
         "entries off the diagonal are -p_i p_j."),
    edit(JACOBIAN, f"np.abs({JACOBIAN})",
         "The entries off the diagonal have the wrong sign. When another score rises, this weight falls: they are "
         "-p_i p_j."),
    edit("np.diag(weights)", "weights",
         "The weights are added in every row and not only on the diagonal. Put them on the diagonal with `np.diag` "
         "before you subtract the outer product."),
    edit(JACOBIAN, "weights * (1 - weights)",
         "This is one number per weight, p (1 - p). Each of the n weights depends on each of the n scores: the "
         "result is (n, n)."),
    edit(JACOBIAN, "np.diag(weights)",
         "The outer product is missing. The weights on the diagonal are only the first half; each row must sum to "
         "zero, because a shift of all scores changes nothing."),
    edit(JACOBIAN, f"np.diag(weights) + {OUTER}",
         "The outer product is added. Subtract it: when one score rises, the others lose weight."),
    edit(JACOBIAN, f"{OUTER} - np.diag(weights)",
         "The sign is reversed. A weight grows with its own score, so the diagonal is positive."),
    edit(f"powers / {TOTAL}", "powers",
         "The derivative is built from exponentials that were never divided by their sum. Use the weights."),
    edit("weights = softmax(x)", "weights = x",
         "The input is used as if it held weights. It holds scores: apply softmax first."),
    edit(JACOBIAN, "np.outer(weights, 1 - weights)",
         "The term p_i is in every entry. It belongs only where i = j; elsewhere the entry is -p_i p_j."),
    edit(OUTER, "weights * weights",
         "`p * p` multiplies entry by entry and gives a vector. The product p_i p_j is needed for every pair: "
         "`np.outer`."),
    edit(OUTER, "weights @ weights",
         "`p @ p` is a single number, the sum of the squares. The product p_i p_j is needed for every pair: "
         "`np.outer`."),
    edit("np.diag(weights)", "np.eye(len(weights))", "The diagonal has 1 where it needs the weights: p_i, not 1."),
    edit(JACOBIAN, f"np.where(np.eye(len(x)), np.diag(weights), -{OUTER})",
         "The square on the diagonal is missing: the outer product also has a diagonal, so the entries there are "
         "p_i - p_i p_i."),
    edit("scores - top", "scores",
         "The softmax inside subtracts no maximum, so scores of a thousand give nan.", see=WHY_MAXIMUM),
    edit(JACOBIAN, "np.stack([(softmax(x + step) - weights) / 1e-6 for step in 1e-6 * np.eye(len(x))], axis=1)",
         FINITE_DIFFERENCES),
    edit(JACOBIAN,
         "np.stack([(softmax(x + step) - softmax(x - step)) / 2e-3 for step in 1e-3 * np.eye(len(x))], axis=1)",
         FINITE_DIFFERENCES),
    edit(TOTAL, f"({TOTAL} + {{}})", EPSILON, see=WHY_MAXIMUM, each=EPSILONS),
    edit("weights = softmax(x)", "weights = softmax(x)\n    x -= x.max()",
         "The input is changed in place. `x -= ...` writes into the caller's array; `x = x - ...` makes a new one.",
         see=WHY_MAXIMUM),
)  # fmt: skip

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
    yield dict(query=rng.normal(size=2), keys=rng.normal(size=(3, 2)), values=rng.normal(size=(3, 1)))
    yield dict(query=rng.normal(size=3), keys=rng.normal(size=(1, 3)), values=rng.normal(size=(1, 2)))
    whole = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
    yield dict(query=whole[2], keys=whole, values=rng.integers(-5, 5, size=(3, 2)))


@soft_lookup.property(
    "survives scores of a thousand", points=1, rtol=NEARLY, hint="Use the softmax that subtracts the maximum."
)
def lookup_large(rng):
    query = np.array([100.0, 0.0])
    yield dict(query=query, keys=np.array([[10.0, 1.0], [9.99, 2.0], [-10.0, 3.0]]), values=rng.normal(size=(3, 2)))
    yield dict(query=query, keys=np.array([[-10.0, 1.0], [-10.01, 2.0]]), values=rng.normal(size=(2, 3)))
    yield dict(query=query, keys=_far_apart(rng)[:, None] * [0.01, 0.0], values=rng.normal(size=(4, 2)))
    yield dict(query=query, keys=np.array([[0.0, 1.0], [8.99, 2.0], [9.0, 1.0]]), values=rng.normal(size=(3, 2)))


soft_lookup.unchanged(
    lambda rng: dict(query=rng.normal(size=3), keys=rng.normal(size=(4, 3)), values=rng.normal(size=(4, 2))),
    hint="If only this fails: `/=` and `*=` write into the caller's arrays.",
    rtol=NEARLY,
)

WEIGHTS = "softmax(keys @ query)"
VALUES_IN_PLACE = f"values *= {WEIGHTS}[:, None]\n    return values.sum(axis=0)"

soft_lookup.mistakes(
    *not_the_largest(TOP),
    edit(f"{WEIGHTS} @ values", "values[(keys @ query).argmax()]",
         "Only the best match is returned, as in an ordinary dictionary. A soft lookup mixes all values."),
    edit("keys @ query", "keys @ query / np.sqrt(len(query))",
         "The scores are divided by the square root of the width. That belongs to the attention chapter; this lookup "
         "is not scaled."),
    edit("keys @ query", "keys @ query / len(query)",
         "The scores are divided by the width of the query. This lookup is not scaled."),
    edit(f"{WEIGHTS} @ values", "keys @ query @ softmax(values, axis=0)",
         "Softmax is applied to the values. Apply it to the scores, which then become the weights."),
    edit(f"{WEIGHTS} @ values", "softmax(keys @ query @ values)",
         "Softmax is applied at the end, to the mixed values. Apply it to the scores, before they are combined with "
         "the values."),
    edit(WEIGHTS, "keys @ query",
         "The raw scores are used as weights. Without softmax they are not shares: they can be negative and sum to "
         "anything."),
    edit(WEIGHTS, "keys @ query / (keys @ query).sum()",
         "The scores are divided by their sum. With negative scores the results are not shares: use softmax."),
    edit("keys @ query", "keys @ query / (np.linalg.norm(keys, axis=1) * np.linalg.norm(query))",
         "The match is measured by the cosine, which ignores length. Here a longer query makes the weights sharper: "
         "use the plain dot product."),
    edit("keys @ query", "-np.linalg.norm(keys - query, axis=1)",
         "The match is measured by distance. This lookup scores with the dot product."),
    edit(f"{WEIGHTS} @ values", "softmax(values @ query) @ keys",
         "Keys and values are swapped: the query is compared with the values and the keys are mixed. Compare with "
         "keys, return values."),
    edit("keys @ query", "query @ keys",
         "The query is multiplied by the columns of the key table. One key is one row: score it with `keys @ query`."),
    edit(f"{WEIGHTS} @ values", f"{WEIGHTS} @ keys",
         "The result is a mix of the keys. They only decide the weights: return a mix of the values."),
    edit(f"{WEIGHTS} @ values", WEIGHTS,
         "These are the weights. The last step is missing: the weighted sum of the values."),
    edit(f"{WEIGHTS} @ values", f"{WEIGHTS}[:, None] * values",
         "The values are weighted but not summed. Add up the rows to get one vector."),
    edit(f"{WEIGHTS} @ values", f"np.squeeze({WEIGHTS} @ values)",
         "Axes of length 1 are dropped, as by `squeeze`. For values of width 1 the result is still a vector, (1,)."),
    edit(f"{WEIGHTS} @ values", f"{WEIGHTS} @ values / len(values)",
         "The weighted values are averaged. The weights already sum to one, so add, and do not divide by the number "
         "of keys again."),
    edit(f"{WEIGHTS} @ values", "values.mean(axis=0)", "All values get the same weight, whatever the query is."),
    edit("scores - top", "scores",
         "The softmax inside subtracts no maximum, so scores of a thousand give nan.", see=WHY_MAXIMUM),
    edit(f"return {WEIGHTS} @ values", VALUES_IN_PLACE,
         "The values are multiplied in place, which changes the caller's array."),
    edit(f"return {WEIGHTS} @ values", VALUES_IN_PLACE,
         "The values are multiplied in place, which changes the caller's array.",
         also={"np.asarray(values)": "np.asarray(values, dtype=float)"}),
    edit(TOTAL, f"({TOTAL} + {{}})", EPSILON, see=WHY_MAXIMUM, each=EPSILONS),
)  # fmt: skip

# test_softmax ----------------------------------------------------------------------------------------------------

test_softmax = Hunt(
    solutions.test_softmax,
    section=HUNT,
    minutes=15,
    difficulty=2,
    of=softmax,
    right=RIGHT,
    worth=3,
)


# The question graded by hand -------------------------------------------------------------------------------------

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
