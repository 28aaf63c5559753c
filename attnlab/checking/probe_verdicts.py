"""From the results of calls to what is compared: the half of a probe that runs outside the student's process.

A case of a probe takes one or several calls (`questions`), each of the probe's function in `attnlab.checking.probes`,
which
returns raw results. Here the conclusion is drawn (`conclusion`), only from the case and those results, in the check as
in the hidden test. So nothing counts that a student's process could claim about itself.
"""

from __future__ import annotations

import numpy as np

from attnlab.checking.formatting import as_numpy, kind_of
from attnlab.checking.probes import Unfit

# Inputs of a case that are for the conclusion, and are not shown to the answer.
OUTSIDE = {"entries", "regions", "spread", "watched", "least"}
SEED = 271_828_183  # of the global state; unlike a student's `np.random.seed(0)`, which must show
IN_STEP = 2.4  # growth up to this, for twice the tokens, counts as linear; quadratic growth comes close to 4
SPREAD_SEEDS = 24


def questions(probe: str, case: dict) -> list[dict]:
    """The calls for one case: the inputs of each call of the probe."""
    shown = {name: value for name, value in case.items() if name not in OUTSIDE}
    return _ASKED[probe](case, shown) if probe in _ASKED else [shown]


def conclusion(probe: str, case: dict, outcomes: list[dict]) -> dict:
    """The outcome of a case, from those of its questions: the first that is not a result, or what follows from all.

    outcomes: as `attnlab.checking.observe` has them; of a call that was measured from outside, with "used":
        {"seconds", "bytes"}
    """
    for outcome in outcomes:
        if "value" not in outcome:
            return outcome
    if probe not in _CONCLUDED:
        return {"value": outcomes[0]["value"]}
    used = [outcome.get("used", {}) for outcome in outcomes]
    try:
        return {"value": _CONCLUDED[probe](case, [outcome["value"] for outcome in outcomes], used)}
    except Unfit as error:
        return {"refused": str(error)}
    except Exception:  # any error that the results of a compromised process cause
        return {"refused": "the result is not of the kind asked for"}


def same(a, b) -> bool:
    """Whether two values are the same, bit for bit, type for type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "detach"):  # a tensor
        if a.dtype != b.dtype:
            return False
        a, b = as_numpy(a), as_numpy(b)
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _changed(before: dict, after: dict) -> str:
    """The names of inputs that have changed. A feature map is a name in the case, not an input."""
    return ", ".join(name for name in before if name != "feature_map" and not same(before[name], after[name]))


def _entries(case: dict, result):
    """A few entries of a large result. The answer cannot know which."""
    flat = result.reshape(-1)
    return flat[np.random.default_rng(case["entries"]).integers(len(flat), size=8)]


def _unchanged(case, raw, used):
    (seen,) = raw
    return {
        "changed": _changed(case, seen["after"]),
        **{part: seen[part] for part in ("after", "result", "second call")},
    }


def _whole(case, raw, used):
    result = raw[0]["result"]
    names = {"b": "a truth value"} | dict.fromkeys("iuO", "a whole number")  # O: an int too long for int64
    parts = [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]
    kinds = [
        names.get(part.dtype.kind, "a float") + " of one byte" * (part.dtype.kind in "iu" and part.dtype.itemsize == 1)
        for part in parts
    ]
    return {"result": result, "kind": " and ".join(kinds)}


def _plain(case, raw, used):
    result = raw[0]["result"]
    is_rows = isinstance(result, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in result)
    return {"result": result, "form": "a list of rows" if is_rows else kind_of(result)}


def _ask_elsewhere(case, shown):
    inner = shown.pop("probe", "call")
    return [{**inputs, "probe": inner} for inputs in questions(inner, shown)]


def _elsewhere(case, raw, used):
    """What the other probe sees, and the devices that its results were on."""
    device = ", ".join(sorted({name for seen in raw for name in seen["device"]}))
    inner = {name: value for name, value in case.items() if name != "probe"}
    outcomes = [{"value": {part: value for part, value in seen.items() if part != "device"}} for seen in raw]
    found = conclusion(case.get("probe", "call"), inner, outcomes)
    if "value" not in found:
        raise Unfit(found["refused"])
    return {**found["value"], "device": device}


def _steps(case, raw, used):
    seen = dict(raw[0])
    after = seen.pop("after")
    changed = [
        name for then, now in zip(case["steps"], after, strict=True) for name in then if not same(then[name], now[name])
    ]
    return {**seen, "changed": ", ".join(changed)}


def _ask_moved(case, shown):
    name, replacement = shown.pop("name"), shown.pop("replacement")
    return [shown, {**shown, name: replacement}]


def _moved(case, raw, used):
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


def _ask_seeded(case, shown):
    seed = shown.pop("seed")
    return [{**shown, "seed": seed + later, "global_seed": SEED + other} for later, other in ((0, 0), (0, 1), (1, 1))]


def _seeded(case, raw, used):
    first, again, other = (seen["result"] for seen in raw)
    state = np.random.RandomState(SEED).get_state()
    return {
        "repeats": same(first, again),
        "varies": not same(first, other),
        "global_untouched": same(raw[0]["global"], [state[1], int(state[2])]),
        **({"drawn": _numbers_drawn(case, raw[0]["rng"]) >= case["least"]} if "least" in case else {}),
    }


def _generator_seeded(case, raw, used):
    import torch

    first, again, other = (seen["result"] for seen in raw)
    before = {name: value for name, value in case.items() if name != "seed"}
    return {
        "generator_repeats": same(first, again),
        "generator_varies": not same(first, other),
        "torch_untouched": same(raw[0]["global"], torch.Generator().manual_seed(SEED).get_state()),
        "changed": _changed(before, raw[0]["after"]),
    }


def _ask_lands_in(case, shown):
    seed = shown.pop("seed")
    return [{**shown, "seed": seed + later} for later in range(SPREAD_SEEDS if "spread" in case else 2)]


def _lands_in(case, raw, used):
    results = [seen["result"] for seen in raw]
    for result in results:
        if np.ndim(result) > 0 or result is None:
            return {"about": result}
    if all(same(results[0], result) for result in results[1:]):
        return {"about": "the same number with every rng"}
    numbers = [float(result) for result in results]
    if "spread" in case:
        return {"spread": _region(float(np.std(numbers)), case["spread"])}
    return {"about": _region(numbers[0], case["regions"])}


def _region(number: float, regions: dict):
    return next((name for name, (low, high) in regions.items() if low <= number <= high), number)


def _numbers_drawn(case, state: dict) -> int:
    """How many numbers of 64 bits were taken from `default_rng(seed)` until it came to this state; 0 if it is not a
    state of that generator. It is a linear congruential one, so its steps are found a bit at a time."""
    start = np.random.default_rng(case["seed"]).bit_generator.state["state"]
    if state["state"]["inc"] != start["inc"]:
        return 0
    times, plus, mask = 0x2360ED051FC65DA44385DF649FCCF645, start["inc"], (1 << 128) - 1
    at, end, bit, steps = start["state"], state["state"]["state"], 1, 0
    while at != end and bit <= mask:
        if (at ^ end) & bit:
            at, steps = (at * times + plus) & mask, steps | bit
        bit, plus, times = bit << 1, plus * (times + 1) & mask, times * times & mask
    return steps


def _in_time(case, raw, used):
    result = raw[0]["result"]
    seconds = max(raw[0]["seconds"], used[0].get("seconds", 0.0))
    if result is None or not seconds <= case["seconds"]:
        return {"in_time": False, "sample": None}
    return {"in_time": True, "sample": _entries(case, result)}


def _ask_repeated(case, shown):
    return [{**shown, "training": training} for training in (False, False, True, True)]


def _repeated(case, raw, used):
    calls = [seen["results"] for seen in raw]
    if any(len(results) != 2 for results in calls):
        raise Unfit("each module must be called twice")
    modes = [calls[0] + calls[1], calls[2] + calls[3]]
    steady = [same(before, after) for results in modes for before, after in zip(results, results[1:])]
    return {"steady": np.array(steady), "result": calls[0][0]}


def _frequencies(case, raw, used):
    import torch

    ids, logits = raw[0]["result"], case["logits"]
    wanted = (case["draws"], *logits.shape[:-1])
    if not isinstance(ids, torch.Tensor) or ids.is_floating_point() or tuple(ids.shape) != wanted:
        raise Unfit(
            f"for logits {(*wanted, logits.shape[-1])} the result should be whole numbers in a tensor "
            f"{wanted}, not {shape_of(ids)}"
        )
    first, last = int(ids.min()), int(ids.max())
    if first < 0 or last >= logits.shape[-1]:
        raise Unfit(
            f"for {logits.shape[-1]} logits the result should be tokens from 0 to {logits.shape[-1] - 1}; "
            f"yours are from {first} to {last}"
        )
    share = torch.nn.functional.one_hot(ids.long(), logits.shape[-1]).double().mean(0)
    return {"possible": share > 0, "frequencies": share}


def shape_of(value) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__


def _ask_written(case, shown):
    if shown.get("seed") is None:
        return [shown]
    return [shown, {**shown, "seed": shown["seed"] + 1}, {**shown, "use_cache": shown.get("use_cache") is False}]


def _written(case, raw, used):
    import torch

    for result in (result for seen in raw for result in seen["results"]):
        if not isinstance(result, torch.Tensor) or result.ndim != 2:
            raise Unfit(f"the result should be ids in one tensor (batch, n), not {shape_of(result)}")
    first, result = raw[0]["results"]
    fed, caches = raw[0]["fed"], raw[0]["given"]
    with_cache = case.get("use_cache") is not False
    seen = {
        "fed": sum(fed) if with_cache else None,
        "caches": not with_cache
        or bool(caches)
        and all(len(set(given)) == case["n_blocks"] and given == caches[0] for given in caches),
    }
    if len(raw) == 1:
        return {"again": same(first, result), "result": result, **seen}
    return {
        "generator_repeats": same(first, result),
        "generator_varies": not same(result, raw[1]["results"][1]),
        "agrees": same(result, raw[2]["results"][1]),
        "prompt": result[:, : case["ids"].shape[1]],
        "length": result.shape[1],
        **seen,
    }


def _ask_streamed(case, shown):
    large = shown.pop("large", None)
    return [shown] if large is None else [shown, large]


def _streamed(case, raw, used):
    hoarded = raw[0]["numbers"] > sum(block.numel() for block in case["blocks"]) / 2
    if "large" in case:
        # It kept a large part of the numbers that were shown or, seen from outside, of the memory that holds them.
        room = case["large"]["count"] * case["large"]["size"]
        shown = room / case["large"].get("every", 1)
        hoarded = hoarded or raw[1]["numbers"] > 3 * shown / 4 or used[1].get("bytes", 0) / 8 > room / 2
    return {"result": [seen["result"] for seen in raw], "hoarded": bool(hoarded)}


def _held(seen: dict, used: dict) -> float:
    """The most numbers that were held at once, counted inside and by the operating system."""
    return max(seen["numbers"], used.get("bytes", 0) / 8)


def _ask_growth(case, shown):
    n, large = shown.pop("n"), shown.pop("large")
    small = {**shown, "counted": True}
    return [{**small, "n": n}, {**small, "n": 2 * n}, {**shown, "counted": False, **large}]


def _growth(case, raw, used):
    small, twice, large = raw
    in_step = {
        "memory": twice["numbers"] <= IN_STEP * max(1, small["numbers"])
        # From outside some memory is always seen, so the bound is an absolute size: half of a matrix of all scores.
        and _held(large, used[2]) <= case["large"]["n"] ** 2 / 2,
        "work": twice["work"] <= IN_STEP * max(1, small["work"]),
    }
    return {
        "sample": [_entries(case, seen["result"]).clone() for seen in (twice, large)],
        **{f"{name} in step": in_step[name] for name in case["watched"]},
    }


def _patched(case, raw, used):
    (seen,) = raw
    return {"result": seen["result"], "afterwards": seen["afterwards"], "hooks": set(seen["called"]) == {1}}


def _trained(case, raw, used):
    """What `case["watched"]` names: "result" and "returned" are of the first batch, the rest is of all together."""
    (seen,) = raw
    found = {
        "result": seen["results"][0],
        "returned": _form_of_loss(seen["results"][0], seen["graphs"][0]),
        "still": _why_still(case, seen),
        "forward passes": seen["happened"].count("forward"),
        "mode": "training" if all(seen["modes"]) else "evaluation",
    }
    layers = {
        f"{kind} of layer {number}": parameter
        for number, layer in enumerate(seen["layers"], start=1)
        for kind, parameter in zip(("weight", "bias"), layer, strict=True)
    }
    parts = {part: found[part] for part in case["watched"] if part != "layers"}
    return parts | (layers if "layers" in case["watched"] else {})


def _form_of_loss(result, graph: bool) -> str:
    if hasattr(result, "detach"):
        return "a tensor that holds its graph" if graph else "a tensor"
    return kind_of(result)


def _why_still(case, seen) -> str:
    """Why no parameter has moved, or "moved"."""
    if not same(case["layers"], seen["layers"]):
        return "moved"
    order = [event.partition(" ")[0] for event in seen["happened"]]
    if "backward" not in order:
        return "no gradient reached them"
    if "step" not in order:
        return "the optimizer made no step"
    if order.index("step") < order.index("backward"):
        return "the step came before the gradients"
    return "the step changed nothing" if "step" in seen["happened"] else "at the step there were no gradients left"


_ASKED = {
    "elsewhere": _ask_elsewhere,
    "moved": _ask_moved,
    "seeded": _ask_seeded,
    "generator_seeded": _ask_seeded,
    "lands_in": _ask_lands_in,
    "repeated": _ask_repeated,
    "written": _ask_written,
    "streamed": _ask_streamed,
    "growth": _ask_growth,
}
_CONCLUDED = {
    "unchanged": _unchanged,
    "whole": _whole,
    "plain": _plain,
    "elsewhere": _elsewhere,
    "steps": _steps,
    "moved": _moved,
    "seeded": _seeded,
    "generator_seeded": _generator_seeded,
    "lands_in": _lands_in,
    "in_time": _in_time,
    "repeated": _repeated,
    "frequencies": _frequencies,
    "written": _written,
    "streamed": _streamed,
    "growth": _growth,
    "patched": _patched,
    "trained": _trained,
}
# Probes that the operating system also measures. Small cases come before large ones, so that what PyTorch loads on
# first use does not count as an answer's own memory.
MEASURED = {"in_time", "growth", "streamed"}
