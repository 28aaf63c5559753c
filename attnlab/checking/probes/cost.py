"""Probes of time and memory."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time

import numpy as np

from attnlab.checking import time_limit
from attnlab.checking.probes.base import LARGE_SAMPLE, Part, Probe
from attnlab.checking.probes.class_as_function import ProbeError

WALL = 6  # a call may last this many times its processor time: a busy machine is not the answer's fault
SLOWER = 5 if time_limit.IN_A_PAGE else 1  # NumPy in a browser computes on one core, and not with its fast library
STEPS = 4  # of PyTorch for one call that an answer makes, on average and at most
IN_STEP = 2.4  # growth up to this, for twice the tokens, counts as linear; quadratic growth comes close to 4


class InTime(Probe):
    """A few entries of the result on large standard normal arrays, and whether it came in so many seconds.

    seconds: of processor time; the call is stopped at the limit, and then there is no result
    shapes: name -> shape of each array to draw
    entries: the seed of the places that are compared, which the answer cannot know
    """

    name = "in_time"
    parts = {"in_time": Part("It took too long on large arrays"), "sample": LARGE_SAMPLE}
    measured = True
    not_shown = frozenset({"shapes"})

    def call(self, f, *, seconds, seed, shapes, **inputs):
        rng = np.random.default_rng(seed)
        arrays = {name: rng.normal(size=tuple(shape)) for name, shape in shapes.items()}
        seconds *= SLOWER
        begin, result = time_limit.processor_time(), None
        with contextlib.suppress(OutOfTime), _time_limit(seconds):
            result = np.asarray(f(**inputs, **arrays))
        return {"result": result, "seconds": time_limit.processor_time() - begin}

    def conclude(self, raw, used, *, seconds, entries=None, **case):
        result = raw[0]["result"]
        taken = max(raw[0]["seconds"], used[0].get("seconds", 0.0))
        if result is None or not taken <= SLOWER * seconds:
            return {"in_time": False, "sample": None}
        return {"in_time": True, "sample": _entries(entries, result)}


def _entries(seed: int | None, result):
    """A few entries of a large result."""
    flat = result.reshape(-1)
    return flat[np.random.default_rng(seed).integers(len(flat), size=8)]


class OutOfTime(BaseException):
    """Raised inside a call that takes too long; not an Exception, so that `except Exception` does not catch it."""


@contextlib.contextmanager
def _time_limit(seconds):
    """Raise OutOfTime in this thread after that much processor time.

    It is raised between two bytecodes, so it ends Python loops and no C calls. A thread that does not compute is
    stopped after WALL times as long.
    """
    used, last = time_limit.processor_time() + seconds, time.monotonic() + WALL * seconds
    if time_limit.IN_A_PAGE:

        def tick():
            if time_limit.processor_time() > used or time.monotonic() > last:
                raise OutOfTime

        with time_limit.monitored(tick):
            yield
        return
    thread = ctypes.c_ulong(threading.get_ident())
    lock, done = threading.Lock(), threading.Event()

    def watch():
        while time_limit.processor_time() < used and time.monotonic() < last:
            if done.wait(0.05):
                return
        with lock:
            if not done.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(OutOfTime))

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        with lock:
            done.set()


class Streamed(Probe):
    """The result on blocks that come one after the other and only once, and whether most of them were held at once.

    blocks: many, of one size
    large: for a second call, `count` standard normal blocks drawn as they come, each a view of `size` numbers that
        shows one in `every`: keeping a block takes much memory, and going through its numbers takes little time
    """

    name = "streamed"
    parts = {"hoarded": Part("It kept all blocks instead of only what it needs from them")}
    measured = True
    not_shown = frozenset({"large"})

    def call(self, f, blocks=None, *, seed=None, count=0, size=0, every=1, **inputs):
        import torch

        from attnlab.checking.meter import Meter, PythonAllocations

        if blocks is not None:
            with Meter() as meter:
                result = f((block.clone() for block in blocks), **inputs)
            return {"result": result, "numbers": meter.numbers}
        rng = np.random.default_rng(seed)
        with PythonAllocations() as peak:
            result = f((torch.from_numpy(rng.normal(size=size)[::every]) for _ in range(count)), **inputs)
        return {"result": result, "numbers": peak.numbers}

    def ask(self, *, large=None, **inputs):
        return [inputs] if large is None else [inputs, large]

    def conclude(self, raw, used, blocks, *, large=None, **case):
        hoarded = raw[0]["numbers"] > sum(block.numel() for block in blocks) / 2
        if large is not None:
            # It kept a large part of the numbers that were shown or, seen from outside, of the memory that holds them.
            room = large["count"] * large["size"]
            shown = room / large.get("every", 1)
            hoarded = hoarded or raw[1]["numbers"] > 3 * shown / 4 or used[1].get("bytes", 0) / 8 > room / 2
        return {"result": [seen["result"] for seen in raw], "hoarded": bool(hoarded)}


class Growth(Probe):
    """A few entries of the result for n tokens, and whether memory and work grow in step with n.

    It is called for n, for 2n and for `large["n"]`. For the first two, what PyTorch holds and computes is counted,
    which takes time; for the last, what everything else holds.

    shapes: name -> shape of each standard normal array to draw, with 0 for the number of tokens
    watched: which of "memory" and "work" are in the outcome
    entries: the seed of the places that are compared, which the answer cannot know
    """

    name = "growth"
    parts = {
        "memory in step": Part("For twice as many tokens it held far more than twice as many numbers at once"),
        "work in step": Part("For twice as many tokens it computed far more than twice as many numbers"),
        "sample": LARGE_SAMPLE,
    }
    measured = True
    tolerates = frozenset({"value", "nan"})
    needs_right_result = True
    not_shown = frozenset({"shapes", "large"})

    def call(self, f, *, seed, n, shapes, counted, **inputs):
        import torch

        from attnlab.checking.meter import Meter, PythonAllocations

        rng = np.random.default_rng(seed)
        drawn = {name: rng.normal(size=[size or n for size in shape]) for name, shape in shapes.items()}
        arrays = {name: torch.from_numpy(array) for name, array in drawn.items()}
        with Meter() if counted else PythonAllocations() as seen:
            result = f(**arrays, **inputs)
        if not isinstance(result, torch.Tensor):
            raise ProbeError(f"the result should be one tensor, not {type(result).__name__}")
        return {"result": result, "numbers": seen.numbers, "work": seen.work if isinstance(seen, Meter) else 0}

    def ask(self, *, n, large, **inputs):
        small = {**inputs, "counted": True}
        return [{**small, "n": n}, {**small, "n": 2 * n}, {**inputs, "counted": False, **large}]

    def conclude(self, raw, used, *, large, entries, watched, **case):
        small, twice, most = raw
        held = max(most["numbers"], used[2].get("bytes", 0) / 8)  # counted inside and by the operating system
        in_step = {
            "memory": twice["numbers"] <= IN_STEP * max(1, small["numbers"])
            # From outside some memory is always seen, so the bound is an absolute size: half of a matrix of all scores.
            and held <= large["n"] ** 2 / 2,
            "work": twice["work"] <= IN_STEP * max(1, small["work"]),
        }
        return {
            "sample": [_entries(entries, seen["result"]).clone() for seen in (twice, most)],
            **{f"{name} in step": in_step[name] for name in watched},
        }


class ChunkedWork(Probe):
    """Entries of the results for many tokens, and whether operations are saved by computing chunks of them together.

    It is called twice, on `times` repetitions of its tokens along their axis 2: more tokens must cost fewer further
    operations than there are tokens.

    times: two numbers, ascending
    entries: the seed of the places that are compared, which the answer cannot know
    """

    name = "chunked_work"
    parts = {
        "operations in step": Part("Its number of PyTorch operations grows with the tokens, not with the chunks"),
        "memory in step": Part("It made a tensor as large as a table of all tokens against all tokens"),
        "sample": LARGE_SAMPLE,
    }
    tolerates = frozenset({"value", "nan"})
    needs_right_result = True
    not_shown = frozenset({"times"})

    def call(self, f, *, repeated, **inputs):
        import torch

        from attnlab.checking.meter import Operations

        tokens = {
            name: torch.cat([value] * repeated, dim=2) if isinstance(value, torch.Tensor) and value.ndim > 2 else value
            for name, value in inputs.items()
        }
        with Operations() as seen:
            results = f(**tokens)
        if not isinstance(results, (tuple, list)) or not all(isinstance(result, torch.Tensor) for result in results):
            raise ProbeError(f"the result should be a tuple of tensors, not {type(results).__name__}")
        return {
            "results": [result.detach().clone() for result in results],
            "calls": seen.calls,
            "steps": seen.steps,
            "largest": seen.largest,
            "tokens": max(value.shape[2] for value in tokens.values() if isinstance(value, torch.Tensor)),
        }

    def ask(self, *, times, **inputs):
        return [{**inputs, "repeated": repeated} for repeated in times]

    def conclude(self, raw, used, *, entries, **case):
        few, many = raw
        further = many["tokens"] - few["tokens"]
        in_step = (
            many["calls"] - few["calls"] < further
            # PyTorch takes several steps for a call, such as a product of many matrices, but a fixed number of them.
            and many["steps"] - few["steps"] < STEPS * further
        )
        return {
            "sample": [_entries(entries, result).clone() for seen in raw for result in seen["results"]],
            "operations in step": in_step,
            "memory in step": many["largest"] < many["tokens"] ** 2,
        }
