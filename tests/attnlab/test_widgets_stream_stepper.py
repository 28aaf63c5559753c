"""The stream stepper: its strips add up, its norms and words are the recorded ones, and it can be played."""

from __future__ import annotations

import numpy as np

from attnlab import data
from attnlab.widgets import StreamStepper
from tests.attnlab.widget_page import state_of

EXAMPLES = [(StreamStepper(), dict(block=12), dict(block=29), dict(text=1), dict(text=1, block=0))]
ROOM = (-8, 8)
STILL = [".ss-film", ".ss-out"]
STOPS = ["text", "block", "play"]
PLAYS = [(StreamStepper(block=27), dict(block=29))]
GLIDES = [(StreamStepper(), dict(block=29), {".ss-after path": "d"})]
SET = [dict(text=1, block=7)]
REFUSED = [
    (dict(text=2), "text must be 0 to 1; it is 2"),
    (dict(block=30), "block must be 0 to 29; it is 30"),
    (dict(block=-1), "block must be 0 to 29; it is -1"),
]
REFUSED_LATER = [("block", 30, "block must be 0 to 29; it is 30")]
FIXTURES = [state_of(StreamStepper(text, block)) for text, block in [(0, 0), (0, 29), (1, 13)]]


def reference(state):
    recorded, text, block = data.stream(), state["text"], state["block"]
    rms = np.round(recorded.rms[text], 4)
    states = recorded.stream[text] * rms[:, None]
    before, middle, after = states[2 * block : 2 * block + 3]
    last, width = rms[2 * block + 2], states.shape[1]
    return {
        "strips.before": before / last,
        "strips.read": (middle - before) / last,
        "strips.thought": (after - middle) / last,
        "strips.after": after / last,
        "norms.before": rms[2 * block] * width**0.5,
        "norms.after": last * width**0.5,
        "norms.read": round(recorded.added[text, 2 * block], 3),
        "norms.thought": round(recorded.added[text, 2 * block + 1], 3),
        "probabilities": np.round(recorded.probabilities[text, block + 1], 4),
        "answer": round(recorded.answer_probabilities[text, block + 1], 4),
    }


def test_what_is_added_adds_up_to_the_stream_after_the_block(shown):
    view = shown(StreamStepper())
    for state in FIXTURES:
        strips = view.compute(state)["strips"]
        total = np.sum([strips[name] for name in ("before", "read", "thought")], axis=0)
        np.testing.assert_allclose(total, strips["after"], atol=1e-9)


def test_it_is_small_enough_for_a_page():
    assert sum(len(value) for value in state_of(StreamStepper()).values() if isinstance(value, bytes)) < 80_000


def test_the_words_are_those_of_the_depth_and_the_answer_is_marked(shown):
    view, recorded = shown(StreamStepper(block=29)), data.stream()
    assert view.texts(".ss-out li .ss-word") == recorded.words[0][30]
    assert view.locator(".ss-says b").inner_text() == recorded.words[0][30][0]
    right = [row[0] == "Paris" for row in recorded.words[0]]
    marked = view.each(".ss-column", "one.classList.contains('ss-right')")
    assert marked == right and right[-1]


def test_the_slider_and_a_column_choose_the_block(shown):
    view = shown(StreamStepper())
    view.slider("block").press("End")
    assert view.saved("block") == 29
    view.locator(".ss-column").nth(11).click()
    assert view.saved("block") == 10
    assert view.locator(".ss-block").inner_text() == "10"
    assert view.locator(".ss-column").nth(11).evaluate("(one) => one.classList.contains('ss-now')")


def test_print_gets_the_strip_and_the_words():
    strip, line = StreamStepper(block=5).picture().axes
    assert strip.get_title().startswith("stream after block 5")
    assert [label.get_text() for label in line.get_xticklabels()] == [row[0] for row in data.stream().words[0]]
