"""The wall of heads: every head is there with its recorded map, patterns and effect, and all of them can be reached."""

from __future__ import annotations

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
    (None, dict(text=3), "text must be 0 to 2; it is 3"),
    (None, dict(query=-2), "query must be -1 to 13; it is -2"),
    (None, dict(show="grammar"), "show"),
]
REFUSED_LATER = [("head", -1, "head must be 0 to 269; it is -1"), ("text", 3, "text must be 0 to 2; it is 3")]
FIXTURES = [state_of(HeadWall(head, text)) for head, text in [("18.6", 0), ("0.0", 1), ("29.8", 2)]]


def recorded(text):
    """Weights (30, 9, n, n), baseline and probabilities without each head, of one of the widget's texts."""
    heads, p = data.heads(), [2, 0, 1][text]
    weights = data.stream().first_weights if text == 1 else heads.weights[1][..., :11, :11]
    weights = weights[..., :7, :7] if text == 2 else weights
    ablation = heads.ablation
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
    assert ["".join(text["tokens"]) for text in widget.texts] == [
        ablation.prompts[p].replace(" ", "") for p in (2, 0, 1)
    ]
    for text, p in zip(widget.texts, (2, 0, 1)):
        assert text["words"][text["answer"]] == ablation.answers[p]


def test_it_is_small_enough_for_a_page():
    state = state_of(HeadWall())
    assert sum(len(value) for value in state.values() if isinstance(value, bytes)) < 60_000


def test_a_head_is_found_with_the_arrow_keys_and_by_pointing(shown):
    view = shown(HeadWall("18.6"))
    view.part("go", "wall").focus()
    view.keyboard.press("ArrowRight")
    view.keyboard.press("ArrowUp")
    assert view.saved("head") == 19 * 9 + 5
    assert view.part("go", "wall").get_attribute("aria-valuetext").startswith("layer 19, head 5, ")
    box = view.part("go", "wall").bounding_box()
    view.mouse.move(box["x"] + box["width"] * 16.5 / 30, box["y"] + box["height"] * 0.5 / 9)
    assert view.locator(".hw-title b").inner_text() == "Head 16.0"
    assert view.get("head") == 19 * 9 + 5
    view.mouse.down()
    view.mouse.up()
    view.mouse.move(0, 0)
    assert view.locator(".hw-title b").inner_text() == "Head 16.0"
    assert view.saved("head") == 144


def test_filters_light_the_heads_of_a_pattern_and_count_them(shown):
    view = shown(HeadWall())
    kinds = reference(FIXTURES[0])["kinds"]
    view.part("show", "induction").click()
    assert view.saved("show") == "induction"
    assert view.locator(".hw-wall g:not(.hw-dim)").count() == kinds.count(3)
    assert view.part("show", "induction").locator("b").inner_text() == str(kinds.count(3))
    view.part("show", "matters").click()
    lit = view.each(".hw-wall g", "!one.classList.contains('hw-dim')")
    assert lit == reference(FIXTURES[0])["matters"].tolist()
    view.part("show", "matters").click()
    assert view.saved("show") == "" and view.locator(".hw-dim").count() == 0


def test_switching_a_head_off_shows_the_recorded_probabilities(shown):
    view = shown(HeadWall("16.0"))
    _, whole, without = recorded(0)
    assert view.texts(".hw-number")[0] == f"{whole[0]:.2f}"
    view.press("off")
    assert view.saved("off") is True
    assert view.texts(".hw-number")[0] == f"{without[144, 0]:.2f}"
    assert view.part("go", "off").inner_text() == "16.0 is off"
    view.part("go", "text").select_option("1")
    _, _, without = recorded(1)
    assert view.texts(".hw-number")[0] == f"{without[144, 0]:.2f}"


def test_one_query_has_lines_alone(shown):
    view = shown(HeadWall("18.6"))
    view.part("go", "query").focus()
    view.keyboard.press("ArrowUp")
    assert view.saved("query") == 10
    widths = view.each(".hw-line", "[one.dataset.line, parseFloat(one.style.strokeWidth)]")
    weights = reference(FIXTURES[0])["weights"]
    assert {name for name, width in widths if width} == {f"10-{j}" for j in range(11) if weights[10, j] >= 0.05}
    view.keyboard.press("Escape")
    assert view.saved("query") == -1


def test_the_summary_says_the_pattern_and_the_effect(shown):
    said = shown(HeadWall("18.6")).said()
    assert said.startswith("Head 18.6, what followed last time, score 0.86")
    assert "“announced₁₀” reads “record”" in said and "without this head" in said


def test_print_gets_the_wall_the_map_and_the_bars():
    widget = HeadWall("16.0")
    figure = widget.picture()
    assert widget.pattern == "previous"
    assert [axes.get_title() for axes in figure.axes[:2]] == ["heads by measured pattern", "head 16.0, previous"]
