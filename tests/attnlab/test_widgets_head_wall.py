"""The wall of heads: every head is there with its recorded map, patterns and effect, and all of them can be reached."""

import numpy as np

from attnlab import data
from attnlab.widgets import HeadWall
from attnlab.widgets.head_wall import LEAST, MATTERS, N_WORDS, PATTERNS, kinds_of
from tests.attnlab.widget_page import state_of

MANY = 270
EXAMPLES = [
    (
        HeadWall("16.0"),
        dict(head=166),
        dict(off=True),
        dict(text=1),
        dict(text=2, off=False),
        dict(text=0, show="matters"),
    ),
]
ROOM = (-8, 8)
STILL = [".hw-wall", ".hw-bar"]
GLIDES = [(HeadWall("16.0"), dict(off=True), {".hw-now": "style"})]
STOPS = ["all", *PATTERNS, "mixed", "matters", "wall", "text", "off", "query"]
SET = [dict(head=0, query=1), dict(show="first")]
POINTED = ".hw-nothing"
REFUSED = [
    ("30.0", {}, "up to \"29.8\"; it is '30.0'"),
    ("1.9", {}, "it is '1.9'"),
    ("head", {}, "it is 'head'"),
    (270, {}, "head must be 0 to 269; it is 270"),
    (None, dict(text=4), "text must be 0 to 3; it is 4"),
    (None, dict(query=-2), "query must be -1 to 13; it is -2"),
    (None, dict(show="grammar"), "show"),
]
REFUSED_LATER = [("head", -1, "head must be 0 to 269; it is -1"), ("text", 4, "text must be 0 to 3; it is 4")]
FIXTURES = [state_of(HeadWall(head, text)) for head, text in [("18.6", 0), ("0.0", 1), ("29.8", 2), ("13.8", 3)]]


def recorded(text):
    """Weights (30, 9, n, n), baseline and probabilities without each head, of one of the widget's texts."""
    heads, pronoun = data.heads(), data.pronoun()
    if text == 3:
        return pronoun.weights, pronoun.whole, pronoun.without.reshape(MANY, -1)
    weights = [heads.weights[1][..., :11, :11], data.stream().first_weights, data.seven_tokens().weights][text]
    ablation, p = heads.ablation, [2, 0, 1][text]
    return weights, ablation.baseline[p, :N_WORDS], ablation.probabilities[p, ..., :N_WORDS].reshape(MANY, -1)


def reference(state):
    weights, whole, without = recorded(state["text"])
    head, answer = state["head"], state["texts"][state["text"]]["answer"]
    scores = np.stack([data.heads().measures[name].ravel() for name in PATTERNS]).astype("f4").astype(float)
    without = without.astype("f2").astype(float)
    whole = whole.round(5)
    kinds = [3 if its[3] >= LEAST else its.argmax() if its.max() >= LEAST else 4 for its in scores.T]
    return {
        "weights": np.round(255 * weights.reshape(MANY, *weights.shape[2:])[head]) / 255,
        "scores": scores[:, head],
        "kinds": kinds,
        "matters": abs(without[:, answer] - whole[answer]) >= MATTERS,
        "without": without[head],
        "most": max(whole.max(), without.max()),
    }


def test_python_sorts_the_heads_as_the_page_does():
    scores = np.stack([data.heads().measures[name] for name in PATTERNS])
    assert kinds_of(scores).tolist() == reference(FIXTURES[0])["kinds"]


def test_the_texts_are_those_of_the_recorded_ablations():
    widget, ablation = HeadWall(), data.heads().ablation
    assert ["".join(text["tokens"]) for text in widget.texts[:3]] == [
        ablation.prompts[p].replace(" ", "") for p in (2, 0, 1)
    ]
    for text, p in zip(widget.texts, (2, 0, 1), strict=False):  # the fourth is about no word
        assert text["words"][text["answer"]] == ablation.answers[p]


BYTES = 80_000
KINDS, MATTERING = (reference(FIXTURES[0])[name] for name in ("kinds", "matters"))
WEIGHTS = reference(FIXTURES[0])["weights"]
WALL = "go=wall"
WHOLE, WITHOUT = recorded(0)[1], [recorded(text)[2][144, 0] for text in (0, 1)]
LINES = "=> [...document.querySelectorAll('.hw-line')].filter((one) => parseFloat(one.style.strokeWidth))"
READ = [f"10-{j}" for j in range(11) if WEIGHTS[10, j] >= 0.05]
CONTROLS = {
    "a head is found with the arrow keys and by pointing": (
        HeadWall("18.6"),
        (f"{WALL}: ArrowRight | keys: ArrowUp", {"head": 19 * 9 + 5, f"{WALL}@aria-valuetext~": "layer 19, head 5, "}),
        (f"hover {WALL} at {16.5 / 30},{0.5 / 9}", {"head": 19 * 9 + 5, ".hw-title b": "Head 16.0"}),
        (f"drag {WALL} at {16.5 / 30},{0.5 / 9}", {"head": 144, ".hw-title b": "Head 16.0"}),
        ("leave", {".hw-title b": "Head 16.0"}),
    ),
    "filters light the heads of a pattern and count them": (
        HeadWall(),
        ("show=induction", {"show": "induction", ".hw-wall g:not(.hw-dim)": KINDS.count(3)}),
        {"[data-show=induction] b": str(KINDS.count(3))},
        ("show=matters", {".hw-wall g => !one.classList.contains('hw-dim')": MATTERING.tolist()}),
        ("show=matters", {"show": "", ".hw-dim": 0}),
    ),
    "switching a head off shows the recorded probabilities": (
        HeadWall("16.0"),
        {".hw-number >> nth=0": f"{WHOLE[0]:.2f}"},
        ("off", {"off": True, ".hw-number >> nth=0": f"{WITHOUT[0]:.2f}", "go=off": "16.0 is off"}),
        ("go=text := 1", {".hw-number >> nth=0": f"{WITHOUT[1]:.2f}"}),
    ),
    "one query has lines alone": (
        HeadWall("18.6"),
        ("go=query: ArrowUp", {"query": 10, f"{LINES}.map((one) => one.dataset.line)": READ}),
        ("keys: Escape", dict(query=-1)),
    ),
    "the summary says the pattern and the effect": (
        HeadWall("18.6"),
        {"said~": ["Head 18.6, what followed last time, score 0.86", "“announced₁₀” reads “record”"]},
        {"said~": "without this head"},
    ),
}


def test_print_gets_the_wall_the_map_and_the_bars():
    widget = HeadWall("16.0")
    figure = widget.picture()
    assert widget.pattern == "previous"
    assert [axes.get_title() for axes in figure.axes[:2]] == ["heads by measured pattern", "head 16.0, previous"]
