"""Exercises of the dot product chapter: what must hold, on which inputs, and the usual mistakes."""

import math

import numpy as np

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import disagreeing
from solutions import dot_products as solutions

THE_CAT_SAT = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])

# Headings of the chapter.
MULTIPLY = "Multiply, then add"
LENGTH = "Length, angle, shadow"
DIRECTION = "Direction without length"
NO_DIRECTION = "A vector with no direction"
WHY_SCORES_GROW = "Why scores grow with dimension"
WHAT_GOES_WRONG = "What goes wrong"


# dot -------------------------------------------------------------------------------------------------------------

dot = Exercise(solutions.dot, section=MULTIPLY, minutes=5, difficulty=1)


@dot.property(
    "multiplies entry by entry, then adds",
    points=2,
    hint="Go through both vectors at once. Each step adds one product to a running total that starts at 0.",
)
def multiply_and_add(rng):
    yield dict(a=[1, 0, 1, 0], b=[1, 1, 0, 0])
    yield dict(a=[1, 2, 3], b=[4, 5, 6])
    yield dict(a=[2.5], b=[-3.0])
    a, b = disagreeing(rng, 5)
    yield dict(a=a.tolist(), b=b.tolist())


@dot.property(
    "gives 0.0 for two empty vectors",
    points=1,
    hint="A sum of no products is 0. Start from 0, and the empty case needs no extra line.",
)
def empty(rng):
    yield dict(a=[], b=[])
    # And one entry, the shortest that is not empty: there is only one pair of empty vectors, so it is easy to guess.
    yield dict(a=rng.uniform(2, 9, size=1).tolist(), b=rng.uniform(2, 9, size=1).tolist())


def lengths_differ(rng):
    short, long = rng.normal(size=2).tolist(), rng.normal(size=3).tolist()
    yield dict(a=long, b=short)
    yield dict(a=short, b=long)
    yield dict(a=[], b=rng.normal(size=1).tolist())
    for lengths in ((1, 3), (3, 1)):  # what NumPy would stretch
        a, b = (rng.normal(size=length).tolist() for length in lengths)
        yield dict(a=a, b=b)


def large_vectors(rng):
    a, b = disagreeing(rng, 4)
    return dict(a=(10 * a).tolist(), b=(10 * b).tolist())  # a product that is not 0 as a whole number either


dot.refuses(
    lengths_differ,
    title="refuses vectors of different lengths",
    points=2,
    hint="Compare the two lengths first, and raise ValueError if they differ.",
)
dot.unchanged(
    large_vectors,
    hint="Read the entries by index or in a loop. `pop`, `sort` and assignments such as `a[i] = ...` write "
    "into the caller's list.",
)

CHECK = "len(a) != len(b)"
REFUSAL = 'raise ValueError(f"vectors of lengths {len(a)} and {len(b)} have no dot product")'
SUM = "sum(x * y for x, y in zip(a, b))"
# Ahead of the check, so that a longer `a` can end in an IndexError.
UNCHECKED_LOOP = "total = sum(a[i] * b[i] for i in range({}))\n    if len(a)"
ONE_VECTOR = "Only one of the two vectors is used. Multiply each entry of `a` by the entry of `b` at the same position."

dot.mistakes(
    edit(CHECK, "False",
         "Vectors of different lengths get a number, because entries without a partner do not count: `zip` silently "
         "drops them. Compare the two lengths first, or use `zip(a, b, strict=True)`.", see=WHAT_GOES_WRONG),
    edit(CHECK, "False",
         "The loop runs over the length of `a` alone, so a longer `b` is silently cut short and a shorter one ends in "
         "an IndexError. Check both lengths before the loop and raise ValueError.", see=WHAT_GOES_WRONG,
         also={SUM: "sum(a[i] * b[i] for i in range(len(a)))"}),
    edit(REFUSAL, "return 0.0",
         "A number is returned for vectors of different lengths. Nothing sensible can be computed from them, so raise "
         "ValueError to tell the caller.", see=WHAT_GOES_WRONG),
    edit(REFUSAL, "return None",
         "None is returned for vectors of different lengths. Raise ValueError instead: a None that goes unnoticed "
         "causes an error later, somewhere else.", see=WHAT_GOES_WRONG),
    edit(CHECK, "False",
         "The loop runs over the length of `b` alone, so a longer `a` is silently cut short and a shorter one ends in "
         "an IndexError. Check both lengths before the loop and raise ValueError.", see=WHAT_GOES_WRONG,
         also={SUM: "sum(a[i] * b[i] for i in range(len(b)))"}),
    edit(CHECK, "False",
         "A vector of one entry is stretched to the length of the other, as NumPy's `*` silently does. Compare the two "
         "lengths first.", see=WHAT_GOES_WRONG, also={SUM: "np.sum(np.multiply(a, b))"}),
    edit(CHECK, "len(a) > len(b)",
         "Only a longer `a` is refused. A longer `b` is just as wrong: compare with `!=`.", see=WHAT_GOES_WRONG),
    edit(CHECK, "len(a) < len(b)",
         "Only a longer `b` is refused. A longer `a` is just as wrong: compare with `!=`.", see=WHAT_GOES_WRONG),
    edit("ValueError", "TypeError",
         "Unequal lengths are refused, but with the wrong exception: raise ValueError, as the docstring says. "
         "TypeError is for things of the wrong type."),
    edit("ValueError", "Exception",
         "A bare Exception says only that something went wrong. Raise ValueError, as the docstring says."),
    edit("ValueError", "AssertionError",
         "`assert` raises AssertionError, and Python run with -O leaves it out. For a caller's mistake, `raise "
         "ValueError(...)`."),
    edit("x * y", "x + y",
         "The entries at each position are added, but should be multiplied. Multiply first, then add the products."),
    edit("x * y", "x / y",
         "The entries at each position are divided, but should be multiplied. Multiply first, then add the products."),
    edit("x * y", "{}", ONE_VECTOR, each=("x", "y", "x * x", "y * y")),
    edit(SUM, f"int({SUM})",
         "The result is cut to a whole number. A dot product of floats is a float: leave `int` out."),
    edit(SUM, "{}",
         "The result is rounded. A dot product keeps every digit: leave `round` out.",
         each=tuple(f"round({SUM}, {digits})" for digits in (0, 1, 2, 3, 4, 6))),
    edit(SUM, f"1 + {SUM}",
         "The running total starts at 1, so every answer is one too large. A sum of nothing is 0: start there."),
    edit(f"float({SUM})", "[x * y for x, y in zip(a, b)]",
         "The products are returned as a list. The dot product is one number, so add them up."),
    edit("if len(a)", UNCHECKED_LOOP.format("len(a) - 1"),
         "The last pair is left out: `range(n - 1)` ends at n - 2. `range(n)` already stops before n.",
         also={SUM: "total"}),
    edit("if len(a)", UNCHECKED_LOOP.format("1, len(a)"),
         "The first pair is left out: positions count from 0, so a loop over `range(1, n)` misses one.",
         also={SUM: "total"}),
    edit("zip(a, b)", "((x, b[a.index(x)]) for x in a)",
         "`a.index(x)` is the first place where x occurs, so an entry that occurs twice gets the wrong partner. Go "
         "through positions: `zip(a, b)`, or `range(len(a))`."),
    edit("zip(a, b)", "zip(a[:1], b[:1])",
         "`return` is inside the loop, so the function ends after the first product. Move it out, to the level of the "
         "`for`."),
    edit("zip(a, b)", "zip(a[-1:], b[-1:])",
         "Only the last product is left: `total = x * y` overwrites. Add to what is there with `+=`."),
    edit("for x, y in zip(a, b)", "for x in a for y in b",
         "Every entry of `a` is multiplied by every entry of `b`: two nested loops give the product of the two sums. "
         "Multiply entry i of `a` by entry i of `b` and by no other."),
    edit("sum(", "math.prod(",
         "The products are multiplied together. They should be added."),
    edit("x * y", "abs(x * y)",
         "The signs are lost. A negative product must lower the total: it is how two vectors disagree."),
    edit("x * y", "(x - y) ** 2",
         "The differences are squared and added. That measures distance, which is small for similar vectors; the dot "
         "product is large for them."),
    edit(SUM, f"{SUM} / max(len(a), 1)",
         "The sum is divided by the number of entries. That is an average; the dot product is the plain sum."),
    edit("return", 'if not a:\n        raise ValueError("empty")\n    return',
         "Empty vectors are refused. They have the same length, 0, and a sum of no products is 0.0."),
    edit(SUM, "a[0] * b[0] + sum(x * y for x, y in zip(a[1:], b[1:]))",
         "The total starts with the first product, and empty vectors have none. Start from 0 and let the loop take all "
         "entries."),
    edit("zip(a, b)", "zip(a, reversed(b))",
         "One of the vectors is read backward. Multiply entry i of `a` by entry i of `b`, from the first to the last."),
    edit(SUM, f"abs({SUM})",
         "The sign of the result is lost. A negative dot product is a valid answer: the vectors disagree."),
    edit(SUM, f"{SUM} / (math.hypot(*a) * math.hypot(*b) or 1.0)",
         "The result is divided by the lengths of both vectors. That is the cosine, the next exercise.", see=DIRECTION),
    edit(f"return float({SUM})", "a[:] = [x * y for x, y in zip(a, b)]\n    return float(sum(a))",
         "The products are written into `a`, which belongs to the caller. Add them up without storing them there."),
    edit(SUM, "sum(a.pop() * b.pop() for _ in range(len(a)))",
         "`pop` removes the entries from the caller's lists, which are empty afterward. Read them without removing "
         "them."),
)  # fmt: skip


# cosine_similarity -----------------------------------------------------------------------------------------------

cosine_similarity = Exercise(solutions.cosine_similarity, section=DIRECTION, minutes=10, difficulty=1)


@cosine_similarity.property(
    "gives the cosine of the angle",
    points=3,
    rtol=1e-11,
    hint="Divide the dot product by the length of the first vector and by the length of the "
    "second. A length is the square root of the sum of squares.",
)
def angle(rng):
    yield dict(a=np.array([3.0, 4.0]), b=np.array([2.0, 0.0]))
    yield dict(a=np.array([1, 2, 2]), b=np.array([-4, 0, 3]))
    a, b = disagreeing(rng, 5)
    yield dict(a=a, b=b)
    yield dict(a=3 * rng.normal(size=7), b=rng.normal(size=7) - 2)


@cosine_similarity.property(
    "gives 0.0 when either vector is zero",
    points=1,
    hint="A zero vector has no direction. Return 0.0 before you divide by its length.",
)
def zero_vectors(rng):
    v = rng.normal(size=3)
    yield dict(a=np.zeros(3), b=v)
    yield dict(a=v, b=np.zeros(3))
    yield dict(a=np.zeros(2), b=np.zeros(2))


@cosine_similarity.property(
    "ignores length, however long or short the vectors",
    points=1,
    rtol=1e-11,
    hint="Take the square root of each sum of squares separately, compare lengths with exactly "
    "0, and add nothing to the denominator.",
)
def any_length(rng):
    a, b = disagreeing(rng, 4)
    yield dict(a=1e100 * a, b=1e100 * b)
    yield dict(a=1e-100 * a, b=1e-100 * b)
    yield dict(a=1e100 * a, b=1e-100 * b)


def agreeing(rng):
    """A positive cosine, so that a result cut off at 0 was computed all the same."""
    a = rng.permutation([-1, 1, 1]) * rng.uniform(1.2, 1.8, size=3)
    yield dict(a=a, b=2 * a + rng.uniform(-0.2, 0.2, size=3))


cosine_similarity.unchanged(
    agreeing,
    rtol=1e-11,
    hint="`a /= ...` writes into the caller's array. `a = a / ...` makes a new one.",
)

FLOAT_A, FLOAT_B = "np.asarray(a, dtype=float)", "np.asarray(b, dtype=float)"
EITHER_ZERO = "length_a == 0.0 or length_b == 0.0"
COSINE = "(a / length_a) @ (b / length_b)"
CLIPPED = f"np.clip({COSINE}, -1.0, 1.0)"
ONE_LENGTH = "Only one length is divided out, and then the result is clipped at -1 and 1. Divide by both lengths."
LENGTH_TWICE = "The length of one vector is used twice. Divide by the length of `a` and by the length of `b`."
VECTOR_TWICE = "One vector is multiplied by itself. Take the dot product of `a` with `b`."
CUT = "A vector is cut to whole numbers, or to True and False. Convert it to floats: np.asarray(a, dtype=float)."
TIMES_LENGTH = "A vector is multiplied by its length. Divide by it, so that each vector has length 1."
ANGLE = "This is the angle itself, in radians. The cosine was already the answer; leave out the arccos."
IN_PLACE = "`a /= ...` writes into the caller's array. Write `a = a / ...`, which makes a new one."
LENGTHS_AND_MORE = [
    lengths
    for size in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
    for lengths in (f"(length_a * length_b + {size})", f"((length_a + {size}) * (length_b + {size}))")
]
EPSILON = (
    "A small number in the denominator prevents the division by zero, but it also pulls every other cosine toward 0, "
    "and that of short vectors all the way. Treat the zero vector as a separate case."
)
SHORT = (
    "Short vectors are treated as if they were zero. A number added to the lengths, a floor under them, or a "
    "comparison such as `np.isclose` does that. A short vector has a direction: compare with exactly 0."
)

cosine_similarity.mistakes(
    edit(CLIPPED, "a @ b",
         "This is the plain dot product. Divide by both lengths, or a vector twice as long counts as twice as "
         "similar."),
    edit(CLIPPED, "a @ b / ((a @ a) * (b @ b))",
         "The square roots are missing: you divide by the sums of squares. A length is the square root of that sum."),
    edit(CLIPPED, "a @ b / length_a",
         "Only the length of `a` is divided out. That is the projection of `b` on `a`, which grows with `b`; divide by "
         "the length of `b` as well.", see=LENGTH),
    edit(CLIPPED, "a @ b / length_b",
         "Only the length of `b` is divided out. That is the projection of `a` on `b`, which grows with `a`; divide by "
         "the length of `a` as well.", see=LENGTH),
    edit(COSINE, "a @ b / {}", ONE_LENGTH, see=LENGTH, each=("length_a", "length_b")),
    edit(COSINE, "a @ b / ({} @ {})", LENGTH_TWICE, see=LENGTH, each=("a", "b")),
    edit("(b / length_b)", "(a / length_b)", VECTOR_TWICE),
    edit(FLOAT_A, "np.trunc(a)", CUT),
    edit(FLOAT_B, "np.trunc(b)", CUT),
    edit(FLOAT_A, "1.0 * (a != 0)", CUT),
    edit(FLOAT_B, "1.0 * (b != 0)", CUT),
    edit("a / length_a", "a * length_a", TIMES_LENGTH),
    edit("b / length_b", "b * length_b", TIMES_LENGTH),
    edit(FLOAT_B, FLOAT_A, VECTOR_TWICE),
    edit(FLOAT_A, FLOAT_B, VECTOR_TWICE),
    edit("(a / length_a)", "(b / length_a)", VECTOR_TWICE),
    edit(CLIPPED, "a @ b / (length_a + length_b)",
         "The two lengths are added in the denominator. They should be multiplied: the dot product is |a| times |b| "
         "times the cosine.", see=LENGTH),
    edit(CLIPPED, "a @ b / (len(a) * len(b))",
         "`len` counts the entries of a vector. The length needed here is geometric: the square root of the sum of "
         "squares.", see=LENGTH),
    edit(CLIPPED, "a @ b / len(a)",
         "The dot product is divided by the number of entries. Divide by the two geometric lengths instead.",
         see=LENGTH),
    edit(CLIPPED, "a @ b / (np.abs(a).sum() * np.abs(b).sum())",
         "The absolute values are added to get a length. Square them, add, and take the root: that is Pythagoras.",
         see=LENGTH),
    edit(CLIPPED, f"abs({CLIPPED})",
         "The sign is lost. A cosine below zero says that the vectors point apart, the opposite of similar."),
    edit("-1.0", "0.0",
         "Negative cosines are cut off at zero. A cosine runs from -1 to 1, and -1 means the opposite direction."),
    edit(CLIPPED, f"1.0 - {CLIPPED}",
         "This is one minus the cosine, the cosine distance: 0 for the same direction. The similarity is 1 there.",
         also={"return 0.0": "return 1.0"}),
    edit(CLIPPED, f"np.arccos({CLIPPED})", ANGLE),
    edit(CLIPPED, f"np.arccos({CLIPPED})", ANGLE, also={"return 0.0": "return np.pi / 2"}),
    edit(CLIPPED, f"np.degrees(np.arccos({CLIPPED}))",
         "This is the angle itself, in degrees. The cosine was already the answer; leave out the arccos."),
    edit(CLIPPED, f"(1.0 + {CLIPPED}) / 2.0",
         "The cosine is rescaled to the range from 0 to 1. It runs from -1 to 1: leave it as it is, with 0 for vectors "
         "at a right angle."),
    edit(CLIPPED, "a @ b / (np.abs(a).max() * np.abs(b).max())",
         "The largest entry is taken for the length. Square the entries, add, and take the root: that is Pythagoras.",
         see=LENGTH),
    edit("length_a, length_b =", "a, b = a - a.mean(), b - b.mean()\n    length_a, length_b =",
         "The mean is subtracted first. That is the correlation of the entries; the cosine takes the vectors as they "
         "are."),
    edit(EITHER_ZERO, "False",
         "A zero vector gives 0/0, which is nan. It has no direction to compare, so return 0.0 for it.",
         see=NO_DIRECTION),
    edit(" or length_b == 0.0", "",
         "Only the first vector is checked for zero. The second can be zero as well.", see=NO_DIRECTION),
    edit("length_a == 0.0 or ", "",
         "Only the second vector is checked for zero. The first can be zero as well.", see=NO_DIRECTION),
    edit("return 0.0", "return 1.0",
         "A zero vector counts as perfectly similar, 1. It has no direction at all, so it is similar to nothing: 0.0.",
         see=NO_DIRECTION),
    edit("return 0.0", 'raise ValueError("a zero vector has no direction")',
         "A zero vector is refused with an error. Here it is allowed, and its similarity to anything is 0.0.",
         see=NO_DIRECTION),
    edit(CLIPPED, "a @ b / {}", EPSILON, see=NO_DIRECTION, each=LENGTHS_AND_MORE),
    edit(CLIPPED, "a @ b / (length_a * length_b + 1e-13)", SHORT, see=NO_DIRECTION),
    edit(CLIPPED, "a @ b / (max(length_a, 1e-8) * max(length_b, 1e-8))", SHORT, see=NO_DIRECTION),
    edit(EITHER_ZERO, "np.allclose(a, 0) or np.allclose(b, 0)", SHORT, see=NO_DIRECTION),
    edit(EITHER_ZERO, "length_a * length_b < 1e-8", SHORT, see=NO_DIRECTION),
    edit(CLIPPED, "a @ b / max(length_a * length_b, 1e-8)", SHORT, see=NO_DIRECTION),
    edit(CLIPPED, "a @ b / np.sqrt((a @ a) * (b @ b))",
         "A single square root is taken of the product of the two sums of squares. That product is too large for a "
         "float (it overflows) for long vectors, and rounds to 0 for short ones. Take the two roots first."),
    edit(COSINE, "np.divide(a, length_a, out=a) @ np.divide(b, length_b, out=b)", IN_PLACE),
    edit("(a / length_a)", "np.divide(a, length_a, out=a)", IN_PLACE),
    edit(COSINE, "np.divide(a, length_a, out=a) @ np.divide(b, length_b, out=b)",
         "`a /= ...` writes into the caller's array, and an array of whole numbers cannot even hold the fractions. "
         "Write `a = a / ...`, which makes a new one.", also={FLOAT_A: "a", FLOAT_B: "b"}),
)  # fmt: skip


# matmul ----------------------------------------------------------------------------------------------------------

matmul = Exercise(solutions.matmul, section="All dot products at once", minutes=10, difficulty=1)


@matmul.property(
    "fills entry (i, j) with row i of A times column j of B",
    points=3,
    hint="Two loops choose a row of A and a column of B; their dot product is one entry.",
)
def rows_times_columns(rng):
    yield dict(A=[[1, 2], [3, 4]], B=[[5, 6], [7, 8]])
    yield dict(A=_rows(rng, 2, 3), B=_rows(rng, 3, 4))
    yield dict(A=_rows(rng, 4, 2), B=_rows(rng, 2, 3))
    yield dict(A=_rows(rng, 1, 3), B=_rows(rng, 3, 1))
    yield dict(A=_rows(rng, 3, 1), B=_rows(rng, 1, 2))


@matmul.property(
    "gives rows in plain lists",
    points=1,
    probe=probes.plain,
    hint="The result is a list with one list for each row, as A and B are. `.tolist()` turns a NumPy array into lists.",
)
def lists_of_rows(rng):
    yield dict(A=_rows(rng, 2, 2), B=_rows(rng, 2, 3))
    yield dict(A=_rows(rng, 1, 2), B=_rows(rng, 2, 1))


def sizes_do_not_fit(rng):
    for (n, m), (rows, p) in (((2, 3), (2, 3)), ((2, 2), (3, 2)), ((2, 1), (3, 2)), ((2, 3), (1, 2))):
        yield dict(A=_rows(rng, n, m), B=_rows(rng, rows, p))
    for lengths_A, lengths_B in (((2, 1), (2, 2)), ((2, 2), (3, 2)), ((2, 2), (2, 3))):
        yield dict(
            A=[rng.normal(size=n).tolist() for n in lengths_A], B=[rng.normal(size=n).tolist() for n in lengths_B]
        )


def _rows(rng, n, m):
    return rng.normal(size=(n, m)).tolist()


matmul.refuses(
    sizes_do_not_fit,
    hint="A row of A has as many entries as B has rows, and within A and within B all rows have one length. Otherwise "
    "there is no product: raise ValueError.",
)
matmul.unchanged(
    lambda rng: dict(A=_rows(rng, 3, 2), B=_rows(rng, 2, 2)),
    hint="Write into rows that you made yourself, never into those of A or B.",
)

RAGGED, MISFIT = "len(widths) > 1", "len(A) > 0 and len(A[0]) != len(B)"
PRODUCT = "[[dot(row, column) for column in columns_of_B] for row in A]"
BY_INDEX = "[[sum(row[k] * B[k][j] for k in range({})) for j in range(len(B[0]))] for row in A]"
UNCHECKED_SIZES = {RAGGED: "False", MISFIT: "False"}
ONE_ROW = (
    "All rows of the result are one and the same list: `[[0] * p] * n` repeats a reference to a single row. Make a new "
    "row for each i."
)
FIRST_ROWS = "Only the first row of A and of B is measured. A later row can be shorter or longer, so compare them all."

matmul.mistakes(
    edit(PRODUCT, "[[x * y for x, y in zip(row_a, row_b)] for row_a, row_b in zip(A, B)]",
         "Entries at the same position are multiplied. That is the elementwise product, `A * B` in NumPy. Entry (i, j) "
         "of the matrix product is a whole dot product.", also=UNCHECKED_SIZES),
    edit("column in columns_of_B", "column in B",
         "Rows of A are multiplied by rows of B. Take columns of B: entry k of a column is in row k.",
         also=UNCHECKED_SIZES),
    edit("for row in A]", "for row in zip(*A)]",
         "Columns of A are multiplied by columns of B. The matrix product takes rows of A.", also=UNCHECKED_SIZES),
    edit("for name, rows in", "A, B = B, A\n    for name, rows in",
         "This is B times A. The order matters: rows come from the first matrix, columns from the second.",
         also={'f"rows of A have {len(A[0])} entries, columns of B have {len(B)}"': '"sizes do not fit"'}),
    edit(PRODUCT, "[[dot(row, column) for row in A] for column in columns_of_B]",
         "Rows and columns of the result are exchanged. Row i of the result belongs to row i of A."),
    edit(PRODUCT, "[[sum(dot(row, column) for row in A) for column in columns_of_B]] * len(A)", ONE_ROW,
         see=WHAT_GOES_WRONG),
    edit("dot(row", "dot(A[-1]", ONE_ROW, see=WHAT_GOES_WRONG),
    edit("dot(row, column)", "row[-1] * column[-1]",
         "Only the last product of each dot product is left: `=` overwrites. Add to what is there with `+=`.",
         see=MULTIPLY),
    edit(PRODUCT, f"np.cumsum({PRODUCT}).reshape(len(A), -1).tolist()",
         "The running total is not set back to 0 for each entry, so every entry includes all earlier ones. Start it "
         "inside the loop over j.", see=MULTIPLY),
    edit(PRODUCT, f"np.cumsum({PRODUCT}, axis=1).tolist()",
         "The running total is set back to 0 once per row, so each entry includes those to its left. Start it inside "
         "the loop over j.", see=MULTIPLY),
    edit("dot(row, column)", "sum(row[k] * column[k] for k in range(len(A)))",
         "The inner loop has the wrong length: it runs over the rows of A. The sum runs over the shared size, the "
         "number of columns of A."),
    edit("dot(row, column)", "sum(row[k] * column[k] for k in range(len(columns_of_B)))",
         "The inner loop has the wrong length: it runs over the columns of B. The sum runs over the shared size, the "
         "number of rows of B."),
    edit(PRODUCT, "[dot(row, column) for row in A for column in columns_of_B]",
         "The result is one long list. Keep a list for each row: n rows of p entries."),
    edit(PRODUCT, "[dot(row, column) for row, column in zip(A, columns_of_B)]",
         "Only row i times column i is computed: the diagonal. Multiply every row by every column."),
    edit(RAGGED, "False",
         "Sizes that do not fit give numbers instead of a ValueError: entries without a partner are silently dropped, "
         "as by `zip`.", see=WHAT_GOES_WRONG, also={MISFIT: "False", CHECK: "False"}),
    edit(RAGGED, "False",
         "`zip(*B)` silently cuts every row of B to the shortest one. Compare the lengths of the rows first, or use "
         "`zip(*B, strict=True)`.", see=WHAT_GOES_WRONG, also={MISFIT: "False"}),
    edit(RAGGED, "False", FIRST_ROWS, see=WHAT_GOES_WRONG, also={PRODUCT: BY_INDEX.format("len(B)")}),
    edit(RAGGED, "False", FIRST_ROWS, see=WHAT_GOES_WRONG, also={CHECK: "False"}),
    edit('"A": A, ', "",
         "The rows of A are not compared with each other. If their lengths differ, raise a ValueError, as for B.",
         see=WHAT_GOES_WRONG, also={CHECK: "False"}),
    edit(PRODUCT, BY_INDEX.format("len(B)"),
         "Nothing is checked, and the sum runs over the rows of B. If a row of A is longer, its last entries are "
         "silently dropped; if it is shorter, there is an IndexError. Compare sizes first and raise ValueError.",
         see=WHAT_GOES_WRONG, also=UNCHECKED_SIZES),
    edit(PRODUCT, BY_INDEX.format("len(A[0])"),
         "Nothing is checked, and the sum runs over the columns of A. Sizes that do not fit then end in an IndexError "
         "or in numbers that mean nothing. Compare sizes first and raise ValueError.", see=WHAT_GOES_WRONG,
         also=UNCHECKED_SIZES),
    edit(PRODUCT, f"np.array({PRODUCT})",
         "The result is a NumPy array. A and B are lists of rows, so return one as well: no NumPy is needed."),
    edit(f"return {PRODUCT}", f"A[:] = {PRODUCT}\n    return A",
         "The product is written into the rows of A, which overwrites the caller's matrix. Build a new list."),
)  # fmt: skip


# pairwise_scores -------------------------------------------------------------------------------------------------

pairwise_scores = Exercise(solutions.pairwise_scores, section="Every query with every key", minutes=10, difficulty=2)


@pairwise_scores.property(
    "scores every query with every key",
    points=2,
    hint="The result has a row for each query and a column for each key: the queries times the transpose of the keys.",
)
def every_query_every_key(rng):
    yield dict(Q=THE_CAT_SAT, K=THE_CAT_SAT)
    yield dict(Q=rng.normal(size=(3, 4)), K=rng.normal(size=(5, 4)))
    yield dict(Q=rng.normal(size=(4, 4)), K=rng.normal(size=(4, 4)))
    yield dict(Q=rng.integers(-5, 6, size=(2, 3)), K=rng.integers(-5, 6, size=(1, 3)))
    yield dict(Q=rng.integers(-5, 6, size=(2, 3)), K=rng.normal(size=(4, 3)))


@pairwise_scores.property(
    "moves one column when one key changes",
    points=1,
    probe=probes.moved,
    hint="Column j belongs to key j alone. No other number may change, not even in its last bit.",
)
def one_key_moves_one_column(rng):
    Q, K = rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    other = K.copy()
    other[2] += 1.0
    yield dict(Q=Q, K=K, name="K", replacement=other)


@pairwise_scores.property(
    "works on stacks, with leading dimensions that broadcast",
    points=2,
    hint="Exchange the last two axes of K and leave the leading ones where they are.",
)
def leading_dimensions(rng):
    yield dict(Q=rng.normal(size=(2, 3, 4)), K=rng.normal(size=(2, 5, 4)))
    yield dict(Q=rng.normal(size=(2, 2, 2)), K=rng.normal(size=(2, 2, 2)))
    yield dict(Q=rng.normal(size=(5, 3, 4)), K=rng.normal(size=(2, 1, 2, 4)))
    yield dict(Q=rng.normal(size=(3, 2, 4)), K=rng.normal(size=(5, 4)))


@pairwise_scores.property(
    "scores 2000 queries with 2000 keys in under two seconds",
    points=1,
    probe=probes.in_time,
    hint="Use no Python loop. One matrix product computes all four million scores.",
)
def fast(rng):
    shapes = {"Q": [2000, 8], "K": [2000, 8]}
    yield dict(seconds=2.0, seed=int(rng.integers(2**31)), entries=int(rng.integers(2**31)), shapes=shapes)


pairwise_scores.refuses(
    lambda rng: [
        dict(Q=rng.normal(size=(3, width_Q)), K=rng.normal(size=(5, width_K)))
        for width_Q, width_K in ((4, 2), (4, 1), (1, 4))
    ],
    title="refuses queries and keys of different widths",
    hint="NumPy's matrix product raises ValueError for you. `*` and `einsum` silently stretch a width of 1: "
    "with them, compare the last sizes of Q and K first.",
)
pairwise_scores.unchanged(
    lambda rng: dict(Q=rng.normal(size=(3, 2)), K=rng.normal(size=(4, 2))),
    hint="Write nothing into Q or K, and do not change their shapes in place.",
)

SCORES = "Q @ np.swapaxes(K, -1, -2)"
UNCHECKED_WIDTHS = {"Q.ndim < 2 or K.ndim < 2 or Q.shape[-1] != K.shape[-1]": "False"}

pairwise_scores.mistakes(
    edit("np.swapaxes(K, -1, -2)", "K.T",
         "`K.T` reverses all axes. For a stack of matrices it also moves the leading axes to the end. Exchange the "
         "last two axes only.", see=WHAT_GOES_WRONG),
    edit("K, -1, -2", "K, 1, 2",
         "Axes 1 and 2 are exchanged by number, which is right for a stack of exactly one leading dimension. Count "
         "from the end: the last two axes are -2 and -1.", see=WHAT_GOES_WRONG, also=UNCHECKED_WIDTHS),
    edit("K, -1, -2", "K, 0, 1",
         "Axes 0 and 1 are exchanged. In a stack these are not the last two: count from the end, -2 and -1.",
         see=WHAT_GOES_WRONG),
    edit("np.swapaxes(K, -1, -2)", "K",
         "K is not transposed: `Q @ K` takes dot products with the columns of K. Keys are rows, so exchange the last "
         "two axes of K first."),
    edit("np.swapaxes(K, -1, -2)", "K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2])",
         "`reshape` keeps the numbers in their order and only cuts new rows from them. To exchange axes, use "
         "`np.swapaxes(K, -1, -2)`."),
    edit("Q, K = np.asarray(Q, dtype=float)", "kind = np.asarray(Q).dtype\n    Q, K = np.asarray(Q, dtype=float)",
         "The scores get the dtype of Q, so queries of whole numbers cut the scores to whole numbers. Let the product "
         "choose the dtype.", also={f"return {SCORES}": f"return ({SCORES}).astype(kind)"}),
    edit(SCORES, "K @ np.swapaxes(Q, -1, -2)",
         "Rows and columns are exchanged: this is K times the transpose of Q. A row of scores belongs to a query, a "
         "column to a key."),
    edit("swapaxes(K", "swapaxes(Q",
         "The queries are scored with themselves; K is never used.", also=UNCHECKED_WIDTHS),
    edit("Q @", "K @",
         "The keys are scored with themselves; Q is never used.", also=UNCHECKED_WIDTHS),
    edit(SCORES, "(Q * K).sum(axis=-1)",
         "Query i is scored with key i alone. Score every query with every key: n_q times n_k scores."),
    edit(SCORES, "np.swapaxes(Q, -1, -2) @ K",
         "Q is transposed instead of K, so the result is d by d. Transpose K: a row of scores belongs to a query."),
    edit(SCORES, f"{SCORES} / np.sqrt(Q.shape[-1])",
         "The scores are divided by the square root of d. That belongs to the attention chapter; here return the plain "
         "dot products.", see=WHY_SCORES_GROW),
    edit(SCORES, f"np.exp({SCORES}) / np.exp({SCORES}).sum(axis=-1, keepdims=True)",
         "These are weights: you took a softmax of the scores. That comes later; here, return the plain dot products."),
    edit(SCORES, f"{SCORES} / Q.shape[-1]",
         "The scores are divided by d. Return the plain dot products, which are sums and not averages.",
         see=WHY_SCORES_GROW),
    edit(SCORES, f"{SCORES} / (np.linalg.norm(Q, axis=-1)[..., :, None] * np.linalg.norm(K, axis=-1)[..., None, :])",
         "The vectors are divided by their lengths first, so these are cosines. A score keeps the lengths.",
         see=DIRECTION),
    edit(SCORES, "np.sqrt(sum((Q[..., :, None, i] - K[..., None, :, i]) ** 2 for i in range(Q.shape[-1])))",
         "These are distances between queries and keys. A dot product is large where a distance is small.",
         see=MULTIPLY, also=UNCHECKED_WIDTHS),
    edit(SCORES, "np.inner(Q, K)",
         "Every matrix of one stack is multiplied by every matrix of the other: `np.inner` and `np.dot` do that with "
         "leading dimensions. `@` pairs the matrices up.", see=WHAT_GOES_WRONG),
    edit(SCORES, 'np.einsum("id,jd->ij", Q, K)',
         "The product takes exactly two axes for each array, as subscripts like `id,jd->ij` do. Leading dimensions "
         "pass through `...` in front of the subscripts, or through `@`.", see=WHAT_GOES_WRONG, also=UNCHECKED_WIDTHS),
    edit(SCORES, "Q[..., : K.shape[-1]] @ np.swapaxes(K[..., : Q.shape[-1]], -1, -2)",
         "If the widths of queries and keys differ, the wider ones are cut to fit. Raise ValueError: such a pair has "
         "no score.", see=WHAT_GOES_WRONG, also=UNCHECKED_WIDTHS),
    edit(SCORES, 'np.einsum("...qd,...kd->...qk", Q, K)',
         "A width of 1 is stretched to fit the other, as `*` and `einsum` silently do. Compare the widths and raise "
         "ValueError.", see=WHAT_GOES_WRONG, also=UNCHECKED_WIDTHS),
    edit(f"return {SCORES}", f"scores = {SCORES}\n    K *= 2\n    return scores",
         "The caller's arrays are reshaped or scaled in place. Make new arrays."),
)  # fmt: skip


# score_variance --------------------------------------------------------------------------------------------------

score_variance = Exercise(solutions.score_variance, section=WHY_SCORES_GROW, minutes=10, difficulty=2)

_SAMPLES = 8000  # the relative error of the variance is then at most 2.5% (d = 2); d itself is accepted within 16%


@score_variance.property(
    "comes out near d",
    points=3,
    probe=probes.lands_in,
    hint="Draw n_samples queries and n_samples keys of d entries each, take one dot product for "
    "each pair, then the variance of these n_samples numbers.",
)
def near_d(rng):
    for d in (2, 3, 5, 24):
        yield dict(d=d, n_samples=_SAMPLES, seed=int(rng.integers(2**31)), regions=_regions(d))
    yield dict(d=40, n_samples=100, seed=int(rng.integers(2**31)), spread=_spread(40, 100))


@score_variance.property(
    "draws from rng and from nothing else",
    points=2,
    probe=probes.seeded,
    hint="Every random number comes from a method of `rng`, such as rng.normal(size=...).",
)
def only_rng(rng):
    # As many numbers as two tables hold; half as many bits for those who draw in single precision.
    yield dict(d=3, n_samples=40, seed=int(rng.integers(2**31)), least=3 * 40)


def _spread(d, n_samples):
    """How far apart the results of other seeds lie, if each comes from that many pairs, and what more or less means.

    For n pairs the standard deviation is d * sqrt((2 + 6 / d) / n). Found from 24 seeds, it is within these bounds but
    once in a million times. That of a table of n x n products is less than a quarter of it.
    """
    right = d * math.sqrt((2 + 6 / d) / n_samples)
    return {"like samples": [0.4 * right, 2.2 * right], "hardly": [0.0, 0.4 * right]}


def _regions(d):
    """Where a right answer lands, and where the usual wrong ones do. They do not overlap for d = 2, 3, 5 and 24."""

    def around(center, width):
        return [center * (1 - width), center * (1 + width)]

    return {
        "d": around(d, 0.16),
        "one": around(1, 0.16),
        "the square root of d": around(math.sqrt(d), 0.13),
        "twice d": around(2 * d, 0.25),
        "one divided by d": around(1 / d, 0.16),
        "n_samples": [100, 10 * _SAMPLES],
    }


QUERIES, KEYS = "queries = rng.standard_normal((n_samples, d))", "keys = rng.standard_normal((n_samples, d))"
PAIRS = 'np.einsum("nd,nd->n", queries, keys)'
ABOUT_ONE = (
    "The result is near 1 whatever d is. Either the variance was taken of single products, before adding them up, or "
    "the scores or the result were divided by something that depends on d. Take the variance of the plain dot "
    "products."
)

score_variance.mistakes(
    edit(".var()", ".std()",
         "This is the standard deviation, the square root of the variance. Use the variance."),
    edit(PAIRS, "(queries * keys)", ABOUT_ONE),
    edit(PAIRS, f"({PAIRS} / np.sqrt(d))", ABOUT_ONE),
    edit(PAIRS, f"({PAIRS} / d)",
         "The scores were averages over the d products, so their variance shrinks as 1/d. A dot product is a sum: do "
         "not divide."),
    edit(KEYS, "keys = queries",
         "The same vector serves as query and as key. The dot product of a vector with itself is its squared length, "
         "with variance 2d. Draw k separately."),
    edit("->n", "->d",
         "The sum runs over the samples and not over the d entries, so there are d numbers instead of n_samples. Or d "
         "and n_samples are exchanged. Take one dot product per pair."),
    edit(QUERIES, "queries = rng.standard_normal((1, d))",
         "One query is kept for all samples. Its own length then decides the result. Draw a new query for each key."),
    edit(KEYS, "keys = rng.standard_normal((1, d))",
         "One key is kept for all samples. Its own length then decides the result. Draw a new key for each query."),
    edit(QUERIES, "queries = rng.random((n_samples, d))",
         "The numbers are uniform between 0 and 1: `rng.random` and `rng.uniform` draw those. Standard normal ones "
         "have mean 0 and variance 1: `rng.normal` or `rng.standard_normal`.",
         also={KEYS: "keys = rng.random((n_samples, d))"}),
    edit(".var()", ".mean()",
         "This is the mean of the scores, which is near 0 for any d. Return the variance."),
    edit(f"float({PAIRS}.var())", "(queries * keys).var(axis=0)",
         "This is the variance of each component, an array of d numbers. First add up the products of each pair, then "
         "take one variance of all scores."),
    edit(QUERIES, "n_samples = min(n_samples, 1000)  # a part of a large table stands for it\n    " + QUERIES,
         "Every query is scored with every key, so this is the variance of a whole n_samples x n_samples table. Take "
         "one dot product per pair: (q * k).sum(axis=1).", also={PAIRS: "(queries @ keys.T)"}),
    edit(QUERIES, "return d * (1 + 0.01 * rng.standard_normal())",
         "The result is d with a little noise, from a formula. Draw the queries and keys, and measure their scores."),
    edit(f"float({PAIRS}.var())", PAIRS,
         "These are the scores themselves. Return their variance, one number."),
    edit(QUERIES, f"rng = np.random\n    {QUERIES}",
         "The numbers come from NumPy's global random state (`np.random.normal` and friends). Draw from `rng`, so that "
         "the caller decides the seed."),
    edit(QUERIES, f"rng = np.random.default_rng(0)\n    {QUERIES}",
         "The function creates its own generator with a fixed seed, so it returns the same number for every `rng`. Or "
         "it returns d itself without drawing at all. Use the `rng` it is given."),
    edit(QUERIES, f"rng = np.random.default_rng()\n    {QUERIES}",
         "The function creates its own generator, so the same `rng` gives a different number each time. Use the `rng` "
         "it is given."),
)  # fmt: skip


written = Written(
    points=3,
    rubric="""
One point each. The same idea in other words earns the same.

1. **Range.** A cosine is between -1 and 1 whatever d is, so scores no longer grow with d. An answer may go further: for
   random vectors the cosine is a dot product of variance d divided by two lengths near sqrt(d), so its variance is
   about 1/d and it *shrinks* with d. At d = 64 its typical size is 1/8.
2. **Loss.** Length is gone. A key can no longer count more or less for all queries, and a query can no longer make its
   weights sharper by being longer. The student's keys show it: equal direction, different lengths, equal cosines, and
   dot products that differ by the ratio of the lengths. Half a point for "length is lost" alone, with no example or
   no consequence.
3. **Cost or repair.** One sensible remark on what would have to be added, or on the cost: scores within [-1, 1] need a
   multiplier (learned, or at least larger than 1) before large and small scores can differ much; or the zero vector
   needs a special rule; or each vector costs an extra square root and division. The cosine with a learned factor *is*
   query-key normalization (Henry et al. 2020). Variants of it, with one learned factor per entry, are used in OLMo 2,
   Gemma 3 and Qwen3, so an answer that only says it cannot work does not earn this point.

Model answer: "Cosines are between -1 and 1 for every d, so nothing grows; for random vectors they even shrink, as
1/sqrt(d). What we lose is length. With q = (1, 0), k1 = (1, 0), k2 = (3, 0) the dot products are 1 and 3 while both
cosines are 1, so a model could no longer make k2 count more than k1. And because no score is above 1, the best match
can only be a little ahead of the rest: we would have to multiply by some number. If that number is learned, this is
query-key normalization."
""",
)
