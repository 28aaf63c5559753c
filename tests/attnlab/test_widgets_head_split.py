"""The split of heads: every number is where PyTorch's reshape and transpose put it, and travels there."""

import torch

from attnlab.widgets import HeadSplit
from solutions.multi_head import split_heads
from tests.attnlab.widget_page import sets, state_of

EXAMPLES = [
    (HeadSplit(), *(dict(stage=stage) for stage in (1, 2, 3)), dict(bug=True), dict(stage=2), dict(stage=0)),
]
ROOM = (-8, 8)
STILL = [".hs-stand"]
GLIDES = [(HeadSplit(), dict(stage=2), {"[data-number='23']": "transform"})]
STOPS = ["rows", "cut", "heads", "merged", "bug"]
SET = [dict(stage=2, bug=True), dict(width=6, heads=3)]
REFUSED = [
    (dict(width=5), "heads must be 1 to 4 and divide the width: 5 / 2"),
    (dict(width=9), "width must be 1 to 8; it is 9"),
    (dict(tokens="cat"), "list of 2 to 4 names; it is 'cat'"),
    (dict(tokens=["a"]), "list of 2 to 4 names"),
    (dict(stage=4), "stage"),
]
SIZES = [(["a", "b", "c"], 4, 2), (["a", "b"], 6, 3), (["a", "b", "c", "d"], 8, 4), (["a", "b", "c"], 5, 1)]
FIXTURES = [
    state_of(HeadSplit(*sizes, stage=stage, bug=bug)) for sizes in SIZES for stage in range(4) for bug in (False, True)
]


def reference(state):
    """Where each number is found again, by its own value, in what PyTorch makes of the rows."""
    n, width, heads = len(state["tokens"]), state["width"], state["heads"]
    rows = torch.arange(n * width).reshape(n, width)
    if state["stage"] != 2:
        found = rows[None]
    elif state["bug"]:
        found = rows.reshape(heads, n, width // heads)
    else:
        found = split_heads(rows[None], heads)[0]
    places = [(found == number).nonzero()[0].tolist() for number in range(n * width)]
    return {
        "cells.*.block": [place[0] for place in places],
        "cells.*.row": [place[1] for place in places],
        "cells.*.at": [place[2] for place in places],
        "shapes.2": [heads, n, width // heads],
    }


def test_the_python_side_says_the_same():
    for state in FIXTURES:
        widget = HeadSplit(state["tokens"], state["width"], state["heads"], bug=state["bug"])
        rows = torch.tensor(widget.rows)
        if not state["bug"]:
            assert torch.equal(torch.tensor(widget.in_heads), split_heads(rows[None], widget.heads)[0])
        else:
            assert widget.in_heads.ravel().tolist() == widget.rows.ravel().tolist()


CELLS = ".hs-cell => one.getAttribute('transform')"
CONTROLS = {
    "without the transpose head 0 holds a token and half of the next": (
        HeadSplit(),
        ("stage=heads", {"stage": 2, ".hs-note": "Every head has its 2 numbers of every token."}),
        ("bug", {".hs-note~": "head 0 holds 4 numbers of “the” and 2 of “cat”."}),
        ("stage=merged", {".hs-note~": "finds nothing", ".hs-line": "heads.reshape(3, 4)  →  (3, 4)"}),
    ),
    "there and back every number is where it was": (
        HeadSplit(),
        {CELLS: ...},
        (sets(stage=2), sets(stage=3), {CELLS: ...}),
    ),
}


def test_print_gets_rows_and_heads():
    assert [axes.get_title() for axes in HeadSplit().picture().axes] == ["tokens", "head 0", "head 1"]
