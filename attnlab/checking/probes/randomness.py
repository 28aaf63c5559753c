"""Probes of what an answer draws, from which generator, and what it draws again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.checking import codec
from attnlab.checking.probes.base import CHANGED, Part, Probe, bitwise_equal, changed_inputs, shape_of
from attnlab.checking.probes.class_as_function import ProbeError

if TYPE_CHECKING:
    from attnlab.checking.schema import Case

GLOBAL_SEED = 271_828_183  # of the global state; unlike a student's `np.random.seed(0)`, which must show
SPREAD_SEEDS = 24


def _three_calls(seed: int, inputs: Case) -> list[Case]:
    """List the inputs of three calls: one, the same with another global state, and one with another seed."""
    steps = ((0, 0), (0, 1), (1, 1))
    return [{**inputs, "seed": seed + later, "global_seed": GLOBAL_SEED + other} for later, other in steps]


class Seeded(Probe):
    """Whether all that is drawn comes from `rng`, a NumPy generator, and, with `least`, whether so many numbers do."""

    name = "seeded"
    parts = {
        "repeats": Part("Equal seeds of `rng` gave different results"),
        "varies": Part("A different seed of `rng` gave the same result"),
        "global_untouched": Part("It drew from NumPy's global random state, not from `rng`"),
        "drawn": Part("It drew fewer numbers from `rng` than so many queries and keys need"),
    }

    def call(self, f, *, seed, global_seed, **inputs):
        kept, rng = np.random.get_state(), np.random.default_rng(seed)
        try:
            np.random.seed(global_seed)
            result = codec.copied(f(**inputs, rng=rng))
            state: Any = np.random.get_state()
        finally:
            np.random.set_state(kept)
        return {"result": result, "global": [state[1], int(state[2])], "rng": rng.bit_generator.state}

    def ask(self, *, seed, **inputs):
        return _three_calls(seed, inputs)

    def conclude(self, raw, used, *, seed, least=None, **case):
        first, again, other = (seen["result"] for seen in raw)
        state: Any = np.random.RandomState(GLOBAL_SEED).get_state()
        return {
            "repeats": bitwise_equal(first, again),
            "varies": not bitwise_equal(first, other),
            "global_untouched": bitwise_equal(raw[0]["global"], [state[1], int(state[2])]),
            **({} if least is None else {"drawn": _numbers_drawn(seed, raw[0]["rng"]) >= least}),
        }


def _numbers_drawn(seed: int, state: dict[str, Any]) -> int:
    """Count the numbers of 64 bits that were taken from `default_rng(seed)` until it came to this state.

    The count is 0 if it is not a state of that generator. It is a linear congruential one, so its steps are found a bit
    at a time.
    """
    start = np.random.default_rng(seed).bit_generator.state["state"]
    if state["state"]["inc"] != start["inc"]:
        return 0
    times, plus, mask = 0x2360ED051FC65DA44385DF649FCCF645, start["inc"], (1 << 128) - 1
    at, end, bit, steps = start["state"], state["state"]["state"], 1, 0
    while at != end and bit <= mask:
        if (at ^ end) & bit:
            at, steps = (at * times + plus) & mask, steps | bit
        bit, plus, times = bit << 1, plus * (times + 1) & mask, times * times & mask
    return steps


class GeneratorSeeded(Probe):
    """Whether all that is drawn comes from `generator`, one of PyTorch's, and which inputs are altered.

    Without a `generator` it must come from PyTorch's global random state. Each call is followed by another one, which
    must draw other numbers.
    """

    name = "generator_seeded"
    parts = {
        "generator_repeats": Part("Equal seeds of `generator` gave different results"),
        "generator_varies": Part("A different seed of `generator` gave the same result"),
        "generator_goes_on": Part(
            "Called twice in a row with one `generator`, it drew the same both times: each call must take up "
            "`generator` where the one before left it"
        ),
        "torch_untouched": Part("It drew from PyTorch's global random state, not from `generator`"),
        "global_repeats": Part("With `generator=None`, the same `torch.manual_seed` before it gave different results"),
        "global_varies": Part("With `generator=None`, another `torch.manual_seed` before it gave the same result"),
        "global_goes_on": Part(
            "Called twice in a row with `generator=None`, it drew the same both times: each call must take up "
            "PyTorch's own generator where the one before left it"
        ),
        "changed": CHANGED,
    }

    def call(self, f, *, seed, global_seed, **inputs):
        import torch

        kept, again = torch.get_rng_state(), copy.deepcopy(inputs)
        try:
            torch.manual_seed(global_seed)
            generator = None if seed is None else torch.Generator().manual_seed(seed)
            result = codec.copied(f(**inputs, generator=generator))
            following = codec.copied(f(**again, generator=generator))
            state = torch.get_rng_state()
        finally:
            torch.set_rng_state(kept)
        return {"result": result, "following": following, "global": state, "after": inputs}

    def ask(self, *, seed, **inputs):
        without = [{**inputs, "seed": None, "global_seed": seed + later} for later in (0, 0, 1)]
        return _three_calls(seed, inputs) + without

    def conclude(self, raw, used, *, seed, **case):
        import torch

        first, again, other, alone, alone_again, alone_other = (seen["result"] for seen in raw)
        untouched = torch.Generator().manual_seed(GLOBAL_SEED).get_state()
        return {
            "generator_repeats": bitwise_equal(first, again),
            "generator_varies": not bitwise_equal(first, other),
            "generator_goes_on": not bitwise_equal(first, raw[0]["following"]),
            "torch_untouched": bitwise_equal(raw[0]["global"], untouched),
            "global_repeats": bitwise_equal(alone, alone_again),
            "global_varies": not bitwise_equal(alone, alone_other),
            "global_goes_on": not bitwise_equal(alone, raw[3]["following"]),
            "changed": changed_inputs(case, raw[0]["after"]),
        }


class SampledValue(Probe):
    """The name of the region that a number lies in which is drawn with `rng`, or that its spread over seeds lies in.

    regions, spread: name -> bounds; it is called with several seeds, since a formula is not a sample
    """

    name = "lands_in"
    parts = {
        "about": Part(
            "It came out at about {got}, where about {expected} was expected",
            "It is too far from what it should be",
            vague=True,
        ),
        "spread": Part(
            "From seed to seed, the result does not vary as it would for that many independent pairs", vague=True
        ),
    }

    def call(self, f, *, seed, **inputs):
        return {"result": f(**inputs, rng=np.random.default_rng(seed))}

    def ask(self, *, seed, spread=None, **inputs):
        return [{**inputs, "seed": seed + later} for later in range(SPREAD_SEEDS if spread else 2)]

    def conclude(self, raw, used, *, spread=None, regions=None, **case):
        results = [seen["result"] for seen in raw]
        for result in results:
            if np.ndim(result) > 0 or result is None:
                return {"about": result}
        if all(bitwise_equal(results[0], result) for result in results[1:]):
            return {"about": "the same number with every rng"}
        numbers = [float(result) for result in results]
        if spread:
            return {"spread": _region(float(np.std(numbers)), spread)}
        return {"about": _region(numbers[0], regions)}


def _region(number: float, regions: dict[str, tuple[float, float]] | None):
    return next((name for name, (low, high) in (regions or {}).items() if low <= number <= high), number)


class Repeated(Probe):
    """Which calls of one module repeat the call before them, twice in evaluation and twice in training mode."""

    name = "repeated"
    parts = {"steady": Part("Called again on the same input, it gave a different result", verdict=True)}

    def call(self, f, *, init, training, weights=None, **inputs):
        made, _ = f.make(init, weights or {})
        made.train(training)
        return {"results": [codec.copied(made(**copy.deepcopy(inputs))) for _ in range(2)]}

    def ask(self, **inputs):
        return [{**inputs, "training": training} for training in (False, False, True, True)]

    def conclude(self, raw, used, **case):
        calls = [seen["results"] for seen in raw]
        if any(len(results) != 2 for results in calls):
            raise ProbeError("each module must be called twice")
        modes = [calls[0] + calls[1], calls[2] + calls[3]]
        steady = [bitwise_equal(before, after) for results in modes for before, after in zip(results, results[1:])]
        return {"steady": np.array(steady), "result": calls[0][0]}


ALIKE = "alike"


def _in_rows(found) -> str:
    if found.expected == ALIKE:
        return "Rows with the same logits got different tokens, where only one token can be drawn"
    return "All rows with the same logits got the same token, where several can be drawn"


class Frequencies(Probe):
    """How often each token is drawn from `logits` (..., vocab_size), in `draws` draws for each row.

    Compare with an `atol` several times `1 / sqrt(draws)`, and let no possible token be so rare that it might not come.
    """

    name = "frequencies"
    parts = {
        "rows": Part(_in_rows, _in_rows),
        "token": Part(
            "Token {got} was drawn each time, where only token {expected} can be",
            "The token that is drawn each time is not the right one",
            symptom=False,
        ),
        "possible": Part("The set of tokens that can be drawn is not right"),
        "frequencies": Part("The tokens are drawn with the wrong probabilities", returned=True, vague=True),
    }

    def call(self, f, logits, *, seed, draws, **inputs):
        import torch

        rows = logits.expand(draws, *logits.shape).clone()
        return {"result": f(logits=rows, generator=torch.Generator().manual_seed(seed), **inputs)}

    def conclude(self, raw, used, logits, *, draws, **case):
        import torch

        ids = raw[0]["result"]
        wanted = (draws, *logits.shape[:-1])
        if not isinstance(ids, torch.Tensor) or ids.is_floating_point() or tuple(ids.shape) != wanted:
            raise ProbeError(
                f"for logits {(*wanted, logits.shape[-1])} the result should be whole numbers in a tensor "
                f"{wanted}, not {shape_of(ids)}"
            )
        first, last = int(ids.min()), int(ids.max())
        if first < 0 or last >= logits.shape[-1]:
            raise ProbeError(
                f"for {logits.shape[-1]} logits the result should be tokens from 0 to {logits.shape[-1] - 1}; "
                f"yours are from {first} to {last}"
            )
        share = torch.nn.functional.one_hot(ids.long(), logits.shape[-1]).double().mean(0)
        alike = bool((ids == ids[:1]).all())  # which token that is may be chance, and so is kept apart
        return {
            "rows": ALIKE if alike else "different",
            "token": ids[0].tolist() if alike else None,
            "possible": None if alike else share > 0,
            "frequencies": None if alike else share,
        }
