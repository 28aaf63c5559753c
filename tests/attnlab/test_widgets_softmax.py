"""The softmax explorer: its numbers against PyTorch, its points on the curve, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import SoftmaxExplorer

_rng = np.random.default_rng(21)
FIXTURES = [
    {"scores": [2.0, 1.0, 0.1], "temperature": 1.0, "shift": 0.0},
    {"scores": [8.5, 42.0, 3.2, 42.0], "temperature": 1.0, "shift": 0.0},  # saturated
    {"scores": [1000.0, 999.0, -1000.0], "temperature": 0.05, "shift": 1000.0},
] + [
    {"scores": _rng.normal(scale=scale, size=n).tolist(), "temperature": temperature, "shift": shift}
    for n, scale, temperature, shift in [
        (2, 1, 1.0, 3.5),
        (3, 4, 0.3, -2.0),
        (5, 2, 5.0, 11.0),
        (7, 6, 1.7, 0.25),
        (8, 0.1, 20.0, -20.0),
    ]
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


def weights(view):
    return [view.number(f"weight-{i}") for i in range(view.locator(".sm-rows .sm-row").count())]


def test_bars_are_as_long_as_their_weights_and_the_summary_has_the_entropy(shown):
    view = shown(SoftmaxExplorer([3, 1]))
    lane, bar = (view.locator(f".sm-row .sm-{part}").first.bounding_box()["width"] for part in ("lane", "bar"))
    assert bar / lane == pytest.approx(torch.tensor([3.0, 1.0]).softmax(0)[0].item(), abs=0.01)
    assert weights(view) == [0.881, 0.119]
    view.set(scores=[2, 1, 0.1])
    said = view.said()
    assert "0.659" in said and "0.85 of at most 1.10 nats" in said


def test_names_are_shown_and_missing_ones_counted(shown):
    view = shown(SoftmaxExplorer([1, 3], labels=["the", "cat"]))
    assert view.texts(".sm-rows .sm-name") == ["the", "cat"]
    assert "“cat”" in view.said()
    view.set(scores=[1, 3, 2])
    assert view.texts(".sm-rows .sm-name") == ["the", "cat", "score 3"]


def test_a_score_is_set_by_its_field_and_its_slider(shown):
    view = shown(SoftmaxExplorer([2, 1, 0]))
    view.get_by_role("textbox", name="Score of score 2", exact=True).fill("-3.5")
    assert view.get("scores") == [2, -3.5, 0] == view.saved("scores")
    assert weights(view)[1] == pytest.approx(torch.tensor([2, -3.5, 0]).softmax(0)[1].item(), abs=5e-4)
    view.field("score-0").press("ArrowUp")
    view.field("score-2").press("Shift+ArrowDown")
    assert view.get("scores") == [2.1, -3.5, -1]
    slider = view.slider("score-2")
    slider.press("ArrowRight")
    assert view.get("scores") == [2.1, -3.5, -0.9] == view.saved("scores")
    box = slider.bounding_box()
    view.mouse.click(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    assert view.get("scores")[2] == 10


def test_scores_are_added_up_to_eight_and_the_focus_goes_to_the_new_one(shown):
    view = shown(SoftmaxExplorer([2, 1, 0.5, 0.25, 3, 1], labels=list("abcdef")))
    add = view.get_by_role("button", name="Add a score")
    add.press("Enter")
    assert view.focused() == "score-6"
    add.press("Enter")
    assert view.get("scores") == [2, 1, 0.5, 0.25, 3, 1, 0, 0] == view.saved("scores")
    assert view.get("labels") == [*"abcdef", "score 7", "score 8"]
    assert add.is_disabled()
    assert sum(weights(view)) == pytest.approx(1, abs=0.004)


def test_scores_are_removed_down_to_two_with_their_names(shown):
    view = shown(SoftmaxExplorer([2, 1, 0, 4], labels=["the", "cat", "sat", "down"]))
    view.get_by_role("button", name="Remove cat").press("Enter")
    assert view.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove sat"
    view.keyboard.press("Enter")
    assert view.get("scores", "labels") == [[2, 4], ["the", "down"]]
    assert view.saved("scores") == [2, 4]
    assert view.locator(".sm-remove:disabled").count() == 2


def test_the_temperature_slider_is_logarithmic_and_its_field_exact(shown):
    view = shown(SoftmaxExplorer())
    slider, field = view.slider("temperature"), view.field("temperature")
    slider.press("Home")
    assert view.get("temperature") == 0.05 == view.saved("temperature")
    assert weights(view)[0] == 1
    view.mouse.click(*view.middle(slider))
    assert view.get("temperature") == pytest.approx(1, abs=0.1)  # the middle of 1/20 and 20
    slider.press("End")
    assert view.get("temperature") == pytest.approx(20, rel=0.02)
    assert max(weights(view)) - min(weights(view)) < 0.05
    view.set(temperature=1, scores=[3, 1])
    found = [1.0]
    for _ in range(12):
        slider.press("ArrowRight")
        found.append(view.get("temperature"))
    assert found == sorted(set(found))
    assert slider.get_attribute("aria-valuetext") == f"{found[-1]:g}"
    field.fill("0.5")
    assert weights(view) == [0.982, 0.018]


def test_the_shift_moves_the_points_and_no_weight(shown):
    view = shown(SoftmaxExplorer([2, 1, 0.1]))
    before = weights(view)
    view.slider("shift").press("End")
    assert view.get("shift") == 20 == view.saved("shift")
    assert weights(view) == before
    view.get_by_role("textbox", name="Add to every score", exact=True).fill("-7.5")
    assert view.get("shift") == -7.5


def points(view):
    """Where the points are, in units of the drawing: across, and above the axis."""
    dots = view.locator(".sm-dot").all()
    return [(float(dot.get_attribute("cx")), 218 - float(dot.get_attribute("cy"))) for dot in dots]


def test_points_are_on_the_curve_and_their_heights_are_the_weights(shown):
    view = shown(SoftmaxExplorer([3, 1, 2]))
    heights = np.array([height for _, height in points(view)])
    assert heights / heights.sum() == pytest.approx(torch.tensor([3.0, 1.0, 2.0]).softmax(0).numpy(), abs=2e-3)
    across = [place for place, _ in points(view)]
    assert across[0] - across[2] == pytest.approx(across[2] - across[1], abs=0.2)


def test_what_is_added_moves_all_points_to_the_right_and_no_height(shown):
    view = shown(SoftmaxExplorer([1, 0]))
    before = points(view)
    view.set(shift=2)
    after = points(view)
    first, second = (now[0] - then[0] for now, then in zip(after, before))
    assert first == pytest.approx(second, abs=0.2) and first > 50
    assert [height for _, height in after] == pytest.approx([height for _, height in before], abs=0.11)
    view.set(shift=0, temperature=2)
    assert points(view)[1][1] > before[1][1]


def test_a_point_is_dragged_along_the_curve(shown):
    view = shown(SoftmaxExplorer([2, 1, 0]))
    x, y = view.middle(view.locator("[data-point='1'] .sm-dot"))
    unit = x - view.middle(view.locator("[data-point='2'] .sm-dot"))[0]
    view.stroke((x, y), (x - 2 * unit, y))
    assert view.get("scores") == [2, -1, 0] == view.saved("scores")


def test_arrays_lists_and_tuples_are_taken():
    explorer = SoftmaxExplorer(np.array([1, 2, 3]), labels=("a", "b", "c"), temperature=2)
    assert (explorer.scores, explorer.labels, explorer.temperature) == ([1.0, 2.0, 3.0], ["a", "b", "c"], 2.0)
    explorer.scores = np.array([0.5, 0.25], dtype=np.float32)
    assert explorer.scores == [0.5, 0.25]
