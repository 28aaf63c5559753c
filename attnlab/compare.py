"""Compare what came with what should have come, and say in words where they first part.

Values are trees as in `attnlab.codec`. Numbers agree within rtol and atol as in `numpy.isclose`; everything else
(shape, kind of number, strings, missing parts) must agree exactly. What the course does not grade is let through:
list, tuple and array for results of plain Python, Python float for NumPy scalar, whole numbers written as int.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnlab.probes import PHRASES


@dataclass(frozen=True)
class Difference:
    """Where two values part. `kind` is one of none, type, shape, dtype, nan, value."""

    kind: str
    words: str
    expected: Any
    got: Any


def difference(expected, got, rtol: float = 1e-9, atol: float = 1e-12, place: str = "the result") -> Difference | None:
    """The first difference between two values, or None if they agree."""
    if got is None and expected is not None:
        return Difference("none", f"{place} is None. Is a `return` missing?", expected, got)
    if expected is None or isinstance(expected, (str, bool, np.bool_)):
        return _exact(expected, got, place)
    if isinstance(expected, dict):
        return _dicts(expected, got, rtol, atol, place)
    if isinstance(expected, tuple):
        return _tuples(expected, got, rtol, atol, place)
    return _numbers(expected, got, rtol, atol, place)


def agree(a, b, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
    """Whether two values agree."""
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
        name = "the result" if key == "result" else f"`{key}`"
        found = difference(expected[key], got[key], rtol, atol, name)
        if found and key in PHRASES:
            return replace(found, words=PHRASES[key].format(got=got[key], expected=expected[key]))
        if found:
            return found
    return None


def _tuples(expected, got, rtol, atol, place):
    if not isinstance(got, (tuple, list)):
        return Difference("type", f"{place} should be {len(expected)} values, returned together; "
                                  f"{kind_of(got)} came", expected, got)
    if len(got) != len(expected):
        return Difference("type", f"{place} should be {len(expected)} values; {len(got)} came", expected, got)
    for i, (one, other) in enumerate(zip(expected, got)):
        found = difference(one, other, rtol, atol, f"value {i + 1} of {len(expected)}")
        if found:
            return found
    return None


def _numbers(expected, got, rtol, atol, place):
    wants_tensor, is_tensor = _is_tensor(expected), _is_tensor(got)
    wants_array = isinstance(expected, np.ndarray) and expected.ndim > 0
    if wants_tensor and not is_tensor or is_tensor and not wants_tensor and wants_array:
        return Difference("type", f"{place} is {kind_of(got)} where {kind_of(expected)} was expected", expected, got)
    if wants_array and isinstance(got, (list, tuple)):
        return Difference("type", f"{place} is {kind_of(got)} where a NumPy array was expected", expected, got)
    if isinstance(got, (str, dict)):
        return Difference("type", f"{place} is {kind_of(got)} where {kind_of(expected)} was expected", expected, got)
    left, right = as_array(expected), as_array(got)
    if right is None:
        return Difference("type", f"{place} has rows of different lengths, or holds things that are not numbers",
                          expected, got)
    if left.shape != right.shape:
        words = f"{place} has shape {right.shape} where {left.shape} was expected"
        if right.ndim == 0:
            words = f"{place} is a single number where shape {left.shape} was expected"
        elif left.ndim == 0:
            words = f"{place} has shape {right.shape} where a single number was expected"
        return Difference("shape", words, expected, got)
    kinds = {"b": "true and false", "c": "complex numbers"}
    for kind, name in kinds.items():
        if (left.dtype.kind == kind) != (right.dtype.kind == kind):
            came = kinds.get(right.dtype.kind, "ordinary numbers")
            wanted = kinds.get(left.dtype.kind, "ordinary numbers")
            return Difference("dtype", f"{place} holds {came} where {wanted} were expected", expected, got)
    if left.dtype.kind == right.dtype.kind == "f" and left.ndim and left.dtype != right.dtype:
        return Difference("dtype", f"{place} came as {right.dtype} where {left.dtype} was expected", expected, got)
    if left.dtype.kind == "b":
        close = left == right
    else:
        with np.errstate(all="ignore"):
            close = np.isclose(right, left, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    at = f" at {list(where)}" if where else ""
    first, second = left[where].item(), right[where].item()
    if isinstance(second, float) and np.isnan(second):
        return Difference("nan", f"{place} has nan{at} where {short(first)} was expected", expected, got)
    return Difference("value", f"{place} is {short(second)}{at} where {short(first)} was expected", expected, got)


def as_array(value) -> np.ndarray | None:
    """A NumPy array of numbers, or None for ragged lists and for things that are not numbers."""
    if _is_tensor(value):
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return value.numpy()
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return None
    if array.dtype.kind == "O" and array.ndim == 0 and isinstance(value, int):
        return np.asarray(float(value))  # a whole number too long for int64
    return array if array.dtype.kind in "biufc" else None


def _is_tensor(value) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def kind_of(value) -> str:
    """What a value is, with an article, in a student's words."""
    if _is_tensor(value):
        return "a PyTorch tensor"
    if isinstance(value, np.ndarray):
        return "a NumPy array" if value.ndim else "a number"
    if isinstance(value, (bool, np.bool_)):
        return "True or False"
    if isinstance(value, (int, float, np.generic)):
        return "a number"
    names = {"str": "a string", "NoneType": "None", "list": "a list", "tuple": "a tuple", "dict": "a dictionary"}
    return names.get(type(value).__name__, f"a {type(value).__name__}")


def short(value, width: int = 240) -> str:
    """A value on little room: numbers to six digits, long arrays cut in the middle."""
    if isinstance(value, (bool, str)) or value is None:
        text = repr(value)
    elif isinstance(value, (float, np.floating)):
        text = f"{float(value):.6g}"
        # Two numbers that part only in a late digit must not print alike.
        text = text if float(text) == float(value) or abs(value) < 1e-300 else f"{float(value):.12g}"
    elif isinstance(value, (np.ndarray, np.generic)):
        text = np.array2string(np.asarray(value), precision=6, threshold=40, edgeitems=2, separator=", ",
                               suppress_small=False)
    elif _is_tensor(value):
        text = short(value.numpy() if str(value.dtype) != "torch.bfloat16" else value.float().numpy())
    elif isinstance(value, dict):
        text = ", ".join(f"{key} = {short(item)}" for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        text = repr(_rounded(value))
    else:
        text = repr(value)
    return text if len(text) <= width else text[: width - 4] + " ..."


def _rounded(value):
    if isinstance(value, (list, tuple)):
        return type(value)(_rounded(item) for item in value)
    if isinstance(value, (float, np.floating)):
        return float(f"{float(value):.6g}")
    return value.item() if isinstance(value, np.generic) else value
