"""Compare a result with the expected one, and say in words where they first differ.

Values are trees as in `attnlab.checking.codec`. Numbers agree within rtol and atol as in `numpy.isclose`; everything
else (shape, kind of number, strings, missing parts) must agree exactly. What the course does not grade is accepted:
list, tuple and array for results of plain Python, Python float for NumPy scalar, whole numbers written as int.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnlab.checking.formatting import apart, as_numpy, is_tensor, kind_of, short


@dataclass(frozen=True)
class Difference:
    """Where two values differ.

    `kind` is one of none, type, shape, dtype, nan, value; `part` the name of the part of an outcome that it is in (see
    `attnlab.checking.probes`).

    say: the words, or a function that makes them, since most comparisons need only whether there is a difference
    """

    kind: str
    say: str | Callable[[], str]
    expected: Any
    got: Any
    part: str = ""

    @property
    def words(self) -> str:
        return self.say if isinstance(self.say, str) else self.say()


def difference(expected, got, rtol: float = 1e-9, atol: float = 1e-12, place: str = "the result") -> Difference | None:
    """The first difference between two values, or None if they agree."""
    if got is None and expected is not None:
        return Difference(
            "none", f"{place} is None. Is a `return` missing? Printing a value does not return it", expected, got
        )
    if expected is None or isinstance(expected, (str, bool, np.bool_)):
        return _exact(expected, got, place)
    if isinstance(expected, dict):
        return _dicts(expected, got, rtol, atol, place)
    if isinstance(expected, tuple) or isinstance(expected, list) and as_array(expected) is None:
        return _sequences(expected, got, rtol, atol, place)
    return _numbers(expected, got, rtol, atol, place)


def within_tolerance(a, b, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
    """Whether two values agree: numbers within the tolerance, all else exactly."""
    return difference(a, b, rtol, atol) is None


def _exact(expected, got, place):
    if isinstance(got, (np.bool_, np.ndarray)) and np.ndim(got) == 0:
        got = got.item()
    if type(expected) is np.bool_:
        expected = bool(expected)
    if type(got) is type(expected) and got == expected:
        return None
    return Difference("value", f"{place} is {short(got)} where {short(expected)} was expected", expected, got)


def _dicts(expected, got, rtol, atol, place):
    if not isinstance(got, dict) or got.keys() != expected.keys():
        return Difference("type", f"{place} should have the parts {', '.join(expected)}", expected, got)
    for key in expected:
        place = "the result" if key == "result" or key.startswith("step ") else f"`{key}`"  # each step has its result
        found = difference(expected[key], got[key], rtol, atol, place)
        if found:
            return replace(found, part="parameters" if found.part == "parameters" else key)
    return None


def _sequences(expected, got, rtol, atol, place):
    if not isinstance(got, (tuple, list)) or len(got) != len(expected):
        return Difference("type", several_words(len(expected), got, place), expected, got)
    for i, (one, other) in enumerate(zip(expected, got)):
        found = difference(one, other, rtol, atol, f"value {i + 1} of {len(expected)}")
        if found:
            return found
    return None


def several_words(count: int, got, place: str = "the result") -> str:
    """The words where several values were asked for, and one or another number of them came."""
    together = isinstance(got, (tuple, list))
    came = str(len(got)) if together else kind_of(got)
    return f"{place} should be {count} values, {'' if together else 'returned together, '}not {came}"


def _numbers(expected, got, rtol, atol, place):
    wants_array = isinstance(expected, np.ndarray) and expected.ndim > 0
    if is_tensor(expected) and not is_tensor(got) or is_tensor(got) and wants_array:
        return Difference("type", f"{place} is {kind_of(got)} where {kind_of(expected)} was expected", expected, got)
    if wants_array and isinstance(got, (list, tuple)):
        if as_array(got) is None:
            return _not_numbers(expected, got, place)
        advice = "; `np.array(...)` converts it" if isinstance(got, list) else ""
        return Difference("type", f"{place} is {kind_of(got)} where a NumPy array was expected{advice}", expected, got)
    if isinstance(got, (str, dict)):
        return Difference("type", f"{place} is {kind_of(got)} where {kind_of(expected)} was expected", expected, got)
    left, right = as_array(expected), as_array(got)
    if left is None or right is None:
        return _not_numbers(expected, got, place)
    if left.shape != right.shape:
        words = f"{place} has shape {right.shape} where {left.shape} was expected"
        if right.ndim == 0:
            words = f"{place} is a single number where shape {left.shape} was expected"
        elif left.ndim == 0:
            words = f"{place} has shape {right.shape} where a single number was expected"
        return Difference("shape", words, expected, got)
    kinds = {"b": "truth values", "c": "complex numbers"}
    for kind in kinds:
        if (left.dtype.kind == kind) != (right.dtype.kind == kind):
            came = kinds.get(right.dtype.kind, "ordinary numbers")
            wanted = kinds.get(left.dtype.kind, "ordinary numbers")
            return Difference("dtype", f"{place} holds {came} where {wanted} were expected", expected, got)
    wanted, came = (_dtype(value, array) for value, array in ((expected, left), (got, right)))
    if left.dtype.kind == right.dtype.kind == "f" and left.ndim and wanted != came:
        return Difference("dtype", f"{place} has dtype {came} where {wanted} was expected", expected, got)
    close = left == right
    if left.dtype.kind != "b" and not close.all():  # most are equal to the last bit, which is quick to check
        with np.errstate(all="ignore"):
            close |= _entries_within_tolerance(right, left, rtol, atol)
    if close.all():
        return None
    return _first_entry(left, right, close, expected, got, place)


def _entries_within_tolerance(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """`numpy.isclose` with `equal_nan`, for entries that are not equal: grading compares some thousand arrays."""
    b = b.astype(float) if b.dtype.kind in "iu" else b
    return (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | np.isnan(a) & np.isnan(b)


def _dtype(value, array: np.ndarray) -> str:
    """The name of its dtype; NumPy has no bfloat16, so the tensor's own dtype counts."""
    return str(value.dtype).removeprefix("torch.") if is_tensor(value) else str(array.dtype)


def _first_entry(left, right, close, expected, got, place):
    """The words on the first entry that is not close, and on the kind of number if that is the cause."""
    where = np.unravel_index(np.argmin(close), close.shape)
    first, second = left[where], right[where]
    kind = "nan" if right.dtype.kind == "f" and np.isnan(second) else "value"

    def words() -> str:
        at = f" at {[int(i) for i in where]}" if where else ""
        wanted, came = apart(first.item(), second.item())
        if kind == "nan":
            return f"{place} has nan{at} where {wanted} was expected"
        said = f"{place} is {came}{at} where {wanted} was expected"
        if left.dtype.kind == "f" and right.dtype.kind in "iu" and right.ndim:
            said += f". Its dtype is {right.dtype}, which cannot hold fractions"
        elif left.dtype.kind == right.dtype.kind == "f" and right.dtype.itemsize < left.dtype.itemsize:
            said += f". Its dtype is {right.dtype}, which holds fewer digits than {left.dtype}"
        return said

    return Difference(kind, words, expected, got)


def _not_numbers(expected, got, place):
    if isinstance(got, (list, tuple)) and got and all(isinstance(row, (list, tuple, np.ndarray)) for row in got):
        lengths = [
            np.shape(row)[0] if isinstance(row, np.ndarray) and row.ndim else len(row)
            for row in got
            if not isinstance(row, np.ndarray) or row.ndim
        ]
        if len(set(lengths)) > 1:
            return Difference(
                "type", f"{place} has rows of different lengths ({', '.join(map(str, lengths[:6]))})", expected, got
            )
    return Difference(
        "type", f"{place} contains things that are not numbers, or rows of different lengths", expected, got
    )


def as_array(value) -> np.ndarray | None:
    """A NumPy array of numbers, or None for ragged lists and for things that are not numbers."""
    if is_tensor(value):
        return as_numpy(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RuntimeError):
        return None
    if array.dtype.kind == "O" and array.ndim == 0 and isinstance(value, int):
        with contextlib.suppress(OverflowError):
            return np.asarray(float(value))  # a whole number too long for int64
        return np.asarray(np.inf if value > 0 else -np.inf)  # and for a float
    return array if array.dtype.kind in "biufc" else None
