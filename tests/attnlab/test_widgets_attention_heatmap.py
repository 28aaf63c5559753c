"""The heatmap: the weights arrive unharmed, every cell can be reached and read, and bad arrays are refused by name."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab import data
from attnlab.widgets.attention_heatmap import AttentionHeatmap
from tests.attnlab.widget_page import state_of


def softmaxed(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return F.softmax(2 * torch.randn(shape, generator=generator, dtype=torch.float64), dim=-1)


def make(weights=((((1.0,),),) * 3,), tokens=("a",), **options):
    return AttentionHeatmap(weights, list(tokens), **options)


def names(letter, n):
    return [f"{letter}{i}" for i in range(n)]


def rectangle(seed, *shape, **chosen):
    return AttentionHeatmap(softmaxed(seed, *shape), names("q", shape[-2]), key_tokens=names("k", shape[-1]), **chosen)


THREE = [[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.31, 0.565]]
TOKENS = ["The", "CEO", "announced"]
EVERY_COLOR = np.linspace(0, 1, 192).reshape(16, 12)
EXAMPLES = [
    (rectangle(10, 30, 9, 7, 7), dict(layer=4, head=2), dict(query=3), dict(query=0, layer=29)),
    (AttentionHeatmap(THREE, TOKENS), dict(query=1), dict(query=0)),
    (rectangle(10, 2, 4, 9), dict(head=1, query=3)),
]
ROOM = (-65, 5)
REFUSED = [
    (np.ones(3), ["a"], {}, r"their shape is \(3,\)"),
    (np.ones((1, 1, 1, 1, 1)), ["a"], {}, r"\(1, 1, 1, 1, 1\)"),
    (np.zeros((0, 2)), [], {}, r"\(0, 2\)"),
    (np.eye(3), ["a", "b"], {}, r"name the 3 queries \(rows\); 2 were given"),
    (np.full((2, 3), 0.1), ["a", "b"], {}, r"key_tokens \(left out, so tokens\) must name the 3 keys \(columns\); 2"),
    (np.full((2, 3), 0.1), ["a", "b"], dict(key_tokens=["x"]), r"key_tokens must name the 3 keys \(columns\); 1"),
    (np.array([[3.5]]), ["a"], {}, "go from 3.5 to 3.5. Are they scores"),
    (np.array([[-1.0]]), ["a"], {}, "between 0 and 1"),
    (np.array([[np.nan]]), ["a"], {}, "between 0 and 1"),
    ([[1.0], [0.5, 0.5]], ["a", "b"], {}, "array of numbers"),
    (np.eye(2), ["a", "b"], dict(layer=1), "layer must be 0 to 0; it is 1"),
    (np.eye(2)[None].repeat(3, 0), ["a", "b"], dict(head=3), "head must be 0 to 2; it is 3"),
    (np.eye(2), ["a", "b"], dict(query=-1), "query must be 0 to 1; it is -1"),
]
REFUSED_LATER = [("head", 3, "head must be 0 to 2; it is 3")]
EXTREMES = [
    (AttentionHeatmap(EVERY_COLOR, names("q", 16), key_tokens=names("k", 12)),),
    *((AttentionHeatmap(softmaxed(9, 2, 2, n, n), ["announcements"] * n),) for n in (7, 20)),
]
POINTED = ".hm-read"
SET = [dict(layer=1, head=1, query=0)]
STOPS = ["layer", "head", "6-5"]
FIXTURES = [
    state_of(rectangle(seed, *shape, layer=layer, head=head, query=shape[2] - 1))
    for seed, shape in [(1, (2, 3, 4, 5)), (2, (1, 1, 6, 2)), (3, (3, 1, 1, 7)), (4, (1, 4, 5, 1))]
    for layer, head in np.ndindex(*shape[:2])
]


def reference(state):
    kind = {"float16": "<f2", "float32": "<f4"}[state["dtype"]]
    weights = np.frombuffer(state["data"], kind).reshape(state["shape"])[state["layer"], state["head"]].astype(float)
    row = weights[state["query"]]
    ranking = np.argsort(-row, kind="stable")
    return {"weights": weights, "sums": weights.sum(-1), "row": row, "ranking": ranking}


KEYS = {
    "ArrowUp": "1-2",
    "ArrowLeft": "2-1",
    "ArrowRight": "2-2",
    "ArrowDown": "2-2",
    "Home": "2-0",
    "Home End": "2-2",
    "Control+Home": "0-0",
    "Control+Home Control+End": "2-2",
    "PageUp": "0-2",
    "ArrowUp ArrowUp ArrowUp ArrowLeft ArrowRight": "0-2",
}
LAYERS = softmaxed(5, 2, 3, 4, 4)
NUMBERS = ".hm-cell => Number(one.textContent.replace('<', ''))"
CONTROLS = {
    "the map shows the weights and a row as bars where the pointer is": (
        AttentionHeatmap(THREE, TOKENS),
        {".hm-cell": ["1.00", "0", "0", "0.25", "0.75", "0", "0.13", "0.31", "0.56"]},
        {"[role=gridcell][aria-label='announced looks at CEO: 0.31'][data-cell='2-1']": 1},
        ("hover cell=1-1", {".hm-value": ["0.250", "0.750", "0"], ".hm-read": "CEO looks at CEO: 0.75"}),
        ("hover .hm-title", {"query": 2, ".hm-value": ["0.125", "0.310", "0.565"]}),
        ("cell=1-0", {"query": 1, ".hm-value": ["0.250", "0.750", "0"], ".hm-read": "CEO looks at The: 0.25"}),
        {".hm-bar[style='width: 25%;'], .hm-bar[style='width: 75%;'], .hm-bar[style='width: 0%;']": 3},
    ),
    "a tiny weight is told from no weight": (
        AttentionHeatmap([[0.999, 0.001, 0]], ["a"], key_tokens=["a", "b", "c"]),
        {".hm-cell": ["1.00", "<.01", "0"], "cell=0-1@aria-label": "a looks at b: less than 0.01"},
    ),
    "the summary names the keys looked at most": (
        AttentionHeatmap([[THREE, THREE]], TOKENS, head=1),
        {"said": "Head 1: announced looks most at announced (0.56), then CEO (0.31), then The (0.13)."},
    ),
    "a row that does not sum to one is shown with its sum": (
        AttentionHeatmap([[0.5, 0.25]], ["a"], key_tokens=["a", "b"]),
        {".hm-sum": "sum 0.750"},
    ),
    **{
        f"there is a choice only where there are several: {shape}": (
            AttentionHeatmap(softmaxed(6, *shape), TOKENS),
            {f"select[data-go={name}]": name in visible for name in ("layer", "head")},
        )
        for shape, visible in [
            ((3, 3), []),
            ((2, 3, 3), ["head"]),
            ((2, 1, 3, 3), ["layer"]),
            ((2, 2, 3, 3), ["layer", "head"]),
        ]
    },
    "layer and head change the map": (
        AttentionHeatmap(LAYERS, names("t", 4)),
        ("go=layer := 1", {"layer": 1, NUMBERS: pytest.approx(LAYERS[1, 0].flatten().tolist(), abs=0.0095)}),
        ("go=head := 1", {"head": 1, NUMBERS: pytest.approx(LAYERS[1, 1].flatten().tolist(), abs=0.0095)}),
    ),
    # One stop: the strongest cell of the selected, last, row.
    "arrows, Home and End move the focus": (
        AttentionHeatmap(THREE, TOKENS),
        ("keys: Tab", {"focus": "2-2"}),
        *(
            (
                f"keys: Control+End {keys}",
                {"focus": at, ".hm-cell[tabindex='0']": 1, ".hm-cell[tabindex='0']@data-cell": at, "query": int(at[0])},
            )
            for keys, at in KEYS.items()
        ),
    ),
}


def test_half_precision_is_read_bit_for_bit(shown):
    # Every half between 0 and 1: subnormals, both borders, and each exponent in between.
    halves = np.arange(0x3C01, dtype="<u2").view("<f2")[:15360].astype(float).reshape(120, 128)
    widget = AttentionHeatmap(halves, names("q", 120), key_tokens=names("k", 128))
    assert widget.dtype == "float16"
    view = shown(AttentionHeatmap(THREE, TOKENS))
    assert np.array_equal(view.compute(state_of(widget))["weights"], halves)


def test_the_recorded_sentence_arrives_unharmed(shown):
    recording = data.seven_tokens()
    widget = AttentionHeatmap.from_recording(recording, layer=4, head=2)
    view = shown(widget)
    for layer, head in [(0, 0), (4, 2), (29, 8)]:
        got = view.compute({**state_of(widget), "layer": layer, "head": head})["weights"]
        np.testing.assert_allclose(got, recording.weights[layer, head], rtol=0, atol=1e-7)
    assert (widget.layer, widget.head, widget.tokens) == (4, 2, recording.tokens)
    assert len(widget.data) == 4 * 30 * 9 * 7 * 7


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_colors_are_ordered_in_lightness(shown, theme):
    view = shown(AttentionHeatmap(THREE, TOKENS), theme=theme)
    lightness = view.each(".aw-ramp i", "Number(getComputedStyle(one).backgroundColor.match(/oklch.([0-9.]+)/)[1])")
    steps = np.diff(lightness)
    assert np.all(steps < 0) if theme == "light" else np.all(steps > 0)
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.01)


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5), (2, 3, 4, 5)])
def test_the_bytes_are_pytorchs_softmax_and_missing_leading_axes_are_added(shape):
    weights = softmaxed(11, *shape)
    widget = AttentionHeatmap(weights.numpy(), names("q", 4), key_tokens=names("k", 5))
    assert widget.shape == [1] * (4 - len(shape)) + list(shape)
    np.testing.assert_allclose(widget.weights.reshape(shape), weights, rtol=0, atol=1e-7)


TRAITS = {
    "bytes are as few as keep the numbers": (
        dict(weights=np.eye(5), tokens=names("t", 5)),
        dict(data=np.eye(5, dtype="<f2").tobytes(), weights=np.eye(5)[None, None].tolist()),
    ),
    "the weights can be replaced by others of another size": (
        dict(weights=softmaxed(13, 2, 3, 4, 4).numpy(), tokens=names("t", 4), layer=1, head=2),
        lambda widget: widget.put(np.eye(3), TOKENS),
        dict(shape=[1, 1, 3, 3], tokens=TOKENS, layer=0, head=0),
    ),
}


def test_print_gets_a_picture():
    panel = AttentionHeatmap(softmaxed(15, 2, 2, 3, 3), TOKENS).picture().axes[0]
    assert panel.get_title() == "layer 0, head 0"
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("key: is read", "query: reads")
