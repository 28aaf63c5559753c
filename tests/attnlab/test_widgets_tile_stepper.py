"""The tile stepper: every step against the reference answers, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import TileStepper
from solutions.efficient_attention import online_softmax, tiled_attention
from tests.attnlab.widget_page import WAY, frame_clock, sets, state_of

LOG_2 = math.log(2)
# More queries than keys.
TALL = dict(scores=np.arange(12).reshape(6, 2) % 5 - 1.5, values=[[1, 2], [3, -4]], causal=True)
LARGE = dict(scores=[[40, -40, 40], [-40, -39.5, -40]], values=[[1, 0], [0, 1], [5, 5]], block_size=2)
OPTIONS = [{}, dict(block_size=4), dict(block_size=1, causal=True), dict(block_size=3, causal=True), dict(block_size=6)]
OPTIONS += [TALL, LARGE]
FIXTURES = [state_of(TileStepper(**options)) for options in OPTIONS]
SET = [dict(block_size=3, step=1)]
PLAYS = [(TileStepper(block_size=6, step=1), dict(step=3), "next")]
AGAIN = TileStepper(step=5)
REFUSED = [
    (dict(scores=[[1, 2]]), "2, 4 or 6 rows"),
    (dict(scores=[[1], [2]]), "2 to 6 numbers"),
    (dict(scores=[[1, math.inf], [0, 0]]), "finite"),
    (dict(values=[[1, 2]]), "6 pairs"),
    (dict(step=8), "step must be 0 to 7, got 8"),
]
REFUSED_LATER = [("block_size", 0, "block_size")]
STOPS = ["back", "next", "play", "reset", "1", "2", "3", "4", "6", "causal"]
EXAMPLES = [
    (TileStepper(), dict(step=1), dict(step=3), dict(step=1, causal=True)),
    (TileStepper(block_size=6), dict(step=1)),
]
EXTREMES = [(TileStepper(**options),) for options in (TALL, LARGE)]


def reference(state):
    """Keys are the identity, so queries hold the scaled scores; the widget's scores count powers of two."""
    scores, values = (torch.tensor(state[name]).double() for name in ("scores", "values"))
    n_k = scores.shape[1]
    eye = torch.eye(n_k).double()
    outputs = tiled_attention(scores * LOG_2 * n_k**0.5, eye, values, state["block_size"], state["causal"])
    return {"outputs": outputs}


def tile_steps(view):
    """(state, step, row) of each tile and query, for every fixture."""
    for state in FIXTURES:
        for step in view.compute(state)["steps"]:
            yield from ((state, step, row) for row in (step["rows"] if step["kind"] == "tile" else []))


def test_maximum_and_total_of_every_step_are_those_of_the_stream_so_far(shown):
    for state, step, row in tile_steps(shown(TileStepper())):
        n_q, n_k = np.shape(state["scores"])
        last = min(step["keys"][-1], row["query"] + n_k - n_q if state["causal"] else n_k)
        seen = torch.tensor(state["scores"][row["query"]][: max(0, last + 1)]).double()
        maximum, total = online_softmax([seen * LOG_2])
        assert (row["maximum"], row["total"]) == pytest.approx((maximum / LOG_2, total))


def test_a_step_rescales_what_was_there_and_adds_what_is_new(shown):
    for state, step, row in tile_steps(shown(TileStepper())):
        before, new = row["before"], np.array(row["powers"]) @ np.array(state["values"])[step["keys"]]
        assert row["total"] == pytest.approx(before["total"] * row["factor"] + sum(row["powers"]))
        np.testing.assert_allclose(row["output"], np.array(before["output"]) * row["factor"] + new, atol=1e-12)


def test_tiles_beyond_the_diagonal_are_not_steps_and_python_agrees(shown):
    view = shown(TileStepper())
    for state, options in zip(FIXTURES, OPTIONS):
        assert len(view.compute(state)["steps"]) == TileStepper(**options).last + 1
    for causal, tiles in (False, 6), (True, 5):
        steps = view.compute(state_of(TileStepper(causal=causal)))["steps"]
        assert sum(step["kind"] == "tile" for step in steps) == tiles


CONTROLS = {
    "steps have the numbers on paper": (
        TileStepper(),
        {"=maximum-0": "2", "=factor-0": "", "=total-0": "1.5"},  # there is nothing to rescale yet
        sets(step=1),
        {"=title": "Step 2 of 8. q0 and q1 meet k2 and k3.", "[data-value=tile-0] > span": ["4", "2"]},
        {"=maximum-0": "2 → 4", "=factor-0": "old × 0.25", "=total-0": "1.625", "=gathered-0": "4", "=second-0": "11"},
        {"=maximum-1": "3", "=factor-1": "", "=memory": "4 scores at a time, of 24"},
        {"[data-cell]": ["·", "·", *[""] * 4, "·", "·", *[""] * 16], "[data-when=here]": 4, "[data-when=gone]": 4},
        sets(step=3),
        {"said": "Step 4 of 8. The division at the end. q0: output (2.667, 5.111). q1: output (5.185, 4.444)."},
        (sets(causal=True, step=1), {"=tile-0": "4\n−∞", "=total-0": "1.375", "cell=0-4@data-when": "never"}),
    ),
    "a row without keys is zero": (
        TileStepper(**TALL),
        {"=gathered-0": "0", "=second-0": "0", "=output-1": "(0, 0)"},
    ),
    "another tile begins at the beginning": (
        TileStepper(step=5),
        ("size=3", dict(block_size=3, step=0)),
        ("next | causal=causal", dict(causal=True, step=0)),
        {"[aria-pressed=true]": ["3", "Causal"]},
    ),
}
WALKS = [(TileStepper(block_size=6), "step", 3)]


def widths(view):
    """(old, fresh) of every bar, as parts of its lane."""
    return view.each(".ts-bar", "[...one.children].map((one) => new DOMMatrix(getComputedStyle(one).transform).a)")


def test_bars_of_old_sums_shrink_by_the_factor_and_new_terms_are_added(shown):
    view = shown(TileStepper())
    first = sum(widths(view)[0])
    view.press("next")
    assert widths(view)[0] == pytest.approx([0.25 * first, 1.25 / 1.5 * first], abs=1e-3)


@pytest.mark.parametrize("wanted", ["no-preference", "reduce"])
def test_the_tile_travels_to_the_fast_memory_unless_motion_is_unwanted(shown, wanted):
    view = shown(TileStepper(), before=frame_clock(), reduced_motion=wanted)
    _, *looks = view.evaluate(WAY, [dict(step=1), {".ts-bar i": "style", ".ts-traveler": "style"}, 100])[0]
    sizes, places = zip(*(look.split(";,") for look in looks))
    places = {place for place in places if "opacity: 1;" in place}
    if wanted == "no-preference":
        assert len({*sizes}) > 3 and len(places) > 3
    else:
        assert (len({*sizes}), places) == (1, set())


TRAITS = {
    "a step that is no longer there begins again": (dict(step=7), sets(block_size=6), dict(step=0)),
}
