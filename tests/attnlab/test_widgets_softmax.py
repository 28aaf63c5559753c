"""The softmax explorer: its numbers against PyTorch, its points on the curve, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import SoftmaxExplorer
from tests.attnlab.widget_page import sets

_rng = np.random.default_rng(21)
SIZES = [(2, 1, 1.0, 3.5), (3, 4, 0.3, -2.0), (5, 2, 5.0, 11.0), (7, 6, 1.7, 0.25), (8, 0.1, 20.0, -20.0)]
FIXTURES = [
    dict(scores=[2.0, 1.0, 0.1], temperature=1.0, shift=0.0),
    dict(scores=[8.5, 42.0, 3.2, 42.0], temperature=1.0, shift=0.0),  # saturated
    dict(scores=[1000.0, 999.0, -1000.0], temperature=0.05, shift=1000.0),
    *(
        dict(scores=_rng.normal(scale=scale, size=n).tolist(), temperature=temperature, shift=shift)
        for n, scale, temperature, shift in SIZES
    ),
]
EXAMPLES = [
    (
        SoftmaxExplorer([2, 1, 4]),
        dict(scores=[12, 1, -4]),
        dict(scores=[12, 11, 3]),
        dict(scores=[-700, 11.5, 900.25], shift=100),
        dict(scores=[11, 11, 11], shift=0),
        dict(temperature=0.05),
        dict(scores=[1, 2, 3], shift=-40),
    )
]
GLIDES = [(SoftmaxExplorer([3, 0]), dict(scores=[0, 3]), {"[data-value=weight-0]": ""})]
SET = [dict(scores=[1, 1, 1, 1], temperature=3, shift=2)]
AGAIN = SoftmaxExplorer([2, 1, 4], labels=["x", "y", "z"], temperature=2)
MISTYPED = {"score-0": ["many", "", "1001", "nan"], "temperature": ["0"]}
REFUSED = [
    (dict(scores=[1]), "2 to 8 numbers, got 1"),
    (dict(scores=range(9)), "2 to 8 numbers, got 9"),
    (dict(scores=[1, math.inf]), "finite"),
    (dict(scores=[1, "b"]), "list of 2 to 8 numbers"),
    (dict(scores=[1, 2], labels=["a"]), "each of the 2 scores, got 1"),
    (dict(temperature=0), "between 0.05 and 20, got 0"),
    (dict(temperature=math.nan), "got nan"),
    (dict(shift=1e4), "shift must be"),
]
LONG_NAMES = ["announcement of the record", "cat", "sat"]
ROOM = (-5, 5)
EXTREMES = [(SoftmaxExplorer([-1000, 999.125, 12.3456], labels=LONG_NAMES, shift=-123.456),)]
STOPS = [
    *(f"{kind}-{i}" if kind else str(i) for i in range(3) for kind in ("score", "score", "")),
    *("Add a score", "Start again", "temperature", "temperature", "shift", "shift"),
]


def reference(state):
    n, logits = len(state["scores"]), torch.tensor(state["scores"], dtype=torch.float64) / state["temperature"]
    nats = torch.distributions.Categorical(logits=logits).entropy()
    return {
        "weights": logits.softmax(-1),
        "entropyNats": nats,
        "choices": nats.exp(),
        "maximumNats": math.log(n),
        "largestChange": 0,  # a shift changes no weight beyond rounding
    }


def shares(*scores):
    """Weights as they are written."""
    return [f"{weight:.3f}" for weight in torch.tensor(scores, dtype=torch.float64).softmax(0)]


WEIGHTS = ".sm-rows [data-value^=weight-]"
# Where the points are, in units of the drawing: across, and above the axis.
ACROSS, ABOVE = ".sm-dot => one.cx.baseVal.value", ".sm-dot => 218 - one.cy.baseVal.value"
NAMED = SoftmaxExplorer([2, 1, 0, 4], labels=["the", "cat", "sat", "down"])
SLIDERS = [(SoftmaxExplorer(), "shift", [half / 2 for half in range(-40, 41)], -7.5)]
ADD = "[type=button]:text-is('Add a score')"
CONTROLS = {
    "names are shown and missing ones counted": (
        SoftmaxExplorer([1, 3], labels=["the", "cat"]),
        {".sm-rows .sm-name": ["the", "cat"], "said~": "“cat”"},
        (sets(scores=[1, 3, 2]), {".sm-rows .sm-name": ["the", "cat", "score 3"]}),
    ),
    "a score is set by its point on the curve, its field and its slider": (
        SoftmaxExplorer([2, 1, 0]),
        ("drag [data-point='1'] .sm-dot -> [data-point='2'] .sm-dot", dict(scores=[2, 0, 0])),
        ("[aria-label='Score of score 2'] := -3.5", {"scores": [2, -3.5, 0], WEIGHTS: shares(2, -3.5, 0)}),
        ("field=score-0: ArrowUp | field=score-2: Shift+ArrowDown", dict(scores=[2.1, -3.5, -1])),
        ("slider=score-2: ArrowRight", dict(scores=[2.1, -3.5, -0.9])),
        ("drag slider=score-2 at 0.99,0.5", dict(scores=[2.1, -3.5, 10])),
    ),
    "scores are added, up to eight, and the focus goes to the new one": (
        SoftmaxExplorer([2, 1, 0.5, 0.25, 3, 1], labels=list("abcdef")),
        (f"{ADD}: Enter", {"focus": "score-6"}),
        (f"{ADD}: Enter", {"scores": [2, 1, 0.5, 0.25, 3, 1, 0, 0], "labels": [*"abcdef", "score 7", "score 8"]}),
        {WEIGHTS: shares(2, 1, 0.5, 0.25, 3, 1, 0, 0), f"{ADD}:disabled": 1},
    ),
    "scores are removed, down to two, with their names": (
        NAMED,
        ("[aria-label='Remove cat']: Enter", {":focus@aria-label": "Remove sat"}),
        ("keys: Enter", {"scores": [2, 4], "labels": ["the", "down"], ".sm-remove:disabled": 2}),
    ),
    "the temperature's slider is logarithmic and its field exact": (
        SoftmaxExplorer([3, 1]),
        ("slider=temperature: Home", {"temperature": 0.05, "#weight-0": 1}),
        # The middle of 1/20 and 20.
        ("drag slider=temperature", {"temperature": pytest.approx(1, abs=0.1)}),
        ("slider=temperature: End", {"temperature": pytest.approx(20, rel=0.02), WEIGHTS: shares(3 / 20, 1 / 20)}),
        ("field=temperature := 0.5", {WEIGHTS: shares(6, 2), "slider=temperature@aria-valuetext": "0.5"}),
    ),
    "the summary has the entropy, and what is added changes no weight": (
        SoftmaxExplorer([2, 1, 0.1]),
        {WEIGHTS: shares(2, 1, 0.1), "said~": ["0.659", "0.85 of at most 1.10 nats"]},
        ("slider=shift: End", {"shift": 20, WEIGHTS: shares(2, 1, 0.1)}),
        ("[aria-label='Add to every score'] := -7.5", {"shift": -7.5, WEIGHTS: shares(2, 1, 0.1)}),
    ),
}


def test_each_step_of_the_temperature_s_slider_goes_on(shown):
    view = shown(SoftmaxExplorer([3, 1]))
    view.set(temperature=1)
    found = [view.slider("temperature").press("ArrowRight") or view.get("temperature") for _ in range(12)]
    assert [1, *found] == sorted({1, *found})
    assert view.slider("temperature").get_attribute("aria-valuetext") == f"{found[-1]:g}"


def test_bars_are_as_long_as_their_weights_and_points_are_on_the_curve_as_high_as_these(shown):
    view = shown(SoftmaxExplorer([3, 1, 2]))
    expected = torch.tensor([3.0, 1.0, 2.0]).softmax(0).numpy()
    bars, lanes = (view.each(f".sm-row .sm-{part}", "one.getBoundingClientRect().width") for part in ("bar", "lane"))
    assert np.divide(bars, lanes) == pytest.approx(expected, abs=0.01)
    heights, across = view.look(ABOVE, None), view.look(ACROSS, None)
    assert np.array(heights) / sum(heights) == pytest.approx(expected, abs=2e-3)
    assert across[0] - across[2] == pytest.approx(across[2] - across[1], abs=0.2)


def test_what_is_added_moves_all_points_to_the_right_and_no_height(shown):
    view = shown(SoftmaxExplorer([1, 0]))
    heights, across = view.look(ABOVE, None), view.look(ACROSS, None)
    view.set(shift=2)
    first, second = np.subtract(view.look(ACROSS, None), across)
    assert first == pytest.approx(second, abs=0.2) and first > 50
    assert view.look(ABOVE, None) == pytest.approx(heights, abs=0.11)
    view.set(shift=0, temperature=2)
    assert view.look(ABOVE, None)[1] > heights[1]


TRAITS = {
    "arrays, lists and tuples are taken": (
        dict(scores=np.array([1, 2, 3]), labels=("a", "b", "c"), temperature=2),
        dict(scores=[1, 2, 3], labels=["a", "b", "c"], temperature=2),
        (sets(scores=np.array([0.5, 0.25], dtype=np.float32)), dict(scores=[0.5, 0.25])),
    ),
}
