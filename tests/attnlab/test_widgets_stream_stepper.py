"""The stream stepper: its strips add up, its norms and words are the recorded ones, and it can be played."""

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


BYTES = 80_000
SLIDERS = [(StreamStepper(), "block", range(30))]
WORDS = data.stream().words[0]
FIRST = [row[0] for row in WORDS]
assert FIRST[-1] == "Paris"
CONTROLS = {
    "the words are those of the depth and the answer is marked": (
        StreamStepper(block=29),
        {".ss-out li .ss-word": WORDS[30], ".ss-says b": FIRST[30]},
        {".ss-column => one.classList.contains('ss-right')": [word == "Paris" for word in FIRST]},
    ),
    "a column chooses the block": (
        StreamStepper(),
        (".ss-column >> nth=11", {"block": 10, ".ss-block": "10"}),
        {".ss-column.ss-now": 1, "=> document.querySelectorAll('.ss-column')[11].matches('.ss-now')": True},
    ),
}


def test_print_gets_the_strip_and_the_words():
    strip, line = StreamStepper(block=5).picture().axes
    assert strip.get_title().startswith("stream after block 5")
    assert [label.get_text() for label in line.get_xticklabels()] == FIRST
