"""The mask painter: its weights and leaks against PyTorch, and each way to paint in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import MaskPainter

WORDS = "The CEO announced record earnings on Friday".split()
_rng = np.random.default_rng(41)
FILLS = {"-inf": -math.inf, "-1e9": -1e9, "-10": -10.0}
FIXTURES = [
    {
        "scores": _rng.normal(scale=scale, size=(n, n)).tolist(),
        "mask": (_rng.random((n, n)) < chance).tolist(),
        "fill": fill,
    }
    for n, scale, chance, fill in [
        (2, 1, 0.5, "-inf"),
        (3, 2, 0.3, "-inf"),
        (5, 4, 0.6, "-1e9"),
        (7, 1, 0.5, "-10"),
        (7, 9, 0.2, "-inf"),
        (10, 2, 0.7, "-10"),
    ]
]
FIXTURES += [
    {"scores": [[1.0, 2.0], [3.0, 4.0]], "mask": [[False, False], [False, False]], "fill": "-inf"},  # all rows empty
    {"scores": [[1.0, 2.0], [3.0, 4.0]], "mask": [[False, False], [False, True]], "fill": "-1e9"},
    {"scores": [[1000.0, -1000.0], [-1000.0, 1000.0]], "mask": [[True, True], [True, True]], "fill": "-inf"},
    {"scores": [[-20.0, -20.0], [0.0, 0.0]], "mask": [[True, False], [True, True]], "fill": "-10"},  # fill wins
]


def painter(n=7, **options):
    scores = np.random.default_rng(5).normal(size=(n, n)) * 1.5
    return MaskPainter((WORDS + ["and", "left", "."])[:n], scores, **options)


PRESSES = [f"[data-go={name}]" for name in ("full", "clear", "causal", "flip", "padding")]
CHANGES = [change for press in PRESSES for change in (press, *(dict(fill=fill) for fill in FILLS))]
EXAMPLES = [(painter(7), *CHANGES, dict(changed=2)), (painter(3), *PRESSES), (painter(10), *PRESSES)]
LONG_NAMES = [f"announcement {i}" for i in range(10)]
EXTREMES = [
    (MaskPainter(LONG_NAMES, np.zeros((10, 10)), preset="full"),),
    (painter(preset="padding", length=0),),
    (painter(4, mask=np.eye(4, k=1, dtype=bool), fill="-10"),),
]
GLIDES = [
    (MaskPainter(["a", "b"], np.zeros((2, 2))), dict(mask=[[True, False]] * 2), {"[data-cell='1-0']": ""}),
]
SET = [dict(scores=[[0] * 7] * 7), dict(mask=np.eye(7, k=1, dtype=bool).tolist())]
AGAIN = painter(3, mask=np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1]], dtype=bool), fill="-10")


def make(**options):
    return MaskPainter(**{"tokens": ["a", "b", "c"], "scores": np.zeros((3, 3)), **options})


REFUSED = [
    (dict(scores=np.zeros((3, 2))), r"\(n, n\).*\(3, 2\)"),
    (dict(scores=np.zeros(3)), r"\(n, n\)"),
    (dict(scores=np.zeros((2, 2))), r"\(3, 3\) for 3 tokens; the shape is \(2, 2\)|name the 2 rows"),
    (dict(scores=np.full((3, 3), -np.inf)), "finite"),
    (dict(scores=[["a"] * 3] * 3), "array of numbers"),
    (dict(mask=np.ones((2, 2), dtype=bool)), r"mask must be \(3, 3\)"),
    (dict(mask=np.zeros((3, 3))), "must be boolean"),
    (dict(mask=[[True]]), r"mask must be \(3, 3\)"),
    (dict(mask=np.ones((1, 3, 3), dtype=bool)), "mask must be"),
    (dict(preset="casual"), "preset must be one of causal"),
    (dict(length=4), "length must lie between 0 and 3"),
    (dict(window=0), "window must lie between 1 and 3"),
    (dict(window=1.5), "window"),
    (dict(fill="-5"), "fill"),
    (dict(changed=3), "changed must be 0 to 2"),
    (dict(tokens="abc"), "one string"),
    (dict(tokens=list("abcdefghijk"), scores=np.zeros((11, 11))), "2 to 10 tokens"),
    (dict(tokens=["a"], scores=[[0]]), "2 to 10 tokens"),
]
STOPS = [
    *("causal", "full", "window", "window", "padding", "length", "0-0", *map(str, range(7))),
    *("fill", "clear", "flip", "reset"),
]


def softmax(scores, mask, fill):
    filled = torch.tensor(scores, dtype=torch.float64).masked_fill(~torch.tensor(mask), FILLS[fill])
    return filled.softmax(-1).nan_to_num(0.0).numpy()  # only a row of minus infinities is nan


def reference(state):
    mask, weights = np.array(state["mask"]), softmax(state["scores"], state["mask"], state["fill"])
    n, future = len(mask), np.triu(weights, 1)
    expected = {
        "weights": weights,
        "moves": [
            [bool(row[t] > 0 or (i == t and (row > 0).sum() > 1)) for i, row in enumerate(weights)] for t in range(n)
        ],
        "count": mask.sum(),
        "empty": np.flatnonzero(~mask.any(1)),
        "leak.cells": np.triu(mask, 1).sum(),
        "leak.largest": future.max(),
    }
    if future.max() > 0:  # the first of the largest
        query, key = np.unravel_index(future.argmax(), future.shape)
        expected.update({"leak.query": query, "leak.key": key})
    return expected


def mask_of(view):
    return np.array(view.get("mask"))


def cell(view, i, j):
    return view.part("cell", f"{i}-{j}")


def test_the_python_weights_agree_with_those_on_the_page():
    for fixture in FIXTURES:
        widget = MaskPainter([f"t{i}" for i in range(len(fixture["scores"]))], **fixture)
        np.testing.assert_allclose(widget.weights, softmax(**fixture), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"preset": "causal"}, np.tri(7)),
        ({"preset": "full"}, np.ones((7, 7))),
        ({"preset": "padding", "length": 4}, np.ones((7, 1)) * (np.arange(7) < 4)),
        ({"preset": "window", "window": 3}, np.tri(7) - np.tri(7, k=-3)),
        ({"preset": "window", "window": 1}, np.eye(7)),
    ],
)
def test_a_preset_gives_its_mask_in_python_and_on_the_page(shown, options, expected):
    assert np.array_equal(painter(**options).mask, expected.astype(bool))
    view = shown(painter(mask=np.triu(np.ones((7, 7), dtype=bool), 1)))
    view.set(**{name: size for name, size in options.items() if name != "preset"})
    view.press(options["preset"])
    assert np.array_equal(mask_of(view), expected.astype(bool))
    assert view.get("preset") == view.saved("preset") == options["preset"]
    assert view.locator("button[aria-pressed=true]").get_attribute("data-go") == options["preset"]


def mask(*rows):
    """A mask from rows of 1 and 0."""
    return [[letter == "1" for letter in row] for row in rows]


CONTROLS = {
    "a slider sets its number and its preset": (
        painter(),
        "slider=length: Home",
        dict(preset="padding", length=0, mask=[[False] * 7] * 7),
        "slider=length: End",
        dict(mask=[[True] * 7] * 7),
        "slider=window: ArrowRight",
        {"preset": "window", "window": 3, "=window": "3", "=title": "Sliding window, 3 tokens wide"},
    ),
    "all cells are masked and flipped": (
        AGAIN,
        "flip",
        dict(mask=mask("010", "001", "110")),
        "clear",
        dict(mask=mask("000", "000", "000")),
    ),
    "tokens of one name are told apart": (
        MaskPainter(["the", "cat", "the"], np.zeros((3, 3)), preset="full"),
        {"cell=0-2@aria-label~": "“the₀” reads “the₂”"},
    ),
    "the keyboard moves and paints": (
        painter(4),
        "cell=0-0: ArrowRight | keys: ArrowRight Space",
        dict(mask=mask("1010", "1100", "1110", "1111")),
        "keys: Shift+ArrowDown",  # paints on with what the cell it leaves is
        dict(mask=mask("1010", "1110", "1110", "1111")),
        "keys: Control+End Enter",
        dict(mask=mask("1010", "1110", "1110", "1110")),
        "keys: ArrowDown",  # the border stops
        {"focus": "3-3"},
    ),
    "the stop of the grid is the cell pressed last": (
        painter(4),
        "cell=2-1 | go=causal: Tab",
        *(
            step
            for name in ["full", "window", "window", "padding", "length", "2-1", "0", "1"]
            for step in ({"focus": name}, "keys: Tab")
        ),
    ),
    "the meter and the summary are honest about a causal mask": (
        painter(),
        {"=count": "28 of 49 cells allowed", "=verdict": "Honest: no token reads a later one."},
        {".mp-level@style": "width: 0%;"},
        {"said": "Causal mask: 28 of 49 cells allowed. Honest: no token reads a later one."},
        "clear",
        {"said~": "Empty rows: “The”, “CEO”, “announced” and 4 more read nothing."},
    ),
    "an empty row reads nothing and with a finite fill everything alike": (
        painter(4, mask=np.array(mask("1000", "1100", "0000", "1111"))),
        {"[data-note]": ["", "", "empty row: this token reads nothing", ""]},
        {"said~": "Empty row: “announced” reads nothing."},
        "go=fill := -1e9",
        {"[data-cell^='2-']": ["0.25"] * 4, "[data-note]": [""] * 4},
        "go=fill := -10 | hover cell=2-0",
        {"[data-cell^='2-']": ["0.25"] * 4, "[data-note]": [""] * 4},
        {"=reading": "Nothing is allowed for “announced”: all scores are −10, so each weight is 0.25."},
    ),
}


def test_a_click_turns_a_cell_over_and_a_mask_painted_like_a_preset_is_recognised(shown):
    view = shown(painter(3))
    cell(view, 1, 2).click()
    assert mask_of(view)[1].tolist() == [True, True, True] == view.saved("mask")[1]
    expected = softmax(view.get("scores"), view.get("mask"), "-inf")
    texts = view.texts(".mp-cell")
    assert [float(text or 0) for text in texts] == pytest.approx(expected.ravel(), abs=0.0051)
    cell(view, 1, 2).click()
    assert np.array_equal(mask_of(view), np.tri(3))
    view.press("full")
    cell(view, 0, 1).click()
    assert view.get("preset") == "painted"
    cell(view, 0, 2).click()
    cell(view, 1, 2).click()
    assert (view.get("preset"), view.text("title")) == ("causal", "Causal mask")


def test_a_drag_paints_every_cell_it_meets_with_the_opposite_of_the_first(shown):
    view = shown(painter())
    corners = [view.middle(cell(view, *place)) for place in [(0, 1), (0, 6), (4, 6)]]
    view.stroke(*corners, steps=2)  # quick: leaves no gaps
    mask = mask_of(view)
    assert mask[0].all() and mask[:5, 6].all() and mask.sum() == 28 + 6 + 4
    view.mouse.move(*view.middle(cell(view, 6, 0)))  # the button is up: nothing is painted
    assert np.array_equal(mask_of(view), mask)


def test_a_finger_paints_by_tapping_and_dragging_sideways_but_not_by_scrolling(shown):
    view = shown(painter(), width=390, height=600, has_touch=True, is_mobile=True)
    view.touch(view.middle(cell(view, 2, 3)))
    assert mask_of(view)[2, 3] and mask_of(view).sum() == 29
    (x0, y), (x1, _) = view.middle(cell(view, 0, 1)), view.middle(cell(view, 0, 6))
    view.touch((x0, y), *[(x0 + (x1 - x0) * part / 5, y) for part in range(1, 6)])
    assert mask_of(view)[0].all() and mask_of(view).sum() == 29 + 6
    x, y = view.middle(cell(view, 6, 3))
    view.touch(*[(x, y - 25 * step) for step in range(9)])
    view.page.wait_for_timeout(300)
    assert view.evaluate("scrollY") > 50
    assert mask_of(view).sum() == 29 + 6


def test_the_meter_names_the_tokens_that_cheat(shown):
    view = shown(painter())
    cell(view, 1, 2).click()
    weight = softmax(view.get("scores"), view.get("mask"), "-inf")[1, 2]
    assert view.text("verdict") == f"Cheating: “CEO” reads “announced”, which comes later, with weight {weight:.2f}."
    assert view.text("reading").endswith("That is the very token it has to predict.")
    track, level = (view.locator(f".mp-{part}").bounding_box()["width"] for part in ("track", "level"))
    assert level / track == pytest.approx(weight, abs=0.01)


def test_a_finite_fill_leaks_through_a_causal_mask(shown):
    view = shown(painter())
    view.part("go", "fill").select_option("-10")
    weights = np.triu(softmax(view.get("scores"), view.get("mask"), "-10"), 1)
    assert 0 < weights.max() < 0.01
    assert view.text("verdict").startswith("Leaking: with fill −10, ")
    assert f"{weights.max():.1e}"[:3] in view.text("verdict").replace("−", "-") or "0.00" in view.text("verdict")
    assert cell(view, 0, 6).inner_text() == ">0"
    assert view.saved("fill") == "-10"


def moving(view):
    return [i for i, one in enumerate(view.locator("[data-output]").all()) if "mp-moves" in one.get_attribute("class")]


def test_a_changed_token_moves_the_outputs_that_read_it_and_its_own(shown):
    view = shown(painter(5))
    assert moving(view) == []
    view.part("change", 3).click()
    assert moving(view) == [3, 4] and view.get("changed") == 3 == view.saved("changed")
    assert view.text("reading") == "Change “record”: the outputs of “record” and “earnings” move."
    view.part("change", 0).press("Enter")
    assert moving(view) == [0, 1, 2, 3, 4]
    view.press("window")
    assert moving(view) == [0, 1]
    view.press("full")
    assert moving(view) == [0, 1, 2, 3, 4]
    view.part("change", 0).click()
    assert (moving(view), view.get("changed")) == ([], None)


def test_which_outputs_move_is_what_attention_does(shown):
    """A token with a new query, key and value: outputs that change at all, in double precision."""
    view, rng = shown(painter(3)), np.random.default_rng(3)
    for fixture in FIXTURES:
        scores, mask = np.array(fixture["scores"]), fixture["mask"]
        if fixture["fill"] == "-1e9" or np.abs(scores).max() > 15:
            continue
        values = rng.normal(size=(len(scores), 3))
        before = softmax(scores, mask, fixture["fill"]) @ values
        for t, moves in enumerate(view.compute(fixture)["moves"]):
            other, moved = scores.copy(), values.copy()
            other[t], other[:, t], moved[t] = (
                rng.normal(size=len(scores)),
                rng.normal(size=len(scores)),
                rng.normal(size=3),
            )
            after = softmax(other, mask, fixture["fill"]) @ moved
            assert moves == (np.abs(after - before).max(-1) > 0).tolist(), (fixture, t)


def test_arrays_lists_and_tensors_are_taken():
    lists = [[True, False], [True, True]]
    for mask in (lists, np.array(lists), torch.tensor(lists), np.array(lists).astype(int)):
        widget = MaskPainter(["a", "b"], torch.zeros(2, 2), mask)
        assert (widget.mask, widget.preset, widget.scores) == (lists, "causal", [[0.0, 0.0], [0.0, 0.0]])
    padding = np.array([[True, True, False]])
    assert MaskPainter(["a", "b", "c"], np.zeros((3, 3)), padding).mask == [[True, True, False]] * 3
    assert MaskPainter(["a", "b"], np.zeros((2, 2)), fill=-math.inf, length=np.int64(1)).fill == "-inf"


def test_mask_and_preset_follow_each_other_in_python():
    widget = painter(5)
    widget.mask = np.eye(5, dtype=bool)
    assert (widget.preset, widget.window) == ("window", 1)
    widget.mask = np.eye(5, dtype=bool)[::-1]
    assert widget.preset == "painted"
    widget.preset = "padding"
    assert np.array(widget.mask).sum() == 5 * 4
    widget.length = 2
    assert np.array(widget.mask).sum() == 5 * 2
    widget.set_state({"preset": "painted", "mask": [[False] * 5] * 5})  # as the page sends it
    assert (widget.preset, np.array(widget.mask).sum()) == ("painted", 0)
