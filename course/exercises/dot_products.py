"""Exercises of the dot product chapter: what must hold, on which inputs, and the usual mistakes."""

import math

import numpy as np

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import disagreeing
from solutions import dot_products as solutions

THE_CAT_SAT = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])


# dot -------------------------------------------------------------------------------------------------------------

dot = Exercise(solutions.dot, section="Multiply, then add", minutes=5, difficulty=1)


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


@dot.property(
    "refuses vectors of different lengths",
    points=2,
    probe=probes.error_of,
    hint="Compare the two lengths first, and raise ValueError if they differ.",
)
def lengths_differ(rng):
    short, long = rng.normal(size=2).tolist(), rng.normal(size=3).tolist()
    yield dict(a=long, b=short)
    yield dict(a=short, b=long)
    yield dict(a=[], b=rng.normal(size=1).tolist())
    for lengths in ((1, 3), (3, 1)):  # what NumPy would stretch
        a, b = (rng.normal(size=length).tolist() for length in lengths)
        yield dict(a=a, b=b)


@dot.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    hint="Read the entries by index or in a loop. `pop`, `sort` and assignments such as `a[i] = ...` write "
    "into the caller's list.",
)
def dot_is_pure(rng):
    a, b = disagreeing(rng, 4)
    yield dict(a=(10 * a).tolist(), b=(10 * b).tolist())  # a product that is not 0 as a whole number either


@dot.misconception(
    "Vectors of different lengths get a number, because entries without a partner do not count: `zip` "
    "silently drops them. Compare the two lengths first, or use `zip(a, b, strict=True)`.",
    section="What goes wrong",
)
def zip_truncates(a, b):
    return sum(x * y for x, y in zip(a, b))


@dot.misconception(
    "The loop runs over the length of `a` alone, so a longer `b` is silently cut short and a shorter "
    "one ends in an IndexError. Check both lengths before the loop and raise ValueError.",
    section="What goes wrong",
)
def length_of_a_alone(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@dot.misconception(
    "A number is returned for vectors of different lengths. Nothing sensible can be computed from them, "
    "so raise ValueError to tell the caller.",
    section="What goes wrong",
)
def mismatch_gives_zero(a, b):
    if len(a) != len(b):
        return 0.0
    return sum(x * y for x, y in zip(a, b))


@dot.misconception(
    "None is returned for vectors of different lengths. Raise ValueError instead: a None that goes unnoticed "
    "causes an error later, somewhere else.",
    section="What goes wrong",
)
def mismatch_gives_none(a, b):
    if len(a) == len(b):
        return sum(x * y for x, y in zip(a, b))


@dot.misconception(
    "The loop runs over the length of `b` alone, so a longer `a` is silently cut short and a shorter "
    "one ends in an IndexError. Check both lengths before the loop and raise ValueError.",
    section="What goes wrong",
)
def length_of_b_alone(a, b):
    total = 0.0
    for i in range(len(b)):
        total += a[i] * b[i]
    return total


@dot.misconception(
    "A vector of one entry is stretched to the length of the other, as NumPy's `*` silently does. Compare the "
    "two lengths first.",
    section="What goes wrong",
)
def one_entry_stretched(a, b):
    return float(np.sum(np.multiply(a, b)))


@dot.misconception(
    "Only a longer `a` is refused. A longer `b` is just as wrong: compare with `!=`.", section="What goes wrong"
)
def refuses_longer_a_only(a, b):
    if len(a) > len(b):
        raise ValueError("lengths differ")
    return sum(x * y for x, y in zip(a, b))


@dot.misconception(
    "Only a longer `b` is refused. A longer `a` is just as wrong: compare with `!=`.", section="What goes wrong"
)
def refuses_longer_b_only(a, b):
    if len(a) < len(b):
        raise ValueError("lengths differ")
    return sum(x * y for x, y in zip(a, b))


@dot.misconception(
    "Unequal lengths are refused, but with the wrong exception: raise ValueError, as the docstring "
    "says. TypeError is for things of the wrong type."
)
def raises_type_error(a, b):
    if len(a) != len(b):
        raise TypeError
    return sum(x * y for x, y in zip(a, b))


@dot.misconception("A bare Exception says only that something went wrong. Raise ValueError, as the docstring says.")
def raises_bare_exception(a, b):
    if len(a) != len(b):
        raise Exception
    return sum(x * y for x, y in zip(a, b))


@dot.misconception(
    "`assert` raises AssertionError, and Python run with -O leaves it out. For a caller's mistake, "
    "`raise ValueError(...)`."
)
def asserts(a, b):
    assert len(a) == len(b)
    return sum(x * y for x, y in zip(a, b))


@dot.misconception(
    "The entries at each position are added, but should be multiplied. Multiply first, then add the products."
)
def adds_entries(a, b):
    return _checked(a, b, sum(x + y for x, y in zip(a, b)))


@dot.misconception(
    "The entries at each position are divided, but should be multiplied. Multiply first, then add the products."
)
def divides_entries(a, b):
    return _checked(a, b, sum(x / y for x, y in zip(a, b)))


_ONE_VECTOR = (
    "Only one of the two vectors is used. Multiply each entry of `a` by the entry of `b` at the same position."
)


@dot.misconception(_ONE_VECTOR)
def adds_the_first(a, b):
    return _checked(a, b, sum(a))


@dot.misconception(_ONE_VECTOR)
def adds_the_second(a, b):
    return _checked(a, b, sum(b))


@dot.misconception(_ONE_VECTOR)
def squares_the_first(a, b):
    return _checked(a, b, sum(x * x for x in a))


@dot.misconception(_ONE_VECTOR)
def squares_the_second(a, b):
    return _checked(a, b, sum(x * x for x in b))


@dot.misconception("The result is cut to a whole number. A dot product of floats is a float: leave `int` out.")
def cut_to_a_whole_number(a, b):
    return _checked(a, b, int(sum(x * y for x, y in zip(a, b))))


@dot.misconception(
    "The running total starts at 1, so every answer is one too large. A sum of nothing is 0: start there."
)
def starts_at_one(a, b):
    return _checked(a, b, 1 + sum(x * y for x, y in zip(a, b)))


@dot.misconception("The products are returned as a list. The dot product is one number, so add them up.")
def list_of_products(a, b):
    return _checked(a, b, [x * y for x, y in zip(a, b)])


@dot.misconception("The last pair is left out: `range(n - 1)` ends at n - 2. `range(n)` already stops before n.")
def drops_the_last(a, b):
    return _checked(a, b, sum(a[i] * b[i] for i in range(len(a) - 1)))


@dot.misconception("The first pair is left out: positions count from 0, so a loop over `range(1, n)` misses one.")
def drops_the_first(a, b):
    return _checked(a, b, sum(a[i] * b[i] for i in range(1, len(a))))


@dot.misconception(
    "`return` is inside the loop, so the function ends after the first product. Move it out, to the level of the `for`."
)
def returns_in_the_loop(a, b):
    return _checked(a, b, next((x * y for x, y in zip(a, b)), 0.0))


@dot.misconception("Only the last product is left: `total = x * y` overwrites. Add to what is there with `+=`.")
def overwrites(a, b):
    return _checked(a, b, a[-1] * b[-1] if a else 0.0)


@dot.misconception(
    "Every entry of `a` is multiplied by every entry of `b`: two nested loops give the product of the two "
    "sums. Multiply entry i of `a` by entry i of `b` and by no other."
)
def every_pair(a, b):
    return _checked(a, b, sum(x * y for x in a for y in b))


@dot.misconception("The products are multiplied together. They should be added.")
def product_of_products(a, b):
    return _checked(a, b, math.prod(x * y for x, y in zip(a, b)))


@dot.misconception("The signs are lost. A negative product must lower the total: it is how two vectors disagree.")
def loses_signs(a, b):
    return _checked(a, b, sum(abs(x * y) for x, y in zip(a, b)))


@dot.misconception(
    "The differences are squared and added. That measures distance, which is small for similar vectors; "
    "the dot product is large for them."
)
def squared_distance(a, b):
    return _checked(a, b, sum((x - y) ** 2 for x, y in zip(a, b)))


@dot.misconception("The sum is divided by the number of entries. That is an average; the dot product is the plain sum.")
def average(a, b):
    return _checked(a, b, sum(x * y for x, y in zip(a, b)) / max(len(a), 1))


@dot.misconception("Empty vectors are refused. They have the same length, 0, and a sum of no products is 0.0.")
def refuses_empty(a, b):
    if not a or len(a) != len(b):
        raise ValueError("empty")
    return sum(x * y for x, y in zip(a, b))


@dot.misconception(
    "The total starts with the first product, and empty vectors have none. Start from 0 and let the "
    "loop take all entries."
)
def starts_with_the_first_product(a, b):
    _checked(a, b, None)
    total = a[0] * b[0]
    for i in range(1, len(a)):
        total += a[i] * b[i]
    return total


@dot.misconception(
    "One of the vectors is read backward. Multiply entry i of `a` by entry i of `b`, from the first to the last."
)
def one_reversed(a, b):
    return _checked(a, b, sum(x * y for x, y in zip(a, reversed(b))))


@dot.misconception("The sign of the result is lost. A negative dot product is a valid answer: the vectors disagree.")
def absolute_result(a, b):
    return _checked(a, b, abs(sum(x * y for x, y in zip(a, b))))


@dot.misconception(
    "The result is divided by the lengths of both vectors. That is the cosine, the next exercise.",
    section="Direction without length",
)
def cosine_too_early(a, b):
    size = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return _checked(a, b, sum(x * y for x, y in zip(a, b)) / size if size else 0.0)


@dot.misconception(
    "The products are written into `a`, which belongs to the caller. Add them up without storing them there."
)
def products_written_into_a(a, b):
    if len(a) != len(b):
        raise ValueError("lengths differ")
    for i in range(len(a)):
        a[i] *= b[i]
    return sum(a)


@dot.misconception(
    "`pop` removes the entries from the caller's lists, which are empty afterward. Read them without removing them."
)
def pops(a, b):
    if len(a) != len(b):
        raise ValueError("lengths differ")
    total = 0.0
    while a:
        total += a.pop() * b.pop()
    return total


def _checked(a, b, result):
    """`result`, unless the lengths differ: these mistakes are about the sum and not about the check."""
    if len(a) != len(b):
        raise ValueError("lengths differ")
    return result


# cosine_similarity -----------------------------------------------------------------------------------------------

cosine_similarity = Exercise(solutions.cosine_similarity, section="Direction without length", minutes=10, difficulty=1)


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


@cosine_similarity.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    rtol=1e-11,
    hint="`a /= ...` writes into the caller's array. `a = a / ...` makes a new one.",
)
def cosine_is_pure(rng):
    a, b = disagreeing(rng, 3)
    yield dict(a=a, b=b)


def _divided(a, b, denominator, numerator=None):
    """A quotient with the right answers for zero vectors and for lengths that differ."""
    if a.shape != b.shape:
        raise ValueError("shapes differ")
    if not a.any() or not b.any():
        return 0.0
    return float((a @ b if numerator is None else numerator) / denominator)


@cosine_similarity.misconception(
    "This is the plain dot product. Divide by both lengths, or a vector twice as long counts as twice as similar."
)
def only_the_dot_product(a, b):
    return _divided(a, b, 1.0)


@cosine_similarity.misconception(
    "The square roots are missing: you divide by the sums of squares. A length is the square root of that sum."
)
def squared_lengths(a, b):
    return _divided(a, b, (a @ a) * (b @ b))


@cosine_similarity.misconception(
    "Only the length of `a` is divided out. That is the projection of `b` on `a`, which grows "
    "with `b`; divide by the length of `b` as well.",
    section="Length, angle, shadow",
)
def only_length_of_a(a, b):
    return _divided(a, b, np.linalg.norm(a))


@cosine_similarity.misconception(
    "Only the length of `b` is divided out. That is the projection of `a` on `b`, which grows "
    "with `a`; divide by the length of `a` as well.",
    section="Length, angle, shadow",
)
def only_length_of_b(a, b):
    return _divided(a, b, np.linalg.norm(b))


def _clipped(a, b, lengths, numerator=None):
    return float(np.clip(_divided(a, b, lengths, numerator), -1.0, 1.0))


_ONE_LENGTH = "Only one length is divided out, and then the result is clipped at -1 and 1. Divide by both lengths."
_LENGTH_TWICE = "The length of one vector is used twice. Divide by the length of `a` and by the length of `b`."
_VECTOR_TWICE = "One vector is multiplied by itself. Take the dot product of `a` with `b`."


@cosine_similarity.misconception(_ONE_LENGTH, section="Length, angle, shadow")
def only_length_of_a_clipped(a, b):
    return _clipped(a, b, np.linalg.norm(a))


@cosine_similarity.misconception(_ONE_LENGTH, section="Length, angle, shadow")
def only_length_of_b_clipped(a, b):
    return _clipped(a, b, np.linalg.norm(b))


@cosine_similarity.misconception(_LENGTH_TWICE, section="Length, angle, shadow")
def length_of_a_twice(a, b):
    return _clipped(a, b, a @ a)


@cosine_similarity.misconception(_LENGTH_TWICE, section="Length, angle, shadow")
def length_of_b_twice(a, b):
    return _clipped(a, b, b @ b)


@cosine_similarity.misconception(_VECTOR_TWICE)
def a_with_itself(a, b):
    return _clipped(a, b, np.linalg.norm(a) * np.linalg.norm(b), a @ a)


_CUT = "A vector is cut to whole numbers, or to True and False. Convert it to floats: np.asarray(a, dtype=float)."
_TIMES_LENGTH = "A vector is multiplied by its length. Divide by it, so that each vector has length 1."


def _of(a, b):
    return _clipped(a, b, np.linalg.norm(a) * np.linalg.norm(b))


cosine_similarity.misconception(_CUT)(lambda a, b: _of(np.trunc(a), b))
cosine_similarity.misconception(_CUT)(lambda a, b: _of(a, np.trunc(b)))
cosine_similarity.misconception(_CUT)(lambda a, b: _of((a != 0) * 1.0, b))
cosine_similarity.misconception(_CUT)(lambda a, b: _of(a, (b != 0) * 1.0))


@cosine_similarity.misconception(_TIMES_LENGTH)
def times_length_of_a(a, b):
    return _clipped(a, b, np.linalg.norm(b) / np.linalg.norm(a) if a.any() else 1.0)


@cosine_similarity.misconception(_TIMES_LENGTH)
def times_length_of_b(a, b):
    return _clipped(a, b, np.linalg.norm(a) / np.linalg.norm(b) if b.any() else 1.0)


@cosine_similarity.misconception(_VECTOR_TWICE)
def a_alone(a, b):
    return _divided(a, a, a @ a)


@cosine_similarity.misconception(_VECTOR_TWICE)
def b_alone(a, b):
    return _divided(b, b, b @ b)


@cosine_similarity.misconception(_VECTOR_TWICE)
def b_with_itself(a, b):
    return _clipped(a, b, np.linalg.norm(a) * np.linalg.norm(b), b @ b)


@cosine_similarity.misconception(
    "The two lengths are added in the denominator. They should be multiplied: the dot "
    "product is |a| times |b| times the cosine.",
    section="Length, angle, shadow",
)
def lengths_added(a, b):
    return _divided(a, b, np.linalg.norm(a) + np.linalg.norm(b))


@cosine_similarity.misconception(
    "`len` counts the entries of a vector. The length needed here is geometric: the square root of the sum of squares.",
    section="Length, angle, shadow",
)
def number_of_entries(a, b):
    return _divided(a, b, len(a) * len(b))


@cosine_similarity.misconception(
    "The dot product is divided by the number of entries. Divide by the two geometric lengths instead.",
    section="Length, angle, shadow",
)
def mean_product(a, b):
    return _divided(a, b, len(a))


@cosine_similarity.misconception(
    "The absolute values are added to get a length. Square them, add, and take the root: that is Pythagoras.",
    section="Length, angle, shadow",
)
def sum_of_absolute_values(a, b):
    return _divided(a, b, np.abs(a).sum() * np.abs(b).sum())


@cosine_similarity.misconception(
    "The sign is lost. A cosine below zero says that the vectors point apart, the opposite of similar."
)
def absolute_value(a, b):
    return abs(_divided(a, b, np.linalg.norm(a) * np.linalg.norm(b)))


@cosine_similarity.misconception(
    "Negative cosines are cut off at zero. A cosine runs from -1 to 1, and -1 means the opposite direction."
)
def cut_off_at_zero(a, b):
    return max(0.0, _divided(a, b, np.linalg.norm(a) * np.linalg.norm(b)))


@cosine_similarity.misconception(
    "This is one minus the cosine, the cosine distance: 0 for the same direction. The similarity is 1 there."
)
def distance(a, b):
    return 1.0 - _divided(a, b, np.linalg.norm(a) * np.linalg.norm(b))


@cosine_similarity.misconception(
    "This is the angle itself, in radians. The cosine was already the answer; leave out the arccos."
)
def angle_in_radians(a, b):
    cosine = _divided(a, b, np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.arccos(np.clip(cosine, -1, 1))) if a.any() and b.any() else 0.0


@cosine_similarity.misconception(
    "This is the angle itself, in radians. The cosine was already the answer; leave out the arccos."
)
def angle_in_radians_of_zero_too(a, b):
    return float(np.arccos(np.clip(_divided(a, b, np.linalg.norm(a) * np.linalg.norm(b)), -1, 1)))


@cosine_similarity.misconception(
    "This is the angle itself, in degrees. The cosine was already the answer; leave out the arccos."
)
def angle_in_degrees(a, b):
    return math.degrees(angle_in_radians(a, b))


@cosine_similarity.misconception(
    "The cosine is rescaled to the range from 0 to 1. It runs from -1 to 1: leave it as "
    "it is, with 0 for vectors at a right angle."
)
def moved_between_zero_and_one(a, b):
    cosine = _divided(a, b, np.linalg.norm(a) * np.linalg.norm(b))
    return (1.0 + cosine) / 2.0 if a.any() and b.any() else 0.0


@cosine_similarity.misconception(
    "The largest entry is taken for the length. Square the entries, add, and take the root: that is Pythagoras.",
    section="Length, angle, shadow",
)
def largest_entries(a, b):
    return _divided(a, b, np.abs(a).max() * np.abs(b).max())


@cosine_similarity.misconception(
    "The mean is subtracted first. That is the correlation of the entries; the cosine takes the vectors as they are."
)
def correlation(a, b):
    if a.shape != b.shape:
        raise ValueError("shapes differ")
    centered_a, centered_b = a - a.mean(), b - b.mean()
    if not centered_a.any() or not centered_b.any():
        return 0.0
    return float(centered_a @ centered_b / (np.linalg.norm(centered_a) * np.linalg.norm(centered_b)))


@cosine_similarity.misconception(
    "A zero vector gives 0/0, which is nan. It has no direction to compare, so return 0.0 for it.",
    section="A vector with no direction",
)
def nan_for_zero(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


@cosine_similarity.misconception(
    "Only the first vector is checked for zero. The second can be zero as well.",
    section="A vector with no direction",
)
def only_a_is_tested(a, b):
    if np.linalg.norm(a) == 0:
        return 0.0
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


@cosine_similarity.misconception(
    "Only the second vector is checked for zero. The first can be zero as well.",
    section="A vector with no direction",
)
def only_b_is_tested(a, b):
    if np.linalg.norm(b) == 0:
        return 0.0
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


@cosine_similarity.misconception(
    "A zero vector counts as perfectly similar, 1. It has no direction at all, so it is similar to nothing: 0.0.",
    section="A vector with no direction",
)
def one_for_zero(a, b):
    if not a.any() or not b.any():
        return 1.0
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


@cosine_similarity.misconception(
    "A zero vector is refused with an error. Here it is allowed, and its similarity to anything is 0.0.",
    section="A vector with no direction",
)
def refuses_zero(a, b):
    if not a.any() or not b.any():
        raise ValueError("a zero vector has no direction")
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


_EPSILON = (
    "A small number in the denominator prevents the division by zero, but it also pulls every other cosine toward 0, "
    "and that of short vectors all the way. Treat the zero vector as a separate case."
)
_SHORT = (
    "Short vectors are treated as if they were zero. A number added to the lengths, a floor under them, or a "
    "comparison such as `np.isclose` does that. A short vector has a direction: compare with exactly 0."
)


def _with_epsilon(size):
    def added_to_the_product(a, b):
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) + size))

    return added_to_the_product


def _with_epsilon_for_each(size):
    def added_to_each_length(a, b):
        return float(a @ b / ((np.linalg.norm(a) + size) * (np.linalg.norm(b) + size)))

    return added_to_each_length


for _size in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
    cosine_similarity.misconception(_EPSILON, section="A vector with no direction")(_with_epsilon(_size))
    cosine_similarity.misconception(_EPSILON, section="A vector with no direction")(_with_epsilon_for_each(_size))
cosine_similarity.misconception(_SHORT, section="A vector with no direction")(_with_epsilon(1e-13))


@cosine_similarity.misconception(_SHORT, section="A vector with no direction")
def floor_under_each_length(a, b):
    return a @ b / (max(np.linalg.norm(a), 1e-8) * max(np.linalg.norm(b), 1e-8))


@cosine_similarity.misconception(_SHORT, section="A vector with no direction")
def short_counts_as_zero(a, b):
    if np.allclose(a, 0) or np.allclose(b, 0):
        return 0.0
    return _divided(a, b, np.linalg.norm(a) * np.linalg.norm(b))


@cosine_similarity.misconception(_SHORT, section="A vector with no direction")
def short_product_counts_as_zero(a, b):
    """Lengths 1e100 and 1e-100 have the product 1, so that pair is right."""
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return 0.0 if lengths < 1e-8 else a @ b / lengths


@cosine_similarity.misconception(_SHORT, section="A vector with no direction")
def floor_under_the_product(a, b):
    return a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-8)


@cosine_similarity.misconception(
    "A single square root is taken of the product of the two sums of squares. That product is too large for a "
    "float (it overflows) for long vectors, and rounds to 0 for short ones. Take the two roots first."
)
def root_of_the_product(a, b):
    if not a.any() or not b.any():
        return 0.0
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@cosine_similarity.misconception(
    "`a /= ...` writes into the caller's array. Write `a = a / ...`, which makes a new one."
)
def normalizes_in_place(a, b):
    return _normalized_in_place(*_checked_floats(a, b), both=True)


@cosine_similarity.misconception(
    "`a /= ...` writes into the caller's array. Write `a = a / ...`, which makes a new one."
)
def normalizes_a_in_place(a, b):
    return _normalized_in_place(*_checked_floats(a, b), both=False)


@cosine_similarity.misconception(
    "`a /= ...` writes into the caller's array, and an array of whole numbers cannot even "
    "hold the fractions. Write `a = a / ...`, which makes a new one."
)
def normalizes_anything_in_place(a, b):
    if a.shape != b.shape:
        raise ValueError("shapes differ")
    return _normalized_in_place(a, b, both=True)


def _checked_floats(a, b):
    if a.shape != b.shape:
        raise ValueError("shapes differ")
    return np.asarray(a, dtype=float), np.asarray(b, dtype=float)


def _normalized_in_place(a, b, both):
    if not a.any() or not b.any():
        return 0.0
    a /= np.linalg.norm(a)
    if both:
        b /= np.linalg.norm(b)
    return float(a @ b / (1.0 if both else np.linalg.norm(b)))


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


@matmul.property(
    "refuses sizes that do not fit",
    points=1,
    probe=probes.error_of,
    hint="A row of A has as many entries as B has rows, and within A and within B all rows have one length. Otherwise "
    "there is no product: raise ValueError.",
)
def sizes_do_not_fit(rng):
    for (n, m), (rows, p) in (((2, 3), (2, 3)), ((2, 2), (3, 2)), ((2, 1), (3, 2)), ((2, 3), (1, 2))):
        yield dict(A=_rows(rng, n, m), B=_rows(rng, rows, p))
    for lengths_A, lengths_B in (((2, 1), (2, 2)), ((2, 2), (3, 2)), ((2, 2), (2, 3))):
        yield dict(
            A=[rng.normal(size=n).tolist() for n in lengths_A], B=[rng.normal(size=n).tolist() for n in lengths_B]
        )


@matmul.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    hint="Write into rows that you made yourself, never into those of A or B.",
)
def matmul_is_pure(rng):
    yield dict(A=_rows(rng, 3, 2), B=_rows(rng, 2, 2))


def _rows(rng, n, m):
    return rng.normal(size=(n, m)).tolist()


def _product(A, B):
    """Rows times columns with every check in place: what the mistakes below start from."""
    if len({len(row) for row in A}) > 1 or len({len(row) for row in B}) > 1 or len(A[0]) != len(B):
        raise ValueError("sizes do not fit")
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*B)] for row in A]


@matmul.misconception(
    "Entries at the same position are multiplied. That is the elementwise product, `A * B` in NumPy. Entry "
    "(i, j) of the matrix product is a whole dot product."
)
def elementwise(A, B):
    return [[x * y for x, y in zip(row_a, row_b)] for row_a, row_b in zip(A, B)]


@matmul.misconception("Rows of A are multiplied by rows of B. Take columns of B: entry k of a column is in row k.")
def rows_with_rows(A, B):
    return [[solutions.dot(row_a, row_b) for row_b in B] for row_a in A]


@matmul.misconception("Columns of A are multiplied by columns of B. The matrix product takes rows of A.")
def columns_with_columns(A, B):
    return [[solutions.dot(column_a, column_b) for column_b in zip(*B)] for column_a in zip(*A)]


@matmul.misconception("This is B times A. The order matters: rows come from the first matrix, columns from the second.")
def swapped(A, B):
    return _product(B, A)


@matmul.misconception("Rows and columns of the result are exchanged. Row i of the result belongs to row i of A.")
def transposed(A, B):
    return [list(column) for column in zip(*_product(A, B))]


@matmul.misconception(
    "All rows of the result are one and the same list: `[[0] * p] * n` repeats a reference to a "
    "single row. Make a new row for each i.",
    section="What goes wrong",
)
def one_row_many_times(A, B):
    _product(A, B)
    C = [[0.0] * len(B[0])] * len(A)
    for i in range(len(A)):
        for j in range(len(B[0])):
            for k in range(len(B)):
                C[i][j] += A[i][k] * B[k][j]
    return C


@matmul.misconception(
    "All rows of the result are one and the same list: `[[0] * p] * n` repeats a reference to a "
    "single row. Make a new row for each i.",
    section="What goes wrong",
)
def one_row_written_many_times(A, B):
    return [_product(A, B)[-1] for _ in A]


@matmul.misconception(
    "Only the last product of each dot product is left: `=` overwrites. Add to what is there with `+=`.",
    section="Multiply, then add",
)
def overwrites_the_entry(A, B):
    _product(A, B)
    return [[row[-1] * column[-1] for column in zip(*B)] for row in A]


@matmul.misconception(
    "The running total is not set back to 0 for each entry, so every entry includes all earlier ones. "
    "Start it inside the loop over j.",
    section="Multiply, then add",
)
def total_never_reset(A, B):
    right, so_far, C = _product(A, B), 0.0, []
    for row in right:
        C.append([])
        for entry in row:
            so_far += entry
            C[-1].append(so_far)
    return C


@matmul.misconception(
    "The running total is set back to 0 once per row, so each entry includes those to its left. Start "
    "it inside the loop over j.",
    section="Multiply, then add",
)
def total_reset_per_row(A, B):
    return [np.cumsum(row).tolist() for row in _product(A, B)]


@matmul.misconception(
    "The inner loop has the wrong length: it runs over the rows of A. The sum runs over the shared "
    "size, the number of columns of A."
)
def inner_loop_over_rows_of_A(A, B):
    _product(A, B)
    return [[sum(A[i][k] * B[k][j] for k in range(len(A))) for j in range(len(B[0]))] for i in range(len(A))]


@matmul.misconception(
    "The inner loop has the wrong length: it runs over the columns of B. The sum runs over the "
    "shared size, the number of rows of B."
)
def inner_loop_over_columns_of_B(A, B):
    _product(A, B)
    return [[sum(A[i][k] * B[k][j] for k in range(len(B[0]))) for j in range(len(B[0]))] for i in range(len(A))]


@matmul.misconception("The result is one long list. Keep a list for each row: n rows of p entries.")
def flat_list(A, B):
    return [entry for row in _product(A, B) for entry in row]


@matmul.misconception("Only row i times column i is computed: the diagonal. Multiply every row by every column.")
def only_the_diagonal(A, B):
    product = _product(A, B)
    return [product[i][i] for i in range(min(len(product), len(product[0])))]


@matmul.misconception(
    "Sizes that do not fit give numbers instead of a ValueError: entries without a partner are "
    "silently dropped, as by `zip`.",
    section="What goes wrong",
)
def sizes_cut_short(A, B):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*B)] for row in A]


@matmul.misconception(
    "`zip(*B)` silently cuts every row of B to the shortest one. Compare the lengths of the rows "
    "first, or use `zip(*B, strict=True)`.",
    section="What goes wrong",
)
def ragged_B_cut_short(A, B):
    return [[solutions.dot(row, column) for column in zip(*B)] for row in A]


@matmul.misconception(
    "Only the first row of A and of B is measured. A later row can be shorter or longer, so compare them all.",
    section="What goes wrong",
)
def only_first_rows_are_measured(A, B):
    if len(A[0]) != len(B):
        raise ValueError("sizes do not fit")
    return [[sum(A[i][k] * B[k][j] for k in range(len(B))) for j in range(len(B[0]))] for i in range(len(A))]


@matmul.misconception(
    "Only the first row of A and of B is measured. A later row can be shorter or longer, so compare them all.",
    section="What goes wrong",
)
def only_first_rows_then_zip(A, B):
    if len(A[0]) != len(B):
        raise ValueError("sizes do not fit")
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*B)] for row in A]


@matmul.misconception(
    "The rows of A are not compared with each other. If their lengths differ, raise a ValueError, as for B.",
    section="What goes wrong",
)
def ragged_A_accepted(A, B):
    if len(A[0]) != len(B) or len({len(row) for row in B}) > 1:
        raise ValueError("sizes do not fit")
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*B)] for row in A]


@matmul.misconception(
    "Nothing is checked, and the sum runs over the rows of B. If a row of A is longer, its last "
    "entries are silently dropped; if it is shorter, there is an IndexError. Compare sizes first "
    "and raise ValueError.",
    section="What goes wrong",
)
def unchecked_over_rows_of_B(A, B):
    return [[sum(A[i][k] * B[k][j] for k in range(len(B))) for j in range(len(B[0]))] for i in range(len(A))]


@matmul.misconception(
    "Nothing is checked, and the sum runs over the columns of A. Sizes that do not fit then end in "
    "an IndexError or in numbers that mean nothing. Compare sizes first and raise ValueError.",
    section="What goes wrong",
)
def unchecked_over_columns_of_A(A, B):
    return [[sum(A[i][k] * B[k][j] for k in range(len(A[0]))) for j in range(len(B[0]))] for i in range(len(A))]


@matmul.misconception(
    "The result is a NumPy array. A and B are lists of rows, so return one as well: no NumPy is needed."
)
def array_of_rows(A, B):
    return np.array(_product(A, B))


@matmul.misconception(
    "The product is written into the rows of A, which overwrites the caller's matrix. Build a new list."
)
def writes_into_A(A, B):
    product = _product(A, B)
    A[:] = product
    return A


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


@pairwise_scores.property(
    "refuses queries and keys of different widths",
    points=1,
    probe=probes.error_of,
    hint="NumPy's matrix product raises ValueError for you. `*` and `einsum` silently stretch a width of 1: "
    "with them, compare the last sizes of Q and K first.",
)
def widths_differ(rng):
    for width_Q, width_K in ((4, 2), (4, 1), (1, 4)):
        yield dict(Q=rng.normal(size=(3, width_Q)), K=rng.normal(size=(5, width_K)))


@pairwise_scores.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    hint="Write nothing into Q or K, and do not change their shapes in place.",
)
def pairwise_is_pure(rng):
    yield dict(Q=rng.normal(size=(3, 2)), K=rng.normal(size=(4, 2)))


@pairwise_scores.misconception(
    "`K.T` reverses all axes. For a stack of matrices it also moves the leading axes to the "
    "end. Exchange the last two axes only.",
    section="What goes wrong",
)
def reverses_all_axes(Q, K):
    return Q @ K.T


@pairwise_scores.misconception(
    "Axes 1 and 2 are exchanged by number, which is right for a stack of exactly one "
    "leading dimension. Count from the end: the last two axes are -2 and -1.",
    section="What goes wrong",
)
def counts_axes_from_the_front(Q, K):
    return Q @ np.swapaxes(K, 1, 2)


@pairwise_scores.misconception(
    "Axes 0 and 1 are exchanged. In a stack these are not the last two: count from the end, -2 and -1.",
    section="What goes wrong",
)
def first_two_axes(Q, K):
    return Q @ np.swapaxes(K, 0, 1)


@pairwise_scores.misconception(
    "K is not transposed: `Q @ K` takes dot products with the columns of K. Keys are rows, so "
    "exchange the last two axes of K first."
)
def keys_not_turned(Q, K):
    return Q @ K


@pairwise_scores.misconception(
    "Rows and columns are exchanged: this is K times the transpose of Q. A row of scores belongs to a query, a column "
    "to a key."
)
def keys_times_queries(Q, K):
    return K @ np.swapaxes(Q, -1, -2)


@pairwise_scores.misconception("The queries are scored with themselves; K is never used.")
def queries_with_queries(Q, K):
    return Q @ np.swapaxes(Q, -1, -2)


@pairwise_scores.misconception("The keys are scored with themselves; Q is never used.")
def keys_with_keys(Q, K):
    return K @ np.swapaxes(K, -1, -2)


@pairwise_scores.misconception(
    "Query i is scored with key i alone. Score every query with every key: n_q times n_k scores."
)
def pairs_in_order(Q, K):
    return (Q * K).sum(axis=-1)


@pairwise_scores.misconception(
    "Q is transposed instead of K, so the result is d by d. Transpose K: a row of scores belongs to a query."
)
def queries_turned(Q, K):
    return np.swapaxes(Q, -1, -2) @ K


@pairwise_scores.misconception(
    "The scores are divided by the square root of d. That belongs to the attention chapter; here "
    "return the plain dot products.",
    section="Why scores grow with dimension",
)
def scaled_too_early(Q, K):
    return Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])


@pairwise_scores.misconception(
    "These are weights: you took a softmax of the scores. That comes later; here, return the plain dot products."
)
def softmax_too_early(Q, K):
    e = np.exp(Q @ np.swapaxes(K, -1, -2))
    return e / e.sum(axis=-1, keepdims=True)


@pairwise_scores.misconception(
    "The scores are divided by d. Return the plain dot products, which are sums and not averages.",
    section="Why scores grow with dimension",
)
def averaged(Q, K):
    return Q @ np.swapaxes(K, -1, -2) / Q.shape[-1]


@pairwise_scores.misconception(
    "The vectors are divided by their lengths first, so these are cosines. A score keeps the lengths.",
    section="Direction without length",
)
def cosines(Q, K):
    Q = Q / np.linalg.norm(Q, axis=-1, keepdims=True)
    K = K / np.linalg.norm(K, axis=-1, keepdims=True)
    return Q @ np.swapaxes(K, -1, -2)


@pairwise_scores.misconception(
    "These are distances between queries and keys. A dot product is large where a distance is small.",
    section="Multiply, then add",
)
def distances(Q, K):
    return np.sqrt(sum((Q[..., :, None, i] - K[..., None, :, i]) ** 2 for i in range(Q.shape[-1])))


@pairwise_scores.misconception(
    "Every matrix of one stack is multiplied by every matrix of the other: `np.inner` and `np.dot` do "
    "that with leading dimensions. `@` pairs the matrices up.",
    section="What goes wrong",
)
def every_matrix_with_every_matrix(Q, K):
    return np.inner(Q, K)


@pairwise_scores.misconception(
    "The product takes exactly two axes for each array, as subscripts like `id,jd->ij` do. Leading dimensions pass "
    "through `...` in front of the subscripts, or through `@`.",
    section="What goes wrong",
)
def einsum_without_dots(Q, K):
    return np.einsum("id,jd->ij", Q, K)


@pairwise_scores.misconception(
    "If the widths of queries and keys differ, the wider ones are cut to fit. Raise ValueError: such a pair has no "
    "score.",
    section="What goes wrong",
)
def widths_cut_to_fit(Q, K):
    width = min(Q.shape[-1], K.shape[-1])
    return Q[..., :width] @ np.swapaxes(K[..., :width], -1, -2)


@pairwise_scores.misconception(
    "A width of 1 is stretched to fit the other, as `*` and `einsum` silently do. Compare the widths and raise "
    "ValueError.",
    section="What goes wrong",
)
def width_of_one_stretched(Q, K):
    return np.einsum("...qd,...kd->...qk", Q, K)


@pairwise_scores.misconception("The caller's arrays are reshaped or scaled in place. Make new arrays.")
def changes_its_inputs(Q, K):
    scores = Q @ np.swapaxes(K, -1, -2)
    K *= 2
    return scores


# score_variance --------------------------------------------------------------------------------------------------

score_variance = Exercise(solutions.score_variance, section="Why scores grow with dimension", minutes=10, difficulty=2)

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


@score_variance.misconception("This is the standard deviation, the square root of the variance. Use the variance.")
def standard_deviation(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return (q * k).sum(axis=1).std()


_ABOUT_ONE = (
    "The result is near 1 whatever d is. Either the variance was taken of single products, before adding "
    "them up, or the scores or the result were divided by something that depends on d. Take the variance of the "
    "plain dot products."
)


@score_variance.misconception(_ABOUT_ONE)
def variance_of_single_products(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return (q * k).var()


@score_variance.misconception(_ABOUT_ONE)
def scaled_scores(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return ((q * k).sum(axis=1) / np.sqrt(d)).var()


@score_variance.misconception(
    "The scores were averages over the d products, so their variance shrinks as 1/d. A dot "
    "product is a sum: do not divide."
)
def averaged_scores(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return (q * k).mean(axis=1).var()


@score_variance.misconception(
    "The same vector serves as query and as key. The dot product of a vector with itself is "
    "its squared length, with variance 2d. Draw k separately."
)
def query_is_its_own_key(d, n_samples, rng):
    q = rng.normal(size=(n_samples, d))
    return (q * q).sum(axis=1).var()


@score_variance.misconception(
    "The sum runs over the samples and not over the d entries, so there are d numbers instead of "
    "n_samples. Or d and n_samples are exchanged. Take one dot product per pair."
)
def sums_over_samples(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return (q * k).sum(axis=0).var()


@score_variance.misconception(
    "One query is kept for all samples. Its own length then decides the result. Draw a new query for each key."
)
def one_query_for_all(d, n_samples, rng):
    q = rng.normal(size=d)
    k = rng.normal(size=(n_samples, d))
    return (k @ q).var()


@score_variance.misconception(
    "One key is kept for all samples. Its own length then decides the result. Draw a new key for each query."
)
def one_key_for_all(d, n_samples, rng):
    q = rng.normal(size=(n_samples, d))
    k = rng.normal(size=d)
    return (q @ k).var()


@score_variance.misconception(
    "The numbers are uniform between 0 and 1: `rng.random` and `rng.uniform` draw those. "
    "Standard normal ones have mean 0 and variance 1: `rng.normal` or `rng.standard_normal`."
)
def uniform_numbers(d, n_samples, rng):
    q, k = rng.random(size=(2, n_samples, d))
    return (q * k).sum(axis=1).var()


@score_variance.misconception("This is the mean of the scores, which is near 0 for any d. Return the variance.")
def mean_of_scores(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return (q * k).sum(axis=1).mean()


@score_variance.misconception(
    "This is the variance of each component, an array of d numbers. First add up the "
    "products of each pair, then take one variance of all scores."
)
def one_variance_per_component(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return (q * k).var(axis=0)


@score_variance.misconception(
    "Every query is scored with every key, so this is the variance of a whole n_samples x n_samples table. Take one "
    "dot product per pair: (q * k).sum(axis=1)."
)
def whole_table(d, n_samples, rng):
    q, k = rng.normal(size=(2, min(n_samples, 1000), d))  # a part of a large table stands for it
    return (q @ k.T).var()


@score_variance.misconception(
    "The result is d with a little noise, from a formula. Draw the queries and keys, and measure their scores."
)
def formula_with_noise(d, n_samples, rng):
    return d * (1 + 0.01 * rng.standard_normal())


@score_variance.misconception("These are the scores themselves. Return their variance, one number.")
def all_scores(d, n_samples, rng):
    q, k = rng.normal(size=(2, n_samples, d))
    return (q * k).sum(axis=1)


@score_variance.misconception(
    "The numbers come from NumPy's global random state (`np.random.normal` and friends). "
    "Draw from `rng`, so that the caller decides the seed."
)
def global_state(d, n_samples, rng):
    q, k = np.random.normal(size=(2, n_samples, d))
    return (q * k).sum(axis=1).var()


@score_variance.misconception(
    "The function creates its own generator with a fixed seed, so it returns the same number for every `rng`. Or it "
    "returns d itself without drawing at all. Use the `rng` it is given."
)
def own_seed(d, n_samples, rng):
    q, k = np.random.default_rng(0).normal(size=(2, n_samples, d))
    return (q * k).sum(axis=1).var()


@score_variance.misconception(
    "The function creates its own generator, so the same `rng` gives a different number each "
    "time. Use the `rng` it is given."
)
def own_generator(d, n_samples, rng):
    q, k = np.random.default_rng().normal(size=(2, n_samples, d))
    return (q * k).sum(axis=1).var()


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
