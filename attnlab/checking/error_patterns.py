"""How a result is related to what was expected, where no registered misconception explains it.

A relation is a fact, never a guess: it is reported only if it holds on every case that failed, and on enough numbers
that chance is very unlikely. `find` tries the relations from the most to the least telling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from attnlab.checking import schema
from attnlab.checking.compare import as_array


@dataclass(frozen=True)
class Relation:
    """A relation between the actual and the expected results.

    name: for programs, such as "factor"; words: a sentence
    discreet: the same without a number that a student's process could have chosen
    exact: whether the result follows from the expected one, so that it is the same mistake wherever it holds
    """

    name: str
    words: str
    discreet: str
    exact: bool = True


@dataclass(frozen=True)
class Case:
    """A failed case: its inputs, and the expected and the actual result.

    rtol, atol: how close two numbers must be to count as equal
    scattered: whether these are some entries of a result, from places that mean nothing
    """

    inputs: schema.Case
    expected: object
    got: object
    rtol: float
    atol: float
    scattered: bool = False

    def pairs(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """The arrays that differ, as (expected, came); None if the two differ in structure."""
        pairs = list(_pairs(self.expected, self.got))
        if not pairs or any(a is None or b is None for a, b in pairs):
            return None
        return [(a, b) for a, b in pairs if not self.within(a, b)]

    def within(self, a, b) -> bool:
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return False
        rtol = max(self.rtol, 1e-9)
        if a.size:  # most relations that are tried fail, and one entry, not on a diagonal, shows it in no time
            one, other = a.item(a.size // 3), b.item(a.size // 3)
            if abs(other - one) > self.atol + rtol * abs(one):
                return False
        return bool(np.allclose(b, a, rtol=rtol, atol=self.atol, equal_nan=True))


def find(cases: list[Case]) -> Relation | None:
    """The most telling relation that holds on all of these cases, or None.

    The result may be anything that a hostile process has sent: an error here costs a sentence, not a grade.
    """
    try:
        with np.errstate(all="ignore"):
            return _find(cases) if cases else None
    except (ValueError, TypeError, IndexError, OverflowError, np.linalg.LinAlgError):
        return None


def _find(cases: list[Case]) -> Relation | None:
    pairs = [case.pairs() or [] for case in cases]
    if found := _members(cases):
        return found
    if not all(pairs):
        return None
    known = [(case, a, b) for case, of_case in zip(cases, pairs) for a, b in of_case]
    found = _on_arrays(known)
    if found and any(len(of_case) < len(list(_pairs(case.expected, case.got))) for case, of_case in zip(cases, pairs)):
        start = "Some results are right. In the others: "
        found = replace(found, words=start + _lower(found.words), discreet=start + _lower(found.discreet))
    return found or _of_one_result(cases)


def _lower(words: str) -> str:
    return words[0].lower() + words[1:]


def _on_arrays(known) -> Relation | None:
    if _is_scarce(known):
        return _rounded_count(known)
    relates = _OF_VALUES if any(case.scattered for case, _, _ in known) else _ON_ARRAYS
    return next((found for relate in relates if (found := relate(known))), None)


def _of_one_result(cases) -> Relation | None:
    """Find a relation that holds for one of several wrong results.

    The last of them with a relation counts, since the others, such as an output, are often computed from it.
    """
    many = [case.expected for case in cases]
    if not all(isinstance(value, tuple) and len(value) == len(many[0]) > 1 for value in many):
        return None
    for i in reversed(range(len(many[0]))):
        pairs = [list(_pairs(case.expected[i], case.got[i])) for case in cases]
        if any(a is None or b is None for of_case in pairs for a, b in of_case):
            continue
        known = [(case, a, b) for case, of_case in zip(cases, pairs) for a, b in of_case if not case.within(a, b)]
        if len(known) == len(cases) and (found := _on_arrays(known)):
            which = f"Result {i + 1} of {len(many[0])}: "
            return Relation(found.name, which + found.words, which + found.discreet, exact=False)
    return None


def _pairs(expected, got) -> Iterator[tuple]:
    """The arrays of two values of the same structure, in pairs; a pair with None where the structure differs."""
    if isinstance(expected, dict):
        if not isinstance(got, dict) or expected.keys() != got.keys():
            yield None, None
            return
        for key in expected:
            yield from _pairs(expected[key], got[key])
    elif isinstance(expected, tuple) or isinstance(expected, list) and as_array(expected) is None:
        if not isinstance(got, (tuple, list)) or len(got) != len(expected):
            yield None, None
            return
        for one, other in zip(expected, got):
            yield from _pairs(one, other)
    else:
        yield _numbers(expected), _numbers(got)


def _numbers(value) -> np.ndarray | None:
    return None if value is None or isinstance(value, (str, dict, tuple)) else as_array(value)


def _is_scarce(known) -> bool:
    """Whether too few different numbers were expected to draw a conclusion."""
    entries = np.concatenate([a.ravel().astype(complex) for _, a, _ in known]) if known else np.zeros(0)
    return np.unique(np.round(entries[np.isfinite(entries)], 9)).size < 2


# On several results -------------------------------------------------------------------------------------------------


def _array_within(case, value, got) -> bool:
    a, b = _numbers(value), _numbers(got)
    return a is not None and b is not None and a.size > 1 and case.within(a, b)


def _members(cases):
    """Only one of several results was returned, or they are in a different order."""
    many = [case.expected for case in cases]
    if not all(isinstance(value, tuple) and len(value) == len(many[0]) for value in many):
        return None
    for i in range(len(many[0])):
        if all(_array_within(case, case.expected[i], case.got) for case in cases):
            words = f"Only result {i + 1} of {len(many[0])} was returned; return all of them, in the order asked for."
            return Relation("alone", words, words)
    for order in itertools.permutations(range(len(many[0]))):
        if list(order) != sorted(order) and all(
            isinstance(case.got, (tuple, list))
            and len(case.got) == len(order)
            and all(_array_within(case, case.expected[i], case.got[place]) for place, i in enumerate(order))
            for case in cases
        ):
            words = "The results are right, but in a different order than asked for."
            return Relation("order", words, words)
    wrong = [
        tuple(i for i, (e, g) in enumerate(zip(case.expected, case.got)) if not _parts_within(case, e, g))
        for case in cases
        if isinstance(case.got, (tuple, list)) and len(case.got) == len(case.expected)
    ]
    if len(wrong) == len(cases) > 1 and len(set(wrong)) == 1 and 0 < len(wrong[0]) < len(many[0]):
        where = " and ".join(str(i + 1) for i in wrong[0])
        which = f"number {where} is" if len(wrong[0]) == 1 else f"numbers {where} are"
        words = f"Of the {len(many[0])} results only {which} wrong."
        if len(wrong[0]) == 1 and (found := _of_member(cases, wrong[0][0])):
            return Relation("one of several", f"{words} {found.words}", f"{words} {found.discreet}", found.exact)
        return Relation("one of several", words, words, exact=False)


def _of_member(cases, i: int) -> Relation | None:
    return _find([replace(case, expected=case.expected[i], got=case.got[i]) for case in cases])


def _parts_within(case, expected, got) -> bool:
    return all(a is not None and b is not None and case.within(a, b) for a, b in _pairs(expected, got))


# On arrays ----------------------------------------------------------------------------------------------------------


def _all(known, relates: Callable) -> bool:
    """Whether `relates(case, expected, came)` holds for each pair."""
    return all(relates(case, a, b) for case, a, b in known)


def _same(name: str, words: str, relates: Callable, exact: bool = True):
    """A relation without a parameter."""
    return lambda known: Relation(name, words, words, exact) if _all(known, relates) else None


def _turned_round(case, a, b):
    return a.dtype.kind == b.dtype.kind == "b" and a.shape == b.shape and np.array_equal(a, ~b)


def _real(a, b) -> bool:
    return a.dtype.kind in "iuf" and b.dtype.kind in "iuf" and a.shape == b.shape


def _factor(known):
    """Every number is the same number of times what it should be, or a size times what it should be."""
    if not _all(known, lambda case, a, b: _real(a, b) and bool(np.any(a)) and np.isfinite(a).all()):
        return None
    factors = [float((a * b).sum() / (a.astype(float) ** 2).sum()) for _, a, b in known]
    if not all(
        np.isfinite(factor) and min(abs(factor), abs(factor - 1)) > 1e-6 and case.within(factor * a, b)
        for factor, (case, a, b) in zip(factors, known)
    ):
        return None
    if np.allclose(factors, factors[0], rtol=1e-6):
        if abs(factors[0] + 1) < 1e-6:
            words = "Every sign is flipped; otherwise the numbers are right."
            return Relation("sign", words, words)
        plain = f"Every number is {factors[0]:.6g} times what was expected."
        return Relation("factor", plain, "Every number is too large or too small by the same factor.")
    for name, sizes in _sizes(known).items():
        for power, shown in ((1, "{}"), (-1, "1 / {}"), (0.5, "sqrt({})"), (-0.5, "1 / sqrt({})")):
            if np.allclose(factors, np.asarray(sizes, dtype=float) ** power, rtol=1e-6):
                words = f"Every number is `{shown.format(name)}` times what was expected."
                return Relation("factor", words, words)
    if found := _of_two_numbers(known, np.array(factors)):
        words = f"Every number is `{found}` times what was expected."
        return Relation("factor", words, words)
    if not _all(known, lambda case, a, b: _has_several(a)):  # a single number is always some number times another
        return None
    words = "Within each result every number is too large or too small by the same factor."
    return Relation("factor", words, words)


def _of_two_numbers(known, factors: np.ndarray) -> str | None:
    """Factors as a constant times powers of whole numbers that were given, such as `0.5 * n / d ** 2`."""
    if len(factors) < 3:
        return None
    given = {name: np.array(sizes) for name, sizes in _sizes(known).items() if "." not in name and len(set(sizes)) > 1}
    powers = sorted(itertools.product(range(-2, 3), repeat=2), key=lambda pair: sum(map(abs, pair)))
    for (one, a), (other, b) in itertools.combinations_with_replacement(given.items(), 2):
        for p, q in powers:
            constants = factors / (a**p * b**q)
            if (p or q) and (one != other or not q) and np.allclose(constants, constants[0], rtol=1e-6):
                named = [(one, p), (other, q)]
                above = [_power(name, n) for name, n in named if n > 0]
                below = [_power(name, -n) for name, n in named if n < 0]
                constant = [] if abs(constants[0] - 1) < 1e-6 and above else [f"{constants[0]:.6g}"]
                return " / ".join([" * ".join(constant + above), *below])
    return None


def _power(name: str, n: int) -> str:
    return name if n == 1 else f"{name} ** {n}"


def _has_several(a) -> bool:
    """Whether these are at least two different numbers besides 0."""
    return np.unique(np.round(np.abs(a[a != 0]), 9)).size > 1


def _sizes(known) -> dict[str, list[float]]:
    """Possible factors, by name: sizes of arguments, and numbers given, that every case has."""
    found: dict[str, list[float]] = {}
    for case, _, _ in known:
        for name, value in case.inputs.items():
            array = _numbers(value)
            if array is None:
                continue
            if array.ndim == 0 and array.dtype.kind in "iuf":
                found.setdefault(name, []).append(float(array))
            for axis in range(-array.ndim, 0):
                found.setdefault(f"{name}.shape[{axis}]", []).append(array.shape[axis])
    return {name: sizes for name, sizes in found.items() if len(sizes) == len(known) and min(sizes) > 0}


def _offset(known):
    if not _all(known, lambda case, a, b: _real(a, b) and a.size and np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    offset = float((known[0][2].astype(float) - known[0][1]).flat[0])
    if abs(offset) > 1e-9 and _all(known, lambda case, a, b: case.within(a + offset, b)):
        words = f"Every number is {abs(offset):.6g} too {'large' if offset > 0 else 'small'}."
        return Relation("offset", words, "Every number is off by the same amount.")
    for name, sizes in _sizes(known).items():
        for side, how in ((1, "large"), (-1, "small")):
            if len(set(sizes)) > 1 and all(case.within(a + side * n, b) for n, (case, a, b) in zip(sizes, known)):
                words = f"Every number is too {how} by `{name}`."
                return Relation("offset", words, words)


def _or_nan(value):
    array = _numbers(value)
    return np.nan if array is None else array


def _by_argument(known):
    """The result is the expected one plus, minus, times or divided by an argument, entry by entry."""
    names = [name for name, value in known[0][0].inputs.items() if np.ndim(_or_nan(value))]
    changes = (
        ("plus", lambda a, b, x: (a + x, b)),
        ("minus", lambda a, b, x: (a - x, b)),
        ("times", lambda a, b, x: (a * x, b)),
        ("divided by", lambda a, b, x: (a, b * x)),
        ("divided by the square of", lambda a, b, x: (a, b * x**2)),
    )
    for name, (how, change) in itertools.product(names, changes):

        def made(case, a, b, name=name, change=change):
            x = _numbers(case.inputs.get(name))
            if x is None:
                return False
            fits = x.dtype.kind in "iuf" and _real(a, b) and a.size > 1 and x.ndim <= a.ndim
            fits = fits and all(n in (1, m) for n, m in zip(x.shape[::-1], a.shape[::-1]))
            return fits and np.unique(x).size > 1 and case.within(*change(a.astype(float), b, x.astype(float)))

        if _all(known, made):
            words = f"The answer gives what was expected {how} `{name}`."
            return Relation("argument", words, words)


def _is_logarithm(case, a, b):
    made = np.log(a.astype(float)) if _real(a, b) else None
    return made is not None and made[np.isfinite(a) & np.isfinite(made)].any() and case.within(made, b)


def _axes(known):
    """Two axes are swapped, the same two in every case, counted from the last."""
    for i, j in ((-1, -2), (-2, -3), (-1, -3), (-3, -4), (-2, -4), (-1, -4)):
        if _all(
            known,
            lambda case, a, b: a.ndim >= -min(i, j) and min(a.shape) and case.within(np.swapaxes(a, i, j), b),
        ):
            last = {i, j} == {-1, -2}
            words = f"The numbers are right, but axes {i} and {j} are swapped{': it is transposed' if last else ''}."
            return Relation("transposed" if last else "axes", words, words)
    dimensions = {a.ndim for _, a, _ in known}
    for order in itertools.permutations(range(min(dimensions))) if dimensions in ({3}, {4}) else ():
        if _all(known, lambda case, a, b, order=order: a.size and case.within(a.transpose(order), b)):
            words = f"The numbers are right, but their axes are the expected ones in the order {order}."
            return Relation("axes", words, words)


def _moved_along(known):
    """Shifted by one position along an axis, around its end or not, or in reverse along it."""
    for axis, step in itertools.product((-1, -2, -3), (1, -1)):
        late, early = (slice(1, None), slice(None, -1))[::step]

        def shifted(case, a, b, axis=axis, late=late, early=early):
            if a.shape != b.shape or a.ndim < -axis or a.shape[axis] < 3:
                return False
            behind = [slice(None)] * (-1 - axis)  # axes
            return case.within(a[(..., early, *behind)], b[(..., late, *behind)])

        if _all(known, shifted):
            side = "after" if step > 0 else "before"
            words = f"The numbers are right, but they are one position {side} where they belong, along axis {axis}."
            return Relation("shifted", words, words)
    for axis in (-1, -2, -3):
        if _all(
            known,
            lambda case, a, b: a.shape == b.shape and a.ndim >= -axis and case.within(np.flip(a, axis), b),
        ):
            words = f"The numbers are right, but in reverse order along axis {axis}."
            return Relation("reversed", words, words)


def _other_shape(known):
    """The right numbers in a different shape, or before or after a sum over an axis."""
    if _all(known, lambda case, a, b: a.shape != b.shape and a.size == b.size and case.within(a.ravel(), b.ravel())):
        ones = _all(known, lambda case, a, b: [n for n in a.shape if n != 1] == [n for n in b.shape if n != 1])
        words = "The numbers are right and in order, but in a different shape" + (
            ": an axis of length 1 is missing or extra." if ones else "."
        )
        return Relation("shape", words, words)
    for axis, (verb, together) in itertools.product((-1, -2, -3, -4), (("sum", np.sum), ("mean", np.mean))):
        if _all(known, lambda case, a, b: _is_over(case, together, axis, a, b)):
            words = f"The answer gives the {verb} over axis {axis} of what was expected."
            return Relation("summed", words, words)


def _is_over(case, together, axis, whole, part) -> bool:
    fits = whole.size and whole.ndim == part.ndim + 1 <= 4 and whole.ndim >= -axis and whole.dtype.kind in "iuf"
    return fits and case.within(together(whole.astype(float), axis=axis), part)


def _rows(known):
    """Each row (or column, or line along the axis that was asked for) is right except for its own factor."""
    named = any("axis" in case.inputs for case, _, _ in known)
    for what, along_in in (
        ("row (along axis -1)", lambda case: -1),
        ("column (along axis -2)", lambda case: -2),
        *([("line along `axis`", lambda case: case.inputs.get("axis", -1))] if named else []),
    ):

        def scaled(case, a, b, along_in=along_in):
            along = along_in(case)
            if not _real(a, b) or not -a.ndim <= along < a.ndim or not _has_several(a):
                return False
            squares = (a.astype(float) ** 2).sum(axis=along, keepdims=True)
            factors = (a * b).sum(axis=along, keepdims=True) / np.where(squares == 0, 1, squares)
            several = a.shape[along] > 1 or squares.size < a.size
            return (
                several
                and np.isfinite(factors).all()
                and (factors[squares > 0] != 0).all()
                and case.within(factors * a, b)
            )

        if _all(known, scaled):
            sums = _all(known, lambda case, a, b, along_in=along_in: np.allclose(a.sum(axis=along_in(case)), 1))
            words = f"Each {what} is right except for a factor" + (": it should sum to one." if sums else ".")
            return Relation("normalized", words, words)


# dtype expected -> narrower ones: name, digits, the largest error that they explain, and the smallest that shows them.
_HALF = ("half", "three", 2e-2, 1e-4)
_NARROWER = {"float64": (("single", "seven", 2e-6, 0.0), _HALF), "float32": (_HALF,)}
_NEAR = 1e-3  # relative error of numbers that are right, but for a few digits


def _precision(known):
    """Right to about as many digits as a narrower type of number holds, or to some digits only."""
    dtypes = {str(a.dtype) for _, a, _ in known}
    if len(dtypes) != 1 or not _all(known, lambda case, a, b: _real(a, b) and a.dtype.kind == "f"):
        return None
    few = sum(a.size for _, a, _ in known) < 8  # these must be closer, since few numbers may agree by chance

    def near_one(case, a, b, bound):
        size = float(np.abs(a[np.isfinite(a)]).max(initial=0))
        # Small numbers are also right to that many digits, except a few that are differences of large ones.
        digits = np.isclose(b, a, rtol=bound, atol=0, equal_nan=True)
        return (
            np.allclose(b, a, rtol=bound, atol=bound * size, equal_nan=True)
            and digits.sum() >= (1.0 if few else 0.9) * digits.size
        )

    def near(bound):
        return _all(known, lambda case, a, b: near_one(case, a, b, bound))

    for name, digits, bound, shows in _NARROWER.get(dtypes.pop(), ()):
        if near(bound / 10 if few else bound) and not (shows and near(shows)):
            more = any(near_one(case, a, b, shows) for case, a, b in known) if shows else False
            words = (
                f"The numbers are right to {'' if more else 'about '}{digits} digits{' or more' if more else ''}, as "
                f"if something on the way was computed in {name} "
                "precision, or rounded, or something small was added."
            )
            return Relation("precision", words, words)
    if near(_NEAR / 10 if few else _NEAR):
        digits = next(n for n in range(8, 1, -1) if n == 2 or near(10.0**-n))
        words = f"The numbers are right to about {digits} digits, as if something on the way was rounded or added."
        return Relation("digits", words, words)


EXACT_IN_SINGLE = 2**24  # float32 holds each whole number up to here


def _rounded_count(known):
    """A large whole number that is right to about the digits that single precision holds."""

    def is_rounded(case, a, b):
        return (
            a.dtype.kind in "iu"
            and _real(a, b)
            and np.any(np.abs(a) > EXACT_IN_SINGLE)
            and np.allclose(b, a, rtol=1e-6, atol=0)
        )

    if _all(known, is_rounded):
        words = (
            "The number is right to about seven digits: on the way it was a float of single precision, which cannot "
            "hold so large a whole number. Compute with whole numbers alone."
        )
        return Relation("precision", words, words)


def _is_permuted(case, a, b):
    """The right numbers, each as often as it should be, in the wrong positions."""
    return (
        a.size == b.size
        and _real(a.ravel(), b.ravel())
        and np.unique(a).size >= min(4, a.size)
        and a.size >= 4
        and case.within(np.sort(a, axis=None), np.sort(b, axis=None))
    )


def _permuted(known):
    if _all(known, _is_permuted):
        reshaped = any(a.shape != b.shape for _, a, b in known)
        words = "All the right numbers are there, but " + (
            "in a different shape, and not always in the right order." if reshaped else "in the wrong positions."
        )
        return Relation("places", words, words, exact=False)


def _signs_differ(case, a, b):
    return _real(a, b) and case.within(abs(a.astype(float)), abs(b.astype(float)))


def _places(known):
    """The wrong entries are those of a part that has a name, in every case."""
    if not _all(known, lambda case, a, b: a.shape == b.shape and a.ndim):
        return None
    wrong = [~np.isclose(b, a, rtol=max(case.rtol, 1e-9), atol=case.atol, equal_nan=True) for case, a, b in known]
    for exactly in (True, False):
        if not exactly and len(known) == 1:
            continue  # that wrong entries are within a part says something only over several cases
        for name, part in _PARTS:
            if all(_is_part(part(a), w, exactly) for (_, a, _), w in zip(known, wrong)):
                words = f"{'Only' if exactly else 'Some of'} {name} are wrong; all others are right."
                return Relation("part", words, words, exact=False)


def _is_part(part, wrong, exactly: bool) -> bool:
    """Whether the wrong entries are this part, or within it where it is not nearly everything."""
    if part is None or part.all() or not part.any():
        return False
    return np.array_equal(wrong, part) if exactly else part.mean() <= MOST and not (wrong & ~part).any()


MOST = 0.7  # of all entries


def _span(axis: int, which: Callable) -> Callable:
    """The slice `which(length)` along an axis."""

    def part(a):
        if a.ndim < -axis or a.shape[axis] < 2:
            return None
        chosen = np.zeros(a.shape, dtype=bool)
        chosen[(..., which(a.shape[axis]), *[slice(None)] * (-1 - axis))] = True
        return chosen

    return part


def _of_matrices(which: Callable) -> Callable:
    """The entries `which(rows, columns)` of each matrix."""

    def part(a):
        if a.ndim < 2 or min(a.shape[-2:]) < 2 or a.shape[-2:] == (2, 2):  # there a diagonal is chance
            return None
        return np.broadcast_to(which(*a.shape[-2:]), a.shape)

    return part


def _below_diagonal(rows: int, columns: int) -> np.ndarray:
    return np.tri(rows, columns, columns - rows, dtype=bool)


def _where(condition: Callable) -> Callable:
    def part(a):
        return condition(a) if a.dtype.kind in "iuf" else None

    return part


def _empty_rows(a):
    if a.ndim < 2 or a.dtype.kind not in "iuf":
        return None
    return np.broadcast_to((a == 0).all(axis=-1, keepdims=True), a.shape)


_PARTS = (
    ("the rows that should be all zeros", _empty_rows),
    ("the entries on the diagonal", _of_matrices(lambda *shape: np.eye(*shape, dtype=bool))),
    ("the entries above the diagonal", _of_matrices(lambda *shape: ~_below_diagonal(*shape))),
    ("the entries on and below the diagonal", _of_matrices(_below_diagonal)),
    ("the entries that should be minus infinity", _where(np.isneginf)),
    ("the entries that should be 0", _where(lambda a: a == 0)),
    # Among numbers of one sign, it means nothing that the zeros are right.
    ("the entries that should be negative", _where(lambda a: a < 0 if np.any(a > 0) else None)),
    ("the entries that should be positive", _where(lambda a: a > 0 if np.any(a < 0) else None)),
    *(
        (f"the entries at {where} of axis {axis}", _span(axis, which))
        for axis in (-1, -2, -3, -4)
        for where, which in (("the beginning", lambda n: slice(0, 1)), ("the end", lambda n: slice(-1, None)))
    ),
    *(
        (f"the entries {where} of axis {axis}", _span(axis, which))
        for axis in (-1, -2)
        for where, which in (
            ("in the first half", lambda n: slice(0, n // 2)),
            ("in the second half", lambda n: slice(n // 2, None)),
            ("at even positions", lambda n: slice(0, None, 2)),
            ("at odd positions", lambda n: slice(1, None, 2)),
            ("at all but the first position", lambda n: slice(1, None)),
            ("at all but the last position", lambda n: slice(None, -1)),
        )
    ),
    (
        "the entries of all but the first in the batch",
        lambda a: _span(-a.ndim, lambda n: slice(1, None))(a) if a.ndim > 2 else None,
    ),
    (
        "the entries of all but the first head",
        lambda a: _span(-3, lambda n: slice(1, None))(a) if a.ndim == 4 else None,
    ),
)


def _lengths(known):
    """The result has the wrong shape, and the lengths it should have, or has, are those of arguments."""
    if not _all(known, lambda case, a, b: a.shape != b.shape):
        return None
    if not _all(known, lambda case, a, b: a.ndim == b.ndim):
        return _axes_wanted(known)
    axes = {tuple(i - a.ndim for i in range(a.ndim) if a.shape[i] != b.shape[i]) for _, a, b in known}
    if len(axes) != 1 or len(axis := axes.pop()) != 1:
        return _axes_wanted(known)
    wanted, came = ([side[k].shape[axis[0]] for _, *side in known] for k in (0, 1))
    right, wrong = (_name_of(known, sizes) for sizes in (wanted, came))
    by = {c - w for c, w in zip(came, wanted)}
    if len(known) > 1 and right and wrong:
        words = f"Along axis {axis[0]} the result is as long as `{wrong}`; it should be as long as `{right}`."
        return Relation("length", words, words, exact=False)
    if len(by) == 1 and abs(step := by.pop()) == 1:
        words = f"Along axis {axis[0]} the result is {'longer' if step > 0 else 'shorter'} than it should be by one."
        return Relation("length", words, words, exact=False)
    return _axes_wanted(known)


def _axes_wanted(known):
    """Say which shape the result should have, each length named by an argument that has it.

    The actual shape is added if its lengths also have names.
    """
    wanted, came = (_named_shape(known, [side[k].shape for _, *side in known]) for k in (0, 1))
    if len(known) > 1 and wanted:
        words = f"The result should have the shape ({wanted})" + (f"; yours has ({came})." if came else ".")
        return Relation("shape wanted", words, words, exact=False)


def _named_shape(known, shapes: list[tuple]) -> str | None:
    if len({len(shape) for shape in shapes}) != 1 or not shapes[0]:
        return None
    names = [_name_of(known, sizes) or (str(sizes[0]) if set(sizes) == {1} else None) for sizes in zip(*shapes)]
    known_names = [name if name.isdecimal() else f"`{name}`" for name in names if name]
    return ", ".join(known_names) if len(known_names) == len(names) else None


def _name_of(known, sizes) -> str | None:
    """Name the argument, or the length of an argument, that is as large in every case.

    Lengths that are all alike have no name, since many arguments may have them.
    """
    if len(set(sizes)) == 1:
        return None
    return next((name for name, size in _sizes(known).items() if list(size) == list(sizes)), None)


def _sums(known):
    """The expected numbers sum to one along an axis, or have one sign, and those of the result do not."""
    for axis, what in ((-1, "row"), (-2, "column")):

        def to_one(case, a, b, axis=axis):
            sums = a.sum(axis=axis) if _real(a, b) and a.ndim >= -axis else np.zeros(1)
            return bool(np.all(np.isclose(sums, 1) | (sums == 0))) and np.any(sums)

        if _all(known, to_one):
            to_be = [np.isclose(a.sum(axis=axis), 1) for _, a, _ in known]  # a row may have to be all zeros
            if all(b.shape == a.shape and np.allclose(b.sum(axis=axis)[t], 1) for t, (_, a, b) in zip(to_be, known)):
                break
            some = "" if all(map(np.all, to_be)) else " that is not all zeros"
            if not all(b.shape == a.shape for _, a, b in known):
                break
            if all(_zeros_or_one(b, axis) for _, _, b in known):
                words = f"Some {what}s (along axis {axis}) are all zeros where they should sum to one."
                return Relation("empty rows", words, words, exact=False)
            if not all(_finite_sums_off(b, axis) for _, _, b in known):
                break
            words = f"Each {what} (along axis {axis}){some} should sum to one, but yours do not."
            other = -2 if axis == -1 else -1
            if _all(known, lambda case, a, b: b.ndim > 1 and np.allclose(b.sum(axis=other), 1)):
                words = f"{words[:-1]}: those along axis {other} do."
            elif _all(known, lambda case, a, b: b.ndim > 1 and np.isclose(b.sum(), 1)):
                words = f"{words[:-1]}: the whole array does."
            return Relation("sums", words, words, exact=False)
    return None


def _finite_sums_off(b, axis: int) -> bool:
    """Whether some row of numbers sums to something else than one. A row with nan says nothing on its sum."""
    sums = b.sum(axis=axis)
    return bool(np.any(np.isfinite(sums) & ~np.isclose(sums, 1)))


def _zeros_or_one(b, axis: int) -> bool:
    """Whether each row is all zeros or sums to one."""
    return bool(np.all(np.isclose(b.sum(axis=axis), 1) | ~b.any(axis=axis)))


def _negative(case, a, b):
    return _real(a, b) and not np.any(a < 0) and np.any(b < 0)


def _order(known):
    """Within each row, numbers are larger where larger (or smaller) ones were expected."""

    def ranked(a):
        return np.argsort(np.argsort(a, axis=-1, kind="stable"), axis=-1, kind="stable")

    def comparable(case, a, b):
        return _real(a, b) and a.ndim and a.size and a.shape[-1] > 2 and np.isfinite(a).all() and np.isfinite(b).all()

    if not _all(known, comparable) or not _all(
        known, lambda case, a, b: np.unique(np.round(a, 9), axis=None).size >= a.shape[-1]
    ):
        return None
    if _all(known, lambda case, a, b: np.array_equal(ranked(-a), ranked(b))):
        words = "In each row the largest number is where the smallest should be, and the smallest where the largest."
        return Relation("order turned", words, words, exact=False)
    if _all(known, lambda case, a, b: np.array_equal(ranked(a), ranked(b))):
        spread = [np.ptp(b, axis=-1).mean() / np.ptp(a, axis=-1).mean() for _, a, b in known]
        wider = (
            ", and they are too far apart"
            if min(spread) > 1
            else ", and they are too close together"
            if max(spread) < 1
            else ""
        )
        some = _all(known, lambda case, a, b: np.isclose(a, b, rtol=max(case.rtol, 1e-9), atol=case.atol).any())
        which = "not all of them are" if some else "they are not"
        words = f"In each row the numbers are in the right order of size, but {which} the right numbers{wider}."
        return Relation("order kept", words, words, exact=False)


def _uniform(case, a, b):
    """Within each row all entries that are not 0 are the same, and they should not be."""

    def spread(a):
        seen = np.where(a == 0, np.nan, a.astype(float))
        return np.nanmax(seen, axis=-1, initial=-np.inf) - np.nanmin(seen, axis=-1, initial=np.inf)

    several = _real(a, b) and b.ndim and b.shape[-1] > 1 and np.isfinite(b).all() and np.isfinite(a).all()
    return (
        several and np.any(np.count_nonzero(b, axis=-1) > 1) and np.all(spread(b) < 1e-9) and np.any(spread(a) > 1e-6)
    )


def _one_way(known):
    """All truth values that are wrong are wrong in the same way."""
    for came in (True, False):
        if _all(
            known,
            lambda case, a, b: a.dtype.kind == b.dtype.kind == "b" and a.shape == b.shape and np.all(b[a != b] == came),
        ):
            words = f"Some entries are {came} where {not came} is expected, and never the reverse."
            return Relation(f"too often {came}", words, words, exact=False)


def _constant(known):
    if _all(
        known, lambda case, a, b: a.shape == b.shape and b.size > 1 and np.unique(b).size == 1 and not np.isnan(b).any()
    ):
        zero = _all(known, lambda case, a, b: not np.any(b))
        words = f"All entries came out as {'0' if zero else 'the same number'}."
        return Relation("constant", words, words, exact=False)


def _nan(known):
    for name, lost in (("nan", np.isnan), ("-inf", np.isneginf), ("inf", np.isposinf), ("inf or -inf", np.isinf)):
        if _all(
            known,
            lambda case, a, b, lost=lost: b.dtype.kind == "f" and lost(b).any() and not lost(a).any(),
        ):
            everywhere = _all(known, lambda case, a, b, lost=lost: lost(b).all())
            words = f"Every entry is {name}." if everywhere else f"Some entries are {name} where a number is expected."
            return Relation(name, words, words, exact=False)


_OF_VALUES = (
    _same("inverted", "True and False are swapped.", _turned_round),
    _factor,
    _offset,
    _by_argument,
    _same("logarithm", "The answer gives the logarithm of what was expected.", _is_logarithm),
    _precision,
    _rounded_count,
    _nan,
)
_ON_ARRAYS = (
    *_OF_VALUES[:-3],
    _axes,
    _moved_along,
    _other_shape,
    _precision,
    _rounded_count,
    _rows,
    _permuted,
    _lengths,
    _nan,
    _one_way,
    _constant,
    _same(
        "uniform", "In each row all numbers that are not 0 are the same, but they should differ.", _uniform, exact=False
    ),
    _same("signs", "The sizes of the numbers are right, but some of their signs are not.", _signs_differ),
    _places,
    _sums,
    _same("negative", "Some numbers are negative where none should be.", _negative, exact=False),
    _order,
)


# On inputs ----------------------------------------------------------------------------------------------------------

# Cases on each side, and together, before a difference between those that fail and those that do not is reported:
# inputs have many traits, and with few cases some trait separates any two groups.
ENOUGH, TOGETHER = 3, 8


def traits_of_failing_inputs(right: list[schema.Case], wrong: list[schema.Case]) -> Relation | None:
    """Find a trait that the arguments of all failing cases have in common, and those of right cases lack."""
    if min(len(right), len(wrong)) < ENOUGH or len(right) + len(wrong) < TOGETHER:
        return None
    names = set().union(*right, *wrong)
    traits = [list(_traits(inputs, names)) for inputs in wrong]
    for trait in traits[0]:
        if all(trait in of_one for of_one in traits[1:]) and not any(
            trait in _traits(inputs, names) for inputs in right
        ):
            words = f"In all cases that fail {trait}, and in no others."
            return Relation("inputs", words, words, exact=False)


def _traits(inputs: schema.Case, names: set[str]) -> Iterator[str]:
    """Facts about the form of inputs, in words, the simplest first. `names` are those that inputs may have.

    Facts about single numbers, or about two inputs together, are left out: there are so many that a few cases that
    fail have one in common by chance.
    """
    for name in sorted(names - inputs.keys()):
        yield f"`{name}` is not given"
    arrays = {name: array for name, value in inputs.items() if (array := _numbers(value)) is not None}
    for name, value in inputs.items():
        yield f"`{name}` is given"
        if value is not None:
            yield f"`{name}` is not None"
        if isinstance(value, (bool, str, type(None))):
            yield f"`{name}` is {value}"
        elif name in arrays and arrays[name].ndim == 0 and arrays[name].dtype.kind == "i":
            if value in (-1, 0, 1):
                yield f"`{name}` is {value}"
            for bound, words in ((0, "negative"), (1, "0 or less"), (2, "less than 2")):
                if value < bound:
                    yield f"`{name}` is {words}"
    for name, array in arrays.items():
        for dimensions in (1, 2, 3, 4):
            if array.ndim == dimensions:
                yield f"`{name}` has {dimensions} dimension{'s' * (dimensions > 1)}"
            if array.ndim > dimensions:
                yield f"`{name}` has more than {dimensions} dimension{'s' * (dimensions > 1)}"
        for axis in range(array.ndim):
            if array.shape[axis] == 1:
                yield f"`{name}` has length 1 along axis {axis}"
        if array.dtype.kind in "iu" and array.ndim:
            yield f"`{name}` holds whole numbers"
        if array.dtype == np.float32:
            yield f"`{name}` is float32"
        if array.dtype.kind == "b" and array.ndim:
            if not array.any(axis=-1).all():
                yield f"a row of `{name}` allows nothing"
        elif array.dtype.kind in "iuf" and array.ndim:
            with np.errstate(all="ignore"):
                if not np.any(array):
                    yield f"`{name}` is all zeros"
