"""The dot-product explorer: its numbers against PyTorch and NumPy, and each of its controls in a browser."""

import numpy as np
import pytest
import torch

from attnlab.widgets import DotProductExplorer
from tests.attnlab.widget_page import frame_clock, sets

PAIRS = [
    ([2.0, 1.0], [0.5, 2.0]),
    ([-3.0, 1.5], [3.2, 3.9]),
    ([1e-3, 2e-3], [4e5, -7e5]),
    ([1.0, 1.0], [1.0, 1.0000001]),
    *(tuple(pair.tolist()) for pair in np.random.default_rng(20).normal(scale=3, size=(12, 2, 2))),
]
FIXTURES = [dict(a=a, b=b) for a, b in PAIRS]
EXAMPLES = [
    (
        DotProductExplorer([2, 1], [0.5, 2]),
        dict(b=[3, 1]),
        dict(b=[-1, 2]),
        dict(b=[-3, 1]),
        dict(a=[-3.7, 1.5], b=[3.2, -3.9]),
        dict(a=[0, 0], b=[1, 1]),
        dict(a=[-13.5, 18.25], b=[-12.5, -19.75]),
    )
]
ROOM = (-5, 5)
MISTYPED = {"a1": ["two", "", "1e7"]}
AGAIN = DotProductExplorer([2, 1], [0.5, 2])
REFUSED = [
    (dict(a=[1, 2, 3]), "must hold 2 numbers, got 3"),
    (dict(a=[1, np.nan]), "finite"),
    (dict(a=[1, 2e6]), "at most 1e"),
    (dict(a="up"), "list of 2 numbers"),
    (dict(a=[[1, 2]]), r"shape \(1, 2\)"),
    (dict(a=["x", 1]), "list of 2 numbers"),
]
EXTREMES = [(DotProductExplorer([-123.25, 4000], [999999, -0.125]),)]


def reference(state):
    a, b = (torch.tensor(state[name], dtype=torch.float64) for name in "ab")
    cosine = torch.nn.functional.cosine_similarity(a, b, dim=0)
    [factor], *_ = np.linalg.lstsq(a[:, None], b, rcond=None)  # the shadow ends at the foot of b on a
    return {
        "products": a * b,
        "dot": a @ b,
        "lengthA": a.norm(),
        "lengthB": b.norm(),
        "cosine": cosine,
        "sign": cosine.sign(),
        "foot": factor * a,
        "shadow": factor * a.norm(),
    }


def tip(name):
    return f"[data-tip={name}] .dp-dot"


def at(x, y):
    """The spot of a point on the grid that reaches to 4."""
    return f".dp-plane at {0.5 + 0.43 * x / 4},{0.5 - 0.43 * y / 4}"


KNOWN = [
    (dict(a=[2, 0], b=[3 * np.cos(np.radians(angle)), 3 * np.sin(np.radians(angle))]), {"angle": angle})
    for angle in [0.3, 49.0, 90.0]
] + [
    (dict(a=[0.1, 0.3], b=[0.3, -0.1]), dict(dot=0, sign=0, angle=90)),  # what a cancellation leaves counts as across
    (dict(a=[0, 0], b=[3, 1]), dict(cosine=0, angle=np.nan, shadow=np.nan, dot=0)),
]
CONTROLS = {
    "products are added, the sign is named, and the grid grows with the arrows": (
        DotProductExplorer([-3, 1.5], [3.2, -4]),
        {"=product-1": "−9.60", "=product-2": "−6.00", "=dot": "−15.60"},
        {"=way-angle~": "|a| |b| cos θ = 3.35 × 5.12 × ("},
        sets(a=[2, 1], b=[0.5, 2]),
        *(
            (sets(b=b), {".dp-sign": word, "said~": word})
            for b, word in [([3, 1], "toward a"), ([-1, 2], "across a"), ([-3, 1], "away from a")]
        ),
        (sets(b=[13, -2]), {".dp-tick:text-is('20')": 2}),
    ),
    "a zero arrow has no direction": (DotProductExplorer([0, 0], [3, 1]), {"said~": "no direction"}),
    "the arrow keys move the tip in focus": (
        DotProductExplorer([2, 1], [0.5, 2]),
        "keys: Tab ArrowRight ArrowRight ArrowDown Shift+ArrowLeft Shift+ArrowUp",
        dict(a=[1.2, 1.9], b=[0.5, 2]),
        ("keys: Tab ArrowLeft", {"b": [0.4, 2], "tip=b@aria-label~": "0.4, 2"}),
    ),
    "each number field sets its component and steps": (
        DotProductExplorer(),
        "field=a1 := -1.5 | field=a2 := 2,5 | field=b1 := −4 | field=b2 := 0.25",
        {"a": [-1.5, 2.5], "b": [-4, 0.25], "=headline": "a·b = 6.63"},
        ("field=a1: ArrowUp | field=b2: Shift+ArrowDown", dict(a=[-1.4, 2.5], b=[-4, -0.75])),
    ),
    "presets move b and start again brings the first arrows back": (
        DotProductExplorer([2, 1], [0.5, 2]),
        ({"=way-angle~": "× 0.651"}, "b twice as long", {"=way-angle~": "× 0.651"}),
        {"=dot": "6.00", "a": [2, 1], "b": [1, 4]},
        *(
            ("Start again", dict(a=[2, 1], b=[0.5, 2]), label, dict(a=[2, 1], b=b))
            for label, b in [("Same direction", [1, 0.5]), ("Perpendicular", [-1, 2]), ("Opposite", [-2, -1])]
        ),
    ),
    "dragging a tip moves it in tenths, as far as the edge": (
        DotProductExplorer([2, 1], [0.5, 2]),
        (f"drag {tip('b')} -> {at(-1, 1)} -> {at(-2, 0.7)}", {"a": [2, 1], "b": [-2, 0.7], "=dot": "−3.30"}),
        (f"drag {tip('a')} -> {at(1.54, 1.96)}", dict(a=[1.5, 2])),
        (f"drag {tip('b')} -> .dp-plane at 2,-1", dict(b=[4, 4])),
    ),
    "a finger drags a tip": (
        DotProductExplorer([2, 1], [0.5, 2]),
        (f"touch {tip('a')} -> {at(0.5, 0)} -> {at(-1, -1)}", dict(a=[-1, -1])),
    ),
}


def test_the_angle_is_accurate_even_where_arrows_nearly_coincide(shown):
    view = shown(DotProductExplorer())
    for angle in [1e-7, 179.9999999]:
        turned = [3 * np.cos(np.radians(angle)), 3 * np.sin(np.radians(angle))]
        assert view.compute({"a": [2.0, 0.0], "b": turned})["angle"] == pytest.approx(angle, rel=1e-6)


# What is shown in each frame while a button's turn goes on: the dot product, and the length of b on the page.
TURN = """([label, ms]) => new Promise((resolve) => {
  const seen = [], shaft = document.querySelectorAll("line.dp-arrow")[1];
  const now = (name) => Number(shaft.getAttribute(name));
  const look = () => {
    const dot = Number(document.querySelector("[data-value=dot]").textContent.replace("−", "-"));
    seen.push([dot, Math.hypot(now("x2") - now("x1"), now("y2") - now("y1"))]);
    if (seen.length > 60 * ms / 1000) resolve(seen);
    else requestAnimationFrame(look);
  };
  look();
  [...document.querySelectorAll(".dp-presets button")].find((one) => one.textContent === label).click();
})"""


def test_a_turn_goes_through_what_is_between_at_full_length(shown):
    view = shown(DotProductExplorer([2, 1], [2, 1]), before=frame_clock(), reduced_motion="no-preference")
    dots, lengths = zip(*view.evaluate(TURN, ["Opposite", 900]))
    assert (dots[0], dots[-1]) == (5, -5) and any(-1.5 < dot < 1.5 for dot in dots)
    assert min(lengths) > 0.98 * max(lengths)
    view = shown(DotProductExplorer([2, 1], [2, 1]), before=frame_clock())
    assert {dot for dot, _ in view.evaluate(TURN, ["Opposite", 300])} == {5, -5}


def test_turning_b_around_draws_the_cosine_and_leaves_b_where_it_was(shown):
    for motion, ms in [("no-preference", 2900), ("reduce", 200)]:
        view = shown(DotProductExplorer([2, 0], [0, 1]), before=frame_clock(), reduced_motion=motion)
        view.evaluate(TURN, ["Turn b around", ms])
        box = view.locator(".dp-trace").evaluate("(path) => [path.getBBox().width, path.getBBox().height]")
        assert box == pytest.approx([316, 62], abs=30)  # nearly all angles
        assert view.get("b") == [0, 1] and view.text("dot") == "0.00"
    view.press("Start again")
    assert len(view.locator(".dp-trace").get_attribute("d")) < 40


TRAITS = {
    "arrays, lists and tuples are taken": (
        dict(a=np.array([1, 2]), b=(3.5, -1)),
        dict(a=[1, 2], b=[3.5, -1]),
        (sets(b=np.array([0.25, 4.0], dtype=np.float32)), dict(b=[0.25, 4])),
    ),
}
