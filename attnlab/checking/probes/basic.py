"""Probes of what an answer returns, refuses and leaves alone."""

from __future__ import annotations

import copy

import numpy as np

from attnlab.checking import codec
from attnlab.checking.formatting import as_numpy, kind_of
from attnlab.checking.probes.base import CHANGED, Part, Probe, changed_inputs, refusal
from attnlab.checking.probes.class_as_function import ClassAsFunction, ProbeError


class Call(Probe):
    """The result."""

    name = "call"


class Unchanged(Probe):
    """The inputs as the answer left them, its result, and that of a second call.

    The result is included because doing nothing earns nothing, and the second one, on the same input,
    because something may be left over from the first.
    """

    name = "unchanged"
    parts = {
        "changed": CHANGED,
        "after": Part("It altered its input", verdict=True, symptom=False),
        "second call": Part("Called a second time on the same input, it gave a different result", numbers=True),
    }
    tolerates = frozenset({"value", "nan", "shape", "dtype"})
    without_merit = "The input is left as it was, but this counts only where numbers are computed from it."

    def call(self, f, **inputs):
        again = copy.deepcopy(inputs)
        if isinstance(f, ClassAsFunction):  # both calls go to one object
            made, _ = f.make(inputs["init"], inputs.get("weights", {}))
            f = lambda init, weights=None, **given: made(**given)  # noqa: E731
        result = codec.copied(f(**inputs))
        return {"after": inputs, "result": result, "second call": f(**again)}

    def conclude(self, raw, used, **case):
        (seen,) = raw
        kept = {part: seen[part] for part in ("after", "result", "second call")}
        return {"changed": changed_inputs(case, seen["after"]), **kept}


class Integer(Probe):
    """The result, which must be a whole number, or a tuple with some: 7.0 equals 7, but it cannot be an index."""

    name = "whole"
    parts = {"kind": Part("It is {got} where {expected} was asked for", "It is not a whole number")}
    tolerates = frozenset({"value"})
    without_merit = "It is a whole number, but this counts only where it is computed from the input."

    def conclude(self, raw, used, **case):
        result = raw[0]["result"]
        names = {"b": "a truth value"} | dict.fromkeys("iuO", "a whole number")  # O: an int too long for int64
        parts = [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]
        kinds = [
            names.get(part.dtype.kind, "a float")
            + " of one byte" * (part.dtype.kind in "iu" and part.dtype.itemsize == 1)
            for part in parts
        ]
        return {"result": result, "kind": " and ".join(kinds)}


class NestedList(Probe):
    """The result, which must be a list of rows and not something that only compares equal to one."""

    name = "plain"
    parts = {"form": Part("It is {got} where {expected} was asked for", "It is not made of plain lists")}

    def conclude(self, raw, used, **case):
        result = raw[0]["result"]
        is_rows = isinstance(result, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in result)
        return {"result": result, "form": "a list of rows" if is_rows else kind_of(result)}


def _raised(found) -> str:
    if found.expected == "nothing":
        return f"It raised {refusal(found.got)} on input that it should accept"
    if found.got == "nothing":
        return f"It raised nothing where it should raise {str(found.expected)[:60]}"
    return f"It raised {str(found.got)[:60]} where it should raise {str(found.expected)[:60]}"


def _raised_discreetly(found) -> str:
    if found.expected == "nothing":
        return "It refuses what it should accept"
    if found.got == "nothing":
        return "It accepts what it should refuse"
    return "It refuses with an exception other than ValueError"


class Refusal(Probe):
    """The type of the exception that a call raises, or "nothing" and the result.

    PyTorch's own shape checks raise RuntimeError where NumPy raises ValueError, so the two count as the same; endless
    recursion does not. Refusing everything earns nothing: see `attnlab.checking.judge`.
    """

    name = "error_of"
    parts = {"raises": Part(_raised, _raised_discreetly, verdict=True, error=True)}
    tolerates = frozenset({"value", "nan", "shape", "dtype"})
    without_merit = "What should be refused is refused, but this counts only where results are computed from the input."

    def call(self, f, **inputs):
        try:
            result = f(**inputs)
        except (NotImplementedError, RecursionError, ProbeError):
            raise
        except (ValueError, RuntimeError):
            return {"raises": "ValueError", "result": None}
        except Exception as error:
            return {"raises": type(error).__name__, "result": None}
        return {"raises": "nothing", "result": result}


class Sensitivity(Probe):
    """Which entries of the result differ when one input is replaced; of several outputs, those of the first."""

    name = "moved"
    parts = {
        "moved": Part(
            "When one input is replaced, the wrong entries of the result change", verdict=True, symptom=False
        ),
        "moved clearly": Part("When one input is replaced, the wrong entries of the result change", verdict=True),
    }

    def call(self, f, **inputs):
        return {"result": f(**copy.deepcopy(inputs))}

    def ask(self, *, name, replacement, **inputs):
        return [inputs, {**inputs, name: replacement}]

    def conclude(self, raw, used, **case):
        first, second = (_first_output(seen["result"]) for seen in raw)
        if first.shape != second.shape:
            shapes = f"shape {first.shape} became {second.shape}"
            return {"moved": shapes, "moved clearly": shapes}
        clearly = differs = first != second
        if first.dtype.kind in "fc":
            half = np.sqrt(np.finfo(first.dtype).eps)
            clearly = differs & ~np.isclose(first, second, rtol=half, atol=half)
        return {"moved": differs, "moved clearly": clearly}


def _first_output(out):
    out = out[0] if isinstance(out, tuple) or isinstance(out, list) and hasattr(out[0], "shape") else out
    return as_numpy(out) if hasattr(out, "detach") else np.asarray(out)
