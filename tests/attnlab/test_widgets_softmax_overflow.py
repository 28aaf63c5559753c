"""The overflow widget: its numbers against NumPy's float16, step by step, and each of its controls in a browser."""

import math

import numpy as np
import torch

from attnlab.widgets import SoftmaxOverflow
from tests.attnlab.widget_page import sets

_rng = np.random.default_rng(22)
FIXTURES = [
    {"scores": [3.0, 1.0], "shift": 0.0},
    {"scores": [11.0, 11.0], "shift": 0.0},  # each exponential fits float16, the sum does not
    {"scores": [1000.0, 999.0, -1000.0], "shift": 1000.0},
    {"scores": [-30.0, -31.0, -40.0], "shift": 0.0},  # every exponential is 0 in float16
    {"scores": [-9.0, -9.5, -16.0, -17.3], "shift": 0.0},  # subnormal float16 numbers
    *(
        {"scores": _rng.normal(scale=scale, size=n).tolist(), "shift": shift}
        for n, scale, shift in [(2, 1, 3.5), (3, 4, -2.0), (5, 2, 11.0), (5, 6, 0.25), (4, 0.1, -20.0)]
    ),
]
EXAMPLES = [
    (
        SoftmaxOverflow([3, 1, 0.5], labels=["the", "cat", "sat"]),
        dict(shift=10),
        dict(shift=-40),
        dict(scores=[11, 11, 11], shift=0),
        dict(scores=[-700, 11.5, 900.25], shift=100),
    ),
    (SoftmaxOverflow([3, 1]), dict(shift=12)),
    (SoftmaxOverflow([1, 2, 3, 4, 5]), dict(shift=12)),
]
GLIDES = [(SoftmaxOverflow(), dict(shift=6), {".so-dot": "cx"})]
SET = [dict(scores=[1, 1, 1, 1], shift=2)]
ROOM = (-25, 5)
AGAIN = SoftmaxOverflow([2, 1, 4], labels=["x", "y", "z"], shift=2)
MISTYPED = {"score-0": ["many", "", "1001", "nan"], "shift": ["1e4"]}
REFUSED = [
    (dict(scores=[1]), "2 to 5 numbers, got 1"),
    (dict(scores=range(6)), "2 to 5 numbers, got 6"),
    (dict(scores=[1, math.inf]), "finite"),
    (dict(scores=[1, 2], labels=["a"]), "each of the 2 scores, got 1"),
    (dict(shift=1e4), "shift must be"),
]
REFUSED_LATER = [("scores", [1], "2 to 5 numbers, got 1")]
EXTREMES = [
    (SoftmaxOverflow([-1000, 999.125, 12.3456], labels=["announcement of the record", "cat", "sat"], shift=-123.456),)
]


def in_float16(z):
    """Softmax without precaution, one float16 operation after the other."""
    exponentials = np.exp(z.astype(np.float64)).astype(np.float16)
    total = exponentials[0]
    for exponential in exponentials[1:]:
        total = np.float16(total + exponential)
    return exponentials, total, exponentials / total


@np.errstate(all="ignore")
def reference(state):
    moved = np.array(state["scores"], dtype=float) + state["shift"]
    expected = {"moved": moved, "exact": torch.tensor(moved).softmax(-1)}
    z = moved.astype(np.float16)
    for kind, start in [("plain", z), ("subtracted", z - z.max())]:
        assert start.dtype == np.float16
        exponentials, total, weights = in_float16(start)
        numbers = {"scores": start, "exponentials": exponentials, "total": total, "weights": weights}
        expected.update({f"{kind}.{name}": np.asarray(value, dtype=float) for name, value in numbers.items()})
    return expected


@np.errstate(over="ignore")
def test_rounding_to_float16_agrees_with_numpy_at_its_edges(shown):
    edges = [65504, 65519.99, 65520, -65520, 2049, 2051, -2051, 1.00048828125, 1.0014648437, 6.1e-5, 6e-8, 2**-25]
    edges += [2.99e-8, 0]
    view = shown(SoftmaxOverflow())
    for pair in zip(edges, edges[1:]):
        found = view.compute({"scores": pair, "shift": 0})["plain"]["scores"]
        assert found == np.array(pair).astype(np.float16).tolist()


def column(kind, *texts):
    """Seen: the numbers of one kind, with their sum at the end."""
    return {f".so-table [data-value^={kind}-]": [*texts]}


UNMOVED = dict.fromkeys([*column("exact"), *column("subtracted")], ...)
SLIDERS = [(SoftmaxOverflow(), "shift", [half / 2 for half in range(-60, 61)], -7.5)]
CONTROLS = {
    "overflow is shown as NumPy prints it, beside what does not overflow": (
        SoftmaxOverflow([12, 11, 3]),
        {**column("plain", "nan", "0", "0", "nan"), **column("exact", "0.731", "0.269", "9.0e−5", "1.000")},
        {".so-table [data-value^=subtracted-] => one.textContent === 'nan'": [False] * 4},
        {"=verdict~": "inf / inf is nan", "text.so-gone => one.textContent": ["inf"]},
        *(
            (sets(scores=scores), {"=verdict~": verdict})
            for scores, verdict in [([11, 11], "divided by inf"), ([-30, -31], "0 / 0 is nan"), ([1, 2], "fits")]
        ),
    ),
    "what is added changes what overflows and nothing else": (
        SoftmaxOverflow([3, 1]),
        UNMOVED,
        ("slider=shift: End", {**UNMOVED, **column("plain", "nan", "nan", "nan")}),
    ),
    "a score is typed": (
        SoftmaxOverflow([3, 1]),
        ("[aria-label='Score of score 2'] := 12", {"scores": [3, 12], **column("plain", "0", "nan", "nan")}),
    ),
}


def test_what_is_added_moves_one_track_and_not_the_other(shown):
    view = shown(SoftmaxOverflow([3, 1]))
    before = view.each(".so-dot", "one.cx.baseVal.value")
    view.slider("shift").press("ArrowRight")
    after = view.each(".so-dot", "one.cx.baseVal.value")
    assert after[0] > before[0] and after[1] > before[1] and after[2:] == before[2:]


TRAITS = {
    "arrays and tuples are taken": (
        dict(scores=np.array([1, 2, 3]), labels=("a", "b", "c"), shift=2),
        dict(scores=[1, 2, 3], labels=["a", "b", "c"], shift=2),
    ),
}
