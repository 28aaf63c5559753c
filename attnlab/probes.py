"""Probes: each calls the student's object on given inputs and returns what can be seen, as plain data.

A probe holds no answer. The same probe runs on the student's object and on the reference, and the two outcomes are
compared leaf by leaf. So a property such as "its input is left as it was" needs no test code of its own: the probe
reports which inputs changed, and for the reference that list is empty.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import threading
import time

import numpy as np


# What a student reads when one of these observations is not as it should be. {got} and {expected} are filled in.
PHRASES = {
    "changed": "It altered its input: {got}",
    "raises": "It raised {got} where {expected} was to be raised",
    "in_time": "It took too long on large arrays",
    "repeats": "Equal seeds of `rng` gave different results",
    "varies": "Another seed of `rng` gave the same result",
    "global_untouched": "It drew from NumPy's global random state and not from `rng`",
}


def call(f, **inputs):
    """The result of `f(**inputs)`."""
    return {"result": f(**inputs)}


def unchanged(f, **inputs):
    """The names of the inputs that `f` altered, and its result: doing nothing is no merit."""
    before = copy.deepcopy(inputs)
    result = f(**inputs)
    return {"changed": ", ".join(name for name in inputs if not same(inputs[name], before[name])), "result": result}


def error_of(f, **inputs):
    """The type of the exception that `f(**inputs)` raises, or "nothing" and the result.

    PyTorch's own shape checks raise RuntimeError where NumPy raises ValueError, so the two count as the same.
    Cases should mix inputs to refuse with inputs to accept: refusing everything is no merit.
    """
    try:
        result = f(**inputs)
    except NotImplementedError:
        raise
    except (ValueError, RuntimeError):
        return {"raises": "ValueError", "result": None}
    except Exception as error:
        return {"raises": type(error).__name__, "result": None}
    return {"raises": "nothing", "result": result}


def moved(f, *, name, replacement, **inputs):
    """Which entries of the (first) output differ, bit for bit, when input `name` is replaced."""
    before = f(**copy.deepcopy(inputs))
    after = f(**{**copy.deepcopy(inputs), name: replacement})
    first, second = (np.asarray(out[0] if isinstance(out, tuple) else out) for out in (before, after))
    if first.shape != second.shape:
        return {"moved": f"shape {first.shape} became {second.shape}"}
    return {"moved": first != second}


def with_rng(f, *, seed, **inputs):
    """The result of `f` with a NumPy generator of that seed as its `rng`."""
    return {"result": f(**inputs, rng=np.random.default_rng(seed))}


def seeded(f, *, seed, **inputs):
    """Whether `f` draws from its `rng` alone: equal seeds repeat, other seeds vary, global state stays."""
    state = np.random.get_state()
    try:
        np.random.seed(0)
        first = f(**inputs, rng=np.random.default_rng(seed))
        untouched = same(np.random.get_state()[1:3], np.random.RandomState(0).get_state()[1:3])
        np.random.seed(1)
        again = f(**inputs, rng=np.random.default_rng(seed))
        other = f(**inputs, rng=np.random.default_rng(seed + 1))
    finally:
        np.random.set_state(state)
    return {"repeats": same(first, again), "varies": not same(first, other), "global_untouched": untouched}


def in_time(f, *, seconds, seed, shapes, **inputs):
    """Whether `f` answers within `seconds` on large standard normal arrays, and a few entries of the answer.

    shapes: name -> shape of each array to draw. The call is broken off at the limit. One slow answer may be the
    machine's fault, so a late answer gets a second try.
    """
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=tuple(shape)) for name, shape in shapes.items()}
    for _ in range(2):
        start = time.perf_counter()
        try:
            with _time_limit(seconds):
                result = np.asarray(f(**inputs, **arrays))
        except _OutOfTime:
            # Far too slow needs no second try; it was stopped at the limit.
            return {"in_time": False, "sample": None}
        if time.perf_counter() - start <= seconds:
            flat = result.reshape(-1)
            return {"in_time": True, "sample": flat[:: max(1, flat.size // 7)][:8]}
    return {"in_time": False, "sample": None}


class _OutOfTime(BaseException):
    """Raised inside a call that takes too long; not an Exception, so that `except Exception` does not catch it."""


@contextlib.contextmanager
def _time_limit(seconds):
    """Raises _OutOfTime in this thread after `seconds`, between two bytecodes: it ends Python loops, not C calls."""
    thread = ctypes.c_ulong(threading.get_ident())
    lock, state = threading.Lock(), {"running": True}

    def interrupt():
        with lock:
            if state["running"]:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_OutOfTime))

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            state["running"] = False
        timer.cancel()


def same(a, b) -> bool:
    """Whether two inputs are the same, bit for bit, type for type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.random.Generator):
        return a.bit_generator.state == b.bit_generator.state
    if hasattr(a, "detach"):  # a tensor
        a, b = a.detach().cpu().numpy(), b.detach().cpu().numpy()
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
