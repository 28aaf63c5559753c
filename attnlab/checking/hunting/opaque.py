"""Implementations that a test can call and cannot look into.

A test is judged by its verdicts on implementations (see `attnlab.checking.hunting.examination`). It gets an opaque
callable, or a class with opaque methods: each call becomes a message of plain data, a `Host` that has the
implementation answers it, and the reply becomes a result or an exception. In a notebook both are in one process.
While grading, the test runs in the sandbox and the host in the grader, and only data pass between them.

What passes are values: arrays, tensors, numbers, lists. Gradients, devices and the layout in memory do not.
"""

from __future__ import annotations

import builtins
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from attnlab.checking import codec
from attnlab.checking.schema import Contract

MOST_NUMBERS = 4096  # in the arrays of one call: enough for any test, and too few to make a call slow
SINGLE = 16  # further numbers, such as a temperature
MOST_CALLS = 1000  # in one verdict
MOST_SECONDS = 5.0  # of all its calls together
MOST_BYTES = 1 << 20  # of a result

# Of this thread alone: others of PyTorch wait busily where a machine has other work. A page has one thread.
thread_time = time.process_time if sys.platform == "emscripten" else time.thread_time

Ask = Callable[[dict[str, Any]], dict[str, Any]]


class LimitReached(Exception):
    """A test asked for more than an implementation answers in one verdict."""


# For the test ---------------------------------------------------------------------------------------------------------


def verdict(test: Callable, implementation: Callable, describe: Callable[[Exception], Any]) -> dict[str, Any]:
    """Run a test on one implementation. returns: whether it was accepted, and a description of the exception if not"""
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            test(implementation)
    except Exception as error:
        return {"accepted": False, "error": describe(error)}
    return {"accepted": True, "error": None}


def opaque(contract: Contract, ask: Ask) -> Callable:
    """A callable, or a class, whose calls are answered by `ask`."""
    if contract["methods"] is None:

        def implementation(*args, **kwargs):
            return _call(contract, ask, None, "", args, kwargs)

        implementation.__name__ = implementation.__qualname__ = contract["of"]
        return implementation

    def __init__(self, *args, **kwargs):
        self._number = _call(contract, ask, None, "", args, kwargs)

    def method(name: str) -> Callable:
        def call(self, *args, **kwargs):
            return _call(contract, ask, self._number, name, args, kwargs)

        call.__name__ = call.__qualname__ = name
        return call

    own = {name: method(name) for name in contract["methods"]}
    has = ", ".join(own)

    def __getattr__(self, name):
        raise AttributeError(f"a test has nothing of a {contract['of']} but {has}")

    return type(contract["of"], (), {"__init__": __init__, "__getattr__": __getattr__, **own})


def _call(contract: Contract, ask: Ask, number: int | None, method: str, args: tuple, kwargs: dict[str, Any]):
    given = {**{str(i): value for i, value in enumerate(args)}, **kwargs}
    generators = {name: value for name, value in given.items() if _is_generator(value)}
    plain = {name: value for name, value in given.items() if name not in generators}
    message: dict[str, Any] = {"object": number, "method": method, "given": plain}
    message["generators"] = {name: each.get_state() for name, each in generators.items()}
    torch = sys.modules.get("torch")
    message["state"] = torch.get_rng_state() if torch and contract["random"] else None
    reply = ask(message)
    for name, state in reply.get("generators", {}).items():
        generators[name].set_state(state)
    if reply.get("state") is not None and torch:
        torch.set_rng_state(reply["state"])
    for name, value in reply.get("changed", {}).items():
        _overwrite(given[name], value)
    if "refused" in reply:
        raise LimitReached(reply["refused"])
    if "raised" in reply:
        raise _exception(reply["raised"])
    return reply["result"]


def _is_generator(value) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Generator)


def _overwrite(array, value) -> None:
    """Give an argument the contents that the implementation has left in it."""
    if getattr(array, "shape", None) == getattr(value, "shape", ()):
        if isinstance(array, np.ndarray):
            array[...] = value
        else:
            array.detach().copy_(value)


def _exception(name: str) -> Exception:
    kind: Any = getattr(builtins, name, None)
    fits = isinstance(kind, type) and issubclass(kind, Exception)
    return kind("the implementation raised it") if fits else RuntimeError("the implementation raised an exception")


# For the implementation -----------------------------------------------------------------------------------------------


class Host:
    """Answers the calls that one verdict makes. Messages may come from a hostile process: they are data, and few.

    calls: how many were answered; seconds: of processor time that the implementation has used
    bounded: whether the limits hold; not for cases of the exercise itself
    """

    def __init__(self, implementation: Callable, contract: Contract, bounded: bool = True):
        self._implementation, self._contract, self._bounded = implementation, contract, bounded
        self._objects: list[Any] = []
        self.calls, self.seconds = 0, 0.0

    def local(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer in the process of the test: what passes is copied, as a pipe would copy it."""
        return codec.copied(self.answer(codec.copied(message)))

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The reply to one call: `result` or `raised`, or `refused` with the reason."""
        self.calls += 1
        if self._bounded and self.calls > MOST_CALLS:
            return {"refused": f"a test may make {MOST_CALLS:,} calls, and to make an object is one as well"}
        if self._bounded and self.seconds > MOST_SECONDS:
            return {"refused": f"the calls of a test may take {MOST_SECONDS:g} seconds together"}
        try:
            given, generators = message["given"], message["generators"]
            if self._bounded and _size(given) > MOST_NUMBERS + SINGLE:
                return {"refused": f"the arguments of a call may have {MOST_NUMBERS:,} numbers together"}
            function = self._function(message["object"], message["method"])
            generators = {name: _generator(state) for name, state in generators.items()}
            names = {**given, **generators}
            args = [names[str(i)] for i in range(sum(name.isdecimal() for name in names))]
            kwargs = {name: value for name, value in names.items() if not name.isdecimal()}
            before = codec.copied(given)
        except Exception:
            return {"refused": "that is not a call"}
        begin = thread_time()
        reply = self._reply(function, args, kwargs, message.get("state"))
        self.seconds += thread_time() - begin
        reply["generators"] = {name: each.get_state() for name, each in generators.items()}
        same = {name: codec.frame(before[name]) == codec.frame(given[name]) for name in given}
        reply["changed"] = {name: given[name] for name in given if not same[name]}
        return reply

    def _function(self, number, method: str) -> Callable:
        if number is None:
            return self._new if self._contract["methods"] is not None else self._implementation
        if method not in (self._contract["methods"] or ()) or number < 0:
            raise ValueError(method)
        return getattr(self._objects[number], method)

    def _new(self, *args, **kwargs) -> int:
        self._objects.append(self._implementation(*args, **kwargs))
        return len(self._objects) - 1

    def _reply(self, function: Callable, args: list, kwargs: dict[str, Any], state) -> dict[str, Any]:
        torch = sys.modules.get("torch")
        own = torch.get_rng_state() if torch and state is not None else None
        try:
            if torch and own is not None:
                torch.set_rng_state(state)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                result = function(*args, **kwargs)
            codec.frame(result, MOST_BYTES if self._bounded else codec.MAX_BYTES)
            reply = {"result": result}
        except codec.CodecError:
            reply = {"raised": "TypeError"}
        except Exception as error:
            names = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
            reply = {"raised": next(names, "Exception")}
        if torch and own is not None:
            reply["state"] = torch.get_rng_state()
            torch.set_rng_state(own)
        return reply


def _generator(state):
    import torch

    return torch.Generator().set_state(state)


def _size(value) -> int:
    """How many numbers a value has. An axis of length 0 counts as 1, since a result may be large nevertheless."""
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, (list, tuple)):
        return 1 + sum(map(_size, value))
    count = 1
    for length in getattr(value, "shape", ()):
        count *= max(1, length)
    return count
