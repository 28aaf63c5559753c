"""Probes of classes: methods called one after another, chunks read with a cache, tokens routed to modules."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from attnlab.checking import codec
from attnlab.checking.probes.base import CHANGED, Part, Probe, bitwise_equal, is_error, refusal
from attnlab.checking.probes.class_as_function import ProbeError


def _in_step(found) -> str:
    """The words on one call of several. Errors are results there, written as the name of their type."""
    number, method = found.part.split(", ")
    words = found.words
    if isinstance(found.expected, str):
        if is_error(found.got):
            words = f"it raised {found.got} where it should raise {found.expected}"
        else:
            words = f"it should have raised {found.expected}, but it returned something"
    elif is_error(found.got):
        words = f"it raised {refusal(found.got)} on input that it should accept"
    return f"In {number} ({method}): {words}"


SHARED = (
    "a new object does not begin empty: it already holds what another one was given. What an object keeps belongs in "
    "`self`, made in `__init__`, and not in the class"
)


def _calls(made, steps, telling: int | None = None) -> dict[str, Any]:
    """The results of an object's methods, by step. A ValueError or a RuntimeError is one of them."""
    seen = {}
    for number, step in enumerate(steps, start=1):
        arguments = {name: value for name, value in step.items() if name != "do"}
        try:
            result = len(made) if step["do"] == "len" else getattr(made, step["do"])(**arguments)
        except (NotImplementedError, RecursionError):
            raise
        except (ValueError, RuntimeError):
            if number == telling:
                raise
            result = "ValueError"
        except (AttributeError, TypeError) as error:
            if number in (1, telling):
                raise
            result = type(error).__name__
        seen[f"step {number}, {step['do']}"] = codec.copied(result)
    return seen


class MethodCalls(Probe):
    """The results of an object's methods, called one after another.

    steps: list of {"do": method's name, or "len", and the method's arguments by name}
    A ValueError (or PyTorch's RuntimeError) is a result like any other, and the next step follows. Each result is
    copied right away.

    telling: the number of a step whose exception is not a result, so that its words and its line can be told
    """

    name = "steps"
    without_merit = ""  # what an object keeps need not be computed
    parts = {
        "step": Part(
            _in_step,
            "One of several calls in a row did not do what it should",
            returned=True,
            error=True,
            vague=True,
            common=True,
        ),
        "changed": CHANGED,
    }

    def call(self, f, *, init, steps, telling=None):
        first = codec.copied(steps[:1])
        made = f.cls(**init)
        seen = _calls(made, steps, telling)
        # What belongs to the class, and not to the object, is there in a new object too.
        again = _calls(f.cls(**init), first)
        if any(not bitwise_equal(seen[name], result) for name, result in again.items()):
            raise ProbeError(SHARED)
        return {**seen, "after": steps}  # at the end, because the last step may alter what the first was given

    def conclude(self, raw, used, *, steps, **case):
        seen = dict(raw[0])
        after = seen.pop("after")
        changed = [
            name
            for then, now in zip(steps, after, strict=True)
            for name in then
            if not bitwise_equal(then[name], now[name])
        ]
        return {**seen, "changed": ", ".join(changed)}


def _kept(found) -> str:
    """The words on what a cache keeps, a tensor of keys and one of values."""
    if found.kind == "type" and not found.got:
        return "The cache was given nothing"
    words = found.words
    for number, which in enumerate(("first", "second"), start=1):
        words = words.replace(f"value {number} of 2", f"the {which} of the two tensors that the cache keeps")
    return words


class ChunkedReading(Probe):
    """The output of a module that reads its input in chunks with a cache.

    The outputs of the chunks are put together; besides, how many heads each cache was given. With `kept`, only what the
    cache holds in the end: its keys and its values.

    inputs: the one that is cut, (batch, n, ...), and others that stay whole; the first one given is cut
    cuts: where along n a new chunk begins, ascending; none means one pass with an empty cache
    beside: another input like the first, possibly of another batch size, cut in the same way and read in between with
        its own cache: neither output may depend on the other
    A class whose forward takes `caches` gets one for each of its `blocks`.
    """

    name = "in_chunks"
    parts = {
        "kept heads": Part("The cache was given nothing, or the wrong number of key/value heads"),
        "kept": Part(_kept, "The cache was given other tensors than it should keep", numbers=True, vague=True),
    }

    def call(self, f, *, init, cuts, weights=None, beside=None, kept=False, **inputs):
        import torch

        from attnlab.checking.fakes import FixedCache, fakes_allowed

        made, _ = f.make(init, weights or {})
        plural = "caches" in inspect.signature(made.forward).parameters
        name = next(iter(inputs))
        streams = [value for value in (inputs.pop(name), beside) if value is not None]

        def cache(tokens) -> dict[str, Any]:
            with fakes_allowed():
                if plural:
                    return {"caches": [FixedCache(tokens) for _ in made.blocks]}
                return {"cache": FixedCache(tokens)}

        # More room than needed: tokens that are fed twice should change the numbers, not raise an exception.
        caches = [cache(4 * stream.shape[1]) for stream in streams]
        outputs = [[] for _ in streams]
        for start, end in zip([0, *cuts], [*cuts, None]):
            for stream, held, output in zip(streams, caches, outputs):
                result = made(**{name: stream[:, start:end]}, **inputs, **held)
                if not isinstance(result, torch.Tensor):
                    raise ProbeError(f"the result should be one tensor, not {type(result).__name__}")
                output.append(result.detach().clone())
        joined = [torch.cat(output, dim=1) for output in outputs]
        given = [each for held in caches[0].values() for each in (held if plural else [held])]
        result = joined[0] if beside is None else joined
        if kept:
            return {"kept": tuple(row.clone() for each in given for row in each.all())}
        return {"result": result, "kept heads": [each.heads for each in given]}


class Routing(Probe):
    """The result of a module, and how many rows each module of its list `inner` was called with, over all calls.

    A list of vectors, given one by one, counts as much as their table.
    """

    name = "routed"
    parts = {
        "given": Part(
            "The modules in its list were called with {got} rows, in this order; theirs are {expected}",
            "The modules in its list were called with other rows than those that are theirs",
        )
    }
    tolerates = frozenset({"value", "nan"})
    without_merit = "The right rows are given, but this counts only where results are computed from them."

    def call(self, f, *, init, inner, weights=None, **inputs):
        import torch

        made, _ = f.make(init, weights or {})
        parts = getattr(made, inner, None)
        if not isinstance(parts, torch.nn.ModuleList):
            raise ProbeError(f"it should have `{inner}`, an nn.ModuleList; that is {type(parts).__name__}")
        given, width = [0] * len(parts), inputs["x"].shape[-1]

        def count(at, args, named):
            given[at] += sum(value.numel() // width for value in (*args, *named.values()) if torch.is_tensor(value))

        for at, part in enumerate(parts):
            part.register_forward_pre_hook(lambda _, args, named, at=at: count(at, args, named), with_kwargs=True)
        result = made(**inputs)
        return {"given": np.array(given), "result": result}  # the first difference counts
