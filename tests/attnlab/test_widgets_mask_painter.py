"""The mask painter: its weights and leaks against PyTorch, and each way to paint in a browser."""

import math

import numpy as np
import pytest
import torch

from attnlab.widgets import MaskPainter
from tests.attnlab.widget_page import sets

WORDS = "The CEO announced record earnings on Friday".split()
_rng = np.random.default_rng(41)
FILLS = {"-inf": -math.inf, "-1e9": -1e9, "-10": -10.0}


def fixture(n, scale, chance, fill):
    scores, mask = _rng.normal(scale=scale, size=(n, n)).tolist(), (_rng.random((n, n)) < chance).tolist()
    return dict(scores=scores, mask=mask, fill=fill)


def tiny(scores, mask, fill="-inf"):
    return dict(scores=scores, mask=(np.array(mask) > 0).tolist(), fill=fill)


FIXTURES = [
    *(fixture(2, 1, 0.5, "-inf"), fixture(3, 2, 0.3, "-inf"), fixture(5, 4, 0.6, "-1e9")),
    *(fixture(7, 1, 0.5, "-10"), fixture(7, 9, 0.2, "-inf"), fixture(10, 2, 0.7, "-10")),
    tiny([[1, 2], [3, 4]], [[0, 0], [0, 0]]),  # all rows empty
    tiny([[1, 2], [3, 4]], [[0, 0], [0, 1]], "-1e9"),
    tiny([[1000, -1000], [-1000, 1000]], [[1, 1], [1, 1]]),
    tiny([[-20, -20], [0, 0]], [[1, 0], [1, 1]], "-10"),  # fill wins
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


def test_the_python_weights_agree_with_those_on_the_page():
    for fixture in FIXTURES:
        widget = MaskPainter([f"t{i}" for i in range(len(fixture["scores"]))], **fixture)
        np.testing.assert_allclose(widget.weights, softmax(**fixture), rtol=0, atol=1e-12)


def mask(*rows):
    """A mask from rows of 1 and 0."""
    return [[letter == "1" for letter in row] for row in rows]


def weighed(mask, fill="-inf", n=7):
    """The weights of the painter of this size."""
    return softmax(painter(n).scores, mask, fill)


def causal(n, *changed):
    """A causal mask in which these cells are turned over."""
    cells = np.tri(n, dtype=bool)
    for place in changed:
        cells[place] ^= True
    return cells.tolist()


ROW, COLUMN = [(0, j) for j in range(1, 7)], [(i, 6) for i in range(1, 5)]
CHEAT = weighed(causal(7, (1, 2)))[1, 2]
LEAK = np.triu(weighed(causal(7), "-10"), 1).max()
SHARE = "=> document.querySelector('.mp-level').offsetWidth / document.querySelector('.mp-track').offsetWidth"
PRESETS = [
    ("causal", {}, np.tri(7)),
    ("full", {}, np.ones((7, 7))),
    ("padding", dict(length=4), np.ones((7, 1)) * (np.arange(7) < 4)),
    ("window", dict(window=3), np.tri(7) - np.tri(7, k=-3)),
    ("window", dict(window=1), np.eye(7)),
]


def moves(*tokens):
    """Seen: the outputs of these tokens are the ones that move."""
    return {".mp-moves[data-output] => Number(one.dataset.output)": [*tokens]}


CONTROLS = {
    **{
        f"a preset gives its mask: {name} {size or ''}": (
            painter(mask=np.triu(np.ones((7, 7), dtype=bool), 1)),
            (sets(size), name, {"mask": expected.astype(bool).tolist(), "preset": name}),
            {"button[aria-pressed=true]@data-go": name, "button[aria-pressed=true]": 1},
        )
        for name, size, expected in PRESETS
    },
    "a slider sets its number and its preset": (
        painter(),
        ("slider=length: Home", dict(preset="padding", length=0, mask=[[False] * 7] * 7)),
        ("slider=length: End", dict(mask=[[True] * 7] * 7)),
        ("slider=window: ArrowRight", dict(preset="window", window=3)),
        {"=window": "3", "=title": "Sliding window, 3 tokens wide"},
    ),
    "all cells are masked and flipped": (
        AGAIN,
        ("flip", dict(mask=mask("010", "001", "110"))),
        ("clear", dict(mask=mask("000", "000", "000"))),
    ),
    "tokens of one name are told apart": (
        MaskPainter(["the", "cat", "the"], np.zeros((3, 3)), preset="full"),
        {"cell=0-2@aria-label~": "“the₀” reads “the₂”"},
    ),
    "a click turns a cell over and a mask painted like a preset is recognized": (
        painter(3),
        ("cell=1-2", dict(mask=causal(3, (1, 2)))),
        {
            ".mp-cell => Number(one.textContent)": pytest.approx(
                weighed(causal(3, (1, 2)), n=3).ravel().tolist(), abs=0.0051
            )
        },
        ("cell=1-2", dict(mask=causal(3))),
        ("full | cell=0-1", dict(preset="painted")),
        ("cell=0-2 | cell=1-2", {"preset": "causal", "=title": "Causal mask"}),
    ),
    "a drag paints every cell it meets with the opposite of the first": (
        painter(),
        ("drag cell=0-1 -> cell=0-6 -> cell=4-6", dict(mask=causal(7, *ROW, *COLUMN))),
        ("hover cell=6-0", dict(mask=causal(7, *ROW, *COLUMN))),  # the button is up
    ),
    "a finger paints by tapping and dragging sideways": (
        painter(),
        ("touch cell=2-3", dict(mask=causal(7, (2, 3)))),
        ("touch cell=0-1 -> cell=0-2 -> cell=0-4 -> cell=0-6", dict(mask=causal(7, (2, 3), *ROW))),
    ),
    "the keyboard moves and paints": (
        painter(4),
        ("cell=0-0: ArrowRight | keys: ArrowRight Space", dict(mask=mask("1010", "1100", "1110", "1111"))),
        # It paints on with what the cell it leaves is.
        ("keys: Shift+ArrowDown", dict(mask=mask("1010", "1110", "1110", "1111"))),
        ("keys: Control+End Enter", dict(mask=mask("1010", "1110", "1110", "1110"))),
        ("keys: ArrowDown", {"focus": "3-3"}),  # the border stops
    ),
    "the stop of the grid is the cell pressed last": (
        painter(4),
        "cell=2-1 | go=causal: Tab",
        *(({"focus": name}, "keys: Tab") for name in "full window window padding length 2-1 0 1".split()),
    ),
    "the meter is honest about a causal mask, names tokens that cheat and tells what leaks": (
        painter(),
        {"=count": "28 of 49 cells allowed", "=verdict": "Honest: no token reads a later one."},
        {".mp-level@style": "width: 0%;"},
        {"said": "Causal mask: 28 of 49 cells allowed. Honest: no token reads a later one."},
        "cell=1-2",
        {"=verdict": f"Cheating: “CEO” reads “announced”, which comes later, with weight {CHEAT:.2f}."},
        {"=reading~": "That is the very token it has to predict.", SHARE: pytest.approx(CHEAT, abs=0.01)},
        ("causal | go=fill := -10", {"fill": "-10", "=verdict~": ["Leaking: with fill −10, ", f"{LEAK:.4f}"[:4]]}),
        {"cell=0-6": ">0"},
        ("go=fill := -inf | clear", {"said~": "Empty rows: “The”, “CEO”, “announced” and 4 more read nothing."}),
    ),
    "an empty row reads nothing and with a finite fill everything alike": (
        painter(4, mask=np.array(mask("1000", "1100", "0000", "1111"))),
        {"[data-note]": ["", "", "empty row: this token reads nothing", ""]},
        {"said~": "Empty row: “announced” reads nothing."},
        ("go=fill := -1e9", {"[data-cell^='2-']": ["0.25"] * 4, "[data-note]": [""] * 4}),
        ("go=fill := -10 | hover cell=2-0", {"[data-cell^='2-']": ["0.25"] * 4, "[data-note]": [""] * 4}),
        {"=reading": "Nothing is allowed for “announced”: all scores are −10, so each weight is 0.25."},
    ),
    "a changed token moves the outputs that read it and its own": (
        painter(5),
        moves(),
        ("change=3", {"changed": 3, **moves(3, 4)}),
        {"=reading": "Change “record”: the outputs of “record” and “earnings” move."},
        ("change=0: Enter", moves(0, 1, 2, 3, 4)),
        ("window", moves(0, 1)),
        ("full", moves(0, 1, 2, 3, 4)),
        ("change=0", {"changed": None, **moves()}),
    ),
}


def test_a_finger_that_scrolls_paints_nothing(shown):
    view = shown(painter(), width=390, height=600, has_touch=True, is_mobile=True)
    x, y = view.spot("cell=6-3")
    view.touch(*[(x, y - 25 * step) for step in range(9)])
    view.page.wait_for_function("scrollY > 50")
    assert view.get("mask") == causal(7)


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
            other[t], other[:, t], moved[t] = (rng.normal(size=many) for many in (len(scores), len(scores), 3))
            after = softmax(other, mask, fixture["fill"]) @ moved
            assert moves == (np.abs(after - before).max(-1) > 0).tolist(), (fixture, t)


LISTS = [[True, False], [True, True]]
PADDING = np.array([[True, True, False]])
TWO = dict(tokens=["a", "b"], scores=np.zeros((2, 2)))
TRAITS = {
    **{
        f"a mask is taken as {name}": (
            dict(tokens=["a", "b"], scores=torch.zeros(2, 2), mask=mask),
            dict(mask=LISTS, preset="causal", scores=[[0, 0], [0, 0]]),
        )
        for name, mask in dict(
            list=LISTS, array=np.array(LISTS), tensor=torch.tensor(LISTS), integers=np.array(LISTS).astype(int)
        ).items()
    },
    "a row is a mask for all": (dict(mask=PADDING), dict(mask=PADDING.tolist() * 3)),
    "minus infinity is a fill": (dict(**TWO, fill=-math.inf, length=np.int64(1)), dict(fill="-inf")),
    **{
        f"a preset gives its mask: {name} {size or ''}": (
            dict(tokens=WORDS, scores=np.zeros((7, 7)), preset=name, **size),
            dict(mask=expected.astype(bool).tolist()),
        )
        for name, size, expected in PRESETS
    },
    "mask and preset follow each other": (
        dict(tokens=WORDS[:5], scores=np.zeros((5, 5))),
        (sets(mask=np.eye(5, dtype=bool)), dict(preset="window", window=1)),
        (sets(mask=np.eye(5, dtype=bool)[::-1]), dict(preset="painted")),
        (sets(preset="padding"), dict(mask=[[True] * 4 + [False]] * 5)),
        (sets(length=2), dict(mask=[[True] * 2 + [False] * 3] * 5)),
        lambda widget: widget.set_state({"preset": "painted", "mask": [[False] * 5] * 5}),  # as the page sends it
        dict(preset="painted", mask=[[False] * 5] * 5),
    ),
}
