"""The stepper: numbers are PyTorch's, bars and points are where these are, and bad arrays are refused by name."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab.widgets.attention_stepper import AttentionStepper
from tests.attnlab.widget_page import sets

STAGES = ["scores", "scaled", "exponentials", "weights", "output"]


def arrays(seed, n_q, n_k, d_k, d_v, size=1.0):
    rng = np.random.default_rng(seed)
    return [size * rng.normal(size=shape) for shape in ((n_q, d_k), (n_k, d_k), (n_k, d_v))]


SIZES = [(1, 3, 3, 2, 2), (2, 2, 5, 3, 4), (3, 6, 4, 6, 1, 3), (4, 1, 6, 1, 6), (5, 5, 2, 4, 3, 300), (6, 4, 1, 5, 2)]
SIZES += [(11, 1, 6, 2, 2), (12, 2, 4, 2, 2)]
FIXTURES = [dict(zip("QKV", map(np.ndarray.tolist, arrays(*sizes)))) for sizes in SIZES]
NUMBERS = ["[data-cell=key-0]", "[data-cell=key-2]"]
EVERY_STAGE = [change for stage in range(5) for change in (dict(stage=stage), *NUMBERS)]
EXAMPLES = [
    (AttentionStepper(tokens=["the", "cat", "sat"]), *EVERY_STAGE, "[data-cell=output-1]", dict(query=1)),
    *((AttentionStepper(*arrays(8, *sizes), stage=4),) for sizes in [(2, 4, 3, 1), (5, 6, 6, 6), (2, 5, 2, 3)]),
]
ROOM = (-100, 5)
EXTREMES = [
    (AttentionStepper(*arrays(7, n, n, n, n, 10), tokens=["announced"] * n, stage=4), *NUMBERS) for n in (3, 6)
] + [(AttentionStepper(*arrays(7, 2, 2, 2, 2, 1e5), stage=4),)]
GLIDES = [(AttentionStepper(query=2), "[data-go=next]", {"[data-cell=key-2] text": ""})]
SET = [dict(stage=3, query=1, K=[[5, 5], [0, 1], [1, 1]]), dict(V=[[-5, 5], [0, -1], [1, 1]], stage=4)]


def make(*shapes, **options):
    return AttentionStepper(*map(np.ones, shapes), **options)


REFUSED = [
    ((2, 3), (4, 2), (4, 5), {}, "equally wide: Q is 2 x 3, K is 4 x 2"),
    ((2, 3), (4, 3), (5, 1), {}, "K has 4 rows, V has 5"),
    ((7, 3), (4, 3), (4, 1), {}, r"Q must have 1 to 6 rows and columns; its shape is \(7, 3\)"),
    ((2, 3), (4, 3), (4,), {}, r"V must have 2 dimensions .* \(4,\)"),
    ((2, 0), (4, 0), (4, 1), {}, r"Q must have 1 to 6"),
    (dict(Q=[[1.0, 2.0]], K=[[1, np.nan]], V=[[1.0]]), "finite"),
    (dict(Q=[[1.0, 2.0]], K=[[1], [1, 2]], V=[[1.0]]), "K must be a table"),
    (dict(Q=[[1.0, 2.0]], K="ab", V=[[1.0]]), "K must be"),
    (dict(Q=[[1]], K=[[1]]), "missing: V"),
    (dict(tokens=["the", "cat"]), "name the 3 keys; 2 were given"),
    (dict(query=3), "0 to 2"),
]
REFUSED_LATER = [("K", np.ones((4, 2)), r"\(3, 2\) and the new one \(4, 2\); to change sizes, use put")]


def corners(points):
    """Indices of the corners of the hull: no pair of others has the point between them, and no three hold it."""
    points = torch.tensor(points, dtype=torch.float64)
    found = []
    for i, point in enumerate(points):
        angles = [math.atan2(*(other - point).flip(0)) for j, other in enumerate(points) if j != i]
        gaps = np.diff(sorted(angles), append=min(angles, default=0) + 2 * math.pi)
        if len(points) == 1 or max(gaps) > math.pi:
            found.append(i)
    middle = points[found].mean(0)
    return sorted(found, key=lambda i: math.atan2(*(points[i] - middle).flip(0)))


def reference(state):
    q, k, v = (torch.tensor(state[name], dtype=torch.float64) for name in "QKV")
    scores = torch.matmul(q, k.mT)
    scaled = scores / math.sqrt(q.shape[-1])
    exponentials = (scaled - scaled.max(dim=-1, keepdim=True).values).exp()
    return {
        "scores": scores,
        "scaled": scaled,
        "maxima": scaled.amax(-1),
        "exponentials": exponentials,
        "totals": exponentials.sum(-1),
        "weights": F.softmax(scaled, dim=-1),
        "output": F.scaled_dot_product_attention(q, k, v),
        "root": q.shape[-1] ** 0.5,
    }


def numbers(view, place="key"):
    return view.locator(f"[data-cell^={place}] text").all_text_contents()


SUMS = [
    ("key-2", "q1 · k3 = 1·1 + 0·1 = 1"),
    ("key-0", "1 / √2 = 1 / 1.414 = 0.707"),
    ("key-1", "e0 − 0.707 = e−0.707 = 0.493"),
    ("key-1", "0.493 / (1 + 0.493 + 1) = 0.198"),
    ("output-1", "column 2 of V: 0.401·0 + 0.198·3 + 0.401·1 = 0.994"),
]
CONTROLS = {
    "next goes through the stages and around and a tab goes there": (
        AttentionStepper(),
        *(step for stage in STAGES for step in ({"[aria-current=step]@data-stage-tab": stage}, "next")),
        dict(stage=0),
        "back",
        dict(stage=0),
        "stage-tab=output",
        {"stage": 4, "go=next": "Replay"},
        "back",
        {"stage": 3, ".st-number-output[aria-hidden=true]": 2},  # the output is not there yet
    ),
    "reset brings back the first query and the first numbers": (
        AttentionStepper(stage=3),
        "query=1 | vector=k0: Shift+ArrowUp",
        dict(K=[[2, 0], [0, 1], [1, 1]]),
        "reset",
        dict(stage=3, query=0, K=[[1, 0], [0, 1], [1, 1]]),
    ),
    "the keyboard alone does it all": (
        AttentionStepper(),
        "go=next: Enter Enter Enter Enter",
        dict(stage=4),
        "tip=q: ArrowUp ArrowUp Shift+ArrowLeft",
        dict(Q=[[0, 0.2], [0, 1], [1, 1]]),
        "cell=output-0: Space",
        {".st-why~": "column 1 of V: "},
    ),
    "arrays of another size are drawn anew": (
        AttentionStepper(stage=3, query=1),
        sets(query=0, Q=[[1, 2, 3]], K=[[1, 0, 0], [0, 1, 0]], V=[[1], [3]], stage=0),
        {"[data-cell^=key] text": ["1", "2"], "[data-vector]": 1 + 2 + 2, ".st-plane": 0},
    ),
    "a number opens to its sum and closes again": (
        AttentionStepper(),
        *(
            step
            for stage, (cell, text) in enumerate(SUMS)
            for step in (
                *(sets(stage=stage), f"cell={cell}", {".st-why": text, f"cell={cell}@aria-pressed": "true"}),
                *(f"cell={cell}", {".st-opened": 0, f"cell={cell}@aria-pressed": "false"}),
            )
        ),
    ),
    "an opened sum follows the numbers and the stage": (
        AttentionStepper(),
        "cell=key-0",
        sets(K=[[1, -4], [0, 1], [1, 1]], query=2),
        {".st-why": "q3 · k1 = 1·1 + 1·(−4) = −3"},
        "next",
        {".st-why": "−3 / √2 = −3 / 1.414 = −2.121"},
    ),
    "the summary tells the state": (
        AttentionStepper(tokens=["the", "cat", "sat"]),
        {"said": "Stage 1 of 5, scores, for q1: k1 the 1, k2 cat 0, k3 sat 1."},
        sets(stage=4, query=2),
        {"said": "Stage 5 of 5, output, for q3: (1, 1.248). Largest weight: k3 sat, 0.503."},
    ),
}


def drag(view, part, dx, dy):
    x, y = view.middle(view.locator(part))
    view.stroke((x, y), (x + dx, y + dy))


def places(view, part):
    return [np.array(view.middle(one)) for one in view.locator(part).all()]


def test_the_worked_example_ends_where_paper_ends_and_scores_of_a_thousand_give_weights(shown):
    view = shown(AttentionStepper(query=2))
    for stage, row in enumerate([["1", "1", "2"], ["0.707", "0.707", "1.414"], ["0.493", "0.493", "1"]]):
        view.set(stage=stage)
        assert numbers(view) == row
    for stage in (3, 4):
        view.set(stage=stage)
        assert numbers(view) == ["0.248", "0.248", "0.503"]
    assert numbers(view, "output") == ["1", "1.248"]
    view.set(query=0, Q=[[1000.0]], K=[[1.0], [0.999]], V=[[1.0], [2.0]])
    assert numbers(view) == ["0.731", "0.269"]


def test_corners_of_the_hull_are_those_of_the_values(shown):
    view = shown(AttentionStepper())
    for seed in range(20):
        values = np.random.default_rng(seed).normal(size=(1 + seed % 6, 2)).tolist()
        found = view.compute({"Q": [[1, 0]], "K": [[1, 0]] * len(values), "V": values})["hull"]
        assert set(found) == set(corners(values)), seed
        assert (
            len(values) < 3
            or found[found.index(min(found)) :] + found[: found.index(min(found))]
            == (expected := corners(values))[expected.index(min(expected)) :]
            + expected[: expected.index(min(expected))]
        )
    assert view.compute({"Q": [[1]], "K": [[1]], "V": [[1]]})["hull"] == []


def test_it_opens_with_vectors_and_scores_and_nothing_is_an_empty_box(shown):
    view = shown(AttentionStepper())
    assert numbers(view) == ["1", "0", "1"]
    assert view.locator(".st-bar:visible").count() > 12
    assert view.locator(".st-dot:visible").count() == 7 + 1  # v1 to v3, k1 to k3, q; the output has no size yet to see
    assert float(view.locator(".st-out").get_attribute("opacity")) == 0


def test_a_bar_is_as_long_as_its_weight_and_the_parts_of_a_score_join(shown):
    view = shown(AttentionStepper([[2, 1]], [[1, 1], [0, 2]], [[1, 0], [0, 1]]))
    boxes = [one.bounding_box() for one in view.locator(".st-piece").all()]
    (first, second), (none, whole) = boxes[:2], boxes[2:]
    assert first["width"] == pytest.approx(2 * second["width"], abs=1)
    assert first["x"] + first["width"] == pytest.approx(second["x"], abs=1.5)
    assert none["width"] < 2 and whole["width"] == pytest.approx(first["width"], abs=1)
    view.set(stage=3)
    boxes = [one.bounding_box() for one in view.locator(".st-piece").all()]
    weights = F.softmax(torch.tensor([3.0, 2.0]) / math.sqrt(2), dim=-1)
    assert boxes[0]["width"] / boxes[2]["width"] == pytest.approx(float(weights[0] / weights[1]), abs=0.05)


def test_the_output_is_drawn_where_its_numbers_say_among_the_values(shown):
    view = shown(AttentionStepper(query=2, stage=4))
    weights = np.array([float(text) for text in numbers(view)])
    first, second, third = places(view, ".st-dot.st-of-v circle:not(.st-hit)")
    [output] = places(view, ".st-out .st-core")
    assert output == pytest.approx(weights @ [first, second, third], abs=1)


def test_dragging_the_query_moves_the_output_and_stays_inside_the_triangle(shown):
    view = shown(AttentionStepper(stage=4))
    [before] = places(view, ".st-out .st-core")
    unit = np.linalg.norm(np.subtract(*places(view, ".st-dot.st-of-k circle:not(.st-hit)")[:2])) / math.sqrt(2)
    drag(view, "[data-tip=q] circle:not(.st-hit)", -unit, -unit)
    assert view.get("Q")[0] == [0, 1] == view.saved("Q")[0]
    assert view.get("Q")[1:] == [[0, 1], [1, 1]]
    [after] = places(view, ".st-out .st-core")
    assert np.abs(after - before).max() > 5
    drag(view, "[data-tip=q] circle:not(.st-hit)", -999, -999)
    output = np.array([float(text.replace("−", "-")) for text in numbers(view, "output")])
    inside = np.linalg.solve(np.array([[2, 0, 1], [0, 3, 1], [1, 1, 1]], dtype=float), [*output, 1])
    assert view.get("Q")[0] == [-1.5, 1.5] and (inside > -1e-3).all()


def test_keys_move_their_score_and_every_weight_and_values_the_output_alone(shown):
    view = shown(AttentionStepper(stage=4, query=0))
    weights, output = numbers(view), numbers(view, "output")
    view.set(stage=0)
    scores = numbers(view)
    drag(view, ".st-dot.st-of-k circle:not(.st-hit) >> nth=1", 30, 0)
    assert view.get("K")[1][0] > 0 and view.get("K")[::2] == [[1, 0], [1, 1]]
    assert [a == b for a, b in zip(scores, numbers(view))] == [True, False, True]
    view.set(stage=4)
    assert not any(a == b for a, b in zip(weights, numbers(view)))
    weights, output = numbers(view), numbers(view, "output")
    view.part("vector", "v2").press("ArrowRight")
    view.part("vector", "v2").press("Shift+ArrowUp")
    assert view.get("V")[2] == [1, 2] == view.saved("V")[2]
    assert numbers(view) == weights
    assert [a == b for a, b in zip(output, numbers(view, "output"))] == [True, False]


def test_a_bar_is_dragged_to_its_number(shown):
    view = shown(AttentionStepper([[1, 0, 0]], [[1, 0, 0], [0, 1, 0]], [[1], [2]], stage=4))
    box = view.part("vector", "q").locator(".st-hit").bounding_box()
    x = box["x"] + box["width"] / 2
    view.stroke((x, box["y"] + box["height"] / 2), (x, box["y"] - 40))
    assert view.get("Q") == [[1, 1.5, 0]] == view.saved("Q")


def test_a_finger_drags_the_query(shown):
    view = shown(AttentionStepper(stage=4), width=390, height=844, has_touch=True)
    x, y = view.middle(view.locator("[data-tip=q] circle:not(.st-hit)"))
    view.touch((x, y), (x - 10, y - 30), (x - 20, y - 300))
    assert view.get("Q")[0][1] == 1.5


def test_lists_arrays_and_tensors_are_taken():
    Q, K, V = arrays(9, 2, 4, 3, 5)
    for kind in (lambda a: a, np.ndarray.tolist, torch.from_numpy):
        widget = AttentionStepper(kind(Q), kind(K), kind(V))
        assert (widget.Q, widget.K, widget.V) == (Q.tolist(), K.tolist(), V.tolist())


def test_one_array_can_be_given_new_numbers_and_all_three_another_size():
    widget = AttentionStepper(stage=3)
    widget.K = np.full((3, 2), 0.5)
    assert widget.K == [[0.5, 0.5]] * 3
    widget.put(np.ones((1, 4)), np.ones((2, 4)), np.ones((2, 3)), tokens=["a", "b"])
    assert (np.shape(widget.Q), np.shape(widget.V), widget.tokens, widget.stage) == ((1, 4), (2, 3), ["a", "b"], 3)
