"""The head groups: which key/value head a query head uses against NumPy, and each of their controls in a browser."""

import numpy as np

from attnlab.widgets import HeadGroups
from tests.attnlab.widget_page import state_of

GROUPS = [HeadGroups(), HeadGroups(9, 9), HeadGroups(9, 1, tile=True), HeadGroups(12, 4, 16, tile=True)]
FIXTURES = [state_of(one) for one in GROUPS]
STOPS = ["9", "3", "1", "reset", "tile"]
SET = [dict(n_kv_heads=1, tile=True)]
AGAIN = HeadGroups(12, 4, tile=True)
REFUSED = [
    (dict(n_heads=13), "n_heads must be a whole number from 2 to 12"),
    (dict(d_head=0), "d_head must be"),
    (dict(n_kv_heads=2), "n_kv_heads must divide 9, got 2"),
    (dict(n_kv_heads=0), "n_kv_heads must divide 9"),
]
EXAMPLES = [(HeadGroups(), dict(n_kv_heads=9), dict(n_kv_heads=1), dict(n_kv_heads=3, tile=True))]
GLIDES = [(HeadGroups(), dict(n_kv_heads=1), {".hg-copy": "style", ".hg-lines line": "x2"})]
EXTREMES = [(HeadGroups(12, 2, 1024, tile=True),)]


def reference(state):
    heads, copies = np.arange(state["n_kv_heads"]), state["n_heads"] // state["n_kv_heads"]
    right = np.repeat(heads, copies)
    uses = np.tile(heads, copies) if state["tile"] else right
    kept = np.zeros((2, state["n_kv_heads"], state["d_head"]))
    return {"right": right, "uses": uses, "wrong": (right != uses).sum(), "numbers": kept.size, "saved": copies}


CONTROLS = {
    "the verdict and the lines show what is kept and what is wrong": (
        HeadGroups(n_kv_heads=9),
        {"=verdict": "2 × 9 × 64 = 1152 numbers per token"},
        ("many=3", {"n_kv_heads": 3, "pressed many": ["3"]}),
        {"=verdict": "2 × 3 × 64 = 384 numbers per token, 3 × less"},
        ("go=tile", {"tile": True, "=verdict~": "; 6 of 9 heads get wrong keys", ".hg-wrong": 6}),
    ),
}


def test_the_picture_for_print_has_the_same_lines():
    for one, state in zip(GROUPS, FIXTURES):
        assert one.uses().tolist() == reference(state)["uses"].tolist()
