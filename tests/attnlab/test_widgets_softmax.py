"""The softmax explorer: its numbers against PyTorch and NumPy's float16, and each of its controls in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import SoftmaxExplorer

_rng = np.random.default_rng(21)
FIXTURES = [
    {"scores": [2.0, 1.0, 0.1], "temperature": 1.0, "shift": 0.0},
    {"scores": [8.5, 42.0, 3.2, 42.0], "temperature": 1.0, "shift": 0.0},  # saturated
    {"scores": [11.0, 11.0], "temperature": 1.0, "shift": 0.0},  # each exponential fits float16, the sum does not
    {"scores": [1000.0, 999.0, -1000.0], "temperature": 0.05, "shift": 1000.0},
    {"scores": [-30.0, -31.0, -40.0], "temperature": 1.0, "shift": 0.0},  # every exponential is 0 in float16
    {"scores": [-9.0, -9.5, -16.0, -17.3], "temperature": 1.0, "shift": 0.0},  # subnormal float16 numbers
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
        dict(scores=[1, 2, 3], shift=-40),
    )
]
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
ROOM = (-77, 5)
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
        "entropyBits": nats / math.log(2),
        "choices": nats.exp(),
        "maximumNats": math.log(n),
        "maximumBits": math.log2(n),
        "largestChange": 0,  # a shift changes no weight beyond rounding
    }


def weights(view):
    return [view.number(f"weight-{i}") for i in range(view.locator(".sm-rows .sm-row").count())]


def half_cells(view, kind):
    """The numbers of a float16 table, row by row: z, exponential, weight; last the sum."""
    rows = view.locator(f"[data-half={kind}] tbody tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


# Numbers


def in_float16(z):
    """Softmax without precaution, one float16 operation after the other."""
    exponentials = np.exp(z.astype(np.float64)).astype(np.float16)
    total = exponentials[0]
    for exponential in exponentials[1:]:
        total = np.float16(total + exponential)
    return exponentials, total, exponentials / total


@np.errstate(all="ignore")
def test_float16_agrees_with_numpy_step_by_step(shown):
    view = shown(SoftmaxExplorer())
    for fixture in FIXTURES:
        found = view.compute(fixture)["half"]
        z = ((np.array(fixture["scores"]) + fixture["shift"]) / fixture["temperature"]).astype(np.float16)
        for kind, start in [("plain", z), ("subtracted", z - z.max())]:
            assert start.dtype == np.float16
            exponentials, total, shares = in_float16(start)
            assert found[kind]["scores"] == start.tolist()
            assert found[kind]["exponentials"] == exponentials.tolist()
            assert found[kind]["total"] == float(total)
            np.testing.assert_array_equal(np.array(found[kind]["weights"], dtype=float), shares.astype(float))


@np.errstate(over="ignore")
def test_rounding_to_float16_agrees_with_numpy_at_its_edges(shown):
    edges = [65504, 65519.99, 65520, -65520, 2049, 2051, -2051, 1.00048828125, 1.0014648437, 6.1e-5, 6e-8, 2**-25]
    edges += [2.99e-8, 0]
    view = shown(SoftmaxExplorer())
    for pair in zip(edges, edges[1:]):
        found = view.compute({"scores": pair, "temperature": 1, "shift": 0})["half"]["plain"]["scores"]
        assert found == np.array(pair).astype(np.float16).tolist()


# What is shown


def test_bars_are_as_long_as_their_weights_and_the_summary_has_the_entropy(shown):
    view = shown(SoftmaxExplorer([3, 1]))
    lane, bar = (view.locator(f".sm-row .sm-{part}").first.bounding_box()["width"] for part in ("lane", "bar"))
    assert bar / lane == pytest.approx(torch.tensor([3.0, 1.0]).softmax(0)[0].item(), abs=0.01)
    assert weights(view) == [0.881, 0.119]
    view.set(scores=[2, 1, 0.1])
    said = view.said()
    assert "0.659" in said and "0.85 of at most 1.10 nats" in said


def test_overflow_is_shown_as_numpy_prints_it(shown):
    view = shown(SoftmaxExplorer([12, 11, 3]))
    rows = [["12", "inf", "nan"], ["11", "59870", "0"], ["3", "20.08", "0"], ["", "inf", ""]]
    assert half_cells(view, "plain") == rows
    assert "nan" not in " ".join(sum(half_cells(view, "subtracted"), []))
    assert "inf / inf is nan" in view.text("plain-verdict") and "gives nan" in view.said()
    for scores, verdict in [([11, 11], "divided by inf"), ([-30, -31], "0 / 0 is nan"), ([1, 2], "Everything fits")]:
        view.set(scores=scores)
        assert verdict in view.text("plain-verdict")


def test_names_are_shown_and_missing_ones_counted(shown):
    view = shown(SoftmaxExplorer([1, 3], labels=["the", "cat"]))
    assert view.texts(".sm-rows .sm-name") == ["the", "cat"]
    assert "“cat”" in view.said()
    view.set(scores=[1, 3, 2])
    assert view.texts(".sm-rows .sm-name") == ["the", "cat", "score 3"]


# Controls


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


def test_the_shift_moves_float16_and_no_weight(shown):
    view = shown(SoftmaxExplorer([2, 1, 0.1]))
    before = weights(view)
    view.slider("shift").press("End")
    assert view.get("shift") == 20 == view.saved("shift")
    assert weights(view) == before
    assert half_cells(view, "plain")[0] == ["22", "inf", "nan"]
    assert half_cells(view, "subtracted")[0][0] == "0"
    view.get_by_role("textbox", name="Add to every score", exact=True).fill("-7.5")
    assert view.get("shift") == -7.5


# Model


def test_arrays_lists_and_tuples_are_taken():
    explorer = SoftmaxExplorer(np.array([1, 2, 3]), labels=("a", "b", "c"), temperature=2)
    assert (explorer.scores, explorer.labels, explorer.temperature) == ([1.0, 2.0, 3.0], ["a", "b", "c"], 2.0)
    explorer.scores = np.array([0.5, 0.25], dtype=np.float32)
    assert explorer.scores == [0.5, 0.25]
