"""Probes of what an answer returns, refuses and leaves alone."""

from __future__ import annotations

import contextlib
import copy
import inspect

import numpy as np

from attnlab.checking import codec
from attnlab.checking.compare import several_words, within_tolerance
from attnlab.checking.formatting import as_numpy, kind_of
from attnlab.checking.probes.base import CHANGED, Part, Probe, changed_inputs, refusal
from attnlab.checking.probes.class_as_function import ClassAsFunction, ProbeError

FIRST = "called first"
MOVED = "When one input is replaced, the wrong entries of the result change"
UNSTEADY = "Called again on the same input, it gives another result, so this cannot show what an input changes"


class Call(Probe):
    """The result."""

    name = "call"


def _kept(found) -> str:
    if found.got == FIRST:
        return "Two new modules with the same parameters gave two results for one input: something is drawn at random"
    return (
        f"It keeps something between calls: {str(found.got)[:60]}, it does not give what a new module gives. Compute "
        "everything from the arguments and the parameters, in each call"
    )


class Unchanged(Probe):
    """The inputs as the answer left them, its result, that of a second call, and what is kept between calls.

    The result is included because doing nothing earns nothing. The second call is on the same input, after all numbers
    of the first result were overwritten. A module is also called on other inputs, and after a change of its parameters,
    as training changes them: each time it must give what a new one gives.
    """

    name = "unchanged"
    parts = {
        "changed": CHANGED,
        "after": Part("It altered its input", verdict=True, symptom=False),
        "kept": Part(_kept, "It draws at random, or keeps something between calls", verdict=True, symptom=False),
        "second call": Part("Called a second time on the same input, it gave a different result", numbers=True),
    }
    tolerates = frozenset({"value", "nan", "shape", "dtype"})
    without_merit = (
        "The input is left as it was, but here the result is only that input again, or the same number everywhere: "
        "this counts only where something is computed."
    )

    def call(self, f, **inputs):
        again, others = copy.deepcopy(inputs), {}
        if isinstance(f, ClassAsFunction):  # all calls go to one object
            init, weights = inputs["init"], inputs.get("weights", {})
            others = _between_calls(f, init, weights, {n: inputs[n] for n in inputs if n not in ("init", "weights")})
            made, _ = f.make(init, weights)
            f = lambda init, weights=None, **given: made(**given)  # noqa: E731
        returned = f(**inputs)
        result, after = codec.copied(returned), codec.copied(inputs)
        _overwrite(returned)
        return {"after": after, "result": result, "second call": f(**again), "others": others}

    def hint_fits(self, found, case):
        return found.part in ("changed", "after")

    def conclude(self, raw, used, **case):
        (seen,) = raw
        kept = {part: seen[part] for part in ("after", "result", "second call")}
        different = [when for when, (alone, in_a_row) in seen["others"].items() if not _close(alone, in_a_row)]
        named = {"kept": different[0] if different else ""} if "init" in case else {}
        return {"changed": changed_inputs(case, seen["after"]), **named, **kept}


def _between_calls(f: ClassAsFunction, init, weights, inputs) -> dict[str, list]:
    """The results of a new module and of one that was called before, for several inputs.

    returns: words for a call -> the two results; an exception that only the second raises is the name of its type
    """
    import torch

    one, _ = f.make(init, weights)
    optional = {name for name, p in inspect.signature(one.forward).parameters.items() if p.default is not p.empty}
    first = next(iter(inputs))
    needed = {name: value for name, value in inputs.items() if name not in optional}
    flipped = {
        name: value.flip(1)
        if isinstance(value, torch.Tensor) and value.dtype != torch.bool and value.ndim > 1
        else value
        for name, value in inputs.items()
    }
    calls = {
        FIRST: inputs,
        "on another input of the same shape": flipped,
        "without what was given before": needed,
        "on a shorter input": {**needed, first: inputs[first][:, 1:]},
        "on its first input again": inputs,
        "after its parameters changed": inputs,
    }
    if needed.keys() == inputs.keys():
        del calls["without what was given before"]
    if inputs[first].shape[1] < 2:
        del calls["on a shorter input"]
    found = {}
    for when, given in calls.items():
        alone, _ = f.make(init, weights)
        if when == "after its parameters changed":
            _halve(alone)
            _halve(one)
        wanted = codec.copied(alone(**copy.deepcopy(given)))
        try:
            found[when] = [wanted, codec.copied(one(**copy.deepcopy(given)))]
        except (NotImplementedError, ProbeError):
            raise
        except Exception as error:
            found[when] = [wanted, type(error).__name__]
    return found


def _halve(made) -> None:
    import torch

    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(0.5)


def _overwrite(value) -> None:
    """Write into a result, as whoever called may. It may be read-only."""
    for part in value if isinstance(value, (tuple, list)) else [value]:
        with contextlib.suppress(ValueError, RuntimeError, TypeError):
            if hasattr(part, "fill_"):
                part.detach().fill_(7)
            elif isinstance(part, np.ndarray):
                part.fill(7)


def _close(one, other) -> bool:
    """Whether two results are the same but for rounding."""
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(_close, one, other))
    if not hasattr(one, "detach") or not hasattr(other, "detach"):
        return bool(one is other or one == other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    one, other = as_numpy(one), as_numpy(other)
    if one.dtype.kind != "f":
        return bool((one == other).all())
    half = float(np.sqrt(np.finfo(one.dtype).eps))
    return bool(np.isclose(one, other, rtol=half, atol=half, equal_nan=True).all())


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
        return {"kind": " and ".join(kinds), "result": result}  # the first difference counts


class Choice(Integer):
    """The result of choosing the largest entries of each row: their weights, and whole numbers that say where they are.

    Which of two equal entries comes first is left open. So the entries chosen are compared, and not where they are.
    """

    name = "chosen"
    parts = {
        **Integer.parts,
        "twice": Part(
            "In some row one entry was chosen more than once. Where entries are equal, each may be chosen once",
            "In some row one entry was chosen more than once",
            verdict=True,
        ),
    }

    def conclude(self, raw, used, logits, **case):
        result = raw[0]["result"]
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ProbeError(several_words(2, result))
        weights, places = result
        kind = super().conclude([{"result": (weights, places)}], used)["kind"]
        where = np.asarray(as_numpy(places) if hasattr(places, "detach") else places).astype(np.int64)
        entries = np.take_along_axis(as_numpy(logits), where, axis=-1)
        twice = bool((np.diff(np.sort(where, axis=-1), axis=-1) == 0).any())
        return {"kind": kind, "twice": twice, "result": (weights, entries)}


class Again(Probe):
    """The result, the inputs as the answer left them, and whether a second call on the same input gives the same.

    Before the second call all numbers of the first result were overwritten: a result may not be handed out twice.
    """

    name = "again"
    parts = {
        "changed": CHANGED,
        "second call": Part(
            "Called a second time on the same input, after its first result was written over, it gave another result: "
            "it keeps that result and hands it out again. Return a new one in each call",
            "Called a second time on the same input, it gave another result",
            verdict=True,
        ),
    }

    def call(self, f, **inputs):
        again = copy.deepcopy(inputs)
        returned = f(**inputs)
        result, after = codec.copied(returned), codec.copied(inputs)
        _overwrite(returned)
        return {"result": result, "after": after, "second call": f(**again)}

    def hint_fits(self, found, case):
        return found.part == "result" and super().hint_fits(found, case)

    def conclude(self, raw, used, **case):
        (seen,) = raw
        changed = changed_inputs(case, seen["after"])
        same = within_tolerance(seen["result"], seen["second call"], 1e-6, 1e-9)
        return {"result": seen["result"], "changed": changed, "second call": same}


class Layout(Probe):
    """The result, and whether it is the same where the numbers lie in memory as `split_heads` leaves them."""

    name = "layout"
    parts = {
        "view": Part(
            "Given the same numbers as a transposed view, as `split_heads` gives them, it returned other numbers: it "
            "reads memory in its own order",
            "Given a transposed view, it returned other numbers",
            verdict=True,
        ),
    }
    tolerates = frozenset({"value", "nan", "shape", "dtype"})

    def call(self, f, x, **inputs):
        laid_out = x.transpose(1, 2).contiguous().transpose(1, 2)
        return {"result": codec.copied(f(x=x, **inputs)), "view": codec.copied(f(x=laid_out, **inputs))}

    def conclude(self, raw, used, **case):
        (seen,) = raw
        return {"result": seen["result"], "view": within_tolerance(seen["result"], seen["view"])}


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


def _moved(found) -> str:
    """Which entries moved that should not have, or did not although they should."""
    got, expected = np.asarray(found.got), np.asarray(found.expected)
    if isinstance(found.got, str) and found.got == UNSTEADY:
        return UNSTEADY
    if got.dtype != bool or got.shape != expected.shape:
        return f"When one input is replaced, the result has another form: {str(found.got)[:80]}"
    if not got.any():
        return "When one input is replaced, no entry of the result changes"
    too_many, too_few = int((got & ~expected).sum()), int((expected & ~got).sum())
    counts = [
        f"{count} {'entry' if count == 1 else 'entries'} of the result {what}"
        for count, what in ((too_many, "should not change and did"), (too_few, "should change and did not"))
        if count
    ]
    return "When one input is replaced, " + ", and ".join(counts)


def _moved_discreetly(found) -> str:
    return UNSTEADY if isinstance(found.got, str) and found.got == UNSTEADY else MOVED


class Sensitivity(Probe):
    """Which entries of the result differ when one input is replaced; of several outputs, those of the first.

    The answer is also called on the first inputs again: where something is drawn at random, a difference says nothing.
    """

    name = "moved"
    not_shown = frozenset({"replacement"})
    parts = {
        "moved": Part(_moved, _moved_discreetly, verdict=True, symptom=False),
        "moved clearly": Part(_moved, _moved_discreetly, verdict=True),
    }

    def hint_fits(self, found, case):
        got, expected = np.asarray(found.got), np.asarray(found.expected)
        if isinstance(found.got, str) and found.got == UNSTEADY:
            return False
        return got.dtype != bool or got.shape != expected.shape or bool((got & ~expected).any())

    def call(self, f, **inputs):
        return {"result": f(**copy.deepcopy(inputs))}

    def ask(self, *, name, replacement, **inputs):
        return [inputs, {**inputs, name: replacement}, inputs]

    def conclude(self, raw, used, **case):
        first, second, again = (_first_output(seen["result"]) for seen in raw)
        if first.shape != again.shape or _differ(first, again)[1].any():
            return {"moved": UNSTEADY, "moved clearly": UNSTEADY}
        if first.shape != second.shape:
            shapes = f"shape {first.shape} became {second.shape}"
            return {"moved": shapes, "moved clearly": shapes}
        differs, clearly = _differ(first, second)
        return {"moved": differs, "moved clearly": clearly}


def _differ(first, second) -> tuple[np.ndarray, np.ndarray]:
    """Where two arrays of one shape differ, and where by more than rounding. nan and nan are the same."""
    clearly = differs = first != second
    if first.dtype.kind in "fc" and second.dtype.kind in "fc":
        differs = differs & ~(np.isnan(first) & np.isnan(second))
        half = np.sqrt(np.finfo(first.dtype).eps)
        clearly = differs & ~np.isclose(first, second, rtol=half, atol=half)
    return differs, clearly


def _first_output(out):
    out = out[0] if isinstance(out, tuple) or isinstance(out, list) and hasattr(out[0], "shape") else out
    return as_numpy(out) if hasattr(out, "detach") else np.asarray(out)
