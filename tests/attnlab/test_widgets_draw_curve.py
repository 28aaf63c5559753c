"""The curve to draw: what is drawn is kept, with the pointer and with keys, and the true curve comes when asked for."""

import numpy as np
import pytest

from attnlab.widgets import DrawCurve

TEMPERATURES = np.geomspace(0.05, 10, 60)
EFFECTIVE = 1 + 2 / (1 + TEMPERATURES**-2)


def curve(**options):
    return DrawCurve(TEMPERATURES, EFFECTIVE, **{"log": True, "low": 1, "high": 3, "xlabel": "temperature", **options})


_rng = np.random.default_rng(6)
FIXTURES = [
    dict(x=[0, 1, 4], y=[0, 2, -1], log=False, guess=[0.5, 1, 1, 1, 1]),
    dict(x=[0, 1, 4], y=[0, 2, -1], log=False, guess=[None, 1, 1, None, 1]),
    dict(x=TEMPERATURES.tolist(), y=EFFECTIVE.tolist(), log=True, guess=_rng.normal(size=21).tolist()),
]
EXAMPLES = [
    (
        curve(ylabel="effective number"),
        dict(guess=[1.0 + i / 20 for i in range(21)]),
        dict(shown=True),
        dict(guess=[None] * 10 + [2.0] * 11),
    )
]
GLIDES = [(curve(), dict(shown=True), {".dc-truth": "stroke-dasharray"})]
ROOM = (-32, 5)
EXTREMES = [(DrawCurve([0, 1e9], [-1e9, 1e9]),)]
REFUSED = [
    (dict(x=[0, 1], y=[0, 1, 2]), r"same length; their shapes are \(2,\) and \(3,\)"),
    (dict(x=[1, 0], y=[0, 1]), "x must increase"),
    (dict(x=[0, 1], y=[0, 1], log=True), "positive on a logarithmic axis"),
    (dict(x=[0, 1], y=[2, 2]), "low must be below high; they are 2 and 2"),
    (dict(x=[0], y=[0], low=0, high=1), "2 to 200 numbers"),
]


def reference(state):
    scale = np.log if state["log"] else np.asarray
    place = scale(np.array(state["x"], dtype=float))
    columns = np.linspace(place[0], place[-1], len(state["guess"]))
    truth = np.interp(columns, place, state["y"])
    expected = {"columns": np.exp(columns) if state["log"] else columns, "truth": truth}
    if None not in state["guess"]:
        expected["apart"] = np.abs(np.array(state["guess"]) - truth).mean()
    return expected


VISIBLE = ".dc-truth => getComputedStyle(one).visibility"
CONTROLS = {
    "a stroke leaves no gap, and the true curve tells how far it is": (
        curve(),
        {VISIBLE: ["hidden"]},
        "drag .dc-paper at 0,1 -> .dc-paper at 1,0",
        dict(guess=pytest.approx(np.linspace(1, 3, 21), abs=0.02)),
        ("show", {VISIBLE: ["visible"], ".dc-truth@stroke-dasharray": "1.000 1"}),
        {"=verdict~": "On average you are 0."},
        "drag .dc-paper at 0.5,1 -> .dc-paper at 1,1",  # too late
        dict(guess=pytest.approx(np.linspace(1, 3, 21), abs=0.02)),
        ("again", dict(guess=[None] * 21, shown=False)),
    ),
    "keys draw": (
        curve(),
        "go=draw: ArrowDown ArrowRight Shift+ArrowUp ArrowRight",
        {"=> model.get('guess').slice(0, 4)": pytest.approx([1.95, 2.15, 2.15, None])},
    ),
    "a finger draws": (
        curve(),
        "touch " + " -> ".join(f".dc-paper at {part},0.5" for part in (0.05, 0.3, 0.6, 0.95)),
        {"=> model.get('guess')[10]": pytest.approx(2, abs=0.05)},
    ),
}


def test_the_axis_ends_where_the_curve_does_unless_told_otherwise():
    assert (DrawCurve([0, 1], [2, 5]).low, DrawCurve([0, 1], [2, 5], high=7).high) == (2, 7)
