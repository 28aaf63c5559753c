"""Curves to guess: how far a guess is from the truth, against NumPy, and each of the controls in a browser."""

import numpy as np

from attnlab.widgets import CurveGuess
from tests.attnlab.widget_page import state_of

RNG = np.random.default_rng(5)
TRUTH = {name: RNG.uniform(size=47) for name in ("nothing", "sines", "learned", "ALiBi")}
LABELS = dict(x_label="position", y_label="right answers", mark=15.5, mark_text="beyond training", level=1 / 16)


def make(truth=TRUTH, **options):
    return CurveGuess(truth, **{"start": 1, "level_text": "blind guess", **LABELS, **options})


FIXTURES = [
    state_of(make()),
    state_of(make(guesses=RNG.uniform(size=(4, 7)).tolist())),
    state_of(CurveGuess({"two": [0, 1]}, guesses=[[0, 0.1, 0.2, 1, 0, 1, 0]])),
]
STOPS = ["nothing", "sines", "learned", "ALiBi", "show", "reset", *map(str, range(7))]
SET = [dict(guesses=[[0.1] * 7] * 4, chosen=2, shown=True)]
AGAIN = make(guesses=[[0.25] * 7] * 4)
REFUSED = [
    (dict(truth={}), "1 to 6 curves of one length"),
    (dict(truth={"a": [0, 1], "b": [0, 1, 1]}), "curves of one length"),
    (dict(truth={"a": [0]}), "2 to 200 numbers between 0 and 1"),
    (dict(truth={"a": [0, 2]}), "numbers between 0 and 1"),
    (dict(guesses=[[0.5] * 7]), "guesses must hold 7 numbers"),
    (dict(chosen=4), "chosen must be 0 to 3, got 4"),
]
EXAMPLES = [(make(), dict(shown=True), dict(chosen=3), dict(shown=False))]
GLIDES = [(make(), dict(shown=True), {".cg-truth": "points"})]
EXTREMES = [(CurveGuess(),)]


def reference(state):
    places = np.linspace(0, 1, len(state["truth"][0]))
    drawn = np.array([np.interp(places, np.linspace(0, 1, 7), guess) for guess in state["guesses"]])
    return {"drawn": drawn, "errors": np.abs(drawn - state["truth"]).mean(1)}


OFF = np.abs(TRUTH["sines"] - 0.25).mean()
CONTROLS = {
    "the truth is hidden until it is asked for": (
        make(guesses=[[0.25] * 7] * 4),
        {".cg-truth": False, "=verdict": "Draw your guess for “nothing”."},
        ("show | curve=sines", {".cg-truth": True, "chosen": 1, "shown": True}),
        {"=verdict": f"Your guess for “sines” is off by {OFF:.2f} on average."},
    ),
}


def test_a_stroke_draws_the_guess_and_the_keys_move_a_point(shown):
    view = shown(make())
    box = view.locator(".cg-plot").bounding_box()
    middles = [view.middle(view.part("knot", str(knot))) for knot in range(7)]
    view.stroke((middles[0][0], box["y"] + 14), *((x, box["y"] + 14 + 93) for x, _ in middles[1:]))
    assert view.saved("guesses")[0] == [1, *[0.5] * 6]
    view.part("knot", "3").press("ArrowUp")
    view.part("knot", "6").press("Home")
    assert view.saved("guesses")[0] == [1, 0.5, 0.5, 0.55, 0.5, 0.5, 0]
    assert view.saved("guesses")[1] == [0.5] * 7
    assert view.part("knot", "3").get_attribute("aria-valuenow") == "0.55"
    assert view.part("knot", "6").get_attribute("aria-label") == "nothing at 47"
