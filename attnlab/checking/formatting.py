"""Values in words and in little space, for the messages of a check."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

MOST_ENTRIES = 36  # of an array that is shown in full
MOST_LINES = 12
MOST_ROWS = 8  # of a table: what is too long for it is told by its shape


def is_tensor(value) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_numpy(tensor) -> np.ndarray:
    """The entries of a PyTorch tensor; bfloat16, which NumPy lacks, as float32."""
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def kind_of(value) -> str:
    """Name the kind of a value in a student's words, with an article."""
    if is_tensor(value):
        return "a PyTorch tensor"
    if isinstance(value, np.ndarray):
        return "a NumPy array" if value.ndim else "a number"
    if isinstance(value, (bool, np.bool_)):
        return "a truth value"
    if isinstance(value, (int, float, complex, np.generic)):
        return "a number"
    names = {"str": "a string", "NoneType": "None", "list": "a list", "tuple": "a tuple", "dict": "a dictionary"}
    return names.get(type(value).__name__, f"a {type(value).__name__}")


def apart(expected, got) -> tuple[str, str]:
    """Two different numbers, each with six digits, or with as many as it takes to distinguish them."""
    for digits in (6, 9, 12, 17):
        first, second = (f"{x:.{digits}g}" if isinstance(x, (float, complex)) else str(x) for x in (expected, got))
        if first != second:
            break
    return first, second


def short(value, width: int = 120) -> str:
    """A value on one line, numbers to six digits."""
    if isinstance(value, (float, np.floating)):
        text = f"{float(value):.6g}"
    elif isinstance(value, (np.ndarray, np.generic)) or is_tensor(value):
        text = " ".join(" ".join(_array_lines(value, 10**6, 5)).split())
    elif isinstance(value, (list, tuple)):
        text = repr(_rounded(value, 6))
    else:
        text = str(value) if isinstance(value, np.generic) else repr(value)
    return text if len(text) <= width else text[: width - 4] + " ..."


def table(values: Mapping[str, Any], width: int = 70) -> list[str]:
    """Write values as lines `name = value`, with aligned signs, each at most `width` columns wide.

    Two values named `expected` and `yours` get as many digits as it takes to distinguish them.
    """
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray) or is_tensor(value)}
    shortened = dict(values)
    for name in sorted(arrays, key=lambda name: (name in ("expected", "yours"), -int(np.prod(arrays[name].shape)))):
        if len(_table(shortened, width)) > MOST_ROWS and len(_lines(arrays[name], width)) > 1:  # a line takes no room
            shortened[name] = _Shape(_shape_words(arrays[name]))
    return _table(shortened, width)


def _shape_words(array) -> str:
    """The shape of an array, with its dtype where that is narrower than usual, since its numbers do not show it."""
    kind = str(array.dtype).removeprefix("torch.")
    return f"an array of shape {tuple(array.shape)}" + (f", {kind}" if kind in ("float16", "bfloat16") else "")


class _Shape:
    """An array of which only the shape is shown."""

    def __init__(self, words: str):
        self.words = words

    def __repr__(self) -> str:
        return self.words


def _table(values: Mapping[str, Any], width: int) -> list[str]:
    indent = max(map(len, values), default=0)
    room = width - indent - 3
    shown = {name: _lines(value, room) for name, value in values.items()}
    for digits in (9, 13, 17):
        if "yours" in shown and not isinstance(values["yours"], _Shape) and shown["yours"] == shown["expected"]:
            shown |= {name: _lines(values[name], room, digits) for name in ("expected", "yours")}
    return [
        (f"{name:<{indent}} = " if i == 0 else " " * (indent + 3)) + line
        for name, lines in shown.items()
        for i, line in enumerate(lines)
    ]


def _lines(value, width: int, digits: int = 5) -> list[str]:
    if isinstance(value, (np.ndarray, np.number)) or is_tensor(value):
        lines = _array_lines(value, width, digits)
    elif isinstance(value, float):
        lines = [f"{value:.{digits + 1}g}"]
    elif (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(item, np.ndarray) or is_tensor(item) for item in value)
    ):
        lines = []
        for item in value:
            lines += _array_lines(item, width, digits)
    elif isinstance(value, (list, tuple)) and value and all(isinstance(item, dict) and "do" in item for item in value):
        lines = [f"{number}. {_step(item)}" for number, item in enumerate(value, start=1)]
    elif isinstance(value, (list, tuple)):
        lines = textwrap.wrap(repr(_rounded(value, digits + 1)), width)
    elif isinstance(value, dict):
        lines = textwrap.wrap(", ".join(f"{key}: {short(item, 60)}" for key, item in value.items()), width)
    else:
        lines = textwrap.wrap(short(value), width)
    lines = [line if len(line) <= width else line[: width - 4] + " ..." for line in lines] or ["(nothing)"]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "..."]


def _step(step: Mapping[str, Any]) -> str:
    """A call of the probe `attnlab.checking.probes.steps` on one line: its method, and the shapes of arrays."""
    arguments = [
        f"{name} of shape {tuple(value.shape)}" if hasattr(value, "shape") else f"{name} = {short(value, 40)}"
        for name, value in step.items()
        if name != "do"
    ]
    return " ".join([step["do"], ", ".join(arguments)]).strip()


def _array_lines(value, width: int, digits: int) -> list[str]:
    array = as_numpy(value) if is_tensor(value) else np.asarray(value)
    if 0 in array.shape:
        return [f"an array of shape {array.shape}, with no entry"]
    if array.size > MOST_ENTRIES:
        first = ", ".join(short(entry.item()) for entry in array.reshape(-1)[:3])
        return [f"{_shape_words(value if is_tensor(value) else array)}, starting {first}, ..."]
    style: Any = None
    if array.dtype.kind == "f":
        sizes = np.abs(array[np.isfinite(array) & (array != 0)].astype(np.float64))  # 1e6 is not a float16
        if sizes.size and (sizes.min() < 1e-3 or sizes.max() >= 1e6):  # NumPy would use exponents for all of them
            entries = [f"{entry:.{digits}g}" for entry in array.reshape(-1).tolist()]
            column = max(map(len, entries))
            style = {"float_kind": lambda entry: f"{entry:.{digits}g}".rjust(column)}
    text = np.array2string(
        array, separator=", ", max_line_width=max(width, 30), formatter=style, precision=digits, floatmode="maxprec"
    )
    return [line for line in text.split("\n") if line.strip()]


def _rounded(value, digits: int):
    if isinstance(value, (list, tuple)):
        items = [_rounded(item, digits) for item in value[:MOST_ENTRIES]]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, np.ndarray):
        return _rounded(value.tolist(), digits)
    if is_tensor(value):
        return _rounded(as_numpy(value), digits)
    if isinstance(value, (float, np.floating)):
        return float(f"{float(value):.{digits}g}")
    return value.item() if isinstance(value, np.generic) else value
