"""The model in the page before it is there: a recorded sentence, its heads, what each layer says, and a switch."""

import gzip
import json

import numpy as np
import pytest

from attnlab import data
from attnlab.widgets import LiveModel
from attnlab.widgets.live_model import N_WORDS
from tests.attnlab.widget_page import packed, state_of

EXAMPLES = [(LiveModel("16.0"), dict(head=0), dict(off=True), dict(query=1))]
STILL = [".lm-wall", ".lm-views"]
STOPS = ["text", "read", "0", "1", "2", "3", "4", "wall", "on", "off", "temperature", "top_k", "top_p"]
SET = [dict(head=3, query=2)]
REFUSED = [
    ("30.0", {}, "up to \"29.8\"; it is '30.0'"),
    (270, {}, "head must be 0 to 269; it is 270"),
    ("1.1", dict(query=5), "query must be -1 to 4; it is 5"),
]
REFUSED_LATER = [("head", -1, "head must be 0 to 269; it is -1")]
FIXTURES = [state_of(LiveModel(head, off=off)) for head, off in [("18.6", False), ("0.0", True), ("29.8", True)]]


def reference(state):
    stream, ablation, head = data.stream(), data.heads().ablation, state["head"]
    p = ablation.prompts.index("The capital of France is")
    whole = ablation.baseline[p, :N_WORDS].round(5)
    without = ablation.probabilities[p, head // 9, head % 9, :N_WORDS].astype("f2").astype(float)
    first = [words[0] for words in stream.words[0]]
    starts = [layer for layer in range(31) if layer == 0 or first[layer] != first[layer - 1]]
    return {
        "weights": np.round(255 * stream.first_weights[head // 9, head % 9]) / 255,
        "next.*.1": without if state["off"] else whole,
        "next.*.2": whole,
        "runs.*.0": starts,
        "runs.*.1": [*(start - 1 for start in starts[1:]), 30],
    }


OFF = reference(state_of(LiveModel("16.0", off=True)))["next.*.1"]
WRITTEN = sorted(f"{share:.2f}" for share in OFF)
INK = ".lm-ink => Number(one.style.getPropertyValue('--weight'))"
CONTROLS = {
    "a head is found with the arrow keys and by pressing": (
        LiveModel("18.6"),
        ("go=wall: ArrowRight | keys: ArrowUp", {"head": 19 * 9 + 5, ".lm-title": "Head 19.5"}),
        (f"drag go=wall at {16.5 / 30},{0.5 / 9}", dict(head=144)),
    ),
    "switching a head off shows the recorded probabilities": (
        LiveModel("16.0"),
        ("how=off", {"off": True, "[data-how=mean]:disabled": 1, "said~": "Head 16.0 is off"}),
        {"=> [...document.querySelectorAll('.lm-number')].map((one) => one.textContent).sort()": WRITTEN},
    ),
    "a pressed token shows what it reads": (
        LiveModel("18.6"),
        ("query=2", {"query": 2, "pressed query": ["2"]}),
        {INK: pytest.approx(reference(FIXTURES[0])["weights"][2], abs=1e-4)},
    ),
}


def test_outside_of_the_book_there_is_no_button_and_it_says_why(shown):
    view = shown(LiveModel())
    assert view.part("go", "read").inner_text() == "Load the model and read (97 MB, once)"
    view.evaluate("delete document.documentElement.dataset.content_root")
    view.evaluate("mount(document.getElementById('widget')).length")
    assert not view.part("go", "read").is_visible() and not view.part("go", "write").is_visible()
    assert "on the book's site" in view.locator(".lm-note").inner_text()


def test_in_a_notebook_the_kernels_model_answers(shown):
    """The widget draws the answers to its requests, which come as messages with arrays next to them."""
    view = shown(LiveModel("1.2"))
    view.evaluate("""() => {
      delete document.documentElement.dataset.content_root;
      model.set("own", true);
      window.asked = [];
      model.send = (what) => asked.push(what);
      const hear = [];
      const on = model.on;
      model.on = (name, f) => (name === "msg:custom" ? hear.push(f) : on(name, f));
      const bytes = (numbers) => new DataView(new Float32Array(numbers).buffer);
      window.tell = (data, numbers) => hear.forEach((f) => f(data, numbers ? [bytes(numbers)] : []));
      mount(document.getElementById("widget"));
    }""")
    assert view.part("go", "read").inner_text() == "Read"
    view.part("go", "text").fill("Two words")
    view.press("read")
    assert view.evaluate("asked") == [{"read": "Two words"}]
    view.evaluate("tell({ tokens: ['Two', ' words'], ids: [1, 2] })")
    weights = [1, 0, 0.25, 0.75]
    for layer in range(30):
        view.evaluate("([layer, numbers]) => tell({ layer }, numbers)", [layer, weights * 9])
    view.evaluate("tell({ next: [['.', 0.5, 0.5], [' and', 0.25, 0.25]], lens: Array(31).fill(['.', 0.5]) })")
    view.evaluate("tell({ ready: true, kept: true, simd: true })")
    assert view.texts(".lm-chip") == ["Two", "words"]
    drawn = view.each(".lm-ink", "one.style.getPropertyValue('--weight')")
    assert drawn == ["0.2500", "0.7500"]
    assert view.texts(".lm-word")[:2] == [".", "and"]
    view.part("how", "off").click()
    assert view.evaluate("asked.at(-1)") == {"head": [1, 2, 1]}
    assert view.part("how", "mean").is_disabled() and not view.part("go", "break").is_visible()
    view.evaluate("tell({ error: 'ValueError: too wide' })")
    view.rest()
    assert view.locator(".lm-note").inner_text() == "ValueError: too wide"


def test_it_is_small_enough_for_a_page():
    widget = LiveModel()
    state = state_of(widget)
    assert sum(len(value) * 4 / 3 for value in state.values() if isinstance(value, bytes)) < 12_000
    page = json.dumps([widget._esm, widget._css, packed(state)])
    assert len(gzip.compress(page.encode())) < 40_000  # as a server sends it
