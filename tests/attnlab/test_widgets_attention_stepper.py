"""The stepper: numbers are PyTorch's, bars and points are where these are, and bad arrays are refused by name."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab.widgets.attention_stepper import AttentionStepper
from tests.attnlab.widget_page import number, sets

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


SUMS = [
    ("key-2", "q1 · k3 = 1·1 + 0·1 = 1"),
    ("key-0", "1 / √2 = 1 / 1.414 = 0.707"),
    ("key-1", "e0 − 0.707 = e−0.707 = 0.493"),
    ("key-1", "0.493 / (1 + 0.493 + 1) = 0.198"),
    ("output-1", "column 2 of V: 0.401·0 + 0.198·3 + 0.401·1 = 0.994"),
]
KEYS, OUTPUT, PIECES = "[data-cell^=key] text", "[data-cell^=output] text", ".st-piece => one.getBoundingClientRect()"
TIP, KEY = "[data-tip=q] circle:not(.st-hit)", ".st-dot.st-of-k circle:not(.st-hit)"
PAPER = [["1", "1", "2"], ["0.707", "0.707", "1.414"], ["0.493", "0.493", "1"], *[["0.248", "0.248", "0.503"]] * 2]
CONTROLS = {
    "the worked example ends where paper ends, and scores of a thousand give weights": (
        AttentionStepper(query=2),
        *((sets(stage=stage), {KEYS: row}) for stage, row in enumerate(PAPER)),
        {OUTPUT: ["1", "1.248"]},
        sets(query=0, Q=[[1000.0]], K=[[1.0], [0.999]], V=[[1.0], [2.0]]),
        {KEYS: ["0.731", "0.269"]},
    ),
    "it opens with vectors and scores, next goes through the stages and around, and a tab goes there": (
        AttentionStepper(),
        {
            KEYS: ["1", "0", "1"],
            "=> [...document.querySelectorAll('.st-bar')].filter((one) => one.checkVisibility()).length > 12": True,
        },
        # v1 to v3, k1 to k3, q; the output has no size yet to see.
        {".st-dot:visible": 7 + 1, ".st-out@opacity": "0"},
        *(({"[aria-current=step]@data-stage-tab": stage}, "next") for stage in STAGES),
        (dict(stage=0), "back", dict(stage=0)),
        ("stage-tab=output", {"stage": 4, "go=next": "Replay"}),
        ("back", {"stage": 3, ".st-number-output[aria-hidden=true]": 2}),  # the output is not there yet
    ),
    "reset brings back the first query and the first numbers": (
        AttentionStepper(stage=3),
        ("query=1 | vector=k0: Shift+ArrowUp", dict(K=[[2, 0], [0, 1], [1, 1]])),
        ("reset", dict(stage=3, query=0, K=[[1, 0], [0, 1], [1, 1]])),
    ),
    "the keyboard alone does it all": (
        AttentionStepper(),
        ("go=next: Enter Enter Enter Enter", dict(stage=4)),
        ("tip=q: ArrowUp ArrowUp Shift+ArrowLeft", dict(Q=[[0, 0.2], [0, 1], [1, 1]])),
        ("cell=output-0: Space", {".st-why~": "column 1 of V: "}),
    ),
    "arrays of another size are drawn anew": (
        AttentionStepper(stage=3, query=1),
        sets(query=0, Q=[[1, 2, 3]], K=[[1, 0, 0], [0, 1, 0]], V=[[1], [3]], stage=0),
        {KEYS: ["1", "2"], "[data-vector]": 1 + 2 + 2, ".st-plane": 0},
    ),
    "a number opens to its sum, which follows the numbers and the stage, and closes again": (
        AttentionStepper(),
        *(
            (
                (sets(stage=stage), f"cell={cell}", {".st-why": text, f"cell={cell}@aria-pressed": "true"}),
                (f"cell={cell}", {".st-opened": 0, f"cell={cell}@aria-pressed": "false"}),
            )
            for stage, (cell, text) in enumerate(SUMS)
        ),
        sets(stage=0),
        ("cell=key-0", sets(K=[[1, -4], [0, 1], [1, 1]], query=2), {".st-why": "q3 · k1 = 1·1 + 1·(−4) = −3"}),
        ("next", {".st-why": "−3 / √2 = −3 / 1.414 = −2.121"}),
    ),
    "the summary tells the state": (
        AttentionStepper(tokens=["the", "cat", "sat"]),
        {"said": "Stage 1 of 5, scores, for q1: k1 the 1, k2 cat 0, k3 sat 1."},
        sets(stage=4, query=2),
        {"said": "Stage 5 of 5, output, for q3: (1, 1.248). Largest weight: k3 sat, 0.503."},
    ),
    "a bar is dragged to its number": (
        AttentionStepper([[1, 0, 0]], [[1, 0, 0], [0, 1, 0]], [[1], [2]], stage=4),
        ("drag [data-vector=q] .st-hit -> [data-vector=q] .st-hit at 0.5,-3", dict(Q=[[1, 1.5, 0]])),
    ),
    "a finger drags the query": (
        AttentionStepper(stage=4),
        (f"touch {TIP} -> {TIP} at -1,-2 -> {TIP} at -2,-30", {"=> model.get('Q')[0][1]": 1.5}),
    ),
}


def numbers(view, where=KEYS):
    return np.array([number(text) for text in view.each(where, "one.textContent")])


def test_corners_of_the_hull_are_those_of_the_values(shown):
    view = shown(AttentionStepper())
    for seed in range(20):
        values = np.random.default_rng(seed).normal(size=(1 + seed % 6, 2)).tolist()
        found = view.compute({"Q": [[1, 0]], "K": [[1, 0]] * len(values), "V": values})["hull"]
        expected = corners(values)
        turned = found.index(expected[0])
        assert sorted(found) == sorted(expected), seed
        assert len(values) < 3 or found[turned:] + found[:turned] == expected, seed
    assert view.compute({"Q": [[1]], "K": [[1]], "V": [[1]]})["hull"] == []


def test_a_bar_is_as_long_as_its_weight_and_the_parts_of_a_score_join(shown):
    view = shown(AttentionStepper([[2, 1]], [[1, 1], [0, 2]], [[1, 0], [0, 1]]))
    (first, second), (none, whole) = np.reshape(view.look(PIECES, None), (2, 2))
    assert first["width"] == pytest.approx(2 * second["width"], abs=1)
    assert first["x"] + first["width"] == pytest.approx(second["x"], abs=1.5)
    assert none["width"] < 2 and whole["width"] == pytest.approx(first["width"], abs=1)
    view.set(stage=3)
    first, _, second, _ = view.look(PIECES, None)
    weights = F.softmax(torch.tensor([3.0, 2.0]) / math.sqrt(2), dim=-1)
    assert first["width"] / second["width"] == pytest.approx(float(weights[0] / weights[1]), abs=0.05)


def places(view, part):
    return [np.array(view.middle(one)) for one in view.locator(part).all()]


def test_the_output_is_drawn_where_its_numbers_say_among_the_values_and_follows_the_query(shown):
    view = shown(AttentionStepper(query=2, stage=4))
    [output] = places(view, ".st-out .st-core")
    assert output == pytest.approx(numbers(view) @ places(view, ".st-dot.st-of-v circle:not(.st-hit)"), abs=1)
    view.set(query=0)
    [before] = places(view, ".st-out .st-core")
    first, second, _ = places(view, KEY)  # at (1, 0) and (0, 1)
    [query] = places(view, TIP)
    view.stroke(query, query + second - first)
    assert view.get("Q") == [[0, 1], [0, 1], [1, 1]] == view.saved("Q")
    [after] = places(view, ".st-out .st-core")
    assert np.abs(after - before).max() > 5
    view.do(f"drag {TIP} -> {TIP} at -99,-99")
    inside = np.linalg.solve(np.array([[2, 0, 1], [0, 3, 1], [1, 1, 1]], dtype=float), [*numbers(view, OUTPUT), 1])
    assert view.get("Q")[0] == [-1.5, 1.5] and (inside > -1e-3).all()


def test_keys_move_their_score_and_every_weight_and_values_the_output_alone(shown):
    view = shown(AttentionStepper(stage=0, query=0))
    scores = numbers(view)
    view.set(stage=4)
    weights, output = numbers(view), numbers(view, OUTPUT)
    view.do(f"drag {KEY} >> nth=1 -> {KEY} >> nth=1 at 4,0.5")
    assert view.get("K")[1][0] > 0 and view.get("K")[::2] == [[1, 0], [1, 1]]
    assert not any(numbers(view) == weights)
    view.set(stage=0)
    assert (numbers(view) == scores).tolist() == [True, False, True]
    view.set(stage=4)
    weights, output = numbers(view), numbers(view, OUTPUT)
    view.do("vector=v2: ArrowRight Shift+ArrowUp")
    assert view.get("V")[2] == [1, 2] == view.saved("V")[2]
    assert all(numbers(view) == weights)
    assert (numbers(view, OUTPUT) == output).tolist() == [True, False]


def test_lists_arrays_and_tensors_are_taken_and_replaced():
    Q, K, V = arrays(9, 2, 4, 3, 5)
    for kind in (lambda a: a, np.ndarray.tolist, torch.from_numpy):
        widget = AttentionStepper(kind(Q), kind(K), kind(V))
        assert (widget.Q, widget.K, widget.V) == (Q.tolist(), K.tolist(), V.tolist())
    widget = AttentionStepper(stage=3)
    widget.K = np.full((3, 2), 0.5)
    assert widget.K == [[0.5, 0.5]] * 3
    widget.put(np.ones((1, 4)), np.ones((2, 4)), np.ones((2, 3)), tokens=["a", "b"])
    assert (np.shape(widget.Q), np.shape(widget.V), widget.tokens, widget.stage) == ((1, 4), (2, 3), ["a", "b"], 3)
