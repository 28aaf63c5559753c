"""The word shuffler: its outputs against NumPy, and each of its controls in a browser."""

import numpy as np
import pytest

from attnlab.widgets import WordShuffler
from tests.attnlab.widget_page import sets, sines, state_of
from tests.references import attention

SHUFFLERS = [
    WordShuffler(),
    WordShuffler(order=[2, 1, 0]),
    WordShuffler(order=[2, 0, 1], positions=True),
    WordShuffler(["to", "be", "or", "not", "maybe", "yes"], order=[5, 0, 3, 1, 4, 2], positions=True),
]
FIXTURES = [state_of(shuffler) for shuffler in SHUFFLERS]
STOPS = ["shuffle", "positions", "reset", "dog", "bites", "man"]
SET = [dict(order=[1, 0, 2], positions=True)]
AGAIN = WordShuffler(order=[1, 2, 0], positions=True)
REFUSED = [
    (["dog"], {}, "2 to 6 different words"),
    (["dog", "dog"], {}, "2 to 6 different words"),
    (dict(order=[0, 1]), "order must hold 0 to 2 once each"),
    (dict(order=[0, 1, 1]), "order must hold"),
]
EXAMPLES = [(WordShuffler(), dict(order=[2, 1, 0]), dict(positions=True), dict(order=[1, 2, 0]))]
GLIDES = [(WordShuffler(), dict(order=[2, 1, 0]), {".ws-column": "style"})]
EXTREMES = [(WordShuffler(["understanding", "announced", "record", "earnings", "on", "Friday"]),)]


def outputs(state, order):
    x = np.array(state["vectors"], dtype=float)[order]
    if state["positions"]:
        x = x + sines(range(len(x)), x.shape[1])
    found = np.zeros_like(x)
    found[order] = attention(x, x, x)
    return found


def reference(state):
    now, first = outputs(state, state["order"]), outputs(state, list(range(len(state["words"]))))
    return {"outputs": now, "first": first, "changes": np.abs(now - first).max(1)}


def test_the_picture_for_print_has_the_same_outputs():
    for shuffler, state in zip(SHUFFLERS, FIXTURES):
        np.testing.assert_allclose(shuffler.outputs(shuffler.order, shuffler.positions), outputs(state, state["order"]))


CHANGE = reference(state_of(SHUFFLERS[1]) | dict(positions=True))["changes"][0]
TOLD = "[data-value=told-dog] => Number(one.textContent.replace('± ', ''))"
CONTROLS = {
    "without positions no order changes an output and with them one does": (
        WordShuffler(),
        (sets(order=[2, 1, 0]), {"=verdict": "0 of 3 outputs changed", "=told-dog": "same"}),
        {"said~": "0 of 3 outputs differ from those of “dog bites man”."},
        (sets(positions=True), {"=verdict": "3 of 3 outputs changed", TOLD: pytest.approx([CHANGE], abs=0.0051)}),
        {"said~": "3 of 3 outputs differ from those of “dog bites man”."},
        (sets(order=[0, 1, 2]), {"=verdict": "0 of 3 outputs changed"}),
    ),
}


def test_words_change_places_and_take_their_bars_along(shown):
    view = shown(WordShuffler())
    bars = ".ws-column:nth-child(1) .ws-out"
    before = view.each(bars, "one.style.height")
    view.part("word", "dog").click()
    assert view.get("order") == [1, 0, 2] == view.saved("order")
    assert view.spot("word=bites") < view.spot("word=dog") < view.spot("word=man")
    assert view.each(bars, "one.style.height") == before
    for _ in range(3):
        old = view.get("order")
        view.press("shuffle")
        assert view.get("order") != old and sorted(view.saved("order")) == [0, 1, 2]
    view.part("go", "positions").check()
    assert view.saved("positions") is True
